"""Answers that were received once and can be received again.

`files.py` says what a recording is and reads one; `replay.py` plays it as an httpx transport, `replay_server.py` over
a socket.
"""

from __future__ import annotations

from .files import Cut, Recording, Speed, find_recording, paced, pieces
from .replay import ReplayTransport
from .shelf import answer_headers

__all__ = ["Cut", "Recording", "ReplayTransport", "Speed", "answer_headers", "find_recording", "paced", "pieces"]
