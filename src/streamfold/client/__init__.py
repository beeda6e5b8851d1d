"""What is called: models, providers, streams, fallbacks and the tool loop."""

from .answer import *
from .batch_request import *
from .batches import *
from .connections import *
from .extract import *
from .failover import *
from .fallback import *
from .hooks import *
from .preview import *
from .provider import *
