"""Every game passes the one suite, and the suite catches each kind of fault."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import GAMES, LARGE_GAMES

import games_jax
from games_jax.conformance import check
from games_jax.game import Game, Symmetries, num_bytes

ALL = [*GAMES.items(), *(pytest.param(*case, marks=pytest.mark.slow) for case in LARGE_GAMES.items())]


@pytest.mark.parametrize(("name", "options"), ALL)
def test_game_conforms(name, options, strict):
    game = games_jax.make(name)
    assert isinstance(game, Game) and game.name == name
    check(game, **options)


def test_every_game_of_the_registry_is_held_to_the_suite():
    assert {name.partition("(")[0] for name in (*GAMES, *LARGE_GAMES)} == set(games_jax.names())


def test_checked_game_conforms(strict):
    check(games_jax.checked(games_jax.make("tic_tac_toe")))


BYTES = [
    ("tic_tac_toe", 8),
    ("connect_four", 16),
    ("othello", 20),
    ("go", 28),
    ("go(size=19)", 156),
    ("hex", 36),
    ("chess", 832),
    ("chess(window=8)", 104),
    ("chess(repetition=0)", 40),
    ("cube2", 8),
    ("cube3", 20),
    ("pommerman", 340),
]


@pytest.mark.parametrize(("name", "size"), BYTES)
def test_bytes_of_a_state(name, size):
    assert num_bytes(games_jax.make(name)) == size


def test_public_names_import_and_are_documented():
    for name in games_jax.__all__:
        assert getattr(games_jax, name).__doc__, name


@dataclasses.dataclass(frozen=True)
class Row:
    """Two players fill four cells in a row, anywhere; who fills the last one wins. Correct unless told."""

    fault: str = ""

    version = 1
    num_players = 2
    num_actions = 4
    has_chance = False

    @property
    def name(self):
        return "tic_tac_toe" if self.fault == "registry" else "row"

    @property
    def observation_shape(self):
        return [1, 4, 3] if self.fault == "facts" else (1, 4, 3)

    @property
    def max_steps(self):
        return 3 if self.fault == "max_steps" else 4

    def __hash__(self):
        if self.fault == "hashable":
            raise TypeError("unhashable")
        return hash(self.fault)

    def init(self, key):
        del key
        if self.fault == "strict leaves":
            return {"cells": jnp.zeros(4, jnp.int32), "ply": 0}
        if self.fault == "one trace":
            return {"cells": jnp.zeros(4, jnp.int32) + jnp.asarray(0), "ply": jnp.asarray(0)}
        return {"cells": jnp.zeros(4, jnp.int32), "ply": jnp.int32(0)}

    def step(self, state, action):
        over = self.is_over(state) & (self.fault != "finished games stand still")
        mark = 1 + state["ply"] % 2
        cells = jnp.where(over, state["cells"], state["cells"].at[action].set(mark))
        if self.fault == "symmetries commute":
            cells = jnp.where((action == 0) & ~over, cells.at[1].set(0), cells)
        if self.fault == "vmap equals loop" and isinstance(action, jax.core.Tracer):
            cells = cells + (0 if "Batch" in type(action).__name__ else 1)
        if self.fault == "jit equals no jit" and not isinstance(action, jax.core.Tracer):
            cells = cells * 2
        ply = state["ply"] + jnp.where(over, 0, 1)
        if self.fault == "one trace":
            ply = ply.astype(jnp.int32)
        if self.fault == "fixed structure":
            return {"cells": cells.astype(jnp.float32), "ply": ply}
        return {"cells": cells, "ply": ply}

    def legal_actions(self, state):
        legal = (state["cells"] == 0) & ~self.is_over(state)
        if self.fault == "outputs":
            return legal.astype(jnp.int32)
        if self.fault == "a move to make":
            return legal & (state["ply"] < 2)
        if self.fault == "none at the end":
            return legal | self.is_over(state)
        return legal

    def current_player(self, state):
        return state["ply"] % 2 + (1 if self.fault == "players" else 0)

    def is_over(self, state):
        return state["ply"] >= 4

    def rewards(self, state):
        won = jnp.where(self.is_over(state), jnp.float32([-1, 1]), jnp.float32([0, 0]))
        if self.fault == "rewards at the end":
            return won + jnp.where(state["ply"] == 2, jnp.float32([1, -1]), jnp.float32([0, 0]))
        if self.fault == "zero sum":
            return jnp.abs(won)
        return won

    def observe(self, state, player):
        cells = state["cells"]
        mine, other = cells == 1 + player, cells == 2 - player
        free = (cells == 0) | (mine if self.fault == "planes exclude one another" else False)
        if self.fault == "planes swap":
            mine, other = cells == 1, cells == 2
        seen = jnp.stack([mine, other, free], axis=-1)[None]
        return seen.astype(jnp.float32) if self.fault == "planes" else seen

    @property
    def symmetries(self):
        order = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
        broken = np.array([[0, 1, 2, 3], [3, 2, 1, 1]])
        return Symmetries(cells=order, actions=broken if self.fault == "symmetry tables" else order)

    def transform(self, state, k):
        return {**state, "cells": state["cells"][jnp.asarray(self.symmetries.cells)[k]]}

    def action_to_string(self, action):
        return "a" if self.fault == "notation" else "abcd"[action]

    def action_from_string(self, text):
        if text not in tuple("abcd"):
            raise ValueError(f"{text!r} is none of a to d")
        return "abcd".index(text)

    def from_string(self, text):
        moves = text.split()[1:] if self.fault == "moves" else text.split()
        return games_jax.replay(self, moves)

    def to_string(self, state):
        moves = "abcd" if self.fault == "positions" else self._moves(state)
        return " ".join(moves)

    def _moves(self, state):
        cells = np.asarray(state["cells"]).tolist()
        firsts = [i for i, cell in enumerate(cells) if cell == 1]
        seconds = [i for i, cell in enumerate(cells) if cell == 2]
        return ["abcd"[i] for pair in zip(firsts, [*seconds, None]) for i in pair if i is not None]

    def render(self, state):
        return "" if self.fault == "render" else str(state["cells"])

    def to_svg(self, state):
        return "" if self.fault == "to_svg" else "<svg></svg>"


def test_the_small_game_itself_conforms():
    check(Row())


FAULTS = [
    "facts",
    "hashable",
    "registry",
    "one trace",
    "strict leaves",
    "fixed structure",
    "outputs",
    "a move to make",
    "none at the end",
    "players",
    "max_steps",
    "rewards at the end",
    "zero sum",
    "finished games stand still",
    "vmap equals loop",
    "jit equals no jit",
    "planes",
    "planes exclude one another",
    "planes swap",
    "notation",
    "moves",
    "positions",
    "render",
    "to_svg",
    "symmetry tables",
    "symmetries commute",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_catches(fault):
    with pytest.raises(AssertionError, match=f"breaks the rule '{fault}'"):
        check(Row(fault))
