"""Judge the rationales of a finished run: how faithful they are, and what leaks past them.

    python -m rationale.judge RUN...            the rationales of the test split
    python -m rationale.judge --all RUN...      those of dev as well

reads the model and the texts that a training run has saved, and writes faithfulness.json into the same folder, one dict
of numbers per split. It is for runs that were made with `judge: none`, or with less than is wanted now: the numbers of
other splits are kept. Nothing is trained, and the data folder is not needed.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.errors import BadInput, command, shown
from rationale.explain.faithfulness import (
    JUDGED,
    count_leak,
    empty_rationale_states,
    faithfulness_scores,
    gold_agreement,
    length_leak,
    plausibility,
)
from rationale.progress import REST, report_phase
from rationale.runs import intact
from rationale.runs.folder import add_file, is_worked_on, unlike_digests
from rationale.runs.saved import SavedRun, load_run, read_rationales

if TYPE_CHECKING:
    import pandas as pd

FILE = "faithfulness.json"
FITTED_ON = "dev"  # the split on whose texts the regression of `length_leak` is fitted


def measure_faithfulness(folder: Path | str, judge: str = "test") -> dict[str, dict[str, float]]:
    """Judge the rationales that a run has just saved, and write the numbers to faithfulness.json.

    Parameters
    ----------
    folder : Path or str
        The folder in which the run has saved its model and its rationales.
    judge : str
        A key of `JUDGED`. none: nothing is measured, and a file that an earlier run has left in this folder is removed.

    Returns
    -------
    dict
        By split; see `scores_of`.
    """
    path = Path(folder) / FILE
    if not JUDGED[judge]:
        path.unlink(missing_ok=True)
        print("the rationales of this run are not judged; `python -m rationale.judge RUN` does it later", flush=True)
        return {}
    scores = scores_of(Path(folder), JUDGED[judge])
    add_file(Path(folder), FILE, _as_text(scores))
    return scores


def judge_finished(folder: Path | str, judge: str = "test") -> dict[str, dict[str, float]]:
    """Judge the rationales of a run that has finished, and add the numbers to its faithfulness.json.

    Parameters
    ----------
    folder : Path or str
        Its folder.
    judge : str
        A key of `JUDGED`. The numbers of other splits are kept.

    Raises
    ------
    BadInput
        See `scores_of`; also if a file of the run is not the one that it wrote, or if the run is being made again.
    """
    folder = Path(folder)
    began = folder.stat() if folder.is_dir() else None
    for name in unlike_digests(folder) if began else ():
        if name != FILE:  # which is written anew
            raise intact.damaged(folder / name, "it is not as the run has written it")
    if began and is_worked_on(Path(f"{os.path.realpath(folder)}.partial")):
        raise BadInput(f"{shown(folder)}: another process makes this run again; judge it when that has finished")
    scores = scores_of(folder, JUDGED[judge])
    try:
        kept = intact.read_json(folder / FILE, intact.Faithfulness)
    except BadInput:  # there is none, or it is damaged
        kept = {}
    if began is None or not os.path.samestat(began, folder.stat()):
        raise BadInput(f"{shown(folder)}: the run was made again meanwhile; judge the new one")
    add_file(folder, FILE, _as_text(kept | scores))
    return scores


def scores_of(folder: Path, splits: Sequence[str]) -> dict[str, dict[str, float]]:
    """Judge the rationales of these splits.

    Returns
    -------
    dict
        By split: `faithfulness_scores`, `count_leak`, length_leak (not for dev, on which the regression is fitted, nor
        if all texts have one length), means of `gold_agreement` if people have marked words, and `plausibility` if
        words have labels.

    Raises
    ------
    BadInput
        If the folder is not that of a finished training run, or its model reads pairs of sentences, or predicts scores
        instead of classes.
    """
    run = load_run(folder)
    if run.of_pairs:
        raise BadInput(f"{folder}: its model reads pairs of sentences; accepted are models of single texts")
    if not run.gives_classes:
        raise BadInput(f"{folder}: its model predicts scores; accepted are models of classes")
    report_phase("faithfulness")
    parts = {name: part for name, part in read_rationales(folder).groupby("split")}
    for name in (FITTED_ON, *splits):
        if name not in parts:
            raise intact.damaged(folder / "rationales.jsonl", f"it holds no text of {name}")

    @cache
    def batches(name: str) -> Batches:
        return batches_of(run, parts[name])

    fitted, scores = None, {}
    for name in splits:
        scores[name] = faithfulness_scores(run.model, batches(name))
        if name != FITTED_ON:
            fitted = fitted or empty_rationale_states(run.model, batches(FITTED_ON))
            evaluated = empty_rationale_states(run.model, batches(name))
            if evaluated[1].unique().numel() > 1:
                scores[name]["length_leak"] = length_leak(fitted, evaluated)
        scores[name] |= count_leak(parts[name])
        if "gold" in parts[name]:
            agreement = agreement_by_text(run, parts[name], batches(name))
            scores[name] |= {name: values.mean().item() for name, values in agreement.items() if name != "f1_macro"}
        if "word_labels" in parts[name]:
            scores[name] |= plausibility(parts[name])
    report_phase(REST)
    return scores


def agreement_by_text(run: SavedRun, rows: "pd.DataFrame", batches: Batches) -> dict[str, Tensor]:
    """`gold_agreement`, [M] each, of a run on rows of `read_rationales`; `batches` are their texts (`batches_of`)."""
    gold = [flags if isinstance(flags, list) else None for flags in rows["gold"]]  # NaN: nobody marked this text
    return gold_agreement(run.model, batches, gold)


def batches_of(run: SavedRun, rows: "pd.DataFrame") -> Batches:
    """The texts of rows of `read_rationales`, in their order."""
    examples = [Example(tuple(row.tokens), int(row.label)) for row in rows.itertuples()]
    return Batches(examples, run.vocabulary, 256)


def _as_text(scores: dict[str, dict[str, float]]) -> str:
    return json.dumps({name: scores[name] for name in JUDGED["all"] if name in scores}, indent=1)


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = argparse.ArgumentParser(
        "python -m rationale.judge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    form.add_argument("runs", nargs="+", metavar="RUN", help="folder of a finished training run")
    form.add_argument("--all", action="store_true", help="judge the rationales of dev as well as those of test")
    options = form.parse_args(arguments)
    for folder in options.runs:
        test = judge_finished(folder, "all" if options.all else "test")["test"]
        print(folder, "  ".join(f"{name} {test[name]:.3f}" for name in ("sufficiency", "comprehensiveness")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
