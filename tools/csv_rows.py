"""Rows of measurements that are kept in a CSV file."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from rationale.files import write_text
from rationale.runs.committed import reference_folder


def replace_rows(path: Path, rows: Iterable[dict[str, Any]], key: list[str], order: list[str]) -> None:
    """Write rows to a CSV file, each in the place of an earlier one with the same `key`, sorted by `order`."""
    before = pd.read_csv(path).to_dict("records") if path.exists() else []
    table = pd.DataFrame([*before, *rows]).drop_duplicates(key, keep="last").sort_values(order)
    write_text(path, table.to_csv(index=False))


def write_rows_of_runs(
    parser: ArgumentParser,
    arguments: list[str] | None,
    rows_of: Callable[[Path], list[dict[str, Any]]],
    table: str,
    key: list[str],
    order: list[str],
    accepted: str,
) -> int:
    """The work of a tool that measures runs: write the rows of each given run to `table`, and print where it is.

    Parameters
    ----------
    parser : the parser of the tool, which gets the argument RUN...
    arguments : those of the command line
    rows_of : from the folder of a run to its rows; it raises `BadInput` for a run that it cannot measure
    table : name of a file in outputs/reference/
    key, order : as for `replace_rows`
    accepted : which runs are accepted, for the help
    """
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help=accepted)
    rows = [row for run in parser.parse_args(arguments).runs for row in rows_of(run)]
    path = reference_folder() / table
    replace_rows(path, rows, key, order)
    print(path)
    return 0
