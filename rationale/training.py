"""Training: one loop for every task.

`fit` needs a model, an objective (`objective(model, batch) -> Step`), batches and a function that evaluates;
it knows nothing of texts or gates. `train_extractor` is the whole arc of one run, from examples to metrics.
"""

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rationale import metrics
from rationale.aligner import build_aligner
from rationale.data import Batches, Example, PairBatches, Vocabulary, build_pair_vocabulary, build_vocabulary
from rationale.data.sentences import END, Targets, build_text_vocabularies
from rationale.errors import BadInput
from rationale.extractor import Extractor, build_extractor
from rationale.files import write_atomically
from rationale.objectives import RationaleObjective, build_objective, expected_selection
from rationale.seq2seq import Said, Seq2Seq, WordLoss, beam_search, build_seq2seq

# ---------------------------------------------------------------------------------------------- devices, files


def choose_device(name: str) -> torch.device:
    """`auto` is cuda where there is one, else cpu.

    Raises
    ------
    BadInput
        If a device is asked for that this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput(f"device: got {name!r}, but this machine has no usable GPU; accepted are auto, cpu")
    return torch.device(name)


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict) -> None:
    """Tensors and JSON-able facts in one safetensors file, atomically."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path, lambda draft: save_file(tensors, draft, {"facts": json.dumps(facts)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """The inverse of `write_tensors`."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])


# ------------------------------------------------------------------------------------------------- model choice


AUTHORS_PATIENCE = 3  # epochs, on SST


@dataclass(frozen=True)
class Choice:
    """Which evaluation of a run is kept.

        within_tolerance   after `patience` epochs, the best task score among evaluations whose rate lies within
                           `tolerance` of `target`; while there is none, the one whose rate is nearest
        authors            the lowest dev loss by more than a relative 1e-4, after `patience` epochs; Lagrangian terms
                           count with their current multipliers (such losses do not compare between epochs)

    Parameters
    ----------
    kind : "within_tolerance" or "authors"
    score, rate : str
        Columns of the history that hold the task score and the rate.
    higher_is_better : bool
    target : float or None
        None for a model without a target (full text, prices).
    patience : int
        Epochs that are kept only as long as there is nothing later (while prices rise, for example).
    """

    kind: str
    score: str
    higher_is_better: bool
    rate: str = ""
    target: float | None = None
    tolerance: float = 0.015
    patience: int = 0

    def better(self, new: dict, best: dict | None) -> bool:
        """Whether the evaluation `new` replaces `best` (history rows; None before the first)."""
        if self.kind == "authors":
            if new["epoch"] <= self.patience:
                return best is None
            if best is None or best["epoch"] <= self.patience:
                return True
            return new["dev_loss"] < best["dev_loss"] - 1e-4 * abs(best["dev_loss"])
        return best is None or self._order(new) < self._order(best)

    def _order(self, row: dict) -> tuple[bool, float, float]:
        early = row["epoch"] <= self.patience
        outside = 0.0 if self.target is None else max(0.0, abs(row[self.rate] - self.target) - self.tolerance)
        return early, outside, -row[self.score] if self.higher_is_better else row[self.score]


# ------------------------------------------------------------------------------------------------------- the loop


@dataclass
class Training:
    """Everything that changes while a model is trained: what a checkpoint holds."""

    model: nn.Module
    objective: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    history: list[dict] = field(default_factory=list)
    best: dict | None = None  # history row of the kept evaluation
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)  # of the run; a checkpoint with others is not continued

    def weights(self) -> dict[str, Tensor]:
        """Trained tensors only: the fixed word vectors are left out."""
        return {name: value for name, value in self.model.state_dict().items() if name != "vectors"}

    def save(self, path: Path) -> None:
        tensors = {f"model.{name}": value for name, value in self.weights().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        tensors |= {f"objective.{name}": value for name, value in self.objective.state_dict().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in state.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        facts = {"history": self.history, "best": self.best, "scheduler": self.scheduler.state_dict()}
        facts["parameters"] = self.parameters
        facts["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        write_tensors(path, tensors, facts)

    def load(self, path: Path) -> bool:
        """Continue from a checkpoint; False, and nothing done, if it was written with other parameters.

        Only the number of epochs may have grown since, and the device changed.
        """
        tensors, facts = read_tensors(path)
        free = {"epochs", "device", "tensorboard"}
        there, here = ({k: v for k, v in p.items() if k not in free} for p in (facts["parameters"], self.parameters))
        if there != here or len(facts["history"]) > self.parameters.get("epochs", math.inf):
            return False

        def part(name: str) -> dict[str, Tensor]:
            return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(name + ".")}

        self._load_weights(part("model"))
        self.objective.load_state_dict(part("objective"))
        state = self.optimizer.state_dict()
        for key, value in part("optimizer").items():
            i, name = key.split(".")
            state["state"].setdefault(int(i), {})[name] = value
        state["param_groups"][0]["lr"] = facts["learning_rate"]
        self.optimizer.load_state_dict(state)
        self.scheduler.load_state_dict(facts["scheduler"])
        torch.set_rng_state(tensors["random.cpu"])
        if torch.cuda.is_available() and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"])
        self.history, self.best, self.best_weights = facts["history"], facts["best"], part("best")
        return True

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        unlike = self.model.load_state_dict(weights, strict=False)
        assert unlike.missing_keys in ([], ["vectors"]) and not unlike.unexpected_keys, unlike


def build_optimizer(model: nn.Module, p: SimpleNamespace) -> torch.optim.Optimizer:
    """Adam with the learning_rate and weight_decay of a run; fused, which only changes its speed."""
    return torch.optim.Adam(model.parameters(), lr=p.learning_rate, weight_decay=p.weight_decay, fused=True)


def build_scheduler(optimizer: torch.optim.Optimizer, p: SimpleNamespace) -> torch.optim.lr_scheduler.LRScheduler:
    """How the step size falls from epoch to epoch, never below min_learning_rate.

    plateau      halved after 5 epochs without a better dev task loss, then at rest for 5 (the paper's, SST)
    exponential  times 0.97 after each epoch (the paper's, beer)
    multistep    times 0.97 after epochs 25, 50 and 75: 9 % in all, as in the authors' code
    """
    if p.schedule == "plateau":
        return torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=5, cooldown=5, threshold=1e-4, min_lr=p.min_learning_rate
        )
    lowest = min(1.0, p.min_learning_rate / p.learning_rate)

    def factor(epochs: int) -> float:
        steps = epochs if p.schedule == "exponential" else sum(epochs >= end for end in (25, 50, 75))
        return max(0.97**steps, lowest)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def fit(
    model: nn.Module,
    objective: nn.Module,
    train: Batches,
    evaluate: Callable[[], dict[str, float]],
    choice: Choice,
    p: SimpleNamespace,
    folder: Path,
) -> Training:
    """Train, evaluate after every epoch, keep the chosen weights; continue where a killed run stopped.

    A checkpoint is written atomically to `folder/checkpoint.safetensors` after every epoch. Batches are a
    function of (seed, epoch) and the random state is part of the checkpoint, so a resumed run ends with the
    same numbers as an unbroken one (same machine, same number of threads). `model` ends with the chosen weights.

    Parameters
    ----------
    model, objective : nn.Module
        `objective(model, batch)` returns a `Step`; both are switched between training and evaluation mode.
    evaluate : function
        Returns the dev metrics of the model as it stands, "task" (mean task loss) among them.
    choice : Choice
    p : parameters
        Uses epochs, learning_rate, min_learning_rate, schedule, weight_decay, clip_norm, tensorboard.

    Raises
    ------
    FloatingPointError
        If the loss is not a finite number; the checkpoint of the epoch before stays.
    """
    optimizer = build_optimizer(model, p)
    scheduler = build_scheduler(optimizer, p)
    state = Training(model, objective, optimizer, scheduler, parameters=vars(p))
    checkpoint = folder / "checkpoint.safetensors"
    if checkpoint.exists():
        if state.load(checkpoint):
            print(f"resumed after epoch {len(state.history)} of {p.epochs}", flush=True)
        else:
            print("the checkpoint found here has other parameters: beginning anew", flush=True)
    log = _tensorboard(folder) if p.tensorboard else None
    for epoch in range(len(state.history) + 1, p.epochs + 1):
        row = {"epoch": epoch, "learning_rate": optimizer.param_groups[0]["lr"]}
        row |= _train_epoch(state, train, epoch, p.clip_norm)
        model.eval()
        objective.eval()
        row |= {f"dev_{name}": value for name, value in evaluate().items()}
        for name, value in objective.named_buffers():
            numbers = value.flatten().tolist()
            row |= {name if len(numbers) == 1 else f"{name}_{i}": number for i, number in enumerate(numbers)}
        _check_finite({"dev_task": row["dev_task"]}, epoch)
        scheduler.step(*[row["dev_task"]] * (p.schedule == "plateau"))
        if choice.better(row, state.best):
            state.best = row
            state.best_weights = {name: value.clone() for name, value in state.weights().items()}
        state.history.append(row)
        state.save(checkpoint)
        _report(row, choice, p.epochs, log)
    state._load_weights(state.best_weights)
    model.eval()
    return state


def _train_epoch(state: Training, train: Batches, epoch: int, clip_norm: float) -> dict[str, float]:
    """One pass over the training batches: means of the logged parts, and seconds."""
    from tqdm.auto import tqdm

    state.model.train()
    state.objective.train()
    parameters = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
    start, parts = time.perf_counter(), []
    quiet = True if "RATIONALE_RUN_DIR" in os.environ else None  # None: silent unless on a terminal
    for batch in tqdm(train.epoch(epoch), f"epoch {epoch}", len(train), leave=False, disable=quiet):
        step = state.objective(state.model, batch)
        state.optimizer.zero_grad()
        step.loss.backward()
        nn.utils.clip_grad_norm_(parameters, clip_norm)
        state.optimizer.step()
        parts.append(torch.stack([step.loss.detach(), *step.parts.values()]))
    names = ("loss", *step.parts)
    means = torch.stack(parts).mean(0).tolist()
    row = {f"train_{name}": value for name, value in zip(names, means, strict=True)}
    _check_finite(row, epoch)
    return row | {"seconds": time.perf_counter() - start}


def _check_finite(row: dict[str, float], epoch: int) -> None:
    if not all(map(math.isfinite, row.values())):
        shown = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
        raise FloatingPointError(f"epoch {epoch}: the loss is not a finite number: {shown}")


def _report(row: dict, choice: Choice, epochs: int, log) -> None:
    shown = [f"epoch {row['epoch']:3d}/{epochs}", f"{choice.score[4:]} {row[choice.score]:.4f}"]
    for name in ("rate_expected", "rate_selected"):
        if row.get(f"dev_{name}", 1) < 1:  # a model that reads everything has nothing to report
            shown.append(f"{name} {row['dev_' + name]:.3f}")
    print("  ".join(shown), f" {row['seconds']:.1f} s", flush=True)
    if log is not None:
        for name, value in row.items():
            log.add_scalar(name, value, row["epoch"])
        log.flush()


def _tensorboard(folder: Path):
    from torch.utils.tensorboard import SummaryWriter  # the extra `tensorboard`

    return SummaryWriter(folder / "tensorboard")


# ------------------------------------------------------------------------------------------------------ evaluation


@dataclass
class Evaluation:
    """Metrics of one split and what they were computed from, in the order of its examples."""

    metrics: dict[str, float]
    prediction: Tensor  # [N, C]
    z: list[Tensor]  # [T_i] gate values at test time
    answer: Tensor  # [N] classes or [N, C] scores, for people and files


@torch.no_grad()
def evaluate_extractor(model: Extractor, batches: Batches, objective: RationaleObjective) -> Evaluation:
    """Task score, rates and (where there is gold) precision of a split. Changes nothing: no dual moves.

    Returns
    -------
    Evaluation
        `metrics` holds the head's score (accuracy, mse), task (mean task loss), loss (with the constraint
        terms), rate_expected (mean over texts of the expected share), rate_selected (share of words with
        z != 0), and precision, recall, f1 ... where examples carry a gold rationale.
    """
    model.eval()
    objective.eval()
    rows, flat, order, losses = [], [], [], []
    for batch in batches.in_order(max_batch=256):
        output = model(batch.tokens, batch.mask)
        score = model.head.score(output.prediction, batch.target)
        task = model.head.loss(output.prediction, batch.target)
        chosen = (output.z != 0).to(task.dtype) if output.gates is None else output.gates.log_prob_nonzero.exp()
        rate = expected_selection(chosen, batch.mask)
        rows.append(torch.stack([score, task, rate], 1))
        losses.append(objective.loss(output, batch, model.head).loss * len(task))
        flat.append((output.z[batch.mask], batch.mask.sum(1), output.prediction))
        order.append(batch.index)
    place = torch.cat(order).argsort()
    score, task, rate = torch.cat(rows).double().mean(0).tolist()
    lengths = torch.cat([length for _, length, _ in flat])
    values = torch.cat([value for value, _, _ in flat])
    pieces = values.cpu().split(lengths.tolist())
    z = [pieces[i] for i in place.tolist()]
    figures = {model.head.metric: score, "task": task, "loss": (sum(losses) / len(place)).item()}
    figures |= {"rate_expected": rate} | rationale_figures(z, batches.examples)
    prediction = torch.cat([prediction for _, _, prediction in flat])[place].cpu()
    return Evaluation(figures, prediction, z, model.head.answer(prediction))


@torch.no_grad()
def importance_quantile(model: Extractor, batches: Batches, share: float) -> float:
    """The value that this share of all words reach or exceed in `Extractor.importance`."""
    found = [model.importance(b.tokens, b.mask)[b.mask] for b in batches.in_order(max_batch=256)]
    values = torch.cat(found).sort(descending=True).values
    return values[max(1, round(share * len(values))) - 1].item()


def rationale_figures(z: Sequence[Tensor], examples: Sequence[Example]) -> dict[str, float]:
    """rate_selected over all words; where there are gold rationales precision, recall, f1 ... of these gates.

    And blind_*, the precision of selections which never looked at the text (`metrics.blind_precision`), of the size of
    these in the texts that have gold.
    """
    rate = (torch.cat(list(z)) != 0).double().mean().item()
    pairs = [(g != 0, torch.tensor(e.rationale)) for g, e in zip(z, examples, strict=True) if e.rationale is not None]
    if not pairs:
        return {"rate_selected": rate}
    chosen, gold = zip(*pairs, strict=True)
    judged = [z for z, g in zip(chosen, gold, strict=True) if g.any()]  # precision counts these alone
    share = torch.cat(judged).double().mean().item() if judged else 0.0
    blind = metrics.blind_precision(gold, max(share, 1e-9))
    figures = {"rate_selected": rate} | metrics.rationale_scores(chosen, gold)
    return figures | {f"blind_{name}": value for name, value in blind.items()}


# ------------------------------------------------------------------------------------------------------ the whole arc


@dataclass
class Result:
    """A finished run in memory."""

    model: Extractor | None  # None and None: a baseline that is no network
    vocabulary: Vocabulary | None
    splits: dict[str, list[Example]]
    evaluations: dict[str, Evaluation]  # by split: dev, test
    history: list[dict]
    best: dict  # the row of the history that was kept


def train_extractor(
    p: SimpleNamespace, splits: dict[str, list[Example]], head: str, num_outputs: int, folder: Path
) -> Result:
    """From examples to a trained and evaluated extractor; the test split is read once, at the end.

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
        Where checkpoints go; an unfinished run found there is continued.
    """
    device = choose_device(p.device)
    torch.manual_seed(p.seed)
    vocabulary, vectors = build_vocabulary(splits, p.vectors, p.vectors_scale, p.embedding_size, p.seed)
    model = build_extractor(p, vectors, head, num_outputs).to(device)
    batches = {
        name: Batches(examples, vocabulary, p.batch_size, p.seed, p.bucketed, device)
        for name, examples in splits.items()
    }
    result = train(p, model, batches, folder)
    if p.model == "attention" and p.rule == "top_k":  # the same budget, but over all reviews instead of in each
        model.rule, model.threshold = "threshold", importance_quantile(model, batches["dev"], p.budget)
        objective = build_objective(p).to(device)
        for name, evaluation in result.evaluations.items():
            found = evaluate_extractor(model, batches[name], objective).metrics
            evaluation.metrics.update({f"global_{metric}": value for metric, value in found.items()})
        model.rule = p.rule
    return result


def train_aligner(p: SimpleNamespace, splits: dict[str, list[Example]], num_outputs: int, folder: Path) -> Result:
    """From pairs of sentences to a trained and evaluated aligner; arguments as for `train_extractor`."""
    device = choose_device(p.device)
    torch.manual_seed(p.seed)
    vocabulary, vectors = build_pair_vocabulary(splits, p.vectors, p.embedding_size, p.seed)
    model = build_aligner(p, vectors, "classes", num_outputs).to(device)
    batches = {
        name: PairBatches(examples, vocabulary, p.batch_size, p.seed, p.bucketed, device)
        for name, examples in splits.items()
    }
    return train(p, model, batches, folder)


@dataclass
class Texts:
    """A finished run of an encoder-decoder in memory."""

    model: Seq2Seq
    vocabularies: tuple[Vocabulary, Vocabulary]
    said: dict[str, list[Said]]  # by split: dev, test
    metrics: dict[str, dict[str, float]]  # by split; of dev also task, the mean loss in nats a word
    history: list[dict]
    best: dict

    def text(self, said: Said) -> str:
        """What was said, in words."""
        return " ".join(self.vocabularies[1].words[word] for word in said.words)


def train_seq2seq(p: SimpleNamespace, targets: Targets, score: Callable, folder: Path) -> Texts:
    """From sources with targets to a trained encoder-decoder and what it says to dev and test.

    Parameters
    ----------
    p : parameters
    targets : data.sentences.Targets
    score : function
        From what was said (texts) and the references of each to metrics.
    folder : Path
    """
    device = choose_device(p.device)
    torch.manual_seed(p.seed)
    source, target = build_text_vocabularies(targets.splits["train"], p.min_count)
    model = build_seq2seq(p, len(source), len(target), target.encode([END])[0]).to(device)
    batches = {
        name: PairBatches(part, source, p.batch_size, p.seed, p.bucketed, device, second=target)
        for name, part in targets.splits.items()
    }
    objective = WordLoss().to(device)

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        total, words = 0.0, 0
        for batch in batches["dev"].in_order():
            number = batch.tokens.hypothesis_mask.sum()
            total, words = total + objective(model, batch).loss * number, words + number
        task = (total / words).item()
        return {"task": task, "loss": task}

    choice = Choice(p.model_choice, score="dev_task", higher_is_better=False)
    state = fit(model, objective, batches["train"], evaluate, choice, p, folder)
    result = Texts(model, (source, target), {}, {}, state.history, state.best)
    for name in ("dev", "test"):
        found: list[Said | None] = [None] * len(targets.splits[name])
        for batch in batches[name].in_order():
            sides = batch.tokens
            some = beam_search(model, sides.premise, sides.premise_mask, p.beam, p.longest)
            lengths = sides.premise_mask.sum(1).tolist()
            for row, said, length in zip(batch.index.tolist(), some, lengths, strict=True):
                found[row] = said._replace(weights=said.weights[:, :length].cpu())
        result.said[name] = found
        result.metrics[name] = score([result.text(said) for said in found], targets.references[name])
    result.metrics["dev"]["task"] = state.best["dev_task"]
    return result


def train(p: SimpleNamespace, model: nn.Module, batches: dict[str, Batches], folder: Path) -> Result:
    """Train a model, whatever the task, keep the chosen epoch, evaluate dev and test.

    Parameters
    ----------
    p : parameters
    model : nn.Module
        With a `head` and a `selector` (None: it has no gates); `model(tokens, mask, num_samples) -> Output`.
    batches : "train", "dev" and "test" batches
    folder : Path
    """
    objective = build_objective(p, steps_per_epoch=len(batches["train"])).to(batches["train"].device)
    choice = Choice(
        p.model_choice,
        score=f"dev_{model.head.metric}",
        higher_is_better=model.head.higher_is_better,
        rate="dev_rate_selected" if p.measure == "selected" else "dev_rate_expected",
        target=p.selection if objective.selection is not None else None,
        tolerance=p.tolerance,
        patience=max(p.patience, AUTHORS_PATIENCE if p.model_choice == "authors" else math.ceil(p.warmup)),
    )
    state = fit(
        model,
        objective,
        batches["train"],
        lambda: evaluate_extractor(model, batches["dev"], objective).metrics,
        choice,
        p,
        folder,
    )
    evaluations = {name: evaluate_extractor(model, batches[name], objective) for name in ("dev", "test")}
    splits = {name: part.examples for name, part in batches.items()}
    return Result(model, batches["train"].vocabulary, splits, evaluations, state.history, state.best)
