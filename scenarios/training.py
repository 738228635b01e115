"""Training a real, small model, with what people try when memory runs out.

The train step is the plain one of a custom training loop; mixed precision, computing again and
accumulating are Keras's own means. A model's blocks are models too: what is computed again is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from runner.config import Count
from runner.errors import BadInput, suggest
from runner.scenario import Bench, Executions, Step, Varies, Varying
from scenarios import imports


@dataclass(frozen=True)
class KerasTraining:
    """A Keras model trained by Adam on synthetic data, with the usual means against running out.

    How much of the peak do mixed precision, computing blocks again, accumulating gradients, a
    smaller batch, a graph or XLA spare, and what does each cost in time?
    """

    executions: ClassVar[Executions] = ("eager", "graph", "xla")
    varies: ClassVar[Varying] = {"graph": Varies(peak=0.2, allocated=0.2)}

    model: str
    mixed_precision: bool
    recompute: bool
    accumulate: Count

    def check(self) -> None:
        if not _is_import_path(self.model):
            if self.model not in MODELS:
                raise BadInput(
                    f"scenario.model: {self.model!r} is not a valid choice.",
                    f"{suggest(self.model, MODELS)} Or say scenario.model=my_module:my_model.",
                )
            return
        signature = imports.check_import_path(self.model, "scenario.model")
        try:
            if signature is not None:
                signature.bind()
        except TypeError as error:
            raise BadInput(
                f"scenario.model: {self.model} takes arguments ({error}).",
                "Name a model, or a function that takes none and returns one.",
            ) from None

    def build(self, bench: Bench) -> Step:
        import keras
        import tensorflow as tf

        if bench.batch_size % self.accumulate:
            raise BadInput(
                f"scenario.accumulate: {self.accumulate} does not divide batch_size="
                f"{bench.batch_size}.",
                "The batch is cut into that many equal parts.",
            )
        keras.utils.set_random_seed(bench.seed)
        if self.mixed_precision:
            keras.config.set_dtype_policy("mixed_bfloat16")
        found = _load(self.model) if _is_import_path(self.model) else Found(MODELS[self.model]())
        model = found.model if found.takes is None else _with_inputs(*found)
        if self.recompute:
            _recompute(found.model)
        part = bench.batch_size // self.accumulate
        parts = [_examples(model, part, (bench.seed, number)) for number in range(self.accumulate)]
        steps = self.accumulate if self.accumulate > 1 else None
        optimizer = keras.optimizers.Adam(gradient_accumulation_steps=steps)
        optimizer.build(model.trainable_variables)

        def squares(error: Any) -> Any:
            return tf.nn.l2_loss(tf.cast(error, tf.float32))

        @bench.compile
        def train(inputs: Any, targets: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = tf.nest.flatten(model(inputs, training=True))
                # A sum, as the gradient of a mean makes a constant from NumPy, whose memory
                # TensorFlow shares or copies by how it happens to be aligned.
                pairs = zip(targets, outputs, strict=True)
                loss = tf.add_n([squares(output - target) for target, output in pairs])
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            return loss

        def step() -> Any:
            for inputs, targets in parts:
                loss = train(inputs, targets)
            return loss

        return step


def _mlp() -> Any:
    """Eight layers of 512, two a block: weights and Adam's slots outweigh the activations."""
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
    """Four blocks of two convolutions on 32 x 32 images: activations outweigh the weights."""
    import keras
    from keras import layers

    def body(tensor: Any) -> Any:
        first = layers.Conv2D(16, 3, padding="same", activation="relu", name="first")(tensor)
        second = layers.Conv2D(16, 3, padding="same", activation="relu", name="second")(first)
        return layers.Add(name="sum")([tensor, second])

    inputs = keras.Input([32, 32, 3])
    tensor = layers.Conv2D(16, 3, padding="same", name="stem")(inputs)
    for number in range(4):
        tensor = _block(f"block_{number}", tensor, body)
    return keras.Model(inputs, _head(layers.GlobalAveragePooling2D()(tensor)), name="cnn")


def _transformer() -> Any:
    """Two blocks of attention over 64 places of 128: activations outweigh the weights."""
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
    """Make a part of the model a model of its own, so that it can be computed again whole."""
    import keras

    inputs = keras.Input(tensor.shape[1:], dtype=tensor.dtype)
    return keras.Model(inputs, body(inputs), name=name)(tensor)


def _head(tensor: Any) -> Any:
    from keras import layers

    return layers.Dense(10, dtype="float32", name="head")(tensor)


class Found(NamedTuple):
    """A model and, where it does not say so itself, what it takes: anything with shape and dtype,
    or a structure of such, the batch first."""

    model: Any
    takes: Any = None


def _load(path: str) -> Found:
    """Return the user's model: what the path names, or what that returns; data beside it say
    what it takes, and so does the shape that it was built for."""
    import keras

    found = imports.load(path, "scenario.model")
    model = found if isinstance(found, keras.Model) or not callable(found) else found()
    data = None
    if isinstance(model, tuple) and len(model) == 2:
        model, data = model
    if not isinstance(model, keras.Model):
        raise BadInput(
            f"scenario.model: {path} gives a {type(model).__name__}.",
            "Name a keras.Model, or a function that returns one, or (model, inputs).",
        )
    if getattr(model, "inputs", None):
        return Found(model)
    if data is None and model.built:
        shape = (model.get_build_config() or {}).get("input_shape")
        data = keras.KerasTensor(shape, model.input_dtype) if _is_shape(shape) else None
    if data is None:
        raise BadInput(
            f"scenario.model: {path} does not say what it takes.",
            "Let a function return it with a batch of its inputs, (model, inputs); or make it "
            "from keras.Input; or call its build() with the shape of its input.",
        )
    return Found(model, data)


def _is_shape(shape: Any) -> bool:
    sides = isinstance(shape, tuple | list) and len(shape) > 0
    return sides and all(side is None or isinstance(side, int) for side in shape)


def _with_inputs(model: Any, takes: Any) -> Any:
    """Return a model that calls the other one, and says what goes in and comes out."""
    import keras
    import tensorflow as tf

    if isinstance(takes, tf.data.Dataset):
        takes = takes.element_spec
        takes = takes[0] if isinstance(takes, tuple) else takes  # inputs and targets

    def input_like(data: Any) -> Any:
        shape, dtype = (getattr(data, name, None) for name in ("shape", "dtype"))
        if dtype is None or not shape:
            raise BadInput(
                f"scenario.model: beside {model.name} there is a {type(data).__name__}, which has "
                "no shape with a batch.",
                "Return (model, inputs), where inputs are arrays or tensors, the batch first.",
            )
        return keras.Input(tuple(shape)[1:], dtype=tf.as_dtype(dtype).name)

    inputs = tf.nest.map_structure(input_like, takes)
    return keras.Model(inputs, model(inputs), name=f"whole_{model.name}")


def _recompute(model: Any) -> None:
    """Let each layer of the model keep only what goes into it, and compute the rest again.

    `keras.remat` (TensorFlow's `recompute_grad`) takes no keywords in a graph, and computes again
    outside of all that a layer enters when it is called: its name's scope, its precision. So it is
    given the whole layer, keywords bound.
    """
    import keras
    import tensorflow as tf

    def again(layer: Any) -> Callable[..., Any]:
        once = layer.call

        def twice(*args: Any, **kwargs: Any) -> Any:
            scope = tf.get_current_name_scope()

            def whole(*args: Any) -> Any:
                layer.call = once
                try:
                    with tf.name_scope(f"{scope}/"):
                        return layer(*args, **kwargs)
                finally:
                    layer.call = twice

            return keras.remat(whole)(*args)

        return twice

    for layer in model.layers:
        if layer.trainable_variables:
            layer.call = again(layer)


def _examples(model: Any, count: int, seed: tuple[int, int]) -> tuple[Any, list[Any]]:
    """Uniform inputs (zeros, where they are whole numbers) as the model takes them, and targets."""
    import tensorflow as tf

    def example(spec: Any) -> Any:
        shape = [count, *spec.shape[1:]]
        if None in shape:
            raise BadInput(
                f"scenario.model: {model.name} leaves a side open: {spec.name} is {spec.shape}.",
                "Give keras.Input a whole shape; only the batch is left open.",
            )
        dtype = tf.as_dtype(spec.dtype)
        if not dtype.is_floating:
            return tf.zeros(shape, dtype)
        return tf.random.stateless_uniform(shape, seed, dtype=dtype)

    # A Sequential has one input, and no structure of them.
    inputs = tf.nest.map_structure(example, getattr(model, "input", model.inputs[0]))
    return inputs, [example(each) for each in model.outputs]


def _is_import_path(model: str) -> bool:
    return ":" in model or "." in model
