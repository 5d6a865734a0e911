"""Run a notebook with parameters, strictly: `python -m rationale.runs NOTEBOOK [PARAMS.yaml | key=value]...`

One process executes one notebook. It works in `outputs/<notebook>/<run>.partial/` and renames that folder
to `outputs/<notebook>/<run>/` at the very end, so a folder that holds `run.ipynb` is a finished run, always.
"""

import argparse
import ast
import difflib
import hashlib
import importlib.metadata
import io
import json
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

from rationale.errors import BadInput, command
from rationale.files import write_text
from rationale.params import KEYS, choices, defaults, is_override, resolve, shown

try:
    import fcntl
except ImportError:  # no file locks on this system: runs are not guarded
    fcntl = None

HELP = """\
examples
  python -m rationale.runs --list                           the notebooks
  python -m rationale.runs 12_train_sst --list              the parameters of one, their defaults and ranges
  python -m rationale.runs 10_first_rationale               run it with its defaults
  python -m rationale.runs 12_train_sst params/sst/hardkuma_s40_glove50.yaml seed=2

parameters
  A parameter file is YAML, one `key: value` a line, and holds only what differs from the notebook's
  defaults. Files and overrides are merged from left to right. An unknown key, a wrong type or a value out of
  range stops the run before anything is computed. Write 1.0e-5, not 1e-5: YAML reads the latter as text.

results
  outputs/<notebook>/<run>/ holds run.ipynb (executed), run.html (the same to read in a browser),
  params.yaml (all parameters), environment.txt (versions, machine, commit), and what the notebook saved.
  The run's name is made of the arguments: `hardkuma_s40_glove50-seed2` in the example above.

interrupted, failed, finished
  The same command again continues an interrupted or failed run from its last checkpoint, and
  leaves a finished one alone; --again begins anew and replaces it only when the new one has finished.

exit code
  0 finished   1 a cell failed   2 a mistake in what was given   130 interrupted
"""

NOT_MODELLING = set("figures widgets reading runs sweeps params errors predict reference handout".split())
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TRIALS = ("smoke", "book", "html")  # names of runs that show a notebook works: no results
USUAL = {  # unless already set
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TQDM_DISABLE": "1",
    # glibc keeps what it has: a training step gives back and asks anew for tens of megabytes, page by page
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4000000000",
}
KERNEL_STARTS = 3  # two kernels that start at once may be given the same port, and one of them dies


class RunFailed(RuntimeError):
    """A cell of the notebook failed; the message says which error, and where the partial notebook is."""


def root() -> Path:
    """Folder of the repository: it holds notebooks/, params/ and outputs/, and notebooks run in it."""
    return Path(__file__).resolve().parent.parent


_kernel_locks: dict[Path, IO[str]] = {}


def results_folder(name: str) -> Path:
    """Folder in which notebook `name` saves its results; it exists on return.

    Through the runner, the run's own; by hand (JupyterLab), `outputs/<name>/lab`.
    """
    given = os.environ.get("RATIONALE_RUN_DIR")
    folder = Path(given) if given else root() / "outputs" / name / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    if given and folder not in _kernel_locks:  # held until this process is really gone, see _Folder
        _kernel_locks[folder] = _lock(folder / "kernel.lock", seconds=30)
    return folder


def run_name(items: Iterable[str | Path]) -> str:
    """`[sst/hardkuma_s40.yaml, seed=2]` -> `hardkuma_s40-seed2`; nothing -> `default`.

    Examples
    --------
    >>> run_name(["sst/hardkuma_s40.yaml", "seed=2"])
    'hardkuma_s40-seed2'
    """
    parts = [item.replace("=", "", 1) if is_override(item) else Path(item).stem for item in map(str, items)]
    return "-".join(re.sub(r"[^\w.+-]+", "_", part).strip("_") for part in parts) or "default"


def notebook_path(notebook: str | Path) -> Path:
    """`12_train_sst`, `12_train_sst.py` or any path -> the text notebook's file."""
    folder, given = root() / "notebooks", Path(notebook)
    for path in (given, folder / given.name, folder / f"{given.name}.py"):
        if path.suffix == ".py" and path.is_file():
            return path.resolve()
    known = sorted(path.stem for path in folder.glob("*.py"))
    close = difflib.get_close_matches(given.stem, known, n=3, cutoff=0.4)
    raise BadInput(f"{notebook}: no such notebook, give a .py file or one of {', '.join(close or known)}")


def sources(notebook: Path) -> list[Path]:
    """The notebook and the package's modules its results depend on, followed through their imports.

    Figures, widgets, the runner and the like are left out: they change how a result is shown, not the result.
    """
    found, todo = {notebook}, [notebook]
    while todo:
        for module in _imported(todo.pop()):
            path = root().joinpath(*module.split("."))
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file() and file not in found and file.stem not in NOT_MODELLING:
                    found.add(file)
                    todo.append(file)
    return [notebook, *sorted(found - {notebook})]


def _imported(path: Path) -> set[str]:
    """Dotted names below `rationale` that a file may import, with the packages they are in."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    except SyntaxError:
        return set()  # executing it will say what is wrong
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            above = path.parents[node.level - 1].relative_to(root()).parts if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names if name.split(".")[0] == "rationale"]
    return {".".join(part[:n]) for part in parts for n in range(1, len(part) + 1)}


def fingerprint(notebook: Path) -> str:
    """Twelve hex digits of the code of `sources(notebook)`: prose may change, and a finished run stands."""
    digest = hashlib.sha256()
    for path in sources(notebook):
        digest.update(_code(path.read_text(encoding="utf-8")).encode() + b"\0")
    return digest.hexdigest()[:12]


def _code(text: str) -> str:
    """The lines of a source that are neither blank nor comments nor docstrings."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    except (SyntaxError, tokenize.TokenError):
        return text  # executing it will say what is wrong
    prose = {token.start[0] for token in tokens if token.type == tokenize.COMMENT and token.line.lstrip()[0] == "#"}
    for said in (node.body[0] for node in documented if ast.get_docstring(node) is not None):
        prose |= set(range(said.lineno, said.end_lineno + 1))
    return "\n".join(line for at, line in enumerate(text.split("\n"), 1) if line.strip() and at not in prose)


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
) -> Path:
    """Execute `notebook` with parameters `items` and publish its folder.

    Parameters
    ----------
    notebook, items
        As on the command line.
    outputs
        Folder for `<notebook>/<run>/`; default: the repository's outputs/.
    name
        The run's name; default: made of `items`.
    again
        Begin anew, whatever is there.
    again_if_changed
        Begin anew where the run that is there had other parameters or other code, else continue it.
    wait
        Wait for another process that executes the same run, instead of refusing.
    threads
        Computing threads of the run; default: the environment's OMP_NUM_THREADS, or 1.

    Returns
    -------
    The finished run's folder.

    Raises
    ------
    BadInput
        The mistake is in what was given; nothing has been overwritten.
    RunFailed
        A cell failed; the partial notebook is kept.
    """
    notebook, items = notebook_path(notebook), [str(item) for item in items]
    start, params = defaults(notebook), resolve(notebook, map(_found, items))
    name = run_name(items) if name is None else name
    if not re.fullmatch(r"[\w.+-]+", name) or name.endswith(".partial") or not name.strip("."):
        raise BadInput(f"--name {name}: not a folder name, give letters, digits, `_`, `-`, `+` and `.`")
    target = (outputs or root() / "outputs").resolve() / notebook.stem / name
    code = fingerprint(notebook)
    with _Folder(target, wait) as work:
        if (target / "run.ipynb").is_file() and not again:
            unlike = _difference(_saved_params(target), params)
            stale = _saved_code(target) != code
            if not unlike and not (stale and again_if_changed):
                print(
                    f"already finished: {shown(target)}"
                    + (" (the code has changed since; --again runs it anew)" if stale else "")
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
                print("note: the code has changed since this run began; --again begins anew")
        if not (work.path / "run.ipynb").is_file():
            changed = {key: value for key, value in params.items() if value != start[key]}
            _execute(notebook, params, changed, code, work, threads)
        work.publish()
    return target


def _execute(
    notebook: Path, params: dict[str, Any], changed: dict[str, Any], code: str, work: "_Folder", threads: int | None
) -> None:
    """Run the notebook inside `work`: run.ipynb, run.html, params.yaml and environment.txt come to be."""
    import jupytext
    import nbconvert
    import nbformat
    import papermill
    from traitlets.config import Config

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
        write_text(work.path / "environment.txt", _environment(params, code, settings["OMP_NUM_THREADS"]))
        write_text(work.path / "params.yaml", yaml.safe_dump(params, sort_keys=False, allow_unicode=True))

    running, failed = work.path / "run.running.ipynb", work.path / "failed.ipynb"
    for chatty in ("papermill", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    with _environ(settings):
        for _ in range(KERNEL_STARTS):
            jupytext.write(jupytext.read(notebook), running)
            error = _in_thread(
                papermill.execute_notebook,
                str(running),
                str(running),
                parameters=changed,
                kernel_name="python3",
                cwd=str(root()),
                progress_bar=False,
                stdout_file=sys.stdout,
                stderr_file=sys.stderr,
                autosave_cell_every=5,
                shutdown_kernel="immediate",
                config=Config({"KernelManager": {"transport_encryption": "auto"}}),
            )
            if not str(error).startswith("Kernel died before"):
                break
    if isinstance(error, BrokenPipeError):
        raise error
    if error is not None:
        if getattr(error, "ename", "") == "BadInput":
            running.unlink(missing_ok=True)
            raise BadInput(" ".join(error.evalue.splitlines())) from None
        os.replace(running, failed)
        tail = "\n".join(str(error).strip().splitlines()[-12:])
        raise RunFailed(
            f"{tail}\n\nfailed after {time.time() - began:.0f} s\n"
            f"the notebook up to there: {shown(failed)}\n"
            "the same command continues from the last checkpoint, if any"
        ) from None

    page = nbformat.read(running, as_version=4)
    page.metadata.get("papermill", {}).update(input_path=f"{notebook.stem}.py", output_path="run.ipynb")
    title = {"metadata": {"name": f"{notebook.stem} {work.name}"}}
    html, _ = nbconvert.HTMLExporter(template_name="lab").from_notebook_node(page, resources=title)
    write_text(work.path / "run.html", html)
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
    """Call `function` in a thread, so that signals reach us, not the notebook client; return its error.

    An interruption kills the kernels that the call started, and is raised again once the thread has ended.
    """
    import psutil

    before = set(psutil.Process().children(recursive=True))
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(function, *args, **kwargs)
        try:
            return called.exception()
        except BaseException:
            while not called.done():  # a kernel may come up only now
                for process in set(psutil.Process().children(recursive=True)) - before:
                    process.kill()
                wait([called], timeout=0.2)
            raise


class _Folder:
    """The `.partial` folder of a run while this process has it to itself.

    Two locks: the runner's, and the kernel's (taken in `results_folder`), because a kernel outlives a killed
    runner by up to a second, and must not write into a folder that the next runner already uses.
    """

    def __init__(self, target: Path, wait: bool):
        self.target, self.wait = target, wait
        self.name, self.path = target.name, target.with_name(f"{target.name}.partial")

    def __enter__(self) -> "_Folder":
        told = False
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                self._own = _lock(self.path / "runner.lock", seconds=0)
                if os.path.samestat(os.fstat(self._own.fileno()), os.stat(self.path / "runner.lock")):
                    break
            except FileNotFoundError:
                continue  # published or removed by the other process meanwhile
            except BlockingIOError:
                if not self.wait:
                    raise BadInput(
                        f"{shown(self.path)}: another process executes this run, give --wait to "
                        "wait for it or --name to run under another name"
                    ) from None
                if not told:
                    print(f"waiting for the process that executes {shown(self.path)}", flush=True)
                told = True
                time.sleep(0.5)
        with _lock(self.path / "kernel.lock", seconds=30):
            pass
        self.resumed = (self.path / "params.yaml").is_file()
        return self

    def clear(self) -> None:
        """Begin anew: remove everything but the locks."""
        for path in self.path.iterdir():
            if path.suffix != ".lock":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.resumed = False

    def publish(self) -> None:
        """Rename to the final name; what was there before goes only now."""
        if fcntl is None:
            self._own.close()  # a folder with an open file cannot be renamed there
        for lock in self.path.glob("*.lock"):
            lock.unlink()
        old = self.path.with_name(f"{self.name}.replaced.partial")
        shutil.rmtree(old, ignore_errors=True)
        if self.target.exists():
            os.rename(self.target, old)
        os.rename(self.path, self.target)
        shutil.rmtree(old, ignore_errors=True)

    def __exit__(self, kind: type | None, *_: Any) -> None:
        worthless = not self.resumed and kind in (None, BadInput) and not list(self.path.rglob("*checkpoint*"))
        if worthless:  # made by this call, which found nothing to do or a mistake
            shutil.rmtree(self.path, ignore_errors=True)
        self._own.close()


def _lock(path: Path, seconds: float) -> IO[str]:
    """Open and lock a file, trying for `seconds`; BlockingIOError if another process holds it."""
    file, until = open(path, "w"), time.time() + seconds
    while fcntl:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.time() >= until:
                file.close()
                raise
            time.sleep(0.1)
    return file


@contextmanager
def _environ(settings: dict[str, str]) -> Iterator[None]:
    """Environment variables for the kernel to inherit; as they were afterwards."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _environment(params: dict[str, Any], code: str, threads: str) -> str:
    """What a result depends on besides its parameters, one `name: value` a line."""

    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(root()), *args], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    try:
        commit = git("rev-parse", "HEAD")
        commit += " with local changes" if commit != "unknown" and git("status", "--porcelain") else ""
    except OSError:
        commit = "unknown"
    cpu = re.search(r"model name\s*: (.*)", _read("/proc/cpuinfo"))
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
    project = tomllib.loads(_read(root() / "pyproject.toml")).get("project", {})
    for requirement in project.get("dependencies", []):
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


def _saved_params(folder: Path) -> dict[str, Any]:
    try:
        return yaml.safe_load(_read(folder / "params.yaml")) or {}
    except yaml.YAMLError:
        return {}


def _saved_code(folder: Path) -> str:
    found = re.search(r"^code: (\w+)$", _read(folder / "environment.txt"), re.M)
    return found[1] if found else ""


def _difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """`seed 1 there, 2 here`; "" if the parameters are the same."""
    pairs = {key: (there.get(key, "missing"), here.get(key, "missing")) for key in {**there, **here}}
    return "; ".join(f"{key} {old} there, {new} here" for key, (old, new) in pairs.items() if old != new)


def _found(item: str) -> str:
    """A parameter file as given, or below the repository's root."""
    path = root() / item
    return str(path) if not is_override(item) and not Path(item).exists() and path.is_file() else item


def _read(path: Path | str) -> str:
    """The text of a file, "" if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def report(folder: Path) -> str:
    """Where to look, and what came out: the notebook's own summary, or else all metrics."""
    lines = [f"  notebook  {shown(folder / 'run.ipynb')}", f"  page      {shown(folder / 'run.html')}"]
    try:
        found = json.loads(_read(folder / "metrics.json") or "{}")
        metrics = _flat({name: value for name, value in found.items() if name != "methods"})
    except ValueError:
        metrics = {}
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    summary = (colour and _read(folder / "summary.ansi") or _read(folder / "summary.txt")).rstrip()
    if summary:
        return "\n".join([*lines, summary])
    width = max(map(len, metrics), default=0)
    lines += [
        f"  {name:{width}}  {f'{value:.4g}' if isinstance(value, float) else value}" for name, value in metrics.items()
    ]
    return "\n".join(lines)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """{"dev": {"accuracy": 0.4}} -> {"dev accuracy": 0.4}"""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, inner in value.items() for k, v in _flat(inner, f"{name} {key}".strip()).items()}


def listing(notebook: str | None, width: int = 100) -> str:
    """The notebooks, or the parameters of one: default and meaning, and below it what is accepted there."""
    if notebook is None:
        found = {path.stem: _read(path) for path in sorted((root() / "notebooks").glob("*.py"))}
        titles = {name: re.search(r"^# # (.*)$", text, re.M) for name, text in found.items()}
        column = max(map(len, titles))
        return "\n".join(f"{name:{column}}  {title[1] if title else ''}".rstrip() for name, title in titles.items())
    lines, values = [], defaults(notebook_path(notebook))
    for name, value in values.items():
        given = yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]  # as given: 1.0e-05
        accepted = f"{KEYS[name].meaning}; {KEYS[name].accepts(choices(name, values))}"
        lines.append(f"{name}: {given}".rstrip())
        lines += textwrap.wrap(accepted, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


@command
def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rationale.runs",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Execute a notebook with parameters and save everything it produced in one folder.",
    )
    add = parser.add_argument
    add("notebook", nargs="?", metavar="NOTEBOOK", help="name of a notebook, or a path to one (.py)")
    add("items", nargs="*", metavar="PARAMS.yaml | key=value", help="parameter files and overrides")
    add("--list", action="store_true", help="list the notebooks, or a notebook's parameters")
    add("--again", action="store_true", help="begin anew, even if the run has finished")
    add(
        "--again-if-changed",
        action="store_true",
        help="begin anew only where the run there had other parameters or other code (what a sweep uses)",
    )
    add("--wait", action="store_true", help="wait if another process executes the same run")
    add("--name", help="name of the run (default: made of the arguments)")
    add("--outputs", type=Path, metavar="DIR", help="folder for the results (default: outputs/)")
    add(
        "--threads",
        type=int,
        metavar="N",
        help="computing threads (default: OMP_NUM_THREADS, or 1; more only if nothing else runs)",
    )
    args = parser.parse_intermixed_args(argv)
    if args.threads is not None and args.threads < 1:
        parser.error("--threads: give a whole number of at least 1")
    if args.notebook is None and not args.list:
        parser.error("give the name of a notebook; --list shows them, --help explains")

    received = []

    def interrupt(number: int, _: Any) -> None:
        received.append(number)
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # once is enough
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if args.list:
            print(listing(args.notebook, min(shutil.get_terminal_size().columns, 120)))
            return 0
        folder = run(
            args.notebook,
            args.items,
            outputs=args.outputs,
            name=args.name,
            again=args.again,
            again_if_changed=args.again_if_changed,
            wait=args.wait,
            threads=args.threads,
        )
        print(report(folder))
        return 0
    except RunFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the same command continues from the last checkpoint, if any", file=sys.stderr)
        return 128 + (received[0] if received else signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
