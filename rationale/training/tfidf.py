"""TF-IDF with logistic regression: the baseline of texts of one's own. It reads whole texts and is fitted in seconds.

    x_tw = (1 + ln n_tw) (1 + ln((1 + N) / (1 + N_w))),   each row divided by its length
    p(y | x) = softmax(W x + b)                           classes; scores: ridge regression, clipped to [0, 1]

n_tw is how often the word or pair of adjacent words w stands in text t, and N_w in how many of the N training texts it
stands. The inverse strength of the L2 penalty is the one of `COSTS` with the best dev score. The words of a pair count
separately for its first and its second text. So the baseline reads both texts, but it cannot compare them.

A model whose rationales are to be believed should not be worse: what it reads would then be less than what single words
tell. The module needs scikit-learn, from the extra `texts`.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rationale.data.example import Example
from rationale.data.packed import fewest_occurrences
from rationale.errors import optional
from rationale.files import write_text
from rationale.metrics import balanced_accuracy
from rationale.progress import report_phase

if TYPE_CHECKING:
    import numpy as np

NAMES = {"classes": "TF-IDF + logistic regression", "scores": "TF-IDF + ridge regression"}  # by head
METRICS = {"classes": "accuracy", "scores": "mse"}
COSTS = (0.1, 1.0, 10.0, 100.0)  # inverse strengths of the penalty
EXTRA = "texts"  # of this package
FILE = "baseline.json"
OF_SECOND = "\0"  # what the words of a second text begin with: no text holds it


@dataclass
class Baseline:
    """The baseline, fitted and evaluated.

    Attributes
    ----------
    name : str
    metrics : {"dev", "test"} -> {"accuracy" or "mse": mean score}
        And `balanced_accuracy`, if classes have weights.
    scores : {"dev", "test"} -> [N]
        Of each text in order: 1 or 0 for a right or wrong class, or minus the squared error, so more is better.
    cost : float
        The inverse strength of the penalty, chosen on dev.
    seconds : float
    """

    name: str
    metrics: dict[str, dict[str, float]]
    scores: dict[str, "np.ndarray"]
    cost: float
    seconds: float

    def save(self, folder: Path) -> None:
        """Write baseline.json into the folder of a run."""
        facts = {"name": self.name, **self.metrics, "cost": self.cost, "seconds": self.seconds}
        write_text(folder / FILE, json.dumps(facts, indent=1))


def words_and_pairs(tokens: Sequence[str]) -> list[str]:
    """The words of a text in lower case, and its pairs of adjacent words.

    Examples
    --------
    >>> words_and_pairs(["Not", "so", "good"])
    ['not', 'so', 'good', 'not so', 'so good']
    """
    lower = [token.lower() for token in tokens]
    return lower + [" ".join(pair) for pair in pairwise(lower)]


def features_of(tokens: Sequence[str], second: Sequence[str] | None = None) -> list[str]:
    """What the baseline counts in a text, or in a pair: `words_and_pairs`, those of the second text with a mark.

    Examples
    --------
    >>> features_of(["A", "dog"], ["it"])
    ['a', 'dog', 'a dog', '\\x00it']
    """
    return words_and_pairs(tokens) + [OF_SECOND + feature for feature in words_and_pairs(second or ())]


def train_tfidf(splits: dict[str, list[Example]], head: str, class_weight: str = "none") -> Baseline:
    """Fit the baseline to the training texts, choose its penalty on dev, and evaluate it on dev and test.

    Parameters
    ----------
    splits : {"train", "dev", "test"} -> examples
        The same as those of the model beside which it stands.
    head : "classes" or "scores"
    class_weight : "none" or "balanced"
        As of the model; with balanced, the penalty is chosen by the balanced accuracy, which is measured as well.
        Scores have no classes, and the setting makes no difference for them.

    Raises
    ------
    BadInput
        If scikit-learn is not installed.
    """
    optional("sklearn", NAMES[head], EXTRA)
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    start, classes = time.perf_counter(), head == "classes"
    report_phase("baseline")
    texts = {name: [(example.tokens, example.second) for example in part] for name, part in splits.items()}
    least = fewest_occurrences(len(texts["train"]))  # of texts in which a word stands
    vectorizer = TfidfVectorizer(
        analyzer=lambda text: features_of(*text), sublinear_tf=True, min_df=least, dtype=np.float32
    )
    try:
        inputs = {"train": vectorizer.fit_transform(texts["train"])}
    except ValueError:  # no word stands in two texts
        inputs = {"train": vectorizer.set_params(min_df=1).fit_transform(texts["train"])}
    inputs |= {name: vectorizer.transform(texts[name]) for name in ("dev", "test")}
    target = {name: np.array([example.label for example in part]) for name, part in splits.items()}

    def scored(machine: Any, split: str) -> "np.ndarray":
        """The score of each text of a split."""
        predicted = machine.predict(inputs[split])
        if classes:
            return (predicted == target[split]).astype(float)
        return -np.square(predicted.reshape(target[split].shape).clip(0, 1) - target[split]).mean(1)

    balanced, best = classes and class_weight == "balanced", None

    def mean(scores: "np.ndarray", split: str) -> float:
        """The score that the penalty is chosen by."""
        if not balanced:
            return float(scores.mean())
        return balanced_accuracy(torch.from_numpy(scores), torch.from_numpy(target[split]))

    for cost in COSTS:
        machine: Any = Ridge(alpha=1 / cost, solver="lsqr")
        if classes:
            weights = "balanced" if balanced else None
            machine = LogisticRegression(C=cost, max_iter=1000, class_weight=weights)
        machine.fit(inputs["train"], target["train"])
        value = mean(scored(machine, "dev"), "dev")
        if best is None or value > best[0]:
            best = value, cost, machine
    assert best is not None
    scores = {name: scored(best[2], name) for name in ("dev", "test")}
    means = {name: {METRICS[head]: abs(float(values.mean()))} for name, values in scores.items()}
    if balanced:
        for name, values in scores.items():
            means[name]["balanced_accuracy"] = mean(values, name)
    return Baseline(NAMES[head], means, scores, best[1], time.perf_counter() - start)
