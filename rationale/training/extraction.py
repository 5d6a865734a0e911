"""Train and evaluate a rationale extractor."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rationale.data.batches import Batches, Vocabulary
from rationale.data.example import Example
from rationale.data.vectors import build_vocabulary, require_vectors
from rationale.data.word_pieces import NO_PIECE, build_pieces
from rationale.errors import BadInput
from rationale.models.extractor import Extractor, ExtractorSettings, build_extractor
from rationale.models.pretrained_encoder import PretrainedSettings
from rationale.models.protocol import RationaleModel
from rationale.models.remedies import RemedySettings
from rationale.nn.encoders import find_encoder
from rationale.nn.heads import Head, HeadSettings
from rationale.nn.rules import RULES
from rationale.objectives.constraint import ConstraintSettings
from rationale.objectives.loss import GuidanceSettings, PriceSettings, build_objective
from rationale.objectives.penalties import numbers_like
from rationale.progress import REST, report_phase
from rationale.training.checkpoint import CHECKPOINT, scheduled_epochs
from rationale.training.epochs import EpochRecorder
from rationale.training.evaluation import Evaluation, evaluate_extractor, importance_quantile, score_when_shut
from rationale.training.loop import choose_device, fit
from rationale.training.memory import require_memory
from rationale.training.model_selection import (
    AUTHORS_PATIENCE,
    EXPECTED,
    SELECTED,
    ModelSelection,
    adaptive_tolerance,
)
from rationale.training.steps import StepSettings

if TYPE_CHECKING:
    from rationale.training.settings.alignment import AlignmentSettings
    from rationale.training.settings.extraction import ExtractionSettings


@dataclass
class Result:
    """A finished run in memory."""

    model: RationaleModel[Any] | None  # this and the vocabulary are None for a baseline that is not a network
    vocabulary: Vocabulary | None
    splits: dict[str, list[Example]]
    evaluations: dict[str, Evaluation]  # by split: dev, test
    history: list[dict]
    best: dict  # row of the history of the epoch that was kept
    converged: int | None = None  # the epoch at which dev said enough (`stop_after`)


def require_words(p: "ExtractionSettings") -> None:
    """Stop, before anything is read, if the word vectors, the pretrained encoder or the GPU of a run are not there.

    Raises
    ------
    BadInput
        If they are not.
    """
    choose_device(p.device)
    encoder = find_encoder(p.encoder)
    if encoder.reads_pieces:
        require_precision(p)
        encoder.require(p)
    else:
        require_vectors(p.vectors)


def multiplies_in_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies matrices in bfloat16 faster than in float32; of a CPU, whether it has instructions.

    False for a CPU with a version of torch that does not tell.
    """
    if device.type != "cpu":
        return True
    features = getattr(torch.cpu, "get_capabilities", dict)()
    return any(features.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))  # the last one: ARM


def require_precision(p: "ExtractionSettings") -> None:
    """Stop if a run is to multiply in bfloat16 on a CPU that has no instructions for it.

    Raises
    ------
    BadInput
        If it is.
    """
    if PretrainedSettings.of(p).bfloat16 and not multiplies_in_bfloat16(choose_device(p.device)):
        raise BadInput(
            "bfloat16: true is not accepted on this CPU, which does not multiply in bfloat16; give false, or train on "
            "a machine with a GPU"
        )


def prepare_extractor(
    p: "ExtractionSettings", splits: dict[str, list[Example]], head: str, num_outputs: int
) -> tuple[Extractor, dict[str, Batches]]:
    """A newly initialised extractor and the batches of its splits, as `train` takes them.

    The parameters are those of `train_extractor`; splits may have any names.
    """
    device = choose_device(p.device)
    require_precision(p)
    torch.manual_seed(p.seed)
    encoder = find_encoder(p.encoder)
    if encoder.reads_pieces:
        vocabulary, vectors = build_pieces(splits, encoder.tokenizer(p))
    else:
        trained = ExtractorSettings.of(p).trains_vectors(p.vectors)
        vocabulary, vectors = build_vocabulary(splits, p.vectors, p.vectors_scale, p.embedding_size, p.seed, trained)
    model = build_extractor(p, vectors, head, num_outputs).to(device)
    limits, guidance = {"train": StepSettings.of(p).batch_tokens}, GuidanceSettings.of(p)
    guided = {"train": guidance.guided if guidance.guidance else 0.0}
    batches = {
        name: Batches(
            examples, vocabulary, p.batch_size, p.seed, p.bucketed, device, limits.get(name), guided.get(name, 0.0)
        )
        for name, examples in splits.items()
    }
    return model, batches


def longer_than_window(model: Extractor, part: Batches) -> torch.Tensor:
    """Which texts have more word pieces than the pretrained encoder of a model reads at once, bool [N]."""
    return part.sums((model.vectors != NO_PIECE).sum(1)) > model.predictor.encoder.window


def note_of_windows(model: Extractor, batches: dict[str, Batches]) -> str:
    """A line about texts with more word pieces than a pretrained encoder reads at once; "" if there are none."""
    window = model.predictor.encoder.window
    longer = sum(int(longer_than_window(model, part).sum()) for part in batches.values())
    if not longer:
        return ""
    texts = sum(len(part.examples) for part in batches.values())
    read = f"the encoder reads {window} word pieces at once, so these are read in windows of as many"
    return f"note: {longer:,} of {texts:,} texts are longer than {window} word pieces; {read}\n"


def epochs_of_whole_texts(model: Extractor, train: Batches, epochs: int) -> int:
    """What `whole_text_epochs: null` stands for: 1 if most texts are longer than the encoder reads at once, else 0."""
    if not (model.has_gates and model.reads_pieces) or epochs == 1:
        return 0
    return int(longer_than_window(model, train).double().mean() > 0.5)


def note_of_precision(p: "ExtractionSettings") -> str:
    """A line for a CPU that could train a pretrained encoder faster; "" if there is nothing to say."""
    device = choose_device(p.device)
    if PretrainedSettings.of(p).bfloat16 or device.type != "cpu" or not multiplies_in_bfloat16(device):
        return ""
    return "note: this CPU can also multiply in bfloat16: bfloat16=true makes training faster\n"


def train_extractor(
    p: "ExtractionSettings",
    splits: dict[str, list[Example]],
    head: str,
    num_outputs: int,
    folder: Path,
    watched: Sequence[int] = (),
) -> Result:
    """Train an extractor on examples and evaluate it. The test split is used once, at the end.

    Parameters
    ----------
    p : parameters
        The validated parameters of the run.
    splits : dict
        "train", "dev" and "test" examples.
    head : "classes" or "scores"
    num_outputs : int
        Number of classes or scores.
    folder : Path
        Where checkpoints are written; an unfinished run in this folder is continued.
    watched : sequence of int
        Numbers of dev texts whose gates are saved after each epoch (`EpochRecorder`). This changes no result.
    """
    model, batches = prepare_extractor(p, splits, head, num_outputs)
    if model.reads_pieces:
        print(note_of_windows(model, batches) + note_of_precision(p), end="", flush=True)
    if RemedySettings.of(p).whole_text_epochs is None:
        p = p.model_copy(update={"whole_text_epochs": epochs_of_whole_texts(model, batches["train"], p.epochs)})
        if p.whole_text_epochs:
            print("note: most texts are that long, so the predictor reads every word in the first epoch", flush=True)
    if HeadSettings.of(p).class_weight == "balanced":
        balance(model.head, batches["train"])
    watch = None
    if watched:
        dev = batches["dev"]
        of_dev = [splits["dev"][i] for i in watched]
        texts = Batches(of_dev, dev.vocabulary, p.batch_size, p.seed, p.bucketed, dev.device)
        watch = EpochRecorder(model, texts, p.selection, folder)
    result = train(p, model, batches, folder, watch)
    if p.model == "attention" and p.rule == "top_k":  # the same budget over all reviews, instead of in each of them
        model.rule, model.threshold = "threshold", importance_quantile(model, batches["dev"], p.budget)
        objective = build_objective(p, has_gates=model.has_gates).to(batches["dev"].device)
        for name, evaluation in result.evaluations.items():
            scores = evaluate_extractor(model, batches[name], objective).metrics
            evaluation.metrics.update({f"global_{metric}": value for metric, value in scores.items()})
        model.rule = p.rule
    return result


def balance(head: Head, train: Batches) -> None:
    """Give each class the weight with which all classes count the same in the training loss, w_c = N / (C N_c).

    Raises
    ------
    BadInput
        The labels are scores.
    """
    if train.targets.is_floating_point():
        raise BadInput("class_weight: balanced, but the labels are scores; accepted: none, or head=classes")
    counts = train.targets.bincount(minlength=head.output.out_features).clamp(min=1)  # every class is in train
    output = head.output.weight
    head.class_weights = (len(train.targets) / (len(counts) * numbers_like(output, counts))).to(output.dtype)


def loss_of_constant(batches: Batches, weights: torch.Tensor | None = None) -> float:
    """The loss of the best answer that is the same for every text.

    The entropy of the classes in nats, or the variance of the scores; at least 1e-6, also for texts with equal labels.

    Parameters
    ----------
    batches : Batches
    weights : [C] or None
        Of the classes, with a mean of 1 over the texts (`balance`).
    """
    targets = batches.targets
    if targets.is_floating_point():
        return max(targets.double().var(0, unbiased=False).mean().item(), 1e-6)
    counts = targets.bincount(minlength=0 if weights is None else len(weights)).double()
    shares = counts / len(targets) if weights is None else counts * weights.double() / len(targets)
    return max(torch.special.entr(shares).sum().item(), 1e-6)


def train(
    p: "ExtractionSettings | AlignmentSettings",
    model: RationaleModel[Any],
    batches: dict[str, Batches],
    folder: Path,
    after_epoch: Callable[[int], None] | None = None,
    is_started: bool = False,
) -> Result:
    """Train a model, keep the epoch that model selection chooses, and evaluate it on dev and test.

    Parameters
    ----------
    p : parameters
    model : RationaleModel
    batches : "train", "dev" and "test" batches
    folder : Path
    after_epoch : function
        Called with the number of each epoch, see `fit`.
    is_started : bool
        Whether the gates have been set at the target already, if `start` says so.
    """
    require_memory(model, batches)
    if p.start == "target" and not is_started:
        model.selector.start_at(ConstraintSettings.of(p).first_target)
    texts = batches["train"]
    epochs = scheduled_epochs(folder / CHECKPOINT, vars(p))
    objective = build_objective(
        p, len(texts), model.has_gates, loss_of_constant(texts, model.head.class_weights), epochs
    ).to(texts.device)
    tolerance = p.tolerance
    if tolerance is None:  # only texts with a target have something to be tolerant about
        tolerance = adaptive_tolerance(p.selection or 1.0, len(batches["dev"].examples))
    warmup = math.ceil(PriceSettings.of(p).warmup) + (RemedySettings.of(p).whole_text_epochs or 0)
    rate = getattr(p, "kept_by", None) or (SELECTED if p.measure == "selected" else EXPECTED)
    if not RULES[p.rule].rate_moves:
        rate = EXPECTED
    target = p.selection if objective.selection is not None else None
    rate_of_dev = {}  # what its texts may keep of all words, where that is not the target itself
    if objective.selection is not None and objective.selection.per_text:  # above it, if many texts are short
        sizes = torch.cat([batch.mask.sum(1) for batch in batches["dev"].in_order()])
        target = objective.selection.mean_target(sizes, of_words=rate == SELECTED, final=True).item()
        rate_of_dev["rate_target"] = objective.selection.mean_target(sizes, of_words=True, final=True).item()
    selection = ModelSelection(
        p.model_choice,
        score=f"dev_{model.head.chosen_by}",
        higher_is_better=model.head.higher_is_better,
        rate=rate,
        target=target,
        tolerance=tolerance,
        patience=max(p.patience, AUTHORS_PATIENCE if p.model_choice == "authors" else warmup),
    )
    last: dict[str, Evaluation] = {}  # the last evaluation on dev that was made in this process

    def evaluate() -> dict[str, float]:
        last["dev"] = evaluate_extractor(model, batches["dev"], objective)
        return last["dev"].metrics

    state = fit(model, objective, texts, evaluate, selection, p, folder, after_epoch=after_epoch)
    report_phase("evaluation")
    if state.best["epoch"] != len(state.history) or RULES[p.rule].is_random:
        last.clear()  # the weights have changed since, or a run that is continued could not repeat the draws
    evaluations = {
        name: last.get(name) or evaluate_extractor(model, batches[name], objective) for name in ("dev", "test")
    }
    for name, evaluation in evaluations.items():
        evaluation.metrics.update(score_when_shut(model, batches[name]))
    report_phase(REST)
    evaluations["dev"].metrics.update(rate_of_dev)
    for note in selection.notes(state.history, state.best, evaluations["dev"].chosen_error):
        print(f"note: {note}", flush=True)
    splits = {name: part.examples for name, part in batches.items()}
    return Result(model, texts.vocabulary, splits, evaluations, state.history, state.best, state.converged)
