"""JupyterLab, Voilà and a browser, for tests/test_browser.py and the benchmark of the explorers.

A server listens on loopback at a free port, keeps what it writes in a temporary folder and serves copies of the
notebooks: it leaves the repository and the user's own JupyterLab alone. The browser reaches 127.0.0.1, nothing else.
"""

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jupytext
import nbformat
import psutil

from rationale.errors import BadInput
from rationale.runs import root

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
PROJECTOR = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
PATIENCE = 240  # seconds for a server, a page or a cell: the machine may be busy
READY = "window.jupyterapp?.shell.currentWidget?.sessionContext"
RUN_ALL = """() => {
    window.finished = false;
    const run = async () => {
        await jupyterapp.restored;
        const panel = jupyterapp.shell.currentWidget;
        await panel.context.ready;
        await panel.sessionContext.ready;
        await jupyterapp.commands.execute('notebook:run-all-cells');
    };
    run().then(() => { window.finished = true; });
}"""
CELLS = "() => jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.toJSON())"
SHOW = """async index => {
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, 'start');
}"""


class Server(NamedTuple):
    """Where a server answers, and the folder it serves."""

    url: str
    token: str
    folder: Path


@contextmanager
def lab(folder: Path) -> Iterator[Server]:
    """JupyterLab as `make lab` starts it, over `folder`; ended with all its kernels on leaving."""
    runtime = folder / ".jupyter" / "runtime"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    # should this process be killed, the server ends by itself
    command += ["--ServerApp.shutdown_no_activity_timeout=900", "--MappingKernelManager.cull_idle_timeout=600"]
    with _started(command, folder) as process:

        def answer() -> Server | None:
            file = runtime / f"jpserver-{process.pid}.json"
            if not file.is_file() or not (text := file.read_text(encoding="utf-8")).endswith("}"):
                return None
            facts = json.loads(text)
            return Server(f"http://127.0.0.1:{facts['port']}", facts["token"], folder)

        yield _wait_for(answer, process, folder)


@contextmanager
def explore(folder: Path) -> Iterator[Server]:
    """The page that `make explore` opens, of the copies of notebooks in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["make", "--file", str(root() / "Makefile"), "--old-file", ".venv/explore", "explore"]
    command += [f"BIN={Path(sys.executable).parent}/", f"VOILA_FLAGS=--no-browser --port={port}"]
    with _started(command, folder) as process:

        def answer() -> Server | None:
            with socket.socket() as asked:
                there = asked.connect_ex(("127.0.0.1", port)) == 0
            return Server(f"http://127.0.0.1:{port}", "", folder) if there else None

        yield _wait_for(answer, process, folder)


@contextmanager
def _started(command: list[str], folder: Path) -> Iterator[subprocess.Popen]:
    """A process that keeps to `folder`; it and all that it has started are ended on leaving."""
    own = {name: str(folder / ".jupyter" / name.split("_")[1].lower()) for name in (
        "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTERLAB_WORKSPACES_DIR")}  # fmt: skip
    own |= {"IPYTHONDIR": str(folder / ".jupyter" / "ipython"), "JUPYTER_CONFIG_PATH": str(root() / "jupyter")}
    own |= {"PYTHONPATH": str(root()), "OMP_NUM_THREADS": "1"}
    with open(folder / "server.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for child in children:
            if child.is_running():
                child.kill()  # kernels have nothing to tidy up, and asking them politely takes seconds
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(answer: Callable[[], Server | None], process: subprocess.Popen, folder: Path) -> Server:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        if (found := answer()) is not None:
            return found
        time.sleep(0.1)
    said = (folder / "server.log").read_text(encoding="utf-8").strip()[-2000:]
    raise RuntimeError(f"the server did not come up:\n{said}")


def copy_notebook(name: str, folder: Path, **parameters: Any) -> Path:
    """A copy of a text notebook to open, with parameters of its own and, if it saves results, a place for them.

    Parameters
    ----------
    name : str
        `04_explore_shapes`.
    folder : Path
        What the server serves; the copy goes into its `notebooks/`, its results into `results/<name>`.
    parameters
        Put into a cell after the notebook's own parameters, as the runner does.
    """
    text = (root() / "notebooks" / f"{name}.py").read_text(encoding="utf-8")
    lines = [f"{key} = {value!r}" for key, value in parameters.items()]
    if "results_folder(" in text:
        lines += ["import os", f"os.environ['RATIONALE_RUN_DIR'] = {str(folder / 'results' / name)!r}"]
    before, mark, after = text.partition('tags=["parameters"]')
    cell, following, rest = after.partition("\n# %%")
    text = before + mark + cell + "\n# %%\n" + "\n".join(lines) + "\n" + following + rest
    target = folder / "notebooks" / f"{name}.py"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text, encoding="utf-8")
    shutil.copy(root() / "jupytext.toml", folder)
    return target


def write_notebook(path: Path, code: str) -> Path:
    """A text notebook of one cell, tagged as interactive."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    )
    notebook.cells.append(nbformat.v4.new_code_cell(code, metadata={"tags": ["interactive"]}))
    jupytext.write(notebook, path, fmt="py:percent")
    return path


def installed() -> bool:
    """Whether Playwright and one of `PROGRAMS` are there."""
    return importlib.util.find_spec("playwright") is not None and any(map(shutil.which, PROGRAMS))


@contextmanager
def browser() -> Iterator[Any]:
    """A headless chromium (Playwright's `Browser`).

    Raises
    ------
    BadInput
        If Playwright or a browser is missing.
    """
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise BadInput("Playwright is missing: `make test-browser` installs it, or pip install playwright") from None
    found = [path for path in map(shutil.which, PROGRAMS) if path]
    with sync_playwright() as playwright:
        try:
            program = {"executable_path": found[0]} if found else {}
            started = playwright.chromium.launch(**program, args=FLAGS, ignore_default_args=["--hide-scrollbars"])
        except Error as error:
            if found:
                raise
            raise BadInput("no chromium: apt-get install chromium, or python -m playwright install chromium") from error
        try:
            yield started
        finally:
            Visit.latest = None
            started.close()


class Visit:
    """One page in a browser, and what there is to complain of.

    Attributes
    ----------
    page : Playwright's Page
    complaints : list of str
        Errors in the console, exceptions of scripts, requests to other hosts than 127.0.0.1.
    latest : Visit or None
        The one whose page was used last (class attribute): its picture goes with a failure.
    """

    latest: "Visit | None" = None

    def __init__(self, started: Any, size: dict[str, int] = PROJECTOR, known: str = "", touch: bool = False):
        """`known` is the beginning of addresses that are asked for and may be."""
        self.complaints: list[str] = []
        self.known, Visit.latest = known, self
        context = started.new_context(viewport=size, has_touch=touch)
        context.on("request", lambda request: self._look_at(request.url))
        context.on("console", self._listen)
        context.on("weberror", lambda error: self.complaints.append(f"exception: {error.error}"))
        self.page = context.new_page()
        self.page.on("websocket", lambda socket: self._look_at(socket.url))
        self.page.set_default_timeout(1000 * PATIENCE)

    def _look_at(self, url: str) -> None:
        parts = urlsplit(url)
        outside = parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"
        if outside and not (self.known and url.startswith(self.known)):
            self.complaints.append(f"request to another host: {url[:200]}")

    def _listen(self, message: Any) -> None:
        url = message.location.get("url", "")
        if message.type == "error" and not (self.known and url.startswith(self.known)):
            self.complaints.append(f"console: {message.text[:500]} ({url[:200]})")

    def open_page(self, server: Server) -> None:
        """Open Voilà's page and wait for its first picture."""
        self.page.goto(server.url, wait_until="commit")  # its load event comes when all cells have run
        self.page.wait_for_selector(".rationale-explorer svg")

    def open_notebook(self, server: Server, path: Path) -> None:
        """Open a text notebook by its address in JupyterLab; does not wait for it."""
        where = path.relative_to(server.folder).as_posix()
        self.page.goto(f"{server.url}/lab/tree/{where}?token={server.token}&reset", wait_until="commit")

    def run_all(self) -> None:
        """Run all cells as soon as the notebook is there; `wait` waits for the last."""
        self.page.wait_for_function(READY)
        self.page.evaluate(RUN_ALL)

    def wait(self) -> None:
        self.page.wait_for_function("window.finished", timeout=3000 * PATIENCE)

    def cells(self) -> list[dict]:
        """The open notebook's cells as JSON, with their outputs."""
        return self.page.evaluate(CELLS)

    def show(self, tag: str) -> Any:
        """Scroll to the last cell with this tag; return its output area as a locator."""
        index = max(i for i, cell in enumerate(self.cells()) if tag in cell["metadata"].get("tags", []))
        self.page.evaluate(SHOW, index)
        output = self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"] .jp-Cell-outputArea')
        output.wait_for()
        output.scroll_into_view_if_needed()
        return output


def picture_of(visit: Visit, name: str) -> Path:
    """A picture of what a visit shows, in outputs/browser/."""
    path = root() / "outputs" / "browser" / (re.sub(r"[^\w.-]+", "-", name).strip("-") + ".png")
    visit.page.screenshot(path=path)
    return path
