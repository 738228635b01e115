"""What may be relied on of the stand-in GPU: that TensorFlow takes it for a card."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.standin_gpu.facts import KERNEL_SECONDS

MEBIBYTE = 2**20
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def facts(with_standin_gpu: dict[str, str]) -> dict[str, Facts]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("facts.py"))],
        env={**with_standin_gpu, "STANDIN_GPU_COUNT": "2", "STANDIN_GPU_MEMORY_MB": "512"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Facts] = json.loads(done.stdout)
    raised = [fact["raised"] for fact in found.values() if "raised" in fact]
    assert not raised, raised[0]
    return found


def test_a_forked_child_sees_as_many_cards_as_were_asked_for(facts: dict[str, Facts]) -> None:
    assert facts["devices"]["seen"] == [
        "/physical_device:CPU:0",
        "/physical_device:GPU:0",
        "/physical_device:GPU:1",
    ]


def test_a_tensor_lives_on_the_card_and_is_counted_rounded_to_256_bytes(
    facts: dict[str, Facts],
) -> None:
    counting = facts["counting"]
    assert counting["device"] == GPU
    assert counting["added"] == 4096  # 4,000 bytes
    assert counting["left"] == 0


def test_a_card_that_alone_is_visible_is_gpu_0_whatever_its_index(facts: dict[str, Facts]) -> None:
    assert facts["second_card"] == {"device": GPU, "logical": ["/device:GPU:0"]}


def test_memory_growth_takes_a_little_and_without_it_tensorflow_takes_the_whole_card(
    facts: dict[str, Facts],
) -> None:
    assert facts["growing"]["mapped"] <= 4 * MEBIBYTE
    assert facts["not_growing"]["mapped"] == 512 * MEBIBYTE


def test_what_is_on_the_card_is_not_the_process_own_memory(facts: dict[str, Facts]) -> None:
    memory = facts["card_memory"]
    assert memory["shared"] >= memory["tensor"] == 100_000_000
    assert memory["anonymous"] < memory["tensor"] / 4
    assert memory["data"] < memory["tensor"] / 2


def test_a_memory_limit_holds_to_the_tensor(facts: dict[str, Facts]) -> None:
    """A card gives its memory in one region: 64 MiB are sixteen tensors of 4 MB and a rest."""
    assert facts["capped"]["kept"] == 64 * MEBIBYTE // 4_000_000 == 16


def test_out_of_memory_names_shape_device_and_allocator(facts: dict[str, Facts]) -> None:
    assert (
        f"OOM when allocating tensor with shape[1000,1000] and type float on {GPU} "
        "by allocator PluggableDevice_0_bfc"
    ) in facts["capped"]["message"]


def test_the_card_s_allocation_events_are_told_by_their_allocator_and_replay_exactly(
    facts: dict[str, Facts],
) -> None:
    """At the peak: the weight, two states, and the 4 bytes that both were filled from."""
    events = facts["events"]
    assert "PluggableDevice_0_bfc" in events["allocators"]
    state, weight, value = 10 * 100 * 4, 100 * 100 * 4, 4
    assert events["requested_peak"] == weight + 2 * state + value
    rounded = sum(-(-size // 256) * 256 for size in (weight, state, state, value))
    assert events["allocator_peak"] == rounded


def test_who_does_not_synchronise_measures_the_call_and_not_the_kernel(
    facts: dict[str, Facts],
) -> None:
    timing = facts["synchronising"]
    assert timing["all"] >= 5 * KERNEL_SECONDS
    assert timing["synchronising"] >= KERNEL_SECONDS / 2  # the last one had only just begun
    assert timing["fetching"] >= KERNEL_SECONDS


def test_what_fell_back_is_known_of_eager_ops_and_of_graphs(facts: dict[str, Facts]) -> None:
    fallen = facts["falling_back"]
    assert fallen["random input"]["CPU"] == ["RandomStandardNormal"]
    assert fallen["eager"] == {"CPU": ["Sin", "Sum"], "GPU": ["MatMul"]}
    assert fallen["graph"]["CPU"] == ["Sin"]
    assert "MatMul" in fallen["graph"]["GPU"]
    assert fallen["again"] == {"CPU": [], "GPU": []}  # once, however often it runs


def test_soft_placement_off_refuses_only_what_was_sent_to_the_card_by_name(
    facts: dict[str, Facts],
) -> None:
    placement = facts["placement"]
    assert placement["unnamed"] == CPU
    assert "Could not satisfy device specification" in placement["named"]


def test_every_kernel_computes_what_the_cpu_computes(facts: dict[str, Facts]) -> None:
    differences = facts["results"]
    assert len(differences) == 20
    assert max(differences.values()) < 1e-5, differences


def test_there_is_no_xla_for_it(facts: dict[str, Facts]) -> None:
    assert "Could not find compiler for platform STANDIN" in facts["compiling"]["message"]
