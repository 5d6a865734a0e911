"""The linear baseline of Lei et al.: a support vector machine on single words and pairs of adjacent words.

Its rationale consists of the words with the largest weights, up to the budget. This is not a latent selection, because
the prediction depends on the whole text, but it is the baseline to beat. The module needs the extra `baselines`
(scikit-learn).
"""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rationale.data.example import Example
from rationale.errors import BadInput, optional
from rationale.nn.rules import top_k
from rationale.progress import report_phase
from rationale.training.evaluation import Evaluation, rationale_metrics
from rationale.training.extraction import Result

if TYPE_CHECKING:
    from rationale.training.settings.extraction import ReviewSettings

COSTS = (0.01, 0.1, 1.0, 10.0)  # costs of violating the margin (C); the cost with the best dev score is kept


def features(tokens: Sequence[str]) -> Iterator[str]:
    """Each word, then each pair of adjacent words: n + (n - 1) features."""
    yield from tokens
    yield from map("\t".join, pairwise(tokens))


def word_scores(tokens: Sequence[str], weight_of: dict[str, float], signed: bool) -> Tensor:
    """Importance of each word, [T]: the weight of the word plus half the weight of each pair that contains it.

    Parameters
    ----------
    weight_of : feature -> weight
        Weights for the prediction that is explained. A feature that did not occur in training has weight 0.
    signed : bool
        True: weights keep their sign, so that only evidence *for* the prediction ranks high (classes); False: their
        absolute values count (scores).
    """
    weights = np.array([weight_of.get(feature, 0.0) for feature in features(tokens)])
    if not signed:
        weights = np.abs(weights)
    words, pairs = weights[: len(tokens)], weights[len(tokens) :] / 2
    return torch.tensor(words + np.append(pairs, 0.0) + np.insert(pairs, 0, 0.0))


def train_svm(p: "ReviewSettings", splits: dict[str, list[Example]], head: str, num_outputs: int) -> Result:
    """Fit support vector machines, choose the cost on dev, and evaluate on dev and test.

    Parameters
    ----------
    p : parameters
        Uses budget and seed.
    splits, head, num_outputs
        As for `training.train_extractor`; a separate machine predicts each score, which is then clipped to [0, 1].

    Returns
    -------
    training.Result
        Without a model. The metrics are those metrics of an extractor that apply.

    Raises
    ------
    BadInput
        If there are too few training reviews, all of them have one class, or no word stands in two of them.
    """
    optional("sklearn", "model svm", "baselines")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC, LinearSVR

    start, classes = time.perf_counter(), head == "classes"
    labels = {example.label for example in splits["train"]}
    if len(splits["train"]) < 2 or (classes and len(labels) < 2):
        few = f"{len(splits['train'])} reviews to train on, {len(labels)} different labels"
        raise BadInput(f"num_train: {few}; accepted with model svm: at least 2, of both classes if there are classes")
    report_phase("support vector machines")
    vectorizer = TfidfVectorizer(analyzer=lambda tokens: list(features(tokens)), sublinear_tf=True, min_df=2)
    try:
        fitted = vectorizer.fit_transform([example.tokens for example in splits["train"]])
    except ValueError:
        few = f"none of the words of {len(splits['train']):,} training texts stands in two of them"
        raise BadInput(f"model: svm cannot be fitted, because {few}; accepted: more texts") from None
    inputs = {name: vectorizer.transform([e.tokens for e in splits[name]]) for name in ("dev", "test")}
    target = {name: np.array([example.label for example in part]) for name, part in splits.items()}

    def machines(cost: float) -> list:
        if classes:
            return [LinearSVC(C=cost, random_state=p.seed).fit(fitted, target["train"])]
        columns = target["train"].T
        return [LinearSVR(C=cost, random_state=p.seed, max_iter=5000).fit(fitted, column) for column in columns]

    def predict(fitted_machines: list, split: str) -> np.ndarray:
        predictions = [machine.predict(inputs[split]) for machine in fitted_machines]
        return predictions[0] if classes else np.stack(predictions, 1).clip(0, 1)

    def score(prediction: np.ndarray, split: str) -> float:
        return (prediction == target[split]).mean() if classes else np.square(prediction - target[split]).mean()

    metric, sign = ("accuracy", 1) if classes else ("mse", -1)
    by_cost = {cost: machines(cost) for cost in COSTS}
    dev = {cost: float(score(predict(of_cost, "dev"), "dev")) for cost, of_cost in by_cost.items()}
    best = max(COSTS, key=lambda cost: sign * dev[cost])
    names = vectorizer.get_feature_names_out()
    weights = _weights(by_cost[best], names, classes)
    evaluations = {}
    for split in ("dev", "test"):
        predictions, z = predict(by_cost[best], split), []
        for example, predicted in zip(splits[split], predictions, strict=True):
            scores = word_scores(example.tokens, weights[int(predicted) if classes else 0], signed=classes)
            z.append(top_k(scores, None, p.budget).float())
        metrics = {metric: float(score(predictions, split))} | rationale_metrics(z, splits[split])
        answer = torch.tensor(predictions)
        prediction = torch.nn.functional.one_hot(answer, num_outputs) if classes else answer
        evaluations[split] = Evaluation(metrics, prediction.float(), z, answer)
    row = {"epoch": 1, "seconds": time.perf_counter() - start, "cost": best}
    row |= {f"dev_{name}": value for name, value in evaluations["dev"].metrics.items()}
    return Result(None, None, splits, evaluations, [row], row)


def score_by_rate(
    splits: dict[str, list[Example]], head: str, rates: Sequence[float], seed: int = 1
) -> dict[str, list[float]]:
    """What a linear model scores on dev if it reads only a share of the words: a first idea of the rate to ask for.

    A linear model (a support vector machine for classes, ridge regression for scores) is fitted to whole training
    texts. Of each dev text it then reads the words with the largest absolute weights, or random ones.

    Parameters
    ----------
    splits : {"train", "dev"} -> examples
    head : "classes" or "scores"
    rates : shares of words, in (0, 1]
    seed : int
        Of the random words and of the fit.

    Returns
    -------
    dict: "largest weights" and "random words" -> accuracy (classes) or mean squared error (scores) for each rate
    """
    optional("sklearn", "a linear model", "baselines")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import Ridge
    from sklearn.svm import LinearSVC

    vectorizer = TfidfVectorizer(analyzer=lambda tokens: list(tokens), sublinear_tf=True)
    inputs = vectorizer.fit_transform([example.tokens for example in splits["train"]])
    labels = [example.label if head == "classes" else example.label[0] for example in splits["train"]]
    machine = (LinearSVC if head == "classes" else Ridge)(random_state=seed).fit(inputs, labels)
    weights = np.abs(np.atleast_2d(machine.coef_)).max(0)
    weight_of = dict(zip(vectorizer.get_feature_names_out(), weights.tolist(), strict=True))
    texts, generator = [example.tokens for example in splits["dev"]], np.random.default_rng(seed)
    gold = np.array([example.label if head == "classes" else example.label[0] for example in splits["dev"]])
    importance = {
        "largest weights": [np.array([weight_of.get(word, 0.0) for word in words]) for words in texts],
        "random words": [generator.random(len(words)) for words in texts],
    }
    scores: dict[str, list[float]] = {}
    for name, values in importance.items():
        scores[name] = []
        for rate in rates:
            kept = [top_k(torch.tensor(value), None, rate).bool() for value in values]
            parts = [
                [w for w, keep in zip(words, keeps, strict=True) if keep]
                for words, keeps in zip(texts, kept, strict=True)
            ]
            predicted = machine.predict(vectorizer.transform(parts))
            score = predicted == gold if head == "classes" else np.square(predicted.clip(0, 1) - gold)
            scores[name].append(float(score.mean()))
    return scores


def _weights(machines: list, names: np.ndarray, are_classes: bool) -> dict[int, dict[str, float]]:
    """Feature -> weight, for each class of train the evidence for it; for scores 0 -> the absolute weights."""
    if not are_classes:
        rows = {0: np.abs([machine.coef_ for machine in machines]).max(0)}
    else:
        (machine,) = machines
        found = machine.coef_ if len(machine.coef_) > 1 else [-machine.coef_[0], machine.coef_[0]]  # of two classes
        rows = dict(zip(machine.classes_.tolist(), found, strict=True))
    return {number: dict(zip(names, row.tolist(), strict=True)) for number, row in rows.items()}
