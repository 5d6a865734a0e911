"""Rules: the shares they accept, and the words they choose by attention weights. `test_gates` tests their values."""

import math

import pytest
import torch

from rationale.distributions import HardKuma
from rationale.nn.rules import RULES, decide, selects, top_k

GATES = HardKuma(torch.tensor([0.3, 1.0, 3.0]), torch.tensor([3.0, 2.0, 0.3]))


@pytest.mark.parametrize("budget", [0, -3, 7, math.nan, math.inf])
def test_a_budget_that_is_no_share_above_0_is_refused(budget):
    for call in (
        lambda: top_k(torch.zeros(2, 3), None, budget),
        lambda: decide(GATES, "top_k", budget=budget),
        lambda: selects(GATES, "top_k", budget=budget),
        lambda: RULES["top_k"].of_weights(torch.zeros(1, 3), torch.ones(1, 3).bool(), 0.5, budget),
    ):
        with pytest.raises(ValueError, match=rf"budget: got {budget}, accepted are numbers in \(0, 1\]"):
            call()


@pytest.mark.parametrize("threshold", [-0.1, 7, math.nan])
def test_a_threshold_that_is_no_probability_is_refused(threshold):
    for call in (
        lambda: decide(GATES, "threshold", threshold=threshold),
        lambda: selects(GATES, "threshold", threshold=threshold),
        lambda: RULES["threshold"].of_weights(torch.zeros(1, 3), torch.ones(1, 3).bool(), threshold, 1.0),
    ):
        with pytest.raises(ValueError, match=rf"threshold: got {threshold}, accepted are numbers in \[0, 1\]"):
            call()


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.reads_weights])
def test_no_rule_chooses_padding_by_its_weight_even_where_every_word_is_chosen(rule):
    mask = torch.tensor([[True, True, False], [True, False, False]])
    weights = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    chosen = RULES[rule].of_weights(weights, mask, threshold=0.0, budget=1.0)
    assert chosen.dtype == weights.dtype and torch.equal(chosen, mask.float())
