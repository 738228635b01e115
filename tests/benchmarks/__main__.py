"""`python -m tests.benchmarks [NAME...]`: what the product costs, and how good its figures are.

Each benchmark is a file beside this one with a `main()`; it prints ratios, measured side by side in
one run, because machines differ and are noisy. Without a name, all of them run.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    for name in names or known:
        if name not in known:
            print(f"{name}: there is no benchmark of that name. There is: {', '.join(known)}.")
            return 2
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"tests.benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
