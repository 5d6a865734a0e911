"""Explorers: interactive figures for a notebook, with sliders or with a text that you type.

Each `explore_*` returns an explorer, and a notebook displays it as the last expression of a cell. There are two kinds:

- The explorers of gate shapes, of attention mappings, of a finished training, and of saved rates and layers are drawn
  by the browser and need no kernel. Each has a JavaScript file beside its Python file; see `embedded.py`. They also
  work in the static book.
- The explorers of sentences, rates and layers need a model. Each is a box of `ipywidgets` that redraws one reused
  `Figure` into the bytes of an `ipywidgets.Image`. This needs no pyplot, does not flicker, and can be tested without a
  browser: set the `value` of a widget, or `click()` a button, and look at `picture.value`.
"""

from rationale.errors import optional

optional("ipywidgets", "explorers", "notebooks")

from rationale.explorers.layers import explore_layers
from rationale.explorers.mappings import explore_mappings
from rationale.explorers.rates import explore_rates
from rationale.explorers.rows import explore_saved_layers, explore_saved_rates
from rationale.explorers.sentence import explore_sentence
from rationale.explorers.shapes import explore_shapes
from rationale.explorers.training import explore_training

__all__ = [
    "explore_layers",
    "explore_mappings",
    "explore_rates",
    "explore_saved_layers",
    "explore_saved_rates",
    "explore_sentence",
    "explore_shapes",
    "explore_training",
]
