"""Settings as TOML files: read with overrides, written with their documentation. Imports no jax."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from train.schema import ConfigError, fields_of, from_dict, nearest, quoted

__all__ = ["load", "parse_value", "to_toml"]

T = TypeVar("T")
_COMMENT_WIDTH = 100


def load(cls: type[T], path: str | Path, overrides: Sequence[str] = ()) -> T:
    """Reads a TOML file and applies `section.key=value` overrides, later ones winning.

    Args:
        cls: a `@settings` class.
        path: the TOML file.
        overrides: each value is TOML; what is not TOML is taken as a string (`game.name=othello`).

    Raises:
        ConfigError: in one sentence, naming file (or override), key, value, what is allowed, and the
            nearest valid name.
    """
    try:
        with open(path, "rb") as file:
            tree = tomllib.load(file)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{path}: cannot read the config ({reason}); expected a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from error
    origins = {}
    for override in overrides:
        origins[_apply(cls, tree, override)] = f"--set {override}"
    try:
        return from_dict(cls, tree)
    except ConfigError as error:
        key = re.sub(r"\[\d+\]$", "", error.key)  # an item of a list came with its list
        raise ConfigError(f"{origins.get(key, path)}: {error}", error.key) from None


def to_toml(config: Any) -> str:
    """The settings as TOML, every key with its documentation as a comment; `load` reads it back."""
    return "\n".join(_lines(config, "")).strip() + "\n"


def _apply(cls: type, tree: dict[str, Any], override: str) -> str:
    """Puts one `section.key=value` into `tree`; returns the dotted key."""
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise ConfigError(f'--set {override}: expected section.key=value, as in "run.seed=3".')
    *parents, leaf = key.split(".")
    if not parents and key not in (field.name for field in fields_of(cls)):
        names = _dotted_names(cls)
        known = [name for name in names if name.rpartition(".")[2] == key]
        hint = f"; did you mean {' or '.join(known)}?" if known else nearest(key, names) + "."
        raise ConfigError(f"--set {override}: expected section.key=value, and {key} is no section{hint}", key)
    node = tree
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise ConfigError(f"--set {override}: {parent} is a value, not a section.", key)
    node[leaf] = parse_value(text.strip())
    return key


def parse_value(text: str) -> Any:
    """A TOML value, or the text itself where it is none."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return tree["value"] if list(tree) == ["value"] else text


def _dotted_names(cls: type, path: str = "") -> list[str]:
    names = []
    for field in fields_of(cls):
        here = f"{path}.{field.name}" if path else field.name
        names += _dotted_names(field.kind, here) if field.is_section else [here]
    return names


def _lines(config: Any, path: str) -> Iterator[str]:
    sections = []
    for field in fields_of(type(config)):
        value = getattr(config, field.name)
        if field.is_section:
            sections.append((f"{path}.{field.name}" if path else field.name, value))
        elif field.is_extras:
            yield from _comment(field.doc)
            yield from (f"{_key(key)} = {quoted(item)}" for key, item in value.items())
        else:
            default = "required" if field.required else f"default {quoted(field.default)}"
            yield from _comment(f"{field.doc} ({field.expected}; {default})")
            yield f"{field.name} = {quoted(value)}"
    for name, value in sections:
        yield ""
        yield from _comment(type(value).__doc__ or "")
        yield f"[{name}]"
        yield from _lines(value, name)


def _comment(text: str) -> list[str]:
    lines = textwrap.wrap(" ".join(text.split()), _COMMENT_WIDTH - 2, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)
