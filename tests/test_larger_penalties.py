"""`tools.larger_penalties`: the attention of trained models, read again with other penalties."""

from types import SimpleNamespace

import pytest
import torch

from rationale.errors import BadInput
from rationale.models import build_aligner
from rationale.models.pair_words import products
from rationale.nn import fusedmax
from rationale.nn.modes import evaluating
from rationale.runs import saved
from rationale.training.groups import grouped_share
from tests.test_aligner import batches_of, pairs, settings
from tools.larger_penalties import even_rows, read_with, rows_of

PENALTIES = (0.0, 0.05, 0.4, 100.0)


def a_model():
    batches = batches_of(24)
    torch.manual_seed(2)
    vectors = 2 * torch.randn(len(batches.vocabulary), 5)
    return build_aligner(settings(model="fusedmax", lam=0.2), vectors, "classes", 2), batches


def test_only_the_penalty_changes_and_the_model_gets_its_own_back():
    model, batches = a_model()
    before = [weight.clone() for weight in model.state_dict().values()]
    found = list(read_with(model, PENALTIES, batches, label=1))
    assert [row["penalty"] for row in found] == list(PENALTIES)
    assert model.selector.mapping.lam == 0.2
    for weight, now in zip(before, model.state_dict().values(), strict=True):
        assert torch.equal(weight, now)
    assert found[-1]["even"] == 1 and found[-1]["grouped"] == 0, "such a penalty gives all words the same weight"
    assert found[0]["even"] < 0.5 and found[0]["grouped"] < 0.1, "without a penalty, the scores are rarely equal"


def test_the_weights_are_those_of_fusedmax_on_the_scores_of_the_model():
    model, batches = a_model()
    batch = batches.rows(torch.arange(24))
    with evaluating(model), torch.no_grad():
        scores = products(model.read(batch.tokens).through(model.selector.compare))
    cells = batch.tokens.first_mask.unsqueeze(2) & batch.tokens.second_mask.unsqueeze(1)
    (row,) = read_with(model, [0.05], batches, label=1)
    contradicted = [i for i, pair in enumerate(batches.examples) if pair.label == 1]
    weights = fusedmax(scores, cells, lam=0.05)
    kept = [weights[i][batch.tokens.first_mask[i]] for i in contradicted]
    assert row["grouped"] == pytest.approx(grouped_share(kept, neighbours=True))


def test_a_row_is_even_if_all_of_its_words_have_the_same_weight_and_a_single_word_does_not_count():
    two, one = pairs(2)
    z = [torch.zeros(len(pair.tokens), 3) for pair in (two, one)]
    z[0][:] = torch.tensor([0.5, 0.5, 0.0])
    z[1][:] = 1 / 3
    rows = [len(pair.tokens) for pair in (two, one)]
    assert even_rows([w.flatten() for w in z], [two, one]) == rows[1] / sum(rows)
    assert even_rows([torch.ones(rows[0])], [two]) == 0, "a hypothesis of one word"


def test_a_run_of_another_notebook_or_attention_is_refused(tmp_path):
    (tmp_path / "environment.txt").write_text("notebook: 13_train_nli\n")
    (tmp_path / "params.yaml").write_text("model: sparsemax\n")
    with pytest.raises(BadInput, match="accepted is a run of 13_train_nli with fusedmax"):
        rows_of(tmp_path)
    (tmp_path / "environment.txt").write_text("notebook: 12_train_sst\n")
    with pytest.raises(BadInput, match="accepted is a run of 13_train_nli with fusedmax"):
        rows_of(tmp_path)


def test_a_run_without_contradicted_pairs_is_refused(tmp_path, monkeypatch):
    (tmp_path / "environment.txt").write_text("notebook: 13_train_nli\n")
    (tmp_path / "params.yaml").write_text("corpus: nli_small\nmodel: fusedmax\n")
    for labels, said in ((["same", "other"], "same, other"), (None, "none")):
        monkeypatch.setattr(saved, "load_run", lambda run, labels=labels: SimpleNamespace(labels=labels))
        with pytest.raises(BadInput, match=f"its labels are {said}; accepted: .* the label contradiction"):
            rows_of(tmp_path)
