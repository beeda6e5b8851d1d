"""The tool loop, approvals of tool calls, and journals that ensure that each tool call runs only once."""

from ..public_names import set_public_module
from ..types import as_tool, as_tools
from .abandoned_calls import ABANDONED, AbandonedCalls
from .approvals import Approve, PendingCall
from .journal import CallInDoubtError, CallJournal, FileJournal, StoreJournal
from .mcp_tools import McpServerError, McpTools, OnProgress
from .run_state import RunState, read_state
from .tool_loop import RunEvents, RunHooks, RunOptions, ToolRun, in_thread, resume_tools, run_tools
from .tool_results import OnToolError, ToolResult

__all__ = [
    "ABANDONED",
    "AbandonedCalls",
    "Approve",
    "CallInDoubtError",
    "CallJournal",
    "FileJournal",
    "McpServerError",
    "McpTools",
    "OnProgress",
    "OnToolError",
    "PendingCall",
    "RunEvents",
    "RunHooks",
    "RunOptions",
    "RunState",
    "StoreJournal",
    "ToolResult",
    "ToolRun",
    "as_tool",
    "as_tools",
    "in_thread",
    "read_state",
    "resume_tools",
    "run_tools",
]

set_public_module(__name__, [globals()[name] for name in __all__])
