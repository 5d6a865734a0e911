"""The one exception that means: what the user gave is wrong, and this line says where."""

import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType


class BadInput(ValueError):
    """A parameter, a file or a line of a file that cannot be used.

    The message is one line: the file and line (or the key), the value found, and what is accepted.
    Command-line tools print it without a traceback and exit with code 2, see `command`.
    """


def command(main: Callable[..., int]) -> Callable[..., int]:
    """A command line's `main`, which returns the exit code: bad input is one line and 2; `| head` ends it quietly."""

    @functools.wraps(main)
    def guarded(*args, **kwargs) -> int:
        try:
            code = main(*args, **kwargs)
            sys.stdout.flush()
            return code
        except BadInput as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print on the way out
            return 141  # 128 + SIGPIPE, as a shell has it

    return guarded


def typed(module: str) -> str:
    """`python -m module`, with the interpreter as one types it here: `.venv/bin/python` where it lies below."""
    python, here = Path(sys.executable), Path.cwd()
    return f"{python.relative_to(here) if python.is_relative_to(here) else 'python'} -m {module}"


def optional(module: str, what: str, extra: str) -> ModuleType:
    """A module that only an extra of this package installs, or one line that says what needs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise BadInput(f"{what}: needs the package {package}; pip install 'rationale-kuma[{extra}]'") from None
