"""A run in a fork of a process that has imported what runs need, which saves the seconds of these imports.

A server (the `forkserver` of multiprocessing) imports `warmed` and does nothing else. Each run is a fork of it, with
the runner's command line and a log of its own. Before the runner starts any thread, it forks the process that becomes
its kernel: a Jupyter kernel as any other, except that no command has started it. Where a process cannot be forked, or
if the code has changed since the server imported it, the runner is started with its command.
"""

import functools
import gc
import importlib
import json
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
from types import SimpleNamespace
from typing import Any, NoReturn

from rationale.errors import optional
from rationale.runs.__main__ import main
from rationale.runs.environment import environment_set, kernel_settings
from rationale.runs.runner import INLINE_PICTURES, papermill_kernel
from rationale.runs.workspace import root

NOTEBOOKS = "RATIONALE_WARM_NOTEBOOKS"  # the environment variable from which the server knows the notebooks of the runs
LAUNCHER = "ipykernel_launcher"  # the module that starts a kernel; what follows in its command are arguments
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
    low priority, is in a process group of its own, writes to `log`, and ends like an interrupted runner if the process
    that has called this function is gone.

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
    """The times of the files of this package, and of the folder in which others are installed."""
    installed = Path(sysconfig.get_path("purelib"))
    return {str(path): path.stat().st_mtime_ns for path in (installed, *(root() / "rationale").rglob("*.py"))}


_IMPORTED = stamps()  # what the server has imported is as old as this
_FROM_PYTHONPATH = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
_OWN_PATH = [path for path in sys.path if path not in (*_FROM_PYTHONPATH, "")]  # in the server, it is Python's own


def _runner(arguments: list[str], log: str, environment: dict[str, str]) -> NoReturn:
    """What a fork of the server does: it becomes a runner, whose exit code it ends with."""
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the server ignores
    os.setpgid(0, 0)  # a terminal interrupts the process that has started this one, which passes it on
    os.nice(NICENESS)
    into = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
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


class WaitingKernel:
    """A fork of this process that waits until it is told its arguments, and then is a Jupyter kernel.

    It has the attributes and methods of `subprocess.Popen` that jupyter_client uses.
    """

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        self.returncode: int | None = None
        there, here = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(here)
            _kernel(there)
        os.close(there)
        self._pipe = os.fdopen(here, "w")

    def begin(self, arguments: list[str], env: dict[str, str], cwd: str) -> None:
        """Let the process become a kernel with these arguments, in this environment and this folder."""
        with self._pipe:
            json.dump({"arguments": arguments, "env": env, "cwd": cwd}, self._pipe)

    def poll(self) -> int | None:
        """The exit code; None as long as the process runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for the end of the process; its exit code."""
        return self._waited(0)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process if it is running."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _waited(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _kernel(pipe: int) -> NoReturn:
    """What the fork does: it waits for its arguments, and is a kernel until it is told to end."""
    code = 1
    try:
        with os.fdopen(pipe) as told:
            order = json.loads(told.read() or "null")  # nothing if the runner has ended without a kernel
        if order is not None:
            os.setsid()  # as every kernel
            _like_new(order["env"], order["cwd"])
            sys.argv[:] = [importlib.import_module(LAUNCHER).__file__, *order["arguments"]]
            kernelapp = optional("ipykernel.kernelapp", "running a notebook", "notebooks")
            kernelapp.launch_new_instance(parent_handle=os.getppid())
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _like_new(env: dict[str, str], cwd: str) -> None:
    """Give this process what it would have if a command had started it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    first = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*first, *_OWN_PATH]  # and not that of the process that has asked for this one, which it was sent
    multiprocessing.set_start_method(None, force=True)
    multiprocessing.current_process().name = "MainProcess"
    for module, generator in (("numpy", "random"), ("torch", "default_generator")):  # the same in all forks otherwise
        getattr(optional(module, "running a notebook", "notebooks"), generator).seed()


def use(kernel: WaitingKernel) -> None:
    """Let jupyter_client take this kernel where it would start the first one."""
    provisioning = optional("jupyter_client.provisioning", "running a notebook", "notebooks")
    waiting = [kernel]

    class Provisioner(provisioning.LocalProvisioner):
        """Starts the first kernel by telling the one that waits to begin, and the others with their command."""

        async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
            is_same = LAUNCHER in cmd and os.path.realpath(cmd[0]) == os.path.realpath(sys.executable)
            if not (is_same and waiting and waiting[0].poll() is None):
                return await super().launch_kernel(cmd, **kwargs)
            self.process = waiting.pop()
            self.cwd = kwargs.get("cwd") or os.getcwd()
            self.process.begin(cmd[cmd.index(LAUNCHER) + 1 :], kwargs["env"], self.cwd)
            self.pid = self.pgid = self.process.pid
            return self.connection_info

    factory = provisioning.KernelProvisionerFactory.instance()
    factory.provisioners["waiting"] = SimpleNamespace(load=lambda: Provisioner)  # like an entry point
    factory.default_provisioner_name = "waiting"
