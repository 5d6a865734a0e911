# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Read the rationales of an SST run
#
# In `12_train_sst` you saved a run. Now we ask what its model has learned. On this page we train nothing and only
# read the files of the run.
#
# **You will** see which classes the model confuses, and the sentiment of the words that it selected (Figure 5 of
# Bastings et al. 2019). You will also read its rationales, and see how the rate differs between sentences.
#
# **You will learn** what a selection rate of 40 % means for a single sentence, and which words are dropped.
#
# **You need** a finished run. The page takes seconds. You can make the run that the page reads by default with
# `make run NOTEBOOK=12_train_sst PARAMS="params/sst/hardkuma.yaml selection=0.4 vectors=glove.6B.50d seed=1"`.

# %% tags=["parameters"]
runs_dir: str = "outputs/12_train_sst"  # folder of the runs
run: str = "hardkuma-selection0.4-vectorsglove.6B.50d-seed1"  # name of the run

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, metrics
from rationale.explorers import explore_sentence
from rationale.runs import claims, origin, results_folder, root, saved, validated

# %%
p = validated(globals())
folder = results_folder("22_read_sst")
source = root() / p.runs_dir / p.run
origin.require_notebook(source, "12_train_sst")
labels = ["very negative", "negative", "neutral", "positive", "very positive"]
scores, rows = saved.read_metrics(source), saved.read_rationales(source, "dev")
trained = saved.read_parameters(source)
target, price = trained["selection"], trained.get("sparsity")
asked = f"a target of {target:.0%}" if target else f"a price of {price} per word" if price else "no target and no price"
print(f"In the run {p.run}, the model {figures.in_words(trained['model'])} was trained with {asked}. We read its "
      f"{len(rows)} dev sentences.")  # fmt: skip

# %% [markdown]
# ## 1. Which classes are mistaken for which?
#
# We count how often the model predicts class $j$ for a sentence of class $i$:
#
# $$C_{ij} = \#\{\text{sentences of class } i \text{ predicted as } j\}.$$
#
# The right predictions are on the diagonal. Next to the diagonal you find predictions that are one class off, such as
# *positive* for *very positive*.

# %%
table = metrics.confusion(torch.tensor(rows.prediction), torch.tensor(rows.label), num_classes=5)

# %% tags=["check"]
accuracy = (table.diagonal().sum() / table.sum()).item()
assert abs(accuracy - scores["dev"]["accuracy"]) < 1e-6, "the saved rationales are those of the saved metrics"
near = sum(table.diagonal(k).sum().item() for k in (-1, 0, 1)) / table.sum().item()
mistakes = (table.sum(1) - table.diagonal()).double()  # of each class
neighbours = torch.tensor([1, 2, 2, 2, 1], dtype=torch.float64)  # of the four wrong classes
by_chance = (mistakes @ neighbours / 4 / mistakes.sum().clamp(min=1)).item()
print(f"The accuracy on dev is {accuracy:.1%}, and {near:.1%} of the predictions are right or one class off.")
if accuracy < 1:
    print(f"So {(near - accuracy) / (1 - accuracy):.0%} of the mistakes are one class off. If the wrong classes were "
          f"drawn at random, it would be {by_chance:.0%}.")  # fmt: skip

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(7, 6))
figures.draw_confusion(table, labels, ax, title=f"{near:.0%} are right or one class off")
figures.save_figure(fig, folder / "figures", "confusion")
figures.show(fig)

# %% [markdown]
# The share in the title counts the diagonal and the cells next to it. It is large even for a poor model, because most
# classes have two neighbours among the four wrong ones. So look at the mistakes alone, and compare the share of those
# that are one class off with the share that you would get at random. We print both above.

# %% [markdown]
# ## 2. Which words are kept?
#
# SST also has a label for every single word. The model never saw these labels, so we can use them to find out whether
# the selected words carry sentiment. In the paper, most of the dropped words are neutral. Is this so here?

# %%
words = [torch.tensor(labels_of) for labels_of in rows.word_labels]
chosen = [torch.tensor(z) != 0 for z in rows.z]
everything = metrics.selected_by_label(words, [torch.ones_like(c) for c in chosen])
kept = metrics.selected_by_label(words, chosen)

# %% tags=["check"]
share = kept.sum().item() / everything.sum().item()
assert abs(share - scores["dev"]["rate_selected"]) < 1e-6
if claims.apply_to(trained, "12_train_sst"):
    assert everything.tolist() == [146, 992, 18231, 1511, 394], "the full validation set of Figure 5"
with np.errstate(invalid="ignore"):
    by_label = kept.numpy() / everything.numpy()
counts = pd.DataFrame({"label of the word": labels, "words": everything.tolist(), "kept": kept.tolist(),
                       "share kept": by_label})  # fmt: skip
display(figures.show_table(counts))
dropped = everything - kept
of_all = (everything[2] / everything.sum()).item()
if dropped.sum():
    print(f"Of the dropped words, {(dropped[2] / dropped.sum()).item():.1%} are neutral.")
print(f"Of all words, {of_all:.1%} are neutral.")

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 5.5))
title = "Kept words, by their sentiment"
if everything[2] and everything[4]:
    title = f"Of the neutral words {by_label[2]:.0%} are kept, of the very positive ones {by_label[4]:.0%}"
figures.draw_word_sentiment(everything, {"kept by this run": kept}, ax, title=title)
figures.save_figure(fig, folder / "figures", "word_sentiment")
figures.show(fig)

# %% [markdown]
# You see that most of the dropped words are neutral. But most of *all* words are neutral, so this says little by
# itself. Compare the shares above the bars instead. If a model selected words at random, it would keep the same share
# in each group, up to chance. So the differences between the shares show you what the selector has learned about single
# words without their labels. Do not read much into the two ends, though. They have the fewest words (see the table), so
# a few words more or less change their shares by points.

# %% [markdown]
# ## 3. How much of each sentence?
#
# The constraint holds the *average* rate at its target, so the rate of a single sentence may be far from the target.
# Let sentence $i$ have $T_i$ words, and let $z_{it}$ be the gate of its word $t$. A word is selected if its gate is not
# 0, so the rate of the sentence is the share of such words:
#
# $$r_i = \frac{1}{T_i} \sum_t \mathbb{1}[z_{it} \ne 0].$$
#
# There are two averages. The *micro* rate is the share of all words that are selected. The *macro* rate is the mean of
# $r_i$ over the sentences. Before you look at the figure, guess how widely the rates of single sentences spread around
# the target.

# %%
rates = np.array([np.mean(np.array(z) != 0) for z in rows.z])
lengths = np.array([len(z) for z in rows.z])

# %% tags=["check"]
micro, macro = (rates * lengths).sum() / lengths.sum(), rates.mean()
print(f"The micro rate is {micro:.1%} and the macro rate {macro:.1%}. In {np.sum(rates == 0)} sentences, nothing is "
      "selected.")  # fmt: skip
assert abs(micro - share) < 1e-9

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 5))
title = f"The rates of sentences have a standard deviation of {100 * rates.std():.0f} points"
figures.draw_rate_histogram(rates, ax, title=title, target=target)
figures.save_figure(fig, folder / "figures", "rates")
figures.show(fig)

# %% [markdown]
# Compare the standard deviation in the title with your guess. However large it is, it does not violate the constraint,
# which holds only the average over all sentences.

# %% [markdown]
# ## 4. Rationales
#
# We show the first three longer sentences that the model got right, and the first three that it got wrong by two
# classes or more.

# %%
right = rows[(rows.prediction == rows.label) & (lengths > 8)].head(3)
wrong = rows[((rows.prediction - rows.label).abs() > 1) & (lengths > 8)].head(3)
for row in [*right.itertuples(), *wrong.itertuples()]:
    title = f"{labels[row.label]}, predicted {labels[row.prediction]}"
    display(figures.highlight_html(row.tokens, row.z, title=title))

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). *Predict* whether longer sentences have a lower selection rate
# (`guess`, True or False). We compare your guess with the result, but we do not grade it. *Change* from all sentences
# to two halves. Make a flag for each sentence, which is True if the sentence is at most as long as the median
# (`shorter`). Then compute the mean of `rates` where it is True (`shorter_rate`) and where it is not (`longer_rate`,
# 0 if no sentence is longer). *Explain* which rate the constraint holds, and which rates may be anything.

# %% tags=["prediction"]
guess = False

# %% tags=["solution"]
shorter = lengths <= np.median(lengths)
shorter_rate, longer_rate = (rates[half].mean() if half.any() else 0.0 for half in (shorter, ~shorter))
# If the two rates agree, long and short sentences have about the same share of informative words. If they differ, this
# does not violate the constraint, which holds only the average over all sentences.

# %% tags=["check"]
middle = np.quantile(lengths, 0.5)
assert all(flag == (size <= middle) for flag, size in zip(shorter, lengths, strict=True)), "at most as long as half are"
part = np.mean(shorter)
assert abs(part * shorter_rate + (1 - part) * longer_rate - macro) < 1e-9, "both halves together have the macro rate"
assert abs(np.cov(shorter, rates, ddof=0)[0, 1] - part * (1 - part) * (shorter_rate - longer_rate)) < 1e-9, "mixed up"
print(f"The mean rate is {shorter_rate:.1%} in the shorter half, and {longer_rate:.1%} in the longer half. Your guess "
      f"whether longer sentences have a lower rate was {guess}.")  # fmt: skip

# %% [markdown]
# ## 5. Your own sentence
#
# Now type a sentence of your own. Selected words are orange. The bar below a word shows its gate, with $P(z = 1)$ in a
# dark colour, $P(0 < z < 1)$ in a light one, and $P(z = 0)$ empty. A click on a word forces its gate open. A second
# click forces the gate shut, and a third sets it free again. Before you click, predict how far the prediction will
# change.

# %% tags=["interactive"]
saved_models = [source] if (source / "model.safetensors").is_file() else []
command = 'make run NOTEBOOK=12_train_sst PARAMS="params/sst/hardkuma.yaml selection=0.4 vectors=glove.6B.50d seed=1"'
explore_sentence(saved_models, command=command)

# %% [markdown]
# ## Summary
#
# You answered three questions and read rationales. For this we needed only the files of a run. Only for your own
# sentence did we also need the model.
#
# ## Next
#
# In `31_selection_rates` we compare many runs with different selection rates. In its section 16 and in RESULTS.md you
# also find runs in which a pretrained transformer, MiniLM, reads the sentences in the place of an LSTM.
