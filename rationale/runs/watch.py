"""Show the progress of a run while the runner executes it: a bar on a terminal, one line per minute in a log."""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from rationale.errors import optional
from rationale.progress import as_clock, describe_progress, read_progress

SECONDS = 0.5  # between two looks at the file
LOG_SECONDS = 60.0  # between two lines in a log
NOTE = "note: "  # how a line begins that a user should read even if nothing else is shown
BAR = "{desc}  {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} batches{postfix}"


@contextlib.contextmanager
def progress_shown(folder: Path, quiet: bool = False) -> Iterator[None]:
    """Show on stderr what the run in this working folder reports, until the `with` block ends.

    Parameters
    ----------
    folder : Path
        The working folder of the run, in which `progress.json` appears.
    quiet : bool
        True: show nothing, and discard what the block prints to stdout, except notes.
    """
    if quiet:
        with contextlib.redirect_stdout(OnlyNotes(sys.stdout)):  # type: ignore[type-var]
            yield
        return
    ended = threading.Event()
    show = _Bar() if sys.stderr.isatty() else _Lines()
    watcher = threading.Thread(target=_watch, args=(folder, show, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        show.close()


class OnlyNotes:
    """Writes only those lines to a stream that begin with `note: `."""

    def __init__(self, stream: TextIO):
        self._stream, self._begun = stream, ""

    def write(self, text: str) -> int:
        """Write the notes among the lines that are complete."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.startswith(NOTE):
                self._stream.write(line + "\n")
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class BesideBars:
    """Writes lines to a terminal without breaking a bar that it shows; another stream gets everything as it comes."""

    def __init__(self, stream: TextIO):
        self._stream, self._begun = stream, ""
        self._tqdm = optional("tqdm", "showing progress", "notebooks").tqdm if stream.isatty() else None

    def write(self, text: str) -> int:
        """Write what is complete; the beginning of a line waits for its end, because the bar has the last line."""
        if self._tqdm is None:
            return self._stream.write(text)
        complete, end, self._begun = (self._begun + text).rpartition("\n")
        if end:
            with self._tqdm.external_write_mode(self._stream):
                self._stream.write(complete + end)
        return len(text)

    def finish(self) -> None:
        """Write a last line that has no end."""
        self._stream.write(self._begun)
        self._begun = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _watch(folder: Path, show: "_Bar | _Lines", ended: threading.Event) -> None:
    while not ended.wait(SECONDS):
        state = read_progress(folder)
        if state:
            show.update(state)


def columns() -> int:
    """The width of the terminal that shows stderr; 80 if it does not know its width."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return width or shutil.get_terminal_size().columns


class _Lines:
    """One line per minute."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def update(self, state: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self.last >= LOG_SECONDS:
            self.last = now
            print(f"after {as_clock(now - self.began)}: {describe_progress(state)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to do: a line is complete."""


class _Bar:
    """One bar over all epochs of what is trained; in other phases of the run, the name of the phase."""

    def __init__(self) -> None:
        self.tqdm = optional("tqdm", "showing progress", "notebooks").tqdm
        self.bar: Any = None
        self.kind: tuple | None = None  # what the present bar counts

    def update(self, state: dict[str, Any]) -> None:
        kind = (state["phase"], state.get("part"), state.get("epochs"), state.get("batches"))
        if kind != self.kind:
            self.close()
            self.kind, format_ = kind, BAR if "epoch" in state else "{desc}, {elapsed}"
            # disable=False, because the environment of a run disables the bars of the notebook itself
            total = state["epochs"] * state["batches"] if "epoch" in state else None
            size = {"ncols": columns(), "nrows": 24}  # one bar needs one row, also where a terminal knows no number
            self.bar = self.tqdm(total=total, bar_format=format_, leave=False, disable=False, **size)
        self.bar.ncols = columns()
        if "epoch" not in state:
            self.bar.set_description_str(describe_progress(state))
            return
        title = f"epoch {state['epoch']}/{state['epochs']}"
        self.bar.set_description_str(f"{state['part']}, {title}" if state.get("part") else title, refresh=False)
        texts = [f"{as_clock(state['seconds_left'])} left"] if "seconds_left" in state else []
        texts += [f"{name} {state[name]:.3g}" for name in ("loss", "rate") if name in state]
        texts += [f"{state['score_name']} {state['score']:.4f}"] if "score" in state else []
        self.bar.set_postfix_str("  ".join(texts), refresh=False)
        self.bar.n = (state["epoch"] - 1) * state["batches"] + state["batch"]
        self.bar.refresh()

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self.bar is not None:
            self.bar.close()
        self.bar = self.kind = None
