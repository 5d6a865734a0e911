"""A run that probes: from examples to attributions, and back from its files."""

import json
import math

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from test_probes import a_batch, frozen_counter

from rationale import explain, metrics, training
from rationale.errors import BadInput
from rationale.runs import notebook_path, saved
from rationale.runs.cells import notebook_settings
from rationale.training import probing

METHODS = ["states", "inputs", "erasure"]


def small(**changes):
    values = {"num_train": 80, "num_dev": 20, "num_test": 12, "embedding_size": 6, "hidden_size": 4, "batch_size": 16}
    values |= {"model_epochs": 2, "epochs": 2, "methods": METHODS}
    return notebook_settings(notebook_path("14_train_probes"), **values | changes)


def probed(folder, **changes):
    """A run in memory: (parameters, frozen model, its metrics, what each method found, examples)."""
    p = small(**changes)
    task = training.build_probed_task(p)
    frozen, scores = training.train_probed_model(p, task, folder)
    found = {method: training.attribute(method, p, frozen, task, folder) for method in p.methods}
    return p, frozen, scores, found, task.splits


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    return folder, *probed(folder)


def test_class_scores_are_those_of_scikit_learn():
    answers, targets = torch.tensor([0, 2, 2, 1, 0, 4]), torch.tensor([0, 2, 1, 1, 1, 3])
    found = metrics.class_scores(answers, targets)
    assert found["accuracy"] == pytest.approx(accuracy_score(targets, answers))
    assert found["macro_f1"] == pytest.approx(f1_score(targets, answers, average="macro"), rel=1e-14)


def test_every_method_attributes_to_every_layer_and_position_of_every_text(run):
    _, _, frozen, _, found, splits = run
    for method, one in found.items():
        for values, example in zip(one.values["test"], splits["test"], strict=True):
            assert values.shape == (len(frozen.layers), len(example.tokens)), method
            assert (values >= 0).all() and values.isfinite().all()


def test_a_probe_reports_each_layer_and_their_mean(run):
    *_, found, _ = run
    scores = found["states"].metrics["test"]
    for name in ("divergence", "kept", "agreement"):
        assert scores[name] == pytest.approx((scores[f"{name}_0"] + scores[f"{name}_1"]) / 2)
    assert 0 <= scores["masked_accuracy_1"] <= 1 and 0 <= scores["masked_macro_f1_error_1"] < 0.2
    keep = torch.cat([values[1].mean().view(1) for values in found["states"].values["test"]])
    assert scores["kept_1"] == pytest.approx(keep.mean().item(), abs=1e-6)


@pytest.mark.parametrize("kind", ["reverse_kl", "js"])
def test_the_epoch_of_a_probe_is_kept_by_the_divergence_that_its_margin_holds(run, kind, monkeypatch):
    *_, found, _ = run
    kinds, plain = [], probing.divergence
    monkeypatch.setattr(probing, "divergence", lambda *both: kinds.append(both[2:]) or plain(*both))
    folder = run[0] / kind
    *_, other, _ = probed(folder, divergence=kind, methods=["states"])
    assert set(kinds) == {(kind,)}, "on dev after each epoch, and on dev and test at the end"
    assert other["states"].metrics["dev"]["divergence"] != found["states"].metrics["dev"]["divergence"]


def test_test_texts_that_are_too_long_to_be_searched_are_left_out():
    splits = training.build_probed_task(small(searchable=8, num_dev=60, num_test=60)).splits
    assert 0 < len(splits["test"]) < 60 and max(len(example.tokens) for example in splits["test"]) == 8
    assert max(len(example.tokens) for example in splits["dev"]) == 10, "which is not searched"


def test_the_same_seed_gives_the_same_probe_and_a_killed_one_goes_on_where_it_was(run, tmp_path):
    *_, found, _ = run
    probed(tmp_path, epochs=1, methods=["states"])
    *_, again, _ = probed(tmp_path, methods=["states"])
    whole, resumed = found["states"], again["states"]
    assert [row["epoch"] for row in resumed.history] == [1, 2]
    for values, others in zip(whole.values["test"], resumed.values["test"], strict=True):
        assert values.equal(others)


def test_what_is_saved_is_what_was_found(run, tmp_path):
    _, p, frozen, scores, found, splits = run
    weights = {"subject": frozen.model.state_dict(), "states": found["states"].probe.state_dict()}
    answers = {"test": torch.arange(len(splits["test"]))}
    saved.save_probes(tmp_path, scores, found, {"test": splits["test"]}, answers, weights, p)
    rows = saved.read_attributions(tmp_path, "test")
    assert len(rows) == len(splits["test"]) and set(METHODS) < set(rows.columns)
    assert rows["answer"].tolist() == answers["test"].tolist()
    for row, example, values in zip(
        rows.to_dict("records"), splits["test"], found["states"].values["test"], strict=True
    ):
        assert tuple(row["tokens"]) == example.tokens and row["gold"] == list(map(int, example.rationale))
        torch.testing.assert_close(torch.tensor(row["states"]), values, rtol=1e-3, atol=1e-6)
    scores_on_file = json.loads((tmp_path / "metrics.json").read_text())
    assert set(scores_on_file["methods"]) == set(METHODS) and scores_on_file["test"] == scores["test"]
    model = training.load_weights(training.build_probed_task(p).model, tmp_path)
    assert all(v.equal(model.state_dict()[k]) for k, v in frozen.model.state_dict().items())


def test_the_model_of_another_run_is_probed_again_without_training(run, tmp_path):
    _, p, frozen, scores, found, splits = run
    answers, weights = {"test": torch.zeros(len(splits["test"]))}, {"subject": frozen.model.state_dict()}
    saved.save_probes(tmp_path, scores, found, {"test": splits["test"]}, answers, weights, p)
    _, _, same, _, _ = probed(tmp_path / "new", subject=str(tmp_path), methods=["erasure"])
    assert same == scores and not (tmp_path / "new").exists(), "nothing was trained"
    with pytest.raises(BadInput, match="another kind of model"):
        probed(tmp_path / "new", subject=str(tmp_path), methods=["erasure"], embedding_size=7)
    with pytest.raises(BadInput, match="subject: nowhere"):
        probed(tmp_path / "new", subject="nowhere", methods=["erasure"])


def test_a_folder_without_a_probed_model_is_refused(tmp_path):
    with pytest.raises(BadInput, match="model.safetensors"):
        training.load_weights(training.build_probed_task(small()).model, tmp_path)


# --- masks of single texts


def test_a_mask_is_compared_with_the_smallest_mask_it_fits_best():
    smallest = torch.tensor([[True, False, False, False], [False, True, True, False]])
    kept = torch.tensor([False, True, False, True])
    found = explain.compare_with_smallest_masks(kept, smallest)
    assert found == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "masked": 0.5, "optimality": 0.0}
    exact = explain.compare_with_smallest_masks(smallest[1], smallest)
    assert exact["f1"] == exact["optimality"] == exact["precision"] == exact["recall"] == 1
    nothing, empty = torch.zeros(4, dtype=torch.bool), torch.zeros(1, 4, dtype=torch.bool)
    both = explain.compare_with_smallest_masks(nothing, empty)
    assert both["f1"] == both["precision"] == both["recall"] == both["optimality"] == both["masked"] == 1
    one = explain.compare_with_smallest_masks(kept, empty)
    assert one["f1"] == one["precision"] == one["recall"] == one["optimality"] == 0


@pytest.mark.parametrize("estimator", ["relaxed", "score", "score_released"])
def test_a_fitted_mask_opens_for_what_the_answer_needs_and_shuts_the_rest(estimator):
    """The answer reads the state of position 0 alone: log-odds 6 with it, -6 without."""
    frozen, batch = frozen_counter(), a_batch()
    frozen.model.requires_grad_(False)

    def first(b):
        states = frozen.model.digit(b.tokens.first)
        odds = 12 * (states[:, 0].square().sum(-1) > 1e-3).double() - 6
        soft = 0.1 * states[:, 0].sum(-1)  # so that a relaxed gate has a gradient
        return torch.stack([torch.zeros_like(odds), odds + soft], 1)

    def smooth(b):
        size = frozen.model.digit(b.tokens.first)[:, 0].square().sum(-1)
        return torch.stack([torch.zeros_like(size), 12 * torch.tanh(4 * size) - 6], 1)

    torch.manual_seed(0)
    only = frozen._replace(predict=smooth if estimator == "relaxed" else first)
    keep = explain.masks(only, batch, 0, 500, margin=0.1, estimator=estimator, rate=0.05)
    assert (keep[~batch.mask] == 0).all() and keep.max() <= 1
    others = batch.mask.clone()
    others[:, 0] = False
    if estimator != "score_released":
        assert keep[:, 0].min() > 0.5 > keep[others].max()
    assert keep[others].mean() < 0.5, "what is not needed goes without a multiplier too"


def test_a_baseline_of_its_own_lets_a_text_mask_more():
    """With b = 0 a state is needed; a fitted b can say the same, so nothing is: hindsight again."""
    frozen, batch = frozen_counter(), a_batch()
    frozen.model.requires_grad_(False)

    def smooth(b):
        first = frozen.model.digit(b.tokens.first)[:, 0].sum(-1)
        return torch.stack([torch.zeros_like(first), 4 * first], 1)

    torch.manual_seed(0)
    only = frozen._replace(predict=smooth)
    plain = explain.masks(only, batch, 0, 300, margin=0.05)
    fitted = explain.masks_with_baseline(only, batch, 0, 300, margin=0.05)
    assert fitted[:, 0].mean() < plain[:, 0].mean()


def test_the_multiplier_of_a_fitted_mask_starts_where_the_settings_say():
    """Under a margin that everything meets, what the answer needs stays only as long as its price is high."""
    frozen, batch = frozen_counter(), a_batch()
    frozen.model.requires_grad_(False)

    def smooth(b):
        size = frozen.model.digit(b.tokens.first)[:, 0].square().sum(-1)
        return torch.stack([torch.zeros_like(size), torch.tanh(4 * size)], 1)

    kept = {}
    for start in (0.1, 200.0):
        torch.manual_seed(0)
        p = small(multiplier_init=start, num_steps=150, margin=100.0, methods=["masks"])
        only = frozen._replace(predict=smooth, layers=frozen.layers[:1])
        values = training.attribute_batch("masks", p, only, batch)
        assert values.isfinite().all()
        kept[start] = values[:, 0]  # of the states that `smooth` reads
    assert kept[200.0][:, 0].mean() > 0.7 > 0.3 > kept[0.1][:, 0].mean(), "the first position"
    assert kept[200.0][:, 1:].mean() < 0.3, "no other position has a price"


@pytest.mark.parametrize("estimator", ["relaxed", "score", "score_released"])
def test_every_estimator_fits_a_baseline_of_its_own(estimator):
    """The answer is the mean of the states, whose first entry is 1 everywhere: a baseline of ones changes nothing."""
    frozen, batch = frozen_counter(), a_batch()
    frozen.model.requires_grad_(False)

    def mean(b):
        odds = (frozen.model.digit(b.tokens.first)[..., 0] * b.mask).sum(1) / b.mask.sum(1)
        return torch.stack([torch.zeros_like(odds), 6 * odds], 1)

    with torch.no_grad():
        frozen.model.digit.weight[:, 0] = 1

    def last_distance(learns: bool) -> float:
        torch.manual_seed(0)
        seen = []
        only = frozen._replace(predict=mean)
        options = {"estimator": estimator, "learn_baseline": learns, "watch": lambda *step: seen.append(step[2].mean())}
        explain.masks(only, batch, 0, 100, **options)
        return sum(seen[-20:]).item() / 20

    assert last_distance(True) < last_distance(False) / 2


def test_an_unknown_estimator_is_refused():
    with pytest.raises(ValueError, match="relaxed, score, score_released"):
        explain.masks(frozen_counter(), a_batch(), 0, estimator="straight")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"margin": 0.0}, r"margin: got 0.0, accepted are numbers in \(0, inf\)"),
        ({"rate": -1}, "rate: got -1"),
        ({"multiplier_init": 0.0}, r"multiplier_init: got 0.0, accepted are numbers in \[0.1, 200\]"),
        ({"multiplier_init": math.nan}, "multiplier_init: got nan"),
    ],
)
def test_a_fit_outside_its_ranges_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        explain.masks(frozen_counter(), a_batch(), 0, 1, **changes)


def test_masks_are_compared_with_the_search_text_by_text():
    values = [torch.tensor([[0.9, 0.1]]), torch.tensor([[0.2, 0.3]])]
    solutions = [torch.tensor([[True, False]]), torch.tensor([[True, False]])]
    found = explain.compare_with_search(values, solutions)
    assert found["optimality"].tolist() == found["f1"].tolist() == [1, 0]
    assert found["masked"].tolist() == [0.5, 1] and found["smallest"].tolist() == [1, 1]


def test_a_fitted_mask_is_scored_by_whether_it_meets_the_margin_and_has_settled(tmp_path):
    """Where everything is feasible every mask is, and where nothing but the whole text is, a mask that drops is not."""
    for margin, share in ((100.0, 1.0), (1e-9, 0.0)):
        p, frozen, scores, found, splits = probed(tmp_path, methods=["masks"], num_steps=40, margin=margin)
        one = found["masks"]
        kept = [values[0] > 0.5 for values in one.values["test"]]
        dropping = torch.tensor([not bool(mask.all()) for mask in kept])
        for name in ("feasible", "feasible_draws", "settled"):
            assert one.by_text[name].shape == (len(splits["test"]),) and set(one.by_text[name].tolist()) <= {0, 1}
            assert one.metrics["test"][name] == pytest.approx(one.by_text[name].mean().item())
        assert (one.by_text["feasible"][dropping] == share).all() and (one.by_text["feasible"][~dropping] == 1).all()
        saved.save_probes(tmp_path, scores, found, {"test": splits["test"]}, {"test": torch.zeros(12)}, {}, p)
        rows = saved.read_attributions(tmp_path, "test")
        assert [row["masks"]["feasible"] for row in rows["scores"]] == one.by_text["feasible"].tolist()


def test_a_fit_is_watched_quarter_by_quarter():
    watch = explain.Quarters(8)
    for step in range(1, 9):  # before this step
        watch(step, torch.tensor([[0.9, 0.1 * step]]), torch.tensor([float(step)]))
    found = {after: mask.tolist() for after, mask in watch.masks.items()}
    assert found == {2: [[True, False]], 4: [[True, False]], 6: [[True, True]]}
    assert watch.divergence.tolist() == [7.5], "the mean of the draws of steps 7 and 8"


def test_the_masks_after_half_of_the_steps_are_those_of_a_fit_of_half_as_many(tmp_path):
    *_, whole, _ = probed(tmp_path, methods=["masks"], num_steps=20)
    *_, half, _ = probed(tmp_path, methods=["masks"], num_steps=10)
    kept = [values[:1] > 0.5 for values in half["masks"].values["test"]]
    assert all(a.equal(b) for a, b in zip(kept, whole["masks"].earlier[10], strict=True))
    assert whole["masks"].by_text["feasible_at_10"].equal(half["masks"].by_text["feasible"])
    last = whole["masks"].earlier[15]
    same = [a.equal(b[:1] > 0.5) for a, b in zip(last, whole["masks"].values["test"], strict=True)]
    assert whole["masks"].by_text["settled"].tolist() == same, "padding is no position"


def test_positions_are_averaged_by_their_kind():
    values = [[[1.0, 0.2, 0.4, 0.6], [1.0, 0.0, 0.0, 0.0]], [[0.0, 0.8, 0.2], [0.0, 0.5, 0.1]]]
    found = explain.mean_by_category(values, [["[CLS]", "noun", "verb", "[SEP]"], ["[CLS]", "noun", "[SEP]"]])
    assert found["[CLS]"].tolist() == [0.5, 0.5] and found["[SEP]"].tolist() == pytest.approx([0.4, 0.05])
    assert found["noun"].tolist() == pytest.approx([0.5, 0.25]) and list(found.columns) == sorted(found.columns)
