"""Isolation: every trial in a fresh child of a warm server that has TensorFlow loaded.

Why a process: TensorFlow's allocators, graphs, traces and caches live as long as their process, so
a second measurement in it is never the first one. Why a server: importing TensorFlow takes seconds,
forking from a process that has it takes milliseconds. No op has run in the server, so a child finds
TensorFlow as a fresh interpreter would.

What survives what:
- The child ends (by itself, by a signal, by its deadline): an outcome with phase and reason.
- The server ends: its child ends too; a new server is started and the trial is run once more.
- The parent ends, even by SIGKILL: the kernel ends server and child (PR_SET_PDEATHSIG).

    server.py   parent side: starts trials, waits for them without polling, turns ends into outcomes
    warm.py     loaded by the server: TensorFlow, and nothing that touches a device
    worker.py   child side: sets the device, builds the step, takes it through the phases
    failure.py  child side: an exception as a status, and a reason that names its line
"""
