"""What only commands do, which have a process to themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
import gc
before = gc.get_threshold()
import streamfold_gateway, streamfold.limits
app = streamfold_gateway.gateway({"main": {"base_url": "http://u/v1", "model": "m"}})
assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
from streamfold.config import tune_gc_for_server
tune_gc_for_server()
assert gc.isenabled() and gc.get_threshold()[0] > before[0] and gc.get_freeze_count() > 10_000
"""


@pytest.mark.slow
def test_the_library_leaves_the_collector_alone() -> None:
    """Whose process it is says how garbage is collected; `serve` and `batch` have one to themselves."""
    subprocess.run([sys.executable, "-c", ASKED], check=True, timeout=60)
