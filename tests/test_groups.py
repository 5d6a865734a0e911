"""Whether attention gives several words the same weight: counted word by word, and for the maps that do so."""

import random

import torch

from rationale import training
from rationale.nn import fusedmax, oscarmax, softmax, sparsemax
from rationale.training.groups import grouped_share, groups_by_label
from tests.test_aligner import pairs, settings


def by_hand(texts, neighbours):
    """Word by word, with lists."""
    grouped = attended = 0
    for rows in texts:
        for row in (row for row in rows.tolist() if len(set(row)) > 1):
            for i, weight in enumerate(row):
                others = row[max(0, i - 1) : i] + row[i + 1 : i + 2] if neighbours else row[:i] + row[i + 1 :]
                attended += weight != 0
                grouped += weight != 0 and weight in others
    return grouped / max(1, attended)


def test_words_that_share_their_weight_are_those_counted_one_by_one():
    draw = random.Random(1)
    for _ in range(50):
        texts = []
        for _ in range(3):
            size = draw.randint(1, 6)
            texts.append(torch.tensor([[draw.choice([0.0, 0.1, 0.2, 0.3]) for _ in range(size)] for _ in range(4)]))
        for neighbours in (False, True):
            assert grouped_share(texts, neighbours) == by_hand(texts, neighbours)
    assert grouped_share([]) == grouped_share([torch.full((2, 3), 1 / 3)]) == 0, "no row tells words apart"


def test_fusedmax_makes_segments_oscarmax_groups_and_the_others_neither():
    torch.manual_seed(1)
    scores = 0.6 * torch.randn(400, 9)
    shares = {
        name: [grouped_share([weights], neighbours) for neighbours in (False, True)]
        for name, weights in {
            "softmax": softmax(scores), "sparsemax": sparsemax(scores),
            "fusedmax": fusedmax(scores, lam=0.1), "oscarmax": oscarmax(scores, lam=0.1),
        }.items()
    }  # fmt: skip
    assert shares["softmax"] == shares["sparsemax"] == [0, 0]
    assert shares["fusedmax"][0] == shares["fusedmax"][1] > 0.2, "all of its groups are segments"
    assert shares["oscarmax"][0] > 1.5 * shares["oscarmax"][1] > 0, "its groups may be anywhere"


def test_pairs_of_each_label_are_counted_by_themselves_and_a_run_of_a_mapping_says_so(tmp_path):
    examples = pairs(4)
    z = [torch.zeros(len(e.tokens), 3) for e in examples]
    for weights, example in zip(z, examples, strict=True):
        weights[:, : 2 + example.label] = 1 / (2 + example.label)  # two neighbours of three, or all three
    found = groups_by_label([weights.flatten() for weights in z], examples)
    assert {e.label for e in examples} == {0, 1}
    assert found == {"grouped_0": 1.0, "segments_0": 1.0, "grouped_1": 0.0, "segments_1": 0.0}

    splits = {"train": pairs(40), "dev": pairs(20), "test": pairs(20)}
    for model, wanted in (("fusedmax", set(found)), ("hardkuma", set()), ("recurrent", set())):
        p = settings(model=model, epochs=1, embedding_size=6)
        metrics = training.train_aligner(p, splits, "classes", 2, tmp_path / model).evaluations["test"].metrics
        assert {name for name in metrics if name.startswith(("grouped", "segments"))} == wanted, model
