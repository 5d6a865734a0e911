"""Train a probe of a classifier of one's own on unlabelled texts, and save it in a folder."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from rationale.data.own.settings import IN_WORDS, absolute
from rationale.data.own.unlabelled import PlainTexts, read_plain
from rationale.data.tokenise import TOKENISERS
from rationale.digests import reading
from rationale.errors import BadInput, counted, excerpt, shown
from rationale.files import write_text
from rationale.models.classifier import TextClassifier, load_classifier, place_of_classifier
from rationale.runs.explained import ExplainedClassifier, facts_of, load_explained
from rationale.runs.fit import FolderState, in_use, plain_value, state_of
from rationale.runs.record import difference
from rationale.runs.saved import FORMAT, OF_CLASSIFIER, as_csv
from rationale.training.checkpoint import CHECKPOINT, facts_of_checkpoint, settled, write_tensors
from rationale.training.loop import choose_device
from rationale.training.settings.classifier import ClassifierProbeSettings
from rationale.training.word_probe import WordProbeResult, train_word_probe

NEARLY_ALL, HARDLY_ANY = 0.95, 0.002  # shares of kept words of which a note says what they may mean
FALLING = 0.02  # of the share of kept words in the last epoch, of which a note says that it falls
Made = dict[str, str]  # digests of the texts and of the classifier


def explain_classifier(
    classifier: str | Path,
    data: str | Path | Sequence[str],
    folder: str | Path | None = None,
    threads: int = 1,
    **settings: Any,
) -> ExplainedClassifier:
    """Train a probe of a classifier; see `rationale.explain_classifier`, whose arguments these are."""
    if type(threads) is not int or threads < 1:
        raise BadInput(f"threads: {excerpt(threads)}; accepted: a whole number from 1")
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise BadInput(f"folder: {excerpt(folder)} is no path; accepted: a folder")
    given = {name: plain_value(value) for name, value in settings.items()}
    p = ClassifierProbeSettings.checked(given, "explain_classifier: ")
    device = choose_device(p.device)
    place_of_classifier(classifier)
    with reading():
        texts = read_plain(p, _place_of(data))
        model = load_classifier(classifier)
        made: Made = {"texts_digest": texts.digest, "classifier_digest": model.digest}
        if folder is None:
            with tempfile.TemporaryDirectory() as temporary:
                return _trained(p, model.to(device), texts, made, Path(temporary), threads)
        folder = Path(folder)
        with in_use(folder):
            state, there = state_of(folder)
            if state is FolderState.FOREIGN:
                what = f"holds a file {there}, which the probe would replace"
                raise BadInput(f"folder: {shown(folder)} {what}; accepted: another folder")
            if state is FolderState.FINISHED:
                _refuse_another(folder, there, p, made)
                what = "holds the finished probe of these settings, texts and classifier, which is loaded"
                print(f"note: {shown(folder)} {what}", flush=True)
                return load_explained(folder, model)
            if state is FolderState.UNFINISHED:
                _refuse_other_beginning(folder, p, made)
            try:
                return _trained(p, model.to(device), texts, made, folder, threads)
            except KeyboardInterrupt:
                facts = facts_of_checkpoint(folder / CHECKPOINT)
                if facts is not None:
                    epochs = len(facts["history"])
                    print(f"\nnote: interrupted after epoch {epochs}; the same call continues from there", flush=True)
                raise


def _place_of(data: Any) -> str | Sequence[str]:
    """The absolute path of texts, their name on the hub, or the list of texts itself."""
    if isinstance(data, str | os.PathLike):
        place = absolute(os.fspath(data))
        if place is None:
            raise BadInput(
                f"data: {excerpt(os.fspath(data), 200)} is no file; accepted: {IN_WORDS}, or a list of texts"
            )
        return place
    if not isinstance(data, Sequence) or isinstance(data, bytes):
        given = "a table" if hasattr(data, "to_csv") else excerpt(data)
        advice = "; give one column as a list, table['text'].tolist()" if hasattr(data, "to_csv") else ""
        raise BadInput(f"data: {given} is neither a path nor a list; accepted: {IN_WORDS}, or a list of texts{advice}")
    return data


def _refuse_another(folder: Path, there: str, p: ClassifierProbeSettings, made: Made) -> None:
    """Refuse to take what is finished in a folder for the probe of these settings, texts and classifier."""
    facts = facts_of(folder)
    if not facts:
        unlike = "which is no probe of a classifier"
    else:
        other = difference(settled(facts["parameters"]), settled(vars(p))) or _another(facts, made)
        epochs = difference(*({"epochs": known["epochs"]} for known in (facts["parameters"], vars(p))))
        unlike = f"of a finished probe with other settings ({other or epochs})" if other or epochs else ""
    if unlike:
        raise BadInput(f"folder: {shown(folder)} holds {there} {unlike}; accepted: another folder")


def _refuse_other_beginning(folder: Path, p: ClassifierProbeSettings, made: Made) -> None:
    """Refuse to continue a probe that had other settings, or other texts or another classifier."""
    facts = facts_of_checkpoint(folder / CHECKPOINT)
    assert facts is not None  # otherwise the folder would have another state
    there, epochs = facts["parameters"], len(facts["history"])
    other = _another(there, made) if made.keys() <= there.keys() else "no probe of a classifier"
    other = other or difference(settled(there), settled(vars(p) | made))
    if epochs > p.epochs:
        other = other or f"{epochs} epochs there, {p.epochs} here"
    if other:
        what = f"holds an unfinished run with other settings ({other})"
        raise BadInput(f"folder: {shown(folder)} {what}; accepted: the same settings, or another folder")


def _another(there: dict[str, Any], made: Made) -> str:
    """What the probe in a folder was made from, if it is something else; "" if it is not."""
    names = {"texts_digest": "other texts", "classifier_digest": "another classifier, or one that has changed"}
    return next((what for name, what in names.items() if there.get(name) != made[name]), "")


def _trained(
    p: ClassifierProbeSettings, model: TextClassifier, texts: PlainTexts, made: Made, folder: Path, threads: int
) -> ExplainedClassifier:
    """Train a probe in a folder, save it there, and say what it costs."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)  # another number of threads adds numbers in another order
    try:
        grouped = {split: model.grouped(part, TOKENISERS[p.tokeniser]) for split, part in texts.splits.items()}
        cut = sum(text.is_cut for part in grouped.values() for text in part)
        total = sum(map(len, grouped.values()))
        sizes = ", ".join(f"{len(part):,} {split}" for split, part in grouped.items())
        print(f"{counted(total, 'text')} ({sizes}), for a classifier of {', '.join(model.labels[:12])}", flush=True)
        for note in [*texts.notes, *_note_of_cut(cut, total, model.longest)]:
            print(f"note: {note}", flush=True)
        readable = {split: [text for text in part if text.num_words] for split, part in grouped.items()}
        empty = next((split for split, part in readable.items() if not part), "")
        if empty:
            raise BadInput(f"data: no text of {empty} has a word that the classifier's tokenizer reads")
        limits = {"train": p.batch_tokens}
        batches = {
            split: model.batches(part, p.batch_size, seed=p.seed, max_tokens=limits.get(split))
            for split, part in readable.items()
        }
        result = train_word_probe(p, model, batches, folder, made)
        _save(folder, result, p, model, made, len(readable["test"]))
        (folder / CHECKPOINT).unlink(missing_ok=True)
        found = load_explained(folder, model)
    finally:
        torch.set_num_threads(before)
    print(f"probe: {found.cost}", flush=True)
    for note in _notes(found, result.history):
        print(f"note: {note}", flush=True)
    return found


def _note_of_cut(cut: int, total: int, longest: int) -> list[str]:
    what = "longer than the classifier reads, and cut" if cut != 1 else "longer than the classifier reads, and is cut"
    return [f"{cut:,} of {total:,} texts are {what} after {longest:,} pieces"] if cut else []


def _notes(found: ExplainedClassifier, history: list[dict[str, Any]]) -> list[str]:
    """What a user should know of a probe: usually nothing."""
    test, margin, notes = found.metrics["test"], found.parameters.margin, list[str]()
    if not found.holds_margin:
        why = f"the answers move by {test['divergence']:.3g} nats, more than the margin {margin:g}"
        notes.append(
            f"the margin does not hold on held-out texts: {why}; more texts or epochs, or a smaller margin, help"
        )
    if test["kept"] > NEARLY_ALL:
        notes.append(
            "the probe keeps nearly all words; more epochs, more texts or a larger margin may let it drop some"
        )
    elif found.holds_margin and len(history) > 1 and history[-2]["dev_kept"] - history[-1]["dev_kept"] > FALLING:
        notes.append("the share of kept words still fell in the last epoch; more epochs may drop more of them")
    if test["divergence_without_words"] <= margin:
        notes.append("within this margin, the answers need no words at all; a smaller margin asks for more")
    elif test["kept"] < HARDLY_ANY:
        notes.append("the probe keeps hardly any word; a smaller learning_rate or a larger multiplier_init may help")
    return notes


def _save(
    folder: Path, result: WordProbeResult, p: ClassifierProbeSettings, model: TextClassifier, made: Made, num_test: int
) -> None:
    """Write the files of a probe: metrics.json, history.csv, params.yaml and model.safetensors."""
    metrics = result.metrics | {
        "best_epoch": result.best["epoch"],
        "seconds": sum(row["seconds"] for row in result.history),
    }
    facts = {"format": FORMAT, "task": OF_CLASSIFIER, "parameters": vars(p), "classifier": model.place}
    facts |= {"digest": model.digest, "labels": model.labels, "sizes": result.sizes, "metrics": result.metrics}
    facts |= made | {"num_test": num_test}
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
    write_text(folder / "history.csv", as_csv(result.history))
    write_tensors(folder / "model.safetensors", result.probe.state_dict(), facts)
    write_text(folder / "params.yaml", yaml.safe_dump(vars(p), sort_keys=False, allow_unicode=True))
