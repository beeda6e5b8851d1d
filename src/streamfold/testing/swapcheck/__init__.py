"""Whether a conversation can go to another provider: what would be sent, and what becomes of everything that is in it.

Nothing is sent, and no key is needed. The request is made as it always is; then its body is decoded again by code that
knows nothing of how it was written, and every fact of the conversation is looked for in it. A fact that is not there
and that no warning speaks of is a mistake of streamfold, and is told as one.
"""

from __future__ import annotations

from .check import Outcome, check_swap
from .conversation import Conversation, read_conversation
from .facts import Fact, facts_of
from .lookup import Finding

__all__ = ["Conversation", "Fact", "Finding", "Outcome", "check_swap", "facts_of", "read_conversation"]
