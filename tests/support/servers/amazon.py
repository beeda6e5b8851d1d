"""Amazon Bedrock on loopback: the framing of its answers, and the check of its signatures by botocore itself."""

from __future__ import annotations

import json
from base64 import b64encode
from struct import pack
from typing import Any
from urllib.parse import unquote
from zlib import crc32

ACCESS_KEY, SECRET_KEY, TOKEN = "AKIACANARY4711CANARY", "secret/Canary4711+xyz", "token/Canary4711=="


def message(payload: bytes, **headers: str) -> bytes:
    """A message of an AWS event stream, written by the specification."""
    block = b"".join(
        bytes([len(name)]) + name + b"\x07" + pack(">H", len(value)) + value
        for name, value in ((f":{name.replace('_', '-')}".encode(), text.encode()) for name, text in headers.items())
    )
    prelude = pack(">II", 16 + len(block) + len(payload), len(block))
    framed = prelude + pack(">I", crc32(prelude)) + block + payload
    return framed + pack(">I", crc32(framed))


def chunk(event: dict[str, Any]) -> bytes:
    """An event of the Messages API as Bedrock sends it."""
    inner = b64encode(json.dumps(event).encode()).decode()
    return message(json.dumps({"bytes": inner, "p": "abc"}).encode(), event_type="chunk", message_type="event")


EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_bdrk_1", "model": "claude", "content": [], "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
BODY = b"".join(map(chunk, EVENTS))


def framed_as_bedrock(sse: bytes) -> bytes:
    """The events of a recording of Anthropic's API, as Bedrock would have sent them."""
    lines = [line[6:] for line in sse.splitlines() if line.startswith(b"data: ")]
    return b"".join(chunk(json.loads(line)) for line in lines)


def head_of(request: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """Method, target, headers and body of a request as it was received."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    method, target, _ = first.split(" ")
    return method, target, {name.lower(): text for name, _, text in (line.partition(": ") for line in lines)}, body


def signature_problem(request: bytes, *, region: str, token: str | None = None, service: str = "bedrock") -> str | None:
    """What AWS would refuse about a request as it was received; None if its signature is right.

    botocore signs the same request again with the same time, and the result must be equal.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    method, target, headers, body = head_of(request)
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        return f"the scheme is {scheme!r}"
    given = dict(part.strip().split("=", 1) for part in rest.split(","))
    names = given["SignedHeaders"].split(";")
    missing = {"host", "x-amz-date"} | {name for name in headers if name.startswith(("x-amz-", "content-type"))}
    if missing - set(names):
        return f"not signed: {sorted(missing - set(names))}"
    if headers.get("x-amz-security-token") != token:
        return "the token is missing"
    signed = AWSRequest(
        method=method,
        url=f"http://{headers['host']}{target}",
        headers={name: headers[name] for name in names},
        data=body,
    )
    signed.context["timestamp"] = headers["x-amz-date"]
    judge = SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY, token), service, region)
    if given["Credential"] != judge.scope(signed):
        return f"the scope is {given['Credential']}"
    expected = judge.signature(judge.string_to_sign(signed, judge.canonical_request(signed)), signed)
    return None if given["Signature"] == expected else f"the signature of {unquote(target)} does not match"
