"""What is public imports, is documented, and does nothing before it is called."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import games_jax
import jaxsearch
import train

PUBLIC = [(package, name) for package in (games_jax, jaxsearch) for name in package.__all__]


def modules(*packages):
    """Every module of the packages, by name."""
    return [
        found.name
        for package in packages
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]


@pytest.mark.parametrize("package, name", PUBLIC, ids=lambda item: getattr(item, "__name__", item))
def test_public_name_is_documented(package, name):
    public = getattr(package, name)
    assert inspect.getdoc(public), f"{package.__name__}.{name} has no docstring"
    # What a class or NamedTuple inherits is no documentation of it.
    if inspect.isclass(public) and public.__module__.partition(".")[0] == package.__name__:
        assert public.__doc__ and not public.__doc__.startswith(f"{name}(")


@pytest.mark.parametrize("package", [games_jax, jaxsearch], ids=lambda package: package.__name__)
def test_all_is_sorted_complete_and_without_repeats(package):
    assert list(package.__all__) == sorted(set(package.__all__))
    submodules = {found.name for found in pkgutil.iter_modules(package.__path__)}
    visible = {name for name in vars(package) if not name.startswith("_")}
    assert visible - submodules <= set(package.__all__)


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)


STARTED = "from jax._src import xla_bridge\nassert not xla_bridge._backends, 'a device was touched'\n"


def test_imports_touch_no_device_and_say_nothing():
    done = run(f"import jaxsearch, games_jax\n{STARTED}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_module_touches_a_device_at_import():
    names = modules(games_jax, jaxsearch, train)
    assert "games_jax.othello" in names and "train.networks.patterns" in names
    done = run(f"import {', '.join(names)}\n{STARTED}")
    assert done.returncode == 0, done.stderr


def test_a_touched_device_would_be_seen():
    done = run(f"import jax\njax.numpy.zeros(1)\n{STARTED}")
    assert "a device was touched" in done.stderr


def with_examples():
    """The modules whose docstrings hold examples, by name."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in modules(games_jax, jaxsearch):
        module = importlib.import_module(name)
        if any(found.examples for found in finder.find(module, name)):
            yield name


@pytest.mark.parametrize("name", list(with_examples()))
def test_examples_in_docstrings_are_true(name):
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried and not failed
