"""A function that was sent by value, opened in the child: there its tensors are made anew, on the
device and under the meter that it is measured with."""

from __future__ import annotations

import linecache
import pickle
from typing import Any

from runner.errors import BadInput
from runner.sent import Sent


def function(sent: Sent) -> Any:
    """What was sent. Its lines are known as if they stood in files."""
    for name, text in sent.sources.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        return pickle.loads(sent.pickled)
    except Exception as error:
        raise BadInput(
            f"{sent.target}: can't be made again in the process that measures "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}).",
            "Make what it uses in a function that returns the step, and measure that function.",
        ) from error


def tensor(value: Any) -> Any:
    """A copy that the allocator was asked for: TensorFlow takes over an array's own memory where
    that happens to be aligned, and then counts nothing."""
    import tensorflow as tf

    made = tf.constant(value)
    return made if made.dtype == tf.string else tf.raw_ops.DeepCopy(x=made)


def variable(value: Any, trainable: bool, name: str) -> Any:
    import tensorflow as tf

    return tf.Variable(tensor(value), trainable=trainable, name=name)
