"""From the states of the words of a text to one state per text."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationale.errors import BadInput
from rationale.nn.forms import form_of
from rationale.parts import Table, require_arguments, require_method


class Pool(nn.Module):
    """One state per text, from the states of its words. A text without tokens gives zeros.

    Source: eq. (R12), notebooks/09_questions.py.

    Attributes
    ----------
    name : str
        The value of the setting `pool` that chooses this pool.
    weighs_words : bool
        Whether the pool has `weights(states, mask)` [B, T]: one number per word, larger where the word counts more.
    reads_states : bool
        Whether the pool uses the states of the single words. Otherwise they may be anything.

    Parameters
    ----------
    num_features : int
        Size S of the states.
    output_size : int or None
        Size of the returned state; None: S.
    """

    name: ClassVar[str]
    weighs_words: ClassVar[bool] = False
    reads_states: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        POOLS.add_class(cls)

    def __init__(self, num_features: int, output_size: int | None = None):
        super().__init__()
        self.output_size = num_features if output_size is None else output_size

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        """From states [B, T, S], final [B, S] and mask bool [B, T] to [B, output_size]."""
        raise NotImplementedError

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """What each word counts, [B, T]; only of a pool with `weighs_words`."""
        raise NotImplementedError


POOLS: Table[type[Pool]] = Table("pool", lambda part: isinstance(part, type) and issubclass(part, Pool))


def build_pool(name: str, num_features: int) -> Pool:
    """The pool of this name for states of this size.

    Raises
    ------
    BadInput
        It is a pool of one's own that returns something else than one state per text. So this is found before anything
        is trained.
    """
    if name in POOLS.files:
        require_method("pool", POOLS[name], Pool, "forward")
        require_arguments("pool", POOLS[name], Pool, "num_features alone", num_features)
    pool = POOLS[name](num_features)
    if name in POOLS.files:
        _require_state(pool, num_features)
    return pool


@torch.no_grad()
def _require_state(pool: Pool, num_features: int) -> None:
    """Refuse a pool that does not return what `forward` says, told from a text of three tokens and one of none."""
    mask = torch.tensor([[True] * 3, [False] * 3])
    state = pool(torch.zeros(2, 3, num_features), torch.zeros(2, num_features), mask)
    shape = form_of(state)
    if shape != (2, pool.output_size):
        what = f"pool: {type(pool).__name__}.forward returns {shape} for two texts of up to three tokens"
        raise BadInput(f"{what}; accepted: one state per text, (2, {pool.output_size}), of the size output_size")


class FinalPool(Pool):
    """The final states of both directions, as in the paper."""

    name, reads_states = "final", False

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        return final


class LastPool(Pool):
    """Only the forward state at the last real token."""

    name, reads_states = "last", False

    def __init__(self, num_features: int):
        super().__init__(num_features, num_features // 2)

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        return final[:, : self.output_size]


class MeanPool(Pool):
    """The mean over the real tokens."""

    name = "mean"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        kept = mask.unsqueeze(-1)
        return torch.where(kept, states, 0.0).sum(1) / kept.sum(1).clamp(min=1)


class MaxPool(Pool):
    """The maximum over the real tokens, separately for each number of the state."""

    name = "max"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        if states.shape[1] == 0:  # there is no maximum of nothing
            return states.sum(1)
        kept = mask.unsqueeze(-1)
        return torch.where(kept, states, -torch.inf).amax(1).where(kept.any(1), 0.0)


class AttentionPool(Pool):
    """sum_t w_t h_t with w = softmax_t(v . tanh(W h_t)), without biases.

    Parameters
    ----------
    num_features : int
        Size S of the states.
    attention_size : int
        Number of rows of W.
    """

    name, weighs_words = "attention", True

    def __init__(self, num_features: int, attention_size: int = 100):
        super().__init__(num_features)
        self.project = nn.Linear(num_features, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """Attention weights [B, T]: they sum to 1 over the real tokens, and are 0 for an empty row."""
        states = torch.where(mask.unsqueeze(-1), states, 0.0)  # 0 times a NaN would not be 0
        scores = self.score(torch.tanh(self.project(states))).squeeze(-1)  # [B, T]
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1) * mask

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        return torch.einsum("bt,bts->bs", self.weights(states, mask), torch.where(mask.unsqueeze(-1), states, 0.0))
