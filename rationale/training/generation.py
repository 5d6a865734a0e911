"""Train an encoder-decoder and generate texts for dev and test."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from rationale.data.batches import PairBatches, Vocabulary
from rationale.data.targets import END, Targets, build_text_vocabularies
from rationale.models.beam_search import Generation, beam_search
from rationale.models.seq2seq import Seq2Seq, build_seq2seq
from rationale.objectives.words import MovingGamma, WordLoss
from rationale.progress import REST, report_phase
from rationale.training.checkpoint import CHECKPOINT, scheduled_epochs
from rationale.training.groups import grouped_share
from rationale.training.loop import choose_device, fit
from rationale.training.model_selection import ModelSelection

if TYPE_CHECKING:
    from rationale.training.settings.generation import GenerationSettings


@dataclass
class GenerationResult:
    """A finished run of an encoder-decoder in memory."""

    model: Seq2Seq
    vocabularies: tuple[Vocabulary, Vocabulary]
    generations: dict[str, list[Generation]]  # by split: dev, test
    metrics: dict[str, dict[str, float]]  # by split; for dev also task, the mean loss per word in nats
    history: list[dict]
    best: dict
    converged: int | None = None  # the epoch at which dev said enough (`stop_after`)

    def text(self, generation: Generation) -> str:
        """The generated text, in words."""
        return " ".join(self.vocabularies[1].words[word] for word in generation.words)


class Prepared(NamedTuple):
    """An encoder-decoder before training, and its batches."""

    model: Seq2Seq
    vocabularies: tuple[Vocabulary, Vocabulary]  # of the sources and of the targets
    batches: dict[str, PairBatches]  # by split


def prepare_seq2seq(p: "GenerationSettings", targets: Targets, device: torch.device | None = None) -> Prepared:
    """The encoder-decoder that the settings of a run describe, with its first weights, and batches of each split.

    Parameters
    ----------
    p : parameters
    targets : data.targets.Targets
    device : torch.device or None
        None: the CPU.
    """
    device = device or torch.device("cpu")
    torch.manual_seed(p.seed)
    source, target = build_text_vocabularies(targets.splits["train"], p.min_count)
    model = build_seq2seq(p, len(source), len(target), target.encode([END])[0]).to(device)
    batches = {
        name: PairBatches(part, source, p.batch_size, p.seed, p.bucketed, device, second_vocabulary=target)
        for name, part in targets.splits.items()
    }
    return Prepared(model, (source, target), batches)


def train_seq2seq(p: "GenerationSettings", targets: Targets, score: Callable, folder: Path) -> GenerationResult:
    """Train an encoder-decoder on sources with targets, and generate texts for dev and test.

    Parameters
    ----------
    p : parameters
    targets : data.targets.Targets
    score : function
        Computes metrics from the generated texts and the references of each text.
    folder : Path
    """
    device = choose_device(p.device)
    model, vocabularies, batches = prepare_seq2seq(p, targets, device)
    gamma, early = None, 0  # `early`: first epochs, after which gamma has not arrived
    if p.gamma_start is not None:
        epochs = p.gamma_moves * scheduled_epochs(folder / CHECKPOINT, vars(p))
        gamma = MovingGamma(p.gamma_start, p.gamma, round(epochs * len(batches["train"])))
        early = math.ceil(epochs) - 1
    objective = WordLoss(gamma).to(device)

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        total, words = 0.0, 0
        for batch in batches["dev"].in_order():
            number = batch.tokens.second_mask.sum()
            total, words = total + objective(model, batch).loss * number, words + number
        task = (total / words).item()
        return {"task": task, "loss": task}

    selection = ModelSelection("within_tolerance", score="dev_task", higher_is_better=False, patience=early)
    state = fit(model, objective, batches["train"], evaluate, selection, p, folder)
    model.set_gamma(p.gamma)
    result = GenerationResult(model, vocabularies, {}, {}, state.history, state.best, state.converged)
    for name in ("dev", "test"):
        report_phase(f"generation of texts for {name}")
        in_order: list[Generation | None] = [None] * len(targets.splits[name])
        for batch in batches[name].in_order():
            sides = batch.tokens
            generations = beam_search(model, sides.first, sides.first_mask, p.beam, p.longest)
            lengths = sides.first_mask.sum(1).tolist()
            for row, generation, length in zip(batch.rows.tolist(), generations, lengths, strict=True):
                in_order[row] = generation._replace(weights=generation.weights[:, :length].cpu())
        result.generations[name] = in_order
        result.metrics[name] = score([result.text(generation) for generation in in_order], targets.references[name])
        weights = [generation.weights for generation in in_order if len(generation.words)]
        result.metrics[name] |= {"grouped": grouped_share(weights), "segments": grouped_share(weights, neighbours=True)}
    report_phase(REST)
    result.metrics["dev"]["task"] = state.best["dev_task"]
    return result
