# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train probes of a frozen model
#
# In `41_diffmask` we derived DiffMask. In this notebook you apply it to a whole model, and you give the same task to
# other methods.
#
# **You will** train a model, freeze it, and train DiffMask's probes on its states. Then you ask other methods which
# words the model used. With `corpus: toy`, the default, we know the right explanation. With `params/probes/sst.yaml`
# the model is a pretrained transformer that was fine-tuned on SST.
#
# **You will learn** what a probe finds if it is trained on all texts and so cannot fit a single answer. You will also
# see how far from the truth the other methods are, which look at one answer at a time.
#
# **You need** `41_diffmask`, and three minutes on one core for the toy task. For SST you need the corpus, the extra
# `pretrained` and about an hour on one core. (`minilm` comes with the extra and needs no network.)
#
# With `params/probes/squad.yaml` you get the paper's model at full size, with 24 layers of 1,024 units on up to 384
# pieces, fine-tuned by others. We have only counted what this costs, and we have not measured it. A step on 8
# questions runs the model twice, once without gradients and once with gradients. The weights are frozen, so the way
# back costs about as much as one more run, and a step takes 6 TFLOP at most. An epoch has 11,000 steps, so it takes
# 20 to 45 minutes on a device that computes 25 to 50 TFLOP per second. The states need about 15 GB of memory.

# %% tags=["parameters"]
corpus: str = "toy"  # toy (are there more n than m among these digits?), sst, xquad or squad
subject: str = ""  # folder of a finished run whose model is probed again; empty: a model is trained
reader: str = "transformer"  # for sst: transformer, or gru, a GRU on the transformer's word embeddings
seed: int = 1  # of the data, of initial weights, of draws
num_train: int = 9000  # examples to train on; 0: all that a corpus has
num_dev: int = 1000  # the same for dev
num_test: int = 1000  # the same for test
methods: list[str] = ["states", "integrated_gradients", "erasure"]  # params/probes/toy.yaml names all methods
margin: float = 0.03  # largest divergence that masking may cause, in nats
model_epochs: int = 20  # passes over the training data for the probed model; 0: it is already fine-tuned
epochs: int = 50  # passes of a probe over the training data
learning_rate: float = 0.005  # step size of Adam for the probe

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import explain, figures, training
from rationale.data.corpora import find_corpus
from rationale.explain import METHODS
from rationale.runs import claims, results_folder, saved, validated
from rationale.training.settings import ProbingSettings

# %%
p = validated(globals(), ProbingSettings)
folder = results_folder("14_train_probes")

# %% [markdown]
# ## 1. The model that is explained
#
# You choose one of three tasks by `corpus`.
#
# - `toy`: a query names two digits, *n* and *m*. The answer says whether a sequence of digits has more *n* than *m*.
#   Only the positions of *n* and *m* can matter. So these positions are the truth, and we compare attributions with
#   it.
# - `sst`: the answer is one of five sentiments. The model predicts it from the last state of the first position of a
#   transformer.
# - `xquad` and `squad`: the answer to a question is a span of a paragraph. The model predicts where this span begins
#   and where it ends.
#
# Here are the first texts of the test split.

# %%
task = training.build_probed_task(p)
truth_known = find_corpus(p.corpus).exact  # for the toy task, where nothing but the gold positions can matter
splits, model = task.splits, task.model
for example in splits["test"][:4]:
    print(" ".join(example.tokens[:60]), "|", *example.second or "", "->", example.label)

# %%
frozen, scores = training.train_probed_model(p, task, folder)
figures.show_table(pd.DataFrame(scores), digits=4, index="measure")

# %% tags=["check"]
is_ours = claims.apply_to(p, "14_train_probes")
if is_ours and truth_known:
    assert scores["dev"]["accuracy"] >= 0.99, "explanations of a model that cannot count would say little"
assert not any(parameter.requires_grad for parameter in model.parameters()), "the model is frozen"
batch = task.batches["dev"].rows(torch.arange(2))
original, states = frozen.read(batch)
ones = torch.ones(batch.mask.shape, device=original.device)
for layer, state in enumerate(states):
    kept = frozen.masked(batch, layer, ones, torch.zeros_like(state[0, 0]))
    assert torch.equal(kept, original), "with a mask of ones the model has its own output"

# %% [markdown]
# ## 2. Every method, the same call
#
# We can now ask all methods about this frozen model. `states` and `inputs` are probes. We train them on all texts.
# Their constraint is that the masks do not change the answer by more than the margin. The other methods look at one
# text and one answer at a time.
#
# Here is how a probe computes its masks. Below, every method is called in the same way.

# %%
figures.show_source(explain.Probe.forward)

# %%
before = {name: value.clone() for name, value in model.state_dict().items()}
found = {}
for method in p.methods:
    found[method] = training.attribute(method, p, frozen, task, folder)
    for name, values in found[method].values.items() if truth_known else ():
        found[method].metrics[name] |= explain.compare_with_gold(values, splits[name])

by_mask = [name for name in p.methods if METHODS[name].is_mask]  # masks of single texts, fitted or searched
if p.searchable and any(METHODS[name].needs_margin for name in by_mask):
    tests = task.batches["test"].rows(torch.arange(len(splits["test"]))[: p.num_explained or None])
    for prefix, margin in (("", p.margin), ("answer_", None)):  # what is kept: the distribution, the answer alone
        solutions = explain.smallest_masks(frozen, tests, layer=0, longest=p.searchable, margin=margin)
        print(f"{len(solutions)} texts searched; {np.mean([len(s) for s in solutions]):.1f} smallest masks per text, "
              f"of {np.mean([s[0].sum().item() for s in solutions]):.1f} positions")
        for method in (name for name in by_mask if METHODS[name].needs_margin or not margin):  # erasure has no margin
            one = found[method]
            marks = explain.compare_with_search(one.values["test"], solutions)
            one.by_text |= {f"{prefix}{name}": values for name, values in marks.items()}
            for step, masks in one.earlier.items() if margin else ():
                marks = explain.compare_with_search(masks, solutions)
                one.by_text |= {f"{name}_at_{step}": marks[name] for name in ("f1", "optimality")}
            one.metrics["test"] |= {name: values.mean().item() for name, values in one.by_text.items()}

# %%
weights = {method: one.probe.state_dict() for method, one in found.items() if one.probe is not None}
weights |= {"subject": model.state_dict()}
answers = {"test": training.predict_answers(model, task.batches["test"])[0]}
saved_metrics = saved.save_probes(folder, scores, found, {"test": splits["test"]}, answers, weights, p)

# %% tags=["check"]
assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), "no bit has changed"
for one in found.values():
    assert all(v.shape[1] == len(e.tokens) for v, e in zip(one.values["test"], splits["test"], strict=False))
    assert all(bool((values >= 0).all()) for values in one.values["test"]), "an attribution is at least 0"

# %% [markdown]
# ## 3. What came out
#
# What you see in the table depends on the task. For the toy task, the columns *KL* and *JS* measure how far the
# attributions are from the truth. (For this, both are scaled to sum to 1.) The columns with *layer 1* belong to layer
# 1, whose states depend on the query. At layer 0 no state depends on the query yet, so there the right explanation
# keeps everything. But the columns with *layer 0* measure the distance to the positions of *n* and *m*, too. So a probe
# that is right at layer 0 has about the KL of an attribution that is the same everywhere (exercise 1), and not 0.
#
# Methods that make masks have more columns, for every task. *Kept* is the share of positions that are not masked,
# *divergence* is how far the masks move the answer, in nats, and *agreement* is the share of texts whose answer stays
# the same. For a probe, these are means over the layers, and you find each layer in the tables below. If you fitted
# masks to single sentences, or searched the smallest masks, there are also columns from *precision* to *smallest*.
# Section 4 of `24_read_probes` explains them.
#
# > Erasure has no KL. If an attribution is exactly 0 at a position that belongs to the truth, the divergence from the
# > truth is infinite. The column *empty* is the share of texts for which a method keeps no position. For erasure this
# > happens when the model gives the same answer to the empty sequence.

# %%
rows = {method: one.metrics["test"] | {"seconds": one.seconds} for method, one in found.items()}
columns = ["kl_1", "js_1", "empty_1", "kl_0", "js_0", "precision", "recall", "f1", "masked", "optimality", "answer_f1"]
columns += ["feasible", "feasible_draws", "settled", "smallest", "divergence", "kept", "agreement", "seconds"]
table = pd.DataFrame(rows).T.reindex(columns=columns).dropna(axis=1, how="all").round(4)
in_words = {"kl_1": "KL, layer 1", "js_1": "JS, layer 1", "empty_1": "empty, layer 1", "kl_0": "KL, layer 0",
            "js_0": "JS, layer 0", "f1": "F1", "masked": "dropped", "feasible": "meets the margin",
            "feasible_draws": "its draws do", "answer_f1": "answer: F1"}  # fmt: skip
lines = [f"  accuracy of the model: dev {scores['dev']['accuracy']:.1%}, test {scores['test']['accuracy']:.1%}"]
lines += ["  test, by method:", table.to_string()]
(folder / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
figures.show_table(table.rename(columns=in_words), index="method")

# %%
last = len(frozen.layers) - 1
mark = "f1" if "f1" in scores["test"] else "macro_f1"
names = ["kept", "divergence", "agreement", "masked_accuracy", f"masked_{mark}"]
by_layer = {
    method: pd.DataFrame({name: [one.metrics["test"][f"{name}_{k}"] for k in range(last + 1)] for name in names})
    for method, one in found.items() if one.history
}
for method, layers in by_layer.items():
    print(f"Here are the layers of the {figures.in_words(method)}. Without masks, the model has a score "
          f"({figures.in_words(mark)}) of {scores['test'][mark]:.3f}.")  # fmt: skip
    display(figures.show_table(layers.rename(columns=figures.in_words), index="layer"))

# %% tags=["figure"]
trained = {method: one for method, one in found.items() if one.history}
for method, one in trained.items():
    epochs_run = [row["epoch"] for row in one.history]
    lines = {f"layer {k}": [row[f"dev_kept_{k}"] for row in one.history] for k in range(len(frozen.layers))}
    fig, ax = figures.new_figure(size=(9, 4.6))
    kept = [one.metrics["test"][f"kept_{k}"] for k in range(len(frozen.layers))]
    who = figures.in_words(method).capitalize()
    title = f"{who}: {kept[0]:.0%} of layer 0 is kept, {kept[-1]:.0%} of the last layer"
    figures.draw_lines(epochs_run, lines, ax, title=title, xlabel="epoch", ylabel="expected share kept (dev)")
    figures.save_figure(fig, folder / "figures", f"kept_{method}")
    display(figures.show(fig))

# %% tags=["check"]
for method, one in trained.items():
    assert all(np.isfinite(list(one.metrics[name].values())).all() for name in ("dev", "test")), method
if is_ours and truth_known and "states" in found:
    far = {method: one.metrics["test"]["kl_1"] for method, one in found.items() if "kl_1" in one.metrics["test"]}
    nearest = far.pop("states")
    assert nearest < 0.1 and all(nearest < distance / 2 for distance in far.values()), "far nearer than any other"

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). Before you interpret a divergence, you should know how large it
# is for an attribution without any information. *Predict* the KL divergence from the truth to an attribution that is
# the same everywhere. Write it as a function `kl_of(num_positions, num_gold)`. *Change* the attributions to this one.
# Compute `kl_of_nothing`, the mean over the test texts of the toy task that have gold positions, in nats (None for
# another corpus). Then collect in `worse` the set of those methods in `found` that have a `kl_1` in their metrics, and
# for which it is larger. (Erasure has none, because it would be infinite.) *Explain* what such a method does wrong,
# compared with this attribution.

# %% tags=["prediction"]
def kl_of(num_positions, num_gold):
    return np.log(num_positions / num_gold)


# %% tags=["solution"]
kl_of_nothing, worse = None, set()
if truth_known:
    of_texts = [kl_of(len(e.tokens), sum(e.rationale)) for e in splits["test"] if any(e.rationale)]
    kl_of_nothing = float(np.mean(of_texts or [0.0]))
    worse = {method for method, one in found.items() if one.metrics["test"].get("kl_1", 0) > kl_of_nothing}
    print(f"a constant attribution has {kl_of_nothing:.3f} nats; methods that are worse: {worse or 'none'}")
# The truth is uniform over the gold positions, and the attribution is uniform over all positions. So at each gold
# position the ratio of the two is num_positions / num_gold, and the KL divergence is its logarithm. A method with a
# larger divergence gives some gold positions even less weight than a uniform attribution does.

# %% tags=["check"]
assert abs(kl_of(8, 2) - np.log(4)) < 1e-9, "`kl_of`: if 2 of 8 positions are gold, it is ln 4"
if truth_known and any(any(e.rationale) for e in splits["test"]):
    flat = [torch.ones(1, len(e.tokens)) for e in splits["test"]]  # of one layer
    of_flat = explain.compare_with_gold(flat, splits["test"])["kl_0"]
    size = "too low" if kl_of_nothing < of_flat else "too high"
    assert abs(kl_of_nothing - of_flat) < 1e-6, f"`kl_of_nothing` is {size}"
    for method, one in found.items():
        far = one.metrics["test"].get("kl_1", 0)
        assert (method in worse) == (far > of_flat), f"`worse` is not right about {method}"

# %% [markdown]
# ## Summary
#
# You trained a model and froze it. Then you trained one probe for all of its texts, and called the other methods in
# the same way.
#
# ## Next
#
# In `24_read_probes` we compare the methods over several seeds and draw what they found.
