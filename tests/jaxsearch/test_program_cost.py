"""What a search costs, read off its program: nothing here is timed, and hardly anything compiled."""

import collections
import functools

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from search_helpers import edges, quick_jit, random_model, random_roots, recurrent_fn
from test_compiled_search import POLICIES, primitives, whole_table_writes

import games_jax
import jaxsearch
from jaxsearch import selection
from jaxsearch.parallel import virtual_loss_search

GAME = games_jax.make("tic_tac_toe")
EVEN = jaxsearch.uniform(GAME)
OPTIONS = {
    "uct": lambda n: jaxsearch.uct(GAME, evaluator=EVEN, simulations=n),
    "uct with playouts": lambda n: jaxsearch.uct(GAME, simulations=n),
    "puct": lambda n: jaxsearch.puct(GAME, EVEN, simulations=n),
    "puct with everything": lambda n: jaxsearch.puct(
        GAME, EVEN, simulations=n, dirichlet_fraction=0.25, forced_playouts=2.0, solver=True, stop_early=True
    ),
    "puct, 4 leaves": lambda n: jaxsearch.puct(GAME, EVEN, simulations=n, leaves=4),
    "gumbel": lambda n: jaxsearch.gumbel(GAME, EVEN, simulations=n),
    "flat": lambda n: jaxsearch.flat_monte_carlo(GAME, simulations=n),
}


def empty_boards(batch):
    return jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), batch))


@functools.cache
def operations(kind, simulations):
    """How often each primitive stands in a search's program, as a Counter of (name, in a loop)."""
    jaxpr = jax.make_jaxpr(OPTIONS[kind](simulations))(jax.random.key(0), empty_boards(4))
    return collections.Counter(primitives(jaxpr.jaxpr))


# Work per simulation


def work(library, policy, simulations):
    """Operations of one turn of every loop of the program, by XLA's count, which takes each body once."""
    model = random_model(0, 7)
    arguments = model, jax.random.key(0), random_roots(model, 0, 16)

    def run(model, key, root):
        return getattr(library, policy)(model, key, root, recurrent_fn, simulations).action_weights

    return jax.jit(run).lower(*arguments).cost_analysis()["flops"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_simulation_costs_the_same_in_a_large_tree(policy):
    """In a tree of 257 nodes as in one of 33: what grows is the depth alone, the turns of the loops."""
    assert work(jaxsearch, policy, 256) == work(jaxsearch, policy, 32)


def test_the_count_sees_what_grows_with_the_tree(lax):
    """mctx selects between whole tables at every level."""
    assert work(mctx, "gumbel_muzero_policy", 256) > 2 * work(mctx, "gumbel_muzero_policy", 32)


def test_puct_does_no_more_than_gumbel():
    """At most half as much again; drawing a random number at every node made it many times as much."""
    puct, gumbel = (work(jaxsearch, policy, 32) for policy in POLICIES)
    assert puct < 1.5 * gumbel


def test_levels_are_loops_of_cursors():
    """A simulation is three loops: down, up, and the nodes passed, with few scatters and nothing sorted.

    So a backend that runs each scatter as a loop of its own has few of them to run.
    """
    for kind in ("uct", "puct", "gumbel"):
        found = operations(kind, 8)
        assert found["while", True] == 3
        assert found["scatter", True] + found["scatter-add", True] <= 6
        assert not found["sort", True] and not found["cond", True]


# Size of programs, and with it compile time

CEILINGS = {  # a fifth to a half above today's
    "uct": 4000,
    "uct with playouts": 5000,
    "puct": 4500,
    "puct with everything": 7000,
    "puct, 4 leaves": 6000,
    "gumbel": 7000,
    "flat": 1000,
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_programs_stay_small(kind):
    """Equations of the whole program."""
    assert operations(kind, 8).total() < CEILINGS[kind]


def test_programs_do_not_grow_with_the_simulations():
    for kind in ("puct with everything", "puct, 4 leaves"):
        assert operations(kind, 80).total() == operations(kind, 8).total()


def test_phases_at_once_grow_with_the_candidates_alone():
    """Each halving of the candidates is a program of its own: as many as the logarithm."""

    def size(simulations):
        search = jaxsearch.gumbel(GAME, EVEN, simulations=simulations, parallel=True, max_considered=4)
        return sum(1 for _ in primitives(jax.make_jaxpr(search)(jax.random.key(0), empty_boards(4)).jaxpr))

    assert size(160) == size(16) < 14_000


GAMES = {  # equations of step and of the legal moves
    "tic_tac_toe": (80, 60),
    "connect_four": (200, 50),
    "othello": (1800, 600),
    "go": (900, 3000),
    "chess": (5000, 4000),
    "hex": (1400, 80),
    "cube2": (250, 50),
    "cube3": (250, 50),
}


@pytest.mark.parametrize("name", GAMES)
def test_steps_of_games_stay_small(name):
    """A search holds a game's step once, and a playout once more: chess of 188,000 lines is a day's wait."""
    game = games_jax.make(name)
    state = jax.eval_shape(game.init, jax.random.key(0))
    programs = jax.make_jaxpr(game.step)(state, jnp.int32(0)), jax.make_jaxpr(game.legal_actions)(state)
    for program, ceiling in zip(programs, GAMES[name], strict=True):
        assert sum(1 for _ in primitives(program.jaxpr)) < ceiling


# Calls of the evaluator


def stamped(model, key, action, state):
    """The random model, whose states keep the key of the call that made them: each call gets its own."""
    output, number = recurrent_fn(model, key, action, state["number"])
    stamp = jnp.broadcast_to(jax.random.key_data(key), (*action.shape, 2))
    return output, {"number": number, "call": stamp}


@pytest.mark.parametrize(
    ("kind", "calls"), [("leaves", [8] * 8), ("gumbel", [16, *[8] * 2, *[4] * 4, *[2] * 8])]
)
def test_evaluations_are_batched(kind, calls):
    """64 simulations by eights are 8 calls of 8 leaves a tree; Gumbel's rounds of 16 candidates are 15."""
    model, batch = random_model(0, 20, discounts=(-1.0,)), 2
    root = random_roots(model, 0, batch)
    root = root.replace(embedding={"number": root.embedding, "call": jnp.zeros((batch, 2), jnp.uint32)})

    def run(model, key, root):
        if kind == "gumbel":
            return jaxsearch.gumbel_muzero_policy(model, key, root, stamped, 64, parallel=True).search_tree
        options = {"num_simulations": 64, "leaves": 8, "rule": selection.puct}
        return virtual_loss_search(model, key, root=root, recurrent_fn=stamped, **options)

    tree = quick_jit(run)(model, jax.random.key(0), root)
    assert (tree.summary().visit_counts.sum(-1) == 64).all()
    for row in range(batch):
        # Leaves of a step may meet at one edge: evaluated each, one node made.
        made = [edge.child for edge in edges(tree) if edge.batch == row]
        nodes = range(1, 65) if kind == "leaves" else made
        stamps = [tuple(np.asarray(tree.node_states(jnp.full(batch, n))["call"][row])) for n in nodes]
        assert sorted(collections.Counter(stamps).values()) == sorted(calls)


# Memory


def test_nothing_is_left_behind():
    """A hundred searches, with trees gone on with, leave as many arrays and bytes as one."""
    search = quick_jit(jaxsearch.puct(GAME, EVEN, simulations=8, keep_tree=True))
    go_on = quick_jit(functools.partial(jaxsearch.reroot, capacity=9))
    states, key = empty_boards(4), jax.random.key(0)

    def turn(tree):
        out = search(key, states, tree=tree)
        return jax.block_until_ready(go_on(out.tree, out.action))

    def alive():
        arrays = jax.live_arrays()
        return len(arrays), sum(array.nbytes for array in arrays)

    tree = turn(go_on(search(key, states).tree, jnp.zeros(4, jnp.int32)))
    before = alive()
    for _ in range(100):
        tree = turn(tree)
    assert alive() == before


@pytest.mark.parametrize("rows", [1 << 10, 1 << 20])
def test_xla_writes_rows_in_place(rows):
    """A canary for the compiler: releases of it have rewritten the whole buffer for each row written."""

    def fill(table):
        def write(i, table):
            row = jnp.full((1, 4), i, jnp.float32)
            return jax.lax.dynamic_update_slice(table, row, (i, jnp.int32(0)))

        return jax.lax.fori_loop(jnp.int32(0), jnp.int32(1000), write, table)

    program = jax.jit(fill, donate_argnums=0).lower(jnp.zeros((rows, 4))).compile()
    assert program.memory_analysis().temp_size_in_bytes < 16 * rows
    assert whole_table_writes(program.as_text(), 4 * rows) == []
    np.testing.assert_array_equal(program(jnp.zeros((rows, 4)))[:1000, 3], np.arange(1000))
