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

from games_jax.game import Game, symmetries_of
from jaxsearch.environment import masked_logits
from jaxsearch.types import Evaluator
from train.networks.network import Network, NetworkOutput, Variables
from train.networks.ntuple_values import action_values
from train.networks.pattern_tuples import pattern_tuples
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


def cells_of(game: Game, planes: int = 0) -> Cells:
    """The cells that `encode` writes a game's positions in.

    A game that has `cells(state)` and `cell_values` says so itself (the cubes). Of other games the cells are
    those of the board: a cell is 0 if no plane of the observation is set there and `k + 1` if plane `k` is.

    Args:
        game: which.
        planes: how many planes are told apart, 0 all.
    """
    if hasattr(game, "cell_values"):
        values = tuple(game.cell_values)  # pyright: ignore[reportAttributeAccessIssue]
        return Cells(values, np.arange(len(values))[None], None)
    height, width, shown = game.observation_shape
    shown = min(shown, planes) if planes else shown
    symmetries = symmetries_of(game)
    images = np.arange(height * width)[None] if symmetries is None else np.asarray(symmetries.cells)
    return Cells((shown + 1,) * (height * width), images, (height, width))


def encode(game: Game, states: Any, players: jax.Array, planes: int = 0) -> jax.Array:
    """The cells of states `[B]` as `players` `[B]` see them, float32 `[C, B]`; `planes` as in `cells_of`.

    A game may have a quicker way than its observation to show two planes of stones, `stones(state, player)`.
    """
    if hasattr(game, "cell_values"):
        cells = jax.vmap(game.cells, out_axes=1)(states)  # pyright: ignore[reportAttributeAccessIssue]
        return cells.astype(jnp.float32)
    if planes == 2 and hasattr(game, "stones"):
        shown = jax.vmap(game.stones, out_axes=1)  # pyright: ignore[reportAttributeAccessIssue]
        return shown(states, players).astype(jnp.float32)
    # All planes of all positions first: one position after the other takes three times as long on CPU.
    observed = jax.vmap(game.observe)(states, players)
    observed = observed.reshape(len(observed), -1, observed.shape[-1])
    shown = min(observed.shape[-1], planes or observed.shape[-1])
    parts = [observed[..., k].T.astype(jnp.float32) * (k + 1.0) for k in range(shown)]
    return functools.reduce(jnp.add, parts)


@dataclasses.dataclass(frozen=True, eq=False)
class NTupleNetwork:
    """An n-tuple value network of a game.

    `V(s | p)` is the value for player `p` of the position `s` that `p` has just made.

    Attributes:
        game: whose positions it reads.
        options: all of them, for checkpoints.
        tuples: the cells of each tuple.
        powers: float32 `[C, M * N]`, `[C, 2 * M * N]` if rows are found in two parts: N look-ups, each the
            least of M numbers.
        low_size: int32 `[M * N]`, the weight of the second part, or None.
        offsets: int32 `[N, 1]`, the first row of each look-up's table.
        blocks: `(P, T)` each: the look-ups in order, T tuples seen in P places, tuple by tuple in the first
            place, then in the second.
        rows_of_set: rows of one weight set, all its stages.
        num_sets: weight sets: one per player, or one for all.
    """

    game: Game
    options: NTupleOptions
    tuples: tuple[tuple[int, ...], ...]
    powers: np.ndarray
    low_size: np.ndarray | None
    offsets: np.ndarray
    blocks: tuple[tuple[int, int], ...]
    rows_of_set: int
    num_sets: int

    @property
    def num_rows(self) -> int:
        """R, over all weight sets."""
        return self.rows_of_set * self.num_sets

    @property
    def num_lookups(self) -> int:
        """N, of one position: K * T, or fewer if they are canonical."""
        return len(self.offsets)

    def rows(self, states: Any, players: jax.Array) -> jax.Array:
        """The rows that `V(state | player)` adds up, int32 `[N, B]`.

        Args:
            states: `[B]`.
            players: int32 `[B]`, who made each.
        """
        relative = self.options.weights == "relative"
        viewers = players if relative else jnp.zeros_like(players)
        planes = self.options.planes
        cells = encode(self.game, states, viewers, planes)
        # This way round the product and the look-ups are faster than as [B, N].
        found = jnp.matmul(self.powers.T, cells, precision="highest").astype(jnp.int32)
        if self.low_size is not None:
            half = len(self.low_size)
            found = found[:half] + found[half:] * self.low_size[:, None]
        found = functools.reduce(jnp.minimum, jnp.split(found, len(found) // self.num_lookups)) + self.offsets
        if self.options.stages > 1:
            found = found + self._stage(cells) * np.int32(self.rows_of_set // self.options.stages)
        return found if self.num_sets == 1 else found + players * np.int32(self.rows_of_set)

    def _stage(self, cells: jax.Array) -> jax.Array:
        """Int32 `[B]`: which of equal parts of the board's cells the number of stones falls into."""
        stones = jnp.sum((cells == 1) | (cells == 2), axis=0, dtype=jnp.int32)
        return jax.lax.div(stones * np.int32(self.options.stages), np.int32(len(cells) + 1))

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
    cells = cells_of(game, options.planes)
    images = cells.images if options.symmetric else cells.images[:1]
    if options.tuples == "patterns":
        tuples = pattern_tuples(options.patterns, tuple(game.observation_shape), images)
    else:
        tuples = make_tuples(options, cells.values, cells.board)
    values = np.asarray(cells.values, np.int64)
    sizes = np.array([values[list(members)].prod() for members in tuples])
    sets = game.num_players if options.weights == "per_player" else 1
    if options.stages > 1 and cells.board is None:
        raise ConfigError(
            f"network.stages = {options.stages} counts stones on a board, and {game.name} has none; expected "
            "1.",
            "network.stages",
        )
    per_set = int(sizes.sum()) * options.stages
    if per_set * sets >= 2**31:
        raise ConfigError(
            f"The tuples have {per_set * sets:,} rows; expected fewer than {2**31:,}: choose fewer or "
            "shorter ones.",
            "network.length",
        )
    blocks, columns = _columns(tuples, images, options.canonical)
    of_column = [number for number, _ in columns[0]]
    # Where a tuple has too many rows, its first and its last cells are found as two exact numbers.
    parts, low_size = [tuples], None
    if sizes.max() > _EXACT:
        middle = max(map(len, tuples)) // 2
        parts = [tuple(members[:middle] for members in tuples), tuple(members[middle:] for members in tuples)]
        low = np.array([values[list(members)].prod() for members in parts[0]], np.int32)
        low_size = np.tile(low[of_column], len(columns))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    every = [column for variant in columns for column in variant]
    return NTupleNetwork(
        game=game,
        options=options,
        tuples=tuples,
        powers=np.concatenate([_powers(part, values, every) for part in parts], axis=1),
        low_size=low_size,
        offsets=starts[of_column][:, None],
        blocks=blocks,
        rows_of_set=per_set,
        num_sets=sets,
    )


_Column = tuple[int, np.ndarray]
"""The number of a tuple, and the image of the board in which it is read."""


def _columns(
    tuples: Sequence[tuple[int, ...]], images: np.ndarray, canonical: bool
) -> tuple[tuple[tuple[int, int], ...], list[list[_Column]]]:
    """In which images each tuple is read.

    Returns:
        `blocks` as in `NTupleNetwork`, and M lists of N columns: the row of a look-up is the least of those
        that its M columns give. M is 1 unless `canonical`, when images that show a tuple the same cells are
        one look-up.
    """
    places: list[list[list[int]]] = []  # of each tuple, the images of each look-up
    for members in tuples:
        by_cells: dict[object, list[int]] = {}
        for k, image in enumerate(images):
            by_cells.setdefault(frozenset(image[list(members)].tolist()) if canonical else k, []).append(k)
        places.append(list(by_cells.values()))
    blocks, lookups = [], []
    for count in sorted({len(of_tuple) for of_tuple in places}, reverse=True):
        numbers = [number for number, of_tuple in enumerate(places) if len(of_tuple) == count]
        blocks.append((count, len(numbers)))
        lookups += [(number, places[number][place]) for place in range(count) for number in numbers]
    # Images that show the cells in the same order are one: the mirror in a diagonal, to that diagonal.
    orders = [
        list({tuple(images[k][list(tuples[number])].tolist()): images[k] for k in same}.values())
        for number, same in lookups
    ]
    columns = [
        [(number, order[min(variant, len(order) - 1)]) for (number, _), order in zip(lookups, orders)]
        for variant in range(max(map(len, orders)))
    ]
    return tuple(blocks), columns


def _powers(tuples: Sequence[tuple[int, ...]], values: np.ndarray, columns: Sequence[_Column]) -> np.ndarray:
    """Float32 `[C, len(columns)]`: `cells @ powers` have the cells as digits, the first least."""
    powers = np.zeros((len(values), len(columns)), np.float32)
    for column, (number, image) in enumerate(columns):
        weight = 1
        for cell in tuples[number]:
            powers[image[cell], column] += weight
            weight *= values[cell]
    return powers


@functools.lru_cache
def value_evaluator(network: NTupleNetwork, temperature: float) -> Evaluator:
    """The network as a search's evaluator: a leaf is worth its best successor.

    The parameters are `{"weights": [R]}`. Priors are `softmax(q / temperature)`.
    """
    game = network.game

    def evaluate(params: Mapping[str, Any], key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array]:
        del key
        movers, legal = jax.vmap(game.current_player)(states), jax.vmap(game.legal_actions)(states)
        values = action_values(game, network, params["weights"], states, movers, legal, 1.0)
        logits = masked_logits(values / temperature, legal)
        return logits, jnp.where(jnp.any(legal, axis=-1), jnp.max(values, axis=-1), 0.0)

    return evaluate


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
