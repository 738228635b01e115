"""The pytest plugin: what tests take of TensorFlow's memory, held against limits and a baseline.

    @pytest.mark.tf_memory(peak="120 MB", growth="0 B")
    def test_training(): ...

It measures in the test's own process, by the meter of a memory trial (`runner.trial.guest`): so
fixtures, monkeypatches, debuggers and coverage work as ever, TensorFlow is imported once, and what
is measured is what the test did. A child of the warm server would know nothing of a test's
fixtures. The price is that what was live before the test can't be seen; it is left out, and said.

pytest loads this module in every project where the runner is installed: so it imports nothing, and
touches nothing, until a test, the ini file or an option says `tf_memory`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner import places

if TYPE_CHECKING:
    from runner.plugin.baseline import Session
    from runner.plugin.blocks import Blocks, Whole
    from runner.plugin.limits import Limits

places.let_their_scenarios_be()

MARK = "tf_memory"
_FILE = "tf_memory.yaml"
_INI = {
    "tf_memory_peak": "the most that any test's tensors may take, where its mark says nothing else",
    "tf_memory_growth": "the most that may stay of each call of a test, where its mark says "
    "nothing else; every test is then called several times",
}

_whole: pytest.StashKey[Whole] = pytest.StashKey()
_session: pytest.StashKey[Session] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tf_memory", "memory of TensorFlow's tensors (runner)")
    for option, help_ in (
        ("save", f"write what each measured test took into FILE (default: {_FILE}), for git"),
        ("compare", "fail tests that take more than FILE says"),
    ):
        group.addoption(f"--tf-memory-{option}", nargs="?", const=_FILE, metavar="FILE", help=help_)
    for name, help_ in _INI.items():
        parser.addini(name, help_, default=None)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before any of the user's modules, which may run an op when they are imported."""
    if _is_asked_for(early_config):
        _arm()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(peak, growth, steps=10): the most that the test's tensors may take, as '120 MB', "
        "and the most that may stay of each call; with growth it is called 1 + steps times",
    )
    if _is_asked_for(config):
        from runner.plugin.baseline import Session

        config.stash[_session] = Session(config)


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """The allocator that counts every byte must be asked for before a test module is imported."""
    if "runner.trial.guest" not in sys.modules and MARK in module_path.read_text(errors="ignore"):
        _arm()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A limit that can't be read refuses all, before anything runs."""
    for item in items:
        _limits(item)


@pytest.fixture
def tf_memory(request: pytest.FixtureRequest) -> Iterator[Blocks]:
    """Measures blocks of a test: `with tf_memory(peak="120 MB") as block:`; the test's mark and
    the ini file say the limits that a block does not."""
    from runner.plugin.blocks import Blocks

    limits = _limits(request.node)
    blocks = Blocks(request.node, limits, request.config.stash.get(_session, None))
    yield blocks
    blocks.abandon()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Iterator[None]:
    """A test's own fixtures belong to it; those that it shares were there before."""
    if fixturedef.scope == "function":
        whole = _whole_of(request.node)
        if whole is not None:
            whole.begin_fixtures()
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    whole = _whole_of(item)
    if whole is None:
        return (yield)
    whole.begin_call()
    result = yield
    whole.end_call()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What a test that failed or was skipped has left open."""
    if (whole := item.stash.get(_whole, None)) is not None:
        whole.abandon()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if _reporting is not None:
        _reporting.add(report)


_reporting: Session | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """The process that prints is the one that writes: of workers it gets what they report."""
    global _reporting
    is_worker = hasattr(session.config, "workerinput")
    _reporting = None if is_worker else session.config.stash.get(_session, None)


def pytest_sessionfinish() -> None:
    if _reporting is not None:
        _reporting.save()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _reporting is not None:
        _reporting.summarise(terminalreporter)


def _arm() -> None:
    from runner.trial import guest

    guest.arm()


def _is_asked_for(config: pytest.Config) -> bool:
    """By the ini file or an option; else marks and fixtures do."""
    options = config.known_args_namespace
    return bool(
        options.tf_memory_save
        or options.tf_memory_compare
        or any(config.getini(name) for name in _INI)
    )


def _limits(item: pytest.Item) -> Limits | None:
    """What the mark says and, where it doesn't, the ini file; None where neither says a word."""
    mark = item.get_closest_marker(MARK)
    said = {name.removeprefix("tf_memory_"): item.config.getini(name) for name in _INI}
    if mark is None and not any(said.values()):
        return None
    from runner.plugin.limits import Limits

    return Limits.read(said, mark, item.nodeid)


def _whole_of(item: pytest.Item) -> Whole | None:
    """The measurement of a whole test; None where nobody asked, and where blocks of it are
    measured."""
    if not isinstance(item, pytest.Item) or MARK in getattr(item, "fixturenames", ()):
        return None
    if (found := item.stash.get(_whole, None)) is not None:
        return found
    limits = _limits(item)
    if limits is None:
        return None
    if item.get_closest_marker(MARK) is None and "tensorflow" not in sys.modules:
        return None
    from runner.plugin.blocks import Whole

    whole = item.stash[_whole] = Whole(item, limits, item.config.stash.get(_session, None))
    return whole
