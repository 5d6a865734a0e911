"""The programs in tools/ that no other test file is about: the audit, and the server of the explorers."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace

import jupytext
import pytest

from rationale.errors import BadInput
from rationale.runs import root
from tests.playground import require_installed
from tools import small_transformer, twins
from tools.audit import look_up, report
from tools.notebooks import read_notebook

SILENT = {"name": "torch", "skip_reason": "Dependency not found"}
SAFE = {"name": "numpy", "version": "2.0", "vulns": []}
FLAWED = {"name": "pillow", "version": "9.0", "vulns": [{"id": "CVE-1", "fix_versions": ["9.1"]}]}


@pytest.mark.parametrize(
    "packages, code, last",
    [
        ([], 3, "no advisory source can be reached from here: nothing has been audited"),
        ([SILENT, SILENT], 3, "no advisory source can be reached from here: nothing has been audited"),
        ([SAFE, SILENT], 3, "1 of 2 packages were looked up, 0 vulnerabilities are known"),
        ([SAFE, FLAWED], 1, "2 of 2 packages were looked up, 1 vulnerability is known"),
        ([SAFE], 0, "1 of 1 packages were looked up, 0 vulnerabilities are known"),
    ],
)
def test_an_audit_never_calls_a_package_safe_that_nobody_looked_up(packages, code, last):
    found, lines = report(packages)
    assert (found, lines[-1]) == (code, last)
    assert ("pillow 9.0: CVE-1, mended in 9.1" in lines) == (FLAWED in packages)


@pytest.mark.parametrize("answer", ["", "no JSON", "[]", "null", "{}"])
def test_an_advisory_source_that_answers_nothing_useful_is_silent(answer, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=answer))
    assert look_up("pypi") == []


def test_every_tool_is_a_command_whose_bad_input_is_one_line():
    files = [file for file in sorted((root() / "tools").rglob("*.py")) if "\ndef main(" in file.read_text()]
    assert len(files) > 10
    lacking = [file.name for file in files if "@command\ndef main(" not in file.read_text()]
    assert not lacking, "their mistakes end in a traceback"


def test_two_notebooks_of_one_name_have_no_twins(tmp_path, capsys):
    """One twin would silently take the place of the other."""
    files = [tmp_path / place / "small.py" for place in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text("# %%\n1 + 1\n")
    assert twins.main(list(map(str, files))) == 2
    assert "small: two notebooks have this name" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"cells": [], "nbformat": 4}', "\xff"])
def test_a_file_that_holds_no_notebook_is_refused_in_one_line(content, tmp_path):
    (tmp_path / "run.ipynb").write_text(content, "latin-1")
    with pytest.raises(BadInput, match="run.ipynb: damaged, it holds no notebook"):
        read_notebook(tmp_path / "run.ipynb")


def test_gates_that_may_collapse_are_measured_again_without_losing_rows(tmp_path, monkeypatch):
    """A measurement that is stopped after its first model has replaced the row of this model, and no other."""

    def first(folder, model, start, seed):
        if (model, seed) != ("full_text", 1):
            raise KeyboardInterrupt
        return {"model": model, "start": start, "seed": seed, "test_accuracy": 0.5, "torch": "new"}

    file = tmp_path / small_transformer.TRANSFORMER_START
    lines = ["model,start,seed,test_accuracy,torch"]
    lines += [f"{kind},{seed},0.75,old" for seed in (1, 2) for kind in ("full_text,none", "hardkuma,none")]
    file.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(small_transformer, "reference_folder", lambda: tmp_path)
    monkeypatch.setattr(small_transformer, "train_one", first)
    assert small_transformer.main([]) == 130
    assert file.read_text().splitlines() == [lines[0], "full_text,none,1,0.5,new", *lines[2:]]


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
