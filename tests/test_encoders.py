"""Encoders and pools: the LSTM without packing is the packed one, the others plain loops; padding never matters."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rationale.nn import ENCODERS, POOLS, AttentionPool, Dropout, LSTMEncoder, Pool, RCNNCell, ReLUDropout

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


def test_rows_of_very_different_lengths_are_read_in_blocks_without_those_that_have_ended(monkeypatch):
    read, plain_forward = [], nn.LSTM.forward

    def counted(lstm, inputs, state=None):
        read.append(inputs.shape[0] * inputs.shape[1])
        return plain_forward(lstm, inputs, state)

    monkeypatch.setattr(nn.LSTM, "forward", counted)
    encoder, mask = LSTMEncoder(4, 3), mask_of([12, 3, 2, 3, 1])
    encoder(torch.randn(*mask.shape, 4), mask)
    assert sum(read) == 2 * (5 * 3 + 1 * 9), "in each direction, three steps of all rows and nine of the longest"


def test_rows_of_similar_lengths_are_read_at_once_to_the_same_bits():
    torch.manual_seed(3)
    encoder, mask = LSTMEncoder(4, 3), mask_of([8, 7, 7, 6])
    inputs = torch.randn(*mask.shape, 4)
    states, _ = encoder(inputs, mask)
    assert torch.equal(
        states[0], torch.cat([encoder.ahead(inputs)[0][0], encoder.back(inputs.flip(1))[0][0].flip(0)], -1)
    )


def test_a_batch_with_much_padding_is_read_to_the_same_numbers_as_its_rows_alone():
    torch.manual_seed(4)
    encoder, lengths = LSTMEncoder(4, 3).double(), [2, 9, 0, 1, 4, 0, 9]
    mask = mask_of(lengths, 11)
    inputs = torch.randn(*mask.shape, 4, dtype=torch.float64, requires_grad=True)
    states, final = encoder(inputs, mask)
    (together,) = torch.autograd.grad(states[mask].square().sum() + final.square().sum(), inputs, retain_graph=True)
    alone = torch.zeros_like(inputs)
    for row, length in enumerate(lengths):
        if not length:
            assert not final[row].any(), "an empty row has a state of zeros"
            continue
        own = inputs[row : row + 1, :length]
        own_states, own_final = encoder(own, mask_of([length]))
        torch.testing.assert_close(states[row : row + 1, :length], own_states)
        torch.testing.assert_close(final[row : row + 1], own_final)
        alone += torch.autograd.grad(own_states.square().sum() + own_final.square().sum(), inputs)[0]
    torch.testing.assert_close(together, alone)


OF_VECTORS = [name for name, encoder in ENCODERS.items() if not encoder.reads_pieces]


@pytest.mark.parametrize("name", OF_VECTORS)
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


@pytest.mark.parametrize("name", OF_VECTORS)
def test_no_gradient_reaches_the_padding(name):
    encoder, mask = ENCODERS[name](4, 3), mask_of([5, 2, 1])
    inputs = torch.randn(3, 5, 4, requires_grad=True)
    states, final = encoder(inputs, mask)
    (states[mask].sum() + final.sum()).backward()
    assert inputs.grad[~mask].eq(0).all()
    assert inputs.grad[mask].ne(0).any(-1).all(), "every real token counts"


@pytest.mark.parametrize("name", OF_VECTORS)
def test_an_empty_row_has_a_zero_final_state_and_finite_gradients(name):
    encoder, mask = ENCODERS[name](4, 3), mask_of([3, 0])
    inputs = torch.randn(2, 3, 4, requires_grad=True)
    _, final = encoder(inputs, mask)
    assert final[1].eq(0).all() and final[0].ne(0).any()
    final.sum().backward()
    assert inputs.grad.isfinite().all() and inputs.grad[1].eq(0).all()


@pytest.mark.parametrize("name", OF_VECTORS)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3)])
def test_texts_without_positions_and_batches_without_texts_give_zeros_and_finite_gradients(name, shape):
    encoders = [ENCODERS[name](4, 3)]
    if hasattr(encoders[0], "fast"):
        encoders.append(ENCODERS[name](4, 3))
        encoders[1].fast = False
    for encoder in encoders:
        inputs = torch.randn(*shape, 4, requires_grad=True)
        states, final = encoder(inputs, torch.ones(*shape, dtype=torch.bool))
        assert states.shape == (*shape, encoder.output_size) and final.shape == (shape[0], encoder.output_size)
        assert final.eq(0).all()
        final.sum().backward()
        assert all(weight.grad is None or weight.grad.eq(0).all() for weight in encoder.parameters())


@pytest.mark.parametrize("name", OF_VECTORS)
def test_sizes_are_as_announced(name):
    encoder = ENCODERS[name](4, 3)
    states, final = encoder(torch.randn(2, 5, 4), mask_of([5, 3]))
    assert states.shape == (2, 5, encoder.output_size) and final.shape == (2, encoder.output_size)


def test_the_lstm_of_the_paper_has_542400_parameters():
    encoder = LSTMEncoder(300, 150)
    assert sum(value.numel() for value in encoder.parameters()) == 542_400, "spec B.4"


# --- one step of the recurrent convolution


@pytest.mark.parametrize(("inputs", "hidden"), [(1, 1), (7, 3), (301, 30), (401, 30)])
def test_an_rcnn_cell_has_3eh_and_hh_and_2h_parameters(inputs, hidden):
    found = sum(value.numel() for value in RCNNCell(inputs, hidden).parameters())
    assert found == 3 * inputs * hidden + hidden**2 + 2 * hidden


def test_an_rcnn_cell_is_its_equations_number_by_number():
    torch.manual_seed(0)
    cell = RCNNCell(3, 2).double()
    for bias in (cell.bias, cell.recurrent.bias):
        nn.init.normal_(bias)
    one, two, gate = cell.inputs.weight.detach().split(2)  # W_1, W_2, W_g: [H, E] each
    u, gate_bias, bias = cell.recurrent.weight.detach(), cell.recurrent.bias.detach(), cell.bias.detach()
    x = torch.randn(5, 4, 3, dtype=torch.float64)  # 5 steps of 4 rows
    state = cell.start(4)
    h, c1, c2 = ([[0.0] * 2 for _ in range(4)] for _ in range(3))
    for step in range(5):
        state = cell(cell.project(x[step]), state)
        for row in range(4):
            old, word = torch.tensor(h[row], dtype=torch.float64), x[step, row]
            for k in range(2):
                g = torch.sigmoid(gate[k] @ word + u[k] @ old + gate_bias[k]).item()
                c2[row][k] = g * c2[row][k] + (1 - g) * (c1[row][k] + (two[k] @ word).item())
                c1[row][k] = g * c1[row][k] + (1 - g) * (one[k] @ word).item()
                h[row][k] = math.tanh(c2[row][k] + bias[k].item())
        for name, ours, theirs in zip(("h", "c1", "c2"), state, (h, c1, c2), strict=True):
            torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64), msg=f"{name}, step {step + 1}")


def test_an_rcnn_cell_starts_from_zeros():
    h, c1, c2 = RCNNCell(3, 2).start(4)
    assert all(part.shape == (4, 2) and not part.any() for part in (h, c1, c2))


# --- pools: one state a text


def pooled_one_by_one(pool: Pool, states: torch.Tensor, final: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """`Pool` text by text, over the real tokens alone."""
    rows = []
    for i, length in enumerate(lengths):
        real = list(states[i, :length])
        half = states.shape[-1] // 2
        if pool.name == "final":
            rows.append(final[i])
        elif pool.name == "last":
            rows.append(real[-1][:half] if real else torch.zeros(half).to(states))
        elif not real:
            rows.append(torch.zeros(states.shape[-1]).to(states))
        elif pool.name == "mean":
            rows.append(sum(real) / length)
        elif pool.name == "max":
            rows.append(torch.stack([max(state[k] for state in real) for k in range(states.shape[-1])]))
        else:
            scores = [pool.score.weight[0] @ torch.tanh(pool.project.weight @ state) for state in real]
            total = sum(math.exp(score) for score in scores)
            rows.append(sum(math.exp(score) / total * state for score, state in zip(scores, real, strict=True)))
    return torch.stack(rows)


@pytest.mark.parametrize("kind", POOLS)
def test_a_pool_is_the_plain_loop_whatever_stands_in_the_padding(kind):
    torch.manual_seed(3)
    lengths = [5, 1, 3, 0]
    encoder, mask, pool = LSTMEncoder(4, 3).double(), mask_of(lengths), POOLS[kind](6).double()
    states, final = encoder(torch.randn(4, 5, 4).double(), mask)
    with torch.no_grad():
        expected = pooled_one_by_one(pool, states, final, lengths)
        torch.testing.assert_close(pool(states, final, mask), expected)
        other = torch.where(mask.unsqueeze(-1), states, 1e6)
        torch.testing.assert_close(pool(other, final, mask), expected, msg="padding matters")
    assert expected.shape == (4, pool.output_size)


@pytest.mark.parametrize("kind", POOLS)
def test_pooling_an_empty_row_gives_zeros_and_a_finite_gradient(kind):
    torch.manual_seed(0)
    mask, pool = mask_of([3, 0]), POOLS[kind](6)
    encoder, inputs = LSTMEncoder(4, 3), torch.randn(2, 3, 4, requires_grad=True)
    value = pool(*encoder(inputs, mask), mask)
    value.square().sum().backward()
    assert value[1].eq(0).all() and value[0].ne(0).any()
    gradients = [inputs.grad, *(weight.grad for weight in (*pool.parameters(), *encoder.parameters()))]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert inputs.grad[1].eq(0).all() and inputs.grad[0].ne(0).any()


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3)])
def test_pooling_texts_without_positions_and_batches_without_texts_gives_zeros(kind, shape):
    pool, mask = POOLS[kind](6), torch.ones(*shape, dtype=torch.bool)
    value = pool(torch.randn(*shape, 6), torch.zeros(shape[0], 6), mask)
    assert value.shape == (shape[0], pool.output_size) and value.eq(0).all()


@pytest.mark.parametrize("kind", POOLS)
def test_states_at_padding_that_are_not_numbers_change_no_pooled_state_and_no_gradient(kind):
    torch.manual_seed(0)
    mask, pool = mask_of([3, 1, 0]), POOLS[kind](6)
    clean, final = torch.randn(3, 3, 6), torch.randn(3, 6)
    results = []
    for wrong in (0.0, math.nan, math.inf):
        states = clean.masked_fill(~mask.unsqueeze(-1), wrong).requires_grad_()
        value = pool(states, final, mask)
        weights = [states, *pool.parameters()]
        gradients = torch.autograd.grad(value.square().sum(), weights, allow_unused=True) if pool.reads_states else ()
        results.append([value, *gradients])
        assert not pool.weighs_words or pool.weights(states, mask).isfinite().all()
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


def test_attention_weights_sum_to_one_over_the_real_tokens_also_for_huge_scores():
    torch.manual_seed(0)
    mask, pool = mask_of([5, 2, 0]), AttentionPool(6)
    nn.init.constant_(pool.score.weight, 1e4)
    for states in (torch.randn(3, 5, 6), torch.zeros(3, 5, 6)):
        weights = pool.weights(states, mask)
        torch.testing.assert_close(weights.sum(1), torch.tensor([1.0, 1.0, 0.0]))
        assert weights[~mask].eq(0).all() and (weights >= 0).all()
    torch.testing.assert_close(weights[1, :2], torch.tensor([0.5, 0.5]), msg="equal states, equal weights")


def test_the_attention_of_the_paper_has_no_biases():
    assert sum(weight.numel() for weight in AttentionPool(300).parameters()) == 300 * 100 + 100
    for kind, pool in POOLS.items():
        assert pool.weighs_words or not list(pool(300).parameters()), f"{kind} learns nothing"


@pytest.mark.parametrize("p", [0.001, 0.05, 0.2, 0.5, 0.9])
def test_dropout_drops_the_share_asked_for_and_keeps_the_mean(p):
    torch.manual_seed(0)
    inputs = torch.ones(401, 101, dtype=torch.float64, requires_grad=True)
    calls = [Dropout(p)(inputs) for _ in range(200)]
    units = len(calls) * inputs.numel()
    # a call drops 1/256 too much or too little, which of them is drawn: two sources of spread
    rounding = 256 * p % 1
    spread = (p * (1 - p) / units + rounding * (1 - rounding) / 256**2 / len(calls)) ** 0.5
    share = sum((outputs == 0).sum().item() for outputs in calls) / units
    assert abs(share - p) < 5 * spread, f"dropped {share:.5f}, not {p}, in {len(calls)} calls"
    for outputs in calls:
        kept = outputs[outputs > 0].unique()
        assert len(kept) == 1 and abs(1 / kept.item() - (1 - p)) < 1 / 256, f"kept units are {kept.tolist()}"
        mean_spread = (kept.item() - 1) ** 0.5 / inputs.numel() ** 0.5
        assert abs(outputs.mean() - 1) <= 6 * mean_spread, f"the mean of a call is {outputs.mean():.4f}, not 1"
    (gradient,) = torch.autograd.grad(calls[0].sum(), inputs)
    assert torch.equal(gradient, calls[0]), "what is dropped has no gradient"


@pytest.mark.parametrize("p", [255 / 256, 0.999, 0.9999])
def test_dropout_of_nearly_everything_keeps_the_mean(p):
    torch.manual_seed(0)
    outputs = Dropout(p)(torch.ones(2_000_000))
    assert (outputs.mean() - 1).abs() < 5 * (p / (1 - p) / outputs.numel()) ** 0.5, f"the mean is {outputs.mean():.4f}"


def test_dropped_units_are_independent_of_their_neighbours():
    torch.manual_seed(0)
    dropped = (Dropout(0.25)(torch.ones(200_000)) == 0).double()
    for lag in (1, 2, 3, 4, 7, 8, 9, 16):
        together = (dropped[lag:] * dropped[:-lag]).mean().item()
        assert abs(together - 0.0625) < 0.004, f"units {lag} apart are dropped together with probability {together:.4f}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_relu_and_dropout_in_one_equal_one_after_the_other(dtype):
    inputs = torch.randn(37, 41, dtype=dtype, requires_grad=True)
    for p in (0.0, 0.2, 1.0):
        torch.manual_seed(0)
        apart = Dropout(p)(inputs.relu())
        torch.manual_seed(0)
        in_one = ReLUDropout(p)(inputs)
        assert torch.equal(in_one, apart)
        slope = torch.randn_like(inputs)
        wanted, found = (torch.autograd.grad((slope * units).sum(), inputs)[0] for units in (apart, in_one))
        torch.testing.assert_close(found, wanted)
    assert torch.equal(ReLUDropout(0.5).eval()(inputs), inputs.relu()), "nothing is dropped in evaluation mode"


def test_dropout_at_its_edges():
    inputs = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(inputs), inputs), "nothing is dropped in evaluation mode"
    assert torch.equal(Dropout(0.0)(inputs), inputs)
    assert Dropout(1.0)(inputs).eq(0).all()
    assert Dropout(0.5)(inputs[:0]).shape == (0, 5)
