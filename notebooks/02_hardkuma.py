# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Derive the hard Kumaraswamy
#
# **You will** turn the Kumaraswamy into a gate that is exactly 0, exactly 1, or anything between, and
# that can be trained through its own samples.
#
# **You will learn**
# - to fold the overhang of a stretched distribution into two point masses, and to keep masses and density
#   apart;
# - to write all masses so that neither they nor their gradients vanish in float32;
# - what flows through a rectified sample, what does not, and why the selection rate needs a closed form;
# - to compute E[H] in two ways, and why it is not E[K];
# - entropy, divergence and the decision at test time; and how the Hard Concrete gate compares.
#
# **You need** `01_kumaraswamy`; no data, no GPU; 5 minutes to run and read, 60 with pencil and paper.

# %% tags=["parameters"]
a: float = 0.5  # first shape of the worked example
b: float = 0.5  # second shape of the worked example
left: float = -0.1  # lower end of the stretched support
right: float = 1.1  # upper end of the stretched support
num_samples: int = 200_000  # random draws where a formula is checked by sampling
seed: int = 0  # of the draws

# %%
import math

import torch
from torch.distributions import kl_divergence

from rationale import figures
from rationale.distributions import HardConcrete, HardKuma
from rationale.nn import decide
from rationale.runs import validated

# %%
p = validated(globals())
torch.manual_seed(p.seed)
torch.set_default_dtype(torch.float64)  # float32 only where it is the subject
gate = HardKuma(p.a, p.b, p.left, p.right)
width = p.right - p.left
cells = (torch.arange(200_000) + 0.5) / 200_000  # midpoints: the mean over them is an integral over (0, 1)

# %% [markdown]
# ## 1. Stretch
#
# Let $K \sim \mathrm{Kuma}(a,b)$ and $l \le 0$, $r \ge 1$. The affine image of $K$ lives on $(l, r)$:
#
# $$T = l+(r-l)K, \qquad F_T(t) = F_K\!\left(\frac{t-l}{r-l}\right), \qquad
# f_T(t) = \frac{1}{r-l}\,f_K\!\left(\frac{t-l}{r-l}\right). \tag{H1}$$
#
# Bastings et al. (2019, sec. 3) take $l=-0.1$, $r=1.1$ (in the figure of the paper the label of $l$ has
# lost its minus sign).
#
# > Change of variables with a constant slope: $dk/dt = 1/(r-l)$. The density becomes wider *and lower*;
# > forgetting the factor is the commonest slip here, and costs $\ln(r-l)$ in every log density.

# %%
t = p.left + width * cells
stretched_density = gate.base.log_prob((t - p.left) / width).exp() / width
stretched_draws = p.left + width * gate.base.sample((p.num_samples,))
half_below = (stretched_draws < 0.5).double().mean()
half_cdf = gate.base.cdf((torch.tensor(0.5) - p.left) / width)

# %% tags=["check"]
# midpoint rule: poles at the ends, as for a, b < 1, cost about the square root of a cell, 0.002
assert abs(stretched_density.mean() * width - 1) < 5e-3, "f_T integrates to 1 over (left, right)"
assert abs(half_below - half_cdf) < 5 * 0.5 / math.sqrt(p.num_samples), "F_T(1/2), five standard errors"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.8))
figures.draw_hardkuma(p.a, p.b, p.left, p.right, ax, title="Stretching pushes both ends out of [0, 1]")
fig

# %%
print(f"P(T < 1/2): cdf {half_cdf:.4f}, share of draws {half_below:.4f}")
print(f"the density falls by the factor {1 / width:.4f}")

# %% [markdown]
# ## 2. Rectify
#
# Clip what hangs over:
#
# $$H = \min(1, \max(0, T)), \qquad k_0 = \frac{-l}{r-l}, \quad k_1 = \frac{1-l}{r-l}. \tag{H2}$$
#
# All of $T \le 0$, that is $K \le k_0$, becomes the single value 0; all of $T \ge 1$ becomes 1:
#
# $$\pi_0 = P(H=0) = 1-(1-k_0^a)^b, \qquad \pi_1 = P(H=1) = (1-k_1^a)^b, \qquad
# \pi_c = P(0<H<1) = (1-k_0^a)^b-(1-k_1^a)^b. \tag{H3}$$
#
# The three masses are closed forms because the base has a closed-form cdf; that is why the Kumaraswamy is
# used here and not the Beta (Bastings et al., sec. 3).
#
# > A *mass* is a probability, $\pi_0 \in [0,1]$; a *density* is a probability per unit and may exceed 1.
# > In the picture above the curve belongs to the left scale and the two lollipops to the right one.

# %%
k0, k1 = -p.left / width, (1 - p.left) / width
by_hand = {"P(H = 0)": 1 - (1 - k0**p.a) ** p.b, "P(H = 1)": (1 - k1**p.a) ** p.b}
by_hand["P(0 < H < 1)"] = 1 - sum(by_hand.values())
draws = gate.sample((p.num_samples,))
shares = {"P(H = 0)": draws == 0, "P(H = 1)": draws == 1, "P(0 < H < 1)": (draws > 0) & (draws < 1)}
masses = {"P(H = 0)": gate.prob_zero, "P(H = 1)": gate.prob_one, "P(0 < H < 1)": gate.prob_interior}

# %% tags=["check"]
for name, mass in masses.items():
    assert abs(by_hand[name] - mass) < 1e-12, f"eq. (H3), {name}"
    share = shares[name].double().mean()
    assert abs(share - mass) < 5 * 0.5 / math.sqrt(p.num_samples), f"share of draws, {name}"
assert abs(sum(masses.values()) - 1) < 1e-14

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
figures.draw_histogram_vs_density(draws, gate, ax, title="Draws are exactly 0 and 1 as often as (H3) says")
fig

# %%
for name, mass in masses.items():
    print(f"{name:13} closed form {mass:.6f}   share of draws {shares[name].double().mean():.6f}")

# %% [markdown]
# **Exercise 1** (predict, change, explain; 6 minutes). With $a = b = 1$ the base is uniform. *Predict* $\pi_0$ from
# $l$ and $r$ alone: a function `uniform_mass(left, right)`. *Change* the support to one for which half of all gates
# are exactly 0 and none is exactly 1: `half_closed_ends`, a pair $(l, r)$. *Explain* what a mass is when the density
# is flat.

# %% tags=["solution"]
def uniform_mass(left, right):
    return -left / (right - left)


half_closed_ends = (-1.0, 1.0)
# For a uniform base a mass is a length: the overhang -l as a share of r - l.

# %% tags=["check"]
for ends in ((-0.1, 1.1), (-0.5, 1.0), (-0.01, 2.0)):
    mass = HardKuma(1.0, 1.0, *ends).prob_zero
    assert abs(mass - uniform_mass(*ends)) < 1e-12, f"`uniform_mass` of {ends}: the gate has {mass:.4f}"
half_closed = HardKuma(1.0, 1.0, *half_closed_ends)
assert abs(half_closed.prob_zero - 0.5) < 1e-12, f"P(H = 0) is {half_closed.prob_zero:.3f}, not a half"
assert half_closed.prob_one == 0, f"P(H = 1) is {half_closed.prob_one:.3f}, not 0"

# %% [markdown]
# ## 3. Masses that keep their digits and their gradients
#
# In the notation of `01_kumaraswamy`, with $w_j = \mathrm{log1mexp}(a\ln k_j) = \ln(1-k_j^a)$:
#
# $$\ln P(H\ne0) = b\,w_0, \qquad \ln\pi_1 = b\,w_1, \qquad
# \ln\pi_0 = \mathrm{log1mexp}(b\,w_0), \qquad
# \pi_c = -e^{b w_0}\,\mathrm{expm1}\big(b(w_1-w_0)\big). \tag{H4}$$
#
# The first of these is the gate's contribution to the expected number of selected words, the constraint
# of the paper (sec. 3.1).
#
# > When $k_0^a$ underflows, $1-e^{b w_0} \approx -b w_0 \approx b\,k_0^a$, so $\ln\pi_0 \to \ln b + a\ln
# > k_0$: the package then takes that line, and so keeps a mass like $e^{-250}$ as a logarithm. The
# > derivatives are $\partial P(H\ne0)/\partial a = -b\,(1-k_0^a)^{b-1}\,k_0^a\ln k_0 > 0$ and $\partial
# > P(H\ne0)/\partial b = P(H\ne0)\,\ln(1-k_0^a) < 0$.
# >
# > The authors' code adds 1e-6 to $\pi_0$ and clamps its logarithm to $[\ln 10^{-6}, \ln(1-10^{-6})]$. No
# > gate can then be closed more firmly than that, and a clamp is a wall for the gradient: a gate behind
# > it no longer hears the constraint.

# %%
single_b = torch.linspace(0.5, 20, 200, dtype=torch.float32).requires_grad_()
closing = HardKuma(torch.full_like(single_b, 0.1), single_b, p.left, p.right)
textbook_zero = 1 - (1 - k0**0.1) ** single_b
clamped_zero = (textbook_zero + 1e-6).log().clamp(math.log(1e-6), math.log1p(-1e-6)).exp()
log_open = {"eq. (H4)": closing.log_prob_nonzero, "with 1e-6 and a clamp": (1 - clamped_zero).log()}
slope = {name: torch.autograd.grad(value.sum(), single_b)[0] for name, value in log_open.items()}
true_log_open = single_b.detach().double() * math.log1p(-(k0**0.1))

# %% tags=["check"]
assert torch.allclose(closing.log_prob_nonzero.double(), true_log_open, rtol=1e-6), "all digits of float32"
assert (slope["with 1e-6 and a clamp"][-50:] == 0).all(), "behind the wall nothing is left of the gradient"
assert torch.allclose(slope["eq. (H4)"].double(), torch.tensor(math.log1p(-(k0**0.1))), rtol=1e-6)
leaves = [torch.tensor(number, requires_grad=True) for number in (p.a, p.b)]
by_autograd = torch.autograd.grad(1 - HardKuma(*leaves, p.left, p.right).prob_zero, leaves)
closed_forms = (-p.b * (1 - k0**p.a) ** (p.b - 1) * k0**p.a * math.log(k0),
                (1 - k0**p.a) ** p.b * math.log1p(-(k0**p.a)))
assert all(abs(x - y) < 1e-12 for x, y in zip(by_autograd, closed_forms, strict=True)), "both derivatives"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
log_open = {name: value.detach() for name, value in log_open.items()}
figures.draw_lines(single_b.detach(), log_open, ax, title="Behind a clamp a closing gate feels nothing",
                   xlabel="b (a = 0.1, float32)", ylabel="ln P(H ≠ 0)")
fig

# %%
for name, value in slope.items():
    print(f"b = 20, {name:21}: ln P(H != 0) = {log_open[name][-1]:8.3f}, its slope {value[-1]:.3f}")
steep = HardKuma(*torch.tensor([7.0, 1.0], dtype=torch.float32), p.left, p.right)
print(f"a = 7, b = 1: P(H = 0) = {steep.prob_zero:.3e}; textbook in float32: {1 - (1 - k0**steep.a):.3e}")

# %% [markdown]
# The same holds for sampling. The usual code draws $u$ from (0.001, 0.999): a gate with $\pi_0 > 0.999$
# is then *always* closed, one with $\pi_0 < 0.001$ never, while the constraint counts with the true mass.
# The package draws from the whole of (0, 1).

# %%
rare = HardKuma(1.0, math.log(1e-4) / math.log1p(-k0), p.left, p.right)  # P(H != 0) = 1e-4
opened = (rare.sample((20 * p.num_samples,)) > 0).double().mean()
u_cut = torch.empty(20 * p.num_samples).uniform_(0.001, 0.999)
opened_cut = (rare.icdf(u_cut) > 0).double().mean()

# %% tags=["check"]
assert abs(opened - 1e-4) < 5 * math.sqrt(1e-4 / (20 * p.num_samples)), "five standard errors"
assert opened_cut == 0, "with the tails cut off the gate never opens"

# %%
print(f"P(H != 0) = {1 - rare.prob_zero:.2e}; the gate opens in {opened:.2e} of the draws")
print(f"with u cut to (0.001, 0.999): in {opened_cut:.2e}")

# %% [markdown]
# ## 4. A density beside two masses
#
# A law with masses has no ordinary density. Take as the measure a unit of weight on 0, a unit on 1, and
# length between: $\mu = \delta_0+\delta_1+\text{length}$. With respect to it
#
# $$p(h) = \pi_0^{[h=0]}\;\pi_1^{[h=1]}\;f_T(h)^{[0<h<1]}, \qquad
# \int p\,d\mu = \pi_0+\pi_1+\int_0^1 f_T(h)\,dh = 1. \tag{H5}$$
#
# The cdf is 0 below 0, $F_T(h)$ on $[0, 1)$ and 1 from 1 on: it jumps by $\pi_0$ at 0 and by $\pi_1$ at 1. The
# quantile function is $\min(1,\max(0, l+(r-l)F_K^{-1}(u)))$, flat over the two masses.
#
# > Between 0 and 1 the density is $f_T$ *as it stands*. It integrates to $\pi_c$, not to 1; multiplying
# > it by $\pi_c$ once more (a docstring of the authors' code says so, their code does not) would lose
# > probability.

# %%
inside_area = gate.log_prob(cells).exp().mean()
total = {"as in (H5)": gate.prob_zero + gate.prob_one + inside_area}
total["rescaled by mistake"] = gate.prob_zero + gate.prob_one + gate.prob_interior * inside_area
ends = gate.log_prob(torch.tensor([0.0, 1.0]))

# %% tags=["check"]
assert abs(inside_area - gate.prob_interior) < 1e-6, "smooth on [0, 1]: the midpoint rule is exact to cell^2"
assert torch.allclose(ends.exp(), torch.stack([gate.prob_zero, gate.prob_one]))
assert abs(total["as in (H5)"] - 1) < 1e-6 and total["rescaled by mistake"] < 1
quantiles = gate.icdf(cells)
within = (quantiles > 0) & (quantiles < 1)
assert torch.allclose(gate.cdf(quantiles[within]), cells[within]), "inverse to each other between the masses"
assert abs((quantiles == 0).double().mean() - gate.prob_zero) < 1e-5, "flat over the mass at 0"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(7, 4.2))
figures.draw_cdf(gate, ax, title="The cdf jumps by a mass at 0 and by a mass at 1")
fig

# %%
for name, value in total.items():
    print(f"total probability, {name}: {value:.4f}")

# %% [markdown]
# ## 5. What flows through a rectified sample
#
# Hold $u$ fixed. Where $0<h<1$, $h = l+(r-l)k$ moves with $k$; on the clip it does not move at all:
#
# $$\frac{\partial h}{\partial\theta} = (r-l)\,\frac{\partial k}{\partial\theta}\;\mathbf 1[0<h<1], \qquad
# \frac{\partial k}{\partial a} = -\frac{k\ln k}{a}, \quad
# \frac{\partial k}{\partial b} = \frac{k}{ab}\,\frac{e^c\,c}{1-e^c}, \quad c = \frac{\ln(1-u)}{b}. \tag{H6}$$
#
# At the two kinks, $t = 0$ and $t = 1$, no derivative exists; but for any $\theta$ a random $u$ hits them
# with probability 0.
#
# > Is the average of (H6) still the gradient of an expectation? Yes for $E[g(H)]$ with $g$ continuous
# > (and almost everywhere differentiable): as a function of $\theta$, $g(h)$ then has kinks but no jumps,
# > and is the integral of its derivative, so that $\partial_\theta$ and $E$ may be exchanged. **No** for
# > a $g$ with a jump at 0, such as $g(h) = \mathbf 1[h\ne0]$, the number of selected words: its
# > derivative is 0 wherever it exists, while $\partial P(H\ne0)/\partial\theta \ne 0$. That gradient sits
# > entirely in the jump. This is why the selection rate enters the objective as the closed form (H3) and
# > not as a count of samples.

# %%
leaves = [torch.tensor(number, requires_grad=True) for number in (p.a, p.b)]
learned = HardKuma(*leaves, p.left, p.right)
moved = learned.rsample((p.num_samples,))
mean_by_samples = torch.autograd.grad(moved.mean(), leaves, retain_graph=True)
mean_exact = torch.autograd.grad(learned.mean, leaves, retain_graph=True)
count_by_samples = torch.autograd.grad(moved.sign().mean(), leaves)  # sign(h) = 1 where h > 0
count_exact = torch.autograd.grad(1 - learned.prob_zero, leaves)
k = (moved.detach() - p.left) / width
path_a = torch.where((moved > 0) & (moved < 1), width * -k * k.log() / p.a, 0.0).detach()

# %% tags=["check"]
assert torch.allclose(mean_by_samples[0], path_a.mean()), "eq. (H6), by a"
for found, expected in zip(mean_by_samples, mean_exact, strict=True):  # |dh/dtheta| stays below 2 here
    assert abs(found - expected) < 5 * 2 / math.sqrt(p.num_samples), "unbiased for the mean"
assert all(found == 0 for found in count_by_samples), "nothing flows through a count of samples"
assert all(expected.abs() > 1e-3 for expected in count_exact), "its true gradient is not 0"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
sweep = torch.logspace(-1.5, 1, 300)
paths = {f"u = {u:g}": HardKuma(sweep, p.b, p.left, p.right).icdf(torch.tensor(u)) for u in (0.15, 0.4, 0.7)}
figures.draw_lines(sweep, paths, ax, title="A sample moves with a, but only between two kinks",
                   xlabel="a", ylabel="sample h at a fixed u", xscale="log")
fig

# %%
for name, *numbers in zip("ab", mean_by_samples, mean_exact, count_by_samples, count_exact, strict=True):
    print(f"d/d{name}: E[H] sampled {numbers[0]: .4f}, exact {numbers[1]: .4f};  "
          f"P(H != 0) sampled {numbers[2]: .4f}, exact {numbers[3]: .4f}")

# %% [markdown]
# **Exercise 2** (predict, change, explain; 8 minutes). HardKuma(0.1, 5) is closed with near certainty. *Predict* who
# still gives such a gate a gradient in every draw: the task, through the sample, or the constraint, through $P(H \ne
# 0)$ (`still_reaches`, "task" or "constraint")? *Change* the gate of this section to this one and compute which share
# of its draws passes the task's gradient (`gradient_share`). *Explain* what training can do with such a gate.

# %% tags=["solution"]
still_reaches = "constraint"
closed_gate = HardKuma(0.1, 5.0, p.left, p.right)
gradient_share = closed_gate.prob_interior
print(f"P(0 < H < 1) = {gradient_share:.2e}")
# The task reaches the gate in that share of the draws only. The constraint reaches it always, through (H4),
# but its pull depends on the sign of the multiplier: see 04_selecting_text.

# %% tags=["check"]
many_a = torch.full((p.num_samples,), 0.1, requires_grad=True)
shut_gates = HardKuma(many_a, torch.tensor(5.0), p.left, p.right)
(by_task,) = torch.autograd.grad(shut_gates.rsample().sum(), many_a)
(by_mass,) = torch.autograd.grad(shut_gates.log_prob_nonzero.exp().sum(), many_a)
reached = {"task": (by_task != 0).double().mean(), "constraint": (by_mass != 0).double().mean()}
expected_count = gradient_share * p.num_samples
allowed = 5 * math.sqrt(expected_count + 1)  # of a count
assert abs(reached["task"] * p.num_samples - expected_count) < allowed, f"in {reached['task']:.1e} of the draws"
assert 0 < gradient_share < 1e-2, "how often is this gate neither 0 nor 1?"
assert still_reaches == max(reached, key=reached.get), "`still_reaches`: look at (H6) and (H4)"

# %% [markdown]
# ## 6. E[H] from the survival function
#
# For a variable in [0, 1], $E[H] = \int_0^1 P(H>t)\,dt$ (write $h = \int_0^1 \mathbf 1[t<h]\,dt$ and
# exchange). Inside (0, 1), $P(H>t) = 1-F_T(t)$; substitute $k = (t-l)/(r-l)$, then $y = k^a$:
#
# $$E[H] = (r-l)\int_{k_0}^{k_1}(1-k^a)^b\,dk
# = \frac{r-l}{a}\Big[B\big(k_1^a;\tfrac1a,b+1\big)-B\big(k_0^a;\tfrac1a,b+1\big)\Big], \tag{H7}$$
#
# with the incomplete beta function $B(x;p,q) = \int_0^x y^{p-1}(1-y)^{q-1}dy$. Likewise $E[H^2] =
# \int_0^1 2t\,P(H>t)\,dt$.
#
# > The integrand is smooth, since $k$ stays in $[k_0, k_1]$, away from the poles of the density.

# %%
def beta_between(low, high, p_power, q_power):
    y = low + (high - low) * cells  # midpoint rule for the incomplete beta function
    return (high - low) * (y ** (p_power - 1) * (1 - y) ** (q_power - 1)).mean()


y0, y1 = k0**p.a, k1**p.a
survival = (1 - (k0 + (k1 - k0) * cells) ** p.a) ** p.b
mean_survival = survival.mean()
mean_beta = width / p.a * beta_between(y0, y1, 1 / p.a, p.b + 1)
second_moment = (2 * cells * survival).mean()

# %% tags=["check"]
assert torch.isclose(mean_survival, gate.mean, rtol=1e-8), "integral of the survival function"
assert torch.isclose(mean_beta, gate.mean, rtol=1e-8), "eq. (H7)"
assert torch.isclose(second_moment - mean_survival**2, gate.variance, rtol=1e-7), "variance"
assert abs(draws.mean() - gate.mean) < 5 * draws.std() / math.sqrt(p.num_samples), "mean of the draws"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
areas = [HardKuma(*shapes, p.left, p.right) for shapes in ((p.a, p.b), (0.1, 1.0), (5.0, 1.0))]
figures.draw_lines(cells[::500], {f"E[H] = {one.mean:.3f}": 1 - one.cdf(cells[::500]) for one in areas}, ax,
                   title="The mean is the area under the survival function", xlabel="t", ylabel="P(H > t)")
fig

# %%
print(f"E[H]: survival {mean_survival:.8f}, incomplete beta {mean_beta:.8f}, package {gate.mean:.8f}")
print(f"      {p.num_samples} draws {draws.mean():.4f}")

# %% [markdown]
# ## 7. E[H] over the three configurations
#
# The other way: $0\cdot\pi_0 + 1\cdot\pi_1$ plus the interior. There $h = l+(r-l)k$, and
# $\int_{k_0}^{k_1} k f_K(k)\,dk$ becomes, with $y=k^a$, an incomplete beta again:
#
# $$E[H] = \pi_1+\pi_c\,E[H\mid 0<H<1]
# = \pi_1 + l\,\pi_c + (r-l)\,b\,\Big[B\big(k_1^a;1+\tfrac1a,b\big)-B\big(k_0^a;1+\tfrac1a,b\big)\Big].
# \tag{H8}$$
#
# > (H7) and (H8) agree by partial integration. (H8) has the advantage that its middle form needs nothing
# > but an average over the interior, $E[g(H)\mid 0<H<1] = \int_0^1 g(h(v))\,dv$ with $P(H>h(v)) =
# > (1-v)P(H\ne0)+v\,\pi_1$: the package computes mean, variance, entropy and KL from these quantiles by
# > one fixed rule, so that no two large numbers are subtracted.
# >
# > The authors' `HardKuma.mean` returns $E[K]$, the mean of the *base*. It is neither $E[H]$ nor $E[T] =
# > l+(r-l)E[K]$.

# %%
inner = p.b * beta_between(y0, y1, 1 + 1 / p.a, p.b)  # integral of k f_K(k) between k0 and k1
mean_split = gate.prob_one + p.left * gate.prob_interior + width * inner
interior_draws = draws[(draws > 0) & (draws < 1)]
examples = HardKuma(math.log(2), torch.tensor([math.log(2), 5.0, 20.0]), p.left, p.right)
inside = examples.conditional_mean

# %% tags=["check"]
assert torch.isclose(mean_split, gate.mean, rtol=1e-8), "eq. (H8)"
deviation = interior_draws.std() / math.sqrt(len(interior_draws))
assert abs(interior_draws.mean() - gate.conditional_mean) < 5 * deviation, "E[H | 0 < H < 1]"
assert torch.allclose(examples.prob_one + examples.prob_interior * inside, examples.mean)
assert (examples.base.mean[1:] > 1.5 * examples.mean[1:]).all(), "E[K] is far from E[H]"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
shape_b = torch.logspace(-1, 1.5, 200)
swept = HardKuma(math.log(2), shape_b, p.left, p.right)
means = {"E[H]": swept.mean, "E[K], the base": swept.base.mean, "E[T]": p.left + width * swept.base.mean}
figures.draw_lines(shape_b, means, ax, title="Three means that are easily taken for one another",
                   xlabel="b (a = ln 2)", ylabel="mean", xscale="log")
fig

# %%
for shape, rectified, base in zip(examples.b, examples.mean, examples.base.mean, strict=True):
    print(f"a = ln 2, b = {shape:6.3f}: E[H] = {rectified:.6f}, E[K] = {base:.6f}")

# %% [markdown]
# ## 8. Deciding at test time
#
# A gate in use should not be random. The paper (sec. 5) picks the most probable of the three
# configurations, and if the interval wins, the expected value of the underlying Kumaraswamy:
#
# $$z = \begin{cases} 0 & \pi_0 \text{ is the largest},\\ 1 & \pi_1 \text{ is the largest},\\
# E[K] & \pi_c \text{ is the largest}. \end{cases} \tag{H9}$$
#
# > "Underlying" is meant literally: $E[K]$, neither stretched nor rectified. Two consequences. The value
# > jumps where the winner changes (`03_explore_shapes` maps the jumps). And "selected", $z\ne0$, is *not*
# > the expected selection: a gate with $(\pi_0,\pi_c,\pi_1) = (.45, .35, .20)$ counts .55 in the
# > constraint and 0 in the decision. Both rates are reported in every run of this repository.
#
# The rule is `argmax`; three others stand beside it: `argmax_conditional` takes the mean of the gate given that it is
# inside, $E[H \mid 0 < H < 1]$; `expected` is $E[H]$ always; `threshold` says 1 where $P(H \ne 0) \ge 1/2$, else 0.

# %%
decided = {rule: decide(swept, rule) for rule in ("argmax", "argmax_conditional", "expected", "threshold")}
expected_rate = 1 - swept.prob_zero
winner = torch.stack([swept.prob_zero, swept.prob_interior, swept.prob_one]).argmax(0)

# %% tags=["check"]
assert torch.equal(decided["argmax"] == 0, winner == 0), "0 where the mass at 0 is the largest"
assert torch.allclose(decided["argmax"][winner == 1], swept.base.mean[winner == 1]), "E[K] inside"
assert ((decided["expected"] > 0) | (swept.mean == 0)).all(), "E[H] is never exactly 0: no rationale at all"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
curves = {**decided, "P(H ≠ 0)": expected_rate}
figures.draw_lines(shape_b, curves, ax, title="Rules disagree most where the gate is undecided",
                   xlabel="b (a = ln 2)", ylabel="value of the gate", xscale="log")
fig

# %%
dropped = (decided["argmax"] == 0) & (expected_rate > 0.25)
print(f"gates dropped although they select with more than 25 %: {dropped.sum()} of {len(shape_b)}")
print(f"largest expected selection of a dropped gate: {expected_rate[decided['argmax'] == 0].max():.3f}")

# %% [markdown]
# ## 9. Entropy
#
# With respect to $\mu$ of section 4, $-E[\ln p(H)]$ splits like the law itself:
#
# $$h(H) = -\pi_0\ln\pi_0-\pi_1\ln\pi_1-\int_0^1 f_T(t)\ln f_T(t)\,dt. \tag{H10}$$
#
# > The first two terms are Shannon entropies, the last a differential one; the sum may be negative. For
# > $a=b=1$ everything is explicit: $f_T = 1/(r-l)$, so $h = -(k_0\ln k_0+(1-k_1)\ln(1-k_1)) +
# > (k_1-k_0)\ln(r-l)$.

# %%
log_density = gate.log_prob(cells)
between = (log_density.exp() * log_density).mean()
entropy_by_hand = -(gate.prob_zero * ends[0] + gate.prob_one * ends[1] + between)
entropy_by_draws = -gate.log_prob(draws)
uniform_entropy = -(k0 * math.log(k0) + (1 - k1) * math.log(1 - k1)) + (k1 - k0) * math.log(width)

# %% tags=["check"]
assert torch.isclose(entropy_by_hand, gate.entropy(), rtol=1e-6), "eq. (H10)"
allowed = 5 * entropy_by_draws.std() / math.sqrt(p.num_samples)
assert abs(entropy_by_draws.mean() - gate.entropy()) < allowed, "-ln p over the draws"
assert abs(HardKuma(1.0, 1.0, p.left, p.right).entropy() - uniform_entropy) < 1e-12, "the uniform base"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
family = {f"a = {fixed:g}": HardKuma(fixed, shape_b, p.left, p.right) for fixed in (0.1, 0.5, 2.0)}
entropies = {name: member.entropy() for name, member in family.items()}
figures.draw_lines(shape_b, entropies, ax, title="A gate is most uncertain when masses and interior share",
                   xlabel="b", ylabel="entropy (nats)", xscale="log")
fig

# %%
print(f"by hand {entropy_by_hand:.6f}, package {gate.entropy():.6f}, draws {entropy_by_draws.mean():.4f}")

# %% [markdown]
# ## 10. KL between two gates
#
# Both gates must put their masses on the same points, so $l$ and $r$ are shared. Then $E_p[\ln p-\ln q]$
# splits in three:
#
# $$\mathrm{KL}(p\,\|\,q) = \pi_0\ln\frac{\pi_0}{\pi_0'}+\pi_1\ln\frac{\pi_1}{\pi_1'}
# +\pi_c\,E\big[\ln f_T(H)-\ln f_T'(H)\,\big|\,0<H<1\big]. \tag{H11}$$
#
# > The first two terms are exact; the third is the interior average of section 7. Stretching changes
# > nothing in a *base* divergence (the factor $1/(r-l)$ cancels), but rectifying does: it forgets where
# > in its tail a draw fell, so the KL of the gates is never larger than the KL of their bases. HardKuma's
# > published objective has no KL: it is here for priors you may want to add.

# %%
other = HardKuma(2.0, 1.0, p.left, p.right)
divergence = kl_divergence(gate, other)
terms = {"at 0": gate.prob_zero * (gate.log_prob_zero - other.log_prob_zero),
         "at 1": gate.prob_one * (gate.log_prob_one - other.log_prob_one),
         "between": (log_density.exp() * (log_density - other.log_prob(cells))).mean()}
log_ratio = gate.log_prob(draws) - other.log_prob(draws)

# %% tags=["check"]
assert torch.isclose(sum(terms.values()), divergence, rtol=1e-6), "eq. (H11) by integration"
assert abs(log_ratio.mean() - divergence) < 5 * log_ratio.std() / math.sqrt(p.num_samples), "by sampling"
assert 0 <= divergence <= kl_divergence(gate.base, other.base), "rectifying can only forget"
assert kl_divergence(gate, gate).abs() < 1e-12

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
many = HardKuma(p.a, shape_b, p.left, p.right)
compared = {"gates": kl_divergence(many, gate), "bases": kl_divergence(many.base, gate.base)}
figures.draw_lines(shape_b, compared, ax, title="Rectifying only forgets: gates are closer than their bases",
                   xlabel="b", ylabel=f"KL to b = {p.b:g} (nats)", xscale="log")
fig

# %%
print(f"KL = {divergence:.6f} nats =", " + ".join(f"{value:.4f} {name}" for name, value in terms.items()))

# %% [markdown]
# ## 11. The same recipe on another base: Hard Concrete
#
# Louizos et al. (2018) stretch and rectify a Binary Concrete variable instead: logistic noise, shifted by
# a logit $m$, divided by a temperature $\tau$, squashed by the sigmoid $\sigma$. Its cdf also is a closed
# form:
#
# $$S = \sigma\!\left(\frac{\mathrm{logit}\,U+m}{\tau}\right), \quad
# P(S>s) = \sigma(m-\tau\,\mathrm{logit}\,s), \quad
# P(H\ne0) = \sigma\!\left(m-\tau\ln\tfrac{-l}{r}\right), \quad
# \pi_1 = \sigma\!\left(m-\tau\ln\tfrac{1-l}{r-1}\right). \tag{H12}$$
#
# DiffMask uses the half-open support $l=-0.2$, $r=1$, $\tau=0.2$: $\pi_1 = 0$ exactly, since
# $\ln\frac{1-l}{r-1} = \infty$.
#
# > $S \le s \iff \mathrm{logit}\,U \le \tau\,\mathrm{logit}\,s-m$ gives the cdf; $\mathrm{logit}\,k_0 =
# > \ln(-l/r)$ the masses. Two masses fix $(m, \tau)$, so a Hard Concrete can copy the three masses of any
# > HardKuma gate; only the density between them differs. (One paper prints the stretch as $s(l-r)+r$:
# > that is the mirrored gate.)

# %%
logit_zero, logit_one = math.log(-p.left / p.right), math.log((1 - p.left) / (p.right - 1))
logit_nonzero, logit_pi_one = torch.logit(1 - gate.prob_zero), torch.logit(gate.prob_one)
temperature = (logit_nonzero - logit_pi_one) / (logit_one - logit_zero)
concrete = HardConcrete(logit_nonzero + temperature * logit_zero, temperature, p.left, p.right)
half_open = HardConcrete(5.0, 0.2, left=-0.2, right=1.0)
concrete_draws = concrete.sample((p.num_samples,))

# %% tags=["check"]
for name in ("prob_zero", "prob_one", "prob_interior"):
    assert torch.isclose(getattr(concrete, name), getattr(gate, name), rtol=1e-10), f"copied {name}"
assert abs((concrete_draws == 0).double().mean() - concrete.prob_zero) < 5 * 0.5 / math.sqrt(p.num_samples)
assert half_open.prob_one == 0 and abs(half_open.log_prob_nonzero.exp() - 0.99514) < 5e-6

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(8, 4.4))
h = cells[100::500]
densities = {"HardKuma": gate.log_prob(h).exp(), "Hard Concrete": concrete.log_prob(h).exp()}
figures.draw_lines(h, densities, ax, title="A U of the same masses: the two gates hardly differ",
                   xlabel="h", ylabel="density (per unit of h)")
ax.set_ylim(bottom=0)
fig

# %%
print(f"HardKuma({p.a:g}, {p.b:g}) has the masses of the Hard Concrete with logits {concrete.logits:.3f} and "
      f"temperature {concrete.temperature:.3f}")
print(f"KL between the two {kl_divergence(gate, concrete):.2e}; E[H] {gate.mean:.4f} and {concrete.mean:.4f}")
open_at_five = half_open.log_prob_nonzero.exp()
print(f"DiffMask's gate at logit 5: P(z != 0) = {open_at_five:.5f}, P(z = 1) = {half_open.prob_one:g}")

# %% [markdown]
# **Exercise 3** (predict, change, explain; 15 minutes). A HardKuma gate can be asymmetric in ways a Hard Concrete
# cannot. *Predict* which of $(a, b) = (5, 1), (0.3, 0.3), (2, 5)$ is copied worst (`worst`: 0, 1 or 2). *Change* the
# shapes in the cell above: give the three Hard Concretes of the same masses (`copies`) and the KL of each original to
# its copy (`lost`), lists of three. *Explain* what the two masses say about what lies between them.

# %% tags=["solution"]
worst = 2
copies, lost = [], []
for shapes in ((5.0, 1.0), (0.3, 0.3), (2.0, 5.0)):
    original = HardKuma(*shapes, p.left, p.right)
    nonzero, one = torch.logit(original.log_prob_nonzero.exp()), torch.logit(original.prob_one)
    copied_temperature = (nonzero - one) / (logit_one - logit_zero)
    copies.append(HardConcrete(nonzero + copied_temperature * logit_zero, copied_temperature, p.left, p.right))
    lost.append(kl_divergence(original, copies[-1]))
    print(f"HardKuma{shapes}: KL to its copy {lost[-1]:.4f} nats")
# The U is copied almost exactly: what is not at its ends is flat. A slope and a hump away from 1/2 are not:
# the masses do not tell where between them the rest lies, and the copy's hump is symmetric in the logit.

# %% tags=["check"]
originals = [HardKuma(*shapes, p.left, p.right) for shapes in ((5.0, 1.0), (0.3, 0.3), (2.0, 5.0))]
for original, copy, claimed in zip(originals, copies, lost, strict=True):
    for name in ("prob_zero", "prob_one"):
        assert torch.isclose(getattr(copy, name), getattr(original, name)), f"a copy has another {name}"
    sampled = original.sample((p.num_samples,))
    log_ratio = original.log_prob(sampled) - copy.log_prob(sampled)  # its mean is the KL
    allowed = 5 * log_ratio.std() / math.sqrt(p.num_samples)  # five standard errors
    assert abs(claimed - log_ratio.mean()) < allowed, f"a KL of {claimed:.4f}, but draws say {log_ratio.mean():.4f}"
assert worst == lost.index(max(lost)), "`worst` is not what you found"

# %% [markdown]
# ## Summary
#
# - Stretch (H1), clip (H2): two masses in closed form (H3) and, *beside* them, a density that is not
#   rescaled (H5).
# - In the forms of (H4) no mass and no gradient vanishes; with an epsilon or a clamp both do.
# - Samples carry gradients between the kinks (H6), unbiased for continuous losses; a count of selected
#   words needs (H3).
# - $E[H]$ has two forms, (H7) and (H8); $E[K]$ is not one of them.
# - Decision (H9), entropy (H10) and KL (H11) follow the split into 0, 1 and between; so does every base
#   with a known cdf (H12).
#
# **Next**: `03_explore_shapes` lets you move $a$, $b$, $l$ and $r$ with sliders; `04_selecting_text` puts
# one gate on every word.
