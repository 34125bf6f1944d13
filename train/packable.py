"""Which settings the members of one population may differ in. Imports no jax."""

from __future__ import annotations

from collections.abc import Iterable

from train.config import Config, ConfigError

__all__ = ["AT_MOST", "PACKABLE", "check", "packable"]

_ANY_SEARCH = (
    "run.seed",
    "selfplay.simulations",
    "selfplay.random_opening_share",
    "learner.learning_rate",
    "learner.weight_decay",
    "learner.value_loss_weight",
    "learner.value_target_mix",
)
_TEMPERATURE = ("selfplay.temperature", "selfplay.temperature_plies")
_PUCT = (
    "selfplay.dirichlet_alpha",
    "selfplay.dirichlet_fraction",
    "search.c_puct",
    "search.c_puct_base",
    "search.first_play_reduction",
)
_GUMBEL = ("search.considered_actions", "search.gumbel_scale")

PACKABLE = (*_ANY_SEARCH, *_TEMPERATURE, *_PUCT, *_GUMBEL)
"""Numbers that change no shape of a program, in one search or another."""

AT_MOST = ("selfplay.simulations", "search.considered_actions")
"""Whole numbers of which the greatest member's makes the shapes, and the others use less."""

_READ_BY = {
    "puct": (*_ANY_SEARCH, *_TEMPERATURE, *_PUCT),
    "regularised": (*_ANY_SEARCH, *_TEMPERATURE, *_PUCT),
    "gumbel": (*_ANY_SEARCH, *_GUMBEL),
}


def packable(search: str) -> tuple[str, ...]:
    """The keys in which members may differ that play by this `selfplay.search`."""
    read = _READ_BY[search]
    return tuple(key for key in read if key not in _PUCT) if search == "regularised" else read


def check(config: Config, keys: Iterable[str]) -> None:
    """A key that the config's search does not read would make members that are the same.

    Raises:
        ConfigError: there is one among `keys`.
    """
    search = config.selfplay.search
    for key in keys:
        if key in PACKABLE and key not in _READ_BY[search]:
            raise ConfigError(
                f'{key} does nothing where selfplay.search = "{search}"; expected keys that it reads, as '
                f"{', '.join(_READ_BY[search][len(_ANY_SEARCH) :])}.",
                key,
            )
