"""Every notebook that trains a model runs to its last cell where the model is on a GPU.

There is no need for one: see tests/pretend_gpu.py. On a machine that has one, the same notebooks run on it too.
"""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from rationale.runs.parameters import defaults
from tests.in_process import run_cells
from tests.pretend_gpu import PLACE, TABLES, Remote, pretend_gpu
from tests.smoke import NOTEBOOKS, skip_without_data, smoke_parameters


def trains(notebook: Path) -> bool:
    """Whether a notebook has a setting `device`, told by its number, because reading all of them takes seconds."""
    return notebook.stem.startswith("1")


def cases() -> list:
    """The notebooks with a setting `device`, 41, which trains a model without one, and 17 with a transformer.

    To the package transformers, what is on the `meta` device has no numbers: it needs a real GPU.
    """
    found = []
    for notebook in NOTEBOOKS:
        given = {"device": "auto"} if trains(notebook) else {}
        if given or notebook.stem == "41_diffmask":
            for kind, mark in {"pretended": pytest.mark.deep, "real": pytest.mark.gpu}.items():
                found.append(pytest.param(notebook, kind, given, id=f"{notebook.stem}, {kind}", marks=mark))
        if notebook.stem == "17_train_own_texts":
            changes, name = {"encoder": "transformer", "model": "bernoulli"}, f"{notebook.stem}, transformer"
            found.append(pytest.param(notebook, "real", changes, id=name, marks=pytest.mark.gpu))
    return found


def test_the_notebooks_with_a_setting_of_the_device_are_those_that_train():
    with_device = {notebook.stem for notebook in NOTEBOOKS if "device" in defaults(notebook)}
    assert with_device == {notebook.stem for notebook in NOTEBOOKS if trains(notebook)}


@pytest.mark.parametrize(("notebook", "kind", "changes"), cases())
def test_a_notebook_that_trains_runs_on_a_gpu(notebook: Path, kind: str, changes: dict, tmp_path, monkeypatch):
    skip_without_data(notebook)
    pytest.importorskip("matplotlib").use("Agg")
    with pretend_gpu(monkeypatch) if kind == "pretended" else nullcontext():
        given = smoke_parameters(notebook) | changes
        failed, _ = run_cells(notebook.stem, tmp_path, monkeypatch, pictures=True, **given)
    source, error = next(iter(failed.items()), ("", None))  # others may follow from it
    assert not failed, f"{type(error).__name__}: {error}\n\nin this cell:\n{source}"


# ----------------------------------------------------------------------------------------------- the pretended device
@pytest.fixture
def x(monkeypatch):
    with pretend_gpu(monkeypatch):
        yield torch.arange(6.0, device=PLACE).view(2, 3)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x + torch.ones(3),
        lambda x: x - torch.tensor([1.0, 2.0, 3.0]),
        lambda x: torch.nn.functional.embedding(torch.tensor([1, 0]), x),
        lambda x: torch.nn.Linear(3, 2)(x),
        lambda x: torch.where(torch.ones(2, 3) > 0, x, 0.0),
        lambda x: x.numpy(),
    ],
    ids=["sum", "list", "embedding", "weights", "condition", "numpy"],
)
def test_tensors_of_two_devices_are_refused(x, mixed):
    with pytest.raises((RuntimeError, TypeError), match="GPU"):
        mixed(x)


def test_what_a_gpu_accepts_has_the_numbers_of_the_cpu(x):
    def numbers(x, place):
        weights = torch.nn.Linear(3, 2).to(place)
        for value in weights.parameters():
            torch.nn.init.constant_(value, 0.5)
        optimizer = torch.optim.Adam(weights.parameters(), lr=0.1, fused=True)
        rows = x[torch.arange(2)]  # an index on the CPU
        loss = weights(rows).square().sum() * torch.tensor(2.0)  # a number without a dimension
        loss.backward()
        optimizer.step()
        found = [loss, weights.weight.grad, weights.weight, x.new_ones(2), torch.zeros_like(x), x.sort().indices]
        assert all(value.device == place for value in found)
        return [value.tolist() for value in found]

    assert isinstance(x, Remote) and x.device == PLACE and type(x.cpu()) is torch.Tensor
    assert numbers(x, PLACE) == numbers(x.cpu(), torch.device("cpu"))


def test_torch_remembers_no_function_of_the_pretended_device(monkeypatch):
    for remembered in TABLES:
        remembered.cache_clear()
    with pretend_gpu(monkeypatch):
        for remembered in TABLES:
            remembered()
    monkeypatch.undo()
    assert all(torch.tensor in remembered() for remembered in TABLES)
