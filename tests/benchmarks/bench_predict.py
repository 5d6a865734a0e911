"""Predictions for new texts, as the command gives them: `python -m rationale.predict RUN --file FILE --jsonl`.

Seconds from the start of the command to its end, and the largest memory of its process: imports, the model, two
readings of the file (the first one looks for mistakes) and the predictions. The model is an extractor with the sizes of
notebook 12, one thread and random weights, which knows all words. The texts are training sentences of SST (without the
data folder: random words in sentences of their lengths), one per line and repeated as often as needed.

Alone: python -m tests.benchmarks --only bench_predict
"""

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import torch

from rationale.data import Vocabulary
from rationale.models import build_extractor
from rationale.runs import root
from rationale.runs.saved import save_run
from rationale.training.extraction import Result
from tests.benchmarks.bench_training import parameters, sentences

ONCE = True
NUMBERS = (1_000, 100_000)
UNIT = 1 if sys.platform == "darwin" else 1024  # of the largest memory of a process, in bytes


def save_untrained(folder: Path, **changes) -> None:
    """A folder as that of a finished run, with the model of notebook 12 before its training."""
    words = sorted({word for example in sentences()[1] for word in example.tokens})
    vocabulary, p = Vocabulary(words), parameters(**changes)
    torch.manual_seed(p.seed)
    model = build_extractor(p, 0.4 * torch.randn(len(vocabulary), p.embedding_size), "classes", 5)
    save_run(folder, Result(model, vocabulary, {}, {}, [], {"epoch": 0}), p)


def write_texts(path: Path, number: int) -> None:
    """Write so many sentences, one per line."""
    lines = islice(cycle(" ".join(example.tokens) for example in sentences()[1]), number)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def predict(number: int, **changes) -> dict[str, float]:
    """Seconds and peak memory, in MiB, of the command for so many texts."""
    with tempfile.TemporaryDirectory() as place:
        texts, answers = Path(place) / "texts.txt", Path(place) / "answers.jsonl"
        save_untrained(Path(place), **changes)
        write_texts(texts, number)
        command = [sys.executable, "-m", "rationale.predict", place, "--file", str(texts), "--jsonl"]
        settings = os.environ | {"PYTHONPATH": str(root()), "OMP_NUM_THREADS": "1"}
        start = time.perf_counter()
        with open(answers, "w", encoding="utf-8") as file:
            process = subprocess.Popen(command, cwd=root(), env=settings, stdout=file)
            _, status, used = os.wait4(process.pid, 0)  # of this process alone
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        with open(answers, encoding="utf-8") as file:
            assert process.returncode == 0 and sum(1 for _ in file) == number, "not every text has an answer"
        return {"seconds": seconds, "peak_mib": used.ru_maxrss * UNIT / 2**20}


def cases(epochs: int = 1, numbers: tuple[int, ...] = NUMBERS, **changes) -> dict[str, Callable[[], dict[str, dict]]]:
    """The command for so many texts; `epochs` is not used."""
    name = f"predictions by the command, {sentences()[0]}"
    ways = {f"{number:,} texts": functools.partial(predict, number, **changes) for number in numbers}
    return {name: lambda: {text: way() for text, way in ways.items()}}
