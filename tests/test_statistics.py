"""Intervals and tests of differences, against scipy and cases that can be counted by hand."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import f1_score

from rationale.statistics import (
    changed_share_difference,
    macro_f1_error,
    mean_interval,
    pair_interval,
    paired_bootstrap,
    run_interval,
    share_difference,
    student_interval,
    welch_contrast,
    welch_test,
    wilson_interval,
)


@pytest.mark.parametrize(("right", "num"), [(0, 10), (3, 10), (160, 200), (1056, 2210), (200, 200)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_wilsons_interval_is_scipys(right, num, confidence):
    theirs = stats.binomtest(right, num).proportion_ci(confidence, method="wilson")
    assert wilson_interval(right / num, num, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_newcombes_interval_is_that_of_his_example():
    found = share_difference(56 / 70, 48 / 80, 70, 80)  # Newcombe 1998, table II, example (a), method 10
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_interval_of_a_mean_over_seeds_is_scipys():
    values = [0.41, 0.44, 0.43, 0.47]
    theirs = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert mean_interval(values) == pytest.approx(theirs, abs=1e-12)


def test_the_interval_of_a_mean_with_a_known_error_is_that_of_its_values():
    values = [0.41, 0.44, 0.43, 0.47, 0.40]
    error = stats.sem(values)
    assert student_interval(np.mean(values), error, 5) == pytest.approx(mean_interval(values), abs=1e-12)
    normal = stats.norm.interval(0.9, 0.5, error)
    assert student_interval(0.5, error, math.inf, 0.9) == pytest.approx(normal, abs=1e-12)


def test_one_more_seed_lies_in_the_interval_of_a_run_as_often_as_it_says():
    values = [0.41, 0.44, 0.43, 0.47]
    half = stats.t.ppf(0.975, 3) * np.std(values, ddof=1) * math.sqrt(1 + 1 / 4)
    assert run_interval(values) == pytest.approx((np.mean(values) - half, np.mean(values) + half), abs=1e-12)
    torch.manual_seed(1)
    draws = torch.randn(2000, 6, dtype=torch.float64)
    inside = [low <= last <= high for *seen, last in draws.tolist() for low, high in [run_interval(seen)]]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02), "four standard errors"


def test_one_more_seed_of_each_model_lies_in_the_interval_of_a_pair_as_often_as_it_says():
    ours, theirs = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0]  # variances 1 and 20/3, means 2 and 5
    first, second = 1 * (1 + 1 / 3), 20 / 3 * (1 + 1 / 4)
    freedom = (first + second) ** 2 / (first**2 / 2 + second**2 / 3)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(first + second)
    assert pair_interval(ours, theirs) == pytest.approx((-3 - half, -3 + half))
    assert pair_interval([0.4, 0.4], [0.25, 0.25]) == pytest.approx((0.15, 0.15))
    torch.manual_seed(1)
    draws = torch.randn(2000, 2, 7, dtype=torch.float64) * torch.tensor([[1.0], [3.0]]) + torch.tensor([[2.0], [0.0]])
    inside = [
        low <= ours[-1] - theirs[-1] <= high
        for ours, theirs in draws.tolist()
        for low, high in [pair_interval(ours[:-1], theirs[:-1])]
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02), "four standard errors"


def test_welchs_test_is_the_one_computed_by_hand():
    ours, theirs = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0]  # variances 1 and 20/3, means 2 and 5
    error = math.sqrt(1 / 3 + 20 / 3 / 4)
    freedom = (1 / 3 + 5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (5 / 3) ** 2 / 3)
    found = welch_test(ours, theirs)
    half = stats.t.ppf(0.975, freedom) * error
    assert (found.value, found.low, found.high) == pytest.approx((-3, -3 - half, -3 + half))
    assert found.p_value == pytest.approx(2 * stats.t.sf(3 / error, freedom))
    assert not found.is_significant and welch_test([1, 2, 3], [11, 12, 13]).is_significant


def test_a_contrast_of_two_groups_is_welchs_test_and_of_four_it_covers_the_truth_as_often_as_it_says():
    ours, theirs = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0]
    assert welch_contrast([ours, theirs], [1, -1]) == pytest.approx(welch_test(ours, theirs))
    level = welch_contrast([[0.4, 0.4], [0.3, 0.3]], [1, -1])
    assert level.low == level.high == level.value == pytest.approx(0.1) and level.p_value == 0
    draws = np.random.default_rng(1).normal(size=(2000, 4, 4)) * np.array([[1.0], [2.0], [0.5], [1.0]])
    found = [welch_contrast(groups, [1, -1, -1, 1]) for groups in draws.tolist()]
    assert np.mean([one.low <= 0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.02), "four standard errors"
    assert all((one.p_value > 0.05) == (one.low <= 0 <= one.high) for one in found), "one without 0 has a small p"


def test_welchs_test_takes_a_difference_of_rounding_for_none():
    """0.1 + 0.2 is not 0.3 in Python's numbers."""
    found = welch_test([0.1 + 0.2, 0.1 + 0.2], [0.3, 0.3])
    assert found.value == 0 and found.p_value == 1 and not found.is_significant


def test_welchs_test_of_scores_without_spread_has_an_interval_without_width():
    found = welch_test([0.4, 0.4], [0.3, 0.3])
    assert found.low == found.high == found.value == pytest.approx(0.1) and found.p_value == 0
    assert welch_test([0.4, 0.4], [0.4, 0.4]).p_value == 1


@pytest.mark.parametrize("unit", [1e-100, 1e-120, 1e100])
def test_welchs_test_does_not_depend_on_the_unit_of_the_scores(unit):
    ours, theirs = [1.0, 2.0], [3.0, 5.0, 5.5]
    wanted = welch_test(ours, theirs)
    found = welch_test([unit * score for score in ours], [unit * score for score in theirs])
    for name in ("value", "low", "high"):
        assert getattr(found, name) == pytest.approx(unit * getattr(wanted, name), rel=1e-9, abs=0), name
    assert found.p_value == pytest.approx(wanted.p_value, rel=1e-9)


def test_the_bootstrap_of_one_seed_is_scipys_of_the_differences():
    torch.manual_seed(1)
    ours, theirs = (torch.rand(300) < share for share in (0.7, 0.6))
    found = paired_bootstrap(ours, theirs, 20_000)
    differences = (ours.double() - theirs.double()).numpy()
    usual = stats.bootstrap((differences,), np.mean, n_resamples=20_000, method="percentile", rng=1)
    # An end of the interval has a standard error of about .0005 with so many resamples.
    assert found.low == pytest.approx(usual.confidence_interval.low, abs=0.004)
    assert found.high == pytest.approx(usual.confidence_interval.high, abs=0.004)
    assert found.value == pytest.approx(differences.mean())


def test_the_bootstrap_has_the_distribution_of_all_resamples_of_the_texts():
    ours, theirs = torch.tensor([1.0, 0.0, 0.75]), torch.tensor([0.0, 0.25, 0.5])
    everything = [np.mean((ours - theirs)[list(texts)].tolist()) for texts in product(range(3), repeat=3)]
    exact = np.quantile(everything, [0.1, 0.9], method="inverted_cdf")
    found = paired_bootstrap(ours, theirs, 40_000, confidence=0.8)
    assert (found.low, found.high) == pytest.approx(tuple(exact), abs=1e-9), sorted(everything)
    below = 2 * min(np.mean(np.array(everything) <= 0), np.mean(np.array(everything) >= 0))
    assert found.p_value == pytest.approx(below, abs=0.015), "standard error .0035"


def test_the_part_of_the_seeds_is_students_where_all_texts_are_alike():
    scores = torch.tensor([0.3, 0.5, 0.4]).unsqueeze(1).expand(3, 50)
    found, exact = paired_bootstrap(scores, torch.zeros(50), 100_000), mean_interval([0.3, 0.5, 0.4])
    # The ends of Student's interval with two degrees of freedom are at 4.3; the quantile has a standard error of .05.
    assert (found.low, found.high) == pytest.approx(exact, abs=0.012)
    assert (found.high + found.low) / 2 == pytest.approx(0.4, abs=0.005)


@pytest.mark.parametrize("num_seeds", [2, 3, 5])
def test_the_bootstrap_covers_the_true_difference_with_few_seeds_be_their_spread_large_or_small(num_seeds):
    """400 pairs of models, equally good: nine and a half of ten intervals have to contain 0, by two standard errors."""
    draws = np.random.default_rng(num_seeds)
    for of_seed in (1.0, 0.02):
        contained = []
        for number in range(400):
            texts, seeds = draws.normal(size=(1, 40)), of_seed * draws.normal(size=(2, num_seeds, 1))
            ours, theirs = torch.tensor(texts + seeds + draws.normal(size=(2, num_seeds, 40)) / 2)
            found = paired_bootstrap(ours, theirs, 500, seed=number)
            contained.append(found.low <= 0 <= found.high)
        assert np.mean(contained) > 0.928, (of_seed, np.mean(contained))


def test_pairing_narrows_the_interval_where_both_models_fail_on_the_same_texts():
    torch.manual_seed(1)
    easy = torch.rand(500) < 0.7
    better = easy | (torch.rand(500) < 0.1)
    found, apart = paired_bootstrap(better, easy), share_difference(better.double().mean().item(), 0.7, 500)
    assert found.is_significant and found.high - found.low < (apart.high - apart.low) / 2


def test_an_interval_is_the_same_for_the_same_seed_and_whatever_fits_into_memory():
    scores = torch.arange(12.0).view(2, 6) % 5
    assert paired_bootstrap(scores, scores.flip(1), 50) == paired_bootstrap(scores, scores.flip(1), 50)
    large = paired_bootstrap(torch.ones(1_500_000), torch.zeros(1_500_000), 3)  # one resample at a time
    assert (large.low, large.high) == (1, 1)


def test_the_interval_of_two_accuracies_on_the_same_texts_is_at_least_as_wide_as_that_of_the_paired_scores():
    torch.manual_seed(1)
    labels, ours = torch.randint(5, (4000,)), torch.randint(5, (4000,))
    theirs = torch.where(torch.rand(4000) < 0.8, ours, torch.randint(5, (4000,)))
    right, other, changed = (part.double() for part in (ours == labels, theirs == labels, ours != theirs))
    found = changed_share_difference(right.mean().item(), other.mean().item(), changed.mean().item(), 4000)
    paired = (right - other).std(unbiased=False).item() * stats.norm.ppf(0.975) / 4000**0.5
    half = (found.high - found.low) / 2
    assert found.value == pytest.approx((right - other).mean().item()) and paired < half < 2 * paired
    only = changed_share_difference(0.4, 0.7, 0.3, 4000)  # each changed answer was right and is wrong now
    scores = torch.cat([-torch.ones(1200), torch.zeros(2800)]).double()
    assert (only.high - only.low) / 2 == pytest.approx(scores.std(unbiased=False).item() * 1.959964 / 4000**0.5)


def test_shares_of_texts_are_accepted_however_they_were_rounded():
    """The share of changed answers is at least the difference; where all changes go one way, it is equal to it."""
    z = stats.norm.ppf(0.975)
    for num in (*range(1, 30), 997, 2210):
        counts = range(num + 1) if num < 30 else (0, 1, num // 3, num // 2, num - 2, num)
        for right, other in product(counts, repeat=2):
            one_way, difference = abs(right - other), Fraction(right - other, num)
            for changed in {one_way, min(num, one_way + 1)}:
                exact = z * math.sqrt((Fraction(changed, num) - difference**2) / num)
                for digits, precision in ((17, 1e-7), (6, 3e-3)):  # as computed, and as in a table of results
                    shares = [float(f"{count / num:.{digits}g}") for count in (right, other, num - changed)]
                    found = changed_share_difference(shares[0], shares[1], 1 - shares[2], num)
                    half = (found.high - found.low) / 2
                    assert half == pytest.approx(exact, abs=precision / num**0.5), (right, other, changed)
            if one_way:
                with pytest.raises(ValueError, match="of the answers changed"):  # one text fewer
                    changed_share_difference(right / num, other / num, (one_way - 1) / num, num)


def test_a_model_does_not_differ_from_itself_by_the_rounding_of_its_scores():
    texts = torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for scores in (texts, 1e9 * texts, torch.full((10,), 0.7)):
        found = paired_bootstrap(scores.expand(3, -1), scores, 500)  # three seeds that give the same, and one
        assert (found.value, found.low, found.high, found.p_value) == (0, 0, 0, 1)
    level = welch_contrast([[0.3, 0.3], [0.2, 0.2], [0.2, 0.2], [0.1, 0.1]], [1, -1, -1, 1])  # 0.1 less 0.1
    assert (level.value, level.low, level.high, level.p_value) == (0, 0, 0, 1) and not level.is_significant


def test_the_error_of_a_macro_f1_is_that_over_all_draws():
    ours, theirs, right = np.array([[0, 1, 2, 1], [0, 2, 2, 0], [0, 1, 1, 2]])
    differences = []
    for draw in map(list, product(range(4), repeat=4)):
        ends = [f1_score(right[draw], answers[draw], average="macro", labels=np.unique([right[draw], answers[draw]]))
                for answers in (ours, theirs)]  # fmt: skip
        differences.append(ends[0] - ends[1])
    exact, tensors = np.std(differences), [torch.from_numpy(part) for part in (ours, theirs, right)]
    assert macro_f1_error(*tensors, num_resamples=100_000) == pytest.approx(exact, rel=0.01)
    assert macro_f1_error(*tensors) == macro_f1_error(*tensors) != macro_f1_error(*tensors, seed=2)
    assert macro_f1_error(tensors[0], tensors[0], tensors[2]) == 0
    for wrong in ((tensors[0][:3], *tensors[1:]), [part[:0] for part in tensors]):
        with pytest.raises(ValueError, match=r"accepted: \[N\] each, N >= 1, and 2 draws or more"):
            macro_f1_error(*wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson_interval(1.2, 10), "a share of 1.2 of 10 texts"),
        (lambda: wilson_interval(0.5, 0), "a share of 0.5 of 0 texts"),
        (lambda: wilson_interval(0.5, math.nan), "a share of 0.5 of nan texts"),
        (lambda: wilson_interval(0.5, 10, 95), "confidence: got 95"),
        (lambda: changed_share_difference(0.5, 0.7, 0.1, 10), "shares of 0.5 and 0.7, 0.1 of the answers changed"),
        (lambda: mean_interval([0.4]), "accepted are 2 or more finite scores"),
        (lambda: student_interval(0.4, 0.1, 1), "got 1 scores, accepted are 2 or more"),
        (lambda: student_interval(0.4, 0.1, math.nan), "got nan scores, accepted are 2 or more"),
        (lambda: student_interval(0.0, -1.0, 5), r"error: got -1.0, accepted are numbers in \[0, inf\)"),
        (lambda: student_interval(0.0, math.nan, 5), "error: got nan"),
        (lambda: student_interval(math.nan, 1.0, 5), "middle: got nan, accepted are finite numbers"),
        (lambda: welch_contrast([[0.4, 0.5]], [1, -1]), "2 weights for 1 groups, accepted is one per group"),
        (lambda: welch_contrast([], []), "got no groups, accepted is 1 or more"),
        (lambda: welch_contrast([[0.4, 0.5]] * 2, [1, math.nan]), r"weights: got \[1, nan\], accepted are finite"),
        (lambda: welch_test([0.4, 0.5], [0.4]), "accepted are 2 or more finite scores"),
        (lambda: welch_test([0.4, float("nan")], [0.4, 0.5]), "accepted are 2 or more finite scores"),
        (lambda: paired_bootstrap(torch.ones(3), torch.ones(4)), r"shapes \(3,\) and \(4,\)"),
        (lambda: paired_bootstrap(torch.ones(0), torch.ones(0)), "accepted are"),
        (lambda: paired_bootstrap(torch.ones(2, 1), torch.zeros(2, 1)), "of one text, accepted are 2 or more"),
        (lambda: paired_bootstrap(torch.ones(3), torch.ones(3) * torch.nan), "not finite"),
        (lambda: paired_bootstrap(torch.ones(3), torch.ones(3), 0), "num_resamples: got 0"),
    ],
)
def test_what_is_out_of_range_is_refused_with_what_is_accepted(call, message):
    with pytest.raises(ValueError, match=message):
        call()
