"""Players by text: `random`, `uct:1000@c=1.0`, `run:runs/connect_four@sims=64`, `bitbully:full`.

A spec is a kind, for most kinds `:` and an argument, and optionally `@` and options `key=value` with commas
between them.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from games_jax.game import Game
from train import checkpoint
from train.engines import bitbully_player, gtp_player, rust_reversi_player
from train.exit_config import ExpertConfig
from train.networks import Network, make_network, ntuple
from train.players import (
    AnyPlayer,
    SearchName,
    network_player,
    random_player,
    rave_player,
    uct_player,
)
from train.schema import ConfigError, fields_of, from_dict
from train.schema_toml import parse_value
from train.td_config import TDSearchConfig

FORMS = {
    "random": ("random", "uniformly random legal moves"),
    "uct": (
        "uct:SIMULATIONS[@c=1.0,playouts=1]",
        "UCT with random playouts, plays the most visited move",
    ),
    "rave": (
        "rave:SIMULATIONS[@c=0.25,c_rave=3000]",
        "UCT with playouts that learns of a move from all games in which it was played later: for Hex and Go",
    ),
    "run": (
        "run:PATH[@sims=64,search=puct,temperature=0,c_puct=1.25,solver=true]",
        "the newest checkpoint of a run directory, or one checkpoint; sims=0 plays the network's best move, "
        "search is puct, gumbel or policy_bonus (Expert Iteration's); keys of the config's [search] section, "
        "of its [expert] section with policy_bonus, in place of what it says",
    ),
    "bitbully": (
        "bitbully:full or bitbully:DEPTH",
        "Connect Four by the solver BitBully: perfect, or that many plies of search (optional package)",
    ),
    "rust-reversi": (
        "rust-reversi:DEPTH",
        "Othello by the alpha-beta search of rust-reversi, that many plies deep (optional package)",
    ),
    "gtp": (
        "gtp:COMMAND[@timeout=120,workers=1]",
        "Go, Hex or Othello by any program that speaks GTP; its crashes and illegal moves are its losses",
    ),
}
"""Kind to how it is written and what it plays."""


SEARCH_KEYS: Mapping[SearchName, Mapping[str, str]] = {
    "puct": {
        "c_puct": "c_init",
        "c_puct_base": "c_base",
        "first_play": "first_play",
        "first_play_reduction": "first_play_reduction",
        "solver": "solver",
    },
    "gumbel": {"considered_actions": "max_considered"},
    "policy_bonus": {
        "c_guided": "c",
        "c_rave": "c_rave",
        "policy_temperature": "policy_temperature",
        "playout_weight": "playout_weight",
        "solver": "solver",
    },
}
"""For each search: keys of a config's `[search]` and `[expert]` sections and the arguments they are."""


class _SpecError(ValueError):
    """A spec that cannot be read."""


def make_player(spec: str, game: Game) -> AnyPlayer:
    """The player that a spec describes; its name is the spec.

    Args:
        spec: see `FORMS`.
        game: what it is to play.

    Raises:
        ValueError: if the spec is not understood (the message lists the forms), its argument or an option
            is impossible, or it does not play this game.
    """
    head, _, option_text = spec.rpartition("@") if "=" in spec.rpartition("@")[2] else (spec, "", "")
    kind, _, argument = head.partition(":")
    if kind not in FORMS:
        near = difflib.get_close_matches(kind, FORMS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"Unknown player {spec!r}; players are {_forms()}{hint}")
    makers: Mapping[str, Callable[[str, dict[str, str], Game], AnyPlayer]] = {
        "random": _random,
        "uct": _uct,
        "rave": _rave,
        "run": _run,
        "bitbully": _bitbully,
        "rust-reversi": _rust_reversi,
        "gtp": _gtp,
    }
    try:
        player = makers[kind](argument, _options(option_text), game)
    except _SpecError as error:
        raise ValueError(f"Player {spec!r}: {error}; write {FORMS[kind][0]}.") from None
    return dataclasses.replace(player, name=spec)


def _forms() -> str:
    return ", ".join(form for form, _ in FORMS.values())


def _options(text: str) -> dict[str, str]:
    """`"a=1,b=2"` as a dict."""
    options = {}
    for item in text.split(",") if text else ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise _SpecError(f"{item!r} is not of the form key=value")
        options[name.strip()] = value.strip()
    return options


def _take(
    options: dict[str, str], name: str, convert: Callable[[str], Any], default: Any, least: float
) -> Any:
    """Removes option `name` and converts it; `default` where it is not given."""
    if name not in options:
        return default
    return _number(options.pop(name), name, convert, least)


def _number(text: str, what: str, convert: Callable[[str], Any], least: float) -> Any:
    try:
        value = convert(text)
    except ValueError:
        value = None
    if value is None or not least <= value < float("inf"):
        kind = "a whole number" if convert is int else "a number"
        raise _SpecError(f"{what} must be {kind} of at least {least:g}, got {text!r}")
    return value


def _none_left(options: dict[str, str], known: str) -> None:
    if options:
        raise _SpecError(f"there is no option {next(iter(options))!r} (options: {known or 'none'})")


def _random(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    if argument:
        raise _SpecError(f"random takes no argument, got {argument!r}")
    _none_left(options, "")
    return random_player(game)


def _uct(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    simulations = _number(argument, "the number of simulations", int, 1)
    c = _take(options, "c", float, 1.0, 0)
    playouts = _take(options, "playouts", int, 1, 1)
    _none_left(options, "c, playouts")
    return uct_player(game, simulations=simulations, c=c, playouts=playouts)


def _rave(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    simulations = _number(argument, "the number of simulations", int, 1)
    c = _take(options, "c", float, 0.25, 0)
    c_rave = _take(options, "c_rave", float, 3000.0, 0)
    _none_left(options, "c, c_rave")
    return rave_player(game, simulations=simulations, c=c, c_rave=c_rave)


def _bitbully(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    _none_left(options, "")
    return bitbully_player(game, None if argument == "full" else _number(argument, "the depth", int, 1))


def _rust_reversi(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    _none_left(options, "")
    return rust_reversi_player(game, _number(argument, "the depth", int, 1))


def _gtp(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    timeout = _take(options, "timeout", float, 120.0, 0)
    workers = _take(options, "workers", int, 1, 1)
    _none_left(options, "timeout, workers")
    return gtp_player(game, argument.strip().strip("\"'"), timeout=timeout, workers=workers)


def _run(argument: str, options: dict[str, str], game: Game) -> AnyPlayer:
    if not argument:
        raise _SpecError("the path is missing")
    simulations = _take(options, "sims", int, 64, 0)
    temperature = _take(options, "temperature", float, 0.0, 0)
    search = options.pop("search", "puct")
    if search not in ("puct", "gumbel", "policy_bonus"):
        raise _SpecError(f"search must be one of {', '.join(SEARCH_KEYS)}, got {search!r}")
    changes = _search_changes(options, search)
    _none_left(options, ", ".join(["sims, search, temperature", *_changeable(search)]))
    network, params, metadata = load_network(argument, game)
    return network_player(
        f"run:{argument}",
        game,
        network,
        params,
        simulations=simulations,
        search=search,
        temperature=temperature,
        constants=search_constants(
            {**metadata.config.get("search", {}), **metadata.config.get("expert", {}), **changes}, search
        ),
    )


def _section(search: SearchName) -> type[TDSearchConfig | ExpertConfig]:
    """The settings that say how a run's network searches."""
    return ExpertConfig if search == "policy_bonus" else TDSearchConfig


def _changeable(search: SearchName) -> list[str]:
    """The keys of a `[search]` or `[expert]` section that a spec may give."""
    known = {field.name for field in fields_of(_section(search))}
    return [key for key in SEARCH_KEYS[search] if key in known]


def _search_changes(options: dict[str, str], search: SearchName) -> dict[str, Any]:
    """Removes those keys from `options` and reads their values as a config would."""
    given = {key: parse_value(options.pop(key)) for key in _changeable(search) if key in options}
    try:
        checked = from_dict(_section(search), given)
    except ConfigError as error:
        raise _SpecError(str(error).rstrip(".")) from None
    return {key: getattr(checked, key) for key in given}


def search_constants(settings: Mapping[str, Any], search: SearchName) -> tuple[tuple[str, Any], ...]:
    """What a config's `[search]` and `[expert]` mean for a search that plays, as sorted keyword pairs.

    Exploration noise is off. Keys that are missing keep the search's defaults.
    """
    names = SEARCH_KEYS[search]
    constants = {names[key]: value for key, value in settings.items() if key in names}
    if search == "gumbel":
        constants["gumbel_scale"] = 0.0
    return tuple(sorted(constants.items()))


def load_network(path: str, game: Game) -> tuple[Network, dict[str, Any], checkpoint.Metadata]:
    """The network and parameters of a checkpoint (or of a run directory's newest) and its metadata.

    Raises:
        ValueError: if there is none, or it was trained on another game or version of its rules.
    """
    params, metadata = checkpoint.load_parameters(path)
    identity = metadata.identity
    if (identity.game, identity.game_version) != (game.name, game.version):
        raise ValueError(
            f"{path} was trained on {identity.game} (rules version {identity.game_version}), "
            f"not on {game.name} (version {game.version})."
        )
    options = json.dumps(dict(identity.network_options), sort_keys=True)
    return _network(identity.network, options, game), params, metadata


@functools.lru_cache
def _network(name: str, options: str, game: Game) -> Network:
    """One record per network, so that players with the same one share compiled programs."""
    if name == ntuple.NAME:
        return ntuple.as_player_network(game, json.loads(options))
    return make_network(name, game, **json.loads(options))
