"""A training run of a second: its parameters and examples, for the tests of training and of saved runs.

`train_until` is for a process that is to be killed on the way.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch

from rationale import training
from rationale.data.corpora.synthetic import read_synthetic
from rationale.training import checkpoint, extraction
from rationale.training.settings import FirstSettings

PARAMETERS = FirstSettings().model_dump() | {
    "seed": 3, "aspect": "look", "vectors": "random", "vectors_scale": 1.0, "embedding_size": 8,
    "model": "hardkuma", "encoder": "lstm", "hidden_size": 6, "dropout": 0.2, "predictor": "zero",
    "train_vectors": False, "left": -0.1, "right": 1.1, "rule": "argmax",
    "selection": 0.4, "transitions": None, "dynamics": "signed", "measure": "expected", "measure_every": 2,
    "multiplier_init": 0.0, "multiplier_rate": 0.1, "quadratic": 20.0, "smoothing": 0.8,
    "multiplier_min": None, "constraint_from": 1, "selection_start": None, "selection_moves": 0.0, "per_text": False,
    "batch_size": 16, "bucketed": True, "epochs": 4, "learning_rate": 0.01, "min_learning_rate": 1e-5,
    "weight_decay": 1e-5, "clip_norm": 5.0, "model_choice": "within_tolerance", "tolerance": 0.05,
    "device": "cpu", "tensorboard": False,
}  # fmt: skip


def parameters(**changes) -> SimpleNamespace:
    unknown = changes.keys() - PARAMETERS.keys()
    assert not unknown, f"no such parameter: {unknown}"
    return SimpleNamespace(**(PARAMETERS | changes))


def corpus() -> dict:
    """48 reviews to train on (3 batches an epoch), 20 and 20 to judge."""
    return read_synthetic(num_train=48, num_dev=20, num_test=20)


def train(folder: Path, **changes) -> training.Result:
    torch.set_num_threads(1)
    return training.train_extractor(parameters(**changes), corpus(), "scores", 1, folder)


def classified(splits: dict) -> dict:
    """The same reviews with two classes, low and high."""
    return {name: [replace(e, label=int(e.label[0] > 0.5)) for e in part] for name, part in splits.items()}


# --- death on the spot


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(moment: str) -> None:
    """Arrange for this process to be killed at a moment of `train`.

    step N            in training step N, after the gradient is there and before the weights move
    half-written N    while checkpoint N is being written: half of the file is there
    evaluation N      at the start of evaluation N of a split
    never             leaves that to others
    """
    if moment == "never":
        return
    kind, number = moment.split()
    calls = 0

    def count(dies):
        nonlocal calls
        calls += 1
        if calls == int(number):
            dies()

    if kind == "step":
        clip = torch.nn.utils.clip_grad_norm_
        torch.nn.utils.clip_grad_norm_ = lambda *args: (count(die), clip(*args))
    elif kind == "half-written":
        write = checkpoint.save_file

        def written(tensors, path, facts):
            write(tensors, path, facts)
            count(lambda: (os.truncate(path, path.stat().st_size // 2), die()))

        checkpoint.save_file = written
    elif kind == "evaluation":
        evaluate = extraction.evaluate_extractor
        extraction.evaluate_extractor = lambda *args: (count(die), evaluate(*args))[1]
    else:
        raise ValueError(moment)


def train_until(moment: str, folder: Path, changes: dict) -> None:
    """Train in a process that is killed at a moment; it fails if it was not."""
    die_at(moment)
    train(folder, **changes)
    raise AssertionError(f"not killed: {moment}")
