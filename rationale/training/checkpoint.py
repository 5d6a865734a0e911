"""Checkpoints, which hold everything that an interrupted training run needs to continue, and tensors in files."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rationale.files import write_atomically


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict) -> None:
    """Write tensors, and facts that JSON can hold, to one safetensors file, atomically."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path, lambda draft: save_file(tensors, draft, {"facts": json.dumps(facts)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """The inverse of `write_tensors`."""
    with safe_open(path, "pt") as file:
        names = file.keys()  # `file` is not a dict: it cannot be iterated
        return {name: file.get_tensor(name) for name in names}, json.loads(file.metadata()["facts"])


def all_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of `state_dict` and the fixed buffers that it leaves out (`persistent=False`), e.g. word vectors."""
    return dict(model.named_buffers()) | model.state_dict()


def load_trained(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy tensors into `model`. Fixed buffers may be among the tensors and are ignored, because `model` has them.

    Raises
    ------
    RuntimeError
        If a tensor is missing or unknown, or has another shape.
    """
    fixed = dict(model.named_buffers()).keys() - model.state_dict().keys()
    model.load_state_dict({name: value for name, value in tensors.items() if name not in fixed})


@dataclass
class TrainingState:
    """Everything that changes while a model is trained: what a checkpoint holds."""

    model: nn.Module
    objective: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    history: list[dict] = field(default_factory=list)
    best: dict | None = None  # row of the history of the evaluation that is kept
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)  # of the run; a checkpoint of other parameters is not continued

    def keep(self, row: dict) -> None:
        """Keep the current weights as the best so far; `row` is their row of the history."""
        self.best = row
        self.best_weights = {name: value.clone() for name, value in self.model.state_dict().items()}

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        tensors |= {f"objective.{name}": value for name, value in self.objective.state_dict().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in state.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        facts = {"history": self.history, "best": self.best, "scheduler": self.scheduler.state_dict()}
        facts["parameters"] = self.parameters
        facts["learning_rates"] = [group["lr"] for group in self.optimizer.param_groups]
        write_tensors(path, tensors, facts)

    def load(self, path: Path) -> bool:
        """Load a checkpoint to continue from it.

        The number of epochs may have grown since it was written, and `device` and `tensorboard` may have changed.

        Returns
        -------
        bool
            False if the checkpoint was written with other parameters; then nothing has been loaded.
        """
        tensors, facts = read_tensors(path)
        free = {"epochs", "device", "tensorboard"}
        there, here = ({k: v for k, v in p.items() if k not in free} for p in (facts["parameters"], self.parameters))
        rates = facts.get("learning_rates") or [facts["learning_rate"]]  # older checkpoints have one group
        state = self.optimizer.state_dict()
        groups = state["param_groups"]
        if (
            there != here
            or len(rates) != len(groups)
            or len(facts["history"]) > self.parameters.get("epochs", math.inf)
        ):
            return False

        def part(name: str) -> dict[str, Tensor]:
            return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(name + ".")}

        self.model.load_state_dict(part("model"))
        self.objective.load_state_dict(part("objective"))
        for key, value in part("optimizer").items():
            i, name = key.split(".")
            state["state"].setdefault(int(i), {})[name] = value
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        self.optimizer.load_state_dict(state)
        self.scheduler.load_state_dict(facts["scheduler"])
        torch.set_rng_state(tensors["random.cpu"])
        if torch.cuda.is_available() and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"])
        self.history, self.best, self.best_weights = facts["history"], facts["best"], part("best")
        return True
