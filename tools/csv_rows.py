"""Rows of measurements that are kept in a CSV file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from rationale.files import write_text


def replace_rows(path: Path, rows: Iterable[dict[str, Any]], key: list[str], order: list[str]) -> None:
    """Write rows to a CSV file, each in the place of an earlier one with the same `key`, sorted by `order`."""
    before = pd.read_csv(path).to_dict("records") if path.exists() else []
    table = pd.DataFrame([*before, *rows]).drop_duplicates(key, keep="last").sort_values(order)
    write_text(path, table.to_csv(index=False))
