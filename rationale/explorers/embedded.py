"""Explorers that need no kernel: one JavaScript module for JupyterLab, for Voilà and for a static page.

The module of an explorer is `base.js` followed by its own files. A notebook shows it through anywidget. The same output
also holds HTML with the module and its state, which a page that has no kernel (the book, `run.html`) shows instead.
"""

import base64
import html
import json
from pathlib import Path
from typing import Any

import traitlets

from rationale.errors import optional
from rationale.figures.look import PALETTE

anywidget = optional("anywidget", "explorers", "notebooks")

# Imports the module of the element before the script, and gives it a model that has values but no kernel.
MOUNT = """
const place = document.currentScript.previousElementSibling, values = JSON.parse(place.dataset.state), heard = {};
const model = {
  isStatic: true,
  get: key => values[key],
  set: (key, value) => { values[key] = value; (heard["change:" + key] || []).forEach(call => call()); },
  on: (event, call) => { (heard[event] ||= []).push(call); },
  save_changes: () => {},
};
import("data:text/javascript;base64," + place.dataset.module).then(found => found.default.render({ model, el: place }));
"""


def module(*files: str) -> str:
    """The JavaScript module of an explorer, which imports nothing: `base.js` and the given files, one after another."""
    return "\n".join((Path(__file__).parent / f"{file}.js").read_text("utf-8") for file in ("base", *files))


class Embedded(anywidget.AnyWidget):
    """An explorer whose pictures and numbers are computed by JavaScript.

    A subclass sets `_esm` to its `module` and has a traitlet, tagged `sync=True`, for each value that the module reads.
    """

    palette = traitlets.List(
        [f"var(--drawn-blue, {PALETTE[0]})", f"var(--drawn-red, {PALETTE[3]})"], read_only=True
    ).tag(sync=True)  # a dark page gives the variables its own colours (`rationale.runs.themes`)

    def state(self) -> dict[str, Any]:
        """What the module reads from its model: the values of the traitlets that the subclasses have added."""
        own = set(self.trait_names(sync=True)) - set(anywidget.AnyWidget.class_trait_names()) - {"_esm", "_css"}
        return {name: getattr(self, name) for name in sorted(own) if not name.startswith("_anywidget")}

    def as_html(self) -> str:
        """The explorer as HTML that loads nothing from elsewhere."""
        source = base64.b64encode(self._esm.encode()).decode()
        state = html.escape(json.dumps(self.state()), quote=True)
        script = f"<script>{{{MOUNT}}}</script>"
        return f'<div class="explorer" data-module="{source}" data-state="{state}"></div>{script}'

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return data | {"text/html": self.as_html()}, metadata
