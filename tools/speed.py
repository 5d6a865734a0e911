"""How fast the package is: the tables of RESULTS.md, from two committed files, and what `make bench` prints.

bench.json          what `make bench` measured last: the ways of each group in turn, on one machine
bench_before_after.json  what has become faster since a commit (`python -m tests.benchmarks.before_after`)
bench_compiled.json what `torch.compile` changes (`python -m tests.benchmarks.compiled`)
bench_gpu.json      a GPU beside the CPU of its machine (`make bench-gpu`)
bench_authors.json  how many times as fast as the authors' own code the package was, measured once

A group of bench.json whose first way is called "the usual way" and whose second is called "the package" (more may
follow in the name) becomes a row of the first table, without further work. A way called "the floor" is what the
package could not do without.

    python -m tools.speed      rewrites the section of RESULTS.md from these files
"""

import functools
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rationale.errors import command, shown
from rationale.files import write_text
from rationale.runs.committed import reference_folder
from rationale.runs.needed import time_in_words
from rationale.runs.workspace import root
from tools import command_line

USUAL, PACKAGE, FLOOR = "the usual way", "the package", "the floor"  # how the names of ways begin


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([first, "|" + "---|" * len(heads), *others])


def without_repeats(rows: list[list[str]]) -> list[list[str]]:
    """The rows, with an empty first cell where it would repeat the first cell of the previous row."""
    before = [None, *(row[0] for row in rows)]
    return [["" if row[0] == last else row[0], *row[1:]] for row, last in zip(rows, before, strict=False)]


def rewritten(page: str, tables: dict[str, str]) -> str:
    """The text of a page in which each part `<!-- results: NAME -->` ... `<!-- end -->` of a given name is replaced."""

    def table(match: re.Match) -> str:
        content = tables.get(match[1])
        return match[0] if content is None else f"<!-- results: {match[1]} -->\n{content}\n<!-- end -->"

    return re.sub(r"<!-- results: (\w+) -->\n.*?<!-- end -->", table, page, flags=re.S)


# ------------------------------------------------------------------------------------------------ the authors' code
@functools.cache
def authors() -> dict[str, Any]:
    """The measurement beside the authors' code."""
    return json.loads((reference_folder() / "bench_authors.json").read_text(encoding="utf-8"))


def ratio(values: Sequence[float]) -> str:
    """`1.95`, or `3.7 to 17` for a range."""
    return " to ".join(f"{value:g}" for value in values)


def authors_ratio(group: str, way: str, threads: int) -> str:
    """How many times as fast as the authors' code a way of a group was, where this was measured; otherwise ""."""
    for one in authors()["measurements"]:
        if one.get("way") == way and group.startswith(one["group"]):
            values = one["threads"].get(str(threads), one["threads"].get("unknown", []))
            return ratio(values)
    return ""


def where_authors() -> str:
    """The machine and the date of the measurement beside the authors' code."""
    machine, date = authors()["machine"], authors()["date"]
    return f"{machine['cpu']}, {machine['cores']} cores, {date} (day {authors()['day']})"


def last_duration() -> str:
    """How long the last complete measurement took, and where; "" if it was not recorded."""
    path = reference_folder() / "bench.json"
    bench = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "minutes" not in bench:
        return ""
    return f"the last complete run took {time_in_words(bench['minutes'])} ({bench['machine']['cpu']})"


def authors_lines(group: str, rows: list[dict], threads: int) -> Iterator[str]:
    """What `make bench` prints below a group: how the package compared with the authors' code."""
    for row in rows:
        found = authors_ratio(group, row["name"], threads)
        if found:
            yield f"{row['name']}: {found} times as fast as the authors' code ({where_authors()})"


# ------------------------------------------------------------------------------------------------------- the tables
def milliseconds(way: dict | None) -> str:
    """The median; "" if there is no such way."""
    return "" if way is None else f"{way['median_ms']:.{1 if way['median_ms'] >= 10 else 2}f}"


def times_as_fast(way: dict) -> str:
    """The median of the ratios and their quartiles; 1 for the way that the others are compared with."""
    low, middle, high = way["times_as_fast"]
    return "1" if low == high == 1 else f"{middle:.2f} ({low:.2f} to {high:.2f})"


def named(ways: list[dict], beginning: str) -> dict | None:
    """The first way whose name begins so."""
    return next((way for way in ways if way["name"].startswith(beginning)), None)


def compares(group: dict) -> bool:
    """Whether a group compares the package with the usual way."""
    names = [way["name"] for way in group["ways"] if "times_as_fast" in way]
    return len(names) > 1 and names[0].startswith(USUAL) and names[1].startswith(PACKAGE)


def summary_table(groups: list[dict]) -> str:
    """The package beside the usual way, the floor and the authors' code, one row per group and number of threads."""
    heads = ["what", "threads", "the usual way, ms", "the package, ms", "times as fast", "the floor, ms"]
    heads += ["of the floor", "the authors' code"]
    rows = []
    for group in filter(compares, groups):
        usual, package, floor = group["ways"][0], group["ways"][1], named(group["ways"], FLOOR)
        cells = [group["group"], str(group["threads"]), milliseconds(usual), milliseconds(package)]
        cells += [times_as_fast(package), milliseconds(floor)]
        cells.append("" if floor is None else f"{package['median_ms'] / floor['median_ms']:.2f}")
        rows.append([*cells, authors_ratio(group["group"], package["name"], group["threads"])])
    return markdown(heads, without_repeats(rows))


def ways_table(groups: list[dict]) -> str:
    """Every way that is compared with the first of its group, one row per way."""
    counts = sorted({group["threads"] for group in groups}, reverse=True)
    heads = [f"{head}, {n} thread{'s' * (n > 1)}" for n in counts for head in ("ms", "times as fast")]
    compared: dict[tuple[str, str], dict[int, list[str]]] = {}
    for group in groups:
        for way in group["ways"]:
            if "times_as_fast" in way and not way["name"].endswith("of like length"):
                cells = [milliseconds(way), times_as_fast(way)]
                compared.setdefault((group["group"], way["name"]), {})[group["threads"]] = cells
    rows = [[*names, *(c for n in counts for c in cells.get(n, ["", ""]))] for names, cells in compared.items()]
    return markdown(["what", "way", *heads], without_repeats(rows))


def seconds_table(groups: list[dict]) -> str:
    """The seconds of whole runs, readings and predictions, and the peak memory of the latter; "" if there are none.

    Ways whose name begins with "of it" are left out.
    """
    ways = [(group["group"], way) for group in groups for way in group["ways"] if "seconds" in way]
    ways = [(group, way) for group, way in ways if not way["name"].startswith("of it")]
    rows = [[group, way["name"], _seconds(way["seconds"])] for group, way in ways]
    heads = ["what", "part", "seconds"]
    if any("peak_mib" in way for _, way in ways):
        heads.append("peak memory, MiB")
        for row, (_, way) in zip(rows, ways, strict=True):
            row.append(f"{way['peak_mib']:,.0f}" if "peak_mib" in way else "")
    return markdown(heads, without_repeats(rows)) if rows else ""


def _seconds(value: float) -> str:
    """Seconds with one decimal, or below 1 with two digits."""
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def authors_table() -> str:
    """Every ratio to the authors' code, with where and how it was measured, and what it depends on."""
    parts = {one["key"]: one["threads"] for one in authors()["measurements"]}
    rate_open = next(one["rate_open"] for one in authors()["measurements"] if one["key"] == "rcnn")
    counts = {"1": "1 thread", "2": "2 threads", "unknown": "threads not recorded"}
    rows = [
        [one["what"], *(ratio(one["threads"].get(count, [])) for count in counts)] for one in authors()["measurements"]
    ]
    table = markdown(["what, times as fast as the authors' code", *counts.values()], rows)
    one, two = (ratio(parts["sst_random"][count]) for count in ("1", "2"))
    closed = " and ".join(ratio(parts["rcnn"][count]) for count in ("1", "2"))
    notes = [
        f"Measured on {where_authors()}. {authors()['how']}",
        "Most of the gain on SST comes from batches of texts of similar length. On the same random batches, the ratio "
        f"is {one} on one thread and {two} on two.",
        "All ratios are those of the processor on which they were measured.",
        "For the dependent RCNN, the ratio is large only if most gates are closed. Where "
        f"{100 * rate_open:.0f} % of the gates are open, it is {closed} on one and on two threads. With the gates as "
        f"they are initialised, it is {ratio(parts['rcnn_open']['unknown'])}.",
    ]
    return f"{table}\n\n{textwrap.fill(' '.join(notes), 120)}"


def before_after_table() -> str:
    """What `python -m tests.benchmarks.before_after` measured last; "" if it has never been run."""
    path = reference_folder() / "bench_before_after.json"
    if not path.exists():
        return ""
    bench = json.loads(path.read_text(encoding="utf-8"))
    before, after = bench["before"], bench["after"]
    rows, softmax = [], {}
    for row in bench["rows"]:
        if row["row"].startswith("softmax"):
            softmax = {name: row[name].get("median") for name in ("before", "after")}
            floor = {}
        else:
            floor = softmax if "[" in row["row"] else {}  # the rows of mappings, which have a shape
        cells = [_measured(row, name, floor.get(name)) for name in ("before", "after")]
        times = "{1:.2f} ({0:.2f} to {2:.2f})".format(*row["times"]) if "times" in row else ""
        rows.append([row["row"], *cells, times, _aim(row, floor.get("after"))])
    heads = ["what, 1 thread", f"{before['commit']}, {before['date']}", f"{after['commit']}, {after['date']}"]
    table = markdown([*heads, "times as fast, or as small", "aim"], rows)
    note = (
        "These rows compare two commits, measured in turn on one machine in one run. We show medians, and quartiles of "
        "the ratio in brackets. The aims are those of the issue that was open when the first commit was made."
    )
    return f"{textwrap.fill(note, 120)}\n\n{table}\n\n{machine_of(bench)}"


def _measured(row: dict, name: str, softmax: float | None) -> str:
    """The median of a row with its unit; for a mapping also as a multiple of softmax."""
    if "not possible" in row[name]:
        return "not possible"
    value = row[name]["median"]
    shown = f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {row['unit']}"
    return f"{shown}, {value / softmax:.1f} times softmax" if softmax else shown


def _aim(row: dict, softmax: float | None) -> str:
    """What was aimed at, and whether it was reached."""
    if row["aim"] is None or "not possible" in row["after"]:
        return ""
    value = row["after"]["median"] / (softmax or 1.0)
    unit = "times softmax" if softmax else row["unit"]
    return f"at most {row['aim']:g} {unit}: {'reached' if value <= row['aim'] else 'missed'}"


def gpu_table() -> str:
    """What `make bench-gpu` measured last; "" if it has never been run."""
    path = reference_folder() / "bench_gpu.json"
    if not path.exists():
        return ""
    bench = json.loads(path.read_text(encoding="utf-8"))
    heads = ["what", "way", "ms", "times as fast", "per second", "peak memory, MiB"]
    rows = [
        [group["group"], way["name"], milliseconds(way), f"{way['times_as_fast']:.2f}",
         f"{way['per_second']:,.0f} {group['unit']}", f"{way['peak_mib']:,.0f}" if way["peak_mib"] else ""]
        for group in bench["groups"] for way in group["ways"]
    ]  # fmt: skip
    return f"{markdown(heads, without_repeats(rows))}\n\n{machine_of(bench)}"


def compiled_table() -> str:
    """What `python -m tests.benchmarks.compiled` measured last; "" if it has never been run."""
    path = reference_folder() / "bench_compiled.json"
    if not path.exists():
        return ""
    bench = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for group in bench["groups"]:
        if "failed" in group:
            rows.append([group["group"], "", "", "", group["failed"]])
        else:
            as_it_is, compiled = group["ways"]
            cells = [milliseconds(as_it_is), milliseconds(compiled), times_as_fast(compiled)]
            rows.append([group["group"], *cells, f"{group['first_call_seconds']:.0f} s"])
    heads = ["loss and gradients of one batch", "as it is, ms", "`torch.compile`, ms", "times as fast", "first call"]
    return f"{markdown(heads, rows)}\n\n{machine_of(bench)}"


def machine_of(bench: dict) -> str:
    """The machine, the version of torch, the date and the duration of a measurement, as a line."""
    machine = bench["machine"]
    parts = [machine["cpu"], f"{machine['cores']} cores", machine.get("gpu", ""), f"torch {machine['torch']}"]
    took = f" The measurement took {time_in_words(bench['minutes'])}." if "minutes" in bench else ""
    return ", ".join([*filter(None, parts), bench["date"]]) + "." + took


def speed_tables() -> str:
    """All of the section, in Markdown."""
    bench = json.loads((reference_folder() / "bench.json").read_text(encoding="utf-8"))
    groups = bench["groups"]
    parts = [
        summary_table(groups),
        machine_of(bench),
        authors_table(),
        before_after_table(),
        ways_table(groups),
        seconds_table(groups),
    ]
    return "\n\n".join(filter(None, [*parts, compiled_table(), gpu_table()]))


@command
def main(arguments: list[str] | None = None) -> int:
    """Rewrite the section of RESULTS.md and print where it is."""
    command_line("speed", __doc__).parse_args(arguments)
    page = root() / "RESULTS.md"
    write_text(page, rewritten(page.read_text(encoding="utf-8"), {"bench": speed_tables()}))
    print(shown(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
