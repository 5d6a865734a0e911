"""Execute the runs of a sweep on this machine, so many at once, in forks of one warm process (see `warm`)."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from rationale.digests import changed
from rationale.errors import BadInput, cut, optional, shown
from rationale.runs import warm
from rationale.runs.inputs import recorded_files
from rationale.runs.own_parts import files_of
from rationale.runs.record import made_of_others, recorded_code, recorded_params, unlike_recorded
from rationale.runs.sweeps import STARTED, Planned, Sweep
from rationale.runs.workspace import changed_at

PATIENCE = {signal.SIGINT: 20.0, signal.SIGTERM: 10.0, signal.SIGKILL: 5.0}  # seconds to end after each signal
LOST = 255  # the exit code of a process about which its server, which was killed, can no longer tell


class Pool:
    """Executes runs, so many at once.

    Parameters
    ----------
    outputs : Path
        The folder of the results.
    jobs, memory : int
        Runs at once; their estimates have at most so many MB in all, but one run can always start.
    received : list of int
        Numbers of signals. As soon as there is one, all runs are interrupted.
    look : callable
        Looks at the runs if it is time to, and returns the seconds until the next look.
    replace : bool
        Whether runs of other files that have the name of one of these are replaced.
    """

    def __init__(
        self,
        outputs: Path,
        jobs: int,
        memory: int,
        received: list[int],
        look: Callable[[], float],
        replace: bool = False,
    ):
        self.outputs, self.jobs, self.memory = outputs, jobs, memory
        self.received, self.look, self.replace = received, look, replace
        self.running: dict[str, tuple[Planned, BaseProcess]] = {}
        self.failed: dict[str, int] = {}

    def make(self, sweep: Sweep, changes: dict[str, str] | None = None) -> dict[str, int]:
        """Make all runs of a sweep that are to be made, and then its comparison if none of them failed.

        Parameters
        ----------
        sweep : Sweep
        changes : dict or None
            Those of `changes_since`; None: they are looked for.

        Returns
        -------
        dict
            The exit codes of the runs that failed or were interrupted, by name; those of killed ones are negative.
        """
        changes = changes_since(sweep, self.outputs) if changes is None else changes
        todo = runs_to_do(sweep, self.outputs, changes)
        if todo:
            warm.prepare({run.notebook for run in todo})
        self._execute(todo, *["--replace"] * self.replace)
        then = sweep.then if not self.failed and not self.received else None
        if then and (not _has_finished(then, self.outputs) or change_of_comparison(sweep, self.outputs)):
            self._execute([then], "--again")
        return self.failed

    def _execute(self, runs: list[Planned], *options: str) -> None:
        """Execute runs with these further options of the runner."""
        waiting, needed = list(runs), {run.name: run.memory_mb() for run in runs}
        try:
            while (waiting or self.running) and not self.received:
                free = self.memory - sum(needed[name] for name in self.running)
                fitting = (run for run in waiting if needed[run.name] <= free or not self.running)
                if len(self.running) < self.jobs and (run := next(fitting, None)):
                    waiting.remove(run)
                    self._start(run, options)
                else:
                    self._wait(self.look())
        finally:  # also if a look fails, because nobody reads what it shows: runs that nobody sees do not go on
            if self.running:
                self._interrupt()

    def _start(self, run: Planned, options: Iterable[str]) -> None:
        arguments = [*run.arguments(self.outputs), "--threads", "1", *options]
        try:
            run.log(self.outputs).parent.mkdir(parents=True, exist_ok=True)
            _begin_log(run.log(self.outputs))
            self.running[run.name] = run, warm.start(arguments, run.log(self.outputs), run.notebook)
        except (OSError, EOFError) as error:  # of the fork, or of the server that has died
            self._note(run, 1, f"it could not be started: {error}")

    def _wait(self, seconds: float) -> None:
        """Wait until a run has ended, but no longer than so many seconds."""
        wait([process.sentinel for _, process in self.running.values()], seconds)
        for name, (run, process) in list(self.running.items()):
            if process.exitcode == LOST and _is_there(process.pid):
                _send(process, signal.SIGTERM)  # its result would not be known
                time.sleep(0.1)
            elif process.exitcode is not None:
                del self.running[name]
                if process.exitcode:
                    self._note(run, -signal.SIGTERM if process.exitcode == LOST else process.exitcode)

    def _note(self, run: Planned, code: int, reason: str = "") -> None:
        """Note that a run has failed, also at the end of its log, as `status` reads it, if that can be written."""
        self.failed[run.name] = code
        with contextlib.suppress(OSError), open(run.log(self.outputs), "a", encoding="utf-8") as log:
            print(f"{reason}\n" * bool(reason) + f"exit code {code if code > 0 else 128 - code}", file=log)

    def _interrupt(self) -> None:
        """End all runs, those first asked that do not need to be forced."""
        for number, seconds in PATIENCE.items():
            until = time.monotonic() + seconds
            while self.running and time.monotonic() < until:
                for _, process in self.running.values():
                    _send(process, number)  # again, because a process that has just started may not have noticed it
                self._wait(0.5)


def _begin_log(log: Path) -> None:
    """Say at the end of the log of a run, if it can be written, that a process starts.

    What the log holds is kept: the process of another sweep that has this run, too, may be writing it.
    """
    with contextlib.suppress(OSError), open(log, "a", encoding="utf-8") as file:
        print("\n" * (file.tell() > 0) + STARTED + time.strftime("%Y-%m-%d %H:%M:%S"), file=file)


def changes_since(sweep: Sweep, outputs: Path) -> dict[str, str]:
    """What has changed since the runs of a sweep were made, by the names of those that would be made again."""
    codes, is_changed = sweep.codes(), _each_file_once()
    finished = [run for run in sweep.runs.values() if _has_finished(run, outputs)]
    changes = {run.name: change(run, outputs, codes[run.name], is_changed) for run in finished}
    return {name: text for name, text in changes.items() if text}


def runs_to_do(sweep: Sweep, outputs: Path, changes: Mapping[str, str]) -> list[Planned]:
    """The runs that are not finished, and those that would be made again because of their `changes`."""
    return [run for run in sweep.runs.values() if run.name in changes or not _has_finished(run, outputs)]


def change_of_comparison(sweep: Sweep, outputs: Path) -> str:
    """What has changed since the comparison of a sweep was made; "" if nothing has, or there is none."""
    then = sweep.then
    if then is None or not _has_finished(then, outputs):
        return ""
    finished = [changed_at(run.folder(outputs) / "run.ipynb") for run in (then, *sweep.runs.values())]
    return "a run is newer" if max(finished) > finished[0] else change(then, outputs, then.code(), _each_file_once())


def refuse_others(sweep: Sweep, outputs: Path) -> None:
    """Refuse a sweep that would replace runs with other parameters, made of other files, that have the same names.

    Its comparison, which is named after the sweep's file, must not replace that of another sweep either: one that has
    none of its runs.

    Raises
    ------
    BadInput
        For the first such run.
    """
    for run in sweep.runs.values():
        for folder, what in ((run.folder(outputs), "a finished run"), (run.work(outputs), "an unfinished run")):
            others = made_of_others(folder, run.notebook, run.items)
            if others and (unlike := unlike_recorded(folder, run.params | files_of(run.params))):
                offer = "rename a parameter file to keep both, or give --replace"
                raise BadInput(f"{shown(folder)}: {what} {unlike}, made of {others}; {offer}")
    if sweep.then is not None and _has_finished(sweep.then, outputs):
        there = recorded_params(sweep.then.folder(outputs)).get("runs")
        if isinstance(there, list) and there and not set(map(str, there)) & set(sweep.runs):
            compared = f"a comparison of other runs ({cut(', '.join(map(str, there)))})"
            offer = "rename the file of the sweep to keep both, or give --replace"
            raise BadInput(f"{shown(sweep.then.folder(outputs))}: {compared}; {offer}")


def change(run: Planned, outputs: Path, code: str, is_changed: Callable[[str, str], bool]) -> str:
    """What has changed since a run was made: its parameters, the code or a file that it has read; "" if nothing has.

    The runner would find out the same, but in a process per run.
    """
    folder = run.folder(outputs)
    if unlike := unlike_recorded(folder, run.params | files_of(run.params)):
        others = made_of_others(folder, run.notebook, run.items)
        of_others = f"; made of {others}, so only --replace replaces it" if others else ""
        return unlike.removeprefix("with other parameters (").removesuffix(")") + of_others
    if recorded_code(folder) != code:
        return "the code has changed"
    return next((f"{p} has changed" for p, digest in recorded_files(folder).items() if is_changed(p, digest)), "")


def _each_file_once() -> Callable[[str, str], bool]:
    """Whether a file has changed, given its place and digest; a file that several runs have read is read once."""
    return cache(lambda place, digest: bool(changed({place: digest})))


def _has_finished(run: Planned, outputs: Path) -> bool:
    return (run.folder(outputs) / "run.ipynb").is_file()


def _send(process: BaseProcess, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid or 0, number)


def _is_there(pid: int | None) -> bool:
    """Whether a process has not ended. One that has ended stays as a zombie where nobody collects orphans."""
    psutil = optional("psutil", "a sweep", "notebooks")
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
