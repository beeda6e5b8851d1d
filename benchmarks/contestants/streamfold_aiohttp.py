"""streamfold with `transport = "aiohttp"`."""

from __future__ import annotations

from functools import partial

from . import streamfold

PACKAGES = ("aiohttp", "httpx", "pydantic")

prepare = partial(streamfold.prepare, transport="aiohttp")
