"""Figures show the numbers that they are given, for any shape and without warnings; highlighted text is exact."""

import itertools
import re
import warnings
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rationale import figures
from rationale.distributions import HardConcrete, HardKuma, Kumaraswamy

EXTREMES = [(1e-3, 1e-3), (1e-3, 100.0), (100.0, 1e-3), (100.0, 100.0), (1.0, 1.0), (0.5, 0.5), (1e-6, 1e3)]


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def drawn_numbers(ax):
    """All coordinates of all lines of some axes."""
    return np.concatenate([np.asarray(line.get_xydata(), dtype=float).ravel() for line in ax.lines])


def mass_shown(ax, end):
    (stem,) = [line for line in ax.lines if line.get_gid() == f"mass_at_{end}"]
    return stem.get_ydata()[1]


# --- distributions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), EXTREMES)
@pytest.mark.parametrize(("left", "right"), [(-0.1, 1.1), (-0.01, 1.01), (-2.0, 1.0)])
def test_the_masses_shown_are_the_masses_of_the_distribution(a, b, left, right):
    _, ax = figures.new_figure()
    figures.draw_hardkuma(a, b, left, right, ax)
    gate = HardKuma(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64), left, right)
    assert mass_shown(ax, 0) == gate.prob_zero.item()
    assert mass_shown(ax, 1) == gate.prob_one.item()


def test_the_mass_scale_reaches_one_at_the_top_of_the_density_scale():
    fig, ax = figures.new_figure()
    figures.draw_hardkuma(5.0, 1.0, -0.1, 1.1, ax)
    figures.to_png(fig, dpi=40)
    (scale,) = ax.child_axes
    assert scale.get_ylim() == pytest.approx((0, 1)) and "mass" in scale.get_ylabel()
    assert ax.get_xticklabels()[2].get_text() == "1\nP(1) = 0.353"


@pytest.mark.parametrize(
    ("a", "b", "right", "masses"),
    [(5.0, 1.0, 1.1, ["4e-06", "0.353"]), (0.5, 0.5, 1.1, ["0.157", "0.206"]), (0.1, 1e3, 1.0, ["1.000", "0.000"])],
)
def test_a_mass_that_is_small_but_not_zero_is_not_written_as_zero(a, b, right, masses):
    _, ax = figures.new_figure()
    figures.draw_hardkuma(a, b, -0.1, right, ax)
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert [labels[0], labels[2]] == [f"0\nP(0) = {masses[0]}", f"1\nP(1) = {masses[1]}"]


def test_the_drawn_interior_density_is_that_of_the_distribution():
    _, ax = figures.new_figure()
    figures.draw_hardkuma(2.0, 2.0, -0.1, 1.1, ax)
    (line,) = [line for line in ax.lines if line.get_label() == "rectified H"]
    h = torch.tensor(line.get_xdata())
    expected = HardKuma(torch.tensor(2.0, dtype=torch.float64), 2.0).log_prob(h).exp()
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-9)
    assert 0 < h.min() and h.max() < 1


@pytest.mark.parametrize(("a", "b"), EXTREMES)
def test_extreme_shapes_are_drawn_without_a_warning_or_a_nan(a, b):
    fig, axes = figures.new_figure(4)
    gate = HardKuma(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))
    figures.draw_kumaraswamy(a, b, axes[0])
    figures.draw_cdf(gate, axes[1])
    figures.draw_histogram_vs_density(gate.sample((500,)), gate, axes[2])
    assert figures.draw_hardkuma(a, b, -0.1, 1.1, axes[3], title="extreme") is axes[3]
    assert all(np.isfinite(drawn_numbers(ax)).all() for ax in axes)
    assert len(figures.to_png(fig, dpi=30)) > 1000


def test_the_shaded_area_is_the_mean_of_the_gate():
    _, ax = figures.new_figure()
    gate = HardKuma(torch.tensor(0.5, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64))
    figures.draw_mean_as_area(gate, ax, title="area")
    (line,) = ax.lines
    x, above = line.get_xdata(), line.get_ydata()
    assert np.trapezoid(above, x) == pytest.approx(gate.mean.item(), abs=0.005)
    assert len(ax.collections) == 1 and ax.get_ylim() == (0, 1)


def test_distributions_without_masses_and_hard_concrete_are_drawn_too():
    fig, axes = figures.new_figure(2, 2)
    base = Kumaraswamy(torch.tensor(2.0), torch.tensor(5.0))
    concrete = HardConcrete(torch.tensor(0.0), 2 / 3)
    for row, dist in zip(axes, (base, concrete), strict=True):
        figures.draw_cdf(dist, row[0])
        figures.draw_histogram_vs_density(dist.sample((300,)), dist, row[1])
    assert mass_shown(axes[1][1], 0) == pytest.approx(concrete.prob_zero.item())
    figures.to_png(fig, dpi=30)


def test_the_histogram_counts_exact_zeros_and_ones_separately():
    _, ax = figures.new_figure()
    samples = [0.0, 0.0, 0.0, 1.0, 0.26, 0.27, 0.74, 0.76]
    figures.draw_histogram_vs_density(samples, HardKuma(1.0, 1.0), ax, num_bins=2)
    shares = {line.get_gid(): line.get_ydata()[0] for line in ax.lines if "share" in str(line.get_gid())}
    assert shares == {"share_at_0": 3 / 8, "share_at_1": 1 / 8}
    (bars,) = [patch for patch in ax.patches if hasattr(patch, "get_data")]
    assert bars.get_data().values.tolist() == [0.5, 0.5]  # 2 of 8 samples in a bin half a unit wide


def test_the_figure_of_the_explorer_is_reused_and_depends_on_its_arguments_alone():
    fig = Figure(figsize=(6, 2))
    first = figures.to_png(figures.draw_explorer(0.5, 0.5, -0.1, 1.1, fig, num_samples=200), dpi=40)
    other = figures.to_png(figures.draw_explorer(2.0, 0.5, -0.1, 1.1, fig, num_samples=200), dpi=40)
    again = figures.to_png(figures.draw_explorer(0.5, 0.5, -0.1, 1.1, fig, num_samples=200), dpi=40)
    assert first == again and first != other and len(fig.axes) == 3


def test_the_grid_and_the_decision_map_fill_their_axes():
    _, axes = figures.new_figure(2, 3)
    figures.draw_hardkuma_grid([0.5, 5.0], [0.5, 1.0, 5.0], -0.1, 1.1, axes)
    assert axes[2][0].get_title("left") == "a = 0.5, b = 5"
    assert {ax.get_ylim() for ax in axes.flat} == {(0, 3)}
    _, ax = figures.new_figure()
    figures.draw_decisions([0.1, 1, 10], [0.1, 10], [[0, 0.5, 1], [0, 0.4, 0.6]], ax)
    assert {text.get_text() for text in ax.texts} >= {"z = 0", "z = 1"}
    for flat in (0.0, 1.0, 0.3):
        _, ax = figures.new_figure()
        figures.draw_decisions([0.1, 1], [0.1, 10], np.full((2, 2), flat), ax)


def test_a_nan_is_an_error_and_never_a_gap():
    _, ax = figures.new_figure()
    with pytest.raises(ValueError, match="loss: 1 of 2 values are NaN"):
        figures.draw_lines([1, 2], {"loss": [1.0, float("nan")]}, ax)
    with pytest.raises(ValueError, match="NaN"):
        figures.draw_rate_histogram([0.1, float("nan")], ax)


def test_a_phase_portrait_shows_its_paths_with_their_ends_the_target_and_the_price():
    _, ax = figures.new_figure()
    rates, multipliers = np.linspace(0.9, 0.4, 250), np.linspace(0.0, 1.5, 250)
    figures.draw_phase_portrait({"one": (rates, multipliers)}, ax, 0.4, price=1.5, title="arrives", every=100)
    shown = {line.get_label(): np.asarray(line.get_xydata()) for line in ax.lines}
    assert np.array_equal(shown["one"], np.stack([rates, multipliers], 1))
    assert np.array_equal(shown["every 100 steps"], [[rates[i], multipliers[i]] for i in (100, 200)])
    assert shown["start"].tolist() == [[0.9, 0.0]] and shown["end"].tolist() == [[0.4, 1.5]]
    assert set(shown["target 40 %"][:, 0]) == {0.4} and set(shown["price 1.50"][:, 1]) == {1.5}
    assert "rate" in ax.get_xlabel() and "multiplier" in ax.get_ylabel()


def test_a_phase_portrait_of_a_multiplier_that_is_multiplied_has_a_log_scale_and_no_nan():
    fig, ax = figures.new_figure()
    paths = {"a": ([0.9, 0.1], [1e-5, 1e2]), "b": ([0.2, 0.4], [1.0, 2.0])}
    figures.draw_phase_portrait(paths, ax, 0.4, yscale="log")
    assert ax.get_yscale() == "log" and "log scale" in ax.get_ylabel()
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names.count("start") == 1 and {"a", "b"} <= set(names), "the ends are explained once"
    figures.to_png(fig, dpi=30)
    with pytest.raises(ValueError, match="multipliers of a: 1 of 2 values are NaN"):
        figures.draw_phase_portrait({"a": ([0.1, 0.2], [1.0, float("nan")])}, ax, 0.4)


def test_a_panel_is_made_drawn_and_saved_in_one_call(tmp_path):
    fig = figures.draw_panel(figures.draw_lines, [0, 1], {"a": [2, 3]}, title="rises", size=(5, 3), target=2.5,
                             save=tmp_path / "new" / "rises", limits={"ylim": (0, 4), "xlabel": "time"})  # fmt: skip
    (ax,) = fig.axes
    assert ax.get_title("left") == "rises" and ax.get_ylim() == (0, 4) and ax.get_xlabel() == "time"
    assert fig.get_size_inches().tolist() == [5, 3] and "target 2.5" in [line.get_label() for line in ax.lines]
    assert (tmp_path / "new" / "rises.svg").is_file()


# --- lines, bars, results --------------------------------------------------------------------------------


def test_a_band_lies_behind_its_line_and_reaches_from_its_lower_to_its_upper_edge():
    _, ax = figures.new_figure()
    figures.draw_lines([0, 1], {"a": [1, 2], "b": [0, 0]}, ax, bands={"a": ([0.5, 1.0], [1.5, 4.0])})
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == 0.5 and heights.max() == 4.0
    assert tuple(band.get_facecolor()[0][:3]) == matplotlib.colors.to_rgb(ax.lines[0].get_color())


@pytest.mark.parametrize("x", [[1, 2, 4], [4, 2, 1]])
def test_names_beside_lines_keep_their_distance_on_a_logarithmic_scale_and_for_any_order_of_x(x):
    _, ax = figures.new_figure()
    lines = {"a": [1, 10, 1000], "b": [1, 10, 900], "c": [1, 2, 3]}
    figures.draw_lines(x, {name: y if x[0] == 1 else y[::-1] for name, y in lines.items()}, ax, yscale="log")
    figures.label_lines(ax, at=3, to=5)
    met = {text.get_text(): text.xy[1] for text in ax.texts}
    assert met == pytest.approx({name: (y[1] * y[2]) ** 0.5 for name, y in lines.items()}), "half way on the scale"
    places = sorted(
        ax.transAxes.inverted().transform(ax.transData.transform(text.get_position()))[1] for text in ax.texts
    )
    assert np.diff(places).min() > 0.0749


def test_error_bars_and_bands_of_nothing_and_too_few_values_are_refused():
    _, ax = figures.new_figure()
    with pytest.raises(ValueError, match="errors: got hardkuma, accepted are HardKuma, Bernoulli"):
        figures.draw_bars(["a"], {"HardKuma": [1], "Bernoulli": [2]}, ax, errors={"hardkuma": [0.5]})
    with pytest.raises(ValueError, match="bands: got two, accepted are one"):
        figures.draw_lines([1, 2], {"one": [1, 2]}, ax, bands={"two": ([0, 1], [2, 3])})
    with pytest.raises(ValueError, match=r"HardKuma: got values of shape \(1,\), accepted is one per label, 3"):
        figures.draw_bars(["a", "b", "c"], {"HardKuma": [0.5]}, ax)
    assert not ax.patches and not ax.lines, "nothing was drawn"


def test_a_legend_beside_the_axes_covers_no_line():
    fig, ax = figures.new_figure(size=(6, 3))
    steps = range(100)
    lines = {
        "open": [1.0] * 100,
        "half": [0.5 + step / 300 for step in steps],
        "shut": [1 - step / 99 for step in steps],
    }
    figures.draw_lines(steps, lines, ax, target=0.4, beside=True)
    figures.to_png(fig, dpi=40)
    legend = ax.get_legend().get_window_extent()
    assert ax.bbox.x1 <= legend.x0 and legend.x1 <= fig.bbox.x1, "it is beside the axes and inside the picture"


def test_lines_are_named_beside_them_in_their_order_and_no_two_names_overlap():
    fig, ax = figures.new_figure()
    figures.draw_lines([0, 1, 2], {"low": [0, 1, 0], "high": [0, 9, 0], "nearly low": [0, 1.01, 0]}, ax)
    figures.label_lines(ax, at=1, to=1.4)
    assert ax.get_legend() is None
    names = sorted(ax.texts, key=lambda text: text.get_position()[1])
    assert [text.get_text() for text in names] == ["low", "nearly low", "high"]
    assert [text.xy for text in names] == [(1, 1), (1, 1.01), (1, 9)], "the strokes end on the lines"
    figures.to_png(fig, dpi=50)
    boxes = [text.get_window_extent() for text in names]
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))


def test_all_result_figures_draw_small_and_empty_data():
    fig, axes = figures.new_figure(3, 3)
    ax = iter(axes.flat)
    figures.draw_lines(
        [1, 2, 4],
        {"one": [1, 2, 3], "two": torch.tensor([3.0, 2.0, 1.0])},
        next(ax),
        title="t",
        xlabel="step",
        ylabel="loss (nats)",
        target=2,
        markers=True,
        xscale="log",
    )
    figures.draw_bars(["dev", "test"], {"A": [0.4, 0.5], "B": [0.3, 0.4]}, next(ax), errors={"A": [0.1, 0.1]})
    figures.draw_word_sentiment([146, 992, 18231, 1511, 394], {"none": [0] * 5, "all": [146, 9, 8, 7, 6]}, next(ax))
    figures.draw_confusion([[3, 1], [0, 0]], ["negative", "positive"], next(ax))
    figures.draw_dual({"rate": [1.0, 0.5], "gap_average": [0.6, 0.1], "multiplier": [0, 1]}, 0.4, next(ax))
    figures.draw_rate_histogram([0.0, 1.0, 0.4], next(ax), target=0.4)
    figures.draw_score_against_rate(
        {"HardKuma": [(0.4, 0.459, 0.01), (0.1, 0.4, 0.01)], "one seed": [(0.2, 0.4)], "none": []},
        next(ax),
        band=(0.463, 0.014),
    )
    figures.draw_history({"epoch": [1, 2], "rate_expected": [0.9, 0.5], "dev_accuracy": [0.3, 0.4]}, 0.4, next(ax))
    assert len(figures.to_png(fig, dpi=40)) > 1000


def test_history_draws_rates_and_scores_and_leaves_out_what_was_not_measured():
    pandas = pytest.importorskip("pandas")
    history = pandas.DataFrame(
        {
            "epoch": [1, 2, 3],
            "learning_rate": 1e-3,
            "loss": [3, 2, 1],
            "rate_selected": [0.9, None, 0.4],
            "dev_accuracy": [0.2, 0.3, 0.4],
            "rate_expected": [None] * 3,
        }
    )
    _, ax = figures.new_figure()
    figures.draw_history(history, 0.4, ax)
    lines = {line.get_label(): np.asarray(line.get_xdata()).tolist() for line in ax.lines}
    assert lines["accuracy on dev"] == [1, 2, 3] and lines["share selected"] == [1, 3]
    assert set(lines) == {"accuracy on dev", "share selected", "target rate 40 %"}


def test_history_draws_a_squared_error_on_an_axis_of_its_own():
    fig, ax = figures.new_figure()
    figures.draw_history({"epoch": [1, 2], "dev_mse": [0.02, 0.01], "rate_selected": [0.9, 0.5]}, 0.4, ax, score="mse")
    _, right = fig.axes
    assert [line.get_label() for line in right.lines] == ["squared error on dev"] and right.get_ylim()[1] < 0.1
    fig.draw_without_rendering()
    assert right.get_legend().get_window_extent().y1 <= right.get_window_extent().y0, "it would cover lines of one axis"
    fig, ax = figures.new_figure()
    figures.draw_history({"epoch": [1, 2], "dev_mse": [0.02, 0.01]}, None, ax, score="mse")
    assert fig.axes == [ax] and ax.get_ylim()[1] < 0.1, "a model that reads the whole text has no rates to draw"


def test_words_with_dollar_signs_are_no_formulas():
    fig, ax = figures.new_figure()
    figures.draw_attention([[0.5, 0.5, 0.0]], ["$_$"], ["a", "$$", "$5"], ax)
    assert len(figures.to_png(fig, dpi=30)) > 1000


def test_classes_and_settings_with_dollar_signs_are_no_formulas():
    classes = ["$_$", "$5 to $9"]
    fig = figures.draw_predictions(
        classes, {"rationale": [0.4, 0.6]}, figures.live_figure(6, 3), "from $_$ to $5 to $9"
    )
    assert len(figures.live_png(fig)) > 1000
    labels = [label.get_text() for label in fig.axes[0].get_xticklabels()]
    assert labels == [r"\$_\$", "\\$5\nto\n\\$9"] and fig.axes[0].get_title("left") == r"from \$_\$ to \$5 to \$9"
    fig, axes = figures.new_figure(2)
    figures.draw_confusion([[3, 1], [0, 2]], classes, axes[0])
    figures.draw_score_by_setting({"hardkuma": [(name, 0.5, 0.0) for name in classes]}, axes[1])
    assert len(figures.to_png(fig, dpi=30)) > 1000


def test_attention_shows_exact_zeros_and_does_not_separate_equal_neighbours():
    _, ax = figures.new_figure()
    figures.draw_attention([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], ["a", "b"], ["x", "y", "z"], ax)
    mesh, _, borders = ax.collections
    assert np.ma.getmaskarray(mesh.get_array()).reshape(2, 3).tolist() == [[False, False, True], [False] * 3]
    positions = sorted((segment[0][0], segment[0][1]) for segment in borders.get_segments())
    assert positions == [(1, 1), (2, 0), (2, 1)], "between x and y only in the second row"


def test_a_row_with_a_long_label_keeps_half_of_the_figure_for_its_cells():
    long = "20 %: Look 0.43, Smell 0.55, Palate 0.61, Taste 0.57, Overall impression of the beer 0.62"
    fig = figures.draw_chosen_row(
        [[0.5, 0.2], [0.1, 0.0]], [long, "30 %: short"], ["a", "b"], 0, figures.live_figure(9, 4)
    )
    (ax,) = fig.axes
    assert ax.get_position().width > 0.5 and len(figures.live_png(fig)) > 1000
    first, second = (label.get_text() for label in ax.get_yticklabels())
    assert long.startswith(first[:-1]) and first[-1] == "…" and second == "30 %: short"


def test_a_long_word_below_a_chosen_row_shows_its_beginning():
    fig = figures.draw_chosen_row(
        [[0.5, 0.2]], ["a"], ["internationalisation" * 100, "good"], 0, figures.live_figure(11, 4.4)
    )
    figures.live_png(fig)
    first, second = fig.axes[0].get_xticklabels()
    assert first.get_window_extent().y0 >= 0, "the beginning of the word would be cut off below the figure"
    assert first.get_text().startswith("internation") and first.get_text()[-1] == "…" and second.get_text() == "good"


def test_the_words_of_a_long_text_below_a_chosen_row_do_not_cover_each_other_nor_borders_the_cells():
    words, gates = [f"w{i}" for i in range(600)], [[i % 3 / 2 for i in range(600)]]
    fig = figures.draw_chosen_row(gates, ["a"], words, 0, figures.live_figure(11, 4.4))
    (ax,) = fig.axes
    labels = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    shown = {int(place): label.get_text() for place, label in labels}
    assert all(shown.values()), "a tick without a label takes as long to draw as one with a label"
    assert shown == {i: f"w{i}" for i in range(0, 600, 10)}
    cell = ax.get_position().width * 11 * 72 / 600  # in points
    assert ax.collections[2].get_linewidths()[0] < cell / 4
    fig = figures.draw_chosen_row([[0.5] * 60], ["a"], words[:60], 0, fig)
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()] == words[:60]


def test_attention_says_what_its_colours_mean_if_asked():
    fig, ax = figures.new_figure()
    figures.draw_attention([[0.5, 0.5]], ["a"], ["x", "y"], ax, scale="share of the largest")
    assert [one.get_ylabel() for one in fig.axes] == ["", "share of the largest"]


def test_jacobians_show_their_signs_on_one_scale_and_exact_zeros_apart():
    fig, axes = figures.new_figure(ncols=2)
    figures.draw_jacobians({"one": [[0.5, -0.5], [0.0, 0.1]], "two": [[-2.0]]}, axes, "score", "weight")
    first, second = (ax.collections[0] for ax in axes)
    assert first.get_clim() == second.get_clim() == (-2, 2)
    assert np.ma.getmaskarray(first.get_array()).reshape(2, 2).tolist() == [[False, False], [True, False]]
    plus, minus = first.to_rgba([1.0, -1.0])
    assert plus[2] > plus[0] and minus[0] > minus[2], "blue is positive, red is negative"
    assert axes[0].get_xlabel() == "score" and axes[0].get_ylabel() == "weight"
    assert axes[0].yaxis_inverted(), "the first row is at the top"


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_a_rate_that_is_the_lower_end_of_a_bar_counts_there(precision):
    _, ax = figures.new_figure()
    figures.draw_rate_histogram(torch.arange(20, dtype=precision) / 20, ax)
    assert [bar.get_height() for bar in ax.patches] == [1] * 20, "0 / 20, 1 / 20, ..., 19 / 20 have a bar each"


def test_the_simplex_colours_points_by_the_number_of_zeros():
    _, ax = figures.new_figure()
    figures.draw_simplex([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5], [0, 0, 1]], ax)
    assert [len(points.get_offsets()) for points in ax.collections] == [1, 1, 2]


def test_word_sentiment_writes_the_share_kept_on_each_bar():
    _, ax = figures.new_figure()
    figures.draw_word_sentiment([100, 200, 1000, 50, 0], {"HardKuma": [50, 50, 10, 50, 0]}, ax)
    assert [text.get_text() for text in ax.texts][5:] == ["50 %", "25 %", "1 %", "100 %", "0 %"]


def test_a_single_word_has_a_bar_and_more_words_than_there_are_are_refused():
    _, ax = figures.new_figure()
    figures.draw_word_sentiment([1, 20, 300, 40, 5], {"HardKuma": [1, 1, 30, 0, 5]}, ax)
    tops = [bar.get_height() for bar in ax.patches]
    assert tops == [1, 20, 300, 40, 5, 1, 1, 30, 0, 5] and ax.get_ylim()[0] < 1, "a bar that ends where it begins"
    with pytest.raises(ValueError, match="counts: got .* of HardKuma, accepted are at most all words"):
        figures.draw_word_sentiment([1, 20, 300, 40, 5], {"HardKuma": [2, 1, 30, 0, 5]}, ax)


def test_each_cell_of_a_confusion_matrix_has_its_share_of_the_gold_class():
    _, ax = figures.new_figure()
    figures.draw_confusion([[3, 1], [0, 4]], ["negative", "positive"], ax)
    cells = {text.get_position(): text.get_text() for text in ax.texts}  # (predicted, gold)
    assert cells == {(0, 0): "3\n75 %", (1, 0): "1\n25 %", (0, 1): "0\n0 %", (1, 1): "4\n100 %"}


def test_scores_are_drawn_in_the_order_of_their_rates():
    _, ax = figures.new_figure()
    figures.draw_score_against_rate({"m": [(0.4, 3.0), (0.1, 1.0), (0.2, 2.0)]}, ax, percent=False, ylabel="MSE")
    assert ax.lines[0].get_xydata().tolist() == [[0.1, 1.0], [0.2, 2.0], [0.4, 3.0]]


# --- the look and the files ------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(0.004, 0.1), (0.0, 0.1), (0.02, 0.1)])
def test_every_rate_is_inside_the_picture_also_on_a_scale_for_small_rates(rates):
    _, ax = figures.new_figure()
    figures.draw_score_against_rate({"hardkuma": [(rate, 0.5) for rate in rates]}, ax, log_rate=True)
    places = ax.transData.transform([(rate, 0.5) for rate in rates])[:, 0]
    assert ((ax.bbox.x0 <= places) & (places <= ax.bbox.x1)).all() and ax.get_xticks().size > 2
    assert ax.get_xscale() == ("log" if min(rates) > 0 else "linear")


def test_drawing_leaves_no_trace_in_the_global_settings():
    before = {key: matplotlib.rcParams[key] for key in figures.LOOK}
    fig, ax = figures.new_figure()
    figures.draw_hardkuma(0.5, 0.5, -0.1, 1.1, ax)
    figures.to_png(fig, dpi=30)
    assert before == {key: matplotlib.rcParams[key] for key in figures.LOOK}


def test_the_same_figure_gives_the_same_svg_bytes_without_a_date(tmp_path):
    def made(name):
        fig, ax = figures.new_figure()
        figures.draw_hardkuma(0.5, 0.5, -0.1, 1.1, ax, title="A finding & more")
        return figures.save_figure(fig, tmp_path / "new" / "folder", name)

    one, two = made("one"), made("two")
    assert one.name == "one.svg" and one.read_bytes() == two.read_bytes()
    text = one.read_text(encoding="utf-8")
    assert "dc:date" not in text and "A finding &amp; more" in text and len(text) < 60_000


def test_a_figure_shows_itself_as_an_svg_with_its_titles_as_alternative_text():
    fig, ax = figures.new_figure(size=(4, 3))
    figures.draw_lines([0, 1], {"x": [0, 1]}, ax, title="x grows")
    data, metadata = fig._repr_svg_()
    shown = {key: value for key, value in metadata.items() if not key.startswith("narrow")}  # see test_narrow.py
    assert data.startswith("<svg ") and shown == {"width": 400, "height": 300, "alt": "x grows"}
    svg = ElementTree.fromstring(data)
    assert (svg.get("width"), svg.get("height"), svg.get("viewBox")) == ("400", "300", "0 0 288 216")
    assert figures.show(fig)._repr_svg_()[0] == data, "the same figure gives the same text"
    assert figures.show(Figure(figsize=(2, 1))).about["width"] == 200


# --- highlighted text ------------------------------------------------------------------------------------


def test_html_marks_selected_bold_zeros_faint_and_gold_underlined():
    text = figures.highlight_html(["a", "fine", "film"], [0, 1, 0.5], gold=[False, True, False])
    assert text == (
        '<div style="line-height:1.7;max-width:60em;overflow-wrap:anywhere;'
        '-webkit-print-color-adjust:exact;print-color-adjust:exact"><span style="opacity:.6">a</span> '
        '<mark style="background:rgba(230,159,0,0.65);color:inherit;padding:0 .15em" title="z = 1.00">'
        "<b><u>fine</u></b></mark> "
        '<mark style="background:rgba(230,159,0,0.43);color:inherit;padding:0 .15em" title="z = 0.50">'
        "<b>film</b></mark></div>"
    )
    assert text._repr_html_() == text


def test_html_escapes_tokens_and_title():
    text = figures.highlight_html(["<script>", "&", '"'], [1, 0, 0], title="<b>")
    assert "<script>" not in text and "&lt;script&gt;" in text and "&amp;" in text and "&lt;b&gt;" in text


def test_an_svg_holds_all_of_each_word_inside_its_picture_whatever_the_characters():
    tokens = ["beer", "a" * 100, "日本語", "\x08", "\ud800", "wide" + "語" * 60]
    picture = figures.highlight_svg([("a title\x08 " * 20, tokens, [1.0, 0.0] * 3, None)])
    root = ElementTree.fromstring(picture.encode())
    width = float(root.get("viewBox").split()[2])
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    words = [element for element in texts if element.get("textLength")]
    for element in words:
        assert float(element.get("x")) + float(element.get("textLength")) <= width - 18
        taken = sum(18 if letter in "日本語" else 9 for letter in element.text)
        assert float(element.get("textLength")) == taken, "no letter lies on its neighbour"
    assert "".join(element.text for element in words) == "".join(tokens[:3]) + r"\x08\ud800" + tokens[-1]
    titles = [element.text for element in texts if element not in words]
    assert all(9 * len(title) < width for title in titles) and "".join(titles) == r"a title\x08 " * 20


def test_terminal_text_in_colour_is_exact():
    text = figures.highlight_ansi(["a", "fine", "film"], [0, 1, 0.2], gold=[True, True, False], color=True)
    assert text == "\x1b[2;4ma\x1b[0m \x1b[1;30;48;5;214;4mfine\x1b[0m \x1b[1;30;48;5;229mfilm\x1b[0m"


def test_terminal_text_without_colour_brackets_selected_stretches_and_marks_gold():
    tokens, z = "a truly fine film !".split(), [0, 1, 0.3, 0, 1]
    assert figures.highlight_ansi(tokens, z, color=False) == "a [truly fine] film [!]"
    gold = [False, True, False, True, False]
    assert figures.highlight_ansi(tokens, z, gold, color=False) == "a [_truly_ fine] _film_ [!]"


def test_no_color_is_respected_unless_the_caller_decides(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert figures.highlight_ansi(["x"], [1]) == "[x]"
    assert "\x1b[" in figures.highlight_ansi(["x"], [1], color=True)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[" in figures.highlight_ansi(["x"], [1])


def test_lines_are_wrapped_at_the_visible_width_and_no_token_is_lost():
    tokens, z = [f"word{i}" for i in range(40)], np.arange(40) % 3 / 2
    for color in (True, False):
        lines = figures.highlight_ansi(tokens, z, width=30, color=color).split("\n")
        plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
        assert max(map(len, plain)) <= 30 and len(lines) > 5
        assert re.sub(r"[\[\]]", "", " ".join(plain)).split() == tokens
    assert figures.highlight_ansi(["long" * 9, "b"], [0, 0], width=5, color=False) == "long" * 9 + "\nb"


def test_control_characters_of_a_token_never_reach_the_terminal():
    assert figures.highlight_ansi(["\x1b[2Jx\n"], [0], color=False) == r"\x1b[2Jx\n"


def test_empty_text_is_empty():
    assert figures.highlight_ansi([], []) == ""
    assert figures.highlight_html([], []).endswith("</div>")


NUMBERS = {
    "bfloat16": torch.tensor([0.0, 0.5], dtype=torch.bfloat16),
    "float16": torch.tensor([0.0, 0.5], dtype=torch.float16),
    "a gradient": torch.tensor([0.0, 0.5], requires_grad=True),
    "a list of tensors": [torch.tensor(0.0, requires_grad=True), torch.tensor(0.5, dtype=torch.bfloat16)],
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_tensors_of_every_type_are_drawn_and_highlighted_as_their_numbers(kind):
    assert figures.highlight_ansi(["a", "b"], NUMBERS[kind], color=False) == "a [b]"
    assert figures.highlight_html(["a", "b"], NUMBERS[kind]) == figures.highlight_html(["a", "b"], [0.0, 0.5])
    _, ax = figures.new_figure()
    figures.draw_rate_histogram(NUMBERS[kind], ax)
    figures.draw_history({"dev_accuracy": NUMBERS[kind]}, None, ax)
    assert ax.lines[-1].get_ydata().tolist() == [0.0, 0.5]


@pytest.mark.parametrize("highlight", [figures.highlight_html, figures.highlight_ansi])
def test_highlighting_refuses_wrong_lengths_and_values(highlight):
    with pytest.raises(ValueError, match="lengths 2, 1 and 2"):
        highlight(["a", "b"], [1])
    with pytest.raises(ValueError, match=r"z: got values from -0.5 to 2, \[0, 1\] is accepted"):
        highlight(["a", "b"], [-0.5, 2])
    with pytest.raises(ValueError, match="NaN"):
        highlight(["a"], [float("nan")])


def test_a_model_looks_the_same_in_every_figure_and_a_second_variant_is_hollow():
    def looks(*models):
        _, ax = figures.new_figure()
        figures.draw_score_against_rate({model: [(0.1, 0.5)] for model in models}, ax)
        return {model: bars.lines[0] for model, bars in zip(models, ax.containers, strict=True)}

    first = looks("softmax", "attention", "hardkuma", "hardkuma, independent", "random run of words")
    second = looks("hardkuma, independent", "attention")
    for name in ("hardkuma, independent", "attention"):
        assert first[name].get_color() == second[name].get_color(), name
    assert first["hardkuma"].get_color() == first["hardkuma, independent"].get_color()
    assert first["hardkuma, independent"].get_markerfacecolor() == "white" != first["hardkuma"].get_markerfacecolor()
    assert second["hardkuma, independent"].get_markerfacecolor() != "white", "alone it is solid"
    colours = [line.get_color() for name, line in first.items() if name != "hardkuma, independent"]
    assert len(set(colours)) == 4, "models differ"


@pytest.mark.parametrize("length", [10, 60, 75, 90])
def test_a_long_title_gets_smaller_letters_and_fits(length):
    fig, ax = figures.new_figure(size=(9, 5))
    title = ("A finding of 52% that is long enough, " * 3)[:length]
    figures.draw_lines([0, 1], {"y": [0, 1]}, ax, title=title, ylabel="accuracy (SST, test)")
    FigureCanvasAgg(fig).draw()
    (text,) = (text for text in ax.get_children() if getattr(text, "get_text", str)() == title)
    assert text.get_window_extent().x1 <= fig.bbox.x1, f"{text.get_fontsize():.1f} points"
    assert text.get_fontsize() == figures.LOOK["axes.titlesize"] or length > 50, "a short title keeps its size"


def test_a_table_leaves_out_what_does_not_vary_and_what_is_missing():
    table = pd.DataFrame({
        "corpus": ["sst"] * 3, "model": ["a<b", "b", "c"], "seeds": [1.0, 2.0, None],
        "test_accuracy": [0.51234, -1e-9, 1], "nothing": [None] * 3,
    })  # fmt: skip
    shown = figures.show_table(table)
    assert "In all rows: corpus SST" in shown and "nothing" not in shown, "an empty column is left out"
    assert "a&lt;b" in shown and "<th>test accuracy</th>" in shown
    assert re.findall("<td>(.*?)</td>", shown) == ["1", "0.512", "2", "0.000", "", "1.000"], "no nan, no -0.000"
    assert figures.show_table(table.head(0)).count("</th>") == 5, "an empty table keeps its column names"
    assert figures.show_table(table.head(1)).count("</th>") == 4
    stays = figures.show_table(table, columns_that_stay=["corpus"])
    assert "In all rows" not in stays and "<th style='text-align: left; vertical-align: top'>corpus</th>" in stays


def test_a_table_of_texts_can_be_read_on_a_phone():
    table = pd.DataFrame({"the claim": ["a text of more than twenty-four letters"] * 2, "share": [0.5, 0.25]})
    assert "data-name" not in figures.show_table(table), "numbers are compared in columns"
    shown = figures.show_table(table.assign(command=["make run PARAMS=params/probes/a<b.yaml", "make sweep"]))
    assert "<table class='dataframe prose'>" in shown and shown.count("data-name='the claim'") == 2
    assert "PARAMS=<wbr>params/<wbr>probes/<wbr>a&lt;b.yaml" in shown


def test_a_table_is_saved_with_all_digits_and_as_latex_without_loose_special_characters(tmp_path):
    table = pd.DataFrame({"model_name": ["a_b", "50% & {more}", "x\\y"], "rate": [0.0002, 0.001, 0.01]})
    table["accuracy"] = [1 / 3, float("nan"), 0.5]
    csv, tex = figures.save_table(table.assign(corpus="sst_5"), tmp_path / "new", "scores_of", "runs of 12_train")
    assert pd.read_csv(csv)["accuracy"][0] == 1 / 3
    lines = tex.read_text().splitlines()
    assert r"\caption{runs of 12\_train. In all rows: corpus sst\_5}" in lines
    body = lines[lines.index(r"\toprule") + 1 : lines.index(r"\bottomrule")]
    assert body == [
        r"model name & rate & accuracy \\",
        r"\midrule",
        r"a\_b & 0.0002 & 0.333 \\",
        r"50\% \& \{more\} & 0.001 &  \\",
        r"x\textbackslash{}y & 0.01 & 0.500 \\",
    ], "a learning rate is not rounded"


def test_no_line_of_a_latex_table_begins_with_what_the_line_before_takes_as_its_option(tmp_path):
    table = pd.DataFrame({"piece": ["[CLS]", "[SEP]", "a [b]"], "rate": [0.5, 0.25, 0.125]})
    text = figures.save_table(table, tmp_path, "pieces")[1].read_text()
    assert not re.search(r"(\\\\|\\(top|mid|bottom)rule)\s*\[", text), "LaTeX skips the end of a line before an option"
    assert text.replace("{[}", "[").count("[CLS] & 0.500") == 1


def test_a_figure_for_a_paper_has_three_formats_with_its_caption_and_the_same_bytes_each_time(tmp_path):
    for folder in ("one", "two"):
        fig, ax = figures.new_figure()
        figures.draw_score_by_setting({"a": [(0.1, 0.5, 0.1)], "b": [(0.1, 0.4, 0.0), (10, 0.2, 0.0)]}, ax, title="T")
        figures.save_figure(fig, tmp_path / folder, "f", figures.FORMATS, "four runs")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == ["f.pdf", "f.png", "f.svg", "f.txt"] and ax.get_xscale() == "log"
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        assert b"four runs" in (tmp_path / "one" / name).read_bytes(), name


def test_legends_and_cells_have_words_in_place_of_names_of_code():
    assert figures.in_words("hardkuma, independent, learning_rate=0.01") == "HardKuma, independent, learning rate 0.01"
    assert figures.in_words("K = 4, a (b)") == "K = 4, a (b)"
    _, ax = figures.new_figure()
    figures.draw_score_against_rate({"full_text": [(0.1, 0.5)], "svm, encoder=lstm": [(0.1, 0.4)]}, ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["full text", "SVM, encoder LSTM"]
    shown = figures.show_table(pd.DataFrame({"model": ["full_text", "svm"], "setting": ["svm=1", "PARAMS=a_b"]}))
    assert ">full text<" in shown and ">SVM<" in shown and "svm=" in shown and "a_b" in shown


def test_words_of_a_text_are_no_names_of_code():
    words = pd.DataFrame({"negative": ["task", "loss"], "positive": ["states", "svm"]})
    shown = figures.show_table(words, quoted=True)
    assert all(f">{word}<" in shown for word in ("task", "loss", "states", "svm")), shown


def test_an_index_is_shown_if_its_column_has_a_name():
    table = pd.DataFrame({"texts": [259.0, 141.0]}, index=["no", "yes"])
    assert "no" not in figures.show_table(table)
    shown = figures.show_table(table, index="answer")
    assert ">answer<" in shown and ">no<" in shown and ">259<" in shown


def test_details_are_folded_behind_a_line_and_escaped():
    shown = figures.show_folded("Settings <b>", ["a<i>=1"])
    assert "<summary>Settings &lt;b&gt;</summary>" in shown and "a&lt;i&gt;=1" in shown
    assert not figures.show_folded("Settings", [])


def test_every_line_of_a_comparison_looks_different():
    names = [f"hardkuma, learning_rate={rate}" for rate in range(9)] + ["bernoulli", "unrelated"]
    fig, ax = figures.new_figure()
    figures.draw_score_against_rate({name: [(0.1, i), (0.2, i)] for i, name in enumerate(names)}, ax)
    looks = {(line[0].get_color(), line[0].get_linestyle(), line[0].get_marker()) for line in ax.containers}
    assert len(looks) == len(names)


def test_no_two_of_many_models_look_alike_and_variants_keep_the_colour_of_their_model():
    names = ["hardkuma", "hardkuma, a", "hardkuma, b", *(f"map {i}" for i in range(9))]
    _, ax = figures.new_figure()
    figures.draw_score_against_rate({name: [(0.1, i)] for i, name in enumerate(names)}, ax)
    looks = [(line[0].get_color(), line[0].get_marker(), line[0].get_markerfacecolor()) for line in ax.containers]
    assert len(set(looks)) == len(names), "points have no dashes that tell them apart"
    assert len({colour for colour, _, _ in looks[:3]}) == 1 and looks[2][1] != looks[0][1]


def test_texts_stand_side_by_side_as_points_that_no_line_joins_and_no_error_bars_coincide():
    lines = {f"hardkuma, dropout={rate}": [("lstm", 0.5, 0.1), ("rcnn", 0.4, 0.1)] for rate in (0, 0.1, 0.2)}
    fig, ax = figures.new_figure()
    figures.draw_score_by_setting(lines, ax)
    points = [container[0] for container in ax.containers]
    assert [point.get_linestyle() for point in points] == ["None"] * 3
    assert len({point.get_xdata()[0] for point in points}) == 3 and len({point.get_color() for point in points}) == 3
    assert [text.get_text() for text in ax.get_xticklabels()] == ["lstm", "rcnn"]


def test_a_level_has_the_same_colour_beside_any_number_of_lines():
    looks = []
    for count in (1, 3):
        _, ax = figures.new_figure()
        lines = {f"way {i}": [("a", 0.1 * i, 0.0), ("b", 0.2, 0.0)] for i in range(count)}
        figures.draw_score_by_setting(lines, ax, {"softmax": (0.4, 0.1)})
        (level,) = (line for line in ax.lines if line.get_label() == "softmax")
        looks.append((level.get_color(), [container[0].get_color() for container in ax.containers]))
        places = [container[0].get_xdata()[0] for container in ax.containers]
        assert abs(sum(places)) < 1e-9, "the points of a value stand around it"
    (one, of_one), (three, of_three) = looks
    assert one == three and of_one == of_three[:1] and len({three, *of_three}) == 4


def test_an_error_bar_may_reach_further_below_its_point_than_above():
    _, ax = figures.new_figure()
    figures.draw_score_by_setting({"": [("a", 0.5, 0.1, 0.3), ("b", 1.0, 0.4, 0.0)], "none": []}, ax)
    (bars,) = ax.containers[0].lines[2]
    ends = [[round(y, 9) for _, y in segment] for segment in bars.get_segments()]
    assert ends == [[0.4, 0.8], [0.6, 1.0]]


def test_a_figure_of_one_line_without_a_name_has_no_legend_and_no_warning(recwarn):
    fig, ax = figures.new_figure()
    figures.draw_score_by_setting({"": [(1, 0.5, 0.1), (2, 0.4, 0.1)]}, ax)
    assert ax.get_legend() is None and not recwarn.list
