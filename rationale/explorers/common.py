"""What the explorers share: fields for texts and runs, read-outs, and models that stay loaded."""

import functools
import html
from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets

from rationale.errors import BadInput
from rationale.runs import saved
from rationale.runs.saved import SavedRun, load_run


def cache_per_run(maxsize: int) -> Callable:
    """Decorator for a function of a run's folder: cache its latest results, each until the run's model changes."""

    def decorate(function: Callable) -> Callable:
        cached = functools.lru_cache(maxsize)(lambda run, _: function(run))

        @functools.wraps(function)
        def wrapper(run: Path):
            model = Path(run) / "model.safetensors"
            return cached(run, model.stat().st_mtime_ns if model.exists() else 0)

        return wrapper

    return decorate


@cache_per_run(16)
def load_text_run(run: Path) -> SavedRun:
    """Load a run on single texts.

    Raises
    ------
    BadInput
        If the folder holds no finished run, or a run on pairs of sentences.
    """
    loaded = load_run(run)
    if loaded.of_pairs:
        raise BadInput(f"{run}: a run on pairs of sentences; a run on texts is accepted")
    return loaded


@cache_per_run(64)
def example_text(run: Path) -> str:
    """The first of the run's dev texts that has 8 to 30 tokens, or the very first if there is none."""
    tokens = saved.read_rationales(run, "dev")["tokens"]
    suitable = tokens[tokens.str.len().between(8, 30)]
    return " ".join((suitable if len(suitable) else tokens).iloc[0])


def text_field(text: str, label: str) -> ipywidgets.Textarea:
    """A field in which to type a text. No other field of a page should have its label."""
    layout = {"width": "100%", "max_width": "62em", "height": "4.5em"}
    style = {"layout": layout, "style": {"description_width": "initial"}}
    return ipywidgets.Textarea(text, description=label, placeholder="type a text", **style)


def run_field(runs: Sequence[Path], label: str) -> ipywidgets.Dropdown:
    """A menu of runs; its value is the folder of the chosen run. No other field of a page should have its label."""
    options = [(f"{run.parent.name}/{run.name}", run) for run in runs]
    style = {"layout": {"width": "40em"}, "style": {"description_width": "initial"}}
    return ipywidgets.Dropdown(options=options, value=runs[0], description=label, **style)


def image_field(width: int) -> ipywidgets.Image:
    """A place for a PNG image of at most `width` pixels."""
    return ipywidgets.Image(format="png", layout={"max_width": "100%", "width": f"{width}px"})


def missing_run_message(requirement: str, command: str) -> ipywidgets.HTML:
    """One line that takes the place of an explorer without a run: what it requires, and the command that makes it."""
    next_step = "then run this cell again, or reload the page"
    what, how = html.escape(requirement, quote=False), html.escape(command, quote=False)
    return ipywidgets.HTML(f"<i>{what} is needed here. Make one: <code>{how}</code>, {next_step}.</i>")


def enlarged_style() -> ipywidgets.HTML:
    """The style sheet of every explorer: readable from the last row of a lecture hall, and on a phone."""
    style = ipywidgets.HTML(
        """<style>
        :root { --jp-widgets-font-size: 18px; --jp-widgets-inline-height: 36px; }
        .rationale-read-out { font-size: 21px; line-height: 1.6; }
        .rationale-gate { height: 64px; width: 30px; margin: auto; border: 1px solid #767676; }
        .rationale-z { font-size: 15px; line-height: 1.2; text-align: center; }
        .widget-vbox:has(> .rationale-large) > * { max-width: calc(100% - 4px); }
        .widget-vbox:has(> .rationale-large) > .widget-image { margin: 0; }
        .widget-vbox:has(> .rationale-large) > .widget-hbox { flex-wrap: wrap; }
        .widget-vslider .widget-label, .widget-vslider .widget-readout { flex-shrink: 0; }
        </style>"""
    )
    return style.add_class("rationale-large")


def format_readout(text: str) -> str:
    """The line of numbers or text of an explorer, as HTML."""
    return f'<div class="rationale-read-out">{text}</div>'
