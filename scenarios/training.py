"""Training a real, small model, with what people try when memory runs out.

The parts by name: MODELS makes ours, `_load` brings in the user's, `_recompute` and the accumulating
optimizer are Keras's own means, and the train step is the plain one of a custom training loop.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from runner.config import Count
from runner.errors import BadInput, nearest
from runner.scenario import Bench, Executions, Step
from scenarios import imports


@dataclass(frozen=True)
class KerasTraining:
    """A Keras model trained by Adam on synthetic data, with the usual means against running out.

    How much of the peak do mixed precision, computing blocks again, accumulating gradients, a
    smaller batch, a graph or XLA spare, and what does each cost in time? Forward and backward ops
    may run concurrently in a graph, and its peak may vary.
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")

    model: str
    mixed_precision: bool
    recompute: bool
    accumulate: Count

    def __post_init__(self) -> None:
        if not _is_import_path(self.model):
            if self.model not in MODELS:
                raise BadInput(f"scenario.model: {self.model!r} is no choice.", _choices(self.model))
            return
        signature = imports.check_import_path(self.model, "scenario.model")
        needed = [name for name, each in _parameters(signature) if each.default is each.empty]
        if needed:
            raise BadInput(
                f"scenario.model: {self.model} needs {needed[0]!r}.",
                "Name a model, or a function without arguments that returns one.",
            )

    def build(self, bench: Bench) -> Step:
        import keras
        import tensorflow as tf

        if bench.batch_size % self.accumulate:
            raise ValueError(
                f"scenario.accumulate={self.accumulate} does not divide batch_size="
                f"{bench.batch_size} into equal parts"
            )
        keras.utils.set_random_seed(bench.seed)
        if self.mixed_precision:
            keras.config.set_dtype_policy("mixed_bfloat16")
        model = _load(self.model) if _is_import_path(self.model) else MODELS[self.model]()
        if self.recompute:
            _recompute(model)
        part = bench.batch_size // self.accumulate
        parts = [_examples(model, part, (bench.seed, number)) for number in range(self.accumulate)]
        steps = self.accumulate if self.accumulate > 1 else None
        optimizer = keras.optimizers.Adam(gradient_accumulation_steps=steps)
        optimizer.build(model.trainable_variables)
        loss_of = keras.losses.MeanSquaredError()

        @bench.compile
        def train(inputs: Any, targets: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = tf.nest.flatten(model(inputs, training=True))
                losses = [loss_of(*pair) for pair in zip(targets, outputs, strict=True)]
                loss = tf.add_n(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            return loss

        def step() -> Any:
            for inputs, targets in parts:
                loss = train(inputs, targets)
            return loss

        return step


def _mlp() -> Any:
    """Eight layers of 512: its weights and Adam's slots outweigh the activations of a batch."""
    import keras
    from keras import layers

    def body(tensor: Any) -> Any:
        tensor = layers.Dense(512, activation="relu", name="first")(tensor)
        return layers.Dense(512, activation="relu", name="second")(tensor)

    inputs = tensor = keras.Input([512])
    for number in range(4):
        tensor = _block(f"block_{number}", tensor, body)
    return keras.Model(inputs, _head(tensor), name="mlp")


def _cnn() -> Any:
    """Three blocks of two convolutions on 32 x 32 images: activations outweigh the weights."""
    import keras
    from keras import layers

    def body(tensor: Any, filters: int) -> Any:
        tensor = layers.Conv2D(filters, 3, padding="same", activation="relu", name="first")(tensor)
        tensor = layers.Conv2D(filters, 3, padding="same", activation="relu", name="second")(tensor)
        return layers.MaxPooling2D(name="pool")(tensor)

    inputs = tensor = keras.Input([32, 32, 3])
    for number, filters in enumerate((16, 32, 64)):
        tensor = _block(f"block_{number}", tensor, functools.partial(body, filters=filters))
    return keras.Model(inputs, _head(layers.GlobalAveragePooling2D()(tensor)), name="cnn")


def _transformer() -> Any:
    """Two blocks of attention over 64 places of 128: activations outweigh the weights by far."""
    import keras
    from keras import layers

    def body(tensor: Any) -> Any:
        normal = layers.LayerNormalization(name="attention_norm")(tensor)
        attention = layers.MultiHeadAttention(4, 32, name="attention")(normal, normal)
        tensor = layers.Add(name="attention_sum")([tensor, attention])
        normal = layers.LayerNormalization(name="dense_norm")(tensor)
        wide = layers.Dense(512, activation="gelu", name="widen")(normal)
        return layers.Add(name="dense_sum")([tensor, layers.Dense(128, name="narrow")(wide)])

    inputs = tensor = keras.Input([64, 128])
    for number in range(2):
        tensor = _block(f"block_{number}", tensor, body)
    return keras.Model(inputs, _head(layers.GlobalAveragePooling1D()(tensor)), name="transformer")


MODELS: dict[str, Callable[[], Any]] = {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer}


def _block(name: str, tensor: Any, body: Callable[[Any], Any]) -> Any:
    """A part of the model that is a model of its own, so that it can be computed again whole."""
    import keras

    inputs = keras.Input(tensor.shape[1:])
    return keras.Model(inputs, body(inputs), name=name)(tensor)


def _head(tensor: Any) -> Any:
    from keras import layers

    return layers.Dense(10, dtype="float32", name="head")(tensor)


def _load(path: str) -> Any:
    """The user's model: what the path names, or what that returns when called."""
    import keras

    found = imports.load(path, "scenario.model")
    model = found if isinstance(found, keras.Model) else found()
    if not isinstance(model, keras.Model):
        raise TypeError(f"{path} gives a {type(model).__name__}, not a keras.Model")
    return model


def _recompute(model: Any) -> None:
    """Keep only what goes into each layer of the model, and compute the rest again.

    `keras.remat` (TensorFlow's `recompute_grad`) takes no keywords in a graph, so they are bound;
    and it computes again outside of the layer's scope, so that is entered again.
    """
    import keras
    import tensorflow as tf

    def again(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            scope = tf.get_current_name_scope()

            def within_scope(*args: Any) -> Any:
                with tf.name_scope(f"{scope}/"):
                    return call(*args, **kwargs)

            return keras.remat(within_scope)(*args)

        return run

    for layer in model.layers:
        if layer.trainable_variables:
            layer.call = again(layer.call)


def _examples(model: Any, count: int, seed: tuple[int, int]) -> tuple[Any, list[Any]]:
    """Uniform inputs (zeros, where they are whole numbers) as the model takes them, and targets."""
    import tensorflow as tf

    def example(spec: Any) -> Any:
        shape = [count, *spec.shape[1:]]
        if None in shape:
            raise ValueError(f"{model.name} leaves sides of {spec.name} open: {spec.shape}")
        dtype = tf.as_dtype(spec.dtype)
        if not dtype.is_floating:
            return tf.zeros(shape, dtype)
        return tf.random.stateless_uniform(shape, seed, dtype=dtype)

    if not getattr(model, "inputs", None):
        raise ValueError(
            f"{model.name} does not say what it takes: make it from keras.Input, or build it"
        )
    inputs = tf.nest.map_structure(example, model.input)
    return inputs, [example(each) for each in model.outputs]


def _is_import_path(model: str) -> bool:
    return ":" in model or "." in model


def _choices(model: str) -> str:
    return f"{nearest(model, MODELS)} Or name your own: scenario.model=my_module:my_model."


def _parameters(signature: inspect.Signature | None) -> list[tuple[str, inspect.Parameter]]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    every = signature.parameters.items() if signature else ()
    return [(name, each) for name, each in every if each.kind not in variadic]
