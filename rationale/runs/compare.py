"""Compare finished runs: one long table of their results, and means over seeds of runs that differ in nothing else.

    task, corpus, aspect, model, network, vectors, target, sparsity      which kind of run
    settings                     what else differs from the notebook's defaults (see `differences`)
    variant                      aspect, price and settings in one line
    seed, split, metric, value   one value per row
    run, device, commit          where the value comes from

Of all runs that are compared, no two values share the columns of `KEY`.
`rows_of` makes the rows of finished runs. `summary` averages over seeds and over nothing else: each setting that
differs between runs of one model becomes a column. `recipes` tells the settings in which whole models differ, and
`line_names` names the lines of a figure.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rationale import metrics
from rationale.data.corpora import find_corpus
from rationale.errors import BadInput, optional
from rationale.nn.gates import GATES
from rationale.runs import intact, origin, saved
from rationale.runs.differences import (
    IN_COLUMNS,
    defaults_of,
    has_effect,
    method_network,
    network_name,
    read_settings,
    settings_of,
    write_settings,
)
from rationale.runs.origin import OWN, TASKS
from rationale.runs.own_baseline import baseline_rows, each_once
from rationale.runs.parameters import WITHOUT_EFFECT
from rationale.runs.workspace import root
from rationale.runs.yaml_files import as_override

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

KIND = ["task", "corpus", "aspect", "model", "network", "vectors", "target", "sparsity"]
COLUMNS = [*KIND, "settings", "variant", "seed", "split", "metric", "value", "run", "device", "commit"]
KEY = ["task", "corpus", "model", "vectors", "target", "variant", "seed", "split", "metric"]
SUBJECT = "subject"  # value of the column `model` in rows about the probed model itself (task `probes`)
CORPORA = {
    "10_first_rationale": "synthetic",
    "12_train_sst": "sst",
    "16_failures": "synthetic",
}  # of notebooks in which the corpus is not a parameter


def rows_of(*runs: Path) -> pd.DataFrame:
    """The rows of finished runs in the long table.

    Raises
    ------
    BadInput
        If a folder is not that of a run of a training notebook, or one of its files is damaged.
    """
    rows = []
    for run in runs:
        try:
            rows += _rows(run)
        except KeyError as error:
            raise intact.damaged(run / "params.yaml", f"{error} is missing") from None
    return with_variant(each_once(pd.DataFrame(rows, columns=COLUMNS)))


def with_variant(table: pd.DataFrame) -> pd.DataFrame:
    """The long table with its column `variant`, in which aspect, price and settings are written as one line."""
    lines = table[["aspect", "sparsity", "settings"]].drop_duplicates()
    written = {tuple(line): _variant(*line) for line in lines.itertuples(index=False)}
    keys = table[["aspect", "sparsity", "settings"]].itertuples(index=False)
    return table.assign(variant=[written[tuple(key)] for key in keys])


def _variant(aspect: str, sparsity: float, settings: str) -> str:
    price = write_settings({"sparsity": float(sparsity)}) if sparsity else ""
    return ", ".join(filter(None, [write_settings({"aspect": aspect}) if aspect else "", price, settings]))


def _rows(run: Path) -> list[dict[str, Any]]:
    notebook = origin.notebook_of(run)
    tasks = TASKS | OWN
    if notebook not in tasks:
        raise BadInput(f"{run}: a run of {notebook}, no training notebook; accepted: {', '.join(tasks)}")
    if run.parent.name in tasks and run.parent.name != notebook:
        raise BadInput(f"{run}: a run of {notebook} in the folder of {run.parent.name}; move it to {notebook}/")
    p, facts = saved.read_parameters(run), origin.read_environment(run)
    vectors = p.get("vectors", "learned")
    vectors += f" x {p['vectors_scale']:g}" if p.get("vectors_scale", 1) != 1 else ""
    model = p.get("model", SUBJECT)
    target = p.get("budget", 1.0)
    if model in GATES:
        target = p.get("selection") or 1.0
    common = {
        "task": tasks[notebook],
        "corpus": p.get("corpus", CORPORA.get(notebook)),
        "aspect": p.get("aspect", ""),
        "model": model,
        "network": network_name(p, notebook),
        "vectors": vectors,
        "target": target,
        "sparsity": p.get("sparsity", 0.0),
        "settings": write_settings(settings_of(p, notebook)),
        "seed": p["seed"],
        "run": f"{notebook}/{run.name}",
        "device": facts.get("device", ""),
        "commit": facts.get("commit", "")[:12],
    }
    if "language" in p and find_corpus(p["corpus"]).languages:
        common |= {"task": "translation", "aspect": f"{p['language']} to en"}
    scores = saved.read_metrics(run)
    values = [(split, name, value) for split in ("dev", "test") for name, value in scores[split].items()]
    if (run / "faithfulness.json").is_file():
        faithfulness = intact.read_json(run / "faithfulness.json", intact.Faithfulness)
        values += [(split, name, value) for split, part in faithfulness.items() for name, value in part.items()]
    values += [("train", "seconds", scores["seconds"]), ("train", "best_epoch", scores["best_epoch"])]
    rows = [
        common | {"split": split, "metric": name, "value": value}
        for split, name, value in values
        if name != "words_a_second"  # depends on the load of the machine; `make bench` compares speeds
    ]
    for method, scores_of_method in scores.get("methods", {}).items():
        own = common | {"model": method, "network": method_network(method, p, notebook)}
        own |= {"settings": write_settings(settings_of(p, notebook, method))}
        values = [(split, name, value) for split in ("dev", "test") for name, value in scores_of_method[split].items()]
        values += [("train", name, scores_of_method[name]) for name in ("seconds", "best_epoch")]
        rows += [own | {"split": split, "metric": name, "value": value} for split, name, value in values]
    return rows + baseline_rows(run, common, p, notebook)


def rows_of_all(runs_dir: str | Path, names: list[str], *tasks: str, of_classes: bool = False) -> pd.DataFrame:
    """The rows of the finished runs with these names in a folder of the repository.

    Raises
    ------
    BadInput
        If a run is of another task than these, is not there, or is damaged. With `of_classes`, also if its model
        predicts scores, for which there is no accuracy.
    """
    runs = [root() / runs_dir / name for name in names]
    rows = rows_of(*runs)
    task_of = rows.drop_duplicates("run").set_index("run")["task"]
    for run in runs:
        notebook = origin.notebook_of(run)
        task = task_of[f"{notebook}/{run.name}"]
        if task not in tasks:
            accepted = " or ".join(name for name, what in TASKS.items() if what in tasks)
            raise BadInput(f"{run}: a run of {notebook} ({task}); accepted here is a run of {accepted}")
        if of_classes and "accuracy" not in set(rows.loc[rows["run"] == f"{notebook}/{run.name}", "metric"]):
            raise BadInput(f"{run}: its model predicts scores; accepted here is a run that predicts classes")
    return rows


def agreements(runs: list[Path]) -> list[pd.DataFrame]:
    """For each run, the mean agreement of its test rationales with those of the runs that differ only in the seed."""
    alike: dict[str, list[Path]] = {}
    for run in runs:
        usual = defaults_of(origin.notebook_of(run))  # older runs used defaults that they do not name
        p = usual | saved.read_parameters(run)
        if p.get("model") in GATES:
            same = {name: value for name, value in p.items() if name not in {"seed", *WITHOUT_EFFECT}}
            alike.setdefault(f"{run.parent} {json.dumps(same, sort_keys=True)}", []).append(run)
    rows = []
    for group in (group for group in alike.values() if len(group) > 1):
        chosen = [[torch.tensor(z) != 0 for z in saved.read_rationales(run, "test")["z"]] for run in group]
        for i, run in enumerate(group):
            others = [metrics.agreement(chosen[i], chosen[j]) for j in range(len(group)) if j != i]
            row = rows_of(run).query("split == 'test'").head(1)
            rows.append(row.assign(metric="agreement", value=sum(others) / len(others)))
    return rows


def summary(results: pd.DataFrame, metrics: Sequence[str], split: str = "test", by: Sequence[str] = ()) -> pd.DataFrame:
    """Mean and standard deviation of metrics over seeds: one row per kind of run and combination of settings.

    Parameters
    ----------
    results : the long table, or a part of it
    metrics : names of metrics
    split : "dev" or "test"
    by : names of further columns of `results` in which averaged runs must agree, such as "seed"

    Returns
    -------
    DataFrame
        The columns of `by` that are not in `KIND`, then `KIND`; one column per setting that differs between runs of one
        model on one corpus, with the default where a run did not change it, and None where it has no effect;
        `settings`, the line with all of them; `<metric>`, `<metric>_std` and `<metric>_seeds` per metric, which are the
        mean, the standard deviation of the sample (NaN for a single seed) and the number of runs that have the metric;
        and `seeds`, the number of runs that have any of these metrics.

    Raises
    ------
    BadInput
        If two runs have the same settings and the same seed: their values are not those of two seeds.
    """
    part = results[(results["split"] == split) & results["metric"].isin(metrics)]
    names, first = list(metrics), [name for name in by if name not in KIND]
    rest = ["settings", *names, *(f"{name}_{what}" for what in ("std", "seeds") for name in names), "seeds"]
    if part.empty:
        return pd.DataFrame(columns=[*first, *KIND, *rest])
    keys = [*first, *KIND, "notebook", "settings"]
    part = part.assign(notebook=_notebook(part))
    _refuse_repeated_runs(part, keys)
    table = part.groupby([*keys, "metric"], dropna=False)["value"].agg(["mean", "std", "count"]).unstack("metric")
    table = table.reindex(columns=pd.MultiIndex.from_product([["mean", "std", "count"], names]))  # a metric may be new
    columns = {name: table["mean"][name] for name in names}
    columns |= {f"{name}_std": table["std"][name] for name in names}
    columns |= {f"{name}_seeds": table["count"][name].fillna(0).astype(int) for name in names}
    means = pd.DataFrame(columns | {"seeds": table["count"].max(axis=1).astype(int)}).reset_index()
    differing = [name for name in differing_settings(part) if name not in first]
    given = means[["model", "vectors", "notebook", "settings"]].itertuples(index=False)
    values = pd.DataFrame([_values(*row, differing) for row in given], columns=differing, dtype=object)
    means = pd.concat([means[[*first, *KIND]], values.infer_objects(), means[rest]], axis=1)
    order = [*KIND, *first, *differing]
    return means.sort_values(order, key=lambda column: column.map(sortable), kind="stable", ignore_index=True)


def _notebook(results: pd.DataFrame) -> pd.Series:
    """The notebook of each row: its defaults are those of the settings that the row does not name."""
    return results["run"].str.partition("/")[0]


def _refuse_repeated_runs(part: pd.DataFrame, keys: list[str]) -> None:
    of_one_run = [*dict.fromkeys([*keys, "seed", "metric"])]
    repeated = part[part.duplicated(of_one_run, keep=False)]
    if len(repeated):
        _, same = next(iter(repeated.groupby(of_one_run, dropna=False, sort=False)))  # a key may be missing: NaN
        first, (one, other, *_) = same.iloc[0], same["run"]
        settings = first["settings"] or "only defaults"
        raise BadInput(
            f"{one} and {other}: the same settings ({first['model']}, {settings}) and the same seed, {first['seed']}, "
            "so they cannot be averaged as two seeds; leave one of them out"
        )


def differing_settings(results: pd.DataFrame) -> list[str]:
    """The names of the settings that differ between runs of one model on one corpus, in alphabetical order."""
    kinds = results[["task", "corpus", "aspect", "model", "settings"]].assign(notebook=_notebook(results))
    names: set[str] = set()
    for _, group in kinds.drop_duplicates().groupby(["task", "corpus", "aspect", "model"], dropna=False):
        given = [read_settings(line) for line in group["settings"]]
        if group["notebook"].nunique() > 1:  # whose defaults differ
            given = [
                _changed(defaults_of(row.notebook)) | own for row, own in zip(group.itertuples(), given, strict=True)
            ]
        for name in set().union(*given):
            first, *others = (settings.get(name, _DEFAULT) for settings in given)
            names |= {name} if any(other != first for other in others) else set()
    return sorted(names)


_DEFAULT = object()


def _changed(usual: dict[str, Any]) -> dict[str, Any]:
    """The defaults of a notebook that may differ from another notebook's."""
    return {name: value for name, value in usual.items() if name not in IN_COLUMNS | WITHOUT_EFFECT}


def _values(model: str, vectors: str, notebook: str, line: str, names: Iterable[str]) -> list[Any]:
    """The values of these settings in a row with this `line` of settings: a default if the line does not name one."""
    usual, given = defaults_of(notebook), read_settings(line)
    p = usual | given | {name: value for name, value in (("model", model), ("vectors", vectors)) if name in usual}
    values = (p.get(name) if name in given or has_effect(name, p) else None for name in names)
    return [as_text(value) if isinstance(value, list) else value for value in values]


def sortable(value: Any) -> tuple[int, float, str]:
    """A key that sorts numbers before texts, and missing values first."""
    if value is None or value != value:
        return 0, 0.0, ""
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, str(value))


def setting_columns(table: pd.DataFrame) -> list[str]:
    """The columns of a `summary` that hold settings which differ between runs of one model."""
    names = list(table.columns)
    return names[names.index(KIND[-1]) + 1 : names.index("settings")]


def told_columns(table: pd.DataFrame) -> list[str]:
    """The columns that tell the rows of a `summary` apart, in order: all of `KIND` and of the settings that vary.

    `network` is left out, because the columns of settings say the same in full, unless two rows differ in nothing else.
    """
    names = [
        name for name in [*KIND, *setting_columns(table)] if name == "model" or table[name].nunique(dropna=False) > 1
    ]
    without = [name for name in names if name != "network"]
    return names if table.duplicated(without).any() else without


def line_names(table: pd.DataFrame, within: Sequence[str] = (), with_network: bool = True) -> pd.Series:
    """The name of each row's line in a figure: rows with the same name differ only in target and price.

    The model, its network, and whatever else differs between rows of this network: "hardkuma, learning_rate=0.01".

    Parameters
    ----------
    table : a `summary`, or some of its rows
    within : names of columns for whose values there is one figure each, such as "corpus"
    with_network : bool
        False: in place of the network, which names no default, the settings in which the lines of a model differ.
    """
    groups = table.groupby([*within, "model", "network"] if with_network else [*within, "model"])
    varied = {
        name: groups[name].transform(lambda column: column.nunique(dropna=False) > 1).astype(bool)
        for name in ("task", "corpus", "aspect", "vectors", *setting_columns(table))
        if len(table)
    }

    def name_of(row: pd.Series) -> str:
        parts = [row["model"], row["network"] if with_network else ""]
        parts += [row[name] for name in ("task", "corpus", "aspect", "vectors") if varied[name][row.name]]
        settings = {name: row[name] for name in setting_columns(table) if varied[name][row.name]}
        parts += [f"{name}={as_text(value)}" for name, value in settings.items() if value != ""]
        return ", ".join(filter(None, parts))

    return table.apply(name_of, axis=1) if len(table) else pd.Series(dtype=str)


def without_ones(table: pd.DataFrame) -> pd.DataFrame:
    """A table for a reader: no target where it is 1 and no price where it is 0, which say that there is none."""
    blank = {"target": lambda part: part["target"].where(part["target"].lt(1)),
             "sparsity": lambda part: part["sparsity"].where(part["sparsity"].gt(0))}  # fmt: skip
    return table.assign(**{name: made for name, made in blank.items() if name in table})


def as_text(value: Any) -> str:
    """A value of a setting as it is written in a file; a missing one, which pandas may have made NaN, as null."""
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, str) else as_override("", None if value != value else value)[1:]


def caption(results: pd.DataFrame, split: str = "test") -> str:
    """The runs behind a table or a figure in one line: how many, of which notebook, seeds, corpora, split, commits."""
    return "no runs" if results.empty else "; ".join(facts_of(results, split).values())


def facts_of(results: pd.DataFrame, split: str = "test") -> dict[str, str]:
    """What is to be told of one or more runs: such as "3 runs of 12_train_sst" under "runs", "seeds 1, 2, 3"."""
    runs = results.drop_duplicates("run")
    notebooks, commits = sorted(set(_notebook(runs))), sorted(set(runs["commit"].dropna()) - {""})
    corpora = sorted({" ".join(filter(None, names)) for names in zip(runs["corpus"], runs["aspect"], strict=True)})
    seeds = sorted(set(runs["seed"]))
    listed = ", ".join(map(str, seeds)) if len(seeds) < 4 else _in_ranges(seeds)
    return {
        "runs": f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} of {', '.join(notebooks)}",
        "seeds": f"{'seed' if len(seeds) == 1 else 'seeds'} {listed}",
        "corpora": f"{'corpus' if len(corpora) == 1 else 'corpora'} {', '.join(corpora)}",
        "split": f"{split} split",
        "commits": f"{'commit' if len(commits) == 1 else 'commits'} {', '.join(commits[:3]) or 'unknown'}"
        + (f" and {len(commits) - 3} more" if len(commits) > 3 else ""),
    }


def _in_ranges(numbers: Sequence[int]) -> str:
    """Sorted whole numbers, of which three or more in a row are told by the first and the last: 1 to 5, 8, 9."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    told = ([f"{row[0]} to {row[-1]}"] if len(row) > 2 else map(str, row) for row in ranges)
    return ", ".join(part for row in told for part in row)


def recipes(results: pd.DataFrame) -> list[str]:
    """One line per model with the settings that all its runs share and that differ from the defaults.

    What all models share stands in a first line, `all models`. Settings that differ between runs of some model are not
    named here: they are columns of the `summary`.
    """
    differing = differing_settings(results)
    lines: dict[tuple[str, str], str] = {}
    columns = ["task", "corpus", "aspect"]
    kinds = results[[*columns, "model", "settings"]].drop_duplicates()
    for corpus, part in kinds.groupby(columns, dropna=False):
        shared = {model: _shared(group["settings"]) for model, group in part.groupby("model")}
        every = _common(shared.values()) if len(shared) > 1 else {}
        own = {model: {k: v for k, v in items.items() if k not in every} for model, items in shared.items()}
        for model, items in ({"all models": every} | own).items():
            items = {name: value for name, value in items.items() if name not in differing}
            if items:
                lines[" ".join(filter(None, corpus[1:])), model] = write_settings(items)
    several = len({corpus for corpus, _ in lines}) > 1
    return [f"{corpus + ', ' if several else ''}{model}: {line}" for (corpus, model), line in lines.items()]


def _shared(lines: Iterable[str]) -> dict[str, Any]:
    return _common([read_settings(line) for line in lines])


def _common(settings: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The items that all these dicts share."""
    first, *others = settings
    return {name: value for name, value in first.items() if all(other.get(name, _DEFAULT) == value for other in others)}
