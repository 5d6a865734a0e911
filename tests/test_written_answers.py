"""What `python -m rationale.predict` writes: CSV, pages, passages; and the tables that it reads."""

import csv
import datetime
import html
import io
import json
import re
from pathlib import Path

import pytest
from own_files import rated, reviews, write_lines, write_table

import rationale
from rationale import training
from rationale.data.read import read_alignment
from rationale.errors import BadInput
from rationale.runs.predict import WINDOW, main
from rationale.runs.saved import save_run
from rationale.training.checkpoint import read_tensors, write_tensors
from rationale.training.settings import AlignmentSettings

SMALL = {"embedding_size": 8, "hidden_size": 6, "epochs": 1, "selection": 0.4, "learning_rate": 0.01, "device": "cpu"}
TEXTS = ["A warm,  funny film.", "", "cold & dull"]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """The folder of a run of classes, whose texts stood in the column `body`."""
    folder = tmp_path_factory.mktemp("classes")
    rows = [{"body": row["text"], "label": row["label"]} for row in reviews(60)]
    rationale.fit(write_table(folder / "r.csv", rows), folder=folder / "run", text="body", **SMALL)
    return str(folder / "run")


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The folder of a run of scores from 1 to 10."""
    folder = tmp_path_factory.mktemp("scores")
    path = write_table(folder / "r.csv", [{"text": row["text"], "stars": row["label"]} for row in rated(60)])
    rationale.fit(path, folder=folder / "run", label="stars", **SMALL)
    return str(folder / "run")


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    """The folder of a run on pairs."""
    folder = tmp_path_factory.mktemp("pairs")
    path = write_table(folder / "r.csv", [row | {"second": "it is good"} for row in reviews(60)])
    p = AlignmentSettings(corpus=str(path), vectors="random", embedding_size=8, hidden_size=6, epochs=1, device="cpu")
    texts = read_alignment(p)
    save_run(folder, training.train_aligner(p, texts.splits, "classes", texts.num_outputs, folder), p, texts.labels)
    return str(folder)


@pytest.fixture
def lines(tmp_path):
    """A file of texts, of which the second is blank."""
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return str(path)


def told(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def page_beside_labels(run: str, texts, distances, folder: Path, capsys) -> str:
    """The page of a run of scores for texts whose labels are at these distances from its answers."""
    rows = [
        {"text": text, "stars": round(answer.scores["stars"], 3) + far}
        for text, answer, far in zip(texts, rationale.load(run)(texts), distances, strict=True)
    ]
    path = str(write_table(folder / "t.csv", rows))
    return told(capsys, run, "--file", path, "--column", "text", "--html", "--label", "stars")[1]


def test_csv_has_a_row_per_text_and_a_blank_line_keeps_its_place(labelled, lines, capsys):
    code, out, _ = told(capsys, labelled, "--file", lines, "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0 and [row["text"] for row in rows] == TEXTS
    answers = rationale.load(labelled)(TEXTS)
    assert [row["label"] for row in rows] == [answer.label or "" for answer in answers]
    assert float(rows[0]["probability"]) == pytest.approx(answers[0].probability) and rows[1]["probability"] == ""
    passages = [" | ".join(" ".join(span.text.split()) for span in answer.rationale) for answer in answers]
    assert [row["rationale"] for row in rows] == passages
    spans = list(csv.DictReader(told(capsys, labelled, "--file", lines, "--csv", "--spans")[1].splitlines()))
    assert json.loads(spans[0]["rationale"]) == [[start, end] for start, end, _ in answers[0].rationale]


def test_scores_have_a_column_with_their_name_on_the_scale_of_the_file(scored, capsys):
    _, out, _ = told(capsys, scored, "--text", "film number 3", "--csv")
    (row,) = csv.DictReader(out.splitlines())
    assert list(row) == ["text", "stars", "rationale"] and 1 <= float(row["stars"]) <= 10
    plain = json.loads(told(capsys, scored, "--text", "film number 3", "--jsonl")[1])
    assert plain["prediction"] == pytest.approx([float(row["stars"])])


def test_spans_are_characters_of_the_text_as_it_was_given(labelled, lines, capsys):
    out = told(capsys, labelled, "--file", lines, "--jsonl", "--spans")[1]
    rows = [json.loads(line) for line in out.splitlines()]
    for row, text in zip(rows, TEXTS, strict=True):
        assert row["text"] == text and all(text[s["start"] : s["end"]] == s["text"] for s in row["rationale"])
    assert rows[1]["label"] is None and rows[1]["rationale"] == [] and rows[1]["probabilities"] == {}
    assert rows[0]["probabilities"][rows[0]["label"]] == rows[0]["probability"] and len(rows[0]["probabilities"]) > 1
    shown = told(capsys, labelled, "--file", lines, "--spans")[1].strip().split("\n\n")
    assert len(shown) == 3 and shown[1] == "no words"
    assert shown[0].splitlines()[0].startswith(f"{rows[0]['label']} (")


def test_a_page_has_the_title_that_was_given_and_stands_alone(labelled, lines, capsys):
    out = told(capsys, labelled, "--file", lines, "--html", "--title", "New <texts>")[1]
    assert out.startswith("<!doctype html>") and out.rstrip().endswith("</html>")
    assert out.count("New &lt;texts&gt;") == 2 and "cold &amp; dull" in out and "http" not in out
    run = rationale.load(labelled)
    assert "".join(out.split()) == "".join(run.to_html(run(TEXTS), "New <texts>").split())


def test_a_page_of_a_table_says_which_answers_are_wrong(labelled, capsys, tmp_path):
    texts = [*TEXTS, "a warm film"]
    answers = rationale.load(labelled)(texts)
    other = {"pos": "neg", "neg": "pos"}
    labels = [answers[0].label, "pos", other[answers[2].label], ""]
    rows = [{"body": text, "stars": label} for text, label in zip(texts, labels, strict=True)]
    path = str(write_table(tmp_path / "t.csv", rows))
    code, out, _ = told(capsys, labelled, "--file", path, "--html", "--label", "stars")
    run = rationale.load(labelled)
    assert code == 0 and out.count(">wrong<") == 1 and "1 of 2 texts" in out
    assert "".join(out.split()) == "".join(run.to_html(run.with_labels(answers, labels)).split())
    assert "wrong" not in told(capsys, labelled, "--file", path, "--html")[1]


def training_texts(run: str, texts: dict[int, str]) -> list[str]:
    """Those of the texts, by their rows, whose row is in train by the run's splits.csv."""
    with open(Path(run) / "splits.csv", newline="", encoding="utf-8") as file:
        return [texts[int(row["row"])] for row in csv.DictReader(file) if row["split"] == "train"]


def test_a_page_says_how_many_texts_the_model_was_trained_on_and_how_right_it_is_about_the_others(
    labelled, tmp_path, capsys
):
    known = training_texts(labelled, {i: row["text"] for i, row in enumerate(reviews(60), start=2)})
    texts = ["a new film", *known[:5], "  ".join(known[5].split(" ")), "another new film", known[6]]
    answers = rationale.load(labelled)(texts)
    other = {"pos": "neg", "neg": "pos"}
    labels = [other[answer.label] if i in (0, 2) else answer.label for i, answer in enumerate(answers)]
    labels[-1] = ""
    rows = [{"body": text, "stars": label} for text, label in zip(texts, labels, strict=True)]
    path = str(write_lines(tmp_path / "t.jsonl", rows))  # another kind of table, in another order
    out = told(capsys, labelled, "--file", path, "--html", "--label", "stars")[1]
    of_all = "2 of 8 texts with a label got a wrong answer."
    assert f"<p>{of_all} The model was trained on 6 of them; 1 of the other 2 got a wrong answer.</p>" in out
    path = str(write_table(tmp_path / "t.csv", rows[1:3]))
    out = told(capsys, labelled, "--file", path, "--html", "--label", "stars")[1]
    assert "<p>1 of 2 texts with a label got a wrong answer. The model was trained on all of them.</p>" in out
    path = str(write_table(tmp_path / "new.csv", [rows[0], rows[7]]))
    assert "The model was trained" not in told(capsys, labelled, "--file", path, "--html", "--label", "stars")[1]


def test_a_page_of_scores_says_how_far_they_are_for_texts_that_the_model_was_not_trained_on(scored, tmp_path, capsys):
    known = training_texts(scored, {i: row["text"] for i, row in enumerate(rated(60), start=2)})
    texts = [known[0], "a new film"]
    out = page_beside_labels(scored, texts, (-1, 2), tmp_path, capsys)
    of_all = "2 texts with a label: the answer is 1.5 from its label on average."
    assert f"<p>{of_all} The model was trained on 1 of them; for the other 1, the distance is 2.</p>" in out


@pytest.mark.parametrize("how", ["changed", "removed", "without splits.csv"])
def test_where_the_training_texts_are_not_known_the_page_says_nothing_of_them(how, tmp_path, capsys):
    path = write_table(tmp_path / "r.csv", reviews(60))
    rationale.fit(path, folder=tmp_path / "run", **SMALL)
    capsys.readouterr()
    same = str(write_table(tmp_path / "same.csv", reviews(60)))
    call = (str(tmp_path / "run"), "--file", same, "--html", "--label", "label")
    assert "The model was trained on 48 of them; " in told(capsys, *call)[1]
    if how == "changed":
        write_table(path, reviews(60)[::-1])
    else:
        (path if how == "removed" else tmp_path / "run" / "splits.csv").unlink()
    code, out, _ = told(capsys, *call)
    assert code == 0 and " of 60 texts with a label got a wrong answer.</p>" in out


def test_texts_beyond_num_train_are_not_counted_as_those_that_the_model_was_trained_on(tmp_path, capsys):
    path = write_table(tmp_path / "r.csv", reviews(60))
    rationale.fit(path, folder=tmp_path / "run", **(SMALL | {"num_train": 10}))
    capsys.readouterr()
    out = told(capsys, str(tmp_path / "run"), "--file", str(path), "--html", "--label", "label")[1]
    assert "The model was trained on 10 of them; " in out


def test_of_a_folder_of_splits_the_texts_of_its_training_file_are_those_that_the_model_was_trained_on(tmp_path, capsys):
    folder = tmp_path / "data"
    for split, rows in (("train", reviews(60)), ("dev", reviews(80)[60:]), ("test", reviews(100)[80:])):
        write_table(folder / f"{split}.csv", rows)
    rationale.fit(folder, folder=tmp_path / "run", **SMALL)
    capsys.readouterr()
    path = str(write_table(tmp_path / "all.csv", reviews(100)))
    out = told(capsys, str(tmp_path / "run"), "--file", path, "--html", "--label", "label")[1]
    assert "The model was trained on 60 of them; " in out


def test_a_table_keeps_the_columns_that_are_asked_for_beside_the_answers(labelled, tmp_path, capsys):
    """More rows than are read at once, one of them without a text."""
    rows = [{"id": f"r{i}", "body": "" if i == 3 else f"film number {i}", "date, place": i} for i in range(WINDOW + 3)]
    path = str(write_table(tmp_path / "new.csv", rows))
    kept = ["--keep", "date, place", "--keep", "id"]
    code, out, _ = told(capsys, labelled, "--file", path, "--csv", *kept)
    found = list(csv.DictReader(out.splitlines()))
    assert code == 0 and list(found[0]) == ["date, place", "id", "text", "label", "probability", "rationale"]
    assert [row["id"] for row in found] == [row["id"] for row in rows] and found[5]["date, place"] == "5"
    assert [row["text"] for row in found] == [row["body"] for row in rows] and found[3]["label"] == ""
    assert "only with --file and one of --csv, --jsonl" in told(capsys, labelled, "--file", path, *kept)[2]
    page = told(capsys, labelled, "--file", path, "--html", *kept)[1]
    assert page.count("date, place: 5 · id: r5<") == 1 and page.count(" · id: r") == len(rows)
    for form in (("--jsonl",), ("--jsonl", "--spans")):
        out = told(capsys, labelled, "--file", path, *form, *kept)[1]
        assert [json.loads(line)["kept"]["id"] for line in out.splitlines()] == [row["id"] for row in rows]
    assert "only for --file with a table" in told(capsys, labelled, "--file", labelled, "--csv", *kept)[2]
    assert (
        "no column 'ids'; its columns are id, body, date, place, did you mean id"
        in (told(capsys, labelled, "--file", path, "--csv", "--keep", "ids")[2])
    )
    code, out, err = told(capsys, labelled, "--file", path, "--csv", "--keep", "id", "--keep", "id")
    assert code == 2 and not out and "--keep id: given twice" in err


def test_a_kept_column_keeps_its_name_and_the_answer_beside_it_has_another(scored, labelled, tmp_path, capsys):
    path = str(write_table(tmp_path / "new.csv", [{"id": "a", "stars": 3, "text": "a film", "answer_text": "x"}]))
    kept = [part for name in ("stars", "text", "answer_text") for part in ("--keep", name)]
    (row,) = csv.DictReader(told(capsys, scored, "--file", path, "--csv", "--column", "text", *kept)[1].splitlines())
    names = ["stars", "text", "answer_text", "answer_answer_text", "answer_stars", "rationale"]
    assert list(row) == names and row["stars"] == "3" and row["answer_answer_text"] == "a film"
    assert 1 <= float(row["answer_stars"]) <= 10


@pytest.mark.parametrize("name", ["text", "rationale", "unknown", "kept"])
def test_a_score_that_is_called_like_a_key_of_json_stands_beside_it(scored, tmp_path, capsys, name):
    tensors, facts = read_tensors(Path(scored) / "model.safetensors")
    facts["parameters"] |= {"text": "body", "label": name}
    write_tensors(tmp_path / "model.safetensors", tensors, facts)
    path = write_table(tmp_path / "new.csv", [{"body": "a new film", "id": "7"}])
    options = ["--file", str(path), "--jsonl", "--spans", "--keep", "id", "--column", "body"]
    usual, renamed = (json.loads(told(capsys, run, *options)[1]) for run in (scored, str(tmp_path)))
    assert renamed == {f"answer_{name}" if key == "stars" else key: value for key, value in usual.items()}


def test_a_kept_cell_that_is_no_text_is_written_as_json(labelled, tmp_path, capsys):
    """Of a table whose cells may be lists, objects or truth values; text and numbers stay as they are."""
    cells = [{"a": [1, 'é, "x"'], "b": None}, ["u", 2.5], True, "plain", 7, None, 0.5]
    path = str(
        write_lines(tmp_path / "new.jsonl", [{"body": f"film {i}", "meta": cell} for i, cell in enumerate(cells)])
    )
    out = told(capsys, labelled, "--file", path, "--csv", "--keep", "meta")[1]
    found = [row["meta"] for row in csv.DictReader(out.splitlines())]
    assert [json.loads(cell) for cell in found[:3]] == cells[:3] and found[3:] == ["plain", "7", "", "0.5"]
    page = html.unescape(told(capsys, labelled, "--file", path, "--html", "--keep", "meta")[1])
    assert all(f">meta: {cell}</div>" in page for cell in found)


def test_a_kept_cell_of_another_type_than_json_has_is_written_as_text(labelled, tmp_path, capsys):
    """A table of parquet has dates, and objects that hold them."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    day = datetime.date(2024, 2, 29)
    table = pyarrow.table({"body": ["a film"], "day": [day], "of": [{"day": day}], "raw": [b"\xff"]})
    parquet.write_table(table, tmp_path / "new.parquet")
    keep = ["--keep", "day", "--keep", "of", "--keep", "raw"]
    code, out, _ = told(capsys, labelled, "--file", str(tmp_path / "new.parquet"), "--jsonl", *keep)
    kept = {"day": "2024-02-29", "of": {"day": "2024-02-29"}, "raw": str(b"\xff")}
    assert code == 0 and json.loads(out)["kept"] == kept
    code, out, _ = told(capsys, labelled, "--file", str(tmp_path / "new.parquet"), "--csv", *keep)
    (row,) = csv.DictReader(out.splitlines())
    assert code == 0 and (row["day"], json.loads(row["of"])) == (kept["day"], kept["of"])


def test_a_kept_number_that_json_lacks_is_null_or_text_so_that_every_line_can_be_read(labelled, tmp_path, capsys):
    path = tmp_path / "new.jsonl"
    cells = ["NaN", "1e999", "-Infinity", '{"a": [NaN, 1.5]}', "[[Infinity]]"]  # Python reads all of them
    path.write_text("".join(f'{{"body": "a film", "meta": {cell}}}\n' for cell in cells))
    kept = [None, "inf", "-inf", {"a": [None, 1.5]}, [["inf"]]]

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    for form in ("--jsonl", "--csv"):
        code, out, _ = told(capsys, labelled, "--file", str(path), form, "--keep", "meta")
        if form == "--jsonl":
            found = [json.loads(line, parse_constant=refuse)["kept"]["meta"] for line in out.splitlines()]
        else:
            written = [row["meta"] for row in csv.DictReader(out.splitlines())]
            assert written[:3] == ["", "inf", "-inf"]
            found = kept[:3] + [json.loads(cell, parse_constant=refuse) for cell in written[3:]]
        assert code == 0 and found == kept


def test_labels_that_are_no_class_are_named_and_a_page_of_other_labels_alone_is_refused(labelled, tmp_path, capsys):
    rows = [{"body": "a film", "stars": label} for label in ("pos", "Neg", "", "Neg")]
    path = str(write_table(tmp_path / "some.csv", rows))
    code, out, err = told(capsys, labelled, "--file", path, "--html", "--label", "stars")
    assert code == 0 and out and "note: 2 texts with a label that is no class of this run, such as 'Neg'; its" in err
    path = str(write_table(tmp_path / "none.csv", rows[1:]))
    code, out, err = told(capsys, labelled, "--file", path, "--html", "--label", "stars")
    assert (code, out) == (2, "") and "none of the labels is a class of this run; accepted are 'neg', 'pos'" in err


def test_labels_of_a_run_of_scores_that_are_no_numbers_are_named_and_a_page_of_them_alone_is_refused(
    scored, tmp_path, capsys
):
    rows = [{"text": "a film", "stars": label} for label in ("4", "good", "", "inf")]
    path = str(write_table(tmp_path / "some.csv", rows))
    code, out, err = told(capsys, scored, "--file", path, "--html", "--label", "stars")
    assert (
        code == 0 and "the label is 4" in out and "note: 2 texts with a label that is no number, such as 'good'" in err
    )
    path = str(write_table(tmp_path / "none.csv", rows[1:]))
    code, out, err = told(capsys, scored, "--file", path, "--html", "--label", "stars")
    assert (code, out) == (2, "") and "error: --label stars: 'good', 'inf': none of the labels is a number" in err
    path = str(write_table(tmp_path / "unknown.csv", [{"text": "a film", "stars": ""}]))
    code, out, err = told(capsys, scored, "--file", path, "--html", "--label", "stars")
    assert code == 0 and "label" not in err, "labels that are not known are no mistake"


def test_a_folder_in_place_of_a_file_of_texts_is_refused_with_every_form_that_is_accepted(labelled, tmp_path, capsys):
    code, out, err = told(capsys, labelled, "--file", str(tmp_path))
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert "Is a directory; accepted is a UTF-8 text file, one text per line, or a table (.csv, .tsv, .jsonl" in err


def test_labels_of_a_run_whose_classes_are_spelled_as_in_a_program_are_known_on_its_page(tmp_path, capsys):
    """An older run has the classes False and True, and the table says false and true."""
    texts = [{"text": row["text"], "label": row["label"] == "pos"} for row in reviews(60)]
    rationale.fit(write_table(tmp_path / "r.csv", texts), folder=tmp_path / "new", **SMALL)
    tensors, facts = read_tensors(tmp_path / "new" / "model.safetensors")
    (tmp_path / "old").mkdir()
    write_tensors(tmp_path / "old" / "model.safetensors", tensors, facts | {"labels": ["False", "True"]})
    path = write_lines(tmp_path / "labelled.jsonl", texts[:4])
    options = ["--file", str(path), "--html", "--label", "label"]
    pages = [told(capsys, str(tmp_path / run), *options) for run in ("new", "old")]
    counts = [re.search(r"<p>(\d of 4 texts with a label got a wrong answer)", page)[1] for _, page, _ in pages]
    assert [code for code, *_ in pages] == [0, 0] and counts[0] == counts[1]
    assert not any("that is no class" in err for *_, err in pages)


def test_a_page_of_scores_ends_with_their_mean_distance_from_the_labels(scored, tmp_path, capsys):
    texts = ["a new film number 3", "a new film number 4"]
    out = page_beside_labels(scored, texts, (-1, 2), tmp_path, capsys)
    assert "<p>2 texts with a label: the answer is 1.5 from its label on average.</p>" in out


@pytest.mark.parametrize("options", [("--csv",), ("--jsonl",), ("--spans",), ()])
def test_a_column_of_labels_is_for_the_page_of_a_table(labelled, lines, capsys, tmp_path, options):
    path = str(write_table(tmp_path / "t.csv", [{"body": "a film", "stars": "pos"}]))
    code, out, err = told(capsys, labelled, "--file", path, "--label", "stars", *options)
    assert (code, out) == (2, "") and "--label stars: only with --html" in err
    code, out, err = told(capsys, labelled, "--file", lines, "--label", "stars", "--html")
    assert (code, out) == (2, "") and "--label stars: only for --file with a table" in err
    code, out, err = told(capsys, labelled, "--file", path, "--label", "star", "--html")
    assert (code, out) == (2, "") and "no column 'star'; its columns are body, stars, did you mean stars?" in err


@pytest.mark.parametrize("write", [write_table, write_lines])
def test_a_table_is_read_by_the_column_of_the_training_data_or_another(labelled, capsys, tmp_path, write):
    rows = [{"body": text, "other": "a bore"} for text in TEXTS]
    path = str(write(tmp_path / ("t.csv" if write is write_table else "t.jsonl"), rows))
    by_default = [
        json.loads(line) for line in told(capsys, labelled, "--file", path, "--jsonl", "--spans")[1].splitlines()
    ]
    assert [row["text"] for row in by_default] == TEXTS
    code, out, _ = told(capsys, labelled, "--file", path, "--column", "other", "--jsonl")
    assert code == 0 and [json.loads(line)["tokens"] for line in out.splitlines()] == [["a", "bore"]] * 3
    code, out, err = told(capsys, labelled, "--file", path, "--column", "boddy")
    assert (code, out) == (2, "") and "no column 'boddy'; its columns are body, other, did you mean body?" in err


def test_pairs_are_read_from_two_columns(paired, capsys, tmp_path):
    rows = [{"text": "a warm film", "second": "it is good"}, {"text": "", "second": ""}]
    path = str(write_table(tmp_path / "t.csv", rows))
    code, out, err = told(capsys, paired, "--file", path, "--csv")
    table = list(csv.DictReader(out.splitlines()))
    assert (code, err) == (0, "") and table[0]["label"] in ("neg", "pos") and table[1]["label"] == ""
    plain = [json.loads(line) for line in told(capsys, paired, "--file", path, "--jsonl")[1].splitlines()]
    assert plain[0]["hypothesis"][1:] == ["it", "is", "good"] and plain[1]["prediction"] is None


def test_the_second_column_of_pairs_may_have_another_name_than_in_training(paired, labelled, capsys, tmp_path):
    path = str(write_table(tmp_path / "t.csv", [{"text": "a film", "reply": "it is good"}]))
    code, out, err = told(capsys, paired, "--file", path, "--csv")
    assert (code, out) == (2, "") and "no column 'second'; its columns are text, reply; give --second one of" in err
    code, out, err = told(capsys, paired, "--file", path, "--csv", "--second", "reply")
    assert code == 0 and [row["second"] for row in csv.DictReader(out.splitlines())] == ["it is good"]
    code, out, err = told(capsys, labelled, "--file", path, "--csv", "--second", "reply")
    assert (code, out) == (2, "") and "--second reply: only for a model of pairs" in err


def test_the_alignment_of_a_pair_stands_in_each_form_of_its_answer(paired, capsys, tmp_path):
    rows = [{"text": "a Warm film", "second": "It is good"}, {"text": "", "second": ""}]
    path = str(write_table(tmp_path / "t.csv", rows))
    plain = json.loads(told(capsys, paired, "--file", path, "--jsonl")[1].splitlines()[0])
    weights = [row[1:] for row in plain["z"][1:]]  # behind NULL on both sides
    assert any(z for row in weights for z in row), "else nothing is tested here"
    starts = [(0, 1), (2, 6), (7, 11)], [(0, 2), (3, 5), (6, 10)]
    wanted = [[*starts[0][i], *starts[1][j], z] for i, row in enumerate(weights) for j, z in enumerate(row) if z > 0]

    places, blank = csv.DictReader(told(capsys, paired, "--file", path, "--csv", "--spans")[1].splitlines())
    assert "rationale" not in places and json.loads(places["alignment"]) == wanted and blank["alignment"] == "[]"
    words, blank = csv.DictReader(told(capsys, paired, "--file", path, "--csv")[1].splitlines())
    parts = words["alignment"].split(" | ")
    assert [part.split(": ")[0] for part in parts] == ["a", "Warm", "film"] and blank["alignment"] == ""
    assert all(f"({max(row):.2f})" in part for row, part in zip(plain["z"][1:], parts, strict=True))
    objects = json.loads(told(capsys, paired, "--file", path, "--jsonl", "--spans")[1].splitlines()[0])
    first = objects["alignment"][0]
    assert "rationale" not in objects and set(first) == {"first", "second", "weight"}
    assert rows[0]["text"][first["first"]["start"] : first["first"]["end"]] == first["first"]["text"]
    lines = [line for line in told(capsys, paired, "--file", path, "--spans")[1].splitlines() if line]
    assert len(lines) == 2 + len(wanted), "a line per answer, and one per two aligned words"
    assert lines[1].split()[0] == "0-1" and "It" in lines[1] and lines[1].endswith(f"({wanted[0][-1]:.2f})")


def test_a_column_of_a_file_of_lines_is_refused(labelled, lines, capsys):
    code, out, err = told(capsys, labelled, "--file", lines, "--column", "body")
    assert (code, out) == (2, "") and "--column body: only for --file with a table; accepted are .csv" in err


def test_a_cell_that_is_no_text_is_named_with_its_row(labelled, capsys, tmp_path):
    path = write_lines(tmp_path / "t.jsonl", [{"body": "fine"}, {"body": 7}])
    assert "t.jsonl, line 2: 7 is no text" in told(capsys, labelled, "--file", str(path), "--csv")[2]


@pytest.mark.parametrize("form", [(), ("--csv",), ("--jsonl",), ("--html",), ("--spans",)])
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_a_table_without_rows_is_refused_before_anything_is_written(labelled, capsys, tmp_path, ending, form):
    path = tmp_path / f"new{ending}"
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table({"body": pa.array([], pa.string())}), path)
    else:
        path.write_text("body\n")
    code, out, err = told(capsys, labelled, "--file", str(path), *form)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert f"new{ending}: no text in the column 'body'; accepted: at least one row that has it" in err


def test_a_table_of_empty_texts_is_refused_as_a_file_of_blank_lines_is(labelled, paired, capsys, tmp_path):
    path = str(write_lines(tmp_path / "t.jsonl", [{"body": " "}, {"body": ""}]))
    code, out, err = told(capsys, labelled, "--file", path, "--csv")
    assert (code, out) == (2, "") and "t.jsonl: no text in the column 'body'; accepted" in err
    path = str(write_table(tmp_path / "p.csv", [{"text": "a film", "second": ""}, {"text": "", "second": "a bore"}]))
    code, out, err = told(capsys, paired, "--file", path)
    assert (code, out) == (2, "") and "p.csv: no pair in the columns 'text' and 'second'; accepted" in err


@pytest.mark.parametrize("form", ["--csv", "--html", "--jsonl", "--spans"])
@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.txt", "folder.csv", "folder"])
def test_no_line_is_written_before_a_file_that_is_none_is_refused(labelled, capsys, tmp_path, name, form):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder").mkdir()
    code, out, err = told(capsys, labelled, "--file", str(tmp_path / name), form)
    assert (code, out) == (2, "") and name in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("ending", "advice"),
    [
        (".json", "name the file .jsonl"),
        (".ndjson", "name the file .jsonl"),
        (".xlsx", "as CSV"),
        (".zip", "unpack it"),
    ],
)
def test_a_file_of_another_format_is_not_read_as_lines_of_text(labelled, capsys, tmp_path, ending, advice):
    path = tmp_path / f"new{ending}"
    path.write_text('[{"body": "a warm film"}]\n')
    code, out, err = told(capsys, labelled, "--file", str(path))
    assert (code, out) == (2, "") and f"{ending} is neither lines of text nor a table" in err and advice in err


@pytest.mark.parametrize("answers", ["a film", ["a film"], [None]])
def test_a_page_of_what_is_no_answer_is_refused(labelled, answers):
    with pytest.raises(BadInput, match="^answers: .* is no answer; accepted: what the model gives"):
        rationale.load(labelled).to_html(answers)


def test_no_file_of_a_user_is_replaced_by_a_run(labelled, tmp_path):
    """Every file that a finished run has is looked for in the folder that a user names."""
    path = write_table(tmp_path / "r.csv", reviews(60))
    for written in Path(labelled).iterdir():
        folder = tmp_path / written.stem
        folder.mkdir()
        (folder / written.name).write_text("mine")
        with pytest.raises(BadInput, match=f"^folder: .* holds .*{written.name}.*; accepted: another folder"):
            rationale.fit(path, folder=folder, **SMALL)
        assert [file.read_text() for file in folder.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["", " "])
def test_a_run_without_a_name_is_no_path(name):
    with pytest.raises(BadInput, match=f"^run: '{name}' is no path"):
        rationale.load(name)


def test_many_texts_are_answered_in_order_some_at_a_time(labelled, capsys, tmp_path):
    texts = [f"film {i} is {'warm ' * (i % 7)}" for i in range(WINDOW + 50)]
    path = tmp_path / "t.txt"
    path.write_text("\n".join(texts))
    rows = list(csv.DictReader(told(capsys, labelled, "--file", str(path), "--csv")[1].splitlines()))
    assert [row["text"] for row in rows] == texts


ODD = [
    "good\nfilm",
    "good\rfilm",
    "a\r\ngood\tfilm\x0b!",
    "good \x1b[31mfilm\u2028",
    'a "good" film',
    "good, film",
    "=good",
]


def test_a_csv_file_has_the_texts_as_they_are_so_that_the_spans_fit_them(labelled, capsys, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in ODD))
    out = told(capsys, labelled, "--file", str(path), "--column", "text", "--csv", "--spans")[1]
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    assert [row["text"] for row in rows] == ODD
    answers = rationale.load(labelled)(ODD)
    for row, answer in zip(rows, answers, strict=True):
        cut = [row["text"][start:end] for start, end in json.loads(row["rationale"])]
        assert cut == [span.text for span in answer.rationale]


def test_control_characters_of_a_text_do_not_reach_a_terminal(labelled, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for options in (["--csv"], ["--spans"], ["--jsonl", "--spans"]):
        out = told(capsys, labelled, "--text", "good \x1b]0;title\x07 film", *options)[1]
        assert all(c.isprintable() or c in "\n" for c in out), options
