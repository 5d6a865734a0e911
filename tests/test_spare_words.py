"""`tools.spare_words`: what a fitted mask keeps although it could spare it, and whether its draws need it."""

from itertools import product
from pathlib import Path

import pytest
import torch
import yaml
from test_probes import a_batch, frozen_counter
from test_probing import probed

from rationale.errors import BadInput
from rationale.explain import mask_divergence, smallest_masks
from rationale.explain.search import select_rows
from rationale.runs import saved
from tools import command_line, csv_rows
from tools.csv_rows import replace_rows
from tools.spare_words import divergence_of_draws, gates_with, rows_of, spare_words


def write_parameters(folder, p):
    (folder / "params.yaml").write_text(yaml.safe_dump(vars(p)))


def reads_two():
    """A frozen model whose answer needs the states of positions 0 and 1, and the positions of its texts."""
    frozen, batch = frozen_counter(), a_batch(4)
    frozen.model.requires_grad_(False)

    def predict(b):
        sizes = frozen.model.digit(b.tokens.first).square().sum(-1)
        odds = torch.tanh(4 * sizes[:, 0]) + torch.tanh(4 * sizes[:, 1])
        return torch.stack([torch.zeros_like(odds), 6 * odds - 6], 1)

    return frozen._replace(predict=predict, layers=frozen.layers[:1]), batch


def test_the_spare_words_are_those_beside_a_smallest_part_that_meets_the_margin():
    frozen, batch = reads_two()
    kept = torch.zeros_like(batch.mask)
    kept[0, [0, 1, 2, 4]] = True  # spares 2 and 4
    kept[1, [0, 1]] = True  # spares nothing
    kept[2, [2, 3]] = True  # does not meet the margin
    kept[3] = batch.mask[3]  # spares all but two
    larger, spare = spare_words(frozen, batch, kept, margin=0.01)
    assert larger.tolist() == [True, False, False, True]
    assert spare[0].nonzero().flatten().tolist() == [2, 4] and not spare[1:3].any()
    assert (spare[3] == batch.mask[3] & (torch.arange(spare.shape[1]) > 1)).all()


def test_without_a_mask_that_meets_the_margin_there_are_no_spare_words():
    frozen, batch = reads_two()
    larger, spare = spare_words(frozen, batch, torch.zeros_like(batch.mask), margin=0.01)
    assert not larger.any() and not spare.any() and spare.shape == batch.mask.shape


def test_the_search_among_some_positions_finds_the_smallest_of_their_parts():
    frozen, batch = frozen_counter(), a_batch(3)
    among = batch.mask & (torch.arange(batch.mask.shape[1]) % 2 == 0)
    margin = 1.001 * mask_divergence(frozen, batch, 0, among).max().item()  # so that these positions suffice
    found = smallest_masks(frozen, batch, 0, margin=margin, among=among)
    for row, masks in enumerate(found):
        places = among[row].nonzero().flatten()
        every = torch.tensor(list(product([False, True], repeat=len(places))))
        whole = torch.zeros(len(every), batch.mask.shape[1], dtype=torch.bool)
        whole[:, places] = every
        repeated = select_rows(batch, torch.full((len(every),), row))
        meets = every[mask_divergence(frozen, repeated, 0, whole) <= margin]
        smallest = meets[meets.sum(1) == meets.sum(1).min()]
        assert sorted(masks.tolist()) == sorted(smallest.tolist())


@pytest.mark.parametrize("estimator", ["relaxed", "score"])
def test_the_gates_have_the_probabilities_that_a_run_has_saved(estimator):
    keep = torch.tensor([[0.0, 0.3, 0.98, 1.0]])
    found = gates_with(keep, estimator).log_prob_nonzero.exp()
    assert torch.allclose(found, keep.clamp(1e-4, 1 - 1e-4), atol=1e-6)


def test_draws_need_a_word_exactly_if_they_are_worse_without_it():
    frozen, batch = reads_two()
    torch.manual_seed(0)
    gates = gates_with(torch.where(torch.arange(batch.mask.shape[1]) < 3, 0.99, 0.01) * batch.mask, "score")
    nothing, third, second = (torch.zeros_like(batch.mask) for _ in range(3))
    third[:, 2] = second[:, 1] = True
    as_they_are, without_third, without_second = (
        divergence_of_draws(frozen, batch, gates, closed) for closed in (nothing, third, second)
    )
    assert (without_third - as_they_are).abs().max() < 0.1, "the answer does not read the third"
    assert (without_second - as_they_are).min() > 0.5, "and it needs the second"


def test_a_run_has_a_row_for_each_kind_of_mask(tmp_path, monkeypatch):
    folder = tmp_path / "14_train_probes" / "toy-seed1"
    changes = {"methods": ["masks", "masks_by_score"], "num_steps": 30, "searchable": 16}
    p, frozen, scores, found, splits = probed(folder, **changes)
    answers, weights = {"test": torch.zeros(len(splits["test"]))}, {"subject": frozen.model.state_dict()}
    saved.save_probes(folder, scores, found, {"test": splits["test"]}, answers, weights, p)
    write_parameters(folder, p)
    (folder / "environment.txt").write_text("notebook: 14_train_probes\ncommit: abc\ncpu: one\ntorch: 2\n")
    monkeypatch.chdir(folder)
    rows = rows_of(Path())  # a run has its name wherever it is named from
    assert [row["method"] for row in rows] == p.methods
    for row in rows:
        assert row["run"] == "14_train_probes/toy-seed1" and row["texts"] == 12
        assert 0 <= row["larger"] <= 12 and row["meet_closed"] <= row["larger"] >= row["meet_drawn"]


def test_a_run_without_such_masks_is_refused(tmp_path):
    folder = tmp_path / "14_train_probes" / "toy-seed1"
    p, frozen, scores, found, splits = probed(folder, methods=["erasure"])
    answers = {"test": torch.zeros(len(splits["test"]))}
    saved.save_probes(folder, scores, found, {"test": splits["test"]}, answers, {}, p)
    write_parameters(folder, p)
    with pytest.raises(BadInput, match="accepted is a run of 14_train_probes with searchable and with masks"):
        rows_of(folder)


def test_a_row_takes_the_place_of_an_earlier_one_and_the_others_stay(tmp_path):
    path, key = tmp_path / "rows.csv", ["run", "method"]
    replace_rows(path, [{"run": "b", "method": "x", "value": 1}, {"run": "a", "method": "x", "value": 2}], key, key)
    replace_rows(path, [{"run": "b", "method": "x", "value": 3, "more": "new"}], key, key)
    assert path.read_text().splitlines() == ["run,method,value,more", "a,x,2,", "b,x,3,new"]


def test_the_rows_of_several_runs_are_written_to_one_table_beside_those_of_other_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(csv_rows, "reference_folder", lambda: tmp_path)
    key = ["run", "split"]

    def rows_of(run):
        return [{"run": run.name, "split": split, "value": len(run.name)} for split in ("test", "dev")]

    for runs in (["x/bbb", "x/a"], ["x/cc"]):
        parser = command_line("empty_texts", "")
        assert csv_rows.write_rows_of_runs(parser, runs, rows_of, "t.csv", key, key, "a run") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "t.csv")] * 2
    written = (tmp_path / "t.csv").read_text().splitlines()
    assert written == ["run,split,value", "a,dev,1", "a,test,1", "bbb,dev,3", "bbb,test,3", "cc,dev,2", "cc,test,2"]
