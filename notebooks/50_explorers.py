# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Explore: five pictures that move
#
# Here you find all interactive pictures of this repository on one page. With `make explore` you open it in a browser,
# without code.
#
# **You will** move the shape of a gate, the scores of an attention, the rate of a rationale and the layers of a
# probe. You will also open and shut the gates of a sentence of your own.
#
# **You will learn** whatever you ask. Predict first, then move.
#
# **You need** nothing for sections 1 and 2, nor for the first pictures of sections 4 and 5. Your browser draws them, so
# they also work in the static book. The other pictures read finished runs in `outputs/`, and none of these runs needs
# data. The page itself takes seconds.
#
# - For section 3, run `make demo`.
# - For section 4, also run `make run NOTEBOOK=10_first_rationale PARAMS="selection=0.3"`.
# - For section 5, run `make run NOTEBOOK=14_train_probes`.
#
# You can also use the keyboard. The arrow keys move the slider that has the focus, and the tab key goes to the next
# one.

# %% tags=["parameters"]
runs_dir: str = "outputs"  # folder whose finished runs are offered
own_texts: bool = True  # whether runs on texts of your own are offered; the book is made without them

# %%
from rationale import explorers
from rationale.explorers.shapes import describe_shape
from rationale.runs import find, root, validated
from rationale.runs.committed import reference_folder

# %%
p = validated(globals())
runs = find.find_runs(root() / p.runs_dir, p.own_texts)
print(f"finished runs found: {len(runs['texts'])} on texts, {len(runs['probes'])} that probe")

# %% [markdown]
# ## 1. The shape of a gate
#
# Before you move anything, predict which of the sliders `a`, `b`, `left` and `right` can make the gate *exactly* 0 in
# half of all draws. You can also drag the point on the map of $(a, b)$, compare with a second gate, and follow one
# draw $u$ on its way to $H$. The dots are the gates of a trained model after each epoch. (`04_explore_shapes`)

# %% tags=["interactive"]
explorers.explore_shapes(run=reference_folder())

# %% [markdown]
# ## 2. Scores to attention
#
# Which maps give equal weights to neighbours, and which give weights of exactly 0? Predict it, and then move the
# scores. (`40_sparse_attention`)

# %% tags=["interactive"]
explorers.explore_mappings(lam=0.2)

# %% [markdown]
# ## 3. Your own sentence
#
# Type a text. Selected words are orange. The bar below a word shows its gate, with $P(z = 1)$ in a dark colour,
# $P(0 < z < 1)$ in a light one, and $P(z = 0)$ empty. If you click a word, its gate is forced open, with the next
# click it is forced shut, and with the third it is free again. Which single word do you have to shut to change the
# prediction? (`10_first_rationale`, `22_read_sst`)

# %% tags=["interactive"]
explorers.explore_sentence(find.find_runs(root() / p.runs_dir, p.own_texts)["texts"])

# %% [markdown]
# ## 4. From few words to all
#
# You see one text and the runs of a sweep. Each run has another target for the share of selected words. Predict whether
# a word that is selected at a low rate stays selected at a higher one. In the first picture, the texts are reviews of
# `10_first_rationale`, and the true reasons are underlined. (`31_selection_rates`)

# %% tags=["interactive"]
explorers.explore_saved_rates(reference_folder())

# %% [markdown]
# If you have runs of your own, you can type a text for all of them.

# %% tags=["interactive"]
explorers.explore_rates(find.find_runs(root() / p.runs_dir, p.own_texts)["texts"])

# %% [markdown]
# ## 5. What each layer can do without
#
# Here you see the keep probabilities of a DiffMask probe, layer by layer, and what the frozen model answers when the
# masks are drawn. Predict whether there is a word that the first layer can do without. The first picture is of the
# digit task, whose truth is underlined. (`24_read_probes`)

# %% tags=["interactive"]
explorers.explore_saved_layers(reference_folder())

# %% [markdown]
# If you have a run that probes, you can choose among all its texts.

# %% tags=["interactive"]
explorers.explore_layers(find.find_runs(root() / p.runs_dir)["probes"])

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). Begin at the U-shape, $a = b = 1/2$ on $(-0.1, 1.1)$.
# *Predict* which sliders can bring $P(0)$ to 1/2 if you move only one of them (`can`, a set of some of "a", "b",
# "left", "right"). With the sliders, both shapes go from 0.01 to 100, `left` from $-1$ to 0, and `right` from 1 to 2.
# *Change* each slider and read off where this happens (`half`, a dict of sliders to values, to two digits). *Explain*
# why you cannot do it with the others.

# %% tags=["prediction"]
can = {"a", "b"}

# %% tags=["solution"]
half = {"a": 0.116, "b": 2.04}
# P(0) is the mass of K below k0 = -left / (right - left). With either shape you can bring any mass below k0. With
# `right` you move k0 from 0.083 to 0.091 at most. For `left` you would need -1.4, which is beyond its end.

# %% tags=["check"]
start = {"a": 0.5, "b": 0.5, "left": -0.1, "right": 1.1}
for name, ends in (("a", (0.01, 100)), ("b", (0.01, 100)), ("left", (-1, -0.01)), ("right", (1, 2))):
    reached = [describe_shape(**start | {name: end})["P(0)"] for end in ends]
    assert (name in can) == (min(reached) < 0.5 < max(reached)), f"`can` is not right about the slider {name}"
for name, value in half.items():
    there = describe_shape(**start | {name: value})["P(0)"]
    assert abs(there - 0.5) < 0.01, f"{name} = {value}: P(0) = {there:.2f}"
assert set(half) == can, "`half` needs a value for each slider in `can`"

# %% [markdown]
# Here is a question to take along, for section 3. For which sentence of yours does the prediction change when you
# shut *one* selected word? And how dark was its bar?

# %% [markdown]
# ## Summary
#
# What you tried here by hand is derived in `02_kumaraswamy` to `41_diffmask`. We measure it in `21_read_reviews` to
# `32_reviews`.
#
# ## Next
#
# In `10_first_rationale` you train the first model for section 3.
