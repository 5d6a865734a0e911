"""Comparisons of finished runs: what is averaged, what is a column, and what is exported."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from own_files import reviews, write_table

import rationale
from rationale import figures
from rationale.errors import BadInput
from rationale.runs import compare, differences, exports, results
from tests.finished import finished_run


def table_of(*runs, metrics=("accuracy",)):
    return compare.summary(compare.rows_of(*runs), list(metrics))


def test_runs_that_differ_in_any_setting_are_no_seeds_of_each_other(tmp_path):
    changes = [{}, {"num_train": 100}, {"epochs": 3}, {"hidden_size": 8}]
    table = table_of(*(finished_run(tmp_path, f"r{i}", seed=i, **change) for i, change in enumerate(changes)))
    assert table["seeds"].tolist() == [1, 1, 1, 1]
    assert {"num_train", "epochs", "hidden_size"} == set(compare.setting_columns(table))
    assert sorted(table["epochs"]) == [3, 25, 25, 25], "the default stands where a run did not change it"


def test_a_sweep_over_the_learning_rate_has_one_row_and_one_line_per_value(tmp_path):
    runs = [
        finished_run(tmp_path, f"l{rate}s{seed}t{target}", learning_rate=rate, seed=seed, selection=target)
        for rate in (0.0002, 0.001, 0.01) for seed in (1, 2) for target in (0.2, 0.4)
    ]  # fmt: skip
    rows = compare.rows_of(*runs)
    assert sorted(rows["settings"].unique()) == ["", "learning_rate=0.001", "learning_rate=0.01"]
    table = compare.summary(rows, ["accuracy"])
    assert table["learning_rate"].tolist() == [0.0002, 0.001, 0.01] * 2 and set(table["seeds"]) == {2}
    assert compare.told_columns(table) == ["model", "target", "learning_rate"]
    assert sorted(compare.line_names(table).unique()) == [
        "hardkuma, learning_rate=0.0002",
        "hardkuma, learning_rate=0.001",
        "hardkuma, learning_rate=0.01",
    ], "points of different learning rates are not joined, points of different targets are"


def test_two_runs_with_the_same_settings_and_seed_are_refused_by_name(tmp_path):
    runs = [finished_run(tmp_path, name, seed=1, device=device) for name, device in (("a", "cpu"), ("b", "cuda"))]
    with pytest.raises(BadInput, match="12_train_sst/a and 12_train_sst/b: the same settings .* seed, 1"):
        table_of(*runs)


@pytest.mark.parametrize("missing", ["corpus", "target", "sparsity"])
def test_two_runs_of_a_table_without_some_fact_are_refused_by_name_as_well(tmp_path, missing):
    rows = compare.rows_of(*(finished_run(tmp_path, name, seed=1) for name in ("a", "b")))
    with pytest.raises(BadInput, match="12_train_sst/a and 12_train_sst/b: the same settings .* seed, 1"):
        compare.summary(rows.assign(**{missing: float("nan")}), ["accuracy"])


def test_runs_on_different_corpora_aspects_or_vectors_are_not_averaged(tmp_path):
    rows = compare.rows_of(finished_run(tmp_path, "a", seed=1))
    for column, value in (("task", "x"), ("corpus", "x"), ("aspect", "x"), ("vectors", "x")):
        both = pd.concat([rows, rows.assign(seed=2, run="12_train_sst/b", **{column: value})])
        assert compare.summary(both, ["accuracy"])["seeds"].tolist() == [1, 1], column


def test_settings_without_an_effect_on_a_model_do_not_tell_its_runs_apart():
    def settings(**p):
        return differences.settings_of(p, "12_train_sst")

    for name, value in (("multiplier_rate", 0.5), ("left", -0.2), ("entropy", 0.1), ("samples", 2), ("tolerance", 0.5)):
        assert settings(model="full_text", **{name: value}) == {}, name
        assert settings(model="hardkuma", **{name: value}) == {name: value}, name
    assert settings(model="attention", rule="top_k", budget=0.2) == {"rule": "top_k"}, "the budget is the target"
    assert settings(model="hardkuma", rule="top_k", budget=0.2) == {"budget": 0.2, "rule": "top_k"}
    assert settings(vectors="glove.6B.50d", embedding_size=7) == {}, "a file has its own size"
    assert settings(vectors="random", embedding_size=7) == {"embedding_size": 7}
    assert settings(vectors="glove.6B.50d", train_vectors=True) == {}, "vectors of a file are never trained"
    assert settings(vectors="random", train_vectors=True) == {"train_vectors": True}
    assert settings(device="cuda", tensorboard=True, seed=9) == {}
    assert settings(a_setting_of_the_past=1) == {"a_setting_of_the_past": 1}


def test_settings_are_written_in_order_and_read_back():
    settings = {"subject": "a, b=c", "methods": ["states", "it's, [odd]"], "note": "", "epochs": 3, "rate": 1e-05,
                "flag": True, "most": None, "text": "12"}  # fmt: skip
    line = differences.write_settings(settings)
    assert differences.read_settings(line) == settings, line
    assert line.startswith("epochs=3, flag=true, methods=[states,") and "most=null" in line
    assert differences.read_settings("") == {} and differences.write_settings({}) == ""


def test_what_whole_models_differ_in_is_told_in_a_line_each_and_is_no_column(tmp_path):
    bernoulli = {"model": "bernoulli", "selection": None, "sparsity": 0.01, "samples": 2, "baseline": "leave_one_out"}
    runs = [finished_run(tmp_path, "h", epochs=12), finished_run(tmp_path, "b", epochs=12, **bernoulli)]
    rows = compare.rows_of(*runs)
    assert compare.setting_columns(compare.summary(rows, ["accuracy"])) == []
    assert compare.recipes(rows) == ["all models: epochs=12", "bernoulli: baseline=leave_one_out, samples=2"]


def test_a_caption_names_runs_seeds_corpus_split_and_commit(tmp_path):
    rows = compare.rows_of(*(finished_run(tmp_path, f"s{seed}", seed=seed) for seed in (1, 2)))
    said = compare.caption(rows)
    assert said == "2 runs of 12_train_sst; seeds 1, 2; corpus sst; test split; commit 0123456789ab"


def test_a_caption_names_no_seed_that_there_is_not():
    one = {"corpus": "sst", "aspect": "", "commit": ""}
    for seeds, says in (([1, 2, 3, 4], "1 to 4"), ([1, 2, 3, 9], "1 to 3, 9"), ([9, 1, 5, 3, 6], "1, 3, 5, 6, 9"),
                        ([1, 2, 5, 6, 7], "1, 2, 5 to 7"), ([1, 3, 7], "1, 3, 7"), ([1, 2, 3], "1, 2, 3")):  # fmt: skip
        rows = pd.DataFrame([one | {"seed": seed, "run": f"12_train_sst/s{seed}"} for seed in seeds])
        assert compare.facts_of(rows)["seeds"] == f"seeds {says}"


def test_a_thousand_runs_are_compared_without_reading_defaults_a_thousand_times(tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(differences, "defaults", lambda path: counted.append(path) or {"seed": 1, "epochs": 1})
    differences.defaults_of.cache_clear()
    runs = [finished_run(tmp_path, f"s{seed}", seed=seed) for seed in range(20)]
    compare.rows_of(*runs)
    differences.defaults_of.cache_clear()
    assert len(counted) == 1


# --- the command


@pytest.fixture
def sweep(tmp_path):
    """Four finished runs, a folder that is none, and a log."""
    for rate in (0.001, 0.01):
        for seed in (1, 2):
            finished_run(tmp_path, f"l{rate}s{seed}", accuracy=rate + 0.1 * seed, learning_rate=rate, seed=seed)
    (tmp_path / "12_train_sst" / "killed.partial").mkdir()
    (tmp_path / "12_train_sst" / "a.log").write_text("")
    return tmp_path


def call(sweep, *arguments):
    runs = sorted(map(str, (sweep / "12_train_sst").iterdir()))
    return results.main([*runs, *arguments, "--out", str(sweep / "out")])


def test_the_command_prints_and_writes_one_row_per_setting(sweep, capsys):
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "rate_selected") == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"left out, no finished runs: \S*killed.partial\n", printed.err), "the log is no folder"
    table = pd.read_csv(sweep / "out" / "accuracy_rate_selected_by_learning_rate.csv")
    assert table["learning_rate"].tolist() == [0.001, 0.01] and table["seeds"].tolist() == [2, 2]
    assert table["accuracy"].tolist() == pytest.approx([0.151, 0.16])
    assert table["accuracy_std"].tolist() == pytest.approx([0.1 / 2**0.5] * 2)
    assert "0.151" in printed.out and "4 runs of 12_train_sst" in printed.out
    for metric in ("accuracy", "rate_selected"):
        stem = sweep / "out" / f"{metric}_by_learning_rate"
        assert stem.with_suffix(".svg").read_text().count("4 runs of 12_train_sst") == 1, "its caption"
        assert stem.with_suffix(".pdf").read_bytes()[:5] == b"%PDF-"
        assert stem.with_suffix(".png").read_bytes()[1:4] == b"PNG"


def test_a_folder_that_is_no_run_gives_another_exit_code_than_an_unfinished_run(sweep, capsys):
    (sweep / "12_train_sst" / "notes").mkdir()
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "--no-plot") == 1
    assert "notes" in capsys.readouterr().err and (sweep / "out" / "accuracy_by_learning_rate.csv").is_file()


def test_a_run_that_has_lost_the_ending_of_an_unfinished_one_meanwhile_is_no_mistake(sweep):
    renamed = sweep / "12_train_sst" / "mine-seed1.partial"
    assert results.finished_runs([str(renamed)]) == ([], [renamed.resolve()])


def test_a_folder_whose_name_looks_like_a_pattern_is_that_folder_and_no_other(tmp_path, monkeypatch):
    names = ["out[1]", "out1", "a*", "ab"]
    asked = {name: finished_run(tmp_path / name, "run") for name in names}
    for name, run in asked.items():
        assert results.finished_runs([str(run)]) == ([run.resolve()], []), name
    monkeypatch.chdir(tmp_path)
    found, _ = results.finished_runs(["out?/12_train_sst/*"])
    assert found == [asked["out1"].resolve()], "a pattern that is no folder still finds its folders"


def test_an_empty_folder_is_refused_and_not_the_current_one(sweep, tmp_path, monkeypatch, capsys):
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    runs = sorted(map(str, (sweep / "12_train_sst").glob("l*")))
    with pytest.raises(SystemExit) as end:
        results.main([*runs, "--by", "learning_rate", "--metric", "accuracy", "--no-plot", "--out", ""])
    assert end.value.code == 2 and "--out: an empty value is not accepted, give a folder" in capsys.readouterr().err
    assert not list(here.iterdir())


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_printed(sweep, capsys):
    runs = sorted(map(str, (sweep / "12_train_sst").glob("l*")))
    (sweep / "file").write_text("")
    assert results.main([*runs, "--by", "learning_rate", "--metric", "accuracy", "--out", str(sweep / "file")]) == 2
    assert capsys.readouterr().out == ""


def test_a_damaged_list_of_written_files_does_not_stop_the_command(sweep, capsys):
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "--no-plot") == 0
    (sweep / "out" / ".written.json").write_text("{")
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "--no-plot") == 2
    assert "was not written by this command and would be overwritten" in capsys.readouterr().err


def test_of_two_metrics_the_one_that_some_runs_lack_has_its_own_number_of_seeds(sweep, capsys):
    run = sweep / "12_train_sst" / "l0.01s2"
    scores = json.loads((run / "metrics.json").read_text())
    del scores["test"]["rate_selected"]
    (run / "metrics.json").write_text(json.dumps(scores))
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "rate_selected", "--no-plot") == 0
    assert "note: rate_selected is a mean over fewer runs where rate_selected_seeds is less" in capsys.readouterr().err
    table = pd.read_csv(sweep / "out" / "accuracy_rate_selected_by_learning_rate.csv")
    assert table["seeds"].tolist() == [2, 2] and table["rate_selected_seeds"].tolist() == [2, 1]
    assert "accuracy_seeds" not in table


def test_a_run_without_the_metric_is_named_and_not_counted_in_the_caption(sweep, capsys):
    other = finished_run(sweep, "other", accuracy=0.3, learning_rate=0.1, seed=9)
    scores = json.loads((other / "metrics.json").read_text())
    for split in ("dev", "test"):
        scores[split] = {"mse": 0.07099}
    (other / "metrics.json").write_text(json.dumps(scores))
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "--no-plot") == 0
    printed = capsys.readouterr()
    assert "left out, without accuracy on test: 12_train_sst/other\n" in printed.err
    assert "4 runs of 12_train_sst; seeds 1, 2;" in printed.out
    assert call(sweep, "--by", "learning_rate", "--metric", "mse", "--no-plot") == 0
    assert "0.07099" in (sweep / "out" / "mse_by_learning_rate.tex").read_text(), "three decimals would say 0.071"


def test_runs_of_several_kinds_get_a_line_each(sweep):
    finished_run(sweep, "full", model="full_text", selection=None)
    finished_run(sweep, "other", encoder="rcnn", seed=1)
    finished_run(sweep, "wide", hidden_size=7, seed=1)
    for by in (["selection"], ["learning_rate", "seed"], ["model"], ["encoder"], ["seed", "selection"]):
        assert call(sweep, "--by", *by, "--metric", "accuracy") == 0, by
        table = pd.read_csv(sweep / "out" / f"accuracy_by_{'_'.join(by)}.csv")
        kinds = [name for name in table if not name.startswith("accuracy") and name != "seeds"]
        assert not table.duplicated(kinds).any() and table["seeds"].sum() == 7, by


def test_an_empty_table_is_not_exported(tmp_path):
    rows = compare.rows_of(finished_run(tmp_path, "a", seed=1))
    export = exports.Exports(tmp_path / "out", rows)
    table = table_of(tmp_path / "12_train_sst" / "a")
    export.table(table.head(0), "none"), export.table(table, "some")
    assert sorted(path.name for path in (tmp_path / "out" / "tables").iterdir()) == ["some.csv", "some.tex"]


def test_the_column_of_the_target_has_the_name_of_the_setting(sweep):
    finished_run(sweep, "more", seed=1, learning_rate=0.01, selection=0.6)
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy", "--no-plot") == 0
    table = pd.read_csv(sweep / "out" / "accuracy_by_learning_rate.csv")
    assert table["selection"].tolist() == [0.4, 0.4, 0.6] and "target" not in table


def test_the_legend_names_the_default_of_a_setting_in_which_lines_differ(sweep, monkeypatch):
    finished_run(sweep, "other", encoder="rcnn", seed=1, learning_rate=0.01)
    finished_run(sweep, "wide", hidden_size=7, seed=1, learning_rate=0.01)
    drawn = []
    monkeypatch.setattr(figures, "draw_score_by_setting", lambda lines, *_, **__: drawn.extend(lines))
    assert call(sweep, "--by", "learning_rate", "--metric", "accuracy") == 0
    assert sorted(drawn) == [
        "hardkuma, encoder=lstm, hidden_size=150",
        "hardkuma, encoder=lstm, hidden_size=7",
        "hardkuma, encoder=rcnn, hidden_size=150",
    ]


def test_runs_of_fit_are_compared_like_those_of_the_notebook_whose_runs_they_are(tmp_path, capsys):
    path, small = write_table(tmp_path / "r.csv", reviews(40)), {"embedding_size": 4, "epochs": 1, "device": "cpu"}
    scores = {}
    for size in (4, 6):
        for seed in (1, 2):
            folder = tmp_path / "mine" / f"h{size}s{seed}"
            rationale.fit(path, folder, hidden_size=size, seed=seed, **small)
            scores.setdefault(size, []).append(json.loads((folder / "metrics.json").read_text())["test"]["accuracy"])
    runs, out = sorted(map(str, (tmp_path / "mine").iterdir())), tmp_path / "out"
    arguments = ["--by", "hidden_size", "batch_size", "--metric", "accuracy", "--no-plot", "--out", str(out)]
    assert results.main([*runs, *arguments]) == 0
    assert "4 runs of 17_train_own_texts" in capsys.readouterr().out
    table = pd.read_csv(out / "accuracy_by_hidden_size_batch_size.csv").query("model == 'hardkuma'")
    assert table["hidden_size"].tolist() == [4, 6] and table["seeds"].tolist() == [2, 2]
    assert table["batch_size"].tolist() == [32, 32], "a setting that these runs have in common"
    assert table["accuracy"].tolist() == pytest.approx([sum(values) / 2 for values in scores.values()])
    (Path(runs[0]) / "read.json").unlink()
    assert results.main([runs[0], *arguments]) == 0, "one of the two records says which notebook the run is of"
    capsys.readouterr()
    (Path(runs[0]) / "environment.txt").unlink()
    assert results.main([runs[0], *arguments]) == 2
    assert "environment.txt (of rationale.fit: read.json)" in capsys.readouterr().err, "what is missing is named"


def test_a_setting_in_which_two_runs_of_the_same_name_differ_is_refused(tmp_path, capsys):
    runs = [finished_run(tmp_path / f"e{epochs}", "run", seed=1, epochs=epochs, device="cpu") for epochs in (2, 3)]
    arguments = ["--metric", "accuracy", "--no-plot", "--out", str(tmp_path / "out")]
    assert results.main([*map(str, runs), "--by", "epochs", *arguments]) == 2
    assert "--by epochs: two runs are named 12_train_sst/run; give" in capsys.readouterr().err
    assert results.main([*map(str, runs), "--by", "batch_size", *arguments]) == 0


def test_unknown_settings_metrics_and_folders_are_answered_in_one_line(sweep, capsys):
    close = {"learning_rat": "did you mean learning_rate", "zzz": "these runs have .*epochs"}
    cases = [(["--by", name, "--metric", "accuracy"], f"--by {name}: no such .*{said}") for name, said in close.items()]
    cases.append((["--by", "epochs", "--metric", "acuracy"], "--metric acuracy: no run .* did you mean accuracy"))
    for arguments, said in cases:
        assert call(sweep, *arguments) == 2
        message = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
        assert len(message) == 1 and re.search(said, message[0]), message
    assert results.main([str(sweep / "nowhere"), "--by", "epochs", "--metric", "accuracy"]) == 2
    assert "nowhere: no such folder" in capsys.readouterr().err
    assert results.main([str(sweep), "--by", "epochs", "--metric", "accuracy"]) == 2
    assert "no finished run" in capsys.readouterr().err
    assert not (sweep / "out").exists(), "nothing was written"


def test_the_command_writes_its_own_files_again_and_no_other(sweep, capsys):
    arguments = ["--by", "learning_rate", "--metric", "accuracy", "--no-plot"]
    assert call(sweep, *arguments) == 0 and call(sweep, *arguments) == 0
    assert {path.suffix for path in (sweep / "out").iterdir()} == {".csv", ".tex", ".json"}, "no figures were wanted"
    written = sweep / "out" / "accuracy_by_learning_rate.tex"
    written.write_text("% with a caption of mine\n" + written.read_text())
    assert call(sweep, *arguments) == 2
    assert "accuracy_by_learning_rate.tex: was changed since this command wrote it" in capsys.readouterr().err
    assert written.read_text().startswith("% with a caption of mine")
    foreign = sweep / "out" / "accuracy_by_epochs.csv"
    foreign.write_text("mine")
    assert call(sweep, "--by", "epochs", "--metric", "accuracy") == 2
    assert foreign.read_text() == "mine" and "was not written by this command" in capsys.readouterr().err
