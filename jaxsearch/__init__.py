"""Batched tree search in JAX: thousands of searches in one compiled program."""

from jaxsearch import mctx
from jaxsearch.environment import make_recurrent_fn, make_root_fn
from jaxsearch.evaluators import cut_playouts, mixture, playouts, successor_values, uniform
from jaxsearch.flat import flat_monte_carlo
from jaxsearch.footprint import Memory, memory
from jaxsearch.guided import policy_bonus, rave, regularised
from jaxsearch.noise import add_dirichlet
from jaxsearch.policies import (
    gumbel_muzero_policy,
    muzero_policy,
    sample_visits,
    stochastic_muzero_policy,
)
from jaxsearch.reuse import reroot
from jaxsearch.rows import Row
from jaxsearch.search import search
from jaxsearch.searches import gumbel, puct, uct
from jaxsearch.solver import root_proof
from jaxsearch.stopping import playout_cap
from jaxsearch.tree import RootSummary, Tree
from jaxsearch.types import (
    Environment,
    Evaluator,
    PlayoutGame,
    PolicyOutput,
    RecurrentFn,
    RecurrentFnOutput,
    RootFnOutput,
    Search,
    SearchOutput,
    StepDetails,
)

__all__ = [
    "Environment",
    "Evaluator",
    "Memory",
    "PlayoutGame",
    "PolicyOutput",
    "RecurrentFn",
    "RecurrentFnOutput",
    "RootFnOutput",
    "RootSummary",
    "Row",
    "Search",
    "SearchOutput",
    "StepDetails",
    "Tree",
    "add_dirichlet",
    "cut_playouts",
    "flat_monte_carlo",
    "gumbel",
    "gumbel_muzero_policy",
    "make_recurrent_fn",
    "make_root_fn",
    "mctx",
    "memory",
    "mixture",
    "muzero_policy",
    "playout_cap",
    "playouts",
    "policy_bonus",
    "puct",
    "rave",
    "regularised",
    "reroot",
    "root_proof",
    "sample_visits",
    "search",
    "stochastic_muzero_policy",
    "successor_values",
    "uct",
    "uniform",
]
