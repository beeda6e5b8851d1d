"""Commands of `streamfold`, by entry points in the group `streamfold.commands`."""

from __future__ import annotations

from .conformance import conformance
from .doctor import doctor
from .inspect import diff, inspect
from .models import models
from .swap import swap_check
