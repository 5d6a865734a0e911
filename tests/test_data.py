"""The treebank reader and the word vectors: what they read, what they refuse, and in which words."""

import gzip
import lzma
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from rationale.data import (
    Example,
    Vocabulary,
    build_vocabulary,
    data_folder,
    read_vectors,
    require_vectors,
    word2vec_binary,
)
from rationale.data.corpora import sst
from rationale.data.packed import pack, unpack
from rationale.data.pairs import build_pair_vocabulary
from rationale.data.vectors import available
from rationale.errors import BadInput

TREE = "(3 (2 It) (4 (2 's) (4 (3 lovely) (2 .))))"


# --- the data folder


def test_folder_is_what_rationale_data_says(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    assert data_folder() == tmp_path


def test_folder_is_the_cache_without_rationale_data(monkeypatch):
    monkeypatch.delenv("RATIONALE_DATA", raising=False)
    assert data_folder().name == "rationale"


# --- trees


def test_a_tree_gives_tokens_labels_and_phrases():
    assert sst.parse_tree(TREE) == Example(
        tokens=("It", "'s", "lovely", "."),
        label=3,
        word_labels=(2, 2, 3, 2),
        phrases=((0, 4, 3), (0, 1, 2), (1, 4, 4), (1, 2, 2), (2, 4, 4), (2, 3, 3), (3, 4, 2)),
    )


def test_one_word_is_a_tree():
    assert sst.parse_tree("(4 Wow)").phrases == ((0, 1, 4),)


def test_backslashes_go_and_case_and_other_spaces_stay():
    tree = sst.parse_tree("(2 (2 AC\\/DC) (2 (2 \\*\\*\\*) (2 (2 2\u00a01\\/2) (2 -LRB-))))")
    assert tree.tokens == ("AC/DC", "***", "2\u00a01/2", "-LRB-")


def test_depth_does_not_matter():
    depth = 20_000
    tree = sst.parse_tree("".join("(2 (2 a) " for _ in range(depth)) + "(2 b)" + ")" * depth)
    assert len(tree.tokens) == depth + 1
    assert tree.phrases[0] == (0, depth + 1, 2)


@pytest.mark.parametrize(
    "line, what",
    [
        ("(3 (2 It) (2 works)", r"1 '\(' never closed"),
        ("(3 (2 It) (2 works)))", r"1 '\)' too many after 'works'"),
        ("((2 It) (2 works))", r"'\(\(2' opens no node; accepted: .* label from 0 to 4"),
        ("(7 (2 It) (2 works))", r"'\(7' opens no node; accepted: .* label from 0 to 4"),
        ("(3 (-1 It) (2 works))", r"'\(-1' opens no node"),
        ("(3 (2 It) ( works))", r"'\(' opens no node"),
        ("(3 (2 It)  (2 works))", r"'' is no leaf"),
        ("(3 (2 It works))", r"'It' is no leaf; accepted: one word after its label"),
        ("(3 (2 It) works)", r"'works\)' is no leaf"),
        ("(3 (2 It)(2 works))", r"'It\)\(2' is no leaf"),
        ("(3 (2 It) (2 ))", r"'\)\)' is no leaf"),
        ("(3 (2 It) (2 works)) (2 .)", r"'\(2' after the end of the tree; accepted: one tree per line"),
        ("(3 (2 It) (2 works)) good", r"'good' after the end of the tree"),
        ("It works", r"'It' is no leaf"),
        ("(3", r"1 '\(' never closed"),
        ("   ", r"empty line; accepted: one tree per line"),
    ],
)
def test_a_malformed_tree_is_named_by_file_and_line(tmp_path, line, what):
    for split in sst.SPLITS:
        (tmp_path / f"{split}.txt").write_text(TREE + "\n")
    (tmp_path / "dev.txt").write_text(f"{TREE}\n{line}\n{TREE}\n")
    with pytest.raises(BadInput, match=rf"dev\.txt:2: {what}") as error:
        sst.read_sst(tmp_path)
    assert "\n" not in str(error.value)
    assert "accepted" in str(error.value)


def test_empty_lines_at_the_end_are_ignored(tmp_path):
    for split in sst.SPLITS:
        (tmp_path / f"{split}.txt").write_text(f"{TREE}\n{TREE}\n\n\n")
    assert [len(examples) for examples in sst.read_sst(tmp_path).values()] == [2, 2, 2]


def test_windows_line_ends_are_read(tmp_path):
    for split in sst.SPLITS:
        (tmp_path / f"{split}.txt").write_bytes(f"{TREE}\r\n{TREE}\r\n".encode())
    assert sst.read_sst(tmp_path)["train"] == [sst.parse_tree(TREE)] * 2


def test_an_empty_file_is_refused(tmp_path):
    for split in sst.SPLITS:
        (tmp_path / f"{split}.txt").write_text("")
    with pytest.raises(BadInput, match=r"train\.txt:1: empty line"):
        sst.read_sst(tmp_path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    for split in sst.SPLITS:
        (tmp_path / f"{split}.txt").write_bytes(b"(2 caf\xe9)\n")
    with pytest.raises(BadInput, match=r"train\.txt:1: not text in UTF-8 \(byte 0xe9\)"):
        sst.read_sst(tmp_path)


def test_the_trees_folder_and_the_archive_are_read_in_place(tmp_path):
    (tmp_path / "folder" / "trees").mkdir(parents=True)
    for split in sst.SPLITS:
        (tmp_path / "folder" / "trees" / f"{split}.txt").write_text(TREE + "\n")
    (tmp_path / "zipped").mkdir()
    archive = tmp_path / "zipped" / "trainDevTestTrees_PTB.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for split in sst.SPLITS:
            file.writestr(f"trees/{split}.txt", TREE + "\n")
    expected = {split: [sst.parse_tree(TREE)] for split in sst.SPLITS}
    assert sst.read_sst(tmp_path / "folder") == expected
    assert sst.read_sst(tmp_path / "zipped") == expected
    assert sst.read_sst(archive) == expected


def test_missing_trees_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"RATIONALE_DATA .*python -m rationale\.data fetch sst"):
        sst.read_sst()


def test_a_broken_archive_is_refused(tmp_path):
    (tmp_path / "trainDevTestTrees_PTB.zip").write_bytes(b"PK, but not really")
    with pytest.raises(BadInput, match="PTB.zip: cut short, damaged or of another format"):
        sst.read_sst(tmp_path)


def test_dev_trees_at_the_end_of_train_are_refused(tmp_path):
    dev = [f"(1 (2 dev) (2 {number}))" for number in range(1101)]
    (tmp_path / "train.txt").write_text("\n".join([TREE] * 8544 + dev))
    (tmp_path / "dev.txt").write_text("\n".join(dev))
    (tmp_path / "test.txt").write_text(TREE)
    with pytest.raises(BadInput, match=r"train\.txt:8545: .* those of dev\.txt .* official 8544 lines"):
        sst.read_sst(tmp_path)


def test_differences_name_split_and_counts():
    splits = {split: [sst.parse_tree(TREE)] for split in sst.SPLITS}
    lines = sst.differences(splits)
    assert len(lines) == 6
    assert lines[2].startswith("dev: sentences by label (0, 0, 0, 1, 0); the official file has (139, 289,")


# --- the real treebank


@pytest.fixture(scope="module")
def treebank():
    return sst.read_sst()


@pytest.mark.data
def test_the_treebank_has_its_published_counts(treebank):
    assert {split: len(examples) for split, examples in treebank.items()} == {
        "train": 8544,
        "dev": 1101,
        "test": 2210,
    }
    assert sst.differences(treebank) == []
    tokens = {split: sum(len(e.tokens) for e in examples) for split, examples in treebank.items()}
    assert tokens == {"train": 163_563, "dev": 21_274, "test": 42_405}
    assert max(len(e.tokens) for e in treebank["train"]) == 52
    assert max(len(e.tokens) for e in treebank["dev"]) == 49


@pytest.mark.data
def test_dev_words_by_label_are_the_bars_of_figure_5(treebank):
    labels = [label for example in treebank["dev"] for label in example.word_labels]
    assert [labels.count(label) for label in range(5)] == [146, 992, 18231, 1511, 394]


@pytest.mark.data
def test_every_phrase_of_the_treebank_lies_inside_its_sentence(treebank):
    for example in treebank["dev"]:
        assert example.phrases[0] == (0, len(example.tokens), example.label)
        words = {start: label for start, end, label in example.phrases if end == start + 1}
        assert tuple(words[position] for position in range(len(example.tokens))) == example.word_labels
        assert all(0 <= start < end <= len(example.tokens) for start, end, _ in example.phrases)
        assert len(example.phrases) >= 2 * len(example.tokens) - 1, "a binary tree has 2n - 1 nodes"


# --- word vectors

SMALL = 'the 0.1 0.2 -0.3\nFilm 1 2 3\nfilm 4 5 6\n( 7 8 9\n" 1e-1 1.5 -2\n1/2 3 2 1\n'
PACK = {
    ".txt": lambda path, text: path.write_bytes(text.encode()),
    ".txt.gz": lambda path, text: path.write_bytes(gzip.compress(text.encode())),
    ".txt.xz": lambda path, text: path.write_bytes(lzma.compress(text.encode())),
}


def write_zip(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("small.txt", text)


PACK[".txt.zip"] = write_zip


@pytest.fixture
def vectors_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    (tmp_path / "vectors").mkdir()
    return tmp_path / "vectors"


def read(folder: Path, text: str, *words: str) -> dict[str, list[float]]:
    (folder / "small.txt").write_text(text)
    found, table = read_vectors("small", words)
    assert table.dtype == torch.float32
    return {word: [round(x, 4) for x in row] for word, row in zip(found, table.tolist(), strict=True)}


@pytest.mark.parametrize("ending", PACK)
def test_vectors_are_read_by_name_and_by_path_in_every_packing(vectors_folder, ending):
    PACK[ending](vectors_folder / f"small{ending}", SMALL)
    assert available() == ["small"]
    for name in ["small", vectors_folder / f"small{ending}"]:
        found, table = read_vectors(name, ["film", "the", "missing", "film"])
        assert found == ["film", "the"]
        torch.testing.assert_close(table, torch.tensor([[4, 5, 6], [0.1, 0.2, -0.3]]))


def test_a_name_is_found_inside_an_archive_of_several(vectors_folder):
    with zipfile.ZipFile(vectors_folder / "official.zip", "w") as file:
        file.writestr("official.2d.txt", "a 1 2\n")
        file.writestr("official.3d.txt", "a 1 2 3\n")
    assert available() == ["official.2d", "official.3d"]
    assert read_vectors("official.3d", ["a"])[1].tolist() == [[1, 2, 3]]
    with pytest.raises(BadInput, match=r"official\.2d\.txt, official\.3d\.txt; accepted: exactly one"):
        read_vectors(vectors_folder / "official.zip", ["a"])


def test_the_exact_case_comes_before_the_lower_case(vectors_folder):
    rows = read(vectors_folder, SMALL, "Film", "FILM", "film", "The", "tHIS")
    assert rows == {"Film": [1, 2, 3], "FILM": [4, 5, 6], "film": [4, 5, 6], "The": [0.1, 0.2, -0.3]}


def test_brackets_quotes_and_escapes_are_found_under_either_spelling(vectors_folder):
    quote = [0.1, 1.5, -2]
    rows = read(vectors_folder, SMALL, "-LRB-", "-lrb-", "``", "''", "1\\/2", "-RRB-")
    assert rows == {"-LRB-": [7, 8, 9], "-lrb-": [7, 8, 9], "``": quote, "''": quote, "1\\/2": [3, 2, 1]}
    names = "-lrb- 1 2 3\n`` 4 5 6\n-RSB- 7 8 9\n"
    assert read(vectors_folder, names, "(", "``", '"', "]") == {
        "(": [1, 2, 3],
        "``": [4, 5, 6],
        '"': [4, 5, 6],
        "]": [7, 8, 9],
    }


def test_the_first_of_two_rows_counts(vectors_folder):
    assert read(vectors_folder, "a 1 2\na 3 4\n", "a") == {"a": [1, 2]}


def test_a_header_line_trailing_spaces_and_empty_lines_are_tolerated(vectors_folder):
    assert read(vectors_folder, "2 3\na 1 2 3 \nb 4 5 6 \r\n\n", "a", "b") == {"a": [1, 2, 3], "b": [4, 5, 6]}


def test_numbers_as_words_are_no_header(vectors_folder):
    assert read(vectors_folder, "1 0.5 2\n7 1 3\n", "1", "7") == {"1": [0.5, 2], "7": [1, 3]}


def test_words_with_spaces_are_parsed_from_the_right(vectors_folder):
    text = ", 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\n\u00a0 1 1 1\n2\u00a01/2 2 2 2\n\u0085 3 3 3\n"
    rows = read(vectors_folder, text, ". . .", ".", "at", "2\u00a01/2", "\u0085", ",")
    assert rows == {". . .": [4, 5, 6], "2\u00a01/2": [2, 2, 2], "\u0085": [3, 3, 3], ",": [1, 2, 3]}


def test_a_word_with_spaces_may_come_first(vectors_folder):
    assert read(vectors_folder, ". . 4 5\na 1 2\n", ". .", "a") == {". .": [4, 5], "a": [1, 2]}


@pytest.mark.parametrize(
    "text, what",
    [
        ("b 1 2 3\na 1 x 3\n", r":2: 'x' is not a number"),
        ("a 1 2 3\nb 1 2\nc 1 2 3\n", r":2: 3 fields, beginning 'b 1 2'; accepted: 4, a word and 3 numbers"),
        ("b 1 2 3\na 1  2\n", r":2: 3 fields, beginning 'a 1  2'; accepted: 4"),
        ("b 1 2 3\n 1 2 3\n", r":2: 3 fields"),
        ("b 1 2 3\na \r 2 3\n", r":2: 3 fields, beginning 'a .* 2 3'; accepted: 4"),
        ("a 1 2 3\nb 1 2 3 4\nc 1 2 3\n", r":2: 5 fields, beginning 'b 1 2 3 4'; accepted: 4"),
        ("2 3\na 1 2\n", r":2: 3 fields, beginning 'a 1 2'; accepted: 4"),
        ("a 1 2 3\nb\n", r":2: 1 fields, beginning 'b'; accepted: 4"),
        ("b 1 2 3\na 1 nan 3\n", r":2: 'nan' is not a number"),
        ("b 1 2 3\na 1 1e99 3\n", r":2: '1e99' is not a number"),
        ("words without numbers\n", r":1: 'words without numbers' is not a row of a vector file"),
        ("\n", r": empty; accepted: a word and its numbers"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(vectors_folder, text, what):
    with pytest.raises(BadInput, match=r"small\.txt" + what) as error:
        read(vectors_folder, text, "a")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ending", [".txt.gz", ".txt.xz", ".txt.zip"])
@pytest.mark.parametrize("keep", [0.5, 0.02])
def test_a_truncated_file_is_refused(vectors_folder, ending, keep):
    text = "".join(f"word{n} {n * 7919 % 1000 / 1000} {n * 104729 % 1000 / 1000}\n" for n in range(5000))
    path = vectors_folder / f"small{ending}"
    PACK[ending](path, text)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    with pytest.raises(BadInput, match=re.escape(path.name) + ": cut short, damaged"):
        read_vectors(path, ["word1"])


# --- binary vectors, and fastText's

ROWS = {"the": [0.5, -1, 2], "caf\u00e9": [3, 4, 5], "New": [6, 7, 8]}


def in_binary(rows: dict[str, list[float]] = ROWS, header: str = "", end: bytes = b"") -> bytes:
    """What Gensim writes; with a line feed as `end`, what word2vec writes."""
    lines = [word.encode() + b" " + np.array(row, "<f4").tobytes() + end for word, row in rows.items()]
    return (header or f"{len(rows)} 3\n").encode() + b"".join(lines)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize(("ending", "pack"), [(".bin", bytes), (".bin.gz", gzip.compress), (".bin.xz", lzma.compress)])
def test_binary_vectors_are_read_by_name_and_by_path_in_every_packing(vectors_folder, end, ending, pack):
    path = vectors_folder / f"news{ending}"
    path.write_bytes(pack(in_binary(end=end)))
    assert available() == ["news"]
    for name in ("news", path):
        require_vectors(name)
        found, table = read_vectors(name, ["caf\u00e9", "The", "new", "New"])
        assert found == ["caf\u00e9", "The", "New"] and table.dtype == torch.float32
        assert table.tolist() == [ROWS["caf\u00e9"], ROWS["the"], ROWS["New"]]


def test_many_binary_rows_are_read_in_chunks(vectors_folder, monkeypatch):
    rows = {f"word{i}": [i, -i, i / 3] for i in range(300)}
    (vectors_folder / "v.bin").write_bytes(in_binary(rows))
    for chunk in (1, 7, 100, 1 << 20):
        monkeypatch.setattr(word2vec_binary, "CHUNK", chunk)
        found, table = read_vectors("v", rows)
        assert found == list(rows) and torch.equal(table, torch.tensor(list(rows.values())))


@pytest.mark.parametrize("ending", [".vec", ".vec.gz", ".zip"])
def test_vectors_of_fast_text_are_text_with_a_header(vectors_folder, ending):
    text = "3 3\nthe 0.5 -1 2\nnew york 3 4 5\ncaf\u00e9 1 1 1\n"
    if ending == ".zip":
        with zipfile.ZipFile(vectors_folder / "wiki.zip", "w") as file:
            file.writestr("wiki.vec", text)
    else:
        PACK[ending.replace("vec", "txt")](vectors_folder / f"wiki{ending}", text)
    assert available() == ["wiki"]
    found, table = read_vectors("wiki", ["new york", "the"])
    assert found == ["new york", "the"] and table.tolist() == [[3, 4, 5], [0.5, -1, 2]]


def test_a_table_of_text_comes_before_a_model_of_the_same_name(vectors_folder):
    (vectors_folder / "cc.en.bin").write_bytes(word2vec_binary.FASTTEXT + bytes(90))
    (vectors_folder / "cc.en.vec").write_text("1 2\nthe 1 2\n")
    assert read_vectors("cc.en", ["the"])[1].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (in_binary()[:-1], r": ends in row 3 of 3; it is cut short, or its first line does not give the right numbers"),
        (in_binary(header="4 3\n"), r": ends in row 4 of 4; it is cut short"),
        (in_binary(header="2 3\n"), r": more than 2 rows; accepted: as many as its first line says"),
        (in_binary() + bytes(9), r": more than 3 rows; accepted: as many as its first line says"),
        (in_binary(header="3 300\n"), r": ends in row 1 of 3; it is cut short"),
        (
            in_binary().replace(b"caf\xc3\xa9", b"caf\xc3"),
            r": row 2 of 3: the word b'caf\\xc3' is not UTF-8; if the file",
        ),
        (in_binary({"": [1, 2, 3]}), r": row 1 of 1: no word in front of the numbers"),
        (in_binary({"a": [1, float("nan"), 3]}), r": row 1 of 1: a number of 'a' is not finite"),
        (b"2 3\n" + b"x" * 70_000 + b" " + bytes(90), r": row 1 of 2: no space behind the word"),
        (b"", r": its first line is b''; accepted: word2vec's binary format: "),
        (b"0 3\n", r": its first line is b'0 3\\n'; accepted: word2vec's"),
        (b"3 99999999\n", r": its first line is b'3 99999999\\n'; accepted"),
        (b"the 0.5 -1 2\n", r": its first line is b'the 0.5 .*; a file of text is named .txt or .vec"),
        (word2vec_binary.FASTTEXT + bytes(90), r": a whole model of fastText, .*; give the .vec file"),
        (pickle.dumps({"a": 1}), r": what Gensim or another program has pickled, .* save_word2vec_format"),
    ],
)
def test_bad_binary_vectors_are_refused_in_one_line(vectors_folder, content, what):
    (vectors_folder / "v.bin").write_bytes(content)
    for name in ("v", vectors_folder / "v.bin"):
        with pytest.raises(BadInput, match=r"v\.bin" + what) as error:
            read_vectors(name, ["a", "the"])
        assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_whole_model_is_refused_before_anything_is_read_whatever_its_name(vectors_folder):
    for name in ("model.bin", "model.vec", "model.txt"):
        (vectors_folder / name).write_bytes(word2vec_binary.FASTTEXT + bytes(90))
        with pytest.raises(BadInput, match="a whole model of fastText"):
            require_vectors(vectors_folder / name)


def test_a_binary_row_that_nobody_wants_may_hold_a_number_that_is_not_finite(vectors_folder):
    (vectors_folder / "v.bin").write_bytes(in_binary({"a": [1, 2, 3], "b": [float("inf"), 0, 0]}))
    assert read_vectors("v", ["a"])[1].tolist() == [[1, 2, 3]]


def test_a_wrong_name_lists_the_right_ones(vectors_folder):
    (vectors_folder / "small.txt").write_text(SMALL)
    PACK[".txt.gz"](vectors_folder / "other.txt.gz", SMALL)
    with pytest.raises(BadInput, match=r"'glove\.7B' not found; accepted: random, .*\(other, small\)"):
        read_vectors("glove.7B", ["a"])


def test_no_vectors_folder_lists_none(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match=r"not found.*\(none yet\)"):
        read_vectors("small", ["a"])


# --- the vocabulary of a task


SPLITS = {
    "train": [Example(("The", "film", "works"), 1)],
    "dev": [Example(("The", "zzz"), 0), Example(("-LRB-", "film"), 0)],
}


def test_the_table_has_unk_pad_and_the_words_of_all_splits(vectors_folder):
    (vectors_folder / "small.txt").write_text(SMALL)
    vocabulary, table = build_vocabulary(SPLITS, "small", scale=0.5)
    assert vocabulary.words == ["<unk>", "<pad>", "-LRB-", "The", "film"]
    assert table.shape == (5, 3)
    assert table[vocabulary.unk].abs().max() <= 0.05 and table[vocabulary.unk].abs().min() > 0
    assert (table[vocabulary.pad] == 0).all()
    torch.testing.assert_close(table[2:], 0.5 * torch.tensor([[7, 8, 9], [0.1, 0.2, -0.3], [4, 5, 6]]))


def test_the_table_depends_on_the_seed_only_in_the_unknown_word(vectors_folder):
    (vectors_folder / "small.txt").write_text(SMALL)
    first, again, other = (build_vocabulary(SPLITS, "small", seed=seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert torch.equal(first[1:], other[1:]) and not torch.equal(first[0], other[0])


def test_random_vectors_cover_every_word_and_need_no_files(monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path / "nowhere"))
    vocabulary, table = build_vocabulary(SPLITS, "random", dim=2000, seed=3)
    assert vocabulary.words == ["<unk>", "<pad>", "-LRB-", "The", "film", "works", "zzz"]
    assert (table[vocabulary.pad] == 0).all()
    assert table[2:].std().item() == pytest.approx(0.4, rel=0.05)  # 10,000 draws: 7 standard errors
    backwards = {"dev": SPLITS["dev"][::-1], "train": SPLITS["train"]}
    assert torch.equal(table, build_vocabulary(backwards, "random", dim=2000, seed=3)[1])


def test_random_vectors_that_are_trained_are_those_of_words_that_training_repeats():
    few = [Example(("good", "film"), 1), Example(("bad", "film"), 0)]
    splits = {"train": few, "dev": [Example(("good", "new"), 1)]}
    vocabulary, _ = build_vocabulary(splits, "random", dim=2, trained=True)
    assert vocabulary.words[2:] == ["bad", "film", "good"], "a word of dev alone has no vector that could be trained"
    many = {"train": few * 1000 + [Example(("once",), 1)], "dev": splits["dev"]}
    for read in (many, unpack(pack(many), many)):
        vocabulary, table = build_vocabulary(read, "random", dim=2, trained=True)
        assert vocabulary.words[2:] == ["bad", "film", "good"] and table.shape == (5, 2)


@pytest.mark.parametrize("vectors, trained", [("small", False), ("random", False), ("random", True)])
def test_a_text_with_the_name_of_a_special_row_leaves_each_word_its_vector(vectors_folder, vectors, trained):
    (vectors_folder / "small.txt").write_text(SMALL + "<unk> 1 1 1\n<pad> 2 2 2\n")
    odd = {"train": [*SPLITS["train"], Example(("<pad>", "film", "<unk>"), 0)], "dev": SPLITS["dev"]}
    vocabulary, table = build_vocabulary(odd, vectors, dim=3, trained=trained)
    usual, same = build_vocabulary(SPLITS, vectors, dim=3, trained=trained)
    assert vocabulary.words == usual.words and torch.equal(table, same)
    assert vocabulary.encode(odd["train"][-1].tokens) == [vocabulary.unk, *usual.encode(["film"]), vocabulary.unk]


@pytest.mark.parametrize("vectors", ["small", "random"])
def test_a_pair_with_the_name_of_a_special_row_leaves_each_word_its_vector(vectors_folder, vectors):
    (vectors_folder / "small.txt").write_text(SMALL)
    pairs = [Example(("The", "zzz"), 0, second=("film",)), Example(("film",), 1, second=("zzz", "works"))]
    vocabulary, table = build_pair_vocabulary({"train": pairs}, vectors, 3)
    odd, same = build_pair_vocabulary({"train": [*pairs, Example(("<unk>",), 0, second=("<pad>",))]}, vectors, 3)
    assert odd.words == vocabulary.words and len(odd) == len(same) and torch.equal(table, same)


def test_vectors_without_a_word_of_the_data_are_refused(vectors_folder):
    (vectors_folder / "small.txt").write_text("und 1 2\n")
    with pytest.raises(BadInput, match="'small' holds none of the 5 words"):
        build_vocabulary(SPLITS, "small")


@pytest.mark.deep
@pytest.mark.data
def test_the_vectors_cover_the_treebank(treebank):
    tokens = [token.lower() for examples in treebank.values() for e in examples for token in e.tokens]
    types = set(tokens)
    found, table = read_vectors("imdb.w2v.300d", types)
    vocabulary = Vocabulary(found)
    assert table.shape[1] == 300
    assert 1 - len(vocabulary.unknown(tokens)) / len(tokens) == pytest.approx(0.986, abs=5e-4)
    assert len(found) / len(types) == pytest.approx(0.874, abs=5e-4)


@pytest.mark.parametrize("name", ["x" * 300, "/tmp/" + "x" * 300 + ".txt", "~no-such-user/glove.txt", "a\0b"])
def test_vectors_that_cannot_be_looked_for_are_refused_in_one_line(name):
    with pytest.raises(BadInput, match="^vectors: .* not found; accepted: random, a file, or a name in "):
        require_vectors(name)
