# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Derive masks that explain a frozen model
#
# So far we have built models that select their own rationale. Often you already have a model, and you want to know
# which words it needed. You can read its hidden states, but you may not change the model. An obvious way is to erase
# words and to see whether the answer changes. We first show why this is misleading.
#
# **You will** see what goes wrong when words are erased separately for each answer. Then you build DiffMask (De Cao
# et al. 2020). It computes gates from a model's own hidden states, and these gates say which positions the model does
# not need. The small networks that compute the gates are called a *probe*. We train them once, and then they compute
# the gates of any text.
#
# **You will learn**
# - what hindsight is, on a task for which the truth is known;
# - how hooks mask the states of any model without changing the model;
# - what the constraint demands, and three places where the choice of a formula decides the result;
# - how a trained probe compares with erasure and with three other methods.
#
# **You need** `03_hardkuma` (stretch and rectify, and section 11) and `06_hold_a_rate` (constraints). You need no data
# and no GPU. The notebook runs in less than a minute.

# %% tags=["parameters"]
seed: int = 1  # of digits, initial weights and draws
num_train: int = 9000  # examples to train the model on
num_dev: int = 400  # examples to look at
num_samples: int = 20000  # draws behind a check
num_steps: int = 100  # steps of integrals and of fits to one text
model_epochs: int = 12  # passes of the model over the training data
epochs: int = 14  # passes of the probe over the training data

# %%
import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.distributions import Normal, kl_divergence

from rationale import explain, figures, training
from rationale.distributions import HardConcrete
from rationale.models.digit_counter import DigitCounter
from rationale.runs import notebook_path, results_folder, validated
from rationale.runs.cells import notebook_settings
from rationale.training import toy_gates

# %%
p = validated(globals())
torch.manual_seed(p.seed)
folder = results_folder("41_diffmask") / "figures"
usual_size = p.num_train >= 9_000 and p.num_dev >= 400 and min(p.model_epochs, p.epochs) >= 12 and p.num_steps >= 100

# %% [markdown]
# ## 1. Hindsight
#
# Suppose that a model has given an answer, and you want to know which words it needed. You could look for the
# smallest set of words that gives the same answer. An explanation that is chosen in this way has **hindsight**. When
# you choose it, you already know the answer, but the model did not know the answer when it read the words. With
# hindsight, very few words are often enough. A reader who does not know the answer yet needs more words. To show
# this, we need a task for which we know which words must be read.
#
# De Cao et al. ask whether a sequence $x$ contains more digits $q_1$ than digits $q_2$. Every occurrence of $q_1$ and
# of $q_2$ counts, and no other digit does. The model compares each digit with the query $(q_1, q_2)$, reduces the
# result to two numbers, and then counts with a GRU. Here $\text{digit}$ and $\text{query}$ are embeddings, $W_1$ and
# $W_2$ are matrices of weights, and $e$ is the embedded query:
#
# $$h^{(0)}_i = \text{digit}(x_i), \qquad e = [\text{query}(q_1); \text{query}(q_2)], \qquad
# h^{(1)}_i = W_2 \tanh\big(W_1 [e; h^{(0)}_i]\big) \in \mathbb{R}^2, \qquad
# \text{answer} = \text{head}\big(\text{GRU}(h^{(1)})\big). \tag{D1}$$
#
# The states $h^{(0)}$ do not depend on the query, so at layer 0 every digit might be needed. The states $h^{(1)}$ do
# depend on it. So at layer 1 the model can drop all digits except $q_1$ and $q_2$, before it counts. In code, (D1)
# is:

# %%
figures.show_source(DigitCounter.forward)

# %% [markdown]
# We train this model and freeze it. From here on its weights do not change.

# %%
given = {"num_train": p.num_train, "num_dev": p.num_dev, "num_test": p.num_dev, "model_epochs": p.model_epochs}
given |= {"model_learning_rate": 0.002, "seed": p.seed, "epochs": p.epochs, "device": "cpu"}  # a tiny model
usual = notebook_settings(notebook_path("14_train_probes"), **given)
task = training.build_probed_task(usual)
with tempfile.TemporaryDirectory() as place:
    frozen, scores = training.train_probed_model(usual, task, Path(place))
model, batches, splits = task.model, task.batches, task.splits
print(f"accuracy on dev: {scores['dev']['accuracy']:.1%}")

# %% [markdown]
# Now we search for the smallest explanation. *Erasure* looks for the smallest set of positions that keeps the answer
# when the states of all others are removed. Here we remove a state by setting it to zero:
#
# $$\min_{z \in \{0,1\}^T} \sum_i z_i \quad\text{s.t.}\quad \arg\max f(z \odot h) = \arg\max f(h). \tag{D2}$$
#
# Our search is exact and begins with the empty set. Its result depends on the answer that it explains, and this is what
# we mean by hindsight. The model also gives some answer when it sees nothing. For every text with *that* answer, the
# empty set is a solution, although a model that had read nothing could not know that the answer is right.
#
# In the table below you find one row per answer. Compare the number of positions that erasure keeps with the number of
# digits that count. The column between them is the share of texts for which erasure keeps nothing at all.

# %%
batch = batches["dev"].rows(torch.arange(len(splits["dev"])))
answer = frozen.read(batch)[0].argmax(-1)
solutions = explain.smallest_masks(frozen, batch, layer=1)
sizes = torch.tensor([int(masks[0].sum()) for masks in solutions])
gold = [torch.tensor(example.rationale) for example in splits["dev"]]
facts = {
    "yes" if label else "no": [
        (answer == label).sum().item(),
        sizes[answer == label].float().mean().item(),
        (sizes[answer == label] == 0).float().mean().item(),
        torch.tensor([int(gold[i].sum()) for i in (answer == label).nonzero().flatten()]).float().mean().item(),
    ]
    for label in (0, 1)
}
columns = ["texts", "kept by erasure", "share with nothing kept", "digits that count"]
figures.show_table(pd.DataFrame(facts, index=columns).T, digits=2, index="answer")

# %% tags=["check"]
wanted = frozen.read(batch)[0].argmax(-1)
for i in range(0, len(solutions), 40):
    z = torch.zeros(batch.mask.shape)
    z[i, : len(gold[i])] = solutions[i][0].float()
    kept = frozen.masked(batch, 1, z, torch.zeros(2)).argmax(-1)
    assert kept[i] == wanted[i], "the answer is kept"
if usual_size:  # on fewer texts, or with shorter training, these need not hold
    assert all(kept < 0.8 * count for _, kept, _, count in facts.values()), "fewer positions than count"
    assert max(nothing for _, _, nothing, _ in facts.values()) > 0.8, "one of the answers needs nothing"

# %% tags=["figure"]
nothing = {name: row[2] for name, row in facts.items()}  # the share of texts of which erasure keeps nothing
blank = max(nothing, key=nothing.get)
held = {f"erasure, answer {name}": sizes[answer == label] for label, name in enumerate(("no", "yes"))}
count_true = torch.tensor([int(one.sum()) for one in gold])
held |= {"digits that count": count_true}
largest = int(max(sizes.max(), count_true.max()))
by_size = {name: torch.bincount(n, minlength=largest + 1) / max(1, len(n)) for name, n in held.items()}
empty = int((sizes[answer == (blank == "yes")] == 0).sum())
title = f"Erasure keeps nothing in {empty} of the {facts[blank][0]} texts with the answer “{blank}”"
figures.draw_panel(figures.draw_bars, [str(n) for n in range(largest + 1)], by_size, title=title,
                   ylabel="share of texts", fmt="", size=(10, 4.6), limits={"xlabel": "number of positions"},
                   save=folder / "hindsight")

# %% [markdown]
# The digits that count are the truth here, and you see that erasure keeps far fewer. Our search is exact, so this is
# not a weakness of the search. Hindsight is a property of the problem (D2).
#
# The paper's row of erasure comes from a simpler rule in its code, which has hindsight too. (In the paper, erasure
# finds a single digit. With an exact search it cannot, because for one of the two answers it needs no digit.) The rule
# keeps the first $q_1$ if the answer is yes, and the first $q_2$ if the answer is no. Compare this single digit with
# the truth, which is uniform over the $n$ digits that count. The Jensen-Shannon divergence (JS) of two distributions is
# the mean of their two KL divergences to their average. Here the average gives the probability $\tfrac12(1 + \tfrac1n)$
# to the digit that the rule keeps, and $\tfrac1{2n}$ to each of the other digits that count. The KL divergence of the
# truth to this average is $\ln 2 - \tfrac1n \ln(n+1)$, and that of the single digit is $\ln 2 - \ln\tfrac{n+1}{n}$. So
# we get
#
# $$\text{JS} = \ln 2 - \tfrac12\Big[\tfrac1n \ln(n+1) + \ln\tfrac{n+1}{n}\Big].$$
#
# We compute its mean over the texts and compare it with the paper.

# %%
def one_hot(example) -> torch.Tensor:
    digit = example.second[0 if example.label else 1]
    found = [token == digit for token in example.tokens]
    return torch.tensor([flag and not any(found[:i]) for i, flag in enumerate(found)]).double()


chosen = [(one_hot(e), torch.tensor(e.rationale).double()) for e in splits["dev"]]
chosen = [(found, truth) for found, truth in chosen if found.any() and truth.any()]
js = torch.cat([explain.distance_to_truth(truth[None], found[None])["js"] for found, truth in chosen]).mean()
print(f"JS of the rule to the truth: {js:.2f} nats (the paper: 0.26)")

# %% tags=["check"]
if p.num_dev >= 60:
    assert abs(js - 0.26) < 0.04, "the rule agrees with the published row of erasure"
counts = [int(truth.sum()) for _, truth in chosen]
formula = [math.log(2) - (math.log(k + 1) / k + math.log((k + 1) / k)) / 2 for k in counts]
assert abs(np.mean(formula) - js) < 1e-12

# %% [markdown]
# ## 2. A gate that can be exactly shut
#
# DiffMask avoids hindsight, because it computes its masks from the states of the model and never from the answer. For
# each position it needs a gate that can be exactly 0. You know this gate from (H12). It is the Hard Concrete with the
# support $[0, 1)$. Its left end is stretched to $l = -0.2$, its right end is $r = 1$ (so it has no mass at 1), its
# temperature is $\tau = 0.2$, and its logit is $\gamma$. We write $v$ for the value of the gate and $u$ for a uniform
# random number:
#
# $$v = \max\big(0,\; l + (r - l)\,\sigma((\text{logit}\, u + \gamma) / \tau)\big), \qquad
# P(v \ne 0) = \sigma\big(\gamma - \tau \ln(-l / r)\big).$$
#
# > The paper's formula (11) has $l$ and $r$ exchanged in the stretch. If you take it literally, then
# > $\sigma\,(l - r) + r$ mirrors the gate, so a larger $\gamma$ masks more. The figure below shows both. In its legend,
# > we write σ for the value of the logistic function.

# %%
logit = torch.tensor(5.0, dtype=torch.float64)
gate = HardConcrete(logit, explain.TEMPERATURE, explain.LEFT, explain.RIGHT)
draws = gate.rsample((p.num_samples,))
print(f"at logit 5: P(v != 0) = {gate.log_prob_nonzero.exp():.5f}, drawn {(draws != 0).double().mean():.4f}")

# %% tags=["check"]
exact = torch.sigmoid(logit - explain.TEMPERATURE * math.log(-explain.LEFT / explain.RIGHT))
assert torch.isclose(gate.log_prob_nonzero.exp(), exact) and abs(exact - 0.99514) < 1e-5
assert abs((draws != 0).double().mean() - exact) < 4 * math.sqrt(exact * (1 - exact) / p.num_samples)
assert draws.max() < 1 + 1e-12, "half open"

# %%
logits = torch.linspace(-6, 6, 101, dtype=torch.float64)
uniform = torch.rand(2000, 1, dtype=torch.float64)
base = torch.sigmoid((uniform.logit() + logits) / explain.TEMPERATURE)
stretched = {
    "right: σ (r − l) + l": (explain.LEFT + (explain.RIGHT - explain.LEFT) * base).clamp(0, 1).mean(0),
    "as printed: σ (l − r) + r": (explain.RIGHT + (explain.LEFT - explain.RIGHT) * base).clamp(0, 1).mean(0),
}

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, logits, stretched,
                   title="With the printed stretch, the gate opens where it should shut", xlabel="logit of the gate",
                   ylabel="mean value of the gate", size=(9, 4.6), save=folder / "stretch")

# %% tags=["check"]
right, printed = stretched.values()
assert right[-1] > 0.95 and right[0] < 0.05 and printed[-1] < 0.05 < 0.95 < printed[0]

# %% [markdown]
# ## 3. Masking without touching the model
#
# How do we mask a position inside a model that we may not change? We replace its hidden state by a learned vector
# $b^{(\ell)}$, which is the same for all positions and texts:
#
# $$\hat h^{(\ell)}_i = z_i\, h^{(\ell)}_i + (1 - z_i)\, b^{(\ell)}, \qquad \hat y = f(\hat h^{(\ell)}). \tag{D3}$$
#
# A forward hook is enough for this. It replaces the output of a module for the duration of one call, in any model, and
# then it is removed. In the check below we confirm two things. A mask of ones leaves the prediction as it was, and no
# hook remains.

# %%
figures.show_source(explain.replaced)

# %% tags=["check"]
original, states = frozen.read(batch)
ones = torch.ones(batch.mask.shape)
for layer, state in enumerate(states):
    assert torch.equal(frozen.masked(batch, layer, ones, torch.zeros(state.shape[-1])), original), "z = 1: the model"
assert all(len(module._forward_hooks) == 0 for module in model.modules()), "no hook stays behind"

# %% [markdown]
# ## 4. Votes
#
# Which positions do we mask? Small networks decide this, and their only input is the model's states. There is one
# network per layer. The network of layer $k$ computes a logit for each position $i$, and we call the gate $v^{(k)}_i$
# with this logit the layer's *vote*. The released code uses
#
# $$\gamma^{(k)}_i = c_k + 10 \tanh\big(w_k \cdot \tanh(W_k [h^{(0)}_i; h^{(k)}_i])\big), \qquad
# c_k = 5 \text{ at first}. \tag{D4}$$
#
# The paper (appendix A) first computes another number $\hat\gamma^{(k)}_i$ for each layer. The logit of the gate is the
# mean of two numbers, which are the $\hat\gamma$ of layer $k$ and the mean $\hat\gamma$ of the earlier layers. (Layer 0
# has no earlier layers, so there we take $\gamma^{(0)}_i = \hat\gamma^{(0)}_i$.)
#
# $$\hat\gamma^{(k)}_i = h^{(0)\top}_i W_k h^{(k)}_i + w_k \cdot [h^{(0)}_i; h^{(k)}_i] + c_k, \qquad
# \gamma^{(k)}_i = \tfrac12\big(\hat\gamma^{(k)}_i + \tfrac1k \textstyle\sum_{j < k} \hat\gamma^{(j)}_i\big).
# \tag{D5}$$
#
# > The paper's formula (9) leaves layer 0 out of the mean. It adds up the layers $1$ to $k - 1$ and divides by $k - 1$.
# > For $k = 1$ this is 0 divided by 0. We include layer 0 in the mean, because its vote counts in the product, too. The
# > check below shows both with three numbers.
#
# We use both formulas for the probe of *inputs*, in which we combine the votes of several layers. An input is kept at
# depth $\ell$ if no layer up to layer $\ell$ votes against it, $z_i = \prod_{k \le \ell} v^{(k)}_i$. Given the states,
# the votes are drawn independently, so $P(z_i \ne 0)$ is the product of the $P(v^{(k)}_i \ne 0)$. But a vote that is
# not 0 is still *below* 1, so the product also makes the inputs that it keeps smaller. The figure below shows how much.
#
# There is also a probe of *states*, which masks the states $h^{(\ell)}$ of one layer. The vote of this layer is the
# gate itself, $z_i = v^{(\ell)}_i$. With (D4), its network reads only these states, as in the released code. In the
# paper, $h^{(\ell)}$ takes the place of $h^{(0)}$. If you set `votes` to `bilinear`, our probe of states computes (D5)
# as it stands.

# %% tags=["check"]
with torch.random.fork_rng(), torch.no_grad():
    votes = explain.BilinearVotes([2, 2, 2])  # before training, every hat gamma is its bias
    for product, bias in zip(votes.products, (1.0, 2.0, 6.0), strict=True):
        product.bias.fill_(bias)
    of_layers = [logit.item() for logit in votes([torch.zeros(1, 1, 2)] * 3)]
assert of_layers == [1, (2 + 1) / 2, (6 + (1 + 2) / 2) / 2], "(D5): layer 0 is in the mean"
assert of_layers[2] != (6 + 2 / 1) / 2, "the paper's (9): layers 1 to k - 1, divided by k - 1"

# %%
depths = np.arange(1, 25)
values = {}
for at in (2.0, 5.0):
    gate = HardConcrete(torch.tensor(at), explain.TEMPERATURE, explain.LEFT, explain.RIGHT)
    draws = gate.sample((max(p.num_samples // 10, 200), len(depths))).cumprod(1)
    kept = torch.where(draws > 0, draws, torch.nan).nanmean(0)
    values[f"P(z ≠ 0), logit {at:g}"] = (gate.log_prob_nonzero * torch.from_numpy(depths)).exp()
    values[f"mean of z where it is not 0, logit {at:g}"] = kept

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, depths, values,
                   title="A product of votes also shrinks the inputs that it keeps",
                   xlabel="number of layers that vote", ylabel="probability or value", size=(9, 4.8),
                   save=folder / "product")

# %% tags=["check"]
shrunk = values["mean of z where it is not 0, logit 2"]
assert shrunk[-1] < shrunk[0] < 1 and values["P(z ≠ 0), logit 2"][-1] < values["P(z ≠ 0), logit 2"][0]

# %% [markdown]
# ## 5. The constraint
#
# The probe should keep as little as possible without changing the answer much. Let $y$ be the distribution that the
# model predicts, and $\hat y$ the one that it predicts after masking. The mean of their divergence $D$ over the texts
# may be at most a margin $\epsilon$:
#
# $$\min_{\phi, b}\; \mathbb{E}\Big[\tfrac1T\textstyle\sum_i \mathbf{1}[z_i \ne 0]\Big] \quad\text{s.t.}\quad
# \mathbb{E}\, D(y, \hat y) \le \epsilon, \qquad \max_{\lambda \ge 0} \min_{\phi, b}\;
# \mathbb{E}\Big[\tfrac1T\textstyle\sum_i P(z_i \ne 0) + \lambda\,(D - \epsilon)\Big]. \tag{D6}$$
#
# > In the paper's formula (5), the constraint holds for *every* text of the data. Its Lagrangian (6) has a single
# > $\lambda$, and the released code has one per layer. One multiplier can hold a mean only, so we write the mean in
# > (D6). The divergence of a single text may then be larger than $\epsilon$, as you will see in section 6. We also
# > divide by $T$, so that a long text counts no more than a short one. The paper adds up the positions.
#
# This leaves three more choices to us, and each of them changes the result.
#
# **Which divergence?** The text of the paper writes $D[\hat y \| y]$. In the experiments of the paper, the model's own
# answer $y$ comes first, and we use the same order. Here you see our divergence:
#
# $$D(y, \hat y) = \text{KL}(y \,\|\, \hat y) = \textstyle\sum_j y_j \ln (y_j / \hat y_j). \tag{D7}$$
#
# If $y$ gives one answer a probability near 1, the two divergences are very different. Suppose that masking makes the
# probabilities in $\hat y$ more equal. Then KL$(y \| \hat y)$ stays small. But KL$(\hat y \| y)$ has no bound. The
# nearer the probability in $y$ is to 1, the larger it becomes. In the figure we take a model whose answer has
# log-odds of 12.

# %%
sure = torch.tensor([[0.0, 12.0]], dtype=torch.float64)  # y: 12 nats of odds
masked_odds = torch.linspace(-4, 12, 81, dtype=torch.float64)
hat = torch.stack([torch.zeros_like(masked_odds), masked_odds], 1)
names = {"kl": "KL(y ‖ ŷ)", "reverse_kl": "KL(ŷ ‖ y)", "js": "Jensen-Shannon"}
lines = {name: explain.divergence(sure.expand(81, -1), hat, kind) for kind, name in names.items()}
unsure = int(masked_odds.abs().argmin())
costs = [lines[name][unsure] for name in ("KL(y ‖ ŷ)", "KL(ŷ ‖ y)")]

# %% tags=["figure"]
title = "To be unsure after masking costs {:.1f} nats one way and {:.1f} the other".format(*costs)
figures.draw_panel(figures.draw_lines, masked_odds, lines, title=title, xlabel="log-odds of the answer after masking",
                   ylabel="divergence, nats", size=(9, 4.6), save=folder / "divergences")

# %% tags=["check"]
assert abs(costs[0] - math.log(2)) < 1e-3 and abs(costs[1] - (6 - math.log(2))) < 1e-3

# %% [markdown]
# **P or ln P?** The released code averages $\ln P(z_i \ne 0)$ over the positions. We average $P(z_i \ne 0)$ itself,
# because this is the number in (D6). What is the difference? The derivative of $\ln P$ by the logit is $1 - P$. It is
# largest where the gate is nearly shut, and nearly 0 where it is open. So with $\ln P$ we reward the probe more for
# shutting one gate still further than for shutting another gate that is open. If we take $P$, the derivative is nearly
# 0 where the gate is shut already.

# %%
logits = torch.linspace(-8, 8, 161, dtype=torch.float64, requires_grad=True)
gate = HardConcrete(logits, explain.TEMPERATURE, explain.LEFT, explain.RIGHT)
pushes = {
    "price P(z ≠ 0)": torch.autograd.grad(gate.log_prob_nonzero.exp().sum(), logits, retain_graph=True)[0],
    "price ln P(z ≠ 0)": torch.autograd.grad(gate.log_prob_nonzero.sum(), logits)[0],
}

# %% tags=["figure"]
title = "With the price ln P, the gradient of a shut gate does not vanish"
figures.draw_panel(figures.draw_lines, logits.detach(), pushes, title=title, xlabel="logit of the gate",
                   ylabel="derivative by the logit", size=(9, 4.6), save=folder / "prices")

# %% tags=["check"]
assert pushes["price ln P(z ≠ 0)"][0] > 0.99 and pushes["price P(z ≠ 0)"][0] < 1e-3, "at a shut gate"
assert max(push[-1] for push in pushes.values()) < 1e-3, "at an open one both are nearly 0"

# %% [markdown]
# **How does $\lambda$ move?** In the released code $\lambda$ moves by a small multiple of the gap $D - \epsilon$ at
# each step and is clipped to $[0, 200]$. At the beginning nothing is masked and the divergence is far below the
# margin, so $\lambda$ falls to 0. Then nothing keeps the gates open, and they shut. The constraint is violated,
# $\lambda$ rises again, and so on. You can see this oscillation of the sparsity in the authors' notebook.
#
# We change two things. First, we let $\ln \lambda$ move, between $\ln 0.1$ and $\ln 200$. Each step is 0.01 times a
# moving average of the gap, which we divide by the margin and cut off at $-1$ and 5. Second, we add ten times the
# positive part of this average (in nats) to $\lambda$, which damps the oscillation. To compare the two rules, we take a
# single gate with a margin of 0.1. If its value is $z$, the divergence is $3\,(1 - z)^2$ nats, so masking the word
# completely costs 3 nats.

# %%
single = {name: toy_gates.hold_cost(3.0, margin=0.1, damped=damped, num_steps=3000)
          for name, damped in (("ln λ moves with damping", True), ("λ moves", False))}
swing = {name: np.std(kept[1500:]) for name, kept in single.items()}
for name, deviation in swing.items():
    print(f"{name}: P(z ≠ 0) has a standard deviation of {deviation:.4f} over the second half of the steps")

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, np.arange(3000), single,
                   title="With damping, the gate stays where the constraint is met", xlabel="step", ylabel="P(z ≠ 0)",
                   size=(9, 4.6), save=folder / "multiplier")

# %% tags=["check"]
assert swing["λ moves"] > 2 * swing["ln λ moves with damping"], "without damping the gate oscillates"
level = np.mean(single["ln λ moves with damping"][1500:])
assert abs(level - (1 - 0.1 / 3)) < 0.015, f"a gate of 0 or 1 is open in 97 %, this one in {level:.1%}"

# %%
figures.show_source(explain.ProbeObjective.forward)

# %% [markdown]
# **Exercise 1** (predict, change, explain; 6 minutes). In section 5, a constraint holds the gate of a word that costs
# 3 nats to mask. Suppose that $z$ is either 0 or 1. *Predict* the $P(z \ne 0)$ at which the mean cost is equal to the
# margin of 0.1 (`settles_at`, right to 0.03). *Change* the cost of masking from 3 to 30 nats (`settled`, a dict of 3
# and 30 to that probability, right to three digits). *Explain* why even a word that is costly to mask is not kept with
# certainty.

# %% tags=["prediction"]
settles_at = 0.97

# %% tags=["solution"]
settled = {cost: 1 - 0.1 / cost for cost in (3, 30)}
for cost, kept in settled.items():
    print(f"masking costs {cost} nats: P(z != 0) = {kept:.4f}")
# The constraint is on the mean cost. It permits masking until the mean cost reaches the margin, so at ten times the
# cost a tenth as much. (The gate of section 5 ends a little higher, as draws between 0 and 1 also cost something.)

# %% tags=["check"]
for cost in (3, 30):
    mean_cost = cost * (1 - settled[cost])  # the word is masked with the rest of the probability
    size = f"at {settled[cost]} masking costs {mean_cost:.4f} nats on average, not 0.1"
    assert abs(mean_cost - 0.1) < 0.0006 * cost, size  # a probability of three digits is off by 0.0005 at most
assert abs(settles_at - settled[3]) < 0.03, "`settles_at`: compare it with `settled[3]`"

# %% [markdown]
# ## 6. Train a probe
#
# You now have all parts of DiffMask. We train a probe of states on the digits, with one network for layer 0 and one for
# layer 1. The networks of the probe read only the states of the texts, and never an answer. (The answers of the model
# are used only in our loss (D6).) What do we expect? At layer 0 the states do not contain the query, so the probe has
# to keep nearly everything. At layer 1 it can drop every digit that does not count. Unlike erasure, it has to keep all
# digits that count. The check confirms this. It also prints the mean divergence beside the margin, and the largest
# divergence of one text. The constraint speaks of the mean, so single texts may lie far above the margin. You may see a
# mean that is still above it, because the multipliers move until the end, and they see training texts only.

# %%
with tempfile.TemporaryDirectory() as place:
    diffmask = training.attribute("states", usual, frozen, task, Path(place))
keep = [values.double() for values in diffmask.values["dev"]]  # P(z != 0), [2, T] per text
kinds = {"digits that count": gold, "other digits": [~one for one in gold]}
kept_of = {}
for name, flags in kinds.items():
    both_layers = torch.cat([values[:, chosen] for values, chosen in zip(keep, flags, strict=True)], 1)
    kept_of[name] = both_layers.mean(1).tolist()
print(f"the answer is the same in {diffmask.metrics['dev']['agreement_1']:.1%} of the texts after masking at layer 1")

# %% tags=["check"]
assert all(torch.isfinite(values).all() and (values >= 0).all() and (values <= 1).all() for values in keep)
if usual_size:
    assert kept_of["digits that count"][1] > 0.8 and kept_of["other digits"][1] < 0.2, "at layer 1 the truth is found"
    assert kept_of["other digits"][0] > 0.5, "at layer 0 nothing knows the query"
    with torch.random.fork_rng(), torch.no_grad():
        output = diffmask.probe(batch, 1)
    of_text = explain.divergence(output.original, output.masked)
    mean_divergence = diffmask.metrics["dev"]["divergence"]  # over texts and layers
    assert of_text.max() > 10 * mean_divergence, "(D6) speaks of the mean, and single texts lie far above it"
    print(f"the mean divergence on dev is {mean_divergence:.3f} nats (the margin is {usual.margin:g}), "
          f"and the largest of one text is {of_text.max():.1f}")

# %% tags=["figure"]
title = "At layer 1 the probe keeps {:.0%} of the digits that count and {:.0%} of the others"
title = title.format(*(shares_kept[1] for shares_kept in kept_of.values()))
figures.draw_panel(figures.draw_bars, ["layer 0, before the query", "layer 1, after the query"], kept_of, title=title,
                   ylabel="mean P(z ≠ 0)", fmt="{:.2f}", size=(9, 4.4), save=folder / "probe")

# %% [markdown]
# ## 7. The other methods
#
# How good is this mask? We compare it with four other methods. You know erasure from section 1. The other three are
# integrated gradients, the *information bottleneck* of Schulz et al. and the *additive noise* of Guan et al.
#
# *Integrated gradients* follow the output $f$ (here the log-odds of the answer) from zero to the state:
#
# $$a_i = \Big| \textstyle\sum_d h_{id} \int_0^1 \frac{\partial f}{\partial h_{id}}(\alpha h)\, d\alpha \Big|.
# \tag{D8}$$
#
# (We take the derivative of $f$ at the point $\alpha h$. By the chain rule, you see that the sum over all $i$ and $d$
# without the absolute value is the integral of $\frac{d}{d\alpha} f(\alpha h)$, which is $f(h) - f(0)$.)
#
# Schulz et al. replace information by noise and fit the amount of noise to one text. In the following equation, they
# keep the share $g_i$ of each state and replace the rest by noise. Here $\mu$ and $s$ are the mean and the standard
# deviation of the states of the training texts. A state has $H$ dimensions, and its KL is the sum of theirs. We divide
# it by $H$, as these authors and De Cao et al. do in their code, so the price of 10 is per position and dimension:
#
# $$\min_g\; -\ln \hat y_{\text{answer}} + \tfrac{10}{T H} \textstyle\sum_i
# \text{KL}(\mathcal N_i \,\|\, \mathcal N(\mu, s^2)), \qquad
# \mathcal N_i = \mathcal N(g_i h_i + (1 - g_i) \mu, (1 - g_i)^2 s^2), \qquad a_i = g_i. \tag{D9}$$
#
# Guan et al. add as much noise as they can without changing the output much. The noise at position $i$ has the size
# $\rho_i$, $\eta$ is standard normal, and we write $f$ for the model's logits:
#
# $$\min_\rho\; \mathbb{E}\,\lVert f(h + \rho\, \eta) - f(h) \rVert^2 - \tfrac1T \textstyle\sum_i \ln \rho_i,
# \qquad a_i = 1 / \rho_i. \tag{D10}$$
#
# You can also fit DiffMask to one text. Its logits are then free numbers, and you may use the score function of
# `08_reinforce` instead of the relaxed gate. The constraint contributes one part of the gradient, and the estimate of
# this part is then
#
# $$\lambda\,(D - \bar D)\, \nabla \textstyle\sum_i \ln p(z_i), \qquad z_i \sim \text{Bernoulli}, \quad
# \bar D \text{ an average of } D. \tag{D11}$$
#
# > The released comparison leaves $\lambda$ out of this estimate. The constraint then has the same weight however much
# > it is violated. With `explain.masks` you can estimate the gradient with $\lambda$ or without it, and
# > `params/probes/sst_search.yaml` compares both with exact search.
#
# Each of these methods explains one answer at a time. Only the probe of section 6 was trained on all texts. In the
# table below you see how far each attribution is from the truth. (We first scale both to sum to 1.) The columns are the
# mean KL divergence and the mean Jensen-Shannon divergence, in nats. The last row is an attribution that gives the same
# value to every position. A method should at least be nearer to the truth than that. (Erasure is missing, because its
# KL is infinite wherever it drops a digit that counts.)
#
# For integrated gradients we also have a check. Without the absolute values, the parts of (D8) add up to
# $f(h) - f(0)$, so with them their sum is at least the size of this difference.

# %%
some = explain.select_rows(batch, torch.arange(min(60, len(batch.rows))))
mean, std = explain.state_moments(frozen, batches["train"].in_order())[1]
of_probe = torch.zeros(some.mask.shape)
for i in range(len(of_probe)):
    of_probe[i, : len(gold[i])] = keep[i][1].float()
found = {
    "DiffMask": of_probe,
    "integrated gradients": explain.integrated_gradients(frozen, some, 1, p.num_steps),
    "information bottleneck": explain.information_bottleneck(frozen, some, 1, mean, std, p.num_steps),
    "additive noise": explain.additive_noise(frozen, some, 1, p.num_steps),
}
truth = torch.zeros(some.mask.shape)
for i in range(len(truth)):
    truth[i, : len(gold[i])] = gold[i].float()
has = truth.any(1)
distances = {}
for name, a in (found | {"the same value everywhere": some.mask.float()}).items():
    far_off = explain.distance_to_truth(truth[has], a[has])
    distances[name] = {f"{kind.upper()}, nats": far.mean().item() for kind, far in far_off.items()}
figures.show_table(pd.DataFrame(distances).T.rename_axis("method").reset_index(), digits=2)

# %% tags=["check"]
logits_zero = frozen.masked(some, 1, torch.zeros(some.mask.shape), torch.zeros(2))
logits_full = frozen.read(some)[0]
answers = logits_full.argmax(-1)
difference = explain.log_odds(logits_full, answers) - explain.log_odds(logits_zero, answers)
raw = torch.linspace(-2, 2, some.mask.shape[1]).expand(some.mask.shape)  # logits of g
g, h = raw.sigmoid().unsqueeze(-1), frozen.read(some)[1][1]
mu, s = mean[: h.shape[1]], std[: h.shape[1]]
nats = kl_divergence(Normal(g * h + (1 - g) * mu, (1 - g) * s), Normal(mu, s)).sum(-1)  # of whole states
per_dimension = explain.information(raw, ((h - mu) / s).square())
assert torch.allclose(per_dimension, nats / h.shape[-1], rtol=1e-4, atol=1e-5), "(D9) divides by the dimensions"
assert all((a >= 0).all() and torch.isfinite(a).all() and (a[~some.mask] == 0).all() for a in found.values())
slack = 0.05 * (1 + difference.abs())
assert (found["integrated gradients"].sum(1) >= difference.abs() - slack).all(), "the parts' sum, or more"
if usual_size:
    js_of = {name: row["JS, nats"] for name, row in distances.items()}
    others = [value for name, value in js_of.items() if name != "DiffMask"]
    assert js_of["DiffMask"] < 0.5 * min(others), "DiffMask is by far the nearest"
    for name in ("information bottleneck", "additive noise"):
        for kind, far in distances["the same value everywhere"].items():
            assert distances[name][kind] > 0.8 * far, f"{name} is hardly nearer than the same value everywhere, {kind}"

# %% tags=["figure"]
i = int((some.mask.sum(1) >= 6).int().argmax())  # the first text of six digits or more
length, (first, second) = int(some.mask[i].sum()), splits["dev"][i].second
rows = {"truth": truth[i, :length], "erasure": solutions[i][0].float()}
rows |= {name: a[i, :length] for name, a in found.items()}
heat = np.stack([(v / v.max().clamp(min=1e-30)).numpy() for v in rows.values()])
asked = np.isin(splits["dev"][i].tokens, [first, second])
here = {name: explain.distance_to_truth(truth[[i]], a[[i]])["js"].item() for name, a in found.items()}
nearest = min(here, key=lambda name: math.inf if math.isnan(here[name]) else here[name])
title = f"More {first} than {second}? {nearest} is nearest to the truth"
figures.draw_panel(figures.draw_attention, heat, list(rows), splits["dev"][i].tokens, title=title, marked=asked,
                   scale="share of the row's largest value\n(grey: exactly 0)", size=(10, 4.6),
                   save=folder / "others")

# %% [markdown]
# DiffMask is by far the nearest to the truth. The two methods that are fitted to single answers are hardly nearer than
# the last row, which gives the same value to every position, by either of the two divergences. You can see why in the
# picture. The two digits of the query are bold there, and each row is scaled by its largest value. Erasure drops digits
# that count. The methods that are fitted to a single answer give weight to digits that do not count.
#
# **Exercise 2** (predict, change, explain; 8 minutes). In section 1, erasure had to keep only the answer. You can ask
# for more, and require that the model's *distribution* stays within a margin, as in (D6). *Predict* whether hindsight
# is then gone, so that erasure keeps as many positions as there are digits that count (`hindsight_gone`, True or
# False). *Change* the search to `explain.smallest_masks(frozen, some, layer=1, margin=...)`, and compute the mean
# number of positions that it keeps for the margins None (the answer alone) and 0.03 nats (`kept_by_margin`, a dict of
# both, not rounded). *Explain* why such a model needs so few positions when its answer is nearly certain.

# %% tags=["prediction"]
hindsight_gone = False

# %% tags=["solution"]
kept_by_margin = {}
for margin in (None, 0.03):
    smallest = explain.smallest_masks(frozen, some, layer=1, margin=margin)
    kept_by_margin[margin] = sum(int(masks[0].sum()) for masks in smallest) / len(smallest)
print("exercise 2: positions kept", {margin: round(kept, 2) for margin, kept in kept_by_margin.items()})
# A model that is sure of its answer stays sure without some of the digits that count. If there are five of one digit
# and one of the other, a few of the five are enough for nearly the same distribution. The search knows the answer, so
# it leaves out the rest. A probe that reads one state at a time has no input that says how many others there are.

# %% tags=["check"]
counting = np.mean([int(gold[i].sum()) for i in range(len(some.rows))])
for asked_margin in (None, 0.03):
    fewest = explain.smallest_masks(frozen, some, layer=1, margin=asked_margin)
    average = sum(int(masks[0].sum()) for masks in fewest) / len(fewest)
    size = "too low" if kept_by_margin[asked_margin] < average else "too high"
    assert abs(kept_by_margin[asked_margin] - average) < 1e-6, f"`kept_by_margin` is {size} for {asked_margin}"
if usual_size:
    gone = kept_by_margin[0.03] > counting - 0.1
    assert hindsight_gone == gone, "`hindsight_gone`: compare `kept_by_margin` with how many digits count"
    print(f"On average, {counting:.2f} digits count, and erasure keeps {kept_by_margin[0.03]:.2f} of the positions.")

# %% [markdown]
# ## Summary
#
# If you choose a mask because it keeps one answer, it explains this answer and not the model. DiffMask computes its
# masks from states only. We train its probe on all texts. Each position that it keeps has a price, and a constraint
# limits how much the predicted distribution may change. On the digits you saw that it finds the truth where erasure
# keeps too little.
#
# ## Next
#
# In `14_train_probes` you train a probe for longer, on this task and on texts, and compare it with every other method.
