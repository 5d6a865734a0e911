"""Typed settings: what one component can be told, with a default, a range and a meaning for each field.

Each component has a class of its own beside the code that it describes (`ConstraintSettings` in
`objectives/constraint.py`). A task composes them by inheritance (`training/settings.py`), so that every setting stays
flat: one name in a parameter file, one attribute of `p`. pydantic validates the values; this file adds intervals as in
mathematics, rules between settings, and messages that name the setting, the value and what is accepted.
"""

import copy
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function

from rationale.errors import BadInput

ALONE = {"rules": False}  # context of a validation that asks for no rules between settings
IN_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list of texts, [a, b]",
}


def setting(default: Any = ..., meaning: str = "", interval: str = "") -> Any:
    """A field of a `Settings` class.

    Parameters
    ----------
    default
        Its only default; left out, every user has to say.
    meaning : str
        What it means, for people; one line without a full stop.
    interval : str
        The numbers that are accepted, as in mathematics: "(0, 1]" is open at 0 and closed at 1; "" = any finite one.
    """
    limits: dict[str, Any] = {}
    if interval:
        low, high = map(float, interval[1:-1].split(","))
        limits = {"ge" if interval[0] == "[" else "gt": low, "le" if interval[-1] == "]" else "lt": high}
        limits = {name: limit for name, limit in limits.items() if abs(limit) != float("inf")}
    return Field(default, description=meaning, json_schema_extra={"interval": interval}, **limits)


@dataclass(frozen=True)
class OneOf:
    """Annotation of a text, or of a list of texts, whose choices are a table that may grow: `Annotated[str, OneOf(f)]`.

    Parameters
    ----------
    names : function
        Returns the names that are accepted, in the order in which messages give them.
    """

    names: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._known, handler(source))

    def _known(self, value: Any) -> Any:
        unknown = {value} - {None} if not isinstance(value, list) else set(value)
        if not unknown <= set(self.names()):
            raise ValueError(f"not one of {', '.join(self.names())}")
        return value


class Refusal(NamedTuple):
    """A rule between settings: where `wrong`, `key` is refused with the reason `why`, and `accepted` is offered.

    `part` names what is wrong in a list of texts; else the whole value is named.
    """

    wrong: object
    key: str
    why: str
    accepted: str = ""
    part: str = ""


class Settings(BaseModel):
    """Base class of all settings. Immutable; an unknown name, a wrong type or a value out of range is refused.

    A subclass changes nothing but a default by naming it: `class Small(EncoderSettings, defaults={"hidden_size": 8})`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    def __init_subclass__(cls, defaults: dict[str, Any] | None = None, **_: Any) -> None:
        """Take the keyword; `__pydantic_init_subclass__` uses it once the fields are there."""

    @classmethod
    def __pydantic_init_subclass__(cls, defaults: dict[str, Any] | None = None, **_: Any) -> None:
        for name, value in (defaults or {}).items():
            cls.model_fields[name] = copy.copy(cls.model_fields[name])
            cls.model_fields[name].default = value
            cls.check(name, value, f"{cls.__name__}: ")
        if defaults:
            cls.model_rebuild(force=True)

    def refused(self) -> Iterable[Refusal]:
        """Rules between the fields of this very class; those of its bases are asked too."""
        return ()

    @model_validator(mode="after")
    def _right_together(self, info: ValidationInfo) -> Self:
        if info.context is ALONE:
            return self
        for part in reversed(type(self).__mro__):
            for rule in vars(part).get("refused", lambda _: ())(self):
                if rule.wrong:
                    value = rule.part or show(getattr(self, rule.key)).removesuffix(".0")
                    offer = f"; give {rule.accepted}" if rule.accepted else ""
                    raise BadInput(f"{rule.key}: {value} is not accepted {rule.why}{offer}")
        return self

    @classmethod
    def of(cls, p: object) -> Self:
        """The settings of this component in `p`; what `p` does not have keeps its default.

        Each value is validated. The rules between settings are not: they are about a run, and a setting without effect
        does not keep a component from being built.

        Examples
        --------
        >>> class Width(Settings):
        ...     hidden_size: int = setting(150, "units", "[1, inf)")
        >>> class Both(Width):
        ...     dropout: float = setting(0.5, "share of units dropped", "[0, 1)")
        >>> Width.of(Both(hidden_size=20))
        Width(hidden_size=20)
        """
        values = {name: getattr(p, name) for name in cls.model_fields if hasattr(p, name)}
        return cls.model_validate(values, context=ALONE)

    @classmethod
    def checked(cls, values: dict[str, Any], where: str = "") -> Self:
        """An instance, or one line that says which value is wrong.

        Parameters
        ----------
        values : dict
            By name; a name that is left out keeps its default.
        where : str
            What the message begins with: a file and line, or a notebook.

        Raises
        ------
        BadInput
            An unknown name, a value that is not accepted, or values that exclude each other.
        """
        values = {name: cls.check(name, value, where) for name, value in values.items()}
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "missing":
                name = str(first["loc"][0])
                cause = f"{name}: missing, give {accepts(cls, name)} ({cls.model_fields[name].description})"
            else:  # every value has been checked: a rule between them
                cause = str(first["ctx"]["error"])
            raise BadInput(f"{where}{cause}") from None

    @classmethod
    def check(cls, name: str, value: Any, where: str = "") -> Any:
        """`value` as the field `name` holds it: a whole number becomes a float where the field is a float.

        Raises
        ------
        BadInput
            There is no such field, or the value is not accepted.
        """
        if name not in cls.model_fields:
            raise BadInput(f"{where}{name}: unknown parameter{did_you_mean(name, cls.model_fields)}")
        try:
            return validator(cls, name).validate_python(value)
        except (ValidationError, OverflowError):
            text = f'text "{value}"' if isinstance(value, str) and str not in plain_types(cls, name) else show(value)
            meaning = cls.model_fields[name].description
            raise BadInput(f"{where}{name}: {text} is not accepted, give {accepts(cls, name)} ({meaning})") from None


def types_of(field: FieldInfo) -> list[Any]:
    """The alternatives of a field's annotation, such as float and None."""
    annotation = field.annotation
    return list(get_args(annotation)) if get_origin(annotation) in (Union, UnionType) else [annotation]


def plain_types(cls: type[Settings], name: str) -> list[type]:
    """The plain types of a field without None: int, float, bool, str or list; of a Literal, the type of its values."""
    found = []
    for one in types_of(cls.model_fields[name]):
        if one is not NoneType:
            found.append(type(get_args(one)[0]) if get_origin(one) is Literal else get_origin(one) or one)
    return found


def choices(cls: type[Settings], name: str) -> tuple[str, ...]:
    """The names that a field accepts; () where it is not a choice."""
    field = cls.model_fields[name]
    for part in field.metadata:
        if isinstance(part, OneOf):
            return tuple(part.names())
    return next((get_args(one) for one in types_of(field) if get_origin(one) is Literal), ())


def optional(cls: type[Settings], name: str) -> bool:
    """True if a field may be null."""
    return NoneType in types_of(cls.model_fields[name])


def accepts(cls: type[Settings], name: str) -> str:
    """What may be given for a field, in words."""
    kind, among = plain_types(cls, name)[0], choices(cls, name)
    if among:
        text = f"{'some' if kind is list else 'one'} of {', '.join(among)}"
    else:
        extra = cls.model_fields[name].json_schema_extra
        interval = extra.get("interval") if isinstance(extra, dict) else ""
        text = f"{IN_WORDS[kind]} in {interval}" if interval else IN_WORDS[kind]
    return f"{text} or null" if optional(cls, name) else text


@functools.cache
def validator(cls: type[Settings], name: str) -> TypeAdapter:
    """What validates one field by itself."""
    field = cls.model_fields[name]
    annotated: Any = field.annotation
    for part in field.metadata:
        annotated = Annotated[annotated, part]
    return TypeAdapter(annotated, config=cls.model_config)


def components(cls: type[Settings]) -> dict[type[Settings], list[str]]:
    """The fields of a composed class by the component that defines them first, in the order of composition."""
    found: dict[type[Settings], list[str]] = {}
    parts = [part for part in cls.__mro__ if issubclass(part, Settings) and part is not Settings]
    for name in cls.model_fields:
        origin = [part for part in parts if name in inspect.get_annotations(part)][-1]
        found.setdefault(origin, []).append(name)
    return {part: found[part] for part in parts if part in found}


def show(value: Any) -> str:
    """A value as a parameter file spells it."""
    if value == "":
        return "an empty value"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`, did you mean a or b?` where there are similar names, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f", did you mean {' or '.join(close)}?" if close else ""
