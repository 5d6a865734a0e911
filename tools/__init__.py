"""Tools that make the book, the hand-outs and the committed results. They are not part of the package."""
