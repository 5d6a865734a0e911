# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Compare runs over the selection rate
#
# A single run tells you how good one model is at one rate. In this notebook we look at a whole sweep. We ask how the
# accuracy depends on the share of selected text, and what the rationales are worth.
#
# **You will** put the runs of a sweep side by side. You will see accuracy against the share of selected text (Figure
# 4 of Bastings et al. 2019), the sentiment of the selected words (Figure 5), and how well each run kept to its
# target.
#
# **You will learn** how little text is enough, what the spread over seeds is, and how to read our numbers next to
# published ones. You will also see what a rationale is worth beside the accuracy. We ask whether it is faithful,
# plausible, stable and calibrated.
#
# **You need** the runs of a sweep (`make sweep SWEEP=sst_hardkuma`, `SWEEP=sst_bernoulli`), or nothing. If you leave
# `runs` empty, we read the committed results. The page takes less than a minute.

# %% tags=["parameters"]
runs_dir: str = "outputs/12_train_sst"  # folder of the runs
runs: list = []  # names of the runs; empty: the committed outputs/reference/results.csv

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

from rationale import figures, statistics
from rationale.data.corpora.sst import LABELS as SENTIMENTS
from rationale.explorers import explore_rates, explore_saved_rates
from rationale.runs import by_text, claims, committed, compare, controls, results_folder, root, validated
from rationale.runs.exports import Exports

# %%
p = validated(globals())
folder = results_folder("31_selection_rates")
if p.runs:
    results = compare.rows_of_all(p.runs_dir, p.runs, "sst")
else:
    results = committed.rows_of_figure_4(committed.read_results())
export = Exports(folder, results)
export.show_runs()
words = {"accuracy": "accuracy", "accuracy_std": "std of the accuracy", "rate_expected": "expected",
         "rate_selected": "selected", "sparsity": "price per word", "word_precision": "precision",
         "word_recall": "recall", "word_f1": "F1", "sufficiency_aopc": "sufficiency over budgets",
         "comprehensiveness_aopc": "comprehensiveness over budgets", "count_tells": "told by the number",
         "answer_share": "floor", "first_words": "first words"}  # fmt: skip
heads = words | {f"{name}_{split}": f"{said}, {split}" for name, said in words.items() for split in ("dev", "test")}

# %% [markdown]
# ## 1. One row per setting
#
# We average over seeds, and over nothing else. Each setting that differs between runs of one model is a column. (The
# settings that differ from one model to another are folded away above.) A column with *std* in its name is the standard
# deviation of the sample.
#
# You will meet two rates. *Expected* is the mean over sentences of the expected share of words with $z \ne 0$.
# *Selected* is the share of words with $z \ne 0$ by the test-time rule. (In training, attention gives every word a
# weight above 0, so its expected share is 1. It selects the words with the largest weights.) Every table and figure of
# this notebook is also saved for a paper. The table below is of the test split, and the saved one has the dev split as
# well. You find CSV and LaTeX in `tables/`, and SVG, PDF and PNG in `figures/`.

# %%
metrics_shown = ["accuracy", "rate_expected", "rate_selected"]
dev, test = (compare.summary(results, metrics_shown, split) for split in ("dev", "test"))
keys = [*compare.KIND, "settings"]
numbers = [*metrics_shown, "accuracy_std", "seeds"]
both = dev[[*keys, *numbers]].merge(test, on=[*keys, "seeds"], suffixes=("_dev", "_test"))
numbers = [f"{name}_{split}" for split in ("dev", "test") for name in ("accuracy", "accuracy_std", *metrics_shown[1:])]
both = both.sort_values(["vectors", "model", "rate_selected_test"])
export.table(both[[*compare.told_columns(test), *numbers, "seeds"]], "accuracy", heads=heads)  # the file has dev, too
on_test = [name for name in numbers if name.endswith("_test")]
on_test = compare.without_ones(both[[*compare.told_columns(test), *on_test, "seeds"]])
figures.show_table(on_test.rename(columns={name: said.removesuffix(", test") for name, said in heads.items()}))

# %% tags=["check"]
is_ours = claims.apply_to(p)
assert test["accuracy"].between(0, 1).all() and test["rate_selected"].between(0, 1).all()
assert (test.loc[test["model"] == "full_text", "rate_selected"] == 1).all()
assert not both.duplicated(keys).any(), "one row per setting"

# %% [markdown]
# ## 2. Accuracy against selected text
#
# Here is our form of the paper's Figure 4. (The paper draws the accuracy on dev, and we draw that on test.) If a model
# with few words is nearly as accurate as a model that reads the full text, its rationales are good in one respect,
# because the predictor needed no more. The band shows the mean accuracy on the full text, plus and minus two standard
# deviations over seeds. The bars at the points show one standard deviation. With one seed, a point has no bar.
#
# Note that we set the rates of the two kinds of gates in different ways. For HardKuma gates, we choose a rate. The
# Bernoulli gates are trained by the score function (`08_reinforce`). For them we choose a price per word, and their
# rate is a result of the training.

# %%
main_vectors = results["vectors"].value_counts().index[0]
shown = test[test["vectors"] == main_vectors]
shown = shown.assign(line=compare.line_names(shown))
full = shown[shown["model"] == "full_text"]
band = (full["accuracy"].iloc[0], 2 * full["accuracy_std"].fillna(0).iloc[0]) if len(full) == 1 else None
points = {
    figures.in_words(name): part[
        ["rate_selected", "accuracy", "accuracy_std"]
    ].fillna(0).to_numpy().tolist()
    for name, part in shown[(shown["model"] != "full_text") | (band is None)].groupby("line")
}

chosen = shown[shown["model"] != "full_text"].sort_values("rate_selected")
curve = {name: part for name, part in chosen.groupby("line") if len(part) >= 2}
gap, low, high = np.zeros(0), 0.0, 0.0  # HardKuma minus Bernoulli, from a rate to another
if {"bernoulli", "hardkuma"} <= set(curve):
    pair = [curve[name] for name in ("hardkuma", "bernoulli")]
    low, high = max(part["rate_selected"].min() for part in pair), min(part["rate_selected"].max() for part in pair)
    grid = np.linspace(low, high, 101)[: 101 * (low < high)]
    gap = np.subtract(*(np.interp(grid, part["rate_selected"], part["accuracy"]) for part in pair))
is_level = gap.size > 0 and gap.min() < 0 < gap.max() and abs(gap.mean()) < 0.005

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 5.5))
half = {}  # the height of each line at half of the words, if its runs select less than that and more
for name, rows in points.items():
    rates, accuracies_at, _ = zip(*sorted(rows), strict=True)
    if rates[0] <= 0.5 <= rates[-1]:
        half[name] = np.interp(0.5, rates, accuracies_at)
if len(half) > 2:  # name the best of many lines by its model
    best = max(half, key=half.get)
    half = {f"the best of {len(half)} lines, {best.partition(', ')[0]},": half[best]}
title = ", ".join(f"{name} {accuracy:.1%}" for name, accuracy in half.items())
title = f"The lines at half of the words: {title}" if title else "Accuracy at each share of selected words"
title = "The two lines cross: on average neither line is ahead" if is_level else title
figures.draw_score_against_rate(points, ax, band, title=title, ylabel="accuracy (SST, test)")
export.figure(fig, "accuracy_against_rate")

# %% tags=["check"]
extractors = chosen[(chosen["model"] == "hardkuma") & (chosen["target"] < 1)].sort_values("target")
one_line = extractors["line"].nunique() == 1
if is_ours:
    gains = extractors["accuracy"].to_numpy()
    best = extractors.loc[extractors["accuracy"].idxmax()]
    assert gains[-1] > gains[0] + 0.02, "more text, more accuracy"
    least = extractors["target"].iloc[0]
    print(f"At a target of {least:.0%}, HardKuma has an accuracy of {gains[0]:.1%}, and at a target of "
          f"{best['target']:.0%}, {best['accuracy']:.1%}. From the full text, it is {band[0]:.1%}.")  # fmt: skip
if gap.size:
    print(f"Between {low:.0%} and {high:.0%} of the text, the accuracy of HardKuma minus that of Bernoulli is "
          f"{100 * gap.mean():+.1f} points on average, and lies between {100 * gap.min():+.1f} and "
          f"{100 * gap.max():+.1f}.")  # fmt: skip
assert not is_ours or is_level, "the lines cross, and no line is ahead on average"
if is_ours:
    at_60 = extractors.loc[extractors["target"] == 0.6, "accuracy"].item()
    assert abs(at_60 - band[0]) < band[1], "with three fifths of the words, inside the band"
    between = extractors.loc[extractors["target"].between(0.2, 0.3), "accuracy"]
    assert len(between) == 3 and not between.is_monotonic_increasing, "no gain between 20 and 30 %"
    assert between.max() - between.min() < 0.005 < extractors["accuracy"].diff().max(), "while other steps are gains"
    on_dev = results.query("split == 'dev' and metric == 'accuracy' and vectors == @main_vectors")
    at_40, on_all = (on_dev.query(query)["value"].tolist() for query in ("target == 0.4", "model == 'full_text'"))
    assert len(at_40) == len(on_all) == 18, "eighteen seeds of each"
    apart = statistics.welch_test(at_40, on_all)
    print(f"On dev, HardKuma at 40 % less the full text is {100 * apart.value:.1f} points ({100 * apart.low:.1f} to "
          f"{100 * apart.high:.1f}, with 95 % confidence; {len(at_40)} seeds of each).")  # fmt: skip
    assert -0.014 < apart.low and apart.high < 0, "behind, but within the band of the paper"

# %% [markdown]
# *Reading*. On the whole, HardKuma is more accurate the more text it reads, but between 20 and 30 % we see no gain.
# With three fifths of the words it is inside the band of the full text. The paper says that HardKuma reaches the full
# text at about 40 % of the words, within a band of 1.4 points on each side. This holds here as well. At this rate, our
# HardKuma is behind the full text by more than chance, but by less than 1.4 points (on dev, over eighteen seeds). In
# the paper, HardKuma is also ahead of the Bernoulli gates at every share of selected text. We do not see this here. The
# two lines cross, and on average over the rates they are less than half a point apart (at each rate, section 15 has an
# interval). But remember that the two lines differ in more than their gates. Section 17 takes the gate and the control
# apart, and then HardKuma is ahead by a little. (The triangle is another model. It reads the words with the largest
# attention, see `params/sst/attention.yaml`.)

# %% [markdown]
# ## 3. Which words are kept?
#
# SST has labels for single words, which no model saw. In Figure 5 we sort the words of dev by these labels and count
# how many of each kind are kept. The paper compares the models at about a quarter of the text, so we take the run of
# each model that is nearest to this rate.
#
# A model that keeps less text keeps fewer words of every kind. So you should compare the shares within a row, from
# very negative to very positive.

# %%
counts = results[(results["split"] == "dev") & (results["vectors"] == main_vectors)]
counts = counts.pivot_table(index=["model", "run"], columns="metric", values="value").reset_index()
bars, everything, neutral = {}, None, {}
for name, rate in (("hardkuma", 0.24), ("bernoulli", 0.25)):
    part = counts[counts["model"] == name]
    part = part.dropna(subset=["words_0"]) if "words_0" in part else part.head(0)
    if len(part):
        nearest = part.loc[(part["rate_selected"] - rate).abs().idxmin()]
        everything = nearest[[f"words_{label}" for label in range(5)]].to_numpy(float)
        kept = nearest[[f"selected_{label}" for label in range(5)]].to_numpy(float)
        bars[f"{figures.in_words(name)}, {nearest['rate_selected']:.0%}"] = kept
        neutral[figures.in_words(name)] = kept[2] / everything[2]

# %% tags=["check"]
if is_ours:
    assert everything.tolist() == [146, 992, 18231, 1511, 394], "the full validation set of Figure 5"
for label in range(5):
    sizes = counts.reindex(columns=[f"selected_{label}", f"words_{label}"]).dropna()
    assert sizes.diff(axis=1).iloc[:, 1].ge(0).all(), "no more words are kept than there are"
if is_ours:
    compared = [kept.sum() / everything.sum() for kept in bars.values()]
    assert len(compared) == 2 and abs(compared[0] - compared[1]) < 0.015, "both keep about the same share"
if bars:
    shares = pd.DataFrame({name: kept / everything.clip(1) for name, kept in bars.items()}, index=SENTIMENTS).T
    display(figures.show_table(shares, index="share kept of the words that are"))

# %% tags=["figure"]
if bars:
    fig, ax = figures.new_figure(size=(11, 5.5))
    title = "Neutral words kept: " + ", ".join(f"{name} {share:.0%}" for name, share in neutral.items())
    figures.draw_word_sentiment(everything, bars, ax, title=title)
    display(export.figure(fig, "word_sentiment"))

# %% tags=["check"]
if is_ours and bars:
    of_hardkuma, of_bernoulli = (shares.loc[name] for name in bars)
    for of_model in (of_hardkuma, of_bernoulli):
        assert of_model["neutral"] < 0.2 and of_model.drop("neutral").min() > 0.5, "a fifth; more than half"
    assert (of_hardkuma <= of_bernoulli).all(), "HardKuma keeps no more words of any kind"

# %% [markdown]
# *Reading*. You see that both models keep more than half of the words that have a sentiment, but less than a fifth of
# the neutral words. In the paper, HardKuma drops relatively more of the neutral words than the Bernoulli gates do. Here
# HardKuma keeps slightly fewer words of every kind, because its run also selects a little less text. So with these two
# runs, we cannot decide whether the kinds of gates differ in this.

# %% [markdown]
# ## 4. Did the runs keep to their targets?
#
# HardKuma's constraint compares one of the two rates with the target, and the setting `measure` says which one. The
# other rate may end anywhere. The bars show how far both rates are from the target, on the test split.

# %%
off = extractors.assign(
    expected_minus_target=100 * (extractors["rate_expected"] - extractors["target"]),
    selected_minus_target=100 * (extractors["rate_selected"] - extractors["target"]),
)
differing = [name for name in compare.told_columns(off) if name not in ("model", "target")]
gaps = ["expected_minus_target", "selected_minus_target"]
export.table(off[["model", *differing, "target", *gaps, "seeds"]], "rate_minus_target", 2, heads)

# %% tags=["figure"]
if len(extractors):
    fig, ax = figures.new_figure(size=(max(9, 2.4 * len(extractors)) if not one_line else 9, 5))
    names = [f"{target:.0%}" for target in extractors["target"]]
    if not one_line:  # also name what differs beside the target
        lines = extractors["line"].str.partition(", ")[2].str.replace(", ", "\n")
        names = [f"{name}\n{line}" for name, line in zip(names, lines, strict=True)]
    bars = {"expected": off["expected_minus_target"].tolist(), "selected": off["selected_minus_target"].tolist()}
    worst = {name: max(map(abs, values)) for name, values in bars.items()}
    title = f"The expected rate is off by up to {worst['expected']:.2f} points, the selected by {worst['selected']:.1f}"
    figures.draw_bars(names, bars, ax, title=title, ylabel="rate minus target (points)", fmt="{:+.1f}")
    ax.set_xlabel("target")
    display(export.figure(fig, "rate_minus_target"))

# %% [markdown]
# ## 5. Beside the published numbers
#
# How do our numbers compare with the published ones? The published runs used the vectors GloVe 840B. The vectors of
# our runs are named in each row.

# %%
paper = committed.read_published().query("task == 'sst'")
ours = pd.concat([dev.assign(split="dev"), test.assign(split="test")])
rows = []
for published in paper.itertuples():
    part = ours[(ours["model"] == published.model) & (ours["split"] == published.split)]
    for vectors, group in part.groupby("vectors"):  # the nearest rate to the published one
        nearest = group.loc[(group["rate_selected"] - published.target).abs().idxmin()]
        rows.append({"model": published.model, "split": published.split, "published": published.value,
                     "at a rate of": published.target, "their vectors": published.vectors, "ours": nearest["accuracy"],
                     "std": nearest["accuracy_std"], "at our rate of": nearest["rate_selected"], "vectors": vectors,
                     "settings": nearest["settings"], "seeds": nearest["seeds"],
                     "source": published.source})  # fmt: skip
side = pd.DataFrame(rows)
side["points apart"] = 100 * (side["ours"] - side["published"]) if len(side) else []
side = side.sort_values(["vectors", "model", "split"]) if len(side) else side
in_words = {"std": "std of ours", "settings": "settings that are no defaults"}
export.table(side.drop(columns="source", errors="ignore"), "beside_published", heads=in_words)
in_points = side.assign(**{"points apart": [f"{points:+.1f}" for points in side["points apart"]]})
figures.show_table(compare.without_ones(in_points.drop(columns="source", errors="ignore")).rename(columns=in_words))

# %% tags=["check"]
if len(side):
    assert side["ours"].between(0, 1).all() and side["at our rate of"].between(0, 1).all()
    for vectors, part in side.groupby("vectors")["points apart"]:
        print(f"With {vectors}, our accuracy minus the published one is {part.min():+.1f} to {part.max():+.1f} points.")

# %% [markdown]
# Before you compare the two columns, note how our runs differ from the published ones. We use other word vectors, and
# the rows with 50-dimensional GloVe show what vectors alone can cost. Our constraint for HardKuma can push both ways.
# We keep the epoch with the best dev accuracy. For HardKuma, we choose it among the epochs whose rate is near the
# target, and for gates with a price, among all epochs. Our Bernoulli rows also have another estimator, with a baseline,
# the price in closed form, and an entropy term. In section 8 you see the published estimator on three sets of vectors.

# %% [markdown]
# ## 6. What is a rationale worth?
#
# Accuracy at a rate tells you nothing about the words themselves. So we measure five more things on the test set, at
# each rate. (If a run has not measured them itself, use `python -m rationale.judge`.) The table has the means over
# those seeds that have measured them, so some rows have fewer seeds than in section 1, and some targets have no row.
#
# - *Precision* and *recall* compare the selected words with those that the annotators of SST found not neutral.
# - *Agreement* is the token F1 between the rationales of two seeds. For two unrelated selections of rate $r$, this F1
#   is about $r$.
# - *Sufficiency* and *comprehensiveness* are those of `09_questions`, (R13) and (R14), for the selected words. In the
#   table, we shorten them to *suff.* and *compr.* The columns with the word *budgets* are averaged over five *budgets*,
#   as in ERASER. A budget is a share of the words. For each budget, we take the words with the largest $P(z \ne 0)$ as
#   the rationale.
# - *Calibration error* (in the table, *error*) compares the probability of a prediction with the share of predictions
#   that are right.

# %%
quality = ["rate_selected", "word_precision", "word_recall", "word_f1", "agreement", "sufficiency", "comprehensiveness",
           "sufficiency_aopc", "comprehensiveness_aopc", "calibration_error", "length_leak"]  # fmt: skip
with_words = results[results["run"].isin(results.loc[results["metric"] == "word_precision", "run"])]
with_words = with_words[with_words["vectors"] == main_vectors]
worth = compare.summary(with_words, quality)
worth = worth[worth["model"] != "full_text"].sort_values(["model", "rate_selected"])
worth = worth.assign(line=compare.line_names(worth))
export.table(worth[[*compare.told_columns(worth), *quality, "seeds"]], "quality", heads=heads)
shown = [name for name in quality if name not in ("word_f1", "length_leak")]  # the file has these, too
narrower = compare.without_ones(worth[[*compare.told_columns(worth), *shown, "seeds"]])
SHORT = {"sparsity": "price", "sufficiency": "suff.", "comprehensiveness": "compr.", "calibration_error": "error",
         "sufficiency_aopc": "suff., budgets", "comprehensiveness_aopc": "compr., budgets"}  # fmt: skip
figures.show_table(narrower.rename(columns=heads | SHORT))

# %%
def lines_of(columns):
    return {f"{name}, {label}": part[["rate_selected", column]].to_numpy().tolist()
            for name, part in worth.groupby("line") for label, column in columns.items()}  # fmt: skip


# %% tags=["check"]
if worth.empty:
    print("None of these runs has judged its rationales (judge=none). `python -m rationale.judge RUN...` does it.")
by_chance = results.query("metric == 'word_base_rate' and split == 'test'")["value"].mean()
if is_ours:
    selecting = worth[worth["rate_selected"].between(0.02, 0.9) & (worth["seeds"] >= 3)]
    assert (selecting["word_precision"] > by_chance).all(), "better than selecting at random"
if len(worth):
    print(f"A random selection has a precision of {by_chance:.1%}, the share of the words that are not neutral.")

# %% tags=["figure"]
if len(worth):
    fig, ax = figures.new_figure(size=(10, 5.2))
    lines = lines_of({"precision": "word_precision", "recall": "word_recall"})
    sharpest = worth.loc[worth["word_precision"].idxmax()]
    title = (f"{figures.in_words(sharpest['model'])} at {sharpest['rate_selected']:.0%}: "
             f"{sharpest['word_precision']:.0%} of its words carry sentiment (random: {by_chance:.0%})")
    figures.draw_score_against_rate(lines, ax, title=title, ylabel="precision, recall")
    display(export.figure(fig, "precision_recall"))

# %% tags=["figure"]
if worth["agreement"].notna().any():
    fig, ax = figures.new_figure(size=(10, 5.2))
    stable = worth.dropna(subset=["agreement"])
    lines = {name: part[["rate_selected", "agreement"]].to_numpy().tolist() for name, part in stable.groupby("line")}
    lines["unrelated"] = [[0.02, 0.02], [1, 1]]  # two unrelated selections
    title = f"The agreement of two seeds ranges from {stable['agreement'].min():.2f} to {stable['agreement'].max():.2f}"
    figures.draw_score_against_rate(lines, ax, title=title, ylabel="token F1 between seeds")
    display(export.figure(fig, "agreement"))

# %% tags=["figure"]
if len(worth):
    fig, ax = figures.new_figure(size=(10, 5.2))
    lines = lines_of({"sufficiency": "sufficiency_aopc", "comprehensiveness": "comprehensiveness_aopc"})
    best = worth.loc[worth["comprehensiveness_aopc"].idxmax()]
    title = f"Over budgets, comprehensiveness is at most {best['comprehensiveness_aopc']:.2f}"
    figures.draw_score_against_rate(lines, ax, title=title, percent=False,
                                    ylabel="drop of probability, mean over budgets")  # fmt: skip
    display(export.figure(fig, "faithfulness"))

# %% tags=["check"]
if is_ours:
    kept = {model: part.sort_values("rate_selected") for model, part in worth.groupby("model")}
    gates, priced = (kept[model].set_index("rate_selected") for model in ("hardkuma", "bernoulli"))
    assert all(part["word_recall"].is_monotonic_increasing for part in (gates, priced)), "more words, more recall"
    assert priced["word_precision"].is_monotonic_decreasing, "and the less precision"
    assert gates["word_precision"].iloc[1:].is_monotonic_decreasing, "from a tenth of the words on"
    agreed = gates["agreement"].dropna()
    assert priced["agreement"].min() > 0.7 and agreed[agreed.index > 0.2].min() > 0.8, "most words"
    assert agreed[agreed.index < 0.1].max() < 0.4, "far fewer"
    assert priced["comprehensiveness_aopc"].min() > gates["comprehensiveness_aopc"].max(), "higher at every rate"
    at_equal = gates.loc[priced.index.min() :, "sufficiency_aopc"]
    assert (at_equal > np.interp(at_equal.index, priced.index, priced["sufficiency_aopc"])).all(), "a lower sufficiency"

# %% [markdown]
# *Reading*. In the first figure, you see that a model which selects more words finds more of those with a sentiment.
# But from a tenth of the words on, it also selects more words without one. In the second figure, you see that two seeds
# of Bernoulli gates agree on most of their words at every rate. Two seeds of HardKuma do so from a quarter of the words
# on, and agree on far fewer at a tenth or less (section 13 says why). The third figure has the two scores over budgets.
# We want a low sufficiency and a high comprehensiveness. By both scores, the Bernoulli gates are ahead of HardKuma at
# equal rates.
#
# How far can you trust these curves? Sufficiency and comprehensiveness are computed with each run's own predictor. It
# was trained on rationales and has never read a whole text. If a run keeps little, its predictor is bad on whole
# texts (`accuracy_whole`), so you should compare runs at equal rates only. With `predictor: zero`, where unselected
# words become zero vectors, the predictor's state gives away the length of a text completely. Even if no word is
# selected, a linear regression from this state finds the length, and `length_leak` is its $R^2$ (R15).
#
# ## 7. Zero vectors or no vectors
#
# With `predictor: zero` we replace unselected words by zero vectors. With `predictor: compact` we remove them. Then
# neither the length nor the gaps between selected words can leak. What does this cost? From here on we read the
# committed runs, even if you gave other `runs`.

# %%
reference = committed.read_results()
seed_of = reference.drop_duplicates("run").set_index("run")["seed"].to_dict()
export_committed = Exports(folder, reference, "dev")


def committed_runs(name, **parameters):
    found = committed.runs_with(reference, required=False, **parameters)
    if found.empty:
        print(f"There is no committed run of the kind “{name}”.")
    return found


modes = {mode: committed_runs(mode, model="hardkuma", selection=0.25, vectors="imdb.w2v.300d", predictor=mode)
         for mode in ("zero", "compact")}  # fmt: skip
on_test = {mode: part[part["split"] == "test"].groupby("metric")["value"].mean() for mode, part in modes.items()}
leak = pd.DataFrame(on_test)
measures = {"accuracy": "accuracy", "rate_selected": "share of selected words", "length_leak": "length leak",
            "word_precision": "precision", "sufficiency": "sufficiency"}  # fmt: skip
in_modes = leak.reindex(list(measures)).rename(index=measures)
seeds_of = {mode: f", seeds: {part['seed'].nunique()}" for mode, part in modes.items()}
in_modes.columns = [f"zero vectors{seeds_of['zero']}", f"no vectors{seeds_of['compact']}"]
figures.show_table(in_modes.rename_axis("on test").reset_index())

# %% tags=["check"]
if "length_leak" in leak.index and leak.loc["length_leak"].notna().all():
    assert leak.loc["length_leak", "zero"] > 0.95, "the length is in the state of an unread text"
    assert abs(leak.loc["length_leak", "compact"]) < 0.05, "in mode compact it is not"
    with_zeros = modes["zero"].query("split == 'test' and metric == 'accuracy'")["value"]
    assert with_zeros.min() < leak.loc["accuracy", "compact"] < with_zeros.max(), "among the seeds with zero vectors"

# %% [markdown]
# *Reading*. With zero vectors the length leaks, and with no vectors it does not. The accuracy with no vectors lies
# among those of the seeds with zero vectors. But we have only one seed of it, so we cannot tell what it costs.

# %% [markdown]
# ## 8. The authors' Bernoulli recipe
#
# You now see committed runs of Bernoulli gates that were trained as the authors train theirs. Their code takes one
# draw, subtracts no baseline from its cost, counts the selected words of this draw for the price, and selects the words
# whose probability is above 1/2 at test time. You find these settings in `params/sst/bernoulli_authors.yaml`. The price
# is 0.01, and we use three sets of word vectors. (*IMDb / 3* are the IMDb vectors divided by three.) In the first
# picture each run has seed 1. Watch the first epoch.

# %%
history = committed.read_history()
recipe = committed.parameters_of("sst/bernoulli_authors.yaml") | {"model": "bernoulli", "epochs": 12, "sparsity": 0.01}
vectors_of = {"IMDb, 300": {"vectors": "imdb.w2v.300d"}, "GloVe, 50": {"vectors": "glove.6B.50d"},
              "IMDb / 3": {"vectors": "imdb.w2v.300d", "vectors_scale": 0.3333}}  # fmt: skip
by_the_recipe = {name: committed_runs(name, **recipe, **which) for name, which in vectors_of.items()}
authors_on = {name: part[part["seed"] == 1] for name, part in by_the_recipe.items()}
epochs = range(1, 13)


def histories(parts):
    return {name: history[history["run"].isin(part["run"])] for name, part in parts.items() if len(part)}


def by_epoch(parts, column):
    return {name: part.groupby("epoch")[column].mean().reindex(epochs).to_numpy() for name, part in parts.items()}


authors_on = histories(authors_on)
selected, expected = by_epoch(authors_on, "dev_rate_selected"), by_epoch(authors_on, "dev_rate_expected")

# %% tags=["check"]
for name in authors_on:
    first, end = (f"the expected rate is {expected[name][i]:.0%} and {selected[name][i]:.1%} of the words are selected"
                  for i in (0, 11))  # fmt: skip
    print(f"On “{name}”, {first} after the first epoch. After the last epoch, {end}.")
    assert selected[name][0] < 0.01, "nothing is selected in the first epoch"
    assert 0.2 < expected[name][0] < 0.4, "although a fifth to two fifths of the words are drawn"
    assert "GloVe" in name or np.nanmax(selected[name]) > 0.3, "and many words later on"
if "GloVe, 50" in selected:
    assert np.nanmax(selected["GloVe, 50"]) < 0.01, "and with GloVe not later either"

# %% tags=["figure"]
if authors_on:
    fig, ax = figures.new_figure(size=(10, 5.2))
    empty = [name for name, curve in selected.items() if np.nanmax(curve) < 0.01]
    title = f"The authors' recipe selects nothing at first, and nothing at all on {', '.join(empty) or 'no vectors'}"
    lines = {f"{name}, expected": curve for name, curve in expected.items()}
    lines |= {f"{name}, selected": curve for name, curve in selected.items()}
    figures.draw_lines(list(epochs), lines, ax, title=title, xlabel="epoch", ylabel="share of words")
    display(export_committed.figure(fig, "collapse", pd.concat(authors_on.values())["run"]))

# %% [markdown]
# Why is nothing selected at first in these runs? Our explanation is a guess, which we have not tested. In the first
# epoch the predictor has learned nothing yet, and each word that it reads adds noise to its output. So the
# probabilities of all gates fall below 1/2 together. A fifth to two fifths of the words are then drawn on average, but
# none has a probability above the threshold, so none is selected. The predictor still learns, because in training it
# reads the words that are drawn. Later, the probabilities of some words may rise above 1/2, if these words improve the
# prediction by more than the noise of the estimate. With the IMDb vectors this happens after some epochs, and also if
# we divide these vectors by three. With the shorter vectors of GloVe it does not happen at all.
#
# ### How much do the seeds of this recipe differ?
#
# In the paper, the Bernoulli model reads about 40 % of the text and has an accuracy of 42.2 %, which is 3.6 points less
# than HardKuma. Ours is more accurate (section 2). Is the estimator the reason? Here are five seeds of the authors'
# recipe on the IMDb vectors. In each row you see the epoch that their rule keeps, on test. The last line compares them
# with HardKuma gates that select 40 % and were trained for as many epochs.

# %%
five = by_the_recipe["IMDb, 300"].query("split == 'test'").pivot(index="seed", columns="metric", values="value")
of_seeds = five.reindex(columns=["rate_selected", "accuracy"])
ours_40 = {"model": "hardkuma", "selection": 0.4, "vectors": "imdb.w2v.300d", "vectors_scale": 1.0,
           "measure": "selected", "epochs": 12}  # fmt: skip
held_40 = committed_runs("HardKuma at 40 %", **ours_40).query("split == 'test' and metric == 'accuracy'")["value"]
own = committed_runs("ours, at the same price", **(committed.parameters_of("sst/bernoulli.yaml") |
                     {"model": "bernoulli", "sparsity": 0.01, "vectors": "imdb.w2v.300d"}))  # fmt: skip
own = own.query("split == 'test'").pivot(index="seed", columns="metric", values="value")
own = own.reindex(columns=["rate_selected", "accuracy"])
if len(five) > 1 and len(held_40) > 1:
    display(figures.show_table(of_seeds.rename(columns=in_words).reset_index()))
    accuracies = five["accuracy"].tolist()
    low, high = statistics.run_interval(accuracies)
    lead = statistics.welch_test(held_40.tolist(), accuracies)
    print(f"Their mean accuracy is {np.mean(accuracies):.1%}. One more seed may have {low:.1%} to {high:.1%}.")
    print(f"HardKuma at 40 % is ahead of them by {100 * lead.value:.1f} points ({100 * lead.low:.1f} to "
          f"{100 * lead.high:.1f}, with 95 % confidence; {len(held_40)} seeds).")
if len(own) > 1:
    wide, accurate = (f"{own[name].min():.1%} to {own[name].max():.1%}" for name in own)
    print(f"At the same price, {len(own)} seeds of our own estimator select {wide} of the words. Their accuracies are "
          f"{accurate}.")  # fmt: skip

# %% tags=["check"]
if len(five) == 5 and len(held_40) == 10:
    assert of_seeds["rate_selected"].min() < 0.25 and of_seeds["rate_selected"].max() == 1, "a fifth of the text to all"
    assert np.ptp(accuracies) > 0.05, "more than five points apart"
    at_first = history[history["run"].isin(by_the_recipe["IMDb, 300"]["run"]) & history["epoch"].eq(1)]
    assert at_first["dev_rate_selected"].lt(0.01).sum() == 4, "hardly a word in four of five"
    of_four = at_first.loc[at_first["run"].map(seed_of).eq(4), "dev_rate_selected"].item()
    assert 0.15 < of_four < 0.17, "and seed 4 selects a sixth"
    theirs = paper.query("split == 'test'").set_index("model")["value"]
    assert low < theirs["bernoulli"] < high, "the published number may be one more seed"
    assert lead.low < 0 < theirs["hardkuma"] - theirs["bernoulli"] < lead.high, "the published lead is in the interval"
    assert len(own) == 5 and np.ptp(own["accuracy"]) < 0.02, "at the same price, ours are within two points"
    assert own["rate_selected"].min() < 0.36 and own["rate_selected"].max() > 0.7, "a third of the text to nearly 3/4"
dearer = {price: committed_runs(f"price {price}", **(recipe | vectors_of["IMDb, 300"] | {"sparsity": price}))
          for price in (0.015, 0.02)}  # fmt: skip
dearer = {price: part.query("split == 'test' and metric == 'rate_selected'")["value"] for price, part in dearer.items()}
if all(len(part) == 1 for part in dearer.values()):
    assert 0.15 < dearer[0.015].item() < 0.25 and dearer[0.02].item() < 0.01, "a fifth, and nothing"

# %% [markdown]
# You see that with one price the seeds end at a fifth of the text to all of it, and that their accuracies are more than
# five points apart. With the same price, the accuracies of five seeds of our own estimator are within two points (they
# were trained longer, and with a reward for entropy). But these seeds, too, end at different rates, from a third of the
# text to nearly three quarters. After the first epoch, four of the five seeds of the recipe select hardly a word, as
# above, and seed 4 selects a sixth. We made one run each with larger prices, and there the rate falls from a fifth to
# nothing between 0.015 and 0.02. So the price does not hold the rate. The published 42.2 % may well be one more seed of
# this recipe, and the published lead of HardKuma, 3.6 points, is inside the interval that we find. So is 0, which means
# that our lead over this recipe may be no more than chance. This is why we say that the lead in the paper, which
# compares one run of each model, may be due to chance. We have not tested which part of the recipe makes its seeds
# differ so much.
#
# ### Less noise alone is not enough
#
# An estimate with less noise alone is not enough, as the next picture shows. If we compute the expected price by a
# formula, and it acts from the first step on, the gates shut. The price may be the only consistent signal while the
# predictor is still bad. So we add a reward for entropy (`08_reinforce`, section 4). It is 0 by default, and
# `params/sst/bernoulli.yaml` sets it. In the picture, each run has seed 1.

# %%
priced = committed.parameters_of("sst/bernoulli.yaml") | {"sparsity": 0.01, "vectors": "imdb.w2v.300d"}
ways = {
    "authors": authors_on.get("IMDb, 300", history.head(0)),
    "less noise": committed_runs("less noise", **(priced | {"entropy": 0.0, "epochs": 12})),
    "less noise, entropy": committed_runs("less noise, entropy", **priced),
}
ways = {name: part[part["run"].map(seed_of).eq(1)] for name, part in histories(ways).items()}

# %% tags=["figure"]
if ways:
    fig, ax = figures.new_figure(size=(10, 5.2))
    lines = by_epoch(ways, "dev_rate_selected")
    title = "Selected after 12 epochs: " + ", ".join(f"{curve[11]:.0%} ({name})" for name, curve in lines.items())
    figures.draw_lines(list(epochs), lines, ax, title=title, xlabel="epoch", ylabel="selected words")
    display(export_committed.figure(fig, "estimators", pd.concat(ways.values())["run"]))

# %% tags=["check"]
if "less noise" in ways:
    shut = by_epoch(ways, "dev_rate_expected")["less noise"] < 0.01
    print(f"With less noise, the expected rate is below 1 % in {shut.sum()} of {len(shut)} epochs, the first included.")
    assert shut[0] and shut.sum() >= 6, "the gates are shut after one epoch, and in most epochs"

# %% [markdown]
# ## 9. A Lagrangian on Bernoulli gates
#
# In footnote 8, the paper calls a Lagrangian on Bernoulli gates unstable. Is it? We compare the authors' rule and
# estimator with the signed rule and the package's estimator. All these runs have a target of 40 %.

# %%
held = {name: committed.parameters_of(f"sst/{file}.yaml") | {"model": "bernoulli", "epochs": 12}
        for name, file in (("authors", "bernoulli_lagrangian_authors"),
                           ("signed", "bernoulli_constrained"))}  # fmt: skip
lagrangians = histories({name: committed_runs(name, **which) for name, which in held.items()})
paths = {f"{name}, expected": curve for name, curve in by_epoch(lagrangians, "dev_rate_expected").items()}
paths |= {f"{name}, selected": curve for name, curve in by_epoch(lagrangians, "dev_rate_selected").items()}

# %% tags=["check"]
if "signed" in lagrangians:
    late = lagrangians["signed"].query("epoch > 5")["dev_rate_expected"]
    assert (late - 0.4).abs().max() < 0.05, "the signed rule holds Bernoulli gates at their target"
for run, part in lagrangians.get("authors", history.head(0)).groupby("run"):
    rates = part.sort_values("epoch")["dev_rate_selected"]
    assert rates.max() > 0.99 and rates.iloc[-1] < 0.01, f"{run}: first all words are selected, in the end none"
for name, part in lagrangians.items():
    shares = (part["dev_rate_expected"], part["dev_rate_selected"])
    wide, chosen_share = (f"from {share.min():.0%} to {share.max():.0%}" for share in shares)
    print(f"In the runs “{name}”, the expected rate goes {wide}, and the selected rate {chosen_share}.")

# %% tags=["figure"]
if paths:
    fig, ax = figures.new_figure(size=(10, 5.2))
    ends = " and ".join(f"{paths[f'{name}, expected'][-1]:.0%} ({name})" for name in lagrangians)
    title = f"For a target of 40 %, the expected rates after 12 epochs are {ends}"
    figures.draw_lines(list(epochs), paths, ax, title=title, xlabel="epoch", ylabel="share of words", target=0.4)
    display(export_committed.figure(fig, "lagrangian", pd.concat(lagrangians.values())["run"]))

# %% tags=["check"]
if "authors" in lagrangians:
    open_for = lagrangians["authors"]["dev_rate_selected"].gt(0.99).groupby(lagrangians["authors"]["run"]).sum()
    assert open_for.size == 3 and open_for.min() >= 3, "three runs, in which all words are selected for several epochs"
if "signed" in lagrangians:
    chosen_share = lagrangians["signed"].sort_values("epoch")["dev_rate_selected"]
    assert lagrangians["signed"]["run"].nunique() == 1, "one run"
    assert chosen_share.iloc[0] < 0.01 and chosen_share.max() < 0.33, "from nothing to below a third"

# %% [markdown]
# *Reading*. With the authors' rule and estimator, the Lagrangian is unstable, as the footnote says. In each of the
# three runs, all words are selected for several epochs, and in the end none. (The figure shows the mean of the three.)
# The signed rule holds the *expected* rate near 40 % (one run). But with it, the *selected* share starts at 0 and is
# still below a third after twelve epochs. A Bernoulli gate that is open with a probability below 1/2 is not selected.
# We changed the rule and the estimator together, so this section does not tell you which of the two makes the
# difference. (Section 4 of `09_questions` asks this of a small model.)

# %% [markdown]
# ## 10. Ten seeds at 40 %
#
# With `measure: selected`, the constraint compares the test-time rule's share of *words* with the target. So
# `selection: 0.4` means 40 % of the words at test time. We trained with ten seeds, on the vectors as they are and
# divided by three.

# %%
ten = {
    "vectors as they are": committed.runs_with(reference, measure="selected", epochs=12),
    "vectors divided by 3": committed.runs_with(reference, measure="selected", epochs=12, vectors_scale=0.3333),
}
cells = {
    name: part.query("split == 'test'").pivot_table(index="seed", columns="metric", values="value")
    for name, part in ten.items()
}
measures = {"accuracy": "accuracy", "rate_selected": "selected", "rate_expected": "expected"}
by_seed = pd.concat({name: cell[list(measures)] for name, cell in cells.items()}, axis=1)
by_seed.columns = [f"{measures[metric]}, {name}" for name, metric in by_seed.columns]
figures.show_table(by_seed.reset_index())

# %% tags=["check"]
for name, cell in cells.items():
    within = (cell["rate_selected"] - 0.4).abs() <= 0.02
    accuracy, spread = cell["accuracy"].mean(), cell["accuracy"].std()
    print(f"With {name}, the rate is within two points of 40 % for {within.sum()} of {len(cell)} seeds. The accuracy "
          f"is {accuracy:.1%}, with a standard deviation of {spread:.1%}.")  # fmt: skip
    assert within.all(), f"{name}: the selected rate is off its target: {cell['rate_selected'].round(3).to_dict()}"
printed = committed.read_published().query("task == 'sst' and model == 'hardkuma'")["value"].item()
low, high = statistics.mean_interval(cells["vectors as they are"]["accuracy"].tolist())
print(f"With vectors as they are, the interval of the mean accuracy is {low:.1%} to {high:.1%}. The paper reports "
      f"{printed:.2%}.")  # fmt: skip
assert low < printed < high, "ten seeds agree with the paper"
default = committed.runs_with(reference, selection=0.4).query("split == 'test' and metric == 'accuracy'")
default = default[default["vectors"].eq("imdb.w2v.300d") & default["target"].eq(0.4)].set_index("seed")["value"]
for seeds in (default.loc[[1, 2, 3]], default):
    (lower, upper), count = statistics.mean_interval(seeds.tolist()), len(seeds)
    print(f"Where the constraint holds the expected share, the interval is {lower:.2%} to {upper:.2%} with {count} "
          "seeds.")
assert len(default) == 18 and printed < lower and upper < printed + 0.01, "above the paper's number, by under a point"
selected = cells["vectors as they are"]["accuracy"]
assert not statistics.welch_test(default.tolist(), selected.tolist()).is_significant, "not told apart from the ten"
further = statistics.run_interval(default.tolist())
print(f"One more of these {len(default)} seeds may have {further[0]:.1%} to {further[1]:.1%}.")
assert further[0] < printed < further[1], "the paper's number, of one run, may be one more seed"
assert default.loc[[1, 2, 3]].std() < 0.1 * min(default.std(), selected.std()), "three are alike by chance"

# %% [markdown]
# The mean of ten seeds agrees with the accuracy that the paper reports. With the eighteen seeds whose constraint holds
# the *expected* share, the accuracy is a little higher, by less than a point, and the interval of their mean excludes
# the paper's number. But this number is that of one run, and you see that it lies well inside the interval of one more
# seed. Nor can we tell these seeds from the ten by Welch's test (section 15). So there may be no difference at all. The
# first three of these seeds show you how little three seeds can say. Their accuracies are so close to each other that
# their interval is far too narrow. Those of all seeds, with the same settings, differ more than ten times as much.

# %% [markdown]
# ## 11. The authors' dynamics on small vectors
#
# We take the same vectors, divided by three, and use the authors' multiplicative rule (`dynamics: authors`). You know
# from `06_hold_a_rate` that its multiplier is positive, so it can only push the rate down.

# %%
small = {"epochs": 12, "vectors_scale": 0.3333}
published = {"dynamics": "authors", "measure": "training", "measure_every": 1, "multiplier_init": 0.0001}
published |= {"multiplier_rate": 0.01, "smoothing": 0.99, "model_choice": "authors"}
authors = committed.runs_with(reference, **small, **published)["run"].unique()
signed = sorted(ten["vectors divided by 3"]["run"].unique(), key=seed_of.get)[: len(authors)]
curves = {}
for label, names in (("authors", authors), ("signed", signed)):
    for name in names:
        curve = history.loc[history["run"] == name, "dev_rate_selected"].to_numpy()
        curves[f"{label}, seed {seed_of[name]}"] = curve

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 5))
epochs = range(1, 1 + len(next(iter(curves.values()))))
last = [curve[-1] for label, curve in curves.items() if label.startswith("authors")]
title = f"In the end the authors' rule selects {max(last):.0%} of the words, for a target of 40 %"
figures.draw_lines(list(epochs), curves, ax, title=title, xlabel="epoch", ylabel="selected words", target=0.4)
export_committed.figure(fig, "dynamics", [*authors, *signed])

# %% tags=["check"]
for label, curve in curves.items():
    if label.startswith("authors"):
        assert min(curve[:6]) > 0.99 and max(curve[6:]) < 0.01, f"{label}: open for six epochs, then shut"
    else:
        assert max(abs(curve[2:] - 0.4)) < 0.08 and max(abs(curve[8:] - 0.4)) < 0.03, f"{label}: near its target"

# %% [markdown]
# *Reading*. You see that with the authors' rule, both runs select every word for six epochs. Then all gates shut, and
# they stay shut. (Their lines lie on each other, so you see one.) With the signed rule, the share is a few points from
# its target from the third epoch on, and comes nearer.

# %% [markdown]
# ## 12. Do length buckets change what is learned?
#
# Training is fast because we put sentences of similar length into the same batch. Does this change what is learned? We
# trained the same extractor at 40 %, on 50-dimensional GloVe vectors, with plain random batches. For each of the two
# ways we use three seeds. The printed line has the difference of their means with its 95 % interval, by Welch's test
# over the seeds (section 15).

# %%
buckets = {
    name: committed.runs_with(reference, vectors="glove.6B.50d", model="hardkuma", selection=0.4, bucketed=bucketed)
    for name, bucketed in (("bucketed", True), ("random batches", False))
}
means = pd.DataFrame(
    {name: part[part["metric"] == "accuracy"].groupby("split")["value"].agg(["mean", "std"]).stack()
     for name, part in buckets.items()}
)
shown = means.rename(index={"std": "standard deviation"}).rename_axis(["split", "over seeds"])
figures.show_table(shown.reset_index(), 4)

# %% tags=["check"]
difference = means.loc[("test", "mean"), "bucketed"] - means.loc[("test", "mean"), "random batches"]
on_test = [part.query("split == 'test' and metric == 'accuracy'")["value"].tolist() for part in buckets.values()]
changed = statistics.welch_test(*on_test)
print(f"On test, buckets change the accuracy by {100 * changed.value:+.1f} points ({100 * changed.low:+.1f} to "
      f"{100 * changed.high:+.1f}).")  # fmt: skip
assert abs(changed.value - difference) < 1e-9 and abs(difference) < 0.015, "buckets change the accuracy"
assert changed.low < 0 < changed.high and changed.high - changed.low > 0.02, "three seeds cannot tell"

# %% [markdown]
# *Reading*. The interval contains 0, so with three seeds you cannot tell whether length buckets change the accuracy.
# But the interval is several points wide. So you cannot conclude either that they change nothing.

# %% [markdown]
# ## 13. A rationale that is a code
#
# With a target of 5 % of the text (it selects 4 % on test), HardKuma still predicts well above chance, and yet two
# seeds select hardly a word in common (section 6). What do they select? The selector has read the whole sentence. So it
# can work out the answer, and it can pass this answer on by *how many* words it selects, whatever these words are. We
# write $k_i$ for the number of selected words of sentence $i$, where five or more count as five, and $\hat y_i$ for the
# model's own answer. How many answers can you guess from $k_i$ alone?
#
# $$\text{told} = \frac1N \sum_k \max_c \#\{i : k_i = k,\ \hat y_i = c\} \;\ge\; \max_c \frac{\#\{i : \hat y_i =
# c\}}{N}. \tag{R16}$$
#
# The right side is the share that you reach if you always guess the commonest answer. In the table below, the left side
# of (R16) is the column *told by the number*, and the right side is *floor*. (Large numbers of words are rare, and each
# would tell you its few sentences by chance. This is why five or more count as one number.) The column *empty* is the
# share of sentences in which nothing is selected, and *first words* is the share of the selected words that are among
# the first two words of their sentence.

# %%
code = ["rate_selected", "accuracy", "count_tells", "answer_share", "empty", "first_words"]
code += ["word_precision", "agreement"]
part = results[(results["split"] == "test") & results["metric"].isin(code) & (results["model"] != "full_text")]
part = part[part["run"].isin(part.loc[part["metric"] == "count_tells", "run"])]
told = compare.summary(part, code, by=["seed"]).sort_values("rate_selected", ignore_index=True)
columns = [*compare.told_columns(told), "seed", *code]
export.table(told[columns], "code")
figures.show_table(compare.without_ones(told[columns].head(9)).rename(columns=heads))

# %% tags=["check"]
assert (told["count_tells"] >= told["answer_share"] - 1e-9).all(), "(R16)"
strict = told[(told["model"] == "hardkuma") & (told["target"] == 0.05)]
priced = told[(told["model"] == "bernoulli") & told["rate_selected"].between(0.05, 0.15)]
if is_ours:
    assert round(strict["rate_selected"].mean(), 2) == 0.04, "4 % on test"
    assert strict["count_tells"].min() > 0.8 > 0.7 > priced["count_tells"].max(), "each seed at 5 % is a code"
    assert strict["first_words"].max() > 0.8 and strict["first_words"].gt(0.5).sum() == 1, "one seed: the first two"
    assert strict["agreement"].max() < 0.1 < 0.69 < priced["agreement"].min(), "hardly a word in common"
    assert strict["word_precision"].gt(0.5).tolist().count(True) == 2 and priced["word_precision"].min() > 0.5, "in two"
    tenth = told[(told["model"] == "hardkuma") & (told["target"] == 0.1) & (told["network"] == "")]
    assert len(tenth) == 10 and (tenth["count_tells"] > 0.75).sum() == 7, "at 10 %, seven of ten seeds"
    beyond, beyond_priced = (rows["count_tells"] - rows["answer_share"] for rows in (tenth, priced))
    assert abs(tenth["rate_selected"].mean() - priced["rate_selected"].mean()) < 0.015, "at nearly the same rate"
    assert len(priced) == 10 and beyond_priced.max() < 0.125, "at most twelve points with each seed"
    assert (beyond > 0.25).sum() == 7 and beyond[beyond < 0.25].between(0.025, 0.15).all(), "three to fifteen else"
    for name, rows in (("HardKuma", strict), ("Bernoulli", priced)):
        mean = rows[code].mean()
        print(f"With {name} at {mean['rate_selected']:.0%} of the words, the number tells {mean['count_tells']:.0%} of "
              f"the answers. The commonest answer is {mean['answer_share']:.0%} of them. The accuracy is "
              f"{mean['accuracy']:.1%}.")  # fmt: skip

# %% tags=["figure"]
if len(told):
    fig, ax = figures.new_figure(size=(10, 5.2))
    means = compare.summary(part, code).sort_values("rate_selected")
    lines = {name: rows[["rate_selected", "count_tells"]].to_numpy().tolist()
             for name, rows in means.groupby(compare.line_names(means))}  # fmt: skip
    if len(lines) == means["model"].nunique():  # nothing but models, targets and prices differs
        lines["the commonest answer"] = means[["rate_selected", "answer_share"]].to_numpy().tolist()
    rate, tells = means[["rate_selected", "count_tells"]].iloc[0]
    title = f"At {rate:.0%} of the text, the number of selected words tells {tells:.0%} of the answers"
    figures.draw_score_against_rate(lines, ax, title=title, ylabel="answers told by the number alone")
    display(export.figure(fig, "code"))

# %% [markdown]
# *Reading*. We constrain only an *average*. Nothing stops a selector from spending its whole budget on the sentences of
# one class and selecting nothing in the others. You see in the table how far this goes at 5 %. In each seed the number
# of selected words alone determines most of the predictions (*told by the number*), and in one seed most of the
# selected words are among the first two of their sentence (*first words*). The selector of such a model is itself a
# classifier, and it passes its answer on to the predictor as one symbol. At 10 % you see the same in seven of ten
# seeds, to a lesser degree. Jacovi and Goldberg (2021) call such rationales Trojan. Two measures reveal them whichever
# seed we look at. One is (R16), and the other is the agreement of a seed's words with those of the other seeds. The
# precision, which is the share of the selected words that carry sentiment, reveals them in one seed only. In the other
# two, most of the selected words carry sentiment, as they do with Bernoulli gates at about a tenth of the words. With a
# price per word, in contrast, each selected word adds to the loss of its own sentence, the seeds agree on most of their
# words, and the number of words tells far fewer answers. These Bernoulli gates select 9 % of the words. So compare them
# with HardKuma at a target of 10 %, which selects 8 %. There the number tells more than the floor by at most twelve
# points with each of ten seeds of the Bernoulli gates. With HardKuma it does so by more than twenty-five points with
# seven of ten seeds, and by three to fifteen points with the other three.

# %% [markdown]
# ### What if each sentence is held?
#
# If the average is the cause, the number should tell less when we hold the rate of each sentence (`per_text: true`,
# (S19) in `07_decide_and_depend`). One word of a sentence of fewer than twenty words is more than 5 % of it. Such a
# sentence may keep one word all the same, so slightly more words are selected. Here are the committed runs with the
# mean held and with each sentence held, with the same seeds. We also show those with a mean of 10 %, which select more
# words than either:

# %%
kinds = {"the mean at 5 %": {"selection": 0.05}, "each sentence at 5 %": {"selection": 0.05, "per_text": True},
         "the mean at 10 %": {"selection": 0.1}}  # fmt: skip
by_held = {}
for name, changes in kinds.items():
    part = committed_runs(name, model="hardkuma", vectors="imdb.w2v.300d", **changes)
    if len(part):
        on_test = part[part["split"] == "test"]
        by_held[name] = on_test.pivot_table(index="seed", columns="metric", values="value")
measures = {"rate_selected": "selected", "accuracy": "accuracy", "count_tells": "told by the number",
            "answer_share": "floor", "empty": "empty", "word_precision": "precision",
            "agreement": "agreement"}  # fmt: skip
if by_held:
    cells = {name: cell.reindex(columns=list(measures)) for name, cell in by_held.items()}
    display(figures.show_table(pd.concat(cells, names=["held"]).rename(columns=measures).reset_index()))

# %% tags=["check"]
if len(by_held) == len(kinds):
    for name, cell in by_held.items():
        mean = cell.mean()
        print(f"If we hold {name}, {mean['rate_selected']:.1%} of the words are selected, and the accuracy is "
              f"{mean['accuracy']:.1%}. The number tells {mean['count_tells']:.0%} of the answers, and the commonest "
              f"answer is {mean['answer_share']:.0%} of them.")  # fmt: skip
    of_mean, of_each, of_more = by_held.values()
    beyond, beyond_each, beyond_more = (cell["count_tells"] - cell["answer_share"] for cell in by_held.values())
    assert beyond_each.max() < 0.06 < 0.2 < beyond.min(), "the number tells little more than the floor"
    assert of_more["rate_selected"].min() > of_each["rate_selected"].max(), "a higher rate"
    assert (beyond_more > 0.1).sum() == len(beyond_more) - 1 == 9, "not the rate, with nine of ten seeds"
    assert of_each["agreement"].min() > 0.7 > 0.1 > of_mean["agreement"].max(), "the seeds agree on most words"
    assert of_each["word_precision"].min() > 0.7 > of_mean["word_precision"].max(), "most words carry sentiment"
    lost = statistics.welch_test(of_each["accuracy"].tolist(), of_mean["accuracy"].tolist())
    print("At 5 %, the accuracy with each sentence held minus that with the mean held is "
          f"{100 * lost.value:.1f} points ({100 * lost.low:.1f} to {100 * lost.high:.1f}).")  # fmt: skip
    assert lost.low < 0 < lost.high, "no difference in accuracy beyond the spread of the seeds"

# %% [markdown]
# *Reading*. On SST, the average is the cause. If each sentence is held, the number of words tells hardly more answers
# than the floor. The seeds now agree on about three quarters of their words, and most of the selected words carry
# sentiment in each seed. That slightly more words are selected is not the reason. If we hold the mean at 10 %, still
# more words are selected, and with nine of ten seeds the number tells more than the floor by over ten points. So a low
# rate does not by itself make a rationale a code. Does it cost accuracy to hold each sentence? Three seeds cannot tell
# us, because the interval of the difference is several points wide and contains 0. On other texts it need not help:
# with MiniLM on reviews of hotels, we found a run with each text held no better than one with the mean held (see
# RESULTS.md).

# %% [markdown]
# ## 14. One sentence at every rate
#
# You see a few of the made-up reviews of `10_first_rationale` below, as they are read by the models of a small sweep.
# We asked each model for another share of the words. Move the slider from the lowest rate to the highest. A word is
# orange where its gate is open, and bold where it is selected. The underlined words are the true reasons for the score.
# Does a word that is selected at a low rate stay selected at a higher one?

# %% tags=["interactive"]
explore_saved_rates(committed.reference_folder())

# %% [markdown]
# If you have given `runs` of a sweep, you can also type a sentence of yours. Each row below is then one of your runs.

# %% tags=["interactive"]
explore_rates([root() / p.runs_dir / name for name in p.runs])

# %% [markdown]
# ## 15. Do two models differ?
#
# A difference of two means says little until we know how much it would change with other seeds and with other test
# sentences. `rationale.statistics` has two functions for this. **Welch's test** takes the accuracies of the seeds of
# each model and asks whether their difference is large against the spread of the seeds. It needs at least two seeds
# of each model, and it does not use the scores of single sentences.
#
# We compare each target of HardKuma with the Bernoulli gates whose share of selected words is the nearest. In each row,
# `low` and `high` are the ends of the 95 % interval of the difference, in points. If 0 lies between them, the seeds do
# not show which model is better. Look at the two rates of a row before you read its difference, because the nearest
# Bernoulli gates may read far fewer words.

# %%
def accuracies(row):
    """The test accuracies of the seeds behind a row of `summary`."""
    part = results.query("split == 'test' and metric == 'accuracy'")
    return part.loc[(part[keys] == row[keys]).all(axis=1), "value"].tolist()


several = chosen[chosen["seeds"] > 1]
priced_rows = several[several["model"] == "bernoulli"]
differences = []
for _, ours in several[several["model"] == "hardkuma"].iterrows() if len(priced_rows) else ():
    theirs = priced_rows.loc[(priced_rows["rate_selected"] - ours["rate_selected"]).abs().idxmin()]
    found = statistics.welch_test(accuracies(ours), accuracies(theirs))
    differences.append({"HardKuma at": ours["rate_selected"], "Bernoulli at": theirs["rate_selected"],
                        "points": 100 * found.value, "low": 100 * found.low, "high": 100 * found.high,
                        "p": found.p_value, "significant": found.is_significant})  # fmt: skip
differences = pd.DataFrame(differences)
export.table(differences, "differences", 2)
told = differences
if len(differences) and not differences["significant"].any():
    print("In no row is the difference significant.")
    told = differences.drop(columns="significant")
figures.show_table(told.rename(columns={"points": "HardKuma minus Bernoulli, points"}), 2)

# %% tags=["check"]
for row in differences.to_dict("records"):
    assert row["low"] <= row["points"] <= row["high"] and row["significant"] == (row["low"] > 0 or row["high"] < 0)
    assert row["significant"] == (row["p"] < 0.05), "the interval and the test say the same"

# %% [markdown]
# The **paired bootstrap** takes one score per sentence, for each seed. Ten thousand times, it draws as many test
# sentences as there are, with replacement, and compares both models on the same drawn sentences. We cannot draw from
# the seeds of a model in the same way, because we have too few of them. Instead, we move the mean of each model by a
# draw from Student's distribution, as wide as its seeds are apart. The interval leaves out the smallest and the largest
# 2.5 % of the ten thousand differences. With few seeds it is rather too wide than too narrow, so a difference that is
# not significant may still be one.
#
# Sentences that are easy or hard for both models do not change the difference, so you can see a small difference even
# with one seed. With one seed, the interval says how much the difference depends on the choice of the sentences. It
# says nothing about the seeds, and with another seed the difference may have the other sign.
#
# If `runs` names at least two of your own runs, we compare the first two that have scores of single sentences, and we
# name them below. Otherwise we make up two models. Both are right on the same 40 % of the sentences, and the second
# model is right on a few more.

# %%
read = {name: by_text.scores_by_text(root() / p.runs_dir / name) for name in p.runs}
scored = [(name, *of_run) for name, of_run in read.items() if of_run is not None]
is_paired = len({(metric, len(scores)) for _, metric, scores in scored[:2]}) == 1 < len(scored)  # on the same sentences
one, other = [name for name, *_ in scored[:2]] if is_paired else ["the first model", "the second model"]
if is_paired:
    first, second = (scores for *_, scores in scored[:2])
else:
    draws = np.random.default_rng(1).random((2, 2210))
    easy = draws[0] < 0.4
    first, second = (torch.tensor(right, dtype=torch.float64) for right in (easy, easy | (draws[1] < 0.04)))
together = statistics.paired_bootstrap(second, first)
apart = statistics.share_difference(second.mean().item(), first.mean().item(), len(first))
print(f"We subtract the accuracy of {one} from that of {other}.")
for name, found in (("of paired sentences", together), ("of the two accuracies alone", apart)):
    print(f"The difference {name} is {100 * found.value:+.1f} points, with a 95 % interval from {100 * found.low:+.1f} "
          f"to {100 * found.high:+.1f}.")  # fmt: skip

# %% tags=["check"]
assert together.low <= together.value <= together.high
if not is_paired:
    assert together.is_significant and not apart.is_significant, "only the pairing shows this difference"

# %% [markdown]
# How should you read such a table? An interval that contains 0 is no proof that two models are equal. It says that
# the difference, if there is one, is probably no larger than the end that is farther from 0. With three seeds the
# interval of Welch's test is often wider than the difference between two good models, and five or ten seeds are
# needed. If two models are equally good, a test at 5 % still reports a difference in one of twenty cases. So a single
# significant row among many is weak evidence. RESULTS.md marks accuracies that do not differ significantly from its
# row of reference with the sign ≈.

# %% [markdown]
# ## 16. A pretrained transformer
#
# All models so far read word vectors with an LSTM. MiniLM is a small pretrained transformer. It can read the same
# sentences, as selector and as predictor, each with its own copy of the weights (`encoder=minilm`). A gate sits on a
# word, and all pieces of a word share it. We measure the accuracy of MiniLM at 20 % of the words. Then we compare this
# accuracy with two others, that of MiniLM on the full text and that of the LSTM.

# %%
minilm = committed.parameters_of("sst/minilm.yaml")
at_rate = {"model": "hardkuma", "selection": 0.2}
by_encoder = {
    "lstm": [committed_runs("lstm", vectors="imdb.w2v.300d", **which) for which in ({"model": "full_text"}, at_rate)],
    "minilm": [committed_runs("minilm, full text", model="full_text", **minilm),
               committed_runs("minilm, hardkuma", start="target", **at_rate, **minilm)],
}  # fmt: skip
worth_of_words = ["word_precision", "count_tells", "answer_share"]
measures = [*metrics_shown, *worth_of_words]
sides = {name: compare.summary(pd.concat(parts), measures) for name, parts in by_encoder.items()}
sides = pd.concat([rows.assign(encoder=name) for name, rows in sides.items()], ignore_index=True)
columns = ["encoder", "model", "target", *measures, "accuracy_std", "seeds"]
export_committed.table(sides[columns], "encoders", heads=heads)

# %% tags=["check"]
whole = sides[sides["model"] == "full_text"].set_index("encoder")["accuracy"].to_dict()
for row in sides[sides["model"] != "full_text"].to_dict("records"):
    for name in {row["encoder"], "lstm"} & set(whole):
        points = 100 * (row["accuracy"] - whole[name])
        of, other = figures.in_words(row["encoder"]), figures.in_words(name)
        print(f"The accuracy of {of} at {row['rate_selected']:.0%} of the words minus that of {other} on the full text "
              f"is {points:+.1f} points.")  # fmt: skip
judged = sides.dropna(subset=worth_of_words)
assert (judged["count_tells"] >= judged["answer_share"] - 1e-9).all(), "(R16)"
of_minilm = judged[(judged["model"] != "full_text") & (judged["encoder"] == "minilm")]
assert (of_minilm["count_tells"] > of_minilm["answer_share"] + 0.25).all(), "a code at a fifth of the words"
assert minilm["epochs"] == minilm["frozen_layers"] == 3, "three epochs, and three of six layers are not trained"
for row in judged[judged["model"] != "full_text"].to_dict("records"):
    print(f"Of the words that {figures.in_words(row['encoder'])} selects, {row['word_precision']:.0%} carry sentiment "
          f"(random: {by_chance:.0%}), and their number tells {row['count_tells']:.0%} of the answers.")  # fmt: skip

# %% [markdown]
# The runs of MiniLM have few epochs. They have three, and only the upper half of the layers is trained. Other
# settings also differ from those of the LSTM (`params/sst/minilm.yaml`), so you cannot compare the encoders by these
# runs. But look at the words. Compare the *precision* with that of a random selection, and *told by the number* with
# the *floor*. You see that this selector passes on much of its answer by the number of words that it selects. This
# is the code of section 13, and here it appears at 20 % of the words. Neither the accuracy nor the rate shows you
# this. With one seed, we cannot tell why it happens.

# %% [markdown]
# ## 17. Is it the gate, or is it the control?
#
# In the figure of section 2, HardKuma and Bernoulli gates differ in more than the kind of the gate. A constraint holds
# the rate of HardKuma, and a price per word decides the rate of Bernoulli gates. So far we cannot say which of the two
# makes a difference. The same is true of the paper's Figure 4.
#
# So we train each of the two gates with a constraint and with a price, which we call the two *controls*. We keep every
# setting that both gates have the same (`params/sst/control.yaml`). But a kind of gate comes with its own estimator of
# the gradient. That of HardKuma goes through the draw, and that of Bernoulli gates is the score function with a
# baseline. So where we say *gate*, we mean the gate with its estimator. All four combinations have the same number of
# epochs and of draws, the same vectors and the same reward for entropy. We chose the prices on dev, so that the share
# of selected words is near a target of the constraint. These are small models on 50-dimensional vectors, so you should
# compare the four lines with each other, and not with section 2.
#
# In the table, *told by the number* is the left side of (R16), and *floor* is its right side.

# %%
rows_of_four = controls.rows_of_controls(reference)
four = controls.by_control(rows_of_four)
measures = {"rate_selected": "selected", "accuracy": "accuracy", "accuracy_std": "standard deviation",
            "word_precision": "precision", "agreement": "agreement", "count_tells": "told by the number",
            "answer_share": "floor"}  # fmt: skip
apart = controls.differences(four, committed.read_by_text())
of_gates = apart[apart["what"].str.startswith("gates")]
leads = sorted(of_gates["points"])
is_ahead = len(leads) > 0 and of_gates["low"].min() > 0
shown = four[["target", "control", "gate", "price", *measures, "seeds"]].rename(columns=measures)
shown = shown.assign(price=[f"{price:g}" if price else "" for price in shown["price"]])
if len(four):
    display(export_committed.table(shown, "gate_and_control"))
else:
    print("You see no table here, because the runs of the sweep sst_control are not among the committed runs.")

# %% tags=["figure"]
if len(four):
    fig, ax = figures.new_figure(size=(10, 5.2))
    lines = {f"{gate}, {control}": part[["rate_selected", "accuracy", "accuracy_std"]].fillna(0).to_numpy().tolist()
             for (gate, control), part in four.groupby(["gate", "control"])}  # fmt: skip
    title = "Accuracy by gate and control, all common settings alike"
    if is_ahead:
        title = f"With the same control, HardKuma is ahead by {leads[0]:.1f} to {leads[-1]:.1f} points"
    figures.draw_score_against_rate(lines, ax, title=title, ylabel="accuracy (SST, test)")
    ax.set_xlim(0, four["rate_selected"].max() + 0.05)
    ax.legend(loc="lower right", frameon=False)
    display(export_committed.figure(fig, "gate_and_control", rows_of_four["run"]))

# %% [markdown]
# Which of these differences are more than chance? We use the paired bootstrap of section 15, over the test sentences
# and the seeds. In the table below, each row is one difference in accuracy, in points, with its 95 % interval. In the
# last row both the gate and the control differ, as they do in the paper. You also see the rates of the two models, of
# the one that is named first and of the one that is named second.

# %%
columns = ["what", "target", "our rate", "their rate", "points", "low", "high", "seeds"]
in_words = {"what": "difference", "our rate": "rate of the first", "their rate": "rate of the second"}
told = apart.assign(what=apart["what"].replace(controls.IN_WORDS))[columns].rename(columns=in_words)
if len(apart):
    display(export_committed.table(told, "gate_or_control", 2))
else:
    print("You see no table here, because these runs have no scores by sentence.")

# %% [markdown]
# Here is the result in words, written from this table.

# %%
published = paper.query("split == 'test'").set_index("model")["value"]
gap = 100 * (published["hardkuma"] - published["bernoulli"])
Markdown(controls.in_a_paragraph(apart, gap))

# %% tags=["check"]
if len(apart):
    assert is_ahead and [f"{lead:.1f}" for lead in (leads[0], leads[-1])] == ["1.2", "2.4"], "the title of the figure"
    at = apart[apart["target"] == 0.4].set_index("what")
    gates, prices, of_both = (at.loc[name] for name in ("gates, both under the constraint", "gates, both with a price",
                                                        "gate and control, as in the paper"))  # fmt: skip
    assert min(gates["low"], prices["low"]) > 0, "HardKuma is ahead with either control"
    assert max(gates["points"], prices["points"]) < 2, "by less than two points"
    of_controls = at.loc[["controls of HardKuma", "controls of Bernoulli"]]
    assert not of_controls["significant"].any() and of_controls["points"].max() < 0, "if anything, the price is ahead"
    assert of_both["low"] < 0 < of_both["high"] < gap, "the paper's difference is larger than ours can be"
    near = four[four["target"] == 0.4].set_index(["control", "gate"])
    held, priced = near.loc["constraint"], near.loc["price"]
    others = near["rate_selected"].drop(("price", "Bernoulli"))
    assert others.between(0.38, 0.42).all() and 0.08 < near.loc[("price", "Bernoulli"), "rate_selected"] - others.max()
    assert held["rate_selected_std"].max() < 0.01 < 0.04 < priced["rate_selected_std"].min(), "a price leaves it open"
    assert held["agreement"].min() > priced["agreement"].max(), "seeds agree more under the constraint"
    assert held["word_precision"].max() - held["word_precision"].min() < 0.01, "the gates are equally precise"
    assert (near["count_tells"] - near["answer_share"]).max() < 0.06, "no code at 40 %"
    assert four["seeds"].eq(10).all(), "ten seeds of each"
    right = rows_of_four.query("split == 'test' and metric == 'accuracy'").set_index("run")
    of_model = {(row.control, row.gate): right.loc[list(row.runs)].set_index("seed")["value"].sort_index()
                for row in four.query("target == 0.4").itertuples()}  # fmt: skip
    for control in ("constraint", "price"):
        added = [of_model[control, gate].loc[4:].tolist() for gate in ("HardKuma", "Bernoulli")]
        assert len(added[0]) == 7 and statistics.welch_test(*added).low > 0, "the added seeds alone show it, too"
    over_seeds = {gate: statistics.welch_test(of_model["constraint", gate].tolist(), of_model["price", gate].tolist())
                  for gate in ("HardKuma", "Bernoulli")}  # fmt: skip
    assert over_seeds["HardKuma"].high < 0 < over_seeds["Bernoulli"].high, "the price is ahead, by the seeds alone"
    assert of_controls.loc["controls of HardKuma", "high"] < 0.3, "just above 0"
    assert apart.loc[apart["target"] < 0.4, "low"].min() > 0, "at 10 % and at 20 %, HardKuma is ahead as well"
    beyond = (four["count_tells"] - four["answer_share"]).groupby(four["target"]).agg(["min", "max"]).round(3)
    assert 0.06 < beyond.loc[0.1, "min"] and beyond.loc[0.1, "max"] < 0.12, "seven to eleven points at 10 %"
    assert 0.05 < beyond.loc[0.2, "min"] and beyond.loc[0.2, "max"] < 0.07, "about six at 20 %"

# %% [markdown]
# Near 40 % of the words, HardKuma is more accurate than Bernoulli gates with either control, and neither interval
# contains 0. (With a price, the Bernoulli gates select nearly half of the words, about ten points more than the other
# three, and HardKuma is ahead of them all the same.) With the first three seeds, the interval of the difference under
# the constraint contained 0. So we added seven seeds of each model, as many as the list of claims in `00_read_me_first`
# had asked for. (If you look again after a first look, chance has two tries. But the seven added seeds alone show the
# lead, with either control, by Welch's test.) For neither gate does the interval of the difference between the
# constraint and the price exclude 0. On average, the price is ahead, with HardKuma by a point. There the result depends
# on the test. The interval of this bootstrap, which is rather too wide (section 15), ends just above 0. By Welch's test
# over the seeds, which asks only about these test sentences, the price is ahead by more than chance. So in these models
# the *gate* makes a difference, or its estimator does. We cannot tell these two apart here. In section 3 of
# `32_reviews`, eight draws per step in the place of two make up for a far larger difference between the same kinds of
# gates, and we have not tried more draws here. Nor can we tell whether the control makes a difference. Near 40 %, the
# difference between the gates is small, less than two points. If both differ, as in the paper, even the upper end of
# our interval is smaller than the paper's difference. So something else may contribute to it, but we have not tested
# this. The paper's Bernoulli gates have one draw, no baseline, and a price that is counted on the draw (section 8).
# Ours have two draws, a baseline, and a price in closed form.
#
# You should not read two rows of the second table as comparisons at equal rates. These are the row of the two controls
# of Bernoulli gates, and the row in which both differ, because there the Bernoulli gates with a price read more than
# the others. At equal rates, the price might have no lead for Bernoulli gates, and the difference in the last row might
# be larger. We have not tested this.
#
# What the control does change is the rate. Under the constraint, all seeds select nearly the share that we asked for.
# With a price, the shares of the seeds differ by many points, so you compare models at rates that you did not choose.
# The seeds also agree more under the constraint. A part of this may come from the rates, because two selections of
# different sizes cannot agree fully. Under the constraint both gates are equally precise. With both gates and both
# controls, the number of selected words tells little more than the floor.
#
# At 10 % and at 20 % we have runs under the constraint only, and HardKuma is ahead there as well. But the lower the
# rate is, the more of the answers the number of words tells beyond the floor, with both gates. At 20 % these are about
# six points, and at 10 % seven to eleven. So both gates begin to use the code of section 13, and a part of the lead may
# come from it. We have not tested that.
#
# > The reward for entropy is small and the same for all. Without this reward, a price shut the gates of HardKuma in the
# > first epoch. With a larger reward, the expected rate of HardKuma was far above its selected rate. We tried this on
# > dev with one seed (see the table of tuned settings in RESULTS.md).

# %% [markdown]
# ### The same question at 8 % of the words
#
# We return to the models of section 2. At a target of 10 %, HardKuma selects about 8 % of the words, and the Bernoulli
# gates with a price of 0.05 per word select about 9 %. In the paper, HardKuma is ahead there, and ours is behind. Is it
# the gate? The two differ in the gate with its estimator, in the control, in the number of draws, and in the reward for
# entropy. So we trained three more kinds of models, and you can follow the changes one by one in the table. In the
# second row, you find HardKuma with the draws and the reward of the Bernoulli gates. In the third row, we give it their
# price as well, so that only the gate and its estimator differ from the last row. In the fourth row, you find Bernoulli
# gates under the constraint.

# %%
at_tenth = {"selection": 0.1, "sparsity": 0.0}
like_price = committed.parameters_of("sst/bernoulli.yaml") | {"sparsity": 0.05}
two_draws = {name: like_price[name] for name in ("samples", "entropy")}
at_8 = {("HardKuma", "constraint", 1, 0.0): {"model": "hardkuma"} | at_tenth,
        ("HardKuma", "constraint", 2, 0.02): {"model": "hardkuma"} | two_draws | at_tenth,
        ("HardKuma", "price", 2, 0.02): like_price | {"model": "hardkuma", "baseline": "none"},
        ("Bernoulli", "constraint", 2, 0.02): committed.parameters_of("sst/bernoulli_constrained.yaml") | at_tenth,
        ("Bernoulli", "price", 2, 0.02): like_price}  # fmt: skip
measures = {"rate_selected": "selected", "dev": "accuracy on dev", "accuracy": "on test", "empty": "empty",
            "agreement": "agreement", "count_tells": "told by the number", "answer_share": "floor"}  # fmt: skip
by_kind = {}
for kind, settings in at_8.items():
    part = committed_runs(", ".join(map(str, kind)), vectors="imdb.w2v.300d", **settings)
    if len(part):
        cell, of_dev = (part[part["split"] == split].pivot_table(index="seed", columns="metric", values="value")
                        for split in ("test", "dev"))  # fmt: skip
        by_kind[kind] = cell.assign(dev=of_dev["accuracy"]).reindex(columns=list(measures))
if by_kind:
    shown = pd.DataFrame({kind: cell.mean() for kind, cell in by_kind.items()}).T.rename(columns=measures)
    for place, name, said in ((3, "accuracy", "test"), (2, "dev", "dev")):
        shown.insert(place, f"standard deviation, {said}", [cell[name].std() for cell in by_kind.values()])
    shown = shown.assign(seeds=[len(cell) for cell in by_kind.values()])
    shown = shown.rename_axis(["gate", "control", "draws", "reward"]).reset_index()
    display(export_committed.table(shown, "gate_and_control_at_8"))

# %% [markdown]
# Before you compare the accuracies, look at the sentences of which nothing is selected (*empty* is their share). They
# all look the same to the predictor, so it gives them one class. Which one, and how often is that right? We have
# counted this for the runs whose rationales we still have (`python -m tools.empty_texts`). In the table below, each row
# is a class that models give to such sentences, with the number of these models. You see how often this class is right,
# and the accuracy on all sentences of dev minus that on test. Below the table, we print differences between the models,
# with 95 % intervals by Welch's test over the seeds (section 15).

# %%
empty = pd.read_csv(committed.reference_folder() / committed.EMPTY_TEXTS)
empty["correct"] = (empty["right_empty"] + empty["right_others"]) / empty["texts"]
empty["answer"] = empty["answer"].map(dict(enumerate(SENTIMENTS)))
empty["right if empty"] = empty["right_empty"] / empty["empty"]
by_answer = empty.pivot_table(index=["answer", "run"], columns="split", values=["correct", "right if empty"])
by_answer["fall", ""] = by_answer["correct", "dev"] - by_answer["correct", "test"]
columns = {("right if empty", "dev"): "right if empty, dev", ("right if empty", "test"): "on test",
           ("fall", ""): "accuracy, dev minus test"}  # fmt: skip
of_answer = by_answer.groupby("answer").mean().join(by_answer.groupby("answer").size().rename(("models", "")))
of_answer.columns = [columns.get(name, " ".join(name).strip()) for name in of_answer.columns]
figures.show_table(of_answer[[*columns.values(), "models"]].reset_index())

# %% tags=["check"]
if len(by_kind) == len(at_8):
    kinds = dict(zip(["start", "draws", "price", "held", "theirs"], by_kind.values(), strict=True))
    pairs = {"HardKuma as in section 2 minus Bernoulli gates as there": ("start", "theirs"),
             "HardKuma with the same price minus Bernoulli gates": ("price", "theirs"),
             "HardKuma with the price minus HardKuma under the constraint, both with two draws": ("price", "draws"),
             "HardKuma with the draws and the reward minus HardKuma without, under the constraint": ("draws", "start"),
             "Bernoulli with the price minus Bernoulli under the constraint": ("theirs", "held")}  # fmt: skip
    found = {}
    for name, (one, other) in pairs.items():
        for split, column in (("dev", "dev"), ("test", "accuracy")):
            told_apart = statistics.welch_test(*(kinds[kind][column].tolist() for kind in (one, other)))
            found[one, other, split] = told_apart
            print(f"On {split}, {name} is {100 * told_apart.value:.1f} points ({100 * told_apart.low:.1f} to "
                  f"{100 * told_apart.high:.1f}).")  # fmt: skip
    alone, as_there = (found[pair] for pair in (("price", "theirs", "dev"), ("start", "theirs", "dev")))
    assert -0.011 < alone.low < 0 < alone.high < 0.011, "the gate alone: level, to a point"
    assert as_there.high < 0 and found["start", "theirs", "test"].high < 0, "HardKuma of section 2 is behind"
    assert found["price", "theirs", "test"].low < 0 < found["price", "theirs", "test"].high, "the gate alone, on test"
    assert min(found["theirs", "held", split].low for split in ("dev", "test")) > 0, "the constraint costs them"
    assert kinds["held"]["rate_selected"].mean() + 0.02 < kinds["theirs"]["rate_selected"].mean(), "and words"
    assert found["draws", "start", "test"].low > 0 > found["draws", "start", "dev"].low > -0.002, "on dev, just not"
    for of_price in (found["price", "draws", split] for split in ("dev", "test")):
        assert of_price.low < 0 < of_price.high, "the price gains nothing that we can tell"
    start = kinds["start"]
    told_more = {kind: cell["count_tells"] - cell["answer_share"] for kind, cell in kinds.items()}
    assert kinds["draws"]["rate_selected"].mean() < start["rate_selected"].mean() - 0.01, "with fewer words"
    assert kinds["draws"]["agreement"].mean() > 2 / 3 > 0.4 > start["agreement"].mean() > 0.3, "the seeds agree"
    assert min(told_more[kind].mean() for kind in ("start", "draws", "price")) > 0.15 > 0.1 > max(
        told_more[kind].mean() for kind in ("held", "theirs")), "the number tells more with HardKuma"
    assert np.ptp(start["dev"]) < 0.035 < 0.07 < np.ptp(start["accuracy"]), "the seeds differ on test"
assert (empty["alike"] >= 0.89 * empty["empty"]).all(), "one class for at least 89 %"
falls = by_answer["fall", ""]
assert set(falls.index.unique("answer")) == {"negative", "positive"} and len(falls["positive"]) == 3
assert 0.02 < falls["positive"].min() and falls["positive"].max() < 0.045, "two to four points"
assert falls["negative"].max() < 0.011 and (falls["negative"] < 0).mean() > 0.8, "at most a point, and most gain"
positive, negative = (of_answer.loc[name] for name in ("positive", "negative"))
on_dev, on_test = (positive[name] - negative[name] for name in ("right if empty, dev", "on test"))
assert 0.01 < on_dev < 0.05 and on_test < -0.03, "the opposite on test"

# %% [markdown]
# *Reading*. Begin with the class of the empty sentences. Each model gives at least 89 % of them one class. You see that
# three models say *positive*, and all others say *negative*. On dev, *positive* is right a little more often than
# *negative*. On test, you find the opposite. So the three models are two to four points less accurate on test than on
# dev. The others lose a point at most, and most of them gain. This is one reason why you see the seeds of HardKuma as
# in section 2 differ by seven points and more on test, but by about three on dev. An answer without a word is a code
# (section 13), and what it is worth depends on the shares of the classes. So you should compare these models on dev.
#
# Now compare the gates. If everything else is alike (the third and the last row), you see that HardKuma and the
# Bernoulli gates are level on dev, to within a point. On test, the interval contains 0 as well, and it is wider. So it
# is not the gate that puts HardKuma behind in section 2. We have to look at the rest: the constraint, the single draw,
# or the missing reward. With the draws and the reward (the second row), HardKuma under the constraint gains two points
# on test, although it selects fewer words. (This interval is one of ten, and it excludes 0 by little, so do not rely on
# it alone.) On dev, the interval just contains 0. Its seeds then agree on more than two thirds of their words, and
# without them on about a third. We changed the draws and the reward together, so we cannot tell which of them it is.
# From the constraint to the price, HardKuma gains nothing that we can tell from chance. Bernoulli gates do gain about a
# point, but they also select more words with the price, and this alone may explain it.
#
# The draws and the reward do not end the code. With HardKuma, you can tell more answers by the number of words, beyond
# the floor, than with Bernoulli gates, in each of its rows.
#
# In section 2, we let all of this differ at once, and in the paper the gate and the control differ. So neither figure
# can tell you which gate is better.

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). *Predict* which of HardKuma's two rates is larger at a target
# of 10 % (`larger_at_10`, "expected" or "selected"), and whether the two rates are closer together at 60 % than at 25
# % (`nearer_at_60`, True or False). *Change* the target to each one in the table of section 4. For each target,
# compute the selected minus the expected rate in points, on the test split, as the mean over its runs (`rate_gaps`, a
# dict of targets to these numbers). *Explain* the sign of the difference, and why it becomes small.

# %% tags=["prediction"]
larger_at_10, nearer_at_60 = "expected", True

# %% tags=["solution"]
gaps = off["selected_minus_target"] - off["expected_minus_target"]
rate_gaps = ((gaps * off["seeds"]).groupby(off["target"]).sum() / off.groupby("target")["seeds"].sum()).to_dict()
by_target = ", ".join(f"{gap:+.1f} ({target:.0%})" for target, gap in rate_gaps.items())
print(f"By target, the selected minus the expected rate is {by_target} points.")
# The rule selects a word only if the mass of its gate at 0 is not the largest of the three. At small rates most gates
# are nearly shut. Each of them adds a little to the expected rate, and the rule rounds it to 0. At large rates as many
# gates are nearly open, and the rule rounds these up, so the two roundings cancel.

# %% tags=["check"]
tested = results.query("split == 'test' and model == 'hardkuma' and vectors == @main_vectors and target < 1")
assert set(rate_gaps) == set(tested["target"]), "one entry per target"
for target, part in tested.groupby("target"):
    rates = part.groupby("metric")["value"].mean()
    gap = 100 * (rates["rate_selected"] - rates["rate_expected"])
    assert abs(rate_gaps[target] - gap) < 0.051, f"{target:.0%}: too {'low' if rate_gaps[target] < gap else 'high'}"
if is_ours:
    assert larger_at_10 == ("selected" if rate_gaps[0.1] > 0 else "expected"), "`larger_at_10` is not what you found"
    assert nearer_at_60 == (abs(rate_gaps[0.6]) < abs(rate_gaps[0.25])), "`nearer_at_60` is not what you found"

# %% [markdown]
# ## Summary
#
# You saw that a constraint holds the rate that it measures. You also saw that, on average, the selected words carry
# sentiment more often than random words do. With Bernoulli gates they do so most often where few words are selected.
# With HardKuma at a tenth or less, the seeds differ too much to say this. At a tenth of the text or less, a rationale
# may be a code, and with MiniLM we saw one at a fifth. At 5 %, it was no code if each sentence was held, and not only
# their mean. We read all numbers from the committed `outputs/reference/results.csv`, or from the runs of your own
# sweep.
#
# ## Next
#
# In `22_read_sst` we look into a single run.
