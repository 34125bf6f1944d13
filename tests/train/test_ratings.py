"""Scores, intervals and Elo: against closed forms, known strengths and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train import ratings
from train.ratings import Encounter, elo_difference, expected_score, rate, score_interval

PAIRS = st.tuples(*[st.integers(0, 40)] * 5).filter(lambda p: sum(p) > 0)


def played(rng: np.random.Generator, first: str, second: str, elo: float, pairs: int, draws: float = 0.0):
    """A simulated match in which the first player is `elo` stronger."""
    score = expected_score(elo)
    drawn = rng.random((pairs, 2)) < draws * 2 * min(score, 1 - score)
    # Decided games are won so often that the expected score, draws included, stays `score`.
    rate_drawn = draws * 2 * min(score, 1 - score)
    win = (score - rate_drawn / 2) / (1 - rate_drawn)
    points = np.where(drawn, 0.5, rng.random((pairs, 2)) < win)
    return Encounter(first, second, ratings.pair_counts(points))


@given(PAIRS)
def test_score_and_interval_are_ordered_and_inside_0_1(pairs):
    encounter = Encounter("a", "b", pairs)
    low, high = encounter.interval
    assert 0 <= low <= encounter.score <= high <= 1
    assert high > low  # never certainty


@given(PAIRS)
def test_swapping_the_players_mirrors_everything(pairs):
    one, other = Encounter("a", "b", pairs), Encounter("b", "a", pairs[::-1])
    assert one.points + other.points == one.games
    assert one.interval == pytest.approx([1 - x for x in other.interval[::-1]])
    (elo, low, high), (other_elo, other_low, other_high) = one.elo, other.elo
    assert (elo, low, high) == pytest.approx((-other_elo, -other_high, -other_low), abs=1e-6)


def test_interval_is_wilsons_where_pairs_vary_like_coin_tosses():
    # 25 pairs lost, 50 split, 25 won: exactly the variance of two independent fair games.
    low, high = score_interval((25, 0, 50, 0, 25))
    centre, half = 0.5, 1.959964 * math.sqrt(0.25 / 200 + 1.959964**2 / 4 / 200**2) / (1 + 1.959964**2 / 200)
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=1e-3)


def test_interval_keeps_a_width_at_100_percent():
    low, high = score_interval((0, 0, 0, 0, 50))
    assert high == 1.0
    assert low == pytest.approx(100 / (100 + 1.959964**2))  # Wilson: n / (n + z^2)


def test_pairing_narrows_the_interval_where_the_opening_decides():
    assert np.diff(score_interval((0, 0, 40, 0, 0))) < 0.5 * np.diff(score_interval((10, 0, 20, 0, 10)))


@pytest.mark.parametrize(
    "first, second, pairs", [(0.5, 0.5, 50), (0.9, 0.7, 50), (0.8, 0.2, 50), (0.97, 0.97, 100)]
)
def test_interval_covers_the_truth_as_often_as_it_says(first, second, pairs):
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(1000):
        points = rng.random((pairs, 2)) < (first, second)
        low, high = score_interval(ratings.pair_counts(points))
        covered.append(low <= (first + second) / 2 <= high)
    assert np.mean(covered) > 0.92


def test_elo_difference_is_the_logistic_curve():
    assert elo_difference(0.5) == 0
    assert elo_difference(10 / 11) == pytest.approx(400)
    assert elo_difference(1.0) == math.inf and elo_difference(0.0) == -math.inf
    assert elo_difference(1.0, games=100) == pytest.approx(400 * math.log10(100.5 / 0.5))
    with pytest.raises(ValueError, match="between 0 and 1"):
        elo_difference(1.2)


@given(st.floats(-1500, 1500))
def test_expected_score_inverts_elo_difference(elo):
    assert elo_difference(expected_score(elo)) == pytest.approx(elo, abs=1e-6)


@pytest.mark.parametrize("draws", [0.0, 0.5])
def test_ratings_recover_known_strengths(draws):
    rng = np.random.default_rng(0)
    truth = {"random": 0.0, "weak": 150.0, "middle": 320.0, "strong": 480.0}
    names = list(truth)
    encounters = [
        played(rng, a, b, truth[a] - truth[b], 400, draws) for i, a in enumerate(names) for b in names[:i]
    ]
    rated = {r.name: r for r in rate(encounters)}
    for name, elo in truth.items():
        assert rated[name].elo == pytest.approx(elo, abs=40)
        assert rated[name].low - 15 <= elo <= rated[name].high + 15
        assert rated[name].low <= rated[name].elo <= rated[name].high
    assert rated["random"].elo == rated["random"].low == rated["random"].high == 0
    assert [r.name for r in rate(encounters)] == names[::-1]


def test_two_players_are_rated_as_their_score_says():
    encounter = Encounter("a", "random", (5, 5, 20, 10, 10))
    expected = elo_difference((encounter.points + 0.5) / (encounter.games + 1))
    (first, _) = rate([encounter], bootstrap=0)
    assert first.name == "a" and first.elo == pytest.approx(expected, abs=0.1)
    assert math.isnan(first.low)


def test_total_victories_give_finite_ratings():
    chain = [Encounter(b, a, (0, 0, 0, 0, 50)) for a, b in zip(("random", "a", "b"), ("a", "b", "c"))]
    rated = rate(chain)
    assert [r.name for r in rated] == ["c", "b", "a", "random"]
    assert all(math.isfinite(x) for r in rated for x in (r.elo, r.low, r.high))
    assert rated[0].elo - rated[1].elo == pytest.approx(elo_difference(1.0, games=100), rel=0.01)


def test_anchor_and_its_elo():
    encounter = Encounter("a", "b", (5, 0, 10, 0, 9))
    free = {r.name: r.elo for r in rate([encounter], bootstrap=0)}
    fixed = {r.name: r.elo for r in rate([encounter], anchor="b", anchor_elo=1000, bootstrap=0)}
    assert free["a"] == 0 and fixed["b"] == 1000
    assert fixed["a"] - 1000 == pytest.approx(-free["b"])


def test_ratings_refuse_what_cannot_be_rated():
    meeting = Encounter("a", "b", (1, 0, 0, 0, 1))
    with pytest.raises(ValueError, match="at least one encounter"):
        rate([])
    with pytest.raises(ValueError, match="'c' played no match; the players are a, b"):
        rate([meeting], anchor="c")
    with pytest.raises(ValueError, match="connects c, d with the anchor 'a'"):
        rate([meeting, Encounter("c", "d", (1, 0, 0, 0, 1))])
    with pytest.raises(ValueError, match="met itself"):
        rate([Encounter("a", "a", (1, 0, 0, 0, 1))])
    with pytest.raises(ValueError, match="at least one pair"):
        Encounter("a", "b", (0, 0, 0, 0, 0))


def test_table_names_everybody_and_the_anchor():
    text = ratings.table(rate([Encounter("uct:100", "random", (0, 1, 2, 3, 40))]))
    first, second, third = text.splitlines()
    assert "Elo" in first and "uct:100" in second and "random" in third and "anchor" in third
