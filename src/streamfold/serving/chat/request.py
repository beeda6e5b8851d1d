"""Parses the Chat Completions requests that clients send to a server.

Request fields with a streamfold option are checked and converted. Other fields of the request go to `extra_body`, and
other fields of a message go to the message's `extras`. `stream` and `stream_options` are ignored here.
"""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from ...requests import ObjectReader, Options, Request, read_format, read_messages
from ..request_parsing import read_choice, read_stop, read_tools, refuse_several


def parse_chat_request(body: Any) -> Request:
    """Parses the JSON body of a Chat Completions request.

    Raises:
        ConfigError: the body isn't a valid request, or requests several answers, log probabilities, or tools other than
            functions. The error message begins with the path of the field.
    """
    fields = ObjectReader(body)
    model, given = fields.need("model"), fields.items("messages")
    if not given:
        raise ConfigError(f"messages {'is missing' if given is None else 'is empty'}: there is nothing to answer")
    messages = read_messages(given)
    refuse_several(fields)
    for name in ("stream", "stream_options"):
        fields.any(name)
    if fields.flag("logprobs") or fields.count("top_logprobs"):
        raise ConfigError("logprobs can't be requested: log probabilities are not supported")
    tools = read_tools(fields.items("tools"), nested=True)
    choice = read_choice(fields.any("tool_choice"), tools)
    wanted = fields.object("response_format")
    limit, older = fields.limit("max_completion_tokens"), fields.limit("max_tokens")
    if limit is not None and older is not None and limit != older:
        raise ConfigError(
            "max_tokens and max_completion_tokens differ, but are two names for the same option: send one of them"
        )
    options = Options(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=older if limit is None else limit,
        stop=read_stop(fields.any("stop")),
        seed=fields.count("seed"),
        parallel_tool_calls=fields.flag("parallel_tool_calls"),
        reasoning_effort=fields.text("reasoning_effort"),  # type: ignore[arg-type]  # there will be others
        response_format=None if wanted is None else read_format(wanted),
        extra_body=fields.rest(),
    )
    return Request(model, messages, tools, choice, options)


def wants_usage(body: Any) -> bool:
    """Returns True if the client requested the token counts at the end of the stream (`stream_options.include_usage`).
    Raises ConfigError if this field isn't a boolean."""
    options = ObjectReader(body).object("stream_options")
    return bool(options and options.flag("include_usage"))
