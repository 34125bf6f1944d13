"""One suite that every game passes: `check(game)`.

It plays random games, whole batches at once, and holds every state they pass through against the rules of the
contract in `games_jax.game`. A failure is an AssertionError whose sentence names the game, the rule and what
broke it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import registry
from games_jax.game import Game, State, SymmetricGame, symmetries_of

_SAMPLES = 6  # states that the slow comparisons, one state at a time, look at


@dataclasses.dataclass(frozen=True)
class Record:
    """Random games: T + 1 states of each of B games, and the T actions between them, in numpy.

    After the end of a game its actions go on at random, so that a finished game can be seen to stand still.

    Attributes:
        states: the game's states with leaves `[T + 1, B, ...]`.
        actions: int32 `[T, B]`.
        legal: bool `[T + 1, B, A]`.
        over: bool `[T + 1, B]`.
        player: int32 `[T + 1, B]`.
        rewards: float32 `[T + 1, B, P]`.
    """

    states: State
    actions: np.ndarray
    legal: np.ndarray
    over: np.ndarray
    player: np.ndarray
    rewards: np.ndarray


def check(
    game: Game,
    *,
    games: int = 32,
    seed: int = 0,
    exclusive_planes: bool = True,
    rewards_at_end_only: bool = True,
    zero_sum: bool = True,
) -> None:
    """Holds a game against the contract.

    Args:
        game: the game.
        games: how many random games to play.
        seed: of the random play.
        exclusive_planes: whether observations are bool planes of which a cell has at most one, with own and
            other stones as planes 0 and 1. Switch it off for observations of another kind.
        rewards_at_end_only: whether rewards are zero until the game is over.
        zero_sum: whether the rewards of each step add up to zero.

    Raises:
        AssertionError: a rule is broken; the sentence says which.
    """
    _facts(game)
    _registry(game)
    _fixed_structure(game)
    _one_trace(game)
    _strict_leaves(game)
    _outputs(game)
    record = play_random(game, games=games, seed=seed)
    _endings(game, record)
    _rewards(game, record, at_end_only=rewards_at_end_only, zero_sum=zero_sum)
    _finished_stand_still(game, record)
    _vmap_and_jit(game, record)
    if exclusive_planes:
        _planes(game, record)
    _notation(game, record)
    _pictures(game, record)
    _symmetries(game, record)


def play_random(game: Game, *, games: int, seed: int) -> Record:
    """Plays `games` random games for `max_steps` plies and two more, and records every state."""
    start_key, play_key = jax.random.split(jax.random.key(seed))
    start = jax.vmap(game.init)(jax.random.split(start_key, games))
    plies = game.max_steps + 2
    noise = np.random.default_rng(seed).random((plies, games, game.num_actions), np.float32)

    def ply(states: State, draws: tuple[jax.Array, jax.Array]) -> tuple[State, tuple[State, jax.Array]]:
        noise, keys = draws
        legal = jax.vmap(game.legal_actions)(states)
        anything = ~legal.any(axis=-1, keepdims=True)
        actions = jnp.argmax(jnp.where(legal | anything, noise, -1.0), axis=-1).astype(jnp.int32)
        after = jax.vmap(lambda s, a, k: _step(game, s, a, k))(states, actions, keys)
        return after, (after, actions)

    def run(
        start: State, noise: jax.Array, keys: jax.Array
    ) -> tuple[State, jax.Array, tuple[jax.Array, ...]]:
        _, (states, actions) = jax.lax.scan(ply, start, (noise, keys))
        states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
        facts = (game.legal_actions, game.is_over, game.current_player, game.rewards)
        return states, actions, tuple(jax.vmap(jax.vmap(fact))(states) for fact in facts)

    keys = jax.random.split(play_key, (plies, games))
    states, actions, facts = jax.device_get(jax.jit(run)(start, noise, keys))
    return Record(states, actions, *facts)


def _step(game: Game, state: State, action: jax.Array, key: jax.Array) -> State:
    step = cast(Callable[..., State], game.step)
    return step(state, action, key) if game.has_chance else step(state, action)


def _require(condition: bool, game: Game, rule: str, sentence: str) -> None:
    if not condition:
        raise AssertionError(f"{game.name} breaks the rule {rule!r}: {sentence}")


def _facts(game: Game) -> None:
    kinds = {
        "name": str,
        "version": int,
        "num_players": int,
        "num_actions": int,
        "observation_shape": tuple,
        "max_steps": int,
        "has_chance": bool,
    }
    for fact, kind in kinds.items():
        value = getattr(game, fact)
        _require(
            type(value) is kind, game, "facts", f"{fact} is {value!r}; expected a plain {kind.__name__}."
        )
    whole = all(type(size) is int for size in game.observation_shape)
    _require(
        whole, game, "facts", f"observation_shape {game.observation_shape!r} holds more than plain ints."
    )
    try:
        hash(game)
    except TypeError:
        _require(False, game, "hashable", "hash(game) fails, so jit cannot take it as a static argument.")


def _registry(game: Game) -> None:
    base = game.name.partition("(")[0]
    if base in registry.names():
        same = registry.make(game.name) == game
        _require(same, game, "registry", f"make({game.name!r}) gives another game.")


def _describe(tree: Any) -> list[tuple[tuple[int, ...], str]]:
    return [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(tree)]


def _after_one_step(game: Game) -> tuple[State, State]:
    state = game.init(jax.random.key(0))
    return state, jax.eval_shape(lambda s: _step(game, s, jnp.int32(0), jax.random.key(0)), state)


def _fixed_structure(game: Game) -> None:
    state, after = _after_one_step(game)
    before = jax.eval_shape(lambda: state)
    same = jax.tree.structure(after) == jax.tree.structure(state) and _describe(after) == _describe(before)
    _require(same, game, "fixed structure", f"step turns {_describe(before)} into {_describe(after)}.")


def _strict_leaves(game: Game) -> None:
    state, after = _after_one_step(game)
    for leaf in jax.tree.leaves(state):
        strict = isinstance(leaf, jax.Array) and not leaf.weak_type
        _require(
            strict, game, "strict leaves", f"init's state has the leaf {leaf!r}; expected a strong array."
        )
    weak = any(leaf.weak_type for leaf in jax.tree.leaves(after))
    _require(not weak, game, "strict leaves", "step returns a weakly typed leaf.")


def _outputs(game: Game) -> None:
    state = game.init(jax.random.key(0))
    player = jnp.int32(0)
    expected = {
        "legal_actions": ((game.num_actions,), "bool"),
        "current_player": ((), "int32"),
        "rewards": ((game.num_players,), "float32"),
        "is_over": ((), "bool"),
    }
    for function, form in expected.items():
        given = _describe(jax.eval_shape(getattr(game, function), state))
        _require(given == [form], game, "outputs", f"{function} returns {given}; expected {form}.")
    (shape, _), *more = _describe(jax.eval_shape(game.observe, state, player))
    right = shape == game.observation_shape and not more
    _require(right, game, "outputs", f"observe returns {shape}; expected {game.observation_shape}.")


def _one_trace(game: Game) -> None:
    traces = 0

    def step(state: State, action: jax.Array, key: jax.Array) -> State:
        nonlocal traces
        traces += 1
        return _step(game, state, action, key)

    state, jitted = game.init(jax.random.key(0)), jax.jit(step)
    for _ in range(2):
        action = jnp.argmax(game.legal_actions(state)).astype(jnp.int32)
        state = jitted(state, action, jax.random.key(0))
    sentence = f"step was traced {traces} times in two plies; is a leaf of init weakly typed?"
    _require(traces == 1, game, "one trace", sentence)


def _endings(game: Game, record: Record) -> None:
    movable = record.legal.any(axis=-1)
    stuck, late_moves = np.count_nonzero(~movable & ~record.over), np.count_nonzero(movable & record.over)
    _require(stuck == 0, game, "a move to make", "a running game has no legal action.")
    _require(late_moves == 0, game, "none at the end", "a finished game has legal actions.")
    known = ((record.player >= 0) & (record.player < game.num_players)).all()
    _require(bool(known), game, "players", f"current_player leaves 0..{game.num_players - 1}.")
    late = int((~record.over[game.max_steps]).sum())
    _require(late == 0, game, "max_steps", f"{late} games still run after {game.max_steps} plies.")


def _rewards(game: Game, record: Record, *, at_end_only: bool, zero_sum: bool) -> None:
    if at_end_only:
        early = record.rewards[~record.over]
        _require(not early.any(), game, "rewards at the end", "a running game has rewards.")
    if zero_sum:
        sums = record.rewards.sum(axis=-1)
        _require(not sums.any(), game, "zero sum", f"rewards add up to {float(np.abs(sums).max())}.")


def _finished_stand_still(game: Game, record: Record) -> None:
    over = record.over[:-1]
    for leaf in jax.tree.leaves(record.states):
        moved = np.asarray(leaf[1:] != leaf[:-1]).reshape(*over.shape, -1).any(axis=-1) & over
        _require(not moved.any(), game, "finished games stand still", "step changed a finished game.")


def _sample(record: Record) -> tuple[np.ndarray, np.ndarray]:
    """Plies and games of up to `_SAMPLES` running states, spread over the record."""
    plies, games = np.nonzero(~record.over[:-1])
    pick = np.linspace(0, len(plies) - 1, min(_SAMPLES, len(plies))).astype(int)
    return plies[pick], games[pick]


def _equal(a: Any, b: Any) -> bool:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in pairs)


def _vmap_and_jit(game: Game, record: Record) -> None:
    plies, games = _sample(record)
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[plies, games]), record.states)
    actions = jnp.asarray(record.actions[plies, games])
    keys = jax.random.split(jax.random.key(1), len(plies))

    def everything(state: State, action: jax.Array, key: jax.Array) -> Any:
        after = _step(game, state, action, key)
        facts = (game.legal_actions(after), game.current_player(after), game.rewards(after))
        return after, facts, game.observe(after, game.current_player(after))

    together = jax.jit(jax.vmap(everything))(states, actions, keys)
    alone = jax.jit(everything)
    for i in range(len(plies)):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], (states, actions, keys))
        row = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        _require(
            _equal(alone(*one), row), game, "vmap equals loop", f"row {i} of a batch differs from itself."
        )
        if i == _SAMPLES // 2:  # op by op is slow
            same = _equal(everything(*one), row)
            _require(same, game, "jit equals no jit", f"state {i} differs without jit.")


def _planes(game: Game, record: Record) -> None:
    players = jnp.arange(game.num_players)
    plies, games = np.nonzero(np.ones_like(record.over))
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[plies, games]), record.states)
    see = jax.jit(jax.vmap(jax.vmap(game.observe, in_axes=(None, 0)), in_axes=(0, None)))
    seen = np.asarray(see(states, players))
    _require(seen.dtype == bool, game, "planes", f"observations are {seen.dtype}; expected bool planes.")
    most = int(seen.sum(axis=-1).max())
    _require(most <= 1, game, "planes exclude one another", f"a cell is set in {most} planes.")
    if game.num_players == 2:
        swapped = np.array_equal(seen[:, 0, ..., :2], seen[:, 1, ..., 1::-1])
        _require(swapped, game, "planes swap", "planes 0 and 1 of one player are not 1 and 0 of the other.")


def _notation(game: Game, record: Record) -> None:
    names = [game.action_to_string(action) for action in range(game.num_actions)]
    back = [game.action_from_string(name) for name in names]
    _require(back == list(range(game.num_actions)), game, "notation", f"{names} reads back as {back}.")
    for text in ("", "?!", names[0] + names[-1] + "?"):
        try:
            game.action_from_string(text)
        except ValueError:
            continue
        _require(False, game, "notation", f"action_from_string accepts {text!r}.")
    if game.has_chance:
        return
    length = int(record.over[:, 0].argmax())
    moves = [names[action] for action in record.actions[:length, 0]]
    final = jax.tree.map(lambda leaf: leaf[length, 0], record.states)
    one_start = all((leaf[0] == leaf[0, :1]).all() for leaf in jax.tree.leaves(record.states))
    if one_start:  # where games start at random, moves alone do not lead from one position to another
        read = game.from_string(" ".join(moves))
        _require(
            _equal(_facts_of(game, read), _facts_of(game, final)), game, "moves", f"{moves} read differently."
        )
    to_string = getattr(game, "to_string", None)
    for ply in np.linspace(0, length, _SAMPLES).astype(int) if to_string else ():
        state = jax.tree.map(lambda leaf, ply=ply: jnp.asarray(leaf[ply, 0]), record.states)
        text = to_string(state)  # type: ignore[misc]
        _require(
            _equal(game.from_string(text), state), game, "positions", f"{text!r} reads back differently."
        )


def _facts_of(game: Game, state: State) -> Any:
    facts = (game.legal_actions(state), game.is_over(state), game.rewards(state), game.current_player(state))
    return (*facts, game.observe(state, jnp.int32(0)))


def _pictures(game: Game, record: Record) -> None:
    for ply in (0, len(record.actions)):
        state = jax.tree.map(lambda leaf, ply=ply: jnp.asarray(leaf[ply, 0]), record.states)
        _require(bool(game.render(state).strip()), game, "render", "render returns no text.")
        svg = game.to_svg(state)
        _require("<svg" in svg and "</svg>" in svg, game, "to_svg", "to_svg returns no SVG document.")


def _symmetries(game: Game, record: Record) -> None:
    symmetries = symmetries_of(game)
    if symmetries is None:
        return
    for table, width in (
        (symmetries.cells, np.prod(game.observation_shape[:2])),
        (symmetries.actions, game.num_actions),
    ):
        permutations = (np.sort(table, axis=-1) == np.arange(width)).all()
        _require(bool(permutations), game, "symmetry tables", "a row is not a permutation.")
        identity = (table[0] == np.arange(width)).all()
        _require(bool(identity), game, "symmetry tables", "entry 0 is not the identity.")
    transform = cast(SymmetricGame, game).transform
    inverse = jnp.asarray(np.argsort(symmetries.actions, axis=-1))

    def commutes(state: State, action: jax.Array, k: jax.Array) -> tuple[jax.Array, ...]:
        turned, key, player = transform(state, k), jax.random.key(0), jnp.int32(0)
        stepped = (
            transform(_step(game, state, action, key), k),
            _step(game, turned, inverse[k, action], key),
        )
        legal = (symmetries.policy(game.legal_actions(state), k), game.legal_actions(turned))
        seen = (symmetries.observation(game.observe(state, player), k), game.observe(turned, player))
        rewards = (game.rewards(state), game.rewards(turned))
        return tuple(_same(*pair) for pair in (stepped, legal, seen, rewards))

    plies, games = np.nonzero(np.ones_like(record.over[:-1]))
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[plies, games]), record.states)
    actions = jnp.asarray(record.actions[plies, games])
    over_k = jax.vmap(commutes, in_axes=(None, None, 0))
    answers = jax.jit(jax.vmap(over_k, in_axes=(0, 0, None)))(states, actions, jnp.arange(len(symmetries)))
    for what, same in zip(("step", "legal_actions", "observe", "rewards"), answers, strict=True):
        _require(bool(same.all()), game, "symmetries commute", f"{what} and transform do not commute.")


def _same(a: Any, b: Any) -> jax.Array:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return jnp.stack([jnp.all(x == y) for x, y in pairs]).all()
