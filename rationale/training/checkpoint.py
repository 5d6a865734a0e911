"""Checkpoints, which hold everything that an interrupted training run needs to continue, and tensors in files."""

import hashlib
import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rationale.digests import read_so_far
from rationale.errors import BadInput, cut
from rationale.files import write_atomically

CHECKPOINT = "checkpoint.safetensors"  # in the folder of a run that has not finished
# Settings of a run that is continued; epochs may grow, but what was planned for them stays, see `scheduled_epochs`
MAY_CHANGE = {"epochs", "device", "tensorboard"}


def settled(parameters: dict) -> dict:
    """The parameters that have to stay the same if a training is continued."""
    return {name: value for name, value in parameters.items() if name not in MAY_CHANGE}


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict) -> None:
    """Write tensors, and facts that JSON can hold, to one safetensors file, atomically.

    Parts that share a module share tensors. Each of these is written once, and the metadata `same` says under which
    other names it is known.
    """
    first: dict[tuple, str] = {}
    same, written = {}, {}
    for name, value in tensors.items():
        known = first.setdefault((value.device, value.data_ptr(), value.dtype, value.shape, value.stride()), name)
        if known != name and value.numel():
            same[name] = known
        else:
            written[name] = value.detach().cpu().contiguous()
    pointers: set[int] = set()
    for name, value in written.items():  # views of one tensor, which the format refuses
        pointer = value.untyped_storage().data_ptr()
        written[name] = value.clone() if pointer in pointers else value
        pointers.add(pointer)
    metadata = {"facts": json.dumps(facts)} | ({"same": json.dumps(same)} if same else {})
    write_atomically(path, lambda draft: save_file(written, draft, metadata))


class NoFacts(ValueError):
    """A file of tensors that `write_tensors` has not written."""


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict]:
    """The inverse of `write_tensors`.

    Raises
    ------
    NoFacts
        Another program has written the file.
    """
    with safe_open(path, "pt") as file:
        names = file.keys()  # `file` is not a dict: it cannot be iterated
        tensors, metadata = {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    if "facts" not in metadata:
        raise NoFacts(f"{path}: no facts beside the tensors")
    tensors |= {name: tensors[known] for name, known in json.loads(metadata.get("same", "{}")).items()}
    return tensors, json.loads(metadata["facts"])


class Damaged(ValueError):
    """A checkpoint that is not as it was written; the message is the reason."""


def content_digest(tensors: dict[str, Tensor], facts: dict) -> str:
    """The SHA-256 digest of names, types, shapes and values of tensors, and of facts that JSON can hold."""
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


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


def another_file(there: dict[str, str], here: dict[str, str]) -> str:
    """The place of a file that had another content or was another file; "" if there is none.

    A process may have read more files than training needs, so files that only one side has read count only if both
    sides have such files: then one was replaced by another.
    """
    for place in there.keys() & here.keys():
        if there[place] != here[place]:
            return place
    only_there, only_here = (sorted(a.keys() - b.keys()) for a, b in ((there, here), (here, there)))
    return only_there[0] if only_there and only_here else ""


def _intact(path: Path) -> tuple[dict[str, Tensor], dict]:
    """The tensors and facts of a checkpoint, compared with the digest in it; older checkpoints have none."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise BadInput(
            f"{path}: cannot be read ({error.strerror}); make it readable, or start again (--again)"
        ) from None
    try:
        tensors, facts = read_tensors(path)
        found = facts.pop("digest", None)
    except (SafetensorError, LookupError, AttributeError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise Damaged(cut(" ".join(str(error).split())) or type(error).__name__) from None
    if found and found != content_digest(tensors, facts):
        raise Damaged("its content has another digest")
    missing = {"history", "best", "scheduler", "parameters"} - facts.keys()
    if missing:
        raise Damaged(f"it has no {', '.join(sorted(missing))}")
    return tensors, facts


def facts_of_checkpoint(path: Path) -> dict | None:
    """What a checkpoint was written with: parameters, history and the digests of the files that were read.

    None if there is no checkpoint, or it is damaged.
    """
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads(file.metadata()["facts"])
        return {name: facts[name] for name in ("parameters", "history")} | {"files": facts.get("files", {})}
    except (SafetensorError, LookupError, AttributeError, TypeError, ValueError, OSError, RuntimeError):
        return None


def scheduled_epochs(path: Path, parameters: dict) -> int:
    """The number of epochs over which a schedule is spread, such as that of a target which moves.

    A training that is continued with more epochs keeps the number that it began with: its target does not move back.
    Continued with fewer, it has the new number, so that its target arrives in time. A training that begins, because
    there is no checkpoint of these parameters, has their number of epochs.

    Parameters
    ----------
    path : Path
        The checkpoint, which may be missing or damaged.
    parameters : dict
        Of the run.

    Raises
    ------
    BadInput
        The checkpoint cannot be read.
    """
    if path.exists():
        with suppress(Damaged):
            _, facts = _intact(path)
            if _fits(facts, parameters):
                return min(_scheduled(facts), parameters["epochs"])
    return parameters["epochs"]


def _scheduled(facts: dict) -> int:
    """The number of epochs over which the schedules of a checkpoint are spread; an older one does not record it."""
    return facts.get("scheduled_epochs") or facts["parameters"]["epochs"]


def _fits(facts: dict, parameters: dict) -> bool:
    """Whether a run of these parameters can continue from a checkpoint with these facts."""
    alike = settled(facts["parameters"]) == settled(parameters)
    return alike and len(facts["history"]) <= parameters.get("epochs", math.inf)


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in tensors.items()}


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
    files: dict[str, str] = field(default_factory=read_so_far)  # that training depends on, see `reading`
    scheduled_epochs: int | None = None  # over which schedules are spread; None: there are none
    converged: int | None = None  # the epoch at which dev said enough, if the run was to look for it (not saved)

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
        device = self._gpu()
        if device is not None:
            tensors["random.cuda"] = torch.cuda.get_rng_state(device)
        facts = {"history": self.history, "best": self.best, "scheduler": self.scheduler.state_dict()}
        facts |= {"parameters": self.parameters, "files": self.files, "scheduled_epochs": self.scheduled_epochs}
        facts["learning_rates"] = [group["lr"] for group in self.optimizer.param_groups]
        write_tensors(path, tensors, facts | {"digest": content_digest(tensors, facts)})

    def _gpu(self) -> torch.device | None:
        """The GPU on which the model is trained; None for a CPU, so that a run there does not use the GPU's memory."""
        return next((value.device for value in self.model.state_dict().values() if value.is_cuda), None)

    def load(self, path: Path) -> bool:
        """Load a checkpoint to continue from it.

        The number of epochs may have grown since it was written, and `device` and `tensorboard` may have changed.

        Returns
        -------
        bool
            False if the checkpoint was written with other parameters or for another model; then nothing has been
            loaded.

        Raises
        ------
        Damaged
            The checkpoint is not as it was written; then nothing has been loaded.
        BadInput
            The checkpoint cannot be read, or a file that was read before training began is another one now; then
            nothing has been loaded.
        """
        tensors, facts = _intact(path)

        def part(name: str) -> dict[str, Tensor]:
            return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(name + ".")}

        rates = facts.get("learning_rates") or [facts["learning_rate"]]  # older checkpoints have one group
        state = self.optimizer.state_dict()
        groups = state["param_groups"]
        if (
            not _fits(facts, self.parameters)
            or len(rates) != len(groups)
            or _shapes(part("model")) != _shapes(self.model.state_dict())
            or _shapes(part("objective")) != _shapes(self.objective.state_dict())
        ):
            return False

        other = another_file(facts.get("files", {}), self.files)
        if other:
            problem = f"{other} has changed since this training began"
            raise BadInput(f"{path}: {problem}; put the old file back, or start again (--again)")

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
        device = self._gpu()
        if device is not None and "random.cuda" in tensors:  # a run that began on a CPU has none
            torch.cuda.set_rng_state(tensors["random.cuda"], device)
        self.history, self.best, self.best_weights = facts["history"], facts["best"], part("best")
        if self.scheduled_epochs is not None:
            self.scheduled_epochs = min(_scheduled(facts), self.scheduled_epochs)
        return True
