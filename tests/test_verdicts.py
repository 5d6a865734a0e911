"""The map of claims: each verdict follows from committed numbers, and a claim that numbers cannot decide says why."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from rationale.errors import BadInput
from rationale.runs import committed, needed, verdicts
from rationale.runs.workspace import notebook_path
from rationale.statistics import mean_interval, pair_interval, share_difference


def values(run="12_train_sst/a-seed{}", model="hardkuma", metric="accuracy", scores=(0.4, 0.42, 0.41), settings=""):
    common = {"task": "sst", "corpus": "sst", "aspect": "", "model": model, "network": "", "vectors": "v"}
    common |= {"target": 0.4, "sparsity": 0.0, "settings": settings, "split": "test", "metric": metric}
    return [common | {"run": run.format(seed), "seed": seed, "value": value} for seed, value in enumerate(scores, 1)]


def claim(rule, **changes):
    row = dict.fromkeys(["metric", "ours", "theirs", "value", "margin", "on", "verdict", "why"], "")
    row |= {"paper": "P", "item": "I", "claim": "C", "rule": rule, "metric": "test accuracy"}
    return row | {"ours": "12_train_sst/a-seed*", "theirs": "12_train_sst/b-seed*"} | changes


A = values()  # .41, interval .385 to .435
HIGHER, NEAR, LOWER = (
    values("12_train_sst/b-seed{}", scores=s) for s in ((0.5, 0.51, 0.52), (0.411, 0.412, 0.41), (0.31, 0.32, 0.3))
)


DECIDED = ("reproduced", "contradicted")


@pytest.mark.parametrize(
    ("rule", "others", "changes", "verdict"),
    [
        ("contains", [], {"value": ".42"}, "reproduced"),
        ("contains", [], {"value": ".43"}, "undecided"),  # met, but the interval reaches more than a tenth from it
        ("contains", [], {"value": ".45"}, "contradicted"),
        ("contains", [], {"value": ".44", "margin": ".06"}, "reproduced"),
        ("contains", [], {"value": ".04", "margin": ".4"}, "reproduced"),  # no wider than it is rounded
        ("one_run", [], {"value": ".42"}, "reproduced"),
        ("one_run", [], {"value": ".45"}, "undecided"),  # one more run lies between .360 and .460
        ("one_run", [], {"value": ".47"}, "contradicted"),
        ("one_run", [], {"value": ".47", "margin": ".015"}, "undecided"),
        ("apart", [], {"value": ".5", "margin": ".05"}, "reproduced"),
        ("apart", [], {"value": ".4", "margin": ".05"}, "contradicted"),
        ("apart", [], {"value": ".4", "margin": ".03"}, "undecided"),
        ("at_least", [], {"value": ".38"}, "reproduced"),
        ("at_least", [], {"value": ".4"}, "undecided"),
        ("at_least", [], {"value": ".45"}, "contradicted"),
        ("at_most", [], {"value": ".44"}, "reproduced"),
        ("at_most", [], {"value": ".42"}, "undecided"),
        ("at_most", [], {"value": ".38"}, "contradicted"),
        ("above", HIGHER, {}, "contradicted"),
        ("below", HIGHER, {}, "reproduced"),
        ("above", NEAR, {}, "undecided"),
        ("below", NEAR, {}, "undecided"),
        ("within", HIGHER, {"margin": ".05"}, "contradicted"),
        ("within", HIGHER, {"margin": ".2"}, "reproduced"),
        ("within", NEAR, {"margin": ".001"}, "undecided"),
        ("ahead_by", LOWER, {"value": ".1"}, "reproduced"),
        ("ahead_by", LOWER, {"value": ".2"}, "contradicted"),
        ("ahead_by", NEAR, {"value": ".01"}, "undecided"),
        ("ahead_by", NEAR, {"value": ".05"}, "contradicted"),
    ],
)
def test_a_verdict_is_that_of_the_interval(rule, others, changes, verdict):
    found = verdicts.judge(claim(rule, **changes), pd.DataFrame([*A, *others]))
    assert found.verdict in ((verdict,) if found.verdict in DECIDED else ("open", "out of reach")), found.evidence
    assert (found.verdict in DECIDED) == (verdict in DECIDED) == (not found.cost), found.cost
    assert "3 seeds" in found.evidence


def test_an_interval_that_would_agree_with_nearly_every_number_agrees_with_none():
    wide = pd.DataFrame(values(scores=(0.2, 0.4, 0.6)))  # mean .4, interval -.1 to .9
    for rule in ("contains", "one_run"):
        found = verdicts.judge(claim(rule, value=".45"), wide)
        assert found.verdict == "out of reach" and found.cost.startswith("too close to call"), rule
        assert ("one more run: -0.594 to 1.39" in found.evidence) == (rule == "one_run")
    assert verdicts.judge(claim("contains", value="1.2"), wide).verdict == "contradicted"
    assert verdicts.judge(claim("one_run", value="1.2"), wide).verdict == "open", "a run of ours may be there"


def test_the_published_number_of_one_run_is_contradicted_once_in_twenty_if_our_runs_are_like_it():
    draws, num = np.random.default_rng(1), 1000
    for seeds in (3, 10):
        contradicted = 0
        for published, *scores in 1 + draws.normal(size=(num, 1 + seeds)):
            half = (mean_interval(scores)[1] - np.mean(scores)).item()
            limits = verdicts.Limits("one_run", published)
            contradicted += limits.of(np.mean(scores) - half, np.mean(scores) + half, seeds) == "contradicted"
        assert contradicted / num == pytest.approx(0.05, abs=0.021), "three standard errors"


def test_a_published_lead_stands_beside_where_one_more_pair_of_runs_may_be():
    rows = pd.DataFrame([*A, *LOWER])
    found = verdicts.judge(claim("ahead_by", value=".1"), rows, confidence=0.8)
    low, high = pair_interval(*([row["value"] for row in part] for part in (A, LOWER)), confidence=0.8)
    assert found.evidence.endswith(f"published 0.1; one more pair of runs: {low:.3g} to {high:.3g}")


def test_one_seed_decides_only_by_its_number_of_texts():
    one, other = values(scores=[0.4]), values("12_train_sst/b-seed{}", scores=[0.5])
    assert verdicts.judge(claim("contains", value=".41"), pd.DataFrame(one)).verdict == "reproduced"  # 2,210 sentences
    assert verdicts.judge(claim("above"), pd.DataFrame([*one, *other])).verdict == "contradicted"
    for rule in ("contains", "above"):
        rows = [row | {"metric": "mse"} for row in [*one, *other]]
        found = verdicts.judge(claim(rule, metric="test mse", value=".9"), pd.DataFrame(rows))
        assert found.verdict == "open" and verdicts.NO_INTERVAL in found.evidence


@pytest.mark.parametrize("means", [[0.1, 0.04], [0.1, 0.02, 0.05], [0.1, -0.09]])
def test_a_claim_over_corpora_needs_more_corpora(means):
    def decide(low, high, num):
        return "reproduced" if low > 0 else "open"

    enough = [num for num in range(len(means), 21) if np.mean(means) > half_width(np.std(means, ddof=1), num)]
    cost = needed.cost_of_corpora(decide, means)
    words = f"decided by {enough[0]} corpora" if enough else "too close to call: not decided by 20 corpora"
    assert cost.words == f"{words}, if their mean and spread stay; {len(means)} are here" and cost.is_too_much


def half_width(spread, num):
    """Half of the width of Student's interval of a mean of `num` values with this spread."""
    return scipy.stats.t.ppf(0.975, num - 1) * spread / num**0.5


def test_two_accuracies_of_one_seed_have_the_texts_of_their_own_runs():
    one, other = values(scores=[0.4]), values("12_train_sst/b-seed{}", scores=[0.5], settings="num_test=20")
    for ours, theirs in ((one, other), (other, one)):
        table = pd.DataFrame([*ours, *theirs])
        row = claim("above", ours=ours[0]["run"], theirs=theirs[0]["run"])
        nums = [2210 if rows is one else 20 for rows in (ours, theirs)]
        found = share_difference(ours[0]["value"], theirs[0]["value"], *nums)
        assert verdicts.judge(row, table).evidence == f"{verdicts._difference(found)}, 1 seed"
        assert verdicts.judge(row, table).verdict == "open"


def test_pairs_of_settings_count_once_for_each_corpus_and_there_once_for_each_aspect():
    rows, pairs = [], {"ours": [], "theirs": []}
    scores = [((0.5, 0.52), (0.4,)), ((0.3,), (0.2, 0.24)), ((0.45,), (0.38,)), ((0.6,), (0.5,))]
    for number, (better, worse) in enumerate(scores):
        for side, of_side in (("ours", better), ("theirs", worse)):
            name = f"12_train_sst/{side}{number}-seed"
            made = values(f"{name}{{}}", scores=of_side, settings=f"epochs={number + 2}")
            rows += [row | {"corpus": "xy"[number // 3], "aspect": "ab"[number // 2]} for row in made]
            pairs[side].append(f"{name}*")
    joined = {side: verdicts.PAIRS.join(patterns) for side, patterns in pairs.items()}
    table = pd.DataFrame(rows)
    leads = [0.11, 0.08], [0.07], [0.1]  # of two aspects on x and of one on y
    x, y = (np.mean(leads[0]) + leads[1][0]) / 2, leads[2][0]
    low, high = mean_interval([x, y])
    found = verdicts.judge(claim("above", **joined), table)
    assert found.verdict == "out of reach" and low < 0, "four pairs, but two corpora, and more seeds do not decide"
    assert found.evidence == (
        f"difference {(x + y) / 2:.3g} ({low:.3g} to {high:.3g}), 2 corpora; 4 of 4 pairs have this sign"
    )
    assert found.cost == "decided by 3 corpora, if their mean and spread stay; 2 are here"
    assert verdicts.judge(claim("within", margin=".3", **joined), table).verdict == "reproduced"
    for wrong in (joined | {"theirs": joined["ours"]}, joined | {"theirs": pairs["theirs"][0]}):
        with pytest.raises(BadInput, match="accepted are pairs that share no run"):
            verdicts.judge(claim("above", **wrong), table)
    with pytest.raises(BadInput, match="accepted are pairs on two or more"):
        verdicts.judge(claim("above", **joined), table.assign(corpus="x"))


def probed(masked, stays):
    """A model on the 2,210 test sentences of SST, and a probe of two layers."""
    alone = values("14_train_probes/p-seed{}", "subject", scores=[0.5])
    for name, value in (("masked_accuracy", masked), ("agreement", stays)):
        for layer in range(2):
            alone += values("14_train_probes/p-seed{}", "inputs", f"{name}_{layer}", [value])
    return pd.DataFrame(alone)


@pytest.mark.parametrize(
    ("masked", "stays", "verdict"), [(0.45, 0.8, "contradicted"), (0.49, 0.8, "open"), (0.55, 0.9, "reproduced")]
)
def test_what_masking_costs_is_judged_by_the_answers_that_changed(masked, stays, verdict):
    runs = {"ours": "14_train_probes/p-seed1 inputs", "theirs": "14_train_probes/p-seed1 subject"}
    found = verdicts.judge(claim("no_loss", **runs), probed(masked, stays))
    assert found.verdict == verdict and "2210 texts" in found.evidence


@pytest.mark.parametrize(
    ("leads", "verdict"), [((0.1, 0.02), "reproduced"), ((0.02, 0.1), "contradicted"), ((0.1, 0.098), "out of reach")]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_difference_narrows_if_it_is_smaller_in_the_second_pair_whoever_is_ahead(leads, verdict, sign):
    level, rows = [0.40, 0.41, 0.42], []
    for setting, lead in zip("cd", leads, strict=True):
        rows += values(f"12_train_sst/{setting}-ours-seed{{}}", scores=level)
        rows += values(f"12_train_sst/{setting}-theirs-seed{{}}", scores=[score - sign * lead for score in level])
    sides = {side: f"12_train_sst/c-{side}-seed*; 12_train_sst/d-{side}-seed*" for side in ("ours", "theirs")}
    found = verdicts.judge(claim("narrows", **sides), pd.DataFrame(rows))
    assert found.verdict == verdict, found.evidence
    assert f"differences {sign * leads[0]:g} and {sign * leads[1]:g}; narrower by" in found.evidence, found.evidence
    only = pd.DataFrame(rows).query("seed == 1")
    assert verdicts.judge(claim("narrows", **sides), only).cost.startswith("for 3 seeds of each")
    one_pair = {side: found.split("; ")[0] for side, found in sides.items()}
    with pytest.raises(BadInput, match="1 and 1 patterns; the rule narrows takes two pairs"):
        verdicts.judge(claim("narrows", **one_pair), pd.DataFrame(rows))


def test_an_open_claim_says_how_many_seeds_would_decide_it():
    near = values("12_train_sst/b-seed{}", scores=[0.402, 0.403, 0.401])  # .008 below A, whose spread is .01
    for num in range(3, 21):
        rows = [row for name, scores in (("a", A), ("b", near)) for row in spread(name, scores, num)]
        if verdicts.judge(claim("above"), pd.DataFrame(rows)).verdict != "open":
            break
    cost = verdicts.judge(claim("above"), pd.DataFrame([*A, *near])).cost
    assert cost == f"decided by {num} seeds of each, if means and spreads stay"
    level = values("12_train_sst/b-seed{}", scores=[row["value"] for row in A])
    close = verdicts.judge(claim("above"), pd.DataFrame([*A, *level]))
    assert close.cost.startswith("too close to call: not decided by 20 seeds of each")
    assert close.verdict == "out of reach" and close.evidence.startswith("difference 0 (")
    one = [row | {"metric": "mse"} for row in values(scores=[0.4])]
    assert verdicts.judge(claim("at_most", metric="test mse", value="1"), pd.DataFrame(one)).cost == "for 3 seeds"
    assert not verdicts.judge(claim("above"), pd.DataFrame([*A, *HIGHER])).cost


def test_the_seeds_that_would_decide_do_so_by_the_interval_that_leaves_a_claim_open():
    near = values("12_train_sst/b-seed{}", scores=[0.37, 0.38, 0.36])  # 95 % decide with these seeds
    table, strict = pd.DataFrame([*A, *near]), {"confidence": 0.999}
    assert verdicts.judge(claim("above"), table).verdict == "reproduced"
    for num in range(3, 21):
        rows = [row for name, scores in (("a", A), ("b", near)) for row in spread(name, scores, num)]
        if verdicts.judge(claim("above"), pd.DataFrame(rows), **strict).verdict != "open":
            break
    assert num > 3
    cost = verdicts.judge(claim("above"), table, **strict).cost
    assert cost == f"decided by {num} seeds of each, if means and spreads stay"


def test_a_run_with_several_methods_costs_its_time_once(monkeypatch):
    rows = {
        name: pd.DataFrame(values("14_train_probes/x-seed{}", model=name, scores=scores))
        for name, scores in (("states", (0.1, 0.2, 0.3)), ("inputs", (0.2, 0.3, 0.1)))
    }
    minutes = pd.Series({f"14_train_probes/x-seed{seed}": 10.0 for seed in (1, 2, 3)})
    monkeypatch.setattr(needed, "minutes_of_runs", lambda: minutes)
    for groups in ([rows["states"]], list(rows.values())):
        cost = needed.cost_of_seeds(lambda low, high, num: "open" if num < 5 else "reproduced", *groups)
        assert cost.minutes == 20, "two more runs, each with both methods"
    other = pd.DataFrame(values("14_train_probes/y-seed{}", scores=(0.2, 0.3, 0.1)))
    monkeypatch.setattr(needed, "minutes_of_runs", lambda: pd.concat([minutes, pd.Series({other["run"][0]: 5.0})]))
    assert needed.cost_of_seeds(lambda *end: "open" if end[2] < 5 else "x", rows["states"], other).minutes == 30


def spread(name, rows, num):
    """Scores of so many seeds, with the mean and the spread of these rows."""
    scores = pd.Series([row["value"] for row in rows])
    shape = pd.Series(range(num), dtype=float)
    moved = scores.mean() + (shape - shape.mean()) / shape.std() * scores.std()
    return values(f"12_train_sst/{name}-seed{{}}", scores=moved.tolist())


def test_the_time_that_is_needed_is_that_of_like_runs():
    minutes = pd.Series({"13_train_nli/softmax-seed1": 8.0, "13_train_nli/softmax-seed2": 10.0})
    row = {"num": "3", "like": "13_train_nli/softmax-seed*", "texts": "", "epochs": ""}
    assert needed.cost_of_listed(pd.DataFrame([row]), minutes) == ("not run: 3 runs, 27 minutes on one core", 27)
    longer = row | {"num": "1", "texts": str(10 * 64974), "epochs": "24"}
    long = needed.cost_of_listed(pd.DataFrame([longer]), minutes)
    assert long.words == "not run: 1 run, 3.0 hours on one core"
    assert verdicts.judge(claim("none"), pd.DataFrame(), cost=long) == ("open", "", long.words)
    longest = needed.cost_of_listed(pd.DataFrame([longer | {"num": "2"}]), minutes)
    assert verdicts.judge(claim("none"), pd.DataFrame(), cost=longest) == ("out of reach", "", longest.words)
    assert verdicts.judge(claim("missing"), pd.DataFrame()) == ("out of reach", "", "")
    with pytest.raises(BadInput, match="needed.csv: '13_train_nli/hard' matches no committed run"):
        needed.cost_of_listed(pd.DataFrame([row | {"like": "13_train_nli/hard"}]), minutes)


def test_a_rule_that_was_written_before_its_runs_judges_them_as_soon_as_they_are_there():
    cost = needed.Cost("not run: 3 runs, 30 minutes on one core", 30)
    for rule, theirs in (("at_least", ""), ("above", "12_train_sst/b-seed*")):
        row = claim(rule, theirs=theirs, value=".38", metric="test grouped")
        grouped, lower = ([one | {"metric": "grouped"} for one in rows] for rows in (A, LOWER))
        for there in ([*A, *LOWER], [*A, *grouped][: None if theirs else len(A)]):
            assert verdicts.judge(row, pd.DataFrame(there), cost=cost) == ("open", "", cost.words)
        found = verdicts.judge(row, pd.DataFrame([*grouped, *lower]), cost=cost)
        assert found.verdict == "reproduced" and found.evidence and not found.cost
    dear = needed.Cost("not run: 9 runs, 9 hours on one core", 540)
    assert verdicts.judge(row, pd.DataFrame(A), cost=dear).verdict == "out of reach"
    with pytest.raises(BadInput, match="matches no committed run that has this metric"):
        verdicts.judge(row, pd.DataFrame(A))  # needed.csv does not list it


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (claim("better"), "P, I, 'C': rule 'better' is unknown; accepted: contains"),
        (claim("contains", ours="12_train_sst/c*"), "matches no committed run that has this metric"),
        (claim("contains", ours="12_train_sst/*"), "has to match runs that differ in the seed only"),
        (claim("none"), "nobody has measured it, and needed.csv does not list the runs that would"),
        (claim("check"), "section '' of no notebook has no cell tagged `check`"),
        (claim("no_loss", theirs="12_train_sst/a-seed*"), "matches no committed run that has this metric"),
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
            assert not row.why.startswith("not known"), (
                f"{row.claim}: begin with {verdicts.NOT_KNOWN!r}, which is counted"
            )
            tested = "section" in row.why or "RESULTS.md" in row.why
            assert tested or row.why.startswith(verdicts.NOT_KNOWN), f"{row.claim}: which experiment found the cause?"


NUMBERS = "no one two three four five six seven eight nine ten".split()


def test_the_seeds_that_a_reason_names_are_those_of_its_evidence():
    judged = verdicts.with_verdicts(verdicts.read_claims(), committed.read_results())
    named = judged["why"].str.extract(r"(?<!\()\b(\w+) seeds of each\b")[0].dropna()  # in brackets: other runs
    assert len(named) > 2, "the case that is tried"
    for index, number in named.items():
        seeds = f"), {NUMBERS.index(number)} seeds"
        assert judged.loc[index, "evidence"].endswith(seeds), f"{judged.loc[index, 'claim']}: {number} seeds of each"


def test_where_the_items_of_the_papers_stand_names_no_number_of_seeds():
    notes = verdicts.read_papers()["note"]
    told = notes[notes.str.contains(rf"\b(?:{'|'.join(NUMBERS)}|\d+) seeds?\b")]
    assert not list(told), "more seeds may be committed later, and the column beside it counts the runs"


def test_each_open_claim_says_what_would_decide_it_and_nothing_else_is_listed():
    judged = verdicts.with_verdicts(verdicts.read_claims(), committed.read_results())
    undecided = judged["verdict"].isin(["open", "out of reach"]) & judged["rule"].ne("missing")
    wrong = judged[undecided != judged["cost"].ne("")]
    assert wrong.empty, wrong[["item", "claim"]].values.tolist()
    keys, listed = ["paper", "item", "claim"], needed.read_needed()
    known = judged.set_index(keys)
    for key in listed[keys].itertuples(index=False, name=None):
        assert key in known.index, f"needed.csv: no claim of claims.csv is {key}"
        assert not known.loc[key, "evidence"], f"needed.csv: {key} is judged by numbers, its cost is computed"


def test_a_published_lead_is_that_of_the_published_numbers():
    published = committed.read_published()
    claims = verdicts.read_claims().query("rule == 'ahead_by'")
    assert len(claims)
    for row in claims.itertuples():
        metric = row.metric.partition(" ")[2]
        task, models = row.ours.partition("_train_")[2].partition("/")[0], (row.ours, row.theirs)
        names = [_published_model(pattern) for pattern in models]
        of_paper = published[published["source"].str.startswith(row.paper.rpartition(" ")[0])]
        of_task = of_paper[of_paper["task"].eq(task) & of_paper["metric"].eq(metric)].set_index("model")["value"]
        assert float(row.value) == pytest.approx(of_task[names[0]] - of_task[names[1]], abs=1e-9), row.claim


def _published_model(pattern):
    """The model of a pattern of runs. The paper has one score function, which leaves the multiplier out."""
    name = pattern.rpartition(" ")[2] if " " in pattern else pattern.partition("/")[2].partition("-")[0]
    return "masks_by_released_score" if name == "masks_by_score" else name


@pytest.mark.parametrize(("item", "metric", "corpora"), [
    ("Table 2", "precision", ["synthetic", "movies", "imdb_rationales"]), ("Figure 3", "mse", ["synthetic", "hotels"]),
])  # fmt: skip
def test_gates_are_compared_at_each_aspect_and_target_at_which_both_were_trained(item, metric, corpora):
    claims = verdicts.read_claims()
    (row,) = claims[claims["item"].eq(item) & claims["claim"].str.endswith("at the same rates")].to_dict("records")
    results = committed.read_results().query("corpus in @corpora and split == 'test' and metric == @metric")
    trials = results["run"].str.contains(
        "dependentfalse|num_train|transitionsnull|predictorzero|epochs30-(?:samples|entropy)"
    )
    results = results[results["run"].str.startswith("11_") & ~trials]
    kinds = results.assign(kind=results["run"].str.replace(r"-seed\d+$", "-seed*", regex=True))
    trained = kinds.groupby(["corpus", "aspect", "target", "model"])["kind"].unique().unstack("model")
    both = trained[["hardkuma", "bernoulli"]].dropna()
    listed = list(zip(*(row[side].split(verdicts.PAIRS) for side in ("ours", "theirs")), strict=True))
    assert sorted(listed) == sorted((a, b) for (a,), (b,) in both.itertuples(index=False))
