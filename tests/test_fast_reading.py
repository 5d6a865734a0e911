"""Many selections of the same texts, read together: the numbers of single passes, and each beginning only once."""

import pytest
import torch
from small import parameters
from torch import nn

from rationale.models import build_extractor
from rationale.nn import ENCODERS, Encoder, LSTMEncoder, RCNNEncoder
from rationale.nn.fast_reading import LSTMCell, read_rows
from rationale.nn.pooling import POOLS
from rationale.nn.rcnn import RCNNCell

LENGTHS = (7, 1, 4, 7, 2)


def texts(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [B, T] and mask; the first and the fourth text begin with the same words."""
    tokens = torch.randint(0, 20, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(seed))
    tokens[3, :4] = tokens[0, :4]
    return tokens, torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)


def selections(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Everything, nothing, hard and fractional gates, and a row that comes twice: [K, B, T]."""
    draws = torch.rand(3, *mask.shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    hard = (draws[0] > 0.5).to(dtype)
    soft = torch.where(draws[1] > 0.6, draws[2], 0.0)
    everything = torch.ones_like(hard)
    return torch.stack([everything, 0 * everything, hard, 1 - hard, soft, hard]) * mask


def model_of(dtype: torch.dtype, **changes):
    torch.manual_seed(0)
    model = build_extractor(parameters(**changes), torch.randn(20, 8), "classes", 3).eval().to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.7)
    return model


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
@pytest.mark.parametrize("mode", ["zero", "compact"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("encoder", ["lstm", "rcnn"])
def test_selections_that_are_read_together_give_the_predictions_of_single_passes(encoder, pool, mode, dtype, tolerance):
    model = model_of(dtype, model="hardkuma", encoder=encoder, pool=pool, predictor=mode)
    tokens, mask = texts()
    chosen = selections(mask, dtype)
    found = model.predict_selected(tokens, mask, chosen)
    with torch.no_grad():
        expected = torch.stack([model.predictor(model.embed(tokens), mask, z) for z in chosen])
    assert found.shape == (len(chosen), len(tokens), 3) and not found.requires_grad
    torch.testing.assert_close(found.softmax(-1), expected.softmax(-1), rtol=0, atol=tolerance)
    assert torch.equal(found[2], found[5]), "what is equal is computed once"


def test_an_encoder_of_ones_own_is_read_row_by_row():
    class Sums(Encoder):
        name = "sums"

        def forward(self, inputs, mask):
            states = torch.cat([inputs, inputs.cumsum(1)], -1)[..., : self.output_size]
            return states, (inputs * mask.unsqueeze(-1)).sum(1).repeat(1, 2)[:, : self.output_size]

    try:
        model = model_of(torch.float64, model="hardkuma", encoder="sums", pool="mean")
        tokens, mask = texts()
        chosen = selections(mask, torch.float64)
        expected = torch.stack([model.predictor(model.embed(tokens), mask, z) for z in chosen])
        torch.testing.assert_close(model.predict_selected(tokens, mask, chosen), expected.detach())
    finally:
        del ENCODERS["sums"], ENCODERS.files["sums"]


@pytest.mark.parametrize("encoder", [LSTMEncoder, RCNNEncoder])
def test_rows_of_numbers_give_the_states_of_their_vectors(encoder):
    torch.manual_seed(0)
    module, vectors = encoder(5, 4).double(), torch.randn(9, 5, dtype=torch.float64)
    nn.init.normal_(next(iter(module.parameters())))
    numbers = torch.randint(0, 9, (40, 6))
    mask = torch.arange(6) < torch.randint(0, 7, (40, 1))  # some rows are empty
    states, final = module.read_rows(vectors, numbers, mask, with_states=True)
    expected, expected_final = module(vectors[numbers], mask)
    torch.testing.assert_close(final, expected_final.detach())
    torch.testing.assert_close(states[mask], expected[mask].detach())
    nothing, same = module.read_rows(vectors, numbers, mask, with_states=False)
    assert torch.equal(same, final) and nothing.shape == (40, 0, 8)
    states, final = module.read_rows(vectors, numbers[:2, :0], mask[:2, :0], with_states=True)
    assert states.shape == (2, 0, 8) and final.shape == (2, 8) and final.eq(0).all(), "rows without a position"


class Counting(RCNNCell):
    """Counts the words that it reads."""

    words = 0

    def forward(self, projected, state):
        self.words += len(projected)
        return super().forward(projected, state)


def test_each_distinct_beginning_and_each_distinct_end_is_read_once():
    ahead, back = Counting(5, 4), Counting(5, 4)
    numbers = torch.tensor([[1, 2, 3, 4], [1, 2, 5, 4], [1, 2, 3, 4], [1, 2, 0, 0], [6, 2, 3, 4]])
    mask = torch.ones_like(numbers, dtype=torch.bool)
    mask[3, 2:] = False
    read_rows(ahead, back, torch.randn(7, 5), numbers, mask, with_states=False)
    assert ahead.words == 2 + 2 + 3 + 3, "1, 6; 12, 62; 123, 125, 623; 1234, 1254, 6234"
    assert back.words == 2 + 3 + 2 + 3, "4, 2; 43, 45, 21; 432, 452; 4321, 4521, 4326"


def test_a_step_of_the_lstm_is_that_of_torch():
    torch.manual_seed(0)
    lstm = nn.LSTM(5, 4, batch_first=True).double()
    inputs, cell = torch.randn(3, 1, 5, dtype=torch.float64), LSTMCell(lstm)
    with torch.no_grad():
        hidden, memory = cell(cell.project(inputs[:, 0]), cell.start(3))
    expected, (_, expected_memory) = lstm(inputs)
    torch.testing.assert_close(hidden, expected[:, 0])
    torch.testing.assert_close(memory, expected_memory[0])
