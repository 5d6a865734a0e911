"""Metrics of selections (against gold rationales, word labels and each other), of predictions and of generated texts.

All functions take the values of a batch or of a whole split. A *micro* score is computed from counts over all words, a
*macro* score is an average over texts. The file is long because it is a list: no measure depends on another.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import torch
from torch import Tensor

from rationale.errors import optional


def balanced_accuracy(right: Tensor, target: Tensor) -> float:
    """The mean over the classes of their accuracy, in which rare classes count as much as frequent ones.

        (1 / C) sum_c (1 / N_c) sum_{i: y_i = c} right_i

    Parameters
    ----------
    right : [N]
        1 where the answer is right, else 0.
    target : long [N]
        Classes. One that does not occur is left out.

    Returns
    -------
    float in [0, 1]
        Its standard error is given by `training.evaluation.width_of`.

    Raises
    ------
    ValueError
        If there is no answer, or if the shapes differ.

    Examples
    --------
    >>> round(balanced_accuracy(torch.tensor([1, 1, 1, 0, 1, 0]), torch.tensor([0, 0, 0, 0, 1, 1])), 3)
    0.625
    """
    _require_predictions("balanced_accuracy", right, target)
    of_class = [right[target == label].double().mean() for label in target.unique()]
    return torch.stack(of_class).mean().item()


def _require_predictions(measure: str, predicted: Tensor, target: Tensor, sizes: str = "[N]") -> None:
    """Refuse predictions of other sizes or another number than the targets, and none at all."""
    if target.ndim != 1 or predicted.ndim != len(sizes.split()):
        shapes = f"{tuple(predicted.shape)} and {tuple(target.shape)}"
        raise ValueError(f"{measure}: got shapes {shapes}, accepted are {sizes} and [N]")
    if len(predicted) != len(target):
        raise ValueError(f"{len(predicted)} predictions for {len(target)} targets")
    if not len(target):
        raise ValueError(f"{measure}: got no predictions, accepted is 1 or more")


def rationale_scores(selected: Sequence[Tensor], gold: Sequence[Tensor]) -> dict[str, float]:
    """Precision, recall and F1 of selected tokens against gold rationales, micro and macro.

        micro precision = sum_i |selected_i and gold_i| / sum_i |selected_i|

    Source: Table 2 of Bastings et al. 2019: "percentage of words with z != 0 that are in the annotation".
    Texts without a gold token are left out. An empty selection does not change the micro precision and lowers the micro
    recall; it is left out of the macro precision, and it counts as 0 in the macro recall and F1.

    Parameters
    ----------
    selected, gold : list of bool [T_i]
        One pair of tensors of equal length per text.

    Returns
    -------
    dict
        precision, recall, f1 (micro), precision_macro, recall_macro, f1_macro, all in [0, 1]. If nothing is selected in
        any text, the precision is 0. If no text has a gold token, the dict is empty.

    Raises
    ------
    ValueError
        If the lists or a pair of tensors differ in length.

    Examples
    --------
    >>> selected = [torch.tensor([True, True, False]), torch.tensor([True, False])]
    >>> gold = [torch.tensor([True, False, False]), torch.tensor([True, True])]
    >>> scores = rationale_scores(selected, gold)
    >>> {name: round(score, 3) for name, score in scores.items()}
    {'precision': 0.667, 'recall': 0.667, 'f1': 0.667, 'precision_macro': 0.75, 'recall_macro': 0.75, 'f1_macro': 0.667}
    """
    _require_pairs(selected, gold)
    if not selected:
        return {}
    chosen, annotated = torch.cat(list(selected)), torch.cat(list(gold))
    lengths = torch.tensor([len(flags) for flags in gold], device=annotated.device)
    text = torch.arange(len(gold), device=annotated.device).repeat_interleave(lengths)  # of each token
    counts = [text.bincount(flags, len(gold)) for flags in (chosen & annotated, chosen, annotated)]
    num_matched, num_selected, num_gold = torch.stack(counts)[:, counts[2] > 0].double()
    if not len(num_gold):
        return {}
    micro = _precision_recall_f1(num_matched.sum(), num_selected.sum(), num_gold.sum())
    precision, recall, f1 = _precision_recall_f1(num_matched, num_selected, num_gold)
    nonempty = num_selected > 0
    macro = (precision[nonempty].mean() if nonempty.any() else torch.tensor(0.0), recall.mean(), f1.mean())
    names = ("precision", "recall", "f1")
    scores = {name: float(value) for name, value in zip(names, micro, strict=True)}
    return scores | {f"{name}_macro": float(value) for name, value in zip(names, macro, strict=True)}


def _require_pairs(
    selected: Sequence[Tensor], gold: Sequence[Tensor], lists: str = "gold rationales", items: str = "gold flags"
) -> None:
    """Refuse lists, or the tensors of a text, that differ in length."""
    if len(selected) != len(gold):
        raise ValueError(f"{len(selected)} selections for {len(gold)} {lists}")
    for i, (chosen, annotated) in enumerate(zip(selected, gold, strict=True)):
        if chosen.shape != annotated.shape:
            raise ValueError(f"text {i}: {len(chosen)} gates for {len(annotated)} {items}")


def span_iou_f1(selected: Sequence[Tensor], gold: Sequence[Tensor], threshold: float = 0.5) -> dict[str, float]:
    """F1 of selected spans, where a span counts as matched if its IOU with some span of the other kind is large enough.

        precision = matched selected spans / selected spans     recall = matched gold spans / gold spans
        F1        = 2 precision recall / (precision + recall)

    A span is a maximal sequence of consecutive tokens, and it is matched if its IOU with a gold span (a gold span: with
    a selected span) is at least `threshold`. Source: DeYoung et al. 2020 (ERASER), sec. 4.1, "IOU F1", with a threshold
    of 1/2. From 1/2 on, a span is matched with at most one other: two selected spans are at least a word apart, so they
    cannot each cover half of a gold span, which holds this word, too. The numbers of matched spans of both kinds are
    then equal, and the authors' code, which counts selected spans in both ratios, gives the same scores. Below 1/2,
    several selected spans can match one gold span, and the recall of the authors' code can exceed 1.

    Their macro F1 is that of the mean precision and the mean recall over texts; ours is the mean F1 over texts.

    Parameters
    ----------
    selected, gold : list of bool [T_i]
        Texts without a gold token are left out.
    threshold : float, in (0, 1]

    Returns
    -------
    dict
        span_precision, span_recall, span_f1 (over all spans), span_f1_macro (mean over texts), in [0, 1]. The dict is
        empty if no text has a gold token.

    Raises
    ------
    ValueError
        If the lists or a pair of tensors differ in length, or if the threshold is outside its range.

    Examples
    --------
    >>> scores = span_iou_f1([torch.tensor([1, 1, 0, 1]).bool()], [torch.tensor([0, 1, 0, 0]).bool()])
    >>> scores["span_precision"], scores["span_recall"]  # one of two spans overlaps the gold span by 1/2
    (0.5, 1.0)
    """
    _require_pairs(selected, gold)
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold: got {threshold}, accepted are numbers in (0, 1]")
    rows = []
    for chosen, annotated in zip(selected, gold, strict=True):
        if annotated.any():
            ours, theirs = _spans(chosen).tolist(), _spans(annotated).tolist()
            matched = _num_matched(ours, theirs, threshold), _num_matched(theirs, ours, threshold)
            rows.append((*matched, len(ours), len(theirs)))
    if not rows:
        return {}
    counts = torch.tensor(rows, dtype=torch.float64).T
    names = ("span_precision", "span_recall", "span_f1")
    scores = {name: float(value) for name, value in zip(names, _span_scores(*counts.sum(1)), strict=True)}
    return scores | {"span_f1_macro": float(_span_scores(*counts)[2].mean())}


def _span_scores(hits: Tensor, found: Tensor, num_selected: Tensor, num_gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Precision, recall and F1 of `hits` matched selected spans and `found` matched gold spans; some span is gold."""
    both = hits * num_gold + found * num_selected  # 0 only if nothing is matched
    return hits / num_selected.clamp(min=1), found / num_gold, 2 * hits * found / both.clamp(min=1)


def _spans(flags: Tensor) -> Tensor:
    """Start and end of each maximal sequence of True, [start, end): long [number of spans, 2]."""
    return torch.cat([flags.new_zeros(1), flags, flags.new_zeros(1)]).long().diff().nonzero().view(-1, 2)


def _num_matched(spans: list[list[int]], gold: list[list[int]], threshold: float) -> int:
    """How many spans match one of the gold spans; as both are in order, only those that overlap are compared."""
    if not gold:
        return 0
    starts, ends = zip(*gold, strict=True)
    overlapping = ((span, gold[bisect_right(ends, span[0]) : bisect_left(starts, span[1])]) for span in spans)
    return sum(any(_span_iou(span, other) >= threshold for other in others) for span, others in overlapping)


def _span_iou(one: list[int], other: list[int]) -> float:
    both = max(0, min(one[1], other[1]) - max(one[0], other[0]))
    return both / (one[1] - one[0] + other[1] - other[0] - both)


def auprc(scores: Sequence[Tensor], gold: Sequence[Tensor]) -> dict[str, float]:
    """Area under the precision-recall curve of the tokens of a text, ranked by their scores; the mean over texts.

        auprc             = sum_k (R_k - R_{k-1}) (P_k + P_{k-1}) / 2       by trapezoids, as in ERASER
        average_precision = sum_k (R_k - R_{k-1}) P_k                       without interpolation

    k runs over the distinct scores from the largest, with P_0 = 1 and R_0 = 0. Source: DeYoung et al. 2020 (ERASER),
    sec. 4.1, for soft selections. Texts without a gold token are left out.

    Parameters
    ----------
    scores : list of [T_i]
        Real numbers, e.g. P(Z != 0) of each token, or log P(Z != 0), which can be -inf.
    gold : list of bool [T_i]

    Returns
    -------
    dict
        auprc and average_precision, in [0, 1]. The dict is empty if no text has a gold token.

    Raises
    ------
    ValueError
        If the lists or a pair of tensors differ in length, or if a score is not a number.

    Examples
    --------
    >>> areas = auprc([torch.tensor([0.9, 0.8, 0.1])], [torch.tensor([True, False, True])])
    >>> {name: round(area, 4) for name, area in areas.items()}
    {'auprc': 0.7917, 'average_precision': 0.8333}
    """
    _require_pairs(scores, gold)
    areas = []
    for i, (values, flags) in enumerate(zip(scores, gold, strict=True)):
        if values.isnan().any():
            raise ValueError(f"text {i}: a score is not a number")
        if not flags.any():
            continue
        order = values.argsort(descending=True)
        ranked = values[order]
        last = torch.cat([ranked[1:] != ranked[:-1], flags.new_ones(1)])  # of the tokens with the same score
        matched = flags[order].double().cumsum(0)[last]
        chosen = last.nonzero().squeeze(1).double() + 1
        precision = torch.cat([matched.new_ones(1), matched / chosen])
        steps = torch.cat([matched.new_zeros(1), matched / matched[-1]]).diff()
        areas.append(((steps * (precision[1:] + precision[:-1]) / 2).sum(), (steps * precision[1:]).sum()))
    if not areas:
        return {}
    mean = torch.tensor(areas, dtype=torch.float64).mean(0)
    return dict(zip(("auprc", "average_precision"), mean.tolist(), strict=True))


def _precision_recall_f1(num_matched: Tensor, num_selected: Tensor, num_gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    precision = torch.where(num_selected > 0, num_matched / num_selected.clamp(min=1), 0.0)
    recall = num_matched / num_gold.clamp(min=1)
    return precision, recall, 2 * num_matched / (num_selected + num_gold).clamp(min=1)


def class_scores(predicted: Tensor, target: Tensor) -> dict[str, float]:
    """The accuracy, and macro_f1: the mean of 2 tp / (2 tp + fp + fn) over the classes that occur.

    Parameters
    ----------
    predicted, target : long [N], N >= 1

    Raises
    ------
    ValueError
        If there is no prediction, or if the shapes differ.
    """
    _require_predictions("class_scores", predicted, target)
    classes = torch.cat([predicted, target]).unique()
    is_predicted, is_target = (labels.unsqueeze(1) == classes for labels in (predicted, target))  # [N, C]
    f1 = 2 * (is_predicted & is_target).sum(0).double() / (is_predicted.sum(0) + is_target.sum(0))
    return {"accuracy": (predicted == target).double().mean().item(), "macro_f1": f1.mean().item()}


def num_within_budget(lengths: Tensor, budget: float) -> Tensor:
    """The number of words that a budget allows in each text, at least one; a half is rounded to the even number.

        k_i = max(1, round(budget T_i))

    The product is rounded in float64, on every device and for scores of every dtype. In float32, 0.15 of 190 words is
    a little more than the exact 28.5. Source: eq. (R9), notebooks/09_questions.py.

    Parameters
    ----------
    lengths : [...], of any dtype
        The number of words of each text.
    budget : float, in (0, 1]
        The share of words that may be selected.

    Returns
    -------
    long [...]

    Examples
    --------
    >>> num_within_budget(torch.tensor([1, 20, 190]), 0.15)
    tensor([ 1,  3, 28])
    """
    share = torch.tensor(budget, dtype=torch.float64)  # an exported graph rounds a plain number to float32
    return (lengths.double() * share).round().clamp(min=1).long()


def blind_precision(gold: Sequence[Tensor], budget: float) -> dict[str, float]:
    """Micro precision of selections of k_i = max(1, round(budget T_i)) words that do not depend on the words of text i.

    These are baselines with which to compare a precision. They are computed exactly, not by sampling. Texts without a
    gold token are left out, as in `rationale_scores`. k_i is that of `num_within_budget`.

    Parameters
    ----------
    gold : list of bool [T_i]
    budget : float, in (0, 1]
        The share of words that is selected.

    Returns
    -------
    dict
        random_words; random_span (k consecutive words, with all positions equally probable, so that words near the ends
        of a text are in fewer spans); first_words; last_words. The dict is empty if no text has a gold token.

    Raises
    ------
    ValueError
        If the budget is outside its range.

    Examples
    --------
    >>> gold = [torch.tensor([False, False, False, True, True])]
    >>> blind_precision(gold, budget=0.4)
    {'random_words': 0.4, 'random_span': 0.375, 'first_words': 0.0, 'last_words': 1.0}
    """
    if not 0 < budget <= 1:
        raise ValueError(f"budget: got {budget}, accepted are numbers in (0, 1]")
    num_matched, num_selected = torch.zeros(4, dtype=torch.float64), 0
    for flags in (flags.double() for flags in gold if flags.any()):
        k = int(num_within_budget(torch.tensor(len(flags)), budget))
        before = torch.cat([flags.new_zeros(1), flags.cumsum(0)])
        spans = before[k:] - before[:-k]  # number of gold tokens in the span that starts at each position
        num_matched += torch.stack([k * flags.mean(), spans.mean(), spans[0], spans[-1]])
        num_selected += k
    names = ("random_words", "random_span", "first_words", "last_words")
    return dict(zip(names, (num_matched / num_selected).tolist(), strict=True)) if num_selected else {}


def span_lengths(selected: list[Tensor]) -> Tensor:
    """Lengths of the spans (maximal sequences of consecutive words) that are selected, in order.

    Parameters
    ----------
    selected : list of bool [T_i]
        One tensor per text. A span does not continue in the next text.

    Returns
    -------
    long [number of spans]

    Examples
    --------
    >>> span_lengths([torch.tensor([True, True, False, True]), torch.tensor([True])])
    tensor([2, 1, 1])
    """
    lengths = [_spans(chosen).diff(dim=1).squeeze(1) for chosen in selected]
    return torch.cat(lengths) if lengths else torch.zeros(0, dtype=torch.long)


def selected_by_label(word_labels: list[Tensor], selected: list[Tensor], num_labels: int = 5) -> Tensor:
    """Number of selected words with each word label: long [num_labels].

    Source: Figure 5 of Bastings et al. 2019.

    Parameters
    ----------
    word_labels : list of long [T_i], in [0, num_labels)
    selected : list of bool [T_i]

    Raises
    ------
    ValueError
        If the lists or a pair of tensors differ in length, or if a label is outside its range.
    """
    _require_pairs(selected, word_labels, "lists of word labels", "word labels")
    if not selected:
        return torch.zeros(num_labels, dtype=torch.long)
    labels, chosen = torch.cat(word_labels), torch.cat(selected)
    _require_range("word_labels", "labels", labels, num_labels)
    return torch.bincount(labels[chosen], minlength=num_labels)


def _require_range(argument: str, what: str, numbers: Tensor, end: int) -> None:
    """Refuse whole numbers outside [0, end)."""
    if len(numbers) and not (0 <= numbers.min() and numbers.max() < end):
        seen = f"{numbers.min().item()} to {numbers.max().item()}"
        raise ValueError(f"{argument}: got {what} from {seen}, accepted are 0 to {end - 1}")


def confusion(predicted: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """Confusion matrix: counts [num_classes, num_classes], where rows are targets and columns are predictions.

    Raises
    ------
    ValueError
        If a class is not in [0, num_classes), or if the shapes differ.
    """
    if predicted.shape != target.shape:
        raise ValueError(f"{len(predicted)} predictions for {len(target)} targets")
    _require_range("predicted", "classes", predicted, num_classes)
    _require_range("target", "classes", target, num_classes)
    flat = torch.bincount(target * num_classes + predicted, minlength=num_classes**2)
    return flat.view(num_classes, num_classes)


def calibration_error(probabilities: Tensor, target: Tensor, num_bins: int = 15) -> float:
    """Expected calibration error: the mean difference between confidence and accuracy in bins of similar confidence.

        ECE = sum_b (n_b / N) |accuracy_b - confidence_b|

    Source: Guo et al. 2017, eq. (3); bins of equal width over (0, 1].

    Parameters
    ----------
    probabilities : [N, C]
        Predicted probabilities of the classes; each row sums to 1.
    target : long [N], N >= 1
    num_bins : int, 1 or more

    Returns
    -------
    float, in [0, 1]

    Raises
    ------
    ValueError
        If there is no prediction or no bin, or if the shapes differ.

    Examples
    --------
    >>> sure = torch.tensor([[0.9, 0.1]]).expand(10, 2)
    >>> round(calibration_error(sure, torch.tensor([0] * 7 + [1] * 3)), 3)  # the confidence is 90 %, the accuracy 70 %
    0.2
    """
    _require_predictions("calibration_error", probabilities, target, "[N, C]")
    if num_bins < 1:
        raise ValueError(f"num_bins: got {num_bins}, accepted is 1 or more")
    confidence, predicted = probabilities.double().max(1)
    bins = (confidence * num_bins).ceil().long().clamp(1, num_bins) - 1  # (0, 1 / num_bins] is bin 0
    differences = confidence - (predicted == target).double()
    sums = torch.zeros(num_bins, dtype=torch.float64).index_add_(0, bins.cpu(), differences.cpu())
    return sums.abs().sum().item() / len(target)


def agreement(selected: list[Tensor], other: list[Tensor]) -> float:
    """Token F1 between two selections of the same texts: 2 |A and B| / (|A| + |B|), over all words.

    The agreement is symmetric, and 1 if both selections are empty. For many words, two independent selections with the
    rates p and q have an agreement of about 2 p q / (p + q), because |A and B|, |A| and |B| are then near p q, p and q
    times the number of words. For few words the mean of this ratio differs: with 3 words and p = q = 0.2 it is 0.35,
    mostly because two empty selections agree.

    Parameters
    ----------
    selected, other : list of bool [T_i]

    Raises
    ------
    ValueError
        If the lists or a pair of tensors differ in length.

    Examples
    --------
    >>> agreement([torch.tensor([True, True, False])], [torch.tensor([False, True, True])])
    0.5
    """
    if [len(flags) for flags in selected] != [len(flags) for flags in other]:
        raise ValueError("agreement: the two selections are of different texts, because their lengths differ")
    if not selected:
        return 1.0
    a, b = torch.cat(selected), torch.cat(other)
    size = (a.sum() + b.sum()).item()
    return 2 * (a & b).sum().item() / size if size else 1.0


def bleu(generated: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Corpus BLEU, in [0, 100], and the ratio of the generated length to the reference length, by sacrebleu.

    Parameters
    ----------
    generated : [N] texts, with tokens separated by spaces
    references : [N] lists of texts
        The first text of each list is used.

    Raises
    ------
    ValueError
        If there is no text, if the lists differ in length, or if a text has no reference.
    """
    _require_texts(generated, references)
    sacrebleu = optional("sacrebleu.metrics", "BLEU", "generation")
    first = [texts[0] for texts in references]
    result = sacrebleu.BLEU(tokenize="none", force=True).corpus_score(list(generated), [first])
    return {"bleu": result.score, "length_ratio": result.sys_len / max(1, result.ref_len)}


def _require_texts(generated: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not generated or len(generated) != len(references):
        numbers = f"{len(generated)} generated texts for {len(references)} lists of references"
        raise ValueError(f"got {numbers}, accepted are as many lists as texts, 1 or more")
    for i, texts in enumerate(references):
        if isinstance(texts, str) or not texts:
            seen = "a text as references" if texts else "no reference"
            raise ValueError(f"text {i}: got {seen}, accepted is a list of 1 or more texts")


def rouge(generated: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L in [0, 100], by rouge-score.

    Each text is compared with each of its references; its best score counts. Scores are averaged over texts.

    Parameters
    ----------
    generated : [N] texts
    references : [N] lists of texts

    Raises
    ------
    ValueError
        If there is no text, if the lists differ in length, or if a text has no reference.
    """
    return _rouge(generated, references, "fmeasure")


def rouge_of_75_bytes(generated: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Recall of ROUGE-1, ROUGE-2 and ROUGE-L for the first 75 bytes of each text, the rule of DUC 2004; see `rouge`."""
    return _rouge([text.encode()[:75].decode(errors="ignore") for text in generated], references, "recall")


def _rouge(generated: Sequence[str], references: Sequence[Sequence[str]], statistic: str) -> dict[str, float]:
    _require_texts(generated, references)
    rouge_scorer = optional("rouge_score.rouge_scorer", "ROUGE", "generation")
    variants = ("rouge1", "rouge2", "rougeL")
    scorer, sums = rouge_scorer.RougeScorer(variants, use_stemmer=True), dict.fromkeys(variants, 0.0)
    for text, texts in zip(generated, references, strict=True):
        scores = [scorer.score(reference, text) for reference in texts]
        for variant in variants:
            sums[variant] += max(getattr(score[variant], statistic) for score in scores)
    return {variant: 100 * total / len(generated) for variant, total in sums.items()}
