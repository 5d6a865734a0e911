"""Differentiable rationales: distributions, gates, models and objectives, and the runs of the notebooks.

You import each part from its subpackage, as in `from rationale.distributions import HardKuma` and
`from rationale.nn import sparsemax`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rationale.runs.explained import ExplainedClassifier
    from rationale.runs.saved import SavedRun

__version__ = "0.1.0"
__all__ = ["__version__", "explain_classifier", "fit", "load"]


def load(run: str | Path) -> "SavedRun | ExplainedClassifier":
    """The model of a finished run, in evaluation mode, ready to read new text.

    Parameters
    ----------
    run
        The folder of a finished training run, for example `outputs/12_train_sst/hardkuma-selection0.4-seed1`.

    Returns
    -------
    SavedRun
        Called with a list of texts, it gives an `Answer` (rationale/runs/answer.py) for each: label, probability and
        rationale. `to_html(answers)` makes a page of them, `with_labels(answers, labels)` compares them with labels,
        and `export(path)` writes a file for services without torch. `model`, `vocabulary`, `parameters`, `labels` and
        `notes` are its attributes. From the folder of `explain_classifier`, you get an `ExplainedClassifier`, which
        answers likewise.

    Raises
    ------
    BadInput
        If the folder is not that of a finished training run. The model raises it, too, for what is no text. It is a
        ValueError, which you import by `from rationale.errors import BadInput`.

    Notes
    -----
    In a service, several threads may ask one model at the same time. `torch.set_num_threads` says how many cores one
    answer uses. A text is never cut, so a longer one takes longer: limit the length yourself. Of the folder, only
    `model.safetensors` is needed. With `SHA256SUMS` beside it, a damaged file is refused, and with `notes.json`, the
    notes of `fit` are there. A pretrained encoder is built from its own checkpoint, which has to be there, too.
    """
    from rationale.runs.explained import load_any  # most of the package: imported when it is asked for

    return load_any(run)


def fit(
    data: str | Path, folder: str | Path | None = None, threads: int = 1, quiet: bool = False, **settings: Any
) -> "SavedRun":
    """Train a rationale extractor on texts of your own.

    With the same settings this is the run of notebook `17_train_own_texts`, to the last bit on the same machine.

    Parameters
    ----------
    data
        A file (.csv, .tsv, .jsonl, .parquet), or a folder with train, dev and test files of these, in ERASER's format,
        or saved by the library `datasets`; or `hub:owner/name` of a data set on the hub of Hugging Face.
    folder
        Where the run is saved, for `rationale.load`. If the folder holds the finished run of the same settings and
        texts, that run is loaded, so you can execute a cell of a notebook twice. If the run was interrupted, the same
        call continues it, also with more `epochs`: a target that falls (`selection_moves`) keeps the schedule with
        which it began. Only one call at a time trains in a folder, and one with files of another origin is refused.
        None: the model is only returned.
    threads : int >= 1
        Computing threads. Another number of threads gives slightly different weights.
    quiet
        Show only notes: no bar, and no line per epoch. A program reads the notes in the attribute `notes` of the model.
    settings
        The columns `text`, `label` and `rationale`, and all other settings of the notebook, such as `selection=0.2`,
        `epochs=8` and `seed=1`. They are the fields of `rationale.training.settings.OwnTextSettings`, and in a clone of
        the repository, `python -m rationale.runs 17_train_own_texts --list` shows them.

    Returns
    -------
    SavedRun
        As `load` returns it.

    Raises
    ------
    BadInput
        A setting, a file or a row cannot be used; the message is one line that says what is accepted.
    """
    from rationale.runs.fit import fit as train  # most of the package: imported when it is asked for

    return train(data, folder, threads, quiet, **settings)


def explain_classifier(
    classifier: str | Path,
    data: "str | Path | Sequence[str]",
    folder: str | Path | None = None,
    threads: int = 1,
    **settings: Any,
) -> "ExplainedClassifier":
    """Train a probe of a text classifier of your own, which shows for any text the words that its answer needs.

    The probe is that of DiffMask (`notebooks/41_diffmask.py`), with one gate per word. It is trained once, on texts
    without labels, and then it explains a new text in one pass. The classifier itself does not change.

    Parameters
    ----------
    classifier
        A folder or a name on the hub from which `AutoModelForSequenceClassification` and `AutoTokenizer` of the package
        transformers load a fine-tuned classifier, for example BERT, RoBERTa, DistilBERT, DeBERTa or MiniLM.
    data
        Texts such as those that the classifier is for: a file (.csv, .tsv, .jsonl, .parquet), a folder of train, dev
        and test files, `hub:owner/name` of a data set, or a list of texts. A tenth of the texts of a single file is
        held out for the choice of the epoch, and another tenth for the measurement of what the probe costs.
    folder
        Where the probe is saved, for `rationale.load`. It also keeps the place of the classifier and a digest of its
        files, but no copy. As with `fit`, a finished probe is loaded, and an interrupted one is continued. None: the
        probe is only returned.
    threads : int >= 1
        Computing threads. Another number of threads gives slightly different weights.
    settings
        `text`, the column of the texts; `margin`, by how many nats the answers may move on average if all words but the
        kept ones are masked; and `epochs`, `learning_rate`, `batch_size`, `seed` and the other fields of
        `rationale.training.settings.classifier.ClassifierProbeSettings`.

    Returns
    -------
    ExplainedClassifier
        Called with a list of texts, it gives an `Answer` for each: the classifier's label and probability, and as
        `rationale` the words that are kept. `costs(texts)` measures for each text what masking the others costs, and
        `cost` is the mean over held-out texts, in words. `to_html(answers)` makes a page.

    Raises
    ------
    BadInput
        A setting, a file, a row or the classifier cannot be used; the message is one line that says what is accepted.
    """
    from rationale.runs.explain_classifier import explain_classifier as train  # imported when it is asked for

    return train(classifier, data, folder, threads, **settings)
