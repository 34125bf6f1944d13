"""The yardstick of the trap benchmark: alpha-beta, and the traps as moves of our own chess."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

rules = pytest.importorskip("chess")

PATH = Path(__file__).parents[2] / "scripts" / "bench_traps.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("bench_traps", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look there
    spec.loader.exec_module(module)
    return module


def choose(script, fen, nodes, seed=0):
    board = rules.Board(fen)
    move = script.AlphaBeta(nodes, np.random.default_rng(seed)).choose(board)
    assert board.fen() == fen  # as it was, also when the nodes ran out in the middle
    return board.san(move)


@pytest.mark.parametrize("seed", range(3))
def test_alpha_beta_mates_in_one(script, seed):
    assert choose(script, "6k1/5ppp/8/8/8/8/8/3R2K1 w - - 0 1", 200, seed) == "Rd8#"


def test_alpha_beta_takes_the_bait_at_one_ply_and_not_at_two(script):
    trap = "4r1k1/3n1ppp/8/8/8/8/5PPP/3Q2K1 w - - 0 1"
    moves = len(list(rules.Board(trap).legal_moves))
    assert choose(script, trap, moves) == "Qxd7"
    assert choose(script, trap, 2000) != "Qxd7"


@pytest.mark.parametrize("nodes", [1, 7, 500])
def test_alpha_beta_enters_no_more_nodes_than_it_may(script, nodes, monkeypatch):
    entered = []
    push = rules.Board.push
    monkeypatch.setattr(rules.Board, "push", lambda board, move: (entered.append(move), push(board, move)))
    search = script.AlphaBeta(nodes, np.random.default_rng(0))
    search.choose(rules.Board())
    assert len(entered) == nodes


def minimax(board, depth, script):
    if not any(board.legal_moves):
        return -1000.0 - depth if board.is_check() else 0.0
    if depth == 0:
        return script.material_of(board)
    values = []
    for move in list(board.legal_moves):
        board.push(move)
        values.append(-minimax(board, depth - 1, script))
        board.pop()
    return max(values)


@pytest.mark.parametrize(
    "fen", ["8/8/8/3k4/8/2p5/1q6/K1R5 b - - 0 1", "4k3/2p5/8/3P4/8/8/r3PP2/4K2R w K - 0 1"]
)
def test_pruning_changes_no_value(script, fen):
    board = rules.Board(fen)
    search = script.AlphaBeta(10**6, np.random.default_rng(0))
    infinity = float("inf")
    for depth in (1, 2, 3):
        assert search._value(board, depth, -infinity, infinity) == minimax(board, depth, script)


def test_material_is_the_movers(script):
    board = rules.Board("4k3/8/8/8/8/8/4P3/R3K3 w - - 0 1")
    assert script.material_of(board) == 6
    board.push_san("e4")
    assert script.material_of(board) == -6
