"""Prediction of new text from a saved run: the command, its mistakes, and how text becomes tokens."""

import gzip
import io
import json
import lzma
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small import classified, corpus, parameters, train

from rationale import training
from rationale.data.corpora.sst import read_sst
from rationale.data.corpora.synthetic import read_synthetic
from rationale.data.snli_format import LABELS
from rationale.data.tokenise import split_text, tokenise
from rationale.errors import BadInput
from rationale.runs.predict import _shown, main, predict, read_lines_of
from rationale.runs.reading import read_text
from rationale.runs.saved import SavedRun, load_run, save_run
from tests import test_aligner as aligners


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The folder of a run that predicts a score."""
    folder = tmp_path_factory.mktemp("scores")
    save_run(folder, train(folder, epochs=1), parameters(epochs=1))
    return str(folder)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """The folder of a run that predicts one of two named classes."""
    folder = tmp_path_factory.mktemp("classes")
    result = training.train_extractor(parameters(epochs=1), classified(corpus()), "classes", 2, folder)
    save_run(folder, result, parameters(epochs=1), labels=["low", "high"])
    return str(folder)


def told(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# --- what it says


def test_a_file_in_place_of_a_run_is_called_a_file(capsys):
    assert "README.md: a file, not the folder of a run; accepted is" in wrong(capsys, "README.md", "--text", "a")


@pytest.mark.parametrize(("selected", "noted"), [(0.1, True), (0.39, False), ("none", False)])
def test_a_run_that_selects_another_share_than_its_target_says_so_and_predicts(tmp_path, capsys, selected, noted):
    p = parameters(epochs=1, selection=0.4)
    save_run(tmp_path, train(tmp_path, epochs=1, selection=0.4), p)
    path = tmp_path / "metrics.json"
    scores = json.loads(path.read_text())
    scores["dev"]["rate_selected"] = selected
    path.write_text(json.dumps(scores))
    capsys.readouterr()  # what training has printed
    code, out, err = told(capsys, str(tmp_path), "--text", "the smell is superb .", "--jsonl")
    assert code == 0 and json.loads(out)["tokens"]
    assert err == "note: this run selects 10.0% of the words of dev, its target is 40.0%\n" * noted


def test_with_per_text_the_note_knows_that_short_texts_may_keep_more_than_the_target(tmp_path, capsys):
    p = parameters(epochs=1, selection=0.01, per_text=True)
    result = train(tmp_path, epochs=1, selection=0.01, per_text=True)
    save_run(tmp_path, result, p)
    path = tmp_path / "metrics.json"
    scores = json.loads(path.read_text())
    sizes = [len(example.tokens) for example in result.splits["dev"]]
    wanted = sum(1.0 if size > 1 else 0.5 for size in sizes) / sum(sizes)  # one word of each text
    assert scores["dev"]["rate_target"] == pytest.approx(wanted, rel=1e-9) and wanted > 0.015
    scores["dev"]["rate_selected"] = wanted
    path.write_text(json.dumps(scores))
    capsys.readouterr()
    assert told(capsys, str(tmp_path), "--text", "the smell is superb .")[2] == ""


def test_a_text_gives_its_label_its_rate_and_its_rationale(labelled, capsys):
    code, out, err = told(capsys, labelled, "--text", "the smell is superb .")
    answer, shown = out.strip().split("\n")
    assert code == 0 and err == "note: this run selects 100.0% of the words of dev, its target is 40.0%\n"
    assert answer.split()[0] in ("low", "high") and "% of the words selected" in answer
    assert shown.replace("[", "").replace("]", "") == "the smell is superb ."


def test_several_texts_come_in_order(scored, capsys):
    code, out, _ = told(capsys, scored, "--text", "the smell", "--text", "a look", "--jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [row["tokens"] for row in rows] == [["the", "smell"], ["a", "look"]]


def test_json_lines_agree_with_the_model(labelled, capsys):
    text = "the smell was superb , and the look zzz"
    code, out, _ = told(capsys, labelled, "--text", text, "--jsonl")
    (row,) = map(json.loads, out.splitlines())
    run = load_run(labelled)
    tokens = torch.tensor([run.vocabulary.encode(text.split())])
    with torch.no_grad():
        output = run.model(tokens, torch.ones_like(tokens, dtype=torch.bool))
    assert code == 0 and row["tokens"] == text.split() and row["unknown"] == ["zzz"]
    assert [z > 0 for z in row["z"]] == (output.z[0] > 0).tolist()
    expected = dict(zip(["low", "high"], output.prediction[0].softmax(0).tolist(), strict=True))
    assert row["probabilities"] == pytest.approx(expected, abs=1e-4), "by class"
    assert row["prediction"] == output.prediction[0].argmax().item()
    assert row["label"] == ["low", "high"][row["prediction"]]


def test_scores_are_given_as_numbers(scored, capsys):
    _, out, _ = told(capsys, scored, "--text", "the smell", "--jsonl")
    (score,) = json.loads(out)["prediction"]
    assert 0 <= score <= 1
    _, out, _ = told(capsys, scored, "--text", "the smell")
    assert out.startswith(f"look {score:.2f}"), "a score says what it is about"


@pytest.mark.parametrize(("corpus", "last"), [("beer", "overall"), ("hotels", "service")])
def test_of_all_aspects_each_score_has_its_name(corpus, last):
    row = {"tokens": ["fine"], "z": [1.0], "prediction": [0.1, 0.2, 0.3, 0.4, 0.5], "unknown": []}
    p = SimpleNamespace(corpus=corpus, aspect="all")
    answer = _shown(row, SavedRun(SimpleNamespace(head=None), None, p, None, "extraction")).split("   ")[0]
    assert answer.split(", ")[-1] == f"{last} 0.50" and answer.count(",") == 4


def test_unknown_words_are_reported(scored, capsys):
    _, out, _ = told(capsys, scored, "--text", "the quetzal smell xylophone")
    assert out.strip().endswith("unknown to this run: quetzal xylophone")
    _, out, _ = told(capsys, scored, "--text", "the smell")
    assert "unknown" not in out


def test_a_file_has_one_text_a_line(scored, capsys, tmp_path):
    path = tmp_path / "reviews.txt"
    path.write_bytes("\ufeffthe smell is superb\r\nthe look isn't bad\n".encode())
    code, out, _ = told(capsys, scored, "--file", str(path), "--jsonl")
    rows = [json.loads(line)["tokens"] for line in out.splitlines()]
    assert code == 0
    assert rows == [["the", "smell", "is", "superb"], ["the", "look", "is", "n't", "bad"]]


def test_standard_input_is_read_from_a_dash(scored, capsys, monkeypatch):
    for content in (b"the smell\nthe look\n", b"\xef\xbb\xbfthe smell\r\nthe look"):
        for encoding in ("utf-8", "ascii"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding=encoding))
            code, out, _ = told(capsys, scored, "--file", "-", "--jsonl")
            rows = [json.loads(line)["tokens"] for line in out.splitlines()]
            assert code == 0 and rows == [["the", "smell"], ["the", "look"]], (content, encoding)


# --- hostile texts, and outputs that do not take what is printed

HOSTILE = {  # a text, and the word with which it is shown
    "an escape code": ("good \x1b]0;PWN\x07", r"\x1b ] 0 ; PWN \x07"),
    "a colour": ("good \x1b[31mred", r"\x1b [ 31mred"),
    "an escape code of one byte": ("good \x9b2J", r"\x9b 2J"),
    "the direction of writing": ("good \u202egnirts", r"\u202e gnirts"),
    "half of a character": ("good \udcff", r"\udcff"),
    "a bell": ("good \x07", r"\x07"),
    "a return": ("good\rbad", "good bad"),
    "a separator of lines": ("good\u2028bad", "good bad"),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_no_control_character_of_a_text_reaches_the_output(scored, monkeypatch, kind, encoding):
    text, shown = HOSTILE[kind]
    for options in ((), ("--jsonl",)):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        assert main([scored, "--text", text, "--text", "caf\u00e9", *options]) == 0
        out = raw.getvalue().decode(encoding)
        assert all(c.isprintable() or c == "\n" for c in out), f"{out!r}"
        if options:
            rows = [json.loads(line) for line in out.splitlines()]
            assert [row["tokens"] for row in rows] == [load_run(scored).tokens(one) for one in (text, "caf\u00e9")]
        else:
            assert shown in out.replace("[", "").replace("]", "") or shown in out, f"{shown!r} is not in {out!r}"


def test_a_closed_or_full_output_is_one_line(scored, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main([scored, "--text", "the smell"]) == 2
    assert capsys.readouterr().err.startswith("error: standard output is closed")
    if Path("/dev/full").exists():
        for options in ((), ("--jsonl",)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                monkeypatch.setattr(sys, "stdout", full)
                assert main([scored, "--text", "the smell", *options]) == 2
            assert capsys.readouterr().err == "error: No space left on device\n"


def test_a_closed_input_is_one_line(scored, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert "--file -: standard input is closed" in wrong(capsys, scored, "--file", "-")


BAD_FILES = {  # content, and what the message says
    "empty": (b"", "no text"),
    "one line feed": (b"\n", "no text"),
    "blank lines": (b"\n\n \n", "no text"),
    "spaces": (b" \t\n", "no text"),
    "latin-1": (b"good\ncaf\xe9\n", "2: not text in UTF-8"),
    "UTF-16": ("good\n".encode("utf-16"), "1: not text in UTF-8"),
    "UTF-16 without a mark": ("good\n".encode("utf-16-le"), "1: a NUL character"),
    "zeros": (bytes(100), "1: a NUL character"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0", "1: not text in UTF-8"),
    "a packed file that is cut short": (gzip.compress(b"the smell\n" * 99)[:-9], "cut short, damaged or of another"),
    "a file that is packed twice": (gzip.compress(gzip.compress(b"the smell\n")), "1: a packed file; unpack it"),
    "half of a surrogate": (b"good \xed\xa0\x80\n", "1: not text in UTF-8"),
    "only a mark": (b"\xef\xbb\xbf", "no text"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_cannot_be_predicted_from_is_refused(scored, capsys, tmp_path, kind):
    content, message = BAD_FILES[kind]
    (tmp_path / "texts.txt").write_bytes(content)
    assert message in wrong(capsys, scored, "--file", str(tmp_path / "texts.txt"))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_lines_of_a_packed_file_get_the_answers_of_the_lines(scored, capsys, tmp_path, pack):
    lines = b"\xef\xbb\xbfthe smell\n\nthe taste is good\r\n"
    (tmp_path / "lines.txt").write_bytes(lines)
    (tmp_path / "lines.txt.gz").write_bytes(pack(lines))
    assert main([scored, "--file", str(tmp_path / "lines.txt"), "--jsonl"]) == 0
    plain = capsys.readouterr().out
    assert plain.count("\n") == 3
    assert main([scored, "--file", str(tmp_path / "lines.txt.gz"), "--jsonl"]) == 0
    assert capsys.readouterr().out == plain


@pytest.mark.parametrize("option", ["--file", "--export"])
def test_an_empty_name_of_a_file_is_refused_as_one_that_was_not_set(scored, capsys, option):
    with pytest.raises(SystemExit) as ended:
        main([scored, option, ""])
    assert ended.value.code == 2
    assert f"argument {option}: an empty value is not accepted, give a file" in capsys.readouterr().err


def test_an_empty_title_is_refused(scored, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text("the smell\n")
    err = wrong(capsys, scored, "--file", str(tmp_path / "texts.txt"), "--html", "--title", " ")
    assert err == "error: --title: an empty title; accepted is a text\n"


@pytest.mark.parametrize("path", [".", "/", "/dev/full/x", "no\x1bwhere", "x" * 300])
def test_a_path_that_cannot_be_read_is_one_printable_line(scored, capsys, path):
    err = wrong(capsys, scored, "--file", path)
    assert err.rstrip("\n").isprintable() and len(err) < 500
    err = wrong(capsys, path, "--text", "good")
    assert err.rstrip("\n").isprintable() and len(err) < 700


def test_a_batch_predicts_what_each_text_alone_does(scored):
    run = load_run(scored)
    texts = [list(e.tokens) for e in read_synthetic(num_train=0, num_dev=0, num_test=7, seed=5)["test"]]
    together = list(predict(run, texts, batch_size=3))
    assert [row["tokens"] for row in together] == texts
    for row, text in zip(together, texts, strict=True):
        (alone,) = predict(run, [text])
        assert [z > 0 for z in row["z"]] == [z > 0 for z in alone["z"]]
        assert row["prediction"] == pytest.approx(alone["prediction"], abs=1e-6)


# --- many texts


def many(number: int) -> list[list[str]]:
    """Texts of different lengths, none next to one of its own length."""
    return [["the", "smell"] * (1 + 7 * i % 5) + ["superb"] * (i % 2) for i in range(number)]


def test_texts_of_a_window_are_sorted_by_length_and_answered_in_their_order(scored, monkeypatch):
    run, shapes = load_run(scored), []
    read = run.model.forward
    monkeypatch.setattr(run.model, "forward", lambda tokens, mask: shapes.append(mask) or read(tokens, mask))
    texts = many(37)
    rows = list(predict(run, iter(texts), batch_size=4, window=20))
    assert [row["tokens"] for row in rows] == texts
    assert [len(mask) for mask in shapes] == [4, 4, 4, 4, 4, 4, 4, 4, 4, 1], "two windows: 20 and 17 texts"
    lengths = [mask.sum(1).tolist() for mask in shapes]
    for window, part in ((lengths[:5], texts[:20]), (lengths[5:], texts[20:])):
        assert [length for batch in window for length in batch] == sorted(map(len, part))
    for row, text in zip(rows, texts, strict=True):
        (alone,) = predict(run, [text])
        assert row["z"] == pytest.approx(alone["z"], abs=1e-3)
        assert row["prediction"] == pytest.approx(alone["prediction"], abs=1e-6)


def test_long_texts_share_a_batch_only_if_it_stays_small(scored, monkeypatch):
    """As in the answers to texts in Python: memory follows the words of a batch with its padding."""
    run, shapes = load_run(scored), []
    read = run.model.forward
    monkeypatch.setattr(run.model, "forward", lambda tokens, mask: shapes.append(mask.shape) or read(tokens, mask))
    texts = [["smell"] * length for length in (9_000, 3, 20_000, 500, 2, *[500] * 70, 9_000)]
    assert [row["tokens"] for row in predict(run, texts)] == texts
    assert sum(rows for rows, _ in shapes) == len(texts)
    assert all(rows <= 64 and (rows == 1 or rows * length <= 16_384) for rows, length in shapes), shapes
    assert len(shapes) == 6, "two short ones with 30 of 500 words, 32, 9, and the three long ones alone"


def test_no_more_than_a_window_is_read_before_it_is_answered(scored):
    taken = []
    texts = (taken.append(text) or text for text in many(50))
    rows = predict(load_run(scored), texts, window=8)
    next(rows)
    assert len(taken) == 8
    for _ in range(8):
        next(rows)
    assert len(taken) == 16


def test_a_mistake_in_the_last_line_of_a_file_is_found_before_the_first_answer(paired, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("rationale.runs.predict.WINDOW", 2)
    (tmp_path / "texts.txt").write_text("a dog ||| the cat\n" * 5 + "a dog\n")
    assert "text 6: no pair" in wrong(capsys, paired, "--file", str(tmp_path / "texts.txt"))
    content = (tmp_path / "texts.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, err = told(capsys, paired, "--file", "-", "--jsonl")  # which can be read only once
    assert code == 2 and len(out.splitlines()) == 4 and "text 6" in err


def test_each_text_of_a_file_is_split_once(scored, capsys, tmp_path, monkeypatch):
    split, texts = SavedRun.tokens, []
    monkeypatch.setattr(SavedRun, "tokens", lambda run, text: texts.append(text) or split(run, text))
    (tmp_path / "texts.txt").write_text("the smell\nthe look\n")
    assert told(capsys, scored, "--file", str(tmp_path / "texts.txt"))[0] == 0
    assert texts == ["the smell", "the look"]


def test_a_line_on_a_terminal_is_answered_before_the_next_is_read(scored, capsys, monkeypatch):
    class Terminal(io.BytesIO):
        def readline(self, *arguments):
            answers.append(capsys.readouterr().out.count("selected"))
            return super().readline(*arguments)

        def __iter__(self):
            return iter(self.readline, b"")

    answers: list[int] = []
    terminal = io.TextIOWrapper(Terminal(b"the smell\nthe look\na smell\n"))
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", terminal)
    assert main([scored, "--file", "-"]) == 0
    assert answers == [0, 1, 1, 1]


def test_a_coloured_line_needs_no_matplotlib(scored):
    program = "import sys; sys.modules['matplotlib'] = None; from rationale.predict import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, scored, "--text", "the smell"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "of the words selected" in done.stdout
    assert "error" not in done.stderr and "matplotlib" not in done.stderr, "a note about the rate may stand there"


# --- mistakes: one line on the error stream, exit code 2


def wrong(capsys, *arguments: str) -> str:
    code, out, err = told(capsys, *arguments)
    assert (code, out) == (2, ""), f"exit code {code}, output {out!r}"
    assert err.startswith("error: ") and err.count("\n") == 1, err
    return err


def test_a_blank_line_gets_an_empty_answer_in_its_place(scored, labelled, paired, capsys, tmp_path):
    path = tmp_path / "reviews.txt"
    for run, text in ((scored, "the smell"), (labelled, "the smell"), (paired, "a dog ||| the cat")):
        path.write_text(f"{text}\n\n \t\n{text}\n")
        code, out, err = told(capsys, run, "--file", str(path), "--jsonl")
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0 and "error" not in err and [bool(row["tokens"]) for row in rows] == [True, False, False, True]
        assert rows[1]["prediction"] is None and rows[1]["z"] == [] and rows[0] == rows[3]
        assert rows[1].get("label", None) is None and rows[1].keys() <= rows[0].keys()
        spans = [
            json.loads(line) for line in told(capsys, run, "--file", str(path), "--jsonl", "--spans")[1].splitlines()
        ]
        assert spans[1].keys() == spans[0].keys() and not any(spans[1].values())
        shown = told(capsys, run, "--file", str(path))[1].split("\n\n")
        assert shown[1].strip() == shown[2].strip() == "no words"


def test_a_file_without_text_is_refused(scored, capsys, tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("")
    assert f"{path}: no text" in wrong(capsys, scored, "--file", str(path))


def test_a_file_that_is_missing_or_no_text_is_refused(scored, capsys, tmp_path):
    assert "nowhere.txt" in wrong(capsys, scored, "--file", str(tmp_path / "nowhere.txt"))
    path = tmp_path / "latin.txt"
    path.write_bytes("caf\xe9".encode("latin-1"))
    assert "UTF-8" in wrong(capsys, scored, "--file", str(path))


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_text_is_refused(scored, capsys, text):
    assert "--text: an empty text" in wrong(capsys, scored, "--text", text)


def test_a_wrong_folder_is_refused(capsys, tmp_path):
    assert "accepted is the folder of a finished training run" in wrong(capsys, str(tmp_path), "--text", "good")


@pytest.mark.parametrize("arguments", [[], ["--text", "a", "--file", "b"]])
def test_exactly_one_source_of_text_is_needed(scored, capsys, arguments):
    with pytest.raises(SystemExit) as error:
        main([scored, *arguments])
    assert error.value.code == 2 and "--text" in capsys.readouterr().err


def test_help_is_a_page_with_examples():
    page = subprocess.run([sys.executable, "-m", "rationale.predict", "--help"], capture_output=True, text=True)
    assert page.returncode == 0
    for part in ("RUN", "--text", "--file", "--jsonl", "examples:"):
        assert part in page.stdout


# --- from text to tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It isn't good.", "It is n't good ."),
        ("They can't; we won't.", "They ca n't ; we wo n't ."),
        ("Don't you think they'd say it\u2019s fine?", "Do n't you think they 'd say it 's fine ?"),
        ("I'LL stay, WE'RE off", "I 'LL stay , WE 'RE off"),
        ("A well-made, funny film", "A well-made , funny film"),
        ('He said "wow" (twice)...', 'He said " wow " ( twice ) ...'),
        ("a film--and what a film!", "a film -- and what a film !"),
        (
            "bad \U0001f64f\U0001f3fd\U0001f600! \U0001f468\u200d\U0001f469\u200d\U0001f467",  # hands, a face, a family
            "bad \U0001f64f\U0001f3fd \U0001f600 ! \U0001f468\u200d\U0001f469\u200d\U0001f467",
        ),
        (
            "a \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 \u2764\ufe0f.",
            "a \U0001f1e9\U0001f1ea \U0001f1eb\U0001f1f7 \u2764\ufe0f .",
        ),  # flags, a heart
        ("Mr. Bean's U.S. tour, e.g. in L.A., cost $2,500!", "Mr. Bean 's U.S. tour , e.g. in L.A. , cost $ 2,500 !"),
        ("He loves J. Smith. So do I.", "He loves J. Smith . So do I ."),
        ("rock 'n' roll of the '90s", "rock 'n' roll of the '90s"),
        ("'good' film", "' good ' film"),
        ("poured well. head is nice .", "poured well . head is nice ."),
        ("It's good .", "It 's good ."),
        ("naïve café's", "naïve café 's"),
        ("4.5/5 and 10,000 more", "4.5/5 and 10,000 more"),
    ],
)
def test_words_marks_and_clitics_are_taken_apart(text, tokens):
    assert tokenise(text) == tokens.split(" ")


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_nothing_has_no_tokens(text):
    assert tokenise(text) == []


def test_no_character_is_lost_or_invented():
    text = "(Well), it's the \"best\" -- 10/10... isn't it?! \u2013 ö, #1 & more; f(x)=x^2 * 'em"
    assert "".join(tokenise(text)) == text.replace(" ", "")


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2003", "\u00a0\u00a0"])
@pytest.mark.parametrize("tokeniser", ["treebank", "words", "spaces"])
def test_a_space_is_no_word_in_any_kind_of_text(tokeniser, space):
    for text in (f"a film {space} , so dull .", f"a film {space} , so dull.", f"{space} so dull . {space}"):
        assert split_text(text, tokeniser) == split_text(" ".join(text.split()), tokeniser)
    assert tokenise("2\u00a01/2 hours .") == ["2\u00a01/2", "hours", "."], "within a word of tokenised text"


def test_tokens_of_the_synthetic_corpus_come_back_unchanged():
    for examples in read_synthetic().values():
        for example in examples:
            assert tokenise(" ".join(example.tokens)) == list(example.tokens)


@pytest.mark.data
def test_tokens_of_the_treebank_come_back_unchanged():
    splits = read_sst()
    for split in ("dev", "test"):
        for example in splits[split]:
            assert tokenise(" ".join(example.tokens)) == list(example.tokens)
    changed = [e.tokens for e in splits["train"] if tokenise(" ".join(e.tokens)) != list(e.tokens)]
    assert len(changed) <= 5, "a sentence that ends in a bare initial (`Jason X.`) cannot be told from raw text"


# Texts with what stands between the sentences of a pair.
BARS = ["good ||| bad", "good|||bad", "|||", "a ||| b ||| c", "||| look"]


@pytest.mark.parametrize("tokeniser", ["treebank", "words", "spaces"])
def test_the_mark_between_pairs_is_an_ordinary_word_of_a_single_text_everywhere(
    labelled, capsys, monkeypatch, tmp_path, tokeniser
):
    run = replace(load_run(labelled), tokeniser=tokeniser)
    monkeypatch.setattr("rationale.runs.saved.load_run", lambda _: run)
    (tmp_path / "lines.txt").write_text("\n".join(BARS))
    (tmp_path / "table.csv").write_text("text\n" + "\n".join(BARS))
    expected = run(BARS)
    ways = [["--file", str(tmp_path / name)] for name in ("lines.txt", "table.csv")]
    ways += [["--file", "-"], [option for text in BARS for option in ("--text", text)]]
    for way in ways:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(BARS).encode())))
        code, out, err = told(capsys, labelled, *way, "--jsonl")
        assert code == 0, (way, err)
        rows = [json.loads(line) for line in out.splitlines()]
        assert [row["tokens"] for row in rows] == [list(one.tokens) for one in expected], way
        assert [row["label"] for row in rows] == [answer.label for answer in expected]
        for form in ("--csv", "--spans", "--html"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(BARS).encode())))
            code, out, err = told(capsys, labelled, *way, form)
            assert code == 0 and out, (way, form, err)


def test_a_pair_is_refused_by_a_run_on_texts(scored):
    with pytest.raises(BadInput, match="text 2: a pair; accepted are single texts"):
        list(predict(load_run(scored), [["a"], (["a"], ["b"])]))


def test_an_answer_without_a_selected_word_says_that_it_depends_on_none():
    p = SimpleNamespace(corpus="sst")
    run = SavedRun(SimpleNamespace(head=None), None, p, None, "extraction")
    row = {"tokens": ["a", "film"], "label": "good", "prediction": 0, "unknown": []}
    row["probabilities"] = {"good": 0.7, "bad": 0.3}
    said = "no word is selected, so this prediction depends on no word of the text"
    assert said in _shown(row | {"z": [0.0, 0.0]}, run) and said not in _shown(row | {"z": [0.0, 0.1]}, run)


def test_a_run_that_is_not_there_is_refused_with_those_that_are(scored):
    with pytest.raises(BadInput, match="no such run .there: none; `make run` makes one"):
        load_run(f"{scored}-nowhere/x")


def test_a_run_that_has_not_finished_is_named_as_such_wherever_its_folder_is(tmp_path):
    for folder in ("killed.partial", "fitted"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "checkpoint.safetensors").write_bytes(b"")
    for folder in ("killed", "killed.partial", "fitted"):
        with pytest.raises(BadInput, match=f"{folder}: a run that has not finished; the same command continues it"):
            load_run(tmp_path / folder)


def test_a_folder_above_or_beside_the_runs_is_refused_with_the_runs_nearby(tmp_path):
    for name in ("one", "two"):
        place = tmp_path / "12_train_sst" / name
        place.mkdir(parents=True)
        (place / "run.ipynb").write_text("{}")
    with pytest.raises(BadInput, match="12_train_sst: holds no model.safetensors, but runs: one, two; accepted"):
        load_run(tmp_path / "12_train_sst")
    with pytest.raises(BadInput, match="three: no such run .there: one, two.; accepted"):
        load_run(tmp_path / "12_train_sst" / "three")
    with pytest.raises(BadInput, match="nowhere: no such run .there: 12_train_sst/one, 12_train_sst/two.; accepted"):
        load_run(tmp_path / "nowhere")


def test_only_a_line_break_ends_a_text(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\u2028text\r\nanother\x0bone\n", encoding="utf-8")
    assert len(list(read_lines_of(path))) == 2


def test_a_last_line_without_a_line_break_is_a_text(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("It isn't.\nFine .", encoding="utf-8")
    assert list(read_lines_of(path)) == ["It isn't.", "Fine ."]


RAW = "Staff/service and/or clean.But it isn't!"
SPLIT = "staff / service and / or clean . but it is n't !"


@pytest.fixture(scope="module")
def of_hotels(tmp_path_factory):
    """The folder of a run on hotel reviews, whose texts are split by `split_words`."""
    folder = tmp_path_factory.mktemp("hotels")
    p = SimpleNamespace(**vars(parameters(epochs=1)) | {"corpus": "hotels", "aspect": "service"})
    save_run(folder, train(folder, epochs=1), p)
    return str(folder)


def test_new_texts_are_split_as_the_texts_in_training_were(of_hotels, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{RAW}\n")
    for source in (("--text", RAW), ("--file", str(tmp_path / "texts.txt"))):
        row = json.loads(told(capsys, of_hotels, *source, "--jsonl")[1])
        assert row["tokens"] == SPLIT.split(), source
    assert read_text(load_run(of_hotels), RAW).tokens == SPLIT.split()


def test_a_run_saved_before_tokenisers_were_has_that_of_its_corpus(of_hotels, scored, tmp_path):
    assert load_run(of_hotels).tokeniser == "words" and load_run(scored).tokeniser == "treebank"
    tensors, facts = training.read_tensors(Path(of_hotels) / "model.safetensors")
    assert facts.pop("tokeniser") == "words"
    training.write_tensors(tmp_path / "model.safetensors", tensors, facts)
    assert load_run(tmp_path).tokeniser == "words"
    training.write_tensors(tmp_path / "model.safetensors", tensors, facts | {"tokeniser": "singing"})
    with pytest.raises(BadInput, match="no model of this project, or of another version .*singing"):
        load_run(tmp_path)


@pytest.mark.parametrize("tokeniser", ["treebank", "words"])
@pytest.mark.parametrize(
    "words",
    ["यह हिन्दी फिल्म अच्छी है", "এই ছবিটা খুব ভালো", "இது நல்ல படம்", "ภาพยนตร์ เรื่องนี้ สนุก", "می\u200cروم خانه",
     "كِتَابٌ جَدِيدٌ", "שָׁלוֹם עוֹלָם", "cafe\u0301s nai\u0308ve", "well-e\u0301-made x"],
)  # fmt: skip
def test_marks_that_belong_to_a_letter_do_not_divide_a_word(tokeniser, words):
    assert split_text(f"{words}!", tokeniser) == [*words.split(), "!"]
    assert split_text(f"{words}।❤️", tokeniser) == [*words.split(), "।", *split_text("❤️", tokeniser)], "but marks do"


@pytest.mark.parametrize("tokeniser", ["treebank", "words", "spaces"])
def test_the_sides_of_a_pair_are_split_by_themselves(tokeniser):
    assert split_text("a dog . ||| it barks .", tokeniser) == "a dog . ||| it barks .".split()
    assert split_text("|||", tokeniser) == ["|||"] and split_text("a", tokeniser) == ["a"]


def test_a_word_is_also_known_in_its_other_spellings(scored):
    run = load_run(scored)
    plain = next(predict(run, [["the", "head", "is", "gorgeous"]]))
    shouted = next(predict(run, [["THE", "Head", "is", "GORGEOUS"]]))
    assert shouted["unknown"] == [] and shouted["tokens"][0] == "THE", "shown as typed, read in lower case"
    assert shouted["z"] == plain["z"] and shouted["prediction"] == plain["prediction"]


# --- pairs of sentences


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    """The folder of a run on pairs."""
    folder = tmp_path_factory.mktemp("pairs")
    p = aligners.settings(epochs=1, vectors="random", embedding_size=5)
    splits = dict.fromkeys(("train", "dev", "test"), aligners.pairs())
    save_run(folder, training.train_aligner(p, splits, "classes", 3, folder), p, labels=list(LABELS))
    return str(folder)


def test_a_pair_gives_its_label_and_what_each_word_meets(paired, capsys):
    code, out, err = told(capsys, paired, "--text", "a dog runs ||| the cat")
    lines = out.strip().split("\n")
    assert (code, err) == (0, "")
    assert lines[0].split()[0] in LABELS and "100% of the cells are not 0" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["no", "a", "dog", "runs"] and "no word" in lines[1]
    numbers = [float(part) for part in lines[2].split() if part[0].isdigit()]
    assert sum(numbers) == pytest.approx(1.0, abs=0.02), "softmax spends a weight of 1"


def test_a_pair_without_an_open_cell_is_told_in_a_line_and_lists_no_words(paired):
    run = load_run(paired)
    (row,) = predict(run, [(["a", "dog"], ["the", "cat"])])
    shut = [[0.0] * len(row["hypothesis"])] * len(row["tokens"])
    first, *rest = _shown(row | {"z": shut}, run).splitlines()
    assert first.endswith("0% of the cells are not 0")
    assert rest == ["no cell is open, so no word of one text is aligned with a word of the other"]
    shut[1] = [0.0, 0.5, 0.0]
    assert len(_shown(row | {"z": shut}, run).splitlines()) == 1 + 3, "a line for each word"


def test_one_column_for_both_texts_of_a_pair_is_refused(paired, capsys, tmp_path):
    table = tmp_path / "pairs.csv"
    table.write_text("text,second\na dog,the cat\n")
    for given in (["--second", "text"], ["--column", "second"]):
        code, out, err = told(capsys, paired, "--file", str(table), *given)
        assert code == 2 and out == ""
        assert f"--second '{given[1]}': also the column of the first texts; accepted: another column" in err


def test_pairs_in_a_batch_are_answered_as_each_alone(paired, capsys):
    both = told(capsys, paired, "--jsonl", "--text", "a dog ||| the cat", "--text", "a man runs now ||| the man")[1]
    alone = told(capsys, paired, "--jsonl", "--text", "a dog ||| the cat")[1]
    first, second = map(json.loads, both.splitlines())
    expected = json.loads(alone)
    assert first["hypothesis"] == ["@@NULL@@", "the", "cat"] and np.shape(second["z"]) == (5, 3)
    assert np.allclose(first["z"], expected["z"], atol=1e-3) and first["label"] == expected["label"]


def test_words_of_both_sides_count_as_unknown_and_each_side_is_split_by_itself(paired, capsys):
    out = told(capsys, paired, "--text", "a dog ||| wug blick dax")[1]
    assert "unknown to this run: wug blick dax" in out and "no word of this text" not in out
    assert "no word of this text is known" in told(capsys, paired, "--text", "wug ||| blick")[1]
    row = json.loads(told(capsys, paired, "--jsonl", "--text", "A man sat. ||| A man sits .")[1])
    assert row["tokens"][-2:] == ["sat", "."] and row["hypothesis"][-2:] == ["sits", "."]


PAIRS = [("a dog", "the cat"), ("a ||| dog", "the man ||| runs"), ("a man runs now", "||| the cat"), (" ", "|||")]


@pytest.mark.parametrize("tokeniser", ["treebank", "words"])
def test_the_texts_of_a_table_of_pairs_may_hold_the_mark_between_them(paired, capsys, monkeypatch, tmp_path, tokeniser):
    run = replace(load_run(paired), tokeniser=tokeniser)
    monkeypatch.setattr("rationale.runs.saved.load_run", lambda _: run)
    table = tmp_path / "pairs.csv"
    table.write_text("text,second\n" + "".join(f"{first},{second}\n" for first, second in PAIRS))
    code, out, err = told(capsys, paired, "--file", str(table), "--jsonl")
    assert (code, err) == (0, "")
    for row, answer in zip(map(json.loads, out.splitlines()), run(PAIRS), strict=True):
        assert (tuple(row["tokens"]), tuple(row.get("hypothesis", ()))) == (answer.tokens, answer.second_tokens)
        assert row["label"] == answer.label
    for form in ((), ("--csv",), ("--spans",)):
        code, out, err = told(capsys, paired, "--file", str(table), *form)
        assert (code, err) == (0, "") and out


@pytest.mark.parametrize("text", ["a dog", "||| a dog", "a dog |||", "a ||| dog ||| runs"])
def test_a_text_that_is_no_pair_is_refused(paired, capsys, text):
    code, _, err = told(capsys, paired, "--text", text)
    assert (code, err) == (2, "error: text 1: no pair; accepted is: a premise ||| a hypothesis\n")
