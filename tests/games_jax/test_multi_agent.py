"""Views of simultaneous games, against brute force on a small game."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
import jaxsearch
from games_jax.multi_agent import single_player_view, two_player_view
from games_jax.opponents import FixedModel, GreedyModel, NetworkModel, RandomModel

PLAYERS, ACTIONS, CODES = 3, 3, 97


class Round(NamedTuple):
    code: jax.Array  # int32 []
    played: jax.Array  # int32 []


@dataclasses.dataclass(frozen=True)
class Hashes:
    """Three players move at once; after some rounds a number made of all their actions decides who gets what.

    `lost` is a code at which player 0 is out. Player 1 may not choose action 2 in odd codes.
    """

    seed: int = 0
    rounds: int = 2
    stepwise: bool = False
    name = "hashes"
    version = 1
    num_players = PLAYERS
    num_actions = ACTIONS
    observation_shape = (1, 1, 2)
    has_chance = False
    simultaneous = True

    @property
    def max_steps(self):
        return self.rounds

    @property
    def table(self):
        return np.random.default_rng(self.seed).choice([-1.0, 0.0, 1.0], (CODES, PLAYERS)).astype(np.float32)

    def init(self, key):
        return Round(jax.random.randint(key, (), 0, CODES, jnp.int32), jnp.zeros((), jnp.int32))

    def step(self, state, actions):
        weights = np.array([7, 13, 29], np.int32)
        code = (state.code * 5 + jnp.sum(actions * weights, dtype=jnp.int32) + 1) % CODES
        after = Round(code, state.played + 1)
        over = self.is_over(state)
        return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)

    def legal_actions(self, state):
        rows = np.ones((PLAYERS, ACTIONS), bool)
        barred = (state.code % 2 == 1) & (np.arange(PLAYERS)[:, None] == 1) & (np.arange(ACTIONS)[None] == 2)
        return (jnp.asarray(rows) & ~barred) & ~self.is_over(state)

    def observe(self, state, player):
        return jnp.stack([state.code, jnp.asarray(player, jnp.int32)]).astype(jnp.float32).reshape(1, 1, 2)

    def current_player(self, state):
        return jnp.zeros((), jnp.int32)

    def rewards(self, state):
        end = (state.played > 0) if self.stepwise else self.is_over(state)
        return jnp.where(end, jnp.asarray(self.table)[state.code], 0.0)

    def is_over(self, state):
        return state.played >= self.rounds


class Countdown:
    """A model with a memory: 2, 1, 0, 2, 1, 0, ..., but never what is barred."""

    def __init__(self, game):
        self.game = game

    def start(self, key):
        del key
        return jnp.full((), 2, jnp.int32)

    def act(self, state, player, memory):
        allowed = self.game.legal_actions(state)[player]
        action = jnp.where(allowed[memory], memory, 0)
        return action.astype(jnp.int32), (memory - 1) % 3


@dataclasses.dataclass
class Plain:
    """The same game and models in plain Python."""

    game: Hashes

    def allowed(self, code, player):
        return [a for a in range(ACTIONS) if not (player == 1 and a == 2 and code % 2 == 1)]

    def step(self, code, actions):
        return (code * 5 + sum(a * w for a, w in zip(actions, (7, 13, 29), strict=True)) + 1) % CODES

    def answer(self, code, player, played):
        wished = (2 - played) % 3
        return wished if wished in self.allowed(code, player) else 0

    def worth(self, code, played, player):
        return (
            float(self.game.table[code, player]) if self.game.stepwise or played == self.game.rounds else 0.0
        )

    def single(self, code, player, played=0):
        """The best sum of rewards, and the values of the actions."""
        if played == self.game.rounds:
            return 0.0, {}
        values = {}
        for action in self.allowed(code, player):
            joint = [self.answer(code, p, played) for p in range(PLAYERS)]
            joint[player] = action
            after = self.step(code, joint)
            values[action] = self.worth(after, played + 1, player) + self.single(after, player, played + 1)[0]
        return max(values.values()), values

    def double(self, code, player, opponent, played=0):
        """The same where an opponent chooses the worst answer."""
        if played == self.game.rounds:
            return 0.0, {}
        values = {}
        for action in self.allowed(code, player):
            replies = []
            for reply in self.allowed(code, opponent(code, player)):
                joint = [self.answer(code, p, played) for p in range(PLAYERS)]
                joint[player], joint[opponent(code, player)] = action, reply
                after = self.step(code, joint)
                replies.append(
                    self.worth(after, played + 1, player)
                    + self.double(after, player, opponent, played + 1)[0]
                )
            values[action] = min(replies)
        return max(values.values()), values


def alternating(state, player):
    """Whom the two-player view picks: one of the two others, by the code."""
    return (player + 1 + state.code % 2) % PLAYERS


def search_value(view, roots, simulations):
    """Action and value of a search with an evaluator that knows nothing."""

    def blind(params, key, states):
        del params, key
        batch = jax.tree.leaves(states)[0].shape[0]
        return jnp.zeros((batch, view.num_actions)), jnp.zeros(batch)

    search = jaxsearch.puct(view, blind, simulations=simulations)
    return jax.jit(search)(jax.random.key(0), roots)


def exhaustive(view, state, depth):
    """The value of a state for player 0 of the view, by trying everything."""
    gained = float(view.rewards(state)[0]) if depth else 0.0
    if bool(view.is_over(state)):
        return gained
    step = jitted(view)
    values = [
        exhaustive(view, step(state, jnp.int32(a)), depth + 1)
        for a in np.flatnonzero(view.legal_actions(state))
    ]
    return gained + (max(values) if int(view.current_player(state)) == 0 else min(values))


@functools.cache
def jitted(view):
    return jax.jit(view.step)


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("player", [0, 1, 2])
def test_single_player_view_is_the_game_with_its_models(player, stepwise):
    game = Hashes(seed=player, stepwise=stepwise)
    view, plain = single_player_view(game, Countdown(game)), Plain(game)
    for seed in range(4):
        inner = game.init(jax.random.key(seed))
        state = jax.jit(view.begin)(inner, player, jax.random.key(1))
        best, values = plain.single(int(inner.code), player)
        assert np.flatnonzero(view.legal_actions(state)).tolist() == sorted(values)
        for action, value in values.items():
            assert exhaustive(view, jitted(view)(state, jnp.int32(action)), 1) == value
        assert exhaustive(view, state, 0) == best


@pytest.mark.parametrize("player", [0, 1, 2])
def test_two_player_view_is_the_cautious_value(player):
    game = Hashes(seed=10 + player)
    view = two_player_view(game, Countdown(game), alternating)
    plain = Plain(game)
    for seed in range(4):
        inner = game.init(jax.random.key(seed))
        state = jax.jit(view.begin)(inner, player, jax.random.key(1))
        best, values = plain.double(int(inner.code), player, lambda code, me: (me + 1 + code % 2) % PLAYERS)
        for action, value in values.items():
            half = jitted(view)(state, jnp.int32(action))
            assert int(view.current_player(half)) == 1 and int(half.mine) == action
            assert not bool(view.is_over(half)) and not np.asarray(view.rewards(half)).any()
            jax.tree.map(np.testing.assert_array_equal, half.base, state.base)
            opponent = int(view.seat(half))
            assert opponent == int(alternating(inner, player))
            assert np.asarray(view.observe(half, 1)).ravel().tolist() == [int(inner.code), opponent]
            assert np.asarray(view.observe(half, 0)).ravel().tolist() == [int(inner.code), player]
            assert exhaustive(view, half, 1) == value
        assert exhaustive(view, state, 0) == best


@pytest.mark.parametrize("kind", ["single", "two"])
def test_searches_find_the_best_action(kind):
    game = Hashes(seed=5)
    plain = Plain(game)
    if kind == "single":
        view = single_player_view(game, Countdown(game))
        solve = lambda code: plain.single(code, 2)  # noqa: E731
    else:
        view = two_player_view(game, Countdown(game), alternating)
        solve = lambda code: plain.double(code, 2, lambda code, me: (me + 1 + code % 2) % PLAYERS)  # noqa: E731
    inner = jax.vmap(game.init)(jax.random.split(jax.random.key(3), 32))
    begin = jax.vmap(view.begin, in_axes=(0, None, 0))
    roots = begin(inner, 2, jax.random.split(jax.random.key(0), 32))
    found = search_value(view, roots, 400)
    for i, code in enumerate(np.asarray(inner.code).tolist()):
        best, values = solve(code)
        assert values[int(found.action[i])] == best, (code, values, np.asarray(found.visits[i]))


def test_models_are_asked_once_and_share_nothing_between_branches():
    game = Hashes()
    view = single_player_view(game, RandomModel(game))
    state = view.begin(game.init(jax.random.key(0)), 0, jax.random.key(1))
    one, other = jitted(view)(state, jnp.int32(0)), jitted(view)(state, jnp.int32(1))
    # The same path meets the same answers, and each branch goes on from the same seeds.
    again = jitted(view)(state, jnp.int32(0))
    jax.tree.map(np.testing.assert_array_equal, one, again)
    np.testing.assert_array_equal(one.memories, other.memories)
    assert (one.memories != state.memories).all()
    # `advance` and `settle` are `step` in two halves.
    half = view.advance(state, jnp.int32(1))
    jax.tree.map(np.testing.assert_array_equal, half.inner, other.inner)
    jax.tree.map(np.testing.assert_array_equal, view.settle(half, other.answers, other.memories), other)


def test_different_models_and_a_network():
    game = Hashes()
    network = GreedyModel(game, lambda seen: jnp.stack([0.0 * seen[0, 0, 0], 1.0, 2.0]))
    view = single_player_view(game, (FixedModel(1), network))
    for seed in range(6):
        inner = game.init(jax.random.key(seed))
        # Seen by player 0 the network is player 2; by player 2 it is player 1, who may not always choose 2.
        assert view.begin(inner, 0, jax.random.key(0)).answers.tolist() == [1, 2]
        barred = int(inner.code) % 2 == 1
        assert view.begin(inner, 2, jax.random.key(0)).answers.tolist() == [1, 1 if barred else 2]


def test_a_network_for_everybody_answers_as_one_for_each():
    game = Hashes(rounds=4)

    def judge(seen):  # the action that a network likes depends on the code and the player
        numbers = seen[:, 0, 0, 0] + 2 * seen[:, 0, 0, 1]
        return jnp.sin(numbers[:, None] * jnp.arange(1.0, 4.0)), jnp.cos(numbers)

    joint = single_player_view(game, NetworkModel(game, judge))
    alone = single_player_view(game, GreedyModel(game, lambda seen: judge(seen[None])[0][0]))
    answers = set()
    for seed in range(5):
        inner = game.init(jax.random.key(seed))
        one, other = (view.begin(inner, 1, jax.random.key(0)) for view in (joint, alone))
        for _ in range(3):
            assert one.answers.tolist() == other.answers.tolist()
            answers.add(tuple(one.answers.tolist()))
            # The memory is the judgement of the state that was reached, by player.
            seen = jnp.stack([game.observe(one.inner, player) for player in range(PLAYERS)])
            jax.tree.map(np.testing.assert_array_equal, tuple(one.memories), judge(seen))
            one, other = jitted(joint)(one, jnp.int32(1)), jitted(alone)(other, jnp.int32(1))
    assert len(answers) > 3


def test_random_models_draw_from_all_that_is_allowed():
    game = Hashes()
    model = RandomModel(game)
    inner = Round(jnp.int32(3), jnp.int32(0))  # an odd code
    seeds = jax.vmap(model.start)(jax.random.split(jax.random.key(0), 3000))
    for player, count in ((0, 3), (1, 2)):
        actions, _ = jax.vmap(model.act, in_axes=(None, None, 0))(inner, player, seeds)
        shares = np.bincount(np.asarray(actions), minlength=3) / 3000
        np.testing.assert_allclose(shares[:count], 1 / count, atol=0.04)
        assert not shares[count:].any()


def test_a_player_who_is_out_ends_the_view():
    game = Hashes(rounds=3)
    outs = lambda state: jnp.stack([state.played >= 1, state.played >= 2, state.played >= 9])  # noqa: E731
    worth = lambda state: jnp.array([-1.0, 0.5, 1.0])  # noqa: E731
    view = single_player_view(game, FixedModel(), is_out=outs, outcome=worth)
    for player, steps, value in ((0, 1, -1.0), (1, 2, 0.5), (2, 3, 1.0)):
        state = view.begin(game.init(jax.random.key(0)), player, jax.random.key(0))
        for _ in range(steps):
            assert not bool(view.is_over(state)) and not float(view.rewards(state)[0])
            state = jitted(view)(state, jnp.int32(0))
        assert bool(view.is_over(state)) and view.rewards(state).tolist() == [value]
        assert not np.asarray(view.legal_actions(state)).any()
        jax.tree.map(np.testing.assert_array_equal, jitted(view)(state, jnp.int32(1)), state)


def test_what_cannot_be_viewed():
    with pytest.raises(ValueError, match="tic_tac_toe has no simultaneous moves"):
        single_player_view(games_jax.make("tic_tac_toe"), FixedModel())
    with pytest.raises(ValueError, match="3 models are given; expected 2"):
        two_player_view(Hashes(), (FixedModel(),) * 3)


def test_the_batch_does_not_matter():
    game = Hashes(seed=2)
    view = two_player_view(game, Countdown(game), alternating)
    inner = jax.vmap(game.init)(jax.random.split(jax.random.key(4), 8))
    keys = jax.random.split(jax.random.key(0), 8)
    many = jax.vmap(view.begin, in_axes=(0, None, 0))(inner, 1, keys)
    for action, _ in itertools.product((0, 1), range(2)):
        many = jax.vmap(view.step, in_axes=(0, None))(many, jnp.int32(action))
    one = view.begin(jax.tree.map(lambda leaf: leaf[5], inner), 1, keys[5])
    for action, _ in itertools.product((0, 1), range(2)):
        one = view.step(one, jnp.int32(action))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[5], b), many, one)
