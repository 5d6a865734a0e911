"""The settings of rationale extractors: the general settings, and those of two notebooks."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from rationale.data.batches import BatchSettings
from rationale.data.corpora import MADE_UP, corpus_names, find_corpus
from rationale.data.own.settings import IN_WORDS, RationaleFileSettings, absolute
from rationale.data.vectors import ScaledVectorSettings
from rationale.models.extractor import WHOLE_TEXT, ExtractorSettings, extractor_models
from rationale.nn.encoders import find_encoder
from rationale.nn.gates import GATES
from rationale.nn.pooling import POOLS
from rationale.nn.rules import RULES
from rationale.objectives.constraint import ConstraintSettings, TransitionSettings
from rationale.objectives.loss import GuidanceSettings, PriceSettings
from rationale.objectives.score_function import ScoreFunctionSettings
from rationale.settings import OneOf, Refusal, setting
from rationale.training.model_selection import ModelSelectionSettings
from rationale.training.settings.common import CommonSettings, refused_columns, refused_support, refused_target
from rationale.training.skewed import SkewSettings
from rationale.training.steps import StepSettings


class ExtractionSettings(
    ExtractorSettings,
    ConstraintSettings,
    TransitionSettings,
    PriceSettings,
    GuidanceSettings,
    ScoreFunctionSettings,
    ScaledVectorSettings,
    BatchSettings,
    ModelSelectionSettings,
    StepSettings,
    CommonSettings,
):
    """A rationale extractor, at the size of the paper's experiment on SST."""

    def refused(self) -> Iterator[Refusal]:
        yield from self._refused_start()
        whole, accepted = self.whole_text_epochs or 0, f"null, or a number below {self.epochs}"
        yield Refusal(whole >= self.epochs, "whole_text_epochs", f"with epochs {self.epochs}", accepted)
        yield from self._refused_encoder()
        yield from self._refused_vectors()
        yield from self._refused_without_gates()
        yield from self._refused_estimator()
        yield from self._refused_predictor()
        yield from self._refused_rule()
        yield from refused_support(self)
        yield from refused_target(self)

    def _refused_start(self) -> Iterator[Refusal]:
        started, model = self.start == "target", f"with model {self.model}"
        gates = self.model in GATES
        yield Refusal(started and not gates, "start", model, "none, or a model with gates", meaningless=True)
        without = gates and not GATES[self.model].can_start()
        yield Refusal(started and without, "start", f"{model}, which has no method `raw_at`", "none")
        accepted = "none, or a number for selection"
        yield Refusal(started and self.selection is None, "start", "without a target", accepted, meaningless=True)

    def _refused_vectors(self) -> Iterator[Refusal]:
        """Only random vectors of whole words are trained, and a pretrained encoder reads no vectors at all."""
        pieces, of_file = find_encoder(self.encoder).reads_pieces, self.vectors != "random"
        where = f"with encoder {self.encoder}" if pieces else f"with vectors {self.vectors}"
        idle = self.is_changed("train_vectors") and (pieces or of_file)
        yield Refusal(idle, "train_vectors", where, "false, or vectors=random with an LSTM", meaningless=True)
        for name in ("embedding_size", "vectors_scale"):  # but `vectors`: files of a model name them for all encoders
            yield self.idle(pieces, name, f"with encoder {self.encoder}, which reads no word vectors", "encoder=lstm")

    def _refused_encoder(self) -> Iterator[Refusal]:
        network = f"with encoder {self.encoder}"
        if not find_encoder(self.encoder).reads_pieces:
            accepted = "false, or encoder=minilm"
            yield Refusal(self.frozen_layers != 0, "frozen_layers", network, "0, or encoder=minilm", meaningless=True)
            yield Refusal(self.bfloat16, "bfloat16", network, accepted, meaningless=True)
            yield self.idle(True, "pretrained", network, "encoder=transformer")
        own = getattr(find_encoder(self.encoder), "checkpoint", None)
        other = own is not None and self.pretrained != own
        yield Refusal(other, "pretrained", network, f"{own}, or encoder=transformer", meaningless=True)
        in_order = self.batch_tokens is not None and not self.bucketed
        yield Refusal(in_order, "batch_tokens", "with bucketed false", "null, or bucketed=true")

    def _refused_without_gates(self) -> Iterator[Refusal]:
        """What belongs to gates, for a model that has none: each with the value that leaves it out."""
        if self.model in GATES:
            return
        model, other = f"with model {self.model}", "a model with gates"
        yield Refusal(self.shared_encoder, "shared_encoder", model, "false", meaningless=True)
        for name in ("selection", "transitions"):
            held = getattr(self, name) is not None
            yield Refusal(held, name, model, f"null, or {other}", meaningless=True)
        whole = self.whole_text_epochs != 0
        yield Refusal(whole, "whole_text_epochs", model, f"0, or {other}", meaningless=True)
        yield Refusal(self.dependent, "dependent", model, "false", meaningless=True)
        for name in ("closeness", "guidance", "sparsity", "coherence", "entropy"):
            yield Refusal(getattr(self, name) > 0, name, model, f"0, or {other}", meaningless=True)
        yield Refusal(self.samples > 1, "samples", model, f"1, or {other}", meaningless=True)

    def _refused_estimator(self) -> Iterator[Refusal]:
        """What needs draws that pass gradients, or draws that pass none; and what a target cannot be held with."""
        gate, model = GATES.get(self.model), f"with model {self.model}"
        scored = gate is not None and not gate.has_rsample
        ahead = self.look_ahead and (scored or not self.dependent)
        where = f"{model}, dependent={str(self.dependent).lower()}"
        accepted = "false, or dependent gates whose draws pass gradients"
        yield Refusal(ahead, "look_ahead", where, accepted, meaningless=True)
        sampled = self.penalty == "sampled"
        yield Refusal(sampled and not scored, "penalty", model, "expected, or model=bernoulli", meaningless=True)
        priced = self.sparsity or self.coherence or self.entropy
        counted = priced or self.selection is not None or self.transitions is not None
        yield self.idle(not counted, "penalty", "without a price or a target", "a positive sparsity")
        based = self.baseline != "none"
        yield Refusal(based and not scored, "baseline", model, "none, or model=bernoulli", meaningless=True)
        if scored and (self.selection is not None or self.transitions is not None):
            signed, accepted = self.dynamics == "signed", "dynamics=authors, or penalty=expected"
            yield Refusal(sampled and signed, "dynamics", "with penalty sampled and a target", accepted)
            where = f"with dependent gates of model {self.model} and a target"
            yield Refusal(self.dependent and not sampled, "penalty", where, "sampled")

    def _refused_predictor(self) -> Iterator[Refusal]:
        gate, model = GATES.get(self.model), f"with model {self.model}"
        removed = gate is not None and gate.needs_zeroed_words and self.predictor == "compact"
        yield Refusal(removed, "predictor", f"{model}: a word that is removed passes no gradient", "zero")
        pooled = self.model == "attention" and self.pool not in ("final", "attention")
        yield Refusal(pooled, "pool", model, "final or attention", meaningless=True)
        alone = self.second_reads != "words" and not self.closeness
        accepted = "words, or closeness above 0"
        yield Refusal(alone, "second_reads", "with closeness 0", accepted, meaningless=True)

    def _refused_rule(self) -> Iterator[Refusal]:
        rule, model = RULES[self.rule], f"with model {self.model}"
        yield Refusal(rule.has_budget and self.model == "full_text", "rule", model, "argmax", meaningless=True)
        if self.model in WHOLE_TEXT:  # which may still choose words by their weights
            weighs = (WHOLE_TEXT[self.model] or POOLS[self.pool]).weighs_words
            yield self.idle(not (rule.reads_weights and weighs), "rule", model, "a model with gates")
        where = "with dependent gates, which are decided one after the other"
        yield Refusal(self.dependent and not rule.in_order, "rule", where, "another rule, such as argmax")


def reviews_with_aspects() -> tuple[str, ...]:
    """The corpora of reviews, whose texts are rated for aspects."""
    return tuple(name for name in corpus_names("extraction") if find_corpus(name).aspects)


def aspects() -> tuple[str, ...]:
    """All aspects that a corpus of reviews is rated for."""
    return tuple(dict.fromkeys(aspect for name in reviews_with_aspects() for aspect in find_corpus(name).aspects))


OVERALL = "overall"  # the aspect of texts with one label
RANKED: dict[str, Any] = {"rule": "top_k"}  # a linear machine only ranks words


class ReviewSettings(
    RationaleFileSettings,
    ExtractionSettings,
    defaults={
        "look_ahead": True,
        "hidden_size": 200,
        "dropout": 0.2,
        "embedding_size": 200,
        "measure": "selected",
        "multiplier_rate": 0.005,
        "quadratic": 1.0,
        "batch_size": 64,
        "schedule": "exponential",
        "min_learning_rate": 5e-5,
        "weight_decay": 2e-6,
        "tolerance": 0.015,
    },
):
    """An extractor on reviews, at the size of the paper's experiment on beer; a linear baseline is fitted too.

    Texts of your own have one label each, so their aspect is "overall".
    """

    corpus: Annotated[str, OneOf(reviews_with_aspects, absolute, IN_WORDS)] = setting(
        meaning="where the texts come from"
    )
    aspect: Annotated[str, OneOf(aspects)] = setting(meaning="aspect that the score rates")
    correlation: float = setting(0.0, "correlation between the aspects' scores of made-up reviews", "[0, 1]")
    fold: int | None = setting(None, "the fold that is the test split; null = the usual split", "[0, inf)")
    model: Annotated[str, OneOf(lambda: (*extractor_models()[:2], "svm", *extractor_models()[2:]))] = setting(
        "hardkuma", "how words are selected"
    )

    other_defaults: ClassVar[dict[str, dict[str, Any]]] = {"model svm": RANKED}

    @classmethod
    def following(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The only rule of a linear machine; the share of words, its budget, has to be given."""
        return RANKED if values.get("model") == "svm" else {}

    def refused(self) -> Iterator[Refusal]:
        rated = find_corpus(self.corpus).aspects or (OVERALL,)
        accepted = f"one of {', '.join(rated)}" if len(rated) > 1 else rated[0]
        yield Refusal(self.aspect not in rated, "aspect", f"with corpus {self.corpus}", accepted)
        related, accepted = self.correlation > 0, "0, or corpus=synthetic"
        where = f"with corpus {self.corpus}, which is not made up"
        real = not find_corpus(self.corpus).made_up
        yield Refusal(related and real, "correlation", where, accepted, meaningless=True)
        yield from refused_columns(self)
        folds = find_corpus(self.corpus).folds
        accepted = f"null, or one of {', '.join(map(str, folds))}" if folds else "null"
        other = self.fold is not None and self.fold not in folds
        yield Refusal(other, "fold", f"with corpus {self.corpus}", accepted, meaningless=not folds)
        yield Refusal(self.rule != "top_k" and self.model == "svm", "rule", "with model svm", "top_k")


class FirstSettings(
    ExtractionSettings,
    defaults={
        "vectors": "random",
        "embedding_size": 64,
        "hidden_size": 64,
        "dropout": 0.1,
        "predictor": "compact",
        "measure": "selected",
        "multiplier_rate": 0.005,
        "quadratic": 1.0,
        "batch_size": 32,
        "min_learning_rate": 1e-4,
        "weight_decay": 1e-6,
        "tolerance": 0.015,
        "device": "cpu",
    },
):
    """The first extractor: made-up reviews, small enough to train in a minute."""

    num_dev: int = setting(400, "development reviews to make up", "[1, inf)")
    num_test: int = setting(400, "test reviews to make up", "[1, inf)")
    aspect: Annotated[str, OneOf(lambda: find_corpus(MADE_UP).aspects)] = setting("look", "aspect that the score rates")
    correlation: float = setting(0.0, "correlation between the aspects' scores", "[0, 1]")


class FailureSettings(
    FirstSettings,
    SkewSettings,
    defaults={"measure": "expected", "tolerance": 0.05, "num_test": 1000, "skew_steps": 1600},
):
    """An extractor that is made to fail: made-up reviews of two classes, correlated aspects, a skewed start."""

    num_train: int = setting(3000, "training reviews to make up", "[1, inf)")

    def refused(self) -> Iterator[Refusal]:
        without = self.skew == "selector" and self.model not in GATES
        yield Refusal(without, "skew", f"with model {self.model}", "none, predictor, or a model with gates")
