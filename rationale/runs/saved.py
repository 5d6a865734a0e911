"""The files in the folder of a finished training run: this module writes and reads them.

    metrics.json         {"dev": {metric: value}, "test": {...}, "best_epoch": ...}; with stop_after also
                         "converged_epoch", null if dev still improved
    history.csv          one row per epoch
    rationales.jsonl     one text per line: split, tokens, z, label, prediction (and, where there are any, gold,
                         informative and word_labels; for pairs also hypothesis, and z is a matrix row by row,
                         premise by hypothesis)
    model.safetensors    weights and word vectors; the facts of a file of `FORMAT` 2 are `format`, `task` (extraction,
                         alignment, generation or probing) and what is needed to build the model again: parameters,
                         vocabulary, head (the `name` of its class in `HEADS`), num_outputs, labels, tokeniser

The runner writes `params.yaml` and `notes.json` (the notes that the run has printed) into the same folder, and so does
`rationale.fit`. To predict from new texts, model.safetensors is enough.
"""

import csv
import importlib
import io
import json
import os
import sys
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from rationale.data.batches import SpelledVocabulary, Vocabulary
from rationale.data.corpora import find_corpus, names_own
from rationale.data.tokenise import TOKENISERS
from rationale.errors import BadInput, excerpt, optional, printable
from rationale.files import write_text
from rationale.parts import CHOOSING
from rationale.runs import intact
from rationale.runs.answers import SavedRun
from rationale.runs.cells import has_type_of_setting
from rationale.runs.own_parts import load_recorded
from rationale.runs.parameters import modernised
from rationale.runs.record import NOTES, changed_parts, recorded_params
from rationale.runs.workspace import is_finished
from rationale.settings import Settings, is_chosen
from rationale.training.checkpoint import CHECKPOINT, NoFacts, all_tensors, load_trained, read_tensors, write_tensors
from rationale.training.random_state import random_state_kept

if TYPE_CHECKING:
    import pandas as pd

    from rationale.data.example import Example
    from rationale.data.targets import Targets
    from rationale.models.protocol import RationaleModel
    from rationale.training.extraction import Result
    from rationale.training.generation import GenerationResult
    from rationale.training.probing import AttributionResult

CLASS_WEIGHTS = "head.class_weights"  # in model.safetensors, if the classes had weights in training
FORMAT = 2  # of model.safetensors; files of format 1 do not record their format, and can still be loaded
OTHERS = {  # tasks whose models cannot predict from new texts: a description of their runs
    "generation": "an encoder-decoder, whose generated texts are in generations.jsonl",
    "probing": "a run that probed a model, whose attributions are in attributions.jsonl",
}
# By task, for models that predict from new texts: a module and a name in it. They are imported only on request, so that
# a run depends only on the code of its own task (see `fingerprint`).
SETTINGS = {
    "extraction": ("training.settings.extraction", "ExtractionSettings"),
    "alignment": ("training.settings.alignment", "AlignmentSettings"),
}
BUILDERS = {"extraction": ("models.extractor", "build_extractor"), "alignment": ("models.aligner", "build_aligner")}
# What lines of attributions.jsonl have beside the methods.
FACTS = {"split", "tokens", "second", "gold", "informative", "word_labels", "label", "answer", "scores"}


def save_run(
    folder: Path,
    result: "Result",
    p: Settings,
    labels: list[str] | None = None,
    scale: tuple[float, float] | None = None,
) -> dict:
    """Write the files listed above and return the metrics.

    Parameters
    ----------
    folder : Path
    result : training.Result
    p : parameters
        The validated parameters of the run.
    labels : list of str or None
        Names of the classes.
    scale : (low, high) or None
        The scores of one's own data that were scaled to 0 and 1. Answers to new texts are given on this scale;
        rationales.jsonl and metrics.json are about the scaled scores.
    """
    metrics = {name: evaluation.metrics for name, evaluation in result.evaluations.items()}
    metrics["best_epoch"] = result.best["epoch"]
    metrics["seconds"] = sum(row["seconds"] for row in result.history)
    metrics |= _converged(result.converged, p)
    if result.model is not None:
        head = result.model.head
        facts = {
            "format": FORMAT,
            "task": result.model.task,
            "parameters": vars(p),
            "vocabulary": result.vocabulary.words,
            "head": head.name,
            "num_outputs": head.output.out_features,
            "labels": labels,
            "tokeniser": _tokeniser_of(p),
        }
        facts |= {"scale": scale} if scale else {}
        weights = {} if head.class_weights is None else {CLASS_WEIGHTS: head.class_weights}
        write_tensors(folder / "model.safetensors", all_tensors(result.model) | weights, facts)
    write_text(folder / "history.csv", as_csv(result.history))
    lines = (json.dumps(row, ensure_ascii=False) for row in rationale_rows(result))
    write_text(folder / "rationales.jsonl", "".join(line + "\n" for line in lines))
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
    return metrics


def save_texts(folder: Path, result: "GenerationResult", targets: "Targets", p: Settings) -> dict:
    """Write the files of a run of an encoder-decoder: metrics.json, history.csv, model.safetensors, generations.jsonl.

    generations.jsonl has one text per line: split, source, said (the generated text), references, zeros (the share of
    attention weights that are 0), and weights (one row per generated word, one column per source word). The metric
    `zeros` of a split is the mean over the texts for which at least one word was generated.

    Returns
    -------
    dict
        The metrics. `words_a_second` counts target words in training, averaged over epochs.
    """
    pd = optional("pandas", "tables of runs", "notebooks")

    words, seconds = sum(len(e.second) for e in targets.splits["train"]), [row["seconds"] for row in result.history]
    metrics = result.metrics | {"best_epoch": result.best["epoch"], "seconds": sum(seconds)}
    metrics |= _converged(result.converged, p)
    metrics["dev"] |= {"words_a_second": words * len(seconds) / sum(seconds)}
    lines = []
    for split, generations in result.generations.items():
        parts = zip(targets.splits[split], generations, targets.references[split], strict=True)
        for example, generation, references in parts:
            weights = generation.weights
            zeros = (weights == 0).double().mean().item() if len(generation.words) else 0.0
            row = {"split": split, "source": example.tokens, "said": result.text(generation), "references": references}
            row |= {"zeros": round(zeros, 4), "weights": [_short(values, 6) for values in weights.tolist()]}
            lines.append(row)
        shares = [row["zeros"] for row in lines if row["split"] == split and row["said"]]
        metrics[split]["zeros"] = sum(shares) / max(1, len(shares))
    facts = {"format": FORMAT, "task": result.model.task, "parameters": vars(p)}
    facts["vocabularies"] = [vocabulary.words for vocabulary in result.vocabularies]
    write_tensors(folder / "model.safetensors", all_tensors(result.model), facts)
    write_text(folder / "history.csv", pd.DataFrame(result.history).to_csv(index=False))
    write_text(folder / "generations.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines))
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
    return metrics


def save_probes(
    folder: Path,
    subject: dict[str, dict[str, float]],
    results: "dict[str, AttributionResult]",
    splits: "dict[str, list[Example]]",
    answers: dict[str, Tensor],
    weights: dict[str, dict[str, Tensor]],
    p: Settings,
) -> dict:
    """Write the files of a run that probes: metrics.json, history.csv, model.safetensors, attributions.jsonl.

    metrics.json has `methods`, {method: {"dev": ..., "test": ..., "seconds": ...}}, and history.csv has the column
    `method`. attributions.jsonl has one text per line: split, tokens, second (a query, or null), gold and word_labels
    where there are any, label, answer (the prediction without masking), for each method one row per layer, one column
    per position, and `scores`, {method: {metric: value}} of the methods that are scored text by text.

    Parameters
    ----------
    subject : metrics of the model that was probed, by split
    results : results of each method
    splits : examples of the splits to which the methods were applied
    answers : predictions of the model for these examples, [N, ...] by split
    weights : state dicts to save, by the name of their module: "subject", or a method
    """
    pd = optional("pandas", "tables of runs", "notebooks")

    methods = {
        method: one.metrics | {"seconds": one.seconds, "best_epoch": one.best_epoch} for method, one in results.items()
    }
    for method, one in results.items():
        methods[method] |= _converged(one.converged, p) if one.probe is not None else {}
    seconds = sum(one.seconds for one in results.values())
    metrics = {name: subject[name] for name in ("dev", "test")} | {"seconds": seconds, "best_epoch": 0}
    metrics["methods"] = methods
    lines = []
    for split, examples in splits.items():
        for i, example in enumerate(examples):
            row = {"split": split, "tokens": example.tokens, "second": example.second, "label": example.label}
            row["answer"] = answers[split][i].tolist()
            row |= _annotated(example)
            for method, one in results.items():
                if i < len(one.values[split]):
                    row[method] = [_short(layer, 4) for layer in one.values[split][i].tolist()]
            scores = {method: one.by_text for method, one in results.items() if split == "test" and one.by_text}
            if scores:
                row["scores"] = {
                    method: {name: round(values[i].item(), 4) for name, values in of_method.items() if i < len(values)}
                    for method, of_method in scores.items()
                }
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    tensors = {f"{name}.{key}": value for name, state in weights.items() for key, value in state.items()}
    write_tensors(folder / "model.safetensors", tensors, {"format": FORMAT, "task": "probing", "parameters": vars(p)})
    histories = [pd.DataFrame(one.history).assign(method=method) for method, one in results.items() if one.history]
    write_text(
        folder / "history.csv", pd.concat([pd.DataFrame({"epoch": []}, dtype=int), *histories]).to_csv(index=False)
    )
    write_text(folder / "attributions.jsonl", "".join(lines))
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
    return metrics


def _converged(epoch: int | None, p: Settings) -> dict[str, int | None]:
    """Of a run that was to stop early: the epoch at which it had converged, or None."""
    return {"converged_epoch": epoch} if vars(p).get("stop_after") else {}


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Rows as a CSV file: numbers with all their digits, and nothing where a value is missing or NaN."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(names)
    for row in rows:
        values = (row.get(name) for name in names)
        table.writerow(["" if value is None or value != value else value for value in values])
    return written.getvalue()


def _short(values: list[float], digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]


def _exact(values: Tensor) -> list[float]:
    """The shortest decimal numbers that round to these values in their precision: 0.1, not 0.10000000149."""
    return [float(str(value)) for value in values.numpy()]


def rationale_rows(result: "Result"):
    """Yield one dict per text of the evaluated splits: the rows of `rationales.jsonl`."""
    for split, evaluation in result.evaluations.items():
        for example, z, answer in zip(result.splits[split], evaluation.z, evaluation.answer.tolist(), strict=True):
            row = {"split": split, "tokens": example.tokens}
            if example.second is not None:
                row["hypothesis"] = example.second
            row |= {"z": _exact(z), "label": example.label, "prediction": answer}
            yield row | _annotated(example)


def _annotated(example: "Example") -> dict:
    """The annotations of a text, gold, informative and word_labels, where there are any."""
    flags = {"gold": example.rationale, "informative": example.informative}
    found: dict = {name: [int(flag) for flag in values] for name, values in flags.items() if values is not None}
    return found if example.word_labels is None else found | {"word_labels": example.word_labels}


def _tokeniser_of(p: Settings | SimpleNamespace) -> str:
    """The tokeniser of a run's corpus. Notebooks without the parameter `corpus` read texts that have been tokenised."""
    if "corpus" not in vars(p):
        return "treebank"
    return p.tokeniser if names_own(p.corpus) else find_corpus(p.corpus).tokeniser


def load_run(folder: Path | str) -> SavedRun:
    """Load the model of a finished run, in evaluation mode.

    Raises
    ------
    BadInput
        If the folder is not that of a finished training run, its model cannot predict from new texts, or the file is
        damaged: another digest than the run recorded, weights that are no numbers, words that do not fit the vectors.
    """
    wanted = "the folder of a finished training run"
    if not isinstance(folder, str | Path) or not str(folder).strip():
        raise BadInput(f"run: {excerpt(folder)} is no path; accepted is {wanted}")
    path = Path(os.path.expanduser(folder)) / "model.safetensors"
    try:
        there = path.exists()
    except (OSError, ValueError) as error:  # too long, not to be looked into, or with a NUL character
        raise BadInput(f"{folder}: {getattr(error, 'strerror', None) or error}; accepted is {wanted}") from None
    if not there:
        raise BadInput(f"{folder}: {_lacks(path.parent, path.name)}; accepted is {wanted}")
    if not path.is_file():
        raise BadInput(f"{path}: a folder; accepted is a file that a finished run wrote")
    intact.check_digest(path)
    try:
        tensors, facts = read_tensors(path)
        task = facts["task"] if _format(facts, path) == FORMAT else _task_of_format_1(facts)
        if task in OTHERS:
            raise BadInput(f"{folder}: {OTHERS[task]}; accepted is a run on texts or on pairs of sentences")
        p = SimpleNamespace(**_meant(task, facts["parameters"]))
        changed = _load_own_parts(path.parent, task, p)
        with random_state_kept():  # new layers draw their first weights, which are replaced
            model = _imported(BUILDERS[task])(p, tensors["vectors"], facts["head"], facts["num_outputs"])
        model.head.class_weights = tensors.pop(CLASS_WEIGHTS, None)
        load_trained(model.to(_type_of(tensors, model)), tensors)
        tokeniser = facts["tokeniser"] if "tokeniser" in facts else _tokeniser_of(p)  # an older run does not record it
        if tokeniser not in TOKENISERS:
            raise KeyError(f"tokeniser {tokeniser!r}")
        of_pieces = getattr(model, "reads_pieces", False)  # a tokenizer splits a word as it is written
        vocabulary = (Vocabulary if of_pieces else SpelledVocabulary)(facts["vocabulary"])
        labels = facts["labels"]
        low, high = facts.get("scale", (0.0, 1.0))
        scale = (float(low), float(high)) if "scale" in facts else None
        _check_loaded(tensors, vocabulary, labels, model)
    except BadInput:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError, MemoryError,
            RuntimeError) as error:  # fmt: skip
        reason = _why_unreadable(error)
        message = f"{path}: no model of this project, or of another version ({reason})"
        raise BadInput(f"{message}; accepted is a file that a finished run wrote") from None
    notes = intact.read_json(path.with_name(NOTES), list[str]) if path.with_name(NOTES).exists() else []
    for note in changed:
        print(f"note: {note}", file=sys.stderr, flush=True)
    return SavedRun(model.eval(), vocabulary, p, labels, task, tokeniser, scale, notes=(*notes, *changed))


def _why_unreadable(error: Exception) -> str:
    """Why a file is no model, in words of a user where the error has those of a library."""
    if isinstance(error, SafetensorError):
        return "damaged, or not in the format safetensors"
    if isinstance(error, NoFacts):
        return "weights that another program has written"
    return " ".join(str(error).split())[:120] or type(error).__name__


def _type_of(tensors: dict[str, Tensor], model: "RationaleModel[Any]") -> torch.dtype:
    """The floating-point type of the saved weights of a model; a new model has the default type of this session."""
    weights = [tensors[name] for name in {"vectors", *model.state_dict()} & tensors.keys()]
    types = {values.dtype for values in weights if values.is_floating_point()}
    if len(types) != 1:
        names = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in types))
        raise ValueError(f"weights of {names or 'no floating-point type'}, not of one type")
    return types.pop()


def _check_loaded(
    tensors: dict[str, Tensor], vocabulary: Vocabulary, labels: Any, model: "RationaleModel[Any]"
) -> None:
    """Refuse weights that are not numbers, and words or labels that do not fit them."""
    for name, values in tensors.items():
        if values.is_floating_point() and not torch.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or an infinite number")
    if not all(isinstance(word, str) for word in vocabulary.words):
        raise TypeError("the vocabulary holds something else than words")
    if len(vocabulary) != len(tensors["vectors"]):
        raise ValueError(f"{len(vocabulary)} words for {len(tensors['vectors'])} vectors")
    outputs = model.head.output.out_features
    if labels is not None and (len(labels) != outputs or not all(isinstance(label, str) for label in labels)):
        raise ValueError(f"{len(labels)} labels for {outputs} outputs, or a label that is no text")


def _load_own_parts(folder: Path, task: str, p: SimpleNamespace) -> list[str]:
    """Register the parts of one's own that a run names; its folder records their files.

    Returns
    -------
    list of str
        A note about each file that defines its parts in other words than when the run was made.
    """
    recorded = recorded_params(folder)
    load_recorded(recorded, str(folder))
    settings = _imported(SETTINGS[task])
    for name in (name for name in CHOOSING if name in settings.model_fields and name != "corpus"):
        if not is_chosen(settings, name, getattr(p, name)):
            raise BadInput(
                f"{folder}: {name}: no part is named {getattr(p, name)}; if it is one of your own, register it first, "
                f"because no params.yaml there names its file"
            )
    changed = " has changed since this run was made; its weights are used with the code of today"
    return [printable(f"{folder}: {file}{changed}") for file in changed_parts(folder, recorded)]


def _imported(place: tuple[str, str]) -> Any:
    """Import a class or a function of the package, given its module and its name."""
    module, name = place
    return getattr(importlib.import_module(f"rationale.{module}"), name)


def _format(facts: dict, path: Path) -> int:
    """The format of a file. Files of format 1 do not record it."""
    number = facts.get("format", 1)
    if number not in (1, FORMAT):
        raise BadInput(f"{path}: a model of format {number}; accepted are 1 and {FORMAT}")
    return number


def _meant(task: str, parameters: dict) -> dict:
    """The parameters of a run, with the defaults of the settings that did not exist when it was made."""
    fields = _imported(SETTINGS[task]).model_fields.items()
    return {name: field.get_default() for name, field in fields if not field.is_required()} | modernised(parameters)


def _task_of_format_1(facts: dict) -> str:
    """The task of a run whose file does not record it, inferred from the other facts in the file."""
    if "vocabularies" in facts:
        return "generation"
    if "vocabulary" not in facts and "methods" in facts["parameters"]:
        return "probing"
    return "alignment" if "intra" in facts["parameters"] else "extraction"


def read_metrics(folder: Path | str) -> dict:
    """`metrics.json` of a finished run."""
    return intact.read_json(_file(folder, "metrics.json"), intact.Metrics)


def read_history(folder: Path | str) -> "pd.DataFrame":
    """`history.csv` of a finished run: one row per epoch."""
    pd = optional("pandas", "tables of runs", "notebooks")

    path = _file(folder, "history.csv")
    intact.read_table(path)
    return pd.read_csv(path, float_precision="round_trip")


def read_rationales(folder: Path | str, split: str | None = None) -> "pd.DataFrame":
    """`rationales.jsonl` of a finished run: one row per text, optionally of one split only."""
    return _texts(folder, "rationales.jsonl", split)


def read_generations(folder: Path | str, split: str) -> "pd.DataFrame":
    """`generations.jsonl` of a finished run of an encoder-decoder: one row per text of this split."""
    older = (Path(folder) / "said.jsonl").exists()  # its name in older runs
    return _texts(folder, "said.jsonl" if older else "generations.jsonl", split)


def read_attributions(folder: Path | str, split: str) -> "pd.DataFrame":
    """`attributions.jsonl` of a finished run with probes: one row per text of this split."""
    rows = _texts(folder, "attributions.jsonl", split)
    return rows.rename(columns={"hypothesis": "second"})  # the name of the column in older runs


def read_explained(folder: Path | str, split: str) -> "pd.DataFrame":
    """The rows of `read_attributions` to which all methods were applied; `num_explained` may have left others out."""
    texts = read_attributions(folder, split)
    return texts.dropna(subset=[column for column in texts if column not in FACTS])


def _texts(folder: Path | str, name: str, split: str | None) -> "pd.DataFrame":
    pd = optional("pandas", "tables of runs", "notebooks")

    path = _file(folder, name)
    texts = intact.read_json_lines(path, intact.Text)
    intact.check_lengths(path, texts)
    rows = pd.DataFrame(texts)  # not by the reader of pandas, which rounds the last digit
    return rows if split is None else rows[rows["split"] == split].reset_index(drop=True)


def _file(folder: Path | str, name: str) -> Path:
    path = Path(folder) / name
    if not path.exists():
        raise BadInput(f"{folder}: {_lacks(folder, name)}; accepted is the folder of a finished training run")
    return path


def _lacks(folder: Path | str, name: str) -> str:
    """Why a folder has no file of this name, and where the nearest finished runs are: inside it, or beside it."""
    folder = Path(folder)
    if folder.is_dir():
        if folder.suffix == ".partial" or (folder / CHECKPOINT).is_file():
            return "a run that has not finished; the same command continues it"
        model = recorded_params(folder).get("model") if (folder / "metrics.json").is_file() else None
        if model:
            return f"a finished run of a model whose weights are not saved ({excerpt(model)})"
        runs = _finished_runs(folder, "*")
        return f"holds no {name}" + (f", but runs: {runs}" if runs else "")
    if folder.is_file():
        return "a file, not the folder of a run"
    if folder.with_name(f"{folder.name}.partial").is_dir():
        return "a run that has not finished; the same command continues it"
    if folder.parent == Path():  # a name alone: a service would show its clients what else is in its own folder
        meant = get_close_matches(folder.name, [path.name for path in Path().glob("*") if is_finished(path)], 1)
        return "no such run" + (f", did you mean {printable(meant[0])}" if meant else "")
    there = _finished_runs(folder.parent, "*") or _finished_runs(folder.parent, "*/*")
    return f"no such run (there: {there or 'none; `make run` makes one'})"


def _finished_runs(folder: Path, pattern: str) -> str:
    """The finished runs below a folder, at most ten of them, in one line."""
    there = sorted(str(path.relative_to(folder)) for path in folder.glob(pattern) if is_finished(path))
    return ", ".join(there[:10]) + (", ..." if len(there) > 10 else "")


def read_parameters(folder: Path | str) -> dict:
    """The parameters of a finished run (`params.yaml`). Parts of one's own that it names are registered."""
    path = _file(folder, "params.yaml")
    parameters = modernised(intact.read_yaml(path))
    for name, value in parameters.items():
        if not has_type_of_setting(name, value):
            raise intact.damaged(path, f"{name}: {value!r} is of another type than this setting")
    with suppress(BadInput):  # results can be read without the part that made them
        load_recorded(parameters, str(folder))
    return parameters
