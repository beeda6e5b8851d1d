"""The subcommands that this package adds to the command `streamfold`, as entry points in the group
`streamfold.commands`.
"""

from __future__ import annotations

from .any_cut import lab
from .compare_providers import swap_check
from .conformance import conformance
from .doctor import doctor
from .inspect import diff, inspect
from .models import models
