"""Encoders: from embedded tokens to one state a token and one state a text; pools: from the former to the latter.

Every encoder has the signature `encoder(inputs [B, T, E], mask [B, T]) -> (states [B, T, S], final [B, S])`
and an attribute `output_size` (S). Real tokens stand first in a row, padding after them; only `RCNNEncoder` also reads
rows with holes in them.
"""

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from rationale.recurrence import RCNNCell, Scan


def kept_units(like: Tensor, p: float) -> tuple[Tensor, float]:
    """What dropout multiplies the units of `like` by, on a CPU: 0 with probability p, else the scale; and the scale.

    p is at most 255/256. One draw of 64 bits decides on eight units. The share 256 p is rounded up or down at random,
    anew in every call, so a unit is dropped with probability p exactly; the scale is the one for the rounded share.
    """
    share = int(256 * p + torch.rand((), dtype=torch.float64).item())
    scale = 256 / (256 - share)
    draws = torch.empty(-(-like.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    units = draws.view(torch.int8)[: like.numel()].view(like.shape)
    return units.to(like.dtype).ge_(share - 128).mul_(scale), scale


class Dropout(nn.Dropout):
    """`nn.Dropout`, several times as fast on a CPU, and never in place; see `kept_units`."""

    def __init__(self, p: float = 0.5):
        super().__init__(p)

    def _left_to_torch(self, inputs: Tensor) -> bool:
        return not self.training or not 0 < self.p <= 255 / 256 or inputs.device.type != "cpu"

    def forward(self, inputs: Tensor) -> Tensor:
        if self._left_to_torch(inputs):
            return super().forward(inputs)
        return inputs * kept_units(inputs, self.p)[0]


class _ReLUDropout(Function):
    """What is kept of max(0, x): a unit that comes out as 0 has no gradient, the others that of their scale."""

    @staticmethod
    def forward(ctx, x, p):
        units, ctx.scale = kept_units(x, p)
        units.mul_(x).clamp_(min=0)
        ctx.save_for_backward(units)
        return units

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (units,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, units, 0).mul_(ctx.scale), None


class ReLUDropout(Dropout):
    """ReLU, then dropout: one pass over the units and one back."""

    def forward(self, inputs: Tensor) -> Tensor:
        if self._left_to_torch(inputs):
            return super().forward(inputs.relu())
        return _ReLUDropout.apply(inputs, self.p)


class LSTMEncoder(nn.Module):
    """Bidirectional LSTM, one layer, without packing.

    The backward direction is a second LSTM that reads each row in reverse *within its own length*, so it
    starts at the true last token and padding is only ever read after the text. That is exactly what packed
    sequences compute, at the speed of padded ones (see `make bench`); with batches of similar length
    little padding is left.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes E and H; states have 2H numbers (forward, backward).
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.ahead = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.back = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.output_size = 2 * hidden_size

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """States of all tokens, and the two final states side by side.

        Parameters
        ----------
        inputs : [B, T, E]
        mask : bool [B, T]
            True for real tokens, which come first in each row. A row may be empty.

        Returns
        -------
        states [B, T, 2H], final [B, 2H]
            `final` is the forward state at the last real token and the backward state at the first one;
            zeros for an empty row. States at padding are meaningless.
        """
        lengths = mask.sum(1)  # [B]
        position = torch.arange(inputs.shape[1], device=inputs.device)
        reverse = torch.where(mask, lengths.unsqueeze(1) - 1 - position, position)  # [B, T], its own inverse
        ahead, _ = self.ahead(inputs)  # [B, T, H]
        back, _ = self.back(_take(inputs, reverse))  # [B, T, H], in reversed order
        last = (lengths - 1).clamp(min=0).unsqueeze(1)  # [B, 1]
        final = torch.cat([_take(ahead, last), _take(back, last)], -1).squeeze(1)  # [B, 2H]
        states = torch.cat([ahead, _take(back, reverse)], -1)  # [B, T, 2H]
        return states, final * (lengths > 0).unsqueeze(1)


def _take(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, s]]: [B, T, H], [B, S] -> [B, S, H]; whole rows, five times as fast as `gather`."""
    first = torch.arange(len(values), device=values.device).unsqueeze(1) * values.shape[1]  # [B, 1]
    return F.embedding(first + index, values.flatten(0, 1))


class RCNNEncoder(nn.Module):
    """Bidirectional recurrent convolution of order 2; half the parameters of an LSTM of its size.

    The backward direction is a second cell that reads the row from its end. Where `mask` is False a step is skipped
    in truth: the state stays what it was. So, unlike an LSTM over zero vectors, a text with tokens masked out gives
    the states of the text without them, and `mask` may have holes.

    Source: eq. (V1), notebooks/11_train_reviews.py; Lei et al. 2016; Bastings et al. 2019, app. B.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes E and H; states have 2H numbers (forward, backward).
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.ahead, self.back = RCNNCell(input_size, hidden_size), RCNNCell(input_size, hidden_size)
        self.output_size = 2 * hidden_size

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """States of all tokens, and the two final states side by side.

        Parameters
        ----------
        inputs : [B, T, E]
        mask : bool [B, T]
            True for the tokens to read, anywhere in a row. A row may be empty.

        Returns
        -------
        states [B, T, 2H], final [B, 2H]
            At a token that is not read stand the states before it in either direction; zeros before the first.
        """
        cells = (self.ahead, self.back)
        inputs, keep = inputs.transpose(0, 1), mask.T.unsqueeze(-1)  # [T, B, E], [T, B, 1]
        weight = torch.stack([cell.inputs.weight.unflatten(0, (3, -1)).mT for cell in cells], 1)  # [3, 2, E, H]
        states = Scan.apply(
            torch.stack([inputs, inputs.flip(0)]),
            weight,
            torch.stack([cell.recurrent.bias for cell in cells]).unsqueeze(1),
            torch.stack([cell.recurrent.weight.T for cell in cells]),
            torch.stack([cell.bias for cell in cells]).unsqueeze(1),
            torch.stack([keep, keep.flip(0)]),
        )  # [2, T, B, H]
        final = torch.cat([*states[:, -1]], -1)
        return torch.cat([states[0], states[1].flip(0)], -1).transpose(0, 1), final


ENCODERS = {"lstm": LSTMEncoder, "rcnn": RCNNEncoder}


POOLS = ("final", "last", "mean", "max", "attention")


class Pool(nn.Module):
    """One state a text.

        final      both directions' final states; the paper's
        last       the forward state at the last real token alone
        mean, max  over the real tokens
        attention  sum_t w_t h_t with w = softmax_t(v . tanh(W h_t)), no biases

    Source: eq. (R12), notebooks/05_reinforce.py. A text without tokens gives zeros.

    Parameters
    ----------
    kind : one of `POOLS`
    num_features : int
        Size S of the states.
    attention_size : int
        Rows of W; `attention` only.
    """

    def __init__(self, kind: str, num_features: int, attention_size: int = 100):
        super().__init__()
        if kind not in POOLS:
            raise ValueError(f"pool: got {kind!r}, accepted are {', '.join(POOLS)}")
        self.kind, self.output_size = kind, num_features // 2 if kind == "last" else num_features
        if kind == "attention":
            self.project = nn.Linear(num_features, attention_size, bias=False)
            self.score = nn.Linear(attention_size, 1, bias=False)

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """Attention weights [B, T]: they sum to 1 over the real tokens, and are 0 for an empty row."""
        scores = self.score(torch.tanh(self.project(states))).squeeze(-1)  # [B, T]
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * mask

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        """States [B, T, S], final [B, S] and mask bool [B, T] to [B, output_size]."""
        if self.kind == "final":
            return final
        if self.kind == "last":
            return final[:, : self.output_size]
        if self.kind == "attention":
            return torch.einsum("bt,bts->bs", self.weights(states, mask), states)
        kept = mask.unsqueeze(-1)
        if self.kind == "mean":
            return torch.where(kept, states, 0.0).sum(1) / kept.sum(1).clamp(min=1)
        return torch.where(kept, states, -torch.inf).amax(1).where(kept.any(1), 0.0)
