"""Save the rows that two explorers show without a kernel: `python -m tools.rows rates RUN...` or `... layers RUN`.

With `rates` it writes outputs/reference/rates.json, from the finished runs of a sweep. It has a few dev texts with
their gates at each rate. With `layers` it writes layers.json beside it, from a finished run of 14_train_probes. It has
a few test texts with what each method gives to their words in each layer.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rationale.data.corpora import find_corpus
from rationale.errors import BadInput, command
from rationale.explain.methods import METHODS
from rationale.explorers.layers import masked_predictions
from rationale.explorers.rows import LAYERS_FILE, RATES_FILE
from rationale.files import write_text
from rationale.runs import saved
from rationale.runs.committed import reference_folder
from rationale.runs.find import group_sweeps, requested_rate
from rationale.training.toy_gates import SENTENCE
from tools import command_line

NUM_TEXTS = 6
NEUTRAL = 2  # the label of a word of SST without a sentiment


def rate_rows(runs: Sequence[Path]) -> dict[str, Any]:
    """A few dev texts at each rate of a sweep, as `RowExplorer` shows them.

    The sentence of `05_count_words` comes first if it is among the texts, and then the first of 8 to 40 tokens. The
    score of each rate is the accuracy, or the mean squared error of a model that predicts scores.

    Raises
    ------
    BadInput
        If a folder has no saved model, or if the runs are not those of one sweep or differ in their dev texts.
    """
    if unsaved := [run for run in runs if not (run / "model.safetensors").is_file()]:
        raise BadInput(f"{unsaved[0]}: no saved model; folders of finished runs are accepted")
    groups = group_sweeps(runs)
    if len(groups) != 1 or len(next(iter(groups.values()))) != len(runs):
        raise BadInput(f"{', '.join(map(str, runs))}: runs are accepted that differ in nothing but their rate")
    ((group, ordered),) = groups.items()
    tables = [saved.read_rationales(run, "dev") for run in ordered]
    tokens = [tuple(row) for row in tables[0]["tokens"]]
    for run, table in zip(ordered, tables, strict=True):
        if [tuple(row) for row in table["tokens"]] != tokens:
            raise BadInput(f"{run}: has other dev texts than {ordered[0]}; runs on the same texts are accepted")
    chosen = _chosen(tokens, 8, 40)
    metric = "accuracy" if "accuracy" in saved.read_metrics(ordered[0])["dev"] else "mse"
    title = {"accuracy": "accuracy", "mse": "mean squared error"}[metric]
    labels = _labels(ordered[0]) if metric == "accuracy" else ()
    rows, scores = [], []
    for run, table in zip(ordered, tables, strict=True):
        metrics = saved.read_metrics(run)["dev"]
        scores.append(metrics[metric])
        answers = [f"The model predicts {_answer(table['prediction'][i], labels)}" for i in chosen]
        facts = f"On all dev texts: {metrics['rate_selected']:.0%} of the words are selected, {title} {scores[-1]:.3g}"
        values = [[_short(z) for z in table["z"][i]] for i in chosen]
        rows.append({"title": requested_rate(run)[1], "values": values, "answers": answers, "facts": facts})
    rates = [requested_rate(run)[0] for run in ordered]
    heading = f"{title.capitalize()} on all dev texts"
    curve = {"title": heading, "xlabel": "rate that was asked for", "x": rates, "y": scores}
    titles = [f"{' '.join(tokens[i][:5])} … ({_answer(tables[0]['label'][i], labels)})" for i in chosen]
    texts = [_text(tables[0].iloc[i], title) for i, title in zip(chosen, titles, strict=True)]
    one = {"name": "gates", "level": 0.0, "did": "selected", "rows": rows, "curve": curve}
    epochs = saved.read_parameters(ordered[0])["epochs"]
    return {"about": f"Runs of {group}, {epochs} epochs each", "texts": texts, "methods": [one]}


def layer_rows(run: Path) -> dict[str, Any]:
    """A few test texts in each layer of a probed model, as `RowExplorer` shows them, with all methods of the run.

    For a probe the values are the probabilities that a word is kept, and the answers are those of the frozen model
    before and after masking. For another method they are attributions, divided by the largest one of a text in a layer.
    """
    table = saved.read_explained(run, "test")
    names = [name for name in METHODS if name in table]
    if not names or table.empty:
        raise BadInput(f"{run}: no text has attributions; a finished run of 14_train_probes is accepted")
    chosen = _chosen([tuple(row) for row in table["tokens"]], 6, 24)
    labels = _labels(run)
    methods = []
    for name in names:
        values = [torch.tensor(table[name][i]) for i in chosen]  # of each text, [L + 1, T]
        probe = METHODS[name].is_probe
        if not probe:
            values = [one / one.amax(1, keepdim=True).clamp(min=1e-30) for one in values]
        num_layers = len(values[0])
        rows = [
            {
                "title": "0 (words)" if layer == 0 else str(layer),
                "values": [[_short(value) for value in one[layer].clamp(0, 1).tolist()] for one in values],
                "answers": [_masked(run, name, i, layer, labels) if probe else "" for i in chosen],
                "facts": "",
            }
            for layer in range(num_layers)
        ]
        curve = None
        if probe:
            kept = saved.read_metrics(run)["methods"][name]["test"]
            shares = [kept[f"kept_{layer}"] for layer in range(num_layers)]
            curve = {
                "title": "Share kept, on all test texts",
                "xlabel": "layer",
                "x": [*range(num_layers)],
                "y": shares,
            }
        did = "probably kept" if probe else "given at least half of the largest attribution"
        methods.append({"name": name, "level": 0.5, "did": did, "rows": rows, "curve": curve})
    texts = [_text(table.iloc[i], _question(table.iloc[i], labels)) for i in chosen]
    p = saved.read_parameters(run)
    about = f"A run of {run.resolve().parent.name}: corpus {p['corpus']}, seed {p['seed']}"
    return {"about": about, "texts": texts, "methods": methods}


def _labels(run: Path) -> Sequence[str]:
    p = saved.read_parameters(run)
    labels = find_corpus(p.get("corpus", "sst")).labels
    if not labels:
        raise BadInput(f"{run}: corpus={p['corpus']} has scores; a corpus with classes is accepted")
    return labels


def _answer(value: Any, labels: Sequence[str]) -> str:
    """A class by its name, or scores in [0, 1] as numbers."""
    return f"“{labels[value]}”" if labels else ", ".join(f"{score:.2f}" for score in value)


def _chosen(texts: Sequence[tuple[str, ...]], shortest: int, longest: int) -> list[int]:
    """Numbers of the texts to show."""
    first = [i for i, tokens in enumerate(texts) if tokens == tuple(SENTENCE)]
    fitting = [i for i, tokens in enumerate(texts) if shortest <= len(tokens) <= longest and i not in first]
    return [*first, *(fitting or range(len(texts)))][:NUM_TEXTS]


def _text(row, title: str) -> dict[str, Any]:
    gold = row.get("gold")
    if not isinstance(gold, Sequence):
        labels = row.get("word_labels")
        known = isinstance(labels, Sequence)
        gold = [label != NEUTRAL for label in labels] if known else [False] * len(row["tokens"])
    return {"tokens": list(row["tokens"]), "gold": [int(flag) for flag in gold], "title": title}


def _question(row, labels: Sequence[str]) -> str:
    text = " ".join(row["tokens"])
    query = row["second"]
    return f"{text}: more {query[0]} than {query[1]}? {labels[row['label']]}" if query is not None else f"{text[:40]} …"


def _masked(run: Path, method: str, text: int, layer: int, labels: Sequence[str]) -> str:
    before, after, distance = masked_predictions(run, method, text, layer)
    if before.dim() != 1:
        return ""
    now, then = (f"{labels[int(answer.argmax())]} ({float(answer.max()):.2f})" for answer in (before, after))
    return f"The frozen model answers {now}, and {then} after masking, {distance:.3f} nats apart"


def _short(value: float) -> float:
    return float(f"{value:.3g}")


@command
def main(arguments: list[str] | None = None) -> int:
    """Write one of the two files and print where it is."""
    form = command_line("rows", __doc__)
    form.add_argument("kind", choices=("rates", "layers"))
    form.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished run")
    given = form.parse_args(arguments)
    if given.kind == "layers" and len(given.runs) != 1:
        raise BadInput(f"layers: got {len(given.runs)} runs, one is accepted")
    rows = rate_rows(given.runs) if given.kind == "rates" else layer_rows(given.runs[0])
    file = reference_folder() / (RATES_FILE if given.kind == "rates" else LAYERS_FILE)
    write_text(file, json.dumps(rows) + "\n")
    print(f"{len(rows['texts'])} texts: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
