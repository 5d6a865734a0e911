"""Encoders: the LSTM without packing is the packed one, and padding never matters."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rationale.encoders import ENCODERS, LSTMEncoder

LENGTHS = [[5, 5, 5], [7, 1, 4, 2, 7], [1], [1, 1], [3, 9, 2, 6]]


def mask_of(lengths: list[int], width: int | None = None) -> torch.Tensor:
    return torch.arange(width or max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def packed_reference(encoder: LSTMEncoder) -> nn.LSTM:
    """torch's bidirectional LSTM with the weights of the encoder."""
    size, hidden = encoder.ahead.input_size, encoder.ahead.hidden_size
    reference = nn.LSTM(size, hidden, batch_first=True, bidirectional=True).double()
    weights = dict(encoder.ahead.named_parameters())
    weights |= {f"{name}_reverse": value for name, value in encoder.back.named_parameters()}
    reference.load_state_dict(weights)
    return reference


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_it_equals_the_packed_bidirectional_lstm_forward_and_backward(lengths):
    torch.manual_seed(1)
    encoder = LSTMEncoder(4, 3).double()
    reference = packed_reference(encoder)
    mask = mask_of(lengths)
    inputs = torch.randn(*mask.shape, 4, dtype=torch.float64)
    ours, theirs = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()

    states, final = encoder(ours, mask)
    packed = pack_padded_sequence(theirs, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    output, (hidden, _) = reference(packed)
    expected, _ = pad_packed_sequence(output, batch_first=True)
    torch.testing.assert_close(states[mask], expected[mask], msg="states of real tokens")
    torch.testing.assert_close(final, torch.cat([hidden[0], hidden[1]], -1), msg="final states")

    weight, last = torch.randn_like(states), torch.randn_like(final)
    ((states * weight)[mask].sum() + (final * last).sum()).backward()
    ((expected * weight)[mask].sum() + (torch.cat([hidden[0], hidden[1]], -1) * last).sum()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, msg="gradient in the inputs")
    gradients = {name: value.grad for name, value in reference.named_parameters()}
    for name, value in encoder.ahead.named_parameters():
        torch.testing.assert_close(value.grad, gradients[name], msg=f"gradient in ahead.{name}")
    for name, value in encoder.back.named_parameters():
        torch.testing.assert_close(value.grad, gradients[f"{name}_reverse"], msg=f"gradient in back.{name}")


@pytest.mark.parametrize("name", ENCODERS)
def test_what_stands_in_the_padding_and_how_much_of_it_never_matters(name):
    torch.manual_seed(2)
    encoder = ENCODERS[name](4, 3)
    lengths = [5, 2, 1]
    mask = mask_of(lengths)
    inputs = torch.randn(3, 5, 4)
    states, final = encoder(inputs, mask)
    other, wider = torch.where(mask.unsqueeze(-1), inputs, 1e3), torch.randn(3, 9, 4)
    wider[:, :5] = inputs
    for changed, real in ((other, mask), (wider, mask_of(lengths, 9))):
        other_states, other_final = encoder(changed, real)
        torch.testing.assert_close(other_states[:, :5][mask], states[mask])
        torch.testing.assert_close(other_final, final)


@pytest.mark.parametrize("name", ENCODERS)
def test_no_gradient_reaches_the_padding(name):
    encoder, mask = ENCODERS[name](4, 3), mask_of([5, 2, 1])
    inputs = torch.randn(3, 5, 4, requires_grad=True)
    states, final = encoder(inputs, mask)
    (states[mask].sum() + final.sum()).backward()
    assert inputs.grad[~mask].eq(0).all()
    assert inputs.grad[mask].ne(0).any(-1).all(), "every real token counts"


@pytest.mark.parametrize("name", ENCODERS)
def test_an_empty_row_has_a_zero_final_state_and_finite_gradients(name):
    encoder, mask = ENCODERS[name](4, 3), mask_of([3, 0])
    inputs = torch.randn(2, 3, 4, requires_grad=True)
    _, final = encoder(inputs, mask)
    assert final[1].eq(0).all() and final[0].ne(0).any()
    final.sum().backward()
    assert inputs.grad.isfinite().all() and inputs.grad[1].eq(0).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_sizes_are_as_announced(name):
    encoder = ENCODERS[name](4, 3)
    states, final = encoder(torch.randn(2, 5, 4), mask_of([5, 3]))
    assert states.shape == (2, 5, encoder.output_size) and final.shape == (2, encoder.output_size)


def test_the_lstm_of_the_paper_has_542400_parameters():
    encoder = LSTMEncoder(300, 150)
    assert sum(value.numel() for value in encoder.parameters()) == 542_400, "spec B.4"
