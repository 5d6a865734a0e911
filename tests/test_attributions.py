"""Attributions: each method is what its formula says, on a model whose truth is known."""

import inspect
import itertools
import math

import pytest
import torch
from test_probes import DIGITS, a_batch, frozen_counter
from torch.distributions import Normal, kl_divergence

from rationale import explain
from rationale.data import Example, PairBatches
from rationale.data.corpora.toy import read_digits
from rationale.distributions import Bernoulli
from rationale.explain import METHODS, PROBE_TARGETS, compare_with_gold, divergence, search

TRUTH = torch.tensor([[1.0, 0.0, 1.0, 0.0]])


def searched_plainly(frozen, batch, row: int, layer: int) -> list[tuple[int, ...]]:
    """The smallest sets by a loop over all of them, one at a time."""
    one = explain.select_rows(batch, torch.tensor([row]))
    length, wanted = int(one.mask.sum()), frozen.predict(one).argmax()
    baseline = torch.zeros(frozen.read(one)[1][layer].shape[-1], dtype=torch.float64)
    for size in range(length + 1):
        good = []
        for kept in itertools.combinations(range(length), size):
            z = torch.zeros(one.mask.shape, dtype=torch.float64)
            z[0, list(kept)] = 1
            if frozen.masked(one, layer, z, baseline).argmax() == wanted:
                good.append(kept)
        if good:
            return good
    raise AssertionError("keeping everything keeps the answer")


@pytest.mark.parametrize("layer", [0, 1])
def test_the_search_finds_all_smallest_masks_and_no_other(layer):
    frozen, batch = frozen_counter(), a_batch(20)
    found = explain.smallest_masks(frozen, batch, layer, max_rows=50)
    for row in range(20):
        kept = [tuple(mask.nonzero().flatten().tolist()) for mask in found[row]]
        assert kept == searched_plainly(frozen, batch, row, layer), f"text {row}"


def test_the_search_runs_the_model_on_no_more_masks_at_a_time_than_it_is_asked_to():
    frozen, batch, sizes = frozen_counter(), a_batch(3), []
    some = batch.mask & (torch.arange(batch.mask.shape[1]) < 5)

    def predict(one):
        sizes.append(len(one.mask))
        return frozen.predict(one)

    watched = frozen._replace(predict=predict)
    found = explain.smallest_masks(watched, batch, 0, max_rows=7, margin=0.0, among=some)
    assert max(sizes[1:]) <= 7, "the first run reads the texts themselves"
    for one, other in zip(found, explain.smallest_masks(frozen, batch, 0, margin=0.0, among=some), strict=True):
        assert one.equal(other)


def test_the_whole_text_is_a_mask_even_if_rounding_moves_its_answer_by_more_than_the_margin(monkeypatch):
    monkeypatch.setattr(search, "divergence", lambda before, _: torch.full(before.shape[:-1], 1e-9))
    batch = a_batch(20)
    for row, masks in enumerate(explain.smallest_masks(frozen_counter(), batch, 0, margin=0.0)):
        assert masks.shape == (1, int(batch.mask[row].sum())) and masks.all()


def test_a_text_too_long_for_the_search_is_refused():
    with pytest.raises(ValueError, match="at most 3"):
        explain.smallest_masks(frozen_counter(), a_batch(20), 1, longest=3)


def test_an_erasure_is_one_where_a_smallest_mask_keeps_and_nowhere_else():
    frozen, batch = frozen_counter(), a_batch(20)
    found = explain.erasure(frozen, batch, 1)
    for row, masks in enumerate(explain.smallest_masks(frozen, batch, 1)):
        assert found[row, : masks.shape[1]].bool().equal(masks[0]) and not found[row, masks.shape[1] :].any()


def test_log_odds_of_two_classes_are_the_difference_of_their_logits():
    logits = torch.tensor([[1.0, 3.0], [-2.0, 5.0]])
    assert explain.log_odds(logits, torch.tensor([1, 0])).tolist() == [2.0, -7.0]
    three = torch.tensor([[0.2, 1.0, -0.5]]).double()
    p = three.softmax(1)[0, 1]
    assert explain.log_odds(three, torch.tensor([1])).item() == pytest.approx(math.log(p / (1 - p)))


def test_integrated_gradients_of_a_linear_output_are_its_terms():
    frozen, batch = frozen_counter(), a_batch()
    slope = torch.randn(6, dtype=torch.float64)

    def linear(b):  # the log-odds are slope . h summed over positions
        odds = (frozen.model.digit(b.tokens.first) @ slope).sum(1)
        return torch.stack([torch.zeros_like(odds), odds], 1)

    plain = frozen._replace(predict=linear)
    found = explain.integrated_gradients(plain, batch, 0, num_steps=5)
    states = frozen.read(batch)[1][0]
    torch.testing.assert_close(found, (states @ slope).abs() * batch.mask)


def test_the_parts_of_integrated_gradients_sum_to_the_difference_from_zeros():
    frozen, batch = frozen_counter(), a_batch()
    signed = explain.integrated_gradients(frozen, batch, 1, num_steps=400)
    logits, answer = frozen.read(batch)[0], frozen.read(batch)[0].argmax(-1)
    nothing = frozen.masked(batch, 1, torch.zeros(batch.mask.shape).double(), torch.zeros(2).double())
    moved = explain.log_odds(logits, answer) - explain.log_odds(nothing, answer)
    assert (signed.sum(1) >= moved.abs() - 1e-4).all(), "absolute values can only sum to more"


@pytest.mark.parametrize("method", ["information_bottleneck", "additive_noise"])
def test_fits_are_of_each_text_alone_and_leave_the_model_as_it_was(method):
    frozen, batch = frozen_counter(), a_batch()
    frozen.model.requires_grad_(False)
    before = {name: value.clone() for name, value in frozen.model.state_dict().items()}
    options = {"num_steps": 30}
    if method == "information_bottleneck":
        options |= dict(zip(("mean", "std"), explain.state_moments(frozen, [batch])[1], strict=True))
    torch.manual_seed(0)
    found = getattr(explain, method)(frozen, batch, 1, **options)
    assert found.shape == batch.mask.shape and (found >= 0).all() and (found[~batch.mask] == 0).all()
    assert all(torch.equal(value, before[name]) for name, value in frozen.model.state_dict().items())
    torch.manual_seed(0)
    assert torch.equal(getattr(explain, method)(frozen, batch, 1, **options), found), "the seed decides"
    shorter = {name: value[:2] for name, value in options.items() if name in ("mean", "std")}
    longer = getattr(explain, method)(frozen, batch, 1, **options | shorter)
    assert longer.shape == found.shape, "a text may be longer than those the moments are of"


def test_noise_goes_where_the_output_does_not_look():
    frozen, batch = frozen_counter(), a_batch()
    head = frozen.model.head

    def first_only(b):  # the output reads the state at position 0 alone
        state = frozen.model.filter(torch.tanh(frozen.model.mix(frozen.model.mix.weight.new_ones(*b.mask.shape, 18))))
        return torch.stack([torch.zeros(len(state)).double(), 5 * state[:, 0].sum(-1)], 1)

    assert head is not None
    found = explain.additive_noise(frozen._replace(predict=first_only), batch, 1, num_steps=150)
    long = batch.mask.sum(1) > 1
    assert (found[long, 0] > 3 * found[long, 1]).all()


def test_moments_are_those_of_each_position_over_the_texts_that_reach_it():
    frozen, batch = frozen_counter(), a_batch(30)
    mean, std = explain.state_moments(frozen, [batch])[1]
    states = frozen.read(batch)[1][1]
    for position in range(2):
        there = states[batch.mask[:, position], position]
        torch.testing.assert_close(mean[position], there.mean(0))
        torch.testing.assert_close(std[position], there.std(0, correction=0))
    halves = [explain.select_rows(batch, rows) for rows in torch.arange(30).split(15)]
    torch.testing.assert_close(explain.state_moments(frozen, halves)[1][0], mean)


def test_a_position_that_one_text_reaches_has_the_moments_of_the_last_that_two_reach():
    frozen, batch = frozen_counter(), a_batch(30)
    lengths = batch.mask.sum(1)
    one_of_the_longest, shorter = lengths.argmax().view(1), (lengths < lengths.max()).nonzero().flatten()
    some = explain.select_rows(batch, torch.cat([one_of_the_longest, shorter]))
    reached = some.mask.sum(0)
    last = int((reached >= 2).sum()) - 1
    assert reached[-1] == 1 and last >= 0, "this test needs such a position"
    mean, std = explain.state_moments(frozen, [some])[1]
    there = frozen.read(some)[1][1][some.mask[:, last], last]
    torch.testing.assert_close(mean[-1], there.mean(0))
    torch.testing.assert_close(std[-1], there.std(0, correction=0))


def test_moments_of_no_text_and_of_texts_that_share_no_position_are_refused():
    frozen, batch = frozen_counter(), a_batch(1)
    for batches in ([], [batch]):
        with pytest.raises(ValueError, match="batches: got no position that two texts reach, accepted are 2 or more"):
            explain.state_moments(frozen, batches)
    with pytest.raises(ValueError, match="batches: got no position, accepted is 1 or more"):
        explain.mean_states(frozen, [])


def test_the_attention_that_a_position_receives_is_averaged_over_the_real_positions_that_attend():
    class Attends(torch.nn.Module):
        def attentions(self, batch):
            return [torch.rand(4, 2, 5, 5, generator=torch.Generator().manual_seed(k)) for k in range(2)]

    mask = torch.arange(5) < torch.tensor([[5], [3], [1], [4]])
    frozen = explain.FrozenModel(Attends(), [], lambda batch: batch, lambda _: mask)
    for layer, reader in ((0, 0), (1, 0), (2, 1), (3, 1)):  # no layer reads the last states
        weights, found = frozen.model.attentions(None)[reader], explain.attention(frozen, None, layer)
        for text, length in enumerate(mask.sum(1).tolist()):
            for t in range(length):
                received = [weights[text, :, i, t].max().item() for i in range(length)]
                assert found[text, t].item() == pytest.approx(sum(received) / length, rel=1e-5)
            assert not found[text, length:].any()


# --- compared with the truth


def test_distances_are_those_of_their_definitions():
    same = explain.distance_to_truth(TRUTH, 3 * TRUTH)
    assert same["kl"].item() == 0 and same["js"].item() == 0
    spread = explain.distance_to_truth(TRUTH, torch.ones(1, 4))
    assert spread["kl"].item() == pytest.approx(math.log(2))
    apart = explain.distance_to_truth(TRUTH, 1 - TRUTH)
    assert apart["kl"].item() == math.inf and apart["js"].item() == pytest.approx(math.log(2))
    assert math.isnan(explain.distance_to_truth(TRUTH, 0 * TRUTH)["js"].item()), "no attribution is no distribution"


def test_one_digit_is_a_quarter_of_a_nat_from_the_truth():
    """The published row of erasure is that of a rule: the first n if the answer is yes, else the first m."""
    far = []
    for example in read_digits(0, 1_000, 0)["dev"]:
        digit = example.second[0 if example.label else 1]
        found = torch.tensor([[token == digit for token in example.tokens]]).double()
        if found.any():
            found = (found.cumsum(1) == 1) & (found == 1)
            far.append(explain.distance_to_truth(torch.tensor([example.rationale]).double(), found)["js"])
    assert torch.cat(far).mean().item() == pytest.approx(0.26, abs=0.02)


def test_texts_without_a_truth_are_left_out_and_empty_attributions_counted():
    examples = [Example(("1", "2"), 0, gold) for gold in ((True, False), (False, False), (True, True))]
    values = [torch.tensor([[1.0, 0.0], [0.0, 0.0]])] * 3
    found = compare_with_gold(values, examples)
    js = math.log(2) - (math.log(3) / 2 + math.log(3 / 2)) / 2  # one of two
    assert found["js_0"] == pytest.approx(js / 2) and "kl_0" not in found, "infinite for the third text"
    assert found["empty_0"] == 0 and found["empty_1"] == 1 and "js_1" not in found


def test_all_texts_of_a_batch_can_be_picked_and_repeated():
    batch = a_batch()
    picked = explain.select_rows(batch, torch.tensor([3, 3, 1]))
    assert torch.equal(picked.tokens.first, batch.tokens.first[[3, 3, 1]]) and picked.rows.tolist() == [3, 3, 1]
    examples = read_digits(12, 0, 0)["train"]
    assert PairBatches(examples, DIGITS, 12, cells=False).rows(picked.rows).target.equal(picked.target)


# --- formulas against torch and against enumeration


def test_what_the_bottleneck_tells_is_the_divergence_of_torch():
    generator = torch.Generator().manual_seed(0)
    raw = torch.tensor([[-30.0, -2.0, 0.0, 5.0, 20.0]], dtype=torch.float64)
    h, mean = torch.randn(2, 1, 5, 3, dtype=torch.float64, generator=generator)
    std = torch.rand(1, 5, 3, dtype=torch.float64, generator=generator) + 0.1
    keep, lost = raw.sigmoid().unsqueeze(-1), (-raw).sigmoid().unsqueeze(-1)
    here, there = Normal(keep * h + lost * mean, lost * std), Normal(mean, std)
    expected = kl_divergence(here, there).mean(-1)
    found = explain.information(raw, ((h - mean) / std).square())
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_the_score_term_has_the_gradient_of_the_expected_cost():
    """Over all masks of three positions, weighted by their probability, with an average taken off or not."""
    raw = torch.tensor([[0.3, -1.2, 2.0]], dtype=torch.float64, requires_grad=True)
    every = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 3)  # [8, 3]
    cost = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gates, mask = Bernoulli(logits=raw), torch.ones(1, 3, dtype=torch.bool)
    prob = gates.log_prob(every).sum(1).exp()  # [8]
    (exact,) = torch.autograd.grad((prob * cost).sum(), raw, retain_graph=True)
    for average in (0.0, 0.7):
        terms = explain.score_term(gates, every, cost - average, mask)
        (found,) = torch.autograd.grad((prob.detach() * terms).sum(), raw, retain_graph=True)
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-14)


def test_a_search_under_a_margin_keeps_the_distribution_and_not_only_the_answer():
    frozen, batch = frozen_counter(), a_batch()
    answer = explain.smallest_masks(frozen, batch, 0)
    original, _ = frozen.read(batch)
    sizes = {}
    for margin in (1e-9, 0.05, 100.0):
        found = explain.smallest_masks(frozen, batch, 0, margin=margin)
        sizes[margin] = [int(masks[0].sum()) for masks in found]
        for row, masks in enumerate(found):
            z = torch.zeros(batch.mask.shape, dtype=original.dtype)
            z[row, : masks.shape[1]] = masks[0].to(z.dtype)
            apart = divergence(original, frozen.masked(batch, 0, z, torch.zeros((), dtype=z.dtype)))[row]
            assert apart <= margin
    assert sizes[100.0] == [0] * len(answer), "any mask will do"
    assert all(small <= large for small, large in zip(sizes[0.05], sizes[1e-9], strict=True))


def test_the_divergence_of_a_mask_is_that_of_the_search():
    """All masks that the search calls smallest meet the margin, and the same masks with one position less do not."""
    frozen, batch = frozen_counter(), a_batch()
    for masks in zip(*(found[:1] for found in explain.smallest_masks(frozen, batch, 0, margin=0.05)), strict=True):
        kept = torch.zeros(batch.mask.shape, dtype=torch.bool)
        for row, mask in enumerate(masks):
            kept[row, : len(mask)] = mask
        assert (explain.mask_divergence(frozen, batch, 0, kept) <= 0.05).all()
        for row in range(len(kept)):
            fewer = kept.clone()
            fewer[row, kept[row].nonzero()[:1]] = False
            if kept[row].any():
                assert explain.mask_divergence(frozen, batch, 0, fewer)[row] > 0.05


# --- the table of methods


def test_a_method_needs_exactly_the_options_that_its_function_takes():
    options = {
        "num_steps": "needs_steps", "margin": "needs_margin", "mean": "needs_moments", "longest": "needs_short_texts",
    }  # fmt: skip
    for name, method in METHODS.items():
        assert method.name == name and method.is_probe == (name in PROBE_TARGETS)
        if not method.is_probe:
            taken = inspect.signature(method.function).parameters
            for option, need in options.items():
                assert (option in taken) == getattr(method, need), f"{name}: {option}"


def test_what_a_method_misses_is_said_in_words_and_nothing_is_missing_otherwise():
    everything = {"single_answer": True, "attention_weights": True, "short_texts": True}
    assert not any(method.missing(**everything) for method in METHODS.values())
    without = {
        "single_answer": {"integrated_gradients", "information_bottleneck"},
        "attention_weights": {"attention"},
        "short_texts": {"erasure"},
    }
    for fact, names in without.items():
        found = {name for name, method in METHODS.items() if method.missing(**everything | {fact: False})}
        assert found == names, fact


@pytest.mark.parametrize("kind", ["kl", "reverse_kl", "js"])
def test_the_divergence_of_impossible_classes_is_the_right_number(kind):
    """A class of logit -inf has probability 0: with 0 ln 0 = 0, and infinite only where the other one has some."""
    same = torch.tensor([[0.3, -torch.inf, 1.0]], requires_grad=True)
    other = torch.tensor([[0.3, 0.5, 1.0]])
    assert divergence(same, same, kind) == 0
    masked = divergence(same, same.detach() + torch.tensor([1.0, 0.0, 0.0]), kind)
    kept = torch.tensor([[0.3, 1.0]])
    assert torch.allclose(masked, divergence(kept, kept + torch.tensor([1.0, 0.0]), kind))
    assert torch.autograd.grad(masked.sum(), same)[0].isfinite().all()
    assert (divergence(other, same, kind) == torch.inf) == (kind == "kl")
