"""The parameters of a run: a notebook's settings, changed by parameter files and overrides, one clear line per mistake.

The settings of a notebook are read in `cells`. Here they are merged with YAML files and overrides such as `seed=2`.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, cut, shown
from rationale.runs.cells import defaults, settings_class
from rationale.runs.yaml_files import is_override, read_file, read_override
from rationale.settings import Settings, did_you_mean, plain_types, show

WITHOUT_EFFECT = frozenset({"device", "tensorboard", "judge"})  # settings that change neither training nor its metrics


def resolve(notebook: Path, items: Iterable[str | Path] = ()) -> dict[str, Any]:
    """All parameters of a run: those of `merge`, without its notes."""
    return merge(notebook, items)[0]


def merge(notebook: Path, items: Iterable[str | Path] = ()) -> tuple[dict[str, Any], list[str]]:
    """All parameters of a run: the notebook's defaults, changed by `items` from left to right.

    A change may leave another setting without effect: `dependent=false` makes `look_ahead` meaningless. Such a setting
    goes back to the value that means "unused", unless it was given on the command line itself or in the same file.
    A default may also follow from what is given (`Settings.following`): `encoder=minilm` has another step size.

    Parameters
    ----------
    notebook
        A text notebook with a `parameters` cell.
    items
        YAML files (`params/sst/hardkuma.yaml`) and overrides (`seed=2`).

    Returns
    -------
    dict
        Every setting by name, those of the notebook's cell first; every value is checked.
    list of str
        One sentence about the defaults that follow from what is given, and one per setting that has gone back.

    Raises
    ------
    BadInput
        For the first mistake: the message gives file and line, key, value, and what is accepted.
    """
    cls, values = settings_class(notebook), defaults(notebook)
    texts, overridden, notes = [str(item) for item in items], set(), []
    for where, name, _ in map(read_override, filter(is_override, texts)):
        if name in overridden:
            raise BadInput(f"{where}{name}: given twice on the command line")
        overridden.add(name)
    layers: list[list[tuple[str, str, Any]]] = []
    for together, group in itertools.groupby(texts, is_override):
        side_by_side = list(group)
        read = [list(map(read_override, side_by_side))] if together else map(read_file, side_by_side)
        for pairs in read:
            layers.append([(w, name, _checked(notebook, cls, values, w, name, value)) for w, name, value in pairs])
    all_given = {name: value for pairs in layers for _, name, value in pairs}
    # What a notebook's cell repeats of the class is a default, and no choice
    chosen = {name: value for name, value in values.items() if value != cls.usual(name)} | all_given
    follow = {name: value for name, value in cls.following(chosen).items() if name not in all_given}
    if changed := [f"{name} {show(value)}" for name, value in follow.items() if value != values[name]]:
        notes.append(f"other defaults follow from these settings: {', '.join(changed)}")
    values |= follow
    for pairs in layers:
        before = dict(values)
        values |= {name: value for _, name, value in pairs}
        notes += _without_meaningless(cls, before, values, overridden | {name for _, name, _ in pairs})
    broken, where = next(iter(cls.violations(values)), None), f"{shown(notebook)}: "
    if broken and (broken.key in overridden or not overridden):  # what excludes a line of a file may be an override
        where = {name: place for pairs in layers for place, name, _ in pairs}.get(broken.key, where)
    checked = cls.checked(values, where)
    return {name: getattr(checked, name) for name in values}, notes


def values_for_kernel(notebook: Path, params: Mapping[str, Any]) -> dict[str, Any]:
    """What a notebook's kernel has to be given, so that it arrives at these parameters.

    These are the parameters that differ from the notebook's defaults, and those for which the kernel would take another
    default, because it follows from the parameters (`Settings.following`).

    Parameters
    ----------
    notebook, params
        As `resolve` takes the one and returns the other.
    """
    start, followed = defaults(notebook), settings_class(notebook).following(params)
    return {name: value for name, value in params.items() if value != start[name] or name in followed}


def _checked(notebook: Path, cls: type[Settings], known: Mapping[str, Any], where: str, name: str, value: Any) -> Any:
    """The value of a setting in its type."""
    if name not in known:
        if name == "results":
            raise BadInput(f"{where}results: only for plain papermill, give --outputs and --name")
        if name in cls.elsewhere:
            raise BadInput(f"{where}{name}: {cls.elsewhere[name]}")
        hint = did_you_mean(name, known) or f", {notebook.stem} has {', '.join(known) or 'none'}"
        raise BadInput(f"{where}{cut(name)}: unknown parameter{hint}")
    try:
        return cls.check(name, value, where)
    except BadInput as error:
        number = _as_yaml_number(value) if isinstance(value, str) and float in plain_types(cls, name) else ""
        hint = f"; YAML reads this as text, write {number}" if number else ""
        raise BadInput(f"{error}{hint}") from None


def _without_meaningless(
    cls: type[Settings], before: dict[str, Any], values: dict[str, Any], given: set[str]
) -> list[str]:
    """Reset what a change from `before` to `values` has left without effect, except `given`; one note per setting."""
    old = dict(values)
    rules = cls.set_back(values, given | {rule.key for rule in cls.violations(before)})
    changes = [(rule.key, show(old[rule.key]), show(values[rule.key]), rule.why) for rule in rules]
    return [f"{name} goes back from {was} to {unused}: no effect {why}" for name, was, unused, why in changes]


RESPELT = {"selection": 1.0, "transitions": 0.0, "multiplier_max": 0.0}  # how null was written in older versions


def modernised(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a saved run in today's form, in which "no constraint" is null.

    A model without gates has no target, and bilinear votes have no width. Older versions accepted one, which nothing
    used.
    """
    from rationale.explain.diffmask import ProbeSettings  # with torch, which the command line can do without
    from rationale.models.extractor import WHOLE_TEXT

    unused: dict[str, Any] = {"selection": None, "transitions": None} if parameters.get("model") in WHOLE_TEXT else {}
    if parameters.get("votes") == "bilinear":
        unused["hidden_size"] = ProbeSettings.unused("hidden_size")
    respelt = {name: None for name, value in RESPELT.items() if name in parameters and parameters[name] == value}
    return dict(parameters) | {name: value for name, value in (respelt | unused).items() if name in parameters}


def _as_yaml_number(text: str) -> str:
    """`1e-5` -> `1.0e-5`, the spelling that YAML reads as a number; "" if it is not a number."""
    match = re.fullmatch(r"([+-]?\d+)(\.\d*)?[eE]([+-]?)(\d+)", text)
    return f"{match[1]}{match[2] or '.0'}e{match[3] or '+'}{match[4]}" if match else ""
