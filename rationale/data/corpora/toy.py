"""The toy task of De Cao et al. 2020: does a sequence of digits contain more n than m? The gold rationale is known.

Source: De Cao et al. 2020, sec. 4.1. Sequences of 1 to 10 digits; each digit is n with probability 1/4, m with 1/4,
else one of the other eight. The answer is 1 if n occurs more often than m (a tie is 0). Only the occurrences of n and m
matter, so they are the gold rationale.
"""

import torch

from rationale.data.corpus import SPLITS, Corpus, Request
from rationale.data.example import Example

LONGEST = 10
LABELS = ("no", "yes")  # are there more n than m?


def read_digits(
    num_train: int = 9_000, num_dev: int = 1_000, num_test: int = 1_000, seed: int = 1
) -> dict[str, list[Example]]:
    """Made-up examples: `tokens` are the digits, `second` is the query (n, m), `rationale` marks the digits n and m.

    Parameters
    ----------
    num_train, num_dev, num_test : int >= 0
        9,000 and 1,000 in the paper, which has no test set of its own.
    seed : int
        The same seed gives the same examples.

    Returns
    -------
    dict: "train", "dev" and "test" -> list of Example
    """
    number, generator = num_train + num_dev + num_test, torch.Generator().manual_seed(seed)
    query = torch.rand(number, 10, generator=generator).argsort(1)[:, :2]  # [N, 2], two different digits
    lengths = torch.randint(1, LONGEST + 1, (number,), generator=generator)
    kind = torch.rand(number, LONGEST, generator=generator)
    other = torch.randint(0, 8, (number, LONGEST), generator=generator)
    for digit in query.sort(1).values.unbind(1):  # from 0..7 to the eight digits that are not in the query
        other += other >= digit.unsqueeze(1)
    digits = torch.where(kind < 0.25, query[:, :1], torch.where(kind < 0.5, query[:, 1:], other))
    rows = zip(digits.tolist(), query.tolist(), lengths.tolist(), strict=True)
    examples = [_example(row[:length], n, m) for row, (n, m), length in rows]
    cuts = num_train, num_train + num_dev
    return {"train": examples[: cuts[0]], "dev": examples[cuts[0] : cuts[1]], "test": examples[cuts[1] :]}


def _example(digits: list[int], n: int, m: int) -> Example:
    return Example(
        tokens=tuple(map(str, digits)),
        label=int(digits.count(n) > digits.count(m)),
        rationale=tuple(digit in (n, m) for digit in digits),
        second=(str(n), str(m)),
    )


def _read(asked: Request) -> dict[str, list[Example]]:
    train, dev, test = (asked.limits[split] for split in SPLITS)
    return read_digits(train, dev, test, asked.seed)


CORPUS = Corpus(
    name="toy",
    what="sequences of digits: are there more n than m among them?",
    read={"probing": _read},
    labels=LABELS,
    tokeniser="spaces",
    made_up={"train": 9_000, "dev": 1_000, "test": 1_000},
    alphabet=tuple(map(str, range(10))),
    exact=True,
)
