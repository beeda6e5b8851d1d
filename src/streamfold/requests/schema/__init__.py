"""Adapts JSON schemas to providers that support only a subset of the standard.

The module `subsets` describes each endpoint's subset as data. The module `fitting` rewrites a schema for a subset and
reports every change. A rewritten schema accepts at least the same values as before. The module `openapi` converts
schemas to the older format of Google's endpoints.

>>> inline_refs({"$defs": {"A": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A"}}})
({'properties': {'a': {'type': 'string'}}}, ['parameters.properties.a: #/$defs/A was inlined'])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...public_names import import_later
from .fitting import Fitted, count_uses, fit_schema
from .json_schema import Passed, check_shapes, drop_keywords, inline_refs, schema_digest
from .subsets import SchemaRules, Subset, schema_rules, without_references

if TYPE_CHECKING:
    from .openapi import from_openapi, openapi_subset


def __getattr__(name: str) -> Any:
    return import_later(__name__, name, {".openapi": ("from_openapi", "openapi_subset")})
