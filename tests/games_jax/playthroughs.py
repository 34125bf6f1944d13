"""Whole games as text, for the eye and for `git diff`: every fact of every state on the way.

`python tests/games_jax/playthroughs.py` writes `tests/data/playthroughs/` anew. Do so only when a game is
meant to have changed, and raise its version then.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import games_jax
from games_jax.game import num_bytes

FOLDER = Path(__file__).parents[1] / "data" / "playthroughs"

# A win on the ninth cell; a falling diagonal; a wipe-out; forced passes; an end with cells to spare; a
# ko, a capture, passes; a swap; castling, a capture in passing, a promotion; a mate; a cube solved.
GAMES = {
    "tic_tac_toe": ("tic_tac_toe", "a1 b1 c1 a2 b2 a3 c2 b3 c3"),
    "connect_four": ("connect_four", "2 3 5 4 1 5 3 6 3 4 6 4 6 3"),
    "othello_wipe_out": ("othello", "e6 f4 e3 f6 g5 d6 e7 f5 c5"),
    "othello_pass": ("othello", "f5 f6 f7 g7 d3 f8 h8 h6 pass f4"),
    "othello_6x6": (
        "othello(size=6)",
        "c2 d2 e1 b1 e3 d1 c5 f3 c1 b2 e2 f1 f2 e4 f4 b6 c6 b4 a3 a4 a5 f5 a6 d6 e6",
    ),
    "go_5x5": ("go(size=5)", "B3 E3 C4 D4 C2 D2 D3 C3 B1 C1 D3 A1 pass A2 pass pass"),
    "hex_3x3": ("hex(size=3, swap=True)", "c1 swap b1 a2 b2 c3 b3"),
    "chess_special_moves": ("chess", "e4 Nf6 e5 d5 exd6 Nc6 dxc7 Bg4 cxd8=N Rxd8 Nf3 e6 Be2 Bc5 O-O O-O"),
    "chess_mate": ("chess", "f3 e5 g4 Qh4"),
    "cube2": ("cube2", "F' U' R'", "R U F"),
    "cube3": ("cube3(metric='qtm', step_cost=0.25)", "U R' U'", "U R U'"),
}


def playthrough(name: str, moves: str, start: str | None = None) -> str:
    """The game's facts, then each state and the move made in it; `start` is a position in text."""
    game = games_jax.make(name)
    lines = [
        f"game: {game.name}, version {game.version}",
        f"players: {game.num_players}, actions: {game.num_actions}, longest game: {game.max_steps} plies",
        f"observation: {game.observation_shape}, state: {num_bytes(game)} bytes",
    ]
    state = game.init(jax.random.key(0)) if start is None else game.from_string(start)
    for ply, move in enumerate([*moves.split(), None]):
        lines += ["", f"# ply {ply}", "", *describe(game, state)]
        if move is not None:
            action = games_jax.check_action(game, state, move)
            lines.append(f"move: {move} (action {action})")
            state = games_jax.play(game, state, action)
    return "\n".join(lines) + "\n"


@functools.partial(jax.jit, static_argnums=0)
def facts(game, state):
    return {
        "player": game.current_player(state),
        "over": game.is_over(state),
        "rewards": game.rewards(state),
        "legal": game.legal_actions(state),
        "seen": [game.observe(state, jnp.int32(player)) for player in range(game.num_players)],
    }


def describe(game, state) -> list[str]:
    found = jax.device_get(facts(game, state))
    words = [word for leaf in jax.tree.leaves(state) for word in words_of(np.asarray(leaf))]
    return [
        game.render(state),
        "",
        f"position: {game.to_string(state)}",
        f"state: {' '.join(words)}",
        f"player: {found['player']}, over: {found['over']}, rewards: {found['rewards'].tolist()}",
        f"legal: {' '.join(games_jax.legal_moves(game, state)) or 'none'}",
        *seen_by_players(found["seen"]),
    ]


def words_of(leaf: np.ndarray) -> list[str]:
    """A word, or the words of an array that are not zero, with their places."""
    if leaf.ndim == 0:
        return [f"{int(leaf):08x}"]
    return [f"{'.'.join(map(str, at))}:{int(leaf[tuple(at)]):08x}" for at in np.argwhere(leaf)]


def seen_by_players(seen: list[np.ndarray]) -> list[str]:
    """One digit a cell where planes exclude one another, else the planes that are not empty."""
    planes = seen[0].shape[-1]
    if any(view.sum(axis=-1).max() > 1 for view in seen):
        return [f"seen by {player} (plane:rows): {planes_of(view)}" for player, view in enumerate(seen)]
    meaning = "1 own, 2 other, 3 playable" if planes == 3 else f"planes 1 to {planes}"
    rows = [["".join(map(str, row)) for row in view @ np.arange(1, planes + 1)] for view in seen]
    players = " and ".join(map(str, range(len(seen))))
    return [f"seen by {players} ({meaning}):", *("  ".join(row) for row in zip(*rows))]


def planes_of(view: np.ndarray) -> str:
    """Each plane with anything set, its rows as hexadecimal numbers."""
    rows = np.packbits(view, axis=1).squeeze(1)  # [H, C], for boards of up to eight columns
    return " ".join(f"{c}:{rows[:, c].tobytes().hex()}" for c in range(view.shape[-1]) if view[..., c].any())


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, game in GAMES.items():
        (FOLDER / f"{file}.txt").write_text(playthrough(*game))
        print(FOLDER / f"{file}.txt")
