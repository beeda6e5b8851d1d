"""Answers as a server of each API sends them: whole, or event by event."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from typing import Any, Protocol
from uuid import uuid4

from ..deltas import Meta
from ..engine import SSEDecoder, StreamDecoder
from ..errors import APIError
from ..types import Reply, StreamChunk
from .formats import ApiFormat, Serialized, find_format
from .reply_deltas import end_deltas, has_items, keep_call_kinds, without_non_finite
from .reply_writer import DeltaOrder, ReplyWriter
from .stream_serializer import StreamSerializer


class _AnswerStream(AsyncIterable[StreamChunk], Protocol):
    """A `ChatStream`, or what stands for one."""

    @property
    def reply(self) -> Reply: ...


def serialize_reply(reply: Reply, api: ApiFormat, *, id: str | None = None, model: str | None = None) -> Serialized:  # noqa: A002
    """Returns a whole answer as the JSON body that a server of an API sends.

    Args:
        api: "chat" is a `chat.completion`, "responses" a `response`, "anthropic" a `message`, and "gemini" a
            `GenerateContentResponse`.
        id: of the answer. Default: the reply's, or a new one.
        model: as the answer names it. Default: the reply's.

    Returns:
        The answer in `body`, and the reply's warnings with one for calls that the API has no form for.

    Raises:
        ProtocolError: a call has broken arguments, and readers of the API could not see that.
    """
    serializer = _serializer(reply.id if id is None else id, reply.model if model is None else model, api)
    reply = keep_call_kinds(without_non_finite(reply), serializer.call_kinds)
    order = DeltaOrder(whole_calls=True)
    shown = order.feed(StreamChunk(reply.text, reasoning=reply.reasoning))
    rest = order.end(reply, serializer)
    about = Meta(serializer.id, serializer.model)
    body = serializer.serialize_whole(
        [about, *(end_deltas(reply, has_items=True) if has_items(reply) else [*shown, *rest])]
    )
    return Serialized(body, tuple(reply.warnings))


def parse_reply(body: Mapping[str, Any], api: ApiFormat) -> Reply:
    """Returns the reply that a whole answer is, by the same rules as one that was requested.

    Raises:
        APIError: the body is an error, or not an answer of this API.
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
    """Yields the payloads of the events that a server of an API sends while an answer arrives.

    Calls are complete in one event after the text, or in fragments if the stream was requested with
    `partial_tool_calls=True`.

    Args:
        stream: what `chat_stream()` returns. It is not closed at the end: use it as a context manager.
        api: see `serialize_reply`.
        id: of the answer. Default: a new one.
        model: as the answer names it.

    Raises:
        APIError: the answer failed, or can't be completed. The part that arrived was yielded before, without an end.
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
