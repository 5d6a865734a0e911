"""What all mappings share: their arguments are checked, and scores of any layout become rows, with a mask.

A mapping is computed in one of two forms. The fast form is compiled (`fast_rows`, which needs numba) and works on a
CPU. The vectorised form (`vectorised`) is made of torch operations and works everywhere: on a GPU, on the meta device,
inside `torch.compile` and `torch.export`, and on a CPU without numba.
"""

import functools
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST_PRICE = 1e300  # beyond it, prices times ranks overflow float64

Form = Callable[..., Tensor]
_only_vectorised = ContextVar("only_vectorised", default=False)


def apply_to_rows(
    scores: Tensor,
    mask: Tensor | None,
    gamma: float | Tensor,
    dim: int,
    fast: Form,
    vectorised: Form,
    *arguments: Any,
    level: bool = True,
) -> Tensor:
    """Apply a mapping along `dim`.

    Parameters
    ----------
    scores, mask, gamma, dim
        As for `softmax`.
    fast, vectorised : from (scores [..., T], mask bool [..., T] or None, gamma, *arguments) to weights [..., T]
        The two forms of the mapping.
    level : bool
        Whether a constant that is added to a row changes nothing. Then the largest score of a row is subtracted before
        the scores are divided by a tensor `gamma`.
    """
    scores, mask, gamma = checked(scores, mask, gamma, dim)
    dtype, last = scores.dtype, dim in (-1, scores.ndim - 1)
    if isinstance(gamma, Tensor):
        scores, gamma = divided(scores, mask, gamma, dim, level), 1.0
    if not last:
        scores, mask = scores.movedim(dim, -1), None if mask is None else mask.movedim(dim, -1)
    weights = (fast if has_fast_form(scores) else vectorised)(scores, mask, gamma, *arguments)
    return (weights if last else weights.movedim(-1, dim)).to(dtype)


def has_fast_form(scores: Tensor) -> bool:
    """Whether the compiled form can be used: on a CPU, with numba, and outside torch.compile and torch.export."""
    plain = type(scores) is Tensor or type(scores) is torch.nn.Parameter  # other subclasses may hold no numbers
    eager = plain and scores.device.type == "cpu" and not torch.compiler.is_compiling()
    return eager and not is_only_vectorised() and _has_numba()


def is_only_vectorised() -> bool:
    """Whether a `with only_vectorised()` block is being executed."""
    return _only_vectorised.get()


@contextmanager
def only_vectorised() -> Iterator[None]:
    """Use the vectorised form within a `with` block, without the compilers of numba and torch.

    They are imported on first use, and take 200 and 80 MB of memory.
    """
    token = _only_vectorised.set(True)
    try:
        yield
    finally:
        _only_vectorised.reset(token)


@functools.cache
def _has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def checked(
    scores: Tensor, mask: Tensor | None, gamma: float | Tensor, dim: int
) -> tuple[Tensor, Tensor | None, float | Tensor]:
    """The arguments, where a mask of numbers has been added to the scores and a mask of bool has their shape."""
    if not scores.is_floating_point() or scores.ndim == 0:
        raise ValueError(
            f"scores: got {scores.dtype} {list(scores.shape)}, accepted are rows of floating-point numbers"
        )
    if not -scores.ndim <= dim < scores.ndim:
        raise ValueError(f"dim: got {dim}, accepted is a dimension of scores {list(scores.shape)}")
    if isinstance(gamma, Tensor):
        _check_broadcasts("gamma", gamma, scores)
        check_all("gamma", gamma, (gamma > 0) & (gamma < torch.inf), "numbers in (0, inf)")
        one_per_row("gamma", gamma, scores, dim)
    elif not 0 < gamma < torch.inf:
        raise ValueError(f"gamma: got {gamma!r}, accepted is a number in (0, inf)")
    if mask is None:
        return scores, None, gamma
    if not isinstance(mask, Tensor):
        raise ValueError(f"mask: got {mask!r}, accepted is a tensor; give a dimension as dim=")
    _check_broadcasts("mask", mask, scores)
    if mask.is_floating_point():
        return scores + mask.to(scores.dtype), None, gamma
    if mask.dtype != torch.bool:
        raise ValueError(f"mask: got {mask.dtype}, accepted are torch.bool and floating-point numbers to be added")
    return scores, mask if mask.shape == scores.shape else mask.expand_as(scores), gamma


def _check_broadcasts(name: str, values: Tensor, scores: Tensor) -> None:
    sizes = zip(reversed(values.shape), reversed(scores.shape), strict=False)
    if values.ndim > scores.ndim or any(size not in (1, full) for size, full in sizes):
        raise ValueError(f"shapes differ: scores {tuple(scores.shape)}, {name} {tuple(values.shape)}")


def one_per_row(name: str, values: Tensor, scores: Tensor, dim: int) -> Tensor:
    """Values [...] with the number of dimensions of the scores, of size 1 along `dim`, or an error."""
    rows = values.reshape((1,) * (scores.ndim - values.ndim) + values.shape)
    if rows.ndim != scores.ndim or rows.shape[dim] != 1:
        shapes = f"got shape {tuple(values.shape)}, accepted is one number per row of {tuple(scores.shape)}"
        raise ValueError(f"{name}: {shapes}")
    return rows


def check_all(name: str, values: Tensor, right: Tensor, accepted: str) -> None:
    """Raise an error unless all is `right`, where numbers can be read without waiting for a GPU."""
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return
    try:
        wrong = not right.all()
    except RuntimeError:  # inside torch.func.vmap no number can be read
        return
    if wrong:
        raise ValueError(f"{name}: got {values[~right][0].item()}, accepted are {accepted}")


def divided(scores: Tensor, mask: Tensor | None, gamma: float | Tensor, dim: int, level: bool = True) -> Tensor:
    """scores / gamma, -inf where masked, at least in single precision; a tensor gamma gets a gradient.

    If `level`, the largest unmasked score of a row is subtracted first, so that a small gamma loses no digits.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    there, tiny = unmasked(scores, mask), torch.finfo(dtype).tiny
    x = scores.to(dtype)
    if level:
        x = x - top_of(x, there, dim)
    gamma = gamma.to(dtype).clamp(min=tiny) if isinstance(gamma, Tensor) else max(gamma, tiny)
    return torch.where(there, x, 0.0).div(gamma).masked_fill(~there, -torch.inf)


def unmasked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Which scores are neither masked nor -inf, bool of the shape of the scores."""
    return scores != -torch.inf if mask is None else mask & (scores != -torch.inf)


def top_of(x: Tensor, there: Tensor, dim: int = -1) -> Tensor:
    """The largest unmasked value of each row, of size 1 along `dim`, without a gradient; 0 if the row is all masked."""
    if x.shape[dim] == 0:
        return x.detach().sum(dim, keepdim=True)
    top = x.detach().masked_fill(~there, -torch.inf).amax(dim, keepdim=True)
    return top.masked_fill(top == -torch.inf, 0.0)


def check_price(lam: float) -> None:
    """Raise an error if the price of a penalty is out of range."""
    if not 0 <= lam <= LARGEST_PRICE:
        raise ValueError(f"lam: got {lam!r}, accepted is a number in [0, {LARGEST_PRICE:g}]")


def not_finite(scores: Tensor) -> ValueError:
    """The error for scores of which one is neither a finite number nor -inf."""
    value = scores[torch.isnan(scores) | (scores == torch.inf)][0].item()
    return ValueError(f"scores: got {value}, accepted are finite numbers and -inf; give a mask to exclude scores")


# ---------------------------------------------------------------------------------------- arrays for the compiled form
def arrays(values: Tensor, mask: Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    """[..., T] as arrays [N, T] of float32 or float64, and of bool (empty: no score is masked)."""
    values = values.detach().cpu()
    values = values if values.dtype in (torch.float32, torch.float64) else values.float()
    shape = values.shape[:-1].numel(), values.shape[-1]
    rows = values.reshape(shape).contiguous().numpy()
    if mask is None:
        return rows, np.empty((0, 0), dtype=np.bool_)
    return rows, mask.detach().cpu().reshape(shape).contiguous().numpy()


def empty_like(values: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, np.ndarray]:
    """An empty tensor of float32 or float64 for results, and the same memory as rows of this shape [N, T]."""
    result = torch.empty(values.shape, dtype=torch.float64 if values.dtype == torch.float64 else torch.float32)
    return result, result.view(shape).numpy()


def with_signature(function: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """Keep the signature of `forward`, for which torch asks at every call, and which Python would compute each time."""
    function.forward.__signature__ = inspect.signature(function.forward)  # type: ignore[attr-defined]
    return function


class OfRows(torch.autograd.Function):
    """A function of rows [..., T], so that a batch of `torch.func.vmap` is one more dimension of them."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple, *inputs: Any) -> tuple[Any, Any]:
        outputs = cls.apply(*batch_first(info.batch_size, in_dims, inputs))
        return outputs, (0,) * len(outputs) if isinstance(outputs, tuple) else 0


def batch_first(size: int, in_dims: tuple, arguments: tuple) -> list[Any]:
    """The arguments of a vectorised call (`torch.func.vmap`), each tensor with the batch as its first dimension."""
    return [
        value
        if not isinstance(value, Tensor)
        else value.expand(size, *value.shape)
        if at is None
        else value.movedim(at, 0)
        for value, at in zip(arguments, in_dims, strict=True)
    ]
