# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Explore the shapes of HardKuma
#
# In `03_hardkuma` you derived a gate with two shapes, $a$ and $b$. A network will later compute these two numbers for
# each word. Which gates can it make with them? This notebook answers with pictures, and at its end you take the
# sliders yourself.
#
# **You will** see which gates two numbers can make. A gate can be nearly always closed, nearly always open, undecided
# between 0 and 1, or spread over the interval.
#
# **You will learn**
# - to read the density, the two masses and the cdf of HardKuma in one picture
# - which $(a, b)$ give which kind of gate, and where exactly the borders run
# - how a Kumaraswamy differs from the Beta distribution that it resembles
# - how a draw moves with $a$ and $b$, and where it does not move at all
# - why the value of a gate at test time *jumps* although its distribution changes smoothly.
#
# **You need** `02_kumaraswamy` and `03_hardkuma`, because we use their formulas and do not derive them again. You need
# no data and no GPU. The notebook runs in less than a minute, and with the exercises you will spend about an hour on
# it.

# %% tags=["parameters"]
a: float = 0.5  # first shape of the pictures that show one gate, in [0.01, 100]
b: float = 0.5  # second shape, in [0.01, 100]
left: float = -0.1  # lower end of the stretched support, in [-1, -0.01]
right: float = 1.1  # upper end of the stretched support, above 1 and at most 2
num_samples: int = 2000  # samples in the histograms
seed: int = 0  # of the samples

# %%
import math

import torch
from torch.distributions import Beta

from rationale import figures
from rationale.distributions import HardKuma, Kumaraswamy
from rationale.explorers import explore_shapes
from rationale.explorers.shapes import describe_shape
from rationale.nn import decide
from rationale.runs import validated
from rationale.runs.committed import reference_folder

# %%
p = validated(globals())
torch.set_default_dtype(torch.float64)  # pictures and checks with all digits

# %% [markdown]
# ## 1. One picture, three variables
#
# Recall how `03_hardkuma` makes a gate, by (H1) and (H2). There are three steps, and each gives a variable of its own:
#
# $$K \sim \mathrm{Kuma}(a, b), \qquad T = l + (r - l)\,K, \qquad H = \min(1, \max(0, T)).$$
#
# Bastings et al. (2019, sec. 3) start from a distribution over the open interval (0, 1). They stretch its support to
# $(l, r)$ with $l < 0$ and $r > 1$. Then they collapse the mass below 0 to {0} and the mass above 1 to {1}. In this
# notebook we write P(0) for $\pi_0 = P(H = 0)$ and P(1) for $\pi_1 = P(H = 1)$, as the pictures do.
#
# > A *mass* is a probability, and a *density* is a probability per unit. We cannot draw them on one scale, so the
# > picture has two. The curves belong to the left scale. The two dots on vertical lines are the masses, and they
# > belong to the right scale. If you measure the shaded area of a tail on the left scale, you get the height of its
# > dot on the right scale.
#
# Before you look at the picture, you can confirm the masses by sampling.

# %%
gate = HardKuma(p.a, p.b, p.left, p.right)
masses = {"P(0)": gate.prob_zero, "P(0<H<1)": gate.prob_interior, "P(1)": gate.prob_one}
uniform = torch.rand(200_000, generator=torch.Generator().manual_seed(p.seed))
stretched = p.left + (p.right - p.left) * gate.base.icdf(uniform)

# %% tags=["check"]
assert abs(sum(masses.values()) - 1) < 1e-12, "the three masses must sum to one"
# A share of n samples has standard deviation <= 1 / (2 sqrt(n)): five of them are allowed.
allowed = 5 * 0.5 / len(uniform) ** 0.5
assert abs((stretched <= 0).double().mean() - masses["P(0)"]) < allowed
assert abs((stretched >= 1).double().mean() - masses["P(1)"]) < allowed

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.8))
figures.draw_hardkuma(p.a, p.b, p.left, p.right, ax, title="The tails beyond 0 and 1 collapse onto 0 and 1")
fig

# %%
for name, mass in masses.items():
    print(f"{name:9} = {mass:.6f}")
print(f"a sample is exactly 0 or exactly 1 in {100 * (1 - masses['P(0<H<1)']):.0f} % of all draws")

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). Somebody tells you only two numbers about a gate on $(l, r)$,
# P(0) = 0.3 and P(1) = 0.2. *Predict* how many pairs $(a, b)$ have these two masses (`num_shapes`, a whole number, or
# `math.inf` if there are infinitely many). *Change* $a$ and $b$ until both masses are right to four digits
# (`found_shape`, a pair). *Explain* with (H4) what is left when you divide $\ln P(H \ne 0)$ by $\ln \pi_1$, and why
# this quotient answers the question for any two masses.

# %% tags=["prediction"]
num_shapes = 1

# %% tags=["solution"]
def quotient(shape_a):
    """ln P(H != 0) / ln P(H = 1), which does not depend on b."""
    one = HardKuma(shape_a, torch.tensor(1.0), p.left, p.right)
    return one.log_prob_nonzero / one.log_prob_one


low, high, wanted = torch.tensor(1e-3), torch.tensor(1e2), math.log(1 - 0.3) / math.log(0.2)
for _ in range(60):  # the quotient falls with a
    middle = (low * high).sqrt()
    low, high = (middle, high) if quotient(middle) > wanted else (low, middle)
found_shape = middle, math.log(0.2) / HardKuma(middle, torch.tensor(1.0), p.left, p.right).log_prob_one
print("shape: a = {:.4f}, b = {:.4f}".format(*found_shape))
# Both logarithms are b times something, so their quotient depends on a alone. As a grows, it falls from 1 to 0. So one
# a has the right quotient, and then one b gives the right masses. Any two masses with a sum below 1 belong to one gate.

# %% tags=["check"]
asked = HardKuma(*(torch.as_tensor(shape) for shape in found_shape), p.left, p.right)
for name, mass, given in (("P(0)", asked.prob_zero, 0.3), ("P(1)", asked.prob_one, 0.2)):
    assert abs(mass - given) < 5e-5, f"`found_shape` has {name} = {mass:.5f}, not {given}"
many_a = torch.logspace(-3, 2, 4001)
fitted_b = math.log(0.2) / HardKuma(many_a, 1.0, p.left, p.right).log_prob_one  # for each a the b that has P(1) = 0.2
above = HardKuma(many_a, fitted_b, p.left, p.right).prob_zero > 0.3
assert num_shapes == int((above.diff() != 0).sum()), "of the pairs with P(1) = 0.2, count those with P(0) = 0.3"

# %% [markdown]
# ## 2. Four regimes of the shape
#
# Which gates can you make? This depends on how the density behaves near 0 and near 1. Near 0 we have
# $1 - k^a \approx 1$, and near 1 we have $k^a \approx 1$ and $1 - k^a \approx a(1-k)$. We insert these into (K1). Then
# the density near each end is a power of the distance to this end:
#
# $$f_K(k) \simeq a\,b\;k^{\,a-1} \;\;(k \to 0), \qquad
# f_K(k) \simeq a^b\,b\;(1-k)^{\,b-1} \;\;(k \to 1). \tag{X1}$$
#
# So each shape controls one end. You get a pole at 0 if $a < 1$, and a pole at 1 if $b < 1$. The paper (sec. 3) notes
# that the two shapes lead rather naturally from unimodal to bimodal configurations.
#
# > This divides the plane of $(a, b)$ into four quadrants. If $a, b < 1$, the density has the shape of a U. If
# > $a < 1 \le b$, it falls, and if $b < 1 \le a$, it rises. If $a, b > 1$, it has one hump.
#
# In the grid of pictures below, find the four quadrants, and watch the dots that show the two masses.

# %%
shapes_a, shapes_b = (0.1, 0.5, 1.0, 2.0, 5.0), (0.1, 0.5, 1.0, 5.0)
grid_a, grid_b = torch.meshgrid(torch.tensor(shapes_a), torch.tensor(shapes_b), indexing="xy")
gates = HardKuma(grid_a, grid_b, p.left, p.right)  # [4, 5]: b down, a across
near = torch.tensor(1e-9)
at_zero = gates.base.log_prob(near) - (grid_a * grid_b).log() - (grid_a - 1) * near.log()
at_one = gates.base.log_prob(1 - near) - (grid_a**grid_b * grid_b).log() - (grid_b - 1) * near.log()

# %% tags=["check"]
# The next term of either expansion is of relative size near^a (b - 1): large only for a = 0.1.
assert (at_zero[grid_a >= 0.5].abs() < 1e-3).all(), "the density near 0 is a b k^(a-1)"
assert (at_one.abs() < 1e-6).all(), "the density near 1 is a^b b (1-k)^(b-1)"
total = gates.prob_zero + gates.prob_interior + gates.prob_one
assert ((total - 1).abs() < 1e-12).all(), "the masses of every gate of the grid sum to one"

# %% tags=["figure"]
finding = "The mass at 0 falls with a (to the right), the mass at 1 falls with b (downwards)"
fig, axes = figures.new_figure(5, 4, size=(15, 11), title=finding)
figures.draw_hardkuma_grid(shapes_a, shapes_b, p.left, p.right, axes)
fig

# %%
print(f"the most closed gate of the grid: P(0) = {gates.prob_zero.max():.3f}")
print(f"the most open gate of the grid:   P(1) = {gates.prob_one.max():.3f}")
print(f"beyond the grid, a = b = 100:     P(1) = {HardKuma(100, 100, p.left, p.right).prob_one:.3f}")

# %% [markdown]
# Go along a row, so that $a$ grows, and the mass at 0 always falls. Go down a column, so that $b$ grows, and the mass
# at 1 always falls. If you make both shapes small (upper left), you get nearly a coin with two masses and little
# between them. If both are above 1 (lower right), you get one hump, and an exact 0 or 1 is rare. But this changes again
# if both shapes grow much further. As you see in the last printed line, the hump of $a = b = 100$ has moved so close to
# 1 that the gate is open.
#
# **Exercise 2** (predict, change, explain; 8 minutes). If an exercise names no ends, it uses $(-0.1, 1.1)$, the ends of
# `HardKuma(a, b)`. If both shapes are small, the gate is undecided between 0 and 1. Yet with $a = b$ the two are not
# equally likely. *Predict* which of them is more likely for $a = b = 0.05$ (`winner`, 0 or 1). *Change* $b$ until both
# are equally likely (`fair_b`, to six digits). *Explain* which end each shape controls, and why equal shapes do not
# treat the two ends equally.

# %% tags=["prediction"]
winner = 1

# %% tags=["solution"]
coin = HardKuma(0.05, 0.05)
print(f"a = b = 0.05: P(0) = {coin.prob_zero:.3f}, P(1) = {coin.prob_one:.3f}")
low, high = torch.tensor(1e-3), torch.tensor(10.0)
for _ in range(60):  # P(0) grows with b, P(1) falls: halve the interval in log b
    fair_b = (low * high).sqrt()
    coin = HardKuma(0.05, fair_b)
    low, high = (fair_b, high) if coin.prob_zero < coin.prob_one else (low, fair_b)
print(f"a fair coin needs b = {fair_b:.6f}: P(0) = {coin.prob_zero:.3f}, P(1) = {coin.prob_one:.3f}")
# The shape a controls the end at 0 and b the end at 1, but both masses come from P(K > k) = (1 - k^a)^b. A small a
# leaves k^a near 1 even at k_0, so 1 - k^a is small at k_0 and at k_1. Its power b = 0.05 is large again at both. At
# k_1 this power is P(1), which is therefore large. At k_0 it is P(H != 0), so little is left for P(0).

# %% tags=["check"]
tossed, fair = HardKuma(0.05, 0.05), HardKuma(torch.tensor(0.05), torch.as_tensor(fair_b))
assert winner == int(tossed.prob_one > tossed.prob_zero), "`winner`: compute both masses"
uneven = (fair.prob_zero - fair.prob_one).item()
assert abs(uneven) < 1e-5, f"with this `fair_b` P(0) is {abs(uneven):.5f} {'above' if uneven > 0 else 'below'} P(1)"

# %% [markdown]
# ## 3. Similar to a Beta, but different
#
# You may have an intuition for the Beta distribution. How far can you trust it here? The two families coincide where
# one shape is 1. But no Kumaraswamy is symmetric, except for the uniform law:
#
# $$\mathrm{Kuma}(1, b) = \mathrm{Beta}(1, b), \quad \mathrm{Kuma}(a, 1) = \mathrm{Beta}(a, 1), \qquad
# f_K(k) = f_K(1-k) \;\forall k \iff a = b = 1. \tag{X2}$$
#
# The paper (sec. 3) calls the Kumaraswamy a close relative of the Beta distribution, and says that we have stronger
# intuitions for the Beta.
#
# > One of these intuitions fails. If a density is symmetric, the two ends of (X1) agree. Their powers must be equal, so
# > $a = b$. Their factors must be equal too, so $ab = a^b b$. This gives $a^{\,b-1} = a^{\,a-1} = 1$, so $a = 1$. A
# > symmetric Beta(a, a) therefore has no symmetric Kuma(a, a) as its counterpart. The mean of Kuma(2, 2), for example,
# > is 8/15 and not 1/2.
#
# We compare the two for $a = b = 2$.

# %%
k = torch.linspace(0.001, 0.999, 999)
same_b = [(Kumaraswamy(1.0, s).log_prob(k), Beta(1.0, s).log_prob(k)) for s in shapes_b]
same_a = [(Kumaraswamy(s, 1.0).log_prob(k), Beta(s, 1.0).log_prob(k)) for s in shapes_a]
skew = {s: (Kumaraswamy(s, s).log_prob(k) - Kumaraswamy(s, s).log_prob(1 - k)).abs().max() for s in shapes_a}
kuma, beta = Kumaraswamy(2.0, 2.0), Beta(2.0, 2.0)

# %% tags=["check"]
for ours, theirs in same_b + same_a:  # two formulas in float64: rounding alone may tell them apart
    assert torch.allclose(ours, theirs, atol=1e-9), "where one shape is 1, Kuma and Beta are one law"
assert skew[1.0] < 1e-12, "Kuma(1, 1) is uniform"
assert all(size > 0.1 for s, size in skew.items() if s != 1), "no other Kuma(s, s) here is symmetric"
assert abs(beta.mean - 0.5) < 1e-12 and abs(kuma.mean - 8 / 15) < 1e-12

# %% tags=["figure"]
fig, ax = figures.new_figure()
curves = {"Beta(2, 2)": beta.log_prob(k).exp(), "Kuma(2, 2)": kuma.log_prob(k).exp()}
finding = "Kuma(2, 2) has more mass above 1/2 than Beta(2, 2)"
figures.draw_lines(k, curves, ax, title=finding, xlabel="k", ylabel="density (per unit of k)")
fig

# %%
print(f"means: Beta(2, 2) {beta.mean:.4f}, Kuma(2, 2) {kuma.mean:.4f}")
print("largest |log f(k) - log f(1-k)| of Kuma(s, s):",
      ", ".join(f"{size:.3f} for s = {s:g}" for s, size in skew.items()))  # fmt: skip

# %% [markdown]
# You can still use a Beta as a guide for any Kumaraswamy. Take the Beta with the same mean $m$ and the same variance
# $v$,
#
# $$\alpha = m\,n, \qquad \beta = (1 - m)\,n, \qquad n = \frac{m (1 - m)}{v} - 1 = \frac{E[K (1 -
# K)]}{v}. \tag{X3}$$
#
# > A Beta has the mean $\alpha / n$ and the variance $m (1 - m) / (n + 1)$, where $n = \alpha + \beta$. We solve this
# > for $n$. Since $0 < K < 1$, we have $E[K (1 - K)] > 0$, and so $n > 0$. There is such a Beta for *every*
# > pair of shapes, and the explorer of section 6 shows it.

# %%
twins = {(s, t): (figures.matched_beta(s, t), Kumaraswamy(s, t)) for s in shapes_a for t in shapes_b}

# %% tags=["check"]
for (s, t), (twin, ours) in twins.items():  # both sides in float64; v is a difference, so it loses digits
    assert torch.isclose(twin.mean, ours.mean, rtol=1e-9), f"Kuma({s}, {t}): same mean"
    assert torch.isclose(twin.variance, ours.variance, rtol=1e-9), f"Kuma({s}, {t}): same variance"
for s in shapes_a:
    assert torch.isclose(twins[s, 1.0][0].concentration1, torch.tensor(s)), "(X2) again: the twin is Kuma(s, 1) itself"

# %% [markdown]
# The asymmetry of $a$ and $b$ matters at initialisation. A network computes two numbers for each word, which we call
# its *raw outputs*. Each goes through a softplus, so that both shapes are positive. (The package, and the explorer of
# section 6, add $10^{-3}$, which we leave out in this section.) If the raw outputs are equal, then
# $a = b$, and you know from exercise 2 that such a gate need not be 0 and 1 equally often. In exercise 3 you find out
# what this means for an untrained network.
#
# **Exercise 3** (predict, change, explain; 8 minutes). An untrained network gives about 0 for both outputs, and
# $a = b = \mathrm{softplus}(0) = \ln 2$. *Predict* which mass of such a gate is larger (`larger_mass`, "P(0)" or
# "P(1)"). *Change* the raw output of $a$ alone until both masses are equal (`fair_raw`, to four digits). *Explain* the
# sign of this raw output.

# %% tags=["prediction"]
larger_mass = "P(1)"

# %% tags=["solution"]
ln_two = torch.tensor(2.0).log()
low, high = torch.tensor(-5.0), torch.tensor(0.0)
for _ in range(60):
    fair_raw = (low + high) / 2
    fresh = HardKuma(torch.nn.functional.softplus(fair_raw), ln_two)
    low, high = (fair_raw, high) if fresh.prob_zero > fresh.prob_one else (low, fair_raw)
print(f"a raw output of {fair_raw:.4f}: P(0) = {fresh.prob_zero:.4f}, P(1) = {fresh.prob_one:.4f}")
# Equal shapes give more mass at 1. A smaller a gives more mass at 0, so the raw output of a must be negative.

# %% tags=["check"]
ln_2 = torch.tensor(2.0).log()
untrained = HardKuma(ln_2, ln_2)
assert (larger_mass == "P(1)") == bool(untrained.prob_one > untrained.prob_zero), "`larger_mass`: compute both"
assert larger_mass in ("P(0)", "P(1)"), '`larger_mass` is "P(0)" or "P(1)"'
started = HardKuma(torch.as_tensor(fair_raw).exp().log1p(), ln_2)
uneven = (started.prob_zero - started.prob_one).item()
assert abs(uneven) < 1e-4, f"with this `fair_raw` P(0) is {abs(uneven):.4f} {'above' if uneven > 0 else 'below'} P(1)"

# %% [markdown]
# ## 4. One number at test time
#
# When we train, we sample a gate. At test time we want one number. The rule of the paper (sec. 5) is (H9). If P(0) is
# the largest of the three masses, the number is 0, and if P(1) is the largest, it is 1. If P(0 < H < 1) is the largest,
# the number is the mean of the *underlying Kumaraswamy*, $E[K]$. For which shapes $(a, b)$ do we get which of
# the three?
#
# > You find the border of the region $z = 0$ at those shapes for which P(0) equals the larger of the other two masses.
# > If P(0) ≥ 1/2, then P(0) is certainly the largest. With $k_0 = -l/(r-l)$, the condition P(0) ≥ 1/2 says that
# > $b \ge -\ln 2 / \ln(1 - k_0^a)$. How far is the border from this curve? At the border, P(0) is equal to one of the
# > other two masses. If the remaining one is $m$, then P(0) = $(1 - m)/2$. So the smaller this remaining mass is, the
# > nearer the border is to the curve.

# %%
fine_a, fine_b = torch.logspace(-2, 2, 161), torch.logspace(-2, 2, 161)
field = HardKuma(fine_a, fine_b[:, None], p.left, p.right)  # [161, 161]: b down, a across
values = decide(field, rule="argmax")
k_zero = -p.left / (p.right - p.left)
surely_zero = fine_b[:, None] >= -torch.log(torch.tensor(2.0)) / torch.log1p(-(k_zero**fine_a))

# %% tags=["check"]
rivals = torch.stack([field.prob_zero, field.prob_one, field.prob_interior])
assert ((values == 0) == (rivals.argmax(0) == 0)).all(), "z = 0 where P(0) is the largest"
assert ((values == 1) == (rivals.argmax(0) == 1)).all(), "z = 1 where P(1) is the largest"
inside = (values > 0) & (values < 1)
assert torch.equal(values[inside], field.base.mean[inside]), "inside, z is E[K]: not E[T], not E[H]"
assert (values[surely_zero] == 0).all(), "P(0) >= 1/2 is enough for z = 0"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 5.5))
figures.draw_decisions(fine_a, fine_b, values, ax, title="The value z jumps at the borders between 0, 1 and E[K]")
fig

# %%
corner = (values == 0) & ~surely_zero
print(f"of all shapes drawn, z is 0 in {100 * (values == 0).double().mean():.0f} %, "
      f"1 in {100 * (values == 1).double().mean():.0f} %, between in {100 * inside.double().mean():.0f} %")
print(f"z = 0 although P(0) < 1/2: {100 * corner.double().mean():.1f} % (small a and b)")
print(f"where the interval wins, z lies between {values[inside].min():.3f} and {values[inside].max():.3f}")

# %% [markdown]
# In the picture, the colour is the decision $z$, and each line, white or black, joins shapes with the same $z$. The
# distribution changes smoothly with $(a, b)$, but the decision jumps at each border. You may have two gates whose
# densities look the same, and yet one is "selected" and the other is "not selected". For the same reason, the share of
# words that is selected at test time is not the expected share $1 - P(0)$ that training controls.
#
# **Exercise 4** (predict, change, explain; 12 minutes). Take $a = 0.3$ and let $b$ grow from 0.1 to 10. *Predict* the
# decisions that you meet in this order (`sequence`, a list of "open" for $z = 1$, "between" and "closed" for $z = 0$).
# *Change* $b$ in small steps and find where the decision changes (`borders`, to three digits). *Explain* which masses
# are equal there.

# %% tags=["prediction"]
sequence = ["open", "between", "closed"]

# %% tags=["solution"]
walk_b = torch.logspace(-1, 1, 20001)
steps = decide(HardKuma(torch.tensor(0.3), walk_b), rule="argmax")
kinds = (steps == 1) * 2 + ((steps > 0) & (steps < 1)) * 1  # 0 closed, 1 between, 2 open
borders = [walk_b[i].item() for i in (kinds.diff() != 0).nonzero().flatten()]
print("borders:", [round(border, 4) for border in borders])
# Open, between, closed: first P(1) = P(0<H<1), then P(0<H<1) = P(0).

# %% tags=["check"]
for border, before, after in zip(borders, sequence[:-1], sequence[1:], strict=True):
    near_border = HardKuma(torch.tensor(0.3), border * torch.tensor([0.99, 1.0, 1.01]))
    masses_there = torch.stack([near_border.prob_zero, near_border.prob_interior, near_border.prob_one])
    decided = [("closed", "between", "open")[k] for k in masses_there.argmax(0)]
    changes = [decided[0], decided[2]] == [before, after]
    assert changes, f"at b = {border:.3f} the decision does not change from {before} to {after}"
    middle, top = masses_there[:, 1].sort().values[1:]
    assert top - middle < 3e-3, f"at b = {border:.4f} the two largest masses differ by {top - middle:.4f}"
assert sequence[0] == "open", f"`sequence` begins with {sequence[0]}, but at b = 0.1 the gate is open"
assert sequence[-1] == "closed", f"`sequence` ends with {sequence[-1]}, but at b = 10 the gate is closed"
ends = decide(HardKuma(torch.tensor(0.3), torch.tensor([0.1, 10.0])), rule="argmax")
assert ends.tolist() == [1, 0], "open at b = 0.1, closed at b = 10"

# %% [markdown]
# ## 5. How a draw moves
#
# When we train, we draw $u \sim \mathrm{Uniform}(0, 1)$. Then we need to know how the sample $h(u)$ moves with $a$ and
# $b$ while $u$ is fixed. You derived this in section 5 of `03_hardkuma`. With $k$ written out, (H6) says
#
# $$h(u) = \min(1, \max(0, t)), \quad t = l + (r - l)\,k, \quad k = \big(1 - (1 - u)^{1/b}\big)^{1/a},$$
#
# and where $0 < t < 1$, its slopes are
#
# $$\frac{\partial h}{\partial a} = -(r - l)\,\frac{k \ln k}{a}, \quad
# \frac{\partial h}{\partial b} = (r - l)\,\frac{k^{1-a} (1 - u)^{1/b} \ln (1 - u)}{a\,b^2}.$$
#
# Where $t < 0$ or $t > 1$, both derivatives are *exactly* 0. A draw that is clipped gives its gate no gradient. In the
# picture below, these draws lie in the grey parts.

# %%
u = torch.linspace(0.001, 0.999, 999)
h, by_a, by_b = figures.slopes(p.a, p.b, p.left, p.right, u)
value = (1 - (1 - u) ** (1 / p.b)) ** (1 / p.a)
moving = (p.left + (p.right - p.left) * value > 0) & (p.left + (p.right - p.left) * value < 1)
hand_a = -(p.right - p.left) * value * value.log() / p.a
hand_b = (p.right - p.left) * value ** (1 - p.a) * (1 - u) ** (1 / p.b) * (1 - u).log() / (p.a * p.b**2)

# %% tags=["check"]
for by_autograd, by_hand in ((by_a, hand_a), (by_b, hand_b)):
    same = torch.allclose(by_autograd, by_hand.where(moving, 0.0), rtol=1e-8, atol=1e-12)
    assert same, "autograd and (H6) agree, 0 where clipped"
assert (by_a >= 0).all() and (by_b <= 0).all(), "a larger a raises every draw, a larger b lowers it"
print(f"{100 * (1 - moving.double().mean()):.0f} % of all draws are clipped and have no gradient")

# %% tags=["figure"]
fig, ax = figures.new_figure()
finding = "Where a draw is not clipped, a larger a raises it and a larger b lowers it"
figures.draw_slopes(p.a, p.b, p.left, p.right, ax, title=finding)
fig

# %% [markdown]
# ## 6. Take the sliders
#
# Now we put sections 1 to 5 together. In the picture below you see one gate three times, as a density with its two
# masses, as a cdf with its two jumps, and as a histogram of samples.
#
# Below it stands the explorer. It also works in the static book, because your browser computes everything. On the map
# of $(a, b)$ you can drag a point, with the mouse, a finger or the arrow keys. The sliders `raw a` and `raw b` are
# the outputs of a network, $a = 10^{-3} + \mathrm{softplus}(\text{raw } a)$. The slider `u` moves one draw, and the
# picture beside the density shows how this draw travels from $u$ to $K$, to $T$ and to $H$. With the menu `beside`
# you can see the cdf, the Beta of (X3) or the derivatives (H6) in its place. With a second gate you can compare two
# shapes.
#
# The dots on the map are the gates of a trained model. `10_first_rationale` has saved them after each epoch, for the
# words of a few dev reviews. Move the slider `epoch` and watch where they go. Most of them end where the decision of
# section 4 is $z = 0$, and some of these gates belong to words of the gold rationale. In each review, only the gates of
# one word or of a short phrase end where $z$ is not 0. With the slider `word`, or with a click on a word, you look at
# the gate of that word.

# %% tags=["figure"]
fig = figures.Picture(figsize=(12.5, 4.3))
figures.draw_explorer(p.a, p.b, p.left, p.right, fig, num_samples=p.num_samples, seed=p.seed)

# %%
for name, number in describe_shape(p.a, p.b, p.left, p.right).items():
    print(f"{name:9} {number:.6g}")

# %% tags=["interactive"]
explorer = explore_shapes(p.a, p.b, p.left, p.right, run=reference_folder())
explorer

# %% tags=["check"]
assert (explorer.a, explorer.b, explorer.left, explorer.right) == (p.a, p.b, p.left, p.right), "it starts at our gate"
assert "data-module" in explorer.as_html(), "a page without a kernel gets the whole explorer"
last, closed_gold = explorer.epochs[-1], 0
for review, a_of_words, b_of_words in zip(explorer.texts, last["a"], last["b"], strict=True):
    decided = decide(HardKuma(torch.tensor(a_of_words), torch.tensor(b_of_words), *explorer.support), rule="argmax")
    assert 1 <= (decided != 0).sum() <= 5 < len(decided) / 2, "a word or a short phrase of each review is selected"
    closed_gold += ((decided == 0) & torch.tensor(review["gold"]).bool()).sum()
assert closed_gold > 0, "some words of the gold rationale are not selected"

# %% [markdown]
# **Exercise 5** (predict, change, explain; 15 minutes). Use the sliders of section 6, and write each prediction down
# before you move them.
# 1. *Predict* what happens if you start from the U-shape and raise only `a`. Which mass falls (`falls`, "P(0)" or
#    "P(1)")? Does the other mass stay the same?
# 2. *Change* `a` and `b` to a gate with P(0) between 0.44 and 0.46 that is *not* decided to be 0 (`undecided_shape`, a
#    pair). Which mass is larger than P(0)?
# 3. *Predict* what happens if you choose the preset "mostly 1" and narrow the stretch until the decision changes. Which
#    mass is now the largest (`taken_over`, "P(0)" or "P(0<H<1)")? Then do it.
# 4. *Change* `a` and `b` until the entropy is below 0.05 nats, once with more than 95 % of the probability at 0 or at 1
#    (`certain_shape`), and once with more than 90 % of it between them (`spread_shape`). *Explain* why the second gate
#    is not certain at all.

# %% tags=["prediction"]
falls = "P(0)"
taken_over = "P(0<H<1)"

# %% tags=["solution"]
undecided_shape = (0.2, 0.64)
certain_shape, spread_shape = (0.01, 10.0), (2.2, 2.6)
for shape in (undecided_shape, certain_shape, spread_shape):
    print(shape, {name: round(value, 3) for name, value in describe_shape(*shape).items()})
# 1. The other grows. 2. One of P(1) and P(0<H<1) is larger than P(0), although all three are below a half. 3. If the
# stretch hardly reaches beyond 1, P(1) is nearly 0. 4. If nearly all mass is at one point, the gate is certain, and
# its entropy is near 0. If nearly all mass is spread over (0, 1), the entropy is near 0 as well, because a uniform
# density on (0, 1) has the entropy 0. So a low value of (H10) alone does not show that a gate is certain.

# %% tags=["check"]
moved = [describe_shape(shape, 0.5) for shape in (0.5, 1.0, 2.0)]
assert moved[0][falls] > moved[1][falls] > moved[2][falls], f"1. {falls} does not fall"
found = describe_shape(*undecided_shape)
assert 0.44 < found["P(0)"] < 0.46, f"2. P(0) is {found['P(0)']:.3f}"
assert found["decision"] > 0, "2. this gate is decided to be 0"
narrow = describe_shape(3.0, 0.2, -0.001, 1.001)
assert narrow[taken_over] == max(narrow[name] for name in ("P(0)", "P(1)", "P(0<H<1)")), f"3. not {taken_over}"
certain, spread = describe_shape(*certain_shape), describe_shape(*spread_shape)
for entropy in (certain["entropy"], spread["entropy"]):
    assert entropy < 0.05, f"4. the entropy is {entropy:.3f} nats"
assert max(certain["P(0)"], certain["P(1)"]) > 0.95, "4. `certain_shape` is not certain"
assert spread["P(0<H<1)"] > 0.9, "4. `spread_shape` has too much mass at 0 and 1"

# %% [markdown]
# ## Summary
#
# - You can read a HardKuma in one picture, with its density on one scale and its two masses on another (H1, H2).
# - The shape $a$ controls the end at 0, and $b$ controls the end at 1. If a shape is below 1, you find a pole at its
#   end (X1).
# - In exercise 1, you find out how many pairs of shapes have two given masses at 0 and 1.
# - Kumaraswamy and Beta agree where one shape is 1. Kuma(s, s) is symmetric only for s = 1 (X2).
# - For every Kumaraswamy we can find a Beta with the same mean and variance (X3).
# - The value at test time is 0, 1 or E[K], and it jumps between them (H9).
# - A draw moves with both shapes, unless it is clipped (H6).
#
# ## Next
#
# In `05_count_words` we put one such gate on each word. In `06_hold_a_rate` we constrain how many of them may open.
