"""Run a notebook with parameters, strictly: `python -m rationale.runs NOTEBOOK [PARAMS.yaml | key=value]...`

One process executes one notebook. It works in `outputs/<notebook>/<run>.partial/` and renames that folder
to `outputs/<notebook>/<run>/` at the very end, so a folder that holds `run.ipynb` is a finished run, always.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import yaml

from rationale.errors import BadInput, optional
from rationale.files import write_text
from rationale.runs.environment import USUAL, describe_environment, environment_set
from rationale.runs.fingerprint import fingerprint
from rationale.runs.folder import WorkFolder
from rationale.runs.parameters import defaults, import_jupytext, is_override, modernised, resolve, shown
from rationale.runs.workspace import notebook_path, read_if_there, root, run_name

KERNEL_STARTS = 3  # two kernels that start at the same time may be given the same port; then one of them dies

Execute = Callable[[Path, dict[str, Any]], None]  # executes a notebook file in place with parameters
ToHtml = Callable[[Any, str], str]  # makes a page from an executed notebook and a title


class RunFailed(RuntimeError):
    """A cell of the notebook failed; the message names the error and the file of the partial notebook."""


def papermill_kernel(notebook: Path, parameters: dict[str, Any]) -> None:
    """Execute a notebook file in place, in a Jupyter kernel that inherits the environment of this process.

    Parameters
    ----------
    notebook
        An `.ipynb` file; it is saved every few seconds while it is executed.
    parameters
        Values that are assigned in a new cell after the cell tagged `parameters`.

    Raises
    ------
    Exception
        The error of the cell that failed, with `ename` and `evalue`; or the reason why the kernel died.
    """
    papermill = optional("papermill", "running a notebook", "notebooks")
    config = optional("traitlets.config", "running a notebook", "notebooks")
    for chatty in ("papermill", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    source = notebook.read_bytes()
    for _ in range(KERNEL_STARTS):
        notebook.write_bytes(source)
        error = _in_thread(
            papermill.execute_notebook,
            str(notebook),
            str(notebook),
            parameters=parameters,
            kernel_name="python3",
            cwd=str(root()),
            progress_bar=False,
            stdout_file=sys.stdout,
            stderr_file=sys.stderr,
            autosave_cell_every=5,
            shutdown_kernel="immediate",
            config=config.Config({"KernelManager": {"transport_encryption": "auto"}}),
        )
        if not str(error).startswith("Kernel died before"):
            break
    if error is not None:
        raise error


def lab_page(notebook: Any, title: str) -> str:
    """An executed notebook as a page that looks like JupyterLab."""
    nbconvert = optional("nbconvert", "a page of a run", "notebooks")
    resources = {"metadata": {"name": title}}
    return nbconvert.HTMLExporter(template_name="lab").from_notebook_node(notebook, resources=resources)[0]


def run(
    notebook: str | Path,
    items: Iterable[str | Path] = (),
    *,
    outputs: Path | None = None,
    name: str | None = None,
    again: bool = False,
    again_if_changed: bool = False,
    wait: bool = False,
    threads: int | None = None,
    execute: Execute = papermill_kernel,
    to_html: ToHtml = lab_page,
) -> Path:
    """Execute `notebook` with parameters `items` and publish its folder.

    Parameters
    ----------
    notebook, items
        The same as on the command line.
    outputs
        Folder for `<notebook>/<run>/`; default: the repository's outputs/.
    name
        The run's name; default: made of `items`.
    again
        Start again, even if there is a finished or unfinished run.
    again_if_changed
        Start again if the existing run had other parameters or other code; otherwise continue it.
    wait
        Wait for another process that executes the same run, instead of refusing.
    threads
        Computing threads of the run; default: the environment's OMP_NUM_THREADS, or 1.
    execute, to_html
        Functions that execute the notebook file and make a page from it.

    Returns
    -------
    The finished run's folder.

    Raises
    ------
    BadInput
        If an argument, a parameter or a file is wrong. Nothing has been overwritten.
    RunFailed
        If a cell failed. The partial notebook is kept.
    """
    notebook, items = notebook_path(notebook), [str(item) for item in items]
    start, params = defaults(notebook), resolve(notebook, map(_found, items))
    name = run_name(items) if name is None else name
    if not re.fullmatch(r"[\w.+-]+", name) or name.endswith(".partial") or not name.strip("."):
        raise BadInput(f"--name {name}: not a folder name, give letters, digits, `_`, `-`, `+` and `.`")
    target = (outputs or root() / "outputs").resolve() / notebook.stem / name
    code = fingerprint(notebook, params)
    with WorkFolder(target, wait) as work:
        if (target / "run.ipynb").is_file() and not again:
            unlike = _difference(_saved_params(target), params)
            stale = _saved_code(target) != code
            if not unlike and not (stale and again_if_changed):
                print(
                    f"already finished: {shown(target)}"
                    + (" (the code has changed since; --again runs it again)" if stale else "")
                )
                return target
            if unlike and not again_if_changed:
                raise BadInput(
                    f"{shown(target)}: a finished run with other parameters ({unlike}), "
                    "give --again to replace it or --name to keep both"
                )
        if work.resumed:
            unlike = _difference(_saved_params(work.path), params)
            stale = _saved_code(work.path) != code
            if again or (again_if_changed and (unlike or stale)):
                work.clear()
            elif unlike:
                raise BadInput(
                    f"{shown(work.path)}: an unfinished run with other parameters ({unlike}), "
                    "give --again to discard it or --name to keep both"
                )
            elif stale:
                print("note: the code has changed since this run began; --again starts it again")
        if not (work.path / "run.ipynb").is_file():
            changed = {key: value for key, value in params.items() if value != start[key]}
            _execute(notebook, params, changed, code, work, threads, execute, to_html)
        work.publish()
    return target


def _execute(
    notebook: Path,
    params: dict[str, Any],
    changed: dict[str, Any],
    code: str,
    work: "WorkFolder",
    threads: int | None,
    execute: Execute,
    to_html: ToHtml,
) -> None:
    """Run the notebook inside `work`, and write run.ipynb, run.html, params.yaml and environment.txt."""
    nbformat = optional("nbformat", "running a notebook", "notebooks")
    print(f"{notebook.stem}: {', '.join(f'{k} {v}' for k, v in changed.items()) or 'default parameters'}")
    print(f"{'continues' if work.resumed else 'works'} in {shown(work.path)}", flush=True)
    began = time.time()
    settings = {name: os.environ.get(name, value) for name, value in USUAL.items()}
    settings |= {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "RATIONALE_RUN_DIR": str(work.path)}
    if os.environ.get("RATIONALE_DATA"):
        settings["RATIONALE_DATA"] = os.path.abspath(os.path.expanduser(os.environ["RATIONALE_DATA"]))
    if threads:
        settings["OMP_NUM_THREADS"] = str(threads)
    if not work.resumed:
        write_text(work.path / "environment.txt", describe_environment(params, code, settings["OMP_NUM_THREADS"]))
        write_text(work.path / "params.yaml", yaml.safe_dump(params, sort_keys=False, allow_unicode=True))

    jupytext = import_jupytext()
    running, failed = work.path / "run.running.ipynb", work.path / "failed.ipynb"
    jupytext.write(jupytext.read(notebook), running)
    try:
        with environment_set(settings):
            execute(running, changed)
    except BrokenPipeError:
        raise
    except Exception as error:
        if getattr(error, "ename", "") == "BadInput":
            running.unlink(missing_ok=True)
            raise BadInput(" ".join(getattr(error, "evalue", "").splitlines())) from None
        os.replace(running, failed)
        tail = "\n".join(str(error).strip().splitlines()[-12:])
        raise RunFailed(
            f"{tail}\n\nfailed after {time.time() - began:.0f} s\n"
            f"the notebook up to there: {shown(failed)}\n"
            "the same command continues from the last checkpoint, if any"
        ) from None

    page = nbformat.read(running, as_version=4)
    page.metadata.get("papermill", {}).update(input_path=f"{notebook.stem}.py", output_path="run.ipynb")
    write_text(work.path / "run.html", to_html(page, f"{notebook.stem} {work.name}"))
    with open(work.path / "environment.txt", "a", encoding="utf-8") as file:
        print(f"seconds: {time.time() - began:.1f}{' (continued)' if work.resumed else ''}", file=file)
    failed.unlink(missing_ok=True)
    nbformat.write(page, running)
    for checkpoint in list(work.path.rglob("checkpoint*")):
        checkpoint.unlink()  # only an unfinished run needs one
        if not any(checkpoint.parent.iterdir()):
            checkpoint.parent.rmdir()
    os.replace(running, work.path / "run.ipynb")
    print(f"finished in {time.time() - began:.0f} s", flush=True)


def _in_thread(function: Any, *args: Any, **kwargs: Any) -> Exception | None:
    """Call `function` in a thread, so that signals reach this thread and not the notebook client; return its error.

    An interruption kills the kernels that the call has started, and is raised again when the thread has ended.
    """
    psutil = optional("psutil", "running a notebook", "notebooks")
    before = set(psutil.Process().children(recursive=True))
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(function, *args, **kwargs)
        try:
            return called.exception()
        except BaseException:
            while not called.done():  # a kernel may start only now
                for process in set(psutil.Process().children(recursive=True)) - before:
                    process.kill()
                wait([called], timeout=0.2)
            raise


def _saved_params(folder: Path) -> dict[str, Any]:
    try:
        return modernised(yaml.safe_load(read_if_there(folder / "params.yaml")) or {})
    except yaml.YAMLError:
        return {}


def _saved_code(folder: Path) -> str:
    match = re.search(r"^code: (\w+)$", read_if_there(folder / "environment.txt"), re.M)
    return match[1] if match else ""


def _difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """`seed 1 there, 2 here`; "" if the parameters are the same."""
    pairs = {key: (there.get(key, "missing"), here.get(key, "missing")) for key in {**there, **here}}
    return "; ".join(f"{key} {old} there, {new} here" for key, (old, new) in pairs.items() if old != new)


def _found(item: str) -> str:
    """A parameter file as given, or below the repository's root."""
    path = root() / item
    return str(path) if not is_override(item) and not Path(item).exists() and path.is_file() else item
