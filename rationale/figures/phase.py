"""The phase portrait of a constraint: the rate against the multiplier, step after step."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from rationale.figures.look import BLACK, DASHES, PALETTE, apply_style, check_numbers, set_labels, use_percent_ticks


@apply_style
def draw_phase_portrait(
    paths: Mapping[str, tuple[Sequence, Sequence]],
    ax: Axes,
    target: float,
    price: float | None = None,
    title: str = "",
    yscale: str = "linear",
    every: int = 100,
    first: int = 0,
) -> Axes:
    """Paths of (rate, multiplier) through training: a hollow circle where one starts, a cross where it ends.

    Each path has a dot after every `every` steps, so that dots far apart mean a fast movement. If the rate is held, the
    path ends on the dotted line of the target.

    Parameters
    ----------
    paths : label -> (rates [N] in [0, 1], multipliers [N])
    target : share in [0, 1]
        A vertical line.
    price : float or None
        A horizontal line: what a unit of rate is worth to the task.
    yscale : "linear" or "log"
    every : int
        Steps between two dots.
    first : int
        The number of the first path's colour in the palette, so that a rule has the same colour in every figure.
    """
    for i, (label, (rates, multipliers)) in enumerate(paths.items()):
        x, y = check_numbers(rates, f"rates of {label}"), check_numbers(multipliers, f"multipliers of {label}")
        colour = PALETTE[(first + i) % len(PALETTE)]
        ax.plot(x, y, DASHES[i % len(DASHES)], color=colour, linewidth=1.4, label=label)
        ax.plot(x[every::every], y[every::every], ".", color=colour, label=f"every {every} steps" if i == 0 else None)
        ends = {"start": ((x[0], y[0]), "o", "white"), "end": ((x[-1], y[-1]), "X", colour)}
        for name, (point, marker, face) in ends.items():
            ax.plot(
                *point,
                marker,
                markersize=10,
                markerfacecolor=face,
                markeredgecolor=colour,
                label=name if i == 0 else None,
                zorder=4,
                clip_on=False,
            )
    ax.axvline(target, color=BLACK, linestyle=":", linewidth=1.8, label=f"target {100 * target:g} %", zorder=1)
    if price is not None:
        ax.axhline(price, color=BLACK, linestyle="-.", linewidth=1.2, label=f"price {price:.2f}", zorder=1)
    ax.set(xlim=(-0.02, 1.02), yscale=yscale)
    use_percent_ticks(ax.xaxis)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return set_labels(ax, title, "expected rate", f"multiplier{' (log scale)' if yscale == 'log' else ''}")
