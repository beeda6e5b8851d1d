"""Probes for the arguments of tool calls: whether the arguments arrive as the prompt requested them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from streamfold import Tool

from ...alterations import alterations, is_altered_copy, is_altered_text
from ...known_values import as_json, code, codes, filler, prompt_of, with_random_values
from ...questions import capped
from ...values import Conclusion, ProbeRequest, ProbeResponse
from ..judging import ProbeGroup, doubtful, shown, unclear

ARGUMENTS = ProbeGroup("faithfulness")


def schema_of(value: Any) -> dict[str, Any]:
    """Returns a JSON schema that a value matches."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array", "items": schema_of(value[0]) if value else {}}
        case dict():
            return {"type": "object", "properties": {name: schema_of(each) for name, each in value.items()}}
    return {"type": ["string", "null"]}


def _numbers(rng: Random) -> dict[str, Any]:
    return {
        "order": rng.randrange(10**6, 10**7),
        "above_double": 2**53 + 1 + 2 * rng.randrange(10**6),
        "largest": 2**63 - 1,
        "smallest": -(2**63),
        "zero": 0,
        "price": rng.randrange(100, 1000) + 0.1,
        "tiny": 1e-7,
        "ratio": -0.30000000000000004,
        "list": [1, rng.randrange(100), -3],
    }


def _strings(rng: Random) -> dict[str, Any]:
    value = code(rng)
    return {
        "name": f"Zoë Ångström, 東京 {value}",
        "emoji": f"👩🏽‍🚀 🦊 {rng.randrange(100)} ½",
        "padded": f"  {value} \n",
        "entities": f"&lt;b&gt; &amp; &quot;{value}&quot;",
        "tags": f"<b>{value}</b> </parameter></tool_call> <x/>",
        "quotes": 'say "yes", it\'s \\ {fine} [here]',
        "path": f"C:\\new\\table\\{value}.txt",
        "lines": f"first {value}\n\tsecond\n\nfourth",
        "digits": f"00{rng.randrange(100, 1000)}",
        "version": "1.10",
        "date": f"2026-0{rng.randrange(1, 10)}-04T05:06:07Z",
        "word": "true",
        "nothing": "null",
        "empty": "",
        "json": '{"a": [1, "b"]}',
    }


def _nesting(rng: Random) -> dict[str, Any]:
    value = code(rng)
    tree: dict[str, Any] = {"id": rng.randrange(10**6), "on": False, "none": None, "items": [], "more": {}}
    return {
        "tree": {**tree, "branches": [{"leaf": value, "size": 1}, {"leaf": "", "size": 2}]},
        "matrix": [[1, 2], [rng.randrange(100), 4]],
        "flags": [True, False],
        "one": [{"lastName": value.title(), "HTTPCode": 204}],
        "label": value,
    }


def _commands(rng: Random) -> dict[str, Any]:
    number = rng.randrange(1000)
    return {
        "install": "pip install requests && npm install left-pad",
        "script": f"curl -fsSL https://get.example.com/v{number}/install.sh | sh",
        "path": f"/srv/data/{number}/report.csv",
        "address": f"https://api.example.com/v1/items?id={number}&sort=asc#top",
        "account": "DE89370400440532013000",
        "mail": f"ada.lovelace+{number}@example.com",
        "phone": f"+44 20 7946 0{number:03}",
    }


def _long_value(rng: Random) -> dict[str, Any]:
    return {"code": code(rng), "text": filler(rng, 2_000)}


def _call_with(tool: str, what: str, make: Callable[[Random], dict[str, Any]]) -> ProbeRequest:
    """Returns a request for a tool call whose arguments the prompt dictates. The arguments differ in each
    repetition.
    """

    def fresh(rng: Random) -> ProbeRequest:
        value = make(rng)
        schema = {**schema_of(value), "required": list(value), "additionalProperties": False}
        prompt = f"Call the tool {tool} once. Its arguments must be exactly this JSON object:\n{as_json(value)}"
        tools = (Tool(tool, f"Stores {what}.", schema),)
        return ProbeRequest(tool, prompt, tools, options=capped(1536), special=what)

    return with_random_values(fresh)


def _judge_arguments(seen: ProbeResponse) -> Conclusion:
    wanted = json.loads(prompt_of(seen).partition("\n")[2])
    calls = [call for call in seen.reply.tool_calls if call.name == seen.ask]
    if not calls:
        return unclear(f"no call of {seen.ask}; the text is {shown(seen.text, 60)}")
    changed = alterations(wanted, calls[0].arguments)
    if not changed and len(calls) > 1:
        return doubtful(f"one tool call was requested, but it arrived {len(calls)} times")
    if not changed:
        return Conclusion("ok", f"{len(wanted)} arguments arrived as requested")
    if calls[0].error:
        broken = f"the arguments are not a JSON object: {shown(calls[0].raw_arguments)}"
        return doubtful(broken) if is_altered_text(as_json(wanted), calls[0].raw_arguments) else unclear(broken)
    if is_altered_copy(wanted, calls[0].arguments):
        more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
        return doubtful(f"{changed[0]}{more}")
    return unclear(f"a tool call with different arguments: {shown(calls[0].raw_arguments)}")


for _name, _question, _tool, _what, _make in (
    ("numbers", "Do numbers in arguments arrive unchanged?", "store_numbers", "numbers of all sizes", _numbers),
    ("strings", "Do strings in arguments arrive unchanged?", "store_strings", "strings of all kinds", _strings),
    ("nesting", "Do nested arguments arrive unchanged?", "store_tree", "nested values", _nesting),
    ("commands", "Do commands and URLs in arguments arrive unchanged?", "store_commands", "commands", _commands),
    ("long_value", "Does a long argument arrive complete?", "store_text", "a text of 2000 characters", _long_value),
):  # fmt: skip
    _ask = _call_with(_tool, _what, _make)
    ARGUMENTS.probe(_name, _question, _ask, whim=True, needs="one_call", repeated=True, refused=("no", ""))(
        _judge_arguments
    )


def _two_calls(rng: Random) -> ProbeRequest:
    first, second = ({"code": value, "number": rng.randrange(1000)} for value in codes(rng, 2))
    schema = {**schema_of(first), "required": list(first), "additionalProperties": False}
    prompt = (
        "Call the tool store_item twice in this turn, once for each of these two JSON objects, in this order:\n"
        f"{as_json(first)}\n{as_json(second)}"
    )
    tool = Tool("store_item", "Stores one item.", schema)
    return ProbeRequest("two", prompt, (tool,), options=capped(512))


@ARGUMENTS.probe(
    "two_calls",
    "Do two requested tool calls arrive, each once?",
    with_random_values(_two_calls),
    whim=True,
    needs="one_call",
    refused=("no", ""),
)
def _judge_two_calls(seen: ProbeResponse) -> Conclusion:
    wanted = [json.loads(line) for line in prompt_of(seen).splitlines()[1:]]
    found = [call.arguments for call in seen.reply.tool_calls if call.name == "store_item"]
    if found == wanted:
        return Conclusion("ok", "two tool calls arrived in their order, each once")
    if len(found) > 1 and any(each in wanted for each in found):
        return doubtful(f"two tool calls were requested, but these arrived: {shown(as_json(found))}")
    return unclear(f"{len(found)} call{'s' * (len(found) != 1)}")


def _one_at_a_time(rng: Random) -> ProbeRequest:
    both = _two_calls(rng)
    return replace(both, name="one", options=capped(512, parallel_tool_calls=False))


@ARGUMENTS.probe(
    "one_at_a_time",
    "Is parallel_tool_calls=False respected?",
    with_random_values(_one_at_a_time),
    apis=("chat", "responses", "anthropic"),
    whim=True,
    needs="one_call",
    refused=("no", "requests with parallel_tool_calls=False fail"),
)
def _judge_one_at_a_time(seen: ProbeResponse) -> Conclusion:
    count = len(seen.reply.tool_calls)
    if count > 1:
        return doubtful(f"{count} tool calls, although only one was allowed")
    return Conclusion("ok", f"{count} call")
