"""Whether attention gives several words the same weight, as fusedmax and oscarmax are made to do."""

from collections.abc import Iterable, Sequence

from torch import Tensor
from torch.nn import functional as F

from rationale.data.example import Example


def grouped_share(weights: Iterable[Tensor], neighbours: bool = False) -> float:
    """Of the words that attention attends to, the share that have the weight of another word of the same row.

    A row whose weights are all equal tells no words apart, so it does not count.

    Parameters
    ----------
    weights : [R, C] for each text
        Each row is a distribution over the C words.
    neighbours : bool
        True: only a neighbour counts as the other word, as in the segments of fusedmax.

    Examples
    --------
    >>> rows = torch.tensor([[0.3, 0.4, 0.3, 0.0], [0.25, 0.25, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]])
    >>> grouped_share([rows]), grouped_share([rows], neighbours=True)
    (0.6666666666666666, 0.3333333333333333)
    """
    grouped = attended = 0
    for rows in weights:
        rows = rows[(rows != rows[:, :1]).any(1)]
        rows = rows if neighbours else rows.sort(1).values
        equal = rows[:, 1:] == rows[:, :-1]
        shares = F.pad(equal, (1, 0)) | F.pad(equal, (0, 1))
        grouped += int((shares & (rows != 0)).sum())
        attended += int((rows != 0).sum())
    return grouped / max(1, attended)


def groups_by_label(z: Sequence[Tensor], pairs: Sequence[Example]) -> dict[str, float]:
    """`grouped_share` over the pairs of each label k: grouped_k, and segments_k for neighbours.

    Parameters
    ----------
    z : [P Q] for each pair, weights that words of the premise give to words of the hypothesis
    pairs : as many
    """
    found: dict[str, float] = {}
    for k in sorted({int(pair.label) for pair in pairs}):
        of_label = [w.view(len(e.tokens), -1) for w, e in zip(z, pairs, strict=True) if int(e.label) == k]
        found |= {f"grouped_{k}": grouped_share(of_label), f"segments_{k}": grouped_share(of_label, neighbours=True)}
    return found
