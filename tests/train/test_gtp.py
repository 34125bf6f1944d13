"""Engines over GTP: what they are told, and that no misconduct of theirs ends a match."""

import shlex
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import games_jax
from train.arena import play_match
from train.engines import gtp_player
from train.gtp import Engine, EngineError
from train.openings import random_openings
from train.player_specs import make_player
from train.players import FAULT, HostPlayer, choose_actions

HEX = games_jax.make("hex", size=3)
LAST = HostPlayer("last", lambda state, rng: int(np.flatnonzero(HEX.legal_actions(state))[-1]))


def command(conduct: str, ply: int = 0) -> str:
    script = Path(__file__).with_name("stand_in_engine.py")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {conduct} {ply}"


def match(conduct: str, ply: int = 0, **options):
    player = gtp_player(HEX, command(conduct, ply), **options)
    return play_match(HEX, player, LAST, games=4, key=jax.random.key(0), opening_plies=1)


def test_an_engine_that_behaves_plays_as_the_same_player_within():
    first = HostPlayer("first", lambda state, rng: int(np.flatnonzero(HEX.legal_actions(state))[0]))
    expected = play_match(HEX, first, LAST, games=4, key=jax.random.key(0), opening_plies=1)
    for workers in (1, 2):
        result = match("play", workers=workers)
        assert result.moves == expected.moves
        np.testing.assert_array_equal(result.points, expected.points)
        assert result.forfeits == (0, 0) and not result.notes


@pytest.mark.parametrize("conduct", ["illegal", "nonsense", "crash", "refuse"])
@pytest.mark.parametrize("ply", [0, 3])
def test_every_fault_is_a_lost_game_and_the_match_goes_on(conduct, ply):
    result = match(conduct, ply)
    assert result.forfeits == (4, 0)
    assert result.wins_draws_losses() == (0, 0, 4)
    assert "lost 4 games by a fault" in result.notes[0]
    assert result.to_dict()["forfeits"] == [4, 0]


def test_silence_is_a_fault():
    result = match("silent", timeout=0.3)
    assert result.forfeits == (4, 0)
    assert "did not answer 'genmove" in result.notes[0]


def test_giving_up_is_a_loss_and_no_fault():
    player = gtp_player(HEX, command("resign", 2))
    result = play_match(HEX, LAST, player, games=4, key=jax.random.key(0), opening_plies=0)
    assert result.forfeits == (0, 4) and result.wins_draws_losses() == (4, 0, 0)
    assert result.notes == (f"gtp:{command('resign', 2)} gave up 4 games",)
    assert player.incidents.resigned == 4 and not player.incidents.faults


def test_only_the_games_with_a_fault_are_forfeited():
    """At five stones the engine is to move in the games it began; the others end on the board."""
    result = match("crash", 5)
    assert result.forfeits == (2, 0)
    assert [len(moves) for pair in result.moves for moves in pair] == [6, 5, 6, 5]
    assert "lost 2 games by a fault" in result.notes[0] and "exit status 7" in result.notes[0]


def test_the_program_is_told_new_moves_only():
    engine = Engine(command("play"), HEX)
    told = []
    ask = engine.ask

    def listen(command: str) -> str:
        told.append(command)
        return ask(command)

    engine.ask = listen
    assert engine.genmove([]) == "a1"
    assert engine.genmove([0, 8]) == "b1"
    assert told == ["boardsize 3", "clear_board", "genmove black", "play white c3", "genmove black"]
    engine.genmove([4])  # another game
    assert told[5:] == ["boardsize 3", "clear_board", "play black b2", "genmove white"]
    engine.close()
    with pytest.raises(EngineError, match="cannot be started"):
        Engine("no-such-program", HEX).ask("name")


def test_one_crash_does_not_spoil_the_next_question():
    player = gtp_player(HEX, command("crash", 2))
    legal = np.ones(9, bool)
    assert player.choose(0, [0, 8], legal) == FAULT
    assert player.choose(0, [3], legal) == 0
    assert "exit status 7" in player.incidents.faults[0]


def test_what_cannot_be_played_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="no program 'mohex9'"):
        make_player("gtp:mohex9 --quiet", HEX)
    with pytest.raises(ValueError, match="No GTP engine plays connect_four"):
        make_player(f"gtp:{sys.executable}", games_jax.make("connect_four"))
    with pytest.raises(ValueError, match="workers must be a whole number"):
        make_player(f"gtp:{sys.executable}@workers=0", HEX)
    player = make_player(f'gtp:"{command("play")}"@timeout=5', HEX)
    states = random_openings(HEX, jax.random.key(0), count=1, plies=0).states
    with pytest.raises(ValueError, match="plays whole games only"):
        choose_actions(player, jax.random.key(0), states)


@pytest.mark.skipif(shutil.which("gtp-rhino") is None, reason="the engine is not installed")
def test_an_othello_engine_plays_whole_games():
    game = games_jax.make("othello")
    player = make_player("gtp:gtp-rhino -l 1", game)
    result = play_match(game, player, make_player("random", game), games=4, key=jax.random.key(0))
    assert not result.notes and result.encounter.score > 0.5


def test_rust_reversi_plays_othello():
    pytest.importorskip("rust_reversi")
    game = games_jax.make("othello")
    player = make_player("rust-reversi:2", game)
    result = play_match(game, player, make_player("random", game), games=4, key=jax.random.key(0))
    assert result.encounter.score > 0.5
    with pytest.raises(ValueError, match="othello"):
        make_player("rust-reversi:2", games_jax.make("othello", size=6))
