"""`tools.attention_rows`: how many rows of attention get no gradient, early in a training."""

import itertools

import pytest
import torch
from torch import nn

from rationale.data.example import Example
from rationale.data.targets import END, Targets
from rationale.training import generation, train_seq2seq
from rationale.training.settings import GenerationSettings
from tools import attention_rows

SMALL = {"corpus": "multi30k", "hidden_size": 8, "batch_size": 8, "min_count": 1, "seed": 3, "longest": 4}
WORDS = "abcde"


def texts() -> Targets:
    """Texts of three words that are to be copied, in as many batches as there are steps below."""
    rows = [Example(words, 0, second=(*words, END)) for words in itertools.product(WORDS, repeat=3)]
    return Targets({"train": rows[:40], "dev": rows[40:60], "test": rows[60:62]}, {"dev": [], "test": []})


def settings(**changes) -> GenerationSettings:
    return GenerationSettings.checked(SMALL | {"epochs": 1, "device": "cpu"} | changes)


class Fixed(nn.Module):
    """A model whose attention to a source of three words is the same for each written word."""

    def __init__(self, *weights):
        super().__init__()
        self.weights = torch.tensor(weights)

    def decode(self, source, mask, target):
        return None, self.weights.expand(*target.shape, 3)

    def has_zero_jacobian(self, weights):
        return weights.count_nonzero(1) == 1


@pytest.mark.parametrize(("weights", "share"), [((0.0, 1.0, 0.0), 1.0), ((0.5, 0.5, 0.0), 0.0), ((0.9, 0.0, 0.1), 0.0)])
def test_a_row_is_one_hot_if_one_word_has_all_the_weight(weights, share, monkeypatch):
    monkeypatch.setattr(generation, "build_seq2seq", lambda *_: Fixed(*weights))
    monkeypatch.setattr(attention_rows, "build_optimizer", lambda *_: None)
    (row,) = attention_rows.counted(settings(), texts(), steps=[0])
    assert row == {"step": 0, "one_hot": share, "no_gradient": share}


def test_rows_of_equal_weights_get_no_gradient_where_the_map_makes_groups():
    maps = {"softmax": {}, "oscarmax": {"model": "oscarmax", "lam": 0.1}}
    before = {name: next(attention_rows.counted(settings(**of), texts(), [0])) for name, of in maps.items()}
    assert before["oscarmax"] == {"step": 0, "one_hot": 0.0, "no_gradient": 1.0}, "the first scores are nearly equal"
    assert before["softmax"] == {"step": 0, "one_hot": 0.0, "no_gradient": 0.0}


def test_counting_rows_changes_nothing_in_the_training(tmp_path, monkeypatch):
    """After an epoch, the model has the weights of the run with these settings, although rows were counted often."""
    built = []
    build = generation.build_seq2seq
    monkeypatch.setattr(generation, "build_seq2seq", lambda *them: built.append(build(*them)) or built[0])
    p = settings(model="sparsemax", dropout=0.5)
    found = list(attention_rows.counted(p, texts(), range(6)))
    assert [row["step"] for row in found] == [0, 1, 2, 3, 4, 5], "five batches of eight"
    result = train_seq2seq(p, texts(), lambda said, references: {}, tmp_path)
    for name, weight in result.model.state_dict().items():
        torch.testing.assert_close(built[0].state_dict()[name], weight, rtol=0, atol=0, msg=name)
