"""Every notebook runs from top to bottom, through the project's own runner, with small parameters.

`make test` executes it without a kernel (see tests/forked.py), `make test-all` in a kernel too.
"""

import json
from pathlib import Path

import pytest

from rationale.errors import BadInput
from rationale.runs import RunFailed, notebook_path, root, run
from tests.forked import run_forked
from tests.smoke import NOTEBOOKS, needs_data, small, smoke, smoke_items


def cases() -> list:
    """One test per notebook; those that read real data are marked so."""
    found = []
    for notebook in NOTEBOOKS:
        try:
            marks = [pytest.mark.data] if needs_data(notebook) else []
        except KeyError:
            marks = []  # the test itself will say what is wrong
        found.append(pytest.param(notebook, id=notebook.stem, marks=marks))
    return found


each_notebook = pytest.mark.parametrize("notebook", cases())


@each_notebook
def test_notebook_runs_with_its_smoke_parameters(notebook: Path, outputs: Path) -> None:
    assert notebook.stem in small(), f"params/smoke.yaml: add {notebook.stem}, a run of seconds"
    try:
        folder = smoke(notebook, outputs)
    except (BadInput, RunFailed) as error:
        pytest.fail(f"{notebook.stem}: {error}", pytrace=False)
    missing = {"run.ipynb", "run.html", "params.yaml", "environment.txt"} - {p.name for p in folder.iterdir()}
    assert not missing, f"{folder} lacks {missing}"


@pytest.mark.slow
@each_notebook
def test_notebook_runs_in_a_kernel_and_leaves_the_same(notebook: Path, outputs: Path) -> None:
    try:
        without, kernel = smoke(notebook, outputs), smoke(notebook, outputs / "kernel", run)
    except (BadInput, RunFailed) as error:
        pytest.fail(f"{notebook.stem}: {error}", pytrace=False)
    assert files(without) == files(kernel)
    assert metrics(without) == metrics(kernel)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def metrics(folder: Path) -> dict:
    """What a run has measured, except for how long it took: neither seconds nor words per second."""
    path = folder / "metrics.json"
    return untimed(json.loads(path.read_text())) if path.exists() else {}


def untimed(metrics: dict) -> dict:
    """A dict of metrics, perhaps nested, without those that are times."""
    return {
        name: untimed(value) if isinstance(value, dict) else value
        for name, value in metrics.items()
        if "second" not in name
    }


def test_a_run_that_explains_only_some_texts_is_read_too(tmp_path: Path) -> None:
    notebook, reader = notebook_path("14_train_probes"), notebook_path("24_read_probes")
    try:
        run_forked(notebook, smoke_items(notebook, num_explained=9, model_epochs=1), outputs=tmp_path, name="some")
        run_forked(reader, ["runs=[some]", f"runs_dir={tmp_path / notebook.stem}"], outputs=tmp_path, name="some")
    except RunFailed as error:
        pytest.fail(f"{error}", pytrace=False)


@pytest.mark.parametrize("model", ["attention", "bernoulli", "full_text", "svm"])
def test_reviews_are_learned_by_every_model_of_the_sweeps(model: str, outputs: Path) -> None:
    if model == "svm":
        pytest.importorskip("sklearn")
    notebook = notebook_path("11_train_reviews")
    items = [*smoke_items(notebook, epochs=1), root() / "params" / "reviews" / f"{model}.yaml"]
    try:
        run_forked(notebook, items, outputs=outputs, name=model)
    except RunFailed as error:
        pytest.fail(f"{model}: {error}", pytrace=False)


@pytest.mark.data
def test_reviews_without_gold_rationales_are_learned_too(outputs: Path) -> None:
    notebook = notebook_path("11_train_reviews")
    try:
        items = smoke_items(notebook, corpus="hotels", aspect="all", epochs=1)
        run_forked(notebook, items, outputs=outputs, name="hotels")
    except RunFailed as error:
        pytest.fail(f"hotels: {error}", pytrace=False)
