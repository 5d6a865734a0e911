"""Metrics: how much was selected, how well it matches a gold rationale, how good the predictions are.

All functions take tensors over a batch or a whole split; a *macro* figure averages over texts, a *micro*
figure counts over words.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def rationale_scores(selected: Sequence[Tensor], gold: Sequence[Tensor]) -> dict[str, float]:
    """Precision, recall and F1 of selected tokens against gold rationales, micro and macro.

        micro precision = sum_i |selected_i and gold_i| / sum_i |selected_i|

    Source: Table 2 of Bastings et al. 2019: "percentage of words with z != 0 that are in the annotation".
    Texts without a gold token are left out. An empty selection never divides by zero: it leaves micro
    precision as it is and lowers micro recall; it is left out of macro precision, and its macro recall and F1 are 0.

    Parameters
    ----------
    selected, gold : list of bool [T_i]
        One pair of tensors a text, of equal length.

    Returns
    -------
    dict
        precision, recall, f1 (micro), precision_macro, recall_macro, f1_macro, all in [0, 1]; nothing
        selected gives precision 0.

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
    for i, (chosen, wanted) in enumerate(zip(selected, gold, strict=True)):
        if chosen.shape != wanted.shape:
            raise ValueError(f"text {i}: {len(chosen)} gates for {len(wanted)} gold flags")
        if wanted.any():
            rows.append(((chosen & wanted).sum(), chosen.sum(), wanted.sum()))
    if not rows:
        return {}
    matched, chosen, wanted = torch.tensor(rows, dtype=torch.float64).T
    micro = _prf(matched.sum(), chosen.sum(), wanted.sum())
    precision, recall, f1 = _prf(matched, chosen, wanted)
    some = chosen > 0
    macro = (precision[some].mean() if some.any() else torch.tensor(0.0), recall.mean(), f1.mean())
    names = ("precision", "recall", "f1")
    scores = {name: float(value) for name, value in zip(names, micro, strict=True)}
    return scores | {f"{name}_macro": float(value) for name, value in zip(names, macro, strict=True)}


def _prf(matched: Tensor, chosen: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    precision = torch.where(chosen > 0, matched / chosen.clamp(min=1), 0.0)
    recall = matched / wanted.clamp(min=1)
    return precision, recall, 2 * matched / (chosen + wanted).clamp(min=1)


def class_scores(answers: Tensor, targets: Tensor) -> dict[str, float]:
    """accuracy, and macro_f1: the mean over the classes that occur of 2 tp / (2 tp + fp + fn).

    Parameters
    ----------
    answers, targets : long [N], N >= 1
    """
    classes = torch.cat([answers, targets]).unique()
    said, true = (values.unsqueeze(1) == classes for values in (answers, targets))  # [N, C]
    f1 = 2 * (said & true).sum(0) / (said.sum(0) + true.sum(0))
    return {"accuracy": (answers == targets).double().mean().item(), "macro_f1": f1.mean().item()}


def blind_precision(gold: Sequence[Tensor], budget: float) -> dict[str, float]:
    """Precision (micro) of selections that never looked at the text, of k_i = max(1, round(budget T_i)) words each.

    Computed exactly, not drawn. To know how good a precision is, compare it with these. Texts without a gold token are
    left out, as in `rationale_scores`.

    Parameters
    ----------
    gold : list of bool [T_i]
    budget : float, in (0, 1]

    Returns
    -------
    dict
        random_words; random_span (one run of k words, all places equally likely: words near the ends of a text are in
        fewer of them); first_words; last_words. Empty if no text has a gold token.

    Examples
    --------
    >>> gold = [torch.tensor([False, False, False, True, True])]
    >>> blind_precision(gold, budget=0.4)
    {'random_words': 0.4, 'random_span': 0.375, 'first_words': 0.0, 'last_words': 1.0}
    """
    matched, chosen = torch.zeros(4, dtype=torch.float64), 0
    for flags in (flags.double() for flags in gold if flags.any()):
        k = max(1, round(budget * len(flags)))
        before = torch.cat([flags.new_zeros(1), flags.cumsum(0)])
        spans = before[k:] - before[:-k]  # gold tokens in the run that starts at each place
        matched += torch.stack([k * flags.mean(), spans.mean(), spans[0], spans[-1]])
        chosen += k
    names = ("random_words", "random_span", "first_words", "last_words")
    return dict(zip(names, (matched / chosen).tolist(), strict=True)) if chosen else {}


def runs(selected: list[Tensor]) -> Tensor:
    """Lengths of the runs of selected words: long [number of runs], in order; never across two texts.

    Parameters
    ----------
    selected : list of bool [T_i]

    Examples
    --------
    >>> runs([torch.tensor([True, True, False, True]), torch.tensor([True])])
    tensor([2, 1, 1])
    """
    lengths = []
    for chosen in selected:
        edges = torch.cat([chosen.new_zeros(1), chosen, chosen.new_zeros(1)]).long().diff().nonzero().squeeze(1)
        lengths.append(edges[1::2] - edges[::2])
    return torch.cat(lengths) if lengths else torch.zeros(0, dtype=torch.long)


def selected_by_label(word_labels: list[Tensor], selected: list[Tensor], num_labels: int = 5) -> Tensor:
    """How many selected words carry each word label: long [num_labels] (Figure 5 of Bastings et al. 2019)."""
    labels, chosen = torch.cat(word_labels), torch.cat(selected)
    return torch.bincount(labels[chosen], minlength=num_labels)


def confusion(predicted: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """Counts [num_classes, num_classes]: rows are targets, columns predictions."""
    flat = torch.bincount(target * num_classes + predicted, minlength=num_classes**2)
    return flat.view(num_classes, num_classes)


def calibration_error(probabilities: Tensor, target: Tensor, num_bins: int = 15) -> float:
    """Expected calibration error: how far confidence and accuracy lie apart, in bins of like confidence.

        ECE = sum_b (n_b / N) |accuracy_b - confidence_b|

    Source: Guo et al. 2017, eq. (3); bins of equal width over (0, 1].

    Parameters
    ----------
    probabilities : [N, C]
        Of the classes; each row sums to 1.
    target : long [N]

    Returns
    -------
    float, in [0, 1]

    Examples
    --------
    >>> sure = torch.tensor([[0.9, 0.1]]).expand(10, 2)
    >>> round(calibration_error(sure, torch.tensor([0] * 7 + [1] * 3)), 3)  # 90 % sure, 70 % right
    0.2
    """
    confidence, answer = probabilities.double().max(1)
    bins = (confidence * num_bins).ceil().long().clamp(1, num_bins) - 1  # (0, 1/15] is bin 0
    over = confidence - (answer == target).double()
    sums = torch.zeros(num_bins, dtype=torch.float64).index_add_(0, bins.cpu(), over.cpu())
    return sums.abs().sum().item() / len(target)


def agreement(selected: list[Tensor], other: list[Tensor]) -> float:
    """Token F1 between two selections of the same texts: 2 |A and B| / (|A| + |B|), over all words.

    Symmetric; 1 where both are empty. Two selections that know nothing of each other, of rates p and q, agree by
    2 p q / (p + q) on average.

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


def bleu(said: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """BLEU of texts of tokens, in [0, 100], and how long they are against their references; by sacrebleu.

    Parameters
    ----------
    said : [N] texts, tokens separated by spaces
    references : [N] lists of texts; the first of each is used
    """
    from sacrebleu.metrics import BLEU  # the extra `generation`

    found = BLEU(tokenize="none", force=True).corpus_score(list(said), [[some[0] for some in references]])
    return {"bleu": found.score, "length_ratio": found.sys_len / max(1, found.ref_len)}


def rouge(said: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L F1 in [0, 100]: of each text against its best reference, mean; by rouge-score."""
    return _rouge(said, references, "fmeasure")


def rouge_of_75_bytes(said: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """As `rouge`, but recall, and only the first 75 bytes of a text count: the rule of DUC 2004."""
    return _rouge([text.encode()[:75].decode(errors="ignore") for text in said], references, "recall")


def _rouge(said: Sequence[str], references: Sequence[Sequence[str]], figure: str) -> dict[str, float]:
    from rouge_score.rouge_scorer import RougeScorer  # the extra `generation`

    kinds = ("rouge1", "rouge2", "rougeL")
    scorer, sums = RougeScorer(kinds, use_stemmer=True), dict.fromkeys(kinds, 0.0)
    for text, some in zip(said, references, strict=True):
        scores = [scorer.score(reference, text) for reference in some]
        for kind in kinds:
            sums[kind] += max(getattr(score[kind], figure) for score in scores)
    return {kind: 100 * total / max(1, len(said)) for kind, total in sums.items()}
