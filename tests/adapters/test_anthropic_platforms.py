"""The Messages API on Bedrock and on Vertex AI: another address, another framing, the same answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amazon import BODY, EVENTS, chunk, message
from folding import bytewise
from streamfold import Limits, ProtocolError, Provider, StreamDecoder, UpstreamError
from streamfold.adapters.anthropic import AnthropicAdapter, AnthropicQuirks
from streamfold.adapters.anthropic.aws_event_stream import AWSEventStream
from tables import each_row

BEDROCK = AnthropicAdapter(AnthropicQuirks(platform="bedrock"))


@each_row("cut", ["whole", "bytewise", *range(1, len(BODY), 37)])
def test_an_event_stream_at_any_cut(cut: Any) -> None:
    """However the bytes arrive, the answer is the same."""
    pieces = [BODY] if cut == "whole" else bytewise(BODY) if cut == "bytewise" else [BODY[:cut], BODY[cut:]]
    decoder = StreamDecoder(BEDROCK)
    for piece in pieces:
        decoder.feed(piece)
    decoder.close()
    assert (decoder.reply.text, decoder.reply.finish_reason) == ("Grüße", "stop")


def test_an_exception_is_an_error() -> None:
    """It ends the stream: what has been shown is the partial answer."""
    refused = message(b'{"message":"Too many"}', exception_type="throttlingException", message_type="exception")
    decoder = StreamDecoder(BEDROCK)
    decoder.feed(b"".join(map(chunk, EVENTS[:3])) + refused)
    with pytest.raises(UpstreamError, match="Too many") as caught:
        decoder.close()
    assert caught.value.type == "rate_limit_error"
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Grüße"


def test_a_damaged_message() -> None:
    """Checksums are checked, and nothing that is too large is waited for."""
    damaged = bytearray(BODY)
    damaged[40] ^= 1
    with pytest.raises(ProtocolError, match="checksum"):
        list(AWSEventStream(Limits()).feed(bytes(damaged)))
    with pytest.raises(ProtocolError, match=r"limits\.event_bytes"):
        list(AWSEventStream(Limits(event_bytes=64)).feed(BODY))


def test_a_cut_stream_is_no_answer() -> None:
    """The body ends inside a message."""
    decoder = StreamDecoder(BEDROCK)
    decoder.feed(b"".join(map(chunk, EVENTS[:3])) + chunk(EVENTS[4])[:30])
    with pytest.raises(Exception, match="before the response was complete"):
        decoder.close()


@pytest.mark.parametrize(
    ("platform", "path", "version", "has_stream"),
    [
        ("bedrock", "/model/anthropic.claude-x:0/invoke-with-response-stream", "bedrock-2023-05-31", False),
        ("vertex", "/models/anthropic.claude-x%3A0:streamRawPredict", "vertex-2023-10-16", True),
    ],
)
def test_requests(platform: str, path: str, version: str, has_stream: bool) -> None:
    """The model stands in the path, the version in the body."""
    provider = Provider.from_config(
        {
            "adapter": "anthropic",
            "base_url": "http://127.0.0.1",
            "model": "anthropic.claude-x:0",
            "quirks": {"platform": platform, "betas": ["a"]},
        }
    )
    found = provider.preview("Hi")
    body = json.loads(found.body)
    assert found.url == f"http://127.0.0.1{path}"
    assert (body["anthropic_version"], body["anthropic_beta"]) == (version, ["a"])
    assert ("model" in body, "stream" in body) == (False, has_stream)
    assert "anthropic-version" not in found.headers
