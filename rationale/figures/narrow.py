"""A figure arranged for a phone: panels and legends one below the other, long titles and labels broken into lines.

A page shows a wide picture on a phone at a third of its size, and nobody can read its letters. So a figure that a
notebook displays is drawn a second time with this arrangement, and a page chooses one of the two by its width.
"""

import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

WIDTH = 4.4  # inches, of which a phone of 390 pixels shows about 80 pixels per inch
SMALLEST = 8.5  # points; at that width, 9 pixels of a phone are 8.1 points
LARGEST_TITLE = 12.0  # points
LEGEND_COLUMNS = 32  # letters of 11 points that have room right of the mark of a line, below a panel
MANY = 6  # labels; if more overlap, they stand upright
BOLD = 0.66 / 72  # width of a bold letter in inches per point
REGULAR = 0.58 / 72  # and of another letter
BESIDE_AXES = 1.0  # inches, of which the labels at the left take most


@contextmanager
def narrowed(fig: Figure) -> Iterator[None]:
    """Within the `with` block, the figure is arranged for a narrow page; afterwards, it is as it was.

    Panels are stacked in reading order, and each keeps the height that it had, within limits. Every letter has at least
    `SMALLEST` points.
    """
    with ExitStack() as undo:
        rows = _stack(fig, undo)
        for ax in fig.axes:
            for title in _titles(ax):
                _break_title(title, WIDTH - BESIDE_AXES, undo)
            _break_title(ax.xaxis.label, WIDTH - BESIDE_AXES, undo, REGULAR)
        if fig.get_suptitle():
            _break_title(fig._suptitle, WIDTH - 0.2, undo)
        for text in fig.findobj(Text):
            if text.get_fontsize() < SMALLEST:
                undo.callback(text.set_fontsize, text.get_fontsize())
                text.set_fontsize(SMALLEST)
        legends = _without_legends(fig, undo)
        if rows:
            fig.draw_without_rendering()  # from here on, it is known where everything is
            for ax in fig.axes:
                room = WIDTH - ax.bbox.x0 / fig.dpi - 0.1  # inches; names of rows may take more than `BESIDE_AXES`
                for title in _titles(ax) if room < WIDTH - BESIDE_AXES else ():
                    _break_title(title, room, undo)
                _turn_overlapping_labels(ax, undo)
            for ax, legend in legends.items():
                _legend_below(ax, legend)
        yield


def _stack(fig: Figure, undo: ExitStack) -> int:
    """Arrange the panels in one column and resize the figure; return their number."""
    undo.callback(fig.set_size_inches, *fig.get_size_inches())
    width, height = fig.get_size_inches()
    panels = [ax for ax in fig.axes if ax.get_subplotspec() is not None]  # colour bars have none and follow theirs
    places = {ax: (ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start) for ax in panels}
    order = sorted(set(places.values()))
    if not order:
        fig.set_size_inches(WIDTH, height * WIDTH / width)
        return 0
    if not isinstance(fig.get_layout_engine(), ConstrainedLayoutEngine):  # margins for panels side by side
        undo.callback(fig.set_layout_engine, fig.get_layout_engine() or "none")
        fig.set_layout_engine("constrained")
    rows = panels[0].get_subplotspec().get_gridspec().nrows
    each = min(1.1 * WIDTH, max(0.75 * WIDTH, height / rows))
    names = [text.get_text() for ax in panels if ax.get_legend() for text in ax.get_legend().get_texts()]
    legends = 0.24 * sum(1 + _broken(name).count("\n") for name in names)
    fig.set_size_inches(WIDTH, each * len(order) + legends)
    column = GridSpec(len(order), 1, figure=fig)
    for ax in panels:
        undo.callback(ax.set_subplotspec, ax.get_subplotspec())
        ax.set_subplotspec(column[order.index(places[ax])])
    return len(order)


def _titles(ax: Axes) -> tuple[Text, Text, Text]:
    return ax.title, ax._left_title, ax._right_title


def _break_title(title: Text, width: float, undo: ExitStack, letter: float = BOLD) -> None:
    """Break a title, or the label of an axis, into lines of `width` inches; `letter` is the width of one."""
    if not (text := title.get_text()):
        return
    undo.callback(title.set, text=text, fontsize=title.get_fontsize())
    size = max(SMALLEST, min(LARGEST_TITLE, title.get_fontsize()))
    columns = int(width / (letter * size))
    title.set(text="\n".join(textwrap.wrap(text, columns, break_on_hyphens=False)), fontsize=size)


def _without_legends(fig: Figure, undo: ExitStack) -> dict[Axes, Legend]:
    """Take the legends off their panels; they come back in the end."""
    found = {ax: legend for ax in fig.axes if (legend := ax.get_legend()) is not None}
    for ax, legend in found.items():
        undo.callback(setattr, ax, "legend_", legend)
        ax.legend_ = None
    return found


def _legend_below(ax: Axes, old: Legend) -> None:
    """Give a panel its legend below it, because inside it would cover a small panel."""
    names = [text.get_text() for text in old.get_texts()]
    known = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    broken = list(map(_broken, names))
    handles = [known.get(name, handle) for name, handle in zip(names, old.legend_handles, strict=True)]
    shared = [other for other in ax.figure.axes if other.get_subplotspec() == ax.get_subplotspec()]  # with a twin
    lowest = min(other.get_tightbbox().y0 for other in shared)
    down = ScaledTranslation(0, (lowest - ax.bbox.y0) / ax.figure.dpi, ax.figure.dpi_scale_trans)
    place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": ax.transAxes + down, "borderpad": 0.2}
    ax.legend(handles, broken, ncols=1, fontsize=11, frameon=False, borderaxespad=0.1, **place)


def _broken(name: str) -> str:
    """A name of a legend, broken into lines that fit below a panel."""
    return "\n".join(textwrap.wrap(name, LEGEND_COLUMNS)) or name


def _turn_overlapping_labels(ax: Axes, undo: ExitStack) -> None:
    """Turn the labels below a panel if they overlap, as those of categories do, and the numbers above bars."""
    labels = [label for label in ax.get_xticklabels() if label.get_visible() and label.get_text()]
    if _overlap(labels):
        many = len(labels) > MANY
        # slanted, a label of three lines would lie on its neighbours
        upright = many or any(label.get_text().count("\n") > 1 for label in labels)
        if many and any("\n" in label.get_text() for label in labels):  # upright, each needs the width of one line
            ticks, texts = ax.get_xticks(), [label.get_text() for label in ax.get_xticklabels()]
            undo.callback(ax.set_xticks, ticks, texts)
            ax.set_xticks(ticks, [text.replace("\n", " ") for text in texts])
        for label in ax.get_xticklabels():
            was = {"rotation": label.get_rotation(), "ha": label.get_ha(), "rotation_mode": label.get_rotation_mode()}
            undo.callback(label.set, **was)
            label.set(rotation=90 if upright else 35, ha="center" if upright else "right", rotation_mode="default")
    numbers = [text for text in ax.texts if text.get_ha() == "center" and text.get_text()]
    if _overlap(numbers, both_ways=True):
        for text in numbers:
            undo.callback(text.set_rotation, text.get_rotation())
            text.set_rotation(90)


def _overlap(texts: list[Text], both_ways: bool = False) -> bool:
    """Whether two neighbours among texts overlap, from left to right; `both_ways`: and from top to bottom."""
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.x0)
    return any(
        left.x1 > right.x0 and not (both_ways and (left.y0 >= right.y1 or right.y0 >= left.y1))
        for left, right in pairwise(boxes)
    )
