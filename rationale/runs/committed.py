"""The committed results: read `outputs/reference/`, and make rows of the same table from finished runs.

    results.csv    one value per row: task, corpus, aspect, model, variant, vectors, target, sparsity,
                   seed, split, metric, value, run, device, commit
    history.csv    one epoch of one run per row
    runs.json      one run per line: all its parameters and its environment
    figures/       the pictures listed in FIGURES

`make reference` writes them (tools/collect.py).
"""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from rationale import metrics
from rationale.data.corpora import find_corpus
from rationale.errors import BadInput, optional
from rationale.explain.methods import METHODS
from rationale.nn.gates import GATES
from rationale.runs import saved
from rationale.runs.parameters import defaults, modernised, read_file, shown
from rationale.runs.workspace import notebook_path, root

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

COLUMNS = "task,corpus,aspect,model,variant,vectors,target,sparsity,seed,split,metric,value,run,device,commit"
COLUMNS = COLUMNS.split(",")
ADDED = {"aspect": "", "variant": "", "sparsity": 0.0}  # columns that older tables lack, and their values there
TASKS = {  # by notebook
    "10_first_rationale": "reviews",
    "11_train_reviews": "reviews",
    "12_train_sst": "sst",
    "13_train_nli": "nli",
    "14_train_probes": "probes",
    "15_train_seq2seq": "summarisation",  # "translation" for a corpus with several languages
}
SUBJECT = "subject"  # value of the column `model` in rows about the probed model itself (task `probes`)
CORPORA = {
    "10_first_rationale": "synthetic",
    "12_train_sst": "sst",
}  # of notebooks in which the corpus is not a parameter
COMPARISON = "31_selection_rates/committed/figures"  # by `31_selection_rates --name committed`
OF_REVIEWS = "32_reviews/committed/figures"  # by `32_reviews`
OF_PROBES = "24_read_probes/committed/figures"  # by `24_read_probes`, from runs of `14_train_probes`
OF_PAIRS = "23_read_nli/committed/figures"  # by `23_read_nli`, from runs of `13_train_nli`
OF_TEXTS = "25_read_seq2seq/committed/figures"  # by `25_read_seq2seq`, from runs of `15_train_seq2seq`
FIGURES = (  # below OUTPUTS; copied if the run is there
    "10_first_rationale/demo/figures/rationales.svg",
    f"{COMPARISON}/accuracy_against_rate.svg",
    f"{COMPARISON}/word_sentiment.svg",
    f"{COMPARISON}/precision_recall.svg",
    f"{COMPARISON}/agreement.svg",
    f"{COMPARISON}/code.svg",
    f"{COMPARISON}/collapse.svg",
    f"{COMPARISON}/lagrangian.svg",
    f"{OF_REVIEWS}/precision_synthetic_look.svg",
    f"{OF_REVIEWS}/mse_synthetic_look.svg",
    f"{OF_REVIEWS}/precision_imdb_rationales_overall.svg",
    f"{OF_REVIEWS}/precision_movies_overall.svg",
    f"{OF_REVIEWS}/accuracy_imdb_rationales_overall.svg",
    f"{OF_PROBES}/sentence_inputs.svg",
    f"{OF_PROBES}/sentence_states.svg",
    f"{OF_PROBES}/separators_states.svg",
    f"{OF_PROBES}/speech_inputs.svg",
    f"{OF_PROBES}/sentiment_inputs.svg",
    f"{OF_PROBES}/question_states.svg",
    f"{OF_PROBES}/question_inputs.svg",
    f"{OF_PROBES}/speech_questions_states.svg",
    f"{OF_PROBES}/digits_1.svg",
    f"{OF_PROBES}/digits_states.svg",
    f"{OF_PROBES}/digits_by_kind.svg",
    f"{OF_PAIRS}/entailment_hardkuma-selection0.2-seed1.svg",
    f"{OF_PAIRS}/contradiction_oscarmax-seed1.svg",
    f"{OF_TEXTS}/text1_sparsemax-seed1.svg",
    f"{OF_TEXTS}/text1_oscarmax-seed1.svg",
    f"{OF_TEXTS}/text1_sparsemax-languagefr-seed1.svg",
    f"{OF_TEXTS}/text1_sparsemax-gamma4-languagefr-seed1.svg",
    f"{OF_TEXTS}/text2_mails-softmax-seed1.svg",
    f"{OF_TEXTS}/text2_mails-fusedmax-seed1.svg",
)


def reference_folder() -> Path:
    """outputs/reference/ of the repository."""
    return root() / "outputs" / "reference"


def read_results(path: Path | None = None) -> pd.DataFrame:
    """Read `results.csv`, by default the committed one.

    Raises
    ------
    BadInput
        If there is no such file.
    """
    path = path or reference_folder() / "results.csv"
    if not path.exists():
        raise BadInput(f"{path}: no such file; `make reference` writes it from finished runs")
    table = pd.read_csv(path, dtype={"aspect": str, "variant": str})
    for name, value in ADDED.items():
        if name not in table:
            table.insert(COLUMNS.index(name), name, value)
    return table.fillna(ADDED)


def read_history() -> pd.DataFrame:
    """Read `history.csv`, one row per epoch of a committed run."""
    return pd.read_csv(reference_folder() / "history.csv")


def read_published() -> pd.DataFrame:
    """Read the published numbers, each with its source."""
    return pd.read_csv(reference_folder() / "published.csv")


def rows_of(run: Path) -> pd.DataFrame:
    """The rows of one finished run in the long table.

    Raises
    ------
    BadInput
        If the folder is not that of a run of a training notebook.
    """
    notebook = run.parent.name
    if notebook not in TASKS:
        raise BadInput(f"{run}: not in the folder of a training notebook; accepted: {', '.join(TASKS)}")
    p, facts = saved.read_parameters(run), environment_of(run)
    vectors = p.get("vectors", "learned")
    vectors += f" x {p['vectors_scale']:g}" if p.get("vectors_scale", 1) != 1 else ""
    common = {"task": TASKS[notebook], "corpus": p.get("corpus", CORPORA.get(notebook)), "aspect": p.get("aspect", "")}
    if "language" in p and find_corpus(p["corpus"]).languages:
        common |= {"task": "translation", "aspect": f"{p['language']} to en"}
    model = p.get("model", SUBJECT)
    common |= {"model": model, "variant": variant(p, notebook), "vectors": vectors}
    common |= {"target": p.get("selection") or 1.0 if model in GATES else p.get("budget", 1.0)}
    common |= {"sparsity": p.get("sparsity", 0.0), "seed": p["seed"]}
    common |= {"run": f"{run.parent.name}/{run.name}", "device": facts.get("device", "")}
    common |= {"commit": facts.get("commit", "")[:12]}
    scores = saved.read_metrics(run)
    values = [(split, name, value) for split in ("dev", "test") for name, value in scores[split].items()]
    if (run / "faithfulness.json").is_file():
        faithfulness = json.loads((run / "faithfulness.json").read_text(encoding="utf-8"))
        values += [(split, name, value) for split in ("dev", "test") for name, value in faithfulness[split].items()]
    values += [("train", "seconds", scores["seconds"]), ("train", "best_epoch", scores["best_epoch"])]
    rows = [
        common | {"split": split, "metric": name, "value": value}
        for split, name, value in values
        if name != "words_a_second"  # depends on the load of the machine; `make bench` compares speeds
    ]
    for method, scores_of_method in scores.get("methods", {}).items():
        own = common | {"model": method, "variant": method_variant(method, p, notebook)}
        values = [(split, name, value) for split in ("dev", "test") for name, value in scores_of_method[split].items()]
        values += [("train", name, scores_of_method[name]) for name in ("seconds", "best_epoch")]
        rows += [own | {"split": split, "metric": name, "value": value} for split, name, value in values]
    return pd.DataFrame(rows)[COLUMNS]


def method_variant(method: str, p: dict, notebook: str) -> str:
    """The variant of one method of a run: the variant of the run's model, and the settings of the method.

    For probes, the settings are those that differ from the notebook's defaults; for fitted masks, the margin.
    """
    usual, named, facts = _defaults(notebook), [variant(p, notebook)], METHODS[method]
    if facts.is_probe:
        keys = ("votes", "form", "divergence", "margin")
        named += [f"{key}={p[key]}" for key in keys if p.get(key, usual[key]) != usual[key]]
    elif facts.needs_margin:
        named += [f"margin={p['margin']:g}"]
    return ", ".join(filter(None, named))


def variant(p: dict, notebook: str) -> str:
    """The differences between the network of a run and its notebook's defaults: "lstm, independent"; usually "".

    For the notebooks in `ATTENTIONS`, every setting that differs is named, because the defaults are their only recipe.
    """
    if "model" not in p:
        return "gru" if p.get("reader") == "gru" else ""
    p, usual, named = modernised(p), _defaults(notebook), []
    for key in ("encoder", "dependent", "predictor", "normalised", "intra"):
        value = p.get(key, usual.get(key))
        matters = {"encoder": p["model"] != "svm", "intra": True}.get(key, p["model"] in GATES)
        if matters and value != usual.get(key):
            named.append({True: key, False: f"in{key}"}.get(value, value))
    if notebook in ATTENTIONS:
        free = {*FREE, "corpus", "language", "intra", "normalised"} | (set() if p["model"] in GATES else OF_GATES)
        usual = usual | {"lam": PRICES.get(p["model"], p["lam"])}
        named += [
            f"{key}={value}" for key, value in sorted(p.items()) if key not in free and value != usual.get(key, value)
        ]
    return ", ".join(named)


OF_GATES = {"measure", "measure_every", "dynamics", "multiplier_init", "multiplier_rate", "quadratic", "smoothing",
            "left", "right", "rule", "tolerance"}  # fmt: skip
ATTENTIONS = ("13_train_nli", "15_train_seq2seq")
PRICES = {"fusedmax": 0.1, "oscarmax": 0.01}  # the paper's `lam`; it has no effect on other models


@cache
def _defaults(notebook: str) -> dict:
    return defaults(notebook_path(notebook))


def rows_of_all(runs_dir: str | Path, names: list[str]) -> pd.DataFrame:
    """The rows of the finished runs with these names in a folder of the repository."""
    return pd.concat([rows_of(root() / runs_dir / name) for name in names])


def rows_for(p: SimpleNamespace, *tasks: str) -> pd.DataFrame:
    """The rows of the runs named in a notebook's parameters; if none is named, all committed rows of these tasks."""
    if p.runs:
        return rows_of_all(p.runs_dir, p.runs)
    table = read_results()
    return table[table["task"].isin(tasks)]


def agreements(runs: list[Path]) -> list[pd.DataFrame]:
    """For each run, the mean agreement of its test rationales with those of the runs that differ only in the seed."""
    alike: dict[str, list[Path]] = {}
    for run in runs:
        p = _defaults(run.parent.name) | saved.read_parameters(
            run
        )  # older runs lack parameters whose present defaults they used
        if p.get("model") in GATES:
            same = {name: value for name, value in p.items() if name not in ("seed", "device", "tensorboard")}
            alike.setdefault(f"{run.parent} {json.dumps(same, sort_keys=True)}", []).append(run)
    rows = []
    for group in (group for group in alike.values() if len(group) > 1):
        chosen = [[torch.tensor(z) != 0 for z in saved.read_rationales(run, "test")["z"]] for run in group]
        for i, run in enumerate(group):
            others = [metrics.agreement(chosen[i], chosen[j]) for j in range(len(group)) if j != i]
            row = rows_of(run).query("split == 'test'").head(1)
            rows.append(row.assign(metric="agreement", value=sum(others) / len(others)))
    return rows


def environment_of(run: Path) -> dict[str, str]:
    """`environment.txt` of a finished run: versions, commit and machine by name."""
    lines = (run / "environment.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def show_pictures(p: SimpleNamespace, *names: str) -> None:
    """Display the committed pictures with these names, unless a notebook's parameters name runs."""
    display = optional("IPython.display", "pictures in a notebook", "notebooks")
    for path in (reference_folder() / "figures" / f"{name}.svg" for name in names if not p.runs):
        print(f"committed, of a run that is in runs.json: {shown(path)}")
        display.display(display.SVG(filename=str(path)))


SETTINGS = ["model", "variant", "vectors", "target", "sparsity"]  # runs of different settings are not averaged


def summary(results: pd.DataFrame, metrics: list[str], split: str = "test") -> pd.DataFrame:
    """Mean and standard deviation of metrics over seeds: one row per (model, variant, vectors, target, sparsity).

    Parameters
    ----------
    results : the long table, or the part of it that holds one kind of run
    metrics : names of metrics
    split : "dev" or "test"

    Returns
    -------
    DataFrame
        Columns `<metric>` and `<metric>_std` for each metric, and `seeds`; the standard deviation is that of the
        sample, NaN for a single seed.
    """
    part = results[(results["split"] == split) & results["metric"].isin(metrics)]
    if part.empty:
        return pd.DataFrame(columns=[*SETTINGS, *metrics, *(f"{name}_std" for name in metrics), "seeds"])
    groups = part.groupby([*SETTINGS, "metric"])["value"]
    table = groups.agg(["mean", "std", "count"]).unstack("metric")
    missing = [name for name in metrics if name not in table["mean"]]  # no run has these metrics
    table = table.reindex(columns=pd.MultiIndex.from_product([["mean", "std", "count"], metrics])) if missing else table
    columns = {name: table["mean"][name] for name in metrics}
    columns |= {f"{name}_std": table["std"][name] for name in metrics}
    return pd.DataFrame(columns | {"seeds": table["count"].max(axis=1)}).reset_index()


# Parameters in which two runs of the same variant may differ.
FREE = {"seed", "vectors", "model", "selection", "sparsity", "embedding_size", "device", "tensorboard"}


def read_runs() -> pd.DataFrame:
    """The parameters of all committed runs: one row per run (its name is the index), one column per parameter."""
    records = json.loads((reference_folder() / "runs.json").read_text(encoding="utf-8"))
    names = [record["run"] for record in records]
    return pd.DataFrame([modernised(record["parameters"]) for record in records], index=names)


def runs_with(
    results: pd.DataFrame, notebook: str = "12_train_sst", required: bool = True, **parameters
) -> pd.DataFrame:
    """Rows of the committed runs of a notebook that have these parameters.

    All other parameters have the notebook's defaults, except for those in `FREE`, which may have any value.

    Parameters
    ----------
    results : the long table, or a part of it
    notebook : name of a training notebook
    required : bool
        True: an error is raised if there is no such run.

    Raises
    ------
    BadInput
        If a run is required and none has been committed.
    """
    expected = {name: value for name, value in defaults(notebook_path(notebook)).items() if name not in FREE}
    runs = read_runs()
    runs = runs[runs.index.str.startswith(f"{notebook}/")]
    for name, value in (expected | modernised(parameters)).items():
        same = runs[name] == value if name in runs else pd.Series(False, runs.index)
        if value == expected.get(name):  # runs that are older than the parameter used its present default
            same |= runs[name].isna() if name in runs else True
        runs = runs[same]
    rows = results[results["run"].isin(runs.index)]
    if rows.empty and required:
        path = reference_folder() / "runs.json"
        raise BadInput(f"{path}: no committed run of {notebook} with {parameters or 'the defaults'}")
    return rows


def parameters_of(file: str) -> dict:
    """The values in a parameter file below params/, without `vectors` and the parameters that sweeps vary."""
    path = notebook_path("12_train_sst").parents[1] / "params" / file
    values = {name: value for _, name, value in read_file(path)}
    return {name: value for name, value in values.items() if name not in ("vectors", "sparsity", "seed")}


def rows_of_figure_4(results: pd.DataFrame) -> pd.DataFrame:
    """Rows of the runs that Figure 4 compares: the notebook's defaults, Bernoulli gates with a price, attention."""
    rows = [runs_with(results)]
    for file in ("sst/bernoulli.yaml", "sst/attention.yaml"):
        rows.append(runs_with(results, required=False, **parameters_of(file)))
    return pd.concat(rows)


def setting(model: str, target: float, sparsity: float) -> str:
    """The target or price of a model in words: "40%", "0.01 per word", or "" for a model that reads everything."""
    if model not in GATES:
        return ""
    return f"{target:.0%}" if target < 1 else f"{sparsity:g} per word"


def behind_softmax(table: pd.DataFrame) -> pd.Series:
    """How far the accuracy of each row of a `summary` lies below that of plain softmax on the same vectors, or NaN."""
    plain = table[table["model"].eq("softmax") & table["variant"].eq("")].set_index("vectors")["accuracy"]
    return table["vectors"].map(plain).astype(float) - table["accuracy"]


# Masks are compared with the smallest masks that satisfy the same constraint, or (answer_*) that keep the prediction.
SEARCH_METRICS = ("precision", "recall", "f1", "masked", "optimality", "answer_f1", "answer_optimality")


def search_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Rows of masks and of exact search on a small model. A search that several runs of a seed made counts once."""
    part = results[(results["task"] == "probes") & results["variant"].str.startswith("gru")]
    masks = [name for name, method in METHODS.items() if method.is_mask]
    part = part[part["model"].isin(masks) & part["metric"].isin(SEARCH_METRICS)]
    return part.drop_duplicates(["model", "variant", "seed", "split", "metric"])
