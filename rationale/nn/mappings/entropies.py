"""The mappings whose regulariser is an entropy: softmax, sparsemax and, between and beyond them, entmax.

    entmax(x) = argmax_{y in simplex} y . x - gamma Omega_alpha(y),
    Omega_alpha(y) = sum_i (y_i^alpha - y_i) / (alpha (alpha - 1))          (the negative entropy of Tsallis)

alpha = 1 gives softmax, alpha = 2 sparsemax.

Source: eqs. (A1), (A2), (A6), notebooks/40_sparse_attention.py; Martins and Astudillo 2016; Peters, Niculae and Martins
2019.
"""

import torch
from torch import Tensor, nn

from rationale.nn.mappings import vectorised
from rationale.nn.mappings.mapping import Mapping
from rationale.nn.mappings.projection import Projected
from rationale.nn.mappings.rows import (
    OfRows,
    apply_to_rows,
    arrays,
    check_all,
    checked,
    divided,
    empty_like,
    not_finite,
    one_per_row,
    unmasked,
    with_signature,
)

LARGEST_ALPHA = 4.0  # beyond it, the base of (A6) has too few digits for its root, see `entmax`


def softmax(scores: Tensor, mask: Tensor | None = None, gamma: float | Tensor = 1.0, dim: int = -1) -> Tensor:
    """exp(x / gamma) / sum exp(x / gamma); never exactly 0.

    With gamma = 1 and no mask, it is `torch.softmax`, whose weights of a row of -inf alone are NaN; with a mask, these
    are zeros. Unlike the other mappings it does not refuse scores of NaN and inf: such rows are NaN, as torch's are.

    Parameters
    ----------
    scores : floating-point numbers with rows of T along `dim`
        Finite where they are not masked. A score of -inf counts as masked.
    mask : broadcasts to the shape of the scores, or None
        bool: a score is masked where it is False. Floating-point numbers: they are added to the scores, so -inf masks.
        None: no score is masked.
    gamma : float or tensor that broadcasts to the shape of the scores with one number per row, in (0, inf)
        Strength of the regularisation: the larger, the flatter. A tensor gets a gradient.
    dim : int
        The weights sum to 1 along this dimension.

    Returns
    -------
    of the shape of the scores
        Weights in [0, 1] that sum to 1 over the unmasked scores of a row; zeros for a row that is all masked.

    Raises
    ------
    ValueError
        If a shape does not broadcast, gamma is not positive and finite or has several numbers per row, or a score that
        is not masked is NaN or inf (on a CPU, all mappings but softmax; elsewhere, such a row gives NaN).

    Examples
    --------
    >>> softmax(torch.tensor([1.0, 0.0, -1.0]))
    tensor([0.6652, 0.2447, 0.0900])
    >>> softmax(torch.tensor([1.0, 0.0, -1.0]), mask=torch.tensor([True, True, False]))
    tensor([0.7311, 0.2689, 0.0000])
    """
    is_masked = mask is not None  # a mask that was added to the scores is None below
    scores, mask, gamma = checked(scores, mask, gamma, dim)
    plain = not isinstance(gamma, Tensor) and gamma == 1
    if plain and not is_masked:
        return scores.softmax(dim)
    there = unmasked(scores, mask)
    x = scores if plain else divided(scores, mask, gamma, dim)
    nothing = ~there.any(dim, keepdim=True)
    weights = x.masked_fill(~there, -torch.inf).masked_fill(nothing, 0.0).softmax(dim) * there
    return weights.to(scores.dtype)


def sparsemax(scores: Tensor, mask: Tensor | None = None, gamma: float | Tensor = 1.0, dim: int = -1) -> Tensor:
    """The nearest point of the simplex to x / gamma: (x / gamma - tau)_+, weights of exactly 0.

    Source: eq. (A2), notebooks/40_sparse_attention.py; Martins and Astudillo 2016. Arguments as for `softmax`.

    Examples
    --------
    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]), gamma=4.0)  # flatter
    tensor([0.5417, 0.4167, 0.0417])
    """
    return apply_to_rows(scores, mask, gamma, dim, _fast_sparsemax, vectorised.sparsemax)


def _fast_sparsemax(scores: Tensor, mask: Tensor | None, gamma: float) -> Tensor:
    return Projected.apply(scores, mask, gamma, 0.0, "nothing")[0]


def entmax(
    scores: Tensor,
    mask: Tensor | None = None,
    gamma: float | Tensor = 1.0,
    alpha: float | Tensor = 1.5,
    dim: int = -1,
) -> Tensor:
    """Sparse weights for alpha > 1, the more zeros the larger alpha; alpha = 1 is softmax, alpha = 2 sparsemax.

        y = (1 + (alpha - 1) (x / gamma - u))_+^(1 / (alpha - 1)),   u such that y sums to 1

    Source: eq. (A6), notebooks/40_sparse_attention.py; Peters, Niculae and Martins 2019; the derivative in alpha as in
    Correia, Niculae and Martins 2019. Arguments as for `softmax`.

    Parameters
    ----------
    alpha : float or tensor that broadcasts to the shape of the scores with one number per row, in [1, 4]
        A tensor gets a gradient.

    Notes
    -----
    The base 1 + (alpha - 1) (x / gamma - u) is a difference with an error of about 1e-16, and a weight near 0 is a root
    of it. For alpha <= 2, the error of a weight is about 1e-15. For larger alpha, it is up to 1e-10 at 2.5, 1e-7 at 3
    and 2e-5 at 4. An alpha above 4 is refused, because the error would be 2e-4 at 5 and 1e-2 at 8.

    Examples
    --------
    >>> scores = torch.tensor([1.0, 0.5, -1.0])
    >>> entmax(scores), entmax(scores, alpha=1.2)
    (tensor([0.6740, 0.3260, 0.0000]), tensor([0.6199, 0.3461, 0.0341]))
    """
    if not isinstance(alpha, Tensor):
        if not 1 <= alpha <= LARGEST_ALPHA:
            raise ValueError(f"alpha: got {alpha!r}, accepted is a number in [1, {LARGEST_ALPHA:g}]")
        if alpha == 1:
            return softmax(scores, mask, gamma, dim)
        alpha = torch.tensor(float(alpha), dtype=torch.float64, device=scores.device)
    check_all("alpha", alpha, (alpha >= 1) & (alpha <= LARGEST_ALPHA), f"numbers in [1, {LARGEST_ALPHA:g}]")
    checked(scores, None, 1.0, dim)
    rows = one_per_row("alpha", alpha, scores, dim).movedim(dim, -1)
    return apply_to_rows(scores, mask, gamma, dim, _fast_entmax, vectorised.entmax, rows)


def entmax15(scores: Tensor, mask: Tensor | None = None, gamma: float | Tensor = 1.0, dim: int = -1) -> Tensor:
    """`entmax` with alpha = 1.5, half-way between softmax and sparsemax.

    Source: eq. (A6), notebooks/40_sparse_attention.py; Peters, Niculae and Martins 2019. Arguments as for `softmax`.

    Examples
    --------
    >>> entmax15(torch.tensor([1.0, 0.5, -2.0]))
    tensor([0.6740, 0.3260, 0.0000])
    """
    return entmax(scores, mask, gamma, 1.5, dim)


# -------------------------------------------------------------------------------------------------- modules of the maps
class Softmax(Mapping):
    """The module of `softmax`."""

    name, function = "softmax", staticmethod(softmax)


class Sparsemax(Mapping):
    """The module of `sparsemax`."""

    name, function = "sparsemax", staticmethod(sparsemax)


class Entmax(Mapping):
    """The module of `entmax`.

    Parameters
    ----------
    alpha : float or tensor, as for `entmax`
    learned : bool
        Learn alpha, from the value given, as 1 + sigmoid(raw_alpha), so that it stays in (1, 2).
    """

    name, function = "entmax", staticmethod(entmax)
    settings = {"alpha": "alpha", "learned": "learned_alpha"}

    def __init__(self, dim: int = -1, alpha: float | Tensor = 1.5, learned: bool = False, **arguments):
        super().__init__(dim, alpha=alpha, **arguments)
        if learned:
            start = torch.as_tensor(alpha, dtype=torch.get_default_dtype())
            if not ((start > 1) & (start < 2)).all():
                raise ValueError(f"alpha: got {alpha}, accepted is a number in (1, 2) where it is learned")
            self.raw_alpha = nn.Parameter(torch.logit(start - 1))
        self.learned = learned

    def arguments(self) -> dict:
        return super().arguments() | ({"alpha": 1 + self.raw_alpha.sigmoid()} if self.learned else {})


class Entmax15(Mapping):
    """The module of `entmax15`."""

    name, function, special_case_of = "entmax15", staticmethod(entmax15), "entmax"


# ---------------------------------------------------------------------------------------- the compiled form of entmax
def _fast_entmax(scores: Tensor, mask: Tensor | None, gamma: float, alpha: Tensor) -> Tensor:
    """The powers of the weights in the derivatives have no room in half precision: for alpha = 4, 1 / y^2."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return _Entmax.apply(scores, mask, gamma, alpha.expand(*scores.shape[:-1], 1))


@with_signature
class _Entmax(OfRows):
    """weights = _Entmax.apply(scores [..., T], mask bool [..., T] or None, gamma, alpha [..., 1]).

    Both derivatives are functions of the weights, written with torch operations, so further derivatives follow.
    """

    @staticmethod
    def forward(scores, mask, gamma, alpha):
        from rationale.nn.mappings import fast_powers  # numba is slow to import

        rows, there = arrays(scores, mask)
        weights, of_rows = empty_like(scores, rows.shape)
        alphas = alpha.detach().reshape(-1).double().numpy()
        if not fast_powers.tsallis(rows, there, gamma, alphas, of_rows):
            raise not_finite(scores if mask is None else scores[mask])
        return weights.to(scores)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, ctx.gamma, alpha = inputs
        ctx.save_for_backward(output, alpha)
        ctx.save_for_forward(output, alpha)

    @staticmethod
    def backward(ctx, grad):
        y, alpha = ctx.saved_tensors
        of_alpha = None
        if ctx.needs_input_grad[3]:
            of_alpha = (grad * alpha_derivative(y, alpha)).sum(-1, keepdim=True).to(alpha.dtype)
        return entmax_jacobian_times(grad, y, alpha, ctx.gamma), None, None, of_alpha

    @staticmethod
    def jvp(ctx, scores, _mask, _gamma, alphas):
        y, alpha = ctx.saved_tensors
        change = 0.0 if scores is None else entmax_jacobian_times(scores, y, alpha, ctx.gamma)
        return change if alphas is None else change + (alphas * alpha_derivative(y, alpha)).to(y.dtype)


def slopes_of(y: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """y^(2 - alpha) on the support, else 0, and its sum along a row (1 for a row of zeros)."""
    support = y > 0
    slopes = torch.where(support, torch.where(support, y, 1.0) ** (2 - alpha).to(y.dtype), 0.0)
    total = slopes.sum(-1, keepdim=True)
    return slopes, torch.where(total > 0, total, 1.0)


def entmax_jacobian_times(v: Tensor, y: Tensor, alpha: Tensor, gamma: float) -> Tensor:
    """(diag(s) - s s^T / sum s) v / gamma with s = y^(2 - alpha): v [..., T], weights y [..., T], alpha [..., 1].

    Source: eq. (A7), notebooks/40_sparse_attention.py.
    """
    slopes, total = slopes_of(y, alpha)
    moved = slopes * v
    return (moved - slopes * (moved.sum(-1, keepdim=True) / total)) / gamma


def alpha_derivative(y: Tensor, alpha: Tensor) -> Tensor:
    """dy / d alpha [..., T], of weights y [..., T] and alpha [..., 1].

        c - s sum c / sum s,   s = y^(2 - alpha),   c = (y - y^(2 - alpha) - (alpha - 1) y ln y) / (alpha - 1)^2

    c is -y ln(y)^2 / 2 at alpha = 1. Source: eq. (A7), notebooks/40_sparse_attention.py.
    """
    slopes, total = slopes_of(y, alpha)
    support, a = y > 0, (alpha - 1).to(y.dtype).expand_as(y)
    log_y = torch.where(support, y, 1.0).log()
    s = a * log_y
    small = s > -0.5
    series = torch.zeros_like(s)
    for k in range(18, 2, -1):  # 1/2 - s/3! + s^2/4! - ...
        series = (1 - s * series) / k
    series = y * log_y.square() * (s * series - 1) / 2
    safe = torch.where(small, 1.0, a)
    direct = (y - slopes - a * y * log_y) / safe.square()
    c = torch.where(support, torch.where(small, series, direct), 0.0)
    return c - slopes * (c.sum(-1, keepdim=True) / total)
