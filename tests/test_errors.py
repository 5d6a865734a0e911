"""What is printed: texts of others with their control characters as escapes, and errors of one line."""

import io
import os
import shlex
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rationale.errors import BadInput, PrintableStream, command, cut, excerpt, printable
from rationale.runs.workspace import root

HERE = str(root())
TURNING = "LRE RLE PDF LRO RLO LRI RLI FSI PDI".split()  # marks that turn the direction of writing


@given(st.text(st.characters(codec=None), max_size=20))
def test_no_control_character_is_left_and_nothing_else_changes(text):
    shown = printable(text)
    for c in shown:
        assert unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") and unicodedata.bidirectional(c) not in TURNING
    assert printable(shown) == shown
    kept = "".join(c for c in text if printable(c) == c)
    assert printable(kept) == kept


def test_colours_and_ends_of_lines_stay_only_where_they_are_asked_for():
    text = "\x1b[1;30mred\x1b[0m\n\x1b[2J\x1b]0;t\x07\r"
    assert printable(text) == r"\x1b[1;30mred\x1b[0m\n\x1b[2J\x1b]0;t\x07\r"
    assert printable(text, "\n", colours=True) == "\x1b[1;30mred\x1b[0m\n" + r"\x1b[2J\x1b]0;t\x07\r"
    stream = io.StringIO()
    assert PrintableStream(stream).write(text) == len(text)
    assert stream.getvalue() == "\x1b[1;30mred\x1b[0m\n" + r"\x1b[2J\x1b]0;t\x07" + "\r"


def test_a_message_is_one_printable_line_and_quotes_are_short():
    assert str(BadInput("a\nb\x1b")) == r"a\nb\x1b"
    assert excerpt("x" * 100) == f"'{'x' * 80}'..." and excerpt(b"ab", 1) == "b'a'..." and excerpt([1]) == "[1]"
    assert cut("abc", 2) == "ab..." and cut("abc", 3) == "abc"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BadInput("p.yaml:1: wrong"), 2, "error: p.yaml:1: wrong\n"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\n"),
        (PermissionError(13, "Permission denied", "a\x1bb"), 2, "error: a\\x1bb: Permission denied\n"),
        (BrokenPipeError(), 141, ""),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_command_ends_with_a_line_and_a_code(capsys, error, code, line):
    def main():
        raise error

    assert command(main)() == code and capsys.readouterr().err == line


def test_a_command_prints_to_an_output_that_lacks_a_character(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert command(lambda: print("caf\u00e9") or 0)() == 0
    assert raw.getvalue() == b"caf\\xe9\n"


STREAMS = {  # what is done to the standard files of a command, and its exit code
    "2>&-": 0,
    "2>/dev/full": 0,
    "<&-": 0,
    "<&- 2>&-": 0,
    ">&-": 2,
    ">/dev/full": 2,
    "<&- >&- 2>&-": 2,
    ">/dev/full 2>/dev/full": 2,
}
CODE = """
import os, subprocess, sys
from rationale.errors import command
def main():
    with open("results.txt", "w") as file:
        print("a message", file=sys.stderr, flush=True)
        os.write(2, b"of a library")
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'of a kernel')"], check=True)
        file.write("results")
    print("done")
    return 0
sys.exit(command(main)())
"""


@pytest.mark.parametrize("redirection", STREAMS)
def test_standard_files_that_are_closed_or_full_cost_no_result(redirection, tmp_path):
    line = f"{shlex.join([sys.executable, '-c', CODE])} {redirection}"
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, env=os.environ | {"PYTHONPATH": HERE})
    assert done.returncode == STREAMS[redirection] and b"Traceback" not in done.stderr, done
    if not done.returncode:
        assert done.stdout == b"done\n" and (tmp_path / "results.txt").read_text() == "results"


def test_a_command_in_a_folder_that_was_removed_is_one_line(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert command(lambda: 0)() == 2
    assert capsys.readouterr().err.startswith("error: the current folder cannot be used (No such file or directory)")
