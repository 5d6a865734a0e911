# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train a rationale extractor on reviews
#
# In `10_first_rationale` you trained a small extractor in a minute. Now you train the model of the paper's first
# experiment. Two things are new. The gate of each word depends on what was selected before it, and the predictor
# skips the words that were not selected.
#
# **You will** train such an extractor to predict one rating of a review, and compare its rationales with those that
# people have marked.
#
# **You will learn** what a recurrent convolution is, and how we hold the rate *and* the number of switches at the
# same time. You will also learn to judge a precision. You compare it with the precision of selections that are made
# without looking at the text.
#
# **You need** nothing for the default, which is a corpus of made-up reviews. On one core, an epoch takes about six
# seconds per thousand reviews. Other corpora come from the data folder (`python -m rationale.data list`). The owner
# of the beer files has withdrawn them. If you have them, give `corpus: beer`. For a table of your own, or a folder in
# the format of the ERASER benchmark, give its path and `aspect: overall` (see `17_train_own_texts` for the columns).

# %% tags=["parameters"]
corpus: str = "synthetic"  # synthetic, beer, hotels, hotel_rationales, movies, imdb_rationales, or your file
aspect: str = "look"  # what is rated
seed: int = 1  # of data order, initial weights and samples
vectors: str = "random"  # name in the data folder's vectors/, a file, or random
model: str = "hardkuma"  # full_text, attention, svm, hardkuma, hard_concrete, bernoulli or straight_through
dependent: bool = True  # each gate depends on what was selected before it
encoder: str = "rcnn"  # network that reads the text: rcnn or lstm
predictor: str = "compact"  # unselected words are removed (an rcnn skips them, as in the paper); zero: zero vectors
selection: float | None = 0.13  # target share of words; null: no constraint
transitions: float | None = 0.05  # target switches per word (the made-up gold has 0.06, beer 0.02); null: no constraint
epochs: int = 20  # passes over the training texts
learning_rate: float = 0.0004  # step size of Adam

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, metrics, training
from rationale.data.read import read_extraction
from rationale.nn import encoders, rcnn
from rationale.runs import claims, results_folder, saved, validated
from rationale.training.settings import ReviewSettings

# %%
p = validated(globals(), ReviewSettings)
folder = results_folder("11_train_reviews")
training.require_words(p)  # before anything is read

# %% [markdown]
# ## 1. The reviews
#
# A review is rated for several aspects, and we predict the rating of one of them. For some corpora we also know which
# words justify a rating, because people have marked these words or because a grammar wrote them. We call these words
# the *gold rationale*. Training never uses them.
#
# The table shows how many reviews you have, how long they are, and what share of their words is gold. Below it you
# see one review, with its gold rationale on orange.

# %%
corpus_read = read_extraction(p)
splits, labels = corpus_read.splits, corpus_read.labels
facts = []
for name, part in splits.items():
    lengths = np.array([len(example.tokens) for example in part])
    gold = [torch.tensor(example.rationale) for example in part if any(example.rationale or ())]
    share = torch.cat(gold).double().mean().item() if gold else float("nan")
    facts.append([name, len(part), lengths.mean(), lengths.max(), len(gold), share])
columns = ["split", "reviews", "mean words", "longest", "with gold", "gold share"]
figures.show_table(pd.DataFrame(facts, columns=columns))

# %%
example = next((e for e in splits["test"] if any(e.rationale or ())), splits["test"][0])
title = f"{p.aspect}: {labels[example.label] if labels else figures.scores_in_words(example.label)}"
flags = example.rationale or [False] * len(example.tokens)  # the gold rationale, where there is one
figures.highlight_html(example.tokens[:150], flags[:150], title=title)

# %% [markdown]
# ## 2. A network that skips
#
# How can a network read a text in which most words are missing? Lei et al. use a recurrent convolution. It keeps two
# running averages, $c^1$ of single words and $c^2$ of pairs of words. The share of the past that stays in them is
# $g$, which the network computes at each word:
#
# $$g = \sigma(W_g x + U h + b_g),\quad c^1 \leftarrow g\, c^1 + (1 - g)\, W_1 x,\quad c^2 \leftarrow g\, c^2 + (1 - g)
# (c^1_{\text{before}} + W_2 x),\quad h = \tanh(c^2 + b). \tag{V1}$$
#
# Here $x$ is the vector of a word, $h$ is the state, and $c^1_{\text{before}}$ is $c^1$ before this step. If the
# vectors of words and the states have the same size, this cell has half the parameters of an LSTM. If a word is not
# selected, we skip its step, so the state does not change. You can confirm what this means in the check below. We
# read a text and skip some of its words. Then we read the other words alone. The two final states are the same.
#
# > An LSTM that reads zero vectors does not have this property. It also takes a step at each zero vector, so its final
# > state depends on the length of the text.
#
# Here is one step of the recurrence, as the package computes it.

# %%
figures.show_source(rcnn.RCNNCell.forward)

# %% tags=["check"]
reader = encoders.RCNNEncoder(3, 4)
text, kept = torch.randn(1, 6, 3), torch.tensor([[False, True, True, False, False, True]])
_, skipped = reader(text, kept)
_, alone = reader(text[kept].unsqueeze(0), torch.ones(1, 3, dtype=torch.bool))
assert torch.allclose(skipped, alone, atol=1e-6), "a skipped word has no effect on the final state"
lstm = encoders.LSTMEncoder(3, 4)
_, zeros = lstm(text * kept.unsqueeze(-1), torch.ones_like(kept))
_, alone = lstm(text[kept].unsqueeze(0), torch.ones(1, 3, dtype=torch.bool))
assert not torch.allclose(zeros, alone, atol=1e-4), "but an LSTM takes a step at each zero vector"

# %% [markdown]
# ## 3. Training
#
# We hold two numbers at their targets at the same time. One is the share of selected words. The other is the number
# of switches per word, where a switch is a place between a selected and an unselected word.
#
# While the model trains, you see one line per epoch. If a run is killed, the same command continues it after its last
# epoch.

# %%
task = p, splits, corpus_read.head, corpus_read.num_outputs
result = training.train_svm(*task) if p.model == "svm" else training.train_extractor(*task, folder)
scale = None
if corpus_read.own is not None:  # texts of your own
    scale = corpus_read.own.scale
    corpus_read.own.save(folder)
scores = saved.save_run(folder, result, p, labels, scale)

# %% tags=["check"]
if result.model is not None:
    trained = {name: sum(v.numel() for v in part.parameters()) for name, part in result.model.named_children()}
    print(", ".join(f"{name} {count:,}" for name, count in trained.items()), "trained parameters")
    if (p.encoder, p.hidden_size, result.model.vectors.shape[1], p.pool) == ("rcnn", 200, 200, "final"):
        classifier = 320_800 + 401 * corpus_read.num_outputs
        assert p.model == "attention" or trained["predictor"] == classifier, "the paper's size"
        if p.model == "hardkuma" and p.dependent:
            assert trained["selector"] == 358_712, "the paper's size"

# %% tags=["figure"]
metric = "accuracy" if labels else "mse"
history = pd.DataFrame(result.history)
chooses = result.model is not None and result.model.selector is not None
target = p.selection if chooses else None
columns = ["epoch", f"dev_{metric}"] + ["dev_rate_expected", "dev_rate_selected"] * chooses
fig, ax = figures.new_figure(size=(9, 5))
title = f"The {figures.in_words(metric)} on dev ends at {history[f'dev_{metric}'].iloc[-1]:.4g}"
if chooses:
    title += f", the rate at {history['dev_rate_selected'].iloc[-1]:.0%}"
figures.draw_history(history[columns], target, ax, title=title, score=metric)
figures.save_figure(fig, folder / "figures", "history")
figures.show(fig)

# %% [markdown]
# ## 4. How good is it?
#
# We measure the *precision*, which is the share of the selected words that belong to the gold rationale, over all
# reviews that have one. When is a precision good? To judge this, you need the precision of a selection of the same
# size that is made without looking at the text. The last rows of the table give you this comparison. They are for
# random words, for a random run of words, and for the beginning and the end of each review, and we compute these
# precisions exactly. Some measures have two rows. For the one called *mean over texts*, we compute the measure of
# each review and take the mean. For the other one, we count the words of all reviews together.

# %%
table = pd.DataFrame({name: scores[name] for name in ("dev", "test")})
figures.show_table(table, digits=4, index="measure")

# %% tags=["check"]
test = scores["test"]
if not labels:
    variance = np.var([e.label for e in splits["test"]], axis=0).mean()
    print(f"mean squared error {test['mse']:.5f}; if you always predict the mean, it is {variance:.5f}")
is_ours = claims.apply_to(p, "11_train_reviews")
if is_ours and target is not None and p.dynamics == "signed" and p.epochs >= 10:  # the authors' rule may miss it
    dev_rate = scores["dev"]["rate_selected" if p.measure == "selected" else "rate_expected"]
    assert abs(dev_rate - target) < 0.05, f"the constraint holds the rate ({dev_rate:.3f}, target {target})"
if is_ours and "precision" in test and p.model == "hardkuma":
    assert test["precision"] > test["blind_random_span"], "better than a random run of words"

# %% [markdown]
# Let us look at some reviews. Selected words are coloured, and the gold rationale is underlined (Figure 1 of the
# paper). Of a long review you see 150 words around the first selected word.

# %%
evaluation = result.evaluations["test"]
for i in [i for i, z in enumerate(evaluation.z) if (z != 0).any()][:3]:
    e, said = splits["test"][i], evaluation.answer[i].tolist()
    start = max(0, int((evaluation.z[i] != 0).nonzero()[0]) - 20)
    part = slice(start, start + 150)
    if labels:
        title = f"{labels[e.label]}, predicted {labels[said]}"
    else:
        title = f"{p.aspect} {figures.scores_in_words(e.label)}, predicted {figures.scores_in_words(said)}"
    marked = e.rationale[part] if e.rationale else None
    display(figures.highlight_html(e.tokens[part], evaluation.z[i][part].tolist(), marked, title=title))

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). A gap of one word in a rationale costs two switches.
# *Predict* what happens to the precision if you fill all such gaps (`guess`, "up" or "down"). We compare your guess
# with the result, but we do not grade it. *Change* the rationales of the test set in this way. Call the result
# `filled`, a list with one bool tensor per review. *Explain* which rationales the constraint on the switches favours,
# and what `transitions=null` would change.

# %% tags=["prediction"]
guess = "down"

# %% tags=["solution"]
filled = []
for z in evaluation.z:
    chosen = z != 0
    closed = chosen.clone()
    closed[1:-1] |= chosen[:-2] & chosen[2:]
    filled.append(closed)
# The constraint favours rationales of few, long runs. Without it the model selects single words wherever they help, so
# the runs become shorter. If every gold word is informative by itself, the precision hardly changes. A phrase such as
# `the nose is n't good` loses the small words that hold it together.

# %% tags=["check"]
before, after = ([("".join(".x"[int(flag)] for flag in z != 0)) for z in part] for part in (evaluation.z, filled))
for old, new in zip(before, after, strict=True):
    right = new == old.replace("x.x", "xxx").replace("x.x", "xxx")
    assert right, f"fill the gaps of exactly one word, and change no other word: from {old} you made {new}"
assert guess in ("up", "down"), '`guess` is "up" or "down"'
switches = [sum(text.count("x.") + text.count(".x") for text in part) / sum(map(len, part)) for part in (before, after)]
print(f"switches per word: before {switches[0]:.4f}, after {switches[1]:.4f}")
with_gold = [i for i, e in enumerate(splits["test"]) if any(e.rationale or ())]
if with_gold:
    gold = [torch.tensor(splits["test"][i].rationale) for i in with_gold]
    kept = ([part[i] != 0 for i in with_gold] for part in (evaluation.z, filled))
    precisions = [metrics.rationale_scores(part, gold)["precision"] for part in kept]
    print(f"precision: before {precisions[0]:.3f}, after {precisions[1]:.3f}; your guess: {guess}")

# %% [markdown]
# ## Summary
#
# You trained the extractor of the paper's first experiment. Compared with `12_train_sst`, only the corpus, the head
# and the parameters are different. The loop, the objective and the constraint are the same.
#
# ## Next
#
# In `21_read_reviews` you read the rationales of a saved run. In `32_reviews` we compare models.
