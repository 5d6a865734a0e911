"""How fast the package is: every bench_*.py beside this file, timed on this machine."""

import argparse
import datetime
import importlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from rationale.errors import BadInput
from rationale.runs.environment import USUAL
from tools.speed import authors_lines, last_duration

EPILOG = """\
Close other programs first: a busy machine changes all figures, the ratios least.

How the figures are made. The callables of a group are called in turn, round after round, so that a machine
that slows down does so for all of them; the first two rounds are thrown away. `times as fast` compares each with
the first of its group, round by round: the median of these ratios, and their quartiles in brackets.
Whole runs, sweeps, readings of files, predictions and answers are made once, without rounds; their figures are
seconds, and for predictions also the largest memory of the process. Memory is kept as in runs (GLIBC_TUNABLES; see
`USUAL` in rationale/runs/environment.py).

examples:
  python -m tests.benchmarks                               everything; how long it takes is printed first
  python -m tests.benchmarks --only step                   only groups or files with "step" in their name
  python -m tests.benchmarks --only "run of SST" --epochs 25      a whole run, as long as a real one
  python -m tests.benchmarks --threads 2 --rounds 50       more rounds, with two threads only
  make speed                                               everything, and the section Speed of RESULTS.md

The benchmarks of reading and the run of SST want real data: set RATIONALE_DATA to the folder that holds it.
"""
WARM_UPS = 2


def machine() -> dict[str, str | int]:
    """What the figures depend on."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    python = platform.python_version()
    return {"cpu": cpu, "cores": os.cpu_count(), "load": load, "python": python, "torch": torch.__version__}


def times(ways: dict[str, Callable], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Seconds of each callable, round by round.

    Parameters
    ----------
    ways : name -> callable
    rounds : int
        0: as many as fit into `seconds`, at least 5 and at most 60.
    seconds : float
    """
    taken = {name: [] for name in ways}
    begin, done = time.perf_counter(), 0
    while True:
        names = list(ways)
        turn = done % len(names)
        for name in names[turn:] + names[:turn]:  # nobody always comes after the same one
            start = time.perf_counter()
            own = ways[name]()
            taken[name].append(own if isinstance(own, float) else time.perf_counter() - start)
        done += 1
        enough = done - WARM_UPS
        late = time.perf_counter() - begin > seconds
        if (enough >= rounds) if rounds else enough >= 60 or (enough >= 5 and late):
            return {name: values[WARM_UPS:] for name, values in taken.items()}


def quartiles(values: list[float]) -> list[float]:
    """The quartiles; three times the same if there is one value."""
    return statistics.quantiles(values, method="inclusive") if len(values) > 1 else 3 * values


def table(taken: dict[str, list[float]], compared: bool) -> list[dict]:
    """One row a callable: median, minimum, and quartiles of how many times as fast it is as the first."""
    base = next(iter(taken.values()))
    rows = []
    for name, values in taken.items():
        row = {"name": name, "median_ms": 1e3 * statistics.median(values), "min_ms": 1e3 * min(values)}
        if compared:
            ratios = [first / own for first, own in zip(base, values, strict=True)]
            row["times_as_fast"] = quartiles(ratios)
        rows.append(row)
    return rows


def show(title: str, rows: list[dict]) -> None:
    width = max(len(row["name"]) for row in rows)
    if "seconds" in rows[0]:
        print(f"\n{title}\n  {'':{width}}    seconds" + "  peak memory, MiB" * ("peak_mib" in rows[0]))
        for row in rows:
            memory = f"  {row['peak_mib']:16,.0f}" if "peak_mib" in row else ""
            digits = 2 if row["seconds"] >= 1 else 4
            print(f"  {row['name']:{width}}  {row['seconds']:9.{digits}f}{memory}", flush=True)
        return
    compared = "times_as_fast" in rows[0]
    print(f"\n{title}\n  {'':{width}}  median ms     min ms" + compared * "  times as fast")
    for row in rows:
        line = f"  {row['name']:{width}}  {row['median_ms']:9.2f}  {row['min_ms']:9.2f}"
        if compared:
            low, middle, high = row["times_as_fast"]
            line += f"  {middle:5.2f} ({low:.2f} to {high:.2f})"
        print(line, flush=True)


def measured(path: Path, asked: argparse.Namespace) -> Iterator[dict]:
    """Measure and print the groups of a file that are asked for. A group whose data are missing has no ways."""
    module = importlib.import_module(f"{__package__}.{path.stem}")
    compared, once = getattr(module, "COMPARED", True), getattr(module, "ONCE", False)
    groups = module.cases(epochs=asked.epochs) if once else module.cases()
    for group, ways in groups.items():
        if asked.only.lower() not in f"{path.stem} {group}".lower():
            continue
        if once:
            try:
                rows = [
                    {"name": name} | (value if isinstance(value, dict) else {"seconds": value})
                    for name, value in ways().items()
                ]
            except BadInput as error:
                rows = []
                print(f"\n{group}: skipped, {error}", flush=True)
            else:
                show(group, rows)
            yield {"group": group, "threads": 1, "ways": rows}
            continue
        for threads in asked.threads if compared else asked.threads[:1]:
            torch.set_num_threads(threads)
            rows = table(times(ways, asked.rounds, asked.seconds), compared)
            show(f"{group}; {threads} thread{'s' * (threads > 1)}" if compared else group, rows)
            for line in authors_lines(group, rows, threads):
                print(f"  {line}", flush=True)
            yield {"group": group, "threads": threads, "ways": rows}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.benchmarks", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", metavar="TEXT", default="", help="groups or files with TEXT in their name")
    parser.add_argument("--threads", metavar="N", type=int, nargs="+", default=[2, 1],
                        help="numbers of threads to compare with, one after the other; default: 2 1")  # fmt: skip
    parser.add_argument("--rounds", metavar="N", type=int, default=0,
                        help="rounds of a group; default: as many as fit into --seconds, 5 to 60")  # fmt: skip
    parser.add_argument("--seconds", metavar="S", type=float, default=15, help="time for a group; default: 15")
    parser.add_argument("--epochs", metavar="N", type=int, default=1, help="of the run of SST; default: 1")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures to FILE")
    asked = parser.parse_args(arguments)
    if min(*asked.threads, asked.epochs) < 1 or asked.rounds < 0:
        parser.error("--threads and --epochs take whole numbers from 1, --rounds from 0")
    facts = machine()
    print("{cpu}, {cores} cores, load {load}; Python {python}, torch {torch}".format(**facts))
    began, expected = time.monotonic(), "" if asked.only else last_duration()
    if expected:
        print(expected)
    found = [group for path in sorted(Path(__file__).parent.glob("bench_*.py")) for group in measured(path, asked)]
    if not found:
        parser.error(f"--only {asked.only}: no group or file has this in its name")
    if asked.json:
        record = {"date": datetime.date.today().isoformat(), "machine": facts}
        if not asked.only:
            record["minutes"] = (time.monotonic() - began) / 60
        record["groups"] = [group for group in found if group["ways"]]
        text = json.dumps(record, indent=1, default=str)
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(text + "\n", encoding="utf-8")
        print(f"\nwritten: {asked.json}")
    return 0


def as_runs_do() -> None:
    """Start this program again with a run's settings of memory, which are read when a process begins."""
    name, kept = "GLIBC_TUNABLES", USUAL["GLIBC_TUNABLES"]
    if os.environ.get(name) == kept:
        del os.environ[name]  # the programs that this one starts are as they always are
    elif sys.platform == "linux" and name not in os.environ:
        os.environ[name] = kept
        os.execv(sys.executable, [sys.executable, "-m", __package__, *sys.argv[1:]])


if __name__ == "__main__":
    as_runs_do()
    sys.exit(main())
