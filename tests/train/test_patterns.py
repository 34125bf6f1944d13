"""Which rows patterns look up, what the look-up adds up to, and what sharing under symmetry promises."""

import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from train.networks import make_network
from train.networks.pattern_sets import Pattern, auto_set, pattern_set
from train.networks.patterns import embedding, gather_sum, make_layout, pattern_rows

CONNECT_FOUR = games_jax.make("connect_four")
OTHELLO = games_jax.make("othello", size=6)


def random_planes(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Bool planes `[B, H, W, C]` that exclude one another."""
    codes = np.random.default_rng(seed).integers(0, shape[-1] + 1, shape[:-1])
    return codes[..., None] == np.arange(1, shape[-1] + 1)


class TestPatternSets:
    @pytest.mark.parametrize(
        ("name", "shape", "count"),
        [
            ("lines4", (6, 7, 3), 69),  # 24 across, 21 down, 12 + 12 diagonal
            ("lines3", (3, 3, 3), 8),
            ("lines5", (15, 15, 3), 572),  # gomoku
            ("lines", (8, 8, 3), 38),  # 8 rows, 8 columns, 2 x 11 diagonals of 3 to 8 cells
            ("lines", (6, 6, 3), 26),
            ("blocks2x3", (6, 7, 3), 25),
            ("tiles2x2", (8, 8, 3), 16),
            ("corners3x3", (8, 8, 3), 4),
            ("corners2x5", (8, 8, 3), 8),
            ("lines4+blocks2x2+lines4", (6, 7, 3), 69 + 30),
        ],
    )
    def test_sizes(self, name, shape, count):
        found = pattern_set(name, shape)
        assert len(found) == count
        assert len({pattern.cells for pattern in found}) == count
        assert all(0 <= cell < shape[0] * shape[1] for pattern in found for cell in pattern.cells)

    def test_lines4_are_the_winning_lines(self):
        """A game of Connect Four is won exactly if some pattern holds four stones of one colour."""
        cells = np.array([pattern.cells for pattern in pattern_set("lines4", (6, 7, 3))])

        def step(state, draw):
            action = jnp.argmax(jnp.where(CONNECT_FOUR.legal_actions(state), draw, -1.0))
            state = CONNECT_FOUR.step(state, action.astype(jnp.int32))
            board = CONNECT_FOUR.observe(state, jnp.int32(0))
            return state, (board, jnp.any(CONNECT_FOUR.rewards(state) != 0), CONNECT_FOUR.is_over(state))

        def play(draws):
            return jax.lax.scan(step, CONNECT_FOUR.init(jax.random.key(0)), draws)[1]

        boards, won, over = jax.jit(jax.vmap(play))(jax.random.uniform(jax.random.key(1), (40, 42, 7)))
        in_line = np.asarray(boards).reshape(40, 42, 42, 3)[:, :, cells, :2].all(axis=3).any(axis=(2, 3))
        for game in range(40):
            last = np.argmax(over[game])
            assert not np.any(in_line[game, :last])
            assert in_line[game, last] == won[game, last]
        assert 30 < np.sum(in_line.any(axis=1)) <= 40

    def test_long_lines_are_cut_into_pieces_that_cover_them(self):
        rows = [p.cells for p in pattern_set("lines", (1, 19, 3))]
        assert rows == [tuple(range(0, 8)), tuple(range(7, 15)), tuple(range(11, 19))]

    def test_long_patterns_look_at_stones_only(self):
        assert {p.planes for p in pattern_set("lines", (8, 8, 3))} == {2}
        assert max(p.states for p in pattern_set("lines", (8, 8, 3))) == 3**8
        assert {p.states for p in pattern_set("lines4", (6, 7, 3))} == {4**4}

    @pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four", "othello(size=6)", "othello(size=8)"])
    def test_auto_reads_every_cell(self, game):
        shape = games_jax.make(game).observation_shape
        found = pattern_set("auto", shape)
        assert found == pattern_set(auto_set(*shape[:2]), shape)
        assert {cell for pattern in found for cell in pattern.cells} == set(range(shape[0] * shape[1]))


def rows_by_hand(patterns: list[Pattern], board: np.ndarray) -> list[int]:
    """The row of each pattern on one board `[H, W, C]`, digit by digit."""
    flat = board.reshape(-1, board.shape[-1])
    rows, first = [], 0
    for pattern in patterns:
        row = first
        for digit, cell in enumerate(pattern.cells):
            for plane in range(pattern.planes):
                row += int(flat[cell, plane]) * (plane + 1) * (pattern.planes + 1) ** digit
        rows.append(row)
        first += pattern.states
    return rows


class TestRows:
    @pytest.mark.parametrize(
        ("name", "shape"),
        [("lines4", (6, 7, 3)), ("lines+corners2x5+tiles2x2", (8, 8, 3)), ("auto", (3, 3, 3))],
    )
    def test_equal_those_counted_by_hand(self, name, shape):
        patterns = pattern_set(name, shape)
        planes = random_planes(1, (16, *shape))
        layout = make_layout(patterns, shape, None)
        rows = jax.jit(lambda planes: pattern_rows(layout, planes))(planes)
        chex.assert_type(rows, jnp.int32)
        np.testing.assert_array_equal(rows.T, [rows_by_hand(patterns, board) for board in planes])
        assert layout.num_rows == sum(pattern.states for pattern in patterns)

    @given(data=st.data())
    @settings(max_examples=15, deadline=None)
    def test_any_patterns_stay_in_their_own_part_of_the_table(self, data):
        height, width, planes = (data.draw(st.integers(1, 5)) for _ in range(3))
        cells = st.lists(st.integers(0, height * width - 1), min_size=1, max_size=5, unique=True)
        one = st.builds(lambda c, p: Pattern(tuple(c), p), cells, st.integers(1, planes))
        patterns = data.draw(st.lists(one, min_size=1, max_size=6, unique=True))
        patterns = list({(frozenset(p.cells), p.planes): p for p in patterns}.values())
        boards = random_planes(data.draw(st.integers(0, 99)), (4, height, width, planes))
        layout = make_layout(patterns, (height, width, planes), None)
        rows = jax.jit(functools.partial(pattern_rows, layout))(boards)
        np.testing.assert_array_equal(rows.T, [rows_by_hand(patterns, board) for board in boards])
        assert rows.min() >= 0 and rows.max() < layout.num_rows


class TestGatherSum:
    @pytest.mark.parametrize("num_patterns", [1, 7, 8, 19])
    def test_equals_gather_then_sum(self, num_patterns):
        table = jax.random.normal(jax.random.key(0), (50, 6))
        rows = jax.random.randint(jax.random.key(1), (num_patterns, 9), 0, 50)
        weights = jax.random.normal(jax.random.key(2), (9, 6))

        def loss(sum_of_rows, table):
            return jnp.sum(weights * jnp.sin(sum_of_rows(table)))

        def judge(sum_of_rows):
            return jax.jit(jax.value_and_grad(functools.partial(loss, sum_of_rows)))(table)

        expected, expected_gradient = judge(lambda table: table[rows].sum(0))
        value, gradient = judge(lambda table: gather_sum(table, rows))
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-4)

    def test_rows_hit_twice_collect_both_gradients(self):
        rows = jnp.zeros((3, 4), jnp.int32)
        gradient = jax.grad(lambda table: gather_sum(table, rows).sum())(jnp.ones((2, 5)))
        np.testing.assert_array_equal(gradient, [[12.0] * 5, [0.0] * 5])

    def test_train_step_copies_no_table(self):
        """A copy of the whole table in each step would cost more than all else."""
        network = make_network("patterns", CONNECT_FOUR, embed=32)
        optimizer = optax.adam(1e-3)
        variables = jax.eval_shape(network.init, jax.random.key(0))
        planes = jax.ShapeDtypeStruct((64, 6, 7, 3), bool)

        def step(variables, state, planes):
            gradient = jax.grad(lambda v: jnp.sum(network.apply(v, planes).value ** 2))(variables)
            updates, state = optimizer.update(gradient, state)
            return optax.apply_updates(variables, updates), state

        lowered = jax.jit(step, donate_argnums=(0, 1)).lower(
            variables, jax.eval_shape(optimizer.init, variables), planes
        )
        hlo = lowered.compile().as_text()
        assert "f32[17664,32]" in hlo  # the table is in there under this name
        assert not re.findall(r"= f32\[17664,32\]\S* copy\(", hlo)


class TestSharing:
    @pytest.mark.parametrize(
        ("game", "patterns", "tables"),
        [(CONNECT_FOUR, "lines4", 36), (OTHELLO, "lines", 3 + 4), (games_jax.make("tic_tac_toe"), "auto", 3)],
        ids=lambda value: getattr(value, "name", str(value)),
    )
    def test_one_table_for_each_class_of_patterns(self, game, patterns, tables):
        found = pattern_set(patterns, game.observation_shape)
        layout = make_layout(found, game.observation_shape, game.symmetries.cells)
        assert len(layout.offsets) == tables * len(game.symmetries)
        assert len(set(layout.offsets.tolist())) == tables

    @pytest.mark.parametrize("game", [CONNECT_FOUR, OTHELLO], ids=lambda game: game.name)
    def test_a_transformed_board_permutes_the_blocks_of_the_embedding(self, game):
        symmetries = game.symmetries
        shape = game.observation_shape
        layout = make_layout(pattern_set("auto", shape), shape, symmetries.cells)
        table = jax.random.normal(jax.random.key(0), (layout.num_rows, 16))
        planes = jnp.asarray(random_planes(3, (5, *shape)))
        embed = jax.jit(functools.partial(embedding, layout, table))
        groups = len(symmetries)
        blocks = np.asarray(embed(planes)).reshape(5, groups, -1)
        for k in range(groups):
            transformed = jax.vmap(lambda board, k=k: symmetries.observation(board, jnp.int32(k)))(planes)
            moved = np.asarray(embed(transformed)).reshape(5, groups, -1)
            order = [np.abs(blocks - moved[:, [i]]).max(axis=(0, 2)).argmin() for i in range(groups)]
            assert sorted(order) == list(range(groups))
            np.testing.assert_allclose(moved, blocks[:, order], atol=1e-4)
            # A board and its image are told apart: the embedding is not invariant.
            assert (order == list(range(groups))) == (k == 0)

    def test_half_a_group_is_refused(self):
        half = OTHELLO.symmetries.cells[:3]
        with pytest.raises(ValueError, match=r"3 cell permutations .* not closed .* declare the whole group"):
            make_layout(pattern_set("lines4", (6, 6, 3)), (6, 6, 3), half)

    def test_needs_fewer_parameters(self):
        sizes = {share: make_network("patterns", CONNECT_FOUR, share=share) for share in ("none", "symmetry")}
        rows = {
            share: jax.eval_shape(network.init, jax.random.key(0))["params"]["table"].shape
            for share, network in sizes.items()
        }
        assert rows == {"none": (69 * 256, 64), "symmetry": (36 * 256, 64)}
