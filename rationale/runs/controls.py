"""Gate and control apart: the committed runs of the sweep `sst_control`, and how far they differ.

Gates of two kinds are each held at a rate by a constraint, and kept from selecting by a price per word. Everything else
is the same (`params/sst/control.yaml`). A price is chosen on dev, so that the rate is near the target of a constraint.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rationale.errors import optional
from rationale.runs import by_text, compare
from rationale.runs.committed import parameters_of, runs_with
from rationale.statistics import paired_bootstrap

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

CONSTRAINT, PRICE = "constraint", "price"
OF_GATES = {"hardkuma": "HardKuma", "bernoulli": "Bernoulli"}
METRICS = ("accuracy", "rate_selected", "word_precision", "count_tells", "answer_share", "agreement")
COMPARED = {  # (gate, control) and (gate, control): what differs
    "gates, both under the constraint": (("HardKuma", CONSTRAINT), ("Bernoulli", CONSTRAINT)),
    "gates, both with a price": (("HardKuma", PRICE), ("Bernoulli", PRICE)),
    "controls of HardKuma": (("HardKuma", CONSTRAINT), ("HardKuma", PRICE)),
    "controls of Bernoulli": (("Bernoulli", CONSTRAINT), ("Bernoulli", PRICE)),
    "gate and control, as in the paper": (("HardKuma", CONSTRAINT), ("Bernoulli", PRICE)),
}
IN_WORDS = {  # what differs -> which model minus which
    "gates, both under the constraint": "HardKuma minus Bernoulli, both under the constraint",
    "gates, both with a price": "HardKuma minus Bernoulli, both with a price",
    "controls of HardKuma": "HardKuma, constraint minus price",
    "controls of Bernoulli": "Bernoulli, constraint minus price",
    "gate and control, as in the paper": "HardKuma under the constraint minus Bernoulli with a price",
}


def rows_of_controls(results: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of the committed runs of the sweep `sst_control`; none if there are none."""
    shared = parameters_of("sst/control.yaml")
    rows = []
    for model in OF_GATES:
        alike = parameters_of(f"sst/{model}.yaml") | shared | {"model": model}
        alike.pop("selection", None)  # any target, or a price
        rows.append(runs_with(results, required=False, **alike))
    return pd.concat(rows)


def by_control(results: "pd.DataFrame") -> "pd.DataFrame":
    """One row per gate, control and target, from the rows of `rows_of_controls`.

    Returns
    -------
    DataFrame
        `gate`, `control` and `target` (of a price: the target of a constraint that is nearest to its rate on dev), the
        means of `METRICS` on test, with their standard deviations (`_std`) and numbers of runs (`_seeds`), `price`, the
        number of `seeds`, and `runs`, a tuple of names. Of several prices at one target, the nearest one counts.
    """
    columns = ["gate", "control", "target"]
    told = [
        "price",
        *METRICS,
        *(f"{name}_{what}" for name in METRICS for what in ("std", "seeds")),
        "seeds",
        "corpus",
        "settings",
        "runs",
    ]
    test = compare.summary(results, METRICS)
    if test.empty:
        return pd.DataFrame(columns=[*columns, *told])
    kinds = [*compare.KIND, "settings"]
    on_dev = compare.summary(results, ["rate_selected"], "dev").set_index(kinds)["rate_selected"]
    test["on_dev"] = on_dev.reindex(pd.MultiIndex.from_frame(test[kinds])).to_numpy()
    targets = sorted(set(test.loc[test["target"] < 1, "target"]))
    held = test["target"] < 1
    nearest = [min(targets or [1.0], key=lambda target: abs(target - rate)) for rate in test["on_dev"]]
    names = results.groupby(kinds)["run"].agg(lambda runs: tuple(sorted(set(runs))))
    table = test.assign(
        gate=test["model"].map(OF_GATES),
        control=held.map({True: CONSTRAINT, False: PRICE}),
        price=test["sparsity"],
        runs=names.reindex(pd.MultiIndex.from_frame(test[kinds])).to_numpy(),
    )
    table["target"] = test["target"].where(held, nearest)
    table = table.assign(off=(table["on_dev"] - table["target"]).abs().where(~held, 0)).sort_values("off")
    table = table.drop_duplicates(columns).sort_values(["target", "control", "gate"], ascending=[True, True, False])
    return table[[*columns, *told]].reset_index(drop=True)


def differences(table: "pd.DataFrame", scores: "pd.DataFrame") -> "pd.DataFrame":
    """The differences of accuracy in `COMPARED` at each target, with bootstrap intervals over sentences and seeds.

    Parameters
    ----------
    table : of `by_control`
    scores : of `committed.read_by_text`

    Returns
    -------
    DataFrame
        `what` differs, `target`, the two names `ours` and `theirs`, the two rates, the `seeds` of each, and `points`
        with `low`, `high` and `significant`. Rows whose runs have no scores by sentence are left out.
    """
    of = {(row.gate, row.control, row.target): row for row in table.itertuples()}
    there, rows = set(scores["run"]), []
    for what, (one, other) in COMPARED.items():
        for target in sorted(set(table["target"])):
            ours, theirs = of.get((*one, target)), of.get((*other, target))
            if ours is None or theirs is None or not there.issuperset([*ours.runs, *theirs.runs]):
                continue
            right, other_right = (by_text.stacked(scores, side.runs, "accuracy") for side in (ours, theirs))
            found = paired_bootstrap(right, other_right)
            rows.append({"what": what, "target": target, "ours": " with a ".join(one), "theirs": " with a ".join(other),
                         "our rate": ours.rate_selected, "their rate": theirs.rate_selected,
                         "seeds": min(ours.seeds, theirs.seeds), "points": 100 * found.value, "low": 100 * found.low,
                         "high": 100 * found.high, "significant": found.is_significant})  # fmt: skip
    columns = ["what", "target", "ours", "theirs", "our rate", "their rate", "seeds", "points", "low", "high",
               "significant"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def difference_in_words(row: Mapping[str, Any]) -> str:
    """A row of `differences` in words: "+1.2 points (0.3 to 2.1) at 40% (Bernoulli: 38%)"."""
    rates = f"at {row['our rate']:.0%} ({row['theirs'].partition(' ')[0]}: {row['their rate']:.0%})"
    return f"{row['points']:+.1f} points ({row['low']:+.1f} to {row['high']:+.1f}) {rates}"


def in_a_paragraph(apart: "pd.DataFrame", published: float, target: float = 0.4) -> str:
    """When HardKuma is better and when it is not, and what is left of the paper's difference, in whole sentences.

    Parameters
    ----------
    apart : of `differences`
    published : float
        The paper's difference of HardKuma and Bernoulli gates, in points.
    target : float
        The target at which it was published.
    """
    sentences = []
    for control, what in ((CONSTRAINT, "gates, both under the constraint"), (PRICE, "gates, both with a price")):
        rows = apart[apart["what"] == what].to_dict("records")
        kinds: dict[str, list[str]] = {"better than": [], "worse than": [], "not told apart from": []}
        for row in rows:
            better = "better than" if row["points"] > 0 else "worse than"
            kinds[better if row["significant"] else "not told apart from"].append(difference_in_words(row))
        told = [f"{kind} Bernoulli gates by {', '.join(found)}" for kind, found in kinds.items() if found]
        if told:
            joined = "; it is ".join(told).replace("apart from Bernoulli gates by", "apart from Bernoulli gates:")
            sentences.append(f"With a {control}, HardKuma is {joined}.")
    at = apart[apart["target"] == target].set_index("what")
    if (both := "gate and control, as in the paper") in at.index:
        row = at.loc[both]
        side = "in" if row["low"] <= published <= row["high"] else "below" if row["high"] < published else "above"
        interval = "inside our interval" if side == "in" else f"and our interval lies {side} it"
        sentences.append(
            f"If gate and control both differ, as in the paper, the difference at a target of {target:.0%} is "
            f"{difference_in_words(row)}. The paper's is {published:+.1f} points, {interval}."
        )
    return " ".join(sentences)
