"""Configuration of a team's own, outside the clone, with a scenario and an experiment."""

from __future__ import annotations

from pathlib import Path

SCENARIO = """\
# Adds a tensor to itself. It is the team's.
_target_: theirs_of_the_test.Doubling
size: 1000
"""
EXPERIMENT = """\
# @package _global_
# Does a sum of more cost more?
defaults:
  - override /scenario: doubling
hydra:
  mode: MULTIRUN
  sweeper: {params: {scenario.size: "range(500,1501,500)"}}
"""
CLASS = '''\
from dataclasses import dataclass
from typing import ClassVar

from runner.config import Count


@dataclass(frozen=True)
class Doubling:
    """Adds a tensor to itself."""

    executions: ClassVar = ("eager", "graph")
    size: Count

    def build(self, bench):
        import tensorflow as tf

        tensor = tf.ones([self.size])
        return bench.compile(lambda: tensor + tensor)
'''


def write_team_config(folder: Path) -> Path:
    """Write a team's files into the folder, and return its folder of configuration."""
    for name, text in {
        "conf/scenario/doubling.yaml": SCENARIO,
        "conf/experiment/doublings.yaml": EXPERIMENT,
        "conf/claim/our-01.yaml": "claim: Ours.\n",
        "conf/config.yaml": "of: another program\n",
        "theirs_of_the_test.py": CLASS,
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "conf"
