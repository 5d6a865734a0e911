"""A text classifier that others have fine-tuned, as the package transformers loads it, ready to be probed.

It reads a text as it always does: whole, in the pieces of its own tokenizer, cut where it would be cut. So its answers
are those of transformers. What can be replaced are its word embeddings; its later states can be read.

    h^(0) word embeddings,  h^(1) input of the first layer,  h^(k + 1) output of the k-th layer
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rationale.data.batches import Batch
from rationale.data.word_groups import GroupedBatches, GroupedText, Pieces, group_texts
from rationale.digests import digest_read, revision_read
from rationale.errors import BadInput, excerpt, shown
from rationale.models.pretrained_encoder import unused_positions
from rationale.models.transformers import import_transformers, reachable, revision_of

SETTING = "classifier"  # of which the messages speak
ON_HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
READ = (".json", ".safetensors", ".bin", ".txt", ".model")  # endings of the files that transformers may read
SENTENCES = ("A warm, funny film.", "No.")  # by which a classifier is tried before any work
CLOSE = 1e-4  # logits of one text in two batches may differ by so much
ACCEPTED = (
    "accepted: a folder that save_pretrained has written for a classifier and its tokenizer, or a name on the hub"
)


class TextClassifier(nn.Module):
    """A classifier of transformers with its tokenizer.

    Parameters
    ----------
    model : of `AutoModelForSequenceClassification`
    tokenizer : its fast tokenizer
    place : str
        The absolute path of its folder, or its name on the hub.
    digest : str
        Of its files; for a name on the hub, the revision.

    Attributes
    ----------
    labels : names of the classes
    longest : int
        Pieces that it reads at most, with the special ones; a longer text is cut.
    """

    model: Any  # transformers gives the parts of a module no types

    def __init__(self, model: Any, tokenizer: Any, place: str, digest: str):
        super().__init__()
        self.model, self.tokenizer, self.place, self.digest = model, tokenizer, place, digest
        config = model.config
        self.labels = [str(config.id2label[i]) for i in range(config.num_labels)]
        positions = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
        self.longest = int(min(positions - unused_positions(model), tokenizer.model_max_length, 2**16))

    @property
    def embeddings(self) -> nn.Module:
        """The module whose output is h^(0)."""
        return self.model.get_input_embeddings()

    def grouped(self, texts: list[str], split: Any) -> list[GroupedText]:
        """Texts in pieces of the tokenizer, grouped by the words into which `split` divides a text."""
        return [one for i in range(0, len(texts), 1024)
                for one in group_texts(texts[i : i + 1024], self.tokenizer, split, self.longest)]  # fmt: skip

    def batches(self, texts: list[GroupedText], batch_size: int, **options: Any) -> GroupedBatches:
        """Batches on the device of the model; the options are those of `Batches`."""
        device = next(self.model.parameters()).device
        return GroupedBatches(texts, self.tokenizer.pad_token_id, batch_size, device=device, **options)

    def predict(self, batch: Batch[Pieces]) -> Tensor:
        """Logits [B, C]."""
        return self._output(batch).logits

    def read(self, batch: Batch[Pieces]) -> tuple[Tensor, list[Tensor]]:
        """Logits [B, C], and the states h^(1), h^(2), ... of all pieces, [B, N, D] each."""
        output = self._output(batch, output_hidden_states=True)
        return output.logits, list(output.hidden_states)

    def _output(self, batch: Batch[Pieces], **options: Any) -> Any:
        pieces = batch.tokens
        return self.model(input_ids=pieces.numbers, attention_mask=pieces.real.long(), **options)


def place_of_classifier(name: Any) -> str:
    """The absolute path of the folder of a classifier, or its name on the hub.

    Raises
    ------
    BadInput
        It is neither; a folder has to hold a file config.json.
    """
    if not isinstance(name, str | os.PathLike) or not str(name).strip():
        raise BadInput(f"{SETTING}: {excerpt(name)} is no path; {ACCEPTED}")
    text = os.path.expanduser(os.fspath(name))
    try:
        is_folder, is_file = os.path.isdir(text), os.path.isfile(text)
        has_config = is_folder and os.path.isfile(os.path.join(text, "config.json"))
    except ValueError as error:  # a NUL character
        raise BadInput(f"{SETTING}: {excerpt(name)}: {error}; {ACCEPTED}") from None
    if is_folder and not has_config:
        raise BadInput(f"{SETTING}: {shown(text)} holds no config.json; {ACCEPTED}")
    if not is_folder and (is_file or not ON_HUB.fullmatch(text) or text.startswith(".")):
        what = "a file" if is_file else "no folder"
        raise BadInput(f"{SETTING}: {excerpt(text, 200)} is {what}; {ACCEPTED}")
    return os.path.abspath(text) if is_folder else text


def digest_of_classifier(place: str) -> str:
    """A digest of the files in a folder that transformers may read; they count as read from now on.

    Files in subfolders, such as the checkpoints of its training, do not count.
    """
    paths = sorted(path for path in Path(place).iterdir() if path.suffix in READ and path.is_file())
    lines = "".join(f"{digest_read(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def load_classifier(name: Any, revision: str | None = None) -> TextClassifier:
    """Load a classifier of texts, frozen and in float32.

    Parameters
    ----------
    name : the path of a folder, or a name on the hub
    revision : str or None
        Of the hub; None: the newest.

    Raises
    ------
    BadInput
        It cannot be loaded, has no trained head, gives scores or several labels at a time, or cannot be probed.
    """
    place = place_of_classifier(name)
    is_folder, transformers = os.path.isdir(place), import_transformers()
    named = shown(place) if is_folder else place
    options = {} if is_folder or revision is None else {"revision": revision}
    try:
        with reachable(place):
            config = transformers.AutoConfig.from_pretrained(place, **options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, use_fast=True, **options)
            chooser = transformers.AutoModelForSequenceClassification
            model, report = chooser.from_pretrained(
                place, config=config, dtype=torch.float32, output_loading_info=True, **options
            )
    except BadInput:
        raise
    except Exception as error:  # transformers and its parts have many ways to say that something is missing or damaged
        reason = (str(error).splitlines() or [type(error).__name__])[0][:150]
        raise BadInput(f"{SETTING}: {named} cannot be loaded ({reason}); {ACCEPTED}") from None
    obstacle = _obstacle(model, tokenizer, sorted(report["missing_keys"]))
    if obstacle:
        raise BadInput(f"{SETTING}: {named} {obstacle}")
    if is_folder:
        digest = digest_of_classifier(place)
    else:
        digest = revision or revision_of(place) or ""
        revision_read(place, digest)
    classifier = TextClassifier(model.requires_grad_(False).eval(), tokenizer, place, digest)
    _try(classifier, named)
    return classifier


def _obstacle(model: Any, tokenizer: Any, missing: list[str]) -> str:
    """What keeps a model from being probed, and what is accepted; "" if nothing is known to."""
    config, labels = model.config, list(map(str, model.config.id2label.values()))
    of_head = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if of_head:
        what = f"has no trained classifier: its file of weights lacks {of_head[0]}, which would be random"
        return f"{what}; fine-tune it first, as AutoModelForSequenceClassification"
    if missing:
        return f"cannot be used: its file of weights lacks {missing[0]}; save it again"
    if config.problem_type == "multi_label_classification":
        return "gives several labels to one text; accepted: a classifier of which each text has one label"
    if config.num_labels < 2:
        return "has one output, so it is a model of scores; accepted: a classifier of two classes or more"
    if len(set(labels)) != config.num_labels:
        return f"names its {config.num_labels} classes {excerpt(labels)} in config.json; accepted: each by its own name"
    if not getattr(tokenizer, "is_fast", False):
        return (
            "has a tokenizer that does not say which characters a piece is made of; accepted: one with tokenizer.json"
        )
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        return "has no tokenizer.json or vocab.txt, so every word would be unknown; save its tokenizer there, too"
    if tokenizer.pad_token_id is None:
        return "has a tokenizer without a piece for padding; set its pad_token, and pad_token_id of the model"
    rows = model.get_input_embeddings().num_embeddings
    if max(tokenizer.get_vocab().values()) >= rows:
        return f"does not fit its tokenizer, which has {len(tokenizer):,} pieces, for {rows:,} embeddings"
    return ""


@torch.no_grad()
def _try(classifier: TextClassifier, named: str) -> None:
    """Refuse a classifier that does not read a batch as it reads one text, or whose embeddings cannot be replaced."""
    batch = classifier.batches(classifier.grouped(list(SENTENCES), str.split), 2).rows(torch.arange(2))
    shapes: list[tuple[int, ...]] = []
    hook = classifier.embeddings.register_forward_hook(lambda *given: shapes.append(tuple(given[2].shape[:2])))
    kind, accepted = type(classifier.model).__name__, "accepted: encoders such as BERT, RoBERTa, DistilBERT and DeBERTa"
    try:
        logits, states = classifier.read(batch)
        alone = [classifier.model(**classifier.tokenizer(text, return_tensors="pt")).logits[0] for text in SENTENCES]
    except Exception as error:  # each architecture has its own
        reason = (str(error).splitlines() or [""])[0][:100]
        raise BadInput(f"{SETTING}: {named} is a {kind}, which cannot be probed ({reason}); {accepted}") from None
    finally:
        hook.remove()
    if not logits.isfinite().all():
        raise BadInput(f"{SETTING}: {named} answers with NaN or an infinite number; its weights are damaged")
    expected, far = tuple(batch.tokens.numbers.shape), (logits - torch.stack(alone)).abs().max().item()
    if shapes[:1] != [expected] or any(tuple(state.shape[:2]) != expected for state in states):
        raise BadInput(f"{SETTING}: {named} is a {kind}, whose states do not belong to its pieces; {accepted}")
    if far > CLOSE * max(1.0, logits.abs().max().item()):
        what = f"a {kind}, which answers otherwise if texts are padded, by {far:.2g}"
        raise BadInput(f"{SETTING}: {named} is {what}; {accepted}")
