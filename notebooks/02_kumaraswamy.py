# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Derive the Kumaraswamy
#
# In `01_choosing` you met a difficulty and formed a wish. A choice of words has no derivative. REINFORCE gets around
# this, but its estimate of the gradient has a large variance. We wished for a gate that is exactly 0 or exactly 1, and
# that still passes a gradient through its own draw.
#
# This notebook and the next one fulfil the wish in two steps. Here we build a random number in the open interval (0,
# 1). We make it from a uniform number by a formula, so its draws have derivatives. In `03_hardkuma` we stretch this
# interval and clip it, and only then can the gate be exactly 0 or 1.
#
# **You will** build a distribution on (0, 1) out of one uniform number, and compute with it in float32 without losing
# digits.
#
# **You will learn**
# - to get the density, the cumulative distribution function (cdf), its inverse (the quantile function), the moments,
#   the mode and the entropy, most of them by one substitution, $y = k^a$
# - to differentiate a *sample* with respect to the parameters of its distribution
# - where the textbook formulas break in float32, and which logarithm repairs all of them
# - to compare two such distributions by their KL divergence.
#
# **You need** calculus of one variable. You need no data and no GPU. The notebook runs in less than a minute, and with
# pencil and paper you will spend about an hour on it.

# %% tags=["parameters"]
a: float = 2.0  # first shape of the worked example
b: float = 5.0  # second shape of the worked example
num_samples: int = 100_000  # random draws where a formula is checked by sampling
seed: int = 0  # of the draws

# %%
import math

import torch
from torch.distributions import Beta, kl_divergence

from rationale import figures
from rationale.distributions import Kumaraswamy, log1mexp
from rationale.runs import validated

# %%
p = validated(globals())
torch.manual_seed(p.seed)
torch.set_default_dtype(torch.float64)  # float32 only where it is the subject
example = Kumaraswamy(p.a, p.b)
grid = torch.linspace(0.0005, 0.9995, 1000)  # midpoints of 1000 cells of (0, 1), nearly

# %% [markdown]
# ## 1. From a uniform number to a density
#
# We start with a uniform number because every generator can draw one. Take $U$ uniform on (0, 1) and let
# $K = \left(1 - U^{1/b}\right)^{1/a}$, with two *shapes* $a, b > 0$. We chose this formula because each of its steps
# can be undone, as you see now. Which distribution does $K$ have? The larger $U$ is, the smaller is $K$. So $K \le k$
# means that $U$ is at least some number, and we find this number by solving for $U$. A uniform $U$ is at least $v$ with
# probability $1 - v$, which gives the last step:
#
# $$P(K \le k) = P\!\left(1 - U^{1/b} \le k^a\right) = P\!\left(U \ge (1-k^a)^b\right) = 1-(1-k^a)^b .$$
#
# This is the cumulative distribution function (cdf) of $K$. The density is its derivative, by the chain rule:
#
# $$F(k) = 1-(1-k^a)^b, \qquad f(k) = \frac{dF}{dk} = a\,b\,k^{a-1}(1-k^a)^{b-1}, \qquad 0<k<1. \tag{K1}$$
#
# Kumaraswamy (1980) proposed this distribution, or *law*, for hydrology. It is a simple relative of the Beta
# distribution, whose density is proportional to $k^{a-1}(1-k)^{b-1}$. Bastings et al. (2019, sec. 3) use it because we
# can invert its cdf.
#
# > You can also read the same steps backwards, as a *change of variables*. The variable $Y = K^a = 1 - U^{1/b}$ has the
# > cdf $P(Y \le y) = 1-(1-y)^b$ and so the density $b(1-y)^{b-1}$, which is that of a Beta(1, b). With
# > $dy/dk = a k^{a-1}$ we get $f_K(k) = f_Y(k^a)\,|dy/dk|$, and this is (K1). So if $a = 1$ or $b = 1$, the Kumaraswamy
# > *is* a Beta. For all other shapes it is not.
#
# Below we write (K1) as code and also compute it by the change of variables. You can then see in a picture what the two
# shapes do.

# %%
def density(k, a, b):
    return a * b * k ** (a - 1) * (1 - k**a) ** (b - 1)


def changed_variables(k, a, b):
    return Beta(1.0, b).log_prob(k**a).exp() * a * k ** (a - 1)


# %% tags=["check"]
by_package = example.log_prob(grid).exp()
assert torch.allclose(density(grid, p.a, p.b), by_package, rtol=1e-9), "eq. (K1) by hand"
assert torch.allclose(changed_variables(grid, p.a, p.b), by_package, rtol=1e-9), "by change of variables"
step = 1e-5  # a central difference is right to step^2, about 1e-10, times the third derivative
slope = (example.cdf(grid + step) - example.cdf(grid - step)) / (2 * step)
assert torch.allclose(slope[50:-50], by_package[50:-50], rtol=1e-5, atol=1e-6), "f is the derivative of F"
for shape in (0.3, 1.0, 4.0):  # the two coincidences
    assert torch.allclose(Kumaraswamy(1.0, shape).log_prob(grid), Beta(1.0, shape).log_prob(grid))
    assert torch.allclose(Kumaraswamy(shape, 1.0).log_prob(grid), Beta(shape, 1.0).log_prob(grid))

# %% tags=["figure"]
several = tuple(dict.fromkeys([(0.5, 0.5), (2.0, 2.0), (5.0, 1.0), (p.a, p.b)]))
fig, ax = figures.new_figure(size=(8, 4.6))
for shapes in several:
    figures.draw_kumaraswamy(*shapes, ax, title="Two shapes make a U, a slope or a hump")
fig

# %%
for shapes in several:
    low, middle, high = Kumaraswamy(*shapes).cdf(torch.tensor([0.1, 0.5, 0.9])).tolist()
    print(f"Kuma{shapes}: P(K <= 0.1) = {low:.3f}, P(K <= 0.5) = {middle:.3f}, P(K <= 0.9) = {high:.3f}")

# %% [markdown]
# Near 0 the density behaves like $k^{a-1}$, so $a$ controls that end. Near 1 we have $1-k^a \approx a(1-k)$, so the
# density behaves like $(1-k)^{b-1}$, and $b$ controls this end. If a shape is below 1, the density grows without
# bound at the end that this shape controls, and we say that it has a *pole* there. If the shape is above 1, the
# density falls to zero at this end. Equal shapes do not give a symmetric density. As you see above, less than half of
# the mass of Kuma(2, 2) lies below 1/2.
#
# ## 2. Keep the digits: everything from one logarithm
#
# We now know the formulas, and you could type them in as they stand. In float32 that fails. The textbook cdf
# $1-(1-k^a)^b$ is exactly 0 as soon as $k^a$ is very small. The largest float32 below 1 is $1 - 2^{-24}$. If $k^a$ is
# less than half of $2^{-24} \approx 6 \cdot 10^{-8}$, the inner difference $1-k^a$ is rounded to 1. We avoid this if we
# first compute the logarithm of the *survival* probability $P(K > k)$:
#
# $$\ln P(K>k) = b\,\ln\!\left(1-e^{\,a\ln k}\right) = b\;\mathrm{log1mexp}(a\ln k), \qquad
# F(k) = -\mathrm{expm1}\big(\ln P(K>k)\big). \tag{K2}$$
#
# Wasserman and Mateos (2025) build the whole distribution on this form.
#
# > $\mathrm{log1mexp}(x) = \ln(1-e^x)$ for $x<0$ needs two formulas, each accurate on one side. If $x$ is near 0, then
# > $e^x$ is near 1 and the difference loses digits. The function `expm1` computes $e^x - 1$ without cancellation, so we
# > use $\ln(-\mathrm{expm1}(x))$ there. If $x$ is far below 0, then $e^x$ is tiny and disappears when it is subtracted
# > from 1. The function `log1p` keeps it, so we use $\mathrm{log1p}(-e^x)$ there. At $x=-\ln 2$ both formulas are
# > accurate, and the package changes from one to the other. The derivative of log1mexp is *minus* the odds of $e^x$,
# > that is, $-e^x/(1-e^x)$.
#
# How much do we gain? We compute the cdf at $k = 0.1$ in float32 by both formulas, and compare them with float64.

# %%
single = torch.float32
a_single = torch.logspace(-1, 1.2, 200, dtype=single)
tenth = torch.tensor(0.1, dtype=single)
textbook = 1 - (1 - tenth**a_single) ** 5.0
ours = Kumaraswamy(a_single, torch.full_like(a_single, 5.0)).cdf(tenth)
truth = Kumaraswamy(a_single.double(), torch.full_like(a_single, 5.0).double()).cdf(tenth.double())
error = {"the textbook formula": textbook, "eq. (K2)": ours}
error = {name: (value.double() / truth - 1).abs().clamp(min=1e-9) for name, value in error.items()}

# %% tags=["check"]
near, far = -torch.logspace(-12, -6, 50), -torch.logspace(1.5, 2.5, 50)
# series of ln(1 - e^x): ln(-x) + x/2 + x^2/24 near 0, -e^x - e^2x/2 far from it; one term more than is needed
assert torch.allclose(log1mexp(near), torch.log(-near) + near / 2, rtol=1e-14)
assert torch.allclose(log1mexp(far), -far.exp(), rtol=1e-13, atol=0)
points = -torch.logspace(-3, 1, 50).requires_grad_()
(slope_of_log,) = torch.autograd.grad(log1mexp(points).sum(), points)
assert torch.allclose(slope_of_log, -points.exp() / (1 - points.exp()), rtol=1e-12), "minus the odds of e^x"
# float32 rounds to 6e-8; k^a carries that error times |a ln k|, at most 37 here
assert error["eq. (K2)"].max() < 5e-6, "five digits or more, wherever it is"
assert error["the textbook formula"].max() == 1, "the textbook formula loses all of them"
closing = torch.tensor(12.0, dtype=single, requires_grad=True)  # a, where the textbook cdf of 0.1 is exactly 0
logs = {"textbook": (1 - (1 - tenth**closing) ** 5.0).log(), "epsilon": (1 - (1 - tenth**closing) ** 5.0 + 1e-6).log(),
        "(K2)": log1mexp(5.0 * log1mexp(closing * tenth.log()))}  # fmt: skip
slopes = {name: torch.autograd.grad(value, closing)[0] for name, value in logs.items()}
assert slopes["textbook"].isinf() and abs(slopes["epsilon"]) < 1e-4, "infinite, or nearly 0"
assert torch.isclose(slopes["(K2)"], tenth.log(), rtol=1e-5), "d ln F / da is about ln k"

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, a_single, error,
                   title="The textbook cdf loses all digits, its logarithm keeps them", xlabel="a",
                   ylabel="relative error of F(0.1), b = 5", xscale="log", yscale="log", size=(8, 4.4))

# %%
lost = a_single[textbook == 0]
print(f"the textbook cdf is exactly 0 from a = {lost.min():.2f} on; there F = {truth[textbook == 0][0]:.1e}")
for name, size in error.items():
    print(f"largest relative error by {name}: {size.max():.0e}")

# %% [markdown]
# Where the textbook cdf is exactly 0, its logarithm is $-\infty$, and so is the derivative of this logarithm. An
# optimiser that has moved a gate there cannot bring it back. If we add a small epsilon before we take the logarithm,
# we no longer see the infinity, but then the derivative of $\ln F$ by $a$ is nearly 0. What should it be? If $k^a$ is
# tiny, then $F \approx b\,k^a$, and so $\ln F \approx \ln b + a \ln k$. The true derivative is therefore close to
# $\ln k$, and this is what we get with (K2).
#
# **Exercise 1** (predict, change, explain; 8 minutes). With $a = b = 1$ the cdf is $F(k) = k$. Compute
# $1 - \exp(\ln P(K > k))$ in float32 for $k = 10^{-1}, 10^{-2}, \dots, 10^{-12}$. The package gives you $\ln P(K > k)$
# as `Kumaraswamy(a, b).log_survival(k)`. *Predict* for how many of these twelve numbers the result is not 0
# (`still_there`). *Change* exp to expm1, as in (K2), and compute both versions (`textbook_cdf` and `repaired_cdf`,
# tensors [12]). *Explain* where the digits go.

# %% tags=["prediction"]
still_there = 7

# %% tags=["solution"]
small_k = (10.0 ** -torch.arange(1, 13)).to(single)
log_survival = Kumaraswamy(torch.ones_like(small_k), torch.ones_like(small_k)).log_survival(small_k)
textbook_cdf, repaired_cdf = 1 - log_survival.exp(), -log_survival.expm1()
# For small k the survival probability is near 1, where numbers of float32 are 6e-8 apart. So 1 - exp subtracts two
# numbers that agree in all digits. expm1 computes the difference without rounding a number near 1.

# %% tags=["check"]
true_cdf = 10.0 ** -torch.arange(1, 13)
assert textbook_cdf.dtype == repaired_cdf.dtype == single, "one of the two is not in float32: take dtype=single"
assert ((repaired_cdf / true_cdf - 1).abs() < 1e-6).all(), "`repaired_cdf` is not right to six digits everywhere"
assert (textbook_cdf - true_cdf).abs().max() < 1e-7, "`textbook_cdf` is further off than numbers near 1 are apart"
whole = textbook_cdf.double() * 2**24  # differences of float32 numbers in [1/2, 1] are multiples of their spacing
assert (whole == whole.round()).all(), "`textbook_cdf` has digits that 1 - exp does not leave in float32"
assert (textbook_cdf != 0).sum() == still_there, "count the entries of `textbook_cdf` that are not 0"

# %% [markdown]
# ## 3. Invert the cdf, and sample
#
# We built $K$ from a uniform number. Now we want this map as the inverse of the cdf, because the inverse is what we
# will differentiate later. It is called the *quantile function*. Solve $u = 1-(1-k^a)^b$ for $k$:
#
# $$F^{-1}(u) = \left(1-(1-u)^{1/b}\right)^{1/a}, \qquad
# \ln F^{-1}(u) = \frac1a\,\mathrm{log1mexp}\!\left(\frac{\ln(1-u)}{b}\right). \tag{K3}$$
#
# If $U$ is uniform, then so is $1-U$, so you may sample with either of them. A sample is now a formula in $u$, $a$ and
# $b$. We call this a *reparameterisation*, and it is the reason why the Kumaraswamy is attractive. The quantile
# function of a Beta has no such closed form.
#
# > The package reads the uniform number as the *survival* probability $s = 1-u$, and so it can take $\ln s$ directly.
# > Draws near either end then keep all the digits that the generator gives. A draw near 1 comes from a small $s$, which
# > a float represents accurately. A draw near 0 comes from an $s$ near 1, and there $\ln s$ is accurate, too. Published
# > implementations draw $u$ from (0.001, 0.999). We count in `03_hardkuma` what that does to a gate.
#
# Let us draw samples and compare their histogram with (K1). We also evaluate (K3) in float32 at three small $u$, once
# as it is written on the left and once as the package computes it.

# %%
def quantile(u, a, b):
    return (1 - (1 - u) ** (1 / b)) ** (1 / a)


draws = example.sample((p.num_samples,))
u_single = torch.tensor([1e-7, 1e-5, 1e-3], dtype=single)
steep = Kumaraswamy(*torch.tensor([2.0, 100.0], dtype=single))
in_single = quantile(u_single, 2.0, 100.0), steep.icdf(u_single)
exact_quantile = Kumaraswamy(2.0, 100.0).icdf(u_single.double())

# %% tags=["check"]
assert torch.allclose(quantile(grid, p.a, p.b), example.icdf(grid), rtol=1e-9)
assert torch.allclose(example.cdf(example.icdf(grid)), grid, rtol=1e-10), "F and its inverse"
assert torch.allclose(example.median, example.icdf(torch.tensor(0.5)))
below = (draws < example.median).double().mean()
assert abs(below - 0.5) < 5 * 0.5 / math.sqrt(p.num_samples), "half of the draws are below the median"
assert torch.allclose(in_single[1].double(), exact_quantile, rtol=1e-6), "the package's float32 quantile"

# %% tags=["figure"]
figures.draw_panel(figures.draw_histogram_vs_density, draws, example,
                   title="Uniform numbers through (K3) follow (K1)", size=(8, 4.4),
                   limits={"xlabel": "k", "ylabel": "density (per unit of k)"})

# %%
for u, wrong, right, true in zip(u_single, *in_single, exact_quantile, strict=True):
    print(f"u = {u:.0e} in float32: textbook {wrong:.3e}, package {right:.3e}, true {true:.3e}")

# %% [markdown]
# The inner difference of (K3) has lost digits again. When it rounds to 0, the draw is 0. The derivative of the draw
# has the factor $\left(1-(1-u)^{1/b}\right)^{1/a - 1}$, which is then $0^{1/a - 1} = \infty$ for $a > 1$. You will
# see such a draw in section 7.
#
# ## 4. Moments
#
# What is the mean of $K$, and what are the other moments $E[K^n]$? They need no new idea. We substitute $y = k^a$ in
# $\int_0^1 k^n f(k)\,dk$. Since $a k^{a-1}dk = dy$, a Beta integral remains. This is
# $B(x, w) = \int_0^1 y^{x-1}(1-y)^{w-1}\,dy = \Gamma(x)\,\Gamma(w)/\Gamma(x+w)$, with the gamma function $\Gamma$, for
# which $b\,\Gamma(b) = \Gamma(1+b)$:
#
# $$E[K^n] = b\int_0^1 y^{n/a}(1-y)^{b-1}\,dy = b\,B\!\left(1+\tfrac na,\;b\right)
# = \frac{\Gamma(1+\frac na)\,\Gamma(1+b)}{\Gamma(1+\frac na+b)}. \tag{K4}$$
#
# > Two logarithmic moments follow from this. The derivative of $E[K^n]$ by $n$ is $E[K^n \ln K]$. At $n = 0$, where
# > $E[K^n] = 1$, the derivative of $\ln E[K^n]$ is therefore $E[\ln K]$. We write $\psi$ for the digamma function,
# > which is the derivative of $\ln\Gamma$. Then $E[\ln K] = \frac1a(\psi(1)-\psi(1+b)) = -H_b/a$. Here
# > $H_b = \psi(b+1)+\gamma$ is the harmonic number of a real $b$ (for a whole $b$ it is
# > $1 + \frac12 + \dots + \frac1b$), and $\gamma = -\psi(1) \approx 0.5772$ is Euler's constant. The other moment is
# > $E[\ln(1-K^a)]$. To find it, we compute $P(-\ln(1-K^a) > x) = P(K^a > 1-e^{-x}) = e^{-bx}$. This is the tail of an
# > exponential variable with rate $b$, so $E[\ln(1-K^a)] = -1/b$.
#
# You can confirm all four moments with the draws of section 3.

# %%
def moment(n, a, b):
    return torch.exp(torch.lgamma(1 + n / a) + torch.lgamma(1 + b) - torch.lgamma(1 + n / a + b))


shape = torch.tensor(p.a), torch.tensor(p.b)
euler = -torch.digamma(torch.tensor(1.0))  # Euler's constant
harmonic = torch.digamma(1 + shape[1]) + euler
sampled = {"E[K]": draws, "E[K^2]": draws**2, "E[ln K]": draws.log()}
sampled["E[ln(1-K^a)]"] = (1 - draws**p.a).log()
closed = {"E[K]": moment(1, *shape), "E[K^2]": moment(2, *shape), "E[ln K]": -harmonic / p.a,
          "E[ln(1-K^a)]": -1 / shape[1]}

# %% tags=["check"]
for name, values in sampled.items():  # five standard errors, sd / sqrt(n), are allowed
    allowed = 5 * values.std() / math.sqrt(p.num_samples)
    assert abs(values.mean() - closed[name]) < allowed, name
assert torch.allclose(example.mean, closed["E[K]"])
assert torch.allclose(example.variance, closed["E[K^2]"] - closed["E[K]"] ** 2)

# %% tags=["figure"]
a_wide = torch.logspace(-2, 2, 200)
means = {f"b = {fixed:g}": Kumaraswamy(a_wide, fixed).mean for fixed in (0.1, 1.0, 10.0)}
figures.draw_panel(figures.draw_lines, a_wide, means, title="A larger a raises the mean, a larger b lowers it",
                   xlabel="a", ylabel="E[K]", xscale="log", size=(8, 4.4))

# %%
for name, value in closed.items():
    print(f"{name:13} closed form {value: .6f}    {p.num_samples} draws {sampled[name].mean(): .6f}")

# %% [markdown]
# If $a$ is small, the formula with $\ln\Gamma$ subtracts large numbers. The package pairs the two largest of them and
# expands their difference by Stirling's formula. The mean then keeps its digits down to $a = 10^{-6}$, and the tests
# compare it with arbitrary-precision arithmetic.
#
# ## 5. Mode
#
# Where is the density highest? At a maximum inside (0, 1), the derivative of the logarithm is zero, so
# $\frac{d}{dk}\ln f = \frac{a-1}{k} - \frac{(b-1)\,a\,k^{a-1}}{1-k^a} = 0$. We multiply by $k(1-k^a)$, which gives
# $(a-1)(1-k^a) = a(b-1)k^a$, and solve for $k$:
#
# $$k^* = \left(\frac{a-1}{ab-1}\right)^{1/a} \quad (a, b \ge 1,\ \text{not both } 1). \tag{K5}$$
#
# > If $a, b < 1$, the density has the shape of a U, and the same point is its *minimum*. Both ends are poles, so
# > neither is higher than the other, and the package returns the end on the side of the median. If $a < 1 \le b$, the
# > density falls everywhere and the mode is 0. If $b < 1 \le a$, it rises everywhere and the mode is 1. The uniform
# > distribution has no mode, and the package returns 1/2.
# >
# > `torch.distributions.Kumaraswamy` has had a wrong formula here for years. You can see below what it gives for
# > Kuma(2, 5), whose mode is $\sqrt{1/9} = 1/3$.

# %%
shapes_b = torch.tensor([1.5, 2.0, 5.0, 20.0])
humps = Kumaraswamy(torch.tensor(2.0), shapes_b)
by_hand = ((2 - 1) / (2 * shapes_b - 1)) ** (1 / 2)
u_shaped = Kumaraswamy(0.5, 0.5)
valley = torch.tensor(((0.5 - 1) / (0.5 * 0.5 - 1)) ** (1 / 0.5))
two_five = torch.tensor(2.0), torch.tensor(5.0)
by_torch, ours_at_five = torch.distributions.Kumaraswamy(*two_five).mode, Kumaraswamy(*two_five).mode

# %% tags=["check"]
assert torch.allclose(humps.mode, by_hand)
assert abs(ours_at_five - 1 / 3) < 1e-12, "the mode of Kuma(2, 5)"
highest = grid[humps.log_prob(grid.unsqueeze(-1)).argmax(0)]
assert (humps.mode - highest).abs().max() <= 1e-3, "the mode, to the spacing of the grid"
assert u_shaped.log_prob(valley) <= u_shaped.log_prob(grid).min() + 1e-6, "for a U, (K5) is the lowest point"

# %% tags=["figure"]
shape_b = torch.logspace(0, 2, 200)
hump = Kumaraswamy(3.0, shape_b)
centres = {"mode": hump.mode, "median": hump.median, "mean": hump.mean}
figures.draw_panel(figures.draw_lines, shape_b, centres, title="Mode, median and mean differ most where b is near 1",
                   xlabel="b (a = 3)", ylabel="value of k", xscale="log", size=(8, 4.4))

# %%
for fixed, at in zip(shapes_b.tolist(), humps.mode.tolist(), strict=True):
    print(f"mode of Kuma(2, {fixed:g}): {at:.4f}")
print(f"mode of Kuma(2, 5) in torch {torch.__version__}: {by_torch:.4f}; in the package: {ours_at_five:.4f}")
print(f"Kuma(0.5, 0.5): lowest point {valley:.4f}, median {u_shaped.median:.4f}, 'mode' {u_shaped.mode:g}")

# %% [markdown]
# ## 6. Entropy
#
# How spread out is the distribution? We measure this by the entropy $-E[\ln f(K)]$. Insert (K1), and only the two
# logarithmic moments of section 4 are left: $-\ln(ab) - (a-1)E[\ln K] - (b-1)E[\ln(1-K^a)]$. With $-H_b/a$ and $-1/b$
# in their places we get
#
# $$\mathrm{Ent}(a,b) = 1-\frac1b+\left(1-\frac1a\right)H_b-\ln(ab). \tag{K6}$$
#
# > This is a *differential* entropy, in nats. It is computed from a density, which may exceed 1, so it may be negative.
# > For the uniform law it is 0, which is the maximum on (0, 1). For every other shape it is negative.
#
# You can check (K6) by an integral that uses nothing but the density and the quantile function.

# %%
spread = Kumaraswamy(torch.tensor([0.5, 2.0, 5.0]), torch.tensor([0.5, 5.0, 1.0]))
# midpoint rule over the quantiles: E[-ln f(K)] = integral of -ln f(F^-1(u)) du
cells = (torch.arange(400_000) + 0.5) / 400_000
by_integration = -spread.log_prob(spread.icdf(cells.unsqueeze(-1))).mean(0)

# %% tags=["check"]
# -ln f has logarithmic poles at the ends: the midpoint rule errs by a small multiple of one cell, 2.5e-6
assert torch.allclose(spread.entropy(), by_integration, rtol=0, atol=2e-5)
assert Kumaraswamy(1.0, 1.0).entropy().abs() < 1e-12, "uniform"

# %% tags=["figure"]
a_near_one = torch.logspace(-0.5, 0.8, 200)
entropies = {f"b = {fixed:g}": Kumaraswamy(a_near_one, fixed).entropy() for fixed in (0.5, 1.0, 3.0)}
figures.draw_panel(figures.draw_lines, a_near_one, entropies, title="Only the uniform law has entropy 0", xlabel="a",
                   ylabel="entropy (nats)", xscale="log", size=(8, 4.4))

# %%
for shape_pair, closed_form, integrated in zip(
    ((0.5, 0.5), (2, 5), (5, 1)), spread.entropy(), by_integration, strict=True
):
    print(f"Kuma{shape_pair}: eq. (K6) {closed_form:.6f}, integrated {integrated:.6f}")

# %% [markdown]
# ## 7. Differentiate a sample
#
# We come to the property that we wished for. Hold the random number $u$ fixed and change a parameter a little. The
# sample then moves a little too. To find the derivative we start from (K3), and from the derivative of log1mexp in
# section 2. Let $c = \ln(1-u)/b$, which by (K3) is equal to $\ln(1-k^a)$. Then $\ln k = \frac1a\mathrm{log1mexp}(c)$.
# Here $a$ stands only in the factor $\frac1a$, so $\partial \ln k/\partial a = -\frac{\ln k}{a}$. The other shape
# stands only in $c$, and $dc/db = -c/b$. We multiply both derivatives of $\ln k$ by $k$, and in the last form we insert
# $e^c = 1-k^a$:
#
# $$\frac{\partial k}{\partial a} = -\frac{k\ln k}{a} \ge 0, \qquad
# \frac{\partial k}{\partial b} = \frac{k}{a\,b}\,\frac{e^c}{1-e^c}\,c
# = \frac{k^{1-a}(1-k^a)\ln(1-k^a)}{a\,b} \le 0. \tag{K7}$$
#
# Bastings et al. (2019) train through such samples instead of using REINFORCE.
#
# > We can derive the same without (K3), by implicit differentiation. We write $\theta$ for $a$ or $b$, and $F_\theta$
# > for $\partial F/\partial\theta$. Since $F(k; \theta) = u$ stays constant, $dk/d\theta = -F_\theta / f$. If we
# > average over $u$, for a smooth function $g$, we get the gradient of an expectation,
# > $\partial E[g(K)]/\partial\theta = E[g'(K)\,\partial K/\partial\theta]$.
# >
# > When you compute $\partial k/\partial b$, take the middle form. Its factor $c\,e^c/(1-e^c)$ lies in $(-1, 0)$ for
# > every $k$, while $k^{1-a}$ in the last form may overflow. (To see the bounds, put $c = -x$. The factor becomes
# > $-x/(e^x-1)$, and $e^x - 1 > x$ for $x > 0$.)
#
# We let autograd differentiate the draws and compare the result with (K7). Then we average it over many draws. The
# average should be the derivative of the mean $E[K]$, for which section 4 has the exact formula (K4).

# %%
a_leaf, b_leaf = (torch.tensor(number, requires_grad=True) for number in (p.a, p.b))
learned = Kumaraswamy(a_leaf, b_leaf)
moved = learned.rsample((p.num_samples,))
by_sampling = torch.autograd.grad(moved.mean(), (a_leaf, b_leaf))
by_formula = torch.autograd.grad(learned.mean, (a_leaf, b_leaf))
k = moved.detach()
by_path = {"a": -k * k.log() / p.a, "b": k ** (1 - p.a) * (1 - k**p.a) * (1 - k**p.a).log() / (p.a * p.b)}

# %% tags=["check"]
assert torch.allclose(by_sampling[0], by_path["a"].mean(), rtol=1e-9), "dk/da, eq. (K7)"
assert torch.allclose(by_sampling[1], by_path["b"].mean(), rtol=1e-6), "dk/db, eq. (K7)"
for found, expected, path in zip(by_sampling, by_formula, by_path.values(), strict=True):
    assert abs(found - expected) < 5 * path.std() / math.sqrt(p.num_samples), "unbiased (5 standard errors)"

# %% tags=["figure"]
order = moved.detach().argsort()[:: max(1, p.num_samples // 1000)]
figures.draw_panel(figures.draw_lines, k[order],
                   {f"derivative by {name}": path[order] for name, path in by_path.items()},
                   title="A larger a raises every sample, a larger b lowers it", xlabel="sample k",
                   ylabel="derivative of the sample", size=(8, 4.4))

# %%
for name, found, expected in zip("ab", by_sampling, by_formula, strict=True):
    print(f"dE[K]/d{name}: averaged over samples {found: .5f}, from eq. (K4) {expected: .5f}")

# %% [markdown]
# Is the textbook form good enough for this? We now differentiate it in float32, at a uniform number that a generator
# does produce.

# %%
leaves = [torch.tensor(number, dtype=single, requires_grad=True) for number in (2.0, 100.0)]
u_tiny = torch.tensor(2.0**-24, dtype=single)
textbook_draw = quantile(u_tiny, *leaves)
package_draw = Kumaraswamy(*leaves).icdf(u_tiny)
textbook_grad = torch.autograd.grad(textbook_draw, leaves)
package_grad = torch.autograd.grad(package_draw, leaves)
pairs_to_show = ("textbook", textbook_draw, textbook_grad), ("package ", package_draw, package_grad)
for name, draw, gradient in pairs_to_show:
    print(f"{name}: draw {draw:.3e}, derivatives by a and b: {gradient[0]:.3e}, {gradient[1]:.3e}")

# %% tags=["check"]
assert not all(gradient.isfinite() for gradient in textbook_grad), "one draw like this ends a training run"
assert all(gradient.isfinite() and gradient != 0 for gradient in package_grad)

# %% [markdown]
# **Exercise 2** (predict, change, explain; 10 minutes). By (K7), $\partial k/\partial a$ is 0 at both ends of (0, 1),
# because $k \ln k$ is. Let $a = 2$ and look for the place where it is largest. *Predict* whether $k$ at this place is
# the same for every $b$ (`same_k`, True or False), and whether the $u$ from which this $k$ comes is the same
# (`same_u`, True or False). *Change* $b$ to 1, 5, 10. Take the values of `grid` as $u$, compute the samples $k$ with
# `Kumaraswamy(a, b).icdf(grid)`, and find both up to the spacing of `grid` (`best_k` and `best_u`, lists of three).
# *Explain* with the derivative of $-k \ln k$.

# %% tags=["prediction"]
same_k, same_u = True, False

# %% tags=["solution"]
best_k, best_u = [], []
for fixed_b in (1.0, 5.0, 10.0):
    k_of_u = Kumaraswamy(2.0, fixed_b).icdf(grid)
    best = (-k_of_u * k_of_u.log()).argmax()
    best_k.append(k_of_u[best].item())
    best_u.append(grid[best].item())
    print(f"b = {fixed_b:4.0f}: largest at u = {best_u[-1]:.3f}, where k = {best_k[-1]:.4f}")
# -k ln k is largest where ln k = -1, which is k = 1/e whatever a and b are. The u that leads there is F(1/e), and it
# grows with b.

# %% tags=["check"]
for fixed_b, k_there, u_there in zip((1.0, 5.0, 10.0), best_k, best_u, strict=True):
    many_a = torch.full_like(grid, 2.0).requires_grad_()
    (slope_of_a,) = torch.autograd.grad(Kumaraswamy(many_a, fixed_b).icdf(grid).sum(), many_a)
    faster = f"b = {fixed_b}: the sample moves faster at a u that is not in `best_u`"
    assert abs(u_there - grid[slope_of_a.argmax()]) < 3e-3, faster
    u_of_k = Kumaraswamy(2.0, fixed_b).cdf(torch.as_tensor(k_there))
    assert abs(u_of_k - u_there) < 3e-3, f"b = {fixed_b}: `best_k` is not the sample that comes from `best_u`"
assert same_k == (max(best_k) - min(best_k) < 4e-3), "`same_k` is not what you found"
assert same_u == (max(best_u) - min(best_u) < 4e-3), "`same_u` is not what you found"

# %% [markdown]
# ## 8. Compare two Kumaraswamy laws
#
# How different are two shapes? We measure it by $\mathrm{KL}(p\,\|\,q) = E_p[\ln p - \ln q]$, where
# $p = \mathrm{Kuma}(a,b)$ and $q = \mathrm{Kuma}(\alpha,\beta)$. The first expectation, $E_p[\ln p]$, is minus the
# entropy (K6). In the second, $E_p[\ln q]$, we use $E[\ln K] = -H_b/a$ again:
#
# $$\mathrm{KL} = -\mathrm{Ent}(a,b) - \ln(\alpha\beta) + (\alpha-1)\frac{H_b}{a} - (\beta-1)\,E_p[\ln(1-K^\alpha)].
# \tag{K8}$$
#
# > (This box is optional. It says how the package computes the last term.)
# >
# > Only the last expectation has no closed form in general. To compute it, we can expand
# > $\ln(1-x) = -\sum_m x^m/m$ and take the moments from (K4). This gives the series
# > $E[\ln(1-K^\alpha)] = -\sum_{m\ge1}\frac bm B(1+\frac{\alpha m}{a}, b)$. Its terms fall only like $m^{-1-b}$, so for
# > small $b$ the series converges very slowly, and we need a Hurwitz zeta function for its tail. An integral over the
# > log-odds of $K^a$, which has the distribution Beta(1, b), gives the same number for every shape, and it can be
# > differentiated. The package computes this integral.
#
# In three cases you need neither the series nor the integral. If $\beta = 1$, the factor of the expectation is 0. If
# $\alpha = a$, the expectation is $-1/b$. If $b = 1$, it is $-(\psi(1 + a/\alpha) + \gamma)$ for every $\alpha$, with
# the digamma function $\psi$ and the Euler-Mascheroni constant $\gamma$. (A larger whole number $b$ gives a sum of $b$
# such terms, because we can multiply out $(1-k^a)^{b-1}$ in the density.)
#
# The cell below computes (K8) by the series, so that you can compare it with the package.

# %%
def series(a, b, alpha, beta, terms=20_000):
    m = torch.arange(1, terms + 1)
    log_beta = torch.lgamma(1 + alpha * m / a) + torch.lgamma(b) - torch.lgamma(1 + alpha * m / a + b)
    zeta = torch.special.zeta(1 + b, torch.tensor(terms + 1.0))
    tail = torch.lgamma(b + 1).exp() * (alpha / a) ** -b * zeta
    expected = (b / m * log_beta.exp()).sum() + tail
    entropy, harmonic_b = Kumaraswamy(a, b).entropy(), torch.digamma(b + 1) + euler
    return -entropy - torch.log(alpha * beta) + (alpha - 1) * harmonic_b / a + (beta - 1) * expected


pairs = torch.tensor([[2.0, 5.0, 1.0, 1.0], [0.5, 0.5, 2.0, 2.0], [3.0, 2.0, 1.5, 4.0]])
divergence = kl_divergence(Kumaraswamy(*pairs.T[:2]), Kumaraswamy(*pairs.T[2:]))

# %% tags=["check"]
by_series = torch.stack([series(*row) for row in pairs])
assert torch.allclose(divergence, by_series, rtol=0, atol=1e-5), "the tail is a first order"
assert torch.allclose(divergence[0], -Kumaraswamy(2.0, 5.0).entropy()), "to the uniform law"


def last_expectation(a, b, alpha):  # from (K8) with beta = 2, whose other terms are known
    law, goal = Kumaraswamy(a, b), Kumaraswamy(alpha, 2.0)
    known = -law.entropy() - math.log(2 * alpha) + (alpha - 1) * (torch.digamma(torch.tensor(b + 1)) + euler) / a
    return (known - kl_divergence(law, goal)).item()


def term(ratio):
    return -(torch.digamma(torch.tensor(1 + ratio)) + euler).item()


for fixed_a, other in ((2.0, 0.3), (0.5, 3.0), (3.0, 1.5)):
    assert math.isclose(last_expectation(fixed_a, 5.0, fixed_a), -1 / 5, abs_tol=1e-9), "alpha = a"
    assert math.isclose(last_expectation(fixed_a, 1.0, other), term(fixed_a / other), abs_tol=1e-9), "b = 1"
    three = sum(c / j * 3 * term(j * fixed_a / other) for j, c in ((1, 1), (2, -2), (3, 1)))  # of 3 (1 - y)^2
    assert math.isclose(last_expectation(fixed_a, 3.0, other), three, abs_tol=1e-8), "b = 3"

# %% tags=["figure"]
from_shape = {f"b = {fixed:g}": kl_divergence(Kumaraswamy(a_near_one, fixed), example)
              for fixed in (p.b / 5, p.b, 5 * p.b)}
finding = f"KL to Kuma({p.a:g}, {p.b:g}) is 0 at its own shape alone"
figures.draw_panel(figures.draw_lines, a_near_one, from_shape, title=finding, xlabel="a", ylabel="KL (nats)",
                   xscale="log", size=(8, 4.4))

# %%
for row, value in zip(pairs.tolist(), divergence, strict=True):
    print(f"KL(Kuma({row[0]:g}, {row[1]:g}) || Kuma({row[2]:g}, {row[3]:g})) = {value:.6f} nats")

# %% [markdown]
# **Exercise 3** (predict, change, explain; 6 minutes). KL is not symmetric. Take the U, Kuma(0.5, 0.5), and the hump,
# Kuma(2, 2). *Predict* whether the KL from the U to the hump or the KL from the hump to the U is larger (`larger`, "U
# to hump" or "hump to U"). *Change* the order of the two laws and compute both, in nats (`u_to_hump` and `hump_to_u`).
# *Explain* your result by the places where one law has much mass and the other has little.

# %% tags=["prediction"]
larger = "U to hump"

# %% tags=["solution"]
u_to_hump = kl_divergence(Kumaraswamy(0.5, 0.5), Kumaraswamy(2.0, 2.0))
hump_to_u = kl_divergence(Kumaraswamy(2.0, 2.0), Kumaraswamy(0.5, 0.5))
print(f"from the U to the hump {u_to_hump:.3f} nats, from the hump to the U {hump_to_u:.3f} nats")
# The U has much of its mass near the ends, where the hump has a density near 0, so the logarithm of the quotient is
# large there. The hump has its mass where the density of the U is low but far from 0.

# %% tags=["check"]
laws = {"U": Kumaraswamy(0.5, 0.5), "hump": Kumaraswamy(2.0, 2.0)}
for of, to, claimed in (("U", "hump", u_to_hump), ("hump", "U", hump_to_u)):
    sampled = laws[of].sample((p.num_samples,))
    log_ratio = laws[of].log_prob(sampled) - laws[to].log_prob(sampled)  # its mean is the KL
    allowed = 5 * log_ratio.std() / math.sqrt(p.num_samples)  # five standard errors
    size = "too low" if claimed < log_ratio.mean() else "too high"
    assert abs(claimed - log_ratio.mean()) < allowed, f"the KL from the {of} to the {to} is {size}"
assert larger == ("U to hump" if u_to_hump > hump_to_u else "hump to U"), "`larger` is not what you found"

# %% [markdown]
# ## Summary
#
# - We made a random number in (0, 1) from one uniform number and two powers. Its density and cdf (K1) and its quantile
#   function (K3) have closed forms.
# - The substitution $y = k^a$ turns the moments into Beta integrals (K4). The entropy (K6) and all but one term of the
#   divergence (K8) follow from two means of logarithms.
# - The logarithm of the survival probability (K2) keeps the digits. In float32 the textbook forms lose them. First the
#   values become wrong, and then the gradients become infinite or not a number.
# - A sample has a derivative (K7). If you average it over draws, you get the gradient of an expectation.
#
# **Next**: one half of our wish is still open, because $K$ is never exactly 0 or 1. In `03_hardkuma` we stretch this
# law beyond (0, 1) and clip it. The result is a gate that is exactly 0, exactly 1, or anything between.
