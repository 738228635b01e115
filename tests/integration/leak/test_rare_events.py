"""What every fiftieth step leaves is traced until it was seen three times, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.compose import composition
from runner.leak import hunt
from runner.leak.judgement import judge
from runner.processes.server import TrialServer
from tests.integration.leak import planted
from tests.runs import measure_run, open_whole


def test_what_every_fiftieth_step_keeps_is_found_at_its_line(
    server: TrialServer, tmp_path: Path
) -> None:
    words = [
        *("scenario=callable", f"scenario.target={planted.__name__}:every_fiftieth"),
        *("tracking=none", "measure.timing_processes=1", "measure.memory_processes=0"),
    ]
    cell = composition.compose_plan(words).cells[0]
    run = open_whole(hunt.prepare_cell(cell), tmp_path / "run", settles_peak=False)
    measure_run(run, server)
    leak = judge(run.close())
    assert leak.verdict == "grows", leak.sentence
    holder = leak.holders[0]
    assert (holder.kind, holder.code) == ("python", "log.append(np.ones(8192))  # leak: python")
    assert holder.bytes_per_step == pytest.approx(65_536 / 50, rel=0.1)
    assert "1 in 50 steps" in leak.sentence
