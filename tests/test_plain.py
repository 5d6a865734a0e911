"""Plain papermill, without the runner: twins, a folder of its own per run, and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
import yaml
from conftest import at_home
from papermill.inspection import inspect_notebook
from papermill.translators import PythonTranslator

import rationale
from rationale import digests
from rationale.errors import BadInput
from rationale.runs import kernel, root, runner
from rationale.runs.cells import defaults, parameters_cell
from rationale.runs.plain import PlainRun, digest_of, source_of_twin
from rationale.runs.saved import read_metrics, read_parameters
from rationale.runs.workspace import is_finished
from tests.forked import CellFailed, forked, run_forked
from tests.smoke import smoke_items, smoke_parameters
from tools.twins import main, twin, write_twins

NOTEBOOKS = sorted((root() / "notebooks").glob("*.py"))
FIRST = root() / "notebooks" / "10_first_rationale.py"
TRAINED = {"params.yaml", "environment.txt", "metrics.json", "history.csv", "rationales.jsonl", "model.safetensors"}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without the runner and without JupyterLab."""
    monkeypatch.delenv("RATIONALE_RUN_DIR", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def papermill(source: Path, **parameters) -> None:
    """What `papermill source -p name value` does, without a kernel."""
    copy = source.with_name("out.ipynb")
    copy.write_bytes(source.read_bytes())
    forked(copy, parameters)


def refused(source: Path, **parameters) -> str:
    """The one line with which a run by papermill is refused."""
    with pytest.raises(CellFailed) as caught:
        papermill(source, **parameters)
    assert caught.value.ename == "BadInput", str(caught.value)
    assert "\n" not in caught.value.evalue
    return caught.value.evalue


# --- twins


def test_papermill_can_read_every_line_of_every_parameters_cell(tmp_path):
    for notebook in NOTEBOOKS:
        cells = [cell for cell in twin(notebook).cells if "parameters" in cell.metadata.get("tags", ())]
        read = {one.name: one for one in PythonTranslator.inspect(cells[0])}
        assert list(read) == parameters_cell(notebook), f"{notebook.name}: no `=` in a comment, plain types"
        assert all(one.inferred_type_name != "None" and one.help for one in read.values()), notebook.name
    assert list(inspect_notebook(write_twins([FIRST], tmp_path)[0])) == parameters_cell(FIRST), (
        "as --help-notebook does"
    )


def test_a_twin_is_the_notebook_with_one_cell_more():
    for notebook in NOTEBOOKS:
        cells, original = twin(notebook).cells, jupytext.read(notebook).cells
        added = [cell for cell in cells if "twin" in cell.metadata.get("tags", ())]
        assert len(added) == 1 and len(cells) == len(original) + 1
        pairs = zip((cell for cell in cells if cell not in added), original, strict=True)
        different = [old for new, old in pairs if new.source != old.source]
        assert all("parameters" in cell.metadata["tags"] and "| None" in cell.source for cell in different)


def test_a_twin_whose_notebook_has_changed_is_refused_and_made_anew(tmp_path, alone):
    notebook = tmp_path / "mine.py"
    notebook.write_text(FIRST.read_text())
    assert source_of_twin(str(notebook), digest_of(notebook)) == notebook
    [written] = write_twins([notebook], tmp_path)
    notebook.write_text(FIRST.read_text() + "\n# %%\nprint(1)\n")
    assert refused(written).endswith("mine.py has changed since this twin of it was made; `make twins` makes it anew")
    write_twins([notebook], tmp_path)
    assert digest_of(notebook) in written.read_text()


def test_the_command_writes_twins_below_outputs(tmp_path, monkeypatch, capsys):
    notebook = tmp_path / "notebooks" / "a.py"
    notebook.parent.mkdir()
    notebook.write_text(FIRST.read_text())
    at_home(monkeypatch, tmp_path)
    assert main([]) == 0 and (tmp_path / "outputs" / "twins" / "a.ipynb").is_file()
    assert "1 twins in" in capsys.readouterr().out
    assert main(["98_nothing"]) == 2


# --- runs


@pytest.mark.slow
def test_a_run_by_papermill_has_a_folder_that_every_reader_accepts(tmp_path, alone):
    [written] = write_twins([FIRST], tmp_path)
    folder = tmp_path / "my run"
    papermill(written, **smoke_parameters(FIRST), results=str(folder))
    assert {path.name for path in folder.iterdir()} >= TRAINED
    assert "executed by: papermill\n" in (folder / "environment.txt").read_text() and is_finished(folder)
    by_runner = run_forked(FIRST, smoke_items(FIRST), outputs=tmp_path, name="same")
    assert read_parameters(folder) == read_parameters(by_runner), "`results` is no parameter of the model"
    assert read_metrics(folder)["test"] == read_metrics(by_runner)["test"]
    assert rationale.load(folder).vocabulary.words == rationale.load(by_runner).vocabulary.words
    same_code = [(f / "environment.txt").read_text().partition("code: ")[2][:12] for f in (folder, by_runner)]
    assert same_code[0] == same_code[1]
    (folder / "metrics.json").write_text("{}")
    papermill(written, **smoke_parameters(FIRST), results=str(folder))
    assert read_metrics(folder)["test"] == read_metrics(by_runner)["test"], "the same command replaces its own run"
    assert "seed 1 there, 2 here" in refused(written, **smoke_parameters(FIRST), results=str(folder), seed=2)
    assert "a finished run of `python -m rationale.runs`" in refused(written, results=str(by_runner))


def test_a_misspelt_parameter_stops_papermill_in_the_first_cell_that_validates(tmp_path, alone):
    reader = root() / "notebooks" / "22_read_sst.py"
    for source in write_twins([FIRST, reader], tmp_path):
        assert "unknown parameter" in refused(source, selectoin=0.4)
    assert "did you mean selection?" in refused(tmp_path / f"{FIRST.stem}.ipynb", selectoin=0.4)
    assert "did you mean runs_dir" in refused(tmp_path / f"{reader.stem}.ipynb", run_dir="x")
    assert "seed: unknown parameter" in refused(tmp_path / f"{reader.stem}.ipynb", seed=3), "a setting of others"
    assert "results: 3 is not accepted" in refused(tmp_path / f"{FIRST.stem}.ipynb", results=3)


PLAIN = {"seed": 2, "selection": 0.4}


def test_without_a_name_the_folder_is_named_after_the_inserted_values_as_by_the_runner(tmp_path, monkeypatch):
    at_home(monkeypatch, tmp_path)
    named = {
        PlainRun(PLAIN, {}): "default",
        PlainRun(PLAIN, {"selection": 0.4, "seed": 2}): "selection0.4-seed2",
        PlainRun(PLAIN, {"selection": None, "dependent": True}): "selectionnull-dependenttrue",
        PlainRun(PLAIN, {"vectors": "/x/glove.6B.50d.txt"}): "vectorsglove.6B.50d",
    }
    for run, name in named.items():
        assert run.folder("12_x") == tmp_path / "outputs" / "12_x" / name
        assert yaml.safe_load((tmp_path / "outputs" / "12_x" / name / "params.yaml").read_text()) == PLAIN


def test_papermill_never_writes_into_a_folder_with_other_files(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.tex").write_text("...")
    (tmp_path / "file").touch()
    for name, why in (("notes", "a folder with other files"), ("file", "not a folder")):
        with pytest.raises(BadInput, match=why):
            PlainRun(PLAIN, {}, str(tmp_path / name)).folder("12_x")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["thesis.tex"]


def test_an_unfinished_run_continues_and_a_finished_one_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_digests", {})  # files that other tests have read here
    run = PlainRun(PLAIN, {}, str(tmp_path / "x"))
    folder = run.folder("12_x")
    (folder / "checkpoint.safetensors").touch()
    assert (run.folder("12_x") / "checkpoint.safetensors").exists()
    data = tmp_path / "train.txt"
    data.write_text("other words")
    with open(folder / "environment.txt", "a") as file:
        file.write(f"read: 5 {'0' * 64} {data}\n")
    with pytest.raises(BadInput, match=r"an unfinished run, and .*train.txt has changed since it began"):
        run.folder("12_x")
    (folder / "metrics.json").touch()
    (folder / "checkpoint-500").mkdir()
    (folder / "checkpoints.csv").write_text("mine")
    assert not (run.folder("12_x") / "checkpoint.safetensors").exists()
    assert (folder / "checkpoint-500").is_dir() and (folder / "checkpoints.csv").is_file(), "they are no checkpoints"


def test_the_runner_does_not_replace_a_run_by_papermill_unasked(tmp_path):
    target = tmp_path / FIRST.stem / "default"
    PlainRun(defaults(FIRST), {}, str(target)).folder(FIRST.stem)
    with pytest.raises(BadInput, match="a run by plain papermill, give --again"):
        runner.run(FIRST, outputs=tmp_path, execute=lambda *_: None)
    assert (target / "params.yaml").is_file()


def test_two_processes_do_not_share_a_folder(tmp_path):
    pytest.importorskip("fcntl")
    folder = tmp_path / "x"
    PlainRun(PLAIN, {}, str(folder)).folder("12_x")
    code = f"from rationale.runs.plain import PlainRun; PlainRun({PLAIN}, {{}}, {str(folder)!r}).folder('12_x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root())
    assert "another process executes this run" in done.stderr


def test_by_hand_the_results_of_a_twin_go_to_the_lab_folder(tmp_path, monkeypatch, alone):
    at_home(monkeypatch, tmp_path)
    monkeypatch.setattr(kernel, "_twin", [FIRST])
    by_hand = {"__annotations__": {"seed": int}, "seed": 3, "In": ["", "seed: int = 3  # seed"]}
    for opened_in_lab, name in ((True, "lab"), (False, "default")):
        if opened_in_lab:
            monkeypatch.setenv("JPY_SESSION_NAME", "12_x.ipynb")
        else:
            monkeypatch.delenv("JPY_SESSION_NAME")
        kernel.validated(by_hand)
        assert kernel.results_folder("12_x").name == name
    kernel._plain.clear()


@pytest.mark.deep
def test_the_command_of_papermill_works(tmp_path, alone):
    [written] = write_twins([FIRST], tmp_path)
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump(smoke_parameters(FIRST)))
    command = [Path(sys.executable).with_name("papermill"), written, tmp_path / "out.ipynb", "-f", mine]
    free = {name: value for name, value in os.environ.items() if name != "RATIONALE_RUN_DIR"}
    free["PYTHONPATH"] = str(root())
    results = ["-p", "results", str(tmp_path / "r"), "-p", "epochs", "1", "--inject-paths"]
    done = subprocess.run([*command, *results], capture_output=True, text=True, env=free)
    assert done.returncode == 0, done.stderr
    left = {path.name for path in (tmp_path / "r").iterdir()}
    assert left >= TRAINED and "checkpoint.safetensors" not in left
    done = subprocess.run([*command, "-p", "selectoin", "0.4"], capture_output=True, text=True, env=free)
    assert done.returncode == 1 and "did you mean selection?" in done.stderr
