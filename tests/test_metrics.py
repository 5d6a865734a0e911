"""Metrics on examples small enough to count by hand."""

import pytest
import torch

from rationale.metrics import confusion, rationale_scores, selected_by_label


def flags(text: str) -> torch.Tensor:
    return torch.tensor([letter == "1" for letter in text])


def test_precision_recall_and_f1_of_a_hand_made_example():
    scores = rationale_scores(
        selected=[flags("1100"), flags("00000"), flags("111111"), flags("11")],
        gold=[flags("1000"), flags("01100"), flags("111000"), flags("00")],  # the last has no gold: left out
    )
    # matched 1, 0, 3; selected 2, 0, 6; gold 1, 2, 3
    assert scores["precision"] == pytest.approx(4 / 8), "micro: over words"
    assert scores["recall"] == pytest.approx(4 / 6)
    assert scores["f1"] == pytest.approx(2 * 4 / (8 + 6))
    assert scores["precision_macro"] == pytest.approx((1 / 2 + 3 / 6) / 2), "over the texts with a selected word"
    assert scores["recall_macro"] == pytest.approx((1 + 0 + 1) / 3), "an empty selection recalls nothing"
    assert scores["f1_macro"] == pytest.approx((2 / 3 + 0 + 6 / 9) / 3)
    assert all(type(value) is float for value in scores.values()), "plain numbers, for JSON"


def test_micro_and_macro_differ_where_lengths_do():
    scores = rationale_scores([flags("1"), flags("1111")], [flags("1"), flags("1000")])
    assert (scores["precision"], scores["precision_macro"]) == pytest.approx((2 / 5, (1 + 1 / 4) / 2))


def test_a_perfect_selection_scores_one_and_a_complement_zero():
    gold = [flags("0110"), flags("1")]
    assert set(rationale_scores(gold, gold).values()) == {1.0}
    wrong = rationale_scores([~flag for flag in gold], gold)
    assert wrong["precision"] == wrong["recall"] == wrong["f1"] == 0.0


def test_nothing_selected_anywhere_scores_zero_without_dividing_by_zero():
    scores = rationale_scores([flags("000"), flags("00")], [flags("010"), flags("11")])
    assert len(scores) == 6 and set(scores.values()) == {0.0}


def test_without_any_gold_there_are_no_scores():
    assert rationale_scores([flags("101")], [flags("000")]) == {}
    assert rationale_scores([], []) == {}


def test_lists_or_texts_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="1 selections for 2 gold rationales"):
        rationale_scores([flags("1")], [flags("1"), flags("0")])
    with pytest.raises(ValueError, match="text 1: 3 gates for 2 gold flags"):
        rationale_scores([flags("1"), flags("101")], [flags("1"), flags("10")])


def test_selected_words_are_counted_by_their_label():
    labels = [torch.tensor([2, 2, 4]), torch.tensor([0, 2])]
    selected = [flags("101"), flags("01")]
    assert selected_by_label(labels, selected).tolist() == [0, 0, 2, 0, 1]
    everything = [torch.ones_like(flag) for flag in selected]
    assert selected_by_label(labels, everything).tolist() == [1, 0, 3, 0, 1]
    assert selected_by_label(labels, [~flag for flag in everything], num_labels=5).tolist() == [0] * 5


def test_confusion_has_targets_in_rows_and_predictions_in_columns():
    predicted, target = torch.tensor([0, 2, 2, 1, 2]), torch.tensor([0, 1, 1, 1, 2])
    matrix = confusion(predicted, target, 3)
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 2], [0, 0, 1]]
    assert matrix.sum() == 5 and matrix.diag().sum() == (predicted == target).sum()


def test_confusion_keeps_classes_that_never_occur():
    assert confusion(torch.tensor([0]), torch.tensor([0]), 5).shape == (5, 5)
