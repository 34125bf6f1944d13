"""A drop-in for mctx: `from jaxsearch import mctx` instead of `import mctx`, and the same answers sooner.

Every public name of mctx is here. Types, q-transforms and action-selection functions are mctx's own; the
search and the three policies are ours. `docs/mctx.md` says how to move on from here to the policies of
`jaxsearch` itself, which are faster again.
"""

from mctx import (
    ChanceRecurrentFnOutput,
    DecisionRecurrentFnOutput,
    GumbelMuZeroExtraData,
    InteriorActionSelectionFn,
    LoopFn,
    PolicyOutput,
    RecurrentFn,
    RecurrentFnOutput,
    RecurrentState,
    RootActionSelectionFn,
    RootFnOutput,
    Tree,
    gumbel_muzero_interior_action_selection,
    gumbel_muzero_root_action_selection,
    muzero_action_selection,
    qtransform_by_min_max,
    qtransform_by_parent_and_siblings,
    qtransform_completed_by_mix_value,
)

from jaxsearch.mctx.convert import to_mctx_tree
from jaxsearch.mctx.loop import search
from jaxsearch.mctx.policies import gumbel_muzero_policy, muzero_policy
from jaxsearch.mctx.stochastic import stochastic_muzero_policy

__all__ = [
    "ChanceRecurrentFnOutput",
    "DecisionRecurrentFnOutput",
    "GumbelMuZeroExtraData",
    "InteriorActionSelectionFn",
    "LoopFn",
    "PolicyOutput",
    "RecurrentFn",
    "RecurrentFnOutput",
    "RecurrentState",
    "RootActionSelectionFn",
    "RootFnOutput",
    "Tree",
    "gumbel_muzero_interior_action_selection",
    "gumbel_muzero_policy",
    "gumbel_muzero_root_action_selection",
    "muzero_action_selection",
    "muzero_policy",
    "qtransform_by_min_max",
    "qtransform_by_parent_and_siblings",
    "qtransform_completed_by_mix_value",
    "search",
    "stochastic_muzero_policy",
    "to_mctx_tree",
]
