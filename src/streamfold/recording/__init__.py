"""Answers that were received once and can be received again.

`files.py` defines recordings, reads and writes them; `record.py` makes them from live answers that pass through httpx;
`replay.py` plays them as an httpx transport, `replay_server.py` over a socket.
"""

from __future__ import annotations

from ..public_names import set_public_module
from .expectations import as_expectation, expected
from .record import RecordingDraft, RecordTransport, cleaned_body, failure_in, recording_client
from .recording import Cut, Recording, SentExchange, Speed, find_recording, open_recording, split_body, with_delays
from .replay import (
    FaultTransport,
    Match,
    RecordingSelector,
    ReplayedResponse,
    ReplayTransport,
    Source,
    answer_headers,
    load_source,
)
from .request_matching import RecordedRequest, ReplayMismatch, requested_model

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
