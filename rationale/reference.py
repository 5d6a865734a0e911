"""The committed results: from finished runs to one tidy table, and from that to the tables in README.

    python -m rationale.reference [OUTPUTS]     (make reference)

reads every finished training run below OUTPUTS (default outputs/) and writes to outputs/reference/

    results.csv    one value a row: task,corpus,aspect,model,variant,vectors,target,sparsity,
                   seed,split,metric,value,run,device,commit
    history.csv    one epoch of one run a row
    runs.jsonl     one run a line: all its parameters and its environment
    figures/       the pictures named in FIGURES

Rows of runs that are not below OUTPUTS stay as they are. README's tables are rewritten from results.csv.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import torch

from rationale import metrics, saved
from rationale.errors import BadInput, command
from rationale.extractor import WITHOUT_GATES
from rationale.files import write_text
from rationale.params import MASKS, completed, defaults, read_file, shown
from rationale.probes import KINDS
from rationale.runs import TRIALS, notebook_path, root

COLUMNS = "task,corpus,aspect,model,variant,vectors,target,sparsity,seed,split,metric,value,run,device,commit"
COLUMNS = COLUMNS.split(",")
ADDED = {"aspect": "", "variant": "", "sparsity": 0.0}  # columns younger than some tables, and what they were before
HISTORY = ("run", "epoch", "seconds", "dev_accuracy", "dev_rate_expected", "dev_rate_selected", "dev_task",
           "selection.multiplier", "dev_mse", "method")  # fmt: skip
TASKS = {  # by notebook
    "10_first_rationale": "reviews",
    "11_train_reviews": "reviews",
    "12_train_sst": "sst",
    "13_train_nli": "nli",
    "14_train_probes": "probes",
    "15_train_seq2seq": "summarisation",  # but for TRANSLATED
}
TRANSLATED = "multi30k"
SUBJECT = "subject"  # the model that is probed, in the column `model` of task `probes`
CORPORA = {"10_first_rationale": "synthetic", "12_train_sst": "sst"}  # where it is no parameter
COMPARISON = "31_selection_rates/committed/figures"  # of `31_selection_rates --name committed`, run on the new tables
OF_REVIEWS = "32_reviews/committed/figures"  # the same of `32_reviews`
OF_PROBES = "24_read_probes/committed/figures"  # of `24_read_probes`, of runs of `14_train_probes` on SST, XQuAD
OF_PAIRS = "23_read_nli/committed/figures"  # of `23_read_nli`, of runs of `13_train_nli`
OF_TEXTS = "25_read_seq2seq/committed/figures"  # of `25_read_seq2seq`, of runs of `15_train_seq2seq`
FIGURES = (  # below OUTPUTS; kept where the run is there
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


def folder() -> Path:
    """outputs/reference/ of the repository."""
    return root() / "outputs" / "reference"


def read_results(path: Path | None = None) -> pd.DataFrame:
    """`results.csv` (by default the committed one)."""
    path = path or folder() / "results.csv"
    if not path.exists():
        raise BadInput(f"{path}: no such file; `make reference` writes it from finished runs")
    table = pd.read_csv(path, dtype={"aspect": str, "variant": str})
    for name, usual in ADDED.items():
        if name not in table:
            table.insert(COLUMNS.index(name), name, usual)
    return table.fillna(ADDED)


def read_history() -> pd.DataFrame:
    """`history.csv`: one epoch of one committed run a row."""
    return pd.read_csv(folder() / "history.csv")


def read_published() -> pd.DataFrame:
    """The published numbers, with where each one stands."""
    return pd.read_csv(folder() / "published.csv")


def finished_runs(outputs: Path) -> list[Path]:
    """Folders of finished training runs below `outputs`, sorted; smoke runs and pages are not results."""
    found = (path.parent for path in sorted(outputs.glob("*/*/metrics.json")))
    return [path for path in found if path.parent.name in TASKS and _is_result(path)]


def _is_result(path: Path) -> bool:
    hidden = path.name.endswith(".partial") or path.name in ("lab", *TRIALS)
    return not hidden and (path / "run.ipynb").is_file()


def rows_of(run: Path) -> pd.DataFrame:
    """The rows of one finished run in the long table."""
    notebook = run.parent.name
    if notebook not in TASKS:
        raise BadInput(f"{run}: not in the folder of a training notebook; accepted: {', '.join(TASKS)}")
    p, facts = saved.read_parameters(run), _environment(run)
    vectors = p.get("vectors", "learned")
    vectors += f" x {p['vectors_scale']:g}" if p.get("vectors_scale", 1) != 1 else ""
    common = {"task": TASKS[notebook], "corpus": p.get("corpus", CORPORA.get(notebook)), "aspect": p.get("aspect", "")}
    if p.get("corpus") == TRANSLATED:
        common |= {"task": "translation", "aspect": f"{p['language']} to en"}
    model = p.get("model", SUBJECT)
    common |= {"model": model, "variant": variant(p, notebook), "vectors": vectors}
    common |= {"target": p.get("budget", 1.0) if model in WITHOUT_GATES else p.get("selection", 1.0)}
    common |= {"sparsity": p.get("sparsity", 0.0), "seed": p["seed"]}
    common |= {"run": f"{run.parent.name}/{run.name}", "device": facts.get("device", "")}
    common |= {"commit": facts.get("commit", "")[:12]}
    found = saved.read_metrics(run)
    values = [(split, name, value) for split in ("dev", "test") for name, value in found[split].items()]
    if (run / "judged.json").is_file():
        judged = json.loads((run / "judged.json").read_text(encoding="utf-8"))
        values += [(split, name, value) for split in ("dev", "test") for name, value in judged[split].items()]
    values += [("train", "seconds", found["seconds"]), ("train", "best_epoch", found["best_epoch"])]
    rows = [
        common | {"split": split, "metric": name, "value": value}
        for split, name, value in values
        if name != "words_a_second"  # of whatever else the machine did; `make bench` compares
    ]
    for method, one in found.get("methods", {}).items():
        own = common | {
            "model": method,
            "variant": method_variant(method, p, notebook),
        }
        values = [(split, name, value) for split in ("dev", "test") for name, value in one[split].items()]
        values += [("train", name, one[name]) for name in ("seconds", "best_epoch")]
        rows += [own | {"split": split, "metric": name, "value": value} for split, name, value in values]
    return pd.DataFrame(rows)[COLUMNS]


def method_variant(method: str, p: dict, notebook: str) -> str:
    """What a method of a run depends on besides the run's model: how a probe differs from the notebook's default, the
    margin of masks.
    """
    usual, named = _usual(notebook), [variant(p, notebook)]
    if method in KINDS:
        keys = ("votes", "form", "divergence", "margin")
        named += [f"{key}={p[key]}" for key in keys if p.get(key, usual[key]) != usual[key]]
    if method in MASKS:
        named += [f"margin={p['margin']:g}"]
    return ", ".join(filter(None, named))


def variant(p: dict, notebook: str) -> str:
    """How the network of a run differs from its notebook's defaults: "lstm, independent" or "intra", mostly "".

    Of runs with other attentions everything is named that differs: there are no recipes besides the default one.
    """
    if "model" not in p:
        return "gru" if p.get("reader") == "gru" else ""
    usual, named = _usual(notebook), []
    for key in ("encoder", "dependent", "predictor", "normalised", "intra"):
        value = p.get(key, usual.get(key))
        matters = {"encoder": p["model"] != "svm", "intra": True}.get(key, p["model"] not in WITHOUT_GATES)
        if matters and value != usual.get(key):
            named.append({True: key, False: f"in{key}"}.get(value, value))
    if notebook in ATTENTIONS:
        free = {*FREE, "corpus", "language", "intra", "normalised"} | (
            OF_GATES if p["model"] in WITHOUT_GATES else set()
        )
        usual |= {"lam": PRICES.get(p["model"], p["lam"])}
        named += [f"{key}={value}" for key, value in p.items() if key not in free and value != usual.get(key, value)]
    return ", ".join(named)


OF_GATES = {"measure", "measure_every", "dynamics", "multiplier_init", "multiplier_rate", "quadratic", "smoothing",
            "left", "right", "rule", "tolerance"}  # fmt: skip
ATTENTIONS = ("13_train_nli", "15_train_seq2seq")
PRICES = {"fusedmax": 0.1, "oscarmax": 0.01}  # the paper's `lam`; of no effect with other models


@cache
def _usual(notebook: str) -> dict:
    return defaults(notebook_path(notebook))


def rows_of_all(runs_dir: str | Path, names: list[str]) -> pd.DataFrame:
    """The rows of the finished runs of these names in a folder of the repository."""
    return pd.concat([rows_of(root() / runs_dir / name) for name in names])


def rows_for(p: SimpleNamespace, *tasks: str) -> pd.DataFrame:
    """The rows of the runs that a notebook's parameters name, or else all committed ones of these tasks."""
    if p.runs:
        return rows_of_all(p.runs_dir, p.runs)
    table = read_results()
    return table[table["task"].isin(tasks)]


def agreements(runs: list[Path]) -> list[pd.DataFrame]:
    """For each run, the mean agreement of its test rationales with those of the runs that differ in the seed alone."""
    alike: dict[str, list[Path]] = {}
    for run in runs:
        p = vars(completed(saved.read_parameters(run)))
        if p.get("model", SUBJECT) not in (*WITHOUT_GATES, SUBJECT):
            same = {name: value for name, value in p.items() if name not in ("seed", "device", "tensorboard")}
            alike.setdefault(f"{run.parent} {json.dumps(same, sort_keys=True)}", []).append(run)
    found = []
    for group in (group for group in alike.values() if len(group) > 1):
        chosen = [[torch.tensor(z) != 0 for z in saved.read_rationales(run, "test")["z"]] for run in group]
        for i, run in enumerate(group):
            others = [metrics.agreement(chosen[i], chosen[j]) for j in range(len(group)) if j != i]
            row = rows_of(run).query("split == 'test'").head(1)
            found.append(row.assign(metric="agreement", value=sum(others) / len(others)))
    return found


def _environment(run: Path) -> dict[str, str]:
    lines = (run / "environment.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def collect(outputs: Path) -> pd.DataFrame:
    """Write the three files from the finished runs below `outputs`; returns the new table."""
    runs = finished_runs(outputs)
    if not runs:
        raise BadInput(f"{outputs}: holds no finished training run; make one with `make run` or `make sweep`")
    names = [f"{run.parent.name}/{run.name}" for run in runs]
    history = [saved.read_history(run).assign(run=name) for run, name in zip(runs, names, strict=True)]
    records = [
        {"run": name, "parameters": saved.read_parameters(run), "environment": _environment(run)}
        for run, name in zip(runs, names, strict=True)
    ]
    rows = pd.concat([*map(rows_of, runs), *agreements(runs)])
    if (folder() / "results.csv").exists():  # an agreement with seeds that are not here any more stays
        before = read_results().query("metric == 'agreement' and run in @names")
        rows = pd.concat([rows, before[~before["run"].isin(rows.loc[rows["metric"] == "agreement", "run"])]])
    table = _merged("results.csv", rows, names)
    epochs = pd.concat(history).astype({"epoch": int})  # a run without any epoch would make them text
    epochs = _merged("history.csv", epochs.reindex(columns=HISTORY), names)
    path = folder() / "runs.jsonl"
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = {json.loads(line)["run"]: line for line in old}
    lines |= {record["run"]: json.dumps(record) for record in records}
    write_text(path, "".join(lines[name] + "\n" for name in sorted(lines)))
    for record in map(json.loads, lines.values()):  # the defaults may have changed since a run was collected
        notebook = record["run"].split("/")[0]
        if notebook in ATTENTIONS:
            table.loc[table["run"] == record["run"], "variant"] = variant(record["parameters"], notebook)
    for name, written in (("results.csv", table), ("history.csv", epochs)):
        write_text(folder() / name, written.to_csv(index=False, float_format="%.6g"))
    for picture in map(outputs.joinpath, FIGURES):
        if picture.is_file():
            write_text(folder() / "figures" / picture.name, picture.read_text(encoding="utf-8"))
    return table


def _merged(name: str, new: pd.DataFrame, runs: list[str]) -> pd.DataFrame:
    """A committed table with the rows of these runs replaced by new ones, sorted by run."""
    path = folder() / name
    if path.exists():
        old = read_results(path) if name == "results.csv" else pd.read_csv(path)
        new = pd.concat([new, old[~old["run"].isin(runs)]])  # in this order: the new table's columns come first
    return new.sort_values("run", kind="stable").reset_index(drop=True)


# ------------------------------------------------------------------------------------------------- tables from it


def show_pictures(p: SimpleNamespace, *names: str) -> None:
    """Where a notebook has no `runs` to draw from, display the committed pictures of these names."""
    from IPython.display import SVG, display

    for path in (folder() / "figures" / f"{name}.svg" for name in names if not p.runs):
        print(f"committed, of a run that is in runs.jsonl: {shown(path)}")
        display(SVG(filename=str(path)))


SETTINGS = ["model", "variant", "vectors", "target", "sparsity"]  # what runs differ in that are no seeds of each other


def summary(results: pd.DataFrame, metrics: list[str], split: str = "test") -> pd.DataFrame:
    """Mean and standard deviation over seeds of some metrics: one row a (model, variant, vectors, target, sparsity).

    Parameters
    ----------
    results : the long table, or a part of it that holds one kind of run
    metrics : names of metrics
    split : "dev" or "test"

    Returns
    -------
    DataFrame
        Columns `<metric>` and `<metric>_std` for each metric, and `seeds`; std is that of the sample, and NaN
        for one seed.
    """
    part = results[(results["split"] == split) & results["metric"].isin(metrics)]
    if part.empty:
        return pd.DataFrame(columns=[*SETTINGS, *metrics, *(f"{name}_std" for name in metrics), "seeds"])
    groups = part.groupby([*SETTINGS, "metric"])["value"]
    table = groups.agg(["mean", "std", "count"]).unstack("metric")
    missing = [name for name in metrics if name not in table["mean"]]  # of no run
    table = table.reindex(columns=pd.MultiIndex.from_product([["mean", "std", "count"], metrics])) if missing else table
    columns = {name: table["mean"][name] for name in metrics}
    columns |= {f"{name}_std": table["std"][name] for name in metrics}
    return pd.DataFrame(columns | {"seeds": table["count"].max(axis=1)}).reset_index()


# What plain runs differ in.
FREE = {"seed", "vectors", "model", "selection", "sparsity", "embedding_size", "device", "tensorboard"}


def read_runs() -> pd.DataFrame:
    """The parameters of every committed run: one row a run (index), one column a parameter."""
    lines = (folder() / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return pd.DataFrame([record["parameters"] for record in records], index=[record["run"] for record in records])


def runs_with(results: pd.DataFrame, notebook: str = "12_train_sst", some: bool = True, **parameters) -> pd.DataFrame:
    """Rows of the committed runs of a notebook that have these parameters.

    All parameters that are not named have the notebook's default, but for those in `FREE`, which may be anything.
    `some=False`: there need not be any.

    Raises
    ------
    BadInput
        If no such run has been committed.
    """
    usual = {name: value for name, value in defaults(notebook_path(notebook)).items() if name not in FREE}
    runs = read_runs()
    runs = runs[runs.index.str.startswith(f"{notebook}/")]
    for name, value in (usual | parameters).items():
        same = runs[name] == value if name in runs else pd.Series(False, runs.index)
        if value == usual.get(name):  # a parameter that is younger than the run had its default then
            same |= runs[name].isna() if name in runs else True
        runs = runs[same]
    found = results[results["run"].isin(runs.index)]
    if found.empty and some:
        raise BadInput(f"{folder() / 'runs.jsonl'}: no committed run of {notebook} with {parameters or 'the defaults'}")
    return found


def parameters_of(file: str) -> dict:
    """What a parameter file, below params/, changes; `vectors` and what sweeps vary left out."""
    path = notebook_path("12_train_sst").parent.parent / "params" / file
    changed = {name: value for _, name, value in read_file(path)}
    return {name: value for name, value in changed.items() if name not in ("vectors", "sparsity", "seed")}


def compared(results: pd.DataFrame) -> pd.DataFrame:
    """Rows of the runs that Figure 4 compares: the notebook's defaults, priced Bernoulli gates, attention."""
    found = [runs_with(results)]
    for file in ("sst/bernoulli_p100.yaml", "sst/attention.yaml"):
        found.append(runs_with(results, some=False, **parameters_of(file)))
    return pd.concat(found)


def setting(model: str, target: float, sparsity: float) -> str:
    """What was asked of a model, for people: "40%", "0.01 a word" or "" for a model that reads everything."""
    if model in WITHOUT_GATES:
        return ""
    return f"{target:.0%}" if target < 1 else f"{sparsity:g} a word"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([first, "|" + "---|" * len(heads), *others])


def _said_once(rows: list[list[str]]) -> list[list[str]]:
    """Rows without the first cell where it is that of the row before."""
    before = [None, *(row[0] for row in rows)]
    return [["" if row[0] == last else row[0], *row[1:]] for row, last in zip(rows, before, strict=False)]


def _cell(value: float, form: str = "{:.1f}") -> str:
    """A number in a table; empty for NaN, which is what a run has not."""
    return "" if value != value else form.format(value)


def _mean_std(mean: float, std: float) -> str:
    return _cell(100 * mean) + _cell(100 * std, " ± {:.1f}")


def sst_table(results: pd.DataFrame) -> str:
    """README's table of SST, in Markdown."""
    runs = compared(results)
    dev, test = (summary(runs, ["accuracy", "rate_expected", "rate_selected"], s) for s in ("dev", "test"))
    heads = "model,vectors,target or price,dev accuracy,test accuracy,expected rate,selected words,seeds"
    rows = []
    for d, t in zip(dev.itertuples(), test.itertuples(), strict=True):
        target = setting(d.model, d.target, d.sparsity)
        cells = [d.model.replace("_", " "), d.vectors, target]
        cells += [_mean_std(d.accuracy, d.accuracy_std), _mean_std(t.accuracy, t.accuracy_std)]
        cells += ["", ""] if not target else [f"{100 * t.rate_expected:.1f}", f"{100 * t.rate_selected:.1f}"]
        rows.append([*cells, str(d.seeds)])
    return _markdown(heads.split(","), rows)


def reviews_table(results: pd.DataFrame) -> str:
    """README's table of reviews, in Markdown: test split, means over seeds."""
    results = results[results["run"].str.startswith("11_train_reviews/")]
    marks = ["mse", "accuracy", "rate_selected", "precision", "recall", "f1", "blind_random_span"]
    heads = "corpus,aspect,model,target or price,squared error,accuracy,selected,precision,recall,F1,random run,seeds"
    rows = []
    for (corpus, aspect), part in results.groupby(["corpus", "aspect"]):
        for row in summary(part, marks).sort_values(["model", "variant", "target", "sparsity"]).to_dict("records"):
            name = ", ".join(filter(None, (row["model"].replace("_", " "), row["variant"])))
            asked = setting(row["model"], row["target"], row["sparsity"])
            target = asked or (f"{row['target']:.0%}" if row["target"] < 1 else "")
            cells = [corpus.replace("_", " "), aspect, name, target]
            cells += [_cell(row["mse"], "{:.4f}")]
            cells += [_mean_std(row["accuracy"], row["accuracy_std"])]
            found = [_cell(100 * row[name]) for name in marks[2:]]
            cells += found if target else [""] * len(found)
            rows.append([*cells, str(int(row["seeds"]))])
    return _markdown(heads.split(","), rows)


def behind_softmax(table: pd.DataFrame) -> pd.Series:
    """How far the accuracy of each row of a `summary` is below that of plain softmax on the same vectors, or NaN."""
    plain = table[table["model"].eq("softmax") & table["variant"].eq("")].set_index("vectors")["accuracy"]
    return table["vectors"].map(plain).astype(float) - table["accuracy"]


def nli_table(results: pd.DataFrame) -> str:
    """README's table of sentence pairs, in Markdown: test split, means over seeds."""
    heads = "corpus,attention,target,accuracy,behind softmax,cells that are not 0,seeds"
    rows = []
    for corpus, part in results[results["task"] == "nli"].groupby("corpus"):
        table = summary(part, ["accuracy", "rate_selected"])
        table["behind"] = behind_softmax(table)
        for row in table.to_dict("records"):
            name = ", ".join(filter(None, (row["model"], row["variant"])))
            cells = [corpus, name, setting(row["model"], row["target"], row["sparsity"])]
            cells += [_mean_std(row["accuracy"], row["accuracy_std"])]
            cells += [_cell(100 * row["behind"])]
            cells += ["" if row["model"] == "recurrent" else f"{100 * row['rate_selected']:.1f}"]
            rows.append([*cells, str(int(row["seeds"]))])
    return _markdown(heads.split(","), rows)


def texts_table(results: pd.DataFrame) -> str:
    """README's table of translation and summarisation, in Markdown: test split, means over seeds."""
    marks = {"bleu": "BLEU", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    heads = ["task", "corpus", "attention", *marks.values(), "weights that are 0", "seeds"]
    rows = []
    results = results[results["task"].isin(["translation", "summarisation"])]
    results = results.sort_values(["task", "aspect"], ascending=[False, True], kind="stable")
    for (task, *text), part in results.groupby(["task", "corpus", "aspect"], sort=False):
        for row in summary(part, [*marks, "zeros"]).to_dict("records"):
            cells = [task, *(", ".join(filter(None, some)) for some in (text, (row["model"], row["variant"])))]
            cells += [_cell(row[name], "{:.2f}") for name in marks]
            cells += [f"{100 * row['zeros']:.0f} %"]
            rows.append([*cells, str(int(row["seeds"]))])
    return _markdown(heads, rows)


def probes_table(results: pd.DataFrame) -> str:
    """README's table of the toy task of probes, in Markdown: test split, means over seeds, published beside."""
    marks = ["kl_1", "js_1", "empty_1"]
    heads = "method,KL,JS,published KL,published JS,nothing attributed,seconds,seeds".split(",")
    rows = []
    results = results[(results["task"] == "probes") & (results["corpus"] == "toy") & (results["model"] != SUBJECT)]
    printed = read_published().query("task == 'probes'").set_index(["model", "metric"])["value"]
    took = results.query("metric == 'seconds'").groupby(["model", "variant"])["value"].mean()
    for row in summary(results, marks).sort_values("js_1").to_dict("records"):
        cells = [", ".join(filter(None, (row["model"].replace("_", " "), row["variant"])))]
        spread = {n: f" ± {row[n + '_std']:.3f}" if row["seeds"] > 1 else "" for n in marks[:2]}
        cells += [_cell(row[n], "{:.3f}" + spread[n]) for n in marks[:2]]
        cells += [_cell(printed.get((row["model"], n), float("nan")), "{:.2f}") for n in marks[:2]]
        cells += [f"{100 * row['empty_1']:.0f} %", f"{took[row['model'], row['variant']]:.0f}", str(int(row["seeds"]))]
        rows.append(cells)
    return _markdown(heads, rows)


# of masks against the smallest ones that meet the same constraint; `answer_`: that keep the answer alone
SEARCHED = ("precision", "recall", "f1", "masked", "optimality", "answer_f1", "answer_optimality")


def searched(results: pd.DataFrame) -> pd.DataFrame:
    """Rows of masks and of exact search on a small model; a search made in several runs of one seed counts once."""
    part = results[(results["task"] == "probes") & results["variant"].str.startswith("gru")]
    part = part[part["model"].isin([*MASKS, "erasure"]) & part["metric"].isin(SEARCHED)]
    return part.drop_duplicates(["model", "variant", "seed", "split", "metric"])


def search_table(results: pd.DataFrame) -> str:
    """README's table of masks of single sentences against exact search, in Markdown, in per cent, published below."""
    results = searched(results)
    rows = []
    for row in summary(results, list(SEARCHED)).sort_values(["variant", "model"]).to_dict("records"):
        cells = [
            row["model"].replace("_", " ") + row["variant"].removeprefix("gru"),
            *(_mean_std(row[n], row[f"{n}_std"]) for n in SEARCHED),
        ]
        rows.append([*cells, str(int(row["seeds"]))])
    printed = read_published().query("task == 'probes' and metric in @SEARCHED")
    for model, part in printed.groupby("model"):
        values = part.set_index("metric")["value"]
        numbers = [_cell(100 * values.get(name, float("nan"))) for name in SEARCHED]
        rows.append([f"{model.replace('_', ' ')}, published", *numbers, ""])
    return _markdown(["method", *(name.replace("_", " ") for name in SEARCHED), "seeds"], rows)


def masking_table(results: pd.DataFrame) -> str:
    """README's table of probes of transformers, in Markdown: test split, means over layers, then over seeds.

    F1 is the mean over classes of SST, SQuAD's of questions; in per cent, published values below.
    """
    rows, found = [], results[(results["task"] == "probes") & results["corpus"].isin(["sst", "xquad", "squad"])]
    found = found[~found["variant"].str.startswith("gru") & (found["split"] == "test")]
    for corpus, part in found.groupby("corpus"):
        f1 = "f1" if corpus != "sst" else "macro_f1"
        alone = part.query("model == @SUBJECT and metric == @f1")["value"].mean()
        for (model, kind), probe in part[part["model"].isin(KINDS)].groupby(["model", "variant"]):
            masked = probe[probe["metric"].str.fullmatch(f"masked_{f1}_\\d+")]["value"].mean()
            means = probe.groupby("metric")["value"].mean()
            cells = [corpus, ", ".join(filter(None, (model, kind))), _cell(100 * alone), _cell(100 * masked)]
            cells += [_cell(100 * means["kept"]), _cell(100 * means["agreement"]), f"{means['divergence']:.3f}"]
            rows.append([*cells, str(probe["seed"].nunique())])
    printed = read_published().query("task == 'probes' and corpus == 'sst'").set_index(["model", "metric"])["value"]
    for kind in KINDS:
        values = [printed[SUBJECT, "macro_f1"], printed[kind, "masked_macro_f1"], printed[kind, "kept"]]
        rows.append(["sst", f"{kind}, published", *(_cell(100 * value) for value in values), "", "", ""])
    heads = "corpus,what is masked,F1 of the model,F1 after masking,kept,answer stays,divergence (nats),seeds"
    return _markdown(heads.split(","), rows)


JUDGED = {  # metric -> heading
    "word_precision": "precision",
    "word_recall": "recall",
    "agreement": "agreement of seeds",
    "sufficiency_aopc": "sufficiency",
    "comprehensiveness_aopc": "comprehensiveness",
    "calibration_error": "calibration error",
    "length_leak": "length leaked (R²)",
    "count_tells": "told by the number",
}


def judged_table(results: pd.DataFrame) -> str:
    """README's table of what the rationales are worth, in Markdown: test split, means over seeds."""
    runs = compared(results)
    judged = runs.loc[(runs["metric"] == "word_precision") & (runs["vectors"] == "imdb.w2v.300d"), "run"]
    runs = runs[runs["run"].isin(judged)]
    table = summary(runs, ["rate_selected", *JUDGED])
    rows = []
    for row in table[table["model"] != "full_text"].sort_values(["model", "rate_selected"]).to_dict("records"):
        asked = setting(row["model"], row["target"], row["sparsity"])
        cells = [row["model"], asked, f"{100 * row['rate_selected']:.1f}"]
        cells += [_cell(row[name], "{:.3f}") for name in JUDGED]
        rows.append([*cells, str(int(row["seeds"]))])
    return _markdown(["model", "target or price", "selected words", *JUDGED.values(), "seeds"], rows)


def bench_table(_: pd.DataFrame) -> str:
    """README's tables of speed, in Markdown, from `bench.json`: ways compared, then seconds of whole runs."""
    bench = json.loads((folder() / "bench.json").read_text(encoding="utf-8"))
    counts = sorted({group["threads"] for group in bench["groups"]}, reverse=True)
    heads = [f"{head}, {n} thread{'s' * (n > 1)}" for n in counts for head in ("ms", "times as fast")]
    compared: dict[tuple[str, str], dict[int, list[str]]] = {}
    whole = []
    for group in bench["groups"]:
        for way in group["ways"]:
            if "seconds" in way and not way["name"].startswith("of it"):
                whole.append([group["group"], way["name"], f"{way['seconds']:.1f}"])
            if "times_as_fast" in way and not way["name"].endswith("of like length"):
                low, middle, high = way["times_as_fast"]
                fast = "1" if low == high == 1 else f"{middle:.2f} ({low:.2f} to {high:.2f})"
                milliseconds = f"{way['median_ms']:.{1 if way['median_ms'] >= 10 else 2}f}"
                compared.setdefault((group["group"], way["name"]), {})[group["threads"]] = [milliseconds, fast]
    rows = [[*names, *(c for n in counts for c in cells.get(n, ["", ""]))] for names, cells in compared.items()]
    tables = [_markdown(["what", "way", *heads], _said_once(rows))]
    if whole:
        tables.append(_markdown(["what", "part", "seconds"], _said_once(whole)))
    machine = bench["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, {bench['date']}."
    return "\n\n".join([*tables, where])


TABLES = {"sst": sst_table, "judged": judged_table, "reviews": reviews_table, "nli": nli_table, "texts": texts_table}
TABLES |= {"probes": probes_table, "search": search_table, "masking": masking_table, "bench": bench_table}


def readme_with_tables(readme: str, results: pd.DataFrame) -> str:
    """README's text with each `<!-- results: NAME -->` ... `<!-- end -->` part made anew."""

    def table(found: re.Match) -> str:
        return f"<!-- results: {found[1]} -->\n{TABLES[found[1]](results)}\n<!-- end -->"

    return re.sub(r"<!-- results: (\w+) -->\n.*?<!-- end -->", table, readme, flags=re.S)


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = argparse.ArgumentParser(
        "python -m rationale.reference",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form.add_argument("outputs", nargs="?", type=Path, default=root() / "outputs", metavar="OUTPUTS")
    form.add_argument("--readme-only", action="store_true", help="only rewrite README's tables from results.csv")
    options = form.parse_args(arguments)
    results = read_results() if options.readme_only else collect(options.outputs)
    readme = root() / "README.md"
    write_text(readme, readme_with_tables(readme.read_text(encoding="utf-8"), results))
    print(f"{results['run'].nunique()} runs, {len(results)} values in {folder() / 'results.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
