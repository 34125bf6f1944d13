import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from games_jax.multi_agent import single_player_view
from games_jax.opponents import FixedModel, RandomModel
from games_jax.pommerman import Pommerman
from train import demonstrations
from train.exit_config import FitConfig
from train.imitation import fit
from train.networks import make_network

GAME = Pommerman(mode="one_v_one", max_steps=30)


@pytest.fixture(scope="module")
def recorded():
    record = jax.jit(functools.partial(demonstrations.record, games=6, steps=70), static_argnums=(0, 1))
    return jax.device_get(record(GAME, RandomModel(GAME), jax.random.key(0)))


def test_games_follow_their_rules_and_start_anew(recorded):
    after = jax.vmap(jax.vmap(GAME.step))(recorded.states, recorded.actions)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(GAME.is_over))(after), recorded.over)
    assert recorded.over.any()
    goes_on = ~recorded.over[:-1]
    for new, seen in zip(jax.tree.leaves(after), jax.tree.leaves(recorded.states), strict=True):
        np.testing.assert_array_equal(np.asarray(new)[:-1][goes_on], np.asarray(seen)[1:][goes_on])


def test_returns_are_the_outcome_of_the_games_end(recorded):
    values, known = jax.device_get(demonstrations.returns(recorded))
    for b in range(recorded.over.shape[1]):
        ends = np.flatnonzero(recorded.over[:, b])
        for t in range(len(recorded.over)):
            later = ends[ends >= t]
            if not len(later):
                assert not known[t, b].any()
                continue
            np.testing.assert_array_equal(values[t, b], recorded.outcomes[later[0], b])
            np.testing.assert_array_equal(known[t, b], recorded.playing[t, b])


@pytest.mark.slow  # compiles a fit
def test_a_row_is_a_position_seen_by_its_player(recorded):
    view = single_player_view(GAME, FixedModel())
    data = demonstrations.dataset(view, recorded)
    assert len(data.usable) == 70 * 6 * GAME.num_players
    assert int(jnp.sum(data.usable)) == int(demonstrations.returns(recorded)[1].sum())
    network = make_network("rise", view, channels=8, expansion=2, blocks=1, late_blocks=0, value_width=8)
    settings = FitConfig(batch_size=64, max_epochs=2, patience=2)
    variables = network.init(jax.random.key(1))
    _, metrics = jax.jit(functools.partial(fit, view, network, settings, with_value=True))(
        variables, data, jax.random.key(2)
    )
    assert float(metrics["policy_loss"]) < np.log(6) + 0.1 and np.isfinite(float(metrics["value_loss"]))
