"""Papermill saves a notebook before and after each cell, which takes it longer than to execute short cells.

The engine of this module does the same as papermill's own, except that it saves every few seconds, and at the end.
"""

from functools import cache
from typing import Any

from rationale.errors import optional

ENGINE = "seldom"  # the name under which papermill knows the engine
SECONDS = 5  # between two times that a notebook is saved


@cache
def engine() -> str:
    """Register the engine with papermill; its name."""
    engines = optional("papermill.engines", "running a notebook", "notebooks")

    class Manager(engines.NotebookExecutionManager):
        """Keeps the state of a notebook that is executed."""

        def save(self, nb: Any = None, **_: Any) -> None:
            self.nb = nb or self.nb
            if self.end_time or (self.now() - self.last_save_time).total_seconds() >= SECONDS:
                super().save()

    class Engine(engines.NBClientEngine):
        """Executes a notebook as its parent does, with our manager."""

        @classmethod
        def execute_notebook(cls, nb: Any, kernel_name: str, output_path: str | None = None, **options: Any) -> Any:
            own = {name: options.pop(name) for name in ("progress_bar", "log_output")}
            manager = Manager(nb, output_path, autosave_cell_every=options.pop("autosave_cell_every", SECONDS), **own)
            manager.notebook_start()
            try:
                cls.execute_managed_notebook(manager, kernel_name, log_output=own["log_output"], **options)
            finally:
                manager.notebook_complete()
            return manager.nb

    engines.papermill_engines.register(ENGINE, Engine)
    return ENGINE
