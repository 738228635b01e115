"""What the product says to people: all of it in one file for reading, none of the retired phrases.

RUNNER_SENTENCES=sentences.txt .venv/bin/python -m pytest tests/unit/test_sentences.py
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import paths

CLONE = paths.find_clone() or Path()

RETIRED = {
    "the sun is the runner's to say": r"'s to say\b",
    "not even 200 more processes would settle it": r"\bnot even\b|would not settle",
    "1 more processes": r"\b1 (?:more )?(?:tests|trials|cells|steps|runs|processes|workers)\b",
    "2.0 times less": r"\btimes (?:less|fewer|smaller)\b",
    "it asks nobody": r"\basks? nobody\b|\bis nobody",
    "there is no telling": r"\bno telling\b",
    "the store has not got it": r"\bhas not got\b",
    "the sampler gave up": r"\bgave up\b",
    "it is not to be set": r"\bnot to be\b",
    "none to be had": r"\bto be had\b",
    "it is not known, for __str__ raises": r", for \w+ raises",
    "one run is told of": r"\b(?:told|tells?) of\b",
}
"""Phrases that readers stumbled over: each with an example, which the pattern has to find."""


def read_sentences(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of three words and more in a module, without its docstrings; of one with
    values in it as it is written: `{count} steps`."""
    tree = ast.parse(file.read_text())
    nodes = list(ast.walk(tree))
    statements = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    formatted = [each for each in nodes if isinstance(each, ast.JoinedStr)]
    within = {id(part) for each in formatted for part in each.values}
    for each in nodes:
        if id(each) in statements | within:
            continue
        if isinstance(each, ast.JoinedStr):
            parts = (
                str(part.value)
                if isinstance(part, ast.Constant)
                else "{"
                + ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part)
                + "}"
                for part in each.values
            )
            text = "".join(parts)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            text = each.value
        else:
            continue
        if len(re.findall(r"(?<!\S)[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", text))) >= 3:
            yield each.lineno, text


SENTENCES = [
    (f"{file.relative_to(CLONE)}:{line}", text)
    for file in sorted((CLONE / "runner").rglob("*.py"))
    for line, text in read_sentences(file)
]


def test_all_sentences_are_written_into_one_file_for_reading(tmp_path: Path) -> None:
    file = Path(os.environ.get("RUNNER_SENTENCES") or tmp_path / "sentences.txt")
    file.write_text("".join(f"{place}\n    {text}\n" for place, text in SENTENCES))
    written = file.read_text()
    assert "runner/errors.py" in written
    assert "leak needs memray, which is not installed here." in written
    assert "more than {MOST_CELLS} " not in written
    assert "the sweep has {cells} cells" in written


@pytest.mark.parametrize(("example", "pattern"), RETIRED.items())
def test_no_sentence_has_a_retired_phrase(example: str, pattern: str) -> None:
    assert re.search(pattern, example)
    assert [place for place, text in SENTENCES if re.search(pattern, text)] == []


def test_docstrings_are_no_sentences_for_users(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""Of a module, a few words."""\nTEXT = f"in all {1 + 1} words were read"\n')
    assert [*read_sentences(module)] == [(2, "in all {1 + 1} words were read")]
