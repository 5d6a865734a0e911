"""Models and gates within `torch.compile`: the values and gradients are those of the model as it is."""

import copy

import pytest
import torch

from rationale.distributions import HardKuma, log1mexp
from rationale.distributions.numerics import log_sigmoid
from tests.tiny_models import KINDS

BACKEND = "eager"  # the reader of the compiler without its code generator, which needs a C++ compiler and minutes


def loss_and_gradients(model, objective, batch):
    """The loss of one training step, and the gradient of each weight by its name."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = copy.deepcopy(objective).train()(model.train(), batch).loss
    loss.backward()
    named = model.named_parameters()
    return loss.detach(), {
        name.removeprefix("_orig_mod."): weight.grad for name, weight in named if weight.grad is not None
    }


@pytest.mark.parametrize("kind", ["extractor, hardkuma", "extractor, hard_concrete", "dependent", "aligner, hardkuma"])
def test_a_compiled_model_with_gates_has_the_same_loss_and_gradients(kind):
    torch._dynamo.reset()
    model, objective, batch = KINDS[kind]("cpu")
    loss, gradients = loss_and_gradients(model, objective, batch)
    compiled_loss, compiled_gradients = loss_and_gradients(torch.compile(model, backend=BACKEND), objective, batch)
    assert compiled_gradients.keys() == gradients.keys() and gradients
    torch.testing.assert_close(compiled_loss, loss)
    torch.testing.assert_close(compiled_gradients, gradients)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_an_objective_asks_of_a_gate_is_one_graph(backend):
    """aot_eager also makes the graph of the backward pass."""
    torch._dynamo.reset()
    a, b = (torch.linspace(0.3, 2.0, 6).roll(k).requires_grad_() for k in (0, 3))
    noise = torch.linspace(0.05, 0.95, 6).log()

    def everything(a, b):
        gate = HardKuma(a, b, validate_args=False)
        z = gate.rsample_at(noise)
        masses = gate.prob_zero + gate.log_prob_nonzero + gate.prob_one
        return torch.stack([z, masses, gate.log_prob(z), gate.base.log_cdf(z), log1mexp(-a), log_sigmoid(b)])

    found = []
    for function in (everything, torch.compile(everything, backend=backend, fullgraph=True)):
        values = function(a, b)
        found.append((values.detach(), *torch.autograd.grad(values[values.isfinite()].sum(), (a, b))))
    torch.testing.assert_close(found[1], found[0])


def test_the_loop_over_a_text_is_left_out_of_the_graph():
    """A graph of it would have every step of a text, and would be made anew for every length."""
    torch._dynamo.reset()
    model, _, batch = KINDS["rcnn"]("cpu")
    nodes = []

    def count(graph, _example):
        nodes.append(len(graph.graph.nodes))
        return graph

    with torch.no_grad():
        torch.compile(model, backend=count)(batch.tokens, batch.mask)
        few, longer = list(nodes), batch.tokens.repeat(1, 4)
        nodes.clear()
        torch._dynamo.reset()
        torch.compile(model, backend=count)(longer, batch.mask.repeat(1, 4).sort(1, descending=True).values)
    assert sum(nodes) < 1.2 * sum(few), (few, nodes)
