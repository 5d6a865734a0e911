"""The look that all figures share (colours, fonts, sizes), and how a figure is made, shown and saved."""

import functools
import inspect
import io
import re
import textwrap
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rationale.errors import optional
from rationale.figures.narrow import WIDTH, narrowed
from rationale.highlight import as_floats

# Okabe and Ito's palette: its colours can be distinguished with any of the common forms of colour blindness.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
BLACK, GREY, DARK_RED = "#000000", "#767676", "#A34000"  # dark red is for text that belongs to red marks
# On fields whose colour stays as it is on a dark page, where black and white change places (`rationale.runs.themes`).
ON_LIGHT, ON_DARK = "#010101", "#FEFEFE"
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)
DASHES = ("-", "--", "-.", (0, (1, 1)))
STYLED_MODELS = ("hardkuma", "bernoulli", "attention", "svm")  # they have the same colour and marker in every figure
CHANCE_BASELINES = ("random run of words", "unrelated", "the commonest answer")  # drawn as a line without markers
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
RASTER = 150  # dots per inch of what an SVG shows as an image
FORMATS = ("svg", "pdf", "png")  # in which a figure may be saved
_METADATA = {  # by format: what keeps dates and versions out of a file
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_CAPTION = {"svg": "Description", "pdf": "Subject", "png": "Description"}  # the field that holds the caption
LOOK = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # a fixed position: searching for a free one takes longer than drawing the title
    "axes.labelsize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": matplotlib.cycler(color=PALETTE),
    "axes.axisbelow": True,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "lines.linewidth": 2.2,
    "lines.markersize": 7,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "figure.titlesize": 15,
    "figure.titleweight": "bold",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.hinting": "none",  # letters are placed exactly, and are drawn faster
    "svg.fonttype": "none",  # text is saved as text: files are small and searchable
    "pdf.fonttype": 42,  # TrueType: text in a PDF can be searched and edited
    "svg.hashsalt": "rationale",  # a fixed salt, so that the same figure gives the same bytes
}


def style() -> AbstractContextManager:
    """The shared look as a context manager: `with style(): ...`. It restores the previous settings at its end."""
    return matplotlib.rc_context(LOOK)


def apply_style(function: Callable) -> Callable:
    """Decorator: run `function` inside `style()`."""

    @functools.wraps(function)
    def styled(*args, **kwargs):
        with style():
            return function(*args, **kwargs)

    return styled


class Picture(Figure):
    """A figure that a notebook displays as the last expression of a cell, without pyplot and without a backend."""

    def _repr_svg_(self) -> tuple[str, dict]:
        return _displayed(self)


class Shown(NamedTuple):
    """A figure as it was when it was shown: an SVG and what a page needs beside it."""

    svg: str
    about: dict[str, str | int]

    def _repr_svg_(self) -> tuple[str, dict]:
        return self.svg, self.about


@apply_style
def new_figure(
    ncols: int = 1,
    nrows: int = 1,
    size: tuple[float, float] | None = None,
    title: str | None = None,
    **subplots,
) -> tuple[Picture, Axes | np.ndarray]:
    """Make a figure and its axes.

    Parameters
    ----------
    ncols, nrows : int
        Panels across and down.
    size : (width, height) of the whole figure, in inches
        The default is 7 x 4.2 for one panel, and 4.8 x 3.7 for each of several.
    title : str
        The finding of the whole figure, written above all panels.
    **subplots
        Passed on to `Figure.subplots`, e.g. `sharex=True`.

    Returns
    -------
    fig, axes
        `axes` is an Axes if there is one panel, otherwise an array [ncols], [nrows] or [nrows, ncols].
    """
    one = ncols == nrows == 1
    fig = Picture(figsize=size or ((7, 4.2) if one else (4.8 * ncols, 3.7 * nrows)), layout="constrained")
    if title:
        fig.suptitle(title, x=0.01, ha="left")
    return fig, fig.subplots(nrows, ncols, **subplots)


def live_figure(width: float, height: float) -> Figure:
    """A figure to be redrawn when a slider moves. Its canvas is kept, so that texts need not be measured again."""
    fig = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(fig)
    return fig


@apply_style
def to_png(fig: Figure, dpi: int = 150, fast: bool = False) -> bytes:
    """The figure as PNG bytes. With `fast`, they are written faster and are somewhat larger."""
    buffer = io.BytesIO()
    compression = {"compress_level": 1, "compress_type": zlib.Z_RLE} if fast else {"compress_level": 6}
    fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None}, pil_kwargs=compression)
    return buffer.getvalue()


def live_png(fig: Figure) -> bytes:
    """A `live_figure` as PNG bytes."""
    return to_png(fig, dpi=int(fig.dpi), fast=True)


@apply_style
def to_svg(fig: Figure) -> str:
    """The figure as the text of an SVG, with 100 pixels per inch."""
    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", dpi=RASTER, metadata=_METADATA["svg"])
    text = buffer.getvalue()
    width, height = (round(100 * inches) for inches in fig.get_size_inches())
    head, body = text[text.index("<svg") :].split(">", 1)
    return re.sub(r' (?:width|height)="[^"]*"', "", head) + f' width="{width}" height="{height}">{body}'


@apply_style
def save_figure(
    fig: Figure, folder: str | Path, name: str, formats: Sequence[str] = ("svg",), caption: str = ""
) -> Path:
    """Write `folder/name.svg` (and the other formats), making the folder if it is missing.

    The same figure always gives the same bytes.

    Parameters
    ----------
    formats : some of `FORMATS`
        PDF for LaTeX, PNG for slides. Each format takes about as long to write as the figure takes to draw.
    caption : str
        What the figure shows, such as the runs behind it; it is stored in each file, and beside them in `name.txt`.

    Returns
    -------
    Path
        The file in the first format.
    """
    paths = [Path(folder) / f"{name}.{kind}" for kind in formats]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, kind in zip(paths, formats, strict=True):
        described = {_CAPTION[kind]: caption} if caption else {}
        fig.savefig(path, format=kind, dpi=200, metadata=_METADATA[kind] | described)
    if caption:
        paths[0].with_suffix(".txt").write_text(f"{_alternative_text(fig)}\n{caption}\n", encoding="utf-8")
    return paths[0]


def draw_panel(
    draw: Callable,
    *content,
    size: tuple[float, float] | None = None,
    save: Path | None = None,
    limits: Mapping | None = None,
    **options,
) -> Picture:
    """A figure of one panel in one call: it is made, drawn by `draw(*content, ax=ax, **options)`, and saved.

    Parameters
    ----------
    draw : function
        One of the `draw_*` functions.
    size : (width, height) in inches
    save : path without a suffix, or None
        Where the figure is saved as SVG.
    limits : dict
        What is set on the axes after drawing, as by `Axes.set`: limits, ticks, or a label that `draw` does not set.
    """
    fig, ax = new_figure(size=size)
    draw(*content, ax=ax, **options)
    ax.set(**(limits or {}))
    if save is not None:
        save_figure(fig, save.parent, save.name)
    return fig


def show(fig: Figure) -> Shown:
    """The figure as it is now, for use in the middle of a cell: `display(show(fig))`."""
    return Shown(*_displayed(fig))


@apply_style
def _displayed(fig: Figure) -> tuple[str, dict[str, str | int]]:
    """The figure as SVG, and what a page needs beside it.

    This is the size in pixels, `alt` for those who do not see it, and the figure arranged for a narrow page: `narrow`,
    another SVG, and `narrow_width` in pixels.
    """
    width, height = (round(100 * inches) for inches in fig.get_size_inches())
    about = {"width": width, "height": height, "alt": _alternative_text(fig)}
    picture = to_svg(fig)
    with narrowed(fig):
        return picture, about | {"narrow": to_svg(fig), "narrow_width": round(100 * WIDTH)}


def show_source(*parts: Callable) -> None:
    """Display the source code of functions or methods in a notebook, with syntax highlighting."""
    display = optional("IPython.display", "source code in a notebook", "notebooks")
    code = "\n".join(textwrap.dedent(inspect.getsource(part)) for part in parts)
    display.display(display.Markdown(f"```python\n{code}```"))


def _alternative_text(fig: Figure) -> str:
    """The text for screen readers: the title of the figure, or, if it has none, those of its panels."""
    titles = [ax.get_title(place) for ax in fig.axes for place in ("left", "center")]
    return fig.get_suptitle() or "; ".join(title for title in titles if title)


def _title_width(ax: Axes) -> float:
    """The width in inches that a title may have: from the left end of the axes to the next panel or the margin."""
    position, width = ax.get_subplotspec(), ax.figure.get_figwidth()
    if position is None or position.get_gridspec().ncols == 1:
        return width - 0.9
    ratios = position.get_gridspec().get_width_ratios()
    return width * sum(ratios[column] for column in position.colspan) / sum(ratios) - 0.4


def set_labels(ax: Axes, title: str, xlabel: str, ylabel: str) -> Axes:
    """Set the title and the labels of the axes. A long title gets smaller letters, of at least 9 points."""
    if title:
        text = ax.set_title(title)
        per_point = 0.62 / 72 * max(map(len, title.split("\n")))  # width of the longest line, in inches per point
        if per_point * text.get_fontsize() > (width := _title_width(ax)):
            text.set_fontsize(max(9, width / per_point))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if xlabel == "epoch":
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    return ax


def check_numbers(values, name: str) -> np.ndarray:
    """Convert a sequence or a tensor to an array of floats.

    Raises
    ------
    ValueError
        If a value is NaN.
    """
    array = as_floats(values)
    if np.isnan(array).any():
        raise ValueError(f"{name}: {np.isnan(array).sum()} of {array.size} values are NaN; numbers are accepted")
    return array


def reuse_panels(
    fig: Figure, kinds: Sequence, widths: Sequence[float] | None = None, **margins: float
) -> Sequence[Axes]:
    """Empty axes side by side, one for each of `kinds`, in a figure that is redrawn when a slider moves.

    If the last call for this figure had the same arguments, its axes are emptied and reused, because making axes and
    ticks takes as long as drawing into them. The caller has to set limits, ticks and labels again.

    Parameters
    ----------
    kinds : [P]
        What each panel shows. Axes are reused only for the same `kinds`.
    widths : [P]
        Relative widths.
    margins : left, right, bottom, top, wspace
        As shares of the figure, see `matplotlib.gridspec.GridSpec`.
    """
    key = repr((kinds, widths, margins))
    if fig.get_label() != key:
        for ax in fig.axes:  # Figure.clear() would first empty each of them
            fig.delaxes(ax)
        fig.set_label(key)
        fig.set_layout_engine("none")  # with fixed margins, panels stay in place and drawing is faster
        fig.subplots(1, len(kinds), width_ratios=widths, gridspec_kw=margins)
    for ax in fig.axes:
        legend = [ax.get_legend()] if ax.get_legend() else []
        for artist in (*ax.lines, *ax.collections, *ax.patches, *ax.texts, *legend):
            artist.remove()
        ax.containers.clear()
        ax.relim()
    return fig.axes


def escape_dollars(words: Iterable[str]) -> list[str]:
    """Words whose dollar signs are escaped, so that matplotlib does not read them as formulas."""
    return [word.replace("$", r"\$") for word in words]


def use_percent_ticks(axis) -> None:
    """Write the ticks of a Matplotlib axis as percentages; its values are shares in [0, 1]."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 9):g} %"))
