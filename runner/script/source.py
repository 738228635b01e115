"""Read a script without running any of it: where it is, its code, what it sets in the environment
before TensorFlow is loaded, and whether it trains. Core: standard library only.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.errors import BadInput

MODULE = "-m "
"""How a script begins that is named by its module."""

LIKELIEST = "likeliest"
"""The value of `scenario.step` that has the step sought where no known one is seen."""

_NOTEBOOK = ".ipynb"
_TRAINS = re.compile(r"\.(?:fit|train_on_batch|apply_gradients|minimize|apply)\(")
_READ_AT_START = re.compile(
    r"(?:TF|TF2|XLA|KERAS|CUDA|NVIDIA|CUBLAS|OMP|KMP|GOMP|MKL|DNNL|ONEDNN|OPENBLAS|NUMEXPR|MALLOC"
    r"|TCMALLOC|GLIBC|PYTHON)\w*|LD_PRELOAD"
)
"""Variables that TensorFlow, what it stands on, or the process reads as it begins."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""Statements that run nothing of what is in them."""
_LOADS_TENSORFLOW = frozenset({"tensorflow", "keras", "tf_keras", "keras_hub", "keras_cv"})


@dataclass(frozen=True)
class CodePiece:
    """A whole script, or a notebook's cell."""

    file: str
    """The name that its lines go by."""
    text: str


@dataclass(frozen=True)
class Script:
    """A script as it lies on the disk."""

    path: Path
    module: str | None
    """Its name, where it is run as a module."""
    pieces: tuple[CodePiece, ...]
    left_out: tuple[str, ...] = ()
    """Of a notebook: what only a notebook can run."""

    @property
    def is_notebook(self) -> bool:
        return self.path.suffix == _NOTEBOOK

    def parse(self) -> list[ast.Module]:
        """Return the code of each piece; raise `BadInput` at a line that is none."""
        trees = []
        for piece in self.pieces:
            try:
                trees.append(ast.parse(piece.text, piece.file))
            except (SyntaxError, ValueError) as error:
                number = getattr(error, "lineno", None)
                if not number:  # a NUL, whose line Python does not say
                    number = 1 + piece.text.partition("\0")[0].count("\n")
                what = getattr(error, "msg", None) or str(error)
                raise BadInput(
                    f"{piece.file}, line {number}: {what}.", "Correct the script."
                ) from None
        return trees

    @property
    def trains(self) -> bool:
        """Return whether it looks like one that trains."""
        return any(_TRAINS.search(piece.text) for piece in self.pieces)


def read_script(name: str) -> Script:
    """Return the script of a path, or of `-m MODULE`; raise `BadInput` where there is none."""
    if name.startswith(MODULE):
        module = name.removeprefix(MODULE).strip()
        path = _find_module(module)
        return _read(str(path), path.stat().st_mtime_ns, module)
    path = Path(name)
    if not path.is_file():
        raise BadInput(
            f"scenario.path: there is no script {name} in {Path.cwd()}.",
            "Name a .py file, a notebook, or '-m MODULE'.",
        )
    return _read(name, path.stat().st_mtime_ns, None)


def _find_module(module: str) -> Path:
    """Return the file of a module, found as Python does, but importing nothing."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise BadInput(f"scenario.path: {module!r} is no module's name.", "Say -m PACKAGE.MODULE.")
    find_spec = importlib.machinery.PathFinder.find_spec
    folders = [str(Path.cwd())]
    for number, part in enumerate(module.split(".")):
        spec = find_spec(part, folders) or (find_spec(part) if number == 0 else None)
        if spec is None:
            raise BadInput(
                f"scenario.path: there is no module {module!r}, in {Path.cwd()} or installed.",
                "Go to the folder that it lies in, or install it.",
            )
        folders = list(spec.submodule_search_locations or ())
    if folders:  # a package is run by the module in it that is for that
        spec = find_spec("__main__", folders)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise BadInput(f"scenario.path: {module} can't be run: it has no source.", "Name a module.")
    return Path(spec.origin)


@lru_cache(maxsize=64)
def _read(name: str, modified: int, module: str | None) -> Script:
    path = Path(name)
    try:
        if path.suffix == _NOTEBOOK:
            return _read_notebook(path)
        text = importlib.util.decode_source(path.read_bytes())
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(f"{name}: can't be read ({error}).", "Save it as UTF-8 text.") from None
    return Script(path, module, (CodePiece(os.path.abspath(path), text),))  # noqa: PTH100


def _read_notebook(path: Path) -> Script:
    """Return the code cells of a notebook; magics are left out, line by line."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        what = "is not a notebook of version 4"
        raise BadInput(f"{path}: {what} ({error}).", "Save it anew with Jupyter.") from None
    pieces, left_out = [], []
    for number, code in enumerate(codes, 1):
        name = f"{path}[cell {number}]"
        lines = code.splitlines()
        first = next((line.split()[0] for line in lines if line.strip()), "")
        if first.startswith("%%") and first not in ("%%time", "%%timeit", "%%capture"):
            left_out.append(f"{name} ({first})")
            continue
        for at, line in enumerate(lines):
            stripped = line.lstrip()
            if stripped.startswith(("%", "!")):
                left_out.append(f"{name}:{at + 1} {stripped}")
                lines[at] = f"{line[: len(line) - len(stripped)]}pass"
        pieces.append(CodePiece(name, "\n".join(lines) + "\n"))
    return Script(path, None, tuple(pieces), tuple(left_out))


@dataclass(frozen=True)
class EnvironmentChange:
    """A variable that a script sets before it loads TensorFlow."""

    name: str
    value: str | None
    """None where only the script knows it."""
    line: str
    is_default: bool = False
    """It is set only where it has no value."""


def read_environment(script: Script) -> list[EnvironmentChange]:
    """Return what the script's top sets, up to the first import of TensorFlow: of those variables
    that are read when TensorFlow is loaded."""
    changes: list[EnvironmentChange] = []
    for piece, tree in zip(script.pieces, script.parse(), strict=True):
        for statement in tree.body:
            if _imports_tensorflow(statement):
                return changes
            for name, value, is_default in _list_settings(statement):
                if name is None or not _READ_AT_START.fullmatch(name):
                    continue
                line = f"{piece.file}:{statement.lineno}"
                changes.append(EnvironmentChange(name, value, line, is_default))
    return changes


def list_changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that are read when TensorFlow is loaded and are not what they were."""
    names = (name for name in now if _READ_AT_START.fullmatch(name))
    return tuple(name for name in names if now[name] != before.get(name))


def choose_environment(
    changes: list[EnvironmentChange], outside: Mapping[str, str]
) -> dict[str, str]:
    """Return what a process must be started with that these changes are to reach; raise `BadInput`
    for one that only the script knows, unless it is set outside."""
    environment: dict[str, str] = {}
    for change in changes:
        if change.value is None:
            if change.name not in outside:
                raise BadInput(
                    f"{change.line} sets {change.name} to what only the script knows, before it "
                    "imports TensorFlow; here TensorFlow is loaded already, and would not see it.",
                    f"Set it outside: {change.name}=VALUE python -m runner ...",
                )
        elif not (change.is_default and (change.name in outside or change.name in environment)):
            environment[change.name] = change.value
    return {name: value for name, value in environment.items() if outside.get(name) != value}


def _imports_tensorflow(statement: ast.stmt) -> bool:
    names: list[str] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return any(name.partition(".")[0] in _LOADS_TENSORFLOW for name in names)


def _list_settings(statement: ast.stmt) -> Iterator[tuple[str | None, str | None, bool]]:
    """Yield name, value and whether it is a default, of what a statement sets in `os.environ`."""
    if isinstance(statement, _DEFINITIONS):
        return
    for node in ast.walk(statement):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=value) if (
                _is_environ(owner)
            ):
                yield _text(key), _text(value), False
            case ast.AugAssign(target=ast.Subscript(value=owner, slice=key)) if _is_environ(owner):
                yield _text(key), None, False
            case ast.Call(
                func=ast.Attribute(value=owner, attr="setdefault"), args=[key, value]
            ) if _is_environ(owner):
                yield _text(key), _text(value), True
            case ast.Call(func=ast.Attribute(attr="putenv"), args=[key, value]):
                yield _text(key), _text(value), False
            case ast.Call(func=ast.Attribute(value=owner, attr="update"), args=args) if _is_environ(
                owner
            ):
                for mapping in args:
                    if isinstance(mapping, ast.Dict):
                        for name, said in zip(mapping.keys, mapping.values, strict=True):
                            yield (_text(name) if name else None), _text(said), False
                for keyword in node.keywords:
                    yield keyword.arg, _text(keyword.value), False


def _is_environ(node: ast.expr) -> bool:
    is_attribute = isinstance(node, ast.Attribute) and node.attr == "environ"
    return is_attribute or (isinstance(node, ast.Name) and node.id == "environ")


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def list_statements_after(tree: ast.AST, line: int) -> list[ast.stmt]:
    """Return the statements that call something and come after the one at a line, in the module or
    the function that the line is in; of a loop that is under way, none of its own."""
    statements: list[ast.stmt] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.FunctionDef | ast.If | ast.With | ast.Try):
            continue
        blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        block = next((block for block in blocks if _holds_line(block, line)), [])
        if isinstance(node, ast.FunctionDef) and block:
            statements = []  # what comes after its call is the caller's
        statements += [statement for statement in block if statement.lineno > line]
    return sorted(filter(calls_something, statements), key=lambda statement: statement.lineno)


def _holds_line(block: Sequence[ast.stmt], line: int) -> bool:
    return any(
        statement.lineno <= line <= (statement.end_lineno or statement.lineno)
        for statement in block
    )


def calls_something(statement: ast.stmt) -> bool:
    """Return whether a statement that runs calls anything."""
    if isinstance(statement, _DEFINITIONS):
        return False
    return any(isinstance(node, ast.Call) for node in ast.walk(statement))


def find_top_level_training(tree: ast.Module) -> int | None:
    """Return the line at which a module trains a Keras model as it is imported; None where it does
    not, as far as can be read."""
    calls: list[tuple[str, str, ast.Call]] = []
    for statement in tree.body:
        is_main = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        if is_main or isinstance(statement, _DEFINITIONS):
            continue  # it runs nothing when its module is imported
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                calls.append((ast.unparse(call.func.value), call.func.attr, call))
    compiled = {owner for owner, method, _ in calls if method == "compile"}
    for owner, method, call in calls:
        words = {keyword.arg for keyword in call.keywords}
        is_keras = owner in compiled or words & {"epochs", "steps_per_epoch"}
        if method in ("fit", "train_on_batch") and is_keras:
            return call.lineno
    return None


def find_word_reading(tree: ast.Module, name: str) -> int | None:
    """Return the line at which a function of a module, or one that it calls there, reads the words
    of the command line; None where none does, as far as can be read."""
    functions = {
        function.name: function for function in tree.body if isinstance(function, ast.FunctionDef)
    }
    waiting, seen = [name], set[str]()
    while waiting:
        function = functions.get(waiting.pop())
        if function is None or function.name in seen:
            continue
        seen.add(function.name)
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.argv":
                return node.lineno
            match node:
                case ast.Call(func=ast.Attribute(attr="parse_args" | "parse_known_args"), args=[]):
                    return node.lineno
                case ast.Call(func=ast.Name(id=called)):
                    waiting.append(called)
    return None
