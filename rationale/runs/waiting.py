"""Kernels that import while their runner does something else, and wait until it tells them to begin.

A run that is started with its command has one process that reads and checks the parameters, for which it imports
torch, and a kernel, for which everything is imported again. Here both import at the same time, on two cores. A run in a
fork of the server (`warm`) has a kernel that is a fork, in which everything has been imported.
"""

import ast
import builtins
import gc
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from rationale.errors import BadInput, optional
from rationale.runs.environment import kernel_settings
from rationale.runs.runner import INLINE_PICTURES, Execute, papermill_kernel
from rationale.runs.workspace import notebook_path

LAUNCHER = "ipykernel_launcher"  # the module that starts a kernel; what follows in its command are arguments
BEGIN = "import sys; from rationale.runs.waiting import import_and_wait; import_and_wait(int(sys.argv[1]), sys.argv[2])"
AHEAD = ("numpy", "torch", "matplotlib", "IPython", "rationale")  # packages that are imported ahead of their cell
_FROM_PYTHONPATH = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
_OWN_PATH = [path for path in sys.path if path not in (*_FROM_PYTHONPATH, "")]  # Python's own


@contextmanager
def kernel_ahead(notebook: str | Path, threads: int | None) -> Iterator[Execute]:
    """A function that executes this notebook in a kernel which is started now, and imports until it is told to begin.

    The kernel is a process of its own, started with the environment of a kernel. It ends with the block, and also if
    this process ends without telling it to begin.
    """
    try:
        kernel = StartedKernel(notebook_path(notebook), threads) if os.name == "posix" else None
    except (BadInput, OSError):  # which the runner will tell
        kernel = None
    if kernel is None:
        yield papermill_kernel
        return

    def execute(file: Path, parameters: dict[str, Any]) -> None:
        use(kernel)
        papermill_kernel(file, parameters, waiting=[kernel.pid])

    try:
        yield execute
    finally:
        kernel.end()


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


class StartedKernel(WaitingKernel):
    """The same as a process of its own, which imports what a notebook imports before it waits."""

    def __init__(self, notebook: Path, threads: int | None) -> None:
        self.returncode = None
        there, here = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BEGIN, str(there), str(notebook)],
                stdin=subprocess.DEVNULL,
                pass_fds=[there],
                start_new_session=True,
                env=dict(os.environ) | kernel_settings(threads) | INLINE_PICTURES,
            )
        except OSError:
            os.close(here)
            raise
        finally:
            os.close(there)
        self.pid = self._process.pid
        self._pipe = os.fdopen(here, "w")

    def end(self) -> None:
        """End the process, whether it has begun or not."""
        self._pipe.close()
        self.kill()
        self.wait()

    def _waited(self, options: int) -> int | None:
        self.returncode = self._process.poll() if options else self._process.wait()
        return self.returncode


def import_and_wait(pipe: int, notebook: str) -> NoReturn:
    """What the process does: it imports, waits for its arguments, and is a kernel until it is told to end."""
    environment = dict(os.environ)
    import_pandas()
    for module in modules_of(Path(notebook)):
        with suppress(Exception):  # the cell that imports it will say what is wrong
            importlib.import_module(module)
    os.environ.clear()
    os.environ.update(environment)  # without what the modules have set
    gc.freeze()  # the kernel does not look for garbage among what was imported
    _kernel(pipe)


def import_pandas() -> None:
    """Import pandas, if it is there, as in a kernel, where it shows all columns, as opposed to a terminal."""
    builtins.get_ipython = lambda: SimpleNamespace(kernel=None)  # type: ignore[attr-defined]  # what a kernel has
    with suppress(ImportError):
        importlib.import_module("pandas")
    del builtins.get_ipython  # type: ignore[attr-defined]


def modules_of(notebook: Path) -> list[str]:
    """What a kernel of this notebook imports: its own parts, and the modules of `AHEAD` that the notebook names.

    What looks for a kernel while it is imported, as ipywidgets does in the explorers, is left to the notebook.
    """
    found = ["ipykernel.kernelapp", "ipykernel.ipkernel"]
    with suppress(OSError, SyntaxError, ValueError):
        for node in ast.parse(notebook.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                found += [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    packages = (*AHEAD, "ipykernel")
    return [name for name in found if name.split(".")[0] in packages and not name.startswith("rationale.explorers")]


def _kernel(pipe: int) -> NoReturn:
    """What the fork does: it waits for its arguments, and is a kernel until it is told to end."""
    code = 1
    try:
        with os.fdopen(pipe) as told:
            order = json.loads(told.read() or "null")  # nothing if the runner has ended without a kernel
        if order is not None:
            with suppress(OSError):  # it has one already
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
