"""`tools.empty_texts`: how a model answers the texts of which it selects nothing."""

import pandas as pd
import pytest

from rationale.errors import BadInput
from tools.empty_texts import count_empty, rows_of


def test_texts_of_which_nothing_is_selected_are_counted_with_their_commonest_answer():
    rows = pd.DataFrame([
        {"z": [0.0, 0.0], "prediction": 1, "label": 1},
        {"z": [0.0], "prediction": 1, "label": 3},
        {"z": [0.0, 0.0], "prediction": 3, "label": 3},
        {"z": [0.0, 0.2], "prediction": 3, "label": 3},
        {"z": [1.0], "prediction": 0, "label": 1},
    ])  # fmt: skip
    assert count_empty(rows) == {"texts": 5, "empty": 3, "answer": 1, "alike": 2, "right_empty": 2, "right_others": 1}
    some = {"texts": 2, "empty": 0, "answer": -1, "alike": 0, "right_empty": 0, "right_others": 1}
    assert count_empty(rows.iloc[3:]) == some


def test_a_run_of_another_notebook_is_refused(tmp_path):
    (tmp_path / "environment.txt").write_text("notebook: 13_train_nli\n")
    with pytest.raises(BadInput, match="accepted is a run of 12_train_sst"):
        rows_of(tmp_path)
