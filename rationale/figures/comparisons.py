"""Figures that compare runs: a score against the selected share of the text, or against any setting."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from rationale.figures.look import (
    BLACK,
    CHANCE_BASELINES,
    DASHES,
    GREY,
    MARKERS,
    PALETTE,
    STYLED_MODELS,
    apply_style,
    check_numbers,
    escape_dollars,
    set_labels,
    use_percent_ticks,
)
from rationale.figures.words import in_words


@apply_style
def draw_score_against_rate(
    points: Mapping[str, Iterable[Sequence[float]]],
    ax: Axes,
    band: tuple[float, float] | None = None,
    title: str = "",
    ylabel: str = "accuracy",
    percent: bool = True,
    log_rate: bool = False,
) -> Axes:
    """Task score against the share of text kept, with one marker per model and error bars of one standard deviation.

    A model of `STYLED_MODELS` looks the same in every figure. If a figure contains two variants of one model
    ("hardkuma" and "hardkuma, independent"), the second has hollow markers and a dashed line. A third one has another
    marker and the same colour. Further variants have a colour and a marker of their own.

    The legend has words in place of names of code (`words.py`).

    Source: Bastings et al. 2019, Figs. 3 and 4.

    Parameters
    ----------
    points : model -> [(rate, score) or (rate, score, std), ...]
        Rates are in [0, 1]; std is the standard deviation over seeds.
    band : (mean, two_sigma)
        The score of the full text, drawn as a star at 100 % and a horizontal band.
    percent : bool
        True if scores are shares in [0, 1], to be drawn in per cent; False for a squared error.
    log_rate : bool
        True: small rates have as much room as large ones. A rate of 0 has no place on such a scale; if there is one,
        the scale stays linear.
    """
    for (model, rows), line_style in zip(points.items(), _line_styles(list(points)), strict=True):
        table = check_numbers(sorted([*row, 0.0][:3] for row in map(list, rows)), model).reshape(-1, 3)
        errors = table[:, 2] if table[:, 2].any() else None
        ax.errorbar(*table.T[:2], yerr=errors, capsize=4, label=in_words(model), **line_style)
    if band is not None:
        mean, spread = band
        ax.axhspan(mean - spread, mean + spread, color=GREY, alpha=0.2, linewidth=0)
        label = "full text (± 2σ)" if spread else "full text"
        ax.plot([1], [mean], "*", color=BLACK, markersize=14, clip_on=False, label=label, zorder=5)
    ax.set_xlim(-0.01, 1.02)
    least = min((row[0] for rows in points.values() for row in map(list, rows)), default=0.1)
    if log_rate and least > 0:
        ax.set_xscale("log")
        ax.set_xlim(0.8 * least, 1.05)
        ticks = (0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
        ax.set_xticks([tick for tick in ticks if tick >= 0.8 * least])
        ax.xaxis.set_minor_locator(NullLocator())
    use_percent_ticks(ax.xaxis)
    if percent:
        use_percent_ticks(ax.yaxis)
    if ax.get_ylim()[0] < 0 <= min((row[1] for rows in points.values() for row in map(list, rows)), default=0):
        ax.set_ylim(bottom=0)  # an error bar may reach below 0, although no score is negative
    _add_legend(ax)
    return set_labels(ax, title, "selected text (share of words)", ylabel)


@apply_style
def draw_score_by_setting(
    lines: Mapping[str, Iterable[tuple[Any, *tuple[float, ...]]]],
    ax: Axes,
    levels: Mapping[str, tuple[float, float]] | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
) -> Axes:
    """A score against the values of a setting, with one line per kind of run and an error bar per point.

    Numbers stand on a number line, which is logarithmic if they are positive and span a factor of 50. Texts, true and
    false stand side by side as points that no line joins; the points of several kinds of run stand next to each other.
    Every kind has a colour of its own. Those of `levels` come first, so that they do not depend on the number of lines.

    Parameters
    ----------
    lines : name -> [(value of the setting, score, standard deviation), ...] or [(value, score, below, above), ...]
        The error bar of a point is as long as one standard deviation on either side; or as `below` and `above`, which
        are the distances from the score to the ends of an interval.
    levels : name -> (score, standard deviation)
        Kinds of runs for which the setting has no value, drawn as dotted horizontal lines.
    """
    rows = {name: [tuple(row) for row in line] for name, line in lines.items()}
    values = list(dict.fromkeys(row[0] for line in rows.values() for row in line))
    are_numbers = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    places = {value: value if are_numbers else place for place, value in enumerate(values)}
    levels = levels or {}
    names = [*levels, *rows]
    beside = 0.0 if are_numbers else min(0.12, 0.6 / max(len(rows), 1))
    looks = zip(names, _line_styles(names, own_colours=True), strict=True)
    for i, (name, line_style) in enumerate(looks, start=-len(levels)):  # so i numbers the rows from 0
        if name in rows:
            columns = len(rows[name][0]) if rows[name] else 3
            table = check_numbers(sorted((places[x], *score) for x, *score in rows[name]), name).reshape(-1, columns)
            table[:, 0] += beside * (i - (len(rows) - 1) / 2)
            line_style |= {} if are_numbers else {"linestyle": ""}
            bars = table.T[2:] if table[:, 2:].any() else None  # one row if they are as long below as above
            ax.errorbar(*table.T[:2], yerr=bars, capsize=4, label=in_words(name), **line_style)
        else:
            mean, spread = check_numbers(levels[name], name)
            ax.axhline(mean, color=line_style["color"], linestyle=":", label=in_words(name))
            ax.axhspan(mean - spread, mean + spread, color=line_style["color"], alpha=0.12, linewidth=0)
    if not are_numbers:
        ax.set_xticks(range(len(values)), escape_dollars(map(str, values)))
        ax.margins(x=0.15)
    elif values and min(values) > 0 and max(values) >= 50 * min(values):
        ax.set_xscale("log")
    if are_numbers and 1 < len(values) <= 12:
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.xaxis.set_minor_locator(NullLocator())
    _add_legend(ax)
    return set_labels(ax, title, xlabel, ylabel)


def _line_styles(names: Sequence[str], own_colours: bool = False) -> list[dict[str, Any]]:
    """The look of each line: that of its model, which is the part of its name before the first comma.

    The second and the third line of a model have the colour of the first, unless `own_colours`.
    """
    bases = [name.partition(", ")[0].lower() for name in names]
    style_of = {base: STYLED_MODELS.index(base) for base in bases if base in STYLED_MODELS}
    free = iter(sorted(set(range(len(names) + len(STYLED_MODELS))) - set(style_of.values())))
    looks = []
    for i, base in enumerate(bases):
        if base in CHANCE_BASELINES:
            looks.append({"marker": "", "color": GREY, "linestyle": ":", "linewidth": 2.5})
            continue
        before = bases[:i].count(base)
        alike = 1 if own_colours else 3  # lines of a model that share a colour
        if base not in style_of:
            style_of[base] = next(free)
        number = style_of[base] if before < alike else next(free)
        third = before == 2 and not own_colours
        lap = number // len(PALETTE)  # once all colours are used, they come again with other dashes
        looks.append(
            {
                "marker": MARKERS[(number + lap + 4 * third) % len(MARKERS)],  # not the pairs of the first lap again
                "color": PALETTE[number % len(PALETTE)],
                "linestyle": "--" if before == 1 else "-." if third else DASHES[min(lap, 1) * (1 + lap) % len(DASHES)],
                "linewidth": 1.4,
                "markerfacecolor": "white" if before == 1 else None,
            }
        )
    return looks


def _add_legend(ax: Axes) -> None:
    """A legend inside the axes; or, if it is large, below them, in a figure that grows as much."""
    names = ax.get_legend_handles_labels()[1]
    if not names:
        return
    longest = max(map(len, names), default=0)
    if len(names) <= 4 and longest <= 45:
        ax.legend()
        return
    columns = 2 if longest <= 60 else 1
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.14), ncols=columns, fontsize=10)
    ax.figure.set_figheight(ax.figure.get_figheight() + 0.21 * -(-len(names) // columns))
