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
# **You will** train a model, freeze it, train DiffMask's probes on its states, and ask other methods the same question:
# first a model whose right explanation is known (`corpus: toy`), then a pretrained transformer fine-tuned on SST
# (`params/probes/sst.yaml`).
#
# **You will learn** that a probe which may not look at one answer alone finds what the model's layers know, and that
# methods which may do so find shortcuts.
#
# **You need** `41_diffmask`; three minutes on one core for the toy task. For SST the corpus, the extra `pretrained`
# (`minilm` comes with it and needs no network) and about an hour on one core. `params/probes/squad.yaml` is the paper's
# model at full size, 24 layers of 1,024 units on up to 384 pieces, fine-tuned by others. By count, not by measurement:
# a step of 8 questions is some 8 TFLOP (a run without gradients, one with), an epoch of 11,000 steps half an hour to an
# hour at 25 to 50 TFLOP a second; its states take some 15 GB.

# %% tags=["parameters"]
corpus: str = "toy"  # toy (are there more n than m among these digits?), sst, xquad or squad
subject: str = ""  # folder of a finished run whose model is probed again; empty: a model is trained
reader: str = "transformer"  # of sst: transformer, or gru, a GRU on the transformer's word embeddings
seed: int = 1  # of the data, of initial weights, of draws
num_train: int = 9000  # examples to train on; 0: all of a corpus that is read
num_dev: int = 1000  # the same for dev
num_test: int = 1000  # the same for test
methods: list[str] = ["states", "integrated_gradients", "erasure"]  # what attributes; all: params/probes/toy.yaml
margin: float = 0.03  # divergence that masking may cost, in nats
model_epochs: int = 20  # passes over the training data of the model that is probed; 0: it comes fine-tuned
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
# `toy`: a query names two digits, *n* and *m*; the answer says whether the sequence holds more *n* than *m*. Nothing
# but the positions of *n* and *m* can matter: they are the truth against which attributions are held.
#
# `sst`: one of five sentiments, from the last state of the first position of a transformer.
#
# `xquad`, `squad`: where the answer to a question begins and ends in a paragraph.

# %%
task = training.build_probed_task(p)
truth_known = find_corpus(p.corpus).exact  # of the toy: nothing but the gold positions can matter
splits, model = task.splits, task.model
for example in splits["test"][:4]:
    print(" ".join(example.tokens[:60]), "|", *example.second or "", "->", example.label)

# %%
frozen, scores = training.train_probed_model(p, task, folder)
pd.DataFrame(scores).round(4)

# %% tags=["check"]
is_ours = claims.apply_to(p, "14_train_probes")
if is_ours and truth_known:
    assert scores["dev"]["accuracy"] >= 0.99, "explanations of a model that cannot count would say little"
assert not any(parameter.requires_grad for parameter in model.parameters()), "it is frozen"
batch = task.batches["dev"].rows(torch.arange(2))
original, states = frozen.read(batch)
ones = torch.ones(batch.mask.shape, device=original.device)
for layer, state in enumerate(states):
    kept = frozen.masked(batch, layer, ones, torch.zeros_like(state[0, 0]))
    assert torch.equal(kept, original), "a mask of ones gives the model back"

# %% [markdown]
# ## 2. Every method, the same call
#
# `states` (and `inputs`) are probes: trained on all texts, with the constraint that masking changes the answer by no
# more than the margin. The other methods look at one text and one answer at a time.

# %%
figures.show_source(explain.Probe.forward)

# %%
before = {name: value.clone() for name, value in model.state_dict().items()}
found = {}
for method in p.methods:
    found[method] = training.attribute(method, p, frozen, task, folder)
    for name, values in found[method].values.items() if truth_known else ():
        found[method].metrics[name] |= explain.compare_with_gold(values, splits[name])

by_mask = [name for name in p.methods if METHODS[name].is_mask]  # of single texts: fitted, or searched
if p.searchable and any(METHODS[name].needs_margin for name in by_mask):
    tests = task.batches["test"].rows(torch.arange(len(splits["test"]))[: p.num_explained or None])
    for prefix, margin in (("", p.margin), ("answer_", None)):  # what is kept: the distribution, the answer alone
        solutions = explain.smallest_masks(frozen, tests, layer=0, longest=p.searchable, margin=margin)
        print(f"{len(solutions)} texts searched; {np.mean([len(s) for s in solutions]):.1f} smallest masks per text, "
              f"of {np.mean([s[0].sum().item() for s in solutions]):.1f} positions")
        for method in (name for name in by_mask if METHODS[name].needs_margin or not margin):  # erasure has no margin
            marks = explain.compare_with_search(found[method].values["test"], solutions)
            found[method].metrics["test"] |= {f"{prefix}{name}": value for name, value in marks.items()}

# %%
weights = {method: one.probe.state_dict() for method, one in found.items() if one.probe is not None}
weights |= {"subject": model.state_dict()}
answers = {"test": training.predict_answers(model, task.batches["test"])[0]}
saved_metrics = saved.save_probes(folder, scores, found, {"test": splits["test"]}, answers, weights, p)

# %% tags=["check"]
assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), "not one bit has moved"
for one in found.values():
    assert all(v.shape[1] == len(e.tokens) for v, e in zip(one.values["test"], splits["test"], strict=False))
    assert all(bool((values >= 0).all()) for values in one.values["test"]), "an attribution is at least 0"

# %% [markdown]
# ## 3. What came out
#
# Of the toy task: how far attributions are from the truth, both scaled to sum to 1 (`kl_1`, `js_1`: at layer 1, the
# state after the query was seen; at layer 0 the right answer is to keep everything, as nothing there knows the query).
# Of SST: what each layer's mask keeps, and what that costs.
#
# > `kl_1` of erasure is missing: a divergence from the truth to an attribution that is exactly 0 at some of its
# > positions is infinite. `empty` is the share of texts of which it keeps nothing, because the empty sequence has the
# > same answer.

# %%
rows = {method: one.metrics["test"] | {"seconds": one.seconds} for method, one in found.items()}
columns = ["kl_1", "js_1", "empty_1", "kl_0", "js_0", "precision", "recall", "f1", "masked", "optimality", "answer_f1"]
columns += ["divergence", "kept", "agreement", "seconds"]
table = pd.DataFrame(rows).T.reindex(columns=columns).dropna(axis=1, how="all").round(4)
lines = [f"  accuracy of the model: dev {scores['dev']['accuracy']:.1%}, test {scores['test']['accuracy']:.1%}"]
lines += ["  test, by method:", table.to_string()]
(folder / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
table

# %%
last = len(frozen.layers) - 1
mark = "f1" if "f1" in scores["test"] else "macro_f1"
names = ["kept", "divergence", "agreement", "masked_accuracy", f"masked_{mark}"]
by_layer = {
    method: pd.DataFrame({name: [one.metrics["test"][f"{name}_{k}"] for k in range(last + 1)] for name in names})
    for method, one in found.items() if one.history
}
for method, layers in by_layer.items():
    print(f"{method}: by layer; the model alone has {mark} {scores['test'][mark]:.3f}")
    display(layers.round(3))

# %% tags=["figure"]
trained = {method: one for method, one in found.items() if one.history}
for method, one in trained.items():
    epochs_run = [row["epoch"] for row in one.history]
    lines = {f"layer {k}": [row[f"dev_kept_{k}"] for row in one.history] for k in range(len(frozen.layers))}
    fig, ax = figures.new_figure(size=(9, 4.6))
    kept = [one.metrics["test"][f"kept_{k}"] for k in range(len(frozen.layers))]
    title = f"{method}: {kept[0]:.0%} of layer 0 is kept, {kept[-1]:.0%} of the last layer"
    figures.draw_lines(epochs_run, lines, ax, title=title, xlabel="epoch", ylabel="expected share kept (dev)")
    figures.save_figure(fig, folder / "figures", f"kept_{method}")
    display(figures.show(fig))

# %% tags=["check"]
for method, one in trained.items():
    assert all(np.isfinite(list(one.metrics[name].values())).all() for name in ("dev", "test")), method
if is_ours and truth_known and "states" in found:
    assert found["states"].metrics["test"]["kl_1"] < 0.1, "far nearer to the truth than any other method"

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). Before a divergence is read, one should know that of saying
# nothing. *Predict*, as a function `kl_of(num_positions, num_gold)`, the KL from the truth to an attribution that is
# the same everywhere. *Change* the attributions so: `kl_of_nothing`, the mean over the toy's test texts that have gold
# positions, in nats (None for another corpus), and `worse`, the set of methods in `found` whose `kl_1` is larger than
# that. *Explain* what such a method did, compared to nothing.

# %% tags=["prediction"]
def kl_of(num_positions, num_gold):
    return np.log(num_positions / num_gold)


# %% tags=["solution"]
kl_of_nothing, worse = None, set()
if truth_known:
    with_gold = [e for e in splits["test"] if any(e.rationale)]
    kl_of_nothing = float(np.mean([kl_of(len(e.tokens), sum(e.rationale)) for e in with_gold]))
    worse = {method for method, one in found.items() if one.metrics["test"].get("kl_1", 0) > kl_of_nothing}
    print(f"saying nothing: {kl_of_nothing:.3f} nats; worse than that: {worse or 'none'}")
# The truth is uniform over m of T positions, and the attribution is 1/T, so the KL is ln(T / m). A method with a larger
# KL was surer of wrong positions than a uniform attribution is of any.

# %% tags=["check"]
assert abs(kl_of(8, 2) - np.log(4)) < 1e-9, "`kl_of`: if 2 of 8 positions are gold, it is ln 4"
if truth_known:
    flat = [torch.ones(len(one), len(e.tokens)) for one, e in zip(states[:1] * len(splits["test"]), splits["test"],
            strict=True)]  # fmt: skip
    of_flat = explain.compare_with_gold(flat, splits["test"])["kl_0"]
    assert abs(kl_of_nothing - of_flat) < 1e-6, f"a constant attribution is {of_flat:.4f} nats from the truth"
    for method, one in found.items():
        far = one.metrics["test"].get("kl_1", 0)
        assert (method in worse) == (far > of_flat), f"{method} is {far:.3f} nats from the truth"

# %% [markdown]
# ## Summary
#
# A model that was frozen, one probe for all of its texts, and the other methods under one call.
#
# ## Next
#
# `24_read_probes` compares the methods over seeds, and draws what they found.
