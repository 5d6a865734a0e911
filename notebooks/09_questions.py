# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Ask eight questions about a paper
#
# **You will** take eight questions that readers have asked about *Rationalizing Neural Predictions* (Lei, Barzilay
# and Jaakkola 2016) and answer each with an experiment of a minute.
#
# **You will learn**
# - what the rule at test time, the norm in the cost and the pooling of the predictor do to a rationale;
# - how three other ways to train gates (straight-through, Hard Concrete, HardKuma) compare with REINFORCE;
# - why a multiplier on Bernoulli gates is unstable, and what makes it stable;
# - how you tell a rationale from attention, what a predictor may learn about a text beside the selected words, and when
#   precision misleads you.
#
# **You need** `08_reinforce`, and `05_count_words` to `07_decide_and_depend` for sections 2 to 4, which you can leave
# out at a first reading. You need no data and no GPU. The notebook runs in about three minutes, and you will need
# about 75 minutes to read it and to do the two exercises.

# %% tags=["parameters"]
seed: int = 0  # of toy texts, first weights and draws
num_steps: int = 400  # training steps of each toy run
batch_size: int = 32  # toy texts in a training step
embedding_size: int = 16  # numbers in the vector of a toy word
hidden_size: int = 16  # LSTM units per direction
learning_rate: float = 0.01  # of Adam
sparsity: float = 0.03  # price of a selected word, in nats

# %%
import itertools
import math

import pandas as pd
import torch

from rationale import explain, figures
from rationale.metrics import rationale_scores
from rationale.nn import decide, top_k
from rationale.objectives.enumeration import all_selections
from rationale.runs import results_folder, validated
from rationale.training.signal_words import (
    NORMS,
    SignalWords,
    distance_after_zeros,
    hesitating_text,
    is_signal,
    log_chances,
    norm_of,
    running_mean,
    straight_through_gradient,
    task_losses,
    with_price,
)

# %%
p = validated(globals())
folder = results_folder("09_questions") / "figures"
toy = SignalWords(p)
settles = p.num_steps >= 400  # else the toys are too short for the claims on training

# %% [markdown]
# ## Who asks
#
# A paper of ten pages leaves things open, and good readers notice. Most of the questions below are asked in Alexandre
# Allauzen's reading notes of November 2017 on the paper. How is the selection computed at test time? Should the cost
# contain another norm of the selection? Does the reparameterisation trick apply? Does an encoder that uses its last
# state prefer the end of a text? Is a rationale not simply attention? Is the evaluation ambiguous? We answered two more
# of his questions in `08_reinforce`, about the number of draws and about the gradient of the regulariser (the price of
# selected words). Section 4 is about footnote 8 of Bastings, Aziz and Titov (2019), and the question of section 7 is
# our own.
#
# In our experiments we use the toy of `08_reinforce`, which has texts of ten words, four classes, one signal word per
# class at a random place, and 40 kinds of fillers. You know what should be selected. In each section you find the same
# three parts, which are a question, an experiment and an answer. Sentences in italics repeat questions of the notes,
# some of them in other words. An answer on a toy is a hint, not a proof. If this repository has the same experiment on
# real data, the last sentence of the section tells you where.
#
# ## 1. What decides at test time?
#
# **The question.** During training, we draw the gates. At test time we have to turn a probability into a decision.
# *How?* ask the notes; *is it a threshold of 0.5?* The paper does not say. Lei's code draws a sample at test time,
# too. The re-implementation of Bastings et al. uses a threshold at one half. Its rule is the left one below, with
# $\theta = 0.5$. In a third way, we keep a fixed share $q$ of each text, which has $n$ words. Here the most probable
# word has rank 1:
#
# $$z_t = \mathbb 1[P(z_t = 1) \ge \theta] \qquad \text{or} \qquad z_t = \mathbb 1\big[\operatorname{rank}(p_t) \le
# \max(1, \operatorname{round}(q\,n))\big]. \tag{R9}$$
#
# **The experiment.** We stop a training early, when the gates are still undecided, and apply many rules to the *same*
# gates. One of these rules draws the gates, and for it we average the prediction over eight draws. In the figure you
# see thresholds from 0.1 to 0.9, and *rate* is the share of selected words.

# %%
undecided, _ = toy.train(num_steps=min(45, p.num_steps))  # in the middle of training, when the rule matters
texts = toy.new_texts(2000, part=4)
thresholds = torch.arange(1, 10) / 10
with torch.no_grad():
    gates, vectors = undecided.gates(texts.tokens, texts.mask), undecided.embed(texts.tokens)
    rules = {f"{t:.1f}": decide(gates, "threshold", texts.mask, threshold=t.item()) for t in thresholds}
    rules |= {"one draw": decide(gates, "sample"), "top 10 %": top_k(gates.logits, texts.mask, 0.1)}
    eight = [decide(gates, "sample") for _ in range(8)]
    answers = {name: undecided.predictor(vectors, texts.mask, z).softmax(1) for name, z in rules.items()}
    answers["mean of 8 draws"] = sum(undecided.predictor(vectors, texts.mask, z).softmax(1) for z in eight) / 8
accuracy = {name: (given.argmax(1) == texts.target).double().mean().item() for name, given in answers.items()}
rate = {name: z.mean().item() for name, z in rules.items()} | {"mean of 8 draws": gates.prob_one.mean().item()}

# %% tags=["check"]
assert rules["0.5"].equal(decide(gates, "argmax")), "for a Bernoulli gate the likeliest value is the threshold at 1/2"
assert torch.equal(rules["top 10 %"].sum(1), torch.ones(2000)), "one word of ten, in every text"
off = abs(rate["one draw"] - rate["mean of 8 draws"])
assert off < 5 * (0.25 / gates.logits.numel()) ** 0.5, "draws keep the expected share"
falling = [rate[f"{t:.1f}"] for t in thresholds]
assert falling == sorted(falling, reverse=True), "a higher threshold never selects more"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(11, 5))
finding = f"The same gates, another rule: from {min(rate.values()):.0%} to {max(rate.values()):.0%} of the text"
bars = {"accuracy": list(accuracy.values()), "rate": [rate[name] for name in accuracy]}
figures.draw_bars([name.replace(" ", "\n", 1) for name in accuracy], bars, ax, title=finding, ylabel="share",
                  fmt="{:.2f}")  # fmt: skip
ax.set_xlabel("threshold for P(z = 1), or another rule")
figures.save_figure(fig, folder, "thresholds")
fig

# %% [markdown]
# **The answer.** The rule is a part of the model, so you have to name it in a paper. You see that on these gates the
# rule changes how much text is shown. The title gives you the two extremes. A threshold of one half has one argument in
# its favour: it selects the most probable value of each gate. A sample treats the gates in the same way as the training
# does, but two readers of the same text get different rationales. A fixed share makes models comparable, because each
# of them shows equally many words. But then a text without any evidence gets as many words as a text that is full of
# evidence.
#
# For dependent gates, the most probable selection is not easy to find. If we decide one gate after the other, each for
# its likelier value, we get the *greedy* selection. It may miss the largest product of equation (R3) in `08_reinforce`,
# because a less likely first gate can make the later gates more certain. With ten words we can look at all 1,024
# products.

# %%
dependent, _ = toy.train(num_steps=min(60, p.num_steps), dependent=True)
places = 2.0 ** torch.arange(9, -1, -1)  # a selection, read as a binary number
lost = []  # nats by which the greedy selection is less probable than the best one
for tokens in texts.tokens[:100]:
    one = texts._replace(tokens=tokens[None], mask=texts.mask[:1])
    of_all = log_chances(dependent, one)
    with torch.no_grad():
        greedy = dependent(one.tokens, one.mask).z[0]
    lost.append((of_all.max() - of_all[(greedy @ places).long()]).item())
agree = sum(nats == 0 for nats in lost)

# %% tags=["check"]
assert all_selections(10)[7] @ places.double() == 7 and min(lost) >= 0
if settles:
    assert agree > 50, "greedy is a good guess at the most probable selection"
print(f"greedy finds the most probable selection in {agree} of 100 texts; mean loss {sum(lost) / 100:.3f} nats")

# %% [markdown]
# You see that on most of these texts the greedy selection *is* the most probable one, so the simple rule is a good one
# here. We use it for dependent gates.
#
# ## 2. L0, L1 or L2?
#
# **The question.** The cost of Lei et al. has the norm of $z$ in it. *Could the first regularisation be an L1 norm
# instead of L2, to favour sparsity?* The L0 norm is the number of gates that are not 0, the L1 norm is the sum of
# their values, and the squared L2 norm is the sum of their squares. For binary gates these three are one number,
# because $0$ and $1$ are their own squares. For gates with values in between they are ordered:
#
# $$z \in \{0, 1\} \;\Rightarrow\; \|z\|_0 = \|z\|_1 = \|z\|_2^2 = \textstyle\sum_t z_t; \qquad z \in [0, 1]
# \;\Rightarrow\; E\|z\|_0 \ge E\|z\|_1 \ge E\|z\|_2^2. \tag{R10}$$
#
# (The L2 norm itself, $\|z\|_2 = \sqrt{\textstyle\sum_t z_t}$ for binary gates, makes each further word cheaper than
# the one before.)
#
# **The experiment.** We train the HardKuma gates of `10_first_rationale`, which can be exactly 0, exactly 1 or in
# between. The constraint holds the mean of a norm at 0.1 per word. We make three runs, with L0, with L1 and with the
# squared L2, and repeat each with three seeds. *Partly open* is the share of words whose gate is neither 0 nor 1 at
# test time.

# %%
of_seeds = []
for norm, start in itertools.product(NORMS, (1, 2, 3)):
    model = toy.train_with_norm(norm, rate=0.1, start=start)
    with torch.no_grad():
        decided = model(texts.tokens, texts.mask).z
    partly = ((decided > 0) & (decided < 1)).float().mean().item()
    of_seeds.append({"norm": norm, **toy.evaluate(model), "partly open": partly})
of_norm = pd.DataFrame(of_seeds).drop(columns=["kept", "signals"]).groupby("norm")
normed = of_norm.mean().T.to_dict()
measured = ["accuracy", "rate", "partly open", "precision"]
table = {name: [f"{part.mean():.2f} ({part.min():.2f} to {part.max():.2f})" for _, part in of_norm[name]]
         for name in measured}  # fmt: skip
figures.show_table(pd.DataFrame(table, index=list(of_norm.groups)), index="norm")

# %% tags=["check"]
with torch.no_grad():
    relaxed = model.gates(texts.tokens[:200], texts.mask[:200])
    l0, l1, l2 = (norm_of(relaxed, norm) for norm in NORMS)
assert l0 >= l1 - 1e-5 and l1 >= l2 - 1e-5, "(R10)"
if settles:
    assert normed["L2"]["rate"] >= normed["L0"]["rate"], "a mean of 0.1 in L2 buys at least as many words as one in L0"
    assert of_norm["accuracy"].min()["L0"] < of_norm["accuracy"].min()[["L1", "L2"]].min(), "L0 has the worst seed"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 5))
finding = "A mean of 0.1 per word selects " + ", ".join(f"{row['rate']:.0%} ({norm})" for norm, row in normed.items())
bars = {name: [row[name] for row in normed.values()] for name in ("rate", "partly open", "precision")}
figures.draw_bars(list(normed), bars, ax, title=finding, ylabel="share", fmt="{:.2f}")
figures.save_figure(fig, folder, "norms")
fig

# %% [markdown]
# **The answer.** For the binary gates of the paper the question does not arise, because the three norms are one. For
# gates with values in between the norm matters in two ways. First, under L0 some seeds end with a much lower accuracy,
# as you see in brackets. (With three seeds, this is a hint only.) Here is our explanation, which we have not tested. L0
# counts a gate that is only a little open as a whole word. So at a mean of 0.1 the constraint shuts most gates early,
# before the predictor knows which words matter, and a class whose signal is shut then gets no gradient. Under L1 and
# L2, a gate that is partly open counts only in part. So it can stay partly open, and keep its gradient, until the
# predictor has learned the task. Second, L1 and L2 have a disadvantage. Under them, the mean of 0.1 does not bound the
# number of selected words. On this toy nearly all gates end at 0 or 1, so you do not see this in the figure. In
# Exercise 1 you compute how far *all* gates of a text can be open. Only L0 counts what a reader sees. This is why
# Bastings et al. constrain the expected L0, and why `07_decide_and_depend` is so careful about how gates start.
#
# **Exercise 1** (predict, change, explain; 8 minutes). Under L1 and L2, gates can be partly open. *Predict* the
# largest value $v$ that *all* gates of a text can have under a constraint of 0.1 per word (`all_open`, a dict from
# "L1" and "L2" to $v$). As in (R10), L2 means the squared norm, so it is the mean of the squares. *Change* the share
# of open gates. Let 40 of 100 gates have the value $v$, and let the others be 0. For each norm, compute the largest
# $v$ that the constraint allows, or 0 if it allows none (`some_open`, a dict of "L0", "L1" and "L2"). *Explain* which
# of the norms keeps a model from showing everything faintly.

# %% tags=["prediction"]
all_open = {"L1": 0.1, "L2": math.sqrt(0.1)}

# %% tags=["solution"]
some_open = {"L0": 0.0, "L1": 0.1 / 0.4, "L2": math.sqrt(0.1 / 0.4)}
print("all words at", all_open, "or 40 of 100 at", some_open)
# Only L0 does: it counts 40 words as 40, however faint they are. Under L2, every word may be shown at nearly a third of
# its full strength.

# %% tags=["check"]
for norm, power in (("L1", 1), ("L2", 2)):
    for num_open, value in ((100, all_open[norm]), (40, some_open[norm])):
        assert not value < 0, f"{norm}: a gate is not negative"
        shown_gates = torch.zeros(100, dtype=torch.float64)
        shown_gates[:num_open] = float(value)
        measured_norm = shown_gates.pow(power).mean().item()
        assert abs(measured_norm - 0.1) < 1e-3, f"{num_open} of 100 gates at {value:.3g}: {norm} is {measured_norm:.3f}"
assert some_open["L0"] == 0, "40 of 100 gates that are not 0 are 0.4 per word in L0, whatever their value is"

# %% [markdown]
# ## 3. Could it be reparameterised?
#
# **The question.** *Since z are hidden variables, could we adapt the variational auto-encoder to this task, and can
# we use the reparameterisation trick?* (A hidden, or latent, variable is a random quantity that the data do not show.
# Here these are the gates.) The trick writes a draw as a function of noise and parameters, and lets the gradient go
# through this function, as we wished in `01_choosing`. A draw of a Bernoulli gate is a step function of the noise, so
# its derivative is zero almost everywhere. *Straight-through* uses another number in its place:
#
# $$z = \mathbb 1[u < p], \qquad \frac{\partial z}{\partial o} := \frac{\partial p}{\partial o} = p\,(1 - p).
# \tag{R11}$$
#
# With HardKuma and Hard Concrete gates, we change the variable instead. These gates can be exactly 0, exactly 1 or in
# between, and their draws have true derivatives.
#
# **The experiment.** How wrong is straight-through? In `08_reinforce` we found a text on which a half-trained model
# hesitates. For this text, we can compute the mean of the straight-through estimate exactly. We average the derivative
# of the task loss by $z_t$ over all selections, weighted by their probabilities. Then we multiply this average by
# $p_t (1 - p_t)$ and add the gradient of the price.

# %%
half_trained, _ = toy.train(num_steps=min(40, p.num_steps))
torch.manual_seed(p.seed + 3)
text = hesitating_text(half_trained, p.sparsity, (toy.texts(1) for _ in range(200)))
task = task_losses(half_trained, text)
exact = with_price(task, p.sparsity).gradient  # [10]
straight = straight_through_gradient(half_trained, text, task, p.sparsity)  # [10]
cosine = torch.cosine_similarity(straight, exact, dim=0).item()

# %% tags=["check"]
bias = ((straight - exact).norm() / exact.norm()).item()
assert bias > 0.05, "straight-through is biased: its exact mean is not the exact gradient"
print(f"straight-through: cosine {cosine:.2f}, {straight.norm() / exact.norm():.2f} of the length, bias {bias:.0%}")

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 4.8))
finding = f"Straight-through is off by {bias:.0%} of the gradient, on average over all draws"
labels = [f"{t}" + ("\nsignal" if here else "") for t, here in enumerate(is_signal(text)[0])]
pair = {"exact gradient": exact, "mean of straight-through": straight}
figures.draw_bars(labels, pair, ax, title=finding, ylabel="gradient by the logit (nats)", fmt="")
ax.set_xlabel("position of the word")
figures.save_figure(fig, folder, "straight_through")
fig

# %% [markdown]
# And what about the auto-encoder? The model gives the right class $y$ the probability $E[p(y \mid x, z)]$,
# which is an average over the draws of $z$. So we would like to minimise $-\ln E[p(y \mid x, z)]$. We minimise
# $E[-\ln p(y \mid x, z)]$ instead, which is never smaller (by Jensen's inequality, see (S2) of
# `05_count_words`). For this text both are sums over 1,024 selections, and we compute them in the cell below.
#
# (If you know variational auto-encoders, you see here the bound that they use. The prior $p(z \mid x)$ is learned and
# serves as the approximate posterior, too, so that no KL term is left.)

# %%
bound, marginal = (task.chances @ task.cost).item(), -(task.chances @ (-task.cost).exp()).log().item()

# %% tags=["check"]
assert bound >= marginal, "Jensen"
print(f"bound {bound:.3f} nats, minus log-likelihood {marginal:.3f} nats")

# %% [markdown]
# A bias on one text need not matter for training. So we also train all four kinds of gate on the whole task, with
# four draws per step. The constraint is the same for all of them, which is to select one word of ten (`selection:
# 0.1`). A multiplier holds this rate. It follows the *signed* rule of `06_hold_a_rate`, so it can push the share of
# selected words down or up.

# %%
held = {"selection": 0.1, "sparsity": 0.0}
once = {"baseline": "none"}  # the gradient comes through the draws; four of them, as for Bernoulli
kinds = {"hardkuma": once, "bernoulli": {}, "straight_through": once, "hard_concrete": once}
trained = {name: toy.train(model=name, **held, **changes) for name, changes in kinds.items()}
gate_results = {name: toy.evaluate(model) for name, (model, _) in trained.items()}
lates = {name: trace["task"][-50:].mean().item() for name, (_, trace) in trained.items()}  # of the last 50 steps
table = pd.DataFrame(gate_results).T[["accuracy", "rate", "precision"]].astype(float)
figures.show_table(table, index="gate")

# %% tags=["check"]
if settles:
    for name, (_, trace) in trained.items():
        late = trace["rate"][-50:].mean()
        assert abs(late - 0.1) < 0.05, f"{name}: the constraint asks for 10 %, the last 50 steps are at {late:.1%}"
    others = [loss for name, loss in lates.items() if name != "straight_through"]
    assert lates["straight_through"] > 2 * max(others), "the biased gradient ends at a higher loss than the others"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 5))
finding = f"All four learn; at the end straight-through still loses {lates['straight_through']:.3f} nats"
lines = {figures.in_words(name): running_mean(trace["task"]) for name, (_, trace) in trained.items()}
figures.draw_lines(range(p.num_steps), lines, ax, title=finding, xlabel="training step", ylabel="task loss (nats)")
figures.save_figure(fig, folder, "gates")
fig

# %% [markdown]
# **The answer.** Yes, you can do it in two ways. With straight-through you keep the binary gate and accept a biased
# gradient. The exact gradient, (C4) of `01_choosing`, compares the cost with a word and the cost without it, and
# straight-through puts the derivative at one selection in the place of this difference. With HardKuma and Hard
# Concrete you keep an unbiased gradient and accept gates that are sometimes in between. On this toy all four learn to
# select about one word of ten, as you see in the table, but the task loss of straight-through stays above that of the
# others. In `31_selection_rates` we compare them on SST.
#
# ## 4. Can a Lagrangian hold Bernoulli gates?
#
# **The question.** Bastings et al. hold the rate of HardKuma gates with a Lagrange multiplier, which is a price that
# changes during training until the rate is at its target. For the Bernoulli model they keep a fixed price. In
# footnote 8 they say why. They tried the Lagrangian (the loss with such a multiplier) there, too, and found it
# unstable, for example because everything was selected. Is the reason the gates, the noise, or the rule for the
# multiplier?
#
# **The experiment.** The multiplier of Bastings et al. starts near zero. At each step it is multiplied by a factor, and
# this factor is above 1 while the rate is above its target. While the multiplier is small, gates may open. To see that
# phase in few steps, we start the gates of all three runs open (at a logit of 4), and let the multiplier grow three
# times as fast as in their code for SST, by a gap that is averaged over fewer steps. For *less noise* we keep this
# multiplier, but take the package's estimator, with leave-one-out and the price in closed form. For *signed* we take
# the same estimator, but we let the multiplier follow the package's rule, by which it may become negative.

# %%
authors = {"dynamics": "authors", "multiplier_init": 1e-4, "multiplier_rate": 0.03, "smoothing": 0.9}
lagrangians = {"authors": {**authors, "penalty": "sampled", "baseline": "none", "samples": 1},
               "authors, less noise": authors, "signed": {}}  # fmt: skip
held_at = {"selection": 0.2, "sparsity": 0.0, "bias": 4.0, "num_steps": 2 * p.num_steps}
runs = {name: toy.train(**held_at, **changes) for name, changes in lagrangians.items()}

# %% tags=["check"]
ends = {name: trace["rate"][-50:].mean().item() for name, (_, trace) in runs.items()}
for name, (model, trace) in runs.items():
    print(f"{name:20} ends at a rate of {ends[name]:.3f}; above 90 % in {(trace['rate'] > 0.9).sum()} of "
          f"{len(trace['rate'])} steps; accuracy {toy.evaluate(model)['accuracy']:.0%}")  # fmt: skip
if settles:
    assert abs(ends["signed"] - 0.2) < 0.03, "the signed rule holds Bernoulli gates too"
    assert (runs["authors"][1]["rate"][: p.num_steps] > 0.9).float().mean() > 0.8, "everything is selected"
    assert ends["authors"] < 0.1, "and then next to nothing"
    less_noise, trace = runs["authors, less noise"]
    assert (trace["rate"] > 0.9).sum() < (runs["authors"][1]["rate"] > 0.9).sum() / 2, "everything for a shorter time"
    assert toy.evaluate(less_noise)["accuracy"] > 0.9, "with less noise it learns the task"
    assert ends["authors, less noise"] < 0.17, "and still ends below its target"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 5))
finding = f"Target 20 %: the authors' recipe ends at {ends['authors']:.0%}, the signed rule at {ends['signed']:.0%}"
lines = {name: trace["rate"] for name, (_, trace) in runs.items()}
figures.draw_lines(range(2 * p.num_steps), lines, ax, title=finding, xlabel="training step", ylabel="expected rate",
                   target=0.2)  # fmt: skip
ax.lines[1].set_linestyle("-.")  # in other notebooks, a dashed line of a rule is the selected rate
ax.legend(frameon=False, fontsize=12)
figures.save_figure(fig, folder, "lagrangian")
fig

# %% [markdown]
# **The answer.** It is not the gates alone, because the signed rule holds the same gates at the target. Compare the
# printed lines, which come from one run each. With less noise, the authors' rule selects everything for a much shorter
# time and the model learns the task, but the rate still ends below its target. Only the signed rule also holds the
# target. (We have not tried it with the noisy estimator.)
#
# We have an explanation, but we have not tested all of it. In the authors' recipe, the gradient of the task is so noisy
# that over many steps only the price moves the gates. And the gradient of an open Bernoulli gate is tiny, because it
# has the factor $p (1 - p)$. So the multiplier grows until even this tiny gradient shuts the gates. By then the
# multiplier is far too large, and a rule that can only lower a rate cannot bring the words back. With the signed rule
# we compare the log-odds of the rate with those of the target. The derivative of these log-odds does not contain the
# small factor $p (1 - p)$, so gates still move. And the rule may push in both directions. You see that it holds the
# same gates at the target. In `31_selection_rates` we make the same comparison on SST.
#
# ## 5. Does the last state prefer the end?
#
# **The question.** *The encoder is a simple RNN and the last hidden state is taken as input for the classification.
# This could bias the model to select words at the end of the sequence.* An LSTM that reads on after the evidence may
# forget it. Does the selector then prefer words near the end, which the last state remembers best? Our package has
# five ways to pool the states $h_1 \dots h_n$ into one. In (R12), the arrows stand for the two directions of the
# LSTM, and the $\alpha_t$ are learned weights that sum to 1:
#
# $$\text{final: } [\overrightarrow h_n; \overleftarrow h_1], \quad \text{last: } \overrightarrow h_n, \quad
# \text{mean: } \tfrac1n \textstyle\sum_t h_t, \quad \text{max: } \max_t h_t, \quad
# \text{attention: } \textstyle\sum_t \alpha_t h_t. \tag{R12}$$
#
# **The experiment.** We take texts of twenty words with the signal in four random places, any one of which is enough.
# Which of the four does a model keep? We try three of the poolings, with unselected words replaced by zeros (*zero*) or
# removed (*compact*), and with three seeds. A model that has not learned the task cannot show what it prefers. So we
# count only models that are right on more than 95 % of new texts. A model that keeps all four signals of a text, or
# none of them, makes no choice there. So we look only at texts of which it keeps one, two or three, and only at models
# that make a choice in at least a tenth of the texts. In the column `models` you see how many of the three seeds gave a
# model of both kinds, and in the column `choice` in which share of the texts these make one. In these texts we count
# how many of the kept signals stand in each fifth. From the middles of the fifths we compute the mean position of the
# kept signals, which is 0.1 if all of them are in the first fifth, and 0.9 if all are in the last. For comparison, we
# count the same in the same texts for a model that keeps as many signals, but always the last ones (`last_ones`).

# %%
pools, modes, seeds = ("last", "mean", "max"), ("zero", "compact"), (1, 2, 3)
middles = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64)
where, last_ones, rows = {}, {}, []
for pool, mode, start in itertools.product(pools, modes, seeds):
    model, _ = toy.train(length=20, copies=4, pool=pool, predictor=mode, start=start)
    found = toy.evaluate(model, length=20, copies=4)
    num_kept = found["kept"].sum(1, keepdim=True)  # [N, 1]
    chooses = ((num_kept > 0) & (num_kept < 4)).squeeze(1)
    from_the_end = found["signals"].flip(1).cumsum(1).flip(1)  # signals from this word to the end
    last = found["signals"] & (from_the_end <= num_kept)
    for shares, selected in ((where, found["kept"]), (last_ones, last)):
        by_fifth = selected[chooses].double().sum(0).view(5, 4).sum(1)
        shares[pool, mode, start] = by_fifth / by_fifth.sum()  # nan where no text has a choice
    rows.append({"pool": pool, "mode": mode, "accuracy": found["accuracy"], "words": found["words"],
                 "choice": chooses.double().mean().item(),
                 "mean position": (where[pool, mode, start] @ middles).item(),
                 "of the last ones": (last_ones[pool, mode, start] @ middles).item()})  # fmt: skip
learned = pd.DataFrame(rows).query("accuracy > 0.95 and choice >= 0.1")  # of the other models we ask nothing
OF_MODE = {"zero": "replaced by zeros", "compact": "removed"}
table = []
for (mode, pool), part in learned.groupby(["mode", "pool"]):
    means, spread = part.mean(numeric_only=True), part.std(numeric_only=True)
    told = {name: f"{means[name]:.2f}" + (f" ± {spread[name]:.2f}" if len(part) > 1 else "") for name in means.index}
    table.append({"unselected words": OF_MODE[mode], "pooling": pool, **told, "models": len(part)})
figures.show_table(pd.DataFrame(table))

# %% tags=["check"]
for key, kept in where.items():
    assert kept.isnan().all() or abs(kept.sum() - 1) < 1e-9, key
    assert kept.isnan().all() or last_ones[key] @ middles >= kept @ middles - 1e-9, "the last ones are as far as can be"
if settles:
    assert len(learned) >= 8 and set(learned["mode"]) == set(modes), "enough models have a choice"
    assert (learned["mean position"] - 0.5).abs().max() < 0.04, "no pooling moves the selection to the end"
    assert (learned["of the last ones"] - learned["mean position"]).min() > 0.08, "the last ones would stand elsewhere"
    assert learned["mode"].value_counts()["zero"] < 4, "with zeros, few models make a choice"
    words_of_codes = pd.DataFrame(rows).query("mode == 'zero' and accuracy > 0.95 and choice < 0.1")["words"]
    assert (words_of_codes / 4 - 0.75).abs().max() < 0.05, "the others keep four signals in three quarters of the texts"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 4.8))
fifths = ["first fifth", "second", "third", "fourth", "last fifth"]
kept = pd.DataFrame([shares.tolist() for shares in where.values()], columns=fifths).loc[learned.index]
bars = {f"other words {how}": kept[learned["mode"] == mode].mean().tolist()
        for mode, how in OF_MODE.items() if (learned["mode"] == mode).any()}  # fmt: skip
of_last = pd.DataFrame([shares.tolist() for shares in last_ones.values()], columns=fifths).loc[learned.index].mean()
finding = (f"{kept['first fifth'].mean():.0%} of the kept signals stand in the first fifth; of the last ones it would "
           f"be {of_last.iloc[0]:.0%}" if len(learned) else "No model has a choice")  # fmt: skip
figures.draw_bars(fifths, bars | {"as many, the last ones": of_last.fillna(0).tolist()}, ax, title=finding,
                  ylabel="share of the kept signals", fmt="{:.0%}")  # fmt: skip
figures.save_figure(fig, folder, "positions")
fig

# %% [markdown]
# The first two bars of each group are means over our models. All of them are near 20 %, which is the share of a fifth
# if the place does not matter. The third bar shows what a model would keep that takes as many signals of the same
# texts, but always the last ones. So we see no preference for the end where the other words are removed. Where they are
# replaced by zeros, most models make no choice at all. In about three quarters of the texts they keep every signal, and
# in the others none, and yet nearly all of their answers are right. So no signal at all stands for a class, which is a
# code, and it tells us nothing about places. But we gave the models four places to choose from. If the signal has a
# single random place, there is no choice, and a model that remembers only late signals would fail on early ones. So we
# also train with one signal per text. Again we divide the texts into fifths, and ask how often the model is right if
# the signal stands in the first fifth, in the second, and so on.

# %%
single_place = {}
for mode in modes:
    model, _ = toy.train(length=20, copies=1, pool="last", predictor=mode)
    tests = toy.new_texts(4000, part=6, length=20)
    with torch.no_grad():
        right = model.head.score(model(tests.tokens, tests.mask).prediction, tests.target)
    fifth = is_signal(tests).double().argmax(1) // 4
    single_place[mode] = [right[fifth == i].mean().item() for i in range(5)]

# %% tags=["check"]
for mode, by_fifth in single_place.items():
    print(f"unselected words {OF_MODE[mode]:18}" + "".join(f"  {value:.0%}" for value in by_fifth))
    assert not settles or mode == "zero" or min(by_fifth) > 0.9, "without gaps the place does not matter"
    assert not settles or max(by_fifth) - min(by_fifth) < 0.15, "no fifth of the text is much better than another"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 4.8))
worst = {mode: min(by_fifth) for mode, by_fifth in single_place.items()}
finding = f"In the worst fifth, {worst['zero']:.0%} are right (zeros) and {worst['compact']:.0%} (words removed)"
bars = {f"unselected words {how}": single_place[mode] for mode, how in OF_MODE.items()}
figures.draw_bars(fifths, bars, ax, title=finding, ylabel="accuracy", fmt="{:.2f}")
ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
figures.save_figure(fig, folder, "single_place")
fig

# %%
at_last = {"pool": "last", "predictor": "zero"}
two_models = {"untrained": toy.set_up(**at_last)[0].eval(), "trained": toy.train(**at_last)[0]}

# %% [markdown]
# **The answer.** We see no preference for the end in the models that make a choice. With zeros in the gaps, the model
# with one signal has not learned the whole task. But it fails equally often in every fifth of the text, so the place is
# not the reason. The fear is reasonable for an LSTM that is not trained, and in Exercise 2 you see why. But the LSTM is
# trained together with the selector. So it learns to remember what it will need later. If we remove unselected words,
# the question does not even arise, because then the last state comes right after the evidence. Lei's encoder skips
# unselected words in this way.
#
# **Exercise 2** (predict, change, explain; 12 minutes). An LSTM also takes a step at a zero vector. Let the LSTM read
# one of the four signals and then a number of zero vectors. The function `distance_after_zeros` gives the mean distance
# between the four last states that you get in this way. *Predict* by which factor the content of a cell is multiplied
# at each zero vector if every forget gate stands at one half (`factor`). *Change* the number of zeros from 0 to 20 and
# give the distances, each divided by the first one, for both models in `two_models` (`fading`, a dict from "untrained"
# and "trained" to 21 numbers each). *Explain* how the trained LSTM differs, and what this means for the question of
# section 5.

# %% tags=["prediction"]
factor = 0.5

# %% tags=["solution"]
fading = {name: [distance_after_zeros(model, zeros) / distance_after_zeros(model, 0) for zeros in range(21)]
          for name, model in two_models.items()}  # fmt: skip
print("share of the distance left after 0, 1, 2, 3, 5, 10 and 20 zero vectors")
for name, shares in fading.items():
    print(f"{name:10}" + "".join(f"{shares[zeros]:10.1e}" for zeros in (0, 1, 2, 3, 5, 10, 20)))
# In the untrained LSTM the first zero vector takes away about half of the distance, and each further one less. The
# distance of states is not the content of a cell, and not every forget gate is at one half. Still, a signal fades
# within a few words, and only signals near the end would reach the last state. Training opens the forget gates, so the
# state keeps what it has read, and the selector has no reason to prefer the end.

# %% tags=["check"]
blank = torch.nn.LSTMCell(1, 1)
for weight in blank.parameters():
    torch.nn.init.zeros_(weight)  # then all of its gates stand at one half
with torch.no_grad():
    _, content = blank(torch.zeros(1, 1), (torch.zeros(1, 1), torch.ones(1, 1)))
assert abs(factor - content.item()) < 1e-6, f"`factor` is too {'low' if factor < content.item() else 'high'}"
assert set(fading) == {"untrained", "trained"}, "`fading` has an entry for each model"
for name, shares in fading.items():
    again = [distance_after_zeros(two_models[name], zeros) for zeros in range(21)]
    assert len(shares) == 21, f"{name}: give a share for each number of zeros from 0 to 20"
    off = torch.tensor([abs(share - distance / again[0]) for share, distance in zip(shares, again, strict=True)]).max()
    assert off < 1e-4, f"{name}: a share is off by {off:.2g}"
assert fading["untrained"][20] < 0.05, "an untrained LSTM forgets"
assert fading["trained"][20] > 0.5 or not settles, "a trained one has learned to keep the signal"

# %% [markdown]
# ## 6. Is a rationale just attention?
#
# **The question.** *The rationale extraction can be understood as attention, even if architectures and objectives
# differ. The discussion in the paper is not so convincing for me.* What is the difference? Attention reads
# *everything* and weighs it afterwards, and the state of a word depends on the other words, too. We can measure
# whether the difference matters. How far does a prediction depend on the words that an explanation shows (DeYoung et
# al. 2020)? Let $y'$ be the class that the model predicts from the whole text $x$, let $r$ be the shown words, and
# let $x \setminus r$ be the text without them:
#
# $$\text{sufficiency} = p(y' \mid x) - p(y' \mid r), \tag{R13}$$
# $$\text{comprehensiveness} = p(y' \mid x) - p(y' \mid x \setminus r). \tag{R14}$$
#
# If an explanation is faithful, the words that it shows are enough, and the others are not. If the shown words are
# enough, you get a *low* sufficiency, although the name suggests the opposite. If the other words are not enough, you
# get a high comprehensiveness.
#
# **The experiment.** We train an attention model and a Bernoulli model on the same toy, and let each show one word of
# ten. In the table, *right from it* is the accuracy if a model reads only the shown word, and *right from all* if it
# reads the whole text.

# %%
attention, _ = toy.train(model="attention", rule="top_k", budget=0.1, baseline="none", samples=1)
bernoulli, _ = toy.train(**held)
bernoulli.rule, bernoulli.budget = "top_k", 0.1
texts = toy.new_texts(2000, part=7)
faithful, shown_in = {}, {}
for name, model in {"attention": attention, "bernoulli": bernoulli}.items():
    with torch.no_grad():
        z = model(texts.tokens, texts.mask).z
        whole = explain.class_probabilities(model, texts, texts.mask.float())
        sufficiency, comprehensiveness = explain.sufficiency_and_comprehensiveness(model, texts, z, whole)
        from_it = explain.class_probabilities(model, texts, z).argmax(1)
    shown_in[name] = ((z != 0) & is_signal(texts)).any(1).float()
    faithful[name] = {"sufficiency": sufficiency.mean().item(), "comprehensiveness": comprehensiveness.mean().item(),
                      "signal shown": shown_in[name].mean().item(),
                      "right from it": (from_it == texts.target).float().mean().item(),
                      "right from all": (whole.argmax(1) == texts.target).float().mean().item()}  # fmt: skip
figures.show_table(pd.DataFrame(faithful).T, digits=2, index="model")

# %% tags=["check"]
for name, hits in shown_in.items():
    by_class = [f"{hits[texts.target == label].mean():.0%}" for label in range(4)]
    print(f"{figures.in_words(name)}, top 10 %: signal shown, class by class: {', '.join(by_class)}")
if settles:
    for name, row in faithful.items():
        assert row["comprehensiveness"] > row["sufficiency"], f"{name}: the shown word matters more than the rest"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(11, 5))
shares = ", ".join(f"{figures.in_words(name)} {row['signal shown']:.0%}" for name, row in faithful.items())
finding = f"The word that decides is shown: {shares}"
bars = {f"{figures.in_words(name)}, top 10 %": [round(value, 2) + 0.0 for value in row.values()]
        for name, row in faithful.items()}  # fmt: skip
figures.draw_bars(list(faithful["attention"]), bars, ax, title=finding, ylabel="probability, share of texts",
                  fmt="{:.2f}")  # fmt: skip
ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
figures.save_figure(fig, folder, "attention")
fig

# %% [markdown]
# **The answer.** A rationale and attention are different things, and the numbers do not always favour the rationale.
# You see that on this easy toy the largest attention weight finds the signal, too. The extractor has a weakness of its
# own. Look at the classes, one by one. If you find a class whose signal is hardly ever shown, it is the one for which
# the model had learned to select nothing. Here it has to show one word of each text, so for this class it shows a
# filler. An extractor that pays for words, or may select only a few, can learn that an empty rationale *means* one of
# the four classes. Attention pays nothing for a word, so it has no reason to do this. A rationale that is empty on
# purpose is faithful to the model, but it tells you nothing. In exchange, the extractor gives you a guarantee. The
# predictor cannot have read any word that the extractor does not show you. In `31_selection_rates` we measure
# sufficiency and comprehensiveness on SST.
#
# ## 7. What leaks beside the rationale?
#
# **The question.** Is the guarantee of section 6 true? If we replace words by zero vectors, their content is gone. Can
# we still learn anything about them? An LSTM takes a step at each zero vector, too, so its state may depend on how
# many of them there were.
#
# **The experiment.** We measure this with a *probe*. We take texts in which *nothing* is selected, of 5 to 40 words,
# and predict the length $n$ of a text from the state of the predictor, by linear regression. We judge the probe on
# other texts. If $n_i$ is the length of text $i$, $n_i'$ its prediction and $\bar n$ the mean length, then $R^2$ is 1
# for a perfect probe and 0 for one that always predicts the mean:
#
# $$R^2 = 1 - \frac{\sum_i (n_i - n_i')^2}{\sum_i (n_i - \bar n)^2}. \tag{R15}$$

# %%
leaks = {}
lengths = torch.randint(5, 41, (600,))
unread = torch.arange(40) < lengths.unsqueeze(1)  # [600, 40]
for mode in modes:
    model, _ = toy.train(predictor=mode)
    with torch.no_grad():
        read = model.predictor.read(torch.zeros(600, 40, p.embedding_size), unread, torch.zeros(600, 40))
        states = model.predictor.pool(*read).double()
    parts = (states[:300], lengths[:300].double()), (states[300:], lengths[300:].double())
    leaks[mode] = explain.length_leak(*parts)

# %% tags=["check"]
print(f"R² of the length of an unread text: {leaks['zero']:.2f} (zero), {max(0.0, leaks['compact']):.2f} (compact)")
assert leaks["compact"] < 0.01, "nothing to read in mode compact"
if settles:
    assert leaks["zero"] > 0.9, "the length can be read off the state of an unread text"

# %% [markdown]
# **The answer.** If unselected words become zero vectors, you can read off nearly everything about the length of the
# text from a state that has seen no word at all. If we remove them, you can read off nothing. The length can tell
# much about the label. For example, short reviews may be angry ones. So a model may predict from something that its
# rationale does not show you. If that matters for your data, use `predictor: compact`.
#
# ## 8. Is the evaluation ambiguous?
#
# **The question.** *What counts as a rationale may be ambiguous in some contexts, and selecting rationales may
# therefore be challenging to evaluate.* The gold rationales of a corpus mark everything that supports the label. A
# model needs only as much of this as is enough for its prediction. Do we punish it for that?
#
# **The experiment.** The signal stands in four places of twenty. Any one of them is enough, and the gold rationale
# marks all four. We train a model that may select freely at a price, and measure its precision and recall. We compare
# it with three selections that show as much of the text, but are made without reading it. These are random words, one
# random span, and the first words.

# %%
texts = toy.new_texts(2000, part=8, length=20, copies=4)
gold = is_signal(texts)
model, _ = toy.train(length=20, copies=4, predictor="compact", sparsity=0.1)
with torch.no_grad():
    chosen = {"model": model(texts.tokens, texts.mask).z != 0}
share = chosen["model"].float().mean().item()
size, first = max(1, round(20 * share)), torch.randint(0, 20, (2000, 1))
chosen["random words"] = torch.rand(2000, 20) < share
chosen["random span"] = (torch.arange(20) - first) % 20 < size
chosen["first words"] = (torch.arange(20) < size).expand(2000, -1)
measured = {name: rationale_scores(list(picked), list(gold)) for name, picked in chosen.items()}

# %% tags=["check"]
for name, row in measured.items():
    print(f"{name:13} precision {row['precision']:.0%}  recall {row['recall']:.0%}  F1 {row['f1']:.0%}")
    if name != "model":
        assert abs(row["precision"] - 0.2) < 0.03, "a selection that has not read the text: four words of twenty"
if settles:
    assert measured["model"]["precision"] > 0.9 and measured["model"]["recall"] < 0.75, "one of four left out"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 5))
ours = measured["model"]
finding = f"Any one signal decides: precision {ours['precision']:.0%}, recall {ours['recall']:.0%}"
bars = {word: [row[word.lower()] for row in measured.values()] for word in ("precision", "recall", "F1")}
figures.draw_bars(list(measured), bars, ax, title=finding, ylabel="score, from 0 to 1", fmt="{:.2f}")
ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
figures.save_figure(fig, folder, "ambiguity")
fig

# %% [markdown]
# **The answer.** It depends on the measure that you take. Precision does not punish a model that stops when it has
# enough, because all selected words are right. Recall punishes it, because it asks for all the evidence that there
# is. F1 punishes it in part. You see that the three selections that have not read the text have the precision of
# chance, which is the share of gold words. So report precision beside the share of selected words and beside chance,
# and read recall as "how complete", not as "how right". Lei et al. report precision and the share of selected words.
#
# ## Summary
#
# You choose a rule for test time, a norm, a way to pool, and what the predictor sees in place of unselected words. Each
# of these choices changes what a rationale shows, and you can measure each effect in a minute. A Bernoulli gate can be
# trained through biased draws or replaced by a gate with true derivatives, and a signed multiplier holds it at a
# target. A rationale tells you for certain what was not read. But it gives you no guarantee that it is informative,
# complete or free of leaks.
#
# ## Next
#
# In `11_train_reviews` you train such models on longer texts. In `12_train_sst`, with `params/sst/bernoulli.yaml`, you
# train the model on SST, and in `31_selection_rates` we put it beside HardKuma.
