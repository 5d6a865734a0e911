"""The data of a sweep's runs are looked at before any of them starts, once for all runs that read the same."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace

from rationale.errors import BadInput
from rationale.runs.folder import is_worked_on
from rationale.runs.kernel import check_texts
from rationale.runs.memory import has_transformer
from rationale.runs.origin import TASKS
from rationale.runs.pool import runs_to_do
from rationale.runs.sweeps import Planned, Sweep


def refuse_bad_data(sweep: Sweep, outputs: Path, changes: Mapping[str, str], only_texts: bool = False) -> None:
    """Refuse a sweep if the data of a run that is to be made cannot be used. Other runs are not looked at.

    Nor are those that another process makes, because it has looked at their data.

    Parameters
    ----------
    sweep, outputs, changes
        As for `runs_to_do`.
    only_texts : bool
        True: only texts of one's own are looked at, and not whether this machine has the corpora, the word vectors, the
        pretrained encoders and the GPU that the runs name.

    Raises
    ------
    BadInput
        The name of the first such run, and what would be said if it was made alone.
    """
    from rationale.data.own.settings import PairFileSettings, RationaleFileSettings  # imports torch

    runs = [run for run in runs_to_do(sweep, outputs, changes) if not is_worked_on(run.work(outputs))]
    columns = RationaleFileSettings.model_fields | PairFileSettings.model_fields
    _refuse(runs, lambda run: check_texts(run.params), "corpus", *columns)
    if not only_texts:
        _refuse(runs, _check_device, "device")
        _refuse(runs, _check_words, "vectors", "encoder", "pretrained", "bfloat16", "device", "corpus")
        _refuse(runs, _check_corpus, "corpus", "aspect", "language")


def _refuse(runs: Iterable[Planned], check: Callable[[Planned], None], *names: str) -> None:
    """Let `check` refuse each combination of values of the parameters `names`, in the first run that has it."""
    checked = set()
    for run in runs:
        values = tuple(repr(run.params.get(name)) for name in names)
        if values not in checked:
            checked.add(values)
            try:
                check(run)
            except BadInput as error:
                raise BadInput(f"{run.name}: {error}") from None


def _corpus_of(run: Planned) -> str | None:
    """The corpus that a run names, or the only one of its notebook; None if it reads no texts."""
    return run.params.get("corpus", TASKS.get(run.notebook.stem))  # of these tasks, only `sst` is a corpus


def _check_device(run: Planned) -> None:
    from rationale.training.loop import choose_device  # imports torch

    choose_device(run.params.get("device", "auto"))


def _check_words(run: Planned) -> None:
    """Refuse word vectors that are not there, and a pretrained encoder that cannot be loaded."""
    from rationale.data.corpora import find_corpus
    from rationale.data.vectors import require_vectors  # imports torch
    from rationale.models.transformers import load_encoder
    from rationale.training.extraction import require_words

    params = run.params
    if has_transformer(params) and "encoder" in params:
        require_words(SimpleNamespace(**params))
    elif has_transformer(params):
        load_encoder(params["pretrained"], find_corpus(params["corpus"]).spans)
    elif "vectors" in params and _corpus_of(run) is not None:
        require_vectors(params["vectors"])


def _check_corpus(run: Planned) -> None:
    """Let the reader of a corpus say what is missing. It reads nothing if the archive of the corpus is there."""
    from rationale.data.corpora import corpus_names, find_corpus  # imports torch
    from rationale.data.corpus import Request
    from rationale.data.example import data_folder

    if (name := _corpus_of(run)) in corpus_names():
        corpus = find_corpus(name)
        if corpus.archive is not None and not corpus.archive.files(data_folder()):
            asked = {part: run.params[part] for part in ("aspect", "language", "fold") if part in run.params}
            corpus.read[corpus.tasks[0]](Request(**asked))
