"""Types in public signatures that few programs have to name: parts of messages, facts about models, values of hooks."""

from __future__ import annotations

from ..answers import DirectModel, EndpointFacts, ModelFacts, Partial
from ..client import RequestInfo
from ..requests import Capabilities, Options, Request, TimeoutOptions
from ..values import (
    Attempt,
    AudioPart,
    FilePart,
    Growth,
    ImagePart,
    Messages,
    Prices,
    RateLimit,
    TextPart,
    ToolLike,
)

__all__ = [
    "Attempt",
    "AudioPart",
    "Capabilities",
    "DirectModel",
    "EndpointFacts",
    "FilePart",
    "Growth",
    "ImagePart",
    "Messages",
    "ModelFacts",
    "Options",
    "Partial",
    "Prices",
    "RateLimit",
    "Request",
    "RequestInfo",
    "TextPart",
    "TimeoutOptions",
    "ToolLike",
]
