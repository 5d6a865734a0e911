"""Training: one loop for every task.

`fit` needs a model, an objective (`objective(model, batch) -> LossOutput`), batches and a function that evaluates;
it knows nothing of texts or gates. `train_extractor` is the whole arc of one run, from examples to metrics.
"""

import math
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from rationale.data.batches import Batch, Batches
from rationale.errors import BadInput, optional
from rationale.settings import Settings, setting
from rationale.training.checkpoint import TrainingState
from rationale.training.model_selection import ModelSelection

if TYPE_CHECKING:
    from rationale.training.settings.common import CommonSettings


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


def build_optimizer(model: nn.Module, p: OptimiserSettings) -> torch.optim.Optimizer:
    """Adam with the learning_rate and weight_decay of a run; fused, which only changes its speed."""
    return torch.optim.Adam(model.parameters(), lr=p.learning_rate, weight_decay=p.weight_decay, fused=True)


def build_scheduler(optimizer: torch.optim.Optimizer, p: OptimiserSettings) -> torch.optim.lr_scheduler.LRScheduler:
    """How the step size of each parameter group falls from epoch to epoch, never below min_learning_rate.

    plateau      halved after 5 epochs without a better dev task loss, then at rest for 5 (the paper's, SST)
    exponential  times 0.97 after each epoch (the paper's, beer)
    multistep    times 0.97 after epochs 25, 50 and 75: 9 % in all, as in the authors' code
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
    choice: ModelSelection,
    p: "CommonSettings",
    folder: Path,
    optimizer: torch.optim.Optimizer | None = None,
) -> TrainingState:
    """Train, evaluate after every epoch, keep the chosen weights; continue where a killed run stopped.

    A checkpoint is written atomically to `folder/checkpoint.safetensors` after every epoch. Batches are a
    function of (seed, epoch) and the random state is part of the checkpoint, so a resumed run ends with the
    same numbers as an unbroken one (same machine, same number of threads). `model` ends with the chosen weights.

    Parameters
    ----------
    model, objective : nn.Module
        `objective(model, batch)` returns a `LossOutput`; both are switched between training and evaluation mode.
    evaluate : function
        Returns the dev metrics of the model as it stands, "task" (mean task loss) among them.
    choice : ModelSelection
    p : parameters
        Uses epochs, learning_rate, min_learning_rate, schedule, weight_decay, clip_norm, tensorboard.
    optimizer : Optimizer or None
        For example with several parameter groups, each with its learning rate. None: `build_optimizer`.

    Raises
    ------
    FloatingPointError
        If the loss is not a finite number; the checkpoint of the epoch before stays.
    """
    optimizer = optimizer or build_optimizer(model, p)
    scheduler = build_scheduler(optimizer, p)
    state = TrainingState(model, objective, optimizer, scheduler, parameters=vars(p))
    checkpoint = folder / "checkpoint.safetensors"
    if checkpoint.exists():
        if state.load(checkpoint):
            print(f"resumed after epoch {len(state.history)} of {p.epochs}", flush=True)
        else:
            print("the checkpoint found here has other parameters: beginning anew", flush=True)
    log = _tensorboard(folder) if p.tensorboard else None
    for epoch in range(len(state.history) + 1, p.epochs + 1):
        row = {"epoch": epoch}
        for i, group in enumerate(optimizer.param_groups):
            row["learning_rate" if i == 0 else f"learning_rate_{i}"] = group["lr"]
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
            state.keep(row)
        state.history.append(row)
        state.save(checkpoint)
        _report(row, choice, p.epochs, log)
    model.load_state_dict(state.best_weights)
    model.eval()
    return state


def _train_epoch(state: TrainingState, train: Batches, epoch: int, clip_norm: float) -> dict[str, float]:
    """One pass over the training batches: means of the logged parts, and seconds."""
    state.model.train()
    state.objective.train()
    parameters = [parameter for parameter in state.model.parameters() if parameter.requires_grad]
    start, parts = time.perf_counter(), []
    for batch in _with_bar(train.epoch(epoch), f"epoch {epoch}", len(train)):
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


def _with_bar(batches: Iterable[Batch], title: str, total: int) -> Iterable[Batch]:
    """The batches, with a progress bar on a terminal if tqdm, of the extra `notebooks`, is installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return batches
    quiet = True if "RATIONALE_RUN_DIR" in os.environ else None  # None: silent unless on a terminal
    return tqdm(batches, title, total, leave=False, disable=quiet)


def _check_finite(row: dict[str, float], epoch: int) -> None:
    if not all(map(math.isfinite, row.values())):
        shown = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
        raise FloatingPointError(f"epoch {epoch}: the loss is not a finite number: {shown}")


def _report(row: dict, choice: ModelSelection, epochs: int, log) -> None:
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
    optional("tensorboard", "tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder / "tensorboard")
