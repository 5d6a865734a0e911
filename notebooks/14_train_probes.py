# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train probes of a frozen model
#
# **You will** train a model whose right explanation is known, freeze it, train DiffMask's probes on its states, and ask
# five other methods the same question.
#
# **You will learn** that a probe which may not look at one answer alone finds what the model's layers know, and that
# methods which may do so find shortcuts.
#
# **You need** `07_diffmask`; three minutes on one core.

# %% tags=["parameters"]
corpus: str = "toy"  # toy: are there more n than m among these digits?
seed: int = 1  # of the data, of initial weights, of draws
num_train: int = 9000  # examples to train on
num_dev: int = 1000  # the same for dev
num_test: int = 1000  # the same for test
methods: list[str] = ["states", "integrated_gradients", "erasure"]  # what attributes; all: params/probes/toy.yaml
num_steps: int = 200  # steps of integrals and of fits to one text; 500 in the authors' code
model_epochs: int = 20  # passes over the training data of the model that is probed
model_learning_rate: float = 0.001  # step size of Adam for that model
embedding_size: int = 64  # numbers of an embedding
hidden_size: int = 32  # width of the probe's networks
votes: str = "mlp"  # form of the probe's votes: mlp (released code) or bilinear (paper)
divergence: str = "kl"  # from the answer before to that after masking: kl, reverse_kl or js
margin: float = 0.03  # divergence that masking may cost, in nats
form: str = "probability"  # price of a position: P(z != 0), or its logarithm
multiplier_init: float = 0.1  # lambda at the start
multiplier_rate: float = 0.01  # step of ln lambda
batch_size: int = 128  # examples a training step
epochs: int = 50  # passes of a probe over the training data
learning_rate: float = 0.005  # step size of Adam for the probe
schedule: str = "exponential"  # how step sizes fall: plateau, exponential (x 0.97 an epoch) or multistep
min_learning_rate: float = 0.00001  # step sizes are not lowered below
weight_decay: float = 0.0  # L2 penalty inside Adam
clip_norm: float = 5.0  # largest norm of the gradient
device: str = "auto"  # auto, cpu or cuda
tensorboard: bool = False  # also write TensorBoard files

# %%
import inspect

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, metrics, probes, probing, saved
from rationale.counter import DigitCounter
from rationale.data import PairBatches, Vocabulary
from rationale.data.digits import read_digits
from rationale.params import validated
from rationale.runs import results_folder
from rationale.training import choose_device

# %%
p = validated(globals())
folder = results_folder("14_train_probes")
device_used = choose_device(p.device)

# %% [markdown]
# ## 1. A model whose right explanation is known
#
# A query names two digits, *n* and *m*; the answer says whether the sequence holds more *n* than *m*. Nothing but the
# positions of *n* and *m* can matter: they are the truth against which attributions are held.

# %%
splits = read_digits(p.num_train, p.num_dev, p.num_test, p.seed)
vocabulary = Vocabulary(map(str, range(10)))
batches = {
    name: PairBatches(part, vocabulary, p.batch_size, p.seed, bucketed=False, device=device_used, cells=False)
    for name, part in splits.items()
}
for example in splits["test"][:4]:
    n, m = example.hypothesis
    print(f"more {n} than {m} in {' '.join(example.tokens):20s}? {'yes' if example.label else 'no'}")

# %%
torch.manual_seed(p.seed)
model = DigitCounter(len(vocabulary), p.embedding_size)
frozen, scores = probing.train_subject(p, model, batches, metrics.class_scores, folder)
pd.DataFrame(scores).round(4)

# %% tags=["check"]
if len(splits["train"]) >= 9_000:
    assert scores["dev"]["accuracy"] >= 0.99, "explanations of a model that cannot count would say little"
assert not any(parameter.requires_grad for parameter in model.parameters()), "it is frozen"

# %% [markdown]
# ## 2. Every method, the same call
#
# `states` (and `inputs`) are probes: trained on all texts, with the constraint that masking changes the answer by no
# more than the margin. The other methods look at one text and one answer at a time.

# %%
print(inspect.getsource(probes.Probe.forward))

# %%
before = {name: value.clone() for name, value in model.state_dict().items()}
found = {}
for method in p.methods:
    found[method] = probing.attribute(method, p, frozen, batches, metrics.class_scores, folder)
    for name, values in found[method].values.items():
        found[method].metrics[name] |= probing.against_gold(values, splits[name])
weights = {method: one.probe.state_dict() for method, one in found.items() if one.probe is not None}
saved_metrics = saved.save_probes(
    folder, scores, found, {"test": splits["test"]}, {"subject": model.state_dict()} | weights, p
)

# %% tags=["check"]
assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()), "not one bit has moved"
for one in found.values():
    assert all(v.shape[1] == len(e.tokens) for v, e in zip(one.values["test"], splits["test"], strict=True))
    assert all(bool((values >= 0).all()) for values in one.values["test"]), "an attribution is at least 0"

# %% [markdown]
# ## 3. How far from the truth?
#
# Both sides are scaled to sum to 1; the truth is uniform over the positions of *n* and *m*. Layer 0 is the digits'
# embeddings, layer 1 the state after the query was seen. At layer 0 the right answer is to keep everything: nothing
# there tells which digits the query names.

# %%
rows = {method: one.metrics["test"] | {"seconds": one.seconds} for method, one in found.items()}
columns = ["kl_1", "js_1", "empty_1", "kl_0", "js_0", "seconds"]
table = pd.DataFrame(rows).T.reindex(columns=columns).round(4)
lines = [f"  accuracy of the model: dev {scores['dev']['accuracy']:.1%}, test {scores['test']['accuracy']:.1%}"]
lines += ["  distance to the truth, test, by method and layer:", table.to_string()]
(folder / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
table

# %% [markdown]
# > `kl_1` of erasure is missing: a divergence from the truth to an attribution that is exactly 0 at some of its
# > positions is infinite. `empty` is the share of texts of which it keeps nothing, because the empty sequence has the
# > same answer.

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
if "states" in found and len(splits["train"]) >= 9_000 and p.epochs >= 50:
    assert found["states"].metrics["test"]["kl_1"] < 0.1, "far nearer to the truth than any other method"

# %% [markdown]
# **Exercise** (5 minutes, and a run). Predict what the probe keeps of layer 1 when `margin` is 0.5 instead of 0.03, and
# which digits it gives up first. Run it.

# %% tags=["solution"]
if "states" in found:
    figures_test = found["states"].metrics["test"]
    print(f"margin {p.margin}: kept {figures_test['kept_1']:.0%}, divergence {figures_test['divergence_1']:.3f} nats")
# Half a nat allows wrong answers: digits of the query are masked too, as long as the others decide most texts.

# %% [markdown]
# ## Summary
#
# A model that was frozen, one probe for all of its texts, and the other methods under one call.
#
# ## Next
#
# `24_read_probes` compares the methods over seeds, and draws them.
