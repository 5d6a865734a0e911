"""The toy of notebook 40: rows of twelve noisy tokens, of which a segment of three carries the label.

A model attends to the tokens with fusedmax and reads what it attends to. Rows on which fusedmax passes no gradient can
be counted while it is trained.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from rationale.distributions.numerics import softplus
from rationale.nn import fusedmax, in_dead_zone

NUM_TOKENS, NUM_NUMBERS, SEGMENT = 12, 8, 3


def marked_segments(num_rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random rows in which three neighbouring tokens have a mark and the label.

    Returns
    -------
    float64 [N, 12, 8]
        Tokens. The first number of a token of the segment is 3, its second number is the label, and all other numbers
        are noise.
    float64 [N]
        Labels, -1 or 1.
    """
    kind = {"dtype": torch.float64, "generator": generator}
    tokens, label = torch.randn(num_rows, NUM_TOKENS, NUM_NUMBERS, **kind), torch.randn(num_rows, **kind).sign()
    starts = torch.randint(0, NUM_TOKENS - SEGMENT + 1, (num_rows, 1), generator=generator)
    segment = starts + torch.arange(SEGMENT)  # [N, 3]
    tokens[..., 0].scatter_(1, segment, 3.0)
    tokens[..., 1].scatter_(1, segment, label.unsqueeze(1).expand(-1, SEGMENT))
    return tokens, label


def attend_to_segments(
    price_at: Callable[[int], float], num_steps: int, learning_rate: float, generator: torch.Generator
) -> list[tuple[float, float]]:
    """Train a model that attends to 256 rows with fusedmax, under a price that may change.

    Parameters
    ----------
    price_at : function
        From the number of a step, from 0, to lambda in that step.
    generator : torch.Generator
        Of the rows and the first weights.

    Returns
    -------
    list of (loss, share)
        In each step: the logistic loss in nats, and the share of rows whose scores are in the zone of (A9) at lambda =
        0.5.
    """
    tokens, label = marked_segments(256, generator)
    query, read = (
        (0.01 * torch.randn(NUM_NUMBERS, dtype=torch.float64, generator=generator)).requires_grad_() for _ in range(2)
    )
    optimizer, seen = torch.optim.Adam([query, read], lr=learning_rate), []
    for number in range(num_steps):
        scores = tokens @ query  # [N, 12]
        answer = (fusedmax(scores, lam=price_at(number)).unsqueeze(-1) * tokens).sum(1) @ read
        loss = softplus(-label * answer).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append((loss.item(), in_dead_zone(scores.detach(), lam=0.5).double().mean().item()))
    return seen
