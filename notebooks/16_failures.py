# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Make rationales fail
#
# A model can predict well although its rationale explains nothing. On real texts you would hardly notice, because
# nobody knows the true reasons. On this page we know the reasons, because our reviews are made up. So we can make a
# rationale fail on purpose, and watch what happens.
#
# A rationale can fail in two ways. First, the *data* may mislead the model. If beers that look good also smell good,
# a model can predict the look from words about the smell. Second, *selector and predictor* may agree on a code. Then
# the selector works out the class by itself. It shows the class to the predictor by which gates it opens, and it does
# not matter which words have these gates.
#
# **You will** train an extractor on reviews whose aspects are correlated, or from a start in which one of its parts has
# learned the wrong words. You will see which words it selects, and whether one of three remedies helps.
#
# **You will learn** why a good accuracy says nothing about a rationale, and how little a code costs. You will also
# learn how the remedies of three papers change our objective. These remedies are an encoder that both parts share (Liu
# et al. 2022), a second predictor that reads the whole text (Yu et al. 2021), and gold rationales for some of the texts
# (DeYoung et al. 2020).
#
# **You need** no data and no GPU. A run takes about a minute on one core.

# %% tags=["parameters"]
seed: int = 1  # of data order, initial weights and samples
correlation: float = 0.0  # between the judgements of two aspects, in training; 0.9 misleads the model
skew: str = "selector"  # the part that learns the wrong words first: selector, predictor or none
skew_steps: int = 1600  # batches from which it learns them
model: str = "hardkuma"  # how words are selected; full_text: all of them
selection: float | None = 0.1  # target share of words; null: no constraint
shared_encoder: bool = False  # the first remedy: selector and predictor share one encoder
closeness: float = 0.0  # the second remedy, such as 1: the price of being far from a predictor that reads everything
guidance: float = 0.0  # the third remedy, such as 1: the price of missing gold words
guided: float = 1.0  # the share of texts whose gold words are known, where there is guidance
epochs: int = 12  # passes over the training texts
learning_rate: float = 0.002  # step size of Adam

# %%
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, training
from rationale.data.batches import Batches
from rationale.data.corpora import synthetic
from rationale.data.example import filled
from rationale.nn.heads import HEADS
from rationale.objectives import guidance as missed_gold
from rationale.runs import claims, results_folder, saved, validated
from rationale.training import counterfactual, skewed
from rationale.training.settings import FailureSettings

# %%
p = validated(globals(), FailureSettings)
folder = results_folder("16_failures")

# %% [markdown]
# ## 1. Reviews of two classes
#
# We use the reviews of `10_first_rationale`, and we turn the score of our aspect into two classes, as the papers on
# failing rationales do. Class 1 holds the reviews whose score is above 0.6, and class 0 those whose score is below 0.4.
# We leave out the others.
#
# The split `uncorrelated` is a second test split. Its aspects are independent, whatever `correlation` says about the
# other splits. With it, you can ask what a model does when the correlation of its training texts no longer holds.

# %%
column = synthetic.ASPECTS.index(p.aspect)
sizes = {"train": p.num_train, "dev": p.num_dev, "test": p.num_test}
made = {name: synthetic.reviews(size, name, p.correlation, seed=0) for name, size in sizes.items()}
made["uncorrelated"] = synthetic.reviews(p.num_test, "test", 0.0, seed=0)
reviews = {name: [one for one in part if abs(one.scores[column] - 0.5) >= 0.1] for name, part in made.items()}
splits = {}
for name, part in reviews.items():
    examples = [one.example(p.aspect) for one in part]
    splits[name] = [replace(example, label=int(example.label[0] > 0.5)) for example in examples]
splits = filled(splits, "reviews of two classes (num_train, num_dev, num_test)")
labels = [f"bad {p.aspect}", f"good {p.aspect}"]
example = splits["dev"][0]
figures.highlight_html(example.tokens, example.rationale, example.rationale, labels[example.label])

# %% tags=["check"]
share_good = np.mean([e.label for e in splits["train"]])
gold_share = np.mean([np.mean(e.rationale) for e in splits["dev"]])
print(f"{len(splits['train'])} reviews to learn from, {share_good:.0%} of them in class 1")
print(f"{gold_share:.1%} of the words are gold")
assert len(splits["train"]) < 1000 or abs(share_good - 0.5) < 0.05, "neither class is rare"

# %% [markdown]
# ## 2. Data that mislead
#
# Reviewers who like the look of a beer may also like its smell. In our grammar, each aspect has a random variable
# with a normal distribution, and the judgement of the aspect is good if this variable is positive. Let $A$ and $B$ be
# the variables of two aspects, and $\rho$ their correlation. Suppose that you know only whether the smell is good,
# and guess that the look is the same. How often are you right?
#
# $$P(A > 0, B > 0) + P(A < 0, B < 0) = \frac{1}{2} + \frac{\arcsin \rho}{\pi} \tag{F1}$$
#
# You can see why without an integral. We write $A = N_1$ and $B = \rho N_1 + \sqrt{1 - \rho^2}\, N_2$ with independent
# normal $N_1$ and $N_2$. Both signs depend only on the direction of the point $(N_1, N_2)$, and every direction is
# equally likely. The signs differ in two of the four sectors between the lines $A = 0$ and $B = 0$, and each of these
# two has the angle $\arccos \rho$. So they differ with probability $\arccos(\rho) / \pi$, and (F1) is what is left. In
# the table, you see this probability for four correlations.

# %%
told = {rho: 0.5 + math.asin(rho) / math.pi for rho in (0.0, 0.3, 0.6, 0.9)}
shares = {"correlation": [f"{rho:g}" for rho in told], "told by one other aspect": told.values()}
figures.show_table(pd.DataFrame(shares))

# %% tags=["check"]
generator = torch.Generator().manual_seed(0)
first, second = torch.randn(2, 200_000, dtype=torch.float64, generator=generator)
for rho, share in told.items():
    other = rho * first + math.sqrt(1 - rho**2) * second
    same = ((first > 0) == (other > 0)).double().mean().item()
    assert abs(same - share) < 0.005, "more than four standard errors of 200,000 draws"
assert told[0.0] == 0.5, "independent aspects tell nothing"

# %% [markdown]
# At a correlation of 0.9, you guess right far more often than by chance. A model that reads only about the smell can
# do the same, and no term of our objective keeps it from doing so. A word about the smell costs as much as a word
# about the look. If the two aspects of tomorrow's reviews are not correlated, the model will often be wrong. Then we
# can only hope that we saw this in its rationales beforehand.
#
# ## 3. Parts that agree on a code
#
# We train selector and predictor *together*, to make one loss small. For a given selector, the smallest loss of any
# predictor is the entropy of the class, given what the predictor sees:
#
# $$\min_{\text{predictor}} \mathbb{E}\left[-\ln p(y \mid z \odot x)\right] = H(Y \mid z \odot x). \tag{F2}$$
#
# This is the problem. The selector reads the whole review, so it can work out the class by itself. Suppose that it
# opens the gate of the *first word* if the class is 1, and shuts it if the class is 0. Then $H(Y \mid z \odot x) =
# 0$, whichever word comes first. The loss is as small as it can be, and the rationale is worthless.
#
# How many words does such a code need? It needs one word in half of the texts, which is far below any target that we
# would set. The other words that the target asks for may be any words, if the predictor ignores them. So neither the
# loss nor the constraint prevents the code. You can confirm below how few words it needs.

# %% tags=["check"]
rate_of_code = np.mean([e.label / len(e.tokens) for e in splits["train"]])
target = "no target is set" if p.selection is None else f"the target is {p.selection:.1%}"
print(f"the code opens {rate_of_code:.2%} of the words; {target}")
assert rate_of_code < 0.1, "one word in half of the texts is a small share of the words"

# %% [markdown]
# Does training find such a code by itself? You can try it with `skew=none`. To see the failure for certain, the papers
# *skew* the start, and so do we. The selector first learns, alone, to open the first gate in texts of class 1. Or the
# predictor first learns, alone, to predict from the first sentence of each text, whatever it is about. Then we train
# both together as usual. Here you see how the selector is skewed.

# %%
figures.show_source(skewed.first_word_guide, skewed.skew_selector)

# %% [markdown]
# ## 4. Three remedies
#
# **One encoder for both.** Liu et al. (2022) let selector and predictor share their encoder. Without sharing, the loss
# reaches the features of the selector only through the gates. With one encoder, it also trains these features directly,
# as those from which the predictor predicts. This changes no term of our objective, only the number of parameters.
#
# **A second predictor.** Yu et al. (2021) add a predictor that reads *every* word, weighted by the probability that
# its gate is open. We write $y'$ for the prediction of the first predictor, which reads the rationale, and $y''$ for
# that of the second, and we train both. A further term, the Jensen-Shannon divergence $\mathrm{JS}$, keeps the two
# predicted distributions $p'$ and $p''$ close to each other. The price $\lambda_{\mathrm{JS}}$ of this divergence is
# the setting `closeness`:
#
# $$\mathcal{L} = \ell(y', y) + \ell(y'', y) + \lambda_{\mathrm{JS}}\, \mathrm{JS}(p', p''). \tag{F3}$$
#
# **Some gold rationales.** In the ERASER benchmark, DeYoung et al. (2020) train selectors on rationales that people
# have marked. We let $g_t = 1$ for a gold word, and 0 for another word. Let $N$ be the number of words in those texts
# of a batch whose gold rationales guide the gates. Then the batch adds the following term to the loss, a sum over
# these words. You set the price of this term with `guidance`:
#
# $$-\frac{1}{N} \sum_t \Big[g_t \ln P(z_t \ne 0) + (1 - g_t) \ln P(z_t = 0)\Big]. \tag{F4}$$
#
# Let us compute the two new terms by hand for a small example.

# %%
one, two = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.4, 0.6]])  # class probabilities of the two predictors
middle = (one + two) / 2
apart = ((one * (one / middle).log()).sum() + (two * (two / middle).log()).sum()) / 2
open_gates, gold = torch.tensor([[0.8, 0.3, 0.1]]), torch.tensor([[1, 1, 0]])
missed = -torch.where(gold == 1, open_gates, 1 - open_gates).log().mean()
print(f"divergence {apart:.3f} nats, at most {math.log(2):.3f}; missed gold {missed:.3f} nats per word")

# %% tags=["check"]
assert torch.allclose(apart, HEADS["classes"](1, 2).divergence(one.log(), two.log())), "(F3)"
assert torch.allclose(missed, missed_gold(open_gates.log(), (1 - open_gates).log(), gold)), "(F4)"

# %% [markdown]
# ## 5. Training
#
# First we skew one part, if `skew` says so. How often does the first gate alone give you the class of a text after
# that? You would be right for half of the texts by tossing a coin. Then the usual training begins.

# %%
model_of_run, batches = training.prepare_extractor(p, splits, head="classes", num_outputs=2)
if p.skew != "none":
    skewed.SKEWS[p.skew](model_of_run, batches["train"], p.skew_steps, p.learning_rate)
at_start = skewed.told_by_first_word(model_of_run, batches["dev"])
print("the model has no gates" if at_start is None else f"the first gate tells {at_start:.0%} of the classes")

# %%
result = training.train(p, model_of_run, batches, folder)

# %% tags=["figure"]
history = pd.DataFrame(result.history)
shown = {"dev_accuracy": "accuracy", "dev_precision": "precision: gold words",
         "dev_rate_selected": "selected share of words"}  # fmt: skip
shown = {key: name for key, name in shown.items() if key in history}
last = history.iloc[-1]
title = f"On dev, {last['dev_accuracy']:.0%} of the classes are right at the end"
if "dev_precision" in shown:
    title += f", and {last['dev_precision']:.0%} of the selected words are gold"
fig, ax = figures.new_figure(size=(9, 5))
figures.draw_lines(history["epoch"], {name: history[key] for key, name in shown.items()}, ax, title=title,
                   xlabel="epoch", ylabel="share", markers=True)  # fmt: skip
figures.save_figure(fig, folder / "figures", "history")
figures.show(fig)

# %% [markdown]
# The title of the figure gives the accuracy and the precision at the end. If both are high, the rationale is as good as
# the prediction. If the accuracy is high and the precision is low, the rationale has failed, and you cannot see this in
# the accuracy, which is what we usually report.

# %% [markdown]
# ## 6. Which words are selected?
#
# We now look at the accuracy and at the rationale side by side. In the table below you find these rows.
#
# - *Accuracy*, and the accuracy on *uncorrelated* reviews.
# - *Told by the first gate*: how often the first gate alone gives the class.
# - Four shares of the selected words. *Our opinions* are the words that carry the class of our aspect, and *rest of
#   our phrases* are the other gold words. *Other aspects* are words of phrases about another aspect, and *other
#   words* are all that are left.
# - *Recall: informative words*: of the words that carry the class, the share that is selected.

# %%
def kinds_of(review):
    """For each word of a review, the number of its kind: 0 our opinion, 1 our phrase, 2 other aspect, 3 other word."""
    others = [review.rationale(aspect) for aspect in synthetic.ASPECTS if aspect != p.aspect]
    flags = torch.tensor([review.informative(p.aspect), review.rationale(p.aspect), np.any(others, axis=0).tolist()])
    return torch.where(flags.any(0), flags.int().argmax(0), 3)


KINDS = {"selected_opinions": "our opinions", "selected_phrases": "rest of our phrases",
         "selected_aspects": "other aspects", "selected_others": "other words"}  # fmt: skip
for name, evaluation in result.evaluations.items():
    chosen = torch.cat([kinds_of(one)[z != 0] for one, z in zip(reviews[name], evaluation.z, strict=True)])
    counts = torch.bincount(chosen, minlength=4) / max(len(chosen), 1)
    evaluation.metrics.update(zip(KINDS, counts.tolist(), strict=True))
    if result.model.has_gates:
        evaluation.metrics["told_by_first_word"] = skewed.told_by_first_word(result.model, batches[name])
if at_start is not None:
    result.evaluations["dev"].metrics["told_at_start"] = at_start
with torch.no_grad():
    tomorrow = [result.model.head.score(result.model(b.tokens, b.mask).prediction, b.target)
                for b in batches["uncorrelated"].in_order()]  # fmt: skip
result.evaluations["test"].metrics["accuracy_uncorrelated"] = torch.cat(tomorrow).double().mean().item()
replaced = counterfactual.scores_without_informative(result.model, batches["test"])  # see exercise 1
if replaced is not None:
    result.evaluations["test"].metrics |= {f"accuracy_{name}": value for name, value in replaced._asdict().items()}
scores = saved.save_run(folder, result, p, labels)
in_words = {"accuracy": "accuracy", "accuracy_uncorrelated": "accuracy, uncorrelated reviews",
            "told_by_first_word": "told by the first gate", "rate_selected": "selected share of words", **KINDS,
            "recall_informative": "recall: informative words"}  # fmt: skip
table = pd.Series(scores["test"]).reindex(in_words).dropna().rename(in_words)
figures.show_table(table.to_frame("test"), index="measure")

# %% tags=["check"]
test = scores["test"]
assert abs(sum(test[name] for name in KINDS) - 1) < 1e-6 or not test["rate_selected"], "each word is of one kind"
gold_kinds = test["selected_opinions"] + test["selected_phrases"]
if all(any(example.rationale) for example in splits["test"]):  # all reviews speak of our aspect
    assert abs(gold_kinds - test["precision"]) < 1e-6, "the first two kinds are the gold words"
if claims.apply_to(p, "16_failures", only_defaults=True):
    assert test["accuracy"] > 0.9, "the model predicts well"
    assert test["recall_informative"] < 0.2, "and its rationale misses nearly all reasons"

# %% [markdown]
# Look at some reviews yourself. Selected words are coloured, and the gold rationale is underlined.

# %%
evaluation = result.evaluations["test"]
first_of_class = {example.label: i for i, example in reversed(list(enumerate(splits["test"])))}
for label, i in sorted(first_of_class.items()):
    example, title = splits["test"][i], f"{labels[label]}, predicted: {labels[evaluation.answer[i]]}"
    display(figures.highlight_html(example.tokens, evaluation.z[i].tolist(), example.rationale, title))

# %% [markdown]
# With the default settings, we skewed the selector and used no remedy. If the coloured words are not the underlined
# ones, how can the model be right at all? It can be right because the selector has read the review. It then opens
# other gates for class 1 than for class 0, and the predictor learns from the open gates what the selector has found.
# You cannot see this from the accuracy.
#
# **Exercise 1** (predict, change, explain; 10 minutes). Which part of the model needs the words that carry the class?
# You can find out by taking these words away. The gates may be *held* as they were in the unchanged review, or the
# selector may decide them *anew*. *Predict* in which of the two cases the share of right classes falls to about a half
# (`guess`, "held" or "anew"). We print your guess beside the result, but we do not grade it. *Change* the test split.
# Call it `changed`, a list of examples in which each `informative` word is replaced by the word `the`
# (`replace(example, tokens=...)` gives you a changed example). Then compute the two shares `held` and `anew`. The
# batches of both splits come in the same order. *Explain* what the pair of numbers says about the rationale.

# %% tags=["prediction"]
guess = "held"

# %% tags=["solution"]
changed = []
for example in splits["test"]:
    words = ["the" if flag else token for token, flag in zip(example.tokens, example.informative, strict=True)]
    changed.append(replace(example, tokens=tuple(words)))
with_held_gates, with_new_gates = [], []
model_read, head = result.model, result.model.head
with torch.no_grad():
    place = batches["test"].device
    of_changed = Batches(changed, result.vocabulary, p.batch_size, device=place).in_order(max_batch=64)
    for old, new in zip(batches["test"].in_order(max_batch=64), of_changed, strict=True):
        z = model_read(old.tokens, old.mask).z
        prediction = model_read.predictor(model_read.embed(new.tokens), new.mask, z)
        with_held_gates.append(head.score(prediction, new.target))
        with_new_gates.append(head.score(model_read(new.tokens, new.mask).prediction, new.target))
held, anew = (torch.cat(part).double().mean().item() for part in (with_held_gates, with_new_gates))
# With the gates held, the predictor is still right, so it does not read the words that carry the class. With new gates
# it is wrong, so the selector does read them. The rationale tells what the predictor read, and the class was decided
# before that, by the selector, from words that the rationale does not show.

# %% tags=["check"]
for old, new in zip(splits["test"], changed, strict=True):
    assert len(new.tokens) == len(old.tokens), "each text keeps its number of words"
    for before, after, flag in zip(old.tokens, new.tokens, old.informative, strict=True):
        assert after == ("the" if flag else before), "each informative word becomes `the`, and no other word changes"
print(f"right: unchanged {test['accuracy']:.1%}, gates held {held:.1%}, gates decided anew {anew:.1%}")
print(f"your guess was {guess}")
assert guess in ("held", "anew"), '`guess` is "held" or "anew"'
if result.model.has_gates:
    for share, name in ((held, "held"), (anew, "anew")):
        size = "too low" if share < test[f"accuracy_{name}"] else "too high"
        assert abs(share - test[f"accuracy_{name}"]) < 1e-6, f"`{name}` is {size}"
if claims.apply_to(p, "16_failures", only_defaults=True):
    assert held > 0.9 and anew < 0.65, "the selector reads the opinions, and the predictor does not"

# %% [markdown]
# ## Summary
#
# You made a rationale fail. If the data are correlated, a model may read the wrong aspect. After a skewed start,
# selector and predictor may agree on a code. You cannot notice either of these from the accuracy alone. You also
# know three remedies. In the first, both parts share an encoder. In the second, another predictor reads everything.
# In the third, the selector learns from some gold rationales.
#
# ## Next
#
# In `26_read_failures` you compare many such runs. You see how much correlation, or how much skew, makes a rationale
# fail, and how often each remedy prevents it.
