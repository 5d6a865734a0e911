"""A resumed run that finds a damaged file says so in one line, and ends with the results of an undisturbed run."""

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small import parameters, train
from test_probing import probed
from test_runs import TINY, go
from torch import nn

from rationale.errors import BadInput, printable
from rationale.progress import describe_progress, read_progress
from rationale.runs import RunFailed
from rationale.runs.environment import continue_record
from rationale.runs.folder import WorkFolder, damaged_files
from rationale.training import TrainingState
from rationale.training.checkpoint import Damaged, read_tensors, write_tensors
from rationale.training.loop import build_scheduler
from tests.damage import DAMAGES


def small_state(seed: int) -> TrainingState:
    """A trained state of a few hundred bytes."""
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    state = TrainingState(model, nn.Module(), optimizer, build_scheduler(optimizer, parameters()), parameters={"a": 1})
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state.history = [{"epoch": 1, "dev_task": 0.5}]
    state.keep(state.history[0])
    return state


def flipped(content: bytes, place: int, bit: int) -> bytes:
    """The content with one other bit."""
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


CHECKPOINT_DAMAGES: dict[str, Callable[[bytes], bytes]] = DAMAGES | {
    "a bit flipped in the length of the header": lambda content: flipped(content, 1, 3),
    "a bit flipped in the header": lambda content: flipped(content, 40, 0),
    "a bit flipped in the first weight": lambda content: flipped(content, 8 + int.from_bytes(content[:8], "little"), 0),
    "the last bit flipped": lambda content: flipped(content, len(content) - 1, 7),
}


def test_a_damaged_checkpoint_is_refused_and_nothing_of_it_is_loaded(tmp_path):
    path, rng = tmp_path / "checkpoint.safetensors", random.Random(1)
    small_state(0).save(path)
    content = path.read_bytes()
    flips = {
        f"bit {bit} of byte {place} flipped": flipped(content, place, bit)
        for place, bit in ((rng.randrange(len(content)), rng.randrange(8)) for _ in range(60))
    }
    refused, whole, state = 0, small_state(0), small_state(1)
    before = [value.clone() for value in state.model.parameters()]
    for damage, other in ({name: change(content) for name, change in CHECKPOINT_DAMAGES.items()} | flips).items():
        path.write_bytes(other)
        try:
            loaded = state.load(path)
        except Damaged as error:
            assert "\n" not in str(error) and str(error), damage
            refused, loaded = refused + 1, False
        except Exception as error:
            raise AssertionError(f"{damage}: {type(error).__name__}: {error}") from error
        expected = list(whole.model.parameters()) if loaded else before
        assert all(a.equal(b) for a, b in zip(state.model.parameters(), expected, strict=True)), damage
        if loaded:
            assert state.history == whole.history, damage
            state = small_state(1)
    assert refused > 0.95 * (len(CHECKPOINT_DAMAGES) + len(flips)), f"only {refused} were refused"


def test_a_checkpoint_without_a_digest_is_loaded_and_one_for_another_model_is_not(tmp_path):
    """Checkpoints of older versions have no digest; after a change of the code, weights may have other shapes."""
    path = tmp_path / "checkpoint.safetensors"
    small_state(0).save(path)
    tensors, facts = read_tensors(path)
    write_tensors(path, tensors, {name: value for name, value in facts.items() if name != "digest"})
    assert small_state(1).load(path)
    model = nn.Linear(3, 4)
    optimizer = torch.optim.Adam(model.parameters())
    other = TrainingState(model, nn.Module(), optimizer, build_scheduler(optimizer, parameters()), parameters={"a": 1})
    assert not other.load(path)
    write_tensors(path, tensors, {})
    with pytest.raises(Damaged, match="it has no best, history, parameters, scheduler"):
        small_state(1).load(path)


def test_a_checkpoint_that_cannot_be_opened_is_left_alone(tmp_path):
    (tmp_path / "checkpoint.safetensors").mkdir()
    with pytest.raises(BadInput, match=r"checkpoint\.safetensors: cannot be read \(Is a directory\)"):
        small_state(0).load(tmp_path / "checkpoint.safetensors")


def damage_file(path: Path, damage: str) -> None:
    path.write_bytes(CHECKPOINT_DAMAGES[damage](path.read_bytes()))


@pytest.mark.parametrize("damage", ["empty", "cut in half", "a bit flipped in the first weight"])
def test_a_run_with_a_damaged_checkpoint_says_so_and_ends_as_an_undisturbed_one(tmp_path, capsys, damage):
    whole = train(tmp_path / "whole", epochs=2)
    train(tmp_path / "run", epochs=1)
    damage_file(tmp_path / "run" / "checkpoint.safetensors", damage)
    capsys.readouterr()
    again = train(tmp_path / "run", epochs=2)
    said = [line for line in capsys.readouterr().out.splitlines() if "damaged" in line]
    assert len(said) == 1 and said[0].endswith(": training starts again") and "checkpoint.safetensors" in said[0]
    assert [row["epoch"] for row in again.history] == [1, 2]
    for split, evaluation in whole.evaluations.items():
        assert again.evaluations[split].metrics == evaluation.metrics
        assert again.evaluations[split].prediction.equal(evaluation.prediction)


def test_each_part_of_a_probing_run_survives_a_damaged_checkpoint(tmp_path, capsys):
    _, _, scores, found, _ = (None, *probed(tmp_path / "whole", methods=["states"])[1:])
    for part in ("subject", "states"):
        probed(tmp_path / part, methods=["states"])
        damage_file(tmp_path / part / part / "checkpoint.safetensors", "a bit flipped in the first weight")
        capsys.readouterr()
        _, _, again, others, _ = probed(tmp_path / part, methods=["states"])
        assert capsys.readouterr().out.count("damaged") == 1
        assert again == scores and others["states"].metrics == found["states"].metrics


# --- the other files that a resumed run reads


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A notebook whose runs fail after their checkpoint until there is a file `mended`."""
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    return path


def unfinished(tiny: Path, complete: bool = False) -> Path:
    """The working folder of a run that has failed, or of one that was killed just before it was published."""
    target = tiny.parent / "out" / "tiny" / "x"
    if complete:
        return go(tiny, name="x").rename(target.with_name("x.partial"))
    with pytest.raises(RunFailed):
        go(tiny, "vectors=fail", name="x")
    (target.with_name("x.partial") / "mended").touch()
    return target.with_name("x.partial")


PARAMETER_DAMAGES = ["empty", "cut in half", "only zeros", "UTF-16", "JSON, null", "a list of numbers",
                     "brackets, 3,000 deep at its start", "a number of 5,000 digits at its end",
                     "a byte that is not UTF-8 in its middle", "a NUL in its middle"]  # fmt: skip


def test_an_unfinished_run_with_damaged_parameters_is_refused_and_kept(tiny):
    partial = unfinished(tiny)
    whole = (partial / "params.yaml").read_bytes()
    for damage in PARAMETER_DAMAGES:
        (partial / "params.yaml").write_bytes(DAMAGES[damage](whole))
        with pytest.raises(BadInput, match=r"x\.partial: an unfinished run w.*give --again to discard it") as error:
            go(tiny, "vectors=fail", name="x")
        assert str(error.value).isprintable() and len(str(error.value)) < 600, damage
        assert (partial / "checkpoint.txt").is_file(), damage
    (partial / "params.yaml").write_bytes(whole)
    assert "begins at 3" in (go(tiny, "vectors=fail", name="x") / "run.html").read_text()


def test_a_finished_run_with_damaged_parameters_is_refused_kept_and_made_again_by_a_sweep(tiny):
    folder = go(tiny, name="x")
    (folder / "params.yaml").write_text("seed: 1\n")
    with pytest.raises(BadInput, match=r"a finished run whose parameters cannot be read .*digest.*--again"):
        go(tiny, name="x")
    assert (folder / "params.yaml").read_text() == "seed: 1\n"
    assert "vectors" in (go(tiny, name="x", again_if_changed=True) / "params.yaml").read_text()


def test_the_record_of_the_environment_is_whole_at_the_end_however_it_was_damaged(tiny, capsys):
    partial = unfinished(tiny)
    whole = (partial / "environment.txt").read_text()
    names = [line.split(": ")[0] for line in whole.splitlines()]
    for damage in DAMAGES:
        text = DAMAGES[damage](whole.encode())
        (partial / "environment.txt").write_bytes(text)
        note = continue_record(partial / "environment.txt", whole)
        after = (partial / "environment.txt").read_text(encoding="utf-8")
        assert printable(note) == note, damage
        for name, line in zip(names, whole.splitlines(), strict=True):
            found = [there for there in after.split("\n") if there.startswith(f"{name}: ")]
            assert found == [line] or f"continued with {line}" in after or name == "started", f"{damage}: {found}"
    (partial / "environment.txt").write_bytes(b"\xff\xfe")
    capsys.readouterr()
    folder = go(tiny, "vectors=fail", name="x")
    assert capsys.readouterr().out.count("environment.txt is damaged: it was written anew") == 1
    record = (folder / "environment.txt").read_text()
    assert all(f"\n{name}: " in f"\n{record}" for name in names) and "(continued)" in record


def test_a_run_that_is_continued_in_another_environment_says_so(tiny, capsys):
    partial = unfinished(tiny)
    record = partial / "environment.txt"
    record.write_text(record.read_text().replace("\ntorch: ", "\ntorch: 1.0 was "))
    folder = go(tiny, "vectors=fail", name="x")
    assert "note: since this run began, torch was 1.0 was " in capsys.readouterr().out
    assert "\ncontinued with torch: " in (folder / "environment.txt").read_text()


@pytest.mark.parametrize(("name", "damage"), [
    ("run.ipynb", "empty"), ("run.ipynb", "cut in half"), ("metrics.json", "empty"), ("SHA256SUMS", "empty"),
])  # fmt: skip
def test_a_complete_run_that_was_damaged_before_it_was_published_begins_anew(tiny, capsys, name, damage):
    partial = unfinished(tiny, complete=True)
    whole = (partial / "metrics.json").read_bytes()
    damage_file(partial / name, damage)
    capsys.readouterr()
    folder = go(tiny, name="x")
    said = capsys.readouterr().out
    if name != "SHA256SUMS":  # as if it had been killed before the digests were written
        assert said.count("damaged; the run begins anew") == 1, said
    assert (folder / "metrics.json").read_bytes() == whole and not damaged_files(folder)


def test_a_complete_run_with_damaged_digests_is_refused_and_kept(tiny):
    partial = unfinished(tiny, complete=True)
    whole = (partial / "SHA256SUMS").read_bytes()
    within_a_name = whole[: whole.index(b"params.yaml") + 3]
    for damage in (whole[: len(whole) // 2], within_a_name, whole[:100] + b"\xff" + whole[100:]):
        (partial / "SHA256SUMS").write_bytes(damage)
        with pytest.raises(BadInput, match=r"SHA256SUMS: damaged .*, give --again to discard it or --name"):
            go(tiny, name="x")
    assert (partial / "metrics.json").is_file()


def test_what_was_added_to_a_run_with_damaged_digests_is_kept_when_the_run_is_replaced(tiny):
    folder = go(tiny, name="x")
    (folder / "mine.txt").write_text("my notes")
    whole = (folder / "SHA256SUMS").read_bytes()
    for damage in (whole[: len(whole) // 2], whole[:100] + b"\xff" + whole[100:]):
        (folder / "SHA256SUMS").write_bytes(damage)
        assert go(tiny, name="x", again=True) == folder
        assert (folder / "mine.txt").read_text() == "my notes" and not damaged_files(folder)


REPORTS = [b"", b"null", b"[1]", b"{}", b'{"phase": 3}', b'{"phase": "training", "epoch": "1"}', b"\xff", b"[" * 9999,
           b'{"phase": "training", "epoch": 1, "epochs": 2, "batch": 3}', b'{"phase": "x", "score": 0.5}',
           b'{"phase": "training", "loss": NaN}', b'{"phase": "x", "seconds_left": Infinity}']  # fmt: skip


def test_a_damaged_report_of_progress_counts_as_none(tmp_path):
    for content in REPORTS:
        (tmp_path / "progress.json").write_bytes(content)
        assert read_progress(tmp_path) == {}, content
        describe_progress(read_progress(tmp_path))


# --- kills while a run is published

STEPS = [(owner, name) for owner in (os, shutil) for name in ("rename", "unlink", "rmdir", "replace", "move")
         if hasattr(owner, name)]  # fmt: skip


class Killed(BaseException):
    """The process is gone."""


def publish(target: Path, text: str) -> None:
    """Make a small run and publish it."""
    with WorkFolder(target, wait=False) as work:
        for name in ("params.yaml", "environment.txt", "metrics.json", "run.ipynb"):
            (work.path / name).write_text(json.dumps(text))
        (work.path / "figures").mkdir(exist_ok=True)
        (work.path / "figures" / "a.svg").write_text(text)
        work.publish()


def publish_until(moment: int, target: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Publish a second run in a process that is killed at a moment; False if it was over before."""
    count = itertools.count(1)

    def dying(call: Callable) -> Callable:
        def instead(*args, **kwargs):
            if next(count) >= moment:
                raise Killed
            return call(*args, **kwargs)

        return instead

    with monkeypatch.context() as patch:
        for owner, name in STEPS:
            patch.setattr(owner, name, dying(getattr(owner, name)))
        try:
            publish(target, "new")
        except Killed:
            return True
        return False


def test_a_kill_at_any_moment_of_publishing_leaves_a_whole_run_and_the_files_of_others(tmp_path, monkeypatch):
    """Each rename and each removal is in turn the last thing that the process does."""
    for moment in range(1, 100):
        target = tmp_path / str(moment) / "x"
        publish(target, "old")
        (target / "mine.txt").write_text("mine")
        was_killed = publish_until(moment, target, monkeypatch)
        with WorkFolder(target, wait=False) as work:  # the same command again
            if not (target / "run.ipynb").is_file():
                work.publish()
        assert not damaged_files(target), f"moment {moment}"
        assert (target / "mine.txt").read_text() == "mine", f"moment {moment}: a file of somebody else is lost"
        assert not list(target.parent.glob("*.replaced*")), f"moment {moment}"
        publish(target, "third")
        if not was_killed:
            break
    assert 10 < moment < 99, f"{moment} moments were tried"
