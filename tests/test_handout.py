"""Hand-outs: exercises in one form, answers that nothing else needs, two editions that do what they promise."""

import ast
import asyncio
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import jupytext
import nbformat
import numpy as np
import pandas as pd
import pytest
import torch

from rationale import figures, metrics
from rationale.data.corpora import synthetic
from rationale.distributions import HardConcrete, HardKuma, Kumaraswamy
from rationale.nn import MAPPINGS, all_mappings, decide, fusedmax, sparsemax
from rationale.objectives import Constraint, expected_transitions
from rationale.runs import root
from rationale.runs.exercises import TASK, check_answer, exercises, is_tagged, names_of, pack
from rationale.training import toy_gates
from tests.depth import slow_or_deep
from tests.every import every
from tests.forked import execute
from tests.smoke import needed_first, skip_without_data, smoke, smoke_parameters
from tests.test_notebooks import CASES
from tools.handout import main, student_edition, write_handouts

NOTEBOOKS = sorted((root() / "notebooks").glob("*.py"))
each_notebook = every(NOTEBOOKS)


@each_notebook
def test_an_exercise_is_a_task_a_prediction_a_solution_and_a_check(path: Path) -> None:
    notebook = jupytext.read(path)
    found = exercises(notebook)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert len(found) == len(TASK.findall(text)) == text.count("**Exercise"), "an exercise in another form"
    assert [exercise.number for exercise in found] == list(range(1, len(found) + 1)), "numbered from 1 in each notebook"
    for exercise in found:
        assert 2 <= exercise.minutes <= 30, f"exercise {exercise.number}: {exercise.minutes} minutes"
        assert re.search(r"\*Predict\*.*\*Change\*.*\*Explain\*", exercise.task, re.S), (
            "the task has the sentences *Predict* ..., *Change* ... and *Explain* ..., in this order and so written"
        )
        asked = " ".join(re.findall(r"\*Predict\*(.*?)(?=\*Change\*|\*Explain\*)", exercise.task, re.S))
        assert exercise.predicted, f"exercise {exercise.number}: its check looks at nothing that is predicted"
        bound = names_of(notebook.cells[exercise.prediction].source)
        assert exercise.predicted == bound, f"exercise {exercise.number}: a prediction has no other names than {bound}"
        for name in exercise.predicted:
            assert re.search(rf"`{name}[`(]", asked), f"exercise {exercise.number}: *Predict* does not name `{name}`"
        for name in exercise.names:
            assert re.search(rf"`{name}[`(]", exercise.task), f"exercise {exercise.number}: `{name}` is not in its task"
        for node in ast.walk(ast.parse(notebook.cells[exercise.check].source)):
            assert not isinstance(node, ast.Assert) or node.msg, f"exercise {exercise.number}: an assert without a hint"
        assert len(exercise.explanation.split()) >= 10, f"exercise {exercise.number}: its solution ends with no comment"


PLACES = "section|page|cell|figure|table|picture|plot|notebook|exercise"
POINTING = re.compile(  # words that are right where an exercise is written, and wrong at the end of a page
    rf"\b(?:this|last|next|previous|former|latter|preceding|following) (?:{PLACES})s?\b"
    r"|\b(?:you|we) (?:just )?(?:saw|have seen)\b|\b(?:just|right) (?:above|below)\b"
    rf"|\b(?:{PLACES}|review|model|text|method|share|gate|sentence|question)s? (?:`\w+` )?(?:above|below)\b"
    r"|\b(?:see|shown|from|of the|in the|as) (?:above|below)\b"
)


@each_notebook
def test_an_exercise_points_at_nothing_by_its_place(path: Path) -> None:
    """In the book an exercise stands at the end of the page, so it names sections, and not what is above or below."""
    notebook = jupytext.read(path)
    for exercise in exercises(notebook):
        texts = [exercise.task, exercise.explanation, notebook.cells[exercise.check].source]
        found = [match[0] for text in texts for match in POINTING.finditer(" ".join(text.split()))]
        assert not found, f"exercise {exercise.number}: {found}; name the section, or what it is"


@pytest.mark.parametrize("text", [
    "the gate of this section", "the shapes in the cell above", "the review above", "the gate of the last figure",
    "the two models below", "the next section", "As you saw, it vanishes", "the review `lowest` above", "see above",
])  # fmt: skip
def test_pointing_words_are_found(text: str) -> None:
    assert POINTING.search(text)


@pytest.mark.parametrize("text", ["a recall above 0", "above one half", "below 0.05", "section 3", "gamma below it"])
def test_other_words_are_not(text: str) -> None:
    assert not POINTING.search(text)


def test_there_are_exercises_in_plenty() -> None:
    counts = {path.stem: len(exercises(jupytext.read(path))) for path in NOTEBOOKS}
    assert sum(counts.values()) >= 25, counts
    assert not [name for name, count in counts.items() if not count and not name.startswith("00")], counts


@each_notebook
def test_no_later_cell_needs_an_answer(path: Path) -> None:
    """Of what a solution or its check binds, no other cell reads anything before it has bound it itself."""
    notebook = jupytext.read(path)
    own = {index: one for one in exercises(notebook) for index in (one.prediction, one.solution, one.check)}
    answers: dict[str, int] = {}
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        bound = names_of(cell.source)
        bound += [node.arg for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.arg)]
        if index in own:
            mine = own[index]
            others = {name for name, number in answers.items() if number != mine.number}
            answers |= dict.fromkeys(bound, mine.number)
        else:
            others = set(answers)
            answers = {name: number for name, number in answers.items() if name not in bound}
        needed = sorted(others & set(names_of(cell.source, ast.Load)) - set(bound))
        assert not needed, f"{path.stem}, cell {index} reads {needed}, which exercises bind:\n{cell.source[:300]}"


@each_notebook
def test_the_student_edition_is_the_notebook_without_its_answers(path: Path) -> None:
    notebook = jupytext.read(path)
    student, found = student_edition(notebook), exercises(notebook)
    changed = {index for one in found for index in (one.prediction, one.solution, one.check)}
    assert len(student.cells) == len(notebook.cells)
    for index, (cell, before) in enumerate(zip(student.cells, notebook.cells, strict=True)):
        assert index == 0 or index in changed or cell.source == before.source, "another cell has changed"
        assert not is_tagged(cell, "solution") and (cell.cell_type != "code" or ast.parse(cell.source))
    for exercise in found:
        for index, names in ((exercise.prediction, exercise.predicted), (exercise.solution, exercise.names)):
            given, answer = notebook.cells[index].source, student.cells[index].source
            assert not set(given.splitlines()) & set(answer.splitlines()), "a line of the answer is left"
            assert names_of(answer) == names, "a place for every name that the check looks at"
            assert is_tagged(student.cells[index], "answer"), "which is in view"
        check = student.cells[exercise.check].source
        words = set(re.findall(r"\w{5,}", check)) - {"import", "rationale", "exercises", "check_answer", "globals"}
        assert not words & set(re.findall(r"\w{5,}", notebook.cells[exercise.check].source)), "the method is not shown"


def test_a_check_of_a_student_says_what_is_missing_then_what_is_wrong_and_then_explains(capsys) -> None:
    made = [nbformat.v4.new_markdown_cell("**Exercise 4** (predict, change, explain; 5 minutes). *Predict* `x`.")]
    sources = {"prediction": "x = 2", "solution": "y = x + 1\n# Because it is\n# one more.",
               "check": "z = x + 1\nassert y == z, f'`y`: {z} is one more'"}  # fmt: skip
    made += [nbformat.v4.new_code_cell(source, metadata={"tags": [tag]}) for tag, source in sources.items()]
    (exercise,) = exercises(nbformat.v4.new_notebook(cells=made))
    assert (exercise.predicted, exercise.names) == (["x"], ["y"]) and exercise.explanation == "Because it is one more."
    packed = pack(exercise, sources["check"])
    for names, message in (({}, "`x` has no value yet"), ({"x": 2, "y": ...}, "`y` has no value yet"),
                           ({"x": 2, "y": 4}, "`y`: 3 is one more")):  # fmt: skip
        with pytest.raises(AssertionError, match=message):
            check_answer(packed, names)
    assert not capsys.readouterr().out
    check_answer(packed, {"x": 2, "y": 3})
    assert capsys.readouterr().out.endswith("Because it is one more.\n")


def packed_check(check: str, predicted: str = "guess = 2", solution: str = "found = [1]") -> str:
    task = "**Exercise 4** (predict, change, explain; 5 minutes). ..."
    sources = {"prediction": predicted, "solution": f"{solution}\n# Why.", "check": check}
    made = [nbformat.v4.new_code_cell(source, metadata={"tags": [tag]}) for tag, source in sources.items()]
    (exercise,) = exercises(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(task), *made]))
    return pack(exercise, check)


def test_what_was_predicted_at_the_first_check_is_shown_when_the_exercise_is_solved(capsys) -> None:
    packed, names = packed_check("assert guess == found[0], 'compare'"), {"guess": 2, "found": ...}
    for changes, message in (({}, "`found` has no value"), ({"guess": 3, "found": [1]}, "compare")):
        names |= changes
        with pytest.raises(AssertionError, match=message):
            check_answer(packed, names)
    check_answer(packed, names | {"guess": 1})
    assert "You predicted `guess` = 2, and now it is 1." in capsys.readouterr().out, "not 3, which came later"
    check_answer(packed, {"guess": 1, "found": [1]})
    assert "You predicted `guess` = 1.\n" in capsys.readouterr().out


def test_a_function_that_is_predicted_is_not_printed(capsys) -> None:
    packed = packed_check("assert guess(1) == found, 'compare'", "def guess(x):\n    return x", "found = 1")
    check_answer(packed, {"guess": lambda x: x, "found": 1})
    assert capsys.readouterr().out.startswith("Exercise 4 is solved.")


@pytest.mark.parametrize(("check", "value"), [
    ("for one, two in zip([1, 2], found, strict=True):\n    assert one == two and guess, 'no'", [1]),
    ("assert found['x'] == guess, 'no'", {}),
    ("assert found.dtype == guess, 'no'", [1, 2]),
    ("def half(y):\n    return y / 2\n\n\nassert guess, 'no'\nassert half(found) == 1, 'no'", "1"),
    ("assert guess, 'no'\nkept = found\nassert kept[0], 'no'", None),
])  # fmt: skip
def test_an_answer_in_another_form_is_named_and_its_error_is_the_cause(check: str, value) -> None:
    with pytest.raises(AssertionError, match=r"`found` does not have the form that the task asks for") as told:
        check_answer(packed_check(check), {"guess": 2, "found": value})
    assert isinstance(told.value.__cause__, (ValueError, KeyError, AttributeError, TypeError))


def test_a_check_in_a_notebook_that_was_not_run_says_so() -> None:
    with pytest.raises(AssertionError, match="exercise 4: `table` has no value, run all earlier cells first"):
        check_answer(packed_check("assert table[guess] == found, 'no'"), {"guess": 2, "found": 1})


def test_both_editions_are_written_as_notebooks_and_as_pages(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tools.handout.root", lambda: tmp_path)
    (tmp_path / "notebooks").mkdir()
    for name in ("04_explore_shapes", "40_sparse_attention"):
        (tmp_path / "notebooks" / f"{name}.py").write_text((root() / "notebooks" / f"{name}.py").read_text())
    run = jupytext.read(root() / "notebooks" / "04_explore_shapes.py")
    for cell in (cell for cell in run.cells if cell.cell_type == "code"):
        tag = cell.metadata.get("tags", ["plain"])[0]
        cell.outputs = [nbformat.v4.new_output("stream", text=f"output of {tag}")]
    run.cells.insert(2, nbformat.v4.new_code_cell("seed = 0", metadata={"tags": ["injected-parameters"]}))
    finished = tmp_path / "outputs" / "04_explore_shapes" / "book"
    finished.mkdir(parents=True)
    nbformat.write(run, finished / "run.ipynb")
    (finished / "params.yaml").write_text("{}\n")
    other = tmp_path / "outputs" / "04_explore_shapes" / "selection0.4"
    other.mkdir()
    nbformat.write(jupytext.read(root() / "notebooks" / "04_explore_shapes.py"), other / "run.ipynb")
    (other / "params.yaml").write_text("selection: 0.4\n")
    torn = tmp_path / "outputs" / "40_sparse_attention" / "book"
    torn.mkdir(parents=True)
    (torn / "run.ipynb").write_text("{ cut sho")
    (torn / "params.yaml").write_text("{}\n")
    _, runs, without, _ = write_handouts(tmp_path / "out", tmp_path / "outputs")
    assert without == ["40_sparse_attention"], "its run is damaged"
    assert runs == [finished], "a run with other settings is newer, but the text of the notebook is not about it"
    every_tag = {"plain", "figure", "prediction", "check", "solution"}
    for edition, outputs in (("teacher", every_tag), ("student", {"figure"})):
        page = (tmp_path / "out" / edition / "04_explore_shapes.html").read_text()
        there = set(re.findall(r"output of (\w+)", page)) & every_tag
        assert there == outputs, f"the {edition}'s page shows the outputs of {there}"
    for name in ("04_explore_shapes", "40_sparse_attention"):
        source = jupytext.read(root() / "notebooks" / f"{name}.py")
        for edition, wanted in (("teacher", source), ("student", student_edition(source))):
            written = nbformat.read(tmp_path / "out" / edition / f"{name}.ipynb", as_version=4)
            nbformat.validate(written)
            assert [cell.source for cell in written.cells] == [cell.source for cell in wanted.cells], (edition, name)
            page = (tmp_path / "out" / edition / f"{name}.html").read_text()
            assert source.cells[0].source.splitlines()[0].lstrip("# ") in page
            assert ("check_answer" in page) == (edition == "student")
            hidden = [cell for cell in written.cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
            tags = ("prediction", "solution", "check")
            assert hidden == [cell for cell in written.cells if any(is_tagged(cell, tag) for tag in tags)]
            assert hidden, "JupyterLab collapses answers and checks"


def test_a_notebook_in_which_a_student_has_written_is_kept_when_it_is_made_again(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("tools.handout.root", lambda: tmp_path)
    (tmp_path / "notebooks").mkdir()
    source = tmp_path / "notebooks" / "01_small.py"
    source.write_text("# %% [markdown]\n# # Small\n\n# %%\nx = ...\n")
    student = tmp_path / "out" / "student" / "01_small.ipynb"

    def make(change: str = "") -> tuple[list[str], str]:
        if change:
            notebook = nbformat.read(student, 4)
            notebook.cells[1].source = change
            nbformat.write(notebook, student)
        assert main([str(tmp_path / "out")]) == 0
        return sorted(path.name for path in student.parent.glob("*.ipynb")), capsys.readouterr().out

    for _ in range(2):
        names, said = make()
        assert names == ["01_small.ipynb"] and "kept" not in said
    source.write_text(source.read_text().replace("x = ...", "x = ...  # a number"))
    assert make()[0] == ["01_small.ipynb"], "the notebook has changed, and nobody has written in the old edition"
    for name, answer in (("01_small.edited.ipynb", "x = 1"), ("01_small.edited-2.ipynb", "x = 2")):
        names, said = make(answer)
        assert name in names and f"student/{name}" in said
        assert nbformat.read(student.with_name(name), 4).cells[1].source == answer
        assert nbformat.read(student, 4).cells[1].source == "x = ...  # a number"
    for number, content in ((3, "{ cut sho"), (4, "{}")):
        student.write_text(content)
        assert f"01_small.edited-{number}.ipynb" in make()[0]


def test_a_notebook_that_is_named_is_made_alone_and_what_is_there_of_others_stays(tmp_path: Path, capsys) -> None:
    others = tmp_path / "student" / "02_kumaraswamy.ipynb"
    others.parent.mkdir()
    others.write_text("of last week")
    assert main([str(tmp_path), "--notebook", "50_explorers"]) == 0
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == [
        "student/02_kumaraswamy.ipynb",
        *(f"{edition}/50_explorers.{kind}" for edition in ("student", "teacher") for kind in ("html", "ipynb")),
    ] and others.read_text() == "of last week"  # fmt: skip
    said = capsys.readouterr().out
    assert said.startswith("1 notebook, a student's and a teacher's edition of it: ")
    assert "python -m rationale.runs 50_explorers" in said or "with the pictures of 50_explorers/" in said
    assert main([str(tmp_path), "--notebook", "50_explorers", "--notebook", "notebooks/04_explore_shapes.py"]) == 0
    assert (
        capsys.readouterr().out.startswith("2 notebooks, ") and (tmp_path / "teacher/04_explore_shapes.html").exists()
    )


def test_a_notebook_that_is_not_there_is_named_and_nothing_is_written(tmp_path: Path, capsys) -> None:
    assert main([str(tmp_path / "out"), "--notebook", "50_explorers", "--notebook", "04_explore_shape"]) == 2
    assert "04_explore_shape: no such notebook, give a .py file or one of 04_explore_shapes" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def lab_manager(folder: Path):
    """The manager of files with which `make lab` starts JupyterLab."""
    from traitlets.config import Config

    config = Config()
    file = root() / "jupyter" / "jupyter_server_config.py"
    exec(compile(file.read_text(), file, "exec"), {"get_config": lambda: config})
    return config.ServerApp.contents_manager_class(root_dir=str(folder))


def test_jupyterlab_collapses_answers_and_checks_and_saving_leaves_the_text_as_it_was(tmp_path: Path) -> None:
    shutil.copy(root() / "jupytext.toml", tmp_path)
    for path in NOTEBOOKS:
        shutil.copy(path, tmp_path)

    async def open_and_save(name: str) -> list:
        manager = lab_manager(tmp_path)
        model = await manager.get(name, content=True, type="notebook")
        await manager.save({"type": "notebook", "format": "json", "content": model["content"]}, name)
        return model["content"]["cells"]

    for path in NOTEBOOKS:
        cells = asyncio.run(open_and_save(path.name))
        for cell in cells:
            hidden = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
            tags = set(cell["metadata"].get("tags", []))
            assert hidden == bool({"prediction", "solution", "check"} & tags), cell["source"][:80]
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), f"{path.name} has changed"


# --- what the checks of single exercises accept


def solved(stem: str, number: int, **names) -> tuple[str, dict]:
    """The packed check of an exercise, and the names of its solution, executed with these names of earlier cells."""
    notebook = jupytext.read(root() / "notebooks" / f"{stem}.py")
    exercise = next(one for one in exercises(notebook) if one.number == number)
    for index in (exercise.prediction, exercise.solution):
        exec(notebook.cells[index].source, names)
    return pack(exercise, notebook.cells[exercise.check].source), names


def test_a_cdf_whose_digits_were_not_lost_in_float32_is_no_textbook_cdf() -> None:
    packed, names = solved("02_kumaraswamy", 1, torch=torch, Kumaraswamy=Kumaraswamy, single=torch.float32)
    check_answer(packed, names)
    accurate = (1 - (1 - 10.0 ** -torch.arange(1, 13).double()).log().exp()).float()  # in float64, and then rounded
    for wrong in (accurate, names["repaired_cdf"]):
        with pytest.raises(AssertionError, match="`textbook_cdf` has digits that 1 - exp does not leave in float32"):
            check_answer(packed, names | {"textbook_cdf": wrong, "still_there": 12})


def test_borders_may_be_rounded_to_three_digits() -> None:
    packed, names = solved("04_explore_shapes", 4, torch=torch, HardKuma=HardKuma, decide=decide)
    for rounded in ([0.23, 1.043], [0.23, 1.04]):
        check_answer(packed, names | {"borders": rounded})
    for wrong in ([0.23, 1.05], [0.23, 1.035], [0.24, 1.04], [0.225, 1.04]):
        with pytest.raises(AssertionError, match="two largest masses differ|the decision does not change"):
            check_answer(packed, names | {"borders": wrong})


def test_a_gate_is_trained_without_any_quadratic_term_and_at_the_same_target() -> None:
    signed = {"step": 0.2, "smoothing": 0.8, "quadratic": 50.0}

    def train_one_gate(constraint):
        gate, texts = toy_gates.toy_gate(-0.1, 1.1, 0.0, 0.0), toy_gates.one_word_texts(25)
        return toy_gates.hold_rate(constraint, gate, texts, num_steps=60, learning_rate=0.05, seed=0)

    p = SimpleNamespace(selection=0.4, num_steps=60, multiplier_rate=0.2)
    given = {"torch": torch, "p": p, "signed": signed, "Constraint": Constraint, "train_one_gate": train_one_gate}
    one = train_one_gate(Constraint(0.4, **signed))
    packed, names = solved("06_hold_a_rate", 2, one=one, settles=False, **given)
    check_answer(packed, names)
    for target, quadratic in ((0.4, 0.1), (0.5, 0.0)):
        loose = train_one_gate(Constraint(target, **{**signed, "quadratic": quadratic}))
        with pytest.raises(AssertionError, match="`quadratic` is not 0, or more has changed"):
            check_answer(packed, names | {"loose": loose})


@pytest.fixture
def in_float64():
    """The default of torch in the notebooks that set it."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def accepts_only(packed: str, names: dict, accepted: list[dict], refused: list[dict], message: str) -> None:
    """Whether a check accepts these answers and refuses those with a message, each a change of the right names."""
    for changes in ({}, *accepted):
        check_answer(packed, names | changes)
    for changes in refused:
        with pytest.raises(AssertionError, match=message):
            check_answer(packed, names | changes)


def test_ends_and_divergences_may_be_tensors(in_float64) -> None:
    packed, names = solved("03_hardkuma", 1, HardKuma=HardKuma)
    pairs = [(torch.tensor(-1.0), torch.tensor(1.0)), torch.tensor([-1.0, 1.0])]
    accepts_only(packed, names, [{"half_closed_ends": pair} for pair in pairs],
                 [{"half_closed_ends": torch.tensor([-2.0, 1.0])}], r"P\(H = 0\) is 0.667, not a half")  # fmt: skip
    left, right = -0.1, 1.1
    given = {"p": SimpleNamespace(left=left, right=right, num_samples=2000), "torch": torch, "math": math}
    given |= {"logit_zero": math.log(-left / right), "logit_one": math.log((1 - left) / (right - 1))}
    packed, names = solved("03_hardkuma", 3, HardKuma=HardKuma, HardConcrete=HardConcrete,
                           kl_divergence=torch.distributions.kl_divergence, **given)  # fmt: skip
    lost = torch.stack(names["lost"])
    accepts_only(
        packed, names, [{"lost": lost}, {"lost": lost.numpy()}], [{"lost": lost, "worst": 0}], "`worst` is not"
    )


def test_switches_are_most_at_one_half_only_and_none_at_two_different_chances(in_float64) -> None:
    def both_rates(nonzero):
        batch = nonzero.unsqueeze(0)
        return batch.mean().item(), expected_transitions(1 - batch, batch, torch.ones_like(batch).bool()).item()

    patterns = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 8)
    given = {"torch": torch, "both_rates": both_rates, "rounding": 1e-12, "patterns": patterns}
    packed, names = solved("05_count_words", 2, counts=patterns.sum(1), **given,
                           switches=lambda z: (z[..., 1:] != z[..., :-1]).sum(-1) / 8)  # fmt: skip
    near = [{"best_s": s, "best_switches": 7 / 4 * s * (1 - s)} for s in (0.49, 0.495, 0.51)]
    accepts_only(packed, names, [{"best_s": torch.tensor(0.5)}], near, "there are more switches")
    both = [[0, 1], torch.tensor([0.0, 1.0]), {torch.tensor(0.0), torch.tensor(1.0)}]
    same = [[0, 0], [1, 1], {torch.tensor(0.0), torch.tensor(0.0)}, [0.0, 1e-14]]
    accepts_only(
        packed, names, [{"never": pair} for pair in both], [{"never": pair} for pair in same], "both of `never`"
    )


def test_a_gate_is_not_negative_and_a_share_that_is_no_number_is_refused() -> None:
    packed, names = solved("09_questions", 1, torch=torch, math=math)
    some, every = names["some_open"], names["all_open"]
    accepts_only(packed, names, [{"some_open": {**some, "L2": np.float32(0.5)}}],
                 [{"some_open": {**some, "L2": -0.5}}, {"all_open": {**every, "L2": -every["L2"]}}],
                 "a gate is not negative")  # fmt: skip
    kept = {"untrained": 0.5, "trained": 0.99}
    packed, names = solved("09_questions", 2, torch=torch, settles=True, two_models={name: name for name in kept},
                           distance_after_zeros=lambda model, zeros: 3 * kept[model] ** zeros)  # fmt: skip
    holes = {name: [*shares[:5], math.nan, *shares[6:]] for name, shares in names["fading"].items()}
    accepts_only(packed, names, [], [{"fading": holes}], "untrained: a share is off by nan")


def test_a_probability_that_is_right_to_two_digits_only_is_refused() -> None:
    packed, names = solved("41_diffmask", 1)
    near = [{"settled": {3: 0.967, 30: 0.997}}, {"settled": {3: 0.9667, 30: 0.99667}}]
    off = [{"settled": {3: one, 30: other}} for one, other in ((0.97, 0.997), (0.962, 0.997), (0.967, 0.996))]
    accepts_only(packed, names, near, off, "nats on average, not 0.1")


def test_praise_is_the_word_at_the_same_place() -> None:
    class Predicted:
        @staticmethod
        def predict(run, texts):
            return ({"prediction": [float("great" in words[:3])], "z": [0.0] * len(words)} for words in texts)

    lowest = SimpleNamespace(tokens="the awful smell and bad taste".split(), gold=[True] * 3 + [False] * 3)
    given = {"worst_words": ["awful", "bad"], "best_words": ["great", "good"], "figures": figures, "run": None}
    packed, names = solved("10_first_rationale", 1, lowest=lowest, predict=Predicted, display=lambda page: None,
                           p=SimpleNamespace(aspect="smell"), is_ours=True, **given)  # fmt: skip
    ours = names["ours_praised"]
    others = [[*ours[:1], word, *ours[2:]] for word in ("good", "fine", "awful")] + [["a", *ours[1:]]]
    accepts_only(packed, names, [{"ours_praised": tuple(ours)}], [{"ours_praised": words} for words in others],
                 "ours: the word in the place of `(awful|the)` is not the right one")  # fmt: skip


def test_the_largest_recall_is_neither_the_target_nor_the_share_of_gold_words() -> None:
    splits = synthetic.read_synthetic(0, 400, 0, "look", 0.0, seed=0)
    gold_rate = np.mean([np.mean(review.rationale) for review in splits["dev"]])
    packed, names = solved("10_first_rationale", 2, np=np, splits=splits, gold_rate=gold_rate)
    rounded = {name: round(float(names[name]), 2) for name in ("largest_recall", "largest_precision")}
    wrong = [{"largest_recall": share} for share in (gold_rate, 0.06, 0.3)]
    wrong += [{"largest_precision": share} for share in (gold_rate, 0.3, 1.0)]
    accepts_only(packed, names, [rounded], wrong, "`largest_(recall|precision)` is too")


def test_halves_of_reviews_are_divided_at_the_median() -> None:
    chosen = [torch.arange(10) < count for count in (1, 5, 2, 2, 7, 9)]
    given = {"np": np, "metrics": metrics, "chosen": chosen, "gold": chosen, "judged": [*range(6)]}
    packed, names = solved("21_read_reviews", 1, **given)
    uneven = [{"little": [], "much": [*range(6)], "precision_little": 0.0}]
    uneven += [{"little": [0], "much": [1, 2, 3, 4, 5]}, {"little": [0, 1, 2, 3], "much": [4, 5]}]
    accepts_only(packed, names, [{"little": (0, 2, 3), "much": (1, 4, 5)}], uneven, "the median share is not between")


def test_probabilities_of_a_costly_word_may_be_rounded_to_three_digits() -> None:
    packed, names = solved("41_diffmask", 1)
    rounded = [{"settled": {3: 0.967, 30: 0.997}}, {"settled": {3: 1 - 1 / 30, 30: 1 - 1 / 300}}]
    wrong = [{"settled": {3: 0.967, 30: share}} for share in (0.996, 0.998, 0.967, 1.0)]
    accepts_only(packed, names, rounded, wrong, "masking costs")


def test_the_order_of_the_methods_does_not_matter() -> None:
    table = pd.DataFrame({"js_0": [0.5, 0.3], "js_1": [0.1, 0.4], "model": ["a", "b"]}, index=["states", "others"])
    packed, names = solved("24_read_probes", 1, pd=pd, table=table, line_in_words=str, is_ours=False)
    backwards = dict(reversed(names["nearer_by"].items()))
    accepts_only(packed, names, [{"nearer_by": backwards}], [{"nearer_by": {"states": 0.4}}], "one entry for each row")


def test_only_gaps_of_one_word_are_filled_and_the_message_says_so() -> None:
    z = [torch.tensor([0.4, 0, 1, 0, 1, 0, 0, 1]), torch.tensor([0.0, 1, 0])]
    splits = {"test": [SimpleNamespace(rationale=(True,) * len(gates)) for gates in z]}
    evaluation = SimpleNamespace(z=z)
    packed, names = solved("11_train_reviews", 1, torch=torch, metrics=metrics, splits=splits, evaluation=evaluation)
    assert [text.tolist() for text in names["filled"]] == [[1, 1, 1, 1, 1, 0, 0, 1], [0, 1, 0]]
    right = [{"filled": tuple(text.int() for text in names["filled"])}, {"guess": "up"}]
    unchanged = [gates != 0 for gates in z]
    wider = [torch.ones(8, dtype=torch.bool), names["filled"][1]]
    cut = [names["filled"][0], torch.zeros(3, dtype=torch.bool)]
    wrong = [{"filled": one} for one in (unchanged, wider, cut)]
    accepts_only(packed, names, right, wrong, "fill the gaps of exactly one word, and change no other word: ")
    accepts_only(packed, names, [], [{"guess": "sideways"}], '`guess` is "up" or "down"')


def test_shuffled_gates_may_have_another_dtype_and_the_guess_is_a_share() -> None:
    def predictor(words, mask, z):
        assert z.dtype == torch.float32, "of the model"
        return z.sum(1)

    model = SimpleNamespace(predictor=predictor, embed=lambda tokens: tokens,
                            head=SimpleNamespace(score=lambda answer, target: answer == target))  # fmt: skip
    mask = torch.arange(9) < torch.tensor([[9]] * 11 + [[5]])
    z = torch.where(mask, torch.arange(9) * (torch.arange(9) % 2) / 8.0, 0.0)
    own, sentences = SimpleNamespace(z=z, prediction=z.sum(1)), SimpleNamespace(mask=mask, tokens=mask, target=z.sum(1))
    given = {"torch": torch, "result": SimpleNamespace(model=model), "own": own, "sentences": sentences}
    packed, names = solved("12_train_sst", 1, **given)
    right = [{"shuffled": names["shuffled"].double()}, {"shuffled": names["shuffled"].numpy()}, {"guess": 0}]
    accepts_only(packed, names, right, [{"guess": 30}, {"guess": -0.1}], "`guess` is a share, from 0 to 1")
    accepts_only(packed, names, [], [{"shuffled": z}, {"shuffled": z.double()}], "stand in another order")
    accepts_only(packed, names, [], [{"shuffled": z.roll(2, 1)}], "padding has no gates")
    accepts_only(packed, names, [], [{"shuffled": (z != 0).float().flip(1) * mask}], "keeps the values of its gates")


def test_a_model_without_an_alignment_gives_no_weight_to_null() -> None:
    packed, names = solved("13_train_nli", 1, p=SimpleNamespace(model="recurrent"), np=np)
    accepts_only(packed, names, [{"guess": "nouns"}], [{"of_null": {"a": 1.0}}], "`of_null` stays empty")
    accepts_only(packed, names, [], [{"guess": "verbs"}], '`guess` is "a" or "nouns"')


def test_the_last_break_is_a_number_of_words_and_a_map_has_one_of_the_names() -> None:
    maps = {name: mapping.function for name, mapping in MAPPINGS.items() if not mapping.special_case_of}
    given = {"torch": torch, "np": np, "maps": maps, "all_mappings": all_mappings, "fusedmax": fusedmax}
    some = torch.tensor([0.5, 1.5, 1.3, -0.4, 0.9, 0.8], dtype=torch.float64)
    packed, names = solved("40_sparse_attention", 3, some=some, in_words=str, generator=torch.Generator(), **given)
    three, wrong = (
        [{"first_segment": count} for count in counts] for counts in ((3.0, torch.tensor(3)), (-2, 0, 2, 6))
    )
    accepts_only(packed, names, three, wrong, "it does not break after -?[0-6] words")
    other = [{"only_swap": names["only_swap"] | {name}} for name in ("entmax15", "Softmax")]
    accepts_only(packed, names, [], other, "2. the names of the maps are softmax, sparsemax")


def test_a_refused_answer_is_named_and_told_what_is_wrong_with_it(in_float64) -> None:
    packed, names = solved("40_sparse_attention", 1, torch=torch, sparsemax=sparsemax)
    accepts_only(packed, names, [{"bare_gamma": torch.tensor(0.3), "pair_gamma": np.float64(1.3)}],
                 [{"bare_gamma": 0.8}, {"bare_gamma": 1.3}],
                 "`bare_gamma`: at a gamma just below .* have a weight, not 1")  # fmt: skip
    accepts_only(packed, names, [], [{"pair_gamma": 0.8}], "`pair_gamma`: .* just above .* 2 words .*, not 3")
    given = {"torch": torch, "HardKuma": HardKuma, "decide": decide}
    packed, names = solved("04_explore_shapes", 4, **given)
    short = [{"borders": [], "sequence": ["open"]}, {"borders": names["borders"][:1], "sequence": ["open", "between"]}]
    accepts_only(packed, names, [], short, "`sequence` ends with .*, but at b = 10 the gate is closed")
    late = [{"borders": names["borders"][1:], "sequence": ["between", "closed"]}]
    accepts_only(packed, names, [], late, "`sequence` begins with between, but at b = 0.1 the gate is open")
    given = {"torch": torch, "Kumaraswamy": Kumaraswamy, "grid": torch.linspace(0.0005, 0.9995, 1000)}
    packed, names = solved("02_kumaraswamy", 2, **given)
    accepts_only(packed, names, [{"best_k": torch.tensor(names["best_k"])}], [{"best_k": [0.5] * 3}],
                 "b = 1.0: `best_k` is not the sample that comes from `best_u`")  # fmt: skip
    closing = SimpleNamespace(a=torch.tensor([2.0]).log())
    given = {"torch": torch, "HardKuma": HardKuma, "p": SimpleNamespace(right=1.1, selection=0.4)}
    packed, names = solved("06_hold_a_rate", 1, softplus=torch.nn.functional.softplus, closing=closing, **given)
    less = [{"plateaus": {end: factor * size for end, size in names["plateaus"].items()}} for factor in (-1, 0.5)]
    accepts_only(packed, names, [], less, "`plateaus`: the size for l = -0.1 is too low")


# --- executed


def errors(notebook, path: Path, folder: Path, monkeypatch, given: dict | None = None) -> dict[int, str]:
    """Execute every cell with the smoke parameters and those `given`; the cells that failed, and how.

    The outputs are put into `notebook`.
    """
    monkeypatch.setenv("RATIONALE_RUN_DIR", str(folder))
    file = folder / "edition.ipynb"
    nbformat.write(notebook, file)
    failed = execute(file, smoke_parameters(path) | (given or {}), go_on=True)
    done = [cell for cell in nbformat.read(file, 4).cells if not is_tagged(cell, "injected-parameters")]
    for cell, one in zip(notebook.cells, done, strict=True):
        cell.update(one)
    return {index: f"{error.ename}: {error.evalue}" for index, error in failed.items()}


def executed() -> list:
    """One test per notebook; one is quick, and the others are deep."""
    quick, others = [], []
    for case in CASES:
        (quick if case.id == "10_first_rationale" else others).append(case)
    return [*quick, *slow_or_deep(others, [])]


@pytest.mark.parametrize("notebook", executed())
def test_the_student_edition_fails_exactly_at_its_exercises(notebook: Path, outputs, tmp_path, monkeypatch) -> None:
    skip_without_data(notebook)
    content, first = jupytext.read(notebook), needed_first(notebook)
    read = {"runs_dir": str(smoke(first, outputs).parent)} if first else {}
    failed = errors(student_edition(content), notebook, tmp_path, monkeypatch, read)
    assert list(failed) == [exercise.check for exercise in exercises(content)], failed
    for exercise in exercises(content):
        message = f"AssertionError: exercise {exercise.number}: `{exercise.predicted[0]}` has no value yet"
        assert failed[exercise.check].startswith(message), failed[exercise.check]


@pytest.mark.slow
def test_the_teacher_edition_passes(tmp_path: Path, monkeypatch) -> None:
    """The others are the notebooks themselves, cell by cell (see above), which test_notebooks.py executes."""
    path = root() / "notebooks" / "10_first_rationale.py"
    assert not errors(jupytext.read(path), path, tmp_path, monkeypatch)


def test_a_student_with_the_right_answers_sees_every_check_pass(tmp_path: Path, monkeypatch) -> None:
    path = root() / "notebooks" / "04_explore_shapes.py"
    notebook = jupytext.read(path)
    student, found = student_edition(notebook), exercises(notebook)
    for exercise in found:
        for index in (exercise.prediction, exercise.solution):
            student.cells[index].source = notebook.cells[index].source
    assert not errors(student, path, tmp_path, monkeypatch)
    for exercise in found:
        message = " ".join(student.cells[exercise.check].outputs[-1]["text"].split())
        assert f"Exercise {exercise.number} is solved." in message and message.endswith(exercise.explanation)


def test_the_share_of_missed_failures_may_be_rounded_and_a_threshold_that_warns_of_a_good_run_is_explained() -> None:
    told, fails = [0.5, 0.6001, 0.55, 0.6, 0.9], [False, False, True, True, True]
    packed, names = solved("26_read_failures", 1, groups=pd.DataFrame({"told_by_first_word": told, "fails": fails}))
    assert names["threshold"] == 0.6001 and names["missed"] == 2 / 3, "two of three failures are told of no more texts"
    check_answer(packed, names | {"missed": 0.67})
    for missed, hint in ((1 / 3, "low"), (1.0, "high")):
        with pytest.raises(AssertionError, match=f"`missed` is too {hint}"):
            check_answer(packed, names | {"missed": missed})
    with pytest.raises(AssertionError, match="you warn of 1 of the runs that did not fail"):
        check_answer(packed, names | {"threshold": 0.6})
    with pytest.raises(AssertionError, match="a smaller threshold gives no false alarm either"):
        check_answer(packed, names | {"threshold": 0.61, "missed": 2 / 3})


def test_rates_may_be_rounded_to_a_tenth_of_a_point() -> None:
    columns = {"target": [0.1, 0.25, 0.6], "seeds": [2, 2, 2], "selected_minus_target": [-2.04, -2.7, 0.1]}
    off = pd.DataFrame(columns | {"expected_minus_target": [-0.5, -0.9, 0.2]})
    rows = [
        ["test", "hardkuma", "v", row.target, metric, row.target + gap / 100]
        for row in off.itertuples()
        for metric, gap in (("rate_selected", row.selected_minus_target), ("rate_expected", row.expected_minus_target))
    ]
    results = pd.DataFrame(rows, columns=["split", "model", "vectors", "target", "metric", "value"])
    packed, names = solved("31_selection_rates", 1, off=off, results=results, main_vectors="v", is_ours=True)
    rounded = {0.1: -1.5, 0.25: -1.8, 0.6: -0.1}  # -2.04 + 0.5, -2.7 + 0.9, 0.1 - 0.2
    check_answer(packed, names | {"rate_gaps": rounded})
    for wrong in ({0.1: 1.5, 0.25: 1.8, 0.6: 0.1}, rounded | {0.1: -1.4}):
        with pytest.raises(AssertionError, match="10%: too high"):
            check_answer(packed, names | {"rate_gaps": wrong})


def test_shares_of_gold_words_may_be_rounded_to_three_digits_and_false_may_be_numpys() -> None:
    found = {
        "rate_selected": [0.1, 0.2],
        "precision": [0.7, 0.333],
        "recall": [0.5, 0.45],
        "corpus": "x",
        "aspect": "y",
    }
    packed, names = solved("32_reviews", 1, found=pd.DataFrame(found), is_ours=False)
    rounded = [0.14, 0.148]  # 0.1 * 0.7 / 0.5 and 0.2 * 0.333 / 0.45
    check_answer(packed, names | {"gold_shares": rounded, "can_differ": np.False_})
    for wrong in ([0.14, 0.15], [0.071, 0.27]):  # the second: with precision and recall exchanged
        with pytest.raises(AssertionError, match="in one row share times recall is"):
            check_answer(packed, names | {"gold_shares": wrong})
    with pytest.raises(AssertionError, match="`can_differ` is wrong"):
        check_answer(packed, names | {"can_differ": np.True_})
