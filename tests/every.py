"""One test for many cases of form: it checks all of them, and its message names every one that fails."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")


def every(
    cases: Iterable[Case] | Callable[[], Iterable[Case]],
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """Make one test of a check of one case: `@every(NOTEBOOKS)`.

    Give a function that finds the cases if this takes long. It is called by the test, and not by every process that
    collects the tests.
    """

    def one_test(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            found = list(cases() if callable(cases) else cases)
            assert found, "there is nothing to check"
            failed = []
            for case in found:
                try:
                    check(case)
                except Exception as error:
                    name = case.stem if isinstance(case, Path) else case
                    failed.append(f"{name}: {type(error).__name__}: {error}")
            assert not failed, "\n".join([f"{len(failed)} of {len(found)} fail", *failed])

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return one_test
