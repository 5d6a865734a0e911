"""Progress: what a training loop reports, and what a terminal and a log show of it."""

import contextlib
import io
import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from rationale import progress
from rationale.progress import Progress, describe_progress, read_progress, report_phase
from rationale.runs import watch
from tests.small import train


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a run that reports every batch."""
    monkeypatch.setenv(progress.RUN_DIR, str(tmp_path))
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    return tmp_path


class Tripwire:
    """A loss that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __float__(self) -> float:
        self.reads += 1
        return 0.25


def test_a_training_run_reports_epoch_batch_loss_rate_score_and_time_left(folder):
    seen = []
    write = progress._write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "_write", lambda where, state: (seen.append(dict(state)), write(where, state)))
        train(folder, epochs=2)
    first, last, end, rest = seen[0], *seen[-3:]
    assert (first["epoch"], first["epochs"], first["batch"], first["batches"]) == (1, 2, 1, 3)
    assert 0 < first["rate"] < 1 and first["loss"] > 0 and "score" not in first
    assert (last["epoch"], last["batch"]) == (2, 3) and last["score_name"] == "mse" and last["score"] > 0
    assert first["seconds_left"] > 0 == last["seconds_left"]
    assert end["phase"] == "evaluation" and end["score"] == last["score"] and rest["phase"] == progress.REST
    assert read_progress(folder) == rest


def test_reporting_changes_no_result(tmp_path, monkeypatch):
    plain = train(tmp_path / "plain")
    monkeypatch.setenv(progress.RUN_DIR, str(tmp_path))
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    reported = train(tmp_path / "reported")
    assert read_progress(tmp_path), "nothing was reported"
    for name, value in plain.model.state_dict().items():
        assert value.equal(reported.model.state_dict()[name]), f"weights {name} differ"
    without_time = [[{k: v for k, v in row.items() if k != "seconds"} for row in r.history] for r in (plain, reported)]
    assert without_time[0] == without_time[1]


def test_the_loss_is_read_only_when_it_is_shown(folder, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 60.0)
    loop, loss = Progress(epochs=1), Tripwire()
    for _ in loop.batches(1, range(100), 100):
        loop.report(loss, {})
    assert loss.reads == 1, "at the first batch only"


def test_a_resumed_run_does_not_count_the_epochs_of_the_killed_one_as_its_own(folder, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    loop = Progress(epochs=10, finished=8)
    for _ in loop.batches(9, range(4), 4):
        now[0] += 1.0
        loop.report(0.5, {})
    assert read_progress(folder)["seconds_left"] == pytest.approx(4.0), "one epoch of four seconds is left"


def test_a_loss_that_is_not_finite_leaves_a_file_that_can_be_read(folder):
    loop = Progress(epochs=1)
    for _ in loop.batches(1, range(1), 1):
        loop.report(float("nan"), {"rate": 0.5})
    assert "loss" not in read_progress(folder) and json.loads((folder / progress.FILE).read_text())["rate"] == 0.5


def test_a_report_reads_as_one_line():
    state = {"phase": "training", "part": "", "epoch": 3, "epochs": 18, "batch": 40, "batches": 94, "loss": 0.03124}
    state |= {"rate": 0.0612, "score": 0.015, "score_name": "mse", "seconds_left": 3725}
    assert describe_progress(state) == ("epoch 3/18  batch 40/94  loss 0.0312  rate 0.0612  mse 0.0150  1:02:05 left")
    assert describe_progress({"phase": "faithfulness", "score": 0.5, "score_name": "accuracy"}) == (
        "faithfulness  last dev accuracy 0.5000"
    )


def test_outside_of_a_run_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv(progress.RUN_DIR, raising=False)
    monkeypatch.chdir(tmp_path)
    report_phase("evaluation")
    loop = Progress(epochs=1)
    for _ in loop.batches(1, range(2), 2):
        loop.report(0.5, {})
    loop.end_epoch(0.5)
    assert not list(tmp_path.rglob("*.json"))


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def shown_on(stream: io.StringIO, folder: Path, monkeypatch: pytest.MonkeyPatch, quiet: bool = False) -> str:
    """What a run of one epoch shows on stderr until its last report has been seen, or half a second if it is quiet."""
    monkeypatch.setattr(watch, "SECONDS", 0.01)
    monkeypatch.setattr(watch, "LOG_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", stream)
    with watch.progress_shown(folder, quiet):
        loop = Progress(epochs=2, score="mse")
        for _ in loop.batches(1, range(5), 5):
            loop.report(0.5, {"rate": 0.3})
        loop.end_epoch(0.015)
        deadline = time.monotonic() + (0.3 if quiet else 30)
        while "mse 0.0150" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    return stream.getvalue()


def test_a_terminal_shows_one_bar_over_the_whole_run(folder, monkeypatch):
    text = shown_on(Screen(), folder, monkeypatch)
    bar = next(line for line in text.split("\r") if "mse 0.0150" in line)
    for part in ("epoch 1/2", "50%", "5/10 batches", "left", "loss 0.5", "rate 0.3"):
        assert part in bar, f"{part} is missing in {bar!r}"
    assert text.count("\n") == 0, "the bar is one line that is removed in the end"


@pytest.mark.parametrize(("columns", "width"), [(0, 80), (60, 60)])
def test_a_terminal_that_does_not_know_its_width_shows_a_bar(columns, width, monkeypatch):
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (0, columns))
    monkeypatch.delenv("COLUMNS", raising=False)
    with open(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        bar = watch._Bar()
        bar.update({"phase": "training", "epoch": 1, "epochs": 2, "batch": 1, "batches": 2})
        text = ""
        while "1/4" not in text:
            text += os.read(ours, 1000).decode()
        shown = text.rpartition("\r")[2]
        bar.close()
    os.close(ours)
    assert "1/4 batches" in shown and width - 2 <= len(shown) <= width, shown


def test_a_log_gets_lines_without_control_characters(folder, monkeypatch):
    text = shown_on(io.StringIO(), folder, monkeypatch)
    assert "epoch 1/2  batch 5/5  loss 0.5  rate 0.3  mse 0.0150" in text.splitlines()[-1]
    assert text.startswith("after 0:0") and text.isprintable() is False and "\r" not in text and "\x1b" not in text


def test_a_quiet_run_shows_only_notes(folder, monkeypatch, capsys):
    assert shown_on(Screen(), folder, monkeypatch, quiet=True) == ""
    with watch.progress_shown(folder, quiet=True):
        print("no", end="")
        print("te: read this\nwhat the notebook prints\nno note: of it")
    assert capsys.readouterr().out == "note: read this\n"


def test_the_thread_that_watches_ends_with_the_run(folder):
    before = threading.active_count()
    with contextlib.suppress(RuntimeError), watch.progress_shown(folder):
        raise RuntimeError
    assert threading.active_count() == before


def test_a_line_that_a_notebook_prints_in_pieces_is_not_broken_by_the_bar():
    screen = Screen()
    beside = watch.BesideBars(screen)
    for text in ("epoch", " 1", "\nsel"):
        beside.write(text)
    assert screen.getvalue() == "epoch 1\n"
    beside.finish()
    assert screen.getvalue() == "epoch 1\nsel"
