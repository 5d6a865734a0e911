"""What somebody should know about a model of their own texts, or pairs of texts, before they believe its rationales.

Each note is one line with the number that it rests on and with what to do. `ModelSelection.notes` has those about the
epoch that was kept.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rationale.data.example import Example
from rationale.errors import counted, excerpt
from rationale.explain.faithfulness import told_by_number
from rationale.metrics import balanced_accuracy
from rationale.training.evaluation import SIGMAS, Evaluation, width_of
from rationale.training.extraction import Result
from rationale.training.model_selection import is_far
from rationale.training.tfidf import Baseline

WIDE = 0.08  # distance from dev accuracy to the end of its 95 % interval from which on there are too few texts
WIDE_ERROR = 0.25  # the same for a mean squared error, as a share of it
TOLD = 0.5  # share of the answers other than the most frequent one from which on a rationale is called a code
FEW = 5  # texts of dev that a class has at least, if it can be missed among the answers
RARE = 0.75  # of the texts that it would have if all classes were equally frequent: below this a class is rare
COLLAPSED = 0.5  # share of texts, with no word selected or with every word selected


def notes_about(
    result: Result,
    baseline: Baseline | None = None,
    names: Sequence[str] | None = None,
    is_started: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> list[str]:
    """The notes about a trained model, usually none.

    The score in them is that by which the epoch is chosen (`Head.chosen_by`), which they name.

        few        dev has so few texts that its score says little
        chance     the score is not clearly above that of the most frequent class alone
        constant   every answer to dev is the same class
        missed     several classes are answers to dev, but one that it has is never the answer
        worse      the model is worse than the baseline on dev, by more than 1.96 standard errors of the difference
        collapsed  in most texts no word is selected, or every word is
        other      another share of the words is selected in test than in dev
        code       the number of selected words tells the answer

    Parameters
    ----------
    result : Result
        Of an extractor or of an aligner, whose notes are about pairs and cells in place of texts and words.
    baseline : Baseline or None
        On the same splits.
    names : sequence of str, or None
        Of the classes; without them, a class is named by its number.
    is_started : bool
        Whether the gates have started at their target, so that no note advises it.
    sizes : split -> number of its texts, or None
        Before `num_train`, `num_dev` and `num_test` have left some out; without them, the splits of `result` are whole.
    """
    model, dev = result.model, result.evaluations["dev"]
    assert model is not None
    score, unit, position, advice = model.head.chosen_by, model.unit, model.position, advice_for(result)
    examples, sizes = result.splits["dev"], sizes or {name: len(split) for name, split in result.splits.items()}
    gives_classes, mine = model.head.metric == "accuracy", scores_of(dev, examples)
    labels = torch.tensor([example.label for example in examples])
    groups = labels if score != model.head.metric else torch.zeros(len(mine))  # the score is the mean of their means
    width = width_of(mine, groups) if gives_classes else SIGMAS * dev.standard_error
    notes = [why_few(dev.metrics[score], width, len(mine), score, sizes, unit, len(groups.unique()))]
    if gives_classes:
        can_balance = model.task == "extraction" and model.head.class_weights is None
        missed = why_missed(dev.answer, labels, advice, names, can_balance, unit)
        constant = why_constant(dev.answer, labels, advice, unit)
        chance = balanced_accuracy((labels == labels.mode().values).double(), groups)
        notes.append(constant or why_chance(dev.metrics[score], width, chance, score, advice))
        notes.append("" if constant else missed)
    if baseline is not None:
        theirs = torch.as_tensor(baseline.scores["dev"])
        notes.append(why_worse(mine, theirs, groups, score, baseline.name, advice))
    if model.has_gates:
        gate = getattr(getattr(model, "selector", None), "gate", None)
        can_start = not is_started and (gate is None or gate.can_start())
        collapsed = why_collapsed(dev.z, unit, position, can_start)
        code = why_code(dev, result.evaluations["test"], position) if gives_classes else ""
        other = why_other_rate(dev, result.evaluations["test"], unit, position)
        notes += [collapsed] if collapsed else [code, other]
    return [note for note in notes if note]


def advice_for(result: Result) -> str:
    """What may help a model that has learned too little: settings that it does not have yet."""
    model = result.model
    assert model is not None
    steps = ["word vectors (vectors=)"] * (not model.reads_pieces)
    steps += ["encoder=minilm"] * (not model.reads_pieces and model.task == "extraction")
    steps += ["a smaller pretrained_learning_rate"] * model.reads_pieces
    steps.append("more epochs" if result.converged is None else "stop_after=0 and more epochs")
    steps += ["a larger selection"] * model.has_gates
    *first, last = steps
    return f"give {', '.join(first)} or {last}" if first else f"give {last}"


def scores_of(evaluation: Evaluation, examples: Sequence[Example]) -> Tensor:
    """The score of each text, [N]: 1 or 0 for a right or wrong class, or minus the squared error, so more is better."""
    labels = torch.tensor([example.label for example in examples])
    if evaluation.answer.dtype == torch.long:
        return (evaluation.answer == labels).double()
    return -(evaluation.answer - labels).double().square().mean(1)


def why_few(
    score: float, width: float, texts: int, metric: str, sizes: Mapping[str, int], unit: str = "text", groups: int = 1
) -> str:
    """Whether there are too few dev texts to know the score well.

    A variance that is estimated from n texts is divided by n - 1, and the width of Wilson's interval of a perfect score
    by n + 1.96^2. The number that is needed is told by these.

    Parameters
    ----------
    score, width : float
        Of dev, with the distance to the end of its 95 % interval; this is NaN for the error of a single text.
    texts : int
        Number of dev texts that are used.
    metric : str
        Name of the score.
    sizes : split -> number of its texts
        Of all that there are. `num_dev` may use fewer of dev, and then there is no need to label others first.
    unit : str
        What the model reads, "text" or "pair", here and in the functions below.
    groups : int
        Number of groups over whose scores the score is a mean.
    """
    is_share, name = metric != "mse", metric.replace("_", " ")
    limit, there = WIDE if is_share else WIDE_ERROR * score, sizes["dev"]
    use = ["give num_dev=0"] * (there > texts)
    if texts > 1 and width <= limit:
        return ""
    if texts == 1 or not limit:
        advice = use[0] if use else f"label more {unit}s"
        return f"too few {unit}s: dev {name} {score:.3g} is that of {counted(texts, unit)}; {advice}"
    fixed, power = (-groups * SIGMAS**2, 1) if is_share and score in (0.0, 1.0) else (groups, 2)
    needed = math.ceil(fixed + (texts - fixed) * (width / limit) ** power)
    low, high = max(0.0, score - width), min(1.0 if is_share else math.inf, score + width)
    known = f"dev {name} is {score:.3g} ({low:.2g} to {high:.2g}, 95 %) with {counted(texts, unit)}"
    wanted = f"for ± {limit:.2g} dev needs about {needed:,}"
    if there >= needed:
        return f"too few {unit}s: {known}; {use[0]}: {wanted}, and has {there:,}"
    together = f"all splits together {needed * sum(sizes.values()) // there:,}"
    return f"too few {unit}s: {known}; {' and '.join([*use, 'label more'])}: {wanted}, and {together}"


def why_constant(answer: Tensor, label: Tensor, advice: str, unit: str = "text") -> str:
    """Whether every answer is the same class, although the labels are not.

    Parameters
    ----------
    answer, label : long [N]
    advice : str
        What the note ends with.
    """
    if len(answer.unique()) > 1 or len(label.unique()) == 1:
        return ""
    right = (answer == label).double().mean().item()
    told = f"every answer to dev is the same class, which is right for {right:.0%} of its {counted(len(label), unit)}"
    return f"{told}: the model has learned nothing yet; {advice}"


def why_chance(score: float, width: float, chance: float, metric: str, advice: str) -> str:
    """Whether a model may be no better than one that always answers the most frequent class.

    Parameters
    ----------
    score, width : float
        Of dev, with the distance to the end of its 95 % interval.
    chance : float
        The score of the most frequent class alone; of 1, if there is no other class, nothing is said.
    metric : str
        Name of the score.
    advice : str
        What the note ends with.
    """
    if chance == 1 or score - width > chance:
        return ""
    low = max(0.0, score - width)
    told = f"dev {metric.replace('_', ' ')} {score:.3g} may be chance: its 95 % interval begins at {low:.2g}"
    return f"{told}, and the most frequent class alone reaches {chance:.2g}; {advice}"


def why_missed(
    answer: Tensor,
    label: Tensor,
    advice: str,
    names: Sequence[str] | None = None,
    can_balance: bool = True,
    unit: str = "text",
) -> str:
    """Whether a class that at least `FEW` dev texts have is never the answer.

    Parameters
    ----------
    answer, label : long [N]
    advice : str
        What the note ends with, unless the classes that are never the answer are rare.
    names : sequence of str, or None
        Of the classes.
    can_balance : bool
        Whether the classes can be given weights in training, and have none yet.
    """
    counts = label.bincount()
    missed = [i for i in label.unique().tolist() if counts[i] >= FEW and not (answer == i).any()]
    if not missed:
        return ""
    shown = [f"{excerpt(names[i]) if names else i} ({counts[i]:,} {unit}s of dev have it)" for i in missed[:3]]
    more = f", and {len(missed) - 3} more" if len(missed) > 3 else ""
    classes = f"the class {shown[0]}" if len(missed) == 1 else f"one of the classes {', '.join(shown)}{more}"
    never = f"the answer to none of the {counted(len(label), unit)} of dev is {classes}"
    if counts[missed].max() < RARE * len(label) / len(label.unique()):
        balance = "give class_weight=balanced, or " if can_balance else ""
        advice = f"{balance}label more {unit}s of {'it' if len(missed) == 1 else 'them'}"
    return f"{never}; {advice}"


def why_worse(mine: Tensor, other: Tensor, groups: Tensor, metric: str, name: str, advice: str) -> str:
    """Whether a model is worse than the baseline.

    Parameters
    ----------
    mine, other : [N]
        Scores of the same texts, more is better.
    groups : [N]
        The models are compared by the mean over groups of texts of the mean of their scores: classes, or the same
        number for all texts.
    metric : str
        Name of the score.
    name : str
        Of the baseline.
    advice : str
        What the note ends with.
    """
    ours, theirs, mean = (balanced_accuracy(x, groups) for x in (mine, other, other - mine))
    error = error_of_difference(mine, other, groups)
    if not mean > SIGMAS * error:
        return ""
    scores = f"{metric.replace('_', ' ')} {abs(ours):.3g}, {name} {abs(theirs):.3g}"
    by = f"a difference of {mean:.2g} with a standard error of {error:.2g}"
    return f"worse than the baseline on dev: {scores}, {by}; do not trust these rationales yet, {advice}"


def error_of_difference(mine: Tensor, other: Tensor, groups: Tensor) -> float:
    """The standard error of the difference between two models, each judged by the mean over groups of its scores.

    Both models have answered to the same texts, so the error of a group is that of the mean of its differences. Where
    all these are equal, such as with a single text, their variance says nothing: then the error is that of two models
    with texts of their own (`width_of`). This needs answers that are right or wrong; for other scores it is NaN.

    Parameters
    ----------
    mine, other, groups : [N], as for `why_worse`
    """
    variances, are_shares = [], bool(((mine == 0) | (mine == 1)).all())
    for group in groups.unique():
        pair = [one[groups == group] for one in (mine, other)]
        difference = pair[1] - pair[0]
        if (difference != difference[0]).any():
            variances.append(difference.var().item() / len(difference))
        elif are_shares:
            variances.append(sum((width_of(one, torch.zeros(len(one))) / SIGMAS) ** 2 for one in pair))
        else:
            variances.append(math.nan)
    return math.sqrt(sum(variances)) / len(variances)


def why_collapsed(z: Sequence[Tensor], unit: str = "text", position: str = "word", can_start: bool = True) -> str:
    """Whether the gates select nothing, or everything.

    Parameters
    ----------
    z : N texts, [T_i] each
        Gate values at test time.
    position : str
        What a gate belongs to, "word" or "cell", here and in the function below.
    can_start : bool
        Whether the gates can start at their target.
    """
    start = "start=target, " * can_start
    for what, hit, advice in (
        (f"no {position}", lambda row: not (row != 0).any(), f"{start}a larger selection or a smaller learning_rate"),
        (f"every {position}", lambda row: bool((row != 0).all()), f"{start}a smaller selection or more epochs"),
    ):
        share = sum(map(hit, z)) / len(z)
        if share >= COLLAPSED:
            return f"the gates have collapsed: {what} is selected in {share:.0%} of the dev {unit}s; try {advice}"
    return ""


def why_other_rate(dev: Evaluation, test: Evaluation, unit: str = "text", position: str = "word") -> str:
    """Whether another share of the words is selected in test than in dev, by which the epoch was chosen."""
    on_dev, on_test = (torch.cat([(z != 0).double() for z in part.z]).mean().item() for part in (dev, test))
    if not is_far(on_test, on_dev):
        return ""
    shares = f"{on_test:.1%} of the {position}s of test are selected, and {on_dev:.1%} of those of dev"
    return f"the rate of new {unit}s is not known well: {shares}; label more {unit}s"


def why_code(dev: Evaluation, test: Evaluation, position: str = "word") -> str:
    """Whether the number of selected words tells the answer: learned on dev, asked on test."""
    counts = [torch.tensor([int((z != 0).sum()) for z in part.z]) for part in (dev, test)]
    told, usual = told_and_usual(counts[0], dev.answer, counts[1], test.answer)
    if usual == 1 or (told - usual) / (1 - usual) < TOLD:
        return ""
    numbers = f"the number of selected {position}s alone tells {told:.0%} of the answers to test"
    numbers += f", the most frequent answer alone {usual:.0%}"
    advice = "try per_text=true, another seed or a larger selection"
    return f"the rationale is a code: {numbers}; read it as no reason, and {advice}"


def told_and_usual(counts: Tensor, answers: Tensor, new_counts: Tensor, new_answers: Tensor) -> tuple[float, float]:
    """The share of the new answers that the number of selected words tells, and the share that needs no number.

    The arguments are those of `told_by_number`. The second share is reached by the most frequent of `answers`, so the
    first is a sign of a code only where it is larger.
    """
    usual = (new_answers == answers.mode().values).double().mean().item()
    return told_by_number(counts, answers, new_counts, new_answers), usual
