"""Starts that are skewed on purpose: which words they teach, which part they move, what the first word tells."""

import pytest
import torch
from small import classified, corpus

from rationale import training
from rationale.data import Example
from rationale.data.batches import Batches, Vocabulary, encode
from rationale.errors import BadInput
from rationale.training import skewed
from rationale.training.settings import FailureSettings

SMALL = {"hidden_size": 8, "embedding_size": 8, "dropout": 0.0, "selection": 0.3, "batch_size": 8}


def prepared(**changes):
    """An extractor on made-up reviews of two classes, and its batches."""
    p = FailureSettings(**(SMALL | changes))
    torch.set_num_threads(1)
    return training.prepare_extractor(p, classified(corpus()), "classes", 2)


def weights(part) -> list[torch.Tensor]:
    return [value.detach().clone() for value in part.parameters()]


def is_same(before: list[torch.Tensor], part) -> bool:
    return all(torch.equal(old, new) for old, new in zip(before, part.parameters(), strict=True))


def test_the_guide_speaks_of_the_first_word_alone_and_names_the_class():
    batch = Batches([Example(("a", "b"), 1), Example(("b", "a"), 0)], Vocabulary(["a", "b"]), 2).rows(torch.arange(2))
    assert skewed.first_word_guide(batch).tolist() == [[1, -1], [0, -1]]


def test_the_first_sentence_ends_with_its_mark_and_holds_no_padding():
    vocabulary = Vocabulary(["a", ".", "!"])
    texts = [["a", "a", ".", "a", "."], ["!", "a"], ["a", "a", "a"]]
    ends = torch.tensor(vocabulary.encode([".", "!"]))
    found = skewed.first_sentence(encode(texts, vocabulary), ends)
    assert found.int().tolist() == [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0]]


@pytest.mark.parametrize(("skew", "other"), [("selector", "predictor"), ("predictor", "selector")])
def test_only_the_skewed_part_moves_unless_the_encoder_is_shared(skew, other):
    for is_shared in (False, True):
        model, batches = prepared(shared_encoder=is_shared)
        mine, theirs, vectors = weights(getattr(model, skew)), weights(getattr(model, other)), model.vectors.clone()
        skewed.SKEWS[skew](model, batches["train"], num_steps=2, learning_rate=0.01)
        assert not is_same(mine, getattr(model, skew)), skew
        assert is_same(theirs, getattr(model, other)) is not is_shared, other
        assert torch.equal(vectors, model.vectors)


def test_a_skewed_selector_tells_the_class_by_its_first_gate():
    model, batches = prepared()
    skewed.skew_selector(model, batches["train"], num_steps=400, learning_rate=0.02)
    assert skewed.told_by_first_word(model, batches["train"]) > 0.95


def test_a_skewed_predictor_has_read_the_first_sentence_and_nothing_else():
    model, batches = prepared()
    twin, others = prepared()
    later = batches["train"].vocabulary.encode(["the"])[0]
    ends = torch.tensor(batches["train"].vocabulary.encode([".", "!", "..."]))
    rows = others["train"].rows

    def changed(index):
        batch = rows(index)
        return batch._replace(tokens=torch.where(skewed.first_sentence(batch, ends), batch.tokens, later))

    others["train"].rows = changed
    for one, part in ((model, batches), (twin, others)):
        torch.manual_seed(1)
        skewed.skew_predictor(one, part["train"], num_steps=3, learning_rate=0.01)
    assert is_same(weights(model.predictor), twin.predictor)


def test_what_the_first_gate_tells_is_counted_in_both_directions_and_is_nothing_without_gates(monkeypatch):
    model, batches = prepared()
    whole, _ = prepared(model="full_text", selection=None)
    assert skewed.told_by_first_word(whole, batches["dev"]) is None
    target = {tuple(row[mask].tolist()): y for batch in batches["dev"].in_order()
              for row, mask, y in zip(batch.tokens, batch.mask, batch.target.tolist(), strict=True)}  # fmt: skip
    for one_class in (0, 1):

        def chosen(tokens, mask, one_class=one_class):
            opens = [target[tuple(row[here].tolist())] == one_class for row, here in zip(tokens, mask, strict=True)]
            return torch.tensor(opens).float().unsqueeze(1).expand(tokens.shape), None

        monkeypatch.setattr(model, "chosen", chosen)
        assert skewed.told_by_first_word(model, batches["dev"]) == 1
    monkeypatch.setattr(model, "chosen", lambda tokens, mask: (torch.zeros(tokens.shape), None))
    classes = torch.tensor(list(target.values())).double().mean().item()
    assert skewed.told_by_first_word(model, batches["dev"]) == pytest.approx(max(classes, 1 - classes))


def test_what_the_first_gate_tells_is_that_of_test_time_and_the_model_keeps_its_mode():
    model, batches = prepared(dropout=0.5)
    expected = skewed.told_by_first_word(model.eval(), batches["dev"])
    assert skewed.told_by_first_word(model.train(), batches["dev"]) == expected
    assert all(part.training for part in model.modules())


def test_a_selector_cannot_be_skewed_where_there_is_none():
    with pytest.raises(BadInput, match="skew: selector is not accepted with model full_text; give none, predictor"):
        FailureSettings.checked({"model": "full_text", "selection": None, "skew": "selector"})
    assert FailureSettings(model="full_text", selection=None, skew="predictor").skew == "predictor"
