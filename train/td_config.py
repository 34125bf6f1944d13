"""What a TD(lambda) n-tuple run is told; see `train.td_ntuple`. Imports no jax."""

from __future__ import annotations

import dataclasses
from typing import Literal

from train.config import CheckpointConfig, ConfigError, EvaluationConfig, GameConfig, RunConfig, SearchConfig
from train.ntuple_options import NTupleOptions
from train.schema import Value, extras, setting, settings

__all__ = ["TDConfig", "TDSearchConfig", "TDSettings", "TrainingConfig"]


@settings
class TDSettings:
    """Games against itself, and how each ply changes the table."""

    games: int = setting(
        "Games played at once. Their changes to a row add up, so that many games overshoot (docs/ntuple.md); "
        "1 is the sequential algorithm.",
        default=16,
        minimum=1,
    )
    plies_per_iteration: int = setting("Plies of each game in one iteration.", default=5000, minimum=1)
    target: Literal["own", "best"] = setting(
        'What the value of a position moves towards. "own": the value of the position that the same player '
        'makes next, as in TD-FARL. "best": the best value that the next player can reach, whatever is then '
        "played, so that random moves do no harm.",
        default="own",
    )
    simulations: int = setting(
        "In these games a search of so many simulations chooses the moves, with the constants of [search]; "
        'with 0 the best successor is played. With the target "best" a position moves towards what the '
        "search found its choice worth.",
        default=0,
        minimum=0,
    )
    simulations_from: float = setting(
        "Share of the run before such a search begins; until then the best successor is played, which is "
        "some hundred times as fast.",
        default=0.0,
        minimum=0,
        maximum=1,
    )
    alpha: float = setting(
        "Step size; a weight moves by this over the number of look-ups.", default=1.0, above=0
    )
    alpha_end: float | None = setting(
        "The step size at the end, reached by equal factors; none keeps it.", default=None, above=0
    )
    alpha_constant_share: float = setting(
        "Share of the run before the step size begins to fall.", default=0.0, minimum=0, maximum=1
    )
    gamma: float = setting("Discount per target.", default=1.0, above=0, maximum=1)
    trace_decay: float = setting(
        "The lambda of TD(lambda); 0 changes one position at a time.", default=0.0, minimum=0, maximum=0.99
    )
    trace_cut: float = setting(
        "Traces weaker than this are cut: with lambda 0.5 and 0.1, four positions change.",
        default=0.1,
        above=0,
        maximum=1,
    )
    cut_traces_on_random: bool = setting("Forget the traces after a random move.", default=False)
    epsilon: float = setting("Share of random moves at the start.", default=0.1, minimum=0, maximum=1)
    epsilon_end: float = setting("The same at the end, reached linearly.", default=0.0, minimum=0, maximum=1)
    learn_from_random_moves: bool = setting(
        'Change the value of the position before a random move too ("own" only).', default=True
    )
    opening_share: float = setting(
        "Share of games that begin with random plies.", default=0.7, minimum=0, maximum=1
    )
    opening_share_end: float | None = setting(
        "The same at the end, reached linearly; none keeps it.", default=None, minimum=0, maximum=1
    )
    opening_plies: tuple[int, ...] = setting(
        "Least and largest number of those plies.", default=(4, 4), minimum=0
    )
    max_plies: int | None = setting(
        "Games are given up after so many plies, without a lesson; none plays all to the end.",
        default=None,
        minimum=1,
    )
    terminal_to_zero: bool = setting(
        'At the end of a game also move the value of the last position towards 0 ("own" only).', default=True
    )
    coherence: Literal["none", "identity", "exp"] = setting(
        "Step sizes by temporal coherence: for each weight x = |N| / A, N the sum of its wanted changes and "
        'A that of their sizes. "identity" takes x, "exp" takes exp(coherence_beta * (x - 1)), "none" 1.',
        default="exp",
    )
    coherence_beta: float = setting('The beta of "exp".', default=2.7, minimum=0)
    coherence_init: float = setting("What N and A begin with.", default=1e-4, above=0)
    collisions: Literal["sum", "mean"] = setting(
        "Changes that several games make to one row in the same ply: added up, or their mean.", default="sum"
    )
    average: float = setting(
        "Players use a running average of the weights that keeps this share at each iteration; 0 uses the "
        "newest weights.",
        default=0.0,
        minimum=0,
        maximum=0.9999,
    )

    def check(self) -> None:
        """An opening has a least and a largest length."""
        if len(self.opening_plies) != 2 or self.opening_plies[0] > self.opening_plies[1]:
            raise ConfigError(
                f"opening_plies = {list(self.opening_plies)} is no range; expected two numbers, the smaller "
                "one first.",
                "opening_plies",
            )


@settings
class TrainingConfig:
    """How the game differs while it is learnt; what is learnt is kept and measured as the game of [game]."""

    parameters: dict[str, Value] = extras(
        'Parameters of the game follow, such as "scramble = [1, 13]" for a cube.', default_factory=dict
    )


@settings
class TDSearchConfig(SearchConfig):
    """Constants of the tree search with which the agent plays, and learns if `td.simulations` says so."""

    solver: bool = setting(
        "Back up proven wins, losses and draws, so that endings are played exactly: for games that end in "
        "-1, 0 or 1. Cubes have rewards on the way.",
        default=False,
    )


@settings
class TDConfig:
    """A whole run of TD(lambda) with an n-tuple network."""

    game: GameConfig
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    network: NTupleOptions = dataclasses.field(default_factory=NTupleOptions)
    td: TDSettings = dataclasses.field(default_factory=TDSettings)
    search: TDSearchConfig = dataclasses.field(default_factory=TDSearchConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)
