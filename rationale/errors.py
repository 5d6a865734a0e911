"""The exception for wrong input from the user, and how commands report it."""

import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType


class BadInput(ValueError):
    """A parameter, a file or a line of a file cannot be used.

    The message is one line: the file and line (or the key), the value, and what is accepted. Commands print it without
    a traceback and exit with code 2, see `command`.
    """


def command(main: Callable[..., int]) -> Callable[..., int]:
    """Decorator for the `main` function of a command, which returns the exit code.

    If the input is bad, the command prints one line and exits with code 2. If its output is no longer read (as with
    `| head`), the command ends without a message.
    """

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
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard what is still to be printed
            return 141  # 128 + SIGPIPE, the exit code that a shell reports

    return guarded


def typed(module: str) -> str:
    """The command `python -m module`, with `.venv/bin/python` if the interpreter is below the current folder."""
    python, here = Path(sys.executable), Path.cwd()
    return f"{python.relative_to(here) if python.is_relative_to(here) else 'python'} -m {module}"


def optional(module: str, what: str, extra: str) -> ModuleType:
    """Import a module that only an extra of this package installs.

    Parameters
    ----------
    module : str
    what : str
        What needs the module, for the error message.
    extra : str

    Raises
    ------
    BadInput
        If the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise BadInput(f"{what}: needs the package {package}; pip install 'rationale-kuma[{extra}]'") from None
