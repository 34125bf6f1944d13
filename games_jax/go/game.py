"""Go on any board from 2 x 2 to 19 x 19: the game that the registry makes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, diagram
from games_jax.bits import Board
from games_jax.game import Symmetries
from games_jax.go import board as go
from games_jax.go import notation, playout, positions, render, rules, superko
from games_jax.go.rules import State
from games_jax.go.superko import AnyState, SuperkoState, position_of
from games_jax.symmetries import dihedral

_KO_RULES = ("simple", "superko")
_DEFAULTS = {"size": 9, "komi": 7.5, "ko": "simple", "suicide": False}


@dataclasses.dataclass(frozen=True)
class Go:
    """Go with area scoring. An action is a point, row by row from the top, or the last action: pass.

    Black (X, player 0) moves first. A group without liberties comes off, the opponent's first. Two passes
    running end the game, and so does ply `max_steps`; then each side has its stones and the empty points
    from which empty points lead to its stones alone, White komi more (Tromp-Taylor: no stone is taken off
    as dead).

    Attributes:
        size: points on a side, 2 to 19.
        komi: White's extra points, in halves; a whole number allows draws.
        ko: `"simple"`: a single stone that took a single stone, and has that one liberty, may not be taken at
            once. `"superko"`: no move may bring back any earlier board (positional superko).
        suicide: whether a move may take the player's own group of two stones or more off the board. A
            single stone never may: it would leave the board as it was.
        max_steps: plies after which the game ends and is scored as it stands; 0 stands for `2 * size ** 2`.

    Raises:
        ValueError: a value outside these.

    Example:
        >>> game = Go(size=5, komi=0.5)
        >>> print(game.render(game.from_string("C3 C4 B4 D3")))
          A B C D E
        5 . . . . . 5
        4 . X O . . 4
        3 . . X O . 3
        2 . . . . . 2
        1 . . . . . 1
          A B C D E
        X to move (X 2, O 2.5)

    Reference: https://tromp.github.io/go.html (rules), https://www.lysator.liu.se/~gunnar/gtp/ (vertices)
    """

    size: int = 9
    komi: float = 7.5
    ko: str = "simple"
    suicide: bool = False
    max_steps: int = 0

    version = 1
    num_players = 2
    has_chance = False

    def __post_init__(self):
        if type(self.size) is not int or not 2 <= self.size <= 19:
            raise ValueError(f"go has no size {self.size!r}; give a whole number from 2 to 19.")
        if isinstance(self.komi, bool) or not isinstance(self.komi, int | float) or 2 * self.komi % 1:
            raise ValueError(f"go has no komi {self.komi!r}; give a number of halves, such as 7.5 or 6.")
        if self.ko not in _KO_RULES:
            raise ValueError(f"go has no ko rule {self.ko!r}; give 'simple' or 'superko'.")
        if type(self.suicide) is not bool:
            raise ValueError(f"suicide is {self.suicide!r}; give True or False.")
        if type(self.max_steps) is not int or not 0 <= self.max_steps <= rules.MAX_PLIES:
            raise ValueError(
                f"max_steps is {self.max_steps!r}; give 1 to {rules.MAX_PLIES}, or 0 for 2 * size ** 2."
            )
        object.__setattr__(self, "komi", float(self.komi))
        object.__setattr__(self, "max_steps", self.max_steps or 2 * self.size**2)

    @property
    def name(self) -> str:
        """The registry name with what differs from the defaults."""
        given = {option: getattr(self, option) for option, value in _DEFAULTS.items()}
        options = [f"{option}={value!r}" for option, value in given.items() if value != _DEFAULTS[option]]
        if self.max_steps != 2 * self.size**2:
            options.append(f"max_steps={self.max_steps}")
        return f"go({', '.join(options)})" if options else "go"

    @property
    def num_actions(self) -> int:
        """The points, and pass."""
        return self.size**2 + 1

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(size, size, 3)`."""
        return (self.size, self.size, 3)

    @property
    def _form(self) -> go.Layout:
        return go.layout(self.size)

    # Rules

    def init(self, key: jax.Array) -> AnyState:
        """The empty board, Black to move; `key` is not used."""
        del key
        empty = bits.zeros(self._form.words)
        position = State(empty, empty, jnp.zeros((), jnp.uint32))
        return position if self.ko == "simple" else superko.begin(position, self.max_steps)

    def step(self, state: AnyState, action: jax.Array) -> AnyState:
        """Places a stone on point `action` (int32 `[]`) and takes off what it captures, or passes."""
        position = rules.step(
            position_of(state), action, self._form, suicide=self.suicide, max_steps=self.max_steps
        )
        if isinstance(state, SuperkoState):
            return superko.remember(position, state.history)
        return position

    def legal_actions(self, state: AnyState) -> jax.Array:
        """Bool `[size * size + 1]`; pass (the last) always, none once the game is over."""
        (legal,) = bits.compute_once(self._legal_points(state))
        return self._mask(legal, ~self.is_over(state))

    def observe(self, state: AnyState, player: jax.Array) -> jax.Array:
        """Bool `[size, size, 3]`, top row first: `player`'s stones, the other's, where the mover may play."""
        mine = self.current_player(state) == player
        position = position_of(state)
        own = bits.where(mine, position.own, position.other)
        other = bits.where(mine, position.other, position.own)
        boards = bits.compute_once(own, other, self._legal_points(state))
        shape = self.size, self.size
        return bits.planes(boards, self._form.positions.reshape(shape), width=self._form.width)

    def current_player(self, state: AnyState) -> jax.Array:
        """Int32 `[]`: 0 is Black."""
        return ((position_of(state).flags & rules.WHITE) != 0).astype(jnp.int32)

    def rewards(self, state: AnyState) -> jax.Array:
        """Float32 `[2]`: +1 to the side with more points and -1 to the other at the end, else zeros."""
        over = self.is_over(state)
        own, other, flags = position_of(state)
        # While a game runs its board is taken for empty, so that nothing is filled for it.
        nothing = bits.zeros(self._form.words)
        ended = State(bits.where(over, own, nothing), bits.where(over, other, nothing), flags)
        return jnp.where(over, self._rewards_of(rules.black_margin(ended, self._form)), np.float32(0))

    def is_over(self, state: AnyState) -> jax.Array:
        """Bool `[]`: two passes running, or `max_steps` plies."""
        return rules.is_over(position_of(state), self.max_steps)

    def score(self, state: AnyState) -> jax.Array:
        """Float32 `[]`: Black's area minus White's and komi, of any position as it stands."""
        margin = rules.black_margin(position_of(state), self._form)
        return margin.astype(jnp.float32) - np.float32(self.komi)

    def _legal_points(self, state: AnyState) -> Board:
        if isinstance(state, SuperkoState):
            legal = superko.legal_points(state, self._form, suicide=self.suicide)
        else:
            legal = rules.legal_points(state, self._form, suicide=self.suicide)
        return bits.where(self.is_over(state), bits.zeros(self._form.words), legal)

    def _mask(self, points: Board, may_pass: jax.Array) -> jax.Array:
        # One elementwise expression: a concatenation of points and pass would be a slower loop of its own.
        is_pass = np.arange(self.num_actions) == self.size**2
        cells = bits.unpack(points, np.append(self._form.positions, 0), width=self._form.width)
        return jnp.where(is_pass, may_pass, cells)

    def _rewards_of(self, margin: jax.Array) -> jax.Array:
        black = jnp.sign(2 * margin - np.int32(2 * self.komi))
        return jnp.stack([black, -black]).astype(jnp.float32)

    # Playouts

    def playout_actions(self, state: AnyState) -> jax.Array:
        """Bool `[size * size + 1]`: legal moves that fill no eye of the mover; pass where there is no other.

        An eye is an empty point all of whose neighbours are stones of the mover.
        """
        position = position_of(state)
        keeps_eyes = playout.candidates(position.own, position.other, self._form)
        (points,) = bits.compute_once(bits.both(self._legal_points(state), keeps_eyes))
        return self._mask(points, ~bits.is_any(points) & ~self.is_over(state))

    def playout_step(self, state: AnyState, key: jax.Array) -> State:
        """The state after one move drawn uniformly from `playout_actions`, by the simple ko rule.

        One random empty point is tried after another, and each alone is tested.
        """
        position = position_of(state)
        game = playout.start(position, key, self._form)
        ply = rules.plies(position.flags) + np.uint32(1)
        game = playout.run(game, ply, self._form, suicide=self.suicide)
        over = self.is_over(state)
        after = State(game.own, game.other, game.flags)
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), position, after)

    def playout(self, state: AnyState, key: jax.Array, *, max_plies: int | None = None) -> jax.Array:
        """Plays a random game to its end and scores it.

        Moves are drawn uniformly from `playout_actions`, by the simple ko rule whatever `ko` says, until
        two passes running or for `max_plies`; `max_steps` is not looked at. A game that is over is scored
        as it is.

        Args:
            state: where to start.
            key: of the random moves.
            max_plies: plies after which the game is scored as it stands. Default: `3 * size ** 2`.

        Returns:
            Float32 `[2]`: the rewards.
        """
        game, plies = self._playout(state, key, max_plies)
        return self._playout_rewards(playout.run(game, plies, self._form, suicide=self.suicide))

    def playouts(self, states: AnyState, keys: jax.Array, *, max_plies: int | None = None) -> jax.Array:
        """`playout` of a whole batch, several times as fast as `vmap(playout)`.

        Games that are over make room: the last ones do not hold up the batch at its full width.

        Args:
            states: `[B]`, where to start.
            keys: `[B]`, of the random moves.
            max_plies: as in `playout`.

        Returns:
            Float32 `[B, 2]`: the rewards, equal to those of `vmap(playout)`.
        """
        start = functools.partial(self._playout, max_plies=max_plies)
        games, plies = jax.vmap(start)(states, keys)
        games = playout.run_batch(games, plies, self._form, suicide=self.suicide)
        return jax.vmap(self._playout_rewards)(games)

    def _playout(
        self, state: AnyState, key: jax.Array, max_plies: int | None
    ) -> tuple[playout.Playout, jax.Array]:
        """A random game at its start, and the ply at which it ends at the latest."""
        position = position_of(state)
        limit = np.uint32(3 * self.size**2 if max_plies is None else max_plies)
        plies = jnp.where(self.is_over(state), np.uint32(0), rules.plies(position.flags) + limit)
        return playout.start(position, key, self._form), plies

    def _playout_rewards(self, game: playout.Playout) -> jax.Array:
        return self._rewards_of(rules.black_margin(State(game.own, game.other, game.flags), self._form))

    # Symmetries

    @functools.cached_property
    def symmetries(self) -> Symmetries | None:
        """The eight rotations and reflections; None with superko, whose history holds hashes of boards."""
        return dihedral(self.size, extra_actions=1) if self.ko == "simple" else None

    def transform(self, state: State, k: jax.Array) -> State:
        """The state seen through symmetry `k` (int32 `[]`)."""
        form = self._form
        source = jnp.asarray(dihedral(self.size).cells)[k]
        move = functools.partial(bits.permute, source=source, positions=form.positions, width=form.width)
        ko = rules.index_of(move(rules.ko_point(state, form)), form) + np.uint32(1)
        kept = state.flags & ~rules.KO
        flags = jnp.where((state.flags & rules.KO) != 0, kept | ko, kept)
        return State(move(state.own), move(state.other), flags)

    # Notation

    def action_to_string(self, action: int) -> str:
        """The point's GTP vertex, "A1" at the bottom left and no column I, or "pass"."""
        return notation.to_gtp(int(action), self.size)

    def action_from_string(self, text: str) -> int:
        """The action of a GTP vertex or of "pass"; ValueError for anything else."""
        return notation.from_gtp(text, self.size)

    def from_string(self, text: str) -> AnyState:
        """The state after a list of moves ("D4 pass C3"), of a diagram, or at the end of an SGF text's main
        line.

        Args:
            text: GTP vertices; or rows of `.XO` from the top separated by `/` or newlines, then the side to
                move, and if need be `ko=D4`, `passes=1`, `ply=17` as `to_string` writes them; or SGF.

        Raises:
            ValueError: an unreadable or illegal move, a move after the end, a malformed board, a group
                without liberties, or SGF of another size or komi.
        """
        return positions.read(self, text)

    def to_string(self, state: AnyState) -> str:
        """The diagram on one line that `from_string` reads back, with the ko, passes and plies."""
        return positions.write(self, state)

    def setup(self, black: Sequence[int], white: Sequence[int], *, player: int = 0) -> AnyState:
        """A position from scratch, without a past.

        Args:
            black: actions of the points with Black's stones.
            white: the same of White's.
            player: who moves, 0 Black or 1 White.

        Raises:
            ValueError: a point off the board or taken twice, no such player, or a group without liberties.
        """
        return positions.from_stones(self, black, white, player)

    @staticmethod
    def from_sgf(text: str, **options: object) -> tuple[Go, AnyState]:
        """The game that an SGF text says, and the state at the end of its main line.

        Args:
            text: SGF.
            **options: parameters of the game that the text leaves open: `ko`, `suicide`, `max_steps`, and
                `komi` if it has none.

        Raises:
            ValueError: as `from_string`.

        Example:
            >>> game, state = Go.from_sgf("(;SZ[5]KM[0.5];B[cc];W[])")
            >>> game.name, game.to_string(state)
            ('go(size=5, komi=0.5)', '...../...../..X../...../..... X passes=1 ply=2')
        """
        record = notation.read_sgf(text)
        if record.komi is not None:
            options = {**options, "komi": record.komi}
        game = Go(size=record.size, **options)  # type: ignore[arg-type]
        return game, game.from_string(text)

    # Pictures

    def render(self, state: AnyState) -> str:
        """The board as text, with each side's points as the board stands."""
        labels = [str(self.size - row) for row in range(self.size)]
        rows = diagram.cell_rows(*positions.stones(self, state))
        return diagram.layout(rows, notation.columns(self.size), labels, positions.status(self, state))

    def to_svg(self, state: AnyState) -> str:
        """The board as a picture; a small square marks the point of a ko."""
        ko = positions.ko_point(self, state)
        return render.picture(*positions.stones(self, state), ko, positions.status(self, state))
