"""Pommerman against recorded transitions of the official environment, and its own doors."""

import functools
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DATA

import games_jax
from games_jax.game import is_simultaneous, num_bytes
from games_jax.pommerman import Pommerman, Snapshot
from games_jax.pommerman.state import from_planes, to_planes

GAME = Pommerman()
BOARD, HIDDEN, LIFE, BLAST, OWNER, DIRECTION = range(6)


@functools.cache
def records():
    """Transitions of the official environment: states before and after as planes and numbers."""
    with np.load(DATA / "pommerman" / "transitions.npz") as file:
        return dict(file)


@functools.cache
def states():
    """The states before the recorded transitions, `[1200]`."""
    found = records()
    load = jax.jit(jax.vmap(from_planes))
    return load(found["planes"], found["agents"].astype(np.int32), found["steps"].astype(np.int32))


@jax.jit
def play(planes, agents, steps, actions):
    """Our step of a batch of states given as planes, and the facts of what comes out."""

    def one(state, actions):
        new = GAME.step(state, actions)
        facts = GAME.rewards(new), GAME.is_over(new), GAME.result(new), GAME.winners(new)
        return to_planes(new, GAME.size), facts, to_planes(state, GAME.size)

    return jax.vmap(one)(jax.vmap(from_planes)(planes, agents, steps), actions)


@functools.cache
def after():
    """What our step makes of the recorded states: planes, agents, steps, and the facts of each state."""
    found = records()
    numbers = [found[name].astype(np.int32) for name in ("agents", "steps", "actions")]
    return jax.device_get(play(found["planes"], *numbers))


def at(i):
    """One of the recorded states."""
    return jax.tree.map(lambda leaf: leaf[i], states())


def test_what_is_hidden_can_be_taken_out_and_nobody_sees_the_difference():
    planes = jax.jit(jax.vmap(lambda state: to_planes(state, GAME.size)[0]))
    bare = jax.jit(jax.vmap(GAME.without_hidden_items))(states())
    before, now = np.asarray(planes(states())), np.asarray(planes(bare))
    assert before[:, HIDDEN].any() and not now[:, HIDDEN].any()
    np.testing.assert_array_equal(np.delete(now, HIDDEN, 1), np.delete(before, HIDDEN, 1))
    see = jax.jit(jax.vmap(jax.vmap(GAME.observe, (None, 0)), (0, None)))
    everybody = jnp.arange(4)
    np.testing.assert_array_equal(see(bare, everybody), see(states(), everybody))


def test_every_recorded_transition_is_exact():
    found = records()
    (planes, agents, steps), (rewards, over, result, winners), before = after()
    np.testing.assert_array_equal(before[0], found["planes"])
    np.testing.assert_array_equal(before[1], found["agents"])
    np.testing.assert_array_equal(steps, found["steps"] + 1)
    wrong = (planes != found["after"]).any((1, 2, 3)) | (agents != found["agents_after"]).any((1, 2))
    assert not wrong.any(), f"{wrong.sum()} states differ, first {np.flatnonzero(wrong)[0]}"
    np.testing.assert_array_equal(rewards, found["rewards"])
    np.testing.assert_array_equal(over, found["done"])
    np.testing.assert_array_equal(result, found["result"])
    np.testing.assert_array_equal(winners @ np.array([1, 2, 4, 8]), found["winners"])
    assert over.sum() > 100 and len(np.unique(found["source"])) == 6


def test_whole_recorded_games():
    """What a state does not show, an item under an agent, say, comes out only in the steps that follow."""
    with np.load(DATA / "pommerman" / "games.npz") as file:
        found = dict(file)

    def replay(planes, agents, steps, actions):
        def step(state, actions):
            state = GAME.step(state, actions)
            return state, (GAME.rewards(state), GAME.is_over(state))

        final, facts = jax.lax.scan(step, from_planes(planes, agents, steps), actions)
        return to_planes(final, GAME.size), facts

    numbers = [found[name].astype(np.int32) for name in ("agents", "steps", "actions")]
    (planes, agents, steps), (rewards, over) = jax.jit(jax.vmap(replay))(found["planes"], *numbers)
    np.testing.assert_array_equal(planes, found["after"])
    np.testing.assert_array_equal(agents, found["agents_after"])
    np.testing.assert_array_equal(steps, found["steps"] + found["length"])
    for i, length in enumerate(found["length"]):
        np.testing.assert_array_equal(rewards[i, :length], found["rewards"][i, :length])
        assert not over[i, : length - 1].any() and over[i, length - 1 :].all()


def test_boards_have_the_official_statistics():
    count = 4_000
    new = jax.jit(jax.vmap(GAME.init))(jax.random.split(jax.random.key(1), count))
    planes, agents, _ = jax.device_get(jax.jit(jax.vmap(lambda s: to_planes(s, 11)))(new))
    board, hidden = planes[:, BOARD], planes[:, HIDDEN]
    assert ((board == 1).sum((1, 2)) == 36).all() and ((board == 2).sum((1, 2)) == 36).all()
    assert ((hidden > 0).sum((1, 2)) == 20).all() and (board[hidden > 0] == 2).all()
    assert (agents == [[1, 1, 1, 1, 2, 0], [9, 1, 1, 1, 2, 0], [9, 9, 1, 1, 2, 0], [1, 9, 1, 1, 2, 0]]).all()
    walls = np.where(board < 3, board, 0)
    assert (walls == walls.transpose(0, 2, 1)).all() and not walls[:, range(11), range(11)].any()
    with np.load(DATA / "pommerman" / "boards.npz") as file:
        official = {name: file[name] for name in file.files}
    ours = {
        "rigid": (board == 1).sum(0),
        "wood": (board == 2).sum(0),
        "hidden": np.stack([(hidden == k).sum(0) for k in (6, 7, 8)]),
    }
    for name, seen in ours.items():
        theirs, total = official[name], int(official["boards"])
        share = (seen + theirs) / (count + total)
        spread = np.sqrt(share * (1 - share) * (1 / count + 1 / total))
        off = np.abs(seen / count - theirs / total)
        assert (off[spread == 0] == 0).all()
        z = off[spread > 0] / spread[spread > 0]
        assert z.max() < 4.5 and 0.8 < np.mean(z**2) < 1.25, (name, z.max(), np.mean(z**2))
    unreached = np.array([reachable_gap(one) for one in board[:500]])
    shares = np.bincount(unreached, minlength=5) / len(unreached)
    assert unreached.max() <= 4
    np.testing.assert_allclose(shares, [0.09, 0.27, 0.29, 0.22, 0.13], atol=0.07)


def reachable_gap(board):
    """Passages that cannot be reached from (9, 9) even through wood."""
    seen, queue = {(9, 9)}, [(9, 9)]
    while queue:
        row, column = queue.pop()
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if min(cell) >= 0 and max(cell) <= 10 and cell not in seen and board[cell] != 1:
                seen.add(cell)
                queue.append(cell)
    return sum(cell not in seen for cell in zip(*np.nonzero(board == 0), strict=True))


@pytest.mark.parametrize(("mode", "orders"), [("ffa", 24), ("team", 8), ("one_v_one", 2)])
def test_random_corners(mode, orders):
    game = Pommerman(mode=mode, random_corners=True)
    new = jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(0), 256))
    cells = np.asarray(jax.vmap(lambda s: game.agents(s).cell)(new))
    seen = {tuple(row) for row in cells.tolist()}
    assert len(seen) == orders and len({tuple(sorted(row)) for row in seen}) == 1
    if mode == "team":  # partners face each other along a diagonal
        rows, columns = cells // 11, cells % 11
        assert (rows[:, 0] != rows[:, 2]).all() and (columns[:, 0] != columns[:, 2]).all()


def expected_planes(found, i, player):
    """The paper's planes in plain numpy, from the recorded arrays."""
    planes, agents = found["planes"][i].astype(np.float64), found["agents"][i].astype(np.float64)
    board, life, blast, direction = planes[BOARD], planes[LIFE], planes[BLAST], planes[DIRECTION]
    owned = int(((planes[OWNER] == player) & (life > 0)).sum())
    out = np.zeros((11, 11, 23))
    for plane, code in ((0, 1), (1, 2), (2, 6), (3, 7), (4, 8)):
        out[..., plane] = board == code
    out[..., 5] = np.where(life > 0, 1 - life / 9, 0)
    out[..., 6] = np.where(life > 0, (blast - 1) / 11, 0)
    out[..., 7] = (direction == 4) * 1.0 - (direction == 3)
    out[..., 8] = (direction == 1) * 1.0 - (direction == 2)
    out[..., 9] = np.max([planes[6 + left] * (left + 1) / 3 for left in range(3)], axis=0)
    for k in range(4):
        other = (player + k) % 4
        out[..., 10 + k] = board == 10 + other
        out[..., 18 + k] = agents[other, 2]
    me = agents[player]
    numbers = (me[4] - 1) / 11, owned / 5, (owned + me[3]) / 5, me[5]
    out[..., 14:18] = numbers
    out[..., 22] = found["steps"][i] / 799
    return out


def test_observations_are_the_papers_planes():
    found, some = records(), np.arange(0, 1200, 37)
    see = jax.jit(jax.vmap(jax.vmap(GAME.observe, in_axes=(None, 0)), in_axes=(0, None)))
    seen = np.asarray(see(jax.tree.map(lambda leaf: leaf[some], states()), jnp.arange(4)))
    for row, i in enumerate(some):
        for player in range(4):
            np.testing.assert_allclose(seen[row, player], expected_planes(found, i, player), atol=1e-6)


def test_a_team_sees_four_cells_far():
    game = Pommerman(mode="team")
    see = jax.jit(game.observe)
    state = at(500)
    whole = np.asarray(GAME.observe(state, 2))
    seen = np.asarray(see(state, jnp.int32(2)))
    row, column = divmod(int(game.agents(state).cell[2]), 11)
    rows, columns = np.indices((11, 11))
    near = (abs(rows - row) <= 4) & (abs(columns - column) <= 4)
    np.testing.assert_array_equal(seen[..., 23], ~near)
    np.testing.assert_array_equal(seen[..., :14], whole[..., :14] * near[..., None])
    np.testing.assert_array_equal(seen[..., 14:23], whole[..., 14:])


def test_the_action_filter():
    found = records()
    ours = np.asarray(jax.jit(jax.vmap(GAME.filtered_actions))(states()))
    legal = np.asarray(jax.vmap(GAME.legal_actions)(states()))
    assert not (ours & ~legal).any()
    for i in range(0, 1200, 5):
        board, life = found["planes"][i, BOARD], found["planes"][i, LIFE]
        dying = found["planes"][i, 6:9].tolist()
        for player, (row, column, alive, ammo, _, kick) in enumerate(found["agents"][i]):
            if not alive:
                assert not ours[i, player, 1:].any()
                continue
            want = [True]
            for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                inside = 0 <= r < 11 and 0 <= c < 11
                code = board[r, c] if inside else 1
                burns_out = inside and dying[0][r][c] and not dying[1][r][c] and not dying[2][r][c]
                want.append(
                    code in (0, 6, 7, 8) or (code == 3 and bool(kick)) or bool(code == 4 and burns_out)
                )
            want.append(ammo > 0 and life[row, column] == 0)
            assert ours[i, player].tolist() == want, (i, player)


def make(agents, *, mode="ffa", steps=0, **options):
    """A state on an empty board with agents `(row, column, alive)`."""
    game = Pommerman(mode=mode, **options)
    board = np.zeros((game.size, game.size), np.uint8)
    rows = [[*agent, 1, 2, 0] for agent in agents]
    return game, game.load(Snapshot(board, board * 0, [], [], rows, steps))


CORNERS = [(1, 1), (9, 1), (9, 9), (1, 9)]
ENDS = [
    ("ffa", (1, 1, 1, 0), 5, [0, 0, 0, -1], 3),
    ("ffa", (0, 0, 1, 0), 800, [-1, -1, 1, -1], 0),
    ("ffa", (0, 0, 0, 0), 9, [-1] * 4, 2),
    ("ffa", (1, 1, 0, 0), 800, [-1] * 4, 2),
    ("team", (1, 1, 1, 0), 5, [0] * 4, 3),
    ("team", (1, 0, 1, 0), 5, [1, -1, 1, -1], 0),
    ("team", (0, 0, 0, 1), 5, [-1, 1, -1, 1], 0),
    ("team", (1, 1, 0, 0), 5, [0] * 4, 3),
    ("team", (1, 1, 0, 0), 800, [-1] * 4, 2),
    ("team", (0, 0, 0, 0), 5, [-1] * 4, 2),
    ("one_v_one", (1, 0), 5, [1, -1], 0),
    ("one_v_one", (1, 1), 5, [0, 0], 3),
    ("one_v_one", (1, 1), 800, [-1, -1], 2),
    ("one_v_one", (0, 0), 5, [0, 0], 2),
]


@pytest.mark.parametrize(("mode", "alive", "steps", "rewards", "result"), ENDS)
def test_ends_and_rewards(mode, alive, steps, rewards, result):
    places = CORNERS if mode != "one_v_one" else [(1, 1), (6, 6)]
    game, state = make(
        [(*place, on) for place, on in zip(places, alive, strict=True)], mode=mode, steps=steps
    )
    assert game.rewards(state).tolist() == rewards
    assert int(game.result(state)) == result
    assert bool(game.is_over(state)) == (result != 3)
    assert game.winners(state).tolist() == [result == 0 and reward == 1 for reward in rewards]
    values = game.outcome(state)
    if result == 0:
        assert values.tolist() == rewards
    if sum(alive) == 0:
        assert not values.any()


@functools.cache
def collapsing_step():
    game = Pommerman(collapse=True)
    return game, jax.jit(game.step)


@pytest.mark.slow
def test_rings_collapse_on_time():
    game, step = collapsing_step()
    _, state = make([(0, 5, 1), (5, 5, 1), (9, 9, 1), (1, 9, 1)], steps=498)
    state = step(state, jnp.int32([5, 0, 0, 0]))
    assert int(state.steps) == 499 and bool(game.agents(state).alive.all())
    state = step(state, jnp.int32([0, 5, 0, 0]))
    shot = game.snapshot(state)
    assert (shot.board == 1).sum() == 40 and game.agents(state).alive.tolist() == [False, True, True, True]
    assert shot.bombs == [[5, 5, 9, 2, 1, 0]]  # the one on the ring is gone, and its owner has it back
    assert shot.agents[0][3] == 1


def test_positions_as_text():
    for i in range(0, 1200, 101):
        state = at(i)
        back = GAME.from_string(GAME.to_string(state))
        jax.tree.map(np.testing.assert_array_equal, back, state)


WRONG = [
    ("", "expected 11 rows of 11 cells"),
    ("/".join(["." * 11] * 11), "the position has 0 agents; expected 4"),
    (
        "/".join(["x" + "." * 10] + ["." * 11] * 10)
        + " agents:1,1,1,1,2,0;2,1,1,1,2,0;3,1,1,1,2,0;4,1,1,1,2,0",
        "the board holds 'x'",
    ),
    ("/".join(["." * 11] * 11) + " agents:1,1,1,1,2,0;1,1,1,1,2,0;3,1,1,1,2,0;4,1,1,1,2,0", "which is taken"),
    ("/".join(["." * 11] * 11) + " agents:1,1,1,1,2;2,1", "expected 6 whole numbers"),
    ("/".join(["." * 11] * 11) + " agents:1,1,1,1,2,0;2,1,1,1,2,0;3,1,1,1,2,0;4,1,1,11,2,0", "out of range"),
    ("/".join(["." * 11] * 11) + " agent:1", "is unknown; expected one of agents:"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_unreadable_positions(text, message):
    with pytest.raises(ValueError, match=message):
        GAME.from_string(text)


def test_wrong_parameters():
    with pytest.raises(ValueError, match="there is no mode 'duel'; give one of 'ffa', 'team', 'one_v_one'"):
        games_jax.make("pommerman", mode="duel")
    with pytest.raises(ValueError, match="max_steps is 0; give a whole number"):
        games_jax.make("pommerman(max_steps=0)")
    with pytest.raises(
        ValueError, match="'jump' is no action; give one of stop, up, down, left, right, bomb"
    ):
        GAME.action_from_string("jump")


def test_pictures():
    busiest = int(np.argmax((records()["planes"][:, LIFE] > 0).sum((1, 2)) + 3 * (records()["source"] == 2)))
    state = at(busiest)
    text = GAME.render(state).splitlines()
    assert len(text) == 12 and text[-1].startswith("step ")
    root = ET.fromstring(GAME.to_svg(state))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    alive = [letter for letter, on in zip("ABCD", GAME.agents(state).alive) if on]
    assert all(letter in words for letter in alive) and text[-1] in words
    film = ET.fromstring(GAME.animate([at(i) for i in range(3)]))
    assert len(list(film.iter("{http://www.w3.org/2000/svg}animate"))) == 3


def test_a_finished_game_stands_still_and_has_no_legal_action():
    found = records()
    end, (_, over, _, _), _ = after()
    again = jax.device_get(play(*end, np.ones((1200, 4), np.int32)))[0]
    for new, old in zip(again, end, strict=True):
        np.testing.assert_array_equal(new[over], old[over])
    legal = np.asarray(jax.jit(jax.vmap(GAME.legal_actions))(jax.jit(jax.vmap(from_planes))(*end)))
    assert not legal[over].any() and legal[~over].any(axis=-1).all()
    assert found["done"].sum() == over.sum()


def test_facts():
    assert is_simultaneous(GAME) and not is_simultaneous(games_jax.make("othello"))
    assert num_bytes(GAME) == 340 and num_bytes(Pommerman(mode="one_v_one")) == 172
