"""Splits of texts that come without them: seeded and stratified; and texts that stand in two splits."""

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from rationale.data.corpus import SPLITS
from rationale.errors import BadInput, excerpt

SHARES = {"dev": 0.1, "test": 0.1}  # of the texts, in splits that are made
STRATA = 10  # of scores: each tenth of the texts, by score, is divided in the same way


DIGEST = hashlib.sha256().digest_size  # bytes


def digest_of_text(seed: int, tokens: tuple[str, ...], second: tuple[str, ...] | None) -> bytes:
    """A digest by which copies of a text are known, and by whose order texts are divided."""
    return hashlib.sha256(f"{seed} {(tokens, second)}".encode(errors="surrogatepass")).digest()


def divide(digests: Sequence[bytes], strata: Sequence[int], missing: Sequence[str]) -> tuple[list[str], int]:
    """The split of each text, and how many texts are copies of another one.

    Texts of the same digest stay in one split: copies, or all pairs of a first text. Within each stratum texts are
    ordered by their digests, so the order of the file does not decide where a text goes, and other texts decide it only
    at the border of two splits.

    Parameters
    ----------
    digests : of N texts, or of the first texts of N pairs (`digest_of_text`)
    strata : N numbers
        Classes, or ranges of scores; each stratum is divided in the same way. Texts of the same digest belong to the
        lowest of their strata.
    missing : names of the splits to make, of "dev" and "test"
    """
    stratum_of: dict[bytes, int] = {}
    for key, stratum in zip(digests, strata, strict=True):
        stratum_of[key] = min(stratum, stratum_of.get(key, stratum))
    by_stratum: dict[int, list[bytes]] = defaultdict(list)
    for key, stratum in stratum_of.items():
        by_stratum[stratum].append(key)
    split_of: dict[bytes, str] = {}
    for members in by_stratum.values():
        members.sort()
        start = 0
        for split in missing:
            count = max(1, round(SHARES[split] * len(members)))
            split_of |= dict.fromkeys(members[start : start + count], split)
            start += count
    return [split_of.get(key, "train") for key in digests], len(digests) - len(stratum_of)


def strata_of(labels: Sequence[int] | Sequence[tuple[float]], digests: Sequence[bytes], is_classes: bool) -> list[int]:
    """The stratum of each text: its class, or the tenth of the texts, by score, that it belongs to.

    Texts of the same score are ordered by their digests.

    Each stratum gives at least one text to each split that is made. So there is one stratum per ten texts of scores at
    most, and a split of a small file is a tenth of it, too.
    """
    if is_classes:
        return list(labels)  # type: ignore[arg-type]
    order = sorted(range(len(labels)), key=lambda i: (labels[i], digests[i]))
    strata, num_strata = [0] * len(labels), max(1, min(STRATA, len(labels) // 10))
    for rank, i in enumerate(order):
        strata[i] = rank * num_strata // len(labels)
    return strata


def require_classes(
    keys: Sequence[Hashable], split_of: Sequence[str], labels: Sequence[int], names: Sequence[str], place: str
) -> None:
    """Refuse splits of which one lacks a class.

    Parameters
    ----------
    keys, split_of, labels : of N texts
    names : of the classes

    Raises
    ------
    BadInput
        The message names the split, the class, and how many texts of it there are.
    """
    known = set(zip(split_of, labels, strict=True))
    for k, name in enumerate(names):
        for split in SPLITS:
            if (split, k) not in known:
                of_class = [key for key, label in zip(keys, labels, strict=True) if label == k]
                have = f"{len(of_class)} texts of it in all, {len(set(of_class))} of them different"
                accepted = "at least one text of each class in each of train, dev and test"
                advice = "; label more texts of it, or remove its rows" if len(set(of_class)) < len(SPLITS) else ""
                raise BadInput(
                    f"{place}: the {split} split has no text of the class {excerpt(name)} ({have}); {accepted}{advice}"
                )


def shared_texts(keys: Mapping[str, Sequence[Hashable]]) -> list[tuple[str, str, int, int, int]]:
    """Texts that stand in two splits: (later split, earlier split, number of texts, place in each).

    The places are those of the first such text.
    """
    found, splits = [], [split for split in SPLITS if split in keys]
    for position, earlier in enumerate(splits[:-1]):
        place_of = {key: i for i, key in reversed(list(enumerate(keys[earlier])))}
        for later in splits[position + 1 :]:
            both = [i for i, key in enumerate(keys[later]) if key in place_of]
            if both:
                found.append((later, earlier, len(both), both[0], place_of[keys[later][both[0]]]))
    return found
