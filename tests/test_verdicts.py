"""The map of claims: each verdict follows from committed numbers, and a claim that numbers cannot decide says why."""

import pandas as pd
import pytest

from rationale.errors import BadInput
from rationale.runs import committed, verdicts
from rationale.runs.workspace import notebook_path


def values(run="12_train_sst/a-seed{}", model="hardkuma", metric="accuracy", scores=(0.4, 0.42, 0.41), settings=""):
    common = {"task": "sst", "corpus": "sst", "aspect": "", "model": model, "network": "", "vectors": "v"}
    common |= {"target": 0.4, "sparsity": 0.0, "settings": settings, "split": "test", "metric": metric}
    return [common | {"run": run.format(seed), "seed": seed, "value": value} for seed, value in enumerate(scores, 1)]


def claim(rule, **changes):
    row = dict.fromkeys(["metric", "ours", "theirs", "value", "margin", "on", "verdict", "why"], "")
    row |= {"paper": "P", "item": "I", "claim": "C", "rule": rule, "metric": "test accuracy"}
    return row | {"ours": "12_train_sst/a-seed*", "theirs": "12_train_sst/b-seed*"} | changes


A = values()  # .41, interval .385 to .435
HIGHER, NEAR = (values("12_train_sst/b-seed{}", scores=s) for s in ((0.5, 0.51, 0.52), (0.411, 0.412, 0.41)))


@pytest.mark.parametrize(
    ("rule", "others", "changes", "verdict"),
    [
        ("contains", [], {"value": ".43"}, "reproduced"),
        ("contains", [], {"value": ".45"}, "contradicted"),
        ("contains", [], {"value": ".44", "margin": ".01"}, "reproduced"),
        ("at_least", [], {"value": ".38"}, "reproduced"),
        ("at_least", [], {"value": ".4"}, "open"),
        ("at_least", [], {"value": ".45"}, "contradicted"),
        ("at_most", [], {"value": ".44"}, "reproduced"),
        ("at_most", [], {"value": ".42"}, "open"),
        ("at_most", [], {"value": ".38"}, "contradicted"),
        ("above", HIGHER, {}, "contradicted"),
        ("below", HIGHER, {}, "reproduced"),
        ("above", NEAR, {}, "open"),
        ("below", NEAR, {}, "open"),
        ("within", HIGHER, {"margin": ".05"}, "contradicted"),
        ("within", HIGHER, {"margin": ".2"}, "reproduced"),
        ("within", NEAR, {"margin": ".001"}, "open"),
    ],
)
def test_a_verdict_is_that_of_the_interval(rule, others, changes, verdict):
    found = verdicts.judge(claim(rule, **changes), pd.DataFrame([*A, *others]))
    assert found.verdict == verdict, found.evidence
    assert "3 seeds" in found.evidence


def test_one_seed_decides_only_by_its_number_of_texts():
    one, other = values(scores=[0.4]), values("12_train_sst/b-seed{}", scores=[0.5])
    assert verdicts.judge(claim("contains", value=".41"), pd.DataFrame(one)).verdict == "reproduced"  # 2,210 sentences
    assert verdicts.judge(claim("above"), pd.DataFrame([*one, *other])).verdict == "contradicted"
    for rule in ("contains", "above"):
        rows = [row | {"metric": "mse"} for row in [*one, *other]]
        found = verdicts.judge(claim(rule, metric="test mse", value=".9"), pd.DataFrame(rows))
        assert found.verdict == "open" and verdicts.NO_INTERVAL in found.evidence


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (claim("better"), "P, I, 'C': rule 'better' is unknown; accepted: contains"),
        (claim("contains", ours="12_train_sst/c*"), "matches no committed run that has this metric"),
        (claim("contains", ours="12_train_sst/*"), "has to match runs that differ in the seed only"),
        (claim("none", verdict="reproduced"), "without a rule, the verdict is 'open' or 'out of reach'"),
        (claim("check"), "section '' of no notebook has no cell tagged `check`"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_named(row, message):
    rows = [*A, *values("12_train_sst/b-seed{}", settings="epochs=2")]
    with pytest.raises(BadInput, match=message.replace("*", r"\*")):
        verdicts.judge(row, pd.DataFrame(rows))


def test_a_section_has_a_check_only_if_one_stands_before_the_next_section():
    assert verdicts.has_check("03_hardkuma", "Stretch")
    text = notebook_path("00_read_me_first").read_text()
    assert "## Next" in text and not verdicts.has_check("00_read_me_first", "Next")
    assert not verdicts.has_check("03_hardkuma", "No such section")


def test_the_committed_verdicts_are_those_of_the_committed_results():
    claims = verdicts.read_claims()
    again = verdicts.with_verdicts(claims, committed.read_results())
    stale = claims.loc[again["verdict"] != claims["verdict"], ["item", "claim"]].values.tolist()
    assert not stale, f"python -m tools.collect --tables-only, then read their `why` again: {stale}"


def test_each_table_and_figure_of_the_papers_has_a_claim_and_each_verdict_its_reason():
    claims, papers = verdicts.read_claims(), verdicts.read_papers()
    assert set(zip(claims["paper"], claims["item"], strict=True)) == set(
        zip(papers["paper"], papers["item"], strict=True)
    )
    assert not claims.duplicated(["paper", "item", "claim"]).any()
    for row in claims.itertuples():
        assert row.verdict in verdicts.VERDICTS and row.rule in verdicts.RULES, row
        assert row.why or row.verdict == "reproduced", f"{row.claim}: {row.verdict}, and why?"
        if row.verdict == "contradicted":
            tested = "section" in row.why or "RESULTS.md" in row.why
            assert tested or row.why.startswith(verdicts.NOT_TESTED), f"{row.claim}: which experiment found the cause?"
