"""Policy-value networks as records of pure functions: `make_network("patterns", game)`."""

from train.networks.network import Network, NetworkOutput, Variables, evaluator, num_parameters, show
from train.networks.registry import make_network, names

__all__ = [
    "Network",
    "NetworkOutput",
    "Variables",
    "evaluator",
    "make_network",
    "names",
    "num_parameters",
    "show",
]
