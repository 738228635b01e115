"""What a cell costs Dask's scheduler and the command, without measuring anything.

    python -m tests.benchmarks cluster_scale

100,000 tasks that report a trial, sleep for 10 ms and return 20 kB, as a cell does, on ten workers
of this machine, handed out as the runner does: as many as there are workers. Scheduler, client and
the workers' nannies run in this process. RUNNER_TEST_TASKS=2000 is a quick look.
"""

from __future__ import annotations

import os
import pickle
import time

import psutil
from distributed import as_completed, get_worker

from runner.cell import ClusterSpec
from runner.engine.cluster.clusters import connect

TASKS = int(os.environ.get("RUNNER_TEST_TASKS", "100000"))
WORKERS, TOPIC = 10, "trials"
WORK = pickle.dumps(bytes(6000))
"""A pickled request, with its composed configuration."""


def sleep(number: int, work: bytes) -> bytes:
    get_worker().log_event(TOPIC, (number, "memory", 0))
    time.sleep(0.01)
    return bytes(20_000)


def main() -> None:
    connection = connect(ClusterSpec("dask", WORKERS))
    connection.keep_workers(WORKERS)
    client, process = connection.client, psutil.Process()
    client.wait_for_workers(WORKERS)
    client.subscribe_topic(TOPIC, lambda event: None)

    def submit(number: int) -> object:
        return client.submit(sleep, number, WORK, pure=False, retries=1)

    started, used, held = time.monotonic(), process.cpu_times(), process.memory_info().rss
    done = as_completed([submit(number) for number in range(WORKERS)])
    following = WORKERS
    for count, task in enumerate(done, start=1):
        assert len(task.result()) == 20_000
        if following < TASKS:
            done.add(submit(following))
            following += 1
        if count % max(1, TASKS // 20) == 0:
            seconds, after = time.monotonic() - started, process.cpu_times()
            processor = after.user + after.system - used.user - used.system
            grown = process.memory_info().rss - held
            workers = [child.memory_info().rss for child in process.children()]
            print(
                f"{count:,} tasks on {WORKERS} workers: {count / seconds:.0f} a second; scheduler "
                f"and client take {processor / count * 1e3:.2f} ms of processor time a task, and "
                f"{grown / 1e6:.0f} MB more; the largest worker has {max(workers) / 1e6:.0f} MB",
                flush=True,
            )
    connection.close()


if __name__ == "__main__":
    main()
