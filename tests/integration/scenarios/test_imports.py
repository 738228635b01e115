"""An import path is checked by reading the code, without running any of it."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from runner.errors import BadInput
from scenarios import imports

EXPLODES = "raise RuntimeError('this was run')\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where the user stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def check(path: str, **arguments: object) -> dict[str, object] | None:
    """The check, and what would be passed; None where only the child can tell."""
    signature = imports.check_import_path(path)
    if signature is None:
        return None
    return imports.fitting(
        signature, path, arguments, {"batch_size": lambda: 32, "seed": lambda: 1}
    )


@pytest.mark.parametrize("name", ["mine", "package.mine", "outer.inner.mine", "plain.folders.mine"])
def test_a_module_is_found_and_neither_it_nor_its_packages_are_run(name: str, here: Path) -> None:
    *folders, _ = name.split(".")
    file = here.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    if "plain" not in folders:
        for depth in range(len(folders)):
            here.joinpath(*folders[: depth + 1], "__init__.py").write_text(EXPLODES)
    file.write_text(f"{EXPLODES}def step(size=3): ...\n")
    assert check(f"{name}:step", size=4) == {"size": 4}
    assert check(f"{name}.step") == {}
    assert name not in sys.modules


def test_a_name_in_a_package_itself_is_found(here: Path) -> None:
    (here / "package").mkdir()
    (here / "package" / "__init__.py").write_text(f"{EXPLODES}def step(): ...\n")
    assert check("package:step") == {}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("mine", "mine.py is a script; this takes a function"),
        ("mine:", "not a valid import path"),
        (":step", "not a valid import path"),
        ("mine:a step", "not a valid import path"),
        ("../mine.py:step", "not a valid import path"),
        ("mime:step", "did you mean 'mine'"),
        ("package.mime:step", "did you mean 'mine'"),
        ("mine.inner:step", "no module 'inner'"),
        ("nowhere_at_all.deep:step", "no module 'nowhere_at_all'"),
        ("mine:stepp", "did you mean 'step'"),
        ("package:step", "folder without an __init__.py"),
        ("broken:step", "line 2"),
        ("latin:step", "UTF-8"),
    ],
)
def test_what_is_missing_or_unreadable_is_bad_input_that_names_the_nearest(
    path: str, says: str, here: Path
) -> None:
    (here / "mine.py").write_text("def step(): ...\n")
    (here / "package").mkdir()
    (here / "package" / "mine.py").write_text("def step(): ...\n")
    (here / "broken.py").write_text("def step():\n  return (\n")
    (here / "latin.py").write_bytes(b"step = '\xe9'\n")
    with pytest.raises(BadInput, match=r"scenario\.target: ") as refused:
        check(path)
    assert says in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize(
    "line",
    [
        "def step(): ...",
        "class step: ...",
        "step = lambda: None",
        "other, step = 1, print",
        "from os import getcwd as step",
        "import step",
        "if True:\n    def step(): ...",
        "try:\n    import nothing as step\nexcept ImportError:\n    step = None",
        "with open('x') as step: ...",
        "step: object = None",
        "if (step := 1): ...",
        "def other():\n    global step\n    step = 1",
    ],
)
def test_whatever_binds_a_name_at_the_top_level_is_seen(line: str, here: Path) -> None:
    (here / "mine.py").write_text(line)
    check("mine:step")


@pytest.mark.parametrize(
    "line",
    ["from os import *", "def __getattr__(name): ...", "globals()['step'] = print", "exec('a=1')"],
)
def test_a_module_that_makes_its_names_is_left_to_the_child(line: str, here: Path) -> None:
    (here / "mine.py").write_text(line)
    assert check("mine:step") is None


def test_a_module_without_source_is_left_to_the_child(here: Path) -> None:
    assert check("time:localtime") is None


def test_a_function_of_python_s_own_needs_its_arguments_too(here: Path) -> None:
    with pytest.raises(BadInput, match=r"math:sqrt needs 'x'"):
        check("math:sqrt")


def test_a_name_inside_a_function_is_none_of_the_modules(here: Path) -> None:
    (here / "mine.py").write_text("def other():\n    step = 1\n    return step\n")
    with pytest.raises(BadInput, match="no 'step' at its top level"):
        check("mine:step")


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("def step(size): ...", {"size": 4}),
        ("def step(size, depth=1, *rest, key: 'no such type' = nothing, **more): ...", {"size": 4}),
        ("def step(size, *, batch_size, seed): ...", {"size": 4, "batch_size": 32, "seed": 1}),
        ("def step(**more): ...", {"size": 4}),
        ("@tf.function(jit_compile=True)\ndef step(size): ...", {"size": 4}),
        ("class step(tf.Module):\n    def __init__(self, size): ...", {"size": 4}),
    ],
)
def test_arguments_go_by_name_with_batch_size_and_seed_where_they_are_taken(
    line: str, given: dict[str, int], here: Path
) -> None:
    (here / "mine.py").write_text(line)
    assert check("mine:step", size=4) == given


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("def step(): ...", "takes no 'size'"),
        ("def step(sise=1): ...", "did you mean 'sise'"),
        ("def step(size, depth): ...", "needs 'depth'"),
        ("def step(size, /): ...", "takes no 'size'"),
        ("def step(inputs, /, size): ...", "needs 'inputs'"),
        ("def step(size, *, key): ...", "needs 'key'"),
        ("@tf.function\ndef step(size, x): ...", "needs 'x'"),
        ("class step:\n    def __init__(self): ...", "takes no 'size'"),
        ("class step(Base):\n    def __init__(self, size, x): ...", "needs 'x'"),
    ],
)
def test_arguments_that_do_not_fit_are_bad_input(line: str, says: str, here: Path) -> None:
    (here / "mine.py").write_text(line)
    with pytest.raises(BadInput) as refused:
        check("mine:step", size=4)
    assert says in str(refused.value)
    assert refused.value.remedy


def test_a_batch_size_among_the_arguments_is_sent_to_its_own_field(here: Path) -> None:
    (here / "mine.py").write_text("def step(batch_size): ...")
    with pytest.raises(BadInput, match="batch_size is a field of its own"):
        check("mine:step", batch_size=4)


@pytest.mark.parametrize(
    "line",
    [
        "@decorated\ndef step(): ...",
        "def step(): ...\nstep = decorated(step)",
        "def step(): ...\ndef step(a): ...",
        "class step(Base): ...",
        "class step(metaclass=Kind):\n    def __init__(self): ...",
        "@dataclass\nclass step:\n    size: int",
        "class step:\n    def __new__(cls): ...\n    def __init__(self): ...",
    ],
)
def test_a_signature_that_something_may_change_is_left_to_the_child(line: str, here: Path) -> None:
    (here / "mine.py").write_text(line)
    assert imports.check_import_path("mine:step") is None


def test_the_field_that_holds_the_path_is_named(here: Path) -> None:
    with pytest.raises(BadInput, match=r"scenario\.model: "):
        imports.check_import_path("nowhere:make", where="scenario.model")


def test_a_signature_read_is_the_signature_that_python_has(here: Path) -> None:
    line = "def like(a, b=1, /, c=2, *d, e, f=3, **g): ...\n"
    (here / "mine_read.py").write_text(line)
    read = imports.check_import_path("mine_read:like")
    loaded = inspect.signature(imports.load("mine_read:like"))
    assert read is not None
    assert [
        (each.name, each.kind, each.default is each.empty) for each in read.parameters.values()
    ] == [(each.name, each.kind, each.default is each.empty) for each in loaded.parameters.values()]


def test_a_loaded_name_that_is_missing_names_the_nearest(here: Path) -> None:
    (here / "mine_made.py").write_text("globals()['step'] = print")
    with pytest.raises(BadInput, match="did you mean 'step'"):
        imports.load("mine_made:stepp")
    assert imports.load("mine_made:step") is print


def test_a_module_with_the_name_of_one_that_is_loaded_is_told_so(here: Path) -> None:
    (here / "inspect.py").write_text("def step(): ...\n")
    with pytest.raises(BadInput, match="has the name of a module that is loaded already"):
        imports.load("inspect:step")


def test_an_error_of_the_module_itself_passes_through(here: Path) -> None:
    (here / "mine_explodes.py").write_text(f"{EXPLODES}def step(): ...\n")
    with pytest.raises(RuntimeError, match="this was run"):
        imports.load("mine_explodes:step")
