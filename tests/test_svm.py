"""The linear baseline: what it weighs, what it selects, and that it learns what it can."""

import pytest
import torch
from small import classified, corpus, parameters

from rationale.data import Example
from rationale.data.corpora.synthetic import read_synthetic
from rationale.errors import BadInput
from rationale.runs import saved
from rationale.training import features, train_svm, word_scores

pytest.importorskip("sklearn")


def test_features_are_the_words_and_the_pairs_of_neighbours():
    assert list(features(["not", "so", "good"])) == ["not", "so", "good", "not\tso", "so\tgood"]
    assert list(features(["one"])) == ["one"]


def test_a_word_counts_its_own_weight_and_half_of_each_pair_it_stands_in():
    weight_of = {"not": 1.0, "good": 2.0, "not\tso": -4.0, "so\tgood": 6.0}
    scores = word_scores(["not", "so", "good"], weight_of, signed=True)
    assert scores.tolist() == [1 - 2, 0 - 2 + 3, 2 + 3]
    assert word_scores(["not", "so", "good"], weight_of, signed=False).tolist() == [1 + 2, 2 + 3, 2 + 3]
    assert word_scores(["new"], weight_of, signed=True).tolist() == [0]


@pytest.mark.parametrize(("number", "head"), [(1, "scores"), (1, "classes"), (2, "classes")])
def test_too_few_reviews_are_refused(number, head):
    splits = {name: part[:number] for name, part in classified(corpus()).items()}
    splits["train"] = [splits["train"][0]] * number  # of one class
    with pytest.raises(BadInput, match=f"num_train: {number} reviews .* 1 different labels; accepted .* at least 2"):
        train_svm(parameters(budget=0.2), splits, head, 2)


@pytest.mark.parametrize("head", ["scores", "classes"])
def test_it_learns_reviews_and_selects_its_budget(head, tmp_path):
    splits = read_synthetic(num_train=600, num_dev=60, num_test=60)
    splits = classified(splits) if head == "classes" else splits
    p = parameters(budget=0.2)
    result = train_svm(p, splits, head, 2 if head == "classes" else 1)
    test = result.evaluations["test"]
    if head == "classes":
        assert test.metrics["accuracy"] > 0.55
    else:
        targets = torch.tensor([e.label for e in splits["test"]])
        assert test.metrics["mse"] < 0.95 * targets.var().item(), "better than the mean"
        assert test.prediction.min() >= 0 and test.prediction.max() <= 1
    for z in test.z:
        assert z.sum() == max(1, round(0.2 * len(z)))
    gold_rate = torch.cat([torch.tensor(e.rationale) for e in splits["test"]]).double().mean()
    assert test.metrics["precision"] > gold_rate, "its words are better than random ones"
    found = saved.save_run(tmp_path, result, p)
    assert found["test"] == test.metrics and len(saved.read_rationales(tmp_path, "test")) == 60


def test_the_same_seed_gives_the_same_machine():
    first, second = (train_svm(parameters(budget=0.5), corpus(), "scores", 1) for _ in range(2))
    assert first.evaluations["test"].metrics == second.evaluations["test"].metrics


def test_a_word_counts_for_its_class_also_where_the_classes_of_train_are_not_the_first_ones():
    words = {1: "dull", 3: "fine", 4: "superb"}  # of five classes
    texts = [Example(("a", words[label], "film"), label) for label in words for _ in range(4)]
    result = train_svm(parameters(budget=0.3), dict.fromkeys(("train", "dev", "test"), texts), "classes", 5)
    for example, z in zip(texts, result.evaluations["test"].z, strict=True):
        assert [word for word, gate in zip(example.tokens, z, strict=True) if gate] == [words[example.label]]
