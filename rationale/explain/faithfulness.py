"""Is a rationale faithful, and what is leaked beside it? Sufficiency, comprehensiveness, and what a length tells."""

import torch
from torch import Tensor

from rationale import metrics
from rationale.data.batches import Batch, Batches
from rationale.models.extractor import Extractor
from rationale.nn.gates import top_k

BUDGETS = (0.01, 0.05, 0.1, 0.2, 0.5)  # of a text, ERASER's
NEUTRAL = 2  # the middle one of SST's five word labels


def probabilities(model: Extractor, batch: Batch, z: Tensor) -> Tensor:
    """What the run's own predictor says, [B, C], when it reads the words with these gate values, [B, T]."""
    return model.predictor(model.embed(batch.tokens), batch.mask, z).softmax(1)


def drops(model: Extractor, batch: Batch, z: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """How far the prediction follows the rationale, for each text.

        sufficiency       = p(y' | x) - p(y' | r)        small: the rationale is enough
        comprehensiveness = p(y' | x) - p(y' | x \\ r)    large: nothing else would do
        y' = argmax p(. | x)

    x is the whole text (every gate 1), r the rationale, x \\ r the rest (gates 1).

    Source: eqs. (R13)-(R14), notebooks/05_reinforce.py; DeYoung et al. 2020.

    Parameters
    ----------
    z : [B, T], in [0, 1]
        The rationale's gate values, 0 at padding.
    whole : [B, C]
        `probabilities` of the whole text.

    Returns
    -------
    sufficiency [B], comprehensiveness [B], in [-1, 1]
    """
    before, answer = whole.max(1)
    rest = (batch.mask & (z == 0)).to(z.dtype)
    kept, left = (probabilities(model, batch, part).gather(1, answer.unsqueeze(1)).squeeze(1) for part in (z, rest))
    return before - kept, before - left


@torch.no_grad()
def faithfulness_scores(model: Extractor, batches: Batches) -> dict[str, float]:
    """Means over the texts of `drops`, for the rationales of the test-time rule and for ERASER's budgets.

    Parameters
    ----------
    model : Extractor
        With a head of classes; in evaluation mode.
    batches : Batches

    Returns
    -------
    dict
        accuracy_whole (on the whole text), sufficiency, comprehensiveness, in [-1, 1]; and, for a model that ranks
        words (`Extractor.importance`), sufficiency_aopc and comprehensiveness_aopc: the means over `BUDGETS`, where
        the rationale is the share of the text that is ranked highest.
    """
    names, rows = ["accuracy_whole", "sufficiency", "comprehensiveness"], []
    ranks = model.selector is not None or model.predictor.pool.kind == "attention"
    for batch in batches.in_order(max_batch=256):
        whole = probabilities(model, batch, batch.mask.to(model.vectors.dtype))
        found = [(whole.argmax(1) == batch.target).to(whole.dtype)]
        found += drops(model, batch, model(batch.tokens, batch.mask).z, whole)
        if ranks:
            scores = model.importance(batch.tokens, batch.mask)
            cuts = [torch.stack(drops(model, batch, top_k(scores, batch.mask, b), whole)) for b in BUDGETS]
            found += torch.stack(cuts).mean(0)
        rows.append(torch.stack(found, 1))  # [B, 3 or 5]
    means = torch.cat(rows).double().mean(0).tolist()
    return dict(zip(names + ["sufficiency_aopc", "comprehensiveness_aopc"] * ranks, means, strict=True))


@torch.no_grad()
def unread_states(model: Extractor, batches: Batches) -> tuple[Tensor, Tensor]:
    """What the head gets to see of each text when *nothing* is selected, and the texts' lengths: [N, S], [N]."""
    states, lengths = [], []
    for batch in batches.in_order(max_batch=256):
        embedded = model.embed(batch.tokens)
        read = model.predictor.read(embedded, batch.mask, torch.zeros_like(batch.mask, dtype=embedded.dtype))
        states.append(model.predictor.pool(*read))
        lengths.append(batch.mask.sum(1))
    return torch.cat(states).double(), torch.cat(lengths).double()


def length_leak(fitted: tuple[Tensor, Tensor], judged: tuple[Tensor, Tensor]) -> float:
    """R^2 of a linear regression of the length on the state of an unread text; 0: nothing leaks, 1: all of it.

        R^2 = 1 - sum (n - n')^2 / sum (n - mean n)^2

    Source: eq. (R15), notebooks/05_reinforce.py.

    Parameters
    ----------
    fitted, judged : ([N, S], [N])
        States and lengths that the regression is fitted on, and others that it is judged on.
    """

    def design(states: Tensor) -> Tensor:
        return torch.cat([torch.ones(len(states), 1).to(states), states], 1)

    states, lengths = (part.cpu() for part in fitted)
    weights = torch.linalg.lstsq(design(states), lengths.unsqueeze(1), rcond=1e-10, driver="gelsd").solution
    states, lengths = (part.cpu() for part in judged)
    missed = (design(states) @ weights).squeeze(1) - lengths
    return 1 - (missed.square().sum() / (lengths - lengths.mean()).square().sum()).item()


def passed_by_count(rows) -> dict[str, float]:
    """How much of its answer a selector passes on by *how many* words it selects, whichever they are.

        count_tells = (1/N) sum_k max_c #{texts with k words selected and answer c},   k = 0 .. 4, and 5 or more

    the share of the model's answers that can be guessed from that number alone. It cannot be below answer_share, that
    of the commonest answer; near 1, the rationale is a code and says nothing about the text. And empty: the share of
    texts of which nothing is selected; first_words: the share of selected words that are among the first two.

    Source: eq. (R16), notebooks/31_selection_rates.py; Jacovi and Goldberg 2021 call such rationales Trojan.

    Parameters
    ----------
    rows : DataFrame
        Of one split, `runs.saved.read_rationales`, with classes as predictions.
    """
    chosen = [torch.tensor(z) != 0 for z in rows["z"]]
    number = torch.tensor([int(z.sum()) for z in chosen]).clamp(max=5)
    answers = torch.tensor(rows["prediction"].tolist())
    table = metrics.confusion(answers, number, num_classes=max(6, int(answers.max()) + 1)).double()  # [number, answer]
    first = sum(int(z[:2].sum()) for z in chosen) / max(1, sum(int(z.sum()) for z in chosen))
    found = {"count_tells": table.amax(1).sum(), "answer_share": table.sum(0).max(), "empty": table[0].sum()}
    return {name: (value / len(chosen)).item() for name, value in found.items()} | {"first_words": first}


@torch.no_grad()
def calibration(model: Extractor, batches: Batches) -> float:
    """The calibration error, in [0, 1], of a model's predictions on these batches; see `metrics.calibration_error`."""
    said, target = [], []
    for batch in batches.in_order(max_batch=256):
        said.append(model(batch.tokens, batch.mask).prediction.softmax(1))
        target.append(batch.target)
    return metrics.calibration_error(torch.cat(said), torch.cat(target))


def plausibility(rows) -> dict[str, float]:
    """Agreement of the selected words with the words whose own label is not neutral, and the selected share per label.

    Parameters
    ----------
    rows : DataFrame
        Of one split, `runs.saved.read_rationales`, with `word_labels`.
    """
    labels = [torch.tensor(words) for words in rows["word_labels"]]
    chosen = [torch.tensor(z) != 0 for z in rows["z"]]
    scores = metrics.rationale_scores(chosen, [words != NEUTRAL for words in labels])
    found = {f"word_{name}": scores[name] for name in ("precision", "recall", "f1") if name in scores}
    told = [words != NEUTRAL for words in labels if (words != NEUTRAL).any()]
    if told:
        found["word_base_rate"] = torch.cat(told).double().mean().item()  # over the same texts as the precision
    everything = metrics.selected_by_label(labels, [torch.ones_like(z) for z in chosen])
    selected = metrics.selected_by_label(labels, chosen)
    for label in range(len(everything)):
        found |= {f"words_{label}": everything[label].item(), f"selected_{label}": selected[label].item()}
    return found
