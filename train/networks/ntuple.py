"""N-tuple value networks: the value of a position is a sum of look-ups, one for each tuple of cells.

A tuple is a list of cells; the values of its cells, read as the digits of a number, are the row that it looks
up. All tables lie in one array of rows, one after the other, those of the second player's weight set after
those of the first. The look-ups of a position and of its symmetric images are added up, not averaged.

Dimensions: B positions, C cells, T tuples, K symmetric images of a board, R rows of the table.

Reference: Lucas (2008), Learning to play Othello with n-tuple systems; Scheiermann and Konen (2022),
AlphaZero-inspired game learning, https://arxiv.org/abs/2204.13307, section III-D and table I.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxsearch
from games_jax.game import Game, symmetries_of
from jaxsearch.types import Evaluator
from train.networks.network import Network, NetworkOutput, Variables
from train.networks.tuple_sets import make_tuples
from train.ntuple_options import NTupleOptions
from train.schema import ConfigError, from_dict, to_dict

__all__ = ["NAME", "NTupleNetwork", "as_player_network", "look_up", "make_ntuple_network", "value_evaluator"]

NAME = "ntuple"
"""What a checkpoint calls the network."""

_EXACT = 2**24
"""Whole numbers below this are exact in float32, so that one product of matrices finds the rows."""

_CHUNK = 10
"""Look-ups per pass of `look_up`; 4, 10 and all at once took 2.2, 1.9 and 3.1 ms for 1,792 boards."""


@dataclasses.dataclass(frozen=True)
class Cells:
    """How a game's positions are written as cells.

    Attributes:
        values: how many values each cell can have, C numbers.
        images: int `[K, C]`; cell `i` of image `k` of a board is its cell `images[k, i]`.
        board: height and width of the board whose cells they are, or None where there is none.
    """

    values: tuple[int, ...]
    images: np.ndarray
    board: tuple[int, int] | None


def cells_of(game: Game) -> Cells:
    """The cells that `encode` writes a game's positions in.

    A game that has `cells(state)` and `cell_values` says so itself (the cubes). Of other games the cells are
    those of the board: a cell is 0 if no plane of the observation is set there and `k + 1` if plane `k` is.
    """
    if hasattr(game, "cell_values"):
        values = tuple(game.cell_values)  # pyright: ignore[reportAttributeAccessIssue]
        return Cells(values, np.arange(len(values))[None], None)
    height, width, planes = game.observation_shape
    symmetries = symmetries_of(game)
    images = np.arange(height * width)[None] if symmetries is None else np.asarray(symmetries.cells)
    return Cells((planes + 1,) * (height * width), images, (height, width))


def encode(game: Game, state: Any, player: jax.Array) -> jax.Array:
    """The cells of one state as `player` sees it, float32 `[C]`."""
    if hasattr(game, "cell_values"):
        return game.cells(state).astype(jnp.float32)  # pyright: ignore[reportAttributeAccessIssue]
    observed = game.observe(state, player)
    planes = [observed[..., k].astype(jnp.float32) * (k + 1.0) for k in range(observed.shape[-1])]
    return functools.reduce(jnp.add, planes).ravel()


@dataclasses.dataclass(frozen=True, eq=False)
class NTupleNetwork:
    """An n-tuple value network of a game.

    `V(s | p)` is the value for player `p` of the position `s` that `p` has just made.

    Attributes:
        game: whose positions it reads.
        options: all of them, for checkpoints.
        tuples: the cells of each tuple.
        powers: float32 `[C, K * T]` (twice as many columns if rows are found in two parts).
        low_size: int32 `[K * T]`, the weight of the second part, or None.
        offsets: int32 `[K * T, 1]`, the first row of each tuple's table.
        rows_of_set: rows of one weight set.
        num_sets: weight sets: one per player, or one for all.
        num_images: K.
    """

    game: Game
    options: NTupleOptions
    tuples: tuple[tuple[int, ...], ...]
    powers: np.ndarray
    low_size: np.ndarray | None
    offsets: np.ndarray
    rows_of_set: int
    num_sets: int
    num_images: int

    @property
    def num_rows(self) -> int:
        """R, over all weight sets."""
        return self.rows_of_set * self.num_sets

    @property
    def num_lookups(self) -> int:
        """K * T, of one position."""
        return len(self.offsets)

    def rows(self, states: Any, players: jax.Array) -> jax.Array:
        """The rows that `V(state | player)` adds up, int32 `[K * T, B]`.

        Args:
            states: `[B]`.
            players: int32 `[B]`, who made each.
        """
        relative = self.options.weights == "relative"
        viewers = players if relative else jnp.zeros_like(players)
        cells = jax.vmap(lambda state, viewer: encode(self.game, state, viewer))(states, viewers)
        # This way round the product and the look-ups are faster than as [B, K * T].
        found = jnp.matmul(self.powers.T, cells.T, precision="highest").astype(jnp.int32)
        if self.low_size is not None:
            half = len(self.offsets)
            found = found[:half] + found[half:] * self.low_size[:, None]
        found = found + self.offsets
        return found if self.num_sets == 1 else found + players * np.int32(self.rows_of_set)

    def output(self, total: jax.Array) -> jax.Array:
        """The value of a sum of look-ups: of board games its tanh."""
        return jnp.tanh(total) if self.options.output == "tanh" else total

    def slope(self, value: jax.Array) -> jax.Array:
        """The derivative of `output` where it is `value`."""
        return 1.0 - value * value if self.options.output == "tanh" else jnp.ones_like(value)

    def values(self, weights: jax.Array, states: Any, players: jax.Array) -> jax.Array:
        """`V(state | player)`, float32 `[B]`; `weights` as in `look_up`."""
        return self.output(look_up(weights, self.rows(states, players)))


def look_up(weights: jax.Array, rows: jax.Array) -> jax.Array:
    """The sum of the weights in `rows` `[N, B]`, float32 `[B]`.

    Args:
        weights: `[R]`, or a table `[R, F]` whose column 0 they are.
        rows: int32 `[N, B]`, all in 0..R-1 (not checked).
    """

    def add(total: jax.Array, some: jax.Array) -> jax.Array:
        for index in range(some.shape[0]):
            place = weights.at[some[index]] if weights.ndim == 1 else weights.at[some[index], 0]
            total = total + place.get(mode="promise_in_bounds", wrap_negative_indices=False)
        return total

    number, batch = rows.shape
    whole = number // _CHUNK * _CHUNK
    total = add(jnp.zeros(batch, weights.dtype), rows[whole:])
    if whole == 0:
        return total
    chunks = rows[:whole].reshape(-1, _CHUNK, batch)
    return jax.lax.fori_loop(0, chunks.shape[0], lambda i, total: add(total, chunks[i]), total)


@functools.lru_cache
def make_ntuple_network(game: Game, options: NTupleOptions) -> NTupleNetwork:
    """The network that `options` describe, for `game`; one object per game and options.

    Raises:
        ConfigError: tuples that do not fit the game, or more rows than int32 counts.
    """
    cells = cells_of(game)
    tuples = make_tuples(options, cells.values, cells.board)
    images = cells.images if options.symmetric else cells.images[:1]
    values = np.asarray(cells.values, np.int64)
    sizes = np.array([values[list(members)].prod() for members in tuples])
    sets = game.num_players if options.weights == "per_player" else 1
    if sizes.sum() * sets >= 2**31:
        raise ConfigError(
            f"The tuples have {sizes.sum() * sets:,} rows; expected fewer than {2**31:,}: choose fewer or "
            "shorter ones.",
            "network.length",
        )
    # Where a tuple has too many rows, its first and its last cells are found as two exact numbers.
    parts, low_size = [tuples], None
    if sizes.max() > _EXACT:
        middle = max(map(len, tuples)) // 2
        parts = [tuple(members[:middle] for members in tuples), tuple(members[middle:] for members in tuples)]
        low = [values[list(members)].prod() for members in parts[0]]
        low_size = np.tile(np.array(low, np.int32), len(images))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return NTupleNetwork(
        game=game,
        options=options,
        tuples=tuples,
        powers=np.concatenate([_powers(part, values, images) for part in parts], axis=1),
        low_size=low_size,
        offsets=np.tile(starts, len(images)).astype(np.int32)[:, None],
        rows_of_set=int(sizes.sum()),
        num_sets=sets,
        num_images=len(images),
    )


def _powers(tuples: Sequence[tuple[int, ...]], values: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Float32 `[C, K * T]`: `cells @ powers` are numbers whose digits are the cells, the first one least."""
    powers = np.zeros((len(values), len(images), len(tuples)), np.float32)
    for number, members in enumerate(tuples):
        weight = 1
        for cell in members:
            powers[images[:, cell], np.arange(len(images)), number] += weight
            weight *= values[cell]
    return powers.reshape(len(values), -1)


@functools.lru_cache
def value_evaluator(network: NTupleNetwork, temperature: float) -> Evaluator:
    """The network as a search's evaluator: a leaf is worth its best successor, see `successor_values`.

    The parameters are `{"weights": [R]}`. Priors are `softmax(q / temperature)`. Of two players the one who
    is not to move has made the position.
    """
    game = network.game

    def value_of_mover(params: Mapping[str, Any], states: Any) -> jax.Array:
        movers = jax.vmap(game.current_player)(states)
        if game.num_players == 1:
            return network.values(params["weights"], states, movers)
        return -network.values(params["weights"], states, 1 - movers)

    return jaxsearch.successor_values(game, value_of_mover, temperature=temperature, value="best")


def as_player_network(game: Game, options: Mapping[str, Any]) -> Network:
    """The record that players are made of, from the options that a checkpoint recorded."""
    chosen = from_dict(NTupleOptions, options, "network")
    network = make_ntuple_network(game, chosen)

    def init(key: jax.Array) -> Variables:
        del key
        return {"weights": jnp.zeros(network.num_rows)}

    def apply(variables: Variables, observation: jax.Array) -> NetworkOutput:
        del variables, observation
        raise TypeError("An n-tuple network reads states, not observations; use its evaluator.")

    return Network(
        NAME,
        to_dict(chosen),
        tuple(game.observation_shape),
        game.num_actions,
        init,
        apply,
        evaluator=value_evaluator(network, chosen.temperature),
    )
