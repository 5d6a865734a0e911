"""Train a rationale extractor on texts of one's own from Python: the same run as that of notebook 17."""

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from rationale.data.corpora import corpus_names
from rationale.data.corpus import OWN_CORPORA
from rationale.data.read import Labelled, read_extraction
from rationale.digests import changed as changed_files
from rationale.digests import digest_read, reading
from rationale.errors import BadInput, excerpt, shown
from rationale.files import DRAFT, lock_folder, remove_drafts, write_text
from rationale.progress import bars_unless
from rationale.runs.environment import MOST_THREADS, continue_record, describe_environment
from rationale.runs.folder import NOT_OURS_TO_KEEP, write_digests
from rationale.runs.intact import read_json
from rationale.runs.origin import BY_FIT, NOTEBOOK_OF_FIT, READ, is_by_fit
from rationale.runs.own_parts import files_of, sources_of
from rationale.runs.record import NOTES, difference, recorded_params, unlike_recorded, write_notes
from rationale.runs.saved import SavedRun, load_run, save_run
from rationale.runs.watch import NOTE, OnlyNotes
from rationale.settings import Settings
from rationale.training.checkpoint import CHECKPOINT, another_file, facts_of_checkpoint, settled
from rationale.training.extraction import Result, require_words, train_extractor
from rationale.training.loop import choose_device
from rationale.training.own_notes import notes_about
from rationale.training.random_state import random_state_kept
from rationale.training.settings.own_texts import OwnTextSettings
from rationale.training.tfidf import Baseline, train_tfidf

KNOWN_BY = ("model.safetensors", "params.yaml")  # files by which a folder is known as that of a run
# Further files of a run.
OTHERS = ("metrics.json", "history.csv", "splits.csv", "rationales.jsonl", "baseline.json", READ, NOTES)
FROM_TEXTS = ("whole_text_epochs",)  # settings of which a checkpoint has the number that null stood for
ENVIRONMENT = "environment.txt"  # of a run, finished or not
# Held while a call trains. The random state, the number of threads and standard output belong to the whole process.
ONE_AT_A_TIME = threading.RLock()


class FolderState(Enum):
    """What a folder that is given to `fit` holds."""

    EMPTY = "nothing, or what a call has left that ended before its first epoch"
    UNFINISHED = "a run to be continued"
    FINISHED = "a run to be loaded"
    FOREIGN = "something else"


def state_of(folder: Path) -> tuple[FolderState, str]:
    """The state of a folder, and the file by which it is known; "" for none.

    A run with a checkpoint is unfinished, whatever else it has saved already: its checkpoint is the last file to go. A
    damaged checkpoint cannot be continued and counts as none, so that it puts no finished run at risk.
    """
    there = next((name for name in KNOWN_BY + OTHERS if (folder / name).exists()), "")
    if there and (folder / ENVIRONMENT).exists() and not is_by_fit(folder):
        return FolderState.FOREIGN, there
    if facts_of_checkpoint(folder / CHECKPOINT) is not None:
        return FolderState.UNFINISHED, CHECKPOINT
    if there in KNOWN_BY:
        return FolderState.FINISHED, there
    there = there or next((path.name for path in sorted(folder.iterdir()) if not _is_left(path)), "")
    return (FolderState.FOREIGN if there else FolderState.EMPTY), there


def _is_left(path: Path) -> bool:
    """Whether a file may be in a folder in which `fit` has begun, but has not saved an epoch that can be continued."""
    is_draft = path.match(f".*.{DRAFT}")
    is_ours = path.name in (ENVIRONMENT, CHECKPOINT) and is_by_fit(path.parent)  # it writes the environment first
    return is_draft or is_ours or path.name in NOT_OURS_TO_KEEP


def fit(
    data: str | Path, folder: str | Path | None = None, threads: int = 1, quiet: bool = False, **settings: Any
) -> SavedRun:
    """Train a model on texts of one's own; see `rationale.fit`, whose arguments these are."""
    if not isinstance(data, str | os.PathLike):
        given = "a table" if hasattr(data, "to_csv") else excerpt(data)
        advice = "; save it first, by data.to_csv('texts.csv', index=False)" if hasattr(data, "to_csv") else ""
        raise BadInput(f"data: {given} is no path; accepted: a file, a folder, or hub:owner/name{advice}")
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:  # many more would end this process
        raise BadInput(f"threads: {excerpt(threads)}; accepted: a whole number from 1 to {MOST_THREADS}")
    if type(quiet) is not bool:
        raise BadInput(f"quiet: {excerpt(quiet)}; accepted: True or False")
    if "corpus" in settings:
        raise BadInput(f"fit: corpus: {excerpt(settings['corpus'])}; accepted: the same as data, the first argument")
    for name in settings.keys() & OwnTextSettings.elsewhere.keys():
        raise BadInput(f"fit: {name}: {OwnTextSettings.elsewhere[name]}")
    corpus = os.fspath(data)
    if corpus in corpus_names() and corpus not in OWN_CORPORA:
        accepted = f"a file, a folder such as ./{corpus}, or hub:owner/name"
        advice = f"in a clone, `python -m rationale.runs {NOTEBOOK_OF_FIT} corpus={corpus}` trains on it"
        raise BadInput(f"data: {corpus} is the name of a corpus of the package; accepted: {accepted}; {advice}")
    if folder is not None and not (isinstance(folder, str | os.PathLike) and os.fspath(folder).strip()):
        raise BadInput(f"folder: {excerpt(folder)} is no path; accepted: a folder")
    given = {name: _plain(value) for name, value in settings.items()}
    p = OwnTextSettings.checked({"corpus": corpus} | given, "fit: ")
    choose_device(p.device)
    require_words(p)
    with ONE_AT_A_TIME:
        if folder is not None:
            return _fit_in(Path(os.path.expanduser(folder)), p, threads, quiet)
        with tempfile.TemporaryDirectory() as temporary:
            return _fit(p, Path(temporary), threads, quiet, is_kept=False)


def _fit_in(folder: Path, p: OwnTextSettings, threads: int, quiet: bool) -> SavedRun:
    """Train in a folder that the user has named, continue the run that is there, or load it if it is finished."""
    is_new = not os.path.exists(folder)  # which is False for a name that is too long
    with _in_use(folder):
        state, there = state_of(folder)
        match state:
            case FolderState.FINISHED:
                _refuse_another_run(folder, there, p)
                what = "holds the finished run of these settings and texts, which is loaded"
                print(f"note: {shown(folder)} {what}", flush=True)
                return load_run(folder)
            case FolderState.FOREIGN:
                is_of_a_run = there in KNOWN_BY + OTHERS
                what = (
                    f"a file {there}, which the run would replace" if is_of_a_run else f"{there}, which no run has made"
                )
                raise BadInput(f"folder: {shown(folder)} holds {what}; accepted: another folder")
            case FolderState.UNFINISHED:
                _refuse_other_settings(folder, p)
        try:
            return _fit(p, folder, threads, quiet)
        except BadInput:
            _leave_as_found(folder, is_new)
            raise


def _leave_as_found(folder: Path, is_new: bool) -> None:
    """Remove what a call has written that ended before its first epoch: its record, and the folder if that is new."""
    if not (folder / CHECKPOINT).exists() and is_by_fit(folder):
        (folder / ENVIRONMENT).unlink(missing_ok=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


@contextlib.contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """Make a folder, and lock it while the block runs: two calls would replace each other's files.

    Any number of calls may load the finished run of a folder at the same time.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(folder)
    except BlockingIOError:
        if state_of(folder)[0] is not FolderState.FINISHED:
            accepted = "accepted: another folder, or the same call when that one has ended"
            raise BadInput(f"folder: {shown(folder)}: another call trains a model in it; {accepted}") from None
        lock = None
    except (OSError, ValueError) as error:  # a file in its place, no permission, a name that is too long, or with a NUL
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"folder: {shown(folder)}: {reason}; accepted: another folder") from None
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _refuse_another_run(folder: Path, there: str, p: OwnTextSettings) -> None:
    """Refuse to take the finished run in a folder, in which the file `there` is, for a run of these settings.

    Its settings have to be the same, and what it has read has to be what is there now.
    """
    unlike = unlike_recorded(folder, _recorded(p))
    if not unlike:
        with reading() as files, contextlib.redirect_stdout(io.StringIO()):  # the run said what it noticed in them
            _read(p)
        if (folder / READ).exists():
            changed = another_file(read_json(folder / READ, dict[str, str]), files)
            unlike = f"before {changed} was changed" if changed else ""
        else:
            unlike = f"without {READ}"
    if unlike:
        what = f"holds {there} of a finished run {unlike}"
        is_longer = p.epochs > recorded_params(folder).get("epochs", p.epochs)
        anew = "; no finished run is continued, so a training with more epochs begins anew there" * is_longer
        raise BadInput(f"folder: {shown(folder)} {what}; accepted: another folder{anew}")


def _refuse_other_settings(folder: Path, p: OwnTextSettings) -> None:
    """Refuse to replace an unfinished run that had other settings, or that has read what a file holds no longer."""
    facts = facts_of_checkpoint(folder / CHECKPOINT)
    assert facts is not None  # otherwise the folder would have another state
    there = facts["parameters"] | {name: None for name in FROM_TEXTS if getattr(p, name) is None}
    unlike, epochs = difference(settled(there), settled(vars(p))), len(facts["history"])
    if epochs > p.epochs:
        unlike = unlike or f"{epochs} epochs there, {p.epochs} here"
    if unlike:
        what = f"holds an unfinished run with other settings ({unlike})"
        raise BadInput(f"folder: {shown(folder)} {what}; accepted: the same settings, or another folder")
    other = changed_files(facts["files"])
    if other:
        what = f"holds an unfinished run, and {other[0]} has changed since it began"
        raise BadInput(f"folder: {shown(folder)} {what}; accepted: another folder, or the old file put back")


def _recorded(p: OwnTextSettings) -> dict[str, Any]:
    """What params.yaml holds: the settings, and the files that register the parts of one's own among them."""
    return vars(p) | files_of(vars(p))


def _read(p: OwnTextSettings) -> Labelled:
    """The texts. The files of parts of one's own count as read, too, so that a change of them is noticed."""
    for file in sorted(sources_of(vars(p))):
        digest_read(file)
    return read_extraction(p)


def _plain(value: Any) -> Any:
    """A value as a parameter file gives it: the number that one of numpy stands for, and a path as text."""
    if isinstance(value, np.generic):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _fit(p: OwnTextSettings, folder: Path, threads: int, quiet: bool, is_kept: bool = True) -> SavedRun:
    """Train in a folder; `is_kept` says whether it is there after an interruption, too."""
    before = torch.get_num_threads()
    remove_drafts(folder)  # of a call that was killed
    torch.set_num_threads(threads)  # another number of threads adds numbers in another order
    try:
        with _notes_kept(quiet) as notes, random_state_kept(choose_device(p.device)):
            if is_kept:
                _record_environment(folder, p, threads)
            with reading() as files:
                texts = _read(p)
                result = train_extractor(p, texts.splits, texts.head, texts.num_outputs, folder)
            save_own(folder, result, p, texts, _baseline(texts, p.class_weight))
        write_notes(folder, notes)
        write_text(folder / READ, json.dumps(files, indent=1) + "\n")
        write_text(folder / "params.yaml", yaml.safe_dump(_recorded(p), sort_keys=False, allow_unicode=True))
        write_digests(folder, CHECKPOINT)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    except KeyboardInterrupt as interruption:
        facts = facts_of_checkpoint(folder / CHECKPOINT) if is_kept else None
        if facts is not None:
            note = f"note: interrupted after epoch {len(facts['history'])}; the same call continues from there"
            print(f"\n{note}", flush=True)
            interruption.add_note(note)  # the traceback is long, and this is its last line
        raise
    finally:
        torch.set_num_threads(before)
    return load_run(folder)


class _Both:
    """A stream for what a training prints: it is shown, and a second stream gets it, too."""

    def __init__(self, shown: Any, kept: OnlyNotes):
        self._shown, self._kept = shown, kept

    def write(self, text: str) -> int:
        """Write a text to both."""
        self._kept.write(text)
        return self._shown.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)


@contextlib.contextmanager
def _notes_kept(quiet: bool) -> Iterator[list[str]]:
    """The notes that are printed while the block runs, complete when it has ended.

    If `quiet`, nothing else is shown: neither the other lines nor a bar.
    """
    notes, written = list[str](), io.StringIO()
    shown = OnlyNotes(sys.stdout) if quiet else sys.stdout
    both = _Both(shown, OnlyNotes(written))
    with bars_unless(quiet), contextlib.redirect_stdout(both):  # type: ignore[type-var]
        yield notes
    notes += [line.removeprefix(NOTE) for line in written.getvalue().splitlines()]


def _record_environment(folder: Path, p: OwnTextSettings, threads: int) -> None:
    """Write environment.txt, or note in that of a run that is continued what differs today.

    The fingerprint of the code is left out: to compute it takes longer than to train on a few hundred texts.
    """
    now = describe_environment(NOTEBOOK_OF_FIT, _recorded(p), "unknown", str(threads)) + BY_FIT
    path = folder / ENVIRONMENT
    if not (folder / CHECKPOINT).exists() or not path.exists():
        write_text(path, now)
    elif note := continue_record(path, now):
        print(f"note: {note}", flush=True)


def _baseline(texts: Labelled, class_weight: str) -> Baseline | None:
    """The baseline, if scikit-learn is installed."""
    try:
        return train_tfidf(texts.splits, texts.head, class_weight)
    except BadInput as error:
        print(f"note: no baseline beside the model: {error}", flush=True)
        return None


def save_own(folder: Path, result: Result, p: Settings, texts: Labelled, baseline: Baseline | None = None) -> dict:
    """Write the files of a run on texts or pairs, which may be one's own, and print the notes about it.

    Parameters
    ----------
    folder : Path
        Gets the files of `saved.save_run`; of one's own texts, splits.csv; with a baseline, baseline.json.
    result, p, texts
        Of the run.
    baseline : Baseline or None
        On the same splits.

    Returns
    -------
    dict
        The metrics of the model.
    """
    sizes = texts.own.sizes if texts.own is not None else None
    for note in notes_about(result, baseline, texts.labels, p.start == "target", sizes):
        print(f"note: {note}", flush=True)
    if baseline is not None:
        baseline.save(folder)
    scale = texts.own.scale if texts.own is not None else None
    if texts.own is not None:
        texts.own.save(folder)
    return save_run(folder, result, p, texts.labels, scale)
