"""Answers of a saved model from Python: labels, scores, passages of the text, pages, threads; and `rationale.fit`."""

import errno
import hashlib
import html
import io
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from own_files import rated, reviews, write_lines, write_table
from safetensors.torch import save
from small import classified, corpus, parameters
from test_house import without_extras
from test_own import saved_parts

import rationale
from rationale import files, training
from rationale.data.read import read_alignment, read_extraction
from rationale.errors import BadInput
from rationale.runs import saved
from rationale.runs.answer import Answer, batched
from rationale.runs.cells import notebook_settings
from rationale.runs.find import find_runs
from rationale.runs.fit import save_own
from rationale.runs.origin import notebook_of, read_environment
from rationale.runs.own_parts import load_parts
from rationale.runs.parameters import merge, resolve, values_for_kernel
from rationale.runs.predict import main as predict_command
from rationale.runs.predict import predict
from rationale.runs.reading import describe_prediction
from rationale.runs.runner import run as run_notebook
from rationale.runs.saved import as_csv, load_run, read_history, read_parameters, save_run
from rationale.runs.workspace import notebook_path, root
from rationale.settings import show
from rationale.training.extraction import Result
from rationale.training.settings import AlignmentSettings, OwnTextSettings

SMALL = {"embedding_size": 8, "hidden_size": 6, "epochs": 2, "selection": 0.4, "learning_rate": 0.01, "device": "cpu"}
OWN_POOL = """
from rationale.nn.pooling import MaxPool

class Scaled(MaxPool):
    name = "of_my_module"

    def forward(self, states, final, mask):
        return SCALE * super().forward(states, final, mask)
"""
TEXTS = [
    "The look  isn’t superb,\nbut the smell was dreadful!",
    "",
    "smell",
    "   ",
    "zzz qqq",
    "the taste is fine . " * 9,
]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A model of two named classes."""
    folder = tmp_path_factory.mktemp("classes")
    result = training.train_extractor(parameters(epochs=1), classified(corpus()), "classes", 2, folder)
    save_run(folder, result, parameters(epochs=1), labels=["low", "high"])
    return rationale.load(folder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A model of scores from 1 to 10, trained by `rationale.fit`."""
    path = write_table(tmp_path_factory.mktemp("scores") / "films.csv", rated(80))
    return rationale.fit(path, **SMALL)


# --- answers


def test_an_answer_has_the_label_its_probability_and_the_passages_that_were_read(labelled):
    answers = labelled(TEXTS)
    assert [answer.text for answer in answers] == TEXTS
    for answer in answers:
        if not answer.text.strip():
            assert answer == Answer(answer.text) and str(answer) == "no words"
            continue
        assert answer.label in ("low", "high") and answer.probability == max(answer.probabilities.values()) >= 0.5
        assert sum(answer.probabilities.values()) == pytest.approx(1) and len(answer.z) == len(answer.tokens)
        assert all(answer.text[span.start : span.end] == span.text for span in answer.rationale)
        read = "".join(span.text for span in answer.rationale).replace("’", "'")
        chosen = [token for token, z in zip(answer.tokens, answer.z, strict=True) if z > 0]
        assert "".join(read.split()) == "".join(chosen), "the passages hold the words that were selected, no others"
    assert answers[4].unknown == ("zzz", "qqq")
    told = ["no word of this text is known to the model" in answer._repr_html_() for answer in answers]
    assert told == [answer.text == "zzz qqq" for answer in answers], "and the page says so"


def test_answers_agree_with_the_command(labelled):
    texts = [text for text in TEXTS if text.strip()]
    rows = predict(labelled, [labelled.tokens(text) for text in texts])
    for row, answer in zip(rows, labelled(texts), strict=True):
        assert list(answer.tokens) == row["tokens"] and answer.label == row["label"]
        assert answer.z == pytest.approx(row["z"], abs=1e-3)
        assert answer.probabilities == pytest.approx(row["probabilities"], abs=1e-3)


def test_scores_are_given_on_the_scale_of_the_file(scored):
    answers = scored(["film number 3", "film number 4 again"])
    assert scored.scale == (1.0, 10.0) and all(answer.label is None for answer in answers)
    inside = [answer.scores["label"] for answer in answers]
    assert all(1 <= score <= 10 for score in inside) and str(answers[0]) == f"label {inside[0]:.4g}"
    tokens = torch.tensor([scored.vocabulary.encode(["film", "number", "3"])])
    with torch.no_grad():
        raw = scored.model(tokens, torch.ones_like(tokens, dtype=torch.bool)).prediction.item()
    assert inside[0] == pytest.approx(1 + 9 * raw)


def test_a_model_of_pairs_answers_to_pairs(tmp_path):
    path = write_table(tmp_path / "pairs.csv", [row | {"second": "it is good"} for row in reviews(60)])
    p = AlignmentSettings(corpus=str(path), vectors="random", embedding_size=8, hidden_size=6, epochs=1, device="cpu")
    texts = read_alignment(p)
    result = training.train_aligner(p, texts.splits, "classes", texts.num_outputs, tmp_path)
    save_run(tmp_path, result, p, texts.labels)
    model = rationale.load(tmp_path)
    first, second, blank = model([("a warm film", "it is good"), "a warm film ||| it is good", ""])
    assert first.label in ("neg", "pos") and first.probability == pytest.approx(second.probability)
    assert first.second_tokens[1:] == ("it", "is", "good") and len(first.z) == 4 and {*map(len, first.z)} == {4}
    assert blank.label is None and model([("", "it is good")])[0].label is None
    for text in ("a warm film |||", "||| it is good", "a ||| b ||| c", "a warm film"):
        with pytest.raises(BadInput, match="^text 1: .* is no pair; accepted: "):
            model([text])
    shown = first._repr_html_()
    assert (
        '<div dir="auto">a warm film</div><div dir="auto">it is good</div><details>' in shown and "opacity" not in shown
    )
    for word, weights in zip(("a", "warm", "film"), first.z[1:], strict=True):
        largest = max(range(4), key=weights.__getitem__)
        other = ("no word", "it", "is", "good")[largest]
        assert f"<div>{word}: {other} ({weights[largest]:.2f})" in shown
    table = pd.DataFrame({"p": ["a warm film"], "h": ["it is good"]})
    for same in (np.array([["a warm film", "it is good"]]), table.to_numpy(), zip(table["p"], table["h"], strict=True)):
        assert model(same)[0].probability == pytest.approx(first.probability), "rows of an array are pairs, too"
    with pytest.raises(
        BadInput, match=r"columns \['p', 'h'\]; accepted: pairs, as in zip\(table\['text'\], table\['se"
    ):
        model(table)
    half, other = model([("a warm film", ""), ("", "it is good")])
    assert half.label is other.label is None and str(half) == str(other) == "no words", "as the docstring says"
    with pytest.raises(BadInput, match=r"text 1: \('a film a film .+'\.\.\., nan\) is no pair; accepted: "):
        model([("a film " * 100, float("nan"))])  # as pandas reads a cell that is empty
    lines = model.to_html(model([("a warm\n film", "it is\ngood")]))
    assert "a warm\n film</div>" in lines and "white-space:pre-wrap" in lines, "lines of a pair stay lines"
    more = ({"a", "b"}, ("a", "b", "c"), np.array(["a"]), np.array([1, 2]), b"ab", "a ||| b ||| c")
    for wrong in ("a warm film", None, 5, ("a",), ("a", None), {"premise": "a", "hypothesis": "b"}, *more):
        with pytest.raises(BadInput, match=r"text 2: .+ is no pair; accepted: \(\"a premise\", \"a hypothesis\"\)"):
            model([("a", "b"), wrong])


@pytest.mark.parametrize("wrong", ["a text", [1], [None], [["a", "b"]], None, 5])
def test_what_is_no_list_of_texts_is_refused(labelled, wrong):
    with pytest.raises(BadInput, match=r"is (a single text|no list); accepted: a list of texts|text 1: .* is no text"):
        labelled(wrong)


@pytest.mark.parametrize("table", [{"id": [1], "body": ["a text"]}, pd.DataFrame({"id": [1], "body": ["a text"]})])
def test_a_table_is_refused_although_it_is_a_list_of_the_names_of_its_columns(labelled, table):
    with pytest.raises(BadInput, match=r"a table with the columns \['id', 'body'\]; accepted: one column, as in table"):
        labelled(table)
    assert len(labelled(table["body"])) == 1


def test_no_texts_have_no_answers(labelled):
    assert labelled([]) == [] and labelled(iter(["smell"]))[0].label


def test_batches_hold_texts_of_similar_length_and_stay_small():
    lengths = [500 - i for i in range(200)] + [50_000]
    parts = list(batched(range(201), lengths))
    assert sorted(row for part in parts for row in part) == list(range(201))
    assert all(
        len(part) <= 64 and (len(part) == 1 or len(part) * max(lengths[i] for i in part) <= 16_384) for part in parts
    )


def test_the_batch_a_text_is_in_does_not_change_its_answer(labelled):
    together = labelled(TEXTS * 30)
    for i, text in enumerate(TEXTS):
        (alone,) = labelled([text])
        assert alone.rationale == together[i].rationale and alone.label == together[i].label
        assert alone.probability == pytest.approx(together[i].probability, abs=1e-5)


def test_what_is_the_same_for_all_texts_of_a_call_is_done_once(labelled, monkeypatch):
    counted, outputs, cpu = Counter(), type(labelled).outputs.fget, torch.Tensor.cpu
    monkeypatch.setattr(type(labelled), "outputs", property(lambda run: counted.update(["named"]) or outputs(run)))
    monkeypatch.setattr(torch.Tensor, "cpu", lambda value: counted.update(["fetched"]) or cpu(value))
    labelled(["the look"] * 40)
    assert counted == {"named": 1, "fetched": 3}, "gates, mask and predictions of a single batch"
    counted.clear()
    assert len(list(predict(labelled, [["the", "look"]] * 40))) == 40
    assert counted == {"named": 1, "fetched": 3}


def test_several_threads_may_ask_one_model(labelled):
    texts = [TEXTS[i % len(TEXTS)] * (1 + i % 3) for i in range(64)]
    expected = [labelled([text])[0] for text in texts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: labelled([text])[0], texts))
    assert found == expected


def test_a_model_in_training_mode_answers_as_at_test_time_and_keeps_its_mode(labelled):
    expected = labelled(TEXTS)
    labelled.model.train()
    try:
        assert [labelled(TEXTS) for _ in range(5)] == [expected] * 5
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda _: labelled(TEXTS), range(32))) == [expected] * 32
        assert all(part.training for part in labelled.model.modules())
    finally:
        labelled.model.eval()


# --- pages


def test_a_page_shows_the_text_as_it_was_with_its_passages_marked(labelled):
    text = "<b>The look</b> isn't\n\nsuperb & fine"
    page = labelled.to_html(labelled([text]), title="My <films>")
    assert "<title>My &lt;films&gt;</title>" in page and "<b>The" not in page and "http" not in page
    marked, rest = page, ""
    for tag in ("<mark", "</mark>", "<span", "</span>"):
        assert page.count("<mark") == page.count("</mark>") == len(labelled([text])[0].rationale), (tag, marked, rest)
    assert labelled([text])._repr_html_() in page


def test_a_page_with_half_of_a_character_can_be_written_as_utf_8(labelled, tmp_path):
    half = "\ud83d"  # JSON can hold the first half of an emoji alone
    answers = labelled.with_labels(labelled([f"the look {half} is superb"]), [f"no {half}"])
    page = labelled.to_html(answers, title=f"A {half} title")
    for text in (page, answers._repr_html_(), answers[0].as_html({f"id {half}": half})):
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        assert r"\ud83d" in text and half not in text
    assert r"A \ud83d title</title>" in page and answers[0].text == f"the look {half} is superb", "the answer has it"


def test_a_page_says_what_it_shows_and_is_as_wide_as_a_phone(labelled):
    page = labelled.to_html(labelled(["the look is superb"]))
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "answer of the model, and the probability" in page and page.index("highlighted") < page.index("<mark")


def test_a_page_breaks_a_word_that_is_wider_than_it_and_writes_from_right_to_left_what_is_read_so(labelled):
    for answer in labelled(["x" * 3000 + " is superb", "שלום, (superb)!"]):
        shown = answer._repr_html_()
        outer, inner = re.findall("<div [^>]*>", shown)
        assert "overflow-wrap:anywhere" in outer, "one word would make the page of all texts as wide as itself"
        assert 'dir="auto"' in inner, "the first letter of a text says where it begins"


def seen(page: str) -> str:
    """The text of a page, as a reader sees it."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_beside_a_known_label_an_answer_says_whether_it_is_wrong(labelled):
    texts = ["the look is superb", "the smell is dreadful", "the taste is fine", ""]
    first, second, third, _ = labelled(texts)
    other = {"low": "high", "high": "low"}[second.label]
    answers = labelled.with_labels([first, second, third, Answer("")], [first.label, other, "", "low"])
    assert [str(answer) for answer in answers] == [
        f"{first}, right", f"{second}, wrong: the label is {other}", str(third), "no words: the label is low",
    ]  # fmt: skip
    assert [answer.is_right for answer in answers] == [True, False, None, None]
    assert [answer.truth for answer in answers] == [first.label, other, None, "low"]
    page = labelled.to_html(answers)
    assert all(str(answer) in seen(page) for answer in answers) and page.count(">wrong<") == 1
    assert "1 of 2 texts with a label got a wrong answer." in seen(page)
    shown = re.findall(r'<div class="(\w+)"', page)
    assert shown == ["right", "wrong", "unlabelled", "unlabelled"], "a box hides the answers that are not wrong"
    assert (
        '<input type="checkbox" id="only-wrong">' in page and "#only-wrong:checked ~ :is(.right, .unlabelled)" in page
    )
    assert "wrong" not in labelled.to_html([first, second]), "nothing is known of these"


def test_a_label_may_hold_anything_and_a_class_that_the_model_does_not_know_is_wrong(labelled):
    (answer,) = labelled.with_labels(labelled(["the look is superb"]), ["<i>mid</i>"])
    assert str(answer).endswith(", wrong: the label is <i>mid</i>") and answer.is_right is False
    assert "&lt;i&gt;mid" in answer._repr_html_() and "<i>" not in answer._repr_html_()


def test_numbers_are_known_as_labels_as_they_are_in_a_table(tmp_path):
    rows = [row | {"label": {"neg": 1, "pos": 4}[row["label"]]} for row in reviews(60)]
    model = rationale.fit(write_table(tmp_path / "r.csv", rows), **(SMALL | {"epochs": 1}))
    label = model(["a film"])[0].label
    for same in (label, int(label), float(label), np.float64(label), np.int64(label), f" {label}.0"):
        assert model.with_labels(model(["a film"]), [same])[0].is_right, same


def test_true_and_false_are_known_as_labels_as_they_are_in_a_table(tmp_path):
    rows = [row | {"label": row["label"] == "pos"} for row in reviews(60)]
    model = rationale.fit(write_table(tmp_path / "r.csv", rows), **(SMALL | {"epochs": 1}))
    assert set(model.outputs) == {"true", "false"}, "as in a .jsonl file"
    is_true = model(["a film"])[0].label == "true"
    for same in (is_true, np.bool_(is_true), str(is_true), str(is_true).upper()):
        assert model.with_labels(model(["a film"]), [same])[0].is_right, same


def test_the_tokeniser_of_a_model_is_looked_up_only_if_it_is_not_recorded(tmp_path, monkeypatch):
    model = rationale.fit(write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run", **(SMALL | {"epochs": 1}))
    monkeypatch.setattr(saved, "_tokeniser_of", lambda p: pytest.fail("the corpus was asked for"))
    assert rationale.load(tmp_path / "run")(["a film"])[0].label == model(["a film"])[0].label


def test_the_texts_are_given_once(tmp_path):
    table = write_table(tmp_path / "r.csv", reviews(60))
    with pytest.raises(BadInput, match="fit: corpus: .*; accepted: the same as data, the first argument"):
        rationale.fit(tmp_path / "another.csv", corpus=str(table))


def test_fit_records_the_file_of_an_own_part_and_notices_its_change(tmp_path):
    module = tmp_path / "my_pool.py"
    module.write_text(OWN_POOL.replace("SCALE", "1"))
    load_parts(module)
    table = write_table(tmp_path / "r.csv", reviews(60))
    given = SMALL | {"epochs": 1, "pool": "of_my_module"}
    rationale.fit(table, tmp_path / "run", **given)
    assert read_parameters(tmp_path / "run")["pool_file"] == str(module)
    rationale.fit(table, tmp_path / "run", **given)  # is loaded
    module.write_text(OWN_POOL.replace("SCALE", "5"))
    with pytest.raises(BadInput, match="before .*my_pool.py was changed"):
        rationale.fit(table, tmp_path / "run", **given)


def test_a_known_score_stands_beside_an_answer_with_the_distance_to_it(scored):
    answers = scored(["film number 3", "film number 4 again", "film", "a", "b"])
    given = [answer.scores["label"] for answer in answers]
    labels = [given[0] + 0.5, f"{given[1] - 2}", given[2], None, "n/a"]
    told = [str(answer) for answer in scored.with_labels(answers, labels)]
    assert told[0] == f"{answers[0]}, 0.5 too low: the label is {given[0] + 0.5:.4g}"
    assert told[1] == f"{answers[1]}, 2 too high: the label is {given[1] - 2:.4g}"
    assert told[2:] == [f"{answers[2]}, right", str(answers[3]), f"{answers[4]}: the label is n/a"]
    page = seen(scored.to_html(scored.with_labels(answers, labels)))
    assert told[0] in page and "wrong" not in page, "scores are not counted as right or wrong"


@pytest.mark.parametrize("labels", [[], ["low"], ["low"] * 3])
def test_as_many_labels_as_answers_are_accepted(labelled, labels):
    answers = labelled(["the look", "the smell"])
    with pytest.raises(BadInput, match=f"^labels: got {len(labels)} for 2 answers; accepted: one per answer"):
        labelled.with_labels(answers, labels)


def test_an_answer_shows_itself_in_a_notebook(labelled):
    (answer,) = labelled(["the smell is superb"])
    assert f"{answer.label} ({answer.probability:.2f})" in answer._repr_html_()


# --- fit


def test_a_loaded_model_answers_to_its_test_texts_as_it_did_when_they_were_scored(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, size, form in (("train", 80, str), ("dev", 20, str.title), ("test", 20, str.upper)):
        rows = [row | {"text": f"{form(row['text'])} -LRB- so !"} for row in reviews(size)]
        if name == "train":  # so the plain bracket of the others is not among the words that are known
            rows = [row | {"text": row["text"].replace("-LRB-", "(")} for row in rows]
        write_table(folder / f"{name}.csv", rows)
    model = rationale.fit(folder, folder=tmp_path / "run", tokeniser="whitespace", **SMALL)
    lines = (tmp_path / "run" / "rationales.jsonl").read_text(encoding="utf-8").splitlines()
    scored = [row for row in map(json.loads, lines) if row["split"] != "train"]
    answers = model([" ".join(row["tokens"]) for row in scored])
    assert len(scored) == 40 and not any(answer.unknown for answer in answers), "each word is known in one spelling"
    for row, answer in zip(scored, answers, strict=True):
        assert answer.tokens == tuple(row["tokens"])
        assert answer.label == model.labels[row["prediction"]]
        assert answer.z == pytest.approx(row["z"], abs=1e-5)


def test_trained_word_vectors_are_saved_with_the_model_and_loaded_again(tmp_path):
    path = write_table(tmp_path / "r.csv", reviews(60))
    model = rationale.fit(path, folder=tmp_path / "run", **SMALL)
    start = rationale.fit(path, **(SMALL | {"learning_rate": 1e-8, "min_learning_rate": 1e-8, "epochs": 1}))
    assert (model.model.vectors - start.model.vectors).abs().max() > 1e-3, "training has moved them"
    again = rationale.load(tmp_path / "run")
    assert torch.equal(again.model.vectors, model.model.vectors)
    text = reviews(1)[0]["text"]
    assert again([text])[0].probability == model([text])[0].probability


def test_fit_and_the_notebook_have_the_same_defaults():
    path = notebook_path("17_train_own_texts")
    for given in (
        {},
        {"encoder": "minilm"},
        {"encoder": "minilm", "epochs": 20},
        {"encoder": "minilm", "selection": None},
        {"encoder": "minilm", "selection_start": None},
        {"encoder": "minilm", "bucketed": False},
        {"model": "bernoulli"},
        {"model": "bernoulli", "encoder": "minilm"},
        {"model": "bernoulli", "samples": 1},
    ):
        given = given | {"corpus": "r.csv"}
        assert vars(notebook_settings(path, **given)) == vars(OwnTextSettings.checked(given)), given
        items = [f"{name}={show(value)}" for name, value in given.items()]
        merged = resolve(path, items)
        assert merged | {"corpus": "r.csv"} == vars(OwnTextSettings.checked(given)) | {"corpus": "r.csv"}, items
        assert vars(notebook_settings(path, **values_for_kernel(path, merged))) == merged, f"in the kernel: {given}"


def test_gates_that_learn_from_the_score_function_have_a_baseline_unless_they_have_a_single_draw():
    def baseline_of(**given):
        p = OwnTextSettings.checked({"corpus": "r.csv", "model": "bernoulli"} | given)
        return p.samples, p.baseline

    assert baseline_of() == (2, "leave_one_out")
    assert baseline_of(samples=4) == (4, "leave_one_out")
    assert baseline_of(samples=1) == (1, "none"), "a single draw has no other one to be compared with"
    assert baseline_of(baseline="none") == (2, "none"), "what is given stays"
    assert baseline_of(model="hardkuma") == (1, "none")
    with pytest.raises(BadInput, match='samples: text "x"'):
        baseline_of(samples="x")


def test_a_pretrained_encoder_has_defaults_of_its_own_and_what_is_given_stays():
    plain, tuned = (OwnTextSettings.checked({"corpus": "r.csv", "encoder": name}) for name in ("lstm", "minilm"))
    assert (plain.epochs, plain.start, plain.frozen_layers) == (20, "none", 0)
    assert (tuned.epochs, tuned.start, tuned.frozen_layers) == (6, "target", None)
    assert (plain.shared_encoder, plain.closeness, plain.selection_start) == (False, 0, None)
    assert (tuned.shared_encoder, tuned.closeness, tuned.selection_start, tuned.selection_moves) == (True, 1, 0.9, 0.7)
    assert (plain.second_reads, tuned.second_reads) == ("words", "words")
    assert (plain.whole_text_epochs, tuned.whole_text_epochs) == (0, None), "decided by the length of the texts"
    priced = OwnTextSettings.checked({"corpus": "r.csv", "encoder": "minilm", "selection": None, "sparsity": 0.01})
    assert (priced.shared_encoder, priced.selection_start) == (True, None), "without a target there is none to move"
    fixed, _ = merge(notebook_path("17_train_own_texts"), ["encoder=minilm", "selection_start=null"])
    assert (fixed["start"], fixed["selection_moves"]) == ("target", 0), "a target that is fixed has no time to fall in"
    assert vars(OwnTextSettings.checked(fixed))["selection_start"] is None
    given = {"epochs": 20, "start": "none", "frozen_layers": 0, "pool": "max"}  # each is the default of an LSTM
    kept = OwnTextSettings.checked({"corpus": "r.csv", "encoder": "minilm"} | given)
    assert {name: getattr(kept, name) for name in given} == given
    full = OwnTextSettings.checked({"corpus": "r.csv", "encoder": "minilm", "model": "full_text"})
    assert (full.epochs, full.start, full.shared_encoder, full.closeness) == (6, "none", False, 0), (
        "a model without gates has nothing to start"
    )
    for encoder in ("lstm", "minilm"):
        attention = OwnTextSettings.checked({"corpus": "r.csv", "encoder": encoder, "model": "attention"})
        assert attention.pool == "final", "attention has a pool of its own, so it can be fitted without saying so"
    mixed = OwnTextSettings.checked({"corpus": "r.csv", "encoder": "minilm", "bucketed": False})
    assert (tuned.batch_tokens, mixed.batch_tokens) == (1024, None), "batches of any lengths have no limit in words"
    path = notebook_path("17_train_own_texts")
    values, notes = merge(path, ["encoder=minilm", "epochs=20"])
    assert values["epochs"] == 20 and values["start"] == "target"
    assert [note for note in notes if "start target" in note and ", epochs " not in note]
    assert not merge(path, ["selection=0.1"])[1]


def test_a_path_below_the_home_folder_means_the_same_for_the_texts_and_for_the_run(tmp_path, monkeypatch, capsys):
    home, here = tmp_path / "home", tmp_path / "here"
    for place in (home, here):
        place.mkdir()
    write_table(home / "r.csv", reviews(60))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    fitted = rationale.fit("~/r.csv", "~/runs/mine", **SMALL)
    assert (home / "runs" / "mine" / "model.safetensors").is_file()
    assert list(here.iterdir()) == [], "nothing is called ~"
    capsys.readouterr()
    for run in (rationale.load("~/runs/mine"), rationale.fit("~/r.csv", "~/runs/mine", **SMALL)):
        assert run(["a good film"]) == fitted(["a good film"])
    assert predict_command(["~/runs/mine", "--text", "a good film"]) == 0
    assert capsys.readouterr().out
    with pytest.raises(BadInput, match=r"^~/runs/none: no such run \(there: mine\)"):
        rationale.load("~/runs/none")


def test_fit_refuses_to_replace_an_unfinished_run_of_other_settings_and_continues_one_of_the_same(
    tmp_path, monkeypatch, capsys
):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    monkeypatch.setattr("rationale.runs.fit.save_own", lambda *_: 1 / 0)  # something that happens after training
    with pytest.raises(ZeroDivisionError):
        rationale.fit(path, folder=folder, **SMALL)
    monkeypatch.undo()
    before = (folder / "checkpoint.safetensors").read_bytes()
    there = r"run: holds an unfinished run with other settings \(selection 0.4 there, 0.3 here\); accepted: the same"
    with pytest.raises(BadInput, match=there.replace("run: ", "run ")):
        rationale.fit(path, folder=folder, **(SMALL | {"selection": 0.3}))
    with pytest.raises(BadInput, match=r"other settings \(2 epochs there, 1 here\)"):
        rationale.fit(path, folder=folder, **(SMALL | {"epochs": 1}))
    assert (folder / "checkpoint.safetensors").read_bytes() == before, "nothing is lost"
    capsys.readouterr()
    rationale.fit(path, folder=folder, **SMALL)
    assert "resumed after epoch 2 of 2" in capsys.readouterr().out


@pytest.mark.parametrize("is_kept", [True, False])
def test_fit_says_where_an_interrupted_run_continues(tmp_path, monkeypatch, capsys, is_kept):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rationale.runs.fit.save_own", interrupted)
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt) as interruption:
        rationale.fit(path, folder=folder if is_kept else None, **SMALL)
    told = "note: interrupted after epoch 2; the same call continues from there"
    assert (f"{told}\n" in capsys.readouterr().out) == is_kept, "without a folder, nothing is kept"
    assert getattr(interruption.value, "__notes__", []) == [told] * is_kept, "below the traceback"


@pytest.mark.parametrize("at", ["baseline.json", "rationales.jsonl", "metrics.json", "read.json", "params.yaml"])
def test_fit_continues_a_run_that_was_interrupted_while_its_results_were_saved(tmp_path, monkeypatch, capsys, at):
    path, write = write_table(tmp_path / "r.csv", reviews(60)), files.write_atomically
    unbroken = rationale.fit(path, folder=tmp_path / "unbroken", **SMALL)

    def interrupted_at(place, content):
        if place.name == at:
            raise KeyboardInterrupt
        write(place, content)

    monkeypatch.setattr(files, "write_atomically", interrupted_at)
    with pytest.raises(KeyboardInterrupt):
        rationale.fit(path, folder=tmp_path / "run", **SMALL)
    monkeypatch.undo()
    assert "note: interrupted after epoch 2; the same call continues from there\n" in capsys.readouterr().out
    with pytest.raises(BadInput, match=r"an unfinished run with other settings \(seed 1 there, 2 here\)"):
        rationale.fit(path, folder=tmp_path / "run", **SMALL, seed=2)
    continued = rationale.fit(path, folder=tmp_path / "run", **SMALL)
    assert "resumed after epoch 2 of 2" in capsys.readouterr().out
    for name, value in unbroken.model.state_dict().items():
        assert torch.equal(value, continued.model.state_dict()[name]), name
    same = {"params.yaml", "splits.csv", "rationales.jsonl", "read.json"}
    assert all((tmp_path / "run" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes() for name in same)
    names = [{file.name for file in (tmp_path / folder).iterdir()} for folder in ("run", "unbroken")]
    assert names[0] == names[1] >= same


def test_fit_refuses_a_folder_in_which_another_process_trains_and_loads_the_run_that_this_one_leaves(tmp_path, capsys):
    pytest.importorskip("fcntl")
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    code = f"""
import rationale
from rationale.runs import fit
save = fit.save_own
fit.save_own = lambda *given: (print("trained", flush=True), input(), save(*given))
rationale.fit({str(path)!r}, {str(folder)!r}, **{SMALL!r})
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root()}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
        while other.stdout.readline() not in ("trained\n", ""):
            pass
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        for changes in ({}, {"seed": 2}):
            with pytest.raises(BadInput, match=r"^folder: .*run: another call trains a model in it; accepted: another"):
                rationale.fit(path, folder, **(SMALL | changes))
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before != {}, "nothing is changed"
        other.communicate("\n", timeout=120)
    assert other.returncode == 0
    capsys.readouterr()
    rationale.fit(path, folder, **SMALL)
    assert (
        capsys.readouterr().out
        == f"note: {folder} holds the finished run of these settings and texts, which is loaded\n"
    )


def test_several_calls_may_load_a_finished_run_at_once_and_none_keeps_its_folder_locked(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    fitted = rationale.fit(path, folder, **SMALL)
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        again = rationale.fit(path, folder, **SMALL)
    finally:
        os.close(opened)
    assert torch.equal(again.model.vectors, fitted.model.vectors)

    def without_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", without_locks)
    rationale.fit(path, tmp_path / "elsewhere", **SMALL)


def test_fit_does_not_replace_a_finished_run_beside_a_checkpoint_that_cannot_be_continued(tmp_path):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    rationale.fit(path, folder=folder, **SMALL)
    (folder / "checkpoint.safetensors").write_bytes(b"no checkpoint")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(BadInput, match=r"run holds model.safetensors of a finished run with other parameters \(seed"):
        rationale.fit(path, folder=folder, **SMALL, seed=2)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "nothing is lost"


def test_fit_leaves_the_unfinished_run_of_a_notebook_to_the_runner(tmp_path, monkeypatch):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run.partial"
    monkeypatch.setattr("rationale.runs.fit.save_own", lambda *_: sys.exit("killed"))
    with pytest.raises(SystemExit):
        rationale.fit(path, folder=folder, **SMALL)
    for name in ("params.yaml", "environment.txt"):  # the runner writes these first
        (folder / name).write_text("seed: 1\n")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(BadInput, match="run.partial holds a file params.yaml, which the run would replace; acc"):
        rationale.fit(path, folder=folder, **SMALL)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "nothing is lost"


def test_fit_names_the_notebook_of_pairs_and_what_to_do_with_a_file_that_is_no_table(tmp_path):
    path = write_table(tmp_path / "pairs.csv", [row | {"second": "it is good"} for row in reviews(60)])
    with pytest.raises(BadInput, match="fit: second: these are single texts; pairs are for the notebook 13_train"):
        rationale.fit(path, second="second")
    with pytest.raises(BadInput, match=r"array.json: .json is no table; accepted: .* write one object per line"):
        rationale.fit("array.json")


def test_fit_makes_the_run_that_the_steps_of_the_notebook_make_to_the_last_bit(tmp_path):
    path = write_lines(tmp_path / "reviews.jsonl", reviews(80))
    fitted = rationale.fit(path, folder=tmp_path / "fitted", **SMALL, seed=5)
    p = OwnTextSettings.checked({"corpus": str(path), "seed": 5} | SMALL)
    texts = read_extraction(p)
    (tmp_path / "steps").mkdir()
    result = training.train_extractor(p, texts.splits, texts.head, texts.num_outputs, tmp_path / "steps")
    save_own(tmp_path / "steps", result, p, texts)
    other = load_run(tmp_path / "steps")
    for name, value in fitted.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name]), name
    for name in ("rationales.jsonl", "splits.csv"):
        assert (tmp_path / "fitted" / name).read_bytes() == (tmp_path / "steps" / name).read_bytes()
    assert fitted.labels == ["neg", "pos"] and fitted.tokeniser == "treebank"
    assert not list((tmp_path / "fitted").glob("checkpoint*"))


def test_fit_loads_the_finished_run_of_the_same_settings_and_texts_and_refuses_any_other(tmp_path, capsys):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    fitted = rationale.fit(path, folder=folder, **SMALL, seed=5)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    capsys.readouterr()
    again = rationale.fit(path, folder=folder, **SMALL, seed=5)
    assert (
        capsys.readouterr().out
        == f"note: {folder} holds the finished run of these settings and texts, which is loaded\n"
    )
    for name, value in fitted.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    refused = "run holds model.safetensors of a finished run {}; accepted: another folder"
    with pytest.raises(BadInput, match=refused.format(r"with other parameters \(seed 5 there, 1 here\)")):
        rationale.fit(path, folder=folder, **SMALL)
    with pytest.raises(BadInput, match=r"epochs 2 there, 3 here\); .*another folder; .* more epochs begins anew there"):
        rationale.fit(path, folder=folder, **(SMALL | {"epochs": 3}), seed=5)
    write_table(path, reviews(61))
    with pytest.raises(BadInput, match=refused.format("before .*r.csv was changed")):
        rationale.fit(path, folder=folder, **SMALL, seed=5)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "nothing is lost"
    (folder / "read.json").unlink()
    with pytest.raises(BadInput, match=refused.format("without read.json")):
        rationale.fit(path, folder=folder, **SMALL, seed=5)


def test_a_damaged_model_of_fit_is_refused_as_that_of_a_notebook_is(tmp_path):
    rationale.fit(write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run", **(SMALL | {"epochs": 1}))
    listed = dict(line.split("  ")[::-1] for line in (tmp_path / "run" / "SHA256SUMS").read_text().splitlines())
    there = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (tmp_path / "run").iterdir()}
    assert listed == {name: digest for name, digest in there.items() if name != "SHA256SUMS"}
    path = tmp_path / "run" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 4  # a bit of a weight, which is still a number
    path.write_bytes(content)
    with pytest.raises(
        BadInput, match=r"model.safetensors: damaged \(its digest is not that in SHA256SUMS\); restore it"
    ):
        rationale.load(tmp_path / "run")


def test_fit_records_its_environment_and_the_runner_leaves_its_folder_alone(tmp_path):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "17_train_own_texts" / "mine"
    rationale.fit(path, folder, **(SMALL | {"epochs": 1}), threads=1)
    facts = read_environment(folder)
    assert (facts["notebook"], facts["threads"], facts["torch"]) == ("17_train_own_texts", "1", torch.__version__)
    assert facts["executed by"] == "rationale.fit" and notebook_of(folder) == "17_train_own_texts"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(
        BadInput, match="mine: a run by rationale.fit, give --again to replace it or --name to keep both"
    ):
        run_notebook("17_train_own_texts", [f"corpus={path}"], outputs=tmp_path, name="mine")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_fit_leaves_a_folder_with_files_of_somebody_else_as_it_is(tmp_path):
    path = write_table(tmp_path / "r.csv", reviews(60))
    with pytest.raises(
        BadInput, match=f"^folder: {tmp_path} holds r.csv, which no run has made; accepted: another folder"
    ):
        rationale.fit(path, tmp_path, **SMALL)
    assert [file.name for file in tmp_path.iterdir()] == ["r.csv"]


@pytest.mark.parametrize("content", [b"no checkpoint", save({"weights": torch.ones(2)})], ids=["damaged", "whole"])
def test_fit_takes_no_checkpoint_of_another_program_for_what_its_own_call_has_left(tmp_path, content):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoint.safetensors").write_bytes(content)
    with pytest.raises(BadInput, match=r"run holds checkpoint.safetensors, which no run has made; accepted: another"):
        rationale.fit(path, folder, **SMALL)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {"checkpoint.safetensors": content}


def kill_before_the_first_epoch(monkeypatch, path, folder):
    monkeypatch.setattr("rationale.runs.fit.train_extractor", lambda *_: sys.exit("killed"))
    with pytest.raises(SystemExit):
        rationale.fit(path, folder, **SMALL)
    monkeypatch.undo()


def test_fit_begins_again_beside_a_damaged_checkpoint_of_its_own(tmp_path, monkeypatch):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    kill_before_the_first_epoch(monkeypatch, path, folder)
    (folder / "checkpoint.safetensors").write_bytes(b"damaged")
    rationale.fit(path, folder, **(SMALL | {"epochs": 1}))
    assert (folder / "model.safetensors").exists() and not (folder / "checkpoint.safetensors").exists()


def test_fit_takes_no_file_of_somebody_else_for_a_draft_of_a_call_that_was_killed(tmp_path):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    folder.mkdir()
    (folder / ".speech.draft").touch()
    with pytest.raises(BadInput, match=r"run holds .speech.draft, which no run has made; accepted: another folder"):
        rationale.fit(path, folder, **SMALL)
    (folder / ".speech.draft").rename(folder / ".history.csv.0123abcd.draft")
    rationale.fit(path, folder, **(SMALL | {"epochs": 1}))
    assert not list(folder.glob("*.draft"))


def test_fit_begins_again_in_a_folder_in_which_it_was_stopped_before_the_first_epoch(tmp_path, monkeypatch):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    kill_before_the_first_epoch(monkeypatch, path, folder)
    assert [file.name for file in folder.iterdir()] == ["environment.txt"]
    rationale.fit(path, folder, **(SMALL | {"epochs": 1}))
    assert (folder / "model.safetensors").exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_fit_that_is_refused_for_its_texts_leaves_nothing_behind(tmp_path, is_there):
    path, folder = write_table(tmp_path / "r.csv", [row | {"text": ""} for row in reviews(60)]), tmp_path / "run"
    if is_there:
        folder.mkdir()
    with pytest.raises(BadInput, match="an empty text"):
        rationale.fit(path, folder, **SMALL)
    assert folder.exists() == is_there and not (is_there and list(folder.iterdir()))


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_quiet_fit_shows_nothing_but_notes_which_a_program_can_read(tmp_path, monkeypatch, is_kept):
    path, folder = write_table(tmp_path / "r.csv", reviews(60)), tmp_path / "run"
    shown, errors = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", errors)
    model = rationale.fit(path, folder if is_kept else None, quiet=True, **SMALL)
    lines = shown.getvalue().splitlines()
    assert lines == [f"note: {note}" for note in model.notes] and errors.getvalue() == ""
    assert any(note.startswith("too few texts: dev accuracy") for note in model.notes)
    if is_kept:
        assert rationale.load(folder).notes == model.notes
        (folder / "notes.json").unlink()
        assert rationale.load(folder).notes == (), "the file of the model is enough to load it"
    with pytest.raises(BadInput, match="^quiet: 'no'; accepted: True or False"):
        rationale.fit(path, folder, quiet="no", **SMALL)


def test_fit_shows_a_line_per_epoch_unless_it_is_quiet_and_keeps_the_same_notes(tmp_path, capsys):
    model = rationale.fit(write_table(tmp_path / "r.csv", reviews(60)), **SMALL)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("epoch ")]) == 2
    assert [line.removeprefix("note: ") for line in lines if line.startswith("note: ")] == list(model.notes) != []


def test_fit_does_not_replace_an_unfinished_run_whose_texts_have_changed(tmp_path, monkeypatch):
    path, folder, rows = tmp_path / "r.csv", tmp_path / "run", reviews(60)
    write_table(path, rows)
    monkeypatch.setattr("rationale.runs.fit.save_own", lambda *_: sys.exit("killed"))
    with pytest.raises(SystemExit):
        rationale.fit(path, folder=folder, **SMALL)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    write_table(path, [row | {"label": "pos" if i % 7 else "neg"} for i, row in enumerate(rows)])
    with pytest.raises(BadInput, match="run holds an unfinished run, and .*r.csv has changed since it began"):
        rationale.fit(path, folder=folder, **SMALL)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before, "nothing is lost"


def test_fit_continues_a_run_although_a_file_of_an_earlier_run_has_changed(tmp_path, monkeypatch, capsys):
    first, second, folder = (tmp_path / name for name in ("first.csv", "second.csv", "run"))
    write_table(second, reviews(60))
    rationale.fit(write_table(first, reviews(60)), **(SMALL | {"epochs": 1}))
    monkeypatch.setattr("rationale.runs.fit.save_own", lambda *_: sys.exit("killed"))
    with pytest.raises(SystemExit):
        rationale.fit(second, folder=folder, **SMALL)
    monkeypatch.undo()
    write_table(first, reviews(61))
    rationale.fit(second, folder=folder, **SMALL)
    assert "resumed after epoch 2 of 2" in capsys.readouterr().out
    assert str(second) in (folder / "read.json").read_text() and str(first) not in (folder / "read.json").read_text()


def fit_at_commit(monkeypatch, folder, **changes):
    """`fit` on a data set of the hub, as a function of the commit; None: the library does not say which it is."""
    datasets = pytest.importorskip("datasets")
    parts = saved_parts(datasets, {"train": reviews(60)})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: parts)

    def fit_of(commit):
        address = f"hf://datasets/owner/films@{commit}/train.csv"
        parts["train"].info.download_checksums = {address: {"num_bytes": 1}} if commit else {}
        return rationale.fit("hub:owner/films", folder=folder, **(SMALL | changes))

    return fit_of


def test_fit_does_not_continue_a_run_on_another_revision_of_a_data_set_on_the_hub(tmp_path, monkeypatch):
    fit_of = fit_at_commit(monkeypatch, tmp_path / "run")
    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("rationale.runs.fit.save_own", lambda *_: sys.exit("killed"))
        fit_of("89abcdef" * 5)
    with pytest.raises(BadInput, match="hub:owner/films has changed since this training began"):
        fit_of("01234567" * 5)
    fit_of("89abcdef" * 5)


def test_fit_loads_the_finished_run_of_a_data_set_on_the_hub_unless_its_revision_is_another(tmp_path, monkeypatch):
    fit_of = fit_at_commit(monkeypatch, tmp_path / "run", epochs=1)
    first = fit_of("89abcdef" * 5).model.state_dict()
    for commit in ("89abcdef" * 5, None):
        assert all(torch.equal(value, first[name]) for name, value in fit_of(commit).model.state_dict().items())
    with pytest.raises(BadInput, match="of a finished run before hub:owner/films was changed; accepted: another fol"):
        fit_of("01234567" * 5)


def test_a_run_that_fit_has_saved_is_found_and_described_on_the_scale_of_its_file(tmp_path):
    path = write_table(tmp_path / "films.csv", rated(60))
    run = rationale.fit(path, folder=tmp_path / "outputs" / "films", **(SMALL | {"epochs": 1}))
    assert find_runs(tmp_path / "outputs")["texts"] == [tmp_path / "outputs" / "films"]
    assert describe_prediction(run, [0.5]) == "label 5.50"


def test_fit_names_a_setting_that_does_not_exist(tmp_path):
    with pytest.raises(BadInput, match="fit: selecton: unknown parameter, did you mean selection"):
        rationale.fit(tmp_path / "r.csv", selecton=0.2)
    with pytest.raises(BadInput, match=r"r.csv: no such file"):
        rationale.fit(tmp_path / "r.csv", vectors="random")


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        (None, {}, "data: None is no path; accepted: a file, a folder, or hub:owner/name"),
        (
            pd.DataFrame({"text": ["a"]}),
            {},
            r"data: a table is no path; accepted: a file, .*; save it first, by data.to_csv.*",
        ),
        (
            "movies",
            {},
            "data: movies is the name of a corpus of the package; accepted: a file, a folder such as ./movies, or "
            "hub:owner/name; in a clone, `python -m rationale.runs 17_train_own_texts corpus=movies` trains on it",
        ),
        ("r.csv", {"threads": 0}, "threads: 0; accepted: a whole number from 1 to 1024"),
        ("r.csv", {"threads": "2"}, "threads: '2'; accepted: a whole number from 1 to 1024"),
        ("r.csv", {"threads": 100_000}, "threads: 100000; accepted: a whole number from 1 to 1024"),
        ("r.csv", {"threads": 2**31}, "threads: 2147483648; accepted: a whole number from 1 to 1024"),
        ("r.csv", {"folder": 5}, "folder: 5 is no path; accepted: a folder"),
        ("r.csv", {"folder": ""}, "folder: '' is no path; accepted: a folder"),
        ("r.csv", {"folder": " "}, "folder: ' ' is no path; accepted: a folder"),
        ("r.csv", {"folder": "a\0b"}, r"folder: a\\x00b: embedded null byte; accepted: another folder"),
        ("r.csv", {"folder": "y" * 300}, "folder: y+: File name too long; accepted: another folder"),
        ("r.csv", {"folder": "r.csv"}, "folder: r.csv: File exists; accepted: another folder"),
        ("r.csv", {"folder": "r.csv/run"}, "folder: r.csv/run: Not a directory; accepted: another folder"),
    ],
)
def test_fit_refuses_what_is_no_path_in_one_line(tmp_path, monkeypatch, data, settings, message):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "r.csv", reviews())
    with pytest.raises(BadInput, match=f"^{message}$"):
        rationale.fit(data, **(SMALL | settings))
    assert [file.name for file in tmp_path.iterdir()] == ["r.csv"], "no run in the current folder"


def test_fit_takes_numbers_of_numpy_and_paths_as_their_values(tmp_path):
    changes = {"epochs": np.int64(1), "selection": np.float32(0.25), "train_vectors": np.bool_(True)}
    run = rationale.fit(write_table(tmp_path / "r.csv", reviews(60)), folder=tmp_path / "run", **(SMALL | changes))
    p = run.parameters
    assert (p.epochs, p.selection, p.train_vectors) == (1, 0.25, True) and type(p.epochs) is int
    sizeless = {name: value for name, value in SMALL.items() if name != "embedding_size"}  # a file has its own size
    with pytest.raises(BadInput, match=r"vectors: '.*none.txt' not found"):
        rationale.fit(tmp_path / "r.csv", **(sizeless | {"vectors": tmp_path / "none.txt"}))


@pytest.mark.parametrize("run", [None, 5, "x" * 300, "a\0b", ""])
def test_load_refuses_what_is_no_folder_of_a_run_in_one_line(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="accepted is the folder of a finished training run"):
        rationale.load(run)


def changed_header(content: bytes) -> bytes:
    """A file of safetensors with one bit changed in the description of its tensors."""
    return content[:9] + bytes([content[9] ^ 1]) + content[10:]


def test_load_says_in_words_of_a_user_why_a_file_is_no_model(tmp_path, labelled):
    path, p = tmp_path / "model.safetensors", parameters(epochs=1)
    save_run(tmp_path, Result(labelled.model, labelled.vocabulary, {}, {}, [], {"epoch": 0}), p, labelled.labels)
    whole = path.read_bytes()
    other, noted = (save({"w": torch.ones(2)}, facts) for facts in (None, {"format": "pt"}))
    cases = [(content, "weights that another program has written") for content in (other, noted)]
    cases += [
        (b"", "damaged, or not"),
        (b"no tensors at all", "damaged, or not"),
        (changed_header(whole), "damaged, or"),
    ]
    for content, reason in cases:
        path.write_bytes(content)
        with pytest.raises(BadInput, match=f"no model of this project, or of another version .{reason}.*; accepted is"):
            rationale.load(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadInput, match="model.safetensors: a folder; accepted is a file that a finished run wrote"):
        rationale.load(tmp_path)


def test_a_name_alone_is_answered_with_a_close_one_and_with_no_other_folder(tmp_path, monkeypatch):
    for place in ("reviews-seed1", "clients/secret"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "run.ipynb").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="^nowhere: no such run; accepted is"):
        rationale.load("nowhere")
    with pytest.raises(BadInput, match="^reviews-sed1: no such run, did you mean reviews-seed1; accepted is"):
        rationale.load("reviews-sed1")
    with pytest.raises(BadInput, match=r"^clients/x: no such run \(there: secret\); accepted is"):
        rationale.load("clients/x")


def test_a_run_is_shown_in_one_line(labelled):
    assert repr(labelled).startswith("SavedRun(") and len(repr(labelled)) < 200
    assert all(name in repr(labelled) for name in labelled.labels)


def test_training_and_loading_leave_the_random_numbers_that_come_next_as_they_are(tmp_path):
    path = write_table(tmp_path / "films.csv", rated(80))

    def states() -> tuple:
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    torch.manual_seed(5)
    before = states()
    rationale.fit(path, tmp_path / "run", **SMALL)
    assert states() == before
    rationale.load(tmp_path / "run")
    assert states() == before


def test_calls_in_several_threads_train_as_if_each_was_alone_and_leave_the_output_as_it_was(tmp_path, capsys):
    path, stream, seeds = write_table(tmp_path / "r.csv", reviews(60)), sys.stdout, (1, 2)

    def weights(seed):
        return rationale.fit(path, quiet=True, **(SMALL | {"seed": seed})).model.head.output.weight

    alone = [*map(weights, seeds)]
    with ThreadPoolExecutor(2) as pool:
        together = [*pool.map(weights, seeds)]
    assert all(map(torch.equal, alone, together)) and not torch.equal(*alone)
    assert sys.stdout is stream


def test_fit_leaves_the_number_of_threads_as_it_was(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rationale.fit(write_table(tmp_path / "r.csv", reviews(60)), **(SMALL | {"epochs": 1}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_base_dependencies_suffice_to_train_to_load_and_to_answer(tmp_path):
    path = write_table(tmp_path / "r.csv", reviews(60))
    code = f"""
import rationale
rationale.fit({str(path)!r}, folder={str(tmp_path / "run")!r}, embedding_size=8, hidden_size=6, epochs=1, device="cpu")
model = rationale.load({str(tmp_path / "run")!r})
answers = model(["a warm film", ""])
print("page", "<mark" in model.to_html(answers) or not answers[0].rationale, answers[0].label in ("neg", "pos"))
"""
    assert without_extras(code).splitlines()[-1] == "page True True"


def test_importing_the_package_stays_light():
    code = "import sys, rationale; print('torch' in sys.modules, 'numpy' in sys.modules, sorted(rationale.__all__))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root(), check=True).stdout
    assert out.strip() == "False False ['__version__', 'explain_classifier', 'fit', 'load']"


# --- history.csv without pandas


def test_a_table_is_written_as_pandas_writes_it(tmp_path):
    pd = pytest.importorskip("pandas")
    rows = [
        {"epoch": 1, "seconds": 0.1 + 0.2, "a b": 1e-17, "rate": float("nan")},
        {"epoch": 2, "seconds": 3.0, "x,y": "q"},
    ]
    assert as_csv(rows) == pd.DataFrame(rows).to_csv(index=False)


def test_the_history_of_a_run_is_what_was_trained(tmp_path):
    p = SimpleNamespace(**vars(parameters(epochs=2)))
    result = training.train_extractor(p, corpus(), "scores", 1, tmp_path)
    save_run(tmp_path, result, p)
    (tmp_path / "run.ipynb").write_text("{}")
    assert read_history(tmp_path).to_dict("records") == result.history
