"""What looks like a secret is masked, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runner import records
from runner.cell import Cell, Plan
from runner.compose import composition
from runner.compose.words import mask_override
from runner.engine.grid import Grid
from runner.engine.measure import measure
from runner.errors import BadInput
from runner.masking import (
    MASK,
    find_secrets,
    hide_secrets_in_file,
    is_secret_name,
    mask_value,
    mask_word,
)
from runner.overrides import quote_value
from runner.records import Status, Trial
from runner.render import html
from runner.store.content import describe_record
from tests.factories import ended_trial, memory_trial
from tests.unit.engine.conftest import Recorder, executor_on

HUSH = "hush-hush, 'very\\ secret'"
ARGUMENTS = {
    "token": HUSH,
    "hub": {"api_key": "k3y-of-mine", "url": "https://me:my-pass@data.example/x?token=t0ken&n=1"},
    "argv": ["--password", "pa55word", "--auth-token=t0k3n", "--depth", "3"],
    "key_dim": 64,
    "tokenizer": "bert",
}
SECRETS = ("hush-hush", "k3y-of-mine", "my-pass", "t0ken", "pa55word", "t0k3n")
SAID = (HUSH, *SECRETS[1:])


@pytest.mark.parametrize(
    "name", ["password", "db_password", "hubToken", "API_KEY", "x.secret", "tokens", "pw", "auth"]
)
def test_a_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokenizer", "monkey", "keyword", "passes", "max_tokens", "author", "size", "p"]
)
def test_a_name_that_is_alike_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_numbers_and_references_to_the_environment_stand() -> None:
    values = {"key_dim": 64, "key": None, "use_key": True, "token": "${oc.env:TOKEN}"}
    assert mask_value(values) == values


def test_what_is_masked_is_found_again_in_other_texts() -> None:
    found = find_secrets(ARGUMENTS)
    assert all(any(secret in each for each in found) for secret in SECRETS)
    assert {"my-pass", "me:my-pass", HUSH} <= set(found)


@pytest.mark.parametrize(
    ("word", "masked"),
    [
        ("scenario.arguments.token=abc", "scenario.arguments.token=***"),
        ("++scenario.arguments={token: abc, w: 3}", "++scenario.arguments={token: '***', w: 3}"),
        ("scenario.a={'key':'a,b}',d:{pwd:x}}", "scenario.a={'key':'***',d:{pwd:'***'}}"),
        ("scenario.url=https://me:abc@host/x", "scenario.url=https://***@host/x"),
        ("scenario.key_dim=64", "scenario.key_dim=64"),
        ("scenario.arguments.token=${oc.env:TOKEN}", "scenario.arguments.token=${oc.env:TOKEN}"),
        ("--api-key=abc", "--api-key=***"),
        ("batch_size=32", "batch_size=32"),
    ],
)
def test_a_word_keeps_everything_but_its_secret(word: str, masked: str) -> None:
    assert mask_word(word) == masked
    assert mask_word(masked) == masked


WAYS = {
    "a mapping": ["--cfg", '{"password": "VALUE", "n": 1}'],
    "a deep mapping": ["--cfg", '{"a": [{"b": {"api_key": "VALUE"}}]}'],
    "a mapping with its flag": ['--cfg={"password": "VALUE"}'],
    "a mapping of Python's": ["--cfg", "{'password': 'VALUE'}"],
    "a letter": ["-p", "VALUE"],
    "a short flag": ["--pw", "VALUE"],
    "a flag and a colon": ["--passwd:VALUE"],
    "a flag and an equals sign": ["--auth=VALUE"],
    "a bearer": ["--bearer", "VALUE"],
    "a header": ["-H", "Authorization: Bearer VALUE"],
    "another header": ["-H", "X-Api-Key: VALUE"],
    "a connection": ["Server=x;Password=VALUE;Port=3"],
    "a quoted connection": ["host=x password='VALUE' port=3"],
    "several": ["--tokens", "VALUE", "VALUE2", "--depth", "3"],
    "a signed address": ["https://b.example/o?X-Amz-Date=1&X-Amz-Signature=VALUE&n=1"],
    "a user of an address": ["postgresql://me:VALUE@host/x"],
    "a name of the user's": ["--dsn", "VALUE"],
}
"""Words of a script that carry a secret."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("secret", ["s3cr-et-of-mine", "abcd", "aGVsbG8="])
def test_a_secret_is_masked_and_found_however_it_is_given(
    way: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_SECRET_NAMES", "dsn, session_id")
    argv = [word.replace("VALUE", secret) for word in WAYS[way]]
    masked = mask_value({"argv": argv})
    assert secret not in str(masked)
    assert MASK in str(masked)
    assert mask_value(masked) == masked
    assert secret in find_secrets({"argv": argv})
    word = f"scenario.argv={quote_value(argv)}"
    assert secret not in mask_override(word), word
    assert mask_override("batch_size=32") == "batch_size=32"


@pytest.mark.parametrize(
    "argv",
    [
        ["-p", "8080", "--path", "data"],
        ["--config", '{"width": 3, "name": "a"}', "--depth", "3"],
        ["--lr=0.1", "--url", "https://host/x?n=1", "basic: usage", "a=b;c=d"],
        ["--max-tokens", "12", "--tokenizer", "bert", "-x", "pass"],
    ],
)
def test_words_without_a_secret_stand(argv: list[str]) -> None:
    assert mask_value(argv) == argv
    assert find_secrets(argv) == []


@pytest.mark.parametrize(
    "words",
    [
        ["tracking=server", "tracking.uri=https://me:s3cr-et@host:99999999/"],
        ["tracking=server", "tracking.uri=ftp://host/?token=s3cr-et"],
        ["scenario.nothing={token: s3cr-et}"],
        ["scenario.nothing.api_key=s3cr-et"],
        ["scenario=none", "password=s3cr-et"],
    ],
)
def test_no_message_has_a_secret_that_was_typed(
    words: list[str], front_door: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_OUTPUTS", str(tmp_path))
    ended = front_door(*words)
    assert ended.returncode == 2
    assert "s3cr-et" not in ended.stdout + ended.stderr


def test_a_log_keeps_its_length(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"before hush-hush\n\xff after hush-hush\n")
    hide_secrets_in_file(log, ["hush-hush"])
    assert log.read_bytes() == b"before *********\n\xff after *********\n"


@given(st.text("'\"\\\\{}[],:= $aZ9", min_size=2).map("ZQ".__add__))
def test_no_secret_is_kept_whatever_it_holds(secret: str) -> None:
    quoted = quote_value(secret)
    for word in (
        f"scenario.arguments={{width: 1, deep: {{api_key: {quoted}}}, last: 2}}",
        f"+scenario.arguments.token={quoted}",
        *(f"scenario.arguments={json.dumps({'key': [secret], 'w': 1})}",),
    ):
        assert "ZQ" not in mask_word(word), word
    assert mask_value({"deep": [{"token": secret}], "w": 1}) == {"deep": [{"token": MASK}], "w": 1}


class Careless(Recorder):
    """In place of the server: user's code that says its arguments wherever it can."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.log_of_cell = log
        self.given: list[Any] = []

    def run(self, spec: Any, *_: object, **__: object) -> Trial:
        self.given.append(spec.experiment.parameters["arguments"])
        with self.log_of_cell.open("a") as log:
            log.write("\n".join(["connecting with", *SAID, ""]))
        if spec.index:
            return ended_trial(spec.kind, Status.FAILED, "steps", f"refused: {SAID}")
        return memory_trial(unavailable={"host": f"no {HUSH}"})


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "careless.py").write_text("def step(**arguments): ...\n")
    wanted = {
        "scenario": "callable", "scenario.target": "careless:step",
        "scenario.arguments": ARGUMENTS, "measure.timing_processes": 0,
        "measure.memory_processes": 2, "tracking": "none",
    }  # fmt: skip
    return composition.compose_cells([wanted])[0]


def test_no_file_of_a_run_holds_a_secret_and_the_child_gets_it(cell: Cell, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    world = Careless(folder / "run.log")
    measure(Grid(Plan((cell,), False, None, ())), folder, executor_on(world), [])
    assert world.given == [ARGUMENTS, ARGUMENTS]
    html.write_page(folder)
    record = records.read(folder)
    assert record.outcome.reason
    assert record.outcome.reason.startswith("refused: ")
    assert record.spec.parameters["arguments"]["key_dim"] == 64
    told = str(msgspec.to_builtins(describe_record(record, folder).tags))
    texts = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
    assert texts.keys() >= {"record.json", "trials.jsonl", "config.yaml", "run.log", "report.html"}
    for name, text in {**texts, "MLflow": told}.items():
        assert not [secret for secret in SECRETS if secret in text], name
    kept = yaml.safe_load(texts["config.yaml"])["scenario"]["arguments"]
    assert (kept["token"], kept["key_dim"]) == (MASK, 64)


def test_a_changed_cell_still_has_its_secrets(cell: Cell) -> None:
    changed = composition.change_cell(cell, 1, {"seed": 7})
    assert changed.experiment.parameters["arguments"] == ARGUMENTS
    assert not [secret for secret in SECRETS for word in changed.overrides if secret in word]


def test_the_words_of_a_sweep_are_kept_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "careless2.py").write_text("def step(token, width): ...\n")
    words = ["-m", "scenario=callable", "scenario.target=careless2:step", "tracking=none"]
    plan = composition.compose_plan(
        [*words, "scenario.arguments={token: hush-hush, width: 1}", "seed=1,2"]
    )
    assert len({each.experiment.cell for each in plan.cells}) == 2
    assert "hush-hush" not in str(Grid(plan).question)
    with pytest.raises(BadInput, match="varies what looks like a secret"):
        composition.compose_plan(
            [*words, "scenario.arguments.width=1", "scenario.arguments.token=abcd,efgh"]
        )
