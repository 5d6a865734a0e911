"""What has become of each claim of the papers: `outputs/reference/claims.csv`, one claim per row.

    paper, item      a row of `papers.csv`, which says where the item stands and which command makes its runs
    claim            what the paper says
    rule             how it is judged (`RULES`), by `metric` ("SPLIT METRIC"), `ours`, `theirs`, `value`, `margin`
    ours, theirs     committed runs, as a pattern of their names, and the model if a run has several: "RUN-seed* MODEL".
                     All of them have the same settings and differ in the seed. Several patterns, separated by "; ", are
                     pairs: the first of `ours` beside the first of `theirs`, and so on
    on               on what the claim was examined, if not on the paper's data and model
    verdict          one of `VERDICTS`
    why              the reason, or the cause. The cause of a contradiction names the experiment that tested it, or says
                     that none did.

Each verdict is computed by `with_verdicts`. `make reference` and `python -m tools.collect --tables-only` write it, and
a test compares it with the file. What it would cost to decide an open claim is computed, too (`needed`). If that is
more than anybody would pay here, the claim is out of reach.

The rule of a claim may be written before its runs are made. `needed.csv` lists these runs, and until one of them is
committed, the claim is undecided. So nobody can choose the rule by the numbers that it judges.
"""

import functools
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from rationale.errors import BadInput, optional
from rationale.runs import by_text, needed
from rationale.runs.committed import minutes_of_runs, num_texts, read_by_text, reference_folder
from rationale.runs.compare import KIND
from rationale.runs.workspace import notebook_path
from rationale.statistics import (
    Difference,
    changed_share_difference,
    mean_interval,
    pair_interval,
    run_interval,
    share_difference,
    welch_contrast,
    welch_test,
    wilson_interval,
)

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

REPRODUCED, CONTRADICTED, OPEN, OUT_OF_REACH = VERDICTS = ("reproduced", "contradicted", "open", "out of reach")
NOT_KNOWN = "the cause is not known"  # how the `why` of a contradiction without an experiment begins
RULES = {
    "contains": "the 95 % interval of our mean meets the published value, which is rounded to +- margin, and reaches "
    "no further from it than a tenth of it (or the margin)",
    "one_run": "the published value, rounded to +- margin, is that of one run. It lies in the 95 % prediction interval "
    "of one more run of ours, and the interval of our mean reaches no further from it than a tenth of it (or than the "
    "margin)",
    "at_least": "the 95 % interval of our mean lies above the value",
    "at_most": "the 95 % interval of our mean lies below the value",
    "above": "ours is above theirs, by the 95 % interval of the difference",
    "below": "ours is below theirs, by the 95 % interval of the difference",
    "ahead_by": "ours is above theirs, and the 95 % interval of the difference reaches the published difference",
    "narrows": "ours and theirs are two pairs of models, and the second pair differs by less than the first, by the "
    "95 % interval of the difference of the two differences; the sign of the first one counts for both",
    "within": "ours and theirs differ by at most the margin, by the 95 % interval of the difference",
    "apart": "our mean differs from the value by more than the margin, by its 95 % interval",
    "no_loss": "masking (mean over layers) makes the answers of `theirs` no less accurate, by the 95 % interval of the "
    "difference over texts, of which only those with another answer can count",
    "check": "a cell tagged `check` in the section asserts it whenever the notebook is executed",
    "none": "nobody has measured it: `needed.csv` lists the runs, and by their time it is open or out of reach",
    "missing": "out of reach: the reason says which data, model or method is not here",
}
NEAR = 0.1  # of a published value: how far an interval may reach from it if it is to count as reproduced
OF_ONE_MODEL = ("contains", "one_run", "at_least", "at_most", "apart")  # rules that take no `theirs`
NO_INTERVAL = "one seed, no interval"
PAIRS = "; "  # separates patterns


class Verdict(NamedTuple):
    """A verdict, the numbers that it rests on, and what it would cost to decide an open one, in words (or "")."""

    verdict: str
    evidence: str
    cost: str = ""


def read_claims() -> pd.DataFrame:
    """`claims.csv`: all columns are texts."""
    return pd.read_csv(reference_folder() / "claims.csv", dtype=str, keep_default_na=False)


def read_papers() -> pd.DataFrame:
    """`papers.csv`, with where each table and figure of the papers stands: all columns are texts."""
    return pd.read_csv(reference_folder() / "papers.csv", dtype=str, keep_default_na=False)


def with_verdicts(claims: pd.DataFrame, results: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The claims with their verdicts, computed again from these results, and the columns `evidence` and `cost`."""
    places = read_papers().set_index(["paper", "item"])
    listed, minutes = needed.read_needed(), minutes_of_runs()
    found = []
    for claim in claims.to_dict("records"):
        place = places.loc[claim["paper"], claim["item"]]
        runs = listed[(listed[needed.CLAIM] == [claim[name] for name in needed.CLAIM]).all(axis=1)]
        cost = needed.cost_of_listed(runs, minutes) if len(runs) else None
        found.append(judge(claim, results, place["notebook"], place["section"], cost, confidence))
    return claims.assign(**{name: [getattr(one, name) for one in found] for name in Verdict._fields})


def judge(
    claim: dict[str, str],
    results: pd.DataFrame,
    notebook: str = "",
    section: str = "",
    cost: needed.Cost | None = None,
    confidence: float = 0.95,
) -> Verdict:
    """The verdict on one claim.

    Parameters
    ----------
    claim : a row of `claims.csv`
    results : the long table
    notebook, section : where the item of the claim stands; used by the rule `check` only
    cost : what the runs of the claim in `needed.csv` would cost; used by the rule `none`, and as long as no committed
        run has the metric of the claim
    confidence : float, in (0, 1)
        Of the intervals.

    Raises
    ------
    BadInput
        If the rule is unknown, a pattern matches no run or runs of several settings, or a check is missing. The message
        names the claim.
    """
    where = f"claims.csv: {claim['paper']}, {claim['item']}, {claim['claim']!r}"
    if claim["rule"] not in RULES:
        raise BadInput(f"{where}: rule {claim['rule']!r} is unknown; accepted: {', '.join(RULES)}")
    if claim["rule"] == "missing":
        return Verdict(OUT_OF_REACH, "")
    if claim["rule"] == "none":
        if cost is None:
            raise BadInput(f"{where}: nobody has measured it, and needed.csv does not list the runs that would")
        return _undecided("", cost)
    if claim["rule"] == "check":
        if not has_check(notebook, section):
            raise BadInput(f"{where}: section {section!r} of {notebook or 'no notebook'} has no cell tagged `check`")
        return Verdict(REPRODUCED, "asserted there")
    split, _, metric = claim["metric"].partition(" ")
    of_metric = results[(results["split"] == split) & (results["metric"] == metric)]
    if cost is not None and not _is_measured(claim, of_metric):
        return _undecided("", cost)
    limits = Limits(claim["rule"], *(float(claim[name] or 0) for name in ("value", "margin")), confidence)
    if claim["rule"] == "no_loss":
        return _after_masking(limits, claim, results[results["split"] == split], where)
    if claim["rule"] == "narrows":
        return _between_pairs(limits, of_metric, claim, where)
    if PAIRS in claim["ours"]:
        return _over_pairs(limits, of_metric, claim, where)
    ours = _rows(of_metric, claim["ours"], where)
    if claim["rule"] in OF_ONE_MODEL:
        return _beside_a_number(limits, ours, split, metric)
    return _beside_runs(limits, ours, _rows(of_metric, claim["theirs"], where), split, metric)


class Limits(NamedTuple):
    """A rule with its numbers. `of` gives the verdict that an interval has by it."""

    rule: str
    value: float = 0.0
    margin: float = 0.0
    confidence: float = 0.95

    def of(self, low: float, high: float, num: int = 1) -> str:
        """The verdict if the mean, or the difference, lies between `low` and `high`.

        The rule one_run also needs `num`, the number of scores behind the interval of the mean.
        """
        value, margin = self.value, self.margin
        meets = low <= value + margin and value - margin <= high
        far = max(NEAR * abs(value), margin)
        is_near = value - far <= low and high <= value + far
        middle, half = (low + high) / 2, (high - low) / 2 * (num + 1) ** 0.5  # of the prediction interval
        is_a_run = abs(middle - value) <= half + margin
        holds, fails = {
            "contains": (meets and is_near, not meets),
            "one_run": (is_a_run and is_near, not is_a_run),
            "apart": (not meets, value - margin <= low and high <= value + margin),
            "at_least": (low >= value, high < value),
            "at_most": (high <= value, low > value),
            "above": (low > 0, high < 0),
            "narrows": (low > 0, high < 0),
            "below": (high < 0, low > 0),
            "ahead_by": (low > 0 and high >= value, high < value),
            "within": (-margin <= low and high <= margin, high < -margin or low > margin),
            "no_loss": (low >= 0, high < 0),
        }[self.rule]
        return REPRODUCED if holds else CONTRADICTED if fails else OPEN


def cause_is_unknown(claims: pd.DataFrame) -> pd.Series:
    """Whether a claim is contradicted and no experiment has found the cause, for each of these claims."""
    return claims["verdict"].eq(CONTRADICTED) & claims["why"].str.startswith(NOT_KNOWN)


def has_check(notebook: str, section: str) -> bool:
    """Whether a section of a notebook has a cell tagged `check`."""
    if not notebook or not section:
        return False
    text = notebook_path(notebook).read_text(encoding="utf-8")
    found = re.search(rf"^# ##+ (?:\d+\. )?{re.escape(section)}$(.*?)(?=^# ## |\Z)", text, re.M | re.S)
    return found is not None and 'tags=["check"]' in found[1]


def _is_measured(claim: dict[str, str], of_metric: pd.DataFrame) -> bool:
    """Whether some committed run of each pattern of a claim has its metric."""
    patterns = [one for side in ("ours", "theirs") if claim[side] for one in claim[side].split(PAIRS)]
    return all(len(_matching(of_metric, one)) for one in patterns)


def _matching(of_metric: pd.DataFrame, pattern: str) -> pd.DataFrame:
    runs, _, model = pattern.partition(" ")
    part = of_metric[of_metric["run"].map(lambda run: fnmatchcase(run, runs)).astype(bool)]
    return part[part["model"] == model] if model else part


def _rows(of_metric: pd.DataFrame, pattern: str, where: str) -> pd.DataFrame:
    part = _matching(of_metric, pattern)
    kinds = part.drop_duplicates([*KIND, "settings"])
    if len(kinds) != 1:
        names = ", ".join(sorted(set(kinds["run"]))) or "no committed run that has this metric"
        raise BadInput(f"{where}: {pattern!r} has to match runs that differ in the seed only, and matches {names}")
    return part


def _beside_a_number(limits: Limits, ours: pd.DataFrame, split: str, metric: str) -> Verdict:
    values = ours["value"].tolist()
    if len(values) > 1:
        low, high = mean_interval(values, limits.confidence)
    else:
        num = _num_texts(ours, split, metric)
        if num is None or limits.rule == "one_run":
            return _undecided(f"{_short(values[0])}, {NO_INTERVAL}", _cost_of_seeds(limits, ours))
        low, high = wilson_interval(values[0], num, limits.confidence)
    evidence = f"{_short(sum(values) / len(values))} ({_short(low)} to {_short(high)}), {_seeds(len(values))}"
    published = {"contains": "published", "one_run": "published", "apart": "asked for"}
    evidence += f"; {published.get(limits.rule, limits.rule.replace('_', ' '))} {_short(limits.value)}"
    if limits.rule == "one_run":
        evidence += "; one more run: {} to {}".format(*map(_short, run_interval(values, limits.confidence)))
    return _decided(limits, low, high, evidence, lambda: _cost_of_seeds(limits, ours), len(values))


def _decided(
    limits: Limits, low: float, high: float, evidence: str, cost: Callable[[], needed.Cost], num: int = 1
) -> Verdict:
    """The verdict that an interval has; its cost is computed only if there is something to decide."""
    verdict = limits.of(low, high, num)
    return _undecided(evidence, cost()) if verdict == OPEN else Verdict(verdict, evidence)


def _cost_of_seeds(limits: Limits, *groups: pd.DataFrame, weights: Sequence[float] = (1, -1)) -> needed.Cost:
    """The seeds that would decide, by the same kind of interval."""
    return needed.cost_of_seeds(limits.of, *groups, weights=weights, confidence=limits.confidence)


def _undecided(evidence: str, cost: needed.Cost) -> Verdict:
    return Verdict(OUT_OF_REACH if cost.is_too_much else OPEN, evidence, cost.words)


def _beside_runs(limits: Limits, ours: pd.DataFrame, theirs: pd.DataFrame, split: str, metric: str) -> Verdict:
    a, b = ours["value"].tolist(), theirs["value"].tolist()
    paired = _in_the_same_runs(ours, theirs, metric, limits.confidence) if split == "test" else None
    on_texts = " and their texts" if paired is not None else ""
    nums = _num_texts(ours, split, metric), _num_texts(theirs, split, metric)
    found = paired or _apart(a, b, nums, limits.confidence)
    if found is None:
        difference = sum(a) / len(a) - sum(b) / len(b)
        cost = _cost_of_seeds(limits, ours, theirs)
        return _undecided(f"difference {_short(difference)}, {NO_INTERVAL}", cost)
    seeds = _seeds(len(a)) if len(a) == len(b) else f"{len(a)} and {_seeds(len(b))}"
    evidence = f"{_difference(found)}, {seeds}{on_texts}"
    if limits.rule == "ahead_by":
        evidence += f"; published {_short(limits.value)}"
        if min(len(a), len(b)) > 1:
            evidence += "; one more pair of runs: {} to {}".format(*map(_short, pair_interval(a, b, limits.confidence)))
    return _decided(limits, found.low, found.high, evidence, lambda: _cost_of_seeds(limits, ours, theirs))


def _apart(a: list[float], b: list[float], nums: tuple[int | None, int | None], confidence: float) -> Difference | None:
    """The difference of two models by their seeds, or by the texts of one seed each; None if there is no interval.

    `nums` has the numbers of texts of the two, which may have left different ones out.
    """
    if min(len(a), len(b)) > 1:
        return welch_test(a, b, confidence)
    if len(a) == len(b) == 1 and nums[0] and nums[1]:
        return share_difference(a[0], b[0], nums[0], nums[1], confidence)
    return None


def _over_pairs(limits: Limits, of_metric: pd.DataFrame, claim: dict[str, str], where: str) -> Verdict:
    """Two models at several settings: Student's interval of the differences, one per corpus.

    The difference of a pair of settings is that of the means over the seeds. Pairs on one corpus have the same texts,
    so they depend on each other, and their mean counts once; it is that of the means of the aspects of the corpus. No
    run may be in two pairs.
    """
    ours, theirs = ([_rows(of_metric, one, where) for one in claim[side].split(PAIRS)] for side in ("ours", "theirs"))
    runs = [run for rows in (*ours, *theirs) for run in sorted(set(rows["run"] + " " + rows["model"]))]
    if len(ours) != len(theirs) or len(set(runs)) != len(runs):
        raise BadInput(f"{where}: {len(ours)} and {len(theirs)} patterns; accepted are pairs that share no run")
    apart: dict[str, dict[str, list[float]]] = {}
    for a, b in zip(ours, theirs, strict=True):
        aspects = apart.setdefault(a["corpus"].iloc[0], {})
        aspects.setdefault(a["aspect"].iloc[0], []).append(a["value"].mean() - b["value"].mean())
    if len(apart) < 2:
        raise BadInput(f"{where}: pairs on one corpus; accepted are pairs on two or more")
    means = [mean(mean(pairs) for pairs in aspects.values()) for aspects in apart.values()]
    found = Difference(mean(means), *mean_interval(means, limits.confidence))
    alike = sum(one * found.value > 0 for aspects in apart.values() for pairs in aspects.values() for one in pairs)
    evidence = f"{_difference(found)}, {len(means)} corpora; {alike} of {len(ours)} pairs have this sign"
    cost = functools.partial(needed.cost_of_corpora, limits.of, means, limits.confidence)
    return _decided(limits, found.low, found.high, evidence, cost)


def _between_pairs(limits: Limits, of_metric: pd.DataFrame, claim: dict[str, str], where: str) -> Verdict:
    """Two models at two settings: Welch's interval of what their difference loses from the first to the second."""
    ours, theirs = ([_rows(of_metric, one, where) for one in claim[side].split(PAIRS)] for side in ("ours", "theirs"))
    if len(ours) != 2 or len(theirs) != 2:
        raise BadInput(f"{where}: {len(ours)} and {len(theirs)} patterns; the rule narrows takes two pairs")
    groups = [ours[0], theirs[0], ours[1], theirs[1]]
    scores = [rows["value"].tolist() for rows in groups]
    first, second = (mean(scores[i]) - mean(scores[i + 1]) for i in (0, 2))
    evidence = f"differences {_short(first)} and {_short(second)}"
    if min(map(len, scores)) < 2:
        return _undecided(f"{evidence}, {NO_INTERVAL}", needed.cost_of_pairs(*groups))
    sign = 1 if first >= 0 else -1
    weights = [sign, -sign, -sign, sign]
    found = welch_contrast(scores, weights, limits.confidence)
    nums = sorted({len(values) for values in scores})
    evidence += f"; narrower by {_short(found.value)} ({_short(found.low)} to {_short(found.high)}), "
    evidence += _seeds(nums[0]) if len(nums) == 1 else f"{nums[0]} to {_seeds(nums[-1])}"
    cost = functools.partial(_cost_of_seeds, limits, *groups, weights=weights)
    return _decided(limits, found.low, found.high, evidence, cost)


def _after_masking(limits: Limits, claim: dict[str, str], of_split: pd.DataFrame, where: str) -> Verdict:
    """Ours: a probe, whose `agreement` says how often the answer stays. Theirs: the model that it explains."""
    masked, stays, alone = (
        _rows(of_split[of_split["metric"].astype(str).str.fullmatch(metric)], claim[whose], where)
        for metric, whose in ((r"masked_accuracy_\d+", "ours"), (r"agreement_\d+", "ours"), ("accuracy", "theirs"))
    )
    split = alone["split"].iloc[0]
    num = _num_texts(alone, split, "accuracy")
    if num is None or len(alone) != 1:
        raise BadInput(f"{where}: the rule no_loss takes one run on a corpus of `num_texts.csv`")
    changed = 1 - stays["value"].mean()
    found = changed_share_difference(masked["value"].mean(), alone["value"].iloc[0], changed, num, limits.confidence)
    return Verdict(limits.of(found.low, found.high), f"{_difference(found)}, 1 seed, {num} texts")


def _in_the_same_runs(ours: pd.DataFrame, theirs: pd.DataFrame, metric: str, confidence: float) -> Difference | None:
    """The bootstrap over texts and seeds of two methods that explained the same models; None without such scores."""
    runs = sorted(set(ours["run"]))
    if runs != sorted(set(theirs["run"])):
        return None
    methods = (f"{rows['model'].iloc[0]} {metric}" for rows in (ours, theirs))
    return by_text.difference(read_by_text(), runs, *methods, confidence=confidence)


def _num_texts(rows: pd.DataFrame, split: str, metric: str) -> int | None:
    first = rows.iloc[0]
    return num_texts(first["corpus"], first["settings"], split) if metric == "accuracy" else None


def _difference(found: Difference) -> str:
    return f"difference {_short(found.value)} ({_short(found.low)} to {_short(found.high)})"


def _seeds(num: int) -> str:
    return f"{num} seed{'s' * (num != 1)}"


def _short(value: float) -> str:
    """Three digits, or all digits before the point: 0.0123, 18,231."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
