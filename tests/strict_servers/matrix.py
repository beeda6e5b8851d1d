"""Sends made conversations through the library to strict servers, and says what became of each.

`python -m strict_servers.matrix` (in `tests/`) prints the figures; `--rows FILE` adds rows that are kept elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import httpx

from streamfold import ConfigError, Message, Provider, StreamfoldError, Tool, ToolCall

from .conversations import Conversation, Turn, build, conversations, plain, verdict
from .oracle import findings
from .replies import reply
from .rules import Endpoint, load_endpoints
from .transport import StrictTransport

# Addresses and keys of endpoints come from the environment; none of them is reached.
ENVIRONMENT = {
    "AWS_BEARER_TOKEN_BEDROCK": "key",
    "AWS_REGION": "eu-west-1",
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
    "DATABRICKS_HOST": "https://example.cloud.databricks.com",
    "GOOGLE_ACCESS_TOKEN": "key",
    "GOOGLE_CLOUD_LOCATION": "europe-west1",
    "GOOGLE_CLOUD_PROJECT": "project",
}


KINDS = (
    "right",
    "refused by the server",
    "refused by us",
    "changed",
    "dropped without a warning",
    "sent although wrong",
    "failed",
    "rightly refused",
    "may be refused",
)


class Row(Protocol):
    """What a row says of its endpoint."""

    name: str
    api: str
    model: str
    profile: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a conversation at an endpoint.

    Attributes:
        kind: one of `KINDS`. "may be refused": the verdict is "either". "failed": another error.
        why: the rule, our message, or the findings.
    """

    kind: str
    why: str = ""
    basis: str = ""
    learned: bool = False
    turns: int = 0


PATHS = {"chat": "/chat/completions", "responses": "/responses", "anthropic": "", "gemini": ""}


def provider_of(row: Row, transport: httpx.MockTransport | None = None) -> Provider:
    """Returns a provider for a row: from the catalogue, or by its address where it has no such name and wire format."""
    client = httpx.AsyncClient(transport=transport) if transport else None
    shared: dict[str, Any] = {"model": row.model, "api_key": "key", "max_retries": 0, "http_client": client}
    address = {"base_url": row.settings["base_url"]} if "base_url" in row.settings else {}
    try:
        made = Provider.from_config(row.profile, **shared, **address)
        if PATHS[row.api] in made.preview("x").url:
            return made
    except ConfigError:
        if "base_url" not in row.settings:
            raise
    return Provider.from_config({"name": row.name, "adapter": row.api, **row.settings}, **shared)


async def _from_provider(api: str, turn: Turn) -> Message:
    """Returns a turn as a provider of that wire format answers it, with all that belongs to it there."""
    calls = [(call.id, call.name, call.arguments) for call in turn.calls]
    body = reply(api, turn.text, turn.reasoning or "", calls)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
    config = {"adapter": api, "base_url": "https://llm.example.com/v1", "api_key": "key", "model": "m"}
    async with httpx.AsyncClient(transport=transport) as client:
        tools = [
            Tool(name, "A tool.", {"type": "object", "properties": {}})
            for name in dict.fromkeys(call.name for call in turn.calls)
        ]
        return (await Provider.from_config(config, http_client=client).chat("Go on.", tools, stream=False)).message


async def messages_of(conversation: Conversation) -> list[Message]:
    """Builds the messages of a conversation; plain turns of one with an origin are answers of a provider."""
    calls: dict[str, ToolCall] = {}
    built: list[Message] = []
    for turn in conversation.turns:
        if conversation.origin and plain(turn) and turn.text == turn.text.strip():
            message = await _from_provider(conversation.origin, turn)
            if len(message.tool_calls) == len(turn.calls):
                calls |= {call.id: each for call, each in zip(turn.calls, message.tool_calls, strict=True)}
                built.append(message)
                continue
        built.append(build(turn, calls))
    return built


def tools_of(conversation: Conversation) -> list[Tool]:
    """Returns the tools that a conversation calls."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}
    return [Tool(name, "Looks something up.", schema) for name in conversation.tools]


async def send(conversation: Conversation, endpoint: Endpoint) -> Outcome:
    """Sends a conversation to the strict server of a row and judges what came of it."""
    transport = StrictTransport(endpoint)
    allowed, _ = verdict(conversation)
    outcome = partial(Outcome, turns=len(conversation.turns))
    warnings: Sequence[object] = ()
    try:
        messages = await messages_of(conversation)
        async with provider_of(endpoint, transport) as provider:
            answer = await provider.chat(messages, tools_of(conversation), stream=False, **endpoint.options)
        warnings = answer.warnings
    except ConfigError as error:
        if transport.received or "is not set" in str(error):  # an address without its variable is no finding
            return outcome("failed", f"ConfigError: {error}")
        kind = {"refuse": "rightly refused", "either": "may be refused", "send": "refused by us"}[allowed]
        return outcome(kind, stem(str(error)))
    except StreamfoldError as error:
        refusals = [each for _, each in transport.received if each]
        if not refusals:
            return outcome("failed", f"{type(error).__name__}: {stem(str(error))}")
        if allowed == "either":
            return outcome("may be refused", refusals[-1].rule.check)
        return outcome("refused by the server", refusals[-1].rule.check, refusals[-1].rule.basis)
    except Exception as error:
        return outcome("failed", f"{type(error).__name__}: {stem(str(error))}")
    if allowed == "refuse":
        return outcome("sent although wrong", verdict(conversation)[1])
    body = transport.received[-1][0]
    found = findings(conversation, endpoint.api, body)
    learned = any(refusal for _, refusal in transport.received)
    quiet = [each for each in found if each.problem in QUIET]
    loud = [each for each in found if each.problem not in QUIET]
    if loud:
        return outcome("changed", ", ".join(sorted({each.problem for each in loud})), learned=learned)
    if quiet and not warnings:
        return outcome("dropped without a warning", ", ".join(sorted({each.problem for each in quiet})))
    return outcome("right", learned=learned)


# What may be left out or put in, with a warning.
QUIET = {"reasoning lost", "refusal lost", "image lost", "words added"}


def stem(text: str) -> str:
    """The kind of a message: without numbers, names and ids."""
    return re.sub(r"\s+", " ", re.sub(r"[\"'`][^\"'`]*[\"'`]|\d+", "_", text))[:90]


GOOD = ("right", "rightly refused", "may be refused")


async def faults(row: Endpoint, made: Sequence[Conversation]) -> Counter[str]:
    """Counts what goes wrong with conversations at a row, by kind."""
    found = Counter(outcome.kind for _, outcome in (await run({row.name: row}, made))[row.name])
    return Counter({kind: count for kind, count in found.items() if kind not in GOOD})


async def smallest(conversation: Conversation, endpoint: Endpoint, outcome: Outcome) -> Conversation:
    """Leaves out turns as long as the outcome stays the same."""
    turns = list(conversation.turns)
    place = 0
    while place < len(turns):
        fewer = replace(conversation, turns=tuple(turns[:place] + turns[place + 1 :]))
        again = await send(fewer, endpoint) if fewer.turns else None
        if again and (again.kind, again.why) == (outcome.kind, outcome.why):
            turns = list(fewer.turns)
        else:
            place += 1
    return replace(conversation, turns=tuple(turns))


def describe(conversation: Conversation) -> str:
    """Writes a conversation in one line."""
    words = []
    for turn in conversation.turns:
        inside = []
        if turn.pieces:
            inside.append(repr(list(turn.pieces)) if turn.listed else repr(turn.text))
        if turn.images:
            inside.append("image")
        inside += [f"call {call.id[:46]!r} {call.name[:24]}({call.arguments})" for call in turn.calls]
        if turn.answers is not None:
            inside.append(f"of {turn.answers[:46]!r}")
        inside += [
            f"{name}={value!r}"
            for name in ("reasoning", "refusal", "name")
            if (value := getattr(turn, name)) is not None
        ]
        words.append(f"{turn.role}({', '.join(inside)})")
    return f"[{', '.join(words)}]" + (f" from {conversation.origin}" if conversation.origin else "")


async def run(
    rows: Mapping[str, Endpoint], made: Sequence[Conversation]
) -> dict[str, list[tuple[Conversation, Outcome]]]:
    """Sends all conversations to all rows. Conversations with images go to rows whose model sees."""
    os.environ.update(ENVIRONMENT)
    return {
        name: [(each, await send(each, row)) for each in made if row.images or not each.images]
        for name, row in rows.items()
    }


async def report(rows: Mapping[str, Endpoint], made: Sequence[Conversation], examples: bool = True) -> str:
    """Returns the figures: by row, and by kind with the smallest example."""
    outcomes = await run(rows, made)
    lines = [f"| row | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    total: Counter[str] = Counter()
    for name, pairs in outcomes.items():
        count = Counter(outcome.kind for _, outcome in pairs)
        total += count
        lines.append(f"| {name} | " + " | ".join(str(count[kind]) for kind in KINDS) + " |")
    lines.append(f"| all ({sum(total.values())}) | " + " | ".join(str(total[kind]) for kind in KINDS) + " |")
    groups: dict[tuple[str, str], list[tuple[str, Conversation, Outcome]]] = defaultdict(list)
    for name, pairs in outcomes.items():
        for conversation, outcome in pairs:
            if outcome.kind not in GOOD:
                groups[outcome.kind, outcome.why].append((name, conversation, outcome))
    for (kind, why), members in sorted(groups.items(), key=lambda each: (each[0][0], -len(each[1]))):
        names = Counter(name for name, _, _ in members)
        basis = "/".join(sorted({outcome.basis for _, _, outcome in members if outcome.basis}))
        lines.append(f"\n**{kind}: {why}** {len(members)} {f'({basis})' if basis else ''}")
        lines.append("rows: " + ", ".join(f"{name} {count}" for name, count in names.most_common(12)))
        kinds = Counter(each for _, conversation, _ in members for each in conversation.kinds)
        lines.append("kinds: " + ", ".join(f"{name} {count}" for name, count in kinds.most_common(6)))
        if examples:
            name, conversation, outcome = min(members, key=lambda each: each[2].turns)
            lines.append(f"`{name}`: {describe(await smallest(conversation, rows[name], outcome))}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, action="append", default=[], help="a file with more rows")
    parser.add_argument("--only", action="append", default=[], help="the name of a row; all, if it is left out")
    parser.add_argument("--count", type=int, default=400, help="how many conversations are made")
    given = parser.parse_args(arguments)
    rows = load_endpoints() | (load_endpoints(*given.rows) if given.rows else {})
    chosen = {name: row for name, row in rows.items() if not given.only or name in given.only}
    sys.stdout.write(anyio.run(report, chosen, conversations(given.count)) + "\n")


if __name__ == "__main__":
    main()
