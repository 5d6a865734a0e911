"""Every notebook runs from top to bottom, through the project's own runner, with small parameters.

`make test` executes it without a kernel (see tests/forked.py), `make test-slow` executes one that trains and one that
has sliders in a kernel too, and `make test-all` each of them.
"""

import html
import json
import re
from pathlib import Path

import pytest

from rationale.errors import BadInput
from rationale.runs import RunFailed, notebook_path, root
from rationale.runs.saved import load_run, read_metrics
from tests.depth import slow_or_deep
from tests.forked import run_forked, run_warm
from tests.own_files import rated, reviews, write_eraser, write_table
from tests.smoke import NOTEBOOKS, skip_without_data, small, smoke, smoke_items

CASES = [pytest.param(notebook, id=notebook.stem) for notebook in NOTEBOOKS]
each_notebook = pytest.mark.parametrize("notebook", CASES)


@each_notebook
def test_notebook_runs_with_its_smoke_parameters(notebook: Path, outputs: Path) -> None:
    assert notebook.stem in small(), f"params/smoke.yaml: add {notebook.stem}, a run of seconds"
    skip_without_data(notebook)
    try:
        folder = smoke(notebook, outputs)
    except (BadInput, RunFailed) as error:
        pytest.fail(f"{notebook.stem}: {error}", pytrace=False)
    assert not missing_from(folder), f"{folder} lacks {missing_from(folder)}"


@pytest.mark.parametrize("notebook", slow_or_deep(CASES, ["10_first_rationale"]))
def test_notebook_runs_in_a_kernel_and_if_it_trains_it_leaves_the_same(notebook: Path, outputs: Path) -> None:
    skip_without_data(notebook)
    try:
        kernel = smoke(notebook, outputs / "warm", run_warm)
        assert not missing_from(kernel), f"{kernel} lacks {missing_from(kernel)}"
        if not notebook.stem.startswith("1"):
            return  # it trains nothing, and the test above runs it without a kernel
        without = smoke(notebook, outputs)
    except (BadInput, RunFailed) as error:
        pytest.fail(f"{notebook.stem}: {error}", pytrace=False)
    assert files(without) == files(kernel)
    assert metrics(without) == metrics(kernel) != {}


def missing_from(folder: Path) -> set[str]:
    """Which files of every run a folder lacks."""
    return {"run.ipynb", "run.html", "params.yaml", "environment.txt"} - {path.name for path in folder.iterdir()}


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


@pytest.mark.deep
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


@pytest.mark.slow
def test_pairs_with_scores_are_learned_in_a_notebook_and_answered_on_the_scale_of_their_file(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    rows = [{"text": row["text"], "reply": "It isn't good", "grade": row["label"]} for row in rated(120)]
    notebook, table = notebook_path("13_train_nli"), write_table(tmp_path / "graded.csv", rows)
    items = smoke_items(notebook, epochs=1, corpus=str(table), second="reply", label="grade")
    folder = run_forked(notebook, items, outputs=tmp_path)
    summary, page = ((folder / name).read_text() for name in ("summary.txt", "rationales.html"))
    assert summary.startswith("test mse: softmax 0.") and "TF-IDF + ridge regression 0." in summary
    known = re.findall(r"(?:too low|too high): the label is ([\d.]+)<", page)
    assert len(known) > 5 and {*known} <= {f"{row['grade']:.4g}" for row in rows}, "the scores of the file"
    of_test = [line for line in (folder / "splits.csv").read_text().splitlines() if line.startswith("test,")]
    assert page.count("Aligned words") == len(of_test) > 5, "below each pair of test"
    (answer,) = load_run(folder)([("a warm film", "it is good")])
    low, high = (extreme(row["grade"] for row in rows) for extreme in (min, max))
    assert low <= answer.scores["grade"] <= high and answer.alignment
    with pytest.raises((BadInput, RunFailed), match="its model predicts scores; accepted here is a run that predicts"):
        read = [f"runs=[{folder.name}]", f"runs_dir={folder.parent}"]
        run_forked(notebook_path("23_read_nli"), read, outputs=tmp_path)


@pytest.mark.parametrize("kind", [pytest.param("scores", marks=pytest.mark.deep), "pairs"])
def test_files_of_ones_own_are_learned_in_a_notebook(kind: str, outputs: Path, tmp_path: Path) -> None:
    if kind == "scores":
        pytest.importorskip("sklearn")
        rows = [{"Review Text": row["text"], "stars": row["label"]} for row in rated(120)]
        changes = {"text": "Review Text", "label": "stars"}
    else:
        names = {"neg": "no/never", "pos": "pos"}  # no name of a file
        rows = [row | {"claim": "It isn't  good", "label": names[row["label"]]} for row in reviews(80)]
        changes = {"second": "claim"}
    notebook = notebook_path("17_train_own_texts" if kind == "scores" else "13_train_nli")
    changes["corpus"] = str(write_table(tmp_path / "my texts.csv", rows))
    try:
        folder = run_forked(notebook, smoke_items(notebook, epochs=1, **changes), outputs=outputs, name=kind)
    except (BadInput, RunFailed) as error:
        pytest.fail(f"{kind}: {error}", pytrace=False)
    assert len((folder / "splits.csv").read_text().splitlines()) == len(rows) + 1
    if kind == "scores":
        page = (folder / "rationales.html").read_text()
        given = {f"{row['stars']:.4g}" for row in rows}
        known = re.findall(r"(?:too low|too high): the label is ([\d.]+)<", page)
        assert len(known) > 5 and {*known} <= given, "the scores of the file"
    else:
        page, summary = ((folder / name).read_text() for name in ("rationales.html", "summary.txt"))
        assert page.count("It isn&#x27;t  good</div>") == 8, "all pairs of test, as they stand in the file"
        assert page.count("Aligned words") == 8, "below each of them"
        assert summary.startswith("test accuracy: softmax ") and "TF-IDF + logistic regression" in summary
        assert not [path for path in (folder / "figures").iterdir() if path.is_dir()], "one file per picture"
        told = re.findall(r"^  (?!\.\.\.)(.+: .+)$", summary, re.MULTILINE)
        assert len(told) >= 3 and all(f"<div>{html.escape(line)}</div>" in page for line in told), "aligned words"
    model = load_run(folder)
    assert any(note.startswith("too few ") for note in model.notes), "what the notebook has noted is told again"
    (answer,) = model([("a warm film", "it is good")] if kind == "pairs" else ["film number 3"])
    assert answer.label in names.values() if kind == "pairs" else 1 <= answer.scores["stars"] <= 10


@pytest.mark.parametrize("kind", ["an ERASER folder", "a table of scores"])
def test_reviews_of_ones_own_are_learned_and_read(kind: str, outputs: Path, tmp_path: Path) -> None:
    corpus = write_eraser(tmp_path / "eraser")
    if kind == "a table of scores":
        corpus = write_table(tmp_path / "scores.csv", rated(60))
    notebook = notebook_path("11_train_reviews")
    try:
        items = smoke_items(notebook, epochs=1, corpus=str(corpus), aspect="overall")
        folder = run_forked(notebook, items, outputs=outputs, name=corpus.stem)
        run_forked(
            notebook_path("21_read_reviews"), [f"run={corpus.stem}", f"runs_dir={folder.parent}"], outputs=outputs
        )
    except (BadInput, RunFailed) as error:
        pytest.fail(f"{kind}: {error}", pytrace=False)
    scores = read_metrics(folder)["test"]
    assert "accuracy" in scores and "blind_random_span" in scores if kind == "an ERASER folder" else "mse" in scores
    assert (folder / "splits.csv").is_file()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("03_hardkuma", {"a": 5.0, "b": 1.0}),
        ("03_hardkuma", {"a": 0.2, "b": 0.3, "left": -0.5, "right": 1.5}),
        ("04_explore_shapes", {"a": 0.01, "b": 100.0}),
    ],
)
def test_a_worked_example_may_have_other_shapes(name: str, changes: dict[str, float], tmp_path: Path) -> None:
    notebook = notebook_path(name)
    try:
        run_forked(notebook, smoke_items(notebook, **changes), outputs=tmp_path, name="shapes")
    except RunFailed as error:
        pytest.fail(f"{name}: {error}", pytrace=False)


def test_a_first_rationale_without_reviews_to_learn_from_says_so(tmp_path: Path) -> None:
    notebook = notebook_path("10_first_rationale")
    with pytest.raises((BadInput, RunFailed), match=r"0 reviews to learn from \(num_train\): no train example in it"):
        run_forked(notebook, smoke_items(notebook, num_train=0), outputs=tmp_path, name="none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"selection": 0.005}, "", id="a target below the rate of a code"),
        pytest.param({"num_test": 1}, "no test example in it; accepted: at least one", id="no review of a class"),
    ],
)
def test_rationales_fail_with_odd_settings_too(changes: dict, message: str, tmp_path: Path) -> None:
    notebook = notebook_path("16_failures")
    try:
        run_forked(notebook, smoke_items(notebook, epochs=1, **changes), outputs=tmp_path, name="odd")
    except (BadInput, RunFailed) as error:
        assert message and message in f"{error}"
    else:
        assert not message


@pytest.mark.data
def test_where_all_words_are_selected_an_exercise_says_that_there_are_no_others(outputs: Path) -> None:
    notebook = notebook_path("12_train_sst")
    try:
        folder = run_forked(notebook, smoke_items(notebook, model="full_text"), outputs=outputs, name="full")
    except RunFailed as error:
        pytest.fail(f"{error}", pytrace=False)
    assert "So there are no other words to draw." in (folder / "run.ipynb").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.data
def test_reviews_without_gold_rationales_are_learned_too(outputs: Path) -> None:
    notebook = notebook_path("11_train_reviews")
    try:
        items = smoke_items(notebook, corpus="hotels", aspect="all", epochs=1)
        run_forked(notebook, items, outputs=outputs, name="hotels")
    except RunFailed as error:
        pytest.fail(f"hotels: {error}", pytrace=False)


@pytest.mark.deep
@pytest.mark.data
def test_runs_whose_rationales_are_not_judged_are_read_too(tmp_path: Path) -> None:
    notebook = notebook_path("12_train_sst")
    items = smoke_items(notebook, judge="none", vectors="random", embedding_size=8)
    try:
        folder = run_forked(notebook, items, outputs=tmp_path, name="unjudged")
        assert not (folder / "faithfulness.json").exists()
        run_forked(notebook_path("22_read_sst"), ["run=unjudged", f"runs_dir={folder.parent}"], outputs=tmp_path)
        compared = ["runs=[unjudged]", f"runs_dir={folder.parent}"]
        page = run_forked(notebook_path("31_selection_rates"), compared, outputs=tmp_path, name="unjudged") / "run.html"
    except RunFailed as error:
        pytest.fail(f"{error}", pytrace=False)
    assert "None of these runs has judged its rationales" in page.read_text(encoding="utf-8")
