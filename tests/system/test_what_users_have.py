"""What users have: every verb once, and all that it leaves. One table, a row a command.

A row holds the names of files, the keys of records and of `--json`, the columns of tables, MLflow's
params, metrics, tags and artifacts, and the exit code: all of them, so that what is new is told as
well as what is missing. Ids, dates and figures are left out (`leavings.py`).

A row that is wrong says `files: missing: runs/DATE/TIME/run.log`. Where that is meant, the table is
changed with it, and CHANGELOG.md says so: somebody's script may read what is gone.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.leavings import Leavings, Place, differences

# What users bring.

OWN = {
    "own.py": """
import tensorflow as tf

kept = []


def keeps():
    return lambda: kept.append(tf.ones([100_000]))


def makes(size):
    if size < 0:
        raise ValueError("there is no such size")
    return lambda: tf.ones([size])
""",
    "own_conf/experiment/tiny.yaml": """
# @package _global_
# Two loops.
defaults:
  - override /scenario: python_loop

hydra:
  mode: MULTIRUN
  sweeper:
    params:
      scenario.iterations: 2,3
scenario:
  size: 8
""",
    "claim.yaml": """
claim: a kept vector makes each step grow by it
document: a test
cases:
  - when: in a list
    run: {scenario: tensor_per_step, scenario.release: keep}
    sizes: {scenario.elements: [1000, 2000, 4000]}
    expect:
      - value: tensor_growth_bytes_per_step
        unit: "4 * scenario.elements"
        at_least: 0.9
        because: one vector a step
advice: {supported: Let go of it.}
""",
    "script.py": """
import os

import mlflow

import runner

STEP = {"step": "own:makes", "arguments": {"size": 1000}}
FIELDS = {"measure.timing_processes": 0, "measure.memory_steps": 3}

if __name__ == "__main__":
    runner.measure(**STEP, tracking="local", fields=FIELDS)
    mlflow.set_tracking_uri(f"sqlite:///{os.environ['RUNNER_OUTPUTS']}/mlflow.db")
    mlflow.set_experiment("mine")
    with mlflow.start_run(run_name="mine"):
        runner.measure(**STEP, fields=FIELDS)
""",
}

# What they get, by the piece.


Words = frozenset[str]
NOTHING: Words = frozenset()


def words(text: str) -> Words:
    return frozenset(text.split())


def under(above: str, text: str) -> Words:
    """Return a key, and the keys below it."""
    return frozenset([above, *(f"{above}.{word}" for word in text.split())])


def each(above: str, text: str) -> Words:
    """Return the keys of every entry of a list."""
    return frozenset(f"{above}[].{word}" for word in text.split())


HELD_COLUMNS = words("""
    file line code op shape dtype count bytes share held_bytes kept_bytes gradient_bytes
    passing_bytes scopes""")
CLOSED = words("record.json trials.jsonl config.yaml run.log")
VIEWS = words("timeline.json allocations.folded allocations.csv")
"""Of every completed record that knows its allocations."""
PAGE = words("report.html")
"""Of every record that was tracked."""
STORE = words("mlflow.db .mlflow.lock")

OF_MEMORY = words("""
    tensor_peak_bytes tensor_step_peak_bytes tensor_live_bytes tensor_retained_bytes
    tensor_growth_bytes_per_step allocated_bytes_per_step allocations_per_step allocator_peak_bytes
    first_call_tensor_peak_bytes""")
OF_TIMING = words("""
    host_peak_bytes host_retained_bytes first_call_host_bytes build_seconds first_call_seconds
    step_seconds""")
"""Of several processes each has an interval."""
GROWTH, EXAMPLES = words("host_growth_bytes_per_step"), words("examples_per_second")
OF_GRAPHS = "graph_nodes graph_nodes_per_step graph_traces"

OUTCOME = "status phase reason"
DEVICE = "index memory_limit_mb intra_op_threads inter_op_threads malloc malloc_arenas"
MEASURE = """
    timing_processes memory_processes host_processes between_steps warmup_steps steps min_steps
    max_seconds memory_steps timeout_seconds host_limit_mb"""
LOOP = "iterations size gradient stop_gradient watch"

UNMEASURED = (
    words("schema id cell started_at fingerprint metrics unavailable intervals sweep trials")
    | words("allocations")
    | under("spec", "scenario target parameters execution device batch_size seed measure")
    | under("outcome", OUTCOME)
    | under("environment", """
        versions python cpu cores memory_bytes kernel host gpu flags git load device devices
        comparable""")
)  # fmt: skip
HELD_AT_PEAK = """
    total_bytes phase step groups lines frames lives split gradient_why leaks leak_steps marks
    curve peak_curve allocator allocators allocator_peak_bytes checks"""
ALLOCATIONS = under("allocations", HELD_AT_PEAK)


def trial(kind: str, phases: str, steps: str, facts: str) -> Words:
    below = under("phases", phases) | under("steps", steps) | under("facts", f"seconds {facts}")
    own = words("kind index allocations") | under("outcome", OUTCOME)
    return under(f"trials.{kind}", " ".join(own | below))


def metrics(*which: Words) -> Words:
    return under("metrics", " ".join(frozenset().union(*which)))


def facts(kinds: str, names: str) -> Words:
    """Return the keys of what some trials know besides."""
    return frozenset(
        f"trials.{kind}.facts.{name}" for kind in kinds.split() for name in names.split()
    )


MEMORY_TRIAL = trial(
    "memory",
    "build first_call release",
    """tensor_begin_bytes tensor_live_bytes tensor_collected_bytes tensor_peak_bytes allocated_bytes
    allocations""",
    """device devices allocator_peak_bytes process_peak_bytes tensor_peak_bytes
    tensor_retained_bytes course graph_ops unavailable""",
)
TIMING_TRIAL = trial(
    "timing",
    "build first_call steps release",
    "seconds whole_seconds host_bytes host_stride",
    "device devices warmup_steps host_collected_bytes malloc clean unavailable",
)
HOST_TRIAL = trial("host", "", "", "device devices code held unavailable")

MEASURED = UNMEASURED | ALLOCATIONS | MEMORY_TRIAL | TIMING_TRIAL | metrics(OF_MEMORY, OF_TIMING)
LOOP_RECORD = (
    (MEASURED | metrics(GROWTH, EXAMPLES))
    | under("intervals", " ".join(OF_TIMING | EXAMPLES))
    | facts("memory timing", "batched")
)
"""Of `LOOP`, with two timing trials."""
LOOP_IN_MEMORY = (LOOP_RECORD - TIMING_TRIAL - facts("timing", "batched")) - words(
    " ".join(f"intervals.{name}" for name in OF_TIMING | EXAMPLES)
)
"""The same without timing trials."""
OWN_RECORD = (
    (MEASURED | metrics(GROWTH)) | words("environment.code") | facts("memory timing", "code")
)
"""Of a function in a file of the user's, with one timing trial."""
OWN_IN_MEMORY = OWN_RECORD - TIMING_TRIAL - facts("timing", "code")
OWN_IN_TIME = OWN_RECORD - ALLOCATIONS - MEMORY_TRIAL - facts("memory", "code") | words(
    "allocations"
)
"""The same without a memory trial: what grew was resident memory."""
FAILED_RECORD = (
    (UNMEASURED | ALLOCATIONS | metrics(OF_MEMORY, OF_TIMING, GROWTH))
    | words("environment.code")
    | under("unavailable", " ".join(OF_MEMORY | OF_TIMING | GROWTH))
    | trial("memory", "", "", "code device devices")
)
"""Of one that fails in its first trial."""
UNSUPPORTED_RECORD = (
    (UNMEASURED | metrics(OF_MEMORY, OF_TIMING, GROWTH))
    | under("unavailable", " ".join(OF_MEMORY | OF_TIMING | GROWTH))
) - words("environment.device environment.devices")
CELL = under("sweep", "id cell swept experiment")

CONFIG = (
    words("execution batch_size seed resume")
    | under("search", "objectives limits")
    | under("device", f"kind {DEVICE}")
    | under("measure", f"name side_by_side peak_seconds reads_clean {MEASURE}")
    | under("tracking", "kind uri experiment")
)
LOOP_CONFIG = CONFIG | under("scenario", f"_target_ {LOOP}")
OWN_CONFIG = CONFIG | under("scenario", "_target_ target arguments")

PARAMS = words("scenario execution batch_size seed device device.index device.malloc measure") | {
    f"measure.{name}" for name in MEASURE.split() if name != "host_limit_mb"
}
"""Without what is not set."""
READABLE = words("Peak_MB Growth_kB_per_step")
READABLE_OF_TIMING = words("Host_peak_MB Step_ms First_call_ms")
MLFLOW_METRICS = OF_MEMORY | READABLE | OF_TIMING | READABLE_OF_TIMING
SERIES, SERIES_OF_TIMING = words("steps/tensor_live_MB"), words("steps/step_ms steps/host_MB")
TAGS = words("""
    record cell status scenario execution fingerprint folder content mlflow.runName
    started mlflow.source.name mlflow.source.type mlflow.user mlflow.runColor
    mlflow.note.content""") | (
    words("mlflow.source.git.commit") if Path(".git").exists() else NOTHING
)
OF_LINES = words("mlflow.loggedArtifacts")
TAGS_OF_CELL = TAGS | words("sweep swept number mlflow.parentRunId")


# What they get, as the parts of what a command leaves.


def cell(
    where: str, keys: Words, config: Words, status: str = "completed", *, files: Words = VIEWS
) -> Leavings:
    """Return what stands in the folder of a record."""
    left = {
        "files": frozenset(f"{where}/{name}" for name in CLOSED | files),
        f"status in {where}/record.json": frozenset([status]),
        f"keys of {where}/record.json": keys,
        f"keys of {where}/config.yaml": config,
    }
    if "allocations.csv" in files:
        left[f"columns of {where}/allocations.csv"] = HELD_COLUMNS
    return left


def mlflow(
    name: str,
    params: Words,
    metrics: Words,
    tags: Words = TAGS_OF_CELL,
    artifacts: Words = VIEWS | PAGE,
    *,
    status: str = "FINISHED",
    count: int = 1,
) -> Leavings:
    """Return what MLflow has of a record, or of several of one name."""
    return {
        "MLflow runs": frozenset([f"{count} {name}: {status}"]),
        f"MLflow params of {name}": PARAMS | params,
        f"MLflow metrics of {name}": metrics,
        f"MLflow tags of {name}": tags | (OF_LINES if artifacts >= VIEWS else NOTHING),
        f"MLflow artifacts of {name}": CLOSED
        | artifacts
        | (words("lines.json") if artifacts >= VIEWS else NOTHING),
    }


def above(name: str, artifacts: Words) -> Leavings:
    """Return what MLflow has of a sweep: a run above its cells."""
    return {
        "MLflow runs": frozenset([f"1 {name}: FINISHED"]),
        f"MLflow metrics of {name}": words("cells"),
        f"MLflow tags of {name}": words(
            "record folder started mlflow.source.name mlflow.source.type mlflow.user "
            "mlflow.runName mlflow.note.content"
        ),
        f"MLflow artifacts of {name}": artifacts,
    }


def together(*parts: Leavings) -> Leavings:
    whole: dict[str, Words] = {}
    for part, known in ((part, known) for each in parts for part, known in each.items()):
        whole[part] = whole.get(part, NOTHING) | known
    return whole


def files(where: str, names: Words) -> Leavings:
    return {"files": frozenset(f"{where}{name}" for name in names)}


def table(where: str, columns: Words) -> Leavings:
    every = columns | words("cell status reason scenario execution device measure batch_size seed")
    every |= {f"device.{name}" for name in DEVICE.split()}
    every |= {f"measure.{name}" for name in MEASURE.split()}
    return {f"columns of {where}/table.{form}": every for form in ("csv", "parquet")}


def as_json(keys: Words) -> Leavings:
    return {"keys of --json": keys}


def says(*texts: str) -> Leavings:
    """Return what the terminal shows, among other things."""
    return {"says": frozenset(texts)}


def exits(code: int) -> Leavings:
    return {"exit code": frozenset([str(code)])}


@dataclass(frozen=True, eq=False)
class Row:
    """A command, where it is given, and all that it leaves. Of a place each row stands on those
    above it; `FIRST` is the first folder that was made there, `PORT` a free one."""

    place: str
    name: str
    words: str
    leaves: tuple[Leavings, ...] = ()
    stop_when: Callable[[Path, str], bool] | None = None
    """When Ctrl-C comes, by the outputs and what was shown."""

    @property
    def expected(self) -> Leavings:
        return {"exit code": words("0"), **together(*self.leaves)}


# In 5 ms no machine takes the 200 steps that tell growth: it is unknown on each.
BRIEF = "measure.steps=5 measure.memory_steps=3 measure.max_seconds=0.005"
IN_MEMORY = "measure.memory_steps=3 measure.timing_processes=0"
LOOPS = (
    f"scenario=python_loop scenario.size=8 scenario.iterations=3 {BRIEF} measure.timing_processes=2"
)
MADE = (
    f"-m scenario=callable scenario.target=own:makes {BRIEF} measure.timing_processes=1 "
    "execution=eager,session +scenario.arguments.size=1000,2000,-1"
)
"""Two cells that complete, one that fails, and three that do not go together."""

LOOP_PARAMS = frozenset(f"scenario.{name}" for name in LOOP.split())
LOOP_METRICS = MLFLOW_METRICS | SERIES | SERIES_OF_TIMING | EXAMPLES
OWN_PARAMS = words("scenario.target scenario.arguments.size")
OWN_COLUMNS = OF_MEMORY | OF_TIMING | GROWTH | words("target arguments.size")
OWN_METRICS = MLFLOW_METRICS | SERIES | SERIES_OF_TIMING
ALL_METRICS = OF_MEMORY | OF_TIMING | GROWTH

COMPARED = """
    metric verdict reason ratio interval baseline baseline_id baseline_value candidate candidate_id
    candidate_value more_processes same_within held other_code"""
HELD = each("", "allocations") | frozenset(
    f"[].allocations.{name}"
    for name in ("baseline_bytes", "candidate_bytes", "groups")
) | each("[].allocations.groups", """
    op shape dtype line scope baseline_bytes baseline_count candidate_bytes candidate_count
    difference""")  # fmt: skip
PEAK = each("", "folder cell status phase") | frozenset(
    f"[].{name}"
    for name in ALLOCATIONS
    | each("allocations.groups", "op shape dtype count bytes share split scopes")
    | each("allocations.lines", "file line code count bytes share split parts why is_library")
    | under("allocations.split", "held_bytes kept_bytes gradient_bytes passing_bytes")
    | under("allocations.curve", "seconds bytes")
    | under("allocations.peak_curve", "seconds bytes")
    | under(
        "allocations.lives", "begin_seconds end_seconds peak_seconds kinds bands rest rest_count"
    )
    | under("allocations.allocators", "bfc_cpu_allocator_for_gpu")
    | under(
        "allocations.checks",
        """events windows live_before_bytes unmatched_frees
        reused_addresses disagreements""",
    )
)
CLAIM = each("", "id claim source verdict contradicts evidence") | frozenset(
    f"[].evidence.{name}" for name in ("decisive", "condition", "advice", "cases")
)
CASES = each("[].evidence.cases", "when run against sizes holds cells expectations")
STRATEGY = """
    strategy vary largest largest_completed metric_at_largest trials fails varies reason model
    record"""
LEAK = """
    verdict sentence tensor_growth_bytes_per_step host_growth_bytes_per_step interval
    explained_bytes_per_step holders remedies notes"""
HOLDER = "kind bytes_per_step count_per_step file line code what chain"
REMEDY = "change command growth_bytes_per_step verdict"

RUN = "runs/DATE/TIME"
SWEEP = "sweeps/DATE/TIME"
FIT = "fits/DATE/TIME"
LEAKS = "leaks/DATE/TIME"
CLAIMS = "claims/DATE/TIME"


GRID = words("schema cells swept overrides")


def plan_of(where: str, keys: Words = GRID) -> Leavings:
    """Return what a folder knows of what is to be measured there, for `resume`."""
    return {"files": frozenset([f"{where}/plan.json"]), f"keys of {where}/plan.json": keys}


def probe(where: str) -> Leavings:
    """Return what stands in the folder of a value that a fit has tried."""
    return together(
        files(f"{where}/", CLOSED - words("record.json")),
        {f"keys of {where}/config.yaml": LOOP_CONFIG},
    )


def summary(columns: Words) -> Leavings:
    """Return what a sweep is summed up in."""
    left = files(f"{SWEEP}/", words("report.html table.csv table.parquet"))
    return together(left, table(SWEEP, columns))


def sweep(columns: Words, plan: Words = GRID) -> Leavings:
    """Return what a sweep's folder has besides its cells."""
    return together(summary(columns), plan_of(SWEEP, plan), files(f"{SWEEP}/", words("run.log")))


def loops_in_memory(*numbers: int, besides: str = "") -> Leavings:
    """Return two cells of a sweep that has measured only memory."""
    known = LOOP_IN_MEMORY | CELL | words(besides)
    return together(*(cell(f"{SWEEP}/{number}", known, LOOP_CONFIG) for number in numbers))


ROWS = [
    Row("run", "a run", f"-m runner {LOOPS}", (
        cell(RUN, LOOP_RECORD, LOOP_CONFIG, files=VIEWS | PAGE),
        files("", STORE),
        mlflow("python_loop eager batch=32", LOOP_PARAMS, LOOP_METRICS, TAGS),
        says("  record   outputs/runs/", "  MLflow   http://127.0.0.1:5000/#/experiments/1/runs/"),
    )),
    Row("run", "report of a run", "-m runner report latest --json", (
        files(f"{RUN}/", VIEWS | PAGE),
        {f"columns of {RUN}/allocations.csv": HELD_COLUMNS},
        says("report.html", "timeline.json", "allocations.folded", "allocations.csv"),
    )),
    Row("run", "a peak by line", "-m runner report latest --peak", (
        says("state = tf.matmul(state, weight)"),
    )),
    Row("run", "a peak by layer", "-m runner report latest --peak --by layer", (
        says("batch"),
    )),
    Row("run", "a peak by op", "-m runner report latest --peak --by op", (
        says("MatMul"),
    )),
    Row("run", "a peak as JSON", "-m runner report latest --peak --json", (
        as_json(PEAK),
    )),
    Row("run", "again", "-m runner again latest --json", (
        cell(RUN, LOOP_RECORD, LOOP_CONFIG, files=VIEWS | PAGE),
        mlflow("python_loop eager batch=32", LOOP_PARAMS, LOOP_METRICS, TAGS),
        as_json(words("status then now differs rows") | each("rows", COMPARED)),
    )),
    Row("run", "compare two runs", "-m runner compare FIRST latest --json --allocations", (
        as_json(each("", f"{COMPARED} fails") | HELD | words("[].held.scenario")),
    )),
    Row("run", "clean, asked", "-m runner clean FIRST --json", (
        as_json(each("", "folder bytes tracked_runs mlflow_runs deleted reason")),
    )),
    Row("run", "clean", "-m runner clean FIRST --json --yes", (
        as_json(each("", "folder bytes tracked_runs mlflow_runs deleted reason")),
        {"files gone": frozenset(
            f"{RUN}/{name}" for name in CLOSED | VIEWS | PAGE
        )},
        {"MLflow runs gone": words("1")},
    )),

    Row("found", "fit",
        "-m runner fit --json vary=batch_size max=3 device.memory_limit_mb=16 "
        f"{LOOPS} scenario.gradient=none,tape", (
        files(f"{FIT}/", words("fit.json fit.svg probes.jsonl run.log")),
        plan_of(FIT, words("schema cells overrides vary max")),
        probe(f"{FIT}/probes/0-3"),
        probe(f"{FIT}/probes/1-3"),
        cell(f"{FIT}/0", LOOP_RECORD | CELL, LOOP_CONFIG),
        cell(f"{FIT}/1", LOOP_RECORD | CELL, LOOP_CONFIG),
        as_json(each("", STRATEGY) | frozenset(
            f"[].metric_at_largest.{name}" for name in ALL_METRICS | EXAMPLES
        )),
        {f"keys of {FIT}/fit.json":
            words("schema vary max overrides strategies") | each("strategies", STRATEGY)},
        {f"keys of {FIT}/probes.jsonl": each("",
            "strategy value fits whole_run tensor_peak_bytes phase reason out_of_memory")},
    )),
    Row("found", "publish the answers of a fit", "-m runner publish outputs/fits --json", (
        files("", STORE),
        files(f"{FIT}/", words("report.html 0/report.html 1/report.html")),
        as_json(each("", "folder page problem")),
        *(mlflow(f"gradient={gradient} 3 python_loop eager",
                 LOOP_PARAMS | words("device.memory_limit_mb"), LOOP_METRICS)
          for gradient in ("none", "tape")),
        above("fit: gradient, batch_size", words("report.html fit.svg run.log")),
    )),
    Row("found", "leak",
        "-m runner leak --json scenario=callable scenario.target=own:keeps "
        "measure.timing_processes=1", (
        files(f"{LEAKS}/", words("leak.json run.log") | PAGE),
        plan_of(LEAKS),
        cell(f"{LEAKS}/0", OWN_RECORD | HOST_TRIAL | CELL, OWN_CONFIG),
        cell(f"{LEAKS}/1", OWN_IN_TIME | CELL, OWN_CONFIG, files=NOTHING),
        as_json(words(LEAK) | each("holders", HOLDER) | each("remedies", REMEDY)),
        {f"keys of {LEAKS}/leak.json": words("schema leaks") | each("leaks", f"cell {LEAK}")},
    )),

    Row("sweep", "a sweep", f"-m runner {MADE}", (
        exits(1),
        files("", STORE),
        sweep(OWN_COLUMNS),
        cell(f"{SWEEP}/0", OWN_RECORD | CELL, OWN_CONFIG, files=VIEWS | PAGE),
        cell(f"{SWEEP}/1", OWN_RECORD | CELL, OWN_CONFIG, files=VIEWS | PAGE),
        cell(f"{SWEEP}/2", FAILED_RECORD | CELL, OWN_CONFIG, "failed", files=PAGE),
        *(cell(f"{SWEEP}/{number}", UNSUPPORTED_RECORD | CELL, OWN_CONFIG, "unsupported",
               files=PAGE) for number in (3, 4, 5)),
        {"MLflow views": words("mlflow.sharedViewState.runner-sweep-ID")},
        above("sweep: execution, size", words("report.html table.csv run.log")),
        mlflow("eager size=1000 callable", OWN_PARAMS, OWN_METRICS),
        mlflow("eager size=2000 callable", OWN_PARAMS, OWN_METRICS),
        mlflow("eager size=-1 callable", OWN_PARAMS, NOTHING,
               TAGS_OF_CELL | words("reason phase"), PAGE, status="FAILED"),
        *(mlflow(f"session size={size} callable", OWN_PARAMS, NOTHING,
                 TAGS_OF_CELL | words("reason"), PAGE, status="FAILED")
          for size in (1000, 2000, -1)),
        says("2 of 6 cells completed", "table    outputs/sweeps/", "report   outputs/sweeps/"),
    )),
    Row("sweep", "resume", f"-m runner {MADE} resume=latest tracking=none", (
        exits(1),
        summary(OWN_COLUMNS),
        says("2 of 6 cells completed"),
    )),
    Row("sweep", "report of a sweep", "-m runner report latest --json", (
        files(f"{SWEEP}/", PAGE),
        says("report.html"),
    )),
    Row("sweep", "peaks of a sweep", "-m runner report latest --peak --json", (
        as_json(PEAK),
    )),
    Row("sweep", "compare",
        "-m runner compare latest --by scenario.arguments.size --json --allocations", (
        as_json(each("", f"{COMPARED} fails") | HELD | words("[].held.execution")),
    )),
    Row("sweep", "compare and fail",
        "-m runner compare latest --by scenario.arguments.size --fail-on worse", (
        exits(3), says("gate: failed ("),
    )),
    Row("sweep", "compare with a budget",
        "-m runner compare latest --by scenario.arguments.size --json "
        "--budget tensor_peak_bytes=1B", (
        exits(3),
        as_json(each("", f"{COMPARED} fails budget") | words("[].held.execution")),
        says("over budget: "),
    )),
    Row("sweep", "compare for a pull request", "-m runner compare latest --markdown", (
        says("| cell"),
    )),
    Row("sweep", "ui", "-m runner ui --port PORT", (
        exits(130),
        files("", words("ui.log")),
        {"MLflow views": words("mlflow.sharedViewState.runner-all")},
        says("MLflow      http://127.0.0.1:", "all runs    http://127.0.0.1:",
             "last sweep  http://127.0.0.1:", "compared    http://127.0.0.1:"),
    ), stop_when=lambda _, shown: "Ctrl-C ends it." in shown),

    Row("program", "runner.measure", "script.py", (
        cell(RUN, OWN_IN_MEMORY, OWN_CONFIG, files=VIEWS | PAGE),
        files("", STORE),
        mlflow("callable eager batch=32", OWN_PARAMS, OF_MEMORY | READABLE | SERIES, TAGS),
        {
            "MLflow runs": frozenset(["1 mine: FINISHED"]),
            "MLflow metrics of mine": OF_MEMORY | READABLE,
            "MLflow tags of mine": words(
                "runner.records mlflow.runName mlflow.source.name mlflow.source.type mlflow.user"
            ),
            "MLflow artifacts of mine": words("runner/DATE-TIME/record.json"),
        },
    )),
    Row("claims", "claims",
        "-m runner claims --json claim.yaml measure.memory_steps=5 tracking=local", (
        files("", STORE),
        files(f"{CLAIMS}/", words("claims.json verdicts.json claims.html run.log")),
        *(cell(f"{CLAIMS}/{number}",
               (OWN_IN_MEMORY | CELL) - words("environment.code") - facts("memory", "code"),
               CONFIG | under("scenario", "_target_ elements release"), files=VIEWS | PAGE)
          for number in range(3)),
        plan_of(CLAIMS),
        as_json(CLAIM | CASES),
        {
            f"keys of {CLAIMS}/claims.json": words("claims in_full") | under(
                "settings", "measure measure.memory_steps tracking"
            ),
            f"keys of {CLAIMS}/verdicts.json": CLAIM,
        },
        *(mlflow(f"elements={elements} tensor_per_step eager",
                 words("scenario.elements scenario.release"), OF_MEMORY | READABLE | SERIES)
          for elements in (1000, 2000, 4000)),
        above("claim: elements", words("run.log")),
    )),
    Row("claims", "claims, resumed", "-m runner claims --json resume=latest tracking=none", (
        files(f"{CLAIMS}/", words("verdicts.json claims.html")),
        {f"keys of {CLAIMS}/verdicts.json": CLAIM},
        as_json(CLAIM | CASES),
    )),
    Row("experiment", "an experiment",
        f"-m runner --config-dir own_conf experiment=tiny {IN_MEMORY} tracking=none", (
        sweep(words(LOOP) | ALL_METRICS | EXAMPLES),
        loops_in_memory(0, 1, besides="environment.config_dirs"),
    )),
    Row("search", "a search",
        "-m runner -m hydra/sweeper=optuna hydra.sweeper.n_trials=2 hydra.sweeper.n_jobs=2 "
        f"scenario=python_loop scenario.size=8 scenario.iterations=3 {IN_MEMORY} "
        "batch_size=2,3,4 search.objectives=[tensor_peak_bytes] tracking=none", (
        sweep(words(LOOP) | ALL_METRICS | EXAMPLES,
              plan=GRID | words("words")
              | under("search", "objective n_jobs sampler space")),
        loops_in_memory(0, 1),
        says("* smallest tensor_peak_bytes"),
    )),
    Row("stopped", "Ctrl-C in a run",
        "-m runner scenario=python_loop scenario.size=8 scenario.iterations=3 tracking=none "
        "measure.memory_steps=3 measure.steps=1000000 measure.max_seconds=100", (
        exits(130),
        cell(RUN, LOOP_IN_MEMORY | under("unavailable", " ".join(OF_TIMING | GROWTH | EXAMPLES)),
             LOOP_CONFIG, "interrupted", files=NOTHING),
        says("runner: stopped by SIGINT; what was finished is kept."),
    ), stop_when=lambda outputs, _: any(
        file.read_text() for file in outputs.glob("runs/*/*/trials.jsonl")
    )),
    Row("words", "list", "-m runner list", (
        says(*(f"{each} " for each in (
            "scenario=tape", "execution=graph", "device=cpu", "measure=quick", "tracking=local",
            "experiment=loops", "claim=000-01",
        ))),
    )),
    Row("words", "list as JSON", "-m runner list device measure --json", (
        as_json(under("device", "auto cpu gpu") | under("measure", "quick standard rigorous")),
    )),
    Row("words", "completion for bash", "-m runner completion bash", (
        says("complete -o nospace -o default -F _runner_command runner"),
    )),
    Row("words", "completion of a line", "-m runner completion --line 'runner scenario=tap'", (
        says("scenario=tape"),
    )),
    Row("words", "help", "-m runner --help", (
        says("again, claims, clean, compare, completion, fit, leak, list, publish, report, ",
             "report, script, ui",
             "Exit codes: 0 all completed"),
    )),
    Row("words", "version", "-m runner --version", (says("runner "),)),
    Row("words", "a mistyped verb", "-m runner lst", (exits(2), says("did you mean 'list'?"))),
    Row("words", "the configuration", f"-m runner {LOOPS} --cfg job", (says("iterations: 3"),)),
]  # fmt: skip


@pytest.fixture(scope="module")
def left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Row, Future[tuple[Leavings, str]]]]:
    """Return what each row's command leaves, and what it says. The places of the rows that are to
    be tested are worked in side by side; what takes long begins first."""
    with warnings.catch_warnings():  # MLflow warns about itself while it is imported
        warnings.simplefilter("ignore")
        importlib.import_module("mlflow.store.tracking.sqlalchemy_store")
    wanted = {
        item.callspec.params["row"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    folder = tmp_path_factory.mktemp("users")
    futures: dict[Row, Future[tuple[Leavings, str]]] = {row: Future() for row in ROWS}

    def work(name: str) -> None:
        rows = [row for row in ROWS if row.place == name]
        place = Place(folder / name, OWN)
        for row in rows[: 1 + max(n for n, row in enumerate(rows) if row in wanted)]:
            try:
                futures[row].set_result(place.run(row.words, row.stop_when))
            except BaseException as error:
                futures[row].set_exception(error)

    with ThreadPoolExecutor(2) as threads:
        for name in dict.fromkeys(row.place for row in ROWS if row in wanted):
            threads.submit(work, name)
        yield futures


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_command_leaves_what_it_always_left(
    row: Row, left: dict[Row, Future[tuple[Leavings, str]]]
) -> None:
    found, said = left[row].result()
    expected = row.expected
    if texts := expected.get("says"):
        found = {**found, "says": frozenset(text for text in texts if text in said)}
    wrong = differences(found, expected)
    if any(line.startswith(("exit code", "says")) for line in wrong):
        wrong += ["It said:", said]
    assert not wrong, "\n".join([f"{row.name}: python {row.words}", *wrong])
