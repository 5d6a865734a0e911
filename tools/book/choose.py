"""The page of the book on which you choose among the committed results, by corpus, model and rate.

Its picture is drawn in the browser by `choose.js` from the rows of outputs/reference/results.csv, which the page
contains. It loads nothing, so it works without a network. Vega, on which Altair's pictures rest, would have to be
loaded or to come from a package of its own, and is a hundred times as long as this script.
"""

import csv
import json
import shlex
from typing import Any

from rationale.figures.words import WORDS
from rationale.runs.committed import reference_folder, setting
from rationale.runs.differences import defaults_of
from rationale.runs.parameters import WITHOUT_EFFECT, modernised
from rationale.runs.yaml_files import as_override

PAGE = """# Choose among the results

All committed results are on this page, each of them a number that one run has measured. Choose a corpus and a measure,
and then, if you like, one model or one rate. Each dot is a run. Point at it, tap it or reach it with the Tab key to see
which run it is and the command that repeats it. A click keeps the run in view, so that you can copy its command.

<div id="choose"></div>

<script type="application/json" id="choose-data">{data}</script>

What the measures mean is said where they are used: in `31_selection_rates` for sentences, in `32_reviews` for reviews,
in `23_read_nli` for pairs, in `24_read_probes` for probes and in `25_read_seq2seq` for translation.
"""
KEPT = ("task", "corpus", "aspect", "model", "variant", "vectors", "settings", "seed", "run", "device", "commit")


def choose_page() -> str:
    """The page in Markdown, with its data."""
    return PAGE.format(data=json.dumps(results_data(), separators=(",", ":")).replace("<", "\\u003c"))


def results_data() -> dict[str, Any]:
    """What `choose.js` reads: `units`, the command of each run, and words for names of code.

    A unit is a model of a run. It has the columns `KEPT` of results.csv, its target or price in words, and its values
    by split and metric, written as they are in the file.
    """
    units: dict[tuple, dict[str, Any]] = {}
    with open(reference_folder() / "results.csv", encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            key = tuple(value for name, value in row.items() if name not in ("split", "metric", "value"))
            if key not in units:
                rate = setting(row["model"], float(row["target"]), float(row["sparsity"]))
                units[key] = {name: row[name] for name in KEPT} | {"rate": rate or "none", "values": {}}
            units[key]["values"].setdefault(row["split"], {})[row["metric"]] = row["value"]
    records = json.loads((reference_folder() / "runs.json").read_text("utf-8"))
    commands = {record["run"]: command_of(record["run"], record["parameters"]) for record in records}
    return {"units": list(units.values()), "commands": commands, "words": WORDS}


def overrides_of(run: str, parameters: dict[str, Any]) -> list[str]:
    """The settings of a committed run that differ from today's defaults of its notebook, as overrides.

    A setting that the notebook no longer has, or that changes no result, is left out.
    """
    usual = defaults_of(run.split("/")[0])
    given = {name: value for name, value in modernised(parameters).items() if name in usual}
    names = [name for name in given if name not in WITHOUT_EFFECT and given[name] != usual[name]]
    return [as_override(name, given[name]) for name in names]


def command_of(run: str, parameters: dict[str, Any]) -> str:
    """The command that repeats a committed run."""
    notebook, name = run.split("/")
    words = [".venv/bin/python", "-m", "rationale.runs", notebook, *overrides_of(run, parameters), "--name", name]
    return shlex.join(words)
