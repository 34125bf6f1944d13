"""Experiments of several runs: results that are kept as they come, runs by config, tournaments that go on.

Used by the scripts that reproduce published results.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from games_jax.game import Game
from train import algorithms
from train.players import AnyPlayer
from train.ratings import Encounter
from train.run import run
from train.run_directory import write_text
from train.tournament import every_opening, round_robin

__all__ = ["Notes", "meet_all", "percent", "trained"]


class Notes:
    """What has been measured: a JSON file, written after each result.

    Attributes:
        path: the file; it need not exist.
        found: results by name.

    Raises:
        ValueError: the file holds something else.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        except ValueError as error:
            raise ValueError(f"{path} is no JSON file of results ({error}); move it away.") from error

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """The result called `name`; `find()`, plain numbers and lists, if it is not known yet."""
        if name not in self.found:
            print(f"measuring {name}", flush=True)
            began = time.process_time()
            self.found[name] = find()
            print(f"  {time.process_time() - began:.0f} s of processor time", flush=True)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path, json.dumps(self.found, indent=1) + "\n")
        return self.found[name]

    def met(self, prefix: str) -> list[Encounter]:
        """The matches of `meet_all` kept under names that begin with `prefix`."""
        records = [record for name, record in self.found.items() if name.startswith(prefix)]
        return [Encounter(first, second, tuple(pairs)) for first, second, pairs in records]


def percent(hits: float, total: int) -> str:
    """A share of `total` and its standard error."""
    share = hits / total
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / total):.1f} %"


def trained(config_path: Path, overrides: Sequence[str], directory: Path) -> Any:
    """The experiment of a config, trained in `directory` or trained on, without evaluations.

    Raises:
        KeyboardInterrupt: it was asked to stop.
    """
    config = algorithms.load(config_path, overrides)
    experiment = algorithms.setup(config)
    result = run(config, directory, experiment=experiment, resume=True)
    print(f"{directory}: {result.iteration} iterations in {result.seconds / 60:.1f} minutes.", flush=True)
    if result.reason == "interrupted":
        raise KeyboardInterrupt
    return experiment


def meet_all(
    game: Game, players: Sequence[AnyPlayer], notes: Notes, prefix: str, plies: int = 1
) -> list[Encounter]:
    """All pairs in every opening of `plies` plies with both colours; matches go to the notes as they end."""
    openings = every_opening(game, plies)
    met = {frozenset((e.first, e.second)) for e in notes.met(prefix)}
    for pair in itertools.combinations(players, 2):
        first, second = (player.name for player in pair)
        if frozenset((first, second)) in met:
            continue

        def play(pair: tuple[AnyPlayer, ...] = pair) -> Any:
            result = next(round_robin(game, pair, key=jax.random.key(0), openings=openings))
            return [result.first, result.second, list(result.encounter.pairs)]

        notes.once(f"{prefix}{first} v. {second}", play)
    names = {player.name for player in players}
    return [e for e in notes.met(prefix) if {e.first, e.second} <= names]
