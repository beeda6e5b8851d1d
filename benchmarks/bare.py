"""The bare loop, against which everything is measured: what a program does that reads one server and nothing else.

It cuts the bytes at blank lines, parses what is behind `data: `, and collects text and fragments under their index. It
knows no carriage returns but Google's, comments, errors, missing indices or early ends. Nobody could ask less of it,
and so nothing that parses the same answers event by event can cost less by much.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["BareLoop"]


class BareLoop:
    """One answer, read by the simplest means.

    Args:
        api: "chat", "responses", "anthropic" or "gemini".
        parse: reads JSON.
    """

    def __init__(self, api: str, parse: Callable[[bytes], Any] = json.loads) -> None:
        self._parse = parse
        self._read = getattr(self, f"_{api}")
        self._blank = b"\r\n\r\n" if api == "gemini" else b"\n\n"
        self._rest = b""
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self.chunks = 0

    def feed(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(self._blank)
        for event in events:
            payload = event[event.index(b"data: ") + 6 :]
            if payload != b"[DONE]":
                self.chunks += 1
                self._read(self._parse(payload))

    def collect(self, payload: dict[str, Any]) -> None:
        """An event that somebody else has read."""
        self.chunks += 1
        self._read(payload)

    def last(self, count: int) -> list[str]:
        """The last pieces of the text, at most as many as that."""
        return self._text[-count:] if count else []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def calls(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [
            (call["id"], call["name"], json.loads("".join(call["arguments"])))
            for _, call in sorted(self._calls.items())
        ]

    def _chat(self, chunk: dict[str, Any]) -> None:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if content := delta.get("content"):
                self._text.append(content)
            for entry in delta.get("tool_calls") or ():
                function = entry["function"]
                call = self._calls.get(entry["index"])
                if call is None:
                    call = {"id": entry["id"], "name": function["name"], "arguments": []}
                    self._calls[entry["index"]] = call
                call["arguments"].append(function["arguments"])

    def _responses(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "response.output_text.delta":
                self._text.append(event["delta"])
            case "response.function_call_arguments.delta":
                self._calls[event["output_index"]]["arguments"].append(event["delta"])
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                item = event["item"]
                self._calls[event["output_index"]] = {"id": item["call_id"], "name": item["name"], "arguments": []}

    def _anthropic(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "content_block_delta":
                delta = event["delta"]
                if delta["type"] == "text_delta":
                    self._text.append(delta["text"])
                else:
                    self._calls[event["index"]]["arguments"].append(delta["partial_json"])
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                block = event["content_block"]
                self._calls[event["index"]] = {"id": block["id"], "name": block["name"], "arguments": []}

    def _gemini(self, chunk: dict[str, Any]) -> None:
        for part in chunk["candidates"][0]["content"]["parts"]:
            if "text" in part:
                self._text.append(part["text"])
            else:
                call = part["functionCall"]
                arguments = [json.dumps(call["args"])]
                self._calls[len(self._calls)] = {"id": call["id"], "name": call["name"], "arguments": arguments}
