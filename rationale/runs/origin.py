"""Which notebook made a run, and on which machine: a run knows it, wherever its folder is moved."""

import re
from pathlib import Path

from rationale.errors import BadInput
from rationale.runs import intact
from rationale.runs.workspace import read_if_there

NOTEBOOK_OF_FIT = "17_train_own_texts"  # the notebook whose run `rationale.fit` makes without it
TASKS = {  # by notebook that trains
    "10_first_rationale": "reviews",
    "11_train_reviews": "reviews",
    "12_train_sst": "sst",
    "13_train_nli": "nli",
    "14_train_probes": "probes",
    "15_train_seq2seq": "summarisation",  # "translation" for a corpus with several languages
    "16_failures": "failures",
}
# By notebook; nobody else has these texts, so they are no committed results
OWN = {NOTEBOOK_OF_FIT: "own texts"}
READ = "read.json"  # written by `rationale.fit` only: what its run has read, see `digests.reading`
BY_FIT = "executed by: rationale.fit\n"  # a line of its environment.txt; older runs of it have no such file


def is_by_fit(folder: Path | str) -> bool:
    """Whether `rationale.fit` has made the run of a folder, or has begun to make it."""
    environment = Path(folder) / "environment.txt"
    return BY_FIT in read_if_there(environment) or ((Path(folder) / READ).is_file() and not environment.exists())


def read_environment(folder: Path | str) -> dict[str, str]:
    """`environment.txt` of a finished run: its notebook, versions, commit and machine, by name.

    An older run of `rationale.fit` has recorded none: {}.

    Raises
    ------
    BadInput
        If the run of a notebook has no such file, or it is damaged.
    """
    if is_by_fit(folder) and not (Path(folder) / "environment.txt").exists():
        return {}
    lines = intact.read_text(Path(folder) / "environment.txt").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def notebook_of(folder: Path | str) -> str:
    """The name of the notebook that made a finished run, whatever the folder is called.

    `environment.txt` records it. In an older run the metadata of `run.ipynb` do; where neither does (a run in
    JupyterLab), the run is taken for one of the notebook after which the folder above it is named. A run of
    `rationale.fit` is one of the notebook on texts of one's own.
    """
    folder = Path(folder)
    if is_by_fit(folder):
        return NOTEBOOK_OF_FIT
    if (folder / "environment.txt").exists() and (name := read_environment(folder).get("notebook")):
        return name
    executed = read_if_there(folder / "run.ipynb")
    found = re.search(r'"input_path": "(?:[^"]*/)?(\w+)\.(?:py|ipynb)"', executed[executed.rfind('"papermill"') :])
    return found[1] if found else folder.resolve().parent.name


def require_notebook(folder: Path | str, *accepted: str) -> None:
    """Refuse a run of another notebook than those accepted.

    Raises
    ------
    BadInput
        The message names the notebook that made the run.
    """
    if Path(folder).is_dir() and notebook_of(folder) not in accepted:
        raise BadInput(f"{folder}: a run of {notebook_of(folder)}; accepted here is a run of {' or '.join(accepted)}")
