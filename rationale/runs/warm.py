"""A run in a fork of a process that has imported what runs need, which saves the seconds of these imports.

A server (the `forkserver` of multiprocessing) imports `warmed` and does nothing else. Each run is a fork of it, with
the runner's command line and a log of its own. Before the runner starts any thread, it forks the process that becomes
its kernel: a Jupyter kernel as any other, except that no command has started it. Where a process cannot be forked, or
if the code has changed since the server imported it, the runner is started with its command.
"""

import contextlib
import functools
import gc
import multiprocessing
import os
import signal
import sys
import sysconfig
import threading
from collections.abc import Iterable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

from rationale.runs.__main__ import main
from rationale.runs.environment import environment_set, kernel_settings
from rationale.runs.runner import INLINE_PICTURES, papermill_kernel
from rationale.runs.waiting import WaitingKernel, use
from rationale.runs.workspace import root

NOTEBOOKS = "RATIONALE_WARM_NOTEBOOKS"  # the environment variable from which the server knows the notebooks of the runs
NICENESS = 10  # of runs in a fork: they give way to whatever else the machine does


def can_fork() -> bool:
    """Whether this system can fork a process that has imported such libraries; macOS, for one, cannot safely."""
    return sys.platform == "linux"


def prepare(notebooks: Iterable[Path]) -> None:
    """Start the server, if none is running, and return while it imports. The notebooks are those of the runs.

    It ignores interruptions, and ends when this process and all runs have ended.
    """
    if not can_fork():
        return
    forkserver.set_forkserver_preload(["rationale.runs.warmed"])
    settings = {NOTEBOOKS: os.pathsep.join(map(str, notebooks))}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with environment_set(kernel_settings(1) | INLINE_PICTURES | settings):
            forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def start(arguments: list[str], log: Path, notebook: Path) -> BaseProcess:
    """Start `python -m rationale.runs` with these arguments, in a fork of the server.

    The process has the environment that this process has now, not the one with which the server was started. It has a
    low priority, is in a process group of its own, writes to the end of `log`, and ends like an interrupted runner if
    the process that has called this function is gone.

    Raises
    ------
    OSError, EOFError
        If the process cannot be made.
    """
    prepare([notebook])
    context = multiprocessing.get_context("forkserver" if can_fork() else "spawn")
    environment = dict(os.environ) | kernel_settings(1) | INLINE_PICTURES
    process = context.Process(target=_runner, args=(arguments, str(log), environment))
    process.start()
    return process


def stamps() -> dict[str, int]:
    """The times of the files of this package, and of the folder in which others are installed.

    Hidden files do not count, such as the link to nowhere that Emacs makes beside a file that is not saved.
    """
    installed = Path(sysconfig.get_path("purelib"))
    times = {}
    for path in (installed, *(root() / "rationale").rglob("[!.]*.py")):
        with contextlib.suppress(OSError):  # it was removed meanwhile, or is a link to nowhere
            times[str(path)] = path.stat().st_mtime_ns
    return times


_IMPORTED = stamps()  # what the server has imported is as old as this


def _runner(arguments: list[str], log: str, environment: dict[str, str]) -> NoReturn:
    """What a fork of the server does: it becomes a runner, whose exit code it ends with."""
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the server ignores
    os.setpgid(0, 0)  # a terminal interrupts the process that has started this one, which passes it on
    os.nice(NICENESS)
    into = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (into, 1), (into, 2)):
        os.dup2(descriptor, number)
    if not can_fork() or stamps() != _IMPORTED:
        os.execv(sys.executable, [sys.executable, "-m", "rationale.runs", *arguments])
    sys.exit(run_in_fork(arguments))


def run_in_fork(arguments: list[str]) -> int:
    """The runner's command line in this process, which has no other threads and whose fork becomes the kernel."""
    gc.freeze()  # neither this process nor its kernel looks for garbage among what was imported
    kernel = WaitingKernel()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    use(kernel)
    return main(arguments, execute=functools.partial(papermill_kernel, waiting=[kernel.pid]))


def _end_with_parent() -> None:
    """Interrupt this process when the one that has started it is gone, however that one ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
