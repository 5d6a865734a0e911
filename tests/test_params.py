"""Parameters: what is accepted, and the one line that says what is not."""

import ast
import json
import textwrap
from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rationale.errors import BadInput
from rationale.runs import cells, folding, root, validated
from rationale.runs.cells import defaults, known, parameters_cell, settings_class
from rationale.runs.parameters import merge, modernised, resolve, values_for_kernel
from rationale.runs.yaml_files import is_override, read_file, read_override
from rationale.settings import Settings, accepts, choices, components, may_be_null, plain_types, setting
from rationale.training import settings as tasks

CELL = """
seed: int = 1  # seed
selection: float | None = 0.4  # share of words to keep
learning_rate: float = 2e-4  # step size
bucketed: bool = True  # similar lengths
model: str = "hardkuma"  # how
runs: list = []  # names
vectors: str = ""  # file
"""
NAMED = """
seed: int = 1  # seed
selection: float | None = 0.4  # share of words to keep
model: str = "hardkuma"  # how
"""
TASKS = (
    tasks.ExtractionSettings,
    tasks.SSTSettings,
    tasks.FirstSettings,
    tasks.FailureSettings,
    tasks.ReviewSettings,
    tasks.AlignmentSettings,
    tasks.GenerationSettings,
    tasks.ProbingSettings,
)
TRAINING = sorted((root() / "notebooks").glob("1*.py"))


def notebook(folder: Path, cell: str = CELL, tag: str = ' tags=["parameters"]', cls: str = "") -> Path:
    """A notebook of our own; with `cls` one that names the class of its settings."""
    path = folder / "some_notebook.py"
    named = f"from rationale.training.settings import {cls}\n\n# %%\np = validated(globals(), {cls})\n" if cls else ""
    path.write_text(f"# %%{tag}\n{cell.strip()}\n\n# %%\n{named or 'print(seed)'}\n")
    return path


def refusal(path: Path, *items: str) -> str:
    """The one line with which `items` are refused."""
    with pytest.raises(BadInput) as caught:
        resolve(path, items)
    message = str(caught.value)
    assert "\n" not in message, f"more than one line: {message!r}"
    assert len(message) < 1000, f"longer than a line that anyone reads: {len(message)} characters"
    return message


def file(folder: Path, text: str) -> str:
    path = folder / "p.yaml"
    path.write_text(textwrap.dedent(text))
    return str(path)


# --- defaults, files and overrides


def test_without_a_class_the_settings_are_those_of_the_cell_and_no_others(tmp_path):
    assert defaults(notebook(tmp_path)) == {
        "seed": 1,
        "selection": 0.4,
        "learning_rate": 2e-4,
        "bucketed": True,
        "model": "hardkuma",
        "runs": [],
        "vectors": "",
    }


def test_with_a_class_every_one_of_its_settings_may_be_given_and_those_of_the_cell_come_first(tmp_path):
    path = notebook(tmp_path, NAMED, cls="ExtractionSettings")
    assert settings_class(path) is tasks.ExtractionSettings
    assert parameters_cell(path) == list(defaults(path))[:3] == ["seed", "selection", "model"]
    assert defaults(path)["hidden_size"] == tasks.ExtractionSettings().hidden_size
    assert resolve(path, ["hidden_size=20"])["hidden_size"] == 20
    assert set(resolve(path)) == set(tasks.ExtractionSettings.model_fields), "all that had an effect is recorded"


def test_files_and_overrides_are_merged_from_left_to_right(tmp_path):
    first = file(tmp_path, "seed: 5\nselection: 0.1  # a comment\n")
    params = resolve(notebook(tmp_path), [first, "selection=0.2", "runs=[a, b]", "learning_rate=1.0e-5"])
    assert (params["seed"], params["selection"], params["runs"]) == (5, 0.2, ["a", "b"])
    assert params["learning_rate"] == 1e-5


def test_a_whole_number_is_accepted_for_a_float_and_becomes_one(tmp_path):
    value = resolve(notebook(tmp_path), ["learning_rate=1"])["learning_rate"]
    assert type(value) is float and value == 1.0


def test_the_folder_of_runs_is_refused_without_their_names_which_would_leave_it_without_effect():
    readers = [path for path in (root() / "notebooks").glob("*.py") if cells.reads_committed(path)]
    assert len(readers) >= 6, "all that show the committed results if no runs are named"
    for path in readers:
        said = refusal(path, "runs_dir=/elsewhere")
        wanted = "runs_dir: /elsewhere is not accepted without runs, because the committed results are read then"
        assert said == f"command line: {wanted}; give the names of its runs too, runs='[...]'", path
        assert resolve(path, ["runs_dir=/elsewhere", "runs=[a]"])["runs"] == ["a"]
        usual = resolve(path)["runs_dir"]
        assert resolve(path, [f"runs_dir={usual}"])["runs"] == []


def test_a_text_that_a_program_has_not_read_as_yaml_is_told_the_value_of_papermill(tmp_path):
    path = notebook(tmp_path)
    for name, text, meant in (("selection", "null", "None"), ("bucketed", "true", "True")):
        assert f"papermill's -p takes {meant}, or put {text} in the -f file" in refusal(path, f'{name}="{text}"')
    assert "papermill" not in refusal(path, 'selection="nul"')


def test_null_means_no_constraint_and_an_empty_value_does_not(tmp_path):
    assert resolve(notebook(tmp_path), ["selection=null"])["selection"] is None
    assert resolve(notebook(tmp_path), [file(tmp_path, "selection: null\n")])["selection"] is None
    assert "an empty value" in refusal(notebook(tmp_path), "selection=")


def test_parameters_saved_before_there_was_null_are_read_as_they_were_meant():
    old = {"selection": 1.0, "transitions": 0.0, "multiplier_max": 0.0, "sparsity": 0.0}
    assert modernised(old) == {"selection": None, "transitions": None, "multiplier_max": None, "sparsity": 0.0}
    assert modernised({"selection": 0.3, "transitions": 0.1}) == {"selection": 0.3, "transitions": 0.1}
    for model, target in (("full_text", None), ("attention", None), ("hardkuma", 0.3), ("a_gate_of_ones_own", 0.3)):
        assert modernised({"model": model, "selection": 0.3}) == {"model": model, "selection": target}


def test_an_empty_parameter_file_changes_nothing(tmp_path):
    assert resolve(notebook(tmp_path), [file(tmp_path, "# nothing\n")]) == defaults(notebook(tmp_path))


# --- one line per mistake: what was given, and what its message names

IN_A_FILE = [
    ("seed: 1\nselectoin: 0.3\n", ["p.yaml:2", "selectoin", "unknown", "did you mean selection"]),
    ("zzz: 0.3\n", ["p.yaml:1", "zzz", "some_notebook has seed"]),
    ("learning_rate: 1e-5\n", ["p.yaml:1", "learning_rate", 'text "1e-5"', "(0, inf)", "write 1.0e-5"]),
    ("\n\nselection: 1.3\n", ["p.yaml:3", "selection", "1.3", "a number in (0, 1) or null", "share of words"]),
    ("selection: 0\n", ["p.yaml:1", "selection: 0 is not accepted", "(0, 1)"]),
    ("selection: 1\n", ["p.yaml:1", "selection", "null = no constraint"]),
    ("selection: .nan\n", ["p.yaml:1", "selection", "nan", "(0, 1)"]),
    ("selection: [0.1, 0.2]\n", ["p.yaml:1", "selection", "[0.1, 0.2]", "(0, 1)"]),
    ("learning_rate: .inf\n", ["p.yaml:1", "learning_rate", "inf"]),
    ("learning_rate: -1\n", ["p.yaml:1", "learning_rate: -1", "(0, inf)"]),
    ("learning_rate: null\n", ["p.yaml:1", "learning_rate: null", "(0, inf)"]),
    ("seed: true\n", ["p.yaml:1", "seed", "true", "whole number"]),
    ("seed: 2.0\n", ["p.yaml:1", "seed", "2.0", "whole number"]),
    ("seed: -1\n", ["p.yaml:1", "seed", "-1", "[0, 4294967295]"]),
    ("seed: 2021-01-01\n", ["p.yaml:1: seed: 2021-01-01 is a number or a date in another form, give a plain decimal"]),
    ("seed: {a: 1}\n", ["p.yaml:1", "seed", "whole number"]),
    ("seed:\n", ["p.yaml:1", "seed", "empty"]),
    ("bucketed: 1\n", ["p.yaml:1", "bucketed", "true or false"]),
    ("bucketed: 'true'\n", ["p.yaml:1", "bucketed", 'text "true"', "true or false"]),
    ("model: hardkumar\n", ["p.yaml:1", "model: hardkumar", "one of full_text, attention, hardkuma"]),
    ("model: 3\n", ["p.yaml:1", "model: 3", "one of full_text"]),
    ("vectors: no\n", ["p.yaml:1", "vectors", "false", "text"]),
    ("runs: a\n", ["p.yaml:1", "runs", 'text "a"', "a list of texts, [a, b]"]),
    ("runs: [1]\n", ["p.yaml:1", "runs", "list"]),
    ("seed: 1\nselection: 0.2\nseed: 2\n", ["p.yaml:3", "seed", "twice", "line 1"]),
    ("- seed\n", ["p.yaml:1", "not a mapping"]),
    ("just text\n", ["p.yaml:1", "not a mapping"]),
    ("seed: 1\nseed2: [1\n", ["p.yaml:", "not valid YAML"]),
    ("seed: *x\n", ["p.yaml:1", "not valid YAML"]),
    ("? [a]\n: 1\n", ["p.yaml:1", "key: value"]),
    ("a: &a {seed: 1}\n<<: *a\n", ["p.yaml:1", "anchor &a", "give the value alone"]),
    ("a: *a\n", ["p.yaml:1", "alias *a", "write the value out"]),
    ("<<: {seed: 1}\n", ["p.yaml:1", "not a plain key"]),
    # numbers that are not what they look like: 8, 90, 16, 1000, 2, 5400.5
    *(
        (f"seed: 1\nselection: {text}\n", [f"p.yaml:2: selection: {text} is a number or a date", "plain decimal"])
        for text in ("010", "1:30", "0x10", "1_000", "0b10", "1:30:00.5", "+012", "2001-99-99", "1__0")
    ),
    (f"seed: {'9' * 5000}\n", ["p.yaml:1: seed: 999", "9... is a number", "plain decimal"]),
    ("seed: !!int abc\n", ["p.yaml:1", "not valid YAML", "tag"]),
    ("seed: !!float 1\n", ["p.yaml:1", "tag"]),
    ("seed: !!python/object/apply:os.getcwd []\n", ["p.yaml:1", "tag"]),
    ("seed: !!binary abc\n", ["p.yaml:1", "tag"]),
    (f"\nruns: {'[' * 3000}{']' * 3000}\n", ["p.yaml:2", "not valid YAML", "nested more than 20 times"]),
    (f"runs: {'[' * 3000}\n", ["p.yaml:1", "nested more than 20 times"]),
    ("runs: &x [*x]\n", ["p.yaml:1", "anchor &x"]),
    ("1: 2\n0x1: 3\n", ["p.yaml:1: 1: unknown parameter"]),
    ("yes: 2\n", ["p.yaml:1: yes: unknown parameter"]),
    ("seed: {a: 1,\n  a: 2}\n", ["p.yaml:2: a is given twice, first on line 1"]),
    ("runs: [[{a: 1, a: 2}]]\n", ["p.yaml:1: a is given twice"]),
    ("seed: 1\n---\nseed: 2\n", ["p.yaml:2", "not valid YAML"]),
    ("seed: \x07\n", ["p.yaml: not valid YAML", "U+0007"]),
    (f"model: {'x' * 100_000}\n", ["p.yaml:1: model: xxx", "xxx... is not accepted"]),
    (f"{'x' * 500}: 1\n", ["p.yaml:1: xxx", "xxx...: unknown parameter"]),
    ('model: "a\\x1b]0;title\\x07"\n', ["p.yaml:1: model: a\\x1b]0;title\\x07 is not accepted"]),
]
ON_THE_COMMAND_LINE = [
    (["sed=1"], ["command line: sed", "did you mean seed"]),
    (["seed=a"], ["command line: seed", 'text "a"', "whole number"]),
    (["seed="], ["command line: seed", "empty"]),
    (["learning_rate=1e-5"], ["command line", "write 1.0e-5"]),
    (["learning_rate=" + "9" * 400], ["command line: learning_rate", "(0, inf)"]),
    (["seed=1", "seed=2"], ["seed", "twice"]),
    (["runs=[a"], ["runs", "[a"]),
    (["seed=010"], ["command line: seed: 010 is a number or a date in another form, give a plain decimal"]),
    (["seed=!!int abc"], ["command line: seed", "cannot be read as a YAML value"]),
    (["runs=" + "[" * 3000], ["command line: runs", "cannot be read as a YAML value"]),
    (["seed=" + "9" * 5000], ["command line: seed: 999", "plain decimal"]),
    (["seed=2001-99-99"], ["command line: seed: 2001-99-99", "plain decimal"]),
    (["nowhere.yaml"], ["nowhere.yaml", "no such file"]),
]
IN_THE_CELL = [
    ("seed = 1", ["parameters cell", "`seed = 1`", "name: type = value"]),
    ("import os", ["name: type = value"]),
    ("seed: int = 1 + 1", ["plain value"]),
    ("seed: float = 1", ["annotate it as int"]),
    ("runs: str = 'a'", ["annotate it as list"]),
    ("selection: float | None = 1.3", ["selection: 1.3", "(0, 1)"]),
    ("unheard_of: int = 1", ["unheard_of", "no setting of NotebookSettings"]),
    ("seed: int = 1\nseed: int = 2", ["twice"]),
    ("seed: int =", ["line 1"]),
]
TOGETHER_IN_NOTEBOOKS = [
    ("12_train_sst", ["dynamics=authors"], "multiplier_init: 0 is not accepted with dynamics authors"),
    ("10_first_rationale", ["aspect=value"], "aspect: value is not accepted, give one of look, smell"),
    ("10_first_rationale", ["num_test=0"], r"num_test: 0 is not accepted, give a whole number in \[1, inf\)"),
    ("16_failures", ["num_dev=0"], r"num_dev: 0 is not accepted, give a whole number in \[1, inf\)"),
    ("11_train_reviews", ["model=softmax"], "model: softmax is not accepted, give one of full_text, attention, svm"),
    ("11_train_reviews", ["corpus=nli_small"], "corpus: nli_small is not accepted, give one of beer, hotel"),
    ("11_train_reviews", ["corpus=films.csv"], "aspect: look is not accepted with corpus .*films.csv; give overall"),
    ("11_train_reviews", ["corpus=hotels"], "aspect: look is not accepted with corpus hotels; give one of value"),
    ("12_train_sst", ["model=svm"], "model: svm is not accepted, give one of full_text, attention, hardkuma"),
    ("13_train_nli", ["model=bernoulli"], "model: bernoulli is not accepted, give one of softmax"),
    ("13_train_nli", ["corpus=hotels"], "corpus: hotels is not accepted, give one of nli_small, snli"),
    ("13_train_nli", ["normalised=true"], "normalised: true is not accepted with model softmax; give false"),
    ("13_train_nli", ["selection=0.1"], "selection: 0.1 is not accepted with model softmax; give null, or hardkuma"),
    ("13_train_nli", ["lam=0.2"], "lam: 0.2 is not accepted with model softmax; give 0.1"),
    ("13_train_nli", ["model=fusedmax", "power=1.2"], "power: 1.2 is not accepted with model fusedmax; give 1.5"),
    ("13_train_nli", ["model=hardkuma", "gamma=2.0"], "gamma: 2 is not accepted with model hardkuma; give 1"),
    ("13_train_nli", ["model=recurrent", "intra=true"], "intra: true is not accepted with model recurrent"),
    ("12_train_sst", ["rule=threshold", "threshold=0"], r"threshold: 0 is not accepted, give a number in \(0, 1\]"),
    (
        "13_train_nli",
        ["model=hardkuma", "rule=expected", "selection=0.1"],
        "rule: expected is not accepted with measure",
    ),
    ("13_train_nli", ["model=hardkuma", "rule=top_k"], "rule: top_k is not accepted, give one of argmax"),
    ("15_train_seq2seq", ["hidden_size=33"], "hidden_size: 33 is not accepted .* give an even number"),
    ("15_train_seq2seq", ["gamma_moves=0.5"], "gamma_moves: 0.5 is not accepted without gamma_start; give 0, or"),
    ("15_train_seq2seq", ["gamma_start=4"], "gamma_moves: 0 is not accepted with gamma_start; give a number above 0"),
    ("15_train_seq2seq", ["corpus=aeslc", "language=fr"], "language: fr is not accepted with corpus aeslc; give de"),
    ("14_train_probes", ["methods=[attention]"], "methods: attention is not accepted with corpus toy, it needs"),
    ("14_train_probes", ["corpus=sst", "reader=gru", "methods=[attention]"], "it needs a transformer"),
    ("14_train_probes", ["corpus=sst", "methods=[erasure]"], "it needs texts of few positions"),
    ("14_train_probes", ["reader=gru"], "reader: gru is not accepted with corpus toy; give transformer"),
    ("14_train_probes", ["corpus=xquad", "reader=gru", "methods=[states]"], "reader: gru is not accepted with corpus"),
    (
        "14_train_probes",
        ["methods=[]"],
        "methods: \\[\\] is not accepted as nothing would be attributed; give some of states",
    ),
    ("14_train_probes", ["methods=[states, guesses]"], "give some of states, inputs"),
    ("14_train_probes", ["corpus=xquad", "methods=[integrated_gradients]"], "it needs one answer per text, not a span"),
    ("14_train_probes", ["corpus=squad", "methods=[states, information_bottleneck]"], "it needs one answer per text"),
]


def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path):
    for text, parts in IN_A_FILE:
        message = refusal(notebook(tmp_path), file(tmp_path, text))
        for part in parts:
            assert part in message, f"{text!r}: {part!r} is not in: {message}"


def test_a_mistake_on_the_command_line_is_named(tmp_path):
    for items, parts in ON_THE_COMMAND_LINE:
        message = refusal(notebook(tmp_path), *items)
        for part in parts:
            assert part in message, f"{items}: {part!r} is not in: {message}"


@pytest.mark.parametrize("text", ["stars #2", "/data/my #1/r.csv", "[a, b] # two", "0.2 #"])
def test_what_yaml_would_leave_out_of_a_value_on_the_command_line_is_refused(text):
    with pytest.raises(BadInput, match=r"^command line: label: .* stands behind the value and would not be read, give"):
        read_override(f"label={text}")
    assert read_override(f"label={json.dumps(text)}")[2] == text, "in quotes it is part of the text"


@pytest.mark.parametrize("text", ["stars#2", "[a, b] ", "0.2\n", "'#1'", "a b", "|\n  a\n", "{a: 1} "])
def test_nothing_is_left_out_of_a_value_on_the_command_line_without_a_comment(text):
    assert read_override(f"label={text}")[2] == yaml.safe_load(text)


def test_a_mistake_in_the_parameters_cell_is_named(tmp_path):
    for cell, parts in IN_THE_CELL:
        message = refusal(notebook(tmp_path, cell))
        for part in parts:
            assert part in message, f"{cell!r}: {part!r} is not in: {message}"


def test_values_that_exclude_each_other_are_refused_in_one_line_with_what_is_accepted():
    for name, items, message in TOGETHER_IN_NOTEBOOKS:
        with pytest.raises(BadInput, match=message):
            resolve(root() / "notebooks" / f"{name}.py", items)


def test_the_table_of_mistakes_has_at_least_sixty_rows():
    assert len(IN_A_FILE) + len(ON_THE_COMMAND_LINE) + len(IN_THE_CELL) + len(TOGETHER_IN_NOTEBOOKS) >= 60


def test_a_name_that_the_class_has_not_and_a_setting_that_must_be_given_are_named(tmp_path):
    path = notebook(tmp_path, "sed: int = 1", cls="ExtractionSettings")
    assert "sed: no setting of ExtractionSettings, did you mean seed" in refusal(path)
    path = notebook(tmp_path, "seed: int = 1", cls="ReviewSettings")
    assert "parameters cell: corpus is missing, give one of beer" in refusal(path)


def test_a_misspelt_file_name_gets_a_suggestion(tmp_path):
    file(tmp_path, "seed: 1")
    assert "did you mean" in refusal(notebook(tmp_path), str(tmp_path / "pp.yaml"))


def test_a_folder_or_a_binary_file_is_no_parameter_file(tmp_path):
    assert "cannot be read" in refusal(notebook(tmp_path), str(tmp_path))
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00\x01")
    assert "cannot be read" in refusal(notebook(tmp_path), str(tmp_path / "b.yaml"))


def test_a_byte_order_mark_costs_no_key(tmp_path):
    assert resolve(notebook(tmp_path), [file(tmp_path, "\ufeffseed: 7\n")])["seed"] == 7


def test_plain_decimals_are_read_as_python_reads_them(tmp_path):
    for text in ("0", "7", "+5", "0.5", ".5", "5.", "-0", "0.50", "1.5e+3", "1.0e-05", "12345678901234567890"):
        ((_, _, value),) = read_file(file(tmp_path, f"a: {text}\n"))
        assert value == ast.literal_eval(text.lstrip("+")), text
        assert read_override(f"a={text}")[2] == value


def test_a_notebook_without_the_tag_is_refused_because_its_defaults_would_win(tmp_path):
    with pytest.raises(BadInput, match="0 cells tagged"):
        resolve(notebook(tmp_path, tag=""), [])


# --- the classes


def test_every_setting_has_a_type_a_meaning_and_readable_limits():
    for cls in {*TASKS, *known()}:
        for name, field in cls.model_fields.items():
            where = f"{cls.__name__}.{name}"
            assert set(plain_types(cls, name)) <= {int, float, bool, str, list}, where
            assert field.description and not field.description.endswith("."), where
            assert accepts(cls, name), where
            interval = (field.json_schema_extra or {}).get("interval", "")
            assert not (interval and choices(cls, name)), where
            if interval:
                low, high = map(float, interval[1:-1].split(","))
                assert low < high and interval[0] in "[(" and interval[-1] in "])", where


def test_every_default_is_accepted_by_its_own_setting():
    for cls in TASKS:
        for name, field in cls.model_fields.items():
            if not field.is_required():
                assert cls.check(name, field.get_default()) == field.get_default(), f"{cls.__name__}.{name}"


def test_a_setting_belongs_to_one_component_and_a_subclass_changes_nothing_but_its_default():
    for cls in TASKS:
        groups = components(cls)
        names = [name for group in groups.values() for name in group]
        assert sorted(names) == sorted(cls.model_fields), cls.__name__
        assert all(component.__doc__ for component in groups)


def test_a_setting_belongs_to_the_component_that_defines_it_first_also_where_it_is_narrowed():
    class Colour(Settings):
        name: str = setting("grey", "any colour")

    class Drawing(Colour):
        name: Literal["grey", "blue"] = setting("grey", "a colour that there is paint of")
        size: int = setting(1, "size", "[1, inf)")

    assert components(Drawing) == {Drawing: ["size"], Colour: ["name"]}


class Width(Settings):
    """Numbers with limits of every kind."""

    open_closed: float = setting(0.5, "share", "(0, 1]")
    closed_open: float = setting(0.5, "share", "[0, 1)")
    below: float = setting(-1.0, "negative", "(-inf, 0)")
    above: float = setting(1.0, "at least 0", "[0, inf)")


def test_intervals_are_read_as_in_mathematics():
    for name, value, inside in (
        ("open_closed", 0.0, False),
        ("open_closed", 1e-300, True),
        ("open_closed", 1.0, True),
        ("closed_open", 1.0, False),
        ("closed_open", 0.0, True),
        ("below", -0.1, True),
        ("below", 0.0, False),
        ("above", float("nan"), False),
        ("above", float("inf"), False),
        ("above", 2**100, True),
    ):
        if inside:
            assert Width.check(name, value) == value, (name, value)
        else:
            with pytest.raises(BadInput):
                Width.check(name, value)


NAMES = [(cls, name) for cls in TASKS for name in sorted(cls.model_fields)]


@given(
    st.sampled_from(NAMES),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.lists(st.text()),
        st.dates(),
        st.dictionaries(st.text(), st.integers()),
    ),
)
def test_any_value_is_either_accepted_with_the_right_type_or_refused_in_one_line(which, value):
    cls, name = which
    try:
        kept = cls.check(name, value)
    except BadInput as error:
        assert str(error).startswith(f"{name}: ")
    else:
        assert type(kept) in plain_types(cls, name) or (kept is None and may_be_null(cls, name))


def test_settings_of_a_component_are_taken_from_those_of_a_task_and_keep_defaults_for_the_rest():
    p = tasks.ExtractionSettings(hidden_size=20, selection=0.2)
    from rationale.objectives.constraint import ConstraintSettings

    assert ConstraintSettings.of(p) == ConstraintSettings(selection=0.2)
    assert ConstraintSettings.of(object()) == ConstraintSettings()


# --- in the notebook


def test_validated_takes_annotated_names_and_nothing_else():
    given = {"__annotations__": {"seed": int}, "seed": 3, "selection": 0.1, "a": pytest, "_": 1}
    assert validated(given, tasks.ExtractionSettings) == tasks.ExtractionSettings(seed=3)


def test_validated_takes_what_papermill_has_put_behind_the_cell():
    given = {"__annotations__": {"seed": int}, "seed": 3, "hidden_size": 7, "samples": 9}
    given["In"] = ["", "seed: int = 3", "# Parameters\nhidden_size = 7\n", "samples = 9"]
    p = validated(given, tasks.ExtractionSettings)
    assert (p.hidden_size, p.samples) == (7, 1), "a name that a later cell uses for something else is no parameter"
    given["In"].append("# Parameters\nhiden_size = 7\n")
    with pytest.raises(BadInput, match="hiden_size: unknown parameter, did you mean hidden_size"):
        validated(given | {"hiden_size": 7}, tasks.ExtractionSettings)


def test_a_nul_is_told_as_any_other_mistake_by_each_version_of_python(monkeypatch):
    def parse_of_before(source, *_):  # of Python 3.11.2
        raise ValueError("source code string cannot contain null bytes")

    with monkeypatch.context() as earlier:  # pytest itself parses files where a test fails
        earlier.setattr(cells.ast, "parse", parse_of_before)
        parsed = cells._parsed("a = 1\n\x00")
        with pytest.raises(BadInput, match="cell 1: source code string cannot contain null bytes"):
            cells.assignments("seed: int = 1\n\x00", "cell 1: ")
        only_imports = folding._only_imports("import os\n\x00")
    assert parsed == [] and not only_imports


def test_the_beginning_of_a_name_is_enough_to_be_told_the_name():
    with pytest.raises(BadInput, match=r"stop: unknown parameter, did you mean stop_after\?"):
        tasks.OwnTextSettings.check("stop", 1)


def test_a_percentage_is_told_as_the_share_that_it_means():
    told_as = {20: "0.2 for 20 %", 7.5: "0.075 for 7.5 %", "20%": "0.2 for 20 %", "0.5 %": "0.005 for 0.5 %"}
    for value, told in told_as.items():
        for name in ("selection", "dropout"):
            with pytest.raises(BadInput, match=rf"{name}: .*{value}.* is not accepted, give .*, such as {told} "):
                tasks.OwnTextSettings.check(name, value)
    no_share = [("selection", value) for value in (100, -20, "20", "200%", "a%")]
    for name, value in [*no_share, ("seed", 1.5)]:
        with pytest.raises(BadInput, match=r"^(?!.*such as)"):
            tasks.OwnTextSettings.check(name, value)


def test_a_setting_of_another_notebook_is_told_where_it_is():
    path = root() / "notebooks/17_train_own_texts.py"
    with pytest.raises(BadInput, match="second: these are single texts; pairs are for the notebook 13_train_nli"):
        resolve(path, ["second=reply"])


def test_a_cell_that_validates_can_be_run_again_after_the_names_were_used_for_something_else():
    notebook: dict = {}
    exec("seed: int = 3\nselection: float | None = 0.4", notebook)
    first = validated(notebook)
    exec("left, right = 'one axis', 'another'\nrule = object()\nepochs = 0", notebook)
    assert validated(notebook) == first
    exec("selection = 0.2", notebook)  # as from a parameter file
    assert validated(notebook).selection == 0.2


def test_validated_refuses_what_the_runner_refuses():
    with pytest.raises(BadInput, match=r"selection: 1.3 is not accepted, give a number in \(0, 1\)"):
        validated({"selection": 1.3, "__annotations__": {"selection": float}})


def test_a_parameters_cell_shows_a_handful():
    for path in sorted((root() / "notebooks").glob("*.py")):
        most = 8 if path.stem.startswith("10") else 12
        assert len(parameters_cell(path)) <= most, f"{path.stem}: {len(parameters_cell(path))} lines, at most {most}"


def test_a_cell_repeats_no_default_that_its_task_has_set_for_this_notebook():
    for path in TRAINING:
        cls = settings_class(path)
        base = cls.__mro__[1]
        for name in parameters_cell(path):
            changed = name in base.model_fields and base.model_fields[name].default != cls.model_fields[name].default
            assert not changed, f"{path.stem}: {name} has a default in {cls.__name__} and another in the cell"


# --- gates, estimators and rules that exclude each other

HELD = {"model": "bernoulli", "selection": 0.4}
PRICED = {"model": "bernoulli", "selection": None, "transitions": None}

EXCLUDED = [  # what is refused, and the key, the value and what is accepted
    ({"model": "bernoulli", "baseline": "leave_one_out"}, ["samples: 1", "leave_one_out", "a whole number from 2"]),
    ({"model": "hardkuma", "penalty": "sampled"}, ["penalty: sampled", "model hardkuma", "give expected"]),
    ({"model": "straight_through", "penalty": "sampled"}, ["penalty: sampled", "straight_through", "give expected"]),
    ({"model": "full_text", "penalty": "sampled"}, ["penalty: sampled", "model full_text", "give expected"]),
    ({"model": "full_text", "dependent": True}, ["dependent: true", "model full_text", "give false"]),
    ({"model": "full_text", "sparsity": 0.1}, ["sparsity: 0.1", "model full_text", "a model with gates"]),
    ({"model": "full_text", "coherence": 0.1}, ["coherence: 0.1", "model full_text", "a model with gates"]),
    ({"model": "full_text", "samples": 2}, ["samples: 2", "model full_text", "a model with gates"]),
    ({"model": "full_text", "rule": "top_k", "budget": 0.1}, ["rule: top_k", "model full_text", "argmax"]),
    ({"model": "full_text", "rule": "expected"}, ["rule: expected", "model full_text", "argmax, or a model"]),
    ({"model": "attention", "rule": "sample"}, ["rule: sample", "model attention", "argmax, or a model with gates"]),
    ({"model": "full_text", "entropy": 0.1}, ["entropy: 0.1", "model full_text", "a model with gates"]),
    ({"model": "hardkuma", "baseline": "average"}, ["baseline: average", "model hardkuma", "give none"]),
    ({"model": "hard_concrete", "baseline": "self_critical"}, ["baseline: self_critical", "give none"]),
    (HELD | {"penalty": "sampled"}, ["dynamics: signed", "penalty sampled", "give dynamics=authors"]),
    (PRICED | {"penalty": "sampled"}, ["penalty: sampled", "without a price or a target", "give expected"]),
    (PRICED | {"penalty": "sampled", "transitions": 0.1}, ["dynamics: signed", "penalty sampled", "dynamics=authors"]),
    (HELD | {"dependent": True}, ["penalty: expected", "dependent", "give sampled"]),
    (PRICED | {"dependent": True, "transitions": 0.1}, ["penalty: expected", "dependent", "give sampled"]),
    ({"model": "hardkuma", "dependent": True, "rule": "top_k", "budget": 0.1}, ["rule: top_k", "dependent", "argmax"]),
    ({"model": "hardkuma", "rule": "top_k"}, ["budget: 1", "keeps everything", "(0, 1)"]),
    ({"model": "hardkuma", "budget": 0.1}, ["budget: 0.1", "rule argmax", "rule=top_k"]),
    ({"model": "hardkuma", "threshold": 0.1}, ["threshold: 0.1", "rule argmax", "rule=threshold"]),
    ({"selection": 0.2, "measure": "selected", "rule": "expected"}, ["rule: expected", "does not depend", "argmax"]),
    (HELD | {"measure": "selected", "rule": "top_k", "budget": 0.5}, ["rule: top_k", "measure=expected"]),
    ({"selection": 0.2, "epochs": 5, "constraint_from": 6}, ["constraint_from: 6", "epochs 5", "a number up to 5"]),
    ({"transitions": 0.2, "epochs": 5, "constraint_from": 6}, ["constraint_from: 6", "epochs 5", "a number up to 5"]),
    ({"selection": 0.2, "multiplier_init": 5.0, "multiplier_max": 0.5}, ["multiplier_init: 5", "multiplier_max 0.5"]),
    ({"selection": 0.2, "multiplier_init": 0.0, "multiplier_min": 0.5}, ["multiplier_init: 0", "multiplier_min 0.5"]),
    ({"model": "hardkuma", "look_ahead": True}, ["look_ahead: true", "dependent=false", "give false"]),
    (PRICED | {"dependent": True, "look_ahead": True}, ["look_ahead: true", "model bernoulli", "give false"]),
    ({"model": "attention", "pool": "mean"}, ["pool: mean", "model attention", "give final or attention"]),
    ({"model": "straight_through", "predictor": "compact"}, ["predictor: compact", "passes no gradient", "zero"]),
    ({"dynamics": "authors", "multiplier_init": 0.1, "quadratic": 3.0},
     ["quadratic: 3", "with dynamics authors", "give 50, or dynamics=signed"]),
    ({"measure": "training", "measure_every": 5},
     ["measure_every: 5", "measure training, which measures in every step", "give 1, or measure=expected"]),
    ({"dynamics": "authors", "multiplier_init": 0.1}, ["dynamics: authors", "without a target", "give signed, or"]),
    ({"sparsity": 0.1, "multiplier_init": 1.0}, ["multiplier_init: 1", "without a target", "give 0, or a"]),
    ({"multiplier_max": 5.0}, ["multiplier_max: 5", "without a target", "give null, or a number for selection"]),
    ({"multiplier_min": 0.0}, ["multiplier_min: 0", "without a target", "give null, or a number for selection"]),
    ({"smoothing": 0.5}, ["smoothing: 0.5", "without a target", "give 0.8, or a number for selection"]),
    ({"constraint_from": 2}, ["constraint_from: 2", "without a target", "give 1, or a number for selection"]),
    ({"model_choice": "authors", "tolerance": 0.5}, ["tolerance: 0.5", "with model_choice authors", "give 0.01, or"]),
    ({"model_choice": "authors", "patience": 2},
     ["patience: 2", "which passes over the first 3 epochs in any case", "give 0, or a number from 3"]),
    ({"encoder": "lstm", "pretrained": "x"}, ["pretrained: x", "with encoder lstm", "give minilm, or encoder=t"]),
    ({"embedding_size": 50}, ["embedding_size: 50", "with vectors glove.840B.300d, which have", "or vectors=random"]),
    ({"train_vectors": True}, ["train_vectors: true", "with vectors glove.840B.300d", "give false, or vectors=random"]),
    ({"train_vectors": True, "vectors": "random", "encoder": "minilm"}, ["train_vectors: true", "with encoder minilm"]),
    ({"hidden_size": 50, "encoder": "minilm"}, ["hidden_size: 50", "with encoder minilm", "give 150, or encoder=lstm"]),
    ({"embedding_size": 50, "vectors": "random", "encoder": "minilm"}, ["embedding_size: 50", "reads no word vectors"]),
    ({"vectors_scale": 0.5, "encoder": "minilm"}, ["vectors_scale: 0.5", "with encoder minilm, which reads no word v"]),
    ({"model": "bernoulli", "left": -0.2}, ["left: -0.2", "with model bernoulli", "give -0.1, or a model"]),
    ({"model": "full_text", "right": 1.2}, ["right: 1.2", "with model full_text", "give 1.1, or a model with stretch"]),
]  # fmt: skip

IDLE = [  # the same of other tasks: the notebook, what is given, and the message
    ("11_train_reviews", ["dynamics=authors", "multiplier_init=0.1", "quadratic=3"],
     "quadratic: 3 is not accepted with dynamics authors; give 1, or dynamics=signed"),
    ("11_train_reviews", ["corpus=hotels", "aspect=location", "correlation=0.5"],
     "correlation: 0.5 is not accepted with corpus hotels, which is not made up; give 0, or corpus=synthetic"),
    ("11_train_reviews", ["split_seed=2"], "split_seed: 2 is not accepted with corpus synthetic; give 1, or a file"),
    ("13_train_nli", ["head=scores"], "head: scores is not accepted with corpus nli_small; give auto, or a file"),
    ("13_train_nli", ["second=reply"], "second: reply is not accepted with corpus nli_small; give second, or a file"),
    ("13_train_nli", ["rule=expected"], "rule: expected is not accepted with model softmax; give argmax, or a model"),
    ("13_train_nli", ["smoothing=0.5"],
     "smoothing: 0.5 is not accepted without a target; give 0.9, or a number for selection"),
    ("13_train_nli", ["left=-0.2"], "left: -0.2 is not accepted with model softmax; give -0.1, or a model with"),
    ("13_train_nli", ["embedding_size=100"],
     "embedding_size: 100 is not accepted with vectors glove.6B.50d, which have a size of their own; give 300, or"),
    ("14_train_probes", ["votes=bilinear", "hidden_size=96"],
     "hidden_size: 96 is not accepted with votes bilinear; give 32, or votes=mlp"),
    ("14_train_probes", ["methods=[erasure]", "votes=bilinear"],
     "votes: bilinear is not accepted with methods erasure; give mlp, or states or inputs in methods"),
    ("14_train_probes", ["methods=[erasure]", "divergence=js"], "divergence: js is not accepted with methods erasure"),
    ("14_train_probes", ["methods=[erasure]", "form=log"], "form: log is not accepted with methods erasure; give prob"),
    ("14_train_probes", ["methods=[erasure]", "margin=0.5"], "margin: 0.5 is not accepted with methods erasure; give"),
    ("14_train_probes", ["methods=[masks_by_released_score]", "multiplier_init=3"],
     "multiplier_init: 3 is not accepted with methods masks_by_released_score; give 0.1, or states"),
    ("14_train_probes", ["methods=[states]", "num_steps=9"], "num_steps: 9 is not accepted with methods states; give"),
    ("14_train_probes", ["methods=[states, inputs]", "num_explained=9"],
     "num_explained: 9 is not accepted with methods states, inputs; give 0, or integrated_gradients in methods"),
    ("14_train_probes", ["pretrained=bert"],
     "pretrained: bert is not accepted with corpus toy, whose texts are symbols; give minilm, or a corpus of words"),
    ("14_train_probes", ["corpus=sst", "methods=[states]", "embedding_size=8"],
     "embedding_size: 8 is not accepted with a transformer, which has a size of its own; give 64, or reader=gru"),
    ("14_train_probes", ["model_epochs=0"],
     "model_epochs: 0 is not accepted with a transformer of random weights, which nothing would train; give 1 or more"),
    ("14_train_probes", ["corpus=sst", "methods=[states]", "model_epochs=0", "model_learning_rate=0.1"],
     "model_learning_rate: 0.1 is not accepted with model_epochs 0; give 0.001, or a positive model_epochs"),
    ("16_failures", ["skew=none", "skew_steps=800"],
     "skew_steps: 800 is not accepted with skew none; give 1600, or skew=selector"),
    ("17_train_own_texts", ["text=body", "label=stars"],
     "text: body is not accepted with corpus synthetic; give text, or a file or folder of your own as corpus"),
    ("17_train_own_texts", ["head=classes"], "head: classes is not accepted with corpus synthetic; give auto, or"),
    ("17_train_own_texts", ["rationale=marks"],
     "rationale: marks is not accepted with corpus synthetic; give an empty value, or a file or folder"),
    ("17_train_own_texts", ["encoder=minilm", "hidden_size=32"],
     "hidden_size: 32 is not accepted with encoder minilm; give 64, or encoder=lstm"),
    ("17_train_own_texts", ["encoder=minilm", "vectors=glove.6B.50d"],
     "vectors: glove.6B.50d is not accepted with encoder minilm, which reads no word vectors; give random, or"),
]  # fmt: skip


@pytest.mark.parametrize(("stem", "items", "told"), IDLE)
def test_a_setting_that_nothing_would_use_is_refused_and_goes_back_if_a_file_gave_it(tmp_path, stem, items, told):
    path, key = root() / "notebooks" / f"{stem}.py", told.partition(":")[0]
    assert told in refusal(path, *items)
    given = next(item for item in items if item.startswith(f"{key}="))
    others = [item for item in items if item != given and not item.startswith("label=")]
    values, notes = merge(path, [file(tmp_path, given.replace("=", ": ")), *others]) if others else ({}, [])
    assert not others or (values[key] != given.partition("=")[2] and any(note.startswith(key) for note in notes))


def test_what_nothing_uses_by_default_is_no_mistake():
    own = {"corpus": "synthetic", "vectors": "glove.6B.50d"}
    assert tasks.OwnTextSettings.checked(own).train_vectors, "the default, which files of vectors do not use"
    followed = {"dynamics": "authors", "multiplier_init": 0.1, "multiplier_rate": 0.1}
    assert tasks.OwnTextSettings.checked({"corpus": "synthetic"} | followed).quadratic is None
    tuned = {"corpus": "synthetic", "encoder": "minilm", "measure": "training"}
    assert tasks.OwnTextSettings.checked(tuned).measure_every == 4, "a default that follows from the encoder"
    assert resolve(root() / "notebooks" / "16_failures.py", ["skew=none"])["skew_steps"] == 1600, "as its cell has it"
    every = {"measure": "training", "measure_every": 1}
    assert tasks.SSTSettings.checked(every).measure_every == 1, "what this measure does"
    reviews = {"corpus": "beer", "aspect": "look", "dependent": True, "selection": 0.1}
    assert tasks.ReviewSettings.checked(reviews | followed).quadratic == 1


def test_the_usual_value_is_the_default_of_the_task_and_the_unused_one_that_of_the_component():
    assert tasks.ReviewSettings.usual("look_ahead") and not tasks.ReviewSettings.unused("look_ahead")
    assert (tasks.ReviewSettings.usual("quadratic"), tasks.ReviewSettings.unused("quadratic")) == (1, 50)


def test_a_linear_machine_has_its_only_rule_by_default_and_asks_for_the_share_of_words(tmp_path):
    path = root() / "notebooks" / "11_train_reviews.py"
    budget = "budget: 1 is not accepted with rule top_k: it keeps everything; give a number in (0, 1)"
    assert budget in refusal(path, "model=svm") and budget in refusal(path, file(tmp_path, "model: svm\n"))
    for items in (["model=svm", "budget=0.2"], [file(tmp_path, "budget: 0.2\nmodel: svm\n")]):
        values, notes = merge(path, items)
        assert (values["rule"], values["budget"]) == ("top_k", 0.2)
        assert "other defaults follow from these settings: rule top_k" in notes
        assert values_for_kernel(path, values)["rule"] == "top_k"
    told = "rule: sample is not accepted with model svm; give top_k"
    assert told in refusal(path, "model=svm", "rule=sample")


def test_a_finished_run_of_probes_with_settings_that_nothing_used_can_be_read():
    assert modernised({"votes": "bilinear", "hidden_size": 96, "seed": 2}) == {
        "votes": "bilinear", "hidden_size": 32, "seed": 2
    }  # fmt: skip
    assert modernised({"votes": "mlp", "hidden_size": 96})["hidden_size"] == 96

    old = {"corpus": "toy", "methods": ["states"], "num_steps": 500, "num_explained": 64, "margin": 0.5}
    with pytest.raises(BadInput, match="num_steps: 500"):
        tasks.ProbingSettings.checked(old)
    p = tasks.ProbingSettings.recorded(old)
    assert (p.num_steps, p.num_explained, p.margin) == (200, 0, 0.5), "nothing used the first two"
    for wrong, told in (({"methods": []}, "corpus: missing"), (old | {"size": 1}, "size: unknown")):
        with pytest.raises(BadInput, match=told):
            tasks.ProbingSettings.recorded(wrong)


TOGETHER = [
    {"model": "bernoulli", "baseline": "leave_one_out", "samples": 2},
    {"model": "hardkuma", "samples": 4},
    {"model": "hardkuma", "dependent": True},
    {"model": "hardkuma", "dependent": True, "look_ahead": True, "transitions": 0.02},
    {"model": "straight_through", "dependent": True},
    *({"model": name, "entropy": 0.02} for name in ("hardkuma", "hard_concrete", "straight_through", "bernoulli")),
    HELD | {"baseline": "self_critical"},
    HELD | {"penalty": "sampled", "dynamics": "authors", "multiplier_init": 0.001},
    HELD | {"penalty": "sampled", "dynamics": "authors", "multiplier_init": 0.001, "dependent": True},
    PRICED | {"penalty": "sampled", "sparsity": 0.01, "dependent": True},
    PRICED | {"penalty": "sampled", "entropy": 0.01},
    PRICED | {"penalty": "expected", "sparsity": 0.01, "dependent": True},
    {"model": "bernoulli", "rule": "top_k", "budget": 0.2},
    {"selection": 0.2, "rule": "top_k", "budget": 0.2, "measure": "expected"},
    {"selection": 0.2, "epochs": 5, "constraint_from": 5},
    {"transitions": 0.1, "smoothing": 0.5, "multiplier_max": 2.0},
    {"sparsity": 0.1, "measure": "selected", "multiplier_rate": 0.1, "quadratic": 2.0, "gap_max": 0.1},
    {"model": "attention", "rule": "top_k", "budget": 0.2, "pool": "attention"},
    {"model": "attention"},
    {"model": "attention", "rule": "threshold", "threshold": 0.1},
    {"model": "full_text", "pool": "attention", "rule": "threshold", "threshold": 0.1},
    {"model": "full_text", "pool": "mean"},
    {"model_choice": "authors", "patience": 3},
]


def test_what_excludes_each_other_is_refused_with_key_value_and_what_is_accepted():
    for changes, parts in EXCLUDED:
        with pytest.raises(BadInput) as caught:
            tasks.ExtractionSettings.checked(changes)
        message = str(caught.value)
        assert "\n" not in message and message.startswith(parts[0]), f"{changes}: {message}"
        for part in parts:
            assert part in message, f"{part!r} is not in: {message}"


def test_what_goes_together_is_accepted():
    for changes in TOGETHER:
        p = tasks.ExtractionSettings.checked(changes).model_dump()
        assert {name: p[name] for name in changes} == changes


def test_the_runner_refuses_the_same_and_names_the_notebook():
    with pytest.raises(BadInput, match="12_train_sst.py: samples: 1 is not accepted with baseline leave_one_out"):
        resolve(root() / "notebooks" / "12_train_sst.py", ["model=bernoulli", "baseline=leave_one_out"])


def test_a_setting_that_another_one_excludes_is_named_with_the_place_at_which_it_is_given(tmp_path):
    path, file = root() / "notebooks" / "17_train_own_texts.py", tmp_path / "own.yaml"
    told = "label: body is not accepted as it is the column of the texts"
    with pytest.raises(BadInput, match=f"^command line: {told}"):
        resolve(path, ["corpus=r.csv", "text=body", "label=body"])
    file.write_text("corpus: r.csv\ntext: body\nlabel: body\n")
    with pytest.raises(BadInput, match=f"own.yaml:3: {told}"):
        resolve(path, [file])
    with pytest.raises(BadInput, match=f"^command line: {told}"):
        resolve(path, [file, "label=body"])
    with pytest.raises(BadInput, match=f"17_train_own_texts.py: {told}".replace("body", "label")):
        resolve(path, ["corpus=r.csv", "text=label"])


def test_a_notebook_that_knows_no_draws_is_not_asked_about_them(tmp_path):
    assert resolve(notebook(tmp_path), ["model=bernoulli"])["model"] == "bernoulli"


def test_a_short_text_makes_a_search_possible():
    assert resolve(root() / "notebooks" / "14_train_probes.py", ["corpus=sst", "searchable=14", "methods=[erasure]"])


# --- settings that a change leaves without effect


BACK = [  # notebook, files and overrides, the settings that go back
    ("11_train_reviews", ["dependent=false"], {"look_ahead": False}),
    ("11_train_reviews", ["params/reviews/bernoulli.yaml", "model=full_text"],
     {"samples": 1, "baseline": "none", "entropy": 0.0, "selection": None, "transitions": None}),
    ("12_train_sst", ["params/sst/bernoulli_authors.yaml", "model=hardkuma"], {"penalty": "expected"}),
    ("12_train_sst", ["params/sst/attention.yaml", "model=full_text"], {"rule": "argmax", "budget": 1.0}),
    ("13_train_nli", ["params/nli/hardkuma.yaml", "model=softmax"], {"selection": None}),
    ("12_train_sst", ["params/sst/bernoulli.yaml", "model=bernoulli", "seed=2"], {}),
]  # fmt: skip


def test_what_a_change_leaves_without_effect_goes_back_and_nothing_else(monkeypatch):
    monkeypatch.chdir(root())
    for stem, items, back in BACK:
        path = root() / "notebooks" / f"{stem}.py"
        values, notes = merge(path, items)
        plain = defaults(path)
        for item in items:  # the merge without any rule
            given = [read_override(item)] if is_override(item) else read_file(item)
            plain |= {name: value for _, name, value in given}
        changed = {name: value for name, value in values.items() if value != plain[name]}
        assert changed == back, f"{stem} {items}"
        assert sorted(note.split()[0] for note in notes) == sorted(back)


def test_what_was_given_on_the_command_line_or_in_the_same_file_is_refused_instead(tmp_path):
    path = root() / "notebooks" / "11_train_reviews.py"
    for items in (
        ["dependent=false", "look_ahead=true"],
        ["look_ahead=true", file(tmp_path, "dependent: false\n")],
        [file(tmp_path, "dependent: false\nlook_ahead: true\n")],
        [file(tmp_path, "dependent: false\nlook_ahead: true\n"), "seed=2"],
    ):
        assert "look_ahead: true is not accepted with model hardkuma, dependent=false" in refusal(path, *items)


def test_a_target_of_a_model_without_gates_is_refused(tmp_path):
    for stem, line in (("12_train_sst", "selection: 0.3"), ("17_train_own_texts", "transitions: 0.1")):
        path = root() / "notebooks" / f"{stem}.py"
        for model in ("full_text", "attention"):
            message = f"{line} is not accepted with model {model}; give null, or a model with gates"
            assert message in refusal(path, f"model={model}", line.replace(": ", "="))
            assert message in refusal(path, file(tmp_path, f"model: {model}\n{line}\n"))


def test_a_model_of_own_texts_without_gates_has_no_target_by_default():
    path = root() / "notebooks" / "17_train_own_texts.py"
    for model in ("full_text", "attention"):
        values, notes = merge(path, [f"model={model}"])
        assert values["selection"] is None and "selection null" in notes[0]
        assert tasks.OwnTextSettings.checked({"corpus": "synthetic", "model": model}).selection is None


def test_a_setting_may_wait_for_the_one_that_gives_it_an_effect(tmp_path):
    path = root() / "notebooks" / "12_train_sst.py"
    assert resolve(path, [file(tmp_path, "budget: 0.2\n"), "rule=top_k"])["budget"] == 0.2
    assert "budget: 0.2 is not accepted with rule argmax" in refusal(path, file(tmp_path, "budget: 0.2\n"), "seed=2")


def test_every_setting_that_may_go_back_goes_to_a_value_that_no_rule_refuses():
    for changes, _ in EXCLUDED:
        values = tasks.ExtractionSettings().model_dump() | changes
        for rule in tasks.ExtractionSettings.violations(values):
            if rule.meaningless:
                repaired = values | {rule.key: tasks.ExtractionSettings.unused(rule.key)}
                left = {other.key for other in tasks.ExtractionSettings.violations(repaired) if other.meaningless}
                assert rule.key not in left, f"{changes}: {rule.key}"
