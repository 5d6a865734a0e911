# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Count the words that gates select
#
# In `03_hardkuma` you built a gate, a random number that is exactly 0, exactly 1 or anything between, and you know
# the probability of each case. There it was called $H$, and from here on we call it $z$. In this notebook we put one
# such gate on each word of a text. We then ask two questions. What should such a model maximise? And how many words
# does it select?
#
# **You will** hide words from a predictor, find out what is maximised when nobody says which words are right, and
# count selected words without drawing a single sample.
#
# **You will learn**
# - why a word can only be hidden if its gate is exactly 0;
# - why training maximises a lower bound, and why this bound rewards gates that are nearly always open or nearly
#   always shut, but not short rationales;
# - why the *expected* number of selected words has a gradient, while the number in a sample has none;
# - how you count the switches between selected and unselected words;
# - why the average rate of the texts is not the share of all words.
#
# **You need** `03_hardkuma` (masses and samples). You need no data and no GPU. The cells run in less than a minute,
# and reading takes about 45 minutes with the exercises.

# %% tags=["parameters"]
seed: int = 0  # of the words, the predictor and the samples
left: float = -0.1  # lower end of the support of the stretched gate
right: float = 1.1  # upper end of that support
selection: float = 0.4  # mean rate of the texts in section 5, in (0, 1)
num_samples: int = 20000  # draws when sampling is compared with the exact value

# %%
import torch

from rationale import figures, models
from rationale.distributions import HardKuma
from rationale.nn import encoders, heads
from rationale.objectives import expected_selection, expected_transitions
from rationale.runs import results_folder, validated
from rationale.training import toy_gates
from rationale.training.toy_gates import likelihood

# %%
p = validated(globals())
folder = results_folder("05_count_words") / "figures"
torch.set_default_dtype(torch.float64)  # checks with all digits
torch.manual_seed(p.seed)
words = toy_gates.SENTENCE  # of the Stanford Sentiment Treebank
mask = torch.ones(1, len(words)).bool()  # [1, T]: one text, no padding

# %% [markdown]
# ## 1. Read only what is selected
#
# We begin with an experiment on the sentence at the end of `10_first_rationale`, which is from the Stanford Sentiment
# Treebank (SST). A *predictor* reads its eight words (the full stop is one of them) and predicts which of five classes
# the sentence belongs to, from very negative to very positive. We multiply each word vector by a gate $z$ before the
# predictor reads it. (In the code below, this is the mode "zero".) For now we set the gates by hand. Two words get
# $z = 1$, one word gets $z = 0.5$, and the other five get $z = 0$.

# %%
z = torch.tensor([1, 0, 1, 0, 0.5, 0, 0, 0])
figures.highlight_html(words, z, title="SST, “negative”; gates set by hand")

# %% [markdown]
# Now we take one word after the other and put a new random vector in its place. Each time we measure how far the
# prediction moves. Our measure is the sum of the absolute changes of the five probabilities. For which words will the
# prediction move? Decide before you look at the figure.

# %%
predictor = models.Predictor(encoders.LSTMEncoder(4, 8), heads.Classes(16, 5), mode="zero")
vectors = torch.randn(len(words), 4)  # one random vector per word
swapped = vectors.repeat(len(words), 1, 1)  # [T, T, 4]: in row t ...
swapped[range(len(words)), range(len(words))] = torch.randn(len(words), 4)  # ... word t is another word
with torch.no_grad():
    before = predictor(vectors.unsqueeze(0), mask, z.unsqueeze(0)).softmax(1)
    after = predictor(swapped, mask.expand(len(words), -1), z.expand(len(words), -1)).softmax(1)
change = (after - before).abs().sum(1)  # [T]
rounding = 1e-12  # the largest change that we take for a rounding error
visible = change.where(change > rounding, 0)

# %% tags=["figure"]
labels = [f"{word}\nz = {value:g}" for word, value in zip(words, z.tolist(), strict=True)]
figures.draw_panel(figures.draw_bars, labels, {"change": visible}, size=(9, 4), save=folder / "only_selected_words",
                   title="Only selected words can change the prediction", ylabel="sum of the absolute changes")

# %% tags=["check"]
assert (change[z == 0] < rounding).all(), "a word with z = 0 must not move the prediction"
assert (change[z > 0] > 1e-4).all(), "a word with z > 0 is read"

# %%
print(f"largest change by an unselected word: {visible[z == 0].max():.3g}")
print(f"smallest change by a selected word:   {visible[z > 0].min():.3g}")

# %% [markdown]
# Did you expect this? The five words with $z = 0$ change nothing. The word with $z = 0.5$ does change the
# prediction, although we have only let half of it through. This is why our gates need a *mass* at 0, which is a
# positive probability of the single value 0. A small positive gate would only make a word vector shorter, and the
# predictor could learn to make up for that.
#
# In a trained model nobody sets the gates by hand. We write $x$ for the text, $x_t$ for the vector of its word $t$,
# and $y$ for the label. A *selector* with weights $\phi$ reads the whole text and computes the two shapes $a_t$ and
# $b_t$ of each gate. The support from $l$ to $r$ is fixed. The predictor $f$ has weights $\theta$ and gives the
# probabilities of the classes. The label is one draw from these probabilities (Cat stands for *categorical*).
# Together they are an **extractor**:
#
# $$z_t \sim \mathrm{HardKuma}(a_t, b_t, l, r), \quad (a_t, b_t) = \mathrm{selector}_t(x; \phi), \qquad y \sim
# \mathrm{Cat}\big(f(x \odot z;\, \theta)\big). \tag{S1}$$
#
# Here $x \odot z$ is the text in which each $x_t$ is multiplied by its gate $z_t$. The paper (Bastings et al. 2019,
# sec. 2 and 5) says that a sequence of gates controls which word vectors are available for encoding, and that the
# gated sequence is the rationale.
#
# > Note what (S1) does not promise. The selector still reads everything. We know that the predictor used only the
# > selected words, and we know nothing about why they were selected.

# %% [markdown]
# ## 2. Maximise a lower bound
#
# Nobody tells us which words are right, so the gates are *latent*, which means that they are random and that the data
# do not contain their values. The probability of a label is therefore an average over everything that the gates might
# do. For HardKuma gates on a long text we cannot compute this average, but for eight coins we can. Eight gates that
# are only 0 or 1 have $2^8 = 256$ outcomes, and we can list all of them.
#
# We also take a predictor that needs no training. Each word has a `worth`, and the predictor becomes more certain of
# the right class the more worth it sees. The sentence and its class are real, but we have made up these worths for the
# example. *Pretentious* and *ruins* are worth most, and *potentially* counts because it takes something away from
# *terrific*.

# %%
figures.show_source(likelihood)

# %% [markdown]
# We compute two numbers for the same gates. One is the logarithm of the average probability, which is the
# log-likelihood that we would like to maximise. The other is the average of the logarithm, which is easy to sample.
# It will turn out that the second number never exceeds the first. So it is a *lower bound* on the first. The
# difference of the two is the *slack* of the bound, and the bound is called *tight* where the slack is nearly 0. We
# begin with fair coins and let the gates become more and more certain. A gate on a word worth more than 1/2 opens,
# and the others shut. What do you think happens to the slack?

# %%
worth = toy_gates.SENTENCE_WORTH  # of each word, for the task
patterns = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * len(words))  # [256, 8]: which words are selected
certainty = torch.linspace(0, 6, 61)
opens = torch.sigmoid(certainty[:, None] * (worth - 0.5))  # [61, 8]: P(z_t = 1), more and more certain
chances = torch.stack([(patterns * s + (1 - patterns) * (1 - s)).prod(1) for s in opens])  # [61, 256]
log_likelihood = (chances @ likelihood(patterns, worth)).log()
bound = chances @ likelihood(patterns, worth).log()
slack = log_likelihood - bound

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, certainty, {"log-likelihood minus the average logarithm": slack},
                   title="The bound is tight where the gates are certain",
                   xlabel="certainty (factor on the log-odds of the gates)", ylabel="nats", size=(8, 4.2),
                   limits={"ylim": (0, None)}, save=folder / "bound")

# %% tags=["check"]
assert ((chances.sum(1) - 1).abs() < rounding).all(), "the 256 patterns are all there is"
assert (slack > 0).all(), "Jensen: the average of the log lies below the log of the average"
assert slack[-1] < 0.1 * slack[0], "with certain gates little is left of the slack"
assert (bound <= likelihood(patterns, worth).log().max()).all(), "an average is at most its largest term"

# %%
print(f"slack of fair coins: {slack[0]:.4f} nats; of the most certain gates drawn: {slack[-1]:.4f} nats")
print(f"more text is better for this predictor: p(y | x, z) = {likelihood(torch.zeros(8), worth):.2f} without "
      f"words, {likelihood(torch.ones(8), worth):.2f} with all")

# %% [markdown]
# You see that the average logarithm stays below the log-likelihood. This is Jensen's inequality, because the
# logarithm is concave. We write $p(z \mid x)$ for the distribution of the gates of a text $x$,
# $E_{p(z \mid x)}$ for the average over gates drawn from it, and $p(y \mid x, z)$ for the probability that
# the predictor gives to the label $y$ when the gates are $z$:
#
# $$\ln p(y \mid x) = \ln E_{p(z \mid x)}\big[p(y \mid x, z)\big] \;\ge\;
# E_{p(z \mid x)}\big[\ln p(y \mid x, z)\big]. \tag{S2}$$
#
# We maximise the right side, because one draw of the gates estimates it without bias. The left side cannot be
# estimated in this way, because the logarithm of an average over a few draws is too small on average. The paper
# (sec. 2) derives the same bound, and adds that it may be seen as variational inference in which the approximate
# posterior is the data-dependent prior $p(z \mid x)$.
#
# > If these words are new to you, here is what they mean. The *prior* $p(z \mid x)$ says which gates are likely before
# > we have seen the label, and the *posterior* says which are likely afterwards. *Variational inference* replaces the
# > posterior by a distribution $q$ that we can draw from. One writes $p(y \mid x) = E_q[p(y \mid x, z)\, p(z
# > \mid x) / q(z)]$, and Jensen's inequality gives the bound $E_q[\ln p(y \mid x, z)] - \mathrm{KL}(q \,\|\,
# > p(z \mid x))$. (You find the KL divergence in section 8 of `02_kumaraswamy`. It is 0 if its two distributions are
# > equal.) Here $q$ *is* $p(z \mid x)$, so the KL term is zero. The prior is learned, and nothing pulls it towards a
# > fixed shape. Where does this lead? For one text, the right side of (S2) is an average over patterns, and an average
# > is at most its largest term. The average is largest if all the probability lies on the best pattern. So the bound
# > rewards gates that become certain.
#
# Does (S2) also reward short rationales? Look at the last printed line. This predictor loses nothing by reading
# everything, so nothing in (S2) keeps the gates from opening all the way. If we want short rationales, we have to
# count the selected words and ask for fewer of them.

# %% [markdown]
# ## 3. Count the selected words without sampling
#
# How many words does a HardKuma extractor select? We try three ways on the same eight gates. First, we draw many
# samples and count the gates that are not 0. Second, we list all 256 patterns of zero and nonzero gates and add up
# the probabilities of those with $k$ selected words. Third, we only add the eight probabilities $P(z_t \ne 0)$.

# %%
a, b = 0.1 + worth / 4, torch.ones(len(words))
a.requires_grad_()
gates = HardKuma(a, b, p.left, p.right)
nonzero = gates.log_prob_nonzero.exp()  # [8]
rate = expected_selection(nonzero.unsqueeze(0), mask)[0]
chance = (patterns * nonzero + (1 - patterns) * gates.prob_zero).prod(1).detach()  # [256]
counts = patterns.sum(1)  # [256]: words selected in each pattern
draws = gates.rsample((p.num_samples,))  # [N, 8]
sampled_counts = (draws != 0).sum(1)  # [N]

# %% tags=["figure"]
pairs = {"enumerated": [chance[counts == k].sum() for k in range(9)],
         "sampled": [(sampled_counts == k).double().mean() for k in range(9)]}
figures.draw_panel(figures.draw_bars, range(9), pairs, title="The 256 patterns and the samples agree",
                   ylabel="probability", fmt="", size=(9, 4.2), limits={"xlabel": "selected words, of 8"},
                   save=folder / "selected_words")

# %%
print(f"expected rate: eight masses {rate:.6f}, enumerated {chance @ counts / 8:.6f}, "
      f"sampled {sampled_counts.double().mean() / 8:.4f}")

# %% [markdown]
# You see that all three agree, and the third is by far the cheapest. To see why it is right, write the count as a sum
# of *indicators*. The indicator $\mathbb{1}[z_t \ne 0]$ is 1 if word $t$ is selected and 0 if not. The expectation of
# a sum is the sum of the expectations, and the expectation of an indicator is a probability. We divide by the number
# $n$ of words and call the result the **expected rate** $S$ of the text:
#
# $$S = \frac1n\, E\Big[\sum_{t=1}^{n} \mathbb{1}[z_t \ne 0]\Big] = \frac1n \sum_{t=1}^{n} \big(1 -
# P(z_t = 0)\big) = \frac1n \sum_{t=1}^n \big(1 - k_0^{\,a_t}\big)^{b_t}, \qquad k_0 = \frac{-l}{r-l}.
# \tag{S3}$$
#
# You know $k_0$ from (H2). It is the point that is stretched to 0. The paper (sec. 4) notes that the expected value
# of $L_0(z)$, the number of nonzero gates, is known in closed form because the cdf is.
#
# > Why do we not simply count in a sample? The count of a sample is piecewise constant in the shapes, so its derivative
# > is 0 wherever it exists. The masses in (S3) change smoothly with the shapes, so $S$ has a gradient that training can
# > follow. Note also that (S3) does not assume independent gates. The expectation of a sum is the sum of the
# > expectations, even if the gates depend on each other. The next formula, (S4), does need independence.

# %% tags=["check"]
assert abs(chance @ counts / 8 - rate) < rounding, "256 patterns and eight masses give one number"
allowed = 5 * sampled_counts.double().std() / p.num_samples**0.5  # five standard errors
assert abs(sampled_counts.double().mean() - 8 * rate) < allowed
assert draws.requires_grad and not sampled_counts.requires_grad, "counting cuts the gradient"
(slope,) = torch.autograd.grad(rate, a)
k_zero = torch.tensor(-p.left / (p.right - p.left))
power = k_zero ** a.detach()
by_hand = -b * (1 - power) ** (b - 1) * power * k_zero.log() / 8
assert torch.allclose(slope, by_hand) and (slope > 0).all(), "the rate grows with every a"

# %% [markdown]
# ## 4. Count the switches
#
# You would find a rationale of scattered single words hard to read. A rationale made of phrases is easier, and it
# switches rarely between selected and unselected words. So we also count the **switches**, which are the pairs of
# neighbours of which exactly one is selected.
#
# We take the same eight gates in three orders. In the first order they are sorted by $P(z_t \ne 0)$, in the second they
# stand as in section 3, and in the third likely and unlikely words alternate. In the figure, $S$ is the expected rate,
# and $L$ is the expected number of switches, divided by the number of words. Which of the two do you expect to depend
# on the order?

# %%
def switches(selected):
    """Number of switches per word, [..., n] -> [...]."""
    return (selected[..., 1:] != selected[..., :-1]).sum(-1) / selected.shape[-1]


def both_rates(nonzero):
    """S and L of one text, [n] -> two numbers."""
    batch = nonzero.detach().unsqueeze(0)
    return expected_selection(batch, mask).item(), expected_transitions(1 - batch, batch, mask).item()


ordered = nonzero.sort(descending=True).values
orders = {"sorted": ordered, "as written": nonzero, "alternating": ordered[[0, 7, 1, 6, 2, 5, 3, 4]]}
found = {name: both_rates(order) for name, order in orders.items()}

# %% tags=["figure"]
columns = dict(zip(("S, selected", "L, switches"), zip(*found.values(), strict=True), strict=True))
figures.draw_panel(figures.draw_bars, list(found), columns, title="The same gates in another order: S stays, L moves",
                   ylabel="per word", size=(8, 4.2), save=folder / "switches")

# %%
for name, (_, switching) in found.items():
    print(f"{name:11}: {8 * switching:.3f} switches among 8 words, {switching:.4f} per word, "
          f"{8 * switching / 7:.4f} per pair")

# %% [markdown]
# The rate $S$ is the same in every order, and the expected number of switches is not. How do we compute it? Look at
# two neighbours. There is a switch if the first gate is 0 and the second is not, or if the first is not 0 and the
# second is. If the gates are independent given the text, the probability of each case is a product of two masses. For
# the words $t$ and $t+1$ we add the two products in brackets, and then we sum over all pairs of neighbours:
#
# $$L = \frac1n \sum_{t=1}^{n-1} \Big[P(z_t = 0)\,P(z_{t+1} \ne 0) + P(z_t \ne 0)\,P(z_{t+1} = 0)\Big]. \tag{S4}$$
#
# The paper (sec. 4) describes the expected number of changes between zero and nonzero as a relaxation of the fused
# lasso. (The fused lasso is a penalty on differences between neighbours.)
#
# > $L$ counts changes between 0 and *not* 0. It does not measure $|z_t - z_{t+1}|$, so going from 0.3 to 1 is not a
# > switch. A text of $n$ words has $n-1$ pairs of neighbours, but we divide by $n$, as the authors' code does. Then
# > $S$ and $L$ have the same unit, which is "per word".

# %% tags=["check"]
assert abs(chance @ switches(patterns) - found["as written"][1]) < rounding, "enumeration of 256 patterns"
in_samples = switches(draws != 0)
assert abs(in_samples.mean() - found["as written"][1]) < 5 * in_samples.std() / p.num_samples**0.5
assert max(s for s, _ in found.values()) - min(s for s, _ in found.values()) < rounding, "S does not depend on order"
assert found["sorted"][1] < found["as written"][1] < found["alternating"][1], "L does"

# %% [markdown]
# ## 5. Average over texts, or over words
#
# So far we had one text. Training sees a *batch* of texts of different lengths, and then "the rate" may mean two
# things. You can average the rates of the texts, or you can divide the number of all selected words by the number of
# all words. Do you expect the two to agree?
#
# We make 200 texts of 3 to 40 words and give each of them a rate. The rate is a linear function of the length, and each
# point of the figure belongs to one slope. The slope is the change of the rate if a text gets longer by the mean length
# of all texts. In the middle of the figure all texts have the same rate. Towards the left end, long texts have lower
# rates than short ones, and towards the right end they have higher rates. The mean over the texts is the same
# everywhere.

# %%
lengths = torch.randint(3, 41, (200,))  # n_i, words in each of 200 texts
relative = lengths / lengths.double().mean() - 1  # 0 for a text of mean length
steepest = 0.375 * min(p.selection, 1 - p.selection)  # so that all rates are in (0, 1)
slopes = torch.linspace(-steepest, steepest, 31)  # change of the rate per mean length
rates = p.selection + slopes[:, None] * relative  # [31, 200]: linear in the length
over_texts = rates.mean(1)
over_words = (rates * lengths).sum(1) / lengths.sum()

# %% tags=["figure"]
figures.draw_panel(figures.draw_lines, slopes, {"mean over texts": over_texts, "share of words": over_words},
                   title="The share of words is nearer to the rate of the long texts", ylabel="rate", size=(8, 4.2),
                   xlabel="change of the rate per mean length", save=folder / "texts_or_words")

# %%
print(f"at the left end: {100 * over_texts[0]:.1f} % over texts, {100 * over_words[0]:.1f} % of all words")

# %% [markdown]
# You see that the two numbers agree only in the middle. Let us name the quantities. We have $B$ texts in the batch.
# Text $i$ has $n_i$ words and the expected rate $S_i$, which is (S3) for this text. Then the two averages differ by a
# covariance over the texts:
#
# $$\underbrace{\frac{\sum_i n_i S_i}{\sum_i n_i}}_{\text{over words}} = \underbrace{\frac1B \sum_i
# S_i}_{\text{over texts}} + \frac{\mathrm{Cov}(n_i, S_i)}{\frac1B\sum_i n_i}. \tag{S5}$$
#
# You can confirm (S5) by writing the covariance as the mean of $n_i S_i$ minus the product of the two means. The
# authors' code constrains the mean over texts and reports the share of words.
#
# > The two agree exactly if rate and length are uncorrelated. Now suppose that a selector keeps a fixed *number* of
# > words. It then keeps a smaller share of a long text, so the covariance is negative. If a constraint holds the mean
# > over texts at a target, the reported share of words then lies below this target.

# %% tags=["check"]
covariance = ((rates - over_texts[:, None]) * (lengths - lengths.double().mean())).mean(1)
assert torch.allclose(over_words, over_texts + covariance / lengths.double().mean())
padded = torch.arange(40) < lengths[:, None]  # [200, 40]
filled = torch.where(padded, rates[0][:, None], 0.9)  # 0.9 stands at padding, and must not count
assert torch.allclose(expected_selection(filled, padded).mean(), over_texts[0])
assert ((rates > 0) & (rates < 1)).all(), "a rate is a share"

# %% [markdown]
# ## Summary
#
# - A predictor cannot use a word whose gate is exactly 0, so we need gates with a mass at 0 (S1).
# - Training maximises a lower bound on the log-likelihood. The prior in this bound is learned, so there is no KL term.
#   The bound rewards gates that are nearly always open or nearly always shut, and it does not ask for short rationales
#   (S2).
# - The expected rate $S$ and the expected switches $L$ are sums of masses. They are exact, they have gradients, and
#   nothing is sampled (S3, S4). For $L$ the gates have to be independent given the text.
# - The mean rate of the texts and the share of all words differ by a covariance of rate and length (S5).
#
# ## Next
#
# You can count now, and you have seen that nothing keeps the gates from opening. In `06_hold_a_rate` we make a
# multiplier hold $S$ at a rate that you choose.

# %% [markdown]
# ## Exercises
#
# **Exercise 1** (predict, change, explain; 8 minutes). Take two texts, of 8 and of 40 words, in which nothing is
# selected. The predictor has two modes. In the mode "zero" it reads a zero vector in the place of each unselected
# word, and in the mode "compact" the unselected words are removed and the gaps are closed. *Predict* for both modes
# whether its answers to the two texts can differ. Call this `differ`, a dict of "zero" and "compact" to True or
# False. *Change* the mode of `predictor`, and compute in each mode the probabilities of the five classes for the two
# texts. Add up the absolute differences between the two. Call the sums `apart`, a dict of the same keys. *Explain* what
# an LSTM does with a zero vector.

# %% tags=["prediction"]
differ = {"zero": True, "compact": False}

# %% tags=["solution"]
apart = {}
for mode in differ:
    predictor.mode = mode
    with torch.no_grad():
        eight, forty = (predictor(torch.randn(1, n, 4), torch.ones(1, n).bool(), torch.zeros(1, n)).softmax(1)
                        for n in (8, 40))
    apart[mode] = (eight - forty).abs().sum().item()
    print(f"{mode:7}: predictions of two empty rationales differ by {apart[mode]:.1e}")
predictor.mode = "zero"
# The LSTM takes a step for a zero vector too, and its biases move the state. The length of the text and the gaps
# between selected words therefore reach the prediction. In mode `compact` the predictor takes no such steps.

# %% tags=["check"]
for mode, claimed in apart.items():
    again = models.Predictor(predictor.encoder, predictor.head, mode=mode)  # the same weights in another mode
    with torch.no_grad():
        empty = [again(torch.zeros(1, n, 4), torch.ones(1, n).bool(), torch.zeros(1, n)).softmax(1) for n in (8, 40)]
    measured_apart = (empty[0] - empty[1]).abs().sum().item()
    size = "too low" if claimed < measured_apart else "too high"
    assert abs(claimed - measured_apart) < rounding, f"`apart` is {size} for the mode {mode}"
    assert differ[mode] == (measured_apart > rounding), f"`differ` is not right about mode {mode}"
assert set(apart) == set(differ) == {"zero", "compact"}, "`apart` and `differ` have both modes, and nothing else"

# %% [markdown]
# **Exercise 2** (predict, change, explain; 10 minutes). Give all eight words the same $P(z_t \ne 0) = s$. *Predict* for
# which $s$ the expected number of switches is largest (`best_s`), and how large $L$ is there (`best_switches`, exact
# and not rounded).
# *Change* $s$ to 0, 0.01, 0.02, ... 1 and compute $L$ for each (`along_s`, a list of 101 numbers). Let `never` be the
# set of the two $s$ with $L = 0$. *Explain* what these two values of $s$ tell you about a target of zero switches.

# %% tags=["prediction"]
best_s, best_switches = 0.5, 7 / 8 * 2 * 1 / 4

# %% tags=["solution"]
grid_s = torch.linspace(0, 1, 101)
along_s = [both_rates(s.expand(8))[1] for s in grid_s]
most = max(range(101), key=along_s.__getitem__)
never = {s.item() for s, found_there in zip(grid_s, along_s, strict=True) if found_there < rounding}
print(f"largest at s = {grid_s[most]:.2f}: L = {along_s[most]:.4f}")
# If nothing or everything is selected, there are no switches. A target of 0 drives every text to one of the two.

# %% tags=["check"]
def switches_at(s):
    """L of equal gates, by summing over the 256 patterns."""
    return ((s**counts * (1 - s) ** (8 - counts)) * switches(patterns)).sum().item()


size = "too low" if best_switches < switches_at(best_s) else "too high"
assert abs(switches_at(best_s) - best_switches) < rounding, f"`best_switches` is {size} at your `best_s`"
higher = [s for s in (best_s - 0.001, best_s + 0.001) if switches_at(s) > best_switches]
assert not higher, f"at s = {higher} there are more switches"
for k, claimed in zip(range(101), along_s, strict=True):
    assert abs(claimed - switches_at(k / 100)) < 1e-6, f"`along_s` is not right at s = {k / 100}"
different = {round(float(s), 6) for s in never}
assert len(different) == 2 and all(switches_at(s) < rounding for s in different), "L is not 0 at both of `never`"
