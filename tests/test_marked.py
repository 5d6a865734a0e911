"""A run on reviews without rationales is compared with the words that people marked in other reviews."""

import pytest
import yaml
from small import parameters, train

from rationale.data.corpora import find_corpus
from rationale.errors import BadInput
from rationale.runs import marked, saved

ROW = "hotel_{}\t1\tthe head is good and the staff was kind\t0 0 0 1 0 0 0 0 1\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    saved.save_run(folder, train(folder / "work"), parameters())
    return folder


def of(run, **settings):
    settings = {"corpus": "hotels", "aspect": "service", "model": "hardkuma"} | settings
    (run / "params.yaml").write_text(yaml.safe_dump(settings))
    return run


def test_a_run_on_hotels_is_compared_with_what_people_marked(run, monkeypatch, tmp_path):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    with pytest.raises(BadInput, match="hotel_rationales: not in .*data.zip"):
        marked.marked_scores(of(run))
    for aspect in ("Service", "Location", "Cleanliness"):
        for name in ("oracle/hotel_{}.train", "oracle/hotel_{}.dev", "target/hotel_{}.train"):
            file = tmp_path / "hotel_rationales" / name.format(aspect)
            file.parent.mkdir(parents=True, exist_ok=True)
            text = ROW if "target" in name else "hotel_{}\t0\ta dull stay\n"
            file.write_text("task\tlabel\ttext\trationale\n" + text.format(aspect))
    scores = marked.marked_scores(of(run))
    assert 0 <= scores["rate_selected"] <= 1 and 0 <= scores["precision"] <= 1 and 0 <= scores["recall"] <= 1
    assert scores["blind_random_words"] == pytest.approx(2 / 9), "two of nine words are marked"


def test_other_runs_are_not_compared(run):
    for settings in ({"aspect": "rooms"}, {"corpus": "movies", "aspect": "overall"}, {}):
        if not settings:
            (run / "model.safetensors").unlink()  # a baseline that is not a network has none
        assert marked.marked_for(of(run, **settings)) is None, settings
        with pytest.raises(BadInput, match="nobody has marked"):
            marked.marked_scores(of(run, **settings))


def test_the_marked_texts_are_of_a_corpus_with_some_of_the_same_aspects():
    hotels = find_corpus("hotels")
    assert set(find_corpus(hotels.marked_by).aspects) <= set(hotels.aspects)
