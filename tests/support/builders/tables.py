"""One test for each table: `each_row` calls a test with every row of it, and tells of all rows that are wrong at once.

pytest spends some 3 ms on each item that it collects and runs, and most rows need less than one. So rows that differ in
nothing but their data are one test. `pytest.mark.parametrize` is for the few that should run, fail and be chosen alone,
and for those whose fixtures (`tmp_path`, `monkeypatch`) each row needs fresh.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pytest

import scale

Test = TypeVar("Test", bound=Callable[..., Any])
WRONG = (Exception, pytest.fail.Exception)


class Row(NamedTuple):
    """A row: what a report calls it, its values by the name of the parameter, and why it is skipped."""

    name: str
    values: dict[str, Any]
    skipped: str | None = None


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Callable[[Any], Any] | Sequence[str] | None = None,
    parts: int = 1,
) -> Callable[[Test], Test]:
    """Makes a test one that is called for each of these rows, given as to `pytest.mark.parametrize`.

    A row that fails stops no other. Of a table of async tests, trio and httpx get the first row, as they get one case
    of each test; all with --thorough. A long table is cut into parts, so that several processes share it.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_row(keys, row, ids, at) for at, row in enumerate(rows)]
    assert table, "a table without rows tests nothing"
    parts = min(parts, len(table))

    def decorate(test: Test) -> Test:
        parameters = inspect.signature(test).parameters
        assert parameters.keys() >= set(keys), f"{test.__name__} has no parameter {set(keys) - parameters.keys()}"
        assert parts == 1 or "part" not in parameters, "one table of a test is cut into parts"

        def begin(fixtures: dict[str, Any]) -> tuple[_Outcome, dict[str, Any]]:
            request = fixtures["request"]
            rows = table[fixtures.pop("part") :: parts] if parts > 1 else table
            if "request" not in parameters:
                del fixtures["request"]
            return _Outcome(rows if _all_are_due(request) else rows[:1]), fixtures

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def whole(**fixtures: Any) -> None:
                outcome, given = begin(fixtures)
                for row in outcome.due():
                    with outcome.told(row):
                        await test(**given, **row.values)
                outcome.tell()
        else:

            @functools.wraps(test)
            def whole(**fixtures: Any) -> None:  # type: ignore[misc]
                outcome, given = begin(fixtures)
                for row in outcome.due():
                    with outcome.told(row):
                        test(**given, **row.values)
                outcome.tell()

        rest = [name for name in parameters if name not in (*keys, "request")]
        rest += ["request", *(["part"] if parts > 1 else [])]
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        whole.__signature__ = inspect.Signature([inspect.Parameter(name, keyword) for name in rest])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("part", range(parts))(whole) if parts > 1 else whole  # type: ignore[return-value]

    return decorate


def _all_are_due(request: pytest.FixtureRequest) -> bool:
    case = getattr(request.node, "callspec", None)
    loop = case and case.params.get("anyio_backend")
    chosen = request.config.getoption("--transport", None)
    return loop in (None, "asyncio") or scale.thorough() or chosen is not None


def _row(keys: list[str], row: Any, ids: Callable[[Any], Any] | Sequence[str] | None, at: int) -> Row:
    name, skipped = None, None
    if isinstance(row, type(pytest.param())):
        for mark in row.marks:
            assert mark.name == "skip", f"a row of a table is skipped or not, and nothing else: {mark}"
            skipped = mark.kwargs.get("reason") or mark.args[0]
        name, values = row.id, row.values
    else:
        values = row if len(keys) > 1 else (row,)
    assert len(values) == len(keys), f"row {at} has {len(values)} values for {keys}"
    if name is None and ids is not None and not callable(ids):
        name = ids[at]
    made = name or "-".join(str((callable(ids) and ids(value)) or _short(value)) for value in values)
    return Row(f"{at}: {made}", dict(zip(keys, values, strict=True)), skipped)


def _short(value: Any) -> str:
    shown = value if isinstance(value, str) else getattr(value, "__name__", None) or repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


class _Outcome:
    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.wrong: list[tuple[Row, BaseException]] = []
        self.skipped: list[str] = []

    def due(self) -> Iterator[Row]:
        for row in self.rows:
            if row.skipped is None:
                yield row
            else:
                self.skipped.append(row.skipped)

    @contextmanager
    def told(self, row: Row) -> Iterator[None]:
        try:
            yield
        except pytest.skip.Exception as skipped:
            self.skipped.append(str(skipped))
        except WRONG as error:
            error.add_note(f"in row {row.name}")
            self.wrong.append((row, error))

    def tell(self) -> None:
        if len(self.skipped) == len(self.rows):
            pytest.skip(self.skipped[0])
        if len(self.wrong) == 1:
            raise self.wrong[0][1]
        if self.wrong:
            named = ", ".join(row.name for row, _ in self.wrong)
            message = f"{len(self.wrong)} of {len(self.rows)} rows are wrong: {named}"
            raise BaseExceptionGroup(message, [error for _, error in self.wrong])
