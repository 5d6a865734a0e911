"""Training stops when dev says enough: what counts as enough, what is said and saved, and runs that are continued."""

import json

import pytest
import torch
from small import corpus, parameters, train

from rationale.errors import BadInput
from rationale.runs import notebook_path
from rationale.runs.intact import Metrics
from rationale.runs.saved import read_metrics, save_run
from rationale.training import extraction, train_extractor
from rationale.training.model_selection import ModelSelection
from rationale.training.settings import (
    AlignmentSettings,
    ExtractionSettings,
    GenerationSettings,
    OwnTextSettings,
    ProbingSettings,
)
from tests.forked import run_forked
from tests.smoke import smoke_items

SCORES = [0.5, 0.6, 0.7, 0.68, 0.69, 0.7, 0.1]  # of dev; the third epoch is the best


def history(scores, rates=None) -> list[dict]:
    rates = rates or [0.2] * len(scores)
    pairs = enumerate(zip(scores, rates, strict=True), start=1)
    return [{"epoch": i, "dev_accuracy": score, "rate": rate} for i, (score, rate) in pairs]


def selection(**changes) -> ModelSelection:
    facts = {"target": 0.2, "tolerance": 0.05, "rate": "rate"}
    return ModelSelection("within_tolerance", "dev_accuracy", higher_is_better=True, **(facts | changes))


def best_of(rows: list[dict], rule: ModelSelection) -> dict | None:
    best = None
    for row in rows:
        best = row if rule.better(row, best) else best
    return best


def stops_after(rows: list[dict], rule: ModelSelection, epochs: int) -> int | None:
    """The first number of epochs after which training would stop."""
    return next(
        (n for n in range(len(rows) + 1) if rule.has_converged(rows[:n], best_of(rows[:n], rule), epochs)), None
    )


def test_training_stops_when_the_best_epoch_has_not_changed_for_so_many_epochs():
    rows = history(SCORES)
    assert [stops_after(rows, selection(), epochs) for epochs in (0, 1, 2, 4, 5)] == [None, 4, 5, 7, None]


def test_only_admissible_epochs_count():
    off = [0.5, 0.5, 0.5, 0.5, 0.2, 0.2, 0.2]
    assert stops_after(history(SCORES, off), selection(), 2) is None, "epoch 6 is the best of those with the right rate"
    assert stops_after(history(SCORES, off), selection(), 1) == 7
    assert stops_after(history(SCORES, [0.5] * 7), selection(), 1) is None, "no rate is right"
    assert stops_after(history(SCORES[::-1]), selection(patience=4), 2) == 7, "epoch 5 is the best that may be kept"


def test_training_goes_on_while_the_score_rises_at_another_rate_than_the_target():
    """As on movies: the rate swings around its target, and the epochs that learn most happen to be outside."""
    scores, rates = [0.5, 0.66, 0.6, 0.7, 0.73, 0.76, 0.7, 0.7, 0.7, 0.7], [0.2, 0.2, 0.4, 0.4, 0.4, 0.1, *[0.4] * 4]
    rows, rule = history(scores, rates), selection()
    assert best_of(rows, rule)["epoch"] == 2
    assert stops_after(rows, rule, 4) == 10, "four epochs after the best score, that of epoch 6"
    line = rule.describe_end(rows[:8], best_of(rows[:8], rule), 4)
    assert line.startswith("not known to have converged at the last epoch, 8: dev accuracy 0.66 (epoch 2) is kept")
    assert line.endswith("dev accuracy 0.76 (epoch 6) is passed over: its rate is 0.1, the target 0.2 ± 0.05")


def test_the_score_of_an_epoch_that_may_not_be_kept_at_any_rate_does_not_prolong_training():
    assert stops_after(history([0.9, 0.9, *SCORES]), selection(patience=2), 2) == 7


def test_one_line_says_how_a_training_ended():
    rows, rule = history(SCORES), selection()
    line = rule.describe_end(rows, best_of(rows, rule), 4)
    assert line == "converged at epoch 3: dev accuracy 0.7 (epoch 3), not better in 4 more epochs"
    line = rule.describe_end(rows[:4], best_of(rows[:4], rule), 4)
    assert line.startswith(
        "not known to have converged at the last epoch, 4: dev accuracy 0.7 (epoch 3) is kept, which 1 more epoch has"
    )
    line = rule.describe_end(rows[:3], best_of(rows[:3], rule), 4)
    assert line.startswith("still improving at the last epoch, 3: dev accuracy 0.7 (epoch 3) is kept; a larger number")
    falls = history([0.8, 0.6], [0.5, 0.2])
    line = rule.describe_end(falls, best_of(falls, rule), 4)
    assert line.startswith("not known to have converged at the last epoch, 2: dev accuracy 0.6 (epoch 2) is kept for ")
    off = history(SCORES, [0.5] * 7)
    outside = (
        "not converged at the last epoch, 7: the rate of no epoch is within 0.05 of the target 0.2; try more epochs"
    )
    assert rule.describe_end(off, best_of(off, rule), 4) == outside
    for late in (selection(patience=7), selection(patience=7, target=None)):
        said = late.describe_end(rows, best_of(rows, late), 4)
        assert said.startswith("not converged at the last epoch, 7: there is no epoch after the first 7, which are not")


@pytest.mark.parametrize("off", [1, 5])
def test_the_line_names_a_better_epoch_that_is_passed_over_for_its_rate_be_it_earlier_or_later(off):
    rule, kept = selection(), 2 if off == 1 else 3
    scores, rates = [0.5, 0.7, 0.7, 0.68, 0.69, 0.7, 0.1, 0.1, 0.1], [0.2] * 9
    scores[off - 1], rates[off - 1], scores[kept - 1] = 0.75, 0.257, 0.72
    rows = history(scores, rates)
    passed = f"; dev accuracy 0.75 (epoch {off}) is passed over: its rate is 0.257, the target 0.2 ± 0.05"
    line = rule.describe_end(rows, best_of(rows, rule), 4)
    replaced = f"not replaced in {9 - kept} more epochs"
    assert line == f"converged at epoch {kept}: dev accuracy 0.72 (epoch {kept}), {replaced}{passed}"
    line = rule.describe_end(rows, best_of(rows, rule), 8)
    assert line.startswith(
        f"not known to have converged at the last epoch, 9: dev accuracy 0.72 (epoch {kept}) is kept"
    )
    assert line.endswith(f"a larger number of epochs may help{passed}")


def test_an_epoch_that_is_passed_over_for_another_reason_than_its_rate_has_this_reason():
    rows = history([0.9, *SCORES])
    early = selection(patience=1, target=None)
    line = early.describe_end(rows, best_of(rows, early), 4)
    assert line.endswith("; dev accuracy 0.9 (epoch 1) is passed over: the first 1 epochs are not chosen")
    for i, row in enumerate(rows):
        row["dev_loss"] = 1.0 + (i != 2)
    authors = ModelSelection("authors", "dev_accuracy", higher_is_better=True)
    line = authors.describe_end(rows, best_of(rows, authors), 4)
    told = "dev accuracy 0.9 (epoch 1) is passed over: model_choice=authors compares the dev loss, not the score"
    assert line == f"converged at epoch 3: dev accuracy 0.6 (epoch 3), not replaced in 5 more epochs; {told}"


@pytest.fixture
def scripted(monkeypatch):
    """Dev scores as written, whatever the model does; the rest of an evaluation is real."""
    evaluate = extraction.evaluate_extractor

    def script(scores: list[float]) -> None:
        left = iter(scores)

        def scored(*arguments):
            found = evaluate(*arguments)
            found.metrics["mse"] = next(left, 9.0)
            return found

        monkeypatch.setattr(extraction, "evaluate_extractor", scored)

    return script


ERRORS = [0.5, 0.4, 0.3, 0.35, 0.36, 0.2, 0.1]  # lower is better: epoch 3 is not improved by epochs 4 and 5
FREE = {"selection": None, "epochs": 7}  # every epoch is admissible


def test_a_run_stops_says_so_and_saves_it(scripted, tmp_path, capsys):
    scripted(ERRORS)
    p = parameters(stop_after=2, **FREE)
    result = train(tmp_path, stop_after=2, **FREE)
    assert len(result.history) == 5 and result.best["epoch"] == result.converged == 3
    assert "\nconverged at epoch 3: dev mse 0.3 (epoch 3), not better in 2 more epochs\n" in capsys.readouterr().out
    save_run(tmp_path, result, p)
    saved = json.loads((tmp_path / "metrics.json").read_text())
    assert saved["converged_epoch"] == 3 and Metrics.model_validate(saved).converged_epoch == 3


def test_a_run_that_still_improves_makes_all_epochs_and_says_so(scripted, tmp_path, capsys):
    scripted(ERRORS)
    result = train(tmp_path, stop_after=3, **FREE)
    assert len(result.history) == 7 and result.converged is None
    assert "\nstill improving at the last epoch, 7: " in capsys.readouterr().out
    save_run(tmp_path, result, parameters(stop_after=3, **FREE))
    assert json.loads((tmp_path / "metrics.json").read_text())["converged_epoch"] is None


def test_a_run_makes_at_least_min_epochs(scripted, tmp_path):
    scripted(ERRORS)
    assert len(train(tmp_path, stop_after=2, min_epochs=6, **FREE).history) == 7, "epoch 6 is better again"


def test_training_does_not_stop_before_its_constraint_has_acted(scripted, tmp_path):
    scripted(ERRORS)
    held = {"selection": 0.5, "tolerance": 1.0, "epochs": 7, "constraint_from": 6}
    assert len(train(tmp_path, stop_after=2, **held).history) == 7


def test_without_stop_after_nothing_is_said_or_saved(tmp_path, capsys):
    result = train(tmp_path, epochs=1)
    assert result.converged is None and "converged" not in capsys.readouterr().out
    save_run(tmp_path, result, parameters(epochs=1))
    assert "converged_epoch" not in json.loads((tmp_path / "metrics.json").read_text())


@pytest.mark.parametrize("broken_at", [2, 3, 5])
def test_a_killed_run_stops_at_the_same_epoch_with_the_same_bits(scripted, tmp_path, monkeypatch, broken_at):
    changes = FREE | {"stop_after": 2}
    scripted(ERRORS)
    whole = train(tmp_path / "whole", **changes)
    monkeypatch.undo()
    scripted(ERRORS[:broken_at])

    def killed(epoch: int) -> None:
        if epoch == broken_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(parameters(**changes), tmp_path / "part", killed)
    monkeypatch.undo()
    scripted(ERRORS[broken_at - 1 :])  # the epoch whose checkpoint is missing is made again
    again = train(tmp_path / "part", **changes)
    assert len(again.history) == len(whole.history) == 5 and again.converged == whole.converged == 3
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    for one, other in zip(whole.history, again.history, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def interrupted(p, folder, after_epoch) -> None:
    """Train until `after_epoch` ends it, which is before the checkpoint of its epoch."""
    fit = extraction.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            extraction, "fit", lambda *args, **options: fit(*args, **(options | {"after_epoch": after_epoch}))
        )
        train_extractor(p, corpus(), "scores", 1, folder)


def test_a_stopped_run_that_is_started_again_makes_no_further_epoch(scripted, tmp_path):
    scripted(ERRORS)
    first = train(tmp_path, stop_after=2, **FREE)
    again = train(tmp_path, stop_after=2, **FREE)
    assert len(again.history) == 5 and again.best == first.best and again.converged == 3


def test_only_own_texts_stop_by_themselves_and_a_minimum_alone_has_no_effect():
    for cls in (ExtractionSettings, OwnTextSettings, AlignmentSettings, GenerationSettings, ProbingSettings):
        fields, usual = cls.model_fields, 4 if cls is OwnTextSettings else 0
        assert (fields["stop_after"].default, fields["min_epochs"].default) == (usual, 1), cls.__name__
    with pytest.raises(
        BadInput, match="^min_epochs: 5 is not accepted with stop_after 0; give 1, or a number of epochs"
    ):
        ExtractionSettings.checked({"min_epochs": 5})
    assert ExtractionSettings.checked({"min_epochs": 5, "stop_after": 3}).min_epochs == 5
    with pytest.raises(BadInput, match="^min_epochs: 5 is not accepted with epochs 4; give a number up to 4$"):
        ExtractionSettings.checked({"min_epochs": 5, "stop_after": 3, "epochs": 4})


@pytest.mark.deep
@pytest.mark.parametrize("name", [pytest.param("13_train_nli", marks=pytest.mark.data), "14_train_probes"])
def test_other_training_notebooks_say_and_save_it_too(name, outputs):
    notebook = notebook_path(name)
    items = smoke_items(notebook, stop_after=1)
    metrics = read_metrics(run_forked(notebook, items, outputs=outputs, name="stopping"))
    found = metrics["methods"]["states"] if "methods" in metrics else metrics
    assert "converged_epoch" in found
