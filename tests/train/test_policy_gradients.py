"""PPO and REINFORCE: their formulas by hand, whole runs on small games, and what they refuse."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import games_jax
from train import ppo, reinforce
from train.config import ConfigError, GameConfig, NetworkConfig
from train.networks import make_network
from train.policy_gradient_config import PPOConfig, PPOSettings, ReinforceConfig, ReinforceSettings

HEX = games_jax.make("hex", size=3)
SMALL = NetworkConfig(name="mlp", options={"width": 32, "depth": 1})


def game_config(name="hex", **parameters):
    return GameConfig(name=name, parameters=parameters or {"size": 3})


class TestAdvantages:
    @staticmethod
    def plies(rewards, values, movers, over):
        column = lambda x, kind: jnp.asarray(x, kind)[:, None]  # noqa: E731
        nothing = jnp.zeros((len(rewards), 1))
        return ppo.Plies(
            nothing,
            nothing,
            nothing,
            nothing,
            column(values, jnp.float32),
            column(movers, jnp.int32),
            column(rewards, jnp.float32),
            column(over, bool),
        )

    def test_by_hand(self):
        """Three plies, the last two by the same player, the second game begins after the end."""
        plies = self.plies([0, 0, 1], [0.1, 0.2, 0.4], [0, 1, 1], [False, False, True])
        found = ppo.advantages(plies, jnp.array([0.9]), jnp.array([0]), gamma=0.9, gae_lambda=0.5)[:, 0]
        last = 1 - 0.4  # nothing follows the end
        middle = (0.9 * 0.4 - 0.2) + 0.9 * 0.5 * last  # the same player moves again
        first = (-0.9 * 0.2 - 0.1) - 0.9 * 0.5 * middle  # the other one moves next
        np.testing.assert_allclose(found, [first, middle, last], rtol=1e-6)

    def test_the_position_after_the_last_ply_counts(self):
        plies = self.plies([0.0], [0.3], [0], [False])
        for mover, sign in ((0, 1), (1, -1)):
            found = ppo.advantages(plies, jnp.array([0.8]), jnp.array([mover]), gamma=1.0, gae_lambda=1.0)
            np.testing.assert_allclose(found, [[sign * 0.8 - 0.3]], rtol=1e-6)

    def test_with_lambda_one_it_is_the_result_less_the_value(self):
        rng = np.random.default_rng(0)
        values = rng.uniform(-1, 1, 6)
        movers = np.arange(6) % 2
        plies = self.plies([0, 0, 0, 0, 0, 1], values, movers, [False] * 5 + [True])
        found = ppo.advantages(plies, jnp.zeros(1), jnp.zeros(1, jnp.int32), gamma=1.0, gae_lambda=1.0)[:, 0]
        np.testing.assert_allclose(found, np.where(movers == 1, 1, -1) - values, rtol=1e-5)


class TestLosses:
    @pytest.fixture
    def network(self):
        return make_network("mlp", HEX, width=16, depth=1)

    def plies(self, network, variables, count=8):
        states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), count))
        observations = jax.vmap(lambda s: HEX.observe(s, HEX.current_player(s)))(states)
        out = network.apply(variables, observations)
        actions = jnp.arange(count, dtype=jnp.int32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(out.policy_logits), actions[:, None], 1)[:, 0]
        nothing = jnp.zeros(count)
        legal = jnp.ones((count, 9), bool)
        return ppo.Plies(observations, legal, actions, chosen, out.value, actions, nothing, nothing > 0)

    def test_ppo_at_the_old_policy_is_the_policy_gradient(self, network):
        variables = network.init(jax.random.key(1))
        plies = self.plies(network, variables)
        advantage = jnp.linspace(-1, 1, 8)
        settings = PPOSettings(
            entropy_bonus=0.0,
            value_loss_weight=0.0,
            normalise_advantages=False,
            games=8,
            plies_per_iteration=1,
        )

        def plain(variables):
            out = network.apply(variables, plies.observations)
            log_policy = jax.nn.log_softmax(out.policy_logits)
            return -jnp.mean(advantage * jnp.take_along_axis(log_policy, plies.actions[:, None], 1)[:, 0])

        clipped = lambda v: ppo.ppo_loss(network, settings, v, plies, advantage, advantage)[0]  # noqa: E731
        mine, theirs = jax.grad(clipped)(variables), jax.grad(plain)(variables)
        chex.assert_trees_all_close(mine, theirs, atol=1e-6)

    def test_beyond_the_clip_nothing_more_is_gained(self, network):
        variables = network.init(jax.random.key(1))
        plies = self.plies(network, variables)
        settings = PPOSettings(entropy_bonus=0.0, value_loss_weight=0.0, normalise_advantages=False, clip=0.1)
        far = plies._replace(log_probabilities=plies.log_probabilities - 1.0)  # the ratio is e
        gain = lambda v, sign: ppo.ppo_loss(network, settings, v, far, sign * jnp.ones(8), jnp.zeros(8))  # noqa: E731
        loss, metrics = gain(variables, 1.0)
        np.testing.assert_allclose(loss, -1.1, rtol=1e-5)
        assert metrics["clipped"] == 1
        assert optax.tree.norm(jax.grad(lambda v: gain(v, 1.0)[0])(variables)) == 0
        assert optax.tree.norm(jax.grad(lambda v: gain(v, -1.0)[0])(variables)) > 0

    def test_reinforce_counts_moves_of_games_that_are_on(self, network):
        variables = network.init(jax.random.key(1))
        states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), 4))
        actions, on = jnp.arange(4, dtype=jnp.int32), jnp.array([True, True, False, True])
        returns = jnp.array([1.0, -1.0, 1.0, 1.0])
        loss, metrics = reinforce.policy_gradient_loss(
            HEX, network, variables, reinforce.Moves(states, actions, on), returns, entropy_bonus=0.0
        )
        observation = HEX.observe(HEX.init(jax.random.key(0)), jnp.int32(0))[None]
        log_policy = jax.nn.log_softmax(network.apply(variables, observation).policy_logits[0])
        np.testing.assert_allclose(loss, -(log_policy[0] - log_policy[1] + log_policy[3]) / 3, rtol=1e-5)
        np.testing.assert_allclose(metrics["entropy"], -jnp.sum(jnp.exp(log_policy) * log_policy), rtol=1e-5)


@functools.cache
def ppo_run():
    settings = PPOSettings(games=64, plies_per_iteration=16, minibatches=4, epochs=4, learning_rate=3e-3)
    experiment = ppo.setup(PPOConfig(game=game_config(), network=SMALL, ppo=settings))
    states = [experiment.init(0)]
    for _ in range(40):
        state, metrics = experiment.iterate(jax.tree.map(jnp.copy, states[-1]))
        states.append(state)
    return experiment, states, metrics


@functools.cache
def reinforce_run():
    settings = ReinforceSettings(games=64, updates_per_iteration=10, pool=3, pool_every=8, learning_rate=5e-3)
    experiment = reinforce.setup(ReinforceConfig(game=game_config(), network=SMALL, reinforce=settings))
    states = [experiment.init(0)]
    for _ in range(12):
        state, metrics = experiment.iterate(jax.tree.map(jnp.copy, states[-1]))
        states.append(state)
    return experiment, states, metrics


def opening(experiment, state):
    start = HEX.init(jax.random.key(0))
    return experiment.network.apply(experiment.parameters(state), HEX.observe(start, jnp.int32(0))[None])


@pytest.mark.parametrize("run", [ppo_run, reinforce_run])
def test_a_small_game_is_learnt(run):
    """The learner finds, from nothing, an opening that wins, and is sure of it."""
    experiment, states, _ = run()
    chex.assert_tree_all_finite(states[-1].variables)
    policy = jax.nn.softmax(opening(experiment, states[-1]).policy_logits[0])
    assert sum(policy[HEX.action_from_string(cell)] for cell in ("c1", "a2", "b2", "c2", "a3")) > 0.8


@pytest.mark.parametrize("run", [ppo_run, reinforce_run])
def test_the_same_seed_gives_the_same_run(run):
    experiment, states, _ = run()
    again, _ = experiment.iterate(jax.tree.map(jnp.copy, states[3]))
    chex.assert_trees_all_equal(again, states[4])


def test_ppo_values_the_start_as_won():
    experiment, states, _ = ppo_run()
    assert opening(experiment, states[-1]).value[0] > 0.5


def test_ppo_counts_what_it_spends():
    _, states, metrics = ppo_run()
    assert float(states[-1].evaluations) == 40 * 64 * 16 == float(metrics["network_evaluations"])
    assert 0 < float(metrics["entropy"]) < np.log(9) and float(metrics["clipped"]) < 0.5


def test_reinforce_keeps_the_newest_selves():
    _, states, metrics = reinforce_run()
    assert int(states[-1].updates) == 120 and int(states[-1].pool_size) == 1 + 120 // 8
    final = [jax.tree.map(lambda leaf, i=i: leaf[i], states[-1].pool) for i in range(3)]
    # Updates 104, 112 and 120 are in slots 13, 14 and 15 modulo 3; the last is the present self.
    chex.assert_trees_all_equal(final[15 % 3], states[-1].variables)
    assert metrics["games"] == 640 and metrics["won"] > 0.4


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (ppo, {"ppo": PPOSettings(games=64, plies_per_iteration=1, minibatches=1, random_opening_plies=4)}),
        (
            reinforce,
            {"reinforce": ReinforceSettings(games=64, updates_per_iteration=1, random_opening_plies=4)},
        ),
    ],
)
def test_games_may_begin_after_a_few_random_plies(module, settings):
    """Fewer plies are left to play of a game, and the learner moves first in some of each half."""
    config = PPOConfig if module is ppo else ReinforceConfig
    experiment = module.setup(config(game=game_config(), network=SMALL, **settings))
    state, metrics = experiment.iterate(experiment.init(0))
    if module is ppo:
        stones = 9 - np.asarray(jax.vmap(HEX.legal_actions)(experiment.init(0).states)).sum(axis=1)
        assert set(stones) == {0, 1, 2, 3, 4}
    chex.assert_tree_all_finite(state.variables)
    assert metrics["plies"] <= 64 * 9


def test_what_cannot_be_learnt_so_is_refused():
    with pytest.raises(ConfigError, match="for two players; cube2 has 1"):
        reinforce.setup(ReinforceConfig(game=GameConfig(name="cube2"), network=SMALL))
    with pytest.raises(ConfigError, match="minibatches = 7 does not divide"):
        PPOSettings(games=4, plies_per_iteration=4, minibatches=7)
    with pytest.raises(ConfigError, match="games = 3 is odd"):
        ReinforceSettings(games=3)
