"""What the protocols of user interfaces have in common: how a run becomes events, and how a request becomes a run."""

from .requests import (
    Decision,
    ExternalResult,
    UIRequest,
    client_extras,
    close_open_calls,
    is_shown_as,
    last_calls,
    media_part,
    without_provider_approvals,
)
from .signing import Signatures, checked_decisions
from .streams import OnError, OnPause, UIEvent, UIWriter, error_text, run_events, server_sent
