import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games_jax
from games_jax import bits

SHAPES = [(1, 32), (2, 32), (2, 28), (3, 20)]  # words, width
boards = st.sampled_from(SHAPES).flatmap(
    lambda shape: st.tuples(st.just(shape), st.integers(0, 2 ** (shape[0] * shape[1]) - 1))
)


def mask(words, width):
    return (1 << (words * width)) - 1


def clean(board, width):
    """What lies below `width` in each word; above it shifts leave rubbish by contract."""
    return bits.to_int(tuple(word & np.uint32((1 << width) - 1) for word in board), width=width)


@given(boards)
def test_integers_round_trip(board):
    (words, width), value = board
    assert bits.to_int(bits.from_int(value, words=words, width=width), width=width) == value
    assert bits.to_int(bits.constant(value, words=words, width=width), width=width) == value


@pytest.mark.parametrize("value", [-1, 1 << 56])
def test_integer_that_does_not_fit(value):
    with pytest.raises(ValueError, match="does not fit 2 words of 28 bits"):
        bits.from_int(value, words=2, width=28)


@given(boards, st.integers(1, 19))
def test_shifts_are_those_of_integers(board, count):
    (words, width), value = board
    given = bits.from_int(value, words=words, width=width)
    up = clean(bits.shift_up(given, count, width=width), width)
    assert up == (value << count) & mask(words, width)
    assert clean(bits.shift_down(given, count, width=width), width) == value >> count


@given(boards, st.integers(0, 2**64 - 1))
def test_logic_is_that_of_integers(board, other):
    (words, width), a = board
    b = other & mask(words, width)
    x, y = (bits.from_int(value, words=words, width=width) for value in (a, b))
    as_int = functools.partial(bits.to_int, width=width)
    assert as_int(bits.both(x, y)) == a & b
    assert as_int(bits.either(x, y)) == a | b
    assert as_int(bits.differ(x, y)) == a ^ b
    assert as_int(bits.without(x, y)) == a & ~b
    assert as_int(bits.where(jnp.bool_(True), x, y)) == a
    assert as_int(bits.where(jnp.bool_(False), x, y)) == b
    assert int(bits.popcount(x)) == a.bit_count()
    assert bool(bits.is_any(x)) == (a != 0)
    assert bool(bits.equal(x, y)) == (a == b)
    assert [as_int(board) for board in bits.compute_once(x, y)] == [a, b]


def test_a_tree_computed_once_is_the_same_to_the_last_bit():
    tree = {
        "words": (jnp.asarray([0, 1, 2**32 - 1], jnp.uint32),),
        "numbers": jnp.asarray([-(2**31), -1, 2**31 - 1], jnp.int32),
        "values": jnp.asarray([-0.0, 1e-45, np.nan], jnp.float32),
        "flags": jnp.asarray([True, False, True]),
    }
    once = jax.jit(jax.vmap(bits.compute_tree_once))(tree)
    assert jax.tree.structure(once) == jax.tree.structure(tree)
    for kept, given_ in zip(jax.tree.leaves(once), jax.tree.leaves(tree), strict=True):
        assert kept.dtype == given_.dtype
        assert np.asarray(kept).tobytes() == np.asarray(given_).tobytes()


@pytest.mark.parametrize(("words", "width"), SHAPES)
def test_single_bits_and_those_off_the_board(words, width):
    size = words * width
    for index in range(-2, size + 2):
        board = bits.bit(jnp.int32(index), words=words, width=width)
        assert bits.to_int(board, width=width) == (1 << index if 0 <= index < size else 0)


@settings(max_examples=15)  # each has shapes of its own to compile
@given(boards, st.randoms(use_true_random=False))
def test_unpack_pack_and_permute(board, random):
    (words, width), value = board
    size = words * width
    positions = np.array(random.sample(range(size), size - 3))
    given = bits.from_int(value, words=words, width=width)
    cells = np.asarray(bits.unpack(given, positions, width=width))
    assert cells.tolist() == [bool(value >> p & 1) for p in positions]
    packed = bits.to_int(bits.pack(jnp.asarray(cells), positions, words=words, width=width), width=width)
    assert packed == value & bits.mask_of(positions)
    source = np.array(random.sample(range(size - 3), size - 3), np.int32)
    permuted = bits.permute(given, jnp.asarray(source), positions, width=width)
    assert np.asarray(bits.unpack(permuted, positions, width=width)).tolist() == cells[source].tolist()


def test_planes_stack_boards_in_the_last_axis():
    positions = np.arange(6).reshape(2, 3)
    seen = np.asarray(bits.planes([bits.from_int(v, words=1) for v in (0b000011, 0b110000)], positions))
    assert seen.shape == (2, 3, 2)
    assert seen[..., 0].ravel().tolist() == [True, True, False, False, False, False]
    assert seen[..., 1].ravel().tolist() == [False, False, False, False, True, True]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="about XLA's CPU fusion")
@pytest.mark.parametrize("name", ["connect_four", "othello"])
def test_a_step_is_computed_once(name):
    """XLA's CPU fusion would otherwise copy the whole step into the kernel of every word of the state."""
    game = games_jax.make(name)

    def ply(state, action):
        after = game.step(state, action)
        return after, game.is_over(after), game.rewards(after)

    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 256))
    lowered = jax.jit(jax.vmap(ply)).lower(states, jnp.zeros(256, jnp.int32))
    written = lowered.as_text().count("shift_right_logical") + lowered.as_text().count("shift_left")
    compiled = lowered.compile().as_text()
    kept = compiled.count("shift-right-logical(") + compiled.count("shift-left(")
    assert kept <= 1.2 * written
