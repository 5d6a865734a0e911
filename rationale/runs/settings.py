"""The settings of notebooks that train nothing: what theory computes with, and which saved runs are read."""

from rationale.settings import Settings, setting


class TheorySettings(Settings):
    """What a derivation computes with."""

    a: float = setting(0.5, "first shape of the Kumaraswamy distribution", "(0, inf)")
    b: float = setting(0.5, "second shape of the Kumaraswamy distribution", "(0, inf)")
    num_samples: int = setting(1000, "random draws", "[1, inf)")
    num_steps: int = setting(100, "steps of a toy run, of an integral, of a fit to one text", "[1, inf)")
    minutes: int = setting(60, "length of a meeting, in minutes", "[1, inf)")


class ReadingSettings(Settings):
    """Which saved runs are read."""

    run: str = setting("default", "a run's folder name")
    runs: list[str] = setting([], "folder names of runs")
    runs_dir: str = setting("outputs", "folder that holds the runs")
