"""How often a notebook is saved while it is executed."""

import nbformat
import pytest

from rationale.runs import saving

engines = pytest.importorskip("papermill.engines")


@pytest.fixture
def written(monkeypatch):
    """The states of the cells in each notebook that is written."""
    found = []
    monkeypatch.setattr(
        engines, "write_ipynb", lambda nb, path: found.append([c.metadata.papermill.status for c in nb.cells])
    )
    return found


def notebook(num_cells):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1") for _ in range(num_cells)])
    made.metadata.papermill = {}
    return made


class Cells:
    """Executes cells as papermill's client does, except that nothing happens in them."""

    def __init__(self, manager, fail_at=None, **_):
        self.manager, self.fail_at = manager, fail_at

    def execute(self):
        for i, cell in enumerate(self.manager.nb.cells):
            self.manager.cell_start(cell, i)
            if i == self.fail_at:
                self.manager.cell_exception(cell, i)
                raise RuntimeError("the kernel died")
            self.manager.cell_complete(cell, i)


def execute(num_cells, monkeypatch, **options):
    monkeypatch.setattr(engines, "PapermillNotebookClient", lambda manager, **_: Cells(manager, **options))
    engine = engines.papermill_engines.get_engine(saving.engine())
    return engine.execute_notebook(notebook(num_cells), "python3", "a.ipynb", progress_bar=False, log_output=False)


def test_short_cells_are_saved_once_at_the_end(written, monkeypatch):
    execute(20, monkeypatch)
    assert written == [["completed"] * 20]


def test_each_cell_is_saved_if_some_seconds_have_passed(written, monkeypatch):
    monkeypatch.setattr(saving, "SECONDS", 0.0)
    execute(3, monkeypatch)
    assert len(written) > 2 * 3 and written[-1] == ["completed"] * 3


def test_a_notebook_whose_kernel_dies_is_saved(written, monkeypatch):
    with pytest.raises(RuntimeError, match="the kernel died"):
        execute(3, monkeypatch, fail_at=1)
    assert written == [["completed", "failed", "pending"]]
