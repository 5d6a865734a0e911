"""Measure the faithfulness of a finished run's rationales.

    python -m rationale.runs.faithfulness RUN...

reads the model and the texts that a training run has saved, and writes faithfulness.json into the same folder, one dict
of numbers per split. Nothing is trained, and the data folder is not needed.
"""

import argparse
import json
import sys
from pathlib import Path

from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.errors import BadInput, command
from rationale.explain.faithfulness import (
    calibration,
    count_leak,
    empty_rationale_states,
    faithfulness_scores,
    length_leak,
    plausibility,
)
from rationale.files import write_text
from rationale.nn.heads import Classes
from rationale.runs.saved import load_run, read_rationales


def measure_faithfulness(folder: Path | str) -> dict[str, dict[str, float]]:
    """Measure the rationales of a finished run, and write the numbers to faithfulness.json.

    Returns
    -------
    dict
        By split: `faithfulness_scores`, calibration_error, `count_leak`, length_leak (not for dev, on which the
        regression is fitted), and `plausibility` if words have labels.

    Raises
    ------
    BadInput
        If the folder is not that of a finished training run, or its model predicts scores instead of classes.
    """
    run = load_run(folder)
    if not isinstance(run.model.head, Classes):
        raise BadInput(f"{folder}: its model predicts scores; accepted are models of classes")
    rows = read_rationales(folder)
    splits = {name: part for name, part in rows.groupby("split")}
    batches = {
        name: Batches([Example(tuple(r.tokens), int(r.label)) for r in part.itertuples()], run.vocabulary, 256)
        for name, part in splits.items()
    }
    states = {name: empty_rationale_states(run.model, part) for name, part in batches.items()}
    scores = {}
    for name, part in splits.items():
        scores[name] = faithfulness_scores(run.model, batches[name])
        scores[name]["calibration_error"] = calibration(run.model, batches[name])
        if name != "dev":
            scores[name]["length_leak"] = length_leak(states["dev"], states[name])
        scores[name] |= count_leak(part)
        if "word_labels" in part:
            scores[name] |= plausibility(part)
    write_text(Path(folder) / "faithfulness.json", json.dumps(scores, indent=1))
    return scores


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = argparse.ArgumentParser(
        "python -m rationale.runs.faithfulness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form.add_argument("runs", nargs="+", metavar="RUN", help="folder of a finished training run")
    for folder in form.parse_args(arguments).runs:
        test = measure_faithfulness(folder)["test"]
        print(folder, "  ".join(f"{name} {test[name]:.3f}" for name in ("sufficiency", "comprehensiveness")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
