# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train a translator and a summariser with any attention
#
# In `40_sparse_attention` we derived maps that give some words a weight of exactly 0. Now you put such a map into a
# model that writes text, and look at what it attends to.
#
# **You will** train a small encoder-decoder. It translates image captions from German or French to English, or it
# writes the subject line of an e-mail. You choose its attention, search with a beam, and look at the alignments.
#
# **You will learn** how a translator uses an attention, how it writes with a beam, and how to read its alignments. In
# `25_read_seq2seq` you see what exact zeros cost in quality and in time.
#
# **You need** `40_sparse_attention`, and `multi30k` or `aeslc` in the data folder. An epoch takes a few minutes on
# one core. If you have Gigaword and DUC 2004 as Rush et al. (2015) prepared them, give `corpus: gigaword` or
# `duc2004` (`params/seq2seq/`).

# %% tags=["parameters"]
corpus: str = "multi30k"  # multi30k (captions), aeslc (e-mails and subject lines), gigaword or duc2004 (headlines)
language: str = "de"  # what is translated into English: de, fr or cs
seed: int = 1  # of data order, initial weights and dropout
model: str = "softmax"  # softmax, sparsemax, entmax, entmax15, fusedmax, oscarmax or sq_pnorm_max
gamma: float = 1.0  # strength of the regularisation of a mapping
lam: float = 0.1  # weight of the penalty that fuses, in fusedmax (0.1) and oscarmax (0.01 in the paper)
hidden_size: int = 256  # length of an embedding and of a state
beam: int = 5  # beginnings of a text that the search keeps
longest: int = 50  # largest number of words of a target, its end included
epochs: int = 8  # passes over the training texts
learning_rate: float = 0.001  # step size of Adam
num_train: int = 0  # texts to train on; 0: all

# %%
import numpy as np
import pandas as pd
from IPython.display import display

from rationale import figures, metrics, models, training
from rationale.data.corpora import find_corpus
from rationale.data.read import read_generation
from rationale.data.targets import END
from rationale.runs import claims, results_folder, saved, validated
from rationale.training.settings import GenerationSettings

# %%
p = validated(globals(), GenerationSettings)
folder = results_folder("15_train_seq2seq")

# %% [markdown]
# ## 1. Texts and targets
#
# We begin with the data. The table shows how many texts you have and how long they are. Below it you see one text
# with its target.

# %%
targets = read_generation(p)
score = getattr(metrics, find_corpus(p.corpus).metric)
facts = [
    [name, len(part), np.mean([len(e.tokens) for e in part]), np.mean([len(e.second) - 1 for e in part])]
    for name, part in targets.splits.items()
]
display(figures.show_table(pd.DataFrame(facts, columns=["split", "texts", "words", "words of the target"]), digits=1))
example = targets.splits["train"][0]
print(" ".join(example.tokens)[:200], "->", " ".join(example.second))

# %% tags=["check"]
assert all(np.isfinite(value) for value in score(["a b"], [["a b"]]).values()), "the packages for the scores work"
for name, part in targets.splits.items():
    assert all(e.second[-1] == END and END not in e.second[:-1] for e in part), name
    assert name == "train" or len(targets.references[name]) == len(part), name

# %% [markdown]
# ## 2. Attention at every word
#
# How does such a model write? We write $x$ for the source and $y_1, y_2, \dots$ for the words of the target. A
# bidirectional LSTM of two layers first reads the source into one state $s_i$ per word, and $s$ is the matrix with
# these states as its columns. Then a decoder, which also has two layers, writes one word at a time. At step $t$ its
# input is the embedding $e(y_{t-1})$ of the previous word together with its own previous output $o_{t-1}$, which is
# called *input feeding*. The decoder then looks back at the source. It compares its state $h_t$ with all states in $s$
# by a bilinear score, and the map $\Pi_\Omega$ makes weights $w_t$ of these scores. The matrices $W$, $W_c$ and $W_o$
# are learned:
#
# $$h_t = \text{decoder}\big([e(y_{t-1}); o_{t-1}], h_{t-1}\big), \qquad w_t = \Pi_\Omega(h_t^\top W s), \tag{Q1}$$
# $$o_t = \tanh\big(W_c\,[\textstyle\sum_i w_{ti} s_i;\; h_t]\big), \qquad
# p(y_t \mid y_{<t}, x) = \text{softmax}(W_o\, o_t). \tag{Q2}$$
#
# Only the map $\Pi_\Omega$ differs between our runs. Let $T_n$ be the number of words of the target of text $n$, its
# end included. We minimise the mean over all words of a batch
#
# $$-\frac1{\sum_n T_n}\sum_n\sum_{t \le T_n} \ln p(y_{nt} \mid y_{n,<t}, x_n). \tag{Q3}$$
#
# Here is the package's source of one step of the decoder.

# %%
figures.show_source(models.Seq2Seq.step)

# %% [markdown]
# ## 3. Training and search
#
# The loop is the same as for all other tasks. Beside the loss, it logs the *perplexity*, which is the exponential of
# (Q3), and the share of words whose attention is settled. You know from (A10) in `40_sparse_attention` that such an
# attention has no gradient any more.
#
# Does it help to let the weights be more even at first, while the model learns where to look? You can let `gamma` move
# during training. With `gamma_start` you give its first value $\gamma_0$, and with `gamma_moves` the share of the
# epochs after which it has arrived at `gamma`. If these epochs have $K$ steps, the value at step $k$ is
#
# $$\gamma_k = \gamma\,(\gamma_0 / \gamma)^{1 - k/K} \quad\text{for } k < K, \qquad \gamma_k = \gamma
# \quad\text{from } k = K \text{ on}. \tag{Q4}$$
#
# Only a model that was evaluated with the final `gamma` is kept.
#
# To write a text, we search with a beam. At each step we keep the `beam` most likely beginnings. We compare finished
# texts by their log-probability per word. For translations we compare the result with the references by BLEU, which
# counts common runs of one to four words. For summaries we use ROUGE. ROUGE-1 counts common words, and ROUGE-2 common
# pairs of neighbours. All of these scores go from 0 to 100. `zeros` is the share of attention weights that are
# exactly 0. We also count how many of the attended source words have the weight of another word of their row
# (`grouped`) or of a neighbour (`segments`). A row whose weights are all equal does not count.

# %%
result = training.train_seq2seq(p, targets, score, folder)
scores = saved.save_texts(folder, result, targets, p)

# %% tags=["check"]
perplexities = [np.exp(row["dev_task"]) for row in result.history]
if claims.apply_to(p, "15_train_seq2seq"):
    assert perplexities[-1] < len(result.vocabularies[1]) / 10, "far better than guessing"
assert all(np.isfinite(list(found.values())).all() for found in result.metrics.values())

# %% tags=["figure"]
fig, (left, right) = figures.new_figure(ncols=2, size=(13, 4.6))
title = f"The lowest perplexity on dev is {min(perplexities):.1f}"
steps, settled = np.arange(1, 1 + len(perplexities)), [row.get("train_settled", np.nan) for row in result.history]
figures.draw_lines(steps, {"dev": perplexities}, left, title=title, xlabel="epoch", ylabel="perplexity per word",
                   markers=True)
title = f"Words whose attention has no gradient: {settled[-1]:.0%}"
figures.draw_lines(steps, {"train": settled}, right, title=title, xlabel="epoch", ylabel="share of words, (A10)",
                   markers=True)
right.set_ylim(-0.02, 1.02)
figures.save_figure(fig, folder / "figures", "perplexity")
figures.show(fig)

# %%
figures.show_table(pd.DataFrame(result.metrics).rename(index=figures.in_words), digits=2, index="measure")

# %% [markdown]
# How well does your model translate? If the perplexity on dev still falls at the end, the training was too short. After
# a short run, such as that of the book, the score is low. The model then writes good English, but mostly about another
# picture. To reach the scores of our long runs, train on all texts with the defaults of this notebook. You find these
# scores in `25_read_seq2seq`, together with alignments of models that translate well.
#
# ## 4. What it wrote, and where it looked
#
# Here are up to three texts of the test split. Each row of a picture is a word that the model wrote, and each column
# is a word of the source. Grey cells are exactly 0, and neighbours of equal weight have no border between them
# (Figures 1 and 4 of the paper).

# %% tags=["figure"]
tests, said = targets.splits["test"], result.generations["test"]
fitting = [i for i, e in enumerate(tests) if len(e.tokens) <= 24 and 0 < len(said[i].words) <= 14][:3]
for i in fitting:
    print("The source is:", " ".join(tests[i].tokens))
    print("The model wrote:", result.text(said[i]))
    print("The references are:", " | ".join(targets.references["test"][i]))
    fig, ax = figures.new_figure(size=(11, 4.8))
    weights = said[i].weights.numpy()
    title = f"{figures.in_words(p.model).capitalize()}: {(weights == 0).mean():.0%} of the weights are exactly 0"
    figures.draw_attention(weights, result.text(said[i]).split(), tests[i].tokens, ax, title=title)
    figures.save_figure(fig, folder / "figures", f"attention_{i}")
    display(figures.show(fig))

# %% tags=["check"]
for found in said:
    assert len(found.words) == len(found.weights) <= p.longest
    assert len(found.words) == 0 or (found.weights.sum(1) - 1).abs().max() < 1e-4, "the weights of a word sum to 1"

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). This exercise is for a run with a sparse map, such as
# `model=sparsemax`. (The softmax has no zeros, so both shares are 0.) *Predict* whether the share of weights that are
# exactly 0 grows with the length of the source (`guess`, True or False). We compare your guess with the result, but
# we do not grade it. *Change* the texts that you look at. Take the test texts for which the model wrote something,
# and divide them into those whose source is at most as long as the median and those whose source is longer. For each
# text, compute the share of its weights that are exactly 0, and then take the mean of these shares over each half
# (`zeros_of_short` and `zeros_of_long`, 0 if there are none). *Explain* the result by the projection that a map
# computes, and say what a smaller `gamma` would change.

# %% tags=["prediction"]
guess = True

# %% tags=["solution"]
spoken = [(len(e.tokens), (text.weights == 0).double().mean().item())
          for e, text in zip(tests, said, strict=True) if len(text.words)]
limit = np.median([length for length, _ in spoken] or [0])
short, long = ([share for length, share in spoken if (length <= limit) == is_short] for is_short in (True, False))
zeros_of_short, zeros_of_long = (float(np.mean(part)) if part else 0.0 for part in (short, long))
# The number of words that get weight hardly grows with the text, because it depends on how many scores lie within gamma
# of the largest. So longer texts have a larger share of zeros. The softmax has none at any length. A smaller gamma
# spreads the scores, so there are more zeros, and fewer words get a gradient.

# %% tags=["check"]
seen = pd.DataFrame([(len(e.tokens), np.mean(text.weights.numpy() == 0)) for e, text in zip(tests, said, strict=True)
                     if len(text.words)], columns=["length", "zeros"]).astype(float)  # fmt: skip
is_long = seen["length"] > seen["length"].median()
count, part = len(seen), is_long.mean() if len(seen) else 0.0
recombined = (1 - part) * zeros_of_short + part * zeros_of_long
assert not count or abs(recombined - seen["zeros"].mean()) < 1e-6, "both halves together are the test set"
slope = (seen["zeros"] * (is_long - part)).mean() if count else 0.0  # covariance with being long
assert abs(slope - part * (1 - part) * (zeros_of_long - zeros_of_short)) < 1e-6, "the halves are mixed up"
print(f"Of the weights, {zeros_of_short:.1%} are 0 in short texts and {zeros_of_long:.1%} in long ones. Your guess was "
      f"{guess}.")  # fmt: skip

# %% [markdown]
# ## Summary
#
# You trained an encoder-decoder and chose its attention by one setting. You saw its alignments. If a weight is exactly
# 0, you know that this state of the source is not part of the weighted sum of this step. (Its score still decides
# whether its weight is 0.) Note that these are states of an LSTM, so a word with weight 0 may still act through the
# states of its neighbours.
#
# ## Next
#
# In `25_read_seq2seq` we compare the maps over many such runs.
