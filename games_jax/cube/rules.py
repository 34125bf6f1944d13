"""The cubes as games: start, step, reward and end, what the player sees, and notation."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.bits import Board
from games_jax.cube import geometry, notation, observe, planes, render, scrambles

_METRICS = {"htm": (1, 2, 3), "qtm": (1, 3)}
_COUNT = 20  # the moves made are counted above the cubies, which fill 20 bits of the word `ox`
_MOST_STEPS = (1 << 12) - 1
_BYTE = 8


class State(NamedTuple):
    """8 bytes for the 2x2x2, 20 bytes for the 3x3x3.

    Attributes:
        words: uint32 words: the five planes of `games_jax.cube.planes` and the number of moves made, packed.
    """

    words: Board


@dataclasses.dataclass(frozen=True)
class Cube:
    """A Rubik's cube to solve: a game for one player, who is player 0 and has one reward a step.

    `Cube2` and `Cube3` are the two sizes. An action is a turn of a face: U, U2, U' and so on in the order of
    the faces U R F D L B (2x2x2: U R F, which leave the corner DBL in place, so that each position has one
    state). Every turn is legal. The game is over when the cube is solved or after `max_steps` moves.

    Attributes:
        metric: "htm", in which a half turn is one move, or "qtm", in which only quarter turns are moves.
        scramble: how games start. A number: so many random turns of the metric, never the same face twice
            running, drawn again if they leave the cube solved. A pair: a number of turns drawn uniformly from
            the first to the second. None: every unsolved position that turns can reach is equally likely.
        solved_reward: what the move that solves the cube earns.
        step_cost: what each move costs, the last one too.
        max_steps: moves after which a game is given up, at most 4,095.

    Raises:
        ValueError: a metric, scramble or number of steps of another kind.

    Example:
        >>> game = Cube2()
        >>> state = game.from_string("R U")
        >>> print(game.render(state))
            U U
            F F
        F D R R U B L L
        L L F D R R U B
            D B
            D B
        9 moves possible, 0 made
        >>> state = game.step(game.step(state, game.action_from_string("U'")), game.action_from_string("R'"))
        >>> bool(game.is_over(state)), game.rewards(state).tolist()
        (True, [1.0])

    Reference: https://www.worldcubeassociation.org/regulations/#article-12-notation
    """

    metric: str = "htm"
    scramble: int | tuple[int, int] | None = None
    solved_reward: float = 1.0
    step_cost: float = 0.0
    max_steps: int = 50

    size: ClassVar[int]
    version = 1
    num_players = 1
    has_chance = False

    def __post_init__(self):
        if self.metric not in _METRICS:
            raise ValueError(f"there is no metric {self.metric!r}; give 'htm' or 'qtm'.")
        if self.scramble is not None and not _are_depths(*self._depths):
            raise ValueError(
                f"scramble is {self.scramble!r}; give a number of turns from 1, a pair of them such as "
                f"(1, 9), or None for a uniformly random position."
            )
        if type(self.max_steps) is not int or not 1 <= self.max_steps <= _MOST_STEPS:
            raise ValueError(f"max_steps is {self.max_steps!r}; give a whole number from 1 to {_MOST_STEPS}.")

    @property
    def name(self) -> str:
        """The registry name with the parameters that are not the default."""
        fields = [field for field in dataclasses.fields(self) if getattr(self, field.name) != field.default]
        options = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields)
        return f"cube{self.size}({options})" if options else f"cube{self.size}"

    @property
    def num_actions(self) -> int:
        """9 and 18 in the half-turn metric, 6 and 12 in the quarter-turn metric."""
        return len(self.turns)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(6, size**2, 6)`: faces, their stickers row by row, colours."""
        return (6, self.size**2, 6)

    @property
    def turns(self) -> tuple[tuple[str, int], ...]:
        """For each action its face and the number of clockwise quarter turns, 1 to 3."""
        faces = geometry.FACES if self.size == 3 else geometry.FACES[:3]
        return tuple((face, count) for face in faces for count in _METRICS[self.metric])

    # Rules

    def init(self, key: jax.Array) -> State:
        """A scrambled cube; see `scramble`."""
        if self.scramble is None:
            draw = functools.partial(scrambles.uniform, edges=self.size == 3)
        else:
            count_key, key = jax.random.split(key)
            low, high = self._depths
            draw = functools.partial(
                scrambles.by_turns,
                start=self._solved,
                turns=self._turns,
                turns_a_face=len(_METRICS[self.metric]),
                count=jax.random.randint(count_key, (), low, high + 1),
            )
        cube = scrambles.unsolved(key, draw, self._solved)
        return self._pack(cube, jnp.zeros((), jnp.uint32))

    def solved(self) -> State:
        """The solved cube."""
        return self._pack(planes.to_device(self._solved), jnp.zeros((), jnp.uint32))

    def step(self, state: State, action: jax.Array) -> State:
        """Turns a face."""
        cube, count = self._unpack(state)
        over = self._is_over(cube, count)
        turned = self._turns.turn(cube, jnp.asarray(action, jnp.int32), over)
        made = jnp.where(over, count, count + np.uint32(1))
        return State(bits.compute_once(self._pack(turned, made).words)[0])

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[A]`: every turn, or none once the game is over."""
        return jnp.broadcast_to(~self.is_over(state), (self.num_actions,))

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `[6, size**2, 6]`: for each sticker, faces in the order U R F D L B, its colour one-hot.

        A colour has the number of the face that shows it on a solved cube.
        """
        del player
        return observe.stickers(self._unpack(state)[0], self.size)

    def cells(self, state: State) -> jax.Array:
        """The cube as small numbers, for n-tuple networks: the cubies' places, and how they are turned there.

        Returns:
            Int32 `[14]` for the 2x2x2: the places 0-6 of the seven moving corners, then which of the place's
            three facelets shows the corner's first sticker, 0-2. Int32 `[40]` for the 3x3x3: places 0-7 and
            facelets 0-2 of the eight corners, then places 0-11 and facelets 0-1 of the twelve edges. Places
            are in Kociemba's order, without DBL for the 2x2x2.

        Reference: the STICKER2 vectors of Scheiermann and Konen (2022), https://arxiv.org/abs/2204.13307.
        """
        cube, _ = self._unpack(state)
        places, facelets = _look_up(planes.to_codes(cube, self._corners), geometry.CORNERS)
        if self.size == 2:
            # Above the fixed corner the places move down by one.
            return jnp.concatenate([places - (places > geometry.FIXED), facelets])
        edges = _look_up(planes.to_codes(cube, _EDGE_CUBIES), geometry.EDGES)
        return jnp.concatenate([places, facelets, *edges])

    @property
    def cell_values(self) -> tuple[int, ...]:
        """How many values each of the `cells` can have."""
        return (7,) * 7 + (3,) * 7 if self.size == 2 else (8,) * 8 + (3,) * 8 + (12,) * 12 + (2,) * 12

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0."""
        del state
        return jnp.zeros((), jnp.int32)

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[1]`: `solved_reward` for the move that solved the cube, less `step_cost` for any move."""
        cube, count = self._unpack(state)
        won = jnp.where(self._is_solved(cube), np.float32(self.solved_reward), np.float32(0))
        return jnp.where(count > 0, won - np.float32(self.step_cost), np.float32(0))[None]

    def is_solved(self, state: State) -> jax.Array:
        """Bool `[]`."""
        return self._is_solved(self._unpack(state)[0])

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`: solved, or `max_steps` moves made."""
        return self._is_over(*self._unpack(state))

    @property
    def _depths(self) -> tuple[Any, ...]:
        return self.scramble if isinstance(self.scramble, tuple) else (self.scramble, self.scramble)

    @property
    def _turns(self) -> planes.Turns:
        return planes.Turns(self.turns)

    @property
    def _solved(self) -> planes.Planes:
        return planes.solved(self.size == 3)

    @property
    def _corners(self) -> np.ndarray:
        corners = np.arange(planes.NUM_CORNERS)
        return corners[corners != geometry.FIXED] if self.size == 2 else corners

    def _is_solved(self, cube: planes.Planes) -> jax.Array:
        return bits.equal(tuple(cube), tuple(self._solved))

    def _is_over(self, cube: planes.Planes, count: jax.Array) -> jax.Array:
        return self._is_solved(cube) | (count >= self.max_steps)

    def _pack(self, cube: planes.Planes, count: jax.Array) -> State:
        if self.size == 3:
            return State((cube.x, cube.y, cube.z, cube.ox | count << _COUNT, cube.oy))
        first = cube.x | cube.y << _BYTE | cube.z << 2 * _BYTE | cube.ox << 3 * _BYTE
        return State((first, cube.oy | count << _BYTE))

    def _unpack(self, state: State) -> tuple[planes.Planes, jax.Array]:
        if self.size == 3:
            x, y, z, ox, oy = state.words
            return planes.Planes(x, y, z, ox & planes.CUBIES, oy), ox >> _COUNT
        first, second = state.words
        byte = np.uint32((1 << _BYTE) - 1)
        x, y, z, ox = (first >> shift & byte for shift in (0, _BYTE, 2 * _BYTE, 3 * _BYTE))
        return planes.Planes(x, y, z, ox, second & byte), second >> _BYTE

    # Notation

    def action_to_string(self, action: int) -> str:
        """The turn, such as R, R2 or R'."""
        return notation.turn_name(*self.turns[int(action)])

    def action_from_string(self, text: str) -> int:
        """The action of a turn; ValueError names the turns that there are."""
        return notation.parse_turn(text, self.turns)

    def from_string(self, text: str) -> State:
        """The cube after a scramble of the solved one ("R U R' U'", also with half turns), or from facelets.

        Args:
            text: turns separated by spaces; or the colours of all facelets, 24 or 54 of the letters U R F D L
                B, face by face in that order and row by row, and after them the moves made if there are any.

        Raises:
            ValueError: an unreadable turn, or facelets that no cube can show by turning its faces.
        """
        if not notation.is_facelets(text, self.size):
            cube = planes.to_device(self._solved)
            for turn in notation.parse_scramble(text, self.size):
                cube = planes.Turns([turn]).turn(cube, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
            return self._pack(cube, jnp.zeros((), jnp.uint32))
        codes, count = notation.parse_facelets(text, self.size)
        if count > self.max_steps:
            raise ValueError(f"{text!r} has {count} moves made; a game has at most {self.max_steps}.")
        return self._pack(planes.from_codes(jnp.asarray(codes, jnp.int32)), jnp.uint32(count))

    def to_string(self, state: State) -> str:
        """The facelets, and the number of moves made unless it is zero: what `from_string` reads back."""
        count = int(self._unpack(state)[1])
        return self._facelets(state) + (f" {count}" if count else "")

    # Pictures

    def _facelets(self, state: State) -> str:
        return render.facelets(np.asarray(self.observe(state, jnp.zeros((), jnp.int32))))

    def _status(self, state: State) -> str:
        count = int(self._unpack(state)[1])
        if bool(self.is_solved(state)):
            return f"solved after {count} moves" if count else "solved"
        if bool(self.is_over(state)):
            return f"given up after {count} moves"
        return f"{self.num_actions} moves possible, {count} made"

    def render(self, state: State) -> str:
        """The unfolded cube as text; each sticker is the letter of the face it belongs to."""
        return render.text(self._facelets(state), self.size, self._status(state))

    def to_svg(self, state: State) -> str:
        """The unfolded cube as a picture in the usual colours."""
        return render.svg_picture(self._facelets(state), self.size, self._status(state))


@dataclasses.dataclass(frozen=True)
class Cube2(Cube):
    """The 2x2x2 cube: 3,674,160 positions, at most 11 moves from solved (14 quarter turns). See `Cube`."""

    size: ClassVar[int] = 2


@dataclasses.dataclass(frozen=True)
class Cube3(Cube):
    """The 3x3x3 cube: 4.3e19 positions, at most 20 moves from solved (26 quarter turns). See `Cube`."""

    size: ClassVar[int] = 3


def _are_depths(*depths: Any) -> bool:
    whole = len(depths) == 2 and all(type(depth) is int and depth >= 1 for depth in depths)
    return whole and depths[0] <= depths[1]


_EDGE_CUBIES = np.arange(planes.NUM_CORNERS, planes.NUM_CORNERS + len(geometry.EDGES))


def _look_up(codes: jax.Array, names: tuple[str, ...]) -> tuple[jax.Array, jax.Array]:
    tables = geometry.kind(names)
    return jnp.asarray(tables.place)[codes], jnp.asarray(tables.facelet)[codes]
