"""Tools: what is made of the repository (the book, hand-outs, committed results, README's tables). No part of the package."""
