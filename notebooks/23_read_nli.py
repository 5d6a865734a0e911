# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Read alignments of sentence pairs
#
# **You will** put the attentions of `13_train_nli` side by side: accuracy, cells that are not 0, and the alignments of
# one and the same pair.
#
# **You will learn** what sparse attention costs on textual entailment, and how the maps differ where they look.
#
# **You need** runs of `13_train_nli` (`make sweep SWEEP=nli`); without `runs` the committed results are read, and there
# are two committed pictures.

# %% tags=["parameters"]
runs_dir: str = "outputs/13_train_nli"  # folder of the runs
runs: list = []  # names of the runs; empty = the committed outputs/reference/results.csv

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures
from rationale.data.snli_format import LABELS
from rationale.nn import MAPPINGS, has_zero_jacobian
from rationale.runs import committed, results_folder, root, saved, validated

# %%
p = validated(globals())
folder = results_folder("23_read_nli")
results = committed.rows_for(p, "nli")
print(f"{results['run'].nunique()} runs" if len(results) else "no run committed yet")

# %% [markdown]
# ## 1. Accuracy and open cells
#
# Table 3 of Bastings et al. 2019 and Table 1 of Niculae and Blondel 2017, on the test set of SNLI. *Open cells*: the
# share of pairs of words, `@@NULL@@` included, whose weight is not exactly 0; of a map, which has weights in both
# directions, what a premise word spends. The published models were trained on the 549,367 pairs of SNLI, these on what
# the column `corpus` names; the published oscarmax is not the exact map (`06_sparse_attention`, section 5). HardKuma's
# *target* is a share of open cells.

# %%
parts = []
for corpus, part in results.groupby("corpus"):
    found = committed.summary(part, ["accuracy", "rate_selected"], "test").assign(corpus=corpus)
    parts.append(found.assign(**{"behind softmax": committed.behind_softmax(found)}))
table = pd.concat(parts, ignore_index=True)
columns = ["corpus", "model", "variant", "vectors", "target", "accuracy", "accuracy_std", "rate_selected"]
columns.append("behind softmax")
display(figures.show_table(table[[*columns, "seeds"]]))
published = committed.read_published().query("task == 'nli'")
display(figures.show_table(published[["model", "target", "split", "metric", "value", "source"]]))

# %% tags=["check"]
assert table["accuracy"].between(0, 1).all() and table["rate_selected"].between(0, 1).all()
for row in table[table["model"].isin(["softmax", "recurrent"])].to_dict("records"):
    assert row["rate_selected"] > 0.99, "softmax leaves no cell out"  # but for weights that underflow

# %% tags=["figure"]
if len(table):
    fig, ax = figures.new_figure(size=(9, 5))
    drawn = ["rate_selected", "accuracy", "accuracy_std"]
    points = {
        f"{model}, {variant}" if variant else model: part[drawn].fillna(0).to_numpy().tolist()
        for (model, variant), part in table[table["model"] != "recurrent"].groupby(["model", "variant"])
    }
    sparse = table[~table["model"].isin(["recurrent", "softmax"])]
    title = "Only softmax is here"
    if len(sparse):
        best = sparse.loc[sparse["accuracy"].astype(float).idxmax()]
        reached = f"{best['accuracy']:.1%} with {best['rate_selected']:.0%} of the cells open"
        title = f"The best sparse one, {best['model']}: {reached}"
    figures.draw_score_against_rate(points, ax, title=title, ylabel="accuracy (test)")
    ax.set_xlabel("open cells (share)")
    figures.save_figure(fig, folder / "figures", "accuracy_against_cells")
    display(figures.show(fig))

# %% [markdown]
# *Reading* (means of three seeds): oscarmax is level with softmax and every sparse map lies within two points of it, as
# in Niculae and Blondel, with a sixth to three fifths of the cells open. Fusedmax opens a fifth of them in one seed and
# three quarters in the others, where many of its rows stayed uniform (section 3: settled, but not on one word): its
# dead zone, (A7) in `06_sparse_attention`. HardKuma is four to five points behind, where Bastings et al. have about
# one: they train for a hundred epochs on eight times the pairs, these models for twelve, without the paper's dropout,
# which slows them. How many cells it may open hardly matters: a twentieth of them serves as well as a fifth. Without
# any alignment, the recurrent baseline (one seed) is six points behind.

# %% tags=["check"]
if not p.runs:
    usual = table[table["variant"].eq("")].set_index("model")
    behind = usual["behind softmax"].astype(float)
    maps = usual.index.isin(["sparsemax", "fusedmax", "oscarmax", "sq_pnorm_max"])
    assert behind[maps].lt(0.02).all() and abs(behind["oscarmax"]) < 0.005, "within two points; level"
    assert usual.loc[maps, "rate_selected"].between(0.15, 0.6).all(), "a sixth to three fifths"
    gates = usual[usual.index == "hardkuma"]
    assert behind["hardkuma"].between(0.04, 0.05).all(), "four to five points"
    assert gates["target"].tolist() == [0.05, 0.1, 0.2] and np.ptp(gates["accuracy"].astype(float)) < 0.01
    assert 0.055 < behind["recurrent"] < 0.065, "six points"
    fused = results.query("model == 'fusedmax' and metric == 'rate_selected' and split == 'test'")["value"]
    assert fused.between(0.2, 0.25).sum() == 1 and fused.between(0.7, 0.8).sum() == 2, "a fifth, three quarters"

# %% [markdown]
# ## 2. One pair, every attention
#
# Figure 6 of Bastings et al. and Figure 3 of Niculae and Blondel: premise words down, hypothesis words across; grey
# cells are exactly 0, neighbours of exactly equal weight are not parted; each picture has its own scale. Without `runs`
# two committed pictures stand here.

# %%
committed.show_pictures(p, "entailment_hardkuma-selection0.2-seed1", "contradiction_oscarmax-seed1")
sources = {name: root() / p.runs_dir / name for name in p.runs}
read = {name: saved.read_rationales(source, "test") for name, source in sources.items()}
read = {name: rows for name, rows in read.items() if saved.read_parameters(sources[name])["model"] != "recurrent"}
matrices = {
    name: [np.array(row.z).reshape(len(row.tokens), len(row.hypothesis)) for row in rows.itertuples()]
    for name, rows in read.items()
}  # the recurrent baseline aligns nothing

# %% tags=["figure"]
first = next(iter(read.values()), pd.DataFrame({"tokens": [], "hypothesis": [], "label": []}))
short = first["tokens"].map(len).le(14) & first["hypothesis"].map(len).le(9)
for k, label in enumerate(LABELS):
    for i in first.index[short & first["label"].eq(k)][:1]:
        for name, found in matrices.items():
            if i >= len(found) or read[name]["tokens"][i] != first["tokens"][i]:
                continue  # a run on other pairs
            fig, ax = figures.new_figure(size=(11, 5))
            said = LABELS[read[name]["prediction"][i]]
            title = f"{name}: {label}, predicted {said}; {(found[i] != 0).mean():.0%} open"
            top = max(found[i].max(), 1e-6)
            figures.draw_attention(found[i], first["tokens"][i], first["hypothesis"][i], ax, title=title, top=top)
            figures.save_figure(fig, folder / "figures", f"{label}_{name}")
            display(figures.show(fig))

# %% [markdown]
# ## 3. Words that meet nothing
#
# A map gives every premise word a weight of 1 to spend, if need be on `@@NULL@@`; a row of HardKuma gates may be empty.
# *Settled*: all weights that are not 0 are one group, so a map gets no gradient there ((A8), `06_sparse_attention`);
# gates get theirs one by one.

# %%
facts = []
for name, found in matrices.items():
    sums = np.concatenate([z.sum(1) for z in found])
    null = np.concatenate([z[:, 0] for z in found])
    opened = np.concatenate([(z != 0).sum(1) for z in found])
    of_run = saved.read_parameters(sources[name])
    still = [has_zero_jacobian(torch.tensor(z), of_run["model"], of_run["lam"])
             for z in found if of_run["model"] in MAPPINGS]  # fmt: skip
    facts.append([name, (opened == 0).mean(), (opened == 1).mean(), np.concatenate(still).mean() if still else None,
                  opened.mean(), sums.mean(), null.mean()])
names = ["run", "words that meet none", "one", "settled", "words met", "weight spent", "of it on NULL"]
# the last two, of gates: before they are divided by any sum
figures.show_table(pd.DataFrame(facts, columns=names))

# %% tags=["check"]
for name, rows in read.items():
    accuracy, said = (rows["prediction"] == rows["label"]).mean(), saved.read_metrics(sources[name])["test"]
    assert abs(accuracy - said["accuracy"]) < 1e-4, "the saved pairs are those of the metrics"

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). *Predict* which label needs the most open cells (`guess`, one
# of `LABELS`; it is compared, not marked). *Change* from one pair to all of a run: for the runs in `read`, the mean
# share of open cells by label, `open_by_label`, a dict of run names to lists of three (nan where a label has no pair;
# without runs the dict is empty). *Explain* what each label asks of an alignment.

# %% tags=["solution"]
guess, open_by_label = "contradiction", {}
for name, rows in read.items():
    shares = pd.Series([(z != 0).mean() for z in matrices[name]]).groupby(rows["label"].tolist()).mean()
    open_by_label[name] = shares.reindex(range(len(LABELS))).tolist()
# The differences are small: every sparse map, with each seed, opens the fewest cells for neutral pairs, where little
# has a counterpart; HardKuma's order changes with target and seed. A map gives every word something; a constraint on
# the average lets cells be spent where they help.

# %% tags=["check"]
assert set(open_by_label) == set(read), "one entry a run"
for name, rows in read.items():
    label_of, opened_of = rows["label"].to_numpy(), np.array([(z != 0).sum() / z.size for z in matrices[name]])
    counted = np.bincount(label_of, minlength=len(LABELS))
    sums = np.bincount(label_of, opened_of, minlength=len(LABELS))
    assert np.allclose(np.nan_to_num(open_by_label[name]) * counted, sums), f"{name}: the means by label"
    print(name, dict(zip(LABELS, np.round(open_by_label[name], 3).tolist(), strict=True)), "your guess:", guess)

# %% [markdown]
# ## Summary
#
# HardKuma's rate is chosen beforehand, a map's is what comes out; what either costs stands in section 1.
#
# ## Next
#
# `32_reviews` and `31_selection_rates` compare rationale extractors in the same way.
