"""Nim, a game of one's own in one file: two players take one to three counters, the last one wins."""

import collections
import dataclasses

import jax.numpy as jnp
import numpy as np

from games_jax import replay, svg

HEAP, MOST = 15, 3
State = collections.namedtuple("State", ["left", "mover"])  # counters on the table, who takes next


@dataclasses.dataclass(frozen=True)
class Nim:
    name, version, num_players, has_chance = "nim", 1, 2, False
    num_actions, max_steps, observation_shape = MOST, HEAP, (1, HEAP, 3)

    def init(self, key):
        return State(jnp.int32(HEAP), jnp.int32(0))

    def step(self, state, action):
        taken = jnp.minimum(action + 1, state.left)  # none once the game is over
        return State(state.left - taken, jnp.where(self.is_over(state), state.mover, 1 - state.mover))

    def legal_actions(self, state):
        return np.arange(MOST) < state.left

    def observe(self, state, player):  # planes: own stones, the other's, cells that are in play
        return (np.arange(HEAP) < state.left)[None, :, None] & np.array([[[False, False, True]]])

    def current_player(self, state):
        return state.mover

    def rewards(self, state):  # who finds nothing left has lost
        result = jnp.where(np.arange(2) == state.mover, np.float32(-1), np.float32(1))
        return jnp.where(self.is_over(state), result, np.float32(0))

    def is_over(self, state):
        return state.left == 0

    def render(self, state):
        return f"{'|' * int(state.left)} player {int(state.mover)} to move"

    def to_svg(self, state):
        counters = [svg.circle(*svg.centre(0, i), 12, "#3b6fb6") for i in range(int(state.left))]
        return svg.picture(1, HEAP, counters, self.render(state))

    def action_to_string(self, action):
        return str(int(action) + 1)

    def action_from_string(self, text):
        if text not in ("1", "2", "3"):
            raise ValueError(f"{text!r} is not a move; give a number from 1 to {MOST}.")
        return int(text) - 1

    def from_string(self, text):
        return replay(self, text.split())
