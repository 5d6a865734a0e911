"""The attribution methods by name: what computes each of them, and what each one needs.

Code that treats methods differently asks for these attributes and never compares names.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from rationale.explain import attributions, search


@dataclass(frozen=True)
class Method:
    """One attribution method, and what it needs of a model, of its texts and of the settings."""

    name: str
    function: Callable[..., Tensor] | None = None  # (frozen, batch, layer, **options) -> [B, T]; None: a trained probe
    is_mask: bool = False  # the values are those of one mask per text: P(z != 0), or 0 and 1
    needs_steps: bool = False  # option num_steps, of the integral or of the optimisation per text
    needs_margin: bool = False  # option margin, the largest divergence
    needs_multiplier: bool = False  # option multiplier_init, of the divergence before the first step of a fit
    needs_moments: bool = False  # options mean and std, of `attributions.state_moments`
    needs_short_texts: bool = False  # the time is exponential in the number of positions: option longest
    needs_single_answer: bool = False  # logits [B, C]: one answer per text, not the two ends of a span
    needs_attention_weights: bool = False  # of the model: a transformer
    needs_captum: bool = False  # the package

    @property
    def is_probe(self) -> bool:
        """Whether the method is a probe, trained on all texts, instead of a function of one batch."""
        return self.function is None

    @property
    def is_fitted_mask(self) -> bool:
        """Whether the method fits a mask to one text in steps, which can be watched (option watch)."""
        return self.is_mask and self.needs_steps

    def missing(self, *, single_answer: bool, attention_weights: bool, short_texts: bool) -> str:
        """What the method needs but a model and its texts do not have, in words; "" if nothing is missing.

        Parameters
        ----------
        single_answer : bool
            The model gives one answer per text.
        attention_weights : bool
            The model is a transformer.
        short_texts : bool
            The number of positions per text is limited.
        """
        needs = (
            (self.needs_single_answer and not single_answer, "one answer per text, not a span"),
            (self.needs_attention_weights and not attention_weights, "a transformer"),
            (self.needs_short_texts and not short_texts, "texts of few positions; give searchable=14, for example"),
        )
        return next((words for is_missing, words in needs if is_missing), "")


def _fitted_masks(name: str, function: Callable[..., Tensor], needs_multiplier: bool = True) -> Method:
    return Method(name, function, is_mask=True, needs_steps=True, needs_margin=True, needs_multiplier=needs_multiplier)


METHODS = {
    method.name: method
    for method in (
        Method("states", needs_margin=True),
        Method("inputs", needs_margin=True),
        Method("erasure", search.erasure, is_mask=True, needs_short_texts=True),
        Method(
            "integrated_gradients",
            attributions.integrated_gradients,
            needs_steps=True,
            needs_single_answer=True,
            needs_captum=True,
        ),
        Method(
            "information_bottleneck",
            attributions.information_bottleneck,
            needs_steps=True,
            needs_moments=True,
            needs_single_answer=True,
        ),
        Method("additive_noise", attributions.additive_noise, needs_steps=True),
        Method("attention", attributions.attention, needs_attention_weights=True),
        _fitted_masks("masks", attributions.masks),
        _fitted_masks("masks_with_baseline", attributions.masks_with_baseline),
        _fitted_masks("masks_by_score", attributions.masks_by_score),
        _fitted_masks("masks_by_released_score", attributions.masks_by_released_score, needs_multiplier=False),
    )
}
