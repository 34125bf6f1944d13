"""One suite that every game passes: `check(game)`.

It plays random games, whole batches at once, and holds every state they pass through against the rules of the
contract in `games_jax.game`. A failure is an AssertionError whose sentence names the game, the rule and what
broke it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import registry
from games_jax.game import Game, State, SymmetricGame, is_simultaneous, symmetries_of

_SAMPLES = 6  # states that the slow comparisons, one state at a time, look at


@dataclasses.dataclass(frozen=True)
class Record:
    """Random games: T + 1 states of each of B games, and the T actions between them, in numpy.

    After the end of a game its actions go on at random, so that a finished game can be seen to stand still.

    Attributes:
        states: the game's states with leaves `[T + 1, B, ...]`.
        actions: int32 `[T, B]`; `[T, B, P]` in a game with simultaneous moves.
        legal: bool `[T + 1, B, A]`; `[T + 1, B, P, A]`.
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
    # Compiling takes most of the time, so that each of these is compiled once and used by several rules.
    seen = _seen_by_all(game, record)
    probe = jax.jit(functools.partial(_everything, game))
    _vmap_and_jit(game, record, seen, probe, _chance_keys(seed, *record.actions.shape[:2]))
    if exclusive_planes:
        _planes(game, seen)
    _notation(game, record, probe)
    _pictures(game, record)
    _symmetries(game, record)


def play_random(game: Game, *, games: int, seed: int) -> Record:
    """Plays `games` random games for `max_steps` plies and two more, and records every state."""
    start_key, _ = jax.random.split(jax.random.key(seed))
    start = jax.vmap(game.init)(jax.random.split(start_key, games))
    plies = game.max_steps + 3  # the last one only asks for the facts of the state before it
    noise = np.random.default_rng(seed).random((plies, games, *_legal_shape(game)), np.float32)

    def ply(states: State, draws: tuple[jax.Array, jax.Array]) -> tuple[State, tuple[Any, ...]]:
        noise, keys = draws
        legal, *others = (jax.vmap(fact)(states) for fact in _facts_of(game))
        anything = ~legal.any(axis=-1, keepdims=True)
        actions = jnp.argmax(jnp.where(legal | anything, noise, -1.0), axis=-1).astype(jnp.int32)
        after = jax.vmap(lambda s, a, k: _step(game, s, a, k))(states, actions, keys)
        return after, (states, actions, (legal, *others))

    run = jax.jit(lambda *inputs: jax.lax.scan(ply, inputs[0], inputs[1:])[1])
    states, actions, facts = jax.device_get(run(start, noise, _chance_keys(seed, plies, games)))
    return Record(states, actions[:-1], *facts)


def _legal_shape(game: Game) -> tuple[int, ...]:
    return (game.num_players, game.num_actions) if is_simultaneous(game) else (game.num_actions,)


def _first_action(game: Game) -> jax.Array:
    """Action 0, of each player where all move at once."""
    return jnp.zeros(_legal_shape(game)[:-1], jnp.int32)


def _chance_keys(seed: int, plies: int, games: int) -> jax.Array:
    """The keys `[T, B]` of each step of `play_random`."""
    play_key = jax.random.split(jax.random.key(seed))[1]
    by_ply = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(play_key, jnp.arange(plies))
    return jax.vmap(functools.partial(jax.random.split, num=games))(by_ply)


def _facts_of(game: Game) -> tuple[Callable[[State], jax.Array], ...]:
    return game.legal_actions, game.is_over, game.current_player, game.rewards


def _everything(game: Game, state: State, action: jax.Array, key: jax.Array, player: jax.Array) -> Any:
    """The state after one step, its facts, and what `player` sees of it."""
    after = _step(game, state, action, key)
    return after, tuple(fact(after) for fact in _facts_of(game)), game.observe(after, player)


def _seen_by_all(game: Game, record: Record) -> np.ndarray:
    """The record's observations, `[T + 1, B, P, ...]`."""
    flat = jax.tree.map(lambda leaf: jnp.asarray(leaf.reshape(-1, *leaf.shape[2:])), record.states)
    see = jax.jit(jax.vmap(jax.vmap(game.observe, in_axes=(None, 0)), in_axes=(0, None)))
    seen = np.asarray(see(flat, jnp.arange(game.num_players)))
    return seen.reshape(*record.over.shape, *seen.shape[1:])


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
    return state, jax.eval_shape(lambda s: _step(game, s, _first_action(game), jax.random.key(0)), state)


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
        "legal_actions": (_legal_shape(game), "bool"),
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
    """A jitted step is traced again where the leaves that it returns are of another kind than init's."""
    state, after = _after_one_step(game)
    kinds = [
        [(leaf.shape, str(leaf.dtype), leaf.weak_type) for leaf in jax.tree.leaves(tree)]
        for tree in (jax.eval_shape(lambda tree: tree, state), after)
    ]
    sentence = f"step turns leaves (shape, dtype, weakly typed) {kinds[0]} into {kinds[1]}: two traces."
    _require(kinds[0] == kinds[1], game, "one trace", sentence)


def _endings(game: Game, record: Record) -> None:
    movable = record.legal.any(axis=-1).reshape(*record.over.shape, -1)  # a column, or one a player
    stuck = np.count_nonzero(~movable.all(axis=-1) & ~record.over)
    late_moves = np.count_nonzero(movable.any(axis=-1) & record.over)
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


def _vmap_and_jit(
    game: Game, record: Record, seen: np.ndarray, probe: Callable[..., Any], keys: jax.Array
) -> None:
    """The record was made by batches; here single states are stepped, with jit and once without."""
    facts = (record.legal, record.over, record.player, record.rewards)
    for i, (ply, index) in enumerate(zip(*_sample(record), strict=True)):
        state = jax.tree.map(lambda leaf, at=(ply, index): jnp.asarray(leaf[at]), record.states)
        mover = jnp.int32(record.player[ply, index])
        one = (state, jnp.asarray(record.actions[ply, index]), keys[ply, index], mover)
        row = (
            jax.tree.map(lambda leaf, at=(ply + 1, index): leaf[at], record.states),
            tuple(fact[ply + 1, index] for fact in facts),
            seen[ply + 1, index, int(mover)],
        )
        _require(
            _equal(probe(*one), row), game, "vmap equals loop", f"row {index} of a batch differs from itself."
        )
        if i == _SAMPLES // 2:  # op by op is slow
            same = _equal(_everything(game, *one), row)
            _require(same, game, "jit equals no jit", f"state {i} differs without jit.")


def _planes(game: Game, seen: np.ndarray) -> None:
    _require(seen.dtype == bool, game, "planes", f"observations are {seen.dtype}; expected bool planes.")
    most = int(seen.sum(axis=-1).max())
    _require(most <= 1, game, "planes exclude one another", f"a cell is set in {most} planes.")
    if game.num_players == 2:
        swapped = np.array_equal(seen[:, :, 0, ..., :2], seen[:, :, 1, ..., 1::-1])
        _require(swapped, game, "planes swap", "planes 0 and 1 of one player are not 1 and 0 of the other.")


def _notation(game: Game, record: Record, probe: Callable[..., Any]) -> None:
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
    joint = is_simultaneous(game)
    moves = [] if joint else [names[action] for action in record.actions[:length, 0]]
    final = jax.tree.map(lambda leaf: leaf[length, 0], record.states)
    one_start = all((leaf[0] == leaf[0, :1]).all() for leaf in jax.tree.leaves(record.states))
    if (
        one_start and not joint
    ):  # where games start at random, moves alone do not lead from one position to another
        read = game.from_string(" ".join(moves))
        # A step of a finished game changes nothing, so that this compares the two states themselves.
        ended = [probe(state, jnp.int32(0), jax.random.key(0), jnp.int32(0))[1:] for state in (read, final)]
        _require(_equal(*ended), game, "moves", f"{moves} read differently.")
    to_string = getattr(game, "to_string", None)
    for ply in np.linspace(0, length, _SAMPLES).astype(int) if to_string else ():
        state = jax.tree.map(lambda leaf, ply=ply: jnp.asarray(leaf[ply, 0]), record.states)
        text = to_string(state)  # type: ignore[misc]
        _require(
            _equal(game.from_string(text), state), game, "positions", f"{text!r} reads back differently."
        )


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
        rows = game.legal_actions(state).reshape(-1, game.num_actions)
        turned_rows = jax.vmap(symmetries.policy, in_axes=(0, None))(rows, k)
        legal = (turned_rows.reshape(_legal_shape(game)), game.legal_actions(turned))
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
