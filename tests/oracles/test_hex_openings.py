"""Who wins after each opening stone, on boards small enough to be solved, against the published answers."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
import jaxsearch

DATA = Path(__file__).parents[1] / "data"
WINNING = json.loads((DATA / "hex_openings.json").read_text())["winning"]


def published(size):
    """Bool `[cells]`: whether the first player wins after this first stone, without swap."""
    game = games_jax.make("hex", size=size)
    winning = [game.action_from_string(name) for name in WINNING[f"{size}x{size}"]]
    return np.isin(np.arange(size**2), winning)


def openings(game):
    """The states after each first stone, leaves `[cells, ...]`."""
    start = game.init(jax.random.key(0))
    return jax.vmap(game.step, in_axes=(None, 0))(start, jnp.arange(game.size**2))


@pytest.mark.parametrize("size", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_alpha_beta_finds_the_winning_openings(size):
    solver = Solver(size)
    states = jax.device_get(openings(solver.game))
    won = [not solver.wins(jax.tree.map(lambda leaf, i=i: leaf[i], states)) for i in range(size**2)]
    assert won == published(size).tolist()


class Solver:
    """Alpha-beta over positions with only win and loss, each position and its half turn solved once."""

    def __init__(self, size):
        self.game = games_jax.make("hex", size=size)
        self.known = {}
        middle = (size - 1) / 2
        off = [(row - middle, column - middle) for row, column in np.ndindex(size, size)]
        self.order = sorted(range(size**2), key=lambda c: (abs(sum(off[c])), off[c][0] ** 2 + off[c][1] ** 2))
        self.look = jax.jit(self._look)

    def wins(self, state):
        """Whether the player to move wins."""
        key = tuple(np.asarray(jax.tree.leaves(state)).tolist())
        if key not in self.known:
            legal, won, threats, after, turned = jax.device_get(self.look(state))
            # A cell on which the other player would win has to be taken; of two, one is left.
            moves = threats if threats.any() else legal
            found = won.any() or (
                threats.sum() < 2
                and any(
                    moves[a] and not self.wins(jax.tree.map(lambda x, a=a: x[a], after)) for a in self.order
                )
            )
            self.known[key] = self.known[tuple(np.asarray(jax.tree.leaves(turned)).tolist())] = bool(found)
        return self.known[key]

    def _look(self, state):
        game = self.game
        step = jax.vmap(game.step, in_axes=(None, 0))
        over, cells = jax.vmap(game.is_over), jnp.arange(game.num_actions)
        after, legal = step(state, cells), game.legal_actions(state)
        other = step(state._replace(flags=state.flags ^ 1), cells)
        return legal, legal & over(after), legal & over(other), after, game.transform(state, jnp.int32(1))


def proofs(size, swap, simulations):
    """What the search proves for the player who answers each first stone."""
    game = games_jax.make("hex", size=size, swap=swap)
    search = jaxsearch.puct(
        game, jaxsearch.uniform(game), simulations=simulations, solver=True, keep_tree=True
    )
    return jax.jit(lambda *inputs: jaxsearch.root_proof(search(*inputs).tree))(
        jax.random.key(0), openings(game)
    )


@pytest.mark.slow
def test_search_proves_the_winning_openings():
    proof = proofs(3, False, 4000)
    assert np.asarray(proof.proven).all()
    assert (np.asarray(proof.value) == -1).tolist() == published(3).tolist()


def test_search_proves_that_the_swap_wins_exactly_after_the_winning_openings():
    """Taking over a stone that would win wins; with one that would lose, the answer is to play on."""
    proof = proofs(3, True, 6000)
    assert np.asarray(proof.proven).all() and (np.asarray(proof.value) == 1).all()
    assert not (np.asarray(proof.best)[:, -1] & ~published(3)).any()
