"""What an agent sees: the paper's 23 planes, and a plane of what the window hides where there is one.

Planes: 0 rigid, 1 wood, 2-4 open items (extra bomb, range, kick), 5 bomb time (1 - life / 9), 6 bomb
strength ((blast - 1) / 11), 7 bombs rolling left -1 or right +1, 8 rolling up +1 or down -1, 9 flames
(steps left / 3), 10-13 the agent itself and the next three (their cells while they live), and over the
whole board 14 own strength ((blast - 1) / 11), 15 own bombs out / 5, 16 own most bombs / 5, 17 can_kick,
18-21 who lives, in the order of 10-13, 22 step / 799.

Reference: Weil, Czech, Meuser and Kersting (2023), Know your Enemy, https://arxiv.org/abs/2305.13206, and
its program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman import blasts
from games_jax.pommerman.grid import Grid
from games_jax.pommerman.state import State, bombs, open_items, unpack_agent

PLANES = 23
MOTION = (7, 8)
_AGENTS = 4
_STEP_PLANE = 22
_SCALES = np.array(
    [1] * 5
    + [1 / 9, 1 / 11, 1, 1, 1 / 3]
    + [1] * _AGENTS
    + [1 / 11, 1 / 5, 1 / 5, 1]
    + [1] * _AGENTS
    + [1 / 799, 1],
    np.float32,
)
_BYTES = 4

Code = Sequence[tuple[int, Any]]
"""A plane's whole numbers: a weighted sum of boards, and of numbers (int32 `[]`) for the whole board."""


def planes(grid: Grid, state: State, player: jax.Array, window: Board | None = None) -> jax.Array:
    """Float32 `[H, W, 23]`, or 24 with a `window`: the last plane is 1 outside, where nothing else is seen.

    All planes but the step's are small whole numbers times a scale. Four of them become the bytes of one word
    a cell, so that few arrays are interleaved: interleaving float planes takes three times as long.

    Args:
        grid: the geometry.
        state: the state.
        player: int32 `[]`, whose view it is.
        window: the cells that the player sees; None for all.
    """
    codes = [*_board_codes(grid, state, window), *_agent_codes(grid, state, player, window)]
    codes += [(), () if window is None else ((1, bits.differ(window, grid.full)),)]
    positions = grid.positions.ravel()
    words = [_bytes_of(codes[i : i + _BYTES], positions) for i in range(0, len(codes), _BYTES)]
    words = _keep(words)
    numbers = jax.lax.bitcast_convert_type(jnp.stack(words, axis=-1), jnp.uint8)  # [cells, 6, 4]
    count = PLANES + (window is not None)
    numbers = numbers.reshape(len(positions), len(codes))[:, :count].astype(jnp.float32)
    offsets = np.where(np.isin(np.arange(count), MOTION), np.float32(-1), np.float32(0))
    shown = numbers * _SCALES[None, :count] + offsets[None]
    # Written afterwards: a select between the two takes ten times as long as all the rest.
    steps = state.steps.astype(jnp.float32) * _SCALES[_STEP_PLANE]
    shown = shown.at[:, _STEP_PLANE].set(steps)
    return shown.reshape(grid.size, grid.size, count)


def _board_codes(grid: Grid, state: State, window: Board | None) -> list[Code]:
    """Planes 0 to 9; a bomb's time is 9 - life, and motion is 0 back, 1 none, 2 forward."""

    def seen(boards: Sequence[Board]) -> list[Board]:
        return [board if window is None else bits.both(board, window) for board in boards]

    rigid, wood, low, high = seen((state.rigid, state.wood, *open_items(state)))
    (here,), life, blast = seen((bombs(state),)), seen(state.life), seen(state.blast)
    rolls, second, sideways = seen(state.moving)
    zero, one, two = seen(state.flames)
    across, along = bits.both(rolls, sideways), bits.without(rolls, sideways)
    return [
        ((1, rigid),),
        ((1, wood),),
        ((1, bits.without(low, high)),),
        ((1, bits.without(high, low)),),
        ((1, bits.both(low, high)),),
        ((9, here), *((-(1 << i), digit) for i, digit in enumerate(life))),
        ((-1, here), *((1 << i, digit) for i, digit in enumerate(blast))),
        ((1, bits.differ(grid.full, across)), (2, bits.both(across, second))),
        ((1, bits.differ(grid.full, along)), (2, bits.without(along, second))),
        # The youngest flame of a cell is the one that is seen: 3, 2 or 1 steps left.
        ((1, bits.either(two, bits.without(zero, one))), (2, bits.either(two, one))),
    ]


def _agent_codes(grid: Grid, state: State, player: jax.Array, window: Board | None) -> list[Code]:
    """Planes 10 to 21."""
    count = len(state.agents)
    agents = [unpack_agent(_of(state.agents, (player + i) % np.int32(count))) for i in range(count)]
    cells = [grid.bit(jnp.where(agent.alive, agent.cell, np.int32(-1))) for agent in agents]
    if window is not None:
        cells = [bits.both(cell, window) for cell in cells]
    me, laid = agents[0], bombs(state)
    out = sum(jnp.where(player == i, blasts.refunds(laid, state.owner, i), np.int32(0)) for i in range(count))
    nobody: list[Code] = [()] * (_AGENTS - count)
    return [
        *(((1, cell),) for cell in cells),
        *nobody,
        ((1, me.blast - 1),),
        ((1, out),),
        ((1, out + me.ammo),),
        ((1, me.can_kick),),
        *(((1, agent.alive),) for agent in agents),
        *nobody,
    ]


def _bytes_of(codes: Sequence[Code], positions: np.ndarray) -> jax.Array:
    """Up to four codes as the bytes of one uint32 word a cell, `[cells]`."""
    words = jnp.zeros(positions.shape, jnp.uint32)
    for byte, code in enumerate(codes):
        for weight, part in code:
            # Negative weights wrap; the sum of each byte is not negative.
            shifted = np.uint32((weight << 8 * byte) % (1 << 32))
            if isinstance(part, tuple):
                words = words + jnp.where(bits.unpack(part, positions), shifted, np.uint32(0))
            else:
                words = words + (part.astype(jnp.uint32) * shifted)[None]
    return words


def _keep(words: list[jax.Array]) -> tuple[jax.Array, ...]:
    """The same words, computed once, as in `bits.compute_once`, and not again for each of their bytes."""
    twice = [word[None] & np.array([0xFFFFFFFF, 0], np.uint32)[:, None] for word in words]
    zero = np.uint32(0)
    return tuple(jax.lax.reduce(tuple(twice), (zero,) * len(twice), bits.either, (0,)))


def _of(words: tuple[jax.Array, ...], player: jax.Array) -> jax.Array:
    """The word of one agent; a select, which costs less than a gather."""
    chosen = words[0]
    for i, word in enumerate(words[1:], start=1):
        chosen = jnp.where(player == i, word, chosen)
    return chosen
