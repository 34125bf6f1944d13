"""The rules cases of one game: `tests/data/rules_cases.json`, made and verified by independent programs."""

import json
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def rules_cases(game, key="actions"):
    """The cases of one game that have `key` among what they expect, as `(name, case)`."""
    cases = json.loads((DATA / "rules_cases.json").read_text())
    return {case["name"]: case for case in cases if case["game"] == game and key in case["expect"]}
