"""The committed results: one tidy table, and everything shown from it made by code."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from rationale.errors import BadInput
from rationale.runs import committed, compare, differences, failed_rationales, notebook_path, origin, root
from rationale.runs.cells import defaults
from tests.finished import failed_run, finished_run, select
from tests.in_process import run_cells
from tools import collect, readme_tables

# Settings that the first runs did not name
YOUNGER = {"look_ahead", "pool", "threshold", "budget", "sparsity", "coherence", "penalty", "entropy", "warmup",
           "samples", "baseline", "multiplier_max", "schedule", "patience", "transitions", "dependent"}  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A repository of its own, so that the committed results are left alone."""
    for module in (collect, committed, compare):
        monkeypatch.setattr(module, "root", lambda: tmp_path)
    (tmp_path / "RESULTS.md").write_text("before\n<!-- results: sst -->\nold\n<!-- end -->\nafter\n")
    return tmp_path


def finished_probes(outputs, seed=1, **changes):
    folder = outputs / "14_train_probes" / f"toy-seed{seed}"
    folder.mkdir(parents=True)
    p = defaults(notebook_path("14_train_probes")) | {"seed": seed} | changes
    one = {"dev": {}, "test": {"js_1": 0.1 * seed, "kl_1": 0.2, "empty_1": 0.0}, "seconds": 4.0, "best_epoch": 0}
    metrics = {"dev": {"accuracy": 0.99}, "test": {"accuracy": 0.98}, "best_epoch": 0, "seconds": 8.0}
    metrics["methods"] = {"states": one, "erasure": one | {"test": {"js_1": 0.3, "empty_1": 0.5}}}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "params.yaml").write_text(yaml.safe_dump(p))
    (folder / "environment.txt").write_text("commit: 0123456789abcdef\ndevice: cpu\n")
    (folder / "history.csv").write_text("epoch,seconds,dev_task,method\n1,1.0,0.3,states\n")
    (folder / "run.ipynb").write_text("{}")
    return folder


def test_each_method_of_a_run_that_probes_is_a_model_in_the_table(tmp_path, home):
    rows = compare.rows_of(finished_probes(tmp_path, margin=0.5))
    assert set(rows["model"]) == {"subject", "states", "erasure"} and set(rows["task"]) == {"probes"}
    variants = dict(zip(rows["model"], rows["network"], strict=True))
    assert variants == {"subject": "", "states": "margin=0.5", "erasure": ""}, "a margin is the probe's alone"
    assert differences.method_network("masks", {"margin": 0.2, "reader": "gru"}, "14_train_probes") == "gru, margin=0.2"
    started = {"margin": 0.2, "reader": "gru", "multiplier_init": 3.0}
    names = ("masks", "masks_by_score", "masks_by_released_score", "erasure")
    found = {name: differences.method_network(name, started, "14_train_probes") for name in names}
    assert found["masks"] == found["masks_by_score"] == "gru, margin=0.2, multiplier_init=3"
    assert found["masks_by_released_score"] == "gru, margin=0.2" and found["erasure"] == "gru", "no multiplier"


def test_the_history_holds_what_each_layer_of_a_probe_keeps_so_that_the_choice_can_be_checked(home):
    run = finished_probes(home / "runs")
    lines = ["epoch,seconds,dev_task,dev_kept,dev_kept_0,dev_kept_1,dev_divergence_0,dev_divergence_1,method"]
    lines += ["1,1.0,0.03,0.8,0.9,0.7,0.01,0.05,states", "2,1.0,0.02,0.65,0.8,0.5,0.02,0.0201,states"]
    (run / "history.csv").write_text("\n".join(lines) + "\n")
    finished_run(home / "runs", "without_layers")
    for _ in range(2):
        collect.collect(home / "runs")
        history = committed.read_history()
        name = f"14_train_probes/{run.name}"
        kept, cost = (committed.by_layer(history, name, "states", column) for column in committed.BY_LAYER)
        assert kept.values.tolist() == [[0.9, 0.7], [0.8, 0.5]] and list(kept.index) == [1, 2]
        assert cost[1].tolist() == [0.05, 0.0201]
    with pytest.raises(BadInput, match="no dev_kept of each layer for states of 12_train_sst/without_layers"):
        committed.by_layer(history, "12_train_sst/without_layers", "states", "dev_kept")


def test_a_run_without_epochs_leaves_those_of_the_others_whole_numbers(home):
    finished_run(home / "runs")
    (finished_probes(home / "runs") / "history.csv").write_text("epoch\n")
    for _ in range(2):
        collect.collect(home / "runs")
        rows = (committed.reference_folder() / "history.csv").read_text().splitlines()[1:]
        assert [row.split(",")[1] for row in rows] == ["1", "2"]


def test_methods_are_listed_by_their_distance_with_the_published_one_beside(tmp_path, home, monkeypatch):
    published = pd.DataFrame([["probes", "states", "kl_1", 0.0]], columns=["task", "model", "metric", "value"])
    monkeypatch.setattr(readme_tables, "read_published", lambda: published)
    rows = pd.concat([compare.rows_of(finished_probes(tmp_path, seed)) for seed in (1, 2)])
    lines = readme_tables.probes_table(rows).splitlines()[2:]
    assert lines[0] == "| states | 0.200 ± 0.000 | 0.150 ± 0.071 | 0.00 |  | 0 % ± 0 % | 4 | 2 |"
    assert lines[1] == "| erasure |  | 0.300 ± 0.000 ≈ |  |  | 50 % ± 0 % | 4 | 2 |"


def test_rows_carry_every_column_and_one_value_each(tmp_path):
    rows = compare.rows_of(finished_run(tmp_path))
    assert list(rows.columns) == compare.COLUMNS
    assert len(rows) == 8, "three metrics of two splits, seconds and best_epoch"
    row = rows[(rows["split"] == "test") & (rows["metric"] == "accuracy")].iloc[0]
    assert (row["task"], row["model"], row["target"], row["value"], row["run"]) == (
        "sst",
        "hardkuma",
        0.4,
        0.4,
        "12_train_sst/hardkuma-selection0.4-seed1",
    )
    assert row["commit"] == "0123456789ab" and row["device"] == "cpu"


def test_scaled_vectors_are_named_as_such_and_full_text_has_target_one(tmp_path):
    scaled = compare.rows_of(finished_run(tmp_path, "a", vectors_scale=0.3333))
    full = compare.rows_of(finished_run(tmp_path, "b", model="full_text"))
    assert set(scaled["vectors"]) == {"v x 0.3333"}
    assert set(full["target"]) == {1.0}


def test_collecting_again_replaces_the_rows_of_the_same_run_and_keeps_the_others(home):
    finished_run(home / "one", accuracy=0.4)
    collect.collect(home / "one")
    finished_run(home / "two", accuracy=0.5)
    finished_run(home / "two", "hardkuma-selection0.4-seed2", seed=2, accuracy=0.6)
    collect.collect(home / "two")
    finished_run(home / "three", "full_text-seed1", model="full_text", accuracy=0.7)
    table = collect.collect(home / "three")
    found = table.query("metric == 'accuracy' and split == 'dev'").set_index("run")["value"].to_dict()
    assert found == {
        "12_train_sst/full_text-seed1": 0.7,
        "12_train_sst/hardkuma-selection0.4-seed1": 0.5,
        "12_train_sst/hardkuma-selection0.4-seed2": 0.6,
    }
    records = json.loads((home / "outputs/reference/runs.json").read_text())
    assert [record["run"] for record in records] == sorted(found)
    assert len(pd.read_csv(home / "outputs/reference/history.csv")) == 6


def test_runs_that_were_made_to_fail_are_one_row_each_and_only_what_their_page_reads_is_committed(home):
    finished_run(home / "runs")
    failed_run(home / "runs", "a", precision=0.2, skew="selector", skew_steps=800)
    failed_run(home / "runs", "b", skew="predictor", skew_steps=400, shared_encoder=True, seed=2)
    failed_run(home / "runs", "c", skew="none", correlation=0.9, guidance=1.0, guided=0.1, seed=3)
    table = collect.collect(home / "runs")
    ours = table["task"] == failed_rationales.TASK
    kept = set(table[ours]["metric"])
    assert "precision" in kept and "blind_random_words" not in kept and kept <= {*failed_rationales.METRICS}
    assert set(committed.read_history()["run"]) == {"12_train_sst/hardkuma-selection0.4-seed1"}
    rows = failed_rationales.by_run(table)
    assert rows.index.tolist() == [f"16_failures/{name}" for name in "abc"]
    assert rows["start"].tolist() == ["selector, 800 batches", "predictor, 400 batches", "not skewed"]
    assert rows["start"].cat.categories.tolist() == ["not skewed", "predictor, 400 batches", "selector, 800 batches"]
    assert rows["remedy"].tolist() == ["no remedy", "shared encoder", "some gold words"]
    assert rows["correlation"].tolist() == [0, 0, 0.9] and rows["fails"].tolist() == [True, False, False]
    assert rows["told_at_start"].eq(0.7).all() and rows["recall"].isna().all()


def test_prices_are_a_column_of_their_own_and_0_where_a_run_knew_none(tmp_path):
    priced = finished_run(tmp_path, "priced", model="bernoulli", selection=None, sparsity=0.025)
    assert set(compare.rows_of(priced)["sparsity"]) == {0.025}
    old = finished_run(tmp_path, "old")
    known = yaml.safe_load((old / "params.yaml").read_text())
    (old / "params.yaml").write_text(yaml.safe_dump({k: v for k, v in known.items() if k not in YOUNGER}))
    assert set(compare.rows_of(old)["sparsity"]) == {0.0}


def test_a_run_is_named_by_how_its_network_differs_from_the_notebooks_defaults():
    assert (
        differences.network_name({"model": "full_text", "encoder": "rcnn", "dependent": False}, "11_train_reviews")
        == ""
    )
    lstm = {"model": "full_text", "encoder": "lstm", "dependent": False}
    assert differences.network_name(lstm, "11_train_reviews") == "lstm"
    assert differences.network_name({"model": "bernoulli", "dependent": False}, "11_train_reviews") == "independent"
    assert differences.network_name({"model": "svm", "encoder": "lstm"}, "11_train_reviews") == "", "it has no encoder"
    assert differences.network_name({"model": "hardkuma", "predictor": "compact"}, "12_train_sst") == "compact"
    assert differences.network_name({"model": "hardkuma"}, "12_train_sst") == "", "a run older than the parameter"


def test_seeds_of_different_networks_are_not_averaged(tmp_path):
    runs = [finished_run(tmp_path, "a"), finished_run(tmp_path, "b", predictor="compact", accuracy=0.6)]
    table = compare.summary(pd.concat(map(compare.rows_of, runs)), ["accuracy"])
    assert dict(zip(table["network"], table["accuracy"], strict=True)) == {"": 0.4, "compact": 0.6}


def test_results_written_before_there_were_prices_are_read_and_merged_in_the_same_columns(home):
    finished_run(home / "old", "old", seed=7)
    path = home / "outputs/reference/results.csv"
    path.parent.mkdir(parents=True)
    compare.rows_of(home / "old/12_train_sst/old").drop(columns="sparsity").to_csv(path, index=False)
    assert list(committed.read_results().columns) == compare.COLUMNS
    assert set(committed.read_results()["sparsity"]) == {0.0}
    finished_run(home / "new", "new", model="bernoulli", selection=None, sparsity=0.05)
    collect.collect(home / "new")
    table = committed.read_results()
    assert list(table.columns) == compare.COLUMNS
    assert table.groupby("run")["sparsity"].agg(["min", "max"]).values.tolist() == [[0.05, 0.05], [0.0, 0.0]]


def test_what_was_judged_comes_along(tmp_path):
    run = finished_run(tmp_path)
    judged = {split: {"sufficiency": value, "words_0": 3} for split, value in (("dev", 0.1), ("test", 0.2))}
    (run / "faithfulness.json").write_text(json.dumps(judged))
    found = compare.rows_of(run).set_index(["split", "metric"])["value"]
    assert (found["dev", "sufficiency"], found["test", "sufficiency"], found["test", "words_0"]) == (0.1, 0.2, 3)
    assert found["test", "accuracy"] == 0.4
    (run / "faithfulness.json").write_text(json.dumps({"test": judged["test"]}))
    found = compare.rows_of(run).query("metric == 'sufficiency'")
    assert found["split"].tolist() == ["test"], "a run of which only the test split is judged"


def test_runs_that_differ_in_the_seed_alone_agree_by_the_f1_of_their_test_rationales(tmp_path):
    one, two, three = (finished_run(tmp_path, f"s{seed}", seed=seed) for seed in (1, 2, 3))
    select(one, [[1.0, 0.5, 0.0], [0.0, 0.0]])
    select(two, [[1.0, 0.0, 0.0], [0.0, 0.2]])
    select(three, [[0.0, 0.0, 0.0], [0.0, 0.9]])
    rows = pd.concat(compare.agreements([one, two, three]))
    assert list(rows.columns) == compare.COLUMNS
    assert set(rows["metric"]) == {"agreement"} and set(rows["split"]) == {"test"}
    found = rows.set_index("seed")["value"]
    pairs = {(1, 2): 2 * 1 / (2 + 2), (1, 3): 0.0, (2, 3): 2 * 1 / (2 + 1)}
    for seed in (1, 2, 3):
        expected = sum(value for pair, value in pairs.items() if seed in pair) / 2
        assert found[seed] == pytest.approx(expected), f"seed {seed}: mean over the two others"


def test_a_run_without_a_like_or_without_gates_has_no_agreement(tmp_path):
    alone = [finished_run(tmp_path, "a", selection=0.4), finished_run(tmp_path, "b", selection=0.3)]
    for model in ("full_text", "attention"):
        alone += [finished_run(tmp_path, f"{model}{seed}", model=model, seed=seed) for seed in (1, 2)]
    assert compare.agreements(alone) == []


def test_a_run_from_before_a_parameter_is_like_one_that_names_what_was_meant(tmp_path):
    old, new = finished_run(tmp_path, "old", device="cuda"), finished_run(tmp_path, "new", seed=2)
    known = yaml.safe_load((old / "params.yaml").read_text())
    (old / "params.yaml").write_text(yaml.safe_dump({k: v for k, v in known.items() if k not in YOUNGER}))
    assert [float(row["value"].iloc[0]) for row in compare.agreements([old, new])] == [1.0, 1.0]


def test_the_results_hold_the_agreements(home):
    finished_run(home / "runs", "s1", seed=1)
    finished_run(home / "runs", "s2", seed=2)
    table = collect.collect(home / "runs").query("metric == 'agreement'")
    assert table["run"].tolist() == ["12_train_sst/s1", "12_train_sst/s2"] and table["value"].tolist() == [1.0, 1.0]


def test_the_results_hold_the_score_of_each_test_text(home):
    run = finished_run(home / "runs")
    rows = [{"split": "test", "tokens": ["t"], "z": [1.0], "label": 1, "prediction": k} for k in (1, 0, 1)]
    (run / "rationales.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for _ in range(2):
        collect.collect(home / "runs")
        written = (committed.reference_folder() / "by_text.csv").read_text()
        assert written == f"run,metric,texts,values\n12_train_sst/{run.name},accuracy,3,a\n"


def test_unfinished_and_smoke_runs_are_no_results(home):
    (finished_run(home / "x", "killed") / "run.ipynb").unlink()
    finished_run(home / "x", "smoke")
    finished_run(home / "x", "book")
    with pytest.raises(BadInput, match="no finished training run"):
        collect.collect(home / "x")


def test_summary_gives_mean_and_deviation_over_seeds(tmp_path):
    runs = [finished_run(tmp_path, f"s{seed}", accuracy=value, seed=seed) for seed, value in ((1, 0.4), (2, 0.5))]
    table = compare.summary(pd.concat(map(compare.rows_of, runs)), ["accuracy", "rate_selected"])
    assert len(table) == 1 and table["seeds"][0] == 2
    assert table["accuracy"][0] == pytest.approx(0.45)
    assert table["accuracy_std"][0] == pytest.approx(0.1 / 2**0.5), "sample deviation of .4 and .5"


def test_a_run_with_any_other_parameter_is_no_seed_of_the_plain_ones(home):
    finished_run(home / "runs")
    finished_run(home / "runs", "dropped", seed=2, dropout=0.2)
    table = collect.collect(home / "runs")
    assert set(committed.runs_with(table)["seed"]) == {1}
    assert set(committed.runs_with(table, dropout=0.2)["seed"]) == {2}
    with pytest.raises(BadInput, match="no committed run of 12_train_sst with {'epochs': 3}"):
        committed.runs_with(table, epochs=3)


def test_the_page_of_results_keeps_its_text_and_gets_its_table(home):
    finished_run(home / "runs")
    assert collect.main([str(home / "runs")]) == 0
    text = (home / "RESULTS.md").read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "| hardkuma | v | 40% | 40.0° | 40.0° | 41.0° | 39.0° | 1 |" in text and "old" not in text


def test_a_run_of_no_training_notebook_is_refused(tmp_path):
    with pytest.raises(BadInput, match="myruns/a: a run of myruns, no training notebook; accepted: .*11_train_reviews"):
        compare.rows_of(tmp_path / "myruns" / "a")


def test_the_table_of_reviews_names_targets_and_prices(tmp_path):
    common = {"corpus": "beer", "aspect": "look", "vectors_scale": 1.0}
    priced = [
        finished_run(tmp_path, f"p{price}", model="bernoulli", selection=None, sparsity=price, **common)
        for price in (0.1, 0.2)
    ]
    held = finished_run(tmp_path, "held", model="hardkuma", selection=0.1, **common)
    table = pd.concat(map(compare.rows_of, [*priced, held]))
    table = readme_tables.reviews_table(table.assign(run="11_train_reviews/x"))
    for name in ("bernoulli | 0.1 per word", "bernoulli | 0.2 per word", "hardkuma | 10%"):
        assert f"| beer | look | {name} |  | 40.0° | 39.0° |" in table, table


def run_of(outputs, notebook: str, name: str, figures: dict[str, float], **changes):
    """A finished run of another notebook, with these metrics of both splits."""
    folder = finished_run(outputs, name).rename(outputs / name)
    p = defaults(notebook_path(notebook)) | {"seed": 1} | changes
    (folder / "params.yaml").write_text(yaml.safe_dump(p))
    found = {"dev": figures, "test": figures, "best_epoch": 2, "seconds": 3.5}
    (folder / "metrics.json").write_text(json.dumps(found))
    (outputs / notebook).mkdir(exist_ok=True)
    return folder.rename(outputs / notebook / name)


def test_the_table_of_pairs_says_how_far_an_attention_is_behind_softmax(tmp_path):
    runs = [
        run_of(tmp_path, "13_train_nli", "a", {"accuracy": 0.65, "rate_selected": 1.0}, model="softmax"),
        run_of(tmp_path, "13_train_nli", "b", {"accuracy": 0.64, "rate_selected": 0.2}, model="sparsemax"),
        run_of(tmp_path, "13_train_nli", "c", {"accuracy": 0.6, "rate_selected": 0.1}, model="hardkuma", selection=0.1),
    ]
    runs += [
        run_of(tmp_path, "13_train_nli", "d", {"accuracy": 0.9, "rate_selected": 0.7}, model="sparsemax", gamma=0.2)
    ]
    runs += [run_of(tmp_path, "13_train_nli", "e", {"accuracy": 0.5, "rate_selected": 0.7}, model="oscarmax", lam=0.01)]
    table = readme_tables.nli_table(pd.concat(map(compare.rows_of, runs)))
    assert (
        "| nli_small | sparsemax, gamma=0.2 |  | 90.0 (89.4 to 90.6) | -25.0 (-26.1 to -23.9) | 70.0° | 1 |" in table
    ), table
    assert "| nli_small | oscarmax |  | 50.0 (49.0 to 51.0) | 15.0 (13.6 to 16.4) | 70.0° | 1 |" in table, (
        "the paper's price is its default: " + table
    )
    assert "| nli_small | softmax |  | 65.0 (64.1 to 65.9) | 0.0 | 100.0° | 1 |" in table, table
    assert "| nli_small | sparsemax |  | 64.0 (63.0 to 64.9) ≈ | 1.0 (-0.3 to 2.3) | 20.0° | 1 |" in table, table
    assert "| nli_small | hardkuma | 10% | 60.0 (59.0 to 61.0) | 5.0 (3.6 to 6.4) | 10.0° | 1 |" in table, table


def test_a_committed_run_says_how_it_differs_from_what_is_the_default_now(home):
    facts = {"accuracy": 0.65, "rate_selected": 1.0}
    run_of(home, "13_train_nli", "a", facts, dropout=0.2)
    collect.collect(home)
    path = committed.reference_folder() / "results.csv"
    path.write_text(path.read_text().replace("dropout=0.2", ""))  # as if that had been the default
    run_of(home / "later", "13_train_nli", "b", facts)
    table = collect.collect(home / "later")
    found = table.groupby("run")["network"].unique().map(list).to_dict()
    assert found == {"13_train_nli/a": ["dropout=0.2"], "13_train_nli/b": [""]}, found
    assert committed.read_results().query("run == '13_train_nli/a'")["network"].eq("dropout=0.2").all()


def test_the_gates_of_the_first_rationale_are_collected_if_the_run_is_there(home):
    collected = committed.reference_folder() / "epochs.json"
    run_of(home, "13_train_nli", "a", {"accuracy": 0.65, "rate_selected": 1.0})
    collect.collect(home)
    assert not collected.exists(), "there is no such run"
    folder = home / Path(committed.EPOCHS).parent
    folder.mkdir(parents=True)
    (folder / "epochs.json").write_text('{"texts": []}')
    collect.collect(home)
    assert collected.read_text() == '{"texts": []}'


def test_the_table_of_texts_has_translations_and_summaries(tmp_path):
    rouge = {"rouge1": 20.0, "rouge2": 10.0, "rougeL": 19.0, "zeros": 0.5}
    runs = [
        run_of(tmp_path, "15_train_seq2seq", "a", {"bleu": 30.0, "zeros": 0.0}, language="fr"),
        run_of(tmp_path, "15_train_seq2seq", "b", rouge, corpus="aeslc", model="fusedmax"),
        run_of(tmp_path, "15_train_seq2seq", "c", {"bleu": 29.0, "zeros": 0.9}, model="sparsemax", gamma=4.0),
    ]
    rows = pd.concat(map(compare.rows_of, runs))
    assert set(rows["task"]) == {"translation", "summarisation"}
    table = readme_tables.texts_table(rows)
    assert "| translation | multi30k, fr to en | softmax | 30.00° |  |  |  | 0 %° | 1 |" in table, table
    assert "| translation | multi30k, de to en | sparsemax, gamma=4.0 | 29.00° |  |  |  | 90 %° | 1 |" in table, table
    assert "| summarisation | aeslc | fusedmax |  | 20.00° | 10.00° | 19.00° | 50 %° | 1 |" in table, table
    assert table.index("de to en") < table.index("fr to en") < table.index("aeslc"), table


def test_the_table_of_masked_transformers_has_means_over_layers_and_the_published_rows_below():
    values = {("subject", "macro_f1"): 0.4, ("inputs", "kept"): 0.5, ("inputs", "agreement"): 0.9}
    values |= {
        ("inputs", "divergence"): 0.05,
        ("inputs", "masked_macro_f1_0"): 0.3,
        ("inputs", "masked_macro_f1_1"): 0.4,
    }
    common = {"task": "probes", "corpus": "sst", "aspect": "", "network": "", "vectors": "learned", "target": 1.0}
    common |= {"sparsity": 0.0, "settings": "", "split": "test", "seed": 1, "run": "14_train_probes/a"}
    rows = [common | {"model": model, "metric": name, "value": value} for (model, name), value in values.items()]
    rows += [row | {"split": "dev", "value": row["value"] - 0.1} for row in rows]
    table = readme_tables.masking_table(pd.DataFrame(rows)).splitlines()
    assert table[2] == "| sst | inputs | 30.0° | 25.0° | 40.0° | 35.0° | 50.0° | 90.0° | 0.050° | 1 |", table
    assert table[3] == "| sst | inputs, published | 37.9 | 38.3 |  |  | 53.7 |  |  |  |", table
    again = [row | {"seed": 2, "run": "14_train_probes/b", "settings": "subject=outputs/a"} for row in rows]
    table = readme_tables.masking_table(pd.DataFrame([*rows, *again])).splitlines()
    assert table[2].startswith("| sst | inputs | 30.0° |"), "a model that is probed twice has no spread"


@pytest.mark.slow
def test_the_tables_of_results_are_the_ones_made_from_the_committed_results():
    page = (root() / "RESULTS.md").read_text(encoding="utf-8")
    made = readme_tables.with_tables(page, committed.read_results())
    assert page == made, "the tables of RESULTS.md are stale: python -m tools.collect --tables-only"
    shown = set(re.findall(r"<!-- results: (\w+) -->", page))
    assert shown == set(readme_tables.TABLES), "each table has its place"


def test_the_list_of_tuned_settings_has_todays_values():
    table = pd.read_csv(committed.reference_folder() / "tuning.csv", dtype=str, keep_default_na=False)
    assert not table.duplicated(["where", "setting"]).any()
    for row in table.itertuples():
        if row.where.startswith("params/sweeps/"):  # the values in the grids of its runs
            sweep = yaml.safe_load((root() / row.where).read_text(encoding="utf-8"))
            grids = [run["grid"] for run in sweep["runs"] if isinstance(run, dict)]
            now = "; ".join(", ".join(map(str, grid[row.setting])) for grid in grids if row.setting in grid)
        elif row.where.startswith("params/"):
            now = yaml.safe_load((root() / row.where).read_text(encoding="utf-8"))[row.setting]
        else:
            now = defaults(notebook_path(row.where))[row.setting]
        assert str(now) == row.now or float(now) == float(row.now), f"{row.where}: {row.setting} is {now} today"
        assert row.before != row.now and re.fullmatch("[0-9a-f]{7}", row.commit), row


def test_no_epoch_of_a_training_was_evaluated_on_test():
    assert not [name for name in committed.read_history() if "test" in name]
    records = committed.read_results()
    assert set(records.loc[records["metric"] == "best_epoch", "split"]) == {"train"}


def test_every_committed_row_says_of_which_commit_and_device_it_is():
    table = committed.read_results()
    assert table["commit"].str.fullmatch("[0-9a-f]{12}").all() and table["device"].ne("").all()
    records = json.loads((committed.reference_folder() / "runs.json").read_text(encoding="utf-8"))
    commits = {record["run"]: record["environment"]["commit"][:12] for record in records}
    assert table.groupby("run")["commit"].unique().map(list).to_dict() == {run: [c] for run, c in commits.items()}


def test_every_published_number_says_where_it_stands():
    table = committed.read_published()
    top = table["task"].map({"summarisation": 100, "probes": 2}).fillna(1)  # ROUGE in per cent, nats
    assert table["source"].notna().all() and table["value"].between(0, top).all()
    assert set(table["known"]) == {"read", "recalled"}, "and whether it was read there"


def test_the_key_of_the_committed_file_is_one():
    table = pd.read_csv(committed.reference_folder() / "results.csv", keep_default_na=False)
    alike = table[table.duplicated(compare.KEY, keep=False)]
    assert alike.empty, f"{compare.KEY} tells these runs apart no longer: {sorted(alike['run'].unique())}"


def test_the_variant_of_a_run_tells_its_aspect_its_price_and_its_settings(tmp_path):
    made = finished_run(tmp_path, model="bernoulli", selection=None, sparsity=0.05, dropout=0.2, epochs=3)
    assert set(compare.rows_of(made)["variant"]) == {"sparsity=0.05, dropout=0.2, epochs=3"}
    table = pd.DataFrame([["look", 0.0, ""]], columns=["aspect", "sparsity", "settings"])
    assert compare.with_variant(table)["variant"].tolist() == ["aspect=look"]


def test_no_two_committed_values_have_the_same_settings_and_the_same_seed():
    table = committed.read_results()
    keys = [*compare.KIND, "settings", "seed", "split", "metric"]
    alike = table[table.duplicated(keys, keep=False)]
    assert alike.empty, f"averaged as if they were seeds: {sorted(alike['run'].unique())}"


def test_the_committed_settings_are_those_that_differ_from_todays_defaults():
    table = committed.read_results()
    again = table.copy()
    records = json.loads((committed.reference_folder() / "runs.json").read_text(encoding="utf-8"))
    committed.describe_again(again, records)
    told = ["settings", "network", "variant"]
    stale = table.loc[(again[told] != table[told]).any(axis=1), "run"]
    assert stale.empty, f"{sorted(set(stale))}: a default has changed, run python -m tools.collect --tables-only"


def test_the_committed_results_are_tidy():
    table = pd.read_csv(committed.reference_folder() / "results.csv")  # the file itself
    assert list(table.columns) == compare.COLUMNS
    assert table["value"].notna().all() and not table.duplicated(["run", "model", "split", "metric"]).any()
    records = json.loads((committed.reference_folder() / "runs.json").read_text(encoding="utf-8"))
    recorded = {record["run"] for record in records}
    assert set(table["run"]) == recorded, "every run has its parameters and environment in runs.json"


# --- a run knows its notebook


def test_a_run_is_known_by_its_notebook_wherever_its_folder_is(tmp_path):
    run = finished_run(tmp_path)
    assert origin.notebook_of(run) == "12_train_sst", "an old run without a record: by its folder"
    moved = run.rename(tmp_path / "mine")
    (moved / "run.ipynb").write_text(
        json.dumps({"metadata": {"papermill": {"input_path": "12_train_sst.py"}}}, indent=1)
    )
    assert origin.notebook_of(moved) == "12_train_sst", "by the notebook that was executed"
    with (moved / "environment.txt").open("a") as file:
        file.write("notebook: 11_train_reviews\n")
    assert origin.notebook_of(moved) == "11_train_reviews", "by its environment"


def test_a_run_in_the_folder_of_another_notebook_is_refused_by_name(tmp_path, home):
    run = finished_run(home / "runs")
    with (run / "environment.txt").open("a") as file:
        file.write("notebook: 12_train_sst\n")
    elsewhere = home / "runs" / "11_train_reviews" / "x"
    elsewhere.parent.mkdir()
    run.rename(elsewhere)
    for read in (lambda: compare.rows_of(elsewhere), lambda: collect.collect(home / "runs")):
        with pytest.raises(BadInput, match="x: a run of 12_train_sst in the folder of 11_train_reviews; move it"):
            read()


@pytest.mark.parametrize(
    ("reader", "accepted"),
    [("21_read_reviews", "10_first_rationale or 11_train_reviews"), ("22_read_sst", "12_train_sst"),
     ("23_read_nli", "13_train_nli"), ("24_read_probes", "14_train_probes"), ("25_read_seq2seq", "15_train_seq2seq"),
     ("26_read_failures", "16_failures"),
     ("31_selection_rates", "12_train_sst"), ("32_reviews", "10_first_rationale or 11_train_reviews")],
)  # fmt: skip
def test_a_run_of_another_notebook_is_refused_by_each_page_by_name(reader, accepted, tmp_path, monkeypatch):
    other = finished_probes if reader in ("22_read_sst", "31_selection_rates") else finished_run
    run = other(tmp_path)
    key = {"run": run.name} if "run" in defaults(notebook_path(reader)) else {"runs": [run.name]}
    failed, _ = run_cells(reader, tmp_path / "page", monkeypatch, runs_dir=str(run.parent), **key)
    first = str(next(iter(failed.values())))
    assert f"{run}: a run of {run.parent.name}" in first and first.endswith(f"accepted here is a run of {accepted}"), (
        first
    )


def test_what_has_no_multiplier_counts_once_among_runs_that_start_it_elsewhere():
    """The runs' names sort the other way round: it is the run with the usual start whose row is taken."""
    settings = {"14_train_probes/a": "margin=0.2, multiplier_init=3.0", "14_train_probes/b": "margin=0.2"}
    common = dict.fromkeys(compare.COLUMNS, "") | {"task": "probes", "metric": "optimality", "seed": 1, "value": 0.5}
    rows = [common | {"run": run, "model": model, "network": "gru", "settings": line}
            for run, line in settings.items() for model in ("masks", "masks_by_released_score", "erasure")]  # fmt: skip
    found = committed.search_rows(pd.DataFrame(rows)).groupby("model")["run"].agg(list).to_dict()
    usual, both = ["14_train_probes/b"], ["14_train_probes/b", "14_train_probes/a"]
    assert found == {"masks": both, "masks_by_released_score": usual, "erasure": usual}


def test_a_score_function_is_compared_with_the_gate_of_its_runs_after_each_quarter_of_the_steps():
    """Two texts: the score function is ahead by one after a quarter of the steps, and level at the end."""
    common = dict.fromkeys(compare.COLUMNS, "") | {"run": "14_train_probes/a", "settings": "margin=0.5, num_steps=8"}
    rows = pd.DataFrame([common | {"model": model} for model in ("masks", "masks_by_score")])
    bits = {"masks optimality_at_2": "4", "masks_by_score optimality_at_2": "c"}
    bits |= {"masks optimality": "c", "masks_by_score optimality": "c"}
    scores = pd.DataFrame([["14_train_probes/a", name, 2, value] for name, value in bits.items()])
    found = committed.search_steps(rows, scores.set_axis(["run", "metric", "texts", "values"], axis=1))
    assert found[["method", "margin", "steps"]].values.tolist() == [["masks_by_score", 0.5, k] for k in (2, 8)]
    first, end = found["optimality"]
    assert first.value == 0.5 and end.value == end.low == end.high == 0 and found["f1"].isna().all()
    assert committed.search_steps(rows, scores.head(0).set_axis(["run", "metric", "texts", "values"], axis=1)).empty
    assert committed.search_rows(rows.head(0).assign(value=1.0)).empty, "no run has searched"
