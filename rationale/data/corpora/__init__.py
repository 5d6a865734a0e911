"""One file per corpus: its reader, its archive, its check and its facts. See `find_corpus`."""
