"""The network: one POST to a stream of bytes, with timeouts, retries and redaction."""

from .clients import aiohttp_problem, make_client
from .clocks import Clocks
from .compression import body_codings, unpacked_pieces
from .cut_secrets import Splice, secrets_in_body, spliced
from .deadlines import Interrupted, event_loop, run_within
from .exceptions import forget_locals, hides_arguments, redact_error
from .ratelimit import read_rate_limit
from .redaction import HIDDEN, Redactor
from .retries import retry_delay
from .secrets import is_placeholder, secrets_in_headers, secrets_in_json, secrets_in_url
from .signing import SIGNERS, Signer, make_signer
from .transport import Exchange, HTTPRequest
