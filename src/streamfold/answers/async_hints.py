"""Asynchronous contexts and iterators, and clear errors where one is used as if it were synchronous.

Type checkers do not see the methods that raise these, so that they report the mistake too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self


class AsyncContext:
    """Something that `async with` closes. Explains that it needs that instead of `with`."""

    if TYPE_CHECKING:

        async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(_message(self, "async with"))

        def __exit__(self, *_: Any) -> None:
            """Never called; without it Python would complain about this method first."""


class AsyncIteration:
    """Explains that an object needs `async for` instead of `for`."""

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(_message(self, "async for"))


def _message(misused: object, statement: str) -> str:
    return (
        f"{type(misused).__name__} is asynchronous: use `{statement}`, inside an `async def` function."
        " In synchronous code, use streamfold.sync"
    )
