"""Gates that start at a rate: the shapes against a maximisation by scipy, the biases, untrained models, the setting."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import torch

from rationale.data.batches import Vocabulary, encode, encode_pairs
from rationale.distributions import HardKuma
from rationale.errors import BadInput
from rationale.models.aligner import build_aligner
from rationale.models.extractor import build_extractor
from rationale.nn.gates import GATES, HardKumaGate
from rationale.nn.initialise import initialise
from rationale.nn.start import LARGEST, SMALLEST, log_width, widest_shapes
from rationale.training.settings import AlignmentSettings, ExtractionSettings

SUPPORTS = [(-0.1, 1.1), (-0.2, 1.0), (-0.01, 1.01), (-1.0, 2.0)]
RATES = [1e-6, 0.02, 0.1, 0.3, 0.5, 0.9, 0.999]
WORDS = [f"w{i}" for i in range(40)]


def masses_by_hand(a, b, left, right):
    """P(H = 0) and P(H = 1) from the formula of the paper."""
    k0, k1 = -left / (right - left), (1 - left) / (right - left)
    return -math.expm1(b * math.log1p(-(k0**a))), (1 - k1**a) ** b if right > 1 else 0.0


def log_width_by_hand(a, b, left, right):
    """ln of mass times exp(entropy) of the interior, by the trapezoidal rule in ln(h / (1 - h))."""
    odds = np.linspace(-40, 40, 4001)
    h, rest = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))
    k, above = (h - left) / (right - left), (rest + (right - 1)) / (right - left)  # k and 1 - k
    one_minus_power = -np.expm1(a * np.where(k < 0.5, np.log(k), np.log1p(-above)))  # 1 - k^a
    log_density = np.log(a * b / (right - left)) + (a - 1) * np.log(k) + (b - 1) * np.log(one_minus_power)
    weight = np.exp(log_density) * h * rest * (odds[1] - odds[0])
    mass = weight.sum()
    return math.log(mass) - ((weight / mass) * (log_density - math.log(mass))).sum()


@pytest.mark.parametrize(("left", "right"), SUPPORTS)
def test_the_width_of_the_interior_is_that_of_a_plain_quadrature(left, right):
    for a, b in ((0.02, 0.7), (0.5, 0.5), (1.0, 1.0), (3.0, 8.0)):
        ours = log_width(HardKuma(torch.tensor(a).double(), torch.tensor(b).double(), left, right)).item()
        assert ours == pytest.approx(log_width_by_hand(a, b, left, right), abs=1e-5), f"a = {a}, b = {b}"
    uniform = HardKuma(torch.ones(1).double(), torch.ones(1).double(), -1e-9, 1 + 1e-9)
    assert abs(log_width(uniform)) < 1e-6, "a gate that is uniform on (0, 1) has width 1"


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
@pytest.mark.parametrize(("left", "right"), SUPPORTS)
def test_scipy_finds_no_wider_interior_among_the_shapes_of_a_rate(rate, left, right):
    limits = math.log(SMALLEST), math.log(20)

    def b_of(log_a):
        def gap(log_b):
            return masses_by_hand(math.exp(log_a), math.exp(log_b), left, right)[0] - (1 - rate)

        return math.exp(scipy.optimize.brentq(gap, -20, 200, xtol=1e-14))

    def narrowness(log_a):
        return -log_width_by_hand(math.exp(log_a), b_of(log_a), left, right)

    found = scipy.optimize.minimize_scalar(narrowness, bounds=limits, method="bounded", options={"xatol": 1e-6})
    a, b = widest_shapes(rate, left, right).tolist()
    assert found.success and log_width_by_hand(a, b, left, right) >= -found.fun - 1e-6, f"wider at a = {found.x}"
    best = [math.exp(found.x), b_of(found.x)]
    assert [a, b] == pytest.approx(best, rel=0.02), "the maximum is flat, so its place is less exact"


@pytest.mark.parametrize(("left", "right"), [*SUPPORTS, (-1e-6, 1.1), (-100.0, 101.0), (-0.1, 1e4)])
def test_the_shapes_have_the_rate_to_rounding_and_stay_in_their_range(left, right):
    for rate in RATES:
        a, b = widest_shapes(rate, left, right)
        assert SMALLEST <= a <= LARGEST and SMALLEST <= b <= LARGEST, f"rate {rate}: {a}, {b}"
        assert HardKuma(a, b, left, right).prob_nonzero.item() == pytest.approx(rate, rel=1e-10)


def test_a_rate_that_no_shapes_reach_is_refused_in_one_sentence():
    with pytest.raises(BadInput, match=r"^start: target is not accepted with selection=0\.99, left=-1e\+06, right=2"):
        widest_shapes(0.99, -1e6, 2.0)


@pytest.mark.parametrize(("left", "right"), SUPPORTS)
@pytest.mark.parametrize("name", GATES)
def test_a_gate_starts_at_its_rate_where_features_are_zero_and_keeps_its_weights(name, left, right):
    gate = GATES[name].build(5, SimpleNamespace(left=left, right=right))
    weight = gate.linear()[0].clone()
    for rate in (0.01, 0.1, 0.5, 0.95):
        gate.start_at(rate)
        assert gate(torch.zeros(3, 5)).log_prob_nonzero.exp().tolist() == pytest.approx([rate] * 3, rel=2e-5)
    assert torch.equal(gate.linear()[0], weight), "only biases are set"


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("rate", [0.0, 1.0, 1.5, -0.1, float("nan")])
def test_a_rate_at_which_no_gate_can_start_is_named_and_the_biases_stay(name, rate):
    gate = GATES[name].build(5, SimpleNamespace(left=-0.1, right=1.1))
    before = gate.linear()[1].clone()
    with pytest.raises(BadInput, match=f"rate: got {rate}, accepted are rates in"):
        gate.start_at(rate)
    assert torch.equal(gate.linear()[1], before)


def test_a_gate_of_ones_own_without_raw_at_refuses_a_start_in_one_sentence():
    class Half(HardKumaGate):
        raw_at = GATES["bernoulli"].__base__.raw_at

    with pytest.raises(BadInput, match="start: target is not accepted with model hardkuma, which has no method"):
        Half(3).start_at(0.1)


def first_rates(model, batch):
    """Mean P(z != 0) of the real positions of an untrained model."""
    with torch.no_grad():
        nonzero = model.gates(batch.tokens, batch.mask).log_prob_nonzero.exp()
    return nonzero[batch.mask].mean().item()


def texts(num_texts, length, generator):
    return [[WORDS[i] for i in torch.randint(40, (length,), generator=generator)] for _ in range(num_texts)]


@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("name", GATES)
def test_an_untrained_extractor_selects_at_its_target_on_average(name, dependent):
    vocabulary = Vocabulary(WORDS)
    p = SimpleNamespace(model=name, dependent=dependent, hidden_size=30, start="target")
    for seed, target in ((1, 0.05), (2, 0.1), (3, 0.3), (4, 0.7)):
        torch.manual_seed(seed)
        model = build_extractor(p, 0.5 * torch.randn(len(vocabulary), 50), "classes", 3).eval()
        batch = encode(texts(20, 15, torch.Generator().manual_seed(seed)), vocabulary)
        model.selector.start_at(target)
        assert first_rates(model, batch) == pytest.approx(target, rel=0.3), f"seed {seed}, target {target}"


def test_an_untrained_aligner_selects_near_its_target_and_its_biases_are_saved():
    vocabulary = Vocabulary(WORDS)
    p = AlignmentSettings(corpus="nli_small", model="hardkuma", hidden_size=50, start="target", selection=0.1)
    for seed, target in ((1, 0.05), (2, 0.1), (3, 0.3)):
        torch.manual_seed(seed)
        vectors = 0.3 * torch.randn(len(vocabulary), 50)
        model = build_aligner(p, vectors, "classes", 3).eval()
        sides = [texts(20, length, torch.Generator().manual_seed(seed)) for length in (9, 6)]
        batch = encode_pairs(list(zip(*sides, strict=True)), vocabulary)
        model.selector.start_at(target)
        rate = first_rates(model, batch)  # not equal: the scores of cells are products of ReLUs, above 0
        assert target / 2 < rate < 2 * target, f"seed {seed}, target {target}: {rate}"
    again = build_aligner(p, vectors, "classes", 3).eval()
    again.load_state_dict(model.state_dict())
    assert first_rates(again, batch) == first_rates(model, batch), "the biases belong to the saved model"


def test_without_the_setting_models_are_built_as_before():
    p = AlignmentSettings(corpus="nli_small", model="hardkuma", hidden_size=8)
    attention = build_aligner(p, torch.randn(4, 6), "classes", 3).selector
    assert not [name for name, _ in attention.named_parameters() if name == "bias"], "no new parameter"
    with pytest.raises(ValueError, match="biased: got False"):
        attention.start_at(0.1)
    gate = initialise(HardKumaGate(3))
    assert gate.linear()[1].eq(0).all(), "zero biases"


@pytest.mark.parametrize(
    ("settings", "values", "message"),
    [
        (ExtractionSettings, {"model": "full_text"}, "start: target is not accepted with model full_text; give none"),
        (ExtractionSettings, {"model": "hardkuma"}, "start: target is not accepted without a target; give none"),
        (AlignmentSettings, {"corpus": "nli_small"}, "start: target is not accepted with model softmax; give none"),
        (AlignmentSettings, {"corpus": "nli_small", "model": "hardkuma"}, "start: target is not accepted without"),
    ],
)
def test_a_start_without_effect_is_refused_in_one_sentence(settings, values, message):
    with pytest.raises(BadInput, match=message):
        settings.checked(values | {"start": "target"})
