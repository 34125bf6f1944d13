"""A plain multi-layer perceptron on the flattened planes: knows nothing of the board, runs anywhere."""

from __future__ import annotations

import flax.linen as nn
import jax

from games_jax.game import Game
from train.networks.heads import HeadOptions, Heads
from train.networks.network import NetworkOutput
from train.schema import setting, settings


@settings
class MlpOptions(HeadOptions):
    """Options of the network "mlp"."""

    width: int = setting("Units of each hidden layer.", default=256, minimum=1)
    depth: int = setting("Hidden layers.", default=3, minimum=1)


class Mlp(nn.Module):
    """`depth` times (dense, layer norm, relu), then two linear heads."""

    num_actions: int
    options: MlpOptions

    @nn.compact
    def __call__(self, observation: jax.Array) -> NetworkOutput:
        """Judges planes `[B, ...]`."""
        dtype = self.options.dtype
        hidden = observation.reshape(observation.shape[0], -1).astype(dtype)
        for _ in range(self.options.depth):
            # The layer norm brings its own bias, so the dense layer before it needs none.
            hidden = nn.Dense(self.options.width, use_bias=False, dtype=dtype)(hidden)
            hidden = nn.relu(nn.LayerNorm(dtype=dtype)(hidden))
        return Heads(self.num_actions, self.options, name="heads")(hidden, hidden)


def mlp(game: Game, options: MlpOptions) -> Mlp:
    """The module for `game`."""
    return Mlp(game.num_actions, options)
