"""Lists of openings: what a file says is what is played, and a faulty file says where."""

import json

import jax
import numpy as np
import pytest

import games_jax
from games_jax.game import symmetries_of
from train import cli
from train.arena import play_match
from train.opening_files import opening_lines, read_openings
from train.players import random_player

TIC_TAC_TOE = games_jax.make("tic_tac_toe")
OTHELLO = games_jax.make("othello")


def write(path, text):
    file = path / "openings.txt"
    file.write_text(text)
    return file


def test_lines_are_replayed(tmp_path):
    file = write(tmp_path, "# two openings\n\na1 b2\nc3 b1  # and why\na1 b2\n")
    openings = read_openings(TIC_TAC_TOE, file, key=jax.random.key(0), count=5)
    lines = opening_lines(TIC_TAC_TOE, file)
    assert len(lines) == openings.distinct == 2
    counts = [(openings.moves == line).all(axis=1).sum() for line in lines]
    assert sorted(counts) == [2, 3] and not openings.returns.any()
    for i, line in enumerate(openings.moves):
        state = TIC_TAC_TOE.from_string("".join(TIC_TAC_TOE.action_to_string(a) for a in line))
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(openings.states)):
            np.testing.assert_array_equal(one, other[i])


def test_a_match_begins_with_them_in_both_colours(tmp_path):
    file = write(tmp_path, "a1 b2\nc3 b1\n")
    openings = read_openings(TIC_TAC_TOE, file, key=jax.random.key(0), count=2)
    player = random_player(TIC_TAC_TOE)
    result = play_match(TIC_TAC_TOE, player, player, games=4, key=jax.random.key(0), openings=openings)
    starts = [tuple(game[:2]) for pair in result.moves for game in pair]
    assert starts[0] == starts[1] and starts[2] == starts[3] and len(set(starts)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "has no openings"),
        ("a1 b2\na1 b2 c3\n", "line 2 has 3 moves and line 1 2"),
        ("a1 b2\na1 a1\n", "line 2: "),
        ("a1 z9\n", "line 1: "),
        ("a1 b1 a2 b2 a3\n", "line 1 ends the game"),
    ],
)
def test_faulty_lines_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        opening_lines(TIC_TAC_TOE, write(tmp_path, text))


def test_lists_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        opening_lines(TIC_TAC_TOE, tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"No balanced openings of tic_tac_toe.*othello"):
        opening_lines(TIC_TAC_TOE, "balanced")
    with pytest.raises(ValueError, match="at least 1"):
        read_openings(OTHELLO, "balanced", key=jax.random.key(0), count=0)


def test_the_list_of_othello():
    lines = opening_lines(OTHELLO, "balanced")
    assert len(lines) == 200 and {len(line) for line in lines} == {8}
    openings = read_openings(OTHELLO, "balanced", key=jax.random.key(1), count=200)
    assert len(np.unique(openings.moves, axis=0)) == openings.distinct == 200
    look = jax.jit(jax.vmap(lambda state: OTHELLO.observe(state, OTHELLO.current_player(state))))
    looks = np.asarray(look(openings.states)).reshape(200, 64, 3)
    symmetries = symmetries_of(OTHELLO)
    assert symmetries is not None
    classes = {min(look[image].tobytes() for image in np.asarray(symmetries.cells)) for look in looks}
    assert len(classes) == 200  # no two are images of one another


def test_the_command_takes_a_list(tmp_path, capsys):
    file = write(tmp_path, "a1 b2\nc3 b1\n")
    arguments = [
        "match",
        "random",
        "random",
        "tic_tac_toe",
        "--games",
        "8",
        "--json",
        "--openings",
        str(file),
    ]
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["distinct_openings"] == 2
    assert cli.main([*arguments[:-1], str(tmp_path / "none.txt")]) != 0
    assert "cannot be read" in capsys.readouterr().err
