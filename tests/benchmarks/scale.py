"""How reading, batches and training grow with the number of texts: `python -m tests.benchmarks.scale`.

Made-up texts of 100 words, one per line of a text file, from a vocabulary of 50,000 words whose frequencies follow
Zipf's law. Each number of texts is measured once, in a process of its own with one thread:

first batch   seconds from the closed file to the first batch: read and split the lines, make an `Example` of each,
              number the words (`build_vocabulary`, random vectors of 16), make `Batches`, cut the first batch
memory        growth of the process during this, less 4 bytes per word (the numbers of the words, int32), per text
peak          the largest size of the process meanwhile, less its size before, per text; with the numbers of the words
batches       seconds to cut all batches of one epoch, 256 texts each, without a model: measured from first to last
epoch         seconds of one epoch of training a tiny extractor (HardKuma gates, LSTMs of 8 units): the mean step of
              the first 20 batches of an epoch, after 3 that are not counted, times the number of batches

The numbers are written to outputs/reference/scale.json with everything they depend on, their growth is drawn in
outputs/reference/figures/scale.svg, and `python -m tools.collect --tables-only` writes the table of RESULTS.md.
"""

import argparse
import datetime
import gc
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from rationale import training
from rationale.data import Batches, Example, build_vocabulary
from rationale.data.files import read_lines
from rationale.files import write_text
from rationale.models import build_extractor
from rationale.objectives import build_objective
from rationale.runs.committed import reference_folder
from rationale.runs.workspace import root
from tests.benchmarks.__main__ import machine
from tests.benchmarks.bench_training import parameters

NUMBERS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SETTINGS = {"words per text": 100, "vocabulary": 50_000, "batch size": 256, "units": 8, "vector size": 16, "seed": 0}
WARM_UPS, STEPS = 3, 20


def write_texts(path: Path, number: int) -> None:
    """Write so many made-up texts, one per line; the same number gives the same file."""
    rng = np.random.default_rng(SETTINGS["seed"])
    words = np.array([f"w{i}" for i in range(SETTINGS["vocabulary"])], dtype=object)
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    with open(path, "w", encoding="utf-8") as file:
        for start in range(0, number, 10_000):
            size = (min(10_000, number - start), SETTINGS["words per text"])
            rows = words[np.searchsorted(shares, rng.random(size) * shares[-1])]
            file.writelines(f"{' '.join(row)}\n" for row in rows)


def measure(number: int, folder: Path) -> dict[str, float]:
    """What so many texts take, in this process; see the top of this file."""
    torch.set_num_threads(1)
    torch.manual_seed(SETTINGS["seed"])
    path, length = folder / "texts.txt", SETTINGS["words per text"]
    write_texts(path, number)
    gc.collect()
    process, begin = psutil.Process(), time.perf_counter()
    before = process.memory_info().rss
    examples = [Example(tuple(line.split()), row % 5) for row, line in enumerate(read_lines(path))]
    vocabulary, vectors = build_vocabulary({"train": examples}, "random", dim=SETTINGS["vector size"])
    batches = Batches(examples, vocabulary, SETTINGS["batch size"])
    next(iter(batches.epoch(1)))
    first = time.perf_counter() - begin
    peak = _peak() - before
    gc.collect()
    kept = process.memory_info().rss - before
    begin = time.perf_counter()
    for batch in batches.epoch(1):
        assert batch.tokens.shape[1] == length
    cut = time.perf_counter() - begin
    step = _step_seconds(batches, vectors)
    return {
        "texts": number,
        "first batch": first,
        "bytes per text": kept / number - 4 * length,
        "peak bytes per text": peak / number,
        "batches": cut,
        "step": step,
        "epoch": step * len(batches),
    }


def _peak() -> int:
    """The largest size of this process so far, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/self/status: no line VmHWM; the benchmark needs Linux")


def _step_seconds(batches: Batches, vectors: torch.Tensor) -> float:
    """Mean seconds of a training step of a tiny extractor."""
    p = parameters(hidden_size=SETTINGS["units"], vectors="random", embedding_size=SETTINGS["vector size"])
    model, objective = build_extractor(p, vectors, "classes", 5).train(), build_objective(p).train()
    optimizer, taken = training.build_optimizer(model, p), []
    for number, batch in enumerate(batches.epoch(2)):
        begin = time.perf_counter()
        loss = objective(model, batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(time.perf_counter() - begin)
        if number + 1 == WARM_UPS + STEPS:
            break
    counted = taken[WARM_UPS:] or taken
    return sum(counted) / len(counted)


def write(sizes: list[dict[str, float]], folder: Path) -> None:
    """Write `scale.json` and the figure."""
    record: dict[str, Any] = {"date": datetime.date.today().isoformat(), "machine": machine(), "settings": SETTINGS}
    rounded = [{key: float(f"{value:.4g}") for key, value in row.items()} | {"texts": row["texts"]} for row in sizes]
    lines = ",\n  ".join(map(json.dumps, rounded))
    head = json.dumps(record, indent=1).removesuffix("\n}")
    write_text(folder / "scale.json", f'{head},\n "sizes": [\n  {lines}\n ]\n}}\n')
    draw(sizes, folder / "figures")


def draw(sizes: list[dict[str, float]], folder: Path) -> None:
    """Write `scale.svg`: seconds against the number of texts, on logarithmic scales, each beside a line of slope 1."""
    from rationale.figures import new_figure, save_figure, style

    fig, ax = new_figure()
    numbers = [row["texts"] for row in sizes]
    with style():
        names = {"first batch": "to the first batch", "epoch": "an epoch, tiny model", "batches": "batches of an epoch"}
        for (key, label), marker in zip(names.items(), "osD", strict=True):
            (line,) = ax.plot(numbers, [row[key] for row in sizes], marker=marker, label=label)
            linear = [sizes[-1][key] * number / numbers[-1] for number in numbers]
            ax.plot(numbers, linear, linestyle=":", linewidth=1, color=line.get_color())
        ax.set(xscale="log", yscale="log", xlabel="texts of 100 words", ylabel="seconds")
        exponent = growth(sizes, "epoch")
        ax.set_title(f"Time grows in proportion to the number of texts\n(epoch: to the power {exponent:.2f})")
        ax.legend()
    save_figure(fig, folder, "scale")


def growth(sizes: list[dict[str, float]], key: str) -> float:
    """The exponent e of a quantity that grows like texts^e, between the smallest and the largest number."""
    first, last = sizes[0], sizes[-1]
    return math.log(last[key] / first[key]) / math.log(last["texts"] / first["texts"])


def main(arguments: list[str] | None = None) -> int:
    form = argparse.ArgumentParser(
        "python -m tests.benchmarks.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    form.add_argument("--numbers", metavar="N", type=int, nargs="+", default=NUMBERS, help="numbers of texts")
    form.add_argument("--to", metavar="FOLDER", type=Path, default=reference_folder(), help="for scale.json, figures/")
    form.add_argument("--one", metavar="N", type=int, help="measure this number here and print the measurement")
    options = form.parse_args(arguments)
    if options.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.one, Path(folder))))
        return 0
    sizes: list[dict[str, float]] = []
    for number in sorted(options.numbers):
        command = [sys.executable, "-m", "tests.benchmarks.scale", "--one", str(number)]
        done = subprocess.run(command, cwd=root(), stdout=subprocess.PIPE, text=True, check=True)
        sizes.append(json.loads(done.stdout))
        print(done.stdout, end="", flush=True)
    write(sizes, options.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
