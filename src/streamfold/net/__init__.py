"""The network: one POST and the pieces of its answer, with timeouts and redaction.

exchange                   one attempt: sends a request, and reads the response within the timeouts
http_client_and_proxies    makes the HTTP client of a provider
httpx_transport            requests, URLs and bodies for httpx; closes half-open connections
aiohttp_transport          sends with aiohttp
httpx2_transport           sends with httpx2
websocket_transport        sends requests of the Responses API over WebSockets
timeouts_and_cancellation  the timeouts of a stream, and cancellation on asyncio and trio
connection_reuse           whether a connection may be used again
compression                unpacks bodies in bounded pieces
cloud_auth                 signatures and tokens of clouds
rate_limit_headers         rate limits and retry times in response headers
transport_errors           classifies the exceptions of HTTP libraries
redaction                  finds secrets, and removes them
error_redaction            removes secrets from exceptions and tracebacks

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..public_names import set_public_module
from ..urls import is_loopback
from .cloud_auth import SIGNERS, Signer, make_signer
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
