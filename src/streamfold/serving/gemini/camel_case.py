"""Converts the field names in Google's JSON to camel case. Clients may also send them in snake case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def camel_case(value: Any) -> Any:
    """Converts the field names of an object to camel case. Nested objects and other values stay as they are.

    >>> camel_case({"inline_data": {"mime_type": "image/png"}})
    {'inlineData': {'mime_type': 'image/png'}}
    """
    if not isinstance(value, Mapping):
        return value
    return {camel_name(str(name)): member for name, member in value.items()}


def camel_name(name: str) -> str:
    """Returns a name in camel case.

    >>> camel_name("generation_config")
    'generationConfig'
    """
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)
