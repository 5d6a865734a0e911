"""The times that notebooks name in "You need" are measured: by the book for theory, by committed runs for training."""

import json
import re
import statistics

import pytest

from rationale.runs import notebook_path, root
from tools.book.__main__ import TIMES, shown_whole

NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}
LIMITS = {  # seconds on one core that a phrase may stand for
    "seconds": (0, 30),
    "a few seconds": (0, 30),
    "less than a minute": (0, 60),
    "about a minute": (30, 90),
    "a minute or two": (45, 150),
}
PHRASE = re.compile(r"(?:runs?|(?<!reading )takes?) (?:in )?(about (\w+) minutes|" + "|".join(LIMITS) + r")\b")
MINUTE = 60
TRAINED = {  # notebook -> its phrase with a number, the runs that it is about, and the seconds of a unit of it
    "11_train_reviews": (
        r"about (\w+)\s+seconds per thousand reviews",
        r"synthetic-hardkuma.*",
        lambda p: p["epochs"] * p["num_train"] / 1000,
    ),
    "12_train_sst": (r"about (\w+) minutes", r"hardkuma-selection0\.[346]-seed\d+", lambda p: MINUTE),
    "13_train_nli": (
        r"an epoch takes about (a) minute",
        r"hardkuma-selection[\d.]+-seed\d+",
        lambda p: MINUTE * p["epochs"],
    ),
    "14_train_probes": (r"(\w+) minutes on one core for the toy task", r"toy-seed\d+", lambda p: MINUTE),
    "16_failures": (r"A run takes about (a) minute", r"skewselector-skew_steps\d+-seed\d+", lambda p: MINUTE),
}


def needed(name: str) -> str:
    """The paragraph "You need" of a notebook."""
    text = re.sub(r"\n# ?", "\n", notebook_path(name).read_text("utf-8"))
    return re.search(r"\*\*You need\*\*(.*?)\n\n", text, re.S)[1].replace("\n", " ")


def measured() -> dict[str, float]:
    return json.loads((root() / "outputs" / "reference" / TIMES).read_text("utf-8"))


def test_each_notebook_whose_run_the_book_shows_whole_has_been_timed():
    shown = {path.stem for path in sorted((root() / "notebooks").glob("*.py")) if shown_whole(path)}
    assert set(measured()) == shown, "python -m tools.book --times"


@pytest.mark.parametrize("name", measured())
def test_the_time_that_a_notebook_names_is_the_one_that_was_measured(name):
    found = PHRASE.search(needed(name))
    assert found, f"say in **You need** how long it runs; it took {measured()[name]} s"
    number = NUMBERS.get(found[2]) or 0
    low, high = LIMITS.get(found[1], (60 * 0.6 * number, 60 * 1.4 * number))
    assert low <= measured()[name] <= high, f"{found[1]!r}, and it took {measured()[name]} s"


@pytest.mark.parametrize("name", TRAINED)
def test_the_time_that_a_training_names_is_that_of_the_committed_runs(name):
    phrase, runs, unit = TRAINED[name]
    number = re.search(phrase, needed(name))[1]
    claimed = {"a": 1, **NUMBERS}.get(number) or int(number)
    took = []
    for record in json.loads((root() / "outputs" / "reference" / "runs.json").read_text("utf-8")):
        seconds = str(record["environment"].get("seconds", "continued"))
        if re.fullmatch(f"{name}/{runs}", record["run"]) and "continued" not in seconds:
            took.append(float(seconds) / unit(record["parameters"]))
    assert len(took) > 2
    middle = statistics.median(took)
    assert claimed / 1.5 <= middle <= claimed * 1.5, f"it says {claimed}, half of {len(took)} runs took {middle:.1f}"
