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
# **You will** see what two numbers, $a$ and $b$, can make of a gate: closed, open, undecided, or a coin with
# two hard faces; then take the sliders and find out for yourself.
#
# **You will learn**
# - to read the density, the two masses and the cdf of HardKuma in one picture;
# - which $(a, b)$ give which regime, and where exactly the borders run;
# - in what a Kumaraswamy differs from the Beta distribution that it resembles;
# - how a draw moves with $a$ and $b$, and where it does not move at all;
# - why the value of a gate at test time *jumps* although its distribution changes smoothly.
#
# **You need** `01_kumaraswamy` and `02_hardkuma` (their formulas are used here, not derived again); no data,
# no GPU; 5 minutes, an hour with the exercises.

# %% tags=["parameters"]
a: float = 0.5  # first shape of the pictures that show one gate, in [0.01, 100]
b: float = 0.5  # second shape, in [0.01, 100]
left: float = -0.1  # lower end of the stretched support, in [-1, -0.01]
right: float = 1.1  # upper end of the stretched support, in [1, 2]
num_samples: int = 2000  # samples in the histograms
seed: int = 0  # of the samples

# %%
import torch
from torch.distributions import Beta

from rationale import figures
from rationale.distributions import HardKuma, Kumaraswamy
from rationale.explorers import explore_shapes
from rationale.explorers.shapes import describe_shape
from rationale.nn import decide
from rationale.runs import validated

# %%
p = validated(globals())
torch.set_default_dtype(torch.float64)  # pictures and checks with all digits

# %% [markdown]
# ## 1. One picture, three variables
#
# The gate is made in three steps, each a variable of its own:
#
# $$K \sim \mathrm{Kuma}(a, b), \qquad T = l + (r - l)\,K, \qquad H = \min(1, \max(0, T)). \tag{X1}$$
#
# Bastings et al. (2019, sec. 3) start from a distribution over the open interval (0, 1), stretch its support
# from l < 0 to r > 1, and collapse the mass below 0 to {0} and the mass above 1 to {1}.
#
# > A *mass* is a probability, a *density* is a probability per unit. They cannot share a scale, so the
# > picture has two: curves belong to the left one, the two lollipops to the right one. The shaded area of a
# > tail on the left scale *is* the height of its lollipop on the right one.

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
print(f"a sample is exactly 0 or exactly 1 in {100 * (1 - masses['P(0<H<1)']):.1f} % of all draws")

# %% [markdown]
# **Exercise 1** (predict, change, explain; 6 minutes). Let the stretch shrink, $l \to 0$ and $r \to 1$, with the same
# $a, b$. *Predict* which mass vanishes (`vanishing`, "P(0)", "P(1)", "both" or "neither"). *Change* the stretch:
# write `masses_of(reach)`, the pair P(0), P(1) of the gate of section 1 with $l$ = -reach and $r$ = 1 + reach, and
# look at 0.5, 0.1, 0.01. *Explain*: why is a support that is *exactly* (0, 1) of no use for selecting words?

# %% tags=["solution"]
vanishing = "both"


def masses_of(reach):
    shrunk = HardKuma(p.a, p.b, -reach, 1 + reach)
    return shrunk.prob_zero, shrunk.prob_one


for reach in (0.5, 0.1, 0.01, 0.001):
    print(f"left = {-reach:<6}: P(0) = {masses_of(reach)[0]:.4f}, P(1) = {masses_of(reach)[1]:.4f}")
# Both masses vanish: without tails nothing collapses, H becomes K, and no word is ever exactly unselected.

# %% tags=["check"]
for reach in (0.5, 0.1, 0.01):
    tail = torch.tensor(reach / (1 + 2 * reach))  # the share of the support that hangs over, on either side
    expected = gate.base.cdf(tail), 1 - gate.base.cdf(1 - tail)
    for name, mass, right_mass in zip(("P(0)", "P(1)"), masses_of(reach), expected, strict=True):
        assert abs(mass - right_mass) < 1e-12, f"reach {reach}: {name} is {right_mass:.4f}, not {mass:.4f}"
falls_to_nothing = [late < 0.01 * early for early, late in zip(masses_of(0.5), masses_of(1e-300), strict=True)]
named = {(True, True): "both", (True, False): "P(0)", (False, True): "P(1)", (False, False): "neither"}
assert vanishing == named[*map(bool, falls_to_nothing)], "`vanishing`: try a reach of 0.001 and of 0.00001"

# %% [markdown]
# ## 2. Four regimes of the shape
#
# What happens at the two ends of (0, 1) decides the regime. Near the ends $k^a$ and $1 - k^a \approx a(1-k)$
# give
#
# $$f_K(k) \simeq a\,b\;k^{\,a-1} \;\;(k \to 0), \qquad
# f_K(k) \simeq a^b\,b\;(1-k)^{\,b-1} \;\;(k \to 1). \tag{X2}$$
#
# So each letter guards one end: a pole at 0 if $a < 1$, a pole at 1 if $b < 1$. The paper (sec. 3) notes
# that the two shapes lead rather naturally from unimodal to bimodal configurations.
#
# > Four quadrants: U-shape ($a, b < 1$), falling ($a < 1 \le b$), rising ($b < 1 \le a$), one hump ($a, b >
# > 1$).

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
finding = "a pulls mass away from 0, b pulls mass away from 1"
fig, axes = figures.new_figure(5, 4, size=(15, 11), title=finding)
figures.draw_hardkuma_grid(shapes_a, shapes_b, p.left, p.right, axes)
fig

# %%
print("P(0)    ", *(f"a = {shape:<4}" for shape in shapes_a))
for shape, row in zip(shapes_b, gates.prob_zero.tolist(), strict=True):
    print(f"b = {shape} ", *(f"{mass:<8.3g}" for mass in row))
print(f"the most closed gate of the grid: P(0) = {gates.prob_zero.max():.3f}")
print(f"the most open gate of the grid:   P(1) = {gates.prob_one.max():.3f}")
print(f"beyond the grid, a = b = 100:     P(1) = {HardKuma(100, 100, p.left, p.right).prob_one:.3f}")

# %% [markdown]
# Along a row ($a$ grows) the mass at 0 only falls; down a column ($b$ grows) the mass at 1 only falls. Small
# $a$ *and* small $b$ (upper left) give nearly a coin: two masses and little between them. Both above 1
# (lower right) give one hump and hardly ever an exact 0 or 1; but this does not go on for ever: for $a = b
# \to \infty$ the hump itself creeps up to 1, and the gate opens.
#
# **Exercise 2** (predict, change, explain; 8 minutes). Both shapes small is "undecided", yet with $a = b$ the coin is
# not fair. *Predict* which face wins for $a = b = 0.05$ (`winner`, 0 or 1). *Change* $b$ until both faces are equally
# likely: `fair_b`, to six digits. *Explain* what the two letters guard, and why equal letters are no equal guards.

# %% tags=["solution"]
winner = 1
coin = HardKuma(0.05, 0.05)
print(f"a = b = 0.05: P(0) = {coin.prob_zero:.3f}, P(1) = {coin.prob_one:.3f}")
low, high = torch.tensor(1e-3), torch.tensor(10.0)
for _ in range(60):  # P(0) grows with b, P(1) falls: halve the interval in log b
    fair_b = (low * high).sqrt()
    coin = HardKuma(0.05, fair_b)
    low, high = (fair_b, high) if coin.prob_zero < coin.prob_one else (low, fair_b)
print(f"a fair coin needs b = {fair_b:.6f}: P(0) = {coin.prob_zero:.3f}, P(1) = {coin.prob_one:.3f}")
# a and b are exponents of different things: (1 - k^a)^b is what lies above k. A small a leaves k^a near 1 even at k_0,
# so 1 - k_0^a is small, but its power b = 0.05 is large again: b has the last word.

# %% tags=["check"]
tossed, fair = HardKuma(0.05, 0.05), HardKuma(torch.tensor(0.05), torch.as_tensor(fair_b))
assert winner == int(tossed.prob_one > tossed.prob_zero), "`winner`: compute both masses"
uneven = (fair.prob_zero - fair.prob_one).item()
assert abs(uneven) < 1e-5, f"with this `fair_b` P(0) is {abs(uneven):.5f} {'above' if uneven > 0 else 'below'} P(1)"

# %% [markdown]
# ## 3. Like a Beta, but no Beta
#
# Two families coincide where one shape is 1, and nowhere is the Kumaraswamy symmetric but for the uniform
# law:
#
# $$\mathrm{Kuma}(1, b) = \mathrm{Beta}(1, b), \quad \mathrm{Kuma}(a, 1) = \mathrm{Beta}(a, 1), \qquad
# f_K(k) = f_K(1-k) \;\forall k \iff a = b = 1. \tag{X3}$$
#
# The paper (sec. 3) calls the Kumaraswamy a close relative of the Beta distribution, for which we have
# stronger intuitions.
#
# > One of these intuitions fails. Symmetry asks the two ends of eq. (X2) to agree: equal powers, so $a = b$,
# > and equal factors, $ab = a^b b$, so $a^{\,b-1} = a^{\,a-1} = 1$, so $a = 1$. A symmetric Beta(a, a) has
# > no symmetric Kuma(a, a) beside it: its mean is not 1/2.

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
finding = "Kuma(2, 2) leans to the right"
figures.draw_lines(k, curves, ax, title=finding, xlabel="k", ylabel="density (per unit of k)")
fig

# %%
print(f"means: Beta(2, 2) {beta.mean:.4f}, Kuma(2, 2) {kuma.mean:.4f}")
print("largest |log f(k) - log f(1-k)| of Kuma(s, s), by s:")
print({s: round(size.item(), 3) for s, size in skew.items()})

# %% [markdown]
# For intuition a Beta can still stand beside any Kumaraswamy: the one with the same mean $m$ and the same variance $v$,
#
# $$\alpha = m\,n, \qquad \beta = (1 - m)\,n, \qquad n = \frac{m (1 - m)}{v} - 1 = \frac{\mathrm{E}[K (1 -
# K)]}{v}. \tag{X5}$$
#
# > A Beta has mean $\alpha / n$ and variance $m (1 - m) / (n + 1)$ with $n = \alpha + \beta$: solve for $n$. Since
# > $0 < K < 1$, $\mathrm{E}[K (1 - K)] > 0$ and so is $n$: there is such a Beta for *every* shape. The explorer below
# > shows it.

# %%
twins = {(s, t): (figures.matched_beta(s, t), Kumaraswamy(s, t)) for s in shapes_a for t in shapes_b}

# %% tags=["check"]
for (s, t), (twin, ours) in twins.items():  # both sides in float64; v is a difference, so it loses digits
    assert torch.isclose(twin.mean, ours.mean, rtol=1e-9), f"Kuma({s}, {t}): same mean"
    assert torch.isclose(twin.variance, ours.variance, rtol=1e-9), f"Kuma({s}, {t}): same variance"
for s in shapes_a:
    assert torch.isclose(twins[s, 1.0][0].concentration1, torch.tensor(s)), "(X3) again: the twin is Kuma(s, 1) itself"

# %% [markdown]
# The lean matters when a gate starts its life: equal raw outputs for $a$ and $b$ do not start it in the
# middle, but more open than closed.
#
# **Exercise 3** (predict, change, explain; 8 minutes). An untrained network gives about 0 for both outputs, and $a =
# b = \mathrm{softplus}(0) = \ln 2$. *Predict* which mass of such a gate is larger (`larger_mass`, "P(0)" or "P(1)").
# *Change* the raw output of $a$ alone until the gate starts fair: `fair_raw`, to four digits. *Explain* its sign.

# %% tags=["solution"]
larger_mass = "P(1)"
ln_two = torch.tensor(2.0).log()
low, high = torch.tensor(-5.0), torch.tensor(0.0)
for _ in range(60):
    fair_raw = (low + high) / 2
    fresh = HardKuma(torch.nn.functional.softplus(fair_raw), ln_two)
    low, high = (fair_raw, high) if fresh.prob_zero > fresh.prob_one else (low, fair_raw)
print(f"a raw output of {fair_raw:.4f}: P(0) = {fresh.prob_zero:.4f}, P(1) = {fresh.prob_one:.4f}")
# Equal shapes lean to 1, so a must be smaller, its raw output negative: a small a is what holds mass at 0.

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
# In training a gate is sampled. At test time one number is wanted, and the paper (sec. 5) takes the most
# probable of the three configurations {0}, {1} and (0, 1), the interval standing for the mean of the
# *underlying Kumaraswamy*:
#
# $$z = \begin{cases} \mathrm{E}[K] & \text{if } P(0<H<1) > \max\{P(0), P(1)\} \\
# 0 & \text{else if } P(0) > P(1)
# \\ 1 & \text{else.} \end{cases} \tag{X4}$$
#
# > The border of the region $z = 0$ is where P(0) equals the larger of the other two. Inside it lies
# > everything with P(0) ≥ 1/2, that is, with $k_0 = -l/(r-l)$, everything with $b \ge -\ln 2 / \ln(1 -
# > k_0^a)$; where P(1) is negligible this *is* the border.

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
figures.draw_decisions(fine_a, fine_b, values, ax, title="z jumps at the borders: 0, 1, and E[K] between")
fig

# %%
corner = (values == 0) & ~surely_zero
print(f"of all shapes drawn, z is 0 in {100 * (values == 0).double().mean():.0f} %, "
      f"1 in {100 * (values == 1).double().mean():.0f} %, between in {100 * inside.double().mean():.0f} %")
print(f"z = 0 although P(0) < 1/2: {100 * corner.double().mean():.1f} % (small a and b, where P(1) competes)")
print(f"where the interval wins, z lies between {values[inside].min():.3f} and {values[inside].max():.3f}")

# %% [markdown]
# The distribution changes smoothly with $(a, b)$, the decision does not: at a border $z$ jumps. Two gates
# that differ in nothing visible may therefore be "selected" and "not selected", and the share of words
# selected at test time is not the expected share $1 - P(0)$ that training controls.
#
# **Exercise 4** (predict, change, explain; 12 minutes). Walk along $a = 0.3$ and let $b$ grow from 0.1 to 10.
# *Predict* the decisions on the way: `sequence`, a list of "open" ($z = 1$), "between" and "closed" ($z = 0$).
# *Change* $b$ in small steps and find where the decision changes: `borders`, to three digits. *Explain* which masses
# are equal there.

# %% tags=["solution"]
sequence = ["open", "between", "closed"]
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
    assert [decided[0], decided[2]] == [before, after], f"around b = {border:.3f}: {decided[0]}, then {decided[2]}"
    middle, top = masses_there[:, 1].sort().values[1:]
    assert top - middle < 2e-3, f"at b = {border:.4f} the two largest masses differ by {top - middle:.4f}"
ends = decide(HardKuma(torch.tensor(0.3), torch.tensor([0.1, 10.0])), rule="argmax")
assert [sequence[0] == "open", sequence[-1] == "closed"] == [ends[0] == 1, ends[1] == 0], "the walk begins or ends so"

# %% [markdown]
# ## 5. How a draw moves
#
# Training draws $u \sim \mathrm{Uniform}(0, 1)$ and learns from how $h(u)$ moves with $a$ and $b$ at that fixed $u$:
#
# $$h(u) = \min(1, \max(0, t)), \quad t = l + (r - l)\,k, \quad k = \big(1 - (1 - u)^{1/b}\big)^{1/a}, \qquad
# \frac{\partial h}{\partial a} = -(r - l)\,\frac{k \ln k}{a}, \quad
# \frac{\partial h}{\partial b} = (r - l)\,\frac{k^{1-a} (1 - u)^{1/b} \ln (1 - u)}{a\,b^2}, \tag{X6}$$
#
# and both are *exactly* 0 where $t < 0$ or $t > 1$: a clipped draw teaches its gate nothing (`02_hardkuma`).

# %%
u = torch.linspace(0.001, 0.999, 999)
h, by_a, by_b = figures.slopes(p.a, p.b, p.left, p.right, u)
value = (1 - (1 - u) ** (1 / p.b)) ** (1 / p.a)
moving = (p.left + (p.right - p.left) * value > 0) & (p.left + (p.right - p.left) * value < 1)
hand_a = -(p.right - p.left) * value * value.log() / p.a
hand_b = (p.right - p.left) * value ** (1 - p.a) * (1 - u) ** (1 / p.b) * (1 - u).log() / (p.a * p.b**2)

# %% tags=["check"]
assert torch.allclose(by_a, hand_a * moving, rtol=1e-8, atol=1e-12), "autograd and (X6) agree, 0 where clipped"
assert torch.allclose(by_b, hand_b * moving, rtol=1e-8, atol=1e-12)
assert (by_a >= 0).all() and (by_b <= 0).all(), "a larger a raises every draw, a larger b lowers it"
print(f"{1 - moving.double().mean():.1%} of all draws are clipped and teach nothing")

# %% tags=["figure"]
fig, ax = figures.new_figure()
figures.draw_slopes(p.a, p.b, p.left, p.right, ax, title="a lifts the draws between the clips, b lowers them")
fig

# %% [markdown]
# ## 6. Take the sliders
#
# Everything of sections 1 to 5 in one picture: densities and masses, and beside them what you choose: samples, the cdf
# with its two jumps, the Beta of (X5), the slopes of (X6). First as a picture that stays when the notebook is read
# without a kernel; then with sliders. Arrow keys move the slider that has the focus.

# %% tags=["figure"]
fig = figures.Picture(figsize=(12.5, 4.3))
figures.draw_explorer(p.a, p.b, p.left, p.right, fig, num_samples=p.num_samples, seed=p.seed)

# %%
for name, number in describe_shape(p.a, p.b, p.left, p.right).items():
    print(f"{name:9} {number:.6g}")

# %% tags=["interactive"]
explorer = explore_shapes(p.a, p.b, p.left, p.right)
explorer

# %% tags=["check"]
before = explorer.picture.value
explorer.sliders["a"].value = 3.0
assert explorer.picture.value != before, "a slider that moves must change the picture"
explorer.sliders["a"].value = p.a
assert explorer.picture.value == before, "the same shape gives the same picture: samples are seeded"

# %% [markdown]
# **Exercise 5** (predict, change, explain; 15 minutes). At the sliders; write the prediction down first.
# 1. *Predict*: from the U-shape, only `a` goes up. Which mass falls (`falls`, "P(0)" or "P(1)"), and does the other
#    stay?
# 2. *Change* `a` and `b` to a gate with P(0) between 0.44 and 0.46 that is *not* decided to be 0: `undecided_shape`,
#    a pair. What beats P(0)?
# 3. *Predict*, for preset "mostly 1": narrow the stretch until the decision is no longer 1. Which mass has taken over
#    (`taken_over`, "P(0)" or "P(0<H<1)")? Then do it.
# 4. *Change* `a` and `b` to an entropy below 0.05 nats (`certain_shape`). *Explain* what such gates have in common.

# %% tags=["solution"]
falls = "P(0)"
undecided_shape = (0.2, 0.64)
taken_over = "P(0<H<1)"
certain_shape = (0.01, 10.0)
for shape in (undecided_shape, certain_shape):
    print(shape, {name: round(value, 3) for name, value in describe_shape(*shape).items()})
# 1. The other grows. 2. Two masses of less than a half: the larger of P(1) and P(0<H<1) wins. 3. Without overhang there
# is no P(1). 4. They are certain: all mass in one point, or in a narrow hump (a density's entropy may be below 0).

# %% tags=["check"]
moved = [describe_shape(shape, 0.5) for shape in (0.5, 1.0, 2.0)]
assert moved[0][falls] > moved[1][falls] > moved[2][falls], f"1. {falls} does not fall"
found = describe_shape(*undecided_shape)
assert 0.44 < found["P(0)"] < 0.46, f"2. P(0) is {found['P(0)']:.3f}"
assert found["decision"] > 0, "2. this gate is decided to be 0"
narrow = describe_shape(3.0, 0.2, -0.001, 1.001)
assert narrow[taken_over] == max(narrow[name] for name in ("P(0)", "P(1)", "P(0<H<1)")), f"3. not {taken_over}"
entropy = describe_shape(*certain_shape)["entropy"]
assert entropy < 0.05, f"4. the entropy is {entropy:.3f} nats"

# %% [markdown]
# ## Summary
#
# - One picture holds HardKuma: a density on one scale, two masses on another (X1).
# - $a$ guards the end at 0, $b$ the end at 1; below 1 each lets its end grow a pole (X2).
# - Kumaraswamy and Beta agree where one shape is 1; Kuma(s, s) is symmetric for s = 1 alone (X3).
# - The value at test time is piecewise: 0, 1, or E[K], with jumps between (X4).
# - Every Kumaraswamy has a Beta of its mean and variance (X5); draws move with both shapes, but for clipped ones (X6).
#
# ## Next
#
# `04_selecting_text`: one such gate a word, and a constraint on how many of them may open.
