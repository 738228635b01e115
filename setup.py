"""The one thing that pyproject.toml can't say: where the parts of the package lie.

In the clone `conf/` and `scenarios/` stand beside `runner/`, in an installed copy within it
(see runner/places.py). A room of `runner/` is found by itself, and so is a group of `conf/`.
"""

from setuptools import find_namespace_packages, find_packages, setup

_MOVED = [
    *find_namespace_packages(include=["conf", "conf.*"]),  # folders of YAML, no Python
    *find_packages(include=["scenarios", "scenarios.*"]),
]

setup(
    packages=[
        *find_packages(include=["runner", "runner.*"]),
        *(f"runner.{name}" for name in _MOVED),
    ],
    package_dir={f"runner.{name}": name.replace(".", "/") for name in _MOVED},
)
