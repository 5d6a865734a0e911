"""The settings of extractors on texts of one's own."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from rationale.data.corpora import corpus_names
from rationale.data.own.settings import IN_WORDS, RationaleFileSettings, absolute
from rationale.models.extractor import WHOLE_TEXT
from rationale.nn.encoders import find_encoder
from rationale.nn.gates import GATES
from rationale.nn.heads import HeadSettings
from rationale.settings import OneOf, Refusal, setting
from rationale.training.model_selection import SELECTED
from rationale.training.settings.common import refused_columns
from rationale.training.settings.extraction import ExtractionSettings

# The defaults of a pretrained encoder, for a run of minutes on a CPU: few passes, a warm-up, the lower half of the
# transformer as it is, and few words per batch, so that few texts make many steps. The rate is measured without dropout
# and by the rule of the test time, as for an LSTM, but less often, since each measurement costs a pass: with dropout,
# the gates of a transformer select more words, so the constraint held the rate of training and missed that of use. Its
# own weights keep the step size that they have everywhere (3e-5): of long texts, a batch holds only a few, and with
# larger steps the rationale could become a code.
FINE_TUNED: dict[str, Any] = {
    "frozen_layers": None,
    "learning_rate": 5e-4,
    "learning_rate_warmup": 0.3,
    "epochs": 6,
    "measure_every": 4,
    "pool": "mean",
    "dropout": 0.2,
    "batch_tokens": 1024,
}
# With gates, selector and predictor share the encoder, and if there is a target, it falls from nearly all words: two
# encoders that have to learn from few words, chosen at random at first, may agree on words that say little. Texts that
# are longer than the transformer reads at once are read as a whole in the first epoch: through gates that still choose
# at random, a predictor did not learn to read long reviews at all. In training, a second predictor reads every word
# through the same encoder, so that the encoder and the gates go on learning from words that are hardly ever selected.
# (`second_reads: states` needs no pass of its own. With it, the gates became a code on reviews of hotels, and with the
# default they did so on reviews of movies.)
SHARED: dict[str, Any] = {"shared_encoder": True, "whole_text_epochs": None, "closeness": 1.0}
STARTED: dict[str, Any] = {"start": "target", "selection_start": 0.9, "selection_moves": 0.7}
# Draws that pass no gradient learn from the score function, which is noisy. With two draws of a text, each is the
# baseline of the other. In our runs, a single draw without a baseline was less accurate on test.
SCORED: dict[str, Any] = {"samples": 2, "baseline": "leave_one_out"}
WITHOUT_GATES: dict[str, Any] = {"selection": None}


class OwnTextSettings(
    RationaleFileSettings,
    HeadSettings,
    ExtractionSettings,
    defaults={
        "vectors": "random",
        "embedding_size": 64,
        "hidden_size": 64,
        "train_vectors": True,
        "dropout": 0.1,
        "pool": "max",
        "predictor": "compact",
        "selection": 0.2,
        "measure": "selected",
        "multiplier_rate": None,  # this, quadratic and tolerance follow from the texts
        "quadratic": None,
        "batch_size": 32,
        "epochs": 20,
        "stop_after": 4,
        "learning_rate": 2e-3,
        "min_learning_rate": 1e-4,
        "weight_decay": 1e-6,
        "tolerance": None,
        "batch_tokens": 131_072,  # 32 texts of 4,096 words; one very long text among them must not fill the memory
    },
):
    """An extractor on texts of your own, small enough to train in minutes.

    A pretrained encoder has other defaults than one that starts from random weights (`FINE_TUNED`).
    """

    other_defaults: ClassVar[dict[str, dict[str, Any]]] = {
        "a pretrained encoder": FINE_TUNED,
        "gates of a pretrained encoder": SHARED | STARTED,
        "gates whose draws pass no gradient, such as bernoulli": SCORED,
        "a model without gates, such as full_text": WITHOUT_GATES,
    }

    elsewhere: ClassVar[dict[str, str]] = {
        "second": "these are single texts; pairs are for the notebook 13_train_nli, as in "
        'make run NOTEBOOK=13_train_nli PARAMS="corpus=pairs.csv text=premise second=hypothesis"'
    }

    # Whatever the constraint measures: this is the share of words that you get when you use the model
    kept_by: ClassVar[str | None] = SELECTED

    corpus: Annotated[str, OneOf(lambda: corpus_names("extraction"), absolute, IN_WORDS)] = setting(
        meaning="where the texts come from"
    )

    def refused(self) -> Iterator[Refusal]:
        """Scores have no classes that could have weights, and a corpus with a name has no columns.

        A pretrained encoder reads no word vectors.
        """
        yield from refused_columns(self)
        pieces = find_encoder(self.encoder).reads_pieces
        yield self.idle(pieces, "vectors", f"with encoder {self.encoder}, which reads no word vectors", "encoder=lstm")
        weighted = self.class_weight != "none" and self.head == "scores"
        yield Refusal(weighted, "class_weight", "with head scores", "none, or head=classes")

    @classmethod
    def following(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of a pretrained encoder, if one is chosen; those of its gates, if the model has some.

        A single draw has no other one as its baseline. A model with a pool of its own, such as `attention`, leaves
        `pool` unused; batches of texts of any length leave `batch_tokens` unused.
        """
        meant = {name: values.get(name, cls.usual(name)) for name in ("encoder", "model", "selection")}
        unused: dict[str, Any] = {"pool": cls.unused("pool")} if WHOLE_TEXT.get(meant["model"]) else {}
        if meant["model"] not in GATES:
            unused |= WITHOUT_GATES
        in_order = {} if values.get("bucketed", True) else {"batch_tokens": cls.unused("batch_tokens")}
        gate = GATES.get(meant["model"])
        if gate is not None and not gate.has_rsample:
            unused |= SCORED
            if values.get("samples") == 1:
                unused |= {"samples": 1, "baseline": cls.unused("baseline")}
        if not find_encoder(meant["encoder"]).reads_pieces:
            return unused | in_order
        has_gates = meant["model"] in GATES
        shared = SHARED if has_gates else {}
        started = STARTED if has_gates and meant["selection"] is not None else {}
        if started and values.get("selection_start", started["selection_start"]) is None:
            started = started | {"selection_moves": 0}  # a target that is fixed has no time to fall in
        return FINE_TUNED | shared | started | unused | in_order
