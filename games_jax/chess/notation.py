"""Chess in text: FEN, moves in UCI and SAN, PGN. Runs on the host, one state at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np

from games_jax import bits
from games_jax.chess import actions, rules
from games_jax.chess.board import CODES, SQUARES, WORDS, Pieces
from games_jax.play import play

if TYPE_CHECKING:
    from games_jax.chess.chess import Chess

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
_LETTERS = "PNBRQK"
_EXAMPLE = f"such as {START!r}"


# Squares and boards. On the host a board is 64 letters from a8 to h1, White's in capitals, "." empty.


def square_name(square: int) -> str:
    """The name of a square of White's view."""
    return f"{chr(ord('a') + square % 8)}{8 - square // 8}"


def square_of(name: str) -> int:
    """The inverse of `square_name`."""
    return 8 * (8 - int(name[1])) + ord(name[0]) - ord("a")


def seen_by(square: int, player: int) -> int:
    """A square of White's view as a player sees it, and back."""
    return square ^ 56 if player else square


def letters_of(pieces: Pieces, player: int) -> str:
    """The board's letters; `player` is the mover, whose view the pieces are."""
    own, *codes = (bits.to_int(board) for board in pieces)
    board = []
    for square in range(SQUARES):
        here = seen_by(square, player)
        code = sum(((plane >> here) & 1) << i for i, plane in enumerate(codes))
        letter = _LETTERS[CODES.index(code)] if code else "."
        is_white = ((own >> here) & 1) == (player == 0)
        board.append(letter if is_white else letter.lower())
    return "".join(board)


def pieces_of(letters: str, player: int) -> Pieces:
    """The inverse of `letters_of`."""
    boards = [0, 0, 0, 0]
    for square, letter in enumerate(letters):
        if letter == ".":
            continue
        here = seen_by(square, player)
        code = CODES[_LETTERS.index(letter.upper())]
        boards[0] |= (letter.isupper() == (player == 0)) << here
        for i in range(3):
            boards[i + 1] |= ((code >> i) & 1) << here
    return Pieces(*(bits.from_int(board, words=WORDS) for board in boards))


def placement(letters: str) -> str:
    """The first field of a FEN."""
    rows = (letters[at : at + 8] for at in range(0, SQUARES, 8))
    return "/".join(re.sub(r"\.+", lambda gap: str(len(gap[0])), row) for row in rows)


def read_placement(text: str) -> str:
    """The letters of a FEN's first field; ValueError for anything else."""
    rows = text.split("/")
    if len(rows) != 8:
        raise ValueError(f"board {text!r} has {len(rows)} rows; expected 8 from the top, {_EXAMPLE}.")
    board = ""
    for number, row in zip(range(8, 0, -1), rows, strict=True):
        wrong = re.search(r"[^pnbrqkPNBRQK1-8]", row)
        if wrong:
            raise ValueError(f"rank {number} {row!r} holds {wrong[0]!r}; expected pnbrqk, PNBRQK or 1 to 8.")
        cells = re.sub(r"\d", lambda gap: "." * int(gap[0]), row)
        if len(cells) != 8:
            raise ValueError(f"rank {number} {row!r} has {len(cells)} squares; expected 8.")
        board += cells
    return board


# Positions


class Setup(NamedTuple):
    """A FEN taken apart.

    Attributes:
        letters: the board, 64 letters.
        player: 0 for White to move, 1 for Black.
        rights: the castling rights as the mover's state has them.
        passed: one more than the column of the square passed by a pawn, or 0.
        clock: plies since the last capture or pawn move.
        ply: plies since move 1.
    """

    letters: str
    player: int
    rights: int
    passed: int
    clock: int
    ply: int


def read_fen(text: str) -> Setup:
    """Reads a FEN of four to six fields; clocks left out are 0 and 1.

    Castling rights without king and rook in place are dropped, as is a square passed by no pawn.

    Raises:
        ValueError: a malformed field, or a board that no game can have: kings other than one a side, pawns on
            the first or last rank.
    """
    fields = text.split()
    if not 4 <= len(fields) <= 6:
        raise ValueError(f"FEN {text!r} has {len(fields)} fields; expected 4 to 6, {_EXAMPLE}.")
    board, side, castling, passed, quiet, number = fields + ["0", "1"][len(fields) - 4 :]
    letters = read_placement(board)
    for king, colour in (("K", "White"), ("k", "Black")):
        if letters.count(king) != 1:
            raise ValueError(f"board {board!r} has {letters.count(king)} kings for {colour}; expected one.")
    if set("pP") & set(letters[:8] + letters[-8:]):
        raise ValueError(f"board {board!r} has a pawn on rank 1 or 8; none can stand there.")
    if side not in ("w", "b"):
        raise ValueError(f"side to move is {side!r}; expected 'w' or 'b'.")
    if not re.fullmatch(r"-|[KQkq]{1,4}", castling):
        raise ValueError(f"castling rights are {castling!r}; expected letters of 'KQkq', or '-'.")
    if not re.fullmatch(r"-|[a-h][36]", passed):
        raise ValueError(f"en passant square is {passed!r}; expected one on rank 3 or 6, or '-'.")
    if not (quiet.isdecimal() and number.isdecimal() and int(number) < 1 << 15):
        raise ValueError(f"clock and move number are {quiet!r} and {number!r}; expected numbers.")
    player = "wb".index(side)
    rights = [_has_right(letters, castling, letter) for letter in "KQkq"]
    rights = rights[2:] + rights[:2] if player else rights
    return Setup(
        letters=letters,
        player=player,
        rights=sum(right << i for i, right in enumerate(rights)),
        passed=_passed(letters, player, passed),
        clock=int(quiet),
        ply=2 * (max(int(number), 1) - 1) + player,
    )


def _has_right(letters: str, castling: str, letter: str) -> bool:
    row = 56 if letter.isupper() else 0
    king, rook = ("K", "R") if letter.isupper() else ("k", "r")
    corner = row + (7 if letter in "Kk" else 0)
    return letter in castling and letters[row + 4] == king and letters[corner] == rook


def _passed(letters: str, player: int, name: str) -> int:
    if name == "-":
        return 0
    square = square_of(name)
    ahead = 8 if player == 0 else -8  # from the passed square to the pawn that went over it
    pawn = "p" if player == 0 else "P"
    fits = square // 8 == (2 if player == 0 else 5) and letters[square + ahead] == pawn
    free = fits and letters[square] == letters[square - ahead] == "."
    return square % 8 + 1 if free else 0


def to_fen(state: rules.State) -> str:
    """The FEN; the en passant square is shown where a pawn may legally be taken, and only there."""
    ply, flags = int(state.ply), state.flags
    player = ply & 1
    rights = [letter for i, letter in enumerate("KQkq") if int(flags) >> (i ^ (2 * player)) & 1]
    passed = int(rules.passed(flags))
    square = square_name(seen_by(16 + passed - 1, player)) if passed else "-"
    board = placement(letters_of(state.pieces, player))
    clock, number = int(rules.clock(flags)), ply // 2 + 1
    return f"{board} {'wb'[player]} {''.join(rights) or '-'} {square} {clock} {number}"


def to_string(state: rules.State) -> str:
    """The FEN and, where the state holds them, keys of positions seen and boards before, latest first."""
    text = to_fen(state)
    keys = earlier_keys(state)
    if keys:
        text += " seen " + " ".join(f"{high:08x}{low:08x}" for high, low in keys)
    boards = earlier_boards(state)
    if boards:
        text += " past " + " ".join(placement(letters) for letters in boards)
    return text


def earlier_keys(state: rules.State) -> list[tuple[int, int]]:
    """The keys of the positions since the last capture or pawn move, latest first, as far as known."""
    if isinstance(state.seen, tuple):
        return []
    seen, quiet = np.asarray(state.seen), int(rules.clock(state.flags))
    window = seen.shape[1]
    keys = []
    for age in range(1, min(quiet, window) + 1):
        high, low = (int(word) for word in seen[:, (quiet - age) % window])
        if not high | low:
            break
        keys.append((high, low))
    return keys


def seen_array(keys: list[tuple[int, int]], clock: int, window: int) -> np.ndarray:
    """The array of a state whose earlier keys, latest first, are these; older ones than fit are left out."""
    seen = np.zeros((2, window), np.uint32)
    for age, pair in enumerate(keys[: min(clock, window)], start=1):
        seen[:, (clock - age) % window] = pair
    return seen


def earlier_boards(state: rules.State) -> list[str]:
    """The letters of the boards before, latest first, as far as they are known."""
    if isinstance(state.past, tuple):
        return []
    boards, player = [], int(state.ply) & 1
    for age, words in enumerate(np.asarray(state.past), start=1):
        if words.any():
            pieces = Pieces(*((jnp.asarray(words[2 * i]), jnp.asarray(words[2 * i + 1])) for i in range(4)))
            boards.append(letters_of(pieces, (player + age) % 2))
    return boards


def past_array(boards: list[str], ply: int, length: int) -> np.ndarray:
    """The array of a state with these boards before it, latest first."""
    past = np.zeros((length, 8), np.uint32)
    for age, letters in enumerate(boards[:length], start=1):
        pieces = pieces_of(letters, (ply + age) % 2)
        past[age - 1] = [int(word) for board in pieces for word in board]
    return past


# Moves


def to_uci(action: int, player: int, letters: str) -> str:
    """The move in UCI: `e2e4`, `e7e8q`, `e1g1` for castling."""
    origin, target, promotion = actions.take_apart(action)
    start, end = seen_by(origin, player), seen_by(target, player)
    if target < 0:
        raise ValueError(f"action {actions.name(action)!r} leaves the board.")
    if letters[start] in "pP" and target < 8:
        promotion = promotion or "Q"
    return square_name(start) + square_name(end) + promotion.lower()


_UCI = re.compile(r"([a-h][1-8])([a-h][1-8])([qrbn])?")
_SAN = re.compile(r"([KQRBN])?([a-h])?([1-8])?[x:-]?([a-h][1-8])(?:=?\(?([QRBN])\)?)?")
_CASTLING = {"O-O": 6, "O-O-O": 2}


def find_move(text: str, legal: list[int], player: int, letters: str) -> int:
    """The legal action that a move in UCI or SAN or an action's name means.

    Raises:
        ValueError: the text is no move, or means no legal move, or more than one.
    """
    word = re.sub(r"(e\.p\.)?[+#!?]*$", "", text.strip())
    if re.match(r"[a-h][1-8]-[NESW]", word):
        return actions.from_name(word)
    uci = _UCI.fullmatch(word)
    if uci and uci[1] != uci[2]:
        origin, target = (seen_by(square_of(square), player) for square in uci.groups()[:2])
        return actions.encode(origin, target, (uci[3] or "").upper())
    word = word.replace("0", "O")
    if word in _CASTLING:
        meant = [a for a in legal if _is_castling(a, player, letters, _CASTLING[word])]
    else:
        san = _SAN.fullmatch(word)
        if san is None:
            raise ValueError(f"{text!r} is no move; write UCI such as 'g1f3' or SAN such as 'Nf3'.")
        meant = [a for a in legal if _fits(san, a, player, letters)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        options = ", ".join(to_uci(action, player, letters) for action in meant)
        raise ValueError(f"{text!r} may mean {options}; name the file or rank it comes from.")
    options = ", ".join(to_uci(action, player, letters) for action in legal) or "none"
    raise ValueError(f"move {text!r} is illegal here. Legal now: {options}.")


def _is_castling(action: int, player: int, letters: str, column: int) -> bool:
    origin, target, _ = actions.take_apart(action)
    is_king = letters[seen_by(origin, player)] in "kK"
    return is_king and abs(target - origin) == 2 and target % 8 == column


def _fits(san: re.Match[str], action: int, player: int, letters: str) -> bool:
    kind, column, row, square, promotion = san.groups()
    uci = to_uci(action, player, letters)
    piece = letters[square_of(uci)].upper()
    return (
        piece == (kind or "P")
        and uci[2:4] == square
        and column in (None, uci[0])
        and row in (None, uci[1])
        and (promotion or "").lower() == uci[4:]
        and not (piece == "K" and abs(ord(uci[0]) - ord(uci[2])) == 2)
    )


def to_san(action: int, legal: list[int], player: int, letters: str) -> str:
    """The move in SAN without the sign of check."""
    uci = to_uci(action, player, letters)
    start, end = square_of(uci), square_of(uci[2:])
    piece = letters[start].upper()
    if piece == "K" and abs(start - end) == 2:
        return "O-O" if end % 8 == 6 else "O-O-O"
    takes = letters[end] != "." or (piece == "P" and uci[0] != uci[2])
    promotion = f"={uci[4:].upper()}" if uci[4:] else ""
    if piece == "P":
        return (f"{uci[0]}x" if takes else "") + uci[2:4] + promotion
    rivals = [to_uci(other, player, letters) for other in legal if other != action]
    rivals = [r for r in rivals if r[2:4] == uci[2:4] and letters[square_of(r)].upper() == piece]
    origin = ""
    if rivals:
        if all(rival[0] != uci[0] for rival in rivals):
            origin = uci[0]
        else:
            origin = uci[1] if all(rival[1] != uci[1] for rival in rivals) else uci[:2]
    return piece + origin + ("x" if takes else "") + uci[2:4]


# Games

_RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
_TAG = re.compile(r'^\s*\[(\w+)\s+"((?:[^"\\]|\\.)*)"\]', re.MULTILINE)


def split_moves(text: str) -> list[str]:
    """The moves of a main line: without comments, side lines, move numbers, marks and the result.

    Raises:
        ValueError: brackets do not match.
    """
    text = re.sub(r"\{[^}]*\}|;[^\n]*|^%[^\n]*", " ", text, flags=re.MULTILINE)
    while True:
        text, found = re.subn(r"\([^()]*\)", " ", text)
        if not found:
            break
    stray = re.search(r"[(){}]", re.sub(r"=\([QRBN]\)", "", text))
    if stray:
        raise ValueError(f"{stray[0]!r} in the moves has no partner.")
    words = re.sub(r"\$\d+|\d+\.+", " ", text).split()
    return [word for word in words if word not in _RESULTS]


def read_tags(text: str) -> tuple[dict[str, str], str]:
    """The tags of a PGN's first game, and its moves."""
    tags = dict(_TAG.findall(text))
    rest = _TAG.sub("", text)
    return tags, rest


def write_pgn(game: Chess, moves: list[int], start: rules.State | None, tags: dict[str, str]) -> str:
    """See `Chess.to_pgn`."""
    state = game.from_string(START) if start is None else start
    headers = {"Event": "?", "Site": "?", "Date": "????.??.??", "Round": "?", "White": "?", "Black": "?"}
    fen = to_fen(state)
    words = []
    for move in moves:
        player, number = int(state.ply) & 1, int(state.ply) // 2 + 1
        if player == 0 or not words:
            words.append(f"{number}." if player == 0 else f"{number}...")
        words.append(game.san(state, move))
        state = play(game, state, move)
    result = result_of(game, state)
    headers |= {"Result": result}
    if fen != START:
        headers |= {"SetUp": "1", "FEN": fen}
    headers |= tags
    lines = [f'[{tag} "{value}"]' for tag, value in headers.items()] + [""]
    line = ""
    for word in [*words, headers["Result"]]:
        if line and len(line) + 1 + len(word) > 79:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return "\n".join([*lines, line]) + "\n"


def result_of(game: Chess, state: rules.State) -> str:
    """`1-0`, `0-1`, `1/2-1/2`, or `*` while the game runs."""
    if not bool(game.is_over(state)):
        return "*"
    return {1.0: "1-0", -1.0: "0-1", 0.0: "1/2-1/2"}[float(game.rewards(state)[0])]
