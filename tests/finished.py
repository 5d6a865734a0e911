"""The folders of finished runs, made up without training."""

import json

import yaml

from rationale.runs import notebook_path
from rationale.runs.cells import defaults


def finished_run(outputs, name="hardkuma-selection0.4-seed1", accuracy=0.4, **changes):
    folder = outputs / "12_train_sst" / name
    folder.mkdir(parents=True)
    p = defaults(notebook_path("12_train_sst"))
    p |= {"model": "hardkuma", "vectors": "v", "selection": 0.4, "seed": 1} | changes
    figures = {"accuracy": accuracy, "rate_expected": 0.41, "rate_selected": 0.39}
    metrics = {"dev": figures, "test": figures, "best_epoch": 2, "seconds": 3.5}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "params.yaml").write_text(yaml.safe_dump(p))
    (folder / "environment.txt").write_text("commit: 0123456789abcdef\ndevice: cpu\ntorch: 2.13.0\n")
    history = "epoch,seconds,dev_accuracy,selection.multiplier\n1,1.0,0.3,0.0\n2,2.5,0.4,0.1\n"
    (folder / "history.csv").write_text(history)
    (folder / "run.ipynb").write_text("{}")
    select(folder, [[1.0, 0.0, 0.0], [0.0, 0.3]])
    return folder


def select(folder, test: list[list[float]]) -> None:
    """Write the gates of a run: those of its test texts, and one text of dev."""
    rows = [{"split": "dev", "tokens": ["d"], "z": [1.0]}]
    rows += [{"split": "test", "tokens": ["t"] * len(z), "z": z} for z in test]
    (folder / "rationales.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def failed_run(outputs, name, precision=0.8, **changes):
    """A run of `16_failures` with this precision; its metrics hold more than is committed."""
    folder = outputs / "16_failures" / name
    folder.mkdir(parents=True)
    p = defaults(notebook_path("16_failures")) | changes
    scores = {"accuracy": 0.9, "precision": precision, "blind_random_words": 0.1, "rate_selected": 0.1}
    metrics = {"dev": scores | {"told_at_start": 0.7}, "test": scores, "best_epoch": 2, "seconds": 3.5}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "params.yaml").write_text(yaml.safe_dump(p))
    (folder / "environment.txt").write_text("commit: 0123456789abcdef\ndevice: cpu\ntorch: 2.13.0\n")
    (folder / "history.csv").write_text("epoch,seconds,dev_accuracy\n1,1.0,0.3\n2,2.5,0.4\n")
    (folder / "run.ipynb").write_text("{}")
    select(folder, [[1.0, 0.0, 0.0], [0.0, 0.3]])
    return folder
