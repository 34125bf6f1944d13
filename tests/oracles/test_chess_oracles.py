"""Our chess ply by ply against python-chess and OpenSpiel, and its perft against python-chess's."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games_jax
from games_jax.chess import Chess, actions, perft, rules

chess = pytest.importorskip("chess")

GAME = Chess(max_plies=400)
BATCH = 32
GAMES = pytest.param(12), pytest.param(2016, marks=pytest.mark.slow)


@functools.cache
def record(seed):
    """`BATCH` random games: actions `[T, B]`, and `[T + 1, B]` of legal actions in bits and states."""

    def facts(states):
        legal = jax.vmap(GAME.legal_actions)(states)
        return jnp.packbits(legal, axis=-1), states._replace(seen=()), jax.vmap(GAME.rewards)(states)

    def ply(states, draw):  # the facts come before the move, so that they are compiled once
        played = jax.vmap(GAME.random_action)(states, draw)
        return jax.vmap(GAME.step)(states, played), (played, facts(states))

    @jax.jit
    def run(key):
        start = jax.vmap(GAME.init)(jax.random.split(key, BATCH))
        draws = jax.random.bits(key, (GAME.max_plies + 1, BATCH), jnp.uint32)
        return jax.lax.scan(ply, start, draws)[1]

    played, (legal, states, rewards) = jax.device_get(run(jax.random.key(seed)))
    return played[:-1], np.unpackbits(legal, axis=-1), states, rewards


def boards_of(states, player):
    """Each side's pieces and the six kinds as python-chess's bit boards, `[T, B]` uint64."""

    def board(words):
        whole = words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)
        # White's view has a8 as bit 0 where python-chess has a1; Black's has a1 too.
        return np.where(player == 0, whole.byteswap(), whole)

    own = board(states.pieces.own)
    occupied = board(states.pieces.occupied)
    white = np.where(player == 0, own, occupied & ~own)
    return [white, occupied & ~white, *(board(kind) for kind in states.pieces.kinds())]


@functools.cache
def action_table(player):
    table = {}
    for action in range(actions.NUM_ACTIONS):
        origin, target, promotion = actions.take_apart(action)
        if target >= 0:
            squares = [square ^ 56 if player == 0 else square for square in (origin, target)]
            piece = {"N": chess.KNIGHT, "B": chess.BISHOP, "R": chess.ROOK, "": None}[promotion]
            table[(*squares, piece)] = action
    return table


def action_of(move, player):
    piece = None if move.promotion == chess.QUEEN else move.promotion
    return action_table(player)[move.from_square, move.to_square, piece]


def ending_of(board, times):
    if not any(board.generate_legal_moves()):
        return "checkmate" if board.is_check() else "stalemate"
    if board.is_insufficient_material():
        return "insufficient material"
    if board.halfmove_clock >= 100:
        return "move rule"
    if board.ply() >= GAME.max_plies:
        return "length"
    return "repetition" if times >= 3 else "running"


@pytest.mark.parametrize("games", GAMES)
def test_every_ply_of_random_games(games):
    endings = collections.Counter()
    for seed in range(-(-games // BATCH)):
        played, legal, states, rewards = record(seed)
        player = states.ply & 1
        boards = np.stack(boards_of(states, player), axis=-1).tolist()
        rights, passed = rules.rights(states.flags), np.asarray(rules.passed(states.flags))
        clock, codes = np.asarray(rules.clock(states.flags)), np.asarray(rules.ending(states.flags))
        for index in range(min(BATCH, games - seed * BATCH)):
            endings[compare(index, played, legal, boards, rights, passed, clock, codes, rewards)] += 1
    assert set(rules.ENDINGS[1:]) <= set(endings) or games < 500


def compare(index, played, legal, boards, rights, passed, clock, codes, rewards):
    board, seen = chess.Board(), collections.Counter()
    for ply in range(GAME.max_plies + 1):
        player = int(board.turn == chess.BLACK)
        where = (index, ply, board.fen())
        ours = boards[ply][index]
        kinds = [board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings]
        assert ours == [board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK], *kinds], where
        assert clock[ply, index] == board.halfmove_clock, where
        column = chess.square_file(board.ep_square) + 1 if board.has_legal_en_passant() else 0
        assert passed[ply, index] == column, where
        sides = (board.turn, not board.turn)
        has = (board.has_kingside_castling_rights, board.has_queenside_castling_rights)
        castling = [right(side) for side in sides for right in has]
        assert rights[ply, index] == sum(right << i for i, right in enumerate(castling)), where
        key = board._transposition_key()
        seen[key] += 1
        ending = ending_of(board, seen[key])
        assert rules.ENDINGS[codes[ply, index]] == ending, where
        found = np.flatnonzero(legal[ply, index]).tolist()
        if ending != "running":
            assert not found
            lost = 0 if board.turn == chess.WHITE else 1
            result = [0, 0] if ending != "checkmate" else [-1 if p == lost else 1 for p in (0, 1)]
            assert rewards[ply, index].tolist() == result, where
            return ending
        moves = {action_of(move, player): move for move in board.generate_legal_moves()}
        assert found == sorted(moves), where
        assert not rewards[ply, index].any()
        board.push(moves[int(played[ply, index])])
    raise AssertionError("the game did not end")


def random_positions(count, seed):
    rng = np.random.default_rng(seed)
    positions = []
    while len(positions) < count:
        board = chess.Board()
        for ply in range(int(rng.integers(20, 160))):
            moves = list(board.generate_legal_moves())
            if not moves:
                break
            board.push(moves[rng.integers(len(moves))])
            if ply % 7 == 6:
                positions.append(board.copy(stack=False))
    return positions[:count]


def their_perft(board, depth):
    if depth == 1:
        return board.legal_moves.count()
    total = 0
    for move in board.generate_legal_moves():
        board.push(move)
        total += their_perft(board, depth - 1)
        board.pop()
    return total


@pytest.mark.parametrize("positions", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_perft_of_random_positions(positions):
    game = Chess(repetition=0, max_plies=1000)
    for board in random_positions(positions, seed=7):
        if board.halfmove_clock < 100:
            assert perft(game.from_string(board.fen()), 2) == their_perft(board, 2), board.fen()


def test_san_fen_and_repetition_of_random_games():
    """Notation both ways, on a few games; python-chess's own count of repetitions."""
    played, *_ = record(0)
    game = GAME
    for index in range(3):
        board, state = chess.Board(), game.init(jax.random.key(0))
        for action in played[:60, index].tolist():
            move = board.parse_uci(game.move_to_string(state, action))
            san = board.san(move)
            assert game.san(state, action) == san
            assert game.move_from_string(state, san) == action
            board.push(move)
            state = games_jax.play(game, state, action)
            assert game.to_fen(state) == board.fen()
            assert (game.ending(state) == "repetition") == board.is_repetition(3)
            if bool(game.is_over(state)):
                break


@pytest.mark.parametrize("games", GAMES)
def test_open_spiel_sees_as_many_moves_and_the_same_end(games):
    """OpenSpiel draws by the same rules; where it counts repetitions otherwise, the rules page says so."""
    pyspiel = pytest.importorskip("pyspiel")
    spiel = pyspiel.load_game("chess")
    for seed in range(-(-games // BATCH)):
        played, legal, states, rewards = record(seed)
        codes = np.asarray(rules.ending(states.flags))
        counts = legal.sum(axis=-1)
        for index in range(BATCH):
            state, board = spiel.new_initial_state(), chess.Board()
            for ply in range(GAME.max_plies):
                ending = rules.ENDINGS[codes[ply, index]]
                if ending != "running":
                    assert (
                        state.is_terminal() and state.returns() == rewards[ply, index].tolist()[::-1]
                    )  # Black is player 0 there
                    break
                assert not state.is_terminal() and len(state.legal_actions()) == counts[ply, index]
                player = ply & 1
                origin, target, promotion = actions.take_apart(int(played[ply, index]))
                squares = [square ^ 56 if player == 0 else square for square in (origin, target)]
                move = chess.Move(*squares)
                if board.piece_type_at(squares[0]) == chess.PAWN and target < 8:
                    move.promotion = "_pnbrqk".index((promotion or "Q").lower())
                state.apply_action(state.parse_move_to_action(board.san(move)))
                board.push(move)
