"""TrainingState: one result for one seed, killed or not; the right evaluation is kept; nothing is half written."""

import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from small import classified, corpus, parameters, train, train_until
from torch import nn

from rationale import digests, training
from rationale.data import Batches, Example, build_vocabulary
from rationale.errors import BadInput
from rationale.files import write_atomically, write_text
from rationale.models import build_extractor
from rationale.objectives import Constraint, LossOutput, RationaleObjective, build_objective
from rationale.runs import workspace
from rationale.runs.saved import load_run, read_metrics, save_run
from rationale.training import (
    ModelSelection,
    TrainingState,
    build_scheduler,
    choose_device,
    evaluate_extractor,
    extraction,
    fit,
    loop,
    model_selection,
    read_tensors,
    train_extractor,
    write_tensors,
)
from rationale.training.checkpoint import scheduled_epochs
from rationale.training.evaluation import importance_quantile, score_when_shut
from rationale.training.settings.extraction import ExtractionSettings
from tests.forked import run_forked, started


def but_seconds(history: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history]


def assert_same(one: training.Result, two: training.Result) -> None:
    """Bit for bit, but for the seconds it took."""
    assert but_seconds(one.history) == but_seconds(two.history)
    assert but_seconds([one.best]) == but_seconds([two.best])
    weights = two.model.state_dict()
    for name, value in one.model.state_dict().items():
        assert value.equal(weights[name]), f"weights {name} differ"
    for split, mine in one.evaluations.items():
        theirs = two.evaluations[split]
        assert mine.metrics == theirs.metrics, f"{split} metrics differ"
        assert mine.prediction.equal(theirs.prediction), f"{split} predictions differ"
        assert all(a.equal(b) for a, b in zip(mine.z, theirs.z, strict=True)), f"{split} rationales differ"


# --- one seed, one result


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path):
    one, two = (train(tmp_path / name, epochs=2) for name in ("one", "two"))
    assert_same(one, two)
    other = train(tmp_path / "other", epochs=2, seed=4)
    assert other.history[-1]["train_loss"] != one.history[-1]["train_loss"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "full_text"},
        {"model": "hard_concrete", "predictor": "compact"},
        {"dynamics": "authors", "multiplier_init": 0.01, "measure": "training", "model_choice": "authors"},
        {"measure": "selected", "transitions": 0.1, "bucketed": False, "rule": "threshold"},
        {"selection": None},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_kind_of_run_goes_through(tmp_path, changes):
    result = train(tmp_path, epochs=2, **changes)
    assert [row["epoch"] for row in result.history] == [1, 2]
    for split, evaluation in result.evaluations.items():
        assert all(map(math.isfinite, evaluation.metrics.values())), f"{split}: {evaluation.metrics}"
        examples = result.splits[split]
        assert [len(z) for z in evaluation.z] == [len(example.tokens) for example in examples]
        assert evaluation.prediction.shape == (len(examples), 1)


def test_the_result_has_the_dev_metrics_of_the_kept_epoch(tmp_path):
    result = train(tmp_path, model="full_text")
    found = {f"dev_{name}": value for name, value in result.evaluations["dev"].metrics.items()}
    assert found == {name: result.best[name] for name in found}
    assert result.best["dev_mse"] == min(row["dev_mse"] for row in result.history)
    assert result.best in result.history and not result.model.training


@pytest.mark.parametrize("bucketed", [True, False])
def test_an_epoch_trains_on_every_example_once(tmp_path, monkeypatch, bucketed):
    seen, forward = [], RationaleObjective.forward

    def noted(self, model, batch):
        seen.append(batch.rows.tolist())
        return forward(self, model, batch)

    monkeypatch.setattr(RationaleObjective, "forward", noted)
    train(tmp_path, epochs=2, bucketed=bucketed)
    first, second = seen[:3], seen[3:]
    for epoch in (first, second):
        assert sorted(row for batch in epoch for row in batch) == list(range(48)), "every example once an epoch"
    assert first != second, "in another order each epoch"


def test_the_test_split_is_read_once_at_the_end(tmp_path, monkeypatch):
    read, evaluate = [], extraction.evaluate_extractor
    sizes = {20: "dev", 7: "test"}

    def noted(model, batches, objective):
        read.append(sizes[len(batches.examples)])
        return evaluate(model, batches, objective)

    monkeypatch.setattr(extraction, "evaluate_extractor", noted)
    splits = corpus()
    splits["test"] = splits["test"][:7]
    train_extractor(parameters(epochs=3), splits, "scores", 1, tmp_path)
    assert read == ["dev"] * 3 + ["test"], "the last epoch is kept, so what it had on dev is known"


# --- killed and continued


MOMENTS = [
    ("step 2", {}),  # before there is any checkpoint
    ("step 8", {"predictor": "compact"}),  # in the middle of epoch 3
    ("half-written 2", {"model": "hard_concrete", "measure": "selected"}),
    ("evaluation 3", {"rule": "sample", "dropout": 0.4}),  # evaluation itself draws random numbers
    ("evaluation 5", {"model_choice": "authors", "transitions": 0.1}),  # all trained, nothing reported
    ("evaluation 2", {"rule": "sample", "epochs": 1}),  # the same, and evaluation draws random numbers
]


@pytest.mark.parametrize(("moment", "changes"), MOMENTS, ids=[moment for moment, _ in MOMENTS])
def test_a_run_killed_at_any_moment_ends_as_an_unbroken_one(tmp_path, capsys, moment, changes):
    killed = started(train_until, moment, tmp_path / "broken", changes)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL, "see what it printed"

    resumed = train(tmp_path / "broken", **changes)
    assert ("resumed after epoch" in capsys.readouterr().out) == (moment != "step 2")
    assert_same(resumed, train(tmp_path / "straight", **changes))
    assert [path.name for path in (tmp_path / "broken").iterdir()] == ["checkpoint.safetensors"], "left-overs"


def test_a_run_killed_from_outside_ends_as_an_unbroken_one(tmp_path):
    process = started(train_until, "never", tmp_path / "broken", {"epochs": 5000})
    while process.is_alive() and not (tmp_path / "broken" / "checkpoint.safetensors").exists():
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it ended by itself"
    epochs = len(read_tensors(tmp_path / "broken" / "checkpoint.safetensors")[1]["history"]) + 2
    assert_same(train(tmp_path / "broken", epochs=epochs), train(tmp_path / "straight", epochs=epochs))


NOTEBOOK = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% tags=["parameters"]
epochs: int = 30  # passes over the data

# %%
import sys

sys.path.insert(0, {tests!r})
import small

from rationale.runs import results_folder
from rationale.runs.saved import save_run

# %%
p = small.parameters(epochs=epochs)
folder = results_folder("small")
save_run(folder, small.train(folder, epochs=epochs), p)
"""


@pytest.mark.slow
def test_a_killed_runner_ends_with_the_metrics_and_weights_of_an_unbroken_run(tmp_path):
    notebook = tmp_path / "small.py"
    notebook.write_text(NOTEBOOK.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, "-m", "rationale.runs", notebook, "--name", "run", "--outputs", tmp_path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": workspace.root()}
    process = subprocess.Popen(command, **pipes)
    told = []
    while not told or not told[-1].startswith("epoch   2/30"):
        told.append(process.stdout.readline())
        assert told[-1], "".join(told)
    process.kill()
    process.communicate()
    again = run_forked(notebook, name="run", outputs=tmp_path)
    assert "resumed after epoch" in (again / "run.html").read_text()

    straight = train(tmp_path / "straight", epochs=30)
    expected = save_run(tmp_path / "straight", straight, parameters(epochs=30))
    found = read_metrics(tmp_path / "small" / "run")
    assert found.keys() == expected.keys()
    assert {key: found[key] for key in ("dev", "test", "best_epoch")} == {
        key: expected[key] for key in ("dev", "test", "best_epoch")
    }
    weights = load_run(tmp_path / "small" / "run").model.state_dict()
    for name, value in straight.model.state_dict().items():
        assert weights[name].equal(value), f"weights {name} differ"


def test_a_longer_run_continues_a_shorter_one(tmp_path):
    train(tmp_path / "broken", epochs=2)
    assert_same(train(tmp_path / "broken", epochs=4), train(tmp_path / "straight", epochs=4))


def test_a_finished_training_is_not_repeated(tmp_path, monkeypatch):
    first = train(tmp_path, epochs=2)
    monkeypatch.setattr(loop, "_train_epoch", None)
    assert_same(train(tmp_path, epochs=2), first)


# --- checkpoints and files


def trained_state(seed: int) -> TrainingState:
    """A model after two steps, with everything a checkpoint holds."""
    torch.manual_seed(seed)
    p = parameters(dynamics="authors", multiplier_init=0.1, transitions=0.1)
    vocabulary, vectors = build_vocabulary(corpus(), "random", dim=8, seed=seed)
    model = build_extractor(p, vectors, "scores", 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 / (1 + seed), fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
    state = TrainingState(model, build_objective(p), optimizer, scheduler)
    batches = Batches(corpus()["train"], vocabulary, 16, seed=seed)
    for batch in list(batches.epoch(1))[:2]:
        optimizer.zero_grad()
        state.objective(model, batch).loss.backward()
        optimizer.step()
    scheduler.step(0.3 + seed)
    state.history = [{"epoch": 1, "dev_mse": 0.1 + seed, "seconds": 1 / 3}]
    state.keep(state.history[0])
    return state


def test_a_checkpoint_restores_everything(tmp_path):
    saved = trained_state(0)
    saved.save(tmp_path / "checkpoint.safetensors")
    random = torch.get_rng_state()
    loaded = trained_state(1)
    loaded.load(tmp_path / "checkpoint.safetensors")
    assert torch.get_rng_state().equal(random), "random state"
    for name, value in saved.model.state_dict().items():
        assert loaded.model.state_dict()[name].equal(value), name
        assert loaded.best_weights[name].equal(value), f"best {name}"
    for name, value in saved.objective.state_dict().items():
        assert loaded.objective.state_dict()[name].equal(value), name
    mine, theirs = saved.optimizer.state_dict(), loaded.optimizer.state_dict()
    assert theirs["param_groups"] == mine["param_groups"]
    assert theirs["state"].keys() == mine["state"].keys()
    for i, slots in mine["state"].items():
        for name, value in slots.items():
            assert theirs["state"][i][name].equal(value), f"optimiser: {name} of parameter {i}"
    assert loaded.scheduler.state_dict() == saved.scheduler.state_dict()
    assert (loaded.history, loaded.best) == (saved.history, saved.best), "floats to the last bit"


def in_groups(model: torch.nn.Module, *rates: float) -> tuple:
    """An optimiser with one parameter group for the selector and one for the predictor, and its scheduler."""
    parts = (model.selector, model.predictor)
    groups = [{"params": part.parameters(), "lr": rate} for part, rate in zip(parts, rates, strict=True)]
    optimizer = torch.optim.Adam(groups)
    return optimizer, build_scheduler(optimizer, parameters(schedule="exponential", min_learning_rate=1e-3))


def test_each_parameter_group_has_a_learning_rate_that_falls_and_comes_back_from_a_checkpoint(tmp_path):
    model = trained_state(0).model
    optimizer, scheduler = in_groups(model, 0.1, 0.00101)
    model(torch.tensor([[2, 3]]), torch.ones(1, 2, dtype=torch.bool)).prediction.sum().backward()
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    rates = [group["lr"] for group in optimizer.param_groups]
    assert rates == pytest.approx([0.1 * 0.97**3, 1e-3]), "each falls from its own start, none below the smallest"
    saved = TrainingState(model, torch.nn.Module(), optimizer, scheduler)
    saved.save(tmp_path / "checkpoint.safetensors")
    loaded = TrainingState(trained_state(1).model, torch.nn.Module(), *in_groups(trained_state(1).model, 0.5, 0.6))
    assert loaded.load(tmp_path / "checkpoint.safetensors")
    assert [group["lr"] for group in loaded.optimizer.param_groups] == rates
    one_group = torch.optim.Adam(model.parameters(), lr=0.5)
    other = TrainingState(model, torch.nn.Module(), one_group, build_scheduler(one_group, parameters()))
    assert not other.load(tmp_path / "checkpoint.safetensors"), "another number of groups is another run"


def test_training_with_an_optimiser_of_two_groups_logs_both_learning_rates(tmp_path):
    torch.manual_seed(0)
    vocabulary, vectors = build_vocabulary(corpus(), "random", dim=8, seed=0)
    p = parameters(epochs=2, schedule="exponential")
    model = build_extractor(p, vectors, "scores", 1)
    before = {name: value.clone() for name, value in model.selector.state_dict().items()}
    batches, objective = Batches(corpus()["train"], vocabulary, 16), build_objective(p)
    choice = ModelSelection("within_tolerance", score="dev_task", higher_is_better=False)
    optimizer, _ = in_groups(model, 1e-30, 0.01)
    state = fit(model, objective, batches, lambda: {"task": 0.1}, choice, p, tmp_path, optimizer)
    assert [row["learning_rate_1"] for row in state.history] == pytest.approx([0.01, 0.01 * 0.97])
    assert [row["learning_rate"] for row in state.history] == pytest.approx([1e-30, 1e-30]), "never below the smallest"
    for name, value in model.selector.state_dict().items():
        torch.testing.assert_close(value, before[name], msg=name)


def test_a_fixed_tensor_of_any_name_is_no_part_of_a_checkpoint_and_of_a_saved_file(tmp_path):
    model = torch.nn.Linear(2, 2)
    model.register_buffer("table", torch.ones(3), persistent=False)
    assert set(training.all_tensors(model)) == {"weight", "bias", "table"}
    optimizer = torch.optim.Adam(model.parameters())
    state = TrainingState(model, torch.nn.Module(), optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1))
    state.save(tmp_path / "checkpoint.safetensors")
    assert not any("table" in name for name in read_tensors(tmp_path / "checkpoint.safetensors")[0])
    other = torch.nn.Linear(2, 2)
    other.register_buffer("table", torch.zeros(3), persistent=False)
    training.load_trained(other, training.all_tensors(model))
    assert other.weight.equal(model.weight) and other.table.eq(0).all(), "what is fixed is given when a model is built"


def test_a_checkpoint_leaves_out_the_fixed_vectors(tmp_path):
    trained_state(0).save(tmp_path / "checkpoint.safetensors")
    tensors, _ = read_tensors(tmp_path / "checkpoint.safetensors")
    assert "model.predictor.head.output.weight" in tensors
    assert not any("vectors" in name for name in tensors)


def test_tensors_and_facts_come_back_as_they_were(tmp_path):
    tensors = {"a": torch.randn(3, 4).T, "b": torch.tensor(7), "c": torch.zeros(0, 2, dtype=torch.bool)}
    facts = {"numbers": [0.1, 1e-300, 1 / 3], "nothing": None, "text": "naïve “ö”"}
    write_tensors(tmp_path / "new" / "file.safetensors", tensors, facts)
    back, told = read_tensors(tmp_path / "new" / "file.safetensors")
    assert told == facts
    assert all(back[name].equal(value) and back[name].dtype == value.dtype for name, value in tensors.items())


def test_a_tensor_that_several_parts_share_is_written_once_and_has_all_its_names(tmp_path):
    shared = torch.nn.Linear(100, 100)
    model = torch.nn.ModuleDict({"selector": shared, "predictor": shared, "other": torch.nn.Linear(100, 100)})
    views = {"row": (table := torch.randn(4, 5))[1], "rows": table[1:3], "table": table}
    path = tmp_path / "file.safetensors"
    write_tensors(path, model.state_dict() | views, {"a": 1})
    with safe_open(path, "pt") as file:
        names = set(file.keys())
    assert {"selector.weight", "other.weight", "row", "rows", "table"} <= names and "predictor.weight" not in names
    back, told = read_tensors(path)
    assert told == {"a": 1} and set(back) == set(model.state_dict() | views)
    assert all(back[name].equal(value) for name, value in (model.state_dict() | views).items())
    model.load_state_dict({name: value for name, value in back.items() if name not in views})


def test_a_file_that_holds_a_shared_tensor_under_each_name_is_read_as_before(tmp_path):
    weight = torch.randn(3)
    save_file({"a": weight, "b": weight.clone()}, tmp_path / "old.safetensors", {"facts": "{}"})
    assert all(value.equal(weight) for value in read_tensors(tmp_path / "old.safetensors")[0].values())


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "metrics.json"
    write_atomically(path, lambda draft: draft.write_text("old"))

    def fails(draft):
        draft.write_text("ne")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fails)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.json"]


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "metrics.json"
    path.write_text("old")
    write_atomically(path, lambda draft: (draft.write_text("new"), [path.read_text()] == ["old"] or 1 / 0))
    assert path.read_text() == "new"


def test_two_writers_of_one_file_leave_one_of_their_texts_complete(tmp_path):
    path, texts = tmp_path / "metrics.json", [letter * 100_000 for letter in "ab"]

    def writes(text: str) -> None:
        for _ in range(100):
            write_text(path, text)
            assert path.read_text() in texts

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(writes, texts))
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.json"]


def test_the_draft_of_a_killed_writer_is_removed_when_it_is_old_and_that_of_another_process_stays(tmp_path):
    old, new, mine = (tmp_path / f".{name}.draft" for name in ("a.txt.0123abcd", "a.txt.4567cdef", "a.txt.mine"))
    for path in (old, new, mine):
        path.write_text("half")
    os.utime(old, (0, 0))
    os.utime(mine, (0, 0))
    write_text(tmp_path / "a.txt", "whole")
    assert sorted(tmp_path.iterdir()) == sorted([new, mine, tmp_path / "a.txt"])


# --- which evaluation is kept


def kept(choice: ModelSelection, rows: list[tuple]) -> int:
    """The epoch that is kept of a history of (score, rate, loss)."""
    best = None
    for epoch, (score, rate, loss) in enumerate(rows, start=1):
        row = {"epoch": epoch, "dev_accuracy": score, "dev_rate": rate, "dev_loss": loss}
        best = row if choice.better(row, best) else best
    return best["epoch"]


def within(**changes) -> ModelSelection:
    arguments = {"kind": "within_tolerance", "score": "dev_accuracy", "higher_is_better": True}
    arguments |= {"rate": "dev_rate", "target": 0.4, "tolerance": 0.02}
    return ModelSelection(**(arguments | changes))


@pytest.mark.parametrize(
    ("rows", "epoch", "why"),
    [
        ([(0.50, 0.9, 0), (0.40, 0.41, 0), (0.45, 0.39, 0)], 3, "the best score among those at the target"),
        ([(0.40, 0.4, 0), (0.50, 0.43, 0)], 1, "a better score does not excuse a rate off the target"),
        ([(0.50, 0.43, 0), (0.40, 0.4, 0)], 2, "whichever comes first"),
        ([(0.50, 0.9, 0), (0.30, 0.5, 0), (0.60, 0.7, 0)], 2, "none at the target: the nearest"),
        ([(0.50, 0.1, 0), (0.30, 0.6, 0), (0.60, 0.9, 0)], 2, "nearest from below or above"),
        ([(0.80, 0.4309, 0), (0.58, 0.4308, 0)], 1, "none at the target: a hair's breadth does not outweigh the score"),
        ([(0.30, 0.43, 0), (0.80, 0.45, 0)], 1, "none at the target: farther by another tolerance is farther"),
        ([(0.30, 0.43, 0), (0.80, 0.363, 0)], 2, "as near from below as from above"),
        ([(0.45, 0.4, 0), (0.45, 0.4, 0)], 1, "equal: the first"),
        ([(0.45, 0.385, 0), (0.46, 0.415, 0)], 2, "inside the tolerance the distance does not count"),
    ],
)
def test_within_tolerance_keeps_the_best_score_at_the_target(rows, epoch, why):
    assert kept(within(), rows) == epoch, why


def test_without_a_tolerance_or_a_resolution_the_nearest_rate_is_kept_however_small_its_lead():
    rows = [(0.80, 0.4309, 0), (0.58, 0.4308, 0)]
    assert kept(within(tolerance=0.0), rows) == kept(within(resolution=0.0), rows) == 2


def test_a_score_may_be_an_error():
    rows = [(0.02, 0.4, 0), (0.01, 0.4, 0), (0.001, 0.9, 0), (0.015, 0.41, 0)]
    assert kept(within(higher_is_better=False), rows) == 2, "the lowest error at the target"


def test_the_model_of_an_early_epoch_is_kept_only_while_there_is_no_later_one():
    rows = [(0.9, 0.4, 0), (0.8, 0.4, 0), (0.3, 0.9, 0), (0.2, 0.9, 0)]  # those of the first two are better by far
    assert [kept(within(patience=2), rows[:epochs]) for epochs in (1, 2, 3, 4)] == [1, 1, 3, 3]


def test_without_a_target_the_score_decides_alone():
    assert kept(within(target=None), [(0.4, 1.0, 0), (0.5, 1.0, 0), (0.45, 1.0, 0)]) == 2


@pytest.mark.parametrize(
    ("losses", "epoch", "why"),
    [
        ([0.1, 0.2, 0.3, 0.9, 0.8, 0.85], 5, "the lowest loss after three epochs"),
        ([0.1, 0.2], 1, "a run that ends before keeps its first epoch"),
        ([9, 9, 9, 1.0, 1.0 - 5e-5], 4, "an improvement below a relative 1e-4 does not count"),
        ([9, 9, 9, 1.0, 1.0 - 2e-4], 5, "one above it does"),
        ([9, 9, 9, -1.0, -1.0 - 5e-5, -1.1], 6, "a Lagrangian may be negative"),
        ([9, 9, 9, -1.0, -0.9], 4, "a negative loss is compared by its size, too"),
    ],
)
def test_the_authors_choice_is_the_lowest_loss_after_three_epochs(losses, epoch, why):
    choice = ModelSelection("authors", "dev_accuracy", True, patience=training.AUTHORS_PATIENCE)
    assert kept(choice, [(0, 0, loss) for loss in losses]) == epoch, why


# --- notes about the kept epoch


def noted(choice: ModelSelection, rows: list[tuple], standard_error: float = 0.02) -> list[str]:
    """The notes about the kept epoch of a history of (score, rate, loss)."""
    names = ("dev_accuracy", "dev_rate", "dev_loss")
    history = [{"epoch": epoch} | dict(zip(names, row, strict=True)) for epoch, row in enumerate(rows, start=1)]
    return choice.notes(history, history[kept(choice, rows) - 1], standard_error)


def flat(score: float, epochs: int, rate: float = 0.4) -> list[tuple]:
    return [(score, rate, 0)] * epochs


EARLY, OUTSIDE, WORSE = "which is early", "outside the tolerance", "which is not the best"


@pytest.mark.parametrize(
    ("choice", "rows", "expected"),
    [
        (within(), [*flat(0.4, 5), (0.5, 0.4, 0)], []),
        (within(), [*flat(0.4, 2), (0.5, 0.4, 0), *flat(0.4, 6)], [(EARLY, "0.5 (epoch 3)", "of 9", "overfit")]),
        (within(), [(0.5, 0.4, 0), *flat(0.4, 4)], []),  # five epochs are too few to speak of early
        (within(), [(0.5, 0.4, 0), *flat(0.49, 8)], [(EARLY, "0.49 (epoch 7)", "within a standard error (0.02)")]),
        (within(), [(0.3, 0.4, 0), *flat(0.3, 8, rate=0.9)], [(EARLY, "rate 0.9 is farther from the target")]),
        (within(target=None), [(0.5, 1.0, 0), *flat(0.4, 8, rate=1.0)], [(EARLY, "overfit")]),
        (within(), flat(0.4, 3, rate=0.5), [(OUTSIDE, "rate is 0.5", "0.4 ± 0.02", "no epoch came nearer")]),
        (within(), [(0.4, 0.421, 0)], [(OUTSIDE, "0.421")]),
        (within(), [(0.4, 0.419, 0)], []),
        (within(patience=1), [(0.4, 0.4, 0), (0.4, 0.6, 0)], [(OUTSIDE, "first 1 epochs")]),
        (within(), [(0.5, 0.9, 0), (0.4, 0.4, 0)], [(WORSE, "0.4 (epoch 2)", "0.5 (epoch 1)", "rate 0.9 is farther")]),
        (within(), [(0.42, 0.9, 0), (0.405, 0.4, 0)], []),  # less than a standard error
        (within(patience=1), [(0.5, 0.4, 0), (0.4, 0.4, 0)], [(WORSE, "the first 1 epochs are not chosen")]),
        (within(higher_is_better=False), [(0.1, 0.9, 0), (0.4, 0.4, 0)], [(WORSE, "0.1 (epoch 1)")]),
        (within(kind="authors"), [(0.5, 0.4, 2), (0.4, 0.4, 1)], [(WORSE, "compares the dev loss")]),
        (within(kind="authors"), [(0.5, 0.4, 2), (0.5, 0.9, 1)], [(OUTSIDE, "does not look at the rate")]),
        (within(), [(0.5, 0.9, 0), (0.4, 0.5, 0)], [(OUTSIDE, "no epoch came nearer"), (WORSE, "rate 0.9")]),
        (within(), [(0.8, 0.431, 0), (0.58, 0.43, 0)], [(OUTSIDE, "rate is 0.431", "epoch 2 came nearer, to 0.43")]),
    ],
)
def test_a_note_says_what_is_odd_about_the_kept_epoch(choice, rows, expected):
    notes = noted(choice, rows)
    assert len(notes) == len(expected), notes
    for note, parts in zip(notes, expected, strict=True):
        assert "\n" not in note and all(part in note for part in parts), note


@pytest.mark.parametrize("later", [0.5, 0.4, 0.9])  # as good in the last third, worse, or nearer to no target
def test_nothing_is_said_of_fewer_epochs_where_the_note_about_the_rate_asks_for_more(later):
    (note,) = noted(within(), [(0.5, 0.5, 0), *flat(later, 8, rate=0.9)], 0.5)
    assert note.startswith("epoch 1 is kept, outside the tolerance") and "so more epochs" in note


@pytest.mark.parametrize(("target", "selected"), [(0.4, 0.0), (0.4, 1.0), (None, 0.0)])
def test_nothing_is_said_of_an_early_epoch_whose_gates_have_collapsed(target, selected):
    """At any tolerance, also without a target; a model that reads everything has no gates to collapse."""
    for value, expected in ((selected, 0), (0.4, 1), *([(1.0, 1)] if target is None else [])):
        names = {"dev_accuracy": 0.5, "dev_rate_selected": value}
        history = [{"epoch": epoch} | names for epoch in range(1, 10)]
        notes = within(target=target, tolerance=1.0, rate="dev_rate_selected").notes(history, history[0], 0.02)
        assert len(notes) == expected and all("fewer epochs would do" in note for note in notes)


@pytest.mark.parametrize(("last", "advice"), [(0.13, "patience=1 keeps one"), (0.7, "fewer epochs would do")])
def test_no_fewer_epochs_are_advised_where_the_same_score_comes_with_a_lower_loss(last, advice):
    history = [{"epoch": epoch, "dev_accuracy": 1.0, "dev_task": 0.64 if epoch < 5 else last} for epoch in range(1, 8)]
    (note,) = ModelSelection("within_tolerance", "dev_accuracy", higher_is_better=True).notes(history, history[0], 0.02)
    assert note.endswith(advice) and ("the dev loss falls from 0.64 to 0.13" in note) == (last < 0.64)


@pytest.mark.parametrize(
    ("selected", "measured", "far"),
    [(0.1, "expected", True), (0.51, "expected", True), (0.31, "expected", False), (0.1, "selected", False)],
)
def test_a_note_says_that_the_words_selected_are_far_from_a_target_that_the_expected_rate_holds(
    selected, measured, far
):
    row = {"epoch": 1, "dev_accuracy": 0.5, "dev_rate_expected": 0.4, "dev_rate_selected": selected}
    notes = within(rate=f"dev_rate_{measured}").notes([row], row, 0.02)
    text = f"the dev rate selected is {selected:g}, the dev rate expected 0.4, the target 0.4"
    assert len([note for note in notes if text in note]) == far, notes


@pytest.mark.parametrize(("texts", "expected"), [(16, 0.025), (100, 0.01), (10_000, 0.01), (1, 0.1)])
def test_an_adaptive_tolerance_is_a_tenth_of_the_target_and_more_where_dev_is_small(texts, expected):
    assert model_selection.adaptive_tolerance(0.1, texts) == pytest.approx(expected)
    assert model_selection.adaptive_tolerance(0.2, texts) == pytest.approx(2 * expected)


def test_settings_that_are_null_come_from_the_texts_of_a_run(tmp_path, monkeypatch):
    made = {}

    def noted(name, function):
        def call(*args, **given):
            made[name] = function(*args, **given)
            return made[name]

        monkeypatch.setattr(extraction, name, call)

    noted("ModelSelection", ModelSelection)
    noted("build_objective", build_objective)
    splits = classified(corpus())
    p = parameters(epochs=1, multiplier_rate=None, quadratic=None, tolerance=None, measure_every=3, selection=0.2)
    train_extractor(p, splits, "classes", 2, tmp_path)
    assert made["ModelSelection"].tolerance == pytest.approx(0.2 / 20**0.5)  # 20 dev texts
    share = sum(example.label for example in splits["train"]) / 48
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    held = made["build_objective"].selection
    assert held.quadratic == pytest.approx(entropy / 0.2**2)
    assert held.step == pytest.approx(entropy / 0.2**2 * 3 / 3), "three batches per epoch, each third is measured"


def test_the_loss_of_a_constant_is_the_entropy_of_classes_and_the_variance_of_scores():
    words, _ = build_vocabulary(corpus(), "random", dim=2)
    scores = [Example(("a",), (value, 0.5)) for value in (0.0, 1.0)]
    assert extraction.loss_of_constant(Batches(scores, words, 2)) == pytest.approx((0.25 + 0) / 2)
    classes = [Example(("a",), label) for label in (0, 0, 2, 2)]
    assert extraction.loss_of_constant(Batches(classes, words, 2)) == pytest.approx(math.log(2))
    assert extraction.loss_of_constant(Batches(classes[:2], words, 2)) > 0


def test_scores_of_a_single_dev_text_are_not_compared():
    assert noted(within(), [(0.5, 0.9, 0), *flat(0.4, 8)], math.nan) == []


def test_a_run_prints_the_notes_with_the_standard_error_of_its_dev_score(tmp_path, capsys):
    result = train(tmp_path, epochs=2, selection=0.1)
    squares = [(e.label[0] - answer.item()) ** 2 for e, answer in
               zip(result.splits["dev"], result.evaluations["dev"].answer, strict=True)]  # fmt: skip
    error = torch.tensor(squares).std().item() / len(squares) ** 0.5
    assert result.evaluations["dev"].standard_error == pytest.approx(error, rel=1e-5)
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert len(printed) == 1 and "outside the tolerance: the dev rate expected is" in printed[0], printed


# --- the loop knows nothing of texts


class Pull(nn.Module):
    """An objective that pulls a model's one number to 3; from step `breaks` on it gives `nonsense`."""

    def __init__(self, breaks: int = 10**9, nonsense: float = math.nan):
        super().__init__()
        self.breaks, self.nonsense, self.calls = breaks, nonsense, 0

    def forward(self, model, batch) -> LossOutput:
        self.calls += 1
        loss = (model.weight - 3).square().sum() * (self.nonsense if self.calls >= self.breaks else 1.0)
        return LossOutput(loss, {"task": loss.detach()})


def fit_toy(folder, objective, evaluate=None, model=None, **changes):
    model = model or nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    p = parameters(learning_rate=0.1, weight_decay=0.0, **changes)
    vocabulary, _ = build_vocabulary(corpus(), "random", dim=2)
    batches = Batches(corpus()["train"], vocabulary, 12)
    evaluate = evaluate or (lambda: {"task": (model.weight.item() - 3) ** 2})
    return fit(model, objective, batches, evaluate, ModelSelection("within_tolerance", "dev_task", False), p, folder)


def test_the_loop_trains_any_model_with_any_objective(tmp_path):
    state = fit_toy(tmp_path, Pull(), epochs=30)
    assert state.model.weight.item() == pytest.approx(3, abs=0.05)
    assert state.best["dev_task"] == min(row["dev_task"] for row in state.history)


def test_the_model_ends_with_the_weights_of_the_kept_epoch_also_when_continued(tmp_path):
    model, tasks, weights = nn.Linear(1, 1, bias=False), iter([3.0, 1.0, 2.0, 1.5]), []

    def evaluate():
        weights.append(model.weight.item())
        return {"task": next(tasks)}

    for epochs in (3, 4):
        state = fit_toy(tmp_path, Pull(), evaluate, model, epochs=epochs)
        assert state.best["epoch"] == 2 and model.weight.item() == weights[1] != weights[-1]


@pytest.mark.parametrize("nonsense", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(tmp_path, nonsense):
    with pytest.raises(FloatingPointError, match="epoch 2: the loss is not a finite number: .*train_task (nan|inf)"):
        fit_toy(tmp_path, Pull(breaks=8, nonsense=nonsense))  # the last step of epoch 2
    tensors, facts = read_tensors(tmp_path / "checkpoint.safetensors")
    assert len(facts["history"]) == 1 and tensors["model.weight"].isfinite().all()


def test_a_dev_loss_that_is_no_number_stops_the_run(tmp_path):
    with pytest.raises(FloatingPointError, match="epoch 1: the loss is not a finite number: dev_task nan"):
        fit_toy(tmp_path, Pull(), evaluate=lambda: {"task": math.nan})


def test_a_smaller_learning_rate_is_offered_unless_the_rate_cannot_move():
    for rate, hint in ((1.0, "the rate cannot move"), (0.0, "the rate cannot move"), (0.5, "a smaller learning_rate")):
        with pytest.raises(FloatingPointError, match=hint) as caught:
            loop._check_finite({"train_loss": math.nan, "train_task": 0.7, "train_rate": rate}, 1)
        assert ("learning_rate" in str(caught.value)) == (rate == 0.5)


def test_gradients_are_clipped(tmp_path, monkeypatch):
    norms, clip = [], nn.utils.clip_grad_norm_
    monkeypatch.setattr(
        nn.utils, "clip_grad_norm_", lambda parameters, norm: norms.append(norm) or clip(parameters, norm)
    )
    fit_toy(tmp_path, Pull(), epochs=1, clip_norm=0.25)
    assert norms == [0.25] * 4


def test_events_for_tensorboard_are_written_on_request(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    fit_toy(tmp_path, Pull(), epochs=1, tensorboard=True)
    assert list((tmp_path / "tensorboard").glob("events.*"))


# --- evaluation


def evaluated(head: str = "scores", **changes):
    splits = corpus() if head == "scores" else classified(corpus())
    vocabulary, vectors = build_vocabulary(splits, "random", dim=8)
    torch.manual_seed(0)
    p = parameters(**changes)
    model = build_extractor(p, vectors, head, 1 if head == "scores" else 2).eval()
    batches = Batches(splits["dev"], vocabulary, p.batch_size)
    objective = build_objective(p)
    return model, batches, objective, evaluate_extractor(model, batches, objective)


def test_evaluation_is_that_of_test_time_and_leaves_every_part_in_the_mode_it_had():
    model, batches, objective, expected = evaluated("classes", dropout=0.5)
    shut = score_when_shut(model, batches)
    model.train(), objective.train(), model.selector.eval()
    modes = [part.training for part in (*model.modules(), *objective.modules())]
    assert evaluate_extractor(model, batches, objective).metrics == expected.metrics
    assert score_when_shut(model, batches) == shut
    assert [part.training for part in (*model.modules(), *objective.modules())] == modes


def test_the_importance_of_words_is_that_of_test_time_and_the_model_keeps_its_mode():
    model, batches, *_ = evaluated("classes", model="attention", dropout=0.5, selection=None)
    expected = importance_quantile(model, batches, 0.3)
    assert importance_quantile(model.train(), batches, 0.3) == expected
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("head", ["scores", "classes"])
def test_evaluation_is_that_of_each_text_alone_in_the_order_of_the_examples(head):
    model, batches, _, found = evaluated(head)
    rates, kept, words = [], 0, 0
    with torch.no_grad():
        for i, example in enumerate(batches.examples):
            batch = batches.rows(torch.tensor([i]))
            output = model(batch.tokens, batch.mask)
            torch.testing.assert_close(found.prediction[i], output.prediction[0])
            torch.testing.assert_close(found.z[i], output.z[0])
            rates.append(output.gates.log_prob_nonzero.exp().mean().item())
            kept, words = kept + int((output.z != 0).sum()), words + len(example.tokens)
    figures, n = found.metrics, len(batches.examples)
    assert figures["rate_expected"] == pytest.approx(sum(rates) / n, rel=1e-5), "mean over texts"
    assert figures["rate_selected"] == pytest.approx(kept / words), "share of words"
    if head == "classes":
        right = sum(found.prediction[i].argmax().item() == e.label for i, e in enumerate(batches.examples))
        assert figures["accuracy"] == pytest.approx(right / n)
    else:
        errors = [(found.prediction[i].item() - e.label[0]) ** 2 for i, e in enumerate(batches.examples)]
        assert figures["mse"] == figures["task"] == pytest.approx(sum(errors) / n, rel=1e-5)


def test_evaluation_scores_rationales_where_there_is_gold():
    _, batches, _, found = evaluated()
    matched = [(z != 0) & torch.tensor(e.rationale) for z, e in zip(found.z, batches.examples, strict=True)]
    chosen = sum(int((z != 0).sum()) for z in found.z)
    assert found.metrics["precision"] == pytest.approx(sum(int(m.sum()) for m in matched) / chosen)


def test_evaluation_scores_rationales_against_the_informative_words_too():
    _, batches, _, found = evaluated()
    pairs = [(z != 0, torch.tensor(e.informative)) for z, e in zip(found.z, batches.examples, strict=True)]
    matched = sum(int((z & informative).sum()) for z, informative in pairs)
    for name, part in (("precision", 0), ("recall", 1)):
        size = sum(int(pair[part].sum()) for pair in pairs)
        assert found.metrics[f"{name}_informative"] == pytest.approx(matched / size)


def test_evaluation_without_gold_has_no_precision():
    splits = corpus()
    plain = [type(e)(e.tokens, e.label) for e in splits["dev"]]
    model, batches, objective, _ = evaluated()
    found = evaluate_extractor(model, Batches(plain, batches.vocabulary, 16), objective)
    assert not {"precision", "precision_informative"} & set(found.metrics)


def test_one_threshold_for_all_texts_reads_exactly_the_share_of_all_words_that_the_budget_names(tmp_path):
    result = train(tmp_path, model="attention", selection=None, rule="top_k", budget=0.3, epochs=1)
    words = sum(len(example.tokens) for example in result.splits["dev"])
    found = result.evaluations["dev"].metrics["global_rate_selected"]
    assert found * words == pytest.approx(round(0.3 * words)), "the word at the threshold is one of them"
    assert result.model.rule == "top_k", "the model keeps its own rule"


def test_evaluation_moves_neither_duals_nor_weights_nor_the_random_state():
    model, batches, objective, _ = evaluated()
    before = {name: value.clone() for name, value in [*model.state_dict().items(), *objective.state_dict().items()]}
    random = torch.get_rng_state()
    evaluate_extractor(model, batches, objective)
    assert torch.get_rng_state().equal(random)
    for name, value in [*model.state_dict().items(), *objective.state_dict().items()]:
        assert value.equal(before[name]), f"evaluation changed {name}"
    assert all(value.grad is None for value in model.parameters())


# --- devices


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_refused_before_any_training(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match=f"device: got '{name}', but this machine has no usable GPU; accepted are"):
        choose_device(name)


def test_a_run_asks_for_its_gpu_before_it_reads_its_texts(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    p = ExtractionSettings.checked({"vectors": "random", "device": "cuda"})
    with pytest.raises(BadInput, match="no usable GPU"):
        training.require_words(p)


def test_a_checkpoint_with_other_parameters_is_left_alone_and_the_run_begins_anew(tmp_path, capsys):
    train(tmp_path / "lab", epochs=2, selection=0.4)
    capsys.readouterr()
    changed = train(tmp_path / "lab", epochs=2, selection=0.2)
    assert "other parameters: training starts again" in capsys.readouterr().out
    fresh = train(tmp_path / "fresh", epochs=2, selection=0.2)
    assert changed.evaluations["dev"].metrics == fresh.evaluations["dev"].metrics, "nothing of the old run is left"


@pytest.mark.parametrize(
    ("epochs", "planned"), [((4, 8), 4), ((4, 8, 10), 4), ((8, 5), 5), ((8, 5, 8), 5), ((4, 4), 4)], ids=str
)
def test_a_target_that_moves_keeps_its_schedule_if_the_run_is_continued_with_more_epochs(
    tmp_path, monkeypatch, epochs, planned
):
    """Each step has the target of eq. (S18), for `planned` epochs from the first continuation on."""
    moving = {"selection": 0.2, "selection_start": 0.9, "selection_moves": 0.75}
    seen, at_step, save = {}, Constraint.at_step, training.TrainingState.save

    def noted(constraint, taken):
        at_step(constraint, taken)
        if constraint.first != constraint.final:
            seen[taken] = constraint.target

    monkeypatch.setattr(Constraint, "at_step", noted)
    for k, number in enumerate(epochs[:-1]):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):

            def interrupted(state, path, last=3 + k):
                save(state, path)
                if len(state.history) == last:
                    raise KeyboardInterrupt

            patched.setattr(training.TrainingState, "save", interrupted)
            train(tmp_path / "lab", epochs=number, **moving)
    result = train(tmp_path / "lab", epochs=epochs[-1], **moving)
    assert len(result.history) == epochs[-1]
    per_epoch = -(-len(result.splits["train"]) // parameters().batch_size)
    assert seen.keys() >= set(range(epochs[-1] * per_epoch))
    for taken, target in seen.items():
        moves = round(0.75 * (epochs[0] if taken < 3 * per_epoch else planned) * per_epoch)
        assert target == pytest.approx(0.2 * (0.9 / 0.2) ** max(0, 1 - taken / moves)), taken


def test_a_run_that_starts_again_has_the_schedule_of_its_own_epochs(tmp_path):
    train(tmp_path / "lab", epochs=2, selection=0.2, selection_start=0.9, selection_moves=0.5)
    path, other = tmp_path / "lab" / "checkpoint.safetensors", parameters(epochs=6, seed=2)
    same = parameters(epochs=6, selection=0.2, selection_start=0.9, selection_moves=0.5)
    assert scheduled_epochs(path, vars(same)) == 2
    assert scheduled_epochs(path, vars(other)) == 6, "the checkpoint is of another run"
    assert scheduled_epochs(path, vars(same) | {"epochs": 1}) == 1, "it has more epochs"
    assert scheduled_epochs(tmp_path / "none", vars(same)) == 6
    tensors, facts = read_tensors(path)
    del facts["scheduled_epochs"], facts["digest"]
    write_tensors(path, tensors, facts)
    assert scheduled_epochs(path, vars(same)) == 2, "an older checkpoint has the epochs of its parameters"
    path.write_bytes(b"damaged")
    assert scheduled_epochs(path, vars(same)) == 6


def test_a_checkpoint_of_other_data_is_refused_and_left_alone(tmp_path, monkeypatch):
    file = tmp_path / "v.txt"

    def reads(text: str) -> None:
        monkeypatch.setattr(digests, "_digests", {})
        monkeypatch.setattr(digests, "_stamps", {})
        file.write_text(text)
        digests.recorded(file)

    reads("the 1 2 3")
    train(tmp_path / "lab", epochs=2)
    checkpoint = (tmp_path / "lab" / "checkpoint.safetensors").read_bytes()
    reads("the 1 2 4")
    with pytest.raises(BadInput, match=r"checkpoint.safetensors: .*v\.txt has changed since this training began"):
        train(tmp_path / "lab", epochs=3)
    assert (tmp_path / "lab" / "checkpoint.safetensors").read_bytes() == checkpoint
    monkeypatch.setattr(digests, "_digests", {})
    monkeypatch.setattr(digests, "_stamps", {})
    digests.recorded(file.rename(tmp_path / "w.txt"))
    with pytest.raises(BadInput, match=r"v\.txt has changed"):
        train(tmp_path / "lab", epochs=3)
    reads("the 1 2 3")
    digests.recorded(tmp_path / "w.txt")
    assert len(train(tmp_path / "lab", epochs=3).history) == 3, "more files than training needs are no other data"


def test_a_finished_checkpoint_is_continued_with_more_epochs_and_not_with_fewer(tmp_path, capsys):
    train(tmp_path / "lab", epochs=2)
    assert len(train(tmp_path / "lab", epochs=3).history) == 3
    assert "resumed after epoch 2 of 3" in capsys.readouterr().out
    assert len(train(tmp_path / "lab", epochs=1).history) == 1


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("exponential", [1.0, 0.97, 0.97**2, 0.97**20, 0.5, 0.5]),
        ("multistep", [1.0, 1.0, 1.0, 1.0, 0.97**3, 0.97**3]),
    ],
)
def test_the_step_size_falls_as_named_and_never_below_its_least(schedule, expected):
    p = parameters(schedule=schedule, learning_rate=0.01, min_learning_rate=0.005)
    optimizer = training.build_optimizer(torch.nn.Linear(1, 1), p)
    scheduler, rates = training.build_scheduler(optimizer, p), []
    for _ in range(121):
        rates.append(optimizer.param_groups[0]["lr"] / p.learning_rate)
        optimizer.step()
        scheduler.step()
    assert [rates[epochs] for epochs in (0, 1, 2, 20, 80, 120)] == pytest.approx(expected)


def test_the_step_size_is_halved_after_the_sixth_epoch_without_a_better_loss_and_after_eleven_more():
    p = parameters(schedule="plateau", learning_rate=0.01, min_learning_rate=0.0)
    optimizer = training.build_optimizer(torch.nn.Linear(1, 1), p)
    scheduler, rates = training.build_scheduler(optimizer, p), []
    for _ in range(20):  # the first epoch has the best loss
        optimizer.step()
        scheduler.step(1.0)
        rates.append(optimizer.param_groups[0]["lr"] / p.learning_rate)
    assert rates == pytest.approx([1.0] * 6 + [0.5] * 11 + [0.25] * 3)


@pytest.mark.parametrize("schedule", ["plateau", "exponential"])
def test_a_resumed_run_goes_on_with_its_step_size(schedule, tmp_path):
    changes = {"schedule": schedule, "min_learning_rate": 1e-6}
    whole = train(tmp_path / "whole", epochs=4, **changes)
    train(tmp_path / "parts", epochs=2, **changes)
    resumed = train(tmp_path / "parts", epochs=4, **changes)
    columns = ("learning_rate", "dev_task")
    assert [[row[c] for c in columns] for row in resumed.history] == [
        [row[c] for c in columns] for row in whole.history
    ]


def test_blind_selections_have_the_size_of_the_selection_where_there_is_gold():
    gold = [Example(("a",) * 10, 0, (True,) * 3 + (False,) * 7)]
    some, none = torch.tensor([1.0] * 5 + [0.0] * 5), torch.zeros(10)
    empty = [Example(("a",) * 10, 0, (False,) * 10)] * 4
    alone = training.rationale_metrics([some], gold)
    among = training.rationale_metrics([some, *[none] * 4], gold + empty)
    blind = [{k: v for k, v in found.items() if k.startswith("blind")} for found in (alone, among)]
    assert blind[0] == blind[1] and among["rate_selected"] == pytest.approx(0.1)
    assert among["blind_first_words"] == pytest.approx(3 / 5), "of the first five words three are gold"


def test_the_optimiser_makes_the_steps_of_torchs_adam_to_the_bit():
    states = []
    for kind in (loop.Adam, torch.optim.Adam):
        torch.manual_seed(0)
        model = nn.Linear(5, 3)
        optimizer = kind([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.3}], lr=0.1, weight_decay=1e-3,
                         fused=True)  # fmt: skip
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for step in range(6):
            if step == 3:  # as when a run is continued
                again = kind(optimizer.param_groups, lr=7.0, fused=True)
                again.load_state_dict(optimizer.state_dict())
                optimizer = scheduler.optimizer = again
            optimizer.zero_grad()
            assert model.weight.grad is None
            model(torch.randn(4, 5)).square().sum().backward()
            optimizer.step()
            scheduler.step()
        states.append((model.state_dict(), optimizer.state_dict()))
        assert model.weight.requires_grad and torch.is_grad_enabled()
    (weights, state), (expected, theirs) = states
    assert all(weights[name].equal(expected[name]) for name in expected)
    assert state["param_groups"] == theirs["param_groups"] and state["state"].keys() == theirs["state"].keys()
    for number, parts in theirs["state"].items():
        assert all(state["state"][number][name].equal(value) for name, value in parts.items())


def test_a_run_trains_without_importing_the_compiler_of_torch(tmp_path):
    program = (
        "import sys; from pathlib import Path; from small import train; "
        f"train(Path({str(tmp_path)!r}), epochs=2); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    modules = done.stdout.split("\n")[-2].split()
    assert "rationale.training.loop" in modules and "torch._dynamo" not in modules, "a run takes two seconds more"


@pytest.mark.parametrize("kept", [1, 2])
def test_dev_is_evaluated_again_only_if_another_epoch_than_the_last_was_kept(tmp_path, monkeypatch, kept):
    evaluated, seen = extraction.evaluate_extractor, []

    def watched(model, batches, objective):
        found = evaluated(model, batches, objective)
        seen.append((batches.examples, found))
        return found

    monkeypatch.setattr(extraction, "evaluate_extractor", watched)
    monkeypatch.setattr(ModelSelection, "better", lambda self, row, best: row["epoch"] == kept)
    result = train(tmp_path, epochs=2)
    of_dev = [found for examples, found in seen if examples is result.splits["dev"]]
    assert len(of_dev) == {1: 3, 2: 2}[kept] and len(seen) == len(of_dev) + 1, "the test split once"
    assert result.evaluations["dev"] is of_dev[-1]
    fresh = evaluated(result.model, of_batches(result, "dev"), build_objective(parameters(epochs=2)))
    assert all(a.equal(b) for a, b in zip(fresh.z, result.evaluations["dev"].z, strict=True))
    assert fresh.prediction.equal(result.evaluations["dev"].prediction)


def of_batches(result: training.Result, split: str) -> Batches:
    p = parameters()
    return Batches(result.splits[split], result.vocabulary, p.batch_size, p.seed, p.bucketed)
