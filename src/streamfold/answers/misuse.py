"""Clear errors where an asynchronous object is used as if it were synchronous.

Type checkers do not see these methods, so that they report the mistake too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["AsyncContext", "AsyncIteration"]


class AsyncContext:
    """Explains that an object needs `async with` instead of `with`."""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(_message(self, "async with"))

        def __exit__(self, *_: Any) -> None:
            """Never called; without it Python would complain about this method first."""


class AsyncIteration(AsyncContext):
    """Explains that an object needs `async for` instead of `for`."""

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(_message(self, "async for"))


def _message(misused: object, statement: str) -> str:
    return (
        f"{type(misused).__name__} is asynchronous: use `{statement}`, inside an `async def` function."
        " In synchronous code, use streamfold.sync"
    )
