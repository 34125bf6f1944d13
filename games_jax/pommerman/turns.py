"""The eight symmetries of the board, for states, actions and observations.

`games_jax.Symmetries` moves cells and actions; here two observation planes hold the direction of rolling
bombs, so that they trade places and signs as well.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, symmetries
from games_jax.bits import Board
from games_jax.game import Symmetries
from games_jax.pommerman.grid import COLUMNS, DIRECTIONS, ROWS, Grid, union
from games_jax.pommerman.observe import MOTION
from games_jax.pommerman.state import NUM_ACTIONS, State, pack_agent, unpack_agent


@dataclasses.dataclass(frozen=True, eq=False)
class BoardSymmetries(Symmetries):
    """As `Symmetries`, for observations whose planes 7 and 8 are the bombs' motion to the right and up.

    Attributes:
        motion: float32 `[K, 2, 2]`; the new planes 7 and 8 are `motion[k]` times the old ones.
    """

    motion: np.ndarray

    def observation(self, observation: jax.Array, k: jax.Array) -> jax.Array:
        """Transforms one observation `[H, W, C]` by symmetry `k` (int32 `[]`)."""
        moved = super().observation(observation, k)
        first, last = MOTION[0], MOTION[1] + 1
        right, up = moved[..., first], moved[..., last - 1]
        turn = jnp.asarray(self.motion)[k]
        turned = [turn[i, 0] * right + turn[i, 1] * up for i in range(2)]
        return jnp.concatenate([moved[..., :first], jnp.stack(turned, axis=-1), moved[..., last:]], axis=-1)


@functools.cache
def tables(size: int) -> tuple[BoardSymmetries, np.ndarray, np.ndarray]:
    """The symmetries; where each cell goes, int `[K, cells]`; what each direction becomes, int `[K, 4]`."""
    cells = symmetries.dihedral(size).cells
    goes = np.argsort(cells, axis=-1)  # cell `i` of the old board is cell `goes[i]` of the new one
    middle, becomes = size // 2, np.zeros((len(cells), len(DIRECTIONS)), int)
    centre = middle * size + middle
    vectors = np.stack([ROWS, COLUMNS], axis=1).tolist()
    for k, to in enumerate(goes):
        row, column = divmod(int(to[centre]), size)
        for d in DIRECTIONS:
            r, c = divmod(int(to[centre + ROWS[d] * size + COLUMNS[d]]), size)
            becomes[k, d] = vectors.index([r - row, c - column])
    # Action `i` on the new board is the old one that becomes `i`.
    actions = np.tile(np.arange(NUM_ACTIONS), (len(cells), 1))
    actions[:, 1:5] = 1 + np.argsort(becomes, axis=-1)
    far = np.stack([np.array(COLUMNS), -np.array(ROWS)])  # of each direction: how far right, how far up
    motion = np.zeros((len(cells), 2, 2), np.float32)
    for k in range(len(cells)):
        up, right = becomes[k, 0], becomes[k, 3]
        motion[k] = np.stack([far[:, right], far[:, up]], axis=1)
    return BoardSymmetries(cells=cells, actions=actions, motion=motion), goes, becomes


def transform(grid: Grid, state: State, k: jax.Array) -> State:
    """The state seen through symmetry `k` (int32 `[]`)."""
    table, goes, becomes = tables(grid.size)
    source = jnp.asarray(table.cells)[k]
    target = jnp.asarray(goes, jnp.int32)[k]

    def turn(board: Board) -> Board:
        return bits.permute(board, source, grid.positions, width=32)

    def turn_all(boards: tuple[Board, ...]) -> tuple[Board, ...]:
        return tuple(turn(board) for board in boards)

    rolls, low, high = turn_all(state.moving)
    new = jnp.asarray(becomes, jnp.int32)[k]
    heading = [
        bits.both(
            rolls,
            bits.both(
                low if d & 1 else bits.without(rolls, low), high if d & 2 else bits.without(rolls, high)
            ),
        )
        for d in DIRECTIONS
    ]

    def digit(number: int) -> Board:
        return union(
            tuple(jnp.where((new[d] >> number & 1) != 0, word, np.uint32(0)) for word in heading[d])
            for d in DIRECTIONS
        )

    agents = [unpack_agent(word) for word in state.agents]
    return State(
        rigid=turn(state.rigid),
        wood=turn(state.wood),
        item=turn_all(state.item),
        flames=turn_all(state.flames),
        life=turn_all(state.life),
        blast=turn_all(state.blast),
        owner=turn_all(state.owner),
        moving=(rolls, digit(0), digit(1)),
        agents=tuple(pack_agent(agent._replace(cell=target[agent.cell])) for agent in agents),
        steps=state.steps,
    )
