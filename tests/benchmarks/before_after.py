"""What has become faster since a commit: rows measured in two checkouts in turn, on one machine, in one run.

    git worktree add /tmp/before COMMIT
    python -m tests.benchmarks.before_after --before /tmp/before --json outputs/reference/bench_before_after.json
    python -m tools.speed

Both checkouts use the Python and the libraries of this one, one thread, and the data of RATIONALE_DATA. A process per
checkout measures each row (`rows_of_checkout`), in turn with the other: before, after, after, before and so on. The
first round of each step is thrown away. Rows that the old code cannot measure are noted as not possible.

whole runs     seconds; a run of SST is that of `params/sst/hardkuma.yaml` with one epoch, with everything except the
               seconds of the epoch; a tiny run is the mean over a sweep of eight, where both cores count
steps          milliseconds of a training step at the papers' sizes, as in the other benchmarks
mappings       milliseconds, forward and backward
memory         bytes that Python holds per text when the corpus has been read

An aim is the largest value that was asked for, of a mapping as a multiple of softmax.
"""

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rationale.runs import root
from rationale.runs.environment import USUAL
from tests.benchmarks.__main__ import machine, quartiles
from tests.benchmarks.rows_of_checkout import MAPPINGS, SCORES, STEPS

ISSUE = "24"
MEMORY = {"GLIBC_TUNABLES": USUAL["GLIBC_TUNABLES"]}  # as runs have it
WHOLE = {  # row: unit
    "a run of SST, beyond its training": "s",
    "a tiny run in a sweep, two at a time": "s",
    "predictions for 1,000 sentences": "s",
    "memory per text of SST": "bytes",
}
AIMS = {  # by the beginning of a row
    "a run of SST": 8.0,
    "a tiny run": 3.0,
    "sparsemax": 2.0,
    "fusedmax": 8.0,
    "oscarmax": 8.0,
}
SHAPES = ("[512, 64]", "[4096, 512]")


class Checkout:
    """A process that measures rows in a checkout."""

    def __init__(self, folder: Path):
        self.folder = folder
        settings = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"} | MEMORY
        program = Path(__file__).with_name("rows_of_checkout.py")
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(program)], cwd=folder, env=settings, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def measure(self, row: str) -> float | str:
        """The row, measured once; or the reason why this is not possible."""
        told, answers = self._pipes()
        print(row, file=told, flush=True)
        answer = json.loads(answers.readline() or '{"not possible": "the process has ended"}')
        return answer.get("value", answer.get("not possible"))

    def end(self) -> None:
        """End the process, which then removes its files."""
        self._pipes()[0].close()
        self.process.wait()

    def commit(self) -> dict[str, str]:
        """The commit of the checkout and its date."""
        command = ["git", "-C", str(self.folder), "log", "-1", "--format=%h %cs"]
        name, date = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return {"commit": name, "date": date}

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        return self.process.stdin, self.process.stdout


def planned(runs: int, rounds: int) -> Iterator[tuple[list[str], int, int]]:
    """Rows that are measured in turn, how often, and how many of the first rounds are thrown away."""
    for row in WHOLE:
        few = min(runs, 2) if "sweep" in row else 1 if "memory" in row else runs
        yield [row], few, 0
    for row in STEPS:
        yield [row], rounds, 1
    for shape in SHAPES:
        for scores in SCORES:
            yield [f"{name}, {shape}, {scores}" for name in MAPPINGS], rounds, 2


def measured(before: Checkout, after: Checkout, rows: list[str], repetitions: int, thrown: int) -> list[dict]:
    """Some rows, measured in turn in both checkouts."""
    values: dict[tuple[str, str], list[float]] = {}
    reasons: dict[tuple[str, str], str] = {}
    for number in range(repetitions + thrown):
        pair = [("before", before), ("after", after)]
        for row in rows:
            for name, checkout in pair if number % 2 == 0 else pair[::-1]:
                if (row, name) in reasons:
                    continue
                found = checkout.measure(row)
                if isinstance(found, str):
                    reasons[row, name] = found
                elif number >= thrown:
                    values.setdefault((row, name), []).append(found)
    return [_row(row, values, reasons) for row in rows]


def _row(row: str, values: dict[tuple[str, str], list[float]], reasons: dict[tuple[str, str], str]) -> dict:
    aim = next((aim for beginning, aim in AIMS.items() if row.startswith(beginning)), None)
    result: dict = {"row": row, "unit": WHOLE.get(row, "ms"), "aim": aim}
    for name in ("before", "after"):
        if (row, name) in reasons:
            result[name] = {"not possible": reasons[row, name]}
        else:
            low, middle, high = quartiles(values[row, name])
            result[name] = {"median": middle, "quartiles": [low, high], "repetitions": len(values[row, name])}
    if not any((row, name) in reasons for name in ("before", "after")):
        pairs = zip(values[row, "before"], values[row, "after"], strict=True)
        result["times"] = quartiles([old / new for old, new in pairs])
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.benchmarks.before_after", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--before", type=Path, required=True, metavar="DIR", help="a checkout of the old commit")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="whole runs of each kind; default: 3")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="rounds of each step; default: 20")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows with TEXT in their name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    asked = parser.parse_args(arguments)
    began, found = time.monotonic(), []
    record = {"date": datetime.date.today().isoformat(), "machine": machine()}
    with contextlib.ExitStack() as stack:
        before, after = Checkout(asked.before.resolve()), Checkout(root())
        for checkout in (before, after):
            stack.callback(checkout.end)
        for rows, repetitions, thrown in planned(asked.runs, asked.rounds):
            rows = [row for row in rows if asked.only in row]
            for result in measured(before, after, rows, repetitions, thrown) if rows else []:
                found.append(result)
                print(json.dumps(result), flush=True)
        record |= {"before": before.commit(), "after": after.commit()}
    record |= {"minutes": (time.monotonic() - began) / 60, "rows": found}
    if asked.json:
        asked.json.write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")
        print(f"written: {asked.json}, {record['minutes']:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
