"""Where gates start: the shapes of a HardKuma gate whose rate is given and whose interior is as wide as it can be.

Source: eqs. (S15), (S16), notebooks/07_decide_and_depend.py.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rationale.distributions.rectified import HardKuma
from rationale.errors import BadInput

SMALLEST, LARGEST = 2e-3, 100.0  # shapes that a softplus reaches with a gradient, and the authors' upper limit
POINTS, ROUNDS = 129, 4  # of the search; each round searches the two intervals beside the best point


def inverse_softplus(y: Tensor) -> Tensor:
    """x with ln(1 + e^x) = y, for y > 0."""
    return y + (-torch.expm1(-y)).log()


def log_width(gates: HardKuma) -> Tensor:
    """Logarithm of the width of the interior: its mass times the exponential of its entropy.

        W = P(0 < H < 1) exp(-integral_0^1 g ln g),   g: the density of H given 0 < H < 1

    The exponential of an entropy is the length of the interval on which a uniform density has this entropy; so W = 1
    for a gate that is uniform on (0, 1), and W < 1 for any other gate.
    Source: eq. (S16), notebooks/07_decide_and_depend.py.

    Parameters
    ----------
    gates : HardKuma
        Of any batch shape.

    Returns
    -------
    of the batch shape of `gates`, at most 0
    """
    ends = torch.special.xlogy(gates.prob_zero, gates.prob_zero) + torch.special.xlogy(gates.prob_one, gates.prob_one)
    return (gates.entropy() + ends) / gates.prob_interior + 2 * gates.log_prob_interior


def widest_shapes(rate: float, left: float, right: float) -> Tensor:
    """Shapes (a, b) of the HardKuma gate with P(H != 0) = rate whose interior is the widest.

        a = ln x / ln k0,   b = ln rate / ln(1 - x),   0 < x < 1;   x = k0^a maximises `log_width`

    All shapes of this rate lie on this curve, so the rate is exact and only x is searched.
    Source: eqs. (S15), (S16), notebooks/07_decide_and_depend.py.

    Parameters
    ----------
    rate : float, in (0, 1)
    left, right : float, left < 0 and right >= 1
        Support of the stretched gate.

    Returns
    -------
    float64 [2], each in [SMALLEST, LARGEST]

    Raises
    ------
    BadInput
        If no such shapes have this rate on this support.

    Examples
    --------
    >>> a, b = widest_shapes(0.1, left=-0.1, right=1.1)
    >>> gate = HardKuma(a, b)
    >>> round(gate.prob_nonzero.item(), 9), round(gate.prob_interior.item(), 3)
    (0.1, 0.091)
    """
    log_k0, log_rate = -math.log1p(-right / left), math.log(rate)

    def log_odds(log_x: float) -> float:
        """ln(x / (1 - x)) from ln x < 0."""
        return log_x - math.log(-math.expm1(log_x))

    # Both shapes decrease as x grows, so each limit of a shape is a limit of x.
    low = max(log_odds(LARGEST * log_k0), -log_odds(log_rate / LARGEST))
    high = min(log_odds(SMALLEST * log_k0), -log_odds(log_rate / SMALLEST))
    if not low < high:
        raise BadInput(
            f"start: target is not accepted with selection={rate:g}, left={left:g}, right={right:g}: no shapes of a "
            f"HardKuma gate between {SMALLEST:g} and {LARGEST:g} have this rate; give none, or a smaller support"
        )
    for _ in range(ROUNDS):
        odds = torch.linspace(low, high, POINTS, dtype=torch.float64)  # ln(x / (1 - x))
        a, b = logsigmoid(odds) / log_k0, log_rate / logsigmoid(-odds)
        best = int(log_width(HardKuma(a, b, left, right, validate_args=False)).argmax())
        low, high = odds[max(best - 1, 0)].item(), odds[min(best + 1, POINTS - 1)].item()
    return torch.stack([a[best], b[best]]).clamp(SMALLEST, LARGEST)
