"""Pommerman as a game: variants, ends, rewards, and the doors to text and pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.opponents import row_of
from games_jax.pommerman import boards, fall, filters, notation, observe, render, rules, turns
from games_jax.pommerman import state as states
from games_jax.pommerman.grid import Grid, union
from games_jax.pommerman.state import Agent, Snapshot, State

_MODES = {"ffa": boards.LARGE, "team": boards.LARGE, "one_v_one": boards.SMALL}
_MOST_STEPS = 10_000
_TEAM_VIEW = 4
RUNNING, WIN, TIE = 3, 0, 2


@dataclasses.dataclass(frozen=True)
class Pommerman:
    """Agents on a board of walls lay bombs until one of them, or one team, is left.

    A game with simultaneous moves (`games_jax.game.SimultaneousGame`): an action is int32 `[P]`, one of stop,
    up, down, left, right, bomb for each agent.

    Attributes:
        mode: "ffa", four agents on 11 x 11, each for itself; "team", agents 0 and 2 against 1 and 3, who see
            4 cells far; "one_v_one", two agents on 8 x 8.
        random_corners: whether agents start in random corners, as in the paper's experiments, or agent 0 at
            the top left and the others anticlockwise, as in the official environment. Teams keep diagonals.
        max_steps: the game is over after so many joint actions.
        collapse: whether the rings of the board turn into walls at steps 500, 575, 650 and 725, with all that
            stands on them (the official version 1).

    Raises:
        ValueError: an unknown mode, or a number of steps outside 1 to 10,000.

    Example:
        >>> import jax
        >>> game = Pommerman()
        >>> start = game.init(jax.random.key(0))
        >>> after = game.step(start, jax.numpy.int32([5, 0, 0, 0]))
        >>> game.snapshot(after).bombs
        [[1, 1, 9, 2, 0, 0]]
        >>> game.rewards(after).tolist()
        [0.0, 0.0, 0.0, 0.0]
    """

    mode: str = "ffa"
    random_corners: bool = False
    max_steps: int = 800
    collapse: bool = False

    version = 1
    num_actions = states.NUM_ACTIONS
    has_chance = False
    simultaneous = True

    def __post_init__(self):
        if self.mode not in _MODES:
            raise ValueError(f"there is no mode {self.mode!r}; give one of {', '.join(map(repr, _MODES))}.")
        if type(self.max_steps) is not int or not 1 <= self.max_steps <= _MOST_STEPS:
            raise ValueError(f"max_steps is {self.max_steps!r}; give a whole number from 1 to {_MOST_STEPS}.")

    @property
    def name(self) -> str:
        """The registry name with the parameters that are not the default."""
        fields = [field for field in dataclasses.fields(self) if getattr(self, field.name) != field.default]
        options = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields)
        return f"pommerman({options})" if options else "pommerman"

    @property
    def num_players(self) -> int:
        """4, or 2 in "one_v_one"."""
        return len(self._layout.corners)

    @property
    def size(self) -> int:
        """Cells of a side."""
        return self._layout.size

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(size, size, 23)`; 24 planes in "team"."""
        return (self.size, self.size, observe.PLANES + (self.view_radius is not None))

    @property
    def view_radius(self) -> int | None:
        """How many cells far an agent sees; None for all."""
        return _TEAM_VIEW if self.mode == "team" else None

    @property
    def symmetries(self) -> turns.BoardSymmetries:
        """The eight rotations and reflections; `observation` turns the motion planes as well."""
        return turns.tables(self.size)[0]

    # Rules

    def init(self, key: jax.Array) -> State:
        """A random board."""
        board_key, corner_key = jax.random.split(key)
        corners = jnp.arange(self.num_players, dtype=jnp.int32)
        if self.random_corners:
            corners = boards.corner_order(self._layout, corner_key, keep_teams=self.mode == "team")
        return boards.generate(self._layout, board_key, corners)

    def step(self, state: State, action: jax.Array) -> State:
        """The state after a joint action, int32 `[P]`; those of dead agents do nothing."""
        after = rules.step(self.grid, self._most_blast, state, jnp.asarray(action, jnp.int32))
        if self.collapse:
            after = fall.collapse(self.grid, after)
        over = self.is_over(state)
        after = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, state)
        return bits.compute_tree_once(after)  # agents, filters and planes read it in many kernels

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[P, 6]`: all six for the living (what cannot be done does nothing), "stop" for the dead."""
        alive = self.agents(state).alive
        only_stop = np.arange(self.num_actions) == 0
        return (alive[:, None] | only_stop[None]) & ~self.is_over(state)

    def filtered_actions(self, state: State) -> jax.Array:
        """Bool `[P, 6]`: the actions that are not plainly useless or deadly; a subset of the legal ones.

        Stop always; a bomb if the agent has one and stands on none; a move onto a passage, an item, a flame
        that dies before the move, or, for one that can kick, a bomb. Blasts are not reckoned with.

        Reference: the action filter of Weil et al. (2023), https://arxiv.org/abs/2305.13206.
        """
        return filters.filtered_actions(self.grid, state) & self.legal_actions(state)

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Float32 `[size, size, 23]` (24 in "team"); see `games_jax.pommerman.observe`."""
        player = jnp.asarray(player, jnp.int32)
        return observe.planes(self.grid, state, player, self.window(state, player))

    def window(self, state: State, player: jax.Array) -> Board | None:
        """The cells that the player (int32 `[]`) sees; None if these are all."""
        if self.view_radius is None:
            return None
        cell = self.agents(state).cell[player]
        grid = self.grid
        near = [
            union(
                tuple(
                    jnp.where(jnp.abs(at - i) <= self.view_radius, word, np.uint32(0))
                    for word in grid.mask(line)
                )
                for i, line in enumerate(lines)
            )
            for at, lines in ((cell // grid.size, grid.positions), (cell % grid.size, grid.positions.T))
        ]
        return bits.both(*near)

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0; everybody moves at once."""
        del state
        return jnp.zeros((), jnp.int32)

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[P]`, of the last step, as the official environment gives them.

        Free for all: +1 for the last one alive and -1 for the others; -1 for all if time is up or nobody
        lives; else -1 for the dead, in every step. Team and one against one: rewards at the end only.
        """
        alive = self.agents(state).alive
        late = state.steps >= np.uint32(self.max_steps)
        plus, minus = np.float32(1), np.float32(-1)
        if self.mode == "team":
            sides = self._sides
            standing = [jnp.any(alive & side) for side in sides]
            won = [standing[0] & ~standing[1], standing[1] & ~standing[0]]
            nobody = ~standing[0] & ~standing[1]
            decided = won[0] | won[1]
            mine = jnp.where(won[0], sides[0], sides[1])
            lost = jnp.where(late | nobody, minus, np.float32(0))
            return jnp.where(decided, jnp.where(mine, plus, minus), lost)
        count = jnp.sum(alive, dtype=jnp.int32)
        running = np.float32(0) if self.mode == "one_v_one" else jnp.where(alive, np.float32(0), minus)
        undecided = jnp.where(late, minus, running)
        return jnp.where(count == 1, jnp.where(alive, plus, minus), undecided)

    def outcome(self, state: State) -> jax.Array:
        """Float32 `[P]`: how each agent stands, for searches and learners.

        +1 for the winners and -1 for those who lost or are dead while others live; 0 while undecided, when
        all have died at once, and for those alive when time is up.
        """
        alive = self.agents(state).alive
        if self.mode == "team":
            standing = [jnp.any(alive & side) for side in self._sides]
            balance = standing[0].astype(jnp.float32) - standing[1].astype(jnp.float32)
            return jnp.where(self._sides[0], balance, -balance)
        count = jnp.sum(alive, dtype=jnp.int32)
        living = jnp.where(count == 1, np.float32(1), np.float32(0))
        return jnp.where(alive, living, jnp.where(count == 0, np.float32(0), np.float32(-1)))

    def is_out(self, state: State) -> jax.Array:
        """Bool `[P]`: for whom the game is decided: the dead; in a team those whose whole side is dead."""
        alive = self.agents(state).alive
        if self.mode == "team":
            standing = [jnp.any(alive & side) for side in self._sides]
            return jnp.where(self._sides[0], ~standing[0], ~standing[1])
        return ~alive

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`: time is up, or at most one agent, or one team, is left."""
        alive = self.agents(state).alive
        late = state.steps >= np.uint32(self.max_steps)
        few = jnp.sum(alive, dtype=jnp.int32) <= 1
        if self.mode == "team":
            whole = [jnp.all(alive == side) for side in self._sides]
            return late | few | whole[0] | whole[1]
        return late | few

    def nearest_enemy(self, state: State, player: jax.Array) -> jax.Array:
        """Int32 `[]`: the enemy of `player` who lives nearest by rows and columns, of several the first.

        The next player if there is none.
        """
        agents, size = self.agents(state), np.int32(self.size)
        number = np.arange(self.num_players, dtype=np.int32)
        row, column = (row_of(part, player) for part in (agents.cell // size, agents.cell % size))
        away = jnp.abs(agents.cell // size - row) + jnp.abs(agents.cell % size - column)
        partner = (number - player) % 2 == 0 if self.mode == "team" else number == player
        enemy = agents.alive & ~partner
        nearest = jnp.argmin(jnp.where(enemy, away, np.int32(2) * size)).astype(jnp.int32)
        return jnp.where(enemy.any(), nearest, (player + 1) % np.int32(self.num_players))

    def result(self, state: State) -> jax.Array:
        """Int32 `[]`: 0 somebody has won, 2 a tie, 3 still running."""
        won = jnp.any(self.winners(state))
        ended = jnp.where(won, np.int32(WIN), np.int32(TIE))
        return jnp.where(self.is_over(state), ended, np.int32(RUNNING))

    def winners(self, state: State) -> jax.Array:
        """Bool `[P]`: who has won; nobody while the game is running."""
        return (self.rewards(state) == 1) & self.is_over(state)

    def without_hidden_items(self, state: State) -> State:
        """The state without the items under wood and flames, of which nobody knows.

        What an agent may step in its search; burnt wood then uncovers nothing.
        """
        return state._replace(item=states.open_items(state))

    def agents(self, state: State) -> Agent:
        """The agents' cells, and what they have, each `[P]`."""
        return states.unpack_agent(jnp.stack(state.agents))

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`); rewards do not change."""
        return turns.transform(self.grid, state, k)

    @property
    def _layout(self) -> boards.Layout:
        return _MODES[self.mode]

    @property
    def grid(self) -> Grid:
        """The geometry of the board."""
        return Grid(self.size)

    @property
    def _most_blast(self) -> int:
        # The official environment caps by what an agent sees.
        return _TEAM_VIEW if self.mode == "team" else states.MOST_BLAST

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        even = np.arange(self.num_players) % 2 == 0
        return even, ~even

    # Text and pictures

    def snapshot(self, state: State) -> Snapshot:
        """One state on the host, in the official environment's terms."""
        return states.snapshot(state, self.size)

    def load(self, shot: Snapshot) -> State:
        """The inverse of `snapshot`."""
        return states.load(shot)

    def action_to_string(self, action: int) -> str:
        """One agent's action: stop, up, down, left, right or bomb."""
        return notation.ACTIONS[int(action)]

    def action_from_string(self, text: str) -> int:
        """The inverse; ValueError names the actions."""
        return notation.parse_action(text)

    def from_string(self, text: str) -> State:
        """A position in the format of `games_jax.pommerman.notation`; ValueError says what is wrong."""
        shot = notation.read(text, self.size, self.num_players)
        if shot.steps > self.max_steps:
            raise ValueError(f"the position is at step {shot.steps}; a game has at most {self.max_steps}.")
        return self.load(shot)

    def to_string(self, state: State) -> str:
        """The position on one line: what `from_string` reads back."""
        return notation.write(self.snapshot(state))

    def render(self, state: State) -> str:
        """The board as text."""
        return render.text(self.snapshot(state), self._status(state))

    def to_svg(self, state: State) -> str:
        """The board as a picture."""
        return render.svg_picture(self.snapshot(state), self._status(state))

    def animate(self, states: Sequence[State], *, seconds_a_step: float = 0.25) -> str:
        """A game as one SVG document that plays in a browser."""
        shots = [self.snapshot(state) for state in states]
        statuses = [self._status(state) for state in states]
        return render.animation(shots, statuses, seconds_a_step=seconds_a_step)

    def _status(self, state: State) -> str:
        letters = [letter for letter, on in zip("ABCD", np.asarray(self.agents(state).alive)) if on]
        steps = int(state.steps)
        if not bool(self.is_over(state)):
            return f"step {steps}, alive: {' '.join(letters)}"
        winners = [letter for letter, on in zip("ABCD", np.asarray(self.winners(state))) if on]
        if winners:
            verb = "has won" if len(winners) == 1 else "have won"
            return f"{' and '.join(winners)} {verb} at step {steps}"
        return f"tie at step {steps}, alive: {' '.join(letters) or 'nobody'}"
