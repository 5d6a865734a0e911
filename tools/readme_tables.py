"""The tables of RESULTS.md, written from the committed results."""

import json
import re

import pandas as pd

from rationale.explain.diffmask import PROBE_TARGETS
from rationale.runs.committed import (
    SEARCH_METRICS,
    behind_softmax,
    read_published,
    reference_folder,
    rows_of_figure_4,
    search_rows,
    setting,
)
from rationale.runs.compare import SUBJECT, line_names, summary
from tools.speed import markdown, rewritten, speed_tables


def _cell(value: float, form: str = "{:.1f}") -> str:
    """A number in a table; "" for NaN, which stands for a metric that a run does not have."""
    return "" if value != value else form.format(value)


def _mean_std(mean: float, std: float) -> str:
    return _cell(100 * mean) + _cell(100 * std, " ± {:.1f}")


def sst_table(results: pd.DataFrame) -> str:
    """The table of SST, in Markdown."""
    runs = rows_of_figure_4(results)
    dev, test = (summary(runs, ["accuracy", "rate_expected", "rate_selected"], s) for s in ("dev", "test"))
    heads = "model,vectors,target or price,dev accuracy,test accuracy,expected rate,selected words,seeds"
    rows = []
    for d, t in zip(dev.itertuples(), test.itertuples(), strict=True):
        target = setting(d.model, d.target, d.sparsity)
        cells = [d.model.replace("_", " "), d.vectors, target]
        cells += [_mean_std(d.accuracy, d.accuracy_std), _mean_std(t.accuracy, t.accuracy_std)]
        cells += ["", ""] if not target else [f"{100 * t.rate_expected:.1f}", f"{100 * t.rate_selected:.1f}"]
        rows.append([*cells, str(d.seeds)])
    return markdown(heads.split(","), rows)


def reviews_table(results: pd.DataFrame) -> str:
    """The table of reviews, in Markdown: test split, means over seeds."""
    results = results[results["run"].str.startswith("11_train_reviews/")]
    marks = ["mse", "accuracy", "rate_selected", "precision", "recall", "f1", "blind_random_span"]
    heads = "corpus,aspect,model,target or price,squared error,accuracy,selected,precision,recall,F1,random run,seeds"
    rows = []
    for (corpus, aspect), part in results.groupby(["corpus", "aspect"]):
        table = summary(part, marks)
        for row in table.assign(name=line_names(table)).to_dict("records"):
            name = row["name"].replace("_", " ")
            asked = setting(row["model"], row["target"], row["sparsity"])
            target = asked or (f"{row['target']:.0%}" if row["target"] < 1 else "")
            cells = [corpus.replace("_", " "), aspect, name, target]
            cells += [_cell(row["mse"], "{:.4f}")]
            cells += [_mean_std(row["accuracy"], row["accuracy_std"])]
            rates = [_cell(100 * row[name]) for name in marks[2:]]
            cells += rates if target else [""] * len(rates)
            rows.append([*cells, str(int(row["seeds"]))])
    return markdown(heads.split(","), rows)


def nli_table(results: pd.DataFrame) -> str:
    """The table of sentence pairs, in Markdown: test split, means over seeds."""
    heads = "corpus,attention,target,accuracy,behind softmax,cells that are not 0,seeds"
    rows = []
    for corpus, part in results[results["task"] == "nli"].groupby("corpus"):
        table = summary(part, ["accuracy", "rate_selected"])
        table = table.assign(behind=behind_softmax(table), name=line_names(table))
        for row in table.to_dict("records"):
            cells = [corpus, row["name"], setting(row["model"], row["target"], row["sparsity"])]
            cells += [_mean_std(row["accuracy"], row["accuracy_std"])]
            cells += [_cell(100 * row["behind"])]
            cells += ["" if row["model"] == "recurrent" else f"{100 * row['rate_selected']:.1f}"]
            rows.append([*cells, str(int(row["seeds"]))])
    return markdown(heads.split(","), rows)


def texts_table(results: pd.DataFrame) -> str:
    """The table of translation and summarisation, in Markdown: test split, means over seeds."""
    marks = {"bleu": "BLEU", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    heads = ["task", "corpus", "attention", *marks.values(), "weights that are 0", "seeds"]
    rows = []
    results = results[results["task"].isin(["translation", "summarisation"])]
    results = results.sort_values(["task", "aspect"], ascending=[False, True], kind="stable")
    for (task, *text), part in results.groupby(["task", "corpus", "aspect"], sort=False):
        for row in summary(part, [*marks, "zeros"]).to_dict("records"):
            cells = [task, *(", ".join(filter(None, parts)) for parts in (text, (row["model"], row["variant"])))]
            cells += [_cell(row[name], "{:.2f}") for name in marks]
            cells += [f"{100 * row['zeros']:.0f} %"]
            rows.append([*cells, str(int(row["seeds"]))])
    return markdown(heads, rows)


def probes_table(results: pd.DataFrame) -> str:
    """The table of the toy task of probes, in Markdown: test split, means over seeds, published beside."""
    marks = ["kl_1", "js_1", "empty_1"]
    heads = "method,KL,JS,published KL,published JS,nothing attributed,seconds,seeds".split(",")
    rows = []
    results = results[(results["task"] == "probes") & (results["corpus"] == "toy") & (results["model"] != SUBJECT)]
    printed = read_published().query("task == 'probes'").set_index(["model", "metric"])["value"]
    took = results.query("metric == 'seconds'").groupby(["model", "variant", "settings"])["value"].mean()
    table = summary(results, marks)
    for row in table.assign(name=line_names(table)).sort_values("js_1").to_dict("records"):
        cells = [row["name"].replace("_", " ")]
        spread = {n: f" ± {row[n + '_std']:.3f}" if row["seeds"] > 1 else "" for n in marks[:2]}
        cells += [_cell(row[n], "{:.3f}" + spread[n]) for n in marks[:2]]
        cells += [_cell(printed.get((row["model"], n), float("nan")), "{:.2f}") for n in marks[:2]]
        cells += [
            f"{100 * row['empty_1']:.0f} %",
            f"{took[row['model'], row['variant'], row['settings']]:.0f}",
            str(int(row["seeds"])),
        ]
        rows.append(cells)
    return markdown(heads, rows)


def search_table(results: pd.DataFrame) -> str:
    """The table of masks of single sentences against exact search, in Markdown, in per cent; published values last."""
    results = search_rows(results)
    rows = []
    for row in summary(results, list(SEARCH_METRICS)).sort_values(["variant", "model"]).to_dict("records"):
        cells = [
            row["model"].replace("_", " ") + row["variant"].removeprefix("gru"),
            *(_mean_std(row[n], row[f"{n}_std"]) for n in SEARCH_METRICS),
        ]
        rows.append([*cells, str(int(row["seeds"]))])
    printed = read_published().query("task == 'probes' and metric in @SEARCH_METRICS")
    for model, part in printed.groupby("model"):
        values = part.set_index("metric")["value"]
        numbers = [_cell(100 * values.get(name, float("nan"))) for name in SEARCH_METRICS]
        rows.append([f"{model.replace('_', ' ')}, published", *numbers, ""])
    return markdown(["method", *(name.replace("_", " ") for name in SEARCH_METRICS), "seeds"], rows)


def masking_table(results: pd.DataFrame) -> str:
    """The table of probes of transformers, in Markdown: test split, means over layers, then over seeds.

    F1 is the mean over classes for SST and the F1 of SQuAD for questions; in per cent; published values last.
    """
    rows, probed = [], results[(results["task"] == "probes") & results["corpus"].isin(["sst", "xquad", "squad"])]
    probed = probed[~probed["variant"].str.startswith("gru") & (probed["split"] == "test")]
    for corpus, part in probed.groupby("corpus"):
        f1 = "f1" if corpus != "sst" else "macro_f1"
        alone = part.query("model == @SUBJECT and metric == @f1")["value"].mean()
        masks = sorted({name for name in part["metric"] if re.fullmatch(rf"masked_{f1}_\d+", name)})
        table = summary(part[part["model"].isin(PROBE_TARGETS)], [*masks, "kept", "agreement", "divergence"])
        for row in table.assign(name=line_names(table)).to_dict("records"):
            masked = sum(row[name] for name in masks) / len(masks)
            cells = [corpus, row["name"], _cell(100 * alone), _cell(100 * masked)]
            cells += [_cell(100 * row["kept"]), _cell(100 * row["agreement"]), f"{row['divergence']:.3f}"]
            rows.append([*cells, str(row["seeds"])])
    printed = read_published().query("task == 'probes' and corpus == 'sst'").set_index(["model", "metric"])["value"]
    for kind in PROBE_TARGETS:
        values = [printed[SUBJECT, "macro_f1"], printed[kind, "masked_macro_f1"], printed[kind, "kept"]]
        rows.append(["sst", f"{kind}, published", *(_cell(100 * value) for value in values), "", "", ""])
    heads = "corpus,what is masked,F1 of the model,F1 after masking,kept,answer stays,divergence (nats),seeds"
    return markdown(heads.split(","), rows)


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
        cells = [row["model"], asked, f"{100 * row['rate_selected']:.1f}"]
        cells += [_cell(row[name], "{:.3f}") for name in FAITHFULNESS]
        rows.append([*cells, str(int(row["seeds"]))])
    return markdown(["model", "target or price", "selected words", *FAITHFULNESS.values(), "seeds"], rows)


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


TABLES = {"sst": sst_table, "faithfulness": faithfulness_table, "reviews": reviews_table, "nli": nli_table}
TABLES |= {
    "texts": texts_table,
    "probes": probes_table,
    "search": search_table,
    "masking": masking_table,
    "bench": bench_table,
    "scale": scale_table,
}


def with_tables(page: str, results: pd.DataFrame) -> str:
    """The text of a page in which every table has been written again."""
    return rewritten(page, {name: table(results) for name, table in TABLES.items() if f"results: {name} " in page})
