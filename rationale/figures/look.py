"""The look that all figures share: colours, sizes, how a figure is made, shown and saved."""

import functools
import inspect
import io
import textwrap
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Okabe and Ito's palette: told apart with any of the common forms of colour blindness.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
BLACK, GREY, DARK_RED = "#000000", "#767676", "#A34000"  # dark red: text that belongs to red marks
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)
DASHES = ("-", "--", "-.", (0, (1, 1)))
DRAWN = ("hardkuma", "bernoulli", "attention", "svm")  # models with the first looks
CHANCE = ("random run of words", "unrelated", "the commonest answer")  # drawn as a line without marks
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
LOOK = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # a fixed place: searching for one costs more than drawing it
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
    "text.hinting": "none",  # letters stand where they belong, and are drawn faster
    "svg.fonttype": "none",  # text stays text: small files, searchable
    "svg.hashsalt": "rationale",  # with no date in the metadata: the same figure gives the same bytes
}


def style() -> AbstractContextManager:
    """The shared look as a context: `with style(): ...`. Restores what was set before."""
    return matplotlib.rc_context(LOOK)


def in_style(function):
    """Run `function` inside `style()`."""

    @functools.wraps(function)
    def styled(*args, **kwargs):
        with style():
            return function(*args, **kwargs)

    return styled


class Picture(Figure):
    """A figure that shows itself as the last expression of a notebook cell, with no pyplot and no backend."""

    def _repr_png_(self) -> tuple[bytes, dict]:
        width, height = (round(100 * inches) for inches in self.get_size_inches())
        return to_png(self, dpi=150), {"width": width, "height": height, "alt": _described(self)}


@in_style
def new_figure(
    ncols: int = 1,
    nrows: int = 1,
    size: tuple[float, float] | None = None,
    title: str | None = None,
    **subplots,
) -> tuple[Picture, Axes | np.ndarray]:
    """A figure and its axes.

    Parameters
    ----------
    ncols, nrows : int
        Panels across and down.
    size : (width, height) in inches, of the whole figure
        Default 7 x 4.2 for one panel, 4.8 x 3.7 for each of several.
    title : str
        Finding of the whole figure, above all panels.
    **subplots
        Passed on to `Figure.subplots`, e.g. `sharex=True`.

    Returns
    -------
    fig, axes
        `axes` is one Axes for one panel, else an array [ncols] , [nrows] or [nrows, ncols].
    """
    one = ncols == nrows == 1
    fig = Picture(figsize=size or ((7, 4.2) if one else (4.8 * ncols, 3.7 * nrows)), layout="constrained")
    if title:
        fig.suptitle(title, x=0.01, ha="left")
    return fig, fig.subplots(nrows, ncols, **subplots)


def live_figure(width: float, height: float) -> Figure:
    """A figure that is drawn anew under a slider: it keeps its canvas, and so the sizes of texts that come again."""
    fig = Figure(figsize=(width, height), dpi=100)
    FigureCanvasAgg(fig)
    return fig


@in_style
def to_png(fig: Figure, dpi: int = 150, fast: bool = False) -> bytes:
    """The figure as PNG bytes; fast ones are somewhat larger."""
    buffer = io.BytesIO()
    effort = {"compress_level": 1, "compress_type": zlib.Z_RLE} if fast else {"compress_level": 6}
    fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None}, pil_kwargs=effort)
    return buffer.getvalue()


def live_png(fig: Figure) -> bytes:
    """A `live_figure` as PNG bytes."""
    return to_png(fig, dpi=int(fig.dpi), fast=True)


@in_style
def save_figure(fig: Figure, folder: str | Path, name: str) -> Path:
    """Write `folder/name.svg` (the folder is made if missing) and return its path.

    The same figure always gives the same bytes.
    """
    path = Path(folder) / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return path


def show(fig: Figure):
    """Any figure as an IPython image, for use in the middle of a cell: `display(show(fig))`."""
    from IPython.display import Image

    width = round(100 * fig.get_size_inches()[0])
    return Image(to_png(fig), format="png", width=width, alt=_described(fig))


def show_source(*parts: Callable) -> None:
    """Display the package's own code of functions or methods in a notebook, coloured as code."""
    from IPython.display import Markdown, display

    code = "\n".join(textwrap.dedent(inspect.getsource(part)) for part in parts)
    display(Markdown(f"```python\n{code}```"))


def _described(fig: Figure) -> str:
    """What a screen reader says: the figure's title, else those of its panels."""
    titles = [ax.get_title(place) for ax in fig.axes for place in ("left", "center")]
    return fig.get_suptitle() or "; ".join(title for title in titles if title)


def _room(ax: Axes) -> float:
    """Inches from the left end of the axes to where the next panel, or the figure, ends."""
    place, width = ax.get_subplotspec(), ax.figure.get_figwidth()
    if place is None or place.get_gridspec().ncols == 1:
        return width - 0.9
    shares = place.get_gridspec().get_width_ratios()
    return width * sum(shares[column] for column in place.colspan) / sum(shares) - 0.4


def labelled(ax: Axes, title: str, xlabel: str, ylabel: str) -> Axes:
    """Write the title, as large as its place allows, and the names of both axes."""
    if title:
        text = ax.set_title(title)
        letter = 0.62 / 72 * max(map(len, title.split("\n")))  # inches of the longest line for each point of its size
        if letter * text.get_fontsize() > (room := _room(ax)):
            text.set_fontsize(max(9, room / letter))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if xlabel == "epoch":
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    return ax


def checked_numbers(values, name: str) -> np.ndarray:
    """Any sequence or tensor as a float array without NaN.

    Raises
    ------
    ValueError
        If a value is NaN: it is not drawn as a gap.
    """
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
    array = np.asarray(values, dtype=float)
    if np.isnan(array).any():
        raise ValueError(f"{name}: {np.isnan(array).sum()} of {array.size} values are NaN, got to be numbers")
    return array


def side_by_side(
    fig: Figure, kinds: Sequence, widths: Sequence[float] | None = None, **margins: float
) -> Sequence[Axes]:
    """Axes side by side, one of each of `kinds`, in a figure that is drawn anew under a slider.

    Where the figure was last asked for the same, its axes are emptied and used again: making axes and their ticks takes
    as long as drawing into them. Whoever draws sets what is not an artist (limits, ticks, labels) anew.
    """
    key = repr((kinds, widths, margins))
    if fig.get_label() != key:
        for ax in fig.axes:  # Figure.clear() would first empty each of them
            fig.delaxes(ax)
        fig.set_label(key)
        fig.set_layout_engine("none")  # fixed margins: panels keep still while a slider moves, and drawing is faster
        fig.subplots(1, len(kinds), width_ratios=widths, gridspec_kw=margins)
    for ax in fig.axes:
        legend = [ax.get_legend()] if ax.get_legend() else []
        for artist in (*ax.lines, *ax.collections, *ax.patches, *ax.texts, *legend):
            artist.remove()
        ax.containers.clear()
        ax.relim()
    return fig.axes


def without_formulas(words: Iterable[str]) -> list[str]:
    """Words as they are: two dollar signs make no formula."""
    return [word.replace("$", r"\$") for word in words]


def show_percent(axis) -> None:
    """Write the shares along an axis as percentages."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 9):g} %"))
