"""Find finished runs, and group those that differ only in how much they select."""

from collections.abc import Sequence
from pathlib import Path

from rationale.nn.gates import GATES
from rationale.runs import saved
from rationale.runs.parameters import MODELS, PAIRS, SEQUENCES
from rationale.runs.workspace import TRIALS


def find_runs(folder: Path | str) -> dict[str, list[Path]]:
    """Finished runs below `folder`, at most two levels down, by what explorers can ask them: `texts` and `probes`.

    Models with gates come first, of them the one that was finished last; smoke runs only where there is nothing else.
    """
    found = {"texts": [], "probes": []}
    models = [*Path(folder).glob("*/model.safetensors"), *Path(folder).glob("*/*/model.safetensors")]
    for path in sorted(models, key=lambda path: path.stat().st_mtime, reverse=True):
        if (path.parent / "run.ipynb").is_file():
            p = saved.read_parameters(path.parent)
            if "methods" in p:
                found["probes"].append(path.parent)
            elif p.get("model") in MODELS["texts"] and p.get("corpus") not in (*PAIRS, *SEQUENCES):
                found["texts"].append(path.parent)
    found["texts"].sort(key=lambda run: saved.read_parameters(run)["model"] not in GATES)
    serious = {kind: [run for run in runs if run.name not in TRIALS] for kind, runs in found.items()}
    return {kind: serious[kind] or runs for kind, runs in found.items()}


def sweeps(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """The runs that differ in how much they select, by name of the sweep, the largest first; each from little to much.

    Runs of a sweep have the same notebook, model, corpus, vectors, encoder and seed; runs of it that read everything
    come last. What was asked for decides the order: a target, or where there was only a price, the rate that came out.
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
    named = {}
    for (model, notebook, *rest), some in sorted(groups.items(), key=lambda item: -len(item[1])):
        ordered = [*sorted(some, key=lambda run: asked_rate(run)[0]), *whole.get((notebook, *rest), [])]
        if len(ordered) > 1:
            told = ", ".join(
                f"{key} {value}" if key in ("dependent", "seed") else value for key, value in rest if value
            )
            named[f"{notebook}: {model}, {told} ({len(ordered)} runs)"] = ordered
    return named


def asked_rate(run: Path) -> tuple[float, str]:
    """How much a run was asked to select: a number to sort by, and in words."""
    p = saved.read_parameters(run)
    if p["model"] not in GATES:
        return 1.0, "all words"
    if p["selection"] < 1:
        return p["selection"], f"{100 * p['selection']:g} %"
    return saved.read_metrics(run)["dev"]["rate_selected"], f"price {p.get('sparsity', 0):g}"
