"""YAML that a user, or a stranger, wrote: data, or one sentence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runner import yaml_files
from runner.errors import BadInput
from tests.conftest import Cli

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BAD = {
    "a date": b"a: 2001-99-99\n",
    "a number without digits": b"a: 0x_\n",
    "a number without end": b"a: " + b"9" * 5000,
    "no number": b"a: !!int x\n",
    "three thousand levels": b"a: " + b"[" * 3000 + b"]" * 3000,
    "itself": b"a: &a [*a]\n",
    "half a character": b'a: "\\ud800"\n',
    "billions": LAUGHS.encode(),
    "UTF-16": "a: b\n".encode("utf-16"),
    "not UTF-8": b"a: \xff\n",
    "a NUL": b"a: \0\n",
    "no truth": b"a: !!bool maybe\n",
    "a class": b"a: !!python/object/apply:os.getcwd []\n",
    "a time": b"a: !!timestamp x\n",
    "a merge": b"<<: 3\n",
    "a key": b"? [a]\n: b\n",
    "a tab": b"a:\n\t- b\n",
    "an unknown alias": b"a: *b\n",
}


@pytest.mark.parametrize("kind", [*BAD, "a pipe"])
def test_what_can_t_be_read_is_one_sentence_in_short_time(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    if kind == "a pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(BAD[kind])
    began = time.process_time()
    with pytest.raises(BadInput, match=r"odd\.yaml: can't be read") as refused:
        yaml_files.read(file)
    assert len(str(refused.value).splitlines()) == 2
    assert time.process_time() - began < 3


@pytest.mark.parametrize("text", ["a: 1\nb: [&c {d: 2}, *c]\n", "", "a: 2001-01-02\n"])
def test_what_is_right_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "right.yaml").write_text(text)
    yaml_files.read(tmp_path / "right.yaml")


@pytest.mark.parametrize("words", [["list"], ["scenario=odd"], ["claims", "odd"]])
def test_each_verb_says_so(words: list[str], tmp_path: Path, front_door: Cli) -> None:
    (tmp_path / "conf" / "scenario").mkdir(parents=True)
    (tmp_path / "conf" / "scenario" / "odd.yaml").write_bytes(BAD["billions"])
    ended = front_door("--config-dir", str(tmp_path / "conf"), *words)
    assert ended.returncode == 2
    assert "odd.yaml: can't be read (it stands for more than 100,000 values)" in ended.stderr
