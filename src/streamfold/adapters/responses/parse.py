"""Parses request bodies of the Responses API, as a server gets them: the inverse of `encode.py`.

Nothing is kept here from one request to the next, so what refers to something that was kept is refused. What we do not
know goes on in `extra_body`.
"""

from __future__ import annotations

from typing import Any

from ...requests import Fields, Options, Request, ResponseFormat, kind_of, read_items
from ...values import ConfigError, Message, system, user
from ..requested import read_choice, read_format, read_tools, refuse_several

__all__ = ["parse_request"]

_KEPT = {
    "previous_response_id": "send the whole conversation as input",
    "conversation": "send the whole conversation as input",
    "background": "leave it out, and read the answer as it comes",
    "prompt": "send the instructions themselves",
}


def parse_request(body: Any) -> Request:
    """Returns the request in a body.

    Raises:
        ConfigError: it is none, or can't be answered here: what refers to something that the server has kept, tools
            that are no functions, log probabilities. The message begins with the path to what is wrong.
    """
    fields = Fields(body)
    for name, instead in _KEPT.items():
        if fields.any(name) not in (None, False):
            raise ConfigError(f"{name} can't be used: nothing is kept here from one request to the next; {instead}")
    refuse_several(fields)
    if fields.count("top_logprobs"):
        raise ConfigError("top_logprobs can't be asked for: log probabilities are not handed on")
    model = fields.need("model")
    messages = _read_input(fields.any("input"))
    if instructions := fields.text("instructions"):
        messages = (system(instructions), *messages)
    for name in ("stream", "stream_options"):
        fields.any(name)
    tools = read_tools(fields.items("tools"), nested=False)
    choice = read_choice(fields.any("tool_choice"), tools)
    reasoning, text = fields.object("reasoning"), fields.object("text")
    options = Options(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=fields.count("max_output_tokens"),
        parallel_tool_calls=fields.flag("parallel_tool_calls"),
        reasoning_effort=reasoning.text("effort") if reasoning else None,  # type: ignore[arg-type]
        response_format=_format(text),
        extra_body=_rest(fields, reasoning, text),
    )
    return Request(model, messages, tools, choice, options)


def _format(text: Fields | None) -> ResponseFormat | None:
    wanted = text.object("format") if text else None
    return None if wanted is None else read_format(wanted)


def _rest(fields: Fields, *groups: Fields | None) -> dict[str, Any]:
    rest = fields.rest()
    for name, group in zip(("reasoning", "text"), groups, strict=True):
        if group is not None and (left := group.rest()):
            rest[name] = left
    return rest


def _read_input(given: Any) -> tuple[Message, ...]:
    if isinstance(given, str) and given:
        return (user(given),)
    if isinstance(given, list) and given:
        for at, item in enumerate(given):
            if isinstance(item, dict) and item.get("type") == "item_reference":
                raise ConfigError(
                    f"input[{at}] refers to an item by its id, and nothing is stored here: send the item itself, as"
                    " clients do with store: false"
                )
        return tuple(read_items((f"input[{at}]", item) for at, item in enumerate(given)))
    if given in (None, "", []):
        raise ConfigError(f"input is {'missing' if given is None else 'empty'}: there is nothing to answer")
    raise ConfigError(f"input must be a string or a list of items, not {kind_of(given)}")
