"""Record live answers and replay them as an httpx transport; the code is in `streamfold.testing.recording`."""

from ..testing.recording import *
