"""The versions of TensorFlow and MLflow that were tried, and what is lost with another one.

| what | leans on | with a version that was not tried |
| --- | --- | --- |
| tensor figures | events of TensorFlow's trace | null, unless the trace adds up without a gap |
| lines | functions through which Python enters TensorFlow | unknown where one is missing |
| XLA's block | the files of XLA's buffer assignment, 3 since TensorFlow 2.22 | not opened |
| XLA's block in a graph | a span that TensorFlow has since 2.21 | "for" the graph, not opened |
| first guess of `fit` | how the allocator places tensors | more real runs, which decide anyway |
| prepared pages of `ui` | MLflow's saved views | may open without columns and charts |

`python -m tests.matrix` tries them. NVIDIA's library is asked through a stable interface; a figure
that it does not give is null with its reason.
"""

from __future__ import annotations

import re

_TRIED = {"tensorflow": ((2, 20), (2, 22)), "mlflow": ((3, 16), (3, 17))}


def describe_untried(package: str, version: str) -> str | None:
    """Return that this version of a package was not tried, as a clause; None if it was."""
    first, last = _TRIED[package]
    major, minor = map(int, re.findall(r"\d+", version)[:2])
    if first <= (major, minor) <= last:
        return None
    tried = " to ".join(f"{one}.{other}" for one, other in (first, last))
    return f"{package} {version} was not tried with this runner ({tried} were)"
