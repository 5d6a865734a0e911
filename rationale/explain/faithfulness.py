"""Is a rationale faithful, and what leaks past it? Sufficiency, comprehensiveness, leaks through lengths and counts.

Source: eqs. (R13)-(R15), notebooks/05_reinforce.py; eq. (R16), notebooks/31_selection_rates.py; DeYoung et al. 2020.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rationale import metrics
from rationale.data.batches import Batch, Batches
from rationale.models.extractor import Extractor
from rationale.nn.gates import top_k

if TYPE_CHECKING:
    import pandas as pd

BUDGETS = (0.01, 0.05, 0.1, 0.2, 0.5)  # shares of a text, as in ERASER
NEUTRAL = 2  # the middle one of five word labels


def class_probabilities(model: Extractor, batch: Batch, z: Tensor) -> Tensor:
    """Class probabilities [B, C] of the model's own predictor when it reads the words with these gate values [B, T]."""
    return model.predictor(model.embed(batch.tokens), batch.mask, z).softmax(1)


def sufficiency_and_comprehensiveness(
    model: Extractor, batch: Batch, z: Tensor, whole: Tensor
) -> tuple[Tensor, Tensor]:
    """How much the probability of the answer drops without the rest of the text, and without the rationale.

        sufficiency       = p(y' | x) - p(y' | r)        small: the rationale is enough
        comprehensiveness = p(y' | x) - p(y' | x \\ r)    large: the rest is not enough
        y' = argmax p(. | x)

    x is the whole text (every gate 1), r the rationale, x \\ r the rest of the text (its gates 1).

    Source: eqs. (R13)-(R14), notebooks/05_reinforce.py; DeYoung et al. 2020.

    Parameters
    ----------
    z : [B, T], in [0, 1]
        Gate values of the rationale, 0 at padding.
    whole : [B, C]
        `class_probabilities` of the whole text.

    Returns
    -------
    sufficiency [B], comprehensiveness [B], in [-1, 1]
    """
    before, answer = whole.max(1)
    rest = (batch.mask & (z == 0)).to(z.dtype)
    of_rationale, of_rest = (
        class_probabilities(model, batch, part).gather(1, answer.unsqueeze(1)).squeeze(1) for part in (z, rest)
    )
    return before - of_rationale, before - of_rest


@torch.no_grad()
def faithfulness_scores(model: Extractor, batches: Batches) -> dict[str, float]:
    """Mean sufficiency and comprehensiveness over texts, for the rationales at test time and for ERASER's budgets.

    Parameters
    ----------
    model : Extractor
        With a head of classes, in evaluation mode.
    batches : Batches

    Returns
    -------
    dict
        accuracy_whole (on the whole text, in [0, 1]), sufficiency, comprehensiveness (in [-1, 1]); for a model that
        ranks words (`Extractor.importance`) also sufficiency_aopc and comprehensiveness_aopc: means over `BUDGETS`,
        where the rationale is that share of the words, ranked highest.
    """
    names, rows = ["accuracy_whole", "sufficiency", "comprehensiveness"], []
    ranks = model.ranks_words
    for batch in batches.in_order(max_batch=256):
        whole = class_probabilities(model, batch, batch.mask.to(model.vectors.dtype))
        columns = [(whole.argmax(1) == batch.target).to(whole.dtype)]
        columns += sufficiency_and_comprehensiveness(model, batch, model(batch.tokens, batch.mask).z, whole)
        if ranks:
            importance = model.importance(batch.tokens, batch.mask)
            by_budget = [
                torch.stack(
                    sufficiency_and_comprehensiveness(model, batch, top_k(importance, batch.mask, budget), whole)
                )
                for budget in BUDGETS
            ]
            columns += torch.stack(by_budget).mean(0)
        rows.append(torch.stack(columns, 1))  # [B, 3 or 5]
    means = torch.cat(rows).double().mean(0).tolist()
    return dict(zip(names + ["sufficiency_aopc", "comprehensiveness_aopc"] * ranks, means, strict=True))


@torch.no_grad()
def empty_rationale_states(model: Extractor, batches: Batches) -> tuple[Tensor, Tensor]:
    """The state that the head receives of each text when *nothing* is selected, and the texts' lengths.

    Returns
    -------
    states [N, S], lengths [N], in the order of `Batches.in_order`
    """
    states, lengths = [], []
    for batch in batches.in_order(max_batch=256):
        embedded = model.embed(batch.tokens)
        read = model.predictor.read(embedded, batch.mask, torch.zeros_like(batch.mask, dtype=embedded.dtype))
        states.append(model.predictor.pool(*read))
        lengths.append(batch.mask.sum(1))
    return torch.cat(states).double(), torch.cat(lengths).double()


def length_leak(fitted: tuple[Tensor, Tensor], evaluated: tuple[Tensor, Tensor]) -> float:
    """How much of a text's length leaks past an empty rationale: R^2 of a linear regression on the head's state.

        R^2 = 1 - sum (n - n')^2 / sum (n - mean n)^2

    Source: eq. (R15), notebooks/05_reinforce.py.

    Parameters
    ----------
    fitted, evaluated : ([N, S], [N])
        `empty_rationale_states` that the regression is fitted on, and those of other texts that it is evaluated on.

    Returns
    -------
    float, at most 1
        0: the state predicts the length no better than the mean does, 1: exactly; below 0: worse than the mean.
    """

    def design(states: Tensor) -> Tensor:
        return torch.cat([torch.ones(len(states), 1).to(states), states], 1)

    states, lengths = (part.cpu() for part in fitted)
    weights = torch.linalg.lstsq(design(states), lengths.unsqueeze(1), rcond=1e-10, driver="gelsd").solution
    states, lengths = (part.cpu() for part in evaluated)
    errors = (design(states) @ weights).squeeze(1) - lengths
    return 1 - (errors.square().sum() / (lengths - lengths.mean()).square().sum()).item()


def count_leak(rows: "pd.DataFrame") -> dict[str, float]:
    """How well the *number* of selected words alone predicts the model's answer.

        count_tells = (1/N) sum_k max_c #{texts with k words selected and answer c},   k = 0 .. 4, and 5 or more

    It is at least answer_share, the share of the most frequent answer. Near 1, the rationale is a code: which words it
    holds does not matter.

    Source: eq. (R16), notebooks/31_selection_rates.py; Jacovi and Goldberg 2021 call such rationales Trojan.

    Parameters
    ----------
    rows : DataFrame
        The saved rationales of one split, one row per text: z ([T]) and prediction (a class).

    Returns
    -------
    dict, shares in [0, 1]
        count_tells: the share of answers that are guessed from the number; answer_share; empty: the share of texts
        with nothing selected; first_words: the share of selected words that are among the first two of their text.
    """
    chosen = [torch.tensor(z) != 0 for z in rows["z"]]
    counts = torch.tensor([int(z.sum()) for z in chosen]).clamp(max=5)
    answers = torch.tensor(rows["prediction"].tolist())
    table = metrics.confusion(answers, counts, num_classes=max(6, int(answers.max()) + 1)).double()  # [count, answer]
    first = sum(int(z[:2].sum()) for z in chosen) / max(1, sum(int(z.sum()) for z in chosen))
    sums = {"count_tells": table.amax(1).sum(), "answer_share": table.sum(0).max(), "empty": table[0].sum()}
    return {name: (value / len(chosen)).item() for name, value in sums.items()} | {"first_words": first}


@torch.no_grad()
def calibration(model: Extractor, batches: Batches) -> float:
    """Calibration error in [0, 1] of a model of classes on these texts (`metrics.calibration_error`)."""
    probabilities, targets = [], []
    for batch in batches.in_order(max_batch=256):
        probabilities.append(model(batch.tokens, batch.mask).prediction.softmax(1))
        targets.append(batch.target)
    return metrics.calibration_error(torch.cat(probabilities), torch.cat(targets))


def plausibility(rows: "pd.DataFrame") -> dict[str, float]:
    """How far the selected words agree with people's labels of single words: a word counts if it is not neutral.

    Parameters
    ----------
    rows : DataFrame
        The saved rationales of one split, one row per text: z and word_labels, [T] each; labels 0 to 4, 2 is neutral.

    Returns
    -------
    dict
        word_precision, word_recall, word_f1 in [0, 1]; word_base_rate, the precision of a random selection; and per
        label words_<label>, the number of words, and selected_<label>, the number of them that are selected.
    """
    labels = [torch.tensor(words) for words in rows["word_labels"]]
    chosen = [torch.tensor(z) != 0 for z in rows["z"]]
    scores = metrics.rationale_scores(chosen, [words != NEUTRAL for words in labels])
    values = {f"word_{name}": scores[name] for name in ("precision", "recall", "f1") if name in scores}
    labelled = [words != NEUTRAL for words in labels if (words != NEUTRAL).any()]
    if labelled:
        values["word_base_rate"] = torch.cat(labelled).double().mean().item()  # over the same texts as the precision
    everything = metrics.selected_by_label(labels, [torch.ones_like(z) for z in chosen])
    selected = metrics.selected_by_label(labels, chosen)
    for label in range(len(everything)):
        values |= {f"words_{label}": everything[label].item(), f"selected_{label}": selected[label].item()}
    return values
