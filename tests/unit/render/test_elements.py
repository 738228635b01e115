"""What the page is made of can't be broken by what is written into it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from runner.allocations import Allocations
from runner.records import Outcome, Record, Status
from runner.render import html
from runner.render.html.elements import tag, write_document
from tests.factories import completed, failed, kept
from tests.unit.render.known import PEAK, make_known_run
from tests.unit.render.pages import Element, parse_page

HOSTILE = (
    "</script></style></title><script>window.hacked = 1</script>"
    '<img src="http://192.0.2.1/x" onerror="window.hacked = 2">&lt;b&gt;"\''
    " \x1b[31m\x00 \ud800 漢 ü"
)


def make_hostile_run(id: str = "one", **like: object) -> Record:
    """A record in which everything that a user, an op or a machine can name is hostile."""
    record = make_known_run(id=id)
    group = {
        **PEAK["groups"][0],
        "op": HOSTILE,
        "dtype": HOSTILE,
        "scopes": [{"scope": HOSTILE.replace("/", "") + "/inner", "count": 1, "bytes": 5_160_004}],
        "bytes": 5_160_004,
    }
    leak = {**group, "scope": HOSTILE, "count_per_step": 1, "bytes_per_step": 4}
    parameters = {"target": HOSTILE, HOSTILE: 1}
    values = {
        "spec": dataclasses.replace(record.spec, scenario=HOSTILE, parameters=parameters),
        "allocations": msgspec.convert(
            {**PEAK, "groups": [group], "leaks": [leak], "phase": HOSTILE, "step": None},
            Allocations,
        ),
        "unavailable": {"host_growth_bytes_per_step": HOSTILE},
        "environment": msgspec.structs.replace(
            record.environment,
            versions={HOSTILE: HOSTILE},
            cpu=HOSTILE,
            flags={"TF_X": HOSTILE},
            device=HOSTILE,
        ),
        **like,
    }
    return dataclasses.replace(record, **values)  # type: ignore[arg-type]


def write_hostile_sweep(folder: Path) -> Path:
    cells = [
        make_hostile_run(cell="one"),
        make_hostile_run("two", cell="two", outcome=Outcome(Status.FAILED, HOSTILE, HOSTILE)),
        make_hostile_run("three", cell="three"),
    ]
    for number, record in enumerate(cells):
        kept(record, folder / str(number))
    return folder


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_hostile_names_are_text_and_nothing_else(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / kind
    write_hostile_sweep(folder) if kind == "sweep" else kept(make_hostile_run(), folder)
    tree = parse_page(html.write_page(folder).read_text())
    assert len(tree.all("script")) == len(tree.all("style")) == len(tree.all("title")) == 1
    assert tree.all("img") == []
    assert "window.hacked = 1</script>" in tree.text
    assert "&lt;b&gt;" in tree.text
    assert "\x1b" not in tree.text
    assert "\x00" not in tree.text
    assert "ü" in tree.text


def list_elements(tree: Element) -> list[Element]:
    below = [child for child in tree.children if isinstance(child, Element)]
    return [*below, *(each for child in below for each in list_elements(child))]


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_the_page_names_no_address_and_forbids_itself_to_load_any(
    kind: str, tmp_path: Path
) -> None:
    folder = tmp_path / kind
    write_hostile_sweep(folder) if kind == "sweep" else kept(make_hostile_run(), folder)
    tree = parse_page(html.write_page(folder).read_text())
    loading = {"src", "href", "srcset", "data", "action", "background", "poster"}
    for each in list_elements(tree):
        assert not loading & set(each.attributes), each.name
        assert not any(name.startswith("on") for name in each.attributes), each.name
        assert "url(" not in (each.attributes.get("style") or "")
    assert "url(" not in str(tree.all("style")[0].children)
    assert "@import" not in str(tree.all("style")[0].children)
    (policy,) = [m for m in tree.all("meta") if "http-equiv" in m.attributes]
    assert (policy.attributes["content"] or "").startswith("default-src 'none'; ")


@pytest.mark.parametrize(
    "record", [completed(), failed(), make_known_run()], ids=["plain", "failed", "known"]
)
def test_an_ordinary_page_has_no_http_in_it_at_all(record: Record, tmp_path: Path) -> None:
    text = html.write_page(kept(record, tmp_path / "run")).read_text()
    assert "http://" not in text
    assert "https://" not in text


def test_text_and_attributes_are_escaped_and_children_keep_their_order() -> None:
    tree = parse_page(
        write_document("t", tag("p", "a<b", tag("b", "&"), "c", None, ["d", tag("i", "e")], "f"))
    )
    (paragraph,) = tree.all("p")
    assert paragraph.text == "a<b & cd e f"
    tree = parse_page(
        write_document("t", tag("p", "x", title='"><script>', data_value=1.5, hidden=True, id=None))
    )
    (paragraph,) = tree.all("p")
    assert paragraph.attributes == {"title": '"><script>', "data-value": "1.5", "hidden": ""}


# Colours: what a person with little sight, or in the dark, can still tell.

CSS = (Path(html.__file__).parent / "plot.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", block))
    for block in CSS.split("@media (prefers-color-scheme: dark)")[:2]
)


def find_luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def find_contrast(one: str, other: str) -> float:
    low, high = sorted((find_luminance(one), find_luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_shapes_stand_out_from_the_ground_in_both_schemes(scheme: dict[str, str]) -> None:
    for ground in ("ground", "raised"):
        for words in ("text", "muted", "link", "failed"):
            assert find_contrast(scheme[words], scheme[ground]) >= 4.5, (words, ground)
        for shape in (
            "held",
            "kept",
            "gradient",
            "passing",
            "unknown",
            *(f"s{n}" for n in range(8)),
        ):
            assert find_contrast(scheme[shape], scheme[ground]) >= 3, (shape, ground)
