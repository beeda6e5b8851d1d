"""The base class of adapters, which encode requests and decode the events of responses.

An adapter has no state. While a response arrives, `streamfold.engine` keeps its state. Other packages can add adapters
with an entry point in the group `streamfold.adapters`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ..errors import ConfigError, ErrorInfo, allowed_values_hint, error_info
from ..jsontext import partial_event, partial_value
from ..requests import (
    NO_FAMILY,
    HistoryRules,
    HostedEndpoint,
    OptionRules,
    Rules,
    StoredConversation,
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
from .prepared_request import PreparedRequest, encode_body, rename_members

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

    from ..deltas import Delta
    from ..requests import Family, Request
    from ..types import GeneratedFile, Limits, Message, Reply
    from .batches import BatchAPI, BatchSettings

# Each adapter is a package here with a class such as `ChatAdapter`. It is imported on first use.
_BUILT_IN = {
    name: f"{__package__}.{name}:{name.capitalize()}Adapter"
    for name in ("anthropic", "chat", "gemini", "interactions", "kimi", "responses")
}


class Framing(Protocol):
    """Splits a response body into events. An API needs a class of this kind only if it doesn't send server-sent events.

    Attributes:
        invalid_utf8: the number of events so far that contained bytes which aren't UTF-8.
        foreign: the beginning of the first text that isn't in the format of the events, or "" if there is no such text.

    A class for a binary format sets `is_binary = True`. streamfold then parses a body that begins like JSON or markup
    without this class.
    """

    invalid_utf8: int
    foreign: str

    def __init__(self, limits: Limits) -> None: ...

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]:
        """Returns the events that `data` completes. Raises ProtocolError if an event is larger than `limits` allows."""
        ...

    def finish(self) -> ServerSentEvent | None:
        """Returns the incomplete event at the end of the body, or None."""
        ...


class EndpointInfo(HostedEndpoint, Protocol):
    """Facts about a provider, for error messages. `Profile` implements this protocol."""

    def models_with(self, capability: str) -> Collection[str]:
        """Returns the names of models that have this capability. The provider may have other such models."""
        ...


class Adapter(ABC):
    """The adapter for one API. Subclasses must define `name`, `path`, `encode` and `decode`.

    Attributes:
        name: the adapter's name in configurations.
        path: the path of requests below the base URL. If the path depends on the request, override `request_path`.
        method: the HTTP method of requests.
        Quirks: a frozen dataclass with settings for the differences between endpoints, or None. The constructor's only
            argument is an instance of this dataclass or None.
        framing: the class that splits a response body into events, or None for server-sent events.
        maker: the vendor whose API has this format, or None if several vendors have such APIs. Other servers with a
            vendor's format need the quirk `hosted = false`.
        sends: the options that `encode` supports, by their names in `ChatOptions`, and "tools" and "tool_choice".
            streamfold drops any other option with a warning. If this would change the meaning of the request,
            streamfold raises ConfigError instead.
        counts_tokens: True if the endpoint can count the tokens of a prompt. See `encode_count` and `read_count`.
        compacts: True if the API can compact a conversation on request (`Request.compact`). See `compacted`.
        drops_bound_thinking: True if the API supports `Request.drop_bound_thinking`.
        keeps_conversations: True if `encode` supports `Request.conversation`, which continues a stored conversation.
        conversation_members: the request fields that contain the id of the stored conversation to continue.
        blocks_name: the key in `Reply.extras` for the reply's original content blocks, which later requests send back.
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
    blocks_name: str = "blocks"

    @cached_property
    def family(self) -> Family:
        """Returns the facts that streamfold assumes about an unknown model of this endpoint."""
        return self.known_family(NO_FAMILY)

    # --- requests -----------------------------------------------------------------------------------------------------

    def prepare(
        self, request: Request, *, repair_history: bool = False, endpoint: EndpointInfo | None = None
    ) -> PreparedRequest:
        """Returns the HTTP request to send, with a warning for each change to the caller's request.

        Args:
            request: the caller's request, which isn't modified. `PreparedRequest.request` is the copy that `prepare`
                adapted to the endpoint.
            repair_history: True to repair a conversation that the endpoint would refuse, False to raise ConfigError.
            endpoint: facts about the endpoint, for error messages about missing capabilities.

        Raises:
            ConfigError: the endpoint would refuse the request.
        """
        ready, changes = self._ready(request, repair_history, endpoint)
        changes += report_unsent_options(ready, self.sends, self.name)
        if ready.conversation is not None:
            ready, restarted = self._continued(ready, ready.conversation)
            changes += restarted
        report = EncodingReport()
        members = rename_members(self.encode(ready, report), ready.renames)
        body, replaced = encode_body(members, ready.options.extra_body)
        path, headers = self.request_path(ready), self.headers(ready)
        warnings = (*changes, *report.warnings(), *replaced)
        return PreparedRequest(ready, self.method, path, headers, body, warnings, report.prefix)

    def prepare_count(
        self, request: Request, *, repair_history: bool = False, endpoint: EndpointInfo | None = None
    ) -> PreparedRequest:
        """Returns the HTTP request that counts the tokens of a prompt. The arguments are the same as for `prepare`.

        Raises:
            ConfigError: the API can't count tokens, or the endpoint would refuse the prompt.
        """
        ready, changes = self._ready(request, repair_history, endpoint)
        report = EncodingReport()
        body, replaced = encode_body(self.encode_count(ready, report), ready.options.extra_body)
        headers = {**self.headers(ready), "Accept": "application/json"}
        warnings = (*changes, *report.warnings(), *replaced)
        return PreparedRequest(ready, self.method, self.count_path(ready), headers, body, warnings)

    def _ready(
        self, request: Request, repair_history: bool, endpoint: EndpointInfo | None
    ) -> tuple[Request, list[ReplyWarning]]:
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
            detail = f"{', '.join(waiting)}: background was not sent, because {request.model} waits for tool results"
            request, dropped = replace(request, tools=tools), [*dropped, ReplyWarning("option_dropped", detail)]
        ready, changes = self.rewrite(request)
        options, sampling = fit_sampling(ready.options, ready.family, self.option_rules(ready), model=ready.model)
        if options is not ready.options:
            ready = replace(ready, options=options)
        return ready, [*summaries, *moved, *fitted.warnings, *dropped, *changes, *sampling]

    def _continued(self, request: Request, stored: StoredConversation) -> tuple[Request, list[ReplyWarning]]:
        extra = request.options.extra_body
        if not self.keeps_conversations:
            if stored.base is not None:
                raise ConfigError(
                    f"conversation: {stored.base!r} can't be continued: adapter {self.name!r} stores no conversations"
                    " here; pass all messages and Conversation()"
                )
            detail = f"conversation: adapter {self.name!r} doesn't store conversations here: all messages were sent"
            changes = [ReplyWarning("option_dropped", detail)]
            refuse_if_strict(request.options, changes)
            return replace(request, conversation=None), changes
        if extra.get("store", True) is False:
            raise ConfigError("conversation: the provider must store the response: remove store=False from extra_body")
        if given := [name for name in self.conversation_members if extra.get(name)]:
            raise ConfigError(f"conversation: extra_body also has {' and '.join(given)}: pass only one of them")
        grows = stored.base is not None and self.grows(stored.base)
        talk = request.messages[self.instruction_count(request) :]
        request = replace(request, conversation=continue_stored(stored, talk, request.names, grows=grows))
        if not stored.restarted:
            return request, []
        detail = f"the provider no longer stores the conversation ({stored.restarted}): all messages were sent"
        return request, [ReplyWarning("conversation_restarted", detail)]

    def _check_capabilities(self, request: Request, endpoint: EndpointInfo | None) -> None:
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
        """Returns the rules that tool names, schemas and response formats must follow so that the endpoint accepts
        them."""
        return Rules()

    def option_rules(self, request: Request) -> OptionRules:
        """Returns which options the endpoint supports. `fit_options` and `fit_sampling` drop or emulate all other
        options."""
        return OptionRules()

    def background_tools(self, request: Request) -> bool:
        """Returns True if the model may continue its response while a tool runs. See `Tool.background`."""
        return False

    def known_family(self, family: Family) -> Family:
        """Fills in the unknown facts about a model with the facts that streamfold assumes for this endpoint."""
        return family

    def history_rules(self, request: Request) -> HistoryRules:
        """Returns the rules that a conversation must follow so that the endpoint accepts it. streamfold applies them
        before `rewrite`."""
        return HistoryRules()

    def emulated_capabilities(self, request: Request) -> Collection[str]:
        """Returns the capabilities that the request may use although the model lacks them. `rewrite` emulates these
        capabilities, with a warning.

        If the request needs any other capability that the model lacks, streamfold raises ConfigError.
        """
        return emulatable_capabilities(request, self.rules(request))

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        """Adapts the request to the endpoint. Returns the new request and a warning for each change.

        Raises:
            ConfigError: the endpoint would refuse the request, and no other request has the same meaning.
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
        """Returns the JSON body of the HTTP request. The body asks for a stream unless `request.stream` is false.

        Args:
            request: the request that `rewrite` returned.
            report: collects what `encode` leaves out or changes. Each entry becomes a warning.

        Raises:
            ConfigError: the API doesn't support something in the request.
        """

    def instruction_count(self, request: Request) -> int:
        """Returns the number of messages at the beginning that `encode` sends as instructions. The provider doesn't
        store these messages in a conversation."""
        return 0

    def grows(self, conversation_id: str) -> bool:
        """Returns True if the provider appends each response to the conversation with this id, and False if each
        response has a new id."""
        return False

    def request_path(self, request: Request) -> str:
        """Returns the path of a request below the base URL. The path may contain a query."""
        return self.path

    def encode_count(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        """Returns the JSON body of a request that counts tokens. The arguments are the same as for `encode`.

        Raises:
            ConfigError: the API can't count tokens.
        """
        able = "anthropic, gemini; kimi and responses at providers with the quirk counts_tokens"
        raise ConfigError(f"the API of adapter {self.name!r} can't count tokens here. Adapters that can: {able}")

    def count_path(self, request: Request) -> str:
        """Returns the path of a request that counts tokens, below the base URL."""
        return self.request_path(request)

    def headers(self, request: Request) -> Mapping[str, str]:
        """Returns the headers that the API requires. Headers from the configuration and the header with the API key
        replace headers with the same name."""
        accepted = "text/event-stream" if request.stream else "application/json"
        return {"Accept": accepted, "Content-Type": "application/json"}

    def continues(self, request: Request) -> Literal["exactly", "with_echo"] | None:
        """Returns how the server continues the text of an incomplete last message.

        Returns:
            "exactly" if the response contains only the continuation, "with_echo" if the response may first repeat the
                message's text, or None if the server can't continue a text.
        """
        return None

    def resume_path(self, request: Request, answer_id: str, after: int | str) -> str | None:
        """Returns the path, below the base URL, of a GET request for the rest of an interrupted response.

        Args:
            answer_id: the server's id for the response.
            after: the number or the id of the last event that arrived, or "" if no event had an id.

        Returns:
            The path, or None if the server doesn't store this response.
        """
        return None

    def answer_path(self, request: Request, answer_id: str) -> str | None:
        """Returns the path, below the base URL, of a GET request for a complete stored response. Returns None if the
        server doesn't store this response."""
        return None

    def is_running(self, body: Any) -> bool:
        """Returns True if this is the body of a stored response that the server is still generating."""
        return False

    def cancel_path(self, answer_id: str) -> str | None:
        """Returns the path, below the base URL, of a POST request that cancels a response. Returns None if the API
        can't cancel responses."""
        return None

    def runs_on(self, request: Request) -> bool:
        """Returns True if the server completes the response even if the connection breaks. streamfold then never
        retries a failed request."""
        return False

    def file_request(self, file: GeneratedFile) -> tuple[str, Mapping[str, str]]:
        """Returns the path and the headers of a GET request that downloads a file that a hosted tool created.

        Raises:
            ConfigError: the API offers no downloads of files.
        """
        raise ConfigError(f"the API of adapter {self.name!r} offers no downloads of files")

    def batch_api(self, settings: BatchSettings) -> BatchAPI:
        """Returns an object that creates and parses the requests of the provider's batch API.

        Args:
            settings: the endpoint's settings for batches.

        Raises:
            ConfigError: this adapter doesn't support batches.
        """
        raise ConfigError(f"provider batches are not supported with adapter {self.name!r}: send live requests instead")

    def handles_path(self, path: str) -> bool:
        """Returns True if a URL with this path accepts requests in this API's format."""
        return bool(self.path) and path.endswith(self.path)

    def read_error(self, body: Any, status: int | None = None) -> ErrorInfo:
        """Parses the error object in the body of a response whose status isn't 2xx. The result always has a message."""
        return error_info(body, status=status)

    # --- responses ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def decode(self, event: ServerSentEvent) -> Iterable[Delta]:
        """Converts an event to deltas, in this order: reasoning, text, tool calls, usage, finish.

        Raises:
            ValueError: the event isn't in the API's format. The error message gives the reason.
        """

    def decode_cut(self, event: ServerSentEvent) -> Iterable[Delta]:
        """Converts a truncated last event to deltas. streamfold uses only the deltas with text.

        Raises:
            ValueError: too little of the event has arrived.
        """
        payload = partial_event(event.data)
        return self.decode(type(event)(event.event, json.dumps(payload))) if isinstance(payload, dict) else ()

    def decode_body(self, body: Any) -> Iterable[Delta]:
        """Converts a complete JSON response to deltas. Some servers send a complete response although the request asked
        for a stream.

        Raises:
            ValueError: the body isn't a response in the API's format. The error message gives the reason.
        """
        raise ValueError("this adapter supports only streamed answers")

    def decode_cut_body(self, text: str) -> Iterable[Delta]:
        """Converts a truncated JSON response to deltas.

        Raises:
            ValueError: too little of the response has arrived.
        """
        return self.decode_body(partial_value(text))

    def compacted(self, reply: Reply) -> list[Message]:
        """Returns the compacted conversation from the reply to a request with `Request.compact`.

        Args:
            reply: the reply to that request.

        Raises:
            ValueError: the reply contains no such conversation. The error message gives the reason.
        """
        raise ValueError("this adapter doesn't support compactions")

    def read_count(self, body: Any) -> int:
        """Returns the token count from the response to a request that counts tokens.

        Raises:
            ValueError: the response has the wrong format. The error message gives the reason.
        """
        raise ValueError("this adapter can't count tokens")


def find_adapter(name: str) -> type[Adapter]:
    """Returns the adapter class with this name. Raises ConfigError for an unknown name. The error lists the known
    names."""
    if target := _BUILT_IN.get(name):
        module, _, attribute = target.partition(":")
        built_in: type[Adapter] = getattr(import_module(module), attribute)
        return built_in
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    others = {entry.name: entry for entry in entry_points(group="streamfold.adapters")}
    if name in others:
        try:
            loaded: type[Adapter] = others[name].load()
        except Exception as exc:  # the other package may raise anything
            raise ConfigError(f"adapter {name!r} ({others[name].value}) can't be imported: {exc!r}") from exc
        return loaded
    known = sorted({*_BUILT_IN, *others})
    raise ConfigError(f"unknown adapter {name!r}{allowed_values_hint(name, known)}")


def adapter_by_path(path: str) -> str | None:
    """Returns the name of the adapter whose API has this request path, or None if no adapter has it."""
    # Kimi has the path of Chat Completions, whose adapter is found first.
    return next((name for name in _BUILT_IN if find_adapter(name)().handles_path(path)), None)
