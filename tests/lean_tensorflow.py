"""To be imported before TensorFlow in a process of a test's own: halves the five seconds of
processor time that this takes.

As in the zygote (`runner/trial/loader.py`), what Keras imports only because it is installed is
hidden from it meanwhile, and the collector does not look through what is being loaded.
"""

import gc
import sys

_hidden = [name for name in ("sklearn", "scipy", "matplotlib") if name not in sys.modules]
gc.disable()
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]
try:
    import tensorflow  # noqa: F401
finally:
    for _name in _hidden:
        del sys.modules[_name]
    gc.enable()
