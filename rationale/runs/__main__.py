"""The command line: `python -m rationale.runs NOTEBOOK [PARAMS.yaml | key=value]...`"""

import argparse
import inspect
import json
import os
import re
import shutil
import signal
import sys
import textwrap
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import yaml

from rationale.errors import BadInput, command, printable, shown
from rationale.runs.cells import defaults, parameters_cell, settings_class
from rationale.runs.environment import MOST_THREADS
from rationale.runs.runner import Execute, RunFailed, run
from rationale.runs.waiting import kernel_ahead
from rationale.runs.watch import OnlyNotes
from rationale.runs.workspace import named_folder, notebook_path, read_if_there, root
from rationale.settings import accepts, components, show

PAGE_OF_TEXTS = "rationales.html"  # written by 17_train_own_texts, and by 13_train_nli for pairs of your own
FLAG = re.compile(r"--(again|name|outputs)\b")  # of those that messages name
HELP = """\
examples
  python -m rationale.runs --list                           the notebooks
  python -m rationale.runs 12_train_sst --list              the parameters of one, their defaults and ranges
  python -m rationale.runs 10_first_rationale               run it with its defaults
  python -m rationale.runs 12_train_sst params/sst/hardkuma.yaml selection=0.4 vectors=glove.6B.50d seed=2

parameters
  A parameter file is YAML, one `key: value` per line, and holds only what differs from the notebook's
  defaults. Files and overrides are merged from left to right. An unknown key, a wrong type or a value out of
  range stops the run before anything is computed. Write 1.0e-5, not 1e-5: YAML reads the latter as text.
  A setting that a later change leaves without effect goes back by itself, with a note: dependent=false is enough,
  look_ahead need not be reset.

results
  outputs/<notebook>/<run>/ holds run.ipynb (executed), run.html (the same to read in a browser),
  params.yaml (all parameters), environment.txt (versions, machine, commit, sha256 of every file that was read), and the
  files that the notebook saved.
  SHA256SUMS has the digests of all of them; `sha256sum --check SHA256SUMS` finds a damaged file.
  The name of the run is made of the arguments: `hardkuma-selection0.4-vectorsglove.6B.50d-seed2` in the example above.
  A path counts with its file's name only; a name of more than 80 characters is cut and ends with a digest.

progress
  On a terminal a bar shows the batches, the loss, the rate of selected words and the time that is left; into a file,
  one line per minute is written. `progress.json` in the working folder has the same numbers.

interrupted, failed, finished
  A run is not continued with data that have changed since it began, and says so if they changed after it finished.
  The same command again continues an interrupted or failed run from its last checkpoint, and
  leaves a finished one alone; --again starts a new run, which replaces the old one only when it has finished.
  Files that you have added to the folder of a run are kept. A folder that no run has made is never used.

exit code
  0 finished   1 a cell failed   2 a mistake in the arguments, or a file that cannot be read or written
  130 interrupted
"""


def report(folder: Path) -> str:
    """Where the results are, and what they are: the notebook's own summary if there is one, otherwise all metrics."""
    files = {"notebook": "run.ipynb", "page": "run.html"}
    if (folder / PAGE_OF_TEXTS).is_file():
        files["rationales"] = PAGE_OF_TEXTS
    width = max(map(len, files))
    lines = [f"  {what:{width}}  {shown(folder / name)}" for what, name in files.items()]
    try:
        saved = json.loads(read_if_there(folder / "metrics.json") or "{}")
    except (ValueError, RecursionError):
        saved = {}
    metrics = _flat({name: value for name, value in saved.items() if name != "methods"} if type(saved) is dict else {})
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    summary = ((colour and read_if_there(folder / "summary.ansi")) or read_if_there(folder / "summary.txt")).rstrip()
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
    """The notebooks, or the parameters of one notebook: each default, and below it the meaning and what is accepted."""
    if notebook is None:
        sources = {path.stem: read_if_there(path) for path in sorted((root() / "notebooks").glob("*.py"))}
        titles = {name: re.search(r"^# # (.*)$", text, re.M) for name, text in sources.items()}
        column = max(map(len, titles))
        return "\n".join(f"{name:{column}}  {title[1] if title else ''}".rstrip() for name, title in titles.items())
    path = notebook_path(notebook)
    cls, values = settings_class(path), defaults(path)
    cell = parameters_cell(path)
    groups = {"in the notebook's cell": cell}
    for component, names in components(cls).items():
        title = (inspect.getdoc(component) or "").split("\n")[0].rstrip(".")
        groups[title] = [name for name in names if name not in cell]
    lines = []
    for title, names in groups.items():
        lines += ["", *textwrap.wrap(title, width, initial_indent="# ", subsequent_indent="# ")] if names else []
        for name in names:
            given = yaml.safe_dump(values[name], default_flow_style=True, width=1000).splitlines()[0]  # 1.0e-05
            accepted = f"{cls.model_fields[name].description}; {accepts(cls, name)}"
            for when, values_then in cls.other_defaults.items():
                accepted += f"; default with {when}: {show(values_then[name])}" if name in values_then else ""
            lines.append(f"{name}: {given}".rstrip())
            lines += textwrap.wrap(
                accepted, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
            )
    return "\n".join(lines).lstrip()


def _parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rationale.runs",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Execute a notebook with parameters and save all results in one folder.",
    )
    add = parser.add_argument
    add("notebook", nargs="?", metavar="NOTEBOOK", help="name of a notebook, or a path to one (.py)")
    add("items", nargs="*", metavar="PARAMS.yaml | key=value", help="parameter files and overrides")
    add("--list", action="store_true", help="list the notebooks, or a notebook's parameters")
    add("--again", action="store_true", help="start again, even if the run has finished")
    add(
        "--again-if-changed",
        action="store_true",
        help="start again only if the existing run had other parameters, other code or other data (sweeps use this)",
    )
    add(
        "--replace",
        action="store_true",
        help="with --again-if-changed: also replace a run of this name with other parameters from other files",
    )
    add("--wait", action="store_true", help="wait if another process executes the same run")
    add("--name", help="name of the run (default: made of the arguments)")
    add("--outputs", type=named_folder, metavar="DIR", help="folder for the results (default: outputs/)")
    add(
        "--threads",
        type=int,
        metavar="N",
        help="computing threads (default: OMP_NUM_THREADS, or 1; more only if nothing else runs)",
    )
    add("--quiet", action="store_true", help="show only notes and errors: no progress, no results")
    return parser


def _refuse_unused(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse arguments that are not accepted, or would have no effect."""
    if args.threads is not None and not 1 <= args.threads <= MOST_THREADS:
        parser.error(f"--threads: give a whole number from 1 to {MOST_THREADS}")
    if args.notebook is None and not args.list:
        parser.error("give the name of a notebook; --list shows them, --help explains")
    if args.replace and not args.again_if_changed:
        parser.error("--replace: only with --again-if-changed; --again replaces any run of this name")
    flags = {name: value for name, value in vars(args).items() if name not in ("notebook", "items", "list")}
    unused = [*args.items, *(f"--{name.replace('_', '-')}" for name, value in flags.items() if value)]
    if args.list and unused:
        parser.error(f"{printable(unused[0])}: not with --list, which runs nothing")


@command
def main(argv: list[str] | None = None, execute: Execute | None = None) -> int:
    """The command line; returns the exit code. `execute` is that of `run`; None: a kernel that starts at once."""
    parser = _parser()
    args = parser.parse_intermixed_args(argv)
    _refuse_unused(parser, args)

    received = []

    def interrupt(number: int, _: Any) -> None:
        received.append(number)
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # one signal is enough
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if args.list:
            print(listing(args.notebook, min(shutil.get_terminal_size().columns, 120)))
            return 0
        ahead = kernel_ahead(args.notebook, args.threads) if execute is None else nullcontext(execute)
        quiet = redirect_stdout(OnlyNotes(sys.stdout)) if args.quiet else nullcontext()
        with ahead as executed, quiet:  # type: ignore[attr-defined]
            folder = run(
                args.notebook,
                args.items,
                outputs=args.outputs,
                name=args.name,
                again=args.again,
                again_if_changed=args.again_if_changed,
                replace=args.replace,
                wait=args.wait,
                threads=args.threads,
                quiet=args.quiet,
                execute=executed,
            )
            print(printable(report(folder), "\n\t", colours=True))
        return 0
    except BadInput as error:
        hint = os.environ.get("FLAGS_IN_MAKE", "")  # how `make` gives the flags that messages name
        if hint and FLAG.search(str(error)):
            raise BadInput(f"{error} ({hint})") from None
        raise
    except RunFailed as error:
        print(printable(str(error), "\n\t", colours=True), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        same = "the same command without --again" if args.again else "the same command"
        print(f"\ninterrupted; {same} continues from the last checkpoint, if any", file=sys.stderr)
        return 128 + (received[0] if received else signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
