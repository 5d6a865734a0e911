"""Measure the faithfulness of a finished run's rationales.

    python -m rationale.runs.faithfulness RUN...

reads the model and the texts that a training run has saved and writes faithfulness.json beside them, one dict of
numbers per split. Nothing is trained and the data folder is not needed.
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
    faithfulness_scores,
    length_leak,
    passed_by_count,
    plausibility,
    unread_states,
)
from rationale.files import write_text
from rationale.nn.heads import Classes
from rationale.runs.saved import load_run, read_rationales


def measure_faithfulness(folder: Path | str) -> dict[str, dict[str, float]]:
    """Everything there is to say about the rationales of a finished run, by split; written to faithfulness.json.

    faithfulness, calibration_error, passed_by_count and (not for dev, on which it is fitted) length_leak; where words
    have labels (SST) word_precision, word_recall, word_f1 (a selected word counts when its own label is not neutral),
    word_base_rate (the precision of a random selection), and `words_<label>`, `selected_<label>`: how many words there
    are, and how many of them are selected.

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
    states = {name: unread_states(run.model, part) for name, part in batches.items()}
    found = {}
    for name, part in splits.items():
        found[name] = faithfulness_scores(run.model, batches[name])
        found[name]["calibration_error"] = calibration(run.model, batches[name])
        if name != "dev":
            found[name]["length_leak"] = length_leak(states["dev"], states[name])
        found[name] |= passed_by_count(part)
        if "word_labels" in part:
            found[name] |= plausibility(part)
    write_text(Path(folder) / "faithfulness.json", json.dumps(found, indent=1))
    return found


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
