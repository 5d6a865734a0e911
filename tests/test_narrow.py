"""Figures arranged for a phone: all is inside the picture and large enough, and the figure stays as it was."""

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.text import Text

from rationale import figures
from rationale.figures.narrow import narrowed
from rationale.runs.page import lab_page
from tools.book.pages import notebook_page

PHONE = 358  # pixels: the width of the text on a phone of 390
LONG = "A title that says what was found, in so many words that a phone has to break it into several lines"


def three_panels():
    fig, axes = figures.new_figure(3, title=LONG)
    for ax, shapes in zip(axes, ((0.5, 0.5), (2.0, 2.0), (5.0, 1.0)), strict=True):
        figures.draw_hardkuma(*shapes, -0.1, 1.1, ax, title=LONG)
    return fig


def with_legend():
    fig, ax = figures.new_figure(size=(9, 4.4))
    x = torch.linspace(0, 1, 30)
    lines = {f"a line with the number {i}": x**i for i in range(1, 6)}
    lines["the mean of all draws, and the spread of one of them"] = x / 2
    figures.draw_lines(x, lines, ax, title="Five lines", xlabel=LONG, ylabel="y")
    return fig


def with_colour_bar():
    fig, axes = figures.new_figure(2)
    shapes = torch.logspace(-1, 1, 9)
    figures.draw_decisions(shapes, shapes, torch.rand(9, 9), axes[0], title="Decisions")
    labels = [f"a category {i}" for i in range(5)]
    figures.draw_bars(labels, {"a group": [0.1, 0.2, 0.3, 0.4, 0.5]}, axes[1], title="Bars", ylabel="share")
    return fig


def many_bars():
    fig, ax = figures.new_figure(size=(12, 5))
    labels = [f"masks_by_score\nm = 0.{i}" for i in range(9)]
    figures.draw_bars(labels, {name: [71.0 + i for i in range(9)] for name in "ab"}, ax, title="Bars", ylabel="%")
    return fig


def with_two_scales():
    fig, ax = figures.new_figure(size=(9, 5))
    epochs = range(1, 9)
    history = pd.DataFrame({"epoch": epochs, "dev_mse": 0.1, "dev_rate_selected": np.linspace(0.9, 0.1, 8)})
    figures.draw_history(history, 0.1, ax, title="History", score="mse")
    return fig


def grid():
    fig, axes = figures.new_figure(3, 2)
    for ax in axes.flat:
        ax.plot([0, 1], [0, 1])
        figures.look.set_labels(ax, LONG, "an axis", "another axis")
    return fig


def redrawn():
    fig = figures.Picture(figsize=(12.5, 4.3))
    return figures.draw_explorer(0.5, 0.5, -0.1, 1.1, fig, num_samples=200)


each_figure = pytest.mark.parametrize(
    "make",
    [three_panels, with_legend, many_bars, with_colour_bar, with_two_scales, grid, redrawn],
    ids=lambda make: make.__name__,
)


@each_figure
def test_on_a_phone_every_letter_has_nine_pixels_and_lies_inside_the_picture(make):
    fig = make()
    with figures.style(), narrowed(fig):
        fig.draw_without_rendering()
        per_point = PHONE / fig.bbox.width * fig.dpi / 72
        texts = [text for text in fig.findobj(Text) if text.get_visible() and text.get_text().strip()]
        drawn = [text for text in texts if text.get_window_extent().width > 0 and text.axes is not None]
        assert len(drawn) > 3
        sizes = {text.get_text(): text.get_fontsize() * per_point for text in drawn}
        assert min(sizes.values()) >= 9, f"letters of fewer than 9 pixels: {sizes}"
        box = fig.get_tightbbox().extents
        assert box[0] > -0.15 and box[2] < fig.get_figwidth() + 0.15, f"it needs {box} of {fig.get_size_inches()}"
        places = sorted((ax.get_position().y0, ax.get_position().y1) for ax in fig.axes if ax.get_subplotspec())
        rows = sorted(set(places))
        assert all(below[1] < above[0] for below, above in pairwise(rows)), "panels lie upon each other"
        panels = [ax for ax in fig.axes if ax.get_subplotspec()]
        for one, other in combinations(panels, 2):
            if one.get_position().y0 > other.get_position().y1:
                label, title = one.xaxis.label.get_window_extent(), other._left_title.get_window_extent()
                assert label.y0 > title.y1 - 2 or not title.width, "a label lies upon the title below it"
        assert all(high - low > 0.3 / len(rows) for low, high in rows), f"a panel without room: {rows}"


@each_figure
def test_the_figure_is_as_it_was_after_it_has_been_arranged_for_a_phone(make):
    def state(fig) -> tuple:
        texts = [fig.get_suptitle()]
        for ax in fig.axes:
            titles = [(title.get_text(), title.get_fontsize()) for title in (ax.title, ax._left_title)]
            labels = {(label.get_text(), label.get_rotation(), label.get_ha()) for label in ax.get_xticklabels()}
            texts += [titles, labels, ax.get_legend(), ax.get_subplotspec()]
        return texts, tuple(fig.get_size_inches())

    fig = make()
    for _ in range(3):  # a layout with a colour bar takes a few drawings to settle
        figures.to_png(fig)
    before, places = state(fig), [ax.get_position().bounds for ax in fig.axes]
    with figures.style(), narrowed(fig):
        fig.draw_without_rendering()
        assert state(fig) != before
    figures.to_png(fig)
    assert state(fig) == before
    for ax, place in zip(fig.axes, places, strict=True):
        assert ax.get_position().bounds == pytest.approx(place, abs=2e-3)


def test_a_notebook_has_both_pictures_and_its_pages_choose_by_their_width(tmp_path):
    fig = three_panels()
    svg, about = fig._repr_svg_()
    shown = figures.show(fig)
    assert shown._repr_svg_()[1]["narrow"] == about["narrow"], "displayed in the middle of a cell or at its end"
    wide, narrow = (int(ElementTree.fromstring(text).get("width")) for text in (svg, about["narrow"]))
    assert narrow == about["narrow_width"] < wide == about["width"]
    data = {"image/svg+xml": svg}
    output = nbformat.v4.new_output("display_data", data, metadata={"image/svg+xml": about})
    cells = [nbformat.v4.new_markdown_cell("# T"), nbformat.v4.new_code_cell("fig", outputs=[output])]
    notebook = nbformat.v4.new_notebook(cells=cells)
    page = lab_page(notebook, "t")
    for kind, width in (("wide", wide), ("narrow", narrow)):
        (head,) = re.findall(rf'<svg [^>]*class="drawn {kind}"[^>]*>', page)
        assert f'aria-label="{LONG}"' in head and f'width="{width}"' in head
    text = notebook_page(notebook, "x", "", tmp_path)
    for kind, picture in (("wide", svg), ("narrow", about["narrow"])):
        assert f'<img class="{kind}" src="{tmp_path.name}/x-1-0-{kind}.svg" alt="{LONG}">' in text
        assert (tmp_path / f"x-1-0-{kind}.svg").read_text() == picture


def test_a_mapping_without_a_zero_does_not_flatten_the_panels_of_a_phone(recwarn):
    fig = figures.Picture(figsize=(15, 3.2))
    figures.draw_mappings([0.5, 1.5, 1.3], {"softmax": [0.2, 0.5, 0.3], "sparsemax": [0, 0.6, 0.4]}, fig)
    with narrowed(fig):
        fig.draw_without_rendering()
        heights = [ax.get_position().height for ax in fig.axes]
    assert min(heights) > 0.15, "each of the three panels has most of its third"
    assert not [str(warning.message) for warning in recwarn.list]


def test_on_a_phone_no_label_of_a_column_lies_on_the_heat_map():
    fig, ax = figures.new_figure(size=(7, 3))
    words = ["a", "girl", "karate", "uniform", "breaking", "a", "stick", "orangefarbenen"]
    figures.draw_attention(torch.rand(3, 8), ["x", "y", "z"], words, ax, title="T")
    with figures.style(), narrowed(fig):
        fig.draw_without_rendering()
        highest = max(label.get_window_extent().y1 for label in ax.get_xticklabels())
        assert highest <= ax.bbox.y0 + 1


def test_names_of_three_lines_below_bars_do_not_lie_upon_each_other_on_a_phone():
    names = [
        f"free masks\nby {score} score\nε = {margin}" for score in ("no", "released", "our") for margin in (0.2, 0.5)
    ]
    fig, ax = figures.new_figure(size=(12, 5))
    figures.draw_bars(names, {name: [72, 89, 79, 84, 61, 84] for name in ("F1", "optimality", "meets the margin")}, ax)
    figures.to_png(fig)
    with figures.style(), narrowed(fig):
        fig.draw_without_rendering()
        boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_title_of_a_panel_with_long_names_of_rows_stays_inside_the_picture():
    fig, ax = figures.new_figure(size=(10, 5.2))
    rows = ["information bottleneck, layer 1", "integrated gradients, layer 1"]
    figures.draw_attention(np.eye(2), rows, ["1", "2"], ax, title=LONG)
    with narrowed(fig):
        fig.draw_without_rendering()
        title = max((ax.title, ax._left_title), key=lambda text: len(text.get_text()))
        assert title.get_window_extent().x1 <= fig.bbox.x1, title.get_text()
    assert LONG in (ax.title.get_text(), ax._left_title.get_text()), "and the wide figure has its title back"
