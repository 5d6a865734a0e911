"""The house: what a run's fingerprint covers, and what importing the package costs."""

import ast
import io
import os
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from conftest import at_home

import rationale
from rationale.data.example import data_folder
from rationale.errors import BadInput
from rationale.runs import fingerprint, notebook_path, root

# --- fingerprints


def package_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> Path:
    """A package `rationale` of these files, taken for the repository's; returns its notebook."""
    for name, text in files.items():
        path = tmp_path / (name if name.endswith(".py") else f"rationale/{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    at_home(monkeypatch, tmp_path)
    return tmp_path / "n.py"


ROOMS = {
    "__init__": "",
    "nn/__init__": "from rationale.nn.gates import Gate\nfrom .heads import Head as Top\n__all__ = ['Gate', 'Top']",
    "nn/gates": "from rationale.distributions import laws",
    "nn/heads": "",
    "nn/pools": "",
    "distributions/laws": "",
    "training/__init__": "from rationale.training.loop import fit\n\ndef train():\n    from rationale.nn import pools",
    "training/loop": "",
    "training/probing": "",
    "figures/__init__": "from rationale.figures.curves import draw",
    "figures/curves": "from rationale import errors",
    "errors": "",
    "data/corpora/beer": "from ..tokenise import tokenise",
    "data/corpora/sst": "",
    "data/corpora/__init__": "def find_corpus(name): ...",
    "data/tokenise": "",
}


@pytest.mark.parametrize(
    "code, expected",
    [
        ("from rationale.nn import Gate", "nn/gates distributions/laws"),
        ("from rationale.nn import Top", "nn/heads"),
        ("from rationale.nn import gates", "nn/gates distributions/laws"),
        ("import rationale.nn.heads", "nn/heads"),
        ("import rationale.nn.heads as h", "nn/heads"),
        ("import rationale\nrationale.nn.Gate()", "nn/gates distributions/laws"),
        ("from rationale import nn\nx = nn.Top().score", "nn/heads"),
        ("from rationale import nn as parts\nparts.pools.mean(parts.Top)", "nn/pools nn/heads"),
        ("from rationale import training\ntraining.fit", "training/loop"),
        ("from rationale import training\ntraining.train()", "training/__init__ training/loop nn/pools"),
        ("from rationale import nn\nuse(nn)", "nn/__init__ nn/gates nn/heads nn/pools distributions/laws"),
        ("from rationale.nn import *", "nn/__init__ nn/gates nn/heads nn/pools distributions/laws"),
        ("from rationale import nn", ""),
        ("def f():\n    from rationale.nn import pools", "nn/pools"),
        ("if TYPE_CHECKING:\n    from rationale.nn import pools\nelse:\n    import rationale.nn.heads", "nn/heads"),
        ("import_module('rationale.nn.pools')", "nn/pools"),
        (
            "from rationale.data.corpora import find_corpus\nfind_corpus('sst')",
            "data/corpora/__init__ data/corpora/sst",
        ),
        ("from rationale import figures\nfrom rationale.figures import draw\nfigures.draw()", ""),
        ("import torch.nn\nfrom torch import nn\nnn.Gate", ""),
        ("def f(:", ""),
    ],
)
def test_the_code_a_run_depends_on_is_followed_to_the_files_that_define_it(tmp_path, monkeypatch, code, expected):
    notebook = package_of(tmp_path, monkeypatch, ROOMS | {"n.py": code})
    first, *others = fingerprint.sources(notebook)
    found = {str(path.relative_to(tmp_path / "rationale").with_suffix("")) for path in others}
    assert first == notebook and found == set(expected.split())


def test_of_the_corpora_only_the_one_that_the_parameters_name_counts(tmp_path, monkeypatch):
    notebook = package_of(tmp_path, monkeypatch, ROOMS | {"n.py": ""})
    beer = [path.stem for path in fingerprint.sources(notebook, {"corpus": "beer"})]
    assert beer == ["n", "beer", "tokenise"], "and what its reader imports"
    assert [path.stem for path in fingerprint.sources(notebook, {"corpus": "sst", "seed": 1})] == ["n", "sst"]
    assert fingerprint.sources(notebook, {"corpus": "../x"}) == [notebook]


def test_prose_is_no_code_and_a_string_is():
    source = '"""Says."""\n# why\n\ndef f(x):\n    """Doubles."""\n    return "#", 2 * x  # twice\n'
    told = '"""Says more,\nin two lines."""\n\n\ndef f(x):\n    # why\n    return "#", 2 * x\n'
    assert fingerprint._code(source) == fingerprint._code(told) == 'def f(x):\n    return "#", 2 * x'
    assert fingerprint._code(source) != fingerprint._code(source.replace('"#"', '"# "')), "what is in a string counts"
    assert fingerprint._code('text = """\n# kept\n\n"""') == 'text = """\n# kept\n\n"""', "its lines too"
    assert fingerprint._code('text = f"""\n\n{1}"""') == 'text = f"""\n\n{1}"""', "and those of a formatted one"
    assert fingerprint._code("def f(:") == "def f(:", "what does not parse counts as it is"


def test_comments_are_those_that_python_finds():
    """The expression that finds them is compared with Python's tokenizer, on odd texts and on this repository."""
    odd = [r"x = 'a\'#' # b", r'r"\"#"#', r"f'{1}#'#\n#", r'"""\"""#"""#', "'''#\n''#'''# c", "''# a", '"" "#"']
    files = [path for name in ("rationale", "notebooks", "tests", "tools") for path in (root() / name).rglob("*.py")]
    for text in [*odd, *(path.read_text(encoding="utf-8") for path in files)]:
        lines = text.split("\n")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
        assert fingerprint.without_comments(text) == "\n".join(lines), text[:200]


def test_a_run_is_stale_after_a_default_changed_and_not_after_prose_or_another_corpus_did(tmp_path, monkeypatch):
    for folder in ("rationale", "notebooks"):
        shutil.copytree(root() / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    at_home(monkeypatch, tmp_path)
    notebook = tmp_path / "notebooks" / "11_train_reviews.py"

    def after(path: str, new: str, old: str = "") -> str:
        """The fingerprint once `old` is replaced by `new` in a file, or `new` is added at its end."""
        file = tmp_path / "rationale" / path
        text = file.read_text()
        assert old in text, f"{path}: this test edits {old!r}"
        file.write_text(text.replace(old, new, 1) if old else text + new)
        return fingerprint.fingerprint(notebook, {"corpus": "synthetic"})

    first = fingerprint.fingerprint(notebook, {"corpus": "synthetic"})
    assert after("objectives/constraint.py", "\n\n# A comment.\n") == first
    assert after("objectives/constraint.py", '"""Another word. ', '"""') == first, "a docstring"
    assert after("figures/curves.py", "\nNEW = 1\n") == first, "figures only show"
    assert after("data/corpora/squad.py", "\nNEW = 1\n") == first, "another corpus"
    assert after("data/corpora/beer.py", "\nNEW = 1\n") == first, "another corpus of reviews"
    second = after("data/corpora/synthetic.py", "\nNEW = 1\n")
    assert second != first, "its own corpus"
    default = "smoothing: float = setting(0."
    assert after("objectives/constraint.py", f"{default}1", default) != second, "the default of a setting"


def test_an_sst_run_depends_on_no_other_task():
    used = {path.stem for path in fingerprint.sources(notebook_path("12_train_sst"), {"corpus": "sst"})}
    assert used >= {"extractor", "extraction", "sst", "constraint", "saved", "faithfulness"}
    others = {"aligner", "alignment", "seq2seq", "beam_search", "generation", "probing", "diffmask", "sparse_attention"}
    corpora = {path.stem for path in (root() / "rationale/data/corpora").glob("*.py")} - {"sst", "__init__"}
    assert not used & (others | corpora)


# --- command lines


def options_of(tree: ast.AST) -> set[str]:
    """The attributes under which the parsers of a file keep what is given, one for each `add_argument`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    added = [call for call in calls if ast.unparse(call.func).split(".")[-1] in ("add", "add_argument")]
    texts = [[part.value for part in call.args if isinstance(getattr(part, "value", 0), str)] for call in added]
    names = [[name for name in given if name.startswith("--")] or given for given in texts if given]
    return {first.lstrip("-").replace("-", "_") for first, *_ in names}


def attributes_read(tree: ast.AST) -> set[str]:
    """The attributes that a file reads; a method that it calls, such as that of a text, is none of them."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and id(node) not in called)
    return {node.attr for node in read}


COMMANDS = [
    path
    for folder in ("rationale", "tools", "tests/benchmarks")
    for path in sorted((root() / folder).rglob("*.py"))
    if "add_argument" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(root())))
def test_every_option_of_a_command_line_is_used(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert options_of(tree), "the options were found"
    assert options_of(tree) <= attributes_read(tree)


def test_an_option_that_is_parsed_and_not_used_is_found():
    tree = ast.parse("add('--two-words', help='x')\nadd('--replace')\nargs.two_words\n'a'.replace('a', 'b')")
    assert options_of(tree) - attributes_read(tree) == {"replace"}


# --- what importing costs

HEAVY = "pandas numba matplotlib IPython jupytext papermill nbconvert ipywidgets scipy sklearn transformers".split()


def imported_with(statement: str) -> set[str]:
    """The top names of all modules that a fresh Python has imported after a statement."""
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root())
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_imports_little_and_it_loads_runs():
    assert not imported_with("import rationale") & {*HEAVY, "torch"}
    with pytest.raises(BadInput, match="nowhere: no such run"):
        rationale.load("nowhere")


def test_the_lower_floors_are_a_library_without_jupyter_pandas_and_numba():
    rooms = "distributions nn data models objectives metrics errors files digests".split()
    heavy = imported_with("import " + ", ".join(f"rationale.{room}" for room in rooms)) & set(HEAVY)
    assert not heavy, f"{heavy}: import what is an extra inside the function that needs it"


# --- a user with base dependencies only

EXTRAS = (
    "HanTa IPython captum entmax hypothesis ipykernel ipywidgets jupyterlab jupytext matplotlib nbconvert "
    "nbformat numba packaging pandas papermill pooch psutil requests rouge_score sacrebleu scipy sklearn tensorboard "
    "torchmetrics tqdm traitlets transformers pyarrow datasets "
    "onnx onnxruntime onnxscript tokenizers"
)
WITHOUT_EXTRAS = f"import sys\nfor name in {EXTRAS!r}.split():\n    sys.modules[name] = None\n"


def without_extras(code: str) -> str:
    """What a program prints in a Python in which no extra can be imported."""
    free = {name: value for name, value in os.environ.items() if name not in ("RATIONALE_DATA", "XDG_CACHE_HOME")}
    called = [sys.executable, "-c", WITHOUT_EXTRAS + code]
    done = subprocess.run(called, capture_output=True, text=True, cwd=root(), env=free, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_base_dependencies_suffice_to_train_an_extractor_and_for_sparse_attention(tmp_path):
    code = """
from pathlib import Path
import torch
from rationale.data.read import read_extraction
from rationale.distributions import HardKuma
from rationale.nn import sparsemax
from rationale.objectives import Constraint
from rationale.training import train_extractor
from rationale.training.settings import ReviewSettings

p = ReviewSettings(
    corpus="synthetic", aspect="look", vectors="random", look_ahead=False, selection=0.4, device="cpu",
    embedding_size=8, hidden_size=8, epochs=1, num_train=40, num_dev=10, num_test=10,
)
texts = read_extraction(p)
result = train_extractor(p, texts.splits, texts.head, texts.num_outputs, Path({folder!r}))
held = Constraint(target=0.4)
held.update(torch.tensor(60.0), 100.0)
weights = sparsemax(torch.zeros(2))
print(result.evaluations["test"].metrics["mse"] < 1, HardKuma(1.0, 1.0).mean.item(), held.gap.item() > 0, *weights)
"""
    assert without_extras(code.replace("{folder!r}", repr(str(tmp_path)))).split()[-5:] == [
        "True", "0.5", "True", "tensor(0.5000)", "tensor(0.5000)"
    ]  # fmt: skip


NEEDING = {  # code that needs an extra, and the message that names it
    "import rationale.figures": "figures: matplotlib notebooks",
    "import rationale.explorers": "explorers: ipywidgets notebooks",
    "from rationale.runs import committed": "tables of results: pandas notebooks",
    "from rationale.runs import notebook_path, parameters\nparameters.defaults(notebook_path('12_train_sst'))": (
        "reading a notebook: jupytext notebooks"
    ),
    "from rationale.metrics import rouge\nrouge(['a'], [['a']])": "ROUGE: rouge_score generation",
    "from rationale.metrics import bleu\nbleu(['a'], [['a']])": "BLEU: sacrebleu generation",
    "from pathlib import Path\nfrom rationale.data import archives, corpora\n"
    "archives.fetch(corpora.find_archive('imdb'), Path('FOLDER'))": "fetching imdb: pooch data",
    "from pathlib import Path\nfrom rationale.training import loop\nloop._tensorboard(Path('FOLDER'))": (
        "tensorboard: tensorboard tensorboard"
    ),
}


def test_a_missing_extra_is_named_in_one_line(tmp_path):
    blocks = "".join(
        f"try:\n    exec({code.replace('FOLDER', str(tmp_path))!r})\nexcept BadInput as error:\n    print(error)\n"
        for code in NEEDING
    )
    lines = without_extras("from rationale.errors import BadInput\n" + blocks).splitlines()
    for line, message in zip(lines, NEEDING.values(), strict=True):
        what, (package, extra) = message.rsplit(": ", 1)[0], message.rsplit(": ", 1)[1].split()
        assert line == f"{what}: needs the package {package}; pip install 'rationale-kuma[{extra}]'"


@pytest.mark.parametrize("chosen", [None, "", "relative", "/elsewhere/cache"])
def test_the_data_folder_is_the_one_that_pooch_takes_for_its_cache(monkeypatch, chosen):
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("RATIONALE_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if chosen is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    assert data_folder() == Path(pooch.os_cache("rationale"))
