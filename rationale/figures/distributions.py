"""Figures of distributions: densities, masses, cumulative distribution functions, decisions and slopes of draws."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rationale.distributions.rectified import HardKuma, StretchedRectified
from rationale.distributions.unit_interval import Kumaraswamy
from rationale.figures.look import (
    BLACK,
    BLUE,
    DARK_RED,
    DASHES,
    GREY,
    ON_DARK,
    ON_LIGHT,
    ORANGE,
    RED,
    SKY,
    apply_style,
    check_numbers,
    reuse_panels,
    set_labels,
)


def _to_float64(value) -> torch.Tensor:
    """A parameter of a distribution in float64, the precision in which figures are computed."""
    return torch.as_tensor(value, dtype=torch.float64)


def _interior_points(low: float, high: float, num: int = 401) -> torch.Tensor:
    """Points strictly inside (low, high), denser near the ends, where densities may be steep."""
    angle = torch.linspace(0, torch.pi, num + 2, dtype=torch.float64)[1:-1]
    return low + (high - low) * (1 - torch.cos(angle)) / 2


def _density(dist, points: torch.Tensor) -> np.ndarray:
    return check_numbers(dist.log_prob(points).exp(), f"density of {type(dist).__name__}")


def _density_axis_top(x: np.ndarray, density: np.ndarray) -> float:
    """Top of a density axis: the first of 3, 6, 12, ... above the peak, ignoring the outer 2 % of the support.

    Poles at the ends are therefore cut off, and the axis stays the same during small moves of a slider.
    """
    low, high = x[0] + 0.02 * np.ptp(x), x[-1] - 0.02 * np.ptp(x)
    peak = density[(low <= x) & (x <= high)].max()
    return 3 * 2 ** max(0, int(np.ceil(np.log2(1.05 * peak / 3)))) if peak > 0 else 3


def _format_mass(mass: float) -> str:
    """A mass with three decimals, or, if it is not 0 but would round to 0.000, with its order of magnitude."""
    return f"{mass:.3f}" if mass >= 5e-4 or mass == 0 else f"{mass:.0e}"


def _draw_masses(dist: StretchedRectified, ax: Axes, prefix: str = "P({}) = ") -> None:
    """Draw the masses at 0 and 1 as lollipops, and write their values below the ticks, where they cover nothing.

    The height of a lollipop is its mass as a share of the height of the axes; it is not on the scale of the y axis.
    """
    texts = {0: "0", 0.5: ".5", 1: "1"}
    transform = ax.get_xaxis_transform()
    for end, mass in ((0, dist.prob_zero), (1, dist.prob_one)):
        mass = check_numbers(mass, f"P({end})").item()
        line = {"color": RED, "transform": transform, "clip_on": False, "solid_capstyle": "butt", "zorder": 4}
        ax.plot([end, end], [0, mass], linewidth=5, gid=f"mass_at_{end}", **line)
        ax.plot([end], [mass], "o", markersize=10, **line)
        texts[end] += f"\n{prefix.format(end)}{_format_mass(mass)}"
    ax.set_xticks(list(texts), list(texts.values()))
    for label in (ax.get_xticklabels()[0], ax.get_xticklabels()[2]):
        label.set(color=DARK_RED, fontweight="bold")


def _draw_mass_axis(ax: Axes, top: float) -> None:
    """Draw the scale of the masses on the right, from 0 to 1 over the whole height of the axes."""
    functions = (lambda y: y / top, lambda mass: mass * top)
    if ax.child_axes:  # the axes are reused, see `reuse_panels`
        ax.child_axes[0].set_functions(functions)
        return
    right = ax.secondary_yaxis("right", functions=functions)
    right.set_ylabel("mass (probability)", color=DARK_RED)
    right.set_yticks([0, 0.5, 1], ["0", ".5", "1"])
    right.tick_params(colors=DARK_RED)
    right.spines["right"].set(color=DARK_RED, visible=True)


@apply_style
def draw_kumaraswamy(a, b, ax: Axes, title: str = "", label: str | None = None, **line) -> Axes:
    """Density of Kuma(a, b) over (0, 1), with `label` in the legend. Call it again on the same axes to compare."""
    k = _interior_points(0, 1)
    density = _density(Kumaraswamy(_to_float64(a), _to_float64(b)), k)
    top = max(_density_axis_top(k.numpy(), density), ax.get_ylim()[1] if ax.lines else 0)
    defaults = {"linestyle": DASHES[len(ax.lines) % len(DASHES)], "label": f"Kuma({float(a):g}, {float(b):g})"}
    ax.plot(k, np.minimum(density, 99 * top), **{**defaults, **({"label": label} if label else {}), **line})
    ax.set(xlim=(0, 1), ylim=(0, top))
    ax.legend(loc="upper center")
    return set_labels(ax, title, "k", "density (per unit of k)")


@apply_style
def draw_hardkuma(
    a, b, left, right, ax: Axes, title: str = "", compact: bool = False, top: float | None = None
) -> Axes:
    """Base, stretched and rectified density of HardKuma(a, b, left, right) in one figure.

    The dashed line is the density of the base K over (0, 1). The thin line is that of the stretched T over
    (left, right), with shaded tails beyond 0 and 1. The thick line is the density of H inside (0, 1), which equals that
    of T. Each shaded tail becomes a point mass, a lollipop with its own scale at the right (a mass is not a density).

    Source: eqs. (H1)-(H4), notebooks/03_hardkuma.py; after Fig. 2 of Bastings et al. 2019.

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
        Whether to draw no legend, no scale at the right and short labels, for small multiples.
    top : float
        Upper end of the density axis. The default is the first of 3, 6, 12, ... above the peak.
    """
    dist = HardKuma(_to_float64(a), _to_float64(b), float(left), float(right))
    left, right = float(left), float(right)
    k = _interior_points(0, 1)
    base = _density(dist.base, k)
    k, t = k.numpy(), left + (right - left) * k.numpy()
    top = top or _density_axis_top(k, base)
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
        return set_labels(ax, title, "", "")
    _draw_mass_axis(ax, top)
    ax.legend(loc="upper center")
    return set_labels(ax, title, "value of k, t or h", "density (per unit)")


def draw_hardkuma_grid(
    a_values: Sequence[float], b_values: Sequence[float], left, right, axes: np.ndarray, top: float = 3
) -> np.ndarray:
    """Small multiples of `draw_hardkuma`: a increases to the right, and b increases downwards.

    Parameters
    ----------
    a_values, b_values : [M] and [N], > 0
        Shapes of the base.
    left, right : float
    axes : [N, M]
        The axes that `new_figure(ncols=M, nrows=N)` returns.
    top : float
        Upper end of the density axis of all panels; shapes can be compared only on a common scale.
    """
    for row, b in zip(axes, b_values, strict=True):
        for ax, a in zip(row, a_values, strict=True):
            draw_hardkuma(a, b, left, right, ax, title=f"a = {a:g}, b = {b:g}", compact=True, top=top)
    return axes


@apply_style
def draw_decisions(a_values, b_values, values, ax: Axes, title: str = "") -> Axes:
    """Test-time value of a gate for each shape (a, b), as colour, with contour lines between the regions of 0 and 1.

    Parameters
    ----------
    a_values, b_values : [M] and [N], > 0
    values : [N, M], in [0, 1]
        Value of the gate, with one row per value of b.
    """
    a_values, b_values = check_numbers(a_values, "a_values"), check_numbers(b_values, "b_values")
    values = check_numbers(values, "values")
    mesh = ax.pcolormesh(a_values, b_values, values, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True)
    ax.set(xscale="log", yscale="log")  # before the labels, whose gaps in the lines depend on the scales
    inside = np.ma.masked_where((values == 0) | (values == 1), values)
    if inside.count():
        colors = [ON_DARK, ON_DARK, ON_LIGHT, ON_LIGHT]  # the colours below high values are bright
        levels = ax.contour(a_values, b_values, inside, levels=[0.3, 0.5, 0.7, 0.9], colors=colors, linewidths=1)
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
    ax.figure.colorbar(mesh, ax=ax, label="value z of the gate")
    return set_labels(ax, title, "a (log scale)", "b (log scale)")


@apply_style
def draw_cdf(dist, ax: Axes, title: str = "") -> Axes:
    """Cumulative distribution function. Dotted jumps are the masses of a rectified distribution.

    At a jump, the filled dot is the value of the function.

    Parameters
    ----------
    dist : Distribution of batch shape []
        `HardKuma`, `HardConcrete` or a distribution on (0, 1).
    """
    points = _interior_points(0, 1)
    values = check_numbers(dist.cdf(points), "cdf")
    if isinstance(dist, StretchedRectified):
        zero, one = (check_numbers(mass, "mass").item() for mass in (dist.prob_zero, dist.prob_one))
        for end, low, high in ((0, 0, zero), (1, 1 - one, 1)):
            ax.plot([end, end], [low, high], ":", color=RED, linewidth=2.5)
            ax.plot([end], [low], "o", markerfacecolor="white", markeredgecolor=RED, zorder=5)
            ax.plot([end], [high], "o", color=RED, zorder=6)
        ax.plot([-0.15, 0], [0, 0], color=BLUE)
        ax.plot([1, 1.15], [1, 1], color=BLUE)
    ax.plot(points, values, color=BLUE)
    ax.set(xlim=(-0.15, 1.15), ylim=(-0.03, 1.05), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    return set_labels(ax, title, "h", "P(H ≤ h)")


@apply_style
def draw_mean_as_area(gate: StretchedRectified, ax: Axes, title: str = "") -> Axes:
    """P(H > t) over (0, 1), with the area below it shaded. The area is the mean of the gate.

        E[H] = integral_0^1 P(H > t) dt

    Source: eq. (H7), notebooks/03_hardkuma.py.

    Parameters
    ----------
    gate : StretchedRectified of batch shape []
    """
    points = _interior_points(0, 1)
    above = 1 - check_numbers(gate.cdf(points), "cdf")
    ax.fill_between(points, 0, above, color=BLUE, alpha=0.2, linewidth=0)
    ax.plot(points, above, color=BLUE)
    ax.set(ylim=(0, 1))
    return set_labels(ax, title, "t", "P(H > t)")


@apply_style
def draw_histogram_vs_density(
    samples, dist, ax: Axes, title: str = "", num_bins: int = 40, mass_axis: bool = True
) -> Axes:
    """A histogram of samples together with the density that they should have.

    If the distribution is rectified, samples that are exactly 0 or 1 are counted separately: their shares are drawn as
    squares, beside the exact masses as lollipops. Bars inside (0, 1) are shares of *all* samples per unit of h, so
    they must follow the density without any rescaling.

    Parameters
    ----------
    samples : [...], in [0, 1]
    dist : Distribution of batch shape []
    mass_axis : bool
        Whether to draw the scale of the masses on the right.
    """
    samples = check_numbers(samples, "samples").ravel()
    points = _interior_points(0, 1)
    density = _density(dist, points)
    top = _density_axis_top(points.numpy(), density)
    inside = samples[(0 < samples) & (samples < 1)]
    edges = np.linspace(0, 1, num_bins + 1)
    bars = np.histogram(inside, edges)[0] / (samples.size / num_bins)
    ax.stairs(np.minimum(bars, 99 * top), edges, fill=True, color=SKY, alpha=0.6, label="samples")
    ax.plot(points, np.minimum(density, 99 * top), color=BLUE, label="density")
    ax.set(xlim=(-0.15, 1.15), ylim=(0, top))
    ax.set_yticks(np.linspace(0, top, 4))
    if isinstance(dist, StretchedRectified):
        transform = ax.get_xaxis_transform()
        for end in (0, 1):
            ax.plot(
                [end + 0.05 * (2 * end - 1)],
                [(samples == end).mean()],
                "s",
                color=SKY,
                markeredgecolor=BLUE,
                markersize=9,
                transform=transform,
                clip_on=False,
                gid=f"share_at_{end}",
                label=None if end else "share at 0, at 1",
                zorder=7,
            )
        _draw_masses(dist, ax, prefix="")
        if mass_axis:
            _draw_mass_axis(ax, top)
    ax.legend(loc="upper center")
    return set_labels(ax, title, "h", "density (per unit of h)")


def matched_beta(a, b) -> torch.distributions.Beta:
    """The Beta distribution with the mean m and the variance v of Kuma(a, b), which exists for every shape.

        alpha = m n,   beta = (1 - m) n,   n = m (1 - m) / v - 1 = E[K (1 - K)] / v > 0

    Source: eq. (X3), notebooks/04_explore_shapes.py.
    """
    base = Kumaraswamy(_to_float64(a), _to_float64(b))
    mean, variance = base.mean, base.variance
    concentration = (mean * (1 - mean) - variance) / variance  # n
    return torch.distributions.Beta(mean * concentration, (1 - mean) * concentration)


@apply_style
def draw_matched_beta(a, b, ax: Axes, title: str = "") -> Axes:
    """Density of Kuma(a, b), and of the Beta with the same mean and variance (`matched_beta`)."""
    k, beta = _interior_points(0, 1), matched_beta(a, b)
    base = Kumaraswamy(_to_float64(a), _to_float64(b))
    density = _density(base, k)
    top = _density_axis_top(k.numpy(), density)
    beta_label = f"Beta({beta.concentration1:.3g}, {beta.concentration0:.3g})"
    ax.plot(k, np.minimum(density, 99 * top), color=BLUE, label=f"Kuma({float(a):.3g}, {float(b):.3g})")
    ax.plot(k, np.minimum(_density(beta, k), 99 * top), "--", color=ORANGE, label=beta_label)
    marker = {"color": BLACK, "linestyle": "none", "clip_on": False, "zorder": 4}
    ax.plot([base.mean.item()], [0], "^", label=f"mean of both: {base.mean:.3g}", **marker)
    ax.set(xlim=(0, 1), ylim=(0, top), yticks=np.linspace(0, top, 4))
    ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    ax.legend(loc="upper center")
    return set_labels(ax, title, "k", "density (per unit of k)")


def slopes(a, b, left, right, u) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The draw h(u; a, b, left, right) and its derivatives dh/da and dh/db, which are exactly 0 where h is clipped.

    Source: eq. (H6), notebooks/03_hardkuma.py.

    Parameters
    ----------
    u : [N], in (0, 1)
        Uniform noise: P(H <= h) = u where 0 < h < 1.

    Returns
    -------
    h [N], dh/da [N], dh/db [N]
    """
    u = _to_float64(u)
    a, b = (_to_float64(shape).expand(u.shape).clone().requires_grad_() for shape in (a, b))
    h = HardKuma(a, b, float(left), float(right)).rsample_at(torch.log1p(-u))
    return h.detach(), *torch.autograd.grad(h.sum(), (a, b))


@apply_style
def draw_slopes(a, b, left, right, ax: Axes, title: str = "") -> Axes:
    """Derivatives of the draw h(u) with respect to a and b, over u; where h is clipped (grey) there is no gradient.

    Parameters
    ----------
    a, b, left, right : float
        As in `draw_hardkuma`.
    """
    u = _interior_points(0, 1)
    h, by_a, by_b = (check_numbers(values, "slopes") for values in slopes(a, b, left, right, u))
    inside = (0 < h) & (h < 1)
    steepest = max(abs(by_a).max(), abs(by_b).max())
    top = 2.0 ** np.ceil(np.log2(max(1.05 * steepest, 2**-6)))  # a power of 2, so that the axis changes rarely
    ax.axhline(0, color=GREY, linewidth=1)
    ax.fill_between(u, -top, top, where=~inside, color=GREY, alpha=0.25, linewidth=0, label="clipped")
    for by, colour, dash, name in ((by_a, BLUE, "-", "a"), (by_b, ORANGE, "--", "b")):
        ax.plot(u[inside], by[inside], dash, color=colour, label=f"∂h/∂{name}")
    ax.set(xlim=(0, 1), ylim=(-1.4 * top, top))  # room for the legend
    ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    ax.set_yticks([-top, 0, top], [f"{-top:.3g}", "0", f"{top:.3g}"])
    ax.legend(loc="lower center", ncols=3, fontsize=11, handlelength=1.3, columnspacing=0.8)
    return set_labels(ax, title, "noise u", "slope of the draw h(u)")


VIEWS = ("samples", "cdf", "Beta", "slopes")  # the panels that the explorer can draw beside the densities


@apply_style
def draw_explorer(
    a, b, left, right, fig: Figure, views: Sequence[str] = ("cdf", "samples"), num_samples: int = 2000, seed: int = 0
) -> Figure:
    """The figure of the shapes explorer: densities with their masses and, beside them, one panel for each of `views`.

    The figure depends on the arguments alone, not on what was drawn into `fig` before.

    Parameters
    ----------
    a, b, left, right : float
        As in `draw_hardkuma`.
    fig : Figure
        The figure to redraw.
    views : some of `VIEWS`
        samples (a histogram), cdf, Beta (`draw_matched_beta`), slopes (`draw_slopes`).
    num_samples, seed : int
        Number of samples in the histogram, and the seed of their noise: with the same seed, the same noise is used for
        all shapes.
    """
    dist = HardKuma(_to_float64(a), _to_float64(b), float(left), float(right))
    widths = [2.2, *(1 if view == "cdf" else 1.5 for view in views)]
    margins = {"left": 0.065, "right": 0.985, "bottom": 0.2, "top": 0.9, "wspace": 0.42}
    densities, *panels = reuse_panels(fig, ["densities", *views], widths, **margins)
    draw_hardkuma(a, b, left, right, densities, title=f"HardKuma({a:.3g}, {b:.3g}, {left:.3g}, {right:.3g})")
    for view, ax in zip(views, panels, strict=True):
        if view == "samples":
            samples = dist.icdf(torch.as_tensor(np.random.default_rng(seed).random(num_samples)))
            draw_histogram_vs_density(samples, dist, ax, title=f"{num_samples} samples", mass_axis=False)
        elif view == "cdf":
            draw_cdf(dist, ax, title="cdf")
        elif view == "Beta":
            draw_matched_beta(a, b, ax, title="the base and a Beta")
        elif view == "slopes":
            draw_slopes(a, b, left, right, ax, title="slopes of a draw")
        else:
            raise ValueError(f"views: got {view!r}, accepted are {', '.join(VIEWS)}")
    return fig
