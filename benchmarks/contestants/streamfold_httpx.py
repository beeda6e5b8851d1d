"""streamfold over httpx, whatever the default is: the name under which `results/streams.json` has it."""

from __future__ import annotations

from functools import partial

from . import streamfold

PACKAGES = ("httpx", "pydantic")

prepare = partial(streamfold.prepare, transport="httpx")
