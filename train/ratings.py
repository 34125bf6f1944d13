"""What matches prove: scores with intervals, and Elo ratings with intervals.

Everything here is NumPy on the host. A match is kept as five counts, of pairs of games (the same opening,
colours swapped) in which the first-named player made 0, 1/2, 1, 3/2 or 2 points: all that scores,
intervals and ratings need, small enough for a metrics file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import choix
import numpy as np

Z95 = 1.959964
"""Standard normal quantile of a two-sided 95 % interval."""

PAIR_POINTS = np.array([0.0, 0.5, 1.0, 1.5, 2.0])

DISPERSION_PRIOR = 5.0
"""Pairs' worth of trust in the binomial variance when the variance of pairs is estimated."""


@dataclasses.dataclass(frozen=True)
class Encounter:
    """The result of a match, from the first-named player's point of view.

    Attributes:
        first, second: the players' names.
        pairs: how many pairs of games brought the first player 0, 1/2, 1, 3/2 and 2 points.
    """

    first: str
    second: str
    pairs: tuple[int, int, int, int, int]

    def __post_init__(self):
        if len(self.pairs) != 5 or min(self.pairs) < 0 or sum(self.pairs) < 1:
            raise ValueError(
                f"An encounter needs five counts of pairs, at least one pair in all, got {self.pairs}."
            )

    @property
    def games(self) -> int:
        """Number of games, two per pair."""
        return 2 * sum(self.pairs)

    @property
    def points(self) -> float:
        """Points of the first player: a win 1, a draw 1/2."""
        return float(np.dot(self.pairs, PAIR_POINTS))

    @property
    def score(self) -> float:
        """Points per game of the first player, in [0, 1]."""
        return self.points / self.games

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the score; see `score_interval`."""
        return score_interval(self.pairs)

    @property
    def elo(self) -> tuple[float, float, float]:
        """Elo difference first minus second with its 95 % interval: (estimate, low, high)."""
        low, high = self.interval
        return tuple(elo_difference(s, self.games) for s in (self.score, low, high))  # pyright: ignore


def score_interval(pairs: Sequence[int]) -> tuple[float, float]:
    """95 % interval for the score of a match from its counts of pair results.

    Wilson's interval, which stays inside [0, 1] and keeps a width at 0 % and 100 %, with the variance of
    the match in place of the binomial one: the ratio of the two is estimated from the pairs (colours
    paired and draws make it smaller than 1) and drawn towards 1 with the weight of five pairs, so that a
    few alike pairs do not pass for certainty.

    Args:
        pairs: `[5]` counts of pairs worth 0, 1/2, 1, 3/2, 2 points.

    Returns:
        The low and high end, in [0, 1].

    Reference: Wilson 1927; pairs as in fishtest's "pentanomial" statistics.
    """
    counts = np.asarray(pairs, float)
    number = float(counts.sum())
    mean = float(counts @ PAIR_POINTS / (2 * number))
    binomial = mean * (1 - mean) / 2  # variance of a pair's mean if its two games were coin tosses
    observed = float(counts @ (PAIR_POINTS / 2 - mean) ** 2) / max(number - 1, 1)
    ratio = observed / binomial if binomial > 0 else 1.0
    dispersion = (number * ratio + DISPERSION_PRIOR) / (number + DISPERSION_PRIOR)
    return _wilson(mean, 2 * number, Z95**2 * dispersion)


def share_interval(count: int, games: int) -> tuple[float, float]:
    """95 % interval for a share of independent games, `count` of `games`; Wilson's."""
    return _wilson(count / games, games, Z95**2)


def _wilson(mean: float, games: float, z2: float) -> tuple[float, float]:
    centre = (mean + z2 / (2 * games)) / (1 + z2 / games)
    half = math.sqrt(z2 * mean * (1 - mean) / games + (z2 / (2 * games)) ** 2) / (1 + z2 / games)
    # At 0 % and 100 % the ends are exactly 0 and 1; rounding must not push them past.
    return max(0.0, min(centre - half, mean)), min(1.0, max(centre + half, mean))


def elo_difference(score: float, games: int | None = None) -> float:
    """Elo difference that a score stands for: `400 log10(score / (1 - score))`.

    Args:
        score: points per game in [0, 1].
        games: if given, one virtual draw is added to that many games, which keeps 0 % and 100 % finite
            (100 of 100 games: +921); without it those are infinite.

    Raises:
        ValueError: if the score is outside [0, 1].
    """
    if not 0 <= score <= 1:
        raise ValueError(f"A score is between 0 and 1, got {score}.")
    if games is not None:
        score = (score * games + 0.5) / (games + 1)
    if score in (0.0, 1.0):
        return math.copysign(math.inf, score - 0.5)
    return 400 * math.log10(score / (1 - score))


def expected_score(elo: float) -> float:
    """Score expected from an Elo advantage; the inverse of `elo_difference`."""
    return 1 / (1 + 10 ** (-elo / 400))


@dataclasses.dataclass(frozen=True)
class Rating:
    """A player's Elo with its 95 % bootstrap interval.

    Attributes:
        name: the player.
        elo: the estimate, relative to the anchor.
        low, high: the interval; equal to `elo` for the anchor.
        games: games played.
        score: points per game over all of them.
    """

    name: str
    elo: float
    low: float
    high: float
    games: int
    score: float


def rate(
    encounters: Iterable[Encounter],
    *,
    anchor: str | None = None,
    anchor_elo: float = 0.0,
    prior_draws: float = 1.0,
    bootstrap: int = 200,
    seed: int = 0,
) -> list[Rating]:
    """Elo ratings of all players by the Bradley-Terry model, a draw counting as half a win for each.

    Every two players that met are given `prior_draws` virtual draws, so that ratings stay finite when one
    of them won every game; the rating is then a cautious lower estimate of a difference that the games
    cannot bound from above. Intervals are percentiles over Bayesian bootstrap samples (random weights for the
    pairs of games within each encounter, virtual draws included, so that a single outcome varies too).

    Args:
        encounters: matches; the same two players may appear several times.
        anchor: whose rating is fixed; None takes `"random"` if it played, else the first player named.
        anchor_elo: the anchor's rating.
        prior_draws: virtual draws per pair of players that met, more than 0.
        bootstrap: number of bootstrap samples; 0 leaves the intervals NaN.
        seed: of the bootstrap.

    Returns:
        Ratings, strongest first.

    Raises:
        ValueError: if there are no encounters, the anchor did not play, a player met itself, or some
            players are connected with the anchor by no chain of matches.

    Reference: Bradley & Terry 1952; Rubin 1981; Hunter 2004; Maystre & Grossglauser 2015 (I-LSR, by choix).
    """
    encounters = list(encounters)
    names = list(dict.fromkeys(name for e in encounters for name in (e.first, e.second)))
    anchor = _checked_anchor(encounters, names, anchor)
    if prior_draws <= 0:
        raise ValueError(f"prior_draws must be positive to keep ratings finite, got {prior_draws}.")
    index = {name: i for i, name in enumerate(names)}
    at = index[anchor]

    def fit(points: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Strengths (natural logarithm) for the first players' points `[encounters]`."""
        wins = np.zeros((len(names), len(names)))
        met = np.zeros_like(wins)
        for e, p in zip(encounters, points):
            i, j = index[e.first], index[e.second]
            wins[i, j] += p
            wins[j, i] += e.games - p
            met[i, j] = met[j, i] = 1
        return choix.ilsr_pairwise_dense(
            wins + met * prior_draws / 2, initial_params=start, max_iter=10_000, tol=1e-6
        )

    to_elo = 400 / math.log(10)
    strengths = fit(np.array([e.points for e in encounters]), None)
    elo = anchor_elo + to_elo * (strengths - strengths[at])
    rng = np.random.default_rng(seed)
    samples = [
        to_elo * ((s := fit(_resampled_points(rng, encounters, prior_draws), strengths)) - s[at])
        for _ in range(bootstrap)
    ]
    low, high = (
        anchor_elo + np.percentile(samples, [2.5, 97.5], axis=0)
        if samples
        else np.full((2, len(names)), np.nan)
    )
    ratings = []
    for name, i in index.items():
        games = sum(e.games for e in encounters if name in (e.first, e.second))
        points = sum(
            e.points if name == e.first else e.games - e.points
            for e in encounters
            if name in (e.first, e.second)
        )
        ratings.append(Rating(name, float(elo[i]), float(low[i]), float(high[i]), games, points / games))
    return sorted(ratings, key=lambda r: -r.elo)


def _checked_anchor(encounters: list[Encounter], names: list[str], anchor: str | None) -> str:
    """The anchor's name, once it is sure that ratings relative to it exist."""
    if not encounters:
        raise ValueError("Ratings need at least one encounter, got none.")
    if anchor is None:
        anchor = "random" if "random" in names else names[0]
    if anchor not in names:
        raise ValueError(f"The anchor {anchor!r} played no match; the players are {', '.join(names)}.")
    for e in encounters:
        if e.first == e.second:
            raise ValueError(f"{e.first!r} met itself, which says nothing about ratings; leave it out.")
    reached, frontier = {anchor}, [anchor]
    while frontier:
        name = frontier.pop()
        for e in encounters:
            for a, b in ((e.first, e.second), (e.second, e.first)):
                if a == name and b not in reached:
                    reached.add(b)
                    frontier.append(b)
    if missing := [name for name in names if name not in reached]:
        raise ValueError(
            f"No chain of matches connects {', '.join(missing)} with the anchor {anchor!r}; "
            "let them meet, or rate them apart."
        )
    return anchor


def _resampled_points(
    rng: np.random.Generator, encounters: list[Encounter], prior_draws: float
) -> np.ndarray:
    """One bootstrap sample: points of each encounter's first player `[encounters]`.

    The virtual draws take part in the resampling and are left out of the result, because the fit adds them.
    """
    points = []
    for e in encounters:
        counts = np.asarray(e.pairs, float)
        counts[2] += prior_draws / 2
        weights = rng.gamma(counts)
        points.append(counts.sum() * (weights / weights.sum()) @ PAIR_POINTS - prior_draws / 2)
    return np.array(points)


def table(ratings: Sequence[Rating]) -> str:
    """Ratings as text: rank, player, Elo, 95 % interval, games, score."""
    width = max(len("player"), *(len(r.name) for r in ratings))
    lines = [f"{'':>3} {'player':<{width}} {'Elo':>6}  {'95 % interval':>15} {'games':>6} {'score':>7}"]
    for rank, r in enumerate(ratings, 1):
        interval = "anchor" if r.low == r.high else f"{r.low:+.0f} .. {r.high:+.0f}"
        lines.append(
            f"{rank:>3} {r.name:<{width}} {r.elo:>+6.0f}  {interval:>15} {r.games:>6} {r.score:>7.1%}"
        )
    return "\n".join(lines)


def pair_counts(points: np.ndarray) -> tuple[int, int, int, int, int]:
    """Counts of pair results from points per game `[pairs, 2]` in {0, 1/2, 1}."""
    doubled = np.rint(2 * np.asarray(points).sum(axis=1)).astype(int)
    return tuple(int(c) for c in np.bincount(doubled, minlength=5))  # pyright: ignore[reportReturnType]
