"""Execute a notebook in a child of a process that has imported what notebooks import: a second less than a kernel.

`run_forked` is the runner with this executor instead of `papermill_kernel`. Parameters are injected by papermill,
IPython runs the cells and formats what they display, and every traceback that it shows counts as a failure. The child
has the environment and the working directory of a kernel. What it lacks is Jupyter's protocol: no kernel that could
die or be interrupted, and no output while it runs. A figure that a cell shows is drawn once, and not as the two SVGs
of a page, on which a run with many figures would spend half of its time. `run_warm` has all of these: it is the
runner in a fork of the same process, and its kernel is one more fork, as in a sweep.
"""

import gc
import multiprocessing
import os
import sys
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import nbformat

from rationale.runs import RunFailed, notebook_path, root, run, warm

SECONDS = 600


def run_forked(notebook: str | Path, items: Iterable[str | Path] = (), **options: Any) -> Path:
    """`rationale.runs.run` without a kernel and with a plain page."""
    return run(notebook, items, **(options | {"execute": forked, "to_html": plain_page}))


def run_warm(notebook: str | Path, items: Iterable[str | Path] = (), **options: Any) -> Path:
    """`rationale.runs.run` as a sweep makes its runs: in a fork, with a Jupyter kernel and the page."""
    notebook, outputs, name = notebook_path(notebook), Path(options.pop("outputs")), options.pop("name")
    given = [f"--{option.replace('_', '-')}" for option, is_given in options.items() if is_given]
    outputs.mkdir(parents=True, exist_ok=True)
    log = outputs / f"{notebook.stem}-{name}.log"
    process = warm.start(
        [str(notebook), *map(str, items), "--outputs", str(outputs), "--name", name, *given], log, notebook
    )
    process.join()
    if process.exitcode:
        raise RunFailed(log.read_text())
    return outputs / notebook.stem / name


def plain_page(notebook: Any, title: str) -> str:
    """The sources and the printed outputs of a notebook; nbconvert takes half a second."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = [title, *(cell.source for cell in notebook.cells), *(output.get("text", "") for output in outputs)]
    return "\n".join(texts)


class CellFailed(Exception):
    """A cell failed; the message is the traceback."""

    def __init__(self, ename: str, evalue: str, message: str):
        super().__init__(ename, evalue, message)
        self.ename, self.evalue, self.message = ename, evalue, message

    def __str__(self) -> str:
        return self.message


def forked(notebook: Path, parameters: dict[str, Any]) -> None:
    """Execute a notebook file in place with these parameters; an executor for `rationale.runs.run`.

    Raises
    ------
    CellFailed
        At the first cell that fails; the file holds the outputs up to there.
    """
    failed = execute(notebook, parameters)
    if failed:
        raise next(iter(failed.values()))


def started(function: Callable[..., None], *arguments: Any) -> multiprocessing.process.BaseProcess:
    """A process that has imported what notebooks import, as the runs of a sweep, and calls `function`."""
    warm.prepare([])
    child = multiprocessing.get_context("forkserver").Process(target=function, args=arguments, daemon=True)
    child.start()
    return child


def execute(notebook: Path, parameters: dict[str, Any], go_on: bool = False) -> dict[int, CellFailed]:
    """Execute a notebook file in place; what went wrong, by the index that the cell has there before.

    Parameters
    ----------
    notebook
        An `.ipynb` file with a cell tagged `parameters`.
    parameters
        Injected in a cell of their own behind that one.
    go_on
        Execute the cells behind one that failed too.
    """
    here, there = multiprocessing.Pipe(duplex=False)
    child = started(_child, there, notebook, parameters, dict(os.environ), str(root()), go_on)
    there.close()
    try:
        if not here.poll(SECONDS):
            raise CellFailed("TimeoutError", "", f"{notebook} takes longer than {SECONDS} s")
        failed = here.recv()
    except EOFError:
        child.join()
        raise CellFailed("Died", "", f"the process that executed {notebook} died: {child.exitcode}") from None
    finally:
        if sys.exc_info()[0]:
            child.kill()
        child.join()
    return failed


def run_here(notebook: str | Path, items: list[str], environment: dict, options: dict[str, Any]) -> None:
    """The runner, and the notebook that it executes, both in this process, for a child that is to be killed.

    Parameters
    ----------
    environment : dict
        Environment variables.
    options : dict
        Of the runner.
    """
    import matplotlib

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(root())

    def here(copy: Path, parameters: dict[str, Any]) -> None:
        matplotlib.use("module://matplotlib_inline.backend_inline")
        for error in _run(_shell(), copy, parameters, go_on=False).values():
            raise error

    run(notebook, items, execute=here, to_html=plain_page, **options)


def _child(
    connection: Any, notebook: Path, parameters: dict[str, Any], environment: dict, cwd: str, go_on: bool
) -> None:
    """What the child does: it becomes like a kernel, and sends what went wrong."""
    import matplotlib
    import torch

    gc.freeze()  # what was imported is no garbage
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", 1)))
    shell = _shell()
    matplotlib.use(environment.get("MPLBACKEND", "module://matplotlib_inline.backend_inline"))
    connection.send(_run(shell, notebook, parameters, go_on))


def _shell() -> Any:
    """The IPython of this process, which keeps no history on disk, the last value of a cell and every traceback."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from rationale.figures import look

    class Hook(DisplayHook):
        """Keeps the value of a cell's last line in all its formats, where IPython would print it."""

        def write_output_prompt(self) -> None:
            pass

        def write_format_data(self, format_dict: dict, md_dict: dict | None = None) -> None:
            output = nbformat.v4.new_output("execute_result", data=_encoded(format_dict), metadata=md_dict or {})
            self.shell.results.append(output)

    class Shell(InteractiveShell):
        """Keeps the tracebacks that it would show, those of what displays a value included."""

        def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            kind, value, trace = exc_tuple or sys.exc_info()
            message = "".join(traceback.format_exception(kind, value, trace))
            self.shown.append(CellFailed(kind.__name__, str(value), message))

        showsyntaxerror = showtraceback

    shell = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}), displayhook_class=Hook)
    shell.shown, shell.results = [], []
    look._displayed = _drawn  # in this process, which executes one notebook
    return shell


def _drawn(fig: Any) -> tuple[str, dict]:
    """Draw a figure, without a file, so that one that cannot be drawn fails its cell."""
    fig.draw_without_rendering()
    return "<svg/>", {}


def _run(shell: Any, path: Path, parameters: dict[str, Any], go_on: bool) -> dict[int, CellFailed]:
    from IPython.utils.capture import capture_output
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    notebook = load_notebook_node(str(path))
    if parameters:
        notebook = parameterize_notebook(notebook, parameters, kernel_name="python3", language="python")
    failed: dict[int, CellFailed] = {}
    index = -1
    for cell in notebook.cells:
        index += "injected-parameters" not in cell.metadata.tags
        if cell.cell_type != "code" or (failed and not go_on):
            continue
        with capture_output() as captured:
            result = shell.run_cell(cell.source, store_history=True)
        cell.execution_count = result.execution_count
        cell.outputs = [*_outputs(captured), *shell.results, *(_error(shown) for shown in shell.shown)]
        shell.results.clear()
        if shell.shown:
            failed[index] = shell.shown[0]
            shell.shown.clear()
        elif not result.success:
            failed[index] = CellFailed("Error", "", f"cell {index} failed:\n{cell.source}")
    nbformat.write(notebook, path)
    return failed


def _outputs(captured: Any) -> list:
    """What a cell printed and displayed, as a notebook holds it."""
    texts = {"stdout": captured.stdout, "stderr": captured.stderr}
    found = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in texts.items() if text]
    for shown in captured.outputs:
        data, metadata = shown._repr_mimebundle_()
        found.append(nbformat.v4.new_output("display_data", data=_encoded(data), metadata=metadata))
    return found


def _encoded(data: dict[str, Any]) -> dict[str, Any]:
    return {kind: b64encode(value).decode() if isinstance(value, bytes) else value for kind, value in data.items()}


def _error(shown: CellFailed) -> Any:
    return nbformat.v4.new_output("error", ename=shown.ename, evalue=shown.evalue, traceback=shown.message.splitlines())
