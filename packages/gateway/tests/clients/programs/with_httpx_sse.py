"""httpx and httpx-sse: a client that somebody wrote in an afternoon."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import httpx
from answering import Heard, answer_all
from httpx_sse import connect_sse
from plain import PATHS, Refused, body, read


def ask(command: dict[str, Any], heard: Heard) -> None:
    url, headers = command["base_url"] + PATHS[command["api"]], {"authorization": f"Bearer {command['key']}"}
    with (
        httpx.Client(trust_env=False, timeout=60) as client,
        connect_sse(client, "POST", url, json=body(command), headers=headers) as source,
    ):
        if source.response.is_error:
            source.response.read()
            raise Refused(source.response.json()["error"]["message"], source.response.status_code)
        read(command["api"], (event.data for event in source.iter_sse()), heard)


answer_all(ask, {name: version(name) for name in ("httpx", "httpx-sse")})
