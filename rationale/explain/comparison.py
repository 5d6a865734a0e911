"""Compare attributions with the truth (the smallest masks, a gold rationale), and average them over kinds of words."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rationale.data.example import Example
from rationale.errors import optional

if TYPE_CHECKING:
    import pandas as pd


def compare_with_smallest_masks(kept: Tensor, smallest: Tensor) -> dict[str, float]:
    """Compare a mask with the one of all smallest masks for which F1 is largest.

    Source: De Cao et al. 2020, Table 2: means over sentences of numbers over tokens.

    Parameters
    ----------
    kept : bool [T]
    smallest : bool [S, T], of `smallest_masks`

    Returns
    -------
    dict, values in [0, 1]
        precision, recall, f1, all 1 if both masks are empty and all 0 if one is; masked, the share of positions that
        are not kept; optimality, 1 if the mask is one of the smallest, otherwise 0.
    """
    matched = (kept & smallest).sum(1)
    f1 = torch.where(kept.sum() + smallest.sum(1) == 0, 1.0, 2 * matched / (kept.sum() + smallest.sum(1)).clamp(min=1))
    best = int(f1.argmax())
    shares = [
        float(matched[best] / number) if number else float(f1[best]) for number in (kept.sum(), smallest[best].sum())
    ]
    return {
        "precision": shares[0],
        "recall": shares[1],
        "f1": float(f1[best]),
        "masked": 1 - kept.double().mean().item(),
        "optimality": float((kept == smallest).all(1).any()),
    }


def distance_to_truth(truth: Tensor, attribution: Tensor) -> dict[str, Tensor]:
    """KL(truth || attribution) and Jensen-Shannon divergence after both are scaled to sum to 1.

    Parameters
    ----------
    truth, attribution : [B, T], at least 0
        Each row of `truth` holds a value above 0.

    Returns
    -------
    dict: kl, js, [B] each, in nats
        kl is infinite where the attribution is 0 and the truth is not. Both are NaN for a row of `attribution` that is
        all 0 (erasure may keep no position of a text), because there is no distribution.
    """
    p, q = (values / values.sum(1, keepdim=True) for values in (truth.double(), attribution.double()))
    middle = (p + q) / 2

    def kl(one: Tensor, other: Tensor) -> Tensor:
        return (torch.xlogy(one, one) - torch.xlogy(one, other)).sum(1)

    return {"kl": kl(p, q), "js": (kl(p, middle) + kl(q, middle)) / 2}


def compare_with_search(values: list[Tensor], solutions: list[Tensor]) -> dict[str, Tensor]:
    """`compare_with_smallest_masks` for the masks P(z != 0) > 1/2 of the first layer, text by text.

    Parameters
    ----------
    values : one [L + 1, T_i] per text
        Attributions that are P(z != 0).
    solutions : one bool [S_i, T_i] per text, of `smallest_masks`

    Returns
    -------
    dict: [N] each
        The scores of `compare_with_smallest_masks`, and smallest, the number of positions of a smallest mask.
    """
    rows = []
    for keep, smallest in zip(values, solutions, strict=True):
        scores = compare_with_smallest_masks(keep[0] > 0.5, smallest)
        rows.append(scores | {"smallest": float(smallest[0].sum())})
    return {name: torch.tensor([row[name] for row in rows], dtype=torch.float64) for name in rows[0]}


def compare_with_gold(values: list[Tensor], examples: list[Example]) -> dict[str, float]:
    """Distance of each layer's attributions to the gold rationale, means over texts.

    Texts without gold positions are left out: no attribution to them is right.

    Parameters
    ----------
    values : one [L + 1, T_i] per text
    examples : the texts
        There may be more than attributions: those of the first texts.

    Returns
    -------
    dict
        For each layer l: kl_l and js_l in nats, `distance_to_truth` of an attribution that is uniform over the gold
        positions (kl_l is left out if it is infinite), and empty_l, the share of texts to which the layer attributes
        nothing; these texts count in neither mean.
    """
    with_gold = [i for i, example in enumerate(examples[: len(values)]) if any(example.rationale or ())]
    if not with_gold:
        return {}
    gold = pad_sequence([torch.tensor(examples[i].rationale).double() for i in with_gold], batch_first=True)
    attributions = pad_sequence([values[i].double().T for i in with_gold], batch_first=True)  # [N, T, L + 1]
    scores = {}
    for layer, attribution in enumerate(attributions.unbind(2)):
        nonempty = attribution.sum(1) > 0
        distances = distance_to_truth(gold[nonempty], attribution[nonempty])
        means = {name: distance.mean().item() for name, distance in distances.items()}
        scores |= {f"{name}_{layer}": value for name, value in means.items() if math.isfinite(value)}
        scores[f"empty_{layer}"] = 1 - nonempty.double().mean().item()
    return scores


def mean_by_category(values: Iterable[list], categories: Iterable[Sequence[str]]) -> "pd.DataFrame":
    """Mean attribution over the positions of each category, one row per layer, one column per category.

    Parameters
    ----------
    values : [L + 1][T] for each text
    categories : [T] for each text, such as `word_pieces.parts_of_speech` of its pieces
    """
    pd = optional("pandas", "tables of attributions", "notebooks")
    flat = np.concatenate([np.array(layers, float).T for layers in values])  # [N, L + 1]
    return pd.DataFrame(flat).groupby([category for text in categories for category in text]).mean().T
