"""streamfold over plain httpx, as where aiohttp is not installed, or the loop is trio's."""

from __future__ import annotations

from functools import partial

from . import streamfold

PACKAGES = ("httpx", "pydantic")

prepare = partial(streamfold.prepare, transport="httpx")
