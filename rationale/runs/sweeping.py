"""Execute a sweep on this machine, and show one line per run while it goes on.

What executes the runs is a `Pool`, or Snakemake. What is shown is read from the folders and logs of the runs.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

from rationale.errors import BadInput, optional, shown
from rationale.files import lock_file
from rationale.progress import as_clock, describe_progress, read_progress
from rationale.runs import warm
from rationale.runs.by_snakemake import with_snakemake
from rationale.runs.folder import is_worked_on
from rationale.runs.pool import Pool, changes_since, refuse_others
from rationale.runs.sweep_data import refuse_bad_data
from rationale.runs.sweeps import STARTED, Planned, Sweep, notebook_of
from rationale.runs.time_left import TimeLeft
from rationale.runs.workspace import changed_at, read_if_there

SECONDS = 1.0  # between two looks at the runs
LOG_SECONDS = 60.0  # between two reports in a log
MOST_CHANGES = 5  # that are told before the runs are made again
LAST_LINES = 12  # of the log of a run that failed
EXIT = "exit code "  # how the last line of the log of a run that failed begins, see `Pool` and Snakefile
INTERRUPTED = {str(128 + number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)}


class Status(NamedTuple):
    """The state of a run and, if it is running, what it has reported."""

    state: str  # "to do", "unfinished", "starting", "running", "finished", "changed" or "failed"
    progress: dict[str, Any]
    change: str = ""  # since the run was made, so that a sweep makes it again


def status(run: Planned, outputs: Path, began: float = 0.0, changes: Mapping[str, str] | None = None) -> Status:
    """The state of a run, read from its folder and from its log unless that is older than `began` (in seconds).

    A log that is older than the finished run does not count either: another command has made the run since.
    `changes` has what had changed then, by the names of finished runs that are to be made again (see `changes_since`).
    """
    folder, log, work = run.folder(outputs), run.log(outputs), run.work(outputs)
    if is_worked_on(work):
        return Status("running", read_progress(work))
    code = _exit_code(log) if changed_at(log) >= max(began, changed_at(folder / "run.ipynb")) else ""
    if code and code not in INTERRUPTED:
        return Status("failed", {})
    is_new = began and changed_at(log) >= began and not code
    if is_new and max(changed_at(folder / "run.ipynb"), changed_at(folder / ".done")) < began:
        return Status("starting", {})
    if (folder / "run.ipynb").is_file():
        change = (changes or {}).get(run.name, "")
        is_old = not began or changed_at(folder / "run.ipynb") < began
        return Status("changed", {}, change) if change and is_old else Status("finished", {})
    return Status("unfinished" if work.is_dir() else "to do", {})


def line(run: Planned, now: Status, outputs: Path, name: str = "") -> str:
    """The state of a run in one line, with what it has reported; for a finished run, its score and rate on dev.

    `name` is shown instead of the run's own if it is given.
    """
    text = describe_progress(now.progress) if now.state == "running" else f"({now.change})" * bool(now.change)
    if now.state == "finished":
        text = _scores(run.folder(outputs))
    return f"{now.state:10}  {name or run.name}" + (f"  {text}" if text else "")


def short_names(runs: list[Planned]) -> list[str]:
    """The names of runs without the beginning that all of one notebook share, so that what differs fits into a line.

    Examples
    --------
    >>> short_names([Planned(Path("a.py"), f"hardkuma-epochs9-selection{rate}", []) for rate in (0.1, 0.2)])
    ['…selection0.1', '…selection0.2']
    """
    names = []
    for run in runs:
        parts = [other.name.split("-") for other in runs if other.notebook == run.notebook]
        shared = next((i for i, part in enumerate(zip(*parts, strict=False)) if len(set(part)) > 1), 0)
        names.append("…" * (shared > 0) + "-".join(run.name.split("-")[shared:]))
    return names


def prepare_for(sweep: str) -> None:
    """Let the server of `warm` import while the sweep is read and checked, which takes as long; a mistake is told then.

    The server ends with this process, also if there is nothing to do.
    """
    with suppress(BadInput, OSError):
        warm.prepare([notebook_of(sweep)])


def execute(
    sweep: Sweep,
    path: str,
    outputs: Path,
    jobs: int,
    quiet: bool = False,
    by_snakemake: bool = False,
    replace: bool = False,
) -> int:
    """Make all runs of a sweep that are to be made, then its comparison; return the exit code.

    Parameters
    ----------
    sweep : Sweep
    path : str
        Its name, or the path of its file.
    outputs : Path
        The folder of the results.
    jobs : int
        Runs at once. Each of them computes with one thread, at a low priority, and fewer start if the memory that is
        available now does not suffice for their estimates.
    quiet : bool
        True: show no progress, only what failed.
    by_snakemake : bool
        True: Snakemake starts each run with its command. False: each run is a fork of one process, see `Pool`.
    replace : bool
        True: also replace runs with other parameters that were made of other files and have the names of these.

    Raises
    ------
    BadInput
        If another process executes this sweep, if it would replace runs without `replace`, if the data of a run that is
        to be made cannot be used, or if Snakemake is asked for and not installed.
    """
    runs = [*sweep.runs.values(), *([sweep.then] if sweep.then else [])]
    place = runs[0].folder(outputs).parent
    place.mkdir(parents=True, exist_ok=True)
    memory = optional("psutil", "a sweep", "notebooks").virtual_memory().available >> 20
    display, began = _display(sys.stdout, quiet), time.time()
    changes: dict[str, str] = {}

    def states() -> list[Status]:
        return [status(run, outputs, began, None if run is sweep.then else changes) for run in runs]

    look = _now_and_then(lambda: display.show(runs, states(), outputs))

    messages = place / f"{sweep.name}.snakemake.log"
    with _locked(place / f".{sweep.name}.lock", sweep.name) as lock, _signals() as received:
        if not replace:
            refuse_others(sweep, outputs)
        changes |= changes_since(sweep, outputs)
        refuse_bad_data(sweep, outputs, changes)
        if not quiet:
            other = f", of Snakemake: {shown(messages)}" if by_snakemake else ""
            what = f"{len(sweep.runs)} runs{' and their comparison' if sweep.then else ''}"
            print(f"sweep {sweep.name}: {what}, {jobs} at once, {memory / 1024:.1f} GB of memory free")
            print(f"logs: {shown(place)}/<run>.log{other}", flush=True)
            for name, change in list(changes.items())[:MOST_CHANGES]:
                print(f"made again, which replaces the finished run: {name} ({change})", flush=True)
            if len(changes) > MOST_CHANGES:
                print(f"made again as well: {len(changes) - MOST_CHANGES} other runs", flush=True)
        if by_snakemake:
            code = with_snakemake(
                path, not sweep.left_out, replace, outputs, jobs, memory, messages, lock, received, look
            )
            notes = f"Snakemake failed; the last lines of {shown(messages)}:\n{_tail(messages)}" if code else ""
        else:
            failed = Pool(outputs, jobs, memory, received, look, replace).make(sweep, changes)
            code = int(bool(failed))
            untold = (_without_log(run, failed.get(run.name, 0), outputs, began) for run in runs)
            notes = "\n".join(filter(None, untold))
    last = states()
    display.end(runs, last, outputs)
    failed_runs = [run for run, now in zip(runs, last, strict=True) if now.state == "failed"]
    for run in failed_runs:
        print(f"\n{run.name} failed; the last lines of {shown(run.log(outputs))}:", file=sys.stderr)
        print(_tail(run.log(outputs)), file=sys.stderr)
    if received:
        print("\ninterrupted; the same command continues the sweep", file=sys.stderr)
        return 128 + received[0]
    if notes and not (by_snakemake and failed_runs):
        print(f"\n{notes}\nthe same command continues the sweep", file=sys.stderr)
    if not code and not quiet:
        print(_where_to_look(sweep, outputs))
    return code


def _without_log(run: Planned, end: int, outputs: Path, began: float) -> str:
    """What the log of a run that ended with this exit code does not say: that it was killed, or has no log.

    Nor does the end of the log say so if another sweep that has this run goes on with it.
    """
    if end < 0:
        return f"{run.name} was killed (signal {-end})"
    if end and is_worked_on(run.work(outputs)):
        return f"{run.name} failed (exit code {end}), and another process makes it again"
    log = run.log(outputs)
    is_told = not end or (changed_at(log) >= began and _exit_code(log))
    return "" if is_told else f"{run.name} failed (exit code {end}), and its log cannot be written: {shown(log)}"


def _where_to_look(sweep: Sweep, outputs: Path) -> str:
    """Where the results of a sweep are: the page of its comparison, or those of its runs and how to compare them."""
    if sweep.then:
        return f"comparison: {shown(sweep.then.folder(outputs) / 'run.html')}"
    place = next(iter(sweep.runs.values())).folder(outputs).parent
    return f"runs: {shown(place)}/<run>/run.html; to compare them: python -m rationale.results, with their folders"


def _now_and_then(look: Callable[[], None]) -> Callable[[], float]:
    """A function that calls `look` if it is time to, and returns the seconds until the next time.

    A look at many runs takes long: the looks take a twentieth of the time at most.
    """
    next_time = 0.0

    def look_now_and_then() -> float:
        nonlocal next_time
        begins = time.monotonic()
        if begins >= next_time:
            look()
            ends = time.monotonic()
            next_time = ends + max(SECONDS, 20 * (ends - begins))
        return max(next_time - time.monotonic(), 0.0)

    return look_now_and_then


@contextmanager
def _locked(path: Path, name: str) -> Iterator[IO[str]]:
    try:
        file = lock_file(path, seconds=0.5)
    except BlockingIOError:
        raise BadInput(f"{name}: another process executes this sweep; wait for it, or end it with Ctrl-C") from None
    with file:
        yield file


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The numbers of the signals that would end this process, as they come within the `with` block.

    If `nohup` has started this process, the end of its terminal does not end it.
    """
    received: list[int] = []
    is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = (signal.SIGINT, signal.SIGTERM, *[signal.SIGHUP] * (not is_kept))
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Quiet:
    """Shows nothing."""

    def show(self, runs: list[Planned], now: list[Status], outputs: Path) -> None:
        """One look at the runs."""

    def end(self, runs: list[Planned], now: list[Status], outputs: Path) -> None:
        """The last look at them."""


class _Log:
    """A line when a run starts, finishes or fails, and once per minute a line for each run that is running."""

    def __init__(self, stream: TextIO):
        self.stream, self.began, self.reported = stream, time.monotonic(), time.monotonic()
        self.before: dict[str, str] = {}
        self.time_left = TimeLeft()

    def show(self, runs: list[Planned], now: list[Status], outputs: Path) -> None:
        is_time = time.monotonic() - self.reported >= LOG_SECONDS
        for run, one in zip(runs, now, strict=True):
            was = self.before.get(run.name, one.state)
            is_news = one.state != was and one.state in ("running", "finished", "failed")
            if is_news or (is_time and one.state == "running"):
                self._print(line(run, one, outputs))
            self.before[run.name] = one.state
        summary = self.summary(runs, now, outputs)  # at each look, to know since when a run is running
        if is_time:
            self.reported = time.monotonic()
            self._print(summary)

    def end(self, runs: list[Planned], now: list[Status], outputs: Path) -> None:
        self.show(runs, now, outputs)
        self._print(self.summary(runs, now, outputs, ended=True))

    def _print(self, text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, file=self.stream, flush=True)

    def summary(self, runs: list[Planned], now: list[Status], outputs: Path, ended: bool = False) -> str:
        """`1 running, 3 finished, 20 to do; 2:31 so far, about 12:40 left`.

        When the sweep has ended, nothing is to do: what was not made will not be made, such as a comparison for which a
        run is missing.
        """
        counts = Counter("running" if one.state == "starting" else one.state for one in now)
        if ended:
            counts["not made"] = counts.pop("to do", 0)
        order = ("running", "finished", "failed", "changed", "unfinished", "to do", "not made")
        text = ", ".join(f"{counts[state]} {state}" for state in order if counts[state])
        looked = zip(runs, now, strict=True)
        own = [(run.folder(outputs), *one[:2]) for run, one in looked if run.notebook == runs[0].notebook]
        left = self.time_left.look(own)  # without the comparison, which has another notebook
        estimate = "" if left is None or ended else f", about {as_clock(left)} left"
        return f"{text}; {as_clock(time.monotonic() - self.began)} so far{estimate}"


class _Table(_Log):
    """On a terminal, a table that is written again and again; it shows what is running if not all runs fit."""

    def __init__(self, stream: TextIO):
        super().__init__(stream)
        self.height = 0
        self.names: list[str] = []

    def show(self, runs: list[Planned], now: list[Status], outputs: Path, ended: bool = False) -> None:
        self.names = self.names or short_names(runs)
        size = shutil.get_terminal_size()
        rows = list(zip(runs, now, self.names, strict=True))
        if len(rows) > size.lines - 3:
            order = {state: i for i, state in enumerate(("running", "starting", "failed"))}
            rows = sorted((row for row in rows if row[1].state in order), key=lambda row: order[row[1].state])
        shown_rows = rows[: max(size.lines - 3, 1)]
        lines = [line(run, one, outputs, name)[: size.columns - 1] for run, one, name in shown_rows]
        lines.append(self.summary(runs, now, outputs, ended)[: size.columns - 1])
        up = f"\x1b[{self.height}F" if self.height else ""
        self.stream.write(f"{up}\x1b[J" + "\n".join(lines) + "\n")
        self.stream.flush()
        self.height = len(lines)

    def end(self, runs: list[Planned], now: list[Status], outputs: Path) -> None:
        self.show(runs, now, outputs, ended=True)


def _display(stream: TextIO, quiet: bool) -> _Quiet | _Log:
    return _Quiet() if quiet else _Table(stream) if stream.isatty() else _Log(stream)


def _scores(folder: Path) -> str:
    """The first metric of a finished run on dev, which is its score, and the rate of selected words."""
    try:
        metrics = json.loads(read_if_there(folder / "metrics.json") or "{}")
    except (ValueError, RecursionError):
        return "its metrics.json is damaged"
    dev = metrics.get("dev", {}) if isinstance(metrics, dict) else None
    if not isinstance(dev, dict):
        return "its metrics.json is damaged"
    names = [*list(dev)[:1], *[name for name in ("rate_selected",) if name in dev]]
    return "  ".join(f"dev {name} {dev[name]:.4g}" for name in names if isinstance(dev[name], int | float))


def _exit_code(log: Path) -> str:
    """The exit code at the end of the log of a run; "" if it did not fail.

    The kernel of a runner that was killed may write a last line after it.
    """
    codes = [line.removeprefix(EXIT) for line in _tail(log, 2).splitlines() if line.startswith(EXIT)]
    return codes[-1] if codes else ""


def _tail(log: Path, lines: int = LAST_LINES) -> str:
    """The last lines of a log, which may be long; of the log of a run, only what the last process wrote."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 10_000))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    every = text.rstrip().splitlines()
    starts = [i for i, one in enumerate(every) if one.startswith(STARTED)]
    return "\n".join(every[starts[-1] + 1 if starts else 0 :][-lines:])
