"""The configuration of a provider that stands in for another: all of it, but for the way there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import Profile, load_profile

__all__ = ["stand_in"]

_NOWHERE = "http://test.invalid/v1"


def stand_in(
    spec: str | Mapping[str, Any] | None,
    overrides: Mapping[str, Any],
    *,
    name: str,
    adapter: str = "chat",
    model: str | None = None,
) -> Profile:
    """The profile of a provider whose key and address are not needed, and that sends nothing again unless asked to.

    Args:
        spec: as `Provider.from_config` takes it; None: a plain one of this name, with this adapter.
        model: the one to ask, if nothing else says.

    Raises:
        ConfigError: something in it is unknown or does not fit.
    """
    if spec is None:
        spec = {"name": name, "adapter": adapter, "base_url": _NOWHERE}
    elif isinstance(spec, Mapping) and "profile" not in spec:
        spec = {"name": name, "base_url": _NOWHERE, **spec}
    read = load_profile(spec, {"max_retries": 0, **overrides})
    # Headers and addresses may refer to variables that are not set where tests run.
    unneeded: dict[str, Any] = {"base_url": _NOWHERE, "api_key": None, "api_key_env": (), "headers": {}, "fallback": ()}
    return read.model_copy(update={**unneeded, "model": read.model or model or name})
