"""From what stayed, step by step, to a verdict, a sentence and holders that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runner.compose import composition
from runner.facts import ChildProcesses, HostFindings, MallocBooks, PipelineBuffer, TrialFacts
from runner.leak import remedies, suggestions
from runner.leak.findings import Leak
from runner.leak.holders import is_growing
from runner.leak.hunt import prepare_cell
from runner.leak.judgement import judge
from runner.leak.summary import list_leaks
from runner.metrics import format_bytes
from runner.records import COMPLETED, THREAD_STACKS, Outcome, Record, Status, Trial
from tests import factories

STEPS = 40
RISING = [1000.0 * step for step in range(STEPS + 1)]
FLAT = [0.0] * (STEPS + 1)


def place(kind: str = "native", bytes_: list[float] | None = None, **more: Any) -> dict[str, Any]:
    series = RISING if bytes_ is None else bytes_
    return {
        "kind": kind,
        "file": "service.py",
        "line": 22,
        "code": "tf.random.normal([10])",
        "what": "C++ memory under random_normal",
        "bytes": [round(value) for value in series],
        "count": [round(value / 500) for value in series],
        **more,
    }


def host_trial(*places: dict[str, Any], **more: Any) -> Trial:
    held = {"survivors": list(places), "steps": STEPS, "traced_seconds_per_step": 0.1, **more}
    facts = TrialFacts(held=msgspec.convert(held, HostFindings))
    return Trial("host", 0, COMPLETED, facts=facts)


def record(*places: dict[str, Any], host_growth: float | None = 1000, **more: Any) -> Record:
    found = factories.measured(factories.timing_trial(), factories.memory_trial())
    found.metrics["host_growth_bytes_per_step"] = host_growth
    trials = (*found.trials, host_trial(*places, **more))
    environment = msgspec.structs.replace(found.environment, memory_bytes=1_000_000_000)
    return replace(found, trials=trials, environment=environment)


class TestABufferThatFills:
    CACHE = PipelineBuffer("memory cache", (5, 10), (5_000, 10_000), None, False, 9_000, 1_000)

    def judge(self, *places: dict[str, Any], cache: PipelineBuffer = CACHE) -> Leak:
        found = record(*places, host_growth=0)
        found.trials[1].facts.pipelines = (cache,)
        return judge(found)

    def test_is_what_rises_to_a_known_end(self) -> None:
        leak = self.judge(place("tensor", file=None, line=None))
        assert (leak.verdict, leak.holders) == ("fills", ())
        assert leak.sentence == (
            "rises to a known end: tf.data's memory cache fills, until it holds 9,000 elements, "
            "9.00 MB"
        )

    def test_hides_no_list_beside_it(self) -> None:
        leak = self.judge(place("tensor", file=None, line=None), place("python"))
        assert (leak.verdict, [each.kind for each in leak.holders]) == ("grows", ["python"])
        assert "memory cache fills" in leak.notes[0] + leak.notes[1]

    def test_is_none_where_nobody_knows_its_end(self) -> None:
        endless = replace(self.CACHE, capacity=None)
        leak = self.judge(place(file=None, line=None), place(), cache=endless)
        assert leak.verdict == "grows"
        assert [each.what for each in leak.holders] == [
            "tf.data's memory cache, of which no end is known",
            "C++ memory under random_normal",
        ]


class TestWhatGoesOn:
    def test_is_what_rises_to_the_end(self) -> None:
        assert is_growing(RISING)

    def test_and_in_jumps_that_come_regularly(self) -> None:
        assert is_growing([float(step // 5) for step in range(STEPS + 1)])

    @pytest.mark.parametrize(
        "series",
        [
            FLAT,
            [min(each, 10_000.0) for each in RISING],
            [0.0] * 20 + [5000.0] * 21,
            [float(step % 7) for step in range(STEPS + 1)],
            list(reversed(RISING)),
        ],
        ids=["flat", "rises and stops", "one jump", "up and down", "falls"],
    )
    def test_is_nothing_else(self, series: list[float]) -> None:
        assert not is_growing(series)


class TestTheVerdict:
    def test_grows_where_a_place_goes_on_and_names_its_line(self) -> None:
        leak = judge(record(place()))
        assert leak.verdict == "grows"
        assert leak.sentence == (
            "grows 1.00 kB a step: 1.00 kB in C++ under random_normal at service.py:22"
        )

    def test_is_flat_where_nothing_stays(self) -> None:
        leak = judge(record(place(bytes_=FLAT), host_growth=0))
        assert leak.verdict == "flat"
        assert not leak.holders

    def test_fills_where_something_rises_and_stops(self) -> None:
        filling = [min(each * 50, 500_000.0) for each in RISING]
        leak = judge(record(place(bytes_=filling), host_growth=0))
        assert leak.verdict == "fills"
        assert "500 kB" in leak.sentence

    def test_is_unclear_where_resident_memory_grows_and_nothing_was_found(self) -> None:
        leak = judge(record(place(bytes_=FLAT), host_growth=50_000))
        assert leak.verdict == "unclear"
        assert leak.unexplained_bytes_per_step == 50_000

    def test_is_mallocs_only_where_its_books_say_so(self) -> None:
        books = books_with(free_slope=10_000)
        found = record(place(bytes_=FLAT), host_growth=10_000)
        found.trials[0].facts.malloc = books
        leak = judge(found)
        assert leak.verdict == "flat"
        assert [each.kind for each in leak.holders] == ["malloc"]
        assert "does not grow" in leak.sentence

    @pytest.mark.parametrize(
        ("free_slope", "said"),
        [
            (500, "; 500 B are free but kept by malloc"),
            (-500, "; 500 B came out of malloc's free memory"),
            (30, "service.py:22"),
        ],
    )
    def test_says_mallocs_part_where_it_is_not_small(self, free_slope: int, said: str) -> None:
        found = record(place(), host_growth=1000.0 + free_slope)
        found.trials[0].facts.malloc = books_with(free_slope=free_slope)
        assert judge(found).sentence.endswith(said)

    def test_says_when_memory_will_be_full(self) -> None:
        (note,) = judge(record(place())).notes
        assert note.startswith("1.00 GB of memory are full after 970,000 steps, ")
        assert "too slow" not in note

    @pytest.mark.parametrize(
        ("growths", "seconds", "said"),
        [
            ((1000, 1000), (1.0, 1.0), "after 970,000 steps, 11.2 days at 1e+03 ms a step"),
            ((800, 1250), (1.0, 1.0), "after 776,000 to 1,210,000 steps, 9.0 days to 14.0 days"),
            ((1000, 1000), (0.5, 1.0), "after 970,000 steps, 5.6 days to 11.2 days at 1e+03 ms"),
            ((1000, 1000), (0.03, 20.0), "after 970,000 steps"),
            ((10, 90_000), (1.0, 1.0), "after 970,000 steps"),
            ((-10, 2000), (1.0, 1.0), "after 970,000 steps, 11.2 days at 1e+03 ms a step"),
        ],
    )
    def test_says_no_time_that_nobody_knows(
        self, growths: tuple[float, float], seconds: tuple[float, float], said: str
    ) -> None:
        found = record(place())
        found.metrics["step_seconds"] = 1.0
        found.intervals["step_seconds"] = seconds
        found.intervals["host_growth_bytes_per_step"] = growths
        (note,) = judge(found).notes
        assert note.partition("memory are full ")[2].startswith(said)
        assert (" at " in note) is (" at " in said or "days" in said)

    def test_says_that_growth_which_takes_months_is_nothing_to_act_on(self) -> None:
        found = record(place(bytes_=[0.1 * each for each in RISING]), host_growth=100)
        found.metrics["step_seconds"] = 1.0
        (note,) = judge(found).notes
        assert note.endswith("; too slow to act on, unless it runs that long")

    def test_says_so_in_the_first_sentence_too(self) -> None:
        little = [0.1 * each for each in RISING]
        found = record(place(bytes_=little), host_growth=100)
        environment = msgspec.structs.replace(found.environment, memory_bytes=25_000_000_000)
        found = replace(found, environment=environment)
        assert judge(found).sentence.startswith("grows 100 B a step, too little to act on: ")
        found.metrics["step_seconds"] = 1e-6  # full within minutes
        assert judge(found).sentence.startswith("grows 100 B a step: ")

    @pytest.mark.parametrize(("steps", "verdict"), [(7, "unclear"), (8, "grows")])
    def test_needs_eight_traced_steps_where_nothing_else_shows_growth(
        self, steps: int, verdict: str
    ) -> None:
        found = record(place(bytes_=RISING[: steps + 1]), host_growth=None, steps=steps)
        leak = judge(found)
        assert leak.verdict == verdict, leak.sentence
        assert (f"rose in {steps} traced steps" in leak.sentence) is (verdict == "unclear")
        found.metrics["host_growth_bytes_per_step"] = 1000
        assert judge(found).verdict == "grows"

    def test_is_not_flat_where_the_host_trial_was_not_run(self) -> None:
        found = record(host_growth=0)
        measure = replace(found.spec.measure, host_processes=1)
        found = replace(found, trials=found.trials[:-1], spec=replace(found.spec, measure=measure))
        leak = judge(found)
        assert leak.verdict == "unclear"
        assert leak.sentence.endswith("the trial that looks for what is held was not run")

    @pytest.mark.parametrize(
        ("late", "verdict", "said"),
        [
            ((1, 210_000_000), "unclear", "took more, from 10.0 MB to 210 MB resident: "),
            ((3, 30_000_000), "unclear", "rose from 1 to 3, from 10.0 MB to 30.0 MB resident"),
            ((1, 10_200_000), "flat", "1 child process took no more"),
        ],
    )
    def test_is_not_flat_where_child_processes_grow(
        self, late: tuple[int, int], verdict: str, said: str
    ) -> None:
        found = record(place(bytes_=FLAT), host_growth=0)
        children = ChildProcesses(1, 10_000_000), ChildProcesses(*late)
        found.trials[0].facts.children = children
        leak = judge(found)
        assert leak.verdict == verdict
        assert said in " ".join([leak.sentence, *leak.notes])

    @pytest.mark.parametrize(("growth", "verdict"), [(0, "unclear"), (1000, "grows")])
    def test_is_not_flat_where_the_host_trial_crashed(self, growth: float, verdict: str) -> None:
        found = record(host_growth=growth)
        crashed = Trial("host", 0, Outcome(Status.KILLED, "release", "SIGSEGV"))
        leak = judge(replace(found, trials=(*found.trials[:-1], crashed)))
        assert leak.verdict == verdict
        assert ("ended as killed" in leak.sentence) is (verdict == "unclear")


class TestHolders:
    def test_add_up_to_what_is_explained_the_largest_first(self) -> None:
        half = [each / 2 for each in RISING]
        leak = judge(record(place(bytes_=half), place("python", line=7, what="Python objects")))
        assert [each.kind for each in leak.holders] == ["python", "native"]
        assert leak.explained_bytes_per_step == 1500
        assert sum(each.bytes_per_step for each in leak.holders) == 1500

    def test_are_large_tensors_as_the_memory_trial_counted_them(self) -> None:
        regions = [1_390_000.0 * step for step in range(STEPS + 1)]
        found = record(place("tensor", regions), host_growth=1_000_000)
        found.metrics["tensor_growth_bytes_per_step"] = 1_000_000
        leak = judge(found)
        assert [each.bytes_per_step for each in leak.holders] == [1_000_000]

    def test_have_the_container_whose_elements_were_made_at_their_line(self) -> None:
        chain = ["`history`, a list in service.py:7", "1 ndarray a step"]
        container = {
            "grows_by": 1,
            "of": "ndarray",
            "lines": [["/home/me/service.py", 22]],
            "chain": chain,
        }
        leak = judge(record(place("python"), containers=[container]))
        assert list(leak.holders[0].chain) == chain

    def test_are_held_by_what_gave_their_memory_back_and_else_reached(self) -> None:
        container = {
            "grows_by": 1,
            "of": "ndarray",
            "lines": [["service.py", 22]],
            "chain": ["`history`, a list in service.py:7", "1 ndarray a step"],
        }
        reached = judge(record(place("python"), containers=[container]))
        assert not reached.holders[0].is_held
        assert reached.to_json()["holders"][0]["what"].endswith("was not shown to hold it")
        assert not list(suggestions.suggest_changes(reached))
        also = {"frees": container["lines"], "also": ["`other`, a dict in service.py:9"]}
        held = judge(record(place("python"), containers=[{**container, **also}]))
        assert held.holders[0].is_held
        assert held.holders[0].what.endswith("; `other`, a dict in service.py:9 holds it, too")
        assert set(held.to_json()["holders"][0]) == {
            *("kind", "bytes_per_step", "count_per_step", "file", "line", "code", "what", "chain")
        }

    @pytest.mark.parametrize(("native", "is_held"), [(1900, True), (1000, False)])
    def test_of_cpp_are_held_by_what_gave_as_much_of_cpp_back(
        self, native: float, is_held: bool
    ) -> None:
        container = {
            "grows_by": 1,
            "of": "EagerTensor",
            "lines": [["service.py", 22]],
            "frees": [["service.py", 22]],
            "frees_native": native,
            "chain": ["`history`, a list in service.py:7", "1 EagerTensor a step"],
        }
        leak = judge(record(place("tensor"), place("native"), containers=[container]))
        held = [holder for holder in leak.holders if holder.is_held]
        assert [(holder.kind, holder.bytes_per_step) for holder in held] == [
            ("tensor", 2000 if is_held else 1000)  # one object's rows are one row
        ]
        assert ("1.00 kB of it native: C++" in held[0].what) == is_held
        assert sum(holder.bytes_per_step for holder in leak.holders) == 2000

    def test_take_what_xla_compiles_on_its_own_threads_to_the_one_line_that_compiles(self) -> None:
        leak = judge(record(place("executable"), place("executable", file=None, line=None)))
        (holder,) = leak.holders
        assert holder.line == 22
        assert holder.bytes_per_step == 2000

    def test_say_of_a_graph_which_argument_differed(self) -> None:
        traced = {
            "name": "train",
            "file": "service.py",
            "line": 3,
            "traces_per_step": 1.0,
            "differs": "rate: 0.1, then 0.2",
        }
        leak = judge(record(place("graph", what="graph built"), functions=[traced]))
        assert "`train` is traced 1 times a step" in leak.holders[0].what
        assert "rate: 0.1, then 0.2" in leak.holders[0].what
        (written,) = suggestions.suggest_changes(leak)
        assert "pass tensors, not Python values" in written.change


@pytest.mark.parametrize(
    ("left", "verdict"),
    [(0, "stops it"), (500, "helps"), (950, "does not help"), (2000, "makes it worse")],
)
def test_a_remedy_is_judged_by_what_is_left(left: int, verdict: str) -> None:
    leak = judge(record(place()))
    tried = record(place(), host_growth=left)
    resident = tuple(25e6 + left * step for step in range(200))
    msgspec.structs.force_setattr(tried.trials[0].steps, "host_bytes", resident)
    assert remedies.judge_remedy("x", "python -m runner leak", leak, tried).verdict == verdict


def test_a_remedy_is_not_said_to_stop_what_it_could_not_tell_from_none() -> None:
    little = [0.176 * each for each in RISING]
    leak = judge(record(place("python", little), host_growth=176))
    assert leak.verdict == "grows"
    tried = record(host_growth=0)
    msgspec.structs.force_setattr(tried.trials[0].steps, "host_bytes", tuple([25e6] * 200))
    told = remedies.judge_remedy("gc.collect()", "", leak, tried)
    assert told.growth_bytes_per_step is None
    assert told.verdict.startswith("not shown: up to ")
    assert told.verdict.endswith(" a step may go on, of 176 B")


def test_a_remedy_after_which_next_to_nothing_can_grow_any_more_stops_it() -> None:
    leak = judge(record(place(), host_growth=40_000))
    tried = record(place(), host_growth=None)
    resident = [20e6 + 4096 * (step > 150) for step in range(200)]
    msgspec.structs.force_setattr(tried.trials[0].steps, "host_bytes", tuple(resident))
    tried.trials[0].facts.malloc = books_with(in_use_slope=500)
    told = remedies.judge_remedy("x", "", leak, tried)
    assert told.growth_bytes_per_step is None
    assert told.verdict.startswith("stops it: at most ")


def test_a_remedy_that_could_not_be_measured_says_why() -> None:
    leak = judge(record(place()))
    tried = record(place(), host_growth=None)
    tried.unavailable["host_growth_bytes_per_step"] = "needs 200 steps"
    assert remedies.judge_remedy("x", "", leak, tried).verdict == "not shown: needs 200 steps"


class TestARemedyIsJudgedOnWhatGrew:
    """Here a list of arrays was traced, resident memory could not tell, and 52 B were tensors'."""

    def leak(self) -> Leak:
        found = record(place("python", [16 * each for each in RISING]), host_growth=None)
        found.metrics["tensor_growth_bytes_per_step"] = 52
        return judge(found)

    def tried(self, *places: dict[str, Any], **more: Any) -> str | None:
        again = record(*places, host_growth=None, **more)
        again.metrics["tensor_growth_bytes_per_step"] = 0
        again.unavailable["host_growth_bytes_per_step"] = "32 steps can't tell"
        remedy = remedies.judge_remedy("gc.collect()", "", self.leak(), again)
        return remedy.verdict

    def test_and_not_on_the_tensors_that_stopped(self) -> None:
        assert self.tried(place("python", [16 * each for each in RISING])) == "does not help"

    def test_and_stops_it_where_nothing_is_left_of_that(self) -> None:
        assert self.tried(place("python", FLAT)) == "stops it"

    def test_and_shows_nothing_where_half_as_much_came_in_a_jump(self) -> None:
        jump = [0.0] * (STEPS - 2) + [300_000.0] * 3
        told = self.tried(place("python", jump))
        assert told == "not shown: up to 15.0 kB a step may go on, of 16.1 kB"

    def test_and_shows_nothing_in_fewer_traced_steps_than_tell(self) -> None:
        few = place("python", [0.0] * 6)
        told = self.tried(few, steps=5)
        assert told == "not shown: 5 traced steps can't tell; it takes 8"

    def test_by_the_trial_that_has_shown_it(self, tmp_path: Path) -> None:
        plan = composition.compose_plan(["scenario=python_loop", "tracking=none"])
        cell = prepare_cell(plan.cells[0])
        on_card = Leak("grows", "", 40_000, 200, None, None, 200)
        kinds = {}
        for name, leak in (("traced", self.leak()), ("on a card", on_card),
                           ("resident", judge(record(place())))):  # fmt: skip
            remedy = remedies.list_remedies(cell, leak)[0]
            measure = remedies.apply_remedy(cell, remedy, leak, 1.0).experiment.measure
            kinds[name] = (
                measure.timing_processes, measure.memory_processes, measure.host_processes
            )  # fmt: skip
        assert kinds == {"traced": (0, 0, 1), "on a card": (0, 1, 0), "resident": (1, 0, 0)}


def test_what_rises_while_it_is_traced_and_not_while_it_is_timed_fills() -> None:
    growing = [each * 40 for each in RISING]
    found = record(place(bytes_=growing), host_growth=0)
    msgspec.structs.force_setattr(found.trials[0].steps, "host_bytes", tuple([25e6] * 200))
    leak = judge(found)
    assert leak.verdict == "fills"
    assert leak.sentence.startswith("rises and stops: ")


def test_tensors_that_stay_on_a_card_grow_however_level_the_host_is() -> None:
    found = record(place("tensor", [each * 40 for each in RISING]), host_growth=0)
    msgspec.structs.force_setattr(found.trials[0].steps, "host_bytes", tuple([25e6] * 200))
    environment = msgspec.structs.replace(found.environment, device="GPU:0")
    found = replace(found, environment=environment)
    found.metrics["tensor_growth_bytes_per_step"] = 40_000
    assert judge(found).verdict == "grows"


def test_what_was_taken_out_of_memory_that_was_free_already_is_a_row_below_nothing() -> None:
    found = record(place(), host_growth=900)
    found.trials[0].facts.malloc = books_with(free_slope=-95)
    leak = judge(found)
    assert [(each.kind, each.bytes_per_step) for each in leak.holders] == [
        ("native", 1000),
        ("malloc", -95),
    ]
    assert leak.explained_bytes_per_step == 905
    assert leak.verdict == "grows"


def books_with(*, in_use_slope: int = 0, free_slope: int = 0, collected: int = 0) -> MallocBooks:
    steps = tuple(range(0, 200, 10))
    return MallocBooks(
        steps,
        tuple(1_000_000 + in_use_slope * step for step in steps),
        tuple(10_000_000 + free_slope * step for step in steps),
        collected,
    )


def test_a_cell_that_cannot_be_run_says_so_and_nothing_is_tried() -> None:
    outcome = Outcome(Status.UNSUPPORTED, None, "it has no 'eager' execution")
    leak = judge(replace(record(), outcome=outcome))
    assert (leak.verdict, leak.sentence) == (
        "unsupported",
        "unsupported: it has no 'eager' execution",
    )
    assert not leak.was_measured


def test_what_stays_but_is_too_little_for_a_verdict_is_said() -> None:
    leak = judge(record(place("python", [40.0 * step for step in range(STEPS + 1)]), host_growth=0))
    assert (leak.verdict, leak.holders) == ("flat", ())
    assert leak.notes[0].startswith("40 B a step stay at service.py:22, ")


class TestALittleThatRisesNowAndThen:
    """As Python's own objects did under a Keras model of which 20 steps were traced."""

    counts = (0, 16, 22, 27, 34, 35, 35, 40, 39, 44, 48, 48, 50, 53, 54, 54, 53, 52, 54, 58, 60)
    course = tuple(80.0 * each for each in counts)

    def judge(self, host_growth: float | None, course: Sequence[float] = course) -> Leak:
        found = record(
            place("python", list(course)), host_growth=host_growth, steps=len(course) - 1
        )
        return judge(found)

    def test_is_unclear_where_nothing_else_tells_growth(self) -> None:
        leak = self.judge(None)
        assert (leak.verdict, leak.holders) == ("unclear", ())
        assert leak.sentence == (
            "unclear: 96 B a step of C++ memory under random_normal at service.py:22 rose in 20 "
            "traced steps; to say that it goes on takes 67: say measure.max_seconds=14"
        )

    def test_is_a_note_where_the_timing_trials_saw_none(self) -> None:
        leak = self.judge(0)
        assert leak.verdict == "flat"
        assert leak.notes[0].startswith("96 B a step stay at service.py:22, ")

    def test_and_in_a_hundred_steps(self) -> None:
        leak = self.judge(None, [course + 1600 * lap for lap in range(5) for course in self.course])
        assert leak.verdict == "grows"  # by more than free lists hold
        leak = self.judge(None, [each // 2 for each in (*self.course, *[5000.0] * 80)])
        assert leak.verdict == "flat"

    def test_holds_what_grows_where_they_saw_growth(self) -> None:
        leak = self.judge(150)
        assert leak.verdict == "grows"
        assert [each.bytes_per_step for each in leak.holders] == [96]

    def test_grows_where_it_rises_in_nearly_every_step(self) -> None:
        leak = self.judge(None, [96.0 * (step + (step > 9)) for step in range(21)])
        assert leak.sentence.startswith("grows 96 B a step")


def test_a_bound_stands_beside_a_host_growth_of_0() -> None:
    found = record(place(bytes_=[0.1 * each for each in RISING]), host_growth=0)
    leak = replace(judge(found), host_bound_bytes_per_step=164.0)
    text = list_leaks({"tape": leak}, Path(), 1.0)
    assert "100 B in all; resident memory grows 0 B a step: more than 164 B would show" in text
    assert "host_bound_bytes_per_step" not in leak.to_json()
    unbounded = list_leaks({"tape": replace(leak, host_bound_bytes_per_step=None)}, Path(), 1.0)
    assert "0 B a step: 100 B more was taken than has become resident" in unbounded


class TestTheTimingTrials:
    """They take more steps than are traced, and see what stops later."""

    def unsure(self, course: list[float]) -> str:
        found = record(place(bytes_=[24 * each for each in RISING]), host_growth=None)
        msgspec.structs.force_setattr(
            found.trials[0].steps, "host_bytes", tuple(50e6 + each for each in course)
        )
        return judge(found).verdict

    def test_say_fills_of_what_stops_after_it_was_traced(self) -> None:
        assert self.unsure([24_000.0 * min(step, 150) for step in range(205)]) == "fills"

    def test_say_fills_of_what_is_emptied_now_and_then(self) -> None:
        assert self.unsure([24_000.0 * (step % 120) for step in range(205)]) == "fills"

    def test_say_grows_of_what_goes_on_under_garbage_that_comes_and_goes(self) -> None:
        course = [24_000.0 * step + 200_000 * (step % 10) for step in range(205)]
        assert self.unsure(course) == "grows"

    def test_say_nothing_where_malloc_has_more_in_use_all_along(self) -> None:
        found = record(place(bytes_=[24 * each for each in RISING]), host_growth=None)
        msgspec.structs.force_setattr(found.trials[0].steps, "host_bytes", tuple([50e6] * 205))
        found.trials[0].facts.malloc = books_with(in_use_slope=24_000)
        assert judge(found).verdict == "grows"

    def test_accuse_nobody_of_what_is_in_use_and_was_not_found(self) -> None:
        found = record(place(bytes_=FLAT), host_growth=9000)
        found.trials[0].facts.malloc = books_with(in_use_slope=9000)
        leak = judge(found)
        assert (leak.verdict, leak.holders) == ("unclear", ())
        assert "allocated by code that the tracer cannot see (for example ctypes)" in leak.sentence

    def test_say_how_much_of_what_rose_was_garbage(self) -> None:
        found = record(place(bytes_=FLAT), host_growth=0)
        msgspec.structs.force_setattr(
            found.trials[0].steps, "host_bytes", tuple(8_000.0 * step for step in range(205))
        )
        found.trials[0].facts.host_collected_bytes = 1_632_000
        leak = judge(found)
        assert leak.verdict == "flat"
        assert leak.sentence == (
            "does not grow: garbage waits for Python's collector, and 1.63 MB came back when it ran"
        )

    @pytest.mark.parametrize(
        ("collected", "verdict"), [(9000 * 190, "flat"), (4000 * 190, "unclear")]
    )
    def test_do_not_say_flat_of_more_in_use_than_was_garbage(
        self, collected: int, verdict: str
    ) -> None:
        found = record(place(bytes_=FLAT), host_growth=None)
        found.trials[0].facts.malloc = books_with(in_use_slope=9000, collected=collected)
        assert judge(found).verdict == verdict

    def test_that_end_out_of_memory_leave_the_growth_to_the_host_trial(self) -> None:
        found = record(place(), host_growth=None)
        ended = replace(found.trials[0], outcome=Outcome(Status.OUT_OF_MEMORY, "steps", "too much"))
        leak = judge(replace(found, outcome=ended.outcome, trials=(ended, found.trials[-1])))
        assert leak.sentence.startswith("grows 1.00 kB a step at least: ")
        tried = record(host_growth=0)
        msgspec.structs.force_setattr(tried.trials[0].steps, "host_bytes", tuple([25e6] * 200))
        assert remedies.judge_remedy("x", "", leak, tried).verdict == "stops it"


def test_what_threads_take_by_being_there_is_the_line_s_that_makes_them() -> None:
    found = record(
        place("python", line=5),
        place(file=None, line=None, code=None, what=THREAD_STACKS),
        containers=[
            {
                "grows_by": 1,
                "of": "Thread",
                "lines": [["/home/me/service.py", 5]],
                "made_at": ["/home/me/service.py", 5],
                "chain": ["running threads of wait (service.py:2)", "1 Thread a step"],
            }
        ],
        host_growth=2000,
    )
    leak = judge(found)
    assert {each.where for each in leak.holders} == {"service.py:5"}
    assert {each.change for each in suggestions.suggest_changes(leak)} == {
        "service.py:5: let the thread end, or hand it what it needs as an argument that it can drop"
    }


def container_of(chain: str) -> dict[str, Any]:
    """A container that grows by one a step at a line of the user's, and is shown to hold it."""
    here = [["service.py", 22]]
    return {"grows_by": 1, "of": "x", "lines": here, "frees": here, "chain": chain.split(" > ")}


@pytest.mark.parametrize(
    ("chain", "change"),
    [
        (
            "the step > `losses`, a list that step (a.py:3) closes over > 1 EagerTensor a step",
            "keep a number, `float(loss)`, in `losses`; or bound `losses`: collections.deque",
        ),
        (
            "`model`, a Model in a.py:3 > .cache, a dict of Model > 1 ndarray a step",
            "bound `cache`: drop its oldest key",
        ),
        (
            "`registry`, a dict in a.py:7 > ['done'], a list > 1 function a step",
            "take it out of `registry['done']` once it was called",
        ),
        (
            "`embed`, a wrapper in a.py:4 > the cache of embed (a.py:4), maxsize=None > 1 x a step",
            "bound the cache of `embed`: functools.lru_cache(maxsize=1000)",
        ),
        (
            "`local`, a _local in threads.py:6 > ['kept'], a list > 1 EagerTensor a step",
            "keep a number, `float(loss)`, in `local['kept']`",
        ),
        (
            "`errors`, a list in a.py:1 > 1 ValueError a step",
            "keep `repr(error)` in `errors`",
        ),
        (
            "`kept`, a list in a.py:1 > 1 ResourceVariable a step",
            "make the variable once and `variable.assign(value)` in the step; or bound `kept`",
        ),
    ],
)
def test_what_to_write_goes_by_the_container_that_grows(chain: str, change: str) -> None:
    found = record(place("tensor"), containers=[{**container_of(chain), "made_at": None}])
    (written,) = suggestions.suggest_changes(judge(found))
    assert written.change.startswith(f"service.py:22: {change}")


@pytest.mark.parametrize(
    "chain",
    [
        "`_stack`, a Stack of tensorflow.ops > ._funcs, a list of tensorflow.Graph"
        " > 1 EagerFunc a step",
        "`GLOBAL`, a dict of keras.src > ._layers, a list of keras.Model > 1 list a step",
        "`model`, a M in a.py:3 > ._seen, a dict of tensorflow.Context > 1 bool and dict a step",
    ],
)
def test_what_a_library_keeps_gets_no_advice_that_nobody_can_follow(chain: str) -> None:
    leak = judge(record(place("tensor"), containers=[container_of(chain)]))
    assert leak.holders[0].is_held
    assert not list(suggestions.suggest_changes(leak))


class TestBuffersOfPipelines:
    def pipeline(self, stage: str, elements: list[int], **more: Any) -> dict[str, Any]:
        return {
            "stage": stage,
            "elements": elements,
            "bytes": [10_000 * count for count in elements],
            "buffer": None,
            "chosen_by_autotune": False,
            **more,
        }

    def test_are_elements_times_bytes(self) -> None:
        held = [self.pipeline("shuffle", [20, 19]), self.pipeline("prefetch", [18, 19], buffer=20)]
        leak = judge(record(place(bytes_=FLAT), host_growth=0, pipelines=held))
        assert leak.notes == (
            "tf.data holds shuffle, 19 elements of 10.0 kB; "
            "prefetch, 19 elements of 10.0 kB, 20 at most",
        )

    def test_say_what_autotune_chose(self) -> None:
        held = [self.pipeline("prefetch", [1, 2], buffer=2, chosen_by_autotune=True)]
        leak = judge(record(place(bytes_=FLAT), host_growth=0, pipelines=held))
        assert leak.notes == ("tf.data holds prefetch, 2 elements of 10.0 kB, AUTOTUNE chose 2",)

    def test_that_are_full_are_told_from_those_that_go_on_filling(self) -> None:
        held = [self.pipeline("memory cache", [40, 90])]
        leak = judge(record(place(bytes_=FLAT), host_growth=0, pipelines=held))
        assert leak.notes[0].endswith("90 elements of 10.0 kB, and rises")

    def test_name_what_rose_and_stopped(self) -> None:
        filling = [min(each * 50, 500_000.0) for each in RISING]
        held = [self.pipeline("memory cache", [50, 50])]
        leak = judge(record(place("tensor", filling), host_growth=0, pipelines=held))
        assert leak.sentence == (
            "rises and stops: a buffer that fills (memory cache, 50 elements of 10.0 kB, "
            "at service.py:22)"
        )
        assert not list(suggestions.suggest_changes(leak))


class TestWhatHappensRarely:
    """An evaluation, a checkpoint, a log: every fiftieth step, and it stays."""

    @staticmethod
    def rise(*at: int, by: float = 65_600.0, steps: int = 100) -> list[float]:
        return [by * sum(step > event for event in at) for step in range(steps + 1)]

    def judge(self, course: list[float], growth: float | None, *more: dict[str, Any]) -> Leak:
        found = place("python", course, what="Python objects made under append")
        return judge(record(found, *more, host_growth=growth, steps=len(course) - 1))

    @pytest.mark.parametrize("every", [9, 13, 25, 33, 45])
    def test_holds_what_grows_where_that_was_timed(self, every: int) -> None:
        leak = self.judge(self.rise(*range(5, 100, every)), 65_600 / every)
        assert leak.verdict == "grows"
        (holder,) = leak.holders
        assert holder.line == 22
        assert holder.bytes_per_step == pytest.approx(65_600 / every, abs=1)
        assert f"(65.6 kB, 1 in {every} steps)" in leak.sentence
        assert leak.to_json()["holders"][0]["what"].endswith(f"; 1 in {every} steps")

    def test_holds_one_event_more_or_less_than_was_traced(self) -> None:
        two = self.rise(10, 60)
        assert self.judge(two, 65_600 / 70).verdict == "grows"
        assert self.judge(two, 65_600 / 35).verdict == "grows"
        for other in (65_600 / 5, 65_600 / 200):
            assert not [each for each in self.judge(two, other).holders if each.events]

    def test_is_not_said_to_be_past_the_tracer_where_it_was_seen_once(self) -> None:
        leak = self.judge(self.rise(60), 1_312)
        assert leak.verdict == "unclear"
        assert "65.6 kB of Python objects made under append at service.py:22, once" in leak.sentence
        assert "past the tracer" not in leak.sentence

    def test_is_no_growth_where_none_was_timed(self) -> None:
        assert self.judge(self.rise(10, 60), 0).verdict == "flat"

    def test_and_goes_again_is_no_event(self) -> None:
        gone = [65_600.0 * (10 < step < 40 or step > 98) for step in range(101)]
        leak = self.judge(gone, 1_312)
        assert (leak.verdict, leak.holders) == ("unclear", ())

    def test_stands_beside_what_each_step_keeps(self) -> None:
        steady = place(bytes_=[1_000.0 * step for step in range(101)])
        leak = self.judge(self.rise(10, 60), 1_000 + 1_312, steady)
        assert [(each.kind, each.how_often) for each in leak.holders] == [
            ("python", "1 in 50 steps"),
            ("native", ""),
        ]


class TestAPartIsNotTheWhole:
    def test_what_is_known_of_an_unknown_growth_is_said_to_be_a_part(self) -> None:
        found = record(place(bytes_=[0.1 * each for each in RISING]), host_growth=None)
        environment = msgspec.structs.replace(found.environment, memory_bytes=25_000_000_000)
        leak = judge(replace(found, environment=environment))
        assert leak.sentence.startswith("grows 100 B a step at least: ")
        assert "too little" not in leak.sentence
        assert any(note.startswith("the growth of resident memory is not") for note in leak.notes)
        assert leak.notes[-1].endswith(", or sooner")
        assert not any("too slow to act on" in note for note in leak.notes)

    def test_children_are_counted_in_the_growth_and_in_the_forecast(self) -> None:
        alone = record(place())
        beside = record(place())
        children = ChildProcesses(8, 10_000_000), ChildProcesses(88, 976_000_000)
        beside.trials[0].facts.children = children
        steps = beside.trials[0].steps.host_steps
        rate = 966_000_000 / steps
        leak = judge(beside)
        assert leak.sentence.startswith(f"grows {format_bytes(1000 + rate)} a step: ")
        assert leak.sentence.endswith(f"; about {format_bytes(rate)} in child processes")
        assert "child processes rose from 8 to 88" in leak.notes[0]
        assert leak.notes[1] != judge(alone).notes[0]
        assert leak.to_json()["notes"] == leak.notes
