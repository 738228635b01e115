"""The user's own code by its import path: checked in the parent without running any of it, loaded
in the child.

The parent must not import it, for it imports TensorFlow. So the file is found as Python would find
it, from the folder where the user stands, and read. What a reading can't tell (names made as the
module runs, signatures changed by decorators, modules without source) is left to the child.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import symtable
import sys
from collections.abc import Callable, Mapping
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from runner.errors import BadInput, suggest
from runner.paths import shorten
from runner.script.source import find_top_level_training, find_word_reading

_DECORATOR = re.compile(r"(tf|tensorflow)\.function\b")
"""The one decorator that is known to leave a signature as it is."""

_MAKES_NAMES = frozenset({"exec", "globals", "locals", "setattr", "vars", "__getattr__"})
"""A module that uses one of these may have names that its source doesn't show."""


def check_import_path(path: str, where: str = "scenario.target") -> inspect.Signature | None:
    """Raise `BadInput` unless `path`, said in the field `where`, names something; runs none of it.

    Returns what it takes, or None where only the child can tell.
    """
    module, name = _split(path, where)
    spec = _find(module, where)
    source = _source(spec, where)
    if source is None:
        return _read_loaded(path, module, name, where)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise BadInput(f"{where}: {spec.origin}{line}: {error}.", "Correct the file.") from None
    _refuse_script(tree, path, name, str(spec.origin), where)
    names = _names(source, tree)
    if names is not None and name not in names:
        raise _no_such_name(path, names, where)
    return _signature_of(name, tree)


def _refuse_script(tree: ast.Module, path: str, name: str, file: str, where: str) -> None:
    """Refuse a module that is a script: it trains when it is imported, or reads words that are not
    there."""
    script = shorten(Path(file))
    if (line := find_top_level_training(tree)) is not None:
        raise BadInput(
            f"{where}: {path.partition(':')[0]} trains when it is imported ({script}:{line}), and "
            "each trial imports it.",
            f"Say python -m runner script {script} to measure that training; or put it below "
            '`if __name__ == "__main__":`.',
        )
    if (line := find_word_reading(tree, name)) is not None:
        raise BadInput(
            f"{where}: {path} reads the words of a command line of its own ({script}:{line}).",
            f"Say python -m runner script {script} WORDS.",
        )


def _read_loaded(path: str, module: str, name: str, where: str) -> inspect.Signature | None:
    """Return what a function of a module without source takes, if the module is loaded here anyway:
    one of Python's own, `os:system`."""
    if (loaded := sys.modules.get(module)) is None:
        return None
    if not hasattr(loaded, name):
        raise _no_such_name(path, set(dir(loaded)), where)
    try:
        return inspect.signature(getattr(loaded, name))
    except (TypeError, ValueError):
        return None


def load(path: str, where: str = "scenario.target") -> Any:
    """Return what `path` names. Errors of the module itself pass through: they are the user's."""
    module_name, name = _split(path, where)
    spec = _find(module_name, where)
    module = importlib.import_module(module_name)
    # Python's own may be frozen or built in: they come from no file.
    if spec.has_location and getattr(module, "__file__", None) not in (spec.origin, None):
        raise BadInput(
            f"{where}: {spec.origin} has the name of a module that is loaded already, "
            f"{module.__file__}.",
            "Give yours another name.",
        )
    try:
        return getattr(module, name)
    except AttributeError:
        raise _no_such_name(path, set(dir(module)), where) from None


def fitting(
    signature: inspect.Signature,
    path: str,
    arguments: Mapping[str, Any],
    offered: Mapping[str, Callable[[], Any]],
    where: str = "scenario.arguments",
) -> dict[str, Any]:
    """`arguments`, with what it names of what is `offered`; `BadInput` where they don't fit."""
    parameters = signature.parameters.values()
    by_name = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    for name in arguments:
        if name in by_name and name in offered:
            raise BadInput(f"{where}: {name} is a field of its own.", f"Say {name}=VALUE.")
        if name not in by_name and not takes_any:
            remedy = suggest(name, by_name) or "It takes nothing that has a name."
            raise BadInput(f"{where}: {path} takes no {name!r}.", remedy)
    given = {**{name: offered[name]() for name in by_name if name in offered}, **arguments}
    for each in parameters:
        optional = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if not optional and each.default is each.empty and each.name not in given:
            raise BadInput(
                f"{where}: {path} needs {each.name!r}.",
                f"Say '{where}={{{each.name}: VALUE}}'; or, where it is not a plain value, "
                "name a function that makes it and returns the step.",
            )
    return given


def _split(path: str, where: str) -> tuple[str, str]:
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    for script in (path, f"{path}.py"):
        if script.endswith(".py") and Path(script).is_file():
            raise BadInput(
                f"{where}: {script} is a script; this takes a function in a module.",
                f"Say python -m runner script {script}; or {where}=MODULE:NAME.",
            )
    dotted = module.removesuffix(".py").removeprefix("./").replace("/", ".")
    is_file = module.endswith(".py") and ("/" in module or Path(module).is_file())
    if is_file and all(part.isidentifier() for part in (*dotted.split("."), name)):
        raise BadInput(
            f"{where}: {module} is a file; this takes a module's name.",
            f"Say {where}={dotted}:{name}.",
        )
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise BadInput(
            f"{where}: {path!r} is not a valid import path.",
            f"Say {where}=IMPORT.PATH:NAME, as in my_module:my_step.",
        )
    return module, name


def _find(module: str, where: str) -> ModuleSpec:
    """Where Python would find it; the packages that it lies in are not imported for that."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    first, *inner = module.split(".")
    if first == "__main__":
        raise BadInput(
            f"{where}: {module} is a script, a notebook or a session; no other process finds it.",
            "Put the function into a module, or measure it from there: runner.measure(FUNCTION).",
        )
    found = next(filter(None, (finder.find_spec(first, None) for finder in sys.meta_path)), None)
    if found is None:
        remedy = _nearest_module(first, [here], "Go to the folder that it lies in, or install it.")
        raise BadInput(f"{where}: there is no module {first!r}, in {here} or installed.", remedy)
    for name in inner:
        folders = list(found.submodule_search_locations or ())
        # By its last name alone: with its whole name, Python would look up the package's module.
        spec = PathFinder.find_spec(name, folders) if folders else None
        if spec is None:
            place = ", ".join(folders) or found.origin
            remedy = _nearest_module(name, folders, "See what lies there.")
            raise BadInput(f"{where}: there is no module {name!r} in {place}.", remedy)
        found = spec
    return found


def _nearest_module(name: str, folders: list[str], otherwise: str) -> str:
    modules = {each.name for each in pkgutil.iter_modules(folders)}
    return suggest(name, modules) if modules else otherwise


def _source(spec: ModuleSpec, where: str) -> str | None:
    """None where it has none that Python can read."""
    if spec.loader is None:
        folders = list(spec.submodule_search_locations or ())
        raise BadInput(
            f"{where}: {', '.join(folders)} is a folder without an __init__.py, it has no names.",
            _nearest_module("", folders, "Name a module."),
        )
    try:
        readable = isinstance(spec.loader, InspectLoader)
        return spec.loader.get_source(spec.name) if readable else None  # type: ignore[attr-defined]
    except (ImportError, SyntaxError, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: {spec.origin}: {error}.", "Save it as UTF-8.") from None


def _names(source: str, tree: ast.Module) -> set[str] | None:
    """Return the names at a module's top level; None where its source doesn't show them all."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                return None
            case ast.Name(id=name) | ast.FunctionDef(name=name) if name in _MAKES_NAMES:
                return None
            case ast.Global(names=declared):
                names.update(declared)
    for symbol in symtable.symtable(source, "", "exec").get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            names.add(symbol.get_name())
    return names


def _signature_of(name: str, tree: ast.Module) -> inspect.Signature | None:
    """Of the one `def` or `class` of that name, decorated by tf.function or by nothing; None where
    there is anything else."""
    bindings = [
        node
        for node in ast.walk(tree)
        if getattr(node, "name", None) == name
        or (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store))
    ]
    match bindings:
        case [ast.FunctionDef(decorator_list=decorators) as function]:
            known = all(_DECORATOR.match(ast.unparse(each)) for each in decorators)
            return _signature(function.args) if known else None
        case [ast.ClassDef(decorator_list=[], keywords=[]) as kind]:
            methods = {node.name: node for node in kind.body if isinstance(node, ast.FunctionDef)}
            init = methods.get("__init__")
            if init is None or init.decorator_list or "__new__" in methods:
                return None
            signature = _signature(init.args)
            return signature.replace(parameters=list(signature.parameters.values())[1:])
    return None


def _signature(arguments: ast.arguments) -> inspect.Signature:
    """By way of a function of our own that takes the same: no default or annotation is run."""
    nothing = ast.Constant(None)
    for each in ast.walk(arguments):
        if isinstance(each, ast.arg):
            each.annotation = None
    arguments.defaults = [nothing for _ in arguments.defaults]
    arguments.kw_defaults = [default and nothing for default in arguments.kw_defaults]
    like = ast.Expression(ast.Lambda(arguments, nothing))
    return inspect.signature(eval(compile(ast.fix_missing_locations(like), "", "eval")))


def _no_such_name(path: str, names: set[str], where: str) -> BadInput:
    module, _, name = path.replace(":", ".").rpartition(".")
    public = {each for each in names if not each.startswith("_")}
    return BadInput(
        f"{where}: {module} has no {name!r} at its top level.",
        suggest(name, public) or "It has no names at all.",
    )
