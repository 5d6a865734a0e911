"""Is a rationale faithful, and what leaks past it? Sufficiency, comprehensiveness, leaks through lengths and counts.

Source: eqs. (R13)-(R15), notebooks/09_questions.py; eq. (R16), notebooks/31_selection_rates.py; DeYoung et al. 2020.
"""

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Annotated

import torch
from torch import Tensor

from rationale import metrics
from rationale.data.batches import EVALUATION_BATCH, Batch, Batches
from rationale.models.extractor import Extractor
from rationale.nn.rules import top_k
from rationale.settings import OneOf, Settings, setting

if TYPE_CHECKING:
    import pandas as pd

BUDGETS = (0.01, 0.05, 0.1, 0.2, 0.5)  # shares of a text, as in ERASER
MOST_WORDS = 32_768  # whose states are in memory at a time
NEUTRAL = 2  # the middle one of five word labels
AGREEMENT = ("f1_macro", "span_f1_macro", "auprc")  # with what people marked, as in ERASER

JUDGED = {"test": ("test",), "all": ("dev", "test"), "none": ()}  # the splits for each value of the setting `judge`


class JudgingSettings(Settings):
    """Whether the rationales of a run are judged: their faithfulness, and what leaks past them."""

    judge: Annotated[str, OneOf(lambda: JUDGED)] = setting("test", "split whose rationales are judged after training")


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

    Source: eqs. (R13)-(R14), notebooks/09_questions.py; DeYoung et al. 2020.

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

    They are the means of `sufficiency_and_comprehensiveness`, which reads a text anew for each selection. Here all
    selections of all texts of a batch are read together (`Extractor.predict_selected`).

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
        where the rationale is that share of the words, ranked highest; and calibration_error in [0, 1] of the
        predictions from the rationales (`metrics.calibration_error`).
    """
    rows, answers = [], []
    names = ["accuracy_whole", "sufficiency", "comprehensiveness"]
    names += ["sufficiency_aopc", "comprehensiveness_aopc"] * model.ranks_words
    many = 3 + 2 * len(BUDGETS) if model.predictor.pool.reads_states else 1  # states that are kept of a word
    for batch in batches.in_order(max_batch=256, max_tokens=MOST_WORDS // many):
        z, importance = model.chosen(batch.tokens, batch.mask)
        by_budget = [] if importance is None else [top_k(importance, batch.mask, share) for share in BUDGETS]
        selections = [batch.mask.to(z.dtype)]  # the whole text, then each rationale and the rest of its text
        for rationale in (z, *by_budget):
            selections += [rationale, (batch.mask & (rationale == 0)).to(z.dtype)]
        logits = model.predict_selected(batch.tokens, batch.mask, torch.stack(selections))
        probabilities = logits.softmax(-1)  # [K, B, C]
        before, answer = probabilities[0].max(1)
        drops = before - probabilities.gather(2, answer.expand(len(selections), -1).unsqueeze(2)).squeeze(2)  # [K, B]
        columns = [(answer == batch.target).to(z.dtype), *drops[1:3]]
        if by_budget:
            columns += [drops[3::2].mean(0), drops[4::2].mean(0)]
        rows.append(torch.stack(columns, 1))  # [B, 3 or 5]
        answers.append((probabilities[1], batch.target))
    means = torch.cat(rows).double().mean(0).tolist()
    error = metrics.calibration_error(*(torch.cat(part) for part in zip(*answers, strict=True)))
    return dict(zip(names, means, strict=True)) | {"calibration_error": error}


@torch.no_grad()
def empty_rationale_states(model: Extractor, batches: Batches) -> tuple[Tensor, Tensor]:
    """The state that the head receives of each text when *nothing* is selected, and the texts' lengths.

    Returns
    -------
    states [N, S], lengths [N], in the order of `Batches.in_order`
    """
    states, lengths = [], []
    for batch in batches.in_order(max_batch=EVALUATION_BATCH):
        nothing = torch.zeros_like(batch.mask, dtype=model.vectors.dtype)
        states.append(model.predictor.pooled(model.vectors, batch.tokens, batch.mask, nothing))
        lengths.append(batch.mask.sum(1))
    return torch.cat(states).double(), torch.cat(lengths).double()


def _require_texts(**texts: Sized) -> None:
    for name, of_texts in texts.items():
        if not len(of_texts):
            raise ValueError(f"{name}: got no text, accepted is 1 or more")


def length_leak(fitted: tuple[Tensor, Tensor], evaluated: tuple[Tensor, Tensor]) -> float:
    """How much of a text's length leaks past an empty rationale: R^2 of a linear regression on the head's state.

        R^2 = 1 - sum (n - n')^2 / sum (n - mean n)^2

    Source: eq. (R15), notebooks/09_questions.py.

    Parameters
    ----------
    fitted, evaluated : ([N, S], [N])
        `empty_rationale_states` that the regression is fitted on, and those of other texts that it is evaluated on.

    Returns
    -------
    float, at most 1
        0: the state predicts the length no better than the mean does, 1: exactly; below 0: worse than the mean.

    Raises
    ------
    ValueError
        There are no texts, or all evaluated ones have the same length, which has no variance to be explained.
    """
    _require_texts(fitted=fitted[1], evaluated=evaluated[1])
    if (evaluated[1] == evaluated[1][:1]).all():
        raise ValueError(
            f"length_leak: all evaluated texts have {evaluated[1][0]:.0f} words; accepted: several lengths"
        )

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

    Raises
    ------
    ValueError
        If there are no texts.
    """
    _require_texts(rows=rows)
    chosen = [torch.tensor(z) != 0 for z in rows["z"]]
    counts = torch.tensor([int(z.sum()) for z in chosen]).clamp(max=5)
    answers = torch.tensor(rows["prediction"].tolist())
    table = metrics.confusion(answers, counts, num_classes=max(6, int(answers.max()) + 1)).double()  # [count, answer]
    first = sum(int(z[:2].sum()) for z in chosen) / max(1, sum(int(z.sum()) for z in chosen))
    sums = {"count_tells": table.amax(1).sum(), "answer_share": table.sum(0).max(), "empty": table[0].sum()}
    return {name: (value / len(chosen)).item() for name, value in sums.items()} | {"first_words": first}


def told_by_number(counts: Tensor, answers: Tensor, new_counts: Tensor, new_answers: Tensor) -> float:
    """The share of the answers to new texts that the number of selected words tells, whatever the length of a text.

    The numbers are divided into ten ranges with about as many texts each; the most frequent answer of each range is
    guessed. `count_leak` tells apart up to four words, which is too few for long texts.

    Parameters
    ----------
    counts, answers : long [N]
        Of the texts from which the guesses are learned.
    new_counts, new_answers : long [M]
        Of the texts for which they are made.

    Raises
    ------
    ValueError
        If there are no texts.

    Examples
    --------
    >>> counts, answers = torch.tensor([30, 60, 31, 61]), torch.tensor([0, 1, 0, 1])
    >>> told_by_number(counts, answers, torch.tensor([29, 70, 60]), torch.tensor([0, 1, 0]))  # 2 of 3
    0.6666666666666666
    """
    _require_texts(counts=counts, new_counts=new_counts)
    edges = counts.double().quantile(torch.linspace(0.1, 0.9, 9, dtype=torch.float64)).unique()
    ranges = torch.bucketize(counts.double(), edges)
    table = metrics.confusion(answers, ranges, num_classes=max(10, int(answers.max()) + 1))  # [range, answer]
    guess = torch.where(table.sum(1) > 0, table.argmax(1), answers.mode().values)
    return (guess[torch.bucketize(new_counts.double(), edges)] == new_answers).double().mean().item()


@torch.no_grad()
def gold_agreement(model: Extractor, batches: Batches, gold: Sequence[Sequence[int] | None]) -> dict[str, Tensor]:
    """How far the words and passages that a model selects, and its ranking of the words, agree with gold rationales.

    These are the measures of ERASER. They are means over texts, so each text has its own.

    Parameters
    ----------
    model : Extractor
        In evaluation mode.
    batches : Batches
    gold : list of N lists of T_i flags
        For each text whether people marked each word; None: nobody marked this text.

    Returns
    -------
    dict
        Of the M texts in which a word is marked, in their order: f1_macro [M] (`metrics.rationale_scores`),
        span_f1_macro [M] (`metrics.span_iou_f1`, ERASER's "IOU F1"), both in [0, 1], and, for a model that ranks words,
        auprc [M], in [0, 1] (`metrics.auprc`).
    """
    by_text: dict[int, dict[str, float]] = {}
    for batch in batches.in_order(max_batch=EVALUATION_BATCH):
        z, importance = model.chosen(batch.tokens, batch.mask)
        for row, number in enumerate(batch.rows.tolist()):
            marks = gold[number]
            if marks is not None and any(marks):
                selected, flags = [(z[row] != 0)[batch.mask[row]].cpu()], [torch.tensor(marks).bool()]
                found = metrics.rationale_scores(selected, flags) | metrics.span_iou_f1(selected, flags)
                if importance is not None:
                    found |= metrics.auprc([importance[row][batch.mask[row]].cpu()], flags)
                by_text[number] = {name: found[name] for name in AGREEMENT if name in found}
    texts = [by_text[number] for number in sorted(by_text)]
    return {name: torch.tensor([text[name] for text in texts]) for name in (texts[0] if texts else {})}


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
