# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train an aligner that decides what follows
#
# So far a gate decided about a word. In this notebook a gate, or a weight, decides about a *pair* of words, one from
# each of two sentences. We call the table of all these pairs an alignment, and each pair a cell of it.
#
# **You will** train decomposable attention on pairs of sentences and look at its alignments. You can use any of the
# maps of `40_sparse_attention`, or HardKuma gates on the cells.
#
# **You will learn** how attention can leave most pairs of words alone, and what that costs. You will also see in
# which sense the published HardKuma attention is not attention.
#
# **You need** `03_hardkuma` and `40_sparse_attention`, and `nli_small` and `glove.6B.50d` in the data folder. With
# the default settings, an epoch takes about a minute on one core. If you have SNLI, give `corpus: snli`.

# %% tags=["parameters"]
corpus: str = "nli_small"  # pairs of sentences: nli_small, snli, or a file or folder of your own
seed: int = 1  # of data order, initial weights and samples
vectors: str = "glove.6B.50d"  # name in the data folder's vectors/, a file, or random
model: str = "softmax"  # softmax, sparsemax, entmax, fusedmax, oscarmax, sq_pnorm_max, hardkuma or recurrent
gamma: float = 1.0  # strength of the regularisation of a mapping
lam: float = 0.1  # weight of the penalty that fuses, in fusedmax (0.1) and oscarmax (0.01 in the paper)
normalised: bool = False  # HardKuma weights of a word are divided by their sum
intra: bool = False  # each word first attends to the other words of its sentence
selection: float | None = None  # target share of cells of HardKuma; null: no constraint
epochs: int = 12  # passes over the training pairs
learning_rate: float = 0.001  # step size of Adam
num_train: int = 0  # pairs to train on; 0: all

# %%
import numpy as np
import pandas as pd
from IPython.display import display

from rationale import figures, load, models, nn, training
from rationale.data import require_vectors
from rationale.data.own import pairs_as_written
from rationale.data.pairs import NULL
from rationale.data.read import read_alignment
from rationale.runs import claims, results_folder, validated
from rationale.runs.fit import save_own
from rationale.statistics import wilson_interval
from rationale.training.settings import AlignmentSettings

# %%
p = validated(globals(), AlignmentSettings)
folder = results_folder("13_train_nli")
require_vectors(p.vectors)  # before anything is read

# %% [markdown]
# ## 1. Pairs
#
# The first sentence of a pair is the *premise*, and the second is the *hypothesis*. Does the hypothesis follow from the
# premise (entailment), does it contradict the premise, or neither? We put a word without a meaning, `@@NULL@@`, before
# both sentences. Words that have no counterpart in the other sentence can align with `@@NULL@@`. In exercise 1 you
# measure how much weight they give it.

# %%
corpus_read = read_alignment(p)
splits, num_outputs, labels = corpus_read.splits, corpus_read.num_outputs, corpus_read.labels or ()
facts = [
    [name, len(part), np.mean([len(e.tokens) for e in part]), np.mean([len(e.second) for e in part])]
    + [np.mean([e.label == k for e in part]) for k in range(len(labels))]
    for name, part in splits.items()
]
figures.show_table(pd.DataFrame(facts, columns=["split", "pairs", "premise words", "hypothesis words", *labels]))

# %% tags=["check"]
for part in splits.values():
    assert all(e.tokens[0] == e.second[0] == NULL and min(len(e.tokens), len(e.second)) > 1 for e in part)

# %% [markdown]
# ## 2. Attend, compare, aggregate
#
# How would you decide whether a hypothesis follows? You might look for the counterpart of each word, compare the two,
# and collect what you found. This is the model of Parikh et al. (2016). We write $p_i$ and $q_j$ for the projected
# words of the premise and the hypothesis. $F$, $G$ and $H$ are networks of two layers. The score $s_{ij}$ tells us how
# well two words match. You can read $\beta_i$ as what word $i$ of the premise finds in the hypothesis, and $\alpha_j$
# as what word $j$ of the hypothesis finds in the premise:
#
# $$s_{ij} = F(p_i)\cdot F(q_j), \qquad \beta_i = \sum_j W_{ij}\, q_j, \quad \alpha_j = \sum_i V_{ji}\, p_i, \qquad
# \hat y = \text{head}\Big(H\big[\textstyle\sum_i G[p_i;\beta_i];\; \sum_j G[q_j;\alpha_j]\big]\Big). \tag{N1}$$
#
# No network here reads the order of the words, and the two sentences meet only through the alignments $W$ and $V$.
# With a map $\Pi_\Omega$ of `40_sparse_attention`, we compute them from the scores by (A1). We do this separately in
# each direction, over the real words. Here $s_{i\cdot}$ is row $i$ of the scores, and $s_{\cdot j}$ is column $j$:
#
# $$W_{i\cdot} = \Pi_\Omega(s_{i\cdot}), \qquad V_{j\cdot} = \Pi_\Omega(s_{\cdot j}). \tag{N2}$$
#
# With `model: hardkuma`, each cell is a HardKuma gate (Bastings et al. 2019, sec. 6). We then use two networks $A$
# and $B$ in the place of $F$:
#
# $$W_{ij} = V_{ji} = z_{ij} \sim \text{HardKuma}\big(\text{softplus}(A(p_i)\cdot A(q_j)),\;
# \text{softplus}(B(p_i)\cdot B(q_j))\big). \tag{N3}$$
#
# > (This box is optional. For it you need section 3 of `07_decide_and_depend`.)
# >
# > $A$ and $B$ end in a ReLU, so their dot products are not negative. So you see from (N3) that both shapes are at
# > least $\ln 2$. Before we train, the products are small, so both shapes are near $\ln 2$, and all gates start
# > mostly open. With `start: target` we add a learned bias to each of the two
# > products. We set the first values of the biases such that a cell whose two products are 0 is open with a
# > probability equal to the target. Nothing is normalised in (N3). If a word has more open gates, its $\beta_i$ is a
# > sum of more terms. This is why HardKuma attention is not attention in the usual sense. With `normalised: true` we
# > divide by the sum of the gates.
#
# With `intra: true` each word first attends to the words of its own sentence. Here $f$ is a network like $F$, and $d$
# is learned. It has one number for each distance $j - i$ from $-11$ to 11, and a longer distance has the number of the
# nearest of these:
#
# $$p_i \leftarrow \Big[p_i;\; \sum_j \text{softmax}_j\big(f(p_i)\cdot f(p_j) + d_{j-i}\big)\, p_j\Big]. \tag{N4}$$
#
# Compare these equations with the source of the alignment that you have chosen.

# %%
shown = models.RecurrentPair if p.model == "recurrent" else models.attention_class(p.model)
figures.show_source(shown.forward)

# %% [markdown]
# ## 3. Training
#
# The loop is the one that trains the rationale extractors, and a cell takes the place of a word. So the rate of a pair
# is $\frac{1}{\lvert p\rvert \lvert q\rvert}\sum_{ij} P(z_{ij} \ne 0)$, and the constraint of `06_hold_a_rate` holds
# this rate at its target. In our run with `measure: training`, which is the authors' measure (one seed; section 1 of
# `23_read_nli`), the expected share was a tenth. But nearly every cell was open with a small probability, so its most
# likely value was 0. Therefore hardly any cell was open at test time. The paper reports 8.5 % of the cells at a target
# of 10 %, so this is a finding about our run and not about the measure. With `measure: selected`, the default, the
# constraint holds the share of cells that the rule opens.
#
# With `warm_start: 8` an aligner with softmax attention is trained first, for eight epochs. The aligner with gates
# then starts from the layers of this one. With `start: target` its network $F$ also becomes $A$, and we set the bias
# of the first shape so that the expected rate of the cells is the target. Mostly, a gate is then more likely to be
# open if its cell has a larger score. After the training we also measure `accuracy_shut`, the accuracy of the same
# model if we shut all cells. The difference between `accuracy` and `accuracy_shut` tells you how much the open cells
# contribute. In our runs, the layers of softmax attention bring the gates nearer to it than any other change that we
# tried (section 5 of `23_read_nli` shows how much each change brings).
#
# With a map, we also measure whether words share their weight, for the pairs of each label. *Grouped* is the share of
# the attended hypothesis words that have the weight of another word of their row. For *segments* the other word has to
# be a neighbour. A row whose weights are all equal does not count.
#
# If the pairs are your own, we also fit a baseline to the same splits. It is a linear model on the TF-IDF weights of
# the words of each text. It reads both texts, but it cannot compare them. So its accuracy tells you how many labels one
# can guess without an alignment. If the aligner is not better, do not trust its alignments yet. The labels of your
# pairs may also be scores, such as grades of similarity. The model then predicts scores, and you see their mean squared
# error, `mse`, in the place of the accuracy.

# %%
metric, shown_as = ("accuracy", "{:.1%}") if labels else ("mse", "{:.3g}")
baseline = training.train_tfidf(splits, corpus_read.head) if corpus_read.own is not None else None
result = training.train_aligner(p, splits, corpus_read.head, num_outputs, folder)
scores = save_own(folder, result, p, corpus_read, baseline)
if baseline is not None:
    beside = {p.model: scores, baseline.name: baseline.metrics}
    compared = {name: [of[split][metric] for split in ("dev", "test")] for name, of in beside.items()}
    display(figures.show_table(pd.DataFrame(compared, [f"{metric}, dev", f"{metric}, test"]).T, index="model"))

# %% tags=["check"]
reached, test_labels = scores["test"][metric], [e.label for e in splits["test"]]
if labels:
    majority, (low, high) = max(np.bincount(test_labels)) / len(test_labels), wilson_interval(reached, len(test_labels))
    print(f"test accuracy {reached:.1%} ({low:.1%} to {high:.1%}), {len(test_labels):,} pairs")
    print(f"The most frequent class is the right answer for {majority:.1%} of them.")
else:
    errors = np.ptp(corpus_read.own.scale) * np.sqrt([reached, np.var(test_labels)])
    print(f"An answer misses by about {errors[0]:.3g} in the unit of your scores. If every answer were their mean, it "
          f"would be {errors[1]:.3g}.")  # fmt: skip
trained = sum(value.numel() for value in result.model.parameters())
print(f"We have trained {trained:,} parameters.")
paper_size = {"hardkuma": 462_400, "recurrent": 3_269_800} | dict.fromkeys(nn.MAPPINGS, 382_000)
if p.hidden_size == 200 and not p.intra and num_outputs == 3 and p.model in paper_size:
    of_vectors = 200 * (300 - result.model.vectors.shape[1])  # what shorter vectors save in the projection
    biases = 2 if p.start == "target" else 0  # of the cells' gates; the paper has none
    assert trained + of_vectors - biases == paper_size[p.model], "the paper's size"
target = p.selection if p.model == "hardkuma" else None
if claims.apply_to(p, "13_train_nli") and target is not None:
    measured = scores["dev"]["rate_selected" if p.measure == "selected" else "rate_expected"]
    assert abs(measured - target) < 0.05, "the constraint holds the rate"

# %% tags=["figure"]
history = pd.DataFrame(result.history)
fig, ax = figures.new_figure(size=(9, 5))
columns = ["epoch", f"dev_{metric}", "dev_rate_selected"] + ["dev_rate_expected"] * (p.model == "hardkuma")
kept = scores["dev"]
title = f"Epoch {result.best['epoch']} is kept, with a dev {metric} of {shown_as.format(kept[metric])}"
title += "" if p.model == "recurrent" else f" and {kept['rate_selected']:.0%} of the cells open"
figures.draw_history(history[columns], target, ax, title=title, score=metric)
ax.set_ylabel("share of the cells, or of the pairs" if labels else "share of the cells")
figures.save_figure(fig, folder / "figures", "history")
figures.show(fig)

# %%
evaluation, pairs = result.evaluations["test"], splits["test"]
by_label = {f"{what}_{k}": f"{what}, {name}" for what in ("grouped", "segments") for k, name in enumerate(labels)}
table = pd.DataFrame({name: scores[name] for name in ("dev", "test")}).rename(by_label)
figures.show_table(table, digits=4, index="measure")

# %% [markdown]
# ## 4. Alignments
#
# Here is one short pair of each label, if the test split has one. In each row you see a premise word, and which words
# of the hypothesis it aligns with. The first row and the first column, *(no word)*, belong to `@@NULL@@`. Grey cells
# are exactly 0. Neighbours of exactly equal weight have no border between them.

# %% tags=["figure"]
def in_words(label):
    """A class by its name, or a score on the scale of its file."""
    return labels[label] if labels else f"{np.interp(label[0], [0, 1], corpus_read.own.scale):.3g}"


short = [i for i, e in enumerate(pairs) if len(e.tokens) <= 14 and len(e.second) <= 9]
for k in range(len(labels) or 1) if p.model != "recurrent" else ():
    for i in [i for i in short if not labels or pairs[i].label == k][:1]:
        z = evaluation.z[i].view(len(pairs[i].tokens), len(pairs[i].second))
        fig, ax = figures.new_figure(size=(11, 5.2))
        said = f"{in_words(pairs[i].label)}, predicted {in_words(evaluation.answer[i])}"
        title = f"{said}: {(z != 0).double().mean():.0%} of the cells are not 0"
        top = max(z.max().item(), 1e-6)
        figures.draw_attention(z, pairs[i].tokens, pairs[i].second, ax, title=title, top=top)
        figures.save_figure(fig, folder / "figures", f"alignment_{k}")  # your label may be no name of a file
        display(figures.show(fig))

# %% tags=["check"]
if p.model != "recurrent":
    first = evaluation.z[0].view(len(pairs[0].tokens), len(pairs[0].second))
    assert (first >= 0).all() and first.max() <= 1 + 1e-6, "weights and gates are in [0, 1]"
    if p.model != "hardkuma":
        assert (first.sum(1) - 1).abs().max() < 1e-5, "each premise word spreads a weight of 1"

# %% [markdown]
# Are the pairs your own? Then you also see the answers to three of them, as a program of your own would get them from
# `load`. You can unfold which words are aligned. In the folder of the run you find `rationales.html`, a page with pairs
# of the test split, a hundred at most.

# %%
if corpus_read.own is not None:
    fitted = load(folder)
    written = pairs_as_written(p, corpus_read.own, "test", 100)[: len(pairs)]
    truths = [labels[e.label] if labels else fitted.rescaled(e.label)[0] for e in pairs[: len(written)]]
    answers = fitted.with_labels(fitted(written), truths)
    page = fitted.to_html(answers, "Pairs of test, with their alignments")
    (folder / "rationales.html").write_text(page, encoding="utf-8")
    display(answers[:3])

# %% [markdown]
# **Exercise 1** (predict, change, explain; 10 minutes). *Predict* which words of a premise give more of their weight
# to `@@NULL@@`. Are they words like *a*, or are they nouns (`guess`, "a" or "nouns")? We compare your guess with the
# result, but we do not grade it. *Change* from one pair to the whole test set. For each premise word, compute the
# mean weight in the column of NULL (`of_null`, a dict). The dict stays empty for the recurrent model, which has no
# alignment. *Explain* why a map needs NULL more than a gate does.

# %% tags=["prediction"]
guess = "a"

# %% tags=["solution"]
of_null = {}
if p.model != "recurrent":
    given: dict[str, list[float]] = {}
    for e, flat in zip(pairs, evaluation.z, strict=True):
        for word, weight in zip(e.tokens, flat.view(len(e.tokens), -1)[:, 0].tolist(), strict=True):
            given.setdefault(word, []).append(weight)
    of_null = {word: np.mean(some) for word, some in given.items()}
# Words without a counterpart can give their weight to NULL, and the printed means show how much they do. With a map a
# word has to give away a weight of 1, so NULL is its only way to align with nothing. A gate can simply be 0.

# %% tags=["check"]
assert guess in ("a", "nouns"), '`guess` is "a" or "nouns"'
assert p.model != "recurrent" or of_null == {}, "`of_null` stays empty for the recurrent model"
if p.model != "recurrent":
    column = [flat.view(len(e.tokens), -1)[:, 0].double() for e, flat in zip(pairs, evaluation.z, strict=True)]
    table = pd.DataFrame({"word": [word for e in pairs for word in e.tokens], "weight": np.concatenate(column)})
    means = table.groupby("word")["weight"].mean()
    missing = [word for word in means.index if word not in of_null]
    assert not missing, f"`of_null` lacks {len(missing)} of the words of the premises, such as {missing[0]}"
    for word, mean in means.items():
        size = "too low" if of_null[word] < mean else "too high"
        assert abs(of_null[word] - mean) < 1e-4, f"`of_null` is {size} for the word {word}"
    common = table["word"].value_counts().index[:12]
    weights = ", ".join(f"{of_null[word]:.3f} for {figures.token_in_words(word)}" for word in common)
    if corpus_read.own is None:
        print(f"The mean weights on NULL are {weights}. Your guess was \"{guess}\".")

# %% [markdown]
# ## Summary
#
# You trained one model in one loop, and you chose whether a map or a gate decides which pairs of words are compared.
# With a map, the weights of each word have to sum to 1. With HardKuma gates a word may keep all of its gates shut,
# and a constraint holds the share of open cells.
#
# ## Next
#
# In `23_read_nli` we compare the attentions of many such runs.

# %%
if corpus_read.own is not None:  # what the terminal shows in the place of all metrics
    of_test = {name: metrics["test"] for name, metrics in beside.items()}
    told = ", ".join(f"{figures.in_words(name)} {shown_as.format(of[metric])}" for name, of in of_test.items())
    told += f"; {of_test[p.model]['rate_selected']:.0%} of the cells are open" * (p.model != "recurrent")
    lines = [f"test {metric}: {told}", "rationales.html in this folder shows pairs of test"]
    for answer in answers[:3]:
        aligned = [f"  {line}" for line in answer.aligned_words]
        texts = [" ".join(text.split()) for text in (answer.text, answer.second)]
        lines += ["", str(answer), *texts, *aligned[:12], *["  ..."] * (len(aligned) > 12)]
    (folder / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
