"""Simulations per second of our search against mctx's, side by side in one process: `jaxsearch bench search`.

Both sides search the same positions of the same game with the same step function and evaluator: a linear
read-out of the observation, so that the search and not a network is measured. The sides take turns. Compile
times are measured with the persistent compilation cache off. `--rows` chooses what is measured, see `ROWS`.
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
from jaxsearch.types import Evaluator, RootFnOutput, Search
from train import bench_uct, timing
from train.networks import evaluator, make_network
from train.selfplay import new_games

POLICIES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "puct": (jaxsearch.muzero_policy, mctx.muzero_policy),
    "gumbel": (jaxsearch.gumbel_muzero_policy, mctx.gumbel_muzero_policy),
}
"""Ours and mctx's, with their defaults."""

SIZES = ((64, 64), (64, 400), (1024, 64))
"""Trees and simulations."""

ACTION_SIZES = {
    "tic_tac_toe": ((1, 400), (64, 64), (1024, 64)),
    "go": ((1, 400), (64, 64), (1024, 64)),
    "chess(repetition=0)": ((1, 32), (64, 32), (1024, 8)),
}
"""Trees and simulations for 9, 82 and 4,672 actions; few where mctx's 24 bytes an action fill the memory."""

LEAVES = (1, 4, 16, 32)
"""Leaves evaluated at once."""


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


def game_cases(*, repeats: int, games: Sequence[str] = ("connect_four", "othello")) -> Iterator[Case]:
    """Both policies on two games, then our cost per simulation as trees grow."""
    for game in games:
        for policy in POLICIES:
            for trees, simulations in SIZES:
                yield compare(game, policy, trees, simulations, repeats=repeats)
        for simulations in (100, 1600):
            yield compare(game, "puct", 64, simulations, repeats=repeats, against_mctx=False)


def action_cases(*, repeats: int) -> Iterator[Case]:
    """PUCT with few, some and many actions, for one tree and for many."""
    for game, sizes in ACTION_SIZES.items():
        for trees, simulations in sizes:
            yield compare(game, "puct", trees, simulations, repeats=repeats)


HEAD = (
    f"{'game':<20}{'policy':<8}{'trees':>6}{'sims':>6}{'ours, k sims/s':>22}{'mctx, k sims/s':>22}"
    f"{'ratio':>18}{'compile, s':>14}"
)


def line(case: Case) -> str:
    """A row of the table."""
    text = f"{case.game:<20}{case.policy:<8}{case.trees:>6}{case.simulations:>6}"
    text += f"{timing.spread(case.ours, 1e3):>22}"
    if case.mctx is None:
        return text + f"{'':>40}{case.ours.compile_seconds:>14.1f}"
    compiled = f"{case.ours.compile_seconds:.1f} / {case.mctx.compile_seconds:.1f}"
    return text + f"{timing.spread(case.mctx, 1e3):>22}{timing.ratio(case.ours, case.mctx):>18}{compiled:>14}"


def against_mctx(cases: Callable[..., Iterator[Case]], *, repeats: int) -> None:
    """Prints comparisons row by row."""
    print(HEAD)
    for case in cases(repeats=repeats):
        print(line(case), flush=True)
    print("medians (least-greatest); compile: ours / mctx")


# One tree


@dataclasses.dataclass(frozen=True)
class Single:
    """A search of one position.

    Attributes:
        name: what it is.
        simulations: of it.
        side: simulations per second.
    """

    name: str
    simulations: int
    side: timing.Side

    def __str__(self) -> str:
        seconds = [self.simulations / rate for rate in self.side.rates]
        middle, low, high = self.simulations / self.side.median, min(seconds), max(seconds)
        text = f"{self.name:<40}{self.simulations:>6}{f'{middle:.3f} ({low:.3f}-{high:.3f})':>24}"
        return text + f"{self.side.compile_seconds:>12.1f}"


SINGLE_HEAD = f"{'one position':<40}{'sims':>6}{'seconds':>24}{'compile, s':>12}"


def time_single(
    searches: dict[str, Search], game: Game, params: Any, *, simulations: int, repeats: int
) -> list[Single]:
    """Times searches of one position, a few plies into the game, in turn."""
    states = new_games(game, jax.random.key(2), 1, opening_plies=4).states
    calls = [
        functools.partial(jax.jit(search), jax.random.key(4), states, params) for search in searches.values()
    ]
    sides = timing.take_turns(calls, work=simulations, repeats=repeats)
    return [Single(name, simulations, side) for name, side in zip(searches, sides, strict=True)]


def analyze_rows(*, repeats: int, simulations: int = 5000) -> list[Single]:
    """One position of Connect Four as `jaxsearch analyze` searches it."""
    game = games_jax.make("connect_four")
    network = make_network("patterns", game)
    common: dict[str, Any] = {"simulations": simulations, "keep_tree": True}
    linear, params = linear_evaluator(game, jax.random.key(1))
    rows = time_single(
        {
            "uct, random playouts": jaxsearch.uct(game, **common),
            "uct, random playouts, 8 leaves at once": jaxsearch.uct(game, leaves=8, **common),
            "puct, linear read-out": jaxsearch.puct(game, linear, **common),
            "puct, linear read-out, 8 leaves at once": jaxsearch.puct(game, linear, leaves=8, **common),
        },
        game,
        params,
        simulations=simulations,
        repeats=repeats,
    )
    patterns = {'puct, network "patterns"': jaxsearch.puct(game, evaluator(network, game), **common)}
    variables = network.init(jax.random.key(0))
    return rows + time_single(patterns, game, variables, simulations=simulations, repeats=repeats)


def leaves_rows(
    *, repeats: int, game: str = "connect_four", simulations: int = 512, leaves: Sequence[int] = LEAVES
) -> list[Single]:
    """One position judged by a ResNet, one leaf after the other and several at once."""
    made = games_jax.make(game)
    network = make_network("resnet", made)
    searches = {
        f'puct, network "resnet", {k} leaves at once': jaxsearch.puct(
            made, evaluator(network, made), simulations=simulations, leaves=k
        )
        for k in leaves
    }
    variables = network.init(jax.random.key(0))
    return time_single(searches, made, variables, simulations=simulations, repeats=repeats)


def single_analyze(*, repeats: int) -> None:
    """Prints `analyze_rows`."""
    print("\n".join([SINGLE_HEAD, *map(str, analyze_rows(repeats=repeats))]), flush=True)


def single_leaves(*, repeats: int) -> None:
    """Prints `leaves_rows`, each against the first."""
    rows = leaves_rows(repeats=repeats)
    print(SINGLE_HEAD + f"{'faster':>18}")
    for row in rows:
        print(f"{row}{timing.ratio(row.side, rows[0].side):>18}", flush=True)


ROWS: dict[str, Callable[..., None]] = {
    "games": functools.partial(against_mctx, game_cases),
    "actions": functools.partial(against_mctx, action_cases),
    "analyze": single_analyze,
    "leaves": single_leaves,
    "playouts": bench_uct.main,
}
"""What `--rows` chooses from."""


def main(*, repeats: int = 5, rows: Sequence[str] = ("games",)) -> None:
    """Prints the chosen tables."""
    jax.config.update("jax_enable_compilation_cache", False)
    device = next(iter(jnp.zeros(()).devices()))  # what --device has made the default
    print(f"on {device.platform}: {device.device_kind}, jax {jax.__version__}")
    for name in rows:
        ROWS[name](repeats=repeats)
