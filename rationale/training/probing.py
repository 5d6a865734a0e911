"""A run that probes: a model is trained and frozen, then every method says what its answers rest on.

`train_subject` is the arc of the model, `attribute` that of one method. Both know no task: a model has `predict(batch)`
(logits [B, ..., C] of the outputs in `batch.target`) and `layers` (the modules whose outputs are its states).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale import metrics
from rationale.data import word_pieces
from rationale.data.batches import Batch, Batches, PairBatches, Vocabulary
from rationale.data.corpora import find_corpus
from rationale.data.example import Example
from rationale.data.read import limits, read_probing
from rationale.errors import BadInput
from rationale.explain import attributions
from rationale.explain.diffmask import (
    KINDS,
    BilinearVotes,
    Frozen,
    MLPVotes,
    Probe,
    ProbeObjective,
    divergence,
    mean_states,
)
from rationale.models import transformers
from rationale.models.digit_counter import DigitCounter
from rationale.objectives.loss import LossOutput
from rationale.objectives.penalties import masked_mean
from rationale.runs import saved
from rationale.runs.parameters import MASKS, completed
from rationale.training.checkpoint import read_tensors
from rationale.training.loop import choose_device, fit
from rationale.training.model_selection import ModelSelection


class Subject(NamedTuple):
    """What is probed, before it is trained."""

    model: nn.Module
    batches: dict[str, Batches]  # "train", "dev", "test"
    score: Callable[[Tensor, Tensor, Sequence[Example]], dict[str, float]]  # of answers and targets [N, ...] of texts

    @property
    def splits(self) -> dict[str, list[Example]]:
        return {name: part.examples for name, part in self.batches.items()}


def build_subject(p: SimpleNamespace) -> Subject:
    """The model of a corpus and its texts: sequences of symbols are counted, all other texts read by a transformer.

    Parameters
    ----------
    p : parameters
        Uses corpus, seed, num_train, num_dev, num_test (0: all), batch_size, device, and for a model embedding_size
        (of symbols) or pretrained.
    """
    corpus, device = find_corpus(p.corpus), choose_device(p.device)
    torch.manual_seed(p.seed)
    splits = read_probing(p)
    if corpus.alphabet:
        vocabulary = Vocabulary(corpus.alphabet)
        model = DigitCounter(len(vocabulary), p.embedding_size)
        batches = {
            name: PairBatches(part, vocabulary, p.batch_size, p.seed, False, device, cells=False)
            for name, part in splits.items()
        }
        return Subject(model, batches, _class_scores)
    encoder, tokenizer = transformers.load_encoder(p.pretrained, corpus.spans)
    to_pieces = word_pieces.to_spans if corpus.spans else word_pieces.to_pieces
    splits = {name: to_pieces(part, tokenizer) for name, part in splits.items()}
    if p.searchable:
        splits["test"] = [example for example in splits["test"] if len(example.tokens) <= p.searchable]
    score = _class_scores
    if corpus.spans:
        model, score = transformers.SpanFinder(encoder, tokenizer.sep_token_id), word_pieces.span_scores
    elif p.reader == "gru":
        model = transformers.EmbeddingGRU(encoder.embeddings.word_embeddings, p.embedding_size, len(corpus.labels))
    else:
        model = transformers.Classifier(encoder, len(corpus.labels), tokenizer.sep_token_id)
    pieces, used = word_pieces.WordPieces(tokenizer), limits(p)
    batches = {
        name: Batches(part[: used[name] or None], pieces, p.batch_size, p.seed, device=device)
        for name, part in splits.items()
    }
    return Subject(model, batches, score)


def _class_scores(answers: Tensor, targets: Tensor, _: Sequence[Example]) -> dict[str, float]:
    return metrics.class_scores(answers, targets)


class AnswerLoss(nn.Module):
    """Cross-entropy in nats of every output of `model.predict`, the mean over texts of their sum."""

    def forward(self, model: nn.Module, batch: Batch) -> LossOutput:
        loss = self.of(model.predict(batch), batch.target)
        return LossOutput(loss, {"task": loss.detach()})

    @staticmethod
    def of(logits: Tensor, target: Tensor) -> Tensor:
        """The loss of logits [B, ..., C] and targets [B, ...]."""
        loss = F.cross_entropy(logits.flatten(0, -2), target.flatten().long(), reduction="none")
        return loss.view(len(logits), -1).sum(1).mean()


@torch.no_grad()
def answers(model: nn.Module, batches: Batches) -> tuple[Tensor, Tensor, float]:
    """Answers [N, ...] and targets in the order of the examples, and the mean loss in nats."""
    model.eval()
    found, targets, order, loss = [], [], [], 0.0
    for batch in batches.in_order(max_batch=256):
        logits = model.predict(batch)
        found.append(logits.argmax(-1))
        targets.append(batch.target)
        order.append(batch.index)
        loss += AnswerLoss.of(logits, batch.target).item() * len(batch.index)
    place = torch.cat(order).argsort()
    return torch.cat(found)[place].cpu(), torch.cat(targets)[place].cpu(), loss / len(place)


def train_subject(p: SimpleNamespace, subject: Subject, folder: Path) -> tuple[Frozen, dict[str, dict[str, float]]]:
    """Train the model to be probed, keep its best epoch on dev, freeze it.

    Parameters
    ----------
    p : parameters
        Uses what `fit` does, with model_epochs and model_learning_rate for the model's own.
    subject : Subject
        Its scores have "accuracy" among them.
    folder : Path
        Its checkpoint goes to folder/subject.

    Returns
    -------
    The frozen model, and its metrics on dev and test

    Raises
    ------
    BadInput
        If p.subject, the run to take the model from, holds no such model.
    """
    if "integrated_gradients" in p.methods:
        attributions.import_captum()  # asked for after training only: said before
    model, batches, score = subject
    model = model.to(choose_device(p.device))
    own = SimpleNamespace(**vars(p) | {"epochs": p.model_epochs, "learning_rate": p.model_learning_rate})

    def evaluate(name: str) -> dict[str, float]:
        found, targets, task = answers(model, batches[name])
        return {"task": task} | score(found, targets, batches[name].examples)

    if p.subject:
        load_weights(model, Path(p.subject))
    elif p.model_epochs:
        place = folder / "subject"
        place.mkdir(parents=True, exist_ok=True)
        choice = ModelSelection("within_tolerance", score="dev_accuracy", higher_is_better=True)
        fit(model, AnswerLoss(), batches["train"], lambda: evaluate("dev"), choice, own, place)
    model.requires_grad_(False).eval()
    return freeze(model), {name: evaluate(name) for name in ("dev", "test")}


def load_probed(run: Path) -> tuple[SimpleNamespace, Subject, Frozen, dict[str, Probe]]:
    """A finished run of `14_train_probes` on this machine: its parameters, what it probed, and its probes by kind.

    Raises
    ------
    BadInput
        If the folder holds no such run, or its corpus is missing.
    """
    p = completed(saved.read_parameters(run) | {"device": "auto"})
    subject = build_subject(p)
    model = load_weights(subject.model, run).to(choose_device(p.device)).requires_grad_(False).eval()
    frozen, probes = freeze(model), {}
    for kind in (kind for kind in KINDS if kind in p.methods):
        probe = build_probe(p, kind, frozen, subject.batches["dev"])
        probes[kind] = load_weights(probe, run, kind).requires_grad_(False).eval()
    return p, subject, frozen, probes


def freeze(model: nn.Module) -> Frozen:
    """A model with `layers` and `predict` as probes see it; every real position may be masked."""
    return Frozen(model, model.layers, model.predict, lambda batch: batch.mask)


def load_weights(model: nn.Module, run: Path, name: str = "subject") -> nn.Module:
    """`model` with the weights that a finished run has saved: of the model it probed, or of a probe.

    Raises
    ------
    BadInput
        If there are none, or those of another kind of model.
    """
    path = run / "model.safetensors"
    if not path.exists():
        raise BadInput(f"subject: {run} holds no model.safetensors; accepted is a finished run of 14_train_probes")
    found = read_tensors(path)[0].items()
    tensors = {key.removeprefix(f"{name}."): value for key, value in found if key.startswith(f"{name}.")}
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"subject: {run} holds another kind of model ({reason}); accepted is a run alike") from None
    return model


@dataclass
class Attributed:
    """What one method found."""

    values: dict[str, list[Tensor]]  # by split (dev of probes only): [L + 1, T_i] of each text, at least 0, by layer
    metrics: dict[str, dict[str, float]]  # by split
    seconds: float = 0.0
    history: list[dict] = field(default_factory=list)  # of methods that are trained
    best_epoch: int = 0
    probe: Probe | None = None


def attribute(method: str, p: SimpleNamespace, frozen: Frozen, subject: Subject, folder: Path) -> Attributed:
    """Attributions of one method to the states of every layer (`inputs`: to the input, read off every layer).

    Parameters
    ----------
    method : one of `params.METHODS`
    p : parameters
    folder : Path
        A probe's checkpoint goes to folder/method.
    """
    batches = subject.batches
    torch.manual_seed(p.seed)
    if method in KINDS:
        return train_probe(p, build_probe(p, method, frozen, batches["train"]), subject, folder / method)
    start = time.perf_counter()
    moments = None
    if method == "information_bottleneck":
        moments = attributions.moments(frozen, batches["train"].in_order())
    test, pieces = batches["test"], []
    for rows in torch.arange(p.num_explained or len(test.examples))[: len(test.examples)].split(1024):
        batch = test.rows(rows)
        found = attribute_batch(method, p, frozen, batch, moments).cpu()
        lengths = frozen.mask(batch).sum(1).tolist()
        pieces += [one[:, :length] for one, length in zip(found, lengths, strict=True)]
    return Attributed({"test": pieces}, {"dev": {}, "test": {}}, time.perf_counter() - start)


def attribute_batch(
    method: str, p: SimpleNamespace, frozen: Frozen, batch: Batch, moments: list[tuple[Tensor, Tensor]] | None = None
) -> Tensor:
    """What a method that is no probe attributes to the states of every layer, [B, L + 1, T].

    Parameters
    ----------
    method : name of a function of `attributions`
    p : parameters
        Uses num_steps, margin, searchable.
    moments : of `attributions.moments`, for the information bottleneck
    """
    options = {"longest": p.searchable or 16} if method == "erasure" else {}
    if method not in ("erasure", "attention"):
        options["num_steps"] = p.num_steps
    if method in MASKS:
        options["margin"] = p.margin
    layers = []
    for layer in range(len(frozen.layers)):
        if method == "information_bottleneck":
            options["mean"], options["std"] = moments[layer]
        layers.append(getattr(attributions, method)(frozen, batch, layer, **options))
    return torch.stack(layers, 1)


def build_probe(p: SimpleNamespace, kind: str, frozen: Frozen, batches: Batches) -> Probe:
    """A probe whose gates are open and whose baselines are mean states."""
    means = mean_states(frozen, batches.epoch(1))
    sizes = [len(mean) for mean in means]
    votes = BilinearVotes(sizes) if p.votes == "bilinear" else MLPVotes(sizes, p.hidden_size, kind == "inputs")
    probe = Probe(frozen, votes, kind, means[:1] if kind == "inputs" else means)
    return probe.to(means[0].device)


def train_probe(p: SimpleNamespace, probe: Probe, subject: Subject, folder: Path) -> Attributed:
    """Train a probe of a frozen model, keep the sparsest epoch whose divergence is within the margin, evaluate.

    Parameters
    ----------
    p : parameters
        Uses what `fit` does, and margin, form, divergence, multiplier_rate, multiplier_init.
    probe : Probe
    subject : Subject
        Its score is also that of the answers after masking.
    folder : Path
    """
    _, batches, score = subject
    folder.mkdir(parents=True, exist_ok=True)
    layers = len(probe.frozen.layers)
    objective = ProbeObjective(layers, p.margin, p.form, p.divergence, p.multiplier_rate, p.multiplier_init)
    objective = objective.to(batches["train"].device)
    choice = ModelSelection(
        "within_tolerance", score="dev_kept", higher_is_better=False, rate="dev_divergence",
        target=p.margin / 2, tolerance=p.margin / 2,
    )  # fmt: skip

    def evaluate() -> dict[str, float]:
        return evaluate_probe(probe, batches["dev"], score)[0]

    print(f"probe of {folder.name}", flush=True)
    state = fit(probe, objective, batches["train"], evaluate, choice, p, folder)
    found = {name: evaluate_probe(probe, batches[name], score) for name in ("dev", "test")}
    values = {name: keep for name, (_, keep) in found.items()}
    metrics = {name: figures for name, (figures, _) in found.items()}
    seconds = sum(row["seconds"] for row in state.history)
    return Attributed(values, metrics, seconds, state.history, state.best["epoch"], probe)


@torch.no_grad()
def evaluate_probe(probe: Probe, batches: Batches, score: Callable) -> tuple[dict[str, float], list[Tensor]]:
    """What masking by one draw of the gates costs, and the keep probabilities [L + 1, T_i] of each text.

    Returns
    -------
    metrics, keep probabilities
        Means over texts, for each layer with its number behind and over layers without: divergence (KL(y || y_hat),
        nats), kept (expected share of positions that are not masked), agreement (share of texts whose answer
        stays); of each layer also the scores of the answers after masking, as masked_*.
    """
    probe.eval()
    layers, rows, keep, order, said, targets = range(len(probe.frozen.layers)), [], [], [], [], []
    for batch in batches.in_order(max_batch=256):
        mask, read = probe.frozen.mask(batch), probe.frozen.read(batch)
        probed = [probe(batch, layer, read) for layer in layers]
        share = torch.stack([one.log_keep.exp() for one in probed], 1)  # [B, L + 1, T]
        answer = torch.stack([one.masked.argmax(-1) for one in probed], 1)  # [B, L + 1, ...]
        same = (answer == read[0].argmax(-1).unsqueeze(1)).view(*answer.shape[:2], -1).all(2)
        apart = torch.stack([divergence(one.original, one.masked) for one in probed], 1)
        kept = torch.stack([masked_mean(one, mask) for one in share.unbind(1)], 1)
        rows.append(torch.stack([apart, kept, same.to(kept.dtype)], 2))
        keep += [piece[:, :length] for piece, length in zip(share.cpu(), mask.sum(1).tolist(), strict=True)]
        order.append(batch.index)
        said.append(answer)
        targets.append(batch.target)
    means = torch.cat(rows).double().mean(0)  # [L + 1, 3]
    names = ("divergence", "kept", "agreement")
    figures = dict(zip(names, means.mean(0).tolist(), strict=True))
    place = torch.cat(order).argsort()
    said, targets = torch.cat(said)[place].cpu(), torch.cat(targets)[place].cpu()
    for layer in layers:
        found = dict(zip(names, means[layer].tolist(), strict=True))
        scores = score(said[:, layer], targets, batches.examples)
        found |= {f"masked_{name}": value for name, value in scores.items()}
        figures |= {f"{name}_{layer}": value for name, value in found.items()}
    return figures | {"task": figures["divergence"]}, [keep[i] for i in place.tolist()]
