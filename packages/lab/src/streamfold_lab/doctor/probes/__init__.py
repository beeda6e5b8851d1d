"""All probes, in the order in which they are sent. Later probes depend on the results of earlier probes."""

from __future__ import annotations

from .basics import BASICS
from .calls import CALLS
from .conversation import CONVERSATION
from .errors import ERRORS
from .faithfulness import FAITHFUL
from .schemas import SCHEMAS, STRUCTURED
from .stream import STREAM
from .thinking import THINKING
from .turns import TURNS

# Chat Completions quirks that a request to one model can't detect, and why. The doctor doesn't change these settings.
NOT_EXAMINED = {
    "refused_members": "only framework integrations use these settings, and a server that"
    " ignores a setting responds normally",
    "hosted_tools": "the server's documentation lists its tools, and calling a tool costs money",
    "refusals": "a server that ignores the field responds normally",
    "returned_members": "the field is described in the server's documentation, and its absence causes no error",
    "model_in_path": "the path is part of the base URL, which the server's documentation names",
    "schemas": "documented by the provider; inline_refs and unsupported_keywords are tested instead",
    "tool_choice_auto": "a server without this setting rejects every request with tools, and its error names the field",
    "tool_choice_none": "the probes test instead whether the tool choice has an effect",
    "reasoning_of_thinkers": "the result depends on the model",
}

_THEMES = (BASICS, THINKING, CALLS, SCHEMAS, STRUCTURED, CONVERSATION, TURNS, *FAITHFUL, ERRORS, STREAM)
PROBES = tuple(probe for theme in _THEMES for probe in theme.probes)
