"""What Anthropic and Google refuse: the rules of both APIs about conversations, as checks of a body.

Each function returns the reasons for a 400, in the words of the API where they are known.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Any

from streamfold.testing import SentRequest, fail

PLACEHOLDER = "skip_thought_signature_validator"
_ID, _TOOL = re.compile(r"[a-zA-Z0-9_-]+"), re.compile(r"[a-zA-Z0-9_-]{1,128}")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


# --- Anthropic --------------------------------------------------------------------------------------------------------


def anthropic_problems(body: dict[str, Any], signatures: Collection[str] = ()) -> list[str]:
    """https://docs.anthropic.com/en/api/messages, and the messages of its refusals.

    Args:
        signatures: those of the thinking that this server wrote; it refuses any other.
    """
    return list(_anthropic(body, signatures))


def _anthropic(body: dict[str, Any], signatures: Collection[str]) -> Iterator[str]:
    turns = body["messages"]
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    if not turns or turns[0]["role"] != "user":
        yield "messages: first message must use the user role"
    roles = [turn["role"] for turn in turns]
    if any(one == two for one, two in pairwise(roles)):
        yield "messages: roles must alternate"
    waiting: list[str] = []
    seen: set[str] = set()
    for at, turn in enumerate(turns):
        where, content = f"messages.{at}", turn["content"]
        if not content:
            yield f"{where}: all messages must have non-empty content"
            continue
        if any(block.get("type") == "text" and not block["text"] for block in content):
            yield f"{where}: text content blocks must be non-empty"
        kinds = [block["type"] for block in content]
        results = [block for block in content if block["type"] == "tool_result"]
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield f"{where}: tool_result blocks must come first"
        if sorted(result["tool_use_id"] for result in results) != sorted(waiting):
            yield f"{where}: tool_result blocks without tool_use blocks immediately before, or the other way round"
        if any(result.get("content") == [] for result in results):
            yield f"{where}: empty list in a tool_result"
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        if len(seen | set(waiting)) < len(seen) + len(waiting):
            yield f"{where}: `tool_use` ids must be unique"
        seen |= set(waiting)
        yield from (f"{where}: bad id {made!r}" for made in waiting if not _ID.fullmatch(made))
        if waiting and turn["role"] != "assistant":
            yield f"{where}: tool_use in a turn of the user"
        for block in content:
            if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                yield f"{where}: input should be an object"
            if block["type"] == "thinking" and block.get("signature") not in signatures:
                yield f"{where}: Invalid `signature` in `thinking` block"
    if waiting:
        yield "tool_use ids were found without tool_result blocks immediately after"
    if turns and turns[-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill"
    tools = body.get("tools", [])
    if "tool_choice" in body and not tools:
        yield "tool_choice may only be specified while providing tools"
    for tool in tools:
        if not _TOOL.fullmatch(tool["name"]) or tool["input_schema"].get("type") != "object":
            yield f"tools: {tool['name']}"
    if json.dumps(body).count('"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    if any("cache_control" in block for turn in turns for block in turn["content"] if "thinking" in block["type"]):
        yield "cache_control on a thinking block"


# --- Google -----------------------------------------------------------------------------------------------------------

_DATA = ("text", "inlineData", "fileData", "functionCall", "functionResponse")


def google_problems(body: dict[str, Any], signatures: Collection[str] = ()) -> list[str]:
    """https://ai.google.dev/gemini-api/docs/function-calling and /thought-signatures, and the messages of refusals.

    Args:
        signatures: those that this server wrote; it refuses any other but the documented placeholder.
    """
    return [*_contents(body["contents"]), *_signatures(body["contents"], signatures), *_declarations(body)]


def _contents(contents: list[dict[str, Any]]) -> Iterator[str]:
    if not contents or contents[0]["role"] != "user":
        yield "contents must begin with a user turn"
    if contents and contents[-1]["role"] != "user":
        yield "Requests ending with a model turn are not supported"
    waiting: list[dict[str, Any]] = []
    for at, content in enumerate(contents):
        where, parts = f"contents[{at}]", content["parts"]
        if content["role"] not in ("user", "model"):
            yield f"{where}: Please use a valid role: user, model"
        if not parts:
            yield f"{where}.parts must not be empty"
        if any(len(part.keys() & set(_DATA)) != 1 for part in parts):
            yield f"{where}: required oneof field 'data' must have one initialized field"
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if results and (len(results) != len(parts) or content["role"] != "user"):
            yield f"{where}: results stand beside other parts"
        if [result["name"] for result in results] != [call["name"] for call in waiting]:
            yield f"{where}: the number and order of function response parts is not that of the function call parts"
        if [result.get("id") for result in results] != [call.get("id") for call in waiting]:
            yield f"{where}: ids of results are not those of the calls"
        if not all(isinstance(result["response"], dict) for result in results):
            yield f"{where}: Proto field is not repeating, cannot start list"
        waiting = [part["functionCall"] for part in parts if "functionCall" in part]
        if waiting and (content["role"] != "model" or contents[at - 1]["role"] != "user"):
            yield f"{where}: function call turn comes immediately after a user turn or after a function response turn"
        if not all(isinstance(call.get("args", {}), dict) for call in waiting):
            yield f"{where}: args must be an object"


def _signatures(contents: list[dict[str, Any]], signatures: Collection[str]) -> Iterator[str]:
    known = {*signatures, PLACEHOLDER}
    begin = max(
        (at for at, content in enumerate(contents)
         if content["role"] == "user" and not any("functionResponse" in part for part in content["parts"])),
        default=0,
    )  # fmt: skip
    for at, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if any(part.get("thoughtSignature", PLACEHOLDER) not in known for part in content["parts"]):
            yield f"contents[{at}]: Thought signature is not valid"
        if at > begin and calls and not calls[0].get("thoughtSignature"):
            yield f"Function call is missing a thought_signature in functionCall parts: contents[{at}]"
        placed = [part for part in content["parts"] if part.get("thoughtSignature") == PLACEHOLDER]
        if placed and (at < begin or placed != calls[:1]):
            yield f"contents[{at}]: a placeholder where none is needed"


def _declarations(body: dict[str, Any]) -> Iterator[str]:
    declared = [tool for entry in body.get("tools", []) for tool in entry.get("functionDeclarations", [])]
    yield from (f"Invalid function name {tool['name']}" for tool in declared if not _FUNCTION.fullmatch(tool["name"]))
    if "functionCallingConfig" in body.get("toolConfig", {}) and not declared:
        yield "Function calling config is set without function_declarations"


PROBLEMS: dict[str, Callable[..., list[str]]] = {"anthropic": anthropic_problems, "gemini": google_problems}
SIGNATURES = [b64encode(b"the signature of answer %d" % number).decode() for number in range(1, 9)]  # of a script


def strict(api: str, refused: list[str], *steps: Any) -> Callable[[SentRequest], Any]:
    """A turn of a script that is only given if the API would take the request."""

    def turn(sent: SentRequest) -> Any:
        if problems := PROBLEMS[api](dict(sent.body), SIGNATURES):
            refused.extend(problems)
            return fail(400, "; ".join(problems))
        return list(steps)

    return turn
