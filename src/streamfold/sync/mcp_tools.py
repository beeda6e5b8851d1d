"""The tools of MCP servers for synchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ..tools import McpTools
from .provider import Provider


@contextmanager
def open_mcp_tools(provider: Provider, tools: McpTools) -> Iterator[McpTools]:
    """A context manager that opens the tools of an MCP server for tool runs with this provider.

        with open_mcp_tools(provider, McpTools(["uvx", "mcp-server-git"])) as git:
            reply = run_tools(provider, "What changed last?", [git]).read()

    The MCP session runs on the provider's background thread. Synchronous code can't use the server's resources and
    prompts.

    Args:
        tools: the MCP tools to open. The tools are closed at the end of the block, or when the provider is closed.

    Raises:
        ConfigError, McpServerError: as for `async with McpTools(...)`.
    """
    session = _Session(tools)
    provider.thread.run(session.open, session)
    try:
        yield tools
    finally:
        provider.thread.close(session)


class _Session:
    """Opens and closes the tools in one task, as the MCP SDK requires."""

    def __init__(self, tools: McpTools) -> None:
        self._tools = tools
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._task = asyncio.create_task(self._hold())
        opened = asyncio.create_task(self._opened.wait())
        try:
            await asyncio.wait({self._task, opened}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if self._task.done():
            await self._task  # raises the error

    async def aclose(self) -> None:
        self._closing.set()
        if self._task is not None:
            if not self._opened.is_set():
                self._task.cancel()
            await asyncio.wait({self._task})

    async def _hold(self) -> None:
        async with self._tools:
            self._opened.set()
            await self._closing.wait()
