"""Bytes of a search, counted and foretold; and searches that keep no states."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_helpers import quick_jit
from test_many_players import Coins

import games_jax
import jaxsearch
from jaxsearch import footprint

GAMES = {
    "tic_tac_toe": games_jax.make("tic_tac_toe"),
    "connect_four": games_jax.make("connect_four"),
    "hex": games_jax.make("hex", size=5),
}


def starts(game, batch):
    return jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))


def shapes(game, batch):
    return jax.eval_shape(functools.partial(starts, game, batch))


def real_bytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


OPTIONS = {
    "uct": ({}, {}),
    "solver": ({"solver": True}, {"solver": True}),
    "replay": ({"states": "replay"}, {"keep_states": False}),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", GAMES)
def test_bytes_are_those_of_the_tree(name, option):
    game, (search_option, memory_option) = GAMES[name], OPTIONS[option]
    search = jaxsearch.uct(game, simulations=21, keep_tree=True, **search_option)
    tree = jax.eval_shape(search, jax.random.key(0), shapes(game, 6)).tree
    said = jaxsearch.memory(game, shapes(game, 6), simulations=21, **memory_option)
    assert said.total == real_bytes(tree)
    # What one more simulation takes is a node of each tree.
    more = jaxsearch.memory(game, shapes(game, 6), simulations=22, **memory_option)
    assert more.total - said.total == 6 * said.per_node


def test_bytes_of_other_trees():
    """With later moves, of three players, gone on with, and with states of large leaves."""
    hexes, coins = GAMES["hex"], Coins(5)
    rave = jaxsearch.rave(hexes, simulations=9, keep_tree=True)
    tree = jax.eval_shape(rave, jax.random.key(0), shapes(hexes, 4)).tree
    assert jaxsearch.memory(hexes, shapes(hexes, 4), simulations=9, amaf=True).total == real_bytes(tree)
    search = jaxsearch.uct(coins, simulations=9, keep_tree=True)
    tree = jax.eval_shape(search, jax.random.key(0), shapes(coins, 4)).tree
    assert jaxsearch.memory(coins, shapes(coins, 4), simulations=9).total == real_bytes(tree)
    kept = jax.eval_shape(lambda tree: jaxsearch.reroot(tree, jnp.zeros(4, jnp.int32), capacity=7), tree)
    again = jax.eval_shape(search, jax.random.key(0), shapes(coins, 4), tree=kept).tree
    assert jaxsearch.memory(coins, shapes(coins, 4), simulations=9, kept=7).total == real_bytes(again)
    large = {"planes": jax.ShapeDtypeStruct((3, 5, 5), jnp.int8), "turn": jax.ShapeDtypeStruct((3,), bool)}
    said = footprint.of_trees(footprint.Packer.of(large), trees=3, nodes=2, num_actions=2)
    assert said.per_state == 25 + 4


def test_documented_bytes():
    """The formula of docs/tree.md: 16 bytes an edge, 32 a node beside its state."""
    game = GAMES["connect_four"]
    said = jaxsearch.memory(game, shapes(game, 1), simulations=1)
    assert said.per_edge == 16 and said.per_node == 32 + 7 * 16 + said.per_state


def test_too_large():
    """One error, before anything is allocated, with the bytes and the knobs."""
    game, states = GAMES["connect_four"], shapes(GAMES["connect_four"], 1000)
    needed = jaxsearch.memory(game, states, simulations=99).total
    options = {"simulations": 99, "memory_limit": needed - 1}
    message = (
        rf"1000 trees of 100 nodes take {needed:,} bytes, and memory_limit allows {needed - 1:,}; search "
    )
    message += 'fewer trees at once, or with fewer simulations, or give states="replay"'
    for search in (
        jaxsearch.uct(game, **options),
        jaxsearch.puct(game, jaxsearch.uniform(game), leaves=3, **options),
    ):
        with pytest.raises(MemoryError, match=message):
            jax.eval_shape(search, jax.random.key(0), states)
    jax.eval_shape(jaxsearch.uct(game, simulations=99, memory_limit=needed), jax.random.key(0), states)
    jax.eval_shape(jaxsearch.uct(game, states="replay", **options), jax.random.key(0), states)


def test_too_large_for_the_machine(monkeypatch):
    game, states = GAMES["connect_four"], shapes(GAMES["connect_four"], 10)
    assert footprint.available() > 1 << 28
    monkeypatch.setattr(footprint, "available", lambda: 1000)
    with pytest.raises(MemoryError, match="and the devices have 1,000; search fewer trees at once"):
        jax.eval_shape(
            jaxsearch.gumbel(game, jaxsearch.uniform(game), simulations=8), jax.random.key(0), states
        )
    monkeypatch.setattr(footprint, "available", lambda: None)
    jax.eval_shape(jaxsearch.uct(game, simulations=8), jax.random.key(0), states)


def test_what_devices_say(monkeypatch):
    """Accelerators state their memory; a search may be spread over them all."""

    class Device:
        def memory_stats(self):
            return {"bytes_limit": 7000, "bytes_in_use": 10}

    monkeypatch.setattr(jax, "local_devices", lambda: [Device(), Device()])
    assert footprint.available() == 14000


@pytest.mark.parametrize(
    "name",
    ["tic_tac_toe", *(pytest.param(name, marks=pytest.mark.slow) for name in ("connect_four", "hex"))],
)
def test_replay_grows_the_same_tree(name):
    """Bit for bit, with ended games, a limited depth and budgets on the way."""
    game = GAMES[name]
    states = starts(game, 4)
    for ply in range(3 if name == "connect_four" else 2):
        action = jnp.arange(4, dtype=jnp.int32) + ply if name == "connect_four" else 4 * ply + jnp.arange(4)
        states = jax.vmap(game.step)(states, action.astype(jnp.int32))
    grown = []
    for kind in ("keep", "replay"):
        search = jaxsearch.uct(
            game,
            simulations=60,
            evaluator=jaxsearch.uniform(game),
            max_depth=5,
            keep_tree=True,
            states=kind,
        )
        grown.append(quick_jit(search)(jax.random.key(0), states, budgets=jnp.array([60, 7, 60, 30])))
    keep, replay = grown
    for a, b in zip(keep[:5], replay[:5], strict=True):
        np.testing.assert_array_equal(a, b)
    assert keep.tree.keeps_states and not replay.tree.keeps_states
    for field in dataclasses.fields(keep.tree):
        if field.name != "states":
            a, b = getattr(keep.tree, field.name), getattr(replay.tree, field.name)
            jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.slow
def test_replay_goes_on_with_a_tree():
    """With playouts, later moves and proofs, and on a tree gone on with."""
    game = games_jax.make("hex", size=3)
    outputs = []
    for kind in ("keep", "replay"):
        search = quick_jit(jaxsearch.rave(game, simulations=80, solver=True, keep_tree=True, states=kind))
        states = starts(game, 3)
        first = search(jax.random.key(0), states)
        kept = jaxsearch.reroot(first.tree, first.action, capacity=81)
        states = jax.vmap(game.step)(states, first.action)
        outputs.append((first[:5], search(jax.random.key(1), states, tree=kept)[:5]))
    jax.tree.map(np.testing.assert_array_equal, *outputs)


def test_what_a_replayed_tree_refuses():
    game = GAMES["tic_tac_toe"]
    options = {"simulations": 4, "evaluator": jaxsearch.uniform(game), "keep_tree": True}
    replayed = jaxsearch.uct(game, states="replay", **options)
    tree = jax.eval_shape(replayed, jax.random.key(0), shapes(game, 2)).tree
    with pytest.raises(ValueError, match='keeps no states but its roots\'; search with states="keep"'):
        tree.node_states(jnp.zeros(2, jnp.int32))
    with pytest.raises(AttributeError, match='with all states; search with states="keep"'):
        _ = tree.embeddings
    with pytest.raises(
        ValueError, match="start keeps no states, and this search some; expected a tree of the same"
    ):
        jax.eval_shape(jaxsearch.uct(game, **options), jax.random.key(0), shapes(game, 2), tree=tree)
    with pytest.raises(ValueError, match="states is 'drop'; expected 'keep' or 'replay'"):
        jaxsearch.uct(game, states="drop", **options)
    with pytest.raises(ValueError, match="leaves is 2, which goes with states='keep' alone"):
        jaxsearch.uct(game, states="replay", leaves=2, **options)
