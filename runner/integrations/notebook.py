"""`%%runner`: a notebook's cell as a step. `%load_ext runner` brings it.

    %%runner batch_size=32 execution=graph
    batch = tf.ones([32, 784])
    lambda: model(batch)

The cell becomes a function, measured by the rule that holds for every other: it is called once, and
if its last line gives something to call, this is the step; if not, the whole cell is.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from typing import Any

import yaml

from runner.errors import BadInput, RunnerError
from runner.integrations.api import measure
from runner.integrations.measurement import Measurement

_NAME = "cell"


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls it."""

    def runner(line: str, cell: str) -> Measurement | None:
        """Measure the cell: %%runner batch_size=32 execution=graph measure.steps=500."""
        try:
            fields = _read_fields(line)
            # IPython's own count is one ahead in some versions of it.
            compiled: dict[str, int] = getattr(shell.compile, "_filename_map", {})
            number = max(compiled.values(), default=shell.execution_count)
            step = make_function(line, shell.transform_cell(cell), number, shell.user_ns)
            return measure(step, fields=fields)
        except RunnerError as error:  # one sentence, as on the command line
            from IPython.core.error import UsageError

            raise UsageError(str(error)) from None

    shell.register_magic_function(runner, "cell", "runner")


def _read_fields(line: str) -> dict[str, Any]:
    """Return `batch_size=32 measure=quick` by name."""
    fields: dict[str, Any] = {}
    for word in line.split():
        name, equals, value = word.partition("=")
        if not equals or name.split(".")[0] in ("scenario", "hydra", "resume"):
            raise BadInput(
                f"%%runner {word}: is not a field of a measurement.",
                "Write %%runner batch_size=32 execution=graph, or nothing.",
            )
        fields[name] = yaml.safe_load(value)
    return fields


def make_function(line: str, cell: str, number: int, names: dict[str, Any]) -> Callable[[], Any]:
    """Return the cell as a function that returns what its last line gives. The magic's own line is
    that of the `def`, so that each of its lines keeps its number; `In[3]` is its file."""
    file = f"In[{number}]"
    try:
        tree = ast.parse(cell)
        text = _indent_cell(cell, tree)
        code = compile(text, file, "exec")
    except SyntaxError as error:
        raise BadInput(f"%%runner: the cell can't be read ({error}).", "Correct it.") from None
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made: dict[str, Any] = {}
    exec(code, names, made)
    step: Callable[[], Any] = made[_NAME]
    step.__module__, step.__qualname__ = "__main__", file
    return step


def _indent_cell(cell: str, tree: ast.Module) -> str:
    """Return a function's text: the cell's, indented but for what lies within a string."""
    if not tree.body:
        raise BadInput("%%runner: the cell is empty.", "Write the step in it.")
    within = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        and (isinstance(node, ast.JoinedStr) or isinstance(node.value, str | bytes))
        for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    lines = cell.splitlines()
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        at, column = last.lineno - 1, last.col_offset
        whole = lines[at].encode()
        lines[at] = (whole[:column] + b"return " + whole[column:]).decode()
    moved = [line if n in within else f"    {line}" for n, line in enumerate(lines, start=1)]
    return "\n".join([f"def {_NAME}():", *moved, ""])
