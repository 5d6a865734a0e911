"""Find finished runs, and group those that differ only in how much they select."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rationale.data.corpora import corpus_names, names_own
from rationale.errors import BadInput
from rationale.nn.gates import GATES
from rationale.runs import saved
from rationale.runs.differences import defaults_of, has_effect, write_settings
from rationale.runs.origin import notebook_of
from rationale.runs.workspace import TRIALS, is_finished

HOW_MUCH = {"selection", "sparsity"}  # settings that say how much a model selects
SHOWN = ("corpus", "aspect", "vectors", "encoder", "dependent", "predictor", "seed")  # of each group of runs


def find_runs(folder: Path | str, own_texts: bool = True) -> dict[str, list[Path]]:
    """Find the finished runs at most two levels below `folder`, grouped by the explorer that can show them.

    With `own_texts=False`, the runs on texts of one's own are left out.

    Returns
    -------
    dict: texts, probes
        Folders of runs. Models with gates come first, and among them the most recent ones; smoke runs are listed only
        if there are no others.
    """
    runs_by_use, of_texts = {"texts": [], "probes": []}, (None, *corpus_names("extraction"))
    models = [*Path(folder).glob("*/model.safetensors"), *Path(folder).glob("*/*/model.safetensors")]
    for path in sorted(models, key=lambda path: path.stat().st_mtime, reverse=True):
        if is_finished(path.parent):
            try:
                p = saved.read_parameters(path.parent)
            except BadInput as error:
                print(f"note: {error}; this run is left out")
                continue
            if "methods" in p:
                runs_by_use["probes"].append(path.parent)
            elif "model" in p and (p.get("corpus") in of_texts or (own_texts and names_own(p["corpus"]))):
                runs_by_use["texts"].append(path.parent)
    runs_by_use["texts"].sort(key=lambda run: saved.read_parameters(run)["model"] not in GATES)
    without_trials = {use: [run for run in runs if run.name not in TRIALS] for use, runs in runs_by_use.items()}
    return {use: without_trials[use] or runs for use, runs in runs_by_use.items()}


def group_sweeps(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Group runs that differ only in how much they select.

    The runs of a group are of the same notebook and model, and every setting that can change their results is the same,
    but for those in `HOW_MUCH`. Within a group they are sorted by `requested_rate`, in ascending order. Runs of models
    that read everything come last, if they have the same settings, as far as these have an effect on them.

    Returns
    -------
    dict
        Description of the group -> folders of at least two runs, the largest group first. The description names the
        settings in `SHOWN`, and those in which similar groups differ.
    """
    members, whole, settings = defaultdict(list), defaultdict(list), {}
    for run in (run for run in runs if (run / "model.safetensors").is_file()):
        p = saved.read_parameters(run)
        if p.get("model") == "full_text":
            whole[_alike(run, p)].append(run)
        elif p.get("model") in GATES:
            key = p["model"], _alike(run, p), _alike(run, p | {"model": "full_text"})
            members[key].append(run)
            settings[key] = _effective(run, p)
    groups = {
        key: [*sorted(gated, key=lambda run: requested_rate(run)[0]), *whole[key[-1]]] for key, gated in members.items()
    }
    sweeps = sorted((key for key in groups if len(groups[key]) > 1), key=lambda key: -len(groups[key]))
    names = {key: _described(groups[key][0], settings[key]) for key in sweeps}
    described = {}
    for key in sweeps:
        similar = [settings[other] for other in sweeps if names[other] == names[key]]
        apart = {name for name, value in settings[key].items() if any(value != one.get(name) for one in similar)}
        differing = write_settings({name: settings[key][name] for name in apart})
        told = ", ".join(filter(None, [names[key], differing]))
        described[f"{told} ({len(groups[key])} runs)"] = groups[key]
    return described


def _effective(run: Path, p: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run that can have changed its results, apart from `HOW_MUCH`.

    A setting that an older run lacks counts as the default of its notebook.
    """
    usual: dict[str, Any] = {}
    with suppress(BadInput):  # of no notebook of this project
        usual = defaults_of(notebook_of(run))
    p = usual | p
    return {name: p[name] for name in p if name not in HOW_MUCH and has_effect(name, p)}


def _alike(run: Path, p: dict[str, Any]) -> tuple[str, str]:
    """What runs of a group have in common, as text."""
    return run.parent.name, write_settings(_effective(run, p))


def _described(run: Path, p: dict[str, Any]) -> str:
    shown = [f"{name} {p[name]}" if name in ("dependent", "seed") else p[name] for name in SHOWN if p.get(name)]
    return f"{run.parent.name}: {p['model']}, {', '.join(shown)}"


def requested_rate(run: Path) -> tuple[float, str]:
    """The share of words that a run should select: a number to sort by, and a description.

    The number is the target rate; for a run that has only a price, it is the share that was selected on dev.
    """
    p = saved.read_parameters(run)
    if p["model"] not in GATES:
        return 1.0, "all words"
    if p["selection"] is not None:
        return p["selection"], f"{100 * p['selection']:g} %"
    return saved.read_metrics(run)["dev"]["rate_selected"], f"price {p.get('sparsity', 0):g}"
