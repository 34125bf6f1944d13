"""One joint action, exactly as the official environment plays it.

The order of operations: flames age, agents and bombs say where they wish to go, conflicts are settled
(`moves`), everybody moves and picks up, bombs tick and explode (`blasts`), agents on fire die.

Reference: Resnick et al. (2018), Pommerman: A Multi-Agent Playground, https://arxiv.org/abs/1809.07124.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman import blasts, moves
from games_jax.pommerman.grid import COLUMNS, DIRECTIONS, ROWS, Grid, decrease, is_on, union
from games_jax.pommerman.state import (
    BOMB_LIFE,
    LAY_BOMB,
    MOST_AMMO,
    Agent,
    State,
    bombs,
    burning,
    open_items,
    pack_agent,
    unpack_agent,
)


class _Bombs(NamedTuple):
    """The digits that go where a bomb goes."""

    life: tuple[Board, ...]
    blast: tuple[Board, ...]
    owner: tuple[Board, ...]


def step(grid: Grid, most_blast: int, state: State, actions: jax.Array) -> State:
    """The state after one joint action; whether the game was over is not asked.

    Args:
        grid: the geometry.
        most_blast: the blast strength that no pick-up exceeds.
        state: the state.
        actions: int32 `[P]`; those of dead agents are ignored.
    """
    state = _age_flames(state)
    agents = [unpack_agent(word) for word in state.agents]
    cells = [_cell_of(grid, agent) for agent in agents]
    items = open_items(state)

    charges, agents = _lay_bombs(state, agents, cells, actions)
    charges, moving = _keep(charges, state.moving)
    present = _any_digit(charges.life)
    walls = bits.either(state.rigid, state.wood)
    decided = moves.decide(
        grid,
        _agent_wishes(grid, cells, actions, walls),
        _bomb_wishes(grid, present, moving, _clear(grid, walls, items)),
        kickers=union(_mask(cell, agent.can_kick) for cell, agent in zip(cells, agents, strict=True)),
        clear=_clear(grid, walls, items),
    )
    decided = _keep_moves(decided)
    agents, cells = _move_agents(grid, agents, cells, actions, decided, items, most_blast)
    # Whoever stands where an item lay open has taken it; what flames cover under an agent stays covered.
    taken = bits.both(union(cells), bits.either(*items))
    state = state._replace(item=tuple(bits.without(digit, taken) for digit in state.item))
    charges, moving = _move_bombs(grid, charges, decided)
    return _explode(grid, state, charges, moving, agents, cells)


def _age_flames(state: State) -> State:
    """Flames of life 0 die and uncover what wood has hidden; under flames that stay it is lost."""
    gone, one, two = state.flames
    lost = bits.both(gone, bits.either(one, two))
    item = tuple(bits.without(digit, lost) for digit in state.item)
    return state._replace(item=item, flames=(one, two, tuple(jnp.zeros_like(word) for word in two)))


def _cell_of(grid: Grid, agent: Agent) -> Board:
    """The cell of a live agent; nothing of a dead one."""
    return grid.bit(jnp.where(agent.alive, agent.cell, np.int32(-1)))


def _mask(board: Board, condition: jax.Array) -> Board:
    """The board if the condition (bool `[]`) holds, else nothing."""
    return tuple(jnp.where(condition, word, np.uint32(0)) for word in board)


def _any_digit(planes: tuple[Board, ...]) -> Board:
    return union(planes)


def _keep(charges: _Bombs, *others: tuple[Board, ...]) -> tuple[_Bombs, tuple[Board, ...]]:
    """The same boards, computed once (see `bits.compute_once`)."""
    flat = bits.compute_once(*charges.life, *charges.blast, *charges.owner, *(b for o in others for b in o))
    return _Bombs(flat[:4], flat[4:8], flat[8:10]), flat[10:]


def _keep_moves(decided: moves.Moves) -> moves.Moves:
    flat = bits.compute_once(*(board for boards in decided for board in boards))
    return moves.Moves(*(flat[i : i + 4] for i in range(0, len(flat), 4)))


def _lay_bombs(
    state: State, agents: list[Agent], cells: list[Board], actions: jax.Array
) -> tuple[_Bombs, list[Agent]]:
    """Who can lay a bomb and wishes to does; the bomb lies under its owner and ticks in the same step."""
    planes = [list(part) for part in (state.life, state.blast, state.owner)]
    taken = bombs(state)
    left = []
    for i, (agent, cell) in enumerate(zip(agents, cells, strict=True)):
        lays = (actions[i] == LAY_BOMB) & agent.alive & (agent.ammo > 0) & ~is_on(taken, cell)
        where = _mask(cell, lays)
        for part, number in zip(planes, (BOMB_LIFE, agent.blast, i), strict=True):
            for digit, plane in enumerate(part):  # all of them 0 at this cell
                if isinstance(number, jax.Array):
                    part[digit] = bits.either(plane, _mask(where, (number >> digit & 1) != 0))
                elif number >> digit & 1:
                    part[digit] = bits.either(plane, where)
        left.append(agent._replace(ammo=agent.ammo - lays.astype(jnp.int32)))
    return _Bombs(*(tuple(part) for part in planes)), left


def _clear(grid: Grid, walls: Board, items: tuple[Board, Board]) -> Board:
    """The cells that bombs may roll onto."""
    return grid.complement(bits.either(walls, bits.either(*items)))


def _agent_wishes(grid: Grid, cells: list[Board], actions: jax.Array, walls: Board) -> moves.Wishes:
    open_cells = grid.complement(walls)
    live = union(cells)
    go = []
    for direction in DIRECTIONS:
        asking = union(_mask(cell, actions[i] == direction + 1) for i, cell in enumerate(cells))
        go.append(bits.both(asking, grid.back(open_cells, direction)))
    return moves.Wishes(tuple(go), bits.without(live, union(go)))


def _bomb_wishes(grid: Grid, present: Board, moving: tuple[Board, ...], clear: Board) -> moves.Wishes:
    rolls, low, high = moving
    rolling = [bits.without(bits.without(rolls, low), high), bits.without(bits.both(rolls, low), high)]
    rolling += [bits.without(bits.both(rolls, high), low), bits.both(rolls, bits.both(low, high))]
    go = tuple(bits.both(movers, grid.back(clear, d)) for d, movers in enumerate(rolling))
    return moves.Wishes(go, bits.without(present, union(go)))


def _move_agents(
    grid: Grid,
    agents: list[Agent],
    cells: list[Board],
    actions: jax.Array,
    decided: moves.Moves,
    items: tuple[Board, Board],
    most_blast: int,
) -> tuple[list[Agent], list[Board]]:
    """Moves the agents; who enters an item's cell takes it, even if the fire takes the agent in this step."""
    movers = union(decided.agents)
    delta = [np.int32(grid.size * ROWS[d] + COLUMNS[d]) for d in DIRECTIONS]
    moved_agents, moved_cells = [], []
    for i, (agent, cell) in enumerate(zip(agents, cells, strict=True)):
        moved = is_on(movers, cell)
        offset = sum(jnp.where(actions[i] == d + 1, delta[d], np.int32(0)) for d in DIRECTIONS)
        agent = agent._replace(cell=agent.cell + jnp.where(moved, offset, np.int32(0)))
        cell = _cell_of(grid, agent)
        low, high = (is_on(digit, cell) & moved for digit in items)
        more_ammo = jnp.minimum(agent.ammo + 1, np.int32(MOST_AMMO))
        more_blast = jnp.minimum(agent.blast + 1, np.int32(most_blast))
        agent = agent._replace(
            ammo=jnp.where(low & ~high, more_ammo, agent.ammo),
            blast=jnp.where(high & ~low, more_blast, agent.blast),
            can_kick=agent.can_kick | (high & low),
        )
        moved_agents.append(agent)
        moved_cells.append(cell)
    return moved_agents, moved_cells


def _move_bombs(grid: Grid, charges: _Bombs, decided: moves.Moves) -> tuple[_Bombs, tuple[Board, ...]]:
    """Bombs roll a cell on; those that are kicked go one further from where their kicker met them."""

    def carry(planes: tuple[Board, ...], go: tuple[Board, ...]) -> tuple[Board, ...]:
        leaving = union(go)
        return tuple(
            bits.either(
                bits.without(plane, leaving),
                union(grid.shift(bits.both(plane, movers), d) for d, movers in enumerate(go)),
            )
            for plane in planes
        )

    charges = _Bombs(*(carry(planes, decided.rolling) for planes in charges))
    charges = _Bombs(*(carry(planes, decided.kicked) for planes in _keep(charges)[0]))
    heading = [
        bits.either(grid.shift(kept, d), grid.shift(kicked, d))
        for d, (kept, kicked) in enumerate(zip(decided.kept, decided.kicked, strict=True))
    ]
    _, down, left, right = heading
    return _keep(charges, (union(heading), bits.either(down, right), bits.either(left, right)))


def _explode(
    grid: Grid,
    state: State,
    charges: _Bombs,
    moving: tuple[Board, ...],
    agents: list[Agent],
    cells: list[Board],
) -> State:
    """Bombs tick, explode and set fire; agents on fire die."""
    present = _any_digit(charges.life)
    life = decrease(charges.life, present)
    flames = burning(state)
    due = bits.without(present, _any_digit(life))
    lit = bits.either(due, bits.both(present, flames))
    present, lit = bits.compute_once(present, lit)
    exploded, fire = blasts.explode(grid, lit, present, charges.blast, rigid=state.rigid, wood=state.wood)
    # What lies open burns; what wood or older flames hide stays hidden.
    open_fire = bits.without(fire, bits.either(state.wood, flames))
    on_fire = bits.either(fire, flames)
    words = []
    for i, (agent, cell) in enumerate(zip(agents, cells, strict=True)):
        ammo = jnp.minimum(agent.ammo + blasts.refunds(exploded, charges.owner, i), np.int32(MOST_AMMO))
        alive = agent.alive & ~is_on(on_fire, cell)
        words.append(pack_agent(agent._replace(ammo=ammo, alive=alive)))

    def remaining(planes: tuple[Board, ...]) -> tuple[Board, ...]:
        return tuple(bits.without(plane, exploded) for plane in planes)

    return State(
        rigid=state.rigid,
        wood=bits.without(state.wood, fire),
        item=tuple(bits.without(digit, open_fire) for digit in state.item),
        flames=(state.flames[0], state.flames[1], fire),
        life=remaining(life),
        blast=remaining(charges.blast),
        owner=remaining(charges.owner),
        moving=remaining(moving),
        agents=tuple(words),
        steps=state.steps + np.uint32(1),
    )
