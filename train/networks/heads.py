"""What the networks share: the options of all of them, and the policy and value heads."""

from __future__ import annotations

from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from train.networks.network import NetworkOutput
from train.schema import setting, settings

# Small last layers: a new network starts near the uniform policy and the value 0, so that the first
# searches follow the rules of the game and not the noise of the initialisation.
SMALL_INIT = nn.initializers.variance_scaling(0.01, "fan_in", "truncated_normal")


@settings
class HeadOptions:
    """The options that every network has."""

    value_head: Literal["scalar", "wdl"] = setting(
        'How the value is read off: "scalar" is one tanh; "wdl" is p(win) - p(loss) of a softmax over win, '
        "draw and loss, which keeps apart a sure draw and a coin toss.",
        default="scalar",
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "What is computed in; parameters and outputs are float32 either way. bfloat16 is faster on "
        "accelerators and slower on CPUs.",
        default="float32",
    )


def value_from_logits(value_logits: jax.Array) -> jax.Array:
    """`p(win) - p(loss)` `[B]` of logits `[B, 3]` over (win, draw, loss)."""
    probabilities = jax.nn.softmax(value_logits, axis=-1)
    # The two sums round separately: without the clip a sure win can read 1.0000001.
    return jnp.clip(probabilities[:, 0] - probabilities[:, 2], -1.0, 1.0)


class Heads(nn.Module):
    """Two linear read-outs: policy logits from one feature vector, the value from another."""

    num_actions: int
    options: HeadOptions

    @nn.compact
    def __call__(self, policy_features: jax.Array, value_features: jax.Array) -> NetworkOutput:
        """Maps features `[B, F]` and `[B, G]` to a `NetworkOutput`, float32."""
        dtype = self.options.dtype
        policy = nn.Dense(self.num_actions, kernel_init=SMALL_INIT, dtype=dtype, name="policy")
        policy_logits = policy(policy_features).astype(jnp.float32)
        wdl = self.options.value_head == "wdl"
        value = nn.Dense(3 if wdl else 1, kernel_init=SMALL_INIT, dtype=dtype, name="value")
        value_logits = value(value_features).astype(jnp.float32)
        if wdl:
            return NetworkOutput(policy_logits, value_from_logits(value_logits), value_logits)
        return NetworkOutput(policy_logits, jnp.tanh(value_logits[:, 0]), None)
