"""The cache of parsed data files: the same results with it and without it, whatever happens to it or to the files."""

import multiprocessing
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from rationale import digests
from rationale.data import __main__ as command_line
from rationale.data import batches, cache, corpora, pairs, parsed, vectors
from rationale.data.corpora.sst import cached_sst
from rationale.data.corpora.sst import read_sst as files_of_sst
from rationale.data.corpus import Corpus, Request
from rationale.data.example import Example
from rationale.data.packed import Packed, pack, seconds, unpack, words_of
from rationale.errors import BadInput
from tests.damage import FORMATS, HEADLINES, SST, VECTORS

WORDS = ["the", "film", "The", "-LRB-", "caf\u00e9", "zzz", "a", "b"]
ROWS = "the 0.1 -2e-3 3\nfilm 1 2 3.3333333333333335\ncaf\u00e9 4 5 6\nnew york 7 8 9\n( 1 1 1\nthe 9 9 9\n"


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A data folder and a cache of the test's own."""
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("RATIONALE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "on_reading", [])
    (tmp_path / "data" / "vectors").mkdir(parents=True)
    new_process(monkeypatch)
    return tmp_path


def new_process(monkeypatch):
    """Forget which files were read, as a new process does."""
    for name in ("_digests", "_stamps"):
        monkeypatch.setattr(digests, name, {})


def entries(home: Path) -> list[Path]:
    return sorted((home / "cache").iterdir()) if (home / "cache").is_dir() else []


def corpus_files(home: Path, name: str, files: dict[str, bytes]) -> Path:
    for file, content in files.items():
        path = home / "data" / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return home / "data" / name


def read_sst() -> dict:
    return parsed.read(corpora.find_corpus("sst"), "extraction", Request())


def same(one: tuple, other: tuple) -> bool:
    return one[0] == other[0] and torch.equal(one[1], other[1])


# --- vectors


@pytest.mark.parametrize(
    "name", ["vectors", "vectors, xz", "vectors, zip", "word2vec, binary", "Gensim, binary, gzip", "rows"]
)
def test_vectors_are_the_same_from_the_file_and_from_the_cache(home, monkeypatch, name):
    if name == "rows":
        path = home / "v.txt"
        path.write_text(ROWS, encoding="utf-8")
    else:
        path = FORMATS[name].write(home, FORMATS[name].files[FORMATS[name].damaged]) / FORMATS[name].damaged
    wanted = [*WORDS, *VECTORS.decode().split(), "new york"]
    found = [vectors.read_vectors(path, wanted)]
    read, made = digests.files_read(), entries(home)
    assert len(made) == 1
    monkeypatch.setattr(vectors, "_read_rows", None)  # from here on nothing may parse the file
    monkeypatch.setattr(vectors, "read_binary", None)
    for _ in range(2):
        new_process(monkeypatch)
        found.append(vectors.read_vectors(path, wanted))
        assert digests.files_read() == read, "the file counts as read all the same"
    assert vectors.read_vectors(path, ["zzz"])[1].shape == (0, found[0][1].shape[1]), "none of the words"
    monkeypatch.undo()
    monkeypatch.setenv("RATIONALE_CACHE", "off")
    found.append(vectors.read_vectors(path, wanted))
    assert found[0][0] and all(same(found[0], other) for other in found)
    assert entries(home) == made


def test_a_changed_file_is_read_anew_even_if_size_and_time_stay_the_same(home, monkeypatch):
    path = home / "v.txt"
    path.write_text("the 1 2\n")
    os.utime(path, (1e9, 1e9))
    assert vectors.read_vectors(path, ["the"])[1].tolist() == [[1, 2]]
    (before,) = digests.files_read().values()
    path.write_text("the 3 4\n")
    os.utime(path, (1e9, 1e9))
    new_process(monkeypatch)
    assert vectors.read_vectors(path, ["the"])[1].tolist() == [[3, 4]]
    (after,) = digests.files_read().values()
    assert before != after and len(entries(home)) == 2


def test_a_file_that_replaces_another_is_noticed_within_a_process(home):
    """Size and time are the same, so the inode has to tell; only a file changed in place within a tick is missed."""
    for number, name in ((1, "v.txt"), (2, "other.txt")):
        (home / name).write_text(f"the {number} 2\n")
        os.utime(home / name, (1e9, 1e9))
    assert vectors.read_vectors(home / "v.txt", ["the"])[1].tolist() == [[1, 2]]
    (home / "other.txt").replace(home / "v.txt")
    assert vectors.read_vectors(home / "v.txt", ["the"])[1].tolist() == [[2, 2]]


@pytest.mark.parametrize("wrong", ["1_0", "nan", "1e39", "x", "--1", "0x1", "1,5"])
def test_a_row_that_nobody_wants_may_be_no_numbers_and_is_not_kept(home, wrong):
    path = home / "v.txt"
    path.write_text(f"the 1 2\nfilm {wrong} 2\n")
    for _ in range(2):
        assert vectors.read_vectors(path, ["the"])[1].tolist() == [[1, 2]]
        with pytest.raises(BadInput, match=r"v\.txt:2: .* is not a number"):
            vectors.read_vectors(path, ["film"])
    assert entries(home) == []


def test_many_rows_in_several_blocks_have_the_numbers_that_python_reads(home, monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(9000, 7)) * 10.0 ** rng.integers(-30, 30, (9000, 1))
    names = [f"w{i}" for i in range(9000)]
    rows = (" ".join([name, *map(repr, row.tolist())]) for name, row in zip(names, table, strict=True))
    (home / "v.txt").write_text("\n".join(rows) + "\n")
    plain = vectors.read_vectors(home / "v.txt", names)
    monkeypatch.setattr(vectors, "_read_rows", None)
    assert same(plain, vectors.read_vectors(home / "v.txt", names))
    assert torch.equal(plain[1], torch.from_numpy(table.astype(np.float32)))


def test_a_file_that_changes_while_it_is_read_is_not_kept(home, monkeypatch):
    path, read_rows = home / "v.txt", vectors._read_rows
    path.write_text("the 1 2\n")

    def changed_meanwhile(*arguments):
        path.write_text("the 3 4\n")
        return read_rows(*arguments)

    monkeypatch.setattr(vectors, "_read_rows", changed_meanwhile)
    vectors.read_vectors(path, ["the"])
    assert entries(home) == []


# --- damage


def damages(content: bytes):
    yield "empty", b""
    yield "cut", content[: len(content) // 2]
    yield "longer", content + b"\0"
    for place in {len(content) // 3, len(content) - 1} if content else ():
        yield f"bit at {place}", content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_a_damaged_entry_is_made_again_in_silence(home, capsys):
    path = home / "v.txt"
    path.write_text(ROWS, encoding="utf-8")
    corpus_files(home, "sst", SST)
    whole, trees = vectors.read_vectors(path, WORDS), list(read_sst()["train"])
    for entry in entries(home):
        kept = {file: file.read_bytes() for file in entry.iterdir()}
        for file, content in kept.items():
            for what, damaged in damages(content):
                if damaged == content:
                    continue
                file.write_bytes(damaged)
                if entry.name.startswith("vectors"):
                    assert same(whole, vectors.read_vectors(path, WORDS)), f"{file.name}, {what}"
                else:
                    assert list(read_sst()["train"]) == trees, f"{file.name}, {what}"
                if what == f"bit at {len(content) - 1}" and file.name == "numbers.bin":
                    file.write_bytes(content)  # in the second row for a word, which nobody can ask for
                for other, right in kept.items():
                    assert other.read_bytes() == right, f"{other.name} was not made again after {file.name}, {what}"
            file.unlink()
            assert same(whole, vectors.read_vectors(path, WORDS)) and list(read_sst()["train"]) == trees
            assert file.read_bytes() == content
    assert len(entries(home)) == 2 and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("place", ["file", "/proc/none", "no permission"])
def test_a_cache_that_cannot_be_written_costs_only_time(home, monkeypatch, place):
    (home / "file").write_text("")
    monkeypatch.setenv("RATIONALE_CACHE", place if place.startswith("/") else str(home / "file" / "below"))
    if place == "no permission":
        monkeypatch.setenv("RATIONALE_CACHE", str(home / "cache"))
        monkeypatch.setattr(cache.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(PermissionError(13, "no")))
    (home / "v.txt").write_text(ROWS, encoding="utf-8")
    corpus_files(home, "sst", SST)
    for _ in range(2):
        assert vectors.read_vectors(home / "v.txt", ["film"])[0] == ["film"]
        assert len(read_sst()["train"]) == 4


def test_a_disk_that_becomes_full_costs_only_time(home, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (home / "v.txt").write_text(ROWS, encoding="utf-8")
    corpus_files(home, "sst", SST)
    for method in ("append", "finish"):
        monkeypatch.setattr(cache.Draft, method, full)
        assert vectors.read_vectors(home / "v.txt", ["film"])[0] == ["film"]
        assert len(read_sst()["train"]) == 4
        assert entries(home) == []


def read_both(home: Path) -> tuple[list, int]:
    words, table = vectors.read_vectors(home / "v.txt", [f"w{i}" for i in range(5000)])
    assert len(words) == 5000
    return table[:, 0].tolist(), len(list(read_sst()["train"]))


def test_processes_that_read_the_same_files_at_once_make_one_entry_each(home):
    (home / "v.txt").write_text("".join(f"w{i} {i} 2\n" for i in range(5000)))
    corpus_files(home, "sst", SST)
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as pool:
        for numbers, sentences in pool.map(read_both, [home] * 12):
            assert numbers == list(range(5000)) and sentences == 4
    assert [path.name.split("-")[0] for path in entries(home)] == ["sst", "vectors"], "and no drafts"


# --- the folder


def test_the_oldest_entries_make_room_and_drafts_of_killed_processes_go(home, monkeypatch):
    left = home / "cache" / f".{cache.name_of('vectors-all', 'left')}.abcdefgh"
    left.mkdir(parents=True)
    os.utime(left, (1, 1))
    own = home / "cache" / "mine"
    own.mkdir()
    for number in range(3):
        path = home / f"{number}.txt"
        path.write_text(f"the {number} 2\n")
        vectors.read_vectors(path, ["the"])
        if number == 0:
            monkeypatch.setattr(cache, "LIMIT", 2 * cache.stored()[0].size + 100)
        os.utime(home / "cache" / cache.stored()[-1].name, (1e9 + number, 1e9 + number))
    assert len(cache.stored()) == 2 and own.is_dir() and not left.exists()
    monkeypatch.setattr(vectors, "_read_rows", None)
    vectors.read_vectors(home / "2.txt", ["the"])
    vectors.read_vectors(home / "1.txt", ["the"])


def test_the_command_shows_the_cache_and_clears_nothing_else(home, monkeypatch, capsys):
    (home / "v.txt").write_text("the 1 2\n")
    vectors.read_vectors(home / "v.txt", ["the"])
    (home / "cache" / "notes.txt").write_text("mine")
    assert command_line.main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert "vectors-all-" in shown and str(home / "cache") in shown
    assert command_line.main(["cache", "--clear"]) == 0
    assert "1 entries deleted" in capsys.readouterr().out
    assert [path.name for path in entries(home)] == ["notes.txt"]
    monkeypatch.setenv("RATIONALE_CACHE", "off")
    assert command_line.main(["cache", "--clear"]) == 0 and "switched off" in capsys.readouterr().out


def test_the_cache_is_in_the_cache_folder_of_the_user_unless_it_is_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("RATIONALE_CACHE")
    assert cache.folder() == digests.cache_folder() / "parsed"
    monkeypatch.setenv("RATIONALE_CACHE", "~/mine")
    assert cache.folder() == Path.home() / "mine"
    for off in ("off", "OFF", "0", "no"):
        monkeypatch.setenv("RATIONALE_CACHE", off)
        assert cache.folder() is None


# --- corpora


def test_a_corpus_is_the_same_from_the_cache_and_its_files_count_as_read(home, monkeypatch):
    corpus_files(home, "sst", SST)
    corpus_files(home, "sumdata", HEADLINES)
    corpus_files(
        home, "aeslc", {"enron_subject_line.tar.xz": FORMATS["e-mails, tar.xz"].files["enron_subject_line.tar.xz"]}
    )
    for name, task in (("sst", "extraction"), ("gigaword", "generation"), ("aeslc", "generation")):
        corpus = corpora.find_corpus(name)
        new_process(monkeypatch)
        plain, read = corpus.read[task](Request()), digests.files_read()
        for _ in range(2):
            new_process(monkeypatch)
            found = parsed.read(corpus, task, Request())
            assert digests.files_read() == read
            if task == "generation":
                assert found.references == plain.references
            splits, expected = (found.splits, plain.splits) if task == "generation" else (found, plain)
            assert list(splits) == list(expected) and all(isinstance(part, Packed) for part in splits.values())
            assert {split: list(part) for split, part in splits.items()} == expected
    assert len(entries(home)) == 3


def test_a_corpus_is_read_anew_after_every_change_that_its_reader_could_see(home, monkeypatch):
    place, reads = corpus_files(home, "sst", SST), []
    corpus = corpora.find_corpus("sst")
    reader = corpus.read["extraction"]
    monkeypatch.setitem(corpus.read, "extraction", lambda request: (reads.append(1), reader(request))[1])

    def times_read(after: str) -> int:
        new_process(monkeypatch)
        before = len(reads)
        found = read_sst()
        assert {name: list(part) for name, part in found.items()} == reader(Request()), after
        return len(reads) - before

    assert times_read("nothing") == 1 and times_read("nothing") == 0
    stamp = (place / "dev.txt").stat()
    (place / "dev.txt").write_bytes(SST["dev.txt"].replace(b"lovely", b"lively"))
    os.utime(place / "dev.txt", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert times_read("another content, size and time as before") == 1
    (place / "dev.txt").write_bytes(SST["dev.txt"])
    assert times_read("the first content again") == 0
    (place / "notes.txt").write_text("mine")
    assert times_read("another file, which might be the one to read") == 1
    (place / "notes.txt").unlink()
    (home / "data").rename(home / "moved")
    monkeypatch.setenv("RATIONALE_DATA", str(home / "moved"))
    assert times_read("the data folder has moved") == 0
    monkeypatch.setattr(cache, "code", lambda of_corpus=True: "another version of the readers")
    assert times_read("another reader") == 1
    (home / "moved" / "sst" / "dev.txt").unlink()
    with pytest.raises(BadInput, match=r"no train\.txt, dev\.txt"):
        read_sst()


def test_sst_comes_from_the_cache_as_from_its_files(home):
    corpus_files(home, "sst", SST)
    for _ in range(2):
        assert cached_sst() == {name: list(part) for name, part in files_of_sst().items()}
    assert len(entries(home)) == 1


def test_an_edited_reader_of_a_corpus_leaves_word_vectors_in_the_cache(monkeypatch, tmp_path):
    room = shutil.copytree(Path(cache.__file__).parent, tmp_path / "data")
    monkeypatch.setattr(cache, "__file__", str(room / "cache.py"))
    monkeypatch.setattr(cache, "code", cache.code.__wrapped__)

    def names() -> tuple[str, str]:
        return cache.name_of("sst-extraction"), cache.name_of("vectors-all", of_corpus=False)

    first = names()
    (room / "corpora" / "sst.py").write_text("# edited")
    second = names()
    assert second[0] != first[0] and second[1] == first[1]
    (room / "vectors.py").write_text("# edited")
    assert names()[1] != second[1]


def test_only_the_parts_of_a_request_that_a_reader_uses_make_another_entry(home):
    corpus_files(home, "sst", SST)
    corpus_files(home, "hotels", {"Texts.tar.xz": FORMATS["hotels, tar.xz"].files["Texts.tar.xz"]})
    for seed in (1, 2):
        parsed.read(corpora.find_corpus("sst"), "extraction", Request(seed=seed, aspect=str(seed)))
    assert len(entries(home)) == 1
    hotels = corpora.find_corpus("hotels")
    for aspect in ("service", "rooms"):
        plain = hotels.read["extraction"](Request(aspect=aspect, seed=3))
        for _ in range(2):
            found = parsed.read(hotels, "extraction", Request(aspect=aspect, seed=3))
            assert {name: list(part) for name, part in found.items()} == plain
    assert len(entries(home)) == 3


def test_corpora_of_ones_own_and_unrecorded_files_are_not_kept(home, monkeypatch):
    toy = corpora.find_corpus("toy")
    assert isinstance(parsed.read(toy, "probing", Request({"train": 3, "dev": 1, "test": 1}))["train"], list)
    texts = {split: [Example(("a",), 0)] for split in ("train", "dev", "test")}
    own = Corpus("mine", "", {"extraction": lambda _: texts}, labels=("no", "yes"))
    assert isinstance(parsed.read(own, "extraction", Request())["train"], list)
    sst = corpora.find_corpus("sst")
    monkeypatch.setitem(sst.read, "extraction", own.read["extraction"])
    assert isinstance(parsed.read(sst, "extraction", Request())["train"], list), "no file was recorded"
    assert entries(home) == []


# --- packed examples

EXAMPLES = [
    Example(("a", "b", "a"), 1, (True, False, True), (0, 4, 2), ((0, 3, 1), (0, 1, 2)), ("x", "</s>")),
    Example(("caf\u00e9",), 0, None, None, None, None),
    Example(("\udcff", "b"), 2, (False, False), (1, 1), (), ()),
    Example(("a",) * 3000, 4, None, (3,) * 3000, None, ("y",)),
    Example(("a", "c"), 3, (True, True), informative=(False, True)),
]


def test_packed_examples_are_the_examples_in_every_way_to_ask_for_them():
    splits = {
        "train": EXAMPLES[:3] * 700 + EXAMPLES,
        "dev": EXAMPLES[1:2],
        "test": [Example(("a",), (0.1, 1.0)), Example(("b",), (0.0, 0.5))],
    }
    found = unpack(pack(splits), splits)
    for name, examples in splits.items():
        packed = found[name]
        assert len(packed) == len(examples) and list(packed) == examples and packed == examples
        assert [packed[0], packed[-1]] == [examples[0], examples[-1]]
        for cut in (
            slice(1, None),
            slice(0, 0),
            slice(None, -1),
            slice(5, 2),
            slice(2, 1100, 3),
            slice(None, None, -1),
        ):
            assert list(packed[cut]) == examples[cut], cut
            assert list(packed[cut][:2]) == examples[cut][:2]
        with pytest.raises(IndexError):
            packed[len(packed)]
        assert words_of([packed[1:]]) == words_of([examples[1:]])
        assert packed != examples[:-1] and (packed == 3) is False
    one = found["train"][0]
    kinds = [
        type(v) for v in (one.label, one.rationale[0], one.word_labels[0], one.phrases[0], found["test"][0].label[0])
    ]
    assert kinds == [int, bool, int, tuple, float] and one.tokens[0] is one.tokens[2]


@pytest.mark.parametrize("label", [True, 1.5, (1, 0), ("a",), (0.1,), (float("nan"), 0.1)])
def test_labels_that_arrays_would_change_are_not_packed(label):
    assert pack({"train": [Example(("a",), (0.5, 0.5)), Example(("a",), label)]}) is None


def test_batches_of_packed_examples_are_the_same():
    examples = [
        Example(tuple("abcdefg"[i % 3 : i % 3 + 1 + i % 4]), i % 5, second=("b", "z")[: 1 + i % 2]) for i in range(40)
    ]
    packed = unpack(pack({"train": examples}), ["train"])["train"]
    known = batches.Vocabulary("abcz")
    for part, same_part in ((packed, examples), (packed[3:30], examples[3:30])):
        for ours, plain in zip(
            batches.Batches(part, known, 4, seed=2).epoch(1),
            batches.Batches(same_part, known, 4, seed=2).epoch(1),
            strict=True,
        ):
            assert all(torch.equal(own, other) for own, other in zip(ours[:4], plain[:4], strict=True))
        twice = (batches.PairBatches(one, known, 4, seed=2).epoch(3) for one in (part, same_part))
        for ours, plain in zip(*twice, strict=True):
            assert all(torch.equal(own, other) for own, other in zip(ours.tokens, plain.tokens, strict=True))
            assert torch.equal(ours.target, plain.target)
        assert list(seconds(part)) == seconds(same_part)
        vocabularies = [pairs.build_pair_vocabulary({"train": one}, "random", 3) for one in (part, same_part)]
        assert vocabularies[0][0].words == vocabularies[1][0].words and torch.equal(
            vocabularies[0][1], vocabularies[1][1]
        )
    with pytest.raises(BadInput, match=r"example 1 \(counted from 0\): no tokens"):
        batches.Batches(unpack(pack({"a": [Example(("a",), 0), Example((), 0)]}), ["a"])["a"], known, 2)
