"""The user's own program, run as it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar, Literal

from runner.config import Count
from runner.errors import BadInput
from runner.scenario import Bench, Executions, Program
from runner.script import source


@dataclass(frozen=True)
class Script:
    """A program that calls its own steps: a script, a notebook or a module.

    What do its peak, its steps and its growth take, as it stands?
    """

    executions: ClassVar[Executions] = ("own",)

    path: str
    argv: list[str]
    max_steps: Literal["measured"] | Count | None
    step: str | None

    def check(self) -> None:
        script = source.read_script(self.path)
        source.choose_environment(source.read_environment(script), os.environ)
        script.parse()
        if self.step in (None, source.LIKELIEST):
            return
        module, _, name = self.step.partition(":")
        if not all(each.isidentifier() for each in (*module.split("."), *name.split("."))):
            raise BadInput(
                f"scenario.step: {self.step!r} names no function.",
                "Say scenario.step=MODULE:FUNCTION, as in train:train_step.",
            )

    @property
    def environment(self) -> dict[str, str]:
        """What the script sets before it imports TensorFlow, and a server must be started with."""
        script = source.read_script(self.path)
        return source.choose_environment(source.read_environment(script), os.environ)

    @property
    def folder(self) -> str:
        return str(source.read_script(self.path).path.resolve().parent)

    def build(self, bench: Bench) -> Program:
        from runner.script.program import ScriptRun

        run = ScriptRun(
            script=source.read_script(self.path),
            words=[_fill_in(word, bench) for word in self.argv],
            max_steps=self.max_steps,
            step=self.step,
            note=bench.note,
            tell=bench.note_program,
            tell_calls=bench.tell_calls,
        )
        return Program(run.run)


def _fill_in(word: str, bench: Bench) -> str:
    if "{batch_size}" in word:
        word = word.replace("{batch_size}", str(bench.batch_size))
    return word.replace("{seed}", str(bench.seed))
