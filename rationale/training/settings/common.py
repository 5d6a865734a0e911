"""The settings that all training tasks share."""

from collections.abc import Iterator
from typing import Any

from rationale.data.corpora import names_own
from rationale.data.example import SplitSettings
from rationale.data.own.settings import PairFileSettings, RationaleFileSettings, TextFileSettings
from rationale.nn.gates import GATES
from rationale.nn.rules import RULES
from rationale.objectives.constraint import ConstraintSettings
from rationale.settings import Refusal
from rationale.training.loop import FitSettings


class CommonSettings(FitSettings, SplitSettings):
    """The settings of every training run."""


def refused_columns(p: Any) -> Iterator[Refusal]:
    """What says how texts of one's own are read, with a corpus that has a name, which would be taken instead."""
    own = (TextFileSettings, RationaleFileSettings, PairFileSettings)
    for name in dict.fromkeys(name for part in own if isinstance(p, part) for name in part.model_fields):
        unused, other = not names_own(p.corpus), "a file or folder of your own as corpus"
        yield p.idle(unused, name, f"with corpus {p.corpus}", other)


def refused_support(p: Any) -> Iterator[Refusal]:
    """The ends of the support, with a model whose gates have none."""
    stretched = p.model in GATES and GATES[p.model].stretched
    for name in ("left", "right"):
        other = "a model with stretched gates, such as hardkuma"
        yield p.idle(not stretched, name, f"with model {p.model}", other)


def refused_target(p: Any) -> Iterator[Refusal]:
    """What a target cannot be held with: a rule whose rate is fixed, and a constraint that begins after the last epoch.

    How a target is held is refused where there is none. `p` are the settings of a model that may have gates.
    """
    without = p.selection is None and vars(p).get("transitions") is None
    for name in ConstraintSettings.only_held:
        yield p.idle(without, name, "without a target", "a number for selection")
    held = p.selection is not None and p.model in GATES
    where = "with measure selected and a target, because the share that it reads does not depend on the gates"
    accepted = "another rule, such as argmax, or measure=expected"
    yield Refusal(held and p.measure == "selected" and not RULES[p.rule].rate_moves, "rule", where, accepted)
    held = held or vars(p).get("transitions") is not None
    late, accepted = held and p.constraint_from > p.epochs, f"a number up to {p.epochs}"
    yield Refusal(late, "constraint_from", f"with epochs {p.epochs}", accepted)
