"""What Anthropic's own client makes of a streamed message."""

from __future__ import annotations

import httpx2

from mirror import payloads
from sdks import TypeOf, anthropic

__all__ = ["anthropic_message"]

EVENT = TypeOf(lambda: anthropic.types.RawMessageStreamEvent)


def anthropic_message(body: bytes) -> anthropic.types.Message:
    """The message that Anthropic's own accumulator makes of a body, after checking every event against its types."""
    for payload in payloads(body):
        if payload["type"] != "error":
            EVENT.validate_python(payload)
    head = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=head, content=body))
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(api_key="k", base_url="http://x", http_client=http, max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}]) as stream,
    ):
        return stream.get_final_message()
