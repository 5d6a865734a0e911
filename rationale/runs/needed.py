"""What it would cost to decide an open claim of the papers: runs that nobody has made, and the time of like runs.

Where a claim is judged by numbers, the number of seeds follows from the means and spreads of the committed runs. If no
committed run has its numbers yet, `outputs/reference/needed.csv` lists the runs:

    paper, item, claim   a row of `claims.csv`
    num                  how many runs
    like                 committed runs that they are like, as a pattern of names: "14_train_probes/sst-seed*"
    texts, epochs        how many training texts and epochs they have, if not as many as those, which read all texts
                         of a corpus in `num_texts.csv`; the time is taken to grow in proportion

A claim that would cost more than `HOURS`, or more than `MOST` seeds of each model, is out of reach here. These two
numbers are the only place where that is decided, and they are the same for all claims. A claim that is judged over
corpora, and that those which are here leave open, is out of reach, too: more seeds would not decide it.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import inf, nan
from statistics import mean, stdev
from typing import TYPE_CHECKING, NamedTuple

from rationale.errors import BadInput, optional
from rationale.runs.committed import minutes_of_runs, num_texts, read_runs, reference_folder
from rationale.statistics import welch_interval

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

CLAIM = ["paper", "item", "claim"]  # what names a claim
HOURS = 4.0  # of one core, which is an evening of two hours on two cores
MOST = 20  # seeds of each model: beyond that the two are too close to call
FEWEST = 3  # seeds of each model that we ask for where there is no spread yet


class Cost(NamedTuple):
    """What it would take to decide a claim: in words, and in minutes on one core (NaN if the time is not known)."""

    words: str
    minutes: float

    @property
    def is_too_much(self) -> bool:
        """Whether nobody would pay it here: more than `HOURS`, or more than `MOST` seeds."""
        return self.minutes > 60 * HOURS


def read_needed() -> pd.DataFrame:
    """`needed.csv`: all columns are texts."""
    return pd.read_csv(reference_folder() / "needed.csv", dtype=str, keep_default_na=False)


def cost_of_listed(rows: pd.DataFrame, minutes: pd.Series) -> Cost:
    """The time of the runs that `needed.csv` lists for one claim.

    Raises
    ------
    BadInput
        If a pattern matches no committed run.
    """
    total, num = 0.0, 0
    for row in rows.to_dict("records"):
        runs = [run for run in minutes.index if fnmatchcase(run, row["like"])]
        if not runs:
            raise BadInput(f"needed.csv: {row['like']!r} matches no committed run")
        one = float(minutes[runs].mean())
        if row["texts"] or row["epochs"]:
            like = read_runs().loc[runs[0]]
            one *= float(row["texts"] or 1) / (num_texts(like["corpus"], "", "train") if row["texts"] else 1)
            one *= float(row["epochs"] or 1) / (like["epochs"] if row["epochs"] else 1)
        num += int(row["num"])
        total += int(row["num"]) * one
    return Cost(f"not run: {num} {'run' if num == 1 else 'runs'}, {time_in_words(total)} on one core", total)


def cost_of_seeds(
    decide: Callable[[float, float, int], str],
    *groups: pd.DataFrame,
    weights: Sequence[float] = (1, -1),
    confidence: float = 0.95,
) -> Cost:
    """How many more seeds would decide, if the means and spreads of the committed ones stay.

    Parameters
    ----------
    decide : callable
        From the ends of an interval and the number of seeds of the first group to a verdict; "open" is no decision.
    groups : rows of one model, of two or of more, one row per seed
    weights : numbers
        Of the means, which are added up; of two models it is their difference.
    confidence : float, in (0, 1)
        Of the intervals.
    """
    scores = [rows["value"].tolist() for rows in groups]
    fewest, each = min(map(len, scores)), " of each" * (len(scores) > 1)
    if fewest < 2:
        return _cost_of_more(f"for {FEWEST} seeds{each}", groups, [FEWEST] * len(groups))
    for num in range(fewest, MOST + 1):
        nums = [max(num, len(values)) for values in scores]
        if decide(*_interval(scores, nums, weights, confidence), nums[0]) != "open":
            seeds = f"{nums[0]} seeds{each}" if len(set(nums)) == 1 else f"{' and '.join(map(str, nums))} seeds"
            return _cost_of_more(f"decided by {seeds}, if means and spreads stay", groups, nums)
    return Cost(f"too close to call: not decided by {MOST} seeds{each}, if means and spreads stay", inf)


def cost_of_corpora(decide: Callable[[float, float, int], str], means: list[float], confidence: float = 0.95) -> Cost:
    """How many corpora would decide, if the mean and the spread of their differences stay.

    More seeds on the same corpora would not decide, and nobody can train on a corpus that is not here: the minutes are
    infinite.

    Parameters
    ----------
    decide : callable
        From the ends of an interval and the number of corpora to a verdict; "open" is no decision.
    means : list of numbers
        The mean difference of two models on each corpus.
    confidence : float, in (0, 1)
        Of the intervals.
    """
    stay = f"if their mean and spread stay; {len(means)} are here"
    for num in range(len(means), MOST + 1):
        if decide(*_interval([means], [num], [1], confidence), num) != "open":
            return Cost(f"decided by {num} corpora, {stay}", inf)
    return Cost(f"too close to call: not decided by {MOST} corpora, {stay}", inf)


def cost_of_pairs(*groups: pd.DataFrame) -> Cost:
    """The time until each of these models has `FEWEST` seeds."""
    return _cost_of_more(f"for {FEWEST} seeds of each", groups, [FEWEST] * len(groups))


def _cost_of_more(words: str, groups: Sequence[pd.DataFrame], nums: list[int]) -> Cost:
    """These words with the time until each group has so many seeds, if the time of its runs is known.

    Groups of the same runs are methods that each of these runs applies, so a further run counts once.
    """
    minutes, more = minutes_of_runs(), dict[frozenset[str], float]()
    for rows, num in zip(groups, nums, strict=True):
        runs = frozenset(rows["run"])
        known = minutes[minutes.index.isin(runs)]
        if known.empty:
            return Cost(words, nan)
        more[runs] = max(more.get(runs, 0.0), max(0, num - len(rows)) * float(known.mean()))
    total = sum(more.values())
    return Cost(f"{words}: {time_in_words(total)} on one core", total)


def _interval(
    scores: list[list[float]], nums: list[int], weights: Sequence[float], confidence: float
) -> tuple[float, float]:
    """The interval of the weighted sum of means, with the spreads of `scores` and `nums` seeds."""
    groups = list(zip(scores, nums, weights, strict=False))  # one group needs the first weight only
    parts = [(weight**2 * stdev(values) ** 2 / num, num - 1) for values, num, weight in groups]
    return welch_interval(sum(weight * mean(values) for values, _, weight in groups), parts, confidence)


def time_in_words(minutes: float) -> str:
    """A time, rounded as an estimate may be.

    Examples
    --------
    >>> time_in_words(3.2), time_in_words(95), time_in_words(1500), time_in_words(30000)
    ('3 minutes', '95 minutes', '25 hours', '21 days')
    """
    for size, unit in ((1440, "days"), (60, "hours")):
        if minutes >= 2 * size:
            digits = 0 if size == 1440 or minutes >= 10 * size else 1
            return f"{minutes / size:.{digits}f} {unit}"
    return f"{max(1, round(minutes))} minute{'s' * (round(minutes) > 1)}"
