"""Figures of attention weights, of the mappings that give them, and of hidden states."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rationale.excerpts import shortened
from rationale.figures.look import (
    BLACK,
    BLUE,
    DARK_RED,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    RED,
    apply_style,
    check_numbers,
    escape_dollars,
    reuse_panels,
    set_labels,
)
from rationale.figures.words import token_in_words

LONGEST_LABEL = 36  # letters of a row's label; more would leave its cells too little room, or none
LONGEST_WORD, MOST_WORDS = 13, 60  # letters and labels of columns for which a row that a slider chooses has room


@apply_style
def draw_simplex(weights, ax: Axes, title: str = "", labels: Sequence[str] = ("1", "2", "3")) -> Axes:
    """Points of the simplex of three weights as a triangle; blue inside, orange on an edge, red at a corner.

    Parameters
    ----------
    weights : [N, 3], rows that sum to 1
    labels : [3]
        Names of the lower left, the lower right and the top corner.
    """
    weights = check_numbers(weights, "weights")
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


@apply_style
def draw_attention(
    weights,
    rows: Sequence[str],
    columns: Sequence[str],
    ax: Axes,
    title: str = "",
    top: float = 1.0,
    marked: Sequence[bool] = (),
    scale: str = "",
) -> Axes:
    """Weights as a heat map. Exact zeros are grey, and there is no border between exactly equal neighbours.

    Source: figures 1, 3 and 4 of Niculae and Blondel 2017.

    Parameters
    ----------
    weights : [R, C], >= 0
    rows, columns : [R] and [C] labels
        Each row attends to the columns. The token that stands for no word is written in words. A column whose label is
        empty has no tick.
    top : float, > 0
        The weight that is drawn in the darkest colour.
    marked : [C], or empty
        True for a column whose label is to be bold and orange, such as a word of the answer.
    scale : str
        What the colours mean, written at a colour bar; without it there is none.
    """
    weights = check_numbers(weights, "weights")
    rows, columns = (list(map(token_in_words, labels)) for labels in (rows, columns))
    num_rows, num_columns = weights.shape
    nonzero = np.ma.masked_where(weights == 0, weights)
    colours = matplotlib.colormaps["Blues"].with_extremes(bad="#D0D0D0")
    mesh = ax.pcolormesh(nonzero, cmap=colours, vmin=0, vmax=top, zorder=1, rasterized=True)  # without hairlines
    if scale:
        ax.figure.colorbar(mesh, ax=ax, label=scale, shrink=0.85)
    ax.hlines(np.arange(num_rows + 1), 0, num_columns, color="white", linewidth=2.5, zorder=2)
    row, column = np.nonzero(weights[:, 1:] != weights[:, :-1])
    width = 1.2 * min(1, MOST_WORDS / max(1, num_columns))  # in a long text, wider lines would cover the cells
    ax.vlines(column + 1, row, row + 1, color="white", linewidth=width, zorder=2)
    short = max(map(len, columns)) <= 3
    rotation = {"rotation": 0 if short else 60, "ha": "center" if short else "right", "rotation_mode": "anchor"}
    places = [i for i, label in enumerate(columns) if label]  # a tick without a label takes as long as one with a label
    ax.set_xticks(np.array(places) + 0.5, escape_dollars([columns[i] for i in places]), **rotation)
    for i, label in zip(places, ax.get_xticklabels(), strict=True):
        if i < len(marked) and marked[i]:
            label.set(color=ORANGE, fontweight="bold")
    ax.set_yticks(np.arange(num_rows) + 0.5, escape_dollars(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlim=(0, num_columns), ylim=(num_rows, 0))
    return set_labels(ax, title, "", "")


@apply_style
def draw_jacobians(jacobians: Mapping[str, Sequence], axes: np.ndarray, xlabel: str, ylabel: str) -> np.ndarray:
    """Jacobians as heat maps with their signs, one panel each: blue is positive, red is negative, grey is exactly 0.

    All panels share one scale, from minus to plus the largest absolute entry, and one colour bar.

    Parameters
    ----------
    jacobians : title -> [N, M]
        Row n holds the derivatives of output n, column m those by input m.
    axes : array of Axes, one for each Jacobian
    xlabel, ylabel : str
        What a column and what a row is. They are numbered from 1.
    """
    matrices = {title: check_numbers(jacobian, title) for title, jacobian in jacobians.items()}
    top = max(np.abs(matrix).max() for matrix in matrices.values())
    colours = matplotlib.colormaps["RdBu"].with_extremes(bad="#B8B8B8")
    for ax, (title, matrix) in zip(axes.flat, matrices.items(), strict=True):
        mesh = ax.pcolormesh(
            np.ma.masked_where(matrix == 0, matrix), cmap=colours, vmin=-top, vmax=top, edgecolor="white", linewidth=1
        )
        for axis, number in ((ax.yaxis, matrix.shape[0]), (ax.xaxis, matrix.shape[1])):
            axis.set_ticks(np.arange(number) + 0.5, [str(i + 1) for i in range(number)])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.invert_yaxis()
        set_labels(ax, title, xlabel, ylabel)
    axes.flat[0].figure.colorbar(mesh, ax=axes, label=f"derivative of the {ylabel} by the {xlabel}", shrink=0.6)
    return axes


@apply_style
def draw_chosen_row(
    weights, rows: Sequence[str], columns: Sequence[str], chosen: int, fig: Figure, title: str = ""
) -> Figure:
    """`draw_attention` with one row framed and its label bold, for a slider that chooses the row.

    Exact zeros are grey.

    Parameters
    ----------
    weights : [R, C], in [0, 1]
    rows, columns : [R] and [C] labels
        The label of a row is cut after `LONGEST_LABEL` letters, that of a column after `LONGEST_WORD`. If there are
        more than `MOST_WORDS` columns, every second, third or nth has a label.
    chosen : int in [0, R)
        Index of the framed row.
    fig : Figure
        The figure to redraw.
    """
    rows = [shortened(row, LONGEST_LABEL) for row in rows]
    every = -(-len(columns) // MOST_WORDS) or 1
    columns = ["" if i % every else shortened(token_in_words(word), LONGEST_WORD) for i, word in enumerate(columns)]
    left = 0.012 * max(map(len, rows)) + 0.02  # room for the labels of the rows, as a share of the figure
    (ax,) = reuse_panels(fig, [("rows", len(rows), *columns)], left=left, right=0.99, bottom=0.28, top=0.9)
    draw_attention(weights, rows, columns, ax, title)
    ax.plot([0, 0, 1, 1, 0], [chosen, chosen + 1, chosen + 1, chosen, chosen], color=RED, linewidth=4, clip_on=False,
            transform=ax.get_yaxis_transform(), zorder=5)  # fmt: skip
    for i, label in enumerate(ax.get_yticklabels()):
        label.set(color=DARK_RED if i == chosen else BLACK, fontweight="bold" if i == chosen else "normal")
    return fig


@apply_style
def draw_mappings(scores, weights: Mapping[str, Sequence], fig: Figure) -> Figure:
    """The weights that several mappings give the same scores, one panel per mapping; red crosses mark exact zeros.

    Parameters
    ----------
    scores : [T]
    weights : mapping -> [T], in [0, 1]
    fig : Figure
        The figure to redraw.
    """
    scores = check_numbers(scores, "scores")
    positions = np.arange(1, 1 + len(scores))
    margins = {"left": 0.045, "right": 0.995, "bottom": 0.2, "top": 0.86, "wspace": 0.16}
    panels = reuse_panels(fig, [len(scores), *weights], **margins)
    panels[0].bar(positions, scores, color=GREY)
    panels[0].axhline(0, color=BLACK, linewidth=0.8)
    set_labels(panels[0], "scores", "position", "")
    for ax, (name, values) in zip(panels[1:], weights.items(), strict=True):
        values = check_numbers(values, name)
        ax.bar(positions, values, color=BLUE)
        if (values == 0).any():  # a line without points would have its place in the corner of the figure
            ax.plot(positions[values == 0], np.zeros((values == 0).sum()), "x", color=RED, clip_on=False)
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.5, 1], ["0", ".5", "1"] if ax is panels[1] else [])
        set_labels(ax, name, "position", "")
    for ax in panels:
        ax.set_title(ax.get_title("left"), fontsize=13)  # so that the longest name fits
        ax.set_xticks(positions)
    return fig


@apply_style
def draw_states(
    points: Mapping[str, Sequence], ax: Axes, title: str = "", xlabel: str = "unit 1", ylabel: str = "unit 2"
) -> Axes:
    """Hidden states of two units as points, with one colour and one marker per group of states.

    Source: figure 12 of De Cao et al. 2020.

    Parameters
    ----------
    points : group -> [N, 2]
    """
    for i, (group, states) in enumerate(points.items()):
        states = check_numbers(states, group).reshape(-1, 2)
        marker = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)], "markersize": 7}
        ax.plot(*states.T, linestyle="none", label=group, alpha=0.6, **marker)
    ax.legend()
    return set_labels(ax, title, xlabel, ylabel)
