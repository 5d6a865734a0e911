"""Everything that a stopped training run needs to continue, and tensors in files."""

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
    """Tensors and JSON-able facts in one safetensors file, atomically."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_atomically(path, lambda draft: save_file(tensors, draft, {"facts": json.dumps(facts)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """The inverse of `write_tensors`."""
    with safe_open(path, "pt") as file:
        names = file.keys()  # `file` is not a dict: it cannot be iterated
        return {name: file.get_tensor(name) for name in names}, json.loads(file.metadata()["facts"])


def all_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What `state_dict` holds and what it leaves out: fixed buffers (`persistent=False`), such as the word vectors."""
    return dict(model.named_buffers()) | model.state_dict()


def load_trained(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put tensors into `model`; those of fixed buffers, which it already has, may be among them.

    Raises
    ------
    RuntimeError
        If a tensor is missing, unknown or of another shape.
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
    best: dict | None = None  # history row of the kept evaluation
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)  # of the run; a checkpoint with others is not continued

    def keep(self, row: dict) -> None:
        """The weights as they stand are the best so far; `row` is their evaluation."""
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
        """Continue from a checkpoint; False, and nothing done, if it was written with other parameters.

        Only the number of epochs may have grown since, and the device changed.
        """
        tensors, facts = read_tensors(path)
        free = {"epochs", "device", "tensorboard"}
        there, here = ({k: v for k, v in p.items() if k not in free} for p in (facts["parameters"], self.parameters))
        rates = facts.get("learning_rates") or [facts["learning_rate"]]  # older checkpoints: of the only group
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
