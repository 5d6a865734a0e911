"""What the training loop, the objectives and the evaluation ask of a model."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from rationale.data.batches import Sides
from rationale.nn.heads import Head
from rationale.nn.sampling import Draw, GateDistribution


class Output(NamedTuple):
    """What one pass returns: everything a loss or an evaluation needs."""

    prediction: Tensor  # [K B, C]: logits (classes) or scores in [0, 1]; K draws per text, mostly 1
    z: Tensor  # [K B, T] gate values in [0, 1], 0 at padding
    gates: GateDistribution | None  # of batch shape [K B, T]; None for a model that reads everything
    dependent: bool = False  # True where a gate depends on the draws before it
    log_switches: Tensor | None = None  # [K B, T - 1] ln P(switch after t), of a selector that looks ahead


class Trainable(Protocol):
    """What the loop and its checkpoints ask of any model: to be a module.

    All of `state_dict` is trained and saved. A tensor that is fixed, such as the word vectors, is a buffer with
    `persistent=False`: it moves with the model and is no part of a checkpoint (`checkpoint.all_tensors` has it).
    """

    training: bool

    def __call__(self, *args: Any) -> Any: ...
    def train(self, mode: bool = True) -> Any: ...
    def eval(self) -> Any: ...
    def modules(self) -> Iterator[nn.Module]: ...
    def parameters(self) -> Iterator[nn.Parameter]: ...
    def named_buffers(self) -> Iterator[tuple[str, Tensor]]: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state_dict: dict[str, Tensor]) -> Any: ...


class RationaleModel(Trainable, Protocol):
    """What the rationale objective and the evaluation ask of a model of texts or of pairs of texts.

    Attributes
    ----------
    task : str
        Which arc trains it, and by which builder a saved run is loaded: "extraction" or "alignment".
    has_gates : bool
        Whether `Output.gates` is a distribution. A model without gates has no rate to hold and no price to pay.
    """

    task: str

    @property
    def head(self) -> Head: ...

    @property
    def has_gates(self) -> bool: ...

    def __call__(self, tokens: Tensor | Sides, mask: Tensor, num_samples: int = 1) -> Output:
        """One pass: draws from the gates in training mode, decides by the rule in evaluation mode."""

    def gates(self, tokens: Tensor | Sides, mask: Tensor, draw: Draw | None = None) -> GateDistribution | None:
        """The gates alone; None for a model without gates."""

    def decided(self, mask: Tensor) -> Draw:
        """The test-time rule, ready for the gates of a batch with this mask."""


class EncoderDecoder(Trainable, Protocol):
    """What the word loss asks of a model that generates."""

    @property
    def output(self) -> nn.Module: ...  # from o [..., H] to logits [..., V]

    def decode(self, source: Tensor, source_mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]: ...

    def settled(self, weights: Tensor) -> Tensor: ...  # where the attention has no gradient
