"""Parts by name: the tables of gates, encoders, pools, mappings, rules and corpora, and `register` for one's own.

A room makes one `Table` per kind of part. A part of the package is in its table as soon as it is imported; a part of
one's own is added by `register`, or by the definition of a class that has a `name`. The table remembers the file of
each part of one's own, so that a run can record it and load the part again.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from rationale.errors import BadInput

Part = TypeVar("Part")
TABLES: list["Table[Any]"] = []
# The setting that chooses a part of each kind. Two kinds may have parts of the same name, if their settings differ.
CHOSEN_BY = {
    "gate": "model",
    "mapping": "model",
    "encoder": "encoder",
    "pool": "pool",
    "rule": "rule",
    "corpus": "corpus",
}
CHOOSING = tuple(dict.fromkeys(CHOSEN_BY.values()))  # each such setting once


class Table(dict[str, Part]):
    """The parts of one kind, by name.

    Parameters
    ----------
    kind : one of `CHOSEN_BY`
        In words, for messages.
    accepts : function
        Whether an object is a part of this kind.
    parts : pairs of a name and a part of the package

    Attributes
    ----------
    setting : str
        The setting that chooses a part of this kind.
    files : dict
        The file of each part that is not the package's; None if it was defined where no file is known, as in
        JupyterLab.
    """

    def __init__(self, kind: str, accepts: Callable[[Any], bool], parts: Iterable[tuple[str, Part]] = ()):
        super().__init__(parts)
        self.kind, self.setting, self.accepts = kind, CHOSEN_BY[kind], accepts
        self.files = dict[str, Path | None]()
        TABLES.append(self)

    def add(self, name: str, part: Part, module: str) -> None:
        """Add a part that `module` defines, or replace it by its new definition.

        Raises
        ------
        BadInput
            If the name is no identifier, or belongs to a part of the package or of another file.
        """
        if not name.isidentifier():
            raise BadInput(f"{name!r} is no name of a {self.kind}, give letters, digits and `_`")
        known, file = self.get(name), file_of(module)
        if known is not None and known is not part:
            other = self.files.get(name, Path("the package"))
            if name not in self.files and not _of_the_package(module):
                raise BadInput(f"{name}: the package has a {self.kind} of this name, give yours another one")
            if None not in (other, file) and name in self.files and other != file:
                raise BadInput(f"{name}: {other} has registered a {self.kind} of this name, {file} needs another one")
        if known is not part:
            self[name] = part
            if not _of_the_package(module):
                self.files[name] = file

    def add_class(self, part: Any) -> None:
        """Add a class that has a `name` of its own; for `__init_subclass__`."""
        if "name" in vars(part):
            self.add(part.name, part, part.__module__)


def register(name: str, part: Any) -> None:
    """Make a part of one's own known by a name, as the package's own parts are.

    The name is then accepted by the setting that chooses such a part: `model` for a gate or an attention mapping,
    `encoder`, `pool`, `rule` or `corpus`.

    Parameters
    ----------
    name : str
        An identifier that no part of the package has.
    part
        A subclass of `Gate`, `Encoder`, `Mapping`, `Pool` or `Rule` (`rationale.nn`), or a `Corpus`. Registering a new
        definition of a part, as a cell does that is executed again, replaces the old one.

    Raises
    ------
    BadInput
        If the part is of no such kind, has another name, or the name is taken.

    Examples
    --------
    >>> from rationale.nn import GATES, HardKumaGate
    >>> class WideGate(HardKumaGate):
    ...     MIN = 1e-2
    >>> register("wide", WideGate)
    >>> GATES["wide"].__name__
    'WideGate'
    """
    for table in TABLES:
        if table.accepts(part):
            named = "name" in vars(part) or not isinstance(part, type)
            if named and getattr(part, "name", name) != name:
                raise BadInput(f"{name}: this {table.kind} has the name {part.name}, register it under that name")
            table.add(name, part, sys._getframe(1).f_globals.get("__name__", "__main__"))
            if not named:
                part.name = name
            return
    given = getattr(part, "__name__", type(part).__name__)
    kinds = "a subclass of Gate, Encoder, Mapping, Pool or Rule, or a Corpus"
    raise BadInput(f"{name}: {given} is no part that can be registered, give {kinds}")


def require_method(setting: str, part: type, base: type, method: str) -> None:
    """Refuse a part of one's own that has only the `method` of its base class, which does nothing.

    Raises
    ------
    BadInput
        The message begins with the setting that chooses the part.
    """
    if getattr(part, method) is getattr(base, method):
        raise BadInput(f"{setting}: {part.__name__} has no method `{method}`")


def require_arguments(setting: str, part: type, base: type, described: str, *args: Any, **kwargs: Any) -> None:
    """Refuse a part of one's own whose `__init__` does not take what the base class's `build` gives it.

    Raises
    ------
    BadInput
        The message begins with the setting that chooses the part, and ends with what is `described`.
    """
    if getattr(part, "build", None) and part.build.__func__ is not base.build.__func__:  # type: ignore[attr-defined]
        return
    try:
        inspect.signature(part).bind(*args, **kwargs)
    except TypeError:
        raise BadInput(f"{setting}: {part.__name__}.__init__ must take {described}") from None


def tables_with(setting: str, name: Any) -> list[Table[Any]]:
    """The tables of the parts that a setting chooses, as far as they have a part of this name."""
    return [table for table in TABLES if table.setting == setting and name in table]


def find_file(setting: str, name: str) -> Path | None:
    """The file of the part of one's own that a setting names; None if there is none, or its file is unknown."""
    return next((file for table in tables_with(setting, name) if (file := table.files.get(name))), None)


def file_of(module: str) -> Path | None:
    """The file of a module; of a notebook that is executed, the file that the runner or its twin names."""
    file = getattr(sys.modules.get(module), "__file__", None) if module != "__main__" else None
    named = file or os.environ.get("RATIONALE_NOTEBOOK")
    return Path(named).resolve() if named else None


def _of_the_package(module: str) -> bool:
    return re.match(r"rationale(\.|$)", module) is not None
