"""Scores by text: what is saved of a run is what is read, and two runs can be compared text by text."""

import json

import pandas as pd
import pytest
import torch

from rationale.errors import BadInput
from rationale.runs import by_text
from rationale.statistics import paired_bootstrap
from tests.finished import finished_run


def answered(run, pairs):
    rows = [{"split": "test", "tokens": ["t"], "z": [1.0], "label": a, "prediction": b} for a, b in pairs]
    rows.append({"split": "dev", "tokens": ["d"], "z": [1.0], "label": pairs[0][0], "prediction": pairs[0][0]})
    (run / "rationales.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


@pytest.mark.parametrize("num", [1, 4, 5, 2210])
def test_right_and_wrong_answers_are_read_as_they_were_written(num):
    right = (torch.rand(num, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    written = by_text.write_scores("accuracy", right)
    assert len(written) == -(-num // 4) and torch.equal(by_text.read_scores("accuracy", num, written), right)


def test_the_test_texts_of_two_runs_are_compared_by_a_paired_bootstrap(tmp_path):
    one = answered(finished_run(tmp_path, "a"), [(0, 0), (1, 1), (2, 2), (1, 0)])
    other = answered(finished_run(tmp_path, "b", seed=2), [(0, 0), (1, 0), (2, 0), (1, 0)])
    table = by_text.table_of([one, other], ["12_train_sst/a", "12_train_sst/b"])
    assert table["values"].tolist() == ["e", "8"] and table["texts"].tolist() == [4, 4]
    ours, theirs = (by_text.stacked(table, [f"12_train_sst/{name}"]) for name in "ab")
    assert ours.shape == (1, 4) and paired_bootstrap(ours, theirs, 100).value == pytest.approx(0.5)
    assert by_text.stacked(table, list(table["run"])).tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]
    path = tmp_path / "by_text.csv"
    table.tail(1).to_csv(path, index=False)
    assert by_text.read_table(path)["values"].tolist() == ["8"], "a digit that looks like a number"


def test_scores_are_squared_errors_and_a_mean_over_several_of_them(tmp_path):
    one = answered(finished_run(tmp_path, "a"), [([0.5], [0.25]), ([0.0], [0.1])])
    two = answered(finished_run(tmp_path, "b"), [([0.5, 1.0], [0.5, 0.0])])
    assert by_text.scores_by_text(one)[0] == "mse"
    assert by_text.scores_by_text(one)[1].tolist() == pytest.approx([0.0625, 0.01])
    assert by_text.scores_by_text(two)[1].tolist() == pytest.approx([0.5])


def test_a_run_without_labels_has_no_scores_by_text(tmp_path):
    assert by_text.scores_by_text(finished_run(tmp_path, "a")) is None
    (finished_run(tmp_path, "b") / "rationales.jsonl").unlink()
    assert by_text.table_of([tmp_path / "12_train_sst" / "b"], ["b"]).empty


def test_runs_on_different_texts_and_unknown_runs_are_refused_by_name():
    table = pd.DataFrame([["a", "accuracy", 4, "e"], ["b", "accuracy", 5, "e8"]], columns=by_text.COLUMNS)
    with pytest.raises(BadInput, match="a, b: different metrics or numbers of texts"):
        by_text.stacked(table, ["a", "b"])
    with pytest.raises(BadInput, match="no row of c; accepted are a, b"):
        by_text.stacked(table, ["c"])


def searched(tmp_path, seed, gate, score):
    """A run that compared two methods with exact search; the last text was not explained."""
    run = finished_run(tmp_path, f"s{seed}", seed=seed)
    (run / "rationales.jsonl").unlink()
    lines = [
        {"split": "test", "tokens": ["t"], "label": 0, "answer": 0}
        | {"scores": {"masks": {"f1": a, "optimality": a, "masked": 0.5}, "masks_by_score": {"f1": b, "optimality": b}}}
        for a, b in zip(gate, score, strict=True)
    ]
    lines.append({"split": "test", "tokens": ["t"], "label": 0, "answer": 0, "scores": {}})
    (run / "attributions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_methods_that_explained_the_same_models_are_compared_within_their_runs(tmp_path):
    """The gate is ahead by one text in each run, although the runs are far apart."""
    runs = [searched(tmp_path, 1, [1, 1, 1, 1], [1, 1, 1, 0]), searched(tmp_path, 2, [0, 0, 0, 1], [0, 0, 0, 0])]
    names = [f"14_train_probes/{run.name}" for run in runs]
    table = by_text.table_of(runs, names)
    assert set(table["metric"]) == {f"{m} {n}" for m in ("masks", "masks_by_score") for n in ("f1", "optimality")}
    for name in ("f1", "optimality"):
        found = by_text.difference(table, names, f"masks {name}", f"masks_by_score {name}")
        assert found.value == pytest.approx(0.25) and found.low == 0.0 and found.high <= 1
        assert by_text.difference(table, names, f"masks {name}").value == pytest.approx(5 / 8)
    assert by_text.difference(table, names, "masks f1", "masks_by_score masked") is None, "not scored text by text"
    assert by_text.difference(table, [*names, "14_train_probes/lost"], "masks f1") is None
    with pytest.raises(BadInput, match="no row of x with the metric masks f1; accepted are 14_train_probes/s1"):
        by_text.stacked(table, ["x"], "masks f1")
