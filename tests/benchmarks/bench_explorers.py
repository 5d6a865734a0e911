"""Explorers in a browser: from a key on a slider to its new picture on the screen, in JupyterLab.

The clock is the page's: it runs from the event of the key to the frame in which the new picture stands. The browser
draws it and asks no kernel. Left out where there is no chromium (`make
test-browser` installs Playwright). Alone: python -m tests.benchmarks --only explorers
"""

import atexit
import functools
import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests import browser

COMPARED = False
EXPLORERS = {"shapes": "explore_shapes()", "attention": "explore_mappings(lam=0.2)"}
# what stands in the page: `window.taken` becomes the milliseconds from the last key to the picture it led to
CLOCK = """explorer => {
    document.addEventListener('keydown', () => { window.pressed = performance.now(); window.taken = null; }, true);
    new MutationObserver(() => requestAnimationFrame(() => {
        if (window.taken === null) window.taken = performance.now() - window.pressed;
    })).observe(explorer, {attributes: true, attributeFilter: ['data-milliseconds']});
}"""


@functools.cache
def _open() -> tuple[Any, browser.Server]:
    """A browser and JupyterLab, ended with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    return stack.enter_context(browser.browser()), stack.enter_context(browser.lab(folder))


def clocked(shown: Any) -> Any:
    """The first slider of an explorer in an output area, focused; its picture is clocked from now on."""
    shown.locator(".rationale-explorer").first.evaluate(CLOCK)
    handle = shown.locator(".rationale-explorer input[type=range]").first
    handle.focus()
    return handle


def press(handle: Any, key: str) -> float:
    """Seconds from a key on a clocked slider to the picture."""
    handle.press(key)
    return handle.page.wait_for_function("window.taken").json_value() / 1000


@functools.cache
def _slider(call: str) -> Any:
    """A clocked slider of an explorer that is on the screen; keys in turn, so that it never comes to its end."""
    started, server = _open()
    code = f"from rationale import explorers\nexplorers.{call}"
    visit = browser.Visit(started)
    visit.open_notebook(server, browser.write_notebook(server.folder / f"{call.split('(')[0]}.py", code))
    visit.run_all()
    visit.wait()
    return clocked(visit.show("interactive")), itertools.cycle(["ArrowRight"] * 5 + ["ArrowLeft"] * 5)


def _timed(call: str) -> float:
    handle, keys = _slider(call)
    return press(handle, next(keys))


def cases() -> dict[str, dict[str, Callable[[], float]]]:
    if not browser.installed():
        return {}
    ways = {name: functools.partial(_timed, call) for name, call in EXPLORERS.items()}
    return {"explorers in JupyterLab, from a key to the picture": ways}
