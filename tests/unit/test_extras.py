"""What a plain installation lacks is named in one sentence, with the command that adds it."""

from __future__ import annotations

import importlib.util
import tomllib
from typing import Any

import pytest

from runner import paths
from runner.commands import call
from runner.compose import clusters, composition
from runner.errors import BadInput

CLONE = paths.find_clone()


def test_leak_names_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def lack_memray(name: str, *rest: Any) -> Any:
        return None if name == "memray" else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", lack_memray)
    with pytest.raises(BadInput, match="leak needs memray, which is not installed here") as refused:
        call("leak", ["scenario=tape"])
    assert "pip install 'tf-memory-runner[leak]'" in refused.value.remedy


@pytest.mark.parametrize("module", ["distributed", "dask_jobqueue"])
def test_a_cluster_names_what_it_lacks(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "find_spec", lambda name: None if name == module else name)
    with pytest.raises(BadInput, match=f"hydra/launcher=dask needs {module}, which") as refused:
        composition.compose_plan(["-m", "scenario=tape", "seed=1,2", "hydra/launcher=dask"])
    assert "pip install 'tf-memory-runner[cluster]'" in refused.value.remedy


def test_each_extra_that_a_message_names_is_there() -> None:
    assert CLONE is not None
    extras = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    texts = "".join(file.read_text() for file in (CLONE / "runner").rglob("*.py"))
    named = {part.partition("]")[0] for part in texts.split("tf-memory-runner[")[1:]}
    assert named == {"leak", "optuna", "cluster"}
    assert named <= set(extras)
