"""Go on any board from 2 x 2 to 19 x 19: the game that the registry makes."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits, diagram
from games_jax.bits import Board
from games_jax.game import Symmetries
from games_jax.go import board as go
from games_jax.go import notation, playout, render, rules, superko
from games_jax.go.rules import State
from games_jax.go.superko import SuperkoState
from games_jax.play import replay
from games_jax.symmetries import dihedral

AnyState = State | SuperkoState


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
        return self._with_history(State(empty, empty, jnp.zeros((), jnp.uint32)))

    def step(self, state: AnyState, action: jax.Array) -> AnyState:
        """Places a stone on point `action` (int32 `[]`) and takes off what it captures, or passes."""
        position = rules.step(
            _position(state), action, self._form, suicide=self.suicide, max_steps=self.max_steps
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
        position = _position(state)
        own = bits.where(mine, position.own, position.other)
        other = bits.where(mine, position.other, position.own)
        boards = bits.compute_once(own, other, self._legal_points(state))
        shape = self.size, self.size
        return bits.planes(boards, self._form.positions.reshape(shape), width=self._form.width)

    def current_player(self, state: AnyState) -> jax.Array:
        """Int32 `[]`: 0 is Black."""
        return ((_position(state).flags & rules.WHITE) != 0).astype(jnp.int32)

    def rewards(self, state: AnyState) -> jax.Array:
        """Float32 `[2]`: +1 to the side with more points and -1 to the other at the end, else zeros."""
        over = self.is_over(state)
        own, other, flags = _position(state)
        # While a game runs its board is taken for empty, so that nothing is filled for it.
        nothing = bits.zeros(self._form.words)
        ended = State(bits.where(over, own, nothing), bits.where(over, other, nothing), flags)
        return jnp.where(over, self._rewards_of(rules.black_margin(ended, self._form)), np.float32(0))

    def is_over(self, state: AnyState) -> jax.Array:
        """Bool `[]`: two passes running, or `max_steps` plies."""
        return rules.is_over(_position(state), self.max_steps)

    def score(self, state: AnyState) -> jax.Array:
        """Float32 `[]`: Black's area minus White's and komi, of any position as it stands."""
        margin = rules.black_margin(_position(state), self._form)
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

    def _with_history(self, position: State) -> AnyState:
        if self.ko == "simple":
            return position
        return superko.remember(position, jnp.zeros((self.max_steps + 1, 2), jnp.uint32))

    # Playouts

    def playout_actions(self, state: AnyState) -> jax.Array:
        """Bool `[size * size + 1]`: legal moves that fill no eye of the mover; pass where there is no other.

        An eye is an empty point all of whose neighbours are stones of the mover.
        """
        position = _position(state)
        keeps_eyes = playout.candidates(position.own, position.other, self._form)
        (points,) = bits.compute_once(bits.both(self._legal_points(state), keeps_eyes))
        return self._mask(points, ~bits.is_any(points) & ~self.is_over(state))

    def playout_step(self, state: AnyState, key: jax.Array) -> State:
        """The state after one move drawn uniformly from `playout_actions`, by the simple ko rule.

        One random empty point is tried after another, and each alone is tested.
        """
        position = _position(state)
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
        position = _position(state)
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
        if text.lstrip().startswith("("):
            return self._from_sgf(text)
        tokens = re.split(r"[/\s]+", text.strip())
        if all(re.fullmatch(r"[.xo]+|\w+=.*", token, re.IGNORECASE) for token in tokens):
            return self._from_diagram(text)
        try:
            return replay(self, text.split())
        except ValueError as error:
            raise ValueError(f"in {text!r}, {error}") from None

    def to_string(self, state: AnyState) -> str:
        """The diagram on one line that `from_string` reads back, with the ko, passes and plies."""
        position = _position(state)
        first, second, player = self._cells(state)
        flags = int(position.flags)
        text = diagram.dump(first, second, player)
        ko = flags & int(rules.KO)
        if ko:
            text += f" ko={self.action_to_string(self._form.positions.tolist().index(ko - 1))}"
        passes = bool(flags & int(rules.PASSED)) + bool(flags & int(rules.TWO_PASSES))
        text += f" passes={passes}" if passes else ""
        ply = int(rules.plies(position.flags))
        text += f" ply={ply}" if ply else ""
        if isinstance(state, SuperkoState) and ply:
            past = np.asarray(state.history)[:ply]
            text += " history=" + ",".join(f"{high:08x}{low:08x}" for high, low in past.tolist())
        return text

    def setup(self, black: Sequence[int], white: Sequence[int], *, player: int = 0) -> AnyState:
        """A position from scratch, without a past.

        Args:
            black: actions of the points with Black's stones.
            white: the same of White's.
            player: who moves, 0 Black or 1 White.

        Raises:
            ValueError: a point off the board or taken twice, no such player, or a group without liberties.
        """
        boards = np.zeros((2, self.size**2), bool)
        for stones, points in zip(boards, (black, white), strict=True):
            for point in points:
                if not 0 <= point < self.size**2:
                    raise ValueError(f"point {point} is off the board; give 0 to {self.size**2 - 1}.")
                if boards[:, point].any():
                    raise ValueError(f"point {self.action_to_string(point)} has two stones.")
                stones[point] = True
        if player not in (0, 1):
            raise ValueError(f"player is {player!r}; give 0 for Black or 1 for White.")
        return self._with_history(self._from_cells(boards[0], boards[1], player))

    def _from_cells(self, first: np.ndarray, second: np.ndarray, player: int, **flags: int) -> State:
        form = self._form
        pack = functools.partial(bits.pack, positions=form.positions, words=form.words, width=form.width)
        own, other = (pack(jnp.asarray((first, second)[who].ravel())) for who in (player, 1 - player))
        stones = bits.either(own, other)
        breathing = bits.both(stones, go.neighbours(bits.without(form.points, stones), form))
        (alive,) = go.fill([breathing], go.links(form, own, other), form)
        dead = np.asarray(bits.unpack(bits.without(stones, alive), form.positions, width=form.width))
        if dead.any():
            point = self.action_to_string(int(dead.argmax()))
            raise ValueError(f"the group at {point} has no liberty; it would have come off the board.")
        return State(own, other, jnp.asarray(rules.flags_of(player=player, **flags), jnp.uint32))

    def _from_diagram(self, text: str) -> AnyState:
        fields = dict(re.findall(r"(\w+)=(\S*)", text))
        first, second, player = diagram.parse(re.sub(r"\w+=\S*", " ", text), self.size, self.size)
        unknown = sorted(fields.keys() - {"ko", "passes", "ply", "history"})
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r} in {text!r}; known: ko, passes, ply, history.")
        numbers = {}
        for name, most in (("passes", 2), ("ply", self.max_steps)):
            value = fields.get(name, "0")
            if not value.isdecimal() or int(value) > most:
                raise ValueError(f"{name}={value} in {text!r}; expected a number from 0 to {most}.")
            numbers[name] = int(value)
        ko = self._ko_from(fields["ko"], first | second) if "ko" in fields else 0
        position = self._from_cells(first, second, player, ko=ko, **numbers)
        if self.ko == "simple":
            return position
        history = np.zeros((self.max_steps + 1, 2), np.uint32)
        if "history" in fields:
            past = fields["history"].split(",")
            if len(past) != numbers["ply"] or not all(re.fullmatch("[0-9a-f]{16}", word) for word in past):
                raise ValueError(
                    f"history in {text!r} is not one word of 16 hexadecimal digits for each ply."
                )
            history[: len(past)] = [[int(word[:8], 16), int(word[8:], 16)] for word in past]
        return superko.remember(position, jnp.asarray(history))

    def _ko_from(self, text: str, stones: np.ndarray) -> int:
        point = self.action_from_string(text)
        if point == self.size**2 or stones.ravel()[point]:
            raise ValueError(f"ko={text} is not an empty point.")
        return int(self._form.positions[point]) + 1

    def _from_sgf(self, text: str) -> AnyState:
        record = notation.read_sgf(text)
        komi = self.komi if record.komi is None else record.komi
        if (record.size, komi) != (self.size, self.komi):
            raise ValueError(
                f"the SGF text is of size {record.size} and komi {komi:g}, the game of size {self.size} "
                f"and komi {self.komi:g}; make the game of the text with Go.from_sgf."
            )
        player = record.moves[0][0] if record.player is None and record.moves else record.player or 0
        state = self.setup(record.black, record.white, player=player)
        for number, (mover, action) in enumerate(record.moves, start=1):
            if mover != int(self.current_player(state)):
                raise ValueError(f"move {number} of the SGF text is by the player who is not to move.")
            try:
                state = replay(self, [action], start=state)
            except ValueError as error:
                sentence = str(error).removeprefix("at move 1: ")
                raise ValueError(f"at move {number} of the SGF text: {sentence}") from None
        return state

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

    def _cells(self, state: AnyState) -> tuple[np.ndarray, np.ndarray, int]:
        position, form = _position(state), self._form
        boards = [
            np.asarray(bits.unpack(board, form.positions, width=form.width)).reshape(self.size, self.size)
            for board in (position.own, position.other)
        ]
        player = int(self.current_player(state))
        return boards[player], boards[1 - player], player

    def _status(self, state: AnyState) -> str:
        own, other = (int(bits.popcount(side)) for side in rules.area(*_position(state)[:2], self._form))
        player = int(self.current_player(state))
        black, white = (other, own + self.komi) if player else (own, other + self.komi)
        winner = None if black == white else int(white > black)
        status = diagram.status(over=bool(self.is_over(state)), player=player, winner=winner)
        return f"{status} (X {black:g}, O {white:g})"

    def render(self, state: AnyState) -> str:
        """The board as text, with each side's points as the board stands."""
        first, second, _ = self._cells(state)
        labels = [str(self.size - row) for row in range(self.size)]
        rows = diagram.cell_rows(first, second)
        return diagram.layout(rows, notation.columns(self.size), labels, self._status(state))

    def to_svg(self, state: AnyState) -> str:
        """The board as a picture; a small square marks the point of a ko."""
        first, second, _ = self._cells(state)
        ko = np.asarray(bits.unpack(rules.ko_point(_position(state), self._form), self._form.positions,
                                    width=self._form.width)).reshape(first.shape)  # fmt: skip
        return render.picture(first, second, ko, self._status(state))


def _position(state: AnyState) -> State:
    return state.position if isinstance(state, SuperkoState) else state
