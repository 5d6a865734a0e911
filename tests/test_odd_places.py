"""Odd places and times for a run: names of folders, links, permissions, folders that vanish, clocks that go backwards.

In each of them a run ends as usual, or is refused in one line, and no file is lost. What is tried stands in `NAMES`,
`FORBIDDEN`, `VANISHING` and `ENDINGS`, from which ROBUSTNESS.md is written.
"""

import contextlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

from rationale.errors import BadInput, printable
from rationale.files import lock_file
from rationale.runs import RunFailed, __main__, run
from rationale.runs import folder as folder_module
from rationale.runs.folder import WorkFolder
from tests.depth import slow_or_deep
from tests.forked import plain_page, run_forked, run_here, started
from tests.hostile import HEADER

PARAMETERS = '\n# %% tags=["parameters"]\nseed: int = 1  # seed\n'
WORK = """
# %%
import json
import os
import shutil
import sys
import time

from rationale.runs import results_folder

folder = results_folder("odd")

# %%
{cell}

# %%
(folder / "metrics.json").write_text(json.dumps(dict(dev=dict(accuracy=0.5))))
print("the end")
"""


@pytest.fixture
def notebook(tmp_path):
    """Write a notebook with this cell, and return its path."""

    def write(cell: str = "pass") -> Path:
        path = tmp_path / "odd.py"
        path.write_text(HEADER + PARAMETERS + WORK.format(cell=cell))
        return path

    return write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


# --- names

NAMES = ["a b", "new\nline", "it's", 'a "quote"', "100 %", "%s %(seed)s", "{} {seed}", "$HOME `id`", "*?[a]", "-x", "~",
         "é", "#1", "a=b", "a,b:c;d&e|f", "\x1b[31m", "\\", "con.", "x" * 200]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=printable)
def test_a_folder_of_any_name_holds_a_notebook_its_parameters_and_its_results(name, notebook, tmp_path, capfd):
    place = tmp_path / "places" / name
    place.mkdir(parents=True)
    source = shutil.copy(notebook(), place / "odd.py")
    (place / "p.yaml").write_text("seed: 3\n")
    folder = run_forked(source, [str(place / "p.yaml")], outputs=place / "outputs")
    assert folder == place / "outputs" / "odd" / "p" and (folder / "metrics.json").is_file()
    assert names(tmp_path / "places") == [name], "nothing was written beside it"
    assert printable(out := capfd.readouterr().out, "\n") == out


def test_a_kernel_works_in_a_folder_of_any_name(notebook, tmp_path):
    place = tmp_path / "places" / "".join(name for name in NAMES if len(name) < 20)
    folder = run(notebook(), outputs=place, to_html=plain_page)
    assert folder == place / "odd" / "default" and (folder / "metrics.json").is_file()
    assert names(tmp_path / "places") == [place.name]


@pytest.mark.parametrize("below", ["", "odd"])
def test_a_link_may_stand_in_the_place_of_the_outputs(below, notebook, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "outputs").mkdir(exist_ok=bool(below)) if below else None
    (tmp_path / "outputs" / below).symlink_to(tmp_path / "there")
    folder = run_forked(notebook(), outputs=tmp_path / "outputs")
    assert (folder / "metrics.json").is_file() and (tmp_path / "outputs" / below).is_symlink()
    assert [*(tmp_path / "there").rglob("metrics.json")] and not [*tmp_path.rglob("*.partial")]


# --- permissions

FORBIDDEN = {  # what a user may not do: the path, its mode, what is said
    "look into the outputs": ("outputs", 0o000, "outputs"),
    "write a new run": ("outputs/odd", 0o555, "outputs/odd"),
    "read the parameters": ("p.yaml", 0o000, "p.yaml: cannot be read (Permission denied)"),
    "read the notebook": ("odd.py", 0o000, "odd.py: cannot be read (Permission denied)"),
    "look into an unfinished run": ("outputs/odd/p.partial", 0o000, "p.partial"),
    "write into an unfinished run": ("outputs/odd/p.partial", 0o555, "p.partial"),
    "write the lock of an unfinished run": ("outputs/odd/p.partial/runner.lock", 0o444, "p.partial"),
    "read the parameters of an unfinished run": ("outputs/odd/p.partial/params.yaml", 0o000, "p.partial"),
}


@contextlib.contextmanager
def ordinary_user():
    """Be a user who is not root, as whom this process may not do everything."""
    before = os.geteuid()
    if not before:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def place():
    """A folder that an ordinary user owns; that of `tmp_path` is closed to others."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="this system has other permissions")
@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_a_user_may_not_do_is_one_line_and_nothing_is_lost(what, notebook, place, capsys):
    name, mode, said = FORBIDDEN[what]
    source = Path(shutil.copy(notebook(), place / "odd.py"))
    (place / "p.yaml").write_text("seed: 3\n")
    unfinished = run_forked(source, [str(place / "p.yaml")], outputs=place / "outputs").rename(
        place / "outputs" / "odd" / "p.partial"
    )
    (unfinished / "run.ipynb").unlink()
    (unfinished / "checkpoint.txt").write_text("mine")
    (unfinished / "runner.lock").touch()
    for path in [place, *place.rglob("*")] if not os.geteuid() else []:
        os.chown(path, 65534, 65534)
    (place / name).chmod(mode)
    capsys.readouterr()
    with ordinary_user():
        new = ["--name", "new"] if what == "write a new run" else []
        code = __main__.main([str(source), str(place / "p.yaml"), "--outputs", str(place / "outputs"), *new])
    captured = capsys.readouterr()
    assert code == 2 and captured.err.count("\n") == 1 and said in captured.err, captured
    assert (place / name).stat().st_mode & 0o777 == mode
    (place / name).chmod(0o755)
    for folder in (place / "outputs", place / "outputs" / "odd"):
        folder.chmod(0o755)
    assert (unfinished / "checkpoint.txt").read_text() == "mine"


# --- folders that vanish

VANISHING = {  # what is done to the folder of a run while it is executed
    "removed": "shutil.rmtree(folder)",
    "removed and made again": "shutil.rmtree(folder)\nfolder.mkdir()",
    "removed with all outputs": "shutil.rmtree(folder.parent.parent)",
    "removed with all outputs and made again": "shutil.rmtree(folder.parent.parent)\nfolder.mkdir(parents=True)",
    "moved": "folder.rename(folder.with_name('moved'))",
    "moved with all outputs": "folder.parent.parent.rename(folder.parent.parent.with_name('moved'))",
    "moved and made again": "folder.rename(folder.with_name('moved'))\nfolder.mkdir()",
}


@pytest.mark.parametrize("what", VANISHING)
def test_a_run_whose_folder_vanishes_is_not_published(what, notebook, tmp_path, capsys):
    source, outputs = notebook(VANISHING[what]), tmp_path / "outputs"

    def execute(path: Path, parameters: dict) -> None:
        """The cell in this process, then the notebook as papermill would save it."""
        folder = path.parent
        exec(VANISHING[what], {"folder": folder, "shutil": shutil})
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(), path)

    for end in (execute, "forked"):
        with pytest.raises(RunFailed, match="removed or moved while the run was executed"):
            run_forked(source, outputs=outputs) if end == "forked" else run(source, outputs=outputs, execute=execute)
        assert not [*tmp_path.rglob("SHA256SUMS")] and not (outputs / "odd" / "default").exists()
        shutil.rmtree(outputs, ignore_errors=True)
        shutil.rmtree(tmp_path / "moved", ignore_errors=True)


def test_a_file_that_cannot_be_written_is_named(notebook, tmp_path, monkeypatch, capsys):
    from rationale import files

    def full(path: Path) -> None:
        if path.name.startswith(".run.html."):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_to_disk", full)
    monkeypatch.setattr(__main__, "run", run_forked)
    assert __main__.main([str(notebook()), "--outputs", str(tmp_path / "outputs")]) == 2
    assert capsys.readouterr().err.endswith("default.partial/run.html: No space left on device\n")
    assert "run.html" not in " ".join(names(tmp_path / "outputs" / "odd" / "default.partial"))


# --- clocks


def test_a_clock_that_goes_backwards_neither_waits_for_ever_nor_gives_a_negative_time(notebook, tmp_path, monkeypatch):
    clock = iter(range(2_000_000_000, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: next(clock))
    folder = run_forked(notebook(), outputs=tmp_path / "outputs")
    seconds = [line for line in (folder / "environment.txt").read_text().splitlines() if line.startswith("seconds: ")]
    assert len(seconds) == 1 and float(seconds[0].split()[1]) >= 0
    with lock_file(tmp_path / "lock", seconds=0), pytest.raises(BlockingIOError):
        lock_file(tmp_path / "lock", seconds=0.2)


def test_a_run_from_the_future_counts_as_finished_and_can_be_replaced(notebook, tmp_path, capsys):
    source = notebook()
    folder = run_forked(source, outputs=tmp_path)
    for path in [folder, *folder.iterdir(), source]:
        os.utime(path, (4e9, 4e9))
    assert run_forked(source, outputs=tmp_path) == folder and "already finished" in capsys.readouterr().out
    run_forked(source, outputs=tmp_path, again=True)
    assert names(folder.parent) == ["default"] and "seed" in (folder / "params.yaml").read_text()


# --- several processes


def test_of_processes_that_want_the_same_run_one_executes_it_and_the_others_wait(notebook, tmp_path):
    source = notebook(f"print(os.getpid(), file=open({str(tmp_path / 'executed')!r}, 'a'))\ntime.sleep(0.3)")
    options = {"outputs": tmp_path / "outputs", "wait": True}
    children = [started(run_here, source, [], dict(os.environ), options) for _ in range(4)]
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    assert len((tmp_path / "executed").read_text().splitlines()) == 1
    assert names(tmp_path / "outputs" / "odd") == ["default"]


def test_processes_that_replace_the_same_run_leave_one_whole_run(notebook, tmp_path):
    source, options = notebook(), {"outputs": tmp_path / "outputs", "wait": True, "again": True}
    children = [started(run_here, source, [], dict(os.environ), options) for _ in range(4)]
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    assert names(tmp_path / "outputs" / "odd") == ["default"]
    assert (tmp_path / "outputs" / "odd" / "default" / "SHA256SUMS").is_file()


def test_a_folder_is_locked_until_it_has_its_final_name_and_the_previous_run_is_gone(tmp_path, monkeypatch):
    """Another process that waits for it would otherwise begin to clear it (seen on a busy machine)."""
    target, locked = tmp_path / "odd" / "default", []

    def watched(name):
        real = getattr(folder_module, name)

        def watch(place):
            if name == "write_digests" or place == work.old:  # and not the end of the block
                locked.append((name, folder_module.is_worked_on(work.path) or folder_module.is_worked_on(target)))
            return real(place)

        monkeypatch.setattr(folder_module, name, watch)

    for name in ("write_digests", "_remove"):
        watched(name)
    for _ in range(2):  # the second one replaces the first
        with WorkFolder(target, wait=False) as work:
            for name in ("params.yaml", "environment.txt"):
                (work.path / name).write_text("seed: 1\n")
            work.publish()
    assert locked == [("write_digests", True), ("write_digests", True), ("_remove", True)]
    assert names(target.parent) == ["default"] and names(target) == ["SHA256SUMS", "environment.txt", "params.yaml"]


def test_a_run_that_has_finished_leaves_the_folder_alone_that_the_next_process_works_in(tmp_path):
    """Seen on a busy machine: the next process began before the first one had left its block."""
    target = tmp_path / "odd" / "default"
    with WorkFolder(target, wait=False) as first:
        for name in ("params.yaml", "environment.txt"):
            (first.path / name).write_text("seed: 1\n")
        first.publish()
        following = WorkFolder(target, wait=False).__enter__()
        (following.path / "run.running.ipynb").write_text("{}")
    assert following.is_here() and names(following.path) == ["kernel.lock", "run.running.ipynb", "runner.lock"]
    (following.path / "run.running.ipynb").unlink()
    following.__exit__(None)
    assert names(target.parent) == ["default"], "and it removes the folder that is its own"


def test_a_run_that_another_process_executes_is_refused_in_one_line(notebook, tmp_path, capsys):
    source, target = notebook(), tmp_path / "outputs" / "odd" / "default"
    with WorkFolder(target, wait=False):
        assert __main__.main([str(source), "--outputs", str(tmp_path / "outputs")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "another process executes this run, give --wait" in captured.err


# --- cells that end their kernel

ENDINGS = {  # a cell, the exit code of the run and what is said
    "raise SystemExit": (1, "SystemExit in the cell `raise SystemExit`: the cells behind it were not executed"),
    "sys.exit(0)": (1, "SystemExit in the cell"),
    "sys.exit(3)": (1, "SystemExit: 3"),
    "raise KeyboardInterrupt": (1, "KeyboardInterrupt"),
    "os._exit(0)": (1, "the kernel was killed"),
    "os.kill(os.getpid(), 9)": (1, "the kernel was killed"),
    "os.abort()": (1, "the kernel was killed"),
    "raise ValueError('x' * 1_000_000)": (1, "xxx...xxx"),
    "raise ValueError('\\x1b]0;title\\x07')": (1, "\\x1b]0;title\\x07"),
    "raise ValueError('\\udcff')": (1, "ValueError"),
    "print('\\x1b]0;title\\x07', file=sys.stderr)": (0, "\\x1b]0;title\\x07"),
    "os.close(1), os.close(2)": (0, ""),
    "os.environ.clear()": (0, ""),
    "os.chdir('/')": (0, ""),
    # Jupyter's exit() stops the kernel a tenth of a second later, so without the pause a quick notebook may be complete
    "exit(), time.sleep(1)": (1, "or a cell called exit()"),
}


@pytest.mark.parametrize("cell", slow_or_deep(ENDINGS, ["os.environ.clear()", "exit(), time.sleep(1)"]))
def test_a_cell_that_does_something_odd_fails_the_run_or_costs_nothing(cell, notebook, tmp_path, capfd):
    code, said = ENDINGS[cell]
    assert __main__.main([str(notebook(cell)), "--outputs", str(tmp_path / "outputs")]) == code
    captured = capfd.readouterr()
    assert said in captured.err and len(captured.err) < 20_000, captured.err
    assert printable(captured.err, "\n\t", colours=True) == captured.err
    assert names(tmp_path / "outputs" / "odd") == ["default.partial" if code else "default"]
    assert (tmp_path / "outputs" / "odd" / "default" / "metrics.json").is_file() == (code == 0)


def test_a_notebook_that_a_cell_has_ended_is_not_finished(notebook, tmp_path):
    def execute(path: Path, parameters: dict) -> None:
        """As papermill does it: SystemExit without a code is no error."""
        page = nbformat.read(path, as_version=4)
        page.cells[-2].outputs = [nbformat.v4.new_output("error", ename="SystemExit", evalue="", traceback=[])]
        nbformat.write(page, path)

    with pytest.raises(RunFailed, match="the cells behind it were not executed"):
        run(notebook("raise SystemExit"), outputs=tmp_path / "outputs", execute=execute, to_html=plain_page)
    assert names(tmp_path / "outputs" / "odd") == ["default.partial"]


def test_home_need_not_be_there(notebook, tmp_path, monkeypatch):
    for home in (None, "/nowhere", str(notebook())):
        monkeypatch.delenv("HOME", raising=False) if home is None else monkeypatch.setenv("HOME", home)
        folder = run_forked(notebook(), outputs=tmp_path / "outputs", again=True)
        assert json.loads((folder / "metrics.json").read_text()) == {"dev": {"accuracy": 0.5}}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_without_a_name_is_read_as_a_parameter_file(notebook, tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"seed: 3\n")
    os.close(writing)
    assert stat.S_ISFIFO(os.fstat(reading).st_mode)
    try:
        folder = run_forked(notebook(), [f"/dev/fd/{reading}"], outputs=tmp_path / "outputs", name="piped")
    finally:
        os.close(reading)
    assert "seed: 3" in (folder / "params.yaml").read_text()


def test_bad_input_is_the_error_for_a_name_that_is_not_utf8(notebook, tmp_path):
    with pytest.raises(BadInput, match="a name that is not UTF-8"):
        run_forked(notebook(), outputs=tmp_path / os.fsdecode(b"caf\xe9"))
