import subprocess
import sys

import pytest

import games_jax


def test_names_and_parameters():
    known = {"tic_tac_toe", "connect_four", "othello", "go", "chess", "hex", "cube2", "cube3"}
    assert known <= set(games_jax.names())
    assert known <= {name.partition("(")[0] for name in NAMES}
    assert games_jax.parameters("othello") == {"size": 8}
    assert games_jax.parameters("connect_four") == {}
    assert games_jax.parameters("hex") == {"size": 11, "swap": False}


NAMES = [
    "tic_tac_toe",
    "connect_four",
    "othello",
    "othello(size=6)",
    "othello(size=4)",
    "go",
    "go(size=5, komi=0.5, ko='superko', suicide=True)",
    "chess",
    "chess(window=8, max_plies=40)",
    "hex",
    "hex(size=5, swap=True)",
    "cube2",
    "cube2(scramble=(1, 9))",
    "cube3",
    "cube3(metric='qtm', step_cost=0.25)",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_makes_the_game_that_bears_it(name):
    game = games_jax.make(name)
    assert game.name == name
    assert games_jax.make(game.name) == game and hash(games_jax.make(name)) == hash(game)


def test_ways_to_write_a_parameter():
    six = games_jax.make("othello", size=6)
    assert six == games_jax.make("othello(size=6)") == games_jax.make(" othello ( size = 6 ) ")
    assert games_jax.make("othello(size=8)") == games_jax.make("othello()") == games_jax.make("othello")
    assert six != games_jax.make("othello")


BAD = [
    (
        "conect_four",
        {},
        "unknown game 'conect_four'; known games: tic_tac_toe, .*; did you mean 'connect_four'",
    ),
    ("shogi", {}, r"unknown game 'shogi'; known games: tic_tac_toe, connect_four, othello, [a-z0-9, ]+\.$"),
    ("", {}, "'' is not a game name"),
    ("othello", {"sise": 6}, "no parameter 'sise'; its parameters: size; did you mean 'size'"),
    ("connect_four", {"size": 6}, "no parameter 'size'; its parameters: none"),
    ("othello(size=6)", {"size": 8}, "parameter 'size' is given in"),
    ("othello(6)", {}, "cannot read the parameters in 'othello.6.'"),
    ("othello(size=)", {}, "cannot read the parameters"),
    ("othello(size=print(1))", {}, "cannot read the parameters"),
    ("othello(size=7)", {}, "no size 7; give one of 4, 6, 8"),
    ("pgx:hex(size=3)", {}, "takes no parameters here"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD)
def test_bad_name_or_parameter(name, options, message):
    with pytest.raises(ValueError, match=message):
        games_jax.make(name, **options)


def test_import_touches_no_device():
    """Importing every module starts no JAX backend: a command can still choose the platform."""
    code = (
        "import games_jax, games_jax.conformance, games_jax.adapters.pgx\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
