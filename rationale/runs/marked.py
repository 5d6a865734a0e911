"""Compare the words that a run selects with those that people have marked in other texts of the same kind.

The reviews of some corpora have no rationales, but another corpus has marked reviews about the same aspects
(`Corpus.marked_by`). The model of a finished run reads these, and its selection is compared with the marks. The labels
of the marked reviews are not used, since they may be of another form.
"""

from pathlib import Path

import torch

from rationale.data.archives import how_to_get
from rationale.data.corpora import find_corpus
from rationale.data.corpus import Corpus, Request
from rationale.digests import data_folder
from rationale.errors import BadInput
from rationale.runs import predict, saved
from rationale.training.evaluation import rationale_metrics


def marked_for(folder: Path) -> Corpus | None:
    """The corpus with marked texts for the corpus and the aspect of a run; None if there is none, or no saved model."""
    p = saved.read_parameters(folder)
    name = find_corpus(p["corpus"]).marked_by if "corpus" in p else ""
    corpus = find_corpus(name) if name and (folder / "model.safetensors").is_file() else None
    return corpus if corpus is not None and p["aspect"] in corpus.aspects else None


def marked_scores(folder: Path) -> dict[str, float]:
    """rate_selected, precision, recall, f1 ... of a run on the marked texts of its aspect (see `rationale_metrics`).

    Raises
    ------
    BadInput
        If no marked texts are known for this run, or their files are not in the data folder; the message says how to
        get them.
    """
    corpus = marked_for(folder)
    if corpus is None:
        raise BadInput(f"{folder}: nobody has marked texts like those of this run; accepted: a network on such texts")
    if corpus.archive is not None and not corpus.archive.files(data_folder()):
        raise BadInput(f"{corpus.name}: not in {data_folder() / corpus.name}. {how_to_get(corpus.archive)}")
    texts = corpus.read["extraction"](Request(aspect=saved.read_parameters(folder)["aspect"]))["test"]
    found = predict.predict(saved.load_run(folder), [list(example.tokens) for example in texts])
    return rationale_metrics([torch.tensor(row["z"]) for row in found], texts)
