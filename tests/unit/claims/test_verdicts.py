"""The judging of claims on known numbers; that each YAML file is whole."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runner import paths
from runner.analysis.law import Shape
from runner.analysis.selection import CellGrid
from runner.claims import cells, comparisons, files, readings, verdicts
from runner.claims import words as claim_words
from runner.claims.page import draw_claims_page
from runner.claims.verdicts import Judgement, Verdict
from runner.errors import BadInput
from runner.fit import search
from runner.records import Record
from runner.render.html.scaling import list_scaling_lines
from tests import factories

T, F, U = True, False, None

IDS = [
    f"{document:03}-{number:02}"
    for document, numbers in (
        (0, range(1, 15)), (1, range(1, 13)), (2, range(1, 10)), (3, range(1, 9)),
        (4, [*range(1, 15), 16]),
    )
    for number in numbers
]  # fmt: skip


def claim_of(*cases: Mapping[str, Any]) -> verdicts.Claim:
    content = {"claim": "it grows", "document": "a test", "cases": [dict(case) for case in cases]}
    return files.parse_claim("test", content, "test.yaml")


def case_of(*expect: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "when": "always",
        "run": {"scenario": "while_loop"},
        "sizes": {"scenario.size": [100, 200, 400]},
        "expect": [dict(each) for each in expect],
        **fields,
    }


def record_with(size: int = 100, **metrics: Any) -> Record:
    intervals = {name: value[1] for name, value in metrics.items() if isinstance(value, tuple)}
    values = {
        name: value[0] if isinstance(value, tuple) else value for name, value in metrics.items()
    }
    record = factories.completed(size=size)
    return dataclasses.replace(
        record, metrics={**record.metrics, **values}, intervals={**record.intervals, **intervals}
    )


def judged(
    claim: verdicts.Claim, metric: str, values: Sequence[Any], against: Sequence[Any] = ()
) -> Judgement:
    """The claim, where `metric` has these values at the sizes 100, 200, 400."""

    def lookup(words: verdicts.Words) -> Record:
        size = int(words.get("scenario.size", 100))
        chosen = against if words["scenario"] == "python_loop" else values
        return record_with(size, **{metric: chosen[(100, 200, 400).index(size)]})

    return verdicts.judge(claim, lookup)


# The verdict.


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ([[T, T, T]], Verdict.SUPPORTED),
        ([[F, F], [F]], Verdict.REFUTED),
        ([[T, T], [F, F]], Verdict.DEPENDS),
        ([[T, F, F]], Verdict.DEPENDS),
        ([[T, T, U]], Verdict.INCONCLUSIVE),
        ([[F, F], [U]], Verdict.INCONCLUSIVE),
        ([[T, U], [F]], Verdict.DEPENDS),
        ([[U, U]], Verdict.INCONCLUSIVE),
    ],
)
def test_the_verdict_follows_from_where_cases_hold(
    cases: list[list[bool | None]], verdict: Verdict
) -> None:
    assert verdicts.decide_verdict(cases) is verdict


def test_linear_growth_is_not_called_exponential() -> None:
    claim = claim_of(case_of({"growth": "tensor_peak_bytes", "shape": "exponential"}))
    assert judged(claim, "tensor_peak_bytes", [100e3, 200e3, 400e3]).verdict is Verdict.REFUTED


@given(
    st.one_of(
        st.sampled_from(
            [
                (1_000_000, 1_030_000, 1_045_000), (1_000, 1_100, 1_240), (7_000, 7_000, 7_000),
                (1_100_000, 1_200_000, 1_400_000), (10_000, 40_000, 160_000), (1, 2_000, 8 * 10**9),
                (900_000, 500_000, 100_000), (10_000, 72_000, 527_000), (0, 0, 5_000_000),
            ]
        ),
        st.tuples(*[st.integers(0, 10**10)] * 3),
        st.tuples(*[st.integers(1_000_000, 1_050_000)] * 3),
    )
)  # fmt: skip
@settings(deadline=None)
def test_claims_report_and_fit_have_one_law_for_the_same_cells(peaks: tuple[int, ...]) -> None:
    claim = claim_of(case_of({"growth": "tensor_peak_bytes", "shape": "linear"}))
    (finding,) = judged(claim, "tensor_peak_bytes", peaks).cases[0].results[0].findings
    records = [
        dataclasses.replace(record_with(size, tensor_peak_bytes=peak), cell=str(size))
        for size, peak in zip((100, 200, 400), peaks, strict=True)
    ]
    (track,) = list_scaling_lines(CellGrid(records), "scenario.size")
    assert track.law is not None
    assert finding.why == track.law.describe("size")
    assert finding.holds == (track.law.shape is Shape.LINEAR)
    model = search.fit_model([search.Probe(size, True, peak)
                          for size, peak in zip((100, 200, 400), peaks, strict=True)])  # fmt: skip
    assert model is not None
    if model.instead is None:
        assert [model.constant, model.linear, model.square] == pytest.approx(
            [*map(float, track.law.polynomial), 0.0, 0.0][:3]
        )
    else:
        assert model.instead == track.law


SLOPE = {
    "slope": "tensor_peak_bytes",
    "unit": "4 * batch_size",
    "at_least": 0.9,
    "because": "one row a unit",
}


DRAWN = [(117_232, (104_432, 117_232)), (117_232, (104_432, 117_232)), (104_432, (104_432,) * 2)]
"""A graph's peaks at three sizes: two values that processes draw; of the last only one was seen."""


@pytest.mark.parametrize(
    ("expect", "verdict", "said"),
    [
        ({"growth": "tensor_peak_bytes", "shape": "flat"}, "supported", "104 to 117 kB, 104 to"),
        ({"growth": "tensor_peak_bytes", "shape": "grows"}, "refuted", "117 kB, 104 kB at size"),
        (
            {"ratio": "tensor_peak_bytes", "at_most": 1.05, "because": "-"},
            "supported",
            "x1, x1, x0.891 to x1 at size",
        ),
        (
            {"ratio": "tensor_peak_bytes", "at_least": 0.95, "because": "-"},
            "inconclusive",
            "it may lie on either side",
        ),
        (
            {"ratio": "tensor_peak_bytes", "at_most": 0.8, "because": "-"},
            "refuted",
            "x0.891 to x1",
        ),
        (
            {"slope": "tensor_peak_bytes", "at_most": 50, "because": "-"},
            "supported",
            "",
        ),
    ],
)
def test_a_peak_that_varies_is_shown_and_judged_by_its_range(
    expect: dict[str, Any], verdict: str, said: str
) -> None:
    claim = claim_of(case_of(expect, against={"scenario": "python_loop"}))
    against = [DRAWN[0], DRAWN[1], DRAWN[0]]
    found = judged(claim, "tensor_peak_bytes", DRAWN, against)
    assert found.verdict == verdict
    assert said in claim_words.write_reason(found)


def test_the_law_of_a_sweep_is_judged_by_the_range_too() -> None:
    records = [
        dataclasses.replace(record_with(size, tensor_peak_bytes=peak), cell=str(size))
        for size, peak in zip((100, 200, 400), DRAWN, strict=True)
    ]
    (line,) = list_scaling_lines(CellGrid(records), "scenario.size")
    assert line.law is not None
    assert line.law.shape is Shape.FLAT


def test_a_slope_is_measured_in_units_of_the_cells_own_fields() -> None:
    rows = [5_000 + 4 * 32 * size for size in (100, 200, 400)]
    found = judged(claim_of(case_of(SLOPE)), "tensor_peak_bytes", rows)
    assert found.verdict is Verdict.SUPPORTED
    assert [each.measured for each in found.cases[0].results[0].findings] == [1.0, 1.0]
    assert judged(claim_of(case_of(SLOPE)), "tensor_peak_bytes", [9e3] * 3).verdict == "refuted"


RATIO = case_of(
    {"ratio": "tensor_peak_bytes", "at_most": 0.5, "because": "half"},
    against={"scenario": "python_loop"},
)


def test_a_ratio_that_holds_is_refuted_with_its_sides_swapped() -> None:
    small, large = [10e3, 20e3, 40e3], [100e3, 200e3, 400e3]
    assert judged(claim_of(RATIO), "tensor_peak_bytes", small, large).verdict == "supported"
    assert judged(claim_of(RATIO), "tensor_peak_bytes", large, small).verdict == "refuted"


def test_a_case_that_holds_at_some_sizes_names_them() -> None:
    found = judged(claim_of(RATIO), "tensor_peak_bytes", [1e3, 9e4, 9e4], [1e5, 1e5, 1e5])
    assert found.verdict is Verdict.DEPENDS
    assert "holds at size 100, fails at size 200, 400" in claim_words.write_reason(found)


VALUE = case_of({"value": "host_growth_bytes_per_step", "at_least": 4000, "because": "a leak"})


@pytest.mark.parametrize(
    ("reading", "verdict"),
    [
        ((18_000, (17_000, 19_000)), "supported"),
        ((1_000, (0, 2_000)), "refuted"),
        ((5_000, (3_000, 7_000)), "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_an_interval_across_the_threshold_or_no_value_at_all_is_unknown(
    reading: Any, verdict: str
) -> None:
    found = judged(claim_of(VALUE), "host_growth_bytes_per_step", [reading] * 3)
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.25, "supported"), (0.0001, "inconclusive")], ids=["far", "near"]
)
def test_a_growth_that_is_unknown_is_judged_by_its_bound(share: float, verdict: str) -> None:
    """Three pages in 200 steps are too few to tell, but far from 35 kB a step."""
    pages = factories.timing_trial([0.001] * 200, [4096.0 * (step // 45) for step in range(200)])
    why = {"host_growth_bytes_per_step": "too little"}
    unknown = record_with(host_growth_bytes_per_step=None)
    unknown = dataclasses.replace(unknown, trials=[pages], unavailable=why)
    name = "host_growth_bytes_per_step"
    assert (bound := readings.read_metric(unknown, name)).value is None
    assert bound.interval is not None
    assert 0 < bound.interval[1] < 300
    claim = claim_of(case_of({"value": name, "at_most": 35_000 * share, "because": "a share"}))
    assert verdicts.judge(claim, lambda _: unknown).verdict == verdict


def test_a_cell_that_failed_is_unknown_unless_its_end_is_what_counts() -> None:
    failed = factories.failed(reason="OOM when allocating")
    value = claim_of(case_of({"value": "tensor_peak_bytes", "at_least": 1, "because": "any"}))
    assert verdicts.judge(value, lambda _: failed).verdict is Verdict.INCONCLUSIVE
    ends = claim_of(case_of({"outcome": "out_of_memory", "says": "oom when"}))
    assert verdicts.judge(ends, lambda _: failed).verdict is Verdict.SUPPORTED
    other = claim_of(case_of({"outcome": "completed"}))
    assert verdicts.judge(other, lambda _: failed).verdict is Verdict.REFUTED


def test_all_that_a_case_expects_must_hold() -> None:
    claim = claim_of(
        case_of(
            {"value": "graph_traces", "at_least": 1, "at_most": 1, "because": "one"},
            {"growth": "graph_nodes", "shape": "flat"},
        )
    )
    found = judged(claim, "graph_nodes", [50, 100, 200])
    assert found.verdict is Verdict.REFUTED


def test_the_verdicts_json_holds_no_infinity() -> None:
    found = judged(claim_of(RATIO), "tensor_peak_bytes", [1e3] * 3, [0.0] * 3)
    content = claim_words.to_json(found, lambda _: Path("0"))
    json.dumps(content, allow_nan=False)
    assert set(content) >= {"id", "claim", "source", "verdict", "evidence"}


def test_claims_that_contradict_each_other_are_shown_as_one_pair() -> None:
    one = claim_of(case_of({"value": "tensor_peak_bytes", "at_least": 1, "because": "any"}))
    against = ("b", "c"), ("a",), ("a",)
    judgements = [
        verdicts.judge(
            dataclasses.replace(one, id=id, contradicts=dict.fromkeys(others, "")),
            lambda _: record_with(),
        )
        for id, others in zip("abd", against, strict=True)
    ]
    pairs = claim_words.pair_contradictions(judgements)
    assert [(each.claim.id, other.claim.id) for each, other in pairs] == [("a", "b"), ("a", "d")]


def test_each_cell_of_claims_says_by_which_words_it_differs() -> None:
    grows = case_of({"growth": "tensor_peak_bytes", "shape": "flat"})
    plan = cells.compose_cells([claim_of(grows)], {"measure": "quick", "tracking": "none"})
    requests = cells.ClaimGrid(plan).ask()
    assert [each.swept for each in requests] == [
        {"scenario.size": "100"}, {"scenario.size": "200"}, {"scenario.size": "400"}
    ]  # fmt: skip


PARITY = '''
"""`parity`: whether a metric is an even number."""

from dataclasses import dataclass
from typing import ClassVar

from runner.claims.expectation import ExpectationResult, Finding, MetricExpectation


@dataclass(frozen=True, kw_only=True)
class Parity(MetricExpectation):
    word: ClassVar[str] = "parity"
    parity: str
    even: bool = True

    def test(self, records):
        read = self.read(records.run)
        findings = (Finding((n,), (each.value % 2 == 0) is self.even, each.value % 2)
                    for n, each in enumerate(read))
        return ExpectationResult(self, read, (), tuple(findings))

    def write_rule(self):
        return f"{self.label} is {'even' if self.even else 'odd'}"
'''


def test_a_sixth_comparison_is_one_file_that_nothing_else_knows_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(comparisons.find_comparisons()) == {"growth", "slope", "ratio", "value", "outcome"}
    (tmp_path / "parity.py").write_text(PARITY)
    monkeypatch.setattr(comparisons, "__path__", [*comparisons.__path__, str(tmp_path)])
    with pytest.raises(BadInput, match="did you mean 'parity'"):
        claim_of(case_of({"partiy": "graph_nodes"}))
    with pytest.raises(BadInput, match="did you mean 'graph_nodes'"):
        claim_of(case_of({"parity": "graph_noses"}))

    claim = claim_of(case_of({"parity": "graph_nodes"}))
    assert claim.cases[0].kinds == {"memory"}
    found = judged(claim, "graph_nodes", [50, 60, 71])
    assert found.verdict is Verdict.DEPENDS
    said = "holds at size 100, 200, fails at size 400: graph nodes 50, 60, 71"
    assert said in claim_words.write_reason(found)
    (told,) = claim_words.to_json(found, lambda _: Path("0"))["evidence"]["cases"]
    assert told["expectations"][0]["rule"] == "graph nodes is even"
    assert told["expectations"][0]["measured"] == [0, 0, 1]
    page = draw_claims_page({"a test": [found]}, "", {"test": "test"}, is_all=True)
    assert "Expected: graph nodes is even." in page
    assert "run, 400: 71" in page


# Mistakes in a user's own claim.


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (case_of({"growht": "tensor_peak_bytes", "shape": "flat"}), "did you mean 'growth'"),
        (case_of({"growth": "tensor_peek_bytes", "shape": "flat"}), "did you mean 'tensor_peak_b"),
        (case_of({"growth": "tensor_peak_bytes", "shape": "flta"}), "did you mean 'flat'"),
        (case_of({"value": "biuld.seconds", "at_most": 1, "because": "?"}), "mean 'build'"),
        (case_of({"value": "tensor_peak_bytes", "because": "?"}), "has no threshold"),
        (case_of({"value": "tensor_peak_bytes", "at_most": 1}), "does not say why"),
        (case_of({"value": "tensor_peak_bytes", "at_moost": 1}), "did you mean 'at_most'"),
        (case_of({"outcome": "fialed"}), "did you mean 'failed'"),
        (case_of({"ratio": "tensor_peak_bytes", "at_most": 1, "because": "?"}), "a ratio to what"),
        (case_of({"outcome": "failed"}, sizes={"scenario.size": [1, 2]}), "not 3 growing sizes"),
        (case_of({"outcome": "failed"}, whne="never"), "did you mean 'when'"),
        (case_of({"growth": "graph_nodes", "shape": "flat"}, sizes=None), "needs sizes"),
    ],
)
def test_a_mistake_is_named_by_file_field_and_the_right_word(
    case: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as error:
        claim_of(case)
    assert str(error.value).startswith("test.yaml")
    assert said in str(error.value)


def test_an_unknown_field_in_a_unit_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="did you mean 'batch_size'"):
        readings.compute_unit("4 * batch_sise", factories.completed().spec)


# The files.


def _content(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


FILES = sorted((paths.find_conf() / "claim").glob("*.yaml"))


def test_every_claim_of_the_documents_has_a_file() -> None:
    assert set(IDS) <= {path.stem for path in FILES}
    assert len(IDS) == 58


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_claims_file_is_whole(path: Path) -> None:
    claim = files.parse_claim(path.stem, _content(path), path.name)
    header = path.read_text().splitlines()[0].removeprefix("# ").rstrip(".")
    first = claim.claim.split()[0]
    is_code = re.search(r"[_.()]", first)
    assert header == claim.claim if is_code else header.lower() == claim.claim.lower()
    assert {"supported", "refuted"} <= set(claim.advice)
    assert all(each in IDS for each in claim.contradicts)
    assert all(files.find_contradiction(claim, each).endswith(".") for each in claim.contradicts)
    for other in claim.contradicts:
        assert path.stem in _content(path.with_stem(other))["contradicts"]
    for case in claim.cases:
        assert case.sizes or case.run["scenario"] == "document_example"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_holds_a_verdict(path: Path) -> None:
    assert "verdict" not in _content(path)
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert not re.search("supported|refuted|inconclusive", " ".join(comments))
