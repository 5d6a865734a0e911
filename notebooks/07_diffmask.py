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
# **You will** see why erasing words one answer at a time misleads, and build DiffMask (De Cao et al. 2020): gates that
# decide from a model's own hidden states what the model can do without, one probe for all texts.
#
# **You will learn**
# - what hindsight is, on a task whose truth is known;
# - how hooks mask the states of any model without a change to it;
# - what the constraint asks, and three places where the choice of a formula decides what comes out.
#
# **You need** `02_hardkuma` (stretch and rectify), `04_selecting_text` (constraints); no data, a minute to run.

# %% tags=["parameters"]
seed: int = 1  # of digits, initial weights and draws
num_train: int = 9000  # examples to train the model on
num_dev: int = 400  # examples to look at
num_samples: int = 20000  # draws behind a check
num_steps: int = 100  # steps of integrals and of fits to one text
model_epochs: int = 12  # passes over the training data

# %%
import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from rationale import explain, figures, training
from rationale.distributions import HardConcrete
from rationale.runs import notebook_path, results_folder, validated
from rationale.runs.parameters import notebook_settings

# %%
p = validated(globals())
torch.manual_seed(p.seed)
folder = results_folder("07_diffmask") / "figures"

# %% [markdown]
# ## 1. Hindsight
#
# Are there more *n* than *m* in a sequence of digits? The model reads the digits, then the query:
#
# $$h^{(0)}_i = \text{digit}(x_i), \qquad
# h^{(1)}_i = W_2 \tanh\big(W_1 [\text{query}(n); \text{query}(m); h^{(0)}_i]\big) \in \mathbb{R}^2, \qquad
# \text{answer} = \text{head}\big(\text{GRU}(h^{(1)})\big). \tag{D1}$$
#
# Up to $h^{(0)}$ nothing knows the query; the filter $h^{(1)}$ can, and the counting comes after it.

# %%
given = {"num_train": p.num_train, "num_dev": p.num_dev, "num_test": p.num_dev, "model_epochs": p.model_epochs}
given |= {"model_learning_rate": 0.002, "seed": p.seed}
usual = notebook_settings(notebook_path("14_train_probes"), **given)
task = training.build_probed_task(usual)
with tempfile.TemporaryDirectory() as place:
    frozen, scores = training.train_probed_model(usual, task, Path(place))
model, batches, splits = task.model, task.batches, task.splits
print(f"accuracy on dev: {scores['dev']['accuracy']:.1%}")

# %% [markdown]
# *Erasure* looks for the smallest set of positions that keeps the answer when all others are gone (here: set to zero):
#
# $$\min_{z \in \{0,1\}^T} \sum_i z_i \quad\text{s.t.}\quad \arg\max f(z \odot h) = \arg\max f(h). \tag{D7}$$
#
# The search is exact, from the empty set on. What it finds depends on the answer it is meant to explain: whichever
# answer the model gives to nothing at all, for that one the empty set will do.

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
        np.mean([gold[i].sum().item() for i in (answer == label).nonzero().flatten()]),
    ]
    for label in (0, 1)
}
pd.DataFrame(facts, index=["texts", "kept by erasure", "share with nothing kept", "digits that count"]).T.round(2)

# %% tags=["check"]
wanted = frozen.read(batch)[0].argmax(-1)
for i in range(0, len(solutions), 40):
    z = torch.zeros(batch.mask.shape)
    z[i, : len(gold[i])] = solutions[i][0].float()
    kept = frozen.masked(batch, 1, z, torch.zeros(2)).argmax(-1)
    assert kept[i] == wanted[i], "the answer is kept"
if p.num_train >= 9_000:
    assert all(kept < 0.8 * count for _, kept, _, count in facts.values()), "fewer positions than count"
    assert max(nothing for _, _, nothing, _ in facts.values()) > 0.8, "one of the answers needs nothing"

# %% [markdown]
# The paper's numbers come from a shorter rule in its code: keep the first *n* if the answer is yes, else the first *m*.
# One digit against a truth that is uniform over $k$ digits is at
# $\text{JS} = \ln 2 - \tfrac12 \big[\tfrac1k \ln(k + 1) + \ln \tfrac{k + 1}{k}\big]$, a quarter of a nat on average:

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
assert abs(js - 0.26) < 0.04, "the published row of erasure is that of this rule"
counts = [int(truth.sum()) for _, truth in chosen]
formula = [math.log(2) - (math.log(k + 1) / k + math.log((k + 1) / k)) / 2 for k in counts]
assert abs(np.mean(formula) - js) < 1e-12

# %% [markdown]
# ## 2. A gate that can be exactly shut
#
# DiffMask's gate is the Hard Concrete of `02_hardkuma` with support $[0, 1)$: left end stretched to $l = -0.2$, right
# end $r = 1$, temperature 0.2:
#
# $$v = \max\big(0,\; l + (r - l)\,\sigma((\text{logit}\, u + \gamma) / \tau)\big), \qquad
# P(v \ne 0) = \sigma\big(\gamma - \tau \ln(-l / r)\big). \tag{D11}$$
#
# > The paper's formula has $l$ and $r$ exchanged in the stretch. Taken literally, $s\,(l - r) + r$ mirrors the gate:
# > the larger $\gamma$, the more is masked.

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
    "s (r - l) + l": (explain.LEFT + (explain.RIGHT - explain.LEFT) * base).clamp(0, 1).mean(0),
    "as printed: s (l - r) + r": (explain.RIGHT + (explain.LEFT - explain.RIGHT) * base).clamp(0, 1).mean(0),
}

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
figures.draw_lines(logits, stretched, ax, title="The printed stretch opens where it should shut",
                   xlabel="logit of the gate", ylabel="mean value of the gate")
figures.save_figure(fig, folder, "stretch")
figures.show(fig)

# %% tags=["check"]
right, printed = stretched.values()
assert right[-1] > 0.95 and right[0] < 0.05 and printed[-1] < 0.05 < 0.95 < printed[0]

# %% [markdown]
# ## 3. Masking without touching the model
#
# What a position says is replaced by a learned baseline $b$, the same for all positions and texts:
#
# $$\hat h^{(\ell)}_i = z_i\, h^{(\ell)}_i + (1 - z_i)\, b^{(\ell)}, \qquad \hat y = f(\hat h^{(\ell)}). \tag{D3}$$
#
# A forward hook is enough: it replaces what a module returns, in any model, and is gone afterwards.

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
# Which positions are masked is decided by small networks that see the model's states and nothing else. There is one a
# layer; the released code has
#
# $$\gamma^{(k)}_i = c_k + 10 \tanh\big(w_k \cdot \tanh(W_k [h^{(0)}_i; h^{(k)}_i])\big), \qquad
# c_k = 5 \text{ at first}, \tag{D4}$$
#
# the paper $\hat\gamma^{(k)}_i = h^{(0)\top}_i W_k h^{(k)}_i + w_k \cdot [h^{(0)}_i; h^{(k)}_i] + c_k$, averaged with
# the layers before:
#
# $$\gamma^{(k)}_i = \tfrac12\big(\hat\gamma^{(k)}_i + \tfrac1k \textstyle\sum_{j < k} \hat\gamma^{(j)}_i\big).
# \tag{D5}$$
#
# That is the probe of *inputs*. The probe of *states* masks $h^{(\ell)}$ itself: its network reads $h^{(\ell)}$ alone,
# and $z_i = v^{(\ell)}_i$, no product.
#
# An input is kept at depth $\ell$ if no layer up to there votes against it: $z_i = \prod_{k \le \ell} v^{(k)}_i$. Then
# $P(z_i \ne 0)$ is the product of the $P(v^{(k)}_i \ne 0)$ exactly. But the factors are *below* 1 where they are not 0,
# so the value of what is kept shrinks as well:

# %%
depths = np.arange(1, 25)
values = {}
for at in (2.0, 5.0):
    gate = HardConcrete(torch.tensor(at), explain.TEMPERATURE, explain.LEFT, explain.RIGHT)
    draws = gate.sample((p.num_samples // 10, len(depths))).cumprod(1)
    kept = torch.where(draws > 0, draws, torch.nan).nanmean(0)
    values[f"P(z != 0), logit {at:g}"] = (gate.log_prob_nonzero * torch.from_numpy(depths)).exp()
    values[f"mean of z where it is not 0, logit {at:g}"] = kept

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.8))
figures.draw_lines(depths, values, ax, title="A product of half-open gates also shrinks what it keeps",
                   xlabel="number of layers that vote", ylabel="probability or value")
figures.save_figure(fig, folder, "product")
figures.show(fig)

# %% tags=["check"]
shrunk = values["mean of z where it is not 0, logit 2"]
assert shrunk[-1] < shrunk[0] < 1 and values["P(z != 0), logit 2"][-1] < values["P(z != 0), logit 2"][0]

# %% [markdown]
# ## 5. The constraint
#
# The probe is to keep as little as possible while the answer stays:
#
# $$\min_{\phi, b}\; \mathbb{E}\Big[\tfrac1T\textstyle\sum_i \mathbf{1}[z_i \ne 0]\Big] \quad\text{s.t.}\quad
# \mathbb{E}\, D(y, \hat y) \le m, \qquad \max_{\lambda \ge 0} \min_{\phi, b}\;
# \tfrac1T\textstyle\sum_i P(z_i \ne 0) + \lambda\,(D - m). \tag{D2}$$
#
# **Which divergence?** The text writes $D[\hat y \| y]$, the experiments use the model's own answer first,
#
# $$D(y, \hat y) = \text{KL}(y \,\|\, \hat y) = \textstyle\sum_c y_c \ln (y_c / \hat y_c). \tag{D6}$$
#
# For a model that is sure, the two ask different things: KL$(\hat y \| y)$ has no bound when $\hat y$ merely becomes
# unsure, KL$(y \| \hat y)$ costs little then.

# %%
sure = torch.tensor([[0.0, 12.0]], dtype=torch.float64)  # y: 12 nats of odds
masked_odds = torch.linspace(-4, 12, 81, dtype=torch.float64)
hat = torch.stack([torch.zeros_like(masked_odds), masked_odds], 1)
lines = {kind: explain.divergence(sure.expand(81, -1), hat, kind) for kind in ("kl", "reverse_kl", "js")}

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
figures.draw_lines(masked_odds, lines, ax, title="Unsure after masking: 0.7 nats one way, 5.3 the other",
                   xlabel="log-odds of the answer after masking", ylabel="divergence, nats")
figures.save_figure(fig, folder, "divergences")
figures.show(fig)

# %% tags=["check"]
unsure = int(masked_odds.abs().argmin())
assert abs(lines["kl"][unsure] - math.log(2)) < 1e-3 and abs(lines["reverse_kl"][unsure] - (6 - math.log(2))) < 1e-3

# %% [markdown]
# **P or ln P?** The released code averages $\ln P(z_i \ne 0)$. That price has no lower end: its push on a gate is
# nearly $1 - P$, hardest where the gate is all but shut and next to nothing where it is open, so a probe gains more by
# shutting one position further than it loses by giving up another. $P$ lets go of gates that are shut; it is the number
# the problem is about, and our default.

# %%
logits = torch.linspace(-8, 8, 161, dtype=torch.float64, requires_grad=True)
gate = HardConcrete(logits, explain.TEMPERATURE, explain.LEFT, explain.RIGHT)
pushes = {
    "d P / d logit": torch.autograd.grad(gate.log_prob_nonzero.exp().sum(), logits, retain_graph=True)[0],
    "d ln P / d logit": torch.autograd.grad(gate.log_prob_nonzero.sum(), logits)[0],
}

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
figures.draw_lines(logits.detach(), pushes, ax, title="The price ln P pushes a shut gate for ever",
                   xlabel="logit of the gate", ylabel="push towards shut")
figures.save_figure(fig, folder, "prices")
figures.show(fig)

# %% tags=["check"]
assert pushes["d ln P / d logit"][0] > 0.99 and pushes["d P / d logit"][0] < 1e-3, "at a shut gate"
assert max(push[-1] for push in pushes.values()) < 1e-3, "at an open one neither pushes"

# %% [markdown]
# **How $\lambda$ moves.** The released code lets $\lambda$ take steps of the gap $D - m$, clipped to $[0, 200]$. While
# nothing is masked the constraint holds with room to spare, $\lambda$ falls to 0, the gates shut unopposed, $\lambda$
# rises, and so on: the sparsity of its notebook swings. Here it is $\ln \lambda$ that moves, between $\ln 0.1$ and
# $\ln 200$, by a moving average of the gap, divided by the margin and cut off at $-1$ and 5; ten times the positive
# part of that average (in nats) is added to $\lambda$, which damps. One gate whose masking costs 3 nats, margin 0.1:

# %%
def moved(lam: float, gap: float, ours: bool) -> float:
    relative = min(5, max(-1, gap / 0.1))
    return min(200, max(0.1, lam * math.exp(0.01 * relative)) if ours else max(0, lam + 0.01 * gap))


single = {}
for name, ours in (("ln lambda moves, damped", True), ("lambda moves", False)):
    logit, lam, average, kept = torch.tensor(5.0, requires_grad=True), 1.0, 0.0, []
    optimizer = torch.optim.RMSprop([logit], lr=0.01)
    for _ in range(3000):
        gate = HardConcrete(logit, explain.TEMPERATURE, explain.LEFT, explain.RIGHT)
        gap = 3 * (1 - gate.rsample((128,))).square().mean() - 0.1
        average = 0.9 * average + 0.1 * gap.item()
        lam = moved(lam, average if ours else gap.item(), ours)
        optimizer.zero_grad()
        (gate.log_prob_nonzero.exp() + (lam + ours * 10 * max(0, average)) * gap).backward()
        optimizer.step()
        kept.append(gate.log_prob_nonzero.exp().item())
    single[name] = kept
swing = {name: np.std(kept[1500:]) for name, kept in single.items()}
print({name: f"standard deviation over the second half {value:.4f}" for name, value in swing.items()})

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
figures.draw_lines(np.arange(3000), single, ax, title="The damped multiplier holds the gate where the margin is",
                   xlabel="step", ylabel="P(z != 0)")
figures.save_figure(fig, folder, "multiplier")
figures.show(fig)

# %% tags=["check"]
assert swing["lambda moves"] > 2 * swing["ln lambda moves, damped"], "the free multiplier swings"
level = np.mean(single["ln lambda moves, damped"][1500:])
assert abs(level - (1 - 0.1 / 3)) < 0.015, f"a gate of 0 or 1 is open in 97 %, this one in {level:.1%}"

# %%
figures.show_source(explain.ProbeObjective.forward)

# %% [markdown]
# **Exercise 1** (predict, change, explain; 6 minutes). *Predict* about where the gate of the last figure settles: which
# $P(z \ne 0)$ makes the mean cost equal to the margin of 0.1, if $z$ were 0 or 1? *Change* the cost of masking from 3
# to 30 nats: `settled`, a dict of 3 and 30 to that probability. *Explain* why a dear word is not kept with certainty.

# %% tags=["solution"]
settled = {cost: 1 - 0.1 / cost for cost in (3, 30)}
for cost, kept in settled.items():
    print(f"masking costs {cost} nats: P(z != 0) = {kept:.4f}")
# The constraint is on the mean: it buys as much masking as the margin pays for, a tenth as much at ten times the cost.
# (The figure's gate ends a little higher: draws between 0 and 1 cost something, too.)

# %% tags=["check"]
for cost in (3, 30):
    masked = torch.rand(50 * p.num_samples) > settled[cost]
    mean_cost, deviation = cost * masked.double().mean(), cost * masked.double().std()
    allowed = 5 * deviation / math.sqrt(len(masked)) + 1e-3  # five standard errors
    assert abs(mean_cost - 0.1) < allowed, f"at {settled[cost]} masking costs {mean_cost:.3f} nats on average, not 0.1"

# %% [markdown]
# ## 6. The others
#
# *Integrated gradients* follow the output $f$ (here the log-odds of the answer) from zero to the state:
#
# $$a_i = \Big| \textstyle\sum_d h_{id} \int_0^1 \frac{\partial f(\alpha h)}{\partial h_{id}}\, d\alpha \Big|.
# \tag{D8}$$
#
# Schulz et al. replace information by noise, fitted to one text, with $\mu, \sigma$ of the training texts' states:
#
# $$\min_g\; -\ln \hat y_{\text{answer}} + 10\,\tfrac1T \textstyle\sum_i
# \text{KL}\big(\mathcal N(g_i h_i + (1 - g_i) \mu, (1 - g_i)^2 \sigma^2) \,\|\, \mathcal N(\mu, \sigma^2)\big), \qquad
# a_i = g_i. \tag{D9}$$
#
# Guan et al. add as much noise as the output allows:
#
# $$\min_\sigma\; \mathbb{E}\,\lVert f(h + \sigma \epsilon) - f(h) \rVert^2 - \tfrac1T \textstyle\sum_i \ln \sigma_i,
# \qquad a_i = 1 / \sigma_i. \tag{D10}$$
#
# DiffMask itself can be fitted to one text, its logits free numbers. Then the score function of `05_reinforce` competes
# with the relaxed gate; its estimate of the gradient of the constraint's part is
#
# $$\lambda\,(D - b)\, \nabla \textstyle\sum_i \ln p(z_i), \qquad z_i \sim \text{Bernoulli}, \quad
# b \text{ an average of } D. \tag{D12}$$
#
# > The released comparison leaves $\lambda$ out of it: the constraint then never pushes harder, however much it is
# > violated. `explain.masks` has both, and `params/probes/sst_search.yaml` holds them against exact search.
#
# All these fits see one answer. Summed, the parts of an integrated gradient are the difference between the output and
# that of zeros, which is a check:

# %%
some = explain.select_rows(batch, torch.arange(min(60, len(batch.rows))))
mean, std = explain.state_moments(frozen, batches["train"].in_order())[1]
found = {
    "integrated gradients": explain.integrated_gradients(frozen, some, 1, p.num_steps),
    "Schulz et al.": explain.information_bottleneck(frozen, some, 1, mean, std, p.num_steps),
    "Guan et al.": explain.additive_noise(frozen, some, 1, p.num_steps),
}
truth = torch.zeros(some.mask.shape)
for i in range(len(truth)):
    truth[i, : len(gold[i])] = gold[i].float()
has = truth.any(1)
distances = {
    name: {of: far.mean().item() for of, far in explain.distance_to_truth(truth[has], a[has]).items()}
    for name, a in found.items()
}
figures.show_table(pd.DataFrame(distances).T.rename_axis("method").reset_index(), digits=2)

# %% tags=["check"]
logits_zero = frozen.masked(some, 1, torch.zeros(some.mask.shape), torch.zeros(2))
logits_full = frozen.read(some)[0]
answers = logits_full.argmax(-1)
difference = explain.log_odds(logits_full, answers) - explain.log_odds(logits_zero, answers)
assert all((a >= 0).all() and torch.isfinite(a).all() and (a[~some.mask] == 0).all() for a in found.values())
slack = 0.05 * (1 + difference.abs())
assert (found["integrated gradients"].sum(1) >= difference.abs() - slack).all(), "the parts' sum, or more"

# %% tags=["figure"]
i = int((some.mask.sum(1) >= 6).nonzero()[0])
length, (n, m) = int(some.mask[i].sum()), splits["dev"][i].second
rows = {"truth": truth[i, :length]} | {name: a[i, :length] for name, a in found.items()}
heat = np.stack([(v / v.max().clamp(min=1e-30)).numpy() for v in rows.values()])
fig, ax = figures.new_figure(size=(10, 4.6))
asked = np.isin(splits["dev"][i].tokens, [n, m])
shares = {name: heat[k, asked].sum() / heat[k].sum().clip(min=1e-30) for k, name in enumerate(rows) if name != "truth"}
title = f"more {n} than {m}? {max(shares, key=shares.get)} gives {n} and {m} most, {max(shares.values()):.0%}"
figures.draw_attention(heat, list(rows), splits["dev"][i].tokens, ax, title=title)
figures.save_figure(fig, folder, "others")
figures.show(fig)

# %% [markdown]
# **Exercise 2** (predict, change, explain; 8 minutes). The truth of section 1 holds at layer 1; at layer 0 nothing
# knows the query. *Predict* what share of layer 0 a probe must keep if the answer may not change at all
# (`kept_of_digits`, 0 to 1; trained probes drop what the margin allows). *Change* the query: of the 90 ordered pairs of
# different digits, how many name a given digit (`naming`)? *Explain* why no method of this section can say so.

# %% tags=["solution"]
kept_of_digits, naming = 1.0, 18
same_digits = {tuple(e.tokens) for e in splits["train"]}
print(f"{len(splits['train'])} texts, {len(same_digits)} different sequences: the same digits with different queries")
# Everything: at layer 0 a probe sees digits without a query, any of which may be asked for. The others see the answer.

# %% tags=["check"]
queries = [(n, m) for n in range(10) for m in range(10) if n != m]
for digit in range(10):
    times = sum(digit in query for query in queries)
    assert naming == times, f"digit {digit} is named {times} times"
named_at_all = {digit for query in queries for digit in query}
asked_for = [int(token) in named_at_all for e in splits["dev"] for token in e.tokens]
assert abs(kept_of_digits - np.mean(asked_for)) < 1e-9, "which digits of a text may no query ask for?"

# %% [markdown]
# ## Summary
#
# A mask that is chosen in view of one answer explains the answer, not the model. DiffMask's probe sees states only, is
# trained on all texts, and pays for what it keeps; what it may not change is the model's own output distribution.
#
# ## Next
#
# `14_train_probes` trains it, on this task and with every method beside it.
