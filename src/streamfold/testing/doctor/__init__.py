"""Asks a server what it really does: probes, findings, a profile, and a report card."""

from .diagnosis import *
from .examine import *
from .export import *
from .listing import *
from .page import *
from .probes import *
from .profile import *
from .sending import *
from .values import *
