"""Othello endings with the exact result of every move.

Dimensions: N positions, A = 65 actions.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jax
import numpy as np

from games_jax.othello import Othello
from train.solved import SolvedPositions

__all__ = ["load_endgames"]

_SIZE = 8


def load_endgames(path: str | Path) -> SolvedPositions:
    """Reads `othello_endgames.json.gz`: positions of 8 to 16 empty cells, solved by Edax.

    A move keeps the result if it wins wherever a move wins, and draws wherever none wins and one draws; it is
    optimal if no other ends with more discs.

    Raises:
        ValueError: if the file is not there or not of that kind.
    """
    game = Othello()
    try:
        with gzip.open(path, "rt") as file:
            entries = json.load(file)["positions"]
        boards = np.array([list(entry["board"]) for entry in entries]).reshape(-1, _SIZE, _SIZE)
        movers = np.array(["XO".index(entry["to_move"]) for entry in entries], np.int32)
        scores = np.full((len(entries), game.num_actions), np.nan)
        for row, entry in zip(scores, entries, strict=True):
            for move, margin in entry["scores"].items():
                row[game.action_from_string(move)] = margin
        ply = np.array([_SIZE**2 - 4 - entry["empties"] for entry in entries])
    except FileNotFoundError:
        raise ValueError(f"There is no file {path}; give the path of othello_endgames.json.gz.") from None
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a gzipped JSON file of solved Othello endings ({error!r})."
        ) from None
    states = jax.jit(jax.vmap(game.from_cells))(boards == "X", boards == "O", movers)
    best = np.nanmax(scores, axis=1, keepdims=True)
    keeps = np.sign(scores) == np.sign(best)
    decisive = np.any(~np.isnan(scores) & ~keeps, axis=1)
    return SolvedPositions(states, keeps, scores == best, decisive, ply)
