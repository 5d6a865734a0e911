"""Encoders: from embedded tokens to one state per token and one state per text."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.errors import BadInput
from rationale.nn import fast, fast_reading
from rationale.nn.forms import form_of
from rationale.nn.rcnn import RCNNCell, scan_both_ways
from rationale.parts import Table, require_arguments, require_method
from rationale.settings import OneOf, Refusal, Settings, setting

CHECKPOINT = "transformer"  # the encoder that reads a checkpoint: a folder, or one with a name on the hub
ON_HUB = re.compile(r"\w[\w.-]*/[\w.-]+")  # owner/name


def checkpoint_place(encoder: str) -> str | None:
    """The checkpoint that the setting `encoder` names: the absolute path of a folder, or `owner/name` on the hub.

    Anything with a slash is a path, and becomes absolute because a run works in another folder, unless it has the form
    `owner/name` and there is no such folder, or begins with `hub:`. None: the value is neither.

    Examples
    --------
    >>> checkpoint_place("hub:google/bert_tiny"), checkpoint_place("google/bert_tiny"), checkpoint_place("rcnn")
    ('google/bert_tiny', 'google/bert_tiny', None)
    """
    name = encoder.removeprefix("hub:")
    if ON_HUB.fullmatch(name) and (name != encoder or not os.path.isdir(name)):
        return name
    is_path = name == encoder and "\0" not in name and ("/" in name or os.sep in name)
    return os.path.abspath(os.path.expanduser(name)) if is_path else None


class EncoderSettings(Settings):
    """The networks that read a text."""

    encoder: Annotated[
        str, OneOf(lambda: ENCODERS, checkpoint_place, "the path of a folder (with a slash), or owner/name on the hub")
    ] = setting("lstm", "network that reads a text")
    hidden_size: int = setting(150, "units per direction", "[1, inf)")
    dropout: float = setting(0.5, "probability of dropping a unit in training", "[0, 1)")

    def refused(self) -> Iterator[Refusal]:
        of_checkpoint = not find_encoder(self.encoder).has_hidden_size
        yield self.idle(of_checkpoint, "hidden_size", f"with encoder {self.encoder}", "encoder=lstm")


class Encoder(nn.Module):
    """A network that reads embedded tokens in both directions.

    Real tokens come first in a row, padding after them; only `RCNNEncoder` also reads rows with holes in them.

    Attributes
    ----------
    name : str
        The value of the setting `encoder` that chooses this encoder.
    reads_pieces : bool
        Whether its inputs are the word pieces of each word, long [B, T, P], and not word vectors [B, T, E]. Only
        subclasses of `PretrainedEncoder` set it, because the reader of pieces asks for their tokenizer and window.
    has_hidden_size : bool
        Whether its size is that of the setting `hidden_size`. A pretrained network has the size of its checkpoint.
    can_export : bool
        Whether `torch.export` can trace it: no loop over the words, and no shape that depends on a value.
    output_size : int
        Size S of the states.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes E and H; states have 2H numbers (forward, backward).
    """

    name: ClassVar[str]
    reads_pieces: ClassVar[bool] = False
    has_hidden_size: ClassVar[bool] = True
    can_export: ClassVar[bool] = False

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.output_size = 2 * hidden_size

    @property
    def floats_per_position(self) -> int:
        """Numbers that a training step keeps per word of a batch, at the least.

        Measured are 11 per unit of the states (LSTM encoders of 50 and of 150 units per direction).
        """
        return 8 * self.output_size

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        ENCODERS.add_class(cls)

    @classmethod
    def build(cls, input_size: int, p: Any) -> "Encoder":
        """The encoder that the settings of a run describe. Uses hidden_size.

        An encoder with parameters of its own overrides this method: `p` also has those that a notebook declares.
        """
        return cls(input_size, p.hidden_size)

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [B, T, E] and mask bool [B, T] to states [B, T, S] of all tokens and final [B, S] of the text."""
        raise NotImplementedError

    def read_rows(self, vectors: Tensor, numbers: Tensor, mask: Tensor, with_states: bool) -> tuple[Tensor, Tensor]:
        """The same as `forward(vectors[numbers], mask)`, without gradients; see `fast_reading.read_rows`.

        An encoder that can read rows with equal beginnings faster than one after the other overrides this method.
        """
        with torch.no_grad():
            return self(vectors[numbers], mask)

    def read(
        self, inputs: Tensor, mask: Tensor, dropout: Callable[[Tensor], Tensor], z: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The states of a text whose embedded words are multiplied by gates z [B, T]; None leaves them as they are."""
        inputs = dropout(inputs)
        return self(inputs if z is None else inputs * z.unsqueeze(-1), mask)


ENCODERS: Table[type[Encoder]] = Table("encoder", lambda part: isinstance(part, type) and issubclass(part, Encoder))


def find_encoder(name: str) -> type[Encoder]:
    """The class that the setting `encoder` chooses, by its name; for a checkpoint, that of pretrained encoders."""
    return ENCODERS[CHECKPOINT if name not in ENCODERS and checkpoint_place(name) is not None else name]


def build_encoder(name: str, input_size: int, p: Any) -> Encoder:
    """The encoder that the setting `encoder` chooses, as the settings `p` describe it.

    Raises
    ------
    BadInput
        It is an encoder of one's own whose states cannot be used. So this is found before anything is trained.
    """
    kind = find_encoder(name)
    if name in ENCODERS.files:
        require_method("encoder", kind, Encoder, "forward")
        require_arguments("encoder", kind, Encoder, "input_size and hidden_size alone", input_size, 1)
    encoder = kind.build(input_size, p)
    if name in ENCODERS.files and not encoder.reads_pieces:
        _require_states(encoder, input_size)
    return encoder


@torch.no_grad()
def _require_states(encoder: Encoder, input_size: int) -> None:
    """Refuse an encoder that does not return what `forward` says, told from texts of three, one and no tokens.

    Behind the tokens are numbers that are not 0: where unselected words are removed, theirs stand there.
    """
    size, told = encoder.output_size, f"encoder: {type(encoder).__name__}.forward"
    inputs = torch.linspace(-1, 1, 9 * input_size).reshape(3, 3, input_size)
    mask = torch.arange(3) < torch.tensor([[3], [1], [0]])
    was_training = encoder.training
    encoder.eval()
    with torch.random.fork_rng(devices=[]):
        read, alone = encoder(inputs, mask), encoder(inputs[1:2, :1], mask[1:2, :1])
    encoder.train(was_training)
    shapes = [form_of(part) for part in read] if isinstance(read, tuple) else type(read).__name__
    if shapes != [(3, 3, size), (3, size)]:
        what = f"{told} returns {shapes} for inputs of shape (3, 3, {input_size})"
        raise BadInput(
            f"{what}; accepted: a tuple of states (3, 3, {size}) and final states (3, {size}), where {size} is its "
            "output_size"
        )
    states, final = read
    if not (states[mask].isfinite().all() and final.isfinite().all()):
        few = states[0].isfinite().all() and final[0].isfinite().all()
        text = "one token or none" if few else "three tokens"
        raise BadInput(f"{told} gives NaN or infinite numbers for a text of {text}; accepted: finite ones")
    for name, in_batch, by_itself in (
        ("other states", states[1:2, :1], alone[0]),
        ("another final state", final[1:2], alone[1]),
    ):
        if not torch.allclose(in_batch, by_itself, rtol=1e-3, atol=1e-4):
            offer = "states that depend neither on the words where `mask` is False nor on their number"
            raise BadInput(f"{told} gives a text {name} if padding follows it; accepted: {offer}")


class LSTMEncoder(Encoder):
    """Bidirectional LSTM, one layer, without packing.

    The backward direction is a second LSTM that reads each row in reverse *within its own length*, so it
    starts at the true last token and padding is only ever read after the text. That is exactly what packed
    sequences compute, at the speed of padded ones (see `make bench`). Batches of texts of similar length contain
    little padding; on a CPU, those with much padding are read in a few blocks (`fast.Blocks`).

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes E and H; states have 2H numbers (forward, backward).
    """

    name, can_export = "lstm", True

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.ahead = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.back = nn.LSTM(input_size, hidden_size, batch_first=True)

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
        if inputs.shape[1] == 0:
            return _read_nothing(self, inputs, mask)
        lengths = mask.sum(1)  # [B]
        position = torch.arange(inputs.shape[1], device=inputs.device)
        reverse = torch.where(mask, lengths.unsqueeze(1) - 1 - position, position)  # [B, T], its own inverse
        blocks = fast.Blocks.of(mask)
        ahead, back = (  # [B, T, H], the second in reversed order
            lstm(part)[0] if blocks is None else blocks.read(lstm, part)
            for lstm, part in ((self.ahead, inputs), (self.back, _take(inputs, reverse)))
        )
        last = (lengths - 1).clamp(min=0).unsqueeze(1)  # [B, 1]
        final = torch.cat([_take(ahead, last), _take(back, last)], -1).squeeze(1)  # [B, 2H]
        states = torch.cat([ahead, _take(back, reverse)], -1)  # [B, T, 2H]
        return states, final * (lengths > 0).unsqueeze(1)

    def read_rows(self, vectors: Tensor, numbers: Tensor, mask: Tensor, with_states: bool) -> tuple[Tensor, Tensor]:
        """The same as `forward(vectors[numbers], mask)`; each distinct beginning of the rows is read once."""
        ahead, back = fast_reading.LSTMCell(self.ahead), fast_reading.LSTMCell(self.back)
        return fast_reading.read_rows(ahead, back, vectors, numbers, mask, with_states)


def _read_nothing(encoder: Encoder, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The states [B, 0, S] and final states [B, S] of texts [B, 0, E], which are read as one step of padding."""
    states, final = encoder(F.pad(inputs, (0, 0, 0, 1)), F.pad(mask, (0, 1)))
    return states[:, :0], final


def _take(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, s]]: [B, T, H], [B, S] -> [B, S, H]."""
    return values.gather(1, index.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


class RCNNEncoder(Encoder):
    """Bidirectional recurrent convolution of order 2; half the parameters of an LSTM of its size.

    The backward direction is a second cell that reads the row from its end. A step where `mask` is False
    is skipped: the state does not change. So, unlike an LSTM over zero vectors, a text with tokens masked out gives
    the states of the text without them, and `mask` may have holes.

    Source: eq. (V1), notebooks/11_train_reviews.py; Lei et al. 2016; Bastings et al. 2019, app. B.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes E and H; states have 2H numbers (forward, backward).

    Attributes
    ----------
    fast : bool
        True: `fast.scan_both_ways`. False: `rcnn.scan_both_ways`, which computes the same result step by step.
    """

    name = "rcnn"
    fast = True

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.ahead, self.back = RCNNCell(input_size, hidden_size), RCNNCell(input_size, hidden_size)

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
            A token that is not read has the last state before it in each direction: zeros if no token was read before.
        """
        if inputs.shape[1] == 0:
            return _read_nothing(self, inputs, mask)
        scan = fast.scan_both_ways if self.fast else scan_both_ways
        return scan(self.ahead, self.back, inputs, mask)

    def read(
        self, inputs: Tensor, mask: Tensor, dropout: Callable[[Tensor], Tensor], z: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `Encoder.read`. The fast form gets the gradient of z without that of `inputs`."""
        if z is None or not z.requires_grad or not self.fast:
            return super().read(inputs, mask, dropout, z)
        return fast.scan_both_ways(self.ahead, self.back, dropout(inputs), mask, z)

    def read_rows(self, vectors: Tensor, numbers: Tensor, mask: Tensor, with_states: bool) -> tuple[Tensor, Tensor]:
        """The same as `forward(vectors[numbers], mask)`; each distinct beginning of the rows is read once.

        In each row, the tokens to read come first.
        """
        return fast_reading.read_rows(self.ahead, self.back, vectors, numbers, mask, with_states)
