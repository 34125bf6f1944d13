"""Simulations per second of our search against mctx's, side by side in one process: `jaxsearch bench search`.

Both sides search the same positions of the same game with the same step function and evaluator: a linear
read-out of the observation, so that the search and not a network is measured. The sides take turns. Compile
times are measured with the persistent compilation cache off.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mctx

import games_jax
import jaxsearch
from games_jax.game import Game
from jaxsearch.types import Evaluator, RootFnOutput
from train import timing
from train.selfplay import new_games

POLICIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "puct": (jaxsearch.muzero_policy, mctx.muzero_policy),
    "gumbel": (jaxsearch.gumbel_muzero_policy, mctx.gumbel_muzero_policy),
}
"""Ours and mctx's, with their defaults."""

SIZES = ((64, 64), (64, 400), (1024, 64))
"""Trees and simulations."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        game: registry name.
        policy: key of `POLICIES`.
        trees: searched at once.
        simulations: each.
        ours, mctx: simulations per second.
    """

    game: str
    policy: str
    trees: int
    simulations: int
    ours: timing.Side
    mctx: timing.Side | None = None


def linear_evaluator(game: Game, key: jax.Array) -> tuple[Evaluator, jax.Array]:
    """A fixed random linear evaluator and its parameters; logits of scale 1, values of scale 1/2."""
    size = 1
    for length in game.observation_shape:
        size *= length
    scale = (10.0 / size) ** 0.5
    params = scale * jax.random.normal(key, (size, game.num_actions + 1))

    def evaluate(params: jax.Array, key: jax.Array, states: Any) -> tuple[jax.Array, jax.Array]:
        del key
        planes = jax.vmap(lambda s: game.observe(s, game.current_player(s)))(states)
        out = planes.reshape(planes.shape[0], -1).astype(jnp.float32) @ params
        return out[:, :-1], jnp.tanh(0.5 * out[:, -1])

    return evaluate, params


def setting(game: Game, trees: int) -> tuple[Any, Any, RootFnOutput, jax.Array]:
    """Parameters, `recurrent_fn`, roots after up to eight random plies, and invalid actions."""
    evaluate, params = linear_evaluator(game, jax.random.key(1))
    states = new_games(game, jax.random.key(2), trees, opening_plies=8).states
    root = jaxsearch.make_root_fn(game, evaluate)(params, jax.random.key(3), states)
    invalid = ~jax.vmap(game.legal_actions)(states)
    return params, jaxsearch.make_recurrent_fn(game, evaluate), root, invalid


def compare(
    name: str, policy: str, trees: int, simulations: int, *, repeats: int, against_mctx: bool = True
) -> Case:
    """Times both sides on one case."""
    params, recurrent_fn, root, invalid = setting(games_jax.make(name), trees)

    def run(function: Callable[..., Any], params: Any, key: jax.Array, root: Any, invalid: jax.Array) -> Any:
        out = function(params, key, root, recurrent_fn, simulations, invalid)
        return out.action, out.action_weights

    sides = POLICIES[policy][: 2 if against_mctx else 1]
    programs = [jax.jit(functools.partial(run, side)) for side in sides]
    timed = timing.take_turns(
        [functools.partial(program, params, jax.random.key(4), root, invalid) for program in programs],
        work=trees * simulations,
        repeats=repeats,
    )
    return Case(name, policy, trees, simulations, *timed)


def cases(games: Sequence[str], *, repeats: int) -> Iterator[Case]:
    """The standard comparisons, then our cost per simulation as trees grow."""
    for game in games:
        for policy in POLICIES:
            for trees, simulations in SIZES:
                yield compare(game, policy, trees, simulations, repeats=repeats)
        for simulations in (100, 1600):
            yield compare(game, "puct", 64, simulations, repeats=repeats, against_mctx=False)


HEAD = (
    f"{'game':<14}{'policy':<8}{'trees':>6}{'sims':>6}{'ours, k sims/s':>22}{'mctx, k sims/s':>22}"
    f"{'ratio':>18}{'compile, s':>14}"
)


def line(case: Case) -> str:
    """A row of the table."""
    text = f"{case.game:<14}{case.policy:<8}{case.trees:>6}{case.simulations:>6}"
    text += f"{timing.spread(case.ours, 1e3):>22}"
    if case.mctx is None:
        return text + f"{'':>40}{case.ours.compile_seconds:>14.1f}"
    compiled = f"{case.ours.compile_seconds:.1f} / {case.mctx.compile_seconds:.1f}"
    return text + f"{timing.spread(case.mctx, 1e3):>22}{timing.ratio(case.ours, case.mctx):>18}{compiled:>14}"


def main(*, repeats: int = 5, games: Sequence[str] = ("connect_four", "othello")) -> None:
    """Prints the table row by row."""
    jax.config.update("jax_enable_compilation_cache", False)
    print(HEAD)
    for case in cases(games, repeats=repeats):
        print(line(case), flush=True)
    print("medians (least-greatest); compile: ours / mctx")
