"""The tool loop: calls are run, approved, journaled and answered."""

from .approvals import *
from .journal import *
from .run_state import *
from .tool_loop import *
from .tool_results import *
from .tool_run import *
