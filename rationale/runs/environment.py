"""The environment of a run: the variables of its kernel, and a record of versions and machine."""

import importlib.metadata
import os
import platform
import re
import subprocess
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rationale.runs.workspace import read_if_there, root

USUAL = {  # environment variables of the kernel, unless they are already set
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TQDM_DISABLE": "1",
    # glibc keeps freed memory: otherwise each training step returns and requests tens of megabytes, page by page
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4000000000",
}
COMPUTING = ("fast", "data", "notebooks")  # extras whose versions a run records, besides those of the base requirements


@contextmanager
def environment_set(settings: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the kernel to inherit, and restore the old values afterwards."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def describe_environment(params: dict[str, Any], code: str, threads: str) -> str:
    """Describe what a result depends on besides its parameters, one `name: value` per line.

    Parameters
    ----------
    params : parameters of the run
    code : fingerprint of the code
    threads : number of threads
    """

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(root()), *args], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    try:
        commit = git("rev-parse", "HEAD")
        commit += " with local changes" if commit != "unknown" and git("status", "--porcelain") else ""
    except OSError:
        commit = "unknown"
    cpu = re.search(r"model name\s*: (.*)", read_if_there("/proc/cpuinfo"))
    lines = [
        ("started", time.strftime("%Y-%m-%d %H:%M:%S %z")),
        ("commit", commit),
        ("code", code),
        ("python", platform.python_version()),
        ("platform", platform.platform()),
        ("cpu", cpu[1] if cpu else platform.processor() or platform.machine()),
        ("cores", os.cpu_count()),
        ("threads", threads),
        ("device", _device(params)),
    ]
    project = tomllib.loads(read_if_there(root() / "pyproject.toml")).get("project", {})
    extras = project.get("optional-dependencies", {})
    needed = [*project.get("dependencies", []), *(text for extra in COMPUTING for text in extras.get(extra, []))]
    for requirement in needed:
        name = re.match(r"[\w.-]+", requirement)[0]
        try:
            lines.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            lines.append((name, "not installed"))
    return "".join(f"{name}: {value}\n" for name, value in lines)


def _device(params: dict[str, Any]) -> str:
    if params.get("device", "cpu") == "cpu":
        return "cpu"
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
