"""Pretrained transformers as encoders of an extractor: gates sit on words, and a word has one or more pieces.

    x = [CLS] pieces of word 1, pieces of word 2, ... [SEP]
    h_t = state of the first piece of word t,    final = state of [CLS]

A predictor multiplies the embedding of each piece by the gate z_t of its word. Where z_t = 0, no position attends to
the word, and it occupies one position, however many pieces it has: the prediction cannot depend on which word it is.
Its position stays visible, as in an LSTM over zero vectors; with `predictor: compact` not even that.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from rationale.data.word_pieces import NO_PIECE
from rationale.errors import BadInput
from rationale.models.transformers import (
    MINILM,
    load_any_encoder,
    load_tokenizer,
    multiplying_in_bfloat16,
    num_positions,
)
from rationale.nn.encoders import CHECKPOINT, ENCODERS, Encoder, checkpoint_place
from rationale.nn.gates import GATES
from rationale.settings import Settings, setting


class PretrainedSettings(Settings):
    """A pretrained transformer as the encoder; without effect on other encoders."""

    pretrained: str = setting(MINILM, "checkpoint of encoder transformer: minilm, a folder, or a name on the hub")
    pretrained_learning_rate: float = setting(3e-5, "step size for the weights of a pretrained encoder", "(0, inf)")
    frozen_layers: int | None = setting(
        0, "layers of a pretrained encoder, lowest first, that are not trained; null = the lower half", "[0, inf)"
    )
    bfloat16: bool = setting(
        False,
        "training steps of a pretrained encoder multiply in bfloat16: faster, with 8 bits of precision; needs a GPU or "
        "a CPU with instructions for it",
    )


class PretrainedEncoder(Encoder):
    """A transformer that reads words as pieces, with bidirectional attention.

    A text of more pieces than the transformer has positions is cut into windows, each with its own [CLS] and [SEP]:
    every word has a state, and the state of the text is the mean of those of its windows.

    In training the transformer drops states at the rates of its checkpoint, but nothing where it is frozen, and no
    attention weights. Without the latter, attention needs no matrix of all pairs of positions.

    Parameters
    ----------
    transformer : model of the package transformers
        An encoder such as BERT, RoBERTa, DistilBERT, DeBERTa or ModernBERT.
    tokenizer : its tokenizer
    closes_attention : bool
        Whether no position attends to a word with z = 0. False: the word is a zero vector only, through which the
        gradient of its gate passes.
    frozen_layers : int or None
        How many of the lowest layers are not trained; the embeddings are not trained either if it is positive. None:
        the lower half of the layers.
    in_bfloat16 : bool
        Whether it multiplies matrices in bfloat16 in training mode, for speed; its weights and states stay in float32.
        In evaluation mode it computes in float32, so what a trained model answers does not depend on the machine.
    """

    name, reads_pieces, has_hidden_size, can_export = CHECKPOINT, True, False, True
    keeps_weights = True  # `initialise` leaves them as they are
    checkpoint: ClassVar[str | None] = None  # None: that of the settings

    def __init__(
        self,
        transformer: Any,
        tokenizer: Any,
        closes_attention: bool = True,
        frozen_layers: int | None = 0,
        in_bfloat16: bool = False,
    ):
        nn.Module.__init__(self)
        self.transformer, self.closes_attention, self.in_bfloat16 = transformer, closes_attention, in_bfloat16
        self.first, self.last, self.filler = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        config = transformer.config
        self.output_size, self.num_layers = config.hidden_size, config.num_hidden_layers
        positions = min(num_positions(transformer), tokenizer.model_max_length)
        self.window = positions - 2  # pieces, beside [CLS] and [SEP]
        frozen_layers = self.num_layers // 2 if frozen_layers is None else frozen_layers
        for name, parameter in transformer.named_parameters():
            layer = next((int(part) for part in name.split(".") if part.isdigit()), -1)
            parameter.requires_grad_(layer >= frozen_layers or not frozen_layers)

    @classmethod
    def build(cls, input_size: int, p: Any) -> "PretrainedEncoder":  # noqa: ARG003
        """The encoder that the settings describe. Uses encoder, pretrained, frozen_layers, bfloat16 and model."""
        closes = not (p.model in GATES and GATES[p.model].needs_zeroed_words)
        transformer, tokenizer = load_any_encoder(*cls._checkpoint(p), attention_dropout=False)
        transformer.to(torch.get_default_dtype())  # that of the other weights; a file may hold float16
        return cls(transformer, tokenizer, closes, p.frozen_layers, p.bfloat16)

    def train(self, mode: bool = True) -> Self:
        """Set the mode as in any module; but what is frozen has no dropout, which would only disturb what is read."""
        super().train(mode)
        for part in self.transformer.modules():
            weights = list(part.parameters())
            if weights and not any(weight.requires_grad for weight in weights):
                part.eval()
        return self

    @classmethod
    def tokenizer(cls, p: Any) -> Any:
        """The tokenizer that the settings describe. Uses encoder and pretrained."""
        return load_tokenizer(*cls._checkpoint(p))

    @classmethod
    def require(cls, p: Any) -> None:
        """Stop, before anything is read, if the encoder that the settings describe cannot be loaded, or cannot be used.

        Raises
        ------
        BadInput
            See `load_any_encoder`. Its files are loaded, and fetched if they are on the hub. Also if it cannot read a
            text of one embedded piece, such as an encoder-decoder.
        """
        place, setting = cls._checkpoint(p)
        if place == MINILM:  # its weights are compared with their digest
            load_tokenizer(place, setting)
            return
        transformer, tokenizer = load_any_encoder(place, setting)
        try:
            with torch.no_grad():
                piece = torch.full((1, 1, 1), tokenizer.unk_token_id)
                cls(transformer, tokenizer).eval()(piece, torch.ones(1, 1, dtype=torch.bool))
        except Exception as error:  # each architecture has its own
            reason = (str(error).splitlines() or [""])[0][:100]
            raise BadInput(
                f"{setting}: {place} is a {type(transformer).__name__}, which cannot read embedded pieces "
                f"({type(error).__name__}: {reason}); accepted are encoders such as BERT, RoBERTa, DistilBERT, DeBERTa "
                "and ModernBERT"
            ) from None

    @classmethod
    def _checkpoint(cls, p: Any) -> tuple[str, str]:
        """The checkpoint to load, and the setting that names it."""
        if cls.checkpoint is not None:
            return cls.checkpoint, "encoder"
        place = checkpoint_place(p.encoder) if p.encoder not in ENCODERS else None
        return (p.pretrained, "pretrained") if place is None else (place, "encoder")

    @property
    def floats_per_position(self) -> int:
        """Numbers that a training step keeps per word of a batch, at the least: 12 per unit of each layer."""
        return 12 * self.output_size * self.num_layers

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Word pieces, long [B, T, P], and mask bool [B, T] to states [B, T, S] of all words and final [B, S]."""
        return self.read(inputs, mask, nn.Identity())

    def read(
        self,
        inputs: Tensor,
        mask: Tensor,
        dropout: Callable[[Tensor], Tensor],
        z: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The states of texts whose embedded pieces are multiplied by the gates of their words.

        It packs the pieces of each text without gaps, and cuts them into windows. With a window of 4 and z = 0 at the
        second word, of which one position stays, a text of 4 words and 7 pieces is read in 2 windows:

            words           0  1          2  3
            pieces          a  b ##c ##d  e  f ##g       inputs [T, P], P = 3; the rest is NO_PIECE
            packed          a  b  e  f ##g               [N], N = 8, a multiple of the window; the rest is padding
            windows  [CLS]  a  b  e  f  [SEP]            [2, 4 + 2]; the rest of the second window is padding
                     [CLS] ##g [SEP]
            states          a  b  e  f                   [T, S], of the first piece of each word

        Parameters
        ----------
        inputs : long [B, T, P]
            The pieces of each word, then `NO_PIECE`.
        mask : bool [B, T]
        dropout
            Without effect: the transformer has its own.
        z : [B, T] or None
            Gates of the words. None: all words are read as they are.

        Returns
        -------
        states [B, T, S], final [B, S]
            The state of the first piece of each word, and the mean state of [CLS] over the windows of a text.
        """
        is_piece = (inputs != NO_PIECE) & mask.unsqueeze(-1)  # [B, T, P]
        if z is not None:  # an unselected word keeps one position
            is_piece[..., 1:] &= (z != 0).unsqueeze(-1)
        before = is_piece.sum(-1).cumsum(1) - is_piece.sum(-1)  # [B, T]: where the first piece of each word comes
        words = torch.arange(mask.shape[1], device=mask.device).unsqueeze(-1).expand_as(inputs)
        flat = is_piece.flatten(1)
        longest = max(int(flat.sum(1).max()), 1)
        width = min(longest, self.window)
        size = -(-longest // width) * width  # a multiple of the window
        (pieces, word), real = in_front(flat, size, inputs.flatten(1), words.flatten(1))  # [B, N]
        values = None if z is None else torch.where(real, z.gather(1, word), 0.0)
        states, final = self._in_windows(pieces, real, values, width)
        return states_at(states, before), final

    def read_packed(
        self, pieces: Tensor, word: Tensor, first: Tensor, z: Tensor | None = None, compact: bool = False
    ) -> tuple[Tensor, Tensor]:
        """What `read` gives in evaluation mode, from pieces that are packed already; no shape depends on a value.

        So it can be exported as a graph. Where z = 0, the pieces of a word but the first are removed, and those behind
        them move forward, as in the picture of `read`. The number of windows stays, and the last may hold no piece.

        Parameters
        ----------
        pieces : long [B, K, W]
            The pieces of each text, one after the other, in K windows of at most `window`, then `NO_PIECE`.
        word : long [B, K, W]
            The number of the word in its text to which each piece belongs.
        first : long [B, T]
            Where the first piece of each word stands among the K W pieces of its text; negative: padding.
        z : [B, T] or None
            Gates of the words.
        compact : bool
            Whether words with z = 0 are removed. Otherwise each of them keeps one position.

        Returns
        -------
        states [B, T, S], final [B, S]
            The states of removed words and of padding are meaningless.
        """
        width = pieces.shape[2]
        pieces, word = pieces.flatten(1), word.flatten(1)  # [B, N]
        real, at, values = pieces != NO_PIECE, first.clamp(min=0), None
        if z is not None:
            values = z.gather(1, word)
            keep = real & (values != 0)
            if not compact:
                keep = keep | (real & (torch.arange(pieces.shape[1], device=z.device) == at.gather(1, word)))
            before = (keep.long().cumsum(1) - keep.long()).gather(1, at)  # [B, T]
            (pieces, word), real = in_front(keep, pieces.shape[1], pieces, word)
            at, values = before, torch.where(real, z.gather(1, word), 0.0)
        states, final = self._in_windows(pieces, real, values, width)
        return states_at(states, at), final

    def _in_windows(self, pieces: Tensor, real: Tensor, z: Tensor | None, width: int) -> tuple[Tensor, Tensor]:
        """The states of packed pieces, each text in K = N / width windows, with [CLS] and [SEP] around each window.

        Parameters
        ----------
        pieces : long [B, N], N a multiple of the width
        real : bool [B, N]
            Which of them are pieces; they stand in front.
        z : [B, N] or None
            The gate of the word of each piece.
        width : int
            Pieces of a window.

        Returns
        -------
        states [B, N, S], final [B, S]
            `final` is the mean state of [CLS] over the windows that hold a piece, or over the first if none does.
        """
        rows, size = pieces.shape
        pieces, real = pieces.view(-1, width), real.view(-1, width)  # [R, width], R = B K
        ends = real.sum(1, keepdim=True)  # [R, 1]: where [SEP] stands
        at = torch.arange(width + 1, device=pieces.device)
        is_end = at == ends  # [R, width + 1]
        ids = nn.functional.pad(torch.where(real, pieces, self.filler), (0, 1), value=self.filler)
        ids = nn.functional.pad(torch.where(is_end, self.last, ids), (1, 0), value=self.first)  # [R, width + 2]
        attended = nn.functional.pad(real, (1, 1), value=False)  # [R, width + 2]
        attended[:, 0] = True
        attended[:, 1:] |= is_end
        embedded = self.transformer.get_input_embeddings()(ids)  # [R, width + 2, E]
        if z is not None:
            gate = nn.functional.pad(z.view(-1, width), (1, 1))
            fixed = nn.functional.pad(is_end, (1, 0), value=True)  # [CLS] and [SEP] are always read
            embedded = embedded * torch.where(fixed, 1.0, gate).unsqueeze(-1)
            if self.closes_attention:
                attended &= fixed | (gate != 0)
        rounds = self.in_bfloat16 and self.training
        with multiplying_in_bfloat16(embedded.device) if rounds else nullcontext():
            states = self.transformer(inputs_embeds=embedded, attention_mask=attended.long()).last_hidden_state
        states = states.to(embedded.dtype)  # [R, width + 2, S]
        used = real.any(1).view(rows, -1, 1).to(states.dtype)  # [B, K, 1]: windows that hold a piece
        used[:, 0] = 1
        final = (states[:, 0].view(rows, -1, self.output_size) * used).sum(1) / used.sum(1)
        return states[:, 1:-1].reshape(rows, size, -1), final


def in_front(keep: Tensor, size: int, *values: Tensor) -> tuple[list[Tensor], Tensor]:
    """The kept entries of each row of [B, M] at its front, in order: [B, N] each, and bool [B, N], which are kept.

    N is `size`, at least the largest number of kept entries in a row; other entries fill the rest.
    """
    order = torch.argsort(keep, dim=1, descending=True, stable=True)[:, :size]
    if order.shape[1] < size:
        order = nn.functional.pad(order, (0, size - order.shape[1]))
    real = torch.arange(size, device=keep.device) < keep.sum(1).unsqueeze(1)
    return [value.gather(1, order) for value in values], real


def states_at(states: Tensor, place: Tensor) -> Tensor:
    """states[b, place[b, t]]: [B, N, S], [B, T] -> [B, T, S]. A word without a piece has any state."""
    at = place.clamp(max=states.shape[1] - 1).unsqueeze(-1)
    return states.gather(1, at.expand(-1, -1, states.shape[-1]))


class MiniLMEncoder(PretrainedEncoder):
    """all-MiniLM-L6-v2, from an installed package: 6 layers of 384 units, no download."""

    name, checkpoint = "minilm", MINILM
