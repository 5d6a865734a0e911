"""How a measured number is written: with a spread, with an interval, or with the sign that there is none."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from rationale import statistics
from rationale.data.corpora.sst import read_sst
from rationale.data.read import read_alignment, read_extraction
from rationale.runs import committed, compare, root
from tests.test_verdicts import values
from tools import measured, readme_tables

ROW = {"corpus": "sst", "settings": "", "accuracy": 0.5, "accuracy_std": float("nan"), "mse": 0.0123}
NUMBER = re.compile(r"-?[\d.,]+( %)?[°†]|-?[\d.]+( %)? ± [\d.]+( %)?|-?[\d.]+ \(-?[\d.]+ to -?[\d.]+\)")


def test_a_number_has_its_spread_its_interval_or_the_sign_for_neither():
    assert measured.cell(ROW | {"accuracy_std": 0.01}, "accuracy", scale=100) == "50.0 ± 1.0"
    assert measured.cell(ROW, "accuracy", scale=100) == "50.0 (47.9 to 52.1)", "2,210 sentences"
    assert measured.cell(ROW, "accuracy", scale=100, split="dev") == "50.0 (47.1 to 52.9)", "1,101 sentences"
    assert measured.cell(ROW | {"settings": "num_test=100"}, "accuracy", scale=100) == "50.0 (40.4 to 59.6)"
    assert measured.cell(ROW | {"count_tells": 0.5}, "count_tells") == "0.5 (0.5 to 0.5)", "a share of the sentences"
    assert measured.cell(ROW, "mse", "{:.4f}") == "0.0123°"
    assert measured.cell(ROW | {"corpus": "beer"}, "accuracy") == "0.5°", "nobody knows how many texts"
    assert measured.cell(ROW | {"mse": float("nan")}, "mse") == ""


def test_a_number_from_fewer_seeds_than_its_row_has_says_from_how_many():
    part = pd.DataFrame([*values(scores=(0.4, 0.5, 0.6)), *values(metric="word_f1", scores=(0.1, 0.2))])
    (row,) = compare.summary(part, ["accuracy", "word_f1"]).to_dict("records")
    assert row["seeds"] == row["accuracy_seeds"] == 3 and row["word_f1_seeds"] == 2
    assert (
        measured.cell(row, "accuracy") == "0.5 ± 0.1" and measured.cell(row, "word_f1", "{:.2f}") == "0.15 ± 0.07 [2]"
    )


def test_an_agreement_of_seeds_has_no_deviation_because_the_runs_share_their_pairs():
    row = ROW | {"task": "sst", "agreement": 0.8794, "agreement_std": 0.0, "seeds": 5, "agreement_seeds": 3}
    assert measured.cell(row, "agreement", "{:.3f}") == "0.879† [3]"
    assert measured.cell(row | {"task": "probes"}, "agreement", "{:.3f}") == "0.879 ± 0.000 [3]", "of answers"


@pytest.mark.parametrize(
    ("ours", "theirs", "mark"),
    [
        ((0.4, 0.41, 0.42), (0.4, 0.41, 0.43), " ≈"),
        ((0.4, 0.41, 0.42), (0.5, 0.51, 0.52), ""),
        ((0.4,), (0.41,), " ≈"),
        ((0.4,), (0.5,), ""),
        ((0.4,), (0.5, 0.51, 0.52), " ?"),
    ],
)
def test_a_difference_from_the_row_of_reference_is_marked_where_it_is_not_significant(ours, theirs, mark):
    part = pd.DataFrame([*values(scores=ours), *values("12_train_sst/b-seed{}", "full_text", scores=theirs)])
    rows = compare.summary(part, ["accuracy"]).to_dict("records")
    found = measured.marks(part, rows, "accuracy", lambda _, other: other["model"] == "full_text")
    assert dict(zip([row["model"] for row in rows], found, strict=True)) == {"hardkuma": mark, "full_text": ""}
    lost = measured.behind(part, rows, "accuracy", lambda _, other: other["model"] == "full_text")
    of_model = dict(zip([row["model"] for row in rows], lost, strict=True))
    assert of_model["full_text"] == "0.0" and ("°" in of_model["hardkuma"]) == (mark == " ?")


def test_the_legend_explains_the_signs_of_its_table_and_no_others():
    assert measured.with_legend("| 1 |") == "| 1 |"
    assert measured.SPREAD in measured.with_legend("| 1 ± 2 |")
    text = measured.with_legend("| 1° |", "softmax", marked=[" ?", ""], several=False)
    assert measured.NONE in text and "No difference from softmax can be tested" in text and "±" not in text
    assert "≈: not significantly different from softmax" in measured.with_legend("| 1 ± 2 |", "softmax", marked=[" ≈"])


FREE = {  # columns without a spread: what was asked for, what was published, and what is known exactly
    "seeds", "target or price", "target", "published KL", "published JS", "seconds", "margin", "steps", "correlation",
    "texts", "kept epoch", "last epoch", "seed", "price", "multiplier at the start",
}  # fmt: skip


def test_every_measured_number_in_the_tables_of_results_says_how_far_it_is_known():
    page = (root() / "RESULTS.md").read_text(encoding="utf-8")
    names = "sst encoders controls faithfulness reviews failures own_means own_texts nli texts probes".split()
    names += "search search_steps masking own_search own_gpu long_texts fixed_words".split()
    for name in names:
        parts = page.split(f"<!-- results: {name} -->")[1].split("<!-- end -->")[0].strip().split("\n\n")
        tables = [part.splitlines() for part in parts if part.startswith("|")]
        assert tables, f"{name}: no table"
        for table in tables:
            heads, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
            for row in (row for row in rows[1:] if not any("published" in text for text in row)):
                for head, text in zip(heads, row, strict=True):
                    if head not in FREE and re.match(r"-?[\d.]+", text) and not text.startswith("glove"):
                        text = re.sub(r" \[\d+\]$", "", text.removesuffix(" ≈").removesuffix(" ?"))
                        is_reference = head == "behind softmax" and text == "0.0"
                        assert is_reference or NUMBER.fullmatch(text), f"{name}, {head}: {text!r}"
    assert set(names) | {"claims", "tuning", "sweeps", "bench", "scale"} == set(readme_tables.TABLES)


@pytest.mark.data
@pytest.mark.parametrize("corpus", ["sst", "nli_small", "movies", "imdb_rationales"])
def test_the_committed_numbers_of_texts_are_those_of_the_corpora(corpus):
    table = pd.read_csv(committed.reference_folder() / "num_texts.csv")
    assert not table.duplicated(["corpus", "split"]).any()
    counted = table[table["corpus"] == corpus].set_index("split")["texts"].to_dict()
    p = SimpleNamespace(corpus=corpus, num_train=0, num_dev=0, num_test=0, seed=1, aspect="overall")
    read = {"sst": lambda _: read_sst(), "nli_small": lambda p: read_alignment(p).splits}
    splits = read.get(corpus, lambda p: read_extraction(p).splits)(p)
    assert {"dev", "test"} <= counted.keys()
    assert {split: len(splits[split]) for split in counted} == counted


def of_results(start, end):
    """What RESULTS.md says from one phrase to another, on one line."""
    page = " ".join((root() / "RESULTS.md").read_text(encoding="utf-8").split())
    assert page.count(start) == 1, start
    return page.split(start)[1].split(end)[0]


def test_runs_on_a_gpu_are_compared_with_the_same_runs_on_a_cpu_and_with_the_same_seed():
    said = of_results("we trained them on a GPU", "<!-- results: own_gpu -->")
    keys = ["corpus", "model", "target", "seed"]
    gpu = pd.read_csv(committed.reference_folder() / readme_tables.OWN_GPU).set_index(keys)
    cpu = readme_tables.read_own_texts()
    cpu = cpu[cpu["encoder"].eq("minilm") & cpu["run"].map(readme_tables.variant_of).eq("")].set_index(keys)
    apart = (gpu["test_accuracy"] - cpu["test_accuracy"]).dropna()
    names = {"synthetic": "the made-up reviews", "sst": "SST", "movies": "movies", "imdb": "IMDb"}
    *first, last = [name for corpus, name in names.items() if corpus in apart.index.unique("corpus")]
    assert f"({', '.join(first)} and {last})" in said and len(apart) >= 9, "which corpora"
    far = apart[apart.abs() > 0.02].droplevel(["target", "seed"]).round(2).to_dict()
    assert far == {("movies", "hardkuma"): 0.04, ("imdb", "hardkuma"): 0.03}, "less than two points apart, except here"
    assert "except with HardKuma on movies and on IMDb, where that of the CPU is four and three points lower" in said
    whole = gpu.xs("full_text", level="model").droplevel("target")["test_accuracy"]
    assert ("movies", 2) in whole.index and ("imdb", 2) not in whole.index, "there is no full text of IMDb with seed 2"
    assert "that of the full text with the first seed" in said
    gates = gpu.loc["sst"].unstack("model")
    for split, least, most in (("test", 0.03, 0.035), ("dev", 0.045, 0.055)):
        lead = gates[f"{split}_accuracy"].loc[[0.1, 0.4]].diff(axis=1)["hardkuma"]
        assert least < lead.abs().max() < most, "three points on test, five on dev"
    assert "on dev, HardKuma is five points ahead" in said


def test_a_lead_of_two_seeds_says_that_its_interval_is_over_the_texts():
    usual = readme_tables.read_own_texts()
    (said,) = readme_tables.gates_in_words(usual[usual["run"].map(readme_tables.variant_of) == ""])
    assert "does not contain what other seeds would change" in said
    assert said in (root() / "RESULTS.md").read_text(encoding="utf-8")


def test_runs_of_minilm_that_nobody_has_made_are_counted_with_their_time():
    minutes = {"sst": (4, 30), "imdb": (20, 75), "movies": (30, 120)}
    rows = [
        {"corpus": corpus, "encoder": "minilm", "model": model, "target": target, "seed": seed,
         "seconds": 60 * minutes[corpus][model != "full_text"]}
        for corpus in minutes for model in ("full_text", "hardkuma", "bernoulli") for seed in (1, 2, 3)
        for target in ((1.0,) if model == "full_text" else (0.1, 0.2, 0.4))
    ]  # fmt: skip
    planned = pd.DataFrame(rows)
    assert len(planned) == 63 and readme_tables.not_trained_in_words(planned) == []
    for added in ({"encoder": "lstm"}, {"target": 0.3}, {"seed": 4}):
        assert readme_tables.not_trained_in_words(pd.concat([planned, planned.assign(**added)])) == []
    left = planned.query("corpus != 'imdb' or seed > 1").query("corpus != 'movies' or model != 'full_text'")
    (said,) = readme_tables.not_trained_in_words(left)
    assert "Of these 63 runs, 10 are not made (7 on imdb, 3 on movies)." in said
    hours = (20 + 6 * 75 + 3 * 120) / 60  # the full text of movies counts as a run that selects
    assert said.endswith(f"They would take {hours:.0f} hours on one core.")


def test_how_far_minilm_is_from_tfidf_on_hotels_and_imdb_is_told():
    said = of_results("On hotels, MiniLM that reads the full text", "But with the larger steps")
    table = readme_tables.read_own_texts().query("encoder == 'minilm'").set_index(["corpus", "model"]).sort_index()
    behind = (100 * (table["tfidf_test"] - table["test_accuracy"])).round(1)
    assert behind["hotels", "full_text"].between(0.5, 4.4).all() and "itself one to four points below TF-IDF" in said
    larger = table["run"].str.contains("larger_steps")
    whole = {steps: behind[larger == steps]["imdb", "full_text"].item() for steps in (True, False)}
    assert whole == {True: 1.2, False: -2.0} and "one point below with the larger steps, and two points above" in said
    assert behind["imdb", "hardkuma"].abs().max() < 2 and "HardKuma with MiniLM is less than two points above" in said
    for row in table.loc[["hotels", "imdb"]].xs("full_text", level="model").itertuples():
        apart = readme_tables.beside_tfidf(row)
        assert apart.low < 0 < apart.high, "250 texts cannot tell any of these differences from 0"


def test_what_a_second_predictor_gains_on_sst_has_its_intervals():
    said = of_results("Which part of it helps?", "On hotels, MiniLM that reads")
    table = readme_tables.read_own_texts().set_index("run")
    names = {"none": "closeness0-", "states": "second_readsstates-", "words": ""}
    runs = {name: [f"sst-minilm_larger_steps-{part}seed{seed}" for seed in (1, 2)] for name, part in names.items()}
    right = {name: readme_tables.mean_over_seeds(table.loc[part].reset_index()) for name, part in runs.items()}
    for name, contains_0 in (("words", False), ("states", True)):
        gain = statistics.paired_bootstrap(right[name], right["none"])
        assert (gain.low < 0 < gain.high) == contains_0
        assert f"{100 * gain.value:.1f} points ({100 * gain.low:.1f} to {100 * gain.high:.1f}" in said, name


def test_the_number_of_models_behind_each_start_of_the_multiplier_is_told():
    said = of_results("The second table shows the differences between a score function", "<!-- results: search -->")
    runs = committed.read_results()["run"].drop_duplicates()
    counts = [runs.str.fullmatch(rf"14_train_probes/sst_search-margin{name}-seed\d").sum()
              for name in ("0.5", "0.2", "0.2-multiplier_init1", "0.2-multiplier_init3")]  # fmt: skip
    assert counts == [5, 8, 8, 8] and "five models at the margin of 0.5 and eight at 0.2" in said
