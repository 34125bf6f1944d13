"""Steps per second of our games against pgx's, side by side in one process: `jaxsearch bench games`.

Both sides play the same random policy in one compiled loop: legal actions, choice, step, rewards, restart of
finished games. The random numbers are drawn before and shared. They are rankings of all actions; the highest
ranked legal action is played, which is a uniform choice and cheap, so that the choice does not hide the step.
The sides take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import games_jax
from games_jax.game import Game, num_bytes
from train import bench_games_more, timing

DEFAULT_GAMES = ("tic_tac_toe", "connect_four", "othello", "hex(swap=True)", "go", "go(size=19)", "chess")
# Our games of which pgx has one with the same actions, and pgx's name of it.
_PGX_NAMES: dict[str, Any] = {
    "tic_tac_toe": "tic_tac_toe",
    "connect_four": "connect_four",
    "othello": "othello",
    "go": "go_9x9",
    "go(size=19)": "go_19x19",
    "hex(swap=True)": "hex",
    "chess": "chess",  # as many actions, numbered otherwise: both sides play at random, not the same games
}
# Rankings of thousands of actions fill memory: batch and steps are not more than these.
_LARGEST = {"chess": (256, 32), "go(size=19)": (1024, 16)}
# pgx takes so long for one ply of these that it plays fewer. Rates are compared, so that the work may differ;
# a ply of the opening, with few stones, is if anything its cheapest.
_PGX_STEPS = {"go(size=19)": 1}
_BLOCK = 16  # actions compared at once by the choice


@dataclasses.dataclass(frozen=True)
class Library:
    """One library's figures for one game.

    Attributes:
        speed: steps per second, and compile time of the whole loop.
        state_bytes: of one state.
        finished: games that ended in one run: the same on both sides where the rules and the plies are.
        step_seconds: compile time of `vmap(step)` alone.
    """

    speed: timing.Side
    state_bytes: int
    finished: int
    step_seconds: float


@dataclasses.dataclass(frozen=True)
class Row:
    """One game's comparison; `pgx` is None where pgx has no such game or is not installed."""

    game: str
    batch: int
    ours: Library
    pgx: Library | None


def bench_games(
    games: Sequence[str] = DEFAULT_GAMES,
    *,
    batch: int = 1024,
    steps: int = 200,
    repeats: int = 5,
    seed: int = 0,
) -> list[Row]:
    """Times games against pgx's of the same name.

    Args:
        games: registry names.
        batch: games played at once.
        steps: plies in one call of the compiled loop; short calls are timed several in a row.
        repeats: timed runs a side.
        seed: of the random policy.

    Returns:
        A row for each game.
    """
    return [_bench(name, batch=batch, steps=steps, repeats=repeats, seed=seed) for name in games]


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    head = f"{'game':<18}{'batch':>6}  {'ours, k steps/s':>24}{'pgx, k steps/s':>24}{'ratio':>20}"
    head += f"{'compile loop, s':>17}{'step, s':>14}{'bytes':>13}"
    lines = [head]
    for row in rows:
        libraries = [row.ours] if row.pgx is None else [row.ours, row.pgx]
        compiled, alone, size = (
            " / ".join(figures)
            for figures in (
                [f"{library.speed.compile_seconds:.1f}" for library in libraries],
                [f"{library.step_seconds:.1f}" for library in libraries],
                [str(library.state_bytes) for library in libraries],
            )
        )
        ratio, theirs = "", "-"
        if row.pgx is not None:
            ratio, theirs = timing.ratio(row.ours.speed, row.pgx.speed), timing.spread(row.pgx.speed, 1e3)
        ours = timing.spread(row.ours.speed, 1e3)
        line = f"{row.game:<18}{row.batch:>6}  {ours:>24}{theirs:>24}{ratio:>20}"
        lines.append(line + f"{compiled:>17}{alone:>14}{size:>13}")
    return "\n".join([*lines, "medians (least-greatest); compile times and bytes: ours / pgx"])


def main(*, repeats: int = 5) -> None:
    """Prints the table for the default games, then playouts, perft and cube moves; a line as it is ready."""
    # Compile times are among the figures, so that none may come from a cache.
    jax.config.update("jax_enable_compilation_cache", False)
    rows: list[Row] = []
    for name in DEFAULT_GAMES:
        rows += bench_games([name], repeats=repeats)
        print(table(rows[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    print(table(rows))
    print()
    print(bench_games_more.table(bench_games_more.bench_more(repeats=repeats)))


def rankings(num_actions: int, *, steps: int, batch: int, seed: int) -> np.ndarray:
    """Random rankings of the actions, `[steps, batch, A]`: rank from 1 in high bits, action in low ones."""
    shift = _shift(num_actions)
    kind = np.uint16 if 2 * shift <= 16 else np.uint32
    noise = np.random.default_rng(seed).random((steps, batch, num_actions), np.float32)
    ranks = np.argsort(noise, axis=-1) + 1
    return ((ranks << shift) | np.arange(num_actions)).astype(kind)


def choose(legal: jax.Array, ranking: jax.Array) -> jax.Array:
    """The highest ranked legal action of each row.

    Args:
        legal: bool `[B, A]`, with at least one action a row.
        ranking: `[B, A]`, from `rankings`.

    Returns:
        Int32 `[B]`.
    """
    num_actions = legal.shape[1]
    scores = jnp.where(legal, ranking, jnp.zeros((), ranking.dtype))
    # Whole blocks first, element by element: XLA's CPU reduction over a long row takes ten times as long.
    split = num_actions - num_actions % _BLOCK
    parts = [scores[:, at : at + _BLOCK] for at in range(0, split, _BLOCK)]
    best = [part.max(axis=-1) for part in (_maximum(parts), scores[:, split:]) if part.shape[1]]
    low_bits = (1 << _shift(num_actions)) - 1
    return (_maximum(best) & np.asarray(low_bits, ranking.dtype)).astype(jnp.int32)


def _shift(num_actions: int) -> int:
    return num_actions.bit_length()


def _maximum(arrays: list[jax.Array]) -> jax.Array:
    if not arrays:
        return jnp.zeros((0, 0))
    best = arrays[0]
    for array in arrays[1:]:
        best = jnp.maximum(best, array)
    return best


_Functions = tuple[Callable[..., Any], ...]


def _loop(functions: _Functions, start: Any) -> Callable[[Any, jax.Array], Any]:
    """A compiled run of random plies over batched functions `(legal, step, over, rewards)`."""
    legal, step, over, rewards = functions

    def ply(carry: Any, ranking: jax.Array) -> tuple[Any, None]:
        states, finished, total = carry
        states = step(states, choose(legal(states), ranking))
        done = over(states)
        # Totals per game, so that neither side can drop the rewards nor pays for a sum over the batch.
        finished, total = finished + done.astype(jnp.int32), total + rewards(states)[:, 0]
        restarted = jax.tree.map(
            lambda new, first: jnp.where(done.reshape(-1, *[1] * (new.ndim - 1)), first, new), states, start
        )
        return (restarted, finished, total), None

    def run(states: Any, ranking: jax.Array) -> Any:
        batch = ranking.shape[1]
        carry = states, jnp.zeros(batch, jnp.int32), jnp.zeros(batch, jnp.float32)
        return jax.lax.scan(ply, carry, ranking)[0]

    return jax.jit(run)


def _ours(game: Game, batch: int) -> tuple[_Functions, Any]:
    facts = (game.legal_actions, game.step, game.is_over, game.rewards)
    start = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    return tuple(jax.vmap(fact) for fact in facts), start


def _theirs(name: str, batch: int) -> tuple[_Functions, Any] | None:
    try:
        import pgx
    except ImportError:
        return None
    if name not in _PGX_NAMES:
        return None
    env = pgx.make(_PGX_NAMES[name])
    functions = (
        lambda states: states.legal_action_mask,
        jax.vmap(env.step),
        lambda states: states.terminated,
        lambda states: states.rewards,
    )
    return functions, jax.vmap(env.init)(jax.random.split(jax.random.key(0), batch))


def _bench(name: str, *, batch: int, steps: int, repeats: int, seed: int) -> Row:
    game = games_jax.make(name)
    most_batch, most_steps = _LARGEST.get(game.name, (batch, steps))
    batch, steps = min(batch, most_batch), min(steps, most_steps)
    plies = (steps, min(steps, _PGX_STEPS.get(game.name, steps)))
    ranking = jnp.asarray(rankings(game.num_actions, steps=steps, batch=batch, seed=seed))
    libraries = [side for side in (_ours(game, batch), _theirs(game.name, batch)) if side is not None]
    programs = [
        functools.partial(_loop(functions, start), start, ranking[:count])
        for (functions, start), count in zip(libraries, plies)
    ]
    step_seconds = [_compile_seconds(functions[1], start) for functions, start in libraries]
    # The work is counted in plies of one side; the other's rates are put right after.
    speeds = timing.take_turns(programs, work=batch * steps, repeats=repeats)
    sizes = [num_bytes(game)]
    sizes += [sum(leaf.nbytes // batch for leaf in jax.tree.leaves(start)) for _, start in libraries[1:]]
    done = [
        Library(_scaled(speed, count / steps), size, int(program()[1].sum()), seconds)
        for speed, count, size, program, seconds in zip(speeds, plies, sizes, programs, step_seconds)
    ]
    return Row(game.name, batch, done[0], done[1] if len(done) > 1 else None)


def _scaled(side: timing.Side, factor: float) -> timing.Side:
    return dataclasses.replace(side, rates=tuple(rate * factor for rate in side.rates))


def _compile_seconds(step: Callable[..., Any], start: Any) -> float:
    """Seconds to trace and compile the batched step."""
    batch = jax.tree.leaves(start)[0].shape[0]
    before = time.perf_counter()
    jax.jit(step).lower(start, jax.ShapeDtypeStruct((batch,), jnp.int32)).compile()
    return time.perf_counter() - before


if __name__ == "__main__":
    main()
