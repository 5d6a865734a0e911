"""What tests share: a folder of small runs; the marker `data`, for real data; pictures of what failed in a browser."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rationale.errors import BadInput

os.environ["RATIONALE_CACHE"] = "off"  # but for the tests of the cache

HOW = (
    "real data needed: set RATIONALE_DATA to a folder that holds it "
    "(or fetch it with `python -m rationale.data fetch sst` and point RATIONALE_DATA at that folder)"
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import what comes first, in each process that collects tests; the one that leads those of xdist does not."""
    options = session.config.option
    if getattr(options, "dist", "no") != "no" and not hasattr(session.config, "workerinput"):
        return
    from rationale.runs.notebook_text import import_jupytext

    with contextlib.suppress(BadInput):  # on a bare machine with a GPU, whose tests need no notebook
        import_jupytext()  # first, and without the parser that takes two seconds of the collection
    with contextlib.suppress(ImportError):  # on a bare machine, as above
        from hypothesis import HealthCheck, settings

        # No timing is asserted, not even that examples are drawn quickly while other work keeps the cores busy.
        settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("busy machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("RATIONALE_DATA"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=HOW))


def pytest_runtest_setup(item: pytest.Item) -> None:
    import torch

    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no GPU on this machine")  # from one place, so that pytest reports all of them in one line
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile and torch.export set it to False


@pytest.fixture(scope="session")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all test processes, so that a run which others read is made once."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "smoke"


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    """A headless browser, see `tests.browser`; without one, the tests that need it fail with a line that says so."""
    from tests.browser import browser

    try:
        with browser() as chromium:
            yield chromium
    except BadInput as error:
        pytest.fail(str(error), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.failed and item.get_closest_marker("browser"):
        from tests.browser import Visit, picture_of

        if Visit.latest:
            report.sections.append(("what the browser showed", str(picture_of(Visit.latest, item.name))))
    return report


def at_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Let the package take `home` for the repository."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("rationale", "tools") and "root" in vars(module):
            monkeypatch.setattr(module, "root", lambda: home)
