"""Questions and answers: the reader, spans as pieces, and a span model that is probed."""

import json
from dataclasses import replace

import pytest
import torch

from rationale import models, training
from rationale.data import Batches, word_pieces
from rationale.data.corpora import squad
from rationale.data.corpora.xquad import read_xquad
from rationale.data.example import Question
from rationale.data.squad_format import read_squad_file
from rationale.errors import BadInput
from rationale.explain import FrozenModel, ProbeObjective
from rationale.runs import notebook_path
from rationale.runs.cells import notebook_settings

CONTEXT = "a dull film. a funny film."


def written(path, answer_start=13, text="a funny film", **changes):
    """A file with one article, one paragraph and one question; returns its path."""
    answer = {"answer_start": answer_start, "text": text}
    asked = {"id": "q1", "question": "a film", "answers": [answer]} | changes
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": [asked]}]}]}))
    return path


def test_a_question_has_its_paragraph_and_its_answer(tmp_path):
    (one,) = read_squad_file(written(tmp_path / "some.json"))
    assert one == Question("q1", "t", CONTEXT, "a film", ((13, "a funny film"),))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer_start": 12}, "question 'q1': the answer 'a funny film' is not at character 12"),
        ({"answers": []}, "question 'q1' has no answer"),
    ],
)
def test_a_question_that_cannot_be_used_is_named(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        read_squad_file(written(tmp_path / "some.json", **changes))


def test_a_file_that_is_missing_of_another_form_or_incomplete_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read_squad_file(tmp_path / "none.json")
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(BadInput, match="SQuAD's format"):
        read_squad_file(tmp_path / "other.json")
    with pytest.raises(BadInput, match="the official file has"):
        read_squad_file(written(tmp_path / "dev-v1.1.json"), official=(48, 10_570))


@pytest.mark.data
def test_the_questions_of_xquad_are_all_there_and_no_article_is_in_two_splits():
    splits = read_xquad()
    assert sum(map(len, splits.values())) == 1_190
    titles = {name: {question.title for question in part} for name, part in splits.items()}
    assert [len(part) for part in titles.values()] == [40, 4, 4]
    assert not titles["train"] & titles["test"] and not titles["dev"] & titles["test"]


@pytest.mark.parametrize(
    "article",
    [
        {},
        {"paragraphs": [{"qas": []}]},
        {"paragraphs": [{"context": "a", "qas": [{"question": "a", "answers": []}]}]},
        {"paragraphs": [{"context": "a", "qas": [{"id": "q", "question": "a", "answers": [{"text": "a"}]}]}]},
        {"paragraphs": 3},
        "a",
    ],
)
def test_an_article_of_another_form_is_named_by_its_number(tmp_path, article):
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"data": [{"paragraphs": []}, article]}))
    with pytest.raises(BadInput, match="article 2 is not in SQuAD's format"):
        read_squad_file(path)


# --- with a tiny transformer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a BERT of two layers and eight units."""
    from test_pretrained import tiny

    return tiny(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def spans(folder, tmp_path):
    """FrozenModel span model and batches of one question, twice."""
    questions = read_squad_file(written(tmp_path / "some.json")) * 2
    encoder, tokenizer = models.load_encoder(folder, spans=True)
    examples = word_pieces.to_spans(questions, tokenizer)
    model = models.SpanFinder(encoder, tokenizer.sep_token_id).eval().requires_grad_(False)
    batches = Batches(examples, word_pieces.WordPieces(tokenizer), 2)
    return FrozenModel(model, model.layers, model.predict, lambda batch: batch.mask), batches


def test_an_answer_is_found_among_the_pieces(spans):
    _, batches = spans
    example = batches.examples[0]
    first, last = map(int, example.label)
    assert example.tokens[first : last + 1] == ("a", "fun", "##ny", "film")
    assert [i for i, gold in enumerate(example.rationale) if gold] == list(range(first, last + 1))
    assert example.tokens.count("[SEP]") == 2 and first > example.tokens.index("[SEP]")


def test_an_answer_is_scored_as_a_text_by_the_best_of_the_right_ones(spans):
    example = spans[1].examples[0]
    first, last = map(int, example.label)
    assert example.answer(first, last) == "a funny film" and example.answer(last, first) == ""
    both = replace(example, question=example.question._replace(answers=((13, "a funny film"), (21, "film"))))
    answers = torch.tensor([[first + 1, last], [first, first], [last, last], [last, first]])
    found = word_pieces.span_scores(answers, torch.tensor([[first, last]] * 4).float(), [example, example, both, both])
    assert found["accuracy"] == 0, "no answer has both ends right"
    assert found["exact_match"] == pytest.approx(2 / 4), "articles do not count, and any right answer will do"
    assert found["f1"] == pytest.approx(2 / 4)
    right = word_pieces.span_scores(answers[:1] - torch.tensor([[1, 0]]), torch.tensor([[first, last]]), [example])
    assert right == {"accuracy": 1.0, "exact_match": 1.0, "f1": 1.0}


def test_a_text_too_long_is_left_out(folder, tmp_path):
    questions = read_squad_file(written(tmp_path / "some.json"))
    assert word_pieces.to_spans(questions, models.load_encoder(folder)[1], longest=8) == []


def test_an_answer_without_a_piece_is_left_out(folder):
    accent = Question("1", "", "a \u0301 film", "a film ?", ((2, "\u0301"),))
    film = accent._replace(answers=((4, "film"),))
    (example,) = word_pieces.to_spans([accent, film], models.load_encoder(folder)[1])
    assert example.question == film


def test_a_question_that_names_a_separator_leaves_its_paragraph_where_it_is(folder):
    encoder, tokenizer = models.load_encoder(folder, spans=True)
    asked = Question("1", "", "a [SEP] dull film .", "a [SEP] ?", ((13, "film"),))
    (example,) = word_pieces.to_spans([asked], tokenizer)
    batch = Batches([example], word_pieces.WordPieces(tokenizer), 1).rows(torch.tensor([0]))
    p = models.SpanFinder(encoder, tokenizer.sep_token_id).eval().predict(batch).softmax(-1)
    first, last = map(int, example.label)
    assert example.tokens[first : last + 1] == ("film",) and p[0, 0, first] > 0 and p[0, 1, last] > 0


def test_a_checkpoint_that_was_fine_tuned_for_three_classes_finds_the_two_ends_of_an_answer(tmp_path):
    from test_pretrained import tiny

    encoder, _ = models.load_encoder(tiny(tmp_path, num_labels=3), spans=True)
    assert encoder.qa_outputs.out_features == 2


def test_ends_are_looked_for_in_the_paragraph_alone(spans):
    frozen, batches = spans
    (batch,) = batches.in_order()
    logits = frozen.predict(batch)
    assert logits.shape == (2, 2, len(batches.examples[0].tokens))
    p = logits.softmax(-1)
    start = batches.examples[0].tokens.index("[SEP]") + 1
    assert (p[..., :start] == 0).all() and (p[..., -1] == 0).all() and (p[..., start:-1] > 0).all()


def test_a_span_model_is_trained_and_probed_like_any_other(spans):
    frozen, batches = spans
    (batch,) = batches.in_order()
    assert training.AnswerLoss()(frozen.model, batch).loss.isfinite()
    p = notebook_settings(notebook_path("14_train_probes"), hidden_size=3)
    probe = training.build_probe(p, "inputs", frozen, batches)
    step = ProbeObjective(4, 1.0).train()(probe, batch)
    step.loss.backward()
    assert step.loss.isfinite() and step.parts["divergence"] > -1e-6
    figures, keep = training.evaluate_probe(probe, batches, word_pieces.span_scores)
    assert {"masked_f1_0", "masked_exact_match_3", "kept_2"} < set(figures) and len(keep) == 2


def test_the_official_files_become_train_dev_and_test(tmp_path, monkeypatch):
    counts = dict(zip(squad.OFFICIAL_COUNTS, ((442, 442), (3, 3)), strict=True))
    monkeypatch.setattr(squad, "OFFICIAL_COUNTS", counts)
    for name, (number, _) in counts.items():
        one = json.loads(written(tmp_path / name).read_text())["data"][0]
        articles = [one | {"title": f"{name} {i}"} for i in range(number)]
        (tmp_path / name).write_text(json.dumps({"data": articles}))
    splits = squad.read_squad(tmp_path)
    assert {name: len(part) for name, part in splits.items()} == {"train": 420, "dev": 22, "test": 3}
    first = {name: part[0].title.split()[0] for name, part in splits.items()}
    assert first == {"train": "train-v1.1.json", "dev": "train-v1.1.json", "test": "dev-v1.1.json"}
