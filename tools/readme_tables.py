"""The tables of RESULTS.md, written from the committed results."""

import json
from collections.abc import Mapping
from functools import partial
from itertools import product
from math import inf, isnan, nan

import pandas as pd
import torch
from torch import Tensor

from rationale.explain.diffmask import PROBE_TARGETS
from rationale.figures import in_words
from rationale.nn.gates import GATES
from rationale.runs import by_text
from rationale.runs.committed import (
    BEHIND_GATE,
    FIXED_WORDS,
    LONG_TEXTS,
    OWN_GPU,
    OWN_SEARCH,
    SEARCH_METRICS,
    SMALLEST,
    minutes_of_runs,
    read_by_text,
    read_own_texts,
    read_published,
    reference_folder,
    rows_of_figure_4,
    search_rows,
    search_steps,
    setting,
)
from rationale.runs.compare import KIND, SUBJECT, line_names, summary
from rationale.runs.controls import PRICE, by_control, rows_of_controls
from rationale.runs.differences import read_settings
from rationale.runs.failed_rationales import by_run
from rationale.runs.needed import time_in_words
from rationale.runs.sweeps import read_sweep
from rationale.runs.verdicts import VERDICTS, cause_is_unknown, read_claims, with_verdicts
from rationale.runs.workspace import root
from rationale.statistics import (
    Difference,
    mean_interval,
    paired_bootstrap,
    share_difference,
    student_interval,
    wilson_interval,
)
from tools.fixed_words import RULES
from tools.measured import SPREAD, behind, cell, marks, share_with_interval, with_interval, with_legend
from tools.speed import markdown, rewritten, speed_tables

PLANNED_CORPORA, PLANNED_TARGETS, PLANNED_SEEDS = ("sst", "imdb", "movies"), (0.1, 0.2, 0.4), (1, 2, 3)  # of MiniLM
LARGEST_VECTORS = "imdb.w2v.300d"  # of the rows of SST with which other encoders are compared


def _printed(value: float, form: str = "{:.1f}") -> str:
    """A published number in a table; "" for NaN, which stands for a number that was not published."""
    return "" if value != value else form.format(value)


def sst_table(results: pd.DataFrame) -> str:
    """The table of SST, in Markdown."""
    runs = rows_of_figure_4(results)
    dev, test = (summary(runs, ["accuracy", "rate_expected", "rate_selected"], s) for s in ("dev", "test"))
    heads = "model,vectors,target or price,dev accuracy,test accuracy,expected rate,selected words,seeds"
    rows, found = [], test.to_dict("records")
    signs = marks(runs, found, "accuracy", lambda a, b: b["model"] == "full_text" and a["vectors"] == b["vectors"])
    for d, t, sign in zip(dev.to_dict("records"), found, signs, strict=True):
        target = setting(d["model"], d["target"], d["sparsity"])
        cells = [d["model"].replace("_", " "), d["vectors"], target]
        cells += [cell(d, "accuracy", scale=100, split="dev"), cell(t, "accuracy", scale=100) + sign]
        cells += [cell(t, name, scale=100) if target else "" for name in ("rate_expected", "rate_selected")]
        rows.append([*cells, str(d["seeds"])])
    return with_legend(markdown(heads.split(","), rows), "full text with the same vectors", marked=signs)


def controls_table(results: pd.DataFrame) -> str:
    """The table of gates and controls on SST, in Markdown, with everything else alike."""
    table = by_control(rows_of_controls(results))
    names = {"accuracy": "accuracy", "rate_selected": "selected words", "word_precision": "precision"}
    names |= {"count_tells": "told", "answer_share": "floor", "agreement": "agreement of seeds"}
    rows = []
    for row in table.to_dict("records"):
        price = f"{row['price']:g}" if row["control"] == PRICE else ""
        asked = [f"{row['target']:.0%}", row["control"], row["gate"], price]
        rows.append([*asked, *(cell(row, name, scale=100) for name in names), str(row["seeds"])])
    return with_legend(markdown(["target", "control", "gate", "price", *names.values(), "seeds"], rows))


def encoders_table(results: pd.DataFrame) -> str:
    """The table of SST with pretrained encoders, in Markdown, beside the same models with the LSTM."""
    on_sst = results[results["run"].str.startswith("12_train_sst/")]
    encoder = on_sst["settings"].map(lambda line: read_settings(line).get("encoder", "lstm"))
    usual = rows_of_figure_4(on_sst)
    asked = on_sst[~encoder.isin(["lstm", "rcnn"])]
    alike = usual["target"].isin(asked["target"]) & usual["vectors"].eq(LARGEST_VECTORS)
    runs = pd.concat([asked, usual[alike & usual["model"].isin(asked["model"]) & usual["sparsity"].eq(0)]])
    rates = ["rate_expected", "rate_selected", "word_precision", "count_tells", "answer_share"]
    dev, test = (summary(runs, ["accuracy", *rates], s) for s in ("dev", "test"))
    heads = "encoder,model,target,dev accuracy,test accuracy,expected rate,selected words,precision,told,floor,seeds"
    rows, found = [], test.to_dict("records")
    signs = marks(runs, found, "accuracy", lambda a, b: b["model"] == "full_text" and a["network"] == b["network"])
    for d, t, sign in zip(dev.to_dict("records"), found, signs, strict=True):
        target = setting(d["model"], d["target"], d["sparsity"])
        cells = [read_settings(d["settings"]).get("encoder", "lstm"), d["model"].replace("_", " "), target]
        cells += [cell(d, "accuracy", scale=100, split="dev"), cell(t, "accuracy", scale=100) + sign]
        cells += [cell(t, name, scale=100) if target else "" for name in rates]
        rows.append([*cells, str(d["seeds"])])
    return with_legend(markdown(heads.split(","), rows), "full text with the same encoder", marked=signs)


def reviews_table(results: pd.DataFrame) -> str:
    """The table of reviews, in Markdown: test split, means over seeds."""
    results = results[results["run"].str.startswith("11_train_reviews/")]
    metrics = ["mse", "accuracy", "rate_selected", "precision", "recall", "f1", "blind_random_span"]
    heads = "corpus,aspect,model,target or price,squared error,accuracy,selected,precision,recall,F1,random run,seeds"
    rows, every = [], []
    for (corpus, aspect), part in results.groupby(["corpus", "aspect"]):
        table = summary(part, metrics)
        found = table.assign(name=line_names(table)).to_dict("records")
        signs = {name: marks(part, found, name, _is_full_text) for name in metrics[:2]}
        for i, row in enumerate(found):
            name = row["name"].replace("_", " ")
            asked = setting(row["model"], row["target"], row["sparsity"])
            target = asked or (f"{row['target']:.0%}" if row["target"] < 1 else "")
            cells = [corpus.replace("_", " "), aspect, name, target]
            cells += [cell(row, "mse", "{:.4f}") + signs["mse"][i]]
            cells += [cell(row, "accuracy", scale=100) + signs["accuracy"][i]]
            rates = [cell(row, name, scale=100) for name in metrics[2:]]
            cells += rates if target else [""] * len(rates)
            rows.append([*cells, str(int(row["seeds"]))])
        every += [*signs["mse"], *signs["accuracy"]]
    reference = "full text on the same corpus and aspect, trained on as many texts"
    several = any(int(row[-1]) > 1 for row in rows)
    return with_legend(markdown(heads.split(","), rows), reference, marked=every, several=several)


def _is_full_text(row: dict, other: dict) -> bool:
    is_alike = row.get("num_train") == other.get("num_train")  # absent where all runs of the corpus have as many texts
    return other["model"] == "full_text" and not other["network"] and is_alike


def failures_table(results: pd.DataFrame) -> str:
    """The table of rationales that were made to fail, in Markdown: test split, means over seeds."""
    metrics = {
        "accuracy": "accuracy",
        "accuracy_uncorrelated": "on uncorrelated reviews",
        "precision": "precision",
        "recall_informative": "recall of informative words",
        "selected_aspects": "selected words about other aspects",
    }
    heads = ["model", "correlation", "skewed start", "remedy", *metrics.values(), "failed", "seeds"]
    rows = []
    kinds = by_run(results).groupby(["model", "correlation", "start", "remedy"], observed=True)
    for (model, correlation, start, remedy), part in kinds:
        row = {"corpus": "synthetic", "settings": ""}
        row |= {name: part[name].mean() for name in metrics} | {f"{name}_std": part[name].std() for name in metrics}
        failed, num = int(part["fails"].sum()), len(part)
        low, high = (f"{100 * end:.0f}" for end in wilson_interval(failed / num, num))
        cells = [model.replace("_", " "), f"{correlation:g}", start, remedy]
        cells += [cell(row, name, scale=100) for name in metrics]
        cells += [f"{100 * failed / num:.0f} ({low} to {high})"]
        if model not in GATES:  # nothing is selected
            cells[6:] = [""] * 4
        rows.append([*cells, str(num)])
    return with_legend(markdown(heads, rows))


def nli_table(results: pd.DataFrame) -> str:
    """The table of sentence pairs, in Markdown: test split, means over seeds."""
    heads = "corpus,attention,target,accuracy,behind softmax,cells that are not 0,seeds"
    rows, every = [], []
    for corpus, part in results[results["task"] == "nli"].groupby("corpus"):
        table = summary(part, ["accuracy", "rate_selected"])
        found = table.assign(name=line_names(table)).to_dict("records")
        signs = marks(part, found, "accuracy", _is_softmax)
        points = behind(part, found, "accuracy", _is_softmax)
        for row, sign, lost in zip(found, signs, points, strict=True):
            cells = [corpus, row["name"], setting(row["model"], row["target"], row["sparsity"])]
            cells += [cell(row, "accuracy", scale=100) + sign]
            cells += [lost]
            cells += ["" if row["model"] == "recurrent" else cell(row, "rate_selected", scale=100)]
            rows.append([*cells, str(int(row["seeds"]))])
        every += signs
    return with_legend(markdown(heads.split(","), rows), "softmax on the same vectors", marked=every)


def _is_softmax(row: dict, other: dict) -> bool:
    return other["model"] == "softmax" and not other["network"] and other["vectors"] == row["vectors"]


def texts_table(results: pd.DataFrame) -> str:
    """The table of translation and summarisation, in Markdown: test split, means over seeds."""
    metrics = {"bleu": "BLEU", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    heads = ["task", "corpus", "attention", *metrics.values(), "weights that are 0", "seeds"]
    rows, every = [], []
    results = results[results["task"].isin(["translation", "summarisation"])]
    results = results.sort_values(["task", "aspect"], ascending=[False, True], kind="stable")
    for (task, *text), part in results.groupby(["task", "corpus", "aspect"], sort=False):
        found = summary(part, [*metrics, "zeros"]).to_dict("records")
        signs = {name: marks(part, found, name, _is_softmax) for name in metrics}
        for i, row in enumerate(found):
            cells = [task, *(", ".join(filter(None, parts)) for parts in (text, (row["model"], row["network"])))]
            cells += [cell(row, name, "{:.2f}") + signs[name][i] for name in metrics]
            cells += [cell(row, "zeros", "{:.0f} %", 100)]
            rows.append([*cells, str(int(row["seeds"]))])
        every += [sign for of_metric in signs.values() for sign in of_metric]
    several = any(int(row[-1]) > 1 for row in rows)
    if not several:  # every row would have the same mark
        rows = [[text.replace(" ?", "") for text in row] for row in rows]
    return with_legend(markdown(heads, rows), "softmax on the same corpus", marked=every, several=several)


def probes_table(results: pd.DataFrame) -> str:
    """The table of the toy task of probes, in Markdown: test split, means over seeds, published beside."""
    metrics = ["kl_1", "js_1", "empty_1"]
    heads = "method,KL,JS,published KL,published JS,nothing attributed,seconds,seeds".split(",")
    rows = []
    results = results[(results["task"] == "probes") & (results["corpus"] == "toy") & (results["model"] != SUBJECT)]
    printed = read_published().query("task == 'probes'").set_index(["model", "metric"])["value"]
    took = results.query("metric == 'seconds'").groupby(["model", "network", "settings"])["value"].mean()
    table = summary(results, metrics)
    found = table.assign(name=line_names(table)).sort_values("js_1").to_dict("records")
    signs = {name: marks(results, found, name, lambda _, other: other["model"] == "states") for name in metrics[:2]}
    for i, row in enumerate(found):
        cells = [row["name"].replace("_", " ")]
        cells += [cell(row, name, "{:.3f}") + signs[name][i] for name in metrics[:2]]
        cells += [_printed(printed.get((row["model"], n), float("nan")), "{:.2f}") for n in metrics[:2]]
        cells += [
            cell(row, "empty_1", "{:.0f} %", 100),
            f"{took[row['model'], row['network'], row['settings']]:.0f}",
            str(int(row["seeds"])),
        ]
        rows.append(cells)
    every = [sign for of_metric in signs.values() for sign in of_metric]
    return with_legend(markdown(heads, rows), "`states`", marked=every)


def search_table(results: pd.DataFrame) -> str:
    """The table of masks of single sentences against exact search, in Markdown, in per cent; published values last."""
    results, scores = search_rows(results), read_by_text()
    names = list(SEARCH_METRICS)
    rows = []
    for row in summary(results, [*names, *SMALLEST]).sort_values(["network", "model"]).to_dict("records"):
        same = results[(results["model"] == row["model"]) & (results["network"] == row["network"])]
        runs = sorted(set(same["run"]))
        cells = [row["model"].replace("_", " ") + row["network"].removeprefix("gru")]
        for name in names:
            found = by_text.difference(scores, runs, f"{row['model']} {name}")
            cells.append(with_interval(found, scale=100) if found else cell(row, name, scale=100))
        smallest = SMALLEST[row["smallest"] != row["smallest"]]  # erasure has no margin
        rows.append([*cells, cell(row, smallest, "{:.2f}"), str(int(row["seeds"]))])
    printed = read_published().query("task == 'probes' and metric in @names")
    for model, part in printed.groupby("model"):
        values = part.set_index("metric")["value"]
        numbers = [_printed(100 * values.get(name, float("nan"))) for name in names]
        rows.append([f"{model.replace('_', ' ')}, published", *numbers, "", ""])
    heads = ["method", *(name.replace("_", " ") for name in names), "positions of a smallest mask", "seeds"]
    return with_legend(markdown(heads, rows), bootstrapped=True)


def search_steps_table(results: pd.DataFrame) -> str:
    """The table of the score functions beside the relaxed gate after each quarter of the steps, in Markdown."""
    rows = []
    for row in search_steps(search_rows(results), read_by_text()).to_dict("records"):
        cells = [row["method"].replace("_", " "), f"{row['margin']:g}", f"{row['start']:g}", f"{row['steps']:,}"]
        rows.append([*cells, *(with_interval(row[name], scale=100) for name in BEHIND_GATE)])
    heads = ["score function", "margin", "multiplier at the start", "steps", *BEHIND_GATE]
    return with_legend(markdown(heads, rows), bootstrapped=True)


def masking_table(results: pd.DataFrame) -> str:
    """The table of probes of transformers, in Markdown: means over layers, then over seeds.

    F1 is the mean over classes for SST and the F1 of SQuAD for questions, on dev and on test; all other columns are on
    test. In per cent; published values last, which are those of dev.
    """
    rows, probed = [], results[(results["task"] == "probes") & results["corpus"].isin(["sst", "xquad", "squad"])]
    probed = probed[~probed["network"].str.startswith("gru") & probed["split"].isin(["dev", "test"])]
    for corpus, part in probed.groupby("corpus"):
        f1 = "f1" if corpus != "sst" else "macro_f1"
        of_models = part.query("model == @SUBJECT and metric == @f1")
        runs = part.groupby([*KIND, "settings"], dropna=False)["run"].unique().to_dict()
        is_masked = part["metric"].str.fullmatch(rf"masked_{f1}_\d+")
        # The mean over layers is taken for each run, so that the spread is one over seeds.
        layers = part[is_masked].groupby([*KIND, "settings", "seed", "split", "run"], dropna=False)["value"]
        part = pd.concat([part, layers.mean().reset_index().assign(metric="masked")])
        part = part[part["model"].isin(PROBE_TARGETS)]
        names = ["masked", "kept", "agreement", "divergence"]
        dev, test = (summary(part, names, split) for split in ("dev", "test"))
        for row, on_dev in zip(
            test.assign(name=line_names(test)).to_dict("records"), dev.to_dict("records"), strict=True
        ):
            cells = [corpus, row["name"]]
            own = of_models[of_models["run"].isin(runs[tuple(row[key] for key in [*KIND, "settings"])])]
            alone = own.groupby("split")["value"].agg(["mean", "std"])
            for split, values in (("dev", on_dev), ("test", row)):
                model = {"alone": alone["mean"][split], "alone_std": alone["std"][split]}
                cells += [cell(values | model, one, scale=100, split=split) for one in ("alone", "masked")]
            cells += [cell(row, one, scale=100) for one in ("kept", "agreement")]
            rows.append([*cells, cell(row, "divergence", "{:.3f}"), str(row["seeds"])])
    printed = read_published().query("task == 'probes' and corpus == 'sst'").set_index(["model", "metric"])["value"]
    for kind in PROBE_TARGETS:
        f1 = [_printed(100 * value) for value in (printed[SUBJECT, "macro_f1"], printed[kind, "masked_macro_f1"])]
        rows.append(["sst", f"{kind}, published", *f1, "", "", _printed(100 * printed[kind, "kept"]), "", "", ""])
    heads = "corpus,what is masked,F1 of the model (dev),F1 after masking (dev),F1 of the model (test),"
    heads += "F1 after masking (test),kept,answer stays,divergence (nats),seeds"
    return with_legend(markdown(heads.split(","), rows))


FAITHFULNESS = {  # metric -> heading
    "word_precision": "precision",
    "word_recall": "recall",
    "agreement": "agreement of seeds",
    "sufficiency_aopc": "sufficiency",
    "comprehensiveness_aopc": "comprehensiveness",
    "calibration_error": "calibration error",
    "length_leak": "length leaked (R²)",
    "count_tells": "predictable from the number",
    "answer_share": "share of the commonest prediction",
}


def faithfulness_table(results: pd.DataFrame) -> str:
    """The table of the quality of the rationales, in Markdown: test split, means over seeds."""
    runs = rows_of_figure_4(results)
    measured = runs.loc[(runs["metric"] == "word_precision") & (runs["vectors"] == "imdb.w2v.300d"), "run"]
    runs = runs[runs["run"].isin(measured)]
    table = summary(runs, ["rate_selected", *FAITHFULNESS])
    rows = []
    for row in table[table["model"] != "full_text"].sort_values(["model", "rate_selected"]).to_dict("records"):
        asked = setting(row["model"], row["target"], row["sparsity"])
        cells = [row["model"], asked, cell(row, "rate_selected", scale=100)]
        cells += [cell(row, name, "{:.3f}") for name in FAITHFULNESS]
        rows.append([*cells, str(int(row["seeds"]))])
    heads = ["model", "target or price", "selected words", *FAITHFULNESS.values(), "seeds"]
    return with_legend(markdown(heads, rows))


def claims_table(results: pd.DataFrame) -> str:
    """The number of claims of each paper by their verdicts, in Markdown, from `claims.csv`."""
    claims = with_verdicts(read_claims(), results)
    of_number = claims["evidence"].ne("") & claims["rule"].ne("check")
    unknown = cause_is_unknown(claims)
    rows = []
    for paper, part in claims.groupby("paper", sort=False):
        counts = part["verdict"].value_counts()
        cells = [str(counts.get(verdict, 0)) for verdict in VERDICTS]
        rows.append([paper, *cells, str(int(unknown[part.index].sum())), str(int(of_number[part.index].sum())),
                     str(len(part))])  # fmt: skip
    heads = ["paper", *VERDICTS, "contradicted, cause not known", "judged by committed numbers", "claims"]
    return markdown(heads, rows)


def tuning_table(_: pd.DataFrame) -> str:
    """The settings that were changed after first runs, in Markdown, from `tuning.csv`."""
    table = pd.read_csv(reference_folder() / "tuning.csv", dtype=str, keep_default_na=False)
    heads = ["where", "setting", "before", "now", "commit", "why, as far as it is recorded"]
    return markdown(heads, [[f"`{row[0]}`", f"`{row[1]}`", *row[2:]] for row in table.itertuples(index=False)])


def sweeps_table(results: pd.DataFrame) -> str:
    """How many runs each sweep of the repository makes, in Markdown; only sweeps of which some run is committed."""
    own = read_own_texts().set_index("run")["seconds"].rename("17_train_own_texts/{}".format) / 60
    there, minutes, rows = {*results["run"], *own.index}, pd.concat([minutes_of_runs(), own]), []
    for path in sorted((root() / "params" / "sweeps").glob("*.yaml")):
        sweep = read_sweep(path.stem, wanted=False)
        names = [f"{run.notebook.stem}/{run.name}" for run in sweep.runs.values()]
        if there.intersection(names):
            took = minutes[minutes.index.isin(names)]
            ends = [f"{time:.0f}" if time >= 1 else "<1" for time in (took.min(), took.max())]
            one = [" to ".join(dict.fromkeys(ends)), time_in_words(took.sum())]
            rows.append([f"`make sweep SWEEP={path.stem}`", str(len(names)), str(len(sweep.left_out)), *one])
    heads = [
        "committed runs, which it makes",
        "wanted runs, which it leaves out",
        "minutes of one run",
        "all on one core",
    ]
    return markdown(["command", *heads], rows)


FIFTH = 0.2  # the target at which the corpora are compared
LARGER = "-minilm_larger_steps-"
OF_STEPS = {  # what a run of the full text can do differently, too, by a part of the run's name
    LARGER: ", larger steps of the encoder",
    "-accumulate6-": ", six batches per step",
    "-epochs4-": ", four epochs",
}
VARIANTS = {
    "-before-": ", by the defaults of before",
    "-from_the_start-": ", never the whole text, no second predictor, larger steps of the encoder",
    "-closeness0-": ", no second predictor",
    "-second_readsstates-": ", second predictor of the selector's states",
    "-samples1-": ", one draw and no baseline",
    **OF_STEPS,
}
WITHIN = {"full text": 0.03, "rate": 0.02}  # what was aimed at: points below the full text, and from the target rate
ROUNDING = 1e-9  # of a difference of two shares: 24 of 800 texts are 3 points


def variant_of(run: str, variants: Mapping[str, str] = VARIANTS) -> str:
    """What a run does differently from the defaults of today, from its name; "" for the defaults."""
    return "".join(words for part, words in variants.items() if part in run)


def own_differences(table: pd.DataFrame) -> pd.DataFrame:
    """What selecting words costs on corpora as if they were texts of one's own, one row per selecting run.

    Returns
    -------
    DataFrame
        run, corpus, encoder, model, target, seed; `rate_gap`, the distance of the rate on test from its target; and the
        differences of the test accuracy, each as a `statistics.Difference` or None: `full`, from the full text of the
        same encoder, seed and training steps (paired), and `tfidf`, from TF-IDF with logistic regression.
    """
    steps, rows = table["run"].map(partial(variant_of, variants=OF_STEPS)), []
    for row in table[table["model"] != "full_text"].itertuples():
        alike = (table[["corpus", "encoder", "seed", "train"]] == [row.corpus, row.encoder, row.seed, row.train]).all(1)
        whole = table[alike & (steps == steps[row.Index]) & (table["model"] == "full_text")]
        full = None
        if len(whole):
            scores = [by_text.read_scores("accuracy", row.test, bits) for bits in (row.right, whole["right"].iloc[0])]
            full = paired_bootstrap(*(one.double().unsqueeze(0) for one in scores))
        gap = abs(row.test_rate - row.target)
        named = [row.run, row.corpus, row.encoder, row.model, row.target, row.seed]
        rows.append([*named, gap, full, beside_tfidf(row)])
    names = ["run", "corpus", "encoder", "model", "target", "seed", "rate_gap", "full", "tfidf"]
    return pd.DataFrame(rows, columns=names)


def beside_tfidf(row) -> Difference:
    """The test accuracy of a row of `read_own_texts` less that of TF-IDF with logistic regression."""
    return share_difference(row.test_accuracy, row.tfidf_test, row.test)


def steps_in_words(table: pd.DataFrame) -> list[str]:
    """How the runs with the default steps of the encoder compare with those with larger steps, in sentences."""
    alike = ["corpus", "encoder", "model", "target", "seed", "train"]
    variants = table["run"].map(variant_of)
    usual, larger = (table[variants == words] for words in ("", OF_STEPS[LARGER]))
    pairs = usual.merge(larger, on=alike, suffixes=("", "_larger"))
    if len(pairs) < 2:
        return []
    said = []
    for split in ("dev", "test"):
        gains = pairs[f"{split}_accuracy"] - pairs[f"{split}_accuracy_larger"]
        mean = with_interval(Difference(gains.mean(), *mean_interval(gains)), scale=100)
        said.append(f"on {split} {mean} points, and above 0 in {(gains > 0).sum()}")
    begin = f"{len(pairs)} pairs of runs of MiniLM differ in the steps of the encoder alone."
    return [f"{begin} The accuracy with the default less that with larger steps is {'; '.join(said)}."]


def own_texts_table(_: pd.DataFrame) -> str:
    """The table of corpora as if they were texts of one's own, in Markdown, one row per run, and what was reached."""
    table = read_own_texts()
    found = own_differences(table).set_index("run")
    heads = "corpus,texts,encoder,reads,test,TF-IDF,beside TF-IDF,beside full text,selected".split(",")
    heads += ["number tells", "floor", "kept epoch", "seed"]
    rows = []
    for row in table.itertuples():
        gates = row.model != "full_text"
        reads = f"{in_words(row.model)}, {100 * row.target:.0f} %" if gates else "full text"
        variant = variant_of(row.run)
        cells = [row.corpus, f"{row.train + row.dev + row.test:,}", row.encoder, reads + variant]
        for accuracy in (row.test_accuracy, row.tfidf_test):
            cells.append(share_with_interval(accuracy, row.test))
        cells.append(with_interval(beside_tfidf(row), scale=100))
        cells.append(with_interval(found["full"][row.run], scale=100) if gates else "")
        cells.append(f"{100 * row.test_rate:.1f}°" if gates else "")
        told = [] if isnan(row.told) else [row.told, row.told_without]
        cells += [share_with_interval(share, row.test) for share in told] or ["", ""]
        cells += [f"{row.best_epoch} of {row.epochs}", str(row.seed)]
        rows.append(cells)
    lines = []
    usual = found.index.map(variant_of) == ""
    compared = found[(found["model"] == "hardkuma") & (found["target"] == FIFTH) & usual]
    for encoder, part in compared.reset_index().groupby("encoder"):
        full = [one for one in part["full"] if one is not None]
        near = sum(one.value >= -WITHIN["full text"] - ROUNDING for one in full)
        held = (part["rate_gap"] <= WITHIN["rate"]).sum()
        above, below = ([one for one in part["tfidf"] if sign * one.value > 0] for sign in (1, -1))
        sure = [sum(one.is_significant for one in ones) for ones in (above, below)]
        runs = f"{len(part)} run{'s' * (len(part) != 1)}"
        lines.append(f"With `{encoder}` we have {runs} of HardKuma at 20 % with the defaults of today.")
        lines.append(f"Above TF-IDF: {len(above)} of {len(part)}, of which {sure[0]} with an interval without 0.")
        lines.append(f"Below it: {len(below)}, of which {sure[1]} with such an interval.")
        if full:
            near_full = f"At most {100 * WITHIN['full text']:.0f} points below the full text"
            lines.append(f"{near_full}, where we have a run of it: {near} of {len(full)}.")
        lines.append(f"Selected share within {100 * WITHIN['rate']:.0f} points of 20 %: {held} of {len(part)}.")
    lines += steps_in_words(table)
    planned = read_sweep("own_texts").runs
    wanted = [run.params for name, run in planned.items() if name not in set(table["run"])]
    there = set(zip(table["corpus"], table["encoder"], strict=True))
    pairs = dict.fromkeys((p["corpus"], p["encoder"]) for p in wanted if (p["corpus"], p["encoder"]) not in there)
    made = f"{len(wanted)} have not been made" if wanted else "all have been made"
    lines.append(f"Of the {len(planned)} runs of the sweep, {made}.")
    if pairs:
        lines.append(f"There is no run yet of {' and of '.join(f'{corpus} with {name}' for corpus, name in pairs)}.")
    return f"{markdown(heads, rows)}\n\n{' '.join(lines)}\n\n{agreement_table(table)}"


def mean_over_seeds(rows: pd.DataFrame) -> Tensor:
    """From rows of `read_own_texts` on the same texts to the share of the seeds that are right, float64 [N]."""
    right = [by_text.read_scores("accuracy", row.test, row.right).double() for row in rows.itertuples()]
    return torch.stack(right).mean(0)


def gates_in_words(usual: pd.DataFrame) -> list[str]:
    """How HardKuma and Bernoulli gates compare where both have several seeds, in sentences."""
    said = []
    for (corpus, encoder, _, target), part in usual.groupby(["corpus", "encoder", "train", "target"]):
        gates = [part[part["model"] == name].set_index("seed") for name in ("hardkuma", "bernoulli")]
        seeds = gates[0].index.intersection(gates[1].index)
        if len(seeds) < 2:
            continue
        found = paired_bootstrap(*(mean_over_seeds(one.loc[seeds]) for one in gates))
        said.append(f"on {corpus} with {encoder} at {100 * target:.0f} % {with_interval(found, scale=100)}")
    if not said:
        return []
    only = "Such an interval is a bootstrap over the texts, too, so it does not contain what other seeds would change."
    heads = "The accuracy of HardKuma less that of Bernoulli gates, where both have several seeds"
    return [f"{heads}: {'; '.join(said)}. {only}"]


def not_trained_in_words(usual: pd.DataFrame) -> list[str]:
    """How many runs of the planned comparison of MiniLM nobody has made, and what they would take, in sentences.

    A run takes as long as those of the same corpus that select words, or as those that read the full text. If none of
    these is there, it is counted as one that selects.
    """
    kinds = [("full_text", 1.0), *product(("hardkuma", "bernoulli"), PLANNED_TARGETS)]
    wanted, minilm = {(*kind, seed) for kind in kinds for seed in PLANNED_SEEDS}, usual[usual["encoder"] == "minilm"]
    minutes, said, num = 0.0, [], 0
    for corpus in PLANNED_CORPORA:
        part = minilm[minilm["corpus"] == corpus]
        missing = wanted - set(part[["model", "target", "seed"]].itertuples(index=False, name=None))
        times = part.groupby("model")["seconds"].mean() / 60
        selecting = times.drop("full_text", errors="ignore").mean()
        minutes += sum(times.get(model, selecting) if model == "full_text" else selecting for model, *_ in missing)
        num += len(missing)
        if missing:
            said.append(f"{len(missing)} on {corpus}")
    if not num:
        return []
    targets = ", ".join(f"{100 * target:.0f}" for target in PLANNED_TARGETS)
    planned = f"{len(PLANNED_SEEDS)} seeds of MiniLM with the full text and with either gate at {targets} %"
    of_all = f"Of these {len(wanted) * len(PLANNED_CORPORA)} runs, {num} are not made ({', '.join(said)})"
    where = ", ".join(PLANNED_CORPORA)
    begin = f"We planned {planned}, on {where}. {of_all}."
    if isnan(minutes):  # nobody has made a run that selects on one of the corpora
        return [begin]
    return [f"{begin} They would take {time_in_words(minutes)} on one core."]


def own_means_table(_: pd.DataFrame) -> str:
    """Means over the seeds of the runs with today's defaults, in Markdown, one row per corpus, encoder and gates."""
    table = read_own_texts()
    usual = table[table["run"].map(variant_of) == ""]
    heads = "corpus,texts,encoder,reads,test,beside TF-IDF,beside full text,selected,seeds".split(",")
    usual = usual.assign(order=usual["model"].map(["full_text", "hardkuma", "bernoulli"].index))
    rows = []
    for key, part in usual.groupby(["corpus", "encoder", "train", "order", "target"]):
        corpus, encoder, _, _, target = key
        one, num, model = part.iloc[0], len(part), part["model"].iloc[0]
        reads = f"{in_words(model)}, {100 * target:.0f} %" if model in GATES else "full text"
        cells = [corpus, f"{one.train + one.dev + one.test:,}", encoder, reads]
        means = {name: part[name].mean() for name in ("test_accuracy", "test_rate")}
        spreads = {name: part[name].std() for name in means}
        shown = {name: f"{100 * means[name]:.1f} ± {100 * spreads[name]:.1f}" for name in means}
        if num == 1:
            shown = {"test_accuracy": share_with_interval(one.test_accuracy, one.test)}
            shown |= {"test_rate": f"{100 * one.test_rate:.1f}°"}
        cells.append(shown["test_accuracy"])
        cells.append(with_interval(share_difference(means["test_accuracy"], one.tfidf_test, one.test), scale=100))
        of_full = (usual[["corpus", "encoder", "train", "model"]] == [corpus, encoder, one.train, "full_text"]).all(1)
        full = usual[of_full & usual["seed"].isin(part["seed"])]
        beside = None
        if model in GATES and len(full) == num:
            beside = paired_bootstrap(mean_over_seeds(part), mean_over_seeds(full))
        cells += [with_interval(beside, scale=100), shown["test_rate"] if model in GATES else "", str(num)]
        rows.append(cells)
    return f"{markdown(heads, rows)}\n\n{' '.join([SPREAD, *gates_in_words(usual), *not_trained_in_words(usual)])}"


def agreement_table(table: pd.DataFrame) -> str:
    """How far the runs of `own_texts.csv` agree with what people marked, in Markdown, beside published numbers."""
    measures = {"f1_macro": "F1 of words", "span_f1_macro": "F1 of passages (IOU F1)", "auprc": "AUPRC"}
    rows = []
    compared = table[(table["model"] == "hardkuma") & (table["target"] == FIFTH)]
    for row in compared[compared["f1_macro"].notna()].to_dict("records"):
        cells = [
            row["corpus"],
            f"{row['encoder']}, seed {row['seed']}{variant_of(row['run'])}",
            f"{100 * row['test_rate']:.1f}°",
        ]
        num = row.get("marked", nan)
        for name in measures:
            interval = student_interval(row[name], row[f"{name}_error"], inf if isnan(num) else num)
            cells.append(with_interval(Difference(row[name], *interval), scale=100))
        rows.append(cells)
    printed = read_published().query("task == 'own_texts'")
    for (corpus, source), part in printed.groupby(["corpus", "source"]):
        values = part.set_index("metric")["value"]
        found = [f"{100 * values[name]:.1f}" if name in values else "" for name in measures]
        known = "" if (part["known"] == "read").all() else " (recalled, not read)"
        rows.append([corpus, f"published: {source}{known}", "", *found])
    said = (
        "The next table shows how well the selected words agree with those that people marked, at a target of 20 %. "
        "The numbers are means over the texts of test, in per cent, with 95 % intervals. Our models have seen no "
        "marks. The published numbers are those of another test split."
    )
    return f"{said}\n\n{markdown(['corpus', 'model', 'selected', *measures.values()], rows)}"


def own_search_table(_: pd.DataFrame) -> str:
    """The settings of MiniLM that were tried before its defaults were chosen, in Markdown, with their last epoch."""
    heads = ["corpus", "tried", "accuracy on dev", "selected", "last epoch"]
    rows = []
    for row in pd.read_csv(reference_folder() / OWN_SEARCH, dtype=str).itertuples():
        accuracies, rates = row.dev_accuracy_by_epoch.split(), row.dev_rate_by_epoch.split()
        score = share_with_interval(float(accuracies[-1]), int(row.dev))
        reached = f"{100 * float(rates[-1]):.1f}°"
        rows.append([row.corpus, row.change, score, reached, f"{len(accuracies)} of {row.epochs}"])
    return markdown(heads, rows)


def own_gpu_table(_: pd.DataFrame) -> str:
    """The runs of MiniLM on texts of one's own that were made on a GPU, in Markdown."""
    heads = ["corpus", "reads", "accuracy on dev", "on test", "TF-IDF on test", "selected", "kept epoch", "seed"]
    table, rows = pd.read_csv(reference_folder() / OWN_GPU), []
    for row in table.itertuples():
        reads = f"{in_words(row.model)}, {100 * row.target:.0f} %" if row.model in GATES else "full text"
        measured = ((row.dev_accuracy, row.dev), (row.test_accuracy, row.test), (row.tfidf_test, row.test))
        scores = [share_with_interval(*one) for one in measured]
        selected = f"{100 * row.dev_rate:.1f}°" if row.model in GATES else ""
        rows.append([row.corpus, reads, *scores, selected, f"{row.best_epoch} of {row.epochs}", str(row.seed)])
    return markdown(heads, rows)


def long_texts_table(_: pd.DataFrame) -> str:
    """The loss of the first training texts for what was tried on long reviews, in Markdown."""
    heads = ["tried", "loss of texts 301 to 400", "loss of the last hundred", "texts"]
    rows = []
    for row in pd.read_csv(reference_folder() / LONG_TEXTS, dtype=str).itertuples():
        losses = row.train_loss_by_hundred.split()
        rows.append([row.tried, f"{losses[3]}°", f"{losses[-1]}°", str(100 * len(losses))])
    return markdown(heads, rows)


def fixed_words_table(_: pd.DataFrame) -> str:
    """MiniLM on words of SST that a rule has selected, in Markdown, beside the gates that learn to select them."""
    table = pd.read_csv(reference_folder() / FIXED_WORDS)
    table["rule"] = pd.Categorical(table["rule"], list(RULES))  # in this order
    rows = []
    for row in table.sort_values(["share", "rule"]).itertuples():
        cells = [RULES[row.rule], f"{100 * row.test_rate:.1f}°"]
        for accuracy, number in ((row.dev_accuracy, row.dev), (row.test_accuracy, row.test)):
            cells.append(share_with_interval(accuracy, int(number)))
        rows.append([*cells, f"{row.best_epoch} of {row.epochs}", str(row.seed)])
    return markdown(["who selects", "selected", "accuracy on dev", "on test", "kept epoch", "seed"], rows)


def bench_table(_: pd.DataFrame) -> str:
    """The tables of speed, which do not depend on the results; see `tools.speed`."""
    return speed_tables()


def scale_table(_: pd.DataFrame) -> str:
    """The table of the growth with the number of texts, in Markdown, from `scale.json`."""
    scale = json.loads((reference_folder() / "scale.json").read_text(encoding="utf-8"))
    heads = ["texts", "seconds to the first batch", "bytes per text", "at most", "seconds to cut an epoch's batches"]
    rows = [
        [
            f"{row['texts']:,}",
            f"{row['first batch']:.2f}",
            f"{row['bytes per text']:,.0f}",
            f"{row['peak bytes per text']:,.0f}",
            f"{row['batches']:.2f}",
            f"{1e3 * row['step']:.0f}",
            f"{row['epoch']:.1f}",
        ]
        for row in scale["sizes"]
    ]
    table = markdown([*heads, "milliseconds of a step", "seconds of an epoch"], rows)
    machine, settings = scale["machine"], ", ".join(f"{name} {value:,}" for name, value in scale["settings"].items())
    where = f"{machine['cpu']}, one thread, Python {machine['python']}, torch {machine['torch']}, {scale['date']}."
    return f"{table}\n\n{settings[0].upper()}{settings[1:]}. {where}"


TABLES = {
    "sst": sst_table,
    "controls": controls_table,
    "encoders": encoders_table,
    "faithfulness": faithfulness_table,
    "reviews": reviews_table,
    "failures": failures_table,
    "nli": nli_table,
}
TABLES |= {
    "texts": texts_table,
    "probes": probes_table,
    "search": search_table,
    "search_steps": search_steps_table,
    "masking": masking_table,
    "claims": claims_table,
    "tuning": tuning_table,
    "sweeps": sweeps_table,
    "own_means": own_means_table,
    "own_texts": own_texts_table,
    "own_search": own_search_table,
    "own_gpu": own_gpu_table,
    "long_texts": long_texts_table,
    "fixed_words": fixed_words_table,
    "bench": bench_table,
    "scale": scale_table,
}


def with_tables(page: str, results: pd.DataFrame) -> str:
    """The text of a page in which every table has been written again."""
    return rewritten(page, {name: table(results) for name, table in TABLES.items() if f"results: {name} " in page})
