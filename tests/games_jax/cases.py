"""The rules cases of one game: `tests/data/rules_cases.json`, made and verified by independent programs."""

import json
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"

# Every game by its name, small enough for the suite, and what `conformance.check` is told of it.
ALONE = {"zero_sum": False}
JOINT = {"games": 4, "exclusive_planes": False, "rewards_at_end_only": False, **ALONE}
GAMES = {
    "tic_tac_toe": {},
    "connect_four": {},
    "othello(size=4)": {},
    "go(size=2, komi=2.0)": {"games": 16},
    "hex(size=4, swap=True)": {"games": 16},
    "cube2(max_steps=6)": {"games": 16, **ALONE},
    "cube3(metric='qtm', scramble=(1, 3), step_cost=0.25, max_steps=6)": {
        "games": 16,
        "rewards_at_end_only": False,
        **ALONE,
    },
}
LARGE_GAMES = {
    "chess(window=8, max_plies=40, history=3)": {"games": 4, "exclusive_planes": False},
    "othello": {},
    "othello(size=6)": {},
    "go": {},
    "go(size=7, komi=9.0)": {},
    "go(size=4, ko='superko', suicide=True)": {},
    "hex": {},
    "chess": {"games": 4, "exclusive_planes": False},
    "pommerman(max_steps=20)": JOINT,
    "pommerman(mode='team', random_corners=True, max_steps=20, collapse=True)": JOINT,
    "pommerman(mode='one_v_one', max_steps=20)": JOINT,
}


def rules_cases(game, key="actions"):
    """The cases of one game that have `key` among what they expect, as `(name, case)`."""
    cases = json.loads((DATA / "rules_cases.json").read_text())
    return {case["name"]: case for case in cases if case["game"] == game and key in case["expect"]}
