"""Load a finished run of `14_train_probes`: the model that was probed, and its probes; and what its masks show."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rationale.data.corpora import find_corpus
from rationale.data.corpora.sst import LABELS
from rationale.data.word_pieces import SEPARATORS, parts_of_speech, sentiments
from rationale.explain.comparison import mean_by_category
from rationale.explain.diffmask import PROBE_TARGETS, Probe
from rationale.explain.frozen import FrozenModel
from rationale.explain.methods import METHODS
from rationale.runs import saved
from rationale.training.loop import choose_device
from rationale.training.probing import ProbedTask, build_probe, build_probed_task, freeze, load_weights
from rationale.training.settings import ProbingSettings

if TYPE_CHECKING:
    import pandas as pd


class ProbedRun(NamedTuple):
    """A finished run of `14_train_probes`, loaded."""

    parameters: ProbingSettings
    task: ProbedTask
    frozen: FrozenModel
    probes: dict[str, Probe]  # by target: inputs, states


def load_probed(run: Path) -> ProbedRun:
    """Load a finished run of `14_train_probes`, on this machine's device.

    Raises
    ------
    BadInput
        If the folder holds no such run, or its corpus is missing.
    """
    p = ProbingSettings.recorded(saved.read_parameters(run) | {"device": "auto"}, f"{run}: ")
    task = build_probed_task(p)
    model = load_weights(task.model, run).to(choose_device(p.device)).requires_grad_(False).eval()
    frozen, probes = freeze(model), {}
    for target in (target for target in PROBE_TARGETS if target in p.methods):
        probe = build_probe(p, target, frozen, task.batches["dev"])
        probes[target] = load_weights(probe, run, target).requires_grad_(False).eval()
    return ProbedRun(p, task, frozen, probes)


class Digits(NamedTuple):
    """The digits of some texts of the toy task, as a model has them after a layer."""

    states: Tensor  # [N, D]
    kinds: Tensor  # [N]: 0 and 1 are the first and the second digit of the query, 2 is any other


def digits_of(probed: ProbedRun, split: str, layer: int = 1, texts: Sequence[int] | None = None) -> Digits:
    """The digits of these texts of a split, by default of all, in the order of the texts."""
    index = range(len(probed.task.splits[split])) if texts is None else texts
    examples = [probed.task.splits[split][i] for i in index]
    batch = probed.task.batches[split].rows(torch.tensor(list(index)))
    states = probed.frozen.read(batch)[1][layer][batch.mask].detach().cpu()
    kinds = [example.second.index(t) if t in example.second else 2 for example in examples for t in example.tokens]
    return Digits(states, torch.tensor(kinds))


def told_by_lines(fitted: Digits, others: Digits) -> float:
    """How many digits straight lines tell apart into the three kinds: the mean of the shares of the kinds.

    The lines are those of a logistic regression, fitted to `fitted`. A third is the share of a guess.

    Examples
    --------
    >>> corners = Digits(torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.arange(3))
    >>> told_by_lines(corners, corners)
    1.0
    """
    centre, scale = fitted.states.mean(0), fitted.states.std(0).clamp(min=1e-6)
    points, held = ((part.states - centre) / scale for part in (fitted, others))
    counted = torch.bincount(fitted.kinds, minlength=3).clamp(min=1)
    weights = torch.zeros(3, points.shape[1] + 1, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def scores(of: Tensor) -> Tensor:
        return of @ weights[:, 1:].T + weights[:, 0]

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(scores(points), fitted.kinds, 1 / counted) + 1e-4 * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    right = scores(held).argmax(1) == others.kinds
    shares = [right[others.kinds == kind].float().mean() for kind in others.kinds.unique()]
    return torch.stack(shares).mean().item()


def answer_kept(masks: Iterable, answers: Iterable[Sequence[int]]) -> float:
    """The share of the answers whose pieces are all kept by all layers, with probabilities above one half.

    Parameters
    ----------
    masks : [L + 1][T] for each text
    answers : first and last position of each answer; one that ends before it begins does not count

    Examples
    --------
    >>> answer_kept([[[0.9, 0.8, 0.1]], [[0.9, 0.3, 0.1]], [[0.0, 0.0, 0.0]]], [(0, 1), (0, 1), (2, 1)])
    0.5
    """
    spans = [(layers, first, last) for layers, (first, last) in zip(masks, answers, strict=True) if first <= last]
    least = [np.array(layers, float)[:, first : last + 1].min() for layers, first, last in spans]
    return float(np.mean([value > 0.5 for value in least])) if least else 0.0


OF_SPEECH = ("adjective", "noun"), ("determiner", "pronoun", "punctuation")  # kept, dropped: De Cao et al., Figure 8
OF_SENTIMENT = tuple(LABELS[:2] + LABELS[3:]), (LABELS[2],)
OF_QUESTIONS = ("noun",), ("determiner", "preposition", "conjunction")  # the same for questions: their Figure 10


def facts_of_masks(run: Path) -> dict[str, dict[str, float]]:
    """What the masks of a run on SST or on questions show on its test texts: metrics by the name of the method.

    speech_gap      what the less kept of some kinds of words is kept more than the most kept of others: the difference
                    of two mean probabilities. For SST, adjectives and nouns beside determiners, pronouns and
                    punctuation; for questions, nouns beside determiners, prepositions and conjunctions
    sentiment_gap   the same for words with a sentiment and neutral words (SST)
    separator_gap   what the separators are kept more than all other pieces in the last layer
    answer_kept     for how many questions all layers keep each piece of the model's answer, with a probability above
                    one half. An answer that ends before it begins has no pieces and does not count
    question_gap    what the question is kept more than the paragraph outside the answer, over all layers
    answer_gap      what the answer is kept more than all other pieces in the last layer
    ends_gap        the same for the first and the last piece of the answer, the only states that need a high score
    inner_gap       the same for the pieces between these two, where an answer has any
    late_drop       of what the last layer has dropped of the paragraph's nouns outside the answer, the share that the
                    middle layer still kept. Questions whose answer does not count are left out of these three
    start_first     for how many texts the last layer gives the first position at least as much as every other one
                    (SST, models of several layers, also of methods that are no probes)
    deviation       of a run with a `subject`: how far its masks are from those of the run that trained this model, as
                    the standard deviation of two masks, averaged over positions and layers
    kept            of masks that are fitted to single texts: the expected share that is kept

    Parameters
    ----------
    run : Path
        A finished run of `14_train_probes`. The run that trained its model lies beside it.
    """
    p, texts = saved.read_parameters(run), saved.read_explained(run, "test")
    asks = find_corpus(p["corpus"]).spans
    beside = run.parent / Path(p["subject"]).name if p["subject"] else None
    speech = [parts_of_speech(tokens) for tokens in texts["tokens"]]
    found: dict[str, dict[str, float]] = {}
    for name in (name for name, facts in METHODS.items() if name in texts and facts.is_fitted_mask):
        found[name] = {"kept": float(_flat(texts[name]).mean())}
    for name in (name for name in PROBE_TARGETS if name in texts):
        kept = mean_by_category(texts[name], speech).mean()
        found[name] = {"speech_gap": _gap(kept, *(OF_QUESTIONS if asks else OF_SPEECH))}
        found[name]["separator_gap"] = _separator_gap(texts[name], texts["tokens"])
        if asks:
            found[name]["answer_kept"] = answer_kept(texts[name], texts["answer"])
            found[name] |= _facts_of_questions(texts[name], texts["tokens"], texts["answer"], speech)
        else:
            feelings = [sentiments(*row, LABELS) for row in zip(texts["tokens"], texts["word_labels"], strict=True)]
            found[name]["sentiment_gap"] = _gap(mean_by_category(texts[name], feelings).mean(), *OF_SENTIMENT)
        if beside and name in (others := saved.read_explained(beside, "test")):
            found[name]["deviation"] = float(np.abs(_flat(texts[name]) - _flat(others[name])).mean() / 2**0.5)
    for name in (name for name in METHODS if name in texts and name != "inputs" and not asks):
        if len(texts[name][0]) > 1:
            firsts = [layers[-1][0] >= max(layers[-1]) for layers in texts[name]]
            found.setdefault(name, {})["start_first"] = float(np.mean(firsts))
    return found


def _facts_of_questions(
    masks: Iterable, tokens: Iterable[Sequence[str]], answers: Iterable[Sequence[int]], speech: Iterable[Sequence[str]]
) -> dict[str, float]:
    """`question_gap`, the gaps of the answer and, where there is such a noun, `late_drop`: see `facts_of_masks`."""
    names = ("answer", "ends", "inner", "others", "question", "paragraph", "nouns")
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for layers, text, (first, last), kinds in zip(masks, tokens, answers, speech, strict=True):
        if first > last:
            continue
        place, end = np.arange(len(text)), list(text).index(SEPARATORS[1])
        answer, inner = (first <= place) & (place <= last), (first < place) & (place < last)
        paragraph = (place > end) & ~answer & (np.array(text) != SEPARATORS[1])
        places = [answer, answer & ~inner, inner, ~answer, (place > 0) & (place < end), paragraph]
        for name, where in zip(parts, [*places, paragraph & (np.array(kinds) == "noun")], strict=True):
            parts[name].append(np.array(layers, float)[:, where])
    if not parts["answer"]:
        return {}
    kept = {name: np.concatenate(values, 1) for name, values in parts.items()}  # [L + 1, N] each
    found = {"question_gap": float(kept["question"].mean() - kept["paragraph"].mean())}
    for name in ("answer", "ends", "inner"):
        if kept[name].size:
            found[f"{name}_gap"] = float(kept[name][-1].mean() - kept["others"][-1].mean())
    if kept["nouns"].size and (dropped := 1 - kept["nouns"][-1].mean()):
        found["late_drop"] = float((kept["nouns"][len(kept["nouns"]) // 2].mean() - 1 + dropped) / dropped)
    return found


def _separator_gap(masks: Iterable, tokens: Iterable[Sequence[str]]) -> float:
    """The mean probability to be kept in the last layer, of separators less that of all other pieces."""
    last = np.concatenate([np.array(layers[-1], float) for layers in masks])
    is_separator = np.array([piece in SEPARATORS for text in tokens for piece in text])
    return float(last[is_separator].mean() - last[~is_separator].mean())


def _gap(kept: "pd.Series", more: Sequence[str], less: Sequence[str]) -> float:
    """The smallest of the first less the largest of the second; a kind of which no text has a word does not count."""
    first, second = (kept[[kind for kind in kinds if kind in kept]] for kinds in (more, less))
    return float(first.min() - second.max())


def _flat(values: Iterable) -> np.ndarray:
    return np.concatenate([np.array(one, float).ravel() for one in values])
