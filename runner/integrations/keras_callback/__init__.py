"""For `model.fit`: what each epoch takes of memory, and whether it grows.

    model.fit(x, y, epochs=5, callbacks=[runner.keras.MemoryCallback()])

The callback comes into a process that it did not start, where training must not be disturbed. So it
reads what is there to be read for a few microseconds: TensorFlow's own figures of the allocator and
the kernel's of the process. Both are judged by the laws that a run is judged by. What such a reader
can't see it says: on the CPU TensorFlow counts no small tensors, and nobody knows the lines. For
those there are `python -m runner leak`, and the pytest plugin.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable
from typing import Any

import keras

from runner.analysis import growth
from runner.analysis.growth import ProcessGrowth
from runner.facts import StepSeries, TrialFacts
from runner.meters import collector
from runner.meters.host.malloc import MallocLog
from runner.meters.host.resident import HostMemory
from runner.meters.tensor.allocator import AllocatorAccount
from runner.metrics import format_bytes
from runner.records import COMPLETED, Trial
from runner.render.words import count_things
from runner.store import active

__all__ = ["MemoryCallback"]


class MemoryCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras is not typed
    """Puts `allocator_peak_bytes`, `allocator_live_bytes`, `host_peak_bytes` and `host_live_bytes`
    into the logs of each epoch, as far as they are known, so that History, CSVLogger and
    TensorBoard have them, and into the MLflow run that is active, with the epoch as its step.
    Callbacks that are to read them from the logs come after this one. At the end it prints its
    verdict.

    The allocator's figures are of the whole process. They have the rounding of TensorFlow and
    malloc in them, some per cent where tensors are large; the host's are above what the process had
    when the training began. An epoch's peak includes its validation. Each epoch sets back the peaks
    that TensorFlow and the kernel (`VmHWM`) keep of the process.

    After the training `verdict` is `grows`, `flat` or `unclear`, and `growth` holds, by metric, the
    bytes of each batch that stay: None where it can't be told, and `summary()` says why.
    """

    def __init__(self, verbose: bool = True, say: Callable[[str], object] = print) -> None:
        super().__init__()
        self._verbose = verbose
        self._say = say
        self.verdict: str | None = None
        self.growth: dict[str, float | None] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        gc.collect()
        self._allocator = AllocatorAccount()
        self._host = HostMemory()
        self._books = MallocLog()
        self._allocator_bytes, self._host_bytes, self._seconds = array("q"), array("q"), array("d")
        self._peak_bytes = self._host_peak_bytes = 0
        self._epochs = 0
        self._host_before = self._host.anonymous()
        self._at = time.perf_counter()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._allocator.forget()
        self._host.forget()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.perf_counter()
        if self._allocator.problem is None:
            self._allocator_bytes.append(self._allocator.read().live_bytes)
        self._books.note(len(self._host_bytes))
        self._host_bytes.append(self._host.anonymous() - self._host_before)
        self._seconds.append(now - self._at)
        self._at = now

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        figures: dict[str, int] = {}
        if self._allocator.problem is None:
            read = self._allocator.read()
            self._peak_bytes = max(self._peak_bytes, read.peak_bytes)
            if self._peak_bytes or self._allocator.counts_small:  # else it has counted nothing
                figures |= {
                    "allocator_peak_bytes": read.peak_bytes,
                    "allocator_live_bytes": read.live_bytes,
                }
        resident = self._host.read()
        live = resident.anonymous - self._host_before
        if self._host.problem is None:
            peak = self._host.peak(resident) - self._host_before
            self._host_peak_bytes = max(self._host_peak_bytes, peak)
            figures["host_peak_bytes"] = peak
        figures["host_live_bytes"] = live
        self._epochs += 1
        if logs is not None:
            logs.update(figures)
        active.log_figures(figures, epoch)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        before = self._host.anonymous()
        collector.collect()
        collected = max(0, before - self._host.anonymous())
        self._found = self._judge(collected)
        self.growth = {name: one.bytes_per_step for name, one in self._found.items()}
        self.verdict = "unclear" if None in self.growth.values() else "flat"
        if any(self.growth.values()):
            self.verdict = "grows"
        active.log_figures(
            {name: value for name, value in self.growth.items() if value is not None}
        )
        if self._verbose:
            self._say(self.summary())

    def _judge(self, collected: int) -> dict[str, ProcessGrowth]:
        """Return the growth by the laws that a run's trials are judged by."""
        timing = Trial(
            *("timing", 0, COMPLETED),
            steps=StepSeries(host_bytes=tuple(self._host_bytes), seconds=tuple(self._seconds)),
            facts=TrialFacts(host_collected_bytes=collected, malloc=self._books.to_facts()),
        )
        rates = {"host_growth_bytes_per_step": growth.judge_host(timing) or ProcessGrowth(None)}
        if self._allocator_bytes and (self._peak_bytes or self._allocator.counts_small):
            judged = growth.judge_series(self._allocator_bytes, None, growth.ALLOCATOR)
            rates = {"allocator_growth_bytes_per_step": judged, **rates}
        return rates

    def summary(self) -> str:
        """Return what the training took, whether it grows, and what could not be seen."""
        if self.verdict is None:
            return "Memory of the training is known after it."
        batches = len(self._host_bytes)
        took = [f"host {format_bytes(self._host_peak_bytes)} above what was there"]
        if self._peak_bytes:
            took.insert(0, f"{self._name_tensors().lower()} {format_bytes(self._peak_bytes)}")
        text = [
            f"Peak memory in {count_things(self._epochs, 'epoch')} "
            f"({count_things(batches, 'batch', 'batches')}): {', '.join(took)}.",
            *(self._write_growth(name, one, batches) for name, one in self._found.items()),
            *(f"Not seen: {blind_spot}" for blind_spot in self._list_blind_spots()),
        ]
        if self.verdict == "grows":
            text.append("Which line it is, and what holds it: python -m runner leak --help")
        return "\n".join(text)

    def _write_growth(self, name: str, rate: ProcessGrowth, batches: int) -> str:
        what, verb, no = "The host's memory", "grows", "does not grow"
        if name.startswith("allocator"):
            what, verb, no = self._name_tensors(), "grow", "do not grow"
        if rate.bytes_per_step:
            return f"{what} {verb} by {format_bytes(rate.bytes_per_step)} a batch."
        if rate.bytes_per_step is None:
            return (
                f"{count_things(batches, 'batch', 'batches')} are too few to say whether "
                f"{what[0].lower()}{what[1:]} {verb}: it takes "
                f"{rate.steps_needed or growth.HOST_STEPS:,}."
            )
        return f"{what} {no}."

    def _name_tensors(self) -> str:
        """Return what the allocator counts."""
        return "Tensors" if self._allocator.counts_small else "Tensors of 262,144 bytes and more"

    def _list_blind_spots(self) -> list[str]:
        spots = []
        if self._allocator.problem:
            spots.append(f"tensors: {self._allocator.problem}.")
        elif not self._allocator.counts_small:
            spots.append(
                "tensors of less than that, which TensorFlow's CPU allocator does not count (the "
                "host's figures have them); TF_CPU_ALLOCATOR_USE_BFC=1 in the environment makes it."
            )
        if self._host.problem:
            spots.append(f"the host's peak: {self._host.problem}.")
        return spots
