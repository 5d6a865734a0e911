"""The comparison of two commits, and its table."""

import json

import pytest

from rationale.runs import root
from tests.benchmarks import before_after, rows_of_checkout
from tools import speed


class Scripted:
    """A checkout whose measurements are known."""

    def __init__(self, name, order, values):
        self.name, self.order, self.values = name, order, values

    def measure(self, row):
        self.order.append(self.name)
        return self.values.pop(0) if isinstance(self.values, list) else self.values


def test_checkouts_are_measured_in_turn_and_the_first_round_is_thrown_away():
    order = []
    old, new = Scripted("old", order, [99.0, 4.0, 6.0, 8.0]), Scripted("new", order, [99.0, 2.0, 2.0, 2.0])
    (row,) = before_after.measured(old, new, ["step on SST, HardKuma"], 3, 1)
    assert order == ["old", "new", "new", "old"] * 2
    assert row["before"] == {"median": 6.0, "quartiles": [5.0, 7.0], "repetitions": 3}
    assert row["after"]["median"] == 2.0 and row["times"] == [2.5, 3.0, 3.5]
    assert (row["unit"], row["aim"]) == ("ms", None)


def test_what_the_old_code_cannot_do_is_asked_once_and_noted():
    order = []
    (row,) = before_after.measured(
        Scripted("old", order, "no such map"), Scripted("new", order, 1.0), ["sparsemax"], 3, 0
    )
    assert row["before"] == {"not possible": "no such map"} and "times" not in row
    assert order.count("old") == 1 and row["after"]["repetitions"] == 3


def test_every_planned_row_can_be_measured():
    rows = [row for group, *_ in before_after.planned(1, 1) for row in group]
    assert set(rows) == set(rows_of_checkout.rows())
    assert all(any(row.startswith(beginning) for row in rows) for beginning in before_after.AIMS)


@pytest.mark.deep
def test_a_checkout_measures_a_row_and_says_why_it_cannot():
    checkout = before_after.Checkout(root())
    try:
        assert checkout.measure("softmax, [512, 64], random scores") > 0
        assert "KeyError" in checkout.measure("no such row")
        assert len(checkout.commit()["commit"]) >= 7
    finally:
        checkout.end()


def test_the_table_compares_mappings_with_softmax_and_aims_with_what_was_measured(monkeypatch, tmp_path):
    def row(name, unit, aim, old, new):
        before = {"median": old} if old else {"not possible": "no"}
        times = {"times": [old / new] * 3} if old else {}
        return {"row": name, "unit": unit, "aim": aim, "before": before, "after": {"median": new}} | times

    rows = [
        row("a run of SST, beyond its training", "s", 8.0, 40.0, 7.5),
        row("the same, random batches", "ms", None, 40.0, 20.0),
        row("softmax, [512, 64], random scores", "ms", None, 0.1, 0.1),
        row("fusedmax, [512, 64], random scores", "ms", 8.0, 4.0, 0.9),
        row("oscarmax, [512, 64], random scores", "ms", 8.0, None, 0.7),
    ]
    commits = {name: {"commit": f"{name}1", "date": "D"} for name in ("before", "after")}
    machine = {"cpu": "C", "cores": 2, "torch": "2"}
    monkeypatch.setattr(speed, "reference_folder", lambda: tmp_path)
    assert speed.before_after_table() == "", "before the first measurement"
    record = {"date": "D", "machine": machine, "minutes": 3.0, "rows": rows} | commits
    (tmp_path / "bench_before_after.json").write_text(json.dumps(record))
    lines = [line for line in speed.before_after_table().splitlines() if line.startswith("| ")]
    assert lines[0].startswith("| what, 1 thread | before1, D | after1, D |")
    assert lines[1].endswith("| 40.0 s | 7.50 s | 5.33 (5.33 to 5.33) | at most 8 s: reached |")
    assert lines[2].endswith("| 40.0 ms | 20.0 ms | 2.00 (2.00 to 2.00) |  |")
    assert "4.00 ms, 40.0 times softmax | 0.90 ms, 9.0 times softmax" in lines[4] and lines[4].endswith("missed |")
    assert "| not possible | 0.70 ms, 7.0 times softmax |  | at most 8 times softmax: reached |" in lines[5]


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0, 3.0]])
def test_quartiles_are_three_numbers(values):
    assert len(before_after.quartiles(values)) == 3
