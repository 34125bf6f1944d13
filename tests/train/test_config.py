"""Configs: what is refused and how it is said; what is written reads back the same."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
import tomllib
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train import config as config_module
from train.config import Config, ConfigError, GameConfig, LearnerConfig, load
from train.schema import Value, differences, extras, fields_of, from_dict, setting, settings, to_dict
from train.schema_toml import load as load_as
from train.schema_toml import to_toml

OTHELLO = '[game]\nname = "othello"\nsize = 6\n'


def write(tmp_path, text, name="run.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_defaults_and_free_keys(tmp_path):
    config = load(write(tmp_path, OTHELLO + '[network]\nname = "mlp"\nwidths = [64, 64]\n'))
    assert config.game == GameConfig(name="othello", parameters={"size": 6})
    assert config.network.options == {"widths": (64, 64)}
    assert config.learner == LearnerConfig()
    assert config.run.minutes is None
    assert hash(config) == hash(dataclasses.replace(config))


@pytest.mark.parametrize(
    ("text", "overrides", "parts"),
    [
        # An unknown key names its path, the file and the nearest.
        ("[selfplay]\nsimulatons = 8", [], ["run.toml: selfplay.simulatons", 'nearest is "simulations"']),
        ("[serch]\nc_puct = 1.0", [], ["run.toml: serch", 'nearest is "search"', "sections are game, run"]),
        # A wrong type names what came and what was expected.
        ('[learner]\nbatch_size = "512"', [], ['learner.batch_size = "512" is a string', "an integer >= 1"]),
        ("[learner]\nbatch_size = 512.0", [], ["learner.batch_size = 512.0 is a number with a fraction"]),
        ("[learner]\nbatch_size = true", [], ["learner.batch_size = true is a boolean"]),
        ("[learner]\naugment = 1", [], ["learner.augment = 1 is an integer", "true or false"]),
        ("[evaluation]\nopponents = 'random'", [], ["opponents = ", "is a string", "a list, each item"]),
        ("[evaluation]\nopponents = ['random', 3]", [], ["evaluation.opponents[1] = 3 is an integer"]),
        ("learner = 3", [], ["learner = 3 is an integer", "a section [learner]"]),
        ("[learner.batch_size]\nx = 1", [], ["learner.batch_size", "is a table"]),
        # An impossible value names the range.
        ("[selfplay]\ndirichlet_fraction = 1.5", [], ["fraction = 1.5 is out of range", "from 0 to 1"]),
        ("[learner]\nlearning_rate = 0.0", [], ["learning_rate = 0.0 is out of range", "> 0"]),
        ("[learner]\nlearning_rate = nan", [], ["learning_rate = nan is not finite"]),
        ("[run]\nminutes = 0", [], ["run.minutes = 0 is out of range", '"none"']),
        ("[run]\nname = 'a/b'", [], ['run.name = "a/b" is not allowed', "matching"]),
        ("[selfplay]\nsearch = 'gumble'", [], ['"puct", "gumbel" or "regularised"; the nearest is "gumbel"']),
        ("[network.options]\nchannels = 3", [], ["network.options", "is a table"]),
        # Keys that contradict each other.
        ("[evaluation]\ngames = 31", [], ["evaluation.games = 31 is odd"]),
        ("[replay]\ncapacity = 9", [], ["replay.capacity = 9 is too small", "expected at least"]),
        # The same for what a command line sets, which is named instead of the file.
        ("", ["learner.batch_size=0"], ["--set learner.batch_size=0: learner.batch_size = 0", ">= 1"]),
        ("", ["learner.batchsize=1"], ["--set learner.batchsize=1", 'nearest is "batch_size"']),
        ("", ["evaluation.opponents=['random', 3]"], ["--set evaluation.opponents=", "opponents[1] = 3"]),
        ("", ["batch_size=3"], ["--set batch_size=3", "did you mean learner.batch_size?"]),
        ("", ["learner.batch_size"], ["expected section.key=value"]),
        ("", ["run.seed.x=1", "run.seed=1", "run.seed.x=1"], ["--set run.seed.x=1: seed is a value"]),
    ],
)
def test_what_is_refused(tmp_path, text, overrides, parts):
    path = write(tmp_path, text + "\n" + OTHELLO)
    with pytest.raises(ConfigError) as error:
        load(path, overrides)
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def test_files_that_are_no_config(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot read the config \(No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"run\.toml: not valid TOML: .*line 2"):
        load(write(tmp_path, "[run]\nseed = = 3"))
    with pytest.raises(ConfigError, match=r"run\.toml: game\.name is missing; expected a string"):
        load(write(tmp_path, "[run]\nseed = 3"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(binary)


def test_overrides(tmp_path):
    path = write(tmp_path, OTHELLO + "[run]\nminutes = 5.0\n")
    config = load(
        path,
        [
            "game.name=go",  # not TOML, so a string
            "game.size=9",
            'evaluation.opponents=["random"]',
            "learner.learning_rate=1",  # an integer where a number is expected
            "run.minutes=none",
            "run.seed=1",
            "run.seed = 2",  # the last one holds
        ],
    )
    assert config.game == GameConfig(name="go", parameters={"size": 9})
    assert config.evaluation.opponents == ("random",)
    assert config.learner.learning_rate == 1.0 and isinstance(config.learner.learning_rate, float)
    assert config.run.minutes is None and config.run.seed == 2
    # A value that would smuggle in another key is one string, and no name.
    with pytest.raises(ConfigError, match=r"run\.name = .* is not allowed"):
        load(path, ['run.name="a"\nseed = 3'])


def test_made_in_python_is_checked_too():
    with pytest.raises(ConfigError, match="batch_size = 0 is out of range"):
        LearnerConfig(batch_size=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        LearnerConfig().batch_size = 3  # type: ignore[misc]


def test_every_key_is_documented_and_written():
    config = Config(game=GameConfig(name="othello", parameters={"size": 6}))
    text = to_toml(config)
    tree = tomllib.loads(text)
    for section in fields_of(Config):
        assert section.kind.__doc__, section.name
        for field in fields_of(section.kind):
            assert field.doc.endswith((".", ":")), field.name
            first_words = " ".join(field.doc.split()[:4])
            assert first_words in " ".join(text.replace("\n#", "").split()), field.name
            assert field.is_extras or field.name in tree[section.name], field.name


def test_parsing_imports_no_jax():
    code = "import sys, train.config, train.schema_toml; print('jax' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.strip() == "False"


def test_differences():
    old = Config(game=GameConfig(name="othello", parameters={"size": 6}))
    new = Config(
        game=GameConfig(name="othello", parameters={"komi": 0.5}), learner=LearnerConfig(warmup_steps=7)
    )
    assert differences(old, old) == {}
    expected = {"game.size": (6, None), "game.komi": (None, 0.5), "learner.warmup_steps": (0, 7)}
    assert differences(old, new) == expected


@settings
class Inner:
    """A section."""

    fraction: float = setting("A share.", default=0.5, minimum=0, maximum=1)
    words: tuple[str, ...] = setting("Words.", default=())
    grid: tuple[int, ...] = setting("Integers.", default=(1, 2), minimum=-5)


@settings
class Outer:
    """All kinds of fields."""

    flag: bool = setting("A flag.")
    count: int = setting("A count.", default=1)
    limit: float | None = setting("A limit.", default=None)
    text: str = setting("Any text.", default="")
    kind: Literal["one", "two"] = setting("A choice.", default="one")
    inner: Inner = dataclasses.field(default_factory=Inner)
    rest: dict[str, Value] = extras("Everything else.", default_factory=dict)


numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
free = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | numbers | texts,
    lambda item: st.lists(item, max_size=3).map(tuple),
    max_leaves=5,
)
free_keys = texts.filter(lambda key: key and key not in ("flag", "count", "limit", "text", "kind", "inner"))
outers = st.builds(
    Outer,
    flag=st.booleans(),
    count=st.integers(-(2**60), 2**60),
    limit=st.none() | numbers,
    text=texts,
    kind=st.sampled_from(["one", "two"]),
    inner=st.builds(
        Inner,
        fraction=st.floats(0, 1),
        words=st.lists(texts, max_size=3).map(tuple),
        grid=st.lists(st.integers(-5, 10), max_size=3).map(tuple),
    ),
    rest=st.dictionaries(free_keys, free, max_size=3),
)


@given(outers)
def test_what_is_written_reads_back(tmp_path_factory, value):
    assert from_dict(Outer, to_dict(value)) == value
    path = tmp_path_factory.mktemp("toml") / "x.toml"
    path.write_text(to_toml(value), encoding="utf-8")
    again = load_as(Outer, path)
    assert again == value
    signs = [math.copysign(1, v.limit) for v in (value, again) if v.limit is not None]
    assert len(set(signs)) < 2


@given(st.integers() | numbers | texts | st.booleans() | st.none() | st.lists(st.integers(), max_size=3))
def test_a_bounded_field_takes_what_it_says_and_nothing_else(value):
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    if fits:
        assert Inner(fraction=value).fraction == value
    else:
        with pytest.raises(ConfigError, match="fraction = "):
            Inner(fraction=value)  # type: ignore[arg-type]


def test_config_names_its_own_public_parts():
    for name in config_module.__all__:
        assert getattr(config_module, name).__doc__
