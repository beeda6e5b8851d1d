"""The base class of adapters, which prepare and encode requests and decode the events of answers.

An adapter is a stateless value; state belongs into the engine or into a dialect. Other packages add adapters with an
entry point in the group `streamfold.adapters`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ..errors import ConfigError, ErrorInfo, allowed_values_hint, error_info
from ..requests import (
    NO_FAMILY,
    HistoryRules,
    HostedEndpoint,
    OptionRules,
    Rules,
    apply_rules,
    check_hosted,
    continue_stored,
    describe_missing,
    emulatable_capabilities,
    fit_history,
    fit_options,
    fit_sampling,
    missing_capabilities,
    offer_added_tools,
    read_foreign_compactions,
    refuse_if_strict,
    report_unsent_options,
)
from ..types import ReplyWarning
from .encoding_report import EncodingReport
from .prepared_request import PreparedRequest, encode_utf8, rename_members, write_body

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ..deltas import Delta
    from ..requests import Family, Request
    from ..types import GeneratedFile, Limits, Message, Reply
    from .batches import BatchAPI, BatchSettings

# Each is a package here, with a class such as `ChatAdapter`; it is imported on first use.
_BUILT_IN = {
    name: f"{__package__}.{name}:{name.capitalize()}Adapter"
    for name in ("anthropic", "chat", "gemini", "interactions", "kimi", "responses")
}


class Framing(Protocol):
    """Splits the body of an answer into events. Only wire formats without server-sent events need a framing.

    Attributes:
        invalid_utf8: the number of events so far with bytes that are not UTF-8.
        foreign: the beginning of the first text that is not part of the format; "" if there was none.

    A class for a binary format sets `is_binary = True`. A body that begins like JSON or markup is then not parsed as
    events.
    """

    invalid_utf8: int
    foreign: str

    def __init__(self, limits: Limits) -> None: ...

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]:
        """Returns the events that `data` completes. Raises ProtocolError for an event larger than the limit."""
        ...

    def finish(self) -> ServerSentEvent | None:
        """Returns the unfinished event at the end of the body, or None."""
        ...


class EndpointInfo(HostedEndpoint, Protocol):
    """Facts about a provider for error messages. A `Profile` is an EndpointInfo."""

    def models_with(self, capability: str) -> Collection[str]:
        """Returns some models of this provider that have a capability."""
        ...


class Adapter(ABC):
    """The adapter of one wire format. Subclasses must define `name`, `path`, `encode` and `decode`.

    Attributes:
        name: the adapter's name in configurations.
        path: the path of requests below the base URL. Override `request_path` if it depends on the request.
        method: the HTTP method.
        Quirks: a frozen dataclass with the configurable differences between endpoints, or None. The only argument of an
            adapter with quirks is an instance of that dataclass, or None.
        framing: the class that splits the body of an answer into events. None: server-sent events.
        maker: the vendor, if only the vendor's own API has this format. The quirk `hosted = false` marks another
            vendor's server.
        sends: the options that `encode` writes, by their names in `ChatOptions`, and "tools" and "tool_choice". Another
            option of a request is dropped with a warning, or refused if the meaning would change.
        counts_tokens: whether the endpoint counts the tokens of a prompt: see `encode_count` and `read_count`.
        compacts: whether the API compacts a conversation on request (`Request.compact`); see `compacted`.
        drops_bound_thinking: whether `Request.drop_bound_thinking` is sent.
        keeps_conversations: whether `encode` continues a conversation that the endpoint stores: `Request.conversation`.
        conversation_members: fields of the request body that name the stored conversation to continue.
        kind_follows_text: whether an event has the kind of its text (text or reasoning) only after the text.
        blocks_name: the name of the extra with the original blocks of an answer, which are sent back.
    """

    name: str = ""
    path: str = ""
    method: str = "POST"
    Quirks: ClassVar[type[Any] | None] = None
    framing: type[Framing] | None = None
    maker: ClassVar[str | None] = None
    sends: ClassVar[Collection[str]] = ()
    counts_tokens: bool = False
    compacts: ClassVar[bool] = False
    drops_bound_thinking: ClassVar[bool] = False
    keeps_conversations: bool = False
    conversation_members: ClassVar[Collection[str]] = ()
    kind_follows_text: bool = False
    blocks_name: str = "blocks"

    @cached_property
    def family(self) -> Family:
        """Returns the known facts of the model, for a request without such facts."""
        return self.known_family(NO_FAMILY)

    # --- requests -----------------------------------------------------------------------------------------------------

    def prepare(
        self, request: Request, *, repair_history: bool = False, endpoint: EndpointInfo | None = None
    ) -> PreparedRequest:
        """Returns the HTTP request for an answer, and a warning for each change.

        Args:
            request: the application's request, which is not modified; `PreparedRequest.request` is a copy.
            repair_history: repair a conversation that the endpoint would refuse, instead of raising an error.
            endpoint: the endpoint for errors about missing capabilities.

        Raises:
            ConfigError: the request can't be sent to this endpoint.
        """
        ready, changes = self._ready(request, repair_history, endpoint)
        changes += report_unsent_options(ready, self.sends, self.name)
        if ready.conversation is not None:
            ready, restarted = self._continued(ready)
            changes += restarted
        report = EncodingReport()
        members = rename_members(self.encode(ready, report), ready.renames)
        body, replaced = encode_utf8(write_body(members, ready.options.extra_body))
        path, headers = self.request_path(ready), self.headers(ready)
        warnings = (*changes, *report.warnings(), *replaced)
        return PreparedRequest(ready, self.method, path, headers, body, warnings, report.prefix)

    def prepare_count(
        self, request: Request, *, repair_history: bool = False, endpoint: EndpointInfo | None = None
    ) -> PreparedRequest:
        """Returns the HTTP request for the number of tokens of a prompt. The arguments are those of `prepare`.

        Raises:
            ConfigError: the wire format has no such request, or the prompt can't be sent to this endpoint.
        """
        ready, changes = self._ready(request, repair_history, endpoint)
        report = EncodingReport()
        body, replaced = encode_utf8(write_body(self.encode_count(ready, report), ready.options.extra_body))
        headers = {**self.headers(ready), "Accept": "application/json"}
        warnings = (*changes, *report.warnings(), *replaced)
        return PreparedRequest(ready, self.method, self.count_path(ready), headers, body, warnings)

    def _ready(
        self, request: Request, repair_history: bool, endpoint: EndpointInfo | None
    ) -> tuple[Request, list[ReplyWarning]]:
        """Returns the request as the endpoint accepts it, and a warning for each change."""
        if request.compact and not self.compacts:
            able = ", ".join(name for name in _BUILT_IN if find_adapter(name).compacts)
            what = f"the API of adapter {self.name!r} can't compact a conversation"
            raise ConfigError(f"{what}. Adapters that can: {able}")
        request, summaries = read_foreign_compactions(request)
        rules = self.history_rules(request)
        request, moved = offer_added_tools(request, in_place=rules.added_tools)
        self._check_capabilities(request, endpoint)
        dropped = check_hosted(request.tools, self.rules(request).hosted, self.name, endpoint) if request.tools else []
        family = self.family if request.family is NO_FAMILY else request.family
        rules = rules.over(family.history or {})
        fitted = fit_history(request.messages, rules, repair=repair_history, origin=request.origin)
        if fitted.messages != request.messages:
            request = replace(request, messages=fitted.messages, positions=fitted.positions)
        waiting = [tool.name for tool in request.tools if tool.background]
        if waiting and not self.background_tools(replace(request, family=family)):
            tools = tuple(replace(tool, background=False) for tool in request.tools)
            detail = f"{', '.join(waiting)}: background not sent, {request.model} waits for the results of calls"
            request, dropped = replace(request, tools=tools), [*dropped, ReplyWarning("option_dropped", detail)]
        ready, changes = self.rewrite(request)
        options, sampling = fit_sampling(ready.options, ready.family, self.option_rules(ready), model=ready.model)
        if options is not ready.options:
            ready = replace(ready, options=options)
        return ready, [*summaries, *moved, *fitted.warnings, *dropped, *changes, *sampling]

    def _continued(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        """Returns the request with the stored answer that it continues, and a warning if it can't continue any."""
        stored, extra = request.conversation, request.options.extra_body
        if stored is None:
            return request, []
        if not self.keeps_conversations:
            if stored.base is not None:
                raise ConfigError(
                    f"conversation: {stored.base!r} can't be continued: adapter {self.name!r} stores no conversations"
                    " here; pass all messages and Conversation()"
                )
            detail = f"conversation: adapter {self.name!r} stores no conversations here: all messages were sent"
            changes = [ReplyWarning("option_dropped", detail)]
            refuse_if_strict(request.options, changes)
            return replace(request, conversation=None), changes
        if extra.get("store", True) is False:
            raise ConfigError("conversation: the provider must store the response: remove store=False from extra_body")
        if given := [name for name in self.conversation_members if extra.get(name)]:
            raise ConfigError(f"conversation: extra_body has {' and '.join(given)}, too: pass one of them")
        grows = stored.base is not None and self.grows(stored.base)
        talk = request.messages[self.instruction_count(request) :]
        request = replace(request, conversation=continue_stored(stored, talk, request.names, grows=grows))
        if not stored.restarted:
            return request, []
        detail = f"the provider no longer stores the conversation ({stored.restarted}): all messages were sent"
        return request, [ReplyWarning("conversation_restarted", detail)]

    def _check_capabilities(self, request: Request, endpoint: EndpointInfo | None) -> None:
        """Raises ConfigError if the model lacks a capability that the request needs and that can't be emulated."""
        lacking = missing_capabilities(request.capabilities, request)
        if lacking:
            emulated = self.emulated_capabilities(request)
            lacking = tuple(found for found in lacking if found.capability not in emulated)
        if not lacking:
            return
        others = {found.capability: endpoint.models_with(found.capability) for found in lacking} if endpoint else {}
        problem = describe_missing(lacking, request.model, others)
        raise ConfigError(f'provider "{endpoint.name}": {problem}' if endpoint else problem)

    def rules(self, request: Request) -> Rules:
        """Returns the endpoint's rules for tool names, schemas and response formats."""
        return Rules()

    def option_rules(self, request: Request) -> OptionRules:
        """Returns which options the endpoint supports. Other options are left out or emulated: see `fit_options`."""
        return OptionRules()

    def background_tools(self, request: Request) -> bool:
        """Returns whether the model may continue while a tool runs: see `Tool.background`."""
        return False

    def known_family(self, family: Family) -> Family:
        """Returns the facts of a model at this endpoint, with assumptions for unknown facts."""
        return family

    def history_rules(self, request: Request) -> HistoryRules:
        """Returns the endpoint's rules for conversations, which are checked before `rewrite` is called."""
        return HistoryRules()

    def emulated_capabilities(self, request: Request) -> Collection[str]:
        """Returns the missing capabilities that `rewrite` can emulate with a warning. Other missing capabilities are an
        error."""
        return emulatable_capabilities(request, self.rules(request))

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        """Returns the request as the endpoint accepts it, and a warning for each change.

        Raises:
            ConfigError: the endpoint would refuse the request, and no equivalent exists.
        """
        family = self.family if request.family is NO_FAMILY else request.family
        rules, tools = self.option_rules(request), bool(request.tools)
        options, fitted = fit_options(request.options, family, rules, model=request.model, tools=tools)
        if options is not request.options or family is not request.family:
            request = replace(request, options=options, family=family)
        request, changes = apply_rules(request, self.rules(request))
        return request, [*fitted, *changes]

    @abstractmethod
    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body of a request for an answer: streamed, unless `request.stream` is false.

        Args:
            request: the result of `rewrite`.
            report: collects parts that are left out or changed; each becomes a warning.

        Raises:
            ConfigError: the wire format doesn't support a part of the request.
        """

    def instruction_count(self, request: Request) -> int:
        """Returns how many messages at the beginning are sent as instructions, which no stored conversation has."""
        return 0

    def grows(self, conversation_id: str) -> bool:
        """Returns whether the provider adds answers to a conversation with this id. Otherwise each answer has its own
        id."""
        return False

    def request_path(self, request: Request) -> str:
        """Returns the path of this request below the base URL. The path may have a query."""
        return self.path

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body of a request for the number of tokens. The arguments are those of `encode`.

        Raises:
            ConfigError: the wire format has no such request.
        """
        able = "anthropic, gemini; kimi and responses at providers with the quirk counts_tokens"
        raise ConfigError(f"the API of adapter {self.name!r} can't count tokens here. Adapters that can: {able}")

    def count_path(self, request: Request) -> str:
        """Returns the path of a request for the number of tokens, below the base URL."""
        return self.request_path(request)

    def headers(self, request: Request) -> Mapping[str, str]:
        """Returns the headers of the wire format. Configured headers and the API key override them."""
        accepted = "text/event-stream" if request.stream else "application/json"
        return {"Accept": accepted, "Content-Type": "application/json"}

    def continues(self, request: Request) -> Literal["exactly", "with_echo"] | None:
        """Returns whether the server continues the text of a partial last message.

        Returns:
            "exactly": the answer is the continuation; "with_echo": the answer may repeat the text first; None: the
                server doesn't continue.
        """
        return None

    def resume_path(self, request: Request, answer_id: str, after: int | str) -> str | None:
        """Returns the path, below the base URL, of a GET request for the rest of an interrupted answer.

        Args:
            answer_id: the server's id of the answer.
            after: the number or the id of the last received event; "" if no event had an id.

        Returns:
            None if the server doesn't store this answer.
        """
        return None

    def answer_path(self, request: Request, answer_id: str) -> str | None:
        """Returns the path, below the base URL, of a GET request for a complete stored answer, or None."""
        return None

    def is_running(self, body: Any) -> bool:
        """Returns whether the body of a stored answer is that of an unfinished answer."""
        return False

    def cancel_path(self, answer_id: str) -> str | None:
        """Returns the path, below the base URL, of a POST request that cancels an answer, or None."""
        return None

    def runs_on(self, request: Request) -> bool:
        """Returns whether the server completes the answer in the background, so that a failed request is never sent
        again."""
        return False

    def file_request(self, file: GeneratedFile) -> tuple[str, Mapping[str, str]]:
        """Returns the path, below the base URL, and the headers of a GET request for a file that a hosted tool made.

        Raises:
            ConfigError: the wire format has no such request.
        """
        raise ConfigError(f"files can't be fetched with adapter {self.name!r}")

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        """Returns the batch API of this wire format.

        Args:
            settings: the limits of the endpoint.

        Raises:
            ConfigError: the wire format has no known batch API.
        """
        raise ConfigError(f"provider batches are not supported with adapter {self.name!r}: send live requests instead")

    def handles_path(self, path: str) -> bool:
        """Returns whether requests of this wire format go to URLs with this path."""
        return bool(self.path) and path.endswith(self.path)

    def read_error(self, body: Any, status: int | None = None) -> ErrorInfo:
        """Parses the error object of a response whose status is not 2xx. The result always has a message."""
        return error_info(body, status=status)

    # --- answers ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        """Returns the deltas of an event, in the order reasoning, text, tool calls, usage, finish.

        Raises:
            ValueError: the event is not in this format; the message has the reason.
        """

    def decode_cut(self, event: ServerSentEvent) -> Iterable[Delta]:
        """Returns the deltas of a truncated last event, which was completed to valid JSON.

        Raises:
            ValueError: the truncated event is too short.
        """
        return self.decode(event)

    def decode_body(self, body: Any) -> Iterable[Delta]:
        """Returns the deltas of a complete JSON answer, which some servers send although a stream was requested.

        Raises:
            ValueError: the body is not an answer in this format; the message has the reason.
        """
        raise ValueError("this wire format has no answers that are not streamed")

    def compacted(self, reply: Reply) -> list[Message]:
        """Returns the messages that replace a conversation, from the answer to a request with `Request.compact`.

        Raises:
            ValueError: the answer has no compaction; the message has the reason.
        """
        raise ValueError("this wire format has no compactions")

    def read_count(self, body: Any) -> int:
        """Returns the number of tokens in the answer to a request of `encode_count`.

        Raises:
            ValueError: the answer has another format; the message has the reason.
        """
        raise ValueError("this wire format can't count tokens")


def find_adapter(name: str) -> type[Adapter]:
    """Returns the class of an adapter by its name. Raises ConfigError with the known names."""
    if target := _BUILT_IN.get(name):
        module, _, attribute = target.partition(":")
        built_in: type[Adapter] = getattr(import_module(module), attribute)
        return built_in
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    others = {entry.name: entry for entry in entry_points(group="streamfold.adapters")}
    if name in others:
        try:
            loaded: type[Adapter] = others[name].load()
        except Exception as exc:  # whatever the other package raises
            raise ConfigError(f"adapter {name!r} ({others[name].value}) can't be imported: {exc!r}") from exc
        return loaded
    known = sorted({*_BUILT_IN, *others})
    raise ConfigError(f"unknown adapter {name!r}{allowed_values_hint(name, known)}")


def adapter_by_path(path: str) -> str | None:
    """Returns the name of the adapter for requests to this path; None if there is none."""
    # Kimi has the path of Chat Completions, which stands before it.
    return next((name for name in _BUILT_IN if find_adapter(name)().handles_path(path)), None)
