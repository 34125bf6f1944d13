"""What runs of REINFORCE and PPO are told; see `train.reinforce` and `train.ppo`. Imports no jax."""

from __future__ import annotations

import dataclasses

from train.config import (
    CheckpointConfig,
    ConfigError,
    EvaluationConfig,
    GameConfig,
    NetworkConfig,
    RandomOpenings,
    RunConfig,
    SearchConfig,
)
from train.schema import setting, settings

__all__ = ["PPOConfig", "PPOSettings", "ReinforceConfig", "ReinforceSettings"]


@settings
class ReinforceSettings(RandomOpenings):
    """Policy gradients on whole games against earlier selves."""

    games: int = setting("Games of one update, an even number.", default=128, minimum=2)
    updates_per_iteration: int = setting("Updates in one iteration.", default=10, minimum=1)
    pool: int = setting("Earlier selves kept; the oldest makes room.", default=20, minimum=1)
    pool_every: int = setting("Updates after which the present self joins the pool.", default=500, minimum=1)
    learning_rate: float = setting("The optimiser's (Adam).", default=1e-3, above=0)
    entropy_bonus: float = setting(
        "Weight of the policy's entropy; the paper has none.", default=0.0, minimum=0
    )
    gradient_clip: float = setting("Largest global norm of a gradient.", default=1.0, above=0)

    def check(self) -> None:
        """Half of the games are played in each seat."""
        if self.games % 2:
            raise ConfigError(f"games = {self.games} is odd; expected an even number.", "games")


@settings
class ReinforceConfig:
    """A whole run of REINFORCE."""

    game: GameConfig
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    reinforce: ReinforceSettings = dataclasses.field(default_factory=ReinforceSettings)
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)


@settings
class PPOSettings(RandomOpenings):
    """Proximal policy optimisation in self-play: one network plays all seats."""

    games: int = setting("Games played at once.", default=256, minimum=1)
    plies_per_iteration: int = setting(
        "Plies by which every game advances per iteration.", default=32, minimum=1
    )
    epochs: int = setting("Passes over an iteration's plies.", default=4, minimum=1)
    minibatches: int = setting(
        "Gradient steps per pass; must divide games * plies_per_iteration.", default=8, minimum=1
    )
    clip: float = setting(
        "Largest relative change of a move's probability that is rewarded.", default=0.2, above=0
    )
    gamma: float = setting("Discount per ply.", default=1.0, above=0, maximum=1)
    gae_lambda: float = setting(
        "Decay of the advantage's estimate over plies.", default=0.95, minimum=0, maximum=1
    )
    entropy_bonus: float = setting("Weight of the policy's entropy.", default=0.01, minimum=0)
    value_loss_weight: float = setting("Weight of the value's squared error.", default=0.5, minimum=0)
    learning_rate: float = setting("The optimiser's (Adam).", default=1e-3, above=0)
    gradient_clip: float = setting("Largest global norm of a gradient.", default=0.5, above=0)
    normalise_advantages: bool = setting(
        "Scale a minibatch's advantages to mean 0 and deviation 1.", default=True
    )

    def check(self) -> None:
        """Minibatches are equal parts."""
        if (self.games * self.plies_per_iteration) % self.minibatches:
            raise ConfigError(
                f"minibatches = {self.minibatches} does not divide games * plies_per_iteration = "
                f"{self.games * self.plies_per_iteration}.",
                "minibatches",
            )


@settings
class PPOConfig:
    """A whole run of PPO."""

    game: GameConfig
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    ppo: PPOSettings = dataclasses.field(default_factory=PPOSettings)
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)
