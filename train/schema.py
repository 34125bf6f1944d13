"""Settings as frozen dataclasses that document themselves and are checked whenever one is made.

A section of settings is a class under `@settings` whose fields say what they mean and what they may be:

    @settings
    class Learner:
        '''One paragraph about the section.'''
        batch_size: int = setting("Positions in one gradient step.", default=1024, minimum=1)

Types: bool, int, float, str, Literal of strings, `tuple[T, ...]`, `T | None` (in a file: "none", for
TOML has no null), another `@settings` class (a table), and one `extras` field that takes the keys which
the section does not name. Files and `--set` overrides: `schema_toml`. Nothing here imports jax.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

__all__ = [
    "ConfigError",
    "Field",
    "Value",
    "differences",
    "extras",
    "fields_of",
    "from_dict",
    "nearest",
    "quoted",
    "setting",
    "settings",
    "to_dict",
]

Value = bool | int | float | str | tuple[Any, ...]
"""What a free-form key may hold."""

T = TypeVar("T")
NONE = "none"


class ConfigError(ValueError):
    """A setting that cannot be used, in one sentence; `key` is its dotted path."""

    def __init__(self, message: str, key: str = ""):
        super().__init__(message)
        self.key = key


def setting(
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    pattern: str | None = None,
) -> Any:
    """A documented field. Without `default` the key must be given.

    Args:
        doc: what the setting does and when to change it; becomes the comment in a written config.
        default: its value where a config says nothing.
        minimum, maximum: the numbers (of a tuple: each number) allowed, both ends included.
        above: an excluded lower end.
        pattern: a regular expression that a string (of a tuple: each string) must match in full.
    """
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum, "above": above, "pattern": pattern}
    return dataclasses.field(default=default, metadata=metadata)


def extras(doc: str, *, default_factory: Any) -> Any:
    """A `dict[str, Value]` field that takes every key of its section that no other field names.

    `default_factory` is `dict`; type checkers want to see it at the field.

    It is left out of the hash, so that settings stay hashable; equality does compare it.
    """
    return dataclasses.field(
        default_factory=default_factory, hash=False, metadata={"doc": doc, "extras": True}
    )


@typing.dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(setting, extras, dataclasses.field)
)
def settings(cls: type[T]) -> type[T]:
    """Makes `cls` a frozen keyword-only dataclass whose fields are checked whenever one is constructed.

    A method `check(self)`, if there is one, then looks at fields together and raises ConfigError with a
    message that begins with the key at fault.
    """

    def check_fields(self: Any) -> None:
        for field in fields_of(cls):
            object.__setattr__(self, field.name, field.checked(getattr(self, field.name), field.name))
        if hasattr(self, "check"):
            self.check()

    cls.__post_init__ = check_fields  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


@dataclasses.dataclass(frozen=True)
class Field:
    """One field of a settings class, ready to check values and to describe itself.

    Attributes:
        name: the key.
        kind: the annotated type.
        metadata: what `setting` or `extras` was told.
        default: the default, or `dataclasses.MISSING`.
        required: whether a config must give it.
    """

    name: str
    kind: Any
    metadata: Mapping[str, Any]
    default: Any
    required: bool

    @property
    def doc(self) -> str:
        """What the setting does."""
        return self.metadata.get("doc", "")

    @property
    def is_extras(self) -> bool:
        """Whether this field takes the keys that no other names."""
        return bool(self.metadata.get("extras"))

    @property
    def is_section(self) -> bool:
        """Whether this field is a table with settings of its own."""
        return isinstance(self.kind, type) and dataclasses.is_dataclass(self.kind)

    @property
    def expected(self) -> str:
        """What the field accepts, in words: "an integer >= 1"."""
        return _expected(self.kind, self.metadata)

    def checked(self, value: Any, path: str) -> Any:
        """`value` as the field holds it (lists as tuples, integers as floats), or a ConfigError."""
        if self.is_extras:
            return {key: _checked_free(item, key) for key, item in value.items()}
        if self.is_section:
            if not isinstance(value, self.kind):
                raise ConfigError(_wrong(path, value, f"is {_type_name(value)}", f"a section [{path}]"), path)
            return value
        return _checked(value, self.kind, self.metadata, path)


@functools.cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a `@settings` class in order of declaration."""
    hints = typing.get_type_hints(cls)
    return tuple(
        Field(
            name=field.name,
            kind=hints[field.name],
            metadata=field.metadata,
            default=field.default,
            required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(cls)
    )


def from_dict(cls: type[T], tree: Mapping[str, Any], path: str = "") -> T:
    """Builds `cls` from nested plain values; `path` is the dotted name of `tree` in error messages.

    Raises:
        ConfigError: on an unknown key, a missing one, a wrong type or an impossible value.
    """
    named = {field.name: field for field in fields_of(cls) if not field.is_extras}
    rest = next((field for field in fields_of(cls) if field.is_extras), None)
    found: dict[str, Any] = {}
    free: dict[str, Any] = {}
    for key, value in tree.items():
        here = _join(path, key)
        field = named.get(key)
        if field is None and rest is None:
            raise _unknown_key(here, list(named), path)
        if field is None:
            free[key] = _checked_free(value, here)
        elif field.is_section and isinstance(value, Mapping):
            found[key] = from_dict(field.kind, value, here)
        else:
            found[key] = field.checked(value, here)
    if rest is not None:
        found[rest.name] = free
    for field in named.values():
        here = _join(path, field.name)
        if field.required and field.name not in found and field.is_section:
            found[field.name] = from_dict(field.kind, {}, here)  # names the key missing inside, if any
        elif field.required and field.name not in found:
            raise ConfigError(f"{here} is missing; expected {field.expected}. {field.doc}", here)
    try:
        return cls(**found)
    except ConfigError as error:
        key = _join(path, error.key) if error.key else path
        raise ConfigError(_join(path, str(error)) if error.key else str(error), key) from None


def to_dict(config: Any) -> dict[str, Any]:
    """The inverse of `from_dict`, JSON-ready: tuples as lists, None as "none", extras in their section."""
    tree: dict[str, Any] = {}
    for field in fields_of(type(config)):
        value = getattr(config, field.name)
        if field.is_extras:
            tree.update({key: _plain(item) for key, item in value.items()})
        else:
            tree[field.name] = to_dict(value) if field.is_section else _plain(value)
    return tree


def differences(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, each with (old, new) in plain form; None where a key is absent."""
    before, after = dict(_leaves(to_dict(old))), dict(_leaves(to_dict(new)))
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown name, `; the nearest is "x"`, or nothing where no name is near."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f'; the nearest is "{close[0]}"' if close else ""


def quoted(value: Any) -> str:
    """A plain value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(quoted(item) for item in value)}]"
    return quoted(NONE) if value is None else repr(value)


# Checks of one value


def _checked(value: Any, kind: Any, metadata: Mapping[str, Any], path: str) -> Any:
    optional, kind = _optional(kind)
    if optional and (value is None or value == NONE):
        return None
    if problem := _problem(value, kind, metadata):
        hint = nearest(value, typing.get_args(kind)) if isinstance(value, str) and _is_literal(kind) else ""
        expected = _expected(kind, metadata) + (f' or "{NONE}"' if optional else "")
        raise ConfigError(_wrong(path, value, problem, expected, hint), path)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return tuple(_checked(item, inner, metadata, f"{path}[{i}]") for i, item in enumerate(value))
    return float(value) if kind is float else value


def _problem(value: Any, kind: Any, metadata: Mapping[str, Any]) -> str:
    """What is wrong with `value`, as the verb phrase of a sentence; empty if nothing is."""
    if _is_literal(kind):
        return "" if isinstance(value, str) and value in typing.get_args(kind) else "is not allowed"
    accepted = {float: (int, float)}.get(kind, (list, tuple) if typing.get_origin(kind) is tuple else kind)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        return f"is {_type_name(value)}"
    if kind in (int, float):
        if not math.isfinite(value):
            return "is not finite"
        low, high, above = metadata.get("minimum"), metadata.get("maximum"), metadata.get("above")
        outside = (low is not None and value < low) or (high is not None and value > high)
        return "is out of range" if outside or (above is not None and value <= above) else ""
    pattern = metadata.get("pattern")
    return "is not allowed" if isinstance(value, str) and pattern and not re.fullmatch(pattern, value) else ""


def _checked_free(value: Any, path: str) -> Value:
    if isinstance(value, list | tuple):
        return tuple(_checked_free(item, path) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(_wrong(path, value, "is not finite", "a finite number"), path)
    if not isinstance(value, bool | int | float | str):
        expected = "a string, a number, true, false or a list of these"
        raise ConfigError(_wrong(path, value, f"is {_type_name(value)}", expected), path)
    return value


def _expected(kind: Any, metadata: Mapping[str, Any]) -> str:
    optional, kind = _optional(kind)
    if optional:
        return f'{_expected(kind, metadata)} or "{NONE}"'
    if _is_literal(kind):
        names = [f'"{name}"' for name in typing.get_args(kind)]
        return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    if typing.get_origin(kind) is tuple:
        return "a list, each item " + _expected(typing.get_args(kind)[0], metadata)
    if kind not in (int, float):
        pattern = f" matching {metadata['pattern']}" if kind is str and metadata.get("pattern") else ""
        return {bool: "true or false", str: "a string"}.get(kind, "a table") + pattern
    low, high, above = metadata.get("minimum"), metadata.get("maximum"), metadata.get("above")
    noun = "an integer" if kind is int else "a number"
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    bounds = [
        f"{sign} {bound}" for sign, bound in ((">=", low), (">", above), ("<=", high)) if bound is not None
    ]
    return " ".join([noun, " and ".join(bounds)]).strip()


def _wrong(path: str, value: Any, problem: str, expected: str, hint: str = "") -> str:
    shown = quoted(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{path} = {shown} {problem}; expected {expected}{hint}."


def _unknown_key(here: str, names: Sequence[str], path: str) -> ConfigError:
    where = f"[{path}] takes" if path else "the sections are"
    hint = nearest(here.rpartition(".")[2], names)
    return ConfigError(f"{here} is not a known key{hint}; {where} {', '.join(names)}.", here)


def _type_name(value: Any) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number with a fraction", str: "a string"}
    names |= {list: "a list", tuple: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


# Small things


def _is_literal(kind: Any) -> bool:
    return typing.get_origin(kind) is Literal


def _optional(kind: Any) -> tuple[bool, Any]:
    """Whether None is allowed, and the type without it."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return False, kind
    inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
    if len(inner) != 1 or len(typing.get_args(kind)) != 2:
        raise TypeError(f"A setting of type {kind} is not supported; of unions only `T | None` is.")
    return True, inner[0]


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, _join(path, key))
        else:
            yield _join(path, key), value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return NONE if value is None else value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
