"""The network: one POST to a stream of bytes, with timeouts, retries and redaction."""

from .cloud_auth import SIGNERS, Signer, make_signer
from .compression import body_codings, unpacked_pieces
from .deadlines import Interrupted, event_loop, run_within
from .error_redaction import clear_frames, redact_error, scrubs_traceback
from .http_client import aiohttp_problem, make_client
from .rate_limit_headers import read_rate_limit
from .redaction import HIDDEN, Redactor
from .retries import retry_delay
from .secrets import is_placeholder, secrets_in_headers, secrets_in_json, secrets_in_url
from .split_secrets import Replacement, apply_replacements, secrets_in_body
from .stream_timeouts import StreamTimeouts
from .transport import Exchange, HTTPRequest
