"""TD with n-tuple networks: games equal the algorithm in plain NumPy; runs resume, learn and play."""

import dataclasses
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train import algorithms, checkpoint, cli, schema_toml, td_ntuple, td_ply, td_update
from train.arena import play_match
from train.config import CheckpointConfig, ConfigError, EvaluationConfig, GameConfig, RunConfig
from train.networks.ntuple import cells_of, encode, make_ntuple_network
from train.ntuple_options import NTupleOptions
from train.player_specs import make_player
from train.players import choose_actions, network_player, random_player
from train.run import run
from train.td_config import TDConfig, TDSearchConfig, TDSettings
from train.td_games import action_values, make_starts

TUPLES = NTupleOptions(number=4, length=4, adjacency="8", tuple_seed=2)


def settings(**changes) -> TDSettings:
    base = {"games": 1, "alpha": 0.9, "epsilon": 0.3, "opening_share": 0.0, "plies_per_iteration": 1}
    return TDSettings(**(base | changes))


class Sequential:
    """TD-FARL of one game after the other in plain NumPy: the specification, sentence by sentence."""

    def __init__(self, game, options, td, max_horizon):
        self.game, self.td, self.reach = game, td, max_horizon
        self.network = make_ntuple_network(game, options)
        cells = cells_of(game)
        self.values, self.images = cells.values, cells.images
        self.sizes = [int(np.prod([self.values[c] for c in t])) for t in self.network.tuples]
        shape = (game.num_players, sum(self.sizes))
        self.w = np.zeros(shape, np.float64)
        self.n = np.full(shape, td.coherence_init, np.float64)
        self.a = np.full(shape, td.coherence_init, np.float64)

    def rows(self, board):
        """Row of each tuple for each image of cells `[C]`, `[K, T]`."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        found = np.zeros((len(self.images), len(self.sizes)), int)
        for k, image in enumerate(self.images):
            for t, members in enumerate(self.network.tuples):
                weight = 1
                for cell in members:
                    found[k, t] += weight * int(board[image][cell])
                    weight *= self.values[cell]
        return found + starts

    def value(self, rows, player):
        return math.tanh(self.w[player][rows].sum())

    def factor(self, row, player):
        x = abs(self.n[player][row]) / self.a[player][row]
        return {"none": 1.0, "identity": x, "exp": math.exp(self.td.coherence_beta * (x - 1))}[
            self.td.coherence
        ]

    def learn(self, player, traces, rows, target):
        """Pushes the position and changes it and those before."""
        value = self.value(rows, player)
        traces.insert(0, (rows, 1 - value * value))
        del traces[self.reach :]
        delta = target - value
        for k, (these, slope) in enumerate(traces):
            wanted = delta * self.td.trace_decay**k * slope
            looked_up = these.ravel().tolist()
            for row in set(looked_up):  # a row that two images look up changes once ...
                step = self.td.alpha / rows.size * self.factor(row, player)
                self.w[player][row] += step * wanted
            for row in looked_up:  # ... and counts twice
                self.n[player][row] += wanted
                self.a[player][row] += abs(wanted)


@functools.cache
def _start(game):
    """No mirror image of a later position is another move of the same one: no ties by rounding."""
    return game.from_string("13")


def _cells(game, state):
    return np.asarray(encode(game, jax.tree.map(lambda x: x[None], state), jnp.zeros(1, jnp.int32)))[:, 0]


def _starts(game, count):
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), _start(game))


@functools.partial(jax.jit, static_argnames="game")
def _facts(state, *, game):
    """Mover, legal actions, and of the position after each action: itself, rewards, over, cells."""
    every = jnp.arange(game.num_actions, dtype=jnp.int32)
    after = jax.vmap(lambda action: game.step(state, action))(every)
    cells = encode(game, after, jnp.zeros(game.num_actions, jnp.int32)).T
    rewards, over = jax.vmap(game.rewards)(after), jax.vmap(game.is_over)(after)
    return game.current_player(state), game.legal_actions(state), after, rewards, over, cells


def play_sequentially(reference, noise, explore):
    """Plays as the program does, from the same random numbers, one ply or step of adaptation at a time."""
    game, td = reference.game, reference.td
    num = game.num_players
    ply = iter(range(len(noise)))
    while True:
        state = _start(game)
        last: list = [None] * num
        traces: list = [[] for _ in range(num)]
        earned = np.zeros(num)
        start = _cells(game, state)
        last[(int(game.current_player(state)) - 1) % num] = reference.rows(start)
        while True:
            t = next(ply, None)
            if t is None:
                return
            mover, legal, after, rewards, overs, cells = jax.device_get(_facts(state, game=game))
            mover, legal = int(mover), np.flatnonzero(legal)
            rows = {action: reference.rows(cells[action]) for action in legal}
            future = {a: 0.0 if overs[a] else td.gamma * reference.value(rows[a], mover) for a in legal}
            q = {a: float(rewards[a, mover]) + future[a] for a in legal}
            best = max(q.values())
            allowed = legal if explore[t] else [a for a in legal if q[a] >= best - 1e-7]
            action = max(allowed, key=lambda a: noise[t][a])
            earned += rewards[action]
            random = q[action] < best - 1e-7
            if last[mover] is not None and not (random and not td.learn_from_random_moves):
                reference.learn(mover, traces[mover], last[mover], earned[mover] + future[action])
                earned[mover] = 0.0
            last[mover] = rows[action]
            state = jax.tree.map(lambda x, a=action: x[a], after)
            if not overs[action]:
                continue
            for other in [(mover + i) % num for i in range(1, num)]:
                if next(ply, None) is None:
                    return
                if last[other] is not None:
                    reference.learn(other, traces[other], last[other], earned[other])
            if td.terminal_to_zero:
                if next(ply, None) is None:
                    return
                reference.learn(mover, traces[mover], last[mover], 0.0)
            break


@functools.partial(jax.jit, static_argnames=("network", "td"))
def run_plies(table, games, noise, explore, alpha, *, network, td):
    """All plies, each game starting anew at the beginning."""
    count = games.plies.shape[0]
    starts = _starts(network.game, count)

    def one(carry, draws):
        table, games = carry
        table, games, _ = td_ply.ply(network, td, table, games, starts, td_ply.Draws(*draws), alpha)
        return (table, games), None

    return jax.lax.scan(one, (table, games), (noise, explore))[0]


def fresh(network, td, count=1):
    starts = _starts(network.game, count)
    return jnp.zeros((network.num_rows, 3)), td_ply.new_games(network, td, starts)


@pytest.mark.parametrize(
    "changes",
    [
        {"coherence": "exp"},
        {"coherence": "identity", "trace_decay": 0.5, "learn_from_random_moves": False},
        {"coherence": "none", "trace_decay": 0.8, "trace_cut": 0.3, "terminal_to_zero": False},
    ],
)
def test_games_equal_the_sequential_algorithm(changes):
    game, td = games_jax.make("connect_four"), settings(**changes)
    network = make_ntuple_network(game, TUPLES)
    plies = 80
    rng = np.random.default_rng(5)
    noise = rng.random((plies, 1, 7)).astype(np.float32)
    explore = rng.random((plies, 1)) < 0.3
    reference = Sequential(game, TUPLES, td, td_update.horizon(td))
    play_sequentially(reference, noise[:, 0], explore[:, 0])
    table, games = fresh(network, td)
    table, _ = run_plies(table, games, noise, explore, jnp.float32(td.alpha), network=network, td=td)
    table = np.asarray(table, np.float64)
    init = td.coherence_init
    assert np.abs(reference.w).max() > 0.05
    np.testing.assert_allclose(table[:, 0], reference.w.ravel(), atol=2e-5)
    np.testing.assert_allclose(table[:, 1] + init, reference.n.ravel(), atol=2e-5)
    np.testing.assert_allclose(table[:, 2] + init, reference.a.ravel(), atol=2e-5)


def test_best_moves_every_position_to_its_best_successor():
    game = games_jax.make("connect_four")
    td = settings(target="best", coherence="none", alpha=0.5)
    network = make_ntuple_network(game, TUPLES)
    rng = np.random.default_rng(1)
    table = jnp.asarray(rng.normal(size=(network.num_rows, 3)).astype(np.float32) * [0.1, 0, 0], jnp.float32)
    _, games = fresh(network, td)
    noise = jnp.asarray(rng.random((1, 1, 7)), jnp.float32)
    explore = jnp.ones((1, 1), bool)  # a random move is played, and the lesson is that of the best one
    before = np.asarray(table[:, 0])
    after, moved = run_plies(table, games, noise, explore, jnp.float32(0.5), network=network, td=td)
    state = _start(game)
    mover, legal, _, rewards, over, cells = jax.device_get(_facts(state, game=game))
    reference = Sequential(game, TUPLES, td, 1)
    reference.w = before.reshape(2, -1).astype(np.float64)
    values = [reference.value(reference.rows(cells[a]), int(mover)) for a in np.flatnonzero(legal)]
    assert not over.any() and not rewards.any()
    rows = reference.rows(_cells(game, state))
    maker = 1 - int(mover)
    reference.learn(maker, [], rows, -max(values))
    np.testing.assert_allclose(np.asarray(after[:, 0]), reference.w.ravel(), atol=1e-6)
    assert int(moved.plies[0]) == 1 and int(moved.owners[0, 0, 0]) == int(mover)


def test_terminal_rewards_reach_the_position_before():
    # X wins at once in column 4: the position O made is worth -1 to O, whatever is played.
    game = games_jax.make("connect_four")
    td = settings(target="best", coherence="none", alpha=0.5)
    network = make_ntuple_network(game, TUPLES)
    state = game.from_string("112233")
    games = td_ply.new_games(network, td, jax.tree.map(lambda x: x[None], state))
    table = jnp.zeros((network.num_rows, 3))
    noise = jnp.zeros((1, 1, 7)).at[0, 0, 6].set(0.9)
    table, _ = run_plies(
        table, games, noise, jnp.ones((1, 1), bool), jnp.float32(0.5), network=network, td=td
    )
    value = network.values(table, jax.tree.map(lambda x: x[None], state), jnp.ones(1, jnp.int32))
    assert float(value[0]) < -0.4


def test_collisions_add_up_or_are_averaged():
    game = games_jax.make("connect_four")
    network = make_ntuple_network(game, TUPLES)

    def change(collisions, learn):
        td = settings(collisions=collisions, coherence="none")
        _, games = fresh(network, td, count=3)
        table, error, _ = td_update.update(
            network,
            td,
            jnp.zeros((network.num_rows, 3)),
            games.rows[0],
            games.slopes[0],
            jnp.full(3, 0.5),
            jnp.asarray(learn),
            jnp.float32(1.0),
        )
        np.testing.assert_allclose(error, 0.5 * np.asarray(learn), atol=1e-7)
        return np.asarray(table)

    one = change("sum", [True, False, False])
    assert np.abs(one).max() > 0
    np.testing.assert_allclose(change("sum", [True, True, True]), 3 * one, rtol=1e-6)
    mean = change("mean", [True, True, False])
    np.testing.assert_allclose(mean[:, 0], one[:, 0], rtol=1e-6)
    np.testing.assert_allclose(mean[:, 1:], 2 * one[:, 1:], rtol=1e-6)


def test_many_actions_are_judged_as_few():
    game = games_jax.make("othello", size=6)
    network = make_ntuple_network(game, TUPLES)
    table = jax.random.normal(jax.random.key(0), (network.num_rows, 3))
    starts = jax.jit(lambda key: make_starts(game, key, 5, share=1.0, plies=(0, 24)))
    states = starts(jax.random.key(2))

    def all_of(states):
        movers, legal = jax.vmap(game.current_player)(states), jax.vmap(game.legal_actions)(states)
        return action_values(game, network, table, states, movers, legal, 0.9), legal

    found, legal = map(np.asarray, jax.jit(all_of)(states))
    assert np.isneginf(found[~legal]).all() and legal.any(axis=1).all()
    for b, action in np.argwhere(legal):
        state = jax.tree.map(lambda x, b=b: x[b], states)
        after = game.step(state, jnp.int32(action))
        mover = game.current_player(state)
        value = network.values(table, jax.tree.map(lambda x: x[None], after), mover[None])[0]
        expected = game.rewards(after)[mover] + 0.9 * jnp.where(game.is_over(after), 0.0, value)
        assert found[b, action] == pytest.approx(float(expected), abs=1e-5)


def test_starts_are_open_positions_after_that_many_plies():
    game = games_jax.make("connect_four")
    make = jax.jit(lambda key: make_starts(game, key, 200, share=0.5, plies=(3, 12)))
    states = make(jax.random.key(0))
    assert not jax.vmap(game.is_over)(states).any()
    stones = np.asarray(jax.vmap(lambda s: game.observe(s, jnp.int32(0))[..., :2].sum())(states))
    assert 60 < (stones == 0).sum() < 140
    assert set(stones[stones > 0]) <= set(range(3, 13)) and len(set(stones)) > 6


@pytest.mark.parametrize(
    ("decay", "cut", "reach"), [(0.0, 0.1, 1), (0.5, 0.1, 4), (0.5, 0.5, 2), (0.9, 0.9, 2)]
)
def test_horizon(decay, cut, reach):
    assert td_update.horizon(settings(trace_decay=decay, trace_cut=cut)) == reach


def small_config(**changes) -> TDConfig:
    td = {"games": 8, "plies_per_iteration": 100, "alpha": 0.5, "opening_share": 0.5, "opening_plies": (1, 4)}
    return TDConfig(
        game=GameConfig(name="tic_tac_toe"),
        run=RunConfig(iterations=20, tensorboard=False, algorithm="td_ntuple"),
        network=NTupleOptions(number=8, length=5, adjacency="8"),
        td=TDSettings(**(td | changes)),
        evaluation=EvaluationConfig(every=0, games=4, opponents=("random",), simulations=4),
        checkpoint=CheckpointConfig(every=10),
    )


def test_the_share_of_openings_changes_over_the_run():
    """After eight of nine squares a game ends within a ply; from the empty board it takes five at least."""
    experiment = td_ntuple.setup(small_config(opening_share=0.0, opening_share_end=1.0, opening_plies=(8, 8)))
    state, begun = experiment.init(0), []
    for _ in range(20):
        state, metrics = experiment.iterate(state)
        begun.append((float(metrics["opening_share"]), float(metrics["games"])))
    assert begun[0][0] == 0.0 and begun[0][1] <= 8 * 100 / 5
    assert begun[-1][0] == pytest.approx(0.95) and begun[-1][1] > 2 * begun[0][1]


@functools.cache
def small_experiment():
    return td_ntuple.setup(small_config(average=0.5, target="best"))


def test_ten_and_ten_iterations_equal_twenty(tmp_path):
    experiment = small_experiment()
    whole = run(experiment.config, tmp_path / "whole", experiment=experiment)
    # The schedules run over run.iterations, so it is the whole run's own checkpoint that is gone on from.
    found = checkpoint.saved(tmp_path / "whole" / "checkpoints")[10]
    restored = checkpoint.restore(
        found, jax.eval_shape(lambda: experiment.init(0)), identity=experiment.identity
    )
    for _ in range(10):
        restored, _ = experiment.iterate(restored)
    for one, other in zip(jax.tree.leaves(whole.state), jax.tree.leaves(restored), strict=True):
        if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", ["own", "best"])
def test_learns_to_beat_random_play(target):
    experiment = small_experiment() if target == "best" else td_ntuple.setup(small_config())
    state = experiment.init(0)
    for _ in range(20):
        state, metrics = experiment.iterate(state)
    assert 0 < float(metrics["value_loss"]) < 0.2 and float(metrics["games"]) > 50
    player = network_player(
        "trained", experiment.game, experiment.network, experiment.parameters(state), simulations=0
    )
    match = play_match(
        experiment.game, player, random_player(experiment.game), games=100, key=jax.random.key(1)
    )
    assert match.to_dict()["score"] > 0.85


def test_a_checkpoint_is_a_player_and_the_command_trains(tmp_path, capsys):
    config = tmp_path / "small.toml"
    config.write_text(schema_toml.to_toml(small_config(average=0.5, target="best")))
    directory = tmp_path / "run"
    arguments = ["train", str(config), "--dir", str(directory), "--set", "run.iterations=2"]
    assert cli.main(arguments) == 0
    assert (directory / "report.html").exists()
    game = games_jax.make("tic_tac_toe")
    state = game.from_string("XX./OO./... X")
    states = jax.tree.map(lambda x: x[None], state)
    for spec in (f"run:{directory}@sims=0", f"run:{directory}@sims=30"):
        assert int(choose_actions(make_player(spec, game), jax.random.key(0), states)[0]) == 2
    capsys.readouterr()


def test_the_search_begins_where_the_config_says():
    """Two iterations without, which are those of a run without, and then others."""
    plain = small_config(target="best", games=4, plies_per_iteration=20)
    late = dataclasses.replace(plain.td, simulations=8, simulations_from=0.1)
    tables = []
    for td in (plain.td, late):
        experiment = td_ntuple.setup(dataclasses.replace(plain, td=td))
        state = experiment.init(0)
        for _ in range(3):
            state, _ = experiment.iterate(state)
            tables.append(np.array(state.table))
    for number, same in enumerate([True, True, False]):
        assert np.array_equal(tables[number], tables[3 + number]) == same


def test_no_copies_of_the_table():
    experiment = small_experiment()
    rows = experiment.tuples.num_rows
    text = experiment._iterate.lower(experiment.init(0)).compile().as_text()
    assert text is not None and f"f32[{rows},3]" in text
    assert not re.findall(rf"f32\[{rows},3\]\S* copy\(", text)


def one_ply(experiment, text):
    """One ply of 32 games from a position: where O stands then, `[32, 9]`, and what the position is worth."""
    network, game = experiment.tuples, experiment.game
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (32, *x.shape)), game.from_string(text))
    games = td_ply.new_games(network, experiment.config.td, jax.tree.map(jnp.copy, states))
    makers = jnp.copy(games.makers)
    state, _ = experiment.iterate(experiment.init(0)._replace(games=games))
    stones = jax.vmap(lambda s: game.observe(s, jnp.int32(1))[..., 0])(state.games.states)
    value = network.values(state.table, states, makers)[0]
    return np.asarray(stones).reshape(32, 9), float(value)


@pytest.mark.parametrize("simulations", [0, 100])
def test_a_search_in_self_play_chooses_the_moves_and_teaches_what_it_found(simulations):
    """The table is all zeros and knows nothing, and the search sees to the end."""
    config = small_config(
        games=32, plies_per_iteration=1, simulations=simulations, target="best", alpha=1.0, epsilon=0.0
    )
    experiment = td_ntuple.setup(dataclasses.replace(config, search=TDSearchConfig(solver=True)))
    # O has to answer two opposite corners at an edge; at a corner he is lost three plies later.
    stones, _ = one_ply(experiment, "X../.O./..X O")
    assert stones[:, [2, 6]].any() == (simulations == 0)
    # He went there: what he has made is lost, which no successor says.
    _, value = one_ply(experiment, "X../.O./O.X X")
    assert value == 0 if simulations == 0 else value < -0.7


def test_what_cannot_be_learnt_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no range"):
        TDSettings(opening_plies=(5, 2))
    with pytest.raises(ConfigError, match="game"):
        td_ntuple.setup(dataclasses.replace(small_config(), game=GameConfig(name="chesss")))
    file = tmp_path / "c.toml"
    file.write_text('[run]\nalgorithm = "td_ntupel"\n[game]\nname = "tic_tac_toe"\n')
    with pytest.raises(ConfigError, match='nearest is "td_ntuple"'):
        algorithms.load(file)
    assert type(algorithms.load(file, ["run.algorithm=alphazero"])).__name__ == "Config"
    assert type(algorithms.load(file, ['run.algorithm="td_ntuple"'])) is TDConfig
