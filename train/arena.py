"""Matches between two players: paired colours, varied openings, all games at once.

Every opening is played twice with colours swapped. Of the two games that grow from one opening, the
first-named player is to move in one and the second-named in the other, so at every step each player
searches one half of the games and none of its work is thrown away. A game in which the same player moves
twice in a row waits for one step, which keeps the halves apart in any two-player game.

Dimensions: N openings (pairs of games), T steps, P = 2 seats.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from train.openings import Openings, random_openings, step_batch
from train.players import AnyPlayer, EnginePlayer, Player, choose_actions
from train.ratings import Encounter, pair_counts

IDLE = -1
"""Recorded in place of a move by a game that is over or waits."""


@dataclasses.dataclass(frozen=True, eq=False)
class MatchResult:
    """What happened in a match; row i of every array belongs to opening i.

    Attributes:
        first, second: the players' names.
        points: float `[N, 2]`, what the first player made (1, 1/2, 0) in seat 0 and in seat 1.
        moves: `[N][2]` tuples of actions, the opening's included; `[i][s]`: the first player in seat s.
        distinct_openings: how many of the N openings differ.
        forfeits: games that the first and the second player lost by giving up, crashing or an illegal
            answer; engines do, players of our own may not.
        notes: a sentence on each kind of forfeit, for the reader.
    """

    first: str
    second: str
    points: np.ndarray
    moves: list[tuple[tuple[int, ...], tuple[int, ...]]]
    distinct_openings: int
    forfeits: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()

    @property
    def games(self) -> int:
        """Number of games, `2 N`."""
        return self.points.size

    @property
    def encounter(self) -> Encounter:
        """The counts of pair results, from which scores, intervals and ratings follow."""
        return Encounter(self.first, self.second, pair_counts(self.points))

    def wins_draws_losses(self, seat: int | None = None) -> tuple[int, int, int]:
        """Wins, draws and losses of the first player: in one seat, or in all games."""
        points = self.points if seat is None else self.points[:, seat]
        return tuple(int(np.sum(points == p)) for p in (1.0, 0.5, 0.0))  # pyright: ignore

    @property
    def distinct_games(self) -> int:
        """How many games differ from one another; deterministic players repeat themselves."""
        return len({moves for pair in self.moves for moves in pair})

    @property
    def mean_length(self) -> float:
        """Mean length of a game in plies, the opening's included."""
        return float(np.mean([len(moves) for pair in self.moves for moves in pair]))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        encounter = self.encounter
        low, high = encounter.interval
        elo, elo_low, elo_high = encounter.elo
        wins, draws, losses = self.wins_draws_losses()
        by_seat = [dict(zip(("wins", "draws", "losses"), self.wins_draws_losses(s))) for s in (0, 1)]
        return {
            "first": self.first,
            "second": self.second,
            "games": self.games,
            "wins": wins,
            "draws": draws,
            "losses": losses,
            "moving_first": by_seat[0],
            "moving_second": by_seat[1],
            "score": encounter.score,
            "low": low,
            "high": high,
            "elo": elo,
            "elo_low": elo_low,
            "elo_high": elo_high,
            "pairs": list(encounter.pairs),
            "distinct_games": self.distinct_games,
            "distinct_openings": self.distinct_openings,
            "mean_length": self.mean_length,
            "forfeits": list(self.forfeits),
            "notes": list(self.notes),
        }


class _Side(NamedTuple):
    """One of the two games of every opening.

    Attributes:
        states: `[N]`.
        seats: int32 `[N]`, the first player's seat.
        returns: float32 `[N, 2]`, rewards so far by seat.
        faults: bool `[N, 2]`, whether the first and the second player gave an illegal action; it ends the
            game.
    """

    states: Any
    seats: jax.Array
    returns: jax.Array
    faults: jax.Array


def play_match(
    game: Game,
    a: AnyPlayer,
    b: AnyPlayer,
    *,
    games: int,
    key: jax.Array,
    opening_plies: int = 4,
    openings: Openings | None = None,
    batch: int = 1024,
) -> MatchResult:
    """Plays a match between `a` and `b`.

    Two device players meet inside one compiled program, compiled once per game, pair of `act` functions
    and batch shape; parameters are its arguments. If either is a host player, the host leads.

    Args:
        game: a two-player game.
        a: the first-named player: scores are its.
        b: the second-named player.
        games: number of games, even.
        key: consumed.
        opening_plies: random plies of each opening; see `random_openings`.
        openings: positions to use instead, `games / 2` of them.
        batch: most games played at once, which bounds memory.

    Returns:
        The result, by opening and seat.

    Raises:
        ValueError: if `games` is odd or not positive, the game is not for two, there are not `games / 2`
            openings, or a player of ours chose an illegal action (an engine that does loses that game).
    """
    if games < 2 or games % 2:
        raise ValueError(
            f"A match plays every opening in both colours, so games must be even and at least 2, got {games}."
        )
    if game.num_players != 2:
        raise ValueError(f"A match is between two players, and {game.name} is a game for {game.num_players}.")
    opening_key, play_key = jax.random.split(key)
    pairs = games // 2
    if openings is None:
        openings = random_openings(game, opening_key, count=pairs, plies=opening_plies)
    elif len(openings.moves) != pairs:
        raise ValueError(f"{games} games need {pairs} openings, got {len(openings.moves)}.")

    # Equal chunks, the last one filled up by repeating openings, so that there is one compiled shape.
    chunks = -(-pairs // max(batch // 2, 1))
    size = -(-pairs // chunks)
    rows = np.arange(chunks * size) % pairs
    played = []
    before = [_incidents(player) for player in (a, b)]
    for number in range(chunks):
        chunk = rows[number * size : (number + 1) * size]
        states, moves, returns = jax.tree.map(lambda x, rows=chunk: x[rows], openings[:3])
        part = Openings(states, moves, returns, size)
        played.append(_play_chunk(game, a, b, part, jax.random.fold_in(play_key, number)))
    ended = [
        jax.tree.map(lambda *x: np.concatenate(x)[:pairs], *side) for side in zip(*(e for e, _ in played))
    ]
    _check(game, a, b, ended)
    moves = [pair for _, chunk in played for pair in chunk][:pairs]
    notes = [_note(player, since) for player, since in zip((a, b), before)]
    return _result(a, b, ended, moves, openings, tuple(note for note in notes if note))


def _incidents(player: AnyPlayer) -> tuple[int, int]:
    """How often an engine has given up and failed so far; zeros for players who do neither."""
    if not isinstance(player, EnginePlayer):
        return 0, 0
    return player.incidents.resigned, len(player.incidents.faults)


def _note(player: AnyPlayer, since: tuple[int, int]) -> str:
    """What a reader should know of an engine's conduct; empty if it just played."""
    if not isinstance(player, EnginePlayer):
        return ""
    resigned, faults = player.incidents.resigned - since[0], player.incidents.faults[since[1] :]
    said = [f"gave up {resigned} games"] if resigned else []
    if faults:
        said.append(f"lost {len(faults)} games by a fault (the first: {faults[0]})")
    return f"{player.name} {' and '.join(said)}" if said else ""


class _Ended(NamedTuple):
    """How the games of one side ended: as in `_Side`, and whether they are over, bool `[N]`."""

    seats: Any
    returns: Any
    faults: Any
    over: Any


def _play_chunk(game: Game, a: AnyPlayer, b: AnyPlayer, openings: Openings, key: jax.Array):
    """Plays both games of `[N]` openings.

    Returns how the two sides ended, the one in which `a` moved first in front, and per opening the two
    games' moves after the opening in the same order.
    """
    if isinstance(a, Player) and isinstance(b, Player):
        sides, record, steps = _play_on_device(
            key, openings.states, openings.returns, a.params, b.params, game=game, act_a=a.act, act_b=b.act
        )
    else:
        sides, record, steps = _play_on_host(key, openings, game, a, b)
    steps = int(steps)
    ended = [jax.device_get(_end(game, side)) for side in sides]
    if steps % 2:  # after an odd number of steps the sides have changed places
        ended.reverse()
    by_a, by_b = (np.asarray(moves)[:steps] for moves in record)
    even = (np.arange(steps) % 2 == 0)[:, None]
    tracks = np.where(even, by_a, by_b).T, np.where(even, by_b, by_a).T
    moves = [tuple(tuple(int(m) for m in track if m != IDLE) for track in pair) for pair in zip(*tracks)]
    return ended, moves


@functools.partial(jax.jit, static_argnames="game")
def _end(game: Game, side: _Side) -> _Ended:
    return _Ended(side.seats, side.returns, side.faults, jax.vmap(game.is_over)(side.states))


def _result(
    a: AnyPlayer, b: AnyPlayer, ended: list[_Ended], moves, openings: Openings, notes: tuple[str, ...]
) -> MatchResult:
    """Sorts what the two sides brought by the first player's seat. A forfeit counts as a loss."""
    pairs = len(moves)
    points = np.zeros((pairs, 2))
    by_seat: list[list[tuple[int, ...]]] = [[(), ()] for _ in range(pairs)]
    for number, side in enumerate(ended):
        for i, seat in enumerate(side.seats):
            margin = side.returns[i, seat] - side.returns[i, 1 - seat]
            forfeits = side.faults[i]
            points[i, seat] = float(forfeits[1]) if forfeits.any() else 0.5 * (1 + np.sign(margin))
            by_seat[i][seat] = (*(int(m) for m in openings.moves[i]), *moves[i][number])
    first, second = (sum(int(side.faults[:, number].sum()) for side in ended) for number in (0, 1))
    return MatchResult(
        a.name,
        b.name,
        points,
        [(first, second) for first, second in by_seat],
        openings.distinct,
        forfeits=(first, second),
        notes=notes,
    )


def _start(game: Game, states: Any, returns: jax.Array) -> tuple[_Side, _Side]:
    """The two games of each opening: the first player moves next in one, the second in the other."""
    movers = jax.vmap(game.current_player)(states).astype(jnp.int32)
    faults = jnp.zeros((movers.shape[0], 2), bool)
    return _Side(states, movers, returns, faults), _Side(states, 1 - movers, returns, faults)


def _running(game: Game, side: _Side) -> jax.Array:
    """Bool `[N]`: games not over."""
    return ~jax.vmap(game.is_over)(side.states) & ~side.faults.any(axis=1)


def _to_move(game: Game, side: _Side, player: int) -> jax.Array:
    """Bool `[N]`: games that wait for the move of `player` (0 the first-named, 1 the second)."""
    seats = side.seats if player == 0 else 1 - side.seats
    return _running(game, side) & (jax.vmap(game.current_player)(side.states) == seats)


def _advance(game: Game, key: jax.Array, side: _Side, player: int, actions: jax.Array):
    """Plays `actions` `[N]` where `player` is to move; returns the side and the moves `[N]` made."""
    active = _to_move(game, side, player)
    legal = jax.vmap(game.legal_actions)(side.states)
    inside = (actions >= 0) & (actions < game.num_actions)
    safe = jnp.where(inside, actions, 0).astype(jnp.int32)
    allowed = inside & jnp.take_along_axis(legal, safe[:, None], axis=1)[:, 0]
    play = active & allowed
    after = step_batch(game, key, side.states, safe)
    rewards = jax.vmap(game.rewards)(after)

    def choose(new, old):
        return jnp.where(play.reshape(play.shape + (1,) * (new.ndim - 1)), new, old)

    moved = _Side(
        states=jax.tree.map(choose, after, side.states),
        seats=side.seats,
        returns=side.returns + jnp.where(play[:, None], rewards, 0.0),
        faults=side.faults.at[:, player].set(side.faults[:, player] | (active & ~allowed)),
    )
    return moved, jnp.where(play, safe, IDLE)


@functools.partial(jax.jit, static_argnames=("game", "act_a", "act_b"))
def _play_on_device(key, states, returns, params_a, params_b, *, game: Game, act_a, act_b):
    """Both games of `[N]` openings to their ends.

    Returns the two sides, the record (two int32 `[T, N]`: the moves of the first and the second player at
    each step) and the number of steps. The sides change places after each step, so that the first player
    always acts on the one in front; the record does not, because swapping it would copy it.
    """
    limit = 2 * game.max_steps
    count = returns.shape[0]

    def unfinished(carry):
        step, sides, _ = carry
        return (step < limit) & (_running(game, sides[0]).any() | _running(game, sides[1]).any())

    def play(carry):
        step, (here, there), (record_a, record_b) = carry
        keys = jax.random.split(jax.random.fold_in(key, step), 4)
        here, moves_a = _advance(game, keys[0], here, 0, act_a(keys[1], here.states, params_a))
        there, moves_b = _advance(game, keys[2], there, 1, act_b(keys[3], there.states, params_b))
        return step + 1, (there, here), (record_a.at[step].set(moves_a), record_b.at[step].set(moves_b))

    empty = jnp.full((limit, count), IDLE, jnp.int32)
    carry = jnp.int32(0), _start(game, states, returns), (empty, empty)
    steps, sides, record = jax.lax.while_loop(unfinished, play, carry)
    return sides, record, steps


_start_compiled = jax.jit(_start, static_argnames="game")
_to_move_compiled = jax.jit(_to_move, static_argnames=("game", "player"))


@functools.partial(jax.jit, static_argnames=("game", "player"))
def _advance_on_host(key, side, actions, *, game: Game, player: int):
    """`_advance`, with whether any game goes on."""
    side, moves = _advance(game, key, side, player, actions)
    return side, moves, _running(game, side).any()


def _play_on_host(key, openings: Openings, game: Game, a: AnyPlayer, b: AnyPlayer):
    """The loop of `_play_on_device` led by the host, for players who are not JAX functions."""
    sides = _start_compiled(game, openings.states, openings.returns)
    lines = [[[int(move) for move in line] for line in openings.moves] for _ in sides]
    record: tuple[list, list] = ([], [])
    for step in range(2 * game.max_steps):
        keys = jax.random.split(jax.random.fold_in(key, step), 4)
        moved, going = [], False
        for number, (player, side) in enumerate(zip((a, b), sides)):
            active = np.asarray(_to_move_compiled(game, side, number))
            actions = choose_actions(
                player, keys[2 * number + 1], side.states, where=active, game=game, moves=lines[number]
            )
            side, moves, running = _advance_on_host(keys[2 * number], side, actions, game=game, player=number)
            moved.append(side)
            record[number].append(np.asarray(moves))
            for line, move in zip(lines[number], record[number][-1]):
                if move != IDLE:
                    line.append(int(move))
            going = going or bool(running)
        sides = (moved[1], moved[0])
        lines.reverse()
        if not going:
            break
    return sides, tuple(np.stack(moves) for moves in record), len(record[0])


def _check(game: Game, a: AnyPlayer, b: AnyPlayer, ended: list[_Ended]) -> None:
    """Raises ValueError for what must not happen: an illegal action, a game past its `max_steps`."""
    for number, player in enumerate((a, b)):
        if isinstance(player, EnginePlayer):  # an engine's faults are its losses, and are reported
            continue
        if wrong := sum(int(side.faults[:, number].sum()) for side in ended):
            raise ValueError(
                f"{player.name} chose an illegal action in {wrong} of {2 * len(ended[0].over)} games of "
                f"{game.name}; a player returns a legal action wherever it is to move."
            )
    unfinished = sum(int((~side.over & ~side.faults.any(axis=1)).sum()) for side in ended)
    if unfinished:
        raise ValueError(
            f"{unfinished} games of {game.name} went on past its max_steps = {game.max_steps}; correct it."
        )
