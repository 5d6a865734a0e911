"""What a comparison leaves behind: tables as CSV and LaTeX, figures as SVG, PDF and PNG, with a caption for each."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rationale import figures
from rationale.errors import optional
from rationale.runs import compare

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Exports:
    """The folder of a comparison, `tables/` and `figures/` in it, and the runs that the captions name.

    Parameters
    ----------
    folder : Path
    results : the long table with the runs that are compared
    split : "dev" or "test"
    """

    folder: Path
    results: "pd.DataFrame"
    split: str = "test"

    def show_runs(self) -> None:
        """Display what is compared: the runs in one line, and their settings that are no defaults, folded away."""
        print(compare.caption(self.results, self.split))
        display = optional("IPython.display", "comparisons in a notebook", "notebooks").display
        display(figures.show_folded("The settings of these runs that are no defaults", compare.recipes(self.results)))

    def table(self, table: "pd.DataFrame", name: str, digits: int = 3) -> figures.Html:
        """Write `tables/<name>.csv` and `.tex` unless the table is empty, and return it for display."""
        if len(table):
            figures.save_table(table, self.folder / "tables", name, compare.caption(self.results, self.split), digits)
        return figures.show_table(table, digits)

    def figure(self, fig, name: str, runs=None):
        """Write `figures/<name>.svg`, `.pdf`, `.png`, and the caption in `.txt`; return the figure for display.

        Parameters
        ----------
        runs : names of runs, or None
            The runs behind this figure; None = all of `results`.
        """
        rows = self.results if runs is None else self.results[self.results["run"].isin(runs)]
        caption = compare.caption(rows, self.split)
        figures.save_figure(fig, self.folder / "figures", name, figures.FORMATS, caption)
        return figures.show(fig)
