"""Heads: from the features of a text to classes or scores. Each has its own loss and metric."""

import math
from collections.abc import Callable
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.settings import Settings, setting


class HeadSettings(Settings):
    """What the texts of each class count in training."""

    class_weight: Literal["none", "balanced"] = setting(
        "none",
        "what a text counts in the loss: the same for all, or more if its class is rare, so that classes are equal",
    )


class Head(nn.Module):
    """A linear layer, and what turns its outputs into a prediction, a loss and a score.

    Attributes
    ----------
    name : str
        By which a saved run finds the head in `HEADS`.
    metric : str
        Name of the mean score.
    higher_is_better : bool
        Of the score.
    class_weights : [C] or None
        Factors of the loss of a text, by its class, of the dtype and on the device of the head. They are no buffer,
        because a model needs none to answer; a saved run keeps those of its training in a tensor of their own.

    Parameters
    ----------
    num_features : int
        Size of the features of a text.
    num_outputs : int
        Number of classes or scores.
    bias : bool
    """

    name: ClassVar[str]
    metric: ClassVar[str]
    higher_is_better: ClassVar[bool]
    class_weights: Tensor | None

    def __init__(self, num_features: int, num_outputs: int, bias: bool = True):
        super().__init__()
        self.output = nn.Linear(num_features, num_outputs, bias)
        self.class_weights = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Convert or move the head, with its `class_weights`."""
        super()._apply(fn, recurse)
        if self.class_weights is not None:
            self.class_weights = fn(self.class_weights)
        return self

    @property
    def chosen_by(self) -> str:
        """Name of the score by which an epoch is chosen: `metric`, or its balanced form if classes have weights."""
        return self.metric if self.class_weights is None else f"balanced_{self.metric}"

    def forward(self, features: Tensor) -> Tensor:
        """Features [B, H] to a prediction [B, C]."""
        raise NotImplementedError

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Task loss of each example, [B]."""
        raise NotImplementedError

    def score(self, prediction: Tensor, target: Tensor) -> Tensor:
        """What `metric` is the mean of, [B]."""
        raise NotImplementedError

    def answer(self, prediction: Tensor) -> Tensor:
        """The prediction for people and files."""
        raise NotImplementedError

    def divergence(self, prediction: Tensor, other: Tensor) -> Tensor:
        """How far two predictions are apart, [B, C] twice -> [B]: symmetric, and 0 if they are equal.

        It is at least 0, up to rounding errors: between predictions that are nearly equal, it may be -1e-8.
        """
        raise NotImplementedError


class Classes(Head):
    """Head for one of C classes: logits, cross-entropy in nats, accuracy."""

    name, metric, higher_is_better = "classes", "accuracy", True

    def forward(self, features: Tensor) -> Tensor:
        return self.output(features)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy in nats per example, times the weight of its class if classes have one, [B, C], [B] -> [B]."""
        return F.cross_entropy(prediction, target, weight=self.class_weights, reduction="none")

    def score(self, prediction: Tensor, target: Tensor) -> Tensor:
        """1 where the likeliest class is the target, else 0: [B]."""
        return (prediction.argmax(1) == target).float()

    def answer(self, prediction: Tensor) -> Tensor:
        """Class index [B], as it is shown to people and written to files."""
        return prediction.argmax(1)

    def divergence(self, prediction: Tensor, other: Tensor) -> Tensor:
        """Jensen-Shannon divergence in nats, at most ln 2, of the classes of two sets of logits: [B].

            JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,   m = (p + q) / 2

        Source: Yu et al. 2021 (A2R).
        """
        log_p, log_q = prediction.log_softmax(1), other.log_softmax(1)
        apart = log_q - log_p  # ln p - ln m = ln 2 - softplus(apart), which is exactly 0 where p = q
        terms = [log_p.exp() * (math.log(2) - F.softplus(apart)), log_q.exp() * (math.log(2) - F.softplus(-apart))]
        return (terms[0] + terms[1]).sum(1) / 2


class Scores(Head):
    """Head for K scores in [0, 1]: sigmoid, squared error."""

    name, metric, higher_is_better = "scores", "mse", False

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.output(features))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Mean squared error over the K scores of each example, [B, K] twice -> [B]."""
        return (prediction - target).square().mean(1)

    def score(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The same squared error: [B]."""
        return self.loss(prediction, target)

    def answer(self, prediction: Tensor) -> Tensor:
        """Scores [B, K], as they are shown to people and written to files."""
        return prediction

    def divergence(self, prediction: Tensor, other: Tensor) -> Tensor:
        """Mean squared difference of the K scores: [B]."""
        return self.loss(prediction, other)


HEADS: dict[str, type[Head]] = {head.name: head for head in (Classes, Scores)}
