"""The baseline of texts of one's own, its row in comparisons, and the notes about a model."""

import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from own_files import reviews, write_table

import rationale
from rationale.data import Example, build_vocabulary, packed
from rationale.errors import BadInput
from rationale.explain import told_by_number
from rationale.nn.heads import Classes, Scores
from rationale.runs import compare, results
from rationale.runs.cells import defaults
from rationale.runs.workspace import notebook_path
from rationale.training import Baseline, extraction, notes_about, own_notes, tfidf, train_svm, train_tfidf
from rationale.training.evaluation import Evaluation
from rationale.training.extraction import Result
from tests.finished import select

NAME = "TF-IDF + logistic regression"
CHOSEN = [1.0, 0.0, 0.0, 0.5, 0.0]


def evaluation(right: int, texts: int, z=None, answers=None, score=None) -> Evaluation:
    """Of texts of which the first ones have the right class, 1; they are of five words unless `z` is given."""
    correct = torch.arange(texts) < right
    answer = correct.long() if answers is None else answers
    values = correct.double() if score is None else score
    z = [torch.tensor(CHOSEN)] * texts if z is None else z
    error = (values.std() / texts**0.5).item() if texts > 1 else math.nan
    metric = "accuracy" if answer.dtype == torch.long else "mse"
    return Evaluation({metric: values.mean().item()}, torch.zeros(texts, 2), z, answer, error, error)


def result(dev: Evaluation, test: Evaluation | None = None, has_gates: bool = True, labels=1, **facts) -> Result:
    """A run with these evaluations, of an extractor unless `facts` say otherwise; all its texts have one label."""
    head = Classes(1, 2) if dev.answer.dtype == torch.long else Scores(1, 1)
    facts = {"task": "extraction", "unit": "text", "position": "word", "reads_pieces": False} | facts
    model = SimpleNamespace(head=head, has_gates=has_gates, **facts)
    evaluations = {"dev": dev, "test": test or dev}
    splits = {name: [Example(("a",) * 5, labels)] * len(part.z) for name, part in evaluations.items()}
    return Result(model, None, splits, evaluations, [], {})


def baseline(right: int, texts: int) -> Baseline:
    scores = (np.arange(texts) < right).astype(float)
    return Baseline(NAME, {}, {"dev": scores, "test": scores}, 1.0, 0.1)


# --- the epoch that is kept


@pytest.mark.parametrize("measure", ["training", "expected", "selected"])
def test_an_epoch_is_kept_for_the_words_that_its_model_selects_whatever_the_constraint_measures(
    tmp_path, monkeypatch, measure
):
    used, choose = [], extraction.ModelSelection
    monkeypatch.setattr(
        extraction, "ModelSelection", lambda *args, **options: used.append(options) or choose(*args, **options)
    )
    path = write_table(tmp_path / "reviews.csv", reviews(60))
    rationale.fit(path, epochs=1, hidden_size=4, embedding_size=4, measure=measure, folder=tmp_path / "run")
    assert [options["rate"] for options in used] == ["dev_rate_selected"]


# --- the notes


def test_a_model_without_anything_odd_has_no_note():
    assert notes_about(result(evaluation(800, 1000)), baseline(790, 1000)) == []


def test_too_few_texts_are_told_by_the_interval_of_the_dev_score():
    (note,) = notes_about(result(evaluation(15, 20)))
    error = np.std([1] * 15 + [0] * 5, ddof=1) / 20**0.5
    needed = next(n for n in range(21, 1000) if 1.96 * (0.75 * 0.25 / (n - 1)) ** 0.5 <= 0.08)
    ends = f"({0.75 - 1.96 * error:.2g} to {0.75 + 1.96 * error:.2g}, 95 %)"
    assert note.startswith(f"too few texts: dev accuracy is 0.75 {ends} with 20 texts; label more")
    wanted = f"label more: for ± 0.08 dev needs about {needed}, and all splits together {2 * needed}"
    assert note.endswith(wanted) and needed > 100, "dev and test are equally large here, and there is no train"
    more = -(-needed // 4)  # so that 3 of 4 texts have a right answer again
    assert (
        notes_about(result(evaluation(3 * more, 4 * more)))
        == []
        != notes_about(result(evaluation(3 * more - 3, 4 * more - 4)))
    )


@pytest.mark.parametrize("texts", [2, 4, 30])
def test_however_few_texts_dev_has_the_number_that_it_needs_is_the_same(texts):
    """Of an accuracy of 1/2, whose interval is 1.96 sqrt(1/4 / (n - 1)) wide on each side."""
    (note,) = notes_about(result(evaluation(texts // 2, texts)))
    assert "for ± 0.08 dev needs about 152, " in note
    assert 1.96 * (0.25 / 151) ** 0.5 < 0.08 < 1.96 * (0.25 / 150) ** 0.5


def test_a_perfect_score_of_few_texts_is_known_well_with_the_number_that_the_note_names():
    for texts in (2, 22):
        (note,) = notes_about(result(evaluation(texts, texts)))
        assert note.endswith("for ± 0.08 dev needs about 45, and all splits together 90")
    assert notes_about(result(evaluation(45, 45))) == [] != notes_about(result(evaluation(44, 44)))


def test_a_single_dev_text_and_texts_with_one_score_are_too_few():
    (one,) = notes_about(result(evaluation(1, 1)))
    assert one == "too few texts: dev accuracy 1 is that of 1 text; label more texts"


def test_texts_that_a_run_leaves_out_count_among_those_that_are_there(tmp_path):
    """Of 30 dev texts among 200, whatever `num_train` and `num_dev` use."""
    rows = reviews(200)
    for name, part in {"train": rows[:150], "dev": rows[150:180], "test": rows[180:]}.items():
        write_table(tmp_path / "own" / f"{name}.csv", part)
    told = []
    for used in ({}, {"num_train": 20}):
        model = rationale.fit(tmp_path / "own", epochs=1, hidden_size=4, embedding_size=4, quiet=True, **used)
        told += [re.search(r"label more: .* about (\d+), and all splits together ([\d,]+)", "\n".join(model.notes))]
        needed, together = (int(number.replace(",", "")) for number in told[-1].groups())
        assert together == needed * 200 // 30, used


def test_dev_texts_that_a_run_leaves_out_are_used_before_others_are_labelled():
    def told(texts, there):
        (note,) = notes_about(result(evaluation(texts // 2, texts)), sizes={"train": 800, "dev": there, "test": 100})
        return note.split(", 95 %) with ")[-1]

    assert told(30, 152) == "30 texts; give num_dev=0: for ± 0.08 dev needs about 152, and has 152"
    most = "for ± 0.08 dev needs about 152, and all splits together"
    assert told(30, 100) == f"30 texts; give num_dev=0 and label more: {most} 1,520"
    assert told(100, 100) == f"100 texts; label more: {most} 1,520"
    (one,) = notes_about(result(evaluation(1, 1)), sizes={"train": 800, "dev": 2, "test": 100})
    assert one == "too few texts: dev accuracy 1 is that of 1 text; give num_dev=0"


def test_a_squared_error_is_known_relative_to_itself():
    errors = torch.tensor([0.0, 0.2] * 4)
    scored = evaluation(0, 8, answers=errors.sqrt().unsqueeze(1), score=errors.double())
    (note,) = notes_about(result(scored, labels=(0.0,)))
    assert note.startswith("too few texts: dev mse is 0.1 (0.") and "with 8 texts" in note
    many = errors.repeat(100)
    scored = evaluation(0, 800, answers=many.sqrt().unsqueeze(1), score=many.double())
    assert notes_about(result(scored, labels=(0.0,))) == []


def test_no_interval_of_an_accuracy_begins_below_zero():
    known = result(evaluation(1, 20))
    known.splits["dev"] = [Example(("a",), i % 2) for i in range(20)]
    known.evaluations["dev"].answer[:2] = torch.tensor([0, 1])
    (note,) = [note for note in notes_about(known) if "chance" in note]
    assert "dev accuracy 0.05 may be chance: its 95 % interval begins at 0, and" in note


def test_a_model_whose_answer_is_always_the_same_class_has_learned_nothing():
    same = evaluation(600, 1000, answers=torch.ones(1000, dtype=torch.long), score=(torch.arange(1000) < 600).double())
    mixed = result(same)
    mixed.splits["dev"] = [Example(("a",), int(i < 600)) for i in range(1000)]
    (note,) = notes_about(mixed)
    told = "every answer to dev is the same class, which is right for 60% of its 1,000 texts: the model has learned"
    assert note.startswith(told) and "vectors=" in note
    assert notes_about(result(same)) == [], "dev has no other class"


@pytest.mark.parametrize(("right", "is_chance"), [(540, False), (530, True), (500, True), (300, True)])
def test_a_model_that_may_be_no_better_than_the_most_frequent_class_says_so(right, is_chance):
    """Of 1,000 texts, half of them of each class, 1.96 standard errors are 3.1 points."""
    known = result(evaluation(right, 1000))
    known.splits["dev"] = [Example(("a",), i % 2) for i in range(1000)]
    known.evaluations["dev"].answer[:] = torch.arange(1000) % 2
    known.evaluations["dev"].answer[right:] = 1 - torch.arange(right, 1000) % 2
    notes = notes_about(known)
    assert len(notes) == is_chance
    if is_chance:
        begins = right / 1000 - 1.96 * (right / 1000 * (1 - right / 1000) / 1000) ** 0.5
        told = f"dev accuracy {right / 1000:.3g} may be chance: its 95 % interval begins at {begins:.2g}, and the most "
        assert notes[0].startswith(f"{told}frequent class alone reaches 0.5; give word vectors")


def test_a_class_that_is_never_the_answer_is_named_with_its_number_of_texts():
    labels = torch.tensor([0, 1] * 480 + [2] * 36 + [3] * 4)
    known = result(evaluation(960, 1000, answers=labels.where(labels < 2, 0)))
    known.splits["dev"] = [Example(("a",), label) for label in labels.tolist()]
    (note,) = notes_about(known, names=["bad", "good", "so, so", "unknown"])
    assert note.startswith(
        "the answer to none of the 1,000 texts of dev is the class 'so, so' (36 texts of dev have it)"
    )
    assert "; give class_weight=balanced, or label more texts of it" in note
    known.model.head.class_weights, known.evaluations["dev"].metrics["balanced_accuracy"] = torch.ones(4), 0.5
    weighted = [note for note in notes_about(known) if "have it); label more texts of it" in note]
    assert len(weighted) == 1, "the classes have weights already"
    known.model.head.class_weights = None
    known.evaluations["dev"].answer[-1] = 2
    assert notes_about(known) == [], "a single answer is one, and four texts are too few to miss a class"
    counts = {0: 20, 1: 880, 2: 30, 3: 40, 4: 30}
    label = torch.tensor([label for label, count in counts.items() for _ in range(count)])
    several = own_notes.why_missed(label * 0 + 1, label, "ADVICE")
    classes = ", ".join(f"{i} ({counts[i]} texts of dev have it)" for i in (0, 2, 3))
    assert f"is one of the classes {classes}, and 1 more; give class_weight=balanced, or label" in several
    assert several.endswith("label more texts of them")


@pytest.mark.parametrize(("share", "is_rare"), [(334, False), (270, False), (240, True), (50, True)])
def test_only_of_a_class_that_is_rare_more_texts_are_to_be_labelled(share, is_rare):
    """Of three classes, each of which would have 333 of 1,000 texts if all were equally frequent."""
    labels = torch.tensor([2] * share + [i % 2 for i in range(1000 - share)])
    known = result(evaluation(1000 - share, 1000, answers=labels.where(labels < 2, 0)))
    known.splits["dev"] = [Example(("a",), label) for label in labels.tolist()]
    (note,) = notes_about(known)
    assert note.startswith(
        f"the answer to none of the 1,000 texts of dev is the class 2 ({share} texts of dev have it); "
    )
    assert note.endswith("label more texts of it") == is_rare == ("class_weight=balanced" in note)
    assert is_rare or (note.endswith(f"; {own_notes.advice_for(known)}") and "more epochs" in note)


def test_a_model_that_is_worse_than_the_baseline_says_by_how_much_and_what_to_do():
    (note,) = notes_about(result(evaluation(700, 1000)), baseline(760, 1000))
    error = np.std([1] * 60 + [0] * 940, ddof=1) / 1000**0.5  # of the difference, text by text
    assert note.startswith(f"worse than the baseline on dev: accuracy 0.7, {NAME} 0.76, a difference of 0.06 with a")
    assert f"standard error of {error:.2g}" in note and "vectors=" in note and "encoder=minilm" in note
    assert notes_about(result(evaluation(700, 1000)), baseline(703, 1000)) == [], "within 1.96 standard errors"
    assert notes_about(result(evaluation(700, 1000)), baseline(704, 1000)), "and beyond"
    assert notes_about(result(evaluation(760, 1000)), baseline(700, 1000)) == [], "better"


def balanced_result(right: dict[int, int], texts: dict[int, int]) -> Result:
    """A run that is chosen by the balanced accuracy, with so many texts and right answers of each class."""
    labels = torch.tensor([label for label, count in texts.items() for _ in range(count)])
    correct = torch.tensor([float(i < right[label]) for label, count in texts.items() for i in range(count)])
    dev = evaluation(0, len(labels), answers=labels.where(correct == 1, 1 - labels), score=correct.double())
    shares = {label: right[label] / count for label, count in texts.items()}
    variance = sum(share * (1 - share) / (texts[label] - 1 or math.nan) for label, share in shares.items())
    dev.metrics["balanced_accuracy"], dev.chosen_error = sum(shares.values()) / 2, variance**0.5 / 2
    found = result(dev)
    found.model.head.class_weights = torch.ones(2)
    found.splits["dev"] = [Example(("a",) * 5, label) for label in labels.tolist()]
    return found


def balanced_baseline(right: dict[int, int], texts: dict[int, int]) -> Baseline:
    scores = np.array([float(i < right[label]) for label, count in texts.items() for i in range(count)])
    return Baseline(NAME, {}, {"dev": scores, "test": scores}, 1.0, 0.1)


def test_notes_about_a_run_with_balanced_classes_compare_by_the_balanced_accuracy_and_name_it():
    texts = {0: 4500, 1: 500}
    mine, theirs = {0: 2700, 1: 400}, {0: 4410, 1: 50}  # accuracy 0.62 and 0.892, balanced 0.7 and 0.54
    assert notes_about(balanced_result(mine, texts), balanced_baseline(theirs, texts)) == []
    (note,) = notes_about(balanced_result(theirs, texts), balanced_baseline(mine, texts))
    assert note.startswith(f"worse than the baseline on dev: balanced accuracy 0.54, {NAME} 0.7, a difference of 0.16")
    of_class = [np.array([-1] * 1710 + [0] * 2790), np.array([1] * 350 + [0] * 150)]
    error = sum(part.var(ddof=1) / len(part) for part in of_class) ** 0.5 / 2
    assert f"with a standard error of {error:.2g};" in note


def test_a_balanced_accuracy_of_few_texts_is_told_with_its_own_error():
    texts, right = {0: 90, 1: 10}, {0: 81, 1: 6}
    (note,) = notes_about(balanced_result(right, texts))
    error = (0.9 * 0.1 / 89 + 0.6 * 0.4 / 9) ** 0.5 / 2
    ends = f"({0.75 - 1.96 * error:.2g} to {0.75 + 1.96 * error:.2g}, 95 %)"
    assert note.startswith(f"too few texts: dev balanced accuracy is 0.75 {ends} with 100 texts")
    times = next(k for k in range(1, 99) if 1.96 * (0.09 / (90 * k - 1) + 0.24 / (10 * k - 1)) ** 0.5 / 2 <= 0.08)
    needed = int(note.partition("dev needs about ")[2].partition(", and")[0])
    assert 100 * (times - 1) < needed < 100 * (times + 1), "as many times the texts of each class"


@pytest.mark.parametrize("right", [{0: 900, 1: 5}, {0: 850, 1: 5}, {0: 850, 1: 0}])
def test_a_class_of_few_texts_that_are_all_right_or_all_wrong_is_not_known_well(right):
    (note,) = [note for note in notes_about(balanced_result(right, {0: 900, 1: 5})) if note.startswith("too few")]
    half = 1.96**2 / (5 + 1.96**2) / 2  # Wilson's interval of 5 of 5, for one of two classes
    score = (right[0] / 900 + right[1] / 5) / 2
    low, high = float(f"{max(0, score - half):.2g}"), float(f"{min(1, score + half):.2g}")
    told = re.fullmatch(
        r"too few texts: dev balanced accuracy is \S+ \((\S+) to (\S+), 95 %\) with 905 texts; .*", note
    )
    assert [float(end) for end in told.groups()] == pytest.approx([low, high], abs=0.011)
    many = {0: 2 * right[0], 1: 100 * right[1]}
    assert not [note for note in notes_about(balanced_result(many, {0: 1800, 1: 500})) if note.startswith("too few")]


def test_with_a_single_dev_text_of_a_class_a_difference_has_the_error_of_both_intervals():
    texts = {0: 900, 1: 1}
    few, _, worse = notes_about(balanced_result({0: 450, 1: 0}, texts), balanced_baseline(texts, texts))
    assert few.startswith("too few texts: dev balanced accuracy is 0.25 (0 to 0.65, 95 %)")
    of_one = 1.96 / (1 + 1.96**2)  # the width of Wilson's interval of a single text, in standard errors
    error = math.sqrt(2 * of_one**2 + 0.25 / 899) / 2
    assert f"a difference of 0.75 with a standard error of {error:.2g};" in worse
    few, chance = notes_about(balanced_result({0: 700, 1: 0}, texts), balanced_baseline({0: 800, 1: 1}, texts))
    assert few.startswith("too few texts"), "0.56 better, but 1.96 standard errors are 0.57"
    assert "0.389 may be chance: " in chance and "the most frequent class alone reaches 0.5; " in chance


def test_a_model_with_one_answer_and_few_texts_is_not_worse_than_a_baseline_by_a_difference_without_error():
    texts = {0: 17, 1: 3}
    notes = notes_about(balanced_result({0: 17, 1: 0}, texts), balanced_baseline({0: 17, 1: 2}, texts))
    assert not [note for note in notes if note.startswith("worse")]
    notes = notes_about(balanced_result({0: 17, 1: 0}, texts), balanced_baseline({0: 17, 1: 3}, texts))
    halves = [1.96 / (count + 1.96**2) for count in texts.values()]
    error = math.sqrt(2) * math.hypot(*halves) / 2
    assert (0.5 > 1.96 * error) == any(note.startswith("worse") for note in notes)


def test_a_model_with_a_pretrained_encoder_is_not_told_to_take_one():
    worse = result(evaluation(600, 1000))
    worse.model.reads_pieces = True
    (note,) = notes_about(worse, baseline(800, 1000))
    assert "encoder=" not in note and "vectors=" not in note
    assert "give a smaller pretrained_learning_rate, more epochs" in note


def test_a_run_that_stopped_by_itself_is_not_told_to_take_more_epochs_alone():
    stopped = result(evaluation(600, 1000))
    stopped.converged = 7
    (note,) = notes_about(stopped, baseline(800, 1000))
    assert "encoder=minilm, stop_after=0 and more epochs or a larger selection" in note
    stopped.model.has_gates = False
    (note,) = notes_about(stopped, baseline(800, 1000))
    assert note.endswith("encoder=minilm or stop_after=0 and more epochs"), "it has no selection"


def test_notes_about_pairs_name_pairs_and_cells_and_no_setting_that_pairs_lack():
    of_pairs = {"task": "alignment", "unit": "pair", "position": "cell"}
    (note,) = notes_about(result(evaluation(15, 20), **of_pairs))
    assert note.startswith("too few pairs: dev accuracy is 0.75 (0.") and "with 20 pairs; label more" in note
    shut = [torch.zeros(6)] * 1000
    (note,) = notes_about(result(evaluation(800, 1000, shut), **of_pairs))
    assert "no cell is selected in 100% of the dev pairs" in note
    labels = torch.tensor([0, 1] * 480 + [2] * 40)
    missed = result(evaluation(960, 1000, answers=labels.where(labels < 2, 0)), **of_pairs)
    missed.splits["dev"] = [Example(("a",), label) for label in labels.tolist()]
    (note,) = notes_about(missed)
    assert "the answer to none of the 1,000 pairs" in note and "class_weight" not in note
    constant = own_notes.why_constant(labels * 0, labels, own_notes.advice_for(missed), "pair")
    assert "of its 1,000 pairs" in constant and "encoder=" not in constant and "vectors=" in constant


@pytest.mark.parametrize(("error", "worse"), [(0.105, True), (0.3, False)])
def test_of_two_models_of_scores_the_one_with_the_larger_error_is_worse(error, worse):
    answers = torch.tensor([[0.4], [0.5]]).repeat(500, 1)
    mine = evaluation(0, 1000, answers=answers, score=answers.double().square().squeeze(1))
    scores = -np.tile([error - 0.01, error + 0.01], 500)
    notes = notes_about(result(mine, labels=(0.0,)), Baseline("TF-IDF + ridge regression", {}, {"dev": scores}, 1, 1))
    assert [note.split(",")[0] for note in notes] == ["worse than the baseline on dev: mse 0.205"] * worse
    assert not worse or "TF-IDF + ridge regression 0.105, a difference of 0.1 with" in notes[0]


@pytest.mark.parametrize(
    ("value", "what", "advice"), [(0.0, "no word", "start=target"), (1.0, "every word", "a smaller selection")]
)
def test_gates_that_have_collapsed_are_told_by_the_share_of_texts(value, what, advice):
    z = [torch.full((5,), value)] * 600 + [torch.tensor(CHOSEN)] * 400
    (note,) = notes_about(result(evaluation(800, 1000, z)))
    assert note.startswith(f"the gates have collapsed: {what} is selected in 60% of the dev texts; try ")
    assert advice in note
    collapsed = result(evaluation(800, 1000, z))
    collapsed.model.selector = SimpleNamespace(gate=SimpleNamespace(can_start=lambda: False))
    assert "start=target" not in notes_about(collapsed)[0], "this gate would refuse it"
    collapsed.model.selector = None
    assert "start=target" not in notes_about(collapsed, is_started=True)[0], "these gates have done so"
    assert notes_about(result(evaluation(800, 1000, z), has_gates=False)) == [], "a model without gates cannot"
    assert notes_about(result(evaluation(600, 700, z[300:]))) == [], "300 of 700 texts are not most of them"


def test_a_rate_that_is_another_in_test_is_told_and_one_that_is_nearly_the_same_is_not():
    def words(number):
        return [torch.tensor([1.0] * number + [0.0] * (10 - number))] * 800

    dev = evaluation(700, 800, z=words(4))
    assert not notes_about(result(dev, evaluation(700, 800, z=words(5))))
    (note,) = notes_about(result(dev, evaluation(700, 800, z=words(6))))
    assert "60.0% of the words of test are selected, and 40.0% of those of dev; label more texts" in note


def test_a_rationale_whose_number_of_words_tells_the_answer_is_a_code():
    answers = torch.arange(1000) % 2
    z = [torch.tensor([1.0] * (20 + 20 * int(a)) + [0.0] * 60) for a in answers]
    (note,) = notes_about(result(evaluation(800, 1000, z, answers, (torch.arange(1000) % 5 > 0).double())))
    assert note.startswith("the rationale is a code: the number of selected words alone tells 100% of the answers")
    assert "the most frequent answer alone 50%" in note and "another seed" in note
    mixed = [torch.tensor([1.0] * (20 + 20 * (i // 2 % 2)) + [0.0] * 60) for i in range(1000)]
    assert notes_about(result(evaluation(800, 1000, mixed, answers, (torch.arange(1000) % 5 > 0).double()))) == []


def test_a_perfect_score_of_few_texts_says_that_they_are_few():
    (right,), (wrong,) = notes_about(result(evaluation(22, 22))), notes_about(result(evaluation(0, 2)))
    assert right.startswith("too few texts: dev accuracy is 1 (0.85 to 1, 95 %)"), "no accuracy is above 1"
    assert wrong.startswith("too few texts: dev accuracy is 0 (0 to 0.66, 95 %)")
    assert notes_about(result(evaluation(100, 100))) == []


def test_what_a_number_tells_is_learned_on_other_texts_than_it_is_asked_about():
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(0, 90, (400,), generator=generator)
    answers = torch.randint(0, 2, (400,), generator=generator)
    told = told_by_number(counts[:200], answers[:200], counts[200:], answers[200:])
    by_hand = 0
    edges = sorted(set(np.quantile(counts[:200].numpy(), np.linspace(0.1, 0.9, 9))))
    of = [np.searchsorted(edges, count) for count in counts.tolist()]
    for i in range(200, 400):
        seen = [answers[j].item() for j in range(200) if of[j] == of[i]]
        by_hand += (seen.count(1) > seen.count(0)) == answers[i].item()
    assert told == pytest.approx(by_hand / 200) and abs(told - 0.5) < 0.15, "chance, as answers are"


# --- the baseline


def test_the_baseline_is_that_of_scikit_learn_with_the_best_penalty_on_dev():
    sklearn = pytest.importorskip("sklearn.linear_model")
    from sklearn.feature_extraction.text import TfidfVectorizer

    splits = {"train": [], "dev": [], "test": []}
    generator = np.random.default_rng(0)
    for name, count in (("train", 120), ("dev", 40), ("test", 40)):
        for _ in range(count):
            words = generator.choice(["not", "good", "Bad", "film", "plot", "so"], 6)
            label = int(("good" in words) ^ (generator.random() < 0.2))
            splits[name].append(Example(tuple(map(str, words)), label))
    fitted = train_tfidf(splits, "classes")
    texts = {name: [" ".join(e.tokens) for e in part] for name, part in splits.items()}
    target = {name: [e.label for e in part] for name, part in splits.items()}
    vectorizer = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)
    inputs = vectorizer.fit_transform(texts["train"])
    machines = {c: sklearn.LogisticRegression(C=c, max_iter=1000).fit(inputs, target["train"]) for c in tfidf.COSTS}
    dev = {c: one.score(vectorizer.transform(texts["dev"]), target["dev"]) for c, one in machines.items()}
    assert fitted.metrics["dev"]["accuracy"] == pytest.approx(max(dev.values()))
    assert dev[fitted.cost] == max(dev.values())
    own = machines[fitted.cost].score(vectorizer.transform(texts["test"]), target["test"])
    assert fitted.metrics["test"]["accuracy"] == pytest.approx(own) and own > 0.6
    assert fitted.scores["test"].mean() == pytest.approx(own) and len(fitted.scores["dev"]) == 40


def test_the_baseline_of_pairs_knows_in_which_text_a_word_stands_and_compares_nothing():
    """A label that one side tells is learned; one that needs both sides compared (are they equal?) is not."""
    pytest.importorskip("sklearn")
    generator = np.random.default_rng(0)

    def pairs(count, label):
        sides = generator.integers(0, 2, (count, 2)).tolist()
        return [Example(("it", f"word{a}"), label(a, b), second=("it", f"word{b}")) for a, b in sides]

    for label, least, most in ((lambda _, b: b, 1.0, 1.0), (lambda a, b: int(a == b), 0.3, 0.8)):
        splits = {"train": pairs(300, label), "dev": pairs(100, label), "test": pairs(100, label)}
        assert least <= train_tfidf(splits, "classes").metrics["test"]["accuracy"] <= most


def test_the_baseline_can_count_rare_classes_as_much_as_frequent_ones():
    metrics = pytest.importorskip("sklearn.metrics")
    generator, splits = np.random.default_rng(0), {"train": [], "dev": [], "test": []}
    for name, count in (("train", 300), ("dev", 100), ("test", 100)):
        for i in range(count):
            words = generator.choice(["film", "plot", "so", "good"], 5).tolist()
            label = int(i % 10 == 0)
            splits[name].append(Example((*words, "bad" if label and i % 20 else "so"), label))
    plain, balanced = (train_tfidf(splits, "classes", weight) for weight in ("none", "balanced"))
    assert set(plain.metrics["test"]) == {"accuracy"}
    target = [example.label for example in splits["test"]]
    answers = [label if right else 1 - label for label, right in zip(target, balanced.scores["test"], strict=True)]
    told = metrics.balanced_accuracy_score(target, answers)
    assert balanced.metrics["test"]["balanced_accuracy"] == pytest.approx(told)
    assert balanced.metrics["test"]["accuracy"] == pytest.approx(balanced.scores["test"].mean())


def test_the_baseline_of_scores_is_clipped_and_better_than_the_mean():
    pytest.importorskip("sklearn")
    words = ["zero", "half", "full"]
    splits = {
        name: [Example((words[i % 3], "film"), (i % 3 / 2,)) for i in range(count)]
        for name, count in (("train", 60), ("dev", 30), ("test", 30))
    }
    fitted = train_tfidf(splits, "scores")
    assert fitted.name.endswith("ridge regression") and set(fitted.metrics["dev"]) == {"mse"}
    assert train_tfidf(splits, "scores", "balanced").metrics == fitted.metrics, "scores have no classes to be balanced"
    assert fitted.metrics["test"]["mse"] == -fitted.scores["test"].mean()
    assert 0 <= fitted.metrics["test"]["mse"] < 0.01 < np.var([0, 0.5, 1])


def of_unlike_words(count):
    """Texts of which none has a word of another one, as those of a language without spaces may be."""
    return [Example((f"word{i}",), i % 2) for i in range(count)]


def test_texts_that_share_no_word_have_a_baseline_and_no_trained_words(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(packed, "MANY", 30)
    splits = {"train": of_unlike_words(40), "dev": of_unlike_words(60)[50:], "test": of_unlike_words(60)[50:]}
    assert train_tfidf(splits, "classes").metrics["dev"] == {"accuracy": 0.5}, "it knows the classes alone"
    with pytest.raises(BadInput, match="none of the words of 40 training texts occurs twice.*accepted: texts with"):
        build_vocabulary(splits, "random", trained=True)
    with pytest.raises(BadInput, match="model: svm cannot be fitted, because none of the words of 40 training texts"):
        train_svm(SimpleNamespace(seed=1, budget=0.2), splits, "classes", 2)


def test_without_scikit_learn_a_model_is_fitted_and_a_note_says_what_is_missing(tmp_path, monkeypatch, capsys):
    def missing(*_):
        raise BadInput("TF-IDF + logistic regression: needs the package sklearn; pip install 'rationale-kuma[texts]'")

    monkeypatch.setattr("rationale.runs.fit.train_tfidf", missing)
    path = write_table(tmp_path / "r.csv", reviews(60))
    small = {"embedding_size": 8, "hidden_size": 6, "epochs": 1, "device": "cpu"}
    assert rationale.fit(path, **small)(["a warm film"])
    line = "note: no baseline beside the model: TF-IDF + logistic regression: needs the package sklearn"
    assert line in capsys.readouterr().out


def test_fit_writes_the_baseline_and_prints_the_notes_with_their_numbers(tmp_path, capsys):
    pytest.importorskip("sklearn")
    path = write_table(tmp_path / "r.csv", reviews(60))
    small = {"embedding_size": 8, "hidden_size": 6, "epochs": 1, "device": "cpu"}
    rationale.fit(path, folder=tmp_path / "run", **small)
    written = json.loads((tmp_path / "run" / "baseline.json").read_text())
    assert written["name"] == NAME and set(written["dev"]) == set(written["test"]) == {"accuracy"}
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: too few texts: dev")]
    assert len(printed) == 1 and "with 6 texts" in printed[0]


# --- a row of every comparison


def own_run(outputs, name, baseline_score=0.85, **changes):
    folder = outputs / "17_train_own_texts" / name
    folder.mkdir(parents=True)
    p = defaults(notebook_path("17_train_own_texts")) | {"corpus": "r.csv", "seed": 1} | changes
    scores = {"accuracy": 0.8, "rate_expected": 0.2, "rate_selected": 0.2}
    metrics = {"dev": scores, "test": scores, "best_epoch": 2, "seconds": 3.5}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "params.yaml").write_text(yaml.safe_dump(p))
    (folder / "environment.txt").write_text("commit: 0123456789abcdef\ndevice: cpu\n")
    part = {"accuracy": baseline_score}
    written = {"name": NAME, "dev": part, "test": part, "cost": 1.0, "seconds": 0.5}
    (folder / "baseline.json").write_text(json.dumps(written))
    select(folder, [[1.0, 0.0, 0.0], [0.0, 0.3]])
    return folder


def test_the_baseline_is_one_row_of_a_comparison_whatever_differs_between_the_runs(tmp_path):
    changes = [{"seed": 1}, {"seed": 2}, {"seed": 1, "selection": 0.4}, {"seed": 1, "learning_rate": 0.01}]
    runs = [own_run(tmp_path, f"r{i}", **change) for i, change in enumerate(changes)]
    table = compare.summary(compare.rows_of(*runs), ["accuracy"])
    rows = table[table["model"] == "tfidf"]
    assert len(rows) == 1 and rows["accuracy"].item() == 0.85 and rows["target"].item() == 1.0
    assert rows["learning_rate"].isna().all(), "a setting of the network has no effect on it"
    assert sorted(table.loc[table["model"] == "hardkuma", "seeds"]) == [1, 1, 2]


def test_baselines_on_other_texts_are_other_rows(tmp_path):
    runs = [own_run(tmp_path, "a"), own_run(tmp_path, "b", 0.7, num_train=500)]
    runs.append(own_run(tmp_path, "c", 0.6, corpus="q.csv"))
    table = compare.summary(compare.rows_of(*runs), ["accuracy"])
    assert sorted(table.loc[table["model"] == "tfidf", "accuracy"]) == [0.6, 0.7, 0.85]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_baseline_whose_classes_have_weights_is_another_row_in_any_order(tmp_path, order):
    runs = [own_run(tmp_path, "plain"), own_run(tmp_path, "balanced", 0.7, class_weight="balanced")]
    table = compare.summary(compare.rows_of(*(runs[i] for i in order)), ["accuracy"])
    rows = table[table["model"] == "tfidf"].set_index("class_weight")["accuracy"]
    assert rows.to_dict() == {"none": 0.85, "balanced": 0.7}


def test_results_shows_the_baseline_beside_the_models(tmp_path, capsys):
    runs = [own_run(tmp_path, f"s{rate}", selection=rate) for rate in (0.1, 0.2)]
    code = results.main([*map(str, runs), "--by", "selection", "--metric", "accuracy", "--out", str(tmp_path / "out")])
    out = capsys.readouterr().out
    assert code == 0 and sum(line.split()[:1] == ["tfidf"] for line in out.splitlines()) == 1
    assert (tmp_path / "out" / "accuracy_by_selection.csv").is_file()


def test_a_damaged_baseline_is_named(tmp_path):
    run = own_run(tmp_path, "a")
    (run / "baseline.json").write_text('{"name": "x"}')
    with pytest.raises(BadInput, match=r"baseline.json: damaged"):
        compare.rows_of(run)
