"""Gates: every test-time rule on distributions made by hand, and gates that stay finite whatever they read."""

import math
from types import SimpleNamespace

import mpmath as mp
import pytest
import torch
from torch.distributions import Distribution

from rationale.distributions import Bernoulli, HardConcrete, HardKuma
from rationale.distributions.numerics import softplus
from rationale.metrics import num_within_budget
from rationale.nn import GATES, RULES, HardConcreteGate, HardKumaGate, decide, sample, selects, top_k

BASE_MEAN, CONDITIONAL_MEAN, MEAN = 0.3, 0.6, 0.45  # all different, to tell from the result what was used


def made(*masses: tuple[float, float, float]) -> SimpleNamespace:
    """Gates with the given P(0), P(0 < H < 1), P(1)."""
    zero, interior, one = (torch.tensor(column) for column in zip(*masses, strict=True))
    return SimpleNamespace(
        prob_zero=zero, prob_interior=interior, prob_one=one,
        prob_nonzero=interior + one,
        log_prob_nonzero=(interior + one).log(),
        base_mean=torch.full_like(zero, BASE_MEAN),
        conditional_mean=torch.full_like(zero, CONDITIONAL_MEAN), mean=torch.full_like(zero, MEAN),
        sample=lambda: torch.full_like(zero, 0.123), binary=False,
    )  # fmt: skip


MASSES = [  # P(0), P(0 < H < 1), P(1)  ->  0, 1 or the interval
    ((0.50, 0.30, 0.20), 0.0),
    ((0.45, 0.35, 0.20), 0.0),  # more likely open than shut, yet 0: spec A.4
    ((0.20, 0.30, 0.50), 1.0),
    ((0.13, 0.73, 0.14), "inside"),
    ((0.25, 0.50, 0.25), "inside"),
    ((0.50, 0.00, 0.50), 1.0),  # the masses tie: 1
    ((0.40, 0.20, 0.40), 1.0),
    ((0.375, 0.375, 0.25), 0.0),  # the interval ties with 0: not strictly likelier, so 0
    ((0.25, 0.375, 0.375), 1.0),  # the interval ties with 1
    ((0.25, 0.25, 0.25), 1.0),  # all tie
    ((1.0, 0.0, 0.0), 0.0),
    ((0.0, 1.0, 0.0), "inside"),
    ((0.0, 0.0, 1.0), 1.0),
]


@pytest.mark.parametrize(("masses", "expected"), MASSES)
def test_argmax_takes_the_likeliest_and_ties_as_the_authors_do(masses, expected):
    expected = BASE_MEAN if expected == "inside" else expected
    assert decide(made(masses)).item() == pytest.approx(expected), f"P(0), P(interior), P(1) = {masses}"


@pytest.mark.parametrize(("masses", "expected"), MASSES)
def test_argmax_conditional_chooses_alike_and_takes_the_mean_of_the_interval(masses, expected):
    expected = CONDITIONAL_MEAN if expected == "inside" else expected
    assert decide(made(masses), "argmax_conditional").item() == pytest.approx(expected), masses


def test_expected_is_the_mean_of_the_rectified_gate():
    assert decide(made(*(masses for masses, _ in MASSES)), "expected").eq(MEAN).all()


@pytest.mark.parametrize(("zero", "expected"), [(0.5 + 1e-6, 0.0), (0.5, 1.0), (0.5 - 1e-6, 1.0), (1.0, 0.0)])
def test_threshold_is_one_where_the_gate_is_open_with_probability_one_half(zero, expected):
    assert decide(made((zero, 0.25, 0.75 - zero)), "threshold").item() == expected, f"P(0) = {zero}"


@pytest.mark.parametrize(("threshold", "expected"), [(0.0, 1.0), (0.3, 1.0), (0.31, 0.0), (0.5, 0.0), (1.0, 0.0)])
def test_the_threshold_is_a_probability_and_may_be_chosen(threshold, expected):
    gates = made((0.7, 0.2, 0.1))  # P(H != 0) = 0.3
    threshold = max(0.0, threshold - 1e-6)
    assert decide(gates, "threshold", threshold=threshold).item() == expected, f"P(H != 0) = 0.3 >= {threshold}"


def test_at_threshold_one_only_certain_words_are_kept():
    gates = Bernoulli(logits=torch.tensor([200.0, 5.0, -5.0]))
    assert decide(gates, "threshold", threshold=1.0).tolist() == [1, 0, 0]
    assert decide(gates, "threshold", threshold=0.0).tolist() == [1, 1, 1]


def test_only_the_rule_threshold_looks_at_the_threshold():
    gates = made(*(masses for masses, _ in MASSES))
    for rule in ("argmax", "argmax_conditional", "expected"):
        assert decide(gates, rule, threshold=0.9).equal(decide(gates, rule)), rule


@pytest.mark.parametrize("rule", ["argmax", "argmax_conditional", "threshold"])
def test_a_bernoulli_has_no_interval_so_both_kinds_of_argmax_are_the_threshold_at_one_half(rule):
    gates = Bernoulli(logits=torch.tensor([-30.0, -0.01, 0.0, 0.01, 30.0]))
    assert decide(gates, rule).tolist() == [0, 0, 1, 1, 1], f"{rule}: masses that tie give 1"


def test_sample_draws_once():
    assert decide(made((0.5, 0.3, 0.2)), "sample").item() == pytest.approx(0.123)


def test_an_unknown_rule_is_refused_with_the_rules_there_are():
    for asked in (decide, selects):
        with pytest.raises(ValueError, match=r"rule: got 'median', accepted are argmax, .*sample"):
            asked(made((0.5, 0.3, 0.2)), "median")


LN2 = math.log(2)


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        (0.5, 0.5, 0.5333), (1, 1, 0.5), (LN2, LN2, 0.5096), (2, 2, 0.5333), (0.1, 1, 0), (1, 3, 0.25),
        (5, 1, 0.8333), (0.3, 0.3, 0.5924), (2, 5, 0.3694), (3, 0.2, 1), (LN2, 5, 0), (LN2, 20, 0),
    ],
)  # fmt: skip
def test_argmax_reproduces_the_reference_table(a, b, value):
    gate = HardKuma(torch.tensor(float(a)), torch.tensor(float(b)))
    assert decide(gate).item() == pytest.approx(value, abs=5e-5), f"HardKuma({a}, {b}): column 'rule' of spec A.3"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", [HardKuma, HardConcrete, Bernoulli])
def test_every_rule_gives_values_in_the_unit_interval_with_shape_and_dtype_kept(rule, law):
    x, y = torch.meshgrid(torch.logspace(-3, 2, 6), torch.logspace(-3, 2, 7), indexing="ij")
    gates = Bernoulli(logits=(x / y).log()) if law is Bernoulli else law(x if law is HardKuma else x.log(), y)
    z = decide(gates, rule)
    assert z.shape == (6, 7) and z.dtype == torch.float32
    assert ((z >= 0) & (z <= 1)).all(), f"{rule}: {z}"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", [HardKuma, HardConcrete, Bernoulli])
def test_a_rule_selects_where_its_value_is_not_zero(rule, law):
    x, y = torch.meshgrid(torch.logspace(-3, 2, 40), torch.logspace(-3, 2, 41), indexing="ij")
    gates = Bernoulli(logits=(x / y).log()) if law is Bernoulli else law(x if law is HardKuma else x.log(), y)
    torch.manual_seed(0)
    values = decide(gates, rule, budget=0.4)
    torch.manual_seed(0)
    selected = selects(gates, rule, budget=0.4)
    assert selected.dtype == torch.bool and torch.equal(selected, values != 0)
    if law is not Bernoulli and rule == "argmax":
        assert ((values > 0) & (values < 1)).any() and (values == 0).any() and (values == 1).any()


def test_selecting_by_argmax_needs_no_mean(monkeypatch):
    gates = HardKuma(torch.tensor([0.3, 1.0, 3.0]), torch.tensor([3.0, 2.0, 0.3]))
    monkeypatch.setattr(type(gates.base), "mean", property(lambda _: pytest.fail("the mean was computed")))
    assert selects(gates).tolist() == [False, True, True]


# --- the k largest of a text


def text_by_text(scores: torch.Tensor, mask: torch.Tensor, budget: float) -> list[list[float]]:
    """`top_k` by sorting each text with the tools of the language."""
    rows = []
    for row, real in zip(scores.tolist(), mask.tolist(), strict=True):
        places = [t for t in range(len(row)) if real[t]]
        k = max(1, round(budget * len(places)))
        kept = sorted(places, key=lambda t: -row[t])[:k]  # stable: the earlier of equals first
        rows.append([float(t in kept) for t in range(len(row))])
    return rows


@pytest.mark.parametrize("budget", [0.01, 0.05, 0.1, 0.13, 0.2, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("kinds", [3, 10**6])
def test_top_k_is_the_plain_loop_also_with_ties_and_with_large_scores_at_padding(budget, kinds):
    torch.manual_seed(0)
    lengths = torch.tensor([40, 1, 2, 3, 17, 20, 39, 10, 30, 0])
    mask = torch.arange(40) < lengths.unsqueeze(1)
    scores = torch.where(mask, torch.randint(0, kinds, mask.shape).float() - 1e6, 1e9)
    z = top_k(scores, mask, budget)
    assert z.tolist() == text_by_text(scores, mask, budget), f"budget {budget}, {kinds} different scores"
    expected = [min(n, max(1, round(budget * n))) for n in lengths.tolist()]
    assert z.sum(1).tolist() == expected, "exactly k of each text, padding never, an empty text nothing"


def test_a_text_keeps_at_least_one_word_and_a_budget_of_one_keeps_all():
    mask = torch.arange(5) < torch.tensor([[5], [2]])
    scores = torch.tensor([[0.1, 0.5, 0.2, 0.3, 0.4], [0.3, 0.2, 9.0, 9.0, 9.0]])
    assert top_k(scores, mask, 1e-6).tolist() == [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert top_k(scores, mask, 1.0).equal(mask.float())


def test_of_equal_scores_the_earlier_word_wins():
    assert top_k(torch.zeros(1, 6), None, 0.5).tolist() == [[1, 1, 1, 0, 0, 0]]
    assert top_k(torch.tensor([[1.0, 2, 1, 2, 1]]), None, 0.6).tolist() == [[1, 1, 0, 1, 0]]


def test_a_word_that_is_never_selected_still_comes_before_padding():
    scores = torch.tensor([[-torch.inf, -torch.inf, 0.0]])
    assert top_k(scores, torch.tensor([[True, True, False]]), 1.0).tolist() == [[1, 1, 0]]


def test_masked_words_of_every_score_take_no_rank_from_the_words_that_can_be_kept():
    scores = torch.tensor([[-torch.inf, -torch.inf, 0.0], [torch.inf, -torch.inf, -torch.inf], [torch.nan, 1.0, 2.0]])
    mask = torch.tensor([[False, True, True]]).expand(3, 3)
    assert top_k(scores, mask, 1.0).tolist() == [[0, 1, 1]] * 3
    assert top_k(scores, mask, 0.5).tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_number_of_words_is_that_of_the_blind_baselines_for_all_budgets_in_thousandths(dtype):
    """In float32, 0.15 of 190 words is more than 28.5, so that 29 words were kept where the baseline kept 28."""
    lengths = torch.arange(1, 201)
    for thousandths in range(1, 1001):
        expected = [max(1, round(thousandths / 1000 * n)) for n in lengths.tolist()]  # Python counts in float64
        assert num_within_budget(lengths, thousandths / 1000).tolist() == expected, f"budget {thousandths} / 1000"
    for budget, n in ((0.15, 190), (0.3, 95), (0.35, 90)):
        num_kept = top_k(torch.zeros(n, dtype=dtype), None, budget).sum(dtype=torch.float64).item()
        assert num_kept == max(1, round(budget * n)), f"{num_kept} of {n} at {budget}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rule_top_k_ranks_by_the_chance_of_being_open(dtype):
    gates = HardKuma(torch.tensor([[0.2, 3.0, 1.0, 0.5]], dtype=dtype), torch.ones(1, 4, dtype=dtype))
    mask = torch.tensor([[True, False, True, True]])
    assert decide(gates, "top_k", mask, budget=0.6).tolist() == [[0, 0, 1, 1]]
    assert decide(gates, "top_k", budget=0.5).tolist() == [[0, 1, 1, 0]], "without a mask all words are real"
    assert decide(gates, "top_k", mask).dtype == dtype


# --- gate modules


@pytest.mark.parametrize("name", GATES)
def test_a_gate_maps_features_to_one_distribution_a_token(name):
    gates = GATES[name](5)(torch.randn(3, 4, 5))
    assert isinstance(gates, Distribution) and gates.batch_shape == (3, 4)
    z = sample(gates)
    assert z.shape == (3, 4) and ((z >= 0) & (z <= 1)).all()
    assert z.requires_grad == gates.has_rsample, "a draw passes gradients on where the distribution says so"


@pytest.mark.parametrize("name", GATES)
def test_what_a_gate_says_of_itself_is_what_its_distribution_does(name):
    gate, p = GATES[name], SimpleNamespace(left=-0.3, right=1.2)
    built = gate.build(5, p)
    gates = built(torch.randn(300, 5))
    assert type(built) is gate and gate.name == name
    assert gate.has_rsample == gates.has_rsample and gate.binary == gates.binary
    z = sample(gates)
    assert gate.binary == bool(z.eq(0).logical_or(z.eq(1)).all()), "draws of a binary gate are 0 or 1"
    assert gate.stretched == hasattr(gates, "left")
    if gate.stretched:
        assert (gates.left, gates.right) == (-0.3, 1.2), "the support is that of the settings"


@pytest.mark.parametrize("name", [name for name in GATES if not GATES[name].stretched])
def test_a_gate_without_support_is_one_linear_layer_and_draws_zeros_and_ones(name):
    gate = GATES[name](5)
    z = sample(gate(torch.randn(30, 4, 5)))
    assert z.eq(0).logical_or(z.eq(1)).all() and 0 < z.mean() < 1
    assert sum(weight.numel() for weight in gate.parameters()) == 6


@pytest.mark.parametrize("name", [name for name in GATES if GATES[name].stretched])
def test_a_gate_has_the_support_it_was_given(name):
    gates = GATES[name](5, left=-0.5, right=1.2)(torch.randn(2, 5))
    assert (gates.left, gates.right) == (-0.5, 1.2)


def test_a_hard_concrete_gate_can_be_half_open():
    gates = HardConcreteGate(5, temperature=0.2, left=-0.2, right=1.0)(torch.randn(9, 5))
    assert gates.prob_one.eq(0).all(), "right = 1 leaves no mass at 1"


def test_shapes_of_a_hardkuma_gate_are_positive_and_unbounded_above():
    gate = HardKumaGate(1)
    torch.nn.init.ones_(gate.a.weight)
    torch.nn.init.ones_(gate.b.weight)
    with torch.no_grad():
        gates = gate(torch.tensor([[-1e4], [0.0], [1e4]]))
    assert gates.a[0] >= gate.MIN and gates.b[0] >= gate.MIN
    assert gates.a[2] > 9e3, "no clamp at 100"


def test_shapes_of_a_hardkuma_gate_keep_all_digits_of_float64():
    """torch's softplus drops e^-x from x = 20 on, which is 2e-9."""
    raw = torch.tensor([-40.0, 0.0, 19.9, 20.1, 25.0, 36.0, 39.9, 40.1, 800.0], dtype=torch.float64, requires_grad=True)
    a = HardKumaGate(1).double().of(torch.stack([raw, raw], -1)).a
    with mp.workdps(40):
        expected = [float(mp.mpf(HardKumaGate.MIN) + mp.log1p(mp.exp(mp.mpf(x)))) for x in raw.tolist()]
        slopes = [float(1 / (1 + mp.exp(-mp.mpf(x)))) for x in raw.tolist()]
    assert a.tolist() == pytest.approx(expected, rel=3e-16, abs=0)
    assert torch.autograd.grad(a.sum(), raw)[0].tolist() == pytest.approx(slopes, rel=3e-16, abs=0)


def test_softplus_in_float32_is_that_of_torch_bit_for_bit():
    raw = torch.linspace(-110, 110, 100_001, requires_grad=True)
    ours, theirs = softplus(raw), torch.nn.functional.softplus(raw)
    assert ours.equal(theirs)
    assert torch.equal(*(torch.autograd.grad(y.sum(), raw)[0] for y in (ours, theirs)))
    assert softplus(raw.bfloat16()).equal(torch.nn.functional.softplus(raw.bfloat16()))


def test_of_the_gates_of_the_papers_only_bernoulli_needs_the_score_function():
    papers = ("hardkuma", "hard_concrete", "bernoulli", "straight_through")
    assert [name for name in papers if not GATES[name].has_rsample] == ["bernoulli"]


DIFFERENTIABLE = [
    (name, use)
    for name in GATES
    for use in ("rsample", "log_prob_nonzero", "log_prob_zero", "prob_zero")
    if GATES[name].has_rsample or use != "rsample"  # other draws have no gradient
]


@pytest.mark.parametrize(("name", "use"), DIFFERENTIABLE)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e2, 1e4])
def test_gradients_stay_finite_in_float32_for_extreme_features(name, scale, use):
    torch.manual_seed(0)
    gate = GATES[name](6)
    features = (scale * torch.randn(200, 6)).requires_grad_()
    value = getattr(gate(features), use)
    value = value() if callable(value) else value
    assert value.isfinite().all(), f"{use} at features of size {scale:g}"
    value.sum().backward()
    for where, tensor in [("features", features), *gate.named_parameters()]:
        assert tensor.grad.isfinite().all(), f"gradient of {use} in {where} at features of size {scale:g}"
