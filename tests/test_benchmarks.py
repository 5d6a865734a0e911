"""Benchmarks: both ways of a training step compute the same, and everything runs at a tiny size."""

import json
import subprocess
import sys

import pytest
import torch

from rationale.data import Batches, Vocabulary
from rationale.extractor import Output
from rationale.gates import HardKumaGate
from rationale.objectives import build_objective
from tests.benchmarks import __main__ as runner
from tests.benchmarks import bench_start, bench_training

TINY = {"embedding_size": 5, "hidden_size": 4, "batch_size": 6}
AUTHORS = {
    "dynamics": "authors", "measure": "training", "multiplier_init": 1e-4, "multiplier_rate": 0.01,
    "smoothing": 0.99, "dropout": 0.0,
}  # fmt: skip
DONE = {"median_ms", "min_ms", "name", "times_as_fast"}


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    bench_training.sentences.cache_clear()
    yield
    bench_training.sentences.cache_clear()


@pytest.mark.parametrize("model", ["hardkuma", "full_text"])
def test_the_package_and_the_usual_way_have_the_same_loss_and_gradients(no_data, monkeypatch, model):
    monkeypatch.setattr(HardKumaGate, "MIN", 0.0)  # the usual way clamps, far below the shapes met here
    p = bench_training.parameters(**TINY, **AUTHORS, model=model)
    _, examples = bench_training.sentences(18)
    vocabulary = Vocabulary({word: None for example in examples for word in example.tokens})
    vectors = torch.randn(len(vocabulary), p.embedding_size, generator=torch.Generator().manual_seed(1))
    ours, usual = (way.double() for way in bench_training.models(p, vectors))
    objective = build_objective(p).train()
    batches = Batches(examples, vocabulary, p.batch_size)
    for number, batch in enumerate(batches.epoch(1)):
        lengths = batch.mask.sum(1)
        batch = batches.rows(batch.index[lengths.argsort(descending=True)])
        z = torch.rand(batch.mask.shape, dtype=torch.float64).mul(1.6).sub(0.3).clamp(0, 1) * batch.mask
        gates = ours.gates(batch.tokens, batch.mask)
        if gates is None:
            z = batch.mask.double()
        prediction = ours.predictor(ours.vectors[batch.tokens], batch.mask, z)
        output = Output(prediction, z, gates)
        if gates is not None:
            objective._update(ours, output, batch)
        loss = objective.loss(output, batch, ours.head).loss
        theirs = usual(batch.tokens, batch.mask.sum(1), batch.target, z)
        where = f"batch {number}"
        torch.testing.assert_close(loss, theirs, rtol=1e-6, atol=0, msg=lambda m, w=where: f"loss of {w}: {m}")
        for model_, value in ((ours, loss), (usual, theirs)):
            model_.zero_grad()
            value.backward()
        same_gradients(ours, usual, where)


def same_gradients(ours, usual, where: str) -> None:
    pairs = [(ours.predictor.encoder, usual.reader), (ours.head.output, usual.output)]
    if ours.selector is not None:
        pairs += [(ours.selector.encoder, usual.selector)]
        pairs += [(ours.selector.gate.a, usual.a), (ours.selector.gate.b, usual.b)]
    for own, other in pairs:
        gradients = {name: parameter.grad for name, parameter in other.named_parameters()}
        for name, parameter in own.named_parameters():
            side, _, rest = name.rpartition(".")
            theirs = gradients[f"{rest}_reverse" if side == "back" else rest]
            torch.testing.assert_close(
                parameter.grad, theirs, rtol=1e-5, atol=1e-12, msg=lambda m, n=name: f"{where}, {n}: {m}"
            )


def test_few_batches_are_spread_over_all_lengths():
    _, examples = bench_training.sentences()
    vocabulary = Vocabulary({word: None for example in examples for word in example.tokens})
    for bucketed in (True, False):
        batches = Batches(examples, vocabulary, 25, bucketed=bucketed)
        everything = sum(batch.mask.numel() for batch in batches.epoch(1)) / len(batches)
        few = bench_training.Few(batches)
        size = sum(batch.mask.numel() for batch in few.epoch(1)) / len(few)
        assert len(few) == bench_training.STEPS
        assert abs(size / everything - 1) < 0.03, f"bucketed={bucketed}: {size} places a batch, of all {everything}"


def test_without_data_the_sentences_have_the_lengths_of_sst(no_data):
    source, examples = bench_training.sentences()
    lengths = [len(example.tokens) for example in examples]
    assert "random words" in source
    assert (len(lengths), max(lengths), round(sum(lengths) / len(lengths), 2)) == (8544, 52, 19.14)


@pytest.mark.data
def test_the_lengths_written_down_are_those_of_the_treebank():
    source, examples = bench_training.sentences()
    lengths = torch.tensor([len(example.tokens) for example in examples])
    assert "SST" in source
    assert tuple(lengths.bincount()[1:].tolist()) == bench_training.LENGTHS


def test_every_way_of_a_training_step_runs(no_data):
    groups = bench_training.cases(number=30, steps=2, **TINY)
    assert len(groups) == 2
    for group, ways in groups.items():
        assert list(ways)[:2] == ["the usual way", "the package"], group
        for name, way in ways.items():
            assert way() > 0, f"{group}: {name} gave no seconds"


def test_batches_evaluation_and_files_run_and_missing_files_are_left_out(no_data):
    groups = bench_start.cases(number=30, **TINY)
    assert "files of the data folder" not in groups
    (name,) = (name for name in groups if name.startswith("batches"))
    for way in groups[name].values():
        way()


def test_an_import_is_timed_in_a_process_of_its_own():
    assert bench_start.fresh_import("import json", "wave") > 0
    with pytest.raises(subprocess.CalledProcessError):
        bench_start.fresh_import("pass", "no_such_module")


def test_training_imports_nothing_slow():
    slow = {"pandas", "matplotlib", "IPython", "ipywidgets", "papermill", "jupytext", "nbconvert", "sklearn", "pooch"}
    program = "import sys, rationale.training, rationale.saved, rationale.data, rationale.predict; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = slow & set(done.stdout.split())
    assert not found, f"imported on the way to training, but slow: {', '.join(sorted(found))}"


def test_callables_of_a_group_take_turns_and_warm_ups_are_dropped():
    calls = []
    ways = {"first": lambda: calls.append("first") or 2.0, "second": lambda: calls.append("second") or 0.5}
    taken = runner.times(ways, rounds=4, seconds=0)
    assert taken == {"first": [2.0] * 4, "second": [0.5] * 4}
    rounds = [calls[i : i + 2] for i in range(0, len(calls), 2)]
    assert all(sorted(one) == ["first", "second"] for one in rounds), rounds
    assert rounds[0] != rounds[1], "the same one always comes last"
    first, second = runner.table(taken, compared=True)
    assert (first["times_as_fast"], second["times_as_fast"]) == ([1, 1, 1], [4, 4, 4])
    assert (second["median_ms"], second["min_ms"]) == (500, 500)


def test_the_runner_prints_a_table_and_writes_json(monkeypatch, tmp_path, capsys):
    ways = {"slow": lambda: 0.2, "fast": lambda: 0.1}
    for module, groups in ((bench_training, {"steps": ways}), (bench_start, {"imports": ways})):
        monkeypatch.setattr(module, "cases", lambda groups=groups: groups)
    threads = torch.get_num_threads()
    file = tmp_path / "new" / "bench.json"
    try:
        runner.main(["--only", "bench_training", "--rounds", "3", "--threads", "1", "--json", str(file)])
        runner.main(["--only", "imports", "--rounds", "1"])
    finally:
        torch.set_num_threads(threads)
    shown = capsys.readouterr().out
    assert "torch " + torch.__version__ in shown and "steps; 1 thread\n" in shown, shown
    assert "2.00 (2.00 to 2.00)" in shown, shown
    assert shown.count("times as fast") == 1, "the imports are not compared with each other"
    record = json.loads(file.read_text())
    (group,) = record["groups"]
    assert {"cpu", "cores", "load", "python", "torch"} <= record["machine"].keys() and record["date"]
    assert (group["group"], group["threads"]) == ("steps", 1)
    assert all(row.keys() == DONE for row in group["ways"])


def test_a_name_that_no_group_has_is_refused(monkeypatch, capsys):
    for module in (bench_training, bench_start):
        monkeypatch.setattr(module, "cases", dict)
    with pytest.raises(SystemExit) as stop:
        runner.main(["--only", "no such thing"])
    assert stop.value.code == 2 and "no such thing" in capsys.readouterr().err
