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

# A win on the ninth cell; a falling diagonal; a wipe-out; forced passes; an end with cells to spare.
GAMES = {
    "tic_tac_toe": ("tic_tac_toe", "a1 b1 c1 a2 b2 a3 c2 b3 c3"),
    "connect_four": ("connect_four", "2 3 5 4 1 5 3 6 3 4 6 4 6 3"),
    "othello_wipe_out": ("othello", "e6 f4 e3 f6 g5 d6 e7 f5 c5"),
    "othello_pass": ("othello", "f5 f6 f7 g7 d3 f8 h8 h6 pass f4"),
    "othello_6x6": (
        "othello(size=6)",
        "c2 d2 e1 b1 e3 d1 c5 f3 c1 b2 e2 f1 f2 e4 f4 b6 c6 b4 a3 a4 a5 f5 a6 d6 e6",
    ),
}


def playthrough(name: str, moves: list[str]) -> str:
    """The game's facts, then each state and the move made in it."""
    game = games_jax.make(name)
    lines = [
        f"game: {game.name}, version {game.version}",
        f"players: {game.num_players}, actions: {game.num_actions}, longest game: {game.max_steps} plies",
        f"observation: {game.observation_shape}, state: {num_bytes(game)} bytes",
    ]
    state = game.init(jax.random.key(0))
    for ply, move in enumerate([*moves, None]):
        lines += ["", f"# ply {ply}", "", *describe(game, state)]
        if move is not None:
            lines.append(f"move: {move} (action {game.action_from_string(move)})")
            state = games_jax.play(game, state, move)
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
    words = " ".join(f"{int(leaf):08x}" for leaf in jax.tree.leaves(state))
    legal = [game.action_to_string(action) for action in np.flatnonzero(found["legal"])]
    seen = [["".join(map(str, row)) for row in planes @ np.array([1, 2, 3])] for planes in found["seen"]]
    return [
        game.render(state),
        "",
        f"position: {game.to_string(state)}",
        f"state: {words}",
        f"player: {found['player']}, over: {found['over']}, rewards: {found['rewards'].tolist()}",
        f"legal: {' '.join(legal) or 'none'}",
        "seen by 0 and 1 (1 own, 2 other, 3 playable):",
        *("  ".join(rows) for rows in zip(*seen)),
    ]


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, (name, moves) in GAMES.items():
        (FOLDER / f"{file}.txt").write_text(playthrough(name, moves.split()))
        print(FOLDER / f"{file}.txt")
