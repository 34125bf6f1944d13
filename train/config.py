"""What a run is told: the sections of a config, each key with its meaning, default and range.

`load(path, overrides)` reads a TOML file into a `Config`; `schema_toml.to_toml(config)` writes one back,
with the texts below as comments. To add a key, add one field. Nothing here imports jax.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from train import schema_toml
from train.schema import ConfigError, Value, extras, setting, settings

__all__ = [
    "CheckpointConfig",
    "Config",
    "ConfigError",
    "EvaluationConfig",
    "GameConfig",
    "LearnerConfig",
    "MeshConfig",
    "NetworkConfig",
    "RandomOpenings",
    "ReplayConfig",
    "RunConfig",
    "SearchConfig",
    "SelfplayConfig",
    "load",
]

MAY_CHANGE_ON_RESUME = ("run.iterations", "run.minutes", "run.time_table", "mesh.data", "mesh.population")
"""Keys that may differ between a run and its resumption: how long and on what, not what is learnt."""


@settings
class RunConfig:
    """The run as a whole: its name, its seed, and when it ends."""

    name: str = setting(
        "Names the run; its directory is directory/name.",
        default="run",
        pattern=r"[A-Za-z0-9_][A-Za-z0-9._-]*",
    )
    directory: str = setting("Where run directories are made.", default="runs")
    algorithm: str = setting(
        'What learns: "alphazero", "expert_iteration", "td_ntuple", "ppo" or "reinforce"; the sections '
        "between [network] and [evaluation] are the algorithm's own.",
        default="alphazero",
        pattern=r"[a-z0-9_]+",
    )
    seed: int = setting(
        "All randomness of the run follows from it; two runs that differ only in it are independent repeats.",
        default=0,
        minimum=0,
        maximum=2**32 - 1,
    )
    iterations: int = setting("Iterations after which the run ends.", default=1000, minimum=1)
    minutes: float | None = setting(
        "Minutes of running time after which the run ends, if the iterations are not done before; the time "
        "before an interruption counts, compilation counts too.",
        default=None,
        above=0,
    )
    tensorboard: bool = setting(
        "Write TensorBoard event files beside metrics.jsonl, if tensorboardX is installed.", default=True
    )
    time_table: bool = setting(
        "Say at the end where the time went, by parts of an iteration where compiling these takes at most "
        "ten seconds and a tenth of the run.",
        default=True,
    )


@settings
class GameConfig:
    """The game, by its name in the registry (`jaxsearch games` lists them) and its parameters."""

    name: str = setting("The game to learn.", pattern=r"[A-Za-z0-9_]+")
    parameters: dict[str, Value] = extras(
        'Parameters of the game follow, such as "size = 6" for Othello.', default_factory=dict
    )


@settings
class NetworkConfig:
    """The policy and value network, by name, and its options; docs/networks.md says which suits what."""

    name: str = setting(
        'The kind of network: "patterns" is the strongest per second on CPUs, "resnet" on accelerators, '
        '"mlp" the smallest.',
        default="resnet",
        pattern=r"[A-Za-z0-9_]+",
    )
    options: dict[str, Value] = extras(
        'Options of the network follow, such as "channels = 64".', default_factory=dict
    )


@settings
class SelfplayConfig:
    """Games the agent plays against itself. They persist from one iteration to the next."""

    games: int = setting("Games played at once, B of the search.", default=256, minimum=1)
    plies_per_iteration: int = setting(
        "Plies by which every game advances between two rounds of learning.", default=16, minimum=1
    )
    search: Literal["puct", "gumbel", "regularised"] = setting(
        'How moves are searched: "puct" as in AlphaZero, "gumbel" as in Gumbel AlphaZero, which learns from '
        'few simulations (under about 32) where PUCT does not; "regularised" is PUCT that plays by, and '
        "teaches, the policy its visits tend to (Grill et al. 2020).",
        default="puct",
    )
    simulations: int = setting(
        "Simulations for each move; more make better targets and fewer games.", default=32, minimum=1
    )
    dirichlet_alpha: float = setting(
        "Concentration of the exploration noise at the root (puct only); about 10 / legal moves.",
        default=1.0,
        above=0,
    )
    dirichlet_fraction: float = setting(
        "Share of that noise in the root's priors; 0 for none.", default=0.25, minimum=0, maximum=1
    )
    temperature: float = setting(
        "Moves are drawn from visits ** (1 / temperature); 0 plays the most visited move.",
        default=1.0,
        minimum=0,
    )
    temperature_plies: int = setting(
        "Plies of a game during which moves are drawn so; later the most visited move is played.",
        default=30,
        minimum=0,
    )
    random_opening_plies: int = setting(
        "A game starts with up to this many uniformly random plies, which are not learnt from.",
        default=0,
        minimum=0,
    )
    random_opening_share: float = setting(
        "Share of the games that start so; the others start at the beginning.",
        default=1.0,
        minimum=0,
        maximum=1,
    )


@settings
class RandomOpenings:
    """How whole games begin, for the algorithms that play them out."""

    random_opening_plies: int = setting(
        "Games begin with up to so many random plies, uniformly drawn; they show openings that a good player "
        "avoids. 0 for games of chance.",
        default=0,
        minimum=0,
    )
    random_opening_share: float = setting("Share of the games that do.", default=0.5, minimum=0, maximum=1)


@settings
class SearchConfig:
    """Constants of the tree search, in self-play and in evaluation."""

    c_puct: float = setting(
        "Weight of the prior against the value in PUCT; larger explores more.", default=1.25, minimum=0
    )
    c_puct_base: float = setting(
        "Visits at which that weight has grown noticeably: c_puct + log((visits + base + 1) / base).",
        default=19652.0,
        above=0,
    )
    first_play: Literal["reduction", "parent", "zero", "loss"] = setting(
        "The value assumed of a move not yet visited: that of its parent, that less a reduction, 0, or a "
        "loss.",
        default="reduction",
    )
    first_play_reduction: float = setting(
        'What "reduction" takes off, times the root of the prior mass already visited.',
        default=0.25,
        minimum=0,
        maximum=2,
    )
    considered_actions: int = setting(
        "Moves drawn at the root by Gumbel search (gumbel only).", default=16, minimum=1
    )
    gumbel_scale: float = setting(
        "Scale of the Gumbel noise in self-play (gumbel only); 0 for none.", default=1.0, minimum=0
    )


@settings
class LearnerConfig:
    """The gradient steps between two rounds of self-play."""

    optimizer: Literal["adam", "adamw", "sgd"] = setting(
        '"sgd" has momentum 0.9; "adamw" decays weights apart from the gradient.', default="adamw"
    )
    learning_rate: float = setting("The peak of the schedule.", default=1e-3, above=0)
    schedule: Literal["constant", "cosine", "linear"] = setting(
        "How the rate falls over run.iterations: not at all, or to a hundredth of it.", default="cosine"
    )
    warmup_steps: int = setting("Steps over which the rate first rises from 0.", default=0, minimum=0)
    weight_decay: float = setting("Pull of the weights towards 0.", default=1e-4, minimum=0)
    gradient_clip: float | None = setting("Largest global norm of a gradient.", default=1.0, above=0)
    batch_size: int = setting("Positions in one gradient step.", default=1024, minimum=1)
    steps_per_iteration: int = setting(
        "Gradient steps per iteration; each position is learnt from about steps * batch_size / (games * "
        "plies) times.",
        default=16,
        minimum=1,
    )
    value_loss_weight: float = setting(
        "Weight of the value loss against the policy loss.", default=1.0, minimum=0
    )
    value_target_mix: float = setting(
        "Share of the search's root value in the value target; the rest is the game's result.",
        default=0.0,
        minimum=0,
        maximum=1,
    )
    average: float = setting(
        "Self-play and players use a running average of the weights that keeps this share at each gradient "
        "step; 0 uses the newest weights.",
        default=0.0,
        minimum=0,
        maximum=0.99999,
    )
    augment: bool = setting(
        "Learn from each position under a random symmetry of the board, where the game has any.", default=True
    )
    rematerialise: bool = setting(
        "Work out parts of the network again for the gradient instead of keeping them: a fraction of a deep "
        "network's memory for about a third more time in the gradient steps.",
        default=False,
    )


@settings
class ReplayConfig:
    """The buffer of recent positions that the learner draws from."""

    capacity: int = setting(
        "Positions kept on the device; older ones are overwritten.", default=262_144, minimum=1
    )


@settings
class MeshConfig:
    """The devices that a run is spread over; docs/scaling.md says how."""

    data: int = setting(
        "Devices that share the games, the buffer and every batch; 0 for all there are. The games do not "
        "depend on it, and what is learnt only by the order in which gradients are summed.",
        default=1,
        minimum=0,
    )
    population: int = setting(
        "Devices, or groups of mesh.data devices, among which the members of a sweep's population are "
        "divided; 1 for a run alone.",
        default=1,
        minimum=1,
    )


@settings
class EvaluationConfig:
    """Matches during the run, in pairs of games with colours swapped from varied openings."""

    every: int = setting("Iterations between evaluations; 0 for none.", default=50, minimum=0)
    games: int = setting("Games against each opponent, an even number.", default=128, minimum=2)
    opponents: tuple[str, ...] = setting(
        'Whom to meet: "random", or "uct:N" for UCT with N random-playout simulations.',
        default=("random", "uct:100", "uct:1000"),
    )
    simulations: int = setting(
        "Simulations for each move of the agent; 0 plays the network's best move.", default=64, minimum=0
    )
    opening_plies: int = setting("Random plies that open each pair of games.", default=4, minimum=0)

    def check(self) -> None:
        """Colours are swapped in pairs, so the games must pair up."""
        if self.games % 2:
            raise ConfigError(f"games = {self.games} is odd; expected an even number of games.", "games")


@settings
class CheckpointConfig:
    """Snapshots of the whole state, from which the run resumes bit for bit."""

    every: int = setting(
        "Iterations between checkpoints; one is also written at the end.", default=50, minimum=1
    )
    keep: int = setting("The newest checkpoints kept.", default=3, minimum=1)
    milestone_every: int = setting(
        "Checkpoints at multiples of this many iterations are kept for good; 0 for none.",
        default=0,
        minimum=0,
    )


@settings
class Config:
    """A whole run."""

    game: GameConfig
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    selfplay: SelfplayConfig = dataclasses.field(default_factory=SelfplayConfig)
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)
    replay: ReplayConfig = dataclasses.field(default_factory=ReplayConfig)
    learner: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)

    def check(self) -> None:
        """What one iteration produces, and one batch, must fit the replay buffer."""
        produced = self.selfplay.games * self.selfplay.plies_per_iteration
        need = max(produced, self.learner.batch_size)
        if self.replay.capacity < need:
            raise ConfigError(
                f"replay.capacity = {self.replay.capacity} is too small; expected at least {need}, "
                f"the larger of selfplay.games * selfplay.plies_per_iteration = {produced} and "
                f"learner.batch_size = {self.learner.batch_size}.",
                "replay.capacity",
            )


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a config file; `overrides` are texts like `"learner.batch_size=512"`.

    Raises:
        ConfigError: one sentence that names file, key, value, what is allowed and the nearest valid name.
    """
    return schema_toml.load(Config, path, overrides)
