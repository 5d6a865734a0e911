"""Many texts: how much memory one of them takes, from its file to the batches of training."""

import gc
import itertools
import random
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from rationale.data.batches import Batches, Vocabulary
from rationale.data.corpora import sst
from rationale.data.example import Example
from rationale.data.files import read_lines
from rationale.data.own import read_own
from tests.damage import FORMATS
from tests.every import every
from tests.own_files import settings

LIMIT = 1024  # bytes per text of 100 words, beyond the int32 numbers of its words
LENGTH = 100


def bytes_kept(make: Callable[[], object]) -> tuple[int, int]:
    """Bytes that the result of a function takes, and the most that was taken meanwhile."""
    gc.collect()
    tracemalloc.start()
    try:
        result = make()
        gc.collect()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        del result


def texts_file(path: Path, number: int, words: int = 200) -> Path:
    """A file of made-up texts of 100 words, one per line."""
    rng = random.Random(0)
    names = [f"word{i}" for i in range(words)]
    path.write_text("".join(f"{' '.join(rng.choices(names, k=LENGTH))}\n" for _ in range(number)))
    return path


@pytest.mark.deep
def test_a_text_takes_a_kilobyte_beyond_the_numbers_of_its_words(tmp_path):
    """Two sizes, so that what is taken once (words, modules, the table of interned words) does not count."""

    def taken(number: int) -> int:
        path = texts_file(tmp_path / f"{number}.txt", number)

        def read() -> Batches:
            examples = [Example(tuple(line.split()), i % 5) for i, line in enumerate(read_lines(path))]
            vocabulary = Vocabulary(sorted({word for example in examples for word in example.tokens}))
            return Batches(examples, vocabulary, 25)

        kept, most = bytes_kept(read)
        # torch allocates its own memory, which tracemalloc does not see: the four tensors that `Batches` keeps.
        batches = read()
        tensors = [value for value in vars(batches).values() if isinstance(value, torch.Tensor)]
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        numbers = batches._flat.untyped_storage()
        assert numbers.nbytes() == 4 * LENGTH * number, "int32"
        own = sum(storages.values()) - numbers.nbytes()
        assert most - kept < 0.25 * kept + 500_000, "nothing larger is built on the way"
        return kept - numbers.nbytes() + own  # the numbers lie in an array of Python, which tracemalloc does see

    small, large = taken(1000), taken(3000)
    assert (large - small) / 2000 < LIMIT


@pytest.mark.deep
def test_a_text_of_ones_own_takes_little_more_than_the_numbers_of_its_words(tmp_path):
    """What is read takes 4 bytes per word and few per text; meanwhile it takes a kilobyte beside two such numbers."""

    def taken(number: int) -> tuple[int, int]:
        lines = texts_file(tmp_path / "t.txt", number).read_text().splitlines()
        path = tmp_path / f"{number}.csv"
        path.write_text("text,label\n" + "".join(f"{line},{i % 5}\n" for i, line in enumerate(lines)))
        return bytes_kept(lambda: read_own(settings(path, tokeniser="whitespace")).splits)

    taken(100)  # what is taken once, such as modules
    small, large = taken(1000), taken(3000)
    kept, most = ((more - less) / 2000 for less, more in zip(small, large, strict=True))
    assert kept < 4 * LENGTH + 50
    assert most < 2 * 4 * LENGTH + LIMIT


def test_the_batches_of_texts_of_ones_own_keep_no_second_copy_of_the_numbers(tmp_path):
    lines = texts_file(tmp_path / "t.txt", 200).read_text().splitlines()
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + "".join(f"{line},{i % 5}\n" for i, line in enumerate(lines)))
    part = read_own(settings(path, tokeniser="whitespace")).splits["train"]
    vocabulary = Vocabulary([f"word{i}" for i in range(0, 200, 2)])  # some words are unknown
    batches = Batches(part, vocabulary, 25)
    assert np.shares_memory(batches._flat.numpy(), part.numbers())
    plain = Batches(list(part), vocabulary, 25)
    for own, other in zip(batches.epoch(1), plain.epoch(1), strict=True):
        assert torch.equal(own.tokens, other.tokens) and torch.equal(own.mask, other.mask)


READERS = ["treebank", "beer reviews", "hotels, tar.xz", "movies, tar", "e-mails, tar.xz", "IMDb pairs", "SNLI"]
READERS += ["captions", "headlines"]


@every(READERS)
def test_every_word_is_kept_once_whichever_reader_it_comes_from(name):
    one, seen = FORMATS[name], {}
    with tempfile.TemporaryDirectory() as folder:
        rows = one.read(one.write(Path(folder), one.files[one.damaged]))
    texts = [part for row in rows for part in row if isinstance(part, tuple) and part and isinstance(part[0], str)]
    assert texts, "no words to compare"
    for word in itertools.chain.from_iterable(texts):
        assert seen.setdefault(word, word) is word, f"two objects for {word!r}"


@pytest.mark.deep
def test_a_sentence_of_the_treebank_takes_a_kilobyte(tmp_path):
    """With its label, the labels of its words and of its phrases; 19 words, as SST has on average."""

    def tree(rng: random.Random, words: int = 19) -> str:
        if words == 1:
            return f"({rng.randrange(5)} word{rng.randrange(100)})"
        left = rng.randrange(1, words)
        return f"({rng.randrange(5)} {tree(rng, left)} {tree(rng, words - left)})"

    def taken(number: int) -> int:
        folder, rng = tmp_path / str(number), random.Random(1)
        folder.mkdir()
        (folder / "train.txt").write_text("".join(f"{tree(rng)}\n" for _ in range(number)))
        for split in ("dev", "test"):
            (folder / f"{split}.txt").write_text(f"{tree(rng)}\n")
        return bytes_kept(lambda: sst.read_sst(folder))[0]

    taken(20)  # what is taken once, of which the nodes that sentences share
    small, large = taken(500), taken(1500)
    assert (large - small) / 1000 < LIMIT
