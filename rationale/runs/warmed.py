"""Imported only by the server of `warm`, because importing it takes seconds: what runs and their kernels import.

It also does once what every run would do for the first time: it reads the runs' notebooks and their sources, and makes
a page of each. None of this starts a thread or draws a random number. What looks for a kernel while it is imported, as
ipywidgets does, is left to the kernels.
"""

import importlib
import os
from contextlib import suppress
from pathlib import Path

from rationale.runs.cells import defaults
from rationale.runs.fingerprint import fingerprint
from rationale.runs.notebook_text import import_jupytext, parts_cells
from rationale.runs.page import lab_page
from rationale.runs.waiting import import_pandas
from rationale.runs.warm import NOTEBOOKS

MODULES = [
    "torch", "numpy", "matplotlib.pyplot", "IPython", "ipykernel.kernelapp", "ipykernel.ipkernel", "papermill",
    "nbclient",
    "rationale.training", "rationale.figures", "rationale.runs.claims", "rationale.runs.compare",
    "rationale.runs.predict", "rationale.runs.saved",
]  # fmt: skip
PAGE = "# %% [markdown]\n# # Title\n#\n# `code` $x$\n#\n# $$x \\tag{X1}$$\n# %%\nprint('text')  # a comment\n"

environment = dict(os.environ)
notebooks = filter(None, environment.pop(NOTEBOOKS, "").split(os.pathsep))

import_pandas()
with suppress(Exception):
    jupytext = import_jupytext()  # first: papermill would import what it leaves out
for module in MODULES:
    with suppress(Exception):  # the runs will say what is wrong
        importlib.import_module(module)
with suppress(Exception):
    nbformat = importlib.import_module("nbformat")
    page = jupytext.reads(PAGE, fmt="py:percent")
    data = {"text/plain": "1", "text/html": "<b>1</b>", "image/png": ""}
    page.cells[-1].outputs = [
        nbformat.v4.new_output("stream", text="text\n"),
        nbformat.v4.new_output("display_data", data=data),
        nbformat.v4.new_output("execute_result", data={"text/plain": "1"}),
    ]
    lab_page(page, "page")
    for notebook in notebooks:
        fingerprint(Path(notebook))
        lab_page(jupytext.read(notebook), "page")
        if not parts_cells(Path(notebook)):  # somebody's own code
            defaults(Path(notebook))

os.environ.clear()
os.environ.update(environment)  # without what the modules have set
