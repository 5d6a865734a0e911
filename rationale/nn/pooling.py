"""From the states of the words of a text to one state per text."""

import torch
from torch import Tensor, nn

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
