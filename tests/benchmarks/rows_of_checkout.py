"""The rows of `before_after`, measured in one checkout of this repository: a program that is asked for one at a time.

It is started once per checkout, with the checkout's folder as working folder and as PYTHONPATH, and imports `rationale`
and `tests` from there. So it may use only what both checkouts have. Each line of its standard input is the name of a
row. It measures the row once and answers with a line of JSON: {"value": number} or {"not possible": reason}.
"""

import functools
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAPPINGS = ("softmax", "sparsemax", "fusedmax", "oscarmax", "sq_pnorm_max")
SCORES = {"random scores": 1.0, "scores near 0": 0.1}  # standard deviations
STEPS = {  # row: (module, beginning of the group, way)
    "step on pairs, HardKuma gates": ("bench_pairs", "one training step, aligner with hardkuma", "the package"),
    "step on reviews, dependent RCNN": ("bench_recurrence", "one training step, dependent", "the package"),
    "step on SST, HardKuma": ("bench_training", "one training step, hardkuma", "the package"),
    "the same, random batches": ("bench_training", "one training step, hardkuma", "the package, random batches"),
}
MEMORY = """
import tracemalloc
from rationale.data.corpora import sst
tracemalloc.start()
splits = sst.read_sst()
size, _ = tracemalloc.get_traced_memory()
print(size / sum(map(len, splits.values())))
"""
TEXTS = 1_000  # of a prediction
NUMBERS = 2_000_000  # of the arrays that are mapped in one round


@functools.cache
def _place() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()  # which is removed when this program ends


def temporary() -> Path:
    """A folder for the results of this program."""
    return Path(_place().name)


@functools.cache
def groups(module: str) -> dict[str, dict[str, Callable]]:
    """The groups of a benchmark of the checkout."""
    return importlib.import_module(f"tests.benchmarks.{module}").cases()


def step(module: str, beginning: str, way: str) -> float:
    """Milliseconds of one way of a group."""
    ways = next(ways for group, ways in groups(module).items() if group.startswith(beginning))
    begin = time.perf_counter()
    own = ways[way]()
    return 1e3 * (own if isinstance(own, float) else time.perf_counter() - begin)


@functools.cache
def _pass(name: str, shape: tuple[int, int], scale: float) -> Callable[[], None]:
    import torch

    from rationale.nn import MAPPINGS as known

    mapping: Any = torch.softmax if name == "softmax" else getattr(known[name], "function", known[name])
    generator = torch.Generator().manual_seed(0)
    scores = (scale * torch.randn(shape, generator=generator)).requires_grad_()
    direction = torch.randn(shape, generator=generator)
    arguments = (-1,) if name == "softmax" else ()
    return lambda: torch.autograd.grad(mapping(scores, *arguments), scores, direction)


def mapping(name: str, shape: tuple[int, int], scale: float) -> float:
    """Milliseconds of a mapping, forward and backward: the mean over several calls where one is short.

    One call alone would be the time until a small array is in the caches, which the other checkout has just filled.
    """
    both, calls = _pass(name, shape, scale), max(1, NUMBERS // (shape[0] * shape[1]))
    both()
    begin = time.perf_counter()
    for _ in range(calls):
        both()
    return 1e3 * (time.perf_counter() - begin) / calls


def whole_run(runs: Any, part: str) -> float:
    """Seconds of a run of SST of one epoch; the folder of the last one is kept."""
    outputs = temporary() / "outputs"
    command = [sys.executable, "-m", "rationale.runs", *runs.SST, "epochs=1", "--name", "bench", "--again"]
    began = time.time()
    runs.execute([*command, "--outputs", str(outputs), "--threads", "1"], Path.cwd())
    return runs.parts(outputs / runs.SST[0] / "bench", began, time.time())[part]


def tiny_runs(runs: Any) -> float:
    """Seconds per tiny run of a sweep, with two at a time, as the checkout makes sweeps."""
    given = {"cores": 2} if "cores" in inspect.signature(runs.sweep).parameters else {}
    return runs.sweep(8, **given)["wall"]


def prediction() -> float:
    """Seconds of the command that predicts for 1,000 sentences, with the model of the run of SST."""
    from rationale.data.corpora import sst

    file, run = temporary() / "texts.txt", temporary() / "outputs" / "12_train_sst" / "bench"
    if not file.exists():
        texts = [" ".join(example.tokens) for example in sst.read_sst()["train"][:TEXTS]]
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    command = [sys.executable, "-m", "rationale.predict", str(run), "--file", str(file), "--jsonl"]
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def memory() -> float:
    """Bytes that Python holds per text of SST when all are read."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    return float(done.stdout)


def rows() -> dict[str, Callable[[], float]]:
    """How each row is measured once, by name."""
    runs = importlib.import_module("tests.benchmarks.bench_runs")
    found: dict[str, Callable[[], float]] = {
        "a run of SST, beyond its training": lambda: whole_run(runs, "beyond training epochs"),
        "a tiny run in a sweep, two at a time": lambda: tiny_runs(runs),
        "predictions for 1,000 sentences": prediction,
        "memory per text of SST": memory,
    }
    found |= {row: functools.partial(step, *where) for row, where in STEPS.items()}
    for shape in ((512, 64), (4096, 512)):
        for scores, scale in SCORES.items():
            for name in MAPPINGS:
                found[f"{name}, {list(shape)}, {scores}"] = functools.partial(mapping, name, shape, scale)
    return found


def main() -> None:
    import torch

    torch.set_num_threads(1)
    answers, known = os.fdopen(os.dup(1), "w"), rows()
    os.dup2(2, 1)  # whatever else is printed is no answer
    for line in sys.stdin:
        try:
            answer = {"value": known[line.strip()]()}
        except Exception as error:
            answer = {"not possible": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
