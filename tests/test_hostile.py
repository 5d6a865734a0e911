"""Bad command lines and odd files, environments and streams: one line and exit code 2, and nothing is lost.

The data are in tests/hostile.py.
"""

import contextlib
import importlib
import io
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from small import parameters, train

from rationale.data.corpora.sst import read_sst
from rationale.errors import BadInput, printable
from rationale.runs import __main__ as runs
from rationale.runs import runner
from rationale.runs.parameters import defaults
from rationale.runs.saved import save_run
from rationale.runs.workspace import notebook_path, root
from tests.hostile import ACCEPTED, COMMANDS, GOOD, LONG, PATHS, THREADS, furnish

MAIN = {name: f"{name}.__main__" for name in ("rationale.runs", "rationale.data", "tools.book")}
SECONDS = 30  # for one command; reading /dev/zero would take for ever
LONGEST = 1500  # characters of a message


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, str]:
    """A folder with odd files, a finished run and the folder of sweeps, by their names in tests/hostile.py."""
    place = tmp_path_factory.mktemp("hostile")
    furnish(place)
    run = place / "outputs" / "10_first_rationale" / "run"
    p = parameters(epochs=1)
    save_run(run, train(run, epochs=1), p)
    (run / "checkpoint.safetensors").unlink()
    (run / "params.yaml").write_text(yaml.safe_dump(defaults(notebook_path("10_first_rationale")) | vars(p)))
    (run / "environment.txt").write_text(f"notebook: 10_first_rationale\ncommit: {'0' * 40}\ndevice: cpu\n")
    return {"{place}": str(place), "{run}": str(run), "{sweep}": str(place / "params" / "sweeps")}


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Fail if what is done takes longer than SECONDS."""

    def late(*_) -> None:
        raise AssertionError(f"takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def told(program: str, arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    main = importlib.import_module(MAIN.get(program, program)).main
    if program == "rationale.runs":
        main = partial(main, execute=lambda *_: None)  # what is asked is what is refused, so no kernel has to start
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), in_time():
        try:
            code = main(arguments)
        except SystemExit as end:  # of argparse, which prints how the command is used before the error
            code, lines = end.code, err.getvalue().splitlines(keepends=True)
            err = io.StringIO(lines[-1] if lines else "")
    return code, out.getvalue(), err.getvalue()


def meant(line: list[str], program: str, places: dict[str, str]) -> list[str]:
    """The arguments of a command line, with a folder of results of its own where it names none."""
    for name, path in places.items():
        line = [argument.replace(name, path) for argument in line]
    elsewhere = f"{places['{place}']}/elsewhere"
    if program == "rationale.runs" and line and not {"--list", "--outputs"} & set(line):
        line = [*line, "--outputs", elsewhere]
    return [*line, "--out", f"{elsewhere}/tables"] if program == "rationale.results" and "--out" not in line else line


@pytest.mark.parametrize("program", COMMANDS)
def test_a_bad_command_line_is_refused_in_one_line(program, places, monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    monkeypatch.setattr(runs, "run", partial(runner.run, to_html=lambda *_: ""))
    for line in [line for line in COMMANDS[program] if line not in ACCEPTED.get(program, [])]:
        what = f"{program} {[argument[:60] for argument in line]}"
        try:
            code, out, err = told(program, meant(line, program, places))
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        assert code == 2, f"{what}: exit code {code}, {err}"
        err = err or f"error: {out}"  # `data check` prints what is wrong
        assert printable(err, "\n") == err and err.endswith("\n") and err.count("\n") == 1, f"{what}: {err!r}"
        assert "error: " in err and len(err) < LONGEST, f"{what}: {err!r}"


@pytest.mark.parametrize("program", ACCEPTED)
def test_an_odd_command_line_that_can_be_obeyed_is(program, places, monkeypatch):
    monkeypatch.setattr(runs, "run", partial(runner.run, to_html=lambda *_: ""))
    for line in ACCEPTED[program]:
        code, out, err = told(program, meant(line, program, places))
        assert code == 0, f"{program} {line}: {err}"
        assert printable(out, "\n\t\udce9") == out, f"{program} {line}: {out!r}"
        shutil.rmtree(Path(places["{place}"]) / "elsewhere", ignore_errors=True)


def test_at_least_three_hundred_command_lines_are_tried():
    assert sum(map(len, COMMANDS.values())) >= 300


def test_an_odd_data_folder_is_one_line_or_holds_nothing(places, monkeypatch):
    monkeypatch.setattr(runs, "run", partial(runner.run, to_html=lambda *_: ""))
    for path in PATHS:
        monkeypatch.setenv("RATIONALE_DATA", path.replace("{place}", places["{place}"]))
        for arguments in (["list"], ["check"], ["check", "sst"]):
            if not path.strip() and arguments == ["check"]:
                continue  # the cache folder of this user, which may hold data
            code, out, err = told("rationale.data", arguments)
            assert code == 2 or arguments == ["list"], f"{path!r} {arguments}: {out}{err}"
            assert err.count("\n") == (code == 2 and "WRONG" not in out), f"{path!r} {arguments}: {out}{err}"
            assert printable(out + err, "\n\t\udce9") == out + err, f"{path!r}: {out}{err}"
        if LONG in path or path.endswith("loop"):
            code, _, err = told("rationale.runs", meant([GOOD, "--again"], "rationale.runs", places))
            assert (code, err.count("\n")) == (2, 1) and "RATIONALE_DATA=" in err, err
        elif path.strip():
            with pytest.raises(BadInput):
                read_sst()


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
def test_an_odd_number_of_threads_is_refused(name, places, monkeypatch, tmp_path):
    command = ["rationale.runs", [places["{place}"] + "/good.py", "--outputs", str(tmp_path)]]
    monkeypatch.setattr(runs, "run", partial(runner.run, to_html=lambda *_: ""))
    for value in THREADS:
        monkeypatch.setenv(name, value)
        code, _, err = told(*command)
        assert code == 2 and f"{name}=" in err and "a whole number from 1 to 1024" in err and err.count("\n") == 1, err
    monkeypatch.setenv(name, "")
    assert told(*command)[0] == 0, "as if it were not set"


def test_the_page_of_what_was_tried_is_up_to_date():
    from tools.robustness import page

    told_there = (root() / "ROBUSTNESS.md").read_text(encoding="utf-8")
    assert told_there == page(), "write it again with `python -m tools.robustness`"
