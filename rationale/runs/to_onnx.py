"""A saved model as one file for onnxruntime, and `rationale_reader.py` beside it, which reads texts with this file.

The file holds the weights, and in its metadata what is needed to go from a text to numbers and back: the words or the
tokenizer, the names of the outputs and the scale of scores. The packages onnx, onnxruntime and onnxscript are the extra
`onnx`.
"""

import ast
import contextlib
import copy
import dataclasses
import importlib
import importlib.util
import io
import json
import logging
import os
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.distributions import Distribution

from rationale import excerpts
from rationale.data import characters, spellings, tokenise
from rationale.data.word_pieces import writes_spaces
from rationale.errors import BadInput, cut, excerpt, shown
from rationale.files import write_atomically, write_text
from rationale.models.exported import Graph, graph_of
from rationale.nn.encoders import ENCODERS, find_encoder
from rationale.nn.rules import RULES
from rationale.runs import answer, onnx_reader
from rationale.runs.answer import Answer
from rationale.runs.onnx_operators import translations

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
LARGEST = 2**31 - 2**26  # bytes of a file, and some room; a larger one needs a second file
READER = "rationale_reader.py"
SIGNATURE = "# Written by rationale; do not edit."  # first line of the reader
# To the reader, in this order.
JOINED: tuple[ModuleType, ...] = (excerpts, tokenise, spellings, characters, answer, onnx_reader)
TOLERANCE = 1e-4  # between both forms of the model, of probabilities and scores
LENGTHS = (1, 3, 8, 40)  # words of the random texts that are read in both forms


def export(run: Any, path: str | Path, overwrite: bool = False) -> Path:
    """Write a saved model (`answers.SavedRun`) and its reader; see its method `export`, also for what is raised.

    Before the file is in its place, random texts are read in both forms, which have to give the same numbers.
    """
    if not isinstance(path, str | os.PathLike):
        raise BadInput(f"export: {excerpt(path)} is no path; accepted is a name that ends in .onnx")
    path, reason = Path(os.path.expanduser(path)), obstacle(run)
    if reason:
        raise BadInput(f"export: {reason}")
    _refuse_existing(path, overwrite)
    plain = dataclasses.replace(run, model=copy.deepcopy(run.model).cpu().float().eval())
    program = _exported(graph_of(copy.deepcopy(plain.model)))
    program.model.producer_name = onnx_reader.KEY
    program.model.metadata_props[onnx_reader.KEY] = json.dumps(_facts(run), ensure_ascii=False)

    def write(draft: Path) -> None:
        program.save(str(draft), external_data=False)
        _compare(plain, draft)

    write_atomically(path, write)
    write_text(path.with_name(READER), reader_source())
    return path


def obstacle(run: Any) -> str:
    """Why a model cannot be exported, in one line; "" if it can."""
    accepted = "accepted are extractors with independent gates and a rule without draws"
    if run.of_pairs:
        return f"a model of pairs; {accepted}"
    if not run.model.predictor.encoder.can_export:
        names = ", ".join(name for name, encoder in ENCODERS.items() if encoder.can_export)
        encoder = run.parameters.encoder
        if encoder in ENCODERS.files:
            offer = "one with can_export = True, if it has no loop over the words and no shape that depends on a value"
            return f"encoder {encoder} does not say that it can be exported; accepted are {names}, or {offer}"
        return f"encoder {encoder} is a loop over the words of a text; accepted are {names}"
    if run.model.selector is not None and run.model.selector.dependent:
        return f"dependent gates, which are decided one after the other; {accepted}"
    if RULES[run.model.rule].is_random:
        return f"rule {run.model.rule}, which draws random numbers; {accepted}"
    tensors = {id(value): value for value in (*run.model.parameters(), *run.model.buffers())}
    size = sum(value.numel() * 4 for value in tensors.values())
    if size > LARGEST:
        return f"{size / 2**30:.1f} GiB of weights and vectors; accepted are {LARGEST / 2**30:.1f}"
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"needs the package {missing[0]}; pip install 'rationale-kuma[onnx]'" if missing else ""


def _refuse_existing(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file of another origin, or an export without being asked to."""
    if path.suffix != ".onnx":
        raise BadInput(f"export: {shown(path)}: accepted is a name that ends in .onnx")
    if why := _why_unwritable(path):
        raise BadInput(f"export: {why}; accepted is a file in a folder that can be written")
    if path.exists() and not (overwrite and _is_export(path)):
        origin = "is there already" if _is_export(path) else "was not written by an export"
        advice = "another name, or overwrite=True (--overwrite)" if _is_export(path) else "another name"
        raise BadInput(f"export: {shown(path)} {origin}; accepted is {advice}")
    reader = path.with_name(READER)
    if reader.exists() and not _begins_with(reader, SIGNATURE):
        raise BadInput(f"export: {shown(reader)} was not written by an export; move it, or give another folder")


def _why_unwritable(path: Path) -> str:
    """Why no file can be written there, and where; "" if one can, or if only the writing itself will tell."""
    if "\0" in str(path):
        return f"{shown(path)}: a NUL in its name"
    try:
        path.exists()
        folder = next(place for place in path.absolute().parents if place.exists())
    except OSError as error:  # a name that is too long
        return f"{shown(path)}: {error.strerror or error}"
    if not folder.is_dir():
        return f"{shown(folder)}: no folder"
    return "" if os.access(folder, os.W_OK) else f"{shown(folder)}: no permission to write there"


def _begins_with(path: Path, line: str) -> bool:
    return path.is_file() and path.read_bytes().startswith(line.encode())


def _is_export(path: Path) -> bool:
    """Whether a file has the facts of an export; its weights are not read."""
    try:
        file = importlib.import_module("onnx").load(str(path), load_external_data=False)
        return file.producer_name == onnx_reader.KEY
    except Exception:  # protobuf has many kinds of errors for a file that is no model
        return False


def _facts(run: Any) -> dict[str, Any]:
    """What the reader needs to know beside the weights."""
    p, tokenizer, window = run.parameters, None, 0
    if run.model.reads_pieces:
        reader = find_encoder(p.encoder).tokenizer(p)
        content = reader.backend_tokenizer.to_str()
        tokenizer = {"content": content, "spaced": writes_spaces(reader), "unknown": reader.unk_token_id}
        window = run.model.predictor.encoder.window
    return {
        "format": onnx_reader.FORMAT,
        "tokeniser": run.tokeniser,
        "outputs": run.outputs,
        "gives_classes": run.gives_classes,
        "scale": run.scale,
        "specials": run.vocabulary.specials,
        "words": None if tokenizer else run.vocabulary.words,
        "tokenizer": tokenizer,
        "window": window,
    }


def _exported(graph: Graph) -> Any:
    """The graph as an ONNX program with axes of any length.

    What `torch.export` cannot prove about the axes is left to be checked at run time; `_compare` tries several lengths.

    Raises
    ------
    BadInput
        A part of the model cannot be traced, for example one of one's own.
    """
    names = {name for axes in graph.inputs.values() for name in axes}
    axes = {name: torch.export.Dim(name, min=1, max=graph.longest.get(name)) for name in names}
    shapes = tuple({i: axes[name] for i, name in enumerate(names)} for names in graph.inputs.values())
    try:
        with torch.no_grad(), _quiet(), _unchecked():
            traced = torch.export.export(
                graph.eval(),
                graph.examples(),
                dynamic_shapes=shapes,
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
            return torch.onnx.export(
                traced,
                input_names=[*graph.inputs],
                output_names=["gates", "outputs"],
                custom_translation_table=translations(),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:
        raise BadInput(f"export: this model cannot be exported, because {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What the exporter says, in one line: the operator that ONNX lacks, or else its first line."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    for cause in causes:
        if missing := re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", str(cause)):
            return f"it uses the operator {missing[1].removesuffix('.default')}, which ONNX lacks"
    first = next(filter(None, map(str.strip, re.sub(r"\x1b\[[\d;]*m", "", str(error)).splitlines())), "")
    return f"it cannot be traced ({type(error).__name__}: {cut(first, 160)})"


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    """Without the checks of values in torch's distributions, which cannot be traced."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of the exporter about its own parts."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.fx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _compare(run: Any, path: Path) -> None:
    """Raise an error unless random texts get the same answers in both forms."""
    words, generator = run.vocabulary.words[len(run.vocabulary.specials) :], random.Random(0)
    texts = [" ".join(generator.choices(words, k=length)) for length in LENGTHS]
    low, high = run.scale or (0.0, 1.0)

    def numbers(answer: Answer) -> torch.Tensor:
        scores = [score / (high - low) for score in answer.scores.values()]
        return torch.tensor([*answer.z, *answer.probabilities.values(), *scores])

    others = onnx_reader.load(path, threads=1)(texts)
    largest = max((numbers(a) - numbers(b)).abs().max().item() for a, b in zip(run(texts), others, strict=True))
    if not largest <= TOLERANCE:
        raise BadInput(f"export: the numbers of both forms differ by {largest:.2g}; accepted is {TOLERANCE:g}")


def reader_source() -> str:
    """The source of `rationale_reader.py`: the modules of `JOINED`, without what they import from each other."""
    imports: dict[str, None] = {}
    bodies = []
    for module in JOINED:
        text = Path(module.__file__ or "").read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines = text.splitlines(keepends=True)
        places = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        imports |= {ast.unparse(node): None for node in places if not _is_ours(node)}
        head = [tree.body[0], *places]  # the docstring, and the imports if there are any
        bodies.append("".join(lines[max(node.end_lineno or 0 for node in head) :]).strip("\n"))
    says = ast.get_docstring(ast.parse(Path(onnx_reader.__file__).read_text(encoding="utf-8"))) or ""
    begin = f'{SIGNATURE}\n"""{says}\n"""\n\n' + "\n".join(sorted(imports))
    return "\n\n\n".join([begin, *bodies]) + "\n"


def _is_ours(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rationale.")
