"""Differentiable rationales: distributions, gates, models and objectives, and the runs of the notebooks.

You import each part from its subpackage, as in `from rationale.distributions import HardKuma` and
`from rationale.nn import sparsemax`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rationale.runs.explain_classifier import Explanations
    from rationale.runs.saved import SavedRun

__version__ = "0.1.0"
__all__ = ["__version__", "explain_classifier", "fit", "load"]


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


def explain_classifier(
    classifier: Callable[[list[str]], Any],
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    margin: float = 0.05,
    mask: str = "",
    batch_size: int = 64,
    tokeniser: str | Callable[[str], list[str]] = "treebank",
    quiet: bool = False,
    words: Literal["enough", "needed"] = "enough",
) -> "Explanations":
    """Find, for each text, a few words that are enough, or needed, for the answer of a classifier of your own.

    The classifier may be anything that gives probabilities for texts. It is only asked, and not trained or changed.

    Words are enough if the classifier, when it reads them and no others, gives the same label, and the probability of
    this label drops by at most `margin`. No word of those that are found can be left out without breaking this. Words
    are needed if, when the classifier reads all others, another label leads by at least `margin`. No word of those that
    are found can be put back alone without breaking this. In both cases, another set of words may be smaller still.

    Parameters
    ----------
    classifier
        A function from a list of texts to their probabilities, one row per text: an array [N, K], as of `predict_proba`
        of a pipeline of scikit-learn, or lists of {"label": ..., "score": ...}, as of a pipeline of transformers with
        `top_k=None`, or dicts from labels to probabilities. A model of `rationale.load` is one as well.
    texts
        The texts to explain.
    labels
        The names of the K classes, in the order of the numbers of a row. None: those that the answers name, those of
        `classifier` if it is a method of scikit-learn, or the numbers from 0.
    margin : float in [0, 1)
        Words that are enough: how much the probability of the label may drop. Words that are needed: how far another
        label has to lead. A rounding error of 1e-6 is allowed.
    mask
        What takes the place of each word that is not read, such as `[MASK]` for BERT. "": such words are left out.
    batch_size : int >= 1
        Texts per call of the classifier.
    tokeniser
        How texts are split into words: "treebank" (clitics and marks are words of their own), "words" (so are
        slashes and the like), "spaces", or a function from a text to its words. They have to stand in the text, and
        nothing but spaces may be left out. For Chinese, `list` makes each character a word.
    quiet
        Show no bar.
    words
        Which words to look for: those that are "enough", or those that are "needed".

    Returns
    -------
    Explanations
        A list with one `Explanation` per text, in their order. It has the label, its probability and the passages
        (`rationale`) of an `Answer`, the probability of the label if the classifier reads only these words (`alone`) or
        only the others (`rest`, and `rest_probabilities` of all labels), the label that it gives to the others
        (`otherwise`), and the number of texts that it has read for this (`tries`). `to_html()` makes a page of the
        list, and `to_rows()` plain rows for JSON or a table of pandas.

    Raises
    ------
    BadInput
        A text is no text, or the classifier gives no probabilities, or other ones if it is asked again; the message is
        one line that says what is accepted.

    Notes
    -----
    That words are enough does not mean that the classifier would use them if it read the whole text: a search knows the
    answer in hindsight (section 1 of `notebooks/41_diffmask.py`). A single word, such as "and", is unlike the texts on
    which the classifier was trained, and may be enough by accident. So look at `rest`: where it is high, other words
    are enough as well. If the classifier gives an answer even without any word, the empty text is enough, and the
    rationale is empty. A smaller `margin` may ask for some words.

    Needed words are not always found, for instance if the classifier gives this label to an empty text, too. The
    rationale is empty then as well, `rest` and `otherwise` are None, and the explanation says so.

    For a text of n words, the classifier reads about 2 n texts if few words matter. A text of more than 64 words is
    first divided into 64 parts. We have seen up to 1,700 texts for one of 2,000 words.
    """
    from rationale.runs.explain_classifier import explain_classifier as explain  # imported when it is asked for

    return explain(classifier, texts, labels, margin, mask, batch_size, tokeniser, quiet, words)
