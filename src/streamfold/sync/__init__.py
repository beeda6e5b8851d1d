"""Providers, streams and tool runs for synchronous code; the code is in `streamfold.client.sync`."""

from ..client.sync import *
from ..client.sync import __all__ as __all__
