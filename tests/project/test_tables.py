"""What the tests' own helpers promise: a row of a table that is wrong makes its test fail, and is named."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TABLE = """
import pytest
from tables import each_row

@each_row("number, right", [(1, True), (2, False), (3, True), pytest.param(4, None, id="four")])
def test_several(number, right):
    assert right

@each_row("word", ["a", "b"], ids=str.upper)
@each_row("number", [1, 2], parts=2)
@pytest.mark.anyio
async def test_nested(word, number, tmp_path):
    assert tmp_path.is_dir()
    if (word, number) == ("b", 2):
        pytest.fail("no b2")

@each_row("row", [pytest.param("", marks=pytest.mark.skip("nothing to read"))])
def test_nothing(row):
    raise AssertionError

@each_row("row", [1, 2])
def test_left_out(row):
    pytest.skip("not here")
"""


def test_every_wrong_row_is_told(pytester: pytest.Pytester) -> None:
    """Rows are told by their place and their values, those behind a wrong one too; a skipped table is skipped."""
    pytester.makeini("[pytest]")  # not that of a project above the folder for temporary files
    pytester.makepyfile(test_table=TABLE)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio", "-k", "not trio", "-rs")
    result.assert_outcomes(failed=2, skipped=2, passed=1)
    result.stdout.fnmatch_lines(
        ["*2 of 4 rows are wrong: 1: 2-False, 3: four*", "*in row 1: 2-False", "*in row 3: four"]
    )
    result.stdout.fnmatch_lines(["*no b2*", "*in row 1: 2", "*in row 1: B"])
    result.stdout.fnmatch_lines(["SKIPPED*nothing to read", "SKIPPED*not here"])


def test_a_table_must_fit_its_test() -> None:
    """A table without rows, and one for a parameter that isn't there, are no tests."""
    from tables import each_row

    with pytest.raises(AssertionError, match="a table without rows tests nothing"):
        each_row("row", [])
    with pytest.raises(AssertionError, match="has no parameter"):
        each_row("column", [1])(lambda row: row)
    with pytest.raises(AssertionError, match="row 0 has 3 values for"):
        each_row("a, b", [(1, 2, 3)])
