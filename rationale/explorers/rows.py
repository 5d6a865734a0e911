"""Explore saved rows without a kernel: one text at all rates of a sweep, or in all layers of a probed model."""

import json
from pathlib import Path

import traitlets

from rationale.errors import BadInput
from rationale.explorers.embedded import Embedded, module
from rationale.figures import in_words

RATES_FILE, LAYERS_FILE = "rates.json", "layers.json"


def explore_saved_rates(folder: Path | str) -> "RowExplorer":
    """Make an explorer of a few texts at all rates of a sweep, from `rates.json` in a folder.

    The committed file is in `committed.reference_folder()`.

    Raises
    ------
    BadInput
        If the folder has no such file.
    """
    return _explorer(Path(folder) / RATES_FILE, name="rates", label="rate")


def explore_saved_layers(folder: Path | str) -> "RowExplorer":
    """Make an explorer of a few texts in all layers of a probed model, from `layers.json` in a folder.

    The committed file is in `committed.reference_folder()`.

    Raises
    ------
    BadInput
        If the folder has no such file.
    """
    return _explorer(Path(folder) / LAYERS_FILE, name="layers", label="layer")


def _explorer(file: Path, **fixed) -> "RowExplorer":
    if not file.exists():
        raise BadInput(f"{file.parent}: no {file.name}; `python -m tools.rows` writes it from finished runs")
    saved = json.loads(file.read_text("utf-8"))
    methods = [method | {"name": in_words(method["name"])} for method in saved["methods"]]
    return RowExplorer(texts=saved["texts"], methods=methods, about=saved["about"], **fixed)


class RowExplorer(Embedded):
    """A text, all rows of a method as words in colour, and a slider over the rows, drawn in the browser by `rows.js`.

    Attributes
    ----------
    texts : list of dict
        `tokens`, `gold` (0 or 1 per token) and `title` of each text.
    methods : list of dict
        For each method its `name`, its `rows`, a `curve` or None, the `level` above which a word is bold, and what such
        words are, `did`, for example "selected". A row has a `title`, the `values` in [0, 1] per text and token, the
        `answers` per text, and `facts` on the whole row, which may be "". A curve has a `title`, an `xlabel`, and the
        numbers `x` and `y` of each row.
    name : str
        The name of this explorer in the address of a page.
    label : str
        What a row is, for the slider.
    about : str
        What the runs are, for a line below the picture.
    row, text, method : int
        What is shown; all count from 0.
    """

    _esm = module("rows")
    texts = traitlets.List().tag(sync=True)
    methods = traitlets.List().tag(sync=True)
    name = traitlets.Unicode("rows").tag(sync=True)
    label = traitlets.Unicode("row").tag(sync=True)
    about = traitlets.Unicode("").tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    text = traitlets.Int(0).tag(sync=True)
    method = traitlets.Int(0).tag(sync=True)
