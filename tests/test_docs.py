"""What the documents say is true: Python runs and prints what is shown, commands and links lead somewhere."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from train.algorithms import load
from train.cli import COMMANDS, build_parser, main

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), ROOT / "configs" / "README.md"]
WITH_PYTHON = [path for path in DOCUMENTS if "```python\n" in path.read_text()]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

# The smallest run from which the tutorial's agent can be loaded.
SHORT = [
    *("run.iterations=1", "run.tensorboard=false", "selfplay.games=8", "selfplay.simulations=4"),
    *("replay.capacity=256", "learner.batch_size=16", "learner.steps_per_iteration=1"),
    *("evaluation.games=2", 'evaluation.opponents=["random"]', "evaluation.simulations=0"),
]


def blocks(path, language):
    """The fenced blocks in `language`, each with the `text` block right below it (its output) or None."""
    fences = [*re.finditer(r"^```(\w*)\n(.*?)^```\n", path.read_text(), re.MULTILINE | re.DOTALL)]
    for fence, after in zip(fences, [*fences[1:], None]):
        if fence[1] == language:
            follows = after is not None and after[1] == "text" and after.start() == fence.end() + 1
            yield fence[2], after[2] if after is not None and follows else None


def same_but_for_figures(printed, shown):
    """Whether two texts have the same words, and numbers within a quarter, or 5, of each other."""
    figures = [[float(number) for number in NUMBER.findall(text)] for text in (printed, shown)]
    words = [NUMBER.sub("#", text).split() for text in (printed, shown)]
    close = (abs(a - b) <= max(5, abs(b) / 4) for a, b in zip(*figures))
    return words[0] == words[1] and all(close)


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.stem)
def test_python_runs_and_prints_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "tests" / "train")  # the game of CONTRIBUTING.md
    if "runs/tic_tac_toe" in path.read_text():
        config = ROOT / "configs" / "tic_tac_toe.toml"
        assert main(["train", str(config), "--dir", "runs/tic_tac_toe", "--set", *SHORT]) == 0
    for code, shown in blocks(path, "python"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(path), "exec"), {"__name__": "__main__"})
        if shown is not None:
            assert same_but_for_figures(out.getvalue(), shown), out.getvalue()


def commands():
    """Every `jaxsearch ...` in a bash block or alone in backticks, as (document, words)."""
    for path in DOCUMENTS:
        text = path.read_text()
        lines = [line for code, _ in blocks(path, "bash") for line in code.splitlines()]
        lines += re.findall(r"(?<!`)`(jaxsearch [^`]+)`(?!`)", text)
        for line in lines:
            for part in line.split(" && "):
                program, *words = shlex.split(part, comments=True) or [""]
                if Path(program).name == "jaxsearch":
                    yield pytest.param(words, id=f"{path.stem}: {' '.join(words)}")


@pytest.mark.parametrize("words", list(commands()))
def test_commands_are_understood(words):
    if len(words) == 1 and words[0] in COMMANDS:  # a command's name alone
        return
    if words[-1] == "--help":
        with pytest.raises(SystemExit) as stop:
            build_parser().parse_args(words)
        assert stop.value.code == 0
        return
    arguments = build_parser().parse_args(words)
    if arguments.command == "train":
        load(ROOT / arguments.config, arguments.overrides)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"


@pytest.mark.parametrize("path", sorted(ROOT.glob("configs/*.toml")), ids=lambda path: path.stem)
def test_presets_load_and_are_explained(path):
    assert load(path).run.name == path.stem
    assert f"`{path.name}`" in (ROOT / "configs" / "README.md").read_text()


def test_ci_and_readme_run_the_same_tests():
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    test_command = last.removeprefix("step ")
    assert f"&& .venv/bin/{test_command}\n" in (ROOT / "README.md").read_text()
