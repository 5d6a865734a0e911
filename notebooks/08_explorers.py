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
# **You will** move the shape of a gate, the scores of an attention, the rate of a rationale and the layers of a probe;
# and open and shut the gates of your own sentence. `make explore` shows this notebook as a page without code.
#
# **You will learn** whatever you ask: predict first, then move.
#
# **You need** nothing for 1 and 2; for 3 to 5 finished runs in `outputs/`: `make demo` makes a first one in two
# minutes. Arrow keys move the slider that has the focus; the tab key goes to the next one.

# %% tags=["parameters"]
runs_dir: str = "outputs"  # folder whose finished runs are offered

# %%
from rationale import reading, widgets
from rationale.params import validated
from rationale.runs import root

# %%
p = validated(globals())
runs = reading.find_runs(root() / p.runs_dir)
print(f"finished runs found: {len(runs['texts'])} on texts, {len(runs['probes'])} that probe")

# %% [markdown]
# ## 1. The shape of a gate
#
# Predict: which of the four sliders can make the gate *exactly* 0 in half of all draws, and which cannot?
# (`03_explore_shapes`)

# %% tags=["interactive"]
widgets.explore_shapes()

# %% [markdown]
# ## 2. Scores to attention
#
# Predict: which maps give equal weights to neighbours, and which give exactly 0? (`06_sparse_attention`)

# %% tags=["interactive"]
widgets.explore_mappings(lam=0.2)

# %% [markdown]
# ## 3. Your own sentence
#
# Type a text. Orange words are selected; the bar below a word is its gate: dark $P(z = 1)$, light $P(0 < z < 1)$, empty
# $P(z = 0)$. A click forces a gate open, a second one shut, a third one sets it free. Predict: which single word must
# be shut to change the answer? (`10_first_rationale`, `22_read_sst`)

# %% tags=["interactive"]
reading.explore_sentence(runs["texts"])

# %% [markdown]
# ## 4. From few words to all
#
# One text, and the runs of a sweep: each was asked for another share of the words. Predict: does a word that is
# selected at 10 % stay selected at 40 %? (`31_selection_rates`)

# %% tags=["interactive"]
reading.explore_rates(runs["texts"])

# %% [markdown]
# ## 5. What each layer can do without
#
# DiffMask: keep probabilities of a probe of a frozen model, layer by layer, and what the model answers when the masks
# are drawn. Predict: can the first layer do without any word? (`24_read_probes`)

# %% tags=["interactive"]
reading.explore_layers(runs["probes"])

# %% [markdown]
# **Exercise** (10 minutes). Find a sentence of yours whose answer turns when *one* selected word is shut, and turns
# back when another one is opened. Predict both words before you click. Explain with the bars: how sure was the gate?

# %% tags=["solution"]
print("Look for a word with a dark bar. Where the rest says nothing, shutting it leaves the answer to an empty text.")

# %% [markdown]
# ## Summary
#
# What is learned here by hand is derived in `01_kumaraswamy` to `07_diffmask` and measured in `21_read_reviews` to
# `32_reviews`.
#
# ## Next
#
# `10_first_rationale` trains the first model to ask.
