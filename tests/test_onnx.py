"""Models exported for onnxruntime: the same answers as in torch, also where neither torch nor the package is there."""

import ast
import json
import re
import subprocess
import sys

import pytest
import torch
from small import parameters
from test_pretrained_encoder import CONFIGS, folders, settings  # noqa: F401  a fixture
from torch.distributions import Normal, SigmoidTransform, TransformedDistribution
from torch.nn import functional

import rationale
from rationale.data.batches import Vocabulary
from rationale.data.word_pieces import NO_PIECE, build_pieces, piece_table
from rationale.distributions import StretchedRectified
from rationale.errors import BadInput
from rationale.models import build_extractor
from rationale.models.exported import graph_of
from rationale.models.transformers import load_any_encoder
from rationale.nn import ENCODERS, GATES, Gate, LSTMEncoder
from rationale.parts import register
from rationale.runs import onnx_reader, predict, root, to_onnx
from rationale.runs.onnx_reader import load
from rationale.runs.saved import save_run
from rationale.training.extraction import Result
from tests.depth import slow_or_deep

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

WORDS = "a film , funny quiet dull ! it is n't good . ( oddly ) isn't".split()
LONG = "a quiet film , oddly funny ! " * 9
TEXTS = [
    "A film , funny",
    "It  isn’t good (quiet)!",
    "",
    "film",
    "zzz qqq quiet",
    "   ",
    LONG,
    "so\x7f ☂ dull.\nA good -LRB- quiet -RRB- film “it is”",
]


def saved(folder, p=None, words=WORDS, outputs=3, head="classes", **changes):
    """A run of an untrained model whose gates differ from word to word, loaded again."""
    p = parameters(dropout=0.0, **changes) if p is None else p
    vocabulary, table = Vocabulary(words), torch.randn(len(words) + 2, 8, generator=torch.manual_seed(3))
    if p.encoder not in ENCODERS or ENCODERS[p.encoder].reads_pieces:
        tokenizer = load_any_encoder(p.pretrained or p.encoder)[1]
        vocabulary, table = build_pieces({"train": [rationale.data.Example(tuple(words), 0)]}, tokenizer)
    torch.manual_seed(1)
    model = build_extractor(p, table, head, outputs)
    with torch.no_grad():
        for part in (model.selector.gate,) if model.selector is not None else ():
            for name, weight in part.named_parameters():
                weight.mul_(40) if name.endswith("weight") else weight.sub_(0.3)
        model.head.output.weight.mul_(5)
    labels = [f"class {i}" for i in range(outputs)] if head == "classes" else None
    save_run(folder, Result(model, vocabulary, {}, {}, [], {"epoch": 0}), p, labels, None if labels else (1.0, 10.0))
    return rationale.load(folder)


def exported(run, folder):
    return load(run.export(folder / "model.onnx"), threads=1)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The model of `saved` as a program; to trace it takes nearly all the time of an export."""
    return to_onnx._exported(graph_of(saved(tmp_path_factory.mktemp("traced")).model))


@pytest.fixture
def traced(program, monkeypatch):
    """Exports of the run that `saved` makes trace nothing; for tests of what happens to the file."""
    monkeypatch.setattr(to_onnx, "_exported", lambda _: program)


@pytest.fixture(scope="module")
def service(tmp_path_factory, program):
    """A run with an LSTM, and the folder with its export."""
    run, folder = saved(tmp_path_factory.mktemp("run")), tmp_path_factory.mktemp("service")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_onnx, "_exported", lambda _: program)
        run.export(folder / "model.onnx")
    return run, folder


def assert_same(own, other):
    """The answers of both forms are the same, but for rounding."""
    assert len(own) == len(other)
    for one, two in zip(own, other, strict=True):
        assert (one.text, one.label, one.tokens, one.unknown) == (two.text, two.label, two.tokens, two.unknown)
        assert one.rationale == two.rationale
        assert two.z == pytest.approx(one.z, abs=1e-5) and two.probability == pytest.approx(one.probability, abs=1e-5)
        assert two.probabilities == pytest.approx(one.probabilities, abs=1e-5)
        assert two.scores == pytest.approx(one.scores, abs=1e-4)


def assert_both_forms_agree(run, model):
    """On texts of different lengths, alone and in batches of several sizes."""
    own = run(TEXTS)
    assert_same(own, model(TEXTS))
    for text, answer in zip(TEXTS, own, strict=True):
        assert_same([answer], model([text]))
    assert_same(run(TEXTS[:3]), model(TEXTS[:3]))
    assert model([]) == []
    return own


def test_an_exported_model_gives_the_same_labels_probabilities_and_passages(service):
    run, folder = service
    own = assert_both_forms_agree(run, load(folder / "model.onnx", threads=1))
    values = [z for answer in own for z in answer.z]
    assert 0 in values and any(0 < z < 1 for z in values) and 1 in values, "gates of all three kinds are compared"
    assert own[4].unknown == ("zzz", "qqq")


def test_scores_of_an_exported_model_are_on_the_scale_of_the_data(tmp_path):
    run = saved(tmp_path, outputs=1, head="scores")
    own = assert_both_forms_agree(run, exported(run, tmp_path))
    assert 1 <= own[0].scores["look"] <= 10


FORMS = [
    {"model": "hard_concrete", "rule": "top_k", "budget": 0.4, "predictor": "compact", "pool": "mean"},
    {"model": "bernoulli", "rule": "threshold", "threshold": 0.4, "pool": "max"},
    {"model": "straight_through", "predictor": "compact", "pool": "attention"},
    {"model": "hardkuma", "rule": "argmax_conditional", "pool": "last"},
    {"model": "hardkuma", "rule": "expected", "right": 1.0},
    {"model": "attention", "rule": "top_k", "budget": 0.3},
    {"model": "full_text"},
]


@pytest.mark.parametrize("form", slow_or_deep(FORMS, []))
def test_every_gate_rule_and_pool_can_be_exported(tmp_path, form):
    p = parameters(dropout=0.0)
    vars(p).update({"budget": 1.0, "threshold": 0.5, "pool": "final"} | form)
    assert {one["model"] for one in FORMS} >= set(GATES), "every gate is tried"
    run = saved(tmp_path, p)
    assert_both_forms_agree(run, exported(run, tmp_path))


@pytest.mark.parametrize("name", slow_or_deep(CONFIGS, ["bert"]))
def test_every_architecture_of_transformers_can_be_exported(folders, tmp_path, name):  # noqa: F811
    run = saved(tmp_path, settings(folders[name]))
    own = assert_both_forms_agree(run, exported(run, tmp_path))
    assert len(own[6].tokens) > 38, "a text of several windows"
    values = [z for answer in own for z in answer.z]
    assert 0 in values and any(values), "some words are selected"


PRETRAINED_FORMS = [
    {"model": "hardkuma", "predictor": "compact", "pool": "mean"},
    {"model": "attention", "rule": "threshold", "threshold": 0.03},
    {"model": "hardkuma", "shared_encoder": True},
    {"model": "hardkuma", "encoder": "FOLDER", "pretrained": ""},  # the encoder itself names the folder
]


@pytest.mark.parametrize("form", slow_or_deep(PRETRAINED_FORMS, []))
def test_a_transformer_can_be_exported_in_every_form(folders, tmp_path, form):  # noqa: F811
    form = {name: str(folders["bert"]) if value == "FOLDER" else value for name, value in form.items()}
    run = saved(tmp_path, settings(folders["bert"], **form))
    assert_both_forms_agree(run, exported(run, tmp_path))


KINDS = ["lstm", pytest.param("bert", marks=pytest.mark.deep)]  # an export of a transformer takes ten seconds


@pytest.mark.parametrize("kind", KINDS)
def test_words_that_look_like_special_ones_are_unknown_in_both_forms(request, tmp_path, kind):
    run = saved(tmp_path, None if kind == "lstm" else settings(request.getfixturevalue("folders")[kind]))
    run.tokeniser = "spaces"
    texts = ["a <unk> film", "<pad>", "quiet <pad> zebra"]
    own = run(texts)
    assert_same(own, exported(run, tmp_path)(texts))
    assert [answer.unknown[:1] for answer in own] == [("<unk>",), ("<pad>",), ("<pad>",)]


HALVES = ["a film \ud800 , funny", "\ude00quiet film", "dull \udc80\udc81 !", "a good film"]  # of characters


@pytest.mark.parametrize("kind", slow_or_deep(["lstm", "bert"], []))
def test_half_of_a_character_is_read_as_one_that_was_lost_and_the_other_texts_get_their_answers(
    request, tmp_path, kind
):
    run = saved(tmp_path, None if kind == "lstm" else settings(request.getfixturevalue("folders")[kind]))
    own = run(HALVES)
    assert_same(own, exported(run, tmp_path)(HALVES))
    lost = run([re.sub("[\ud800-\udfff]", "\ufffd", text) for text in HALVES])
    for text, answer, other in zip(HALVES, own, lost, strict=True):
        assert answer.text == text and answer.probability == pytest.approx(other.probability, abs=1e-6)
        assert all(text[start:end] == passage for start, end, passage in answer.rationale), (
            "offsets of the text as given"
        )
        assert [span[:2] for span in answer.rationale] == [span[:2] for span in other.rationale]


def test_a_file_below_the_home_folder_is_written_and_read_there(traced, tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    for place in (home, here):
        place.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    run = saved(home)
    assert run.export("~/model.onnx") == home / "model.onnx"
    assert (home / "rationale_reader.py").is_file() and list(here.iterdir()) == [], "nothing is called ~"
    assert_same(run(TEXTS[:3]), load("~/model.onnx", threads=1)(TEXTS[:3]))


# --- where only onnxruntime, numpy and tokenizers are installed

ALONE = """
import json, sys
allowed = {"numpy", "onnxruntime", "tokenizers", "rationale_reader"}
class Missing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if path is None and top not in allowed | set(sys.stdlib_module_names) and from_the_reader():
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
        if top in ("torch", "rationale", "transformers", "onnx", "onnxscript"):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
def from_the_reader():
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib"):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") in ("__main__", "rationale_reader")
sys.meta_path.insert(0, Missing())
from rationale_reader import load
model = load("model.onnx", threads=1)
answers = model(json.load(open("texts.json", encoding="utf-8")))
print(json.dumps([[a.label, a.probability, a.rationale, a.z, a.unknown] for a in answers]))
print(model.to_html(answers[:1], "A title")[:15])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_reader_needs_neither_torch_nor_the_package(service, request, tmp_path, kind):
    run, folder = service
    if kind != "lstm":
        place = request.getfixturevalue("folders")[kind]
        run, folder = saved(tmp_path, settings(place)), tmp_path / "service"
        run.export(folder / "model.onnx")
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "rationale_reader.py"}
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    program = ALONE.replace("texts.json", str(tmp_path / "texts.json"))
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, cwd=folder, env={})
    assert done.returncode == 0, done.stderr
    rows, page = done.stdout.splitlines()
    assert page == "<!doctype html>"
    for answer, (label, probability, passages, z, unknown) in zip(run(TEXTS), json.loads(rows), strict=True):
        assert (answer.label, answer.unknown) == (label, tuple(unknown)) and z == pytest.approx(answer.z, abs=1e-5)
        assert [list(span) for span in answer.rationale] == passages
        assert probability == pytest.approx(answer.probability, abs=1e-5)


@pytest.mark.parametrize("spaced", [False, True])
def test_the_reader_and_the_package_read_the_same_pieces_of_a_word(folders, spaced):  # noqa: F811
    tokenizer = load_any_encoder(folders["bert"])[1]
    read = onnx_reader._pieces_of(tokenizer.backend_tokenizer.to_str(), spaced, tokenizer.unk_token_id)
    words = ["film", "quietly", "-LRB-", "\x7f", "fi\ud800lm", "a,!" * 40, "a,!" * 20_000]  # the last is not read whole
    for word, row in zip(words, piece_table(words, tokenizer), strict=True):
        assert read(word) == row[row != NO_PIECE].tolist(), word[:9]


def test_the_parts_of_the_reader_have_names_of_their_own():
    source = to_onnx.reader_source()
    names = []
    for node in ast.parse(source).body:
        names += [node.name] if hasattr(node, "name") else []
        names += [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
    assert len(names) == len(set(names)), "a later part would replace an earlier one"
    assert "rationale." not in "".join(line for line in source.splitlines() if "import" in line.split())


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("model.onnx", b"no model", "model.onnx: cannot be read"),
        ("other.onnx", None, "other.onnx: format none; accepted is 1"),
        ("missing.onnx", None, "missing.onnx: no such file"),
    ],
)
def test_the_reader_says_what_is_wrong_with_a_file(tmp_path, name, content, message):
    if content:
        (tmp_path / name).write_bytes(content)
    elif name == "other.onnx":
        torch.onnx.export(torch.nn.Linear(1, 1), (torch.ones(1, 1),), tmp_path / name, dynamo=True, verbose=False)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / name)


class Columns(dict):
    """A table as far as a reader sees it, without pandas."""

    columns = ("text", "id")


WRONG = [
    "a text", ["a", 1], [None], None, 5, b"abc", ["a", b"abc"], bytearray(b"abc"), {"text": "hello", "id": 3},
    Columns(text=["hello"], id=[3]), ["a" * 200, 1.5], "a" * 200,
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:20])
def test_both_forms_refuse_what_is_no_list_of_texts_with_the_same_words(service, wrong):
    run, folder = service
    with pytest.raises(ValueError) as own:
        run(wrong)
    with pytest.raises(ValueError) as other:
        load(folder / "model.onnx")(wrong)
    assert str(own.value) == str(other.value) and "; accepted: " in str(own.value)


def test_the_reader_names_a_table_and_bytes_as_what_they_are(service):
    model = load(service[1] / "model.onnx")
    for wrong, message in (
        ({"text": "hello", "id": 3}, r"^texts: a table with the columns \['text', 'id'\]; accepted: one column, as in"),
        (b"abc", r"^texts: b'abc' is of bytes; accepted: a list of texts of the type str \(bytes.decode\)$"),
        (["a", b"abc"], r"^text 2: b'abc' is of bytes; accepted: texts of the type str \(bytes.decode\)$"),
        ("a text", r"^texts: 'a text' is a single text; accepted: a list of texts, \['a text'\]$"),
        (["a", 1], "^text 2: 1 is no text; accepted: texts$"),
        (None, "^texts: None is no list; accepted: a list of texts$"),
    ):
        with pytest.raises(ValueError, match=message):
            model(wrong)


# --- what is refused


def test_what_cannot_be_exported_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(to_onnx, "_exported", lambda graph: pytest.fail("work was begun"))
    for changes, message in (
        ({"encoder": "rcnn"}, "encoder rcnn is a loop .*; accepted are lstm, transformer, minilm"),
        ({"dependent": True, "look_ahead": False}, "dependent gates"),
        ({"rule": "sample"}, "rule sample, which draws random numbers"),
    ):
        p = parameters()
        vars(p).update(changes)
        run = saved(tmp_path / "_".join(changes), p)
        with pytest.raises(BadInput, match=message):
            run.export(tmp_path / "model.onnx")
    run.task = "alignment"
    with pytest.raises(BadInput, match="a model of pairs"):
        run.export(tmp_path / "model.onnx")
    assert not list(tmp_path.glob("*.onnx"))


def test_an_encoder_of_ones_own_is_told_how_to_say_that_it_can_be_exported(tmp_path, monkeypatch):
    monkeypatch.setattr(to_onnx, "_exported", lambda graph: pytest.fail("work was begun"))
    try:
        register("own", type("Mine", (LSTMEncoder,), {"can_export": False}))
        run = saved(tmp_path, parameters(encoder="own"))
        with pytest.raises(BadInput, match="encoder own does not say that it can be exported; .* can_export = True"):
            run.export(tmp_path / "model.onnx")
    finally:
        ENCODERS.pop("own", None), ENCODERS.files.pop("own", None)


@pytest.mark.deep
def test_the_gate_of_contributing_can_be_exported(tmp_path, capfd):
    example = re.search(r"```\n(class LogitNormalGate.*?)```", (root() / "CONTRIBUTING.md").read_text(), re.S)[1]
    laws = {"Normal": Normal, "SigmoidTransform": SigmoidTransform, "TransformedDistribution": TransformedDistribution}
    exec(example, laws | {"Gate": Gate, "F": functional, "StretchedRectified": StretchedRectified})
    try:
        run = saved(tmp_path, parameters(model="logit_normal", dropout=0.0))
        assert_both_forms_agree(run, exported(run, tmp_path))
    finally:
        GATES.files.pop(GATES.pop("logit_normal").name, None)
    assert capfd.readouterr().err == "", "what the exporter says of its own parts is not shown"


@pytest.mark.slow
def test_an_operator_that_onnx_lacks_is_named_in_one_line_and_nothing_else_is_shown(tmp_path, monkeypatch, capfd):
    run = saved(tmp_path)
    monkeypatch.setattr(to_onnx, "translations", dict)
    with pytest.raises(BadInput) as caught:
        run.export(tmp_path / "model.onnx")
    message = "export: this model cannot be exported, because it uses the operator rationale.lstm, which ONNX lacks"
    assert str(caught.value) == message and capfd.readouterr().err == ""


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    run = saved(tmp_path)
    assert run.obstacle_to_export == ""
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(BadInput, match=r"needs the package onnxscript; pip install 'rationale-kuma\[onnx\]'"):
        run.export(tmp_path / "model.onnx")


def test_no_file_of_a_user_is_overwritten(tmp_path, traced):
    run, path = saved(tmp_path), tmp_path / "model.onnx"
    path.write_bytes(b"mine")
    for overwrite in (False, True):
        with pytest.raises(BadInput, match="model.onnx was not written by an export; accepted is another name"):
            run.export(path, overwrite)
    assert path.read_bytes() == b"mine"
    path.unlink()
    (tmp_path / "rationale_reader.py").write_text("mine = 1\n")
    with pytest.raises(BadInput, match="rationale_reader.py was not written by an export"):
        run.export(path)
    (tmp_path / "rationale_reader.py").unlink()
    before = run.export(path).read_bytes()
    with pytest.raises(BadInput, match="model.onnx is there already; accepted is another name, or overwrite"):
        run.export(path)
    assert path.read_bytes() == before
    old = path.stat().st_mtime_ns
    assert run.export(path, overwrite=True).stat().st_mtime_ns > old
    with pytest.raises(BadInput, match="accepted is a name that ends in .onnx"):
        run.export(tmp_path / "model.bin")
    with pytest.raises(BadInput, match="export: 5 is no path; accepted is a name that ends in .onnx"):
        run.export(5)
    (tmp_path / "a file").write_text("mine")
    places = {"a file/model.onnx": "a file: no folder", f"{'x' * 300}.onnx": "File name too long", "a\0.onnx": "a NUL"}
    for place, message in places.items():
        with pytest.raises(BadInput, match=f"export: .*{message}.*; accepted is a file in a folder that can be"):
            run.export(tmp_path / place)


def test_a_file_whose_answers_differ_is_not_kept(tmp_path, traced, monkeypatch):
    monkeypatch.setattr(to_onnx, "TOLERANCE", -1.0)
    run = saved(tmp_path)
    with pytest.raises(BadInput, match="differ"):
        run.export(tmp_path / "model.onnx")
    assert not list(tmp_path.glob("*onnx*"))


@pytest.mark.slow
def test_the_command_exports_a_run(tmp_path, capsys):
    saved(tmp_path)
    path = tmp_path / "new" / "model.onnx"
    assert predict.main([str(tmp_path), "--export", str(path)]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("exporting the model"), "a sign of life, as tracing takes its time"
    assert str(path) in told.out and load(path)(["film"])[0].label
    assert predict.main([str(tmp_path), "--export", str(path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert predict.main([str(tmp_path), "--text", "film", "--overwrite"]) == 2
    assert "--overwrite: only with --export" in capsys.readouterr().err


# --- operators


def test_the_operators_that_onnx_lacks_keep_their_digits(tmp_path):
    class Each(torch.nn.Module):
        def forward(self, x, y):
            order = torch.argsort(y > 2, dim=0, descending=True, stable=True)
            inverse = x.clamp(-1, 1).erfinv()
            return x.log1p(), x.expm1(), torch.nn.functional.logsigmoid(10 * x), y.lgamma(), order, inverse

    small = torch.logspace(-37, 1, 200)
    x = torch.cat([-small[small < 0.999], small, torch.zeros(1)])
    y = torch.logspace(-3, 25, len(x), dtype=torch.float64)
    path = tmp_path / "each.onnx"
    torch.onnx.export(
        Each().eval(), (x, y), path, dynamo=True, verbose=False, custom_translation_table=to_onnx.translations()
    )  # fmt: skip
    found = onnxruntime.InferenceSession(path).run(None, {"x": x.numpy(), "y": y.numpy()})
    names = "log1p expm1 log_sigmoid lgamma order erfinv".split()
    for name, own, other in zip(names, Each()(x, y), found, strict=True):
        precision = {"rtol": 1e-12, "atol": 1e-14} if name == "lgamma" else {"rtol": 4e-7, "atol": 1e-37}
        precision |= {"rtol": 2e-6} if name == "erfinv" else {}
        torch.testing.assert_close(torch.from_numpy(other), own, **precision, msg=lambda m, n=name: f"{n}: {m}")


def test_a_graph_names_an_axis_for_every_axis_of_its_inputs(tmp_path):
    graph = graph_of(saved(tmp_path).model)
    for names, example in zip(graph.inputs.values(), graph.examples(), strict=True):
        assert len(names) == example.ndim and min(example.shape) > 1
