"""How a measured number is written in RESULTS.md: with its spread or interval, or with a sign that says there is none.

46.4 ± 0.4              the mean over seeds and the standard deviation of the seeds
82.3 (75.9 to 87.3)     an accuracy of one seed, with Wilson's 95 % interval over the test texts
0.0615°                 one seed: no interval can be computed from what is committed
47.5 ± 0.7 ≈            no significant difference from the row of reference
43.8 (41.8 to 45.9) ?   the difference from that row cannot be tested
0.879†                  the mean over pairs of seeds
0.15 ± 0.07 [2]         of two seeds, in a row of more
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from rationale.runs.committed import num_texts
from rationale.runs.compare import KIND
from rationale.runs.origin import TASKS
from rationale.statistics import Difference, share_difference, welch_test, wilson_interval

SPREAD = "±: the standard deviation over the seeds."
INTERVAL = (
    "In brackets: a 95 % interval. If a number is a share of the texts, such as an accuracy, and has one seed, this is "
    "Wilson's interval."
)
BOOTSTRAP = (
    "In brackets: a 95 % interval by the bootstrap over texts, and by Student's distribution over seeds where there "
    "are several."
)
NONE = "°: from one seed, and no interval can be computed from what is committed."
ALIKE = "≈: not significantly different from {reference}, at 5 %, each test by itself ({tests})."
UNKNOWN = "?: this difference cannot be tested, because one of the two has one seed."
NO_TEST = "No difference from {reference} can be tested, because each row has one seed."
TESTS = {"welch": "Welch's test over seeds", "texts": "Newcombe's interval over texts, where both have one seed"}
OF_TEXTS = ("accuracy", "count_tells", "answer_share")  # metrics that are shares of the texts of a split
PAIRS = (
    "†: the mean over pairs of seeds. Each seed is in several pairs, so these are not independent, and we give no "
    "standard deviation."
)
FEWER = "[n]: from n seeds of the row, because the others were not measured."
SIGNS = {"±": SPREAD, " to ": INTERVAL, "°": NONE, "†": PAIRS, " [": FEWER}
OF_PAIRS = "agreement"  # a metric of two runs, except of probes, where it is the share of answers that stay


def cell(row: dict[str, Any], name: str, form: str = "{:.1f}", scale: float = 1, split: str = "test") -> str:
    """A number with its spread, its interval or the sign for neither; "" for a metric that the runs do not have.

    Parameters
    ----------
    row : a row of a `summary`
    name : a metric
    form : how a number is written
    scale : 100 for shares that are written in per cent
    """
    value, spread = row[name], row.get(f"{name}_std", float("nan"))
    if value != value:
        return ""
    text, seeds = form.format(scale * value), row.get(f"{name}_seeds", 1)
    fewer = f" [{seeds}]" if 1 < seeds < row["seeds"] else ""
    if name == OF_PAIRS and row.get("task") != TASKS["14_train_probes"]:
        return f"{text}†{fewer}"
    if spread == spread:
        return f"{text} ± {form.format(scale * spread)}{fewer}"
    num = num_texts(row["corpus"], row["settings"], split) if name in OF_TEXTS else None
    if num is None:
        return f"{text}°"
    low, high = wilson_interval(value, num)
    return f"{text} ({form.format(scale * low)} to {form.format(scale * high)})"


def with_interval(found: Difference | None, form: str = "{:.1f}", scale: float = 1) -> str:
    """A number with its interval, such as one of a bootstrap; "" for none."""
    if found is None:
        return ""
    value, low, high = (form.format(scale * number) for number in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def share_with_interval(share: float, num: int) -> str:
    """A share of `num` texts in per cent, with Wilson's interval."""
    return with_interval(Difference(share, *wilson_interval(share, num)), scale=100)


def marks(part: pd.DataFrame, rows: Sequence[dict[str, Any]], name: str, is_reference: Callable) -> list[str]:
    """For each row of a `summary`, the mark of its difference from the row of reference, by one metric on test.

    Parameters
    ----------
    part : the rows of the long table that were summed up
    rows : rows of the `summary`
    name : a metric
    is_reference : of two rows, whether the second is the row with which the first is compared

    Returns
    -------
    list of str
        " ≈", " ?", or "" for a significant difference, the reference itself, and rows that have no such row or metric.
    """
    found = _differences(part, rows, name, is_reference)
    return ["" if one is None else " ?" if one.low != one.low else "" if one.is_significant else " ≈" for one in found]


def behind(part: pd.DataFrame, rows: Sequence[dict[str, Any]], name: str, is_reference: Callable) -> list[str]:
    """For each row, in per cent, how far it is behind the row of reference, with the interval; see `marks`."""
    texts = []
    for row, one in zip(rows, _differences(part, rows, name, is_reference), strict=True):
        if one is None:
            texts.append("0.0" if is_reference(row, row) and row[name] == row[name] else "")
        elif one.low != one.low:
            texts.append(f"{-100 * one.value:.1f}°")
        else:
            texts.append(f"{-100 * one.value:.1f} ({-100 * one.high:.1f} to {-100 * one.low:.1f})")
    return texts


def _differences(
    part: pd.DataFrame, rows: Sequence[dict[str, Any]], name: str, is_reference: Callable
) -> list[Difference | None]:
    """The difference of each row from its row of reference, without an interval (NaN) where none can be computed."""
    part = part[(part["split"] == "test") & (part["metric"] == name)]
    kinds = part.groupby([*KIND, "settings"], dropna=False)["value"].agg(list).to_dict()
    values = [kinds.get(tuple(row[key] for key in [*KIND, "settings"])) for row in rows]
    found: list[Difference | None] = []
    for row, ours in zip(rows, values, strict=True):
        others = [theirs for other, theirs in zip(rows, values, strict=True) if theirs and is_reference(row, other)]
        alone = not ours or not others or others[0] is ours
        found.append(None if alone else _difference(row, name, ours, others[0]))
    return found


def _difference(row: dict[str, Any], name: str, ours: list[float], theirs: list[float]) -> Difference:
    if min(len(ours), len(theirs)) > 1:
        return welch_test(ours, theirs)
    num = num_texts(row["corpus"], row["settings"]) if name == "accuracy" else None
    if num is not None and len(ours) == len(theirs):
        return share_difference(ours[0], theirs[0], num)
    return Difference(sum(ours) / len(ours) - sum(theirs) / len(theirs), float("nan"), float("nan"))


def with_legend(
    table: str, reference: str = "", *, marked: Sequence[str] = (), several: bool = True, bootstrapped: bool = False
) -> str:
    """A table in Markdown, and below it the meaning of the signs that it uses.

    Parameters
    ----------
    table : str
    reference : the row with which the others are compared, in words; "" if rows are not compared
    marked : the marks of the rows
    several : whether some row has several seeds, so that Welch's test was made
    bootstrapped : whether the intervals are those of `statistics.paired_bootstrap`
    """
    signs = SIGNS | ({" to ": BOOTSTRAP} if bootstrapped else {})
    lines = [meaning for sign, meaning in signs.items() if sign in table]
    if reference:
        tests = [TESTS["welch"]] * several + [TESTS["texts"]] * (" to " in table)
        if all(mark in ("", " ?") for mark in marked) and not several:
            lines.append(NO_TEST.format(reference=reference))
        else:
            lines.append(ALIKE.format(reference=reference, tests=", ".join(tests)))
            lines += [UNKNOWN] if " ?" in marked else []
    return f"{table}\n\n{' '.join(lines)}" if lines else table
