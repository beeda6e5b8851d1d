"""Answers that were received once and can be received again.

`files.py` defines recordings, reads and writes them; `record.py` makes them from live answers that pass through httpx;
`replay.py` plays them as an httpx transport, `replay_server.py` over a socket.
"""

from __future__ import annotations

from ..values import set_public_module
from .capture import cleaned_body
from .draft import RecordingDraft, failure_in
from .expectations import expected, in_words
from .fault_transport import FaultTransport
from .files import Cut, Recording, Sent, Speed, find_recording, open_recording, paced, pieces
from .record import RecordTransport, recording_client
from .replay import ReplayTransport
from .request_matching import ReplayMismatch, Request, requested_model
from .sockets import Connection, serving
from .store import Match, PlayedAnswer, RecordingStore, Source, answer_headers, load_source

__all__ = [
    "FaultTransport",
    "Match",
    "RecordTransport",
    "Recording",
    "ReplayMismatch",
    "ReplayTransport",
    "Speed",
]

set_public_module(__name__, [globals()[name] for name in __all__])
