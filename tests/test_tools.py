"""The programs in tools/ that no other test file is about: the audit, and the server of the explorers."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import jupytext
import pytest

from rationale.runs import root
from tests.playground import require_installed
from tools.audit import report

SILENT = {"name": "torch", "skip_reason": "Dependency not found"}
SAFE = {"name": "numpy", "version": "2.0", "vulns": []}
FLAWED = {"name": "pillow", "version": "9.0", "vulns": [{"id": "CVE-1", "fix_versions": ["9.1"]}]}


@pytest.mark.parametrize(
    "packages, code, last",
    [
        ([], 3, "no advisory source can be reached from here: nothing has been audited"),
        ([SILENT, SILENT], 3, "no advisory source can be reached from here: nothing has been audited"),
        ([SAFE, SILENT], 3, "1 of 2 packages were looked up, 0 vulnerabilities are known"),
        ([SAFE, FLAWED], 1, "2 of 2 packages were looked up, 1 vulnerabilities are known"),
        ([SAFE], 0, "1 of 1 packages were looked up, 0 vulnerabilities are known"),
    ],
)
def test_an_audit_never_calls_a_package_safe_that_nobody_looked_up(packages, code, last):
    found, lines = report(packages)
    assert (found, lines[-1]) == (code, last)
    assert ("pillow 9.0: CVE-1, mended in 9.1" in lines) == (FLAWED in packages)


@contextlib.contextmanager
def serving(page, *flags: str) -> Iterator[str]:
    """The address of the explorers' server for a notebook."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        str(root() / "tools" / "explore.py"),
        str(page),
        "--no-browser",
        f"--port={port}",
        *flags,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < until:
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def status(address: str, host: str = "") -> int:
    """The status of a request with this Host header."""
    try:
        request = urllib.request.Request(address, headers={"Host": host} if host else {})
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
def test_the_page_of_explorers_is_for_this_machine_and_for_few_kernels_at_once(tmp_path):
    require_installed("voila", "explore")
    page = tmp_path / "page.ipynb"
    notebook = jupytext.reads("# %%\n1 + 1\n", fmt="py:percent")
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    jupytext.write(notebook, page)
    flags = ("--FewKernels.pages=1", "--MappingKernelManager.cull_idle_timeout=10")  # more than two requests take
    with serving(page, *flags, "--MappingKernelManager.cull_interval=1") as address:
        assert status(address, "evil.example") == 403, "a web site could read the page through the browser"
        assert status(address, "localhost") == 200
        assert status(address) == 503, "one kernel is the limit"
        until = time.monotonic() + 60
        while (answer := status(address)) == 503 and time.monotonic() < until:
            time.sleep(0.5)
        assert answer == 200, "a kernel without a page has ended"


HEAVY = {"numba", "pandas", "scipy", "transformers", "sklearn", "sympy", "torch._dynamo", "matplotlib.pyplot"}
WITHOUT_RUNS = """
import sys
from rationale.explorers import explore_mappings, explore_shapes
explore_shapes(), explore_mappings(lam=0.2)
print(*sys.modules)
"""


def test_the_explorers_that_need_no_run_import_nothing_heavy():
    """The kernel of a page without runs takes about 330 MB, of which 190 MB are torch; with numba it took 450 MB."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_RUNS], capture_output=True, text=True, cwd=root(), check=True)
    assert not HEAVY & set(done.stdout.split())
