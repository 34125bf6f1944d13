"""N-tuple networks: which rows a position looks up, how walks are drawn, and the evaluator made of one."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
import jaxsearch
from games_jax.game import symmetries_of
from train.networks import evaluator, ntuple
from train.networks.ntuple import (
    as_player_network,
    cells_of,
    encode,
    look_up,
    make_ntuple_network,
    value_evaluator,
)
from train.networks.pattern_sets import pattern_set
from train.networks.tuple_sets import CONNECT_FOUR_70, make_tuples
from train.ntuple_options import NTupleOptions
from train.schema import ConfigError
from train.td_games import make_starts


@functools.cache
def random_states(name: str, count: int = 12, plies: int = 6):
    """Positions after up to so many random plies, none of them over."""
    game = games_jax.make(name)
    starts = jax.jit(make_starts, static_argnums=(0, 2), static_argnames=("share", "plies"))
    return game, starts(game, jax.random.key(3), count, share=1.0, plies=(0, plies))


def by_hand(network, cells, player):
    """The rows of one position, from the definition: digits of the cells, least significant first."""
    values, images = cells_of(network.game).values, cells_of(network.game).images
    images = images if network.options.symmetric else np.arange(len(values))[None]
    sizes = [int(np.prod([values[c] for c in members])) for members in network.tuples]
    rows = []
    for image in images:
        seen = cells[image]
        for number, members in enumerate(network.tuples):
            index, weight = 0, 1
            for cell in members:
                index += weight * int(seen[cell])
                weight *= values[cell]
            rows.append(sum(sizes[:number]) + index + player * sum(sizes) * (network.num_sets > 1))
    return rows


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("connect_four", NTupleOptions(tuples="connect_four_70")),
        ("connect_four", NTupleOptions(number=4, length=5, adjacency="4", weights="relative")),
        ("tic_tac_toe", NTupleOptions(number=3, length=4, symmetric=False)),
        ("othello", NTupleOptions(number=3, length=4)),
        ("cube2", NTupleOptions(number=5, length=7, adjacency="all")),
        ("cube3", NTupleOptions(number=9, length=7, adjacency="groups", groups=(16, 24))),
    ],
)
def test_rows_are_mixed_radix_numbers(name, options):
    game, states = random_states(name)
    network = make_ntuple_network(game, options)
    movers = jax.vmap(game.current_player)(states)
    makers = 1 - movers if game.num_players == 2 else movers
    rows = np.asarray(jax.jit(network.rows)(states, makers))
    assert rows.shape == (network.num_lookups, len(makers))
    assert 0 <= rows.min() and rows.max() < network.num_rows
    viewers = makers if options.weights == "relative" else jnp.zeros_like(makers)
    cells = np.asarray(encode(game, states, viewers, options.planes)).T
    for b in range(len(makers)):
        assert rows[:, b].tolist() == by_hand(network, cells[b], int(makers[b]))


def test_rows_beyond_exact_floats_are_exact():
    # Seven cells of twelve values: 12^7 = 35,831,808 rows, more than float32 counts.
    game, states = random_states("cube3")
    members = tuple(range(16, 23))
    assert cells_of(game).values[16:23] == (12,) * 7
    values = np.asarray(cells_of(game).values, np.int64)
    columns = [(0, np.arange(40))]
    parts = [ntuple._powers((part,), values, columns) for part in (members[:3], members[3:])]
    network = dataclasses.replace(
        make_ntuple_network(game, NTupleOptions(number=1, length=7, adjacency="all")),
        tuples=(members,),
        powers=np.concatenate(parts, axis=1),
        low_size=np.array([12**3], np.int32),
        offsets=np.zeros((1, 1), np.int32),
        rows_of_set=12**7,
    )
    rows = np.asarray(network.rows(states, jnp.zeros(12, jnp.int32)))
    cells = np.asarray(encode(game, states, jnp.zeros(12, jnp.int32))).T
    assert rows.max() > 2**24
    for b in range(12):
        assert rows[:, b].tolist() == by_hand(network, cells[b], 0)


def test_cells_of_connect_four_are_the_four_of_the_paper():
    game = games_jax.make("connect_four")
    state = jax.tree.map(lambda x: x[None], game.from_string("4453"))
    cells = np.asarray(encode(game, state, jnp.zeros(1, jnp.int32))).reshape(6, 7)
    # 1 the first player's, 2 the second's, 3 reachable now, 0 empty and not reachable.
    assert cells[5].tolist() == [3, 3, 2, 1, 1, 3, 3]
    assert cells[4].tolist() == [0, 0, 3, 2, 3, 0, 0]
    assert cells[3].tolist() == [0, 0, 0, 3, 0, 0, 0]
    assert not cells[:3].any()


def test_images_of_a_board_have_one_value():
    game, states = random_states("othello")
    network = make_ntuple_network(game, NTupleOptions(number=5, length=4))
    weights = jax.random.normal(jax.random.key(0), (network.num_rows,))
    players = jnp.zeros(12, jnp.int32)
    values = network.values(weights, states, players)
    symmetries = symmetries_of(game)
    assert symmetries is not None
    transform = getattr(game, "transform")  # noqa: B009, only games with symmetries have it
    for k in range(len(symmetries)):
        images = jax.vmap(lambda state, k=k: transform(state, jnp.int32(k)))(states)
        np.testing.assert_allclose(network.values(weights, images, players), values, rtol=2e-5, atol=2e-5)


def test_look_up_adds_the_first_column():
    rng = np.random.default_rng(0)
    for number in (3, 10, 27):
        rows = rng.integers(0, 50, (number, 6)).astype(np.int32)
        table = rng.normal(size=(50, 3)).astype(np.float32)
        expected = table[:, 0][rows].sum(axis=0)
        np.testing.assert_allclose(look_up(jnp.asarray(table), jnp.asarray(rows)), expected, rtol=1e-5)
        np.testing.assert_allclose(look_up(jnp.asarray(table[:, 0]), jnp.asarray(rows)), expected, rtol=1e-5)


def test_walks_are_connected_and_repeatable():
    options = NTupleOptions(number=20, length=6, adjacency="4")
    tuples = make_tuples(options, (4,) * 42, (6, 7))
    assert tuples == make_tuples(options, (4,) * 42, (6, 7))
    assert tuples != make_tuples(
        NTupleOptions(number=20, length=6, adjacency="4", tuple_seed=1), (4,) * 42, (6, 7)
    )
    for members in tuples:
        assert len(set(members)) == 6
        for position in range(1, 6):
            row, column = divmod(members[position], 7)
            before = [divmod(cell, 7) for cell in members[:position]]
            assert any(abs(r - row) + abs(c - column) == 1 for r, c in before)


def test_groups_are_never_mixed():
    tuples = make_tuples(
        NTupleOptions(number=40, length=7, adjacency="groups", groups=(16, 24)), (2,) * 40, None
    )
    kinds = [{cell >= 16 for cell in members} for members in tuples]
    assert all(len(kind) == 1 for kind in kinds)
    assert {True} in kinds and {False} in kinds


def test_published_tuples():
    # Cells column by column from the bottom, as the paper numbers them: the first and the last tuple.
    paper = [tuple(6 * (cell % 7) + 5 - cell // 7 for cell in members) for members in CONNECT_FOUR_70]
    assert len(paper) == len(set(paper)) == 70
    assert paper[0] == (0, 6, 7, 12, 13, 14, 19, 21)
    assert paper[1] == (13, 18, 19, 20, 21, 26, 27, 33)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("othello", {"tuples": "connect_four_70"}, "42 cells and the game has 64"),
        ("cube2", {"adjacency": "8"}, "needs a board"),
        ("cube2", {"adjacency": "groups", "groups": (3, 4)}, "7 cells in all and the game 14"),
        ("tic_tac_toe", {"length": 10}, "more than the 9 cells"),
        ("cube3", {"number": 200, "length": 12, "adjacency": "all"}, "fewer than"),
    ],
)
def test_tuples_that_do_not_fit_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        make_ntuple_network(games_jax.make(name), NTupleOptions(**options))


def test_evaluator_sees_the_best_successor():
    game, states = random_states("tic_tac_toe")
    options = NTupleOptions(number=4, length=4, adjacency="8", temperature=0.5)
    network = make_ntuple_network(game, options)
    weights = 0.1 * jax.random.normal(jax.random.key(1), (network.num_rows,))
    judge = jax.jit(value_evaluator(network, 0.5))
    logits, values = judge({"weights": weights}, jax.random.key(0), states)
    step, legal, value_of = jax.jit(game.step), jax.jit(game.legal_actions), jax.jit(network.values)
    for b in range(12):
        state = jax.tree.map(lambda x, b=b: x[b], states)
        mover = game.current_player(state)
        expected = {}
        for action in np.flatnonzero(legal(state)):
            after = step(state, jnp.int32(action))
            one = jax.tree.map(lambda x: x[None], after)
            value = float(value_of(weights, one, mover[None])[0])
            expected[action] = float(game.rewards(after)[mover]) + (0.0 if game.is_over(after) else value)
        assert float(values[b]) == pytest.approx(max(expected.values()), abs=1e-5)
        for action, q in expected.items():
            assert float(logits[b, action]) == pytest.approx(q / 0.5, abs=1e-4)


def test_is_a_network_of_players():
    game, states = random_states("tic_tac_toe")
    network = as_player_network(game, {"number": 4, "length": 4})
    assert as_player_network(game, network.options).options == network.options
    weights = network.init(jax.random.key(0))
    search = jaxsearch.puct(game, evaluator(network, game), simulations=16)
    out = jax.jit(search)(jax.random.key(0), states, weights)
    assert out.visits.shape == (12, 9)
    with pytest.raises(TypeError, match="states"):
        network.apply(weights, jnp.zeros((1, 3, 3, 3), bool))
    with pytest.raises(ConfigError, match="nearest"):
        as_player_network(game, {"numbers": 4})


def test_walks_from_lines_see_all_lines():
    tuples = make_tuples(NTupleOptions(start="lines4", number=69, length=8, adjacency="8"), (4,) * 42, (6, 7))
    found = {frozenset(members) for members in tuples}
    lines = [frozenset(p.cells) for p in pattern_set("lines4", (6, 7, 2))]
    assert len(lines) == 69 and all(len(members) == 8 for members in found)
    assert all(any(line <= members for members in found) for line in lines)


def test_fewer_walks_see_all_lines_with_mirror_images():
    # A line and its mirror image are 39 pairs; the first 39 walks are one of each.
    tuples = make_tuples(NTupleOptions(start="lines4", number=39, length=5, adjacency="8"), (4,) * 42, (6, 7))
    images = [frozenset(cell // 7 * 7 + 6 - cell % 7 for cell in members) for members in tuples]
    seen = images + [frozenset(members) for members in tuples]
    lines = [frozenset(p.cells) for p in pattern_set("lines4", (6, 7, 2))]
    assert all(any(line <= members for members in seen) for line in lines)


def test_pieces_are_whole_and_different():
    options = NTupleOptions(tuples="pieces", groups=(7, 7), length=4, number=35)
    tuples = make_tuples(options, (7,) * 7 + (3,) * 7, None)
    assert len(set(tuples)) == 35
    for members in tuples:
        assert len(members) == 8 and set(members[1::2]) == {cell + 7 for cell in members[::2]}
    cubies = make_tuples(
        NTupleOptions(tuples="pieces", groups=(8, 8, 12, 12), length=2, number=190), (1,) * 40, None
    )
    assert {cell for members in cubies for cell in members} == set(range(40))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"groups": (7, 6)}, "no places and facelets"), ({"number": 36}, "more than the 35")],
)
def test_pieces_that_there_are_not(changes, message):
    options = NTupleOptions(**({"tuples": "pieces", "groups": (7, 7), "length": 4, "number": 35} | changes))
    with pytest.raises(ConfigError, match=message):
        make_tuples(options, (7,) * 7 + (3,) * 7, None)


def test_lines_need_a_board():
    with pytest.raises(ConfigError, match="needs a board"):
        make_tuples(NTupleOptions(start="lines4", adjacency="all"), (3,) * 14, None)
