"""A new gate is one class and no other change: it is found by its name, trained, saved and loaded."""

from types import SimpleNamespace

import pytest
import torch
from small import corpus, parameters
from torch.nn import functional as F

from rationale import training
from rationale.distributions import Kumaraswamy, StretchedRectified
from rationale.nn import GATES, Gate
from rationale.runs.saved import load_run, save_run


@pytest.fixture
def by_mean():
    """A HardKuma with mean m = a / (a + 1) of a Kumaraswamy with b = 1, and one shape for its concentration."""

    class KumaraswamyByMean(Gate):
        name, stretched = "kuma_by_mean", True

        def __init__(self, num_features: int, left: float, right: float):
            super().__init__(num_features, "mean", "concentration")
            self.left, self.right = left, right

        def of(self, raw):
            mean, concentration = raw.unbind(-1)
            b = 0.1 + F.softplus(concentration)
            base = Kumaraswamy(0.1 + b * F.softplus(mean), b, validate_args=False)
            return StretchedRectified(base, self.left, self.right, validate_args=False)

    yield KumaraswamyByMean
    del GATES["kuma_by_mean"]


@pytest.mark.parametrize(
    "changes", [{}, {"dependent": True, "look_ahead": True, "encoder": "rcnn", "transitions": 0.1}]
)
def test_a_new_gate_is_one_class(by_mean, tmp_path, changes):
    p = parameters(model="kuma_by_mean", epochs=3, left=-0.2, right=1.3, **changes)
    result = training.train_extractor(p, corpus(), "scores", 1, tmp_path)
    gate = result.model.selector.gate
    assert type(gate) is by_mean and (gate.left, gate.right) == (-0.2, 1.3)
    assert gate.mean.weight.abs().sum() > 0 and result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    assert 0 < result.evaluations["test"].metrics["rate_expected"] < 1
    save_run(tmp_path, result, p)
    loaded = load_run(tmp_path).model
    assert all(value.equal(result.model.state_dict()[name]) for name, value in loaded.state_dict().items())


def test_a_class_without_a_name_is_no_gate_to_choose():
    known = dict(GATES)

    class Half(GATES["hardkuma"]):
        def of(self, raw):
            return super().of(raw / 2)

    assert known == GATES and Half.build(4, SimpleNamespace(left=-0.1, right=1.1))(torch.zeros(2, 4)).batch_shape == (
        2,
    )
