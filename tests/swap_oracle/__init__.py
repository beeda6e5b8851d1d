"""An independent judge of requests: it reads a body again, knowing nothing of how it was written.

Every fact of a conversation (a text, an image, a call, an option) is looked for in the body. A fact that is not there,
and that no warning speaks of, is a mistake of streamfold. Only tests use it.
"""

from __future__ import annotations

from .check import Outcome, check_swap
from .conversation import Conversation
from .facts import Fact, facts_of
from .lookup import Finding

__all__ = ["Conversation", "Fact", "Finding", "Outcome", "check_swap", "facts_of"]
