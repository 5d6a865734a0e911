"""Train and freeze a model, then attribute its predictions to its states with every method.

`train_probed_model` trains the model, `attribute` applies one method. Neither depends on the corpus: a model has
`predict(batch)` (logits [B, ..., C] of the outputs in `batch.target`) and `layers` (the modules whose outputs are its
states).
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.data import word_pieces
from rationale.data.batches import EVALUATION_BATCH, Batch, Batches, PairBatches, Vocabulary
from rationale.data.corpora import find_corpus
from rationale.data.example import Example
from rationale.data.read import limits, read_probing
from rationale.errors import BadInput
from rationale.explain import attributions
from rationale.explain.diffmask import BilinearVotes, MLPVotes, Probe, ProbeObjective, mean_states
from rationale.explain.frozen import FrozenModel, divergence
from rationale.explain.methods import METHODS
from rationale.explain.search import mask_divergence
from rationale.metrics import class_scores
from rationale.models import transformers
from rationale.models.digit_counter import DigitCounter
from rationale.nn.modes import evaluating
from rationale.objectives.loss import LossOutput
from rationale.objectives.penalties import masked_mean
from rationale.progress import report_phase
from rationale.statistics import macro_f1_error
from rationale.training.checkpoint import read_tensors
from rationale.training.loop import choose_device, fit
from rationale.training.model_selection import ModelSelection

if TYPE_CHECKING:
    from rationale.training.settings.probing import ProbingSettings


class ProbedTask(NamedTuple):
    """A model to be probed, its texts, and the function that scores its predictions."""

    model: nn.Module
    batches: dict[str, Batches]  # "train", "dev", "test"
    score: Callable[[Tensor, Tensor, Sequence[Example]], dict[str, float]]  # (answers, targets [N, ...], examples)

    @property
    def splits(self) -> dict[str, list[Example]]:
        return {name: part.examples for name, part in self.batches.items()}


def build_probed_task(p: "ProbingSettings") -> ProbedTask:
    """Build the untrained model of a corpus, and generate or read its texts.

    `DigitCounter` reads sequences of symbols; a transformer, or a GRU on its word embeddings, reads all other texts.

    Parameters
    ----------
    p : parameters
        Uses corpus, seed, num_train, num_dev, num_test (0: all), searchable, batch_size, device; for symbols
        embedding_size, otherwise pretrained, bfloat16 and reader, and embedding_size with the reader gru.

    Raises
    ------
    BadInput
        See `read_probing` and `transformers.load_encoder`; also if every test text is longer than searchable.
    """
    corpus, device = find_corpus(p.corpus), choose_device(p.device)
    torch.manual_seed(p.seed)
    splits = read_probing(p)
    if corpus.alphabet:
        splits = {**splits, "test": _searched(splits["test"], p.searchable)}
        vocabulary = Vocabulary(corpus.alphabet)
        model = DigitCounter(len(vocabulary), p.embedding_size)
        batches = {
            name: PairBatches(part, vocabulary, p.batch_size, p.seed, False, device, cells=False)
            for name, part in splits.items()
        }
        return ProbedTask(model, batches, _class_scores)
    encoder, tokenizer = transformers.load_encoder(p.pretrained, corpus.spans)
    to_pieces, longest = word_pieces.to_pieces, word_pieces.LONGEST_TEXT
    if corpus.spans:
        to_pieces, longest = word_pieces.to_spans, word_pieces.LONGEST_QUESTION
    longest = min(longest, transformers.num_positions(encoder))
    splits = {name: to_pieces(part, tokenizer, longest) for name, part in splits.items()}
    if empty := next((name for name, part in splits.items() if not part), None):
        raise BadInput(f"pretrained: no text of {empty} fits into {longest} pieces; accepted: a longer transformer")
    splits["test"] = _searched(splits["test"], p.searchable)
    score = _class_scores
    if corpus.spans:
        model, score = transformers.SpanFinder(encoder, tokenizer.sep_token_id), word_pieces.span_scores
    elif p.reader == "gru":
        model = transformers.EmbeddingGRU(encoder.embeddings.word_embeddings, p.embedding_size, len(corpus.labels))
    else:
        model = transformers.Classifier(encoder, len(corpus.labels), tokenizer.sep_token_id)
    model.in_bfloat16 = p.bfloat16
    pieces, used = word_pieces.WordPieces(tokenizer), limits(p)
    batches = {
        name: Batches(part[: used[name] or None], pieces, p.batch_size, p.seed, device=device)
        for name, part in splits.items()
    }
    return ProbedTask(model, batches, score)


def _searched(examples: Sequence[Any], searchable: int) -> Sequence[Any]:
    """The texts of at most so many positions; 0: all of them."""
    shortest = min((len(example.tokens) for example in examples), default=0)
    if searchable and shortest > searchable:
        longer = f"{searchable}, but the shortest test text has {shortest} positions"
        raise BadInput(f"searchable: {longer}; accepted: 0, or at least {shortest}")
    return [example for example in examples if len(example.tokens) <= (searchable or math.inf)]


def _class_scores(answers: Tensor, targets: Tensor, _: Sequence[Example]) -> dict[str, float]:
    return class_scores(answers, targets)


class AnswerLoss(nn.Module):
    """Cross-entropy in nats, summed over the outputs of `model.predict` and averaged over texts."""

    def forward(self, model: nn.Module, batch: Batch) -> LossOutput:
        loss = self.of(model.predict(batch), batch.target)
        return LossOutput(loss, {"task": loss.detach()})

    @staticmethod
    def of(logits: Tensor, target: Tensor) -> Tensor:
        """The loss, [], of logits [B, ..., C] and targets [B, ...]."""
        loss = F.cross_entropy(logits.flatten(0, -2), target.flatten().long(), reduction="none")
        return loss.view(len(logits), -1).sum(1).mean()


@torch.no_grad()
def predict_answers(model: nn.Module, batches: Batches) -> tuple[Tensor, Tensor, float]:
    """Predictions and targets, [N, ...] each, in the order of the examples, and the mean loss in nats."""
    answers, targets, order, loss = [], [], [], 0.0
    with evaluating(model):
        for batch in batches.in_order(max_batch=EVALUATION_BATCH):
            logits = model.predict(batch)
            answers.append(logits.argmax(-1))
            targets.append(batch.target)
            order.append(batch.rows)
            loss += AnswerLoss.of(logits, batch.target).item() * len(batch.rows)
    place = torch.cat(order).argsort()
    return torch.cat(answers)[place].cpu(), torch.cat(targets)[place].cpu(), loss / len(place)


def train_probed_model(
    p: "ProbingSettings", task: ProbedTask, folder: Path
) -> tuple[FrozenModel, dict[str, dict[str, float]]]:
    """Train the model to be probed, keep its best epoch on dev, and freeze it.

    Parameters
    ----------
    p : parameters
        Uses what `fit` does (model_epochs and model_learning_rate in place of epochs and learning_rate), methods and
        subject.
    task : ProbedTask
        Its scores include "accuracy".
    folder : Path
        The checkpoint is written to folder/subject.

    Returns
    -------
    The frozen model, and its metrics on dev and test

    Raises
    ------
    BadInput
        If p.subject (the run whose model is probed) holds no such model, or a package that a method needs is missing.
    """
    if any(METHODS[name].needs_captum for name in p.methods):
        attributions.import_captum()  # needed only after training, but a missing package is reported before it
    model, batches, score = task
    model = model.to(choose_device(p.device))
    settings = SimpleNamespace(**vars(p) | {"epochs": p.model_epochs, "learning_rate": p.model_learning_rate})

    def evaluate(split: str) -> dict[str, float]:
        answers, targets, loss = predict_answers(model, batches[split])
        return {"task": loss} | score(answers, targets, batches[split].examples)

    if p.subject:
        load_weights(model, Path(p.subject))
    elif p.model_epochs:
        checkpoint_folder = folder / "subject"
        checkpoint_folder.mkdir(parents=True, exist_ok=True)
        selection = ModelSelection("within_tolerance", score="dev_accuracy", higher_is_better=True)
        fit(
            model, AnswerLoss(), batches["train"], lambda: evaluate("dev"), selection, settings, checkpoint_folder,
            part="model to be probed",
        )  # fmt: skip
    model.requires_grad_(False).eval()
    return freeze(model), {split: evaluate(split) for split in ("dev", "test")}


def freeze(model: nn.Module) -> FrozenModel:
    """A model with `layers` and `predict` as a `FrozenModel`; every real position may be masked."""
    return FrozenModel(model, model.layers, model.predict, lambda batch: batch.mask)


def load_weights(model: nn.Module, run: Path, name: str = "subject") -> nn.Module:
    """Load into `model` the weights that a finished run has saved, and return it.

    Parameters
    ----------
    run : Path
        Folder with model.safetensors.
    name : str
        Prefix of the weights: "subject", the model that was probed, or the name of a probe.

    Raises
    ------
    BadInput
        If there are no weights, or they belong to another kind of model.
    """
    path = run / "model.safetensors"
    if not path.exists():
        raise BadInput(f"subject: {run} holds no model.safetensors; accepted is a finished run of 14_train_probes")
    try:
        tensors = read_tensors(path)[0].items()
        weights = {key.removeprefix(f"{name}."): value for key, value in tensors if key.startswith(f"{name}.")}
        model.load_state_dict(weights)
    except (SafetensorError, LookupError, TypeError, ValueError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInput(
            f"subject: {path} is damaged or holds another kind of model ({reason}); "
            "accepted is a run with the same model"
        ) from None
    for key, values in weights.items():
        if values.is_floating_point() and not torch.isfinite(values).all():
            raise BadInput(f"subject: {path}: {key} holds NaN or an infinite number; make the run again with --again")
    return model


@dataclass
class AttributionResult:
    """The attributions of one method, and facts about how they were computed."""

    values: dict[str, list[Tensor]]  # by split (dev only for probes), one [L + 1, T_i] per text, at least 0
    metrics: dict[str, dict[str, float]]  # by split
    seconds: float = 0.0
    history: list[dict] = field(default_factory=list)  # for probes, one row per epoch
    best_epoch: int = 0
    probe: Probe | None = None
    converged: int | None = None  # for probes, the epoch at which dev said enough (`stop_after`)
    by_text: dict[str, Tensor] = field(default_factory=dict)  # scores of the test texts, [N] each, by name
    earlier: dict[int, list[Tensor]] = field(default_factory=dict)  # of fits: masks after so many steps, bool [1, T_i]


def attribute(
    method: str, p: "ProbingSettings", frozen: FrozenModel, task: ProbedTask, folder: Path
) -> AttributionResult:
    """Apply one method: attributions to the states of every layer (`inputs`: to the input, seen from every layer).

    Parameters
    ----------
    method : a name in `explain.METHODS`
    p : parameters
        Uses seed and num_explained, and what `train_probe` or `attribute_batch` uses.
    folder : Path
        The checkpoint of a probe is written to folder/method.
    """
    batches, facts = task.batches, METHODS[method]
    torch.manual_seed(p.seed)
    if facts.is_probe:
        return train_probe(p, build_probe(p, method, frozen, batches["train"]), task, folder / method)
    report_phase(f"attributions: {method}")
    start = time.perf_counter()
    moments = attributions.state_moments(frozen, batches["train"].in_order()) if facts.needs_moments else None
    one = AttributionResult({"test": []}, {"dev": {}, "test": {}})
    test, marks = batches["test"], []
    for rows in torch.arange(p.num_explained or len(test.examples))[: len(test.examples)].split(1024):
        batch = test.rows(rows)
        watch = attributions.Quarters(p.num_steps) if facts.is_fitted_mask else None
        padded = attribute_batch(method, p, frozen, batch, moments, watch).cpu()
        lengths = frozen.mask(batch).sum(1).tolist()
        one.values["test"] += [layers[:, :length] for layers, length in zip(padded, lengths, strict=True)]
        if watch:
            for step, masks in watch.masks.items():
                cut = [mask[None, :length].cpu() for mask, length in zip(masks, lengths, strict=True)]
                one.earlier[step] = one.earlier.get(step, []) + cut
            marks.append(_marks_of_fit(p, frozen, batch, padded[:, 0], watch))
    one.by_text |= {name: torch.cat([part[name] for part in marks]) for name in (marks[0] if marks else ())}
    one.metrics["test"] |= {name: scores.mean().item() for name, scores in one.by_text.items()}
    one.seconds = time.perf_counter() - start
    return one


def _marks_of_fit(
    p: "ProbingSettings", frozen: FrozenModel, batch: Batch, keep: Tensor, watch: attributions.Quarters
) -> dict[str, Tensor]:
    """Scores of masks that were fitted to the first layer of single texts, [B] each.

    feasible: 1 if the mask P(z != 0) > 1/2 meets the margin (feasible_at_S: after S steps). feasible_draws: 1 if the
    mean divergence of the draws of the last quarter of the steps meets it. settled: 1 if this quarter did not change
    the mask.
    """
    kept = (keep > 0.5).to(batch.mask.device)

    def feasible(mask: Tensor) -> Tensor:
        return mask_divergence(frozen, batch, 0, mask) <= p.margin

    found = {"feasible": feasible(kept), "feasible_draws": watch.divergence <= p.margin}
    found |= {"settled": ((kept == watch.masks[watch.steps[-1]]) | ~batch.mask).all(1)}
    found |= {f"feasible_at_{step}": feasible(mask) for step, mask in watch.masks.items()}
    return {name: one.double().cpu() for name, one in found.items()}


def attribute_batch(
    method: str,
    p: "ProbingSettings",
    frozen: FrozenModel,
    batch: Batch,
    moments: list[tuple[Tensor, Tensor]] | None = None,
    watch: Callable[[int, Tensor, Tensor], None] | None = None,
) -> Tensor:
    """Attributions of a method that is not a probe to the states of every layer, [B, L + 1, T].

    Parameters
    ----------
    method : a name in `explain.METHODS`
    p : parameters
        Uses num_steps, margin, searchable, multiplier_init.
    moments : of `attributions.state_moments`, or None if the method does not need them
    watch : watches the fit of masks to the first layer, see `attributions.masks`; other methods have none
    """
    facts, options = METHODS[method], {}
    if facts.needs_short_texts and p.searchable:
        options["longest"] = p.searchable
    if facts.needs_steps:
        options["num_steps"] = p.num_steps
    if facts.needs_margin:
        options["margin"] = p.margin
    if facts.needs_multiplier:
        options["multiplier_init"] = p.multiplier_init
    layers = []
    for layer in range(len(frozen.layers)):
        if facts.needs_moments:
            options["mean"], options["std"] = moments[layer]
        if facts.is_fitted_mask:
            options["watch"] = watch if layer == 0 else None
        layers.append(facts.function(frozen, batch, layer, **options))
    return torch.stack(layers, 1)


def build_probe(p: "ProbingSettings", target: str, frozen: FrozenModel, batches: Batches) -> Probe:
    """A new probe of "inputs" or "states", with open gates and mean states as baselines."""
    means = mean_states(frozen, batches.epoch(1))
    sizes, of_inputs = [len(mean) for mean in means], target == "inputs"
    votes = BilinearVotes(sizes) if p.votes == "bilinear" else MLPVotes(sizes, p.hidden_size, of_inputs)
    probe = Probe(frozen, votes, target, means[:1] if of_inputs else means)
    return probe.to(means[0].device)


def train_probe(p: "ProbingSettings", probe: Probe, task: ProbedTask, folder: Path) -> AttributionResult:
    """Train a probe of a frozen model, keep the sparsest epoch whose divergence is within the margin, and evaluate it.

    Parameters
    ----------
    p : parameters
        Uses what `fit` does, and margin, form, divergence, multiplier_rate, multiplier_init.
    probe : Probe
    task : ProbedTask
        Its score is also applied to the predictions after masking.
    folder : Path
        The checkpoint is written here.
    """
    _, batches, score = task
    folder.mkdir(parents=True, exist_ok=True)
    layers = len(probe.frozen.layers)
    objective = ProbeObjective(layers, p.margin, p.form, p.divergence, p.multiplier_rate, p.multiplier_init)
    objective = objective.to(batches["train"].device)
    selection = ModelSelection(
        "within_tolerance", score="dev_kept", higher_is_better=False, rate="dev_divergence",
        target=p.margin / 2, tolerance=p.margin / 2, resolution=0.0,
    )  # fmt: skip

    def evaluate() -> dict[str, float]:
        return evaluate_probe(probe, batches["dev"], score, kind=p.divergence)[0]

    print(f"probe of {folder.name}", flush=True)
    state = fit(probe, objective, batches["train"], evaluate, selection, p, folder, part=f"probe of {folder.name}")
    report_phase(f"evaluation of the probe of {folder.name}")
    evaluations = {
        split: evaluate_probe(probe, batches[split], score, with_errors=True, kind=p.divergence)
        for split in ("dev", "test")
    }
    metrics = {split: scores for split, (scores, _) in evaluations.items()}
    values = {split: keep for split, (_, keep) in evaluations.items()}
    seconds = sum(row["seconds"] for row in state.history)
    return AttributionResult(values, metrics, seconds, state.history, state.best["epoch"], probe, state.converged)


@torch.no_grad()
def evaluate_probe(
    probe: Probe, batches: Batches, score: Callable, with_errors: bool = False, kind: str = "kl"
) -> tuple[dict[str, float], list[Tensor]]:
    """Effect of masking with one draw of the gates, and the keep probabilities of each text.

    Parameters
    ----------
    with_errors : bool
        Whether the metrics have the standard error of each macro F1, which takes a bootstrap per layer.
    kind : str
        Of `divergence`: the one that the margin of the probe holds.

    Returns
    -------
    metrics, keep probabilities
        The metrics are means over texts, once per layer, as <name>_<layer>, and once as the mean over layers, as
        <name>: divergence (of this kind, nats), kept (expected share of positions that are not masked), agreement
        (share of texts whose answer is unchanged). Per layer there are also the scores of the answers after masking,
        as masked_<score>_<layer>. If asked for, masked_macro_f1_error_<layer> is the standard error of the difference
        between the macro F1 before and after masking. The keep probabilities are one [L + 1, T_i] per text, in the
        order of the examples.
    """
    layers, rows, keep, order, alone, answers, targets = range(len(probe.frozen.layers)), [], [], [], [], [], []
    with evaluating(probe):
        for batch in batches.in_order(max_batch=EVALUATION_BATCH):
            mask, read = probe.frozen.mask(batch), probe.frozen.read(batch)
            outputs = [probe(batch, layer, read) for layer in layers]
            keep_probability = torch.stack([output.log_keep.exp() for output in outputs], 1)  # [B, L + 1, T]
            answer = torch.stack([output.masked.argmax(-1) for output in outputs], 1)  # [B, L + 1, ...]
            alone.append(read[0].argmax(-1))
            same = (answer == alone[-1].unsqueeze(1)).view(*answer.shape[:2], -1).all(2)
            distance = torch.stack([divergence(output.original, output.masked, kind) for output in outputs], 1)
            kept = torch.stack([masked_mean(of_layer, mask) for of_layer in keep_probability.unbind(1)], 1)
            rows.append(torch.stack([distance, kept, same.to(kept.dtype)], 2))
            lengths = mask.sum(1).tolist()
            keep += [padded[:, :length] for padded, length in zip(keep_probability.cpu(), lengths, strict=True)]
            order.append(batch.rows)
            answers.append(answer)
            targets.append(batch.target)
    means = torch.cat(rows).double().mean(0)  # [L + 1, 3]
    names = ("divergence", "kept", "agreement")
    metrics = dict(zip(names, means.mean(0).tolist(), strict=True))
    place = torch.cat(order).argsort()
    alone, answers, targets = (torch.cat(parts)[place].cpu() for parts in (alone, answers, targets))
    for layer in layers:
        of_layer = dict(zip(names, means[layer].tolist(), strict=True))
        scores = score(answers[:, layer], targets, batches.examples)
        if with_errors and "macro_f1" in scores:
            scores |= {"macro_f1_error": macro_f1_error(answers[:, layer], alone, targets)}
        of_layer |= {f"masked_{name}": value for name, value in scores.items()}
        metrics |= {f"{name}_{layer}": value for name, value in of_layer.items()}
    return metrics | {"task": metrics["divergence"]}, [keep[i] for i in place.tolist()]
