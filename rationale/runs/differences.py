"""How a run differs from its notebook's defaults: the settings that decide which runs may be averaged over seeds.

`settings_of` gives them as a dict, and `write_settings` as one line of text (`epochs=12, learning_rate=0.001`), which
is the column `settings` of a table of results. `network_name` is a short name of the network for figures.
"""

from functools import cache
from typing import Any

import yaml

from rationale.data.corpora import find_corpus
from rationale.data.example import SplitSettings
from rationale.data.own.settings import PairFileSettings, RationaleFileSettings
from rationale.explain.methods import METHODS
from rationale.models.remedies import RemedySettings
from rationale.nn.gates import GATES, GateSettings
from rationale.nn.rules import DecisionSettings
from rationale.objectives.constraint import ConstraintSettings, TransitionSettings
from rationale.objectives.loss import GuidanceSettings, PriceSettings
from rationale.objectives.score_function import ScoreFunctionSettings
from rationale.runs.cells import defaults
from rationale.runs.parameters import WITHOUT_EFFECT, modernised
from rationale.runs.workspace import notebook_path
from rationale.runs.yaml_files import as_override

IN_COLUMNS = {"model", "corpus", "aspect", "vectors", "vectors_scale", "selection", "sparsity", "seed"}
ONLY_GATES = {  # settings without an effect on models that have no gates
    "dependent",
    "look_ahead",
    "predictor",
    "normalised",
    "warm_start",
    "tolerance",
    *GateSettings.model_fields,
    *ConstraintSettings.model_fields,
    *TransitionSettings.model_fields,
    *PriceSettings.model_fields,
    *RemedySettings.model_fields,
    *GuidanceSettings.model_fields,
    *ScoreFunctionSettings.model_fields,
}
BASELINE = "tfidf"  # value of the column `model`: TF-IDF with a linear model, beside runs on texts of one's own
NETWORK = ("encoder", "dependent", "predictor", "normalised", "intra")
ATTENTIONS = ("13_train_nli", "15_train_seq2seq")
PRICES = {"fusedmax": 0.1, "oscarmax": 0.01}  # the paper's `lam`; it has no effect on other models


@cache  # a table of a thousand runs asks for those of one notebook
def defaults_of(notebook: str) -> dict[str, Any]:
    """Every setting of a notebook and its default."""
    return defaults(notebook_path(notebook))


def of_baseline(name: str) -> bool:
    """Whether a setting can change a baseline: it says which texts a run reads and how, or how classes are weighted."""
    known = (SplitSettings.model_fields, RationaleFileSettings.model_fields, PairFileSettings.model_fields)
    return name in ("corpus", "fold", "class_weight") or any(name in fields for fields in known)


def has_effect(name: str, p: dict[str, Any]) -> bool:
    """Whether a setting can change the results of a run with the settings `p`.

    When in doubt the answer is True: a setting without effect that is shown does no harm, but runs that differ must not
    be averaged.
    """
    if name in WITHOUT_EFFECT:
        return False
    if p.get("model") == BASELINE:
        return of_baseline(name)
    if name in ("embedding_size", "train_vectors") and "vectors" in p:
        return p["vectors"] == "random"  # vectors from a file have their own size and are never trained
    if name == "look_ahead" and not p.get("dependent"):
        return False
    if name == "encoder" and p.get("model") == "svm":
        return False
    if "model" not in p or p["model"] in GATES:
        return True
    if name in DecisionSettings.model_fields and p.get("rule") != "top_k":
        return False
    return name not in ONLY_GATES


def settings_of(parameters: dict[str, Any], notebook: str, model: str = "") -> dict[str, Any]:
    """The settings of a run that differ from its notebook's defaults and may have changed its results, by name.

    Settings that have a column of their own in a table of results are left out. A setting that an older run lacks
    counts as its present default; one that the notebook no longer has always counts as different. `model` is the value
    of that column: if it is a method of attribution, the other methods of the run have no effect on it.
    """
    usual = defaults_of(notebook)
    p = usual | modernised(parameters)
    is_target = {"budget"} if p.get("model") not in GATES else set()  # of a baseline it is the column `target`
    elsewhere = (
        IN_COLUMNS | is_target | ({"language"} if "language" in p and find_corpus(p["corpus"]).languages else set())
    )
    elsewhere = elsewhere | ({"methods"} if model in METHODS else set())
    names = sorted(name for name in p if name not in elsewhere and has_effect(name, p))
    return {name: p[name] for name in names if name not in usual or p[name] != usual[name]}


def write_settings(settings: dict[str, Any]) -> str:
    """Settings as one line, in alphabetical order, with values as in overrides; `read_settings` reads them back.

    Examples
    --------
    >>> write_settings({"learning_rate": 1e-5, "epochs": 12, "methods": ["states", "inputs"], "note": "a, b"})
    "epochs=12, learning_rate=1.0e-05, methods=[states, inputs], note='a, b'"
    """
    return ", ".join(write_setting(name, settings[name]) for name in sorted(settings))


def write_setting(name: str, value: Any) -> str:
    """One setting as an override. A text that contains a comma is quoted, so that the line can be split."""
    written = as_override(name, [value])  # in a list, YAML quotes what would not be one item
    return f"{name}={written.removeprefix(f'{name}=[').removesuffix(']')}"


def read_settings(line: str) -> dict[str, Any]:
    """The settings in a line that `write_settings` wrote, by name.

    Examples
    --------
    >>> read_settings("epochs=12, methods=[states, inputs], note='a, b'")
    {'epochs': 12, 'methods': ['states', 'inputs'], 'note': 'a, b'}
    """
    return dict(_read(line))


@cache
def _read(line: str) -> dict[str, Any]:
    settings, item = {}, ""
    for part in line.split(", ") if line else ():
        item = f"{item}, {part}" if item else part
        name, _, value = item.partition("=")
        try:
            settings[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            continue  # the comma stands inside a list or a quoted text
        item = ""
    return settings


def network_name(p: dict[str, Any], notebook: str) -> str:
    """The differences between the network of a run and its notebook's defaults: "lstm, independent"; usually "".

    For the notebooks in `ATTENTIONS`, every setting that differs is named, because the defaults are their only recipe.
    """
    if "model" not in p:
        return "gru" if p.get("reader") == "gru" else ""
    settings = settings_of(p, notebook)
    named = [{True: key, False: f"in{key}"}.get(settings[key], settings[key]) for key in NETWORK if key in settings]
    if notebook in ATTENTIONS:
        price = p.get("lam", defaults_of(notebook)["lam"])
        others = {name: value for name, value in settings.items() if name not in {*NETWORK, "lam"}}
        others |= {"lam": price} if price != PRICES.get(p["model"], price) else {}
        named += [f"{name}={value}" for name, value in sorted(others.items())]
    return ", ".join(named)


def method_network(method: str, p: dict[str, Any], notebook: str) -> str:
    """The network of one method of a run: that of the run's model, and the settings of the method.

    For probes, the settings are those that differ from the notebook's defaults; for fitted masks, the margin, and the
    multiplier at the start if it differs.
    """
    usual, named, facts = defaults_of(notebook), [network_name(p, notebook)], METHODS[method]
    if facts.is_probe:
        keys = ("votes", "form", "divergence", "margin")
        named += [f"{key}={p[key]}" for key in keys if p.get(key, usual[key]) != usual[key]]
    else:
        start = p.get("multiplier_init", usual["multiplier_init"])
        named += [f"margin={p['margin']:g}"] if facts.needs_margin else []
        other = facts.needs_multiplier and start != usual["multiplier_init"]
        named += [f"multiplier_init={start:g}"] if other else []
    return ", ".join(filter(None, named))
