# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Read the rationales of reviews
#
# In `11_train_reviews` you trained an extractor and saved its run. On this page we read this run and train nothing.
#
# **You will** examine the predictions and the rationales of a saved run. You will see where in a review the selected
# words are, and whether they form phrases.
#
# **You will learn** to compare a precision with the precision that you would get without looking at the text. You will
# also learn to recognise a selector that selects a place in the review instead of the words that give a reason.
#
# **You need** a finished run (`make run NOTEBOOK=11_train_reviews`). The page takes seconds.

# %% tags=["parameters"]
runs_dir: str = "outputs/11_train_reviews"  # folder of the runs
run: str = "default"  # name of the run

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import display

from rationale import figures, metrics
from rationale.data.corpora import find_corpus
from rationale.errors import BadInput
from rationale.runs import marked, origin, results_folder, root, saved, validated

# %%
p = validated(globals())
folder = results_folder("21_read_reviews")
source = root() / p.runs_dir / p.run
origin.require_notebook(source, "10_first_rationale", "11_train_reviews")
scores, rows, trained = saved.read_metrics(source), saved.read_rationales(source, "test"), saved.read_parameters(source)
chosen = [torch.tensor(z) != 0 for z in rows.z]
flagged = rows.get("gold", [None] * len(rows))
gold = [torch.tensor(flags, dtype=torch.bool) if isinstance(flags, list) else None for flags in flagged]
judged = [i for i, flags in enumerate(gold) if flags is not None and flags.any()]
classes = "accuracy" in scores["test"]
names = (find_corpus(trained["corpus"]).labels or saved.load_run(source).labels) if classes else ()
about = f"{figures.in_words(trained.get('corpus', 'synthetic'))} ({trained['aspect']})"
print(f"In the run {p.run}, the model {figures.in_words(trained['model'])} was trained on {about}. It has {len(rows)} "
      f"test reviews, and {len(judged)} of them have a gold rationale.")  # fmt: skip

# %% [markdown]
# ## 1. Predictions
#
# How good are the predictions? If the model predicts scores, we compare its error with the error of a model that always
# predicts the mean. If it predicts classes, you see how often each class is predicted for the reviews of each class.

# %%
if classes:
    table = metrics.confusion(torch.tensor(rows.prediction), torch.tensor(rows.label), num_classes=len(names))
    counts = pd.DataFrame(table.numpy(), names, [f"predicted {name}" for name in names])
    display(figures.show_table(counts, index="label", quoted=True))
    found = (table.diagonal().sum() / table.sum()).item()
    print(f"The accuracy on test is {found:.1%}.")
else:
    label, said = np.array(rows.label.tolist()), np.array(rows.prediction.tolist())
    found, variance = np.square(said - label).mean(), label.var(axis=0).mean()
    print(f"The mean squared error is {found:.5f}, and it is {variance:.5f} if you always predict the mean.")
    print(f"So the model explains {1 - found / variance:.0%} of the variance.")

# %% tags=["check"]
assert abs(found - scores["test"]["accuracy" if classes else "mse"]) < 1e-4, "the saved texts are those of the metrics"

# %% [markdown]
# ## 2. Precision, and what it would be without looking
#
# We now compare the selected words with the words that people have marked. You know the precision from
# `10_first_rationale`. Over all reviews that have a gold rationale, it is
#
# $$\text{precision} = \frac{\sum_i |\text{selected}_i \cap \text{gold}_i|}{\sum_i |\text{selected}_i|}.$$
#
# This is the *micro* precision. The *macro* precision is the mean of the precisions of the single reviews.
#
# A *blind* selection, which is made without looking at the text, has a precision, too. It may consist of equally many
# neighbouring words at a random place, or of the first words of each review. The last rows of the table have the
# precision of such selections. Compare the precision of a model with these numbers, and not with 0.
#
# Made-up reviews have a second gold rationale. It consists of those gold words that carry the score. These are
# opinion words and the words that strengthen, weaken or negate them. The rows *words that carry the score* compare
# the selection with these words.

# %%
share = torch.cat(chosen).double().mean().item()
blind = {name[6:]: value for name, value in scores["test"].items() if name.startswith("blind_")}
ours = metrics.rationale_scores([chosen[i] for i in judged], [gold[i] for i in judged])
some = np.mean([z.any().item() for z in chosen])
print(f"The model selects {share:.1%} of all words. In {some:.1%} of the reviews it selects one or more.")
needed = {name: value for name, value in scores["test"].items() if name.endswith("_informative")}
told = ours | needed | {f"blind_{name}": value for name, value in blind.items()}
figures.show_table(pd.DataFrame(told.items(), columns=["measure", "value"]))

# %% tags=["check"]
if judged:
    assert abs(ours["precision"] - scores["test"]["precision"]) < 1e-6
    assert abs(share - scores["test"]["rate_selected"]) < 1e-6

# %% tags=["figure"]
if judged:
    fig, ax = figures.new_figure(size=(9, 4.6))
    ways = {"random_words": "random words", "random_span": "a random run\nof words", "first_words": "the first words",
            "last_words": "the last words"}  # fmt: skip
    bars = {"this run": ours["precision"]} | {ways[name]: value for name, value in blind.items()}
    title = f"Precision {ours['precision']:.0%}; a random run of words would have {blind['random_span']:.0%}"
    figures.draw_bars(list(bars), {"precision": list(bars.values())}, ax, title=title, ylabel="precision", fmt="{:.0%}")
    figures.save_figure(fig, folder / "figures", "precision")
    display(figures.show(fig))

# %% [markdown]
# The reviews of the corpus `hotels` have no gold rationale. But there are other reviews of hotels in which people
# have marked words, for three of the aspects of our corpus (Bao et al. 2018). If you have the files of these reviews,
# the saved model now reads them, and you see the same measures. Otherwise, the cell prints where you can get the
# files.

# %%
if marked.marked_for(source) is not None:
    try:
        display(figures.show_table(pd.DataFrame(marked.marked_scores(source).items(), columns=["measure", "value"])))
    except BadInput as missing:
        print(missing)
else:
    print("For this run we know no other texts with marked words.")

# %% [markdown]
# ## 3. Where in the review?
#
# We divide each review into ten parts, from its first word (position 0) to its last word (position 1), and compute
# the share of selected words in each part. A selector may prefer a place because most gold words are there. Or it may
# prefer a place because the selector and the predictor have agreed on this place, and not on a reason. In the second
# case the curve of the selected words differs from the curve of the gold words.


# %%
def by_position(flags_of: list[torch.Tensor], parts: int = 10) -> np.ndarray:
    """Share of words that are flagged, in each tenth of their review."""
    place = torch.cat([torch.arange(len(flags)) * parts // len(flags) for flags in flags_of])
    flagged = torch.cat(flags_of).double()
    counts = torch.bincount(place, minlength=parts).clamp(min=1)
    return (torch.bincount(place, flagged, minlength=parts) / counts).numpy()


curves = {"selected": by_position(chosen)}
if judged:
    curves["gold"] = by_position([gold[i] for i in judged])

# %% tags=["check"]
if min(map(len, chosen)) >= 20:  # a shorter review has tenths of no word or of twice as many as others
    assert abs(np.average(curves["selected"]) - share) < 0.1, "the parts are about equally long"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
most = int(curves["selected"].argmax())
title = f"Most is selected in part {most + 1} of 10" if share else "Nothing is selected"
figures.draw_lines(np.arange(10) / 10 + 0.05, curves, ax, title=title, xlabel="relative position in the review",
                   ylabel="share of words", markers=True)
figures.save_figure(fig, folder / "figures", "positions")
figures.show(fig)

# %% [markdown]
# ## 4. Words or phrases?
#
# Here you see the lengths of the spans of consecutive selected words. The constraint on the switches favours long
# spans. If there are gold rationales, you can compare these lengths with those of the spans that people mark.

# %%
lengths = {"selected": metrics.span_lengths(chosen)}
if judged:
    lengths["gold"] = metrics.span_lengths([gold[i] for i in judged])
longest = 12  # and longer
histogram = {name: torch.bincount(spans.clamp(max=longest), minlength=longest + 1)[1:] / max(1, len(spans))
             for name, spans in lengths.items()}  # fmt: skip

# %% tags=["check"]
assert sum(lengths["selected"].tolist()) == sum(z.sum().item() for z in chosen), "every selected word is in one span"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
means = {name: runs.double().mean().item() if len(runs) else 0.0 for name, runs in lengths.items()}
title = "Mean length of a span: " + " and ".join(f"{mean:.1f} words ({name})" for name, mean in means.items())
labels = [str(n) for n in range(1, longest)] + [f"{longest}+"]
bars = {name: part.tolist() for name, part in histogram.items()}
figures.draw_bars(labels, bars, ax, title=title, ylabel="share of spans", fmt="")
ax.set_xlabel("words in a span")
figures.save_figure(fig, folder / "figures", "runs")
figures.show(fig)

# %% [markdown]
# ## 5. The number of selected words can pass on an answer
#
# We constrain only the *average* rate. So a selector may select no word of a review. If unselected words are removed
# (mode `compact`), the predictor gives the same answer to all such reviews. If they are replaced by zero vectors (mode
# `zero`), its answer depends only on the length of the review. So the selector can pass on an answer by *whether* it
# selects words and by *how many*, and not by the words themselves. We call this a code (eq. R16 of
# `31_selection_rates`).
#
# How well can we predict the answers of the model from the number of selected words alone? We divide the reviews into
# up to six groups by this number. In each group we guess the commonest answer, and count how often this is the answer
# of the model. Compare this share with the share of the commonest answer of all reviews, which you would guess without
# the number. If the answers are scores, we compute the share of their variance that lies between the groups.
#
# We choose the commonest answer of a group (or its mean) after we have seen the answers. So even a number that tells
# nothing seems to tell a little. How much is that? We shuffle the numbers among the reviews two hundred times, and you
# see the mean of what they tell then. Compare with this, too.

# %%
counts = np.array([z.sum().item() for z in chosen])
answers = np.array(rows.prediction.tolist()).reshape(len(rows), -1)
empty = counts == 0
groups = np.searchsorted(np.unique(np.quantile(counts, np.arange(1, 6) / 6)), counts)


def told_by(groups: np.ndarray) -> float:
    """The share of the answers (of scores: of their variance) that is known if you know the group of each review."""
    members = [answers[groups == k] for k in np.unique(groups)]
    if classes:
        return sum(np.bincount(part[:, 0]).max() for part in members) / len(rows)
    within = sum(part.var(axis=0).mean() * len(part) for part in members) / len(rows)
    total = answers.var(axis=0).mean()
    return (total - within) / max(total, 1e-12)  # the number tells nothing of answers that are all equal


told, generator = told_by(groups), np.random.default_rng(1)
shuffled = np.mean([told_by(generator.permutation(groups)) for _ in range(200)])
least = np.bincount(answers[:, 0]).max() / len(rows) if classes else 0.0
of_what = "the answers" if classes else "the variance of the answers"
print(f"The number alone tells {told:.1%} of {of_what}. If we shuffle the numbers, they tell {shuffled:.1%}.")
if classes:
    print(f"The commonest answer is {least:.1%} of them.")
print(f"In {empty.mean():.1%} of the reviews, nothing is selected.")
if empty.any() and not classes:
    low, high = (figures.scores_in_words(end) for end in (answers[empty].min(0), answers[empty].max(0)))
    print(f"The answers to these reviews lie between {low} and {high}.")

# %% tags=["check"]
assert least - 1e-6 <= min(told, shuffled) and max(told, shuffled) <= 1 + 1e-6
if trained["predictor"] == "compact" and empty.any():
    assert np.ptp(answers[empty], axis=0).max() < 1e-4, "there is one answer for all empty rationales"

# %% [markdown]
# ## 6. Reviews
#
# Selected words are coloured, and gold words are underlined (Figure 1 of the paper). We show the first reviews in which
# something is selected. Of a long review you see 150 words, which begin up to 20 words before the first selected word.

# %%
for i in [i for i in range(len(rows)) if chosen[i].any()][:4]:
    answer, truth = rows.prediction[i], rows.label[i]
    said, meant = (names[one] if classes else figures.scores_in_words(one) for one in (answer, truth))
    title = f"predicted {said}, labelled {meant}"
    start = max(0, int(chosen[i].nonzero()[0]) - 20)
    part = slice(start, start + 150)
    underlined = None if gold[i] is None else gold[i][part].tolist()
    display(figures.highlight_html(rows.tokens[i][part], rows.z[i][part], underlined, title=title))

# %% [markdown]
# **Exercise 1** (predict, change, explain; 12 minutes). *Predict* whether the precision is higher in reviews in which
# a large share of the words is selected or in those with a small share (`guess`, "much" or "little"). We compare your
# guess with the result, but we do not grade it. *Change* from all reviews to two halves. The list `judged` has the
# numbers of the reviews to look at. Divide it into two lists, `little` and `much`. The reviews in `little` have a
# selected share of at most the median, and those in `much` a larger one. Compute the precision of each half,
# `precision_little` and `precision_much` (0 where nothing is selected). *Explain* what follows from a budget that
# holds only on average.

# %% tags=["prediction"]
guess = "little"

# %% tags=["solution"]
shares = np.array([chosen[i].double().mean().item() for i in judged])
limit = np.median(shares) if judged else 0.0
little = [i for i, one in zip(judged, shares, strict=True) if one <= limit]
much = [i for i in judged if i not in little]
precision_little, precision_much = (
    metrics.rationale_scores([chosen[i] for i in half], [gold[i] for i in half])["precision"] if half else 0.0
    for half in (little, much)
)
# A budget holds on average only, so a review with many reasons may get more of it. If the model selects more words than
# there are reasons, the precision of the upper half falls.

# %% tags=["check"]
assert sorted(little + much) == judged, "each judged review is in one half"
halves = {"little": [little, precision_little], "much": [much, precision_much]}
shares_of = {name: [chosen[i].double().mean().item() for i in half] for name, (half, _) in halves.items()}
assert max(shares_of["little"], default=0) <= min(shares_of["much"], default=1), "`little` has a larger share somewhere"
middle = np.median(shares_of["little"] + shares_of["much"]) if judged else 0.0
below, above = max(shares_of["little"], default=0), min(shares_of["much"], default=2)
assert below <= middle < above, "the median share is not between the two halves"
for name, (half, claimed) in halves.items():
    matched, selected = (sum(int(part.sum()) for part in parts)
                         for parts in ([chosen[i] & gold[i] for i in half], [chosen[i] for i in half]))
    size = "too low" if claimed * selected < matched else "too high"
    assert abs(claimed * selected - matched) < 0.01 * max(1, selected), f"`precision_{name}` is {size}"
print(f"The precision is {precision_little:.1%} where little is selected, and {precision_much:.1%} where much is "
      f"selected. Your guess was {guess}.")  # fmt: skip

# %% [markdown]
# ## Summary
#
# You compared a precision with the precision of blind selections. From the positions and the spans you saw whether a
# model selects reasons, or only places.
#
# ## Next
#
# In `32_reviews` we compare many models in this way.
