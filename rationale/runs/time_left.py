"""How long a sweep still takes, judged by its finished runs and by what the running ones report."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rationale.runs.record import recorded_seconds

GOING, WAITING = ("running", "starting"), ("changed", "unfinished", "to do")  # states of runs


class TimeLeft:
    """The time that is left, from looks at the runs of a sweep."""

    def __init__(self) -> None:
        self.taken: dict[Path, float | None] = {}  # the seconds that finished runs have recorded, by folder
        self.reported: dict[Path, float] = {}  # the seconds of a whole training, judged by what runs have reported
        self.since: dict[Path, float] = {}  # when a run was first seen going

    def look(self, runs: Iterable[tuple[Path, str, Mapping[str, Any]]]) -> float | None:
        """The seconds until all runs have ended; None if no time of a run is known, or no run is left.

        A run takes as long as those that have finished, also before this sweep was continued. If none has finished, it
        takes as long as the running ones report.

        Parameters
        ----------
        runs
            The folder of each finished run, the state, and what it has reported.
        """
        now, still, waiting = time.monotonic(), [], 0
        for folder, state, report in runs:
            waiting += state in WAITING
            if state == "finished" and folder not in self.taken:
                self.taken[folder] = recorded_seconds(folder)
            if state in GOING:
                still.append((report.get("seconds_left"), now - self.since.setdefault(folder, now)))
                if "seconds_left" in report and (share := _share_done(report)) < 1:
                    self.reported[folder] = report["seconds_left"] / (1 - share)
        known = [seconds for seconds in self.taken.values() if seconds is not None] or [*self.reported.values()]
        if not known or not (still or waiting):
            return None
        usual = sum(known) / len(known)
        left = [max(usual - spent, 0.0) if reported is None else reported for reported, spent in still]
        return max([*left, (sum(left) + waiting * usual) / max(len(left), 1)])


def _share_done(report: Mapping[str, Any]) -> float:
    """How much of its training a run has done, in [0, 1], judged by its epochs; 1 if it does not train."""
    if "epoch" not in report:
        return 1.0
    return (report["epoch"] - 1 + report["batch"] / max(report["batches"], 1)) / max(report["epochs"], 1)
