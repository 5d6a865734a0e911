"""Texts without the words that carry their score: which part of a model needs them."""

from types import SimpleNamespace

import torch
from small import classified, corpus

from rationale import training
from rationale.data import Example
from rationale.nn.heads import HEADS
from rationale.training.counterfactual import scores_without_informative, without_informative
from rationale.training.settings import FailureSettings

SMALL = {"hidden_size": 8, "embedding_size": 8, "dropout": 0.0, "batch_size": 8}


def prepared(**changes):
    torch.set_num_threads(1)
    return training.prepare_extractor(FailureSettings(**(SMALL | changes)), classified(corpus()), "classes", 2)


class Code:
    """A model with a code: it opens the first gate of a text of class 1 that it knows, and reads nothing but gates."""

    has_gates, head = True, HEADS["classes"](1, 2)

    def __init__(self, batches):
        self.words, self.known = batches.vocabulary.words, {e.tokens: e.label for e in batches.examples}

    def modules(self):
        return iter(())

    def eval(self):
        pass

    def embed(self, tokens):
        return tokens

    def chosen(self, tokens, mask):
        texts = [tuple(self.words[i] for i in row[here]) for row, here in zip(tokens, mask, strict=True)]
        return torch.tensor([float(self.known.get(text, 0)) for text in texts]).unsqueeze(1) * mask, None

    def predictor(self, embedded, mask, z):
        return torch.stack([0.5 - z[:, 0], z[:, 0] - 0.5], dim=1).log_softmax(1)

    def __call__(self, tokens, mask):
        return SimpleNamespace(prediction=self.predictor(tokens, mask, self.chosen(tokens, mask)[0]))


def test_each_informative_word_is_replaced_and_no_other():
    marked = Example(("a", "bad", "look"), 0, informative=(False, True, False))
    plain = Example(("a", "bad", "look"), 0)
    assert [one.tokens for one in without_informative([marked, plain])] == [("a", "the", "look"), ("a", "bad", "look")]


def test_a_predictor_that_reads_a_code_misses_no_word_and_its_selector_misses_all():
    part = prepared()[1]["dev"]
    changed = [one.tokens for one in without_informative(part.examples)]
    model = Code(part)
    assert all(tokens not in model.known for tokens in changed), "each review has informative words"
    found = scores_without_informative(model, part)
    assert found.held == 1, "with the gates of the unchanged texts"
    assert found.anew == sum(e.label == 0 for e in part.examples) / len(changed), "no gate is open any more"


def test_looking_at_a_model_in_training_mode_leaves_it_in_training_mode():
    model, batches = prepared(dropout=0.5)
    scores_without_informative(model.train(), batches["dev"])
    assert all(part.training for part in model.modules())


def test_a_model_without_gates_has_no_such_scores():
    model, batches = prepared(model="full_text", selection=None)
    assert scores_without_informative(model, batches["dev"]) is None
