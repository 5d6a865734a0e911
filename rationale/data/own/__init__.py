"""Texts of one's own as a corpus: a table, a folder of tables, a folder in ERASER's format, or a saved data set.

`settings` says what names such texts and which columns are read, `tables` reads the files, `eraser` the folders of that
benchmark, `labels` tells classes from scores, `splits` makes the splits that are missing, and `read` joins all this.
"""

from rationale.data.own.read import OwnTexts, pairs_as_written, read_own, require_texts, texts_as_written

__all__ = ["OwnTexts", "pairs_as_written", "read_own", "require_texts", "texts_as_written"]
