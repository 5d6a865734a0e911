# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Read translators and summarisers
#
# In `15_train_seq2seq` you trained one model that writes text. Here we compare models that differ only in the map of
# their attention.
#
# **You will** put the attentions side by side. You will see their BLEU and ROUGE, the weights that are exactly 0, the
# time, and the alignments of a few texts under two attentions each.
#
# **You will learn** what exact zeros and fused segments cost in quality and in time, and what they show you.
#
# **You need** runs of `15_train_seq2seq` (`make sweep SWEEP=translation` or `summarisation`). If you leave `runs`
# empty, we read the committed results and show committed pictures of the texts. The page takes a few seconds.

# %% tags=["parameters"]
runs_dir: str = "outputs/15_train_seq2seq"  # folder of the runs
runs: list = []  # names of the runs; empty: the committed outputs/reference/results.csv

# %%
import json

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, statistics
from rationale.nn import MAPPINGS, has_zero_jacobian
from rationale.runs import claims, committed, compare, results_folder, root, saved, validated
from rationale.runs.exports import Exports

# %%
p = validated(globals())
folder = results_folder("25_read_seq2seq")
results = committed.rows_for(p, "translation", "summarisation")
export = Exports(folder, results)
export.show_runs()

# %% [markdown]
# ## 1. Scores
#
# Niculae and Blondel (2017) train on news in ten pairs of languages. In their results, all maps are within one BLEU
# point of the best map. The authors also train on the headlines of Gigaword (their Table 2, which you see below
# ours). There the ROUGE-1 of softmax is the lowest, by up to one and a quarter points.
#
# We do not have these data. Instead of the news we take the captions of **Multi30k**. Instead of the headlines we take
# the subject lines of e-mails in **AESLC**, which have references by several people. So you should not compare our
# scores with the published ones. What you can compare is the *order* of the maps, and how far they are apart.
#
# > Our oscarmax is the exact map. The paper's oscarmax is a composition that sorts by absolute value
# > (`40_sparse_attention`, sections 4 and 5).

# %%
marks = ["bleu", "rouge1", "rouge2", "rougeL", "zeros"]


def by_map(part):
    """Means over seeds: one row per map and setting, in the order of `MAPPINGS`."""
    table = compare.summary(part, marks)
    gammas = table["network"].str.extract(r"gamma=([\d.]+)")[0].astype(float).fillna(np.inf)
    table = table.loc[gammas.mask(table["network"].eq(""), 0).sort_values(kind="stable").index]
    table = table.sort_values("model", key=lambda names: names.map(list(MAPPINGS).index), kind="stable")
    return table.set_index(compare.line_names(table))


def row_in_words(name):
    """The name of a row in words, such as "oscarmax, gamma 4.0, penalty 0.2"."""
    name = name.replace("gamma_moves=0.5, gamma_start=4.0", "gamma from 4 to 1").replace("lam=", "penalty=")
    return figures.in_words(name)


def where_of(corpus, pair):
    """The corpus and the languages in words, such as "Multi30k, de to en"."""
    return ", ".join(filter(None, [figures.in_words(corpus), pair]))


tables = {name: by_map(part) for name, part in results.groupby(["task", "corpus", "aspect"])}
for (task, corpus, pair), table in tables.items():
    print(f"{task.capitalize()} on {where_of(corpus, pair)}:")
    shown = table[[*marks, "seeds"]].astype(float)
    name = "_".join(f"scores {corpus} {pair}".split())
    export.table(shown.rename_axis("attention").reset_index(), name)
    display(figures.show_table(shown.rename(index=row_in_words, columns=figures.in_words), digits=2, index="attention"))
published = committed.read_published().query("task == 'summarisation'")
wide = published.pivot_table(index=["corpus", "model"], columns="metric", values="value", sort=False)
wide = wide.reindex(columns=[mark for mark in marks if mark in wide])
print("Published (Niculae and Blondel 2017, Table 2):")
display(figures.show_table(wide.reset_index().rename(columns=figures.in_words), digits=2))

# %% tags=["check"]
is_ours = claims.apply_to(p)
for table in tables.values():
    assert table[["bleu", "rouge1"]].stack().dropna().between(0, 100).all() and table["zeros"].between(0, 1).all()
if is_ours:
    softmax = [table.loc[table["model"] == "softmax", "zeros"] for table in tables.values()]
    assert pd.concat(softmax).lt(0.01).all(), "the softmax has no zeros, except for weights that underflow"
assert (wide["rouge1"] > wide["rouge2"]).all(), "pairs of words agree less often than single words"
in_paper = published[published["metric"].eq("rouge1")].pivot(index="corpus", columns="model", values="value")
assert in_paper.idxmin(axis=1).eq("softmax").all(), "softmax is the lowest"
assert 1.2 < (in_paper.max(axis=1) - in_paper.min(axis=1)).max() < 1.3, "by up to one and a quarter points"

# %%
def points_of(table, mark):
    """Points of the sparse maps, one line per setting, and the level of softmax; means and deviations over seeds."""
    lines, levels = {"usual settings": []}, {}  # the first line has the same colour in each picture
    for name, row in table.iterrows():
        score = (float(row[mark]), float(np.nan_to_num(float(row[f"{mark}_std"]))))
        if name == "softmax":
            levels["softmax"] = score
        else:
            setting = row_in_words(name.removeprefix(row["model"]).removeprefix(", ")) or "usual settings"
            lines.setdefault(setting, []).append((figures.in_words(row["model"]), *score))
    return {setting: points for setting, points in lines.items() if points}, levels


def distance_in_words(lines, levels, said):
    """How far the maps with the usual settings are from softmax, for the title of a picture."""
    behind = [levels["softmax"][0] - score for _, score, _ in lines.get("usual settings", [])] if levels else []
    if not behind:
        return "no sparse map with the usual settings beside softmax"
    least, most = min(behind), max(behind)
    if least < 0 < most:
        return f"from {-least:.1f} {said} ahead of softmax to {most:.1f} behind (usual settings)"
    sizes = " to ".join(dict.fromkeys(f"{size:.1f}" for size in sorted((abs(least), abs(most)))))
    return f"{'softmax leads' if most > 0 else 'sparse maps lead'} by {sizes} {said} (usual settings)"


# %% [markdown]
# In the pictures, the dotted line is softmax with the usual settings, and each point is a sparse map, or softmax with
# another `gamma`. You see means, with one standard deviation over the seeds on each side (the shade around the line is
# that of softmax). A row with one seed has no bar.

# %% tags=["figure"]
for (task, corpus, pair), table in tables.items():
    mark = "bleu" if task == "translation" else "rouge1"
    said = {"bleu": "BLEU", "rouge1": "ROUGE-1"}[mark]
    lines, levels = points_of(table, mark)
    fig, ax = figures.new_figure(size=(9, 4.6))
    title = f"{where_of(corpus, pair)}: {distance_in_words(lines, levels, said)}"
    figures.draw_score_by_setting(lines, ax, levels, title=title, ylabel=said)
    of_texts = results[(results["corpus"] == corpus) & (results["aspect"] == pair)]
    display(export.figure(fig, "_".join(f"{mark} {corpus} {pair}".split()), of_texts["run"]))
    best = table[mark].astype(float).max()
    scored = table[mark].astype(float).items()
    far = [f"{row_in_words(name)} ({best - value:.1f})" for name, value in scored if best - value > 1]
    which = "no map is" if not far else "these maps are"
    told = f"On {where_of(corpus, pair)}, {which} more than one {said} point behind the best one"
    print(": ".join(filter(None, [told, "; ".join(far)])) + ".")
theirs = published[published["metric"].eq("rouge1")].groupby("corpus")["value"]
spread = " and ".join(f"{best - least:.1f} on {figures.in_words(corpus)}"
                      for (corpus, best), least in zip(theirs.max().items(), theirs.min(), strict=True))  # fmt: skip
print(f"In the paper, the worst map is less than one BLEU point behind the best one; in ROUGE-1 it is {spread}.")

# %% [markdown]
# *Reading* (one seed per row, with these exceptions: from German, oscarmax has six seeds at the paper's `gamma`, and
# the other maps except sq-pnorm-max have three; from French, oscarmax has four at its usual penalty; on e-mails,
# fusedmax and softmax have three and two). The differences here are larger than in the paper. With the paper's `gamma`
# of 1, every sparse map but one is four to nine BLEU points behind softmax on captions, while in the paper all maps
# are within one point. From German we can compare seeds. Below we print a 95 % interval of each difference. It takes
# the seeds as draws (Welch's test), and says nothing of other captions. For sparsemax and oscarmax, the distance is
# more than the spread of the seeds. For fusedmax three runs are not enough, because they end at 34, 20 and 32.
#
# Read these intervals with care, for two reasons. First, Welch's test assumes a normal distribution, and a map that
# sometimes gets stuck has none. Second, the runs of oscarmax end at 33, 28, 31, 20, 31 and 20. After the first four,
# the interval contained 0, and so we added two more runs. If you add runs until your interval excludes 0, it will do so
# too often. What needs neither assumption is this: with each of the three maps, every run ends behind every run of
# softmax.
#
# The exception among the distances is sparsemax from French, which is much further behind. In the picture of section 3,
# its attention never leaves the first words of the source. Two of the runs that end at 20 got stuck in the same way,
# that of fusedmax on the first words and the first one of oscarmax on the last word. The other run of oscarmax moves
# on, but late: four of ten of its words attend most to the first fifth of the source. (We looked at the weights in the
# folders of these runs, which are not committed.) From French, a run of oscarmax with twenty times its penalty
# (*penalty 0.2*) is as far behind as sparsemax.
#
# Why? If you choose a larger `gamma`, the weights of a sparse map are more even. So we trained the sparse maps with
# `gamma: 4` as well (sweep `translation_flatter`). On captions from French, all four are then level with softmax or
# ahead of it, as in the paper, and so is oscarmax with larger penalties (section 3). From German, three of the four are
# level with softmax. Only oscarmax is still nearly three BLEU points behind the softmax with the same seed, which is
# one point better than with a `gamma` of 1. So in seven of eight comparisons, the paper's `gamma` is too small for the
# scores of our model. In all eight, the run with `gamma: 4` is ahead of the run with the same map, language and seed
# and a `gamma` of 1. If the `gamma` did not matter and the eight pairs did not depend on each other, only one in 128
# such sets of pairs would all point the same way. You see that softmax does not gain: from German, its run with
# `gamma: 4` is level with its run with a `gamma` of 1 and the same seed. (From French, we did not train softmax with
# another `gamma`.) Below we ask what a larger `gamma` changes in training.
#
# On e-mails all models are weak. The ROUGE-1 of softmax, sparsemax and sq-pnorm-max is about 12.5, and that of oscarmax
# is about 10. But the three seeds of fusedmax at its usual penalty differ from each other by more than that, and most
# other rows have a single seed. So you cannot tell yet which map is best on e-mails.

# %% tags=["check"]
if is_ours:
    pairs = results[results["run"].str.contains(r"/(?:sparsemax|fusedmax|oscarmax|sq_pnorm_max)-[a-z0-9-]*seed1$")]
    pairs = pairs.query("corpus == 'multi30k' and split == 'test' and metric == 'bleu'").set_index("run")["value"]
    gains = {run: pairs[run] - pairs[run.replace("gamma4-", "")] for run in pairs.index if "gamma4-" in run}
    gains = [gain for run, gain in gains.items() if "lam" not in run]
    assert len(gains) == 8 and min(gains) > 0, "with the same map, language and seed, all eight are ahead"
    of_softmax = results[results["run"].str.contains(r"/softmax-(?:gamma4-)?seed1$")]
    of_softmax = of_softmax.query("corpus == 'multi30k' and split == 'test' and metric == 'bleu'")["value"]
    assert len(of_softmax) == 2 and of_softmax.max() - of_softmax.min() < 0.5, "softmax does not gain, from German"
    for language, (least, most) in {"de": (3.5, 9.5), "fr": (3.5, 6)}.items():
        captions = tables["translation", "multi30k", f"{language} to en"]["bleu"].astype(float)
        behind = captions["softmax"] - captions[~captions.index.str.startswith("softmax")]
        behind = behind[~behind.index.str.contains("gamma=16|gamma_start")]  # those of the sweep translation_changes
        flatter = behind.index.str.contains("gamma=4")
        usual = flatter & ~behind.index.str.contains("lam=0.[25]$")
        apart = flatter & behind.index.str.startswith("oscarmax") & (language == "de")
        stuck = behind.index.isin(["sparsemax", "oscarmax, lam=0.2"] if language == "fr" else [])
        assert behind[~flatter & ~stuck].between(least, most).all(), "behind softmax"
        assert (behind[stuck] > 15).all() and (behind[flatter & ~apart] < 1).all(), "stuck, and level with it"
        assert behind[apart].between(2, 2.5).all(), "oscarmax from German, behind the mean of softmax"
        assert usual.sum() == 4, "all four, from both languages"
        zeros = tables["translation", "multi30k", f"{language} to en"]["zeros"].astype(float)[behind.index]
        assert zeros[flatter].between(0.84, 0.95).all() and zeros[~flatter].between(0.84, 0.95).all(), "as sparse"
    german = results[results["run"].str.contains(r"(?:^|/)(?:softmax|sparsemax|fusedmax|oscarmax)-seed\d+$")]
    german = german.query("split == 'test' and metric == 'bleu'").groupby("model")["value"].apply(list)
    assert german.drop("oscarmax").map(len).eq(3).all(), "three seeds of each"
    assert [round(bleu) for bleu in german["fusedmax"]] == [34, 20, 32], "one is far behind the others"
    assert [round(bleu) for bleu in german["oscarmax"]] == [33, 28, 31, 20, 31, 20], "and here, too"
    flat_bleu = results.query("run.str.endswith('/oscarmax-gamma4-seed1') and split == 'test' and metric == 'bleu'")
    assert 0.9 < flat_bleu["value"].item() - german["oscarmax"][0] < 1.1, "one point better, with the same seed"
    assert 2.8 < german["softmax"][0] - flat_bleu["value"].item() < 3, "nearly three points behind that of its seed"
    for name in ("sparsemax", "fusedmax", "oscarmax"):
        apart = statistics.welch_test(german[name], german["softmax"])
        assert (apart.high < -1) == (name != "fusedmax"), "more than the spread of the seeds"
        print(f"From German, {name} minus softmax is {apart.value:.1f} BLEU, with a 95 % interval over seeds from "
              f"{apart.low:.1f} to {apart.high:.1f}.")  # fmt: skip
        assert max(german[name]) < min(german["softmax"]), "every run is behind every run of softmax"
    apart = statistics.welch_test(german["oscarmax"][:4], german["softmax"])
    assert apart.low < -1 < apart.high, "four were not enough"
    mails = tables["summarisation", "aeslc", ""]["rouge1"].astype(float)
    assert mails.max() < 13.5, "weak"
    near = mails[["softmax", "sparsemax", "sq_pnorm_max"]]
    assert near.between(12.3, 12.8).all() and 9.5 < mails["oscarmax"] < 10.5, "about 12.5, and about 10"
    of_seeds = results.query("run.str.contains('mails-fusedmax-seed') and split == 'test' and metric == 'rouge1'")
    of_seeds = sorted(of_seeds["value"])
    assert len(of_seeds) == 3 and of_seeds[-1] - of_seeds[0] > 12.5 - 10, "farther apart"

# %% [markdown]
# What does a larger `gamma` change? We had an explanation. If all weight of a row is on one word, the row is *one-hot*.
# The Jacobian of a one-hot row is 0 ((A10), `40_sparse_attention`), so no gradient reaches its scores. The softmax has
# a gradient for every word. With a larger `gamma` the weights of given scores are more even. So fewer rows should be
# one-hot early in training, before the model has learned where to look.
#
# We tested this. The tool `python -m tools.attention_rows` repeats the first epoch of the runs with seed 1, step by
# step. After some of the steps, the model reads 256 captions of dev, and the tool counts the rows without a gradient.
# (Rows of equal weights count as well, if the map makes them one group. Before the first step, all rows of oscarmax and
# fusedmax are of this kind.) *Predict* before you look: with which `gamma` do more rows have no gradient after a
# hundred steps?

# %%
counted = pd.read_csv(committed.reference_folder() / committed.ATTENTION_ROWS)
counted["map"] = counted["model"].map(figures.in_words)
spoken = {"de": "German", "fr": "French"}

# %% tags=["figure"]
fig, axes = figures.new_figure(2, 2, size=(13, 8), sharex=True, sharey=True,
                               title="With gamma 1, most rows have no gradient after an epoch")
for ax, ((language, gamma), part) in zip(axes.flat, counted.groupby(["language", "gamma"]), strict=True):
    shares = part.pivot_table(index="step", columns="map", values="no_gradient")
    figures.draw_lines(shares.index, dict(shares), ax, title=f"From {spoken[language]}, gamma {gamma}", solid=True,
                       xlabel="step of the first epoch", ylabel="share of rows without a gradient",
                       beside=True)  # fmt: skip
    if ax is not axes[0, 1]:
        ax.get_legend().remove()
figures.save_figure(fig, folder / "figures", "rows_without_gradient")
figures.show(fig)

# %% [markdown]
# And how far is each model behind softmax at the end, after eight epochs? In the table you see the shares after a
# hundred steps and at the end of the first epoch. Beside them you see by how many BLEU points the run is behind the
# softmax with the same seed.

# %%
scored = committed.read_results().query("split == 'test' and metric == 'bleu'").set_index("run")["value"]


def bleu_of(model, gamma, language):
    """The BLEU of a committed run with seed 1 on captions."""
    changes = ["gamma4"] * (gamma == 4) + [f"language{language}"] * (language != "de")
    return scored["15_train_seq2seq/" + "-".join([model, *changes, "seed1"])]


by_step = counted.pivot_table(index=["language", "model", "gamma"], columns="step", values="no_gradient")
last = by_step.columns.max()
ends = by_step[[100, last]].sort_values(last)
ends["BLEU behind softmax"] = [bleu_of("softmax", 1, language) - bleu_of(name, gamma, language)
                               for language, name, gamma in ends.index]  # fmt: skip
shown = ends.rename(columns={step: f"share after {step} steps" for step in (100, last)}).reset_index()
shown["language"] = shown["language"].map(spoken)
figures.show_table(shown.rename(columns={"model": "attention"}), digits=2)

# %% tags=["check"]
behind, flat = ends["BLEU behind softmax"], ends.index.get_level_values("gamma") == 4
names = [f"{language} {name}" for language, name, _ in ends.index]
few, most = ends[last] < 0.45, pd.Series(names, ends.index).isin(["de fusedmax", "de oscarmax"]) & flat
assert few.sum() == 6 and (few | most).eq(flat).all() and ends.loc[~flat, last].min() > 0.5, "six of eight with gamma 4"
assert (behind[few] < 1).all() and (behind[~few & ~most] > 2.9).all(), "level, and behind"
assert ends.loc[most, last].between(0.65, 0.82).all() and list(behind[most].round()) == [1, 3], "two exceptions"
both = ends.reset_index().pivot_table(index=["language", "model"], columns="gamma", values=100)
more = (both[4] > both[1]).groupby("model").sum()
assert more[["sparsemax", "oscarmax"]].eq(2).all() and more[["fusedmax", "sq_pnorm_max"]].sum() < 4, "more, not fewer"
assert abs(ends[100].corr(behind, method="spearman")) < 0.2, "the share at first does not tell"
related = {flatter: ends.loc[flat == flatter, last].corr(behind[flat == flatter], method="spearman")
           for flatter in (False, True)}  # fmt: skip
print(f"Over all rows, the share at the end of the epoch and the distance have a rank correlation of "
      f"{ends[last].corr(behind, method='spearman'):.2f}. Over the rows with a gamma of 1 it is {related[False]:.2f}, "
      f"and over those with a gamma of 4 it is {related[True]:.2f}.")
assert ends[last].corr(behind, method="spearman") > 0.7 and max(related.values()) < 0.5, "less with the same gamma"
highest = by_step.drop(columns=0).max(axis=1).loc[ends.index[few]].sort_values()
assert (highest.iloc[:3] < 0.45).all() and (highest.iloc[3:] > 0.8).all(), "three never lost it in many rows"
assert set(highest.index[:3].droplevel("gamma")) == {("fr", "fusedmax"), ("de", "sq_pnorm_max"), ("fr", "sq_pnorm_max")}
assert (highest.iloc[3:] > 2 * ends.loc[highest.index[3:], last]).all(), "and three got most of it back"

# %% [markdown]
# *Reading* (one seed per line). About the beginning, our explanation is wrong. After a hundred steps, you see that
# sparsemax and oscarmax have more rows without a gradient with a `gamma` of 4 than with 1, in both languages. Over all
# rows of the table, this share does not tell you which model ends behind.
#
# The end of the first epoch seems to tell you more. With a `gamma` of 1, the share is above a half for every map, and
# every model ends three points or more behind. With a `gamma` of 4, less than half of the rows have no gradient in six
# of the eight cases, and these models end level with softmax. In three of the six (fusedmax from French, and
# sq-pnorm-max), there were never many such rows, as we had thought. In the other three, at least four of five rows lost
# their gradient, and most of these got it back.
#
# But does the share itself tell you this, or only the `gamma`? A larger `gamma` changes both the share and the
# distance. So compare rows with the same `gamma`. Over the eight rows with a `gamma` of 1, and over the eight with a
# `gamma` of 4, the rank correlation is much smaller than over all sixteen (printed above). Eight rows are too few to
# say that there is none. So for all that we can tell, the share may be a sign of a `gamma` that is too small, and no
# more than this.
#
# You also find two exceptions, and they differ from each other. From German, oscarmax has four of five rows without a
# gradient and is behind. Fusedmax has two of three, and is less than a point behind.
#
# How can a row get its gradient back, if no gradient reaches its scores? In (Q1) of `15_train_seq2seq`, we compute the
# scores from the states of the encoder and of the decoder. These states get gradients in other ways, too: through the
# context vector, and from the rows of other words. So the scores move even if their own gradient is 0.
#
# So you should not think of a row without a gradient as lost. It is no fault by itself, either: if a word needs only
# one word of the source, it may well attend to it alone. We have not tested why the rows of oscarmax from German do not
# get their gradient back.
#
# Are there other ways? We tried two of them on captions from German (sweep `translation_changes`). A transformer
# divides its scores by the root of the length of its states, which is 256 here. If you divide the scores by 16, each of
# our maps gives the weights that it gives with a `gamma` of 16. In the other runs, `gamma` falls from 4 to the paper's
# 1 in the first half of training, as in (Q4) of `15_train_seq2seq`. In the first table, each number is from one run,
# with seed 1. For oscarmax, whose seeds differ most, we also trained seeds 2 and 3 with a `gamma` of 16. You find them
# in the second table.

# %%
ways = {"gamma 1": "", "gamma 4": "-gamma4", "gamma 16": "-gamma16", "from 4 to 1": "-gamma_start4-gamma_moves0.5"}
tried = {figures.in_words(name): {said: scored.get(f"15_train_seq2seq/{name}{way}-seed1") for said, way in ways.items()}
         for name in ("softmax", "sparsemax", "oscarmax")}  # fmt: skip
tried = pd.DataFrame(tried).T.astype(float)
display(figures.show_table(tried.rename_axis("attention").reset_index(), digits=1))
beside = {"softmax": "softmax", "oscarmax, gamma 1": "oscarmax", "oscarmax, gamma 16": "oscarmax-gamma16"}
by_seed = pd.DataFrame({name: {seed: scored.get(f"15_train_seq2seq/{run}-seed{seed}") for seed in (1, 2, 3)}
                        for name, run in beside.items()}).astype(float)  # fmt: skip
figures.show_table(by_seed.rename_axis("seed").reset_index(), digits=1)

# %% tags=["check"]
some_scores = 20 * torch.randn(8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
for mapping in MAPPINGS.values():
    divided = mapping.function(some_scores / 16)
    assert torch.allclose(divided, mapping.function(some_scores, gamma=16), atol=1e-12), "gamma 16 divides the scores"
level, sparse, grouping = tried.loc["softmax", "gamma 1"], tried.loc["sparsemax"], tried.loc["oscarmax"]
assert abs(sparse["gamma 16"] - level) < 0.5 and abs(grouping["gamma 16"] - level) < 0.5, "level with softmax"
assert 2.5 < grouping["gamma 16"] - grouping["gamma 4"] < 3, "nearly three points more"
assert 0.8 < sparse["from 4 to 1"] - sparse["gamma 1"] < 1.2, "one point ahead"
assert 2.5 < level - sparse["from 4 to 1"] < 3, "nearly three points behind"
usual_seeds = scored[scored.index.str.fullmatch(r"15_train_seq2seq/oscarmax-seed\d+")]
assert len(usual_seeds) == 6 and 12.5 < usual_seeds.max() - usual_seeds.min() < 13.5, "up to 13 points apart"
grouped = by_seed["oscarmax, gamma 16"].tolist()
for name, others in (("softmax", by_seed["softmax"].tolist()), ("oscarmax with a gamma of 1", usual_seeds.tolist())):
    apart = statistics.welch_test(grouped, others)
    print(f"From German, oscarmax with a gamma of 16 minus {name} is {apart.value:.1f} BLEU, with a 95 % interval over "
          f"seeds from {apart.low:.1f} to {apart.high:.1f}.")  # fmt: skip
    assert (apart.low < 0 < apart.high) == (name == "softmax") and apart.value > 0, "level with softmax, and ahead"
assert min(grouped) > usual_seeds.max() and max(grouped) - min(grouped) < 2, "every run, and they differ little"

# %% [markdown]
# *Reading*. With scores over the root of 256, you see both maps level with softmax, whose scores we did not divide. For
# oscarmax from German, a `gamma` of 4 had not been enough, and a `gamma` of 16 gains nearly three points more (seed 1).
# With three seeds, oscarmax with a `gamma` of 16 is level with softmax: the interval of the difference contains 0
# (printed above). Each of these runs is ahead of every one of the six runs with the paper's `gamma`, and they differ by
# less than two points, while the six are up to 13 points apart. So it is not oscarmax itself that falls behind here,
# but oscarmax with scores of this size.
#
# If `gamma` falls from 4 to 1, you see sparsemax one point ahead of the run with a `gamma` of 1 from the start, and
# still nearly three points behind softmax. So as far as we can tell from one seed, it is not enough that the weights
# are even at first.

# %% [markdown]
# ## 2. Time
#
# How much time does a sparse map take? The paper computes its maps on the CPU. Measured in words per second, its
# training with these maps is at least three quarters as fast as with softmax. We measured one training step of the
# encoder-decoder with `make bench` (`outputs/reference/bench.json`). We timed the maps one after the other, and
# repeated this several times. For each repetition we divide the time of a map by that of softmax. Below you see the
# median of these ratios. (This is not the ratio of the medians.)

# %%
bench = json.loads((committed.reference_folder() / "bench.json").read_text(encoding="utf-8"))
steps = [group for group in bench["groups"] if group["group"].startswith("one training step, encoder-decoder")]
for group in steps:
    threads = "one thread" if group["threads"] == 1 else f"{group['threads']} threads"
    print(f"{group['group'].capitalize()}, with {threads}:")
    measured = {way["name"]: [way["median_ms"], way["times_as_fast"][1]] for way in group["ways"]}
    measured = pd.DataFrame(measured, index=["milliseconds, median", "words per second, softmax = 1"]).T
    measured["milliseconds, median"] = measured["milliseconds, median"].map("{:.1f}".format)
    display(figures.show_table(measured.rename_axis("attention").reset_index()))

# %% tags=["check"]
assert {group["threads"] for group in steps} == {1, 2}, "timed with one thread and with two"
for group in steps:
    lower = {way["name"]: way["times_as_fast"][0] for way in group["ways"]}  # the first quartile of the turns
    assert min(lower[name] for name in ("sparsemax", "fusedmax", "oscarmax")) > 0.9, "nine tenths"

# %% [markdown]
# Sparsemax, fusedmax and oscarmax are more than nine tenths as fast as softmax here. The paper claims three quarters
# for these three, so its claim holds for a training step of this size, with one thread and with two.
#
# ## 3. Texts under two attentions
#
# Now look at the alignments (the paper's Figures 1 and 4). In each row you see a word that the model wrote, and in
# each column a word of the source. Grey cells are exactly zero, and neighbours of exactly equal weight have no border
# between them. We show two short texts of each corpus and language.
#
# Without `runs`, you see six committed pictures. The first two show a German caption with two maps. With both maps,
# each written word attends to one or two words, in the order of the source. The next two show a French caption. In the
# first of them the attention is stuck. It never leaves the first four words, and the model writes *cowboy hat*,
# although the source has an orange hat. In the second you see the same map at `gamma: 4`. Its attention moves through
# the whole caption, and the model writes *orange hat*. The last two show an e-mail. With softmax every word gets some
# weight, and with fusedmax most written words attend to a single word.

# %%
committed.show_pictures(p, *(f"text1_{name}-seed1" for name in ("sparsemax", "oscarmax")))
committed.show_pictures(p, *(f"text1_{name}-languagefr-seed1" for name in ("sparsemax", "sparsemax-gamma4")))
committed.show_pictures(p, *(f"text2_mails-{name}-seed1" for name in ("softmax", "fusedmax")))
read = {name: saved.read_generations(root() / p.runs_dir / name, "test") for name in p.runs}
called = export.names()
together = {}  # names of the runs on the same texts
for name, rows in read.items():
    together.setdefault((len(rows), *rows["source"][0]), []).append(name)

# %% tags=["figure"]
for names in together.values():
    first = read[names[0]]
    spoken, size = first["said"].map(lambda said: 3 <= len(said.split()) <= 12), first["source"].map(len)
    fits = spoken & size.le(max(20, size[spoken].nsmallest(5).max()))  # e-mails are longer than captions
    for k, i in enumerate(first.index[fits][:2], start=1):
        print("The source is:", " ".join(first["source"][i]))
        print("The references are:", " | ".join(first["references"][i]))
        for name in (name for name in names if read[name]["said"][i]):
            words, weights = read[name]["said"][i].split(), np.array(read[name]["weights"][i])
            fig, ax = figures.new_figure(size=(11, 4.8))
            title = f"{called[name]}: {(weights == 0).mean():.0%} of the weights are exactly 0"
            figures.draw_attention(weights, words, first["source"][i], ax, title=title)
            display(export.figure(fig, f"text{k}_{name}", [f"15_train_seq2seq/{name}"]))

# %% [markdown]
# In Figure 1 of Niculae and Blondel, fusedmax gives one weight to whole segments of a sentence that is summarised. Is
# it so for our e-mails? *Share of segments* is the share of the attended words whose weight is that of a neighbour,
# over all words that the model wrote for the test texts. Where all attention is on a single word, this word belongs to
# no segment. (A row whose weights are all equal does not count.)

# %%
of_mails = results.query("corpus == 'aeslc' and model == 'fusedmax' and split == 'test'")
of_mails = of_mails[of_mails["metric"].isin(["segments", "rouge1"])].copy()
of_mails["penalty"] = of_mails["network"].str.extract(r"lam=([\d.]+)")[0].fillna("0.1")
segments = of_mails.pivot_table(index=["penalty", "seed"], columns="metric", values="value")
if "segments" in segments:
    segments = segments[["segments", "rouge1"]].rename(columns={"segments": "share of segments", "rouge1": "ROUGE-1"})
    display(figures.show_table(segments.reset_index(), digits=2))
else:
    print("You see no table here, because there is no run of fusedmax on e-mails among these runs.")

# %% tags=["check"]
if is_ours:
    usual_penalty = segments.loc["0.1", "share of segments"]
    assert len(usual_penalty) == 3 and usual_penalty.between(0.05, 0.15).all(), "about one of ten"
    larger = segments["share of segments"].drop("0.1")
    assert 0.35 < larger["0.5"].item() < 0.4 < 0.65 < larger["2.0"].item() < 0.7, "nearly four of ten, and two of three"
    assert segments["ROUGE-1"].drop("0.1").max() < segments.loc["0.1", "ROUGE-1"].max(), "no better"

# %% [markdown]
# No, in our e-mails fusedmax seldom attends to segments. With the paper's penalty $\lambda$ of 0.1, about one of ten
# attended words belongs to a segment. Why? By (A3) in `40_sparse_attention`, neighbours get one weight if their scores
# differ by little, compared with the penalty. So we trained with larger penalties as well (sweep
# `summarisation_penalties`). With five times the paper's penalty, nearly four of ten attended words belong to a
# segment, and with twenty times two of three. So the scores of our model lie too far apart for the paper's penalty.
# (The larger penalties have one seed each, and the longer segments did not improve the ROUGE.) The figure of the paper
# shows you a single sentence, so we do not know how often the paper's model attends to segments.
#
# In Figure 4 of the paper, oscarmax gives one weight to words that do not stand side by side. Is it so for our captions
# from French? *Share of groups* is the share of the attended words whose weight is that of another word of their row.

# %%
of_french = results.query("aspect == 'fr to en' and model == 'oscarmax' and split == 'test'")
of_french = of_french[of_french["metric"].isin(["grouped", "bleu"])].copy()
for name, usual in (("gamma", "1"), ("lam", "0.01")):
    of_french[name] = of_french["settings"].str.extract(rf"{name}=([\d.]+)")[0].fillna(usual).astype(float)
groups = of_french.pivot_table(index=["gamma", "lam", "seed"], columns="metric", values="value")
if "grouped" in groups:
    groups = groups.dropna()[["grouped", "bleu"]].rename(columns={"grouped": "share of groups", "bleu": "BLEU"})
    display(figures.show_table(groups.reset_index().rename(columns={"lam": "penalty"}), digits=3))
else:
    print("You see no table here, because there is no run of oscarmax from French among these runs.")

# %% tags=["check"]
if is_ours:
    usual, larger = groups.loc[(1.0, 0.01)], groups.loc[4.0].drop(0.01, errors="ignore").droplevel("seed")
    assert usual["share of groups"].between(0.0005, 0.002).all(), "about one in a thousand"
    sixth, quarter = larger["share of groups"].loc[[0.2, 0.5]]
    assert 0.15 < sixth < 0.18 < 0.23 < quarter < 0.26, "a sixth, and a quarter"
    stuck = groups.loc[(1.0, 0.2)].iloc[0]
    assert 0.05 < stuck["share of groups"] < 0.06 and stuck["BLEU"] < 30, "one in eighteen, with a model that got stuck"
    captions = tables["translation", "multi30k", "fr to en"]["bleu"].astype(float)
    assert (larger["BLEU"] - captions["softmax"]).abs().max() < 1, "level with softmax"

# %% [markdown]
# No, with the paper's penalty about one in a thousand of the attended words has the weight of another one. By (A4),
# two words get one weight if their scores differ by less than $\gamma\lambda$. With twenty times the paper's penalty
# and `gamma: 1`, one in eighteen is grouped, but there the attention got stuck. With `gamma: 4` it learns. Then one in
# six attended words is grouped with twenty times the paper's penalty, and one in four with fifty times. The BLEU is
# level with softmax (one seed each). So in these captions, too, the scores of our model lie too far apart for the
# paper's penalty. We have not found a penalty with which most of the words are grouped.
#
# ## 4. Zeros, fused neighbours, loops
#
# The scores do not tell you how an attention works, nor how it fails. So for each of your own runs, we look at all
# words that it wrote for the test set. (Without `runs`, you see no table here.) The table has these columns.
#
# - *Words seen* is the number of source words whose weight is not 0 when one word is written. You find the mean and
#   the median of this number.
# - *Neighbours fused* is the share of pairs of neighbours with exactly equal weight, among the pairs in which both
#   weights are not 0.
# - *Settled* is the share of written words whose nonzero weights form a single group. Such a word passes no gradient
#   back to the scores ((A10), `40_sparse_attention`).
# - *Different words* tells you whether the attention moves. Each written word has a source word with the largest
#   weight. We count how many of these source words are different, and divide by the number of written words. At 1 each
#   written word has a different source word. Near 0 all written words have the same source word, so the attention is
#   stuck.
# - *Cut off* is the share of texts that reached the largest number of words (`longest`). This may show you a loop, in
#   which a model repeats itself. The search compares texts by their log-probability per word. If a model is certain of
#   a repetition ("! ! ! !"), each further word raises the log-probability per word, so the search prefers the longer
#   text. ROUGE does not show you such a loop, because ROUGE does not count punctuation.

# %%
facts = []
for name, rows in read.items():
    some = [np.array(weights) for weights in rows["weights"] if len(weights)]
    if not some:
        print(f"The model of the run {name} has written nothing.")
        continue
    seen = np.concatenate([(w != 0).sum(1) for w in some])
    both = [(w[:, 1:] != 0) & (w[:, :-1] != 0) for w in some]
    equal = sum(((w[:, 1:] == w[:, :-1]) & b).sum() for w, b in zip(some, both, strict=True))
    of_run = saved.read_parameters(root() / p.runs_dir / name)
    different = np.mean([len(set(w.argmax(1))) / len(w) for w in some])
    is_zero = [has_zero_jacobian(torch.tensor(w), of_run["model"], of_run["lam"]) for w in some]
    no_gradient = np.concatenate(is_zero).mean()
    facts.append([called[name], seen.mean(), np.median(seen), equal / max(1, sum(b.sum() for b in both)), no_gradient,
                  different, np.mean([len(weights) >= of_run["longest"] - 1 for weights in rows["weights"]])])
columns = ["attention", "words seen, mean", "median", "neighbours fused", "settled", "different words", "cut off"]
if facts:
    display(export.table(pd.DataFrame(facts, columns=columns), "weights"))
else:
    committed.tell_missing("the weights of all test texts", "15_train_seq2seq", "25_read_seq2seq",
                           "attention/sparsemax.yaml")  # fmt: skip

# %% tags=["check"]
for name, rows in read.items():
    zeros = np.mean([np.mean(np.array(weights) == 0) for weights in rows["weights"] if len(weights)] or [0.0])
    assert abs(zeros - saved.read_metrics(root() / p.runs_dir / name)["test"]["zeros"]) < 0.01, name

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). In section 3, a word belongs to a *segment* if a neighbour has
# the same weight. A word is *grouped* if it has the weight of any other word of its row, wherever this word stands.
# *Predict* which share of the grouped words belongs to a segment (`guess`, a dict from "fusedmax" and "oscarmax" to
# numbers between 0 and 1). We compare your guess with the result, but we do not grade it. *Change* the measure. The
# table `results` has both shares on the test split, in the rows whose `metric` is `segments` or `grouped`. For each
# run of these two maps that has both, divide the share of segments by the share of grouped words (`beside`, a dict
# from the names in the column `run` to numbers; leave out runs without a grouped word). *Explain* the result with the
# penalties (A3) and (A4) of `40_sparse_attention`.

# %% tags=["prediction"]
guess = {"fusedmax": 1.0, "oscarmax": 0.3}

# %% tags=["solution"]
shares = results.query("model in ['fusedmax', 'oscarmax'] and split == 'test' and metric in ['segments', 'grouped']")
shares = shares.pivot_table(index="run", columns="metric", values="value").reindex(columns=["segments", "grouped"])
shares = shares[shares["grouped"] > 0].dropna()
beside = (shares["segments"] / shares["grouped"]).to_dict()
# The penalty of fusedmax is on the differences of neighbours, so it makes words equal only if they stand side by side.
# That of oscarmax is on all pairs of words. It makes two words equal wherever they stand, and some of them are
# neighbours. These captions are short, and with the usual penalty oscarmax groups few of their words at all.

# %% tags=["check"]
both = results[results["split"].eq("test") & results["model"].isin(["fusedmax", "oscarmax"])]
both = {metric: both[both["metric"].eq(metric)].set_index("run") for metric in ("segments", "grouped")}
wanted = both["grouped"].index[both["grouped"]["value"] > 0].intersection(both["segments"].index)
assert set(beside) == set(wanted), "`beside` has one entry for each run of the two maps that has both shares"
for run, claimed in beside.items():
    right = both["segments"]["value"][run] / both["grouped"]["value"][run]
    assert abs(claimed - right) < 1e-6, f"`beside` is too {'low' if claimed < right else 'high'} for {run}"
for name in ("fusedmax", "oscarmax"):
    of_map = [value for run, value in beside.items() if both["grouped"]["model"][run] == name]
    told = f"{min(of_map):.0%} to {max(of_map):.0%}" if of_map else "not known, as there is no such run,"
    print(f"With {name}, the share is {told} in {len(of_map)} runs. Your guess was {guess[name]:.0%}.")
    if is_ours:
        assert len(of_map) >= 3 and (min(of_map) == 1 if name == "fusedmax" else 0.5 < max(of_map) < 1), "as said"

# %% [markdown]
# ## Summary
#
# You can change the map of an attention by one parameter. You saw how this changes the scores and the share of zeros
# (section 1), and the time (section 2).
#
# ## Next
#
# In `23_read_nli` we compare the same maps on pairs of sentences.
