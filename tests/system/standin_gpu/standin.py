"""The stand-in GPU, ready for use: builds it and says what a process needs to see it.

    eval "$(python -m tests.system.standin_gpu.standin)"          # in the project's folder
    python -m runner scenario=while_loop device=gpu

`standin_gpu.cc` is a plugin that TensorFlow loads when it is imported, named to it by
TF_PLUGGABLE_DEVICE_LIBRARY_PATH; no code of ours knows of it. It needs a TensorFlow without CUDA:
in the PyPI wheel of `tensorflow` CUDA's own kernels for GPU are registered already; they clash with
the plugin's where both have one, and fail where only CUDA has. So, where that wheel is installed,
`tensorflow-cpu` of the same version is fetched, by itself and once, and put first on PYTHONPATH:
everything else comes from the environment in use.

All is kept in RUNNER_TEST_CACHE, or ~/.cache/runner-tests: 1.3 GB, 10 s and a 270 MB download the
first time.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).with_name("standin_gpu.cc")
HEADERS = ("kernels.h", "experimental/stream_executor/stream_executor.h")


def environment() -> dict[str, str]:
    """The variables under which TensorFlow has a GPU. Builds what is not there yet."""
    cache = Path(os.environ.get("RUNNER_TEST_CACHE", "~/.cache/runner-tests")).expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        site = _tensorflow_without_cuda(cache)
        library = _library(cache, site)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(library),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _tensorflow_without_cuda(cache: Path) -> Path:
    """The folder to import TensorFlow from: where it is installed, or a copy without CUDA."""
    found = importlib.util.find_spec("tensorflow")  # does not import it
    assert found is not None, "TensorFlow is not installed"
    assert found.origin is not None
    installed = Path(found.origin).parent
    if "('is_cuda_build', True)" not in (installed / "python/platform/build_info.py").read_text():
        return installed.parent
    version = metadata.version("tensorflow")
    home = cache / f"tensorflow-cpu-{version}-{sys.implementation.cache_tag}"
    site = home / "site-packages"  # by that name a traceback's reader knows it for a library
    if not site.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            fetched = Path(scratch) / "fetched"
            _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary",
                 ":all:", "--target", str(fetched), f"tensorflow-cpu=={version}")  # fmt: skip
            home.mkdir(exist_ok=True)
            fetched.rename(site)
    return site


def _library(cache: Path, site: Path) -> Path:
    include = site / "tensorflow/include"
    sources = [SOURCE, *(include / "tensorflow/c" / header for header in HEADERS)]
    made_of = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    library = cache / f"standin_gpu-{made_of}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            built = Path(scratch) / library.name
            _run("g++", "-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
                 f"-I{include}", str(SOURCE), "-o", str(built))  # fmt: skip
            built.rename(library)
    return library


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    for name, value in environment().items():
        print(f"export {name}={shlex.quote(value)}")
