"""A page never fails because the reader's own runs differ from ours; what it says of ours is checked, and can fail."""

import json
import random
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml
from torch import nn

from rationale.data.corpora.synthetic import GRADES
from rationale.errors import BadInput
from rationale.nn.gates import GATES, HardKumaGate
from rationale.runs import RunFailed, claims, committed, compare, notebook_path, root
from rationale.runs.cells import defaults, notebook_settings
from rationale.runs.parameters import modernised, resolve
from rationale.runs.yaml_files import as_override
from tests.depth import slow_or_deep
from tests.forked import run_forked
from tests.in_process import NOT_CHECKED, cells, run_cells
from tests.smoke import smoke_items, smoke_parameters


def told(failed: dict[str, Exception]) -> list[str]:
    """The errors of the cells that failed, in words."""
    return [f"{type(error).__name__}: {error}" for error in failed.values()]


# --- whose runs these are


def test_settings_are_ours_only_if_they_are_the_defaults_or_those_of_a_committed_run(capsys):
    records = json.loads((committed.reference_folder() / "runs.json").read_text(encoding="utf-8"))
    first = {record["run"].split("/")[0]: record for record in reversed(records)}
    for notebook, record in first.items():
        known = defaults(notebook_path(notebook))
        given = {name: value for name, value in modernised(record["parameters"]).items() if name in known}
        for p in (notebook_settings(notebook_path(notebook)), notebook_settings(notebook_path(notebook), **given)):
            assert claims.apply_to(p, notebook) and claims.apply_to(vars(p) | {"device": "other"}, notebook), notebook
            assert not capsys.readouterr().out
            assert not claims.apply_to(vars(p) | {"learning_rate": 1e-8}, notebook)
            printed = capsys.readouterr().out.splitlines()
            assert len(printed) == 1 and NOT_CHECKED in printed[0], "one line says what is left out"
    assert set(first) == set(compare.TASKS), "each notebook that trains has a committed run"


def test_what_16_says_of_its_default_run_is_not_asked_of_the_other_runs_of_its_sweeps(capsys):
    usual, rescued = (notebook_settings(notebook_path("16_failures"), **changes)
                      for changes in ({}, {"skew": "none", "guidance": 1.0, "guided": 0.1}))  # fmt: skip
    assert claims.apply_to(usual, "16_failures", only_defaults=True) and not capsys.readouterr().out
    assert claims.apply_to(rescued, "16_failures"), "a committed run"
    said = [cell for cell in cells("16_failures") if "claims.apply_to" in cell and "recall_informative" in cell]
    assert len(said) == 1
    kinds = dict.fromkeys(("selected_opinions", "selected_phrases", "selected_aspects", "selected_others"), 0.25)
    found = {"accuracy": 0.99, "recall_informative": 0.9, "rate_selected": 0.1, "precision": 0.5, **kinds}
    place = {"scores": {"test": found}, "splits": {"test": []}, "KINDS": kinds, "claims": claims}
    exec(said[0], place | {"p": rescued})
    assert NOT_CHECKED in capsys.readouterr().out
    with pytest.raises(AssertionError, match="misses nearly all reasons"):
        exec(said[0], place | {"p": usual})


# --- what is said of the committed results


RATE, SELECTED = "metric == 'rate_selected'", "metric == 'rate_selected' and model == "
TAMPERED = [  # notebook; what must fail: the results that are changed, v -> times v + plus
    ("31_selection_rates", {
        "more text, more accuracy": ("model == 'hardkuma' and metric == 'accuracy'", -1, 1),
        "the full validation set": ("metric == 'words_0'", 1, 1),
        "better than selecting at random": ("metric == 'word_precision'", 0, 0),
        "at 5 % is a code": ("model == 'bernoulli' and metric == 'count_tells'", 0, 1),
        "`larger_at_10` is not": (f"{RATE} and target == 0.1", 1, 0.1),
    }),
    ("31_selection_rates", {
        "the lines cross": (f"{SELECTED} 'bernoulli'", -0.01, 1),
        "(R16)": ("metric == 'count_tells'", 0, 0),
        "no more words are kept": ("metric == 'selected_0'", 1, 9999),
    }),
    ("31_selection_rates", {
        "ours are within two points": ("sparsity == 0.01 and seed == 5 and metric == 'accuracy'", 1, 0.1),
        "a code at a fifth": ("target == 0.2 and metric == 'count_tells'", 0.8, 0),
        "among the seeds with zero vectors": ("settings == 'predictor=compact' and metric == 'accuracy'", 1, -0.1),
    }),
    ("31_selection_rates", {"same share": ("model == 'bernoulli' and metric == 'selected_2'", 0.5, 0)}),
    ("32_reviews", {
        "better from a tenth": ("model == 'hardkuma' and metric == 'mse'", 1, 1),
        "one number for each corpus": ("target == 0.1 and metric == 'recall'", 0.5, 0),
        "a model without gates reads everything": (f"{SELECTED} 'full_text'", 0.5, 0),
    }),
    ("32_reviews", {"a twentieth is enough": ("metric == 'precision'", 0.5, 0)}),
    ("32_reviews", {"not by chance": ("model == 'hardkuma' and corpus == 'movies' and metric == 'precision'", 0.1, 0)}),
    ("32_reviews", {"about twice": ("corpus == 'movies' and metric == 'blind_last_words'", 0.7, 0)}),
    ("32_reviews", {"worse than the last words": ("model == 'bernoulli' and metric == 'blind_last_words'", 0.6, 0)}),
    ("32_reviews", {
        "one of four targets": ("model == 'bernoulli' and target == 0.15 and metric == 'accuracy'", 1, 0.1),
    }),
    ("32_reviews", {
        "hardly better": ("model == 'bernoulli' and corpus == 'movies' and metric == 'blind_random_span'", 0.5, 0),
    }),
    ("32_reviews", {
        "one of two seeds failed": ("model == 'bernoulli' and corpus == 'synthetic' and metric == 'mse'", 0.1, 0.05),
    }),
    ("23_read_nli", {
        "weights of softmax underflow": (f"{SELECTED} 'softmax'", 0.5, 0),
        "behind, within two points": ("model == 'sparsemax' and metric == 'accuracy'", 1, -0.1),
    }),
    ("23_read_nli", {
        "none is slow": ("settings == 'gamma=4.0' and model == 'sparsemax' and metric == 'accuracy'", 1, -0.02),
        "less than half on average": ("model == 'fusedmax' and metric == 'segments_1'", 1, 0.2),
    }),
    ("23_read_nli", {
        "without alignment": (f"{SELECTED} 'recurrent'", 0.5, 0),
        "six points": ("model == 'recurrent' and metric == 'accuracy'", 1, -0.1),
    }),
    ("23_read_nli", {
        "hardly any cell": ("network == 'measure=training' and metric == 'rate_selected'", 1, 0.1),
        "fewer than half": ("metric == 'accuracy_shut'", 1, 0.5),
    }),
    ("24_read_probes", {
        "nearer to the truth": ("model == 'states' and metric == 'js_1'", 1, 1),
        "erasure is the search": ("model == 'erasure' and metric == 'answer_optimality'", 0.5, 0),
        "those of the table": ("model == 'masks_by_score' and metric == 'optimality'", 0, 0),
    }),
    ("24_read_probes", {"can count": ("model == 'subject' and metric == 'accuracy'", 0.5, 0)}),
    ("24_read_probes", {
        "about six points smaller": (
            "run.str.contains('multiplier_init3') and model == 'masks_by_score' and metric == 'optimality'", 1, 0.1
        ),
        "exactly those of before": ("run.str.contains('margin0.25-subjectxquad') and metric == 'inner_gap'", 1, 0.01),
    }),
    ("25_read_seq2seq", {
        "the softmax has no zeros": ("model == 'softmax' and metric == 'zeros'", 1, 0.5),
        "behind softmax": ("model == 'sparsemax' and metric == 'bleu'", 1, 10),
    }),
    ("25_read_seq2seq", {"weak": ("corpus == 'aeslc' and metric == 'rouge1'", 1, 10)}),
    ("25_read_seq2seq", {
        "level with softmax, and ahead": ("run.str.endswith('gamma16-seed3') and metric == 'bleu'", 1, -6),
        "softmax does not gain": ("run.str.endswith('softmax-gamma4-seed1') and metric == 'bleu'", 1, 3),
    }),
    ("25_read_seq2seq", {
        "all eight are ahead": ("run == '15_train_seq2seq/oscarmax-gamma4-seed1' and metric == 'bleu'", 1, -2),
    }),
]  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize(("notebook", "changes"), TAMPERED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_a_page_says_of_the_committed_results_is_checked(notebook, changes, tmp_path, monkeypatch):
    table = committed.read_results()
    for query, times, plus in changes.values():
        rows = table.query(query).index
        assert len(rows), f"no result has {query}"
        table.loc[rows, "value"] = times * table.loc[rows, "value"] + plus
    monkeypatch.setattr(committed, "read_results", lambda: table.copy())
    failed, _ = run_cells(notebook, tmp_path, monkeypatch, pictures=notebook.startswith("24"))
    errors = told(failed)
    for message in changes:
        assert any(message in error for error in errors), f"{message!r} has not failed, but: {errors}"


@pytest.mark.slow
def test_a_probe_counts_once_although_a_run_with_more_methods_has_its_seed_and_settings(tmp_path, monkeypatch, capsys):
    failed, _ = run_cells("24_read_probes", tmp_path, monkeypatch, pictures=True)
    assert not told(failed)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Here are the layers")]
    rows = pd.read_csv(committed.reference_folder() / "results.csv", dtype=str, keep_default_na=False)
    rows = rows[rows["corpus"].eq("sst") & rows["split"].eq("test") & ~rows["network"].str.startswith("gru")]
    probes = rows[rows["model"].eq("states") & rows["settings"].str.contains(r"margin=0\.1,")].drop_duplicates("run")
    probes = probes.assign(same=probes["settings"].str.replace(r"num_explained=\d+, ", "", regex=True))
    distinct = probes.sort_values("settings", key=lambda texts: texts.str.contains("num_explained"))
    distinct = distinct.drop_duplicates(["seed", "same"])
    assert 1 < len(distinct) < len(probes), "there is such a run"
    alone = rows[rows["model"].eq("subject") & rows["metric"].eq("macro_f1") & rows["run"].isin(distinct["run"])]
    line = next(line for line in lines if "probe of states, margin 0.1 (" in line)
    assert f"(mean of {len(distinct)} probes)" in line, line
    assert f"the macro-F1 is {alone['value'].astype(float).mean():.3f}." in line, "of the same models"


@pytest.mark.slow
def test_what_25_says_of_the_spread_of_the_maps_in_the_paper_is_that_of_its_tables(tmp_path, monkeypatch, capsys):
    failed, _ = run_cells("25_read_seq2seq", tmp_path, monkeypatch, pictures=True)
    assert not told(failed)
    printed = capsys.readouterr().out
    published = pd.read_csv(committed.reference_folder() / "published.csv")
    duc = published.query("corpus == 'duc2004' and metric == 'rouge1'")
    spread = duc["value"].max() - duc["value"].min()
    assert spread > 1, "softmax is more than a point behind"
    assert f"{spread:.1f} on DUC 2004" in printed and "no map is so far behind" not in printed


def test_a_share_of_rows_that_would_tell_the_distance_the_other_way_round_fails_the_check_of_25(tmp_path, monkeypatch):
    rows = pd.read_csv(committed.reference_folder() / committed.ATTENTION_ROWS)
    bleu = committed.read_results().query("split == 'test' and metric == 'bleu'").set_index("run")["value"]
    first = rows[rows["step"].eq(100)].copy()
    parts = zip(first["model"], first["gamma"], first["language"], strict=True)
    first["bleu"] = [bleu["15_train_seq2seq/" + model + "-gamma4" * (gamma == 4) + "-languagefr" * (language == "fr")
                          + "-seed1"] for model, gamma, language in parts]  # fmt: skip
    of_softmax = {"de": bleu["15_train_seq2seq/softmax-seed1"], "fr": bleu["15_train_seq2seq/softmax-languagefr-seed1"]}
    gains = first["bleu"] - first["language"].map(of_softmax)
    first["no_gradient"] = 0.1 + 0.8 * gains.rank(pct=True)  # those that are ahead have more
    first.loc[first["model"].eq("fusedmax") & first["gamma"].eq(4), "no_gradient"] = 0.1  # fewer, as the page says
    rows.loc[first.index, "no_gradient"] = first["no_gradient"]
    changed = tmp_path / "rows.csv"
    rows.to_csv(changed, index=False)
    monkeypatch.setattr(committed, "ATTENTION_ROWS", str(changed))  # an absolute path replaces the folder
    failed, _ = run_cells("25_read_seq2seq", tmp_path, monkeypatch)
    assert any("the share at first does not tell" in error for error in told(failed)), told(failed)


@pytest.mark.parametrize(
    ("notebook", "first"), [("23_read_nli", "13_train_nli"), ("25_read_seq2seq", "15_train_seq2seq")]
)
def test_a_page_without_runs_says_what_a_table_would_show_and_gives_commands_that_make_it(
    notebook, first, tmp_path, monkeypatch, capsys
):
    failed, _ = run_cells(notebook, tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert not told(failed) and "you see one row per run" in printed
    commands = re.findall(r"^    make run NOTEBOOK=(\S+) PARAMS=(.+)$", printed, re.M)
    (trains, file), (reads, runs) = commands
    assert (trains, reads) == (first, notebook) and (root() / file).is_file()
    assert resolve(notebook_path(trains), [file]) and resolve(notebook_path(reads), [runs.strip('"')])
    assert runs == f'"runs=[{Path(file).stem}]"', "a run is named after its file"


# --- own runs, of which only the measured numbers are read


def own_run(folder: Path, notebook: str, metrics: dict, faithfulness: dict | None = None, **changes) -> str:
    """Write what a comparison reads of a run; return its name."""
    folder = folder / notebook / "-".join(f"{name}{value}" for name, value in changes.items())
    folder.mkdir(parents=True)
    (folder / "params.yaml").write_text(yaml.safe_dump(defaults(notebook_path(notebook)) | changes))
    (folder / "metrics.json").write_text(json.dumps(metrics | {"best_epoch": 1, "seconds": 1.0}))
    (folder / "environment.txt").write_text(f"commit: {'0' * 40}\ndevice: cpu\n")
    (folder / "run.ipynb").write_text("{}")
    if faithfulness:
        (folder / "faithfulness.json").write_text(json.dumps(faithfulness))
    return folder.name


def any_sst(rng: random.Random, reads_all: bool) -> tuple[dict, dict]:
    """Metrics that a run on SST may have, whatever it learned, and its measures of faithfulness."""
    share = rng.random
    metrics, faithful = {}, {}
    for split in ("dev", "test"):
        selected = 1.0 if reads_all else rng.choice([0.0, 1.0, share(), share()])
        metrics[split] = {"accuracy": share(), "task": 3 * share(), "rate_expected": share(), "rate_selected": selected}
        names = ("accuracy_whole", "calibration_error", "empty", "first_words", "word_precision", "word_recall",
                 "word_f1", "word_base_rate", "sufficiency", "comprehensiveness", "sufficiency_aopc",
                 "comprehensiveness_aopc")  # fmt: skip
        faithful[split] = {name: share() for name in names} | {"answer_share": 0.2 + 0.5 * share()}
        faithful[split]["count_tells"] = faithful[split]["answer_share"] + 0.3 * share()
        for label in range(5):
            words = rng.randrange(1, 500)
            faithful[split] |= {f"words_{label}": words, f"selected_{label}": rng.randrange(words + 1)}
    return metrics, faithful


SST = [{"selection": target, "seed": seed} for target in (0.05, 0.1, 0.25, 0.4, 0.6) for seed in (1, 2, 3)]
SST += [{"model": "bernoulli", "selection": None, "sparsity": price, "seed": seed} for price in (0.01, 0.1)
        for seed in (1, 2, 3)]  # fmt: skip
SST += [{"model": "full_text", "selection": None, "seed": seed} for seed in (1, 2, 3)]
SST += [{"hidden_size": 7, "selection": 0.1}, {"predictor": "compact", "selection": 0.1}, {"num_train": 9}]


@pytest.mark.parametrize("runs", [SST, SST[3:6], [{"model": "full_text", "selection": None}], SST[15:17]],
                         ids=["a sweep", "one target", "full text", "prices"])  # fmt: skip
def test_runs_of_any_outcome_are_compared_over_the_selection_rate(runs, tmp_path, monkeypatch, capsys):
    rng = random.Random(len(runs))
    names = [own_run(tmp_path, "12_train_sst", *any_sst(rng, p.get("model") == "full_text"), **p) for p in runs]
    place = {"runs_dir": str(tmp_path / "12_train_sst"), "runs": names}
    failed, _ = run_cells("31_selection_rates", tmp_path / "31", monkeypatch, **place)
    assert not told(failed)
    assert capsys.readouterr().out.count(NOT_CHECKED) == 1


@pytest.mark.deep
def test_a_pair_that_selects_more_than_it_expects_is_compared_and_a_wrong_answer_about_it_is_not_accepted(
    tmp_path, monkeypatch
):
    rates = {"accuracy": 0.4, "rate_expected": 0.1, "rate_selected": 0.192}
    names = [own_run(tmp_path, "12_train_sst", {"dev": rates, "test": rates}, selection=0.1, seed=k) for k in (1, 2)]
    place = {"runs_dir": str(tmp_path / "12_train_sst"), "runs": names}
    failed, bound = run_cells("31_selection_rates", tmp_path / "31", monkeypatch, **place)
    assert not told(failed) and bound["rate_gaps"] == pytest.approx({0.1: 9.2})
    cell = next(cell for cell in cells("31_selection_rates") if "rate_gaps[target] - gap" in cell)
    with pytest.raises(AssertionError, match="10%: too (low|high)"):
        exec(cell, bound | {"rate_gaps": {0.1: 9.3}})


REVIEWS = [{"selection": target, "seed": seed} for target in (0.05, 0.1) for seed in (1, 2)]
REVIEWS += [{"model": "full_text", "dependent": False, "seed": 1}, {"model": "svm", "rule": "top_k", "budget": 0.1}]
REVIEWS += [{"corpus": "hotels", "aspect": "service"}, {"corpus": "movies", "aspect": "overall", "seed": 1}]


@pytest.mark.parametrize("runs", [REVIEWS, REVIEWS[-2:-1], REVIEWS[:2]], ids=["many", "without gold", "one target"])
def test_runs_of_any_outcome_are_compared_on_reviews(runs, tmp_path, monkeypatch, capsys):
    rng, names = random.Random(len(runs)), []
    for p in runs:
        corpus, marks = p.get("corpus", "synthetic"), ("precision", "recall", "f1")
        judged = [f"{mark}{ending}" for mark in marks for ending in ("", "_macro")] * (corpus != "hotels")
        judged += [f"blind_{name}" for name in ("random_words", "random_span", "first_words", "last_words") if judged]
        both = {name: rng.random() for name in ("accuracy" if corpus == "movies" else "mse", *judged, "rate_expected")}
        both["rate_selected"] = 1.0 if p.get("model") == "full_text" else rng.choice([0.0, 1.0, rng.random()])
        names.append(own_run(tmp_path, "11_train_reviews", {"dev": both, "test": both}, **p))
    place = {"runs_dir": str(tmp_path / "11_train_reviews"), "runs": names}
    failed, bound = run_cells("32_reviews", tmp_path / "32", monkeypatch, **place)
    assert not told(failed)
    assert capsys.readouterr().out.count(NOT_CHECKED) == 1
    if len(bound["gold_shares"]):
        cell = next(cell for cell in cells("32_reviews") if "share times recall" in cell)
        with pytest.raises(AssertionError, match="share times recall"):
            exec(cell, bound | {"gold_shares": [share + 0.1 for share in bound["gold_shares"]]})


# --- own runs, trained


class TallGate(HardKumaGate):
    """A HardKuma whose shapes come from two layers. It has no name yet, so that no other test finds it."""

    def __init__(self, num_features: int, left: float, right: float):
        super().__init__(num_features, left, right)
        self.under = nn.Sequential(nn.Linear(num_features, 5), nn.Tanh(), nn.Linear(5, num_features))

    def forward(self, features):
        return super().forward(self.under(features))


@pytest.mark.deep
@pytest.mark.data
def test_an_own_gate_of_another_size_is_trained_on_sst(tmp_path, monkeypatch):
    monkeypatch.setitem(GATES, "tall", TallGate)
    p = smoke_parameters(notebook_path("12_train_sst")) | {"vectors": "random", "num_train": 16, "num_dev": 8}
    failed, bound = run_cells("12_train_sst", tmp_path, monkeypatch, **p | {"model": "tall", "hidden_size": 7})
    assert not told(failed)
    gate = bound["result"].model.selector.gate
    assert type(gate) is TallGate and sum(value.numel() for value in gate.parameters()) == 2 * 15 + 75 + 84
    bound["result"].model.predictor.extra = nn.Linear(3, 3)
    with pytest.raises(AssertionError):
        exec(next(cell for cell in cells("12_train_sst") if "expected_size" in cell), bound)


TINY = {"num_train": 24, "num_dev": 6, "num_test": 5, "epochs": 1}


def test_a_first_rationale_of_a_review_without_gold_words_is_shown(tmp_path, monkeypatch, capsys, recwarn):
    few = {"aspect": "palate", "num_train": 3, "num_dev": 1, "num_test": 1}
    p = smoke_parameters(notebook_path("10_first_rationale")) | TINY | few
    failed, bound = run_cells("10_first_rationale", tmp_path, monkeypatch, pictures=True, **p)
    assert not told(failed) and capsys.readouterr().out.count(NOT_CHECKED) == 1
    assert "precision" not in bound["scores"]["dev"], "the case that is tried"
    assert not [str(warning.message) for warning in recwarn.list if warning.category is RuntimeWarning]


def test_all_selected_opinion_words_are_counted_however_many_words_are_left_out(tmp_path, monkeypatch):
    p = (
        smoke_parameters(notebook_path("10_first_rationale"))
        | TINY
        | {"num_dev": 60, "model": "full_text", "selection": None}
    )
    _, bound = run_cells("10_first_rationale", tmp_path, monkeypatch, **p)
    all_words = [word for review in bound["splits"]["dev"] for word in review.tokens]  # this model selects each of them
    assert len(bound["left_out"]) < len(all_words), "the case that is tried"
    assert bound["opinion_words"] == sum(any(word in g.split() for g in GRADES.values()) for word in all_words)


def test_a_first_rationale_that_learned_nothing_fails_where_it_is_taken_for_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "apply_to", lambda *_: True)
    p = smoke_parameters(notebook_path("10_first_rationale")) | TINY
    failed, _ = run_cells("10_first_rationale", tmp_path, monkeypatch, **p)
    assert any("far better than by its mean" in error for error in told(failed))


UNTARGETED = {"selection": None, "transitions": None}
APART = {"dependent": False, "look_ahead": False}  # gates that do not depend on earlier ones
OWN_RUNS = {  # of each notebook that trains: settings of a few odd runs
    "10_first_rationale": [
        {"hidden_size": 7, "epochs": 1},
        {"model": "attention", "rule": "top_k", "budget": 0.2, "selection": None},
        {"predictor": "zero", "pool": "max", "transitions": 0.1},
        {"num_train": 2000, "epochs": 10, "learning_rate": 1e-8, "hidden_size": 2, "embedding_size": 2},
    ],
    "11_train_reviews": [
        {"hidden_size": 7, "num_train": 4, "num_dev": 1, "num_test": 1},
        {"model": "full_text", **APART},
        {"model": "bernoulli", "sparsity": 0.01, **UNTARGETED, **APART},
        {"encoder": "lstm", "pool": "mean", "rule": "expected", "measure": "expected"},
        {"corpus": "hotels", "aspect": "all", "epochs": 1},
    ],
    "12_train_sst": [
        {"vectors": "random", "hidden_size": 7, "num_train": 2, "num_dev": 1, "num_test": 1},
        {"vectors": "random", "predictor": "compact", "selection": 0.1},
        {"vectors": "random", "selection": 0.1, "learning_rate": 0.05},
        {"vectors": "random", "model": "attention", "selection": None, "rule": "top_k", "budget": 0.3},
        {"vectors": "random", "encoder": "rcnn", "dependent": True, "rule": "sample"},
    ],
    "13_train_nli": [
        {"gamma": 1e-6, "hidden_size": 7},
        {"model": "hardkuma", "selection": 0.1, "num_train": 2, "num_dev": 1, "num_test": 1},
        {"model": "recurrent", "learning_rate": 0.5},
        {"hidden_size": 200, "num_train": 4, "num_dev": 4, "num_test": 4, "epochs": 1},
    ],
    "14_train_probes": [
        {"hidden_size": 7, "epochs": 1, "model_epochs": 1, "num_steps": 200, "methods": ["states", "erasure"]},
        {"num_train": 5, "num_dev": 2, "num_test": 2, "model_epochs": 1, "methods": ["masks", "masks_with_baseline"]},
    ],
    "15_train_seq2seq": [
        {"gamma": 1000.0, "hidden_size": 6, "epochs": 1},
        {"model": "fusedmax", "beam": 1, "longest": 2, "num_train": 2, "num_dev": 1, "num_test": 1},
    ],
    "16_failures": [
        {"skew": "none", "skew_steps": 1600, "closeness": 0.0, "model": "full_text", "selection": None},
        {"skew": "predictor", "shared_encoder": True, "correlation": 0.5},
        {"model": "bernoulli", "sparsity": 0.01, "dependent": True, "penalty": "sampled", "selection": None},
        {"aspect": "palate", "num_train": 4, "num_dev": 3, "num_test": 3, "guidance": 1.0, "guided": 0.5},
    ],
}
READERS = {"10": ["21", "32"], "11": ["21", "32"], "12": ["22", "31"], "13": ["23"], "14": ["24"], "15": ["25"],
           "16": ["26"]}  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("notebook", slow_or_deep(OWN_RUNS, []))
def test_own_runs_of_odd_settings_are_trained_read_and_compared(notebook, tmp_path):
    wrong, names = [], [f"own{number}" for number in range(len(OWN_RUNS[notebook]))]
    commands = [(notebook, smoke_items(notebook_path(notebook), **changes), name)
                for name, changes in zip(names, OWN_RUNS[notebook], strict=True)]  # fmt: skip
    for number in READERS[notebook[:2]]:
        reader = next(path.stem for path in (root() / "notebooks").glob(f"{number}_*.py"))
        key = "run" if "run" in defaults(notebook_path(reader)) else "runs"
        groups = [names[0], names] if key == "runs" else names  # one run alone has nothing to be compared with
        place = f"runs_dir={tmp_path / notebook}"
        commands += [(reader, [place, as_override(key, [group] if key == "runs" and isinstance(group, str) else group)],
                      group if isinstance(group, str) else "all") for group in groups]  # fmt: skip
    for command, items, name in commands:
        try:
            run_forked(command, items, outputs=tmp_path, name=name)
        except (BadInput, RunFailed) as error:
            wrong.append(f"{command} {' '.join(map(str, items))}: {error}")
    assert not wrong, "\n\n".join(wrong)
