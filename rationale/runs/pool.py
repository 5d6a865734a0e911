"""Execute the runs of a sweep on this machine, so many at once, in forks of one warm process (see `warm`)."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import cache
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from rationale.digests import changed
from rationale.runs import warm
from rationale.runs.inputs import recorded_files
from rationale.runs.own_parts import files_of
from rationale.runs.record import recorded_code, unlike_recorded
from rationale.runs.sweeps import Planned, Sweep
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
    """

    def __init__(self, outputs: Path, jobs: int, memory: int, received: list[int], look: Callable[[], float]):
        self.outputs, self.jobs, self.memory = outputs, jobs, memory
        self.received, self.look = received, look
        self.running: dict[str, tuple[Planned, BaseProcess]] = {}
        self.failed: dict[str, int] = {}

    def make(self, sweep: Sweep) -> dict[str, int]:
        """Make all runs of a sweep that are to be made, and then its comparison if none of them failed.

        Returns
        -------
        dict
            The exit codes of the runs that failed or were interrupted, by name; those of killed ones are negative.
        """
        runs, then, codes = sweep.runs.values(), sweep.then, sweep.codes()
        is_changed = cache(lambda place, digest: bool(changed({place: digest})))
        todo = [run for run in runs if not is_made(run, self.outputs, codes[run.name], is_changed)]
        if todo:
            warm.prepare({run.notebook for run in todo})
        self._execute(todo)
        if then and not self.failed and not self.received:
            finished = [changed_at(run.folder(self.outputs) / "run.ipynb") for run in (then, *runs)]
            is_old = max(finished) > finished[0]
            if is_old or not is_made(then, self.outputs, then.code(), is_changed):
                self._execute([then], "--again")
        return self.failed

    def _execute(self, runs: list[Planned], *options: str) -> None:
        """Execute runs with these further options of the runner."""
        waiting, needed = list(runs), {run.name: run.memory_mb() for run in runs}
        while (waiting or self.running) and not self.received:
            free = self.memory - sum(needed[name] for name in self.running)
            fitting = (run for run in waiting if needed[run.name] <= free or not self.running)
            if len(self.running) < self.jobs and (run := next(fitting, None)):
                waiting.remove(run)
                self._start(run, options)
            else:
                self._wait(self.look())
        if self.received:
            self._interrupt()

    def _start(self, run: Planned, options: Iterable[str]) -> None:
        arguments = [*run.arguments(self.outputs), "--threads", "1", *options]
        run.log(self.outputs).parent.mkdir(parents=True, exist_ok=True)
        try:
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
        """Note that a run has failed, also at the end of its log, as `status` reads it."""
        self.failed[run.name] = code
        with open(run.log(self.outputs), "a", encoding="utf-8") as log:
            print(f"{reason}\n" * bool(reason) + f"exit code {code if code > 0 else 128 - code}", file=log)

    def _interrupt(self) -> None:
        """End all runs, those first asked that do not need to be forced."""
        for number, seconds in PATIENCE.items():
            until = time.monotonic() + seconds
            while self.running and time.monotonic() < until:
                for _, process in self.running.values():
                    _send(process, number)  # again, because a process that has just started may not have noticed it
                self._wait(0.5)


def is_made(run: Planned, outputs: Path, code: str, is_changed: Callable[[str, str], bool]) -> bool:
    """Whether there is nothing to do for a run: it has finished, with these parameters, this code and these data.

    The runner would find out the same, but in a process per run.
    """
    folder = run.folder(outputs)
    return (
        (folder / "run.ipynb").is_file()
        and not unlike_recorded(folder, run.params | files_of(run.params))
        and recorded_code(folder) == code
        and not any(is_changed(place, digest) for place, digest in recorded_files(folder).items())
    )


def _send(process: BaseProcess, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid or 0, number)


def _is_there(pid: int | None) -> bool:
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True
