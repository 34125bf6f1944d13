"""The game of chess as the contract wants it."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.chess import actions, notation, observe, render, rules
from games_jax.chess.board import unpack
from games_jax.chess.moves import Moves
from games_jax.chess.rules import State
from games_jax.play import legal_numbers, play

_VALUES = (1, 3, 3, 5, 9)


@jax.jit
def _in_check(position: rules.Position) -> jax.Array:
    return position.moves().in_check


@functools.partial(jax.jit, static_argnums=3)
def _settle(position: rules.Position, clock: jax.Array, ply: jax.Array, limits: rules.Limits) -> jax.Array:
    moves = position.moves()
    return rules.settle(position, moves, ~moves.any, clock, ply, limits)


def _moves(state: State) -> Moves:
    """The legal moves; none once the game is over."""
    # With no piece and no right of his own, the mover has no move.
    kept = jnp.where(rules.ending(state.flags) == rules.RUNNING, np.uint32(0xFFFFFFFF), np.uint32(0))
    position = rules.position_of(state)
    own = tuple(word & kept for word in position.pieces.own)
    position = position._replace(pieces=position.pieces._replace(own=own), rights=position.rights & kept)
    return position.moves()


@dataclasses.dataclass(frozen=True)
class Chess:
    """Chess by the rules of its federation, drawn by the rules that engines play to.

    Actions are AlphaZero's 4,672, from the mover's view: see `games_jax.chess.actions`. White is player 0. A
    game ends by mate, stalemate, insufficient material (bare kings, one knight or bishop more, or bishops on
    squares of one colour), and by itself, without a claim, by the rules that the parameters choose.

    A search that keeps a state for each of its nodes wants small states. `Chess(window=8)` has 104 bytes and
    still sees a threefold repetition that takes eight plies, the commonest; `Chess(repetition=0)` has 40 and
    sees none. `adopt` brings a state from one form to another.

    Attributes:
        repetition: how many times a position occurs before the game is drawn: 3, 5, or 0 for never.
        window: how many earlier positions a state remembers for that; None for as many as can matter.
        move_rule: moves of each side without capture or pawn move that make a draw: 50 or 75.
        max_plies: a game that has come so far is a draw, counted as FEN counts from move 1.
        history: positions in an observation, the present one first.

    Raises:
        ValueError: a value that is none of these.

    Example:
        >>> game = Chess()
        >>> state = game.from_string("1. f3 e5 2. g4 Qh4#")
        >>> print(game.render(state))
          a b c d e f g h
        8 r n b . k b n r 8
        7 p p p p . p p p 7
        6 . . . . . . . . 6
        5 . . . . p . . . 5
        4 . . . . . . P q 4
        3 . . . . . P . . 3
        2 P P P P P . . P 2
        1 R N B Q K B N R 1
          a b c d e f g h
        Black has won by checkmate

    Reference: https://handbook.fide.com/chapter/E012023
    """

    repetition: int = 3
    window: int | None = None
    move_rule: int = 50
    max_plies: int = 512
    history: int = 1

    version = 1
    num_players = 2
    num_actions = actions.NUM_ACTIONS
    has_chance = False

    def __post_init__(self):
        def refuse(field: str, expected: str):
            value = getattr(self, field)
            raise ValueError(f"chess has no {field} {value!r}; give {expected}.")

        if type(self.repetition) is not int or self.repetition not in (0, 3, 5):
            refuse("repetition", "3, 5, or 0 for no such rule")
        if type(self.move_rule) is not int or self.move_rule not in (50, 75):
            refuse("move_rule", "50 or 75")
        if self.window is not None:
            if type(self.window) is not int or not 1 <= self.window < 2 * self.move_rule - 1:
                refuse("window", f"1 to {2 * self.move_rule - 2} positions, or None for all")
            if not self.repetition:
                raise ValueError("a window without repetition has no use; leave it out.")
        if type(self.max_plies) is not int or not 1 <= self.max_plies < 1 << 16:
            refuse("max_plies", "1 to 65535")
        if type(self.history) is not int or not 1 <= self.history <= 16:
            refuse("history", "1 to 16 positions")

    @property
    def name(self) -> str:
        """The registry name with what differs from the defaults."""
        given = [
            f"{field.name}={getattr(self, field.name)}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"chess({', '.join(given)})" if given else "chess"

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """`(8, 8, 12 * history + 11)`."""
        return (8, 8, observe.num_planes(self.history))

    @property
    def max_steps(self) -> int:
        """`max_plies`."""
        return self.max_plies

    @property
    def _limits(self) -> rules.Limits:
        return rules.Limits(self.repetition, 2 * self.move_rule, self.max_plies)

    @property
    def _remembered(self) -> int:
        # Those at clock 0 and after; the last one ends the game by the move rule.
        return 2 * self.move_rule - 1 if self.window is None else self.window

    # Rules

    def init(self, key: jax.Array) -> State:
        """The array of pieces at the start, White to move; `key` is not used."""
        del key
        return self._state(notation.read_fen(notation.START), flags=0xF)

    def step(self, state: State, action: jax.Array) -> State:
        """Makes the move `action` (int32 `[]`)."""
        return rules.step(state, action, self._limits)

    def legal_actions(self, state: State) -> jax.Array:
        """Bool `[4672]`; none once the game is over. There is no bound on their number below that."""
        return unpack(_moves(state).kept_planes()).reshape(self.num_actions)

    def num_legal(self, state: State) -> jax.Array:
        """Int32 `[]`: how many legal actions there are."""
        ((total,),) = bits.compute_once((actions.count(_moves(state).planes),))
        return total.astype(jnp.int32)

    def nth_action(self, state: State, n: jax.Array) -> jax.Array:
        """Int32 `[]`: legal action number `n` (uint32 `[]`, below `num_legal`), way by way.

        The row of 4,672 is never made: this takes a fraction of the time of `legal_actions`. What it answers
        for a finished game means nothing.
        """
        return actions.nth(_moves(state).kept_planes(), n)

    def random_action(self, state: State, random: jax.Array) -> jax.Array:
        """Int32 `[]`: a legal action, each as likely as another to within 1 in 10 million; for playouts.

        Args:
            state: the state; what a finished one answers means nothing.
            random: uint32 `[]` of random bits.
        """
        planes = _moves(state).kept_planes()  # read twice; a third of the time of a random ply
        return actions.draw(planes, actions.count(planes), random)

    def playout(self, state: State, key: jax.Array) -> jax.Array:
        """Float32 `[2]`: the rewards at the end of one game played on uniformly at random."""

        def ply(carry: tuple[rules.Walk, jax.Array]) -> tuple[rules.Walk, jax.Array]:
            walk, number = carry
            random = jax.random.bits(jax.random.fold_in(key, number), (), jnp.uint32)
            return walk.on(random, self._limits), number + np.uint32(1)

        start = rules.Walk.begin(state), jnp.zeros((), jnp.uint32)
        end = jax.lax.while_loop(lambda carry: carry[0].ending == rules.RUNNING, ply, start)[0]
        return rules.rewards(end.ending, end.ply)

    def observe(self, state: State, player: jax.Array) -> jax.Array:
        """Bool `[8, 8, 12 * history + 11]`, the board with `player`'s own side at the bottom.

        For each position, the present one first: `player`'s pawns, knights, bishops, rooks, queens, king, and
        the other's. Then the square where a pawn may be taken in passing, and planes that are all true or all
        false: `player`'s right to castle short and long and the other's, whether `player` is Black, whether
        the position has occurred before, and whether a quarter, half, three quarters, seven eighths of the
        plies to a draw by the move rule are gone.
        """
        return observe.observe(state, player, self._limits)

    def current_player(self, state: State) -> jax.Array:
        """Int32 `[]`: 0 is White."""
        return (state.ply & np.uint32(1)).astype(jnp.int32)

    def rewards(self, state: State) -> jax.Array:
        """Float32 `[2]`: +1 to who gives mate and -1 to the other, else zeros."""
        return rules.rewards(rules.ending(state.flags), state.ply)

    def is_over(self, state: State) -> jax.Array:
        """Bool `[]`."""
        return rules.ending(state.flags) != rules.RUNNING

    # Facts beyond the contract

    def ending(self, state: State) -> str:
        """How one game stands: `"running"`, `"checkmate"`, `"stalemate"` ...; see `ENDINGS`."""
        return rules.ENDINGS[int(rules.ending(state.flags))]

    def in_check(self, state: State) -> jax.Array:
        """Bool `[]`: whether the mover's king is attacked."""
        return rules.position_of(state).moves().in_check

    def material(self, state: State) -> jax.Array:
        """Float32 `[]`: pawns 1, knights and bishops 3, rooks 5, queens 9; the mover's less the other's."""
        pieces = state.pieces
        total = jnp.zeros((), jnp.int32)
        for kind, value in zip(pieces.kinds(), _VALUES, strict=False):
            own, other = bits.both(kind, pieces.own), bits.without(kind, pieces.own)
            total = total + value * (bits.popcount(own) - bits.popcount(other))
        return total.astype(jnp.float32)

    def hash(self, state: State) -> jax.Array:
        """Uint32 `[2]`: equal for positions that repeat one another; the clocks do not enter."""
        return rules.key(state)

    def adopt(self, state: State) -> State:
        """One state of any chess game in this game's form, on the host.

        Positions remembered and observed are taken over as far as they are there and fit in. A finished game
        stays finished, whatever this game's rules.
        """
        keys, boards = notation.earlier_keys(state), notation.earlier_boards(state)
        return self._with_memory(state, keys, boards)

    # Notation

    def action_to_string(self, action: int) -> str:
        """The action's name in the mover's view, `e2-N2`, which needs no position; see `move_to_string`."""
        return actions.name(action)

    def action_from_string(self, text: str) -> int:
        """The inverse of `action_to_string`; ValueError for anything else."""
        return actions.from_name(text)

    def move_to_string(self, state: State, action: int) -> str:
        """The move in UCI: `e2e4`, `e7e8q`, `e1g1` for castling."""
        player = int(state.ply) & 1
        return notation.to_uci(action, player, notation.letters_of(state.pieces, player))

    def move_from_string(self, state: State, text: str) -> int:
        """The action of a move in UCI or SAN, or of an action's name.

        Raises:
            ValueError: the text is no move; or it is SAN and illegal, or may mean several moves.
        """
        player = int(state.ply) & 1
        letters = notation.letters_of(state.pieces, player)
        return notation.find_move(text, legal_numbers(self, state), player, letters)

    def san(self, state: State, action: int) -> str:
        """The move in SAN: `Nf3`, `exd8=Q+`, `O-O#`. The action must be legal."""
        player = int(state.ply) & 1
        letters = notation.letters_of(state.pieces, player)
        word = notation.to_san(int(action), legal_numbers(self, state), player, letters)
        after = play(self, state, int(action))
        if int(rules.ending(after.flags)) == rules.CHECKMATE:
            return word + "#"
        return word + ("+" if self._is_check(after) else "")

    def from_string(self, text: str) -> State:
        """The state of a FEN, of what `to_string` writes, or after moves from the start.

        Args:
            text: a FEN of four to six fields, which `moves` and moves may follow; or moves alone, in UCI or
                SAN, with or without numbers ("1. e4 e5 2. Nf3"); `startpos` before them may be written.

        Raises:
            ValueError: an unreadable or impossible position, an unreadable or illegal move, a move after the
                end.
        """
        setup, _, moves = text.strip().removeprefix("startpos").partition("moves ")
        if not re.match(r"\s*[^\s.]*/", setup):  # no rows
            setup, moves = "", setup + moves
        state = self._from_fen(setup) if setup else self.init(jax.random.key(0))
        for number, move in enumerate(notation.split_moves(moves), start=1):
            try:
                state = play(self, state, move)
            except ValueError as error:
                raise ValueError(f"at move {number} of {text!r}: {error}") from None
        return state

    def to_fen(self, state: State) -> str:
        """The FEN, with an en passant square only where a pawn may legally be taken."""
        return notation.to_fen(state)

    def to_string(self, state: State) -> str:
        """The FEN and what the state remembers besides, so that `from_string` gives the same state."""
        return notation.to_string(state)

    def to_pgn(
        self,
        moves: Sequence[int],
        *,
        start: State | None = None,
        tags: dict[str, str] | None = None,
    ) -> str:
        """A game as PGN.

        Args:
            moves: the actions.
            start: where they begin; the array of pieces at the start if not given.
            tags: such as `{"White": "me"}`, beside and before those that are written anyway.
        """
        return notation.write_pgn(self, list(moves), start, tags or {})

    def from_pgn(self, text: str) -> tuple[State, list[int]]:
        """The start and the actions of the main line of a PGN with one game; comments and side lines go.

        Raises:
            ValueError: an unreadable position, an unreadable or illegal move.
        """
        tags, rest = notation.read_tags(text)
        start = state = self._from_fen(tags["FEN"]) if "FEN" in tags else self.init(jax.random.key(0))
        played = []
        for number, move in enumerate(notation.split_moves(rest), start=1):
            try:
                played.append(self.move_from_string(state, move))
                state = play(self, state, played[-1])
            except ValueError as error:
                raise ValueError(f"at ply {number} of the game: {error}") from None
        return start, played

    def _from_fen(self, text: str) -> State:
        fen, _, past = text.partition(" past ")
        fen, _, seen = fen.partition(" seen ")
        setup = notation.read_fen(fen)
        if setup.ply > self.max_plies:
            raise ValueError(f"FEN {fen!r} is at ply {setup.ply}; {self.name} ends at {self.max_plies}.")
        if setup.clock > 2 * self.move_rule:
            raise ValueError(f"FEN {fen!r} has clock {setup.clock}; the move rule ends a game before that.")
        state = self._state(setup, flags=0)
        if bool(_in_check(rules.Position(state.pieces.turned(), jnp.uint32(0), jnp.uint32(0)))):
            raise ValueError(f"FEN {fen!r} has a king in check whose side is not to move.")
        if not all(re.fullmatch(r"[0-9a-f]{16}", word) for word in seen.split()):
            raise ValueError(f"keys {seen!r} are not what to_string writes: words of 16 hexadecimal digits.")
        keys = [(int(word[:8], 16), int(word[8:], 16)) for word in seen.split()]
        boards = [notation.read_placement(word) for word in past.split()]
        position = rules.Position(state.pieces, jnp.uint32(setup.rights), jnp.uint32(setup.passed))
        flags = _settle(position, jnp.uint32(setup.clock), state.ply, self._limits)
        state = self._with_memory(state._replace(flags=flags), keys, boards)
        times = 1 + keys.count(tuple(rules.key(state).tolist()))
        if self.repetition and times >= self.repetition and not bool(self.is_over(state)):
            state = state._replace(flags=rules.with_ending(flags, rules.REPETITION))
        return state

    def _state(self, setup: notation.Setup, flags: int) -> State:
        return State(
            pieces=notation.pieces_of(setup.letters, setup.player),
            flags=jnp.asarray(np.uint32(flags)),
            ply=jnp.asarray(np.uint32(setup.ply)),
            seen=jnp.zeros((2, self._remembered), jnp.uint32) if self.repetition else (),
            past=jnp.zeros((self.history - 1, 8), jnp.uint32) if self.history > 1 else (),
        )

    def _with_memory(self, state: State, keys: list[tuple[int, int]], boards: list[str]) -> State:
        quiet = int(rules.clock(state.flags))
        seen = jnp.asarray(notation.seen_array(keys, quiet, self._remembered)) if self.repetition else ()
        past = jnp.asarray(notation.past_array(boards, int(state.ply), self.history - 1))
        return state._replace(seen=seen, past=past if self.history > 1 else ())

    def _is_check(self, state: State) -> bool:
        return bool(_in_check(rules.position_of(state)))

    # Pictures

    def render(self, state: State) -> str:
        """The board as text: White's pieces in capitals."""
        return render.text(state, self._is_check(state))

    def to_svg(self, state: State) -> str:
        """The board as a picture, White below; a king in check stands on red."""
        return render.picture(state, self._is_check(state))
