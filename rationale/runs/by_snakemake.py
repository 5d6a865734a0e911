"""Execute a sweep with Snakemake, a child process whose own messages go to a log; see Snakefile."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rationale.errors import optional
from rationale.runs.pool import PATIENCE
from rationale.runs.sweeps import path_of
from rationale.runs.warm import NICENESS
from rationale.runs.workspace import root


def with_snakemake(
    path: str,
    wanted: bool,
    replace: bool,
    outputs: Path,
    cores: int,
    memory: int,
    log: Path,
    lock: IO[str],
    received: list[int],
    look: Callable[[], float],
) -> int:
    """Let Snakemake execute a sweep; return its exit code.

    Parameters
    ----------
    path : str
        The sweep's name, or the path of its file.
    wanted : bool
        True: also runs that are not committed, see `read_sweep`.
    replace : bool
        True: runs of other files that have the name of one of these are replaced.
    outputs : Path
        The folder of the results.
    cores, memory : int
        Runs at once; their estimates have at most so many MB in all.
    log : Path
        For Snakemake's messages.
    lock : file
        It stays open as long as Snakemake is there.
    received : list of int
        Numbers of signals. As soon as there is one, Snakemake is ended with all runs.
    look : callable
        Looks at the runs if it is time to, and returns the seconds until the next look.

    Raises
    ------
    BadInput
        If Snakemake is not installed.
    """
    optional("snakemake", "a sweep with Snakemake", "batch")
    low_priority = ["nice", "-n", str(NICENESS)] if shutil.which("nice") else []
    with open(log, "wb") as messages:
        child = subprocess.Popen(
            [*low_priority, *_command(path, wanted, replace, outputs, cores, memory)],
            cwd=outputs.parent,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            process_group=0,  # an interruption reaches this process, which passes it on once
            pass_fds=[lock.fileno()],  # the sweep is locked as long as one of the two is there
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root()), os.environ.get("PYTHONPATH")]))},
        )
    try:
        while child.poll() is None and not received:
            _waited(child, look())
    finally:  # also if a look fails, because nobody reads what it shows
        for number, seconds in PATIENCE.items():
            if child.poll() is not None:
                break
            os.killpg(child.pid, number)
            _waited(child, seconds)
    return child.wait()


def _waited(child: subprocess.Popen, seconds: float) -> bool:
    """Wait so many seconds; whether the process has ended."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _command(path: str, wanted: bool, replace: bool, outputs: Path, cores: int, memory: int) -> list[str]:
    """Snakemake's command. The runs are locked one by one, so its own lock on the folder is not needed.

    Snakemake takes what is given for a number (`2024_01` for 202401) or for YAML, so texts are quoted.
    """

    def quoted(text: str | Path) -> str:
        return json.dumps(str(text), ensure_ascii=False)

    sweep = quoted(os.path.realpath(path_of(path)))
    config = [f"sweep={sweep}", f"memory={memory}", *["wanted=true"] * wanted, *["replace=true"] * replace]
    config += [] if outputs == root() / "outputs" else [f"outputs={quoted(outputs)}"]
    profile = root() / "profiles" / "default"
    return [
        *[sys.executable, "-m", "snakemake", "--nolock", "--cores", str(cores), "--resources", f"mem_mb={memory}"],
        *["--snakefile", str(root() / "Snakefile"), "--workflow-profile", str(profile), "--config", *config],
    ]
