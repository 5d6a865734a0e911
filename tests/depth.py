"""Which tests run where: `make test` leaves out `slow` and `deep`, CI adds `slow`, `make test-all` adds `deep`.

A test that has many cases and takes long has one or two of them in `slow`, and the others in `deep`. Of the
tests in a browser, CI leaves out the deep ones too.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_or_deep(cases: Iterable[Any], slow: Collection[str]) -> list:
    """The cases as parameters of a test: those named in `slow` are slow, all others deep.

    A case is a value, or the `pytest.param` of one or more values, whose identifier and marks stay.
    """
    found, names = [], set()
    for case in cases:
        values, given, marks = (case.values, case.id, case.marks) if hasattr(case, "marks") else ((case,), None, ())
        identifier = given if given is not None else str(values[0])
        names.add(identifier)
        mark = pytest.mark.slow if identifier in slow else pytest.mark.deep
        found.append(pytest.param(*values, id=identifier, marks=[*marks, mark]))
    unknown = sorted(set(slow) - names)
    assert not unknown, f"no case has the name {', '.join(unknown)}: choose among {', '.join(sorted(names))}"
    return found
