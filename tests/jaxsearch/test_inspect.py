"""Looking at a tree: against the tree's own arrays, and a plain search that records its history."""

import builtins
import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_helpers import edges, quick_jit, random_invalid, random_model, random_roots, recurrent_fn

import games_jax
import jaxsearch
from jaxsearch import inspect, selection

GAME = games_jax.make("tic_tac_toe")
SIMULATIONS = 60


@functools.cache
def search_of(num_actions, simulations):
    model = random_model(3, num_actions)
    run = quick_jit(
        lambda root, invalid: jaxsearch.search(
            model,
            jax.random.key(0),
            root=root,
            recurrent_fn=recurrent_fn,
            num_simulations=simulations,
            rule=selection.puct,
            invalid_actions=invalid,
        )
    )
    invalid = jnp.asarray(random_invalid(1, 3, num_actions))
    return run(random_roots(model, 0, 3), invalid)


@functools.cache
def game_tree():
    states = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *map(GAME.from_string, ["", "XX./OO./... X", "b2 a1"])
    )
    search = jaxsearch.uct(GAME, simulations=SIMULATIONS, keep_tree=True)
    return quick_jit(search)(jax.random.key(0), states).tree


@pytest.mark.parametrize("num_actions", [3, 20])
def test_nodes_are_the_tree(num_actions):
    tree = search_of(num_actions, SIMULATIONS)
    visits, sums = np.asarray(tree.children_visits), np.asarray(tree.block(1))
    every = {(e.batch, e.child): e for e in edges(tree)}
    for batch in range(3):
        found = inspect.nodes(tree, batch)
        assert found[0].node == 0 and found[0].visits == SIMULATIONS
        assert found[0].value == pytest.approx(float(tree.summary().value[batch]), abs=1e-5)
        assert {(batch, info.node) for info in found[1:]} == {key for key in every if key[0] == batch}
        for info in found[1:]:
            edge = every[batch, info.node]
            assert (info.parent, info.action, info.depth) == (edge.node, edge.action, edge.depth)
            assert info.visits == visits[batch, edge.node, edge.action]
            mean = sums[batch, edge.node, edge.action] / info.visits
            assert info.value == pytest.approx(float(mean), abs=1e-6)
            assert info.over == (float(tree.column(2)[batch, info.node]) == 0)
        for limit in (1, 2, 7, 30):
            some = inspect.nodes(tree, batch, max_nodes=limit)
            assert some == found[:limit]
            numbers = {info.node for info in some}
            assert all(info.parent in numbers for info in some[1:]), "parents are shown"


def test_principal_variation_follows_the_visits():
    tree = search_of(3, SIMULATIONS)
    visits, children = np.asarray(tree.children_visits), np.asarray(tree.children_index)
    for batch in range(3):
        line = inspect.principal_variation(tree, batch)
        node = 0
        for move in line:
            assert move.visits == visits[batch, node].max() == visits[batch, node, move.action]
            node = children[batch, node, move.action]
        assert visits[batch, node].sum() == 0 or len(line) == 20
        assert inspect.principal_variation(tree, batch, max_length=2) == line[:2]
    line = inspect.principal_variation(game_tree(), 1)
    assert [(move.action, move.value) for move in line] == [(2, 1.0)], "a win in one ends the line"


def test_visit_history_is_that_of_shorter_searches():
    """The first s simulations of a search are a search of s simulations."""
    tree = search_of(20, SIMULATIONS)
    for batch in range(3):
        history = inspect.visit_history(tree, batch)
        assert history.shape == (SIMULATIONS + 1, 20)
        steps = np.diff(history, axis=0)
        assert (steps.sum(-1) == 1).all() and (steps >= 0).all()
        for simulations in (1, 5, 30):
            first = np.asarray(search_of(20, simulations).summary().visit_counts)
            np.testing.assert_array_equal(first[batch], history[simulations])


def test_json():
    tree = game_tree()
    found = json.loads(inspect.to_json(tree, 2, action_name=GAME.action_to_string))
    assert found["num_actions"] == 9
    names = [record.pop("name", None) for record in found["nodes"]]
    assert [inspect.NodeInfo(**record) for record in found["nodes"]] == inspect.nodes(tree, 2)
    assert names[0] is None and names[1] == GAME.action_to_string(found["nodes"][1]["action"])
    assert len(json.loads(inspect.to_json(tree, 0, max_nodes=4))["nodes"]) == 4


def test_graphviz():
    text = inspect.to_graphviz(game_tree(), 0, max_nodes=12, action_name=lambda action: f'"{action}\\')
    assert text.startswith("digraph tree {") and text.rstrip().endswith("}")
    drawn, links = re.findall(r"^  n(\d+) \[", text, re.M), re.findall(r"^  n(\d+) -> n(\d+) \[", text, re.M)
    assert len(drawn) == 12 and len(links) == 11
    assert {node for link in links for node in link} <= set(drawn)
    assert '[label="\\"' in text and '\\\\", penwidth' in text, "quotes and backslashes are escaped"


def test_picture(tmp_path, monkeypatch):
    path = tmp_path / "tree.png"
    inspect.to_png(game_tree(), path, 0, max_nodes=15, action_name=GAME.action_to_string)
    assert path.read_bytes().startswith(b"\x89PNG")
    inspect.to_png(game_tree(), tmp_path / "root.png", max_nodes=1)
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="draws with matplotlib, which is not installed"):
        inspect.to_png(game_tree(), path)


def test_bad_arguments():
    tree = game_tree()
    for look in (inspect.nodes, inspect.principal_variation, inspect.visit_history, inspect.to_json):
        for index in (-1, 3):
            with pytest.raises(ValueError, match=f"batch_index is {index}; expected 0 to 2"):
                look(tree, index)
    with pytest.raises(ValueError, match="max_length is 0; expected at least 1"):
        inspect.principal_variation(tree, max_length=0)
    with pytest.raises(ValueError, match="max_nodes is 0; expected at least 1"):
        inspect.to_graphviz(tree, max_nodes=0)
