"""The score of each test text, of finished runs and of committed ones: what a paired bootstrap needs.

`outputs/reference/by_text.csv` has one row per run and metric: run, metric, texts (their number), values. If a run has
several methods, the name of the method stands before that of the metric: "masks optimality". A score that is 0 or 1
(`BITS`) is written as one bit per text, in hexadecimal digits. Other scores are written with three digits, separated by
spaces. Runs that were committed before there was this file, and whose folders are lost, are not in it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rationale.errors import BadInput, optional
from rationale.runs import saved
from rationale.statistics import Difference, paired_bootstrap

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

COLUMNS = ["run", "metric", "texts", "values"]
BITS = ("accuracy", "optimality", "feasible")  # metrics that are 0 or 1 for one text
SEARCHED = ("f1", *BITS[1:])  # of masks that were compared with exact search; the bits also after fewer steps


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


def searched_by_text(run: Path) -> dict[str, Tensor]:
    """Of a run that compared masks with exact search: the scores of its texts, [N] each, by "METHOD METRIC"."""
    if not (run / "attributions.jsonl").is_file():
        return {}
    rows = saved.read_attributions(run, "test")
    scores = [row for row in rows["scores"] if isinstance(row, dict)] if "scores" in rows else []
    there = [(method, name) for method, of_method in (scores[0] if scores else {}).items() for name in of_method]
    found = {}
    for method, name in there:
        if name in SEARCHED or _is_bit(name):
            values = [row[method][name] for row in scores if name in row.get(method, {})]
            found[f"{method} {name}"] = torch.tensor(values, dtype=torch.float64)
    return found


def table_of(runs: Sequence[Path], names: Sequence[str]) -> pd.DataFrame:
    """The rows of finished runs; a run without such scores has none."""
    rows = []
    for run, name in zip(runs, names, strict=True):
        found = scores_by_text(run)
        for metric, scores in [found] if found else searched_by_text(run).items():
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
    >>> write_scores("masks optimality", torch.tensor([1.0, 0.0]))
    '8'
    """
    if not _is_bit(metric):
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
    if not _is_bit(metric):
        return torch.tensor([float(part) for part in written.split()])
    bits = f"{int(written, 16):0{4 * len(written)}b}"
    return torch.tensor([float(bit) for bit in bits[:num]])


def _is_bit(metric: str) -> bool:
    return metric.split()[-1].partition("_at_")[0] in BITS  # "masks feasible_at_500": after 500 steps


def stacked(table: pd.DataFrame, runs: Sequence[str], metric: str = "") -> Tensor:
    """The scores of runs that differ in the seed, from rows of `by_text.csv`: [S, N].

    Parameters
    ----------
    metric : str
        The one that is meant, with its method; "" if each of these runs has one.

    Raises
    ------
    BadInput
        If a run has no row, or the runs have different metrics or numbers of texts.
    """
    rows = table[table["metric"] == metric] if metric else table
    rows = rows.set_index("run")
    lost = [run for run in runs if run not in rows.index]
    if lost:
        of_metric = f" with the metric {metric}" if metric else ""
        accepted = ", ".join(dict.fromkeys(rows.index)) or "none"
        raise BadInput(f"by_text.csv: no row of {', '.join(lost)}{of_metric}; accepted are {accepted}")
    rows = rows.loc[list(runs)]
    if rows[["metric", "texts"]].drop_duplicates().shape[0] != 1:
        raise BadInput(f"{', '.join(runs)}: different metrics or numbers of texts; runs on the same texts are accepted")
    return torch.stack([read_scores(row.metric, int(row.texts), row.values_) for row in _named(rows)])


def difference(
    table: pd.DataFrame, runs: Sequence[str], ours: str, theirs: str = "", confidence: float = 0.95
) -> Difference | None:
    """The difference of two methods that explained the same models in the same runs; None if a run has no scores.

    Both methods of a run have the same model and the same smallest masks. So the bootstrap is that of the differences
    within the runs. Without `theirs` it is the mean of `ours`, with its interval.

    Parameters
    ----------
    runs : runs that differ in the seed
    ours, theirs : "METHOD METRIC" each
    confidence : float, in (0, 1)
    """
    asked = [ours, theirs] if theirs else [ours]
    there = set(zip(table["run"], table["metric"], strict=True))
    if not runs or any((run, metric) not in there for run in runs for metric in asked):
        return None
    scores, *others = (stacked(table, runs, metric) for metric in asked)
    apart = scores - others[0] if others else scores
    return paired_bootstrap(apart, torch.zeros(1, apart.shape[1]), confidence=confidence)


def _named(rows: pd.DataFrame):
    return rows.rename(columns={"values": "values_"}).itertuples()  # `values` is an attribute of a table
