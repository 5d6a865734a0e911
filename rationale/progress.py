"""The progress of a run: what a training loop reports, and the file from which other processes read it.

A loop in a run of the runner writes `progress.json` into the run's working folder, at most once per second. Elsewhere,
for example in JupyterLab, it shows a bar. Neither changes a result.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, SupportsFloat, TypeVar

from rationale.files import write_text

RUN_DIR = "RATIONALE_RUN_DIR"  # the environment variable that names the working folder of a run
FILE = "progress.json"
REST = "other cells"  # the phase after the last one that takes long
SECONDS = 1.0  # at least, between two reports
SHOWS_BARS = ContextVar("SHOWS_BARS", default=True)  # False where a program trains a model and shows nothing
RATES = ("rate", "kept")  # parts of a loss that are shares of selected words or positions

Item = TypeVar("Item")


class Progress:
    """Where a training loop is. `report` is called for every batch and costs next to nothing between two reports.

    Parameters
    ----------
    epochs : int
        Passes over the training data in all.
    finished : int
        Those that were made before, by an interrupted run.
    score : str
        Name of the metric by which epochs are compared.
    part : str
        What is trained, if a run trains more than one thing.
    """

    def __init__(self, epochs: int, finished: int = 0, score: str = "score", part: str = ""):
        self.state: dict[str, Any] = {"phase": "training", "part": part, "epochs": epochs, "score_name": score}
        self.finished, self.began, self.shown = finished, time.monotonic(), -math.inf
        self.folder = _run_folder()
        self.bar: Any = None

    def batches(self, epoch: int, batches: Iterable[Item], total: int) -> Iterator[Item]:
        """The batches of an epoch; by hand with a bar on a terminal or in JupyterLab, if tqdm is installed."""
        self.state |= {"epoch": epoch, "batch": 0, "batches": total}
        self.bar = None if self.folder else _bar(f"epoch {epoch}", total)
        try:
            for batch in batches:
                self.state["batch"] += 1
                yield batch
                if self.bar is not None:
                    self.bar.update()
        finally:
            if self.bar is not None:
                self.bar.close()

    def report(self, loss: SupportsFloat, parts: Mapping[str, SupportsFloat]) -> None:
        """Show the loss and the rate of the current batch; they are read from the device only if they are shown."""
        now = time.monotonic()
        if now - self.shown < SECONDS:
            return
        self.shown = now
        numbers = {"loss": float(loss)}
        for name in RATES:
            if name in parts:
                numbers["rate"] = float(parts[name])
        self.state |= {name: value for name, value in numbers.items() if math.isfinite(value)}
        if self.bar is not None:
            self.bar.set_postfix({name: f"{value:.4g}" for name, value in numbers.items()}, refresh=False)
        self._write(now)

    def end_epoch(self, score: float) -> None:
        """Report the score on dev of the epoch that has just been evaluated."""
        self.state |= {"score": score, "batch": self.state["batches"]}
        self._write(time.monotonic())

    def _write(self, now: float) -> None:
        if not self.folder:
            return
        epochs_done = self.state["epoch"] - 1 + self.state["batch"] / max(self.state["batches"], 1)
        done_here = epochs_done - self.finished
        if done_here > 0:
            self.state["seconds_left"] = (self.state["epochs"] - epochs_done) * (now - self.began) / done_here
        _write(self.folder, self.state)


def report_phase(phase: str) -> None:
    """Report what a run does besides training, for example "evaluation"; nothing outside of a run of the runner."""
    folder = _run_folder()
    if folder:
        trained = {name: value for name, value in read_progress(folder).items() if name in ("score", "score_name")}
        _write(folder, trained | {"phase": phase})


def each(what: str, items: Iterable[Item], total: int | None = None) -> Iterator[Item]:
    """The items, while their number is shown: `reading reviews.csv: 120,000`; beside it their `total`, if it is known.

    In a run of the runner the number is written once per second as the phase; by hand there is a bar, with tqdm.
    """
    folder, shown, number = _run_folder(), time.monotonic(), 0
    bar = None if folder else _bar(what, total)
    try:
        for number, item in enumerate(items, start=1):
            yield item
            if bar is not None:
                bar.update()
            elif folder and time.monotonic() - shown > SECONDS:
                shown = time.monotonic()
                report_phase(f"{what}: {number:,}")
    finally:
        if bar is not None:
            bar.close()


@contextmanager
def bars_unless(quiet: bool) -> Iterator[None]:
    """Within the `with` block there are no bars if `quiet`, or if there were none before."""
    before = SHOWS_BARS.set(SHOWS_BARS.get() and not quiet)
    try:
        yield
    finally:
        SHOWS_BARS.reset(before)


def read_progress(folder: Path) -> dict[str, Any]:
    """What a run in this working folder has reported last; {} if it has reported nothing, or the file is damaged."""
    try:
        state = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return state if _is_report(state) else {}


def describe_progress(state: Mapping[str, Any]) -> str:
    """A report in one line: `epoch 3/18  batch 40/94  loss 0.0312  rate 0.061  mse 0.0150  1:23 left`."""
    texts = [state["part"]] if state.get("part") else []
    if "epoch" in state:
        texts += [f"epoch {state['epoch']}/{state['epochs']}", f"batch {state['batch']}/{state['batches']}"]
    elif "phase" in state:
        texts.append(state["phase"])
    texts += [f"{name} {state[name]:.3g}" for name in ("loss", "rate") if name in state]
    if "score" in state:
        of_training = "" if "epoch" in state else "last dev "  # this phase has not measured it
        texts.append(f"{of_training}{state['score_name']} {state['score']:.4f}")
    if "seconds_left" in state:
        texts.append(f"{as_clock(state['seconds_left'])} left")
    return "  ".join(texts)


def as_clock(seconds: float) -> str:
    """A duration as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _is_report(state: Any) -> bool:
    """Whether this is what `report` or `report_phase` writes: a phase and, in training, how far it is."""
    if not isinstance(state, dict) or not isinstance(state.get("phase"), str):
        return False
    texts = [state[name] for name in ("part", "score_name") if name in state]
    counts = [state.get(name) for name in ("epoch", "epochs", "batch", "batches")] if "epoch" in state else []
    numbers = [state[name] for name in ("loss", "rate", "score", "seconds_left") if name in state]
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(count) is int for count in counts)
        and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
        and ("score" not in state or "score_name" in state)
    )


def _run_folder() -> Path | None:
    given = os.environ.get(RUN_DIR)
    return Path(given) if given else None


def _write(folder: Path, state: Mapping[str, Any]) -> None:
    try:
        write_text(folder / FILE, json.dumps(state))
    except OSError:  # a full disk will stop what matters more, such as the checkpoint, with a message of its own
        return


def _bar(title: str, total: int | None) -> Any:
    """A bar of tqdm, which belongs to the extra `notebooks`; None without it, and where no bar is to be shown."""
    if not SHOWS_BARS.get():
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, desc=title, leave=False, disable=None)  # None: only on a terminal
