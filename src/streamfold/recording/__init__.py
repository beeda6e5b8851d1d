"""Records HTTP responses of model servers, and replays them.

The module `record` captures the responses that an httpx client receives. The module `replay` contains an httpx
transport that answers requests with recordings.
"""

from __future__ import annotations

from ..public_names import set_public_module
from .expectations import as_expectation
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
    wait,
)
from .request_matching import RecordedRequest, ReplayMismatch

__all__ = [
    "Cut",
    "FaultTransport",
    "Match",
    "RecordTransport",
    "Recording",
    "ReplayMismatch",
    "ReplayTransport",
    "Speed",
    "cleaned_body",
    "open_recording",
]

set_public_module(__name__, [globals()[name] for name in __all__])
