"""The evaluation ladder of a training run: the agent against random play, UCT and its earlier selves.

Every self that was evaluated is a player of its own, and all results of the run are rated together. The
fixed opponents also meet each other, once, so that the ladder holds even when the agent wins every game
against its lower rungs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from games_jax.game import Game
from train import checkpoint
from train.arena import MatchResult, play_match
from train.config import Config
from train.metrics import Record, read_jsonl
from train.networks import Network
from train.player_specs import make_player, search_constants
from train.players import AnyPlayer, Player, SearchName, network_player
from train.ratings import Encounter, Rating, rate
from train.run_directory import CHECKPOINTS, METRICS
from train.solo import solo_evaluation

EVALUATION_STREAM = 0x6C61
"""Sets the random numbers of evaluations apart from those of training."""

PREVIOUS_SELF = "previous self"
"""Under this name a record lists the match against the self evaluated before, so that it makes one curve."""


def evaluate(
    game: Game,
    player: Player,
    opponents: Sequence[AnyPlayer],
    *,
    games: int,
    key: jax.Array,
    opening_plies: int = 4,
) -> dict[str, MatchResult]:
    """Plays one match against each opponent; results by the opponent's name, scores those of `player`.

    Programs are compiled once per `act` of player and opponent and kept: later calls with the same
    functions and other parameters compile nothing.

    Args:
        game: a two-player game.
        player: who is evaluated.
        opponents: whom it meets.
        games: games per opponent, even.
        key: consumed.
        opening_plies: random plies of each opening.
    """
    return {
        opponent.name: play_match(
            game,
            player,
            opponent,
            games=games,
            key=jax.random.fold_in(key, number),
            opening_plies=opening_plies,
        )
        for number, opponent in enumerate(opponents)
    }


class Ladder:
    """Who has played in a run, and every result so far."""

    def __init__(
        self,
        game: Game,
        opponents: Sequence[AnyPlayer],
        *,
        games: int,
        opening_plies: int = 4,
        encounters: Iterable[Encounter] = (),
        previous: Player | None = None,
    ):
        """Sets up the ladder; nothing is played yet.

        Args:
            game: a two-player game.
            opponents: fixed opponents, weakest first; the first is the anchor with Elo 0.
            games: games per match, even.
            opening_plies: random plies of each opening.
            encounters: results so far, when a run is resumed.
            previous: the self evaluated last, when a run is resumed.

        Raises:
            ValueError: if there is no opponent, or two have the same name.
        """
        names = [opponent.name for opponent in opponents]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"A ladder needs opponents with different names, got {names}.")
        self.game = game
        self.opponents = list(opponents)
        self.games = games
        self.opening_plies = opening_plies
        self.encounters = list(encounters)
        self.previous = previous

    def rate(self, player: Player, key: jax.Array) -> dict[str, Any]:
        """Evaluates a self of the run and rates it among all who have played.

        Args:
            player: named differently from every earlier one, e.g. `"iteration 40"`. Its parameters are
                copied, so that the run may donate them.
            key: consumed.

        Returns:
            Plain numbers for a metrics file: `player`, `elo`, `elo_low`, `elo_high` (relative to the first
            opponent), `opponents` (name, or "previous self", to `MatchResult.to_dict()`), and `calibration`
            (the matches of the fixed opponents among themselves, the first time).
        """
        calibration_key, match_key = jax.random.split(key)
        calibration = self._calibrate(calibration_key)
        player = Player(player.name, player.act, jax.tree.map(jnp.copy, player.params), player.think)
        earlier = [self.previous] if self.previous else []
        results = evaluate(
            self.game,
            player,
            [*self.opponents, *earlier],
            games=self.games,
            key=match_key,
            opening_plies=self.opening_plies,
        )
        self.encounters += [result.encounter for result in results.values()]
        rating = next(r for r in self.ratings() if r.name == player.name)
        matches = {name: result.to_dict() for name, result in results.items()}
        if self.previous:
            matches[PREVIOUS_SELF] = matches.pop(self.previous.name)
        self.previous = player
        return {
            "player": player.name,
            "elo": rating.elo,
            "elo_low": rating.low,
            "elo_high": rating.high,
            "opponents": matches,
            "calibration": {name: result.to_dict() for name, result in calibration.items()},
        }

    def ratings(self) -> list[Rating]:
        """Everybody's rating, strongest first."""
        return rate(self.encounters, anchor=self.opponents[0].name)

    def _calibrate(self, key: jax.Array) -> dict[str, MatchResult]:
        """Lets neighbours among the fixed opponents meet that have not met yet."""
        met = {frozenset((e.first, e.second)) for e in self.encounters}
        results = {}
        for number, (lower, upper) in enumerate(zip(self.opponents, self.opponents[1:])):
            if frozenset((lower.name, upper.name)) in met:
                continue
            match_key = jax.random.fold_in(key, number)
            results[f"{upper.name} v. {lower.name}"] = result = play_match(
                self.game,
                upper,
                lower,
                games=self.games,
                key=match_key,
                opening_plies=self.opening_plies,
            )
            self.encounters.append(result.encounter)
        return results


def encounters_from(records: Iterable[Record]) -> list[Encounter]:
    """The encounters kept in evaluation records that hold what `Ladder.rate` returned."""
    return [
        Encounter(match["first"], match["second"], tuple(match["pairs"]))
        for record in records
        if record["kind"] == "evaluation"
        for match in (*record["calibration"].values(), *record["opponents"].values())
    ]


def _section(config: Any, name: str) -> dict[str, Any]:
    """A section of a config by key; empty if its algorithm has none of that name."""
    return dataclasses.asdict(getattr(config, name)) if hasattr(config, name) else {}


def _evaluation_search(config: Any) -> SearchName:
    """The search an agent is measured under: what it learnt from, or PUCT."""
    if hasattr(config, "expert"):
        return "policy_bonus"
    return "gumbel" if _section(config, "selfplay").get("search") == "gumbel" else "puct"


def run_evaluation(
    config: Config,
    directory: str | Path,
    *,
    game: Game,
    network: Network,
    parameters: Callable[[Any], Mapping[str, Any]],
) -> Callable[[Any, int], dict[str, Any]]:
    """The `evaluate(state, iteration)` that `train.run.run` calls, with the ladder the config asks for.

    Of a game for one player it measures what the agent earns alone; see `train.solo`.

    In a resumed run the results so far come from the run's metrics, and the previous self from the
    checkpoint of the last evaluation, if it was kept.

    Args:
        config: sections `run` (seed), `evaluation` and `search` are read.
        directory: the run's directory.
        game: the game of the run.
        network: its network.
        parameters: gives a state's network parameters, as an `Experiment` does.

    Raises:
        ValueError: if an opponent of the config is not understood.
    """
    settings = config.evaluation
    search = _evaluation_search(config)
    constants = search_constants({**_section(config, "search"), **_section(config, "expert")}, search)
    opponents = [make_player(spec, game) for spec in settings.opponents]
    base_key = jax.random.fold_in(jax.random.key(config.run.seed), EVALUATION_STREAM)
    ladder: Ladder | None = None

    def self_at(iteration: int, params: Mapping[str, Any]) -> Player:
        return network_player(
            f"iteration {iteration}",
            game,
            network,
            params,
            simulations=settings.simulations,
            search=search,
            constants=constants,
        )

    if game.num_players == 1:
        return solo_evaluation(
            game,
            opponents,
            games=settings.games,
            base_key=base_key,
            self_at=lambda state, iteration: self_at(iteration, parameters(state)),
        )

    def restored() -> Ladder:
        records = [r for r in read_jsonl(Path(directory) / METRICS) if r["kind"] == "evaluation"]
        saved = checkpoint.saved(Path(directory) / CHECKPOINTS)
        at = records[-1]["iteration"] if records else None
        previous = self_at(at, checkpoint.load_parameters(saved[at])[0]) if at in saved else None
        return Ladder(
            game,
            opponents,
            games=settings.games,
            opening_plies=settings.opening_plies,
            encounters=encounters_from(records),
            previous=previous,
        )

    def evaluate_state(state: Any, iteration: int) -> dict[str, Any]:
        nonlocal ladder
        if ladder is None:  # only now has the run cut its metrics to where it resumes
            ladder = restored()
        return ladder.rate(self_at(iteration, parameters(state)), jax.random.fold_in(base_key, iteration))

    return evaluate_state
