"""The baseline of a run on texts of one's own (`training.tfidf`) as rows of a comparison.

It depends on the texts and on the weights of the classes. Runs that share these have the same baseline, which therefore
is one row, whatever else differs between the runs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rationale.runs import intact
from rationale.runs.differences import BASELINE, defaults_of, of_baseline, settings_of, write_settings
from rationale.training.tfidf import FILE

if TYPE_CHECKING:
    import pandas as pd


def baseline_rows(run: Path, common: dict[str, Any], p: dict[str, Any], notebook: str) -> list[dict[str, Any]]:
    """The rows of the baseline beside a run; none if it has no baseline.

    Parameters
    ----------
    run : Path
    common : the columns that all rows of the run share
    p : the parameters of the run
    """
    if not (run / FILE).is_file():
        return []
    found = intact.read_json(run / FILE, intact.Baseline)
    settings = {name: value for name, value in settings_of(p, notebook).items() if of_baseline(name)}
    own = {"model": BASELINE, "network": "", "vectors": "none", "target": 1.0, "sparsity": 0.0}
    own |= {"settings": write_settings(settings), "seed": defaults_of(notebook)["seed"]}
    return [
        common | own | {"split": split, "metric": name, "value": value}
        for split, part in (("dev", found["dev"]), ("test", found["test"]))
        for name, value in part.items()
    ]


def each_once(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of a comparison with those of each baseline once, although several runs have it."""
    told = ["corpus", "settings", "split", "metric"]
    repeated = (rows["model"] == BASELINE) & rows.duplicated(["model", *told])
    return rows[~repeated].reset_index(drop=True)
