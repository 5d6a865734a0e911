"""Find finished runs, and group those that differ only in how much they select."""

from collections.abc import Sequence
from pathlib import Path

from rationale.data.corpora import corpus_names
from rationale.data.own import is_own
from rationale.nn.gates import GATES
from rationale.runs import saved
from rationale.runs.workspace import TRIALS, is_finished


def find_runs(folder: Path | str) -> dict[str, list[Path]]:
    """Find the finished runs at most two levels below `folder`, grouped by the explorer that can show them.

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
            p = saved.read_parameters(path.parent)
            if "methods" in p:
                runs_by_use["probes"].append(path.parent)
            elif "model" in p and (p.get("corpus") in of_texts or is_own(p["corpus"])):
                runs_by_use["texts"].append(path.parent)
    runs_by_use["texts"].sort(key=lambda run: saved.read_parameters(run)["model"] not in GATES)
    without_trials = {use: [run for run in runs if run.name not in TRIALS] for use, runs in runs_by_use.items()}
    return {use: without_trials[use] or runs for use, runs in runs_by_use.items()}


def group_sweeps(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Group runs that differ only in how much they select.

    The runs of a group have the same notebook, model, corpus, vectors, encoder and seed. Within a group they are sorted
    by `requested_rate`, in ascending order; runs of models that read everything come last.

    Returns
    -------
    dict
        Description of the group -> folders of at least two runs, the largest group first.
    """
    same = ("corpus", "aspect", "vectors", "encoder", "dependent", "predictor", "seed")
    groups, whole = {}, {}
    for run in (run for run in runs if (run / "model.safetensors").is_file()):
        p = saved.read_parameters(run)
        alike = (run.parent.name, *((key, p[key]) for key in same if key in p))
        if p["model"] == "full_text":
            whole.setdefault(alike, []).append(run)
        elif p["model"] in GATES:
            groups.setdefault((p["model"], *alike), []).append(run)
    sweeps = {}
    for (model, notebook, *rest), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        ordered = [*sorted(members, key=lambda run: requested_rate(run)[0]), *whole.get((notebook, *rest), [])]
        if len(ordered) > 1:
            description = ", ".join(
                f"{key} {value}" if key in ("dependent", "seed") else value for key, value in rest if value
            )
            sweeps[f"{notebook}: {model}, {description} ({len(ordered)} runs)"] = ordered
    return sweeps


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
