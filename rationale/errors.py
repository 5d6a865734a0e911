"""The exception for wrong input from the user, and how commands report it."""

import atexit
import contextlib
import functools
import gc
import importlib
import os
import re
import sys
from collections.abc import Callable, Collection
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from rationale.excerpts import cut as cut
from rationale.excerpts import excerpt as excerpt

# Characters that change how a terminal shows other characters: control characters with the escape of escape sequences,
# separators of lines and paragraphs, marks that turn the direction of writing, and halves of characters, which no
# terminal can show.
_CONTROLS = r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
LONGEST_LINE = 1200  # characters of a message
_COLOURS = r"\x1b\[[0-9;]*m"  # of what follows, and nothing else


def printable(text: str, keep: str = "", colours: bool = False) -> str:
    r"""A text of a user, a corpus or a file as it may be printed: control characters are replaced by their escapes.

    Parameters
    ----------
    text : str
    keep : str
        Control characters that stay.
    colours : bool
        Whether the sequences that set colours stay.

    Examples
    --------
    >>> print(printable("good \x1b]0;title\x07"))
    good \x1b]0;title\x07
    """

    def replaced(found: re.Match[str]) -> str:
        return found[0] if len(found[0]) > 1 or found[0] in keep else repr(found[0])[1:-1]

    return re.sub(f"{_COLOURS}|{_CONTROLS}" if colours else _CONTROLS, replaced, text)


class PrintableStream:
    """A stream that passes on what is written to it, with control characters replaced (`printable`).

    Ends of lines, tabs and colours stay.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text; returns its length."""
        self.stream.write(printable(text, "\n\r\t", colours=True))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 text", "2,000 texts"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def without_middle(text: str, length: int = LONGEST_LINE) -> str:
    """A text with dots in place of its middle if it is longer than `length`: a long path stands at the beginning of a
    message, and what is accepted at its end.
    """
    return text if len(text) <= length else f"{text[: length * 2 // 3]}...{text[-length // 3 :]}"


class BadInput(ValueError):
    """A parameter, a file or a line of a file cannot be used.

    The message is one line: the file and line (or the key), the value, and what is accepted. Control characters in it
    are replaced by their escapes, and the middle of a very long one by dots. Commands print it without a traceback and
    exit with code 2, see `command`.
    """

    def __init__(self, message: str):
        super().__init__(without_middle(printable(message)))


def require_known(name: str, value: str, accepted: Collection[str]) -> None:
    """Raise `BadInput` if the value of a parameter is not among those that are accepted."""
    if value not in accepted:
        raise BadInput(f"{name}: {value!r} is unknown; accepted: {', '.join(accepted)}")


def require_positive(**counts: int | None) -> None:
    """Raise `BadInput` for the first of these parameters that is below 1; None is accepted."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise BadInput(f"{name}: {value}; accepted: a whole number from 1")


def command(main: Callable[..., int]) -> Callable[..., int]:
    """Decorator for the `main` function of a command, which returns the exit code.

    If the input is bad, or a file or the output cannot be read or written, the command prints one line and exits with
    code 2. If its output is no longer read (as with `| head`), the command ends without a message. Characters that the
    encoding of the output lacks are printed as their escapes. Messages that standard error does not take are lost, and
    the command goes on. At its end Python does not search for garbage in all that was imported, which would take half
    a second with torch.
    """

    @functools.wraps(main)
    def guarded(*args, **kwargs) -> int:
        atexit.unregister(gc.freeze)  # of a command that this process has called before
        atexit.register(gc.freeze)
        _open_standard_files()
        with contextlib.redirect_stderr(_Messages(sys.stderr or open(os.devnull, "w"))):  # type: ignore[type-var]
            try:
                if sys.stdout is None:
                    raise BadInput("standard output is closed; accepted: a terminal, a file or a pipe")
                if isinstance(sys.stdout, TextIOWrapper):
                    sys.stdout.reconfigure(errors="backslashreplace")
                _check_current_folder()
                code = main(*args, **kwargs)
                sys.stdout.flush()
                return code
            except BadInput as error:
                print(f"error: {error}", file=sys.stderr)
                return 2
            except BrokenPipeError:
                _discard(sys.stdout)
                return 141  # 128 + SIGPIPE, the exit code that a shell reports
            except OSError as error:
                place = f"{error.filename}: " if error.filename else ""
                message = place + (error.strerror or str(error))
                _discard(sys.stdout)
                print(f"error: {without_middle(printable(message))}", file=sys.stderr)
                return 2
            except KeyboardInterrupt:
                return 130  # 128 + SIGINT

    return guarded


class _Messages:
    """Standard error of a command: what cannot be written there, for example because a disk is full, is lost."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except (OSError, ValueError):
            _discard(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            _discard(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _open_standard_files() -> None:
    """Open those of the file descriptors 0, 1 and 2 that are closed. Otherwise the next file that is opened would get
    this number, and what a library or a kernel prints would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free


def _check_current_folder() -> None:
    """Refuse to work in a folder that was removed."""
    try:
        os.getcwd()
    except OSError as error:
        raise BadInput(f"the current folder cannot be used ({error.strerror}); change to another one") from None


def _discard(stream: TextIO) -> None:
    """Discard what is still to be printed, which Python would try to print once more when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # the stream is no file, or closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def typed(module: str) -> str:
    """The command `python -m module`, with `.venv/bin/python` if the interpreter is below the current folder."""
    python, here = Path(sys.executable), Path.cwd()
    return f"{python.relative_to(here) if python.is_relative_to(here) else 'python'} -m {module}"


def shown(path: str | Path) -> str:
    """A path relative to the working directory, if it is below it, as it may be printed (`printable`)."""
    path = Path(path)
    return printable(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


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
