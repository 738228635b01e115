"""A script run by plain Python under TensorFlow's own profiler, and the peak of what it asked its
allocator for, read by protobuf's own reader: `python plain.py SCRIPT [WORDS]` prints it.

Nothing here is the product's.
"""

import contextlib
import os
import runpy
import sys
import tempfile
from pathlib import Path

os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"


def replay(content: bytes) -> int:
    """Return the most bytes that were asked for and not given back, at any moment."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    events = []
    for plane in xplane_pb2.XSpace.FromString(content).planes:
        names = {key: each.name for key, each in plane.event_metadata.items()}
        stats = {key: each.name for key, each in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names[event.metadata_id]
                if name not in ("MemoryAllocation", "MemoryDeallocation"):
                    continue
                said = {stats[each.metadata_id]: each for each in event.stats}
                time = line.timestamp_ns * 1000 + event.offset_ps
                address, size = (
                    said[key].int64_value or said[key].uint64_value
                    for key in ("addr", "requested_bytes")
                )
                events.append((time, name == "MemoryDeallocation", address, size))
    live: dict[int, int] = {}
    level = peak = 0
    for _, is_freed, address, size in sorted(events, key=lambda event: event[0]):
        level -= live.pop(address, 0)
        if not is_freed:
            live[address] = size
            level += size
        peak = max(peak, level)
    return peak


if __name__ == "__main__":
    script, *words = sys.argv[1:]
    import tensorflow as tf

    # Devices before graphs: else TensorFlow has a second allocator, which leaves out what is small.
    tf.config.list_logical_devices()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(2, 0, 0))
        sys.argv = [script, *words]
        sys.path[0] = str(Path(script).resolve().parent)
        with contextlib.suppress(SystemExit):
            kept = runpy.run_path(script, run_name="__main__")
        tf.profiler.experimental.stop()
        (file,) = Path(folder).rglob("*.xplane.pb")
        print("peak", replay(file.read_bytes()))
