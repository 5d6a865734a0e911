"""The committed results: read `outputs/reference/`, and choose among the committed runs.

    results.csv    the long table, one value per row (see `compare`)
    history.csv    one epoch of one run per row
    by_text.csv    the score of each test text of a run (see `by_text`)
    claims.csv     the claims of the papers and what has become of them (see `verdicts`)
    needed.csv     the runs that would decide a claim, as a number of runs like a committed one (see `verdicts`)
    runs.json      one run per line: all its parameters and its environment
    num_texts.csv  the number of texts of the splits of corpora that have classes
    figures/       the pictures listed in FIGURES
    epochs.json    the gates of a few texts after each epoch of the run EPOCHS
    rates.json     the gates of a few texts at each rate of a small sweep
    layers.json    what each method gives to the words of a few texts, in each layer of a probed model

`make reference` writes them (tools/collect.py), but for `num_texts.csv`, which a test compares with the data, and for
the last two, which `python -m tools.rows` writes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rationale.errors import BadInput, optional, shown
from rationale.explain import METHODS, quarters
from rationale.nn.gates import GATES
from rationale.runs import by_text
from rationale.runs.compare import COLUMNS, KIND, rows_of_all, with_variant
from rationale.runs.differences import (
    ATTENTIONS,
    defaults_of,
    network_name,
    read_settings,
    settings_of,
    write_settings,
)
from rationale.runs.parameters import WITHOUT_EFFECT, modernised
from rationale.runs.themes import finding
from rationale.runs.workspace import changed_at, notebook_path, root
from rationale.runs.yaml_files import read_file

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = optional("pandas", "tables of results", "notebooks")

ADDED = {"aspect": "", "network": "", "sparsity": 0.0, "settings": ""}  # columns that older tables lack, their values
KNOWN_FROM = {  # a column of `published.csv` and its values, in words
    "known": "source of the number", "read": "from the paper", "recalled": "from memory",
}  # fmt: skip
COMPARISON = "31_selection_rates/committed/figures"  # by `31_selection_rates --name committed`
OF_REVIEWS = "32_reviews/committed/figures"  # by `32_reviews`
OF_PROBES = "24_read_probes/committed/figures"  # by `24_read_probes`, from runs of `14_train_probes`
OF_PAIRS = "23_read_nli/committed/figures"  # by `23_read_nli`, from runs of `13_train_nli`
OF_TEXTS = "25_read_seq2seq/committed/figures"  # by `25_read_seq2seq`, from runs of `15_train_seq2seq`
EPOCHS = "10_first_rationale/demo/epochs.json"  # below OUTPUTS; copied if the run is there
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


BY_LAYER = ("dev_kept", "dev_divergence")  # columns of history.csv with one value per layer: "0.98 0.31" of a probe


OWN_TEXTS = "own_texts.csv"  # corpora as if they were texts of one's own
OWN_SEARCH = "own_search.csv"  # settings of a pretrained encoder that were tried on texts of one's own, on dev
OWN_GPU = "own_gpu.csv"  # runs of MiniLM on a GPU; no scores of single texts: their pages failed after the means
LONG_TEXTS = "long_texts.csv"  # the loss in training of what was tried on movie reviews, with one text per step
SPARE_WORDS = "spare_words.csv"  # whether draws need the words that a fitted mask can spare
EMPTY_TEXTS = "empty_texts.csv"  # how models answer texts of which they select nothing
LARGER_PENALTIES = "larger_penalties.csv"  # attention of trained models, read with other penalties
FIXED_WORDS = "fixed_words.csv"  # MiniLM on words of SST that a rule has selected
ATTENTION_ROWS = "attention_rows.csv"  # rows of attention that get no gradient, early in training
TRANSFORMER_START = "transformer_start.csv"  # gates of a small transformer without pretraining, by epoch


def reference_folder() -> Path:
    """outputs/reference/ of the repository."""
    return root() / "outputs" / "reference"


def read_own_texts() -> pd.DataFrame:
    """`own_texts.csv`, one row per run of 17_train_own_texts on a corpus of the package; see `tools.own_rows`."""
    return pd.read_csv(reference_folder() / OWN_TEXTS, dtype={"right": str, "commit": str})


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
    return _read_results(path, changed_at(path)).copy()


@cache  # a page asks dozens of times
def _read_results(path: Path, _: float) -> pd.DataFrame:
    table = pd.read_csv(path, dtype={"aspect": str, "network": str, "variant": str, "settings": str})
    if "network" not in table and "variant" in table:  # its name in older tables
        table = table.rename(columns={"variant": "network"})
    for name, value in ADDED.items():
        if name not in table:
            table.insert(COLUMNS.index(name), name, value)
    return with_variant(table.fillna(ADDED))[COLUMNS]


def describe_again(table: pd.DataFrame, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the columns that name the settings of committed runs again, since defaults may have changed meanwhile.

    Parameters
    ----------
    table : the long table, which is changed in place
    records : the entries of `runs.json`
    """
    for record in records:
        run, p = record["run"], record["parameters"]
        notebook, rows = run.split("/")[0], table["run"] == run
        lines = {model: write_settings(settings_of(p, notebook, model)) for model in table.loc[rows, "model"].unique()}
        table.loc[rows, "settings"] = table.loc[rows, "model"].map(lines)
        if notebook in ATTENTIONS:
            table.loc[rows, "network"] = network_name(p, notebook)
    table["variant"] = with_variant(table)["variant"]


@cache
def _counted(path: Path) -> dict[tuple[str, str], int]:
    """The number of texts of each corpus and split in `num_texts.csv`; empty if there is no such file."""
    if not path.is_file():
        return {}
    table = pd.read_csv(path)
    return {(row.corpus, row.split): int(row.texts) for row in table.itertuples()}


def num_texts(corpus: str, settings: str, split: str = "test") -> int | None:
    """The number of texts behind a committed accuracy; None if it is not known.

    Parameters
    ----------
    corpus : str
    settings : str
        The column `settings`: `num_test` or `num_dev` may have left texts out.
    split : "train", "dev" or "test"
    """
    asked = read_settings(settings).get(f"num_{split}") or 0
    there = _counted(reference_folder() / "num_texts.csv").get((corpus, split))
    return None if there is None else min(asked, there) if asked else there


def read_history(path: Path | None = None) -> pd.DataFrame:
    """Read `history.csv`, one row per epoch of a committed run; `by_layer` reads its columns `BY_LAYER`."""
    return pd.read_csv(path or reference_folder() / "history.csv", dtype=dict.fromkeys(BY_LAYER, str))


def by_layer(history: pd.DataFrame, run: str, method: str, name: str) -> pd.DataFrame:
    """A value of each layer after each epoch of a probe: one row per epoch, one column per layer.

    Parameters
    ----------
    history : of `read_history`
    run, method : str
        A committed run, and one of its probes.
    name : one of `BY_LAYER`
        The kept share, or the divergence in nats, on dev.

    Raises
    ------
    BadInput
        If history.csv has no such values: runs that were committed before it had them have none.
    """
    history = history.reindex(columns=[*history.columns.union([name])])  # no run may have it
    rows = history[(history["run"] == run) & (history["method"] == method) & history[name].notna()]
    if rows.empty:
        raise BadInput(f"history.csv: no {name} of each layer for {method} of {run}; newer runs of probes have it")
    values = [[float(part) for part in text.split()] for text in rows[name]]
    return pd.DataFrame(values, index=pd.Index(rows["epoch"], name="epoch"))


def read_published() -> pd.DataFrame:
    """Read the published numbers, each with its source.

    `known` says whether a number was read in the text of the paper, or recalled and not read there again.
    """
    return pd.read_csv(reference_folder() / "published.csv")


def read_sequences(longest: int = 9) -> list[tuple[list[str], list[int], tuple[str, str, str], dict[str, list]]]:
    """Sequences of the toy task in `layers.json`, for the picture of what each method gives to their digits.

    Returns
    -------
    list
        Of each sequence of at most `longest` digits: its tokens; 1 for a digit of the query; the digits *n* and *m* of
        the query, and the answer; and by method the values of the tokens in each layer, [L + 1, T].
    """
    saved = json.loads((reference_folder() / "layers.json").read_text(encoding="utf-8"))
    found = []
    for number, text in enumerate(saved["texts"]):
        asked = re.search(r": more (\d) than (\d)\? (yes|no)$", text["title"])
        if asked and len(text["tokens"]) <= longest:
            layers = {one["name"]: [row["values"][number] for row in one["rows"]] for one in saved["methods"]}
            found.append((text["tokens"], text["gold"], asked.groups(), layers))
    return found[:2]


def read_by_text() -> pd.DataFrame:
    """Read `by_text.csv`, the scores of the test texts of committed runs; without rows if there is no such file."""
    path = reference_folder() / "by_text.csv"
    return by_text.read_table(path) if path.is_file() else pd.DataFrame(columns=by_text.COLUMNS)


def rows_for(p: SimpleNamespace, *tasks: str, of_classes: bool = False) -> pd.DataFrame:
    """The rows of the runs named in a notebook's parameters; if none is named, all committed rows of these tasks.

    With `of_classes`, a named run whose model predicts scores is refused.
    """
    if p.runs:
        return rows_of_all(p.runs_dir, p.runs, *tasks, of_classes=of_classes)
    table = read_results()
    return table[table["task"].isin(tasks)]


def show_pictures(p: SimpleNamespace, *names: str) -> None:
    """Display the committed pictures with these names, unless a notebook's parameters name runs.

    A page gives the title of a picture to those who do not see it.
    """
    from rationale.figures.look import Shown  # which needs matplotlib

    if p.runs:
        return
    display = optional("IPython.display", "pictures in a notebook", "notebooks").display
    folder = reference_folder() / "figures"
    number = ("", "", "two ", "three ", "four ", "five ")[len(names)] if len(names) < 6 else f"{len(names)} "
    print(f"You find the next {number}picture{'s' * (len(names) > 1)} in {shown(folder)}.")
    for path in (folder / f"{name}.svg" for name in names):
        svg = path.read_text(encoding="utf-8")
        display(Shown(svg[svg.index("<svg") :], {"alt": finding(svg)}))


def tell_missing(counted: str, trained_by: str, read_by: str, parameters: str) -> None:
    """Print why a table is missing on the committed results, and the two commands that make it.

    Parameters
    ----------
    counted : what the table is computed from, in the plural; no committed file has it
    trained_by, read_by : the notebooks that train a run, and show the table of it
    parameters : a file below `params/`, after which the run is named
    """
    run = Path(parameters).stem
    print(
        f"This table counts {counted}, which no committed file contains, so you do not see it here.\n"
        "With runs of your own, you see one row per run. For one run, these are the two commands:\n\n"
        f"    make run NOTEBOOK={trained_by} PARAMS=params/{parameters}\n"
        f'    make run NOTEBOOK={read_by} PARAMS="runs=[{run}]"'
    )


# Parameters in which two runs of the same kind may differ.
FREE = {"seed", "vectors", "model", "selection", "sparsity", "embedding_size", *WITHOUT_EFFECT}


def read_runs() -> pd.DataFrame:
    """The parameters of all committed runs: one row per run (its name is the index), one column per parameter."""
    path = reference_folder() / "runs.json"
    return _read_runs(path, changed_at(path)).copy()


@cache  # a page asks dozens of times
def _read_runs(path: Path, _: float) -> pd.DataFrame:
    records = json.loads(path.read_text(encoding="utf-8"))
    names = [record["run"] for record in records]
    return pd.DataFrame([modernised(record["parameters"]) for record in records], index=names)


def minutes_of_runs() -> pd.Series:
    """How many minutes each committed run took on its machine: the index is the run's name.

    This is the time of the whole run. If the run was interrupted, so that only the time after this is known, it is the
    time of the training.
    """
    files = reference_folder() / "runs.json", reference_folder() / "results.csv"
    return _minutes_of_runs(*files, *map(changed_at, files))


@cache
def _minutes_of_runs(runs: Path, results: Path, *_: float) -> pd.Series:
    """As `minutes_of_runs`, read once; the further arguments say when the files were changed."""
    records = json.loads(runs.read_text(encoding="utf-8"))
    whole = {record["run"]: float(str(record["environment"].get("seconds", 0)).split()[0]) for record in records}
    trained = read_results(results).query("metric == 'seconds'").groupby("run")["value"].max()
    return pd.Series({run: max(seconds, trained.get(run, 0.0)) / 60 for run, seconds in whole.items()})


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
    expected = {name: value for name, value in defaults_of(notebook).items() if name not in FREE}
    runs = read_runs()
    runs = runs[runs.index.str.startswith(f"{notebook}/")]
    alike = pd.Series(True, runs.index)  # to select the rows once per parameter would copy all columns each time
    for name, value in (expected | modernised(parameters)).items():
        same = runs[name] == value if name in runs else pd.Series(False, runs.index)
        if value == expected.get(name):  # runs that are older than the parameter used its present default
            same |= runs[name].isna() if name in runs else True
        alike &= same
    rows = results[results["run"].isin(runs.index[alike])]
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
    plain = table[table["model"].eq("softmax") & table["network"].eq("")].set_index("vectors")["accuracy"]
    return table["vectors"].map(plain).astype(float) - table["accuracy"]


# Masks are compared with the smallest masks that satisfy the same constraint, or (answer_*) that keep the prediction.
SEARCH_METRICS = ("f1", "optimality", "feasible", "feasible_draws", "settled", "precision", "recall", "masked",
                  "answer_f1", "answer_optimality")  # fmt: skip
BEHIND_GATE = ("f1", "optimality", "feasible")  # in which the score functions are compared with the relaxed gate
SMALLEST = ("smallest", "answer_smallest")  # the number of positions of these smallest masks


def search_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Rows of masks and of exact search on a small model.

    What several runs of a seed made alike counts once, such as the search, which has no margin. Of runs that differ in
    the multiplier at the start it is taken from the one that starts where runs usually do.
    """
    part = results[(results["task"] == "probes") & results["network"].str.startswith("gru")]
    part = part[part["run"].isin(part.loc[part["metric"].isin(["optimality", "answer_optimality"]), "run"])]
    masks = [name for name, method in METHODS.items() if method.is_mask]
    names = part["metric"].map(lambda name: name.partition("_at_")[0])  # "f1_at_500": after 500 steps
    part = part[part["model"].isin(masks) & names.isin([*SEARCH_METRICS, *SMALLEST])]
    started = part["settings"].str.contains("multiplier_init")
    own = [_own_settings(*row) for row in zip(part["model"], part["settings"], strict=True)]
    part = part.assign(settings=own, started=started).sort_values("started", kind="stable").drop(columns="started")
    return part.drop_duplicates([*KIND, "settings", "seed", "split", "metric"])


@cache  # the same few lines come again in many rows
def _own_settings(method: str, line: str) -> str:
    """The settings of a run without those that this method does not use."""
    used = {"margin": METHODS[method].needs_margin, "multiplier_init": METHODS[method].needs_multiplier}
    return write_settings({name: value for name, value in read_settings(line).items() if used.get(name, True)})


def search_steps(rows: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """How far the score functions are from the relaxed gate after each quarter of the steps.

    Parameters
    ----------
    rows : of `search_rows`
    scores : of `read_by_text`, or the `by_text.table_of` one's own runs

    Returns
    -------
    DataFrame
        One row per method, margin, multiplier at the start (`start`), runs (a tuple of names) and number of steps, and
        per metric of `BEHIND_GATE` the difference from `masks` of the same runs, a `Difference` with its bootstrap
        interval over texts and seeds. None where texts have no scores.
    """
    table = []
    usual = defaults_of("14_train_probes")
    for method in ("masks_by_score", "masks_by_released_score"):
        for line, part in rows[rows["model"] == method].groupby("settings"):
            runs, settings = tuple(sorted(set(part["run"]))), usual | read_settings(line)
            last = settings["num_steps"]
            for steps in (*quarters(last), last):
                end = "" if steps == last else f"_at_{steps}"
                pairs = {name: [f"{model} {name}{end}" for model in (method, "masks")] for name in BEHIND_GATE}
                found = {name: by_text.difference(scores, runs, *pair) for name, pair in pairs.items()}
                if any(one is not None for one in found.values()):
                    row = {"method": method, "margin": settings["margin"], "start": settings["multiplier_init"]}
                    table.append(row | {"runs": runs, "steps": steps} | found)
    columns = ["method", "margin", "start", "runs", "steps"]
    table = pd.DataFrame(table, columns=[*columns, *BEHIND_GATE], dtype=object)
    return table.sort_values(columns, ascending=[False, True, True, True, True], ignore_index=True)
