"""The divergences: published values, a series, integrals in arbitrary precision, and sampling."""

import math

import mpmath as mp
import pytest
import torch
from torch.distributions import Beta, Uniform, kl_divergence

from rationale.distributions import (
    Bernoulli,
    BinaryConcrete,
    HardConcrete,
    HardKuma,
    Kumaraswamy,
)
from rationale.distributions.kl import expected_log_rest
from tests.laws import assert_close, double


def test_kl_between_kumaraswamys_is_the_published_one():
    p, q = Kumaraswamy(*double([2, 0.5, 3], [5, 0.5, 2])), Kumaraswamy(*double([1, 2, 1.5], [1, 2, 4]))
    assert_close(kl_divergence(p, q), [0.360918, 1.175805, 1.5], rtol=0, atol=6e-7, what="KL")


def kl_by_series(a, b, alpha, beta, terms=400):
    """The closed form with E[ln(1 - K^alpha)] as a series and a Hurwitz zeta function for its tail, in 30 digits."""
    with mp.workdps(30):
        a, b, alpha, beta = (mp.mpf(x) for x in (a, b, alpha, beta))
        entropy = 1 - 1 / b + (1 - 1 / a) * mp.harmonic(b) - mp.log(a * b)
        series = mp.fsum(b / m * mp.beta(1 + alpha * m / a, b) for m in range(1, terms + 1))
        tail = mp.gamma(b + 1) * (alpha / a) ** -b * mp.zeta(1 + b, terms + 1)
        return float(-entropy - mp.log(alpha * beta) + (alpha - 1) * mp.harmonic(b) / a + (beta - 1) * (series + tail))


@pytest.mark.parametrize("shapes", [(2, 5, 1.5, 0.7), (0.5, 0.5, 2, 2), (3, 2, 1.5, 4), (1.5, 0.2, 3, 2.5)])
def test_kl_between_kumaraswamys_is_the_series_with_its_tail(shapes):
    a, b, alpha, beta = double(*map(float, shapes))
    actual = kl_divergence(Kumaraswamy(a, b), Kumaraswamy(alpha, beta))
    assert_close(
        actual, kl_by_series(*shapes), rtol=2e-4, atol=2e-5, what="KL (the tail is a first-order approximation)"
    )


def average_log_ratio(p, q, num=400_000) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(7)
    draws = p.sample((num,))
    ratio = p.log_prob(draws) - q.log_prob(draws)
    return ratio.mean(0), 4.5 * ratio.std(0) / math.sqrt(num)


A, B, ALPHA, BETA = double([0.6, 2.0, 3.0], [1.7, 5.0, 0.8], [1.2, 0.7, 3.5], [1.0, 2.5, 0.5])


@pytest.mark.parametrize("p, q", [
    (Kumaraswamy(A, B), Kumaraswamy(ALPHA, BETA)),
    (Kumaraswamy(A, B), Beta(ALPHA, BETA)),
    (Kumaraswamy(A, B), Uniform(A.new_zeros(3), A.new_ones(3))),
    (HardKuma(A, B), HardKuma(ALPHA, BETA)),
    (HardKuma(A, B, -0.2, 1.0), HardKuma(ALPHA, BETA, -0.2, 1.0)),
    (BinaryConcrete(A, B), BinaryConcrete(ALPHA, BETA)),
    (HardConcrete(A, B), HardConcrete(ALPHA, BETA)),
    (HardConcrete(A, B, -0.2, 1.0), HardConcrete(ALPHA, BETA, -0.2, 1.0)),
    (HardKuma(A, B), HardConcrete(ALPHA, BETA)),
], ids=lambda dist: type(dist).__name__)  # fmt: skip
def test_divergences_match_a_large_sample(p, q):
    actual, (expected, allowed) = kl_divergence(p, q), average_log_ratio(p, q)
    assert ((actual - expected).abs() <= allowed + 1e-9).all(), f"{actual.tolist()}, sampled {expected.tolist()}"
    assert (actual >= 0).all() and actual.dtype == torch.float64


def test_divergence_from_itself_is_zero():
    assert kl_divergence(HardKuma(A, B), HardKuma(A, B)).abs().max() < 1e-12
    assert_close(kl_divergence(Kumaraswamy(A, B), Uniform(0.0, 1.0)), -Kumaraswamy(A, B).entropy(), rtol=1e-14)
    assert_close(
        kl_divergence(Kumaraswamy(A, B), Beta(torch.ones(3), torch.ones(3))),
        -Kumaraswamy(A, B).entropy(),
        1e-12,
    )
    assert (kl_divergence(Kumaraswamy(A, B), Uniform(0.1, 1.0)) == math.inf).all()
    single = kl_divergence(HardKuma(A[0], B[0]), HardKuma(ALPHA, BETA))
    assert single.shape == (3,), "batch shapes must broadcast"


# --- rectified gates whose ends differ ------------------------------------------------------------------------


def exact_kl_of_gates(p: tuple, q: tuple) -> float:
    """KL of two HardKuma gates, each (a, b, left, right): the two masses, and mpmath's integral over (0, 1)."""
    with mp.workdps(25):

        def parts(a, b, left, right):
            a, b, left, right = (mp.mpf(repr(x)) for x in (a, b, left, right))
            width = right - left
            survival = lambda h: (1 - ((h - left) / width) ** a) ** b  # noqa: E731
            k = lambda h: (h - left) / width  # noqa: E731
            density = lambda h: a * b * k(h) ** (a - 1) * (1 - k(h) ** a) ** (b - 1) / width  # noqa: E731
            return 1 - survival(mp.mpf(0)), survival(mp.mpf(1)), density

        (p_zero, p_one, f), (q_zero, q_one, g) = parts(*p), parts(*q)
        inside = mp.quad(lambda h: f(h) * mp.log(f(h) / g(h)), [0, 0.1, 0.5, 0.9, 1])
        masses = [mass * mp.log(mass / other) for mass, other in ((p_zero, q_zero), (p_one, q_one)) if mass > 0]
        return float(mp.fsum(masses) + inside)


PAIRS_OF_GATES = [
    ((0.5, 0.5, -0.1, 1.1), (0.5, 0.5, -0.2, 1.2)),
    ((2.0, 5.0, -0.1, 1.1), (0.3, 0.7, -1.0, 1.5)),
    ((0.2, 3.0, -0.3, 1.05), (5.0, 1.0, -0.1, 1.1)),
    ((2.0, 1.5, 0.0, 1.0), (1.2, 0.8, -0.1, 1.1)),  # without masses, to a gate with both
]


@pytest.mark.parametrize("p, q", PAIRS_OF_GATES)
def test_the_divergence_of_gates_with_different_ends_is_the_exact_integral(p, q):
    actual, exact = (kl_divergence(*(HardKuma(*double(*law[:2]), *law[2:]) for law in (p, q))),
                     exact_kl_of_gates(p, q))  # fmt: skip
    assert_close(actual, exact, rtol=1e-9, what=f"KL of {p} to {q}")


def test_the_divergence_of_the_notebook_from_a_gate_to_the_same_shapes_with_wider_ends():
    near, far = HardKuma(*double(0.5, 0.5)), HardKuma(*double(0.5, 0.5), -0.2, 1.2)
    assert abs(kl_divergence(near, far) - 0.031) < 5e-4 and kl_divergence(near, near) == 0


@pytest.mark.parametrize("p, q", [
    (HardKuma(A, B), HardKuma(ALPHA, BETA, -0.2, 1.3)),
    (HardKuma(A, B, -0.2, 1.0), HardKuma(ALPHA, BETA, -0.1, 1.1)),
    (HardConcrete(A, B), HardConcrete(ALPHA, BETA, -0.3, 1.2)),
    (HardKuma(A, B, -0.5, 1.2), HardConcrete(ALPHA, BETA)),
])  # fmt: skip
def test_divergences_of_gates_with_different_ends_match_a_large_sample(p, q):
    test_divergences_match_a_large_sample(p, q)


def test_a_gate_with_a_mass_that_the_other_cannot_have_is_infinitely_far_from_it():
    gate, half_open = HardKuma(A, B), HardKuma(ALPHA, BETA, -0.1, 1.0)
    assert (kl_divergence(gate, half_open) == math.inf).all() and kl_divergence(half_open, gate).isfinite().all()
    assert (kl_divergence(gate, HardKuma(ALPHA, BETA, 0.0, 1.1)) == math.inf).all()


def test_the_divergence_of_gates_with_different_ends_has_the_gradient_of_its_value():
    shapes = [x.clone().requires_grad_() for x in double(0.7, 1.4, 1.3, 0.6)]
    torch.autograd.gradcheck(
        lambda a, b, c, d: kl_divergence(HardKuma(a, b), HardKuma(c, d, -0.2, 1.3)), shapes, atol=1e-6
    )


# --- against integrals in arbitrary precision -----------------------------------------------------------------


def exact_log_rest(p: float, q: float, power: float) -> mp.mpf:
    """E[ln(1 - X^power)] for X ~ Beta(p, q), in w = logit X, cut where the integrand bends."""
    p, q, power = (mp.mpf(x) for x in (p, q, power))
    log_x = lambda w: -mp.log1p(mp.exp(-w)) if w > -50 else w - mp.log1p(mp.exp(w))  # noqa: E731
    centre, scale = mp.log(p / q), min(1, mp.sqrt(1 / p + 1 / q))
    tails = [centre - 60 * scale - 60 / p, centre - 8 / p, centre + 8 / q, centre + 60 * scale + 60 / q]
    bends = [centre, *(centre + s * scale for s in (-8, -2, 2, 8)), -10, -3, 0, 3, 10]
    bends += [mp.log(power) + s for s in (-4, -1, 1, 4, 12)]
    density = lambda w: mp.exp(p * log_x(w) + q * log_x(-w)) / mp.beta(p, q)  # noqa: E731
    return mp.quad(lambda w: density(w) * mp.log(-mp.expm1(power * log_x(w))), sorted({*tails, *bends}))


def exact_kl(a: float, b: float, alpha: float, beta: float) -> float:
    with mp.workdps(30):
        a, b, alpha, beta = (mp.mpf(x) for x in (a, b, alpha, beta))
        entropy = 1 - 1 / b + (1 - 1 / a) * mp.harmonic(b) - mp.log(a * b)
        rest = exact_log_rest(1, b, alpha / a)
        return float(-entropy - mp.log(alpha * beta) + (alpha - 1) * mp.harmonic(b) / a - (beta - 1) * rest)


NARROW = [
    (7533, 10610, 15),
    (866632, 247027, 3.4),
    (2000, 3000, 5),
    (15625, 55013, 11.96),
    (1e6, 1e6, 1.5),
    (1e6, 2, 30),
]


@pytest.mark.parametrize("shapes", NARROW)
def test_the_expected_logarithm_is_exact_where_the_density_is_narrow(shapes):
    """Its tails were cut at 4.7 standard deviations, so the result was off by up to 2e-7."""
    with mp.workdps(30):
        exact = float(exact_log_rest(*shapes))
    assert_close(expected_log_rest(*double(*map(float, shapes))), exact, rtol=1e-12, what=f"at {shapes}")


def test_the_expected_logarithm_of_one_minus_x_is_a_difference_of_digammas_for_all_shapes():
    p, q = torch.meshgrid(*[torch.logspace(-6, 6, 13, dtype=torch.float64)] * 2, indexing="ij")
    with mp.workdps(40):
        pairs = zip(p.flatten().tolist(), q.flatten().tolist(), strict=True)
        exact = [float(mp.digamma(q) - mp.digamma(mp.mpf(p) + mp.mpf(q))) for p, q in pairs]
    actual = expected_log_rest(p.flatten(), q.flatten(), torch.ones(169, dtype=torch.float64))
    assert_close(actual, exact, rtol=1e-12, what="E[ln(1 - X)]")


BENT = [(0.01806, 0.01963, 784.4, 171.6), (300.0, 0.02, 0.02, 500.0), (2.0, 600.0, 900.0, 3.0)]


@pytest.mark.parametrize("shapes", BENT)
def test_kl_is_exact_where_the_integrand_bends_far_out(shapes):
    a, b, alpha, beta = double(*shapes)
    actual = kl_divergence(Kumaraswamy(a, b), Kumaraswamy(alpha, beta))
    assert_close(actual, exact_kl(*shapes), rtol=1e-12, what=f"KL at {shapes}")


def test_kl_to_and_from_a_beta_are_exact():
    for a, b, alpha, beta in ((0.02, 0.02, 700.0, 170.0), (5.0, 0.3, 0.1, 20.0)):
        law, other = Kumaraswamy(*double(a, b)), Beta(*double(alpha, beta))
        with mp.workdps(30):
            entropy = 1 - 1 / mp.mpf(b) + (1 - 1 / mp.mpf(a)) * mp.harmonic(b) - mp.log(mp.mpf(a) * b)
            log_beta = mp.log(mp.beta(alpha, beta))
            cross = (alpha - 1) * -mp.harmonic(b) / a + (beta - 1) * exact_log_rest(1, b, 1 / mp.mpf(a)) - log_beta
            assert_close(kl_divergence(law, other), float(-entropy - cross), rtol=1e-11, what="KL to a Beta")
            psi = lambda x: mp.digamma(x)  # noqa: E731
            log_x, log_rest = psi(alpha) - psi(alpha + beta), psi(beta) - psi(alpha + beta)
            own = (alpha - 1) * log_x + (beta - 1) * log_rest - log_beta
            cross = mp.log(mp.mpf(a) * b) + (a - 1) * log_x + (b - 1) * exact_log_rest(alpha, beta, a)
            assert_close(kl_divergence(other, law), float(own - cross), rtol=1e-11, what="KL of a Beta")


def test_torchs_kumaraswamy_is_taken_like_ours():
    law, (alpha, beta) = Kumaraswamy(A, B), (ALPHA, BETA)
    theirs = torch.distributions.Kumaraswamy(alpha, beta)
    ours = Kumaraswamy(alpha, beta)
    assert torch.equal(kl_divergence(law, theirs), kl_divergence(law, ours))
    assert torch.equal(kl_divergence(theirs, law), kl_divergence(ours, law))


def test_a_uniform_is_compared_with_a_kumaraswamy_also_on_a_part_of_the_interval():
    law = Kumaraswamy(*double(2.0, 300.0))
    for low, high in ((0.0, 1.0), (0.1, 0.4), (0.5, 1.0)):
        with mp.workdps(20):
            log_density = lambda k: mp.log(600) + mp.log(k) + 299 * mp.log1p(-(k**2))  # noqa: E731
            points = [low, (low + high) / 2, high - (high - low) / 100, high]
            expected = -mp.log(mp.mpf(high) - low) - mp.quad(log_density, points) / (mp.mpf(high) - low)
        actual = kl_divergence(Uniform(*double(low, high)), law)
        assert_close(actual, float(expected), rtol=1e-10, what=f"on ({low}, {high})")
    assert kl_divergence(Uniform(-0.1, 0.5), law) == math.inf
    concrete = BinaryConcrete(*double(0.4, 0.7))
    assert kl_divergence(concrete, Uniform(0.0, 1.0)) == -concrete.entropy()
    assert kl_divergence(concrete, Uniform(0.0, 0.9)) == math.inf


def test_a_bernoulli_and_a_gate_with_an_interval():
    """The gate has a density where the Bernoulli has none, so one direction is infinite; the other is a sum of two."""
    gate, half_open = HardKuma(A, B), HardKuma(A, B, -0.2, 1.0)
    coin = Bernoulli(logits=ALPHA)
    assert (kl_divergence(gate, coin) == math.inf).all()
    p = coin.probs
    expected = p * (p.log() - gate.log_prob_one) + (1 - p) * ((1 - p).log() - gate.log_prob_zero)
    assert_close(kl_divergence(coin, gate), expected, rtol=1e-12, what="Bernoulli to HardKuma")
    assert (kl_divergence(coin, half_open) == math.inf).all(), "the half-open gate is never 1"
    never = Bernoulli(logits=torch.tensor(-math.inf))
    assert_close(kl_divergence(never, half_open), -half_open.log_prob_zero, rtol=1e-12, what="a coin that is always 0")


def test_a_coin_that_never_shows_one_side_lacks_this_side_and_its_gradient():
    """Where p has no mass, p ln(p / q) is 0 and so is its slope, also where q has none."""
    gate, half_open = HardKuma(2.0, 3.0), HardKuma(2.0, 3.0, -0.2, 1.0)
    logit = torch.tensor(-math.inf, requires_grad=True)
    divergence = kl_divergence(torch.distributions.Bernoulli(logits=logit, validate_args=False), half_open)
    assert torch.autograd.grad(divergence, logit)[0] == 0
    for coin in (torch.distributions.Bernoulli, Bernoulli):
        never, always = coin(probs=torch.tensor(0.0)), coin(probs=torch.tensor(1.0))
        assert kl_divergence(always, half_open) == math.inf, "the half-open gate is never 1"
        assert_close(kl_divergence(never, half_open), -half_open.log_prob_zero, rtol=1e-6, what="never 1")
        assert_close(kl_divergence(always, gate), -gate.log_prob_one, rtol=1e-6, what="always 1")


@pytest.mark.parametrize("temperatures", [(0.2, 0.7), (0.2, 10.0), (10.0, 0.2)])
def test_the_divergence_of_two_concretes_is_the_integral_however_their_temperatures_differ(temperatures):
    m, c = mp.mpf("-0.25"), mp.mpf("0.5")
    t, d = map(mp.mpf, temperatures)

    def log_density(x, m, t):  # of x = logit K
        gap = abs(m - t * x)
        return mp.log(t) - gap - 2 * mp.log1p(mp.exp(-gap))

    def integrand(z):  # a logistic variable
        x = (z + m) / t
        return mp.exp(-z) / (1 + mp.exp(-z)) ** 2 * (log_density(x, m, t) - log_density(x, c, d))

    bend = c * t / d - m
    ends = sorted([-80, -20, -5, bend - t / d, bend, bend + t / d, 5, 20, 80])
    laws = (BinaryConcrete(*double(*shapes)) for shapes in ((-0.25, temperatures[0]), (0.5, temperatures[1])))
    assert kl_divergence(*laws).item() == pytest.approx(float(mp.quad(integrand, ends)), rel=1e-12)


def test_the_divergence_of_concretes_has_the_derivatives_of_differences():
    shapes = tuple(
        x.requires_grad_() for x in double([-1.0, 0.3, 2.0], [0.2, 3.0, 0.7], [0.5, 0.1, -0.4], [2.0, 0.4, 0.9])
    )
    assert torch.autograd.gradcheck(
        lambda m, t, c, d: kl_divergence(BinaryConcrete(m, t), BinaryConcrete(c, d)), shapes, atol=1e-7
    )
