"""docs/complaints.md cannot rot: every group is there, and every test that it names."""

import ast
import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (TESTS.parent / "docs" / "complaints.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| group |", "| defect |"))
]
NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)::([\w:]+)`")


@functools.cache
def names_in(file: str) -> set[str]:
    """The tests in a file, those of a class as `Class::test`."""
    found = set()
    for node in ast.parse((TESTS / file).read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + part.name for part in inside if isinstance(part, ast.FunctionDef)}
    return {name for name in found if name.split("::")[-1].startswith("test_")}


def test_every_group_is_there_once():
    numbers = [int(match[1]) for cells in ROWS if (match := re.match(r"(\d+)\. ", cells[0]))]
    assert sorted(numbers) == list(range(1, 39))


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: cells[0][:40])
def test_what_is_promised_is_tested(cells):
    _, promised, checks = cells
    named = NAMED.findall(checks)
    assert promised and named
    assert NAMED.sub("", checks).replace(",", "").strip() == "", "something else stands among the tests"
    for file, name in named:
        assert name in names_in(file), f"{file} has no {name}"
