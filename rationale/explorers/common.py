"""What the explorers share: text and run fields, read-outs, and models that stay loaded."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets

from rationale.errors import BadInput
from rationale.runs import saved
from rationale.runs.saved import SavedRun, load_run


def kept_per_run(number: int) -> Callable:
    """Decorator: the latest results of a function of a run's folder are kept until that run is made anew."""

    def decorate(function: Callable) -> Callable:
        kept = functools.lru_cache(number)(lambda run, _: function(run))

        @functools.wraps(function)
        def called(run: Path):
            model = Path(run) / "model.safetensors"
            return kept(run, model.stat().st_mtime_ns if model.exists() else 0)

        return called

    return decorate


@kept_per_run(16)
def model_of(run: Path) -> SavedRun:
    """A run on single texts, ready to predict; its folder names it.

    Raises
    ------
    BadInput
        If the run is one on pairs of sentences.
    """
    found = load_run(run)
    if found.task == "alignment":
        raise BadInput(f"{run}: a run on pairs of sentences; accepted is one on texts")
    return found


@kept_per_run(64)
def example_of(run: Path) -> str:
    """A text to begin with: the first of the run's dev texts that is neither short nor long."""
    tokens = saved.read_rationales(run, "dev")["tokens"]
    some = tokens[tokens.str.len().between(8, 30)]
    return " ".join((some if len(some) else tokens).iloc[0])


def text_field(text: str) -> ipywidgets.Textarea:
    """A field for a text of the reader's own."""
    style = {"layout": {"width": "100%", "max_width": "62em", "height": "4.5em"}, "style": {"description_width": "4em"}}
    return ipywidgets.Textarea(text, description="text", placeholder="type a text", **style)


def run_field(runs: Sequence[Path]) -> ipywidgets.Dropdown:
    """A choice among runs; its value is the folder of the chosen run."""
    options = [(f"{run.parent.name}/{run.name}", run) for run in runs]
    style = {"layout": {"width": "40em"}, "style": {"description_width": "4em"}}
    return ipywidgets.Dropdown(options=options, value=runs[0], description="run", **style)


def image_field(width: int) -> ipywidgets.Image:
    """A place for a PNG that is at most `width` pixels wide."""
    return ipywidgets.Image(format="png", layout={"max_width": "100%", "width": f"{width}px"})


def nothing_there(what: str, command: str) -> ipywidgets.HTML:
    """Shown where an explorer has no run: one line, with the command that makes one."""
    then = "then run this cell again, or load the page anew"
    return ipywidgets.HTML(f"<i>{what} is needed here. Make one: <code>{command}</code>, {then}.</i>")


def large() -> ipywidgets.HTML:
    """What makes an explorer readable from the last row of a room and on a phone: every explorer holds one."""
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


def read_out(text: str) -> str:
    """A live line under a picture, as HTML."""
    return f'<div class="rationale-read-out">{text}</div>'
