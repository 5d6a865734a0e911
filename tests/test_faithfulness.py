"""Faithfulness of a run: every number against a plain loop over the texts, and rationales whose value is known."""

import itertools
import json
import math
import shutil
from dataclasses import replace

import pandas as pd
import pytest
import torch
from sklearn.metrics import auc, f1_score, precision_recall_curve
from small import classified, corpus, parameters, train
from torch import nn

from rationale import training
from rationale.data import Batches, Example, Vocabulary
from rationale.errors import BadInput
from rationale.explain import (
    BUDGETS,
    count_leak,
    empty_rationale_states,
    faithfulness_scores,
    gold_agreement,
    length_leak,
    told_by_number,
)
from rationale.metrics import agreement, calibration_error, rationale_scores
from rationale.models import build_extractor
from rationale.nn import top_k
from rationale.progress import REST, RUN_DIR, read_progress
from rationale.runs.faithfulness import judge_finished, main, measure_faithfulness
from rationale.runs.folder import WorkFolder, read_digests, unlike_digests, write_digests
from rationale.runs.saved import load_run, read_rationales, save_run
from tests import test_aligner as aligners

WORDS = [f"w{i}" for i in range(18)]
ERASER = {"sufficiency", "comprehensiveness"}
COUNT = {"count_tells", "answer_share", "empty", "first_words"}
AVERAGED = {f"{name}_aopc" for name in ERASER}


def texts(lengths: list[int], seed: int = 0) -> list[Example]:
    chosen = torch.Generator().manual_seed(seed)

    def draw(high: int, n: int) -> list[int]:
        return torch.randint(0, high, (n,), generator=chosen).tolist()

    return [Example(tuple(WORDS[i] for i in draw(18, n)), draw(3, 1)[0]) for n in lengths]


def model_and_batches(lengths=(6, 4, 1, 9, 3), **changes):
    """A model with weights large enough that every word changes a prediction, and texts in batches."""
    torch.manual_seed(0)
    model = build_extractor(parameters(**changes), torch.randn(20, 8), "classes", 3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.7)
    return model, Batches(texts(list(lengths)), Vocabulary(WORDS), 2)


# --- agreement with what people marked


def test_the_agreement_with_marks_is_that_of_a_loop_over_texts_and_of_scikit_learn():
    model, batches = model_and_batches(lengths=(6, 4, 9, 1, 12, 5))
    draws = torch.Generator().manual_seed(3)
    gold = [(torch.rand(len(e.tokens), generator=draws) < 0.5).int().tolist() for e in batches.examples]
    gold[1], gold[3] = None, [0]  # nobody marked the one, and no word of the other
    f1, areas, words = [], [], []
    for example, marks in zip(batches.examples, gold, strict=True):
        if marks and any(marks):
            tokens = torch.tensor([batches.vocabulary.encode(example.tokens)])
            z, importance = model.chosen(tokens, torch.ones_like(tokens).bool())
            ours, theirs = spans((z[0] != 0).tolist()), spans(marks)
            shared = sum(any(2 * len(a & b) >= len(a | b) for b in theirs) for a in ours)
            f1.append(min(1, 2 * shared / (len(ours) + len(theirs))))
            precision, recall, _ = precision_recall_curve(marks, importance[0].numpy())
            areas.append(auc(recall, precision))
            words.append(f1_score(marks, z[0] != 0))
    assert f1 and sum(f1), "a passage agrees with a marked one"
    found = gold_agreement(model, batches, gold)
    assert found["span_f1_macro"].tolist() == pytest.approx(f1)
    assert found["auprc"].tolist() == pytest.approx(areas)
    assert found["f1_macro"].tolist() == pytest.approx(words)
    assert gold_agreement(model, batches, [None] * len(gold)) == {}


def spans(flags: list[int]) -> list[set[int]]:
    """The places of each unbroken run of flags."""
    runs = [list(group) for flag, group in itertools.groupby(range(len(flags)), key=lambda t: bool(flags[t])) if flag]
    return [set(run) for run in runs]


# --- faithfulness


@torch.no_grad()
def text_by_text(model, batches) -> dict[str, float]:
    """`faithfulness_scores` one text at a time, from whole words: those kept, and those left, with every gate 1."""
    sums: dict[str, float] = {}
    by_rationale = []
    for example in batches.examples:
        tokens = torch.tensor([batches.vocabulary.encode(example.tokens)])
        mask = torch.ones_like(tokens, dtype=torch.bool)

        def probability(z, tokens=tokens, mask=mask):
            return model.predictor(model.embed(tokens), mask, torch.tensor([z])).softmax(1)[0].tolist()

        whole = probability([1.0] * len(example.tokens))
        answer = whole.index(max(whole))
        found = {"accuracy_whole": float(answer == example.label)}
        cases = [("", model(tokens, mask).z[0].tolist(), 1)]
        by_rationale.append(probability(cases[0][1]))
        if model.ranks_words:
            scores = model.importance(tokens, mask)[0].tolist()
            for budget in BUDGETS:
                k = max(1, round(budget * len(scores)))
                top = sorted(range(len(scores)), key=lambda t, scores=scores: -scores[t])[:k]
                cases.append(("_aopc", [float(t in top) for t in range(len(scores))], len(BUDGETS)))
        for name, z, among in cases:
            rest = [float(value == 0) for value in z]
            for what, shown in (("sufficiency", z), ("comprehensiveness", rest)):
                drop = (whole[answer] - probability(shown)[answer]) / among
                found[what + name] = found.get(what + name, 0.0) + drop
        for name, value in found.items():
            sums[name] = sums.get(name, 0.0) + value / len(batches.examples)
    targets = torch.tensor([example.label for example in batches.examples])
    return sums | {"calibration_error": calibration_error(torch.tensor(by_rationale), targets)}


MODELS = [
    {"model": "hardkuma"},
    {"model": "hardkuma", "predictor": "compact"},
    {"model": "hard_concrete", "rule": "expected", "pool": "mean"},
    {"model": "bernoulli", "rule": "top_k", "budget": 0.3},
    {"model": "bernoulli", "dependent": True},
    {"model": "attention"},
    {"model": "attention", "rule": "top_k", "budget": 0.3, "predictor": "compact"},
    {"model": "full_text"},
]


@pytest.mark.parametrize("changes", MODELS, ids=lambda changes: "-".join(map(str, changes.values())))
def test_faithfulness_is_the_plain_loop_over_the_texts(changes):
    model, batches = model_and_batches(**changes)
    found, expected = faithfulness_scores(model, batches), text_by_text(model, batches)
    assert found == pytest.approx(expected, abs=1e-5)
    ranks = changes["model"] != "full_text"
    assert set(found) == {"accuracy_whole", "calibration_error"} | ERASER | (AVERAGED if ranks else set())
    assert all(type(value) is float and -1 <= value <= 1 for value in found.values()), "plain numbers, for JSON"
    assert faithfulness_scores(model, batches) == found, "nothing is drawn"


@pytest.mark.parametrize("mode", ["zero", "compact"])
@pytest.mark.parametrize("bias", [60.0, -60.0])
def test_a_rationale_of_everything_is_sufficient_and_one_of_nothing_leaves_nothing_out(mode, bias):
    model, batches = model_and_batches(model="bernoulli", predictor=mode)
    nn.init.constant_(model.selector.gate.logits.bias, bias)
    found = faithfulness_scores(model, batches)
    assert found == pytest.approx(text_by_text(model, batches), abs=1e-5)
    all_kept = bias > 0
    assert (found["sufficiency"] == 0) == all_kept, "p(y | r) = p(y | x) where r = x"
    assert (found["comprehensiveness"] == 0) == (not all_kept), "the rest is the whole text where nothing is selected"


def test_the_sizes_of_the_batches_do_not_matter():
    model, batches = model_and_batches(lengths=range(1, 40))
    for size in (1, 7, 100):
        other = Batches(batches.examples, batches.vocabulary, size)
        assert faithfulness_scores(model, other) == pytest.approx(faithfulness_scores(model, batches), abs=1e-5), (
            f"batches of {size}"
        )


def test_a_word_that_decides_alone_is_sufficient_and_comprehensive():
    """Class 0 unless w0 is there; the selector selects w0 alone, or all but w0."""
    for keeps, sufficiency, comprehensiveness in (("w0", 0.0, 1.0), ("all but w0", 1.0, 0.0)):
        model, _ = model_and_batches(model="bernoulli", pool="max")
        p = model.predictor
        with torch.no_grad():
            for weight in model.parameters():
                weight.zero_()
            model.vectors.zero_()
            model.vectors[2, 0] = 1.0  # w0 is the only word that is not zero
            for lstm in (p.encoder.ahead, model.selector.encoder.ahead):
                lstm.bias_ih_l0[:6], lstm.bias_ih_l0[6:12], lstm.bias_ih_l0[18:] = 20.0, -20.0, 20.0  # forgets at once
                lstm.weight_ih_l0[12, 0] = 20.0  # state 0 is tanh(1) at w0
            p.head.output.weight[1, 0], p.head.output.bias[0] = 40.0, 15.0
            sign = 1 if keeps == "w0" else -1
            model.selector.gate.logits.weight[0, 0], model.selector.gate.logits.bias[0] = sign * 40.0, sign * -15.0
        examples = [Example(("w3", "w0", "w4", "w5"), 1), Example(("w6", "w0"), 1)]
        found = faithfulness_scores(model, Batches(examples, Vocabulary(WORDS), 2))
        assert found["accuracy_whole"] == 1
        assert found["sufficiency"] == pytest.approx(sufficiency, abs=1e-3), keeps
        assert found["comprehensiveness"] == pytest.approx(comprehensiveness, abs=1e-3), keeps


# --- what leaks beside the rationale


def leak(mode: str, biases: float, pool: str = "final", fitted: int = 84, evaluated: int = 36) -> float:
    """Leak of a fresh model, fitted on texts of 1 to 12 words, each length equally often, and evaluated on others."""
    torch.manual_seed(0)
    p = parameters(model="hardkuma", predictor=mode, pool=pool, hidden_size=8)
    model = build_extractor(p, torch.randn(20, 8), "classes", 3).eval()
    for lstm in (model.predictor.encoder.ahead, model.predictor.encoder.back):
        nn.init.uniform_(lstm.bias_ih_l0, -biases, biases)
    vocabulary = Vocabulary(WORDS)
    parts = (texts([1 + i % 12 for i in range(n)], seed=n) for n in (fitted, evaluated))
    return length_leak(*(empty_rationale_states(model, Batches(part, vocabulary, 16)) for part in parts))


@pytest.mark.parametrize("pool", ["final", "last", "mean", "max", "attention"])
def test_an_lstm_over_zeros_knows_how_long_the_text_was_and_a_compact_one_does_not(pool):
    assert leak("zero", 0.5, pool) > 0.95, "trap I-7"
    assert leak("compact", 0.5, pool) == pytest.approx(0, abs=1e-6)


def test_with_zero_biases_an_lstm_stays_at_zero_on_zeros_and_nothing_leaks():
    assert leak("zero", 0.0) == pytest.approx(0, abs=1e-6)


def test_unread_states_are_what_the_head_sees_of_a_text_with_no_word_selected():
    model, batches = model_and_batches(lengths=(5, 2, 9))
    states, lengths = empty_rationale_states(model, batches)
    order = torch.cat([batch.rows for batch in batches.in_order(max_batch=256)])
    assert lengths.tolist() == [[5, 2, 9][i] for i in order] and states.shape == (3, 12)
    for state, length in zip(states, lengths.long().tolist(), strict=True):
        nothing = torch.zeros(1, length)
        prediction = model.predictor(torch.randn(1, length, 8), torch.ones_like(nothing, dtype=torch.bool), nothing)
        torch.testing.assert_close(model.head(state.float()), prediction[0], msg=f"text of {length} words")


def test_the_leak_is_the_share_of_the_variance_that_a_straight_line_explains():
    torch.manual_seed(0)
    x, noise = torch.randn(500, 1, dtype=torch.float64), torch.randn(500, dtype=torch.float64)
    lengths = 10 + 3 * x[:, 0] + noise
    expected = torch.corrcoef(torch.stack([x[:, 0], lengths]))[0, 1].item() ** 2
    assert length_leak((x, lengths), (x, lengths)) == pytest.approx(expected), "R^2 of one variable is r^2"
    assert length_leak((x, 10 + 3 * x[:, 0]), (x, 10 + 3 * x[:, 0])) == pytest.approx(1)
    twice = torch.cat([x, 2 * x, torch.zeros_like(x)], 1)  # columns that say the same, or nothing
    assert length_leak((twice, lengths), (twice, lengths)) == pytest.approx(expected)


def test_texts_of_one_length_have_no_variance_to_explain():
    states, lengths = torch.randn(20, 3, dtype=torch.float64), torch.arange(20.0).double()
    with pytest.raises(ValueError, match="all evaluated texts have 5 words"):
        length_leak((states, lengths), (states, torch.full((20,), 5.0).double()))


def test_overfitting_does_not_count_as_a_leak():
    torch.manual_seed(0)
    noise = torch.randn(20, 19, dtype=torch.float64), torch.arange(20.0).double()
    other = torch.randn(200, 19, dtype=torch.float64), torch.arange(200.0).double() / 10
    assert length_leak(noise, noise) == pytest.approx(1), "20 texts, 20 weights"
    assert length_leak(noise, other) < 0, "worse than predicting the mean of the evaluated ones"


# --- a whole run


def labelled(splits: dict) -> dict:
    """`classified` with a label a word: 4 in the gold rationale of high, 0 in that of low, else neutral."""
    return {
        name: [
            Example(e.tokens, e.label, word_labels=tuple(4 * e.label if flag else 2 for flag in e.rationale))
            for e in part
        ]
        for name, part in classified(splits).items()
    }


def finished(folder, splits: dict, labels: tuple[str, ...] | None = ("low", "high"), **changes):
    """A trained and saved run of classes."""
    torch.set_num_threads(1)
    changes = {"epochs": 1, "learning_rate": 0.05} | changes
    result = training.train_extractor(parameters(**changes), splits, "classes", 2, folder)
    save_run(folder, result, parameters(**changes), labels=labels)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("run"), labelled(corpus()))


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A run that predicts a score."""
    folder = tmp_path_factory.mktemp("scores")
    save_run(folder, train(folder, epochs=1), parameters(epochs=1))
    return folder


def test_a_run_on_texts_of_one_length_has_no_length_leak(tmp_path):
    splits = labelled(corpus())
    for name, part in splits.items():
        splits[name] = [replace(e, tokens=e.tokens[:5], word_labels=e.word_labels[:5]) for e in part]
    found = measure_faithfulness(finished(tmp_path, splits, epochs=1), "test")["test"]
    assert "length_leak" not in found and all(map(math.isfinite, found.values()))


def test_a_run_that_has_been_judged_is_shown_as_further_on(tmp_path, monkeypatch):
    folder = finished(tmp_path / "run", labelled(corpus()), epochs=1)
    monkeypatch.setenv(RUN_DIR, str(tmp_path))
    measure_faithfulness(folder)
    assert read_progress(tmp_path)["phase"] == REST


def test_the_numbers_written_beside_a_run_are_those_of_a_direct_computation(run):
    found = measure_faithfulness(run, "all")
    assert json.loads((run / "faithfulness.json").read_text()) == found
    assert set(found) == {"dev", "test"}
    loaded, splits = load_run(run), labelled(corpus())
    batches = {name: Batches(splits[name], loaded.vocabulary, 8) for name in found}
    states = {name: empty_rationale_states(loaded.model, part) for name, part in batches.items()}
    for name, numbers in found.items():
        expected = text_by_text(loaded.model, batches[name])
        if name != "dev":  # it is fitted there
            expected["length_leak"] = length_leak(states["dev"], states[name])
        expected |= count_leak(read_rationales(run, name))
        words, chosen = [], []
        for row in read_rationales(run, name).itertuples():
            words += row.word_labels
            chosen += [z != 0 for z in row.z]
        for label in range(5):
            expected[f"words_{label}"] = words.count(label)
            expected[f"selected_{label}"] = sum(z for word, z in zip(words, chosen, strict=True) if word == label)
        coloured = sum(expected[f"words_{label}"] for label in (0, 4))
        matched = sum(expected[f"selected_{label}"] for label in (0, 4))
        expected["word_precision"], expected["word_recall"] = matched / sum(chosen), matched / coloured
        expected["word_f1"] = 2 * matched / (sum(chosen) + coloured)
        expected["word_base_rate"] = coloured / len(words)
        assert numbers == pytest.approx(expected, abs=1e-5), name
        assert numbers["words_1"] == numbers["words_3"] == 0 and numbers["words_2"] > 0


def test_every_text_of_the_corpus_has_a_coloured_word_so_that_precision_is_over_all_selected_words():
    """Texts of neutral words alone would be left out (`metrics.rationale_scores`)."""
    for part in labelled(corpus()).values():
        assert all(set(e.word_labels) & {0, 4} for e in part)
    neutral = [torch.tensor([True, True]), torch.tensor([True])], [torch.tensor([True, False]), torch.tensor([False])]
    assert rationale_scores(*neutral)["precision"] == 0.5


def test_what_the_number_of_selected_words_predicts_is_counted_by_hand():
    z = [[0, 0, 0], [0, 0, 0], [0.5, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1, 1, 1, 1], [1] * 9]
    rows = pd.DataFrame({"z": z, "prediction": [1, 1, 0, 1, 2, 2, 0, 0]})
    found = count_leak(rows)  # of 0, 1, 2, 3, 5+ words: 2, 1 (of two), 1, 1, 2 answers are guessed
    assert found["count_tells"] == 7 / 8 and found["answer_share"] == 3 / 8 and found["empty"] == 2 / 8
    assert found["first_words"] == (1 + 0 + 2 + 2 + 2 + 2) / (1 + 1 + 2 + 3 + 6 + 9)


def test_leaks_of_no_texts_are_refused_by_the_name_of_the_argument():
    some, none = torch.tensor([1, 2]), torch.zeros(0, dtype=torch.long)
    states = (torch.ones(2, 3).double(), torch.tensor([4.0, 5.0]).double())
    nothing = (torch.ones(0, 3).double(), torch.zeros(0).double())
    for call, message in (
        (lambda: count_leak(pd.DataFrame({"z": [], "prediction": []})), "rows: got no text, accepted is 1 or more"),
        (lambda: told_by_number(none, none, some, some), "counts: got no text"),
        (lambda: told_by_number(some, some, none, none), "new_counts: got no text"),
        (lambda: length_leak(nothing, states), "fitted: got no text"),
        (lambda: length_leak(states, nothing), "evaluated: got no text"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_nothing_selected_predicts_no_more_than_the_most_frequent_answer():
    rows = pd.DataFrame({"z": [[0.0]] * 4, "prediction": [3, 3, 3, 0]})
    assert count_leak(rows) == {"count_tells": 0.75, "answer_share": 0.75, "empty": 1.0, "first_words": 0.0}


def test_the_setting_decides_which_splits_are_judged_and_nothing_is_left_of_an_earlier_model(run, tmp_path, capsys):
    both = measure_faithfulness(run, "all")
    folder = shutil.copytree(run, tmp_path / "lab")  # as in JupyterLab, where one folder is used again and again
    assert measure_faithfulness(folder) == {"test": both["test"]}, "the length leak is still fitted on dev"
    assert json.loads((folder / "faithfulness.json").read_text()) == {"test": both["test"]}
    capsys.readouterr()
    assert measure_faithfulness(folder, "none") == {} and not (folder / "faithfulness.json").exists()
    assert capsys.readouterr().out == (
        "the rationales of this run are not judged; `python -m rationale.judge RUN` does it later\n"
    )


def test_a_run_that_was_made_with_less_is_judged_later(run, tmp_path):
    both, folder = measure_faithfulness(run, "all"), shutil.copytree(run, tmp_path / "later")
    measure_faithfulness(folder, "none")
    write_digests(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "SHA256SUMS"}
    assert main([str(folder)]) == 0
    assert json.loads((folder / "faithfulness.json").read_text()) == {"test": both["test"]}
    assert "faithfulness.json" in read_digests(folder) and not unlike_digests(folder)
    assert main(["--all", str(folder)]) == 0 and judge_finished(folder) == {"test": both["test"]}
    assert (folder / "faithfulness.json").read_bytes() == (run / "faithfulness.json").read_bytes(), "dev is kept"
    assert not unlike_digests(folder) and all((folder / name).read_bytes() == text for name, text in before.items())


def test_a_run_that_is_made_again_is_not_judged_meanwhile(run, tmp_path, monkeypatch):
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "params.yaml").touch(), (folder / "environment.txt").touch()
    (folder / "faithfulness.json").unlink()
    with WorkFolder(folder, wait=False), pytest.raises(BadInput, match="another process makes this run again"):
        judge_finished(folder)

    def replaced(*arguments):
        folder.rename(tmp_path / "old")
        shutil.copytree(tmp_path / "old", folder)
        return {"test": {}}

    monkeypatch.setattr("rationale.runs.faithfulness.scores_of", replaced)
    with pytest.raises(BadInput, match="the run was made again meanwhile"):
        judge_finished(folder)
    assert not (folder / "faithfulness.json").exists()


def test_measuring_twice_gives_the_same_and_leaves_the_run_unchanged(run):
    first = measure_faithfulness(run)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    assert measure_faithfulness(str(run)) == first
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.parametrize("labels", [None, ("low", "high")])
def test_without_word_labels_there_is_no_plausibility_and_names_of_classes_are_not_needed(tmp_path, labels):
    found = measure_faithfulness(
        finished(tmp_path, classified(corpus()), labels, model="attention", rule="top_k", budget=0.2)
    )
    others = {"accuracy_whole", "calibration_error", "length_leak", "span_f1_macro", "auprc"}
    assert set(found["test"]) == others | ERASER | AVERAGED | COUNT


def test_the_saved_selection_is_the_one_that_is_measured(run):
    """The rationales on file are those the loaded model selects, word for word."""
    loaded, rows = load_run(run), read_rationales(run, "test")
    batches = Batches([Example(tuple(r.tokens), r.label) for r in rows.itertuples()], loaded.vocabulary, 8)
    again = [torch.empty(0)] * len(rows)
    for batch in batches.in_order():
        z = loaded.model(batch.tokens, batch.mask).z
        for i, row in enumerate(batch.rows.tolist()):
            again[row] = z[i][batch.mask[i]] != 0
    assert agreement(again, [torch.tensor(z) != 0 for z in rows["z"]]) == 1


def test_a_run_that_predicts_scores_is_refused_in_one_line(scored):
    with pytest.raises(BadInput, match="its model predicts scores; accepted are models of classes") as error:
        measure_faithfulness(scored)
    assert str(scored) in str(error.value) and "\n" not in str(error.value)
    assert not (scored / "faithfulness.json").exists()


def test_a_run_on_pairs_is_refused_in_one_line(tmp_path):
    p = aligners.settings(epochs=1, vectors="random", embedding_size=5)
    splits = dict.fromkeys(("train", "dev", "test"), aligners.pairs())
    save_run(tmp_path, training.train_aligner(p, splits, "classes", 3, tmp_path), p, labels=["a", "b", "c"])
    with pytest.raises(BadInput, match="reads pairs of sentences; accepted are models of single texts") as error:
        judge_finished(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}: ") and "\n" not in str(error.value)
    assert not (tmp_path / "faithfulness.json").exists()


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput, match="accepted is the folder of a finished training run") as error:
            measure_faithfulness(folder)
        assert str(folder) in str(error.value) and "\n" not in str(error.value)
        assert not (folder / "faithfulness.json").exists()


# --- the command


def test_the_command_measures_several_runs_and_prints_their_numbers(run, capsys):
    assert main([str(run), str(run)]) == 0
    out, err = capsys.readouterr()
    test = json.loads((run / "faithfulness.json").read_text())["test"]
    line = f"{run} sufficiency {test['sufficiency']:.3f}  comprehensiveness {test['comprehensiveness']:.3f}"
    assert out.splitlines() == [line, line] and err == ""


def test_the_command_names_a_mistake_in_one_line_and_exits_with_2(run, scored, tmp_path, capsys):
    for folder, part in ((scored, "predicts scores"), (tmp_path / "nowhere", "no such run")):
        assert main([str(run), str(folder)]) == 2
        out, err = capsys.readouterr()
        assert out.startswith(str(run)), "runs before the mistake are measured"
        assert err.startswith(f"error: {folder}: ") and part in err and err.count("\n") == 1


def test_the_budgets_are_erasers_and_each_keeps_a_word():
    assert BUDGETS == (0.01, 0.05, 0.1, 0.2, 0.5)
    scores, mask = torch.randn(1, 4), torch.ones(1, 4, dtype=torch.bool)
    assert [top_k(scores, mask, budget).sum().item() for budget in BUDGETS] == [1, 1, 1, 1, 2]
