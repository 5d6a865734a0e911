"""How a measured number is written: with a spread, with an interval, or with the sign that there is none."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

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
