"""The pytest plugin: what tests take of TensorFlow's memory, held against limits and a baseline.

    @pytest.mark.tf_memory(peak="120 MB", growth="0 B")
    def test_training(): ...

It measures in the own process of the test, by `runner.meters.tensor.block`: so fixtures,
monkeypatches, debuggers and coverage work as ever, TensorFlow is imported once, and what is
measured is what the test did. A child of the warm server would know nothing of a test's fixtures.
The price is that what was live before the test can't be seen: the table says what is left out.

pytest loads this module in every project where the runner is installed: so it imports nothing, and
touches nothing, until a test, the ini file or an option says `tf_memory`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner import paths

if TYPE_CHECKING:
    from runner.integrations.pytest_plugin.baseline import BaselineSession
    from runner.integrations.pytest_plugin.blocks import BlockFixture, ItemMeasurement
    from runner.integrations.pytest_plugin.limits import MemoryLimits

paths.prefer_their_scenarios()

MARK = "tf_memory"
_FILE = "tf_memory.yaml"
_INI = {
    "tf_memory_peak": "the most that any test's tensors may take, where its mark says nothing else",
    "tf_memory_growth": "the most that may stay of each call of a test, where its mark says "
    "nothing else; every test is then called several times",
}

_whole: pytest.StashKey[ItemMeasurement] = pytest.StashKey()
_session: pytest.StashKey[BaselineSession] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini file's words."""
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
    """Choose the allocator before any of the user's modules is imported, which may run an op."""
    if _is_asked_for(early_config):
        _choose_allocator()


def pytest_configure(config: pytest.Config) -> None:
    """Add the mark; read the baseline, if one is named."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(peak, growth, steps=10): the most that the test's tensors may take, as '120 MB', "
        "and the most that may stay of each call; with growth it is called 1 + steps times",
    )
    if _is_asked_for(config):
        from runner.integrations.pytest_plugin.baseline import BaselineSession

        session = config.stash[_session] = BaselineSession(config)
        if not hasattr(config, "workerinput"):  # workers report to the process that prints
            config.pluginmanager.register(session)


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Choose the allocator that counts every byte before a module that asks for it is imported."""
    if "runner.meters.tensor.allocator" not in sys.modules and MARK in module_path.read_text(
        errors="ignore"
    ):
        _choose_allocator()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse all for a limit that can't be read, before anything runs."""
    for item in items:
        _read_limits(item)


@pytest.fixture
def tf_memory(request: pytest.FixtureRequest) -> Iterator[BlockFixture]:
    """Yield what measures blocks of a test.

        with tf_memory(peak="120 MB") as block: ...

    The test's mark and the ini file say the limits that a block does not.
    """
    from runner.integrations.pytest_plugin.blocks import BlockFixture

    limits = _read_limits(request.node)
    blocks = BlockFixture(request.node, limits, request.config.stash.get(_session, None))
    yield blocks
    blocks.abandon()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Iterator[None]:
    """Count a test's own fixtures as its own; those that it shares were there before."""
    if fixturedef.scope == "function":
        whole = _find_measurement(request.node)
        if whole is not None:
            whole.begin_fixtures()
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure a test that is limited or compared."""
    whole = _find_measurement(item)
    if whole is None:
        return (yield)
    whole.begin_call()
    result = yield
    whole.end_call()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Close what a test that failed or was skipped has left open."""
    if (whole := item.stash.get(_whole, None)) is not None:
        whole.abandon()


def _choose_allocator() -> None:
    from runner.meters.tensor.allocator import choose_exact_allocator, unite_allocators
    from runner.script.hooks import after_import

    choose_exact_allocator()
    after_import("tensorflow", lambda module: unite_allocators())


def _is_asked_for(config: pytest.Config) -> bool:
    """Return True if the ini file or an option asks for it; else marks and fixtures do."""
    options = config.known_args_namespace
    return bool(
        options.tf_memory_save
        or options.tf_memory_compare
        or any(config.getini(name) for name in _INI)
    )


def _read_limits(item: pytest.Item) -> MemoryLimits | None:
    """Return what the mark says and, where it doesn't, the ini file; None where neither does."""
    mark = item.get_closest_marker(MARK)
    ini = {name.removeprefix("tf_memory_"): item.config.getini(name) for name in _INI}
    if mark is None and not any(ini.values()):
        return None
    from runner.integrations.pytest_plugin.limits import MemoryLimits

    return MemoryLimits.read(ini, mark, item.nodeid)


def _find_measurement(item: pytest.Item) -> ItemMeasurement | None:
    """Return the measurement of a whole test; None where nobody asked, or blocks are measured."""
    if not isinstance(item, pytest.Item) or MARK in getattr(item, "fixturenames", ()):
        return None
    if (whole := item.stash.get(_whole, None)) is not None:
        return whole
    limits = _read_limits(item)
    if limits is None:
        return None
    if item.get_closest_marker(MARK) is None and "tensorflow" not in sys.modules:
        return None
    from runner.integrations.pytest_plugin.blocks import ItemMeasurement

    whole = item.stash[_whole] = ItemMeasurement(
        item, limits, item.config.stash.get(_session, None)
    )
    return whole
