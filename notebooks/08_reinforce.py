# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Estimate gradients through binary choices
#
# **You will** train gates that are either 0 or 1 with REINFORCE, as Lei, Barzilay and Jaakkola did in 2016, and
# measure what makes the estimate less noisy.
#
# **You will learn**
# - how you check an estimator against the exact gradient, alone and through a whole network;
# - what you may subtract from the cost to get less noise, and how to compare two estimators fairly;
# - which part of the gradient needs no draws, and how that can do harm;
# - how we train gates that depend on earlier gates.
#
# **You need** `01_choosing`. You need no data and no GPU. The notebook runs in about three minutes, and you will need
# about an hour to read it and to do the two exercises.

# %% tags=["parameters"]
seed: int = 0  # of toy texts, first weights and draws
num_samples: int = 20000  # draws behind each measured variance
num_steps: int = 400  # training steps of each toy run
batch_size: int = 32  # toy texts in a training step
embedding_size: int = 16  # numbers in the vector of a toy word
hidden_size: int = 16  # LSTM units per direction
learning_rate: float = 0.01  # of Adam
sparsity: float = 0.03  # price of a selected word, in nats

# %%
import math

import pandas as pd
import torch

from rationale import figures
from rationale.data import Batch
from rationale.distributions import Bernoulli
from rationale.models import select_in_order
from rationale.objectives import build_objective, count_selected, leave_one_out, score_function
from rationale.objectives.enumeration import score_gradients
from rationale.runs import results_folder, validated
from rationale.training.signal_words import (
    SignalWords,
    first_below,
    hesitating_text,
    is_signal,
    log_chances,
    running_mean,
    task_losses,
    with_price,
)

# %%
p = validated(globals())
folder = results_folder("08_reinforce") / "figures"
toy = SignalWords(p)
settles = p.num_steps >= 400 and p.num_samples >= 20000  # else the toys are too short for the claims on training
rounding = 1e-12

# %% [markdown]
# ## 1. A price on every word
#
# In `01_choosing` we chose among the words of one text of three words, and we had written down the predictor. Now we
# train a whole model. One network computes the gates from the text, and a second one reads the selected words. To
# know what it *should* select, we make up the texts. There are four classes, and each has one *signal word*, which
# stands at a random position. All other words of a text are fillers, drawn from 40 kinds. If you find the signal, you
# know the class. Every other word costs without helping. The texts have ten words, so they have 1,024 selections, and
# we can compare each estimate with the exact sum.
#
# A gate is open or shut, $z_t \in \{0, 1\}$. We call such a gate a *Bernoulli* gate. We compute its log-odds, or
# logit, $o_t$ from the text. Both logarithms that we need have a form that never underflows:
#
# $$\ln P(z_t = 1) = -\ln(1 + e^{-o_t}), \qquad \ln P(z_t = 0) = -\ln(1 + e^{o_t}). \tag{R1}$$
#
# Lei et al. put a price on each selected word and on each switch between selected and unselected words. The second
# price favours phrases. Lei et al. minimise the expected cost. We write $x$ for the text, $y$ for its class, $\ell$ for
# the predictor's loss on the selected words, and $E_{z \sim p(z \mid x)}$ for the average over draws of $z$.
# The prices are $\lambda_1$ per selected word and $\lambda_2$ per switch, and in the experiments of this page
# $\lambda_2$ is 0:
#
# $$\mathcal L = E_{z \sim p(z \mid x)}\big[c(z)\big], \qquad c(z) = \ell(x, z, y) + \lambda_1 \sum_t z_t +
# \lambda_2 \sum_t |z_{t+1} - z_t|. \tag{R2}$$
#
# We need a model that has learned something but not everything, and a text on which it still hesitates. So we train
# for a few steps only. Then we draw texts until we find one with two properties. The cheapest of its 1,024 selections
# is the signal alone, and at least three of its gates are undecided, which means that their probability is between 0.1
# and 0.9. On such a text you know what a gradient should do. It should open the gate of the signal and, on the whole,
# shut the others.

# %%
half_trained, _ = toy.train(num_steps=min(40, p.num_steps))
torch.manual_seed(p.seed + 3)
text = hesitating_text(half_trained, p.sparsity, (toy.texts(1) for _ in range(200)))
task = task_losses(half_trained, text)  # logits [10], and the loss of each selection [1024]
table = with_price(task, p.sparsity)
signal_at = is_signal(text)[0].nonzero().item()

# %% tags=["check"]
chances, selections = table.chances, table.selections
assert abs(chances.sum() - 1) < rounding, "the 1,024 selections are all there are"
assert abs(chances @ count_selected(selections) - table.logits.sigmoid().sum()) < rounding, "E[sum z] = sum p"
assert torch.allclose(Bernoulli(logits=table.logits).log_prob(selections).sum(1), chances.log(), atol=1e-9), "eq. (R1)"
undecided = ((table.logits.sigmoid() - 0.5).abs() < 0.4).sum()
print(f"expected cost {table.expected_cost:.3f}, cheapest {table.cost.min():.3f}, everything {table.cost[-1]:.3f} nats")
print("P(z = 1):", "  ".join(f"{chance:.2f}" for chance in table.logits.sigmoid().tolist()))
if settles:
    assert table.cheapest == [signal_at] and undecided >= 3, "a text on which the right answer is known and still open"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
places = ", ".join(map(str, table.cheapest)) or "none"
finding = f"Half trained, the cheapest selection keeps position {places}; the signal stands at {signal_at}"
by_size = [table.cost[count_selected(selections) == k] for k in range(11)]
lines = {"cheapest": [c.min() for c in by_size], "mean": [c.mean() for c in by_size],
         "most expensive": [c.max() for c in by_size]}  # fmt: skip
figures.draw_lines(range(11), lines, ax, title=finding, xlabel="selected words", ylabel="cost (nats)", markers=True)
figures.save_figure(fig, folder, "all_selections")
fig

# %% [markdown]
# The distance between the lines shows how much it matters *which* words are selected. With the signal word, the
# half-trained predictor already does much better than with any other word in its place. Any further words only add to
# the cost. The lines meet at both ends, because there is one way to select nothing and one way to select everything.
#
# ### Gates that depend on earlier gates
#
# So far, we have tossed each gate on its own. Lei et al. also have a *dependent* (recurrent) model, in which a gate
# takes into account what was selected before it. The earlier gates enter through the state $s$ of a small recurrent
# network (their recurrent convolution, RCNN, in `rationale/nn/rcnn.py`). Below, $z_{<t}$ are the gates before word $t$,
# $h_t$ is the encoder's state at word $t$, $[h_t; s_{t-1}]$ joins two vectors into one, and $w$ is a vector of weights:
#
# $$p(z \mid x) = \prod_t p(z_t \mid x, z_{<t}), \qquad o_t = w \cdot [h_t; s_{t-1}], \quad s_t = \mathrm{RCNN}([h_t;
# z_t], s_{t-1}). \tag{R3}$$
#
# We now draw from left to right. We compute the first gate, draw it, update the state, and so on. The package has this
# loop as it stands here, and a faster form of it, which computes beforehand what does not depend on a draw. To know
# the probability of a *given* selection, we run the same loop and put in the given values where a draw would be. This
# gives us a check. Over all selections of a text, the products (R3) have to sum to 1.

# %%
dependent, _ = toy.train(num_steps=min(60, p.num_steps), dependent=True)
figures.show_source(select_in_order)

# %% tags=["check"]
total = log_chances(dependent, text).double().exp().sum()
assert abs(total - 1) < 1e-5, "the product (R3) sums to one over all selections, in float32"

# %% [markdown]
# ## 2. The score function
#
# In `01_choosing`, equation (C5), you saw the trick that turns the gradient of an expectation into an expectation
# again. Nothing in it was special to three words or to independent gates. (The gradient of a log-probability is called
# the *score* in statistics, so the estimate is also called the *score function* estimate. This has nothing to do with
# the score of a word.) The cost of a given selection does not depend on the parameters $\phi$ of the selector, and its
# probability does. So with $K$ draws $z^{(1)}, \dots, z^{(K)}$ per text we get:
#
# $$\nabla_\phi \mathcal L = E_z\big[c(z)\, \nabla_\phi \ln p(z \mid x)\big] \approx \frac1K \sum_{k=1}^K
# c(z^{(k)})\, \nabla_\phi \ln p(z^{(k)} \mid x). \tag{R4}$$
#
# For the predictor we need no such estimate. Its gradient comes by backpropagation through $\ell$, as usual.
#
# Lei et al. sample and treat the cost as a constant with respect to the generator, as they call the selector. You may
# suspect that this is an approximation. It is not. (R4) *is* the gradient of the expectation, and the price is part of
# the cost. For dependent gates, $\ln p(z \mid x)$ is a sum of logarithms of (R3). For independent ones, the derivative
# by $o_t$ is $z_t - p_t$, and for an estimate we need nothing but costs and draws. We take many draws of our text and
# look up their costs in the table.

# %%
exact = table.gradient  # [10]: the sum over 1,024 selections
draws = table.draw(p.num_samples)  # [1, N, 10]
single = score_gradients(table.logits, draws, table.cost_of(draws))  # [N, 10], one draw per estimate
noisy = table.noise()  # [10]: standard deviation of the estimate of one draw, exact
times = noisy.norm() / exact.norm()

# %% tags=["check"]
knobs = table.logits.clone().requires_grad_()
expected = (Bernoulli(logits=knobs).log_prob(selections).sum(1).exp() * table.cost).sum()
assert torch.allclose(exact, torch.autograd.grad(expected, knobs)[0], atol=rounding), "(R4), exact: all selections"
error = single.std(0) / math.sqrt(p.num_samples)
assert ((single.mean(0) - exact).abs() < 4 * error).all(), "unbiased: within four standard errors at every gate"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 4.8))
finding = f"One draw: the noise is {times:.0f} times the gradient"
labels = [f"{t}" + ("\nsignal" if t == signal_at else "") for t in range(10)]
figures.draw_bars(labels, {"exact": exact}, ax, title=finding, ylabel="gradient by the logit (nats)", fmt="",
                  errors={"exact": noisy})  # fmt: skip
ax.set_xlabel("position of the word")
figures.save_figure(fig, folder, "one_draw")
fig

# %%
print(f"is it biased? no: {p.num_samples:,} draws meet the exact sum within 4 standard errors, "
      f"but the noise of one draw is {times:.0f} times the gradient")

# %% [markdown]
# The mean of the draws agrees with the exact gradient. You can hardly see this gradient in the figure, because the
# whiskers are so much longer. They show the noise of a single draw, and a training step with one draw has this noise.
#
# Does the same hold in a real training step, where the estimate goes through the network and through the package's
# loss? The whole estimator is the one function below, with the baselines of the next section. To test it, we make a
# batch that holds our text many times, and look at the gradient that reaches the weights of the gate. We compare it
# with the exact gradient, which the chain rule gives us.

# %%
figures.show_source(score_function)

# %% tags=["check"]
num_copies = max(2, p.num_samples // 5)
batch = Batch(*(part.expand(num_copies, *part.shape[1:]) for part in text[:4]))
with torch.no_grad():
    states = half_trained.selector.encoder(half_trained.embed(text.tokens), text.mask)[0][0].double()  # [10, S]
by_weight = exact @ states  # [S]: the chain rule from the logits to the gate's weights
for baseline, k in (("none", 1), ("self_critical", 1), ("leave_one_out", 4)):
    objective = build_objective(toy.settings(baseline=baseline, samples=k, penalty="sampled")).train()
    half_trained.train()
    half_trained.zero_grad()
    objective(half_trained, batch).loss.backward()
    reached = half_trained.selector.gate.logits.weight.grad[0].double()
    off = ((reached - by_weight).norm() / by_weight.norm()).item()
    print(f"{baseline:14} the gradient of {num_copies} copies is off by {off:.0%} of its length")
    if baseline == "none":
        noise_left = (single @ states).std(0).norm() / by_weight.norm() / math.sqrt(num_copies)
        print(f"{'':14} (the noise of {num_copies} draws is {noise_left:.0%} of it, so this is no sign of a bias)")
    if settles and baseline != "none":
        assert off < 0.2, f"{baseline}: through network and objective, the mean is the exact gradient"
_ = half_trained.eval()

# %% [markdown]
# **Exercise 1** (predict, change, explain; 8 minutes). *Predict*: if 10 is added to every cost, does the exact
# gradient change (`mean_moves`, True or False)? Does the noise change (`noise_moves`)? *Change* the costs of `draws`
# in this way and compute `lifted`, the estimates of single draws, [N, 10] as in `single`. *Explain* with
# $E[\nabla \ln p] = 0$, which is what (C5) of `01_choosing` says if every cost is 1.

# %% tags=["prediction"]
mean_moves, noise_moves = False, True

# %% tags=["solution"]
lifted = score_gradients(table.logits, draws, table.cost_of(draws) + 10)
print(f"noise {single.std(0).norm():.2f} -> {lifted.std(0).norm():.2f}")
# The constant drops out of the mean because the scores average to zero, but it multiplies every single score. What
# can be added without harm can be subtracted with profit, as section 3 does.

# %% tags=["check"]
lifted_exact = (table.chances * (table.cost + 10)) @ table.scores
lifted_noise = table.noise(baseline=-10).norm()
ten = score_gradients(table.logits, draws, torch.full_like(table.cost_of(draws), 10.0))  # of a cost that is always 10
assert lifted.shape == single.shape, "`lifted` has one row for each row of `single`"
assert torch.allclose(lifted - single, ten, atol=1e-6), "`lifted` is not what the costs plus 10 give for each draw"
size = "too low" if lifted.std(0).norm() < lifted_noise else "too high"
assert abs(lifted.std(0).norm() / lifted_noise - 1) < 0.15, f"the noise of `lifted` is {size}"
assert mean_moves == (not torch.allclose(lifted_exact, exact, atol=1e-9)), "`mean_moves`: sum over all selections"
assert noise_moves == bool(lifted_noise > 1.2 * single.std(0).norm()), "`noise_moves` is not what you found"

# %% [markdown]
# ## 3. What to subtract, and how many draws
#
# Exercise 1 suggests a remedy. If a constant may be added to the cost, it may be subtracted. You may take any number
# $b$ that does not depend on the draw itself. The mean stays as it is, because the probabilities sum to 1 whatever the
# parameters are:
#
# $$E_z\big[(c(z) - b)\, \nabla \ln p(z)\big] = \nabla \mathcal L - b\, \nabla \sum_z p(z) = \nabla \mathcal
# L. \tag{R5}$$
#
# We call such a number a *baseline*. A draw is then good if its cost is below the baseline, and bad if its cost is
# above. Without a baseline, every draw with a positive cost is bad. Lei et al. and Bastings et al. subtract nothing in
# their code. The package offers three baselines. *Average* is a moving average of earlier costs. *Self-critical* is the
# cost of the test-time selection, in which each gate takes its likelier value. *Leave-one-out* needs $K \ge 2$ draws,
# and is the mean cost of the other draws of the same text:
#
# $$b_k = \frac{1}{K - 1} \sum_{j \ne k} c(z^{(j)}). \tag{R6}$$
#
# Lei et al. do not say how many draws they take. Their code takes one. Since we have the table of all costs, we can
# compute each variance below in milliseconds. It is the variance of the mean of $K$ estimates, one per draw, summed
# over the ten gates. (*Exact mean* is the expected cost of this text, which a moving average of other texts' costs can
# only approach.)

# %%
def gradients_of(way, k):
    draws = table.draw(p.num_samples // k, k)
    costs = table.cost_of(draws)
    greedy = table.cost_of((table.logits.sigmoid() >= 0.5).double())
    subtracted = {"none": 0.0, "exact mean": table.expected_cost, "self-critical": greedy}
    baseline = leave_one_out(costs) if way == "leave-one-out" else subtracted[way]
    return score_gradients(table.logits, draws, costs, baseline)


ks = (1, 2, 4, 8, 16)
noise = {way: [math.nan if way == "leave-one-out" and k == 1 else gradients_of(way, k).var(0).sum().item() for k in ks]
         for way in ("none", "exact mean", "self-critical", "leave-one-out")}  # fmt: skip
figures.show_table(pd.DataFrame({"draws K": ks} | noise), digits=4)

# %% tags=["check"]
for way in ("none", "exact mean", "self-critical"):
    assert 0.7 < noise[way][-1] * 16 / noise[way][0] < 1.4, f"{way}: the variance falls as 1 / K"
assert noise["leave-one-out"][1] < noise["none"][1], "two draws, each the other's baseline, beat two draws without"
gain, loo_gain = noise["none"][0] / noise["exact mean"][0], noise["none"][1] / noise["leave-one-out"][1]
print(f"one draw with the mean subtracted is worth {gain:.0f} draws without")

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 5))
finding = f"Variance at K = 2: leave-one-out {loo_gain:.0f} times smaller than without a baseline"
lines = {way: values[1:] for way, values in noise.items()}
figures.draw_lines(ks[1:], lines, ax, title=finding, xlabel="draws per text K", ylabel="variance, all gates",
                   xscale="log", yscale="log", markers=True)  # fmt: skip
ax.minorticks_off()
ax.set_xticks(ks[1:], [f"{k}" for k in ks[1:]])
figures.save_figure(fig, folder, "variance")
fig

# %% [markdown]
# With a fixed baseline, or without one, you see the variance fall as $1/K$. With leave-one-out the variance falls
# faster at first. This baseline is a mean of $K - 1$ costs, and the more draws there are, the nearer it is to the
# expected cost. A fixed baseline only moves the line down or up. Subtracting a suitable number is worth as much as many
# draws. It costs nothing, or one more prediction for the self-critical baseline.
#
# ### Does less noise train better?
#
# We do not want less noise for its own sake. We want models that learn in fewer steps, or that select better words.
# To find out, compare estimators that take the *same number of draws*, because each further draw takes time, too. If
# you compared one draw without a baseline and two draws with leave-one-out, you could not tell whether the baseline
# or the second draw had helped. We train with five seeds for each estimator, with the same model, price and number of
# steps. We note after how many steps the task loss is below 0.2 nats, and which words the model selects at the end.

# %%
compared = {1: ("none", "average", "self_critical"), **dict.fromkeys((2, 4, 16), ("none", "leave_one_out"))}
curves, outcomes = {}, []
for k, way, start in ((k, way, start) for k, ways in compared.items() for way in ways for start in range(1, 6)):
    model, trace = toy.train(baseline=way, samples=k, start=start)
    curves.setdefault((k, way), []).append(running_mean(trace["task"]))
    reached_at = first_below(curves[k, way][-1], 0.2)  # inf: never
    outcomes.append({"K": k, "baseline": way.replace("_", "-"), "steps": reached_at, "reached": reached_at < math.inf}
                    | toy.evaluate(model))  # fmt: skip
trained = pd.DataFrame(outcomes).drop(columns=["kept", "signals", "rate"]).groupby(["K", "baseline"])
steps = trained["steps"].agg(["median", "min", "max"])
by_way = steps.join(trained[["reached"]].sum()).join(trained[["accuracy", "words", "precision"]].mean().round(2))
counted_steps = {name: [f"{n:.0f}" if n < math.inf else "never" for n in by_way[name]] for name in steps}
shown = by_way.assign(**counted_steps).reset_index().rename(columns={
    "K": "draws K", "median": "steps, median", "min": "fewest", "max": "most", "reached": "of 5 seeds reach 0.2"})
figures.show_table(shown, digits=2)

# %% tags=["check"]
if settles:
    for k in (2, 4, 16):
        without, with_it = by_way.loc[k, "none"], by_way.loc[k, "leave-one-out"]
        assert without["min"] <= with_it["max"] and with_it["min"] <= without["max"], f"K = {k}: the ranges overlap"
        assert with_it["words"] < without["words"], f"K = {k}: leave-one-out keeps fewer words"
    falling = [by_way.loc[(k, "none"), "median"] for k in compared]
    assert falling == sorted(falling, reverse=True), "more draws, fewer steps, as far as the medians go"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 5.2))
of_four = {way: torch.stack(curves[4, key]) for way, key in (("none", "none"), ("leave-one-out", "leave_one_out"))}
medians = " and ".join(f"{steps.loc[(4, way), 'median']:.0f} ({way})" for way in of_four)
finding = f"Four draws each, five seeds: a task loss of 0.2 after {medians} steps, medians"
figures.draw_lines(range(p.num_steps), {way: runs.median(0).values for way, runs in of_four.items()}, ax, title=finding,
                   bands={way: (runs.min(0).values, runs.max(0).values) for way, runs in of_four.items()},
                   xlabel="training step", ylabel="task loss (nats), median and range")  # fmt: skip
figures.save_figure(fig, folder, "estimators")
fig

# %% [markdown]
# Compare the rows of each $K$. On this toy the ranges of their five seeds overlap for every $K$. So we do *not*
# see that leave-one-out trains faster at the same number of draws, although its variance on the text above is much
# smaller. You see the medians without a baseline fall as $K$ grows, but neighbouring ranges overlap here, too.
#
# But the selection does change. With leave-one-out, you see that models keep fewer words. The column `words` has the
# number of selected words per text, and it shows about three words for four texts. For one of the four classes the
# model selects nothing, and the predictor answers the empty rationale with this class. That is the cheapest solution,
# because three signals tell four classes apart. Less noise helps to find this solution. But the solution has a risk.
# Some runs shut the gates of a second class, too. They then confuse two classes, and since these gates are hardly ever
# drawn open again, these runs never reach a task loss of 0.2. You can see such a run at the upper edge of the band, and
# in the column that counts the seeds.
#
# **Exercise 2** (predict, change, explain; 10 minutes). The mean of *all* $K$ costs, the draw's own included, is a
# tempting baseline. *Predict* the factor by which this baseline multiplies the mean of the estimator for $K = 2$
# (`predicted_factor`). *Change* the baseline in this way and measure the factor (`measured_factor`). For this, take the
# mean of the estimates. Divide its inner product with `exact` by the inner product of `exact` with itself. *Explain*
# the factor with (R6).

# %% tags=["prediction"]
predicted_factor = 0.5

# %% tags=["solution"]
two_draws = table.draw(p.num_samples, 2)
two_costs = table.cost_of(two_draws)
shrunk = score_gradients(table.logits, two_draws, two_costs, two_costs.mean(0)).mean(0)
measured_factor = (shrunk @ exact) / (exact @ exact)
print(f"the mean gradient is {measured_factor:.2f} of the exact one")
# c_k minus the mean of both costs is half of the difference c_k - b_k of (R6), and in general (K - 1) / K of it. So the
# mean of the estimator is half of the exact gradient. Its direction is right and its length is too small, and for
# K = 1 the estimate is always 0.

# %% tags=["check"]
fresh_draws = table.draw(p.num_samples, 2)
fresh_costs = table.cost_of(fresh_draws)
along = score_gradients(table.logits, fresh_draws, fresh_costs, fresh_costs.mean(0)) @ exact / (exact @ exact)  # [N]
error_of_mean = along.std() / math.sqrt(p.num_samples)
for name, claimed, errors in (("measured", measured_factor, 8), ("predicted", predicted_factor, 5)):
    size = "too low" if claimed < along.mean() else "too high"
    assert abs(claimed - along.mean()) < errors * error_of_mean, f"`{name}_factor` is {size}"

# %% [markdown]
# ## 4. The part that needs no draws
#
# Alexandre Allauzen wrote reading notes on the paper in 2017, and they ask about one more point. Lei et al. treat the
# norm of a drawn $z$, which is our number of selected words, as a constant. But its expectation depends on the
# parameters, so should it not be in the gradient? It is in the gradient, through (R4), but with noise. For
# independent gates we can do better and compute it without noise:
#
# $$E\Big[\sum_t z_t\Big] = \sum_t p_t, \qquad E\Big[\sum_t |z_{t+1} - z_t|\Big] = \sum_t \big[p_t
# (1 - p_{t+1}) + (1 - p_t)\, p_{t+1}\big]. \tag{R7}$$
#
# Here we replace a random number by its mean. The mean stays the same, and no variance remains. (This is the simplest
# case of the Rao-Blackwell theorem.) In the package, you get this with the setting `penalty: expected`. For dependent
# gates, we can replace the draw $z_t$ by $E[z_t \mid z_{<t}] = p_t$. This $p_t$ still depends on the earlier
# draws, so for them we still need the score function.

# %%
counts = p.sparsity * count_selected(draws)  # the price of each draw
counted = score_gradients(table.logits, draws, counts)
closed = p.sparsity * table.logits.sigmoid() * (1 - table.logits.sigmoid())  # d/do of sum p, times the price

# %% tags=["check"]
every = (table.chances * p.sparsity * count_selected(selections)) @ table.scores
assert torch.allclose(every, closed, atol=rounding), "(R7) is the exact gradient"
assert ((counted.mean(0) - closed).abs() < 4 * counted.std(0) / math.sqrt(p.num_samples)).all(), "same mean"
ratio = counted.std(0).norm() / closed.norm()

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(10, 4.8))
finding = f"Counting words on a draw: noise {ratio:.0f} times the gradient; in closed form: none"
pair = {"in closed form": closed, "counted on one draw": counted.mean(0)}
figures.draw_bars(labels, pair, ax, title=finding, ylabel="gradient by the logit (nats)", fmt="",
                  errors={"counted on one draw": counted.std(0)})  # fmt: skip
ax.set_xlabel("position of the word")
figures.save_figure(fig, folder, "price_gradient")
fig

# %%
print(f"is the regulariser's gradient missing? no, but on one draw its noise is {ratio:.0f} times its size")

# %% [markdown]
# The two bars of each word agree, and only the bar of the counted price has whiskers. The notes suspected that
# something is missing from the gradient of Lei et al. Nothing is missing, but this gradient is noisy, and you can avoid
# the noise.
#
# ### A price without noise, and a predictor that has learned nothing yet
#
# The closed form has a danger, however. In the first steps of training, the price is the only part of the gradient
# without noise, and Adam amplifies this consistent signal. The gates may then shut before the predictor has learned
# anything about the words (section 8 of `31_selection_rates` shows a run on SST in which they do). To start with gates
# that are wide open is probably no remedy, since $p (1 - p)$ is then so small that neither the price nor the task moves
# them much. With the parameter `entropy`, here $\beta$, we reward the entropy of a gate,
# $\mathrm H(p) = -p \ln p - (1 - p) \ln(1 - p)$, which is largest at $p = \tfrac12$. Take a word that lowers the
# expected loss by $v$ nats if it is selected. Since $\mathrm d \mathrm H / \mathrm d p = \ln((1 - p) / p) = -o$, the
# chain rule gives
#
# $$\frac{\partial}{\partial o}\big[(\lambda_1 - v)\, p - \beta\, \mathrm H(p)\big] = p\,(1 - p)\,\big(\beta o - (v -
# \lambda_1)\big) = 0 \iff o = \frac{v - \lambda_1}{\beta}. \tag{R8}$$
#
# > So a gate settles at a finite logit, and it moves again if $v$ changes. There $p (1 - p)$ is not small as long as
# > $|v - \lambda_1|$ is at most a few times $\beta$. At this logit, $p \ge 1/2$ exactly if the word is worth its price.
# > The published objective has no such term. (If you know variational inference, you see that it is a KL term with a
# > uniform prior and a small weight.) A HardKuma gate may also have values between 0 and 1. For such gates, `entropy`
# > rewards $\mathrm H(p)$ too, where $p$ is now the probability $P(z \ne 0)$ that the gate is open.

# %%
worth = torch.linspace(-0.1, 0.1, 201, dtype=torch.float64)  # v - price, in nats
settled = {f"β = {beta:g}": (worth / beta).sigmoid() for beta in (0.05, 0.02, 0.005)}

# %% tags=["check"]
for beta in (0.05, 0.02, 0.005):
    knobs = (worth / beta).requires_grad_()
    gates = Bernoulli(logits=knobs)
    (slope,) = torch.autograd.grad((-worth * gates.prob_one - beta * gates.entropy()).sum(), knobs)
    assert slope.abs().max() < rounding, "(R8): the derivative vanishes there"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.8))
finding = "Whatever the reward, a word is selected where it is worth its price"
figures.draw_lines(worth, settled, ax, title=finding, xlabel="worth of the word minus its price (nats)",
                   ylabel="P(z = 1)")  # fmt: skip
figures.save_figure(fig, folder, "entropy")
fig

# %% [markdown]
# Each curve in the figure belongs to one weight $\beta$ of the entropy. On all of them, $P(z = 1)$ is one half where a
# word is worth exactly its price. With a large $\beta$ a gate stays random over a wide range of worths, and with a
# small $\beta$ only near this point.
#
# ## Summary
#
# The score function is right on average and noisy in every single draw. A baseline removes much of this variance
# without moving the mean, as long as it does not depend on the draw itself. Whether a model then trains better is a
# question of its own, and you have to measure it with equal numbers of draws and with several seeds. The expected price
# of independent gates needs no draws at all. A reward for entropy can keep this price from shutting gates too early.
# Gates may depend on earlier gates. Then the probability of a selection is a product, and the estimator stays the same.
#
# ## Next
#
# In `09_questions` we ask eight questions about this model and its paper, and answer each with an experiment on the
# same toy. `12_train_sst` with `params/sst/bernoulli.yaml` trains the model on SST. In `31_selection_rates` we
# compare it, and the authors' recipes, with HardKuma.
