"""Sends schemas through the library to endpoints that hold them to their maker's subset.

`python -m strict_servers.schema_matrix` (in `tests/`) prints the figures.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import anyio
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, _WrappedReferencingError
from referencing.exceptions import Unresolvable

from streamfold import ConfigError, InvalidReplyError, StreamfoldError, Tool

from .matrix import ENVIRONMENT, provider_of, stem
from .schema_cases import CASES, Case
from .schema_rules import SchemaEndpoint, SchemaTransport, Sent, load_schema_endpoints, schemas_of

ASKED = ("tool", "strict", "format")
KINDS = (
    "right",
    "right, not strict",
    "emulated",
    "refused by the server",
    "refused by us",
    "accepts less",
    "accepts more, unsaid",
    "not strict, unsaid",
    "failed",
    "may be refused",
)


GOOD = ("right", "right, not strict", "emulated", "may be refused")


@dataclass(frozen=True)
class Outcome:
    """What became of a schema: one of `KINDS`, and why."""

    kind: str
    why: str = ""
    sent: str = ""


def accepts(schema: Any, value: Any, listed: bool = False, filled: bool = True) -> bool:
    """Whether a schema accepts a value, as it is or as strict modes write it.

    Args:
        listed: the value is a list, which may be the only member of an object.
        filled: members that are absent may be null.
    """
    root = _rooted(schema)
    names = list((root or {}).get("properties") or {}) if isinstance(root, Mapping) else []
    values = [value, *[{names[0]: value} for _ in "1" if listed and len(names) == 1]]
    if filled:
        values += [_filled(root, each, root) for each in values]
    return any(_valid(root, each) for each in values)


def _valid(schema: Any, value: Any) -> bool:
    try:
        return Draft202012Validator(schema).is_valid(value)
    except (SchemaError, Unresolvable, _WrappedReferencingError):
        return False


def _rooted(schema: Any) -> Any:
    """A schema whose references to the root stay right where parts of it are used alone."""
    if not isinstance(schema, Mapping):
        return schema

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        return {key: "#/$defs/.root" if (key, each) == ("$ref", "#") else renamed(each) for key, each in value.items()}

    made = renamed(schema)
    return {**made, "$defs": {**made.get("$defs", {}), ".root": {k: v for k, v in made.items() if k != "$defs"}}}


def _filled(schema: Any, value: Any, root: Any) -> Any:
    """The value with null for each required member that it lacks."""
    if not isinstance(schema, Mapping):
        return value
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found: Any = root
        for step in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        return _filled(found, value, root)
    for key in ("anyOf", "oneOf"):
        for each in schema.get(key) or ():
            made = _filled(each, value, root)
            if _valid({**each, "$defs": root.get("$defs", {}), "definitions": root.get("definitions", {})}, made):
                return made
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [_filled(schema["items"], each, root) for each in value]
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        made = {name: _filled(properties.get(name, more), each, root) for name, each in value.items()}
        return {name: None for name in schema.get("required") or () if name not in value} | made
    return value


async def send(case: Case, row: SchemaEndpoint, use: str) -> Outcome:
    """Sends a schema for one use and judges what came of it."""
    transport = SchemaTransport(row, case.fits[-1], "save" if use != "format" else "")
    listed = isinstance(case.fits[0], list)
    options: dict[str, Any] = {"stream": False}
    try:
        if use == "format":
            options["response_format"] = case.given
        else:
            options["tools"] = [Tool("save", "Saves it.", case.schema, strict=True if use == "strict" else None)]
        async with provider_of(row, transport) as provider:
            reply = await provider.chat("Go on.", **options)
    except InvalidReplyError as error:
        return Outcome("failed", f"InvalidReplyError: {stem(str(error))}")
    except ConfigError as error:
        return Outcome("may be refused" if listed and use != "format" else "refused by us", stem(str(error)))
    except StreamfoldError as error:
        refusals = [refusal for _, refusal in transport.received if refusal]
        if refusals:
            sent = next(iter(schemas_of(row.api, transport.received[-1][0]))).schema
            return Outcome(
                "refused by the server",
                f"{refusals[-1].rule.check} {refusals[-1].rule.params.get('keywords', '')}"[:60],
                str(sent)[:200],
            )
        return Outcome("failed", f"{type(error).__name__}: {stem(str(error))}")
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {stem(str(error))}")
    body = transport.received[-1][0]
    held = ((body.get("toolConfig") or {}).get("functionCallingConfig") or {}).get("mode") == "VALIDATED"
    return _judge(case, use, list(schemas_of(row.api, body)), list(reply.warnings), held)


def _judge(case: Case, use: str, found: list[Sent], warnings: list[Any], held: bool) -> Outcome:
    """`held`: the model is held to the schemas of tools by another member (Gemini's VALIDATED)."""
    if not found and not any(isinstance(each, Mapping) and each for each in case.fits):
        return Outcome("right")  # nothing to say: no parameters
    if not found:
        return Outcome("emulated") if warnings else Outcome("not strict, unsaid", "no schema was sent, and no warning")
    sent = found[0]
    written = str(sent.schema)[:200]
    for value in case.fits:
        if not accepts(sent.schema, value, isinstance(value, list)):
            return Outcome("accepts less", f"{value}", written)
    loose = [each for each in case.others if accepts(sent.schema, each, isinstance(each, list), filled=False)]
    if loose and sent.use in ("strict", "format") and not warnings:
        return Outcome("accepts more, unsaid", f"{loose[0]}", written)
    asked = {
        "tool": ("tool", "strict"),
        "strict": ("strict", "tool"),
        "format": ("format", "tool", "strict", "format_loose"),
    }
    assert sent.use in asked[use]
    if use == "strict" and sent.use == "tool" and not held:
        if not warnings:
            return Outcome("not strict, unsaid", "the tool is not strict, and no warning says so")
        return Outcome("right, not strict")
    return Outcome("right")


async def faults(row: SchemaEndpoint, cases: Sequence[Case] = CASES) -> Counter[str]:
    """Counts what goes wrong with schemas at a row, by kind."""
    os.environ.update(ENVIRONMENT)
    found = Counter([(await send(case, row, use)).kind for case, use in product(cases, ASKED)])
    return Counter({kind: count for kind, count in found.items() if kind not in GOOD})


async def report(rows: Mapping[str, SchemaEndpoint], cases: Sequence[Case]) -> str:
    """Returns the figures, and each kind of fault with an example."""
    os.environ.update(ENVIRONMENT)
    groups: dict[tuple[str, str], list[tuple[str, str, Case, Outcome]]] = defaultdict(list)
    lines = ["| row | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    total: Counter[str] = Counter()
    for name, row in rows.items():
        count: Counter[str] = Counter()
        for case, use in product(cases, ASKED):
            outcome = await send(case, row, use)
            count[outcome.kind] += 1
            if outcome.kind not in GOOD:
                why = outcome.why if outcome.kind in ("refused by the server", "refused by us", "failed") else case.name
                groups[outcome.kind, why].append((name, use, case, outcome))
        total += count
        lines.append(f"| {name} | " + " | ".join(str(count[kind]) for kind in KINDS) + " |")
    lines.append(f"| all ({sum(total.values())}) | " + " | ".join(str(total[kind]) for kind in KINDS) + " |")
    for (kind, why), members in sorted(groups.items(), key=lambda each: (each[0][0], -len(each[1]))):
        where = Counter(f"{name} {use}" for name, use, _, _ in members)
        name, use, case, outcome = min(members, key=lambda each: len(str(each[2].schema)))
        lines.append(
            f"\n**{kind}: {why}** {len(members)}: " + ", ".join(f"{each} {n}" for each, n in where.most_common(14))
        )
        lines.append(
            f"`{name}` as {use}, {case.name}: {outcome.why if kind.startswith('accepts') else ''} {outcome.sent}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, action="append", default=[], help="a file with more rows")
    parser.add_argument("--only", action="append", default=[], help="the name of a row; all, if it is left out")
    given = parser.parse_args(arguments)
    rows = load_schema_endpoints() | (load_schema_endpoints(*given.rows) if given.rows else {})
    chosen = {name: row for name, row in rows.items() if not given.only or name in given.only}
    sys.stdout.write(anyio.run(report, chosen, CASES) + "\n")


if __name__ == "__main__":
    main()
