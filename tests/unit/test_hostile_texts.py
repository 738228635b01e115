"""Texts that attacks were found with: each was let through once."""

from __future__ import annotations

import dataclasses
import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from runner.masking import find_secrets, mask_word
from runner.render.files.command import write_command
from runner.sanitize import escape_csv
from tests.factories import completed


@pytest.mark.parametrize(
    "text", [" =1", "\n=1", "\r\n+x", "\xa0@SUM(1)", "＝1", "＋x", "－x", "＠x"]
)
def test_a_formula_behind_a_blank_or_in_wide_letters_is_text(text: str) -> None:
    assert escape_csv(text).startswith("'")


@pytest.mark.parametrize("text", [" 5", "-5 MB", "\n+3", "a=1", "", " "])
def test_what_is_no_formula_stays_as_it_is(text: str) -> None:
    assert not escape_csv(text).startswith("'")


@pytest.mark.parametrize(
    ("word", "masked"),
    [
        ("scenario.argv=[--token,abcd,--n,3]", "scenario.argv=[--token,'***',--n,3]"),
        ("scenario.argv=['--api-key=ab,cd',x]", "scenario.argv=['--api-key=***',x]"),
        ("scenario.argv=[--api-key=abcd,x]", "scenario.argv=[--api-key=***,x]"),
        (r"a={argv:[-n,1,'--pwd','a\'b,c']}", "a={argv:[-n,1,'--pwd','***']}"),
        ('a=["--secret=a\\"b",c]', 'a=["--secret=***",c]'),
        ("a=[--token,'${oc.env:TOKEN}']", "a=[--token,'${oc.env:TOKEN}']"),
        ("a=[--depth,3,--tokenizer,bert]", "a=[--depth,3,--tokenizer,bert]"),
    ],
)
def test_a_flag_s_secret_in_a_list_is_masked(word: str, masked: str) -> None:
    assert mask_word(word) == masked


def test_a_secret_is_found_again_as_json_writes_it() -> None:
    given = {"token": 'quoted "é" \\'}
    assert 'quoted \\"\\u00e9\\" \\\\' in find_secrets(given)


@pytest.mark.parametrize("name", ["size=${oc.env:HOME}", "x hydra.run.dir=/tmp", "a={b:${x}"])
def test_a_parameter_s_name_in_a_record_sets_nothing(name: str) -> None:
    record = completed()
    spec = dataclasses.replace(record.spec, parameters={name: 1})
    command = write_command(dataclasses.replace(record, spec=spec))
    (word,) = (each for each in shlex.split(command) if "scenario." in each)
    assert word.startswith('scenario."')
    with pytest.raises(HydraException):
        OverridesParser.create().parse_override(word)
