"""What the messages of TensorFlow, XLA and NumPy say of the request that failed."""

from __future__ import annotations

import pytest

from runner.facts import FailedRequest
from runner.trial.out_of_memory import describe_request, read_request


@pytest.mark.parametrize(
    ("message", "request_"),
    [
        (
            "{{function_node __wrapped__MatMul_device_/job:localhost/device:CPU:0}}"
            " OOM when allocating tensor with shape[1000,1000] and type float on "
            "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:MatMul]",
            FailedRequest("MatMul", (1000, 1000), "float32", 4_000_000, "CPU:0"),
        ),
        (
            "OOM when allocating tensor with shape[3] and type half on GPU:0\n\t"
            " [[{{node net/mm}}]]",
            FailedRequest("net/mm", (3,), "float16", 6, "GPU:0"),
        ),
        (
            "Unable to allocate 763. MiB for an array with shape (10000, 10000) and "
            "data type int64",
            FailedRequest(None, (10000, 10000), "int64", 800_000_000, None),
        ),
        (
            "RESOURCE_EXHAUSTED: Failed to allocate 1.5GiB",
            FailedRequest(None, None, None, 1_610_612_736, None),
        ),
        ("out of memory", FailedRequest(None, None, None, None, None)),
    ],
)
def test_a_message_says_who_asked_for_how_much(message: str, request_: FailedRequest) -> None:
    assert read_request(message) == request_


def test_the_sentence_names_the_request_what_was_live_and_the_cap() -> None:
    request = FailedRequest("MatMul", (1000, 1000), "float32", 4_000_000, "CPU:0")
    assert describe_request(request, 60_000_000, 64) == (
        "MatMul asked for 4.00 MB ([1000, 1000] float32) of CPU:0 while 60.0 MB were live, "
        "under a cap of 64 MiB (67.1 MB)"
    )
    assert describe_request(FailedRequest(None, None, None, None, None), None, None) == (
        "the code asked for more"
    )
