"""Gate and control apart: which rows stand beside each other, and how their difference is told."""

import pandas as pd
import pytest
import torch

from rationale.runs import by_text, committed, compare, controls


def rows(name: str, model: str, target: float, price: float, selected: float, accuracy: float, seed: int = 1):
    """Both splits of a run: `selected` is its rate on dev, and on test it is larger by .01."""
    common = dict.fromkeys(compare.COLUMNS, "") | {"task": "sst", "corpus": "sst", "vectors": "v", "commit": "0" * 12}
    common |= {"model": model, "target": target, "sparsity": price, "seed": seed, "run": f"12_train_sst/{name}"}
    values = [("dev", "rate_selected", selected), ("test", "rate_selected", selected + 0.01)]
    values += [("test", "accuracy", accuracy), ("test", "count_tells", 0.6), ("test", "answer_share", 0.5)]
    return [common | {"split": split, "metric": metric, "value": value} for split, metric, value in values]


@pytest.fixture
def results() -> pd.DataFrame:
    table = [
        *rows("held10", "hardkuma", 0.1, 0.0, 0.1, 0.5),
        *rows("held40-seed1", "hardkuma", 0.4, 0.0, 0.41, 0.6),
        *rows("held40-seed2", "hardkuma", 0.4, 0.0, 0.39, 0.7, seed=2),
        *rows("price40", "bernoulli", 1.0, 0.01, 0.36, 0.55),
        *rows("other40", "bernoulli", 1.0, 0.008, 0.5, 0.9),
        *rows("price10", "bernoulli", 1.0, 0.05, 0.08, 0.45),
    ]
    return pd.DataFrame(table, columns=compare.COLUMNS)


def test_a_price_stands_beside_the_target_that_its_rate_on_dev_is_nearest_to(results):
    table = controls.by_control(results)
    found = table[["gate", "control", "target", "price", "accuracy", "seeds"]].values.tolist()
    assert found == [
        ["HardKuma", "constraint", 0.1, 0.0, 0.5, 1],
        ["Bernoulli", "price", 0.1, 0.05, 0.45, 1],
        ["HardKuma", "constraint", 0.4, 0.0, pytest.approx(0.65), 2],
        ["Bernoulli", "price", 0.4, 0.01, 0.55, 1],
    ], "the nearer one of two prices"
    assert table["runs"].iloc[2] == ("12_train_sst/held40-seed1", "12_train_sst/held40-seed2")
    assert table["rate_selected"].tolist() == pytest.approx([0.11, 0.09, 0.41, 0.37]), "those of the test split"


def test_a_difference_has_the_sign_of_its_accuracies_and_lies_in_its_interval(results):
    right = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]).repeat(10)
    scores = {"held40-seed1": right, "held40-seed2": right, "price40": 1 - right}
    table = [[f"12_train_sst/{run}", "accuracy", len(s), by_text.write_scores("accuracy", s)]
             for run, s in scores.items()]  # fmt: skip
    found = controls.differences(controls.by_control(results), pd.DataFrame(table, columns=by_text.COLUMNS))
    assert found[["what", "target", "seeds"]].values.tolist() == [["gate and control, as in the paper", 0.4, 1]], (
        "the runs at 10 % have no scores by sentence, and the other pairs are not there"
    )
    (row,) = found.to_dict("records")
    assert row["points"] == pytest.approx(25.0) and row["low"] < 25 < row["high"]
    told = controls.in_a_paragraph(found, 3.6)
    assert told.startswith("If gate and control both differ, as in the paper, the difference at a target of 40% is +25")
    assert told.endswith("The paper's is +3.6 points, inside our interval.") == (row["low"] <= 3.6)
    assert controls.in_a_paragraph(found, 90.0).endswith("and our interval lies below it.")


def test_a_paragraph_says_of_each_control_where_the_gate_is_better_and_where_nobody_can_tell():
    common = {
        "what": "gates, both with a price",
        "ours": "",
        "theirs": "Bernoulli with a price",
        "our rate": 0.1,
        "their rate": 0.12,
    }
    rows = [common | {"target": 0.1, "points": 2.0, "low": 1.0, "high": 3.0, "significant": True},
            common | {"target": 0.4, "points": -0.5, "low": -1.0, "high": 0.1, "significant": False}]  # fmt: skip
    assert controls.in_a_paragraph(pd.DataFrame(rows), 3.6) == (
        "With a price, HardKuma is better than Bernoulli gates by +2.0 points (+1.0 to +3.0) at 10% (Bernoulli: 12%); "
        "it is not told apart from Bernoulli gates: -0.5 points (-1.0 to +0.1) at 10% (Bernoulli: 12%)."
    )


def test_without_runs_there_are_no_rows(results):
    empty = controls.by_control(results.head(0))
    assert empty.empty and {"accuracy_std", "runs"} <= set(empty)
    assert controls.differences(empty, committed.read_by_text()).empty


def test_both_controls_of_both_gates_are_committed_and_beside_each_other():
    table = controls.by_control(controls.rows_of_controls(committed.read_results()))
    assert set(zip(table["gate"], table["control"], strict=True)) == {
        (gate, control) for gate in controls.OF_GATES.values() for control in (controls.CONSTRAINT, controls.PRICE)
    }
    apart = controls.differences(table, committed.read_by_text())
    assert set(apart["what"]) == set(controls.COMPARED) == set(controls.IN_WORDS) and 0.4 in set(apart["target"])
    assert apart["low"].le(apart["points"]).all() and apart["points"].le(apart["high"]).all()
