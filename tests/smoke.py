"""Run every notebook in seconds: `params/smoke/<notebook>.yaml` through the runner (what the tests do).

A notebook that reads saved runs says in the first line of its file whose: `# after: 12_train_sst`. The smoke
run of that one is made first, is called `smoke`, and the folder it is in is passed as `runs_dir`.
"""

import re
from pathlib import Path

from rationale.runs import root, run

NOTEBOOKS = sorted((root() / "notebooks").glob("*.py"))


def smoke_file(notebook: Path) -> Path:
    """Where the small parameters of a notebook are."""
    return root() / "params" / "smoke" / f"{notebook.stem}.yaml"


def needed_first(notebook: Path) -> Path | None:
    """The notebook whose smoke run this one reads."""
    found = re.match(r"# after: (\w+)", smoke_file(notebook).read_text(encoding="utf-8"))
    return root() / "notebooks" / f"{found[1]}.py" if found else None


def needs_data(notebook: Path) -> bool:
    """True if the smoke run, or the one it reads, uses the real corpus."""
    first = needed_first(notebook)
    return re.search(r"read_(sst|nli|captions)\(", notebook.read_text(encoding="utf-8")) is not None or (
        first is not None and needs_data(first)
    )


def smoke(notebook: Path, outputs: Path, name: str = "smoke") -> Path:
    """Execute a notebook with its small parameters; return the run's folder."""
    items, first = [str(smoke_file(notebook))], needed_first(notebook)
    if first:
        items.append(f"runs_dir={smoke(first, outputs).parent}")
    return run(notebook, items, outputs=outputs, name=name, again_if_changed=True, wait=True)
