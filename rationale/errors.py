"""The one exception that means: what the user gave is wrong, and this line says where."""

import importlib
from types import ModuleType


class BadInput(ValueError):
    """A parameter, a file or a line of a file that cannot be used.

    The message is one line: the file and line (or the key), the value found, and what is accepted.
    Command-line tools print it without a traceback and exit with code 2.
    """


def optional(module: str, what: str, extra: str) -> ModuleType:
    """A module that only an extra of this package installs, or one line that says what needs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise BadInput(f"{what}: needs the package {package}; pip install 'rationale[{extra}]'") from None
