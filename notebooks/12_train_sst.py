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
# In `10_first_rationale` the texts were made up. Here you train the same kind of model on sentences that people have
# written, from the Stanford Sentiment Treebank.
#
# **You will** train a selector and a predictor together, hold the selection rate at a target, and save everything
# that later notebooks read.
#
# **You will learn** what one run consists of, and how you see whether the constraint holds. You will also see how far
# the expected rate is from the rate that the test-time rule gives.
#
# **You need** the SST trees and a file of word vectors in the data folder (`python -m rationale.data list`). You need
# no GPU. The training takes about 5 minutes on one CPU core.

# %% tags=["parameters"]
seed: int = 1  # of data order, initial weights and samples
vectors: str = "glove.840B.300d"  # name in the data folder's vectors/, or a file
model: str = "hardkuma"  # full_text, attention, hardkuma, hard_concrete, bernoulli or straight_through
dependent: bool = False  # each gate depends on what was selected before it
predictor: str = "zero"  # unselected words are zero vectors, as in the paper; compact: they are removed
rule: str = "argmax"  # how a gate is decided at test time
sparsity: float = 0.0  # price of a selected word, in nats
selection: float | None = 0.3  # target share of words; null: no constraint
dynamics: str = "signed"  # rule that moves the multiplier: signed, or authors (multiplicative)
multiplier_rate: float = 0.2  # step of the multiplier
epochs: int = 25  # passes over the training texts
learning_rate: float = 0.0002  # step size of Adam

# %%
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, models, objectives, training
from rationale.data import batches
from rationale.data.corpora.sst import cached_sst
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
# SST has a label for every sentence and for every phrase in it. We show the model only the labels of the sentences.
# We keep the labels of the words to judge its rationales afterwards.

# %%
limits = {"train": p.num_train, "dev": p.num_dev, "test": p.num_test}
splits = {name: part[: limits[name] or None] for name, part in cached_sst().items()}
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
# You know the two parts from `10_first_rationale`. A *selector* reads the whole sentence and puts one gate on each
# word. A *predictor* has an encoder of its own, and it reads the word vectors multiplied by the gates. We derived
# their objective in `05_count_words` and `06_hold_a_rate`. The code below is the package's own source and not a copy.

# %%
figures.show_source(models.Extractor.forward)

# %% [markdown]
# One step of training is one call of the objective. You see that it updates the constraint first, and then adds the
# term of the constraint to the loss.

# %%
figures.show_source(objectives.RationaleObjective.forward)

# %% [markdown]
# ## Training
#
# While the model trains, you see one line per epoch. It has the accuracy on dev and two rates. The *expected* rate is
# the mean over sentences of the expected share of words with $z \ne 0$. The *selected* rate is the share of words
# with $z \ne 0$ by the rule that we use at test time. (For why they differ, see `07_decide_and_depend`, section 1.)
# If a run is killed, the same command continues it after its last epoch.

# %%
result = training.train_extractor(p, splits, head="classes", num_outputs=5, folder=folder)
scores = saved.save_run(folder, result, p, labels)

# %% [markdown]
# After the training, we judge the rationales of the test sentences. We measure how faithful they are, and how much
# the predictor learns about a sentence other than through the selected words (`09_questions`). You can choose with
# the setting `judge` which sentences are judged. It is `test`, `all` (dev as well) or `none`.

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
    title = "The gap ends at {gap:+.1%}, and the multiplier at {multiplier:+.2f}".format_map(trace.iloc[-1])
    figures.draw_dual(trace, None, ax, title=title)
    figures.save_figure(fig, folder / "figures", "dual")
    display(figures.show(fig))

# %% [markdown]
# Did the constraint do its work? You see this in the second picture, which a run without a target does not have. The
# gap is the measured rate minus the target, as a moving average over a few steps. This is the number that moves the
# multiplier, and you see its value at the end of each epoch. With `dynamics: signed` the multiplier may be negative
# too, so we can push the rate up as well as down.
#
# Now you can read the scores of the epoch that we keep. The first rows have the accuracy, the losses and the two
# rates. *Sufficiency*, *comprehensiveness* and *length leak* are those of `09_questions`. The rows *of words* compare
# the selected words with the words that people found not neutral, and *count tells* is (R16) of `31_selection_rates`.

# %%
table = pd.DataFrame({name: scores[name] | worth.get(name, {}) for name in ("dev", "test")})
print(f"kept epoch {scores['best_epoch']} of {len(result.history)}")
counts = table.index.str.fullmatch(r"(words|selected)_\d+")  # of each label: `22_read_sst` draws them
figures.show_table(table[~counts], digits=4, index="measure")

# %% tags=["check"]
if claims.apply_to(p, "12_train_sst") and target is not None and p.dynamics == "signed":
    rate = scores["dev"]["rate_selected" if p.measure == "selected" else "rate_expected"]
    assert abs(rate - target) <= 0.02, f"the {p.measure} rate on dev is {rate:.3f}, target {target}"

# %% [markdown]
# ## Rationales
#
# Here are six sentences of dev. Selected words are bold and coloured, and the colour is stronger where $z$ is larger.

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
# **Exercise 1** (predict, change, explain; 12 minutes). Suppose that each sentence keeps *as many* words as its
# rationale has, but words that are drawn at random from the sentence. *Predict* the accuracy that is left (`guess`). We
# compare your guess with the result, but we do not grade it. *Change* the gates `own.z`, which are those of the hundred
# dev sentences in `sentences`. In each row, put the values of the real words into a random order, and call the result
# `shuffled`. *Explain* what the difference says about the words, and what the remaining accuracy says about their
# number.

# %% tags=["prediction"]
guess = 0.3

# %% tags=["solution"]
shuffled = own.z.clone()
for row, real in zip(shuffled, sentences.mask, strict=True):
    row[real] = row[real][torch.randperm(int(real.sum()), device=real.device)]
# If the answer depends on which words are selected, other words give it less often, and the accuracy falls. What is
# left has several sources. Some words are the same by chance, other words of the sentence also tell something about it,
# the number of words may be a code (section 13 of 31_selection_rates), and the commonest class is sometimes right.

# %% tags=["check"]
gates = torch.as_tensor(shuffled).to(own.z)
assert gates.shape == own.z.shape and (gates[~sentences.mask] == 0).all(), "padding has no gates"
assert torch.equal(gates.sort(1).values, own.z.sort(1).values), "each sentence keeps the values of its gates"
free = ((own.z != 0).sum(1) > 0) & ((own.z != 0).sum(1) < sentences.mask.sum(1))  # rows that can change
assert not free.sum() >= 10 or not torch.equal(gates, own.z), "the values stand in another order"
assert 0 <= guess <= 1, "`guess` is a share, from 0 to 1"
with torch.no_grad():
    blind = result.model.predictor(result.model.embed(sentences.tokens), sentences.mask, gates)
right, by_others = (result.model.head.score(answer, sentences.target).double().mean()
                    for answer in (own.prediction, blind))  # fmt: skip
print(f"accuracy by the rationale {right:.1%}, by random words {by_others:.1%}; your guess: {guess:.1%}")
if not free.any():
    print("In each sentence, all words or none are selected. So there are no other words to draw.")

# %% [markdown]
# ## Summary
#
# You trained the extractor with one call and saved it with another. Its scores are in `metrics.json`. In
# `history.csv` you find one row per epoch, in `rationales.jsonl` one line per sentence, and in `model.safetensors`
# the model.
#
# ## Next
#
# In `22_read_sst` we read a saved run, and in `31_selection_rates` we compare runs over the selection rate. If you
# have new text, try `python -m rationale.predict RUN --text "..."`.
