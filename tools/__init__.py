"""Tools that make the book, the hand-outs and the committed results. They are not part of the package."""

import argparse


def command_line(name: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m tools.NAME`, whose help is the docstring of its module."""
    return argparse.ArgumentParser(
        f"python -m tools.{name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
