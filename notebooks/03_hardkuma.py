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
# You know the four wishes from `01_choosing`. The first two are that a gate is exactly 0 or exactly 1 with positive
# probability, and that it still passes a gradient through its own draw. In `02_kumaraswamy` we fulfilled the second
# wish. A draw of $K$ is a formula in a uniform number and two shapes, and (K7) differentiates it. But $K$ lies strictly
# between 0 and 1, so a word would never be exactly dropped. This notebook fulfils the first wish, and with it the other
# two. The probability of 0 is then a formula, and no shapes make the gate certain.
#
# **You will** turn the Kumaraswamy into a gate that is exactly 0, exactly 1, or anything between, and that you can
# train through its own samples.
#
# **You will learn**
# - to clip a stretched distribution into two point masses, and to keep masses and density apart
# - to write the logarithms of all masses so that neither they nor their gradients are lost in float32
# - where a clipped sample passes a gradient, where it does not, and why the rate of selected words needs a closed form
# - to compute $E[H]$ in two ways, and why it is not $E[K]$
# - to compute the entropy, the divergence and the decision at test time
# - how the Hard Concrete gate of other papers differs from ours, and which digits torch's own Kumaraswamy loses in
#   float32.
#
# **You need** `02_kumaraswamy`. You need no data and no GPU. The notebook runs in less than a minute, and with pencil
# and paper you will spend about an hour on it.

# %% tags=["parameters"]
a: float = 0.5  # first shape of the worked example
b: float = 0.5  # second shape of the worked example
left: float = -0.1  # lower end of the stretched support, below 0
right: float = 1.1  # upper end of the stretched support, above 1
num_samples: int = 200_000  # random draws where a formula is checked by sampling
seed: int = 0  # of the draws

# %%
import math

import mpmath
import pandas as pd
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
paper_ends = (p.left, p.right) == (-0.1, 1.1)  # for claims that hold near these ends only
cells = (torch.arange(200_000) + 0.5) / 200_000  # midpoints: the mean over them is an integral over (0, 1)

# %% [markdown]
# ## 1. Stretch
#
# How can a continuous variable be exactly 0? We let it go below 0 first, and we clip it afterwards. So we begin with
# a stretch. Let $K \sim \mathrm{Kuma}(a,b)$, which we call the *base*, and choose two ends $l \le 0$ and $r \ge 1$.
# We stretch $K$ to an interval, the *support* $(l, r)$:
#
# $$T = l+(r-l)K, \qquad F_T(t) = F_K\!\left(\frac{t-l}{r-l}\right), \qquad
# f_T(t) = \frac{1}{r-l}\,f_K\!\left(\frac{t-l}{r-l}\right). \tag{H1}$$
#
# Bastings et al. (2019, sec. 3) take $l=-0.1$ and $r=1.1$.
#
# > This is a change of variables with a constant slope, $dk/dt = 1/(r-l)$. The density becomes wider *and lower*. If
# > you forget the factor, every log density is too large by $\ln(r-l)$. This is the commonest mistake here.
#
# You can see both effects in the picture below.

# %%
t = p.left + width * cells
stretched_density = gate.base.log_prob((t - p.left) / width).exp() / width
stretched_draws = p.left + width * gate.base.sample((p.num_samples,))
half_below = (stretched_draws < 0.5).double().mean()
half_cdf = gate.base.cdf((torch.tensor(0.5) - p.left) / width)

# %% tags=["check"]
# midpoint rule: a pole at an end, as for a, b < 1, costs about the probability of the last cell at this end
last_cells = gate.base.cdf(cells[0] * 2) + 1 - gate.base.cdf(1 - cells[0] * 2)
assert abs(stretched_density.mean() * width - 1) < last_cells + 1e-6, "f_T integrates to 1 over (left, right)"
assert abs(half_below - half_cdf) < 5 * 0.5 / math.sqrt(p.num_samples), "F_T(1/2), five standard errors"

# %% tags=["figure"]
points = t[250::500]
base_density = torch.where((points > 0) & (points < 1), gate.base.log_prob(points.clamp(1e-9, 1 - 1e-9)).exp(), 0.0)
densities = {"base K": base_density, "stretched T": stretched_density[250::500]}
figures.draw_panel(figures.draw_lines, points, densities,
                   title="The stretched density is wider and lower, and leaves [0, 1]", xlabel="value of k or t",
                   ylabel="density (per unit)", size=(8, 4.4), limits={"ylim": (0, 3)})

# %%
print(f"P(T < 1/2): cdf {half_cdf:.4f}, share of draws {half_below:.4f}")
print(f"the density falls by the factor {1 / width:.4f}")

# %% [markdown]
# ## 2. Rectify
#
# Now clip the parts outside [0, 1]. We call the result a *rectified* variable. For our base its name is the hard
# Kumaraswamy, or HardKuma$(a, b)$:
#
# $$H = \min(1, \max(0, T)), \qquad k_0 = \frac{-l}{r-l}, \quad k_1 = \frac{1-l}{r-l}. \tag{H2}$$
#
# Here $k_0$ is the value of $K$ that is stretched to 0, and $k_1$ is the value that is stretched to 1. Every $T \le 0$,
# that is, every $K \le k_0$, becomes the single value 0. Every $T \ge 1$, that is, every $K \ge k_1$, becomes 1. So
# each of the two values has a positive probability, and one probability is left for the interval between them:
#
# $$\pi_0 = P(H=0) = 1-(1-k_0^a)^b, \qquad \pi_1 = P(H=1) = (1-k_1^a)^b, \qquad
# \pi_c = P(0<H<1) = (1-k_0^a)^b-(1-k_1^a)^b. \tag{H3}$$
#
# (The index $c$ stands for *continuous*.) These three masses have closed forms because the cdf of the base has one.
# This is why we use the Kumaraswamy here and not the Beta (Bastings et al., sec. 3). If $l < 0$ and $r > 1$, all three
# masses are positive, whatever $a$ and $b$ are. So no gate is ever certain.
#
# > A *mass* is a probability, so $\pi_0 \in [0,1]$. A *density* is a probability per unit, so it may exceed 1. The
# > first picture below therefore has two scales. The curves belong to the left scale. The two dots on vertical lines
# > are the masses, and they belong to the right scale. There, P(0) stands for $\pi_0$ and P(1) for $\pi_1$.
#
# With the second picture below you can confirm (H3). We draw many gates and count how often they are exactly 0 and
# exactly 1.

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
figures.draw_panel(figures.draw_hardkuma, p.a, p.b, p.left, p.right,
                   title="The tails outside [0, 1] become two masses", size=(9, 4.8))

# %% tags=["figure"]
figures.draw_panel(figures.draw_histogram_vs_density, draws, gate,
                   title="Draws are exactly 0 and 1 as often as (H3) says", size=(8, 4.4))

# %%
for name, mass in masses.items():
    print(f"{name:13} closed form {mass:.6f}   share of draws {shares[name].double().mean():.6f}")

# %% [markdown]
# **Exercise 1** (predict, change, explain; 6 minutes). With $a = b = 1$ the base is uniform. *Predict* $\pi_0$ from
# $l$ and $r$ alone, and write it as a function `uniform_mass(left, right)`. *Change* the support $(l, r)$ so that
# half of all gates are exactly 0 and none is exactly 1 (`half_closed_ends`, a pair $(l, r)$). *Explain* what a mass
# is when the density is constant.

# %% tags=["prediction"]
def uniform_mass(left, right):
    return -left / (right - left)


# %% tags=["solution"]
half_closed_ends = (-1.0, 1.0)
# For a uniform base a mass is a length: the overhang -l as a share of r - l.

# %% tags=["check"]
for ends in ((-0.1, 1.1), (-0.5, 1.0), (-0.01, 2.0)):
    mass, claimed_mass = HardKuma(1.0, 1.0, *ends).prob_zero, uniform_mass(*ends)
    size = "too low" if claimed_mass < mass else "too high"
    assert abs(mass - claimed_mass) < 1e-12, f"`uniform_mass` is {size} for the ends {ends}"
assert len(half_closed_ends) == 2, "`half_closed_ends` is a pair"
half_closed = HardKuma(1.0, 1.0, *map(float, half_closed_ends))
assert abs(half_closed.prob_zero - 0.5) < 1e-12, f"P(H = 0) is {half_closed.prob_zero:.3f}, not a half"
assert half_closed.prob_one == 0, f"P(H = 1) is {half_closed.prob_one:.3f}, not 0"

# %% [markdown]
# ## 3. Masses that keep their digits and their gradients
#
# The formulas of (H3) are exact, but you lose digits if you compute them in float32 as they stand. As in
# `02_kumaraswamy`, we write all of them with one logarithm. Let $w_j = \mathrm{log1mexp}(a\ln k_j) = \ln(1-k_j^a)$.
# Then $(1-k_0^a)^b = e^{b w_0}$ and $(1-k_1^a)^b = e^{b w_1}$. For the last mass we take $e^{b w_0}$ out of the
# difference $e^{b w_0} - e^{b w_1}$. So (H3) becomes
#
# $$\ln P(H\ne0) = b\,w_0, \qquad \ln\pi_1 = b\,w_1, \qquad
# \ln\pi_0 = \mathrm{log1mexp}(b\,w_0), \qquad
# \pi_c = -e^{b w_0}\,\mathrm{expm1}\big(b(w_1-w_0)\big). \tag{H4}$$
#
# You will meet the first of these again. A word counts as selected if its gate is not 0, so $P(H \ne 0)$ is what its
# gate contributes to the expected number of selected words. Bastings et al. (2019, sec. 4) train with a constraint on
# this number. From here on, we call their article *the paper* and their published code *the authors' code*.
#
# > If $k_0^a$ underflows, then $1-e^{b w_0} \approx -b w_0 \approx b\,k_0^a$, so the logarithm $\ln\pi_0$ of this
# > difference approaches $\ln b + a\ln k_0$. The package uses this limit there, and so it can represent a mass such as
# > $e^{-250}$ by its logarithm. By the chain rule we get
# > $\partial P(H\ne0)/\partial a = -b\,(1-k_0^a)^{b-1}\,k_0^a\ln k_0 > 0$ and
# > $\partial P(H\ne0)/\partial b = P(H\ne0)\,\ln(1-k_0^a) < 0$.
# >
# > The authors' code adds 1e-6 to $\pi_0$ and clamps its logarithm to $[\ln 10^{-6}, \ln(1-10^{-6})]$. The probability
# > that such a gate is open can then not fall below a limit. Beyond the clamp the gradient is zero, so we can no longer
# > move the gate by the constraint.
#
# We compare our form and the authors' in float32, for a gate that closes step by step as $b$ grows.

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
assert (slope["with 1e-6 and a clamp"][-50:] == 0).all(), "beyond the clamp the gradient is zero"
assert torch.allclose(slope["eq. (H4)"].double(), torch.tensor(math.log1p(-(k0**0.1))), rtol=1e-6)
leaves = [torch.tensor(number, requires_grad=True) for number in (p.a, p.b)]
by_autograd = torch.autograd.grad(1 - HardKuma(*leaves, p.left, p.right).prob_zero, leaves)
closed_forms = (-p.b * (1 - k0**p.a) ** (p.b - 1) * k0**p.a * math.log(k0),
                (1 - k0**p.a) ** p.b * math.log1p(-(k0**p.a)))
assert all(abs(x - y) < 1e-12 for x, y in zip(by_autograd, closed_forms, strict=True)), "both derivatives"

# %% tags=["figure"]
log_open = {name: value.detach() for name, value in log_open.items()}
figures.draw_panel(figures.draw_lines, single_b.detach(), log_open,
                   title="Beyond a clamp the gradient of a closing gate is zero", xlabel="b (a = 0.1, float32)",
                   ylabel="ln P(H ≠ 0)", size=(8, 4.4))

# %%
for name, value in slope.items():
    print(f"b = 20, {name:21}: ln P(H != 0) = {log_open[name][-1]:8.3f}, its slope {value[-1]:.3f}")
steep = HardKuma(*torch.tensor([7.0, 1.0], dtype=torch.float32), p.left, p.right)
print(f"a = 7, b = 1: P(H = 0) = {steep.prob_zero:.3e}; textbook in float32: {1 - (1 - k0**steep.a):.3e}")

# %% [markdown]
# Sampling needs the same care. Published implementations draw $u$ from (0.001, 0.999). A gate with $\pi_0 > 0.999$ is
# then *always* closed, and a gate with $\pi_0 < 0.001$ is never closed. The constraint still counts both with their
# true masses. The package draws $u$ from the whole interval (0, 1). To see what this changes, we take a gate that
# opens once in ten thousand draws, and we count how often it does.

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
# A law with masses has no ordinary density. What should `log_prob` return then? We need a measure that counts the two
# points as well as the interval. Take a unit of weight on 0, a unit of weight on 1, and length between them,
# $\mu = \delta_0+\delta_1+\text{length}$. If you have not met measures, read $\int g\,d\mu$ as
# $g(0) + g(1) + \int_0^1 g(h)\,dh$. With respect to this measure you can write the density as follows. An exponent in
# square brackets is 1 if its condition holds and 0 if not, so each $h$ picks one of the three factors:
#
# $$p(h) = \pi_0^{[h=0]}\;\pi_1^{[h=1]}\;f_T(h)^{[0<h<1]}, \qquad
# \int p\,d\mu = \pi_0+\pi_1+\int_0^1 f_T(h)\,dh = 1. \tag{H5}$$
#
# You can also read off the cdf. It is 0 below 0, $F_T(h)$ on $[0, 1)$ and 1 from 1 on. It jumps by $\pi_0$ at 0 and by
# $\pi_1$ at 1. The quantile function is $\min(1,\max(0, l+(r-l)F_K^{-1}(u)))$, and it is constant where the cdf jumps.
#
# > Between 0 and 1 the density is $f_T$ *as it stands*. It integrates to $\pi_c$ and not to 1. If you multiplied it by
# > $\pi_c$ once more, the total probability would be less than 1. (A docstring of the authors' code asks for this
# > factor, but their code does not use it.)
#
# The cell below adds up the total probability both ways.

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
figures.draw_panel(figures.draw_cdf, gate, title="The cdf jumps by a mass at 0 and by a mass at 1", size=(7, 4.2))

# %%
for name, value in total.items():
    print(f"total probability, {name}: {value:.4f}")

# %% [markdown]
# ## 5. What flows through a rectified sample
#
# Now that we can draw samples, can we train through them? Keep $u$ fixed and change a parameter $\theta$, which is
# $a$ or $b$. Where $0<h<1$, the sample $h = l+(r-l)k$ moves with $k$. Where it is clipped to 0 or 1, it does not
# move. As in `01_choosing`, $\mathbb 1[\dots]$ is 1 if the bracket is true and 0 if not, and the derivatives of $k$
# are those of (K7):
#
# $$\frac{\partial h}{\partial\theta} = (r-l)\,\frac{\partial k}{\partial\theta}\;\mathbb 1[0<h<1], \qquad
# \frac{\partial k}{\partial a} = -\frac{k\ln k}{a}, \quad
# \frac{\partial k}{\partial b} = \frac{k}{ab}\,\frac{e^c\,c}{1-e^c}, \quad c = \frac{\ln(1-u)}{b}. \tag{H6}$$
#
# At the two kinks, $t = 0$ and $t = 1$, the derivative does not exist. For any $\theta$, a random $u$ meets them with
# probability 0, so we need not worry about them.
#
# > (This box is optional. It is for readers who want a proof.)
# >
# > Let $g$ be a function of the gate, such as the loss of the model. Is the average of
# > $g'(h)\,\partial h/\partial\theta$ still the gradient of $E[g(H)]$? It is, if $g$ is **Lipschitz**, that is, if
# > $|g(h) - g(h')| \le C\,|h - h'|$ for some number $C$. You can prove this in two steps.
# >
# > 1. The derivatives of a sample are bounded, whatever $u$ is. Since $-k\ln k \le 1/e$ and
# >    $\left|\frac{e^c\,c}{1-e^c}\right| \le 1$ (section 7 of `02_kumaraswamy`), we have
# >    $|\partial h/\partial a| \le \frac{r-l}{e\,a}$ and $|\partial h/\partial b| \le \frac{r-l}{a\,b}$.
# > 2. So for all parameters near $(a, b)$, the difference quotient of $g(h)$ is at most $C$ times a constant that does
# >    not depend on $u$. For almost every $u$ these quotients converge to $g'(h)\,\partial h/\partial\theta$, because a
# >    Lipschitz function has a derivative almost everywhere, a draw inside $(0, 1)$ has a density, and a clipped draw
# >    does not move. The theorem of dominated convergence says that if random numbers converge and one constant bounds
# >    them all, then their means converge to the mean of the limit. So we may exchange the limit and the expectation.
# >
# > It is not enough that $g$ is continuous and differentiable almost everywhere. The Cantor function rises from 0 to
# > 1 continuously, but its derivative is 0 almost everywhere, so every sampled gradient is 0. The last line that is
# > printed below shows that $E[g(H)]$ does change with $a$ for this $g$.
# >
# > A function with a jump at 0 is not Lipschitz either. Take $g(h) = \mathbb 1[h\ne0]$, which counts a selected word.
# > Its derivative is 0 wherever it exists, but $\partial P(H\ne0)/\partial\theta \ne 0$, because the whole gradient
# > comes from the jump. This is why we put the closed form of $P(H\ne0) = 1 - \pi_0$ from (H3) into the objective, and
# > not a count of samples.
#
# Below we compute four gradients from samples and compare each with the exact one. They are the gradients of the mean
# $E[H]$ and of $P(H \ne 0)$, each by $a$ and by $b$. The picture shows three samples, each with its own fixed $u$,
# while $a$ grows.

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


def cantor(h, num_digits=40):
    """The Cantor function: the digits of h in base 3 up to the first 1, read in base 2 with every 2 as a 1."""
    value, ended = torch.zeros_like(h), torch.zeros_like(h).bool()
    for n in range(1, num_digits):
        digit = (3 * h).floor().clamp(max=2)
        value, ended, h = value + (~ended & (digit > 0)) * 0.5**n, ended | (digit == 1), 3 * h - digit
    return value


half_step = p.a / 10  # in a, for a difference quotient at fixed noise
moved_gates = [HardKuma(p.a + step, p.b, p.left, p.right) for step in (-half_step, half_step)]
mean_cantor = [cantor(one.icdf(cells)).mean() for one in moved_gates]
cantor_slope = (mean_cantor[1] - mean_cantor[0]) / (2 * half_step)

# %% tags=["check"]
assert torch.allclose(mean_by_samples[0], path_a.mean()), "eq. (H6), by a"
for found, expected in zip(mean_by_samples, mean_exact, strict=True):  # |dh/dtheta| stays below 2 here
    assert abs(found - expected) < 5 * 2 / math.sqrt(p.num_samples), "unbiased for the mean"
noise = moved.detach()
bounds = {"a": width / (math.e * p.a), "b": width / (p.a * p.b)}
many = [torch.full_like(noise, number, requires_grad=True) for number in (p.a, p.b)]
paths = torch.autograd.grad(HardKuma(*many, p.left, p.right).icdf(torch.rand_like(noise)).sum(), many)
for path, bound in zip(paths, bounds.values(), strict=True):
    assert path.abs().max() <= bound * (1 + 1e-9), "step 1: the derivatives of a sample are bounded"
assert cantor_slope > mean_exact[0] / 2 > 0, "the mean of the Cantor function grows with a, much as E[H] does"
assert not cantor(moved).requires_grad, "but a sample of it has no gradient"
assert all(found == 0 for found in count_by_samples), "nothing flows through a count of samples"
for expected, closed_form in zip(count_exact, closed_forms, strict=True):
    assert abs(expected - closed_form) < 1e-12 and closed_form != 0, "its true gradient is not 0"

# %% tags=["figure"]
sweep = torch.logspace(-1.5, 1, 300)
paths = {f"u = {u:g}": HardKuma(sweep, p.b, p.left, p.right).icdf(torch.tensor(u)) for u in (0.15, 0.4, 0.7)}
figures.draw_panel(figures.draw_lines, sweep, paths, title="A sample moves with a, but only between two kinks",
                   xlabel="a", ylabel="sample h at a fixed u", xscale="log", size=(8, 4.4))

# %%
for name, *numbers in zip("ab", mean_by_samples, mean_exact, count_by_samples, count_exact, strict=True):
    print(f"d/d{name}: E[H] sampled {numbers[0]: .4f}, exact {numbers[1]: .4f};  "
          f"P(H != 0) sampled {numbers[2]: .4f}, exact {numbers[3]: .4f}")
print(f"d/da of the mean of the Cantor function: by differences {cantor_slope:.2f}, by samples 0")

# %% [markdown]
# **Exercise 2** (predict, change, explain; 8 minutes). HardKuma(0.1, 5) is closed with near certainty. Two terms of the
# loss could still change this gate. The task acts through the sample, and the constraint acts through $P(H \ne 0)$.
# *Predict* which of them gives the gate a gradient in every draw (`still_reaches`, "task" or "constraint"). *Change*
# the gate of section 5 to this one and compute which share of its draws passes the task's gradient (`gradient_share`).
# *Explain* what training can do with such a gate.

# %% tags=["prediction"]
still_reaches = "constraint"

# %% tags=["solution"]
closed_gate = HardKuma(0.1, 5.0, p.left, p.right)
gradient_share = closed_gate.prob_interior
print(f"P(0 < H < 1) = {gradient_share:.2e}")
# The task gives the gate a gradient in that share of the draws only. The constraint gives it one in every draw, through
# (H4). Whether this gradient opens the gate depends on the sign of the multiplier, see 06_hold_a_rate.

# %% tags=["check"]
many_a = torch.full((p.num_samples,), 0.1, requires_grad=True)
shut_gates = HardKuma(many_a, torch.tensor(5.0), p.left, p.right)
(by_task,) = torch.autograd.grad(shut_gates.rsample().sum(), many_a)
(by_mass,) = torch.autograd.grad(shut_gates.log_prob_nonzero.exp().sum(), many_a)
reached = {"task": (by_task != 0).double().mean(), "constraint": (by_mass != 0).double().mean()}
expected_count = gradient_share * p.num_samples
allowed = 5 * math.sqrt(expected_count + 1)  # of a count
size = "too low" if gradient_share < reached["task"] else "too high"
assert abs(reached["task"] * p.num_samples - expected_count) < allowed, f"`gradient_share` is {size}"
assert 0 < gradient_share < 1e-2, "how often is this gate neither 0 nor 1?"
assert still_reaches == max(reached, key=reached.get), "`still_reaches`: look at (H6) and (H4)"

# %% [markdown]
# ## 6. E[H] from the survival function
#
# What is the mean of a gate? We derive it twice, because the two forms have different uses. For the first, write
# $h = \int_0^1 \mathbb 1[t<h]\,dt$ and exchange the integral with the expectation. This shows that
# $E[H] = \int_0^1 P(H>t)\,dt$ for every variable in [0, 1]. Inside (0, 1) we have $P(H>t) = 1-F_T(t)$. Now substitute
# $k = (t-l)/(r-l)$, and then $y = k^a$:
#
# $$E[H] = (r-l)\int_{k_0}^{k_1}(1-k^a)^b\,dk
# = \frac{r-l}{a}\Big[B\big(k_1^a;\tfrac1a,b+1\big)-B\big(k_0^a;\tfrac1a,b+1\big)\Big], \tag{H7}$$
#
# with the incomplete beta function $B(x;\alpha,\beta) = \int_0^x y^{\alpha-1}(1-y)^{\beta-1}dy$. In the same way you
# get $E[H^2] = \int_0^1 2t\,P(H>t)\,dt$.
#
# > You can integrate this numerically without trouble. The integrand is smooth, because $k$ stays in $[k_0, k_1]$, away
# > from the poles of the density.
#
# In the picture below, the mean of each gate is the shaded area.

# %%
def beta_between(low, high, p_power, q_power):
    y = low * (high / low) ** cells  # midpoint rule in ln y, because y^(p - 1) may have a pole at 0
    return math.log(high / low) * (y**p_power * (1 - y) ** (q_power - 1)).mean()


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
shapes_shown = ((0.1, 1.0), (p.a, p.b), (5.0, 1.0))
fig, axes = figures.new_figure(ncols=3, size=(13, 4.2), title="The mean of a gate is the area under P(H > t)")
for ax, shapes in zip(axes, shapes_shown, strict=True):
    one = HardKuma(*shapes, p.left, p.right)
    figures.draw_mean_as_area(one, ax, title=f"a = {shapes[0]:g}, b = {shapes[1]:g}: area {one.mean:.3f}")
fig

# %%
print(f"E[H]: survival {mean_survival:.8f}, incomplete beta {mean_beta:.8f}, package {gate.mean:.8f}")
print(f"      {p.num_samples} draws {draws.mean():.4f}")

# %% [markdown]
# ## 7. E[H] over the three configurations
#
# For the second form we add up the three *configurations* of a gate, which are $H = 0$, $H = 1$ and $0 < H < 1$. The
# value 0 contributes nothing, the value 1 contributes $\pi_1$, and the interval contributes the rest. In the interval
# $h = l+(r-l)k$. With $y=k^a$, the integral $\int_{k_0}^{k_1} k f_K(k)\,dk$ becomes an incomplete beta function again:
#
# $$E[H] = \pi_1+\pi_c\,E[H\mid 0<H<1]
# = \pi_1 + l\,\pi_c + (r-l)\,b\,\Big[B\big(k_1^a;1+\tfrac1a,b\big)-B\big(k_0^a;1+\tfrac1a,b\big)\Big].
# \tag{H8}$$
#
# > Partial integration turns (H7) into (H8). For the middle form of (H8) we need only an average over the interior,
# > $E[g(H)\mid 0<H<1] = \int_0^1 g(h(v))\,dv$. Here $h(v)$ is a quantile of the interior, so a share $v$ of the draws
# > inside $(0, 1)$ lies below $h(v)$. This gives $P(H>h(v)) = (1-v)P(H\ne0)+v\,\pi_1$. The package computes the mean,
# > the variance, the entropy and the KL from these quantiles by one fixed rule of numerical integration, and never
# > subtracts two large numbers.
# >
# > The authors' `HardKuma.mean` returns $E[K]$, the mean of the *base*. This is neither $E[H]$ nor
# > $E[T] = l+(r-l)E[K]$.
#
# How much does it matter which mean you take? We let $b$ grow and plot how far $E[K]$ and $E[T]$ are from $E[H]$.

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
assert not paper_ends or (examples.base.mean[1:] > 1.5 * examples.mean[1:]).all(), "E[K] is far from E[H]"

# %% tags=["figure"]
shape_b = torch.logspace(-1, 1.5, 200)
swept = HardKuma(math.log(2), shape_b, p.left, p.right)
off = {"E[K] of the base, less E[H]": swept.base.mean - swept.mean}
off["E[T] of the stretched, less E[H]"] = p.left + width * swept.base.mean - swept.mean
finding = "E[K] differs from E[H] by up to {:.3f}, E[T] by up to {:.3f}".format(*(x.abs().max() for x in off.values()))
fig, ax = figures.new_figure(size=(8, 4.4))
figures.draw_lines(shape_b, off, ax, title=finding, xlabel="b (a = ln 2)", ylabel="difference from E[H]", xscale="log")
ax.axhline(0, color="black", linewidth=0.8)
fig

# %%
for shape, rectified, base in zip(examples.b, examples.mean, examples.base.mean, strict=True):
    print(f"a = ln 2, b = {shape:6.3f}: E[H] = {rectified:.6f}, E[K] = {base:.6f}")

# %% [markdown]
# ## 8. Deciding at test time
#
# When you use a trained model, you do not want random gates. The rule of the paper (sec. 5) picks the most probable of
# the three configurations. If this is the interval, the rule takes the expected value of the underlying Kumaraswamy. We
# write $z$ for the value that the word gets:
#
# $$z = \begin{cases} 0 & \pi_0 \text{ is the largest},\\ 1 & \pi_1 \text{ is the largest},\\
# E[K] & \pi_c \text{ is the largest}. \end{cases} \tag{H9}$$
#
# > "Underlying" is meant literally. The value is $E[K]$, which is neither stretched nor rectified. This has two
# > consequences. First, the value jumps where the winner changes, and `04_explore_shapes` maps these jumps. Second, a
# > word is "selected" if $z\ne0$, and the number of words selected in this way is *not* the expected number of
# > section 3. Take a gate with $(\pi_0,\pi_c,\pi_1) = (.45, .35, .20)$. It adds .55 to the expected number, and at test
# > time its word is not selected at all. Every run of this repository reports both rates.
#
# The setting `rule` names this decision `argmax`. You can choose three others. With `argmax_conditional`, if the
# interval wins, the value is the mean of the gate inside the interval, $E[H \mid 0 < H < 1]$. With `expected` the value
# is always $E[H]$. With `threshold` it is 1 if $P(H \ne 0) \ge 1/2$, and 0 otherwise. We compare all four as $b$ grows.

# %%
decided = {rule: decide(swept, rule) for rule in ("argmax", "argmax_conditional", "expected", "threshold")}
expected_rate = 1 - swept.prob_zero
winner = torch.stack([swept.prob_zero, swept.prob_interior, swept.prob_one]).argmax(0)

# %% tags=["check"]
assert torch.equal(decided["argmax"] == 0, winner == 0), "0 where the mass at 0 is the largest"
assert torch.allclose(decided["argmax"][winner == 1], swept.base.mean[winner == 1]), "E[K] inside"
assert ((decided["expected"] > 0) | (swept.mean == 0)).all(), "E[H] is never exactly 0: no rationale at all"

# %% tags=["figure"]
words = {"argmax": "most probable, E[K] inside", "argmax_conditional": "most probable, E[H | inside] inside",
         "expected": "always E[H]", "threshold": "1 if P(H ≠ 0) ≥ 1/2"}  # fmt: skip
curves = {words[rule]: value for rule, value in decided.items()} | {"for comparison: P(H ≠ 0)": expected_rate}
fig, ax = figures.new_figure(size=(11, 4.6))
figures.draw_lines(shape_b, curves, ax, title="Rules disagree most where the gate is undecided",
                   xlabel="b (a = ln 2)", ylabel="value of the gate", xscale="log")
ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
fig

# %%
dropped = (decided["argmax"] == 0) & (expected_rate > 0.25)
print(f"gates dropped although they select with more than 25 %: {dropped.sum()} of {len(shape_b)}")
print(f"largest expected selection of a dropped gate: {expected_rate[decided['argmax'] == 0].max():.3f}")

# %% [markdown]
# ## 9. Entropy
#
# How uncertain is a gate? With respect to the measure $\mu$ of section 4, its entropy $-E[\ln p(H)]$ has one part for
# each mass and one for the interior:
#
# $$\mathrm{Ent}(H) = -\pi_0\ln\pi_0-\pi_1\ln\pi_1-\int_0^1 f_T(t)\ln f_T(t)\,dt. \tag{H10}$$
#
# > The first two terms are Shannon entropies and the last is a differential entropy, so the sum may be negative. For
# > $a=b=1$ the density is $f_T = 1/(r-l)$, and you can write out all terms:
# > $\mathrm{Ent}(H) = -k_0\ln k_0 -(1-k_1)\ln(1-k_1)+(k_1-k_0)\ln(r-l)$.
#
# We compute (H10) by hand, by the package and from draws. Then you see which gates have the largest entropy.

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
family = {f"a = {fixed:g}": HardKuma(fixed, shape_b, p.left, p.right) for fixed in (0.1, 0.5, 2.0)}
entropies = {name: member.entropy() for name, member in family.items()}
most = max(entropies, key=lambda name: entropies[name].max())
finding = f"Of these gates, those with {most} can have the largest entropy"
figures.draw_panel(figures.draw_lines, shape_b, entropies, title=finding, xlabel="b", ylabel="entropy (nats)",
                   xscale="log", size=(8, 4.4))

# %%
print(f"by hand {entropy_by_hand:.6f}, package {gate.entropy():.6f}, draws {entropy_by_draws.mean():.4f}")
for name, member in family.items():
    top = entropies[name].argmax()
    masses = [one[top].item() for one in (member.prob_zero, member.prob_interior, member.prob_one)]
    print(f"{name}: the entropy is at most {entropies[name][top]:.2f} nats, where P(0), P(0<H<1), P(1) are "
          f"{masses[0]:.2f}, {masses[1]:.2f}, {masses[2]:.2f}")

# %% [markdown]
# The printed masses are those at the top of each curve. With the ends of the paper, the smallest of the three values of
# $a$ lets a gate share its probability most evenly between 0, 1 and the interval between them, and an even share makes
# the entropy large. (If $a$ is far smaller, the interval loses its mass, and the largest entropy falls again. You can
# try $a = 0.01$.) But a low entropy does not make a gate certain. A uniform density on (0, 1), which is anything but
# certain, has the entropy 0.

# %% tags=["check"]
tops = [one.max().item() for one in entropies.values()]
sorted_tops = sorted(tops, reverse=True)
assert not paper_ends or tops == sorted_tops, "of these three, the smaller a is, the larger the entropy can be"

# %% [markdown]
# ## 10. KL between two gates
#
# How different are two gates? Every rectified gate has its masses at 0 and at 1, whatever its $l$ and $r$ are, so we
# can also compare two gates with different ends. Let $p$ and $q$ be the densities (H5) of the two gates. The symbols
# with a tilde, such as $\tilde\pi_0$, are the masses and the density of $q$. Then $E_p[\ln p-\ln q]$ has three parts:
#
# $$\mathrm{KL}(p\,\|\,q) = \pi_0\ln\frac{\pi_0}{\tilde\pi_0}+\pi_1\ln\frac{\pi_1}{\tilde\pi_1}
# +\pi_c\,E\big[\ln f_T(H)-\ln \tilde f_T(H)\,\big|\,0<H<1\big]. \tag{H11}$$
#
# > The first two terms are exact, and the third is an average over the interior, as in section 7. If both gates have
# > the *same* ends, we can say more. Stretching both in the same way does not change their divergence, because the
# > factors $1/(r-l)$ cancel. Rectifying can only make it smaller. After rectifying, you no longer know where in a tail
# > the draw fell. So the KL of two gates with shared ends is at most the KL of their bases. Without shared ends this
# > bound does not hold. Two gates with the same base and different ends differ, although the KL of their bases is 0.
# >
# > The published objective of HardKuma has no KL term. The package computes it so that you can add one, which pulls the
# > gates towards a law that you choose (a *prior*).
#
# We compute the three parts by hand and compare their sum with the package. You can also see the bound by the bases in
# the picture.

# %%
other = HardKuma(2.0, 1.0, p.left, p.right)
divergence = kl_divergence(gate, other)
terms = {"at 0": gate.prob_zero * (gate.log_prob_zero - other.log_prob_zero),
         "at 1": gate.prob_one * (gate.log_prob_one - other.log_prob_one),
         "between": (log_density.exp() * (log_density - other.log_prob(cells))).mean()}
log_ratio = gate.log_prob(draws) - other.log_prob(draws)
wider = HardKuma(p.a, p.b, p.left - 0.1, p.right + 0.1)  # the same base, other ends
between_ends = kl_divergence(gate, wider)
log_ratio_of_ends = gate.log_prob(draws) - wider.log_prob(draws)

# %% tags=["check"]
assert torch.isclose(sum(terms.values()), divergence, rtol=1e-6), "eq. (H11) by integration"
assert abs(log_ratio.mean() - divergence) < 5 * log_ratio.std() / math.sqrt(p.num_samples), "by sampling"
assert 0 <= divergence <= kl_divergence(gate.base, other.base), "the bound by the bases, for shared ends"
allowed = 5 * log_ratio_of_ends.std() / math.sqrt(p.num_samples)
assert abs(log_ratio_of_ends.mean() - between_ends) < allowed, "other ends, by sampling"
assert between_ends > kl_divergence(gate.base, wider.base), "without shared ends the bound does not hold"
assert kl_divergence(gate, gate).abs() < 1e-12

# %% tags=["figure"]
many = HardKuma(p.a, shape_b, p.left, p.right)
compared = {"gates": kl_divergence(many, gate), "bases": kl_divergence(many.base, gate.base)}
figures.draw_panel(figures.draw_lines, shape_b, compared, title="With shared ends, gates are closer than their bases",
                   xlabel="b", ylabel=f"KL to b = {p.b:g} (nats)", xscale="log", size=(8, 4.4))

# %%
print(f"KL of HardKuma({p.a:g}, {p.b:g}) on ({p.left:g}, {p.right:g}) to the same shapes on ({wider.left:g}, "
      f"{wider.right:g}): {between_ends:.3f} nats; of their bases: 0")
print(f"KL = {divergence:.6f} nats =", " + ".join(f"{value:.4f} {name}" for name, value in terms.items()))

# %% [markdown]
# ## 11. The same recipe on another base: Hard Concrete
#
# Our recipe was to stretch and to rectify. It works for every base whose cdf we know. Louizos et al. (2018) apply it to
# a Binary Concrete variable. This is logistic noise, $\mathrm{logit}\,U = \ln\frac{U}{1-U}$ of a uniform $U$, shifted
# by a number $m$ (its *logit*), divided by a temperature $\tau$ and passed through the sigmoid $\sigma$. Its cdf has a
# closed form too:
#
# $$S = \sigma\!\left(\frac{\mathrm{logit}\,U+m}{\tau}\right), \quad
# P(S>s) = \sigma(m-\tau\,\mathrm{logit}\,s), \quad
# P(H\ne0) = \sigma\!\left(m-\tau\ln\tfrac{-l}{r}\right), \quad
# \pi_1 = \sigma\!\left(m-\tau\ln\tfrac{1-l}{r-1}\right). \tag{H12}$$
#
# DiffMask (De Cao et al. 2020), which you meet in `41_diffmask`, uses $\tau=0.2$ and the half-open support $l=-0.2$,
# $r=1$. With $r = 1$ we have $\ln\frac{1-l}{r-1} = \infty$, so $\pi_1 = 0$ exactly.
#
# > We get the cdf from $S \le s \iff \mathrm{logit}\,U \le \tau\,\mathrm{logit}\,s-m$, and the masses follow from
# > $\mathrm{logit}\,k_0 = \ln(-l/r)$. Two masses determine $(m, \tau)$. So you can copy the three masses of any
# > HardKuma gate with a Hard Concrete gate, and only the density between them differs. (De Cao et al. print the
# > stretch as $s(l-r)+r$, which gives the mirrored gate. See section 2 of `41_diffmask`.)
#
# Does the density between the masses differ much? We copy the masses of our gate, whose density has the shape of a U,
# and draw both densities.

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
h = cells[100::500]
densities = {"HardKuma": gate.log_prob(h).exp(), "Hard Concrete": concrete.log_prob(h).exp()}
figures.draw_panel(figures.draw_lines, h, densities, title="A U of the same masses: the two gates hardly differ",
                   xlabel="h", ylabel="density (per unit of h)", size=(8, 4.4), limits={"ylim": (0, None)})

# %%
print(f"HardKuma({p.a:g}, {p.b:g}) has the masses of the Hard Concrete with logits {concrete.logits:.3f} and "
      f"temperature {concrete.temperature:.3f}")
print(f"KL between the two {kl_divergence(gate, concrete):.2e}; E[H] {gate.mean:.4f} and {concrete.mean:.4f}")
open_at_five = half_open.log_prob_nonzero.exp()
print(f"DiffMask's gate at logit 5: P(z != 0) = {open_at_five:.5f}, P(z = 1) = {half_open.prob_one:g}")

# %% [markdown]
# **Exercise 3** (predict, change, explain; 15 minutes). Some HardKuma gates are too asymmetric for a Hard Concrete gate
# to copy. *Predict* which of $(a, b) = (5, 1), (0.3, 0.3), (2, 5)$ is copied worst (`worst`, which is 0, 1 or 2).
# *Change* the gate that we copied in section 11 to each of these three, and make a Hard Concrete gate with its masses
# (`copies`, a list of three). Compute the KL of each original to its copy (`lost`, a list of three). *Explain* what the
# two masses tell you about the density between them.

# %% tags=["prediction"]
worst = 2

# %% tags=["solution"]
copies, lost = [], []
for shapes in ((5.0, 1.0), (0.3, 0.3), (2.0, 5.0)):
    original = HardKuma(*shapes, p.left, p.right)
    nonzero, one = torch.logit(original.log_prob_nonzero.exp()), torch.logit(original.prob_one)
    copied_temperature = (nonzero - one) / (logit_one - logit_zero)
    copies.append(HardConcrete(nonzero + copied_temperature * logit_zero, copied_temperature, p.left, p.right))
    lost.append(kl_divergence(original, copies[-1]))
    print(f"HardKuma{shapes}: KL to its copy {lost[-1]:.4f} nats")
# The U is copied almost exactly, because a Hard Concrete gate of a low temperature has the shape of a U, too. The slope
# and the hump are copied less well. The two masses do not say where in (0, 1) the remaining probability lies, and
# the base of every copy is symmetric in the logit.

# %% tags=["check"]
originals = [HardKuma(*shapes, p.left, p.right) for shapes in ((5.0, 1.0), (0.3, 0.3), (2.0, 5.0))]
for original, copy, claimed in zip(originals, copies, lost, strict=True):
    for name in ("prob_zero", "prob_one"):
        assert torch.isclose(getattr(copy, name), getattr(original, name)), f"a copy has another {name}"
    sampled = original.sample((p.num_samples,))
    log_ratio = original.log_prob(sampled) - copy.log_prob(sampled)  # its mean is the KL
    allowed = 5 * log_ratio.std() / math.sqrt(p.num_samples)  # five standard errors
    size = "too low" if claimed < log_ratio.mean() else "too high"
    assert abs(claimed - log_ratio.mean()) < allowed, f"a KL of {claimed:.4f} is {size}"
assert worst == list(lost).index(max(lost)), "`worst` is not what you found"

# %% [markdown]
# ## 12. Compared with the Kumaraswamy of torch
#
# If we compute the base inaccurately, the gate is inaccurate, too. You may ask why we did not take the Kumaraswamy that
# torch has. It is written as a chain of powers, like the textbook formulas. We compare both in float32 on a grid of
# shapes, $a, b \in [10^{-4}, 10^4]$. The table below has one row for each of these questions. Its first four rows are
# shares.
#
# 1. Which share of the draws is exactly 0 or 1? The density may be infinite there, so the package moves such a draw to
#    the nearest number inside the interval.
# 2. For which share of the draws is the log density not finite?
# 3. Which share of the modes is not a number, among the densities with one peak ($a, b \ge 1$, not both 1)?
# 4. At three fixed points and for all shapes, which share of the log densities is not finite?
# 5. Where the log density is finite, how far is it from the value that we compute with 60 digits?

# %%
side = torch.logspace(-4, 4, 17, dtype=torch.float32)
shapes_a, shapes_b = (shape.flatten() for shape in torch.meshgrid(side, side, indexing="ij"))
points = torch.tensor([0.001, 0.3, 0.999], dtype=torch.float32)


def exact_log_density(k: float, a: float, b: float) -> float:
    """ln a + ln b + (a - 1) ln k + (b - 1) ln(1 - k^a), with 60 digits."""
    with mpmath.workdps(60):
        k, a, b = (mpmath.mpf(x) for x in (k, a, b))
        return float(mpmath.log(a * b) + (a - 1) * mpmath.log(k) + (b - 1) * mpmath.log1p(-(k**a)))


pairs = list(zip(shapes_a.tolist(), shapes_b.tolist(), strict=True))
exact_logs = torch.tensor([[exact_log_density(k, *pair) for pair in pairs] for k in points.tolist()])


def tried(family: type) -> list[float]:
    """Shares and the largest error of one implementation on the grid."""
    law = family(shapes_a, shapes_b, validate_args=False)
    drawn, one_peak = law.sample((1000,)), (shapes_a >= 1) & (shapes_b >= 1) & (shapes_a * shapes_b > 1)
    at_end, log_drawn, log_points = (drawn == 0) | (drawn == 1), law.log_prob(drawn), law.log_prob(points[:, None])
    error, finite = (log_points - exact_logs).abs() / (1 + exact_logs.abs()), log_points.isfinite()
    shares = [at_end, ~log_drawn.isfinite(), law.mode[one_peak].isnan(), ~finite]
    return [share.double().mean().item() for share in shares] + [error[finite].max().item()]


rows = ["draws that are exactly 0 or 1", "draws whose log_prob is not finite", "modes that are not a number",
        "log_prob not finite at three fixed points k", "largest error of log_prob / (1 + |exact|)"]  # fmt: skip
families = {"rationale": type(gate.base), "torch": torch.distributions.Kumaraswamy}
beside = pd.DataFrame({name: tried(family) for name, family in families.items()}, index=rows)

# %% tags=["check"]
assert (beside["rationale"].iloc[:4] == 0).all(), "no draw at an end, no infinite logarithm, no lost mode"
assert beside["rationale"].iloc[4] < 1e-5, "a few units in the last place of float32, times the terms that are added"

# %%
told = pd.concat([beside.iloc[:4].map("{:.1%}".format), beside.iloc[4:].map("{:.1e}".format)])
figures.show_table(told.rename_axis("on 17 x 17 pairs of shapes, float32").reset_index())

# %% [markdown]
# The chain of powers fails where the shapes are small. A gate that is nearly open or nearly shut often has a small
# shape, so we meet this case in training. There the draw of torch rounds to 0 (if $a$ is small) or to 1 (if $b$ is
# small), and the logarithm of its density is infinite or not a number, so you could not train on it. Written with
# $\ln(1 - e^x)$, the same law is finite on the whole grid.

# %% [markdown]
# ## Summary
#
# - We stretch (H1) and clip (H2). This gives two masses in closed form (H3) and, *beside* them, a density that is not
#   rescaled (H5).
# - If you compute in the forms of (H4), the logarithms of the masses stay finite and keep their gradients, even where a
#   mass itself is too small for a float. If you add an epsilon or clamp the logarithm, the mass stops at a limit, and
#   there its gradient is 0.
# - Samples pass gradients between the kinks (H6), and if the loss is Lipschitz, you get an unbiased gradient. For a
#   count of selected words you need (H3).
# - You know two forms of $E[H]$, (H7) and (H8). It is not $E[K]$.
# - The decision (H9), the entropy (H10) and the KL (H11) each have a part for 0, for 1 and for the interval. The same
#   recipe works for every base with a known cdf (H12).
#
# The four wishes of `01_choosing` are fulfilled. This gate is exactly 0 or 1 with positive probability, its draws pass
# gradients, the probability of 0 is a formula, and no shapes make the gate certain.
#
# **Next**: in `04_explore_shapes` you move $a$, $b$, $l$ and $r$ with sliders. In `05_count_words` we put one gate
# on every word.
