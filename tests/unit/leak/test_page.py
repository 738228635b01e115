"""A leak hunt's page: every answer, holder and remedy that `leak.json` has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.commands import call
from runner.errors import BadInput
from runner.leak.findings import Holder, Leak, LeakVerdict, Remedy, RemedyOutcome
from runner.leak.page import write_leak_page
from tests.factories import completed, kept
from tests.unit.render.pages import Element, parse_page

LEAK = Leak(
    LeakVerdict.GROWS,
    "grows 33.6 kB a step: 33.5 kB of tensors of bias_add at my_module.py:12",
    holders=(
        Holder("tensor", 33_500, 5, "my_module.py", 12, "output = layer(batch)", "tensors of <x>",
               ("`history`, a list in my_module.py:4", "1 EagerTensor a step"), is_held=True),
        Holder("malloc", 100, what="kept by malloc"),
    ),
    remedies=(
        Remedy("gc.collect() between steps", "python -m runner leak a", 33_500,
               RemedyOutcome.USELESS),
        Remedy("malloc=jemalloc", "python -m runner leak b", None, RemedyOutcome.NOT_SHOWN),
        Remedy("keep `float(loss)`, not the tensor"),
    ),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept(completed(), tmp_path / "0")
    leaks = [{"cell": "callable", **LEAK.to_json()}]
    (tmp_path / "leak.json").write_text(json.dumps({"schema": 1, "leaks": leaks}))
    return tmp_path


def test_the_page_has_the_answer_each_holder_and_each_remedy(folder: Path) -> None:
    page: Element = parse_page(write_leak_page(folder).read_text())
    section = page.section("callable")
    assert section.all("p", class_="sentence")[0].text == f"callable {LEAK.sentence}."
    holders, remedies = (table.text for table in section.all("table"))
    for said in ("33.5 kB", "my_module.py:12", "output = layer(batch)", "tensors of <x>",
                 "`history`, a list in my_module.py:4 > 1 EagerTensor a step",
                 "kept by malloc"):  # fmt: skip
        assert said in holders
    for said in ("gc.collect() between steps", "does not help", "unknown", "not shown",
                 "python -m runner leak b"):  # fmt: skip
        assert said in remedies
    assert "keep `float(loss)`, not the tensor" in section.text


def test_report_draws_it_for_the_hunts_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", [str(folder)]) == 0
    assert "What grows from step to step" in Path(capsys.readouterr().out.strip()).read_text()


def test_what_leak_did_not_write_is_refused(folder: Path) -> None:
    (folder / "leak.json").write_text('{"leaks": [{"cell": 3}]}')
    with pytest.raises(BadInput, match="is not what leak writes"):
        write_leak_page(folder)
