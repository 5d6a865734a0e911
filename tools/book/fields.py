"""Additions to the reference: comments of fields as docstrings, and the default of each parameter."""

import re
from collections.abc import Iterator

import griffe


class Fields(griffe.Extension):
    """A field's comment at the end of its line is its docstring; values with neither comment nor type are not shown.

    Parameters that a docstring describes together ("left, right : float") each get their own default.
    """

    def on_package(self, *, pkg: griffe.Module, **_) -> None:
        for thing in list(_inside(pkg)):
            if thing.is_attribute and not thing.docstring:
                comment = re.search(r"  # (.+)$", thing.lines[0]) if thing.lines else None
                if comment and "noqa" not in comment[1]:
                    thing.docstring = griffe.Docstring(comment[1], parent=thing, lineno=thing.lineno)
                elif not thing.annotation:
                    del thing.parent.members[thing.name]
            elif (thing.is_function or thing.is_class) and thing.docstring and "dataclass" not in thing.labels:
                sections = [part.value for part in thing.docstring.parsed if part.kind.value == "parameters"]
                for parameter in (p for section in sections for p in section if p.name in thing.parameters):
                    parameter.value = thing.parameters[parameter.name].default


def _inside(thing: griffe.Object) -> Iterator[griffe.Object]:
    """All members of a module or class, and the members of these members."""
    for member in thing.members.values():
        if not member.is_alias:
            yield member
            yield from _inside(member)
