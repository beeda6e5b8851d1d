"""A request of a user interface: a conversation, and what a person decided about calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

from ...answers import ChatModel
from ...tools import RunOptions, ToolRun, resume_tools, run_tools
from ...values import (
    AudioPart,
    ConfigError,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    ToolCall,
    ToolLike,
    from_base64,
    media_type_of,
    read_data_url,
    system,
    tool_result,
)

_NOT_RUN = "not run: the conversation went on without it"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about a call.

    Attributes:
        reason: why it was denied, for the model.
        signature: of the call that was approved, if the server had signed it.
        nonce: of a signature that was checked.
    """

    call_id: str
    approved: bool
    reason: str | None = None
    signature: str | None = field(default=None, repr=False, compare=False)
    nonce: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """The result of a call that the user interface ran itself."""

    call_id: str
    content: Any
    error: bool = False


@dataclass(frozen=True, slots=True)
class UIRequest:
    """A request of a user interface.

    Attributes:
        id: identifies the conversation.
        messages: the conversation.
        decisions: what a person decided about calls of the last turn.
        results: the results of calls of the last turn that the user interface ran itself.
        body: the request as it was sent.
    """

    id: str
    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()
    results: tuple[ExternalResult, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def run(
        self,
        model: ChatModel,
        tools: Iterable[ToolLike] = (),
        /,
        *,
        instructions: str | None = None,
        state: str | None = None,
        **options: Unpack[RunOptions],
    ) -> ToolRun:
        """Returns the run that answers the request: a new one, or the one that waits for these decisions.

        Args:
            instructions: a system message to put before the conversation.
            state: what `ToolRun.dump` returned when the run paused. Without it the calls are those of the
                conversation, as the user interface sends it: whoever can send requests can then call the tools that
                need an approval with any arguments, unless the calls are signed (`secret` of `stream`).
                A `journal` keeps signed approvals from being used again; without one, this process does, and they are
                good for no other.
            tools, options: see `run_tools`. `fragments` is True by default: arguments are shown while they are written.

        Raises:
            ConfigError: a decision is about a call that waits for none; and as for `run_tools`.
        """
        messages = (*((system(instructions),) if instructions else ()), *self.messages)
        options.setdefault("fragments", True)
        options.setdefault("run_id", self.id)
        if state is None and not _has_open_calls(messages):
            return run_tools(model, messages, tools, **options)
        run = resume_tools(model, messages if state is None else state, tools, **options)
        self._tell(run)
        return run

    def _tell(self, run: ToolRun) -> None:
        """Hands the decisions and results to a run that waits for them."""
        for decision in self.decisions:
            if decision.approved:
                run.approve(decision.call_id, nonce=decision.nonce)
            else:
                run.deny(decision.call_id, decision.reason)
        waiting = {pending.call.id for pending in run.pending if pending.waits_for == "result"}
        for result in self.results:
            if result.call_id in waiting:
                run.answer(result.call_id, result.content, error=result.error)


def settled(messages: Iterable[Message]) -> list[Message]:
    """Returns a conversation in which every call has a result, except for those of its last message.

    A person may go on before a call was approved or has run: its result says so.
    """
    out: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "tool":
            waiting.pop(message.tool_call_id or "", None)
        elif waiting:
            out += [tool_result(call, _NOT_RUN, error=True) for call in waiting.values()]
            waiting = {}
        out.append(message)
        waiting |= {call.id: call for call in message.tool_calls}
    return out


def _has_open_calls(messages: tuple[Message, ...]) -> bool:
    answered: set[str | None] = set()
    for message in reversed(messages):
        if message.role != "tool":
            return any(call.id not in answered for call in message.tool_calls)
        answered.add(message.tool_call_id)
    return False


def media_part(
    where: str,
    kind: str,
    media_type: str | None,
    *,
    url: str | None = None,
    data: str | None = None,
    file_id: str | None = None,
    name: str | None = None,
) -> ContentPart:
    """Returns a part for a file of a request. Nothing is read from this machine, and nothing is fetched.

    Args:
        kind: "image", "audio", or anything else for a document.
        media_type: ignored if it is not a whole one, such as `image/*`.
        url: a data URL, or one that the provider fetches.
        data: in base64.
        file_id: of a file that the provider keeps.
        name: of a document.

    Raises:
        ConfigError: the URL has another scheme, or the data is not base64.
    """
    found = media_type if media_type and re.fullmatch(r"[\w.+-]+/[\w.+-]+", media_type) else None
    content: bytes | None = None
    try:
        if url is not None and url[:5].lower() == "data:":
            content, declared = read_data_url(url)
            url, found = None, found or declared
        elif data is not None:
            content = from_base64(data)
    except ValueError as exc:
        raise ConfigError(f"{where}: {exc}") from None
    if url is not None and not url.lower().startswith(("https://", "http://")):
        raise ConfigError(f"{where}: a URL begins with https://, http:// or data:, not {url[:20]!r}")
    if content is not None:
        found = found or media_type_of(content, name)
    if kind == "image":
        return ImagePart(content, url, file_id, found)
    if kind == "audio":
        return AudioPart(content, url, file_id, found)
    return FilePart(content, url, file_id, found, name=name)
