"""What the reference says beside docstrings: comments of fields, and the true default of each of several parameters."""

import re
from collections.abc import Iterator

import griffe


class Fields(griffe.Extension):
    """A field's comment at the end of its line is its docstring; values with neither comment nor type are not shown.

    Parameters that a docstring describes together ("left, right : float") have each their own default.
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
    """All that is defined in a module or class, and in what is defined there."""
    for member in thing.members.values():
        if not member.is_alias:
            yield member
            yield from _inside(member)
