"""The toy of notebook 40: where the mark and the label stand, and what a training reports of each step."""

import pytest
import torch

from rationale.training.toy_segments import attend_to_segments, marked_segments


def test_three_neighbouring_tokens_of_each_row_carry_the_mark_and_the_label():
    tokens, label = marked_segments(50, torch.Generator().manual_seed(1))
    assert tokens.shape == (50, 12, 8) and set(label.tolist()) == {-1.0, 1.0}
    for row, sign in zip(tokens, label, strict=True):
        segment = (row[:, 0] == 3).nonzero().flatten()
        assert segment.diff().tolist() == [1, 1]
        assert (row[segment, 1] == sign).all() and (row[:, 1] == sign).sum() == 3


def test_a_training_reports_loss_and_dead_rows_of_each_step_and_begins_undecided():
    seen = attend_to_segments(lambda number: 0.1 * number, 3, 0.01, torch.Generator().manual_seed(1))
    assert len(seen) == 3 and all(0 <= dead <= 1 for _, dead in seen)
    assert seen[0][0] == pytest.approx(torch.tensor(2.0).log().item(), abs=0.05), "small weights say one half"
    again = attend_to_segments(lambda number: 0.1 * number, 3, 0.01, torch.Generator().manual_seed(1))
    assert again == seen
