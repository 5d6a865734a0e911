"""The settings of notebooks that train nothing: numbers for derivations, and the saved runs that are read."""

import os
from collections.abc import Iterator
from functools import cache
from typing import Annotated

from pydantic import AfterValidator

from rationale.settings import Refusal, Settings, setting


class TheorySettings(Settings):
    """Numbers for derivations."""

    a: float = setting(0.5, "first shape of the Kumaraswamy distribution", "(0, inf)")
    b: float = setting(0.5, "second shape of the Kumaraswamy distribution", "(0, inf)")
    num_samples: int = setting(1000, "random draws", "[1, inf)")
    num_steps: int = setting(100, "steps of a toy run, of an integral, or of a fit to one text", "[1, inf)")
    minutes: int = setting(60, "length of a meeting, in minutes", "[1, inf)")


class ReadingSettings(Settings):
    """Which saved runs are read."""

    run: str = setting("default", "name of the folder of a run")
    runs: list[str] = setting([], "names of the folders of runs")
    runs_dir: Annotated[str, AfterValidator(os.path.expanduser)] = setting("outputs", "folder that holds the runs")


@cache
def of_named_runs(cls: type[Settings], usual: str) -> type[Settings]:
    """The class of a notebook that reads the committed results unless runs are named, with a rule about their folder.

    `usual` is the default of `runs_dir`. Another folder would have no effect without names.
    """

    class NamedRuns(cls):  # type: ignore[misc, valid-type]
        def refused(self) -> Iterator[Refusal]:
            why = "without runs, because the committed results are read then"
            unused = not self.runs and self.runs_dir != usual
            yield Refusal(unused, "runs_dir", why, "the names of its runs too, runs='[...]'")

    NamedRuns.__name__, NamedRuns.__doc__ = cls.__name__, cls.__doc__
    return NamedRuns
