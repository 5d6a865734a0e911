# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Read probes
#
# **You will** hold the attributions of `14_train_probes` against the truth over seeds, look at one sequence of digits
# through every method, and see where the layers put what they know.
#
# **You will learn** how far shortcuts of single answers are from what a model does, and why an attribution *by layer*
# says more than one to the input.
#
# **You need** `07_diffmask`; runs of `14_train_probes` (`make sweep SWEEP=probes_toy`); without `runs` the committed
# results are read, and there is no text to show.

# %% tags=["parameters"]
runs_dir: str = "outputs/14_train_probes"  # folder of the runs
runs: list[str] = []  # names of the runs; empty = the committed outputs/reference/results.csv

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, probing, reading, reference, saved
from rationale.data.sst import CLASSES
from rationale.params import METHODS, PROBED, completed, validated
from rationale.probes import recorded
from rationale.runs import results_folder, root

# %%
p = validated(globals())
folder = results_folder("24_read_probes")
results = reference.rows_for(p, "probes")
folders = {kind: [] for kind in (*PROBED, "search")}  # of the given runs, by what they probed
for name in p.runs:
    given = saved.read_parameters(root() / p.runs_dir / name)
    folders["search" if given["searchable"] else given["corpus"]] += [root() / p.runs_dir / name]
everything, results = results, results[results["corpus"] == "toy"]
print(f"{everything['run'].nunique()} runs, {results['run'].nunique()} of the toy task")

# %% [markdown]
# ## 1. Distance to the truth (Table 1)
#
# The truth: uniform over the positions of the query's digits, at the layer that has seen the query. Attributions are
# scaled to sum to 1; divergences are in nats, means over the test texts that hold a digit of the query, then over
# seeds. The paper gives no spread.
#
# > Erasure has no Kullback-Leibler divergence (it is infinite), and where nothing needs to be kept, no distribution at
# > all: `empty` is the share of such texts. The paper's row is that of a rule in its code, not of a search: one digit
# > is kept, the first *n* if the answer is yes, else the first *m* (`07_diffmask`, section 1).

# %%
marks = ["kl_1", "js_1", "empty_1", "kl_0", "js_0", "seconds"]
table = reference.summary(results, marks).query("model != 'subject' and variant == ''").set_index("model")
table = table.reindex([method for method in METHODS if method in table.index])
took = results.query("metric == 'seconds' and split == 'train'").groupby("model")["value"].mean()
shown = table[["kl_1", "kl_1_std", "js_1", "js_1_std", "empty_1", "seeds"]].astype(float).round(4)
display(shown.assign(seconds=took.reindex(shown.index).round(1)))
published = reference.read_published().query("task == 'probes' and corpus == 'toy'")
wide = published.pivot_table(index="model", columns="metric", values="value", sort=False)
display(wide)

# %% tags=["check"]
accuracy = results.query("model == 'subject' and split == 'dev' and metric == 'accuracy'")["value"]
best = table["js_1"].astype(float).idxmin() if len(table) else "none"
if len(table):
    print(f"dev accuracy of the models: {accuracy.min():.1%} at least; nearest to the truth: {best}")
if not p.runs:
    assert accuracy.min() >= 0.99, "the models that are explained can count"
    assert best == "states", "DiffMask is nearer to the truth than every other method"
    assert table["kl_1"]["states"] <= 0.02 and table["js_1"]["states"] <= 0.01, "what this repository asks of it"

# %% tags=["figure"]
if len(table):
    fig, ax = figures.new_figure(size=(9, 4.6))
    errors = table["js_1_std"].astype(float).fillna(0)
    title = f"{best} is nearest to the truth: {table['js_1'].min():.3f} nats"
    figures.draw_bars([name.replace("_", "\n") for name in table.index], {"JS": table["js_1"].astype(float)}, ax,
                      title=title, ylabel="Jensen-Shannon, nats", errors={"JS": errors}, fmt="{:.3f}")
    figures.save_figure(fig, folder / "figures", "distance_toy")
    display(figures.show(fig))

# %% [markdown]
# ## 2. One sequence, every method (Figure 3)
#
# Each row is scaled by its largest value; grey is exactly 0. Row `truth` is the gold; those of `states` are the two
# layers of one probe: at the digits' embeddings nothing can be dropped, because nothing there knows the query.

# %% tags=["figure"]
for path in folders["toy"][:1]:
    texts = saved.read_attributions(path, "test")
    methods = [method for method in METHODS if method in texts]
    fitting = texts[texts["tokens"].str.len().between(6, 9) & texts["gold"].map(any)].head(2)
    for i, row in fitting.iterrows():
        n, m = row["hypothesis"]
        values = {"truth": row["gold"]} | {
            f"{method}, layer {k}": layer for method in methods for k, layer in enumerate(row[method])
            if k == 1 or method in ("states", "inputs")
        }
        heat = np.array([np.array(v, float) / max(max(v), 1e-30) for v in values.values()])
        fig, ax = figures.new_figure(size=(10, 5.2))
        title = f"more {n} than {m}? {'yes' if row['label'] else 'no'}"
        figures.draw_attention(heat, list(values), row["tokens"], ax, title=title)
        figures.save_figure(fig, folder / "figures", f"digits_{i}")
        display(figures.show(fig))

# %% [markdown]
# ## 3. What the second layer knows (Figure 12)
#
# The states after the query was seen have two numbers. The model learned to tell *n*, *m* and the rest apart by them:
# the layer is a filter, and that is why the truth is what it is.

# %% tags=["figure"]
kept_by_kind = {}
for path in folders["toy"][:1]:
    given = completed(saved.read_parameters(path) | {"device": "cpu"})
    subject = probing.build_subject(given)
    model, examples = probing.load_weights(subject.model, path).eval(), subject.splits["test"][:200]
    batch = subject.batches["test"].rows(torch.arange(len(examples)))
    with torch.no_grad(), recorded(model.layers) as states:
        model.predict(batch)
    kinds = np.array([e.hypothesis.index(t) if t in e.hypothesis else 2 for e in examples for t in e.tokens])
    flat = states[1][batch.mask].numpy()
    points = {kind: flat[kinds == k] for k, kind in enumerate(("n", "m", "another digit"))}
    fig, ax = figures.new_figure(size=(8, 6))
    figures.draw_states(points, ax, title="Two numbers tell n, m and the rest apart")
    figures.save_figure(fig, folder / "figures", "states")
    display(figures.show(fig))
    texts = saved.read_attributions(path, "test").head(len(examples))
    lengths = [len(e.tokens) for e in examples]
    judged = np.repeat([any(e.rationale) for e in examples], lengths)  # without the query's digits nothing is right
    for method in (method for method in METHODS if method in texts):
        found = np.concatenate([np.array(layers)[1] / max(max(layers[1]), 1e-30) for layers in texts[method]])
        kept_by_kind[method] = [found[(kinds == k) & judged].mean() for k in range(3)]

# %% tags=["figure"]
if kept_by_kind:
    fig, ax = figures.new_figure(size=(11, 4.8))
    bars = {kind: [values[k] for values in kept_by_kind.values()] for k, kind in enumerate(points)}
    figures.draw_bars([name.replace("_", "\n") for name in kept_by_kind], bars, ax, fmt="{:.2f}",
                      title="Digits outside the query should get nothing", ylabel="attribution / largest of its text")
    figures.save_figure(fig, folder / "figures", "by_kind")
    display(figures.show(fig))

# %% tags=["check"]
if "states" in kept_by_kind and given.num_train >= 9_000:
    probe, others = kept_by_kind["states"], [kept_by_kind[m] for m in kept_by_kind if m not in ("states", "inputs")]
    assert probe[2] < 0.05 < 0.8 < min(probe[:2]), "all of the query's digits, no other"
    assert all(min(values[:2]) < min(probe[:2]) for values in others), "no other method keeps as much of the query"

# %% [markdown]
# **Exercise** (10 minutes). Erasure and the noise methods give *m* and *n* less than all. Predict for which answers
# (yes or no) a method drops *m*, then check it on the attributions of one run.

# %% tags=["solution"]
for path in folders["toy"][:1]:
    texts = saved.read_attributions(path, "test")
    for method in (method for method in METHODS if method in texts and method not in ("states", "inputs")):
        shares = {}
        for label, part in texts[texts["gold"].map(any)].groupby("label"):
            to_m = [sum(v for v, t in zip(r[method][1], r["tokens"], strict=True) if t == r["hypothesis"][1])
                    / max(sum(r[method][1]), 1e-30) for _, r in part.iterrows()]
            shares["yes" if label else "no"] = round(float(np.mean(to_m)), 2)
        print(f"{method}: share of the attribution that goes to m, by answer: {shares}")
# What is found depends on the answer: m can go where it argues against it, and all can go where nothing is the default.

# %% [markdown]
# ## 4. Masks of single sentences against exact search (Table 2)
#
# Here the truth is a search: the smallest sets of words that keep a GRU's answer on a sentence of SST. DiffMask without
# amortisation has free logits for each sentence; the score function (`05_reinforce`) is the other way to their
# gradient. Precision, recall and F1 are those against the smallest mask that fits best, means over sentences, in per
# cent.
#
# > The paper compares with a score function that leaves $\lambda$ out (`masks_by_released_score`, its "REINFORCE+").
# > Scaled as the Lagrangian asks it is `masks_by_score`. Embeddings, sentences and model are other than the paper's.
# > The margin decides how much is masked (the released method does not see it): compare methods at like sparsity. A
# > search for the answer alone and a constraint on its distribution are not the same problem, whatever the method.

# %%
searched = reference.searched(everything)
marks = list(reference.SEARCHED)
table = reference.summary(searched, marks).sort_values(["variant", "model"])
table = table.set_index(table["model"] + table["variant"].str.removeprefix("gru"))
display((100 * table[marks].astype(float)).round(1).assign(seeds=table["seeds"]))
published = reference.read_published().query("task == 'probes' and metric in @marks")
display((100 * published.pivot_table(index="model", columns="metric", values="value")).reindex(columns=marks))

# %% tags=["check"]
if "erasure" in table.index:
    assert table["optimality"]["erasure"] == 1, "the search is the truth"

# %% tags=["figure"]
if len(table):
    fig, ax = figures.new_figure(size=(10, 4.6))
    rows = [name for name in table.index if name != "erasure"]
    bars = {mark: 100 * table.loc[rows, mark].astype(float) for mark in ("f1", "masked", "optimality")}
    names = [name.replace("masks_by_", "").replace("_", "\n").replace(", margin=", "\nm = ") for name in rows]
    figures.draw_bars(names, bars, ax, ylabel="per cent", fmt="{:.0f}",
                      title="How near to the smallest masks that keep the answer")
    figures.save_figure(fig, folder / "figures", "search")
    display(figures.show(fig))

# %% [markdown]
# ## 5. A transformer on SST
#
# Macro-F1 of the model, and of what is left of it when each layer's masks are drawn; `kept` is the expected share.
# `inputs`: a word is kept if no layer up to there votes against it; `states`: the states of that layer alone are
# masked.

# %%
transformer = everything.query("corpus == 'sst' and split == 'test'")
transformer = transformer[~transformer["variant"].str.startswith("gru")]
published = reference.read_published().query("corpus == 'sst' and model in ['subject', 'inputs', 'states']")
print(published[["model", "metric", "value", "source"]].to_string(index=False))
by_layer = {}
for method, part in transformer[transformer["model"].isin(["inputs", "states"])].groupby("model"):
    values = part.groupby("metric")["value"].mean()
    layers = sum(name.startswith("kept_") for name in values.index)
    names = ["kept", "divergence", "agreement", "masked_macro_f1"]
    by_layer[method] = pd.DataFrame({name: [values[f"{name}_{k}"] for k in range(layers)] for name in names})
    print(f"{method}, by layer")
    display(by_layer[method].round(3))
alone = transformer.query("model == 'subject' and metric == 'macro_f1'")["value"]
print(f"macro-F1 of the model alone: {alone.mean():.3f}" if len(alone) else "no run on SST yet")

# %% tags=["figure"]
if by_layer:
    fig, ax = figures.new_figure(size=(9, 4.6))
    shares = {method: layers["kept"] for method, layers in by_layer.items()}
    figures.draw_lines(range(len(next(iter(shares.values())))), shares, ax, title="What each layer can do without",
                       xlabel="layer (0: word embeddings)", ylabel="expected share kept", markers=True)
    figures.save_figure(fig, folder / "figures", "kept_sst")
    display(figures.show(fig))

# %% [markdown]
# A sentence by layers (Figures 5 and 7), the separators (Figure 6), and what sentiment people gave to the words that
# are kept (Figure 8).

# %% tags=["figure"]
sentence = "A fast , funny , highly enjoyable movie ."
for path in folders["sst"][:1]:
    texts = saved.read_attributions(path, "test")
    same = texts[texts["tokens"].map(lambda t: " ".join(t[1:-1])) == sentence.lower()]
    row = (same if len(same) else texts[texts["tokens"].str.len().between(8, 14)]).iloc[0]
    for method in (m for m in METHODS if m in row and isinstance(row[m], list)):
        heat = np.array(row[method])
        heat = heat / heat.max(1, keepdims=True).clip(min=1e-30) if method not in ("inputs", "states") else heat
        fig, ax = figures.new_figure(size=(10, 4.6))
        figures.draw_attention(heat, [f"layer {k}" for k in range(len(heat))], row["tokens"], ax, title=method)
        figures.save_figure(fig, folder / "figures", f"sentence_{method}")
        display(figures.show(fig))

# %% tags=["figure"]
for path in folders["sst"][:1]:
    texts = saved.read_attributions(path, "test")
    for method in (m for m in ("inputs", "states") if m in texts):
        means = probing.kept_by_kind(texts[method], texts["word_labels"])
        fig, ax = figures.new_figure(size=(9, 4.6))
        lines = {kind: means[kind] for kind in ("[CLS]", "[SEP]", "words")}
        figures.draw_lines(range(len(means)), lines, ax, title=f"{method}: separators and words",
                           xlabel="layer", ylabel="mean probability to be kept", markers=True)
        figures.save_figure(fig, folder / "figures", f"separators_{method}")
        display(figures.show(fig))
        fig, ax = figures.new_figure(size=(9, 4.6))
        kept_in = {method: [means[kind].sum() for kind in CLASSES]}
        figures.draw_bars([kind.replace(" ", "\n") for kind in CLASSES], kept_in, ax, fmt="{:.1f}",
                          title=f"{method}: layers that keep a word, by its sentiment", ylabel="expected layers")
        figures.save_figure(fig, folder / "figures", f"sentiment_{method}")
        display(figures.show(fig))

# %% [markdown]
# ## 6. Go through the layers
#
# One text of a run, a slider over the layers; of `states` and `inputs` also what the model answers when its masks are
# drawn.

# %% tags=["interactive"]
reading.explore_layers([root() / p.runs_dir / name for name in p.runs])

# %% [markdown]
# ## Summary
#
# The probe keeps all digits of the query and drops the rest; methods that look at one answer keep what suffices for it.
#
# ## Next
#
# `25_read_seq2seq` compares attentions in translation and summarisation.
