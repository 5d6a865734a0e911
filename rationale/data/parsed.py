"""Corpora that were read before come from the cache (`cache`); the first time, their reader reads them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from rationale.data import cache
from rationale.data.corpus import OWN_CORPORA, SPLITS, Corpus, Request
from rationale.data.example import Example
from rationale.data.packed import Packed, pack, unpack
from rationale.data.pairs import NULL
from rationale.data.targets import Targets
from rationale.digests import changed, data_folder, digest_read, files_of, reading
from rationale.errors import BadInput

REFERENCES = "references"  # JSON, of generation


class _Watched:
    """A request that records which of its parts a reader uses."""

    def __init__(self, request: Request):
        self._request = request
        self.used: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._request, name)
        self.used[name] = _plain(value)
        return value


def read(corpus: Corpus, task: str, request: Request) -> Any:
    """What the corpus's reader of this task returns for this request; its lists may be `Packed` instead.

    An entry of the cache is used if it was made by the same code for the same values of all parts of the request that
    the reader used, if the folders of the corpus hold files of the same names, and if the files that were read have the
    same content. These files count as read in either case (`digests.files_read`).

    Corpora without an archive, corpora of one's own, those whose examples are not plain (questions), and those whose
    reader does not read through `data/files.py`, which records the files, are not cached.
    """
    reader = corpus.read[task]
    if corpus.archive is None or corpus.name in OWN_CORPORA or cache.folder() is None:
        return _fitting(corpus, task, reader(request), request.aspect)
    kind, names = f"{corpus.name}-{task}", _names_of_files(corpus)
    for name in cache.names(kind):
        facts = cache.read_facts(name)
        if facts is not None and _is_same(facts, names, request):
            found = _unpacked(name)
            if found is not None:
                return found
    watched = _Watched(request)
    with reading() as files:
        found = _fitting(corpus, task, reader(cast(Request, watched)), request.aspect)
    if not files:
        return found  # whatever it was made from, no change of it would be noticed
    name = cache.name_of(kind, names, watched.used, files)
    facts = {"code": cache.code(), "names": names, "used": watched.used, "files": files}
    return (_unpacked(name) if _stored(name, facts, found) else None) or found


def _fitting(corpus: Corpus, task: str, found: Any, aspect: str) -> Any:
    """What a reader of texts with labels returned, after a look at its form.

    Raises
    ------
    BadInput
        It is not one list of examples per split, or an example does not fit the corpus; the message says which.
    """
    if task not in ("extraction", "alignment"):
        return found
    told, outputs = f"corpus: {corpus.name}", len(corpus.outputs(aspect))
    splits = sorted(found) if isinstance(found, Mapping) else type(found).__name__
    if splits != sorted(SPLITS):
        raise BadInput(f"{told}: its reader returns {splits}; accepted: a dict with the keys {', '.join(SPLITS)}")
    for split, examples in found.items():
        if not isinstance(examples, Sequence):
            raise BadInput(
                f"{told}, {split}: its reader gives a {type(examples).__name__}; accepted: a list of Example"
            )
        for number, example in enumerate(examples, start=1):
            if wrong := _wrong(example, bool(corpus.labels), outputs, task == "alignment"):
                raise BadInput(f"{told}, {split}, example {number}: {wrong}")
    return found


def _wrong(example: Any, has_classes: bool, outputs: int, in_pairs: bool) -> str:
    """What is wrong with an example, and what is accepted; "": nothing."""
    if not isinstance(example, Example):
        return f"a {type(example).__name__}; accepted: an Example"
    label = example.label
    if not example.tokens:
        return "no token; accepted: at least one"
    if has_classes:
        if not (isinstance(label, int) and 0 <= label < outputs):
            return f"the label {label!r}; accepted: a whole number from 0 to {outputs - 1}"
    elif not (isinstance(label, tuple) and len(label) == outputs and all(0 <= score <= 1 for score in label)):
        return f"the label {label!r}; accepted: a tuple of numbers in [0, 1], one per score ({outputs})"
    if example.rationale is not None and len(example.rationale) != len(example.tokens):
        lengths = f"{len(example.rationale)} marks for {len(example.tokens)} tokens"
        return f"a rationale of {lengths}; accepted: one mark per token"
    if in_pairs and not (example.second and example.tokens[0] == example.second[0] == NULL):
        return f"its sides do not both begin with {NULL}; accepted: tokens and second that begin with `data.pairs.NULL`"
    return ""


def _names_of_files(corpus: Corpus) -> list[str]:
    """Names of all files in the folders of a corpus: another one may lead its reader elsewhere."""
    root, names = data_folder(), set()
    assert corpus.archive is not None  # `read` has asked
    for top in {pattern.split("/")[0] for patterns in corpus.archive.places for pattern in patterns}:
        for path in root.glob(top):
            names |= {file.relative_to(root).as_posix() for file in files_of(path)}
    return sorted(names)


def _is_same(facts: dict[str, Any], names: list[str], request: Request) -> bool:
    """Whether the reader would read the same files, with the same content, and use them in the same way."""
    if facts.get("code") != cache.code() or facts.get("names") != names:
        return False
    if any(_plain(getattr(request, part, None)) != value for part, value in facts["used"].items()):
        return False
    for place, digest in facts["files"].items():
        path = data_folder() / place  # an absolute place stays as it is
        if not path.exists() or digest_read(path) != digest:
            return False
    return True


def _plain(value: Any) -> Any:
    """A value as JSON returns it."""
    return json.loads(json.dumps(dict(value) if hasattr(value, "items") else value))


def _stored(name: str, facts: dict[str, Any], found: Any) -> bool:
    """Whether what was read could be put into the cache."""
    splits = found.splits if isinstance(found, Targets) else found
    arrays = pack(splits)
    if arrays is None or changed(facts["files"]):  # a file was changed while it was read
        return False
    if isinstance(found, Targets):
        text = json.dumps(found.references).encode()
        if json.loads(text) != found.references:
            return False
        arrays[REFERENCES] = np.frombuffer(text, np.uint8)
    with cache.draft(name) as draft:
        if draft is None:
            return False
        try:
            for key, array in arrays.items():
                draft.append(key, array)
            draft.finish(facts | {"splits": list(splits)})
        except OSError:
            return False
    return True


def _unpacked(name: str) -> dict[str, Packed] | Targets | None:
    entry = cache.opened(name)
    if entry is None:
        return None
    splits = unpack(entry.arrays, entry.facts["splits"])
    if REFERENCES not in entry.arrays:
        return splits
    return Targets(splits, json.loads(bytes(entry.arrays[REFERENCES])))
