"""The tool loop: calls are run, approved, journaled and answered."""

from ..values import as_tool, as_tools, set_public_module
from .abandoned import ABANDONED, AbandonedCalls
from .approval_rules import Approve
from .approvals import PendingCall
from .journal import CallInDoubtError, CallJournal, FileJournal, StoreJournal
from .run_events import RunEvents
from .run_options import RunOptions
from .run_state import RunState, read_state
from .tool_loop import in_thread, resume_tools, run_tools
from .tool_results import OnToolError, ToolResult
from .tool_run import ToolRun

__all__ = [
    "ABANDONED",
    "AbandonedCalls",
    "Approve",
    "CallInDoubtError",
    "CallJournal",
    "FileJournal",
    "OnToolError",
    "PendingCall",
    "RunEvents",
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
