"""Compare the words that a run selects with those that people have marked in other texts of the same kind.

The reviews of some corpora have no rationales, but another corpus has marked reviews about the same aspects
(`Corpus.marked_by`). The model of a finished run reads these, and its selection is compared with the marks. The labels
of the marked reviews are not used, since they may be of another form.
"""

from pathlib import Path

import torch

from rationale.data.archives import how_to_get
from rationale.data.corpora import find_corpus
from rationale.data.corpus import Request
from rationale.digests import data_folder
from rationale.errors import BadInput
from rationale.runs import predict, saved
from rationale.training.evaluation import rationale_metrics


def has_marked(folder: Path) -> bool:
    """Whether a corpus with marked texts is known for the corpus and the aspect of a run, and the run has a model."""
    p = saved.read_parameters(folder)
    other = find_corpus(p["corpus"]).marked_by if "corpus" in p else ""
    return bool(other) and p["aspect"] in find_corpus(other).aspects and (folder / "model.safetensors").is_file()


def marked_scores(folder: Path) -> dict[str, float]:
    """rate_selected, precision, recall, f1 ... of a run on the marked texts of its aspect (see `rationale_metrics`).

    Raises
    ------
    BadInput
        If no marked texts are known for this run, or their files are not in the data folder; the message says how to
        get them.
    """
    if not has_marked(folder):
        raise BadInput(f"{folder}: nobody has marked texts like those of this run; accepted: a network on such texts")
    p = saved.read_parameters(folder)
    corpus = find_corpus(find_corpus(p["corpus"]).marked_by)
    if corpus.archive is not None and not corpus.archive.files(data_folder()):
        raise BadInput(f"{corpus.name}: not in {data_folder() / corpus.name}. {how_to_get(corpus.archive)}")
    texts = corpus.read["extraction"](Request(aspect=p["aspect"]))["test"]
    found = predict.predict(saved.load_run(folder), [list(example.tokens) for example in texts])
    return rationale_metrics([torch.tensor(row["z"]) for row in found], texts)
