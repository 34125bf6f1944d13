"""Views: the same game under other actions."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.game import Game
from games_jax.views import ByRank, Restricted
from games_jax.wrapper import Wrapper


@functools.cache
def states(name, plies, **options):
    """Positions `[32]` of random games."""
    game = games_jax.make(name, **options)

    def play(key):
        def ply(state, key):
            legal = game.legal_actions(state)
            action = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
            return game.step(state, action.astype(jnp.int32)), None

        return jax.lax.scan(ply, game.init(key), jax.random.split(key, plies))[0]

    return game, jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 32))


@pytest.mark.parametrize(("name", "plies", "width"), [("othello", 30, 65), ("connect_four", 12, 7)])
def test_ranks_are_the_legal_actions_in_order(name, plies, width):
    game, positions = states(name, plies)
    view = ByRank(game, width=width)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, None))
    def by_rank(state, rank):
        return view.action_of(state, rank), view.step(state, rank)

    both = jax.jit(jax.vmap(lambda state: (game.legal_actions(state), view.legal_actions(state))))
    legal, ranks = map(np.asarray, both(positions))
    np.testing.assert_array_equal(ranks.sum(-1), legal.sum(-1))
    step = jax.jit(jax.vmap(game.step))
    for rank in range(3):
        actions, after = by_rank(positions, rank)
        here = ranks[:, rank]
        assert [int(a) for a in actions[here]] == [np.flatnonzero(row)[rank] for row in legal[here]]
        same = jax.tree.map(lambda leaf, here=here: leaf[here], (step(positions, actions), after))
        jax.tree.map(np.testing.assert_array_equal, *same)


def test_chess_moves_by_rank_are_all_moves():
    chess = games_jax.make("chess", repetition=0)
    view = ByRank(chess, width=218)
    state = chess.from_string("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1")

    @jax.jit
    def look(state):
        actions = jax.vmap(view.action_of, in_axes=(None, 0))(state, jnp.arange(218, dtype=jnp.int32))
        return view.legal_actions(state), actions, chess.legal_actions(state)

    ranks, actions, legal = look(state)
    assert int(ranks.sum()) == 218
    np.testing.assert_array_equal(np.sort(actions), np.flatnonzero(legal))


def test_a_finished_game_stays():
    game, positions = states("connect_four", 42)
    view = ByRank(game, width=7)
    assert not np.asarray(jax.jit(jax.vmap(view.legal_actions))(positions)).any()
    after = jax.jit(jax.vmap(view.step))(positions, jnp.zeros(32, jnp.int32))
    jax.tree.map(np.testing.assert_array_equal, after, positions)


@dataclasses.dataclass(frozen=True)
class Dice:
    """One player adds 1, 2, 3 (action + 1) or nothing to a sum, as a coin says, three times."""

    name, version, num_players, num_actions, has_chance = "dice", 1, 1, 3, True
    observation_shape, max_steps = (1,), 3

    def init(self, key):
        del key
        return jnp.zeros(2, jnp.int32)

    def step(self, state, action, key):
        added = jnp.where(jax.random.bernoulli(key), action + 1, 0)
        return state + jnp.where(self.is_over(state), 0, jnp.stack([added, jnp.int32(1)]))

    def legal_actions(self, state):
        return jnp.array([False, True, True]) & ~self.is_over(state)

    def current_player(self, state):
        del state
        return jnp.int32(0)

    def is_over(self, state):
        return state[1] == 3


def test_wrappers_hand_the_key_of_a_game_with_chance_on():
    dice = Dice()
    start = dice.init(jax.random.key(0))
    wrapped = [Wrapper(dice), ByRank(dice, width=2), Restricted(dice, allowed=dice.legal_actions)]
    for game in wrapped:
        action = 1 if isinstance(game, ByRank) else 2  # the second of the legal ones, 1 and 2
        sums = {int(game.step(start, jnp.int32(action), jax.random.key(k))[0]) for k in range(10)}
        assert sums == {0, 3} and game.has_chance
    checked = games_jax.checked(dice)
    after = [checked.step(checked.init(jax.random.key(0)), 2, jax.random.key(k)) for k in range(10)]
    assert {int(state.inner[0]) for state in after} == {0, 3}


def test_a_wrapper_is_the_game_inside():
    game = games_jax.make("tic_tac_toe")
    wrapper = Wrapper(game)
    assert isinstance(wrapper, Game) and wrapper.name == game.name
    state = wrapper.from_string("b2 a1")
    for question in ("render", "to_svg", "current_player", "is_over"):
        assert getattr(wrapper, question)(state) == getattr(game, question)(state)


def test_restriction():
    go = games_jax.make("go", size=5)
    view = Restricted(go, allowed=go.playout_actions)
    # Black's eye at a5 (top left) may not be filled, though that is legal.
    state = go.from_string(".XO../XX.../...../...../..... X")
    legal, allowed = np.asarray(go.legal_actions(state)), np.asarray(view.legal_actions(state))
    assert legal[0] and not allowed[0]
    assert not (allowed & ~legal).any() and view.name == go.name


def test_bad_width():
    with pytest.raises(ValueError, match="width is 8; expected 1 to 7, the actions of connect_four"):
        ByRank(games_jax.make("connect_four"), width=8)
