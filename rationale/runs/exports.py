"""What a comparison leaves behind: tables as CSV and LaTeX, figures as SVG, PDF and PNG, with a caption for each."""

from collections.abc import Mapping
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
        """Display what is compared: the runs in a sentence, and their settings that are no defaults, folded away."""
        print(in_a_sentence(self.results, self.split))
        display = optional("IPython.display", "comparisons in a notebook", "notebooks").display
        display(figures.show_folded("The settings of these runs that are no defaults", compare.recipes(self.results)))

    def table(
        self, table: "pd.DataFrame", name: str, digits: int = 3, heads: Mapping[str, str] | None = None
    ) -> figures.Html:
        """Write `tables/<name>.csv` and `.tex` unless the table is empty, and return it for display.

        Parameters
        ----------
        heads : name of a column -> its head in the notebook
            In the files, all columns keep their names.
        """
        if len(table):
            figures.save_table(table, self.folder / "tables", name, compare.caption(self.results, self.split), digits)
        return figures.show_table(compare.without_ones(table).rename(columns=heads or {}), digits)

    def names(self, words: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the runs are called in the titles of figures: in words, with what tells them apart.

        Parameters
        ----------
        words : part of a name -> its words
            Such as "measure=training" -> "expected share held".

        Returns
        -------
        dict
            Name of a run without its notebook -> such as "sparsemax, gamma 4.0, Multi30k, fr to en".
        """
        return run_names(self.results, words or {})

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


def in_a_sentence(results: "pd.DataFrame", split: str = "test") -> str:
    """The `caption` of a comparison as a sentence, with words for corpora."""
    if results.empty:
        return "We compare no runs."
    facts = compare.facts_of(results, split)
    corpora = results.drop_duplicates(["corpus", "aspect"]).sort_values(["corpus", "aspect"])
    names = [figures.in_words(row.corpus) + (f" ({row.aspect})" if row.aspect else "") for row in corpora.itertuples()]
    what = f"{facts['runs']} ({facts['seeds']}) on {', '.join(names)}"
    return f"We compare {what}. The numbers are those of the {facts['split']} ({facts['commits']})."


def run_names(results: "pd.DataFrame", words: Mapping[str, str]) -> dict[str, str]:
    """See `Exports.names`."""
    if results.empty:
        return {}
    runs = results.drop_duplicates("run").assign(split="test", metric="any", value=0.0)
    means = compare.summary(runs, ["any"], by=["run", "seed"])
    means["line"] = compare.line_names(means, within=["corpus", "aspect"])
    several = [name for name in ("corpus", "aspect") if means[name].nunique() > 1]
    names = []
    for row in means.to_dict("records"):
        for part, said in words.items():
            row["line"] = row["line"].replace(part, said)
        price = f"price {row['sparsity']:g}" if row["sparsity"] > 0 else ""
        aim = f"target {row['target']:.0%}" if row["target"] < 1 else price
        names.append(figures.in_words(", ".join(filter(None, [row["line"], aim, *(row[name] for name in several)]))))
    alike = {name for name in names if names.count(name) > 1}
    names = [f"{name}, seed {seed}" if name in alike else name for name, seed in zip(names, means["seed"], strict=True)]
    return dict(zip(means["run"].str.partition("/")[2], names, strict=True))
