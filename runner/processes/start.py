"""Start a zygote: `python .../runner/processes/start.py ARGUMENTS`, as JSON, with its `sys.path`.

A file of its own, run by its path, so that the lowest frame of every child is known to be ours.
"""

import json
import sys

if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    sys.path[:] = arguments.pop("path")

    from runner.processes.zygote import serve

    serve(**arguments)()
