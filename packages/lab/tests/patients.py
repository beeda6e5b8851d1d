"""A server of Chat Completions in this process, with the quirks, the dialect and the faults that a test plants in it.

`ChatQuirks` says what may be sent to an endpoint. This server takes it for the truth about itself and refuses
everything else, so that an examination has to find exactly that.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpx

from streamfold.adapters.chat import ChatQuirks
from streamfold.deltas import Delta, Finish, ReasoningDelta, TextDelta
from streamfold.faults import Fault
from streamfold.recording import FaultTransport
from streamfold.serving.chat import ChatSerializer
from streamfold.types import ToolCallDelta, Usage

MODELS = {"object": "list", "data": [{"id": "patient-1", "object": "model", "max_model_len": 4096}]}
KNOWN = {
    "model", "messages", "stream", "tools", "tool_choice", "temperature", "stop", "parallel_tool_calls",
    "reasoning_effort", "response_format", "stream_options", "max_tokens", "max_completion_tokens", "seed",
    "random_seed",
}  # fmt: skip
MARKUP = {
    "hermes": '<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>"
    "{arguments}<|tool_call_end|><|tool_calls_section_end|>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>",
    "mistral": "[TOOL_CALLS]{name}[ARGS]{arguments}",
    "llama3": '<|python_tag|>{{"name": "{name}", "parameters": {arguments}}}',
}


class Refused(Exception):
    """The server does not take the request."""


@dataclass
class Patient:
    """A server.

    Attributes:
        quirks: what it takes.
        dialect: how it writes calls into the text; None: it parses them.
        thinks: it reasons before each answer.
        ignores_none: it makes calls although the request forbids them.
        ends_early: it says that it has finished when it was cut by the limit.
        echo: a text that is in all its errors, and in the ids of its answers.
        faults: happen to its answers, one after the other: the first one to the first answer, and so on.
        turns: how often each of them happens; None: always.
        requests: the bodies that came.
    """

    quirks: ChatQuirks = field(default_factory=ChatQuirks)
    dialect: str | None = None
    thinks: bool = False
    ignores_none: bool = False
    ends_early: bool = False
    echo: str = ""
    faults: Sequence[Fault] = ()
    turns: int | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)

    def client(self) -> httpx.AsyncClient:
        """A client whose requests come here."""
        inner = httpx.MockTransport(self.respond)
        faulty = [FaultTransport(inner, [fault]) for fault in self.faults]
        return httpx.AsyncClient(transport=_Turns(inner, faulty, self.turns))

    def respond(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request, without faults."""
        if not request.url.path.startswith("/v1/") or request.url.path.endswith(("/responses", "/messages")):
            return httpx.Response(404, json={"error": {"message": "there is nothing here"}})
        if request.method == "GET":
            return httpx.Response(200, json=MODELS)
        body = json.loads(request.content)
        self.requests.append(body)
        try:
            self._check(body)
        except Refused as refused:
            error = {"message": f"{refused} {self.echo}", "type": "invalid_request_error", "param": None, "code": None}
            return httpx.Response(400, json={"error": error})
        if body["model"] != "patient-1":
            error = {"message": "The model does not exist", "type": "invalid_request_error", "code": "model_not_found"}
            return httpx.Response(404, json={"error": error})
        events = list(self._events(body))
        if body.get("stream") is False:
            return httpx.Response(200, json=in_one_piece(events))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Stream(events))

    # --- what it takes ------------------------------------------------------------------------------------------------

    def _check(self, body: dict[str, Any]) -> None:
        quirks = self.quirks
        known = set(KNOWN) - ({"max_completion_tokens", "max_tokens"} - {quirks.max_tokens_field})
        known -= {"seed", "random_seed"} - {quirks.seed_field}
        known -= set() if quirks.stream_usage else {"stream_options"}
        known -= set() if quirks.effort_grades else {"reasoning_effort"}
        final = {"continue_final_message", "add_generation_prompt"}
        known |= final if quirks.continues == "continue_final_message" else set()
        known |= {quirks.thinking_switch or "", "reasoning_split" if quirks.reasoning_split else ""}
        for name in body:
            _refuse(name not in known, f"unknown parameter: {name}")
        _refuse(not isinstance(body["messages"], list), "messages must be a list")
        self._check_messages(body["messages"])
        for tool in body.get("tools", ()):
            self._check_schema(tool["function"]["parameters"])
        self._check_choice(body)
        self._check_format(body.get("response_format"))
        _refuse(quirks.stop_max is not None and len(body.get("stop", ())) > (quirks.stop_max or 0), "too many stops")
        says = "json" in json.dumps(body["messages"]).lower()
        mode = (body.get("response_format") or {}).get("type") == "json_object"
        _refuse(quirks.says_json and mode and not says, "messages must contain the word json")

    def _check_messages(self, messages: list[dict[str, Any]]) -> None:
        quirks = self.quirks
        members = {"role", "content", "tool_calls", "tool_call_id", quirks.reasoning_field}
        members |= {"prefix"} if quirks.continues == "prefix" else set()
        members |= {"name"} if quirks.message_names else set()
        members |= {"reasoning_details"} if quirks.reasoning_details else set()
        for message in messages:
            role, content = message["role"], message.get("content")
            for name in message:
                _refuse(name not in members, f"unknown member of a message: {name}")
            _refuse(role == "developer" and not quirks.developer_role, "unknown role developer")
            _refuse(role in ("user", "system") and not content and not quirks.empty_turns, "empty content")
            if isinstance(content, list):
                _refuse(role == "tool" and not quirks.result_images, "images are for users only")
            calls = message.get("tool_calls", ())
            missing = quirks.reasoning_required and calls and message.get(quirks.reasoning_field or "") is None
            _refuse(bool(missing), "the reasoning of this turn is missing")
            for call in calls:
                _refuse(quirks.call_signatures and "extra_content" not in call, "thought signature is missing")
                short = re.fullmatch("[A-Za-z0-9]{9}", call["id"])
                _refuse(quirks.call_ids == "nine_alphanumeric" and not short, "ids have nine letters and digits")

    def _check_schema(self, schema: Any) -> None:
        if isinstance(schema, dict):
            for name, value in schema.items():
                _refuse(name == "$ref" and self.quirks.inline_refs, "$ref is not supported")
                _refuse(name in self.quirks.unsupported_keywords, f"unsupported keyword {name}")
                self._check_schema(value)

    def _check_choice(self, body: dict[str, Any]) -> None:
        choice = body.get("tool_choice", "auto")
        limited = isinstance(choice, dict) and choice.get("type") == "allowed_tools"
        _refuse(limited and not self.quirks.allowed_tools, "unknown tool_choice")
        forced = choice == "required" or (isinstance(choice, dict) and not limited)
        if forced and not self.quirks.forced_while_thinking:
            _refuse(self._is_thinking(body), "a tool choice can't be forced in thinking mode")

    def _check_format(self, wanted: Any) -> None:
        if wanted is None:
            return
        allowed = {"json_schema": ("json_schema", "json_object"), "json_object": ("json_object",), "tool": ()}
        _refuse(wanted["type"] not in allowed[self.quirks.response_format], "response_format is not supported")
        strict = wanted["type"] == "json_schema" and "strict" in wanted["json_schema"]
        schema = wanted["json_schema"]["schema"] if strict else {}
        if strict and self.quirks.strict_output:
            _refuse(schema.get("additionalProperties") is not False, "additionalProperties must be false")
        else:
            _refuse(strict, "unknown parameter: strict")

    # --- what it says -------------------------------------------------------------------------------------------------

    @property
    def _reasons(self) -> bool:
        quirks = self.quirks
        return self.thinks or bool(
            quirks.reasoning_field or quirks.thinking_switch or quirks.reasoning_details or quirks.reasoning_split
            or not quirks.forced_while_thinking
        )  # fmt: skip

    def _is_thinking(self, body: dict[str, Any]) -> bool:
        off = (
            body.get("thinking") == {"type": "disabled"}
            or body.get("enable_thinking") is False
            or body.get("reasoning") == {"enabled": False}
            or body.get("reasoning_effort") == "none"
        )
        return self._reasons and not off

    def _events(self, body: dict[str, Any]) -> Iterator[bytes]:
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        serializer = ChatSerializer(id=f"chatcmpl-1{self.echo}", model="patient-1", created=1, include_usage=asked)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 10_000
        yield serializer.begin()
        tokens = 0
        for delta in self._deltas(body):
            if isinstance(delta, TextDelta | ReasoningDelta) or (isinstance(delta, ToolCallDelta) and delta.arguments):
                tokens += 1
                if tokens > limit:
                    yield serializer.feed(Finish("stop", "stop") if self.ends_early else Finish("length", "length"))
                    break
            yield from re.findall(rb"[^\n]*\n\n", self._rewritten(serializer.feed(delta)))
        read = len(json.dumps([body["messages"], body.get("tools", [])])) // 4
        serializer.feed(Usage(read, tokens, read + tokens))
        yield from re.findall(rb"[^\n]*\n\n", serializer.finish())

    def _rewritten(self, event: bytes) -> bytes:
        """Writes reasoning as this server does."""
        field_name = self.quirks.reasoning_field or "reasoning_content"
        if not self.quirks.reasoning_details:
            return event.replace(b'"reasoning_content"', f'"{field_name}"'.encode())
        return re.sub(
            rb'"reasoning_content":("[^"]*")', rb'"reasoning_details":[{"type":"reasoning.text","text":\1}]', event
        )

    def _deltas(self, body: dict[str, Any]) -> Iterator[Delta]:
        thought = self._is_thinking(body)
        if thought and (not self.quirks.reasoning_split or body.get("reasoning_split")) and self.dialect != "think":
            yield from (ReasoningDelta(piece) for piece in ("Let me", " think", "."))
        elif thought or self.dialect == "think":
            yield from (TextDelta(piece) for piece in ("<think>", "Let me think.", "</think>", "\n"))
        calls = self._calls(body)
        for number, (name, arguments) in enumerate(calls):
            if self.dialect in MARKUP:
                yield from map(
                    TextDelta, _words(MARKUP[self.dialect].format(name=name, arguments=arguments, number=number))
                )
                continue
            yield ToolCallDelta(number, f"call{number:05}", name)
            yield from (ToolCallDelta(number, arguments=piece) for piece in _words(arguments))
        if not calls or "one short sentence" in _question(body):
            yield from map(TextDelta, _words(_said(body)))
        parsed = calls and self.dialect not in MARKUP
        yield Finish("tool_calls", "tool_calls") if parsed else Finish("stop", "stop")

    def _calls(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        tools, choice, question = body.get("tools", []), body.get("tool_choice", "auto"), _question(body)
        names = [tool["function"]["name"] for tool in tools]
        if not tools or (choice == "none" and not self.ignores_none) or body["messages"][-1]["role"] == "tool":
            return []
        if isinstance(choice, dict):
            allowed = choice.get("allowed_tools", {}).get("tools", [choice])
            return [_called(allowed[0]["function"]["name"], "Paris")]
        wanted = [name for name in names if name in question]
        if not wanted and choice == "required":
            wanted = names[:1]
        twice = "London" in question and body.get("parallel_tool_calls") is not False
        return [_called(name, city) for name in wanted for city in (("Paris", "London") if twice else ("Paris",))]


def _called(name: str, city: str) -> tuple[str, str]:
    from streamfold_lab.doctor.questions import NOTE_TEXT

    arguments: dict[str, Any] = {"get_weather": {"city": city}, "save_note": {"text": NOTE_TEXT}}.get(name, {})
    return name, json.dumps(arguments, ensure_ascii=False)


def _question(body: dict[str, Any]) -> str:
    content = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _said(body: dict[str, Any]) -> str:
    question = _question(body)
    if body["messages"][-1]["role"] == "tool":
        return "It is 18 degrees and sunny in Paris."
    last = body["messages"][-1]
    if "days of the week" in question:
        days = "monday tuesday wednesday thursday friday saturday sunday"
        goes_on = last.get("prefix") or body.get("continue_final_message")
        return days.removeprefix(last["content"]) if goes_on else days
    if "Repeat this line" in question:
        return question.partition(": ")[2]
    if "Count" in question:
        counted = " ".join(map(str, range(1, 101)))
        for stop in body.get("stop", []):
            counted = counted.partition(stop)[0]
        return counted
    if "capital of France" in question:
        return '{"capital": "Paris", "population": 2100000}'
    if "17 times 23" in question:
        return "391"
    return "red" if "Which colour" in question else "Hello there, how are you today?"


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+", text)


def in_one_piece(events: Sequence[bytes]) -> dict[str, Any]:
    """Returns the answer of a stream as a server sends it in one piece."""
    answer: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    finish = None
    for event in filter(None, b"".join(events).split(b"\n\n")):
        data = event.removeprefix(b"data: ")
        if data == b"[DONE]":
            continue
        payload = json.loads(data)
        answer.update({name: value for name, value in payload.items() if name != "choices" and value is not None})
        for choice in payload["choices"]:
            finish = choice.get("finish_reason") or finish
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    _add_calls(message.setdefault("tool_calls", []), value)
                elif value is not None and name != "role":
                    message[name] = value if message.get(name) is None else message[name] + value
    return {**answer, "object": "chat.completion", "choices": [
        {"index": 0, "message": message, "finish_reason": finish}
    ]}  # fmt: skip


def _add_calls(calls: list[dict[str, Any]], pieces: Sequence[dict[str, Any]]) -> None:
    for piece in pieces:
        if piece["index"] == len(calls):
            calls.append({"id": piece["id"], "type": "function", "function": {"name": "", "arguments": ""}})
        function = calls[piece["index"]]["function"]
        function["name"] += piece["function"].get("name") or ""
        function["arguments"] += piece["function"].get("arguments") or ""


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise Refused(why)


class _Turns(httpx.AsyncBaseTransport):
    """Gives each fault its turn, and keeps them away from the list of models and from answers in one piece."""

    def __init__(
        self, plain: httpx.AsyncBaseTransport, faulty: Sequence[httpx.AsyncBaseTransport], turns: int | None
    ) -> None:
        self._plain, self._faulty, self._turns = plain, faulty, turns
        self._answers = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET" or not self._faulty or b'"stream": false' in await request.aread():
            return await self._plain.handle_async_request(request)
        turn, which = divmod(self._answers, len(self._faulty))
        self._answers += 1
        over = self._turns is not None and turn >= self._turns
        return await (self._plain if over else self._faulty[which]).handle_async_request(request)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, events: list[bytes]) -> None:
        self.events = [event for event in events if event]
        self._left = iter(self.events)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for event in self._left:
            return event
        raise StopAsyncIteration


class PatientServer:
    """A patient on loopback. `patient` may be replaced while it runs."""

    def __init__(self) -> None:
        self.patient = Patient()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # heads and events are written apart, and the client waits for both

            def do_GET(self) -> None:
                self.answer("GET")

            def do_POST(self) -> None:
                self.answer("POST")

            def answer(self, method: str) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                request = httpx.Request(method, f"http://patient.test{self.path}", content=content)
                response = outer.patient.respond(request)
                body = b"".join(getattr(response.stream, "events", response.stream))
                self.send_response(response.status_code)
                self.send_header("content-type", response.headers["content-type"])
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@contextmanager
def serving_patient() -> Iterator[PatientServer]:
    """A patient on loopback, as long as the block runs."""
    made = PatientServer()
    thread = threading.Thread(target=made.http.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.http.shutdown()
        thread.join()
        made.http.server_close()
