"""Handles options that a server rejected. streamfold sends the request again without these options, and leaves them out
of later requests.

1. After an error, `RetryLoop` (retry_backoff.py) calls `PreparedCall.without`, which returns the request without the
rejected part.
2. `restrictions_from_error` converts the error to `Restrictions`.
3. `with_restrictions` changes the request and adds a warning. The adapter then converts the changed request to JSON.
4. If the server accepts the request, `RestrictionCache` stores the restrictions for later calls.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..adapters import Adapter, PreparedRequest
from ..config import learned_rules
from ..errors import (
    APIError,
    BadRequestError,
    ErrorClassification,
    ModelNotFoundError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedOptionError,
    UpstreamError,
    join_limited,
)
from ..requests import (
    EFFORTS,
    Request,
    drop_forced_tool_choice,
    is_forced,
    nearest_effort,
    read_response_format,
    schema_digest,
    signed_turn,
    without_signed_reasoning,
)
from ..types import ReplyWarning, WarningCode

if TYPE_CHECKING:
    from ..requests import ReasoningEffort


# The names of our options in requests. Behind a router, an error may use another API's name.
_MEMBERS: dict[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "stop": ("stop", "stop_sequences"),
    "seed": ("seed", "random_seed"),
    "parallel_tool_calls": ("parallel_tool_calls", "disable_parallel_tool_use"),
    "reasoning_effort": (
        "reasoning_effort", "reasoning", "effort", "thinking", "thinking_level", "thinking_budget", "thinking_config",
        "budget_tokens", "enable_thinking", "think",
    ),
    "compact_threshold": ("compact_threshold", "context_management"),
    "tool_choice": ("tool_choice",),
}  # fmt: skip
_BY_MEMBER = {member: option for option, members in _MEMBERS.items() for member in members}
_NEVER = ("messages", "input", "contents", "system", "instructions", "tools", "response_format", "text", "model")
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_LONGEST_REASON = 300  # characters of the server's message


@dataclass(frozen=True, slots=True)
class OptionRestriction:
    """Describes how to send an option after the server rejected it. By default, the request is sent without the option.

    Attributes:
        option: the option's name or "tool_choice". "reasoning" means the reasoning of earlier turns. A name that begins
            with "history" means a rule for the conversation's messages.
        why: the server's error message.
        instead: the name of the field that replaces the rejected field.
        least, most: the minimum and maximum value that the server accepts.
        allowed: the reasoning efforts that the server accepts.
        set_by_adapter: True if the adapter, not the caller, set the rejected option.
        history: rules for the conversation's messages; the keys are attribute names of `HistoryRules`.
    """

    option: str
    why: str
    instead: str | None = None
    least: float | None = None
    most: float | None = None
    allowed: tuple[ReasoningEffort, ...] = ()
    set_by_adapter: bool = False
    history: Mapping[str, Any] | None = None


def option_restriction(
    meaning: ErrorClassification, message: str, sent: Request, body: Mapping[str, Any]
) -> OptionRestriction | None:
    """Returns how to change the rejected option in the next request, or None if the server rejected something that
    streamfold must not change.

    streamfold never changes messages, tools, the response format, `extra_body`, or an option that wasn't sent.

    Args:
        message: the server's error message.
        sent: the rejected request, after its adaptation to the endpoint.
        body: the JSON body of the rejected request.
    """
    option = _option(meaning.param or "", sent, body)
    if option is None or not sent.options.extra_body.keys().isdisjoint(_MEMBERS.get(option, ())):
        return None
    restriction = OptionRestriction(option, _shortened(message))
    if option == "max_output_tokens":  # it limits the cost, so it is never left out
        names, set_by_adapter = _MEMBERS[option], sent.options.max_output_tokens is None
        value = next((body[name] for name in names if isinstance(body.get(name), int)), sent.options.max_output_tokens)
        if meaning.instead in names and meaning.instead not in body:
            return replace(restriction, instead=meaning.instead)
        bounded = replace(restriction, least=meaning.least, most=meaning.most, set_by_adapter=set_by_adapter)
        return bounded if value is not None and _bounded(value, bounded) != value else None
    if option in ("temperature", "top_p"):
        bounded = replace(restriction, least=meaning.least, most=meaning.most)
        value = getattr(sent.options, option)
        return bounded if _bounded(value, bounded) != value else restriction
    levels = tuple(level for level in EFFORTS if level in meaning.allowed)
    if option == "reasoning_effort" and levels not in ((), ("none",)) and sent.options.reasoning_effort not in levels:
        return replace(restriction, allowed=levels)
    return restriction


def _shortened(message: str) -> str:
    # The end is kept, because Anthropic names the change before a thinking block there.
    half = _LONGEST_REASON // 2
    return message if len(message) <= _LONGEST_REASON else f"{message[:half]} ... {message[-half:]}"


def _option(param: str, sent: Request, body: Mapping[str, Any]) -> str | None:
    path = [part for part in re.split(r"[.\[\]]+", param) if part]
    if not path:
        return None
    in_messages = any(message.reasoning for message in sent.messages)
    if path[-1] in _REASONING and in_messages and (len(path) > 1 or path[0] not in body):
        return "reasoning"
    if path[0] in _NEVER:
        return None
    option = next((_BY_MEMBER[part] for part in reversed(path) if part in _BY_MEMBER), None)
    if option == "tool_choice":
        return option if is_forced(sent) else None
    if option == "max_output_tokens":
        return option
    return option if option is not None and getattr(sent.options, option) is not None else None


def with_restrictions(
    request: Request, restrictions: Iterable[OptionRestriction]
) -> tuple[Request, list[ReplyWarning]]:
    warnings: list[ReplyWarning] = []
    for restriction in restrictions:
        if restriction.history is not None:
            history = {**(request.family.history or {}), **restriction.history}
            request = replace(request, family=request.family.over({"history": history}))
            continue
        match restriction.option:
            case "stop":  # the decoder then ends the answer at the stop text
                request = replace(request, family=request.family.over({"stop": "no"}))
            case "tool_choice":
                request = drop_forced_tool_choice(
                    request, f"refused a forced tool choice ({restriction.why})", warnings
                )
            case "reasoning":
                request = _without_reasoning(request, restriction, warnings)
            case _:
                request = _with_changed_option(request, restriction, warnings)
    return request, warnings


def _with_changed_option(request: Request, restriction: OptionRestriction, warnings: list[ReplyWarning]) -> Request:
    name, value = restriction.option, getattr(request.options, restriction.option)
    if value is None and not restriction.set_by_adapter:
        return request
    if restriction.instead is not None:
        others = {member: restriction.instead for member in _MEMBERS[name] if member != restriction.instead}
        return replace(request, renames={**request.renames, **others})
    if restriction.allowed:
        new = value if value in restriction.allowed else nearest_effort(value, restriction.allowed)
    elif restriction.least is None and restriction.most is None:
        new = None
    else:
        new = _bounded(restriction.most if value is None else value, restriction)
    if new == value:
        return request
    code: WarningCode = "option_dropped" if new is None else "option_changed"
    what = "was not sent" if new is None else f"is sent as {new!r}"
    said = f"{name} {what}" if value is None else f"{name}={value!r} {what}"
    warnings.append(ReplyWarning(code, f"{said}: {request.model} refused it ({restriction.why})"))
    options: dict[str, Any] = {name: new}
    return replace(request, options=replace(request.options, **options))


def _bounded(value: Any, restriction: OptionRestriction) -> Any:
    whole = isinstance(value, int) or restriction.option == "max_output_tokens"
    for bound, pick in ((restriction.most, min), (restriction.least, max)):
        if value is not None and bound is not None:
            value = pick(value, int(bound) if whole and bound == int(bound) else bound)
    return value


def _without_reasoning(request: Request, restriction: OptionRestriction, warnings: list[ReplyWarning]) -> Request:
    # Some servers reject the reasoning of earlier turns as an unknown field.
    if not any(message.reasoning for message in request.messages):
        return request
    detail = f"the reasoning of earlier turns was not sent, because {request.model} refused it ({restriction.why})"
    warnings.append(ReplyWarning("reasoning_dropped", detail))
    messages = [
        replace(
            message,
            reasoning=None,
            extras={name: value for name, value in message.extras.items() if name != "reasoning_details"},
        )
        if message.reasoning
        else message
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


Combination: TypeAlias = frozenset[tuple[str, Any]]
"""The options of a request: their names, with the values of those that are switches."""

_SECONDS = 3600.0
_MOST_OWNERS = 1000  # pairs of owner and model, which come from callers
_MOST_COMBINATIONS = 32  # of one pair
_MOST_SCHEMAS = 1000  # of one pair
_MOST_TURNS = 10_000  # of one pair
_NUMBERS = ("temperature", "top_p", "max_output_tokens", "stop", "seed", "compact_threshold", "response_format")
_SWITCHES = ("parallel_tool_calls", "reasoning_effort")


def combination_of(request: Request) -> Combination:
    """Returns the names of all options in a request. Some, such as `reasoning_effort`, have their values too. Options
    that the server has rejected are included.
    """
    options = request.options
    found: set[tuple[str, Any]] = {(name, None) for name in _NUMBERS if getattr(options, name) is not None}
    found |= {(name, value) for name in _SWITCHES if (value := getattr(options, name)) is not None}
    found |= {
        (f"extra_body.{name}", json.dumps(value, sort_keys=True, default=repr))
        for name, value in options.extra_body.items()
    }
    if request.tools:
        choice = request.tool_choice
        found |= {("tools", None), ("tool_choice", choice if isinstance(choice, str) else type(choice).__name__)}
    if not request.stream:
        found.add(("stream", False))
    if any(message.reasoning for message in request.messages):
        found.add(("reasoning", None))
    return frozenset(found)


class RefusedTurn(NamedTuple):
    """Describes how to send an assistant turn after the server rejected the turn's reasoning.

    Attributes:
        why: the server's error message.
        left_out: True to send the turn without its reasoning. False to send the turn with its reasoning, and to allow
            the server to ignore reasoning that it can't read.
    """

    why: str
    left_out: bool


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Describes how to send requests after the endpoint rejected parts of earlier requests.

    Attributes:
        options: the options to leave out or change, and the rules for the conversation's messages.
        usage_refused: the server's error message about `stream_options`, which requests token counts in a stream; "" if
            it wasn't rejected.
        only_streams: True if the endpoint accepts only streaming requests.
        schemas: digests of rejected JSON schemas. streamfold sends a simpler schema instead, or no schema.
        api: the API to use for the model, or None for the model's usual API.
        api_reason: the server's error message that the model isn't available on its usual API.
        turns: how to send assistant turns whose reasoning was rejected. The key is the turn's digest (`signed_turn`).
        binds_thinking: True if the provider rejects a turn's reasoning when an earlier message has changed.
        forgotten: the server's error message that the stored conversation no longer exists; otherwise "".
    """

    options: tuple[OptionRestriction, ...] = ()
    usage_refused: str = ""
    only_streams: bool = False
    schemas: frozenset[str] = frozenset()
    api: str | None = None
    api_reason: str = ""
    turns: Mapping[str, RefusedTurn] = field(default_factory=dict)
    binds_thinking: bool = False
    forgotten: str = ""

    def __add__(self, other: Restrictions) -> Restrictions:
        # A new restriction replaces a known one of the same option. Another field name and a bound may both apply.
        replaced = {(restriction.option, restriction.instead is None) for restriction in other.options}
        kept = [
            restriction
            for restriction in self.options
            if (restriction.option, restriction.instead is None) not in replaced
        ]
        usage_refused = other.usage_refused or self.usage_refused
        only_streams = self.only_streams or other.only_streams
        schemas = self.schemas | other.schemas
        schemas = schemas if len(schemas) <= _MOST_SCHEMAS else other.schemas
        api = (other.api, other.api_reason) if other.api is not None else (self.api, self.api_reason)
        turns = dict(list({**self.turns, **other.turns}.items())[-_MOST_TURNS:])
        binds = self.binds_thinking or other.binds_thinking
        forgotten = other.forgotten or self.forgotten
        return Restrictions(
            (*kept, *other.options), usage_refused, only_streams, schemas, *api, turns, binds, forgotten
        )

    def repeats(self, known: Restrictions, learned: Restrictions) -> bool:
        """Returns True if the server rejected a request that already followed these restrictions, so that another retry
        is useless.

        Args:
            known: the restrictions that are known from earlier calls.
            learned: the restrictions that are known from rejections of this call.
        """
        if self.forgotten and learned.forgotten:
            return True
        if any(one.option == other.option for one in self.options for other in learned.options):
            return True
        if self.schemas and self.schemas <= learned.schemas | known.schemas:
            return True
        return bool(self.turns) and self.turns.items() <= {**known.turns, **learned.turns}.items()


NO_RESTRICTIONS = Restrictions()


class RestrictionCache:
    """Remembers for an hour which options a provider rejected. An entry belongs to a model, an owner and a combination
    of options.

    A restriction applies to requests that have all options of the rejected request. A server may reject `temperature`
    together with reasoning, but accept `temperature` alone. Owners don't share restrictions.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], OrderedDict[Combination, tuple[float, Restrictions]]] = OrderedDict()
        self._lock = Lock()  # several threads may use a cache at once

    def find(self, model: str, owner: str, request: Request) -> Restrictions:
        with self._lock:
            kept = list(self._kept.get((model, owner), {}).items())
        if not kept:
            return NO_RESTRICTIONS
        now, asked = self._clock(), combination_of(request)
        fitting = [found for refused, (until, found) in kept if refused <= asked and now < until]
        return sum(fitting, NO_RESTRICTIONS)

    def add_learned(self, request: Request, owner: str, learned: Restrictions) -> None:
        """Remembers the restrictions that a request needed before the server accepted it.

        A restriction of an option applies to later requests that have all options of this request. Other restrictions
        apply to all requests to the model.

        Args:
            request: the request before rejected options were left out.
        """
        if learned == NO_RESTRICTIONS:
            return
        options = tuple(each for each in learned.options if each.history is None)
        histories = tuple(each for each in learned.options if each.history is not None)
        if options or learned.only_streams:
            rejected = Restrictions(options, only_streams=learned.only_streams)
            self.add(request.model, owner, combination_of(request), rejected)
        always = replace(learned, options=histories, only_streams=False, forgotten="")  # `forgotten` is about one call
        if always != NO_RESTRICTIONS:
            self.add(request.model, owner, frozenset(), always)

    def add(self, model: str, owner: str, refused: Combination, restrictions: Restrictions) -> None:
        """Adds restrictions for a combination of options. A new restriction replaces an earlier restriction of the same
        option.
        """
        now = self._clock()
        with self._lock:
            kept = self._kept.setdefault((model, owner), OrderedDict())
            until, known = kept.pop(refused, (now, NO_RESTRICTIONS))
            kept[refused] = now + _SECONDS, (known if now < until else NO_RESTRICTIONS) + restrictions
            self._kept.move_to_end((model, owner))
            for full, most in ((kept, _MOST_COMBINATIONS), (self._kept, _MOST_OWNERS)):
                if len(full) > most:
                    full.popitem(last=False)


# How servers say that an answer can only be streamed: "must be set to false for non-streaming calls" (DashScope,
# alibaba/spring-ai-alibaba#867, in Chinese too), "only support stream mode", "when `stream=False`".
_STREAM_OPTIONS = "stream_options"
_STREAM = re.compile(r"\bstream|流式", re.IGNORECASE)


# How servers say that they refuse a schema, and of which tool: OpenAI ("Invalid schema for function 'f'"), Anthropic
# ("tools.0.custom.input_schema: ...", "output_config.format.schema: ...", "... grammar compilation inefficient"),
# Moonshot ("not a valid moonshot flavored json schema"), Google ("function_declarations[0].parameters"), llama.cpp
# ("JSON schema conversion failed"), vLLM (the grammar of a response format).
_OF_FORMAT = re.compile(
    r"response_?format|output_(?:config|format)|response_?(?:json_?)?schema|text\.format", re.IGNORECASE
)
_OF_TOOL = re.compile(
    r"input_schema|function_?declarations?\b|tools?\W{0,2}\d*\W{0,2}(?:custom|function)\b|for function|parameters",
    re.IGNORECASE,
)
_OF_SCHEMA = re.compile(r"schema|grammar|function_?declarations?\b|tools\.\d+\.custom", re.IGNORECASE)
_NUMBER = re.compile(r"(?:tools|function_?declarations?)[.\[](\d+)", re.IGNORECASE)


def _refused_schemas(message: str, asked: Request, sent: Request) -> frozenset[str]:
    if not _OF_SCHEMA.search(message):
        return frozenset()
    wanted, found = read_response_format(asked.options.response_format), set[str]()
    if wanted is not None and wanted.schema is not None and (_OF_FORMAT.search(message) or not asked.tools):
        found.add(schema_digest(wanted.schema))
    if not found or _OF_TOOL.search(message):
        numbers = {int(number) for number in _NUMBER.findall(message)}
        names = {tool.name for tool in sent.tools if f"'{tool.name}'" in message or f'"{tool.name}"' in message}
        named = [at for at, tool in enumerate(sent.tools) if at in numbers or tool.name in names]
        chosen = [asked.tools[at] for at in named if at < len(asked.tools)] or asked.tools
        found |= {schema_digest(tool.parameters) for tool in chosen if tool.kind == "function"}
    return frozenset(found)


# How Anthropic refuses the thinking of earlier turns: because what was sent before it has changed (Claude 5.1 and
# later, anomalyco/opencode#48637), or as that of another model (openclaw/openclaw#107221, vybestack/llxprt-code#2335).
_BOUND = re.compile(r"block is bound to a different conversation", re.IGNORECASE)
_SIGNATURE = re.compile(
    r"invalid\W+signature\W+in\W+thinking|thinking\W+(?:or\W+redacted_thinking\W+)?blocks[^.]*cannot be modified",
    re.IGNORECASE,
)
_CHANGE = re.compile(r"(?:The|A) (?:`[^`]*`|[^.`])*(?:differs|is missing)(?:`[^`]*`|[^.`])*")  # at the message's end


def _refused_turns(
    error: BadRequestError, adapter: Adapter, sent: PreparedRequest, asked: Request
) -> Restrictions | None:
    words = f"{error.message} {error.body}"
    bound = _BOUND.search(words) is not None
    if not (bound or _SIGNATURE.search(words)):
        return None
    thinking = json.loads(sent.body).get("thinking")
    if isinstance(thinking, dict) and "block_binding" in thinking:  # set by the caller, or by an earlier retry
        return None
    left_out = not (bound and adapter.drops_bound_thinking)
    change = _CHANGE.search(error.message) if bound else None
    refused = RefusedTurn(change[0] if change else _shortened(error.message), left_out)
    turns = {digest: refused for each in asked.messages if (digest := signed_turn(each)) is not None}
    return Restrictions(turns=turns, binds_thinking=bound) if turns else None


def without_stream_options(request: Request, why: str) -> tuple[Request, ReplyWarning]:
    """Returns the request without `stream_options`, which requests token counts in a stream, and a warning."""
    detail = "the server refuses stream_options, so no usage was requested: set stream_usage = false"
    renames = {**request.renames, _STREAM_OPTIONS: None}
    return replace(request, renames=renames), ReplyWarning("option_dropped", f"{detail} ({why})")


def with_refused_turns(request: Request, refused: Mapping[str, RefusedTurn]) -> tuple[Request, list[ReplyWarning]]:
    digests = enumerate(map(signed_turn, request.messages))
    found = {at: refused[digest] for at, digest in digests if digest is not None and digest in refused}
    if not found:
        return request, []
    left_out = [at for at, turn in found.items() if turn.left_out]
    places = join_limited([f"messages[{at}]" for at in found])
    how = "was not sent" if left_out else "is left out by the provider where it can't be read"
    why = next(iter(found.values())).why
    warning = ReplyWarning("reasoning_dropped", f"{places}: the reasoning {how}: {request.model} refused it ({why})")
    messages = [
        without_signed_reasoning(message) if at in left_out else message for at, message in enumerate(request.messages)
    ]
    drops = len(left_out) < len(found)
    return replace(request, messages=tuple(messages), drop_bound_thinking=drops), [warning]


# OpenAI: "Previous response with id 'resp_...' not found." with the code `previous_response_not_found`. ChatGPT's
# backend: "Invalid `previous_response_id`." (Soju06/codex-lb#1817). Google answers 404 for an interaction that expired.
_STORED = re.compile(r"previous[ _]?(?:response|interaction)", re.IGNORECASE)
_NOT_THERE = (BadRequestError, NotFoundError, PermissionDeniedError, UpstreamError)


def _forgotten(error: APIError, sent: PreparedRequest) -> Restrictions | None:
    # The whole conversation is sent if the server no longer has the stored one.
    stored = sent.request.conversation
    if stored is None or stored.id in (None, stored.base) or not isinstance(error, _NOT_THERE):
        return None
    words = f"{error.message} {error.body}"
    named = str(stored.id) in words or _STORED.search(words) is not None
    if named or (isinstance(error, NotFoundError) and not isinstance(error, ModelNotFoundError)):
        return Restrictions(forgotten=_shortened(error.message))
    return None


def _is_about(error: APIError, sent: PreparedRequest) -> bool:
    # OpenAI's error also names `reasoning_effort` if OpenAI's own default doesn't work with tools.
    if not isinstance(error, UnsupportedOptionError) or not error.param or sent.request.tools:
        return True
    return re.split(r"[.\[]", error.param)[0] in json.loads(sent.body)


def restrictions_from_error(
    error: APIError, adapter: Adapter, sent: PreparedRequest, asked: Request, other_api: str | None = None
) -> Restrictions | None:
    """Returns the restrictions under which a rejected request can be sent again, or None if the rejected part can't be
    left out.

    Args:
        adapter: the adapter that converted the request to JSON.
        sent: the rejected request, after its adaptation to the endpoint.
        asked: the rejected request with the endpoint's defaults, before its adaptation.
        other_api: the other wire format of the endpoint, or None.
    """
    if (forgotten := _forgotten(error, sent)) is not None:
        return forgotten
    needed = error.info.required_api(adapter.name) if error.info is not None else None
    if other_api is not None and needed == other_api and _is_about(error, sent):
        return Restrictions(api=other_api, api_reason=_shortened(error.message))
    if isinstance(error, BadRequestError) and not sent.request.stream and _STREAM.search(error.message):
        return Restrictions(only_streams=True)
    if isinstance(error, BadRequestError) and _STREAM_OPTIONS in f"{error.message} {error.body}":
        asked_by_adapter = _STREAM_OPTIONS not in sent.request.options.extra_body
        if asked_by_adapter and _STREAM_OPTIONS in json.loads(sent.body):  # older vLLM, LM Studio, Azure
            return Restrictions(usage_refused=str(error))
    if sent.request.options.unsupported_options == "strict":
        return None
    if isinstance(error, BadRequestError) and (turns := _refused_turns(error, adapter, sent, asked)) is not None:
        return turns
    rules = learned_rules(f"{error.message} {error.body}") if isinstance(error, BadRequestError) else {}
    if not rules.items() <= (sent.request.family.history or {}).items():
        why = _shortened(error.message)
        return Restrictions((OptionRestriction(f"history: {', '.join(rules)}", why, history=rules),))
    if isinstance(error, UnsupportedOptionError) and error.info is not None:
        meaning = error.info.meaning(error.body)
        message, body = error.info.message, json.loads(sent.body)
        restriction = option_restriction(meaning, message, sent.request, body) if meaning is not None else None
        if restriction is not None:
            return Restrictions((restriction,))
    if type(error) is BadRequestError or isinstance(error, UnsupportedOptionError):
        refused = _refused_schemas(error.message, asked, sent.request)
        return Restrictions(schemas=refused) if refused else None
    return None
