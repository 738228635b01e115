"""Sources written as generators: each yields the requests that it wants next, and gets their runs.

def hunt(cell):
    (run,) = yield [Request(cell, ...)]
    ... by what run.get_record() says ...
    runs = yield [Request(remedy, ...) for remedy in remedies]
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from runner.engine.requests import Request
from runner.engine.run import Run

Dialogue = Generator[Sequence[Request], Sequence[Run], None]


@dataclass
class _OpenDialogue:
    dialogue: Dialogue
    wanted: Sequence[Request] = ()
    runs: dict[str, Run] = field(default_factory=dict)
    """By place; those that the dialogue waits for and that are there."""

    def advance(self) -> Sequence[Request]:
        """Return what the dialogue asks for next, once all that it asked for is there.

        While it waits, and when it is over, that is nothing.
        """
        if len(self.runs) < len(self.wanted):
            return ()
        runs = [self.runs[request.place] for request in self.wanted]
        self.wanted, self.runs = (), {}
        with suppress(StopIteration):  # it is over, or was before
            self.wanted = self.dialogue.send(runs) if runs else next(self.dialogue)
            while not self.wanted:  # it wanted nothing after all
                self.wanted = self.dialogue.send([])
        return self.wanted


class Dialogues:
    """Asks for what several dialogues want, each at its own pace."""

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self._open = [_OpenDialogue(dialogue) for dialogue in dialogues]

    def ask(self) -> Sequence[Request]:
        """Return what the dialogues that wait for nothing want next."""
        return [request for dialogue in self._open for request in dialogue.advance()]

    def tell(self, run: Run) -> None:
        for dialogue in self._open:
            if any(request.place == run.request.place for request in dialogue.wanted):
                dialogue.runs[run.request.place] = run
