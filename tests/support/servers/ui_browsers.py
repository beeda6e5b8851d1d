"""Clients of user interfaces, for tests of what a server makes of them: they send whatever their user likes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx


class Browser:
    """A client of one protocol, with which a user may send whatever they like."""

    path = ""

    def __init__(self, client: httpx.AsyncClient, user: str, chat: str = "chat-1") -> None:
        self.client, self.user, self.chat = client, user, chat
        self.messages: list[dict[str, Any]] = []

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def say(self, text: str) -> None:
        raise NotImplementedError

    def read(self, events: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def decide(self, approved: bool) -> dict[str, Any]:
        """Returns the request that decides about the call that waits."""
        raise NotImplementedError

    async def post(self, body: dict[str, Any], user: str | None = None) -> list[dict[str, Any]]:
        """Sends a request, and returns the events of the answer; one that says so if it was refused."""
        headers = {"cookie": f"user={user or self.user}"}
        answer = await self.client.post(self.path, json=body, headers=headers)
        if answer.status_code == 400:
            return [{"type": "refused"}]
        answer.raise_for_status()
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]

    async def ask(self, text: str) -> None:
        """Asks a question in the chat, and reads the answer."""
        self.say(text)
        self.read(await self.post(self.body()))


class AISDKBrowser(Browser):
    path = "/api/chat"

    def body(self) -> dict[str, Any]:
        return copy.deepcopy({"id": self.chat, "messages": self.messages})

    def say(self, text: str) -> None:
        self.messages.append(
            {"id": f"u{len(self.messages)}", "role": "user", "parts": [{"type": "text", "text": text}]}
        )

    def read(self, events: list[dict[str, Any]]) -> None:
        if self.messages[-1]["role"] != "assistant":
            self.messages.append({"id": f"a{len(self.messages)}", "role": "assistant", "parts": []})
        parts = self.messages[-1]["parts"]
        for event in events:
            found = next((part for part in reversed(parts) if part.get("toolCallId") == event.get("toolCallId")), None)
            match event["type"]:
                case "start-step":
                    parts.append({"type": "step-start"})
                case "text-start":
                    parts.append({"type": "text", "text": ""})
                case "text-delta":
                    parts[-1]["text"] += event["delta"]
                case "tool-input-available":
                    kind, call_id = f"tool-{event['toolName']}", event["toolCallId"]
                    parts.append(
                        {"type": kind, "toolCallId": call_id, "state": "input-available", "input": event["input"]}
                    )
                case "tool-approval-request":
                    signed = {name: event[name] for name in ("signature",) if name in event}
                    found |= {"state": "approval-requested", "approval": {"id": event["approvalId"], **signed}}
                case "tool-output-available":
                    found |= {"state": "output-available", "output": event["output"]}
                case "tool-output-denied":
                    found |= {"state": "output-denied"}

    def decide(self, approved: bool) -> dict[str, Any]:
        body = self.body()
        for part in body["messages"][-1]["parts"]:
            if part.get("state") == "approval-requested":
                part["state"], part["approval"]["approved"] = "approval-responded", approved
        return body


class AGUIBrowser(Browser):
    path = "/agent"
    interrupts: list[dict[str, Any]]

    def body(self) -> dict[str, Any]:
        return copy.deepcopy({"threadId": self.chat, "runId": f"r{len(self.messages)}", "messages": self.messages})

    def say(self, text: str) -> None:
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})

    def read(self, events: list[dict[str, Any]]) -> None:
        called: dict[str, Any] = {}
        for event in events:
            match event["type"]:
                case "TOOL_CALL_START":
                    function = {"name": event["toolCallName"], "arguments": ""}
                    called = {"id": event["toolCallId"], "type": "function", "function": function}
                    self.messages.append({"id": event["parentMessageId"], "role": "assistant", "toolCalls": [called]})
                case "TOOL_CALL_ARGS":
                    called["function"]["arguments"] += event["delta"]
                case "TOOL_CALL_RESULT":
                    self.messages.append({"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"],
                                          "content": event["content"]})  # fmt: skip
                case "TEXT_MESSAGE_START":
                    self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
                case "TEXT_MESSAGE_CONTENT":
                    self.messages[-1]["content"] += event["delta"]
                case "RUN_FINISHED":
                    self.interrupts = event["outcome"].get("interrupts", [])

    def decide(self, approved: bool) -> dict[str, Any]:
        answer = {"status": "resolved", "payload": {"approved": approved}}
        sent = [{"interruptId": one["id"], "metadata": one.get("metadata"), **answer} for one in self.interrupts]
        return self.body() | {"resume": sent}


def was_refused(answer: list[dict[str, Any]]) -> bool:
    """Returns whether a request was refused, before its answer or in it."""
    return answer[-1]["type"] in ("refused", "error", "RUN_ERROR")


def calls_of(body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a request that have the arguments of a call, with the names of their members."""
    for message in body["messages"]:
        for part in message.get("parts", ()):
            if "toolCallId" in part:
                yield part, "input"
        for called in message.get("toolCalls", ()):
            yield called["function"], "arguments"


def rewrite(body: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Returns a request with other arguments of its calls."""
    body = copy.deepcopy(body)
    for place, name in calls_of(body):
        if name == "input":
            place[name] = change(place[name])
        else:
            place[name] = json.dumps(change(json.loads(place[name])), indent=3)
    return body
