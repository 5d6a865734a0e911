"""Explorers: pictures that move with sliders and with your own text."""

from rationale.explorers.layers import explore_layers
from rationale.explorers.mappings import explore_mappings
from rationale.explorers.rates import explore_rates
from rationale.explorers.sentence import explore_sentence
from rationale.explorers.shapes import explore_shapes

__all__ = [
    "explore_layers",
    "explore_mappings",
    "explore_rates",
    "explore_sentence",
    "explore_shapes",
]
