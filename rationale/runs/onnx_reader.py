"""Read texts with a model that `model.export` wrote, with onnxruntime and numpy; a transformer also needs tokenizers.

    from rationale_reader import load
    model = load("model.onnx")
    for answer in model(["A warm, funny film."]):
        answer.label, answer.probability, answer.rationale

The metadata of the file hold everything else: the words or the tokenizer, the names of the classes, the scale of the
scores. An export writes `rationale_reader.py` beside the model; it needs neither torch nor the package rationale.
"""

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rationale.data.spellings import MOST_PIECES, known_form, plain_form
from rationale.data.tokenise import TOKENISERS
from rationale.runs.answer import (
    Answer,
    Answers,
    batched,
    named_outputs,
    passages,
    to_page,
    why_no_list,
    why_no_text,
)

KEY, FORMAT = "rationale", 1  # of the facts in the metadata
PADDING, NOTHING = 1, -1  # of words, and of pieces
REMEMBERED = 1 << 17  # words of which the pieces are kept
AT_ONCE = 4096  # words of a batch, with padding; the means of some gates take a thousand numbers per word


class ExportedModel:
    """A model that was exported; several threads may ask it at the same time.

    Parameters
    ----------
    path : str or Path
        The file.
    threads : int >= 0
        Computing threads; 0: as many as onnxruntime chooses.

    Raises
    ------
    ValueError
        The file is no export of this project, or of another format.
    """

    def __init__(self, path: str | Path, threads: int = 0):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        path = Path(os.path.expanduser(path))
        if not path.is_file():
            raise ValueError(f"{path}: no such file; accepted is a file that `model.export` wrote")
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            facts: dict[str, Any] = json.loads(self.session.get_modelmeta().custom_metadata_map.get(KEY, "{}"))
        except Exception as error:  # onnxruntime has many kinds
            raise ValueError(f"{path}: cannot be read ({str(error)[:150]}); accepted is an exported model") from None
        if facts.get("format") != FORMAT:
            found = facts.get("format", "none")
            raise ValueError(f"{path}: format {found}; accepted is {FORMAT}, in a file that `model.export` wrote")
        self.outputs: list[str] = facts["outputs"]
        self.gives_classes: bool = facts["gives_classes"]
        self.scale: list[float] | None = facts["scale"]
        self.split = TOKENISERS[facts["tokeniser"]]
        self._pieces = None if facts["tokenizer"] is None else _pieces_of(**facts["tokenizer"])
        self._specials = frozenset(facts["specials"])  # they stand for other words, and are no words of a text
        self._window: int = facts["window"]
        self._rows = {word: row for row, word in enumerate(facts["words"] or ()) if row > PADDING}

    def __call__(self, texts: Sequence[str]) -> Answers:
        """Answers to texts, in their order; a text without words gets an empty one.

        Raises
        ------
        ValueError
            Something in the list is no text; the message gives its number, from 1.
        """
        if wrong := why_no_list(texts):
            raise ValueError(wrong)
        answers = Answers()
        for number, text in enumerate(texts, start=1):
            if wrong := why_no_text(text, number):
                raise ValueError(wrong)
            answers.append(Answer(text))
        tokens = [tuple(self.split(answer.text)) for answer in answers]
        asked = [i for i, words in enumerate(tokens) if words]
        for batch in batched(asked, [len(words) for words in tokens], AT_ONCE):
            words = [tokens[i] for i in batch]
            if self._pieces is None:
                words = [tuple(known_form(word, self._rows) for word in text) for text in words]
            gates, outputs = self.session.run(None, self.numbered(words))
            for i, known, row, numbers in zip(batch, words, gates, outputs.tolist(), strict=True):
                z = tuple(row[: len(known)].tolist())
                unknown = tuple(word for word in known if not self._knows(word))
                named = named_outputs(numbers, self.outputs, self.gives_classes, self.scale)
                read = passages(answers[i].text, tokens[i], z)
                answers[i] = Answer(answers[i].text, tokens=tokens[i], z=z, rationale=read, unknown=unknown, **named)
        return answers

    def to_html(self, answers: Sequence[Answer], title: str = "Rationales") -> str:
        """A page that stands alone, with the texts of these answers and their rationales highlighted."""
        return to_page(answers, title)

    def _knows(self, word: str) -> bool:
        return word in self._rows if self._pieces is None else word not in self._specials

    def numbered(self, texts: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The inputs of the graph for texts of at least one word each."""
        if self._pieces is not None:
            return self._packed(texts)
        tokens = np.full((len(texts), max(map(len, texts))), PADDING, np.int64)
        for row, words in enumerate(texts):
            tokens[row, : len(words)] = [self._rows.get(word, 0) for word in words]  # 0: the unknown word
        return {"tokens": tokens}

    def _packed(self, texts: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """The inputs of a graph that reads word pieces."""
        pieces_of = self._pieces
        assert pieces_of is not None
        rows = [[pieces_of("" if word in self._specials else word) for word in words] for words in texts]
        longest = max(sum(map(len, row)) for row in rows)
        width = min(longest, self._window)
        shape = (len(texts), -(-longest // width), width)
        pieces, word = np.full(shape, NOTHING, np.int64), np.zeros(shape, np.int64)
        first = np.full((len(texts), max(map(len, texts))), NOTHING, np.int64)
        flat_pieces, flat_word = pieces.reshape(len(texts), -1), word.reshape(len(texts), -1)
        for i, row in enumerate(rows):
            counts = [len(part) for part in row]
            total = sum(counts)
            flat_pieces[i, :total] = [piece for part in row for piece in part]
            flat_word[i, :total] = np.repeat(np.arange(len(row)), counts)
            first[i, : len(row)] = np.cumsum(counts) - counts
        return {"pieces": pieces, "word": word, "first": first}


def _pieces_of(content: str, spaced: bool, unknown: int) -> Any:
    """The pieces of a word by itself, as a function; see `word_pieces.piece_table`.

    Parameters
    ----------
    content : str
        That of tokenizer.json.
    spaced : bool
        Whether a space stands before each word.
    unknown : int
        The piece of a word that has no other.
    """
    from tokenizers import Tokenizer

    reader = Tokenizer.from_str(content)
    reader.no_truncation()
    reader.no_padding()

    @lru_cache(REMEMBERED)
    def pieces(word: str) -> list[int]:
        text = " " * spaced + plain_form(word)
        return (word and reader.encode(text, add_special_tokens=False).ids[:MOST_PIECES]) or [unknown]

    return pieces


def load(path: str | Path, threads: int = 0) -> ExportedModel:
    """The model in a file that `model.export` wrote; see `ExportedModel`."""
    return ExportedModel(path, threads)
