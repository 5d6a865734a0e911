# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Read four papers in five meetings
#
# Suppose that you and some colleagues want to read the four papers behind this repository. You have five evenings,
# and you would like to compute in each of them, not only to talk. This page is your plan.
#
# **You will** plan a reading group on these notebooks. You will see what to prepare, which cells to run in front of
# everybody, which exercise to do together, and which question to argue about. You will also find every table and
# every figure of the papers, and you will see which of their claims hold here.
#
# **You will learn** where each result stands in this repository, which parameters made it, and which of its runs are
# committed. Where we have not reproduced a result, we say why.
#
# **You need** nothing. This notebook only reads the others, which takes a few seconds.

# %% tags=["parameters"]
minutes: int = 60  # length of a meeting

# %%
import re

import jupytext
import pandas as pd
from IPython.display import Markdown, display

from rationale import figures
from rationale.runs import committed, needed, root, validated, verdicts
from rationale.runs.exercises import exercises

# %%
p = validated(globals())
notebooks = {path.stem: jupytext.read(path) for path in sorted((root() / "notebooks").glob("*.py"))}
headings = {
    name: re.findall(r"^##+ (?:\d+\. )?(.*)$", "\n".join(cell.source for cell in notebook.cells), re.M)
    for name, notebook in notebooks.items()
}
tasks = {name: {one.number: one for one in exercises(notebook)} for name, notebook in notebooks.items()}


# %% [markdown]
# ## 1. Five meetings
#
# Here is an overview. Before each meeting, everybody reads the paper and the notebooks that stand in the column
# *prepare*. This takes one to two hours, and about three before meetings 2 and 3.
#
# - For meeting 2, read `01_choosing`, `02_kumaraswamy` (sections 1 to 3 and 7), `03_hardkuma` (1 to 5 and 8) and
#   `04_explore_shapes` (2 and 4).
# - For meeting 3, read `05_count_words` (sections 1 to 3), `03_hardkuma` (6, up to (H7)), `06_hold_a_rate` and
#   `08_reinforce` (1 to 3).
# - For meeting 4, read `40_sparse_attention` (sections 1 to 5, 8 to 10 and 13) and `13_train_nli` (2, without the box
#   on gates, which needs `07_decide_and_depend`).
# - For meeting 5, read `03_hardkuma` (section 11) and `41_diffmask` (1 to 7).
#
# | meeting | paper | prepare |
# |---|---|---|
# | 1 | Lei et al. 2016, without experiments (its random draws come in meeting 3) | `make demo`; `10_first_rationale` |
# | 2 | Bastings et al. 2019, sec. 1 to 3 | `01_choosing`, and parts of `02` to `04` (see above) |
# | 3 | Bastings et al. 2019, sec. 4 to 6 | `06_hold_a_rate`, and parts of `03`, `05` and `08` (see above) |
# | 4 | Niculae and Blondel 2017 | parts of `40_sparse_attention` and `13_train_nli` (see above) |
# | 5 | De Cao et al. 2020 | `41_diffmask`, sections 1 to 7, and a part of `03` (see above) |
#
# **Questions to discuss**
#
# 1. A selector sees the whole text, although the predictor does not. What can you still conclude from a rationale?
#    Name a rationale that predicts well and explains nothing. (You can train one in `16_failures`, and
#    `26_read_failures` compares what helps against it.)
# 2. We can draw the gates of a text and count the selected words. Why does the objective not contain this count, but a
#    sum of the probabilities $P(H \ne 0)$ (section 5 of `03_hardkuma`)?
# 3. You can constrain the average share of words, or you can charge a price per word. With which of the two can a
#    rationale become a *code*? A selection is a code if it tells the answer by which or how many words are selected,
#    and not by what they mean (`31_selection_rates`, section 13). What would you report beside the accuracy, so that
#    your readers would notice?
# 4. Softmax, sparsemax and fusedmax map the scores of words to weights. Which of these maps would you choose if you had
#    to show the weights to a user as an explanation? What does a weight of exactly 0 let you say?
# 5. Erasure looks for the smallest set of words that keeps one answer of a model, and it keeps too little. A probe of
#    DiffMask chooses words, too, but it has to be trained on many texts. Which of the two explains the *model*, and
#    which explains one of its answers?
#
# Here is the agenda of each meeting. The column *what* says what you do in each part. A section needs the cells before
# it, and some notebooks take minutes. So for a part called *run*, you run the whole notebook before the meeting, and
# then you run the cells of the section again in front of everybody. In an *exercise*, you work in pairs, in a copy of
# the notebook without the answers (`make handout`). In *discuss*, you talk about one of the five questions above. Its
# number is that of the meeting.

# %%
agenda = [  # meeting, minutes, what, notebook, section or number of the exercise
    (1, 10, "run", "10_first_rationale", "Reviews whose rationale we know"),
    (1, 10, "run", "10_first_rationale", "Did it find the true words?"),
    (1, 8, "run", "10_first_rationale", "The predictor sees nothing else"),
    (1, 10, "exercise", "10_first_rationale", 1),
    (1, 8, "run", "31_selection_rates", "A rationale that is a code"),
    (1, 14, "discuss", "", ""),
    (2, 10, "run", "01_choosing", "What one would wish for"),
    (2, 8, "run", "04_explore_shapes", "Four regimes of the shape"),
    (2, 10, "run", "04_explore_shapes", "Take the sliders"),
    (2, 8, "exercise", "04_explore_shapes", 2),
    (2, 12, "run", "03_hardkuma", "What flows through a rectified sample"),
    (2, 12, "discuss", "", ""),
    (3, 10, "run", "06_hold_a_rate", "Let the multiplier change its sign"),
    (3, 12, "exercise", "06_hold_a_rate", 2),
    (3, 8, "run", "08_reinforce", "What to subtract, and how many draws"),
    (3, 10, "run", "31_selection_rates", "Accuracy against selected text"),
    (3, 20, "discuss", "", ""),
    (4, 10, "run", "40_sparse_attention", "The maximum, smoothed"),
    (4, 10, "run", "40_sparse_attention", "Take the sliders"),
    (4, 12, "exercise", "40_sparse_attention", 3),
    (4, 8, "run", "23_read_nli", "Accuracy and open cells"),
    (4, 20, "discuss", "", ""),
    (5, 12, "run", "41_diffmask", "Hindsight"),
    (5, 10, "run", "41_diffmask", "The constraint"),
    (5, 8, "exercise", "41_diffmask", 2),
    (5, 10, "run", "24_read_probes", "Distance to the truth (Table 1)"),
    (5, 20, "discuss", "", ""),
]
plan = pd.DataFrame(agenda, columns=["meeting", "minutes", "what", "notebook", "where"])

def place(row) -> str:
    """Where a part of a meeting happens, in words."""
    if row.what == "discuss":
        return f"question {row.meeting}"
    return f"{row.notebook}, {f'exercise {row.where}' if row.what == 'exercise' else row.where}"


for meeting, part in plan.groupby("meeting"):
    shown = part[["minutes", "what"]].assign(where=[place(row) for row in part.itertuples()])
    display(Markdown(f"**Meeting {meeting}**"), figures.show_table(shown))

# %% tags=["check"]
for meeting, part in plan.groupby("meeting"):
    assert part["minutes"].sum() <= p.minutes, f"meeting {meeting} takes {part['minutes'].sum()} minutes"
for row in plan.itertuples():
    if row.what == "run":
        assert row.where in headings[row.notebook], f"{row.notebook} has no section {row.where}"
    if row.what == "exercise":
        assert tasks[row.notebook][row.where].minutes <= row.minutes, f"exercise {row.where} of {row.notebook}"

# %% [markdown]
# ## 2. All exercises
#
# Each exercise asks you to *predict*, *change* and *explain*. The minutes are those that we expect a pair to need,
# after it has run the notebook up to that point.

# %%
listed = [[name, len(found), sum(one.minutes for one in found.values())] for name, found in tasks.items() if found]
listed = pd.DataFrame(listed, columns=["notebook", "exercises", "minutes"])
print(f"{listed['exercises'].sum()} exercises, {listed['minutes'].sum() / 60:.1f} hours")
figures.show_table(listed)

# %% [markdown]
# ## 3. Where every table and figure is
#
# You know a table or a figure from one of the four papers, and you want to see it here. Look it up below. Each row
# names the notebook and the section that makes it, the parameter files and sweeps behind it (`make run`,
# `make sweep`), and its picture in `outputs/reference/figures/`. The rows are in `outputs/reference/papers.csv`. In
# the column *committed* we count the runs of each row that are committed in `outputs/reference/results.csv`.
#
# > The column *what differs* says how a row departs from the paper. It may have other data or another model. Among the
# > trained results, only the toy task of De Cao et al. has both the data and the model of its paper. On the Stanford
# > Sentiment Treebank (SST) the data are the paper's and the word vectors are not. We name the items of Lei et al. by
# > their content. The exception is the one table that other papers quote by its number.


# %%
def runs_behind(query: str) -> str:
    """How many committed runs a row rests on."""
    if not query:
        return "computed there"
    count = results.query(query, engine="python")["run"].nunique()
    return f"{count} run{'s' * (count != 1)}" if count else "none yet"


results = committed.read_results()
papers = verdicts.read_papers()
papers["committed"] = papers["results"].map(runs_behind).where(papers["notebook"] != "", "not here")
for paper, part in papers.groupby("paper", sort=False):
    found = (part["committed"] + ", " + part["figure"]).str.removesuffix(", ")
    part = part.assign(note=part["note"].str.replace("`", ""))
    shown = part.assign(where=(part["notebook"] + ", " + part["section"]).str.strip(", "), committed=found)
    shown = shown[["item", "what", "where", "from", "committed", "note"]].rename(columns={"note": "what differs"})
    display(Markdown(f"**{paper}**"), figures.show_table(shown))

# %% tags=["check"]
assert not papers.duplicated(["paper", "item"]).any(), "one row per item"
for row in papers.itertuples():
    where = f"{row.paper}, {row.item}"
    assert row.notebook or row.note, f"{where}: neither a notebook nor a reason"
    assert not row.notebook or row.section in headings[row.notebook], f"{where}: no such section: {row.section}"
    assert row.committed not in ("none yet", "not here") or row.note, f"{where}: nothing is committed, so say why"
    picture = committed.reference_folder() / "figures" / row.figure
    assert not row.figure or picture.is_file(), f"{where}: no {row.figure}"
for source in {source for sources in papers["from"] for source in sources.split()}:
    path = re.sub(r"^sweep:(\w+)$", r"params/sweeps/\1.yaml", source)
    assert (root() / path).is_file(), f"no {path}"

# %%
counted = papers["committed"].map(lambda text: text if text in ("computed there", "none yet", "not here") else "runs")
for of, counts in (("items", papers.groupby("paper", sort=False).size()), ("committed", counted.value_counts())):
    print(f"{of}: " + "; ".join(f"{name} {number}" for name, number in counts.items()))
print("nothing committed yet:", "; ".join(f"{row.paper}, {row.item}" for row in papers.itertuples()
                                          if row.committed in ("none yet", "not here")))  # fmt: skip

# %% [markdown]
# ## 4. What has become of each claim
#
# The papers claim more than their tables show. Below, each claim has one row. It says where the claim is made in the
# paper, where you find it here, and with which command you make its runs, and it gives a verdict. The claims are in
# `outputs/reference/claims.csv`, and the verdicts are computed below.
#
# - *reproduced*: the 95 % interval of our number agrees with the claim, or a check in the section asserts it. To agree
#   with a published number, the interval also has to be narrow. It may reach no further from the number than a tenth of
#   it (or than the number is rounded).
# - *contradicted*: the interval excludes the claim. *Why* names the experiment that found the cause. If there is none,
#   the verdict says that the cause is not known.
# - *open*: our runs cannot decide about the claim. Either there are too few seeds, or we have not measured what the
#   claim is about. Beside each open claim you see what would decide it. For numbers, this is the smallest number of
#   seeds whose interval would decide, if the means and spreads of the committed seeds stay as they are. The times are
#   those of similar runs that we have made. If no run has the numbers yet (*not run*), *why* says whether the rule by
#   which they will be judged is already fixed.
# - *out of reach*: we would need data or a model that we cannot get, or more seeds or more time than the limits that
#   are printed below. If even that many seeds would not decide, we say that the two numbers of the claim are too close
#   to call. You still see the interval that we have.
#
# > The column *on* says on which data and model the claim was examined, if they are not those of the paper. A claim
# > about beer reviews that holds for made-up reviews is reproduced on made-up reviews only. The intervals are those
# > of `rationale.statistics`: over seeds, or over the test texts where there is one seed. Some claims compare two
# > kinds of gates that were trained at several targets, on several corpora and aspects. There, each corpus counts once,
# > because all its pairs have the same texts, and the interval is over the corpora. Most published numbers come from a
# > single run. Our mean may be known so well that its interval excludes most single runs of the same model. So such a
# > number is contradicted only if it lies outside of the interval where we expect *one more run* of ours.


# %%
def commands(sources: str, notebook: str) -> str:
    """The commands that make the runs behind an item."""
    made_by = {True: "make sweep SWEEP={}", False: f"make run NOTEBOOK={notebook} PARAMS={{}}"}
    given = [(name.removeprefix("sweep:"), name.startswith("sweep:")) for name in sources.split()]
    return "; ".join(made_by[is_sweep].format(name) for name, is_sweep in given)


judged = verdicts.with_verdicts(verdicts.read_claims(), results)
print(f"out of reach here: more than {needed.HOURS:g} hours on one core, or more than {needed.MOST} seeds of a model")
trained_by = {"21": "11_train_reviews", "23": "13_train_nli", "24": "14_train_probes", "25": "15_train_seq2seq"}
places = papers.assign(where=(papers["notebook"] + ", " + papers["section"]).str.strip(", "))
places["command"] = [commands(row["from"], trained_by.get(row["notebook"][:2], row["notebook"]))
                     for row in papers.to_dict("records")]
for paper, part in judged.merge(places[["paper", "item", "where", "command"]], how="left").groupby("paper", sort=False):
    verdict = part["verdict"].where(~verdicts.cause_is_unknown(part), part["verdict"] + ", " + verdicts.NOT_KNOWN)
    part = part.assign(verdict=verdict, why=part["why"].str.replace("`", ""), on=part["on"].str.replace("`", ""))
    shown = part[["item", "claim", "verdict", "evidence", "cost", "on", "why", "where", "command"]]
    heads = {"evidence": "our numbers", "cost": "what would decide it"}
    display(Markdown(f"**{paper}**"), figures.show_table(shown.rename(columns=heads)))

# %% tags=["check"]
committed_verdicts = verdicts.read_claims()["verdict"]
assert judged["verdict"].equals(committed_verdicts), "stale: python -m tools.collect --tables-only"
items = set(zip(papers["paper"], papers["item"], strict=True))
assert set(zip(judged["paper"], judged["item"], strict=True)) == items, "each table and figure has a claim"
for row in judged.itertuples():
    assert row.verdict in verdicts.VERDICTS, row
    assert row.why or row.verdict == "reproduced", f"{row.paper}, {row.item}: {row.claim}: {row.verdict}, and why?"
    undecided = row.verdict == "open" or (row.verdict == "out of reach" and row.rule != "missing")
    assert bool(row.cost) == undecided, f"{row.paper}, {row.item}: {row.claim}: what would decide it?"

# %%
counts = judged.groupby(["paper", "verdict"], sort=False).size().unstack(fill_value=0)
counts = counts.reindex(columns=[name for name in verdicts.VERDICTS if name in counts])
shown = counts.rename_axis(columns=None)
shown.index = shown.index.str.replace(r" et al\.| and \w+", "", regex=True)  # so that the table fits on a phone
figures.show_table(shown, index="paper")

# %% [markdown]
# How many of these verdicts may be chance? A test at 5 % is wrong in one of twenty cases, so with many claims we expect
# some wrong verdicts of both kinds. We can ask for more. If we divide the 5 % by the number of claims (Bonferroni's
# correction), the intervals become wider, and probably not one of the decisions that remain is chance. How many remain?

# %%
by_interval = judged["evidence"].ne("") & ~judged["rule"].isin(["check", "none", "missing"])
decided = by_interval & judged["verdict"].isin([verdicts.REPRODUCED, verdicts.CONTRADICTED])
strict = verdicts.with_verdicts(verdicts.read_claims(), results, confidence=1 - 0.05 / by_interval.sum())
remains = strict["verdict"].eq(judged["verdict"])
for verdict in (verdicts.REPRODUCED, verdicts.CONTRADICTED):
    of_verdict = decided & judged["verdict"].eq(verdict)
    print(f"By an interval of 95 %, {of_verdict.sum()} claims are {verdict}. With the correction for "
          f"{by_interval.sum()} claims, {(of_verdict & remains).sum()} still are.")  # fmt: skip

# %% tags=["check"]
share = remains[decided].mean()
assert 0.4 < share < 0.7, "about half"

# %% [markdown]
# About half of the decisions remain. The others rest on few seeds, and each of them may be chance. So read a single
# verdict as what our runs say so far, and look at its interval before you build on it. The correction is strict. If a
# verdict does not survive it, it need not be wrong. We need more seeds to be sure.
#
# ## Summary
#
# You have an agenda for five meetings about four papers. You also have a map. It leads you from each table and figure
# of these papers to a section, its parameters and its committed runs, or it tells you that nothing is committed. Each
# claim has a verdict, which the committed numbers decide.
#
# ## Next
#
# In `10_first_rationale` you go the whole way once, in a minute or two. The README lists all notebooks in the order
# in which we would read them.
