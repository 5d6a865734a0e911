# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train a rationale extractor on SST
#
# **You will** train a selector and a predictor together on the Stanford Sentiment Treebank, hold the
# selection rate at a target, and save everything that later notebooks read.
#
# **You will learn** what one run consists of, how to see whether the constraint holds, and how far the
# expected rate and the rate of the test-time rule lie apart.
#
# **You need** the SST trees and a file of word vectors in the data folder (`python -m rationale.data list`),
# about 5 minutes on one CPU core; no GPU.

# %% tags=["parameters"]
seed: int = 1  # of data order, initial weights and samples
vectors: str = "glove.840B.300d"  # name in the data folder's vectors/, or a file
model: str = "hardkuma"  # full_text, attention, hardkuma, hard_concrete, bernoulli or straight_through
dependent: bool = False  # each gate depends on what was selected before it
predictor: str = "zero"  # unselected words are zero vectors (the paper's), or removed: compact
rule: str = "argmax"  # from gate to decision at test time
sparsity: float = 0.0  # price of a selected word, in nats
selection: float | None = 0.3  # target share of words; null: no constraint
dynamics: str = "signed"  # how the multiplier moves; authors: multiplicative
multiplier_rate: float = 0.2  # step of the multiplier
epochs: int = 25  # passes over the training texts
learning_rate: float = 0.0002  # step size of Adam

# %%
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, models, objectives, training
from rationale.data import batches
from rationale.data.corpora.sst import read_sst
from rationale.runs import claims, faithfulness, results_folder, saved, validated
from rationale.training.settings import SSTSettings

# %%
p = validated(globals(), SSTSettings)
folder = results_folder("12_train_sst")
training.require_words(p)  # before anything is read
labels = ["very negative", "negative", "neutral", "positive", "very positive"]

# %% [markdown]
# ## The data
#
# SST has a label for every sentence and every phrase in it. The model sees only the sentence labels; the
# word labels serve to judge its rationales afterwards.

# %%
limits = {"train": p.num_train, "dev": p.num_dev, "test": p.num_test}
splits = {name: part[: limits[name] or None] for name, part in read_sst().items()}
for name, examples in splits.items():
    words = sum(len(example.tokens) for example in examples)
    print(f"{name:5}  {len(examples):5} sentences  {words / len(examples):.1f} words per sentence")

# %% tags=["check"]
for name, examples in splits.items():
    assert all(len(e.tokens) == len(e.word_labels) for e in examples), name
    assert all(e.phrases[0][2] == e.label for e in examples), name

# %% [markdown]
# ## The model
#
# A *selector* reads the whole sentence and puts one gate on each word; a *predictor* with an encoder of its
# own reads the word vectors multiplied by the gates. The notebooks
# `05_count_words` and `06_hold_a_rate` derive the objective. This is the package's own source, not a copy:

# %%
figures.show_source(models.Extractor.forward)

# %% [markdown]
# One step of training is one call of the objective. The constraint is updated first, then its term is added:

# %%
figures.show_source(objectives.RationaleObjective.forward)

# %% [markdown]
# ## Training
#
# One line an epoch: dev accuracy, the expected rate (mean over sentences of the expected share of words with
# $z \ne 0$) and the rate of the test-time rule (share of words with $z \ne 0$). A run that was killed continues
# from its last epoch.

# %%
result = training.train_extractor(p, splits, head="classes", num_outputs=5, folder=folder)
scores = saved.save_run(folder, result, p, labels)

# %% [markdown]
# Afterwards the rationales of the test sentences are judged: how faithful they are, and what leaks past them
# (`08_reinforce`). The setting `judge` decides: `test`, `all` (dev as well) or `none`.

# %%
worth = faithfulness.measure_faithfulness(folder, p.judge)

# %% tags=["check"]
state = result.model.state_dict()
trained = sum(value.numel() for name, value in state.items() if name != "vectors")
size, width = result.model.vectors.shape[1], p.hidden_size
lstm = 2 * 4 * width * (size + width + 2)
selector, pool = result.model.selector, result.model.predictor.pool
gate, weigher = (sum(value.numel() for value in part.parameters()) if part is not None else 0
                 for part in (selector and selector.gate, pool))  # fmt: skip
if p.encoder == "lstm" and not p.dependent:
    expected_size = lstm * (1 + (selector is not None)) + gate + weigher + 2 * width * 5 + 5
    assert trained == expected_size, (trained, expected_size)
print(f"{trained:,} trained parameters")

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 5))
chooses = result.model.selector is not None
target = p.selection if chooses else None
title = f"Accuracy reaches {max(row['dev_accuracy'] for row in result.history):.1%} on dev"
if target is not None:
    title += f", the expected rate ends at {result.history[-1]['dev_rate_expected']:.0%}"
columns = ["epoch", "dev_accuracy"] + ["dev_rate_expected", "dev_rate_selected"] * chooses
figures.draw_history(pd.DataFrame(result.history)[columns], target, ax, title=title)
figures.save_figure(fig, folder / "figures", "history")
figures.show(fig)

# %% tags=["figure"]
if target is not None:
    columns = {"epoch": "epoch", "selection.gap": "gap", "selection.multiplier": "multiplier"}
    trace = pd.DataFrame(result.history)[list(columns)].rename(columns=columns)
    fig, ax = figures.new_figure(size=(9, 5))
    figures.draw_dual(trace, None, ax, title="The multiplier moves until the gap is closed")
    figures.save_figure(fig, folder / "figures", "dual")
    display(figures.show(fig))

# %% [markdown]
# The gap is what the multiplier sees: a short moving average, here at the end of each epoch. With
# `dynamics: signed` the multiplier may take either sign, so it can push from both sides.

# %%
table = pd.DataFrame({name: scores[name] | worth.get(name, {}) for name in ("dev", "test")})
print(f"kept epoch {scores['best_epoch']} of {len(result.history)}")
table.round(4)

# %% tags=["check"]
if claims.apply_to(p, "12_train_sst") and target is not None and p.dynamics == "signed":
    rate = scores["dev"]["rate_selected" if p.measure == "selected" else "rate_expected"]
    assert abs(rate - target) <= 0.02, f"the {p.measure} rate on dev is {rate:.3f}, target {target}"

# %% [markdown]
# ## Rationales
#
# Colour and bold mark selected words, and the strength of the colour is $z$.

# %%
rows = saved.read_rationales(folder, "dev")
for row in rows.head(6).itertuples():
    title = f"{labels[row.label]}, predicted {labels[row.prediction]}"
    display(figures.highlight_html(row.tokens, row.z, title=title))

# %%
place = result.model.vectors.device
sentences = next(batches.Batches(splits["dev"], result.vocabulary, 100, device=place).in_order())
with torch.no_grad():
    own = result.model(sentences.tokens, sentences.mask)

# %% [markdown]
# **Exercise 1** (predict, change, explain; 12 minutes). *Predict* what is left of the accuracy if each sentence keeps
# *as many* words as its rationale, but others (`guess`, an accuracy; it is compared, not marked). *Change* a batch of
# a hundred dev sentences, `sentences`, so: `shuffled`, their gates `own.z` with the values of each row's words in
# another, random order. *Explain* what the difference says about the words, and what is left about their number.

# %% tags=["prediction"]
guess = 0.3

# %% tags=["solution"]
shuffled = own.z.clone()
for row, real in zip(shuffled, sentences.mask, strict=True):
    row[real] = row[real][torch.randperm(int(real.sum()), device=real.device)]
# If the words carry the answer, other words do not: the accuracy falls towards that of the commonest class. What is
# left is told by the number of words (a code, section 13 of 31_selection_rates), and by luck.

# %% tags=["check"]
assert shuffled.shape == own.z.shape and (shuffled[~sentences.mask] == 0).all(), "padding has no gates"
assert torch.equal(shuffled.sort(1).values, own.z.sort(1).values), "each sentence keeps the values of its gates"
free = ((own.z != 0).sum(1) > 0) & ((own.z != 0).sum(1) < sentences.mask.sum(1))  # rows that can change
assert not free.sum() >= 10 or not torch.equal(shuffled, own.z), "the values stand in another order"
with torch.no_grad():
    blind = result.model.predictor(result.model.embed(sentences.tokens), sentences.mask, shuffled)
right, by_others = (result.model.head.score(answer, sentences.target).double().mean()
                    for answer in (own.prediction, blind))  # fmt: skip
print(f"accuracy by the rationale {right:.1%}, by other words {by_others:.1%}; your guess: {guess:.1%}")

# %% [markdown]
# ## Summary
#
# One call trained the extractor, another saved it. The numbers of this run are in `metrics.json`, one row an
# epoch in `history.csv`, one sentence a line in `rationales.jsonl`, the model in `model.safetensors`.
#
# ## Next
#
# `22_read_sst` reads saved runs; `31_selection_rates` compares them over the selection rate. For new text:
# `python -m rationale.predict RUN --text "..."`.
