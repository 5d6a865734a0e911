"""Run a notebook with parameters, strictly: `python -m rationale.runs NOTEBOOK [PARAMS.yaml | key=value]...`

One process executes one notebook. It works in `outputs/<notebook>/<run>.partial/` and renames that folder
to `outputs/<notebook>/<run>/` at the very end, so a folder that holds `run.ipynb` is a finished run, always.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, PrintableStream, cut, optional, printable, shown
from rationale.files import write_text
from rationale.progress import FILE, RUN_DIR
from rationale.runs.environment import continue_record, describe_environment, environment_set, kernel_settings
from rationale.runs.failures import memory_of, what_happened
from rationale.runs.fingerprint import fingerprint
from rationale.runs.folder import WorkFolder, damaged_files
from rationale.runs.inputs import changed_files
from rationale.runs.kernel import check_device, check_texts
from rationale.runs.notebook_text import import_jupytext
from rationale.runs.origin import is_by_fit
from rationale.runs.own_parts import files_of
from rationale.runs.page import is_prepared, lab_page, prepared
from rationale.runs.parameters import merge, values_for_kernel
from rationale.runs.record import (
    is_by_papermill,
    made_of,
    made_of_others,
    recorded_code,
    unlike_recorded,
    write_notes,
    write_record,
)
from rationale.runs.saving import engine
from rationale.runs.watch import NOTE, BesideBars, progress_shown
from rationale.runs.workspace import (
    checkpoints_in,
    is_file,
    notebook_path,
    read_if_there,
    root,
    run_name,
    why_no_name,
)
from rationale.runs.yaml_files import is_override
from rationale.settings import show

INLINE_PICTURES = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
RUNNING, FAILED = "run.running.ipynb", "failed.ipynb"  # while it is executed, and what is left if a cell fails
KERNEL_STARTS = 3  # two kernels that start at the same time may be given the same port; then one of them dies
IOPUB_TIMEOUT = 120  # seconds for the last outputs of a cell to come; on a busy machine, the 4 of nbclient are too few

Execute = Callable[[Path, dict[str, Any]], None]  # executes a notebook file in place with parameters
ToHtml = Callable[[Any, str], str]  # makes a page from an executed notebook and a title


class RunFailed(RuntimeError):
    """A cell of the notebook failed; the message names the error and the file of the partial notebook."""


def papermill_kernel(notebook: Path, parameters: dict[str, Any], waiting: Collection[int] = ()) -> None:
    """Execute a notebook file in place, in a Jupyter kernel that inherits the environment of this process.

    Parameters
    ----------
    notebook
        An `.ipynb` file; it is saved every few seconds while it is executed.
    parameters
        Values that are assigned in a new cell after the cell tagged `parameters`.
    waiting
        The process that waits to become the kernel, if there is one, see `warm`.

    Raises
    ------
    Exception
        The error of the cell that failed, with `ename` and `evalue`; or the reason why the kernel died.
    """
    papermill = optional("papermill", "running a notebook", "notebooks")
    config = optional("traitlets.config", "running a notebook", "notebooks")
    for chatty in ("papermill", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    source, streams = notebook.read_bytes(), (BesideBars(sys.stdout), BesideBars(sys.stderr))
    path = str(notebook).replace("{", "{{").replace("}", "}}")  # papermill puts parameters where a path has braces
    for _ in range(KERNEL_STARTS):
        notebook.write_bytes(source)
        error = _in_thread(
            papermill.execute_notebook,
            path,
            path,
            parameters=parameters,
            engine_name=engine(),
            kernel_name="python3",
            cwd=str(root()),
            progress_bar=False,
            iopub_timeout=IOPUB_TIMEOUT,
            stdout_file=PrintableStream(streams[0]),
            stderr_file=PrintableStream(streams[1]),
            shutdown_kernel="immediate",
            config=config.Config({"KernelManager": {"transport_encryption": "auto"}}),
            _waiting=waiting,
        )
        if not str(error).startswith("Kernel died before"):
            break
    for stream in streams:
        stream.finish()
    if error is not None:
        raise error


def run(
    notebook: str | Path,
    items: Iterable[str | Path] = (),
    *,
    outputs: Path | None = None,
    name: str | None = None,
    again: bool = False,
    again_if_changed: bool = False,
    replace: bool = False,
    wait: bool = False,
    threads: int | None = None,
    quiet: bool = False,
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
        Start again if the existing run had other parameters, other code or other data; otherwise continue it. A run
        with other parameters that was made of other parameter files, although it has the same name, is refused.
    replace
        With `again_if_changed`, such a run is replaced.
    wait
        Wait for another process that executes the same run, instead of refusing.
    threads
        Computing threads of the run; default: the environment's OMP_NUM_THREADS, or 1.
    quiet
        Show neither progress nor what the notebook prints, except notes; `run.ipynb` has it all the same.
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
    params, notes = merge(notebook, map(_found, items))
    name = run_name(items) if name is None else name
    if why := why_no_name(name):
        raise BadInput(f"--name {cut(name)}: {why}")
    target = Path(os.path.realpath(outputs or root() / "outputs")) / notebook.stem / name
    _check_encoding(target)
    code, recorded = fingerprint(notebook, params), params | files_of(params)
    with WorkFolder(target, wait) as work:
        if (target / "run.ipynb").is_file() and not again:
            unlike = unlike_recorded(target, recorded)
            stale = _stale(target, code)
            if not unlike and not (stale and again_if_changed):
                print(f"already finished: {shown(target)}")
                if stale:
                    print(
                        f"note: {stale} since, so its results are older; --again runs it again (PARAMS=--again of make)"
                    )
                return target
            if unlike and not again_if_changed:
                raise BadInput(
                    f"{shown(target)}: a finished run {unlike}, give --again to replace it or --name to keep both"
                )
            if unlike and not replace:
                _refuse_others(target, notebook, items, f"a finished run {unlike}")
            print(f"made again, because there is a finished run {unlike or f'and {stale}'}: {shown(target)}")
        elif (is_by_papermill(target) or is_by_fit(target)) and not again:
            other = "rationale.fit" if is_by_fit(target) else "plain papermill"
            raise BadInput(f"{shown(target)}: a run by {other}, give --again to replace it or --name to keep both")
        if work.resumed and again_if_changed and not replace and (unlike := unlike_recorded(work.path, recorded)):
            _refuse_others(work.path, notebook, items, f"an unfinished run {unlike}")
        _prepare(work, recorded, code, again, again_if_changed, threads)
        if not (work.path / "run.ipynb").is_file():
            for note in notes:
                print(f"note: {printable(note)}")
            changed = values_for_kernel(notebook, params)
            print(f"{notebook.stem}: {_as_given(changed)}")
            print(f"{'continues' if work.resumed else 'works'} in {shown(work.path)}", flush=True)
            settings = _kernel_environment(notebook, work.path, threads)
            _record(work, notebook.stem, recorded, code, settings["OMP_NUM_THREADS"], made_of(notebook, items))
            _execute(notebook, changed, work, settings, quiet, execute, to_html)
        work.publish()
    return target


def _refuse_others(folder: Path, notebook: Path, items: Iterable[str], what: str) -> None:
    """Refuse to replace a run that was made of other files than this one, which has its name."""
    if others := made_of_others(folder, notebook, items):
        offer = "rename a parameter file, or give --replace to replace the run"
        raise BadInput(f"{shown(folder)}: {what}, made of {others}; {offer}")


def _check_encoding(target: Path) -> None:
    """Refuse a folder that cannot be named in a notebook, which is JSON."""
    try:
        str(target).encode()
    except UnicodeEncodeError:
        raise BadInput(f"--outputs {shown(target)}: a name that is not UTF-8, give another folder") from None


def _check_possible(params: dict[str, Any], threads: int | None) -> None:
    """Refuse what no kernel could execute: a missing device, texts of one's own, a variable of the environment."""
    kernel_settings(threads)
    if os.environ.get("RATIONALE_DATA"):
        _data_folder(os.environ["RATIONALE_DATA"])
    check_device(params)
    check_texts(params)


def _as_given(changed: Mapping[str, Any]) -> str:
    """The parameters that differ from the defaults, as one writes them in a parameter file: null, not None."""
    return printable(", ".join(f"{key} {show(value)}" for key, value in changed.items())) or "default parameters"


def _prepare(
    work: WorkFolder, params: dict[str, Any], code: str, again: bool, again_if_changed: bool, threads: int | None
) -> None:
    """Refuse a run that no kernel could execute, and then clear an unfinished one that begins anew."""
    why = _why_anew(work, params, code, again, again_if_changed) if work.resumed else None
    if why is not None or not (work.path / "run.ipynb").is_file():
        _check_possible(params, threads)  # before anything is lost
    if why is not None:
        print(f"{why}\n" * bool(why), end="")
        work.clear()


def _why_anew(work: WorkFolder, params: dict[str, Any], code: str, again: bool, again_if_changed: bool) -> str | None:
    """Why an unfinished run begins anew, in a line to be shown ("" if it was asked for); None if it is continued.

    Raises
    ------
    BadInput
        It can be neither continued nor discarded without being asked to.
    """
    unlike = unlike_recorded(work.path, params)
    stale, other_files = _stale(work.path, code), changed_files(work.path)
    trained = any(work.path.rglob("checkpoint*"))
    if again or (again_if_changed and (unlike or stale)) or (other_files and not (trained or unlike)):
        because = f"begins anew, because there is an unfinished run {unlike or f'and {stale}'}: {shown(work.path)}"
        return because if trained and not again else ""
    if unlike:
        raise BadInput(
            f"{shown(work.path)}: an unfinished run {unlike}, give --again to discard it or --name to keep both"
        )
    if other_files:
        raise BadInput(
            f"{shown(work.path)}: an unfinished run, and {other_files[0]} has changed since it began, "
            "put the old file back, or give --again to discard the run or --name to keep both"
        )
    if stale:
        print(f"note: {stale} since this run began; --again starts it again")
    damaged = damaged_files(work.path) if (work.path / "run.ipynb").is_file() else []
    return f"{shown(work.path / damaged[0])}: damaged; the run begins anew" if damaged else None


def _execute(
    notebook: Path,
    changed: dict[str, Any],
    work: WorkFolder,
    settings: dict[str, str],
    quiet: bool,
    execute: Execute,
    to_html: ToHtml,
) -> None:
    """Run the notebook inside `work`, with `settings` as environment variables; write run.ipynb and run.html."""
    began = time.monotonic()
    with environment_set(settings), progress_shown(work.path, quiet):
        page = _run_cells(notebook, changed, work, execute, to_html, began)
    _write_run(page, notebook.stem, work, to_html, began)
    print(f"finished in {time.monotonic() - began:.0f} s", flush=True)


def _kernel_environment(notebook: Path, folder: Path, threads: int | None) -> dict[str, str]:
    """The environment variables with which the kernel of a run starts; a data folder that is missing is noted."""
    settings = kernel_settings(threads) | INLINE_PICTURES | {RUN_DIR: str(folder), "RATIONALE_NOTEBOOK": str(notebook)}
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, [str(notebook.parent), os.environ.get("PYTHONPATH")]))
    if os.environ.get("RATIONALE_DATA"):
        settings["RATIONALE_DATA"] = data = _data_folder(os.environ["RATIONALE_DATA"])
        if not os.path.isdir(data):
            print(f"note: RATIONALE_DATA={shown(data)}: no such folder")
    return settings


def _record(work: WorkFolder, name: str, params: dict[str, Any], code: str, threads: str, items: str) -> None:
    """Write params.yaml and environment.txt of a new run, or note in those of a continued one what differs today."""
    if not work.resumed:
        write_record(work.path, name, params, code, threads, items)
        return
    record = work.path / "environment.txt"
    if note := continue_record(record, describe_environment(name, params, code, threads)):
        print(f"note: {note}", flush=True)
    if not re.search("^made of: ", text := read_if_there(record), re.M):  # lost with a damaged file
        write_text(record, text + items)


def _run_cells(
    notebook: Path, changed: dict[str, Any], work: WorkFolder, execute: Execute, to_html: ToHtml, began: float
) -> Any:
    """Execute the notebook's cells in run.running.ipynb, and return them with their outputs.

    Raises
    ------
    BadInput
        If a cell has raised it: the text of the error alone.
    RunFailed
        If a cell has raised anything else. The notebook up to that cell is failed.ipynb.
    """
    nbformat, jupytext = optional("nbformat", "running a notebook", "notebooks"), import_jupytext()
    running = work.path / RUNNING
    (work.path / FILE).unlink(missing_ok=True)
    cells = jupytext.read(notebook)
    jupytext.write(cells, running)
    try:
        with nullcontext() if is_prepared(cells) else prepared(to_html, cells):
            execute(running, changed)
        page = nbformat.read(running, as_version=4)
        _refuse_exit(page)
    except BrokenPipeError:
        raise
    except Exception as error:
        if getattr(error, "ename", "") == "BadInput":
            running.unlink(missing_ok=True)
            raise BadInput(" ".join(getattr(error, "evalue", "").splitlines())) from None
        _check_place(work)
        failed = work.path / FAILED
        os.replace(running, failed)
        raise RunFailed(
            f"{what_happened(error)}\n\nfailed after {time.monotonic() - began:.0f} s\n"
            f"the notebook up to there: {shown(failed)}\n"
            "the same command continues from the last checkpoint, if any"
        ) from None
    return page


def _write_run(page: Any, name: str, work: WorkFolder, to_html: ToHtml, began: float) -> None:
    """Write run.html and run.ipynb of an executed notebook, and remove what only an unfinished run needs."""
    nbformat = optional("nbformat", "running a notebook", "notebooks")
    _check_place(work)
    page.metadata.get("papermill", {}).update(input_path=f"{name}.py", output_path="run.ipynb")
    write_notes(work.path, _notes(page))
    write_text(work.path / "run.html", to_html(page, f"{name} {work.name}"))
    with open(work.path / "environment.txt", "a", encoding="utf-8") as file:
        print(f"seconds: {time.monotonic() - began:.1f}{' (continued)' if work.resumed else ''}", file=file)
    for finished in (FAILED, FILE):
        (work.path / finished).unlink(missing_ok=True)
    for checkpoint in checkpoints_in(work.path):
        checkpoint.unlink()
        if not any(checkpoint.parent.iterdir()):
            checkpoint.parent.rmdir()
    write_text(work.path / "run.ipynb", nbformat.writes(page) + "\n")
    (work.path / RUNNING).unlink()


def _notes(page: Any) -> list[str]:
    """The notes that the cells have printed."""
    outputs = [output for cell in page.cells for output in cell.get("outputs", ()) if output.get("name") == "stdout"]
    lines = "".join(output.text for output in outputs).splitlines()
    return [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]


def _check_place(work: WorkFolder) -> None:
    """Refuse to end a run whose folder was removed or moved by somebody else, so that a part of it is missing.

    Raises
    ------
    RunFailed
        Nothing is published.
    """
    if not work.is_here():
        raise RunFailed(
            f"{shown(work.path)}: removed or moved while the run was executed, so a part of it is lost\n"
            "nothing was published; move away what is left there, then the same command starts again"
        )


def _refuse_exit(page: Any) -> None:
    """Refuse a notebook that a cell has ended with SystemExit: papermill would take it for a success.

    Raises
    ------
    RuntimeError
        The cells behind that one were not executed.
    """
    for cell in page.cells:
        if any(output.get("ename") == "SystemExit" for output in cell.get("outputs", ())):
            first = cut(cell.source.strip().partition("\n")[0])
            raise RuntimeError(f"SystemExit in the cell `{first}`: the cells behind it were not executed")


def _data_folder(given: str) -> str:
    """The absolute path of the data folder. A reader reports missing files; what can be no path is refused here."""
    path = os.path.abspath(os.path.expanduser(given))
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return path
    except OSError as error:
        raise BadInput(f"RATIONALE_DATA={path}: {error.strerror}, give a folder") from None
    return path


def _in_thread(function: Any, *args: Any, _waiting: Collection[int] = (), **kwargs: Any) -> Exception | None:
    """Call `function` in a thread, so that signals reach this thread and not the notebook client; return its error.

    An interruption kills the kernels that the call has started, and is raised again when the thread has ended. An error
    has the attribute `peak`: the largest memory, in bytes, that the processes of the call had, read every second. The
    processes `_waiting` count as if the call had started them.
    """
    psutil = optional("psutil", "running a notebook", "notebooks")
    before = {process for process in psutil.Process().children(recursive=True) if process.pid not in _waiting}
    peak = 0
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(function, *args, **kwargs)
        try:
            while not called.done():
                wait([called], timeout=1)
                peak = max(peak, memory_of(set(psutil.Process().children(recursive=True)) - before))
            error = called.exception()
            if isinstance(error, Exception):
                error.peak = peak  # type: ignore[attr-defined]
            return error
        except BaseException:
            while not called.done():  # a kernel may start only now
                for process in set(psutil.Process().children(recursive=True)) - before:
                    process.kill()
                wait([called], timeout=0.2)
            raise


def _stale(folder: Path, code: str) -> str:
    """What has changed since a run was made: the code, or a file that it has read; "" if nothing has."""
    files = changed_files(folder)
    if files:
        return f"{files[0]} has changed" if len(files) == 1 else f"{files[0]} and other files have changed"
    return "the code has changed" if recorded_code(folder) != code else ""


def _found(item: str) -> str:
    """A parameter file as given, or below the repository's root."""
    path = root() / item
    return str(path) if not is_override(item) and not is_file(Path(item)) and is_file(path) else item
