"""The order of the slow lane."""

from __future__ import annotations

from pathlib import Path

import pytest

LONGEST = (
    *("real_case/test_real_case.py", "cluster/test_cluster.py", "script/test_leak_and_fit.py"),
    *("leak/test_planted.py", "cluster/test_ray.py", "cluster/test_slurm.py", "test_hostile.py"),
    *("test_what_users_have.py", "leak/test_holders.py", "processes/test_kills.py"),
)
"""The files of a minute and more, the longest first: one that begins last is waited for."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest; pytest-xdist keeps this order with `--no-loadscope-reorder`."""
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


assert all((Path(__file__).parent / name).exists() for name in LONGEST)
