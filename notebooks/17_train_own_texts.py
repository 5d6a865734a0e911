# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train a rationale extractor on your own texts
#
# **You will** take a table of labelled texts, train a model that shows which words it used, and get a page of your
# texts with these words highlighted.
#
# **You will learn** what to look at before training, how to choose the share of words, how to see whether a rationale
# is all that the prediction depends on, and how to use the model in a program of your own.
#
# **You need** a file with a column of texts and a column of labels (`make own DATA=reviews.csv TEXT=body LABEL=stars`).
# Without one the notebook writes a CSV file of made-up reviews. No GPU; about a minute for 2,500 short texts.

# %% tags=["parameters"]
corpus: str = "synthetic"  # your file or folder; or the name of a corpus of reviews, of which a CSV file is written
text: str = "text"  # column of the texts
label: str = "label"  # column of the labels: names of classes, or scores
head: str = "auto"  # classes, scores, or told from the column
seed: int = 1  # of data order, initial weights and samples
vectors: str = "random"  # name in the data folder's vectors/, a file, or random
model: str = "hardkuma"  # or hard_concrete, bernoulli, straight_through, attention, full_text
encoder: str = "lstm"  # network that reads the text
selection: float | None = 0.2  # share of words to keep
epochs: int = 8  # passes over the training texts
learning_rate: float = 0.002  # step size of Adam

# %%
from collections import Counter

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, load, training
from rationale.data import batches
from rationale.data.own import is_own
from rationale.data.read import read_extraction, write_as_table
from rationale.runs import claims, faithfulness, onnx_reader, results_folder, validated
from rationale.runs.fit import save_own
from rationale.training.settings import OwnTextSettings

# %%
p = validated(globals(), OwnTextSettings)
folder = results_folder("17_train_own_texts")
training.require_words(p)  # before anything is read
is_ours = claims.apply_to(p, "17_train_own_texts")

# %% [markdown]
# ## 1. Look at your data
#
# Any table will do: `.csv`, `.tsv`, `.jsonl` or `.parquet`, one text per row. A folder may hold `train`, `dev` and
# `test` files. If there is only one file, a tenth of its texts is set aside for *dev* (to choose the epoch) and another
# tenth for *test* (to be looked at once, at the end); `splits.csv` in the folder of the run says which text went where.
# The notes below say what was told from the columns. Read them: stars can be meant as classes or as scores.

# %%
named = p
if not is_own(p.corpus):
    made = write_as_table(p.corpus, folder / "reviews.csv", num_texts=2500)
    columns = {"text": "text", "label": "label", "rationale": "rationale"}
    named = p.model_copy(update={"corpus": str(made)} | columns)
texts = read_extraction(named)
splits, labels = texts.splits, texts.labels
facts = []
for name, part in splits.items():
    lengths = [len(example.tokens) for example in part]
    shares = [np.mean([e.label == k for e in part]) for k in range(len(labels))] if labels else []
    facts.append([name, len(part), np.median(lengths), max(lengths), *shares])
pd.DataFrame(facts, columns=["split", "texts", "median words", "longest", *(labels or [])]).round(3)

# %% tags=["check"]
in_split = [{example.tokens for example in part} for part in splits.values()]
shared = in_split[0] & (in_split[1] | in_split[2])
print(f"{len(shared)} texts of dev and test stand in train, too")
assert not shared or is_own(p.corpus), "the made-up texts are divided without copies"
majority = max(Counter(example.label for example in splits["test"]).values()) / len(splits["test"])
if labels:
    print(f"always answering the most frequent class would be right for {majority:.1%} of test")

# %% [markdown]
# ## 2. Choose a rate
#
# How many words does this task need? A linear model answers in seconds: it is fitted to whole texts, and then it reads
# only the words with its largest weights. Where its curve becomes flat, more words add little. If the curve of random
# words is as high as the other, a rationale will not say much about your texts: nearly any words will do.

# %%
rates = [0.02, 0.05, 0.1, 0.2, 0.4, 1.0]
by_rate = training.score_by_rate(splits, texts.head, rates, p.seed)
metric = "accuracy" if labels else "mean squared error"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 5))
of_rate = dict(zip(rates, by_rate["largest weights"], strict=True))
nearest = min(rates, key=lambda rate: abs(rate - (p.selection or 1.0)))
title = f"A linear model: {metric} {of_rate[nearest]:.3g} with {nearest:.0%} of the words, {of_rate[1.0]:.3g} with all"
xlabel = "share of the words that are read"
figures.draw_lines(rates, by_rate, ax, title, xlabel, f"dev {metric}", markers=True, xscale="log")
figures.save_figure(fig, folder / "figures", "rates")
figures.show(fig)

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). *Predict* the score of the linear model that reads 1 % of the
# words of each text (`guess`). *Change* the list of rates: compute its score at 0.01, 0.02, ... 0.1 (`finer`, ten
# numbers, with the same seed). *Explain* why so few words go so far, and what a low rate costs all the same.

# %% tags=["solution"]
guess = 0.7
finer = training.score_by_rate(splits, texts.head, [k / 100 for k in range(1, 11)], p.seed)["largest weights"]
# A few words with large weights decide most texts. Texts in which such words are missing, or stand behind a negation,
# need more words: these texts are what a low rate loses.

# %% tags=["check"]
assert len(finer) == 10, "one number for each of 0.01, 0.02, ... 0.1"
for k, rate in ((1, 0.02), (4, 0.05), (9, 0.1)):
    assert abs(finer[k] - by_rate["largest weights"][rates.index(rate)]) < 1e-9, f"another score at {rate}"
print(f"dev {metric} with 1 % of the words {finer[0]:.3g}; your guess: {guess}")

# %% [markdown]
# ## 3. Train
#
# The selector reads the whole text and gives each word a gate; the predictor reads only the words whose gate is not 0
# (`10_first_rationale`). A constraint holds the share of these words at `selection`. One line per epoch; a run that was
# stopped continues from its last epoch.
#
# Before it, the same splits get a baseline: a linear model on the TF-IDF weights of single words and pairs, which
# reads whole texts and is fitted in seconds. If our model is worse than that, it has not learned your task yet.
#
# Lines that begin with `note:` say what is odd about the model, with the number that shows it and with what to do.
# For example, the epoch that was kept is an early one, its rate is outside the tolerance, or the gates have collapsed.
# A run without such lines has passed these checks.

# %%
baseline = training.train_tfidf(splits, texts.head)
result = training.train_extractor(p, splits, texts.head, texts.num_outputs, folder)
scores = save_own(folder, result, p, texts, baseline)
pd.DataFrame({name: scores[name] for name in ("dev", "test")}).round(4)

# %% [markdown]
# Here both stand side by side. The printed interval holds the test score of all texts like yours with 95 %
# probability: if the two scores differ by much less than its width, these texts cannot tell which model is better.

# %%
score = result.model.head.metric
half = 1.96 * result.evaluations["test"].standard_error
models = {baseline.name: (baseline.metrics, 1.0), p.model: (scores, scores["test"]["rate_selected"])}
beside = {name: [part["dev"][score], part["test"][score], rate] for name, (part, rate) in models.items()}
print(f"test {score} of {p.model}: {scores['test'][score]:.3g} ± {half:.2g}, {len(splits['test']):,} texts")
pd.DataFrame(beside, [f"dev {score}", f"test {score}", "share of words"]).T.round(3)

# %% tags=["figure"]
history = pd.DataFrame(result.history)
chooses = result.model.selector is not None
columns = ["epoch", f"dev_{score}"] + ["dev_rate_expected", "dev_rate_selected"] * chooses
fig, ax = figures.new_figure(size=(9, 5))
title = f"Epoch {scores['best_epoch']} of {len(history)} is kept: dev {score} {scores['dev'][score]:.3g}"
title += f" with {scores['dev']['rate_selected']:.0%} of the words" * chooses
figures.draw_history(history[columns], p.selection if chooses else None, ax, title=title, score=score)
figures.save_figure(fig, folder / "figures", "history")
figures.show(fig)

# %% tags=["check"]
if labels:
    print(f"test accuracy {scores['test']['accuracy']:.1%}; most frequent class {majority:.1%}")
else:
    unit = np.ptp(texts.own.scale)  # of the scores in your file
    errors = unit * np.sqrt([scores["test"]["mse"], np.var([example.label for example in splits["test"]])])
    print(f"typical error on test {errors[0]:.3g}, on your scale; always answering the mean {errors[1]:.3g}")
if is_ours:
    assert scores["test"]["accuracy"] > majority + 0.1, "better than always the same answer"
    assert abs(scores["dev"]["rate_selected"] - p.selection) < 0.05, "the constraint holds"

# %% [markdown]
# If the baseline is clearly better, do not trust the rationales yet: give word vectors (`vectors=glove.6B.50d`) or a
# pretrained encoder (`encoder=minilm`), train for more epochs, or ask for more words. The weights of the constraint
# follow from your labels and from the number of training steps per epoch (`multiplier_rate` and `quadratic` are null),
# so the rate should end within about a tenth of `selection` whatever the size of your file.

# %% [markdown]
# ## 4. Read
#
# From here on we use the model as another program would: `load` reads the folder of the run, and the model is called
# with a list of texts, as they stand in your file. Each answer shows itself; `rationales.html` in the folder of the run
# is a page with a hundred texts of test.

# %%
fitted = load(folder)
originals = [" ".join(example.tokens) for example in splits["test"][:100]]
answers = fitted(originals)
page = fitted.to_html(answers, "Texts of test, with their rationales")
written = (folder / "rationales.html").write_text(page, encoding="utf-8")
for answer in answers[:3]:
    display(answer)

# %% [markdown]
# Which words does it take most often? For each answer, the words that stand in the largest number of rationales. A
# name, a date or a mark in this list often means that the labels leak: the model has found a short cut.

# %%
words = {}
for answer in fitted([" ".join(example.tokens) for example in splits["test"]]):
    taken = {token.lower() for token, z in zip(answer.tokens, answer.z, strict=True) if z > 0}
    words.setdefault(answer.label or "all texts", Counter()).update(taken)
pd.DataFrame({name: pd.Series([word for word, _ in count.most_common(12)]) for name, count in words.items()})

# %% [markdown]
# ## 5. Is the rationale faithful?
#
# First by construction: replace every word that was not selected, hold the gates, and the prediction must not move.

# %% tags=["check"]
batch = next(batches.Batches(splits["dev"], result.vocabulary, 64).in_order())
with torch.no_grad():
    output = result.model(batch.tokens, batch.mask)
    other = torch.where(output.z == 0, batch.tokens.roll(1, 0), batch.tokens)
    swapped = result.model.predictor(result.model.vectors[other], batch.mask, output.z)
moved = (swapped - output.prediction).abs().max().item()
print(f"unselected words replaced: the prediction moves by {moved:.1e} at most")
assert moved < 1e-5 or p.model == "attention", "the predictor reads nothing but the rationale"

# %% [markdown]
# Then by measurement (classes only). *Sufficiency* is how much of the probability of the answer is lost if only the
# rationale is read: near 0 the rationale is enough. *Comprehensiveness* is how much is lost without the rationale: near
# 0 the other words would have done as well. *Count tells* is how well the mere number of selected words predicts the
# answer; if it is far above the share of the most frequent answer, the rationale is a code, and which words it holds
# matters little.

# %%
measured = ["sufficiency", "comprehensiveness", "count_tells", "answer_share", "calibration_error"]
worth = faithfulness.measure_faithfulness(folder).get("test", {}) if labels else {}
pd.DataFrame({"test": [worth.get(name, np.nan) for name in measured]}, measured).round(3)

# %% [markdown]
# ## 6. Use it elsewhere
#
# ```python
# import rationale
# model = rationale.load("outputs/17_train_own_texts/reviews")  # or rationale.fit("reviews.csv", text="body", ...)
# for answer in model(["A warm, funny film."]):
#     print(answer.label, answer.probability, [span.text for span in answer.rationale])
# ```
#
# This needs the package with its base dependencies only, no Jupyter. `rationale.fit` with the settings of this notebook
# makes the same model, to the last bit on the same machine. On the command line,
# `python -m rationale.predict RUN --file new.csv --html > page.html` does the same.

# %% tags=["check"]
(own,) = fitted([originals[0]])
assert (own.label, own.rationale) == (answers[0].label, answers[0].rationale), "an answer depends on its text alone"
for span in own.rationale:
    assert own.text[span.start : span.end] == span.text
print(own, [span.text for span in own.rationale][:5])

# %% [markdown]
# A service may have no room for torch. `export` writes the model and its words as one file for onnxruntime. Beside it
# stands `rationale_reader.py`, which splits a text as the package does and calls the model. These two files,
# onnxruntime and numpy are enough (a transformer also needs the package tokenizers). The next cell exports an LSTM. For
# a transformer, whose file takes hundreds of megabytes, `python -m rationale.predict RUN --export model.onnx` does it.
#
# ```python
# from rationale_reader import load
# load("model.onnx")(["A warm, funny film."])  # the same answers, without torch
# ```

# %%
obstacle = fitted.obstacle_to_export or "not exported here: a transformer" * fitted.model.reads_pieces
exported = None if obstacle else onnx_reader.load(fitted.export(folder / "model.onnx", overwrite=True))
print(obstacle or f"model.onnx: {(folder / 'model.onnx').stat().st_size / 2**20:.1f} MiB")

# %% tags=["check"]
if exported:
    pairs = list(zip(answers, exported(originals), strict=True))
    same = np.mean([(before.label, before.rationale) == (after.label, after.rationale) for before, after in pairs])
    print(f"the same label and passages for {same:.0%} of {len(pairs)} texts")
    assert same > 0.97, "only a number within rounding of a limit may end on its other side"

# %% [markdown]
# **Exercise 2** (predict, change, explain; 8 minutes). *Predict* how many answers change if the model is shown its own
# rationales as texts (`changes`, a share). *Change* the texts: ask `fitted` about the passages of each answer in
# `answers`, joined by spaces (`again`, the new answers in the same order). *Explain* why an answer may change although
# the predictor had seen nothing else before.

# %% tags=["solution"]
changes = 0.1
again = fitted([" ".join(span.text for span in answer.rationale) for answer in answers])
# The selector reads the shorter text and selects a part of it, so the predictor may read less than before. Faithful
# means that the predictor read these words only. It does not mean that these words would select themselves.

# %% tags=["check"]
assert len(again) == len(answers), "one answer for each text"
for before, after in zip(answers, again, strict=True):
    assert after.text.split() == [word for span in before.rationale for word in span.text.split()], "the passages alone"
turned = np.mean([before.label != after.label for before, after in zip(answers, again, strict=True)])
print(f"{turned:.0%} of the answers change; your guess: {changes:.0%}")

# %% [markdown]
# ## Summary
#
# A table of texts and labels is enough: the notes say what was told from it, a linear model says which rate is worth
# asking for, and the page of the run shows what the model reads. A baseline and the notes say whether the model has
# learned the task. Whether its rationales mean something is measured, not believed.
#
# ## Next
#
# `06_hold_a_rate` derives the constraint, `31_selection_rates` compares rates over many runs, and
# [CONTRIBUTING.md](../CONTRIBUTING.md) shows how to try a gate or an encoder of your own.

# %%
result_line = f"test {score} {scores['test'][score]:.3g} with {scores['test']['rate_selected']:.1%} of the words"
for name in ("txt", "ansi"):
    lines = [f"{result_line}; rationales.html in this folder shows texts of test"]
    for shown in answers[:3]:
        lines += ["", str(shown), figures.highlight_ansi(shown.tokens, shown.z, color=name == "ansi")]
    (folder / f"summary.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
