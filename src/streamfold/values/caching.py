"""Marks for prompt caching: what stands before a mark is to be kept in the provider's cache.

https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching describes the API that has such marks. Other
providers cache without being asked, and are sent none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from .config_errors import ConfigError

_Lifetime: TypeAlias = Literal["5m", "1h"]
CacheMark: TypeAlias = bool | _Lifetime


def check_cache_mark(mark: Any, what: str) -> None:
    """Raises ConfigError for a mark that is neither true nor false nor a lifetime."""
    if not isinstance(mark, bool) and mark not in get_args(_Lifetime):
        raise ConfigError(f"{what}: cache must be True, False, '5m' or '1h', not {mark!r}")


def read_cache_control(value: Any, where: str) -> CacheMark:
    """Reads Anthropic's `cache_control`, which tools for other APIs use too.

    >>> read_cache_control({"type": "ephemeral"}, ""), read_cache_control({"type": "ephemeral", "ttl": "1h"}, "")
    (True, '1h')

    Raises:
        ConfigError: it has another form.
    """
    if value is None:
        return False
    match value:
        case {"type": "ephemeral", **rest} if isinstance(value, Mapping) and rest.keys() <= {"ttl"}:
            lifetime: Any = rest.get("ttl") or True
            check_cache_mark(lifetime, where)
            return lifetime  # type: ignore[no-any-return]
    raise ConfigError(f'{where} must be {{"type": "ephemeral"}}, with or without a ttl, not {value!r:.80}')
