"""Nothing is changed silently. The warnings in reply.warnings report what the server did wrong and what streamfold
changed in the request.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from answers_by_api import Answer, told
from scale import some
from streamfold import ConfigError, Provider, Reply, StreamDecoder, Tool, WarningCode, system, user
from tables import each_row

BOUND_BY = [
    "requests/test_swap.py::test_nothing_is_lost_without_a_warning",
    "requests/test_strict_servers.py::test_no_refusal_over_three_turns",
    "project/test_docs.py::test_the_table_of_warnings_is_up_to_date",
]
PROVIDERS = sorted(file.stem for file in (Path(__file__).parents[2] / "providers").glob("*.toml"))
CODES = set(get_args(WarningCode))
OPTIONS: dict[str, Any] = {
    "temperature": 0.37,
    "top_p": 0.83,
    "max_output_tokens": 4321,
    "stop": ["ZQX", "QQZ"],
    "seed": 91237,
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
}
MANY = {"stop": [f"Z{at}Q" for at in range(9)], "max_output_tokens": 900_000, "reasoning_effort": "xhigh"}
TOOL = Tool("look", description="Looks.", parameters={"type": "object", "properties": {"at": {"type": "string"}}})


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


@each_row("option", [*((name, OPTIONS[name]) for name in OPTIONS), *MANY.items()], ids=str)
@each_row("name", some(PROVIDERS, 12))
def test_an_option_is_sent_or_told(name: str, option: tuple[str, Any]) -> None:
    """Each value is in the request as it was given, or a warning says otherwise, or nothing is sent at all."""
    key, value = option
    settings = {"model": "some-model", "base_url": "http://127.0.0.1:9/v1", "api_key": "k"}
    provider = Provider.from_config({"profile": name, **settings})
    try:
        preview = provider.preview([system("Short."), user("Hi")], [TOOL], **{key: value})
    except ConfigError as error:
        found = str(error)
        assert key in found
        return
    assert {warning.code for warning in preview.warnings} <= CODES
    body = preview.body if isinstance(preview.body, dict) else json.loads(preview.body)
    sent = [json.dumps(leaf).lower() for leaf in leaves(body)]
    arrived = all(json.dumps(inner).lower() in sent for inner in (value if isinstance(value, list) else [value]))
    if key == "parallel_tool_calls":  # some APIs ask the other way round: disable_parallel_tool_use
        arrived = "parallel" in json.dumps(body)
    assert arrived or preview.warnings, body


ANSWER = Answer(("Hi",), (("id-0", "look", {"at": "x"}), ("id-1", "look", {"at": "y"})))


def reply_of(body: bytes, **settings: Any) -> Reply:
    decoder = StreamDecoder("chat", **settings)
    decoder.feed(body)
    decoder.close()
    return decoder.reply


def wrong() -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """What servers do wrong, one thing at a time."""
    body = next(
        made for at in range(99)
        if b'"index": 1, "function"' in (made := told("chat", ANSWER, random.Random(at)).body) or b'"index": 1}' in made
    )  # fmt: skip
    yield "no finish reason", body.replace(b'"finish_reason": "tool_calls"', b'"finish_reason": null'), {}
    yield "an unknown finish reason", body.replace(b'"finish_reason": "tool_calls"', b'"finish_reason": "maybe"'), {}
    yield "no id", body.replace(b'"id": "id-0"', b'"id": null'), {}
    yield "one id twice", body.replace(b"id-1", b"id-0"), {}
    yield "the limit of tokens", body.replace(b'"finish_reason": "tool_calls"', b'"finish_reason": "length"'), {}
    yield "calls that were forbidden", body, {"tool_choice": "none"}
    yield "an event that is no JSON", body.replace(b"data: [DONE]", b"data: {broken\n\ndata: [DONE]"), {}
    yield "a second choice", body.replace(b"data: [DONE]", SECOND + b"data: [DONE]"), {}
    yield "an answer without anything", NOTHING, {}


CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
OTHER = {"index": 1, "delta": {"content": "other"}, "finish_reason": None}
SECOND = b"data: " + json.dumps({**CHUNK, "choices": [OTHER]}).encode() + b"\n\n"
ENDED = {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
NOTHING = b"data: " + json.dumps(ENDED).encode() + b"\n\ndata: [DONE]\n\n"


def test_a_server_that_does_nothing_wrong() -> None:
    """No warning: those that there are are worth reading."""
    assert all(not reply_of(told("chat", ANSWER, random.Random(seed)).body).warnings for seed in range(20))


@each_row("what", [what for what, _, _ in wrong()])
def test_what_a_server_did_wrong_is_told(what: str) -> None:
    """With a code of the table and a sentence."""
    body, settings = next((body, settings) for name, body, settings in wrong() if name == what)
    try:
        warnings = reply_of(body, **settings).warnings
    except Exception as error:
        assert what == "an event that is no JSON", error  # noqa: PT017 - that may be an error as well
        return
    assert warnings
    assert all(warning.code in CODES and warning.detail for warning in warnings)
