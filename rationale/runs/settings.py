"""The settings of notebooks that train nothing: numbers for derivations, and the saved runs that are read."""

from rationale.settings import Settings, setting


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
    runs_dir: str = setting("outputs", "folder that holds the runs")
