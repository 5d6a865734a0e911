"""Figures of attention mappings and of hidden states."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rationale.figures.look import (
    BLACK,
    BLUE,
    DARK_RED,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    RED,
    checked_numbers,
    in_style,
    labelled,
    side_by_side,
    without_formulas,
)


@in_style
def draw_simplex(weights, ax: Axes, title: str = "", labels: Sequence[str] = ("1", "2", "3")) -> Axes:
    """Points of the simplex of three weights, as a triangle; blue inside, orange on an edge, red at a corner.

    Parameters
    ----------
    weights : [N, 3], rows that sum to 1
    labels : names of the three corners: lower left, lower right, top
    """
    weights = checked_numbers(weights, "weights")
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


@in_style
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
    weights = checked_numbers(weights, "weights")
    number, width = weights.shape
    shown = np.ma.masked_where(weights == 0, weights)
    colours = matplotlib.colormaps["Blues"].with_extremes(bad="#D0D0D0")
    ax.pcolormesh(shown, cmap=colours, vmin=0, vmax=top, zorder=1)
    ax.hlines(np.arange(number + 1), 0, width, color="white", linewidth=2.5, zorder=2)
    row, column = np.nonzero(weights[:, 1:] != weights[:, :-1])
    ax.vlines(column + 1, row, row + 1, color="white", linewidth=1.2, zorder=2)
    upright = max(map(len, columns)) <= 3
    turned = {"rotation": 0 if upright else 60, "ha": "center" if upright else "right", "rotation_mode": "anchor"}
    ax.set_xticks(np.arange(width) + 0.5, without_formulas(columns), **turned)
    for label, mark in zip(ax.get_xticklabels(), marked, strict=False):
        if mark:
            label.set(color=ORANGE, fontweight="bold")
    ax.set_yticks(np.arange(number) + 0.5, without_formulas(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlim=(0, width), ylim=(number, 0))
    return labelled(ax, title, "", "")


@in_style
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
    (ax,) = side_by_side(fig, [("rows", len(rows), *columns)], left=across, right=0.99, bottom=0.28, top=0.9)
    draw_attention(weights, rows, columns, ax, title)
    ax.plot([0, 0, 1, 1, 0], [chosen, chosen + 1, chosen + 1, chosen, chosen], color=RED, linewidth=4, clip_on=False,
            transform=ax.get_yaxis_transform(), zorder=5)  # fmt: skip
    for i, label in enumerate(ax.get_yticklabels()):
        label.set(color=DARK_RED if i == chosen else BLACK, fontweight="bold" if i == chosen else "normal")
    return fig


@in_style
def draw_mappings(scores, weights: Mapping[str, Sequence], fig: Figure) -> Figure:
    """The same scores through several mappings, a panel each; red crosses: weights of exactly 0.

    Parameters
    ----------
    scores : [T]
    weights : name -> [T] weights
    fig : Figure
        Drawn anew, so that one figure is reused.
    """
    scores = checked_numbers(scores, "scores")
    at = np.arange(1, 1 + len(scores))
    margins = {"left": 0.045, "right": 0.995, "bottom": 0.2, "top": 0.86, "wspace": 0.16}
    panels = side_by_side(fig, [len(scores), *weights], **margins)
    panels[0].bar(at, scores, color=GREY)
    panels[0].axhline(0, color=BLACK, linewidth=0.8)
    labelled(panels[0], "scores", "position", "")
    for ax, (name, values) in zip(panels[1:], weights.items(), strict=True):
        values = checked_numbers(values, name)
        ax.bar(at, values, color=BLUE)
        ax.plot(at[values == 0], np.zeros((values == 0).sum()), "x", color=RED, clip_on=False)
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.5, 1], ["0", ".5", "1"] if ax is panels[1] else [])
        labelled(ax, name, "position", "")
    for ax in panels:
        ax.set_title(ax.get_title("left"), fontsize=13)  # the longest name must fit
        ax.set_xticks(at)
    return fig


@in_style
def draw_states(
    points: Mapping[str, Sequence], ax: Axes, title: str = "", xlabel: str = "unit 1", ylabel: str = "unit 2"
) -> Axes:
    """States of two units as points, a colour and a marker a kind; kind -> [N, 2].

    Source: figure 12 of De Cao et al. 2020.
    """
    for i, (kind, some) in enumerate(points.items()):
        some = checked_numbers(some, kind).reshape(-1, 2)
        look = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)], "markersize": 7}
        ax.plot(*some.T, linestyle="none", label=kind, alpha=0.6, **look)
    ax.legend()
    return labelled(ax, title, xlabel, ylabel)
