"""Requests from user interfaces: conversations, approvals and their signatures, and the results of tools that the user
interface ran.

The signature of a tool call consists of a nonce, and of a hash of the owner, the conversation, the tool call and the
nonce. The journal of a tool run stores the nonces, so that each approval is accepted only once.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Unpack

from streamfold import ChatModel, ConfigError, Message, ToolCall, ToolRun, run_tools, system, tool_result
from streamfold.serving import canonical_json, from_base64, media_type_of, read_data_url
from streamfold.tools import ABANDONED, AbandonedCalls, RunOptions, read_state, resume_tools
from streamfold.types import AudioPart, ContentPart, FilePart, ImagePart, ToolLike

_MESSAGE_MEMBERS = ("role", "tool_calls", "function_call", "tool_call_id", "name")


@dataclass(frozen=True, slots=True)
class Decision:
    """A user's decision about a tool call.

    Attributes:
        call_id: the id of the tool call in the user interface.
        reason: why the user denied the tool call, as text for the model.
        signature: the signature that the client sent back; None if the tool call wasn't signed.
        nonce: the nonce of a signature that has been checked; otherwise the approval's id, which the client chose.
    """

    call_id: str
    approved: bool
    reason: str | None = None
    signature: str | None = field(default=None, repr=False, compare=False)
    nonce: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """The result of a tool call that the user interface itself ran."""

    call_id: str
    content: Any
    error: bool = False


@dataclass(frozen=True, slots=True)
class UIRequest:
    """A request from a user interface.

    All attributes come from the client, except `owner`, `signed` and `trust_client`.

    Attributes:
        id: the id of the conversation, which the client chose. Store a conversation's data under its owner and its id.
        messages: the messages of the conversation.
        decisions: the user's decisions about the tool calls of the last response.
        results: the results of tool calls of the last response that the user interface itself ran.
        body: the request body, as the client sent it.
        owner: the user or tenant who sent the request, as identified by your application.
        signed: true if signatures prove that the decisions are for these tool calls and this owner.
        trust_client: true if the client may call the tools with any arguments.
    """

    id: str
    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()
    results: tuple[ExternalResult, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)
    owner: str = ""
    signed: bool = False
    trust_client: bool = False

    @property
    def resumes(self) -> bool:
        """True if the request continues a paused run: it contains decisions, or its messages end with tool calls or
        tool results.
        """
        last = self.messages[-1] if self.messages else None
        return bool(self.decisions) or (last is not None and (last.role == "tool" or bool(last.tool_calls)))

    def run(
        self,
        model: ChatModel,
        tools: Iterable[ToolLike] = (),
        /,
        *,
        instructions: str | None = None,
        state: str | EllipsisType | None = ...,
        **options: Unpack[RunOptions],
    ) -> ToolRun:
        """Returns the run that answers the request. The run is new, or it is the paused run that waits for the
        request's decisions.

        Args:
            instructions: a system message to put before the conversation. The run then leaves out the client's own
                system and developer messages, unless `trust_client` is true.
            state: the result of `ToolRun.dump` when the last run of this owner and conversation paused. Pass None if no
                run is paused; then no decision is accepted. If the request continues the paused run (`resumes`), tool
                calls, arguments and conversation come from the state, and only the decisions come from the client.
                Otherwise the user has sent a new message. The journal then records the paused run's tool calls as
                denied, and you should replace the saved state. By default, the method assumes that your application
                saves no states.
            tools, options: see `run_tools`. `partial_tool_calls` is True by default, so that the client can show
                arguments while they stream. Decisions about a saved state need a `journal`, because two simultaneous
                requests may contain the same approval.

        Raises:
            ConfigError: a decision can't be checked, because both the state and the secret are missing, or because the
                journal is missing. Also raised if a decision matches no pending tool call in id and arguments, if the
                run began so long ago that the journal may have deleted its records, and in the cases that `run_tools`
                describes.
        """
        conversation = self.messages if self.trust_client else without_provider_approvals(self.messages)
        if instructions and not self.trust_client:  # only the application writes instructions
            conversation = [message for message in conversation if message.role not in ("system", "developer")]
        messages = (*((system(instructions),) if instructions else ()), *conversation)
        options.setdefault("partial_tool_calls", True)
        if options.setdefault("owner", self.owner) != self.owner:
            raise ConfigError("the owner of a run comes from its request: pass owner= to read_request")
        paused = state if isinstance(state, str) and self.resumes and read_state(state).calls else None
        if paused is not None:
            run = resume_tools(model, paused, tools, **options)
            self._decide(run)
            if self.decisions and not self.trust_client and options.get("journal") is None:
                raise ConfigError(
                    "decisions about a saved state need a journal, which ensures that each decision is used only"
                    ' once: pass the same journal= to each run, such as FileJournal("calls") or, within one'
                    ' process, StoreJournal("memory")'
                )
        elif state is not ... and self.decisions and not self.trust_client:  # a signature doesn't replace a state
            raise ConfigError(
                f"no run of this conversation waits for a decision about the call {self.decisions[0].call_id!r}:"
                " the run has ended, or the conversation continued without it"
            )
        elif _has_open_calls(messages):
            run = resume_tools(model, messages, tools, **options)
            self._decide_about_conversation(run)
        elif self.decisions:
            raise ConfigError(f"no call of the conversation waits for a decision about {self.decisions[0].call_id!r}")
        else:
            run = run_tools(model, messages, tools, **options)
            run.abandoned = AbandonedCalls(state if isinstance(state, str) else None, is_shown_as)
        run.chat_id = self.id
        return run

    def _decide(self, run: ToolRun) -> None:
        """Applies the client's decisions and results to a run whose state the server has saved.

        Raises:
            ConfigError: a decision or result is for a tool call that isn't pending.
        """
        shown = last_calls(self.messages)
        for decision in self.decisions:
            if self.trust_client:
                names = (pending.call.id for pending in run.pending)
                call_id = next((name for name in names if is_shown_as(name, decision.call_id)), decision.call_id)
            else:
                call = run.awaiting_approval(decision.nonce or "")
                if not is_shown_as(call.id, decision.call_id):
                    raise ConfigError(
                        f"the decision about the call {decision.call_id!r} has the id of another call's approval"
                    )
                _check_same(call, shown.get(decision.call_id))
                call_id = call.id
            if decision.approved:
                run.approve(call_id)
            else:
                run.deny(call_id, decision.reason)
        results = {result.call_id: result for result in self.results}
        for waiting in run.pending:
            name = next((name for name in results if is_shown_as(waiting.call.id, name)), None)
            if waiting.waits_for == "result" and name is not None:
                _check_same(waiting.call, shown.get(name))
                run.answer(waiting.call.id, results[name].content, error=results[name].error)

    def _decide_about_conversation(self, run: ToolRun) -> None:
        """Applies the client's decisions and results to a run whose tool calls come from the client's request.

        Raises:
            ConfigError: no signature proves that the model made these tool calls.
        """
        if self.decisions and not (self.signed or self.trust_client):
            raise ConfigError(
                f"the decision about the call {self.decisions[0].call_id!r} can't be checked: there is no run of this"
                " conversation that waits for it. Pass the state of the run that paused (state=), sign the calls"
                " (secret=, for read_request and stream), or pass trust_client=True to read_request if the client may"
                " call these tools with any arguments"
            )
        for decision in self.decisions:
            nonce = decision.nonce if self.signed else None
            if decision.approved:
                run.approve(decision.call_id, nonce=nonce)
            else:
                run.deny(decision.call_id, decision.reason, nonce=nonce)
        waiting = {pending.call.id for pending in run.pending if pending.waits_for == "result"}
        for result in self.results:
            if result.call_id in waiting:
                run.answer(result.call_id, result.content, error=result.error)


def _check_same(call: ToolCall, shown: ToolCall | None) -> None:
    """Raises ConfigError if the tool call in the client's conversation differs from the pending tool call in name or
    arguments.
    """
    if shown is not None and (shown.name, _as_shown(shown.arguments)) != (call.name, _as_shown(call.arguments)):
        raise ConfigError(
            f"the call {shown.id!r} in the conversation isn't the pending call: its name or its arguments differ"
        )


def _as_shown(arguments: dict[str, Any]) -> str:
    """Returns tool call arguments as JSON text, with numbers rounded as in JavaScript, where 2**53 + 1 equals 2**53."""
    return canonical_json(_as_doubles(arguments))


def _as_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value)
    return value


def _has_open_calls(messages: tuple[Message, ...]) -> bool:
    answered: set[str | None] = set()
    for message in reversed(messages):
        if message.role != "tool":
            return any(call.id not in answered for call in message.tool_calls)
        answered.add(message.tool_call_id)
    return False


# --- conversations of clients -----------------------------------------------------------------------------------------


def close_open_calls(messages: Iterable[Message]) -> list[Message]:
    """Adds a result to each tool call without one, except for the tool calls of the last message.

    A user may send a new message before a tool call is approved or has ended. Such a tool call gets a result that
    reports this to the model.
    """
    out: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "tool":
            waiting.pop(message.tool_call_id or "", None)
        elif waiting:
            out += [tool_result(call, ABANDONED, error=True) for call in waiting.values()]
            waiting = {}
        out.append(message)
        waiting |= {call.id: call for call in message.tool_calls}
    return out


def without_provider_approvals(messages: Iterable[Message], *, keep_last: bool = False) -> list[Message]:
    """Removes from a client's conversation the approvals of tool calls that a provider runs on MCP servers.

    A client could forge such an approval as the result of a tool call. For the Responses API, a client could also forge
    an `mcp_approval_request` and an `mcp_approval_response` in an assistant message's provider data. The results of
    approved tool calls stay in the conversation.

    Args:
        keep_last: true: keep the tool calls of the last response that need approval, so that the user can decide about
            them. Their results are removed.
    """
    given = list(messages)
    last = max((at for at, message in enumerate(given) if message.role != "tool"), default=-1) if keep_last else -1
    kept: list[Message] = []
    gone: set[str | None] = set()
    for at, message in enumerate(given):
        if message.role == "tool":
            if message.tool_call_id not in gone:
                kept.append(message)
            continue
        gone = {call.id for call in message.tool_calls if call.kind == "approval"}
        output = message.extras.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        items = [
            {name: value for name, value in item.items() if name != "approval_request_id"}
            for item in items
            if "approval" not in str(item.get("type")).lower()
            or (at == last and item.get("type") == "mcp_approval_request" and item.get("id") in gone)
        ]
        calls = tuple(call for call in message.tool_calls if at == last or call.id not in gone)
        extras = message.extras if output is None else {**message.extras, "output": items}
        if message.content or calls or items or not gone:
            kept.append(replace(message, tool_calls=calls, extras=extras))
    return kept


def client_extras(extras: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the provider data (extras) of a client's message, without fields that would change the message itself.

    streamfold merges extras into the message of a Chat Completions request. It adds the items of the extra `output` to
    a Responses request. The extras of a model's responses never contain the fields that this function removes.
    """
    kept = {name: value for name, value in extras.items() if name not in _MESSAGE_MEMBERS}
    if isinstance(output := kept.get("output"), list):
        kept["output"] = [
            item for item in output if not isinstance(item, dict) or item.get("role", "assistant") == "assistant"
        ]
    return kept


def last_calls(messages: Sequence[Message]) -> dict[str, ToolCall]:
    """Returns the tool calls of the last response, by tool call id. The conversation may contain their results."""
    for message in reversed(messages):
        if message.role != "tool":
            return {call.id: call for call in message.tool_calls}
    return {}


def is_shown_as(call_id: str, shown: str) -> bool:
    """Returns True if a user interface may show the tool call `call_id` under the id `shown`. For a repeated id, it
    shows `ID~2`.
    """
    return shown == call_id or re.fullmatch(re.escape(call_id) + r"~\d+", shown) is not None


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
    """Returns a content part for a file in a client's request, without reading or downloading the file.

    Args:
        kind: "image", "audio", or anything else for a document.
        media_type: the media type of the file; ignored if it is incomplete, such as `image/*`.
        url: a data URL, or a URL that the provider downloads.
        data: the data of the file in base64.
        file_id: the id of a file that was uploaded to the provider.
        name: the file name of a document.

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


# --- signatures -------------------------------------------------------------------------------------------------------


class Signatures:
    """Signs the tool calls of an owner's conversation that need approval.

    Args:
        secret: the signing secret.
        owner: the user or tenant, as identified by the application.
        chat_id: the id of the conversation.

    Raises:
        ConfigError: the secret is empty, for example because an environment variable isn't set.
    """

    def __init__(self, secret: str, owner: str, chat_id: str) -> None:
        if not secret:
            raise ConfigError("secret is empty: pass a text that only your servers know")
        self._secret = secret
        self._about = [owner, chat_id]

    async def of(self, run: ToolRun, shown: Callable[[str], str]) -> dict[str, str]:
        """Returns the signatures of the run's pending tool calls, by tool call id. A tool call that the client may have
        invented gets no signature.

        Args:
            shown: returns the id under which the user interface shows a tool call.
        """
        signed: dict[str, str] = {}
        for waiting in run.pending:
            if waiting.call.kind == "approval":
                raise ConfigError(
                    f"the call {waiting.call.id!r} of {waiting.call.name} is run by the provider, and can't be signed:"
                    " save the state of the run, and pass it as state="
                )
            if waiting.waits_for == "approval":
                call = replace(waiting.call, id=shown(waiting.call.id))
                if (nonce := await run.approval_nonce(waiting, call)) is not None:
                    signed[waiting.call.id] = self._signature(call, nonce)
        return signed

    def check(self, call: ToolCall | None, given: str | None) -> str | None:
        """Returns the nonce of a signature; None if the signature isn't valid for this tool call."""
        nonce = (given or "").partition(".")[0]
        if call is None or given is None:
            return None
        expected = self._signature(call, nonce).encode("utf-8", "surrogatepass")
        return nonce if hmac.compare_digest(expected, given.encode("utf-8", "surrogatepass")) else None

    def _signature(self, call: ToolCall, nonce: str) -> str:
        text = canonical_json([*self._about, call.id, call.name, call.arguments, nonce])
        digest = hmac.new(self._secret.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"{nonce}.{digest.hexdigest()}"


def checked_decisions(
    decisions: Iterable[Decision],
    calls: Mapping[str, ToolCall],
    signatures: Signatures | None,
    where: str,
) -> tuple[Decision, ...]:
    """Checks the signatures of decisions. Returns the decisions with the nonces of their signatures.

    Args:
        calls: the tool calls of the last response, by tool call id.
        where: the path of the decisions in the request, for error messages.

    Raises:
        ConfigError: the request contains two decisions about one tool call, or a decision's signature isn't valid for
            its tool call.
    """
    found: dict[str, Decision] = {}
    for decision in decisions:
        if decision.call_id in found:
            raise ConfigError(f"{where}: there are two decisions about the call {decision.call_id!r}")
        if signatures is not None:
            nonce = signatures.check(calls.get(decision.call_id), decision.signature)
            if nonce is None:
                kind = "approval" if decision.approved else "denial"
                raise ConfigError(
                    f"{where}: the {kind} of the call {decision.call_id!r} is not signed for these arguments, in this"
                    " conversation and for this owner"
                )
            decision = replace(decision, nonce=nonce)
        found[decision.call_id] = decision
    return tuple(found.values())
