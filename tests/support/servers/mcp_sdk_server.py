"""An MCP server by the official SDK, versions 1 and 2: `python mcp_sdk_server.py [PORT]`, without a port over stdio.

The environment variable MCP_LOG names a file for what `wait` notes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, Image, MCPServer
except ImportError:  # version 1
    from mcp.server.fastmcp import Context, Image
    from mcp.server.fastmcp import FastMCP as MCPServer

server: Any = MCPServer("test")
PNG = b"\x89PNG\r\n\x1a\n...."


class Point(BaseModel):
    x: int
    y: int


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def point(x: int) -> Point:
    """Returns a point."""
    return Point(x=x, y=2)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("sold out")


@server.tool()
def picture() -> Image:
    """Returns an image."""
    return Image(data=PNG, format="png")


@server.tool()
def large(size: int) -> str:
    """Returns a text of this size."""
    return "x" * size


@server.tool()
async def die() -> str:
    """Ends the process."""
    os._exit(3)


@server.tool()
async def wait() -> str:
    """Waits until it is cancelled, and notes that."""
    log = Path(os.environ["MCP_LOG"])
    log.write_text("started")
    try:
        await anyio.sleep(600)
    except anyio.get_cancelled_exc_class():
        log.write_text("cancelled")
        raise
    return "done"


@server.tool()
async def report(ctx: Context) -> str:
    """Reports its progress."""
    await ctx.report_progress(1, 2, "half")
    return "done"


@server.tool()
async def more(ctx: Context) -> str:
    """Adds the tool `extra`."""
    server.add_tool(extra, description="Is new.")
    notify = getattr(ctx, "notify_tools_changed", None) or ctx.session.send_tool_list_changed
    await notify()
    return "added"


def extra() -> str:
    return "extra"


@server.resource("note://today")
def note() -> str:
    return "Buy milk."


@server.prompt()
def ask(topic: str) -> str:
    return f"Tell me about {topic}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        uvicorn.run(server.streamable_http_app(), port=int(sys.argv[1]), log_level="error")
    else:
        server.run("stdio")
