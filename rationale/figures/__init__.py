"""Figures and highlighted text: pure functions of numbers, with one shared look and no global state.

Every `draw_*(..., ax)` draws into the axes it is given and returns them. The look is applied by a context manager
around each call (`style`), never on import, and nothing here needs pyplot:

    fig, ax = new_figure()
    draw_hardkuma(0.5, 0.5, -0.1, 1.1, ax, title="All mass beyond 0 and 1 collapses onto 0 and 1")
    fig                                   # the last expression of a notebook cell: shows the picture

A title states the finding, and axes have units. Shares are given in [0, 1] and drawn in per cent. A NaN raises an
error; it is never drawn as a gap in a line.
"""

from rationale.errors import optional

optional("matplotlib", "figures", "notebooks")

from rationale.figures.attention import (
    draw_attention,
    draw_chosen_row,
    draw_jacobians,
    draw_mappings,
    draw_simplex,
    draw_states,
)
from rationale.figures.comparisons import draw_score_against_rate, draw_score_by_setting
from rationale.figures.curves import (
    draw_bars,
    draw_confusion,
    draw_dual,
    draw_history,
    draw_lines,
    draw_predictions,
    draw_rate_histogram,
    draw_word_sentiment,
    label_lines,
)
from rationale.figures.distributions import (
    VIEWS,
    draw_cdf,
    draw_decisions,
    draw_explorer,
    draw_hardkuma,
    draw_hardkuma_grid,
    draw_histogram_vs_density,
    draw_kumaraswamy,
    draw_matched_beta,
    draw_mean_as_area,
    draw_slopes,
    matched_beta,
    slopes,
)
from rationale.figures.look import (
    FORMATS,
    LOOK,
    Picture,
    draw_panel,
    live_figure,
    live_png,
    new_figure,
    save_figure,
    show,
    show_source,
    style,
    to_png,
)
from rationale.figures.phase import draw_phase_portrait
from rationale.figures.tables import save_table, show_folded, show_table
from rationale.figures.text import Html, highlight_html, highlight_svg
from rationale.figures.words import in_words, scores_in_words, token_in_words
from rationale.highlight import highlight_ansi

__all__ = [
    "FORMATS",
    "LOOK",
    "VIEWS",
    "Html",
    "Picture",
    "draw_attention",
    "draw_bars",
    "draw_cdf",
    "draw_chosen_row",
    "draw_confusion",
    "draw_decisions",
    "draw_dual",
    "draw_explorer",
    "draw_hardkuma",
    "draw_hardkuma_grid",
    "draw_histogram_vs_density",
    "draw_history",
    "draw_jacobians",
    "draw_kumaraswamy",
    "draw_lines",
    "draw_mappings",
    "draw_matched_beta",
    "draw_mean_as_area",
    "draw_panel",
    "draw_phase_portrait",
    "draw_predictions",
    "draw_rate_histogram",
    "draw_score_against_rate",
    "draw_score_by_setting",
    "draw_simplex",
    "draw_slopes",
    "draw_states",
    "draw_word_sentiment",
    "highlight_ansi",
    "highlight_html",
    "highlight_svg",
    "in_words",
    "label_lines",
    "live_figure",
    "live_png",
    "matched_beta",
    "new_figure",
    "save_figure",
    "save_table",
    "scores_in_words",
    "show",
    "show_folded",
    "show_source",
    "show_table",
    "slopes",
    "style",
    "to_png",
    "token_in_words",
]
