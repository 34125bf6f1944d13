"""The command line: help without JAX, each command's work, and mistakes told in one line."""

from __future__ import annotations

import builtins
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import games_jax
from train import bench_train, draw, thoughts
from train.cli import COMMANDS, common, main
from train.cli.play import play_game
from train.config import LearnerConfig, ReplayConfig, SelfplayConfig
from train.players import HostPlayer, uct_player

TIC_TAC_TOE = games_jax.make("tic_tac_toe")
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def private_cache(monkeypatch):
    """Commands switch the compilation cache on; tests use the one they were told, or none."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", os.environ.get("JAX_COMPILATION_CACHE_DIR", ""))


def run(capsys, *words: str) -> str:
    """Output of a command that succeeds."""
    status = main(words)
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


def complaint(capsys, *words: str) -> str:
    """The one line of a command that is mistaken."""
    try:
        status = main(words)
    except SystemExit as stop:  # argparse
        status = stop.code
    captured = capsys.readouterr()
    assert status == 2
    lines = captured.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("jaxsearch"), captured.err
    return lines[0]


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_does_not_import_jax(words):
    program = (
        "import sys\nfrom train.cli import main\ntry:\n    main(sys.argv[1:])\nfinally:\n"
        "    assert not {'jax', 'numpy', 'matplotlib', 'rich'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: jaxsearch")
    assert "jaxsearch" in done.stdout.split("examples:" if len(words) > 1 else "first steps:")[1]


def test_mistakes_in_the_words_are_told_without_jax():
    done = subprocess.run(
        [sys.executable, "-c", "from train.cli import main; main(['mach'])"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert "'mach' is none of train, play, match" in done.stderr and "did you mean 'match'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words, expected",
    [
        (["match", "random", "random", "tic_tac_to"], "did you mean 'tic_tac_toe'"),
        (["match", "random", "uct:x", "tic_tac_toe"], "got 'x'"),
        (["match", "random", "randm", "tic_tac_toe"], "did you mean 'random'"),
        (["match", "random", "random", "tic_tac_toe", "--games", "7"], "even and at least 2, got 7"),
        (["match", "random", "random", "tic_tac_toe", "--games", "0"], "whole number of at least 1, got '0'"),
        (["match", "random", "random"], "required: GAME"),
        (["match", "run:nowhere", "random", "tic_tac_toe"], "nowhere is no directory"),
        (["analyze", "connect_four", "48"], "'8' is not a column"),
        (["analyze", "connect_four", "1111111"], "move '1' is illegal here"),
        (["analyze", "connect_four", "12121212"], "after the end"),
        (["analyze", "connect_four", "1212121"], "The game is over in this position"),
        (["analyze", "connect_four", "1", "--search", "puct"], "--search puct needs a --checkpoint"),
        (["analyze", "connect_four", "1", "--search", "uct", "--checkpoint", "x"], "takes no --checkpoint"),
        (["analyze", "connect_four", "1", "--checkpoint", "nowhere"], "nowhere is no directory"),
        (["analyze", "connect_four", "1", "--simulations", "-3"], "got '-3'"),
        (
            ["analyze", "connect_four", "1", "--simulations", "8", "--png", "x.bmp"],
            "ends in .png, .svg or .pdf",
        ),
        (["analyze", "connect_four", "1", "--simulations", "8", "--png", "/nowhere/x.png"], "No such file"),
        (["analyze", "chess", "8/8 w"], "8/8 w"),
        (["analyze", "cube2", "R L"], "'L' is not a turn"),
        (["play", "chess5"], "unknown game 'chess5'"),
        (["play", "cube2"], "A person plays against one agent here, and cube2 is a game for 1;"),
        (["match", "random", "random", "pommerman"], "All players of pommerman move at once"),
        (["match", "random", "random", "cube2"], "is between two players, and cube2 is a game for 1."),
        (["play", "connect_four", "--position", "9"], "'9' is not a column"),
        (["play", "connect_four", "--opponent", "nobody"], "Unknown player 'nobody'"),
        (["play", "connect_four", "--opponent", "random", "--checkpoint", "x"], "not allowed with"),
        (["train", "nowhere.toml"], "nowhere.toml: cannot read the config"),
        (["doctor", "--seconds", "0"], "--seconds must be above 0"),
        (["bench", "serch"], "did you mean 'search'"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys, words, expected):
    assert expected in complaint(capsys, *words)


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="unknown game"):
        main(["match", "random", "random", "nothing", "--debug"])


def test_failures_of_the_program_itself_have_another_status(capsys, monkeypatch):
    monkeypatch.setattr(games_jax, "make", lambda name: 1 / 0)
    assert main(["match", "random", "random", "tic_tac_toe"]) == 1
    error = capsys.readouterr().err
    assert "ZeroDivisionError" in error and "--debug" in error and error.count("\n") == 1


def test_version_and_no_command(capsys):
    assert run(capsys, "--version").startswith("jaxsearch")
    assert "first steps" in run(capsys)


def test_games_lists_every_game(capsys):
    text = run(capsys, "games")
    listed = {entry["name"]: entry for entry in json.loads(run(capsys, "games", "--json"))}
    assert tuple(listed) == games_jax.names()
    assert all(name in text for name in listed)
    assert listed["connect_four"] == {
        "name": "connect_four",
        "parameters": {},
        "actions": 7,
        "players": 2,
        "bytes_per_state": 16,
        "max_plies": 42,
    }


def test_match_prints_what_the_json_says(capsys):
    words = ["match", "uct:32", "random", "tic_tac_toe", "--games", "40", "--seed", "3"]
    facts = json.loads(run(capsys, *words, "--json"))
    text = run(capsys, *words)
    assert facts["wins"] + facts["draws"] + facts["losses"] == facts["games"] == 40
    assert facts["score"] == (facts["wins"] + facts["draws"] / 2) / 40
    assert facts["low"] <= facts["score"] <= facts["high"]
    assert f"{facts['wins']} won, {facts['draws']} drawn, {facts['losses']} lost" in text
    assert f"score          {facts['score']:.1%}" in text


def test_match_from_every_opening_once_with_each_colour(capsys):
    words = ["match", "uct:8", "random", "tic_tac_toe", "--openings", "every"]
    facts = json.loads(run(capsys, *words, "--json"))
    assert facts["games"] == 18 and facts["distinct_openings"] == 9
    assert sum(facts["moving_first"].values()) == sum(facts["moving_second"].values()) == 9
    assert main([*words, "--games", "4"]) == 2
    assert "--openings every says how many games there are" in capsys.readouterr().err


# Analyze


def test_analyze_finds_the_win_and_draws_it(capsys, tmp_path):
    picture = tmp_path / "a.png"
    words = ["analyze", "connect_four", "414243", "--simulations", "300", "--png", str(picture)]
    facts = json.loads(run(capsys, *words, "--json"))
    assert facts["moves"][0]["move"] == facts["line"][0] == "4"
    assert sum(move["visits"] for move in facts["moves"]) == 300
    assert sum(move["share"] for move in facts["moves"]) == pytest.approx(1)
    assert facts["moves"][0]["value"] > 0.9 and facts["value"] > 0.5 and facts["mover"] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = run(capsys, *words)
    assert re.search(r"^4 +\d+ +\d+\.\d%", text, re.MULTILINE)
    assert "expected line        4" in text


def test_analyze_of_a_board_with_many_moves_shows_the_best(capsys):
    words = ["analyze", "hex(size=5)", "c3 b4", "--simulations", "40"]
    facts = json.loads(run(capsys, *words, "--json"))
    assert len(facts["moves"]) == 23
    text = run(capsys, *words)
    assert len(re.findall(r"^[a-e][1-5] +\d+ +\d+\.\d%", text, re.MULTILINE)) == 15
    assert "and 8 more moves" in text


def test_analyze_of_a_game_for_one_player(capsys):
    facts = json.loads(run(capsys, "analyze", "cube2", "R", "--simulations", "100", "--json"))
    assert facts["moves"][0]["move"] == facts["line"][0] == "R'" and facts["moves"][0]["value"] == 1


class Numbered(type(TIC_TAC_TOE)):
    """Tic-tac-toe in which a move's name depends on the position: the ply stands before the cell."""

    def move_to_string(self, state, action):
        return f"{sum(int(word).bit_count() for word in state[:2]) + 1}{self.action_to_string(action)}"

    def move_from_string(self, state, text):
        del state
        return self.action_from_string(text.lstrip("123456789"))


def test_moves_whose_names_depend_on_the_position(monkeypatch, capsys):
    monkeypatch.setattr(games_jax, "make", lambda name: Numbered())
    facts = json.loads(run(capsys, "analyze", "tic_tac_toe", "a1 b1 a2 b2", "--simulations", "200", "--json"))
    assert facts["line"][0] == facts["moves"][0]["move"] == "5a3"
    longer = json.loads(run(capsys, "analyze", "tic_tac_toe", "a1 b2", "--simulations", "200", "--json"))
    assert [name[0] for name in longer["line"]] == [str(ply) for ply in range(3, 3 + len(longer["line"]))]
    answers = iter(["z9", "1b2", "?", "q"])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(answers))
    text = run(capsys, "play", "tic_tac_toe", "--opponent", "random")
    assert "'z9' is not a cell" in text and re.search(r"random plays 2[abc][123]", text)
    assert re.search("legal moves: (3[abc][123](, )?){7}$", text, re.MULTILINE)


GAMES = [
    "connect_four",
    "tic_tac_toe",
    "othello",
    "othello(size=6)",
    "go(size=5)",
    "hex(size=5, swap=True)",
    "chess",
    "cube2",
]


@pytest.mark.parametrize("name", GAMES)
def test_pictures_of_every_game(name, tmp_path):
    game = games_jax.make(name)
    state = game.init(jax.random.key(0))
    legal = np.asarray(game.legal_actions(state))
    visits = np.where(legal, np.arange(legal.size) + 1, 0)
    thought = thoughts.Thoughts(visits, None, np.zeros(legal.size), 0.0, legal, ())
    draw.draw_thoughts(game, state, thought, tmp_path / "a.svg", title=name)
    picture = (tmp_path / "a.svg").read_text()
    assert picture.lstrip().startswith("<?xml") and name in picture


def test_principal_variation_follows_the_visits():
    visits = np.array([[1, 5, 2], [0, 0, 4], [0, 0, 0], [0, 3, 0]])
    children = np.array([[2, 1, 2], [-1, -1, 3], [-1, -1, -1], [-1, -1, -1]])
    assert thoughts.principal_variation(visits, children) == (1, 2, 1)


# Play


def converse(monkeypatch, capsys, answers, agent=None, start=None, seat=0) -> str:
    """What is printed when a person types `answers` (then Ctrl-D)."""
    left = iter(answers)

    def reply(prompt: str) -> str:
        print(prompt, end="")
        answer = next(left, None)
        if answer is None:
            raise EOFError
        print(answer)
        return answer

    monkeypatch.setattr(builtins, "input", reply)
    agent = agent or HostPlayer("first", lambda state, rng: int(np.argmax(TIC_TAC_TOE.legal_actions(state))))
    start = TIC_TAC_TOE.init(jax.random.key(0)) if start is None else start
    play_game(TIC_TAC_TOE, agent, start, seat=seat, key=jax.random.key(0))
    return capsys.readouterr().out


def test_a_person_wins(monkeypatch, capsys):
    text = converse(monkeypatch, capsys, ["b2", "a3", "c1"])  # the agent plays a1, b1
    assert text.rstrip().endswith("You win.")
    assert "first plays a1" in text and "first plays b1" in text


def test_a_person_moving_second_loses(monkeypatch, capsys):
    text = converse(monkeypatch, capsys, ["a2", "b2"], seat=1)
    assert text.index("first plays a1") < text.index("your move")
    assert text.rstrip().endswith("You lose.")


def test_illegal_input_is_refused_with_the_legal_moves(monkeypatch, capsys):
    text = converse(monkeypatch, capsys, ["b2", "a1", "z9", "5", "", "?", "q"])
    assert "'a1' is illegal here" in text
    assert text.count("c3") >= 4  # each refusal and ? list the legal moves
    assert text.rstrip().endswith("Goodbye.")


def test_moves_are_taken_back(monkeypatch, capsys):
    text = converse(monkeypatch, capsys, ["u", "b2", "c3", "u", "u", "u", "a3"])
    assert text.count("There is no move of yours to take back.") == 2
    # After b2, a1, c3, b1 are undone, a3 is played on the empty board: one stone, and the agent's answer.
    last = text[text.rindex("first plays") :]
    assert last.count("X") - last.count("X to move") == 1


def test_end_of_input_quits(monkeypatch, capsys):
    assert converse(monkeypatch, capsys, []).rstrip().endswith("Goodbye.")


def test_the_agent_shows_what_it_thought(monkeypatch, capsys):
    text = converse(monkeypatch, capsys, ["b2"], agent=uct_player(TIC_TAC_TOE, simulations=50))
    assert re.search(r"uct:50 plays \S+ \(it takes its position to be worth [+-]\d\.\d\d\)", text)
    assert re.search(r"^move +share +value$", text, re.MULTILINE)


def test_play_from_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(builtins, "input", lambda prompt: "q")
    text = run(capsys, "play", "connect_four", "--opponent", "random", "--position", "4453")
    assert "you against random" in text and "Goodbye." in text


# Doctor and the cache


def test_doctor_measures_and_leaves_nothing(capsys, tmp_path):
    facts = json.loads(run(capsys, "doctor", "--seconds", "0.1", "--dir", str(tmp_path / "runs"), "--json"))
    assert facts["jax"] == jax.__version__ and facts["devices"]
    assert facts["simulations_per_second"] > 0 and facts["compile_seconds"] > 0
    assert facts["run_directory_problem"] is None
    assert list(tmp_path.iterdir()) == []


def test_cache_directory_respects_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert common.cache_directory() == tmp_path
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    assert common.cache_directory() is None


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_cache_directory_is_private(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    directory = common.cache_directory()
    assert directory is not None and directory.is_relative_to(tmp_path) and jax.__version__ in directory.name
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    directory.chmod(0o777)
    assert common.cache_directory() is None
    assert "others can write" in capsys.readouterr().err


def test_cache_that_cannot_be_made_is_done_without(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert common.cache_directory() is None
    assert "cannot be made" in capsys.readouterr().err


# Train, and what comes of it

TINY = """
[run]
iterations = 2
tensorboard = false
[game]
name = "tic_tac_toe"
[network]
name = "mlp"
width = 16
depth = 1
[selfplay]
games = 8
plies_per_iteration = 4
simulations = 4
[replay]
capacity = 256
[learner]
batch_size = 16
steps_per_iteration = 1
[evaluation]
every = 2
games = 4
opponents = ["random"]
simulations = 0
opening_plies = 1
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run directory made by `jaxsearch train`, and its config."""
    folder = tmp_path_factory.mktemp("train")
    (folder / "tiny.toml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", os.environ.get("JAX_COMPILATION_CACHE_DIR", ""))
        assert main(["train", str(folder / "tiny.toml"), "--dir", str(folder / "run")]) == 0
    return folder / "tiny.toml", folder / "run"


def evaluations(directory: Path) -> list[dict]:
    records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == "evaluation"]


def test_train_leaves_a_run_that_plays(trained, capsys, monkeypatch):
    _, directory = trained
    (record,) = evaluations(directory)
    assert record["player"] == "iteration 2" and record["opponents"]["random"]["games"] == 4
    assert (directory / "report.html").exists()
    spec = f"run:{directory}@sims=2"
    facts = json.loads(run(capsys, "match", spec, "random", "tic_tac_toe", "--games", "4", "--json"))
    assert facts["first"] == spec and facts["games"] == 4
    words = ["analyze", "tic_tac_toe", "b2", "--checkpoint", str(directory), "--simulations", "20"]
    moves = json.loads(run(capsys, *words, "--json"))["moves"]
    assert sum(move["prior"] for move in moves) == pytest.approx(1)
    assert sum(move["visits"] for move in moves) == 20
    monkeypatch.setattr(builtins, "input", lambda prompt: "q")
    words = ["play", "tic_tac_toe", "--checkpoint", str(directory), "--simulations", "2", "--second"]
    assert "you against run:" in run(capsys, *words)


def test_train_refuses_what_would_lose_something(trained, capsys):
    config, directory = map(str, trained)
    assert "--resume" in complaint(capsys, "train", config, "--dir", directory)
    words = ["train", config, "--dir", directory, "--resume", "--set", "learner.batch_size=32"]
    assert "learner.batch_size" in complaint(capsys, *words)
    assert "batch_size" in complaint(capsys, "train", config, "--set", "learner.batchsize=32")
    words = ["match", f"run:{directory}", "random", "connect_four"]
    assert "was trained on tic_tac_toe" in complaint(capsys, *words)
    words = ["analyze", "connect_four", "4", "--checkpoint", directory]
    assert "was trained on tic_tac_toe" in complaint(capsys, *words)


def test_train_resumes_with_its_ladder(trained):
    config, directory = map(str, trained)
    words = ["train", config, "--dir", directory, "--resume", "--set", "run.iterations=4"]
    assert main(words) == 0
    before, after = evaluations(trained[1])
    assert after["player"] == "iteration 4"
    assert after["opponents"]["previous self"]["second"] == before["player"]


def test_bench_train_times_whole_iterations():
    small = {
        "selfplay": SelfplayConfig(games=4, plies_per_iteration=2, simulations=2),
        "replay": ReplayConfig(capacity=256),
        "learner": LearnerConfig(batch_size=8, steps_per_iteration=1),
    }
    (row,) = bench_train.bench_train(["mlp"], game="tic_tac_toe", repeats=2, changes=small)
    assert (row.plies, row.simulations, row.samples) == (8, 16, 8)
    assert len(row.side.rates) == 2 and min(row.side.rates) > 0
    assert bench_train.line(row).startswith("mlp")
