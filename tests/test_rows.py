"""One text at all rates of a sweep, or in all layers of a probed model: what is saved of the runs, and its explorer."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy import stats
from test_embedded import in_node, needs_node

import rationale
from rationale.data.read import write_as_table
from rationale.errors import BadInput
from rationale.explorers import explore_saved_layers, explore_saved_rates
from rationale.explorers.rows import LAYERS_FILE, RATES_FILE
from rationale.runs import by_text, saved
from rationale.runs.committed import reference_folder
from rationale.runs.faithfulness import agreement_by_text, batches_of
from rationale.statistics import mean_interval, paired_bootstrap
from rationale.training.toy_gates import SENTENCE
from tests.finished import finished_run
from tools import own_rows, readme_tables, rows

TOKENS = [["a", "dull", "film"] * 3, [*SENTENCE], ["short"]]


def one_rate(outputs: Path, rate: float, tokens=TOKENS) -> Path:
    """The folder of a run that selects the first words of each dev text."""
    folder = finished_run(outputs, f"rate{rate}", accuracy=rate, selection=rate, corpus="sst")
    (folder / "model.safetensors").write_text("made up")
    lines = [
        {"split": "dev", "tokens": words, "z": [float(i < rate * len(words)) for i in range(len(words))], "label": 1,
         "prediction": 1, "word_labels": [2 - (word == "dull") for word in words]}
        for words in tokens
    ]  # fmt: skip
    (folder / "rationales.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def sweep(tmp_path) -> list[Path]:
    return [one_rate(tmp_path, rate) for rate in (0.6, 0.2, 0.4)]


def test_the_runs_of_a_sweep_are_saved_in_the_order_of_their_rates_with_the_known_sentence_first(sweep):
    saved = rows.rate_rows(sweep)
    assert [text["tokens"] for text in saved["texts"]] == [[*SENTENCE], TOKENS[0]], "one word is too short to show"
    assert saved["texts"][1]["gold"] == [0, 1, 0] * 3, "words with a sentiment are marked"
    (gates,) = saved["methods"]
    assert [row["title"] for row in gates["rows"]] == ["20 %", "40 %", "60 %"]
    assert gates["rows"][0]["values"][1] == [1, 1] + [0] * 7
    assert gates["rows"][1]["answers"] == ["The model predicts “negative”"] * 2
    assert gates["curve"]["x"] == gates["curve"]["y"] == [0.2, 0.4, 0.6]


def test_runs_that_are_no_sweep_or_read_other_texts_are_refused(sweep, tmp_path):
    with pytest.raises(BadInput, match="differ in nothing but their rate"):
        rows.rate_rows(sweep[:1])
    p = yaml.safe_load((sweep[0] / "params.yaml").read_text())
    (sweep[0] / "params.yaml").write_text(yaml.safe_dump(p | {"seed": 7}))
    with pytest.raises(BadInput, match="differ in nothing but their rate"):
        rows.rate_rows(sweep)
    with pytest.raises(BadInput, match="other dev texts"):
        rows.rate_rows([*sweep[1:], one_rate(tmp_path, 0.9, [["another", "text"]])])


def test_runs_that_have_no_rate_or_no_model_are_refused_in_one_line(tmp_path, sweep, capsys):
    probes = tmp_path / "14_train_probes" / "default"
    probes.mkdir(parents=True)
    (probes / "params.yaml").write_text("methods: [masks]\ncorpus: toy\n")
    (probes / "model.safetensors").touch()
    assert rows.main(["rates", str(sweep[0]), str(probes)]) == 2
    assert "differ in nothing but their rate" in capsys.readouterr().err
    assert rows.main(["rates", str(sweep[0]), str(tmp_path / "gone")]) == 2
    assert "gone: no saved model" in capsys.readouterr().err


def test_the_command_writes_a_file_that_the_explorer_shows(sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rows, "reference_folder", lambda: tmp_path)
    assert rows.main(["rates", *map(str, sweep)]) == 0 and RATES_FILE in capsys.readouterr().out
    explorer = explore_saved_rates(tmp_path)
    assert explorer.texts[0]["tokens"] == [*SENTENCE] and explorer.label == "rate"
    assert rows.main(["layers", *map(str, sweep)]) == 2 and "got 3 runs" in capsys.readouterr().err
    with pytest.raises(BadInput, match=f"no {LAYERS_FILE}; `python -m tools.rows` writes it"):
        explore_saved_layers(tmp_path)


@pytest.mark.parametrize("explore", [explore_saved_rates, explore_saved_layers])
def test_the_committed_files_give_every_word_of_a_text_a_number_in_every_row(explore):
    explorer = explore(reference_folder())
    assert len(explorer.texts) > 2 and all(len(method["rows"]) > 1 for method in explorer.methods)
    for method in explorer.methods:
        for row in method["rows"]:
            assert len(row["values"]) == len(row["answers"]) == len(explorer.texts)
            for values, text in zip(row["values"], explorer.texts, strict=True):
                assert len(values) == len(text["tokens"]) == len(text["gold"])
                assert all(0 <= value <= 1 for value in values)
        assert method["curve"] is None or len(method["curve"]["x"]) == len(method["curve"]["y"]) == len(method["rows"])
    assert len(json.dumps(explorer.state(), allow_nan=False)) < 100_000, "a small file"


@needs_node
def test_the_browser_counts_the_words_that_the_package_has_selected():
    explorer = explore_saved_rates(reference_folder())
    (gates,), points = explorer.methods, []
    for text in range(len(explorer.texts)):
        points += [{"text": text, "row": row, "state": explorer.state()} for row in range(len(gates["rows"]))]
    found = in_node(explorer, "({text, row, state}) => m.sentenceAt(state, text, 0, row)", points)
    for point, sentence in zip(points, found, strict=True):
        row, text = gates["rows"][point["row"]], point["text"]
        selected = sum(z > 0 for z in row["values"][text])
        verb = "is" if selected == 1 else "are"
        start = f"At rate {row['title']}, {selected} of {len(row['values'][text])} words {verb} selected."
        assert sentence == f"{start} {row['answers'][text]}. {row['facts']}."


@needs_node
def test_the_browser_says_one_word_of_a_text_of_one_word():
    text = {"tokens": ["fine"], "gold": [1], "title": "one"}
    row = {"title": "30 %", "values": [[1.0]], "answers": [""], "facts": ""}
    state = {"texts": [text], "methods": [{"level": 0, "did": "selected", "rows": [row]}], "label": "rate"}
    [told] = in_node(explore_saved_rates(reference_folder()), "state => m.sentenceAt(state, 0, 0, 0)", [state])
    assert told == "At rate 30 %, 1 of 1 word is selected."


# --- corpora as texts of one's own


def own_run(folder, seed=1, **changes):
    """A finished run of 17_train_own_texts on made-up reviews, in small."""
    run = folder / "17_train_own_texts" / f"run-{'-'.join(map(str, changes.values()))}{seed}"
    small = {"embedding_size": 8, "hidden_size": 6, "epochs": 1, "device": "cpu", "seed": seed}
    table = write_as_table("synthetic", folder / "reviews.csv", 120)
    marked = pd.read_csv(table).assign(rationale=lambda rows: [f"[[0, {text.index(' ')}]]" for text in rows["text"]])
    marked.to_csv(table, index=False)  # the first word of each text
    rationale.fit(table, folder=run, rationale="rationale", **small, **changes)
    (run / "environment.txt").write_text("notebook: 17_train_own_texts\ncommit: 0123456789abcdef\n")
    (run / "SHA256SUMS").unlink()  # of the record that was written over
    written = yaml.safe_load((run / "params.yaml").read_text()) | {"corpus": "synthetic", "num_train": 96}
    (run / "params.yaml").write_text(yaml.safe_dump(written))
    return run


def test_runs_that_differ_in_the_steps_of_the_encoder_alone_are_compared_and_no_others():
    names = {"sst-{}seed1": (0.50, 0.40), "sst-{}seed2": (0.46, 0.44), "sst-{}closeness0-seed1": (0.9, 0.1)}
    rows = []
    for name, accuracies in names.items():
        for steps, accuracy in zip(("encoderminilm-bfloat16true-", "minilm_larger_steps-"), accuracies, strict=True):
            of = {"corpus": "sst", "encoder": "minilm", "model": "hardkuma", "target": 0.2, "train": 9}
            row = {"run": name.format(steps), "seed": int(name[-1]), "dev_accuracy": accuracy, "test_accuracy": 0.4}
            rows.append(of | row)
    (said,) = readme_tables.steps_in_words(pd.DataFrame(rows))
    low, high = mean_interval([0.10, 0.02])
    assert said.startswith("2 pairs of runs") and "on test 0.0 (0.0 to 0.0) points, and above 0 in 0" in said
    assert f"on dev 6.0 ({100 * low:.1f} to {100 * high:.1f}) points, and above 0 in 2;" in said
    assert not readme_tables.steps_in_words(pd.DataFrame(rows[:2]))


def test_runs_on_a_corpus_as_texts_of_ones_own_are_rows_with_their_baseline_and_their_differences(
    tmp_path, monkeypatch
):
    runs = [own_run(tmp_path), own_run(tmp_path, model="full_text")]
    table = pd.DataFrame([own_rows.own_row(run) for run in runs])
    assert table["model"].tolist() == ["hardkuma", "full_text"] and table["target"].tolist() == [0.2, 1.0]
    assert table["test"].tolist() == [12, 12] and table["train"].tolist() == [96, 96]
    for run, row in zip(runs, table.itertuples(), strict=True):
        monkeypatch.chdir(run)
        assert own_rows.own_row(Path())["run"] == row.run == run.name != ""
        right = by_text.read_scores("accuracy", row.test, row.right)
        assert right.mean().item() == pytest.approx(row.test_accuracy)
        assert row.tfidf_test == json.loads((run / "baseline.json").read_text())["test"]["accuracy"]
    (found,) = readme_tables.own_differences(table).itertuples()
    assert found.full.value == pytest.approx(table["test_accuracy"][0] - table["test_accuracy"][1])
    assert found.tfidf.value == pytest.approx(table["test_accuracy"][0] - table["tfidf_test"][0])
    assert found.rate_gap == pytest.approx(abs(table["test_rate"][0] - 0.2))
    whole = json.loads((runs[0] / "metrics.json").read_text())["test"]
    assert table["f1_macro"][0] == pytest.approx(whole["f1_macro"]), "the agreement with the words that are marked"
    shown, rate = readme_tables.agreement_table(table), f"{100 * whole['rate_selected']:.1f}°"
    assert f"| synthetic | lstm, seed 1 | {rate} | {100 * whole['f1_macro']:.1f} (" in shown
    assert shown.count("recalled, not read") == 2, "the published numbers"
    model, texts = saved.load_run(runs[0]), saved.read_rationales(runs[0], "test")
    values = agreement_by_text(model, texts, batches_of(model, texts))["f1_macro"].tolist()
    assert table["marked"].tolist() == [len(values)] * 2
    low, high = mean_interval(values)
    assert f"({100 * low:.1f} to {100 * high:.1f})" in shown, "Student's interval over the texts"
    earlier = readme_tables.agreement_table(table.drop(columns="marked"))
    normal = stats.norm.interval(0.95, np.mean(values), stats.sem(values))
    assert f"({100 * normal[0]:.1f} to {100 * normal[1]:.1f})" in earlier, "rows without their number keep theirs"


def row_of_right(name: str, seed: int, right: str, model: str = "hardkuma", target: float = 0.2) -> dict:
    """A row of `read_own_texts` on made-up texts, from a string of 0 and 1."""
    scores = torch.tensor([[float(bit) for bit in right]])
    of = {"run": f"synthetic-{name}seed{seed}", "corpus": "synthetic", "encoder": "lstm", "model": model}
    of |= {
        "target": target,
        "seed": seed,
        "train": 9,
        "dev": 4,
        "test": len(right),
        "tfidf_test": 0.5,
        "seconds": 60.0,
        "test_rate": target,
    }
    return of | {"test_accuracy": scores.mean().item(), "right": by_text.write_scores("accuracy", scores[0])}


def test_the_means_over_seeds_are_those_of_the_runs_with_todays_defaults(monkeypatch):
    rows = [
        row_of_right("modelbernoulli-", 1, "00110000", "bernoulli"),
        row_of_right("modelbernoulli-", 2, "01110000", "bernoulli"),
        row_of_right("", 1, "11111000"),
        row_of_right("", 2, "01111100"),
        row_of_right("samples1-", 3, "11111111"),  # not a default
        row_of_right("modelfull_text-", 2, "01111110", "full_text", 1.0),
        row_of_right("modelfull_text-", 1, "11111100", "full_text", 1.0),
        row_of_right("selection0.1-", 1, "10000000", target=0.1),
    ]
    monkeypatch.setattr(readme_tables, "read_own_texts", lambda: pd.DataFrame(rows))
    table, said = readme_tables.own_means_table(None).split("\n\n")
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert [row[3] for row in shown] == ["full text", "HardKuma, 10 %", "HardKuma, 20 %", "Bernoulli, 20 %"]
    assert [row[4] for row in shown] == ["75.0 ± 0.0", "12.5 (2.2 to 47.1)", "62.5 ± 0.0", "31.2 ± 8.8"]
    assert [row[5].split()[0] for row in shown] == ["25.0", "-37.5", "12.5", "-18.8"]
    assert [row[6].split(" ")[0] for row in shown] == ["", "-62.5", "-12.5", "-43.8"]
    assert [row[-1] for row in shown] == ["2", "1", "2", "2"] and shown[1][7] == "10.0°"
    mean = {name: torch.tensor([float(a) + float(b) for a, b in zip(*pair, strict=True)]) / 2 for name, pair in
            {"hardkuma": ("11111000", "01111100"), "bernoulli": ("00110000", "01110000")}.items()}  # fmt: skip
    beside = paired_bootstrap(mean["hardkuma"], mean["bernoulli"])
    low, high = 100 * beside.low, 100 * beside.high
    assert f"on synthetic with lstm at 20 % {100 * beside.value:.1f} ({low:.1f} to {high:.1f})." in said


def test_runs_on_files_of_ones_own_are_no_committed_rows(tmp_path):
    run = own_run(tmp_path)
    written = yaml.safe_load((run / "params.yaml").read_text()) | {"corpus": str(tmp_path / "reviews.csv")}
    (run / "params.yaml").write_text(yaml.safe_dump(written))
    with pytest.raises(BadInput, match="nobody else has its texts"):
        own_rows.own_row(run)
