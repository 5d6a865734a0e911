"""Differentiable rationales: the thin package behind the notebooks.

One file per idea: distributions <- gates <- extractor <- objectives <- training <- runs.
"""

__version__ = "0.1.0"
