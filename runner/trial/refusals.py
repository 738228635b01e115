"""Say what to do where TensorFlow refuses a step as a graph or under XLA.

These are the refusals that people report most often; `tests/integration/trial/test_refusals.py`
provokes each of them. The first row whose words stand in an error's message answers.
"""

from __future__ import annotations

import re

_OUTSIDE = "do it before the compiled part, and pass its result in"

_ADVICE = {
    # A function that is traced.
    r"only supports singleton tf\.Variables": (
        "Make variables, layers, models and optimizers once, outside of the step."
    ),
    r"[Uu]sing a (?:symbolic )?`tf\.Tensor` as a Python `bool`": (
        "A graph knows no values while it is made: write tf.cond or tf.where in place of `if`."
    ),
    r"[Ii]terating over a (?:symbolic )?`tf\.Tensor`": (
        "A graph cannot unpack a tensor: write tf.unstack, tf.map_fn, or a loop over tf.range."
    ),
    r"Cannot convert a symbolic tf\.Tensor .* to a numpy array": (
        "NumPy cannot compute in a graph: use TensorFlow's op of that name, or tf.numpy_function."
    ),
    r"Tensor' object has no attribute 'numpy'": (
        "A graph's tensor has no value while the graph is made: call `.numpy()` outside of the "
        "step, or say execution=eager."
    ),
    r"Tensor' object cannot be interpreted as an integer": (
        "A graph knows no values while it is made: count with tf.range, or take the number "
        "from `tensor.shape`."
    ),
    r"is out of scope and cannot be used here": (
        "A tensor of a graph cannot be kept in a list or an attribute: return it from the function."
    ),
    r"must also (?:be initialized in|have a return statement)|"
    r"must be defined before the loop|may not be defined": (
        "Give each name a value on every way through an `if` or a loop, and return on every "
        "way or on none."
    ),
    r"has (?:shape|dtype) .+ before the loop, but (?:shape|dtype)": (
        "A loop of a graph keeps each tensor's shape and dtype: collect parts in a tf.TensorArray."
    ),
    r"is not a Tensor or ExtensionType": (
        "A tf.function returns tensors or None: return nothing else from the step."
    ),
    # A function that is compiled.
    r"No registered '(?:\w*Iterator\w*|\w*Dataset\w*)'": (
        "XLA cannot compile a data pipeline: fetch the batch outside of the compiled part, and "
        "pass it in."
    ),
    r"No registered '(?:Eager)?PyFunc\w*'": (
        f"XLA cannot compile Python code (tf.py_function, tf.numpy_function): {_OUTSIDE}."
    ),
    r"No registered '(?:_Arg|_Retval)'[\s\S]*?DT_STRING|No registered '\w*String\w*'": (
        f"XLA has no strings: {_OUTSIDE}."
    ),
    r"No registered '(\w+)'": (
        rf"XLA cannot compile the op \1: {_OUTSIDE}; or say execution=graph."
    ),
    r"requires a fixed tensor list size": (
        "XLA must know how often a loop runs: loop over Python's `range`, or give "
        "tf.while_loop its maximum_iterations."
    ),
    r"must be a compile-time constant": (
        "XLA must know every shape when it compiles: pass a size as a Python number, or take "
        "it from `tensor.shape`."
    ),
}
"""What an error's message has, as a pattern -> what to do about it."""


def advise(message: str) -> str | None:
    """Return one sentence on what to do about an error with this message; None where it is none of
    these."""
    for pattern, advice in _ADVICE.items():
        if match := re.search(pattern, message):
            return match.expand(advice)
    return None
