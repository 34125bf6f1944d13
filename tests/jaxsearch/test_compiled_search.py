"""The compiled program: what its loops hold, copy and draw."""

import re

import jax
import jax.numpy as jnp
import mctx
import pytest
from search_helpers import quick_jit, random_model, random_roots, recurrent_fn

import games_jax
import jaxsearch

BATCH, SIMULATIONS = 32, 100
POLICIES = ("muzero_policy", "gumbel_muzero_policy")


def search_arguments(num_actions):
    model = random_model(0, num_actions)
    return model, jax.random.key(0), random_roots(model, 0, BATCH)


def compiled(library, policy, num_actions):
    def run(model, key, root):
        out = getattr(library, policy)(model, key, root, recurrent_fn, SIMULATIONS)
        return out.action, out.action_weights, out.search_tree.summary().visit_counts

    return quick_jit(run).lower(*search_arguments(num_actions)).compile()


def tree_bytes(library, policy, num_actions):
    def run(model, key, root):
        return getattr(library, policy)(model, key, root, recurrent_fn, SIMULATIONS).search_tree

    tree = jax.eval_shape(run, *search_arguments(num_actions))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def whole_table_writes(text, size):
    """Instructions in loop bodies that produce an array of `size` elements or more other than in place.

    A scatter and a dynamic-update-slice (alone, or as what a fusion ends in) work in place. So does a `copy`
    to which XLA gives its operand's own buffer; the text does not say whether it did, the memory does.
    """
    computations = {}
    for block in re.split(r"\n(?=%|ENTRY)", text):
        header = re.match(r"(?:ENTRY )?%([\w.\-]+)", block)
        if header:
            computations[header[1]] = block
    bodies = set(re.findall(r"body=%([\w.\-]+)", text))
    found = []
    for body in bodies:
        for line in computations[body].splitlines()[1:]:
            match = re.match(r"\s+(?:ROOT )?%[\w.\-]+ = \w+\[([\d,]*)\]\S* ([\w\-]+)\(", line)
            if not match or count(match[1]) < size:
                continue
            kind = match[2]
            if kind == "fusion":
                called = computations[re.search(r"calls=%([\w.\-]+)", line)[1]]
                if re.search(r"= \w+\[[\d,]*\]\S* (dynamic-update-slice|scatter)\(", called):
                    continue
            if kind in (
                "parameter",
                "get-tuple-element",
                "bitcast",
                "copy",
                "scatter",
                "dynamic-update-slice",
            ):
                continue
            found.append(line.strip()[:120])
    return found


def count(shape):
    size = 1
    for part in shape.split(","):
        size *= int(part or 1)
    return size


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("num_actions", [7, 20])
def test_loops_write_the_tree_in_place(policy, num_actions):
    """One tree in memory, and no instruction that makes a whole table anew (issues 1 and 7)."""
    program = compiled(jaxsearch, policy, num_actions)
    size = tree_bytes(jaxsearch, policy, num_actions)
    children = 4 * (SIMULATIONS + 1) * BATCH * num_actions
    # A second copy of the smaller of the two large tables would already be too much.
    assert program.memory_analysis().temp_size_in_bytes < size + children
    assert whole_table_writes(program.as_text(), children // 4) == []


def table_copies(search, game, trees):
    """How many copies of arrays as long as the tree the program of a search of so many trees has."""
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), trees))
    text = quick_jit(search).lower(jax.random.key(0), states, None).compile().as_text()
    shapes = re.findall(r"%copy[\w.]* = \w+\[([\d,]*)\]", text)
    return sum(count(shape) >= SIMULATIONS * trees for shape in shapes)


@pytest.mark.parametrize(
    "kind", ["puct", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("uct", "gumbel", "solver"))]
)
def test_one_tree_is_not_copied_either(kind):
    """XLA makes slices of gathers of one row, repeats them, and then copied the tables at each simulation."""
    game = games_jax.make("tic_tac_toe")
    even = jaxsearch.uniform(game)
    search = {
        "puct": jaxsearch.puct(game, even, simulations=SIMULATIONS),
        "uct": jaxsearch.uct(game, simulations=SIMULATIONS),
        "gumbel": jaxsearch.gumbel(game, even, simulations=SIMULATIONS),
        "solver": jaxsearch.puct(game, even, simulations=SIMULATIONS, solver=True),
    }[kind]
    assert table_copies(search, game, 1) <= table_copies(search, game, 2)


def test_the_check_finds_what_it_looks_for(lax):
    """mctx rewrites its tables at every level of every simulation."""
    program = compiled(mctx, "gumbel_muzero_policy", 7)
    children = 4 * (SIMULATIONS + 1) * BATCH * 7
    size = tree_bytes(mctx, "gumbel_muzero_policy", 7)
    assert program.memory_analysis().temp_size_in_bytes > size + children
    assert whole_table_writes(program.as_text(), children // 4)


def primitives(jaxpr, *, in_loop=False):
    """Names of a program's operations, each with whether it stands in a loop."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name, in_loop
        inside = in_loop or equation.primitive.name in ("while", "scan")
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner, in_loop=inside)


def random_operations(search, *arguments):
    found = set(primitives(jax.make_jaxpr(search)(*arguments).jaxpr))
    drawn = {"random_bits", "threefry2x32", "rng_bit_generator", "random_gamma", "rng_uniform"}
    return {(name, in_loop) for name, in_loop in found if name in drawn}


def test_nothing_is_drawn_in_the_loops():
    """Noise is drawn once per search (issue 2)."""
    game = games_jax.make("tic_tac_toe")
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
    options = {"simulations": 8}
    quiet = [
        jaxsearch.puct(game, jaxsearch.uniform(game), dirichlet_fraction=0.25, temperature=1.0, **options),
        jaxsearch.gumbel(game, jaxsearch.uniform(game), **options),
        jaxsearch.uct(game, evaluator=jaxsearch.uniform(game), **options),
    ]
    for search in quiet:
        drawn = random_operations(search, jax.random.key(0), states)
        # Dirichlet noise is made by rejection: its loop is before the search's.
        assert {name for name, in_loop in drawn if in_loop} <= {"random_gamma"}
        assert drawn


def test_the_check_sees_what_is_drawn_in_a_loop():
    """An evaluator that draws, for each leaf, as it may."""
    game = games_jax.make("tic_tac_toe")
    states = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))

    def guess(params, key, states):
        del params
        return jnp.zeros((states.own.shape[0], 9)), jax.random.uniform(key, states.own.shape)

    guessing = jaxsearch.uct(game, evaluator=guess, simulations=8)
    assert ("random_bits", True) in random_operations(guessing, jax.random.key(0), states)


@pytest.mark.parametrize("policy", POLICIES)
def test_program_size_does_not_grow_with_simulations(policy):
    """Issue 5."""

    def size(simulations, num_actions=5):
        arguments = search_arguments(num_actions)
        run = getattr(jaxsearch, policy)
        jaxpr = jax.make_jaxpr(lambda m, k, r: run(m, k, r, recurrent_fn, simulations).action)(*arguments)
        return sum(1 for _ in primitives(jaxpr.jaxpr))

    assert size(16) == size(1600)
    assert size(16) < 4000
    assert size(16, 300) < 1500
