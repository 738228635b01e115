"""Scripts that were named where a function or a model is wanted: the command that does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.compose import composition
from runner.errors import BadInput

TRAIN = """
import argparse
import keras

def read():
    return argparse.ArgumentParser().parse_args()

def main():
    words = read()

def model():
    return keras.Sequential()
"""
TOP_LEVEL = TRAIN + "net = model()\nnet.compile('adam')\nnet.fit([1], [2])\n"
GUARDED = TRAIN + "if __name__ == '__main__':\n    net = model()\n    net.fit([1], epochs=2)\n"
SCALER = TRAIN + "scaler.fit([1])\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["scenario=callable", "scenario.target=train"], "script train.py"),
        (["scenario=callable", "scenario.target=train.py"], "script train.py"),
        (["scenario=callable", "scenario.target=./train.py"], "script ./train.py"),
        (["scenario=callable", "scenario.target=train:main"], "script train.py WORDS"),
    ],
)
def test_a_script_in_the_place_of_a_function_is_answered_with_its_command(
    words: list[str], command: str
) -> None:
    with pytest.raises(BadInput) as refused:
        composition.compose_plan(words)
    assert f"Say python -m runner {command}" in refused.value.remedy


@pytest.mark.parametrize("text", [TOP_LEVEL, GUARDED, SCALER, TRAIN])
def test_a_models_module_that_trains_when_it_is_imported_is_refused(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "nets.py").write_text(text)
    words = ["scenario=keras_training", "scenario.model=nets:model"]
    if text is not TOP_LEVEL:
        assert composition.compose_plan(words).cells
        return
    with pytest.raises(BadInput, match=r"trains when it is imported \(nets\.py:15\)") as refused:
        composition.compose_plan(words)
    assert "python -m runner script nets.py" in refused.value.remedy
