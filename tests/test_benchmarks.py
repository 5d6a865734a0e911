"""Benchmarks: both ways of a training step compute the same, and everything runs at a tiny size."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rationale.data import Batches, Vocabulary
from rationale.models import Output
from rationale.nn import HardKumaGate
from rationale.objectives import build_objective, expected_selection
from rationale.runs import notebook_path, root
from tests import plain
from tests.benchmarks import __main__ as runner
from tests.benchmarks import (
    bench_distributions,
    bench_faithfulness,
    bench_files,
    bench_latency,
    bench_pairs,
    bench_predict,
    bench_probes,
    bench_recurrence,
    bench_runs,
    bench_start,
    bench_training,
    gpu,
    scale,
)
from tests.damage import SST
from tests.playground import require_installed
from tests.smoke import smoke_items
from tools import readme_tables, speed

TINY = {"vectors": "random", "embedding_size": 5, "hidden_size": 4, "batch_size": 6}
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


@pytest.fixture
def no_cases(monkeypatch):
    """Every bench_*.py without its groups, but for the runs, which begin only when they are asked for."""
    for path in (root() / "tests" / "benchmarks").glob("bench_*.py"):
        if path.stem != "bench_runs":
            monkeypatch.setattr(importlib.import_module(f"tests.benchmarks.{path.stem}"), "cases", dict)


@pytest.mark.parametrize("model", ["hardkuma", "full_text"])
def test_the_package_and_the_usual_way_have_the_same_loss_and_gradients(no_data, monkeypatch, model):
    monkeypatch.setattr(HardKumaGate, "MIN", 0.0)  # the usual way clamps, far below the shapes met here
    p = bench_training.parameters(**TINY, **(AUTHORS if model == "hardkuma" else {"dropout": 0.0}), model=model)
    ours, usual, batches = both_ways(p)
    objective = build_objective(p).train()
    for number, batch in enumerate(longest_first(batches)):
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


def both_ways(p):
    """The same weights twice, in double precision, and batches of a few texts."""
    _, examples = bench_training.sentences(18)
    vocabulary = Vocabulary({word: None for example in examples for word in example.tokens})
    vectors = torch.randn(len(vocabulary), p.embedding_size, generator=torch.Generator().manual_seed(1))
    ours, usual = (way.double() for way in bench_training.models(p, vectors))
    return ours, usual, Batches(examples, vocabulary, p.batch_size)


def longest_first(batches):
    for batch in batches.epoch(1):
        yield batches.rows(batch.rows[batch.mask.sum(1).argsort(descending=True)])


def test_both_ways_have_the_same_cost_log_probability_and_gradients_of_a_bernoulli_draw(no_data):
    """The usual way returns task + cost ln p(z), the package a term of value 0 instead of the latter: see eq. (R4)."""
    changes = TINY | {"dropout": 0.0, "sparsity": 0.03, "coherence": 0.05} | bench_training.USUAL_BERNOULLI
    p = bench_training.parameters(**changes, model="bernoulli")
    ours, usual, batches = both_ways(p)
    objective = build_objective(p).train()
    for number, batch in enumerate(longest_first(batches)):
        where = f"batch {number}"
        gates = ours.gates(batch.tokens, batch.mask)
        z = torch.bernoulli(torch.full(batch.mask.shape, 0.4, dtype=torch.float64)) * batch.mask
        output = Output(ours.predictor(ours.vectors[batch.tokens], batch.mask, z), z, gates)
        task = ours.head.loss(output.prediction, batch.target)
        cost = task + objective._price(output, batch.mask)
        log_prob = torch.where(batch.mask, gates.log_prob(z), 0.0).sum(1)
        loss = objective.loss(output, batch, ours.head).loss
        theirs = usual(batch.tokens, batch.mask.sum(1), batch.target, z)
        assert (cost > task).any(), f"{where}: nothing is paid for"
        torch.testing.assert_close(loss, cost.mean(), msg=lambda m, w=where: f"cost of {w}: {m}")
        expected = task.mean() + (cost * log_prob).mean()
        torch.testing.assert_close(theirs, expected, msg=lambda m, w=where: f"loss of {w}: {m}")
        for model, value in ((ours, loss), (usual, theirs)):
            model.zero_grad()
            value.backward()
        same_gradients(ours, usual, where)


def same_gradients(ours, usual, where: str) -> None:
    pairs = [(ours.predictor.encoder, usual.reader), (ours.head.output, usual.output)]
    if ours.selector is not None:
        pairs += [(ours.selector.encoder, usual.selector)]
        layers = bench_training.GATE_LAYERS[usual.model]
        pairs += [(getattr(ours.selector.gate, layer), getattr(usual, layer)) for layer in layers]
    for own, other in pairs:
        gradients = {name: parameter.grad for name, parameter in other.named_parameters()}
        for name, parameter in own.named_parameters():
            side, _, rest = name.rpartition(".")
            theirs = gradients[f"{rest}_reverse" if side == "back" else rest]
            torch.testing.assert_close(
                parameter.grad, theirs, rtol=1e-5, atol=1e-12, msg=lambda m, n=name: f"{where}, {n}: {m}"
            )


def test_every_benchmark_is_imported_without_pytest_as_make_bench_does():
    names = sorted(path.stem for path in Path(runner.__file__).parent.glob("*.py") if path.stem[0] != "_")
    imports = "; ".join(f"import tests.benchmarks.{name}" for name in names)
    done = subprocess.run([sys.executable, "-c", imports], cwd=root(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.splitlines()[-1]


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


@pytest.mark.deep
def test_every_way_of_a_training_step_runs(no_data):
    groups = bench_training.cases(number=30, steps=2, **TINY)
    pretrained = [group for group in groups if "MiniLM" in group]
    assert len(pretrained) == bool(importlib.util.find_spec("transformers"))
    assert len(groups) - len(pretrained) == 3
    for group, ways in groups.items():
        if group in pretrained:
            assert next(iter(ways)) == "float32"
        else:
            first, second = list(ways)[:2]
            assert first.startswith("the usual way") and second.startswith("the package"), group
        for name, way in ways.items():
            assert way() > 0, f"{group}: {name} gave no seconds"


def test_batches_and_evaluation_run_and_files_that_are_missing_have_no_group(no_data):
    assert bench_files.cases() == {}
    groups = bench_start.cases(number=30, **TINY)
    (name,) = (name for name in groups if name.startswith("batches"))
    for way in groups[name].values():
        way()


def test_files_are_read_in_three_ways_and_the_cache_of_the_user_in_none(no_data, monkeypatch, tmp_path):
    (tmp_path / "sst").mkdir()
    for name, content in SST.items():
        (tmp_path / "sst" / name).write_bytes(content)
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "v.txt").write_text("the 1 2\n")
    monkeypatch.setenv("RATIONALE_CACHE", str(tmp_path / "own"))
    seen, timed = [], bench_files.as_new_process

    def watched(read, place):
        before = {path.name.split("-")[0] for path in Path(place).glob("*")}
        seconds = timed(read, place)
        seen.append((place == "off", before, {path.name.split("-")[0] for path in Path(place).glob("*")}))
        return seconds

    monkeypatch.setattr(bench_files, "as_new_process", watched)
    groups = bench_files.cases()
    assert set(groups) == {"reading the corpus sst", "reading vectors v, words of SST"}
    for (group, way), kept in zip(groups.items(), ({"sst"}, {"vectors"}), strict=True):
        seen.clear()
        taken = way()
        assert list(taken) == ["from the file", "into the cache", "from the cache"] and min(taken.values()) > 0, group
        without, filling, *others = seen
        assert without == (True, set(), set()) and filling == (False, set(), kept), group
        assert others == [(False, kept, kept)] * bench_files.FROM_CACHE, group
    assert not (tmp_path / "own").exists()


@pytest.mark.deep
def test_predictions_are_timed_as_the_command_gives_them_with_their_memory(no_data):
    (way,) = bench_predict.cases(numbers=(3, 5), **TINY).values()
    found = way()
    assert list(found) == ["3 texts", "5 texts"]
    for one in found.values():
        assert one["seconds"] > 0.1 and 20 < one["peak_mib"] < 4000, "Python and torch take some of both"


@pytest.mark.deep
def test_answers_are_timed_cold_and_warm_in_torch_and_onnxruntime_with_and_without_selection(
    no_data, monkeypatch, tmp_path
):
    bench_latency.save_untrained(tmp_path, "lstm", "hardkuma", **TINY)
    assert bench_latency.cold("torch", tmp_path, bench_latency.texts_of(10, 2)) > 0.1, "Python and torch take some"
    asked = []
    monkeypatch.setattr(bench_latency, "cold", lambda way, *_: asked.append(way) or 1.0)
    way, *_ = bench_latency.cases(number=3, **TINY).values()
    found = way()
    assert all(one["seconds"] > 0 for one in found.values()) and len(found) == 2 * len(asked)
    states = [f"{count}, {state}" for count in ("1 text", "3 texts") for state in ("warm", "cold")]
    forms = [f"{form}, {ran}" for form in ("selection", "full text") for ran in set(asked)]
    assert {f"{form}: {state}" for form in forms for state in states} == set(found)


def test_the_growth_with_the_number_of_texts_is_measured_tabulated_and_drawn(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(scale.SETTINGS, "vocabulary", 40)
    monkeypatch.setitem(scale.SETTINGS, "batch size", 8)
    threads = torch.get_num_threads()
    try:
        assert scale.main(["--one", "20"]) == 0
        one = json.loads(capsys.readouterr().out)
        sizes = [one, {name: 10 * value for name, value in one.items()}]
        assert scale.growth(sizes, "epoch") == pytest.approx(1)
        scale.write(sizes, tmp_path)
    finally:
        torch.set_num_threads(threads)
    assert one["texts"] == 20 and min(one[name] for name in ("first batch", "batches", "step", "epoch")) > 0
    monkeypatch.setattr(readme_tables, "reference_folder", lambda: tmp_path)
    table = readme_tables.scale_table(None)
    assert "| 20 |" in table and "| 200 |" in table and torch.__version__ in table
    assert "<svg" in (tmp_path / "figures" / "scale.svg").read_text()


def test_rationales_are_judged_in_both_ways(no_data):
    (ways,) = bench_faithfulness.cases(number=20, **TINY).values()
    for name, way in ways.items():
        assert way() is None, f"{name}: a number would count as seconds"


def test_both_ways_of_the_dependent_extractor_predict_the_same_from_the_same_draws(monkeypatch):
    p = bench_training.parameters(**(bench_recurrence.BEER | {"dropout": 0.0, "hidden_size": 6}))
    model, batch = bench_recurrence.model_of(p), bench_recurrence.batch_of(5, 9)
    output, seen = model(batch.tokens, batch.mask), []
    values = iter(output.z.unbind(1))
    usual = plain.Usual(model, p.selection, p.transitions)
    monkeypatch.setattr(usual, "draw", lambda gates: next(values))
    monkeypatch.setattr(
        model.head, "forward", lambda features: seen.append(torch.sigmoid(model.head.output(features))) or seen[-1]
    )
    usual(batch.tokens, batch.mask, batch.target)
    torch.testing.assert_close(seen[-1], output.prediction)
    assert 0 < (output.z != 0).float().mean() < 1, "some words are skipped"


def test_the_dependent_extractor_is_timed_at_the_papers_rate():
    model = bench_recurrence.model_of(bench_training.parameters(**bench_recurrence.BEER))
    batch = bench_recurrence.batch_of(64, 128)
    with torch.no_grad():
        rate = (model(batch.tokens, batch.mask).z != 0).float().mean().item()
    assert abs(rate - 0.13) < 0.02, f"{rate:.1%} of the gates are not zero"


def test_the_steps_of_the_dependent_extractor_run():
    for group, ways in bench_recurrence.cases(rows=3, steps=4).items():
        for way in ways.values():
            way()
        assert len(ways) >= 2, group


def test_both_ways_of_the_aligner_have_the_same_loss_and_gradients_from_the_same_draws(monkeypatch):
    changes = {"model": "hardkuma", "selection": 0.1, "dropout": 0.0, "hidden_size": 6}
    p, batch = bench_pairs.parameters("13_train_nli", **changes), bench_pairs.batch_of(4, (5, 3))
    batch.tokens.first_mask[0, 3:], batch.tokens.second_mask[1, 2:] = False, False
    batch = batch._replace(mask=batch.tokens.cells())
    model = bench_pairs.aligner_of(p).double()
    usual = plain.UsualAligner(model, p.selection)
    output = model(batch.tokens, batch.mask)
    monkeypatch.setattr(usual, "draw", lambda a, b: output.z.detach().view(a.shape))
    task = model.head.loss(output.prediction, batch.target).mean()
    rate = expected_selection(output.gates.log_prob_nonzero.exp(), batch.mask).mean()
    ours, theirs = task, usual(batch.tokens, batch.target) - usual.multiplier * (rate - p.selection)
    torch.testing.assert_close(ours, theirs)
    layers = dict(model.compare.named_parameters())
    for name, own, other in zip(
        layers, *(torch.autograd.grad(loss, layers.values(), retain_graph=True) for loss in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(own, other, msg=lambda m, n=name: f"{n}: {m}")


def test_the_steps_on_pairs_run():
    for group, ways in bench_pairs.cases(rows=2).items():
        for way in ways.values():
            way()
        assert len(ways) >= 2, group


def test_an_import_is_timed_in_a_process_of_its_own():
    assert bench_start.fresh_import("import json", "wave") > 0
    with pytest.raises(subprocess.CalledProcessError):
        bench_start.fresh_import("pass", "no_such_module")


@pytest.mark.deep
def test_cold_starts_are_timed():
    groups = bench_start.cases(number=5, **TINY)
    taken = {name: way() for name, way in groups["cold starts"].items()}
    assert all(seconds > 0 for seconds in taken.values())


def test_a_cold_start_executes_what_it_is_called_after(monkeypatch):
    executed = []
    monkeypatch.setattr(bench_start.subprocess, "run", lambda command, **_: executed.append(command[-1]))
    names = [name for name in bench_start.COLD if name.startswith("python")]
    assert all(bench_start.COLD[name]() >= 0 for name in names)
    assert executed == ["pass", "import rationale", "import rationale.training"]


def test_training_imports_nothing_slow():
    slow = {"pandas", "matplotlib", "IPython", "ipywidgets", "papermill", "jupytext", "nbconvert", "sklearn", "pooch",
            "numba"}  # fmt: skip
    program = "import sys, rationale.training, rationale.runs.saved, rationale.runs.predict; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = slow & set(done.stdout.split())
    assert not found, f"imported on the way to training, but slow: {', '.join(sorted(found))}"


def test_the_runner_starts_without_the_parser_of_international_addresses():
    program = (
        "import sys; from rationale.runs import notebook_text; notebook_text.import_jupytext(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert "jsonschema" in found and "rfc3987_syntax" not in found, "a run takes two seconds more"


def test_the_seconds_of_a_run_add_up(tmp_path):
    def cell(source: str, start: int, end: int, *tags: str) -> dict:
        times = {"start_time": f"2026-01-01T00:00:{start}+00:00", "end_time": f"2026-01-01T00:00:{end}+00:00"}
        metadata = {"papermill": times | {"duration": end - start}, "tags": list(tags)}
        return {"cell_type": "code", "source": source, "metadata": metadata}

    cells = [cell("seed: int = 1", 14, 15), cell("import torch\nfrom rationale import training", 15, 18)]
    cells += [cell("train()", 19, 26), cell("worth = faithfulness.measure_faithfulness(folder)", 26, 30)]
    cells += [cell("draw_it()", 30, 32, "figure")]
    notebook = {"cells": cells, "metadata": {"papermill": {"start_time": "2026-01-01T00:00:12+00:00"}}}
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "metrics.json").write_text('{"seconds": 8.0}')
    began = bench_runs._seconds("2026-01-01T00:00:10+00:00")
    found = bench_runs.parts(tmp_path, began, began + 25)
    assert found == {
        "wall": 25, "overhead": 8, "of it: Python, imports of the runner, checks": 2, "of it: kernel start": 2,
        "of it: between the cells": 1, "of it: page and files": 3, "in cells: imports": 3, "in cells: figures": 2,
        "in cells: work": 8, "in cells: judging": 4, "training epochs": 8, "beyond training epochs": 17,
    }  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("way", [(None,), (1,), (1, True)], ids=["commands", "pool", "snakemake"])
def test_a_sweep_is_timed(way):
    if True in way[1:]:
        require_installed("snakemake", "batch")
    found = bench_runs.sweep(1, *way)
    assert found["wall"] > found["overhead"] > 0 and found["in cells: work"] > found["training epochs"] > 0
    assert found["wall"] == pytest.approx(found["overhead"] + sum(found[name] for name in found if "in cells" in name))


@pytest.mark.deep
@pytest.mark.data
def test_a_run_of_sst_is_timed():
    small = smoke_items(notebook_path("12_train_sst"))
    found = bench_runs.whole_run(1, *(item for item in small if not item.startswith("epochs=")))
    assert found["wall"] > found["training epochs"] > 0


def test_without_data_the_run_of_sst_is_skipped_with_one_line(no_data, no_cases, tmp_path, capsys):
    assert runner.main(["--only", "a run of SST", "--epochs", "3"]) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert line.startswith("a run of SST, hardkuma, 3 epochs: skipped, ") and str(tmp_path) in line


def way(name: str, milliseconds: float, ratio: float = 1.0) -> dict:
    return {"name": name, "median_ms": milliseconds, "min_ms": 1.0, "times_as_fast": [ratio, ratio, ratio]}


@pytest.fixture
def committed(monkeypatch, tmp_path):
    """A folder of committed results with these groups, and the measurement beside the authors' code."""

    def write(*groups: dict, **facts) -> None:
        machine = {"cpu": "C", "cores": 2, "torch": "2"}
        record = {"date": "D", "machine": machine, "groups": groups} | facts
        (tmp_path / "bench.json").write_text(json.dumps(record))

    authors = speed.reference_folder() / "bench_authors.json"
    (tmp_path / authors.name).write_text(authors.read_text())
    monkeypatch.setattr(speed, "reference_folder", lambda: tmp_path)
    speed.authors.cache_clear()
    yield write
    speed.authors.cache_clear()


def test_a_group_of_any_file_gets_its_row_with_floor_and_authors_ratio(committed):
    name = "one training step, hardkuma, batches of 25 sentences of SST"
    ways = [way("the usual way", 20), way("the package, some form", 8, 2.5), way("the floor (LSTMs)", 4, 5)]
    ours = [way("the usual way", 20), way("the package", 10, 2.0)]
    committed(
        {"group": "what a helper adds", "threads": 1, "ways": ways},
        {"group": name, "threads": 1, "ways": ours},
        {"group": name, "threads": 2, "ways": ours},
        {"group": "mappings", "threads": 1, "ways": [way("torch.softmax", 1), way("softmax", 1)]},
        {"group": "imports", "threads": 1, "ways": [{"name": "torch", "median_ms": 1.0, "min_ms": 1.0}]},
        minutes=16.6,
    )
    assert speed.summary_table(json.loads((speed.reference_folder() / "bench.json").read_text())["groups"]).split("\n")[
        2:
    ] == [
        "| what a helper adds | 1 | 20.0 | 8.00 | 2.50 (2.50 to 2.50) | 4.00 | 2.00 |  |",
        f"| {name} | 1 | 20.0 | 10.0 | 2.00 (2.00 to 2.00) |  |  | 1.95 |",
        "|  | 2 | 20.0 | 10.0 | 2.00 (2.00 to 2.00) |  |  | 2.35 |",
    ]
    assert "C, 2 cores, torch 2, D. The measurement took 17 minutes." in speed.speed_tables()
    assert speed.last_duration() == "the last complete run took 17 minutes (C)"


def test_every_ratio_to_the_authors_code_is_shown_with_its_machine_date_and_conditions(committed):
    committed({"group": "g", "threads": 1, "ways": [way("the usual way", 2), way("the package", 1)]})
    text = speed.authors_table()
    for one in speed.authors()["measurements"]:
        assert f"| {one['what']} |" in text
    for number in ("1.95", "2.35", "1.02", "1.45", "2.8", "3.5", "1.8", "1.4", "1.7", "4.5", "3.7 to 17", "65", "70"):
        assert f"| {number} |" in text, number
    assert "AMD" in text and "2026-11 (day unknown)" in text
    for sentence in ("batches of texts of similar length", "of the processor", "only if most gates are closed"):
        assert sentence in " ".join(text.split())


def test_the_groups_that_the_authors_measurement_names_exist(no_data):
    groups = bench_training.cases(number=30, steps=2, **TINY) | bench_pairs.cases(rows=2)
    groups |= bench_recurrence.cases(rows=3, steps=4) | bench_distributions.cases()
    for one in speed.authors()["measurements"]:
        if "group" in one:
            assert any(name.startswith(one["group"]) and one["way"] in ways for name, ways in groups.items()), one[
                "key"
            ]


def test_seconds_get_a_table_of_their_own(committed):
    steps, twice = (way("the package", median, ratio) for median, ratio in ((5.0, 2.0), (12.0, 1.0)))
    rows = [{"name": "overhead", "seconds": 3.04}, {"name": "of it: kernel start", "seconds": 0.5}]
    groups = [{"group": "step", "threads": n, "ways": [one]} for n, one in ((1, steps), (2, twice))]
    committed(*groups, {"group": "sweep", "threads": 1, "ways": rows})
    text = speed.speed_tables()
    assert "ms, 2 threads | times as fast, 2 threads | ms, 1 thread | times as fast, 1 thread |" in text
    assert "| step | the package | 12.0 | 1 | 5.00 | 2.00 (2.00 to 2.00) |" in text, "a row a way"
    assert text.endswith("| what | part | seconds |\n|---|---|---|\n| sweep | overhead | 3.0 |")
    assert "C, 2 cores, torch 2, D." in text


def test_the_table_of_seconds_shows_the_memory_of_predictions_and_digits_of_short_times(committed):
    reading = [{"name": "from the file", "seconds": 4.21}, {"name": "from the cache", "seconds": 0.0312}]
    predictions = [{"name": "1,000 texts", "seconds": 3.5, "peak_mib": 1234.5}]
    committed(
        {"group": "reading", "threads": 1, "ways": reading},
        {"group": "predictions", "threads": 1, "ways": predictions},
        {"group": "steps", "threads": 1, "ways": [way("the package", 5.0)]},
    )
    lines = speed.speed_tables().split("\n")
    assert lines[-5:] == [
        "| what | part | seconds | peak memory, MiB |",
        "|---|---|---|---|",
        "| reading | from the file | 4.2 |  |",
        "|  | from the cache | 0.031 |  |",
        "| predictions | 1,000 texts | 3.5 | 1,234 |",
    ]


def test_what_is_measured_once_is_printed_with_its_memory_and_recorded(no_cases, monkeypatch, tmp_path, capsys):
    found = {"1,000 texts": {"seconds": 2.0, "peak_mib": 1500.0}}
    monkeypatch.setattr(bench_predict, "cases", lambda epochs: {"predictions": lambda: found})
    file = tmp_path / "bench.json"
    assert runner.main(["--only", "bench_predict", "--json", str(file)]) == 0
    assert capsys.readouterr().out.split("predictions\n")[1].split("\n")[:2] == [
        "                 seconds  peak memory, MiB",
        "  1,000 texts       2.00             1,500",
    ]
    (group,) = json.loads(file.read_text())["groups"]
    assert group["ways"] == [{"name": "1,000 texts", "seconds": 2.0, "peak_mib": 1500.0}]


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


def test_the_runner_prints_a_table_and_writes_json(no_cases, monkeypatch, tmp_path, capsys):
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


def test_a_name_that_no_group_has_is_refused(no_cases, capsys):
    with pytest.raises(SystemExit) as stop:
        runner.main(["--only", "no such thing"])
    assert stop.value.code == 2 and "no such thing" in capsys.readouterr().err


def test_steps_of_probes_run_and_what_they_keep_is_counted():
    (ways,) = bench_probes.cases(rows=2, words=5, layers=2, size=24).values()
    assert [name.split(" (")[0] for name in ways] == ["plain", "probe of states", "probe of inputs"]
    for way in ways.values():
        assert way() is None
    kept = bench_probes.kept_mib(lambda: (torch.ones(2**18, requires_grad=True) ** 2).sum())
    assert kept == 1, "a million bytes, once"


def test_the_benchmark_of_a_gpu_runs_on_the_cpu_at_a_tiny_size(committed, monkeypatch, capsys):
    tiny = gpu.Sizes((2, 3), 4, 5, 6, 30, 6, (3, 4), 1, 0.0, 1)
    found = gpu.measure("cpu", tiny)
    assert len(found) >= 12 and all(len(group["ways"]) >= 2 for group in found)
    assert all(way["per_second"] > 0 and way["peak_mib"] == 0 for group in found for way in group["ways"])
    shown = capsys.readouterr().out
    assert "one training step, hardkuma, 2 sentences\n  the CPU" in shown and "sentences per second" in shown
    machine = {"cpu": "C", "gpu": "G", "cores": 16, "torch": "2"}
    record = {"date": "D", "machine": machine, "minutes": 7.2, "groups": found}
    assert speed.gpu_table() == "", "never measured"
    (speed.reference_folder() / "bench_gpu.json").write_text(json.dumps(record))
    text = speed.gpu_table()
    assert "| one training step, hardkuma, 2 sentences | the CPU |" in text
    assert text.endswith("C, 16 cores, G, torch 2, D. The measurement took 7 minutes.")


def test_without_a_gpu_its_benchmark_says_so_in_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--json", str(tmp_path / "bench.json")]) == 0
    assert capsys.readouterr().out == "no GPU on this machine: nothing was measured\n"
    assert not [*tmp_path.iterdir()]
