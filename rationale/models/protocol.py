"""What the training loop, the objectives and the evaluation require of a model."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from torch import Tensor, nn

from rationale.distributions.protocol import GateDistribution
from rationale.nn.heads import Head
from rationale.nn.sampling import Draw

Read = TypeVar("Read", contravariant=True)  # what a model reads: Tensor (texts) or Sides (pairs of texts)


class Output(NamedTuple):
    """The result of one forward pass: everything that a loss or an evaluation needs."""

    prediction: Tensor  # [K B, C]: logits (classes) or scores in [0, 1]; K draws per text, mostly 1
    z: Tensor  # [K B, T] gate values in [0, 1], 0 at padding
    gates: GateDistribution | None  # of batch shape [K B, T]; None for a model that reads everything
    dependent: bool = False  # True if a gate depends on the draws before it
    log_switches: Tensor | None = None  # [K B, T - 1] ln P(switch after t); only from a selector that looks ahead
    auxiliary: Tensor | None = None  # [K B, C] of the auxiliary predictor, in training; see `Extractor.auxiliary`

    def required_gates(self) -> GateDistribution:
        """The gates of a model that has some.

        Raises
        ------
        ValueError
            If the model reads everything.
        """
        if self.gates is None:
            raise ValueError("gates: None, accepted is the output of a model with gates")
        return self.gates


class Trainable(Protocol):
    """What the loop and its checkpoints require of any model: the methods of a module.

    All of `state_dict` is trained and saved. A tensor that is fixed, such as the word vectors, is a buffer with
    `persistent=False`: it moves with the model but is not part of a checkpoint (`checkpoint.all_tensors` includes it).
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


class RationaleModel(Trainable, Protocol[Read]):
    """What the rationale objective and the evaluation require of a model of texts or of pairs of texts.

    Attributes
    ----------
    task : str
        What the model is trained for; it also chooses the builder that loads a saved run: "extraction" or "alignment".
    unit, position : str
        What the model reads, "text" or "pair"; and what a gate belongs to, "word" or "cell".
    reads_pieces : bool
        Whether the model reads word pieces through a pretrained encoder.
    has_gates : bool
        Whether `Output.gates` is a distribution. A model without gates has neither constraints nor prices.
    predicts_when_shut : bool
        Whether the model reads both texts of a pair in full and its gates only align them, so that a prediction from
        shut gates shows what the gates add. Its `forward` takes a `draw`.
    floats_per_position : int
        Numbers that a training step keeps per word (or per cell of a pair) of a batch, at the least; for an estimate of
        the memory that a run needs.
    """

    task: str
    unit: str
    position: str
    predicts_when_shut: bool

    @property
    def head(self) -> Head: ...

    @property
    def reads_pieces(self) -> bool: ...

    @property
    def has_gates(self) -> bool: ...

    @property
    def floats_per_position(self) -> int: ...

    def __call__(self, tokens: Read, mask: Tensor, num_samples: int = 1) -> Output:
        """One pass: draws from the gates in training mode, decides by the rule in evaluation mode."""

    def gates(self, tokens: Read, mask: Tensor, draw: Draw | None = None) -> GateDistribution | None:
        """Only the gates; None for a model without gates."""

    def selects(self, gates: GateDistribution, mask: Tensor) -> Tensor:
        """Where the test-time rule gives a value that is not 0: a bool of the shape of the gates."""


class WholeTextReader(Protocol[Read]):
    """What `whole_text_epochs` requires of a model with gates."""

    def read_all(self, tokens: Read, mask: Tensor) -> Output:
        """One pass over every word, without gates."""


class EncoderDecoder(Trainable, Protocol):
    """What the word loss requires of a model that generates text."""

    @property
    def output(self) -> nn.Module: ...  # from o [..., H] to logits [..., V]

    def decode(self, source: Tensor, source_mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]: ...

    def has_zero_jacobian(self, weights: Tensor) -> Tensor: ...  # where the scores have gradient 0

    def set_gamma(self, gamma: float) -> None: ...  # of the mapping of its attention
