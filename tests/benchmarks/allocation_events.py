"""Reading a million allocation events in windows: seconds, memory, and whether it is linear.

A child traces real TensorFlow, half of it eager and half in a `while_loop`, into windows as a trial
does, and reads one of them the plain way, event by event with protobuf's own reader. Here, without
TensorFlow, all of them are read and replayed.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner.meters.tensor.allocator import name_allocator
from runner.meters.tensor.replay import Replay
from runner.meters.tensor.trace_reader import read_window

WINDOWS = 12
EVENTS_PER_WINDOW = 100_000

CHILD = """
import json, sys, time
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

folder, windows, events = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
one = tf.ones([4, 4])

def eager(count):
    for _ in range(count):
        one @ one

@tf.function
def loop(count):
    return tf.while_loop(lambda i, s: i < count, lambda i, s: (i + 1, s @ s), [0, one])[1]

def stop():
    begun = time.perf_counter()
    tf.profiler.experimental.stop()
    return time.perf_counter() - begun

loop(tf.constant(2))
stopping = []
for window in range(windows):
    options = tf.profiler.experimental.ProfilerOptions(2, 0, 0)
    tf.profiler.experimental.start(str(folder / f"{window:02}"), options)
    with tf.profiler.experimental.Trace("runner/steps", index=window):
        eager(events // 2) if window % 2 else loop(tf.constant(events // 6))
    stopping.append(stop())

def plain(content):
    found = []
    for plane in xplane_pb2.XSpace.FromString(content).planes:
        names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                if name in ("MemoryAllocation", "MemoryDeallocation"):
                    stats = {}
                    for stat in event.stats:
                        kind = stat.WhichOneof("value")
                        value = getattr(stat, kind)
                        if kind == "ref_value":
                            value = names[value]
                        stats[names[stat.metadata_id]] = value
                    found.append((line.timestamp_ns + event.offset_ps // 1000, name, stats))
    return len(found)

(path,) = (folder / "01").rglob("*.xplane.pb")
begun = time.perf_counter()
count = plain(path.read_bytes())
print(json.dumps({"stopping": stopping, "plain_seconds": time.perf_counter() - begun,
    "plain_events": count}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, folder, str(WINDOWS), str(EVENTS_PER_WINDOW)],
            env={**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        child = json.loads(done.stdout)
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        size = sum(file.stat().st_size for file in files)

        before = _peak_bytes()
        replay = Replay(name_allocator("cpu"))
        reading = replaying = 0.0
        sofar = []
        for file in files:
            begun = time.perf_counter()
            window = read_window(file.read_bytes())
            read = time.perf_counter()
            replay.feed(window)
            reading += read - begun
            replaying += time.perf_counter() - read
            sofar.append(reading + replaying)
        found = replay.result()
        memory = _peak_bytes() - before

    checks = found.checks
    plain = child["plain_seconds"] / child["plain_events"] * checks.events
    ours = reading + replaying
    half = sofar[WINDOWS // 2 - 1]
    print(f"{checks.events:,} allocation events in")
    print(
        f"{checks.windows} windows of {size / 1e6:,.0f} MB; {checks.disagreements} lost or astray"
    )
    print(f"read and replayed    {ours:6.2f} s  ({reading:.2f} s + {replaying:.2f} s)")
    print(f"read the plain way   {plain:6.2f} s  ({plain / reading:.1f} times the reading)")
    print(f"the profiler's stops {sum(child['stopping']):6.2f} s")
    print(f"memory               {memory / 1e6:6.0f} MB at most")
    print(f"second half / first  {(ours - half) / half:6.2f}    (linear: 1)")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
