"""streamfold with the extra `aiohttp`: httpx-aiohttp, a C parser under httpx."""

from __future__ import annotations

from functools import partial

from . import streamfold

PACKAGES = (*streamfold.PACKAGES, "httpx-aiohttp", "aiohttp")

prepare = partial(streamfold.prepare, transport="aiohttp")
