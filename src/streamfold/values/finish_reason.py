"""Why an answer ended."""

from __future__ import annotations

from typing import Literal

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "unknown"]
