"""The network layer: sends HTTP requests and reads the responses, with timeouts and redaction.

exchange                   sends one request, and reads its response within the timeouts
http_client_and_proxies    creates the HTTP client of a provider
httpx_transport            creates httpx requests; closes connections that a cancelled request opened
aiohttp_transport          sends with aiohttp
httpx2_transport           sends with httpx2
websocket_transport        sends requests of the Responses API over WebSockets
timeouts_and_cancellation  computes a stream's deadlines; cancels a wait on asyncio and trio
connection_reuse           decides whether a connection may be reused
compression                decompresses response bodies piece by piece, so that memory is bounded
cloud_auth                 authenticates requests with AWS, Google and Azure credentials
rate_limit_headers         parses rate limits and retry times in response headers
transport_errors           classifies the exceptions of HTTP libraries
redaction                  finds secrets in texts and JSON, and removes them
error_redaction            removes secrets from exceptions and tracebacks

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..public_names import set_public_module
from ..urls import is_loopback
from .cloud_auth import Signer, make_signer
from .compression import body_codings, unpacked_pieces
from .error_redaction import clear_frames, redact_error, scrubs_traceback
from .exchange import Exchange
from .http_client_and_proxies import LoopBoundClient, aiohttp_problem, make_client
from .httpx_transport import HTTPRequest
from .rate_limit_headers import read_rate_limit
from .redaction import (
    HIDDEN,
    Redactor,
    Replacement,
    apply_replacements,
    is_placeholder,
    secrets_in_body,
    secrets_in_headers,
    secrets_in_json,
    secrets_in_url,
)
from .timeouts_and_cancellation import Interrupted, StreamTimeouts, event_loop, run_within, whole_answer_timeouts

__all__ = ["Redactor", "is_loopback", "make_client", "secrets_in_headers"]

set_public_module(__name__, [globals()[name] for name in __all__])
