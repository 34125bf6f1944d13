"""Players: whoever chooses moves for a batch of states.

A device player is a JAX function and meets others inside one compiled program. A host player is a Python
function of one state and is looped over. An engine player is a program that must be told a game's moves.
`train.player_specs.make_player` makes them from text such as `uct:1000`.

Dimensions: B states, A actions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np

import jaxsearch
from games_jax.game import Game
from jaxsearch.types import Search, SearchOutput
from train.networks import Network, evaluator


class Act(Protocol):
    """Chooses actions; hashable, since compiled programs are cached by it."""

    def __call__(self, key: jax.Array, states: Any, params: Any = None) -> jax.Array:
        """Int32 `[B]`: a legal action for each of `[B]` states not over; anything for the others."""
        ...


class Think(Protocol):
    """Chooses actions and says why."""

    def __call__(self, key: jax.Array, states: Any, params: Any = None) -> tuple[jax.Array, SearchOutput]:
        """The actions of `Act`, and the search that they were chosen from."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Player:
    """A device player.

    Attributes:
        name: how results call it.
        act: a jittable function `(key, states [B], params) -> actions int32 [B]`. Two players that share
            it share compiled matches, whatever their parameters.
        params: given to `act` at every call: a network's variables, or None.
        think: `act` with the search behind it, for those who watch; None for players that do not search.
    """

    name: str
    act: Act
    params: Any = None
    think: Think | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class HostPlayer:
    """A player outside JAX.

    Attributes:
        name: how results call it.
        choose: `(state, rng) -> action` for one state (NumPy leaves); all its randomness comes from `rng`.
    """

    name: str
    choose: Callable[[Any, np.random.Generator], int]


RESIGNED, FAULT = -2, -3
"""What an engine player may answer in place of an action: it gives up; it crashed or answered nonsense."""


@dataclasses.dataclass
class Incidents:
    """What an engine did besides moving.

    Attributes:
        resigned: games given up.
        faults: a sentence for each crash, silence and illegal answer.
    """

    resigned: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, eq=False)
class EnginePlayer:
    """A program that is told whole games, and may fail.

    Attributes:
        name: how results call it.
        choose: `(worker, moves, legal) -> action`, where `moves` are the actions from the start of the game
            and `legal` is bool `[A]`; or RESIGNED or FAULT, either of which loses the game.
        workers: how many copies of the program may be asked at once; `choose` is never called for one worker
            by two threads.
        incidents: what went otherwise than by legal moves, since the player was made.
    """

    name: str
    choose: Callable[[int, Sequence[int], np.ndarray], int]
    workers: int = 1
    incidents: Incidents = dataclasses.field(default_factory=Incidents)


AnyPlayer = Player | HostPlayer | EnginePlayer

SearchName = Literal["puct", "gumbel", "policy_bonus"]

_SEARCHES: dict[str, Callable[..., Search]] = {
    "puct": jaxsearch.puct,
    "gumbel": jaxsearch.gumbel,
    "policy_bonus": jaxsearch.policy_bonus,
}


@functools.partial(jax.jit, static_argnames="function")
def _compiled(key: jax.Array, states: Any, params: Any, *, function: Act | Think) -> Any:
    return function(key, states, params)


def choose_actions(
    player: AnyPlayer,
    key: jax.Array,
    states: Any,
    where: np.ndarray | None = None,
    *,
    game: Game | None = None,
    moves: Sequence[Sequence[int]] | None = None,
) -> jax.Array:
    """Actions int32 `[B]` of a player of any kind for `[B]` states.

    Compiled once per `act` and batch size. Where `where` (bool `[B]`; all if None) is false the action is
    not used: a host player is not asked, a device player answers whatever it likes.

    Args:
        player: whom to ask.
        key: consumed.
        states: where `where` holds, not over.
        where: which answers are needed.
        game, moves: what is played and the `[B]` lines of actions from its start that led to `states`; an
            engine player cannot do without.

    Raises:
        ValueError: an engine player is asked about positions whose moves are not known.
    """
    if isinstance(player, Player):
        return _compiled(key, states, player.params, function=player.act)
    count = len(jax.tree.leaves(states)[0])
    rows = np.arange(count) if where is None else np.flatnonzero(where)
    if isinstance(player, EnginePlayer):
        if game is None or moves is None:
            raise ValueError(
                f"{player.name} plays whole games only: it has to be told the moves that led to a position, "
                "and here they are not known."
            )
        legal = np.asarray(jax.vmap(game.legal_actions)(states))
        return jnp.asarray(_ask_engines(player, rows, moves, legal))
    host_states = jax.tree.map(np.asarray, states)
    actions = np.zeros(count, np.int32)
    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    for i in rows:
        actions[i] = player.choose(jax.tree.map(lambda x, i=i: x[i], host_states), rng)
    return jnp.asarray(actions)


def _ask_engines(
    player: EnginePlayer, rows: np.ndarray, moves: Sequence[Sequence[int]], legal: np.ndarray
) -> np.ndarray:
    """Actions int32 `[B]`; only `rows` are asked for, row i of worker `i % workers`, workers side by side."""
    actions = np.zeros(len(legal), np.int32)

    def serve(worker: int) -> None:
        for i in rows[rows % player.workers == worker]:
            # A forced move needs no engine; some Othello engines do not even answer with a pass.
            forced = legal[i].sum() == 1
            actions[i] = legal[i].argmax() if forced else player.choose(worker, moves[i], legal[i])

    with ThreadPoolExecutor(player.workers) as pool:
        list(pool.map(serve, range(player.workers)))
    return actions


def consult(player: Player, key: jax.Array, states: Any) -> tuple[jax.Array, SearchOutput | None]:
    """Actions int32 `[B]` of a device player and the search behind them, if it searches."""
    if player.think is None:
        return choose_actions(player, key, states), None
    return _compiled(key, states, player.params, function=player.think)


@functools.lru_cache
def random_player(game: Game) -> Player:
    """Plays uniformly random legal moves."""

    def act(key: jax.Array, states: Any, params: Any = None) -> jax.Array:
        del params
        legal = jax.vmap(game.legal_actions)(states)
        noise = jax.random.uniform(key, legal.shape)
        return jnp.argmax(jnp.where(legal, noise, -1.0), axis=1).astype(jnp.int32)

    return Player("random", act)


@functools.lru_cache
def uct_player(game: Game, *, simulations: int, c: float = 1.0, playouts: int = 1) -> Player:
    """Plays the most visited move of UCT with random playouts.

    Args:
        game: the game.
        simulations: simulations per move.
        c: UCT's exploration constant, see `jaxsearch.uct`.
        playouts: random playouts averaged per new leaf.
    """
    search = jaxsearch.uct(game, simulations=simulations, c=c, playouts=playouts)
    act, think = _searching(game, search, temperature=0.0, by_visits=True)
    return Player(f"uct:{simulations}", act, None, think)


@functools.lru_cache
def rave_player(game: Game, *, simulations: int, c: float = 0.25, c_rave: float = 3000.0) -> Player:
    """Plays the most visited move of UCT with random playouts and RAVE, see `jaxsearch.rave`."""
    search = jaxsearch.rave(game, simulations=simulations, c=c, c_rave=c_rave)
    act, think = _searching(game, search, temperature=0.0, by_visits=True)
    return Player(f"rave:{simulations}", act, None, think)


def network_player(
    name: str,
    game: Game,
    network: Network,
    params: Any,
    *,
    simulations: int = 64,
    search: SearchName = "puct",
    temperature: float = 0.0,
    constants: tuple[tuple[str, Any], ...] = (),
) -> Player:
    """Plays by a network, searching or not; without exploration noise.

    Players made with the same arguments but for `name` and `params` share their functions, and so their
    compiled matches.

    Args:
        name: how results call it.
        game: the game.
        network: made for that game.
        params: the network's variables.
        simulations: per move; 0 plays by the network's policy alone.
        search: which search; not used with 0 simulations.
        temperature: 0 plays the search's best move (or the policy's); otherwise moves are drawn from the
            search's weights (or the policy) to the power of 1 / temperature.
        constants: further keyword arguments of the search, as sorted pairs.
    """
    act, think = _network_functions(game, network, simulations, search, temperature, constants)
    return Player(name, act, params, think)


@functools.lru_cache
def _network_functions(
    game: Game,
    network: Network,
    simulations: int,
    search: SearchName,
    temperature: float,
    constants: tuple[tuple[str, Any], ...],
) -> tuple[Act, Think | None]:
    """`act` and `think` of a network player; the same objects for the same arguments."""
    evaluate = evaluator(network, game)
    if simulations > 0:
        searcher = _SEARCHES[search](game, evaluate, simulations=simulations, **dict(constants))
        by_visits = search != "gumbel" and not dict(constants).get("solver")
        return _searching(game, searcher, temperature, by_visits=by_visits)

    def act(key: jax.Array, states: Any, params: Any = None) -> jax.Array:
        logits, _ = evaluate(params, key, states)
        logits = jnp.where(jax.vmap(game.legal_actions)(states), logits, -jnp.inf)
        if temperature > 0:
            return jax.random.categorical(key, logits / temperature).astype(jnp.int32)
        return jnp.argmax(logits, axis=1).astype(jnp.int32)

    return act, None


def _searching(game: Game, search: Search, temperature: float, *, by_visits: bool) -> tuple[Act, Think]:
    """`act` and `think` of a player that searches.

    `by_visits`: at temperature 0 play the most visited move, ties broken at random. Otherwise the search's
    own choice stands: Gumbel search visits its finalists equally often and decides between them by value, and
    a solver plays what it has proven.
    """

    def think(key: jax.Array, states: Any, params: Any = None) -> tuple[jax.Array, SearchOutput]:
        search_key, choice_key = jax.random.split(key)
        output = search(search_key, states, params)
        legal = jax.vmap(game.legal_actions)(states)
        if temperature > 0:
            logits = jnp.where(legal, jnp.log(output.weights) / temperature, -jnp.inf)
            return jax.random.categorical(choice_key, logits).astype(jnp.int32), output
        if by_visits:
            return _most_visited(choice_key, output.visits, legal), output
        return output.action, output

    def act(key: jax.Array, states: Any, params: Any = None) -> jax.Array:
        return think(key, states, params)[0]

    return act, think


def _most_visited(key: jax.Array, visits: jax.Array, legal: jax.Array) -> jax.Array:
    """Int32 `[B]`: the legal action with the most visits `[B, A]`, ties broken at random."""
    ranks = visits.astype(jnp.float32) + 0.5 * jax.random.uniform(key, visits.shape)
    return jnp.argmax(jnp.where(legal, ranks, -1.0), axis=1).astype(jnp.int32)
