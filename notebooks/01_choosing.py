# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Choose words, and look for the gradient
#
# **You will** put a switch on each word of a three-word text, find out why gradient descent cannot train such a switch,
# and then train it with the help of random draws.
#
# **You will learn**
# - why the choice of a word has no useful derivative, and why weighing words is not the same as choosing them;
# - what becomes differentiable when we leave the choice to chance, and what the exact gradient costs;
# - how a method called REINFORCE estimates this gradient from draws, and how noisy the estimate is;
# - which four properties you would wish a gate to have.
#
# **You need** the idea of gradient descent, and `10_first_rationale` if you want to see the goal first. You need no
# data and no GPU. The notebook runs in seconds, and you will need about an hour for reading and the two exercises.

# %% tags=["parameters"]
seed: int = 0  # of the draws
sparsity: float = 0.05  # price of a selected word (lambda), in nats
num_samples: int = 20000  # draws behind each measured mean
num_steps: int = 300  # steps of gradient descent
learning_rate: float = 1.0  # step size of gradient descent on three logits

# %%
import math

import pandas as pd
import torch
from torch.nn.functional import logsigmoid

from rationale import figures
from rationale.objectives import count_selected
from rationale.objectives.enumeration import CostTable, all_selections, descend, score_gradients
from rationale.runs import results_folder, validated
from rationale.training.toy_gates import SENTENCE

# %%
p = validated(globals())
folder = results_folder("01_choosing") / "figures"
torch.manual_seed(p.seed)
rounding = 1e-12

# %% [markdown]
# ## 1. A choice has no slope
#
# In `10_first_rationale`, a model selected a few words of a review, and another part of it predicted the score from
# these words alone. Nobody told the model which words to select. How can it have learned that? In this notebook we
# look for the gradient that taught it. We take the smallest text on which the question is interesting. It has three
# words.
#
# > not &nbsp; very &nbsp; good
#
# The text is negative. A predictor sees only the words that we select, and it gives the probability of "negative". To
# keep everything in view, we write this predictor down as a small function instead of training it. The word *good*
# speaks for "positive", unless *not* is selected as well. The word *very* makes a selected *good* count a little more.
# Alone, *not* speaks faintly for "negative". If we select no word, the predictor gives the probability one half.
#
# Let $z_t$ be 1 if word $t$ is selected, and 0 otherwise. We call $z_t$ the *gate* of the word. The *cost* of a
# selection is the loss of the predictor (the *task loss*) plus a price $\lambda$ per selected word. The loss is a
# negative logarithm, as in PyTorch's cross entropy. Since the logarithm is the natural one, its unit is called the
# *nat*.
#
# $$c(z) = -\ln p(\text{negative} \mid \text{selected words}) + \lambda \sum_t z_t. \tag{C1}$$
#
# Without the price, it would be best to select everything, and you would have explained nothing.

# %%
words = ["not", "very", "good"]


def task_loss(z):
    """What the predictor loses if it sees the words times z, [..., 3] -> [...]."""
    negation, very, good = z.unbind(-1)  # `not` is a keyword of Python
    return -logsigmoid(0.5 * negation + 2 * good * (1 + very / 4) * (2 * negation - 1))


def phrase(selected):
    """The selected words, as a text."""
    return " ".join(word for word, kept in zip(words, selected, strict=True) if kept) or "(nothing)"


selections = all_selections(3)  # [8, 3]
cost = task_loss(selections) + p.sparsity * count_selected(selections)
names = [phrase(row) for row in selections]
table = pd.DataFrame({"selection": names, "task loss": task_loss(selections), "cost": cost})
figures.show_table(table.sort_values("cost"))

# %% tags=["check"]
cheapest = names[cost.argmin()]
assert task_loss(selections)[-1] == task_loss(selections).min(), "without a price, everything is best"
assert abs(task_loss(selections)[0] - math.log(2)) < rounding, "who sees nothing says one half"
if 0.03 < p.sparsity < 0.3:
    assert cheapest == "not good", "the rationale that we would have chosen ourselves"

# %% [markdown]
# The table has eight rows, because three switches can be set in eight ways. The cost is the task loss plus the price
# of the selected words. At this price the cheapest row is *not good*, which is the rationale that you would have
# chosen yourself. The word *very* would lower the loss further, but by less than its price. So for three words the
# problem is solved, and we have not needed a gradient.
#
# A text of thirty words has a billion rows, and we want to learn from many texts. So we have to choose without
# looking at all the rows. Let a network compute a score $o_t$ for each word, and let us select the words with a
# positive score. We write $\mathbb 1[\dots]$ for 1 if the bracket is true, and for 0 if it is not:
#
# $$z_t = \mathbb 1[o_t > 0], \qquad \frac{\partial z_t}{\partial o_t} = 0 \text{ for } o_t \ne 0. \tag{C2}$$
#
# We would like to move the scores downhill on the cost. The next picture shows what this hill looks like. The word
# *not* is selected, *very* is not, and the score of *good* goes from left to right.

# %%
below = torch.linspace(-4, 0, 81, dtype=torch.float64)
scores = torch.cat([below, 1e-9 - below.flip(0)])  # two scores at the step, so that it is drawn upright
with_good = torch.stack([torch.ones_like(scores), torch.zeros_like(scores), (scores > 0).double()], -1)
staircase = task_loss(with_good) + p.sparsity * count_selected(with_good)
weighed = torch.stack([torch.ones_like(scores), torch.zeros_like(scores), scores.sigmoid()], -1)
weighed_cost = task_loss(weighed) + p.sparsity * (1 + scores.sigmoid())

# %% tags=["check"]
steps_up = staircase.diff()
assert (steps_up != 0).sum() == 1, "one jump, and everything else is flat: the derivative is 0 or does not exist"
assert (weighed_cost.diff() != 0).all() and (weighed[:, 2] > 0).all(), "a slope everywhere, and no word left out"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
lines = {"chosen: z is 0 or 1": staircase, "weighed: z = σ(o)": weighed_cost}
figures.draw_lines(scores, lines, ax, title="A choice is a step without a slope; a weight has a slope",
                   xlabel="score o of the word good", ylabel="cost (nats)")  # fmt: skip
figures.save_figure(fig, folder, "staircase")
fig

# %% [markdown]
# You see that gradient descent cannot move on the step. To the left of 0 the derivative is 0, to the right it is 0,
# and at 0 itself there is none. A score of $-3$ and a score of $-0.1$ get the same derivative, although a small step
# would be enough to make the second one positive. This is the whole problem, and in the rest of the repository we
# look for ways around it.
#
# The dashed line shows a way that suggests itself. Do not choose the word, *weigh* it: multiply its vector by a number
# between 0 and 1, as attention does. Here this number is $\sigma(o)$, the sigmoid of the score. Then there is a slope,
# and you can train. But look at what we have lost. A weight $\sigma(o)$ is never 0, so the predictor reads *every*
# word. The predictor is trained, too, so it can even learn to undo the weights. If a word has a weight of one per cent,
# the predictor only has to multiply it by a hundred. If you then show a person "the words with large weights", you do
# not know whether the prediction depends on these words. We want the other words to be *gone*.
#
# ## 2. Leave the choice to chance
#
# Here is another way to get a slope, and it keeps every word entirely in or entirely out. Toss a coin for each word.
# The score now decides how the coin is loaded: word $t$ is selected with probability
# $p_t = \sigma(o_t) = 1/(1 + e^{-o_t})$, independently of the others. So the score $o_t$ is the *logit* of this
# probability. A single toss is still a choice without a slope. But the cost *on average* is a sum over the eight rows
# of our table, in which we multiply the cost of each row by its probability. The probabilities are smooth functions
# of the scores. We call this average the *expected* cost, $\mathrm E[c]$:
#
# $$\mathrm E[c] = \sum_{z \in \{0, 1\}^n} p(z)\, c(z), \qquad p(z) = \prod_t p_t^{z_t} (1 - p_t)^{1 - z_t}. \tag{C3}$$
#
# Now take one word $t$ and keep the other probabilities as they are. We write $\mathrm E[c \mid z_t = 1]$ for the
# average cost of the selections that have this word, and $\mathrm E[c \mid z_t = 0]$ for that of the others. Then
# $\mathrm E[c] = p_t\, \mathrm E[c \mid z_t = 1] + (1 - p_t)\, \mathrm E[c \mid z_t = 0]$. The coins are independent,
# so the two averages depend only on the other probabilities, and $\mathrm E[c]$ is a straight line in $p_t$. Its slope
# is the difference of the two averages. We want the slope with respect to the score (from here on we say *by the
# score*). By the chain rule, it is the slope in $p_t$ times $\mathrm d p_t / \mathrm d o_t = p_t (1 - p_t)$:
#
# $$\frac{\partial\, \mathrm E[c]}{\partial o_t} = p_t\,(1 - p_t)\, \big(\mathrm E[c \mid z_t = 1] - \mathrm E[c \mid
# z_t = 0]\big). \tag{C4}$$
#
# > Read the bracket aloud: what does the selection cost with this word, and what without it, on average over the
# > other words? To decide about a word you need exactly this difference. The derivative of the step did not contain
# > this difference, because each derivative is taken on one side of the step.
#
# So let us descend. All coins are fair at first, and each step moves the scores against the exact gradient.

# %%
fair = CostTable(torch.zeros(3, dtype=torch.float64), cost)  # logits and costs
path = descend(fair, p.num_steps, p.learning_rate)  # [steps + 1, 3]
opens = path.sigmoid()
expected = torch.stack([fair.moved(logits).expected_cost for logits in path])

# %% tags=["check"]
knobs = fair.logits.clone().requires_grad_()
by_autograd = torch.autograd.grad(fair.moved(knobs).expected_cost, knobs)[0]
assert torch.allclose(fair.gradient, by_autograd, atol=rounding), "the sum over eight rows, differentiated"
for t in range(3):
    chosen = selections[:, t] == 1
    slope = (cost[chosen].mean() - cost[~chosen].mean()) / 4  # all eight rows are equally likely
    assert abs(slope - fair.gradient[t]) < rounding, "eq. (C4)"
if p.num_steps >= 300 and p.learning_rate == 1 and 0.03 < p.sparsity < 0.08:
    assert (opens[-1] > 0.5).tolist() == [True, False, True], "the scores have found `not good`"
    assert opens[:, 2].min() < 0.45, "after a detour of the word good"
    unsure = torch.minimum(opens[-1], 1 - opens[-1])  # the distance of each coin from certainty
    assert unsure[[0, 2]].max() < 0.05 and unsure[1] > 2 * unsure[[0, 2]].max(), "two are nearly certain, `very` is not"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
lines = dict(zip(words, opens.T, strict=True))
figures.draw_lines(range(len(opens)), lines, ax, title=f"The exact gradient ends at “{phrase(opens[-1] > 0.5)}”",
                   xlabel="step of gradient descent", ylabel="probability of being selected")  # fmt: skip
figures.save_figure(fig, folder, "exact_descent")
fig

# %%
print(f"expected cost: {expected[0]:.3f} nats at first, {expected[-1]:.3f} at the end; cheapest row {cost.min():.3f}")

# %% [markdown]
# Follow the word *good* in the picture. At first its probability falls, although it belongs to the best selection.
# While *not* is a coin toss, *good* alone is often shown to the predictor, which then says "positive", and that is
# costly. As soon as *not* is selected most of the time, *good* is worth its price, and its probability rises again.
# The two words are worth something only together. Equation (C4) takes this into account, because it averages over the
# other words.
#
# At the end you see that two of the coins are nearly certain. The third, for *very*, is on its way, but slowly,
# because the cost hardly depends on it. Nothing in our objective mentions certainty. But an average of costs is never
# below the smallest of them. So it is cheaper to be certain than to toss a coin, and the descent makes the coins
# certain.
#
# **Exercise 1** (predict, change, explain; 10 minutes). The word *good* should be selected if and only if *not* is
# likely enough to be selected. *Predict* roughly how likely *not* has to be, with the help of the table in section 1
# (`guess`, a probability). *Change* the logit of *not* from $-5$ to 5, with the other two coins fair, and find the
# probability of *not* at which the gradient by the score of *good* changes its sign (`turning`). In `fair` you find
# the table of section 2, with three fair coins, and `fair.moved(logits).gradient` is the exact gradient at other
# logits. *Explain* with (C4) why `turning` is far above one half.

# %% tags=["prediction"]
guess = 0.8

# %% tags=["solution"]
not_logits = torch.linspace(-5, 5, 2001, dtype=torch.float64)
slopes = torch.stack([fair.moved(torch.stack([o, o * 0, o * 0])).gradient[2] for o in not_logits])
turning = not_logits[(slopes > 0).sum()].sigmoid().item()
print(f"good opens where not is selected with a probability above {turning:.2f}")
# On average over `very`, and with its price, the word good costs about 1.71 nats more than no word if `not` is missing,
# and saves about 0.36 if `not` is there. The loss is nearly five times the gain, so the gain has to come nearly five
# times as often, and five in six is 0.83.

# %% tags=["check"]
share = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
with_it = [cost[(selections[:, 0] == first) & (selections[:, 2] == 1)].mean() for first in (0, 1)]
without = [cost[(selections[:, 0] == first) & (selections[:, 2] == 0)].mean() for first in (0, 1)]
loss, gain = with_it[0] - without[0], without[1] - with_it[1]
pays_above = loss / (loss + gain)
assert abs(turning - pays_above) < 0.01, f"`turning` is too {'low' if turning < pays_above else 'high'}"
assert 0 < guess < 1 and abs(guess - turning) < 0.2, "`guess`: compare the two rows with good and without not"
print(f"good costs {loss:.2f} nats without not, and saves {gain:.2f} with it, so it pays above {pays_above:.3f}")

# %% [markdown]
# ## 3. Why not go on like this?
#
# We have a gradient, it is exact, and it finds the right words. There is one difficulty. The sum (C3) has $2^n$
# terms, and for each of them we have to compute the predictor once. For three words that is nothing.

# %%
lengths = [3, len(SENTENCE), 20, 30, 100]
seconds = {n: 2.0**n / 1e6 for n in lengths}  # if a predictor reads a million selections per second
units = {"years": 3600 * 24 * 365, "minutes": 60, "seconds": 1, "milliseconds": 1e-3, "microseconds": 1e-6}


def in_words(time):
    """A time in seconds, rounded, in the largest unit of which it has at least one."""
    unit = next(unit for unit, size in units.items() if time >= size)
    number = f"{float(f'{time / units[unit]:.2g}'):,.0f}"
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"


numbers = [f"{2**n:,}" if n <= 30 else f"about 10 to the power {len(str(2**n)) - 1}" for n in lengths]
sums = pd.DataFrame({"words": lengths, "selections": numbers,
                     "time, at a million per second": [in_words(time) for time in seconds.values()]})  # fmt: skip
figures.show_table(sums)

# %% [markdown]
# The second row is the real sentence that you have met at the end of `10_first_rationale`. We can still list its
# selections, and in `05_count_words` we do. But most sentences of the Stanford Sentiment Treebank are longer, with
# about twenty words, and a beer review has more than a hundred. So the sum is out of the question, even for a single
# step with a single text.
#
# When a sum is too long, we sample. Toss the coins, look up the cost, and average: the mean over many tosses tends to
# the expected cost (C3). Does this rescue the gradient, too? Let us look at a toss more closely. We draw a number $u$
# between 0 and 1 and select the word if $u < p_t$. For a fixed $u$ this is again the step of section 1. Automatic
# differentiation goes back from the cost to the draw, and there it ends.

# %%
free = torch.zeros(3, dtype=torch.float64, requires_grad=True)
tossed = (torch.rand(p.num_samples, 3, dtype=torch.float64) < free.sigmoid()).double()  # [N, 3]
mean_cost = fair.cost_of(tossed).mean()

# %% tags=["check"]
error = fair.cost_of(tossed).std() / math.sqrt(p.num_samples)
assert abs(mean_cost - fair.expected_cost) < 4.5 * error, "the mean of the tosses is the expected cost ..."
assert not tossed.requires_grad and not mean_cost.requires_grad, "... and it does not know where the tosses came from"
print(f"expected cost {fair.expected_cost:.4f}, mean of {p.num_samples:,} tosses {mean_cost:.4f}, gradient: none")

# %% [markdown]
# ## 4. REINFORCE: let the draws vote
#
# There is an old trick that gets a gradient from draws after all. It needs one line of algebra. In the gradient of
# (C3) only the probabilities depend on the scores, and since $\nabla \ln p = \nabla p / p$, we can write the gradient
# of a probability as the probability times something, $\nabla p = p\, \nabla \ln p$. (We write $\nabla$ for the
# gradient by the scores.) The probability in front turns the sum back into an average, and we can sample an average:
#
# $$\nabla\, \mathrm E[c] = \sum_z c(z)\, \nabla p(z) = \sum_z p(z)\, c(z)\, \nabla \ln p(z) = \mathrm E\big[c(z)\,
# \nabla \ln p(z)\big], \qquad \frac{\partial \ln p(z)}{\partial o_t} = z_t - p_t. \tag{C5}$$
#
# The last equation follows from (C3), which says that $\ln p(z)$ is a sum of $\ln p_t$ for the selected words and
# $\ln(1 - p_t)$ for the others. Since $\mathrm d p_t / \mathrm d o_t = p_t (1 - p_t)$, the derivative of $\ln p_t$ by
# $o_t$ is $1 - p_t$, and that of $\ln(1 - p_t)$ is $-p_t$. The first belongs to $z_t = 1$ and the second to $z_t = 0$,
# so in both cases the derivative is $z_t - p_t$.
#
# Williams called this estimate REINFORCE in 1992, and Lei, Barzilay and Jaakkola trained rationales with it in 2016.
# You need only one draw for an estimate. Toss the coins, compute the predictor *once*, and multiply the cost by $z_t -
# p_t$. What does a step of descent do with this estimate? Since every cost is positive here, the step makes the choices
# of this draw less likely. Words that were selected get a lower score, words that were left out get a higher one. The
# costlier the draw, the larger is the step. In this sense, each draw casts a vote on every word. No derivative of the
# predictor is needed, so $z$ may be exactly 0 or 1.
#
# > You may object that in one draw the same cost is charged to every word, whether the word mattered or not. That is
# > true, and it is why the estimate is noisy. It is right on average only because a word that does not matter is
# > selected in cheap and in costly draws alike, so that its steps up and its steps down cancel over many draws.

# %%
draws = fair.draw(p.num_samples)  # [1, N, 3]
votes = score_gradients(fair.logits, draws, fair.cost_of(draws))  # [N, 3]: c (z - p), one estimate per draw

# %% tags=["check"]
by_hand = fair.cost_of(draws[0]).unsqueeze(1) * (draws[0] - fair.logits.sigmoid())
assert torch.allclose(votes, by_hand, atol=rounding), "eq. (C5), one draw per estimate"
standard_error = votes.std(0) / math.sqrt(p.num_samples)
assert ((votes.mean(0) - fair.gradient).abs() < 4.5 * standard_error).all(), "unbiased: within its standard errors"
assert (fair.noise() > fair.gradient.abs()).all(), "for every word the whiskers reach across zero"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
noise = fair.noise()
times = (noise.norm() / fair.gradient.norm()).item()
finding = f"The mean of the draws is right; the error of one draw is {times:.1f} times as long as the gradient"
pair = {"exact gradient": fair.gradient, "mean of the draws, and the spread of one": votes.mean(0)}
figures.draw_bars(words, pair, ax, title=finding, ylabel="gradient by the score (nats)", fmt="",
                  errors={"mean of the draws, and the spread of one": noise})  # fmt: skip
figures.save_figure(fig, folder, "one_draw")
fig

# %% [markdown]
# You see that the two bars of each word agree. This is what *unbiased* means: the expectation of the estimate, even of
# a single draw, is the exact gradient. So the mean of many draws comes near it, although no draw has seen more than one
# row of the table. The whiskers show how far a single draw is usually off, which is its *noise*. The title gives one
# number for all three words. It is the root of the sum of their variances, divided by the length of the exact gradient.
# If this number is 3, for example, the error of one draw is usually three times as long as the gradient. For every word
# the whiskers reach across zero, so one draw often pushes us in the wrong direction.
#
# ## 5. Measure the noise
#
# How large is the noise, exactly? For a short text we can compute its variance as a sum over the table, like everything
# else. It is the mean of the square minus the square of the mean:
#
# $$\mathrm{Var}\big[c(z)\,(z_t - p_t)\big] = \mathrm E\big[c(z)^2 (z_t - p_t)^2\big] - \Big(\frac{\partial\, \mathrm
# E[c]}{\partial o_t}\Big)^2. \tag{C6}$$
#
# The first term contains the *whole* cost, whether or not word $t$ had a part in it. So let us make the text longer
# without changing the task. We add words on which the prediction does not depend, such as *the* or *a*. Each is a
# fair coin with a price, and the gradients of our three words stay as they are. What happens to the noise of one
# draw?

# %%
added = [0, 2, 4, 6, 8]


def lengthened(losses, m, price=p.sparsity):
    """The table of the text with m more words, of which the predictor takes no notice."""
    z = all_selections(3 + m)
    return CostTable(torch.zeros(3 + m, dtype=torch.float64), losses.repeat_interleave(2**m) + price * z.sum(1))


longer = [lengthened(task_loss(selections), m) for m in added]
relative = [(one.noise().norm() / one.gradient.norm()).item() for one in longer]

# %% tags=["check"]
for one in longer:
    assert torch.allclose(one.gradient[:3], fair.gradient, atol=rounding), "the gradients of the three words stay"
assert relative == sorted(relative) and relative[-1] > 1.5 * relative[0], "and the noise grows with the length"
spread = votes.std(0) / noise
assert ((spread - 1).abs() < 6 / math.sqrt(p.num_samples)).all(), "eq. (C6) is the spread of the draws in section 4"

# %%
by_length = ", ".join(f"{ratio:.1f} ({3 + m} words)" for m, ratio in zip(added, relative, strict=True))
print(f"The noise of one draw, divided by the length of the gradient, is {by_length}.")

# %% [markdown]
# Each added word is charged the same cost as all others. So it brings noise of its own, while the gradient hardly
# grows. Real texts have hundreds of words. If you average $K$ draws, the noise becomes smaller only by the factor
# $\sqrt K$, and each draw costs a pass of the predictor.
#
# Does the noise matter, or does it average out over the steps? We descend again, with one draw per step, and we do so
# five times, each time with other random numbers.

# %%
torch.manual_seed(p.seed + 1)
noisy_paths = [descend(fair, p.num_steps, p.learning_rate, num_draws=1) for _ in range(5)]
noisy_costs = torch.stack([torch.stack([fair.moved(o).expected_cost for o in one]) for one in noisy_paths])  # [5, S]
ends = [phrase(one[-1] > 0) for one in noisy_paths]

# %% tags=["check"]
assert (noisy_costs >= cost.min() - rounding).all() and torch.allclose(noisy_costs[:, 0], expected[0])
later = (noisy_costs < 0.3).int().argmax(1).median()
if p.num_steps >= 300 and p.learning_rate == 1 and p.sparsity == 0.05:
    assert noisy_costs[:, -1].max() < 0.3 and later > (expected < 0.3).int().argmax(), "all five, most later"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
right = sum(end == "not good" for end in ends)
band = {"one draw per step, five times": (noisy_costs.min(0).values, noisy_costs.max(0).values)}
lines = {"exact gradient": expected, "one draw per step, five times": noisy_costs.median(0).values}
figures.draw_lines(range(len(expected)), lines, ax, bands=band, xlabel="step", ylabel="expected cost (nats)",
                   title=f"With one draw per step, {right} of 5 descents find “not good”")  # fmt: skip
figures.save_figure(fig, folder, "noisy_descent")
fig

# %%
print("selected at the end:", "; ".join(ends))

# %% [markdown]
# The band reaches from the best to the worst of the five at each step, and the dashed line is the median of the five.
# You see all of them come down, most of them later than the exact gradient, and the printed line says that not all of
# them end at the same selection. Some keep *very*, which is not worth its price. How can that be? If a word has become
# nearly certain by accident, selected or not, we hardly ever draw the other choice again, and learn nothing more about
# it. If you take smaller steps, this becomes rarer, but training becomes slower. You meet better remedies in
# `08_reinforce`.
#
# **Exercise 2** (predict, change, explain; 10 minutes). How many draws must you average so that the gradient by the
# score of *good* has the right sign in about 98 of 100 cases, that is, so that it is two standard deviations away
# from zero? *Predict* whether eight added words, on which the prediction does not depend, change this number
# (`more_needed`, True or False). *Change* the number of added words from 0 to 8, and compute the number of draws for
# both (`draws_needed`, a dict with the keys 0 and 8). The tables of the longer texts are in `longer`, one for each
# number in `added`. From a table, `.noise()` gives you the noise of one draw, and `.gradient` the exact gradient.
# *Explain* the numbers with (C6).

# %% tags=["prediction"]
more_needed = True

# %% tags=["solution"]
draws_needed = {m: math.ceil((2 * one.noise()[2] / one.gradient[2]).square().item())
                for m, one in zip(added, longer, strict=True) if m in (0, 8)}
print(f"draws per step for one reliable sign: {draws_needed}")
# The mean of K draws has 1 / sqrt(K) of the noise, so K is (2 noise / gradient)^2. The added words raise the cost of
# every selection, and (C6) has the square of the whole cost, so the noise of `good` rises, and its gradient does not.

# %% tags=["check"]
for m, needed in draws_needed.items():
    one = lengthened(task_loss(selections), m)
    size = abs(one.gradient[2].item())
    assert one.noise()[2] / math.sqrt(needed) <= size / 2, f"{needed} draws are too few with {m} words added"
    assert one.noise()[2] / math.sqrt(max(1, needed - 1)) > size / 2 or needed == 1, f"fewer suffice with {m} added"
assert set(draws_needed) == {0, 8}, "`draws_needed` has an entry for 0 and one for 8"
assert more_needed == (draws_needed[8] > draws_needed[0]), "`more_needed` is not what you found"

# %% [markdown]
# ## 6. What one would wish for
#
# Let us sum up what we have. A weight has a slope, but no word is ever gone. With a coin, words are gone, but a draw
# has no slope, and REINFORCE has to average over many draws. From each draw, REINFORCE uses a single number, the
# cost. But a draw could tell us more, because our predictor can be differentiated. We can differentiate the loss by
# each $z_t$ and learn which of the words made the draw costly. If only that derivative could go on through the draw!
#
# Suppose that a draw is a function $z_t = h(u_t, o_t)$ of noise $u_t$ and of the score, and that it changes *smoothly*
# with the score while the noise stays the same. The noise is drawn in the same way whatever the score is. So the
# derivative of the average is the average of the derivatives, and for each of these we can use the chain rule. For each
# draw we need one backward pass, and a word on which the prediction does not depend gets no noise at all. You may meet
# the following equation under the name *reparameterisation trick*:
#
# $$\frac{\partial\, \mathrm E[c]}{\partial o_t} = \mathrm E\Big[\frac{\partial c}{\partial z_t}\, \frac{\partial
# h(u_t, o_t)}{\partial o_t}\Big]. \tag{C7}$$
#
# Can such a draw still be *exactly* 0 or 1? Try the simplest thing. Take a uniform number between $-1$ and 1, add the
# score, and cut off what lies outside the unit interval:
#
# $$z_t = \min\big(1, \max(0, \tfrac12 + o_t + u_t)\big), \quad u_t \sim \mathrm{Uniform}(-1, 1), \qquad \frac{\partial
# z_t}{\partial o_t} = \mathbb 1[0 < z_t < 1]. \tag{C8}$$
#
# The draw is not smooth where it meets 0 or 1, because it has a kink there. But it has no jump, and a random $u_t$ hits
# a kink with probability 0, so you may still use (C7). The step of section 1 has a jump, and for a jump (C7) fails, as
# you will see in section 5 of `03_hardkuma`.
#
# At a score of 0 a quarter of the draws is exactly 0 and a quarter exactly 1. The other half lies between, and there
# the derivative is 1. Our predictor accepts such numbers, because the function of section 1 only adds and multiplies
# the $z_t$.

# %%
def clipped(o, u):
    return (0.5 + o + u).clamp(0, 1)


u = 2 * torch.rand(p.num_samples, 3, dtype=torch.float64) - 1
o = torch.zeros(p.num_samples, 3, dtype=torch.float64, requires_grad=True)  # a score of its own for each draw
(through,) = torch.autograd.grad(task_loss(clipped(o, u)).sum(), o)  # [N, 3]: one estimate per draw


# %% [markdown]
# We can check the mean of these estimates without any derivative. Since $u_t$ has the density $\tfrac12$, a score that
# moves up by a small $\delta$ makes the value 1 more likely by $\delta / 2$ and the value 0 less likely by
# $\delta / 2$. Between the two ends, $z_t$ keeps the density $\tfrac12$. So the exact gradient is half the difference
# between the cost at 1 and the cost at 0, averaged over the other words. This is (C4) again, with $\tfrac12$ in the
# place of $p_t (1 - p_t)$. With the check below you confirm that both ways give the same mean.

# %%
def with_word(t, value):
    """Mean task loss if word t has a fixed value and the others are drawn."""
    z = clipped(0, u).clone()
    z[:, t] = value
    return task_loss(z)


halves = torch.stack([(with_word(t, 1.0) - with_word(t, 0.0)) / 2 for t in range(3)], -1)  # [N, 3]
per_word = {m: lengthened(task_loss(selections), m, price=0.0) for m in added}
by_votes = [(one.noise().norm() / one.gradient.norm()).item() for one in per_word.values()]
by_slopes = (through.std(0).norm() / through.mean(0).norm()).item()

# %% tags=["check"]
error = (halves - through).std(0) / math.sqrt(p.num_samples)
assert ((halves - through).mean(0).abs() < 4.5 * error).all(), "eq. (C7): unbiased, against differences of two ends"
exactly = torch.stack([(clipped(0, u) == end).double().mean() for end in (0, 1)])
assert ((exactly - 0.25).abs() < 4.5 * 0.433 / math.sqrt(3 * p.num_samples)).all(), "a quarter at 0, a quarter at 1"
assert by_slopes < min(by_votes), "less noise than the votes of coins, for any length"

# %% tags=["figure"]
fig, ax = figures.new_figure(size=(9, 4.6))
finding = f"{3 + added[-1]} words: noise {by_votes[-1]:.1f} × the gradient, and {by_slopes:.1f} × through the draw"
lines = {"coins, REINFORCE": by_votes, "clipped draws, chain rule": [by_slopes] * len(added)}
figures.draw_lines([3 + m for m in added], lines, ax, title=finding, xlabel="words of the text", markers=True,
                   ylabel="noise of one draw / length of the gradient")  # fmt: skip
figures.save_figure(fig, folder, "votes_and_slopes")
fig

# %% [markdown]
# For both lines we take the task's loss alone, without the price. As before, we divide the noise by the length of the
# gradient. The noise through the draw stays the same for every length, because for an added word $\partial c /
# \partial z_t = 0$ in *every* draw, and not only on average.
#
# Have we got the gate that we wished for? Not quite. Move the score of a word to $-2$ and look again.

# %%
far = torch.full((p.num_samples, 3), -2.0, dtype=torch.float64, requires_grad=True)
(stuck,) = torch.autograd.grad(task_loss(clipped(far, u)).sum(), far)
are_open, moved = (clipped(far, u) != 0).double().mean(), (stuck != 0).double().mean()
print(f"at a score of -2, {are_open:.0%} of the draws are open, and {moved:.0%} of the derivatives are not 0")

# %% tags=["check"]
assert (clipped(far, u) == 0).all() and (stuck == 0).all(), "always shut, and no draw says how to open it again"

# %% [markdown]
# Below a score of $-1.5$ every draw is 0 and every derivative is 0. The gate is shut for good, because there is no
# slope, as on the step of section 1. And the price per selected word still has no gradient: $z_t$ counts as selected
# if it is not 0, and this count is again a step. The *expected* count is not a step, but to compute it we need a
# formula for the probability of 0. Our clipped uniform has one. It is $(\tfrac12 - o_t) / 2$ where this lies between 0
# and 1. Not every distribution has such a formula.
#
# So here is our wish, in four parts:
#
# 1. a gate is **exactly 0** often, so that words are gone, and exactly 1 often, so that words are simply there;
# 2. a **gradient goes through the draw**, because for fixed noise the draw follows the parameters without a jump;
# 3. the **probability of 0 is a formula**, so that selected words can be counted, and priced, without drawing;
# 4. no value of the parameters makes the gate **certain**, so its gradient is not 0 for every draw.
#
# Our clipped uniform fulfils the first three as long as the score is neither too small nor too large, and it never
# fulfils the fourth. In place of the uniform we need another distribution on an interval. It should have a shape that
# we can learn, its draws should be smooth in its parameters, and both its cumulative distribution function and its
# quantile function should have simple formulas. The first of these functions gives the probability of 0. The second,
# its inverse, turns uniform noise into a draw.
#
# ## Summary
#
# The choice of a word is a step and has no slope. A weight has a slope, but with weights no word is ever gone. The
# expected cost of a random choice is smooth, and its exact gradient is a sum over $2^n$ selections. REINFORCE estimates
# this gradient from draws. It is right on average and noisy, and the more words a text has, the noisier it is. In our
# example, a draw that moves with its parameters has less noise, and more words do not make it noisier. Our four wishes
# say what such a draw should look like.
#
# ## Next
#
# In `02_kumaraswamy` we build the distribution that replaces the uniform here. In `03_hardkuma` we stretch and clip it,
# and so all four wishes are granted. In `08_reinforce` we take the other road and make the coins work.
