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
# You have a table of texts with labels, and you would like to know which words a model needs to predict the label. On
# this page you train a model that shows you.
#
# **You will** take a table of labelled texts, train a model that shows which words it used, and get a page of your
# texts with these words highlighted.
#
# **You will learn** what to look at before training, and how to choose the share of words. You will learn to check
# whether a rationale is all that the prediction depends on. And you will use the model in a program of your own.
#
# **You need** a file with a column of texts and a column of labels
# (`make own DATA=reviews.csv TEXT=body LABEL=stars`). If you have none, the notebook writes a CSV file of made-up
# reviews. You need no GPU, and 2,500 short texts take about a minute.

# %% tags=["parameters"]
corpus: str = "synthetic"  # your file or folder, or a corpus of reviews, which is first written to a CSV file
text: str = "text"  # column of the texts
label: str = "label"  # column of the labels: names of classes, or scores
head: str = "auto"  # classes or scores; auto: decided from the column
seed: int = 1  # of data order, initial weights and samples
vectors: str = "random"  # name in the data folder's vectors/, a file, or random
model: str = "hardkuma"  # hardkuma, hard_concrete, bernoulli, straight_through, attention or full_text
encoder: str = "lstm"  # network that reads the text
selection: float | None = 0.2  # share of words to keep

# %%
from collections import Counter

import numpy as np
import pandas as pd
import torch
from IPython.display import display
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from rationale import explain_classifier, figures, load, training
from rationale.data import batches
from rationale.data.corpora import names_own
from rationale.data.own import texts_as_written
from rationale.data.read import read_extraction, write_as_table
from rationale.errors import BadInput
from rationale.metrics import confusion
from rationale.runs import claims, faithfulness, onnx_reader, results_folder, validated
from rationale.runs.committed import TRANSFORMER_START, reference_folder
from rationale.runs.fit import save_own
from rationale.statistics import wilson_interval
from rationale.training.settings import OwnTextSettings

# %%
p = validated(globals(), OwnTextSettings)
folder = results_folder("17_train_own_texts")
training.require_words(p)  # before anything is read

# %% [markdown]
# ## 1. Look at your data
#
# You can use any table that is `.csv`, `.tsv`, `.jsonl` or `.parquet` and has one text per row. You can also use a
# folder with files named `train`, `dev` and `test`, or a data set on the hub of Hugging Face
# (`corpus=hub:owner/name`). If you have only one file, we set a tenth of its texts aside for *dev*, with which we
# choose the epoch. Another tenth becomes *test*. Look at its results only once, at the end. The file `splits.csv` in
# the folder of the run tells you to which split each text belongs.
#
# A row without a text or without a label stops the run, and the error names the row. With `skip_incomplete=true`, we
# leave such rows out and tell you how many there were.
#
# Have people marked words in some of your texts? Then name the column of their marks by `rationale`. A cell holds spans
# of characters, such as `[[0, 12], [30, 41]]`, whose ends do not belong to them. Or it holds one number per word, such
# as `0 0 1 1`. It is empty if nobody marked the text. The model does not learn from the marks, but you can compare its
# rationales with them. A folder in ERASER's format has such marks, too. Its documents are the files of `docs`, one
# sentence per line and with spaces between the words. A line of `train.jsonl`, `val.jsonl` or `test.jsonl` says which
# tokens of a document people marked. The first token has number 0, and `end_token` is not among the marked ones:
#
# ```
# {"annotation_id": "a1", "classification": "POS", "evidences": [[{"docid": "a1", "start_token": 2, "end_token": 5}]]}
# ```
#
# The notes below say what we concluded from the columns. Please read them, because a column of stars, for example,
# can be meant as classes or as scores.

# %%
named = p
if not names_own(p.corpus):
    num_texts = p.num_train + p.num_dev + p.num_test or 2500
    made = write_as_table(p.corpus, folder / "reviews.csv", num_texts)
    named = p.model_copy(update={"corpus": str(made), "text": "text", "label": "label", "rationale": "rationale"})
texts = read_extraction(named)
splits, labels = texts.splits, texts.labels
facts = []
for name, part in splits.items():
    lengths = [len(example.tokens) for example in part]
    shares = [np.mean([e.label == k for e in part]) for k in range(len(labels))] if labels else []
    facts.append([name, len(part), np.median(lengths), max(lengths), *shares])
columns = ["split", "texts", "median words", "longest", *(f"share of {name}" for name in labels or [])]
figures.show_table(pd.DataFrame(facts, columns=columns))

# %% tags=["check"]
in_split = [{example.tokens for example in part} for part in splits.values()]
shared = in_split[0] & (in_split[1] | in_split[2])
print(f"{len(shared)} different texts of dev and test are in train, too")
assert not shared or names_own(p.corpus), "the made-up texts are divided without copies"
majority = max(Counter(example.label for example in splits["test"]).values()) / len(splits["test"])
if labels:
    print(f"the most frequent class is the right answer for {majority:.1%} of test")

# %% [markdown]
# ## 2. Choose a rate
#
# How many words does your task need? A linear model can tell you in seconds. We fit it to whole texts, and then we
# let it read only the words with its largest weights. Where its curve becomes flat, more words improve the score
# little. Now compare this curve with that of random words. If both are equally high, you can predict the label from
# nearly any words, and then a rationale says little about your texts.

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
# words of each text (`guess`). We compare your guess with the result, but we do not grade it. *Change* the list of
# rates, and compute the score *with the largest weights* at 0.01, 0.02, ... 0.1 (`finer`, ten numbers, with the same
# seed). *Explain* why you get so far with so few words, and what you nevertheless lose by a low rate.

# %% tags=["prediction"]
guess = 0.7

# %% tags=["solution"]
finer = training.score_by_rate(splits, texts.head, [k / 100 for k in range(1, 11)], p.seed)["largest weights"]
# A few words with large weights decide most texts. Texts in which such words are missing, or stand behind a negation,
# need more words: these texts are what a low rate loses.

# %% tags=["check"]
assert len(finer) == 10, "one number for each of 0.01, 0.02, ... 0.1"
others = [0.01, 0.03, 0.07]
of_others = training.score_by_rate(splits, texts.head, others, p.seed)["largest weights"]
known = dict(zip(rates, by_rate["largest weights"], strict=True)) | dict(zip(others, of_others, strict=True))
for k, rate in ((0, 0.01), (1, 0.02), (2, 0.03), (4, 0.05), (6, 0.07), (9, 0.1)):
    assert abs(finer[k] - known[rate]) < 1e-9, f"another score at {rate}"
if not names_own(p.corpus):
    print(f"dev {metric} with 1 % of the words {finer[0]:.3g}; the guess of exercise 1 was {guess}")

# %% [markdown]
# ## 3. Train
#
# You know the model from `10_first_rationale`. The selector reads the whole text and gives each word a gate. The
# predictor reads only the words whose gate is not 0. A constraint holds the share of these words at `selection`. You
# see one line per epoch. If a run is stopped, the same command continues it after its last epoch. You need not guess
# the number of epochs. The training stops when four epochs have not improved the dev score, neither near the target nor
# at another rate (`stop_after`). A line then tells you at which epoch it converged, or that the `epochs` were too few
# to know.
#
# An LSTM learns from random weights, for at most 20 epochs. For a pretrained encoder, the defaults differ.
#
# > You need this box only for a pretrained encoder (`encoder=minilm`). Such an encoder is only adapted to your texts,
# > so it has other defaults.
# >
# > - *Small steps.* The encoder is trained for a few epochs with small steps, and the lower half of its layers stays as
# >   it is. Selector and predictor share it (`shared_encoder`).
# > - *Most words at first.* The predictor reads nearly all words at first, and the target falls to `selection` while it
# >   learns (`selection_start`; (S18) in `07_decide_and_depend`). If most of your texts are longer than what the
# >   encoder reads at once, the predictor even reads every word in the first epoch (`whole_text_epochs`), because it
# >   did not learn to read long reviews through gates that still choose at random.
# > - *A second predictor.* In training there is also a second predictor, which reads every word through the same
# >   encoder (`closeness`, explained in `16_failures`). With it, MiniLM became more accurate on SST, and an epoch took
# >   nearly twice as long. It could also predict from the states of the selector, at no extra cost
# >   (`second_reads=states`). On long reviews of movies this raised the accuracy, but on reviews of hotels the
# >   rationale became a code.
# > - *A code.* A rationale is a code if the number of its words alone tells most answers. With larger steps of
# >   the encoder (`pretrained_learning_rate=1.0e-04`) it became a code on movies, and with one of two seeds on hotels.
# >   With the small steps there was none on these two. But on SST, on IMDb and on made-up reviews, the number of words
# >   told many more answers than you guess if you always take the most frequent one (see RESULTS.md). So look at *count
# >   tells* in section 5 whenever you use a pretrained encoder.
#
# `python -m rationale.runs 17_train_own_texts --list` shows you the default of each setting, and which settings have
# another default with a pretrained encoder. If the last line of the training says that the model still improves or is
# not known to have converged, give more `epochs`. On a CPU, a transformer takes minutes for thousands of sentences, and
# hours for thousands of long reviews. The bar tells you after a minute how long it will take. If that is too long,
# begin with fewer texts (`num_train=1000`). If your CPU can multiply in `bfloat16`, a line of the run says so, and
# `bfloat16=true` makes the training faster.
#
# Before the training, we fit a baseline to the same splits. It is a linear model on the TF-IDF weights of single words
# and pairs of words. It reads whole texts, and it is fitted in seconds. If our model is clearly worse than this
# baseline, it has not learned your task yet, or it reads too few words.
#
# Every word is read as a vector. If you give no file of `vectors`, they are random at first and trained with the model.
# A word that occurs only once in your training texts has no vector of its own then. With a file of vectors, the model
# knows those words of your texts that the file has. In both cases, any other word is unknown to the model, also if the
# file has it. The commands and the explorer name such words as *unknown to this run*. A pretrained encoder, such as
# `encoder=minilm`, reads a new word as pieces that it knows.
#
# You may see lines that begin with `note:`. Each says what is odd about the model, which number shows it, and what you
# can do. For example, the kept epoch is an early one, its rate is outside the tolerance, the accuracy may be chance, or
# the gates have collapsed.
# If you see no such line, the run has passed these checks.
#
# Are some of your classes rare? Then a model can be right for most texts and still never answer with a rare class. A
# line names such a class. With `class_weight=balanced`, all classes count the same in the loss, whatever their numbers
# of texts are. We then choose the epoch by the *balanced accuracy*, which is the mean of the accuracies of the classes,
# and we treat the baseline in the same way. More texts of a frequent class will be wrong.
#
# In the table below the notes, the *expected share selected* is the share of words that the gates are expected to
# select. The *share selected* is the share that they do select when we use the model.

# %%
baseline = training.train_tfidf(splits, texts.head, p.class_weight)
result = training.train_extractor(p, splits, texts.head, texts.num_outputs, folder)
scores = save_own(folder, result, p, texts, baseline)
figures.show_table(pd.DataFrame({name: scores[name] for name in ("dev", "test")}), digits=4, index="measure")

# %% [markdown]
# Here you see the two models side by side. The printed interval belongs to the test score. If we repeated the test on
# many sets of texts like yours, 95 % of such intervals would contain the score on all such texts. It is about this one
# model. If you train again with another `seed`, you get another model, and its score may lie outside. Nor is it the
# interval of the difference between the models. Both have answered to the same texts, and are often right about the
# same ones, so a difference may be more than chance although it is smaller than the interval. On dev, we have compared
# the two text by text. If our model is clearly worse there, one of the notes above says so.

# %%
score = result.model.head.chosen_by
on_test, num_test, score_in_words = scores["test"][score], len(splits["test"]), score.replace("_", " ")
half = 1.96 * result.evaluations["test"].chosen_error
most = np.inf if score == "mse" else 1.0
ends = max(0.0, on_test - half), min(most, on_test + half)
low, high = wilson_interval(on_test, num_test) if score == "accuracy" else ends
models = {baseline.name: (baseline.metrics, 1.0), p.model: (scores, scores["test"]["rate_selected"])}
beside = {name: [part["dev"][score], part["test"][score], rate] for name, (part, rate) in models.items()}
of = figures.in_words(p.model)
print(f"test {score_in_words} of {of}: {on_test:.3g} ({low:.3g} to {high:.3g}), {num_test:,} texts")
print(f"test {score_in_words} of {baseline.name}: {baseline.metrics['test'][score]:.3g}")
columns = [f"{score_in_words}, {split}" for split in ("dev", "test")] + ["share of words"]
figures.show_table(pd.DataFrame(beside, columns).T, index="model")

# %% [markdown]
# How well does the model know each class? Of the texts of a class, the *recall* is the share that gets this class as
# its answer. Of the texts that get this class as their answer, the *precision* is the share that belongs to it. A class
# with few texts in test has numbers that are hardly known.

# %%
if labels:
    target = torch.tensor([example.label for example in splits["test"]])
    counts = confusion(result.evaluations["test"].answer, target, len(labels))  # a row per class of the texts
    right, is_class, is_answer = counts.diag(), counts.sum(1), counts.sum(0)
    known = {"texts": is_class, "answers": is_answer, "recall": right / is_class, "precision": right / is_answer}
    by_class = pd.DataFrame({name: part.tolist() for name, part in known.items()}, labels)
    display(figures.show_table(by_class, index="class", quoted=True))
else:
    print("scores have no classes")

# %% tags=["figure"]
history = pd.DataFrame(result.history)
chooses = result.model.selector is not None
columns = ["epoch", f"dev_{score}"] + ["dev_rate_expected", "dev_rate_selected"] * chooses
fig, ax = figures.new_figure(size=(9, 5))
title = f"Epoch {scores['best_epoch']} of {len(history)} is kept: dev {score_in_words} {scores['dev'][score]:.3g}"
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
    print(f"typical error on test {errors[0]:.3g}, on your scale; if the answer is always the mean, {errors[1]:.3g}")
if not names_own(p.corpus) and claims.apply_to(p, "17_train_own_texts"):
    assert scores["test"]["accuracy"] > majority + 0.1, "better than the most frequent class for every text"
    assert abs(scores["dev"]["rate_selected"] - p.selection) < 0.05, "the constraint holds"

# %% [markdown]
# What can you do if the baseline is clearly better? Do not trust the rationales yet. Give word vectors
# (`vectors=glove.6B.50d`) or a pretrained encoder (`encoder=minilm`, or `encoder=owner/name` from the hub), train for
# more epochs, or ask for more words.
#
# A pretrained encoder does not by itself make a rationale faithful. In our run of MiniLM on SST at 20 % of the words,
# you can tell most of the answers from the *number* of selected words alone (`31_selection_rates`, section 16). In
# section 5 you see whether the same happens on your texts.
#
# With a transformer, a selector may also stop learning. Then all its gates shut, or all open, in the first epochs,
# and they stay so. We looked for this with a small transformer that was not pretrained, on 750 made-up reviews. Each
# line below is one run. Its gates start at zero biases or at the target (`start=target`), and the dotted line is the
# target.

# %% tags=["figure"]
trial = pd.read_csv(reference_folder() / TRANSFORMER_START)
gated = trial[trial["model"] == "hardkuma"]
begins = gated["start"].replace({"none": "zero biases", "target": "start at the target"})
expected = {f"{begin}, seed {row.seed}": np.array(row.rate_expected_by_epoch.split(), float)
            for begin, row in zip(begins, gated.itertuples(), strict=True)}
of_epochs = np.concatenate(list(expected.values()))
figures.draw_panel(figures.draw_lines, range(1, 1 + len(next(iter(expected.values())))), expected, xlabel="epoch",
                   title=f"The expected rate stays between {of_epochs.min():.0%} and {of_epochs.max():.0%}",
                   ylabel="expected rate on dev", target=gated["target"].iloc[0], size=(9, 5),
                   limits={"ylim": (0, 0.6)}, save=folder / "figures" / "transformer_start")

# %%
figures.show_table(trial[["model", "start", "seed", "best_epoch", "test_accuracy", "test_rate"]])

# %% tags=["check"]
assert of_epochs.min() > 0.02 and of_epochs.max() < 0.9, "in no run have the gates collapsed"

# %% [markdown]
# In none of these runs have all gates shut or all gates opened, whatever their start was. In all of them a constraint
# holds the rate. We have not tried gates without a constraint here. With two seeds per start we cannot tell which
# start is better (`python -m tools.small_transformer` repeats the runs).
#
# You need not tune the constraint to the size of your file. We compute its weights from your labels and from the
# number of training steps per epoch (`multiplier_rate` and `quadratic` are null). So the rate should end within about
# a tenth of `selection` on dev. With a few hundred texts there are few steps, and the rate may end farther away. Then a
# note tells you so. Another note tells you if the rate on test is far from that on dev, which happens if dev is small.

# %% [markdown]
# ## 4. Read
#
# From here on we use the model as any other program would. `load` reads the folder of the run. Then we call the model
# with a list of texts, as they stand in your file. Each answer displays itself. If we give it the label of your file,
# it also says whether it is right, and names that label if it is not. In the folder of the run you also find
# `rationales.html`, a page with texts of the test split, a hundred at most.

# %%
fitted = load(folder)
originals = texts_as_written(named, texts.own, "test", 100)[: len(splits["test"])]
truths = [labels[e.label] if labels else fitted.rescaled(e.label)[0] for e in splits["test"][: len(originals)]]
answers = fitted.with_labels(fitted(originals), truths)
page = fitted.to_html(answers, "Texts of test, with their rationales")
written = (folder / "rationales.html").write_text(page, encoding="utf-8")
for answer in answers[:3]:
    display(answer)

# %% [markdown]
# Which words does the model select most often? The table has one column per answer, with the words that stand in the
# largest number of rationales. Look for a name, a date or a punctuation mark. If you find one, it probably goes
# together with a label in your texts, although it is no reason for the label, and the model has learned to use it.

# %%
words = {}
for answer in fitted([" ".join(example.tokens) for example in splits["test"]]):
    taken = {token.lower() for token, z in zip(answer.tokens, answer.z, strict=True) if z > 0}
    words.setdefault(answer.label or "all texts", Counter()).update(taken)
most = {name: pd.Series([word for word, _ in count.most_common(12)]) for name, count in words.items()}
figures.show_table(pd.DataFrame(most), quoted=True)

# %% [markdown]
# ## 5. Is the rationale faithful?
#
# We first test what the construction of the model promises. We replace every word that was not selected and hold the
# gates. The prediction must not change.

# %% tags=["check"]
place = result.model.vectors.device
batch = next(batches.Batches(splits["dev"], result.vocabulary, 64, device=place).in_order())
with torch.no_grad():
    output = result.model(batch.tokens, batch.mask)
    other = torch.where(output.z == 0, batch.tokens.roll(1, 0), batch.tokens)
    swapped = result.model.predictor(result.model.vectors[other], batch.mask, output.z)
moved = (swapped - output.prediction).abs().max().item()
print(f"with the unselected words replaced, the prediction changes by {moved:.1e} at most")
assert moved < 1e-5 or p.model == "attention", "the predictor reads nothing but the rationale"

# %% [markdown]
# Then we measure it, if your labels are classes. In this table, *the answer* is the class that the predictor names when
# it reads the whole text, with all gates open. It may differ from the answer of section 4, for which the predictor has
# read the rationale only. Here is what the rows mean.
#
# - *Sufficiency* says how much the probability of the answer drops when the predictor reads only the rationale. If it
#   is near 0, the rationale is enough.
# - *Comprehensiveness* says how much this probability drops when the predictor reads only the other words. If it is
#   near 0, the other words would have been enough, too.
# - *Count tells* is the share of the answers that you can predict from the number of selected words alone. The *share
#   of the most frequent answer* is what you reach if you always guess the most frequent answer. If the first is far
#   above the second, the rationale is a code. Then it matters little which words it contains. On SST at 5 %, this no
#   longer happened when the rate of each text was held (`per_text=true`). `31_selection_rates` shows this in its
#   section 13, where the two columns are called *told by the number* and *floor*.
# - *Calibration error* compares the probability of the answers with the share of them that are right, in groups of
#   texts with similar probabilities.

# %%
measured = ["sufficiency", "comprehensiveness", "count_tells", "answer_share", "calibration_error"]
worth = faithfulness.measure_faithfulness(folder).get("test", {}) if labels else {}
figures.show_table(pd.DataFrame({"test": [worth.get(name, np.nan) for name in measured]}, measured), index="measure")

# %% [markdown]
# A faithful rationale need not be the one that a person would give. If your file has a column in which people marked
# words (`rationale`), the next table compares the two. Precision, recall and F1 count words. The *F1 of passages*
# counts unbroken passages, and a selected passage is right if it shares at least half of its words with a marked one
# (intersection over union). For the AUPRC (the area under the curve of precision against recall), we rank all words
# by their probability of being selected. These are the measures of the ERASER benchmark. The last row has the
# precision of equally many random words.

# %%
agreement = ["precision", "recall", "f1_macro", "span_f1_macro", "auprc", "blind_random_words"]
found = {name: (scores["test"] | worth)[name] for name in agreement if name in scores["test"] | worth}
if found:
    display(figures.show_table(pd.DataFrame({"test": found}), index="measure"))
else:
    print("nobody has marked words in these texts")

# %% [markdown]
# ## 6. Use it elsewhere
#
# A program of your own loads the model from the folder of its run, and calls it with texts.
#
# ```python
# import rationale
# model = rationale.load("outputs/17_train_own_texts/reviews")  # or rationale.fit("reviews.csv", text="body", ...)
# for answer in model(["A warm, funny film."]):
#     print(answer.label, answer.probability, [span.text for span in answer.rationale])
# ```
#
# For this you need only the package with its base dependencies, and no Jupyter. If you call `rationale.fit` with the
# settings of this notebook, you get the same model, to the last bit on the same machine. On the command line,
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
# onnxruntime and numpy are enough (a transformer also needs the package tokenizers). The next cell exports an LSTM. The
# file of a transformer takes about a hundred megabytes or more, so we do not write it here. You can do so with `python
# -m rationale.predict RUN --export model.onnx`.
#
# ```python
# from rationale_reader import load
# load("model.onnx")(["A warm, funny film."])  # the same answers, without torch
# ```

# %%
obstacle = fitted.obstacle_to_export
if not obstacle and fitted.model.reads_pieces:
    obstacle = "not exported here: a transformer"
exported = None
if not obstacle:
    try:
        exported = onnx_reader.load(fitted.export(folder / "model.onnx", overwrite=True))
    except BadInput as error:  # a gate of your own may compute something that ONNX lacks
        obstacle = str(error)
print(obstacle or f"model.onnx: {(folder / 'model.onnx').stat().st_size / 2**20:.1f} MiB")

# %% tags=["check"]
if exported:
    pairs = list(zip(answers, exported(originals), strict=True))
    same = sum((before.label, before.rationale) == (after.label, after.rationale) for before, after in pairs)
    print(f"the same label and passages for {same} of {len(pairs)} texts")
    allowed = max(1, int(np.ceil(0.03 * len(pairs))) - 1)  # fewer than 3 %, or a single one of few texts
    assert len(pairs) - same <= allowed, "only a number within rounding of a limit may end on its other side"

# %% [markdown]
# ### In a service
#
# Here is what you need to know if a program of yours answers to others all day.
#
# - *Files*. Copy `model.safetensors`. If you copy `SHA256SUMS` as well, `load` refuses a damaged file. With
#   `notes.json`, you can read the notes in `model.notes` (only `rationale.fit` writes this file). A pretrained encoder
#   is built from its own checkpoint, so this has to be installed, or in the same place, on the other machine too.
# - *Threads*. Several threads may ask one model at the same time. One answer uses as many cores as
#   `torch.set_num_threads` says, or `load("model.onnx", threads=1)` in `rationale_reader.py`.
# - *Time*. We never cut a text, and an answer takes longer the longer a text is. So limit the length yourself.
# - *Errors*. If you give something that is no text, a loaded model raises `BadInput` (`from rationale.errors import
#   BadInput`), which is a `ValueError`. An exported model raises a plain `ValueError` with the same words.
# - *Answers*. A text without words has no label (`answer.label is None`), and neither has a pair if one of its texts is
#   empty. The methods `model.with_labels`, `model.to_html` and `model.export` tell you with `help` what they need.
# - *Training*. `rationale.fit(..., quiet=True)` prints nothing but notes.

# %% [markdown]
# **Exercise 2** (predict, change, explain; 8 minutes). Show the model its own rationales as if they were texts.
# *Predict* the share of answers that change (`changes`). *Change* the texts. For each answer in `answers`, join its
# passages by spaces, and call `fitted` with these new texts (`again`, the new answers in the same order). *Explain*
# why an answer may change although the predictor had not seen any other words the first time.

# %% tags=["prediction"]
changes = 0.1

# %% tags=["solution"]
again = fitted([" ".join(span.text for span in answer.rationale) for answer in answers])
# The selector reads the shorter text and selects a part of it, so the predictor may read less than before. Faithful
# means that the predictor read these words only. It does not mean that these words would select themselves.

# %% tags=["check"]
assert len(again) == len(answers), "one answer for each text"
for before, after in zip(answers, again, strict=True):
    assert after.text.split() == [word for span in before.rationale for word in span.text.split()], "the passages alone"
turned = np.mean([before.label != after.label for before, after in zip(answers, again, strict=True)])
if not names_own(p.corpus):
    print(f"{turned:.0%} of the answers change; the guess of exercise 2 was {changes:.0%}")

# %% [markdown]
# ## 7. Explain a classifier that you have
#
# Do you have a classifier already? You need not give it up to learn which words it needs. `explain_classifier` takes
# any function that gives probabilities for texts, such as `predict_proba` of scikit-learn, a pipeline of transformers
# with `top_k=None`, or a service that you call. As an example, we take a pipeline that reads whole texts.
#
# For each text, `explain_classifier` returns a few words that are *enough*. If the classifier reads these words and no
# others, it gives the same label $y$, and the probability of $y$ drops by at most a margin $\epsilon$:
#
# $$\arg\max_c p(c \mid S) = y \quad\text{and}\quad p(y \mid S) \ge p(y \mid \text{text}) - \epsilon \tag{E1}$$
#
# The search begins with the set $S$ of all words and leaves out the words that matter least, as long as (E1) holds. At
# the end, no single word can be left out any more. (This is a faster form of the *sufficient input subsets* of Carter,
# Mueller, Jain and Gifford, 2019.) In brackets you see the probability of the label for the whole text. Behind it you
# see this probability if the classifier reads the highlighted words alone, and if it reads only the other words.

# %%
if labels:
    one_by_one = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]")  # words of one letter and marks, too
    pipeline = make_pipeline(one_by_one, LogisticRegression(C=10))
    pipeline.fit([" ".join(example.tokens) for example in splits["train"]], [labels[e.label] for e in splits["train"]])
    enough = explain_classifier(pipeline.predict_proba, originals[:50], margin=0.05)
    display(*enough[:3])
else:
    enough = []
    print("scores have no probabilities")

# %% [markdown]
# How does this differ from the rationale of your model? We name three differences.
#
# - *What you know.* The predictor of your model has read the rationale and nothing else. The pipeline has read the
#   whole text. We know that the highlighted words would have been enough for it, and we know this in hindsight.
#   Section 1 of `41_diffmask` shows how such a search can find a set that nobody would call a reason. For example, an
#   empty text may be enough, if the classifier gives it the same label.
# - *How many words you see.* Here the text and the margin decide, and there you have chosen a rate.
# - *What it costs.* Your model reads a text once. The search asks the classifier about many parts of it.
#
# The table has the means over fifty texts of test at most. *Sufficiency* and *comprehensiveness* mean the same as in
# section 5. If the sufficiency is negative, the classifier is even surer of its label when it reads these words alone.
# If the comprehensiveness is small, other words of the texts would have been enough as well.

# %%
of_enough = pd.DataFrame({
    "share of words that are enough": [np.mean(one.z) for one in enough if one.z],
    "sufficiency": [one.sufficiency for one in enough if one.z],
    "comprehensiveness": [one.comprehensiveness for one in enough if one.z],
    "texts that the classifier has read": [one.tries for one in enough if one.z],
})
if enough:
    display(figures.show_table(of_enough.mean().to_frame("mean"), index="measure"))

# %% tags=["check"]
assert (of_enough["sufficiency"] <= 0.05 + 1e-5).all(), "the words are enough, by (E1)"
if enough and not names_own(p.corpus) and claims.apply_to(p, "17_train_own_texts"):
    assert of_enough["share of words that are enough"].mean() < 0.5, "few words are enough"

# %% [markdown]
# You can also ask the opposite question: which words are *needed*? These are words without which the classifier gives
# another label, so they tell you what would have to go for another answer. A set $S$ of words is needed if, with all
# other words, some other label leads by at least the margin:
#
# $$\max_{c \ne y} p(c \mid \text{text without } S) \ge p(y \mid \text{text without } S) + \epsilon \tag{E2}$$
#
# (Martens and Provost, 2014, call this an *evidence counterfactual*.) The two questions differ when a text says the
# same thing twice. In "a good film with a great cast", one of *good* and *great* may be enough, and both may be needed.

# %%
if labels:
    needed = explain_classifier(pipeline.predict_proba, originals[:50], margin=0.05, words="needed")
    display(*needed[:3])
    print(f"Needed words were found in {sum(any(one.z) for one in needed)} of {len(needed)} texts.")
else:
    needed = []

# %% [markdown]
# For the other texts, no needed words were found. One reason may be that the classifier gives the same label to an
# empty text, so you can leave out as many words as you like. Another is the margin: a label that leads by less does not
# count. If you want to keep the explanations, `needed.to_html()` makes a page of them, and `needed.to_rows()` gives you
# rows for JSON or for a table of pandas.

# %% tags=["check"]
assert all(one.otherwise != one.label for one in needed if any(one.z)), "without these words, another label"

# %% [markdown]
# ## Summary
#
# You need only a table of texts and labels. The notes tell you what we read from it, a linear model helps you to choose
# a rate, and the page of the run shows what the model selected. The baseline and the notes show whether the model has
# learned the task. We also measured whether its rationales are faithful, so you need not take this for granted. And for
# a classifier that you have already, a search finds words that are enough for its answers, or needed for them.
#
# ## Next
#
# In `06_hold_a_rate` we derive the constraint, and in `31_selection_rates` we compare rates over many runs. If you
# want to try a gate or an encoder of your own, read `CONTRIBUTING.md`.

# %%
share = scores["test"]["rate_selected"]
result_line = f"test {score_in_words} {scores['test'][score]:.3g} with {share:.1%} of the words"
for name in ("txt", "ansi"):
    lines = [f"{result_line}; rationales.html in this folder shows texts of test"]
    for shown in answers[:3]:
        lines += ["", str(shown), figures.highlight_ansi(shown.tokens, shown.z, color=name == "ansi")]
    (folder / f"summary.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
