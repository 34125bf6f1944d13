import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxsearch
from games_jax.multi_agent import single_player_view, two_player_view
from games_jax.opponents import FixedModel, GreedyModel, NetworkModel, RandomModel
from games_jax.pommerman import Pommerman
from train import against_models
from train.networks import evaluator, make_network
from train.pommerman_iterations import SMALL_NETWORK

GAME = Pommerman(mode="one_v_one", max_steps=30)


def random_action(view):
    """A stand-in for a search: a random allowed action, by the key of its row."""

    def search(key, states, params=None, **unused):
        del params, unused
        legal = jax.vmap(view.legal_actions)(states)
        draw = jax.vmap(lambda key, row: jax.random.categorical(key, jnp.where(row, 0.0, -jnp.inf)))
        action = draw(key, legal).astype(jnp.int32)
        shares = jax.nn.one_hot(action, view.num_actions)
        return jaxsearch.SearchOutput(action, legal.astype(jnp.int32), shares[:, 0], shares, shares, None)

    return search


@pytest.fixture(scope="module")
def played():
    view = single_player_view(GAME, FixedModel(), allowed=GAME.filtered_actions)
    run = functools.partial(
        against_models.play, view, random_action(view), None, RandomModel(GAME), jax.random.key(3), games=20
    )
    return run(lanes=16, record=True), run(lanes=3)


def test_every_game_is_played_to_its_end_and_counted_once(played):
    results, _ = played
    assert set(np.unique(results.outcome)) <= {-1.0, 0.0, 1.0}
    assert np.any(results.outcome != 0) and np.all(results.steps >= 1)
    assert np.all(results.steps <= GAME.max_steps)
    timed_out = (results.steps == GAME.max_steps) & (results.outcome == 0)
    np.testing.assert_array_equal(results.timed_out, timed_out)


def test_a_game_does_not_depend_on_the_lanes(played):
    wide, narrow = played
    np.testing.assert_array_equal(wide.outcome, narrow.outcome)
    np.testing.assert_array_equal(wide.steps, narrow.steps)


def test_the_positions_are_those_of_the_games(played):
    results, narrow = played
    searched = results.searched
    assert narrow.searched is None
    np.testing.assert_array_equal(np.bincount(searched.game, minlength=20), results.steps)
    for game in range(20):
        np.testing.assert_array_equal(
            searched.states.steps[searched.game == game], np.arange(results.steps[game])
        )
    allowed = jax.vmap(GAME.filtered_actions)(searched.states)[:, 0]
    assert np.all(np.asarray(allowed)[searched.weights > 0])


def test_a_search_is_told_what_it_may_know_and_the_game_goes_on_from_the_truth():
    """A search that walks by how many steps it is told have gone by; told another number, it walks so."""
    view = single_player_view(GAME, FixedModel())

    def by_steps(key, states, params=None, **unused):
        del key, params, unused
        action = (states.inner.steps % 5).astype(jnp.int32)
        shares = jax.nn.one_hot(action, view.num_actions)
        return jaxsearch.SearchOutput(action, shares.astype(jnp.int32), shares[:, 0], shares, shares, None)

    told = lambda state: state._replace(steps=jnp.uint32(4))  # noqa: E731
    key = jax.random.key(0)
    seen = []
    results = against_models.play(
        view, by_steps, None, FixedModel(), key, games=4, lanes=4, record=True, told=told, watch=seen.append
    )
    # Who watches is shown what is decided, and nothing of the games that are on.
    assert np.isnan(seen[0]).all() and len(seen) == results.steps.max()
    for number, outcomes in enumerate(seen):
        decided = results.steps <= number
        np.testing.assert_array_equal(outcomes, np.where(decided, results.outcome, np.nan))
    searched = results.searched
    assert searched is not None
    assert np.all(searched.weights.argmax(-1) == 4)
    np.testing.assert_array_equal(searched.states.steps[searched.game == 0], np.arange(results.steps[0]))


def test_shares_add_up():
    outcome = np.array([1, 1, 1, -1, 0], np.float32)
    results = against_models.Results(outcome, np.arange(5) == 4, np.arange(5), None)
    told = against_models.shares(results)
    assert (told["games"], told["wins"], told["losses"], told["timed_out"]) == (5, 0.6, 0.2, 0.2)
    assert told["ties"] == pytest.approx(0.2) and told["error"] == pytest.approx((0.24 / 5) ** 0.5)
    assert told["steps"] == 2


@pytest.mark.slow  # compiles two searches of Pommerman
@pytest.mark.parametrize("make", [single_player_view, two_player_view])
def test_a_network_that_plays_everybody_is_the_same_asked_once_or_twice(make):
    network = make_network(
        "rise",
        single_player_view(GAME, FixedModel()),
        channels=4,
        expansion=1,
        blocks=0,
        late_blocks=1,
        halve="stem",
        norm="none",
    )
    variables = jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(leaf.size), leaf.shape),
        network.init(jax.random.key(0)),
    )

    def judge(seen):
        out = network.apply(variables, seen)
        return out.policy_logits, out.value

    allowed = GAME.filtered_actions
    joint = make(GAME, NetworkModel(GAME, judge, allowed), allowed=allowed)
    alone = make(GAME, GreedyModel(GAME, lambda seen: judge(seen[None])[0][0], allowed), allowed=allowed)
    keys = jax.random.split(jax.random.key(1), 8)
    roots = jax.vmap(GAME.init)(keys)
    outs = []
    for view, judging in ((joint, against_models.judged(joint)), (alone, evaluator(network, alone))):
        search = jaxsearch.puct(view, judging, simulations=24)
        states = jax.vmap(view.begin, (0, None, 0))(roots, 1, keys)
        outs.append(jax.device_get(jax.jit(search)(jax.random.key(2), states, variables)))
    np.testing.assert_array_equal(outs[0].visits, outs[1].visits)
    np.testing.assert_allclose(outs[0].value, outs[1].value, atol=1e-5)


@pytest.mark.slow  # compiles a search of Pommerman
@pytest.mark.parametrize("make", [single_player_view, two_player_view])
def test_searched_games_come_to_an_end(make):
    view = make(GAME, FixedModel(), allowed=GAME.filtered_actions)
    search = jaxsearch.puct(view, jaxsearch.uniform(view), simulations=16)
    results = against_models.play(view, search, None, FixedModel(), jax.random.key(0), games=8, lanes=8)
    assert set(np.unique(results.outcome)) <= {-1.0, 0.0, 1.0}
    assert np.all(results.steps <= GAME.max_steps)
    assert np.all(results.outcome[results.timed_out] == 0)


def test_a_trusting_search_expects_the_models_answer_and_judges_from_its_own_side():
    game = Pommerman(max_steps=30)
    view = two_player_view(game, RandomModel(game), allowed=game.filtered_actions)
    network = make_network("rise", view.single, **SMALL_NETWORK)
    variables = network.init(jax.random.key(0))
    single = evaluator(network, view.single)
    evaluate = against_models.trusting(view, single, 0.7)

    @jax.jit
    def walk(key):
        begin = lambda key: view.begin(game.init(key), 2, key)  # noqa: E731
        states = jax.vmap(begin)(jax.random.split(key, 64))
        halves = states._replace(mine=jnp.ones(64, jnp.int32))  # an action is stored
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), states, halves)
        mine = jax.vmap(lambda state: view.single.row(state.base, jnp.int32(2)))(both)
        seats = jax.vmap(view.seat)(both)
        legal = jax.vmap(view.legal_actions)(both)
        asked = evaluate(variables, key, both)
        return both, mine, seats, legal, asked, single(variables, key, both.base)

    both, mine, seats, legal, (logits, values), (own_logits, own_values) = walk(jax.random.key(1))
    np.testing.assert_allclose(logits[:64], own_logits[:64], rtol=1e-5)
    np.testing.assert_allclose(values, np.where(np.arange(128) < 64, own_values, -own_values), rtol=1e-5)
    np.testing.assert_array_equal(mine[:64], legal[:64])
    # Agent 3 is the first of the others of agent 2, agent 0 the second.
    answers = np.asarray(both.base.answers)[np.arange(64, 128), (seats[64:] - 3) % 4]
    priors = np.where(legal[64:], np.exp(logits[64:]), 0)
    count = legal[64:].sum(axis=-1)
    usual = legal[64:][np.arange(64), answers]
    assert usual.any()
    rows = np.flatnonzero(usual)
    np.testing.assert_allclose(priors[rows].sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(priors[rows, answers[rows]], 0.7 + 0.3 / count[rows], rtol=1e-5)


def test_trust_is_a_share():
    view = two_player_view(GAME, FixedModel())
    with pytest.raises(ValueError, match=r"trust is 1\.0; expected a share"):
        against_models.trusting(view, lambda *_: None, 1.0)
