"""Benchmarks: `python -m tests.benchmarks`, or `make bench`. They print figures and assert none.

A module `bench_*.py` here gives `cases() -> {group: {name: callable}}`. The callables of a group do the same
work in different ways, the first being the baseline. One that returns a number has timed itself: seconds for
one unit of its work. A module with `COMPARED = False` lists things that stand each for itself. One with `ONCE = True`
gives `cases(epochs) -> {group: callable}`: each is called once and returns {what: seconds}.
"""
