"""What the tests of the distributions share: numbers in double precision, and the published values."""

import math

import torch

LEFT, RIGHT = -0.1, 1.1


RECTIFIED = [
    "prob_zero",
    "prob_one",
    "prob_interior",
    "log_prob_zero",
    "log_prob_nonzero",
    "log_prob_one",
    "log_prob_interior",
    "mean",
    "conditional_mean",
    "variance",
]


def double(*numbers) -> list[torch.Tensor]:
    return [torch.tensor(number, dtype=torch.float64) for number in numbers]


def assert_close(actual: torch.Tensor, expected, rtol: float, atol: float = 0.0, what: str = "") -> None:
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    error = (actual - expected).abs() - atol - rtol * expected.abs()
    assert (error <= 0).all(), f"{what}: got {actual.tolist()}, expected {expected.tolist()}"


LN2 = math.log(2)


# a, b, P(0), P(1), P(interior), E[K], E[H], E[H | interior], Var H
TABLE = [
    (0.5, 0.5, 0.156599, 0.206332, 0.637069, 0.533333, 0.536519, 0.518291, 0.14997),
    (1, 1, 0.083333, 0.083333, 0.833333, 0.500000, 0.500000, 0.500000, 0.11111),
    (LN2, LN2, 0.127510, 0.139832, 0.732658, 0.509616, 0.510773, 0.506295, 0.13313),
    (2, 2, 0.013841, 0.025511, 0.960648, 0.533333, 0.539593, 0.535141, 0.06902),
    (0.1, 1, 0.779977, 0.008663, 0.211359, 0.090909, 0.079570, 0.335481, 0.04278),
    (1, 3, 0.229745, 0.000579, 0.769676, 0.250000, 0.211806, 0.274436, 0.04831),
    (5, 1, 4.02e-6, 0.352772, 0.647224, 0.833333, 0.881342, 0.816672, 0.02322),
    (0.3, 0.3, 0.175541, 0.333666, 0.490793, 0.592431, 0.598252, 0.539097, 0.16675),
    (2, 5, 0.034243, 0.000104, 0.965653, 0.369408, 0.344436, 0.356580, 0.04263),
    (3, 0.2, 0.000116, 0.745160, 0.254725, 0.923565, 0.945702, 0.787292, 0.01849),
    (LN2, 5, 0.626166, 1e-6, 0.373833, 0.091598, 0.051018, 0.136470, 0.01069),
    (LN2, 20, 0.980469, 0, 0.019531, 0.015575, 0.000669, 0.034253, 0.00005),
]


def tensor32(numbers):
    return torch.tensor(numbers)


def tensor64(numbers):
    return torch.tensor(numbers, dtype=torch.float64)
