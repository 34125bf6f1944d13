"""What an Expert Iteration run is told; see `train.expert_iteration`. Imports no jax."""

from __future__ import annotations

import dataclasses
from typing import Literal

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

__all__ = ["DataConfig", "ExItConfig", "ExpertConfig", "FitConfig"]


@settings
class ExpertConfig:
    """The expert: a tree search that says what should have been played."""

    simulations: int = setting("Simulations for each position labelled.", default=400, minimum=1)
    evaluations: int | None = setting(
        "Of them, those whose leaves the apprentice judges, the first ones; none: all. Playouts alone judge "
        "the others' leaves.",
        default=None,
        minimum=0,
    )
    improves: bool = setting(
        "The expert is guided by the newest apprentice. Without, it stays the search without a network, and "
        "the run is imitation learning with DAgger.",
        default=True,
    )
    c: float = setting("Exploration of the search without a network.", default=0.25, minimum=0)
    c_guided: float = setting("The same with a network.", default=0.05, minimum=0)
    c_rave: float = setting(
        "How long moves played later count (all moves as first); 0 for never.", default=3000.0, minimum=0
    )
    policy_weight: float | None = setting(
        "Weight of the apprentice's policy in the search; none: simulations / number of actions.",
        default=None,
        minimum=0,
    )
    policy_temperature: float = setting("The apprentice's logits are divided by it.", default=0.1, above=0)
    playout_weight: float = setting(
        "Share of a random playout in a leaf's value, the rest is the apprentice's value: 1 for policies "
        "alone, 4 / 7 in the paper with a value, 0 for no playouts.",
        default=1.0,
        minimum=0,
        maximum=1,
    )
    solver: bool = setting(
        "The search proves wins and losses where it can, and searches no further there; see "
        "jaxsearch.policy_bonus.",
        default=False,
    )
    batch: int = setting("Positions labelled at once, B of the search.", default=256, minimum=1)

    @property
    def asked(self) -> int:
        """How often a search asks the apprentice, once for the root included."""
        most = self.simulations if self.evaluations is None else self.evaluations
        return 1 + min(most, self.simulations)


@settings
class DataConfig(RandomOpenings):
    """Where the positions come from, what is learnt from them, and how long they are kept."""

    variant: Literal["batch", "buffer", "exponential"] = setting(
        '"batch" learns from an iteration\'s positions alone, "buffer" from the newest `capacity`, '
        '"exponential" from all there are, whose number grows by `growth`.',
        default="exponential",
    )
    positions: int = setting(
        "Positions of an iteration (of the first one, if their number grows); made in batches of "
        "expert.batch.",
        default=8192,
        minimum=1,
    )
    capacity: int = setting("Positions kept.", default=131_072, minimum=1)
    growth: float = setting(
        "Share by which the data grow each iteration (exponential only).", default=0.1, above=0
    )
    states: Literal["one_per_game", "every"] = setting(
        'Positions to label: "one_per_game" draws one from each game of the apprentice, so that they are '
        'independent; "every" takes all plies of `expert.batch` games that the expert plays against itself.',
        default="one_per_game",
    )
    temperature: float = setting(
        "Games that positions come from are played by sampling: from the policy ** (1 / temperature), or "
        "from an expert's visits.",
        default=1.0,
        minimum=0,
    )
    first_simulations: int = setting(
        "Simulations of the search that plays the first games, before there is an apprentice.",
        default=100,
        minimum=1,
    )
    policy_target: Literal["tree", "action", "regularised"] = setting(
        '"tree": the shares of the root\'s visits (TPT). "action": the most visited move (CAT). '
        '"regularised": the policy that the visits stand for, by Grill et al.',
        default="tree",
    )
    value_target: Literal["none", "playout", "game", "root"] = setting(
        '"playout": the result of a game that the apprentice plays on from the position. "game": the result '
        'of the game that it comes from. "root": what the expert\'s search thinks. "none": no value is '
        "learnt.",
        default="none",
    )


@settings
class FitConfig:
    """Learning from the data: until the loss on held-out positions no longer falls."""

    reset: bool = setting(
        "Begin each iteration with new weights; without, go on with the last ones.", default=True
    )
    learning_rate: float = setting("Adam's.", default=1e-3, above=0)
    schedule: Literal["constant", "cosine"] = setting(
        'How it goes within an iteration: "cosine" rises over the first twentieth of `max_epochs` and falls '
        "to 0 along a cosine until their end, so that the weights come to rest.",
        default="constant",
    )
    weight_decay: float = setting(
        "Pull of the weights towards 0; early stopping takes its place.", default=0.0, minimum=0
    )
    batch_size: int = setting("Positions in one gradient step.", default=256, minimum=1)
    held_out: int = setting("One position in so many is held out.", default=10, minimum=2)
    patience: int = setting(
        "Epochs without a new lowest loss on them after which learning stops; the best weights stay.",
        default=2,
        minimum=1,
    )
    max_epochs: int = setting("Passes over the data at most.", default=20, minimum=1)
    value_loss_weight: float = setting("Weight of the value loss.", default=1.0, minimum=0)
    epoch_steps: int | None = setting(
        "Gradient steps of an epoch; none: as many as make a pass over the data. Few of them and "
        "max_epochs = 1 suit an online run that goes on with its last weights.",
        default=None,
        minimum=1,
    )
    augment: bool = setting("Learn from each position under a random symmetry.", default=True)


@settings
class ExItConfig:
    """A whole run of Expert Iteration."""

    game: GameConfig
    run: RunConfig = dataclasses.field(default_factory=RunConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    expert: ExpertConfig = dataclasses.field(default_factory=ExpertConfig)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    fit: FitConfig = dataclasses.field(default_factory=FitConfig)
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = dataclasses.field(default_factory=CheckpointConfig)

    def check(self) -> None:
        """The first positions must fit, and be enough to hold some out."""
        data, batch = self.data, self.expert.batch
        if not batch <= data.positions <= data.capacity:
            raise ConfigError(
                f"data.positions = {data.positions} is out of range; expected at least expert.batch = "
                f"{batch} and at most data.capacity = {data.capacity}.",
                "data.positions",
            )
        if batch < self.fit.held_out:
            raise ConfigError(
                f"fit.held_out = {self.fit.held_out} holds nothing out of a batch; expected at most "
                f"expert.batch = {batch}.",
                "fit.held_out",
            )
        if self.expert.playout_weight == 0 and self.expert.asked <= self.expert.simulations:
            raise ConfigError(
                f"expert.evaluations = {self.expert.evaluations} leaves the other leaves to playouts, and "
                "expert.playout_weight = 0 has none; expected a weight above 0, or no expert.evaluations.",
                "expert.evaluations",
            )
        if self.expert.playout_weight < 1 and data.value_target == "none":
            raise ConfigError(
                f"expert.playout_weight = {self.expert.playout_weight:g} asks for values that are not "
                'learnt; expected 1, or another data.value_target than "none".',
                "expert.playout_weight",
            )
