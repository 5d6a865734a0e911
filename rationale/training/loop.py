"""The training loop, which is the same for every task.

`fit` needs a model, an objective (`objective(model, batch) -> LossOutput`), batches and a function that evaluates the
model; it does not depend on texts or gates. `train_extractor` and its counterparts make a whole run, from examples to
metrics.
"""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from rationale.data.batches import Batches
from rationale.errors import BadInput, optional
from rationale.files import remove_drafts
from rationale.progress import Progress
from rationale.settings import Refusal, Settings, setting
from rationale.training.adam import Adam
from rationale.training.checkpoint import CHECKPOINT, Damaged, TrainingState
from rationale.training.model_selection import ModelSelection
from rationale.training.steps import StepSettings, Warmup, batches_per_step, grouped


class OptimiserSettings(Settings):
    """The optimiser and its step size."""

    learning_rate: float = setting(2e-4, "step size of Adam", "(0, inf)")
    schedule: Literal["plateau", "exponential", "multistep"] = setting("plateau", "how the step size falls")
    min_learning_rate: float = setting(1e-5, "step size below which it is not lowered", "[0, inf)")
    weight_decay: float = setting(1e-5, "L2 penalty inside Adam", "[0, inf)")
    clip_norm: float = setting(5.0, "largest gradient norm of a step", "(0, inf)")


class LoopSettings(Settings):
    """The training loop."""

    seed: int = setting(1, "seed of all random choices: order, first weights, samples", "[0, 4294967295]")
    epochs: int = setting(25, "passes over the training data", "[1, inf)")
    device: Literal["auto", "cpu", "cuda"] = setting("auto", "where to compute")
    tensorboard: bool = setting(False, "also write TensorBoard event files")


class StopSettings(Settings):
    """When training stops before all epochs are done."""

    stop_after: int = setting(
        0,
        "training stops when neither the kept epoch nor that with the best score is new for so many epochs; 0 = never",
        "[0, inf)",
    )
    min_epochs: int = setting(1, "epochs before which stop_after does not stop", "[1, inf)")

    def refused(self) -> Iterator[Refusal]:
        unused, accepted = self.min_epochs > 1 and not self.stop_after, "1, or a number of epochs for stop_after"
        yield Refusal(unused, "min_epochs", "with stop_after 0", accepted, meaningless=True)


class FitSettings(OptimiserSettings, LoopSettings, StopSettings):
    """What `fit` uses."""

    def refused(self) -> Iterator[Refusal]:
        yield Refusal(
            self.min_epochs > self.epochs, "min_epochs", f"with epochs {self.epochs}", f"a number up to {self.epochs}"
        )


def choose_device(name: str) -> torch.device:
    """The device with this name; `auto` is cuda if this machine has a usable GPU, else cpu.

    Raises
    ------
    BadInput
        If this machine does not have the device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput(f"device: got {name!r}, but this machine has no usable GPU; accepted are auto, cpu")
    return torch.device(name)


def build_optimizer(model: nn.Module, p: OptimiserSettings) -> torch.optim.Optimizer:
    """Adam with the learning_rate and weight_decay of a run, in its fused form, which changes only the speed.

    Weights inside a module whose attribute `keeps_weights` is True are pretrained: those that are trained form a second
    group, with pretrained_learning_rate.
    """
    kept = {
        parameter
        for part in model.modules()
        if getattr(part, "keeps_weights", False)
        for parameter in part.parameters()
    }
    new = [parameter for parameter in model.parameters() if parameter not in kept]
    groups: list[dict[str, Any]] = [{"params": new}]
    if kept:
        pretrained = [one for one in model.parameters() if one in kept and one.requires_grad]
        groups.append({"params": pretrained, "lr": p.pretrained_learning_rate})  # type: ignore[attr-defined]
    return Adam(groups, lr=p.learning_rate, weight_decay=p.weight_decay, fused=True)


def build_scheduler(optimizer: torch.optim.Optimizer, p: OptimiserSettings) -> torch.optim.lr_scheduler.LRScheduler:
    """A scheduler that lowers the step size of each parameter group from epoch to epoch, never below min_learning_rate.

    plateau      halved after each 6th epoch in a row without a better dev task loss, not counting the 5 epochs that
                 follow a halving (the paper, on SST)
    exponential  times 0.97 after each epoch (the paper, on beer)
    multistep    times 0.97 after epochs 25, 50 and 75, 9 % in all (the authors' code)
    """
    if p.schedule == "plateau":
        return torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=5, cooldown=5, threshold=1e-4, min_lr=p.min_learning_rate
        )

    def falling(start: float) -> Callable[[int], float]:
        lowest = min(1.0, p.min_learning_rate / start)

        def factor(epochs: int) -> float:
            steps = epochs if p.schedule == "exponential" else sum(epochs >= end for end in (25, 50, 75))
            return max(0.97**steps, lowest)

        return factor

    return torch.optim.lr_scheduler.LambdaLR(optimizer, [falling(group["lr"]) for group in optimizer.param_groups])


def fit(
    model: nn.Module,
    objective: nn.Module,
    train: Batches,
    evaluate: Callable[[], dict[str, float]],
    selection: ModelSelection,
    p: FitSettings,
    folder: Path,
    optimizer: torch.optim.Optimizer | None = None,
    part: str = "",
    after_epoch: Callable[[int], None] | None = None,
) -> TrainingState:
    """Train a model, evaluate it after every epoch, and keep the best weights; continue an interrupted run.

    A checkpoint is written atomically to `folder/checkpoint.safetensors` after every epoch. Batches are a
    function of (seed, epoch) and the random state is part of the checkpoint, so a resumed run ends with the
    same numbers as an uninterrupted one (on the same machine, with the same number of threads). If it has more epochs
    now, it goes on as it was planned, see `checkpoint.scheduled_epochs`. A damaged checkpoint is reported, and training
    begins anew. In the end `model` has the weights that `selection` has chosen.

    With `stop_after`, training stops when `selection` has kept the same admissible epoch for so many epochs, and none
    of these has had the best score at any rate; one line says whether it has. Whether to stop follows from the history
    alone, so a resumed run stops at the same epoch.

    Parameters
    ----------
    model, objective : nn.Module
        `objective(model, batch)` returns a `LossOutput`; `fit` switches both between training and evaluation mode.
    evaluate : function
        Returns the dev metrics of the current model, among them "task", the mean task loss.
    selection : ModelSelection
        Chooses the epoch whose weights are kept.
    p : parameters
        Uses epochs, learning_rate, min_learning_rate, schedule, weight_decay, clip_norm, tensorboard, and, if it has
        them: learning_rate_warmup, accumulate, stop_after, min_epochs.
    optimizer : Optimizer or None
        An optimiser with several parameter groups, for example, each with its own learning rate. None: that of
        `build_optimizer`.
    part : str
        What is trained, for reports of progress, if a run trains more than one thing.
    after_epoch : function
        Called with the number of each epoch after the model, in evaluation mode, has been evaluated. It comes before
        the checkpoint, so that a run which is continued has called it for every epoch.

    Raises
    ------
    FloatingPointError
        If the loss is not a finite number. The checkpoint of the previous epoch is kept.
    """
    optimizer = optimizer or build_optimizer(model, p)
    scheduler = build_scheduler(optimizer, p)
    state = TrainingState(model, objective, optimizer, scheduler, parameters=vars(p), scheduled_epochs=p.epochs)
    checkpoint = folder / CHECKPOINT
    remove_drafts(folder, CHECKPOINT)  # of a training here that was killed while it wrote a checkpoint
    if checkpoint.exists():
        try:
            if state.load(checkpoint):
                print(f"resumed after epoch {len(state.history)} of {p.epochs}", flush=True)
            else:
                print("the checkpoint here has other parameters: training starts again", flush=True)
        except Damaged as error:
            print(f"{checkpoint}: damaged ({error}): training starts again", flush=True)
    log = _tensorboard(folder) if p.tensorboard else None
    steps, stop = StepSettings.of(p), StopSettings.of(p)
    accumulate = batches_per_step(steps.accumulate, train.batch_size, len(train), len(train.examples))
    per_epoch = math.ceil(len(train) / accumulate)
    progress = Progress(p.epochs, len(state.history), selection.score.removeprefix("dev_"), part)
    earliest = max(stop.min_epochs, vars(p).get("constraint_from", 1))  # before, a constraint has not acted
    for epoch in range(len(state.history) + 1, p.epochs + 1):
        if epoch > earliest and selection.has_converged(state.history, state.best, stop.stop_after):
            break
        row = {"epoch": epoch}
        for i, group in enumerate(optimizer.param_groups):
            row["learning_rate" if i == 0 else f"learning_rate_{i}"] = group["lr"]
        warmup = Warmup(optimizer, round(steps.learning_rate_warmup * per_epoch), (epoch - 1) * per_epoch)
        row |= _train_epoch(state, train, epoch, p.clip_norm, progress, accumulate, warmup)
        warmup.restore()
        model.eval()
        objective.eval()
        row |= {f"dev_{name}": value for name, value in evaluate().items()}
        for name, value in objective.named_buffers():
            numbers = value.flatten().tolist()
            row |= {name if len(numbers) == 1 else f"{name}_{i}": number for i, number in enumerate(numbers)}
        _check_finite({"dev_task": row["dev_task"]}, epoch)
        if after_epoch is not None:
            after_epoch(epoch)
        scheduler.step(*[row["dev_task"]] * (p.schedule == "plateau"))
        if selection.better(row, state.best):
            state.keep(row)
        state.history.append(row)
        state.save(checkpoint)
        progress.end_epoch(row[selection.score])
        _report(row, selection, p.epochs, log)
    if stop.stop_after:
        if selection.has_converged(state.history, state.best, stop.stop_after):
            state.converged = state.best["epoch"]  # type: ignore[index]
        print(selection.describe_end(state.history, state.best, stop.stop_after), flush=True)  # type: ignore[arg-type]
    model.load_state_dict(state.best_weights)
    model.eval()
    return state


def _train_epoch(
    state: TrainingState,
    train: Batches,
    epoch: int,
    clip_norm: float,
    progress: Progress,
    accumulate: int = 1,
    warmup: Warmup | None = None,
) -> dict[str, float]:
    """Make one pass over the training batches; return the means of the logged parts, and the seconds.

    Each training step has the gradients of `accumulate` batches.
    """
    state.model.train()
    state.objective.train()
    parameters = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
    start, parts = time.perf_counter(), []
    for group in grouped(progress.batches(epoch, train.epoch(epoch), len(train)), accumulate):
        state.optimizer.zero_grad()
        for batch, share in group:
            output = state.objective(state.model, batch)
            (output.loss if share == 1 else output.loss * share).backward()
            parts.append(torch.stack([output.loss.detach(), *output.parts.values()]))
        nn.utils.clip_grad_norm_(parameters, clip_norm)
        if warmup is not None:
            warmup.advance()
        state.optimizer.step()
        progress.report(output.loss.detach(), output.parts)
    names = ("loss", *output.parts)
    means = torch.stack(parts).mean(0).tolist()
    row = {f"train_{name}": value for name, value in zip(names, means, strict=True)}
    _check_finite(row, epoch)
    return row | {"seconds": time.perf_counter() - start}


def _check_finite(row: dict[str, float], epoch: int) -> None:
    if not all(map(math.isfinite, row.values())):
        shown = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
        hint = "; a smaller learning_rate or clip_norm may help"
        if math.isfinite(row.get("train_task", math.nan)) and row.get("train_rate") in (0, 1):
            hint = "; the rate cannot move from there: no gate is ever shut, or none is ever open"
        raise FloatingPointError(f"epoch {epoch}: the loss is not a finite number: {shown}{hint}")


def _report(row: dict, selection: ModelSelection, epochs: int, log) -> None:
    shown = [f"epoch {row['epoch']:3d}/{epochs}", f"{selection.score[4:]} {row[selection.score]:.4f}"]
    for name in ("rate_expected", "rate_selected"):
        rate = row.get(f"dev_{name}")
        if rate is not None and (rate < 1 or selection.target is not None):  # a model without gates reads every word
            shown.append(f"{name} {rate:.3f}")
    print("  ".join(shown), f" {row['seconds']:.1f} s", flush=True)
    if log is not None:
        for name, value in row.items():
            log.add_scalar(name, value, row["epoch"])
        log.flush()


def _tensorboard(folder: Path):
    optional("tensorboard", "tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder / "tensorboard")
