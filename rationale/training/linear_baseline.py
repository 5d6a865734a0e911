"""The linear baseline of Lei et al.: a support vector machine on single words and pairs of neighbours.

Its rationale is what it weighs most, up to the budget. That is no latent selection (the machine has read everything),
but the number to beat. Needs the extra `baselines` (scikit-learn).
"""

import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from rationale.data.example import Example
from rationale.errors import BadInput
from rationale.nn.gates import top_k
from rationale.training.evaluation import Evaluation, rationale_figures
from rationale.training.extraction import Result

COSTS = (0.01, 0.1, 1.0, 10.0)  # of a mistake in the margin; the best on dev is kept


def features(tokens: Sequence[str]) -> Iterator[str]:
    """Each word, then each pair of neighbours: n + (n - 1) features."""
    yield from tokens
    yield from map("\t".join, zip(tokens, tokens[1:], strict=False))


def word_scores(tokens: Sequence[str], weight_of: dict[str, float], signed: bool) -> Tensor:
    """How much each word counts, [T]: the weight of the word and half of that of each pair it stands in.

    Parameters
    ----------
    weight_of : feature -> weight
        Of the prediction to explain; a feature that was never seen weighs nothing.
    signed : bool
        Only what speaks *for* the prediction counts (classes); else the size of the weight (scores).
    """
    weights = np.array([weight_of.get(feature, 0.0) for feature in features(tokens)])
    if not signed:
        weights = np.abs(weights)
    words, pairs = weights[: len(tokens)], weights[len(tokens) :] / 2
    return torch.tensor(words + np.append(pairs, 0.0) + np.insert(pairs, 0, 0.0))


def train_svm(p: SimpleNamespace, splits: dict[str, list[Example]], head: str, num_outputs: int) -> Result:
    """Fit, choose the cost of a mistake on dev, evaluate dev and test.

    Parameters
    ----------
    p : parameters
        Uses budget and seed.
    splits, head, num_outputs
        As for `training.train_extractor`; scores are predicted one by one and cut off at 0 and 1.

    Returns
    -------
    training.Result
        Without a model; the metrics are those of an extractor, as far as there are any.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.svm import LinearSVC, LinearSVR

    start, classes = time.perf_counter(), head == "classes"
    kinds = {example.label for example in splits["train"]}
    if len(splits["train"]) < 2 or (classes and len(kinds) < 2):
        few = f"{len(splits['train'])} reviews to train on, {len(kinds)} different labels"
        raise BadInput(f"num_train: {few}; accepted with model svm: at least 2, of both classes if there are classes")
    vectorizer = TfidfVectorizer(analyzer=lambda tokens: list(features(tokens)), sublinear_tf=True, min_df=2)
    fitted = vectorizer.fit_transform([example.tokens for example in splits["train"]])
    inputs = {name: vectorizer.transform([e.tokens for e in splits[name]]) for name in ("dev", "test")}
    target = {name: np.array([example.label for example in part]) for name, part in splits.items()}

    def machines(cost: float) -> list:
        if classes:
            return [LinearSVC(C=cost, random_state=p.seed).fit(fitted, target["train"])]
        columns = target["train"].T
        return [LinearSVR(C=cost, random_state=p.seed, max_iter=5000).fit(fitted, column) for column in columns]

    def predict(found: list, split: str) -> np.ndarray:
        answers = [machine.predict(inputs[split]) for machine in found]
        return answers[0] if classes else np.stack(answers, 1).clip(0, 1)

    def score(answer: np.ndarray, split: str) -> float:
        return (answer == target[split]).mean() if classes else np.square(answer - target[split]).mean()

    metric, sign = ("accuracy", 1) if classes else ("mse", -1)
    tried = {cost: machines(cost) for cost in COSTS}
    dev = {cost: float(score(predict(found, "dev"), "dev")) for cost, found in tried.items()}
    best = max(COSTS, key=lambda cost: sign * dev[cost])
    names = vectorizer.get_feature_names_out()
    weights = _weights(tried[best], names, num_outputs if classes else None)
    evaluations = {}
    for split in ("dev", "test"):
        answer, z = predict(tried[best], split), []
        for example, said in zip(splits[split], answer, strict=True):
            scores = word_scores(example.tokens, weights[int(said) if classes else 0], signed=classes)
            z.append(top_k(scores, None, p.budget).float())
        figures = {metric: float(score(answer, split))} | rationale_figures(z, splits[split])
        prediction = torch.nn.functional.one_hot(torch.tensor(answer), num_outputs) if classes else torch.tensor(answer)
        evaluations[split] = Evaluation(figures, prediction.float(), z, torch.tensor(answer))
    row = {"epoch": 1, "seconds": time.perf_counter() - start, "cost": best}
    row |= {f"dev_{name}": value for name, value in evaluations["dev"].metrics.items()}
    return Result(None, None, splits, evaluations, [row], row)


def _weights(machines: list, names: np.ndarray, num_classes: int | None) -> list[dict[str, float]]:
    """For each class, what speaks for it; for scores one dict, the largest weights over all of them."""
    if num_classes is None:
        rows = [np.abs([machine.coef_ for machine in machines]).max(0)]
    else:
        rows = machines[0].coef_
        rows = [-rows[0], rows[0]] if len(rows) == 1 else rows  # of two classes only the second has weights
    return [dict(zip(names, row.tolist(), strict=True)) for row in rows]
