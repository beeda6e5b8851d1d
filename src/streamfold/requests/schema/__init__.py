"""JSON schemas for providers that accept only a part of the standard: named passes that report their changes.

A pass takes a schema and returns a changed copy and a list of short texts, `PLACE: what was done (why)`. What it can't
repair without changing what the schema means it leaves as it is; `moonshot_problems` and `strict_problems` say then why
the provider would refuse it.

    inline_refs     every `$ref` becomes what it stands for; a recursive one stays, and is reported
    drop_keywords   keywords that a provider does not take
    moonshot        Moonshot's flavour, for tools and answers of the hosted Kimi models
    openai_strict   the subset that OpenAI's strict mode takes

>>> inline_refs({"$defs": {"A": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A"}}})
({'properties': {'a': {'type': 'string'}}}, ['parameters.properties.a: #/$defs/A is written out'])
"""

from __future__ import annotations

from .json_schema import Passed, check_shapes, drop_keywords, inline_refs, map_subschemas
from .moonshot import moonshot, moonshot_problems
from .openai_strict import ROUTINE, openai_strict, strict_problems
from .openapi import from_openapi, openapi_subset
