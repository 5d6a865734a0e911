"""A number that moves during training, from a first value to its final one."""


def moved(first: float, final: float, taken: int, moves: int) -> float:
    """The number after so many training steps: each step of the move multiplies it by the same factor.

        final (first / final)^(1 - taken / moves), and `final` from step `moves` on

    Source: eq. (S18), notebooks/07_decide_and_depend.py.

    Parameters
    ----------
    first, final : float > 0
    taken : int >= 0
        Training steps that were made.
    moves : int >= 0
        Training steps that the move takes; 0: there is none.

    Examples
    --------
    >>> [moved(4.0, 1.0, taken, moves=2) for taken in range(4)]
    [4.0, 2.0, 1.0, 1.0]
    """
    left = 1 - min(1.0, taken / moves) if moves else 0.0
    return final * (first / final) ** left
