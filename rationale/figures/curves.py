"""Figures of training: lines, bars, histories, selection rates and counts."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rationale.figures.look import (
    BLACK,
    BLUE,
    DARK_RED,
    DASHES,
    GREEN,
    GREY,
    MARKERS,
    ON_DARK,
    ON_LIGHT,
    PALETTE,
    PURPLE,
    RED,
    SENTIMENTS,
    SKY,
    apply_style,
    check_numbers,
    escape_dollars,
    reuse_panels,
    set_labels,
    use_percent_ticks,
)
from rationale.figures.words import in_words
from rationale.highlight import as_floats

BELOW = {"loc": "upper left", "bbox_to_anchor": (0, -0.13)}  # where a legend covers the lines of neither of two axes


@apply_style
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
    bands: Mapping[str, tuple[Sequence, Sequence]] | None = None,
    beside: bool = False,
    solid: bool = False,
) -> Axes:
    """Lines over a shared x, distinguished by colour, dashes and (with `markers`) markers.

    Parameters
    ----------
    x : [N]
    lines : label -> [N]
        Lines whose labels agree before ", " ("signed, expected" and "signed, selected") share a colour.
    target : float or None
        A level that is drawn as a dotted line.
    markers : bool
        Whether each point has a marker.
    xscale, yscale : "linear" or "log"
    bands : label -> two sequences [N]
        The lower and the upper edge of an area behind the line with this label, such as the range over seeds.
    beside : bool
        Whether the legend stands at the right of the axes, where it covers no line.
    solid : bool
        Whether lines of different colours are all solid.

    Raises
    ------
    ValueError
        If a number is NaN, or a band belongs to no line.
    """
    _require_names("bands", bands, lines)
    x = check_numbers(x, "x")
    bases = [label.partition(", ")[0] for label in lines]
    shared = len(set(bases)) < len(bases)
    for i, (label, y) in enumerate(lines.items()):
        if shared or solid:
            colour, dash = list(dict.fromkeys(bases)).index(bases[i]), bases[:i].count(bases[i])
        else:
            colour, dash = i, i
        if bands and label in bands:
            edges = [check_numbers(edge, f"band of {label}") for edge in bands[label]]
            ax.fill_between(x, *edges, color=PALETTE[colour % len(PALETTE)], alpha=0.2, linewidth=0)
        ax.plot(
            x,
            check_numbers(y, label),
            color=PALETTE[colour % len(PALETTE)],
            linestyle=DASHES[dash % len(DASHES)],
            marker=MARKERS[i % len(MARKERS)] if markers else None,
            label=label,
        )
    _draw_target(ax, target)
    ax.set(xscale=xscale, yscale=yscale)
    for axis, scale in ((ax.xaxis, xscale), (ax.yaxis, yscale)):
        if scale == "log":
            _set_sparse_log_ticks(axis)
    if any(lines):
        ax.legend(**{"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if beside else {})
    return set_labels(ax, title, xlabel, ylabel)


@apply_style
def label_lines(ax: Axes, at: float, to: float, gap: float = 0.075) -> Axes:
    """Write the names of the lines beside them instead of in a legend, with a thin stroke from each name to its line.

    Parameters
    ----------
    ax : Axes
        Axes with lines that have labels, such as `draw_lines` draws.
    at : float
        The x at which the strokes meet the lines.
    to : float
        The x at which the names begin. The names are in the order of the lines at `at`.
    gap : share of the height of the axes
        The smallest distance between two names.
    """
    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    along, up = (axis.get_transform() for axis in (ax.xaxis, ax.yaxis))  # to where a scale is even, as its logarithm is
    heights = []  # at `at`, on such a scale
    for line in lines:
        x, y = np.asarray(line.get_xydata(), dtype=float).T
        order = np.argsort(x)
        heights.append(np.interp(along.transform(at), along.transform(x[order]), up.transform(y[order])))
    low, high = up.transform(np.array(ax.get_ylim()))
    ends = [(height - low) / (high - low) for height in heights]  # as shares of the axes
    order = np.argsort(ends)
    places = np.array(ends)[order]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    places -= max(0.0, (places - np.array(ends)[order]).mean())  # half of the names move up, half of them down
    places -= max(0.0, places[-1] - 0.97) if len(places) else 0
    for i, place in zip(order, places, strict=True):
        stroke = {"arrowstyle": "-", "color": lines[i].get_color(), "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
        meeting, beginning = up.inverted().transform(np.array([heights[i], low + place * (high - low)]))
        ax.annotate(
            str(lines[i].get_label()),
            (at, meeting),
            (to, beginning),
            va="center",
            fontsize=12,
            arrowprops=stroke,
        )
    if ax.get_legend() is not None:
        ax.get_legend().remove()
    return ax


def _require_names(argument: str, given: Mapping | None, names: Iterable[str]) -> None:
    """Refuse bands or error bars of what is not drawn, which would be left out of the picture."""
    names = list(names)
    if unknown := [name for name in given or {} if name not in names]:
        raise ValueError(f"{argument}: got {', '.join(unknown)}, accepted are {', '.join(names)}")


def _set_sparse_log_ticks(axis) -> None:
    """Label a log axis at powers of ten, or at 1, 2 and 5 times these if the axis spans less than a factor of 100."""
    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_target(ax: Axes, target: float | None) -> None:
    """Draw a dotted line at the height of the target, if there is one."""
    if target is not None:
        ax.axhline(target, color=BLACK, linestyle=":", linewidth=1.8, label=f"target {target:g}", zorder=1)


@apply_style
def draw_bars(
    labels: Sequence[str],
    groups: Mapping[str, Sequence],
    ax: Axes,
    title: str = "",
    ylabel: str = "",
    errors: Mapping[str, Sequence] | None = None,
    fmt: str | Callable[[float], str] = "{:.3g}",
) -> Axes:
    """Bars side by side, one cluster per label and one colour per group, with the value on top of each bar.

    Parameters
    ----------
    labels : [N]
    groups : name -> [N] values
    errors : name -> [N] half-lengths of the error bars
    fmt : str or function
        The format in which values are written, or what is written of a value; with "" none are written.

    Raises
    ------
    ValueError
        If a number is NaN, a group has not one value per label, or error bars belong to no group.
    """
    _require_names("errors", errors, groups)
    width = 0.8 / max(1, len(groups))
    for i, (name, values) in enumerate(groups.items()):
        positions = np.arange(len(labels)) + (i - (len(groups) - 1) / 2) * width
        heights = check_numbers(values, name)
        if heights.shape != (len(labels),):
            raise ValueError(f"{name}: got values of shape {heights.shape}, accepted is one per label, {len(labels)}")
        half_lengths = check_numbers(errors[name], f"errors of {name}") if errors and name in errors else None
        bars = ax.bar(
            positions,
            heights,
            0.92 * width,
            color=PALETTE[i % len(PALETTE)],
            label=name,
            yerr=half_lengths,
            capsize=4,
            ecolor=GREY,
        )
        if fmt:
            ax.bar_label(bars, fmt=fmt, padding=2, fontsize=11)
    ax.set_xticks(np.arange(len(labels)), labels)
    ax.margins(y=0.25 if len(groups) > 1 else 0.12)
    if len(groups) > 1:
        ax.legend(loc="upper center", ncols=len(groups))
    return set_labels(ax, title, "", ylabel)


@apply_style
def draw_predictions(
    names: Sequence[str],
    predictions: Mapping[str, Sequence[float]],
    fig: Figure,
    title: str = "",
    on_scale: Callable[[Sequence[float]], Sequence[float]] = list,
) -> Figure:
    """The predictions of a model for one text with several choices of its gates: probabilities of classes, or scores.

    Parameters
    ----------
    names : [C]
        The classes, or the aspects that are scored.
    predictions : name of the choice of gates -> [C], in [0, 1]
    fig : Figure
        The figure to redraw.
    on_scale : function
        From numbers in [0, 1] to those that are written at the bars and at the axis, such as `SavedRun.rescaled`.
    """
    (ax,) = reuse_panels(fig, [("predictions", *names, *predictions)], left=0.07, right=0.99, bottom=0.16, top=0.9)
    labels = [name.replace(" ", "\n") for name in escape_dollars(names)]
    (title,) = escape_dollars([title])
    draw_bars(labels, predictions, ax, title, "prediction", fmt=lambda share: f"{on_scale([share])[0]:.2f}")
    ax.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, 1.25))
    ax.set_yticks([0, 0.5, 1], [f"{number:g}" for number in on_scale([0, 0.5, 1])])
    return fig


@apply_style
def draw_word_sentiment(
    all_counts: Sequence[int], counts: Mapping[str, Sequence[int]], ax: Axes, title: str = ""
) -> Axes:
    """Counts of selected words by the sentiment of the word, on a log scale, with the share kept on top of each bar.

    Source: Bastings et al. 2019, Fig. 5 (SST dev, all words: 146, 992, 18231, 1511, 394).

    Parameters
    ----------
    all_counts : [5] counts
        All words of the corpus, from very negative to very positive.
    counts : model -> [5] counts
        Selected words, each count at most the corresponding entry of `all_counts`.

    Raises
    ------
    ValueError
        If a count is larger than that entry.
    """
    total = check_numbers(all_counts, "all_counts")
    smallest = total.max(initial=0)  # of the counts above 0
    width = 0.84 / (1 + len(counts))
    for i, (name, row) in enumerate({"all words": total, **counts}.items()):
        row = check_numbers(row, name)
        if (row > total).any():
            raise ValueError(f"counts: got {row.tolist()} of {name}, accepted are at most all words, {total.tolist()}")
        smallest = row.min(initial=smallest, where=row > 0)
        positions = np.arange(len(total)) + (i - len(counts) / 2) * width
        bars = ax.bar(positions, row, 0.94 * width, color=(GREY, *PALETTE)[i % 8], label=name)
        shares = [f"{100 * share:.0f} %" for share in row / np.maximum(total, 1)]
        ax.bar_label(bars, [f"{n:,.0f}" for n in row] if i == 0 else shares, padding=2, fontsize=10)
    ax.set_yscale("log")
    bottom = 0.5 * smallest if 0 < smallest <= 1 else 1  # a bar of one word has a height, too
    ax.set_ylim(bottom, 4 * max(total.max(), 1))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xticks(np.arange(len(total)), [name.replace(" ", "\n") for name in SENTIMENTS])
    ax.legend(ncols=1 + len(counts), loc="upper center")
    return set_labels(ax, title, "", "words (log scale)")


@apply_style
def draw_confusion(matrix, labels: Sequence[str], ax: Axes, title: str = "") -> Axes:
    """Confusion matrix. Each cell has its count and its share of the row (the gold class), which sets its colour.

    Parameters
    ----------
    matrix : [C, C] counts
        Rows are gold classes, columns are predicted ones.
    labels : [C] class names
    """
    counts = check_numbers(matrix, "matrix")
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
            color=ON_DARK if share[i, j] > 0.55 else ON_LIGHT,
        )
    wrapped = [label.replace(" ", "\n") for label in escape_dollars(map(str, labels))]
    ax.set_xticks(range(len(labels)), wrapped, fontsize=10)
    ax.set_yticks(range(len(labels)), wrapped, fontsize=10)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return set_labels(ax, title, "predicted", "gold")


@apply_style
def draw_history(history: Mapping, target: float | None, ax: Axes, title: str = "", score: str = "accuracy") -> Axes:
    """The selection rates and the score of a run, one point per epoch, on one axis in per cent; the target is dotted.

    A squared error (`score` contains "mse") is not a share. If there are also rates, it has its own axis on the right.
    Cells without a number (an epoch that was not evaluated) are left out; markers show which epochs were evaluated.

    Parameters
    ----------
    history : DataFrame or column -> values
        The columns with "rate" in their names (except the learning rate) and those with `score` are drawn: shares in
        [0, 1], or errors >= 0. The x axis is the column `epoch` if there is one, otherwise the row number from 1.
    target : share in [0, 1] or None
    """
    names = [str(name) for name in history]
    rates = [name for name in names if "rate" in name and "learning" not in name]
    scores = [name for name in names if score in name and name not in rates]
    is_error = "mse" in score
    right = ax.twinx() if is_error and rates else ax
    epoch = as_floats(history["epoch"] if "epoch" in names else range(1, 1 + len(history[names[0]])))
    for i, name in enumerate(scores + rates):
        values = as_floats(history[name])
        known = np.isfinite(values)
        if known.any():
            (right if name in scores else ax).plot(
                epoch[known],
                values[known],
                "-" if name in scores else "--",
                marker=MARKERS[i % len(MARKERS)],
                color=PALETTE[i % len(PALETTE)],
                label=in_words(name).replace("_", " "),
            )
    if target is not None:
        ax.axhline(target, color=BLACK, linestyle=":", label=f"target rate {100 * target:g} %")
    if rates or not is_error:
        ax.set_ylim(0, 1.02)
        use_percent_ticks(ax.yaxis)
    if is_error:
        tops = [line.get_ydata().max() for line in right.lines if len(line.get_ydata())]
        right.set_ylim(0, 1.3 * max(tops, default=1) or 1)  # room above the lines
        right.set_ylabel("mean squared error")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if right is ax:
        ax.legend(fontsize=11)
        shares = "share of words, of texts" if "accuracy" in score else "share of words"
        return set_labels(ax, title, "epoch", "mean squared error" if is_error else shares)
    right.spines["right"].set_visible(True)
    handles = [*right.get_legend_handles_labels()[0], *ax.get_legend_handles_labels()[0]]
    right.legend(handles=handles, fontsize=11, ncols=3, **BELOW)
    return set_labels(ax, title, "epoch", "share of words")


@apply_style
def draw_dual(trace: Mapping, target: float | None, ax: Axes, title: str = "") -> Axes:
    """Dynamics of the constraint: rates on the left axis, the Lagrange multiplier (dashed) on the right axis.

    Parameters
    ----------
    trace : DataFrame or column -> values, one row per training step or epoch
        The column `multiplier`, and those of `rate`, `rate_expected`, `rate_selected`, `gap` and `gap_average` that
        exist. The x axis is the column `epoch` or `step` if there is one, otherwise the row number from 1 as the step.
    target : share in [0, 1] or None
        The target rate, drawn as a dotted line.
    """
    names = [str(name) for name in trace]
    time = next((name for name in ("epoch", "step") if name in names), None)
    step = check_numbers(trace[time] if time else np.arange(1, 1 + len(trace["multiplier"])), "step")
    colours = {
        "rate": BLUE,
        "rate_expected": SKY,
        "rate_selected": GREEN,
        "gap": PURPLE,
        "gap_average": BLACK,
    }
    marker = "o" if len(step) < 3 else None  # a line through one point would be invisible
    for name in (name for name in colours if name in names):
        ax.plot(step, check_numbers(trace[name], name), marker=marker, color=colours[name], label=in_words(name))
    if target is not None:
        ax.axhline(target, color=BLACK, linestyle=":", label=f"target rate {100 * target:g} %")
    use_percent_ticks(ax.yaxis)
    right = ax.twinx()
    right.plot(
        step, check_numbers(trace["multiplier"], "multiplier"), "--", marker=marker, color=RED, label="multiplier"
    )
    right.set_ylabel("multiplier (loss per unit of gap)", color=DARK_RED)
    right.tick_params(axis="y", colors=DARK_RED)
    right.spines["right"].set(color=DARK_RED, visible=True)
    handles = [*ax.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    right.legend(handles=handles, fontsize=11, ncols=len(handles), **BELOW)
    drawn = [kind for kind in ("rate", "gap") if any(name.startswith(kind) for name in names)]
    xlabel, ylabel = "epoch" if time == "epoch" else "training step", f"{', '.join(drawn)} (share of words)"
    return set_labels(ax, title, xlabel, ylabel)


@apply_style
def draw_rate_histogram(rates, ax: Axes, title: str = "", target: float | None = None) -> Axes:
    """Histogram of the selection rates of sentences, with their mean.

    A bar reaches over 5 points, of which the lower end counts: a rate of 3 / 20 stands between 15 % and 20 %.

    Parameters
    ----------
    rates : [N], shares in [0, 1], one per sentence
    target : share in [0, 1] or None
    """
    rates = check_numbers(rates, "rates").ravel()
    ax.hist(rates.round(6), bins=np.arange(21) / 20, color=SKY, edgecolor="white")  # as 3 / 20 is rounded
    ax.axvline(rates.mean(), color=BLUE, label=f"mean {100 * rates.mean():.1f} %")
    if target is not None:
        ax.axvline(target, color=BLACK, linestyle=":", label=f"target {100 * target:g} %")
    use_percent_ticks(ax.xaxis)
    ax.set_xlim(0, 1)
    ax.legend()
    return set_labels(ax, title, "selected words of a sentence", "sentences")
