"""Converts replies to the response bodies or the SSE events that a server of each API sends."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from typing import Any, Protocol
from uuid import uuid4

from ..engine import SSEDecoder, StreamDecoder
from ..errors import APIError
from ..types import Reply, StreamChunk
from .formats import ApiFormat, Serialized, find_format
from .reply_writer import ReplyWriter
from .stream_serializer import StreamSerializer


class _AnswerStream(AsyncIterable[StreamChunk], Protocol):
    @property
    def reply(self) -> Reply: ...


def serialize_reply(reply: Reply, api: ApiFormat, *, id: str | None = None, model: str | None = None) -> Serialized:  # noqa: A002
    """Converts a reply to the JSON body that a server of an API sends.

    Args:
        api: "chat" for a `chat.completion`, "responses" for a `response`, "anthropic" for a `message`, "gemini" for a
            `GenerateContentResponse`, and "interactions" for an `interaction`.
        id: the id of the answer. The default is the reply's id, or a new id if the reply has none.
        model: the model in the answer. Default: the reply's model.

    Returns:
        The JSON body in `body`. `warnings` contains the reply's warnings, and one that names the tool calls that the
        API doesn't support.

    Raises:
        ProtocolError: the arguments of a tool call aren't a JSON object, and a client of the API would run the tool
            call nevertheless.
    """
    serializer = _serializer(reply.id if id is None else id, reply.model if model is None else model, api)
    writer = ReplyWriter(serializer, streams=False)
    reply = writer.writable(reply)
    writer.feed(StreamChunk(reply.text, reasoning=reply.reasoning))
    return Serialized(writer.body(reply), tuple(reply.warnings))


def parse_reply(body: Mapping[str, Any], api: ApiFormat) -> Reply:
    """Parses a complete response body as streamfold parses a provider's response.

    Raises:
        APIError: the body contains an error, or isn't a response of this API.
    """
    find_format(api)
    decoder = StreamDecoder(api)
    decoder.feed(json.dumps(body).encode())
    decoder.close()
    return decoder.reply


async def serialize_stream(
    stream: _AnswerStream,
    api: ApiFormat,
    *,
    id: str | None = None,  # noqa: A002 - the word on the wire
    model: str = "",
) -> AsyncIterator[dict[str, Any]]:
    """Yields the JSON payloads of the SSE events that a server of an API sends for an answer, while the answer's chunks
    arrive.

    Each tool call is complete in one event, after the text. If `stream` was created with `partial_tool_calls=True`, the
    events contain fragments of tool calls.

    Args:
        stream: the result of `chat_stream()`. This function doesn't close the stream, so use the stream as a context
            manager.
        api: see `serialize_reply`.
        id: the id of the answer. Default: a new id.
        model: the model in the answer.

    Raises:
        APIError: the provider's answer failed, or a tool call in the answer can't be sent to a client. The events for
            the content before the error have been yielded.
    """
    writer, events = ReplyWriter(_serializer(id, model, api)), SSEDecoder()
    try:
        async for chunk in stream:
            for payload in _payloads(events, writer.feed(chunk)):
                yield payload
        written = writer.finish(stream.reply)
    except APIError as error:
        for payload in _payloads(events, writer.rest(error.partial)):
            yield payload
        raise
    for payload in _payloads(events, written):
        yield payload


def _serializer(answer_id: str | None, model: str | None, api: ApiFormat) -> StreamSerializer:
    form = find_format(api)
    return form.serializer(
        id=answer_id or f"{form.id_prefix}{uuid4().hex}",
        model=model or "",
        created=int(time.time()),
        fill_finish_reason=True,
    )


def _payloads(events: SSEDecoder, data: bytes) -> Iterator[dict[str, Any]]:
    for event in events.feed(data):
        if event.data != "[DONE]":
            yield json.loads(event.data)
