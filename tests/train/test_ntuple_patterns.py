"""N-tuple networks of patterns: which rows are looked up, in which stage, and how they are changed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.game import symmetries_of
from train import td_update
from train.networks.ntuple import cells_of, encode, make_ntuple_network
from train.networks.ntuple_values import _member
from train.networks.pattern_sets import pattern_set
from train.networks.pattern_tuples import pattern_tuples
from train.ntuple_options import NTupleOptions
from train.schema import ConfigError
from train.td_config import TDSettings
from train.td_games import make_starts

BATCH = 12
OPTIONS = {
    "tuples": "patterns",
    "patterns": "edges+lines+corners3x3",
    "planes": 2,
    "weights": "relative",
    "stages": 5,
}


@functools.cache
def positions():
    """Othello on 6x6 after up to 24 random plies, and who made each."""
    game = games_jax.make("othello", size=6)
    starts = jax.jit(make_starts, static_argnums=(0, 2), static_argnames=("share", "plies"))
    states = starts(game, jax.random.key(3), BATCH, share=1.0, plies=(0, 24))
    return game, states, 1 - jax.vmap(game.current_player)(states)


def rows_by_hand(network, cells, canonical):
    """What each tuple looks up in one position, sorted: from the definition."""
    images, sizes = cells_of(network.game, 2).images, [3 ** len(t) for t in network.tuples]
    stones = int((cells > 0).sum())
    found = []
    for number, members in enumerate(network.tuples):
        by_place: dict = {}
        for k, image in enumerate(images):
            index = sum(int(cells[image[cell]]) * 3**digit for digit, cell in enumerate(members))
            place = frozenset(image[list(members)].tolist()) if canonical else k
            by_place.setdefault(place, []).append(index)
        stage = stones * network.options.stages // (len(cells) + 1)
        offset = stage * sum(sizes) + sum(sizes[:number])
        found += [offset + min(same) for same in by_place.values()]
    return sorted(found)


@pytest.mark.parametrize("canonical", [False, True])
def test_rows_of_patterns(canonical):
    game, states, makers = positions()
    network = make_ntuple_network(game, NTupleOptions(**OPTIONS, canonical=canonical))
    cells = np.asarray(encode(game, states, makers, 2)).T
    rows = np.asarray(jax.jit(network.rows)(states, makers))
    assert 0 <= rows.min() and rows.max() < network.num_rows and len(set((cells > 0).sum(1))) > 3
    for b in range(BATCH):
        assert sorted(rows[:, b].tolist()) == rows_by_hand(network, cells[b], canonical)


def test_canonical_ones_are_fewer_and_as_symmetric():
    game, states, makers = positions()
    network = make_ntuple_network(game, NTupleOptions(**OPTIONS, canonical=True))
    plain = make_ntuple_network(game, NTupleOptions(**OPTIONS))
    # 4 edges, 4 outer and 8 inner rows and columns, 2 + 3 * 4 diagonals, 4 corners: each seen in 8 images.
    assert network.num_lookups == 4 + 12 + 14 + 4 and plain.num_lookups == 8 * 9
    weights = jax.random.normal(jax.random.key(0), (network.num_rows,)) * 0.1
    judge = jax.jit(network.values)
    values = judge(weights, states, makers)
    symmetries = symmetries_of(game)
    assert symmetries is not None and float(jnp.std(values)) > 0.05
    transform = jax.jit(jax.vmap(game.transform, in_axes=(0, None)))  # pyright: ignore
    for k in range(len(symmetries)):
        images = transform(states, jnp.int32(k))
        np.testing.assert_allclose(judge(weights, images, makers), values, rtol=2e-5, atol=2e-5)


def test_one_change_equals_the_rule_row_by_row():
    game, states, makers = positions()
    network = make_ntuple_network(game, NTupleOptions(**OPTIONS, canonical=True))
    one, maker = jax.tree.map(lambda x: x[:1], states), makers[:1]
    rng = np.random.default_rng(0)
    table = rng.normal(size=(network.num_rows, 3)).astype(np.float32) * 0.1
    table[:, 2] = np.abs(table[:, 1]) + 0.05
    td = TDSettings(games=1, alpha=0.9)
    rows = network.rows(one, maker)
    changed, _, _ = td_update.update(
        network,
        td,
        jnp.asarray(table),
        rows[None],
        jnp.zeros((1, 1)),
        jnp.array([0.4]),
        jnp.array([True]),
        jnp.float32(0.9),
    )
    looked_up = np.asarray(rows)[:, 0].tolist()
    assert len(set(looked_up)) < len(looked_up)  # some row is looked up twice
    expected = table.astype(np.float64)
    value = np.tanh(expected[looked_up, 0].sum())
    wanted = (0.4 - value) * (1 - value**2)
    for row in set(looked_up):
        x = abs(expected[row, 1] + td.coherence_init) / (expected[row, 2] + td.coherence_init)
        expected[row, 0] += 0.9 / len(looked_up) * np.exp(td.coherence_beta * (x - 1)) * wanted
    for row in looked_up:
        expected[row, 1:] += wanted, abs(wanted)
    np.testing.assert_allclose(changed, expected, atol=1e-6)


@pytest.mark.parametrize("size", [6, 8])
def test_stones_are_the_observation(size):
    game = games_jax.make("othello", size=size)
    make = jax.jit(lambda key: make_starts(game, key, 8, share=1.0, plies=(0, 12)))
    states = make(jax.random.key(1))
    for player in (0, 1):
        players = jnp.full(8, player, jnp.int32)
        shown = np.asarray(jax.jit(jax.vmap(game.observe))(states, players)).reshape(8, -1, 3)
        stones = np.asarray(jax.jit(jax.vmap(game.stones))(states, players))  # pyright: ignore
        np.testing.assert_array_equal(stones, shown[..., 0] + 2 * shown[..., 1])


def test_members_of_sets_in_order():
    rng = np.random.default_rng(0)
    for actions in (20, 32, 65, 97):
        legal = rng.random((30, actions)) < rng.random((30, 1))
        bits = np.zeros((30, -(-actions // 32) * 32), bool)
        bits[:, :actions] = legal
        words = (bits.reshape(30, -1, 32) * (1 << np.arange(32, dtype=np.uint64))).sum(-1).astype(np.uint32)
        row, action = np.nonzero(legal)
        rank = (legal.cumsum(axis=1) - 1)[row, action]
        found = _member(jnp.asarray(words[row].T), jnp.asarray(rank, jnp.int32))
        np.testing.assert_array_equal(found, action)


def test_one_pattern_of_each_family():
    images = cells_of(games_jax.make("othello")).images
    tuples = pattern_tuples("edges+lines+corners3x3+corners2x5", (8, 8, 3), images)
    # An edge with X squares; four rows; diagonals of 8, 7 ... 3; two corners: Buro's eleven and two more.
    assert sorted(map(len, tuples)) == [3, 4, 5, 6, 7, 8, 8, 8, 8, 8, 9, 10, 10]
    every = pattern_tuples("edges+lines+corners3x3+corners2x5", (8, 8, 3), images[:1])
    assert len(every) == 4 + 16 + 22 + 4 + 8


def test_edges_have_their_x_squares():
    found = {frozenset(pattern.cells) for pattern in pattern_set("edges", (8, 8, 3))}
    top = frozenset([*range(8), 9, 14])
    assert len(found) == 4 and top in found and frozenset([*range(0, 64, 8), 9, 49]) in found
    with pytest.raises(ConfigError, match="empty on a board of 3x3"):
        pattern_set("edges", (3, 3, 3))


def test_stages_need_a_board():
    with pytest.raises(ConfigError, match="counts stones"):
        make_ntuple_network(games_jax.make("cube2"), NTupleOptions(adjacency="all", number=3, stages=2))
