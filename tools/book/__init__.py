"""The book: all notebooks, executed, and the reference of the package as one web site (`make book`)."""
