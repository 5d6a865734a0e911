"""The table of corpora: what is in a corpus's file, and that a file is all that a new corpus needs."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rationale.data import corpora
from rationale.data.corpora import archives, corpus_names, find_archive, find_corpus
from rationale.data.corpus import TASKS, Corpus, Request, in_turn
from rationale.data.example import Example, data_folder
from rationale.data.read import read_alignment, read_extraction, read_generation, read_probing
from rationale.data.tokenise import TOKENISERS, split_text
from rationale.errors import BadInput

NAMES = corpus_names()
READ = [name for name in NAMES if find_corpus(name).tasks]
LARGE = ("hotels", "imdb")
OWN = '''"""Texts of one's own: a class, a tab, the text."""

from rationale.data.corpus import Corpus
from rationale.data.example import Example, data_folder
from rationale.data.tokenise import split_words


def read_own():
    splits = {}
    for name in ("train", "dev", "test"):
        rows = (line.split("\\t") for line in (data_folder() / "own" / f"{name}.txt").read_text().splitlines())
        splits[name] = [Example(tuple(split_words(text)), int(label)) for label, text in rows]
    return splits


CORPUS = Corpus(
    name="own",
    what="texts of one's own",
    read={"extraction": lambda asked: read_own()},
    labels=("dull", "bright"),
    tokeniser="words",
)
'''


def settings(corpus: str, **others) -> SimpleNamespace:
    return SimpleNamespace(**{"corpus": corpus, "num_train": 0, "num_dev": 0, "num_test": 0} | others)


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """A folder of the table's in which a new file may lie; the data folder is in it, too."""
    monkeypatch.setattr(corpora, "__path__", [*corpora.__path__, str(tmp_path)])
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


# --- one file per corpus


def test_to_add_a_corpus_is_to_add_one_file(own):
    (own / "own.py").write_text(OWN)
    for name, rows in (("train", "0\tIt's dull.\n1\tand/or bright\n"), ("dev", "1\tbright\n"), ("test", "0\tdull\n")):
        (own / "own").mkdir(exist_ok=True)
        (own / "own" / f"{name}.txt").write_text(rows)
    assert "own" in corpus_names() and "own" in corpus_names("extraction") and "own" not in corpus_names("probing")
    found = read_extraction(settings("own", num_train=1))
    assert found.splits["train"] == [Example(("it", "'s", "dull", "."), 0)]
    assert (found.head, found.num_outputs, found.labels) == ("classes", 2, ["dull", "bright"])
    whole = read_extraction(settings("own")).splits["train"]
    assert [e.tokens for e in whole][1] == tuple(split_text("and/or bright", find_corpus("own").tokeniser))


def test_a_file_without_a_corpus_of_its_name_is_refused(own):
    (own / "own.py").write_text(OWN.replace('name="own"', 'name="other"'))
    with pytest.raises(ValueError, match=r"own.py: no `CORPUS = Corpus\(name='own', ...\)` in it"):
        find_corpus("own")


@pytest.mark.parametrize(("what", "accepted"), [("read", ", ".join(TASKS)), ("tokeniser", ", ".join(TOKENISERS))])
def test_a_task_and_a_tokeniser_that_there_is_not_are_refused(what, accepted):
    wrong = {"read": {"singing": list}, "tokeniser": "singing"}[what]
    with pytest.raises(ValueError, match=f"mine: {what}: 'singing' is unknown; accepted: {accepted}"):
        Corpus("mine", "mine", **{what: wrong})


def test_a_corpus_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(BadInput, match=f"corpus: 'ssst' is unknown; accepted: {', '.join(NAMES)}"):
        find_corpus("ssst")
    with pytest.raises(BadInput, match="corpus: toy is not for extraction; accepted: beer, hotel_rationales"):
        read_extraction(settings("toy"))
    with pytest.raises(ValueError, match="task: 'singing' is unknown; accepted: extraction, alignment"):
        corpus_names("singing")


def test_a_corpus_is_imported_when_it_is_asked_for_and_no_other_is():
    code = (
        "import sys, rationale.data.read\n"
        "from rationale.data.corpora import find_corpus\n"
        "held = lambda: sorted(m for m in sys.modules if m.startswith('rationale.data.corpora.'))\n"
        "print(held()); find_corpus('beer'); print(held())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["[]", "['rationale.data.corpora.beer']"]


def test_nothing_outside_the_table_names_a_corpus_of_it():
    quoted = re.compile(rf"""["']({"|".join(NAMES)})["']""")
    package = Path(corpora.__file__).parents[2]
    for_readers = ("runs/compare.py", "runs/origin.py", "figures/words.py")
    words = {package / place for place in for_readers}
    found = {
        f"{path.relative_to(package)}: {match[0]}"
        for path in package.rglob("*.py")
        if Path(corpora.__file__).parent not in path.parents and path not in words
        for match in quoted.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found, f"facts of a corpus stand in its file: {sorted(found)}"


# --- facts


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_of_a_corpus_fit_together(name):
    corpus = find_corpus(name)
    assert corpus.name == name and corpus.what and set(corpus.tasks) <= set(TASKS)
    assert bool(corpus.archive) != bool(corpus.made_up), "it is fetched, or made up"
    assert ("all" in corpus.aspects) == bool(corpus.scores)
    assert not (corpus.labels and corpus.scores) and not (corpus.labels and corpus.spans)
    if "alignment" in corpus.tasks or ("probing" in corpus.tasks and not corpus.spans):
        assert corpus.labels
    assert ("generation" in corpus.tasks) == bool(corpus.metric)


def test_the_tasks_find_their_corpora():
    expected = {
        "alignment": {"snli", "nli_small"},
        "generation": {"multi30k", "aeslc", "gigaword", "duc2004"},
        "probing": {"toy", "sst", "xquad", "squad"},
        "extraction": {"synthetic", "beer", "hotels", "hotel_rationales", "movies", "imdb_rationales", "imdb", "sst"},
    }
    known = set().union(*expected.values())  # a corpus of one's own changes nothing here
    assert {task: set(corpus_names(task)) & known for task in expected} == expected
    assert Corpus("stored", "an archive that no task reads").tasks == ()


@pytest.mark.parametrize(
    ("name", "aspect", "outputs"),
    [
        ("beer", "all", ("look", "smell", "palate", "taste", "overall")),
        ("beer", "palate", ("palate",)),
        ("hotels", "all", ("value", "rooms", "location", "cleanliness", "service")),
        ("movies", "overall", ("negative", "positive")),
        ("hotel_rationales", "service", ("negative", "positive")),
    ],
)
def test_outputs_are_named_once_by_the_corpus(name, aspect, outputs):
    assert find_corpus(name).outputs(aspect) == outputs


def test_archives_are_those_of_the_corpora_and_of_the_vectors():
    known = archives()
    assert {"sst", "imdb", "sumdata", "glove.6B", "imdb.w2v.300d"} <= set(known) and len(known) == 17
    assert find_archive("sumdata") is find_corpus("gigaword").archive is find_corpus("duc2004").archive


# --- reading


def test_made_up_texts_have_their_usual_number_where_all_are_asked_for():
    p = settings("synthetic", aspect="look", correlation=0.0, num_train=3, num_test=2)
    assert {name: len(part) for name, part in read_extraction(p).splits.items()} == {"train": 3, "dev": 500, "test": 2}
    splits = read_probing(settings("toy", num_train=3, num_dev=2, seed=1))
    assert {name: len(part) for name, part in splits.items()} == {"train": 3, "dev": 2, "test": 1_000}


def test_an_aspect_that_a_corpus_is_not_rated_for_is_refused():
    with pytest.raises(BadInput, match="aspect: 'service' is unknown; accepted: look, smell, palate, taste, overall"):
        read_extraction(settings("synthetic", aspect="service", correlation=0.0))


def read(corpus: Corpus) -> dict[str, list[Example]]:
    """A few examples of each split, as a run reads them."""
    p = settings(corpus.name, num_train=40, num_dev=40, num_test=40, correlation=0.0, seed=1)
    p.aspect, p.language = (corpus.aspects or ("",))[-1], (corpus.languages or ("",))[0]
    if "extraction" in corpus.tasks:
        return read_extraction(p).splits
    if "alignment" in corpus.tasks:
        return read_alignment(p).splits
    return read_generation(p).splits if "generation" in corpus.tasks else read_probing(p)


@pytest.mark.data
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.deep] * (name in LARGE)) for name in READ])
def test_texts_are_split_into_the_tokens_that_the_tokeniser_of_the_corpus_gives(name):
    corpus = find_corpus(name)
    if corpus.archive and not corpus.archive.files(data_folder()):
        pytest.skip(f"{name} is not in the data folder")
    splits = read(corpus)
    assert list(splits) == ["train", "dev", "test"]
    if corpus.spans:
        return  # a transformer splits them
    texts = [[word for word in e.tokens if word != "@@NULL@@"] for part in splits.values() for e in part[:40]]
    same = sum(split_text(" ".join(tokens), corpus.tokeniser) == tokens for tokens in texts)
    assert same >= 0.98 * len(texts), "but for what cannot be told from raw text"
    labels = {e.label for part in splits.values() for e in part}
    if corpus.labels:
        assert labels <= set(range(len(corpus.labels)))
    elif "extraction" in corpus.tasks:
        assert {len(label) for label in labels} == {len(corpus.outputs(corpus.aspects[-1]))}


def test_a_request_without_limits_asks_for_all():
    assert Request().limits == {"train": 0, "dev": 0, "test": 0}


def test_classes_take_turns_and_keep_their_own_order():
    examples = [Example((word,), label) for word, label in zip("abcde", (0, 0, 0, 1, 1), strict=True)]
    assert [example.tokens[0] for example in in_turn(examples)] == ["a", "d", "b", "e", "c"]
