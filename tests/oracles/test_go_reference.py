"""Go against plain Python written from the rules alone, also where no installed program has the variant."""

import numpy as np
import pytest
from games_record import length, record


class Go:
    """A board as a dictionary from points to "X" and "O"; nothing here is shared with games_jax."""

    def __init__(self, size, *, superko, suicide):
        self.size, self.superko, self.suicide = size, superko, suicide
        self.stones, self.mover, self.passes = {}, "X", 0
        self.ko, self.seen = None, {frozenset()}

    def around(self, point):
        row, column = point
        near = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        return [(r, c) for r, c in near if 0 <= r < self.size and 0 <= c < self.size]

    def group(self, stones, point):
        """The stones joined to `point`, or the empty points, and what lies around them."""
        kind, found, edge, border = stones.get(point), {point}, [point], set()
        while edge:
            for near in self.around(edge.pop()):
                if stones.get(near) != kind:
                    border.add(near)
                elif near not in found:
                    found.add(near)
                    edge.append(near)
        return found, border

    def after(self, point):
        """The stones after a placement and those captured, or None if it is illegal."""
        if point in self.stones or point == self.ko:
            return None
        stones, other = {**self.stones, point: self.mover}, "XO"[self.mover == "X"]
        captured = set()
        for near in self.around(point):
            if stones.get(near) == other and near not in captured:
                group, border = self.group(stones, near)
                if all(p in stones for p in border):
                    captured |= group
        stones = {p: who for p, who in stones.items() if p not in captured}
        group, border = self.group(stones, point)
        if all(p in stones for p in border):
            if not self.suicide or len(group) == 1:
                return None
            stones = {p: who for p, who in stones.items() if p not in group}
        if self.superko and frozenset(stones.items()) in self.seen:
            return None
        return stones, captured

    def legal(self):
        points = [(row, column) for row in range(self.size) for column in range(self.size)]
        return [i for i, point in enumerate(points) if self.after(point)] + [self.size**2]

    def play(self, action):
        self.passes = self.passes + 1 if action == self.size**2 else 0
        ko = None
        if not self.passes:
            point = divmod(action, self.size)
            stones, captured = self.after(point)
            around = self.around(point)
            if len(captured) == 1 and all(self.stones.get(near, self.mover) != self.mover for near in around):
                (ko,) = captured
            self.stones = stones
        self.ko = ko
        self.seen.add(frozenset(self.stones.items()))
        self.mover = "XO"[self.mover == "X"]

    def board(self):
        return [".XO".index(self.stones.get(divmod(i, self.size), ".")) for i in range(self.size**2)]

    def margin(self):
        """Black's area minus White's."""
        total = 0
        for i in range(self.size**2):
            point = divmod(i, self.size)
            who = {self.stones.get(point)}
            if point not in self.stones:
                who = {self.stones[p] for p in self.group(self.stones, point)[1]}
            total += {frozenset("X"): 1, frozenset("O"): -1}.get(frozenset(who), 0)
        return total


VARIANTS = [
    (2, 1, "superko", True, 100),
    (3, 0, "simple", True, 100),
    pytest.param(4, 2, "superko", False, 300, marks=pytest.mark.slow),
    pytest.param(5, 0.5, "superko", True, 200, marks=pytest.mark.slow),
    pytest.param(6, 4, "simple", True, 200, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("size", "komi", "ko", "suicide", "games"), VARIANTS)
def test_every_ply_of_random_games(size, komi, ko, suicide, games):
    name = f"go(size={size}, komi={komi}, ko={ko!r}, suicide={suicide})"
    played, boards = record(name, games=games)
    draws, suicides, barred = 0, 0, 0
    for index in range(games):
        reference = Go(size, superko=ko == "superko", suicide=suicide)
        plies = length(played, index)
        for ply in range(plies + 1):
            where = f"game {index}, ply {ply}, moves {played.actions[:ply, index].tolist()}"
            over = reference.passes == 2 or ply == 2 * size**2
            assert bool(played.over[ply, index]) == over == (ply == plies), where
            assert reference.board() == boards[ply, index].tolist(), where
            assert "XO".index(reference.mover) == played.player[ply, index], where
            if over:
                break
            legal = reference.legal()
            assert legal == np.flatnonzero(played.legal[ply, index]).tolist(), where
            action = int(played.actions[ply, index])
            suicides += action < size**2 and boards[ply + 1, index, action] == 0
            if ko == "superko":
                reference.superko = False
                barred += len(reference.legal()) - len(legal)
                reference.superko = True
            reference.play(action)
        sign = np.sign(reference.margin() - komi)
        assert [sign, -sign] == played.rewards[plies, index].tolist()
        draws += sign == 0
    assert not suicide or suicides > 0 or size == 2  # on 2 x 2 suicide always brings a board back
    assert komi % 1 or draws > 0
    assert ko == "simple" or barred > 0
