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
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])


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
