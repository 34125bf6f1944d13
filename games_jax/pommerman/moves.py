"""Who moves where: wishes, conflicts, kicks, and the second round of conflicts.

Agents and bombs are sets of cells, by the direction in which they wish to go, so that all of them are
decided at once. What they claim is counted per cell, and a claim is never withdrawn: whoever has to stay
claims its own cell as well. Counters only grow and movers only give up, so that the order in which
conflicts are looked at does not matter, and each round is a fixed point.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from games_jax import bits
from games_jax.bits import Board
from games_jax.pommerman.grid import DIRECTIONS, Grid, opposite, union

Boards = tuple[Board, ...]


class Wishes(NamedTuple):
    """Cells of agents or of bombs: who moves in each of the four directions, and who stays."""

    go: Boards
    stay: Board

    def turned_back(self, who: Board) -> Wishes:
        """The same with `who` staying."""
        return Wishes(
            tuple(bits.without(movers, who) for movers in self.go),
            bits.either(self.stay, bits.both(union(self.go), who)),
        )


class Claims(NamedTuple):
    """The cells claimed at least once, and at least twice."""

    once: Board
    twice: Board

    def add(self, cells: Board) -> Claims:
        """One claim more at each of the cells."""
        return Claims(bits.either(self.once, cells), bits.either(self.twice, bits.both(self.once, cells)))


class Moves(NamedTuple):
    """What is left of the wishes.

    Attributes:
        agents: the agents that move, by direction, at the cells they leave.
        rolling: the bombs that move or are about to be kicked away, by direction, at the cells they leave.
        kicked: bombs that are kicked, by direction of the kick, at the cells where agent and bomb meet. A
            bomb that rolls in to be kicked is in `rolling` too.
        kept: the bombs among `rolling` that keep their direction: those that are not kicked.
    """

    agents: Boards
    rolling: Boards
    kicked: Boards
    kept: Boards


def decide(grid: Grid, agents: Wishes, bombs: Wishes, *, kickers: Board, clear: Board) -> Moves:
    """Settles all conflicts of one step.

    Args:
        grid: the geometry.
        agents: live agents at their cells.
        bombs: bombs at their cells.
        kickers: the cells of the agents that can kick.
        clear: the cells a bomb may roll onto: no wall, no wood, no open item.
    """
    agents, bombs = _swaps(grid, agents, bombs)
    agents, bombs = (Wishes(*once) for once in _keep(agents, bombs))
    agents, bombs, claims = _first_round(grid, agents, bombs)
    agents, bombs = (Wishes(*once) for once in _keep(agents, bombs))
    return _kicks(grid, agents, bombs, claims, kickers, clear)


def _keep(*wishes: Wishes) -> list[tuple[Boards, Board]]:
    """The same wishes, computed once (see `bits.compute_once`)."""
    flat = bits.compute_once(*(board for wish in wishes for board in (*wish.go, wish.stay)))
    return [(flat[i : i + 4], flat[i + 4]) for i in range(0, len(flat), 5)]


def _swaps(grid: Grid, agents: Wishes, bombs: Wishes) -> tuple[Wishes, Wishes]:
    """Two agents, or two bombs, may not cross the same edge; of an agent and a bomb the bomb stays."""

    def face_to_face(go: Boards, others: Boards) -> Board:
        return union(bits.both(go[d], grid.back(others[opposite(d)], d)) for d in DIRECTIONS)

    stopped = bits.either(face_to_face(bombs.go, bombs.go), face_to_face(bombs.go, agents.go))
    return agents.turned_back(face_to_face(agents.go, agents.go)), bombs.turned_back(stopped)


def _claims(grid: Grid, wishes: Wishes) -> Claims:
    claims = Claims(wishes.stay, grid.empty())
    for direction, movers in enumerate(wishes.go):
        claims = claims.add(grid.shift(movers, direction))
    return claims


def _facing(grid: Grid, go: Boards, cells: Board) -> Board:
    """The movers whose target is one of the cells."""
    return union(bits.both(movers, grid.back(cells, d)) for d, movers in enumerate(go))


def _first_round(grid: Grid, agents: Wishes, bombs: Wishes) -> tuple[Wishes, Wishes, tuple[Claims, Claims]]:
    """A cell that two agents or two bombs claim is closed to everybody who would move there."""
    by_agents, by_bombs = _claims(grid, agents), _claims(grid, bombs)

    def again(back: tuple[Board, Board]) -> tuple[Board, Board]:
        closed = bits.either(by_agents.add(back[0]).twice, by_bombs.add(back[1]).twice)
        return (
            bits.either(back[0], _facing(grid, agents.go, closed)),
            bits.either(back[1], _facing(grid, bombs.go, closed)),
        )

    back = _fixed_point(again, (grid.empty(), grid.empty()))
    claims = by_agents.add(back[0]), by_bombs.add(back[1])
    return agents.turned_back(back[0]), bombs.turned_back(back[1]), claims


def _kicks(
    grid: Grid,
    agents: Wishes,
    bombs: Wishes,
    claims: tuple[Claims, Claims],
    kickers: Board,
    clear: Board,
) -> Moves:
    """Agents meet bombs: who can kick does, or both bounce; then the second round of conflicts."""
    by_agents, by_bombs = claims
    coming = tuple(grid.shift(movers, d) for d, movers in enumerate(agents.go))
    rolling_in = tuple(grid.shift(movers, d) for d, movers in enumerate(bombs.go))
    met = bits.either(
        union(rolling_in), bombs.stay
    )  # at most one bomb wishes to be at a cell that an agent claims
    free = bits.without(clear, bits.either(by_agents.once, by_bombs.once))

    kicked = tuple(
        bits.both(bits.both(grid.shift(bits.both(movers, kickers), d), met), grid.back(free, d))
        for d, movers in enumerate(agents.go)
    )
    refused = bits.without(bits.both(union(coming), met), union(kicked))
    agents_back = _facing(grid, agents.go, refused)
    # A bomb that rolls towards an agent who stays, or is not kicked, goes back. One at rest claims again.
    bombs_back = bits.either(
        _facing(grid, bombs.go, bits.either(refused, agents.stay)), bits.both(bombs.stay, refused)
    )
    claimed = Claims(*(bits.without(board, union(kicked)) for board in by_bombs)).add(bombs_back)
    for direction, cells in enumerate(kicked):
        claimed = claimed.add(grid.shift(cells, direction))

    flat = bits.compute_once(
        *kicked, agents_back, bombs_back, *claimed, *by_agents.add(agents_back), *rolling_in
    )
    kicked, agents_back, bombs_back = flat[:4], flat[4], flat[5]
    by_bombs, by_agents, rolling_in = Claims(*flat[6:8]), Claims(*flat[8:10]), flat[10:]
    go = tuple(bits.without(movers, agents_back) for movers in agents.go)
    bombs = Wishes(tuple(bits.without(movers, bombs_back) for movers in bombs.go), bombs.stay)
    return _second_round(grid, go, bombs, (by_agents, by_bombs), kicked, rolling_in)


def _second_round(
    grid: Grid,
    agents: Boards,
    bombs: Wishes,
    claims: tuple[Claims, Claims],
    kicked: Boards,
    rolling_in: Boards,
) -> Moves:
    """Nobody enters a cell that the own kind claims twice or the other kind claims at all.

    An agent and the bomb it kicks stand or fall together. `agents` and `bombs.go` are those that still wish
    to move; `bombs.stay` are the bombs at rest, kicked ones included.
    """
    by_agents, by_bombs = claims
    kicks = union(kicked)

    def origin(cells: Board) -> Board:
        """Where the kicked bombs come from that are kicked at `cells`."""
        rolled = union(grid.back(bits.both(cells, came), d) for d, came in enumerate(rolling_in))
        return bits.either(rolled, bits.both(cells, bombs.stay))

    ours = _facing(grid, agents, kicks)  # the agents that kick
    linked = origin(kicks)
    plain_agents = tuple(bits.without(movers, ours) for movers in agents)
    plain_bombs = tuple(bits.without(movers, linked) for movers in bombs.go)

    def again(back: tuple[Board, Board]) -> tuple[Board, Board]:
        at_agents, at_bombs = by_agents.add(back[0]), by_bombs.add(back[1])
        no_agent = bits.either(at_agents.twice, at_bombs.once)
        no_bomb = bits.either(at_bombs.twice, at_agents.once)
        broken = tuple(
            bits.both(cells, bits.either(no_agent, grid.back(no_bomb, d))) for d, cells in enumerate(kicked)
        )
        agents_back = bits.either(
            _facing(grid, plain_agents, no_agent), union(grid.back(b, d) for d, b in enumerate(broken))
        )
        bombs_back = bits.either(_facing(grid, plain_bombs, no_bomb), origin(union(broken)))
        return bits.either(back[0], agents_back), bits.either(back[1], bombs_back)

    back = _fixed_point(again, (grid.empty(), grid.empty()))
    undone = back[0]  # a kick is undone where its agent is back
    kicked = tuple(bits.without(cells, grid.shift(undone, d)) for d, cells in enumerate(kicked))
    go = tuple(bits.without(movers, back[0]) for movers in agents)
    rolling = tuple(bits.without(movers, back[1]) for movers in bombs.go)
    kept = tuple(bits.without(movers, linked) for movers in rolling)
    return Moves(agents=go, rolling=rolling, kicked=kicked, kept=kept)


def _fixed_point(again, start: tuple[Board, Board]) -> tuple[Board, Board]:
    """Repeats until nothing is added."""

    def body(carry: tuple[tuple[Board, Board], jax.Array]) -> tuple[tuple[Board, Board], jax.Array]:
        before, _ = carry
        after = bits.compute_once(*again(before))
        same = bits.equal(before[0], after[0]) & bits.equal(before[1], after[1])
        return (after[0], after[1]), ~same

    return jax.lax.while_loop(lambda carry: carry[1], body, (start, jnp.ones((), bool)))[0]
