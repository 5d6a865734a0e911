"""Typed settings: the options of one component, with a default, a range and a meaning for each field.

Each component has a class of its own beside the code that it describes (`ConstraintSettings` in
`objectives/constraint.py`). A task composes them by inheritance (`training/settings/`), so that every setting stays
flat: one name in a parameter file, one attribute of `p`. pydantic validates the values; this file adds intervals as in
mathematics, rules between settings, and messages that name the setting, the value and what is accepted.
"""

import contextlib
import copy
import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, Union, get_args, get_origin

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

from rationale.errors import BadInput, cut

ALONE = {"rules": False}  # context of a validation that does not check the rules between settings
AS_TEXT = {"null": "None", "true": "True", "false": "False"}  # as a text, if a program has not read it as YAML
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
        Its only default. A field without a default has to be given.
    meaning : str
        Its meaning: one line without a full stop.
    interval : str
        The numbers that are accepted, as in mathematics: "(0, 1]" is open at 0 and closed at 1; "" = any finite number.
    """
    limits: dict[str, Any] = {}
    if interval:
        low, high = map(float, interval[1:-1].split(","))
        limits = {"ge" if interval[0] == "[" else "gt": low, "le" if interval[-1] == "]" else "lt": high}
        limits = {name: limit for name, limit in limits.items() if abs(limit) != float("inf")}
    return Field(default, description=meaning, json_schema_extra={"interval": interval}, **limits)


@dataclass(frozen=True)
class OneOf:
    """Annotation of a text, or a list of texts, with choices from a table that may grow: `Annotated[str, OneOf(f)]`.

    Parameters
    ----------
    names : function
        Returns the names that are accepted, in the order in which messages give them.
    other : function or None
        Given a text, the value to use although it is none of the names, or None if the text is not accepted.
    other_in_words : str
        What `other` accepts.
    """

    names: Callable[[], Iterable[str]]
    other: Callable[[str], str | None] | None = None
    other_in_words: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._known, handler(source))

    def _known(self, value: Any) -> Any:
        other = self.other(value) if self.other and isinstance(value, str) and value not in self.names() else None
        if other is not None:
            return other
        unknown = {value} - {None} if not isinstance(value, list) else set(value)
        if not unknown <= set(self.names()):
            raise ValueError(f"not one of {', '.join(self.names())}")
        return value


class Refusal(NamedTuple):
    """A rule between settings: where `wrong`, `key` is refused with the reason `why`, and `accepted` is offered.

    In a list of texts, `part` is the item that is wrong; otherwise the message names the whole value. `meaningless`
    means that the setting only has no effect: a change of another setting that makes it so may set it back to the
    value that means "unused", the default of its component (see `Settings.unused`).
    """

    wrong: object
    key: str
    why: str
    accepted: str = ""
    part: str = ""
    meaningless: bool = False


class Settings(BaseModel):
    """Base class of all settings. Immutable; an unknown name, a wrong type or a value out of range is refused.

    A subclass may change only defaults, with a keyword: `class Small(EncoderSettings, defaults={"hidden_size": 8})`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    def __init_subclass__(cls, defaults: dict[str, Any] | None = None, **_: Any) -> None:
        """Accept the keyword, which `__pydantic_init_subclass__` uses once the fields exist."""

    @classmethod
    def __pydantic_init_subclass__(cls, defaults: dict[str, Any] | None = None, **_: Any) -> None:
        for name, value in (defaults or {}).items():
            cls.model_fields[name] = copy.copy(cls.model_fields[name])
            cls.model_fields[name].default = value
            cls.check(name, value, f"{cls.__name__}: ")
        if defaults:
            cls.model_rebuild(force=True)

    def refused(self) -> Iterable[Refusal]:
        """Rules between the fields of this class. The rules of its base classes are checked as well."""
        return ()

    other_defaults: ClassVar[dict[str, dict[str, Any]]] = {}  # by when they hold, for the list of settings
    elsewhere: ClassVar[dict[str, str]] = {}  # what is said of names that somebody may look for here in vain

    @classmethod
    def following(cls, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """Defaults that follow from other settings, by name; usually none.

        A pretrained encoder, for example, is trained with a smaller step size than a network that starts from random
        weights. They stand in for the default of a setting that is not given. Which settings have such a default must
        not depend on the values of these settings: a run that was given one of them could not pass it on.

        Parameters
        ----------
        values : dict
            The settings, each of which is accepted by itself. A setting that is left out has its default.
        """
        return {}

    @model_validator(mode="after")
    def _right_together(self, info: ValidationInfo) -> Self:
        for rule in () if info.context is ALONE else self._violated():
            value = rule.part or show(getattr(self, rule.key)).removesuffix(".0")
            offer = f"; give {rule.accepted}" if rule.accepted else ""
            raise BadInput(f"{rule.key}: {value} is not accepted {rule.why}{offer}")
        return self

    def _violated(self) -> Iterator[Refusal]:
        """The rules of this class and of its base classes that these values violate."""
        for part in reversed(type(self).__mro__):
            for rule in vars(part).get("refused", lambda _: ())(self):
                if rule.wrong:
                    yield rule

    @classmethod
    def violations(cls, values: dict[str, Any]) -> list[Refusal]:
        """The rules between settings that values, each of which is accepted by itself, violate together."""
        return list(cls.model_validate(values, context=ALONE)._violated())

    @classmethod
    def unused(cls, name: str) -> Any:
        """The value of a setting that means "unused": the default of the component that defines it.

        A task that always uses the setting may have another default: `look_ahead` is true for reviews, and false in
        the component.
        """
        origin = next(part for part, names in components(cls).items() if name in names)
        return origin.model_fields[name].get_default(call_default_factory=True)

    @classmethod
    def usual(cls, name: str) -> Any:
        """The default of a setting in this class, which may differ from that of its component (see `unused`)."""
        return cls.model_fields[name].get_default(call_default_factory=True)

    def is_changed(self, name: str) -> bool:
        """Whether a setting has another value than its default, and than the one that means "unused".

        A default that follows from the other settings counts as well (`following`): nobody chose it.
        """
        usual = self.usual(name)
        followed = type(self).following(vars(self)).get(name, usual)
        return getattr(self, name) not in (usual, followed, self.unused(name))

    def idle(self, unused: object, name: str, where: str, other: str) -> Refusal:
        """The refusal of a setting that was changed (`is_changed`) where nothing would use it.

        Parameters
        ----------
        unused : bool
            Whether nothing would use it.
        name, where : str
            The setting, and the reason: "with votes bilinear".
        other : str
            What would give it an effect. This is offered beside the default.
        """
        accepted = f"{show(self.usual(name)).removesuffix('.0')}, or {other}"
        return Refusal(unused and self.is_changed(name), name, where, accepted, meaningless=True)

    @classmethod
    def of(cls, p: object) -> Self:
        """The settings of this component in `p`. A setting that `p` lacks keeps its default.

        Each value is validated. The rules between settings are not checked: they are about a whole run, and a component
        can be built even if one of its settings has no effect.

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
    def with_own(cls, p: object) -> Any:
        """The settings of this component and everything else that `p` has, as attributes.

        This is what a part of one's own is built from: it may use parameters that only its notebook declares.
        """
        return SimpleNamespace(**(vars(p) | vars(cls.of(p))))

    @classmethod
    def checked(cls, values: dict[str, Any], where: str = "") -> Self:
        """An instance, or an error of one line that names the value that is wrong.

        Parameters
        ----------
        values : dict
            By name. A setting that is left out keeps its default, or has the one that follows from the others.
        where : str
            The beginning of the message: a file and line, or a notebook.

        Raises
        ------
        BadInput
            If a name is unknown, a value is not accepted, or values exclude each other.
        """
        values = {name: cls.check(name, value, where) for name, value in values.items()}
        try:
            return cls(**cls.following(values) | values)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "missing":
                name = str(first["loc"][0])
                cause = f"{name}: missing, give {accepts(cls, name)} ({cls.model_fields[name].description})"
            else:  # each value has been checked, so a rule between them is violated
                cause = str(first["ctx"]["error"])
            raise BadInput(f"{where}{cause}") from None

    @classmethod
    def recorded(cls, values: dict[str, Any], where: str = "") -> Self:
        """The settings of a finished run, as `checked` returns them.

        An older version may have accepted a setting that nothing used. It has the value that means "unused" then.
        """
        values = {name: cls.check(name, value, where) for name, value in values.items()}
        with contextlib.suppress(ValidationError):  # `checked` says what is missing
            cls.set_back(values)
        return cls.checked(values, where)

    @classmethod
    def set_back(cls, values: dict[str, Any], kept: Collection[str] = ()) -> list[Refusal]:
        """Give what has no effect the value that means "unused", except `kept`; return the rules that say so.

        Parameters
        ----------
        values : dict
            Settings by name, in their types; changed in place.
        kept : names of settings
        """
        rules: dict[str, Refusal] = {}
        while idle := [rule for rule in cls.violations(values) if rule.meaningless and rule.key not in {*kept, *rules}]:
            rules[idle[0].key] = idle[0]
            values[idle[0].key] = cls.unused(idle[0].key)
        return list(rules.values())

    @classmethod
    def check(cls, name: str, value: Any, where: str = "") -> Any:
        """`value` in the type of the field `name`: a whole number becomes a float if the field is a float.

        Raises
        ------
        BadInput
            If there is no such field, or the value is not accepted.
        """
        if name not in cls.model_fields:
            raise BadInput(f"{where}{cut(name)}: unknown parameter{did_you_mean(name, cls.model_fields)}")
        try:
            return validator(cls, name).validate_python(value)
        except (ValidationError, OverflowError):
            is_text = isinstance(value, str) and str not in plain_types(cls, name)
            text = f'text "{cut(value)}"' if is_text else cut(show(value), 200)
            offer = f"{accepts(cls, name)}{share_meant(cls, name, value)}"
            meaning = cls.model_fields[name].description
            if is_text and value in AS_TEXT:  # papermill's -p reads only what Python would
                meaning = f"{meaning}; papermill's -p takes {AS_TEXT[value]}, or put {value} in the -f file"
            raise BadInput(f"{where}{name}: {text} is not accepted, give {offer} ({meaning})") from None


def types_of(field: FieldInfo) -> list[Any]:
    """The alternatives of a field's annotation, such as float and None."""
    annotation = field.annotation
    return list(get_args(annotation)) if get_origin(annotation) in (Union, UnionType) else [annotation]


def plain_types(cls: type[Settings], name: str) -> list[type]:
    """The plain types of a field without None: int, float, bool, str or list; of a Literal, the type of its values."""
    plain = []
    for one in types_of(cls.model_fields[name]):
        if one is not NoneType:
            plain.append(type(get_args(one)[0]) if get_origin(one) is Literal else get_origin(one) or one)
    return plain


def choices(cls: type[Settings], name: str) -> tuple[str, ...]:
    """The names that a field accepts; () if it is not a choice between names."""
    field = cls.model_fields[name]
    for part in field.metadata:
        if isinstance(part, OneOf):
            return tuple(part.names())
    return next((get_args(one) for one in types_of(field) if get_origin(one) is Literal), ())


def is_chosen(cls: type[Settings], name: str, value: Any) -> bool:
    """Whether a field that is a choice between names accepts this value."""
    others = [part.other for part in cls.model_fields[name].metadata if isinstance(part, OneOf)]
    named = value in choices(cls, name)
    return named or (isinstance(value, str) and any(other and other(value) is not None for other in others))


def may_be_null(cls: type[Settings], name: str) -> bool:
    """True if a field may be null."""
    return NoneType in types_of(cls.model_fields[name])


def accepts(cls: type[Settings], name: str) -> str:
    """The values that a field accepts, in words."""
    kind, among = plain_types(cls, name)[0], choices(cls, name)
    if among:
        others = [part.other_in_words for part in cls.model_fields[name].metadata if isinstance(part, OneOf)]
        text = f"{'some' if kind is list else 'one'} of {', '.join(among)}" + "".join(f", or {o}" for o in others if o)
    else:
        interval = interval_of(cls, name)
        text = f"{IN_WORDS[kind]} in {interval}" if interval else IN_WORDS[kind]
    return f"{text} or null" if may_be_null(cls, name) else text


def interval_of(cls: type[Settings], name: str) -> str:
    """The interval that a field accepts, as it was given to `setting`; "" if there is none."""
    extra = cls.model_fields[name].json_schema_extra
    return str(extra.get("interval", "")) if isinstance(extra, dict) else ""


def share_meant(cls: type[Settings], name: str, value: Any) -> str:
    """`, such as 0.2 for 20 %` if a field accepts numbers from 0 to 1 and the value is a percentage; otherwise ""."""
    lowest = 1.0  # up to it, a number is a share
    if isinstance(value, str) and value.endswith("%"):  # YAML reads 20% as a text
        with contextlib.suppress(ValueError):
            value, lowest = float(value.removesuffix("%")), 0.0
    is_percentage = interval_of(cls, name)[1:-1] == "0, 1" and type(value) in (int, float) and lowest < value < 100
    return f", such as {value / 100:.10g} for {value:g} %" if is_percentage else ""


@functools.cache
def validator(cls: type[Settings], name: str) -> TypeAdapter:
    """The adapter that validates one field by itself."""
    field = cls.model_fields[name]
    annotated: Any = field.annotation
    for part in field.metadata:
        annotated = Annotated[annotated, part]
    return TypeAdapter(annotated, config=cls.model_config)


@functools.cache  # a sweep asks once per run
def components(cls: type[Settings]) -> dict[type[Settings], list[str]]:
    """The fields of a composed class, grouped by the component that first defines them, in the order of composition."""
    groups: dict[type[Settings], list[str]] = {}
    parts = [part for part in cls.__mro__ if issubclass(part, Settings) and part is not Settings]
    for name in cls.model_fields:
        origin = [part for part in parts if name in inspect.get_annotations(part)][-1]
        groups.setdefault(origin, []).append(name)
    return {part: groups[part] for part in parts if part in groups}


def show(value: Any) -> str:
    """A value as it is written in a parameter file."""
    if value == "":
        return "an empty value"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6, or_longer: bool = True) -> str:
    """`, did you mean a or b?` if there are names of at least this similarity in [0, 1], otherwise "".

    At most three, the most similar one first. Names that begin with it and go on are left out, as `selection_start` if
    `selection` is the first. With `or_longer`, if none is similar: those that go on, as `stop_after` does for `stop`.
    """
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, n=3, cutoff=cutoff)
    if or_longer and not close:
        longer = [other for other in names if other.startswith(f"{name}_")][:3]
        return f", did you mean {' or '.join(longer)}?" if longer else ""
    close = [other for other in close if not other.startswith(f"{close[0]}_")]
    return f", did you mean {' or '.join(close)}?" if close else ""
