"""Figures and highlighted text: pure functions of numbers, one shared look, no global state.

Every `draw_*(..., ax)` draws into the axes it is given and returns them. The look is applied by a context
around each call (`style`), never on import, and nothing here needs pyplot:

    fig, ax = new_figure()
    draw_hardkuma(0.5, 0.5, -0.1, 1.1, ax, title="All mass beyond 0 and 1 collapses onto 0 and 1")
    fig                                   # the last expression of a notebook cell: shows the picture

Titles state the finding; axes carry units; shares are drawn in per cent and given in [0, 1]. A NaN is an
error, never a gap in a line.
"""

import functools
import html
import inspect
import io
import os
import textwrap
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from numbers import Real
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from rationale.distributions import HardKuma, Kumaraswamy, StretchedRectified

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


def _styled(function):
    """Run `function` inside `style()`."""

    @functools.wraps(function)
    def styled(*args, **kwargs):
        with style():
            return function(*args, **kwargs)

    return styled


# --- figures ---------------------------------------------------------------------------------------------


class Picture(Figure):
    """A figure that shows itself as the last expression of a notebook cell, with no pyplot and no backend."""

    def _repr_png_(self) -> tuple[bytes, dict]:
        width, height = (round(100 * inches) for inches in self.get_size_inches())
        return to_png(self, dpi=150), {"width": width, "height": height, "alt": _described(self)}


@_styled
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


@_styled
def to_png(fig: Figure, dpi: int = 150, fast: bool = False) -> bytes:
    """The figure as PNG bytes; fast ones are somewhat larger."""
    buffer = io.BytesIO()
    effort = {"compress_level": 1, "compress_type": zlib.Z_RLE} if fast else {"compress_level": 6}
    fig.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None}, pil_kwargs=effort)
    return buffer.getvalue()


def live_png(fig: Figure) -> bytes:
    """A `live_figure` as PNG bytes."""
    return to_png(fig, dpi=int(fig.dpi), fast=True)


@_styled
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


def _dressed(ax: Axes, title: str, xlabel: str, ylabel: str) -> Axes:
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


def _numbers(values, name: str) -> np.ndarray:
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


def _panels(fig: Figure, kinds: Sequence, widths: Sequence[float] | None = None, **margins: float) -> Sequence[Axes]:
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


def _plain(words: Iterable[str]) -> list[str]:
    """Words as they are: two dollar signs make no formula."""
    return [word.replace("$", r"\$") for word in words]


def _percent(axis) -> None:
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 9):g} %"))


# --- distributions ---------------------------------------------------------------------------------------


def _shape(value) -> torch.Tensor:
    """A distribution's parameter in float64: pictures are drawn with all digits."""
    return torch.as_tensor(value, dtype=torch.float64)


def _inside(low: float, high: float, num: int = 401) -> torch.Tensor:
    """Points strictly inside (low, high), denser towards the ends, where densities may be steep."""
    turn = torch.linspace(0, torch.pi, num + 2, dtype=torch.float64)[1:-1]
    return low + (high - low) * (1 - torch.cos(turn)) / 2


def _density(dist, points: torch.Tensor) -> np.ndarray:
    return _numbers(dist.log_prob(points).exp(), f"density of {type(dist).__name__}")


def _top(x: np.ndarray, density: np.ndarray) -> float:
    """Top of a density axis: the first of 3, 6, 12, ... above the peak, the outer 2 % of the support aside.

    Poles at the ends are cut; and steps keep the axis still while a slider moves.
    """
    low, high = x[0] + 0.02 * np.ptp(x), x[-1] - 0.02 * np.ptp(x)
    peak = density[(low <= x) & (x <= high)].max()
    return 3 * 2 ** max(0, int(np.ceil(np.log2(1.05 * peak / 3)))) if peak > 0 else 3


def _mass_text(mass: float) -> str:
    """Three decimals; what would round to 0.000 but is not 0 in its order of magnitude."""
    return f"{mass:.3f}" if mass >= 5e-4 or mass == 0 else f"{mass:.0e}"


def _draw_masses(dist: StretchedRectified, ax: Axes, prefix: str = "P({}) = ") -> None:
    """The masses at 0 and 1 as lollipops, their values under the ticks, where they cover nothing.

    The height of a lollipop is its mass as a share of the height of the axes, not on the y scale.
    """
    texts = {0: "0", 0.5: ".5", 1: "1"}
    across = ax.get_xaxis_transform()
    for at, mass in ((0, dist.prob_zero), (1, dist.prob_one)):
        mass = _numbers(mass, f"P({at})").item()
        look = {"color": RED, "transform": across, "clip_on": False, "solid_capstyle": "butt", "zorder": 4}
        ax.plot([at, at], [0, mass], linewidth=5, gid=f"mass_at_{at}", **look)
        ax.plot([at], [mass], "o", markersize=10, **look)
        texts[at] += f"\n{prefix.format(at)}{_mass_text(mass)}"
    ax.set_xticks(list(texts), list(texts.values()))
    for label in (ax.get_xticklabels()[0], ax.get_xticklabels()[2]):
        label.set(color=DARK_RED, fontweight="bold")


def _draw_mass_axis(ax: Axes, top: float) -> None:
    """The scale of the masses on the right: 0 to 1 over the whole height."""
    functions = (lambda y: y / top, lambda mass: mass * top)
    if ax.child_axes:  # of the last drawing under a slider, see `_panels`
        ax.child_axes[0].set_functions(functions)
        return
    right = ax.secondary_yaxis("right", functions=functions)
    right.set_ylabel("mass (probability)", color=DARK_RED)
    right.set_yticks([0, 0.5, 1], ["0", ".5", "1"])
    right.tick_params(colors=DARK_RED)
    right.spines["right"].set(color=DARK_RED, visible=True)


@_styled
def draw_kumaraswamy(a, b, ax: Axes, title: str = "", label: str | None = None, **line) -> Axes:
    """Density of Kuma(a, b) over (0, 1). Call again on the same axes to compare; `label` names the curve."""
    k = _inside(0, 1)
    density = _density(Kumaraswamy(_shape(a), _shape(b)), k)
    top = max(_top(k.numpy(), density), ax.get_ylim()[1] if ax.lines else 0)
    look = {"linestyle": DASHES[len(ax.lines) % len(DASHES)], "label": f"Kuma({float(a):g}, {float(b):g})"}
    ax.plot(k, np.minimum(density, 99 * top), **{**look, **({"label": label} if label else {}), **line})
    ax.set(xlim=(0, 1), ylim=(0, top))
    ax.legend(loc="upper center")
    return _dressed(ax, title, "k", "density (per unit of k)")


@_styled
def draw_hardkuma(
    a, b, left, right, ax: Axes, title: str = "", compact: bool = False, top: float | None = None
) -> Axes:
    """Base, stretched and rectified density of HardKuma(a, b, left, right) in one picture.

    Dashed: the base K over (0, 1). Thin: the stretched T over (left, right), its tails beyond 0 and 1 shaded.
    Thick: the density of H inside (0, 1), which is that of T unchanged; each shaded tail has become a point
    mass, drawn as a lollipop on the scale at the right (a mass is not a density).

    Source: eqs. (H1)-(H4), notebooks/02_hardkuma.py; after Fig. 2 of Bastings et al. 2019.

    Parameters
    ----------
    a, b : float, > 0
        Shapes of the base.
    left, right : float, left < 0 and right > 1
        Support of the stretched variable.
    ax : Axes
    title : str
        The finding.
    compact : bool
        For small multiples: no legend, no scale at the right, short labels.
    top : float
        Upper end of the density axis. Default: the first of 3, 6, 12, ... above the peak.
    """
    dist = HardKuma(_shape(a), _shape(b), float(left), float(right))
    left, right = float(left), float(right)
    k = _inside(0, 1)
    base = _density(dist.base, k)
    k, t = k.numpy(), left + (right - left) * k.numpy()
    top = top or _top(k, base)
    base = np.minimum(base, 99 * top)
    stretched, inside = base / (right - left), (0 < t) & (t < 1)
    ax.plot(k, base, "--", color=GREY, linewidth=1.6, label="base K")
    ax.plot(t, stretched, color=BLUE, linewidth=1.4, label="stretched T")
    ax.plot(t[inside], stretched[inside], color=BLUE, linewidth=3.6, label="rectified H")
    for tail, label in ((t <= 0, "collapsed tails"), (t >= 1, None)):
        ax.fill_between(t[tail], stretched[tail], color=RED, alpha=0.3, linewidth=0, label=label)
    _draw_masses(dist, ax, prefix="" if compact else "P({}) = ")
    ax.set(xlim=(min(left, -0.1) - 0.03, max(right, 1.1) + 0.03), ylim=(0, top))
    ax.set_yticks(np.linspace(0, top, 4))
    if compact:
        return _dressed(ax, title, "", "")
    _draw_mass_axis(ax, top)
    ax.legend(loc="upper center")
    return _dressed(ax, title, "value of k, t or h", "density (per unit)")


def draw_hardkuma_grid(
    a_values: Sequence[float], b_values: Sequence[float], left, right, axes: np.ndarray, top: float = 3
) -> np.ndarray:
    """Small multiples of `draw_hardkuma`: a grows to the right, b grows downwards.

    Parameters
    ----------
    a_values, b_values : [M], [N]
        Shapes, > 0.
    left, right : float
    axes : [N, M]
        As `new_figure(ncols=M, nrows=N)` makes them.
    top : float
        Upper end of the density axis of all panels: shapes can be compared only on one scale.
    """
    for row, b in zip(axes, b_values, strict=True):
        for ax, a in zip(row, a_values, strict=True):
            draw_hardkuma(a, b, left, right, ax, title=f"a = {a:g}, b = {b:g}", compact=True, top=top)
    return axes


@_styled
def draw_decisions(a_values, b_values, values, ax: Axes, title: str = "") -> Axes:
    """Test-time value of a gate for each shape (a, b): the regions of exact 0 and exact 1, and between them
    the value itself, as colour with level lines.

    Parameters
    ----------
    a_values, b_values : [M], [N], > 0
    values : [N, M], in [0, 1]
        Value of the gate, b down the rows.
    """
    a_values, b_values = _numbers(a_values, "a_values"), _numbers(b_values, "b_values")
    values = _numbers(values, "values")
    mesh = ax.pcolormesh(a_values, b_values, values, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True)
    inside = np.ma.masked_where((values == 0) | (values == 1), values)
    if inside.count():
        levels = ax.contour(a_values, b_values, inside, levels=np.arange(0.1, 1, 0.2), colors="white", linewidths=1)
        ax.clabel(levels, fontsize=10, fmt="%.1f")
    for region, text in ((values == 0, "z = 0"), (values == 1, "z = 1")):
        if region.any():
            row, column = (int(np.median(index)) for index in np.nonzero(region))
            ax.text(
                a_values[column],
                b_values[row],
                text,
                ha="center",
                va="center",
                weight="bold",
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            )
    ax.set(xscale="log", yscale="log")
    ax.figure.colorbar(mesh, ax=ax, label="value z of the gate")
    return _dressed(ax, title, "a (log scale)", "b (log scale)")


@_styled
def draw_cdf(dist, ax: Axes, title: str = "") -> Axes:
    """Cumulative distribution function. Jumps of a rectified law are its masses: dashed, with the value held
    there as a filled dot.

    Parameters
    ----------
    dist : Distribution of batch shape []
        `HardKuma`, `HardConcrete` or one with support (0, 1).
    """
    points = _inside(0, 1)
    values = _numbers(dist.cdf(points), "cdf")
    if isinstance(dist, StretchedRectified):
        zero, one = (_numbers(mass, "mass").item() for mass in (dist.prob_zero, dist.prob_one))
        for at, low, high in ((0, 0, zero), (1, 1 - one, 1)):
            ax.plot([at, at], [low, high], ":", color=RED, linewidth=2.5)
            ax.plot([at], [low], "o", markerfacecolor="white", markeredgecolor=RED, zorder=5)
            ax.plot([at], [high], "o", color=RED, zorder=6)
        ax.plot([-0.15, 0], [0, 0], color=BLUE)
        ax.plot([1, 1.15], [1, 1], color=BLUE)
    ax.plot(points, values, color=BLUE)
    ax.set(xlim=(-0.15, 1.15), ylim=(-0.03, 1.05), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    return _dressed(ax, title, "h", "P(H ≤ h)")


@_styled
def draw_histogram_vs_density(
    samples, dist, ax: Axes, title: str = "", num_bins: int = 40, mass_axis: bool = True
) -> Axes:
    """A histogram of samples against the density they should have.

    Of a rectified law, samples that are exactly 0 or 1 are counted apart: squares, beside the exact masses as
    lollipops. Bars inside (0, 1) are shares of *all* samples per unit of h, so they must
    follow the density without any rescaling.

    Parameters
    ----------
    samples : [...], in [0, 1]
    dist : Distribution of batch shape []
    mass_axis : bool
        With the scale of the masses on the right.
    """
    samples = _numbers(samples, "samples").ravel()
    points = _inside(0, 1)
    density = _density(dist, points)
    top = _top(points.numpy(), density)
    inside = samples[(0 < samples) & (samples < 1)]
    edges = np.linspace(0, 1, num_bins + 1)
    bars = np.histogram(inside, edges)[0] / (samples.size / num_bins)
    ax.stairs(np.minimum(bars, 99 * top), edges, fill=True, color=SKY, alpha=0.6, label="samples")
    ax.plot(points, np.minimum(density, 99 * top), color=BLUE, label="density")
    ax.set(xlim=(-0.15, 1.15), ylim=(0, top))
    ax.set_yticks(np.linspace(0, top, 4))
    if isinstance(dist, StretchedRectified):
        across = ax.get_xaxis_transform()
        for at in (0, 1):
            ax.plot(
                [at + 0.05 * (2 * at - 1)],
                [(samples == at).mean()],
                "s",
                color=SKY,
                markeredgecolor=BLUE,
                markersize=9,
                transform=across,
                clip_on=False,
                gid=f"share_at_{at}",
                label=None if at else "share at 0, at 1",
                zorder=7,
            )
        _draw_masses(dist, ax, prefix="")
        if mass_axis:
            _draw_mass_axis(ax, top)
    ax.legend(loc="upper center")
    return _dressed(ax, title, "h", "density (per unit of h)")


def matched_beta(a, b) -> torch.distributions.Beta:
    """The Beta that has the mean m and the variance v of Kuma(a, b): there is one for every shape.

        alpha = m n,   beta = (1 - m) n,   n = m (1 - m) / v - 1 = E[K (1 - K)] / v > 0

    Source: eq. (X5), notebooks/03_explore_shapes.py.
    """
    base = Kumaraswamy(_shape(a), _shape(b))
    mean, variance = base.mean, base.variance
    count = (mean * (1 - mean) - variance) / variance
    return torch.distributions.Beta(mean * count, (1 - mean) * count)


@_styled
def draw_beside_beta(a, b, ax: Axes, title: str = "") -> Axes:
    """Density of Kuma(a, b) and of the Beta with the same mean and variance (`matched_beta`)."""
    k, beta = _inside(0, 1), matched_beta(a, b)
    base = Kumaraswamy(_shape(a), _shape(b))
    density = _density(base, k)
    top = _top(k.numpy(), density)
    named = f"Beta({beta.concentration1:.3g}, {beta.concentration0:.3g})"
    ax.plot(k, np.minimum(density, 99 * top), color=BLUE, label=f"Kuma({float(a):.3g}, {float(b):.3g})")
    ax.plot(k, np.minimum(_density(beta, k), 99 * top), "--", color=ORANGE, label=named)
    look = {"color": BLACK, "linestyle": "none", "clip_on": False, "zorder": 4}
    ax.plot([base.mean.item()], [0], "^", label=f"mean of both: {base.mean:.3g}", **look)
    ax.set(xlim=(0, 1), ylim=(0, top), yticks=np.linspace(0, top, 4))
    ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    ax.legend(loc="upper center")
    return _dressed(ax, title, "k", "density (per unit of k)")


def slopes(a, b, left, right, u) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The draw h(u; a, b, left, right) and its derivatives dh/da and dh/db: exactly 0 where the gate is clipped.

    Source: eq. (X6), notebooks/03_explore_shapes.py; eq. (H6), notebooks/02_hardkuma.py.

    Parameters
    ----------
    u : [N], in (0, 1)
        Uniform noise: P(H <= h) = u where 0 < h < 1.
    """
    u = _shape(u)
    a, b = (_shape(shape).expand(u.shape).clone().requires_grad_() for shape in (a, b))
    h = HardKuma(a, b, float(left), float(right)).rsample_at(torch.log1p(-u))
    return h.detach(), *torch.autograd.grad(h.sum(), (a, b))


@_styled
def draw_slopes(a, b, left, right, ax: Axes, title: str = "") -> Axes:
    """How the draw of each u moves with a (up) and with b (down); grey: clipped, no gradient.

    Parameters
    ----------
    a, b, left, right : float
        As in `draw_hardkuma`.
    """
    u = _inside(0, 1)
    h, by_a, by_b = (_numbers(values, "slopes") for values in slopes(a, b, left, right, u))
    inside = (0 < h) & (h < 1)
    steepest = max(abs(by_a).max(), abs(by_b).max())
    top = 2.0 ** np.ceil(np.log2(max(1.05 * steepest, 2**-6)))  # in steps: still while a slider moves
    ax.axhline(0, color=GREY, linewidth=1)
    ax.fill_between(u, -top, top, where=~inside, color=GREY, alpha=0.25, linewidth=0, label="clipped")
    for by, colour, dash, name in ((by_a, BLUE, "-", "a"), (by_b, ORANGE, "--", "b")):
        ax.plot(u[inside], by[inside], dash, color=colour, label=f"∂h/∂{name}")
    ax.set(xlim=(0, 1), ylim=(-1.4 * top, top))  # room for the legend
    ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    ax.set_yticks([-top, 0, top], [f"{-top:.3g}", "0", f"{top:.3g}"])
    ax.legend(loc="lower center", ncols=3, fontsize=11, handlelength=1.3, columnspacing=0.8)
    return _dressed(ax, title, "noise u", "slope of the draw h(u)")


VIEWS = ("samples", "cdf", "Beta", "slopes")  # what the explorer draws beside the densities


@_styled
def draw_explorer(
    a, b, left, right, fig: Figure, views: Sequence[str] = ("cdf", "samples"), num_samples: int = 2000, seed: int = 0
) -> Figure:
    """The explorer's picture: densities with their masses, and beside them a panel for each of `views`.

    Pure: the picture depends on the arguments alone. `fig` is drawn anew, so that one figure is reused.

    Parameters
    ----------
    a, b, left, right : float
        As in `draw_hardkuma`.
    fig : Figure
    views : some of `VIEWS`
        samples (a histogram), cdf, Beta (`draw_beside_beta`), slopes (`draw_slopes`).
    num_samples, seed : int
        Samples of the histogram; the same seed moves the same points as the shape changes.
    """
    dist = HardKuma(_shape(a), _shape(b), float(left), float(right))
    widths = [2.2, *(1 if view == "cdf" else 1.5 for view in views)]
    margins = {"left": 0.065, "right": 0.985, "bottom": 0.2, "top": 0.9, "wspace": 0.42}
    densities, *panels = _panels(fig, ["densities", *views], widths, **margins)
    draw_hardkuma(a, b, left, right, densities, title=f"HardKuma({a:.3g}, {b:.3g}, {left:.3g}, {right:.3g})")
    for view, ax in zip(views, panels, strict=True):
        if view == "samples":
            drawn = dist.icdf(torch.as_tensor(np.random.default_rng(seed).random(num_samples)))
            draw_histogram_vs_density(drawn, dist, ax, title=f"{num_samples} samples", mass_axis=False)
        elif view == "cdf":
            draw_cdf(dist, ax, title="cdf")
        elif view == "Beta":
            draw_beside_beta(a, b, ax, title="the base beside a Beta")
        elif view == "slopes":
            draw_slopes(a, b, left, right, ax, title="how a draw moves")
        else:
            raise ValueError(f"views: got {view!r}, accepted are {', '.join(VIEWS)}")
    return fig


# --- attention -------------------------------------------------------------------------------------------


@_styled
def draw_simplex(weights, ax: Axes, title: str = "", labels: Sequence[str] = ("1", "2", "3")) -> Axes:
    """Points of the simplex of three weights, as a triangle; blue inside, orange on an edge, red at a corner.

    Parameters
    ----------
    weights : [N, 3], rows that sum to 1
    labels : names of the three corners: lower left, lower right, top
    """
    weights = _numbers(weights, "weights")
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
    ax.plot(*corners[[0, 1, 2, 0]].T, color=GREY, linewidth=1.2, zorder=1)
    zeros = (weights == 0).sum(1)
    for number, colour, size in ((0, BLUE, 5), (1, ORANGE, 9), (2, RED, 60)):
        ax.scatter(*(weights[zeros == number] @ corners).T, s=size, color=colour, linewidths=0, zorder=2 + number)
    for corner, label, shift in zip(corners, labels, ((-0.06, -0.05), (0.06, -0.05), (0, 0.04)), strict=True):
        ax.text(*(corner + shift), label, ha="center", va="center", fontsize=13)
    ax.set(aspect="equal", xlim=(-0.12, 1.12), ylim=(-0.12, 0.98))
    ax.set_axis_off()
    if title:
        ax.set_title(title, loc="center")
    return ax


@_styled
def draw_attention(
    weights,
    rows: Sequence[str],
    columns: Sequence[str],
    ax: Axes,
    title: str = "",
    top: float = 1.0,
    marked: Sequence[bool] = (),
) -> Axes:
    """Weights as a heat-map: grey where one is exactly 0, no border between neighbours that are exactly equal.

    Source: figures 1, 3 and 4 of Niculae and Blondel 2017.

    Parameters
    ----------
    weights : [R, C], >= 0
    rows, columns : labels; what attends, what is attended to
    top : float, > 0
        The weight that is drawn darkest.
    marked : [C], or empty
        True at columns whose label is bold and orange, such as an answer's.
    """
    weights = _numbers(weights, "weights")
    number, width = weights.shape
    shown = np.ma.masked_where(weights == 0, weights)
    colours = matplotlib.colormaps["Blues"].with_extremes(bad="#D0D0D0")
    ax.pcolormesh(shown, cmap=colours, vmin=0, vmax=top, zorder=1)
    ax.hlines(np.arange(number + 1), 0, width, color="white", linewidth=2.5, zorder=2)
    row, column = np.nonzero(weights[:, 1:] != weights[:, :-1])
    ax.vlines(column + 1, row, row + 1, color="white", linewidth=1.2, zorder=2)
    upright = max(map(len, columns)) <= 3
    turned = {"rotation": 0 if upright else 60, "ha": "center" if upright else "right", "rotation_mode": "anchor"}
    ax.set_xticks(np.arange(width) + 0.5, _plain(columns), **turned)
    for label, mark in zip(ax.get_xticklabels(), marked, strict=False):
        if mark:
            label.set(color=ORANGE, fontweight="bold")
    ax.set_yticks(np.arange(number) + 0.5, _plain(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlim=(0, width), ylim=(number, 0))
    return _dressed(ax, title, "", "")


@_styled
def draw_chosen_row(
    weights, rows: Sequence[str], columns: Sequence[str], chosen: int, fig: Figure, title: str = ""
) -> Figure:
    """`draw_attention` under a slider that goes from row to row: one row is framed, and its label is bold.

    Parameters
    ----------
    weights : [R, C], in [0, 1]
    rows, columns : labels
    chosen : int in [0, R)
    fig : Figure
        Drawn anew, so that one figure is reused.
    """
    across = 0.012 * max(map(len, rows)) + 0.02  # of the figure, for the labels of the rows
    (ax,) = _panels(fig, [("rows", len(rows), *columns)], left=across, right=0.99, bottom=0.28, top=0.9)
    draw_attention(weights, rows, columns, ax, title)
    ax.plot([0, 0, 1, 1, 0], [chosen, chosen + 1, chosen + 1, chosen, chosen], color=RED, linewidth=4, clip_on=False,
            transform=ax.get_yaxis_transform(), zorder=5)  # fmt: skip
    for i, label in enumerate(ax.get_yticklabels()):
        label.set(color=DARK_RED if i == chosen else BLACK, fontweight="bold" if i == chosen else "normal")
    return fig


@_styled
def draw_mappings(scores, weights: Mapping[str, Sequence], fig: Figure) -> Figure:
    """The same scores through several mappings, a panel each; red crosses: weights of exactly 0.

    Parameters
    ----------
    scores : [T]
    weights : name -> [T] weights
    fig : Figure
        Drawn anew, so that one figure is reused.
    """
    scores = _numbers(scores, "scores")
    at = np.arange(1, 1 + len(scores))
    margins = {"left": 0.045, "right": 0.995, "bottom": 0.2, "top": 0.86, "wspace": 0.16}
    panels = _panels(fig, [len(scores), *weights], **margins)
    panels[0].bar(at, scores, color=GREY)
    panels[0].axhline(0, color=BLACK, linewidth=0.8)
    _dressed(panels[0], "scores", "position", "")
    for ax, (name, values) in zip(panels[1:], weights.items(), strict=True):
        values = _numbers(values, name)
        ax.bar(at, values, color=BLUE)
        ax.plot(at[values == 0], np.zeros((values == 0).sum()), "x", color=RED, clip_on=False)
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.5, 1], ["0", ".5", "1"] if ax is panels[1] else [])
        _dressed(ax, name, "position", "")
    for ax in panels:
        ax.set_title(ax.get_title("left"), fontsize=13)  # the longest name must fit
        ax.set_xticks(at)
    return fig


@_styled
def draw_states(
    points: Mapping[str, Sequence], ax: Axes, title: str = "", xlabel: str = "unit 1", ylabel: str = "unit 2"
) -> Axes:
    """States of two units as points, a colour and a marker a kind; kind -> [N, 2].

    Source: figure 12 of De Cao et al. 2020.
    """
    for i, (kind, some) in enumerate(points.items()):
        some = _numbers(some, kind).reshape(-1, 2)
        look = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)], "markersize": 7}
        ax.plot(*some.T, linestyle="none", label=kind, alpha=0.6, **look)
    ax.legend()
    return _dressed(ax, title, xlabel, ylabel)


# --- lines and bars --------------------------------------------------------------------------------------


@_styled
def draw_lines(
    x,
    lines: Mapping[str, Sequence],
    ax: Axes,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    target: float | None = None,
    markers: bool = False,
    xscale: str = "linear",
    yscale: str = "linear",
) -> Axes:
    """Lines over a shared x, told apart by colour, dash and (if asked) marker.

    Parameters
    ----------
    x : [N]
    lines : label -> [N]
        Lines whose labels agree before ", " ("signed, expected" and "signed, selected") share a colour.
    target : float or None
        A dotted level.
    markers : bool
    xscale, yscale : "linear" or "log"
    """
    x = _numbers(x, "x")
    bases = [label.partition(", ")[0] for label in lines]
    shared = len(set(bases)) < len(bases)
    for i, (label, y) in enumerate(lines.items()):
        colour, dash = (list(dict.fromkeys(bases)).index(bases[i]), bases[:i].count(bases[i])) if shared else (i, i)
        ax.plot(
            x,
            _numbers(y, label),
            color=PALETTE[colour % len(PALETTE)],
            linestyle=DASHES[dash % len(DASHES)],
            marker=MARKERS[i % len(MARKERS)] if markers else None,
            label=label,
        )
    _draw_target(ax, target)
    ax.set(xscale=xscale, yscale=yscale)
    for axis, scale in ((ax.xaxis, xscale), (ax.yaxis, yscale)):
        if scale == "log":
            _few_ticks(axis)
    if any(lines):
        ax.legend()
    return _dressed(ax, title, xlabel, ylabel)


def _few_ticks(axis) -> None:
    """A log axis is labelled at powers of ten; where it spans fewer than two of them, at 1, 2 and 5."""
    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_target(ax: Axes, target: float | None) -> None:
    if target is not None:
        ax.axhline(target, color=BLACK, linestyle=":", linewidth=1.8, label=f"target {target:g}", zorder=1)


@_styled
def draw_bars(
    labels: Sequence[str],
    groups: Mapping[str, Sequence],
    ax: Axes,
    title: str = "",
    ylabel: str = "",
    errors: Mapping[str, Sequence] | None = None,
    fmt: str = "{:.3g}",
) -> Axes:
    """Bars side by side: one cluster a label, one colour a group, each with its value on top.

    Parameters
    ----------
    labels : [N]
    groups : name -> [N] values
    errors : name -> [N] half-lengths of error bars
    fmt : str
        How a value is written; "" writes none.
    """
    width = 0.8 / max(1, len(groups))
    for i, (name, values) in enumerate(groups.items()):
        at = np.arange(len(labels)) + (i - (len(groups) - 1) / 2) * width
        half = _numbers(errors[name], f"errors of {name}") if errors and name in errors else None
        bars = ax.bar(
            at,
            _numbers(values, name),
            0.92 * width,
            color=PALETTE[i % len(PALETTE)],
            label=name,
            yerr=half,
            capsize=4,
            ecolor=GREY,
        )
        if fmt:
            ax.bar_label(bars, fmt=fmt, padding=2, fontsize=11)
    ax.set_xticks(np.arange(len(labels)), labels)
    ax.margins(y=0.25 if len(groups) > 1 else 0.12)
    if len(groups) > 1:
        ax.legend(loc="upper center", ncols=len(groups))
    return _dressed(ax, title, "", ylabel)


@_styled
def draw_answers(names: Sequence[str], answers: Mapping[str, Sequence[float]], fig: Figure, title: str = "") -> Figure:
    """What a model answers to several readings of one text: probabilities of classes, or scores.

    Parameters
    ----------
    names : [C] classes, or what is scored
    answers : reading -> [C], in [0, 1]
    fig : Figure
        Drawn anew, so that one figure is reused.
    """
    (ax,) = _panels(fig, [("answers", *names, *answers)], left=0.07, right=0.99, bottom=0.16, top=0.9)
    draw_bars([name.replace(" ", "\n") for name in names], answers, ax, title, "answer", fmt="{:.2f}")
    ax.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, 1.25), yticks=[0, 0.5, 1])
    return fig


@_styled
def draw_word_sentiment(
    all_counts: Sequence[int], counts: Mapping[str, Sequence[int]], ax: Axes, title: str = ""
) -> Axes:
    """Selected words by the sentiment of the word, log scale, with the share kept on top of each bar.

    Source: Bastings et al. 2019, Fig. 5 (SST dev, all words: 146, 992, 18231, 1511, 394).

    Parameters
    ----------
    all_counts : [5] counts
        All words of the corpus, very negative to very positive.
    counts : model -> [5] counts
        Words selected, each at most the corresponding entry of `all_counts`.
    """
    total = _numbers(all_counts, "all_counts")
    width = 0.84 / (1 + len(counts))
    for i, (name, row) in enumerate({"all words": total, **counts}.items()):
        row = _numbers(row, name)
        at = np.arange(len(total)) + (i - len(counts) / 2) * width
        bars = ax.bar(at, row, 0.94 * width, color=(GREY, *PALETTE)[i % 8], label=name)
        kept = [f"{100 * part:.0f} %" for part in row / np.maximum(total, 1)]
        ax.bar_label(bars, [f"{n:.0f}" for n in row] if i == 0 else kept, padding=2, fontsize=10)
    ax.set_yscale("log")
    ax.set_ylim(1, 4 * max(total.max(), 1))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(np.arange(len(total)), [name.replace(" ", "\n") for name in SENTIMENTS])
    ax.legend(ncols=1 + len(counts), loc="upper center")
    return _dressed(ax, title, "", "words (log scale)")


@_styled
def draw_confusion(matrix, labels: Sequence[str], ax: Axes, title: str = "") -> Axes:
    """Confusion matrix: colour is the share of the row (of each gold class), the number in a cell the count.

    Parameters
    ----------
    matrix : [C, C] counts, rows gold, columns predicted
    labels : [C] class names
    """
    counts = _numbers(matrix, "matrix")
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(*counts.shape):
        ax.text(
            j,
            i,
            f"{counts[i, j]:.0f}\n{100 * share[i, j]:.0f} %",
            ha="center",
            va="center",
            fontsize=10,
            color="white" if share[i, j] > 0.55 else BLACK,
        )
    wrapped = [str(label).replace(" ", "\n") for label in labels]
    ax.set_xticks(range(len(labels)), wrapped, fontsize=10)
    ax.set_yticks(range(len(labels)), wrapped, fontsize=10)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return _dressed(ax, title, "predicted", "gold")


@_styled
def draw_history(history: Mapping, target: float | None, ax: Axes, title: str = "", score: str = "accuracy") -> Axes:
    """Rates and score of a run, an epoch a point, on one per-cent axis, with the target rate dotted.

    A squared error ("mse" in its name) is no share: it has an axis of its own, on the right, where there are rates.
    Cells without a number (an epoch that was not evaluated) are left out: markers show what was measured.

    Parameters
    ----------
    history : DataFrame or column -> values
        Drawn: the columns with "rate" in their names (not the learning rate) and those with `score`: shares in
        [0, 1], or errors >= 0. The x axis is the column `epoch`, else the row number from 1.
    target : share in [0, 1] or None
    """
    names = [str(name) for name in history]
    rates = [name for name in names if "rate" in name and "learning" not in name]
    scores = [name for name in names if score in name and name not in rates]
    error = "mse" in score
    right = ax.twinx() if error and rates else ax
    epoch = history["epoch"] if "epoch" in names else np.arange(1, 1 + len(history[names[0]]))
    epoch = np.asarray(epoch, dtype=float)
    for i, name in enumerate(scores + rates):
        values = np.asarray(history[name], dtype=float)
        known = np.isfinite(values)
        if known.any():
            (right if name in scores else ax).plot(
                epoch[known],
                values[known],
                "-" if name in scores else "--",
                marker=MARKERS[i % len(MARKERS)],
                color=PALETTE[i % len(PALETTE)],
                label=name.replace("_", " "),
            )
    if target is not None:
        ax.axhline(target, color=BLACK, linestyle=":", label=f"target rate {100 * target:g} %")
    if rates or not error:
        ax.set_ylim(0, 1.02)
        _percent(ax.yaxis)
    if error:
        tops = [line.get_ydata().max() for line in right.lines if len(line.get_ydata())]
        right.set_ylim(0, 1.3 * max(tops, default=1) or 1)  # room for the legend
        right.set_ylabel("mean squared error")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if right is ax:
        ax.legend(fontsize=11)
        shares = "share of words, of sentences" if "accuracy" in score else "share of words"
        return _dressed(ax, title, "epoch", "mean squared error" if error else shares)
    right.spines["right"].set_visible(True)
    handles = [*right.get_legend_handles_labels()[0], *ax.get_legend_handles_labels()[0]]
    right.legend(handles=handles, fontsize=11)
    return _dressed(ax, title, "epoch", "share of words")


@_styled
def draw_dual(trace: Mapping, target: float | None, ax: Axes, title: str = "") -> Axes:
    """Dynamics of the constraint: rates on the left axis, the multiplier (dashed) on the right one.

    Parameters
    ----------
    trace : DataFrame or column -> values, a training step or an epoch a row
        `multiplier`; and what is there of `rate`, `rate_expected`, `rate_selected`, `gap`, `gap_average`. The
        x axis is the column `epoch` or `step`, else the row number from 1, taken for steps.
    target : share in [0, 1] or None
        Target rate, dotted.
    """
    names = [str(name) for name in trace]
    when = next((name for name in ("epoch", "step") if name in names), None)
    step = _numbers(trace[when] if when else np.arange(1, 1 + len(trace["multiplier"])), "step")
    colours = {
        "rate": BLUE,
        "rate_expected": SKY,
        "rate_selected": GREEN,
        "gap": PURPLE,
        "gap_average": BLACK,
    }
    marker = "o" if len(step) < 3 else None  # a line of one point is none
    for name in (name for name in colours if name in names):
        ax.plot(step, _numbers(trace[name], name), marker=marker, color=colours[name], label=name.replace("_", " "))
    if target is not None:
        ax.axhline(target, color=BLACK, linestyle=":", label=f"target rate {100 * target:g} %")
    _percent(ax.yaxis)
    right = ax.twinx()
    right.plot(step, _numbers(trace["multiplier"], "multiplier"), "--", marker=marker, color=RED, label="multiplier")
    right.set_ylabel("multiplier (loss per unit of gap)", color=DARK_RED)
    right.tick_params(axis="y", colors=DARK_RED)
    right.spines["right"].set(color=DARK_RED, visible=True)
    handles = [*ax.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    right.legend(handles=handles, fontsize=11)
    return _dressed(ax, title, "epoch" if when == "epoch" else "training step", "rate, gap (share of words)")


@_styled
def draw_rate_histogram(rates, ax: Axes, title: str = "", target: float | None = None) -> Axes:
    """How the selection rate spreads over sentences.

    Parameters
    ----------
    rates : [N], shares in [0, 1], one a sentence
    target : share in [0, 1] or None
    """
    rates = _numbers(rates, "rates").ravel()
    ax.hist(rates, bins=np.linspace(0, 1, 21), color=SKY, edgecolor="white")
    ax.axvline(rates.mean(), color=BLUE, label=f"mean {100 * rates.mean():.1f} %")
    if target is not None:
        ax.axvline(target, color=BLACK, linestyle=":", label=f"target {100 * target:g} %")
    _percent(ax.xaxis)
    ax.set_xlim(0, 1)
    ax.legend()
    return _dressed(ax, title, "selected words of a sentence", "sentences")


@_styled
def draw_score_against_rate(
    points: Mapping[str, Iterable[Sequence[float]]],
    ax: Axes,
    band: tuple[float, float] | None = None,
    title: str = "",
    ylabel: str = "accuracy",
    percent: bool = True,
) -> Axes:
    """Task score against the share of text kept, one marker a model, whiskers of one standard deviation.

    A model of `DRAWN` looks the same in every figure; where two variants of one model meet ("hardkuma" and "hardkuma,
    independent"), the second is hollow and dashed.

    Source: Bastings et al. 2019, Figs. 3 and 4.

    Parameters
    ----------
    points : model -> [(rate, score) or (rate, score, std), ...]
        Rates in [0, 1]; std over seeds.
    band : (mean, two_sigma)
        Full-text score: a star at 100 % and a band across.
    percent : bool
        Scores are shares in [0, 1] and drawn in per cent; False for a squared error.
    """
    bases = {model: model.partition(", ")[0].lower() for model in points}
    looks = {base: DRAWN.index(base) for base in bases.values() if base in DRAWN}
    plain = {"marker": "", "color": GREY, "linestyle": ":", "linewidth": 2.5}  # of what is no model
    free = iter(sorted(set(range(len(points) + len(DRAWN))) - set(looks.values())))
    drawn: set[str] = set()
    for model, rows in points.items():
        table = _numbers(sorted([*row, 0.0][:3] for row in map(list, rows)), model).reshape(-1, 3)
        base, second = bases[model], bases[model] in drawn
        drawn.add(base)
        if base not in looks:
            looks[base] = next(free)
        look = looks[base]
        models = {
            "marker": MARKERS[look % len(MARKERS)],
            "color": PALETTE[look % len(PALETTE)],
            "linestyle": "--" if second else "-",
            "linewidth": 1.4,
            "markerfacecolor": "white" if second else None,
        }
        errors = table[:, 2] if table[:, 2].any() else None
        ax.errorbar(*table.T[:2], yerr=errors, capsize=4, label=model, **(plain if base in CHANCE else models))
    if band is not None:
        mean, spread = band
        ax.axhspan(mean - spread, mean + spread, color=GREY, alpha=0.2, linewidth=0)
        label = "full text (± 2σ)" if spread else "full text"
        ax.plot([1], [mean], "*", color=BLACK, markersize=14, clip_on=False, label=label, zorder=5)
    ax.set_xlim(0, 1.02)
    _percent(ax.xaxis)
    if percent:
        _percent(ax.yaxis)
    if ax.get_ylim()[0] < 0 <= min((row[1] for rows in points.values() for row in map(list, rows)), default=0):
        ax.set_ylim(bottom=0)  # a whisker may end below what can be
    ax.legend()
    return _dressed(ax, title, "selected text (share of words)", ylabel)


# --- highlighted text ------------------------------------------------------------------------------------


class Html(str):
    """A piece of HTML that is a plain string to Python and shows itself in a notebook."""

    def _repr_html_(self) -> str:
        return str(self)


def show_table(table, digits: int = 3) -> Html:
    """A DataFrame as a narrow table: what is the same in all rows stands above it once, what is missing is blank.

    Columns without any value are left out, whole numbers have no decimals, and words of a column's name may break.

    Parameters
    ----------
    table : pandas.DataFrame
        Its index is not shown: reset it where it says something.
    digits : int
        Decimals of numbers that are not whole.
    """
    table = table.dropna(axis=1, how="all") if len(table) else table
    same = [name for name in table if len(table) > 2 and table[name].nunique(dropna=False) == 1]
    known = {name: [value for value in table[name] if value is not None and value == value] for name in table}
    decimals = {  # of the columns of numbers
        name: 0 if all(float(value).is_integer() for value in values) else digits
        for name, values in known.items()
        if all(isinstance(value, Real) for value in values)
    }

    def text(value, name: str) -> str:
        if value is None or value != value:
            return ""
        return f"{value:z.{decimals[name]}f}" if name in decimals else html.escape(str(value))

    shown = {name: [text(value, name) for value in table[name]] for name in table}
    above = "; ".join(f"{name} {shown[name][0]}" for name in same if shown[name][0])
    look = {name: "" if name in decimals else " style='text-align: left; vertical-align: top'" for name in table}
    left = [name for name in table if name not in same]
    heads = "".join(f"<th{look[name]}>{html.escape(str(name)).replace('_', ' ')}</th>" for name in left)
    cells = zip(*([f"<td{look[name]}>{cell}</td>" for cell in shown[name]] for name in left), strict=True)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    caption = f"<caption style='text-align: left; caption-side: top'>In all rows: {above}</caption>" if above else ""
    return Html(f"<table class='dataframe'>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")


def _gates(tokens: Sequence[str], z, gold) -> list[tuple[str, float, bool]]:
    """(token, value, in gold) for each token.

    Raises
    ------
    ValueError
        If the lengths differ or a value lies outside [0, 1].
    """
    values = _numbers(z, "z").ravel()
    marks = [False] * len(tokens) if gold is None else [bool(mark) for mark in gold]
    if not len(tokens) == len(values) == len(marks):
        lengths = f"{len(tokens)}, {len(values)} and {len(marks)}"
        raise ValueError(f"tokens, z, gold: got lengths {lengths}, equal lengths are accepted")
    if not ((0 <= values) & (values <= 1)).all():
        raise ValueError(f"z: got values from {values.min():g} to {values.max():g}, [0, 1] is accepted")
    return list(zip(tokens, values.tolist(), marks, strict=True))


def highlight_html(tokens: Sequence[str], z, gold: Sequence[bool] | None = None, title: str = "") -> Html:
    """Text with its rationale marked, as HTML that shows itself in a notebook.

    A selected token (z > 0) is bold on orange, the stronger the larger z; an exact zero is faint; a token of
    the gold rationale is underlined. Readable without colour, on light and on dark pages.

    Parameters
    ----------
    tokens : [T] str
        Any text; it is escaped.
    z : [T], in [0, 1]
        Gate values at test time.
    gold : [T] bool or None
        The annotated rationale.
    title : str
        A line above.
    """
    words = []
    for token, value, mark in _gates(tokens, z, gold):
        word = html.escape(str(token))
        word = f"<u>{word}</u>" if mark else word
        if value > 0:
            look = f"background:rgba(230,159,0,{0.2 + 0.45 * value:.2f});color:inherit;padding:0 .15em"
            words.append(f'<mark style="{look}" title="z = {value:.2f}"><b>{word}</b></mark>')
        else:
            words.append(f'<span style="opacity:.6">{word}</span>')
    heading = f"<div><b>{html.escape(title)}</b></div>" if title else ""
    return Html(f'<div style="line-height:1.7;max-width:60em">{heading}{" ".join(words)}</div>')


def highlight_ansi(
    tokens: Sequence[str],
    z,
    gold: Sequence[bool] | None = None,
    width: int = 100,
    color: bool | None = None,
) -> str:
    """Text with its rationale marked, for a terminal, broken into lines of at most `width` columns.

    In colour: selected tokens are bold on orange (z >= 1/2) or on pale yellow, exact zeros faint, gold tokens
    underlined. Without: selected stretches in [brackets], each gold token between _underscores_.

    Parameters
    ----------
    tokens : [T] str
        Control characters (which could steer the terminal) are shown as "?".
    z : [T], in [0, 1]
    gold : [T] bool or None
    width : int, >= 1
        A longer token stands alone on its line.
    color : bool or None
        None: in colour unless the environment variable NO_COLOR is set to something. Whether the output is a
        terminal is for the caller to say.
    """
    color = not os.environ.get("NO_COLOR") if color is None else color
    gates = _gates(tokens, z, gold)
    pieces = []  # (shown, as typed to the terminal) of each token
    for i, (token, value, mark) in enumerate(gates):
        word = "".join(c if c.isprintable() else "?" for c in str(token))
        if color:
            look = "2" if value == 0 else "1;30;48;5;214" if value >= 0.5 else "1;30;48;5;229"
            pieces.append((word, f"\x1b[{look}{';4' if mark else ''}m{word}\x1b[0m"))
            continue
        word = f"_{word}_" if mark else word
        if value > 0:
            first, last = i == 0 or gates[i - 1][1] == 0, i == len(gates) - 1 or gates[i + 1][1] == 0
            word = "[" * first + word + "]" * last
        pieces.append((word, word))
    lines, used = [[]], 0
    for shown, typed in pieces:
        columns = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)
        if lines[-1] and used + 1 + columns > width:
            lines.append([])
            used = 0
        used += columns + bool(lines[-1])
        lines[-1].append(typed)
    return "\n".join(" ".join(line) for line in lines)


def highlight_svg(texts: Iterable[tuple[str, Sequence[str], Sequence[float], Sequence[bool] | None]]) -> str:
    """Texts with their rationales marked, one below the other, as an SVG picture in a monospaced font.

    Selected tokens are bold on orange (paler for a small z), exact zeros grey, gold tokens underlined.

    Parameters
    ----------
    texts : (title, tokens, z, gold or None) of each text
        z in [0, 1]. Lines break after 84 characters.
    """
    columns, line, char, margin = 84, 25, 9.0, 18  # characters; the rest in pixels
    shapes, y = [], margin
    for title, tokens, z, gold in texts:
        y += line
        shapes.append(f'<text x="{margin}" y="{y}" font-weight="bold">{html.escape(title)}</text>')
        column, y = 0, y + line
        for token, value, mark in _gates(tokens, z, gold):
            if column and column + len(token) > columns:
                column, y = 0, y + line
            x, width = margin + char * column, char * len(token)
            if value > 0:
                box = f'x="{x - 3:g}" y="{y - 17}" width="{width + 6:g}" height="23" rx="4" fill="{ORANGE}"'
                shapes.append(f'<rect {box} fill-opacity="{0.25 + 0.5 * value:.2f}"/>')
            look = 'font-weight="bold" fill="black"' if value > 0 else f'fill="{GREY}"'
            look += ' text-decoration="underline"' if mark else ""
            shapes.append(f'<text x="{x:g}" y="{y}" textLength="{width:g}" {look}>{html.escape(token)}</text>')
            column += len(token) + 1
        y += line // 2
    size = f'viewBox="0 0 {2 * margin + char * columns:g} {y + margin}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="15">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>\n"])
