"""A notebook, executed as `jupyter nbconvert --execute` does it, and looked at as a page."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

import pytest

from runner.errors import BadInput
from runner.integrations import notebook

if TYPE_CHECKING:
    pass


# The cell as a function.


def cell(text: str, **names: object) -> object:
    return notebook.make_function("batch_size=32", text, 7, dict(names))()


def test_a_cell_gives_what_its_last_line_gives() -> None:
    assert cell("x = 2\nx * y", y=21) == 42
    assert cell("total = 0\nfor each in range(4):\n    total += each") is None
    assert cell("x = '''one\n  two'''\n(x,\n 1)\n") == ("one\n  two", 1)
    assert cell("ä = 'ä'; ä * 2") == "ää"


def test_its_lines_keep_their_numbers_below_the_magics_own() -> None:
    step = notebook.make_function("", "one = 1\none + 1\n", 7, {})
    assert step.__code__.co_filename == "In[7]"
    assert linecache.getline("In[7]", 3).strip() == "return one + 1"


@pytest.mark.parametrize("text", ["", "# nothing", "if:", "from math import *"])
def test_a_cell_that_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="%%runner: the cell"):
        notebook.make_function("", text, 7, {})


@pytest.mark.parametrize(
    "word", ["batch_size", "scenario=tape", "hydra.job.name=x", "resume=latest"]
)
def test_words_that_are_no_field_of_a_measurement_are_refused(word: str) -> None:
    with pytest.raises(BadInput, match="is not a field of a measurement"):
        notebook._read_fields(word)
