"""Selection and transitions of a text's gates: expectations in closed form, and counts of a draw."""

import math

import torch
from torch import Tensor

from rationale.distributions.numerics import binary_entropy


def expected_selection(prob_nonzero: Tensor, mask: Tensor) -> Tensor:
    """Expected share of tokens kept, for each text.

        S_i = (1/T_i) sum_t mask_it P(H_it != 0)

    Source: eq. (S3), notebooks/05_count_words.py; Bastings et al. 2019, sec. 4.

    Parameters
    ----------
    prob_nonzero : [B, T], in [0, 1]
        Probability (not density) that a gate is not exactly 0; values at padding are ignored.
    mask : bool [B, T]
        True for real tokens. Every row holds at least one.

    Returns
    -------
    [B], share in [0, 1]

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> mask = torch.tensor([[True, True, True], [True, True, False]])
    >>> expected_selection(torch.tensor([[1.0, 0.5, 0.0], [0.2, 0.4, 0.9]]), mask)
    tensor([0.5000, 0.3000])
    """
    return masked_mean(prob_nonzero, mask)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real positions of each text, [B, T] and bool [B, T] -> [B]; values at padding are ignored.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    _same_shape(values, mask)
    return torch.where(mask, values, 0.0).sum(1) / mask.sum(1)


def expected_transitions(prob_zero: Tensor, prob_nonzero: Tensor, mask: Tensor) -> Tensor:
    """Expected switches between selected and unselected, per token, for each text (relaxed fused lasso).

        L_i = (1/T_i) sum_{t<T_i} P(H_t = 0) P(H_{t+1} != 0) + P(H_t != 0) P(H_{t+1} = 0)

    Source: eq. (S4), notebooks/05_count_words.py; Bastings et al. 2019, sec. 4. The sum is divided by the
    number of tokens, as in the authors' code, although there is one pair fewer.

    Parameters
    ----------
    prob_zero, prob_nonzero : [B, T], in [0, 1]
        The two complementary masses. Both are passed, each computed in log space, for precision.
    mask : bool [B, T]
        True for real tokens, first in each row.

    Returns
    -------
    [B], switches per token in [0, 1)

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> kept = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    >>> expected_transitions(1 - kept, kept, torch.ones(2, 4, dtype=torch.bool))  # 1 and 3 switches
    tensor([0.2500, 0.7500])
    """
    _same_shape(prob_zero, mask)
    _same_shape(prob_nonzero, mask)
    switch = prob_zero[:, :-1] * prob_nonzero[:, 1:] + prob_nonzero[:, :-1] * prob_zero[:, 1:]
    return torch.where(mask[:, 1:], switch, 0.0).sum(1) / mask.sum(1)


def count_selected(z: Tensor) -> Tensor:
    """Selected tokens of each text, [..., T] -> [...]; z is 0 at padding.

    Examples
    --------
    >>> count_selected(torch.tensor([[0.0, 0.3, 1.0], [0.0, 0.0, 1e-9]]))
    tensor([2., 1.])
    """
    return (z != 0).to(z.dtype).sum(-1)


def count_switches(z: Tensor, mask: Tensor) -> Tensor:
    """Switches between selected and unselected within each text, [..., T] -> [...].

        sum_{t<T_i} 1[z_t != 0] xor 1[z_{t+1} != 0]

    The end of the text is not a switch. In the authors' code, where padding counts as unselected, a selected last word
    counts as a switch unless its text is the longest of the batch.

    Examples
    --------
    >>> z, mask = torch.tensor([[0.0, 1.0, 0.4, 0.0]]), torch.tensor([[True, True, True, False]])
    >>> count_switches(z, mask)  # the end of the text does not count
    tensor([1.])
    """
    on = z != 0
    return ((on[..., :-1] ^ on[..., 1:]) & mask[..., 1:]).to(z.dtype).sum(-1)


def log_mean(log_values: Tensor, mask: Tensor) -> Tensor:
    """Logarithm of the mean over texts of the mean over real tokens, without leaving log space.

        ln (1/B) sum_i (1/T_i) sum_t mask_it exp(log_values_it)

    With ln P(H != 0), this is the logarithm of the batch mean of eq. (S3); with ln P(H = 0), of one minus that mean.
    Source: eq. (S7), notebooks/06_hold_a_rate.py.

    Parameters
    ----------
    log_values : [B, T]
    mask : bool [B, T]
        True for real tokens. Every row holds at least one.

    Returns
    -------
    []

    Examples
    --------
    >>> log_mean(torch.full((2, 3), -1000.0), torch.ones(2, 3, dtype=torch.bool))  # exp(-1000) underflows to 0
    tensor(-1000.)
    """
    _same_shape(log_values, mask)
    shares = log_values - numbers_like(log_values, mask.sum(1, keepdim=True) * len(mask)).log()
    return torch.where(mask, shares, -math.inf).logsumexp((0, 1))


def log_means(log_values: Tensor, mask: Tensor) -> Tensor:
    """Logarithm of the mean over real tokens of each text, [B]; see `log_mean`."""
    _same_shape(log_values, mask)
    return torch.where(mask, log_values, -math.inf).logsumexp(1) - numbers_like(log_values, mask.sum(1)).log()


def openness_entropy(log_prob_nonzero: Tensor, log_prob_zero: Tensor) -> Tensor:
    """Entropy, in nats, of whether a gate is open, [...] and [...] -> [...].

        H(p) = -p ln p - (1 - p) ln(1 - p),   p = P(Z != 0)

    It lies in [0, ln 2], for every kind of gate. The entropy of a whole gate with values between 0 and 1, eq. (H10),
    is another number. It may be negative, and it is low for a gate that is hardly ever 0 or 1, although the value of
    such a gate is uncertain. With o = ln p - ln(1 - p), the derivative of H by o
    is -o p (1 - p), as in eq. (R8), notebooks/08_reinforce.py. Both masses are passed as logarithms, so that value and
    gradient stay accurate where one of them is tiny. A gate whose mass is exactly 0 or 1 has entropy 0.

    Parameters
    ----------
    log_prob_nonzero, log_prob_zero : [...], <= 0

    Examples
    --------
    >>> p = torch.tensor([0.5, 1e-30])
    >>> openness_entropy(p.log(), (-p).log1p())  # ln 2, and 1e-30 (1 + ln 1e30)
    tensor([6.9315e-01, 7.0078e-29])
    """
    return binary_entropy(log_prob_nonzero, log_prob_zero)


def guidance(log_prob_nonzero: Tensor, log_prob_zero: Tensor, guide: Tensor) -> Tensor:
    """How badly gates agree with gold words: the mean cross-entropy, in nats, of the words that the guide speaks of.

        -(1/N) sum_t [g_t ln P(Z_t != 0) + (1 - g_t) ln P(Z_t = 0)],   over the N words with g_t in {0, 1}

    The derivative by the logit of a Bernoulli gate is (P(Z_t != 0) - g_t) / N: it vanishes where the gate agrees with
    the gold. Source: eq. (F4), notebooks/16_failures.py; DeYoung et al. 2020 (ERASER), whose supervised models learn
    rationales from such labels.

    Parameters
    ----------
    log_prob_nonzero, log_prob_zero : [B, T], <= 0
    guide : [B, T]
        1 for a gold word, 0 for another one, -1 where nothing is said: in texts that do not guide, and at padding.

    Returns
    -------
    [], >= 0; 0 if the guide says nothing

    Examples
    --------
    >>> half = torch.full((1, 3), 0.5).log()
    >>> guidance(half, half, torch.tensor([[1, 0, -1]]))  # ln 2: coins know nothing
    tensor(0.6931)
    """
    return guidance_of_texts(log_prob_nonzero, log_prob_zero, guide).mean()


def guidance_of_texts(log_prob_nonzero: Tensor, log_prob_zero: Tensor, guide: Tensor) -> Tensor:
    """What each text adds to `guidance`, with the same arguments: [B], whose mean is `guidance`."""
    missed = torch.where(guide == 1, -log_prob_nonzero, -log_prob_zero)
    number = numbers_like(missed, (guide >= 0).sum().clamp(min=1))
    return torch.where(guide >= 0, missed, 0.0).sum(1) * (len(guide) / number)


def numbers_like(values: Tensor, counts: Tensor) -> Tensor:
    """Whole numbers in the dtype of `values`, but at least in float32, in which torch computes with them otherwise."""
    return counts.to(torch.promote_types(values.dtype, torch.float32))


def _same_shape(values: Tensor, mask: Tensor) -> None:
    if values.shape != mask.shape:
        raise ValueError(f"shapes differ: values {tuple(values.shape)}, mask {tuple(mask.shape)}")
