"""Batched tree search in JAX: thousands of searches in one compiled program."""

from jaxsearch.environment import make_recurrent_fn, make_root_fn
from jaxsearch.evaluators import playouts, uniform
from jaxsearch.noise import add_dirichlet
from jaxsearch.policies import gumbel_muzero_policy, muzero_policy, sample_visits
from jaxsearch.rows import Row
from jaxsearch.search import search
from jaxsearch.searches import gumbel, puct, uct
from jaxsearch.tree import RootSummary, Tree
from jaxsearch.types import (
    Environment,
    Evaluator,
    PolicyOutput,
    RecurrentFn,
    RecurrentFnOutput,
    RootFnOutput,
    Search,
    SearchOutput,
)

__all__ = [
    "Environment",
    "Evaluator",
    "PolicyOutput",
    "RecurrentFn",
    "RecurrentFnOutput",
    "RootFnOutput",
    "RootSummary",
    "Row",
    "Search",
    "SearchOutput",
    "Tree",
    "add_dirichlet",
    "gumbel",
    "gumbel_muzero_policy",
    "make_recurrent_fn",
    "make_root_fn",
    "muzero_policy",
    "playouts",
    "puct",
    "sample_visits",
    "search",
    "uct",
    "uniform",
]
