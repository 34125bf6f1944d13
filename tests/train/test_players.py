"""Players: legal moves, specs, networks from checkpoints, solved positions."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from train import checkpoint, ladder, solved
from train.arena import play_match
from train.networks import make_network
from train.player_specs import make_player
from train.players import (
    HostPlayer,
    Player,
    choose_actions,
    consult,
    network_player,
    random_player,
    uct_player,
)

TIC_TAC_TOE = games_jax.make("tic_tac_toe")
CONNECT_FOUR = games_jax.make("connect_four")
DATA = Path(__file__).parent.parent / "data" / "connect_four_solved.json.gz"


@functools.partial(jax.jit, static_argnums=(0, 1))
def midgame(game, count: int, plies):
    """`[count]` states after random legal plies, some of which may be over."""
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), count))

    def step(ply, states):
        return jax.vmap(game.step)(states, random_player(game).act(jax.random.key(ply), states))

    return jax.lax.fori_loop(0, plies, step, states)


@functools.partial(jax.jit, static_argnums=0)
def legal_and_running(game, states):
    return jax.vmap(game.legal_actions)(states), ~jax.vmap(game.is_over)(states)


@functools.cache
def mlp(game):
    network = make_network("mlp", game, width=16, depth=1)
    return network, jax.jit(network.init)(jax.random.key(0))


def save_run(directory: Path, game, network, params, changes=()) -> Path:
    """A run directory with one checkpoint, whose identity may be falsified by `changes`."""
    facts = dict(
        game=game.name, game_version=game.version, network=network.name, network_options=network.options
    )
    checkpoint.save(
        directory / "checkpoints",
        {"params": params},
        params,
        identity=checkpoint.Identity(**{**facts, **dict(changes)}),
        config={},
        iteration=3,
        seconds=1.0,
    )
    return directory


SPECS = [
    "random",
    "uct:8@c=0.5,playouts=2",
    "run:DIR@sims=0",
    "run:DIR@sims=8",
    "run:DIR@sims=8,search=gumbel",
    "run:DIR@sims=8,temperature=1",
    "run:DIR@sims=0,temperature=0.5",
]


@pytest.mark.parametrize("spec", SPECS)
def test_every_player_plays_legal_moves(spec, tmp_path):
    save_run(tmp_path, TIC_TAC_TOE, *mlp(TIC_TAC_TOE))
    player = make_player(spec.replace("DIR", str(tmp_path)), TIC_TAC_TOE)
    assert player.name == spec.replace("DIR", str(tmp_path))
    for plies in (0, 3, 7):
        states = midgame(TIC_TAC_TOE, 32, plies)
        actions = choose_actions(player, jax.random.key(1), states)
        assert actions.shape == (32,) and actions.dtype == jnp.int32
        legal, running = map(np.asarray, legal_and_running(TIC_TAC_TOE, states))
        assert legal[np.arange(32), actions][running].all()


def test_random_player_is_uniform_over_legal_moves():
    state = CONNECT_FOUR.from_string("111111")  # the first column is full
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (6000, *x.shape)), state)
    counts = np.bincount(choose_actions(random_player(CONNECT_FOUR), jax.random.key(0), states), minlength=7)
    assert counts[0] == 0
    expected = 1000
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 20.5  # chi-square, 5 degrees, p = 0.001


def test_uct_takes_a_win_and_stops_a_loss():
    wins = CONNECT_FOUR.from_string("414243")  # X has three of column 4: play 4
    stops = CONNECT_FOUR.from_string("41424")  # X threatens it and O is to move
    states = jax.tree.map(lambda *x: jnp.stack(x), wins, stops)
    actions = choose_actions(uct_player(CONNECT_FOUR, simulations=400), jax.random.key(0), states)
    assert actions.tolist() == [3, 3]


def test_uct_1000_does_not_lose_at_tic_tac_toe():
    player = uct_player(TIC_TAC_TOE, simulations=1000)
    result = play_match(
        TIC_TAC_TOE, player, random_player(TIC_TAC_TOE), games=60, key=jax.random.key(0), opening_plies=1
    )
    wins, _, losses = result.wins_draws_losses()
    assert losses == 0 and wins > 40


def test_more_simulations_are_stronger():
    strong, weak = uct_player(CONNECT_FOUR, simulations=200), uct_player(CONNECT_FOUR, simulations=8)
    result = play_match(CONNECT_FOUR, strong, weak, games=60, key=jax.random.key(0))
    assert result.encounter.interval[0] > 0.5


def test_thinking_is_acting_with_the_search_beside_it():
    player = uct_player(TIC_TAC_TOE, simulations=32)
    states = midgame(TIC_TAC_TOE, 4, 1)
    actions, output = consult(player, jax.random.key(5), states)
    assert output is not None
    np.testing.assert_array_equal(actions, choose_actions(player, jax.random.key(5), states))
    assert (np.asarray(output.visits).sum(axis=1) == 32).all()
    np.testing.assert_array_equal(output.visits[np.arange(4), actions], np.asarray(output.visits).max(axis=1))
    assert consult(random_player(TIC_TAC_TOE), jax.random.key(0), states)[1] is None


def test_a_network_alone_plays_its_likeliest_legal_move():
    network, params = mlp(CONNECT_FOUR)
    player = network_player("net", CONNECT_FOUR, network, params, simulations=0)
    states = midgame(CONNECT_FOUR, 16, 5)
    observe = jax.vmap(lambda s: CONNECT_FOUR.observe(s, CONNECT_FOUR.current_player(s)))
    logits = np.asarray(jax.jit(lambda p, s: network.apply(p, observe(s)).policy_logits)(params, states))
    legal, _ = map(np.asarray, legal_and_running(CONNECT_FOUR, states))
    expected = np.where(legal, logits, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(choose_actions(player, jax.random.key(0), states), expected)


def test_players_of_one_network_share_their_functions():
    network, params = mlp(TIC_TAC_TOE)
    one = network_player("one", TIC_TAC_TOE, network, params, simulations=4)
    other = network_player("other", TIC_TAC_TOE, network, jax.tree.map(jnp.zeros_like, params), simulations=4)
    assert one.act is other.act
    assert uct_player(TIC_TAC_TOE, simulations=5).act is uct_player(TIC_TAC_TOE, simulations=5).act


# Specs


@pytest.mark.parametrize(
    "spec, complaint",
    [
        ("randon", "did you mean 'random'"),
        ("stockfish", "players are random, uct:SIMULATIONS"),
        ("", "Unknown player ''"),
        ("random:3", "random takes no argument"),
        ("uct", "number of simulations must be a whole number of at least 1, got ''"),
        ("uct:many", "got 'many'"),
        ("uct:0", "at least 1, got '0'"),
        ("uct:10@c=nan", "c must be a number of at least 0, got 'nan'"),
        ("uct:10@depth=3", "there is no option 'depth' (options: c, playouts)"),
        ("uct:10@c=1,", "'' is not of the form key=value"),
        ("run:", "the path is missing"),
        ("run:nowhere", "nowhere is no directory"),
        ("run:nowhere@search=uct", "search must be one of puct, gumbel, policy_bonus"),
        ("run:nowhere@c_puct=much", 'c_puct = "much" is a string; expected a number'),
        ("run:nowhere@first_play=good", 'first_play = "good" is not allowed; expected'),
        ("run:nowhere@search=policy_bonus,playout_weight=2", "playout_weight = 2"),
        ("run:nowhere@playout_weight=1", "no option 'playout_weight' (options: sims, search, temp"),
        ("run:nowhere@search=gumbel,solver=true", "no option 'solver' (options: sims, search, temp"),
        ("bitbully:full", "plays connect_four only, not tic_tac_toe"),
    ],
)
def test_mistaken_specs_get_one_clear_sentence(spec, complaint):
    with pytest.raises(ValueError) as caught:
        make_player(spec, TIC_TAC_TOE)
    assert complaint in str(caught.value) and "\n" not in str(caught.value)


def test_a_spec_changes_the_search_of_a_run(tmp_path):
    """The solver plays the win that it has proven; so few simulations alone visit each square once."""
    save_run(tmp_path, TIC_TAC_TOE, *mlp(TIC_TAC_TOE))
    state = jax.tree.map(lambda x: x[None], TIC_TAC_TOE.from_string("XX./OO./... X"))
    act = {}
    for solver in ("true", "false"):
        player = make_player(f"run:{tmp_path}@sims=5,solver={solver},c_puct=1000", TIC_TAC_TOE)
        answers = [int(choose_actions(player, jax.random.key(k), state)[0]) for k in range(8)]
        act[solver] = set(answers)
    assert act["true"] == {2}
    assert len(act["false"]) > 1


def test_a_spec_changes_the_search_of_expert_iteration(tmp_path):
    save_run(tmp_path, TIC_TAC_TOE, *mlp(TIC_TAC_TOE))
    changed = "search=policy_bonus,playout_weight=0.5,policy_temperature=0.25,c_guided=2,solver=true"
    player = make_player(f"run:{tmp_path}@sims=5,{changed}", TIC_TAC_TOE)
    direct = network_player(
        "direct",
        TIC_TAC_TOE,
        *mlp(TIC_TAC_TOE),
        simulations=5,
        search="policy_bonus",
        constants=(("c", 2.0), ("playout_weight", 0.5), ("policy_temperature", 0.25), ("solver", True)),
    )
    states = midgame(TIC_TAC_TOE, 32, 2)
    np.testing.assert_array_equal(*(choose_actions(p, jax.random.key(0), states) for p in (player, direct)))


def test_a_checkpoint_of_another_game_or_network_is_refused(tmp_path):
    save_run(tmp_path / "a", TIC_TAC_TOE, *mlp(TIC_TAC_TOE))
    with pytest.raises(
        ValueError, match=r"was trained on tic_tac_toe \(rules version 1\), not on connect_four"
    ):
        make_player(f"run:{tmp_path / 'a'}", CONNECT_FOUR)
    save_run(tmp_path / "b", TIC_TAC_TOE, *mlp(TIC_TAC_TOE), {"game_version": 99})
    with pytest.raises(ValueError, match="version 99"):
        make_player(f"run:{tmp_path / 'b'}", TIC_TAC_TOE)
    save_run(tmp_path / "c", TIC_TAC_TOE, *mlp(TIC_TAC_TOE), {"network": "transformer"})
    with pytest.raises(ValueError, match=r'"transformer" .*expected one of hexagonal, mlp'):
        make_player(f"run:{tmp_path / 'c'}", TIC_TAC_TOE)


def test_a_run_plays_with_the_parameters_of_its_newest_checkpoint(tmp_path):
    network, params = mlp(TIC_TAC_TOE)
    save_run(tmp_path / "run@1", TIC_TAC_TOE, network, params)
    loaded = make_player(f"run:{tmp_path / 'run@1'}", TIC_TAC_TOE)  # no option, though there is an @
    assert isinstance(loaded, Player)
    jax.tree.map(np.testing.assert_array_equal, loaded.params, dict(params))


# Solved positions


@pytest.fixture(scope="module")
def positions():
    return solved.load_solved(DATA)


def test_solved_positions_are_the_positions_of_the_file(positions):
    assert len(positions.ply) == 1000 and positions.ply.min() == 8 and positions.ply.max() == 30
    legal, _ = map(np.asarray, legal_and_running(CONNECT_FOUR, positions.states))
    assert not (positions.keeps & ~legal).any() and positions.keeps.any(axis=1).all()
    assert not (positions.optimal & ~positions.keeps).any()
    np.testing.assert_array_equal(
        np.asarray(jax.vmap(CONNECT_FOUR.current_player)(positions.states)), positions.ply % 2
    )
    assert 0.45 < positions.decisive.mean() < 0.6


def test_random_play_keeps_the_result_as_often_as_the_data_say(positions):
    found = solved.accuracy(random_player(CONNECT_FOUR), positions, key=jax.random.key(0))
    legal, _ = map(np.asarray, legal_and_running(CONNECT_FOUR, positions.states))
    exact = (positions.keeps.sum(axis=1) / legal.sum(axis=1)).mean()
    assert abs(found.all.share - exact) < 4 * found.all.error
    assert found.decisive.share < found.all.share


def test_bitbully_plays_perfectly(positions):
    bitbully = pytest.importorskip("bitbully", reason="optional engine")
    del bitbully
    late = np.flatnonzero(positions.ply >= 16)[:100]  # quick to solve
    some = jax.tree.map(lambda x: x[late], positions)
    player = make_player("bitbully:full", CONNECT_FOUR)
    assert isinstance(player, HostPlayer)
    found = solved.accuracy(player, some, key=jax.random.key(0))
    assert found.all.share == found.decisive.share == found.optimal.share == 1.0
    shallow = solved.accuracy(make_player("bitbully:1", CONNECT_FOUR), some, key=jax.random.key(0))
    assert shallow.all.share < 1.0


def test_moving_first_alternates_from_the_empty_board():
    left = HostPlayer("left", lambda state, rng: int(np.argmax(CONNECT_FOUR.legal_actions(state))))
    right = HostPlayer(
        "right", lambda state, rng: int(6 - np.argmax(CONNECT_FOUR.legal_actions(state)[::-1]))
    )
    points = solved.play_first(left, right, games=3, key=jax.random.key(0))
    assert points.tolist() == [1, 1, 1]  # four in the first column before four in the last


def test_a_file_that_is_no_solved_positions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        solved.load_solved(tmp_path / "none.gz")
    (tmp_path / "bad.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match="not a gzipped JSON file"):
        solved.load_solved(tmp_path / "bad.gz")


# The ladder


def rungs() -> ladder.Ladder:
    opponents = [make_player("random", TIC_TAC_TOE), make_player("uct:16", TIC_TAC_TOE)]
    return ladder.Ladder(TIC_TAC_TOE, opponents, games=20, opening_plies=1)


def self_at(iteration: int, params) -> Player:
    network, _ = mlp(TIC_TAC_TOE)
    return network_player(f"iteration {iteration}", TIC_TAC_TOE, network, params, simulations=0)


def test_ladder_rates_selves_together_and_remembers():
    _, params = mlp(TIC_TAC_TOE)
    steps = rungs()
    first = steps.rate(self_at(1, params), jax.random.key(1))
    second = steps.rate(self_at(2, params), jax.random.key(2))
    assert set(first["opponents"]) == {"random", "uct:16"}
    assert set(first["calibration"]) == {"uct:16 v. random"}
    assert set(second["opponents"]) == {"random", "uct:16", ladder.PREVIOUS_SELF}
    assert second["calibration"] == {}
    assert second["opponents"][ladder.PREVIOUS_SELF]["second"] == "iteration 1"
    for record in (first, second):
        assert record["elo_low"] <= record["elo"] <= record["elo_high"]
    ratings = {r.name: r.elo for r in steps.ratings()}
    assert set(ratings) == {"random", "uct:16", "iteration 1", "iteration 2"}
    assert ratings["random"] == 0 < ratings["uct:16"]
    assert second["elo"] == ratings["iteration 2"]
    records = [{"kind": "iteration"}, *({"kind": "evaluation", **r} for r in (first, second))]
    assert ladder.encounters_from(json.loads(json.dumps(records))) == steps.encounters


def test_ladder_keeps_a_copy_of_the_parameters():
    _, params = mlp(TIC_TAC_TOE)
    mine = jax.tree.map(jnp.copy, params)
    steps = rungs()
    steps.rate(self_at(1, mine), jax.random.key(0))
    jax.tree.map(lambda x: x.delete(), mine)  # as donation does
    assert ladder.PREVIOUS_SELF in steps.rate(self_at(2, params), jax.random.key(1))["opponents"]


def test_ladder_needs_different_opponents():
    with pytest.raises(ValueError, match="different names"):
        ladder.Ladder(TIC_TAC_TOE, [random_player(TIC_TAC_TOE)] * 2, games=4)
