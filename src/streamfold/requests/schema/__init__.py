"""JSON schemas for providers that accept only a part of the standard.

`subsets` is what each endpoint accepts, as data; `fitting` rewrites a schema into it and reports every change. A schema
is never made to accept less. `openapi` is the older subset of Google's endpoints, which is another language.

>>> inline_refs({"$defs": {"A": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A"}}})
({'properties': {'a': {'type': 'string'}}}, ['parameters.properties.a: #/$defs/A is written out'])
"""

from __future__ import annotations

from .fitting import Fitted, count_uses, fit_schema
from .json_schema import Passed, check_shapes, drop_keywords, inline_refs, schema_digest
from .openapi import from_openapi, openapi_subset
from .subsets import SchemaRules, Subset, schema_rules, without_references
