"""Reading a script without running it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from runner.errors import BadInput
from runner.script import source
from runner.script.source import choose_environment, read_environment, read_script


def environment(folder: Path, text: str, **outside: str) -> dict[str, str]:
    (folder / "script.py").write_text(text)
    script = read_script(str(folder / "script.py"))
    return choose_environment(read_environment(script), outside)


SETS = """
import os
from os import environ
os.environ["TF_USE_LEGACY_KERAS"] = "1"
environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
if True:
    os.environ.update({"XLA_FLAGS": "--xla", "MY_OWN": "x"}, OMP_NUM_THREADS="2")
import tensorflow as tf
os.environ["TF_TOO_LATE"] = "1"
"""


def test_what_is_set_before_tensorflow_is_imported_is_found(tmp_path: Path) -> None:
    found = environment(tmp_path, SETS)
    assert found == {
        "TF_USE_LEGACY_KERAS": "1",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "XLA_FLAGS": "--xla",
        "OMP_NUM_THREADS": "2",
    }


def test_a_default_gives_way_to_what_is_set_outside(tmp_path: Path) -> None:
    text = 'import os\nos.environ.setdefault("TF_A", "1")\nos.environ["TF_B"] = "2"\n'
    assert environment(tmp_path, text, TF_A="3", TF_B="2") == {}


def test_what_only_the_script_knows_is_to_be_set_outside(tmp_path: Path) -> None:
    text = 'import os, sys\nos.environ["XLA_FLAGS"] = sys.argv[1]\nimport keras\n'
    with pytest.raises(BadInput, match=r"script\.py:2 sets XLA_FLAGS .* Set it outside|Set it"):
        environment(tmp_path, text)
    assert environment(tmp_path, text, XLA_FLAGS="--xla") == {}


def test_a_notebooks_cells_are_pieces_and_its_magics_are_left_out(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {
            "cell_type": "code",
            "source": ["!pip install x\n", "import keras\n", "%matplotlib inline"],
        },
        {"cell_type": "code", "source": "%%bash\nls"},
        {"cell_type": "code", "source": ["if 1:\n", "    %time\n", "    model.fit(x)"]},
    ]
    path = tmp_path / "book.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "cells": cells}))
    script = read_script(str(path))
    assert [piece.file for piece in script.pieces] == [f"{path}[cell 1]", f"{path}[cell 3]"]
    assert script.pieces[1].text.splitlines()[1:] == ["    pass", "    model.fit(x)"]
    assert len(script.left_out) == 4
    assert len(script.parse()) == 2
    assert script.trains


def test_what_is_no_notebook_is_told(tmp_path: Path) -> None:
    (tmp_path / "book.ipynb").write_text("{}")
    with pytest.raises(BadInput, match="is not a notebook"):
        read_script(str(tmp_path / "book.ipynb"))


PROGRAM = """\
import keras
model = keras.Sequential()
def report(history):
    print(history)
def main():
    for epoch in range(9):
        model.fit(epoch)
        model.reset()
    with open("x") as file:
        model.evaluate(file)
        file.write("")
    model.save("m")
    x = 1
if __name__ == "__main__":
    main()
    report(1)
print("done")
"""


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (7, [9, 12]),  # in the loop: the rest of the function
        (10, [11, 12]),  # in the with
        (12, []),
        (15, [16, 17]),  # in the guard: its rest, and that of the module
        (17, []),
    ],
)
def test_what_comes_after_a_line_is_in_its_own_function(line: int, after: list[int]) -> None:
    statements = source.list_statements_after(ast.parse(PROGRAM), line)
    assert [statement.lineno for statement in statements] == after


def test_a_nul_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "nul.py").write_text("print(1)\n\0\n")
    with pytest.raises(BadInput, match=r"nul\.py, line 2: source code string cannot contain null"):
        source.read_script(str(tmp_path / "nul.py")).parse()
