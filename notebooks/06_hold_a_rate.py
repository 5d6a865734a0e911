# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Hold a rate
#
# In `05_count_words` you learned to count. The expected rate $S$ is the share of words that the gates are expected to
# select, it has a gradient, and nothing in the training objective keeps it small. In this notebook we hold $S$ at a
# number that we choose. You will see that a fixed price cannot do this, and that the published rule has a trap.
#
# **You will** set a price for text by hand and see it fail. Then you let a rule move the price during training. (Such
# a price is called a *multiplier*.) You compare two such rules on the same gate.
#
# **You will learn**
# - why a fixed price does not give you the rate that you want, and what the right price means;
# - why a constraint needs log-odds once gates are tightly shut;
# - how the authors' multiplier and a signed multiplier move, and why the first cannot reopen a gate that is nearly
#   shut;
# - what *winding up* is, and when to limit it.
#
# **You need** `05_count_words` (the bound, the expected rate). You need no data and no GPU. The cells run in about a
# minute, and reading takes an hour with the exercises.

# %% tags=["parameters"]
seed: int = 0  # of the toy texts and the draws
left: float = -0.1  # lower end of the support of the stretched gate
right: float = 1.1  # upper end of that support
selection: float = 0.4  # target share of words, in (0, 1)
multiplier_rate: float = 0.2  # step of the signed multiplier
smoothing: float = 0.8  # share of the past in the averages of the signed rule
quadratic: float = 50.0  # weight of the squared violation
batch_size: int = 25  # texts in a training step
num_steps: int = 800  # training steps of each toy run
learning_rate: float = 0.05  # of Adam on the two numbers of a toy gate
num_samples: int = 20000  # draws when sampling is compared with the exact value

# %%
import math

import pandas as pd
import torch
from torch.nn.functional import softplus

from rationale import figures, objectives
from rationale.distributions import HardKuma
from rationale.objectives import Constraint, log_mean
from rationale.runs import results_folder, validated
from rationale.training import toy_gates

# %%
p = validated(globals())
folder = results_folder("06_hold_a_rate") / "figures"
torch.set_default_dtype(torch.float64)  # checks with all digits
torch.manual_seed(p.seed)
signed = {"step": p.multiplier_rate, "smoothing": p.smoothing, "quadratic": p.quadratic}
training = {"num_steps": p.num_steps, "learning_rate": p.learning_rate, "seed": p.seed}
settles = p.num_steps >= 800 and p.quadratic >= 20 and p.left <= -0.05  # else toys may miss their targets
one_word = toy_gates.one_word_texts(p.batch_size)  # texts of one word, so all gates are one gate


def train_one_gate(constraint, raw_a=0.0, raw_b=0.0):
    """Train the two numbers of one gate under a constraint; the trace has one entry per training step."""
    return toy_gates.hold_rate(constraint, toy_gates.toy_gate(p.left, p.right, raw_a, raw_b), one_word, **training)


# %% [markdown]
# ## 1. A price that is set by hand
#
# Here is the smallest problem that we could think of. A text has one word and one gate. If the predictor sees
# nothing, it gives the right class the probability 0.2, and if it sees the whole word, 0.9. We would like the gate to
# be open with probability 0.4. We write $\tau$ for such a **target**, a rate between 0 and 1. (In (H12) the same
# letter was a temperature.)
#
# Lei et al. (2016) charge a price for each selected word. So we add the price times the expected rate $S$ to the
# loss, and train the gate with three prices. Which of them do you expect to give a rate of 0.4?

# %%
prices = (1.0, 2.0, 3.0)  # nats per unit of rate
by_price = {f"price {price:g}": train_one_gate(toy_gates.FixedPrice(price)).rate for price in prices}
steps = range(1, 1 + p.num_steps)

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, steps, by_price, title="A price opens the gate or shuts it",
                   xlabel="training step", ylabel="expected rate", target=p.selection, size=(9, 4.4),
                   beside=True, save=folder / "prices")

# %% tags=["check"]
ends = torch.stack([rate[-50:].mean() for rate in by_price.values()])
assert ends[0] > ends[-1], "a higher price, a lower rate"
if settles:
    assert ((ends > 0.95) | (ends < 0.05)).all(), "each price opens the gate or shuts it, and none gives 0.4"

# %%
for name, end in zip(by_price, ends.tolist(), strict=True):
    print(f"{name:9}: the rate of the last 50 steps is {end:.3f}")

# %% [markdown]
# None of them does. Somewhere between two of these prices, you see the result jump from an open gate to a shut one. To
# hold a rate between 0 and 1 we have to move the price while the gate moves, and so we need a rule for the price.
#
# Before we write one down, we look at two things that you will need. The first is a measure of the violation that
# still has a gradient when all gates are shut. The second is the meaning of the price.

# %% [markdown]
# ## 2. Keep a gradient when the gates are shut
#
# The paper constrains the difference $S - \tau$. Suppose that your gate is nearly shut and $S$ is far below the
# target. Is the gradient of $S$ still large enough to open it?
#
# The network computes the second shape of the gate from a raw output, which we call $v$, as
# $b = \mathrm{softplus}(v)$. A large $v$ shuts the gate. We move $v$ from $-6$ to 60 and draw the size of two
# gradients by $v$. One is the gradient of $S$. The other is the gradient of a second measure of the violation, $c$,
# which compares the log-odds $\ln\frac{S}{1-S}$ of the rate with those of the target. We explain it below the figure.

# %%
raw = torch.linspace(-6, 60, 331).requires_grad_()
closing = HardKuma(torch.tensor(2.0).log(), softplus(raw), p.left, p.right)  # a = softplus(0)
share = closing.log_prob_nonzero.exp()
odds = closing.log_prob_nonzero - closing.log_prob_zero
violation = p.selection * (1 - p.selection) * (odds - torch.tensor(p.selection).logit())
slope_rate = torch.autograd.grad(share.sum(), raw, retain_graph=True)[0]
slope_odds = torch.autograd.grad(violation.sum(), raw)[0]
share, violation, raw = share.detach(), violation.detach(), raw.detach()

# %% tags=["figure"]
lines = {"of the rate S": -slope_rate, "of the violation c in log-odds": -slope_odds}
figures.draw_panel(figures.draw_lines, raw, lines, yscale="log", size=(8, 4.4), save=folder / "gradient_of_the_rate",
                   title="The gradient of S vanishes when the gate shuts, that of c does not",
                   xlabel="raw output v for b (the gate shuts to the right)", ylabel="size of the gradient by v")

# %%
for at in (50, 130, 330):
    slopes_here = f"dS/dv = {slope_rate[at]:.1e}, dc/dv = {slope_odds[at]:.3f}"
    print(f"v = {raw[at]:2.0f}: S = {share[at]:.1e}, {slopes_here}")

# %% [markdown]
# You see that the gradient of $S$ vanishes together with $S$. For one gate, (S3) says
# $S = (1 - k_0^a)^b = e^{b \ln(1 - k_0^a)}$, so the derivative by $v$ has $S$ as a factor. The *log-odds* of $S$ are
# $\mathrm{logit}\,S = \ln\frac{S}{1-S}$. Their derivative by $S$ is $\frac{1}{S(1-S)}$. By the chain rule, the factor
# $S$ therefore cancels in their derivative by $v$. This is why we measure the violation of the target by a number $c$
# in log-odds. We write $\sigma$ for the logistic function, which is the derivative of the softplus:
#
# $$\frac{\partial S}{\partial v} = S \ln(1 - k_0^{\,a})\,\sigma(v), \qquad
# c = \tau(1-\tau)\,\big(\mathrm{logit}\,S - \mathrm{logit}\,\tau\big), \qquad \frac{\partial c}{\partial v} =
# \frac{\tau (1-\tau)}{S(1-S)}\,\frac{\partial S}{\partial v}. \tag{S6}$$
#
# > Why the factor $\tau(1-\tau)$? It makes the slope of $c$ by $S$ equal to 1 at the target, so near the target the
# > two measures agree, $c = S - \tau + O((S-\tau)^2)$. Far from the target they differ. As $S \to 0$, the slope of
# > $c$ by $v$ tends to $\tau(1-\tau)\ln(1 - k_0^a)$, which is not 0. You see this value as the plateau at the right
# > end of the figure. At the end of section 6 you see for which gates this makes a difference in training.

# %% tags=["check"]
pull = torch.tensor(1 - (-p.left / (p.right - p.left)) ** closing.a[0].item()).log()  # ln(1 - k0^a)
assert torch.allclose(slope_rate, share * pull * raw.sigmoid(), rtol=1e-6, atol=0), "proportional to S"
plateau = p.selection * (1 - p.selection) * pull
assert torch.allclose(slope_odds, plateau * raw.sigmoid() / (1 - share)), "for S -> 0 a constant"
near = (share - p.selection).abs() < 0.02
second_order = 0.02**2 / (p.selection * (1 - p.selection))
assert torch.allclose(violation[near], share[near] - p.selection, atol=second_order), "the same near tau"

# %% [markdown]
# A batch has many gates, and for $c$ we then need the logarithm of their *mean* rate $\bar S$. If all gates are shut,
# each probability may be too small for a float, and the mean underflows to 0. Take three such gates, with
# $\ln P(z \ne 0)$ equal to $-200$, $-205$ and $-230$. We compute the logarithm of their mean with `log_mean`, which
# never leaves the scale of logarithms. Which of the three do you think is pushed most?

# %%
log_nonzero = torch.tensor([[-200, -205, -230]], dtype=torch.float32).requires_grad_()  # three shut gates
in_logs = log_mean(log_nonzero, torch.ones(1, 3).bool())
in_logs.backward()
print(f"the mean in float32: {log_nonzero.exp().mean().item()}; its logarithm by log_mean: {in_logs.item():.1f}")

# %% tags=["figure"]
names = [f"ln P(z ≠ 0)\n= {value:.0f}" for value in log_nonzero[0].tolist()]
figures.draw_panel(figures.draw_bars, names, {"share of the push": log_nonzero.grad[0]}, size=(7, 3.8),
                   title="The least shut gate gets nearly all of the push", ylabel="weight in the gradient",
                   save=folder / "push_on_shut_gates")

# %% [markdown]
# We see that the gates share the gradient in proportion to their probabilities. Text $i$ of the batch has $n_i$
# words, there are $B$ texts, and $z_{it}$ is the gate on word $t$ of text $i$:
#
# $$\ln \bar S = \ln \frac1B \sum_i \frac1{n_i} \sum_t e^{\ln P(z_{it} \ne 0)}, \qquad \frac{\partial \ln \bar
# S}{\partial \ln P(z_{it} \ne 0)} = \frac{P(z_{it} \ne 0)}{B\, n_i\, \bar S}. \tag{S7}$$
#
# > You can check that the derivatives on the right sum to one. So the total gradient that the gates of a batch receive
# > is always the same, even if all of them are nearly shut. Most of it goes to the gates that are least shut, and these
# > open first.

# %% tags=["check"]
in_full = log_nonzero.detach().double()
assert log_nonzero.exp().mean() == 0, "the mean itself is 0 in float32, and its logarithm minus infinity"
assert torch.allclose(log_nonzero.grad.double(), in_full.softmax(1), atol=1e-6), "weights of (S7)"
assert torch.allclose(log_mean(in_full, torch.ones(1, 3).bool()), in_full.exp().mean().log())

# %% [markdown]
# ## 3. Pay a price for text
#
# What *is* the right price? We measure it. For each rate we compute the smallest task loss that this rate allows, for
# two problems. The first is the one gate from above. The second has texts of twelve words. Most of their words are
# worth little and a few are worth much. The selector sees only a noisy clue to the worth of each word, so we take the
# loss of selecting the words with the best clues.
#
# You will see the loss fall as the rate grows. If we allow one more unit of rate, we save some loss. This saving is
# called the **price of text**. You can read it off the figure, because it is minus the slope of each line. Before you
# look, guess which of the two lines is straight.

# %%
texts = toy_gates.make_texts(p.batch_size, seed=p.seed)
target_rates = torch.linspace(0.02, 0.98, 49)
best_texts = toy_gates.smallest_losses(texts, target_rates)
loss_unseen, loss_seen = -torch.tensor([0.2, 0.9]).log()
best_gate = (1 - target_rates) * loss_unseen + target_rates * loss_seen
price_gate = -(best_gate.diff() / target_rates.diff())
price_texts = -(best_texts[[0, 24, 48]].diff() / target_rates[[0, 24, 48]].diff())  # lower half, upper half
best_rates = [target_rates[(best_texts + price * target_rates).argmin()].item() for price in prices]

# %% tags=["figure"]
lines = {"one gate": best_gate, "texts of 12 words, best clues first": best_texts}
figures.draw_panel(figures.draw_lines, target_rates, lines, xlabel="rate", ylabel="smallest task loss (nats)",
                   title="Text has one price for one gate, a falling price for many words", size=(8, 4.4),
                   save=folder / "price")

# %% tags=["check"]
assert torch.allclose(price_gate, torch.tensor(4.5).log()), "one gate: one price, ln(0.9 / 0.2)"
assert prices[0] < price_gate[0] < prices[1], "the prices of section 1 lie on both sides of it"
assert price_texts[0] > 2 * price_texts[1] > 0, "texts: the first half of the words is worth more"
assert 0.9 > best_rates[0] >= best_rates[1] >= best_rates[2], "texts: the higher the price, the lower the best rate"
assert p.batch_size < 20 or best_rates[2] > 0.05, "and with many texts, each price leads to a rate between 0 and 1"

# %%
print(f"price of text, in nats per unit of rate: one gate {price_gate[0]:.3f} everywhere; "
      f"texts {price_texts[0]:.2f} below rate {target_rates[24]:.2f}, {price_texts[1]:.2f} above")
for price, rate in zip(prices, best_rates, strict=True):
    print(f"price {price:g}: the best rate of the texts is {rate:.2f}")

# %% [markdown]
# You see that for one gate the line is straight. A gate value between 0 and 1 counts as much as a 1 in the rate, but
# it shows less of the word. So the best gate of rate $\tau$ is a coin that shows the whole word with probability
# $\tau$. The smallest loss is then $-\tau \ln 0.9 - (1 - \tau) \ln 0.2$, and the price is $\ln(0.9 / 0.2)$ at every
# rate. Now you can explain the first figure. The lowest price of section 1 lies below $\ln(0.9 / 0.2)$, so it pays to
# open the gate, and the others lie above, so it pays to shut it. At exactly this price, nothing in the loss makes one
# rate better than another. With many words, we first select those that are worth most, so the price falls with the
# rate.
#
# So with many words, a fixed price does lead to a rate between 0 and 1. We go on selecting as long as one more unit of
# rate saves more than it costs, and we stop where the price of text has fallen to the price that we charge. The printed
# lines show these rates of our texts for the three prices of section 1. But to know such a rate beforehand, you would
# have to know the slope of the line, and for real texts you have to train models to find it.
#
# We now state the problem. The task loss is $\ell$, and a **multiplier** $\lambda$ takes the place of the fixed
# price. We look for a saddle point. The loss is minimised in the weights $\phi$ and $\theta$ of (S1), and maximised
# in the multiplier:
#
# $$\min_{\phi, \theta} \max_\lambda\; E[\ell] + \lambda\,(S - \tau), \qquad \lambda^* =
# -\frac{\mathrm{d} \ell^*}{\mathrm{d} \tau}, \qquad \ell^*(\tau) = \min_{S = \tau} E[\ell].
# \tag{S8}$$
#
# The paper (sec. 4) reaches given values of its penalties by Lagrangian relaxation. Lei et al. (2016) set the weights
# of their penalties by hand, as we did in section 1.
#
# > The maximum over $\lambda$ enforces $S = \tau$, because at any other rate some $\lambda$ makes the second term as
# > large as we like. If $\ell^*$ is convex, the order of minimum and maximum makes no difference: both have the same
# > saddle point. The middle equation says that the multiplier at the saddle point, $\lambda^*$, is the price that we
# > have just measured, in nats per unit of rate. To see why, take the smallest loss at each rate $S$, which is
# > $\ell^*(S)$. The sum $\ell^*(S) + \lambda^*(S - \tau)$ can be smallest at $S = \tau$ only if its derivative is 0
# > there, so $\lambda^*$ is minus the derivative of $\ell^*$.

# %% [markdown]
# ## 4. Let the multiplier grow: the authors' rule
#
# We begin with the authors' code, which moves the multiplier as Rezende and Viola (2018) do. At each step the
# multiplier is multiplied by a number above 1 if the rate is too high, and by a number below 1 if it is too low. It
# starts near 0. We train our gate with the start, the step and the smoothing that were published for the beer reviews,
# but without their upper limit of 5 on the multiplier. (The published settings for SST have no limit. With a limit of
# 5, the gate of our toy never shuts, because this is too little to move a gate that is wide open.) We draw the
# multiplier (upwards) against the rate (to the right). Such a picture is called a *phase portrait*. The vertical line
# is the target, and the horizontal one is the price of text. Follow the path from the hollow circle to the cross. It
# has a dot after every hundred steps.

# %%
authors = {"dynamics": "authors", "step": 0.05, "smoothing": 0.5, "multiplier": 1e-5}  # as for beer, no limit
swing = train_one_gate(Constraint(p.selection, **authors))

# %% tags=["check"]
capped = train_one_gate(Constraint(p.selection, **authors, largest=5.0))
assert capped.rate[-50:].min() > 0.5, "with a limit of 5 the gate never shuts"

# %% tags=["figure"]
paths = {"authors' rule": (swing.rate, swing.multiplier)}
figures.draw_panel(figures.draw_phase_portrait, paths, target=p.selection, price=price_gate[0].item(), yscale="log",
                   title="Authors' rule, one gate: too late, then too hard", size=(9, 4.8),
                   save=folder / "portrait_authors")

# %%
at_one, above = 1 + (swing.multiplier < 1).sum(), (swing.rate > p.selection).sum()
print(f"the multiplier reaches 1 at step {at_one} and peaks at {swing.multiplier.max():.0f}")
print(f"the price of text is {price_gate[0]:.2f}")
print(f"the rate stays above the target for {above} steps and ends at {swing.rate[-1]:.1e}")
open_v = torch.tensor([-4.0], requires_grad=True)
wide_open = HardKuma(softplus(torch.tensor(3.0)), softplus(open_v), p.left, p.right)  # as ours at the price of text
task_gain, open_rate = toy_gates.expected_log_gain(wide_open), wide_open.log_prob_nonzero.exp()
by_task, by_rate = (torch.autograd.grad(line.sum(), open_v, retain_graph=True)[0] for line in (task_gain, open_rate))
print(f"a gate with P(z = 1) = {wide_open.prob_one.item():.2f} and P(z = 0) = {wide_open.prob_zero.item():.0e}: the "
      f"gradient of the task by v is {(by_task / by_rate).item():.0f} times that of S")

# %% tags=["check"]
assert by_task / by_rate > price_gate[0], "a wide-open gate resists a multiplier at the price of text"
if (p.left, p.right) == (-0.1, 1.1):
    assert by_task / by_rate > 100, "and one far beyond the price"

# %% [markdown]
# You see the path climb along the right edge. While the multiplier is far below the price, training opens the gate.
# When the multiplier finally reaches the price, the gate is wide open, and this multiplier does not yet move it. Why?
# The rate changes only if the probability that the gate is exactly 0 changes. In a wide-open gate this probability is
# nearly 0, so the factor $\ln(1 - k_0^{\,a})$ of (S6) is nearly 0 as well, and $S$ has almost no gradient. The task
# still has one. Some draws of the gate lie a little below 1, and the task pushes them up. The last printed line
# compares the two gradients of a gate that is about as open as ours at this moment. Before the multiplier outweighs the
# task, it has to grow to about the quotient of the two, which is far beyond the price. Once the gate does move, it runs
# past the target and shuts, because the multiplier cannot come back down in time.
#
# Here is the rule. We write $m$ for the smoothed violation, which starts from 0. At each step, it keeps the share
# $\alpha$ of its old value. We write $\eta$ for the step size of the multiplier:
#
# $$m \leftarrow \alpha m + (1 - \alpha)(S - \tau), \qquad \lambda \leftarrow \lambda\, e^{\eta m}, \qquad
# \text{loss} = \ell + \lambda\,(S - \tau). \tag{S9}$$
#
# The authors' code updates the multiplier first and then uses it. The value that it adds to the loss is $\lambda m$,
# with the smoothed violation in place of $S - \tau$. But the gradient of this term is that of $\lambda\,(S - \tau)$,
# as in (S9).
#
# How long do we have to wait until such a multiplier has an effect? Let it start at $\lambda_0$, and let the violation
# have the constant value $g$. Then it reaches 1 after
#
# $$N \approx \frac{\ln(1/\lambda_0)}{\eta\, g} + \frac{\alpha}{1 - \alpha} \tag{S10}$$
#
# steps.
#
# > To derive (S10), note that $\ln \lambda$ grows by $\eta\, m_j$ in step $j$, and that $m_j = g\,(1 - \alpha^j)$.
# > Add up these smoothed violations. You get $m_1 + \dots + m_N = g\,(N - \alpha\frac{1-\alpha^N}{1-\alpha})$, which
# > has to equal $\ln(1/\lambda_0)/\eta$. For many steps $\alpha^N$ is nearly 0. The second term of (S10) is the delay
# > that the smoothing causes. Note also that the multiplier, as a product of positive numbers, is always *positive*.
# > So this multiplier can stop pushing the rate down, but it can never push the rate up.
#
# The authors published three sets of settings, for beer reviews, for the Stanford Sentiment Treebank (SST) and for
# pairs of sentences (SNLI). Suppose that a gate stays wide open and that the violation is therefore constant. We take a
# violation of 0.8 for beer and SNLI and of 0.7 for SST. For each set we count the steps until the multiplier reaches 1.

# %%
published = {"beer": (1e-5, 0.05, 0.5, 0.8), "SST": (1e-4, 0.01, 0.99, 0.7), "SNLI": (1e-5, 0.01, 0.99, 0.8)}
published = pd.DataFrame(published, index=["start", "rate", "smoothing", "gap"]).T  # lambda_0, eta, alpha, g


def growth(case, num_steps=1600):
    """The authors' multiplier under a constant gap, one number per step."""
    constraint = Constraint(0.1, "authors", case.rate, case.smoothing, multiplier=case.start)  # any target
    for _ in range(num_steps):
        constraint.update(torch.tensor(0.1 + case.gap), 1.0)
        yield constraint.multiplier.item()


multipliers = {name: torch.tensor(list(growth(case))) for name, case in published.iterrows()}
reached = {name: 1 + (path < 1).sum().item() for name, path in multipliers.items()}

# %% tags=["figure"]
lines = {name: path.clamp(max=1) for name, path in multipliers.items()}
figures.draw_panel(figures.draw_lines, range(1, 1601), lines, yscale="log", xlabel="training step",
                   title="As published, the constraint has no effect for hundreds of steps", size=(8, 4.4),
                   ylabel="multiplier, up to 1 (log scale)", save=folder / "authors_multiplier")

# %%
without_delay = {name: objectives.steps_to_multiplier(case.start, case.rate, case.gap)
                 for name, case in published.iterrows()}
for name, plain in without_delay.items():
    print(f"{name:4}: {plain:5.0f} steps without the delay of the smoothing, {reached[name]} with it")

# %% [markdown]
# You see that the multiplier needs some hundred steps to reach 1 for beer, and over a thousand for SST and SNLI. (The
# lines end at 1 only because we stop drawing there.)
#
# A word of caution before you judge the rule by the phase portrait above. Our toy takes far larger steps than a real
# training, so its gate moves further while the multiplier is small. How far it moves depends on the step size of
# training. But whatever the step size is, a positive multiplier cannot push the rate up.

# %% tags=["check"]
for name, case in published.iterrows():
    delay = case.smoothing / (1 - case.smoothing)
    assert abs(reached[name] - without_delay[name] - delay) < 1, f"{name}: (S10), up to one step"
    assert (multipliers[name] > 0).all(), "positive"
    assert multipliers[name][-1] > 1, f"{name}: the multiplier goes on to grow"
assert 100 < reached["beer"] < 1000 < min(reached["SST"], reached["SNLI"]), "some hundred, over a thousand"
assert (swing.multiplier > 0).all(), "the authors' multiplier is positive"
some_rate = torch.tensor(0.7).requires_grad_()
some = Constraint(p.selection, **authors)
some.update(some_rate, 1.0)
some(some_rate.log(), (1 - some_rate).log()).backward()
assert torch.isclose(some_rate.grad, some.multiplier), "the gradient is lambda dS"
assert torch.allclose(swing.multiplier.log().diff(), 0.05 * swing.gap[1:]), "(S9), step for step"
if settles and p.selection <= 0.4:  # a higher target takes longer
    assert swing.rate.max() > 0.95 and swing.rate[-50:].max() < 0.05, "wide open first, shut in the end"

# %% [markdown]
# ## 5. Let the multiplier change its sign
#
# We change three things. The multiplier *adds up* the violations, so it may have either sign. The violation in the
# loss is $c$ of (S6), which has a gradient on shut gates. And a quadratic term pushes back at once, before the
# multiplier has moved much. We train the same gate from the same start, at three targets and with the same settings:

# %%
targets = (0.1, p.selection, 0.7)
held = {target: train_one_gate(Constraint(target, **signed)) for target in targets}
one = held[p.selection]

# %% tags=["figure"]
figures.draw_panel(figures.draw_phase_portrait, {"signed rule": (one.rate, one.multiplier)}, target=p.selection,
                   price=price_gate[0].item(), title="Signed rule, one gate: it turns to the target and stays",
                   size=(9, 4.8), first=1, save=folder / "portrait_signed")

# %% tags=["figure"]
lines = {f"target {target:g}": trace.rate for target, trace in held.items()}
figures.draw_panel(figures.draw_lines, steps, lines, title="One rule, three targets, no tuning in between",
                   xlabel="training step", ylabel="expected rate", size=(9, 4.6),
                   limits={"ylim": (0, 1.4), "yticks": [0, 0.5, 1]}, save=folder / "three_targets")

# %%
print(f"a settled selector would have taught the multiplier 63 % of the price after kappa / eta = "
      f"{p.quadratic / p.multiplier_rate:.0f} steps")
for target, trace in held.items():
    rates, multiplier = trace.rate[-100:], trace.multiplier[-100:].mean()
    print(f"target {target:.2f}: rate of the last 100 steps {rates.mean():.3f} ± {rates.std():.3f}, "
          f"multiplier {multiplier:.2f}; price of a deterministic gate {price_gate[0]:.2f}")

# %% [markdown]
# Compare the two portraits. You see that both paths start at the same rate. The first runs to the right edge and then
# to the left one. The second turns to the target before its first dot, goes a little past it, and comes back. From
# then on the rate stays there, and only the multiplier still moves. With the same settings, the other two rates reach
# their targets, too, as you see in the last picture. At the target of 0.1, the rate first falls below the target and
# needs hundreds of steps to come back (section 7 explains why).
#
# Each multiplier has about the same size as the price of section 3, but it is not that price. We computed the price for
# a gate that is either 0 or 1, and our gates still have mass between 0 and 1. For such a gate, one more unit of rate
# saves a different amount of loss. As the gates become more certain, this amount changes, and the multiplier follows
# it. So it is still moving when our short runs end. (Try `num_steps=3200`. The multiplier of the target 0.4 then
# reaches the price.)
#
# Here is the second rule. We write $g$ for the **gap** that moves the multiplier, which is a smoothed measurement of
# $S - \tau$, and $\kappa$ for the weight of the quadratic term:
#
# $$\lambda \leftarrow \lambda + \eta\, g, \qquad \text{loss} = \ell + \lambda\, c + \frac{\kappa}{2}\, c^2,
# \qquad g = \frac{\text{moving sum of selected}}{\text{moving sum of words}} - \tau. \tag{S11}$$
#
# A moving sum keeps the share $\alpha$ of its past at each step, so $g$ averages over the last few batches. You may
# know this as an *augmented Lagrangian*, the classical method of multipliers, here with a noisy gap. The paper has no
# quadratic term. The rule (S11) is the default of this package.
#
# > How fast does $\lambda$ learn? Near the target $c \approx S - \tau$, so one more unit of rate adds $\lambda +
# > \kappa\,(S - \tau)$ to the two terms of the constraint. The same unit of rate saves $\lambda^*$ of the task loss.
# > Suppose that the selector has settled at the rate where the two are equal. Then $g = S - \tau = (\lambda^* -
# > \lambda)/\kappa$. Since $\lambda$ grows by $\eta\, g$, the remaining gap is multiplied by $1 - \eta/\kappa$ at each
# > step. After $\kappa/\eta$ steps the multiplier has learned $1 - 1/e$ of the price, which is 63 %.

# %% tags=["check"]
damped = signed if settles else {**signed, "quadratic": 50.0}
some, price = Constraint(p.selection, **damped), 1.5
for _ in range(round(some.quadratic / some.step)):  # a selector that is always settled at the price
    some.update(p.selection + (price - some.multiplier) / some.quadratic, 1.0)
assert abs(some.multiplier / price - (1 - math.exp(-1))) < 0.03, "kappa / eta steps learn 1 - 1/e of the price"
distance = p.selection * (1 - p.selection) * (torch.tensor(0.2).logit() - torch.tensor(p.selection).logit())
by_hand = some.multiplier * distance + some.quadratic / 2 * distance**2
assert torch.isclose(some(torch.tensor(0.2).log(), torch.tensor(0.8).log()), by_hand), "the term of (S11)"
for target, trace in held.items():
    assert torch.allclose(trace.multiplier.diff(), p.multiplier_rate * trace.gap[1:]), "(S11), step for step"
    if settles:
        late = trace.rate[-100:].mean()
        assert abs(late - target) < 0.02, f"target {target}, but the last 100 steps are at {late:.3f}"
if settles and (signed, p.learning_rate) == ({"step": 0.2, "smoothing": 0.8, "quadratic": 50.0}, 0.05):
    assert held[0.1].rate.min() < 0.06 and held[0.1].rate[300] < 0.09, "hundreds of steps below a small target"

# %% [markdown]
# When should you update the multiplier? During training only. If you evaluate the model in between, on texts with
# another rate, the evaluation must not change the constraint. The authors' code updates the multiplier on dev and
# test batches too. The next check makes sure that ours does not.

# %% tags=["check"]
for settings in (authors, signed):
    constraint = Constraint(p.selection, **settings)
    constraint.update(torch.tensor(0.9), 1.0)
    learned = {name: value.clone() for name, value in constraint.state_dict().items()}
    constraint.eval()
    constraint.update(torch.tensor(0.1), 1.0)
    assert all(torch.equal(value, learned[name]) for name, value in constraint.state_dict().items())
    constraint.train()
    constraint.update(torch.tensor(0.1), 1.0)
    assert constraint.multiplier != learned["multiplier"], "in training mode it does move"
    assert not list(constraint.parameters()), "nothing in it for the optimiser"

# %% [markdown]
# ### One sentence at three targets
#
# With one gate, there is nothing to choose. So we also take the sentence of `05_count_words`, with one gate per word
# and the worths that we made up there. The selector sees the worth of a word and nothing else. We train it at three
# targets, which ask for one, three and six of the eight words. Which words do you expect at each target?

# %%
sentence = toy_gates.sentence_texts(p.batch_size)
kept = {}
for num_words in (1, 3, 6):
    selector = toy_gates.toy_gate(p.left, p.right)
    toy_gates.hold_rate(Constraint(num_words / 8, **signed), selector, sentence, **training)
    kept[f"target {num_words} of 8"] = selector(sentence.clue[0].unsqueeze(-1)).log_prob_nonzero.exp().detach()

# %% tags=["figure"]
figures.draw_panel(figures.draw_bars, toy_gates.SENTENCE, kept, title="A higher target adds words in order of worth",
                   ylabel="P(z ≠ 0)", fmt="", size=(9.5, 4.4), save=folder / "sentence")

# %% tags=["check"]
best_first = toy_gates.SENTENCE_WORTH.argsort(descending=True, stable=True)
for name, opened in kept.items():
    assert (opened[best_first].diff() < 1e-9).all(), f"{name}: a word of more worth is not less likely to be kept"
    if settles:
        assert abs(opened.mean() - int(name.split()[1]) / 8) < 0.03, f"{name}: the rate is {opened.mean():.3f}"
if settles:
    assert kept["target 1 of 8"].max() > 0.5 > kept["target 1 of 8"].sort().values[-2], "one word is likely, no other"

# %% [markdown]
# You see that we keep the most valuable word at the lowest target, and that we add the next ones at each higher target.
# This is the falling price of section 3 again, now with words. Words of equal worth have equal gates, because the
# selector cannot tell them apart, so they open together.

# %% [markdown]
# ## 6. The trap: an overshoot that is final
#
# The first portrait ended at a rate of 0, and it stayed there. Can a gate that was shut by an overshoot come back? We
# start one gate nearly shut, far below its target, and train it with either rule. The authors' multiplier starts at 1,
# which is less than the price of text. So you may expect that the task opens the gate.

# %%
both_rules = {"authors' rule": Constraint(p.selection, **{**authors, "multiplier": 1.0}),
              "signed rule": Constraint(p.selection, **signed)}
shut = {name: train_one_gate(rule, raw_a=-3, raw_b=6) for name, rule in both_rules.items()}

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, steps, {name: trace.rate for name, trace in shut.items()}, yscale="log",
                   title="From an overshoot, one rule comes back", xlabel="training step",
                   ylabel="expected rate (log scale)", target=p.selection, solid=True, size=(9, 4.6),
                   save=folder / "overshoot")

# %%
for name, trace in shut.items():
    print(f"{name:13}: rate from {trace.rate[0]:.1e} to {trace.rate[-1]:.2g} in {p.num_steps} steps (highest "
          f"{trace.rate.max():.2g}), multiplier from {trace.multiplier[0]:.2f} to {trace.multiplier[-1]:.2g}")

# %% [markdown]
# You see that the gate stays shut under the authors' rule, even after the multiplier has become tiny. Under the signed
# rule it comes back. To understand this, we ask what can open a gate that is nearly shut.
#
# The task can, by its gradient. This gradient comes through the draws, and only through draws inside $(0, 1)$. Let
# $\ell(z)$ be the task loss at the gate value $z$, and $\ell'$ its derivative. The paper (appendix A.3) shows that
# the kinks of the clip have probability zero and need no care, and we get
#
# $$\frac{\partial}{\partial \phi} E[\ell(z)] = E\Big[\ell'(z)\; \mathbb{1}[0 < z < 1]\;
# \frac{\partial z}{\partial \phi}\Big] = \int_0^1 \ell'(u)\, \frac{\partial P(z > u)}{\partial \phi}\,
# \mathrm{d}u. \tag{S12}$$
#
# The integral on the right is another way to write the same gradient. As for the mean (H7), you write $\ell(z) =
# \ell(0) + \int_0^1 \ell'(u)\,\mathbb{1}[u < z]\,\mathrm{d}u$ and take the expectation. Here $u$ is a value of the
# gate, and not the uniform number of a draw. How large is this integral if the gate is nearly shut? Let $k_u =
# \frac{u-l}{r-l}$ be the value of the Kumaraswamy variable $K$ that is stretched to $u$. At the ends it gives $k_0$ and
# $k_1$, which you know from (S3) and (H2). Then $P(z>u) = (1-k_u^a)^b$, and the derivative of this by $b$ is
# $P(z>u)\,\ln(1-k_u^a)$.
#
# > The first factor is at most $S$, because a gate above $u$ is not 0. The second factor is bounded for all $u$ in
# > $[0, 1]$, because $r > 1$ and so $k_u \le k_1 < 1$. So the gradient of the task by $b$ vanishes with $S$.
#
# The gradient of the authors' term is $\lambda\,\partial S/\partial v$, and you know from (S6) that it vanishes with
# $S$, too. The task opens the gate and the authors' term shuts it, whatever the rate is. Let us draw both, and the
# gradient of the signed term beside them.

# %%
knob = raw.clone().requires_grad_()
turned = HardKuma(closing.a, softplus(knob), p.left, p.right)
(task_pull,) = torch.autograd.grad(toy_gates.expected_log_gain(turned).sum(), knob, retain_graph=True)
term = Constraint(p.selection, **signed)(turned.log_prob_nonzero, turned.log_prob_zero)
(signed_push,) = torch.autograd.grad(term.sum(), knob)
ratio, at_three = task_pull / slope_rate, (raw - 3).abs().argmin()

# %% tags=["figure"]
lines = {"authors, multiplier 1: shuts": -slope_rate,
         "signed, multiplier 0: opens below the target": signed_push.abs(), "task: opens": -task_pull}
figures.draw_panel(figures.draw_lines, raw, lines, yscale="log", size=(8.5, 4.6), save=folder / "who_pulls",
                   title="On a shut gate only the signed rule still has a gradient",
                   xlabel="raw output v for b (the gate shuts to the right)", ylabel="size of the gradient by v")

# %%
print(f"v = {raw[-1]:.0f}, size of the gradient: task {-task_pull[-1]:.1e}, authors' rule {-slope_rate[-1]:.1e}, "
      f"signed rule {signed_push[-1].abs():.1e}")
print(f"task over authors' rule: {ratio[at_three]:.2f} at v = 3, {ratio[-1]:.2f} at v = {raw[-1]:.0f}")

# %% [markdown]
# You see the gradient of the signed term dip where the rate is at the target, because it changes its sign there. To the
# right of the dip it opens the gate, and it does not vanish. The other two curves fall together, and what counts is
# their ratio. In a nearly shut gate, even a draw that is not 0 is hardly above 0 and shows the predictor next to
# nothing. So where the gate is nearly shut, a multiplier far below the price of section 3 already outweighs the task.
#
# Training sees even less of the task. The task reaches the gate only through draws, and of a million draws of this
# gate, fewer than three are not 0 on average. The run has far fewer draws than that, so most probably none of them is
# open, and then the gradient of the task in training is exactly 0. So the gate shuts further at first, although we
# started its multiplier below the price. Later the multiplier is so small that it no longer matters, and yet the gate
# does not come back. Even without any constraint, this gate would not move.
#
# You may wonder how so small a gradient can shut the gate further, by a factor of several hundred. The reason is Adam,
# with which we train. Adam divides each gradient by the size of the recent gradients. So even a tiny gradient moves the
# gate, as long as it does not become smaller from step to step. Here it does become smaller, because both $S$ and
# $\lambda$ fall, and soon the gate stands still.
#
# The signed rule opens the gate again, but it overshoots. At each step below the target, its multiplier has added a
# negative gap. So when the rate reaches the target, the multiplier is still negative, and it pushes the rate further
# up. The printed lines have the highest rate. (On the logarithmic axis of the figure it is hard to see.)

# %% tags=["check"]
assert shut["authors' rule"].rate[0] == shut["signed rule"].rate[0] < 1e-4, "both start shut"
assert shut["authors' rule"].rate.max() < 1e-3, "the authors' rule does not come back"
if settles:
    alone = train_one_gate(toy_gates.FixedPrice(0.0), raw_a=-3, raw_b=6)
    few = alone.rate[0] * p.num_steps * p.batch_size < 0.1  # open draws to be expected in the whole training
    assert not few or alone.rate[-1] == alone.rate[0], "without a constraint and without open draws, nothing moves"
    assert shut["authors' rule"].multiplier[-1] < 1e-2, "although it hardly pushes any more"
    assert abs(shut["signed rule"].rate[-50:].mean() - p.selection) < 0.05, "the signed rule does"
    arrival = (shut["signed rule"].rate > p.selection).int().argmax()  # the first step above the target
    assert shut["signed rule"].multiplier[arrival] < 0, "the gaps on the way have made it negative"
    assert p.selection > 0.4 or shut["signed rule"].rate.max() > p.selection + 0.05, "so the rate overshoots"
rough = softplus(torch.tensor(3.0)).expand(p.num_samples).clone().requires_grad_()
drawn = HardKuma(closing.a[0], rough, p.left, p.right).rsample()
(by_draw,) = torch.autograd.grad(toy_gates.likelihood(drawn[:, None], torch.ones(1)).log().sum(), rough)
assert torch.equal(by_draw != 0, (0 < drawn) & (drawn < 1)), "a draw at 0 or 1 has no gradient"
error = 5 * by_draw.std() / p.num_samples**0.5 * torch.tensor(3.0).sigmoid()
difference = by_draw.mean() * torch.tensor(3.0).sigmoid() - task_pull[at_three]
assert task_pull[-1] / slope_rate[-1] < 0.1 * price_gate[0], "shut: a tenth of the price outweighs the task"
assert abs(difference) < error, "(S12), two ways: draws and the integral agree within five standard errors"

# %% [markdown]
# ### The sign or the log-odds?
#
# The signed rule differs from the authors' rule in more than one way. What opens the gate again? We keep the signed
# multiplier and the quadratic term, and put the difference $S - \tau$ in the place of the violation $c$ in log-odds.
# For two hundred steps, we train the gate of this section, which starts at $v = 6$, and one that is shut far more
# tightly, at $v = 30$. In which of the four runs will the gate open?

# %%
opening, short = {}, {**training, "num_steps": 200}
for violation_name, rule in (("S - tau", toy_gates.SignedDifference), ("c", Constraint)):
    for start in (6, 30):
        selector = toy_gates.toy_gate(p.left, p.right, -3.0, start)
        trace = toy_gates.hold_rate(rule(p.selection, **signed), selector, one_word, **short)
        opening[violation_name, start] = trace.rate
for (violation_name, start), rates in opening.items():
    print(f"v = {start:2}, violation {violation_name:7}: rate from {rates[0]:.1e} to {rates[-1]:.1e} in 200 steps")

# %% tags=["check"]
if settles and p.learning_rate >= 0.05:
    assert min(opening["S - tau", 6][-1], opening["c", 6][-1]) > 0.1, "if the term pushes up, this gate opens"
    assert opening["c", 30][-1] > 1e6 * opening["c", 30][0], "the tightly shut gate opens with c ..."
    assert opening["S - tau", 30][-1] < 2 * opening["S - tau", 30][0] < 1e-10, "... and not with the difference"
    assert shut["authors' rule"].rate[200] < 0.1 * shut["authors' rule"].rate[0], "under the authors' rule it moves ..."
    assert shut["authors' rule"].rate[-1] > 0.9 * shut["authors' rule"].rate[200], "... and then it stands still"

# %% [markdown]
# For the gate of this section, the sign is enough. Below the target, a negative multiplier and the quadratic term
# both push the rate up, whereas a positive multiplier never does. The gradient of $S$ is small, but Adam makes up for
# that. For the tightly shut gate, you need the log-odds. Adam adds $10^{-8}$ to the size by which it divides, so a
# gradient that is far smaller than this number moves nothing. The gradient of $S$ falls below every such number if
# the gate is shut tightly enough, and that of $c$ does not.

# %% [markdown]
# ## 7. A limit against winding up
#
# If we let a multiplier add up gaps, it can become too large. Take a target of 0.1 and a gate that starts open. While
# the gate closes, the gap is up to 0.9, and the multiplier adds it up. Once the rate is below the target, the gap is
# at most 0.1 in size. So the multiplier may need nine steps to lose what it gained in one. You may have met this in
# engineering as *integrator windup*.
#
# With the setting `gap_max` you limit the gap that moves the multiplier, in both directions. We write $g_{\max}$ for
# the limit. If you set it to the target, the multiplier rises as fast as it falls:
#
# $$\lambda \leftarrow \lambda + \eta \,\min\big(\max(g, -g_{\max}), g_{\max}\big).$$
#
# The default is no limit (`null`). To see the effect we take one gate without a task. Its rate is $\sigma(o)$, and
# gradient descent moves its logit $o$. We start at $o = 5$, where the gate is nearly always open, and hold the rate
# at 0.1, with the limit and without. How many steps do we need until the rate stays within 0.02 of the target?

# %%
limits = {"no limit": math.inf, "limit 0.1": 0.1}
wound = {name: toy_gates.hold_logit(Constraint(0.1, largest_gap=limit, **signed), start=5.0, num_steps=800)
         for name, limit in limits.items()}
settled_after = {name: 1 + int(((rates - 0.1).abs() > 0.02).nonzero().max()) for name, rates in wound.items()}
lowest_rate = {name: rates.min().item() for name, rates in wound.items()}

# %% tags=["figure"]
free, limited = wound
finding = f"The limit shortens the way to the target from {settled_after[free]} to {settled_after[limited]} steps"
figures.draw_panel(figures.draw_lines, range(1, 801), wound, title=finding, xlabel="training step", yscale="log",
                   ylabel="rate (log scale)", target=0.1, size=(9, 4.6), save=folder / "windup")

# %%
for name, lowest in lowest_rate.items():
    print(f"{name:13}: settled after {settled_after[name]} steps; the lowest rate is {lowest:.3f}, "
          f"{1 - lowest / 0.1:.0%} below the target")

# %% tags=["check"]
if settles:
    assert settled_after[limited] < settled_after[free] / 2, "with the limit, it settles in less than half the steps"
    assert lowest_rate[limited] > lowest_rate[free], "with the limit, the overshoot is smaller"
    assert (wound[free][-50:] - 0.1).abs().max() < 0.02, "without the limit, it settles too, only later"

# %% [markdown]
# A run whose gap stays below the limit is the same with the limit and without. We recommend the limit where gates
# start open and the target is small.
#
# Two more settings change when the constraint acts. With `multiplier_min: 0` the multiplier never becomes negative,
# so the term that it weights never rewards a higher rate. (The quadratic term still does.) With `constraint_from: 2`
# the constraint acts from the second epoch on, and until then only the task moves the gates. On sentence pairs we tried
# each of the two once, and neither made the model more accurate by more than chance (section 5 of `23_read_nli`).
#
# In one case only a limit of the multiplier helps. The package adds 0.001 to the softplus, so $b$ cannot be smaller.
# If the $b$ of a gate is at this bound, the gate is open with a probability above 99 %, whatever $a$ is, and $v$ has
# almost no gradient. So the rate stays near 1, and the multiplier grows at each step, for as long as you train. You can
# limit it with `multiplier_max`, which is `null` by default. The check takes such a gate, at $v = -45$.

# %% tags=["check"]
stuck = {limit: train_one_gate(Constraint(p.selection, largest=limit, **signed), raw_a=3, raw_b=-45)
         for limit in (math.inf, 1.0)}
for limit, trace in stuck.items():
    assert trace.rate.min() > 0.99, "the gate stays open"
    steady = p.multiplier_rate * (1 - p.selection) * p.num_steps  # nearly the same gap at each step
    assert abs(trace.multiplier[-1] - min(limit, steady)) < 0.02 * steady, "the multiplier grows, up to its limit"

# %% [markdown]
# ## Summary
#
# - A fixed price opens a single gate or shuts it. With many words it leads to some rate, but not to one that you
#   choose. So you need a multiplier that moves.
# - The gradient of the rate vanishes when the gates shut, and that of its log-odds does not (S6, S7).
# - At the saddle point, the multiplier is the price of text, which is how much loss one more unit of rate saves (S8).
# - The authors' rule multiplies the multiplier by a positive number at each step. So the multiplier stays positive,
#   starts late (S9, S10), and cannot reopen a gate that is nearly shut, because the gradient of the task vanishes with
#   the rate (S12).
# - A multiplier that adds up the gap, with a quadratic term in log-odds, holds a target from either side (S11). A limit
#   on the gap keeps it from winding up.
#
# ## Next
#
# So far we have held the *expected* rate. At test time a rule decides about each word, and the share of words that it
# selects may differ from the expected rate. In `07_decide_and_depend` we compare the two, let gates depend on each
# other, and start them at the target.

# %% [markdown]
# ## Exercises
#
# **Exercise 1** (predict, change, explain; 8 minutes). *Predict* what happens if $l$ is -0.01 instead of -0.1. Does the
# plateau of the gradient of $c$, for $S \to 0$, rise or fall (`plateau_moves`, "rises" or "falls")? *Change* $l$ and
# compute the size $\tau (1 - \tau)\, |\ln(1 - k_0^a)|$ of the plateau for both. Take the gate of section 2 ($a = \ln
# 2$) and the target `p.selection`. Call this `plateaus`, a dict with the keys -0.1 and -0.01, and give both numbers to
# six digits after the point. *Explain* the change with the probability that such a gate is exactly 0.

# %% tags=["prediction"]
plateau_moves = "falls"

# %% tags=["solution"]
plateaus = {}
for left_end in (-0.1, -0.01):
    k_zero = -left_end / (p.right - left_end)
    log_open = torch.tensor(1 - k_zero ** closing.a[0].item()).log().item()
    plateaus[left_end] = p.selection * (1 - p.selection) * abs(log_open)
    print(f"left = {left_end}: P(z = 0) at b = 1 {k_zero ** closing.a[0].item():.3f}, plateau {plateaus[left_end]:.6f}")
# A shorter tail has less mass below 0. The shape b is the exponent of the rest, so one unit of b shuts the gate less,
# and one unit back opens it less.

# %% tags=["check"]
for left_end, claimed in plateaus.items():
    raw_shut = torch.tensor(2000.0, requires_grad=True)  # S is 0 for all purposes
    gate_shut = HardKuma(torch.tensor(2.0).log(), softplus(raw_shut), left_end, p.right)
    slope_shut = torch.autograd.grad(gate_shut.log_prob_nonzero - gate_shut.log_prob_zero, raw_shut)[0]
    there = p.selection * (1 - p.selection) * slope_shut.abs().item()
    size = "too low" if claimed < there else "too high"
    assert abs(claimed - there) < 1e-6, f"`plateaus`: the size for l = {left_end} is {size}, or rounded too much"
lower = plateaus[-0.01] < plateaus[-0.1]
assert plateau_moves == ("falls" if lower else "rises"), "`plateau_moves` is not what you found"

# %% [markdown]
# **Exercise 2** (predict, change, explain; 12 minutes). Without the quadratic term, only the multiplier acts against
# the task, and it is a sum of gaps. *Predict* what the rate then does (`curve`, "settles" or "swings"). *Change*
# `quadratic` to 0 in `signed`, and train the one gate of section 5 at `p.selection` again with `train_one_gate`. Call
# the trace `loose`. *Explain* the curve with section 3. What in the loss of one gate makes one rate better than
# another?

# %% tags=["prediction"]
curve = "swings"

# %% tags=["solution"]
loose = train_one_gate(Constraint(p.selection, **{**signed, "quadratic": 0.0}))
print(f"extremes of the rate without the term {loose.rate.min():.3f} and {loose.rate.max():.3f}")
# Near the target, both the loss of the task and the term of the multiplier are nearly straight lines, so their sum has
# no minimum there. The gate runs to one end until the multiplier has crossed the price, and then to the other end. The
# quadratic term gives the loss a minimum near the target.

# %% tags=["check"]
moved = loose.multiplier.diff()
assert len(loose.rate) == p.num_steps, "`loose` is not the trace of a run of `train_one_gate`"
assert torch.allclose(moved, p.multiplier_rate * loose.gap[1:]), "`loose` does not follow the signed rule (S11)"
assert not loose.rate.equal(one.rate), "`loose` is the trace with the quadratic term"
again = train_one_gate(Constraint(p.selection, **{**signed, "quadratic": 0}))
assert torch.allclose(loose.rate, again.rate, atol=1e-6), "`quadratic` is not 0, or more has changed"
late = {"with": one.rate[-400:].std(), "without": loose.rate[-400:].std()}
print(f"standard deviation of the rate at the end: with the term {late['with']:.3f}, without {late['without']:.3f}")
if settles:
    assert curve == ("swings" if late["without"] > 5 * late["with"] else "settles"), "`curve`: look at `loose.rate`"
