"""Train a probe of the words that a classifier of one's own needs, and measure what masking the others costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from rationale.data.batches import Batches
from rationale.explain.diffmask import BilinearVotes, MLPVotes, ProbeObjective
from rationale.explain.frozen import divergence
from rationale.explain.words import Decision, FrozenWords, WordProbe, neutral_embedding
from rationale.models.classifier import TextClassifier
from rationale.progress import report_phase
from rationale.training.loop import fit
from rationale.training.model_selection import ModelSelection
from rationale.training.settings.classifier import ClassifierProbeSettings


class Cost(NamedTuple):
    """What it costs to mask all words of a text but those that a probe keeps."""

    kept: float  # share of its words
    divergence: float  # of the answer without the others from the answer to the whole text, in nats
    agreement: float  # 1 if the label stays the same, else 0


@dataclass
class WordProbeResult:
    """A trained probe."""

    probe: WordProbe
    sizes: list[int]  # of the states that it reads
    metrics: dict[str, dict[str, float]]  # of dev and test
    history: list[dict[str, Any]]  # one row per epoch
    best: dict[str, Any]  # the row of the epoch that is kept
    converged: int | None


def new_probe(p: Any, classifier: TextClassifier, sizes: list[int], baseline: torch.Tensor) -> WordProbe:
    """A probe with open gates. Uses votes and hidden_size of `p`."""
    votes = BilinearVotes(sizes) if p.votes == "bilinear" else MLPVotes(sizes, p.hidden_size, True)
    return WordProbe(FrozenWords.of(classifier), votes, baseline).to(baseline.device)


def train_word_probe(
    p: ClassifierProbeSettings,
    classifier: TextClassifier,
    batches: dict[str, Batches],
    folder: Path,
    made_of: dict[str, str],
) -> WordProbeResult:
    """Train a probe, keep the sparsest epoch whose divergence on dev is within the margin, and evaluate it.

    Parameters
    ----------
    p : parameters
    classifier : TextClassifier
    batches : "train", "dev" and "test" -> batches of grouped texts
    folder : Path
        The checkpoint is written here.
    made_of : dict
        Digests of what the probe is made from: a checkpoint of something else is not continued.
    """
    torch.manual_seed(p.seed)
    frozen = FrozenWords.of(classifier)
    report_phase("the embedding in place of a masked word")
    baseline, sizes = neutral_embedding(frozen, batches["train"])
    probe = new_probe(p, classifier, sizes, baseline)
    objective = ProbeObjective(1, p.margin, p.form, p.divergence, p.multiplier_rate, p.multiplier_init)
    selection = ModelSelection(
        "within_tolerance", score="dev_kept", higher_is_better=False, rate="dev_divergence",
        target=p.margin / 2, tolerance=p.margin / 2, resolution=0.0,
    )  # fmt: skip

    def evaluate() -> dict[str, float]:
        return mean_cost(probe, batches["dev"], p.divergence)

    state = fit(
        probe, objective.to(baseline.device), batches["train"], evaluate, selection,
        SimpleNamespace(**vars(p), **made_of), folder, part="probe",
    )  # fmt: skip
    report_phase("evaluation of the probe")
    metrics = {split: mean_cost(probe, batches[split], p.divergence) for split in ("dev", "test")}
    metrics["test"]["divergence_without_words"] = _without_words(probe, batches["test"], p.divergence)
    return WordProbeResult(probe.requires_grad_(False), sizes, metrics, state.history, state.best, state.converged)  # type: ignore[arg-type]


def costs_of(decision: Decision, kind: str) -> list[Cost]:
    """The cost of each text of a batch. A text of which no word has a gate costs nothing, and keeps all of it."""
    distance = divergence(decision.original, decision.masked, kind)
    words = decision.mask.sum(1)
    kept = torch.where(words > 0, decision.kept.sum(1) / words.clamp(min=1), 1.0)
    same = decision.original.argmax(-1) == decision.masked.argmax(-1)
    rows = torch.stack([kept.to(distance.dtype), distance, same.to(distance.dtype)], 1)
    return [Cost(*row) for row in rows.tolist()]


def mean_cost(probe: WordProbe, batches: Batches, kind: str) -> dict[str, float]:
    """The mean cost of all texts, by name; `task` is the divergence, by which the step size may fall."""
    probe.eval()
    costs = [cost for batch in batches.in_order(max_batch=64) for cost in costs_of(probe.decide(batch), kind)]
    means = {
        name: sum(values) / len(costs) for name, values in zip(Cost._fields, zip(*costs, strict=True), strict=True)
    }
    return means | {"task": means["divergence"]}


@torch.no_grad()
def _without_words(probe: WordProbe, batches: Batches, kind: str) -> float:
    """The mean divergence when every word is masked: how far answers can move at all."""

    def distances() -> Iterator[float]:
        for batch in batches.in_order(max_batch=64):
            nothing = probe.frozen.masked(
                batch, 0, torch.zeros_like(batch.mask, dtype=torch.float32), probe.baselines[0]
            )
            yield from divergence(probe.frozen.predict(batch), nothing, kind).tolist()

    found = list(distances())
    return sum(found) / len(found)
