"""A user's script, without a guard around what it does: run by `test_library`, which reads what it
prints. What it keeps is known: 100 x 70 floats a step."""

import json
import threading

import own_module
import tensorflow as tf

import runner
from runner.errors import BadInput

MEMORY_ALONE = {"measure.timing_processes": 0, "measure.memory_steps": 4}

batch = tf.ones([100, 50])
weight = tf.Variable(tf.ones([50, 70]))
history = []
lock = threading.Lock()
model = tf.keras.Sequential([tf.keras.layers.Dense(3)])


@tf.function
def product(tensor):
    return tf.matmul(tensor, weight)


product(batch)  # it has been traced here, as one does to try it


def step():
    history.append(product(batch))  # kept


def refused(function):
    try:
        runner.measure(function)
    except BadInput as error:
        return str(error)


told = {
    "lock": refused(lambda: lock),
    "model": refused(lambda: model(batch)),
    "number": refused(3),
    "needs": refused(lambda width: width),
    "measure": refused("own_module:no_such_step"),
}
sent = runner.measure(step, fields=MEMORY_ALONE)
found = runner.measure(own_module.step, fields=MEMORY_ALONE)
for name, each in {"sent": sent, "found": found}.items():
    told[name] = {
        "outcome": each.outcome.status,
        "reason": each.outcome.reason,
        "target": each.record.spec.parameters["target"],
        "peak": each["tensor_peak_bytes"],
        "growth": each["tensor_growth_bytes_per_step"],
        "lines": [[line.file, line.code, line.bytes] for line in each.allocations.lines],
        "code": sorted(each.record.environment.code.files),
        "text": str(each),
    }
told["compared"] = [row.verdict for row in runner.compare(sent, found, ["tensor_peak_bytes"]).rows]
told["here"] = len(history)
print(json.dumps(told))
