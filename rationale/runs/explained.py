"""A classifier of one's own with a probe of the words that it needs: what it answers, and from which words.

    probe = rationale.explain_classifier("path/to/classifier", "reviews.csv", "outputs/my-probe", text="body")
    for answer in probe(["A warm, funny film."]):
        answer.label, answer.probability, answer.rationale

The folder of a probe holds no copy of the classifier, but its place and a digest of its files.
"""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from rationale.data.tokenise import TOKENISERS
from rationale.data.word_groups import SPECIAL, GroupedText
from rationale.errors import BadInput, excerpt, shown
from rationale.explain.words import WordProbe
from rationale.models.classifier import TextClassifier, digest_of_classifier, load_classifier
from rationale.runs import intact
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
from rationale.runs.saved import FORMAT, OF_CLASSIFIER, SavedRun, load_run
from rationale.training.checkpoint import read_tensors
from rationale.training.settings.classifier import ClassifierProbeSettings
from rationale.training.word_probe import Cost, costs_of, new_probe

ABOUT = """Above each text you see the answer of the classifier, and the probability of its class in brackets. The
classifier has read the whole text. The highlighted words are those that a probe keeps: on average, the answers hardly
change if all other words are masked."""
READING = threading.Lock()  # what reads the states of a model is part of the model while it is read


@dataclass(repr=False)
class ExplainedClassifier:
    """A classifier and its probe, ready for new texts; several threads may ask it at the same time."""

    classifier: TextClassifier
    probe: WordProbe
    parameters: SimpleNamespace
    metrics: dict[str, dict[str, float]]  # of dev and test, see `training.word_probe.mean_cost`
    num_test: int  # held-out texts

    def __repr__(self) -> str:
        """The classifier and what its probe costs, in one line."""
        kind, name = type(self.classifier.model).__name__, Path(self.classifier.place).name
        return f"ExplainedClassifier({kind}, {name}; {', '.join(self.labels)}; {self.cost})"

    @property
    def labels(self) -> list[str]:
        """Names of the classes."""
        return self.classifier.labels

    @property
    def cost(self) -> str:
        """What masking all words but the kept ones does to held-out texts, in one line."""
        test = self.metrics["test"]
        moves = f"the answers move by {test['divergence']:.3g} nats on average (margin {self.parameters.margin:g}"
        without = f"without any word {test['divergence_without_words']:.3g})"
        return (
            f"keeps {test['kept']:.1%} of the words; if the others are masked, {moves}, {without}, "
            f"and {test['agreement']:.1%} of {self.num_test:,} held-out texts keep their label"
        )

    @property
    def holds_margin(self) -> bool:
        """Whether the mean divergence on held-out texts is within the margin."""
        return self.metrics["test"]["divergence"] <= self.parameters.margin

    def __call__(self, texts: Sequence[str]) -> Answers:
        """The classifier's answers to new texts, in their order, each with the words that the probe keeps.

        In an `Answer`, `z` is 1 for a kept word and 0 for any other. The label and the probabilities are those of the
        whole text. A text without words gets an empty answer.

        Raises
        ------
        BadInput
            Something in the list is no text.
        """
        found = [Answer(text) for text in _checked(texts)]
        grouped = self._grouped([answer.text for answer in found])
        for rows, kept, logits in self._computed(grouped):
            for i, words, numbers in zip(rows, kept, logits.softmax(-1).tolist(), strict=True):
                found[i] = self._answered(found[i].text, grouped[i], words, numbers)
        return Answers(found)

    def costs(self, texts: Sequence[str]) -> list[Cost]:
        """What masking costs in each of these texts: `kept`, `divergence` in nats and `agreement`, 0 or 1.

        The margin is held on average, so an answer may move by more. A text without words costs nothing.
        """
        grouped = self._grouped(_checked(texts))
        found = [Cost(1.0, 0.0, 1.0)] * len(grouped)
        for rows in _batches(grouped):
            batch = self.classifier.batches([grouped[i] for i in rows], len(rows)).rows(torch.arange(len(rows)))
            with READING:
                costs = costs_of(self.probe.decide(batch), self.parameters.divergence)
            for i, cost in zip(rows, costs, strict=True):
                found[i] = cost
        return found

    def to_html(self, answers: Sequence[Answer], title: str = "Words that a classifier needs") -> str:
        """A page that stands alone, with the texts of these answers and the kept words highlighted."""
        wrong = [answer for answer in answers if not isinstance(answer, Answer)]
        if wrong:
            raise BadInput(f"answers: {excerpt(wrong[0])} is no answer; accepted: what the probe gives for texts")
        return to_page(answers, title, ABOUT)

    def _grouped(self, texts: list[str]) -> list[GroupedText]:
        return self.classifier.grouped(texts, TOKENISERS[self.parameters.tokeniser])

    def _computed(self, grouped: list[GroupedText]) -> Iterator[tuple[list[int], list[list[bool]], torch.Tensor]]:
        """The rows of each batch, the kept words of their texts, and the logits of the whole texts."""
        for rows in _batches(grouped):
            batch = self.classifier.batches([grouped[i] for i in rows], len(rows)).rows(torch.arange(len(rows)))
            with READING:
                logits, kept = self.probe.kept(batch)
            yield rows, kept.tolist(), logits.cpu()

    def _answered(self, text: str, grouped: GroupedText, kept: list[bool], numbers: list[float]) -> Answer:
        z = tuple(0.0 if word == SPECIAL else float(kept[word]) for word in grouped.word_of_token)
        values = named_outputs(numbers, self.labels, True) | {"tokens": grouped.tokens, "z": z}
        return Answer(text, rationale=passages(text, grouped.tokens, z), unknown=grouped.unknown, **values)


def _batches(grouped: Sequence[GroupedText]) -> Iterator[list[int]]:
    """The texts that have words, in batches."""
    asked = [i for i, text in enumerate(grouped) if text.tokens]
    return batched(asked, [len(text.numbers) for text in grouped])


def _checked(texts: Any) -> list[str]:
    if wrong := why_no_list(texts):
        raise BadInput(wrong)
    found = list(texts)
    if wrong := next(filter(None, (why_no_text(text, number) for number, text in enumerate(found, start=1))), ""):
        raise BadInput(wrong)
    return found


def load_any(folder: Any) -> SavedRun | ExplainedClassifier:
    """The model of a finished run, or a probe of a classifier; see `rationale.load`."""
    return load_explained(Path(folder)) if is_explained(folder) else load_run(folder)


def facts_of(folder: Any) -> dict[str, Any]:
    """What the probe in a folder was saved with; {} if the folder holds none that can be read."""
    try:
        with safe_open(Path(folder) / "model.safetensors", "pt") as file:
            facts = json.loads(file.metadata()["facts"])
    except (SafetensorError, LookupError, TypeError, ValueError, OSError):
        return {}
    return facts if facts.get("task") == OF_CLASSIFIER else {}


def is_explained(folder: Any) -> bool:
    """Whether a folder holds a finished probe of a classifier."""
    return bool(facts_of(folder))


def load_explained(folder: Path, classifier: TextClassifier | None = None) -> ExplainedClassifier:
    """Load a finished probe, and its classifier from where it was.

    Parameters
    ----------
    folder : Path
    classifier : TextClassifier or None
        The classifier, if it has been loaded already.

    Raises
    ------
    BadInput
        The file is damaged, or the classifier is gone or has changed.
    """
    path = folder / "model.safetensors"
    intact.check_digest(path)
    try:
        tensors, facts = read_tensors(path)
        if facts["format"] != FORMAT:
            raise ValueError(f"format {facts['format']}, accepted is {FORMAT}")
        p = SimpleNamespace(**vars(ClassifierProbeSettings.checked(facts["parameters"])))
        place, digest, metrics, num_test = (facts[name] for name in ("classifier", "digest", "metrics", "num_test"))
        baseline = tensors["baselines.0"]
    except (SafetensorError, LookupError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise _unreadable(path, error) from None
    if classifier is None:
        _require_same(folder, place, digest)
        classifier = load_classifier(place, revision=None if os.path.isabs(place) else digest or None)
    try:
        probe = new_probe(p, classifier.cpu(), facts["sizes"], baseline)
        probe.load_state_dict(tensors)
        if any(not value.isfinite().all() for value in tensors.values()):
            raise ValueError("a weight is NaN or infinite")
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise _unreadable(path, error) from None
    return ExplainedClassifier(classifier, probe.requires_grad_(False).eval(), p, metrics, num_test)


def _unreadable(path: Path, error: Exception) -> BadInput:
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    return BadInput(f"{path}: no probe of this project, or of another version ({reason}); train it again")


def _require_same(folder: Path, place: str, digest: str) -> None:
    """Refuse a probe whose classifier is gone, or has other files now."""
    if os.path.isabs(place):
        explains = f"{shown(folder)}: explains the classifier in {shown(place)}"
        if not os.path.isdir(place):
            raise BadInput(f"{explains}, which is not there; put the classifier back there, or train a probe again")
        if digest_of_classifier(place) != digest:
            raise BadInput(
                f"{explains}, which has changed since; put the old files back, or train a probe of the new ones"
            )
