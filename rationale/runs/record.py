"""What the folder of a run records about it: params.yaml (all parameters), environment.txt and notes.json."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from rationale.errors import BadInput, cut, printable
from rationale.files import write_text
from rationale.runs.environment import PARTS_OF, describe_environment
from rationale.runs.intact import read_yaml
from rationale.runs.own_parts import digests_of
from rationale.runs.parameters import modernised
from rationale.runs.workspace import read_if_there, root
from rationale.runs.yaml_files import is_override

NOTES = "notes.json"  # what the run has printed after `note: `
SHOWN = 5  # parameters that differ, in a message
BY_PAPERMILL = "executed by: papermill\n"  # a line of environment.txt; the runner's own runs have a run.ipynb instead


def write_record(folder: Path, notebook: str, params: Mapping[str, Any], code: str, threads: str, by: str = "") -> None:
    """Write both files of a run of `notebook`; `by` is a last line of environment.txt, such as `BY_PAPERMILL`."""
    write_text(folder / "environment.txt", describe_environment(notebook, dict(params), code, threads) + by)
    write_text(folder / "params.yaml", yaml.safe_dump(dict(params), sort_keys=False, allow_unicode=True))


def write_notes(folder: Path, notes: Iterable[str]) -> None:
    """Write the notes that a run has printed, so that they can be read beside its model."""
    write_text(folder / NOTES, json.dumps(list(notes), ensure_ascii=False, indent=1) + "\n")


def made_of(notebook: Path, items: Iterable[str]) -> str:
    """The line of environment.txt about a run's notebook, parameter files and overrides.

    The name of a run has only the names of its files without their folders, so another run may have the same name.
    """

    def place(text: str) -> str:
        path, home = Path(os.path.realpath(text)), Path(os.path.realpath(root()))
        return str(path.relative_to(home) if path.is_relative_to(home) else path)

    return f"made of: {json.dumps([place(str(notebook)), *(i if is_override(i) else place(i) for i in items)])}\n"


def made_of_others(folder: Path, notebook: Path, items: Iterable[str]) -> str:
    """`a/same.yaml seed=1`, of which the run of a folder was made; "" if of the same as here, or if it is not known.

    What counts are the notebook, the parameter files, and overrides with a path: a name does not tell them apart.
    """
    found = _recorded(folder, "made of", r"\[.*\]")
    try:
        there = [str(item) for item in json.loads(found)] if found else []
    except ValueError:
        return ""
    here = json.loads(made_of(notebook, items).partition(": ")[2])
    placed, placed_here = ([i for i in given if not is_override(i) or "/" in i] for given in (there, here))
    if not there or placed == placed_here:
        return ""
    return printable(" ".join(there[1:] if there[0] == here[0] and there[1:] else there))


def recorded_params(folder: Path) -> dict[str, Any]:
    """The parameters that a folder records; {} if it records none, or they are damaged."""
    try:
        return modernised(read_yaml(folder / "params.yaml"))
    except BadInput:
        return {}


def recorded_code(folder: Path) -> str:
    """The fingerprint that a folder records; "" if it records none."""
    return _recorded(folder, "code", r"\w+")


def changed_parts(folder: Path, params: Mapping[str, Any]) -> list[str]:
    """The files of the run's parts of one's own that define them in other words than when the run was made.

    A run that is older than this record has none.
    """
    now = digests_of(params)
    then = {file: _recorded(folder, re.escape(f"{PARTS_OF}{file}"), "[0-9a-f]{12}") for file in now}
    return [file for file in now if then[file] not in ("", now[file])]


def recorded_seconds(folder: Path) -> float | None:
    """The seconds that a finished run has recorded; None if it was continued, so that they are a part of its time."""
    seconds = _recorded(folder, "seconds", r"\d+(?:\.\d+)?")
    return float(seconds) if seconds else None


def _recorded(folder: Path, name: str, pattern: str) -> str:
    """A fact of a folder's environment.txt; "" if there is none, or it is not as `pattern` has it."""
    match = re.search(rf"^{name}: ({pattern})$", read_if_there(folder / "environment.txt"), re.M)
    return match[1] if match else ""


def is_by_papermill(folder: Path) -> bool:
    """Whether plain papermill has executed the run of this folder, see `plain`."""
    return BY_PAPERMILL in read_if_there(folder / "environment.txt")


def unlike_recorded(folder: Path, params: Mapping[str, Any]) -> str:
    """`with other parameters (seed 1 there, 2 here)`; "" if a run has the parameters that are given here."""
    try:
        there = modernised(read_yaml(folder / "params.yaml"))
    except BadInput as error:
        return f"whose parameters cannot be read ({str(error).partition('; ')[0]})"
    unlike = difference(there, params)
    return f"with other parameters ({unlike})" if unlike else ""


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """`seed 1 there, 2 here`, for the first parameters that differ; "" if the parameters are the same."""
    pairs = {key: (there.get(key, "missing"), here.get(key, "missing")) for key in {**there, **here}}
    unlike = [f"{key} {cut(str(old))} there, {cut(str(new))} here" for key, (old, new) in pairs.items() if old != new]
    more = [f"and {len(unlike) - SHOWN} more"] if len(unlike) > SHOWN else []
    return "; ".join(unlike[:SHOWN] + more)
