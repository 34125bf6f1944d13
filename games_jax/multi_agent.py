"""A game in which everybody moves at once, seen as a game for one player or for two, for an ordinary search.

In `SinglePlayerView` the others are played by models. In `TwoPlayerView` one of the others, the nearest,
say, is searched too: a step of the game becomes two plies, of which the first only stores the own action,
and what is good for one is bad for the other.

Reference: SP-MCTS and TP-MCTS of Weil, Czech, Meuser and Kersting (2023), Know your Enemy,
https://arxiv.org/abs/2305.13206.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game, State, is_simultaneous
from games_jax.opponents import JointModel, Memory, Model, row_of
from games_jax.wrapper import Wrapper

__all__ = ["SinglePlayerView", "TwoPlayerView", "single_player_view", "two_player_view"]

_NONE = -1
OfPlayers = Callable[[State], jax.Array]


class SingleState(NamedTuple):
    """A state of the game, and what the others are about to do in it.

    Attributes:
        inner: the game's state.
        player: int32 `[]`, whose view it is.
        memories: of the models of the others, from the next player on; leaves `[P - 1, ...]`, or a tuple, or
            the one memory of a joint model.
        answers: int32 `[P - 1]`, the others' next actions, in the same order.
    """

    inner: State
    player: jax.Array
    memories: Memory
    answers: jax.Array


class TwoState(NamedTuple):
    """As `SingleState`, and the half of a step.

    Attributes:
        base: the state of the one-player view.
        opponent: int32 `[]`, the player who is searched as well.
        mine: int32 `[]`, the own action while the opponent's is awaited, else -1.
    """

    base: SingleState
    opponent: jax.Array
    mine: jax.Array


@dataclasses.dataclass(frozen=True)
class SinglePlayerView(Wrapper):
    """A game for one player; see `single_player_view`.

    A step takes the own action, plays the answers that the state holds, and asks the models for their next
    ones: once for each state, however many actions are tried from it. A joint model answers for all at once,
    as `opponents.NetworkModel` does, which judges the state for the search in the same batch.
    """

    models: Model | JointModel | tuple[Model, ...] = dataclasses.field(kw_only=True)
    allowed: OfPlayers | None = dataclasses.field(default=None, kw_only=True)
    outcome: OfPlayers | None = dataclasses.field(default=None, kw_only=True)
    is_out: OfPlayers | None = dataclasses.field(default=None, kw_only=True)

    @property
    def num_players(self) -> int:
        """1."""
        return 1

    def inner(self, state: SingleState) -> State:
        """The game's own state."""
        return state.inner

    def init(self, key: jax.Array) -> SingleState:
        """A new game, seen by player 0."""
        game_key, model_key = jax.random.split(key)
        return self.begin(self.game.init(game_key), 0, model_key)

    def begin(self, inner: State, player: jax.Array | int, key: jax.Array) -> SingleState:
        """The view of a state of the game by `player` (int32 `[]`), with new models; the key is theirs."""
        keys = jax.random.split(key, self.game.num_players - 1)
        if isinstance(self.models, JointModel):
            memories = self.models.start(keys[0])
        elif isinstance(self.models, tuple):
            memories = tuple(model.start(key) for model, key in zip(self.models, keys, strict=True))
        else:
            memories = jax.vmap(self.models.start)(keys)
        nothing = jnp.zeros(self.game.num_players - 1, jnp.int32)
        return self._ask(SingleState(inner, jnp.asarray(player, jnp.int32), memories, nothing))

    def others(self, player: jax.Array) -> jax.Array:
        """Int32 `[P - 1]`: the other players, from the next one on."""
        count = self.game.num_players
        return (player + np.arange(1, count, dtype=np.int32)) % np.int32(count)

    def step(self, state: SingleState, action: jax.Array, *key: jax.Array) -> SingleState:
        """The state after the own action and the others' answers."""
        del key
        after = self._ask(self.advance(state, action))
        over = self.is_over(state)
        return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)

    def advance(self, state: SingleState, action: jax.Array) -> SingleState:
        """The step without the models: `answers` are still those to the state before."""
        place = np.arange(self.game.num_players, dtype=np.int32)
        seat = (place - state.player) % np.int32(self.game.num_players)
        joint = jnp.where(seat == 0, action, np.int32(0))
        for k in range(1, self.game.num_players):
            joint = jnp.where(seat == k, state.answers[k - 1], joint)
        return state._replace(inner=self.game.step(state.inner, joint.astype(jnp.int32)))

    def settle(self, state: SingleState, answers: jax.Array, memories: Memory | None = None) -> SingleState:
        """The state with these answers of `others` (int32 `[P - 1]`), and memories if they have changed."""
        return state._replace(answers=answers, memories=state.memories if memories is None else memories)

    def legal_actions(self, state: SingleState) -> jax.Array:
        """Bool `[A]`: the player's allowed actions; none once the view is over."""
        return self.row(state, state.player) & ~self.is_over(state)

    def row(self, state: SingleState, player: jax.Array) -> jax.Array:
        """Bool `[A]`: the allowed actions of any player."""
        return row_of((self.allowed or self.game.legal_actions)(state.inner), player)

    def observe(self, state: SingleState, player: jax.Array) -> jax.Array:
        """What the player of the view sees; `player` is 0."""
        del player
        return self.game.observe(state.inner, state.player)

    def current_player(self, state: SingleState) -> jax.Array:
        """Int32 `[]`: 0."""
        return jnp.zeros_like(state.player)

    def rewards(self, state: SingleState) -> jax.Array:
        """Float32 `[1]`: the player's outcome once the view is over, or, without one, its own rewards."""
        if self.outcome is None:
            return row_of(self.game.rewards(state.inner), state.player)[None]
        ended = row_of(self.outcome(state.inner), state.player)
        return jnp.where(self.is_over(state), ended, np.float32(0))[None]

    def is_over(self, state: SingleState) -> jax.Array:
        """Bool `[]`: the game is over, or the player is out."""
        over = self.game.is_over(state.inner)
        return over if self.is_out is None else over | row_of(self.is_out(state.inner), state.player)

    def from_string(self, text: str) -> SingleState:
        """A position of the game, seen by player 0, with new models."""
        return self.begin(self.game.from_string(text), 0, jax.random.key(0))

    def _ask(self, state: SingleState) -> SingleState:
        seats = self.others(state.player)
        if isinstance(self.models, JointModel):
            answers, memories = self.models.act_all(state.inner, seats, state.memories)
        elif isinstance(self.models, tuple):
            pairs = [
                model.act(state.inner, seats[k], memory)
                for k, (model, memory) in enumerate(zip(self.models, state.memories, strict=True))
            ]
            answers, memories = jnp.stack([pair[0] for pair in pairs]), tuple(pair[1] for pair in pairs)
        else:
            ask = jax.vmap(self.models.act, in_axes=(None, 0, 0))
            answers, memories = ask(state.inner, seats, state.memories)
        return self.settle(state, answers, memories)


@dataclasses.dataclass(frozen=True)
class TwoPlayerView(Wrapper):
    """A game for two; see `two_player_view`. Player 0 of the view is the own player, 1 the opponent."""

    single: SinglePlayerView = dataclasses.field(kw_only=True)
    pick: Callable[[State, jax.Array], jax.Array] = dataclasses.field(kw_only=True)

    @property
    def num_players(self) -> int:
        """2."""
        return 2

    @property
    def max_steps(self) -> int:
        """Two plies a step."""
        return 2 * self.game.max_steps

    def inner(self, state: TwoState) -> State:
        """The game's own state."""
        return state.base.inner

    def init(self, key: jax.Array) -> TwoState:
        """A new game, seen by player 0."""
        return self._turn(self.single.init(key))

    def begin(self, inner: State, player: jax.Array | int, key: jax.Array) -> TwoState:
        """The view of a state of the game by `player` (int32 `[]`), with new models; the key is theirs."""
        return self._turn(self.single.begin(inner, player, key))

    def step(self, state: TwoState, action: jax.Array, *key: jax.Array) -> TwoState:
        """Stores the own action, or plays it with the opponent's and the answers of the rest."""
        del key
        action = jnp.asarray(action, jnp.int32)
        seats = self.single.others(state.base.player)
        answers = jnp.where(seats == state.opponent, action, state.base.answers)
        played = self._turn(self.single.step(state.base._replace(answers=answers), state.mine))
        stored = state._replace(mine=action)
        waits, over = state.mine != _NONE, self.is_over(state)

        def choose(new: jax.Array, half: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(over, old, jnp.where(waits, new, half))

        return jax.tree.map(choose, played, stored, state)

    def legal_actions(self, state: TwoState) -> jax.Array:
        """Bool `[A]`: what the player or the opponent may do; none once the view is over."""
        return self.single.row(state.base, self.seat(state)) & ~self.is_over(state)

    def seat(self, state: TwoState) -> jax.Array:
        """Int32 `[]`: the player of the game whose ply it is."""
        return jnp.where(state.mine == _NONE, state.base.player, state.opponent)

    def expected(self, state: TwoState) -> jax.Array:
        """Int32 `[]`: what the opponent's model would do, whether or not the own action is stored."""
        seat = (state.opponent - state.base.player - 1) % np.int32(self.game.num_players)
        return row_of(state.base.answers, seat)

    def observe(self, state: TwoState, player: jax.Array) -> jax.Array:
        """What the own player (0) or the opponent (1) sees; a stored action is not seen."""
        who = jnp.where(jnp.asarray(player) == 0, state.base.player, state.opponent)
        return self.game.observe(state.base.inner, who)

    def current_player(self, state: TwoState) -> jax.Array:
        """Int32 `[]`: 0, or 1 while an action is stored."""
        return (state.mine != _NONE).astype(jnp.int32)

    def rewards(self, state: TwoState) -> jax.Array:
        """Float32 `[2]`: the player's, and the same for the opponent with the other sign."""
        own = jnp.where(state.mine == _NONE, self.single.rewards(state.base)[0], np.float32(0))
        return jnp.stack([own, -own])

    def is_over(self, state: TwoState) -> jax.Array:
        """Bool `[]`: the game is over, or the player is out."""
        return (state.mine == _NONE) & self.single.is_over(state.base)

    def from_string(self, text: str) -> TwoState:
        """A position of the game, seen by player 0, with new models."""
        return self._turn(self.single.from_string(text))

    def _turn(self, base: SingleState) -> TwoState:
        opponent = jnp.asarray(self.pick(base.inner, base.player), jnp.int32)
        return TwoState(base, opponent, jnp.full_like(base.player, _NONE))


def single_player_view(
    game: Game,
    models: Model | JointModel | tuple[Model, ...],
    *,
    allowed: OfPlayers | None = None,
    outcome: OfPlayers | None = None,
    is_out: OfPlayers | None = None,
) -> SinglePlayerView:
    """A simultaneous game as a game for one player, the others being played by models.

    Args:
        game: the game.
        models: of the others: one for all of them, a joint one, or a tuple, from the next player on.
        allowed: bool `[P, A]` of a state, the actions to search; the legal ones by default.
        outcome: float32 `[P]` of a state, what its end is worth to each. By default the game's `outcome` if
            it has one; else the rewards of each step count.
        is_out: bool `[P]` of a state, for whom it is decided. By default the game's `is_out` if it has one;
            else the view lasts as long as the game.

    Raises:
        ValueError: a game without simultaneous moves, one with chance, or another number of models.

    Example:
        >>> import jax, games_jax
        >>> from games_jax.opponents import FixedModel
        >>> game = games_jax.make("pommerman")
        >>> view = single_player_view(game, FixedModel())
        >>> state = view.begin(game.init(jax.random.key(0)), 2, jax.random.key(1))
        >>> int(state.player), view.num_players, state.answers.tolist()
        (2, 1, [0, 0, 0])
    """
    if not is_simultaneous(game):
        raise ValueError(f"{game.name} has no simultaneous moves; search it as it is.")
    if game.has_chance:
        raise ValueError(f"{game.name} has chance, which the views do not pass on; expected a game without.")
    if isinstance(models, tuple) and len(models) != game.num_players - 1:
        raise ValueError(f"{len(models)} models are given; expected {game.num_players - 1}, or one for all.")
    return SinglePlayerView(
        game,
        models=models,
        allowed=allowed,
        outcome=outcome or getattr(game, "outcome", None),
        is_out=is_out or getattr(game, "is_out", None),
    )


def two_player_view(
    game: Game,
    models: Model | JointModel | tuple[Model, ...],
    pick: Callable[[State, jax.Array], jax.Array] | None = None,
    **options: Any,
) -> TwoPlayerView:
    """A simultaneous game as one for two players, whose values have opposite signs.

    The opponent moves after the own player, whose action it does not see, and the search knows it; so the
    value is a cautious one. Each ply of a batched search costs a step of the game, half of them for nothing.

    Args:
        game: the game.
        models: as for `single_player_view`; they play whoever is not searched.
        pick: the opponent, int32 `[]`, of a state and a player (int32 `[]`), asked again after each step. By
            default the game's `nearest_enemy` if it has one, else the next player.
        **options: as for `single_player_view`.

    Raises:
        ValueError: as `single_player_view`.
    """
    single = single_player_view(game, models, **options)
    count = game.num_players

    def next_player(state: State, player: jax.Array) -> jax.Array:
        del state
        return (player + 1) % np.int32(count)

    chosen = pick or getattr(game, "nearest_enemy", None) or next_player
    return TwoPlayerView(game, single=single, pick=cast(Any, chosen))
