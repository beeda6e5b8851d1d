"""`PreparedCall`: a request in the format of the provider's API. A prepared call also creates the decoder for the
response, and the changed request for a retry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..adapters import Adapter, PreparedRequest
from ..adapters.batches import EndpointRequest
from ..answers import ChatParams
from ..engine import StreamDecoder, ToolNameMap
from ..engine.dialects import special_tokens
from ..errors import APIError, ConfigError, UpstreamError
from ..net import HTTPRequest
from ..requests import (
    Request,
    StoredConversation,
    digest_with,
    escape_special_tokens,
    has_cache_marks,
    least_text_tokens,
    raw_tools,
    retirement_notice,
)
from ..types import Message, Reply, ReplyWarning
from .costs import ProfilePricing
from .endpoint import Endpoint, ServedModel, headers_without_body
from .rejected_options import (
    NO_RESTRICTIONS,
    Restrictions,
    restrictions_from_error,
    with_refused_turns,
    with_restrictions,
    without_stream_options,
)

_MOST_REJECTIONS = 3  # of one call; after each, the call is sent in another form
NOT_CONTINUED = "previous_response_ignored"  # the code of our error about a server that ignores the id
# Warnings which mean that the tool calls stored by the provider differ from those of the reply.
_OTHER_CALLS = ("calls_dropped", "markup_dropped", "missing_id", "changed_id", "duplicate_id", "repaired_arguments")
_LONG_INPUT = 2_000  # tokens: for a shorter input, the counts of tokenizers differ too much
_UNMET = "the model made several tool calls despite parallel_tool_calls=False: run_tools() runs them one by one"


@dataclass(frozen=True, slots=True)
class Preview:
    """The HTTP request that `Provider.chat_stream` would send, without secrets.

    Attributes:
        url: the URL. Each value from an environment variable appears as `${NAME}`.
        headers: the HTTP headers. The API key and the values of configured headers appear as `***`.
        body: the JSON body as bytes.
        warnings: warnings about options that streamfold has changed or dropped. The reply would contain the same
            warnings.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    warnings: tuple[ReplyWarning, ...] = ()

    def json(self) -> Any:
        """Parses the JSON body and returns it as Python objects."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A request in the format of the provider's API, and everything that is needed to parse the response.

    Attributes:
        request: the request with the endpoint's default options, including options that the server has rejected.
        owner: the owner under whose name streamfold remembers rejected options; see `requests_of`.
        known: the restrictions that streamfold remembers from rejections of earlier requests.
        served: the model's adapter and settings, for the API to which the request is sent.
        learned: the restrictions from rejections of this request.
        rejections: the number of times the server rejected a part of this request.
        sent: the request in the format of the API.
        prefix_warnings: warnings about the prompt cache.
        pricing: computes the cost of the answer.
        turn: the unfinished assistant message at the end of the request, if this request continues an answer.
    """

    endpoint: Endpoint
    params: ChatParams
    request: Request
    owner: str
    known: Restrictions
    served: ServedModel
    sent: PreparedRequest
    pricing: ProfilePricing
    prefix_warnings: tuple[ReplyWarning, ...] = ()
    learned: Restrictions = NO_RESTRICTIONS
    rejections: int = 0
    turn: Message | None = None

    @classmethod
    def of(cls, endpoint: Endpoint, params: ChatParams, *, batched: bool = False) -> PreparedCall:
        """Prepares the request for the arguments of `chat`. Raises ConfigError for invalid arguments.

        Args:
            batched: True if the request is part of a batch, which always uses the model's usual wire format.
        """
        request, owner = endpoint.request(params.request), endpoint.owner()
        known = endpoint.restrictions.find(request.model, owner, request)
        if params.conversation is not None and known.api is None:
            known = replace(known, api=_api_that_stores(endpoint, request.model))
        if batched:
            known = replace(known, api=None)
        served, sent = _prepared(endpoint, params, request, known)
        pricing = ProfilePricing.of(served.prices, batched=batched)
        changed: list[ReplyWarning] = []
        if batched and params.conversation is not None:
            raise ConfigError("conversation= isn't supported in batches: pass all messages")
        if not params.many_conversations and has_cache_marks(request):
            changed = endpoint.prompt_cache.changed(request)
        return cls(endpoint, params, request, owner, known, served, sent, pricing, tuple(changed))

    @property
    def adapter(self) -> Adapter:
        return self.served.adapter

    @property
    def max_continuations(self) -> int:
        own = self.params.max_continuations
        return self.endpoint.profile.max_continuations if own is None else own

    def next_part(self, turn: Reply) -> PreparedCall | None:
        """Returns the call that requests the next part of an answer, or None if the provider hasn't paused the answer.

        Args:
            turn: the answer so far, including its tool calls.
        """
        message = replace(turn.message, origin=self.sent.request.origin)
        if not message.paused:
            return None
        messages = self.request.messages if self.turn is None else self.request.messages[:-1]
        request = replace(self.request, messages=(*messages, message))
        served, sent = _prepared(self.endpoint, self.params, request, self.known + self.learned)
        sent = replace(sent, prefix=self.sent.prefix)  # the parts are one message
        return replace(self, request=request, served=served, sent=sent, rejections=0, turn=message)

    @property
    def is_whole(self) -> bool:
        """True if the response may be a single JSON object, because the caller doesn't need chunks."""
        return not self.request.stream

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        return (*self.sent.warnings, *self.prefix_warnings)

    def http_request(self) -> HTTPRequest:
        params, whole = self.params, not self.sent.request.stream
        return self.endpoint.http_request(self.adapter, self.sent, params.timeouts, params.extra_headers, whole=whole)

    def resume_request(self, answer_id: str, after: int | str | None) -> HTTPRequest | None:
        """Returns the request for the rest of an answer that broke off, or None if the provider doesn't store answers.

        Args:
            after: the number or id of the last SSE event that arrived. None requests the complete answer as a JSON
                response.
        """
        adapter, request = self.adapter, self.sent.request
        if after is None:
            path, request = adapter.answer_path(request, answer_id), replace(request, stream=False)
        else:
            path = adapter.resume_path(request, answer_id, after)
        if path is None:
            return None
        rest = EndpointRequest("GET", path, headers_without_body(adapter, request))
        return self.endpoint.http_request(adapter, rest, self.params.timeouts, self.params.extra_headers)

    def retrieving(self, answer_id: str) -> PreparedCall:
        """Returns a call that fetches a stored answer from its start. If the server rejects an option of this call,
        streamfold doesn't repeat the call without the option, because that would create a new answer.
        """
        request = self.sent.request
        path = self.adapter.resume_path(request, answer_id, "")
        if path is None:
            raise ConfigError(f"the API of adapter {self.adapter.name!r} stores no answers here")
        headers = headers_without_body(self.adapter, request)
        sent = replace(self.sent, method="GET", path=path, headers=headers, body=b"", warnings=(), prefix=None)
        return replace(self, sent=sent, prefix_warnings=(), rejections=_MOST_REJECTIONS)

    def new_decoder(self, *, partial_tool_calls: bool = False, continues: bool = False) -> StreamDecoder:
        """Returns a decoder for the response of one attempt.

        Args:
            partial_tool_calls: True if the decoder emits tool calls before their arguments are complete.
            continues: True if the caller sends the next request when the provider pauses the answer.
        """
        profile, request, coalesce = self.endpoint.profile, self.sent.request, self.params.coalesce
        return StreamDecoder(
            self.adapter,
            dialect=profile.dialect,
            tools=(*request.tools, *raw_tools(request.options)),
            tool_choice=request.tool_choice,
            limits=profile.limits,
            stop=request.options.cut_at or (),
            names=ToolNameMap(request.names, request.answer_tool, self.request.tools),
            partial_tool_calls=partial_tool_calls,
            coalesce=profile.coalesce if coalesce is None else coalesce,
            continues=continues,
        )

    def without(self, error: APIError) -> PreparedCall | None:
        """Returns the request without the part that the server rejected with this error.

        Returns None if the part can't be left out.
        """
        if self.rejections >= _MOST_REJECTIONS:
            return None
        other_api = None if self.learned.api else self.endpoint.other_api(self.adapter.name)
        new = restrictions_from_error(error, self.adapter, self.sent, self.request, other_api)
        if new is None or new.repeats(self.known, self.learned):
            return None
        stored = self.sent.request.conversation
        if new.forgotten and stored is not None and stored.id is not None and self.params.conversation is not None:
            if getattr(error, "code", None) == NOT_CONTINUED:
                self.params.conversation.give_up(stored.account)
            self.params.conversation.forget(stored.account, stored.id)
        learned = self.learned + new
        try:
            served, sent = _prepared(self.endpoint, self.params, self.request, self.known + learned)
        except ConfigError:
            if new.api is None:
                raise
            return None  # the other API has no place for something in the request
        if (new.options or new.schemas) and sent.body == self.sent.body:
            return None
        return replace(self, served=served, sent=sent, learned=learned, rejections=self.rejections + 1)

    def check_continued(self, previous: str | None) -> None:
        """Checks that the server continued the stored answer to which the request refers.

        Args:
            previous: the id of the answer that the server continued. "" means that the server continued no answer. None
                means that the server doesn't report the id.

        Raises:
            UpstreamError: the server continued no answer, so the model hasn't seen the whole conversation.
        """
        stored = self.sent.request.conversation
        if previous != "" or stored is None or stored.id is None or self.adapter.grows(stored.id):
            return
        what = f"the server did not continue {stored.id!r}: the model saw only the new messages"
        raise UpstreamError(what, code=NOT_CONTINUED, partial=Reply())

    def accepted(self) -> None:
        """Must be called when the server has accepted the request. If parts were left out after a rejection, later
        requests leave them out too.
        """
        if self.params.conversation is not None and (stored := self.sent.request.conversation) is not None:
            self.params.conversation.accept(stored.account)
        self.endpoint.restrictions.add_learned(self.request, self.owner, self.learned)
        if not self.params.many_conversations and has_cache_marks(self.request):
            self.endpoint.prompt_cache.remember(self.request)

    def complete(self, reply: Reply, response_warnings: tuple[ReplyWarning, ...] = ()) -> None:
        """Sets the provider, the origin, the cost and the warnings of a reply."""
        found = list(dict.fromkeys([*self.warnings, *response_warnings, *reply.warnings]))
        if self.request.options.parallel_tool_calls is False and len(reply.tool_calls) > 1:
            found.append(ReplyWarning("parallel_calls_unmet", _UNMET))
        usage = reply.usage.steps[-1] if reply.usage and reply.usage.steps else reply.usage
        # Some servers truncate a long input without an error, such as Ollama at its default of 4,096 tokens
        # (https://github.com/ollama/ollama/issues/2963).
        counted, estimated = usage.input_tokens if usage else None, least_text_tokens(self.sent.request)
        if counted is not None and estimated >= _LONG_INPUT and 2 * counted < estimated:
            detail = f"the messages have about {estimated:,} tokens, and the provider counted {counted:,}"
            found.append(ReplyWarning("input_maybe_truncated", f"{detail}: the provider may have truncated the input"))
        reply.warnings = found
        reply.provider, reply.origin = self.endpoint.profile.name, self.sent.request.origin
        reply.prefix = self.sent.prefix
        reply.pricing = self.pricing
        self._remember_stored(reply)

    def _remember_stored(self, reply: Reply) -> None:
        # If an answer was cut off or its tool calls were dropped, the provider may have stored something else. An
        # answer of several requests isn't stored as one.
        stored, conversation = self.sent.request.conversation, self.params.conversation
        if stored is None or conversation is None or self.turn is not None:
            return
        whole = reply.finish_reason in ("stop", "tool_calls") and not reply.paused
        grows = stored.base is not None and self.adapter.grows(stored.base)
        known = stored.base if grows else reply.id
        if whole and known and not any(warning.code in _OTHER_CALLS for warning in reply.warnings):
            conversation.add(stored.account, digest_with(stored.digest, reply.message), known, alone=grows)

    def complete_partial(self, error: APIError) -> None:
        if error.partial is not None:
            pricing, origin = replace(self.pricing, partial=True), self.sent.request.origin
            error.partial = replace(error.partial, origin=origin, pricing=pricing)

    def preview(self) -> Preview:
        sent, endpoint = self.sent, self.endpoint
        headers = endpoint.shown_headers(sent.headers, self.params.extra_headers)
        return Preview(sent.method, endpoint.profile.url_of(sent.path), headers, sent.body, self.warnings)


def _prepared(
    endpoint: Endpoint, params: ChatParams, request: Request, restrictions: Restrictions
) -> tuple[ServedModel, PreparedRequest]:
    served, changes = endpoint.model(request.model, restrictions.api), list[ReplyWarning]()
    profile = served.profile
    if restrictions.api is not None and (usual := endpoint.model(request.model).api) != served.api:
        request = endpoint.request(request, served.api)
        if restrictions.api_reason:
            detail = f"{request.model} is not available on the API {usual!r}: the request was sent to {served.api!r}"
            changes.append(ReplyWarning("api_changed", f"{detail} ({restrictions.api_reason})"))
    if (notice := retirement_notice(request.model, request.family)) is not None:
        changes.append(ReplyWarning("model_retires", notice))
    if (conversation := params.conversation) is not None:
        account = endpoint.account(served.api, params.extra_headers)
        if conversation.account not in (None, account):
            raise ConfigError(
                f"conversation: {conversation.after!r} belongs to another endpoint or API key: pass all messages and"
                " Conversation()"
            )
        turns = {} if restrictions.forgotten else conversation.turns(account)
        stored = StoredConversation(account, turns, conversation.after, restrictions.forgotten)
        request = replace(request, conversation=stored)
    if restrictions.only_streams and not request.stream:
        request = replace(request, stream=True)
    if profile.escape_special_tokens:
        model = (profile.model_family or request.model) if profile.renders_templates else None
        if tokens := special_tokens(profile.dialect, model):
            request, escaped = escape_special_tokens(request, tokens.text, tokens.history)
            changes += escaped
    if restrictions.options and request.options.unsupported_options != "strict":
        request, more = with_restrictions(request, restrictions.options)
        changes += more
    if restrictions.schemas and request.options.unsupported_options != "strict":
        request = replace(request, refused_schemas=restrictions.schemas)
    if restrictions.usage_refused:
        request, dropped = without_stream_options(request, restrictions.usage_refused)
        changes.append(dropped)
    if restrictions.turns and request.options.unsupported_options != "strict":
        request, more = with_refused_turns(request, restrictions.turns)
        changes += more
    if restrictions.binds_thinking and request.family.binds_thinking:
        request = replace(request, family=request.family.over({"binds_thinking": "always"}))
    sent = served.adapter.prepare(request, repair_history=params.repair_history, endpoint=profile)
    return served, replace(sent, warnings=(*changes, *sent.warnings)) if changes else sent


def _api_that_stores(endpoint: Endpoint, model: str) -> str | None:
    # Some endpoints have two APIs, of which only one stores conversations.
    served = endpoint.model(model)
    other = endpoint.other_api(served.api) if endpoint.profile.api == "auto" else None
    if other is None or served.adapter.keeps_conversations:
        return None
    return other if endpoint.model(model, other).adapter.keeps_conversations else None
