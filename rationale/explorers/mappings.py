"""Explore attention mappings: sliders for the scores, and the weights that each mapping gives them."""

from collections.abc import Sequence

import traitlets

from rationale.explorers.embedded import Embedded, module


def explore_mappings(
    scores: Sequence[float] = (0.5, 1.5, 1.3, -0.4, 0.9, 0.8), gamma: float = 1.0, lam: float = 0.1
) -> "MappingExplorer":
    """Make an explorer of the attention mappings. The arguments are the values with which it starts.

    Parameters
    ----------
    scores : 2 to 10 numbers in [-3, 3]
    gamma : float in [0.1, 10]
    lam : float in [0, 1]

    Raises
    ------
    ValueError
        If a value is outside the range of its slider.
    """
    if not 2 <= len(scores) <= 10:
        raise ValueError(f"scores: got {len(scores)} scores, 2 to 10 are accepted")
    for name, values, low, high in (("scores", scores, -3, 3), ("gamma", [gamma], 0.1, 10), ("lam", [lam], 0, 1)):
        for value in values:
            if not low <= value <= high:
                raise ValueError(f"{name}: got {value}, [{low}, {high}] is accepted")
    return MappingExplorer(scores=list(scores), gamma=gamma, lam=lam)


class MappingExplorer(Embedded):
    """Sliders for the scores, gamma and lam, and one picture per mapping, computed in the browser by `mappings.js`.

    Attributes
    ----------
    scores : list of float
    gamma, lam : float
        The strength of the regularisation, and the price of fusedmax and oscarmax.
    """

    _esm = module("mappings")
    scores = traitlets.List(traitlets.Float()).tag(sync=True)
    gamma = traitlets.Float(1.0).tag(sync=True)
    lam = traitlets.Float(0.1).tag(sync=True)
