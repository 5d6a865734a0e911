"""Parameters: what is accepted, and the one line that says what is not."""

import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rationale.errors import BadInput
from rationale.runs import root, validated
from rationale.runs.parameters import KEYS, UNLESS_NAMED, check, completed, defaults, resolve, within

CELL = """
seed: int = 1  # seed
selection: float = 0.4  # share of words to keep
learning_rate: float = 2e-4  # step size
bucketed: bool = True  # similar lengths
model: str = "hardkuma"  # how
runs: list = []  # names
vectors: str = ""  # file
"""


def notebook(folder: Path, cell: str = CELL, tag: str = ' tags=["parameters"]') -> Path:
    path = folder / "some_notebook.py"
    path.write_text(f"# %%{tag}\n{cell.strip()}\n\n# %%\nprint(seed)\n")
    return path


def refusal(folder: Path, *items: str, cell: str = CELL) -> str:
    """The one line with which `items` are refused."""
    with pytest.raises(BadInput) as caught:
        resolve(notebook(folder, cell), items)
    message = str(caught.value)
    assert "\n" not in message, f"more than one line: {message!r}"
    return message


def file(folder: Path, text: str) -> str:
    path = folder / "p.yaml"
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_defaults_come_from_the_tagged_cell(tmp_path):
    assert defaults(notebook(tmp_path)) == {
        "seed": 1,
        "selection": 0.4,
        "learning_rate": 2e-4,
        "bucketed": True,
        "model": "hardkuma",
        "runs": [],
        "vectors": "",
    }


def test_files_and_overrides_are_merged_from_left_to_right(tmp_path):
    first = file(tmp_path, "seed: 5\nselection: 0.1  # a comment\n")
    params = resolve(notebook(tmp_path), [first, "selection=0.2", "runs=[a, b]", "learning_rate=1.0e-5"])
    assert (params["seed"], params["selection"], params["runs"]) == (5, 0.2, ["a", "b"])
    assert params["learning_rate"] == 1e-5


def test_a_whole_number_is_accepted_for_a_float_and_becomes_one(tmp_path):
    value = resolve(notebook(tmp_path), ["selection=1"])["selection"]
    assert type(value) is float and value == 1.0


def test_an_empty_parameter_file_changes_nothing(tmp_path):
    assert resolve(notebook(tmp_path), [file(tmp_path, "# nothing\n")]) == defaults(notebook(tmp_path))


@pytest.mark.parametrize(
    "text, parts",
    [
        ("seed: 1\nselectoin: 0.3\n", ["p.yaml:2", "selectoin", "unknown", "did you mean selection"]),
        ("zzz: 0.3\n", ["p.yaml:1", "zzz", "some_notebook has seed"]),
        ("learning_rate: 1e-5\n", ["p.yaml:1", "learning_rate", 'text "1e-5"', "write 1.0e-5"]),
        ("\n\nselection: 1.3\n", ["p.yaml:3", "selection", "1.3", "(0, 1]"]),
        ("selection: 0\n", ["p.yaml:1", "selection", "(0, 1]"]),
        ("selection: .nan\n", ["p.yaml:1", "selection", "nan", "(0, 1]"]),
        ("learning_rate: .inf\n", ["p.yaml:1", "learning_rate", "inf"]),
        ("seed: true\n", ["p.yaml:1", "seed", "true", "whole number"]),
        ("seed: 2.0\n", ["p.yaml:1", "seed", "2.0", "whole number"]),
        ("seed:\n", ["p.yaml:1", "seed", "empty"]),
        ("bucketed: 1\n", ["p.yaml:1", "bucketed", "true or false"]),
        ("model: hardkumar\n", ["p.yaml:1", "model", "hardkumar", "full_text, attention, hardkuma"]),
        ("vectors: no\n", ["p.yaml:1", "vectors", "false", "text"]),
        ("runs: a\n", ["p.yaml:1", "runs", "list"]),
        ("runs: [1]\n", ["p.yaml:1", "runs", "list"]),
        ("seed: 1\nselection: 0.2\nseed: 2\n", ["p.yaml:3", "seed", "twice", "line 1"]),
        ("- seed\n", ["p.yaml:1", "not a mapping"]),
        ("just text\n", ["p.yaml:1", "not a mapping"]),
        ("seed: 1\nseed2: [1\n", ["p.yaml:", "not valid YAML"]),
        ("seed: *x\n", ["p.yaml:1", "not valid YAML"]),
        ("? [a]\n: 1\n", ["p.yaml:1", "key: value"]),
        ("a: &a {seed: 1}\n<<: *a\n", ["p.yaml:2", "not a plain key"]),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path, text, parts):
    message = refusal(tmp_path, file(tmp_path, text))
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"


@pytest.mark.parametrize(
    "items, parts",
    [
        (["sed=1"], ["command line", "sed", "did you mean seed"]),
        (["seed=a"], ["command line", "seed", 'text "a"']),
        (["learning_rate=1e-5"], ["command line", "write 1.0e-5"]),
        (["seed=1", "seed=2"], ["seed", "twice"]),
        (["runs=[a"], ["runs", "[a"]),
        (["nowhere.yaml"], ["nowhere.yaml", "no such file"]),
    ],
)
def test_a_mistake_on_the_command_line_is_named(tmp_path, items, parts):
    message = refusal(tmp_path, *items)
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"


def test_a_number_too_large_for_a_float_is_refused(tmp_path):
    assert "learning_rate" in refusal(tmp_path, f"learning_rate={10**400}")


def test_a_misspelt_file_name_gets_a_suggestion(tmp_path):
    file(tmp_path, "seed: 1")
    assert "did you mean" in refusal(tmp_path, str(tmp_path / "pp.yaml"))


def test_a_folder_or_a_binary_file_is_no_parameter_file(tmp_path):
    assert "cannot be read" in refusal(tmp_path, str(tmp_path))
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00\x01")
    assert "cannot be read" in refusal(tmp_path, str(tmp_path / "b.yaml"))


@pytest.mark.parametrize(
    "cell, part",
    [
        ("seed = 1", "name: type = value"),
        ("import os", "name: type = value"),
        ("seed: int = 1 + 1", "plain value"),
        ("seed: float = 1", "annotate it as int"),
        ("selection: float = 1.3", "(0, 1]"),
        ("unheard_of: int = 1", "KEYS"),
        ("seed: int = 1\nseed: int = 2", "twice"),
        ("seed: int =", "line 1"),
    ],
)
def test_a_mistake_in_the_parameters_cell_is_named(tmp_path, cell, part):
    assert part in refusal(tmp_path, cell=cell)


def test_a_notebook_without_the_tag_is_refused_because_its_defaults_would_win(tmp_path):
    with pytest.raises(BadInput, match="0 cells tagged"):
        resolve(notebook(tmp_path, tag=""), [])


def test_every_key_has_a_type_a_meaning_and_readable_limits():
    for name, key in KEYS.items():
        assert key.type in (int, float, bool, str, list), name
        assert key.meaning and key.accepts(), name
        assert not (key.interval and key.choices), name
        if key.interval:
            low, high = map(float, key.interval[1:-1].split(","))
            assert low < high and key.interval[0] in "[(" and key.interval[-1] in "])", name


@pytest.mark.parametrize(
    "value, interval, inside",
    [
        (0.0, "(0, 1]", False),
        (1e-300, "(0, 1]", True),
        (1.0, "(0, 1]", True),
        (1.0, "[0, 1)", False),
        (0.0, "[0, 1)", True),
        (-0.1, "(-inf, 0)", True),
        (float("nan"), "[0, inf)", False),
        (float("inf"), "[0, inf)", False),
        (10**30, "[0, inf)", True),
    ],
)
def test_intervals_are_read_as_in_mathematics(value, interval, inside):
    assert within(value, interval) is inside


@given(
    st.sampled_from(sorted(KEYS)),
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
def test_any_value_is_either_accepted_with_the_right_type_or_refused_in_one_line(name, value):
    try:
        assert type(check(name, value)) is KEYS[name].type
    except BadInput as error:
        assert name in str(error)


def test_validated_takes_the_parameters_and_nothing_else():
    p = validated({"seed": 3, "selection": 1, "a": pytest, "b": len, "something": 7, "_": 1})
    assert p == SimpleNamespace(seed=3, selection=1.0, **UNLESS_NAMED)


def test_what_is_not_named_keeps_its_meaning_and_what_is_named_wins():
    assert vars(completed({"samples": 4, "seed": 3})) == UNLESS_NAMED | {"samples": 4, "seed": 3}
    assert validated({"budget": 0.2}).budget == 0.2
    p = completed({})
    p.samples = 7
    assert completed({}).samples == UNLESS_NAMED["samples"] == 1, "the shared values are not handed out"


def test_every_unnamed_value_is_an_accepted_one():
    for name, value in UNLESS_NAMED.items():
        assert check(name, value) == value and type(check(name, value)) is type(value), name
    assert validated(UNLESS_NAMED) == SimpleNamespace(**UNLESS_NAMED), "and they go together"


def test_a_cell_that_validates_can_be_run_again_after_the_names_were_used_for_something_else():
    notebook: dict = {}
    exec("seed: int = 3\nselection: float = 0.4", notebook)
    first = validated(notebook)
    exec("left, right = 'one axis', 'another'\nrule = object()\nepochs = 0", notebook)
    assert validated(notebook) == first
    exec("selection = 0.2", notebook)  # as from a parameter file
    assert validated(notebook).selection == 0.2


def test_validated_refuses_what_the_runner_refuses():
    with pytest.raises(BadInput, match=r"selection: 1.3 is not accepted, give a number in \(0, 1\]"):
        validated({"selection": 1.3})


def test_the_authors_dynamics_need_a_multiplier_to_multiply() -> None:
    with pytest.raises(BadInput, match="multiplier_init: 0 is not accepted with dynamics authors"):
        resolve(root() / "notebooks" / "12_train_sst.py", ["dynamics=authors"])
    assert resolve(root() / "notebooks" / "12_train_sst.py", ["dynamics=authors", "multiplier_init=0.1"])


# --- gates, estimators and rules that exclude each other

HELD = {"model": "bernoulli", "selection": 0.4}
PRICED = {"model": "bernoulli", "selection": 1.0, "transitions": 0.0}

EXCLUDED = [  # what is refused, and the key, the value and what is accepted
    ({"model": "bernoulli", "baseline": "leave_one_out"}, ["samples: 1", "leave_one_out", "a whole number from 2"]),
    ({"model": "hardkuma", "penalty": "sampled"}, ["penalty: sampled", "model hardkuma", "give expected"]),
    ({"model": "straight_through", "penalty": "sampled"}, ["penalty: sampled", "straight_through", "give expected"]),
    ({"model": "full_text", "penalty": "sampled"}, ["penalty: sampled", "model full_text", "give expected"]),
    ({"model": "hardkuma", "baseline": "average"}, ["baseline: average", "model hardkuma", "give none"]),
    ({"model": "hard_concrete", "baseline": "self_critical"}, ["baseline: self_critical", "give none"]),
    (HELD | {"penalty": "sampled"}, ["dynamics: signed", "penalty sampled", "give dynamics=authors"]),
    (PRICED | {"penalty": "sampled", "transitions": 0.1}, ["dynamics: signed", "penalty sampled", "dynamics=authors"]),
    (HELD | {"dependent": True}, ["penalty: expected", "dependent", "give sampled"]),
    (PRICED | {"dependent": True, "transitions": 0.1}, ["penalty: expected", "dependent", "give sampled"]),
    ({"model": "hardkuma", "dependent": True, "rule": "top_k"}, ["rule: top_k", "dependent", "argmax"]),
    ({"model": "hardkuma", "look_ahead": True}, ["look_ahead: true", "dependent=false", "give false"]),
    (PRICED | {"dependent": True, "look_ahead": True}, ["look_ahead: true", "model bernoulli", "give false"]),
    ({"model": "attention", "pool": "mean"}, ["pool: mean", "model attention", "give final or attention"]),
]

TOGETHER = [
    {"model": "bernoulli", "baseline": "leave_one_out", "samples": 2},
    {"model": "hardkuma", "samples": 4},
    {"model": "hardkuma", "dependent": True},
    {"model": "hardkuma", "dependent": True, "look_ahead": True, "transitions": 0.02},
    {"model": "straight_through", "dependent": True},
    HELD | {"baseline": "self_critical"},
    HELD | {"penalty": "sampled", "dynamics": "authors", "multiplier_init": 0.001},
    HELD | {"penalty": "sampled", "dynamics": "authors", "multiplier_init": 0.001, "dependent": True},
    PRICED | {"penalty": "sampled", "sparsity": 0.01, "dependent": True},
    PRICED | {"penalty": "expected", "sparsity": 0.01, "dependent": True},
    {"model": "bernoulli", "rule": "top_k", "budget": 0.2},
    {"model": "attention", "rule": "top_k", "budget": 0.2, "pool": "attention"},
    {"model": "attention"},
    {"model": "full_text", "pool": "mean"},
]


def described(changes: dict) -> str:
    return "-".join(f"{name}={value}" for name, value in changes.items())


def of_sst(changes: dict) -> dict:
    return UNLESS_NAMED | defaults(root() / "notebooks" / "12_train_sst.py") | changes


@pytest.mark.parametrize(
    ("changes", "parts"), EXCLUDED, ids=lambda value: described(value) if isinstance(value, dict) else ""
)
def test_what_excludes_each_other_is_refused_with_key_value_and_what_is_accepted(changes, parts):
    with pytest.raises(BadInput) as caught:
        validated(of_sst(changes))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(parts[0]), message
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"


@pytest.mark.parametrize("changes", TOGETHER, ids=described)
def test_what_goes_together_is_accepted(changes):
    p = vars(validated(of_sst(changes)))
    assert {name: p[name] for name in changes} == changes


def test_the_runner_refuses_the_same_and_names_the_notebook():
    with pytest.raises(BadInput, match="12_train_sst.py: samples: 1 is not accepted with baseline leave_one_out"):
        resolve(root() / "notebooks" / "12_train_sst.py", ["model=bernoulli", "baseline=leave_one_out"])


def test_a_notebook_that_knows_no_draws_is_not_asked_about_them(tmp_path):
    assert resolve(notebook(tmp_path), ["model=bernoulli"])["model"] == "bernoulli"


NOTEBOOK_OF = {
    "sst": "12_train_sst",
    "beer": "11_train_reviews",
    "reviews": "11_train_reviews",
    "nli": "13_train_nli",
    "seq2seq": "15_train_seq2seq",
    "probes": "14_train_probes",
}


@pytest.mark.parametrize(
    "path", sorted((root() / "params").glob("*/*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_every_parameter_file_is_accepted_by_its_notebook(path):
    if path.parent.name != "sweeps":
        notebook = NOTEBOOK_OF.get(path.parent.name, path.stem)
        assert resolve(root() / "notebooks" / f"{notebook}.py", [path])


@pytest.mark.parametrize(
    ("notebook", "items", "message"),
    [
        ("10_first_rationale", ["aspect=value"], "aspect: value is not accepted here; give one of look, smell"),
        ("11_train_reviews", ["model=softmax"], "model: softmax is not for texts; give one of full_text"),
        ("11_train_reviews", ["corpus=nli_small"], "corpus: nli_small is not for this notebook; give one of synthetic"),
        (
            "15_train_seq2seq",
            ["corpus=aeslc", "language=fr"],
            "language: fr is not accepted with aeslc, model softmax; give de",
        ),
        ("13_train_nli", ["model=bernoulli"], "model: bernoulli is not for pairs; give one of softmax"),
        (
            "13_train_nli",
            ["corpus=hotels", "model=hardkuma"],
            "corpus: hotels is not for this notebook; give one of nli_small",
        ),
        ("13_train_nli", ["normalised=true"], "normalised: true is not accepted with model softmax"),
        ("13_train_nli", ["selection=0.1"], "selection: 0.1 is not accepted with nli_small, model softmax; give 1, or"),
        ("13_train_nli", ["lam=0.2"], "lam: 0.2 is not accepted with nli_small, model softmax; give 0.1"),
        ("13_train_nli", ["model=fusedmax", "power=1.2"], "power: 1.2 is not accepted with nli_small, model fusedmax"),
        ("13_train_nli", ["model=hardkuma", "gamma=2.0"], "gamma: 2.0 is not accepted with nli_small, model hardkuma"),
        (
            "13_train_nli",
            ["model=recurrent", "intra=true"],
            "intra: true is not accepted with nli_small, model recurrent",
        ),
        ("13_train_nli", ["model=hardkuma", "rule=top_k"], "rule: top_k is not accepted with nli_small"),
        (
            "15_train_seq2seq",
            ["hidden_size=33"],
            "hidden_size: 33 is not accepted with multi30k, .*give an even number",
        ),
    ],
)
def test_models_and_corpora_of_texts_and_of_pairs_do_not_mix(notebook, items, message):
    with pytest.raises(BadInput, match=message):
        resolve(root() / "notebooks" / f"{notebook}.py", items)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["methods=[attention]"], "methods: attention is not accepted with corpus toy, it needs a transformer"),
        (["corpus=sst", "reader=gru", "methods=[attention]"], "it needs a transformer"),
        (["corpus=sst", "methods=[erasure]"], "it needs texts of few positions"),
        (["methods=[states, guesses]"], "give some of states, inputs"),
        (["corpus=xquad", "methods=[integrated_gradients]"], "it needs one answer a text, not a span"),
        (["corpus=squad", "methods=[states, information_bottleneck]"], "it needs one answer a text, not a span"),
    ],
)
def test_methods_that_cannot_attribute_are_refused_before_any_work(items, message):
    with pytest.raises(BadInput, match=message):
        resolve(root() / "notebooks" / "14_train_probes.py", items)
    assert resolve(root() / "notebooks" / "14_train_probes.py", ["corpus=sst", "searchable=14", "methods=[erasure]"])
