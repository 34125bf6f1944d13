"""Imitation and Expert Iteration: episodes, data, targets, fitting, and small runs of every kind."""

import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
import jaxsearch
from games_jax.hex import Hex
from train import imitation
from train.config import ConfigError, GameConfig, NetworkConfig
from train.episodes import play_out, starts
from train.exit_config import DataConfig, ExItConfig, ExpertConfig, FitConfig
from train.expert_iteration import setup, vanilla_expert
from train.networks import make_network

HEX = games_jax.make("hex", size=3)


def config(*, data: dict | None = None, expert: dict | None = None, fit: dict | None = None) -> ExItConfig:
    return ExItConfig(
        game=GameConfig(name="hex", parameters={"size": 3}),
        network=NetworkConfig(name="mlp", options={"width": 16, "depth": 1}),
        expert=ExpertConfig(**{"simulations": 8, "batch": 16, **(expert or {})}),
        data=DataConfig(**{"positions": 32, "capacity": 64, "first_simulations": 4, **(data or {})}),
        fit=FitConfig(**{"batch_size": 16, "max_epochs": 3, "held_out": 8, **(fit or {})}),
    )


class HexByChance(Hex):
    """What it says of itself; nothing is drawn."""

    has_chance = True


@functools.cache
def first_move_player(game):
    """Plays the first legal action."""
    return lambda key, states: jnp.argmax(jax.vmap(game.legal_actions)(states), axis=-1).astype(jnp.int32)


class TestEpisodes:
    def test_games_are_played_to_the_end_and_one_position_of_each_is_kept(self):
        """The first player's row a1 b1 c1 ... does not join top and bottom; seven plies decide on 3x3."""
        states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), 400))
        run = jax.jit(lambda key: play_out(HEX, first_move_player(HEX), key, states))
        episodes = run(jax.random.key(1))
        length, winner = 0, HEX.init(jax.random.key(0))
        while not HEX.is_over(winner):
            winner = HEX.step(winner, jnp.argmax(HEX.legal_actions(winner)).astype(jnp.int32))
            length += 1
        np.testing.assert_array_equal(episodes.plies, length)
        np.testing.assert_array_equal(episodes.totals, np.tile(HEX.rewards(winner), (400, 1)))
        np.testing.assert_array_equal(episodes.returns, episodes.totals)
        assert int(episodes.rounds) == length
        # Every ply is kept equally often: 400 draws, 5 standard deviations.
        stones = np.asarray(jax.vmap(lambda s: jnp.sum(~HEX.legal_actions(s)))(episodes.picked))
        counts = np.bincount(stones, minlength=length)
        assert len(counts) == length and np.all(np.abs(counts - 400 / length) < 5 * np.sqrt(400 / length))

    def test_finished_games_wait(self):
        over = HEX.from_string("a1 b1 a2 b2 a3")
        states = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), over)
        episodes = jax.jit(lambda key: play_out(HEX, first_move_player(HEX), key, states))(jax.random.key(0))
        assert int(episodes.rounds) == 0 and not episodes.totals.any()
        chex.assert_trees_all_equal(episodes.picked, states)

    def test_games_may_begin_after_a_few_random_plies(self):
        begun = starts(HEX, jax.random.key(0), 400, opening_plies=3, opening_share=0.5)
        stones = np.asarray(jax.vmap(lambda s: jnp.sum(~HEX.legal_actions(s)))(begun))
        counts = np.bincount(stones, minlength=4)
        # Half of the games have 0 to 3 plies, the others none; 5 standard deviations.
        assert len(counts) == 4 and np.all(np.abs(counts - [250, 50, 50, 50]) < 5 * np.sqrt(50))
        plain = starts(HEX, jax.random.key(0), 4)
        chex.assert_trees_all_equal(plain, jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), 4)))
        with pytest.raises(ConfigError, match=r"does not go with hex.*, a game of chance; expected 0"):
            starts(HexByChance(size=3), jax.random.key(0), 4, opening_plies=1)


class TestData:
    def test_the_oldest_rows_are_overwritten_first(self):
        data = imitation.new_dataset(HEX, 4)
        for number in range(3):
            states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), 2))
            weights = jnp.full((2, 9), number, jnp.float32)
            data = imitation.insert(HEX, data, states, weights, jnp.ones(2), jnp.ones(2, bool))
        np.testing.assert_array_equal(data.weights[:, 0], [2, 2, 1, 1])
        assert (int(data.cursor), int(data.filled)) == (2, 4)
        with pytest.raises(ValueError, match="do not divide"):
            imitation.insert(HEX, data, states, weights[:1], jnp.ones(3), jnp.ones(3, bool))

    @pytest.mark.parametrize("held_out", [2, 3, 10])
    def test_every_row_is_held_out_or_learnt_from(self, held_out):
        rows = 37
        held = np.arange(0, rows, held_out)
        learnt = imitation.training_row(jnp.arange(rows - len(held)), held_out)
        np.testing.assert_array_equal(np.sort(np.concatenate([held, learnt])), np.arange(rows))

    def test_targets_of_a_search(self):
        states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), 4))
        search = jaxsearch.puct(HEX, jaxsearch.uniform(HEX), simulations=30, keep_tree=True)
        out = jax.jit(search)(jax.random.key(1), states)
        tree = imitation.policy_target("tree", out)
        np.testing.assert_allclose(tree, out.visits / out.visits.sum(1, keepdims=True), rtol=1e-6)
        action = imitation.policy_target("action", out)
        np.testing.assert_array_equal(action.argmax(1), out.visits.argmax(1))
        np.testing.assert_array_equal(np.sort(action, axis=1)[:, -2:], [[0, 1]] * 4)
        regularised = imitation.policy_target("regularised", out)
        np.testing.assert_allclose(regularised.sum(1), 1, rtol=1e-5)
        assert np.abs(regularised - tree).max() > 1e-3

    def test_an_expert_with_a_solver_teaches_only_what_wins(self):
        """After b1 a2 b2 a3 only b3 joins top and bottom at once."""
        states = jax.tree.map(lambda leaf: leaf[None], HEX.from_string("b1 a2 b2 a3"))
        taught = {}
        for solver in (False, True):
            settings = ExpertConfig(simulations=60, solver=solver)
            search = vanilla_expert(HEX, settings, settings.simulations)
            taught[solver] = jax.jit(search)(jax.random.key(0), states).weights[0]
        np.testing.assert_array_equal(taught[True], np.eye(9)[HEX.action_from_string("b3")])
        assert taught[False].max() < 1


class TestFit:
    @staticmethod
    def data(rng, rows=64):
        """Positions after one stone, each with a policy of its own."""
        first = jnp.arange(rows, dtype=jnp.int32) % 9
        states = jax.vmap(HEX.init)(jax.random.split(jax.random.key(0), rows))
        states = jax.vmap(HEX.step)(states, first)
        policies = rng.dirichlet(np.ones(9), 9) * (1 - np.eye(9))
        policies /= policies.sum(1, keepdims=True)
        values = jnp.linspace(-0.8, 0.8, 9)[first]
        weights = jnp.asarray(policies, jnp.float32)[first]
        return imitation.insert(
            HEX, imitation.new_dataset(HEX, rows), states, weights, values, jnp.ones(rows, bool)
        )

    def test_loss_falls_to_the_targets_entropy(self):
        network = make_network("mlp", HEX, width=64, depth=1)
        data = self.data(np.random.default_rng(0))
        settings = FitConfig(
            batch_size=64, max_epochs=400, patience=400, held_out=8, learning_rate=1e-2, augment=False
        )
        fit = functools.partial(imitation.fit, HEX, network, settings, with_value=True)
        fitted, metrics = jax.jit(fit)(network.init(jax.random.key(0)), data, jax.random.key(1))
        chex.assert_tree_all_finite(fitted)
        assert float(metrics["policy_loss"]) >= float(metrics["target_entropy"]) - 1e-4
        np.testing.assert_allclose(metrics["policy_loss"], metrics["target_entropy"], atol=0.02)
        assert metrics["value_loss"] < 0.01 and metrics["policy_error"] == 0

    def test_an_epoch_may_be_a_few_steps(self):
        network = make_network("mlp", HEX, width=8, depth=1)
        settings = FitConfig(batch_size=16, max_epochs=1, held_out=8, epoch_steps=7)
        fit = functools.partial(imitation.fit, HEX, network, settings, with_value=True)
        data = self.data(np.random.default_rng(0))
        _, metrics = jax.jit(fit)(network.init(jax.random.key(0)), data, jax.random.key(1))
        assert (int(metrics["epochs"]), int(metrics["steps"])) == (1, 7)

    def test_a_cosine_rises_to_the_rate_and_falls_to_0(self):
        settings = FitConfig(learning_rate=0.5, schedule="cosine")
        rates = np.asarray(jax.vmap(imitation.learning_rate(settings, jnp.int32(200)))(jnp.arange(200)))
        assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) < 0).all()
        np.testing.assert_allclose(rates[[0, 10, 105, 199]], [0.05, 0.5, 0.25, 0], atol=1e-3)
        short = imitation.learning_rate(settings, jnp.int32(1))
        assert 0 < float(short(jnp.int32(0))) <= 0.5
        constant = imitation.learning_rate(FitConfig(learning_rate=0.5), jnp.int32(200))
        assert float(constant(jnp.int32(199))) == 0.5

    def test_with_a_cosine_the_weights_come_to_rest(self):
        network = make_network("mlp", HEX, width=64, depth=1)
        data = self.data(np.random.default_rng(0))
        losses = []
        for schedule in ("constant", "cosine"):
            settings = FitConfig(
                batch_size=8, max_epochs=40, patience=40, held_out=8, learning_rate=3e-2, schedule=schedule
            )
            fit = functools.partial(imitation.fit, HEX, network, settings, with_value=True)
            _, metrics = jax.jit(fit)(network.init(jax.random.key(0)), data, jax.random.key(1))
            losses.append(float(metrics["policy_loss"]))
        assert losses[1] < losses[0]

    def test_learning_stops_when_unseen_positions_are_no_longer_predicted_better(self):
        """Targets that are noise: nothing learnt from some rows helps with the others."""
        network = make_network("mlp", HEX, width=64, depth=2)
        rng = np.random.default_rng(1)
        data = self.data(rng)
        noise = rng.dirichlet(np.full(9, 0.1), 64).astype(np.float32)
        data = data._replace(weights=jnp.asarray(noise))
        settings = FitConfig(batch_size=16, max_epochs=200, patience=3, held_out=4, learning_rate=3e-3)
        fit = functools.partial(imitation.fit, HEX, network, settings, with_value=False)
        _, metrics = jax.jit(fit)(network.init(jax.random.key(0)), data, jax.random.key(1))
        assert int(metrics["epochs"]) < 100


@functools.cache
def run(**options):
    experiment = setup(config(**{key: dict(value) for key, value in options.items()}))
    states, metrics = [experiment.init(0)], []
    for _ in range(3):
        state, found = experiment.iterate(jax.tree.map(jnp.copy, states[-1]))
        states.append(state)
        metrics.append({name: float(value) for name, value in found.items()})
    return experiment, states, metrics


class TestRuns:
    def test_exponential_data_grow_by_whole_batches(self):
        _, states, metrics = run(data=(("growth", 0.3),))
        assert [int(state.data.filled) for state in states] == [0, 32, 48, 64]
        assert [m["positions"] for m in metrics] == [32, 48, 64]
        assert [m["simulations"] for m in metrics] == [256, 128, 128]
        chex.assert_tree_all_finite(states[-1].variables)
        # One evaluation a ply, a simulation and a root, once there is an apprentice.
        assert metrics[0]["network_evaluations"] == 0
        spent = np.diff([m["network_evaluations"] for m in metrics])
        np.testing.assert_array_equal(spent, [m["plies"] + 16 * 9 for m in metrics[1:]])

    @pytest.mark.slow
    def test_an_expert_that_asks_less_costs_less(self):
        _, _, metrics = run(data=(("growth", 0.3),), expert=(("evaluations", 3),))
        spent = np.diff([m["network_evaluations"] for m in metrics])
        np.testing.assert_array_equal(spent, [m["plies"] + 16 * 4 for m in metrics[1:]])

    def test_the_same_seed_gives_the_same_run(self):
        experiment, states, _ = run(data=(("growth", 0.3),))
        again, _ = experiment.iterate(jax.tree.map(jnp.copy, states[1]))
        chex.assert_trees_all_equal(again, states[2])

    @pytest.mark.slow
    def test_batch_forgets_and_an_expert_without_apprentice_costs_no_evaluations(self):
        options = {
            "data": (("variant", "batch"), ("value_target", "playout"), ("policy_target", "action")),
            "expert": (("improves", False),),
            "fit": (("reset", False),),
        }
        _, states, metrics = run(**options)
        assert [int(state.data.filled) for state in states] == [0, 32, 32, 32]
        np.testing.assert_array_equal(np.unique(states[-1].data.weights), [0, 1])
        assert set(np.unique(states[-1].data.values)) <= {-1, 1}
        # Values are played on by the network, from the position drawn to the end.
        assert 32 <= metrics[0]["network_evaluations"] <= metrics[0]["plies"]

    @pytest.mark.slow
    def test_every_position_of_the_experts_games(self):
        options = {
            "data": (("variant", "buffer"), ("states", "every"), ("value_target", "game"), ("capacity", 288)),
            "expert": (("playout_weight", 0.5),),
        }
        experiment, states, metrics = run(**options)
        data = states[1].data
        assert experiment.chunk == 144 and int(data.filled) == 144
        assert int(data.usable.sum()) == metrics[0]["plies"] == 144  # games that end are replaced
        assert metrics[1]["positions"] == 288 and metrics[0]["games"] >= 16
        # All positions of a game that ended have its winner's sign; of one still on, what the search thought.
        states = jax.tree.map(lambda leaf: leaf[:144], data.states)
        stones = 9 - np.asarray(jax.vmap(HEX.legal_actions)(states)).sum(-1).reshape(9, 16)
        first = np.asarray(data.values[:144] * (1 - 2 * data.movers[:144])).reshape(
            9, 16
        )  # the first player's
        finished = 0
        for lane in range(16):
            begins = [*np.flatnonzero(stones[:, lane] == 0), 9]
            assert begins[0] == 0
            for begin, end in itertools.pairwise(begins):
                np.testing.assert_array_equal(stones[begin:end, lane], np.arange(end - begin))
                if end < 9 or np.all(np.abs(first[begin:end, lane]) == 1):
                    assert abs(first[begin:end, lane].sum()) == end - begin
                    finished += 1
                else:
                    assert np.all(np.abs(first[begin:end, lane]) <= 1)
        assert finished >= metrics[0]["games"]

    @pytest.mark.slow
    def test_the_apprentice_learns_to_open_in_the_centre(self):
        experiment = setup(
            config(
                data={"positions": 512, "capacity": 2048, "policy_target": "tree", "value_target": "root"},
                expert={"simulations": 60, "batch": 64},
                fit={"max_epochs": 40, "batch_size": 64, "patience": 4, "learning_rate": 5e-3},
            )
        )
        state, metrics = experiment.iterate(experiment.init(0))
        start = HEX.init(jax.random.key(0))
        out = experiment.network.apply(state.variables, HEX.observe(start, jnp.int32(0))[None])
        assert int(out.policy_logits.argmax()) == 4
        assert metrics["policy_error"] < 0.6

    def test_what_does_not_go_together_is_refused(self):
        with pytest.raises(ConfigError, match="positions = 8 is out of range"):
            config(data={"positions": 8})
        with pytest.raises(ConfigError, match="asks for values that are not learnt"):
            config(expert={"playout_weight": 0.5})
        with pytest.raises(ConfigError, match=r"expert.evaluations = 2 leaves the other leaves to playouts"):
            config(expert={"playout_weight": 0.0, "evaluations": 2}, data={"value_target": "root"})
        with pytest.raises(ConfigError, match=r"expected at least expert.batch \* hex"):
            setup(config(data={"states": "every"}))
        with pytest.raises(ConfigError, match="chess2"):
            setup(dataclasses.replace(config(), game=GameConfig(name="chess2")))
