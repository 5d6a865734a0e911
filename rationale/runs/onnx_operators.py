"""Operators of torch in ONNX, which lacks them or loses digits: log1p, expm1, lgamma, erfinv, a stable sort, an LSTM.

Kahan's formulas give log1p and expm1 all digits: the error of the rounded u in ln(u) and in u - 1 cancels.

    log1p(x) = x ln(u) / (u - 1),  u = 1 + x        expm1(x) = (u - 1) x / ln(u),  u = e^x

Source: Higham 2002, sec. 1.14.1. The gates of a model need them near 0, where 1 + x rounds to 1.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from rationale.models import exported

SHIFT = 16  # of lgamma: Stirling's series is exact to the last digits of float64 from here on
# The polynomials of the inverse of erf in w = -ln(1 - x^2), in w - 2.5 below 5 and in sqrt(w) - 3 from there on; the
# relative error is 4e-7. Source: Giles 2012, Approximating the erfinv function, table 5.
NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
        -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
       1.00167406, 2.83297682)  # fmt: skip
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def translations() -> dict[Any, Callable]:
    """Operators of torch, and what stands for each of them in an exported graph. Needs the package onnxscript."""
    from onnxscript import ir
    from onnxscript import opset18 as op

    def log1p(x):
        one = op.CastLike(1.0, x)
        u = op.Add(x, one)
        exact = op.Div(op.Mul(x, op.Log(u)), op.Sub(u, one))
        near = op.Less(op.Abs(x), one)
        return op.Where(near, op.Where(op.Equal(u, one), x, exact), op.Log(u))

    def expm1(x):
        one = op.CastLike(1.0, x)
        u = op.Exp(x)
        exact = op.Div(op.Mul(op.Sub(u, one), x), op.Log(u))
        near = op.Less(op.Abs(x), one)
        return op.Where(near, op.Where(op.Equal(u, one), x, exact), op.Sub(u, one))

    def log_sigmoid(x):
        return op.Sub(op.Min(x, op.CastLike(0.0, x)), log1p(op.Exp(op.Neg(op.Abs(x)))))

    def lgamma(x):  # of x > 0: ln Gamma(x) = ln Gamma(x + n) - ln(x (x + 1) ... (x + n - 1))
        wide = op.Cast(x, to=ir.DataType.DOUBLE)

        def number(value):
            return op.Constant(value=ir.tensor(value, dtype=ir.DataType.DOUBLE))

        shift = number(float(SHIFT))
        small = op.Min(wide, shift)
        product = small
        for k in range(1, SHIFT):
            product = op.Mul(product, op.Add(small, number(float(k))))
        is_small = op.Less(wide, shift)
        y = op.Where(is_small, op.Add(wide, shift), wide)
        inverse = op.Reciprocal(y)
        square, series, power = op.Mul(inverse, inverse), None, inverse
        for factor in STIRLING:
            term = op.Mul(number(factor), power)
            series = term if series is None else op.Add(series, term)
            power = op.Mul(power, square)
        log_y = op.Log(y)
        main = op.Sub(op.Mul(op.Sub(y, number(0.5)), log_y), y)
        value = op.Add(op.Add(main, number(0.5 * math.log(2 * math.pi))), series)
        value = op.Where(is_small, op.Sub(value, op.Log(product)), value)
        return op.CastLike(value, x)

    def erfinv(x):
        w = op.Neg(op.Add(log1p(op.Neg(x)), log1p(x)))
        return _erfinv(op, x, w)

    def sort(x, stable=None, dim=-1, descending=False):  # noqa: ARG001  TopK takes the earlier of equal numbers first
        numbers = op.Cast(x, to=ir.DataType.INT64) if x.dtype == ir.DataType.BOOL else x
        size = op.Shape(x, start=dim, end=None if dim == -1 else dim + 1)
        return op.TopK(numbers, size, axis=dim, largest=int(descending), sorted=1)

    def lstm(x, input_weight, weight, input_bias, bias):  # torch has the gates i, f, g, o; ONNX i, o, f, g
        def ordered(values):
            i, f, g, o = op.Split(values, num_outputs=4, axis=0)
            return op.Concat(i, o, f, g, axis=0)

        first = op.Constant(value_ints=[0])
        weights = [op.Unsqueeze(ordered(values), first) for values in (input_weight, weight)]
        biases = op.Unsqueeze(op.Concat(ordered(input_bias), ordered(bias), axis=0), first)
        states, _, _ = op.LSTM(op.Transpose(x, perm=[1, 0, 2]), *weights, biases, hidden_size=int(weight.shape[1]))
        return op.Transpose(op.Squeeze(states, op.Constant(value_ints=[1])), perm=[1, 0, 2])

    aten = torch.ops.aten
    return {
        aten.log1p.default: log1p,
        aten.expm1.default: expm1,
        aten.lgamma.default: lgamma,
        aten.log_sigmoid.default: log_sigmoid,
        aten.erfinv.default: erfinv,
        torch.ops.prims.erf_inv.default: erfinv,
        aten.sort.stable: sort,
        exported.lstm._opoverload: lstm,
    }


def _erfinv(op: Any, x: Any, w: Any) -> Any:
    """The inverse of erf at x, from w = -ln(1 - x^2), with the operators `op`."""

    def polynomial(factors: tuple[float, ...], at: Any) -> Any:
        value = op.CastLike(factors[0], x)
        for factor in factors[1:]:
            value = op.Add(op.Mul(value, at), op.CastLike(factor, x))
        return value

    border = op.CastLike(5.0, x)
    near = polynomial(NEAR, op.Sub(w, op.CastLike(2.5, x)))
    far = polynomial(FAR, op.Sub(op.Sqrt(op.Max(w, border)), op.CastLike(3.0, x)))
    value = op.Mul(op.Where(op.Less(w, border), near, far), x)
    is_end = op.Equal(op.Abs(x), op.CastLike(1.0, x))
    return op.Where(is_end, op.Mul(x, op.CastLike(math.inf, x)), value)
