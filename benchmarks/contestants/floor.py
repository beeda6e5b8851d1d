"""httpx and the quickest JSON parser that comes with pydantic, and nothing else: what all ratios refer to."""

from __future__ import annotations

from functools import partial

from pydantic_core import from_json

from . import bare

PACKAGES = (*bare.PACKAGES, "pydantic-core")

prepare = partial(bare.prepare, parse=from_json)
