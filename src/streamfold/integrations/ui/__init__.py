"""What the protocols of user interfaces have in common: how a run becomes events, and how a request becomes a run."""

from .requests import Decision, ExternalResult, UIRequest, is_shown_as, last_calls, media_part, settled
from .signing import Signatures, checked_decisions
from .streams import NONE, OnError, OnPause, UIEvent, UIWriter, error_text, played, server_sent
