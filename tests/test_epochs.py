"""The gates of a few texts after each epoch, saved without changing the training, and the explorer that shows them."""

import json
import re
from pathlib import Path

import pytest
import torch
from small import corpus, parameters, train
from test_embedded import in_node, needs_node

from rationale import training
from rationale.distributions import HardKuma
from rationale.errors import BadInput
from rationale.explorers import explore_shapes, explore_training
from rationale.nn import decide
from rationale.runs.committed import reference_folder
from rationale.runs.saved import read_history, read_rationales, save_run
from rationale.training.epochs import EPOCHS_FILE

WATCHED = [3, 0, 11]


def watched_run(folder: Path, **changes) -> training.Result:
    p = parameters(**changes)
    result = training.train_extractor(p, corpus(), "scores", 1, folder, watched=WATCHED)
    save_run(folder, result, p)
    return result


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, training.Result]:
    folder = tmp_path_factory.mktemp("watched") / "run"
    return folder, watched_run(folder)


def saved(folder: Path) -> dict:
    return json.loads((folder / EPOCHS_FILE).read_text())


def test_watching_texts_changes_no_number_of_a_training(run, tmp_path):
    drawn = {"rule": "sample", "epochs": 2}
    pairs = [
        (run[1], train(tmp_path / "run")),
        (watched_run(tmp_path / "drawn", **drawn), train(tmp_path / "b", **drawn)),
    ]
    for result, unwatched in pairs:
        for row, other in zip(result.history, unwatched.history, strict=True):
            assert {**row, "seconds": 0} == {**other, "seconds": 0}
        for name, value in unwatched.model.state_dict().items():
            assert result.model.state_dict()[name].equal(value), name
    assert not (tmp_path / "run" / EPOCHS_FILE).exists()


def test_the_gates_of_the_epoch_that_was_kept_are_those_of_the_finished_run(run):
    folder, result = run
    texts, epochs = saved(folder)["texts"], saved(folder)["epochs"]
    assert list(epochs) == ["1", "2", "3", "4"]
    rationales = read_rationales(folder, "dev")
    kept = epochs[str(result.best["epoch"])]
    for place, number in enumerate(WATCHED):
        row = rationales.iloc[number]
        assert texts[place]["tokens"] == list(row.tokens) and texts[place]["gold"] == [int(g) for g in row.gold]
        assert kept["z"][place] == pytest.approx(row.z, abs=2e-3), "three digits of the same gates"
        assert kept["answers"][place] == f"{row.prediction[0]:.3g}"
        assert all(0 <= value <= 1 for value in kept["open"][place])
    assert epochs["1"]["open"] != epochs["4"]["open"], "the gates have moved"


def test_the_shapes_of_the_gates_are_saved_and_give_the_probabilities_that_are_saved(run):
    folder, _ = run
    for gates in saved(folder)["epochs"].values():
        for place in range(len(WATCHED)):
            a, b = (torch.tensor(gates[name][place], dtype=torch.float64) for name in "ab")
            opened = HardKuma(a, b, gates["left"], gates["right"]).log_prob_nonzero.exp()
            assert opened.tolist() == pytest.approx(gates["open"][place], rel=0.05, abs=0.01), "up to three digits"


def test_a_run_that_is_continued_has_every_epoch_once(run, tmp_path):
    folder, _ = run
    watched_run(tmp_path / "run", epochs=2)
    assert list(saved(tmp_path / "run")["epochs"]) == ["1", "2"]
    watched_run(tmp_path / "run", epochs=4)
    assert saved(tmp_path / "run") == saved(folder)


def test_a_run_that_begins_anew_in_the_same_folder_has_no_epoch_of_the_one_before(tmp_path):
    watched_run(tmp_path / "run", epochs=3)
    watched_run(tmp_path / "run", epochs=2, learning_rate=1e-2)
    assert list(saved(tmp_path / "run")["epochs"]) == ["1", "2"]
    assert [row["epoch"] for row in explore_training(tmp_path / "run").epochs] == [1, 2]
    watched_run(tmp_path / "other", epochs=2, learning_rate=1e-2)
    assert saved(tmp_path / "run") == saved(tmp_path / "other")


def test_a_damaged_file_of_epochs_costs_no_training(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / EPOCHS_FILE).write_text('{"epochs": [1')
    watched_run(tmp_path / "run", epochs=1)
    assert list(saved(tmp_path / "run")["epochs"]) == ["1"]


def test_the_explorer_shows_the_rates_and_multipliers_of_the_history(run):
    folder, result = run
    explorer = explore_training(folder, text=1)
    history = read_history(folder)
    assert explorer.epoch == len(history) and explorer.best == result.best["epoch"] and explorer.text == 1
    assert [row["selected"] for row in explorer.epochs] == list(history["dev_rate_selected"])
    assert [row["multiplier"] for row in explorer.epochs] == list(history["selection.multiplier"])
    json.dumps(explorer.state(), allow_nan=False)


def test_a_run_without_gates_has_no_multiplier_to_show(tmp_path):
    watched_run(tmp_path / "run", model="full_text", selection=None, epochs=2)
    explorer = explore_training(tmp_path / "run")
    assert [row["multiplier"] for row in explorer.epochs] == [None, None] and explorer.target is None
    assert set(explorer.epochs[0]["open"][0]) == {1.0}
    with pytest.raises(BadInput, match="no shapes; a run with `model: hardkuma`"):
        explore_shapes(run=tmp_path / "run")


def test_a_run_that_has_saved_no_gates_is_refused(tmp_path):
    with pytest.raises(BadInput, match=EPOCHS_FILE):
        explore_training(tmp_path)
    with pytest.raises(BadInput, match=EPOCHS_FILE):
        explore_shapes(run=tmp_path)


def test_the_explorer_of_shapes_gets_the_gates_of_a_run_and_those_that_are_committed(run):
    folder, _ = run
    explorer = explore_shapes(run=folder)
    assert explorer.epoch == len(explorer.epochs) == 4 and explorer.support == [-0.1, 1.1] and explorer.word == 0
    assert explorer.epochs[2]["a"] == saved(folder)["epochs"]["3"]["a"]
    committed = explore_shapes(run=reference_folder())
    assert len(committed.texts) > 1 and len(committed.epochs) > 5
    json.dumps(committed.state(), allow_nan=False)
    assert explore_shapes().texts == [], "without a run there are no gates"


@needs_node
def test_the_browser_puts_the_gates_of_a_run_where_the_package_has_them(run):
    explorer = explore_shapes(run=run[0])
    state = explorer.state()
    points = [{"text": text, "epoch": epoch, **state} for text in range(len(WATCHED)) for epoch in (1, 4)]
    function = "({texts, epochs, support, text, epoch}) => m.trainedAt(texts, epochs, support, text, epoch)"
    for point, found in zip(points, in_node(explorer, function, points), strict=True):
        gates = saved(run[0])["epochs"][str(point["epoch"])]
        shapes = ((gates[name][point["text"]]) for name in "ab")
        gate = HardKuma(*(torch.tensor(shape, dtype=torch.float64) for shape in shapes), *explorer.support)
        assert [row["word"] for row in found] == explorer.texts[point["text"]]["tokens"]
        opened, z = gate.log_prob_nonzero.exp().tolist(), decide(gate, rule="argmax").tolist()
        assert [row["open"] for row in found] == pytest.approx(opened, rel=0.05, abs=0.01), "up to three digits"
        assert [row["z"] for row in found] == pytest.approx(z, rel=0.05, abs=0.01)


@needs_node
def test_the_words_on_the_map_are_selected_as_the_rule_of_the_run_selects_them(tmp_path):
    watched_run(tmp_path / "run", rule="top_k", budget=0.3, epochs=1)
    explorer, gates = explore_shapes(run=tmp_path / "run"), saved(tmp_path / "run")["epochs"]["1"]
    function = "state => state.texts.map((_, text) => m.trainedAt(state.texts, state.epochs, state.support, text, 1))"
    (texts,) = in_node(explorer, function, [explorer.state()])
    assert [[row["z"] for row in words] for words in texts] == gates["z"], "not as the rule argmax would"
    assert [[row["open"] for row in words] for words in texts] == gates["open"]


def test_a_number_of_no_text_and_a_file_without_an_epoch_are_refused(run, tmp_path):
    for text in (-1, len(WATCHED)):
        with pytest.raises(ValueError, match=f"text: got {text}, accepted are 0 to 2"):
            explore_training(run[0], text=text)
    for name in ("history.csv", "metrics.json"):
        (tmp_path / name).write_bytes((run[0] / name).read_bytes())
    (tmp_path / EPOCHS_FILE).write_text(json.dumps(saved(run[0]) | {"epochs": {}}))
    with pytest.raises(BadInput, match="has the gates of no epoch"):
        explore_training(tmp_path)


@needs_node
def test_a_text_in_which_nobody_has_marked_a_word_is_not_said_to_have_no_gold_word_selected(run):
    explorer = explore_training(run[0])
    state = explorer.state()
    unmarked = [text | {"gold": [0] * len(text["tokens"])} for text in state["texts"]]
    function = "({texts, epochs, target, best}) => m.sentenceAt(texts, epochs, 0, 1, target, best)"
    marked, other = in_node(explorer, function, [state, state | {"texts": unmarked}])
    assert re.sub(r", \d+ of them gold", "", marked) == other != marked


@needs_node
def test_the_browser_shows_the_words_that_the_run_has_selected(run):
    folder, result = run
    explorer = explore_training(folder)
    state = explorer.state()
    points = [{"text": text, "epoch": epoch, **state} for text in range(len(WATCHED)) for epoch in (1, 2, 3, 4)]
    function = """({texts, epochs, text, epoch, target, best}) => ({
      words: m.wordsAt(texts, epochs, text, epoch),
      sentence: m.sentenceAt(texts, epochs, text, epoch, target, best)})"""
    for point, shown in zip(points, in_node(explorer, function, points), strict=True):
        text, gates = saved(folder)["texts"][point["text"]], saved(folder)["epochs"][str(point["epoch"])]
        z, gold = gates["z"][point["text"]], text["gold"]
        assert [word["word"] for word in shown["words"]] == text["tokens"]
        assert [word["open"] for word in shown["words"]] == gates["open"][point["text"]]
        chosen, right = sum(value > 0 for value in z), sum(v > 0 and g for v, g in zip(z, gold, strict=True))
        assert f"In this text: {chosen} of {len(z)} words, {right} of them gold" in shown["sentence"]
        assert ("the one that was kept" in shown["sentence"]) == (point["epoch"] == result.best["epoch"])
        assert "(target 40 %)" in shown["sentence"]
