"""A request of `useChat` as a conversation: https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message.

An assistant message has the turns of a whole run, with `step-start` between them. Results are inside the parts of
their calls, and so are the decisions of a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamfold import ConfigError, Message, ToolCall, tool_result
from streamfold.config import did_you_mean
from streamfold.serving import ObjectReader
from streamfold.types import ContentPart, TextPart

from ..ui import (
    Decision,
    ExternalResult,
    Signatures,
    UIRequest,
    checked_decisions,
    client_extras,
    close_open_calls,
    last_calls,
    media_part,
    without_provider_approvals,
)
from .tool_metadata import read_call

_ROLES = ("system", "user", "assistant")
_DENIED = "not run: the call was denied"
_UNFINISHED = ("input-streaming", None)


@dataclass(frozen=True, slots=True)
class ChatRequest(UIRequest):
    """A request of `useChat`.

    Attributes:
        message_id: the id of the assistant message that the answer continues; None if it begins a new one.
    """

    message_id: str | None = field(default=None, kw_only=True)


def read_request(body: Any, *, secret: str | None = None, owner: str = "", trust_client: bool = False) -> ChatRequest:
    """Reads the body that `DefaultChatTransport` sends.

    Args:
        secret: with which `stream` signed the calls: then only these can be approved or denied, by the same owner, with
            these arguments, each once.
        owner: the user or tenant who sent it, as your application knows them. Nothing that is kept of the run is found
            by another one. By default all requests have one owner.
        trust_client: the client may call the tools with any arguments: its decisions are not checked.

    Raises:
        ConfigError: it is something else; the error names the place. Or a decision is not signed.
    """
    fields = ObjectReader(body, "the request")
    given, chat = fields.must("messages", list), fields.text("id") or ""
    turns = _MessageReader(given)
    last = given[-1] if given else None
    continued = last.get("id") if isinstance(last, Mapping) and last.get("role") == "assistant" else None
    return ChatRequest(
        id=chat,
        messages=tuple(turns.messages),
        decisions=checked_decisions(
            turns.decisions,
            last_calls(turns.messages),
            None if secret is None else Signatures(secret, owner, chat),
            "messages",
        ),
        results=tuple(turns.results),
        body=body,
        owner=owner,
        signed=secret is not None,
        trust_client=trust_client,
        message_id=continued,
    )


def read_messages(messages: Iterable[Any]) -> list[Message]:
    """Reads UI messages. Raises ConfigError that names the place of anything else."""
    return _MessageReader(list(messages)).messages


class _MessageReader:
    """The turns of UI messages, and what was decided about the calls of the last one."""

    def __init__(self, given: list[Any]) -> None:
        self.decisions: list[Decision] = []
        self.results: list[ExternalResult] = []
        read: list[Message] = []
        for at, message in enumerate(given):
            read += self._message(message, f"messages[{at}]")
            if read and read[-1].role == "user":
                self.decisions = []  # the person went on instead
        self.messages = without_provider_approvals(close_open_calls(read), keep_last=True)

    def _message(self, message: Any, where: str) -> Iterator[Message]:
        fields = ObjectReader(message, where)
        role, parts = fields.string("role"), fields.must("parts", list)
        if role not in _ROLES:
            raise ConfigError(f"{where}.role is {role!r}{did_you_mean(role, _ROLES)}. Allowed: {', '.join(_ROLES)}")
        if role == "assistant":
            yield from self._steps(parts, where)
        elif role == "system":
            yield Message(
                "system", "".join(text.text for text in _contents(parts, where) if isinstance(text, TextPart))
            )
        else:
            contents = list(_contents(parts, where))
            single = contents[0] if len(contents) == 1 else None
            yield Message("user", single.text if isinstance(single, TextPart) else tuple(contents))

    def _steps(self, parts: list[Any], where: str) -> Iterator[Message]:
        step = _StepReader()
        for at, part in enumerate(parts):
            kind = ObjectReader(part, f"{where}.parts[{at}]").string("type")
            if kind == "step-start":
                yield from self._turn(step)
                step = _StepReader()
            else:
                step.add(kind, part, f"{where}.parts[{at}]")
        yield from self._turn(step)

    def _turn(self, step: _StepReader) -> Iterator[Message]:
        if not (step.text or step.calls or step.refusal):
            return
        self.decisions, self.results = step.decisions, step.results
        yield Message(
            "assistant",
            step.text or None,
            tuple(step.calls),
            reasoning=step.reasoning,
            refusal=step.refusal,
            extras=step.extras,
        )
        yield from step.answers


class _StepReader:
    """One turn of the model."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning: str | None = None
        self.refusal: str | None = None
        self.extras: dict[str, Any] = {}
        self.calls: list[ToolCall] = []
        self.answers: list[Message] = []
        self.decisions: list[Decision] = []
        self.results: list[ExternalResult] = []

    def add(self, kind: str, part: Mapping[str, Any], where: str) -> None:
        """Adds a part. Sources, files and data of the application are not for the model."""
        if kind == "text":
            self._say(ObjectReader(part, where).string("text"), _kept(part, "providerMetadata"))
        elif kind == "reasoning":
            self.reasoning = (self.reasoning or "") + ObjectReader(part, where).string("text")
        elif kind == "data-streamfold":
            self.extras |= client_extras(ObjectReader(part, where).inner("data").mapping("extras") or {})
        elif kind == "dynamic-tool":
            self._call(ObjectReader(part, where).string("toolName"), part, where)
        elif kind.startswith("tool-"):
            self._call(kind.removeprefix("tool-"), part, where)

    def _say(self, text: str, kept: Mapping[str, Any]) -> None:
        if kept.get("refusal"):
            self.refusal = (self.refusal or "") + text
        else:
            self.text += text

    def _call(self, name: str, part: Mapping[str, Any], where: str) -> None:
        state = part.get("state")
        if part.get("providerExecuted"):  # what the provider wants of it is in the extras
            return
        if state in _UNFINISHED or part.get("preliminary"):  # cut off while it was written: never a call
            return
        value = part["input"] if part.get("input") is not None else part.get("rawInput")
        kept = _kept(part, "callProviderMetadata") or _kept(part, "resultProviderMetadata")
        call = read_call(ObjectReader(part, where).string("toolCallId"), name, {} if value is None else value, kept)
        self.calls.append(call)
        approval = ObjectReader(part, where).object("approval") or ObjectReader({}, f"{where}.approval")
        if state == "approval-responded":
            reason = approval.any("reason")
            self.decisions.append(
                Decision(
                    call.id,
                    approval.must("approved", bool),
                    reason if isinstance(reason, str) else None,
                    approval.text("signature"),
                    approval.text("id"),
                )
            )
        elif state == "output-available":
            self._answer(call, _result(part.get("output"), where), error=False)
        elif state == "output-error":
            self._answer(call, ObjectReader(part, where).string("errorText"), error=True)
        elif state == "output-denied":
            reason = approval.any("reason")
            self.answers.append(tool_result(call, f"{_DENIED}: {reason}" if reason else _DENIED, error=True))

    def _answer(self, call: ToolCall, content: Any, *, error: bool) -> None:
        self.answers.append(tool_result(call, content, error=error))
        self.results.append(ExternalResult(call.id, content, error))


def _kept(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns what the writer left in the metadata of a part."""
    metadata = part.get(name)
    found = metadata.get("streamfold") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _contents(parts: list[Any], where: str) -> Iterator[ContentPart]:
    for at, part in enumerate(parts):
        place = f"{where}.parts[{at}]"
        fields = ObjectReader(part, place)
        kind = fields.string("type")
        if kind == "text":
            yield TextPart(fields.string("text"))
        elif kind == "file":
            media_type, name = fields.string("mediaType"), fields.text("filename")
            yield media_part(place, _kind(media_type), media_type, url=fields.string("url"), name=name)


def _result(output: Any, where: str) -> Any:
    """Returns the content of a result: text, JSON data, or the parts that the writer wrote."""
    match output:
        case {"type": "content", "value": list(items)}:
            return [_result_part(item, f"{where}.output.value[{at}]") for at, item in enumerate(items)]
    return output


def _result_part(item: Any, where: str) -> ContentPart:
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "file-data" | "image-data" | "media", "data": str(data), "mediaType": str(media_type)}:
            return media_part(where, _kind(media_type), media_type, data=data)
        case {"type": "file-url" | "image-url", "url": str(url), **rest}:
            media_type = ObjectReader(rest, where).text("mediaType") or ("image" if item["type"] == "image-url" else "")
            return media_part(where, _kind(media_type), media_type, url=url)
        case {"type": "file-id", "fileId": str(file_id)}:
            return media_part(where, "document", None, file_id=file_id)
    raise ConfigError(f"{where} is not a part of a result: {item!r:.80}")


def _kind(media_type: str) -> str:
    return media_type.partition("/")[0].lower()
