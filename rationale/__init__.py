"""Differentiable rationales: distributions, gates, models and objectives, and the runs of the notebooks.

You import each part from its subpackage, as in `from rationale.distributions import HardKuma` and
`from rationale.nn import sparsemax`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rationale.runs.saved import SavedRun

__version__ = "0.1.0"
__all__ = ["__version__", "fit", "load"]


def load(run: str | Path) -> "SavedRun":
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
        `notes` are its attributes.

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
    notes about the run are there. A pretrained encoder is built from its own checkpoint, which has to be there, too.
    """
    from rationale.runs.saved import load_run  # most of the package: imported when it is asked for

    return load_run(run)


def fit(
    data: str | Path, folder: str | Path | None = None, threads: int = 1, quiet: bool = False, **settings: Any
) -> "SavedRun":
    """Train a rationale extractor on texts of your own.

    With the same settings this is the run of notebook `17_train_own_texts`, to the last bit on the same machine. Calls
    in several threads of a process train one after the other, because they share its random state.

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
    threads : int from 1 to 1024
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
