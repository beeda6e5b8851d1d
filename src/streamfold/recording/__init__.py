"""Answers that were received once and can be received again.

`files.py` defines recordings, reads and writes them; `record.py` makes them from live answers that pass through httpx;
`replay.py` plays them as an httpx transport, `replay_server.py` over a socket.
"""

from __future__ import annotations

from ..values import set_public_module
from .capture import cleaned_body
from .draft import RecordingDraft, failure_in
from .expectations import as_expectation, expected
from .fault_transport import FaultTransport
from .files import Cut, Recording, SentExchange, Speed, find_recording, open_recording, split_body, with_delays
from .record import RecordTransport, recording_client
from .replay import ReplayTransport
from .request_matching import RecordedRequest, ReplayMismatch, requested_model
from .sockets import Connection, serving
from .store import Match, RecordingSelector, ReplayedResponse, Source, answer_headers, load_source

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
