"""The numerics behind the distributions: log(1 - exp(x)), derivatives of every order, and a quadrature rule."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.distributions import Distribution
from torch.distributions.utils import lazy_property
from torch.nn.functional import logsigmoid

LN2 = math.log(2.0)
SINGLE_DRAW = torch.Size()  # the default `sample_shape`
GATES_AT_ONCE = 2048


def binary_entropy(log_p: Tensor, log_rest: Tensor) -> Tensor:
    """Entropy -p ln p - (1 - p) ln(1 - p) in nats, [...], from ln p and ln(1 - p), [...] each.

    From both logarithms, the value and its gradient keep their digits where p or 1 - p is tiny. Where p is exactly 0
    or 1, the entropy is 0.
    """
    lowest = torch.finfo(log_p.dtype).min  # 0 times it is 0, and 0 times -inf is not
    first, second = (log_mass.exp() * log_mass for log_mass in (log_p.clamp(min=lowest), log_rest.clamp(min=lowest)))
    return -(first + second)


class Elementwise(Function):
    """A function of tensors that broadcast against each other, applied elementwise, with derivatives of every order.

    A subclass defines `forward`, whose first `num_results` outputs are the results (the others are intermediate values
    for the backward pass), and `partials`. Its `fast_backward` is the first derivative, written by hand: it reuses the
    forward pass. Where a derivative of the derivative is asked for, the backward pass uses `partials` instead, whose
    operations are differentiable themselves. Forward-mode derivatives and `torch.func.vmap` work too.
    """

    num_inputs: int  # tensors, which come first among the arguments
    num_results = 1
    is_recorded = True  # by `torch.compile`, see `in_graph`

    @classmethod
    def partials(cls, *args: Any) -> list[list[Tensor | None]]:
        """The partial derivative of each result with respect to each input; None where it is 0."""
        raise NotImplementedError

    @classmethod
    def fast_backward(cls, ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs, given those of the results, without a graph."""
        raise NotImplementedError

    @classmethod
    def of(cls, *args: Any) -> Any:
        """`apply`, also within `torch.compile`, which then computes the gradient by `fast_backward` as well."""
        if torch.compiler.is_dynamo_compiling():
            import rationale.distributions.in_graph  # noqa: F401  it tells the compiler what to record
        return cls.apply(*args)

    @classmethod
    def setup_context(cls, ctx: Any, inputs: tuple, output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        ctx.constants = inputs[cls.num_inputs :]
        ctx.mark_non_differentiable(*outputs[cls.num_results :])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[: cls.num_inputs], *outputs)
        ctx.save_for_forward(*inputs[: cls.num_inputs], *outputs)

    @classmethod
    def backward(cls, ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if not torch.is_grad_enabled():
            return cls.fast_backward(ctx, *grads[: cls.num_results]) + (None,) * len(ctx.constants)
        inputs = ctx.saved_tensors[: cls.num_inputs]
        sums = []
        for i, partials in enumerate(zip(*cls.partials(*inputs, *ctx.constants), strict=True)):
            given = zip(grads, partials, strict=False)
            terms = [grad * partial for grad, partial in given if grad is not None and partial is not None]
            sums.append(sum(terms[1:], terms[0]).sum_to_size(inputs[i].shape) if terms else None)
        return (*sums, *[None] * len(ctx.constants))

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Any:
        inputs, outputs = ctx.saved_tensors[: cls.num_inputs], ctx.saved_tensors[cls.num_inputs :]
        sums: list[Tensor | None] = []
        for partials, output in zip(cls.partials(*inputs, *ctx.constants), outputs, strict=False):
            given = zip(tangents, partials, strict=False)
            terms = [partial * tangent for tangent, partial in given if tangent is not None and partial is not None]
            sums.append(sum(terms, torch.zeros_like(output)))
        return (*sums, *[None] * (len(outputs) - cls.num_results)) if len(outputs) > 1 else sums[0]

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple, *args: Any) -> tuple[Any, Any]:
        tensors, dims = args[: cls.num_inputs], in_dims[: cls.num_inputs]
        rank = max(tensor.ndim - (dim is not None) for tensor, dim in zip(tensors, dims, strict=True))

        def with_batch_first(tensor: Tensor, dim: int | None) -> Tensor:
            if dim is None:
                return tensor.expand(info.batch_size, *[1] * (rank - tensor.ndim), *tensor.shape)
            tensor = tensor.movedim(dim, 0)
            return tensor.reshape(len(tensor), *[1] * (rank + 1 - tensor.ndim), *tensor.shape[1:])

        outputs = cls.apply(*map(with_batch_first, tensors, dims), *args[cls.num_inputs :])
        return outputs, (0,) * len(outputs) if isinstance(outputs, tuple) else 0


def fast_log1mexp_and_odds(x: Tensor) -> tuple[Tensor, Tensor]:
    """ln(1 - e^x) and the odds e^x / (1 - e^x), for x < 0, accurate to the last digits near 0 and near -inf.

    ln(1 - e^x) is ln(-expm1(x)) above -ln 2 and log1p(-e^x) below. The two formulas are added, not selected: the
    argument of the one that does not apply is clamped to 1/2, and its value there cancels the constant ln 2 exactly.
    This is several times as fast as `torch.where`. Its derivative is that of `log1mexp_and_odds`, not autograd's.
    """
    power, rest = x.exp(), x.expm1().neg_()
    value = rest.clamp(max=0.5).log_().add_(LN2).add_(power.clamp(max=0.5).neg_().log1p_())
    return value, power.div_(rest)


class _Log1mExpAndOdds(Elementwise):
    """w = ln(1 - e^x) and r = e^x / (1 - e^x), with dw/dx = -r and dr/dx = r (1 + r).

    The derivatives are functions of r, which is an output, so they can be differentiated again and again.
    """

    num_inputs, num_results = 1, 2

    @staticmethod
    def forward(x):
        value, odds = fast_log1mexp_and_odds(x)
        return value, odds.clamp_(max=torch.finfo(x.dtype).tiny ** -0.5)

    @classmethod
    def setup_context(cls, ctx, inputs, output):  # noqa: ARG003  only the odds are needed
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])

    @classmethod
    def backward(cls, ctx, *grads):
        (by_value, by_odds), (odds,) = grads, ctx.saved_tensors
        total = None if by_value is None else -by_value * odds
        if by_odds is None:
            return total
        return by_odds * odds * (1 + odds) + (0 if total is None else total)

    @classmethod
    def jvp(cls, ctx, *tangents):
        (odds,) = ctx.saved_tensors
        return -odds * tangents[0], odds * (1 + odds) * tangents[0]


def log1mexp_and_odds(x: Tensor) -> tuple[Tensor, Tensor]:
    """`log1mexp`, and the odds e^x / (1 - e^x), which are minus its derivative."""
    return _Log1mExpAndOdds.of(x.clamp(max=-torch.finfo(x.dtype).tiny))


def log1mexp(x: Tensor) -> Tensor:
    """ln(1 - e^x) for x < 0, with derivative -e^x / (1 - e^x), eq. (K2), notebooks/02_kumaraswamy.py.

    x = 0 is treated as minus the smallest normal number. The derivative is limited to about 1e19 (float32) or
    1e154 (float64) in magnitude, so that its product with another large number is still finite.

    Examples
    --------
    >>> x = torch.tensor(-1e-10)
    >>> log1mexp(x), (1 - x.exp()).log()  # the textbook form loses all digits
    (tensor(-23.0259), tensor(-inf))
    """
    return log1mexp_and_odds(x)[0]


class _LogSigmoid(Elementwise):
    num_inputs = 1

    @staticmethod
    def forward(x):
        return logsigmoid(x)

    @classmethod
    def fast_backward(cls, ctx, *grads):
        (grad,), (x, _) = grads, ctx.saved_tensors
        return (None if grad is None else x.neg().sigmoid_().mul_(grad),)

    @classmethod
    def partials(cls, x):
        return [[log_sigmoid(-x).exp()]]


def log_sigmoid(x: Tensor) -> Tensor:
    """ln sigmoid(x), whose derivatives of every order are accurate in both tails.

        d/dx ln sigmoid(x) = sigmoid(-x)      d/dx sigmoid(-x) = -sigmoid(x) sigmoid(-x)

    Beyond the first derivative, torch's `logsigmoid` computes 1 - sigmoid(x), which is rounded to 0 for large x.
    """
    return _LogSigmoid.of(x)


def softplus(x: Tensor) -> Tensor:
    """ln(1 + e^x), exact in float64, too; in float32 it is torch's `softplus`, bit for bit.

    Beyond a threshold of 20, torch returns x and drops e^-x, which is at most 2e-9 there. Beside x, this is less than
    float32 can hold, but not less than float64 can, except from x = 37 on.
    """
    return torch.nn.functional.softplus(x, threshold=40.0 if x.dtype == torch.float64 else 20.0)


class _LogShare(Elementwise):
    num_inputs = 2

    @staticmethod
    def forward(below, above):
        return (above / below).log1p_().neg_()

    @classmethod
    def fast_backward(cls, ctx, *grads):
        (grad,), (below, above, _) = grads, ctx.saved_tensors
        if grad is None:
            return None, None
        limit = torch.finfo(below.dtype).max / 4
        by_above = (-grad / (below + above)).clamp_(-limit, limit)
        by_below = (by_above * above).neg_().div_(below).clamp_(-limit, limit)
        return by_below.sum_to_size(below.shape), by_above.sum_to_size(above.shape)

    @classmethod
    def partials(cls, below, above):
        total = below + above
        return [[above / total / below, -1 / total]]


def log_share(below: Tensor, above: Tensor) -> Tensor:
    """ln(below / (below + above)) of two positive numbers, as -log1p(above / below), which keeps its digits near 0.

        d/dbelow = above / (below (below + above))      d/dabove = -1 / (below + above)

    torch's derivative contains (above / below^2) / (1 + above / below), whose numerator overflows in float32 where
    below < 1e-19. A gradient is limited to a quarter of the largest number of the dtype, so that the sum of the two is
    finite and its product with 0 is 0.
    """
    return _LogShare.of(below, above)


class _OneMinusExp(Elementwise):
    num_inputs = 1

    @staticmethod
    def forward(x):
        return x.expm1().neg_()

    @classmethod
    def fast_backward(cls, ctx, *grads):
        (grad,), (x, _) = grads, ctx.saved_tensors
        return (None if grad is None else -grad * x.exp(),)

    @classmethod
    def partials(cls, x):
        return [[-x.exp()]]


def one_minus_exp(x: Tensor) -> Tensor:
    """1 - e^x for x <= 0, with derivative -e^x; torch's derivative of expm1, (e^x - 1) + 1, loses it for large -x."""
    return _OneMinusExp.of(x)


def log_uniform(shape: torch.Size, like: Tensor) -> Tensor:
    """ln u, with u uniform on the whole of (0, 1), on the device of `like` and in its dtype, but at least in float32.

    A uniform number in bfloat16 is a multiple of 1/256, so an event of probability 1/1000 would never be drawn.
    Where `torch.rand` returns 0, which stands for the interval [0, eps / 2), u is its middle, eps / 4.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    u = torch.rand(shape, dtype=dtype, device=like.device)
    return u.clamp_(min=torch.finfo(dtype).eps / 4).log_()


def clamp_to_interior(value: Tensor) -> Tensor:
    """`value`, with 0 and 1 replaced by the nearest normal numbers inside (0, 1)."""
    info = torch.finfo(value.dtype)
    return value.clamp(info.tiny, 1 - info.eps / 2)


def rounded_draw(draw: Tensor, dtype: torch.dtype) -> Tensor:
    """Draws in [0, 1] in another dtype, where a draw inside (0, 1) is not rounded to 0 or 1: these have their own mass.

    It becomes the nearest normal number inside (0, 1) instead, without a gradient.
    """
    info = torch.finfo(dtype)
    inside = draw.clamp(info.tiny, 1 - info.eps / 2)
    return torch.where((draw > 0) & (draw < 1), inside, draw).to(dtype)


def clip_limits(like: Tensor, left: float, right: float) -> tuple[float, float]:
    """The limits to which a rectified draw is clipped: 0 and 1.

    If the distribution has no mass at 0 (left = 0) or at 1 (right = 1), the limit is the nearest number inside (0, 1)
    instead, so that no draw is rounded to that end.
    """
    info = torch.finfo(like.dtype)
    return (0.0 if left < 0 else info.tiny), (1.0 if right > 1 else 1 - info.eps / 2)


def value_of(law: Distribution, value: Tensor | float, like: Tensor) -> Tensor:
    """A value of a law as a tensor of at least the dtype of `like`, on its device if it was a number.

    Raises
    ------
    ValueError
        If it is outside the support of the law, unless this one does not validate its arguments.
    """
    if not isinstance(value, Tensor):
        value = torch.as_tensor(value, dtype=like.dtype, device=like.device)
    if value.dtype != like.dtype:
        value = value.to(torch.promote_types(value.dtype, like.dtype))
    if law._validate_args:
        law._validate_sample(value)
    return value


def minus_inf_outside(value: Tensor, log_prob: Tensor) -> Tensor:
    """`log_prob`, with -inf where the value is outside [0, 1]."""
    return log_prob.masked_fill((value < 0) | (value > 1), -math.inf)


def with_boundary_values(value: Tensor, inside: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """`inside` where 0 < value < 1, `low` for value <= 0, `high` for value >= 1."""
    return torch.where(value <= 0, low, torch.where(value >= 1, high, inside))


@functools.cache
def _quadrature_numbers(step: float) -> tuple[list[float], ...]:
    """The rule of `quadrature_rule`, as numbers: a cached tensor would belong to the mode in which it was made."""
    with torch.inference_mode(False), torch.device("cpu"):
        num_nodes = round(3.33 / step)
        s = step * torch.arange(-num_nodes, num_nodes + 1, dtype=torch.float64)
        x = math.pi * s.sinh()
        log_v, log_rest = logsigmoid(x), logsigmoid(-x)
        weight = s.cosh() * (log_v + log_rest).exp()
        return log_v.tolist(), log_rest.tolist(), (weight / weight.sum()).tolist()


def quadrature_rule(num_axes: int, device: torch.device, step: float = 0.09) -> tuple[Tensor, Tensor, Tensor]:
    """Double-exponential quadrature rule on (0, 1), in float64.

        v = sigmoid(pi sinh s)     integral_0^1 g(v) dv = sum_j weight_j g(v_j)     s_j = step j, |s_j| <= 3.33

    The nodes are dense near both ends, so that logarithmic singularities there do not reduce the accuracy.
    Source: Takahasi & Mori 1974.

    Parameters
    ----------
    num_axes : int
        Number of axes of size 1 that follow the axis of nodes.
    step : float
        Distance of the nodes in s.

    Returns
    -------
    ln v [nodes, 1, ..., 1], ln(1 - v) [nodes, 1, ..., 1], weights [nodes]
    """
    log_v, log_rest, weight = (
        torch.tensor(numbers, dtype=torch.float64, device=device) for numbers in _quadrature_numbers(step)
    )
    shape = [-1] + [1] * num_axes
    return log_v.view(shape), log_rest.view(shape), weight


def average_over_quantiles(weight: Tensor, values: Tensor) -> Tensor:
    """sum_j weight_j values_j, over the leading axis, which is that of the nodes."""
    return torch.tensordot(weight.to(values.dtype), values, 1)


def in_float64(statistic: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Decorator: compute a statistic with float64 parameters and return it in the distribution's own dtype.

    A batch of gates is computed in parts of `GATES_AT_ONCE`, because a quadrature holds many numbers per gate; in an
    exported graph, which does not know the size of a batch, it is computed at once.
    """

    @functools.wraps(statistic)
    def cast(self):
        dtype = self._like.dtype
        law = self if dtype == torch.float64 else self._map(Tensor.double)
        if torch.compiler.is_compiling() or not self._has_known_parameters:
            return statistic(law).to(dtype)
        num_gates = self.batch_shape.numel()
        if num_gates <= GATES_AT_ONCE:
            return statistic(law).to(dtype)

        def part(start):
            return law._map(lambda parameter: parameter.reshape(-1)[start : start + GATES_AT_ONCE])

        parts = [statistic(part(start)) for start in range(0, num_gates, GATES_AT_ONCE)]
        return torch.cat(parts).view(self.batch_shape).to(dtype)

    return cast


def log_pochhammer(x: Tensor, d: Tensor) -> Tensor:
    """ln Gamma(x + d) - ln Gamma(x) for x >= 1, d >= 0, in float64.

    This is the logarithm of the Pochhammer symbol. From x = 16 on, where the difference would cancel, it is computed
    with Stirling's series.
    """

    def remainder(y):
        r = (y * y).reciprocal()
        return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / y

    big, small = x.clamp(min=16.0), x.clamp(max=16.0)
    stirling = (big + d - 0.5) * (d / big).log1p() + d * (big.log() - 1) + (remainder(big + d) - remainder(big))
    return torch.where(x < 16, torch.lgamma(small + d) - torch.lgamma(small), stirling)


class cached_per_mode(lazy_property):
    """A property that is computed once with its gradient, and once more in inference mode, which can keep none.

    torch's `lazy_property` would keep what was first computed in inference mode, without a gradient. This one is a
    subclass, so that a distribution does not compute a parameter only to check it.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_cached{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        compiling = torch.compiler.is_dynamo_compiling()  # whose reader stops at a question about inference mode
        without_gradient = not torch.is_grad_enabled() if compiling else torch.is_inference_mode_enabled()
        name = self.name + "_in_inference_mode" * without_gradient
        if name not in vars(instance):
            with torch.set_grad_enabled(not without_gradient):
                setattr(instance, name, self.wrapped(instance))
        return vars(instance)[name]


def in_chunks(function: Callable[..., Tensor], num_elements: int, *tensors: Tensor) -> Tensor:
    """An elementwise function of tensors that broadcast, computed for at most `num_elements` elements at a time."""
    tensors = torch.broadcast_tensors(*tensors)
    if tensors[0].numel() <= num_elements:
        return function(*tensors)
    parts = zip(*(tensor.reshape(-1).split(num_elements) for tensor in tensors), strict=True)
    return torch.cat([function(*part) for part in parts]).view(tensors[0].shape)


def widened(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: compute a method of a distribution with half-precision parameters in float32, and round its result.

    Half precision has no room for the small and large numbers between a value and its gradient.
    """

    @functools.wraps(method)
    def call(self, *values):
        dtype = self._like.dtype
        if dtype.itemsize > 2:
            return method(self, *values)
        wide = self._map(Tensor.float)
        wide._validate_args = self._validate_args
        result = method(wide, *(value.float() if isinstance(value, Tensor) else value for value in values))
        return tuple(part.to(dtype) for part in result) if isinstance(result, tuple) else result.to(dtype)

    return call
