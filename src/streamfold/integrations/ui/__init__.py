"""What the protocols of user interfaces have in common: how a run becomes events, and how a request becomes a run."""

from .requests import Decision, ExternalResult, UIRequest, media_part, settled
from .signing import Signatures, checked_decisions
from .streams import NONE, OnError, UIEvent, UIWriter, error_text, played, server_sent
