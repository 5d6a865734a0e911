"""Explain a classifier of one's own: tiny ones, with weights set by hand, so that it is known which words decide."""

import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from own_files import write_lines, write_table

import rationale
from rationale.data.own.unlabelled import read_plain
from rationale.data.tokenise import TOKENISERS
from rationale.data.word_groups import SPECIAL, group_texts
from rationale.errors import BadInput
from rationale.explain.words import FrozenWords, of_pieces
from rationale.models.classifier import load_classifier
from rationale.runs.predict import main as predict
from rationale.training import loop
from rationale.training.settings.classifier import ClassifierProbeSettings

transformers = pytest.importorskip("transformers")
GOOD, BAD = ("wonderful", "funny", "charming"), ("dull", "awful", "clumsy")
OTHERS = tuple("a the film plot it was of with scenes music story my 🎉".split())
PLAIN = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
SPECIALS = {"pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
LABELS = {"id2label": {0: "neg", 1: "pos"}, "label2id": {"neg": 0, "pos": 1}}
CONFIGS = {
    "bert": ("BertConfig", PLAIN | {"max_position_embeddings": 40}),
    "roberta": ("RobertaConfig", PLAIN | {"max_position_embeddings": 43, "type_vocab_size": 1}),
    "distilbert": (
        "DistilBertConfig",
        {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 40},
    ),
    "deberta": (
        "DebertaV2Config",
        PLAIN | {"max_position_embeddings": 40, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
                 "type_vocab_size": 0},
    ),
}  # fmt: skip
ODD = [
    "It's wonderful 👍🏽, really!",
    "dull",
    "the film \U0001f1e9\U0001f1ea was (awful).",
    "so " * 60,
    "naïve —clumsy…",
]
split = TOKENISERS["treebank"]


def word_tokenizer():
    """Whole words, but for `clumsy` and `charming`, which have two pieces."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"!,.'()", *GOOD[:2], *BAD[:2], *OTHERS]
    words += ["charm", "##ing", "clum", "##sy", *"stre"]
    tokenizer = transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
    tokenizer.model_max_length = 40
    return tokenizer


def byte_tokenizer():
    """Bytes and a few merges, as in RoBERTa: a piece holds the space before it, and a symbol has several pieces."""
    alphabet = sorted(transformers.convert_slow_tokenizer.bytes_to_unicode().values())
    merges = ["d u", "du l", "dul l", "Ġ dull", "Ġ t", "Ġt h", "Ġth e", ") ."]
    pieces = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", *alphabet, *(merge.replace(" ", "") for merge in merges)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    pairs = [tuple(merge.split()) for merge in merges]
    tokenizer = transformers.RobertaTokenizerFast(vocab=vocabulary, merges=pairs)
    tokenizer.model_max_length = 40
    return tokenizer


def write_random(folder: Path, name: str, **changes) -> Path:
    """A classifier with random weights and its tokenizer."""
    tokenizer = byte_tokenizer() if name == "roberta" else word_tokenizer()
    config, options = CONFIGS[name]
    torch.manual_seed(0)
    chosen = getattr(transformers, config)(vocab_size=len(tokenizer), **(SPECIALS | options | LABELS | changes))
    model = transformers.AutoModelForSequenceClassification.from_config(chosen)
    for part in model.parameters():
        part.data += 0.3 * torch.randn_like(part)  # else all answers are nearly the same
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_deciding(folder: Path) -> Path:
    """A DistilBERT whose first position reads the mean of all embeddings; only the good and the bad words count."""
    tokenizer = word_tokenizer()
    options = {"dim": 8, "n_layers": 1, "n_heads": 1, "hidden_dim": 8, "max_position_embeddings": 40}
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(vocab_size=len(tokenizer), **options, **LABELS)
    model = transformers.DistilBertForSequenceClassification(config)
    embeddings, layer = model.distilbert.embeddings, model.distilbert.transformer.layer[0]
    with torch.no_grad():
        words = embeddings.word_embeddings.weight
        words.normal_()
        words[:, :2] = 0.0
        pieces = tokenizer.convert_tokens_to_ids
        for sign, decisive in ((-1, (*GOOD[:2], "charm", "##ing")), (1, (*BAD[:2], "clum", "##sy"))):
            for word in decisive:
                words[pieces(word)] = torch.tensor([4.0 * sign, -4.0 * sign, *[0.0] * 6])
        embeddings.position_embeddings.weight.zero_()
        for linear in (layer.attention.q_lin, layer.attention.k_lin, layer.ffn.lin2):
            linear.weight.zero_()
        for linear in (layer.attention.v_lin, layer.attention.out_lin, model.pre_classifier):
            linear.weight.copy_(torch.eye(8))
        model.classifier.weight.zero_()
        model.classifier.weight[:, :2] = 12.0 * torch.eye(2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def reviews(count: int = 240) -> list[str]:
    """Texts of other words with one or two of the deciding words, which agree."""
    draw, texts = random.Random(1), []
    for i in range(count):
        words = [draw.choice(OTHERS) for _ in range(draw.randint(4, 9))]
        for word in draw.sample((GOOD, BAD)[i % 2], draw.randint(1, 2)):
            words.insert(draw.randrange(len(words) + 1), word)
        texts.append(" ".join(words) + ".")
    return texts


@pytest.fixture(scope="module")
def deciding(tmp_path_factory) -> Path:
    return write_deciding(tmp_path_factory.mktemp("deciding"))


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return write_table(tmp_path_factory.mktemp("texts") / "reviews.csv", [{"body": text} for text in reviews()])


@pytest.fixture(scope="module")
def explained(deciding, table, tmp_path_factory):
    """A finished probe, and its folder."""
    folder = tmp_path_factory.mktemp("probes") / "mine"
    return rationale.explain_classifier(deciding, table, folder, text="body", epochs=8, batch_size=16), folder


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory) -> dict[str, Path]:
    return {name: write_random(tmp_path_factory.mktemp(name), name) for name in CONFIGS}


def test_the_probe_keeps_the_words_that_decide_and_drops_the_others(explained):
    probe, folder = explained
    answers = probe(reviews(300)[240:])
    kept = [(token, z) for answer in answers for token, z in zip(answer.tokens, answer.z, strict=True)]
    of_deciding = [z for token, z in kept if token in GOOD + BAD]
    of_others = [z for token, z in kept if token not in GOOD + BAD]
    assert sum(of_deciding) / len(of_deciding) > 0.9 and sum(of_others) / len(of_others) < 0.1
    assert {answer.label for answer in answers} == {"neg", "pos"}
    assert probe.holds_margin and probe.metrics["test"]["agreement"] == 1.0
    assert probe.metrics["test"]["divergence_without_words"] > 5 * probe.parameters.margin, "the words are needed"
    assert sorted(path.name for path in folder.iterdir()) == [
        "history.csv", "metrics.json", "model.safetensors", "params.yaml"
    ]  # fmt: skip
    metrics = json.loads((folder / "metrics.json").read_text())
    costs = probe.costs(read_plain(probe.parameters, reviews()).splits["test"])
    for name in ("kept", "divergence", "agreement"):
        mean = sum(getattr(cost, name) for cost in costs) / len(costs)
        assert mean == pytest.approx(metrics["test"][name], abs=1e-6), name


def test_passages_are_the_right_characters_also_beside_symbols_of_several_code_units(explained):
    probe, _ = explained
    text = "The film 👍🏽 was wonderful\U0001f600, funny;  it was\tcharming. \U0001f1e9\U0001f1ea"
    (answer,) = probe([text])
    assert answer.label == "pos"
    assert [span.text for span in answer.rationale] == ["wonderful", "funny", "charming"]
    assert all(text[span.start : span.end] == span.text for span in answer.rationale)
    assert set(answer.unknown) >= {"👍🏽"}
    page = probe.to_html([answer])
    assert page.count("<mark") == 3 and "whole text" in page and "predicted from these words" not in page


@pytest.mark.parametrize("name", CONFIGS)
def test_answers_are_those_of_the_pipeline_of_transformers(classifiers, name):
    probe = rationale.explain_classifier(classifiers[name], reviews(20), epochs=1, batch_size=20)
    pipeline = transformers.pipeline("text-classification", model=str(classifiers[name]), top_k=None)
    texts = [*ODD, *reviews(4)]
    for text, answer in zip(texts, probe(texts), strict=True):
        (rows,) = pipeline([text], truncation=True)
        own = {row["label"]: row["score"] for row in rows}
        assert answer.probabilities == pytest.approx(own, abs=1e-5), text
        assert answer.label == max(own, key=own.get)
    assert probe([" ", ""])[0].label is None, "a text without words has no answer"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_mask_of_ones_changes_no_bit_and_special_pieces_are_never_masked(classifiers, name):
    classifier = load_classifier(classifiers[name])
    batch = classifier.batches(classifier.grouped(ODD, split), 8).rows(torch.arange(len(ODD)))
    frozen = FrozenWords.of(classifier)
    logits, states = frozen.read(batch)
    baseline, ones = torch.full((8,), 3.0), torch.ones(batch.mask.shape)
    assert torch.equal(frozen.masked(batch, 0, ones, baseline), logits)
    assert not torch.allclose(frozen.masked(batch, 0, 0 * ones, baseline), logits)
    special = batch.tokens.word == SPECIAL
    numbers = batch.tokens.numbers[special & batch.tokens.real]
    assert set(numbers.tolist()) == {classifier.tokenizer.cls_token_id, classifier.tokenizer.sep_token_id}
    assert of_pieces(0 * ones, batch.tokens).eq(special.float()).all()
    assert all(state.shape[:2] == batch.mask.shape for state in states)
    embedded = classifier.embeddings(batch.tokens.numbers)
    word = batch.tokens.word[0] == 1
    torch.testing.assert_close(states[0][0, 1], embedded[0][word].mean(0))


def test_pieces_of_a_word_share_a_gate_and_so_do_words_with_a_common_piece():
    text = "the dull film). 👍🏽 e"
    (by_bytes,) = group_texts([text], byte_tokenizer(), split, 40)
    assert by_bytes.tokens == ("the", "dull", "film", ")", ".", "👍🏽", "e")
    assert by_bytes.word_of_token == (0, 1, 2, 3, 3, 4, 5), "`).` is one piece"
    assert by_bytes.word[:2] == (SPECIAL, 0) and by_bytes.word[-1] == SPECIAL
    assert by_bytes.word.count(4) >= 8, "the bytes of two characters that are shown as one"
    (by_words,) = group_texts(["clumsy \u200b film 🎉"], word_tokenizer(), split, 40)
    assert by_words.word[:4] == (SPECIAL, 0, 0, 1) or by_words.word[1:3] == (0, 0)
    assert "🎉" in by_words.unknown and "film" not in by_words.unknown
    (cut,) = group_texts(["film " * 50], word_tokenizer(), split, 10)
    assert cut.is_cut and cut.num_words == 8 and cut.word_of_token[8:] == (SPECIAL,) * 42
    (half,) = group_texts(["a \ud83d film"], word_tokenizer(), split, 40)
    assert half.word_of_token == (0, SPECIAL, 1), "this tokenizer drops what is no character"


def test_a_finished_probe_is_loaded_again_with_the_same_answers(explained, deciding, table, capsys):
    probe, folder = explained
    texts = [*ODD, *reviews(6)]
    again = rationale.load(folder)
    assert again(texts) == probe(texts) and again.costs(texts) == probe.costs(texts) and again.cost == probe.cost
    assert rationale.explain_classifier(deciding, table, folder, text="body", epochs=8, batch_size=16)(texts) == probe(
        texts
    )
    assert "which is loaded" in capsys.readouterr().out
    with ThreadPoolExecutor(4) as pool:
        assert all(found == probe(texts) for found in pool.map(lambda _: probe(texts), range(8)))
    assert predict([str(folder), "--text", "a film"]) == 2
    assert "a probe of a classifier, which answers in Python" in capsys.readouterr().err
    for settings, message in (({"margin": 0.2}, "margin 0.1 there, 0.2 here"), ({"epochs": 9}, "epochs 8 there"),
                              ({"num_train": 50}, "num_train 0 there, 50 here")):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            rationale.explain_classifier(
                deciding, table, folder, text="body", **({"epochs": 8, "batch_size": 16} | settings)
            )
    with pytest.raises(BadInput, match="other texts"):
        rationale.explain_classifier(deciding, reviews(100), folder, text="body", epochs=8, batch_size=16)


def test_a_probe_is_not_loaded_for_another_classifier(explained, deciding, tmp_path):
    _, folder = explained
    copy, moved = tmp_path / "probe", tmp_path / "classifier"
    shutil.copytree(deciding, moved)
    made = rationale.explain_classifier(moved, reviews(60), copy, epochs=1)
    (moved / "README.md").write_text("not read")
    assert rationale.load(copy)(["a dull film"]) == made(["a dull film"])
    config = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps(config | {"id2label": {0: "pos", 1: "neg"}}))
    with pytest.raises(BadInput, match="explains the classifier in .*, which has changed since"):
        rationale.load(copy)
    with pytest.raises(BadInput, match="another classifier, or one that has changed"):
        rationale.explain_classifier(moved, reviews(60), copy, epochs=1)
    shutil.rmtree(moved)
    with pytest.raises(BadInput, match="which is not there; put the classifier back"):
        rationale.load(copy)
    (copy / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-50])
    with pytest.raises(BadInput, match=r"model\.safetensors"):
        rationale.load(copy)


def test_a_killed_run_leaves_no_probe_and_the_same_call_continues_it(explained, deciding, table, tmp_path, monkeypatch):
    whole, _ = explained
    step, calls = loop._report, []

    def killed(*given):
        step(*given)
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_report", killed)
    folder = tmp_path / "probe"
    with pytest.raises(KeyboardInterrupt):
        rationale.explain_classifier(deciding, table, folder, text="body", epochs=8, batch_size=16)
    assert [path.name for path in folder.iterdir()] == ["checkpoint.safetensors"]
    with pytest.raises(BadInput, match="has not finished"):
        rationale.load(folder)
    for settings, texts, message in (({"margin": 0.3}, table, "margin 0.1 there"), ({}, reviews(50), "other texts")):
        with pytest.raises(BadInput, match=message):
            rationale.explain_classifier(deciding, texts, folder, text="body", epochs=8, batch_size=16, **settings)
    continued = rationale.explain_classifier(deciding, table, folder, text="body", epochs=8, batch_size=16)
    assert len(calls) == 8 and continued.metrics == whole.metrics and not (folder / "checkpoint.safetensors").exists()


def test_a_note_says_that_the_margin_does_not_hold(deciding, capsys):
    probe = rationale.explain_classifier(deciding, reviews(40), epochs=1, batch_size=2, margin=1e-4, learning_rate=0.5)
    assert not probe.holds_margin
    printed = capsys.readouterr().out
    assert f"probe: {probe.cost}" in printed and "note: the margin does not hold on held-out texts" in printed


def encoder_alone(folder: Path, deciding: Path) -> Path:
    transformers.AutoModel.from_pretrained(deciding).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


def configured(folder: Path, deciding: Path, **changes) -> Path:
    shutil.copytree(deciding, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def without_tokenizer(folder: Path, deciding: Path) -> Path:
    shutil.copytree(deciding, folder, dirs_exist_ok=True)
    for path in folder.glob("tokenizer*"):
        path.unlink()
    return folder


BAD_CLASSIFIERS = {
    "nowhere": (lambda d, c: d / "no-such", "is no folder; accepted: a folder that save_pretrained has written"),
    "a file": (lambda d, c: c / "config.json", "is a file; accepted"),
    "no path": (lambda d, c: 3, "classifier: 3 is no path"),
    "an empty folder": (lambda d, c: d, "holds no config.json"),
    "no head": (encoder_alone, "has no trained classifier: its file of weights lacks classifier.bias"),
    "one output": (
        lambda d, c: write_random(d, "bert", id2label={0: "stars"}, label2id={"stars": 0}),
        "has one output",
    ),
    "several labels": (
        lambda d, c: configured(d, c, problem_type="multi_label_classification"),
        "gives several labels",
    ),
    "a name twice": (lambda d, c: configured(d, c, id2label={0: "x", 1: "x"}), "each by its own name"),
    "no tokenizer": (without_tokenizer, "no tokenizer.json|cannot be loaded"),
    "no model": (lambda d, c: configured(d, c, model_type="unheard"), "cannot be loaded"),
}


@pytest.mark.parametrize("name", BAD_CLASSIFIERS)
def test_what_is_no_classifier_is_refused_in_one_line_before_any_work(name, deciding, tmp_path):
    make, message = BAD_CLASSIFIERS[name]
    (tmp_path / "c").mkdir()
    classifier, folder = make(tmp_path / "c", deciding), tmp_path / "probe"
    with pytest.raises(BadInput, match=message) as caught:
        rationale.explain_classifier(classifier, reviews(40), folder)
    assert "\n" not in str(caught.value) and not folder.exists()


@pytest.mark.parametrize(
    "data, settings, message",
    [
        ([], {}, "texts: 0 different texts; accepted: at least 10"),
        (["a film"] * 40, {}, "texts: 1 different text; accepted: at least 10"),
        (["a film", 3], {}, "text 2: no text; accepted"),
        (["a film", " "], {}, "text 2: empty; accepted"),
        ("nowhere.csv", {}, "nowhere.csv: no such file"),
        ("nowhere", {}, "data: 'nowhere' is no file; accepted: a file"),
        (7, {}, "data: 7 is neither a path nor a list"),
        (reviews(40), {"margin": 0.0}, r"margin: 0.0 is not accepted, give a number in \(0, inf\)"),
        (reviews(40), {"margin": -1}, "margin: -1 is not accepted"),
        (reviews(40), {"epochs": 0}, "epochs: 0 is not accepted"),
        (reviews(40), {"label": "stars"}, "label: unknown parameter"),
        (reviews(40), {"threads": 0}, "threads: 0; accepted: a whole number from 1"),
    ],
)
def test_bad_texts_and_settings_are_refused_in_one_line(data, settings, message, deciding, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=message):
        rationale.explain_classifier(deciding, data, "probe", **settings)
    assert not (tmp_path / "probe").exists()


def test_a_folder_of_something_else_is_left_as_it_is(deciding, tmp_path):
    (tmp_path / "params.yaml").write_text("seed: 1\n")
    with pytest.raises(BadInput, match="holds params.yaml which is no probe of a classifier; accepted: another folder"):
        rationale.explain_classifier(deciding, reviews(40), tmp_path)
    (tmp_path / "params.yaml").rename(tmp_path / "metrics.json")
    with pytest.raises(BadInput, match="holds a file metrics.json, which the probe would replace"):
        rationale.explain_classifier(deciding, reviews(40), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


def plain(data, **settings):
    return read_plain(ClassifierProbeSettings(**settings), data)


def test_texts_are_read_without_labels_as_they_are_written(tmp_path):
    rows = [{"text": f"Text  number {i} 👍", "other": i} for i in range(30)]
    one = plain(str(write_table(tmp_path / "one.csv", [*rows, *rows[:5]])))
    assert {split: len(set(part)) for split, part in one.splits.items()} == {"train": 24, "dev": 3, "test": 3}
    assert sorted({text for part in one.splits.values() for text in part}) == sorted(row["text"] for row in rows)
    parts = [set(part) for part in one.splits.values()]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2], "copies stay together"
    lines = plain(str(write_lines(tmp_path / "one.jsonl", [{"text": row["text"].split()} for row in rows])))
    assert lines.splits["dev"][0].count(" ") == 3, "a list of words becomes a text"
    folder = tmp_path / "splits"
    folder.mkdir()
    for name, part in (("train", rows[:20]), ("validation", rows[20:26]), ("test", rows[25:])):
        write_table(folder / f"{name}.csv", part)
    own = plain(str(folder), num_train=5)
    assert [len(own.splits[split]) for split in ("train", "dev", "test")] == [5, 6, 5]
    assert own.notes == ["1 text of test is in dev as well"] and own.digest != plain(str(folder)).digest
    gaps = write_table(tmp_path / "gaps.csv", [*rows, {"text": " ", "other": 1}])
    with pytest.raises(BadInput, match="gaps.csv, row 32: an empty text in column 'text'"):
        plain(str(gaps))
    assert sum(map(len, plain(str(gaps), skip_incomplete=True).splits.values())) == 30
    with pytest.raises(BadInput, match="no column 'body'; its columns are text, other"):
        plain(str(gaps), text="body")
