"""Agents to play against, as models (`games_jax.opponents.Model`): `act(state, player, memory)`.

Random play is `RandomModel(game)`, standing still `FixedModel()`, a network `GreedyModel(game, logits,
game.filtered_actions)`.

A step reads actions in many of its kernels, and views choose between memories; each of these would decide
anew. Hence `bits.compute_tree_once`, without which a search's step with SimpleAgents takes 1.7 times as long.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax

from games_jax import bits, dice
from games_jax.opponents import FixedModel, GreedyModel, RandomModel
from games_jax.pommerman import simple_agent, unbiased_agent
from games_jax.pommerman.game import Pommerman
from games_jax.pommerman.sight import Sight, look
from games_jax.pommerman.state import State

__all__ = ["FixedModel", "GreedyModel", "RandomModel", "SimpleAgent", "UnbiasedAgent"]


class SimpleMemory(NamedTuple):
    """What a SimpleAgent remembers, and its random numbers (uint32 `[]`)."""

    memory: simple_agent.Memory
    seed: jax.Array


@dataclasses.dataclass(frozen=True)
class SimpleAgent:
    """The official heuristic agent, the paper's SimplePy; see `games_jax.pommerman.simple_agent`.

    Attributes:
        game: the game.

    Example:
        >>> import jax
        >>> game = Pommerman()
        >>> agent = SimpleAgent(game)
        >>> state, memory = game.init(jax.random.key(0)), agent.start(jax.random.key(1))
        >>> action, memory = jax.jit(agent.act)(state, 0, memory)
    """

    game: Pommerman

    def start(self, key: jax.Array) -> SimpleMemory:
        """A new agent's memory."""
        return SimpleMemory(simple_agent.start(), dice.seed_of(key))

    def act(self, state: State, player: jax.Array, memory: SimpleMemory) -> tuple[jax.Array, SimpleMemory]:
        """Draws the player's action, int32 `[]`."""
        seed, word = dice.roll(memory.seed)
        sight = self._look(state, player)
        weights = simple_agent.decide(self.game.grid, sight, memory.memory)
        action, after = simple_agent.draw(sight, memory.memory, weights, dice.unit(word))
        return bits.compute_tree_once((action, SimpleMemory(after, seed)))

    def probabilities(self, state: State, player: jax.Array, memory: SimpleMemory) -> jax.Array:
        """Float32 `[6]`: how likely each action is."""
        return simple_agent.decide(self.game.grid, self._look(state, player), memory.memory).total()

    def _look(self, state: State, player: jax.Array) -> Sight:
        return look(
            self.game.grid,
            state,
            player,
            teams=self.game.mode == "team",
            window=self.game.window(state, player),
        )


@dataclasses.dataclass(frozen=True)
class UnbiasedAgent:
    """The paper's SimpleCpp; see `games_jax.pommerman.unbiased_agent`.

    Attributes:
        game: the game.
    """

    game: Pommerman

    def start(self, key: jax.Array) -> unbiased_agent.Memory:
        """A new agent's memory."""
        return unbiased_agent.start(dice.seed_of(key))

    def act(
        self, state: State, player: jax.Array, memory: unbiased_agent.Memory
    ) -> tuple[jax.Array, unbiased_agent.Memory]:
        """Draws the player's action, int32 `[]`."""
        teams = self.game.mode == "team"
        sight = look(self.game.grid, state, player, teams=teams, window=self.game.window(state, player))
        action, after = unbiased_agent.act(self.game.grid, sight, memory)
        return bits.compute_tree_once((action, after))
