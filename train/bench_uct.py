"""UCT with random playouts against OpenSpiel's in C++: `jaxsearch bench search --rows playouts`.

Both sides search the first position of a game with the same number of simulations, one playout each: ours
many searches at once, OpenSpiel's `MCTSBot` one after the other, which is how it is used. A peer that is not
installed leaves its columns empty.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax

import games_jax
import jaxsearch
from games_jax.game import Game
from jaxsearch.types import Search
from train import timing

TREES = 256

GAMES = {
    "connect_four": "connect_four",
    "othello": "othello",
    "hex(size=9)": "hex(board_size=9)",
    "go(size=7)": "go(board_size=7)",
}
"""Ours, and OpenSpiel's names of them. Go's playouts spare the mover's eyes here, as is usual; OpenSpiel's
fill them and end at its limit of moves."""

SEARCHES: dict[str, Callable[..., Search]] = {"uct": jaxsearch.uct, "rave": jaxsearch.rave}

RAVE_GAMES = ("hex(size=9)",)
"""Games that are also timed with all-moves-as-first statistics, which OpenSpiel has not."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        game: registry name.
        search: key of `SEARCHES`.
        trees: searched at once by our side.
        simulations: of each.
        ours, peer: simulations per second.
    """

    game: str
    search: str
    trees: int
    simulations: int
    ours: timing.Side
    peer: timing.Side | None = None

    def __str__(self) -> str:
        text = f"{self.game:<20}{self.search:<8}{self.trees:>6}{self.simulations:>6}"
        text += f"{timing.spread(self.ours, 1e3):>22}"
        if self.peer is None:
            return text + f"{'':>40}{self.ours.compile_seconds:>12.1f}"
        ratio = timing.ratio(self.ours, self.peer)
        return text + f"{timing.spread(self.peer, 1e3):>22}{ratio:>18}{self.ours.compile_seconds:>12.1f}"


HEAD = (
    f"{'game':<20}{'search':<8}{'trees':>6}{'sims':>6}{'ours, k sims/s':>22}{'OpenSpiel, k sims/s':>22}"
    f"{'ratio':>18}{'compile, s':>12}"
)


def rows(*, repeats: int, simulations: int = 1000, trees: int = TREES) -> Iterator[Row]:
    """Times every game with UCT, and `RAVE_GAMES` with RAVE."""
    for name in GAMES:
        yield time_game(name, "uct", trees=trees, simulations=simulations, repeats=repeats)
    for name in RAVE_GAMES:
        yield time_game(name, "rave", trees=trees, simulations=simulations, repeats=repeats)


def time_game(name: str, search: str, *, trees: int, simulations: int, repeats: int) -> Row:
    """Times both sides on one game; OpenSpiel's only with UCT."""
    game = games_jax.make(name)
    programs = [_ours(game, search, trees, simulations)]
    theirs = _open_spiel(GAMES[name], simulations) if search == "uct" else None
    if theirs is None:
        return Row(
            name,
            search,
            trees,
            simulations,
            *timing.take_turns(programs, work=trees * simulations, repeats=repeats),
        )
    # Their work per call is one search, ours one search per tree.
    ours, peer = timing.take_turns([*programs, theirs], work=simulations, repeats=repeats)
    ours = dataclasses.replace(ours, rates=tuple(trees * rate for rate in ours.rates))
    return Row(name, search, trees, simulations, ours, peer)


def _ours(game: Game, search: str, trees: int, simulations: int) -> Callable[[], Any]:
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), trees))
    program = jax.jit(SEARCHES[search](game, simulations=simulations))
    return functools.partial(program, jax.random.key(1), states, None)


def _open_spiel(name: str, simulations: int) -> Callable[[], Any] | None:
    try:
        import pyspiel
    except ImportError:
        return None
    game = pyspiel.load_game(name)
    evaluator = pyspiel.RandomRolloutEvaluator(n_rollouts=1, seed=0)
    bot = pyspiel.MCTSBot(game, evaluator, 1.0, simulations, 100, False, 0, False)
    return lambda: bot.step(game.new_initial_state())


def main(*, repeats: int) -> None:
    """Prints the table."""
    print(HEAD)
    for row in rows(repeats=repeats):
        print(row, flush=True)
    print("medians (least-greatest); OpenSpiel in C++ on one thread")
