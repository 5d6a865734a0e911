# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Derive attention that selects
#
# **You will** turn scores into attention weights in five ways, four of which give weights of exactly 0, and take
# gradients through all of them (Niculae and Blondel 2017).
#
# **You will learn**
# - why a regularised maximum is behind every attention, softmax included;
# - how to compute sparsemax, fusedmax, oscarmax and sq-pnorm-max exactly, forward and backward;
# - where the published oscarmax is not the maximum it claims to be, and where fusedmax is dead on arrival.
#
# **You need** convex functions and Lagrange multipliers; no data, no GPU; an hour to read, a minute to run.

# %% tags=["parameters"]
seed: int = 0  # of random scores
num_samples: int = 2000  # random rows behind each check
num_steps: int = 400  # training steps of the toy
learning_rate: float = 0.05  # of Adam, in the toy

# %%
import time

import numpy as np
import pandas as pd
import torch

from rationale import figures
from rationale.explorers import explore_mappings
from rationale.nn import (
    MAPPINGS,
    all_mappings,
    fast_rows,
    fusedmax,
    has_zero_jacobian,
    in_dead_zone,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)
from rationale.runs import results_folder, validated

# %%
p = validated(globals())
folder = results_folder("06_sparse_attention") / "figures"
generator = torch.Generator().manual_seed(p.seed)


def scores_of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


# %% [markdown]
# ## 1. The maximum, smoothed
#
# The largest of $d$ scores is itself the value of a maximisation, over the simplex $\Delta = \{y \ge 0, \sum_i y_i =
# 1\}$: $\max(x) = \max_{y \in \Delta} y \cdot x$. The $y$ that attains it is attention of a kind, all on one place; it
# jumps when two scores cross, and has no useful gradient. So take something off that is large in the corners:
#
# $$\max\nolimits_\Omega(x) = \max_{y \in \Delta}\; y \cdot x - \gamma\,\Omega(y), \qquad
# \Pi_\Omega(x) = \nabla \max\nolimits_\Omega(x) = \arg\max_{y \in \Delta}\; y \cdot x - \gamma\,\Omega(y). \tag{A1}$$
#
# The maximiser *is* the gradient (Danskin's theorem), and if $\Omega$ is $\beta$-strongly convex it changes by at most
# $1/(\gamma\beta)$ times what $x$ changes by. One family, five members:
#
# | | $\Omega(y)$ |
# |---|---|
# | softmax | $\sum_i y_i \ln y_i$ |
# | sparsemax | $\frac12\lVert y\rVert^2$ |
# | fusedmax | $\frac12\lVert y\rVert^2 + \lambda\sum_i \lvert y_{i+1} - y_i\rvert$ |
# | oscarmax | $\frac12\lVert y\rVert^2 + \lambda\sum_{i<j}\max(\lvert y_i\rvert, \lvert y_j\rvert)$ |
# | sq-pnorm-max | $\frac12\lVert y\rVert_p^2$, $1 < p \le 2$ |
#
# For two scores $(t, 0)$ everything can be drawn: on the left the smoothed maximum (less a constant), on the right the
# first weight. That is Figure 2 of the paper.

# %%
PENALTIES = {
    "softmax": lambda y: torch.special.entr(y).sum(-1).neg(),
    "sparsemax": lambda y: y.square().sum(-1) / 2,
    "fusedmax": lambda y: y.square().sum(-1) / 2 + 0.1 * y.diff().abs().sum(-1),
    "oscarmax": lambda y: y.square().sum(-1) / 2 + 0.1 * (larger(y).triu(1)).sum((-1, -2)),
    "sq_pnorm_max": lambda y: torch.linalg.vector_norm(y, 1.5, -1).square() / 2,
}


def larger(y: torch.Tensor) -> torch.Tensor:
    """max(|y_i|, |y_j|) for all pairs, [..., d, d]."""
    return torch.maximum(y.abs().unsqueeze(-1), y.abs().unsqueeze(-2))


def value(name: str, x: torch.Tensor, y: torch.Tensor, gamma: float = 1.0) -> torch.Tensor:
    """y . x - gamma Omega(y)."""
    return (y * x).sum(-1) - gamma * PENALTIES[name](y)


t = torch.linspace(-4, 4, 401, dtype=torch.float64)
pairs = torch.stack([t, torch.zeros_like(t)], -1)
weights = all_mappings(pairs, lam=0.1)
smooth = {name: value(name, pairs, y) for name, y in weights.items()}

# %% tags=["check"]
step = t[1] - t[0]
for name, line in smooth.items():
    slope = (line[2:] - line[:-2]) / (2 * step)
    assert (slope - weights[name][1:-1, 0]).abs().max() < 0.01, f"{name}: (A1), the gradient of the maximum is the map"
    assert (line.diff().diff() > -1e-9).all(), f"{name}: a conjugate is convex"
assert torch.allclose(oscarmax(pairs, lam=0.2), fusedmax(pairs, lam=0.1)), "with two scores: half the price"

# %% tags=["figure"]
fig, (left, right) = figures.new_figure(ncols=2, size=(13, 4.6))
lines = {name: line - line.min() for name, line in smooth.items()} | {"max": t.clamp(min=0)}
figures.draw_lines(t, lines, left, title="Smoothed, the maximum bends where scores are close", xlabel="t",
                   ylabel="max(t, 0), less a constant")
first = {name: y[:, 0] for name, y in weights.items()}
figures.draw_lines(t, first, right, title="All but softmax reach 0 and 1", xlabel="t", ylabel="first weight")
figures.save_figure(fig, folder, "two_scores")
figures.show(fig)

# %% [markdown]
# *Reading*: softmax approaches its ends and never arrives. Fusedmax has a plateau at 1/2: scores that differ by less
# than $2\lambda$ get equal weights. Oscarmax has one half as wide, as $\max(y_1, y_2) = (1 + \lvert y_1 - y_2\rvert)/2$
# on the simplex: with two scores it is fusedmax at half the price.
#
# Whatever $\Omega$: adding a constant to all scores adds that constant to $y \cdot x$ for every $y$ of the simplex, so
# the maximiser stays. This shift invariance will catch a mistake below.

# %% [markdown]
# ## 2. Softmax and sparsemax
#
# With the negative entropy the Lagrangian gives $\ln y_i = x_i/\gamma + c$: softmax at temperature $\gamma$. With half
# the squared norm, completing the square in (A1) leaves the distance to $x/\gamma$:
#
# $$\text{sparsemax}(x) = P_\Delta(x/\gamma) = (x/\gamma - \tau)_+, \qquad \tau:\; \sum_i (x_i/\gamma - \tau)_+ = 1.
# \tag{A2}$$
#
# The threshold is found without sorting: take the mean of all that must exceed it, drop what does not, and again
# (Michelot 1986). It ends after at most one round more than scores drop out; as only scores within 1 of the largest are
# looked at, after two or three as a rule.

# %%
figures.show_source(fast_rows.threshold.py_func)

# %%
rows = scores_of(p.num_samples, 6)
projected = sparsemax(rows)
tau = ((projected - rows).where(projected > 0, 0.0)).sum(-1) / (projected > 0).sum(-1)  # -tau on the support

# %% tags=["check"]
assert (projected.sum(-1) - 1).abs().max() < 1e-12 and (projected >= 0).all(), "on the simplex"
assert torch.allclose((rows + tau.unsqueeze(-1)).clamp(min=0), projected, atol=1e-12), "(A2)"
for gamma in (0.3, 1.0, 3.0):
    assert torch.allclose(softmax(rows, gamma=gamma), (rows / gamma).softmax(-1)), "a temperature"
sizes = {gamma: (sparsemax(rows, gamma=gamma) > 0).double().sum(-1).mean().item() for gamma in (0.3, 1.0, 3.0)}
assert sizes[0.3] < sizes[1.0] < sizes[3.0], "the smaller gamma, the sparser"

# %%
print("weights that are not 0, of 6:", {gamma: round(size, 2) for gamma, size in sizes.items()})

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). The smaller $\gamma$, the nearer to the bare maximum.
# *Predict* for the scores (1, 0.2, 0.7) the largest $\gamma$ at which sparsemax gives all weight to one word
# (`bare_gamma`), and the largest at which the second word still gets nothing (`pair_gamma`). *Change* $\gamma$ around
# both. *Explain* with (A2): what does a score lack when its weight is 0?

# %% tags=["solution"]
bare_gamma, pair_gamma = 0.3, 1.3
three_scores = torch.tensor([1.0, 0.2, 0.7], dtype=torch.float64)
for gamma in (0.29, 0.31, 1.29, 1.31):
    print(f"gamma = {gamma}: {sparsemax(three_scores, gamma=gamma).numpy().round(3)}")
# One word takes all while the others lie at least gamma below it: 1 - 0.7. The second word is out while the first two
# alone put the threshold above it: ((1 + 0.7) / gamma - 1) / 2 >= 0.2 / gamma.

# %% tags=["check"]
for gamma, words_below, words_above in ((bare_gamma, 1, 2), (pair_gamma, 2, 3)):
    supports = [int((sparsemax(torch.tensor([1.0, 0.2, 0.7]).double(), gamma=factor * gamma) > 0).sum())
                for factor in (0.999, 1.001)]
    assert supports == [words_below, words_above], f"around {gamma}: {supports[0]}, then {supports[1]} words"

# %% [markdown]
# ## 3. Fusedmax: segments
#
# The fused penalty makes neighbours equal. Proposition 2 of the paper: its map is the composition of two known ones,
# the total-variation prox and the projection,
#
# $$\text{fusedmax}(x) = P_\Delta\big(P_{TV}(x/\gamma)\big), \qquad
# P_{TV}(x) = \arg\min_y\; \tfrac12\lVert y - x\rVert^2 + \lambda \sum_i \lvert y_{i+1} - y_i\rvert. \tag{A3}$$
#
# $P_{TV}$ has an exact algorithm in one sweep and back. Let $f_i(b)$ be the smallest cost of the first $i$ values if
# the $i$-th is $b$. Its derivative is increasing and piecewise linear. One step on, moving away from $b$ costs
# $\lambda$ a unit, so the derivative is cut off at $\pm\lambda$, at two places $l_i \le u_i$; then $b - x_{i+1}$ is
# added. At the end the root of the last derivative is $y_d$, and going back $y_i = \min(u_i, \max(l_i, y_{i+1}))$:
# neighbours are equal to the last digit, or they differ (Johnson 2013).

# %%
example = torch.tensor([1.0, 2.1, 1.9], dtype=torch.float64)
print("P_TV and projection of (1, 2.1, 1.9), lam = 0.1:", fusedmax(example, lam=0.1).tolist())

# %% [markdown]
# ## 4. Oscarmax: groups
#
# OSCAR makes weights equal wherever they stand. Over the simplex all $y_i \ge 0$, and for $y_{(1)} \ge \dots \ge
# y_{(d)}$ the sum of the pairwise maxima is $\sum_i (d - i)\, y_{(i)}$: linear in the *sorted* weights. As larger
# scores get larger weights, what is left is an isotonic regression:
#
# $$\text{oscarmax}(x) = P_\Delta\big(\text{pooled}(x_{(i)}/\gamma - \lambda (d - i))\big), \qquad x_{(1)} \ge \dots \ge
# x_{(d)}, \tag{A4}$$
#
# with *pooled* the nearest non-increasing sequence (pool adjacent violators: whenever a value exceeds the one before
# it, both become their mean), put back in the old order.
#
# > The paper uses the prox of OSCAR for arbitrary signs instead: sort by $\lvert x\rvert$, pool, cut off at 0, restore
# > the signs, then project. That is a prox of the penalty, and the projection is the projection, but the *composition*
# > is not the maximum of (A1): Proposition 2 does not carry over. Adding a constant to all scores, which must not
# > change anything, changes it.

# %%
counter = torch.tensor([0.317, -0.675, -0.042, 0.010], dtype=torch.float64)
published, ours = oscarmax(counter, lam=0.3, published=True), oscarmax(counter, lam=0.3)
for name, y, how in (("published", published, {"published": True}), ("signed (A4)", ours, {})):
    print(f"{name:11} {y.numpy().round(4)}, with 5 added {oscarmax(counter + 5, lam=0.3, **how).numpy().round(4)}")

# %% [markdown]
# ## 5. Are they the maximum?
#
# A concave function is maximal at $y$ if no direction leads up. From each $y$ we go a small step towards each corner
# and towards random points of the simplex, and never gain; for the published composition we do.

# %%
d = 5
x = 0.5 * scores_of(p.num_samples, d)
corners = torch.eye(d, dtype=torch.float64).expand(p.num_samples, d, d)
towards = torch.cat([corners, torch.distributions.Dirichlet(torch.ones(d).double()).sample((p.num_samples, 40))], 1)


def largest_gain(name: str, y: torch.Tensor, step: float = 1e-4) -> torch.Tensor:
    """The best of small steps from y [N, d] towards the points `towards` [N, M, d]: [N]."""
    moved = y.unsqueeze(1) + step * (towards - y.unsqueeze(1))
    return (value(name, x.unsqueeze(1), moved) - value(name, x, y).unsqueeze(1)).amax(1)


gains = {name: largest_gain(name, y) for name, y in all_mappings(x, lam=0.1).items()}
gains["oscarmax, published"] = largest_gain("oscarmax", oscarmax(x, lam=0.1, published=True))
behind = {name: (gain > 1e-9).double().mean().item() for name, gain in gains.items()}
pd.DataFrame({"largest gain": {k: g.max().item() for k, g in gains.items()}, "share of rows not optimal": behind})

# %% tags=["check"]
for name in MAPPINGS:
    assert gains[name].max() < 1e-9, f"{name} is not the maximum of (A1)"
assert behind["oscarmax, published"] > 0.05, "the published composition is not"
shifted = (oscarmax(counter + 5, lam=0.3, published=True) - published).abs().max()
assert shifted > 0.1 and torch.allclose(oscarmax(counter + 5, lam=0.3), ours), "shift invariance tells them apart"

# %%
print(f"the published composition is not optimal on {behind['oscarmax, published']:.0%} of these rows")

# %% [markdown]
# ## 6. Sq-pnorm-max
#
# Between sparsemax ($p = 2$) and the bare maximum ($p \to 1$). The paper runs projected gradients to a tolerance; the
# optimality conditions can be solved instead. With $q = p/(p-1)$,
#
# $$y = \lVert v\rVert_q^{2-q}\, v^{q-1}, \qquad v = (x - \tau)_+/\gamma, \qquad \tau:\; \sum_i y_i = 1, \tag{A5}$$
#
# and the sum falls in $\tau$: Newton's method inside a bracket.

# %% tags=["check"]
exact = sq_pnorm_max(rows, p=1.5)
norm = torch.linalg.vector_norm(exact, 1.5, -1, keepdim=True)
level = rows - norm.sqrt() * exact.sqrt()  # the gradient of y . x - |y|^2 / 2 for p = 1.5
best = level.where(exact > 0, -torch.inf).amax(-1, keepdim=True)
assert (level.where(exact > 0, best) - best).abs().max() < 1e-9, "equal on the support"
assert (level <= best + 1e-9).all(), "and not larger elsewhere"
assert torch.allclose(sq_pnorm_max(rows, p=2.0), projected, atol=1e-12), "p = 2 is sparsemax"

# %% [markdown]
# ## 7. Three scores: pictures on the simplex
#
# The same cloud of scores through every map. Corners, edges and lines fill up: red points have one weight, orange ones
# two, and where scores are pooled the points fall on a line (two weights are equal) or into the centre.

# %% tags=["figure"]
cloud = 0.7 * scores_of(1500, 3)
fig, axes = figures.new_figure(ncols=3, nrows=2, size=(12, 8))
axes.flat[-1].set_axis_off()
for ax, (name, y) in zip(axes.flat[:5], all_mappings(cloud, lam=0.2).items(), strict=True):
    share = (y == 0).any(-1).double().mean()
    figures.draw_simplex(y, ax, title=f"{name}\nsome weight 0: {share:.0%}")
figures.save_figure(fig, folder, "simplex")
figures.show(fig)

# %% tags=["check"]
three = all_mappings(cloud, lam=0.2)
assert (three["softmax"] > 0).all(), "softmax never reaches 0"
next_to = (three["fusedmax"][:, 0] == three["fusedmax"][:, 1]) | (three["fusedmax"][:, 1] == three["fusedmax"][:, 2])
ends = (three["fusedmax"][:, 0] == three["fusedmax"][:, 2]) & (three["fusedmax"][:, 0] > 0)
assert not (ends & ~next_to).any(), "fusedmax fuses the two ends only with what is between them"
alone = (three["oscarmax"][:, 0] == three["oscarmax"][:, 2]) & (three["oscarmax"][:, 1] != three["oscarmax"][:, 0])
assert alone.any(), "oscarmax groups the ends without the middle"

# %% [markdown]
# ## 8. Backward: a few averages
#
# All Jacobians are symmetric (a gradient's derivative), so the backward pass needs only $Jv$, and it has a name each:
#
# $$J_{P_\Delta} v = \mathbf{1}_S \odot (v - \bar v_S), \qquad J_{TV} v = J_{\text{pooled}} v = \text{the mean of } v
# \text{ in each group}, \qquad J_p v = B^{-1}(v - c\,\mathbf 1)\;\text{on } S, \tag{A6}$$
#
# with $S$ the support, $\bar v_S$ the mean over it, groups the runs (fusedmax) or pools (oscarmax) of equal values
# *before* the projection, $B = \gamma\nabla^2\Omega$ and $c$ such that the result sums to 0. Fusedmax and oscarmax
# chain the first two; and as (A2) to (A4) take $x/\gamma$, their results are divided by $\gamma$. The last part is
# Proposition 1 of the paper written on the support; for the squared $p$-norm $B$ is a diagonal plus $uu^\top$, which is
# inverted in closed form.

# %% tags=["check"]
few = 0.8 * scores_of(200, 6)
for name, mapping in MAPPINGS.items():
    direction, h = scores_of(200, 6), 1e-6
    for gamma in (1.0, 2.0):
        up, down = (mapping(few + shift * direction, gamma=gamma) for shift in (h, -h))
        v = few.clone().requires_grad_()
        mine = torch.autograd.grad((mapping(v, gamma=gamma) * direction).sum(), v)[0]  # J^T v, by (A6)
        off = ((up - down) / (2 * h) - mine).abs().amax(-1)  # from J v, by differences
        assert (off < 1e-5).double().mean() > 0.97, f"{name}, gamma {gamma}: (A6)"  # a few rows stand at a kink

# %% tags=["figure"]
one = torch.tensor([0.2, 0.9, 1.1, 1.0, -0.5, 0.7, 1.6, 0.1], dtype=torch.float64)
fig, axes = figures.new_figure(ncols=3, nrows=2, size=(12, 8.4))
axes.flat[-1].set_axis_off()
for ax, (name, mapping) in zip(axes.flat[:5], MAPPINGS.items(), strict=True):
    jacobian = torch.autograd.functional.jacobian(mapping, one)
    rank = torch.linalg.matrix_rank(jacobian, atol=1e-9).item()
    groups = {round(weight, 9) for weight in mapping(one).tolist() if weight > 0}
    assert rank == len(groups) - 1, f"{name}: {len(groups)} different weights"
    names = [str(i) for i in range(1, 9)]
    figures.draw_attention(jacobian.abs(), names, names, ax, title=f"{name}: rank {rank}", top=0.7)
figures.save_figure(fig, folder, "jacobians")
figures.show(fig)

# %% [markdown]
# *Reading*: (a row is a weight, a column the score that moves it; absolute values; grey is exactly 0.) Softmax moves
# every weight with every score. A sparse map moves the support only, and equal weights as one. The rank is the number
# of groups in the support, less one: the weights sum to 1. (What is not pooled is a group by itself; here the groups
# are the different weights, but scores that tie under sparsemax keep a gradient each.)

# %% [markdown]
# ## 9. Dead on arrival
#
# When is fusedmax the uniform vector, with a Jacobian of exactly 0? The dual of $P_{TV}$ says: iff a path of partial
# sums stays inside a tube,
#
# $$\max_k \Big\lvert \sum_{i \le k} (x_i - \bar x)\Big\rvert \le \gamma\lambda. \tag{A7}$$
#
# The dot products of a freshly initialised network are small. Inside this zone no gradient comes back, so they stay.

# %%
shares = {}
for lam in (0.01, 0.1, 1.0):
    shares[f"lam = {lam:g}"] = [in_dead_zone(scale * scores_of(400, 12), lam=lam).double().mean().item() for scale in
                                np.logspace(-3, 1, 25)]  # fmt: skip

# %% tags=["check"]
small = (0.01 * scores_of(300, 12)).requires_grad_()
flat = fusedmax(small, lam=0.1)
of_small = torch.autograd.grad((flat * scores_of(300, 12)).sum(), small)[0]
zone = in_dead_zone(small.detach(), lam=0.1)
assert zone.double().mean() > 0.9, "fresh scores are in the zone"
assert (of_small[zone].abs() < 1e-15).all() and (flat[zone] - 1 / 12).abs().max() < 1e-12, "(A7)"
for gamma in (0.5, 1.0, 2.0):
    away = 0.05 * gamma * scores_of(300, 12)
    uniform = (fusedmax(away, lam=0.1, gamma=gamma) - 1 / 12).abs().amax(-1) < 1e-12
    assert (uniform == in_dead_zone(away, lam=0.1, gamma=gamma)).all() and 0.05 < uniform.double().mean() < 0.95, "(A7)"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.4))
figures.draw_lines(np.logspace(-3, 1, 25), shares, ax, title="Small scores are dead: uniform weights, no gradient",
                   xlabel="standard deviation of the scores (12 a row)", ylabel="share of dead rows", xscale="log")
figures.save_figure(fig, folder, "dead_zone")
figures.show(fig)

# %% [markdown]
# The remedy is to let the attention wake up first: let $\lambda$ rise from 0 during the first steps, or scale the
# scores up, and watch the share of dead rows. A toy: of twelve noisy tokens one segment of three carries the label.


# %%
def toy(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [rows, 12, 8] and labels [rows] in {-1, 1}: a segment of three tokens carries a mark and the label."""
    tokens, label = scores_of(rows, 12, 8), scores_of(rows).sign()
    start = torch.randint(0, 10, (rows, 1), generator=generator) + torch.arange(3)
    tokens.scatter_(1, start.unsqueeze(-1).expand(-1, -1, 8)[..., :1], 3.0)  # the mark
    tokens[..., 1].scatter_(1, start, label.unsqueeze(1).expand(-1, 3))  # the label
    return tokens, label


def trained(lam_at) -> list[tuple[float, float]]:
    """Loss and share of dead rows at each step of a model that attends with fusedmax, `lam_at(number)` its price."""
    tokens, label = toy(256)
    query, read = ((0.01 * scores_of(8)).requires_grad_() for _ in range(2))
    optimizer, seen = torch.optim.Adam([query, read], lr=p.learning_rate), []
    for number in range(p.num_steps):
        scores = tokens @ query
        said = (fusedmax(scores, lam=lam_at(number)).unsqueeze(-1) * tokens).sum(1) @ read
        loss = torch.nn.functional.softplus(-label * said).mean()
        optimizer.zero_grad(), loss.backward(), optimizer.step()
        seen.append((loss.item(), in_dead_zone(scores.detach(), lam=0.5).double().mean().item()))
    return seen


runs = {"lam = 0.5 from the start": trained(lambda number: 0.5),
        "lam rises to 0.5": trained(lambda number: 0.5 * min(1, number / 200))}  # fmt: skip

# %% tags=["check"]
if p.num_steps >= 400:
    stuck, woken = (run[-1][0] for run in runs.values())
    assert woken < 0.5 * stuck, "with a rising price the attention is found"
    assert runs["lam = 0.5 from the start"][0][1] == 1.0, "every row is dead at the start"

# %% tags=["figure"]
fig, (left, right) = figures.new_figure(ncols=2, size=(13, 4.2))
steps = np.arange(1, p.num_steps + 1)
figures.draw_lines(steps, {name: [loss for loss, _ in run] for name, run in runs.items()}, left,
                   title="A price that rises lets attention wake up", xlabel="training step", ylabel="loss (nats)")
figures.draw_lines(steps, {name: [share for _, share in run] for name, run in runs.items()}, right,
                   title=f"Dead rows in the end: {' or '.join(f'{run[-1][1]:.0%}' for run in runs.values())}",
                   xlabel="training step", ylabel="share of dead rows, at lam = 0.5")
figures.save_figure(fig, folder, "warm_up")
figures.show(fig)

# %% [markdown]
# **Settled too early.** A row can also lose its gradient by deciding. By the rank of section 8
#
# $$J = 0 \iff \text{the support is a single group}, \tag{A8}$$
#
# of which the uniform row of (A7) is one case and the row with a single weight the other: where a map has settled on a
# wrong word, nothing tells it. A larger $\gamma$ flattens the map and keeps more rows open; softmax settles only where
# the other weights are too small for the computer.
# Translators log the share of such rows (`train_settled`), and `25_read_seq2seq` shows one that got stuck.

# %%
flatness, wide = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0]), 2.0 * scores_of(400, 12)
prices = {"fusedmax": 0.1, "oscarmax": 0.01}
closed = {name: [has_zero_jacobian(mapping(wide, gamma=gamma), name, prices.get(name, 0)).double().mean().item()
                 for gamma in flatness.tolist()] for name, mapping in MAPPINGS.items()}  # fmt: skip
tied = torch.tensor([1.0, -5.0, 1.0, 1.0], dtype=torch.float64)  # one word three times, for example
for name, mapping in MAPPINGS.items():
    y = mapping(tied)
    print(f"{name:12} {y.numpy().round(3)} zero Jacobian: {has_zero_jacobian(y, name, prices.get(name, 0))}")

# %% tags=["check"]
both = torch.cat([wide, wide.round(), tied.repeat(1, 3)])  # without ties and with
for name, mapping in MAPPINGS.items():
    v = both.clone().requires_grad_()
    y = mapping(v)
    slope = torch.autograd.grad((y * scores_of(*both.shape)).sum(), v)[0]
    assert ((slope.abs().amax(-1) < 1e-12) == has_zero_jacobian(y, name, prices.get(name, 0))).all(), f"{name}: (A8)"
    assert closed[name] == sorted(closed[name], reverse=True), f"{name}: the flatter, the fewer rows are settled"
assert closed["sparsemax"][2] > 0.2 > 0.02 > closed["sparsemax"][4] and max(closed["softmax"]) == 0

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.4))
title = f"At gamma 1 sparsemax settles {closed['sparsemax'][2]:.0%} of the rows, at 4 {closed['sparsemax'][4]:.0%}"
figures.draw_lines(flatness, closed, ax, title=title, xlabel="gamma (scores of standard deviation 2, 12 a row)",
                   ylabel="share of rows without gradient", xscale="log", markers=True)
figures.save_figure(fig, folder, "settled")
figures.show(fig)

# %% [markdown]
# ## 10. What is not there must not be seen
#
# Scores of padding are often set to $-\infty$ or $-10^9$. Softmax forgives that. A total variation does not: the last
# words pay for the jump to $-10^9$ and are smoothed towards it. Oscarmax happens to forgive: in the form (A4) padding
# has the last ranks, and the prices of all others rise by one constant; in the published form, which sorts by
# $\lvert x\rvert$, it has the first, and the others keep the prices they had. The maps here *cut out* what is masked:
# whatever stands there, the rest is as if it had never been written.

# %%
short, padded = torch.tensor([1.0, -0.3, 0.9]).double(), torch.tensor([1.0, -0.3, 0.9, -1e4, -1e4]).double()
mask = torch.tensor([True, True, True, False, False])
ways = {"fusedmax": (fusedmax, {}), "oscarmax": (oscarmax, {}), "published": (oscarmax, {"published": True})}
for name, (mapping, how) in ways.items():
    alone, cut = mapping(short, lam=0.3, **how), mapping(padded, mask, lam=0.3, **how)
    lowered = mapping(padded, lam=0.3, **how)
    print(f"{name:9}", *(f" {what} {y.numpy().round(3)}" for what, y in
                         (("alone", alone), ("masked", cut), ("with -10^4", lowered))))  # fmt: skip

# %% tags=["check"]
for name, mapping in MAPPINGS.items():
    noise = padded.clone()
    noise[3:] = torch.nan
    assert torch.allclose(mapping(noise, mask)[:3], mapping(short), atol=1e-12), f"{name}: a mask is a slice"
assert (fusedmax(padded, lam=0.3)[:3] - fusedmax(short, lam=0.3)).abs().max() > 0.05, "-10^4 is no mask"
for published in (False, True):
    of_padded, of_short = (oscarmax(x, lam=0.3, published=published) for x in (padded, short))
    assert torch.allclose(of_padded[:3], of_short), "but for oscarmax it is"

# %% [markdown]
# ## 11. What they cost
#
# One pass forward and backward over 512 rows of 64 scores, as multiples of softmax (see also `make bench`).

# %%
many, direction = torch.randn(512, 64, requires_grad=True), torch.randn(512, 64)
times = {}
for name, mapping in MAPPINGS.items():
    durations = []
    for _ in range(6):
        start = time.perf_counter()
        mapping(many).backward(direction)
        durations.append(time.perf_counter() - start)
    times[name] = 1e3 * min(durations)
pd.DataFrame({"ms": times}).assign(times_softmax=lambda table: table["ms"] / table["ms"]["softmax"]).round(2)

# %% [markdown]
# ## 12. Take the sliders

# %% tags=["figure"]
fig = figures.Picture(figsize=(15, 3.2))
some = torch.tensor([0.5, 1.5, 1.3, -0.4, 0.9, 0.8], dtype=torch.float64)
figures.draw_mappings(some, all_mappings(some, lam=0.2), fig)

# %% tags=["interactive"]
explorer = explore_mappings(lam=0.2)
explorer

# %% tags=["check"]
before = explorer.picture.value
explorer.scores[0].value = 2.5
assert explorer.picture.value != before, "a slider that moves changes the picture"
explorer.scores[0].value = some[0].item()

# %% [markdown]
# **Exercise 2** (predict, change, explain; 12 minutes). At the sliders, with the scores `some`; predict first.
# 1. When `lam` rises, fusedmax joins neighbours until two segments are left, and then one. *Predict* where the last
#    break is: `first_segment`, the number of words before it. *Change* `lam` until you see it. Which scores decide?
# 2. *Change* the places of two scores. Which maps only swap the two weights, whichever scores you take: `only_swap`,
#    a set of names?
# 3. *Explain* 1 by (A7), and 2 by what each penalty knows about places.

# %% tags=["solution"]
first_segment = int((some - some.mean()).cumsum(0)[:-1].abs().argmax()) + 1
only_swap = {"softmax", "sparsemax", "oscarmax", "sq_pnorm_max"}
swapped = some[[4, 1, 2, 3, 0, 5]]
for name, y in all_mappings(some, lam=0.2).items():
    only = torch.allclose(all_mappings(swapped, lam=0.2)[name], y[[4, 1, 2, 3, 0, 5]])
    print(f"{name:13} {'only swaps two weights' if only else 'changes more: order matters to it'}")
# 1. It breaks where the tube of (A7) is left first: at the largest partial sum of deviations, not at the largest score.
# 2. Neighbours are places; pairs, squares and entropies are not.

# %% tags=["check"]
nearly = next(lam for lam in np.linspace(2, 0, 2001) if fusedmax(some, lam=lam).diff().abs().max() > 1e-9)
steps_of = fusedmax(some, lam=nearly).diff().abs()
assert (steps_of > 1e-9).sum() == 1, "two segments"
assert steps_of[first_segment - 1] > 1e-9, f"1. at lam = {nearly:.3f} it does not break after {first_segment} words"
moves = [torch.randperm(6, generator=generator) for _ in range(20)]
blind = {name for name in MAPPINGS if all(torch.allclose(all_mappings(some[move], lam=0.2)[name],
         all_mappings(some, lam=0.2)[name][move], atol=1e-6) for move in moves)}  # fmt: skip
assert only_swap == blind, f"2. not so for {', '.join(sorted(only_swap ^ blind))}"

# %% [markdown]
# ## Summary
#
# - Attention is the gradient of a regularised maximum (A1); the penalty decides what may be exactly 0 or equal.
# - Sparsemax projects (A2); fusedmax smooths, then projects (A3); oscarmax pools the *signed* scores, then projects
#   (A4). The published oscarmax is not the maximum, and a constant added to the scores shows it.
# - Backward passes are averages (A6). Where fusedmax is flat (A7) there is no gradient: let its price rise.
#
# ## Next
#
# `13_train_nli` puts these maps to work on pairs of sentences.
