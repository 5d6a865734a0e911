"""Metrics on examples small enough to count by hand."""

import itertools
import math
import re

import pytest
import torch

from rationale import metrics
from rationale.metrics import agreement, calibration_error, confusion, rationale_scores, selected_by_label


def flags(text: str) -> torch.Tensor:
    return torch.tensor([letter == "1" for letter in text])


def test_precision_recall_and_f1_of_a_hand_made_example():
    scores = rationale_scores(
        selected=[flags("1100"), flags("00000"), flags("111111"), flags("11")],
        gold=[flags("1000"), flags("01100"), flags("111000"), flags("00")],  # the last has no gold and is left out
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


def test_the_scores_of_many_texts_are_those_of_sets_of_positions():
    generator = torch.Generator().manual_seed(3)
    selected, gold = ([torch.rand(i % 9, generator=generator) < rate for i in range(200)] for rate in (0.5, 0.2))
    sets = [[set(flag.nonzero().flatten().tolist()) for flag in part] for part in (selected, gold)]
    pairs = [(chosen, wanted) for chosen, wanted in zip(*sets, strict=True) if wanted]
    both, mine, wanted = (sum(map(len, part)) for part in zip(*((a & b, a, b) for a, b in pairs), strict=True))
    scores = rationale_scores(selected, gold)
    assert scores["precision"] == pytest.approx(both / mine) and scores["recall"] == pytest.approx(both / wanted)
    assert scores["recall_macro"] == pytest.approx(sum(len(a & b) / len(b) for a, b in pairs) / len(pairs))
    nonempty = [(a, b) for a, b in pairs if a]
    assert scores["precision_macro"] == pytest.approx(sum(len(a & b) / len(a) for a, b in nonempty) / len(nonempty))
    f1 = [2 * len(a & b) / (len(a) + len(b)) for a, b in pairs]
    assert scores["f1"] == pytest.approx(2 * both / (mine + wanted))
    assert scores["f1_macro"] == pytest.approx(sum(f1) / len(pairs))


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


# --- calibration


def test_the_calibration_error_of_a_hand_made_example():
    probabilities = torch.tensor([[0.95, 0.05], [0.85, 0.15], [0.35, 0.65], [0.45, 0.55]])
    target = torch.tensor([0, 1, 1, 0])
    # two bins: (0, 1/2] is empty; (1/2, 1] holds all, confidence .75, accuracy 2/4
    assert calibration_error(probabilities, target, num_bins=2) == pytest.approx(0.75 - 0.5)
    # ten bins: .95 is right, .85 wrong, .65 right and .55 wrong, each in a bin of its own
    assert calibration_error(probabilities, target, num_bins=10) == pytest.approx((0.05 + 0.85 + 0.35 + 0.55) / 4)


def test_gaps_of_one_bin_cancel_and_those_of_two_bins_do_not():
    probabilities, target = torch.tensor([[0.72, 0.28], [0.74, 0.26]]), torch.tensor([0, 1])
    assert calibration_error(probabilities, target, num_bins=4) == pytest.approx(0.73 - 0.5)
    assert calibration_error(probabilities, target, num_bins=50) == pytest.approx((0.28 + 0.74) / 2)


def test_a_confidence_of_75_per_cent_that_is_right_three_times_out_of_four_is_calibrated():
    probabilities = torch.tensor([[0.75, 0.25], [0.25, 0.75], [1.0, 0.0]]).repeat_interleave(4, 0)
    target = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    assert calibration_error(probabilities, target) == 0
    assert calibration_error(probabilities, 1 - target) == pytest.approx((0.5 * 8 + 1.0 * 4) / 12)


@pytest.mark.parametrize("num_bins", [1, 2, 7, 15])
@pytest.mark.parametrize("num_classes", [2, 5])
def test_the_calibration_error_is_the_plain_loop(num_bins, num_classes):
    torch.manual_seed(0)
    probabilities = (2 * torch.randn(300, num_classes, dtype=torch.float64)).softmax(1)
    probabilities[:num_bins] = 0.0  # confidences at the upper ends of the bins, including 1
    for b in range(num_bins):
        probabilities[b, 0] = (b + 1) / num_bins
    target = torch.randint(0, num_classes, (300,))
    bins: dict[int, list[tuple[float, bool]]] = {}
    for row, label in zip(probabilities.tolist(), target.tolist(), strict=True):
        confidence = max(row)
        bins.setdefault(math.ceil(confidence * num_bins), []).append((confidence, row.index(confidence) == label))
    expected = 0.0
    for members in bins.values():
        accuracy, confidence = sum(right for _, right in members), sum(confidence for confidence, _ in members)
        expected += abs(accuracy - confidence) / 300
    assert calibration_error(probabilities, target, num_bins) == pytest.approx(expected)


def test_the_calibration_error_is_a_plain_number_between_0_and_1():
    wrong = calibration_error(torch.tensor([[1.0, 0.0]] * 3), torch.tensor([1, 1, 1]))
    assert type(wrong) is float and wrong == 1


# --- agreement of two selections


def test_the_agreement_of_a_hand_made_example():
    a, b = [flags("1100"), flags("011")], [flags("1010"), flags("001")]
    assert agreement(a, b) == pytest.approx(2 * 2 / (4 + 3)), "two common words; four and three selected"
    assert agreement(a, b) == agreement(b, a), "symmetric"


def test_selections_agree_with_themselves_and_not_with_their_complement():
    chosen = [flags("1100"), flags("011"), flags("0")]
    assert agreement(chosen, chosen) == 1
    assert agreement(chosen, [~part for part in chosen]) == 0


def test_two_empty_selections_agree_and_one_empty_one_does_not():
    nothing, something = [flags("00"), flags("000")], [flags("01"), flags("000")]
    assert agreement(nothing, nothing) == 1.0
    assert agreement(nothing, something) == agreement(something, nothing) == 0.0


def test_agreement_is_the_f1_of_one_selection_against_the_other():
    torch.manual_seed(0)
    a, b = ([torch.rand(n) < rate for n in (4, 9, 30)] for rate in (0.4, 0.6))
    assert agreement(a, b) == pytest.approx(rationale_scores(a, b)["f1"])


def test_independent_selections_agree_by_chance():
    torch.manual_seed(0)
    a, b = ([torch.rand(100_000) < rate] for rate in (0.2, 0.6))
    assert agreement(a, b) == pytest.approx(2 * 0.2 * 0.6 / (0.2 + 0.6), abs=0.01), "100,000 words"


def test_the_mean_agreement_of_independent_selections_of_few_words_is_not_that_of_many():
    every = [flags(f"{number:03b}") for number in range(8)]
    prob = [0.2 ** int(a.sum()) * 0.8 ** int(3 - a.sum()) for a in every]
    mean = sum(p * q * agreement([a], [b]) for a, p in zip(every, prob) for b, q in zip(every, prob))  # noqa: B905
    assert mean == pytest.approx(0.355, abs=1e-3), "3 words at a rate of 0.2; many words: 0.2"


# --- selections that do not depend on the words, and spans


def test_blind_precision_is_the_mean_over_all_places_counted_by_hand():
    gold = [torch.tensor(f, dtype=torch.bool) for f in ([1, 1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0])]
    precision = metrics.blind_precision(gold, budget=0.4)  # of 5 words 2, of 4 words 2; the third text has no gold
    spans = [(2 + 1 + 0 + 0) / 4, (0 + 0 + 1) / 3]  # mean number of gold words in a span of two
    assert precision["random_words"] == pytest.approx((2 * 2 / 5 + 2 * 1 / 4) / 4)
    assert precision["random_span"] == pytest.approx(sum(spans) / 4)
    assert precision["first_words"] == 2 / 4 and precision["last_words"] == 1 / 4


def test_blind_precision_of_everything_is_the_share_of_gold_words():
    gold = [torch.rand(n) < 0.3 for n in (7, 1, 30)] + [torch.ones(2, dtype=torch.bool)]
    annotated = torch.cat([flags for flags in gold if flags.any()])
    for value in metrics.blind_precision(gold, budget=1.0).values():
        assert value == pytest.approx(annotated.double().mean().item())


def test_blind_precision_of_no_gold_is_nothing():
    assert metrics.blind_precision([torch.zeros(4, dtype=torch.bool)], 0.5) == {}


def test_spans_are_maximal_and_end_with_their_text():
    selected = [torch.tensor(f, dtype=torch.bool) for f in ([1, 1, 0, 1], [1], [0, 0], [0, 1, 1, 1])]
    assert metrics.span_lengths(selected).tolist() == [2, 1, 1, 3]
    assert metrics.span_lengths([torch.zeros(3, dtype=torch.bool)]).tolist() == metrics.span_lengths([]).tolist() == []


def test_bleu_and_rouge_are_those_of_their_packages():
    pytest.importorskip("sacrebleu")
    perfect = metrics.bleu(["a dog runs in the park"], [["a dog runs in the park"]])
    assert perfect == pytest.approx({"bleu": 100.0, "length_ratio": 1.0})
    assert metrics.bleu(["a cat"], [["a dog runs in the park"]])["bleu"] < 30
    pytest.importorskip("rouge_score")
    scores = metrics.rouge(["meeting today"], [["budget", "meeting tomorrow"]])
    assert scores["rouge1"] == pytest.approx(50.0) and scores["rouge2"] == 0, "the best of several references counts"
    assert scores == metrics.rouge(["meeting today"], [["meeting tomorrow", "budget"]])
    long = "budget meeting " + "x" * 70 + " tomorrow"
    recall = metrics.rouge_of_75_bytes([long], [["budget meeting tomorrow"]])
    assert recall["rouge1"] == pytest.approx(200 / 3), "recall, and the last word is beyond 75 bytes"


# --- the measures of ERASER --------------------------------------------------------------------------------------


def test_span_f1_counts_the_spans_that_overlap_by_half():
    # spans of text 1: [0, 2) overlaps [0, 3) by 2/3; [5, 6) overlaps [5, 8) by 1/3; [9, 10) is the gold span
    # spans of text 2: none selected, one gold
    selected, gold = [flags("1100010001"), flags("000")], [flags("1110011101"), flags("010")]
    scores = metrics.span_iou_f1(selected, gold)
    assert (scores["span_precision"], scores["span_recall"]) == (2 / 3, 2 / 4)
    assert scores["span_f1"] == pytest.approx(2 * 2 / (3 + 4))
    assert scores["span_f1_macro"] == pytest.approx((2 / 3 + 0) / 2)
    assert metrics.span_iou_f1(selected, gold, threshold=0.3)["span_precision"] == 1
    assert metrics.span_iou_f1(selected, gold, threshold=0.7)["span_precision"] == 1 / 3
    assert metrics.span_iou_f1(gold, gold)["span_f1"] == 1
    with pytest.raises(ValueError, match="threshold: got 0"):
        metrics.span_iou_f1(selected, gold, threshold=0)


def test_span_matches_are_those_of_a_plain_loop_over_sets():
    generator = torch.Generator().manual_seed(0)
    for number in range(200):
        threshold, rates = (0.1, 0.5, 0.6, 1.0)[number % 4], (0.2, 0.5, 0.9)
        length = (12, 60)[number % 2]
        one, other = (torch.rand(length, generator=generator) < rates[number % size] for size in (2, 3))
        other[number % 12] = True

        def spans(chosen):
            text = "".join("1" if flag else " " for flag in chosen.tolist())
            return [set(range(match.start(), match.end())) for match in re.finditer("1+", text)]

        matched = sum(any(len(a & b) / len(a | b) >= threshold for b in spans(other)) for a in spans(one))
        expected = matched / max(1, len(spans(one)))
        assert metrics.span_iou_f1([one], [other], threshold)["span_precision"] == pytest.approx(expected)


def all_pairs_of_spans(longest: int):
    """Every pair of a selection and a gold rationale with a gold token, with their spans as sets of positions."""
    for length in range(1, longest + 1):
        every = [tuple(bits) for bits in itertools.product((False, True), repeat=length)]
        spans = {}
        for bits in every:
            groups = itertools.groupby(range(length), key=bits.__getitem__)
            spans[bits] = [set(positions) for chosen, positions in groups if chosen]
        for one, other in itertools.product(every, every):
            if any(other):
                yield torch.tensor(one), torch.tensor(other), spans[one], spans[other]


def by_hand(ours: list[set], theirs: list[set], threshold: float) -> tuple[int, int]:
    """The numbers of matched selected spans and of matched gold spans."""
    match = [[len(a & b) >= threshold * len(a | b) for b in theirs] for a in ours]
    return sum(map(any, match)), sum(map(any, zip(*match, strict=True)))


@pytest.mark.parametrize("threshold", [0.25, 0.3, 0.5, 0.75])
def test_span_f1_is_the_harmonic_mean_of_precision_and_recall(threshold):
    for selected, gold, ours, theirs in all_pairs_of_spans(6):
        scores = metrics.span_iou_f1([selected], [gold], threshold)
        hits, found = by_hand(ours, theirs, threshold)
        precision, recall = hits / max(1, len(ours)), found / len(theirs)
        f1 = 2 * precision * recall / (precision + recall) if hits else 0
        expected = {"span_precision": precision, "span_recall": recall, "span_f1": f1, "span_f1_macro": f1}
        assert scores == pytest.approx(expected), f"{selected} and {gold}"


def test_from_a_half_on_a_span_is_matched_once_and_f1_counts_spans_as_the_authors_do():
    for selected, gold, ours, theirs in all_pairs_of_spans(7):
        hits, found = by_hand(ours, theirs, 0.5)
        assert hits == found, "no two selected spans match one gold span"
        if len(selected) == 7 and hits:
            scores = metrics.span_iou_f1([selected], [gold])
            assert scores["span_recall"] == hits / len(theirs)  # exactly
            assert scores["span_f1"] == scores["span_f1_macro"] == 2 * hits / (len(ours) + len(theirs))


def test_two_halves_of_a_gold_span_are_two_hits_and_one_find_below_a_half():
    scores = metrics.span_iou_f1([flags("1101101")], [flags("1111100")], threshold=0.3)
    assert (scores["span_precision"], scores["span_recall"]) == (2 / 3, 1)
    assert scores["span_f1"] == pytest.approx(0.8)


def test_only_spans_that_overlap_are_compared(monkeypatch):
    compare, compared = metrics._span_iou, []
    monkeypatch.setattr(metrics, "_span_iou", lambda *spans: compared.append(spans) or compare(*spans))
    selected, gold = (torch.rand(400, generator=torch.Generator().manual_seed(seed)) < 0.5 for seed in (1, 2))
    metrics.span_iou_f1([selected], [gold], threshold=0.9)
    assert all(one[0] < other[1] and other[0] < one[1] for one, other in compared)


def test_the_areas_are_those_of_scikit_learn_also_with_ties():
    sklearn = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(0)
    scores = [torch.randint(0, 6, (30,), generator=generator) / 5 for _ in range(20)] + [torch.rand(9), torch.ones(4)]
    gold = [torch.rand(len(values), generator=generator) < 0.3 for values in scores]
    for flag in gold:
        flag[0] = True
    areas = []
    for values, flag in zip(scores, gold, strict=True):
        precision, recall, _ = sklearn.precision_recall_curve(flag.numpy(), values.numpy())
        areas.append((sklearn.auc(recall, precision), sklearn.average_precision_score(flag.numpy(), values.numpy())))
    expected = torch.tensor(areas, dtype=torch.float64).mean(0).tolist()
    actual = metrics.auprc(scores, gold)
    assert list(actual.values()) == pytest.approx(expected, rel=1e-12), f"{actual}, scikit-learn {expected}"


@pytest.mark.parametrize("infinite, finite", [
    ([1.0, -math.inf, -math.inf], [1.0, -9.0, -9.0]),
    ([math.inf, math.inf, 0.0], [9.0, 9.0, 0.0]),
])  # fmt: skip
@pytest.mark.parametrize("gold", ["100", "010", "001", "011"])
def test_infinite_scores_that_are_equal_share_a_rank(infinite, finite, gold):
    actual, expected = (metrics.auprc([torch.tensor(values)], [flags(gold)]) for values in (infinite, finite))
    assert actual == expected


# --- inputs from which nothing can be measured -------------------------------------------------------------------

NO_CLASS = torch.zeros(0, dtype=torch.long)


@pytest.mark.parametrize("measure, message", [
    (lambda: metrics.agreement([flags("1")], [flags("10")]), "lengths differ"),
    (lambda: metrics.confusion(torch.tensor([0, 3]), torch.tensor([0, 1]), 3), "predicted: got classes from 0 to 3"),
    (lambda: metrics.confusion(torch.tensor([0, 1]), torch.tensor([-1, 1]), 3), "target: got classes from -1 to 1"),
    (lambda: metrics.bleu([], []), "got 0 generated texts"),
    (lambda: metrics.rouge(["a"], []), "1 generated texts for 0 lists"),
    (lambda: metrics.calibration_error(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), "no predictions"),
    (lambda: metrics.auprc([torch.tensor([math.nan])], [flags("1")]), "text 0: a score is not a number"),
    (lambda: metrics.bleu(["a", "b"], [["a"], []]), "text 1: got no reference, accepted is a list of 1 or more"),
    (lambda: metrics.rouge(["a"], [[]]), "text 0: got no reference, accepted is a list of 1 or more"),
    (lambda: metrics.rouge_of_75_bytes(["a"], ["abc"]), "text 0: got a text as references, accepted is a list"),
    (lambda: metrics.class_scores(torch.tensor([0, 1]), torch.tensor([0])), "2 predictions for 1 targets"),
    (lambda: metrics.class_scores(NO_CLASS, NO_CLASS), "class_scores: got no predictions, accepted is 1 or more"),
    (lambda: metrics.balanced_accuracy(torch.ones(2), torch.tensor([0])), "2 predictions for 1 targets"),
    (lambda: metrics.balanced_accuracy(torch.ones(3, 2), torch.ones(3).long()),
     r"balanced_accuracy: got shapes \(3, 2\) and \(3,\), accepted are \[N\] and \[N\]"),
    (lambda: metrics.class_scores(torch.ones(3, 2).long(), torch.ones(3).long()), r"class_scores: got shapes \(3, 2\)"),
    (lambda: metrics.class_scores(torch.tensor(1), torch.tensor(1)), r"class_scores: got shapes \(\) and \(\)"),
    (lambda: metrics.calibration_error(torch.ones(3), torch.ones(3).long()),
     r"calibration_error: got shapes \(3,\) and \(3,\), accepted are \[N, C\] and \[N\]"),
    (lambda: metrics.calibration_error(torch.ones(1, 2), torch.tensor([0]), num_bins=0),
     "num_bins: got 0, accepted is 1 or more"),
    (lambda: metrics.balanced_accuracy(torch.ones(0), NO_CLASS), "balanced_accuracy: got no predictions"),
    (lambda: metrics.calibration_error(torch.ones(2, 1), torch.tensor([0])), "2 predictions for 1 targets"),
    (lambda: metrics.calibration_error(torch.zeros(1, 2), NO_CLASS), "1 predictions for 0 targets"),
    (lambda: metrics.blind_precision([flags("10")], 2), r"budget: got 2, accepted are numbers in \(0, 1\]"),
    (lambda: metrics.blind_precision([flags("10")], 0.0), "budget: got 0.0"),
    (lambda: metrics.blind_precision([], math.nan), "budget: got nan"),
    (lambda: metrics.selected_by_label([torch.tensor([1])], []), "0 selections for 1 lists of word labels"),
    (lambda: metrics.selected_by_label([torch.tensor([1])], [flags("10")]), "text 0: 2 gates for 1 word labels"),
    (lambda: metrics.selected_by_label([torch.tensor([5])], [flags("1")]), "word_labels: got labels from 5 to 5"),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused_in_a_sentence(measure, message):
    with pytest.raises(ValueError, match=message):
        measure()


def test_no_texts_agree():
    assert metrics.agreement([], []) == 1.0


def test_no_texts_have_no_word_of_any_label():
    assert metrics.selected_by_label([], [], num_labels=3).tolist() == [0, 0, 0]
