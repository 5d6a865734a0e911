"""Metrics of selections (against gold rationales, word labels and each other), of predictions and of generated texts.

All functions take the values of a batch or of a whole split. A *micro* score is computed from counts over all words, a
*macro* score is an average over texts.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rationale.errors import optional


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
    if len(selected) != len(gold):
        raise ValueError(f"{len(selected)} selections for {len(gold)} gold rationales")
    rows = []
    for i, (chosen, annotated) in enumerate(zip(selected, gold, strict=True)):
        if chosen.shape != annotated.shape:
            raise ValueError(f"text {i}: {len(chosen)} gates for {len(annotated)} gold flags")
        if annotated.any():
            rows.append(((chosen & annotated).sum(), chosen.sum(), annotated.sum()))
    if not rows:
        return {}
    num_matched, num_selected, num_gold = torch.tensor(rows, dtype=torch.float64).T
    micro = _precision_recall_f1(num_matched.sum(), num_selected.sum(), num_gold.sum())
    precision, recall, f1 = _precision_recall_f1(num_matched, num_selected, num_gold)
    nonempty = num_selected > 0
    macro = (precision[nonempty].mean() if nonempty.any() else torch.tensor(0.0), recall.mean(), f1.mean())
    names = ("precision", "recall", "f1")
    scores = {name: float(value) for name, value in zip(names, micro, strict=True)}
    return scores | {f"{name}_macro": float(value) for name, value in zip(names, macro, strict=True)}


def _precision_recall_f1(num_matched: Tensor, num_selected: Tensor, num_gold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    precision = torch.where(num_selected > 0, num_matched / num_selected.clamp(min=1), 0.0)
    recall = num_matched / num_gold.clamp(min=1)
    return precision, recall, 2 * num_matched / (num_selected + num_gold).clamp(min=1)


def class_scores(predicted: Tensor, target: Tensor) -> dict[str, float]:
    """The accuracy, and macro_f1: the mean of 2 tp / (2 tp + fp + fn) over the classes that occur.

    Parameters
    ----------
    predicted, target : long [N], N >= 1
    """
    classes = torch.cat([predicted, target]).unique()
    is_predicted, is_target = (labels.unsqueeze(1) == classes for labels in (predicted, target))  # [N, C]
    f1 = 2 * (is_predicted & is_target).sum(0) / (is_predicted.sum(0) + is_target.sum(0))
    return {"accuracy": (predicted == target).double().mean().item(), "macro_f1": f1.mean().item()}


def blind_precision(gold: Sequence[Tensor], budget: float) -> dict[str, float]:
    """Micro precision of selections of k_i = max(1, round(budget T_i)) words that do not depend on the words of text i.

    These are baselines with which to compare a precision. They are computed exactly, not by sampling. Texts without a
    gold token are left out, as in `rationale_scores`.

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

    Examples
    --------
    >>> gold = [torch.tensor([False, False, False, True, True])]
    >>> blind_precision(gold, budget=0.4)
    {'random_words': 0.4, 'random_span': 0.375, 'first_words': 0.0, 'last_words': 1.0}
    """
    num_matched, num_selected = torch.zeros(4, dtype=torch.float64), 0
    for flags in (flags.double() for flags in gold if flags.any()):
        k = max(1, round(budget * len(flags)))
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
    lengths = []
    for chosen in selected:
        edges = torch.cat([chosen.new_zeros(1), chosen, chosen.new_zeros(1)]).long().diff().nonzero().squeeze(1)
        lengths.append(edges[1::2] - edges[::2])
    return torch.cat(lengths) if lengths else torch.zeros(0, dtype=torch.long)


def selected_by_label(word_labels: list[Tensor], selected: list[Tensor], num_labels: int = 5) -> Tensor:
    """Number of selected words with each word label: long [num_labels].

    Source: Figure 5 of Bastings et al. 2019.

    Parameters
    ----------
    word_labels : list of long [T_i], in [0, num_labels)
    selected : list of bool [T_i]
    """
    labels, chosen = torch.cat(word_labels), torch.cat(selected)
    return torch.bincount(labels[chosen], minlength=num_labels)


def confusion(predicted: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """Confusion matrix: counts [num_classes, num_classes], where rows are targets and columns are predictions."""
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
    target : long [N]

    Returns
    -------
    float, in [0, 1]

    Examples
    --------
    >>> sure = torch.tensor([[0.9, 0.1]]).expand(10, 2)
    >>> round(calibration_error(sure, torch.tensor([0] * 7 + [1] * 3)), 3)  # the confidence is 90 %, the accuracy 70 %
    0.2
    """
    confidence, predicted = probabilities.double().max(1)
    bins = (confidence * num_bins).ceil().long().clamp(1, num_bins) - 1  # (0, 1 / num_bins] is bin 0
    differences = confidence - (predicted == target).double()
    sums = torch.zeros(num_bins, dtype=torch.float64).index_add_(0, bins.cpu(), differences.cpu())
    return sums.abs().sum().item() / len(target)


def agreement(selected: list[Tensor], other: list[Tensor]) -> float:
    """Token F1 between two selections of the same texts: 2 |A and B| / (|A| + |B|), over all words.

    The agreement is symmetric, and 1 if both selections are empty. That of two independent selections with rates p and
    q is 2 p q / (p + q) on average.

    Parameters
    ----------
    selected, other : list of bool [T_i]

    Examples
    --------
    >>> agreement([torch.tensor([True, True, False])], [torch.tensor([False, True, True])])
    0.5
    """
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
    """
    sacrebleu = optional("sacrebleu.metrics", "BLEU", "generation")
    first = [texts[0] for texts in references]
    result = sacrebleu.BLEU(tokenize="none", force=True).corpus_score(list(generated), [first])
    return {"bleu": result.score, "length_ratio": result.sys_len / max(1, result.ref_len)}


def rouge(generated: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L in [0, 100], by rouge-score.

    Each text is compared with each of its references; its best score counts. Scores are averaged over texts.

    Parameters
    ----------
    generated : [N] texts
    references : [N] lists of texts
    """
    return _rouge(generated, references, "fmeasure")


def rouge_of_75_bytes(generated: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Recall of ROUGE-1, ROUGE-2 and ROUGE-L for the first 75 bytes of each text, the rule of DUC 2004; see `rouge`."""
    return _rouge([text.encode()[:75].decode(errors="ignore") for text in generated], references, "recall")


def _rouge(generated: Sequence[str], references: Sequence[Sequence[str]], statistic: str) -> dict[str, float]:
    rouge_scorer = optional("rouge_score.rouge_scorer", "ROUGE", "generation")
    variants = ("rouge1", "rouge2", "rougeL")
    scorer, sums = rouge_scorer.RougeScorer(variants, use_stemmer=True), dict.fromkeys(variants, 0.0)
    for text, texts in zip(generated, references, strict=True):
        scores = [scorer.score(reference, text) for reference in texts]
        for variant in variants:
            sums[variant] += max(getattr(score[variant], statistic) for score in scores)
    return {variant: 100 * total / max(1, len(generated)) for variant, total in sums.items()}
