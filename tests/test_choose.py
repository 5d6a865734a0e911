"""The page on which one chooses among the committed results: its data are the file's, its commands make the runs."""

import csv
import json
import re
import shlex

import pytest

from rationale.runs import notebook_path
from rationale.runs.committed import reference_folder
from rationale.runs.differences import defaults_of
from rationale.runs.parameters import WITHOUT_EFFECT, modernised, resolve
from tools.book.choose import KEPT, choose_page, overrides_of, results_data


def committed() -> list[dict[str, str]]:
    with open(reference_folder() / "results.csv", encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def as_rows(data: dict) -> list[tuple[str, ...]]:
    """The rows of results.csv that the data of the page hold."""
    return [
        (*(unit[name] for name in KEPT), split, metric, value)
        for unit in data["units"]
        for split, values in unit["values"].items()
        for metric, value in values.items()
    ]


def test_the_page_holds_every_committed_row_as_it_is_written_in_the_file() -> None:
    found = re.search(r'<script type="application/json" id="choose-data">(.*?)</script>', choose_page(), re.S)
    assert found and "<" not in found[1]
    rows = [(*(row[name] for name in KEPT), row["split"], row["metric"], row["value"]) for row in committed()]
    assert sorted(as_rows(json.loads(found[1]))) == sorted(rows)


def test_the_menus_tell_all_values_of_a_run_apart() -> None:
    seen = [
        (unit["task"], unit["corpus"], unit["aspect"], unit["run"], unit["model"]) for unit in results_data()["units"]
    ]
    assert len(seen) == len(set(seen)), "a run has two values of the same measure of the same model"


def test_every_run_has_a_command_and_the_command_gives_its_parameters() -> None:
    data = results_data()
    assert set(data["commands"]) == {unit["run"] for unit in data["units"]}
    for record in json.loads((reference_folder() / "runs.json").read_text("utf-8")):
        run, recorded = record["run"], modernised(record["parameters"])
        words = shlex.split(data["commands"][run])
        items = overrides_of(run, record["parameters"])
        notebook, name = run.split("/")
        assert words == [".venv/bin/python", "-m", "rationale.runs", notebook, *items, "--name", name]
        made, usual = resolve(notebook_path(notebook), items), defaults_of(notebook)
        wrong = {
            key: (value, made[key])
            for key, value in recorded.items()
            if key in usual and key not in WITHOUT_EFFECT and made[key] != value
        }
        assert not wrong, f"{run}: {wrong}"


@pytest.mark.parametrize("run", ["12_train_sst/hardkuma-selection0.4-seed2"])
def test_a_command_gives_only_what_differs_from_the_defaults(run: str) -> None:
    [record] = [one for one in json.loads((reference_folder() / "runs.json").read_text("utf-8")) if one["run"] == run]
    items = overrides_of(run, record["parameters"])
    assert "selection=0.4" in items and "seed=2" in items and len(items) < 8
