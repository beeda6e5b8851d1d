"""What a model can do at its endpoint.

A quirk says how something is written for an endpoint. A capability says whether a feature is available. Undocumented
features are "unknown": the request is sent and the server decides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

Support: TypeAlias = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do at its endpoint.

    Attributes:
        tools: it accepts tools, and calls them.
        forced_choice: it can be forced to call a tool. If not, "auto" is sent, with a warning.
        images: it accepts images in messages.
        structured_output: the endpoint enforces a JSON schema on the answer. If not, the schema may be requested in
            another way (the quirk `response_format`), with a warning.
        reasoning: it reasons before it answers, so that `reasoning_effort` has a meaning.
        parallel_calls: it makes several calls in one turn.
        files: it accepts files in messages.
        audio: it accepts audio in messages.
    """

    tools: Support = "unknown"
    forced_choice: Support = "unknown"
    images: Support = "unknown"
    structured_output: Support = "unknown"
    reasoning: Support = "unknown"
    parallel_calls: Support = "unknown"
    files: Support = "unknown"
    audio: Support = "unknown"

    def of(self, name: str) -> Support:
        """Returns one capability by its name."""
        value: Support = getattr(self, name)
        return value


CAPABILITIES = tuple(field.name for field in fields(Capabilities))
