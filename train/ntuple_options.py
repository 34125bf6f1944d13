"""The options of n-tuple networks; see `train.networks.ntuple`. Imports no jax."""

from __future__ import annotations

from typing import Literal

from train.schema import setting, settings

__all__ = ["NTupleOptions"]


@settings
class NTupleOptions:
    """The n-tuple value network: the value is a sum of table look-ups, one for each tuple of cells."""

    tuples: Literal["random_walk", "pieces", "connect_four_70", "patterns"] = setting(
        '"random_walk" draws cells; "pieces" draws different sets of cubies, each with its place '
        'and how it is turned; "connect_four_70" is the published list for Connect Four, which sets number '
        'and length; "patterns" takes lines, corners and edges of the board, see patterns.',
        default="random_walk",
    )
    patterns: str = setting(
        'For tuples = "patterns": which, "edges+lines+corners3x3", say; the names are those of the network '
        '"patterns". Of symmetric ones one is taken, and number and length are not used.',
        default="edges+lines+corners3x3+corners2x5",
    )
    number: int = setting("Tuples. More know more and take longer.", default=100, minimum=1)
    length: int = setting(
        "Cells of a tuple; a cell more takes as many times the memory as a cell has values.",
        default=7,
        minimum=1,
        maximum=12,
    )
    adjacency: Literal["4", "8", "all", "groups"] = setting(
        'Which cells a walk may add: a neighbour of one it has, on 4 or 8 sides; any ("all"); or any of its '
        'own group ("groups").',
        default="8",
    )
    start: str = setting(
        'What a walk starts from: "cell", a random one; or "lines<n>", each straight run of n cells of the '
        "board in turn, so that the tuples see all of them whole.",
        default="cell",
        pattern=r"cell|lines[2-9]",
    )
    groups: tuple[int, ...] = setting(
        "Sizes of the groups of cells, in order, for that; corners and edges of the 3x3x3 cube are [16, 24]. "
        'For "pieces": how many places and facelets there are in turn, [7, 7] or [8, 8, 12, 12].',
        default=(),
        minimum=1,
    )
    tuple_seed: int = setting("The random walks follow from it.", default=0, minimum=0)
    weights: Literal["per_player", "relative"] = setting(
        'Of games for two: "per_player" keeps a weight set for each and shows both the same board; '
        '"relative" keeps one and shows the board as the player sees it, own pieces first.',
        default="per_player",
    )
    planes: int = setting(
        "How many planes of the observation the cells tell apart: 2 are the stones alone, 0 all planes.",
        default=0,
        minimum=0,
    )
    stages: int = setting(
        "Weight sets for as many stages of the game, by the number of stones on the board.",
        default=1,
        minimum=1,
    )
    symmetric: bool = setting(
        "Add up the look-ups of all symmetric images of the board, where the game has any.", default=True
    )
    canonical: bool = setting(
        "Where a symmetric image of the board shows a tuple its own cells in another order, look up one row "
        "for both, the lesser, in place of two. As good and, for patterns, half the look-ups.",
        default=False,
    )
    output: Literal["tanh", "identity"] = setting(
        '"tanh" for games that end in -1, 0 or 1; "identity" for others.', default="tanh"
    )
    temperature: float = setting(
        "Under a search, the priors of moves are a softmax of their values over this.", default=1.0, above=0
    )
