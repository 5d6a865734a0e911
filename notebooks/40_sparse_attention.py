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
# You know one way to select words, with gates that are exactly 0 or 1. Attention is another way. It turns scores into
# weights that sum to 1, and softmax gives every word a positive weight. Can attention give a word a weight of exactly
# 0, so that you can say that the model did not use it?
#
# **You will** turn scores into attention weights in six ways, five of which give weights of exactly 0, and take
# gradients through all of them (Niculae and Blondel 2017; Peters, Niculae and Martins 2019).
#
# **You will learn**
# - why every attention of this page, softmax included, is the solution of one maximisation problem
# - how to compute sparsemax, fusedmax, oscarmax, sq-pnorm-max and entmax exactly, forward and backward
# - where the published oscarmax is not the maximum that it should be, and for which scores fusedmax passes no gradient.
#
# **You need** convex functions and Lagrange multipliers. You need no data and no GPU. The notebook runs in less
# than a minute, and you will need about an hour to read it.

# %% tags=["parameters"]
seed: int = 0  # of random scores
num_samples: int = 2000  # random rows behind each check
num_steps: int = 400  # training steps of the toy
learning_rate: float = 0.05  # of Adam, in the toy

# %%
import functools
import importlib
import importlib.util
import time

import numpy as np
import pandas as pd
import torch

from rationale import figures
from rationale.explorers import explore_mappings
from rationale.figures import in_words
from rationale.nn import (
    MAPPINGS,
    all_mappings,
    entmax,
    entmax15,
    fusedmax,
    has_zero_jacobian,
    in_dead_zone,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)
from rationale.nn.mappings import fast_rows
from rationale.runs import results_folder, validated
from rationale.training.toy_segments import attend_to_segments

# %%
p = validated(globals())
folder = results_folder("40_sparse_attention") / "figures"
generator = torch.Generator().manual_seed(p.seed)
maps = {name: mapping.function for name, mapping in MAPPINGS.items() if not mapping.special_case_of}


def scores_of(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


# %% [markdown]
# ## 1. The maximum, smoothed
#
# Let us start from a fact that you know in another form. We write $\Delta = \{y \ge 0, \sum_i y_i = 1\}$ for the set of
# all non-negative weights that sum to 1, the *simplex*. A weighted mean of scores is never above the largest score. So
# the largest of $d$ scores is itself the value of a maximisation, $\max(x) = \max_{y \in \Delta} y \cdot x$. The $y$
# that attains this maximum puts all weight on the largest score. We could use it as attention, but it jumps when two
# scores cross, and its gradient is 0 everywhere else. So we subtract a penalty $\Omega$ that is largest at the corners
# of the simplex:
#
# $$\max\nolimits_\Omega(x) = \max_{y \in \Delta}\; y \cdot x - \gamma\,\Omega(y), \qquad
# \Pi_\Omega(x) = \nabla \max\nolimits_\Omega(x) = \arg\max_{y \in \Delta}\; y \cdot x - \gamma\,\Omega(y). \tag{A1}$$
#
# The maximiser *is* the gradient (Danskin's theorem). If you change $x$ a little, the maximiser $y$ moves, too. But
# at a maximum, a small move of $y$ changes the value only in second order. In first order the value changes only
# through the $x$ in $y \cdot x$, and the derivative of $y \cdot x$ by $x$ is $y$. If $\Omega$ is strictly convex,
# there is one maximiser, and it does not jump. So each penalty gives us a map $\Pi_\Omega$ from scores to weights.
# This page is about the six penalties in the table, in which $\lambda$, $p$ and $\alpha$ are numbers that you choose.
#
# | | $\Omega(y)$ |
# |---|---|
# | softmax | $\sum_i y_i \ln y_i$ |
# | sparsemax | $\frac12\lVert y\rVert^2$ |
# | fusedmax | $\frac12\lVert y\rVert^2 + \lambda\sum_i \lvert y_{i+1} - y_i\rvert$ |
# | oscarmax | $\frac12\lVert y\rVert^2 + \lambda\sum_{i<j}\max(\lvert y_i\rvert, \lvert y_j\rvert)$ |
# | sq-pnorm-max | $\frac12\lVert y\rVert_p^2$, $1 < p \le 2$ |
# | entmax | $\frac{1}{\alpha(\alpha-1)}\sum_i (y_i^\alpha - y_i)$, $\alpha > 1$ |
#
# For two scores $(t, 0)$ you can see all of this in one picture, which follows Figure 2 of the paper. In the first
# panel we plot by how much the smoothed maximum exceeds $\max(t, 0)$. To each smoothed maximum we first add the
# penalty of a corner, $\gamma\,\Omega(1, 0)$. Then the excess is 0 where all weight is on one score. In the second
# panel you see the weight of the first score. In both panels $\gamma$ is 1. Fusedmax and oscarmax have
# $\lambda = 0.1$, sq-pnorm-max has $p = 1.5$, and entmax has $\alpha = 1.5$.

# %%
PENALTIES = {
    "softmax": lambda y: torch.special.entr(y).sum(-1).neg(),
    "sparsemax": lambda y: y.square().sum(-1) / 2,
    "fusedmax": lambda y: y.square().sum(-1) / 2 + 0.1 * y.diff().abs().sum(-1),
    "oscarmax": lambda y: y.square().sum(-1) / 2 + 0.1 * (larger(y).triu(1)).sum((-1, -2)),
    "sq_pnorm_max": lambda y: torch.linalg.vector_norm(y, 1.5, -1).square() / 2,
    "entmax": lambda y: (y**1.5 - y).sum(-1) / 0.75,
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
fig, (left, right) = figures.new_figure(ncols=2, size=(13, 4.8))
corner = torch.tensor([1.0, 0.0], dtype=torch.float64)
excess = {in_words(name): line - t.clamp(min=0) + PENALTIES[name](corner) for name, line in smooth.items()}
figures.draw_lines(t, excess, left, title="Smoothing raises the maximum where the scores are close", xlabel="t",
                   ylabel="smoothed maximum less max(t, 0)")
first = {in_words(name): y[:, 0] for name, y in weights.items()}
figures.draw_lines(t, first, right, title="All but softmax reach 0 and 1", xlabel="t", ylabel="first weight")
figures.label_lines(left, at=0.0, to=2.3)
figures.save_figure(fig, folder, "two_scores")
figures.show(fig)

# %% [markdown]
# You see in the second panel that softmax comes near 0 and 1 but never reaches them. Fusedmax is constant at 1/2 in the
# middle, because scores that differ by less than $2\lambda$ get equal weights. For oscarmax this interval is half as
# wide. On the simplex $\max(y_1, y_2) = (1 + \lvert y_1 - y_2\rvert)/2$, so with two scores oscarmax is fusedmax at
# half the price.
#
# One property holds for every $\Omega$. If you add a constant to all scores, $y \cdot x$ grows by this constant for
# every $y$ of the simplex, so the maximiser stays the same. In section 4, this *shift invariance* helps us to find a
# mistake.

# %% [markdown]
# ## 2. Softmax and sparsemax
#
# We begin with the two simplest penalties. At the maximum, the derivative of $y \cdot x - \gamma\,\Omega(y)$ by $y_i$
# has one common value for all words with $y_i > 0$. For a word with $y_i = 0$ the derivative is at most this value.
# Otherwise we could gain by moving weight from one word to another. For the negative entropy this gives
# $\ln y_i = x_i/\gamma + \text{const.}$, which is softmax at temperature $\gamma$. For half the squared norm the
# derivative is $x_i - \gamma y_i$. If we call its common value $\gamma\tau$, then $y_i = x_i/\gamma - \tau$ where this
# is positive, and 0 elsewhere. We write $(\cdot)_+$ for $\max(\cdot, 0)$. If you complete the square in (A1), you see
# that this $y$ is also the point of the simplex that is nearest to $x/\gamma$. We call it the projection $P_\Delta$ of
# $x/\gamma$:
#
# $$\text{sparsemax}(x) = P_\Delta(x/\gamma) = (x/\gamma - \tau)_+, \qquad \tau:\; \sum_i (x_i/\gamma - \tau)_+ = 1.
# \tag{A2}$$
#
# Sparsemax subtracts a threshold and cuts off what is negative. How do we find the threshold $\tau$? The words with
# positive weight are called the *support*. We work in rounds, and in each round we suppose that all $m$ words that
# are left belong to the support. Then $\tau$ is the mean of their $x_i/\gamma$ minus $1/m$. Words whose $x_i/\gamma$
# does not exceed this $\tau$ drop out, and we compute $\tau$ again from the others (Michelot 1986). Each round but
# the last drops at least one word, so there are at most $d$ rounds, and we need not sort the scores. Only words whose
# scores are within $\gamma$ of the largest one can be in the support, so we begin with these. In the code, `above`
# holds the scores that are left, and `count` is their number.

# %%
figures.show_source(fast_rows.drop_below.py_func)

# %%
rows = scores_of(p.num_samples, 6)
projected = sparsemax(rows)
tau = (rows - projected).where(projected > 0, 0.0).sum(-1) / (projected > 0).sum(-1)  # from the support, for (A2)

# %% tags=["check"]
assert (projected.sum(-1) - 1).abs().max() < 1e-12 and (projected >= 0).all(), "on the simplex"
assert torch.allclose((rows - tau.unsqueeze(-1)).clamp(min=0), projected, atol=1e-12), "(A2)"
for gamma in (0.3, 1.0, 3.0):
    assert torch.allclose(softmax(rows, gamma=gamma), (rows / gamma).softmax(-1)), "a temperature"
sizes = {gamma: (sparsemax(rows, gamma=gamma) > 0).double().sum(-1).mean().item() for gamma in (0.3, 1.0, 3.0)}
assert sizes[0.3] <= sizes[1.0] <= sizes[3.0], "the smaller gamma, the sparser"

# %%
for gamma, size in sizes.items():
    print(f"gamma {gamma}: {size:.1f} of 6 weights are not 0 on average")

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). The smaller $\gamma$ is, the closer we are to the maximum
# without a penalty. Take the scores (1, 0.2, 0.7). *Predict* the largest $\gamma$ at which sparsemax gives all weight
# to one word (`bare_gamma`), and the largest at which the second word still gets nothing (`pair_gamma`). *Change*
# $\gamma$ to values below and above each of the two. *Explain* with (A2) what is true of a score whose weight is 0.

# %% tags=["prediction"]
bare_gamma, pair_gamma = 0.3, 1.3

# %% tags=["solution"]
three_scores = torch.tensor([1.0, 0.2, 0.7], dtype=torch.float64)
for gamma in (0.29, 0.31, 1.29, 1.31):
    print(f"gamma = {gamma}: {sparsemax(three_scores, gamma=gamma).numpy().round(3)}")
# One word has all the weight if the others are at least gamma below it, and 1 - 0.7 = 0.3. The second word gets nothing
# if the other two alone give a threshold above its score: ((1 + 0.7) / gamma - 1) / 2 >= 0.2 / gamma.

# %% tags=["check"]
for name, gamma, words_below in (("bare_gamma", bare_gamma, 1), ("pair_gamma", pair_gamma, 2)):
    for where, factor, wanted in (("below", 0.999, words_below), ("above", 1.001, words_below + 1)):
        count = int((sparsemax(torch.tensor([1.0, 0.2, 0.7]).double(), gamma=factor * gamma) > 0).sum())
        told = f"`{name}`: at a gamma just {where} {gamma:.4g}, {count} words have a weight, not {wanted}"
        assert count == wanted, told

# %% [markdown]
# ## 3. Fusedmax: segments
#
# Sparsemax ignores the order of words, but often we want whole phrases. With the penalty of fusedmax you make the
# weights of neighbours equal. By Proposition 2 of the paper, we can solve it in two steps. We first smooth the scores
# by $P_{TV}$, and then project. The operator $P_{TV}$ looks for values that are near the scores and have a small
# *total variation*, which is the sum of the absolute differences of neighbours. The projection subtracts the same
# number from all values and cuts off at 0, so neighbours that were equal stay equal:
#
# $$\text{fusedmax}(x) = P_\Delta\big(P_{TV}(x/\gamma)\big), \qquad
# P_{TV}(x) = \arg\min_y\; \tfrac12\lVert y - x\rVert^2 + \lambda \sum_i \lvert y_{i+1} - y_i\rvert. \tag{A3}$$
#
# We need $P_{TV}(x)$ only where it is above the threshold of the projection, and we compute it in three steps.
#
# 1. *Where is $P_{TV}(x)$ above a given level $\ell$?* We call the set of these places $A$. Give each place in $A$ the
#    cost $\ell - x_i$, and each border of $A$ inside the text the cost $\lambda$. Then $A$ is the set with the lowest
#    total cost, and we find it by dynamic programming, in one pass forward and one pass back.
# 2. *Which level is the threshold?* Add up how far the values of $P_{TV}(x)$ are above $\ell$. The result is the sum of
#    $x_i - \ell$ over $A$, minus $\lambda$ for each border of $A$. At the threshold this result has to be 1. We find
#    the threshold in rounds, as in section 2. We compute it from all places that are left, drop those that are not
#    above it, and repeat. The places that remain are the support.
# 3. *Which values are equal?* The support consists of runs of neighbouring places. We suppose at first that all places
#    of a run get the same value. This value is the sum of their scores, minus $\lambda$ for each border of the run,
#    divided by their number. Then we search as in step 1, with this value as the level. If no place of the run is above
#    it, the value is right. Otherwise we divide the run at the borders of the set that we have found. At each of these
#    borders we subtract $\lambda$ on the higher side and add it on the lower side, and we treat each part in the same
#    way.
#
# If two neighbours are fused, we have computed one value for both, so they are equal in all digits. Compare the last
# two weights below.

# %%
example = torch.tensor([1.0, 2.1, 1.9], dtype=torch.float64)
print("scores (1, 2.1, 1.9), sparsemax:", [round(y, 12) for y in sparsemax(example).tolist()])
print("fusedmax with lam = 0.1:", fusedmax(example, lam=0.1).tolist())

# %% [markdown]
# ## 4. Oscarmax: groups
#
# Fusedmax joins neighbours. What if words that belong together stand far apart? OSCAR makes weights equal wherever
# they stand. On the simplex all $y_i \ge 0$. If we sort them, $y_{(1)} \ge \dots \ge y_{(d)}$, then $y_{(i)}$ is the
# larger one in $d - i$ pairs. So the sum of the pairwise maxima is $\sum_i (d - i)\, y_{(i)}$, which is linear in the
# *sorted* weights. Larger scores get larger weights, so sorting the scores also sorts the weights. We complete the
# square as for sparsemax. Among the points of the simplex with $y_{(1)} \ge \dots \ge y_{(d)}$, we look for the one
# that is nearest to $x_{(i)}/\gamma - \lambda (d - i)$:
#
# $$\text{oscarmax}(x) = P_\Delta\big(\text{pooled}(x_{(i)}/\gamma - \lambda (d - i))\big), \qquad x_{(1)} \ge \dots \ge
# x_{(d)}. \tag{A4}$$
#
# Here *pooled* gives the nearest non-increasing sequence. Whenever a value exceeds the one before it, both are replaced
# by their mean, and we repeat this until no value does (pool adjacent violators). At the end we put the results back in
# the original order.
#
# > (This box is optional. It is about the difference from the paper.)
# >
# > The paper uses the proximal operator of OSCAR for values of any sign instead. This operator sorts by $\lvert
# > x\rvert$, pools, cuts off at 0 and restores the signs. Then the paper projects the result. The proximal operator and
# > the projection are each correct by themselves. But their *composition* is not the maximum of (A1). Proposition 2 of
# > the paper states that it is, for this penalty, too, but for this penalty the proposition does not hold. You can see
# > it with the shift invariance of section 1. If you add a constant to all scores, the published composition changes,
# > although the maximum does not.

# %%
counter = torch.tensor([0.317, -0.675, -0.042, 0.010], dtype=torch.float64)
published, ours = oscarmax(counter, lam=0.3, published=True), oscarmax(counter, lam=0.3)
for name, y, how in (("published", published, {"published": True}), ("signed (A4)", ours, {})):
    print(f"{name:11} {y.numpy().round(4)}, with 5 added {oscarmax(counter + 5, lam=0.3, **how).numpy().round(4)}")

# %% [markdown]
# ## 5. Are they the maximum?
#
# We now test all six maps. A concave function is maximal at $y$ if it increases in no direction. From each $y$ we
# take a small step towards each corner and towards random points of the simplex. No step may increase the objective.
# The table below shows the largest increase that we found for each map, and the share of rows in which there was one.
# A value of the size $10^{-9}$ or less is rounding.

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
largest = {in_words(name): gain.max().item() for name, gain in gains.items()}
found = pd.DataFrame({"largest increase": {name: f"{x:.0e}" if x > 1e-9 else "rounding" for name, x in largest.items()},
                      "share of rows": {in_words(name): share for name, share in behind.items()}})  # fmt: skip
figures.show_table(found, digits=2, index="map")

# %% tags=["check"]
for name in maps:
    assert gains[name].max() < 1e-9, f"{name} is not the maximum of (A1)"
if p.num_samples >= 100:
    assert behind["oscarmax, published"] > 0.05, "the published composition is not"
shifted = (oscarmax(counter + 5, lam=0.3, published=True) - published).abs().max()
assert shifted > 0.1 and torch.allclose(oscarmax(counter + 5, lam=0.3), ours), "shift invariance tells them apart"

# %%
print(f"the published composition is not optimal on {behind['oscarmax, published']:.0%} of these rows")

# %% [markdown]
# ## 6. Sq-pnorm-max
#
# Is there something between sparsemax and the maximum without a penalty? The squared $p$-norm gives sparsemax for
# $p = 2$, and the maximum for $p \to 1$. The paper computes it by projected gradients, up to a tolerance. We solve
# the optimality conditions instead. As in section 2, the derivative
# $x_i - \gamma\, \lVert y\rVert_p^{2-p}\, y_i^{p-1}$ has one common value $\tau$ on the support. We write
# $w_i = \lVert y\rVert_p^{2-p}\, y_i^{p-1}$, which is then $(x_i - \tau)/\gamma$. With $q = p/(p-1)$ you find
# $\lVert w\rVert_q = \lVert y\rVert_p$, and so
#
# $$y = \lVert w\rVert_q^{2-q}\, w^{q-1}, \qquad w = (x - \tau)_+/\gamma, \qquad \tau:\; \sum_i y_i = 1. \tag{A5}$$
#
# The sum of the $y_i$ decreases in $\tau$, so Newton's method between two bounds finds $\tau$.

# %% tags=["check"]
exact = sq_pnorm_max(rows, p=1.5)
norm = torch.linalg.vector_norm(exact, 1.5, -1, keepdim=True)
level = rows - norm.sqrt() * exact.sqrt()  # the gradient of y . x - |y|^2 / 2 for p = 1.5
best = level.where(exact > 0, -torch.inf).amax(-1, keepdim=True)
assert (level.where(exact > 0, best) - best).abs().max() < 1e-9, "equal on the support"
assert (level <= best + 1e-9).all(), "and not larger elsewhere"
assert torch.allclose(sq_pnorm_max(rows, p=2.0), projected, atol=1e-12), "p = 2 is sparsemax"

# %% [markdown]
# ## 7. Entmax: between softmax and sparsemax
#
# Softmax never gives a weight of 0, and sparsemax gives many. Can we choose how many zeros we get? Peters, Niculae
# and Martins (2019) take $\Omega$ from the family of Tsallis entropies, which is the last row of section 1's table.
# As $\alpha \to 1$ it becomes $\sum_i y_i \ln y_i$, and the map becomes softmax. At $\alpha = 2$ it is
# $\frac12(\lVert y\rVert^2 - 1)$, and the map is sparsemax.
#
# Where a weight is positive, the derivative of $y \cdot x - \gamma\,\Omega(y)$ must be the same for all words. Divided
# by $\gamma$, it is $x_i/\gamma - y_i^{\alpha-1}/(\alpha-1) + 1/(\alpha(\alpha-1))$. The last number is the same for
# all words, so the rest is a constant, too, which we write as $u - 1/(\alpha-1)$. So we have $x_i/\gamma -
# y_i^{\alpha-1}/(\alpha-1) = u - 1/(\alpha-1)$ for these words, and we solve for $y_i$:
#
# $$\text{entmax}_\alpha(x) = \big(1 + (\alpha - 1)(x/\gamma - u)\big)_+^{1/(\alpha-1)}, \qquad u:\; \sum_i y_i = 1.
# \tag{A6}$$
#
# > In the paper, the expression in the bracket is $(\alpha-1)x - \tau$. With $u = (1+\tau)/(\alpha-1)$ the two maps
# > are the same. From our form you can see the limit at $\alpha = 1$. It is $e^{x/\gamma - u}$, which is softmax, and
# > $u$ is then the logarithm of the sum of all $e^{x_i/\gamma}$.
#
# How do we find $u$? The sum of the weights decreases in $u$ with slope $-\sum_i y_i^{2-\alpha}$, and for
# $\alpha \le 2$ it is convex. So Newton's method can start at the largest score, which is below the solution. From
# there it rises to the solution and never goes past it. The cell below prints the sums at each step.

# %%
scored = 2.0 * scores_of(4, 5)
u = scored.amax(-1, keepdim=True)
for number in range(6):
    base = (1 + 0.5 * (scored - u)).clamp(min=0)  # alpha = 1.5
    print(f"step {number}: the weights sum to", (base**2).sum(-1).numpy().round(6))
    u = u + ((base**2).sum(-1, keepdim=True) - 1) / base.sum(-1, keepdim=True)  # y^(2 - alpha) is the base here
by_hand = (1 + 0.5 * (scored - u)).clamp(min=0) ** 2

# %% tags=["check"]
assert torch.allclose(by_hand, entmax15(scored), atol=1e-12), "(A6), with alpha = 1.5"
assert torch.allclose(entmax(rows, alpha=2.0), projected, atol=1e-12), "alpha = 2 is sparsemax"
assert torch.allclose(entmax(rows, alpha=1 + 1e-9), softmax(rows), atol=1e-8), "alpha = 1 is the limit: softmax"
y = entmax(rows, alpha=1.3)
level = rows - y**0.3 / 0.3
best = level.where(y > 0, -torch.inf).amax(-1, keepdim=True)
assert (level.where(y > 0, best) - best).abs().max() < 1e-9 and (level <= best + 1e-9).all(), "optimal"

# %% tags=["figure"]
fig, (left, right) = figures.new_figure(ncols=2, size=(13, 4.6))
lines = {f"α = {alpha:g}": entmax(pairs, alpha=alpha)[:, 0] for alpha in (1, 1.25, 1.5, 2, 4)}
figures.draw_lines(t, lines, left, title="The larger α is, the smaller a lead is enough", xlabel="t",
                   ylabel="first weight of the scores (t, 0)")
alphas = np.linspace(1, 3, 41)
zeros = {f"γ = {gamma:g}": [(entmax(rows, gamma=gamma, alpha=alpha) == 0).double().mean().item()
                            for alpha in alphas.tolist()] for gamma in (0.5, 1.0, 2.0)}  # fmt: skip
figures.draw_lines(alphas, zeros, right, title="Both α and γ change the number of zeros", xlabel="α",
                   ylabel="share of weights that are 0")
figures.save_figure(fig, folder, "entmax")
figures.show(fig)

# %% [markdown]
# The first panel shows how $\alpha$ changes the curve. At $\alpha = 1$ it is the curve of softmax, which comes near 1
# but never reaches it. For $\alpha$ between 1 and 2 it is a smooth curve that reaches 1. At $\alpha = 2$ it is the
# straight line of sparsemax. At $\alpha = 4$ it is steepest in the middle, and its slope jumps to 0 where it reaches 0
# and 1. In the second panel, no weight is 0 at $\alpha = 1$, and the share of zeros never falls as $\alpha$ grows. A
# small $\gamma$ has the same effect on their number as a large $\alpha$. The two differ in the weights that remain,
# because $\alpha$ decides how these weights depend on the scores.
#
# We accept $\alpha$ from 1 to 4. The bracket in (A6) is a difference with an error of about $10^{-16}$, and a weight
# is its root of order $\alpha - 1$. Up to $\alpha = 2$ the root does not enlarge this error. At $\alpha = 4$ a weight
# near 0 can be wrong by $10^{-5}$, and beyond it the error grows quickly.
#
# We can also learn $\alpha$, because the map is differentiable in it. Let $s_i = y_i^{2-\alpha}$ on the support and 0
# elsewhere. We differentiate (A6). When a score or $\alpha$ changes, $u$ changes too, so that the sum of the
# weights stays 1. We get
#
# $$J = \tfrac1\gamma\Big(\operatorname{diag}(s) - \frac{s\,s^\top}{\sum_i s_i}\Big), \qquad
# \frac{\partial y}{\partial\alpha} = c - \frac{\sum_i c_i}{\sum_i s_i}\,s, \qquad
# c_i = \frac{y_i - y_i^{2-\alpha} - (\alpha-1)\,y_i\ln y_i}{(\alpha-1)^2}. \tag{A7}$$
#
# At $\alpha = 1$ we have $s = y$, and $J$ is the Jacobian of softmax. At $\alpha = 2$, $s$ is 1 on the support and 0
# elsewhere, and $J$ is that of sparsemax. You can train with these maps in `13_train_nli` and `15_train_seq2seq`, by
# `model=entmax alpha=1.3`, `model=entmax15` or `model=entmax learned_alpha=true` (Correia, Niculae and Martins 2019).

# %% tags=["check"]
assert all(line[0] == 0 and line == sorted(line) for line in zeros.values()), "a larger alpha, more zeros"
change, h = scores_of(p.num_samples, 6), 1e-4
for alpha in (1.2, 1.5, 1.8):
    at = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    mine = torch.autograd.grad((entmax(rows, alpha=at) * change).sum(), at)[0]
    up, down = ((entmax(rows, alpha=alpha + step) * change).sum() for step in (h, -h))
    assert abs(mine - (up - down) / (2 * h)) < 1e-2 + 1e-3 * abs(mine), f"(A7), alpha = {alpha}"

# %% [markdown]
# **Exercise 2** (predict, change, explain; 8 minutes). How far must the larger of two scores be ahead to get all the
# weight? *Predict* this lead at $\gamma = 1$ for $\alpha = 1.5$ and for $\alpha = 1.25$ (`leads`, a list of two
# numbers). *Change* the difference of the two scores, and try values near your numbers. *Explain* with (A6) why no
# lead is enough for softmax, and what $\gamma$ does.

# %% tags=["prediction"]
leads = [2.0, 4.0]

# %% tags=["solution"]
for alpha, lead in zip((1.5, 1.25), leads, strict=True):
    for factor in (0.99, 1.01):
        print(f"alpha = {alpha}, lead {factor * lead:.2f}:", entmax(torch.tensor([factor * lead, 0.0]), alpha=alpha))
# The larger score alone gets 1, so x - u = 0 for it. The base of the other is 1 - (alpha - 1) lead / gamma, which is 0
# at a lead of gamma / (alpha - 1). As alpha falls to 1, this lead grows without bound.

# %% tags=["check"]
for alpha, lead in zip((1.5, 1.25), leads, strict=True):
    below, above = (entmax(torch.tensor([factor * lead, 0.0]).double(), alpha=alpha) for factor in (0.999, 1.001))
    assert below[1] > 0, f"alpha = {alpha}: a lead of {0.999 * lead} is enough already"
    assert above[1] == 0, f"alpha = {alpha}: a lead of {1.001 * lead} is not enough"

# %% [markdown]
# ## 8. Three scores: pictures on the simplex
#
# With three scores we can still draw everything. We apply every map to the same random scores and draw the weights as
# points of a triangle. At a corner, one word has all the weight (red). On an edge, one word has none (orange). Where
# a map makes two weights equal, the points fall on a line, and where it makes all three equal, they fall on the
# centre.

# %% tags=["figure"]
cloud = 0.7 * scores_of(1500, 3)
fig, axes = figures.new_figure(ncols=3, nrows=2, size=(12, 8))
for ax, (name, y) in zip(axes.flat, all_mappings(cloud, lam=0.2).items(), strict=True):
    share = (y == 0).any(-1).double().mean()
    figures.draw_simplex(y, ax, title=f"{in_words(name)}:\n{share:.0%} have a weight of 0")
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
# ## 9. Backward: a few averages
#
# For training we need gradients. The Jacobian $J$ of each map is symmetric, because the map itself is a gradient. So
# the backward pass needs only the product $Jv$, which has a simple form for each map:
#
# $$J_{P_\Delta} v = \mathbf{1}_S \odot (v - \bar v_S), \qquad J_{TV} v = J_{\text{pooled}} v = \text{the mean of } v
# \text{ in each group}, \qquad J_p v = B^{-1}(v - c\,\mathbf 1)\;\text{on } S. \tag{A8}$$
#
# Here $S$ is the support, $\mathbf{1}_S$ is 1 on it and 0 elsewhere, and $\bar v_S$ is the mean over it. A group is a
# run (fusedmax) or a pool (oscarmax) of values that are equal *before* the projection. For fusedmax and oscarmax we
# chain the first two forms. The maps (A2) to (A4) take $x/\gamma$, so by the chain rule we also divide $Jv$ by
# $\gamma$. The last form is Proposition 1 of the paper, written on the support. In it, $B = \gamma\nabla^2\Omega$, and
# $c$ is chosen such that the result sums to 0. For the squared $p$-norm, $B$ is a diagonal matrix plus a matrix of rank
# one, and we can invert it in closed form.
#
# In the check below we compare these products with finite differences. In the picture you see the Jacobians at one row
# of eight scores. Each row of a panel is a weight, and each column is a score. Blue means that the weight grows with
# the score, red means that it falls, and grey is exactly 0.

# %% tags=["check"]
few = 0.8 * scores_of(200, 6)
for name, mapping in maps.items():
    direction, h = scores_of(200, 6), 1e-6
    for gamma in (1.0, 2.0):
        up, down = (mapping(few + shift * direction, gamma=gamma) for shift in (h, -h))
        v = few.clone().requires_grad_()
        mine = torch.autograd.grad((mapping(v, gamma=gamma) * direction).sum(), v)[0]  # J^T v, by (A8)
        off = ((up - down) / (2 * h) - mine).abs().amax(-1)  # from J v, by differences
        assert (off < 1e-5).double().mean() > 0.97, f"{name}, gamma {gamma}: (A8)"  # a few rows stand at a kink

# %% tags=["figure"]
one = torch.tensor([0.2, 0.9, 1.1, 1.0, -0.5, 0.7, 1.6, 0.1], dtype=torch.float64)
jacobians = {}
for name, mapping in maps.items():
    jacobian = torch.autograd.functional.jacobian(mapping, one)
    rank = torch.linalg.matrix_rank(jacobian, atol=1e-9).item()
    groups = {round(weight, 9) for weight in mapping(one).tolist() if weight > 0}
    assert rank == len(groups) - 1, f"{name}: {len(groups)} different weights"
    jacobians[f"{in_words(name)}: rank {rank}"] = jacobian
fig, axes = figures.new_figure(ncols=3, nrows=2, size=(12.5, 8.2))
figures.draw_jacobians(jacobians, axes, xlabel="score", ylabel="weight")
figures.save_figure(fig, folder, "jacobians")
figures.show(fig)

# %% [markdown]
# With softmax, you see that every score moves every weight. With a sparse map, only scores in the support move any
# weight, and words with equal weights move together. You can also read off the rank. It is the number of groups in
# the support minus one, because the weights sum to 1. A word that is in no larger group counts as a group of its own.
# In this example no scores are equal, so the groups are simply the different weights. Sparsemax also gives equal
# weights to equal scores. But these words do not form a group, because the weight of each of them still changes with
# its own score.

# %% [markdown]
# ## 10. Where fusedmax passes no gradient
#
# A map with groups may pass no gradient at all. For which scores does fusedmax give equal weights to all words, so
# that its Jacobian is exactly 0? Suppose that all values of $P_{TV}(x/\gamma)$ are equal. They are then equal to the
# mean $\bar x/\gamma$. If you add a small number to the first $k$ of them, only one difference of neighbours changes,
# which costs $\lambda$ per unit. The squares change by $\sum_{i \le k} (\bar x - x_i)/\gamma$ per unit. So this sum
# must not exceed $\lambda$ in size. Every other change is a combination of such changes, and so this condition, for
# all $k$, is also sufficient:
#
# $$\max_k \Big\lvert \sum_{i \le k} (x_i - \bar x)\Big\rvert \le \gamma\lambda. \tag{A9}$$
#
# In a freshly initialised network the scores are small. If they satisfy (A9), they get no gradient, so they stay small.
# We call such a row *dead*. In the picture you see how many rows are dead for scores of different sizes.

# %%
shares = {}
for lam in (0.01, 0.1, 1.0):
    shares[f"λ = {lam:g}"] = [in_dead_zone(scale * scores_of(400, 12), lam=lam).double().mean().item() for scale in
                                np.logspace(-3, 1, 25)]  # fmt: skip

# %% tags=["check"]
small = (0.01 * scores_of(300, 12)).requires_grad_()
flat = fusedmax(small, lam=0.1)
of_small = torch.autograd.grad((flat * scores_of(300, 12)).sum(), small)[0]
zone = in_dead_zone(small.detach(), lam=0.1)
assert zone.double().mean() > 0.9, "fresh scores are in the zone"
assert (of_small[zone].abs() < 1e-15).all() and (flat[zone] - 1 / 12).abs().max() < 1e-12, "(A9)"
for gamma in (0.5, 1.0, 2.0):
    away = 0.05 * gamma * scores_of(300, 12)
    uniform = (fusedmax(away, lam=0.1, gamma=gamma) - 1 / 12).abs().amax(-1) < 1e-12
    assert (uniform == in_dead_zone(away, lam=0.1, gamma=gamma)).all() and 0.05 < uniform.double().mean() < 0.95, "(A9)"

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, np.logspace(-3, 1, 25), shares,
                   title="Rows of small scores get uniform weights and no gradient",
                   xlabel="standard deviation of the scores (12 per row)", ylabel="share of dead rows", xscale="log",
                   size=(9, 4.4), save=folder / "dead_zone")

# %% [markdown]
# What can you do about it? You can let $\lambda$ rise from 0 during the first steps, or scale the scores up. In both
# cases, watch the share of dead rows. We try the first remedy on a toy problem. There are twelve noisy tokens, and a
# segment of three of them carries the label.

# %%
figures.show_source(attend_to_segments)

# %%
prices = {"λ = 0.5 from the start": lambda number: 0.5, "λ rises to 0.5": lambda number: 0.5 * min(1, number / 200)}
runs = {name: attend_to_segments(price, p.num_steps, p.learning_rate, generator) for name, price in prices.items()}

# %% tags=["check"]
if p.num_steps >= 400 and p.learning_rate == 0.05:
    stuck, woken = (run[-1][0] for run in runs.values())
    assert woken < 0.5 * stuck, "with a rising price the attention is found"
    assert runs["λ = 0.5 from the start"][0][1] == 1.0, "every row is dead at the start"
    at_final_price = [share_of_dead for _, share_of_dead in runs["λ rises to 0.5"]]
    assert at_final_price[0] == 1.0, "with the rising price, every row would be dead at 0.5 at first ..."
    assert at_final_price[20] < 0.05, "... but no longer when the price has risen to 0.05"

# %% tags=["figure"]
fig, (left, right) = figures.new_figure(ncols=2, size=(13, 4.2))
steps = np.arange(1, p.num_steps + 1)
figures.draw_lines(steps, {name: [loss for loss, _ in run] for name, run in runs.items()}, left,
                   title="With a price that rises, attention learns", xlabel="training step", ylabel="loss (nats)")
figures.draw_lines(steps, {name: [share for _, share in run] for name, run in runs.items()}, right,
                   title="Dead rows at the end: {:.0%} or {:.0%}".format(*(run[-1][1] for run in runs.values())),
                   xlabel="training step", ylabel="share of dead rows, at λ = 0.5")
figures.save_figure(fig, folder, "warm_up")
figures.show(fig)

# %% [markdown]
# With $\lambda = 0.5$ from the start, you see that every row stays dead. The loss falls all the same, because the model
# learns to read the mean of all tokens, but it remains far above 0. If $\lambda$ rises from 0, the rows have a gradient
# from the first step on, and the scores grow. In the second panel we ask which rows would be dead at the final price of
# 0.5. At first all of them would be. After some twenty steps hardly any row would be, although $\lambda$ has only risen
# to 0.05 by then. So when $\lambda$ reaches 0.5, the scores are already large enough, and the loss comes near 0.
#
# **Rows that settle too early.** A row can also lose its gradient in another way. A row that satisfies (A9) has one
# group, to which all words belong. A row whose whole weight is on one word has only one group, too. By the rank of
# section 9,
#
# $$J = 0 \iff \text{the support is a single group}. \tag{A10}$$
#
# There is one exception. Two neighbouring groups of fusedmax may have exactly the same weight. The map has a kink
# there, and $J$ is not defined. The function `has_zero_jacobian` reads the groups off the weights, so it takes the two
# for one. Autograd keeps them apart, so its gradient, which is the derivative on one side of the kink, is not 0. Such
# scores are rare, unless they are rounded.
#
# If a map has put all weight on a wrong word, no gradient reaches the scores of this row to correct it. For given
# scores, a larger $\gamma$ makes the weights more even, and fewer rows put all weight on one word. (For fusedmax, do
# not choose $\gamma$ too large. By (A9), more rows are then dead.) With softmax a row settles only if the other weights
# are too small for floating-point numbers. In training the scores change as well. The translation models log the share
# of such rows (`train_settled`), and `25_read_seq2seq` counts them in the first epoch. There many rows lose their
# gradient and get it back later. The cell below also prints a row in which one word occurs three times. Only oscarmax
# makes one group of equal scores that are not neighbours, so it alone has no gradient there.

# %%
flatness, wide = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0]), 2.0 * scores_of(400, 12)
prices = {"fusedmax": 0.1, "oscarmax": 0.01}
closed = {name: [has_zero_jacobian(mapping(wide, gamma=gamma), name, prices.get(name, 0)).double().mean().item()
                 for gamma in flatness.tolist()] for name, mapping in maps.items()}  # fmt: skip
tied = torch.tensor([1.0, -5.0, 1.0, 1.0], dtype=torch.float64)  # one word three times, for example
for name, mapping in maps.items():
    y = mapping(tied)
    without = has_zero_jacobian(y, name, prices.get(name, 0)).item()
    print(f"{in_words(name):12} {y.numpy().round(3)} zero Jacobian: {without}")

# %% tags=["check"]
both = torch.cat([wide, wide.round(), tied.repeat(1, 3)])  # without ties and with
for name, mapping in maps.items():
    v = both.clone().requires_grad_()
    y = mapping(v)
    slope = torch.autograd.grad((y * scores_of(*both.shape)).sum(), v)[0]
    assert ((slope.abs().amax(-1) < 1e-12) == has_zero_jacobian(y, name, prices.get(name, 0))).all(), f"{name}: (A10)"
    assert closed[name] == sorted(closed[name], reverse=True), f"{name}: the flatter, the fewer rows are settled"
assert closed["sparsemax"][2] > 0.2 > 0.02 > closed["sparsemax"][4] and max(closed["softmax"]) == 0

# %% tags=["figure"]
title = "Sparsemax settles {:.0%} of the rows at γ = 1 and {:.0%} at γ = 4".format(*closed["sparsemax"][2:5:2])
lines = {in_words(name): shares_of for name, shares_of in closed.items()}
fig, ax = figures.new_figure(size=(9, 4.4))
figures.draw_lines(flatness, lines, ax, title=title, xlabel="γ (scores of standard deviation 2, 12 per row)",
                   ylabel="share of rows without gradient", xscale="log", markers=True)
front = ax.lines[list(lines).index("sparsemax")]  # on two lines that are nearly the same, with hollow markers
front.set(zorder=3, markerfacecolor="none", markersize=12, markeredgewidth=2)
ax.legend(frameon=False, fontsize=12)
figures.save_figure(fig, folder, "settled")
figures.show(fig)

# %% [markdown]
# ## 11. Padding must have no influence
#
# Sentences in a batch have different lengths, so some positions are padding. Often their scores are set to $-\infty$ or
# $-10^9$ (below we take $-10^4$). If you use softmax, this is good enough. For fusedmax it is not. The jump from the
# last word to such a score adds to the total variation. So fusedmax makes the last words more like the padding. For
# oscarmax it happens to work, as you can check. In the form (A4), padding has the last ranks. It raises the price
# $\lambda (d - i)$ of all other words by the same constant, which changes nothing (section 1). In the published form,
# which sorts by $\lvert x\rvert$, padding has the first ranks, and the other words keep the prices that they had. In
# this package we *cut out* masked positions. Whatever stands there, you get the same weights as for the sentence
# without padding.

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
for name, mapping in maps.items():
    noise = padded.clone()
    noise[3:] = torch.nan
    assert torch.allclose(mapping(noise, mask)[:3], mapping(short), atol=1e-12), f"{name}: a mask is a slice"
assert (fusedmax(padded, lam=0.3)[:3] - fusedmax(short, lam=0.3)).abs().max() > 0.05, "-10^4 is no mask"
for as_published in (False, True):
    of_padded, of_short = (oscarmax(x, lam=0.3, published=as_published) for x in (padded, short))
    assert torch.allclose(of_padded[:3], of_short), "but for oscarmax it is"

# %% [markdown]
# ## 12. What they cost
#
# How much time does a sparse map take? We measure one pass forward and one pass backward over 512 rows of 64 scores.
# In the last column you find the time as a multiple of that of softmax. For more cases run `make bench`.

# %%
many, direction = torch.randn(512, 64, requires_grad=True), torch.randn(512, 64)
times = {}
for name, mapping in maps.items():
    durations = []
    for _ in range(6):
        start = time.perf_counter()
        mapping(many).backward(direction)
        durations.append(time.perf_counter() - start)
    times[name] = 1e3 * min(durations)
costs = pd.DataFrame({"milliseconds": times}).assign(multiple=lambda table: table["milliseconds"] / times["softmax"])
figures.show_table(costs.rename(in_words).rename(columns={"multiple": "times softmax"}), digits=2, index="map")

# %% [markdown]
# The authors of (A6) have written the package `entmax`. It has sparsemax, entmax15 and, by bisection, entmax for any
# $\alpha$. How do our maps compare with it? To measure the errors of both, we compute the weights in a third way, by
# a bisection in double precision that is written out below. (If you have not installed the package, the table shows
# this bisection in its place.)

# %%
def bisected(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """(A6) by bisection: u lies between the largest score and 1 / (alpha - 1) above it."""
    low = x.amax(-1, keepdim=True)
    high = low + 1 / (alpha - 1)
    for _ in range(60):
        u = (low + high) / 2
        total = (1 + (alpha - 1) * (x - u)).clamp(min=0).pow(1 / (alpha - 1)).sum(-1, keepdim=True)
        low, high = torch.where(total > 1, u, low), torch.where(total > 1, high, u)
    return (1 + (alpha - 1) * (x - u)).clamp(min=0).pow(1 / (alpha - 1))


def milliseconds(*ways) -> list[float]:
    """The fastest of several passes of each, forward and backward, in turns."""
    durations = []
    for number in range(12 * len(ways)):
        start = time.perf_counter()
        ways[number % len(ways)](many).backward(direction)
        durations.append(1e3 * (time.perf_counter() - start))
    return [min(durations[k :: len(ways)]) for k in range(len(ways))]


our_maps = {2.0: sparsemax, 1.5: entmax15, 1.3: functools.partial(entmax, alpha=1.3)}
theirs = {alpha: functools.partial(bisected, alpha=alpha) for alpha in our_maps}
beside = "bisection"
if importlib.util.find_spec("entmax"):
    package = importlib.import_module("entmax")
    theirs = {2.0: package.sparsemax, 1.5: package.entmax15, 1.3: functools.partial(package.entmax_bisect, alpha=1.3)}
    beside = "entmax"

comparison = []
for alpha, mapping in our_maps.items():
    with torch.no_grad():
        wanted = bisected(many.double(), alpha)
        errors = [(one(many).double() - wanted).abs().max().item() for one in (mapping, theirs[alpha])]
    times_of = milliseconds(mapping, theirs[alpha])
    comparison.append([f"entmax, α = {alpha}", *errors, *times_of, times_of[1] / times_of[0]])
columns = ["largest error, ours", f"largest error, {beside}", "ms, ours", f"ms, {beside}", "times as fast"]
comparison = pd.DataFrame(comparison, columns=["map", *columns])
shown = comparison.assign(**{name: comparison[name].map("{:.0e}".format) for name in columns[:2]})
figures.show_table(shown, digits=2)

# %% tags=["check"]
assert comparison["largest error, ours"].max() < 1e-6, "exact to single precision"

# %% [markdown]
# ## 13. Take the sliders
#
# In the picture below you see six scores and the weights that each map gives them. A red cross marks a weight that is
# exactly zero. In the explorer after it you can choose the scores yourself. Your browser computes the weights, so the
# explorer also works in the static book.

# %% tags=["figure"]
fig = figures.Picture(figsize=(15, 3.2))
some = torch.tensor([0.5, 1.5, 1.3, -0.4, 0.9, 0.8], dtype=torch.float64)
figures.draw_mappings(some, {in_words(name): y for name, y in all_mappings(some, lam=0.2).items()}, fig)

# %% tags=["interactive"]
explorer = explore_mappings(lam=0.2)
explorer

# %% tags=["check"]
assert explorer.scores == some.tolist() and explorer.lam == 0.2, "it starts at the scores of the picture"
assert "data-module" in explorer.as_html(), "a page without a kernel gets the whole explorer"

# %% [markdown]
# **Exercise 3** (predict, change, explain; 12 minutes). Use the sliders of section 13 with the scores `some`, and
# predict first.
# 1. When you raise λ (`lam`), fusedmax joins neighbours until two segments are left, and then one. *Predict* where the
#    last break is (`first_segment`, the number of words before it). *Change* λ until you see it. Which scores decide?
# 2. *Change* the places of two scores. Which maps only exchange the two weights, whichever scores you take
#    (`only_swap`, a set of names)?
# 3. *Explain* part 1 by (A9), and part 2 by whether each penalty depends on the places of words.

# %% tags=["prediction"]
first_segment = int((some - some.mean()).cumsum(0)[:-1].abs().argmax()) + 1

# %% tags=["solution"]
only_swap = {"softmax", "sparsemax", "entmax", "oscarmax", "sq_pnorm_max"}
swapped = some[[4, 1, 2, 3, 0, 5]]
for name, y in all_mappings(some, lam=0.2).items():
    only = torch.allclose(all_mappings(swapped, lam=0.2)[name], y[[4, 1, 2, 3, 0, 5]])
    print(f"{in_words(name):13} {'only swaps two weights' if only else 'changes more: order matters to it'}")
# 1. The break is where the partial sums of (A9) are largest, and not at the largest score. 2. Only the penalty of
# fusedmax names neighbours. Sums over all words or all pairs do not depend on where the words are.

# %% tags=["check"]
nearly = next(lam for lam in np.linspace(2, 0, 2001) if fusedmax(some, lam=lam).diff().abs().max() > 1e-9)
steps_of = fusedmax(some, lam=nearly).diff().abs()
assert (steps_of > 1e-9).sum() == 1, "two segments"
breaks = (steps_of > 1e-9).nonzero().flatten().tolist()
assert first_segment - 1 in breaks, f"1. at lam = {nearly:.3f} it does not break after {first_segment} words"
moves = [torch.randperm(6, generator=generator) for _ in range(20)]
blind = {name for name in maps if all(torch.allclose(all_mappings(some[move], lam=0.2)[name],
         all_mappings(some, lam=0.2)[name][move], atol=1e-6) for move in moves)}  # fmt: skip
assert only_swap <= set(maps), f"2. the names of the maps are {', '.join(maps)}"
assert only_swap <= blind, f"2. {len(only_swap - blind)} of `only_swap` changes more than two weights"
assert only_swap == blind, "2. `only_swap` is not complete"

# %% [markdown]
# ## Summary
#
# - Attention is the gradient of a regularised maximum (A1). The penalty decides which weights may be exactly 0 or
#   equal.
# - Sparsemax projects (A2). Fusedmax smooths first and then projects (A3). Oscarmax pools the *signed* scores and
#   then projects (A4). The published oscarmax is not the maximum, as you see when you add a constant to the scores.
# - With entmax (A6) you get softmax at $\alpha = 1$, sparsemax at $\alpha = 2$, and maps between them. We can learn
#   $\alpha$ (A7).
# - The backward passes are averages (A8). Where fusedmax is constant (A9) there is no gradient, so let its price rise
#   during training. A row whose support is a single group has no gradient either (A10).
#
# ## Next
#
# In `13_train_nli` you use these maps on pairs of sentences.
