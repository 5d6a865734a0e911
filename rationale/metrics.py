"""Metrics: how much was selected, how well it matches a gold rationale, how good the predictions are.

All functions take tensors over a batch or a whole split; a *macro* figure averages over texts, a *micro*
figure counts over words.
"""

import torch
from torch import Tensor


def rationale_scores(selected: list[Tensor], gold: list[Tensor]) -> dict[str, float]:
    """Precision, recall and F1 of selected tokens against gold rationales, micro and macro.

        micro precision = sum_i |selected_i and gold_i| / sum_i |selected_i|

    Source: Table 2 of Bastings et al. 2019: "percentage of words with z != 0 that are in the annotation".
    Texts without a gold token are left out. An empty selection never divides by zero: it adds nothing to
    micro figures and is left out of macro precision, and its macro recall is 0.

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


def selected_by_label(word_labels: list[Tensor], selected: list[Tensor], num_labels: int = 5) -> Tensor:
    """How many selected words carry each word label: long [num_labels] (Figure 5 of Bastings et al. 2019)."""
    labels, chosen = torch.cat(word_labels), torch.cat(selected)
    return torch.bincount(labels[chosen], minlength=num_labels)


def confusion(predicted: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """Counts [num_classes, num_classes]: rows are targets, columns predictions."""
    flat = torch.bincount(target * num_classes + predicted, minlength=num_classes**2)
    return flat.view(num_classes, num_classes)
