"""What a thread's stack takes, read off the kernel's map of the process."""

from __future__ import annotations

from runner.meters.host import threads


def test_a_stack_is_what_lies_above_a_page_that_nobody_may_touch() -> None:
    smaps = """7f00-8f00 ---p 00000000 00:00 0
Anonymous:             0 kB
10000-11000 ---p 00000000 00:00 0
Anonymous:             0 kB
11000-811000 rw-p 00000000 00:00 0
Rss:                  16 kB
Anonymous:            12 kB
811000-911000 rw-p 00000000 00:00 0
Anonymous:           500 kB"""
    assert threads.measure_stacks(smaps.splitlines()) == [12 * 1024]
