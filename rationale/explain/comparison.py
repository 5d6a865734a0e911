"""Compare attributions with the truth: the smallest masks, a gold rationale, or kinds of words."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rationale.data.example import Example

if TYPE_CHECKING:
    import pandas as pd


def against_smallest(kept: Tensor, smallest: Tensor) -> dict[str, float]:
    """A mask against the best-fitting of all smallest masks: precision, recall, f1, masked, optimality.

    F1 is that of the smallest mask it agrees with most, precision and recall are against the same one; of two empty
    masks all are 1, of one empty mask 0. `masked` is a share; optimality 1 if it is one of them.

    Source: De Cao et al. 2020, Table 2: means over sentences of numbers over tokens.

    Parameters
    ----------
    kept : bool [T]
    smallest : bool [S, T], of `smallest_masks`
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


def distance_to(truth: Tensor, attribution: Tensor) -> dict[str, Tensor]:
    """KL(truth || attribution) and Jensen-Shannon divergence in nats, [B] each, both sides scaled to sum to 1.

    Where nothing is attributed, as to a text of which erasure keeps nothing, there is no distribution: NaN. Infinite KL
    is what it is: the attribution is 0 where the truth is not.

    Parameters
    ----------
    truth, attribution : [B, T], at least 0; `truth` is not all 0 in a row
    """
    p, q = (values / values.sum(1, keepdim=True) for values in (truth.double(), attribution.double()))
    middle = (p + q) / 2

    def kl(one: Tensor, other: Tensor) -> Tensor:
        return (torch.xlogy(one, one) - torch.xlogy(one, other)).sum(1)

    return {"kl": kl(p, q), "js": (kl(p, middle) + kl(q, middle)) / 2}


def against_search(values: list[Tensor], solutions: list[Tensor]) -> dict[str, float]:
    """Means over texts of `against_smallest` of the masks P(z != 0) > 1/2, of values [1, T_i] each."""
    found = [against_smallest(keep[0] > 0.5, smallest) for keep, smallest in zip(values, solutions, strict=True)]
    return {name: sum(one[name] for one in found) / len(found) for name in found[0]}


def against_gold(values: list[Tensor], examples: list[Example]) -> dict[str, float]:
    """kl_l, js_l: means of `distance_to` uniform attribution to the gold rationale, of every layer l, and empty_l, the
    share of texts to which a layer attributes nothing: those count in neither; an infinite kl_l is left out.

    Texts without gold positions are left out: nothing is right about them.
    """
    some = [i for i, example in enumerate(examples[: len(values)]) if any(example.rationale or ())]
    if not some:
        return {}
    gold = pad_sequence([torch.tensor(examples[i].rationale).double() for i in some], batch_first=True)
    found = pad_sequence([values[i].double().T for i in some], batch_first=True)  # [N, T, L + 1]
    figures = {}
    for layer, given in enumerate(found.unbind(2)):
        there = given.sum(1) > 0
        means = {name: far.mean().item() for name, far in distance_to(gold[there], given[there]).items()}
        figures |= {f"{name}_{layer}": value for name, value in means.items() if math.isfinite(value)}
        figures[f"empty_{layer}"] = 1 - there.double().mean().item()
    return figures


def kept_by_kind(values: Iterable[list], kinds: Iterable[Sequence[str]]) -> "pd.DataFrame":
    """Mean over positions of what each layer attributes, one row a layer, a column a kind of position.

    Parameters
    ----------
    values : [L + 1][T] of each text
    kinds : [T] of each text, such as `word_pieces.parts_of_speech` of its pieces
    """
    import pandas as pd

    flat = np.concatenate([np.array(one, float).T for one in values])  # [N, L + 1]
    return pd.DataFrame(flat).groupby([kind for one in kinds for kind in one]).mean().T
