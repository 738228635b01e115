"""The user's own code by its import path: checked in the parent without running it, loaded in the
child.

The parent must not import it, for it imports TensorFlow. So it finds the file as Python would, from
the folder where the user stands, and reads it. What a reading can't tell (names that are made as
the module runs, modules without source) is left to the child.
"""

from __future__ import annotations

import ast
import importlib
import importlib.machinery
import inspect
import os
import symtable
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from typing import Any

from runner.errors import BadInput, nearest

_MAKES_NAMES = frozenset({"exec", "globals", "locals", "setattr", "vars", "__getattr__"})
"""Where a module uses one of these, its names can't be read off its source."""


def check_import_path(path: str, where: str = "scenario.target") -> inspect.Signature | None:
    """Raise `BadInput` unless `path` names something that can be called; runs none of its code.

    Returns what it may be called with, or None where only the child can tell.
    """
    module, name = _split(path, where)
    spec = _find(module, where)
    source = _source(spec, where)
    if source is None:
        return None
    tree = _parsed(source, spec, where)
    names = _names(source, tree)
    if names is not None and name not in names:
        raise _no_such_name(module, name, names, where)
    return _signature_in(tree, name, path, where)


def load(path: str, where: str = "scenario.target") -> Any:
    """What `path` names. Errors in the module itself pass through as they are."""
    module_name, name = _split(path, where)
    _look_here_first()
    expected = _find(module_name, where).origin
    module = importlib.import_module(module_name)
    if expected and getattr(module, "__file__", expected) != expected:
        raise BadInput(
            f"{where}: {module_name} is the name of a module that is loaded already, "
            f"{module.__file__}, not {expected}.",
            "Give yours another name.",
        )
    try:
        found = getattr(module, name)
    except AttributeError:
        raise _no_such_name(module_name, name, set(dir(module)), where) from None
    if not callable(found):
        raise _not_callable(path, type(found).__name__, where)
    return found


def fit(
    path: str,
    signature: inspect.Signature | None,
    arguments: Mapping[str, Any],
    offered: Mapping[str, Any],
    where: str = "scenario.arguments",
) -> dict[str, Any]:
    """`arguments`, and what the signature takes of `offered`; `BadInput` where they don't fit."""
    if signature is None:  # built in: takes what it takes
        return dict(arguments)
    by_name = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    for name in arguments:
        if name in offered and name in by_name:
            raise BadInput(
                f"{where}.{name}: {name} is a field of its own.", f"Say {name}={arguments[name]}."
            )
        if name not in by_name and not takes_any:
            known = nearest(name, by_name) if by_name else "It takes no arguments by name."
            raise BadInput(f"{where}.{name}: {path} takes no argument of that name.", known)
    given = {**{name: offered[name] for name in offered if name in by_name}, **arguments}
    for name, parameter in signature.parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if needed and name not in given:
            by = "" if name in by_name else ", by position"
            raise BadInput(
                f"{where}: {path} needs {name!r}{by}.",
                f"Say '{where}={{{name}: VALUE}}', or name a function that takes plain values "
                "and returns the step.",
            )
    return given


def _split(path: str, where: str) -> tuple[str, str]:
    """IMPORT.PATH:NAME, or with a dot in place of the colon."""
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise BadInput(
            f"{where}: {path!r} is no import path.",
            f"Say {where}=my_module:my_step: a module's path, a colon, a name in it.",
        )
    return module, name


# Finding the module.


def _find(module: str, where: str) -> ModuleSpec:
    """Where Python would find it, without importing the packages that it lies in."""
    first, *inner = module.split(".")
    spec = _find_first(first)
    if spec is None:
        raise BadInput(
            f"{where}: there is no module {first!r}, neither in {_here()} nor installed.",
            _remedy(first, _modules_in([_here()])),
        )
    for part in inner:
        folders = spec.submodule_search_locations
        known = [os.fspath(folder) for folder in folders or ()]
        found = importlib.machinery.PathFinder.find_spec(part, known) if known else None
        if found is None:
            raise BadInput(
                f"{where}: there is no module {part!r} in {_place(spec)}.",
                _remedy(part, _modules_in(known)),
            )
        spec = found
    return spec


def _find_first(name: str) -> ModuleSpec | None:
    """Of a module that lies in no package: here first, then wherever Python looks."""
    here = importlib.machinery.PathFinder.find_spec(name, [_here()])
    if here is not None and here.loader is not None:
        return here
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    return here


def _here() -> str:
    return os.getcwd()  # noqa: PTH109 (as it stands in sys.path)


def _look_here_first() -> None:
    if _here() not in sys.path:
        sys.path.insert(0, _here())


def _modules_in(folders: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        for entry in os.scandir(folder):
            name = entry.name.removesuffix(".py")
            if name.isidentifier() and (name != entry.name or entry.is_dir()):
                found.add(name)
    return found - {"__init__", "__main__", "__pycache__"}


def _remedy(name: str, known: set[str]) -> str:
    return nearest(name, known) or "Go to the folder that it lies in, or install it."


def _place(spec: ModuleSpec) -> str:
    return spec.origin or ", ".join(map(os.fspath, spec.submodule_search_locations or [spec.name]))


# Reading the module.


def _source(spec: ModuleSpec, where: str) -> str | None:
    """Its source; None where it has none that Python can read."""
    if spec.loader is None:
        raise BadInput(
            f"{where}: {_place(spec)} is a folder without an __init__.py, so it has no names.",
            _remedy("", _modules_in(list(spec.submodule_search_locations or ()))),
        )
    if not isinstance(spec.loader, InspectLoader):
        return None
    try:
        return spec.loader.get_source(spec.name)
    except (ImportError, SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{where}: {_place(spec)} can't be read ({error}).", "Save it as UTF-8."
        ) from None


def _parsed(source: str, spec: ModuleSpec, where: str) -> ast.Module:
    try:
        return ast.parse(source, _place(spec))
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else error
        raise BadInput(f"{where}: {_place(spec)}{line}: {what}.", "Correct the file.") from None


def _names(source: str, tree: ast.Module) -> set[str] | None:
    """The names at the module's top level; None where they are made as it runs."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                return None
            case ast.Name(id=name) | ast.FunctionDef(name=name) if name in _MAKES_NAMES:
                return None
            case ast.Global(names=names):
                found.update(names)
    for symbol in symtable.symtable(source, "<source>", "exec").get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            found.add(symbol.get_name())
    return found


def _signature_in(tree: ast.Module, name: str, path: str, where: str) -> inspect.Signature | None:
    """From the one `def` or `class` that binds the name; None where it is bound otherwise."""
    binding = [node for node in _statements(tree.body) if _binds(node, name)]
    match binding:
        case [ast.FunctionDef() as function] if all(map(_keeps, function.decorator_list)):
            if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(function)):
                raise _not_callable(path, "generator", where)
            return _signature(function.args)
        case [ast.AsyncFunctionDef()]:
            raise _not_callable(path, "coroutine", where)
        case [ast.ClassDef(decorator_list=[], keywords=[]) as kind]:
            own = {node.name: node for node in kind.body if isinstance(node, ast.FunctionDef)}
            if "__new__" not in own and (init := own.get("__init__")) is not None:
                return None if init.decorator_list else _signature(init.args, skip=1)
            return inspect.Signature() if not kind.bases and not own.keys() & {"__new__"} else None
        case [ast.Assign(value=ast.Constant() | ast.List() | ast.Dict() | ast.Tuple() as value)]:
            kind_name = type(value.value) if isinstance(value, ast.Constant) else type(value)
            raise _not_callable(path, kind_name.__name__.lower(), where)
    return None


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of the module's own level, blocks (`if`, `try`, `with`) entered."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    yield from _statements([child])
                elif isinstance(child, ast.ExceptHandler | ast.match_case):
                    yield from _statements(child.body)


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name == name
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name.partition(".")[0]) == name for alias in node.names)
    own = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for child in own
        if not isinstance(child, ast.ExceptHandler | ast.match_case)
        for each in ast.walk(child)
    )


def _keeps(decorator: ast.expr) -> bool:
    """Whether this decorator is known to leave the signature alone: `tf.function`."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(target, ast.Attribute) and target.attr == "function"


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of its body, those of functions inside it left out."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _signature(arguments: ast.arguments, skip: int = 0) -> inspect.Signature:
    """As `inspect` would give it; a default's value does not matter, only that there is one."""
    by_position = [
        *((each.arg, inspect.Parameter.POSITIONAL_ONLY) for each in arguments.posonlyargs),
        *((each.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in arguments.args),
    ]
    required = len(by_position) - len(arguments.defaults)
    parameters = [
        inspect.Parameter(name, kind, default=inspect.Parameter.empty if at < required else None)
        for at, (name, kind) in enumerate(by_position)
    ][skip:]
    if arguments.vararg:
        parameters.append(inspect.Parameter(arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        empty = inspect.Parameter.empty if default is None else None
        parameters.append(
            inspect.Parameter(each.arg, inspect.Parameter.KEYWORD_ONLY, default=empty)
        )
    if arguments.kwarg:
        parameters.append(inspect.Parameter(arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _no_such_name(module: str, name: str, names: set[str], where: str) -> BadInput:
    public = [each for each in names if not each.startswith("_")] or names
    remedy = nearest(name, public) or "It has no names at all."
    return BadInput(f"{where}: {module} has no {name!r} at its top level.", remedy)


def _not_callable(path: str, what: str, where: str) -> BadInput:
    return BadInput(
        f"{where}: {path} is a {what}, which can't be run as a step.",
        "Name a function, a class or an object that can be called.",
    )
