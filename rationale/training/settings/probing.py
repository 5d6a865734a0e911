"""The settings of runs that train and freeze a model, and then attribute its predictions to words and states."""

from collections.abc import Iterator
from typing import Annotated, Literal

from rationale.data.corpora import corpus_names, find_corpus
from rationale.explain.diffmask import ProbeSettings
from rationale.explain.methods import METHODS
from rationale.settings import OneOf, Refusal, setting
from rationale.training.settings.common import CommonSettings


class ProbingSettings(
    ProbeSettings,
    CommonSettings,
    defaults={"epochs": 50, "learning_rate": 5e-3, "schedule": "exponential", "weight_decay": 0.0},
):
    """A model that is trained and frozen, and the methods that attribute its predictions."""

    corpus: Annotated[str, OneOf(lambda: corpus_names("probing"))] = setting(meaning="where the texts come from")
    subject: str = setting("", "folder of a run whose model is probed again; empty = a new model is trained")
    pretrained: str = setting("minilm", "transformer: minilm, a folder, or a name on the hub")
    bfloat16: bool = setting(
        False,
        "the transformer multiplies in bfloat16, with 8 bits of precision: for speed on a GPU, or on a CPU with "
        "instructions for it",
    )
    reader: Literal["transformer", "gru"] = setting(
        "transformer", "what reads texts: a transformer, or a GRU on its word embeddings"
    )
    searchable: int = setting(0, "largest number of positions of a test text, for exact search; 0 = any", "[0, 25]")
    num_explained: int = setting(0, "number of test texts for the methods other than probes; 0 = all", "[0, inf)")
    methods: Annotated[list[str], OneOf(lambda: METHODS)] = setting(
        ["states", "integrated_gradients", "erasure"], "methods of attribution: probes of states or inputs, and others"
    )
    num_steps: int = setting(200, "steps of integrals and of fits to one text", "[1, inf)")
    model_epochs: int = setting(20, "passes of the probed model over its data; 0 = it is not trained", "[0, inf)")
    model_learning_rate: float = setting(1e-3, "step size of Adam for the probed model", "(0, inf)")
    embedding_size: int = setting(64, "size of the embeddings of the toy model; units of the GRU", "[1, inf)")
    batch_size: int = setting(128, "examples per training step", "[1, inf)")

    def refused(self) -> Iterator[Refusal]:
        yield from self._refused_corpus()
        yield from self._refused_idle()

    def _refused_idle(self) -> Iterator[Refusal]:
        """What only other methods use.

        `hidden_size` and `multiplier_rate` are not asked for, as a file of fitted masks repeats those of the run whose
        model it explains.
        """
        methods = [METHODS[name] for name in self.methods]
        probed = any(method.is_probe for method in methods)
        for used, names, other in (
            (probed, ("votes", "divergence", "form"), "states or inputs"),
            (any(method.needs_margin for method in methods), ("margin",), "states or masks"),
            (probed or any(method.needs_multiplier for method in methods), ("multiplier_init",), "states or masks"),
            (any(method.needs_steps for method in methods), ("num_steps",), "integrated_gradients"),
            (not all(method.is_probe for method in methods), ("num_explained",), "integrated_gradients"),
        ):
            where = f"with methods {', '.join(self.methods)}"
            for name in names:
                yield self.idle(methods and not used, name, where, f"{other} in methods")

    def _refused_corpus(self) -> Iterator[Refusal]:
        """What a corpus and its model have no use for, or cannot do."""
        corpus = find_corpus(self.corpus)
        yield Refusal(not self.methods, "methods", "as nothing would be attributed", f"some of {', '.join(METHODS)}")
        words = not corpus.alphabet  # texts of symbols have a model of their own
        other = self.reader == "gru" and (corpus.spans or not words)
        yield Refusal(other, "reader", f"with corpus {self.corpus}", "transformer", meaningless=True)
        yield Refusal(
            self.bfloat16 and (not words or self.reader == "gru"),
            "bfloat16",
            "without a transformer",
            "false",
            meaningless=True,
        )
        where = f"with corpus {self.corpus}, whose texts are symbols"
        yield self.idle(not words, "pretrained", where, "a corpus of words, such as sst")
        sized, where = not words or self.reader == "gru", f"with a {self.reader}, which has a size of its own"
        yield self.idle(not sized, "embedding_size", where, "reader=gru")
        yield self.idle(not self.model_epochs, "model_learning_rate", "with model_epochs 0", "a positive model_epochs")
        untrained = not self.model_epochs and not self.subject and sized
        where = f"with a {self.reader if words else 'transformer'} of random weights, which nothing would train"
        yield Refusal(untrained, "model_epochs", where, "1 or more, or a run for subject")
        for name in self.methods:
            missing = METHODS[name].missing(
                single_answer=not corpus.spans,
                attention_weights=words and self.reader == "transformer",
                short_texts=bool(self.searchable or corpus.alphabet),
            )
            yield Refusal(missing, "methods", f"with corpus {self.corpus}, it needs {missing}", part=name)
