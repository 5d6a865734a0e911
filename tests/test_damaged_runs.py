"""A damaged run is refused in one line that names the file: no traceback, and with digests never another answer."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from small import parameters, train

from rationale import training
from rationale.errors import BadInput
from rationale.files import write_text
from rationale.runs import compare
from rationale.runs.cells import defaults
from rationale.runs.faithfulness import judge_finished
from rationale.runs.folder import add_file, read_digests, unlike_digests, write_digests
from rationale.runs.intact import check_digest
from rationale.runs.predict import predict
from rationale.runs.saved import (
    load_run,
    read_history,
    read_metrics,
    read_parameters,
    read_rationales,
    save_run,
)
from rationale.runs.workspace import notebook_path

READERS: dict[str, list[Callable]] = {
    "metrics.json": [read_metrics, compare.rows_of],
    "rationales.jsonl": [read_rationales],
    "history.csv": [read_history],
    "params.yaml": [read_parameters, compare.rows_of],
    "environment.txt": [compare.rows_of],
    "model.safetensors": [lambda folder: next(predict(load_run(folder), [["a", "nice", "smell"]]))],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run with all of its files but the notebook."""
    folder = tmp_path_factory.mktemp("outputs") / "10_first_rationale" / "whole"
    p = parameters(epochs=1)
    save_run(folder, train(folder, epochs=1), p)
    for checkpoint in folder.glob("checkpoint*"):
        checkpoint.unlink()
    (folder / "params.yaml").write_text(yaml.safe_dump(defaults(notebook_path("10_first_rationale")) | vars(p)))
    (folder / "environment.txt").write_text(f"notebook: 10_first_rationale\ncommit: {'0' * 40}\ndevice: cpu\n")
    return folder


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "10_first_rationale" / "run"))


def outcome(read: Callable, folder: Path) -> str:
    """What a reader gives, as text; or "refused"."""
    try:
        return str(read(folder) if read is not read_history else read(folder).to_csv())
    except BadInput as error:
        message = str(error)
        assert "\n" not in message and str(folder) in message, message
        return "refused"


def damages(content: bytes, count: int, rng: random.Random) -> list[bytes]:
    """Versions of a file with one flipped bit, cut short, emptied, overwritten or with something inserted."""
    found = [b"", b"null", b"[]", b"{}", b"0", b"\xff\xfe", b"\n", content[:-1], content[: len(content) // 2]]
    while len(found) < count:
        place = rng.randrange(min(len(content), rng.choice([100, 3000, len(content)])))
        kind = rng.randrange(5)
        if kind < 2:
            found.append(content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :])
        elif kind == 2:
            found.append(content[:place])
        elif kind == 3:
            found.append(content[:place] + rng.randbytes(8) + content[place + 8 :])
        else:
            found.append(content[:place] + rng.choice([b"null", b"NaN", b"\0", b"-", b"[", b"1e999"]) + content[place:])
    return [other for other in found if other != content]


@pytest.mark.parametrize("name", READERS)
def test_a_file_damaged_in_any_way_is_read_or_refused_in_one_line(name, run):
    """Without digests a digit may become another one, which nothing can see; but there is no other exception."""
    content, rng = (run / name).read_bytes(), random.Random(name)
    for other in damages(content, 50, rng):
        (run / name).write_bytes(other)
        for read in READERS[name]:
            outcome(read, run)
    torn = content[: content.find(b"\n", len(content) // 3) + 3]  # within a line: whole lines may be read
    for empty in (b"", torn):
        (run / name).write_bytes(empty)
        if name != "environment.txt" or not empty:
            assert [outcome(read, run) for read in READERS[name]] == ["refused"] * len(READERS[name])


@pytest.mark.parametrize("name", READERS)
def test_any_damage_to_a_file_with_a_digest_is_refused(name, run):
    write_digests(run)
    content, rng = (run / name).read_bytes(), random.Random(f"digest {name}")
    assert "refused" not in [outcome(read, run) for read in READERS[name]]
    for other in damages(content, 30, rng):
        (run / name).write_bytes(other)
        assert {outcome(read, run) for read in READERS[name]} == {"refused"}, other[:80]
    (run / name).write_bytes(content)
    assert "refused" not in [outcome(read, run) for read in READERS[name]], "whole again"


def test_a_damaged_list_of_digests_is_refused_and_named(run):
    write_digests(run)
    content, rng = (run / "SHA256SUMS").read_bytes(), random.Random(1)
    for other in damages(content, 50, rng):
        (run / "SHA256SUMS").write_bytes(other)
        for read in (read for readers in READERS.values() for read in readers):
            outcome(read, run)
    (run / "SHA256SUMS").write_bytes(content[:70] + b"\xff")
    with pytest.raises(BadInput, match="SHA256SUMS: damaged"):
        check_digest(run / "metrics.json")


@pytest.mark.parametrize(("name", "change"), [
    ("metrics.json", lambda c: c | {"dev": None}), ("metrics.json", lambda c: c | {"test": {"mse": "0.1"}}),
    ("metrics.json", lambda c: c | {"best_epoch": [1]}), ("metrics.json", lambda c: {"dev": c["dev"]}),
    ("params.yaml", lambda c: c | {"selection": "0.4x"}), ("params.yaml", lambda c: c | {"seed": None}),
    ("params.yaml", lambda c: c | {"model": 3}), ("params.yaml", lambda c: c | {"methods": {"a": 1}}),
    ("params.yaml", lambda c: {name: value for name, value in c.items() if name != "seed"}),
])  # fmt: skip
def test_a_wrong_type_inside_a_file_is_refused(name, change, run):
    read, write = (json.loads, json.dumps) if name.endswith("json") else (yaml.safe_load, yaml.safe_dump)
    (run / name).write_text(write(change(read((run / name).read_text()))))
    with pytest.raises(BadInput, match=rf"{name}: damaged \(.*\); restore it from a copy, or make the run again"):
        compare.rows_of(run)


@pytest.mark.parametrize(("change", "why"), [
    ({"z": [0.5]}, r"1 values of z"), ({"z": None, "tokens": 3}, "tokens"), ({"gold": ["a"]}, "gold"),
    ({"split": None}, "split"), ({"z": [2.0] * 999}, "values of z"),
])  # fmt: skip
def test_a_text_whose_gates_do_not_fit_its_words_is_refused_with_its_line(change, why, run):
    lines = (run / "rationales.jsonl").read_text(encoding="utf-8").splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | change)
    (run / "rationales.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"rationales.jsonl: damaged \(line 4: .*{why}"):
        read_rationales(run)


def tampered(run: Path, change: Callable) -> Path:
    tensors, facts = training.read_tensors(run / "model.safetensors")
    change(tensors, facts)
    training.write_tensors(run / "model.safetensors", tensors, facts)
    return run


@pytest.mark.parametrize(("change", "why"), [
    (lambda tensors, _: next(iter(tensors.values())).view(-1)[0].fill_(torch.nan), "NaN or an infinite number"),
    (lambda tensors, _: tensors["vectors"][3, 0].fill_(torch.inf), "vectors holds NaN or an infinite number"),
    (lambda _, facts: facts["vocabulary"].pop(), r"\d+ words for \d+ vectors"),
    (lambda _, facts: facts["vocabulary"].append("one more"), r"\d+ words for \d+ vectors"),
    (lambda _, facts: facts["vocabulary"].__setitem__(4, 7), "something else than words"),
    (lambda _, facts: facts.update(labels=["a", "b", "c"]), "3 labels for 1 outputs"),
    (lambda _, facts: facts.update(vocabulary=None), "model.safetensors"),
])  # fmt: skip
def test_weights_that_are_no_numbers_and_words_that_do_not_fit_are_refused(change, why, run):
    with pytest.raises(BadInput, match=why) as error:
        load_run(tampered(run, change))
    assert "\n" not in str(error.value) and "model.safetensors" in str(error.value)


def test_rationales_that_are_judged_again_have_their_digest_renewed_and_a_damaged_run_is_refused(run, monkeypatch):
    (run / "faithfulness.json").write_text("{}")
    (run / "note.txt").write_text("mine")
    write_digests(run)
    monkeypatch.setattr("rationale.runs.answers.SavedRun.gives_classes", True)  # scores are let through
    monkeypatch.setattr("rationale.runs.faithfulness.scores_of", lambda folder, splits: {"test": {"empty": 0.5}})
    (run / "faithfulness.json").write_text("{")  # is written anew
    judge_finished(run)
    check_digest(run / "faithfulness.json")
    assert json.loads((run / "faithfulness.json").read_text()) == {"test": {"empty": 0.5}}
    (run / "note.txt").write_text("changed")
    with pytest.raises(BadInput, match=r"note.txt: damaged \(it is not as the run has written it"):
        judge_finished(run)


@pytest.mark.parametrize("killed_at", [1, 2, 3])
def test_whenever_a_process_that_judges_is_killed_no_digest_is_wrong(run, monkeypatch, killed_at):
    (run / "faithfulness.json").write_text("{}")
    write_digests(run)
    written = []

    def die(path, text):
        written.append(path.name)
        if len(written) == killed_at:
            raise KeyboardInterrupt
        write_text(path, text)

    monkeypatch.setattr("rationale.runs.folder.write_text", die)
    with pytest.raises(KeyboardInterrupt):
        add_file(run, "faithfulness.json", '{"test": {}}')
    assert not unlike_digests(run)
    monkeypatch.undo()
    add_file(run, "faithfulness.json", '{"test": {}}')
    assert not unlike_digests(run) and "faithfulness.json" in read_digests(run)


def test_rationales_of_a_run_without_texts_of_a_split_are_not_judged(run, monkeypatch):
    monkeypatch.setattr("rationale.runs.answers.SavedRun.gives_classes", True)
    rows = (run / "rationales.jsonl").read_text().splitlines(keepends=True)
    (run / "rationales.jsonl").write_text("".join(row for row in rows if '"split": "dev"' in row))
    with pytest.raises(BadInput, match="rationales.jsonl: damaged .it holds no text of test"):
        judge_finished(run)
