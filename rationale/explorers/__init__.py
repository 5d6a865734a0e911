"""Explorers: interactive figures for a notebook, with sliders or with a text that you type.

Each `explore_*` returns an explorer; a notebook displays it as the last expression of a cell. An explorer is a box of
`ipywidgets` that redraws one reused `Figure` into the bytes of an `ipywidgets.Image`. This needs no pyplot and no extra
package, does not flicker, and can be tested without a browser: set the `value` of a widget, or `click()` a button, and
look at `picture.value`.
"""

from rationale.errors import optional

optional("ipywidgets", "explorers", "notebooks")

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
