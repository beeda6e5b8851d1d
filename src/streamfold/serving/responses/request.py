"""Parses the Responses API requests that clients send to a server.

The functions raise ConfigError for a reference to a stored object, because they have no store. Unknown fields go to
`extra_body`.

If the provider has the Responses API, `parse_responses_request` keeps tools of all kinds. For other providers,
`parse_responses_as_functions` converts the client's tools to functions: see `tools_as_functions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import ConfigError
from ...requests import ObjectReader, Options, Request, kind_of, read_format, read_items
from ...types import ReadToolChoice, ReplyWarning, Tool, system
from ..request_parsing import read_choice, read_tools, refuse_several, unread_fields
from .tools_as_functions import ClientTools, ToolsAsFunctions, has_only_function_tools

_KEPT = {
    "previous_response_id": "send the whole conversation as input",
    "conversation": "send the whole conversation as input",
    "background": "leave it out, and read the response while it arrives",
    "prompt": "send the instructions themselves",
}


@dataclass(frozen=True, slots=True)
class FunctionRequest:
    """A parsed request for a provider that supports only function tools.

    Attributes:
        tools: the client's tools, by the names of the functions that replace them.
        warnings: one for each part of the request that was dropped.
    """

    request: Request
    tools: ClientTools = field(default_factory=dict)
    warnings: tuple[ReplyWarning, ...] = ()


def parse_responses_request(body: Any) -> Request:
    """Parses the JSON body of a Responses API request.

    Raises:
        ConfigError: the body isn't a valid request, refers to stored objects, or requests log probabilities. The error
            message begins with the path of the field.
    """
    fields = ObjectReader(body)
    entries, choice = fields.items("tools"), fields.any("tool_choice")
    items = _read_input(fields.any("input"))
    if has_only_function_tools(body):
        tools = read_tools(entries, nested=False)
        return _request(fields, items, tools, read_choice(choice, tools))
    # If there are tools of other kinds, all tools are sent unchanged.
    for at, entry in enumerate(entries or ()):
        ObjectReader(entry, f"tools[{at}]").need("type")
    request = _request(fields, items, (), "none" if choice == "none" else "auto")
    said = {"tools": entries, "tool_choice": choice}
    extra = {**request.options.extra_body, **{name: value for name, value in said.items() if value is not None}}
    return replace(request, options=replace(request.options, extra_body=extra))


def parse_responses_as_functions(body: Any) -> FunctionRequest:
    """Parses the JSON body of a Responses API request, and replaces each tool that isn't a function with a function.

    Raises:
        ConfigError: the tool choice requires a hosted tool. Also raised in the cases that `parse_responses_request`
            lists.
    """
    fields = ObjectReader(body)
    if has_only_function_tools(body):
        return FunctionRequest(parse_responses_request(body))
    entries, choice = fields.items("tools"), fields.any("tool_choice")
    items = _read_input(fields.any("input"))
    functions = ToolsAsFunctions(entries, items)
    tools, written = tuple(functions.tools), list(functions.items(items))
    request = _request(fields, written, tools, read_choice(functions.choice(choice), tools))
    return FunctionRequest(request, functions.declared, tuple(functions.warnings))


def _request(
    fields: ObjectReader, items: list[tuple[str, Any]], tools: tuple[Tool, ...], choice: ReadToolChoice
) -> Request:
    for name, instead in _KEPT.items():
        if fields.any(name) not in (None, False):
            raise ConfigError(f"{name} can't be used, because nothing is stored here between requests; {instead}")
    refuse_several(fields)
    if fields.count("top_logprobs"):
        raise ConfigError("top_logprobs can't be requested: log probabilities are not supported")
    model = fields.need("model")
    messages = tuple(read_items(items))
    if instructions := fields.text("instructions"):
        messages = (system(instructions), *messages)
    for name in ("stream", "stream_options"):
        fields.any(name)
    reasoning, text = fields.object("reasoning"), fields.object("text")
    wanted = text.object("format") if text else None
    options = Options(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=fields.limit("max_output_tokens"),
        parallel_tool_calls=fields.flag("parallel_tool_calls"),
        reasoning_effort=reasoning.text("effort") if reasoning else None,  # type: ignore[arg-type]
        response_format=None if wanted is None else read_format(wanted),
        extra_body=unread_fields(fields, reasoning=reasoning, text=text),
    )
    return Request(model, messages, tools, choice, options)


def _read_input(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, str) and given:
        return [("input", {"role": "user", "content": given})]
    if isinstance(given, list) and given:
        for at, item in enumerate(given):
            if isinstance(item, dict) and item.get("type") == "item_reference":
                raise ConfigError(
                    f"input[{at}] refers to an item by its id, and nothing is stored here: send the item itself, as"
                    " clients do with store: false"
                )
        return [(f"input[{at}]", item) for at, item in enumerate(given)]
    if given in (None, "", []):
        raise ConfigError(f"input is {'missing' if given is None else 'empty'}: there is nothing to answer")
    raise ConfigError(f"input must be a string or a list of items, not {kind_of(given)}")
