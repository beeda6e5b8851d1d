"""Providers, response streams and tool runs for synchronous code, which uses plain `with` and `for`.

from streamfold.sync import Provider

with Provider.from_config("openai:gpt-6-luna") as provider:
    for chunk in provider.chat_stream("Hello!"):
        print(chunk.delta, end="")
"""

from __future__ import annotations

from ..public_names import set_public_module
from .mcp_tools import open_mcp_tools
from .provider import Provider, trim_history
from .streams import ChatStream, ToolRun
from .tools import resume_tools, run_tools

__all__ = ["ChatStream", "Provider", "ToolRun", "open_mcp_tools", "resume_tools", "run_tools", "trim_history"]

set_public_module(__name__, [globals()[name] for name in __all__])
