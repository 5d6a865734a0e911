"""JupyterLab as `make lab` starts it: the solutions and checks of a notebook are collapsed whenever it is opened.

The text files do not record this (`cell_metadata_filter` in jupytext.toml), so opening and saving one changes nothing.
"""

from typing import Any

from jupytext import AsyncTextFileContentsManager

from rationale.runs.folding import collapse


class CollapsingContentsManager(AsyncTextFileContentsManager):
    """Jupytext's manager of files, whose notebooks have their solutions and checks collapsed."""

    async def get(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        model = await super().get(*arguments, **options)
        if model["type"] == "notebook" and model["content"]:
            collapse(model["content"])
        return model


c = get_config()  # type: ignore[name-defined]  # noqa: F821  # Jupyter provides it
c.ServerApp.contents_manager_class = CollapsingContentsManager
