"""Explorers of finished runs without a browser: type, click, move sliders; look at the predictions and the pictures."""

import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import ipywidgets
import pandas as pd
import pytest
import torch
import yaml
from small import classified, corpus, parameters, train
from torch.nn import functional as F

from rationale import training
from rationale.data import Example
from rationale.data.corpora import synthetic
from rationale.data.tokenise import tokenise
from rationale.errors import BadInput
from rationale.explorers import common, layers, rates, sentence
from rationale.runs import find, reading, saved
from rationale.runs.predict import predict
from rationale.runs.probed import Digits, digits_of, facts_of_masks, told_by_lines
from rationale.runs.saved import load_run, save_run
from tests.smoke import smoke

TEXT = "the smell is superb but the look is a bit dull ."


def finished(folder: Path, **changes) -> Path:
    """Train and save a run as the runner would leave it."""
    folder.mkdir(parents=True)
    p = parameters(**changes)
    if changes.get("pool"):  # a run that predicts classes, so that both heads are tested
        result = training.train_extractor(p, classified(corpus()), "classes", 2, folder)
        save_run(folder, result, p, labels=["low", "high"])
    else:
        save_run(folder, train(folder, **changes), p)
    (folder / "params.yaml").write_text(yaml.safe_dump(vars(p)))
    (folder / "run.ipynb").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Five finished runs of a second, by name."""
    top = tmp_path_factory.mktemp("outputs") / "10_first_rationale"
    folders = {f"s{s}": finished(top / f"s{s}", epochs=1, selection=s) for s in (0.2, 0.6, 0.4)}
    folders["whole"] = finished(top / "whole", epochs=1, model="full_text", selection=None)
    folders["classes"] = finished(top / "classes", epochs=1, pool="max", seed=5)
    return folders


@pytest.fixture
def explorer(runs) -> sentence.SentenceExplorer:
    return sentence.explore_sentence([runs["s0.4"], runs["classes"], runs["whole"]], TEXT)


# --- one sentence


def test_a_text_gives_the_prediction_and_the_gates_that_predict_gives(explorer, runs):
    (row,) = predict(load_run(runs["s0.4"]), [tokenise(TEXT)])
    assert explorer.predictions["rationale"] == pytest.approx(row["prediction"], abs=1e-6)
    assert [button.description for button in explorer.buttons] == row["tokens"]
    bold = [button.style.font_weight == "bold" for button in explorer.buttons]
    assert bold == [z > 0 for z in row["z"]], "selected words are bold"


def test_a_click_forces_a_gate_open_then_shut_then_sets_it_free(explorer):
    start, picture = explorer.predictions, explorer.picture.value
    for state in ("open", "shut"):
        explorer.buttons[3].click()
        assert explorer.forced == {3: state} and f"gate {state}" in explorer.buttons[3].tooltip
    explorer.buttons[3].click()
    assert explorer.forced == {} and explorer.predictions == start
    assert explorer.picture.value == picture, "a gate that is free again must give the same picture"


def test_a_forced_gate_gives_the_output_of_the_predictor_for_that_gate(explorer, runs):
    run = load_run(runs["s0.4"])
    text = reading.read_text(run, TEXT)
    for position in (0, 3):
        z = text.z.clone()
        z[position] = 0.0 if z[position] > 0 else 1.0
        explorer.force({position: "open" if z[position] else "shut"})
        with torch.no_grad():
            output = run.model.predictor(run.model.embed(text.batch.tokens), text.batch.mask, z[None])[0].tolist()
        assert explorer.predictions["your gates"] == pytest.approx(output, abs=1e-6)
        assert explorer.predictions["your gates"] != explorer.predictions["rationale"], "a forced gate has an effect"


def test_all_gates_forced_open_give_the_prediction_for_the_whole_text(explorer):
    explorer.force({i: "open" for i in range(len(explorer.buttons))})
    assert explorer.predictions["your gates"] == explorer.predictions["whole text"]
    explorer.free.click()
    assert explorer.forced == {} and "your gates" not in explorer.predictions


def test_forced_gates_are_kept_for_another_run_but_not_for_another_text(explorer, runs):
    explorer.buttons[0].click()
    explorer.run.value = runs["classes"]
    assert explorer.forced == {0: "open"} and len(explorer.predictions["your gates"]) == 2
    assert sum(explorer.predictions["your gates"]) == pytest.approx(1), "probabilities of two classes"
    explorer.text.value = TEXT + " and cheap"
    assert explorer.forced == {} and explorer.buttons[-1].description == "cheap"
    assert re.search("unknown to this run: .*cheap", explorer.readout.value)


def test_forced_gates_are_not_kept_for_another_text_of_as_many_words(explorer):
    explorer.buttons[0].click()
    explorer.text.value = TEXT.replace("dull", "bright")
    assert explorer.forced == {} and "your gates" not in explorer.predictions


def test_a_model_without_gates_reads_everything_and_can_be_forced_too(explorer, runs):
    explorer.run.value = runs["whole"]
    assert explorer.predictions["rationale"] == explorer.predictions["whole text"]
    explorer.force({3: "shut"})
    assert explorer.predictions["your gates"] != explorer.predictions["whole text"]


def test_a_run_on_all_aspects_names_every_score(tmp_path):
    splits = {
        name: [Example(review.tokens, review.scores) for review in synthetic.reviews(20, name)]
        for name in ("train", "dev", "test")
    }
    p = SimpleNamespace(**vars(parameters(epochs=1)) | {"corpus": "beer", "aspect": "all"})
    save_run(tmp_path, training.train_extractor(p, splits, "scores", 5, tmp_path), p)
    explorer = sentence.explore_sentence([tmp_path], TEXT)
    assert len(explorer.predictions["rationale"]) == 5
    for name in ("look", "smell", "palate", "taste", "overall"):
        assert re.search(rf"{name} \d\.\d\d", explorer.readout.value), explorer.readout.value


def test_the_picture_of_scores_of_ones_own_has_the_numbers_of_the_read_out(tmp_path):
    result = train(tmp_path, epochs=1)
    save_run(tmp_path, result, parameters(epochs=1), scale=(1.0, 5.0))
    explorer = sentence.explore_sentence([tmp_path], TEXT)
    (ax,) = explorer._figure.axes
    written = {text.get_text() for text in ax.texts}
    told = set(re.findall(r"\d\.\d\d(?=</b>)", explorer.readout.value))
    assert told and written == told, "on the scale of the data"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "3", "5"]


def test_the_read_out_says_one_word_of_a_text_of_one_word(explorer):
    explorer.text.value = "superb"
    assert " of 1 word selected" in explorer.readout.value
    explorer.text.value = "superb smell"
    assert " of 2 words selected" in explorer.readout.value


def test_a_damaged_run_is_left_out_and_the_others_are_found(runs, tmp_path, capsys):
    for name in ("good", "bad"):
        shutil.copytree(runs["s0.4"], tmp_path / "10_first_rationale" / name)
    (tmp_path / "10_first_rationale" / "bad" / "params.yaml").write_text("model: [")
    assert [run.name for run in find.find_runs(tmp_path)["texts"]] == ["good"]
    assert re.match("note: .*bad/params.yaml.*; this run is left out\n", capsys.readouterr().out)


def test_for_a_text_without_words_a_message_is_shown_until_a_word_is_typed(explorer):
    explorer.text.value = "  "
    assert explorer.buttons == [] and "at least one word" in explorer.readout.value
    assert explorer.picture.value == b"" and explorer.predictions == {}, "those of the text before"
    explorer.text.value = TEXT
    assert len(explorer.buttons) == len(tokenise(TEXT)) and "rationale: " in explorer.readout.value


def test_words_are_shown_and_never_executed(explorer):
    explorer.text.value = "smell a&b <i>"
    assert "a&amp;b" in explorer.readout.value and "<i>" not in explorer.readout.value


def test_an_example_is_one_of_the_runs_own_texts_until_somebody_types(runs):
    explorer = sentence.explore_sentence([runs["s0.4"], runs["classes"]])
    rows = [json.loads(line) for line in (runs["s0.4"] / "rationales.jsonl").open()]
    assert explorer.text.value in {" ".join(row["tokens"]) for row in rows if row["split"] == "dev"}
    explorer.text.value = TEXT
    explorer.run.value = runs["classes"]
    assert explorer.text.value == TEXT


def test_without_a_run_one_line_says_how_to_make_one(tmp_path):
    assert find.find_runs(tmp_path) == {"texts": [], "probes": []}
    for explore in (sentence.explore_sentence, rates.explore_rates, layers.explore_layers):
        message = explore([], command="make demo")
        assert isinstance(message, ipywidgets.HTML) and "make demo" in message.value
    (tmp_path / "svm").mkdir()
    assert "make demo" in rates.explore_rates([tmp_path / "svm"], command="make demo").value, "it saved no model"


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="model.safetensors"):
        sentence.explore_sentence([tmp_path], TEXT)


# --- the runs of a sweep


def test_runs_are_found_the_newest_first_and_unfinished_ones_are_not(runs):
    (runs["whole"].parent / "s.partial").mkdir()
    shutil.copy(runs["s0.2"] / "model.safetensors", runs["whole"].parent / "s.partial")
    found = find.find_runs(runs["whole"].parent.parent)
    assert set(found["texts"]) == set(runs.values()) and found["texts"][0] == runs["classes"]
    assert found["texts"][-1] == runs["whole"], "a model without gates comes last"
    assert find.find_runs(runs["whole"].parent)["texts"] == found["texts"], "one level down as well"


def test_runs_on_texts_of_ones_own_can_be_left_out(runs, tmp_path):
    for name, read in (("beer", "beer"), ("own", "texts.csv")):
        folder = tmp_path / "17_train_own_texts" / name
        shutil.copytree(runs["s0.4"], folder)
        p = yaml.safe_load((folder / "params.yaml").read_text()) | {"corpus": read}
        (folder / "params.yaml").write_text(yaml.safe_dump(p))
    assert {run.name for run in find.find_runs(tmp_path)["texts"]} == {"beer", "own"}
    assert [run.name for run in find.find_runs(tmp_path, own_texts=False)["texts"]] == ["beer"]


def test_a_sweep_consists_of_runs_that_differ_in_their_target_in_ascending_order(runs):
    groups = find.group_sweeps(list(runs.values()))
    assert [[run.name for run in group] for group in groups.values()] == [["s0.2", "s0.4", "s0.6", "whole"]]


def changed_run(runs: dict[str, Path], folder: Path, **changes) -> Path:
    """A run that differs from one with gates in these settings, or that reads everything."""
    folder.mkdir(parents=True)
    run = runs["whole" if changes.get("model") == "full_text" else "s0.4"]
    (folder / "params.yaml").write_text(yaml.safe_dump(saved.read_parameters(run) | changes))
    shutil.copy(run / "model.safetensors", folder)
    return folder


@pytest.mark.parametrize("notebook", ["10_first_rationale", "of_no_notebook"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"epochs": 7}, "epochs=7"),
        ({"start": "target"}, "start=target"),
        ({"hidden_size": 3, "measure": "selected"}, "hidden_size=3, measure=selected"),
        ({"transitions": 0.05}, "transitions=0.05"),
    ],
)
def test_runs_that_differ_in_another_setting_than_their_rate_are_no_sweep(runs, tmp_path, notebook, changes, told):
    top = tmp_path / notebook
    for other in ({}, changes):
        for rate in (0.1, 0.3):
            changed_run(runs, top / f"{bool(other)}{rate}", selection=rate, **other)
    changed_run(runs, top / "alone", selection=0.2, seed=8)
    groups = find.group_sweeps(sorted(top.iterdir()))
    assert sorted([run.name for run in group] for group in groups.values()) == [
        ["False0.1", "False0.3"], ["True0.1", "True0.3"]]  # fmt: skip
    (description,) = [description for description, group in groups.items() if "True" in group[0].name]
    assert description.endswith(f", {told} (2 runs)")


def test_a_setting_without_an_effect_does_not_part_the_runs_of_a_sweep(runs, tmp_path):
    """The device has none, `start` none on a model that reads everything, and a price says how much to select."""
    top = tmp_path / "10_first_rationale"
    one, two = changed_run(runs, top / "1", device="cpu"), changed_run(runs, top / "2", selection=0.7, device="cuda")
    priced = changed_run(runs, top / "3", selection=None, sparsity=0.01)
    metrics = saved.read_metrics(runs["s0.4"])
    metrics["dev"]["rate_selected"] = 0.5
    (priced / "metrics.json").write_text(json.dumps(metrics))
    whole = changed_run(runs, top / "4", model="full_text", start="target", dependent=False)
    longer = changed_run(runs, top / "5", model="full_text", epochs=99)
    (group,) = find.group_sweeps([longer, whole, two, one, priced]).values()
    assert group == [one, priced, two, whole]


def test_the_rate_slider_goes_through_the_runs_of_the_sweep(runs):
    explorer = rates.explore_rates(list(runs.values()), TEXT)
    assert [label for label, _ in explorer.rate.options] == ["20 %", "40 %", "60 %", "all words"]
    pictures, readouts = [], []
    for i in range(4):
        explorer.rate.index = i
        pictures.append(explorer.picture.value)
        readouts.append(explorer.readout.value)
    assert len(set(pictures)) == 4 and len(set(readouts)) == 4
    (row,) = predict(load_run(runs["whole"]), [tokenise(TEXT)])
    assert f"{row['prediction'][0]:.2f}" in readouts[3] and readouts[3].count("<mark") == len(tokenise(TEXT))
    explorer.text.value = ""
    assert "at least one word" in explorer.readout.value and not explorer.picture.value, (
        "the picture of the text before"
    )
    explorer.text.value = TEXT
    assert explorer.readout.value == readouts[3] and explorer.picture.value == pictures[3]


# --- layers


@pytest.fixture(scope="module")
def probed(outputs) -> Path:
    return smoke(Path("notebooks/14_train_probes.py"), outputs)


def test_the_layer_slider_shows_every_layer_and_the_prediction_after_masking(probed):
    assert find.find_runs(probed.parent)["probes"] == [probed]
    explorer = layers.explore_layers([probed])
    pictures = []
    for layer in (0, 1):
        explorer.layer.value = layer
        pictures.append(explorer.picture.value)
        assert f"after masking layer {layer}" in explorer.readout.value
    assert pictures[0] != pictures[1] and explorer.layer.max == 1
    explorer.method.value = "erasure"
    assert "after masking" not in explorer.readout.value, "only probes mask"
    explorer.sentence.value = explorer.sentence.options[1][1]
    assert explorer.picture.value not in pictures


def test_for_a_question_the_words_near_the_answer_are_shown(monkeypatch):
    words = ["[CLS]", "who", "?", "[SEP]", *(f"w{i}" for i in range(60)), "[SEP]"]
    row = {"tokens": words, "answer": [30, 32], "second": None, "states": [[0.5] * len(words)] * 2}
    assert layers.positions_near_answer(row, reach=2) == [0, 1, 2, 3, *range(28, 35)]
    assert layers.positions_near_answer(row | {"answer": [2, 1]}, reach=2) == [0, 1, 2, 3], (
        "an answer before the paragraph"
    )
    assert layers.positions_near_answer({"tokens": ["a", "b"], "answer": None}) == [0, 1], "no question"
    monkeypatch.setattr(saved, "read_attributions", lambda *_: pd.DataFrame([row]))
    monkeypatch.setattr(saved, "read_parameters", lambda _: {"corpus": "xquad"})
    monkeypatch.setattr(layers, "masked_predictions", lambda *_: (torch.ones(2, 65) / 65, torch.ones(2, 65) / 65, 0.0))
    explorer = layers.explore_layers([Path("run")])
    assert explorer.picture.value and "after masking layer 0" in explorer.readout.value


def test_a_span_that_ends_before_it_begins_is_shown_as_no_words(monkeypatch):
    row = {"tokens": ["[CLS]", "who", "[SEP]", "a", "b"], "answer": [3, 4], "second": None, "states": [[0.5] * 5] * 2}
    forward, backward = (F.one_hot(torch.tensor(ends), 5).double() for ends in ([3, 4], [4, 3]))
    monkeypatch.setattr(saved, "read_attributions", lambda *_: pd.DataFrame([row]))
    monkeypatch.setattr(layers, "masked_predictions", lambda *_: (forward, backward, 0.0))
    shown = layers.explore_layers([Path("run")]).readout.value
    assert "prediction <b>a b 1.00</b>; after masking layer 0 <b>no words 1.00</b>" in shown


def test_texts_of_any_length_are_shown_but_none_for_a_run_without_methods(monkeypatch):
    row = {"tokens": ["a", "b"], "second": None, "erasure": [[0.5, 0.5]]}
    for texts, shown in (([row], True), ([{"tokens": ["a"], "second": None}], False)):
        monkeypatch.setattr(saved, "read_attributions", lambda *_, texts=texts: pd.DataFrame(texts))
        assert bool(layers.explore_layers([Path("run")]).picture.value) == shown


def test_a_run_without_methods_does_not_keep_the_picture_of_the_run_before(monkeypatch):
    texts = {"one": {"tokens": ["a", "b"], "second": None, "erasure": [[0.5, 0.5]]}, "none": {"tokens": ["a"]}}
    texts["none"] |= {"second": None}
    monkeypatch.setattr(saved, "read_attributions", lambda run, _: pd.DataFrame([texts[run.name]]))
    explorer = layers.explore_layers([Path("one"), Path("none")])
    first = explorer.picture.value
    explorer.run.value = Path("none")
    assert first and explorer.picture.value == b"" and "no text with attributions" in explorer.readout.value
    explorer.run.value = Path("one")
    assert explorer.picture.value == first


def test_what_is_cached_for_a_run_is_loaded_again_after_its_model_changes(tmp_path):
    (tmp_path / "model.safetensors").write_text("first")
    calls = []
    cached = common.cache_per_run(2)(lambda run: calls.append(run) or len(calls))
    assert [cached(tmp_path), cached(tmp_path)] == [1, 1]
    os.utime(tmp_path / "model.safetensors", ns=(1, 1))
    assert cached(tmp_path) == 2


def test_the_prediction_before_masking_is_the_models_own_and_the_draws_are_always_the_same(probed):
    before, after, distance = layers.masked_predictions(probed, "states", 3, 1)
    _, task, *_ = layers.load_probed(probed)
    batch = task.batches["test"].rows(torch.tensor([3]))
    with torch.no_grad():
        own = task.model.predict(batch).softmax(-1)[0]
    assert torch.allclose(before, own) and after.sum().item() == pytest.approx(1, abs=1e-5) and distance >= 0
    state = torch.get_rng_state()
    again = layers.masked_predictions(probed, "states", 3, 1)
    assert torch.equal(after, again[1]) and torch.equal(torch.get_rng_state(), state), (
        "the global random state must not change"
    )


def test_the_digits_of_a_probed_model_are_its_states_and_lines_tell_kinds_that_lie_apart(probed):
    run = layers.load_probed(probed)
    found = digits_of(run, "test", texts=[4, 2])
    examples = [run.task.splits["test"][i] for i in (4, 2)]
    assert len(found.kinds) == len(found.states) == sum(len(example.tokens) for example in examples)
    _, states = run.frozen.read(run.task.batches["test"].rows(torch.tensor([4])))
    length = len(examples[0].tokens)
    assert torch.allclose(found.states[:length], states[1][0, :length].cpu())
    asked = [token in example.second for example in examples for token in example.tokens]
    assert found.kinds.lt(2).tolist() == asked
    assert len(digits_of(run, "dev").kinds) == sum(len(example.tokens) for example in run.task.splits["dev"])

    torch.manual_seed(1)
    kinds = torch.randint(3, (600,))
    apart = Digits(torch.eye(3)[kinds][:, :2] + 0.05 * torch.randn(600, 2), kinds)
    mixed = Digits(torch.randn(600, 2), kinds)
    assert told_by_lines(apart, apart) > 0.99 and told_by_lines(mixed, mixed) < 0.5
    ring = Digits(torch.where(kinds.eq(0)[:, None], 0.1, 2) * F.normalize(torch.randn(600, 2), dim=1), kinds)
    assert told_by_lines(ring, ring) < 0.9, "no line tells the inside of a ring from the ring"


def test_a_loaded_probe_has_the_keep_probabilities_that_the_run_has_saved(probed):
    texts = saved.read_attributions(probed, "test")
    for method in ("states", "inputs"):
        _, task, _, probes = layers.load_probed(probed)
        probe = probes[method]
        batch = task.batches["test"].rows(torch.tensor([5]))
        _, states = probe.frozen.read(batch)
        with torch.no_grad():
            keep = [probe.log_keep(states[: k + 1]).exp()[0].tolist() for k in range(len(states))]
        for ours, theirs in zip(keep, texts[method][5], strict=True):
            assert ours == pytest.approx(theirs, rel=2e-3, abs=1e-4)


def test_masks_of_sentences_say_which_words_they_keep_and_how_far_they_are_from_those_of_another_probe(tmp_path):
    pytest.importorskip("HanTa")
    tokens = ["[CLS]", "the", "great", "film", ".", "[SEP]"]
    for name, subject, kept in (
        ("a", "", [0, 0.1, 0.9, 0.7, 0.2, 0]),
        ("b", "outputs/x/a", [0, 0.3, 0.9, 0.5, 0.2, 0]),
    ):
        line = {"split": "test", "tokens": tokens, "label": 4, "word_labels": [-1, 2, 4, 2, 2, -1]}
        line |= {"inputs": [kept], "masks": [[0.0] * 5 + [0.6]]}
        (tmp_path / name).mkdir()
        (tmp_path / name / "attributions.jsonl").write_text(json.dumps(line) + "\n")
        (tmp_path / name / "params.yaml").write_text(yaml.safe_dump({"corpus": "sst", "subject": subject}))
    first, second = facts_of_masks(tmp_path / "a"), facts_of_masks(tmp_path / "b")
    assert first["masks"] == {"kept": pytest.approx(0.1)} and "deviation" not in first["inputs"]
    assert first["inputs"]["speech_gap"] == pytest.approx(0.7 - 0.2), "the noun and the full stop"
    assert second["inputs"]["speech_gap"] == pytest.approx(0.5 - 0.3), "the noun and the determiner"
    assert second["inputs"]["sentiment_gap"] == pytest.approx(0.9 - (0.3 + 0.5 + 0.2) / 3)
    assert second["inputs"]["deviation"] == pytest.approx(0.4 / 6 / 2**0.5)


def test_masks_of_questions_say_whether_all_layers_keep_the_answer_and_what_the_last_keeps_of_separators(tmp_path):
    pytest.importorskip("HanTa")
    tokens = ["[CLS]", "where", "?", "[SEP]", "in", "the", "town", "[SEP]"]
    first = {"answer": [5, 6], "states": [[1, 1, 1, 1, 0.2, 0.6, 0.9, 1], [0.5, 0, 0, 0.7, 0.2, 0.6, 0.9, 0]]}
    second = {"answer": [6, 6], "states": [[1] * 8, [0.5, 0, 0, 0.7, 0.2, 0.6, 0.4, 0]]}
    nothing = {"answer": [6, 5], "states": [[1] * 8, [0.5, 0, 0, 0.7, 0.2, 0.6, 0.65, 0]]}
    common = {"split": "test", "tokens": tokens, "second": None, "label": ["5", "6"]}
    lines = [json.dumps(common | one) + "\n" for one in (first, second, nothing)]
    (tmp_path / "attributions.jsonl").write_text("".join(lines))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"corpus": "xquad", "subject": ""}))
    facts = facts_of_masks(tmp_path)["states"]
    assert facts["answer_kept"] == 0.5, "of two answers with pieces"
    assert facts["separator_gap"] == pytest.approx(1.2 / 3 - (0.2 + 0.6 + (0.9 + 0.4 + 0.65) / 3) / 5)
    noun, determiner = (0.9 + 0.9 + 1 + 0.4 + 1 + 0.65) / 6, (0.6 + 0.6 + 1 + 0.6 + 1 + 0.6) / 6
    assert facts["speech_gap"] == pytest.approx(noun - determiner), "the noun and the determiner"
    question, paragraph = 0.5, (0.2 + 0.2 + 1 + 1 + 0.2 + 0.6) / 6
    assert facts["question_gap"] == pytest.approx(question - paragraph), "over two layers, without the third question"
    answer, others = (0.6 + 0.9 + 0.4) / 3, (0.5 + 0.7 + 0.2 + 0.5 + 0.7 + 0.2 + 0.6) / 13
    assert facts["answer_gap"] == pytest.approx(answer - others), "in the last layer"
    assert facts["ends_gap"] == facts["answer_gap"], "no answer has a piece between its ends"
    names = {"answer_kept", "separator_gap", "speech_gap", "question_gap", "answer_gap", "ends_gap"}
    assert set(facts) == names, "no other noun"


def test_the_ends_of_an_answer_are_told_from_the_pieces_between_them(tmp_path):
    pytest.importorskip("HanTa")
    tokens = ["[CLS]", "where", "?", "[SEP]", "in", "the", "old", "town", "now", "[SEP]"]
    line = {"split": "test", "tokens": tokens, "second": None, "label": ["4", "7"], "answer": [4, 7]}
    line |= {"states": [[0.5] * 10, [0.1, 0.1, 0.2, 0.1, 0.9, 0.3, 0.5, 0.7, 0.1, 0.0]]}
    (tmp_path / "attributions.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"corpus": "xquad", "subject": ""}))
    facts = facts_of_masks(tmp_path)["states"]
    assert facts["ends_gap"] == pytest.approx(0.8 - 0.1) and facts["inner_gap"] == pytest.approx(0.4 - 0.1)
    assert facts["answer_gap"] == pytest.approx(0.6 - 0.1)


def test_nouns_outside_the_answer_are_dropped_late_if_the_middle_layer_still_keeps_them(tmp_path):
    pytest.importorskip("HanTa")
    tokens = ["[CLS]", "where", "?", "[SEP]", "in", "the", "town", "near", "the", "river", "[SEP]"]
    kept = [[1.0] * 9 + [share, 1.0] for share in (0.9, 0.8, 0.7, 0.2)]  # layers 0 to 3; the middle one is layer 2
    line = {"split": "test", "tokens": tokens, "second": None, "label": ["6", "6"], "answer": [6, 6], "inputs": kept}
    (tmp_path / "attributions.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"corpus": "xquad", "subject": ""}))
    facts = facts_of_masks(tmp_path)["inputs"]
    assert facts["late_drop"] == pytest.approx((0.7 - 0.2) / 0.8), "of the river; the town is the answer"
    assert "start_first" not in facts


def test_the_first_position_is_compared_with_all_others_of_the_last_layer_for_each_method(tmp_path):
    pytest.importorskip("HanTa")
    common = {"split": "test", "tokens": ["[CLS]", "great", "film", "[SEP]"], "label": 4, "word_labels": [-1, 4, 2, -1]}
    first = {"states": [[0, 1, 1, 1], [0.9, 0.2, 0.1, 0.9]], "integrated_gradients": [[9, 9, 9, 9], [3, 0, 0, 1]]}
    second = {"states": [[1, 0, 0, 0], [0.8, 0.9, 0, 0]], "integrated_gradients": [[0, 9, 9, 9], [3, 0, 0, 1]]}
    lines = [json.dumps(common | one | {"inputs": one["states"]}) + "\n" for one in (first, second)]
    (tmp_path / "attributions.jsonl").write_text("".join(lines))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"corpus": "sst", "subject": ""}))
    facts = facts_of_masks(tmp_path)
    assert facts["states"]["start_first"] == 0.5 and facts["integrated_gradients"] == {"start_first": 1.0}
    assert "start_first" not in facts["inputs"]
