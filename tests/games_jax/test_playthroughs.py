import pytest
from playthroughs import FOLDER, GAMES, playthrough


@pytest.mark.parametrize("file", GAMES)
def test_game_plays_as_recorded(file):
    """If a game is meant to have changed: `python tests/games_jax/playthroughs.py`, and raise its version."""
    assert playthrough(*GAMES[file]) == (FOLDER / f"{file}.txt").read_text()
