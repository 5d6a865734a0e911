"""Intervals and tests: how far a score is known, and whether two models differ.

    what is there                                   what to use
    one accuracy, and the number of texts           `wilson_interval`
    two accuracies of one seed each                 `share_difference`
    the same on the same texts, and how often       `changed_share_difference`
    the two answers differ
    one score per seed                              `mean_interval`; of two models `welch_test`; where one more seed
                                                    may be: `run_interval`, of two models `pair_interval`
    their mean and its standard error alone         `student_interval`
    one score per text, for each seed               `paired_bootstrap`
    two answers per text, for their macro F1        `macro_f1_error`

An interval covers the variation that it has seen and no other. Of one seed it says nothing of other seeds, and of the
means of three seeds nothing of other texts. Only `paired_bootstrap` covers both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from statistics import NormalDist, mean, stdev

import torch
from torch import Tensor

from rationale.errors import optional

ROUNDING = 1e-12  # a difference of scores that is smaller than this share of the scores is 0


@dataclass(frozen=True)
class Difference:
    """The difference of two means, `ours - theirs`, with its interval.

    Attributes
    ----------
    value, low, high : float
        In the units of the scores.
    p_value : float, in [0, 1]
        The probability of a difference at least as large, in either direction, if the true one were 0. NaN where only
        an interval is computed.
    """

    value: float
    low: float
    high: float
    p_value: float = float("nan")

    @property
    def is_significant(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


def wilson_interval(share: float, num: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share, such as the accuracy of one model on `num` texts.

        (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Source: Wilson 1927. Unlike `p -+ z sqrt(p (1 - p) / n)`, it does not leave [0, 1], and it has a width at 0 and 1.

    Parameters
    ----------
    share : float, in [0, 1]
    num : int, 1 or more
        The number of texts.
    confidence : float, in (0, 1)

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> [round(end, 4) for end in wilson_interval(0.8, 200)]
    [0.7391, 0.8495]
    """
    z = _normal_quantile(confidence)
    if not 0 <= share <= 1 or not num >= 1:
        raise ValueError(f"got a share of {share} of {num} texts, accepted are shares in [0, 1] of 1 or more texts")
    middle = share + z**2 / (2 * num)
    half = z * (share * (1 - share) / num + z**2 / (4 * num**2)) ** 0.5
    scale = 1 + z**2 / num
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def share_difference(ours: float, theirs: float, num: int, num_theirs: int = 0, confidence: float = 0.95) -> Difference:
    """The difference of two shares, with Newcombe's interval, for models of which only the accuracies are known.

        low = d - sqrt((p - l)^2 + (u' - p')^2)     high = d + sqrt((u - p)^2 + (p' - l')^2)

    with d = p - p' and Wilson's intervals [l, u] and [l', u']. Source: Newcombe 1998, method 10. The two samples count
    as independent. Two models are usually right on the same texts, so for scores on the same texts the interval is too
    wide, and `paired_bootstrap` finds differences that this one misses.

    Parameters
    ----------
    ours, theirs : float, in [0, 1]
    num, num_theirs : int, 1 or more
        The numbers of texts. If `num_theirs` is 0, it is `num`.
    confidence : float, in (0, 1)

    Examples
    --------
    >>> found = share_difference(0.9, 0.8, 200)
    >>> round(found.low, 3), round(found.high, 3), found.is_significant
    (0.03, 0.17, True)
    """
    low, high = wilson_interval(ours, num, confidence)
    other_low, other_high = wilson_interval(theirs, num_theirs or num, confidence)
    value = ours - theirs
    below = ((ours - low) ** 2 + (other_high - theirs) ** 2) ** 0.5
    above = ((high - ours) ** 2 + (theirs - other_low) ** 2) ** 0.5
    return Difference(value, value - below, value + above)


def changed_share_difference(
    ours: float, theirs: float, changed: float, num: int, confidence: float = 0.95
) -> Difference:
    """The difference of two accuracies on the *same* texts, if it is known how often the two answers differ.

        d -+ z sqrt((changed - d^2) / n)

    A text counts for one model and not for the other only if their answers differ. So the variance of the difference
    of one text is at most `changed - d^2`, and the interval is at least as wide as that of the paired scores.

    Parameters
    ----------
    ours, theirs : float, in [0, 1]
    changed : float, in [0, 1], at least |ours - theirs|
        The share of texts on which the two answers differ. If it is smaller by less than half a text, the shares were
        rounded, and it counts as equal to the difference.
    num : int, 1 or more
        The number of texts.
    confidence : float, in (0, 1)

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> found = changed_share_difference(0.48, 0.51, 0.19, 2000)
    >>> round(found.low, 3), round(found.high, 3), found.is_significant
    (-0.049, -0.011, True)
    """
    z = _normal_quantile(confidence)
    value = ours - theirs
    if num < 1 or not (0 <= ours <= 1 and 0 <= theirs <= 1 and abs(value) - 0.5 / num < changed <= 1):
        raise ValueError(
            f"got shares of {ours} and {theirs}, {changed} of the answers changed, {num} texts; accepted are shares in "
            "[0, 1], at least their difference changed, and 1 or more texts"
        )
    half = z * ((max(changed, abs(value)) - value**2) / num) ** 0.5
    return Difference(value, value - half, value + half)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of a mean over seeds: mean -+ t(n - 1) s / sqrt(n). It needs scipy.

    Parameters
    ----------
    values : [S] scores, one per seed, S >= 2
    confidence : float, in (0, 1)

    Raises
    ------
    ValueError
        If there are fewer than two values.
    """
    _require_values(values)
    return student_interval(mean(values), stdev(values) / len(values) ** 0.5, len(values), confidence)


def student_interval(middle: float, error: float, num: float, confidence: float = 0.95) -> tuple[float, float]:
    """`mean_interval` of scores of which only the mean, its standard error and their number are known.

    Parameters
    ----------
    middle : float
    error : float, >= 0
    num : int, 2 or more; or infinity
        With infinity, the interval is that of the normal distribution.
    confidence : float, in (0, 1)

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    if not num >= 2:
        raise ValueError(f"got {num} scores, accepted are 2 or more")
    if not isfinite(middle):
        raise ValueError(f"middle: got {middle}, accepted are finite numbers")
    if not 0 <= error < inf:
        raise ValueError(f"error: got {error}, accepted are numbers in [0, inf)")
    half = _student_quantile(num - 1, confidence) * error
    return middle - half, middle + half


def run_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's prediction interval: where the score of one further seed lies. It needs scipy.

        mean -+ t(n - 1) s sqrt(1 + 1 / n)

    A published number is mostly that of one run. The interval of a mean shrinks with every seed, so that with enough of
    them it excludes nearly every single run, those of the same model included. This one does not.

    Parameters
    ----------
    values : [S] scores, one per seed, S >= 2
    confidence : float, in (0, 1)

    Raises
    ------
    ValueError
        If there are fewer than two values.
    """
    low, high = mean_interval(values, confidence)
    middle, half = (low + high) / 2, (high - low) / 2 * (len(values) + 1) ** 0.5
    return middle - half, middle + half


def welch_test(ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95) -> Difference:
    """Welch's t-test of two models, of which each has one score per seed; the two may have different spreads.

        t = (m - m') / sqrt(s^2 / n + s'^2 / n')

    with the degrees of freedom of Welch and Satterthwaite. Source: Welch 1947. It needs scipy. The seeds of the two
    models need not be the same, and are not paired. Scores of three seeds can show large differences only.

    Parameters
    ----------
    ours, theirs : [S], [S'] scores, S, S' >= 2
    confidence : float, in (0, 1)

    Returns
    -------
    Difference
        In the units of the scores. If no score differs from its model's mean, the interval has no width.

    Raises
    ------
    ValueError
        If a model has fewer than two scores, or one that is not finite.

    Examples
    --------
    >>> found = welch_test([0.47, 0.48, 0.49], [0.44, 0.45, 0.45])
    >>> round(found.value, 3), round(found.p_value, 2), found.is_significant
    (0.033, 0.01, True)
    """
    return welch_contrast([ours, theirs], [1, -1], confidence)


def welch_contrast(groups: Sequence[Sequence[float]], weights: Sequence[float], confidence: float = 0.95) -> Difference:
    """Welch's test of a weighted sum of means, such as the difference of two differences.

        c = sum of w_i m_i,   t = c / sqrt(sum of v_i),   v_i = w_i^2 s_i^2 / n_i

    with the degrees of freedom of Welch and Satterthwaite, (sum of v_i)^2 / sum of (v_i^2 / (n_i - 1)). With the
    weights (1, -1) it is `welch_test`. Source: Welch 1951. It needs scipy.

    Parameters
    ----------
    groups : sequences of scores
        One score per seed, at least two per group.
    weights : [G] numbers
        One per group.
    confidence : float, in (0, 1)

    Returns
    -------
    Difference
        `value` is c. If no score differs from the mean of its group, the interval has no width.

    Raises
    ------
    ValueError
        If there is no group, or not one finite weight per group, or a group has fewer than two scores, or one that is
        not finite.

    Examples
    --------
    >>> found = welch_contrast([[5.0, 6.0], [1.0, 2.0], [3.0, 4.0], [2.0, 3.0]], weights=[1, -1, -1, 1])
    >>> found.value  # a lead of 4 is larger than a lead of 1 by this much
    3.0
    """
    _normal_quantile(confidence)
    if len(weights) != len(groups):
        raise ValueError(f"got {len(weights)} weights for {len(groups)} groups, accepted is one per group")
    if not groups:
        raise ValueError("got no groups, accepted is 1 or more")
    if not all(map(isfinite, weights)):
        raise ValueError(f"weights: got {list(weights)}, accepted are finite numbers")
    for values in groups:
        _require_values(values)
    terms = [weight * mean(values) for weight, values in zip(weights, groups, strict=True)]
    value = sum(terms)
    value = 0.0 if abs(value) <= ROUNDING * max(map(abs, terms), default=0.0) else value
    parts = [
        (weight**2 * stdev(values) ** 2 / len(values), len(values) - 1)
        for weight, values in zip(weights, groups, strict=True)
    ]
    if all(variance == 0 for variance, _ in parts):
        return Difference(value, value, value, float(value == 0))
    low, high = welch_interval(value, parts, confidence)
    variance, freedom = _of_sum(parts)
    stats = optional("scipy.stats", "Welch's test", "notebooks")
    return Difference(value, low, high, float(2 * stats.t.sf(abs(value) / variance**0.5, freedom)))


def welch_interval(value: float, parts: Sequence[tuple[float, float]], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of a sum whose terms have variances that were estimated apart. It needs scipy.

        value -+ t(f) sqrt(sum of v_i),   f = (sum of v_i)^2 / sum of (v_i^2 / f_i)

    Source: Welch 1947, Satterthwaite 1946.

    Parameters
    ----------
    value : float
    parts : (v_i, f_i) for each term
        Its estimated variance, and the degrees of freedom of this estimate.
    confidence : float, in (0, 1)
    """
    variance, freedom = _of_sum(parts)
    half = _student_quantile(freedom, confidence) * variance**0.5
    return value - half, value + half


def _of_sum(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The variance of a sum and its degrees of freedom; see `welch_interval`."""
    variance = sum(part for part, _ in parts)
    if not variance:
        return variance, inf
    shares = [(part / variance, num) for part, num in parts]  # the square of a small variance would be 0
    return variance, 1 / sum(share**2 / num for share, num in shares)


def pair_interval(ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Prediction interval of two models: where the difference of one further seed of each lies. It needs scipy.

        m - m' -+ t(f) sqrt(s^2 (1 + 1 / n) + s'^2 (1 + 1 / n'))

    with f as in Welch's test, for these two variances. It is to `welch_test` what `run_interval` is to `mean_interval`:
    a published difference is mostly that of one run of each model. With few seeds it is wide, and excludes little.

    Parameters
    ----------
    ours, theirs : [S], [S'] scores, S, S' >= 2
    confidence : float, in (0, 1)

    Raises
    ------
    ValueError
        If a model has fewer than two scores, or one that is not finite.
    """
    for values in (ours, theirs):
        _require_values(values)
    value = mean(ours) - mean(theirs)
    parts = [(stdev(values) ** 2 * (1 + 1 / len(values)), len(values) - 1) for values in (ours, theirs)]
    return welch_interval(value, parts, confidence)


def paired_bootstrap(
    ours: Tensor, theirs: Tensor, num_resamples: int = 10_000, confidence: float = 0.95, seed: int = 1
) -> Difference:
    """The difference of two models on the same texts, with a bootstrap interval over texts and seeds.

        d* = mean over i in I* of (m_i - m'_i) + t* s / sqrt(S) - t'* s' / sqrt(S')

    m_i is the mean score of text i over the S seeds of a model. I* is a draw of N texts with replacement, the *same*
    for both models, so that texts that are easy or hard for both cancel. Source: Efron and Tibshirani 1993, ch. 13.
    The few seeds are not resampled, because the interval would be far too narrow: with three seeds whose spread
    matters, 95 % intervals contained the true difference in 80 % of our simulations. Instead, t* is a draw from
    Student's distribution with S - 1 degrees of freedom, and s is the standard deviation of the S means of the seeds,
    as in `mean_interval`. Each model has its own draw, because seed 1 of one model has nothing in common with seed 1 of
    the other. The interval is that of the percentiles of d*. It is rather too wide: what varies over texts and seeds
    together counts in both parts of d*, and with three seeds each, 99 to 100 % of our simulated intervals contained the
    true difference. So a difference that is not significant here may still be one.

    Parameters
    ----------
    ours, theirs : [S, N] and [S', N], or [N] for one seed
        A score per seed and text, such as 1 where a prediction is right and 0 where it is not, or a squared error.
        Column i is the same text in both. If a model has one seed, the interval says nothing of its other seeds.
    num_resamples : int, 1 or more
    confidence : float, in (0, 1)
    seed : int
        Of the draws.

    Returns
    -------
    Difference
        `p_value` is twice the smaller share of d* on one side of 0, at least 1 / num_resamples and at most 1.

    Raises
    ------
    ValueError
        If the shapes do not fit, there is only one text, a score is not finite, or a number is outside its range.

    Examples
    --------
    >>> right = torch.tensor([1.0, 1.0, 0.0, 1.0])
    >>> paired_bootstrap(right, right)  # a model beside itself: each resample has the difference 0
    Difference(value=0.0, low=0.0, high=0.0, p_value=1.0)
    """
    _normal_quantile(confidence)
    scores = [torch.atleast_2d(part).double() for part in (ours, theirs)]
    num_texts = scores[0].shape[1]
    if any(part.ndim != 2 or not part.numel() for part in scores) or scores[1].shape[1] != num_texts:
        shapes = f"{tuple(ours.shape)} and {tuple(theirs.shape)}"
        raise ValueError(f"got scores of shapes {shapes}, accepted are [S, N] and [S', N] of the same N texts")
    if num_texts < 2:
        raise ValueError("got scores of one text, accepted are 2 or more: one does not tell how far texts differ")
    if not all(part.isfinite().all() for part in scores):
        raise ValueError("a score is not finite")
    if num_resamples < 1:
        raise ValueError(f"num_resamples: got {num_resamples}, accepted is 1 or more")
    generator = torch.Generator().manual_seed(seed)
    apart = scores[0].mean(0) - scores[1].mean(0)  # [N]
    blocks, rows = [], max(1, 2_000_000 // num_texts)  # at most so many resamples are in memory at a time
    for start in range(0, num_resamples, rows):
        size = min(rows, num_resamples - start)
        texts = torch.randint(num_texts, (size, num_texts), generator=generator)
        blocks.append(apart[texts].mean(1))
    drawn = torch.cat(blocks)
    for part, sign in zip(scores, (1, -1), strict=True):
        drawn += sign * _of_other_seeds(part.mean(1), num_resamples, generator)
    value = scores[0].mean() - scores[1].mean()
    smallest = ROUNDING * max(part.abs().max().item() for part in scores)
    value, drawn = (torch.where(part.abs() <= smallest, 0.0, part) for part in (value, drawn))
    ends = torch.tensor([(1 - confidence) / 2, (1 + confidence) / 2], dtype=torch.float64)
    low, high = drawn.quantile(ends).tolist()
    sides = min((drawn <= 0).double().mean().item(), (drawn >= 0).double().mean().item())
    return Difference(value.item(), low, high, min(1.0, max(2 * sides, 1 / num_resamples)))


def macro_f1_error(ours: Tensor, theirs: Tensor, target: Tensor, num_resamples: int = 1000, seed: int = 1) -> float:
    """The standard error of the difference of two macro F1 on the same texts, by a bootstrap over these texts.

        sd over I* of F(I*; ours) - F(I*; theirs),   F = mean over classes of 2 tp / (2 tp + fp + fn)

    I* is a draw of N texts with replacement, the same for both. A macro F1 is no mean of scores of texts, so each draw
    needs the answers themselves. A class that is neither answered nor right in a draw has no F1 there.

    Parameters
    ----------
    ours, theirs, target : long [N], N >= 1
        The two answers to each text, and the right one.
    num_resamples : int, 2 or more
    seed : int
        Of the draws.

    Raises
    ------
    ValueError
        If the shapes differ, there is no text, or fewer than two draws.

    Examples
    --------
    >>> right = torch.tensor([0, 1, 2, 1])
    >>> macro_f1_error(right, right, right)
    0.0
    """
    num = len(target)
    if not ours.shape == theirs.shape == target.shape == (num,) or num < 1 or num_resamples < 2:
        shapes = ", ".join(str(tuple(part.shape)) for part in (ours, theirs, target))
        raise ValueError(f"got shapes {shapes}, {num_resamples} draws; accepted: [N] each, N >= 1, and 2 draws or more")
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(num, (num_resamples, num), generator=generator)
    times = torch.zeros(texts.shape, dtype=torch.float64).scatter_add_(1, texts, torch.ones_like(texts).double())
    classes = torch.cat([ours, theirs, target]).unique()
    is_target = target.unsqueeze(1) == classes  # [N, C]

    def scores(answers: Tensor) -> Tensor:
        is_answer = answers.unsqueeze(1) == classes
        right, answered, wanted = (
            times @ part.double() for part in (is_answer & is_target, is_answer, is_target)
        )  # [R, C]
        return (2 * right / (answered + wanted)).nanmean(1)  # 0 / 0: the class does not occur

    return (scores(ours) - scores(theirs)).std().item()


def _of_other_seeds(means: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Draws of how far the mean over seeds, whose S scores are `means`, is from that over all seeds; 0 for one seed."""
    freedom = len(means) - 1
    if not freedom:
        return torch.zeros(num, dtype=torch.float64)
    normals = torch.randn(num, 1 + freedom, generator=generator, dtype=torch.float64)
    student = normals[:, 0] / normals[:, 1:].square().mean(1).sqrt()
    return student * means.std() / len(means) ** 0.5


def _normal_quantile(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence}, accepted are numbers in (0, 1)")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _student_quantile(freedom: float, confidence: float) -> float:
    _normal_quantile(confidence)  # refuses what is no confidence
    special = optional("scipy.special", "Student's interval", "notebooks")  # scipy.stats imports for a second more
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def _require_values(values: Sequence[float]) -> None:
    if len(values) < 2 or any(value - value != 0 for value in values):
        raise ValueError(f"got {list(values)}, accepted are 2 or more finite scores")
