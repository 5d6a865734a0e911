"""Saved runs: what is written is what was found, and what is loaded predicts the same."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from small import classified, corpus, parameters, train

from rationale import training
from rationale.data import Batches, Example, encode
from rationale.data.corpora.synthetic import read_synthetic
from rationale.data.targets import Targets, build_text_vocabularies
from rationale.errors import BadInput
from rationale.models import build_seq2seq
from rationale.models.beam_search import Generation
from rationale.runs.saved import (
    load_run,
    read_generations,
    read_history,
    read_metrics,
    read_rationales,
    save_run,
    save_texts,
)
from rationale.training.checkpoint import read_tensors, write_tensors
from rationale.training.generation import GenerationResult
from rationale.training.settings import AlignmentSettings

RUNS = [
    {},
    {"model": "full_text", "selection": None},
    {"model": "hard_concrete", "predictor": "compact", "rule": "expected", "left": -0.2, "right": 1.3},
    {"predictor": "compact", "rule": "threshold", "hidden_size": 4, "threshold": 0.3},
    {"model": "attention", "selection": None, "rule": "top_k", "budget": 0.2},
    {
        "model": "bernoulli",
        "dependent": True,
        "pool": "max",
        "baseline": "leave_one_out",
        "samples": 2,
        "sparsity": 0.01,
        "selection": None,
    },
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A saved run: its folder, the result in memory and what `save_run` returned."""
    folder = tmp_path_factory.mktemp("run")
    result = train(folder, epochs=2)
    return folder, result, save_run(folder, result, parameters(epochs=2))


def test_a_folder_called_like_a_corpus_does_not_change_what_a_run_is_taken_for(run, tmp_path, monkeypatch):
    folder, result, _ = run
    save_run(tmp_path / "run", result, SimpleNamespace(**vars(parameters(epochs=2)), corpus="synthetic"))
    before = load_run(tmp_path / "run")
    (tmp_path / "synthetic").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_run("run").outputs == before.outputs == ["look"]


@pytest.mark.parametrize("changes", RUNS, ids=lambda changes: "-".join(map(str, changes.values())) or "hardkuma")
def test_a_loaded_run_predicts_and_selects_the_same_on_new_text(tmp_path, changes):
    result = train(tmp_path, epochs=1, **changes)
    save_run(tmp_path, result, parameters(epochs=1, **changes))
    loaded = load_run(tmp_path)
    new = read_synthetic(num_train=0, num_dev=0, num_test=30, seed=9)["test"]
    assert loaded.vocabulary.words == result.vocabulary.words
    with torch.no_grad():
        for batch in Batches(new, loaded.vocabulary, 8).in_order():
            before, after = result.model(batch.tokens, batch.mask), loaded.model(batch.tokens, batch.mask)
            assert after.prediction.equal(before.prediction) and after.z.equal(before.z)
    assert not loaded.model.training, "ready to read, not to train"
    assert vars(loaded.parameters) == vars(parameters(epochs=1, **changes)) and loaded.labels is None


@contextmanager
def default_type(kind):
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


TYPES = pytest.mark.parametrize(
    ("trained", "read"), [(torch.float64, torch.float32), (torch.float32, torch.float64)], ids=str
)


@TYPES
@pytest.mark.parametrize("changes", RUNS, ids=lambda changes: "-".join(map(str, changes.values())) or "hardkuma")
def test_a_model_answers_the_same_in_a_session_with_another_default_type(tmp_path, changes, trained, read):
    p = parameters(epochs=1, **changes)
    with default_type(trained):
        result = training.train_extractor(p, classified(corpus()), "classes", 2, tmp_path)
        save_run(tmp_path, result, p, labels=["low", "high"])
        before = load_run(tmp_path)(["a nice smell", "the look is bad"])
    with default_type(read):
        loaded = load_run(tmp_path)
        assert loaded(["a nice smell", "the look is bad"]) == before
    assert {value.dtype for value in [*loaded.model.parameters(), loaded.model.vectors]} == {trained}


@TYPES
@pytest.mark.parametrize("changes", [{}, {"model": "recurrent"}, {"model": "softmax", "intra": True}], ids=str)
def test_a_model_of_pairs_answers_the_same_in_a_session_with_another_default_type(tmp_path, changes, trained, read):
    sizes = {"vectors": "random", "embedding_size": 6, "hidden_size": 4, "epochs": 1, "device": "cpu"}
    p = AlignmentSettings(corpus="snli", **(sizes | changes))
    pairs = [Example(("a", "warm", "film"), k % 2, second=("it", "is", "good")) for k in range(8)]
    with default_type(trained):
        result = training.train_aligner(p, dict.fromkeys(("train", "dev", "test"), pairs), "classes", 2, tmp_path)
        save_run(tmp_path, result, p, labels=["no", "yes"])
        before = load_run(tmp_path)([("a warm film", "it is good")])
    with default_type(read):
        assert load_run(tmp_path)([("a warm film", "it is good")]) == before


def test_weights_of_several_types_are_refused(tmp_path, run):
    tensors, facts = read_tensors(run[0] / "model.safetensors")
    name = next(name for name in tensors if "weight" in name)
    write_tensors(tmp_path / "model.safetensors", tensors | {name: tensors[name].double()}, facts)
    with pytest.raises(BadInput, match=r"no model of this project.*weights of float32, float64, not of one type"):
        load_run(tmp_path)


YOUNGER = {"look_ahead", "pool", "threshold", "budget", "sparsity", "coherence", "penalty", "entropy", "warmup",
           "samples", "baseline", "multiplier_max", "schedule", "patience"}  # fmt: skip


def test_a_model_saved_before_there_were_these_parameters_still_loads(tmp_path, run):
    folder, result, _ = run
    tensors, facts = training.read_tensors(folder / "model.safetensors")
    facts["parameters"] = {name: value for name, value in facts["parameters"].items() if name not in YOUNGER}
    assert len(facts["parameters"]) == len(parameters().__dict__) - len(YOUNGER)
    training.write_tensors(tmp_path / "model.safetensors", tensors, facts)
    loaded = load_run(tmp_path)
    assert vars(loaded.parameters) == vars(parameters(epochs=2)), "what it does not name has its old meaning"
    batch = encode([["a", "nice", "smell"], ["bad"]], loaded.vocabulary)
    with torch.no_grad():
        before, after = result.model(batch.tokens, batch.mask), loaded.model(batch.tokens, batch.mask)
    assert after.prediction.equal(before.prediction) and after.z.equal(before.z)


def test_a_saved_file_says_its_format_and_its_task(run):
    _, facts = training.read_tensors(run[0] / "model.safetensors")
    assert (facts["format"], facts["task"], facts["head"]) == (2, "extraction", "scores")
    assert load_run(run[0]).task == "extraction"


def test_a_file_of_the_format_before_there_were_numbers_still_loads(tmp_path, run):
    folder, result, _ = run
    tensors, facts = training.read_tensors(folder / "model.safetensors")
    old = {name: facts[name] for name in ("parameters", "vocabulary", "head", "num_outputs", "labels")}
    training.write_tensors(tmp_path / "model.safetensors", tensors, old)
    loaded = load_run(tmp_path)
    assert loaded.task == "extraction"
    batch = encode([["a", "nice", "smell"], ["bad"]], loaded.vocabulary)
    with torch.no_grad():
        before, after = result.model(batch.tokens, batch.mask), loaded.model(batch.tokens, batch.mask)
    assert after.prediction.equal(before.prediction) and after.z.equal(before.z)


@pytest.mark.parametrize(
    ("old", "message"),
    [({"vocabularies": [[], []], "parameters": {}}, "an encoder-decoder"), ({"parameters": {"methods": []}}, "probed")],
)
def test_a_file_of_another_task_and_the_old_format_is_refused_in_one_line(tmp_path, old, message):
    training.write_tensors(tmp_path / "model.safetensors", {}, old)
    with pytest.raises(BadInput, match=message) as error:
        load_run(tmp_path)
    assert "\n" not in str(error.value)


def test_a_file_of_a_later_format_is_refused_in_one_line(tmp_path, run):
    tensors, facts = training.read_tensors(run[0] / "model.safetensors")
    training.write_tensors(tmp_path / "model.safetensors", tensors, facts | {"format": 3})
    with pytest.raises(BadInput, match="format 3; accepted are 1 and 2") as error:
        load_run(tmp_path)
    assert "\n" not in str(error.value)


def test_a_loaded_classifier_knows_its_labels(tmp_path):
    splits = classified(corpus())
    result = training.train_extractor(parameters(epochs=1), splits, "classes", 2, tmp_path)
    save_run(tmp_path, result, parameters(epochs=1), labels=["low", "high"])
    loaded = load_run(tmp_path)
    batch = encode([["a", "nice", "smell"]], loaded.vocabulary)
    assert loaded.labels == ["low", "high"]
    assert loaded.model(batch.tokens, batch.mask).prediction.shape == (1, 2)
    rows = read_rationales(tmp_path)
    assert set(rows["prediction"]) <= {0, 1} and rows["label"].tolist()[:20] == [e.label for e in splits["dev"]]


def test_rationales_hold_every_text_with_z_exactly_zero_where_it_was(run):
    folder, result, _ = run
    rows = read_rationales(folder)
    assert rows["split"].tolist() == ["dev"] * 20 + ["test"] * 20
    for split, evaluation in result.evaluations.items():
        part = read_rationales(folder, split)
        assert part.index.tolist() == list(range(20)), "numbered anew"
        for i, example in enumerate(result.splits[split]):
            row = part.loc[i]
            assert tuple(row["tokens"]) == example.tokens
            assert row["label"] == list(example.label)
            assert row["gold"] == [int(flag) for flag in example.rationale]
            assert row["informative"] == [int(flag) for flag in example.informative]
            assert [z > 0 for z in row["z"]] == (evaluation.z[i] > 0).tolist(), f"{split} text {i}"
            assert torch.tensor(row["z"]).equal(evaluation.z[i]), "z to the last digit"
            assert row["prediction"] == evaluation.prediction[i].tolist()


def test_tiny_gates_and_odd_words_survive_the_file(tmp_path, run):
    _, result, _ = run
    tokens = ("2004", "1e5", "null", "\u2028", "\x85", '"', "\\", "ö", "12-01-2004")
    z = torch.tensor([0.0, 1e-45, 1e-38, 1e-30, 1.0, 0.5, 1 - 6e-8, 0.1, 0.0])
    evaluation = training.Evaluation({}, torch.tensor([[1e-30]]), [z], torch.tensor([[1e-30]]))
    odd = training.Result(
        result.model, result.vocabulary, {"dev": [Example(tokens, (0.5,), word_labels=(2,) * 9)]},
        {"dev": evaluation}, result.history, result.best,
    )  # fmt: skip
    save_run(tmp_path, odd, parameters())
    row = read_rationales(tmp_path, "dev").loc[0]
    assert tuple(row["tokens"]) == tokens
    assert [value > 0 for value in row["z"]] == (z > 0).tolist(), f"{row['z']}"
    assert row["word_labels"] == [2] * 9


def test_metrics_and_history_come_back_as_they_were(run):
    folder, result, returned = run
    assert read_metrics(folder) == returned
    assert returned["dev"] == result.evaluations["dev"].metrics
    assert returned["test"] == result.evaluations["test"].metrics
    assert returned["best_epoch"] == result.best["epoch"]
    assert read_history(folder).to_dict("records") == result.history, "floats to the last bit"


def test_saving_again_replaces_and_leaves_no_drafts(run):
    folder, result, _ = run
    before = sorted(path.name for path in folder.iterdir())
    save_run(folder, result, parameters(epochs=2))
    assert sorted(path.name for path in folder.iterdir()) == before
    assert {"metrics.json", "history.csv", "rationales.jsonl", "model.safetensors"} <= set(before)


def test_all_files_of_a_run_have_the_mode_of_a_new_file(run, tmp_path):
    (tmp_path / "new").touch()
    usual = (tmp_path / "new").stat().st_mode
    odd = {path.name: oct(path.stat().st_mode) for path in run[0].iterdir() if path.stat().st_mode != usual}
    assert not odd, f"a new file has {oct(usual)}"


# --- wrong folders


@pytest.mark.parametrize("read", [load_run, read_metrics, read_history, read_rationales])
def test_a_folder_that_is_no_run_is_named_in_one_line(tmp_path, read):
    for folder in (tmp_path, tmp_path / "nowhere", str(tmp_path)):
        with pytest.raises(BadInput, match="accepted is the folder of a finished training run") as error:
            read(folder)
        assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_a_run_that_saved_no_model_is_named_as_such(tmp_path):
    (tmp_path / "metrics.json").write_text("{}")
    (tmp_path / "params.yaml").write_text("model: svm\n")
    with pytest.raises(BadInput, match=r"a finished run of a model whose weights are not saved \('svm'\); accepted"):
        load_run(tmp_path)


@pytest.mark.parametrize("content", ["text", "foreign", "half"])
def test_a_model_file_of_another_kind_is_refused(tmp_path, run, content):
    path = tmp_path / "model.safetensors"
    if content == "text":
        path.write_text("not a model")
    elif content == "foreign":
        save_file({"weight": torch.zeros(2)}, path)
    else:
        whole = (run[0] / "model.safetensors").read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="model.safetensors: no model of this project") as error:
        load_run(tmp_path)
    assert "\n" not in str(error.value)


def test_rationales_are_one_json_object_a_line(run):
    lines = (run[0] / "rationales.jsonl").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == "" and len(lines) == 40
    assert all({"split", "tokens", "z", "label", "prediction"} <= json.loads(line).keys() for line in lines)


def test_a_run_of_an_encoder_decoder_is_not_taken_for_one_on_texts(tmp_path):
    training.write_tensors(tmp_path / "model.safetensors", {}, {"vocabularies": [[], []]})
    with pytest.raises(BadInput, match="whose generated texts are in generations.jsonl; accepted is a run on texts"):
        load_run(tmp_path)


def test_the_zeros_of_attention_are_the_mean_over_the_texts_of_which_something_was_said(tmp_path):
    example = Example(("a", "b", "c", "d"), 0, second=("x", "</s>"))
    targets = Targets({split: [example] * 3 for split in ("train", "dev")}, {"dev": [["x"]] * 3})
    vocabularies = build_text_vocabularies(targets.splits["train"])
    word, end = vocabularies[1].encode(["x", "</s>"])
    p = SimpleNamespace(model="sparsemax", hidden_size=4, dropout=0.0)
    model = build_seq2seq(p, *map(len, vocabularies), end)
    weights = torch.tensor([[0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 0.0]])  # 3 and 2 zeros of 4
    said = [Generation([word] * n, weights[:n], -1.0) for n in (2, 1, 0)]
    row = {"epoch": 1, "seconds": 1.0}
    save_texts(tmp_path, GenerationResult(model, vocabularies, {"dev": said}, {"dev": {}}, [row], row), targets, p)
    assert read_generations(tmp_path, "dev")["zeros"].tolist() == [0.625, 0.75, 0.0]
    metrics = json.loads((tmp_path / "metrics.json").read_text())  # of a run without a test split
    assert metrics["dev"]["zeros"] == pytest.approx((0.625 + 0.75) / 2), "of the third nothing was said"
