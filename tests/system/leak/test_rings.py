"""What fills up and then stays as it is, as a leak hunt sees it in a hundred traced steps."""

from __future__ import annotations

from pathlib import Path

from runner.compose import composition
from runner.leak import hunt
from runner.leak.judgement import judge
from runner.processes.server import TrialServer
from tests.integration.leak.test_cheap_steps import words
from tests.runs import measure_run, open_whole


def test_leak_says_of_rings_that_they_fill(server: TrialServer, tmp_path: Path) -> None:
    cell = composition.compose_plan([*words("rings", 4_000), "tracking=none"]).cells[0]
    run = open_whole(hunt.prepare_cell(cell), tmp_path / "run", settles_peak=False)
    measure_run(run, server)
    leak = judge(run.close())
    assert leak.verdict == "fills", leak.sentence
    assert leak.tensor_growth_bytes_per_step == 0
