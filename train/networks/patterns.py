"""A pattern-embedding network: an n-tuple network with vectors for entries.

The planes of an observation exclude one another, so a cell has a code: 0 if no plane is set there, k + 1 if
plane k is. The codes of a pattern's cells, read as digits, are the index of its state; each state has a
vector of `embed` numbers; the sum of the vectors over all patterns, a layer norm and a small dense network
give policy and value. Nearly all parameters sit in the table, of which one position touches one row per
pattern: on a CPU that is several times cheaper than a dense network, and stronger (docs/networks.md).

Reference: n-tuple networks (Lucas 2008; Thill, Koch and Konen 2012 for Connect Four) for the look-up, NNUE
(Nasu 2018) for the sum of vectors under a small network.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game, symmetries_of
from train.networks.heads import HeadOptions, Heads
from train.networks.network import NetworkOutput
from train.networks.pattern_sets import SET_FORMS, Pattern, pattern_set
from train.schema import ConfigError, setting, settings

CHUNK = 8
"""Look-ups per pass of `gather_sum`: measured best of 1, 4, 8, 16 and 69 on a CPU (docs/networks.md)."""

TABLE_SCALE = 0.1
"""Size of a new embedding. The layer norm takes it out again, so it sets how fast the table learns, and how
much a state that was never seen disturbs: 0.1 was better than 1 and as good as 0.03 (docs/networks.md)."""


@settings
class PatternOptions(HeadOptions):
    """Options of the network "patterns"."""

    patterns: str = setting(
        f"Which cells are read: {', '.join(SET_FORMS)}, or several joined by +; see docs/networks.md.",
        default="auto",
    )
    embed: int = setting("Numbers in the vector of a pattern's state.", default=64, minimum=1)
    hidden: tuple[int, ...] = setting(
        "Units of the dense layers after the sum; may be empty.", default=(64,), minimum=1
    )
    share: Literal["none", "symmetry"] = setting(
        '"symmetry": patterns that the game\'s symmetries map onto one another share one table, with the '
        "blocks of its vectors permuted. Fewer parameters and more data for each; patterns that a symmetry "
        "maps onto themselves are looked up more than once. embed must be a multiple of their number.",
        default="none",
    )


@jax.custom_vjp
def gather_sum(table: jax.Array, rows: jax.Array) -> jax.Array:
    """`table[rows].sum(0)` without the `[P, B, E]` array in between.

    XLA's CPU backend writes the gathered rows out and reads them again; a loop that adds a few look-ups at a
    time to `[B, E]` partial sums is 6 to 60 times faster (docs/networks.md).

    Args:
        table: float `[R, E]`.
        rows: int32 `[P, B]`, all in 0..R-1 (not checked).

    Returns:
        float `[B, E]`.
    """
    num_patterns, batch = rows.shape
    whole = num_patterns // CHUNK * CHUNK

    def look_up(total: jax.Array, some: jax.Array) -> jax.Array:
        for pattern in range(some.shape[0]):
            # In range by construction: no clamp, no test for negative rows.
            found = table.at[some[pattern]].get(mode="promise_in_bounds", wrap_negative_indices=False)
            total = total + found
        return total

    total = look_up(jnp.zeros((batch, table.shape[1]), table.dtype), rows[whole:])
    if whole == 0:
        return total
    chunks = rows[:whole].reshape(-1, CHUNK, batch)
    return jax.lax.fori_loop(0, chunks.shape[0], lambda i, total: look_up(total, chunks[i]), total)


def _gather_sum_forward(table: jax.Array, rows: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return gather_sum(table, rows), (table, rows)


def _gather_sum_backward(saved: tuple[jax.Array, jax.Array], cotangent: jax.Array) -> tuple[jax.Array, None]:
    # One pattern at a time, in place in one table. Differentiating the forward loop would add a whole table
    # per pass; one scatter of all [P, B, E] updates would write them out first and is 20 times slower.
    table, rows = saved

    def add(pattern: jax.Array, gradient: jax.Array) -> jax.Array:
        place = gradient.at[rows[pattern]]
        return place.add(cotangent, mode="promise_in_bounds", wrap_negative_indices=False)

    return jax.lax.fori_loop(0, rows.shape[0], add, jnp.zeros_like(table)), None


gather_sum.defvjp(_gather_sum_forward, _gather_sum_backward)


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Where the patterns read, and which rows of the table they own.

    G groups of R patterns each: group 0 holds the patterns themselves, group g their images under symmetry g,
    which read the same rows. Without sharing G = 1.

    Attributes:
        planes: the numbers of leading planes that patterns look at, each giving every cell a code.
        powers: float32 `[G * R, len(planes) * H * W]`, integers: powers @ codes is each pattern's state.
        offsets: int32 `[G * R]`: the first row of each pattern.
        num_rows: rows of the table.
        blocks: int32 `[G, G]`: block i of the embedding gets block `blocks[g, i]` of the sum of group g.
    """

    planes: tuple[int, ...]
    powers: np.ndarray
    offsets: np.ndarray
    num_rows: int
    blocks: np.ndarray


def _orbits(patterns: list[Pattern], cells: np.ndarray) -> list[Pattern]:
    """One pattern of each class that the symmetries `cells` `[G, H * W]` map onto one another."""
    kept, seen = [], set()
    for pattern in patterns:
        images = {frozenset(int(cell) for cell in symmetry[list(pattern.cells)]) for symmetry in cells}
        key = (frozenset(images), pattern.planes)
        if key not in seen:
            seen.add(key)
            kept.append(pattern)
    return kept


def _regular_representation(cells: np.ndarray) -> np.ndarray:
    """Int32 `[G, G]`: entry (g, i) is the symmetry g^-1 after i, as an index into `cells` `[G, H * W]`."""
    index = {symmetry.tobytes(): i for i, symmetry in enumerate(cells)}
    inverses = np.argsort(cells, axis=1).astype(cells.dtype)
    try:
        products = [[index[inverse[symmetry].tobytes()] for symmetry in cells] for inverse in inverses]
    except KeyError:
        raise ValueError(
            f"The {len(cells)} cell permutations of the game's symmetries are not closed under composition; "
            "declare the whole group."
        ) from None
    return np.array(products, np.int32)


def make_layout(
    patterns: list[Pattern], observation_shape: tuple[int, ...], symmetries: np.ndarray | None
) -> Layout:
    """Lays the tables of `patterns` out one after the other.

    Args:
        patterns: see `pattern_set`.
        observation_shape: `(H, W, C)`.
        symmetries: int `[G, H * W]` cell permutations that form a group (identity first): patterns that they
            map onto one another share a table. None: each pattern has its own.

    Returns:
        The layout. With symmetries, the embedding of a transformed board is the embedding of the board with
        its G blocks permuted.

    Raises:
        ValueError: the symmetries are no group.
    """
    num_cells = observation_shape[0] * observation_shape[1]
    cells = np.arange(num_cells)[None] if symmetries is None else np.asarray(symmetries)
    patterns = _orbits(patterns, cells)
    planes = sorted({pattern.planes for pattern in patterns})
    powers = np.zeros((len(cells), len(patterns), len(planes), num_cells), np.float32)
    for i, pattern in enumerate(patterns):
        for digit, cell in enumerate(pattern.cells):
            images = (np.arange(len(cells)), i, planes.index(pattern.planes), cells[:, cell])
            powers[images] = (pattern.planes + 1) ** digit
    ends = np.cumsum([pattern.states for pattern in patterns])
    offsets = np.tile(np.concatenate([[0], ends[:-1]]), len(cells)).astype(np.int32)
    powers = powers.reshape(len(offsets), len(planes) * num_cells)
    return Layout(tuple(planes), powers, offsets, int(ends[-1]), _regular_representation(cells))


def pattern_rows(layout: Layout, observation: jax.Array) -> jax.Array:
    """The row that each pattern looks up, int32 `[G * R, B]`, for planes `[B, H, W, C]`."""
    batch, height, width, _ = observation.shape
    cells = observation.astype(jnp.float32)

    def codes(planes: int) -> jax.Array:
        # Plane by plane: a product with the vector (1, 2, ...) takes as long as all that follows.
        weighted = [(plane + 1.0) * cells[..., plane] for plane in range(planes)]
        return functools.reduce(jnp.add, weighted).reshape(batch, height * width)

    digits = jnp.concatenate([codes(planes) for planes in layout.planes], axis=1)
    # Exact: sums of integers below 2^24, as long as no backend rounds the factors ("highest"). This way
    # round, [G * R, B], the product is faster and each pass of `gather_sum` reads contiguous indices.
    states = jnp.matmul(layout.powers, digits.T, precision="highest")
    return states.astype(jnp.int32) + layout.offsets[:, None]


def embedding(layout: Layout, table: jax.Array, observation: jax.Array) -> jax.Array:
    """The sum of the patterns' vectors, `[B, E]`, for a table `[R, E]` and planes `[B, H, W, C]`."""
    batch, groups, embed = observation.shape[0], len(layout.blocks), table.shape[1]
    rows = pattern_rows(layout, observation).reshape(groups, -1, batch, 1)
    # The blocks are permuted by where they are looked up: moving them afterwards, as concatenated slices,
    # took ten times as long as all the look-ups.
    places = rows * groups + layout.blocks[:, None, None, :]
    total = gather_sum(table.reshape(-1, embed // groups), places.reshape(-1, batch * groups))
    return total.reshape(batch, embed)


class PatternNetwork(nn.Module):
    """Sum of pattern vectors, layer norm, relu, dense layers, two linear heads."""

    num_actions: int
    layout: Layout
    options: PatternOptions

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        """Judges planes `[B, H, W, C]`."""
        dtype = self.options.dtype
        init = nn.initializers.normal(stddev=TABLE_SCALE * len(self.layout.offsets) ** -0.5)
        table = self.param("table", init, (self.layout.num_rows, self.options.embed))
        features = nn.relu(nn.LayerNorm(dtype=dtype)(embedding(self.layout, table, observation)))
        for width in self.options.hidden:
            features = nn.relu(nn.Dense(width, dtype=dtype)(features))
        return Heads(self.num_actions, self.options, name="heads")(features, features)


def patterns(game: Game, options: PatternOptions) -> PatternNetwork:
    """The module for `game`, whose observation planes must exclude one another.

    Raises:
        ConfigError: an unknown pattern set, a game without a board or without symmetries to share under, or
            an `embed` that the number of symmetries does not divide.
    """
    cells = None
    if options.share == "symmetry":
        symmetries = symmetries_of(game)
        if symmetries is None:
            raise ConfigError(
                f'network.share = "symmetry" needs symmetries, but {game.name} has none; set it to "none".',
                "network.share",
            )
        cells = symmetries.cells
        if options.embed % len(cells):
            raise ConfigError(
                f'network.embed = {options.embed} does not go with share = "symmetry"; expected a multiple '
                f"of {len(cells)}, the number of symmetries of {game.name}.",
                "network.embed",
            )
    layout = make_layout(pattern_set(options.patterns, game.observation_shape), game.observation_shape, cells)
    return PatternNetwork(game.num_actions, layout, options)
