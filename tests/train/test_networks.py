"""Every network by one conformance suite, and what is particular to some of them."""

import json

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import games_jax
from train.networks import Network, NetworkOutput, evaluator, make_network, names, num_parameters
from train.networks.functional import from_linen, from_nnx

CONNECT_FOUR = games_jax.make("connect_four")
OTHELLO = games_jax.make("othello", size=6)
SMALL_RESNET = {"channels": 8, "blocks": 1, "value_width": 8}

CASES = {
    "mlp": ("mlp", {"width": 32, "depth": 2}),
    "resnet": ("resnet", SMALL_RESNET),
    "resnet-group": ("resnet", SMALL_RESNET | {"norm": "group"}),
    "rise": ("rise", {"channels": 8, "expansion": 2, "blocks": 1, "late_blocks": 0, "value_width": 8}),
    "patterns": ("patterns", {"embed": 16, "hidden": [16]}),
    "patterns-shared": ("patterns", {"embed": 16, "hidden": [16, 8], "share": "symmetry"}),
    "patterns-direct": ("patterns", {"patterns": "lines3+tiles2x3", "embed": 8, "hidden": []}),
}


def random_positions(game, batch: int, seed: int = 0):
    """`[batch]` states of random games, stopped after 0, 1, 2, ... plies, and the observations of them."""
    uniform = jax.random.uniform(jax.random.key(seed), (batch, game.max_steps, game.num_actions))
    plies = jnp.arange(batch) * min(game.max_steps, 30) // batch

    def play(state, draws, stop):
        def step(state, x):
            draw, ply = x
            action = jnp.argmax(jnp.where(game.legal_actions(state), draw, -1.0)).astype(jnp.int32)
            moved = game.step(state, action)
            return jax.tree.map(lambda a, b: jnp.where(ply < stop, a, b), moved, state), None

        return jax.lax.scan(step, state, (draws, jnp.arange(game.max_steps)))[0]

    start = jax.vmap(game.init)(jax.random.split(jax.random.key(seed), batch))
    states = jax.jit(jax.vmap(play))(start, uniform, plies)
    observe = jax.vmap(lambda state: game.observe(state, game.current_player(state)))
    return states, jax.jit(observe)(states)


@pytest.fixture(scope="module")
def observation() -> jax.Array:
    return random_positions(CONNECT_FOUR, 24)[1]


@pytest.fixture(scope="module", params=CASES)
def network(request: pytest.FixtureRequest) -> Network:
    name, options = CASES[request.param]
    return make_network(name, CONNECT_FOUR, **options)


@pytest.fixture(scope="module")
def init(network: Network):
    return jax.jit(network.init)


@pytest.fixture(scope="module")
def variables(init):
    return init(jax.random.key(1))


@pytest.fixture(scope="module")
def judge(network: Network):
    """The network compiled, once for all tests."""
    return jax.jit(network.apply)


def gradient_of(network: Network):
    """The gradient of some loss that depends on both heads."""

    def loss(variables, observation):
        output = network.apply(variables, observation)
        return jnp.mean((output.value - 0.3) ** 2) + jnp.mean(output.policy_logits[:, 2])

    return jax.grad(loss)


@pytest.fixture(scope="module")
def gradient(network: Network):
    return jax.jit(gradient_of(network))


class TestConformance:
    """What every network must do; a new one is accepted by a line in CASES."""

    def test_every_network_is_here(self):
        """But for the one that plays Hex alone, which has its own tests."""
        assert {name for name, _ in CASES.values()} == set(names()) - {"hexagonal"}

    def test_shapes_types_and_ranges(self, judge, variables, observation):
        output = judge(variables, observation)
        chex.assert_shape(output.policy_logits, (24, 7))
        chex.assert_shape(output.value, (24,))
        assert output.value_logits is None
        chex.assert_type([output.policy_logits, output.value], jnp.float32)
        chex.assert_tree_all_finite(output)
        assert np.all(np.abs(output.value) <= 1)
        assert np.unique(np.asarray(output.value)).size > 20  # the positions are told apart

    def test_starts_near_the_uniform_policy(self, judge, variables, observation):
        output = judge(variables, observation)
        assert np.abs(jax.nn.softmax(output.policy_logits) - 1 / 7).max() < 0.1
        assert np.abs(output.value).max() < 0.5

    def test_variables_are_plain_float32_dicts(self, network, variables):
        def walk(tree):
            assert type(tree) is dict and all(type(key) is str for key in tree)
            for value in tree.values():
                walk(value) if isinstance(value, dict) else chex.assert_type(value, jnp.float32)

        walk(variables)
        assert num_parameters(variables) == num_parameters(jax.eval_shape(network.init, jax.random.key(0)))

    def test_init_depends_on_the_key_alone(self, init, variables):
        chex.assert_trees_all_equal(variables, init(jax.random.key(1)))
        others = init(jax.random.key(2))
        assert any(np.any(a != b) for a, b in zip(jax.tree.leaves(variables), jax.tree.leaves(others)))

    def test_recorded_options_make_the_same_network(self, network, variables):
        options = json.loads(json.dumps(network.options))
        again = make_network(network.name, CONNECT_FOUR, **options)
        assert again.options == network.options
        shapes = jax.eval_shape(again.init, jax.random.key(0))
        chex.assert_trees_all_equal_shapes_and_dtypes(shapes, variables)

    def test_jit_equals_no_jit_and_traces_once(self, network, variables, observation):
        chex.clear_trace_counter()
        apply = jax.jit(chex.assert_max_traces(network.apply, n=1))
        chex.assert_trees_all_close(
            apply(variables, observation), network.apply(variables, observation), atol=1e-5
        )
        apply(variables, observation[::-1])

    def test_rows_are_independent(self, judge, variables, observation):
        half = jnp.concatenate([observation[:12], observation[:12][::-1]])
        mine, theirs = judge(variables, observation), judge(variables, half)
        chex.assert_trees_all_equal(mine.policy_logits[:12], theirs.policy_logits[:12])
        chex.assert_trees_all_equal(mine.value[:12], theirs.value[:12])
        for i in (0, 5, 11):
            alone = judge(variables, observation[i : i + 1]).policy_logits[0]
            np.testing.assert_allclose(alone, mine.policy_logits[i], atol=1e-5)

    def test_population_equals_its_members(self, network, init, judge, gradient, observation):
        keys = jax.random.split(jax.random.key(3), 3)
        population = jax.jit(jax.vmap(network.init))(keys)
        outputs = jax.jit(jax.vmap(network.apply, (0, None)))(population, observation)
        gradients = jax.jit(jax.vmap(gradient_of(network), (0, None)))(population, observation)
        for i, key in enumerate(keys):
            member = init(key)
            alone = (member, judge(member, observation), gradient(member, observation))
            mine = jax.tree.map(lambda x, i=i: x[i], (population, outputs, gradients))
            chex.assert_trees_all_close(mine, alone, atol=1e-5)

    def test_gradient_reaches_every_parameter(self, gradient, variables, observation):
        found = gradient(variables, observation)
        chex.assert_trees_all_equal_shapes_and_dtypes(found, variables)
        chex.assert_tree_all_finite(found)
        silent = [
            jax.tree_util.keystr(path)
            for path, leaf in jax.tree_util.tree_leaves_with_path(found)
            if not np.any(leaf)
        ]
        assert not silent

    def test_bfloat16_is_close_and_keeps_float32_outside(self, network, judge, variables, observation):
        low = make_network(network.name, CONNECT_FOUR, **{**network.options, "dtype": "bfloat16"})
        chex.assert_trees_all_equal_shapes_and_dtypes(variables, jax.eval_shape(low.init, jax.random.key(0)))
        exact, rounded = judge(variables, observation), jax.jit(low.apply)(variables, observation)
        chex.assert_trees_all_equal_shapes_and_dtypes(exact, rounded)
        chex.assert_trees_all_close(exact, rounded, atol=0.05)
        assert np.any(exact.policy_logits != rounded.policy_logits)

    def test_wdl_value_is_win_less_loss(self, network, observation):
        wdl = make_network(network.name, CONNECT_FOUR, **{**network.options, "value_head": "wdl"})
        rng = np.random.default_rng(0)
        shapes = jax.eval_shape(wdl.init, jax.random.key(0))
        variables = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
        output = jax.jit(wdl.apply)(variables, observation)
        assert output.value_logits is not None
        chex.assert_shape(output.value_logits, (24, 3))
        chex.assert_type(output.value_logits, jnp.float32)
        odds = np.exp(np.asarray(output.value_logits, np.float64))
        expected = (odds[:, 0] - odds[:, 2]) / odds.sum(1)
        np.testing.assert_allclose(output.value, expected, atol=1e-6)

    def test_learns_positions_by_heart(self, network, variables, observation):
        targets = jax.random.randint(jax.random.key(5), (24,), 0, 7)
        values = jnp.linspace(-0.9, 0.9, 24)[jax.random.permutation(jax.random.key(6), 24)]
        optimizer = optax.adam(5e-3)

        def loss(variables):
            output = network.apply(variables, observation)
            policy = optax.softmax_cross_entropy_with_integer_labels(output.policy_logits, targets)
            return jnp.mean(policy + (output.value - values) ** 2)

        def step(carry, _):
            variables, state = carry
            value, gradient = jax.value_and_grad(loss)(variables)
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(variables, updates), state), value

        carry = (variables, optimizer.init(variables))
        _, losses = jax.jit(lambda carry: jax.lax.scan(step, carry, length=200))(carry)
        assert losses[-1] < 0.25 * losses[0]


class TestOtherGames:
    @pytest.mark.parametrize("name", ["mlp", "patterns", "resnet"])
    @pytest.mark.parametrize("game", [OTHELLO, games_jax.make("tic_tac_toe")], ids=lambda game: game.name)
    def test_default_kind_fits_every_board(self, name, game):
        options = {"mlp": {"width": 16}, "resnet": SMALL_RESNET, "patterns": {"embed": 8}}[name]
        network = make_network(name, game, **options)
        states, _ = random_positions(game, 8)
        evaluate = jax.jit(evaluator(network, game))
        logits, values = evaluate(jax.jit(network.init)(jax.random.key(0)), jax.random.key(1), states)
        chex.assert_shape(logits, (8, game.num_actions))
        chex.assert_tree_all_finite((logits, values))


class TestEvaluator:
    def test_shows_each_state_to_its_mover(self):
        network = make_network("mlp", CONNECT_FOUR, width=16, depth=1)
        variables = network.init(jax.random.key(0))
        states, observation = random_positions(CONNECT_FOUR, 32, seed=4)
        movers = np.asarray(jax.vmap(CONNECT_FOUR.current_player)(states))
        assert set(movers) == {0, 1}
        logits, values = jax.jit(evaluator(network, CONNECT_FOUR))(variables, jax.random.key(9), states)
        expected = network.apply(variables, observation)
        np.testing.assert_allclose(logits, expected.policy_logits, atol=1e-5)
        np.testing.assert_allclose(values, expected.value, atol=1e-5)

    def test_refuses_a_network_of_another_game(self):
        network = make_network("mlp", OTHELLO)
        with pytest.raises(
            ValueError, match=r"37 actions, but connect_four.* 7 actions: make the network for"
        ):
            evaluator(network, CONNECT_FOUR)


class NoBoard:
    """A game whose observation is a vector."""

    name = "no_board"
    observation_shape = (5,)
    num_actions = 2


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("resnett", {}, 'network.name = "resnett" is not a known network; the nearest is "resnet"'),
            ("mlp", {"widht": 3}, 'network.widht is not a known key; the nearest is "width"'),
            ("mlp", {"width": 0}, "network.width = 0 is out of range; expected an integer >= 1"),
            ("mlp", {"width": True}, "network.width = true is a boolean"),
            (
                "mlp",
                {"value_head": "wld"},
                'network.value_head = "wld" .* "scalar" or "wdl"; the nearest is "wdl"',
            ),
            ("resnet", {"norm": "group", "channels": 12}, "network.channels = 12 .* a multiple of 8"),
            ("patterns", {"hidden": [0]}, r"network.hidden\[0\] = 0 is out of range"),
            ("patterns", {"patterns": "line4"}, 'network.patterns = "line4" is not a known pattern set'),
            ("patterns", {"patterns": "lines9"}, 'network.patterns = "lines9" is empty on a board of 6x7'),
            ("patterns", {"patterns": "blocks4x4"}, "a pattern of 16 cells .* choose shorter patterns"),
            ("patterns", {"share": "symmetry", "embed": 9}, "network.embed = 9 .* a multiple of 2"),
        ],
    )
    def test_names_the_option_and_the_way_out(self, name, options, message):
        with pytest.raises(ValueError, match=message):
            make_network(name, CONNECT_FOUR, **options)

    @pytest.mark.parametrize("name", ["resnet", "patterns"])
    def test_a_game_without_a_board_is_sent_to_mlp(self, name):
        with pytest.raises(ValueError, match='choose the network "mlp"'):
            make_network(name, NoBoard())  # type: ignore[arg-type]
        assert make_network("mlp", NoBoard()).observation_shape == (5,)  # type: ignore[arg-type]

    def test_sharing_needs_symmetries(self):
        class Lopsided(NoBoard):
            name = "lopsided"
            observation_shape = (4, 5, 3)

        with pytest.raises(ValueError, match='lopsided has none; set it to "none"'):
            make_network("patterns", Lopsided(), share="symmetry")  # type: ignore[arg-type]


class TestOwnModules:
    def test_nnx_module_is_a_network(self, observation):
        from flax import nnx

        class Two(nnx.Module):
            def __init__(self, rngs):
                self.layers = nnx.List([nnx.Linear(126, 16, rngs=rngs), nnx.Linear(16, 8, rngs=rngs)])

            def __call__(self, planes):
                hidden = nnx.relu(self.layers[0](planes.reshape(len(planes), -1).astype(jnp.float32)))
                out = self.layers[1](hidden)
                return NetworkOutput(out[:, :7], jnp.tanh(out[:, 7]), None)

        network = from_nnx("two", {"width": 16}, CONNECT_FOUR, Two)
        variables = network.init(jax.random.key(0))
        assert set(variables["params"]) == {
            f"layers.{i}.{part}" for i in (0, 1) for part in ("kernel", "bias")
        }
        module = Two(nnx.Rngs(jax.random.key(0)))
        chex.assert_trees_all_close(network.apply(variables, observation), module(observation), atol=1e-6)
        # The record, not the module it was built from, holds the parameters.
        zeros = network.apply(jax.tree.map(jnp.zeros_like, variables), observation)
        assert not np.any(zeros.policy_logits) and not np.any(zeros.value)
        population = jax.vmap(network.init)(jax.random.split(jax.random.key(0), 3))
        together = jax.jit(jax.vmap(network.apply, in_axes=(0, None)))(population, observation)
        chex.assert_shape(together.policy_logits, (3, 24, 7))
        gradient = jax.grad(lambda v: network.apply(v, observation).policy_logits.sum())(variables)
        chex.assert_trees_all_equal_shapes_and_dtypes(gradient, variables)

    def test_nnx_module_with_batch_statistics_is_refused(self):
        from flax import nnx

        class Normed(nnx.Module):
            def __init__(self, rngs):
                self.norm = nnx.BatchNorm(4, rngs=rngs)

        with pytest.raises(ValueError, match=r"'normed' has state .*norm\.mean.* without batch statistics"):
            from_nnx("normed", {}, CONNECT_FOUR, Normed)

    def test_linen_module_is_a_network(self, observation):
        import flax.linen as nn

        class Flat(nn.Module):
            @nn.compact
            def __call__(self, planes):
                out = nn.Dense(8)(planes.reshape(len(planes), -1).astype(jnp.float32))
                return NetworkOutput(out[:, :7], jnp.tanh(out[:, 7]), None)

        network = from_linen("flat", {}, CONNECT_FOUR, Flat())
        states, _ = random_positions(CONNECT_FOUR, 4)
        logits, values = jax.jit(evaluator(network, CONNECT_FOUR))(
            network.init(jax.random.key(0)), jax.random.key(0), states
        )
        chex.assert_shape([logits, values], [(4, 7), (4,)])
