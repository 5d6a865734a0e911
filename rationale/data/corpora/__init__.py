"""The corpora: each file in this folder is one corpus.

A file `<name>.py` holds the reader of a corpus, its archive (address, terms, places, check) and its facts, and ends
with `CORPUS = Corpus(name="<name>", ...)`. To add a corpus, add such a file; no other file names the corpus.
"""

import importlib
import pkgutil
from functools import cache

from rationale.data.archives import Archive
from rationale.data.corpus import OWN_CORPORA, TASKS, Corpus
from rationale.data.own.settings import is_own
from rationale.errors import BadInput, require_known

MADE_UP = "synthetic"  # the corpus that needs no files


def find_corpus(name: str) -> Corpus:
    """The corpus of this name; its file is imported by this call. The facts of texts of one's own are in their files.

    Raises
    ------
    BadInput
        There is no such corpus; the message lists the names that are accepted.
    ValueError
        Its file defines no `CORPUS` of this name.
    """
    if names_own(name):
        return Corpus(name, "texts of one's own")  # its labels are told from its files, see `data.own`
    if name in OWN_CORPORA and name not in _files(tuple(__path__)):
        return OWN_CORPORA[name]
    require_known("corpus", name, corpus_names())
    module = importlib.import_module(f"{__name__}.{name}")
    corpus = getattr(module, "CORPUS", None)
    if not isinstance(corpus, Corpus) or corpus.name != name:
        raise ValueError(f"{module.__file__}: no `CORPUS = Corpus(name={name!r}, ...)` in it")
    return corpus


def names_own(corpus: str) -> bool:
    """Whether the setting `corpus` names texts of one's own. The name of a corpus comes before a folder called so."""
    return corpus not in corpus_names() and is_own(corpus)


def corpus_names(task: str | None = None) -> tuple[str, ...]:
    """The names of the corpora, sorted.

    Parameters
    ----------
    task : one of `corpus.TASKS`, or None
        Only corpora that can be used for this task (all files are imported to decide this); None: all corpora.

    Raises
    ------
    ValueError
        An unknown task.
    """
    if task not in (None, *TASKS):
        raise ValueError(f"task: {task!r} is unknown; accepted: {', '.join(TASKS)}")
    return _names(task, tuple(__path__), tuple((name, corpus.tasks) for name, corpus in OWN_CORPORA.items()))


@cache  # the settings of a run ask hundreds of times
def _names(task: str | None, folders: tuple[str, ...], own: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
    """See `corpus_names`; `own` are the names and tasks of `OWN_CORPORA`."""
    names = tuple(dict.fromkeys((*_files(folders), *dict(own))))
    return tuple(name for name in names if task is None or task in find_corpus(name).tasks)


@cache
def _files(folders: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the files in these folders, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folders)))


def archives() -> dict[str, Archive]:
    """All archives by name: those of the corpora, each once, then those of word vectors."""
    from rationale.data.vector_archives import VECTORS

    held = [corpus.archive for corpus in map(find_corpus, corpus_names())]
    return {archive.name: archive for archive in (*filter(None, held), *VECTORS)}


def find_archive(name: str) -> Archive:
    """The archive of this name.

    Raises
    ------
    BadInput
        There is no such archive.
    """
    known = archives()
    if name not in known:
        raise BadInput(f"{name!r} is not an archive; accepted: {', '.join(known)}")
    return known[name]
