"""Whether `torch.compile` makes training steps on this CPU faster: `python -m tests.benchmarks.compiled`.

Loss and gradients of one batch, as the loop computes them, without the optimiser. Both ways hold the same weights:

as it is     the objective and the model, as runs use them
compiled     the same function within `torch.compile`, for one batch whose shape never changes: its best case, as every
             new shape would be compiled again. The first call, which compiles, is timed apart

Each case has a process of its own, and a limit of seconds. Where the compiler fails, or does not end before the limit,
this is written down instead of the times. Where it meets what it cannot read (a number that Python needs, a loop in
numba), it leaves that part as it is. A C++ compiler is needed. The figures are written to
outputs/reference/bench_compiled.json, and `python -m tools.speed` makes a table of RESULTS.md from them.
"""

import argparse
import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rationale.data import Batch, Batches, Vocabulary
from rationale.files import write_text
from rationale.objectives import build_objective
from rationale.runs.committed import reference_folder
from tests.benchmarks import bench_pairs, bench_recurrence, bench_training
from tests.benchmarks.__main__ import machine, show, table, times

AS_IT_IS, COMPILED = "as it is", "compiled"
Step = Callable[[], None]


def steps_of(model: nn.Module, p: Any, batch: Batch) -> tuple[Step, Step]:
    """Loss and gradients of a batch: as it is, and compiled."""
    objective = build_objective(p).train()

    def loss() -> torch.Tensor:
        return objective(model, batch).loss

    def step(compute: Callable[[], torch.Tensor]) -> None:
        model.zero_grad()
        compute().backward()

    compiled = torch.compile(loss, dynamic=False)
    return lambda: step(loss), lambda: step(compiled)


def sentences_of_median_length() -> tuple[nn.Module, Any, Batch]:
    """A batch of SST (or of sentences of its lengths) and its extractor."""
    p = bench_training.parameters(model="hardkuma")
    _, examples = bench_training.sentences()
    vocabulary = Vocabulary(sorted({word for example in examples for word in example.tokens}))
    torch.manual_seed(0)
    model, _ = bench_training.models(p, 0.4 * torch.randn(len(vocabulary), p.embedding_size))
    few = bench_training.Few(Batches(examples, vocabulary, p.batch_size, p.seed, True), 1)
    return model.train(), p, next(few.epoch(1))


def pairs() -> tuple[nn.Module, Any, Batch]:
    """64 pairs of SNLI's lengths and their aligner."""
    p = bench_pairs.parameters("13_train_nli", model="hardkuma", selection=0.1, dropout=bench_pairs.PAPERS_DROPOUT)
    return bench_pairs.aligner_of(p), p, bench_pairs.batch_of(64, bench_pairs.SNLI)


def reviews() -> tuple[nn.Module, Any, Batch]:
    """64 texts of 128 tokens and the extractor of the paper for beer."""
    p = bench_training.parameters(**bench_recurrence.BEER)
    return bench_recurrence.model_of(p), p, bench_recurrence.batch_of(64, 128)


CASES = {
    "hardkuma, 25 sentences of SST": sentences_of_median_length,
    "aligner with hardkuma gates, 64 pairs of 15 and 9 words": pairs,
    "dependent hardkuma, RCNN, 64 texts of 128 tokens": reviews,
}


def measured(name: str, seconds: float) -> dict[str, Any]:
    """Both ways of one case: medians, ratios, and the seconds that the first compiled call took."""
    as_it_is, compiled = steps_of(*CASES[name]())
    begin = time.perf_counter()
    compiled()
    first = time.perf_counter() - begin
    ways = table(times({AS_IT_IS: as_it_is, COMPILED: compiled}, 0, seconds), compared=True)
    return {"group": name, "first_call_seconds": first, "ways": ways}


def within(limit: float, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """The figures of a case, measured in a process of its own; what went wrong if there are none."""
    command = [sys.executable, "-m", "tests.benchmarks.compiled", "--case", name]
    command += ["--threads", str(asked.threads), "--seconds", str(asked.seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"group": name, "failed": f"the compiler had not ended after {limit:.0f} seconds"}
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "Error" in line] or ["no message"]
        return {"group": name, "failed": errors[-1][:120]}
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.compiled", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="default: 1")
    parser.add_argument("--seconds", metavar="S", type=float, default=30, help="time for a case; default: 30")
    parser.add_argument("--limit", metavar="S", type=float, default=600, help="of a case, with compiling; default: 600")
    parser.add_argument("--case", choices=CASES, help="print the figures of this case, as JSON, and write nothing")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.case:
        print(json.dumps(measured(asked.case, asked.seconds)))
        return 0
    groups = []
    for name in CASES:
        groups.append(group := within(asked.limit, name, asked))
        if "failed" in group:
            print(f"\n{name}: {group['failed']}", flush=True)
        else:
            show(f"{name}; the first compiled call took {group['first_call_seconds']:.0f} s", group["ways"])
    record = {"date": datetime.date.today().isoformat(), "machine": machine(), "threads": asked.threads}
    path = reference_folder() / "bench_compiled.json"
    write_text(path, json.dumps(record | {"groups": groups}, indent=1) + "\n")
    print(f"\nwritten: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
