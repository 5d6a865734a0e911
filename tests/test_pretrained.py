"""Pretrained transformers: a tiny one with random weights stands in, so nothing is downloaded."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from rationale import explain, models, training
from rationale.data import Batches, Example, word_pieces
from rationale.data.corpora import sst
from rationale.errors import BadInput
from rationale.explain import FrozenModel, ProbeObjective
from rationale.models import transformers as transformer_module
from rationale.runs import notebook_path
from rationale.runs.cells import notebook_settings
from rationale.training import probing
from rationale.training.settings import ProbingSettings

transformers = pytest.importorskip("transformers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fun", "##ny", "film", "(", ")", "dull", "."]
TEXTS = [
    Example(("a", "funny", "film", "."), 4, word_labels=(2, 4, 2, 2)),
    Example(("-LRB-", "dull", "-RRB-", "dull", "dull", "film"), 0, word_labels=(2, 1, 2, 1, 1, 2)),
    Example(("a", "film"), 2, word_labels=(2, 2)),
]


def tiny(place, **options) -> str:
    """A BERT of two layers and eight units with random weights, in this folder."""
    transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS)}).save_pretrained(place)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(vocab_size=len(WORDS), **sizes, **options)).save_pretrained(place)
    return str(place)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def frozen(folder):
    encoder, tokenizer = models.load_encoder(folder)
    torch.manual_seed(1)
    model = models.Classifier(encoder, 5, tokenizer.sep_token_id).eval().requires_grad_(False)
    return FrozenModel(model, model.layers, model.predict, lambda batch: batch.mask)


def batch_of(folder, texts=TEXTS):
    _, tokenizer = models.load_encoder(folder)
    pieces = word_pieces.to_pieces(texts, tokenizer)
    return Batches(pieces, word_pieces.WordPieces(tokenizer), len(texts)).rows(torch.arange(len(texts)))


def test_test_texts_that_are_all_too_long_to_be_searched_are_refused_with_the_shortest_length(folder, monkeypatch):
    monkeypatch.setattr(probing, "read_probing", lambda p: {split: TEXTS for split in ("train", "dev", "test")})
    usual = {"corpus": "sst", "pretrained": folder, "methods": ["erasure"]}
    with pytest.raises(BadInput, match="^searchable: 3, but the shortest test text has 4 .* 0, or at least 4"):
        probing.build_probed_task(ProbingSettings(**usual, searchable=3))
    task = probing.build_probed_task(ProbingSettings(**usual, searchable=4))
    assert [len(part.examples) for part in task.batches.values()] == [3, 3, 1]


def test_texts_become_pieces_with_the_labels_of_their_words(folder):
    pieces = word_pieces.to_pieces(TEXTS, models.load_encoder(folder)[1])
    assert pieces[0].tokens == ("[CLS]", "a", "fun", "##ny", "film", ".", "[SEP]")
    assert pieces[0].word_labels == (-1, 2, 4, 4, 2, 2, -1) and pieces[0].label == 4
    assert pieces[1].tokens[1:4] == ("(", "dull", ")"), "brackets of the treebank are brackets again"


def test_a_text_is_cut_to_the_positions_that_the_transformer_has(tmp_path, monkeypatch):
    place = tiny(tmp_path, max_position_embeddings=6)
    texts = [*TEXTS, Example(("film",) * 600, 1, word_labels=(2,) * 600)]
    monkeypatch.setattr(probing, "read_probing", lambda p: {split: texts for split in ("train", "dev", "test")})
    task = probing.build_probed_task(ProbingSettings(corpus="sst", pretrained=place, methods=["states"]))
    assert max(len(example.tokens) for example in task.batches["test"].examples) == 6
    answers, targets, _ = probing.predict_answers(task.model, task.batches["test"])
    assert len(answers) == len(targets) == 4


def test_a_word_that_looks_like_a_separator_is_none(folder):
    _, tokenizer = models.load_encoder(folder)
    labels = (2, 3, 1)
    (text,) = word_pieces.to_pieces([Example(("a", "[SEP]", "film"), 0, word_labels=labels)], tokenizer)
    assert text.tokens[0] == "[CLS]" and text.tokens[1:-1].count("[SEP]") == 0 and text.tokens[-1] == "[SEP]"
    assert text.word_labels[1] == 2 and set(text.word_labels[2:-2]) == {3} and text.word_labels[-2] == 1


def test_the_part_of_speech_is_that_of_the_whole_word():
    pytest.importorskip("HanTa")
    pieces = "[CLS] it does n ' t get the fun ##ny film ' s stars ! [SEP]".split()
    tags = word_pieces.parts_of_speech(pieces)
    assert tags[0] == "[CLS]" and tags[-1] == "[SEP]" and tags[1] == "pronoun" and tags[2] == "verb"
    assert tags[3] == tags[4] == tags[5] == "adverb", "n't is one word"
    assert tags[8] == tags[9] == "adjective" and tags[10] == "noun" and tags[-2] == "punctuation"
    assert set(tags) <= {*word_pieces.SPEECH, *word_pieces.SEPARATORS, "other"}
    tags = word_pieces.parts_of_speech("[CLS] ' t was fun ##ny [SEP] ' t is [SEP]".split())
    assert [i for i, tag in enumerate(tags) if tag in word_pieces.SEPARATORS] == [0, 6, 10], "a separator is no word"


def test_the_sentiment_of_a_piece_is_that_of_its_word():
    found = word_pieces.sentiments(["[CLS]", "fun", "##ny", "[SEP]"], [-1, 4, 4, -1], sst.LABELS)
    assert found == ["[CLS]", "very positive", "very positive", "[SEP]"]


def test_padding_does_not_reach_an_answer(frozen, folder):
    together = frozen.predict(batch_of(folder))
    for row, text in enumerate(TEXTS):
        torch.testing.assert_close(frozen.predict(batch_of(folder, [text]))[0], together[row])


def test_states_are_those_the_transformer_reports_itself(frozen, folder):
    batch = batch_of(folder)
    _, states = frozen.read(batch)
    own = frozen.model.states(batch, output_hidden_states=True).hidden_states
    assert len(states) == 2 + len(frozen.model.encoder.encoder.layer)
    for mine, theirs in zip(states[1:], own, strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(states[0], frozen.model.encoder.embeddings.word_embeddings(batch.tokens))


def test_a_mask_of_ones_at_any_layer_gives_the_transformer_back_exactly(frozen, folder):
    batch = batch_of(folder)
    logits, states = frozen.read(batch)
    for layer in range(len(states)):
        assert torch.equal(frozen.masked(batch, layer, torch.ones(batch.mask.shape), torch.randn(8)), logits)
        z = torch.ones(batch.mask.shape)
        z[:, 0] = 0
        assert not torch.allclose(frozen.masked(batch, layer, z, torch.randn(8)), logits)


def test_what_a_masked_word_was_cannot_reach_the_answer_but_its_place_can(frozen, folder):
    batch = batch_of(folder)
    z = torch.ones(batch.mask.shape)
    z[0, 2] = 0
    other = batch._replace(tokens=batch.tokens.clone())
    other.tokens[0, 2] = WORDS.index("dull")
    baseline = torch.zeros(8)
    assert torch.equal(frozen.masked(batch, 0, z, baseline), frozen.masked(other, 0, z, baseline))
    assert not torch.equal(frozen.predict(batch), frozen.predict(other))


def test_attention_is_a_distribution_over_real_positions_and_leaves_the_fused_one_in_place(frozen, folder):
    batch = batch_of(folder)
    before = frozen.model.encoder.config._attn_implementation
    for weights in frozen.model.attentions(batch):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert frozen.model.encoder.config._attn_implementation == before
    for layer in range(4):
        found = explain.attention(frozen, batch, layer)
        assert found.shape == batch.mask.shape and (found[~batch.mask] == 0).all() and (found[batch.mask] > 0).all()


def test_all_methods_and_both_probes_run_on_a_transformer(frozen, folder):
    batch = batch_of(folder)
    p = notebook_settings(notebook_path("14_train_probes"), hidden_size=3)
    _, tokenizer = models.load_encoder(folder)
    batches = Batches(word_pieces.to_pieces(TEXTS, tokenizer), word_pieces.WordPieces(tokenizer), 3)
    for votes in ("mlp", "bilinear"):
        p = p.model_copy(update={"votes": votes})
        for target in ("inputs", "states"):
            probe = training.build_probe(p, target, frozen, batches)
            for _ in range(3):
                step = ProbeObjective(4, 0.1).train()(probe, batch)
                step.loss.backward()
            assert step.loss.isfinite() and all(not q.requires_grad for q in frozen.model.parameters())
    for layer in (0, 3):
        mean, std = explain.state_moments(frozen, [batch])[layer]
        assert explain.integrated_gradients(frozen, batch, layer, 4).isfinite().all()
        assert explain.information_bottleneck(frozen, batch, layer, mean, std, 2).isfinite().all()
        assert explain.additive_noise(frozen, batch, layer, 2).isfinite().all()
        assert explain.erasure(frozen, batch, layer).isfinite().all()


def test_an_encoder_that_cannot_be_had_is_one_clear_line_with_the_offline_choices(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # what it has read on import
    for name in ("nobody/has-this-model", str(tmp_path)):
        with pytest.raises(BadInput, match="offline take minilm") as error:
            models.load_encoder(name)
        assert "\n" not in str(error.value) and name in str(error.value)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(BadInput, match=r"rationale-kuma\[pretrained\]"):
        models.import_transformers()
    monkeypatch.undo()
    for module, call in (
        ("torchmetrics", lambda: models.load_encoder("minilm", spans=True)),
        ("HanTa.HanoverTagger", lambda: word_pieces.parts_of_speech(["a"])),
    ):
        word_pieces._tagger.cache_clear()
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            BadInput, match=rf"needs the package {module.partition('.')[0]}; .*rationale-kuma\[pretrained\]"
        ):
            call()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"rationale-kuma\[pretrained\]"):
        models.place_of("minilm")


def test_weights_that_are_not_the_published_ones_are_refused_in_one_line(monkeypatch, tmp_path):
    if importlib.util.find_spec(transformer_module.PACKAGE) is None:
        pytest.skip(f"needs the package {transformer_module.PACKAGE}")
    weights = Path(models.place_of("minilm")) / "model.safetensors"
    (tmp_path / "model").mkdir()
    copy = tmp_path / "model" / weights.name
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(BadInput, match="model.safetensors is missing"):
        models.place_of("minilm")
    shutil.copy(weights, copy)
    assert models.place_of("minilm") == str(tmp_path / "model"), "an undamaged copy"
    with copy.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(BadInput, match=f"sha256 [0-9a-f]{{64}}, accepted is {transformer_module.WEIGHTS}") as error:
        models.load_encoder("minilm")
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory):
    """The folder of a BERT of 2 layers and 8 units with a vocabulary of 9 pieces."""
    transformers, folder = models.import_transformers(), tmp_path_factory.mktemp("bert")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "##s", "."]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 2}
    config = transformers.BertConfig(vocab_size=len(pieces), max_position_embeddings=16, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def without(*patterns: str):
    return lambda folder: [path.unlink() for pattern in patterns for path in folder.glob(pattern)]


def configured(**changes):
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def filled(name: str, content: str):
    return lambda folder: (folder / name).write_text(content)


FOLDERS = {  # how a folder is damaged, and what the message says, if the package and not transformers says it
    "no tokenizer": (without("token*", "vocab*", "special*"), "no tokenizer.json or vocab.txt"),
    "no vocabulary": (without("tokenizer.json", "vocab*"), "no tokenizer.json or vocab.txt"),
    "no weights": (without("*.safetensors"), "model.safetensors"),
    "empty weights": (filled("model.safetensors", ""), "header too small"),
    "weights of fewer layers": (configured(num_hidden_layers=3), "the file of weights lacks (bert.)?encoder.layer.2."),
    "weights of more layers": (configured(num_hidden_layers=1), "has (bert.)?encoder.layer.1.* that config.json lacks"),
    "weights of another size": (configured(intermediate_size=16), "ignore_mismatched_sizes|mismatch"),
    "no configuration": (without("config.json"), ""),
    "an empty configuration": (filled("config.json", "{}"), ""),
    "no JSON": (filled("config.json", "["), ""),
    "null": (filled("config.json", "null"), ""),
    "a text for a number": (configured(num_hidden_layers="six"), ""),
    "another model": (configured(model_type="gpt2"), ""),
    "an empty tokenizer": (filled("tokenizer.json", "{}"), ""),
}


@pytest.mark.parametrize("damage", FOLDERS)
@pytest.mark.parametrize("spans", [False, True])
def test_a_folder_that_is_incomplete_or_damaged_is_refused_in_one_line(small_bert, tmp_path, damage, spans):
    folder = shutil.copytree(small_bert, tmp_path / "copy")
    assert models.load_encoder(str(folder), spans)[0].config.num_hidden_layers == 2
    change, message = FOLDERS[damage]
    change(folder)
    with pytest.raises(BadInput, match=f"pretrained: .*cannot be loaded .*({message})") as error:
        models.load_encoder(str(folder), spans)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


def test_a_tokenizer_with_more_pieces_than_the_model_has_embeddings_is_refused(small_bert, tmp_path):
    folder = shutil.copytree(small_bert, tmp_path / "copy")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["more"] = 9
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BadInput, match="the tokenizer has 10 pieces, the model 9 embeddings"):
        models.load_encoder(str(folder))


def test_the_second_segment_begins_behind_the_first_separator():
    class Recording(torch.nn.Module):
        config = SimpleNamespace(hidden_dropout_prob=0.0, hidden_size=4)

        def forward(self, **given):
            self.given = given

    encoder, tokens = Recording(), torch.tensor([[1, 5, 9, 6, 7, 9], [1, 5, 6, 9, 0, 0]])
    models.Classifier(encoder, 2, separator=9).states(SimpleNamespace(tokens=tokens, mask=tokens != 0))
    assert encoder.given["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]]
    assert encoder.given["attention_mask"].tolist() == [[1] * 6, [1, 1, 1, 1, 0, 0]]
