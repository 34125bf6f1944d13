"""One ply of TD-FARL in many games: the move, the lesson, the final adaptation, the next game.

Dimensions: G games, L lists of positions in a game, H positions of a list, N look-ups, A actions, P players,
T plies of an iteration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax.game import Game
from jaxsearch.types import Search
from train import td_update
from train.networks.ntuple import NTupleNetwork
from train.selfplay import select
from train.td_config import TDSettings
from train.td_games import action_values, make_starts

__all__ = ["Draws", "Games", "new_games", "play", "ply"]


class Games(NamedTuple):
    """The games under way.

    With the target "own" each player has a list of the positions that he made, L = P; with "best" there is
    one list of all, L = 1. Entry 0 is the newest, whose value is to be moved next.

    Attributes:
        states: `[G]`; one that is over is in its final adaptation.
        rows: int32 `[L, H, N, G]`, what the positions of a list look up.
        slopes: float32 `[L, H, G]`, the slope of a position when its value was moved; 0: no such position.
        owners: int32 `[L, H, G]`, who made it.
        filled: bool `[L, G]`, whether there is an entry 0.
        earned: float32 `[P, G]`, rewards since the player's last lesson.
        makers: int32 `[G]`, who made `states`.
        plies: int32 `[G]`, since the start.
        final: int32 `[G]`, the number of the step of final adaptation; 0 while the game goes on.
    """

    states: Any
    rows: jax.Array
    slopes: jax.Array
    owners: jax.Array
    filled: jax.Array
    earned: jax.Array
    makers: jax.Array
    plies: jax.Array
    final: jax.Array


class Draws(NamedTuple):
    """The random numbers of one ply: `noise` `[G, A]` in [0, 1) and `explore` bool `[G]`."""

    noise: jax.Array
    explore: jax.Array


def _previous_players(game: Game, states: Any) -> jax.Array:
    """Int32 `[G]`: who would have moved before; 0 in a game for one."""
    movers = jax.vmap(game.current_player)(states)
    return jax.lax.rem(movers + np.int32(game.num_players - 1), np.int32(game.num_players))


def _lists(settings: TDSettings, game: Game) -> int:
    return game.num_players if settings.target == "own" else 1


def new_games(network: NTupleNetwork, settings: TDSettings, states: Any) -> Games:
    """Games that start at `states` `[G]`; the player who would have moved before has made them."""
    game = network.game
    makers = _previous_players(game, states)
    count = makers.shape[0]
    lists, reach = _lists(settings, game), td_update.horizon(settings)
    rows = jnp.broadcast_to(network.rows(states, makers), (lists, reach, network.num_lookups, count))
    here = makers if settings.target == "own" else jnp.zeros_like(makers)
    return Games(
        states=states,
        rows=rows,
        slopes=jnp.zeros((lists, reach, count)),
        owners=jnp.broadcast_to(makers, (lists, reach, count)),
        filled=here == jnp.arange(lists, dtype=jnp.int32)[:, None],
        earned=jnp.zeros((game.num_players, count)),
        makers=makers,
        plies=jnp.zeros(count, jnp.int32),
        final=jnp.zeros(count, jnp.int32),
    )


class Move(NamedTuple):
    """What was played in each game; nothing where it is over.

    Attributes:
        after: `[G]`, the position made.
        best: float32 `[G]`, the greatest action value; of a search, what it found its own choice worth.
        value: float32 `[G]`, the value of what was played without its reward: 0 where that ends the game.
        rewards: float32 `[P, G]`, that it brought.
        over: bool `[G]`, whether it ended the game.
        greedy: bool `[G]`, whether it was a best one, or what the search chose.
    """

    after: Any
    best: jax.Array
    value: jax.Array
    rewards: jax.Array
    over: jax.Array
    greedy: jax.Array


def _move(
    network: NTupleNetwork,
    settings: TDSettings,
    table: jax.Array,
    states: Any,
    movers: jax.Array,
    draws: Draws,
    search: Search | None,
) -> Move:
    """Plays a best action, ties broken at random, or what the search chooses; or any legal one."""
    game = network.game
    legal = jax.vmap(game.legal_actions)(states)
    values = action_values(game, network, table, states, movers, legal, settings.gamma)
    if search is None:
        best = jnp.max(values, axis=1)
        wanted = values == best[:, None]
    else:
        # The key is for noise and draws, of which this search has none.
        found = search(jax.random.key(0), states, {"weights": table})
        best = jnp.take_along_axis(found.qvalues, found.action[:, None], axis=1)[:, 0]
        wanted = found.action[:, None] == jnp.arange(game.num_actions, dtype=jnp.int32)
    allowed = legal & (draws.explore[:, None] | wanted)
    action = jnp.argmax(jnp.where(allowed, draws.noise, -1.0), axis=1).astype(jnp.int32)
    after = jax.vmap(game.step)(states, action)
    rewards = jax.vmap(game.rewards)(after)
    index = jnp.arange(action.shape[0])
    played = values[index, action]
    over = jax.vmap(game.is_over)(after)
    value = jnp.where(over, 0.0, played - rewards[index, movers])
    return Move(after, best, value, rewards.T, over, wanted[index, action])


def _lesson(settings: TDSettings, games: Games, movers: jax.Array, move: Move) -> tuple[jax.Array, ...]:
    """Whose position is to change, towards what, and whether: int32, float32 and bool `[G]`.

    The first is an index of lists.
    """
    playing = games.final == 0
    if settings.target == "best":
        owners = games.owners[0, 0]
        target = jnp.where(owners == movers, move.best, -move.best)
        return jnp.zeros_like(movers), target, playing & games.filled[0]
    players = len(games.earned)
    # Final adaptation: first the other players, one after the other, and at last the maker himself.
    student = jnp.where(playing, movers, jax.lax.rem(games.makers + games.final, np.int32(players)))
    earned = _pick(games.earned + jnp.where(playing, move.rewards, 0.0), student)
    target = earned + jnp.where(playing, move.value, 0.0)
    target = jnp.where(games.final == players, 0.0, target)
    learn = _pick(games.filled, student)
    if not settings.learn_from_random_moves:
        learn = learn & ~(playing & ~move.greedy)
    return student, target, learn


def _pick(per_list: jax.Array, index: jax.Array) -> jax.Array:
    """`per_list[index[g], ..., g]` for `[L, ..., G]`."""
    chosen = per_list[0]
    for number in range(1, per_list.shape[0]):
        chosen = jnp.where(index == number, per_list[number], chosen)
    return chosen


def ply(
    network: NTupleNetwork,
    settings: TDSettings,
    table: jax.Array,
    games: Games,
    starts: Any,
    draws: Draws,
    alpha: jax.Array,
    search: Search | None = None,
) -> tuple[jax.Array, Games, dict[str, jax.Array]]:
    """One ply, or one step of final adaptation, of every game.

    Args:
        network: the network.
        settings: `[td]`.
        table: `[R, 3]`.
        games: G of them.
        starts: `[G]` positions where those that finish start anew.
        draws: random numbers.
        alpha: float32 `[]`, the step size.
        search: chooses the moves; None plays the best successor.

    Returns:
        The table, the games, and sums over games: how many begin anew (`games`) and have `ended`, the
        `lessons` and their `squared_error`, `first_wins` and `draws`.
    """
    game = network.game
    movers = jax.vmap(game.current_player)(games.states)
    playing = games.final == 0
    move = _move(network, settings, table, games.states, movers, draws, search)
    student, target, learn = _lesson(settings, games, movers, move)

    rows, slopes = _pick(games.rows, student), _pick(games.slopes, student)
    owners = _pick(games.owners, student)
    sign = jnp.where(owners == owners[0], 1.0, -1.0)
    table, error, slope = td_update.update(
        network, settings, table, rows, sign * slopes, target, learn, alpha
    )

    # Where the game begins anew, and where it goes on.
    over = playing & move.over
    last = _last_step(settings, game)
    cut = playing & ~over & _is_cut(settings, games.plies + 1)
    anew = cut | (games.final == last) & ~playing | (over if last == 0 else False)
    after = select(playing, move.after, games.states)
    makers = jnp.where(playing, movers, games.makers)
    fresh = new_games(network, settings, select(anew, starts, after))
    learnt = _after_lesson(settings, games, student, learn, slope, move)
    pushed = playing & (student == jnp.arange(len(games.rows), dtype=jnp.int32)[:, None])
    if settings.target == "best":
        pushed = playing[None]
    # `fresh` looks up the new positions under the player who would have moved before, who in games of
    # alternate moves is the one who has.
    continued = Games(
        states=fresh.states,
        rows=learnt.rows.at[:, 0].set(jnp.where(pushed[:, None], fresh.rows[:, 0], learnt.rows[:, 0])),
        slopes=learnt.slopes,
        owners=learnt.owners.at[:, 0].set(jnp.where(pushed, makers, learnt.owners[:, 0])),
        filled=games.filled | pushed,
        earned=learnt.earned,
        makers=makers,
        plies=games.plies + playing,
        final=jnp.where(playing, over.astype(jnp.int32), games.final + 1),
    )
    games = jax.tree.map(
        lambda new, old: jnp.where(anew, new, old), fresh._replace(states=()), continued._replace(states=())
    )._replace(states=fresh.states)
    metrics = {
        "games": jnp.sum(anew),
        "lessons": jnp.sum(learn),
        "squared_error": jnp.sum(error * error),
        "first_wins": jnp.sum(over & (move.rewards[0] > 0)),
        "draws": jnp.sum(over & jnp.all(move.rewards == 0, axis=0)),
        "ended": jnp.sum(over | cut),
    }
    return table, games, metrics


def _last_step(settings: TDSettings, game: Game) -> int:
    """The number of steps of final adaptation."""
    return 0 if settings.target == "best" else game.num_players - 1 + settings.terminal_to_zero


def _is_cut(settings: TDSettings, plies: jax.Array) -> jax.Array:
    return jnp.zeros_like(plies, bool) if settings.max_plies is None else plies >= settings.max_plies


def _after_lesson(
    settings: TDSettings, games: Games, student: jax.Array, learn: jax.Array, slope: jax.Array, move: Move
) -> Games:
    """The lists with the positions that learnt moved one place back, to make room for a new one."""
    lists = jnp.arange(len(games.rows), dtype=jnp.int32)[:, None]
    shift = learn & (student == lists)  # [L, G]
    moved = lambda x: jnp.concatenate([x[:, :1], x[:, :-1]], axis=1)  # noqa: E731
    slopes = games.slopes.at[:, 0].set(jnp.where(shift, slope, games.slopes[:, 0]))
    slopes = jnp.where(shift[:, None], moved(slopes), slopes)
    if settings.cut_traces_on_random:
        slopes = jnp.where(move.greedy | (games.final > 0), slopes, 0.0)
    players = jnp.arange(len(games.earned), dtype=jnp.int32)[:, None]
    earned = games.earned + jnp.where(games.final == 0, move.rewards, 0.0)
    return games._replace(
        rows=jnp.where(shift[:, None, None], moved(games.rows), games.rows),
        slopes=slopes,
        owners=jnp.where(shift[:, None], moved(games.owners), games.owners),
        earned=jnp.where(learn & (student == players), 0.0, earned),
    )


def play(
    network: NTupleNetwork,
    settings: TDSettings,
    table: jax.Array,
    games: Games,
    key: jax.Array,
    epsilon: jax.Array,
    alpha: jax.Array,
    opening_share: jax.Array | float,
    search: Search | None = None,
) -> tuple[jax.Array, Games, dict[str, jax.Array]]:
    """`settings.plies_per_iteration` plies of every game; sums of their metrics. `search` as in `ply`."""
    game, count, plies = network.game, settings.games, settings.plies_per_iteration
    start_key, noise_key, explore_key = jax.random.split(key, 3)
    # Drawn before the loop. A game has starts of its own, one after the other; were they not enough, it would
    # begin with the first again.
    supply = count * max(1, plies // 8)
    starts = make_starts(game, start_key, supply, share=opening_share, plies=settings.opening_plies)
    draws = Draws(
        jax.random.uniform(noise_key, (plies, count, game.num_actions)),
        jax.random.uniform(explore_key, (plies, count)) < epsilon,
    )

    def step(carry: tuple[Any, ...], draws: Draws) -> tuple[tuple[Any, ...], None]:
        table, games, taken, sums = carry
        place = jax.lax.rem(taken * count + jnp.arange(count, dtype=jnp.int32), np.int32(supply))
        offered = jax.tree.map(lambda x: x[place], starts)
        table, games, metrics = ply(network, settings, table, games, offered, draws, alpha, search)
        sums = jax.tree.map(lambda a, b: a + b.astype(jnp.float32), sums, metrics)
        return (table, games, taken + (games.plies == 0), sums), None

    names = ("games", "lessons", "squared_error", "first_wins", "draws", "ended")
    sums = {name: jnp.zeros(()) for name in names}
    (table, games, _, sums), _ = jax.lax.scan(step, (table, games, jnp.zeros(count, jnp.int32), sums), draws)
    return table, games, sums
