"""How long an answer takes: one text, and 1,000 at a time, from a model that is there already and from a new process.

`warm` is the median of several calls of a loaded model (of 1,000 texts, one call after a first one with other texts).
`cold` is a new process, from its start to its end: imports, the model, and one call. Each is measured with torch
(`rationale.load`) and with onnxruntime (`model.export` and its reader), on one thread, for a model with selection and
for the same encoder that reads the whole text. The encoders are an LSTM with the sizes of notebook 12 and MiniLM; their
gates start at a rate of 20 % and are not trained. The texts are training sentences of SST, or for the LSTM also reviews
of about 200 words, which are sentences in a row.

Alone: python -m tests.benchmarks --only bench_latency
"""

import functools
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import torch

import rationale
from rationale.data import Vocabulary
from rationale.data.word_pieces import build_pieces
from rationale.models import build_extractor
from rationale.nn.encoders import ENCODERS
from rationale.runs import root
from rationale.runs.onnx_reader import load as load_exported
from rationale.runs.saved import save_run
from rationale.training.extraction import Result
from tests.benchmarks.bench_training import parameters, sentences

ONCE = True
NUMBER, CALLS, RATE = 1_000, 30, 0.2
FORMS = {"selection": "hardkuma", "full text": "full_text"}
READ = "([line.strip() for line in open(sys.argv[1], encoding='utf-8')])"
PROGRAMS = {  # of a new process in the folder of a run
    "torch": f"import rationale, sys; rationale.load('.'){READ}",
    "onnxruntime": f"import rationale_reader, sys; rationale_reader.load('model.onnx', threads=1){READ}",
}


def texts_of(words: int, number: int) -> list[str]:
    """So many texts: sentences one by one, or in a row until they have at least `words` words."""
    found: list[str] = []
    lines = chain.from_iterable(iter(lambda: sentences()[1], None))
    for _ in range(number):
        text = next(lines).tokens
        while len(text) < words:
            text = (*text, *next(lines).tokens)
        found.append(" ".join(text))
    return found


def save_untrained(folder: Path, encoder: str, model: str, **changes) -> None:
    """A folder as that of a finished run, before its training."""
    p, examples = parameters(encoder=encoder, model=model, **changes), sentences()[1]
    torch.manual_seed(p.seed)
    if ENCODERS[encoder].reads_pieces:
        vocabulary, table = build_pieces({"train": examples}, ENCODERS[encoder].tokenizer(p))
    else:
        vocabulary = Vocabulary(sorted({word for example in examples for word in example.tokens}))
        table = 0.4 * torch.randn(len(vocabulary), p.embedding_size)
    built = build_extractor(p, table, "classes", 5)
    if built.selector is not None:
        built.selector.start_at(RATE)
    save_run(folder, Result(built, vocabulary, {}, {}, [], {"epoch": 0}), p)


def loaded(way: str, folder: Path) -> Callable[[Sequence[str]], object]:
    """The model in the folder of a run, in one of the ways of `PROGRAMS`."""
    return rationale.load(folder) if way == "torch" else load_exported(folder / "model.onnx", threads=1)


def warm(model: Callable[[Sequence[str]], object], texts: Sequence[str], number: int) -> float:
    """Seconds of a call with one text or with all texts, after a first one with some of them."""
    model(texts[-1 - len(texts) // 10 :])
    taken = []
    for call in range(CALLS if number == 1 else 1):
        asked = texts[call % len(texts) :][:1] if number == 1 else texts
        begin = time.perf_counter()
        model(asked)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def cold(way: str, folder: Path, texts: Sequence[str]) -> float:
    """Seconds of a new process that loads the model and reads the texts."""
    file = folder / "texts.txt"
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    settings = os.environ | {"PYTHONPATH": str(root()), "OMP_NUM_THREADS": "1"}
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAMS[way], file.name], cwd=folder, env=settings, check=True)
    return time.perf_counter() - begin


def latency(encoder: str, words: int, number: int, **changes) -> dict[str, dict[str, float]]:
    """Seconds of each form and way, cold and warm, for one text and for so many texts."""
    ways = ["torch"] + ["onnxruntime"] * all(map(importlib.util.find_spec, ("onnxruntime", "onnxscript")))
    texts, rows, threads = texts_of(words, number), {}, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for form, model in FORMS.items():
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                save_untrained(folder, encoder, model, **changes)
                if len(ways) > 1:
                    rationale.load(folder).export(folder / "model.onnx")
                for way in ways:
                    asked = loaded(way, folder)
                    for count in (1, number):
                        what = f"{form}, {way}: {count:,} text{'s' * (count > 1)}"
                        rows[f"{what}, warm"] = {"seconds": warm(asked, texts, count)}
                        rows[f"{what}, cold"] = {"seconds": cold(way, folder, texts[:count])}
    finally:
        torch.set_num_threads(threads)
    return rows


def cases(epochs: int = 1, number: int = NUMBER, **changes) -> dict[str, Callable[[], dict[str, dict]]]:
    """Answers of each encoder; `epochs` is not used."""
    source = sentences()[0]
    groups = {f"answers of an LSTM, {source}": ("lstm", 0), "answers of an LSTM, reviews of 200 words": ("lstm", 200)}
    if importlib.util.find_spec("transformers"):
        groups[f"answers of MiniLM, {source}"] = ("minilm", 0)
    return {name: functools.partial(latency, *case, number, **changes) for name, case in groups.items()}
