"""Texts of one's own: every kind of file, what is told from them, and the messages for bad ones."""

import ast
import json
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_files import BAD, BAD_FILES, GOOD, changed, rated, reviews, settings, write_eraser, write_lines, write_table
from test_odd_places import ordinary_user
from test_odd_places import place as folder_for_all  # noqa: F401

from rationale.data.characters import merged, token_spans
from rationale.data.corpora import find_corpus, names_own
from rationale.data.corpora.movies import read_movies
from rationale.data.corpus import SPLITS, Corpus
from rationale.data.example import Example, data_folder
from rationale.data.own import pairs_as_written, read_own, require_texts, texts_as_written
from rationale.data.own import read as reader
from rationale.data.own.eraser import is_eraser
from rationale.data.own.labels import far_scores
from rationale.data.own.marks import cut_word
from rationale.data.own.settings import TextFileSettings, absolute, is_own
from rationale.data.own.splits import SHARES, divide, strata_of
from rationale.data.pairs import NULL
from rationale.data.read import read_alignment, read_extraction, write_as_table
from rationale.data.tokenise import TOKENISERS
from rationale.digests import files_read, revisions_read
from rationale.errors import BadInput, counted
from rationale.runs import run
from rationale.runs.workspace import root
from rationale.training.settings import AlignmentSettings, OwnTextSettings
from tests.in_process import cells


def texts(read):
    """The texts and labels of all splits, in no order."""
    return sorted((" ".join(e.tokens), read.labels[e.label]) for part in read.splits.values() for e in part)


# --- bad files


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_named_with_its_row_and_what_is_accepted(kind, tmp_path):
    write, changes, parts = BAD_FILES[kind]
    if "parquet" in kind.lower():
        pytest.importorskip("pyarrow")
    p = settings(write(tmp_path), **changes)
    with pytest.raises(BadInput) as caught:
        read_own(p)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    if not is_eraser(tmp_path):
        with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):  # also before a kernel is used
            require_texts(p)
    start = 0
    for part in parts:
        assert part in message[start:], message
        start = message.index(part, start) + len(part)


def fail_to_read(*_):
    raise AssertionError("a text was read")


def test_only_small_files_are_read_before_a_kernel_is_used(tmp_path, monkeypatch):
    rows = reviews()
    write_table(tmp_path / "train.csv", rows)
    bad = write_table(tmp_path / "test.csv", [*rows, rows[0] | {"text": " "}])
    (tmp_path / "notes.txt").write_text("of no interest")
    (tmp_path / "old.csv").symlink_to("nowhere")
    size = (tmp_path / "train.csv").stat().st_size + bad.stat().st_size
    p = settings(tmp_path)
    monkeypatch.setattr(reader, "MOST_BYTES", size)
    with pytest.raises(BadInput, match="test.csv, row 42: an empty text"):
        require_texts(p)
    monkeypatch.setattr(reader, "MOST_BYTES", size - 1)
    monkeypatch.setattr(reader, "_read_table", fail_to_read)
    require_texts(p)
    with pytest.raises(BadInput, match="no column 'boddy'"):
        require_texts(settings(tmp_path, text="boddy"))


@pytest.mark.parametrize("tokeniser", TOKENISERS)
def test_what_can_be_read_is_not_refused_before_a_kernel_is_used(tokeniser, tmp_path):
    """Marks per token, lists of words, and texts that are copies of another one but for their spaces.

    Of the last, only the run itself finds that too few of them differ.
    """
    words = [TOKENISERS[tokeniser](row["text"] + " isn't it?") for row in reviews()]
    cases = {
        "marks": [row | {"text": row["text"] + " isn't it?", "why": [0, 1] * (len(w) // 2) + [0] * (len(w) % 2)}
                  for row, w in zip(reviews(), words, strict=True)],
        "words": [row | {"text": w, "why": [[0, 2]]} for row, w in zip(reviews(), words, strict=True)],
        "spaces": [row | {"text": f"{(BAD, GOOD)[i % 2][0]}{' ' * (i // 2)} ."} for i, row in enumerate(reviews())],
    }  # fmt: skip
    for name, rows in cases.items():
        for rationale in {"", "why"} if "why" in rows[0] else {""}:
            p = settings(write_lines(tmp_path / f"{name}.jsonl", rows), tokeniser=tokeniser, rationale=rationale)
            if name == "spaces":
                with pytest.raises(BadInput, match="has no text of the class"):
                    read_own(p)
            else:
                read_own(p)
            require_texts(p)


def test_the_table_of_bad_files_has_at_least_thirty_rows():
    assert len(BAD_FILES) >= 30


# --- good files


def test_each_kind_of_table_gives_the_same_texts(tmp_path):
    rows = changed(3, text='she said "no",\nand left; twice\ttoday')
    csv = write_table(tmp_path / "a.csv", rows)
    packed = tmp_path / "p.csv.xz"
    packed.write_bytes(lzma.compress(csv.read_bytes()))
    paths = [csv, packed, write_table(tmp_path / "b.csv", rows, ";"), write_table(tmp_path / "c.tsv", rows, "\t")]
    paths.append(write_lines(tmp_path / "d.jsonl", rows))
    if pa := pytest.importorskip("pyarrow"):
        import pyarrow.parquet as parquet

        paths.append(tmp_path / "e.parquet")
        parquet.write_table(pa.Table.from_pylist(rows), paths[-1])
    found = [texts(read_own(settings(path))) for path in paths]
    assert all(one == found[0] for one in found) and len(found[0]) == 40


def test_the_name_of_a_column_may_have_several_lines(tmp_path):
    path = write_table(tmp_path / "r.csv", [{"What did you\r\nthink?": "-"} | row for row in reviews()])
    assert texts(read_own(settings(path))) == texts(read_own(settings(write_table(tmp_path / "s.csv", reviews()))))


def test_plain_quotes_in_a_tsv_file_are_part_of_the_text(tmp_path):
    path = tmp_path / "r.tsv"
    lines = [f'"{row["text"]}\t{row["label"]}\n' for row in reviews()]
    path.write_text("text\tlabel\n" + "".join(lines))
    assert all(text.startswith('"') for text, _ in texts(read_own(settings(path))))


def test_plain_quotes_of_two_rows_of_a_tsv_file_do_not_make_them_one(tmp_path):
    rows = [[row["text"], row["label"]] for row in reviews()]
    rows[10][0], rows[11][0] = f'"Wow, {rows[10][0]}', f'{rows[11][0]} ending"'
    path = tmp_path / "r.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    assert len(texts(read_own(settings(path)))) == 40


def test_a_folder_has_its_own_splits_and_keeps_their_texts(tmp_path):
    rows = reviews(30)
    for name, part in (("train", rows[:20]), ("validation", rows[20:24]), ("test", rows[24:])):
        write_table(tmp_path / f"{name}.csv", part)
    read = read_own(settings(tmp_path))
    assert {name: len(part) for name, part in read.splits.items()} == {"train": 20, "dev": 4, "test": 6}
    assert len(read.notes) == 1, "nothing was made, and nothing stands in two splits"


def test_a_data_set_that_the_library_has_saved_is_read_with_the_names_of_its_classes(tmp_path):
    datasets = pytest.importorskip("datasets")
    names = ["neg", "pos"]
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    rows = [row | {"label": names.index(row["label"])} for row in reviews()]
    parts = {"train": rows[:30], "validation": rows[30:34], "test": rows[34:]}
    saved = {name: datasets.Dataset.from_list(part, features=features) for name, part in parts.items()}
    datasets.DatasetDict(saved).save_to_disk(tmp_path / "whole")
    saved["train"].save_to_disk(tmp_path / "train_only")
    whole, alone = read_own(settings(tmp_path / "whole")), read_own(settings(tmp_path / "train_only"))
    assert whole.labels == alone.labels == names and texts(whole) == sorted(
        (r["text"], names[r["label"]]) for r in rows
    )
    assert sum(map(len, alone.splits.values())) == 30


def saved_parts(datasets, parts: dict[str, list[dict]], names=("neg", "pos")):
    """Splits of the library, with classes as numbers; a label that is no name is hidden (-1)."""
    kind = datasets.ClassLabel(names=list(names))
    features = datasets.Features({"text": datasets.Value("string"), "label": kind})
    numbers = {name: i for i, name in enumerate(names)}
    return datasets.DatasetDict(
        {
            split: datasets.Dataset.from_list(
                [row | {"label": numbers.get(row["label"], -1)} for row in rows], features=features
            )
            for split, rows in parts.items()
        }
    )


def test_a_data_set_on_the_hub_is_read_by_its_name_and_its_configuration(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    rows = reviews()
    saved_parts(datasets, {"train": rows[:30], "validation": rows[30:34], "test": rows[34:]}).save_to_disk(tmp_path)
    asked = []

    def load(name, configuration):
        asked.append((name, configuration))
        return datasets.load_from_disk(str(tmp_path))

    monkeypatch.setattr(datasets, "load_dataset", load)
    here = read_own(settings(tmp_path))
    for name, wanted in (
        ("hub:owner/films", ("owner/films", None)),
        ("hub:films", ("films", None)),
        ("hub:owner/films:short", ("owner/films", "short")),
    ):
        read = read_own(settings(OwnTextSettings.check("corpus", name)))
        assert asked.pop() == wanted and read.splits == here.splits
        assert read.notes[0].startswith(f"{name}: 40 texts; ") and len(read.notes) == 1
    files = [place for place in files_read() if place.startswith(str(tmp_path)) and place.endswith(".arrow")]
    assert len(files) == 3, "a run notices later that the data set is another one"


def test_the_revision_of_a_data_set_on_the_hub_is_noted(tmp_path, monkeypatch):
    datasets, commit = pytest.importorskip("datasets"), "89abcdef" * 5
    in_cache = tmp_path / "owner___films" / "default" / "0.0.0" / commit  # as `datasets` names the folders of its cache
    saved_parts(datasets, {"train": reviews()}).save_to_disk(in_cache)
    fetched = saved_parts(datasets, {"train": reviews()})
    fetched["train"].info.download_checksums = {f"hf://datasets/owner/short@{commit}/train.csv": {"num_bytes": 1}}
    parts = {"owner/films": datasets.load_from_disk(str(in_cache)), "owner/short": fetched}
    parts["owner/old"] = saved_parts(datasets, {"train": reviews()})  # the library says nothing
    monkeypatch.setattr(datasets, "load_dataset", lambda name, _: parts[name])
    for name in parts:
        read_own(settings(f"hub:{name}"))
    noted = {name: revision for name, revision in revisions_read().items() if name.removeprefix("hub:") in parts}
    assert noted == {"hub:owner/films": commit, "hub:owner/short": commit}


def test_splits_of_a_data_set_whose_labels_are_hidden_or_whose_name_is_unknown_are_left_out_with_a_note(monkeypatch):
    datasets, rows = pytest.importorskip("datasets"), reviews(60)
    hidden = [row | {"label": "hidden"} for row in rows[50:]]
    parts = saved_parts(datasets, {"train": rows[:40], "test": hidden, "unsupervised": hidden})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: parts)
    read = read_own(settings("hub:owner/films"))
    assert sum(map(len, read.splits.values())) == 40
    assert any("the split test is not used, because its labels are hidden (-1)" in note for note in read.notes)
    assert any("the split unsupervised is not used" in note for note in read.notes)
    del parts["train"]
    with pytest.raises(BadInput, match="^hub:owner/films: no train split with labels, it has test, unsupervised; acc"):
        read_own(settings("hub:owner/films"))


def test_a_data_set_that_cannot_be_fetched_is_one_line_that_says_what_works_offline(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(BadInput, match=r"^corpus: hub:nobody/has-this cannot be loaded \(.+\); accepted: ") as caught:
        read_own(settings("hub:nobody/has-this"))
    assert "\n" not in str(caught.value) and "save_to_disk" in str(caught.value) and len(str(caught.value)) < 600


def test_a_text_may_be_a_list_of_words(tmp_path):
    rows = [row | {"text": row["text"].split(), "why": [1] + [0] * (len(row["text"].split()) - 1)} for row in reviews()]
    read = read_own(settings(write_lines(tmp_path / "r.jsonl", rows), rationale="why"))
    assert all(e.rationale == (True,) + (False,) * (len(e.tokens) - 1) for e in read.splits["train"])


@pytest.mark.parametrize("tokeniser", ["treebank", "words", "whitespace"])
def test_the_tokeniser_is_the_one_that_was_asked_for(tmp_path, tokeniser):
    read = read_own(
        settings(write_table(tmp_path / "r.csv", changed(3, text="It isn't THAT good.")), tokeniser=tokeniser)
    )
    split = TOKENISERS[tokeniser]("It isn't THAT good.")
    assert tuple(split) in {e.tokens for part in read.splits.values() for e in part}


# --- classes and scores


@pytest.mark.parametrize(
    ("labels", "head", "names"),
    [
        (["pos", "neg"], "auto", ["neg", "pos"]),
        ([1, 2, 10], "auto", ["1", "2", "10"]),
        ([1, 2.0, 3], "auto", ["1", "2", "3"]),
        ([0.5, 1.5], "auto", ["0.5", "1.5"]),
        ([True, False], "auto", ["false", "true"]),
        ([1, 2.5, 4], "auto", None),
        (list(range(11)), "auto", None),
        (list(range(11)), "classes", [str(i) for i in range(11)]),
        ([1, 2, 3, 4, 5], "scores", None),
        (["4 stars", "5 stars"], "auto", ["4 stars", "5 stars"]),
    ],
)
def test_classes_and_scores_are_told_from_the_column_and_the_head_overrides(tmp_path, labels, head, names):
    rows = [{"text": f"text {i}", "label": labels[i % len(labels)]} for i in range(20 * len(labels))]
    for path in (write_table(tmp_path / "r.csv", rows), write_lines(tmp_path / "r.jsonl", rows)):
        read = read_own(settings(path, head=head))
        if read.labels == ["False", "True"]:
            assert path.suffix == ".csv" and names == ["false", "true"], "Python writes a truth value so"
            continue
        assert read.labels == names and read.head == ("scores" if names is None else "classes")
        assert read.head in read.notes[0]
        if names is None:
            low, high = read.scale
            values = {low + e.label[0] * (high - low) for part in read.splits.values() for e in part}
            assert sorted(values) == pytest.approx(sorted(map(float, labels)))


@pytest.mark.parametrize(
    ("labels", "is_asked"),
    [
        ([7000 + i for i in range(60)], True),
        ([7000 + i for i in range(59)] + [7000], False),
        ([7000 + i / 2 for i in range(60)], False),
        ([7000 + i for i in range(30)], False),
    ],
)
def test_a_column_of_different_whole_numbers_may_be_the_wrong_one(tmp_path, labels, is_asked):
    rows = [{"text": f"text {i}", "label": label} for i, label in enumerate(labels)]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows)))
    assert ("no two are equal, as if they were numbers of rows: is this the column" in read.notes[0]) == is_asked


# --- rows without a text or a label


def test_rows_without_a_text_or_a_label_can_be_left_out_and_a_line_says_how_many(tmp_path):
    rows = reviews(60)
    holes = changed(7, changed(8, changed(30, rows, text="  "), label=""), text="")
    p = settings(write_table(tmp_path / "r.csv", holes), skip_incomplete=True)
    require_texts(p)
    read = read_own(p)
    whole = write_table(tmp_path / "whole.csv", [row for i, row in enumerate(rows) if i not in (7, 8, 30)])
    assert texts(read) == texts(read_own(settings(whole))), "as if the rows had not been there"
    assert f"3 rows have no text or no label, and are left out; the first is {p.corpus}, row 9" in read.notes
    assert read_own(settings(whole, skip_incomplete=True)).notes == read_own(settings(whole)).notes
    numbers = [number for _, rows in read.origins.values() for number in rows]
    assert sorted(numbers) == [row for row in range(2, 62) if row not in (9, 10, 32)], "rows keep their numbers"


def test_values_that_are_missing_in_objects_and_in_pairs_can_be_left_out_too(tmp_path):
    rows = [row | {"second": f"other {i}"} for i, row in enumerate(reviews(60))]
    holes = changed(3, changed(4, changed(5, rows, second=None), label=None), text=[])
    read = read_own(settings(write_lines(tmp_path / "r.jsonl", holes), skip_incomplete=True, second="second"))
    assert sum(map(len, read.splits.values())) == 57


def test_an_object_without_a_key_is_one_whose_value_is_missing(tmp_path):
    rows = [row | {"marked": [[0, 1]]} for row in reviews()]
    holes = [{k: v for k, v in row.items() if (i, k) not in {(0, "label"), (7, "text"), (9, "marked")}}
             for i, row in enumerate(rows)]  # fmt: skip
    path = write_lines(tmp_path / "r.jsonl", holes)
    with pytest.raises(BadInput, match=r"line 1: no label in column 'label'; .* \(8 is bad as well\)"):
        read_own(settings(path, rationale="marked"))
    read = read_own(settings(path, rationale="marked", skip_incomplete=True))
    assert sum(map(len, read.splits.values())) == 38
    assert sum(e.rationale is None for part in read.splits.values() for e in part) == 1, "nobody has marked this text"


def test_a_key_that_only_late_objects_have_is_a_column_too(tmp_path):
    rows = [row | ({"marked": [[0, 1]]} if i > 120 else {}) for i, row in enumerate(reviews(150))]
    path = write_lines(tmp_path / "r.jsonl", rows)
    read = read_own(settings(path, rationale="marked"))
    assert sum(e.rationale is not None for part in read.splits.values() for e in part) == 29
    with pytest.raises(BadInput, match="no column 'market'; its columns are text, label, marked, did you mean marked"):
        read_own(settings(path, rationale="market"))


def test_a_column_without_a_name_is_seen_among_the_columns(tmp_path):
    """As pandas writes its index."""
    path = write_table(tmp_path / "r.csv", [{"": i} | row for i, row in enumerate(reviews(40))])
    with pytest.raises(BadInput, match="no column 'Unnamed: 0'; its columns are '', text, label; give label= one of"):
        read_own(settings(path, label="Unnamed: 0"))
    assert read_own(settings(path)).labels == ["neg", "pos"]


def test_a_class_that_a_data_set_does_not_tell_is_a_missing_label(tmp_path):
    datasets = pytest.importorskip("datasets")
    saved_parts(datasets, {"train": changed(4, changed(7, label="-"), label="-")}).save_to_disk(tmp_path / "some")
    with pytest.raises(BadInput, match=r"no label \(-1\) in column 'label'; .*skip_incomplete=true"):
        read_own(settings(tmp_path / "some"))
    read = read_own(settings(tmp_path / "some", skip_incomplete=True))
    assert sum(map(len, read.splits.values())) == 38 and read.labels == ["neg", "pos"]


def test_if_every_row_is_left_out_there_is_no_text(tmp_path):
    rows = [row | {"text": ""} for row in reviews()]
    with pytest.raises(BadInput, match=r"r.csv: each row \(40 in all\) is left out"):
        read_own(settings(write_table(tmp_path / "r.csv", rows), skip_incomplete=True))


# --- splits


def test_splits_are_made_in_the_same_proportion_for_each_class_and_without_a_class_missing(tmp_path):
    rows = [{"text": f"text {i}", "label": "rare" if i % 20 == 0 else "common"} for i in range(400)]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows)))
    for split, share in SHARES.items():
        part = read.splits[split]
        assert len(part) == 400 * share and sum(read.labels[e.label] == "rare" for e in part) == 20 * share
    assert "no dev and no test split: 40 for dev and 40 for test were drawn by split_seed=1" in read.notes[1]


@pytest.mark.parametrize("size", [10, 12, 20, 25, 50, 99, 100, 150])
def test_a_tenth_of_few_scores_is_a_tenth_too(size):
    digests = [bytes([i]) for i in range(size)]
    strata = strata_of([(i / size,) for i in range(size)], digests, is_classes=False)
    split_of, _ = divide(digests, strata, ["dev", "test"])
    for split in ("dev", "test"):
        assert 0.8 <= 10 * split_of.count(split) / size <= 1.4, (split, split_of.count(split))


def test_splits_of_scores_have_low_and_high_ones_alike(tmp_path):
    read = read_own(settings(write_table(tmp_path / "r.csv", rated(400))))
    means = [sum(e.label[0] for e in part) / len(part) for part in read.splits.values()]
    assert max(means) - min(means) < 0.05 and len(read.splits["dev"]) == len(read.splits["test"]) == 40


@pytest.mark.parametrize("kind", ["classes", "scores of three values"])
def test_a_split_depends_on_the_seed_and_neither_on_the_order_nor_on_the_kind_of_file(tmp_path, kind):
    rows = reviews(100)
    if kind != "classes":
        rows = [row | {"label": i % 3 + 0.5} for i, row in enumerate(rows)]
    first = read_own(settings(write_table(tmp_path / "a.csv", rows)))
    random.Random(3).shuffle(rows)
    second = read_own(settings(write_lines(tmp_path / "b.jsonl", rows)))
    other = read_own(settings(tmp_path / "a.csv", split_seed=2))
    sets = [{e.tokens for e in read.splits["test"]} for read in (first, second, other)]
    assert sets[0] == sets[1] != sets[2]


def test_only_the_split_that_is_missing_is_made_of_train(tmp_path):
    write_table(tmp_path / "train.csv", reviews(100)[:80])
    write_table(tmp_path / "test.csv", reviews(100)[80:])
    read = read_own(settings(tmp_path))
    assert {name: len(part) for name, part in read.splits.items()} == {"train": 72, "dev": 8, "test": 20}


def test_copies_of_a_text_stay_in_one_split_and_are_counted(tmp_path):
    rows = reviews(100) + reviews(100)[:30]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows)))
    splits = [{e.tokens for e in part} for part in read.splits.values()]
    assert not splits[0] & splits[1] and not splits[0] & splits[2] and not splits[1] & splits[2]
    assert "30 texts repeat another one; copies stay in one split" in read.notes


def test_what_is_counted_of_pairs_is_called_a_pair(tmp_path):
    rows = [row | {"text": f"claim {i}", "second": row["text"]} for i, row in enumerate(reviews(100))]
    rows += [rows[0], rows[1] | {"label": rows[0]["label"]}, rows[1] | {"label": rows[2]["label"]}]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows), second="second"))
    said = "\n".join(read.notes)
    assert "pairs repeat another one" in said and "1 pair stands in several rows with different labels" in said
    (tmp_path / "train.csv").write_bytes((tmp_path / "r.csv").read_bytes())
    write_table(tmp_path / "test.csv", rows[:30])
    (tmp_path / "r.csv").unlink()
    said = "\n".join(read_own(settings(tmp_path, second="second")).notes)
    assert "28 pairs of test also stand in train" in said and not re.search(r"\d texts?\b", said)


def test_the_labels_of_pairs_may_be_scores_as_those_of_single_texts(tmp_path):
    rows = [row | {"second": f"other {i}", "label": i % 2} for i, row in enumerate(reviews())]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows), second="second"))
    assert read.notes[0].endswith("2 classes: 0 (20), 1 (20) (give head=scores to read them as scores)")
    assert read_own(settings(tmp_path / "r.csv", second="second", head="scores")).head == "scores"
    graded = write_table(tmp_path / "s.csv", [row | {"label": i / 8} for i, row in enumerate(rows)])
    read = read_alignment(AlignmentSettings(corpus=str(graded), device="cpu"))
    assert (read.head, read.num_outputs, read.labels, read.own.scale) == ("scores", 1, None, (0.0, 39 / 8))
    scores = sorted(e.label[0] for part in read.splits.values() for e in part)
    assert scores == pytest.approx([i / 39 for i in range(40)])


def test_pairs_with_the_same_first_text_stay_in_one_split(tmp_path):
    rows = [row | {"text": f"claim {i // 3}", "second": row["text"]} for i, row in enumerate(reviews(300))]
    random.Random(3).shuffle(rows)
    read = read_own(settings(write_table(tmp_path / "r.csv", rows), second="second"))
    claims = [{e.tokens for e in part} for part in read.splits.values()]
    assert not claims[0] & claims[1] and not claims[0] & claims[2] and not claims[1] & claims[2]
    assert all(27 <= len(read.splits[name]) <= 33 for name in ("dev", "test")), "about a tenth of the pairs"
    assert "200 pairs have the first text of another one; all pairs of a first text stay in one split" in read.notes


@pytest.mark.parametrize(("twins", "said"), [(40, True), (21, True), (20, False)])
def test_a_note_says_that_most_pairs_have_the_same_text_twice(tmp_path, twins, said):
    rows = [row | {"second": row["text"] if i < twins else f"claim {i}"} for i, row in enumerate(reviews(40))]
    notes = read_own(settings(write_table(tmp_path / "r.csv", rows), second="second")).notes
    assert any(f"{twins} of 40 pairs have the same text twice" in note for note in notes) == said


def test_pairs_of_too_few_first_texts_are_divided_one_by_one_and_a_note_says_so(tmp_path):
    rows = [row | {"text": f"claim {i % 4 // 2}", "second": row["text"]} for i, row in enumerate(reviews(300))]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows), second="second"))
    assert [len(part) for part in read.splits.values()] == [240, 30, 30]
    assert not any("stay in one split" in note for note in read.notes)
    assert "the first texts of 30 of the 30 pairs of test stand in train as well" in "\n".join(read.notes)


def test_a_truth_value_that_is_written_in_two_ways_is_noticed(tmp_path):
    rows = [{"text": f"a film {i}", "label": label} for i, label in enumerate([1, True, 0, False] * 5)]
    note = read_own(settings(write_lines(tmp_path / "t.jsonl", rows))).notes[0]
    assert "4 classes" in note and "; 1 and true may mean the same, and are different classes" in note
    rows = [{"text": f"a film {i}", "label": label} for i, label in enumerate([1, 0] * 10)]
    assert "may mean" not in read_own(settings(write_lines(tmp_path / "u.jsonl", rows))).notes[0]


@pytest.mark.parametrize(
    ("text", "is_clause"),
    [("这部电影真的非常好看，我很喜欢。", True), ("这 部 电影 真 的 非常 好看", False),
     ("a 这部电影真的非常好看 b c", False),
     ("ภาพยนตร์เรื่องนี้สนุกมากจริงๆ", True), ("ภาพยนตร์ เรื่องนี้ สนุก มาก", False), ("a warm film", False)],
)  # fmt: skip
def test_texts_without_spaces_between_words_are_noticed(tmp_path, text, is_clause):
    rows = [{"text": f"{text} " * (i // 2 + 1), "label": ("neg", "pos")[i % 2]} for i in range(20)]
    rows = [row | {"text": row["text"] + "!" * (row["label"] == "pos")} for row in rows]
    notes = read_own(settings(write_lines(tmp_path / "t.jsonl", rows))).notes
    assert any("one gate selects all of such a clause" in note for note in notes) == is_clause


def test_one_number_that_is_written_in_two_ways_is_noticed(tmp_path):
    rows = [row | {"label": ("4.5", "4.50")[i % 2]} for i, row in enumerate(reviews())]
    path = write_table(tmp_path / "r.csv", rows)
    note = read_own(settings(path)).notes[0]
    assert "; '4.5' and '4.50' are the same number, and are different classes" in note
    with pytest.raises(BadInput, match=r"r.csv, row 2: every text has the same label, '4.5' in column 'label'; at "):
        read_own(settings(path, head="scores"))


def test_texts_with_two_labels_and_labels_that_differ_in_case_are_named(tmp_path):
    rows = reviews(40)
    contradicted = [*rows, rows[0] | {"label": rows[1]["label"]}]
    notes = read_own(settings(write_table(tmp_path / "r.csv", contradicted))).notes
    assert "1 text stands in several rows with different labels" in notes
    once = read_own(settings(write_table(tmp_path / "s.csv", rows))).notes
    assert not any("different labels" in note for note in once)
    upper = [row | {"label": row["label"].upper()} if i % 3 == 0 else row for i, row in enumerate(reviews(80))]
    told = "'NEG' and 'neg' differ only in upper and lower case, and are different classes"
    assert told in read_own(settings(write_table(tmp_path / "t.csv", upper))).notes[0]


def test_texts_that_stand_in_two_given_splits_are_counted_and_named(tmp_path):
    for name, part in (("train", reviews()), ("dev", reviews(6)[2:]), ("test", [*reviews(50)[40:], *reviews()[4:6]])):
        write_table(tmp_path / f"{name}.csv", part)
    notes = read_own(settings(tmp_path)).notes
    assert any("4 texts of dev also stand in train: " in note and "dev.csv, row 2 is " in note for note in notes)
    assert any("2 texts of test also stand in train" in note and "train.csv, row 6" in note for note in notes)


def test_the_saved_splits_name_file_and_row_of_every_text(tmp_path):
    path = write_table(tmp_path / "r.csv", reviews())
    read = read_own(settings(path))
    read.save(tmp_path)
    lines = (tmp_path / "splits.csv").read_text().splitlines()
    assert lines[0] == "split,file,row" and len(lines) == 41
    written = path.read_text().splitlines()
    for line, example in zip(lines[1:], [e for part in read.splits.values() for e in part], strict=True):
        split, file, row = line.split(",")
        assert file.endswith("r.csv") and written[int(row) - 1].startswith(" ".join(example.tokens))


def test_fewer_texts_than_classes_are_refused(tmp_path):
    path = write_table(tmp_path / "r.csv", reviews(100))
    for split in SPLITS:
        with pytest.raises(BadInput, match=f"^num_{split}: 1; accepted: at least 2, the number of classes$"):
            read_extraction(settings(path, **{f"num_{split}": 1}))
    assert len(read_extraction(settings(write_table(tmp_path / "s.csv", rated()), num_train=1)).splits["train"]) == 1


def test_the_first_texts_of_a_split_cover_all_classes(tmp_path):
    rows = sorted(reviews(100), key=lambda row: row["label"])
    read = read_extraction(settings(write_table(tmp_path / "r.csv", rows), num_train=4))
    assert [read.labels[e.label] for e in read.splits["train"]] == ["neg", "pos", "neg", "pos"]


def test_a_note_tells_if_more_texts_are_asked_for_than_there_are(tmp_path, capsys):
    path = write_table(tmp_path / "r.csv", reviews(100))
    sizes = {name: len(part) for name, part in read_extraction(settings(path)).splits.items()}
    assert "num_" not in capsys.readouterr().out, "with all texts"
    read_extraction(settings(path, **{f"num_{name}": size for name, size in sizes.items()}))
    assert "num_" not in capsys.readouterr().out, "with exactly as many as there are"
    read_extraction(settings(path, num_train=1_500, num_dev=sizes["dev"] - 1))
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "num_" in line)
    there = f"note: num_train: 1,500, but train has {sizes['train']} texts; all of them are used"
    assert told == there


# --- rationales


MARKS = {  # of "It isn't so good.", four words between spaces and six tokens
    "[[3, 8]]": ".xx...",
    '[{"start": 0, "end": 2}]': "x.....",
    "0 0 1 0": "...x..",
    "0 1 0 0": ".xx...",
    "0,0,1,1,0,0": "..xx..",
    "[0, 0, 0, 0, 0, 1]": ".....x",
    "[]": "......",
    "": None,
}


@pytest.mark.parametrize("why", MARKS)
def test_a_rationale_is_spans_or_a_list_of_marks(tmp_path, why):
    rows = changed(0, [row | {"why": "[]"} for row in reviews()], text="It isn't so good.", why=why)
    read = read_own(settings(write_table(tmp_path / "r.csv", rows), rationale="why"))
    found = next(e for part in read.splits.values() for e in part if e.tokens[0] == "It")
    assert found.tokens == ("It", "is", "n't", "so", "good", ".")
    assert found.rationale == (tuple(sign == "x" for sign in MARKS[why]) if MARKS[why] else None)


ODD = (
    "Σ",
    "ς",
    "İ",
    "ẞ",
    "\x85",
    "…",
    "’",
    "\u0301",
    "\xa0",
    "€",
    "clich茅",
    "n鈥檛",
    "鈥?",
    "銈\ue76c",
    "好?",
    " ",
    "a",
    ".",
)


@given(
    st.text(max_size=60) | st.lists(st.sampled_from(ODD), max_size=20).map("".join), st.sampled_from(sorted(TOKENISERS))
)
def test_each_token_is_found_in_its_text_in_order(text, tokeniser):
    tokens = TOKENISERS[tokeniser](text)
    spans = token_spans(text, tokens)
    assert len(spans) == len(tokens) and all(0 <= start <= end <= len(text) for start, end in spans)
    assert all(a[1] <= b[1] and a[0] <= b[0] for a, b in pairwise(spans))
    assert all(a[1] <= b[0] for a, b in pairwise(spans)) or re.search("[…\x85İ]", text), (
        "which become several characters"
    )
    assert all(a < b for (a, b), token in zip(spans, tokens, strict=True) if token.strip())
    if text.isascii():
        assert [text[a:b].lower() for a, b in spans] == [token.lower() for token in tokens]


@pytest.mark.parametrize("tokeniser", sorted(TOKENISERS))
def test_words_in_greek_capitals_are_found_with_their_last_letter(tokeniser):
    text = "Ο ΣΟΦΟΣ ΛΟΓΟΣ ὈΔΥΣΣΕΎΣ , ΣΊΣΥΦΟΣ"
    assert [text[a:b] for a, b in token_spans(text, TOKENISERS[tokeniser](text))] == text.split()


def test_words_that_were_repaired_are_found_with_the_characters_that_stood_for_them():
    text = "The clich茅s, didn鈥檛 鈥?work"
    spans = token_spans(text, TOKENISERS["words"](text))
    assert [text[a:b] for a, b in spans] == ["The", "clich茅s", ",", "did", "n鈥檛", "work"]


@pytest.mark.parametrize("text, tokeniser", [("Wait\x85 for it", "treebank"), ("Wait\x85for it", "spaces")])
def test_words_beside_dots_that_a_tokeniser_leaves_out_are_found(text, tokeniser):
    assert [text[a:b] for a, b in token_spans(text, TOKENISERS[tokeniser](text))] == ["Wait", "for", "it"]


@pytest.mark.parametrize(("spans", "cut"), [
    ([[2, 6]], ""), ([[2, 5]], "good"), ([[3, 6]], "good"), ([[0, 1], [7, 10]], "film"), ([[2, 11]], ""),
    ([[2, 12]], ""), ([{"start": 1, "end": 4}], "good"), ([], ""), ([0, 1, 0, 0], ""),
])  # fmt: skip
def test_a_note_says_that_a_mark_begins_or_ends_inside_a_word(tmp_path, spans, cut):
    assert cut_word(json.dumps(spans), "A good film.", ["A", "good", "film", "."]) == cut
    rows = [row | {"marked": ""} for row in reviews(30)]
    rows[3] |= {"text": "A good film.", "marked": json.dumps(spans)}
    notes = read_own(settings(write_table(tmp_path / "r.csv", rows), rationale="marked")).notes
    said = f"1 text has a mark that begins or ends inside a word, such as {cut!r}, all of which counts as marked"
    assert any(said in note for note in notes) == bool(cut)


def test_a_token_of_another_text_has_an_empty_span():
    text = "A ΣΟΦΟΣ film"
    assert [text[a:b] for a, b in token_spans(text, ["a", "good", "σοφος", "film", "film"])] == [
        "A",
        "",
        "ΣΟΦΟΣ",
        "film",
        "",
    ]


def test_neighbouring_words_of_a_rationale_are_one_span():
    text = "A warm ,  funny film, truly."
    spans = token_spans(text, TOKENISERS["treebank"](text))
    assert [text[a:b] for a, b in merged(spans, [0, 1, 1, 1, 0, 0, 1, 0], text)] == ["warm ,  funny", "truly"]


# --- ERASER


def test_a_folder_in_the_format_of_eraser_is_read_with_its_evidence(tmp_path):
    read = read_own(settings(write_eraser(tmp_path / "movies")))
    assert read.labels == ["NEG", "POS"] and [len(part) for part in read.splits.values()] == [8, 2, 2]
    for example in read.splits["train"]:
        assert example.rationale == (False, True, True) + (False,) * (len(example.tokens) - 3)


def test_tokens_of_documents_are_divided_by_spaces_and_lines_alone(tmp_path):
    folder = write_eraser(tmp_path / "movies")
    path = folder / "docs" / "d2.txt"
    first, *others = path.read_text().split(" ")
    path.write_text(f" {first}\u00a0km  {' '.join(others)}", encoding="utf-8")
    example = next(e for e in read_own(settings(folder)).splits["train"] if "km" in e.tokens[0])
    marked = [word for word, is_marked in zip(example.tokens, example.rationale, strict=True) if is_marked]
    assert marked == " ".join(others).split()[:2]


def test_in_one_file_of_documents_an_empty_piece_between_two_spaces_or_lines_counts_and_is_no_word(tmp_path):
    rows = []
    for i, row in enumerate(reviews(12)):
        evidence = {"docid": f"d{i}", "start_token": 4, "end_token": 5}
        rows.append({"annotation_id": f"d{i}", "classification": row["label"], "evidences": [[evidence]], "query": ""})
    documents = [{"docid": row["annotation_id"], "document": f"a  film\n\nseen {i}"} for i, row in enumerate(rows)]
    write_lines(tmp_path / "docs.jsonl", documents)
    for name, part in (("train", rows[:8]), ("val", rows[8:10]), ("test", rows[10:])):
        write_lines(tmp_path / f"{name}.jsonl", part)
    for example in read_own(settings(tmp_path)).splits["train"]:
        assert example.tokens[:3] == ("a", "film", "seen") and example.rationale == (False, False, True, False)


def test_queries_that_differ_stand_before_their_texts_and_are_never_marked(tmp_path):
    folder = write_eraser(tmp_path / "boolq", query="was it funny")
    example = next(e for e in read_own(settings(folder)).splits["train"] if e.tokens[0] == "was")
    assert example.tokens[:4] == ("was", "it", "funny", "a") and example.rationale[:5] == (False,) * 4 + (True,)


def test_the_documents_of_a_pair_are_its_sides_and_a_query_is_the_second_text(tmp_path):
    rows, documents = [], []
    for i, row in enumerate(reviews(12)):
        documents += [{"docid": f"p{i}_premise", "document": row["text"]}]
        documents += [{"docid": f"p{i}_hypothesis", "document": "it is good"}]
        evidence = {"docid": f"p{i}_hypothesis", "start_token": 2, "end_token": 3}
        rows.append(
            {"annotation_id": f"p{i}", "classification": row["label"], "evidences": [[evidence]], "query": None}
        )
    write_lines(tmp_path / "esnli" / "docs.jsonl", documents)
    for name, part in (("train", rows[:8]), ("val", rows[8:10]), ("test", rows[10:])):
        write_lines(tmp_path / "esnli" / f"{name}.jsonl", part)
    pairs = read_alignment(settings(tmp_path / "esnli", second="second")).splits["train"]
    assert all(e.second == (NULL, "it", "is", "good") and e.tokens[0] == NULL for e in pairs)
    single = read_own(settings(tmp_path / "esnli")).splits["train"][0]
    assert single.tokens[-3:] == ("it", "is", "good") and single.rationale[-2:] == (False, True)
    queried = read_alignment(settings(write_eraser(tmp_path / "multirc"), second="second")).splits["dev"][0]
    assert queried.second == (NULL, "Is", "it", "good?")


@pytest.mark.data
def test_movies_written_in_the_format_of_eraser_are_read_as_they_were(tmp_path):
    if not (data_folder() / "movies").is_dir():
        pytest.skip("needs movies")
    splits = {name: part[:20] + part[-20:] for name, part in read_movies().items()}
    (tmp_path / "docs").mkdir()
    for split, part in splits.items():
        rows = []
        for i, e in enumerate(part):
            name, edges = f"{split}{i}.txt", [0, *(e.rationale or [0] * len(e.tokens)), 0]
            (tmp_path / "docs" / name).write_text(" ".join(e.tokens))
            ends = [k for k in range(len(e.tokens) + 1) if edges[k] != edges[k + 1]]
            spans = [
                {"docid": name, "start_token": a, "end_token": b} for a, b in zip(ends[::2], ends[1::2], strict=True)
            ]
            label = ("NEG", "POS")[e.label]
            rows.append({"annotation_id": name, "classification": label, "evidences": [spans], "query": "?"})
        write_lines(tmp_path / f"{split}.jsonl", rows)
    read = read_own(settings(tmp_path))
    for split, part in splits.items():
        kept = {(e.tokens, e.label, e.rationale if any(e.rationale or ()) else None) for e in part}
        assert {(e.tokens, e.label, e.rationale) for e in read.splits[split]} == kept


# --- names, pairs and settings


def test_pairs_have_a_null_word_first_and_their_column_is_named(tmp_path):
    path = write_table(tmp_path / "pairs.csv", [row | {"claim": "it is good"} for row in reviews()])
    read = read_alignment(settings(path, second="claim"))
    assert all(e.second == (NULL, "it", "is", "good") and e.tokens[0] == NULL for e in read.splits["dev"])
    with pytest.raises(BadInput, match="no column 'second'; its columns are text, label, claim; give second="):
        read_alignment(settings(path, second="second"))


def test_a_path_is_told_from_a_name_and_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    assert all(map(is_own, ["reviews.csv", "r.tsv.gz", "data/reviews", "~/reviews", "texts", "R.CSV"]))
    assert not any(map(is_own, ["sst", "synthetic", "", "no such folder"]))
    (tmp_path / "reviews").write_text("text,label\n")
    assert is_own("reviews") and absolute("reviews") == str(tmp_path / "reviews"), "a file without an ending"
    assert absolute("https://a.org/r.csv") is absolute("s3://bucket/r.csv") is None, "an address is no path"
    for name in ("hub:", "hub:a b", "hub:a/b/c", "hub:a/b:"):
        with pytest.raises(BadInput, match="or hub:owner/name of a data set on the hub"):
            OwnTextSettings.check("corpus", name)
    assert OwnTextSettings.check("corpus", "hub:a/b:c") == "hub:a/b:c" and is_own("hub:films")
    for cls in (OwnTextSettings, AlignmentSettings):
        assert cls.check("corpus", "reviews.csv") == str(tmp_path / "reviews.csv") == absolute("reviews.csv")
        with pytest.raises(BadInput, match=r"one of .*, or a file \(.csv, .tsv, .jsonl, .parquet\) or a folder"):
            cls.check("corpus", "sts")
    assert OwnTextSettings.check("corpus", "synthetic") == "synthetic"
    (tmp_path / "synthetic").mkdir()
    assert not names_own("synthetic") and names_own("texts") and names_own("./synthetic")


def test_the_first_texts_of_a_split_are_given_as_they_stand_in_their_files(tmp_path):
    rows = [row | {"text": f"It isn't  so,\n{row['text']}"} for row in reviews(60)]
    write_table(tmp_path / "whole" / "r.csv", rows)
    write_lines(tmp_path / "parts" / "train.jsonl", rows[:40])
    write_lines(tmp_path / "parts" / "test.jsonl", [row | {"text": row["text"].split()} for row in rows[40:]])
    for p in (settings(tmp_path / "whole" / "r.csv"), settings(tmp_path / "parts")):
        read = read_own(p)
        for split, part in read.splits.items():
            written = texts_as_written(p, read, split, 4)
            assert len(written) == 4
            for text, example in zip(written, part, strict=False):
                if split == "test" and p.corpus.endswith("parts"):
                    assert text == " ".join(example.tokens)
                else:
                    assert text.startswith("It isn't  so,\n") and tuple(TOKENISERS["treebank"](text)) == example.tokens
    eraser = settings(write_eraser(tmp_path / "eraser"))
    read = read_own(eraser)
    assert texts_as_written(eraser, read, "dev", 9) == [" ".join(example.tokens) for example in read.splits["dev"]]


def test_the_first_pairs_of_a_split_are_given_as_they_stand_in_their_files(tmp_path):
    claims = {"neg": ["it", "is", "bad"], "pos": "It isn't  bad"}
    rows = [row | {"text": f"  {row['text']}", "claim": claims[row["label"]]} for row in reviews()]
    p = settings(write_lines(tmp_path / "pairs.jsonl", rows), second="claim")
    read = read_own(p)
    written = pairs_as_written(p, read, "train", 9)
    assert len(written) == 9
    for (text, claim), example in zip(written, read.splits["train"], strict=False):
        assert claim == ("it is bad", "It isn't  bad")[example.label] and text in {row["text"] for row in rows}
        assert (NULL, *TOKENISERS["treebank"](text)) == example.tokens
    eraser = settings(write_eraser(tmp_path / "eraser"), second="second")
    read = read_own(eraser)
    assert {claim for _, claim in pairs_as_written(eraser, read, "test", 9)} == {"Is it good?"}


@pytest.mark.parametrize(
    ("cls", "columns", "message"),
    [
        (OwnTextSettings, {"text": "label"}, "label: label is not accepted as it is the column of the texts; give an"),
        (OwnTextSettings, {"rationale": "text"}, "rationale: text is not accepted with text=text, label=label; give"),
        (OwnTextSettings, {"label": "stars", "rationale": "stars"}, "rationale: stars is not accepted with text=text"),
        (AlignmentSettings, {"second": "label"}, "second: label is not accepted with text=text, label=label; give an"),
        (AlignmentSettings, {"text": "a", "second": "a"}, "second: a is not accepted with text=a, label=label; give"),
    ],
)
def test_two_settings_that_name_one_column_stop_before_any_work(cls, columns, message):
    with pytest.raises(BadInput, match=message):
        cls.checked({"corpus": "reviews.csv"} | columns)


@pytest.mark.parametrize("cls, name", [(OwnTextSettings, "text"), (OwnTextSettings, "label"),
                                       (AlignmentSettings, "text"), (AlignmentSettings, "second")])  # fmt: skip
def test_a_column_with_an_empty_name_is_one_that_the_file_has_not(tmp_path, cls, name):
    path = write_table(tmp_path / "r.csv", [row | {"second": "so it is"} for row in reviews()])
    with pytest.raises(BadInput, match=rf"r.csv: no column ''; its columns are text, label, second; give {name}= one"):
        read_own(cls.checked({"corpus": str(path), name: ""}))


@pytest.mark.skipif(sys.platform == "win32", reason="this system has other permissions")
def test_what_may_not_be_read_is_one_line_with_its_reason(folder_for_all, monkeypatch):  # noqa: F811
    path = write_table(folder_for_all / "r.csv", reviews())
    locked = write_table(folder_for_all / "locked" / "train.csv", reviews()).parent
    folder_for_all.chmod(0o755)
    path.chmod(0)
    locked.chmod(0)
    monkeypatch.chdir("/")
    with ordinary_user():
        for corpus in (path, locked, locked / "train.csv"):
            with pytest.raises(BadInput, match=rf"{corpus.name}: Permission denied"):
                read_own(settings(corpus))


@pytest.mark.parametrize("first", [0, 1])
def test_a_split_may_be_in_numbered_files(tmp_path, first):
    for i in range(2):
        write_table(tmp_path / f"train-{first + i:05}-of-00002.csv", reviews()[20 * i : 20 * (i + 1)])
    write_table(tmp_path / "test.csv", [row | {"text": f"new {row['text']}"} for row in reviews(4)])
    own = read_own(settings(tmp_path))
    assert len(own.splits["train"]) + len(own.splits["dev"]) == 40 and len(own.splits["test"]) == 4


def test_the_files_of_splits_may_be_named_in_capitals(tmp_path):
    write_table(tmp_path / "Train.CSV", reviews(50)[:40])
    write_table(tmp_path / "TEST.csv", reviews(50)[40:])
    read = read_own(settings(tmp_path))
    assert {name: len(part) for name, part in read.splits.items()} == {"train": 36, "dev": 4, "test": 10}


@pytest.mark.parametrize(
    ("text", "tag"),
    [("warm<br /><br />film", "<br />"), ("<P>warm film</P>", "<P>"), ('a <a href="x">b', '<a href="x">')],
)
def test_tags_of_html_are_counted_and_named_as_they_are_words_for_the_model(tmp_path, text, tag):
    notes = read_own(
        settings(write_table(tmp_path / "r.csv", changed(3, changed(8, text=f"{text} !"), text=text)))
    ).notes
    assert any(note.startswith(f"2 texts hold tags of HTML, such as {tag}, which are words") for note in notes)
    for plain in ("1 < 2 > 0", "a <- b -> c", "I <3 it", "x<y and y>z", "a<b and b>c"):
        notes = read_own(settings(write_table(tmp_path / "s.csv", changed(3, text=plain)))).notes
        assert not any("HTML" in note for note in notes), plain


def test_texts_that_often_stand_for_a_missing_one_are_counted(tmp_path):
    rows = changed(3, changed(8, text=" n/a "), text="NaN")
    notes = read_own(settings(write_table(tmp_path / "r.csv", rows))).notes
    told = "2 texts are 'NaN' or the like, which we read as words; remove these rows if a text is missing there"
    assert told in notes
    notes = read_own(settings(write_table(tmp_path / "s.csv", reviews()))).notes
    assert not any("or the like" in note for note in notes)


@pytest.mark.parametrize(("odd", "told"), [("<br />", "hold tags of HTML"), ("None", "are 'None' or the like")])
def test_what_is_odd_in_the_second_texts_of_pairs_is_counted_as_in_the_first_ones(tmp_path, odd, told):
    rows = [row | {"second": f"other {i}"} for i, row in enumerate(reviews())]
    rows = changed(3, changed(9, changed(9, rows, text=odd), second=odd), second=odd)
    notes = read_own(settings(write_table(tmp_path / "r.csv", rows), second="second")).notes
    assert any(note.startswith(f"3 texts {told}") for note in notes), "one first text, and two second ones"


UTF_8 = ("café", "È", "naïve", "It’s", "“so”", "a…", "Straße", "20 °C", "£5", "good 😀", "Österreich", "Noël", "Íñigo",
         "Å, Åse", "Привет", "Ωραίο", "你好")  # fmt: skip


@pytest.mark.parametrize("text", UTF_8)
def test_a_text_that_was_decoded_wrongly_is_told_and_its_right_form_is_not(tmp_path, text):
    as_windows = "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in text.encode())
    notes = read_own(settings(write_table(tmp_path / "r.csv", changed(3, text=f"{as_windows} !")))).notes
    (note,) = [note for note in notes if "decoding" in note]
    shown = re.fullmatch(r"1 text holds characters of a wrong decoding, such as ('.+'), which are .*; export .*", note)
    assert ast.literal_eval(shown[1]) in as_windows and ast.literal_eval(shown[1]) not in text
    notes = read_own(settings(write_table(tmp_path / "s.csv", changed(3, text=f"{text} !")))).notes
    assert not any("decoding" in note for note in notes), text


def test_lost_characters_are_counted_and_capitals_with_accents_beside_marks_are_none(tmp_path):
    rows = changed(3, changed(8, text="caf\ufffd"), text="na\ufffdve")
    notes = read_own(settings(write_table(tmp_path / "r.csv", rows))).notes
    assert any(note.startswith("2 texts hold characters of a wrong decoding, such as '\ufffd'") for note in notes)
    marked = ("«CAFÉ»", "“IRMû", "MÃE, IRMÃ…", "Â, Ã", "DÉJÀ…", "für 5 €", "IRMÃ »", "«Â»", "Úžasný", "NESTLÉ®", "Ð, ð")
    for plain in marked:
        notes = read_own(settings(write_table(tmp_path / "s.csv", changed(3, text=plain)))).notes
        assert not any("decoding" in note for note in notes), plain


@pytest.mark.parametrize(("wrong", "count"), [({17: 1e6}, 1), ({5: 99.0}, 1), ({40: -999.0, 8: 9999.0, 9: -999.0}, 3)])
def test_scores_that_are_far_from_all_others_are_counted_and_the_first_is_named(tmp_path, wrong, count):
    rows = [{"text": f"text {i}", "label": wrong.get(i, 1.5 + i % 10)} for i in range(1, 101)]
    read = read_own(settings(write_table(tmp_path / "r.csv", rows)))
    (note,) = [note for note in read.notes if "far from all others" in note]
    verb, row = "is" if count == 1 else "are", min(wrong)
    assert note.startswith(f"{counted(count, 'score')} in column 'label' {verb} far from all others: ")
    first = f"r.csv, row {row + 1} has '{wrong[row]:.0f}', and the others are from 1.5 to 10.5, which a model"
    assert first in note, "the row of the names is the first one"


ORDINARY = {
    "whole numbers from 1 to 5": lambda g, n: g.integers(1, 6, n),
    "mostly 5 of 1 to 5": lambda g, n: g.choice([1, 2, 3, 4, 5], n, p=[0.02, 0.02, 0.03, 0.13, 0.8]),
    "0, and 1 for a few": lambda g, n: g.random(n) < 0.03,
    "uniform": lambda g, n: g.random(n),
    "normal": lambda g, n: g.normal(size=n),
    "exponential": lambda g, n: g.exponential(size=n),
    "two heaps": lambda g, n: g.normal(100.0 * (g.random(n) < 0.3), 1.0),
    "prices": lambda g, n: g.lognormal(3, 1, n).round() - 0.01,
    "prices over many powers of ten": lambda g, n: g.lognormal(3, 2, n),
    "counts, most of them 0": lambda g, n: (g.random(n) < 0.1) * g.lognormal(5, 1, n).round(),
    "a power law without a variance": lambda g, n: g.pareto(1.5, n),
}


@pytest.mark.parametrize("law", ORDINARY)
def test_no_score_of_an_ordinary_column_is_called_far(law):
    """However few there are; and beside one that is wrong by far, the others are still ordinary."""
    generator = np.random.default_rng(0)
    for size, times in ((3, 20), (20, 200), (50, 200), (300, 50), (3000, 5)):
        for _ in range(times):
            assert far_scores(ORDINARY[law](generator, size).astype(float).tolist()) == [], size
    scores = ORDINARY[law](generator, 3000).astype(float)
    scores[7] = 1e30
    assert far_scores(scores.tolist()) == [7]


def test_far_scores_do_not_depend_on_the_unit_or_the_sign():
    scores = [*np.random.default_rng(1).normal(size=200), 400.0]
    for factor in (1.0, -1.0, 1e-300, 1e300):
        assert far_scores([factor * score + 0.0 for score in scores]) == [200]
    assert far_scores([score + 5e4 for score in scores]) == [200]


def test_values_that_often_stand_for_a_missing_label_are_named_as_classes(tmp_path):
    rows = [row | {"label": ("nan", "neg", "pos", "N/A")[i % 4]} for i, row in enumerate(reviews(80))]
    told = "'N/A' and 'nan' are classes; remove their rows if a label is missing there"
    assert told in read_own(settings(write_table(tmp_path / "r.csv", rows))).notes[0]


def test_a_corpus_of_the_package_keeps_its_name_beside_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sst").mkdir()
    assert find_corpus("sst").labels and find_corpus("texts.csv").labels == ()


def test_settings_without_columns_refuse_a_file(tmp_path):
    path = write_table(tmp_path / "r.csv", reviews())
    with pytest.raises(BadInput, match="is not for extraction"):
        read_extraction(SimpleNamespace(corpus=str(path), num_train=0, num_dev=0, num_test=0))


def test_the_columns_have_the_same_names_in_every_task():
    assert set(TextFileSettings.model_fields) < set(OwnTextSettings.model_fields) & set(AlignmentSettings.model_fields)


def test_a_corpus_is_written_as_a_table_of_texts_from_all_of_it(tmp_path, monkeypatch):
    texts = [Example((f"w{i}",), int(i >= 90)) for i in range(100)]  # the first 90 are of one class
    corpus = Corpus("sorted", "texts in the order of labels", {"extraction": lambda _: {"train": texts}}, ("a", "b"))
    monkeypatch.setattr("rationale.data.read.find_corpus", lambda _: corpus)
    rows = write_as_table("sorted", tmp_path / "r.csv", 50).read_text().splitlines()
    assert len(rows) == 51 and rows == write_as_table("sorted", tmp_path / "s.csv", 50).read_text().splitlines()
    assert 1 <= sum(row.endswith(",b,") for row in rows) <= 10
    assert len(write_as_table("sorted", tmp_path / "t.csv", 200).read_text().splitlines()) == 101


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("given", "name", "columns"),
    [
        ({}, "made-up", []),
        ({"PARAMS": "params/a.yaml selection=0.1 seed=2"}, "made-up-a.yaml-selection0.1-seed2", []),
        ({"DATA": "/x/reviews.csv", "TEXT": "body", "LABEL": "stars"}, "reviews", ["text=body", "label=stars"]),
        ({"DATA": "/x/my reviews (1).csv", "TEXT": "the body", "LABEL": "it's"}, "my-reviews-1",
         ["text=the body", "label=it's"]),
        ({"DATA": "it's.csv", "PARAMS": "seed=2"}, "it-s-seed2", []),
        ({"DATA": "hub:films:short"}, "hub-films-short", []),
        ({"DATA": "/x/reviews/"}, "reviews", []),
        ({"DATA": "é $(ls) `ls`.csv"}, "é-ls-ls", []),
        ({"DATA": "r.csv", "OWN_NAME": "mine"}, "mine", []),
        ({"DATA": "r.csv", "PARAMS": "seed=2 --again"}, "r-seed2", []),
    ],
)  # fmt: skip
def test_make_own_takes_a_file_of_any_name(tmp_path, given, name, columns):
    made = make_own(tmp_path, given)
    corpus = [f"corpus={given['DATA']}"] if "DATA" in given else []
    start, params = ["-m", "rationale.runs", "17_train_own_texts"], given.get("PARAMS", "").split()
    assert made.stdout.splitlines() == [*start, *corpus, *columns, *params, "--name", name]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_own_with_columns_of_no_file_trains_nothing(tmp_path):
    made = make_own(tmp_path, {"TEXT": "body", "LABEL": "stars"})
    assert made.returncode and not made.stdout and "make own DATA=reviews.csv TEXT=body LABEL=stars" in made.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("misspelt", ["LABELS", "seed", "Data"])
def test_make_refuses_a_variable_that_no_target_uses(tmp_path, misspelt):
    made = make_own(tmp_path, {"DATA": "r.csv", misspelt: "2"})
    assert made.returncode == 2 and not made.stdout
    assert f"{misspelt}: no target uses this variable, accepted are PYTHON " in made.stderr
    assert 'PARAMS="selection=0.1 seed=2"' in made.stderr


def test_each_variable_that_make_accepts_is_used_by_a_target():
    makefile = (root() / "Makefile").read_text()
    accepted = re.search(r"^KNOWN +:= ((?:.*\\\n)*.*)$", makefile, re.M)[1].replace("\\\n", " ").split()
    used = set(re.findall(r"\$[({]?\$?[({]?([A-Z_]+)", makefile)) | set(
        re.findall(r"^ifdef ([A-Z_]+)$", makefile, re.M)
    )
    assert len(accepted) > 10 and set(accepted) <= used


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("name", ["my sweep.yaml", "it's (1) $(ls) `ls`.yaml", "plain"])
def test_make_sweep_and_make_run_take_a_file_of_any_name(tmp_path, name):
    made = make_own(tmp_path / "1", {"SWEEP": name, "SWEEP_FLAGS": "--quiet --again", "CORES": "3"}, "sweep")
    options = ["--run", "--jobs", "3", "--quiet", "--again"]
    assert made.stdout.splitlines() == ["-m", "rationale.sweeps", name, *options]
    made = make_own(tmp_path / "2", {"NOTEBOOK": name, "PARAMS": "seed=2 a.yaml"}, "run")
    assert made.stdout.splitlines() == ["-m", "rationale.runs", name, "seed=2", "a.yaml"]
    for target, options in (
        ("sweep", ["-m", "rationale.sweeps", "--run", "--jobs", "2"]),
        ("run", ["-m", "rationale.runs"]),
    ):
        assert make_own(tmp_path / target, {}, target).stdout.splitlines() == options, "no empty name"


def make_own(tmp_path, given, target="own"):
    """What `make own` or another target does with these variables, and a Python that only prints its arguments."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"""#!/bin/sh
if [ "$1" = -c ]; then exec '{sys.executable}' "$@"; fi
printf '%s\\n' "$@"
""")
    python.chmod(0o755)
    for copied in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root() / copied, tmp_path)
    (tmp_path / ".venv" / "ready").touch()
    variables = [f"{key}={value.replace('$', '$$')}" for key, value in given.items()]
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", target, *variables]  # as it is called by hand, also if `make test` calls this test
    return subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("notebook", "item", "message"),
    [
        ("17_train_own_texts", "text=body", "r.csv: no column 'body'; its columns are text, label, label2; give text="),
        ("17_train_own_texts", "rationale=marks", "r.csv: no column 'marks'"),
        ("17_train_own_texts", "corpus=s.csv", "s.csv: no such file, did you mean r.csv"),
        ("17_train_own_texts", "corpus=.", "no train file in this folder, which holds nan.csv, one.csv, out, r.csv"),
        ("17_train_own_texts", f"corpus={'y' * 300}.csv", "File name too long"),
        ("17_train_own_texts", "corpus=one.csv", "one.csv, row 2: every text has the same label, 'pos' in column"),
        ("17_train_own_texts", "corpus=nan.csv", "nan.csv, row 6: 'nan' in column 'label' is a missing score"),
        ("13_train_nli", "second=label2", "r.csv, row 9: an empty text in column 'label2'"),
        ("11_train_reviews", "label=stars", "r.csv: no column 'stars'"),
        ("13_train_nli", "text=text", "r.csv: no column 'second'"),
    ],
)
def test_what_is_wrong_with_a_file_is_named_before_a_kernel_is_used(notebook, item, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "r.csv", [row | {"label2": "so" * (i != 7)} for i, row in enumerate(reviews())])
    write_table(tmp_path / "one.csv", [row | {"label": "pos"} for row in reviews()])
    write_table(tmp_path / "nan.csv", changed(4, rated(), label="nan"))
    items = (
        ["corpus=r.csv"] * (not item.startswith("corpus=")) + ["aspect=overall"] * notebook.startswith("11") + [item]
    )
    started = []
    with pytest.raises(BadInput, match=re.escape(message)):
        run(notebook, items, name="x", outputs=tmp_path / "out", execute=lambda *_: started.append(1))
    assert not started and not list(tmp_path.rglob("run*.ipynb"))


def test_a_missing_file_with_a_relative_path_is_one_line_that_says_in_which_folder_the_path_begins(
    tmp_path, monkeypatch
):
    """A corpus in a parameter file is searched for in the folder of the command, not beside the parameter file."""
    monkeypatch.chdir(tmp_path)
    for path in ("films.csv", "data/films.csv"):
        with pytest.raises(BadInput) as caught:
            require_texts(settings(tmp_path / path))  # as a run gives it
        ending = f"{path}: no such file; a relative path begins in the current folder, {tmp_path}"
        assert str(caught.value) == ending, f"{path}: the message does not name the folder: {caught.value}"
    write_table(tmp_path / "film.csv", reviews())
    with pytest.raises(BadInput, match=r"films.csv: no such file, did you mean film.csv\?; a relative path begins in"):
        require_texts(settings("films.csv"))
    with pytest.raises(BadInput) as caught:
        require_texts(settings(tmp_path.parent / "nowhere" / "films.csv"))
    assert str(caught.value).endswith("films.csv: no such file"), "a path that is printed whole needs no folder"


def test_a_note_is_printed_for_what_was_noticed(tmp_path, capsys):
    read_extraction(settings(write_table(tmp_path / "r.csv", reviews())))
    out = capsys.readouterr().out
    assert out.count("note: ") == 2 and "40 texts; column 'label' holds 2 classes: neg (20), pos (20)" in out


# --- cells of the notebook


def cell_of_17(words: str) -> str:
    """The one code cell of the notebook that holds these words."""
    (source,) = [cell for cell in cells("17_train_own_texts") if words in cell]
    return source


def test_classes_may_have_the_names_of_columns_of_the_first_table():
    names = ["split", "texts", "longest"]
    part = [Example((name, "x"), k) for k, name in enumerate(names)]
    read = SimpleNamespace(splits={"train": part, "dev": part, "test": part}, labels=names)
    shown = []
    place = {"p": SimpleNamespace(corpus="r.csv"), "names_own": lambda _: True, "read_extraction": lambda _: read}
    figures = SimpleNamespace(show_table=shown.append)
    exec(cell_of_17("median words"), place | {"np": np, "pd": pytest.importorskip("pandas"), "figures": figures})
    (table,) = shown
    assert table.columns.is_unique and [f"share of {name}" for name in names] == list(table.columns[4:])


def test_a_classifier_is_explained_whose_texts_have_words_of_one_letter_only():
    of_text = pytest.importorskip("sklearn.feature_extraction.text")
    linear, pipelines = (pytest.importorskip(f"sklearn.{name}") for name in ("linear_model", "pipeline"))
    part = [Example(tuple("好我你" if k else "差他的"), k) for k in (0, 1)] * 5
    place = {"labels": ["neg", "pos"], "splits": {"train": part}, "originals": ["好 我"], "display": lambda *_: None}
    place |= {"TfidfVectorizer": of_text.TfidfVectorizer, "LogisticRegression": linear.LogisticRegression}
    place |= {"make_pipeline": pipelines.make_pipeline, "explain_classifier": lambda ask, texts, **_: ask(texts)}
    exec(cell_of_17("make_pipeline("), place)
    assert place["enough"][0][1] > 0.5, "its letters tell the class"


@pytest.mark.parametrize(("score", "value", "ends"), [("mse", 0.01, "(0 to "), ("balanced_accuracy", 0.97, " to 1)")])
def test_the_interval_of_a_score_does_not_leave_its_range(score, value, ends, capsys):
    pd = pytest.importorskip("pandas")
    both = {split: {score: value, "rate_selected": 0.2} for split in ("dev", "test")}
    result = SimpleNamespace(
        model=SimpleNamespace(head=SimpleNamespace(chosen_by=score)),
        evaluations={"test": SimpleNamespace(chosen_error=0.1)},
    )
    place = {"result": result, "scores": both, "splits": {"test": [1] * 9}, "np": np, "pd": pd}
    place |= {"baseline": SimpleNamespace(name="TF-IDF", metrics=both), "p": SimpleNamespace(model="hardkuma")}
    figures = SimpleNamespace(in_words=str, show_table=lambda *_, **__: None)
    exec(cell_of_17("score_in_words ="), place | {"figures": figures, "wilson_interval": None})
    assert ends in capsys.readouterr().out.splitlines()[0]
