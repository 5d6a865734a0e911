"""Reading corpora and word vectors of the data folder: from their files, and from the cache.

from the file     the files are read and parsed, without a cache
into the cache    the same, and the cache (`rationale/data/cache.py`), which is empty, is filled
from the cache    as a new process reads what was read before, with the sha256 of the files

Each corpus is read with one look at every example; vectors are read for the words of the training sentences of SST. The
seconds of the first two are each measured once, those of the last are the median of five. Files that the data folder
lacks are left out. Alone: python -m tests.benchmarks --only bench_files
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from unittest import mock

from rationale import digests
from rationale.data import parsed, read_vectors
from rationale.data.corpora import find_corpus
from rationale.data.corpus import Request
from rationale.data.example import data_folder
from rationale.data.targets import Targets
from rationale.data.vectors import available
from tests.benchmarks.bench_training import sentences

ONCE = True
CORPORA = {"sst": "extraction", "movies": "extraction", "nli_small": "alignment"}
FROM_CACHE = 5  # readings from the cache


def look_at_all(corpus: str, task: str) -> None:
    """Read a corpus and look at each of its examples once."""
    known = find_corpus(corpus)
    found = parsed.read(known, task, Request(aspect=known.aspects[0] if known.aspects else ""))
    splits = found.splits if isinstance(found, Targets) else found
    assert all(example.tokens for part in splits.values() for example in part)


def as_new_process(read: Callable[[], object], cache: str) -> float:
    """Seconds of a reading with the cache in this folder (or `off`), when no file was digested before."""
    with mock.patch.dict(os.environ, RATIONALE_CACHE=cache), mock.patch.object(digests, "_stamps", {}):
        start = time.perf_counter()
        read()
        return time.perf_counter() - start


def seconds_of(read: Callable[[], object]) -> dict[str, float]:
    """Seconds of a reading in its three ways."""
    with tempfile.TemporaryDirectory() as place:
        taken = {"from the file": as_new_process(read, "off"), "into the cache": as_new_process(read, place)}
        taken["from the cache"] = statistics.median(as_new_process(read, place) for _ in range(FROM_CACHE))
        return taken


def cases(epochs: int = 1) -> dict[str, Callable[[], dict[str, float]]]:
    """A group for each corpus and each file of vectors that the data folder has; `epochs` is not used."""
    archives = {name: find_corpus(name).archive for name in CORPORA}
    here = {name: task for name, task in CORPORA.items() if (found := archives[name]) and found.files(data_folder())}
    readings: dict[str, Callable[[], object]] = {
        f"the corpus {name}": lambda name=name, task=task: look_at_all(name, task) for name, task in here.items()
    }
    words = sorted({word for example in sentences()[1] for word in example.tokens}) if available() else []
    readings |= {f"vectors {name}, words of SST": lambda name=name: read_vectors(name, words) for name in available()}
    return {f"reading {name}": lambda read=read: seconds_of(read) for name, read in readings.items()}
