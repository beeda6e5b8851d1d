"""The network: one POST to a stream of bytes, with timeouts, retries and redaction."""

from .cloud_auth import SIGNERS, Signer, make_signer
from .compression import body_codings, unpacked_pieces
from .deadlines import Interrupted, event_loop, run_within
from .error_redaction import forget_locals, hides_arguments, redact_error
from .http_client import aiohttp_problem, make_client
from .rate_limit_headers import read_rate_limit
from .redaction import HIDDEN, Redactor
from .retries import retry_delay
from .secrets import is_placeholder, secrets_in_headers, secrets_in_json, secrets_in_url
from .split_secrets import Splice, secrets_in_body, spliced
from .stream_timeouts import Clocks
from .transport import Exchange, HTTPRequest
