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
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, cut, printable, shown
from rationale.files import write_text
from rationale.runs.own_parts import digests_of
from rationale.runs.workspace import read_if_there, root

USUAL = {  # environment variables of the kernel, unless they are already set
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TQDM_DISABLE": "1",
    # glibc keeps freed memory: otherwise each training step returns and requests tens of megabytes, page by page
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4000000000",
}
# the variables that limit the threads of torch and of the libraries that it and numpy use, and of numba
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
MOST_THREADS = 1024
PARTS_OF = "parts of "  # begins the line with the digest of a file of parts of one's own
COMPUTING = ("fast", "data", "notebooks")  # extras whose versions a run records, besides those of the base requirements


def kernel_settings(threads: int | None = None) -> dict[str, str]:
    """The variables of USUAL and THREADS for a kernel.

    Parameters
    ----------
    threads : int or None
        Computing threads, whatever is already set; None: those of OMP_NUM_THREADS, or 1.

    Raises
    ------
    BadInput
        If a variable of THREADS is set to something else than a number of threads.
    """
    for name in THREADS:
        given = os.environ.get(name, "").strip() or "1"
        if not re.fullmatch("[0-9]{1,4}", given) or not 1 <= int(given) <= MOST_THREADS:
            raise BadInput(f"{name}={cut(given)}: not accepted, give a whole number from 1 to {MOST_THREADS}")
    settings = {name: os.environ.get(name, "").strip() or value for name, value in USUAL.items()}
    if threads:
        return settings | dict.fromkeys(THREADS, str(threads))
    return {name: os.environ.get(name, "").strip() or settings["OMP_NUM_THREADS"] for name in THREADS} | settings


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


def describe_environment(notebook: str, params: dict[str, Any], code: str, threads: str) -> str:
    """Describe what a result depends on besides its parameters, one `name: value` per line.

    Parameters
    ----------
    notebook : name of the notebook, by which the run is known wherever its folder is moved
    params : parameters of the run, and the files of the parts of one's own that they name
    code : fingerprint of the code
    threads : number of threads
    """

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(root()), *args], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    try:  # the package may be installed in a folder of somebody else's repository
        is_clone = (top := git("rev-parse", "--show-toplevel")) != "unknown" and os.path.samefile(top, root())
        commit = git("rev-parse", "HEAD") if is_clone else "unknown"
        commit += " with local changes" if commit != "unknown" and git("status", "--porcelain") else ""
    except OSError:
        commit = "unknown"
    cpu = re.search(r"model name\s*: (.*)", read_if_there("/proc/cpuinfo"))
    lines = [
        ("notebook", notebook),
        ("started", time.strftime("%Y-%m-%d %H:%M:%S %z")),
        ("commit", commit),
        ("code", code),
        ("python", platform.python_version()),
        ("platform", platform.platform()),
        ("cpu", cpu[1] if cpu else platform.processor() or platform.machine()),
        ("cores", os.cpu_count()),
        ("threads", threads),
        ("device", _device(params)),
        *((f"{PARTS_OF}{file}", digest) for file, digest in digests_of(params).items()),
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


def continue_record(path: Path, now: str) -> str:
    """Bring `environment.txt` up to date for a run that is continued.

    A line `continued with name: value` is added for what is different now. A damaged file, in which a line is missing,
    is written anew, and keeps only its lines about what was read.

    Parameters
    ----------
    path : Path
    now : str
        What `describe_environment` gives now.

    Returns
    -------
    str
        What the user should know, in one line; "" if nothing that counts has changed.
    """
    text = read_if_there(path)
    here = dict(line.split(": ", 1) for line in now.splitlines())
    there = {name: re.findall(rf"^{re.escape(name)}: (.*)$", text, re.M) for name in here}
    if any(len(values) != 1 for values in there.values()) or "\ufffd" in text:
        read = re.findall(r"^(?:read: \d+ [0-9a-f]{64} |revision of )[^\ufffd\n]+\n", text, re.M)
        write_text(path, now + "".join(read))
        return f"{shown(path)} is damaged: it was written anew"
    unlike = [name for name in here if name != "started" and here[name] != there[name][0]]
    lines = [f"continued with {name}: {here[name]}\n" for name in unlike]
    write_text(path, text + "".join(line for line in lines if line not in text))
    noted = [f"{name} was {cut(there[name][0])}, is {here[name]}" for name in unlike if name not in ("commit", "code")]
    return printable(f"since this run began, {'; '.join(noted)}") if noted else ""


def _device(params: dict[str, Any]) -> str:
    if params.get("device", "cpu") == "cpu":
        return "cpu"
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
