"""The one exception that means: what the user gave is wrong, and this line says where."""


class BadInput(ValueError):
    """A parameter, a file or a line of a file that cannot be used.

    The message is one line: the file and line (or the key), the value found, and what is accepted.
    Command-line tools print it without a traceback and exit with code 2.
    """
