"""Runs of `16_failures` side by side: one row per run, with words for how it was made and whether its rationale fails.

start       "not skewed", or the part that learned the wrong words first, and from how many batches
remedy      "no remedy", "shared encoder", "second predictor", "some gold words"
fails       less than half of the selected words are gold
"""

from typing import TYPE_CHECKING

from rationale.errors import optional
from rationale.runs.differences import defaults_of, read_settings

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

TASK = "failures"
NOT_SKEWED, NO_REMEDY = "not skewed", "no remedy"
REMEDIES = {"shared_encoder": "shared encoder", "closeness": "second predictor", "guidance": "some gold words"}
# Of these runs, which are many and small, only these metrics are committed, and no history.
METRICS = (
    "accuracy",
    "accuracy_uncorrelated",
    "accuracy_held",
    "accuracy_anew",
    "rate_selected",
    "precision",
    "recall",
    "recall_informative",
    "selected_opinions",
    "selected_phrases",
    "selected_aspects",
    "selected_others",
    "told_by_first_word",
    "told_at_start",
    "agreement",
    "seconds",
    "best_epoch",
)


def remedy_of(settings: dict) -> str:
    """The remedies of a run in words."""
    return " and ".join(name for key, name in REMEDIES.items() if settings[key]) or NO_REMEDY


def start_of(settings: dict) -> str:
    """The start of a run in words, such as "selector, 800 batches"."""
    return NOT_SKEWED if settings["skew"] == "none" else f"{settings['skew']}, {settings['skew_steps']} batches"


def by_run(results: "pd.DataFrame") -> "pd.DataFrame":
    """One row per run, indexed by its name.

    Parameters
    ----------
    results : the long table, or its rows of the task "failures"

    Returns
    -------
    DataFrame
        `model`, `seed`, `correlation`, `start`, `remedy`, `fails`, and one column per name in `METRICS`. The metrics
        are those of test (`told_at_start`: of dev), and NaN where a run lacks one. Starts are ordered by part and
        number of batches, remedies as in `REMEDIES`; those of no run are left out.
    """
    results = results[results["task"] == TASK]
    test, dev = (results[results["split"] == split] for split in ("test", "dev"))
    runs = test.pivot_table("value", ["run", "model", "settings", "seed"], "metric").reset_index().set_index("run")
    runs = runs.reindex(columns=["model", "settings", "seed", *METRICS])
    made = [defaults_of("16_failures") | read_settings(line) for line in runs.pop("settings")]
    by_strength = sorted(
        made, key=lambda settings: (settings["skew"] != "none", settings["skew"], settings["skew_steps"])
    )
    by_remedy = sorted(made, key=lambda settings: [bool(settings[key]) for key in REMEDIES][::-1])
    return runs.assign(
        told_at_start=dev[dev["metric"] == "told_at_start"].set_index("run")["value"],
        correlation=[settings["correlation"] for settings in made],
        start=pd.Categorical(map(start_of, made), list(dict.fromkeys(map(start_of, by_strength)))),
        remedy=pd.Categorical(map(remedy_of, made), list(dict.fromkeys(map(remedy_of, by_remedy)))),
        fails=runs["precision"] < 0.5,
    )
