"""The probes in the order in which they are sent; later probes depend on earlier ones."""

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

# Quirks of Chat Completions that no request to one model can show, and why. They stay as the catalogue has them.
NOT_EXAMINED = {
    "refused_members": "only frameworks are told them, and a server that ignores one answers as if it took it",
    "hosted_tools": "in whose words a server's own tools are written is documented by it; a run of one costs money",
    "refusals": "a server that leaves the member out of the prompt answers as if it took it",
    "returned_members": "what a server wants back is documented by it; one that misses it answers all the same",
    "model_in_path": "the path is part of the address, which is documented by the server",
    "schemas": "it names what a maker documents; what a server refuses is inline_refs and unsupported_keywords",
    "tool_choice_auto": "a server that refuses it refuses every tool, and its error names the member",
    "tool_choice_none": "the choice is judged by its effect, as `none`; a refusal is named there",
    "reasoning_of_thinkers": "what models that do not think refuse is seen by calling another model",
}

_THEMES = (BASICS, THINKING, CALLS, SCHEMAS, STRUCTURED, CONVERSATION, TURNS, *FAITHFUL, ERRORS, STREAM)
PROBES = tuple(probe for theme in _THEMES for probe in theme.probes)
