"""The score of each test text, of finished runs and of committed ones: what a paired bootstrap needs.

`outputs/reference/by_text.csv` has one row per run: run, metric, texts (their number), values. An accuracy is written
as one bit per text, in hexadecimal digits. Squared errors are written with three digits, separated by spaces. Runs that
were committed before there was this file, and whose folders are lost, are not in it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rationale.errors import BadInput, optional
from rationale.runs import saved

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

COLUMNS = ["run", "metric", "texts", "values"]


def scores_by_text(run: Path) -> tuple[str, Tensor] | None:
    """The metric, "accuracy" or "mse", and the score of each test text, [N]; None for runs that predict no label."""
    if not (run / "rationales.jsonl").is_file():
        return None
    rows = saved.read_rationales(run, "test")
    if rows.empty or not {"label", "prediction"} <= set(rows.columns):
        return None
    labels, answers = rows["label"].tolist(), rows["prediction"].tolist()
    if all(isinstance(label, int) for label in labels):
        return "accuracy", torch.tensor([float(a == b) for a, b in zip(labels, answers, strict=True)])
    return "mse", (
        torch.tensor(labels).view(len(labels), -1) - torch.tensor(answers).view(len(labels), -1)
    ).square().mean(1)


def table_of(runs: Sequence[Path], names: Sequence[str]) -> pd.DataFrame:
    """The rows of finished runs; a run without such scores has none."""
    rows = []
    for run, name in zip(runs, names, strict=True):
        found = scores_by_text(run)
        if found is not None:
            metric, scores = found
            rows.append([name, metric, len(scores), write_scores(metric, scores)])
    return pd.DataFrame(rows, columns=COLUMNS)


def read_table(path: Path) -> pd.DataFrame:
    """`by_text.csv`. The values are read as texts, since some hexadecimal digits look like numbers."""
    return pd.read_csv(path, dtype={"values": str})


def write_scores(metric: str, scores: Tensor) -> str:
    """Scores as a text; `read_scores` reads it.

    Examples
    --------
    >>> write_scores("accuracy", torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]))
    'b8'
    >>> write_scores("mse", torch.tensor([0.25, 1e-6]))
    '0.25 1e-06'
    """
    if metric != "accuracy":
        return " ".join(f"{score:.3g}" for score in scores.tolist())
    bits = "".join(str(int(score)) for score in scores.tolist())
    digits = -(-len(bits) // 4)
    return f"{int(bits.ljust(4 * digits, '0'), 2):0{digits}x}"


def read_scores(metric: str, num: int, written: str) -> Tensor:
    """The scores that `write_scores` wrote: [num].

    Examples
    --------
    >>> read_scores("accuracy", 5, "b8")
    tensor([1., 0., 1., 1., 1.])
    """
    if metric != "accuracy":
        return torch.tensor([float(part) for part in written.split()])
    bits = f"{int(written, 16):0{4 * len(written)}b}"
    return torch.tensor([float(bit) for bit in bits[:num]])


def stacked(table: pd.DataFrame, runs: Sequence[str]) -> Tensor:
    """The scores of runs that differ in the seed, from rows of `by_text.csv`: [S, N].

    Raises
    ------
    BadInput
        If a run has no row, or the runs have different metrics or numbers of texts.
    """
    rows = table.set_index("run")
    lost = [run for run in runs if run not in rows.index]
    if lost:
        raise BadInput(f"by_text.csv: no row of {', '.join(lost)}; accepted are {', '.join(rows.index) or 'none'}")
    rows = rows.loc[list(runs)]
    if rows[["metric", "texts"]].drop_duplicates().shape[0] != 1:
        raise BadInput(f"{', '.join(runs)}: different metrics or numbers of texts; runs on the same texts are accepted")
    return torch.stack([read_scores(row.metric, int(row.texts), row.values_) for row in _named(rows)])


def _named(rows: pd.DataFrame):
    return rows.rename(columns={"values": "values_"}).itertuples()  # `values` is an attribute of a table
