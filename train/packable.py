"""Which settings the members of one population may differ in. Imports no jax."""

from __future__ import annotations

PACKABLE = (
    "run.seed",
    "selfplay.dirichlet_alpha",
    "selfplay.dirichlet_fraction",
    "selfplay.temperature",
    "selfplay.temperature_plies",
    "selfplay.random_opening_share",
    "search.c_puct",
    "search.c_puct_base",
    "search.first_play_reduction",
    "learner.learning_rate",
    "learner.weight_decay",
    "learner.value_loss_weight",
    "learner.value_target_mix",
)
"""Numbers that change no shape of a program."""
