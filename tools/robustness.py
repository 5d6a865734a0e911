"""Write ROBUSTNESS.md, the table of what was tried to break this project: `python -m tools.robustness`.

Numbers and names come from the data of the tests, so the page cannot say more than the tests do.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from rationale.errors import command, shown
from rationale.files import write_text
from rationale.runs.workspace import root
from tools import command_line

sys.path[:0] = [str(root()), str(root() / "tests")]

from tests import damage, hostile, own_files, test_damage, test_damaged_runs, test_errors, test_kills, test_params  # noqa: E402
from tests import test_damaged_checkpoints as checkpoints  # noqa: E402
from tests import test_odd_places as places  # noqa: E402
from tests import test_predict as predictions  # noqa: E402
from tests import test_training as training  # noqa: E402

INTRODUCTION = """\
# What was tried to break it

On this page you see how we have tried to break this project, and what must happen in each case. In every row we want no
traceback, no result that is wrong without a message, and no lost file. If you find a way that is not listed, please add
it to the tests. `python -m tools.robustness` writes this page from their data, and a test fails if the page is not up
to date. What is marked (deep) is tried in `make test-all`, and a part of it in each `make test` or `make test-slow`.

"""
ONE_LINE = "refused in one line that names the file"


class Row(NamedTuple):
    """One class of what was tried."""

    what: str
    ways: str
    must: str
    test: str


def rows() -> list[Row]:
    """The classes, with the numbers of today's tests."""
    ways, formats = len(damage.DAMAGES), len(damage.FORMATS)
    lists = ("IN_A_FILE", "ON_THE_COMMAND_LINE", "IN_THE_CELL", "TOGETHER_IN_NOTEBOOKS", "EXCLUDED")
    mistakes = sum(len(getattr(test_params, name)) for name in lists)
    reads = f"{ONE_LINE}, or read as a second parser reads it"
    commands = [
        Row(
            f"command lines of `{program}`",
            f"{len([line for line in lines if line not in hostile.ACCEPTED.get(program, [])])} that are wrong, "
            f"{len(hostile.ACCEPTED.get(program, []))} that are only odd",
            "a wrong one ends with exit code 2 and one line, an odd one is executed",
            "test_hostile",
        )
        for program, lines in hostile.COMMANDS.items()
    ]
    return [
        Row(f"data files of {formats} formats", f"{ways} each, and 500 at random (deep)", reads, "test_damage"),
        Row("parameter files", f"{ways}, and 1,500 at random (deep)", reads, "test_damage"),
        Row("mistakes in parameters", f"{mistakes}", "one line with file and line", "test_params"),
        *commands,
        Row("values of RATIONALE_DATA", f"{len(hostile.PATHS)}", "one line, or a folder without data", "test_hostile"),
        Row("values of OMP_NUM_THREADS and related variables", f"{len(hostile.THREADS)}", "refused in one line",
            "test_hostile"),
        Row("files of a finished run: " + names(test_damaged_runs.READERS), "30 to 50 at random each",
            f"{ONE_LINE}; with SHA256SUMS, every change is noticed", "test_damaged_runs"),
        Row("checkpoints", f"{len(checkpoints.CHECKPOINT_DAMAGES)}, and bits flipped at random",
            "one line, and the run begins anew with the same results", "test_damaged_checkpoints"),
        Row("`params.yaml` of an unfinished run", f"{len(checkpoints.PARAMETER_DAMAGES)}",
            "refused in one line, and kept", "test_damaged_checkpoints"),
        Row("`environment.txt` of an unfinished run", f"{ways}", "written again, or the change is recorded",
            "test_damaged_checkpoints"),
        Row("`progress.json`", f"{len(checkpoints.REPORTS)}", "treated as if it were missing",
            "test_damaged_checkpoints"),
        Row("kills of a training loop", f"{len(training.MOMENTS)} chosen moments",
            "the results of an undisturbed run, bit for bit", "test_training"),
        Row(f"kills of {len(test_kills.TRAINING)} training notebooks",
            f"{test_kills.KILLS} random moments each (deep)",
            "the results of an undisturbed run, and no file is left over", "test_kills"),
        Row("kills while a run is published", "each rename and each removal",
            "the old run or the new one is whole, files of others are kept", "test_damaged_checkpoints"),
        Row("standard files of a command, closed or full: " + ", ".join(f"`{name}`" for name in test_errors.STREAMS),
            f"{len(test_errors.STREAMS)}",
            "exit code 2 if there is no place for the output, and otherwise the command goes on", "test_errors"),
        Row("names of the folders of a run: spaces, quotes, braces, per cent, ends of lines, ...",
            f"{len(places.NAMES)}", "accepted; a name that is not UTF-8 is refused in one line", "test_odd_places"),
        Row("what a user may not do: " + names(places.FORBIDDEN), f"{len(places.FORBIDDEN)}",
            "refused in one line, and kept", "test_odd_places"),
        Row("the folder of a run while it is executed: " + names(places.VANISHING), f"{len(places.VANISHING)}",
            "nothing is published, and the run fails with a line", "test_odd_places"),
        Row("a clock that goes backwards, files from the future, a missing HOME, a link in place of the outputs, "
            "several processes of one run", "one each", "the usual results", "test_odd_places"),
        Row("cells that end their kernel, print escape codes, fail with 1 MB, ...", f"{len(places.ENDINGS)} (deep)",
            "the run fails with a line, or is not harmed", "test_odd_places"),
        Row("tables and folders of your own: " + names(own_files.BAD_FILES), f"{len(own_files.BAD_FILES)}",
            "refused in one line that names the file and the row", "test_own"),
        Row("texts for `predict`", f"{len(predictions.HOSTILE)} kinds, in 3 encodings of the output",
            "no control character reaches the terminal", "test_predict"),
        Row("files for `predict`", f"{len(predictions.BAD_FILES)}", ONE_LINE, "test_predict"),
        Row("parts put into files at random: " + names(damage.HOSTILE, 12),
            f"{len(damage.HOSTILE | test_damage.IN_PARAMETERS)}", reads, "test_damage"),
    ]  # fmt: skip


def names(given: Sequence[str] | dict, most: int = 6) -> str:
    """The first names, and dots if there are more."""
    return ", ".join(list(given)[:most]) + ", ..." * (len(given) > most)


def page() -> str:
    """The text of ROBUSTNESS.md."""
    lines = ["| what | in how many ways | what must happen | test |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.ways} | {row.must} | `tests/{row.test}.py` |" for row in rows()]
    text = INTRODUCTION + "\n".join(lines) + "\n\n## Damages of a file\n\n"
    text += "".join(f"- {name}\n" for name in checkpoints.CHECKPOINT_DAMAGES)
    text += "\n## Formats\n\n" + "".join(f"- {name}\n" for name in damage.FORMATS)
    text += "\n## Odd notebooks and sweeps\n\n"
    return text + "".join(f"- {name.replace('_', ' ')}\n" for name in (*hostile.NOTEBOOKS, *hostile.SWEEPS))


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    command_line("robustness", __doc__).parse_args(arguments)
    path = root() / "ROBUSTNESS.md"
    write_text(path, page())
    print(f"{len(rows())} classes: {shown(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
