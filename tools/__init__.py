"""Tools: what is made of the repository (the book, hand-outs, committed results). No part of the package."""
