"""What is called: models, providers, streams, fallbacks and the tool loop."""

from .batch_request import BatchRequest
from .batches import BatchClient
from .fallback import Fallback
from .hooks import Hooks, RequestInfo, read_hooks
from .preview import Preview
from .provider import Provider
