"""The options of a request, which have the same names for every API, and the checks of its HTTP headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from types import UnionType
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from ..errors import ConfigError, did_you_mean
from ..types import Conversation, OutputType, Timeouts
from .object_reader import ObjectReader

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # https://www.rfc-editor.org/rfc/rfc9110#name-tokens


# Headers that frame a message or belong to one connection. The HTTP library sets them.
_FRAMING = {
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
}  # fmt: skip


def header_name_problem(name: Any) -> str | None:
    """Returns the reason why callers may not set a header with this name, or None if they may."""
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        return f"{name!r} can't be the name of a header"
    if name.lower() in _FRAMING:
        return f"{name} can't be set: the HTTP library sets this header"
    return None


def header_problem(value: Any) -> str | None:
    """Returns the reason why a header can't have this value, or None if it can. The reason doesn't quote the value,
    which may be a secret."""
    if not isinstance(value, str):
        return f"must be a string, not {type(value).__name__}"
    if value.isascii() and value.isprintable():
        return None
    return "contains a character that isn't allowed in a header"


def read_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Validates headers. Raises ConfigError for an invalid header. The error message contains the header's name but
    never its value."""
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigError(f"extra_headers must be a mapping of names to strings, not {type(headers).__name__}")
    given: Mapping[Any, Any] = headers or {}
    for name, value in given.items():
        if problem := header_name_problem(name):
            raise ConfigError(f"extra_headers: {problem}")
        if problem := header_problem(value):
            raise ConfigError(f"extra_headers.{name}: {problem}")
    return dict(given)


ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class TimeoutOptions(TypedDict, total=False):
    """A dict with the fields of `Timeouts`, in seconds. For a missing key, the configured timeout applies."""

    connect: float | None
    first_event: float | None
    read: float | None
    stall: float | None
    total: float | None


class ChatOptions(TypedDict, total=False):
    """The keyword arguments of `chat`, `chat_stream` and `run_tools`.

    An option that is None counts as missing. The request then doesn't contain the option, and the server uses its
    default. If the model or its API doesn't support an option, streamfold adapts or drops the option, with a warning.
    If dropping an option would change the meaning of the request, streamfold raises ConfigError. See
    `unsupported_options`.
    """

    model: str | None
    """The name of the model to use, instead of the configured model."""

    temperature: float | None
    """The sampling temperature."""

    top_p: float | None
    """The probability for nucleus sampling. The model samples only from the most likely tokens whose probabilities add
    up to this value.
    """

    max_output_tokens: int | None
    """The maximum number of tokens in the answer, including reasoning tokens if the provider counts these as output."""

    stop: str | list[str] | None
    """One or several stop texts. The answer ends when the model writes one of them."""

    seed: int | None
    """The seed for sampling. With the same seed, some providers return the same answer to the same request."""

    parallel_tool_calls: bool | None
    """True if the model may make several tool calls per answer, False if it may make only one."""

    reasoning_effort: ReasoningEffort | None
    """How much the model reasons before it answers, from "none", "minimal", "low", "medium" and "high" to "xhigh" and
    "max". If the model doesn't support the level, streamfold sends the next higher level, or else the highest level.
    """

    compact_threshold: int | None
    """The number of input tokens above which the provider compacts the conversation before it answers. Anthropic (at
    least 50,000 tokens) and OpenAI's Responses API support this. The compaction is in `Reply.hosted`. `Reply.message`
    contains it too, so that the next request sends it back. See also `Provider.compact`.
    """

    response_format: type[object] | UnionType | Mapping[str, Any] | ResponseFormat | Literal["json"] | None
    """The type of the answer: a pydantic model, another type that pydantic validates (a dataclass, `list[Item]`, a
    union), a JSON schema, or "json" for any JSON object. `Reply.parse_as` returns the value. APIs accept only the
    schema of an object, so a list or a union is requested as the field `value` of an object.

    Dicts in the format of Chat Completions or of the Responses API are accepted too.
    """

    disable_thinking_for_forced_tools: bool | None
    """True to disable thinking for this request if the model doesn't accept a forced tool choice while it thinks. By
    default, streamfold sends `tool_choice="auto"` instead, with the warning `forced_choice_dropped`.
    """

    unsupported_options: Literal["adapt", "strict"] | None
    """The handling of options that the model or its API doesn't support. With "adapt" (the default), streamfold adapts
    or drops the option, with a warning. With "strict", streamfold raises ConfigError.
    """

    extra_body: Mapping[str, Any] | None
    """Additional fields for the JSON body, such as `{"top_k": 40}`. A field here replaces the field of the same name in
    the body that streamfold builds.
    """

    extra_headers: Mapping[str, str] | None
    """Additional HTTP headers for this request."""

    timeouts: Timeouts | TimeoutOptions | None
    """The timeouts of this request. A dict such as `{"read": 5}` changes only the timeouts that it names."""

    repair_history: bool
    """True to repair a conversation that the provider would refuse, with a warning for each change. Examples are a tool
    result without its tool call, a tool call without a result, an empty message and a repeated id. By default,
    streamfold raises ConfigError for such a conversation.
    """

    partial_tool_calls: bool
    """True to also yield a chunk for each fragment of a tool call. `stream.partial_tool_calls` then grows while the
    model writes the tool call. Chunks for fragments have no text. The last chunk still has the complete tool calls.
    """

    coalesce: bool | None
    """True to join all text that arrives in one network read into one chunk. A program that reads slowly then gets
    fewer chunks, without any delay. With False, each SSE event becomes one chunk. By default, the provider's setting
    applies, which is True unless you change it.
    """

    conversation: str | Conversation | None
    """A conversation that the provider stores, so that requests send only new messages: see `Conversation`. With a
    `Conversation`, pass all messages. With the id of a stored response or conversation, pass only the messages that
    follow it. If the API doesn't store conversations, streamfold sends all messages and adds the warning
    `option_dropped`.
    """

    max_continuations: int | None
    """The maximum number of additional requests that continue one answer. Gemini 4 and Claude may end a response before
    the answer is finished. streamfold then sends another request, and joins the responses to one stream and one reply
    (see `Usage.steps`). By default, the provider's setting applies, which is 8 unless you change it. If the answer
    needs more requests, streamfold raises `IncompleteStreamError`. With 0, streamfold sends no additional request, the
    finish reason is "unknown", and `Reply.paused` is true.
    """


def check_max_continuations(value: object) -> None:
    if not _is_integer(value) or value < 0:  # type: ignore[operator]
        raise ConfigError(f"max_continuations must be a whole number, 0 or more, not {value!r:.80}")


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a request's body contains. If an option is None, the body doesn't contain it, and the server
    uses its default.

    Each option is documented at `ChatOptions`.

    Attributes:
        cut_at: texts at which streamfold itself ends the answer, because the request can't contain them as `stop`.
            Callers never set this.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    compact_threshold: int | None = None
    response_format: Any = None
    disable_thinking_for_forced_tools: bool | None = None
    unsupported_options: Literal["adapt", "strict"] | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    cut_at: tuple[str, ...] | None = None

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Options:
        """Validates the names and values of options, and creates an `Options`.

        Raises:
            ConfigError: an option is unknown or its value isn't allowed. The error message contains the name of the
                option.
        """
        if not given:
            return NO_OPTIONS
        given = dict(given)
        if given.pop("n", None) not in (None, 1):
            raise ConfigError("n must be 1, because a request returns one answer: send several requests instead")
        options = [name for name in cls.__dataclass_fields__ if name != "cut_at"]
        for name in given:
            if name not in options:
                raise ConfigError(f"unknown option {name!r}: {_hint(name, options)}")
        chosen = {name: value for name, value in given.items() if value is not None}
        for name, value in chosen.items():
            if name in _TAKES and not _TAKES[name][0](value):
                hint = ""
                if name == "reasoning_effort":
                    known = did_you_mean(str(value), get_args(ReasoningEffort))
                    hint = f"{known}. Other values of a provider go into extra_body"
                raise ConfigError(f"{name} must be {_TAKES[name][1]}, not {value!r:.80}{hint}")
        if isinstance(wanted := chosen.get("response_format"), Mapping):
            chosen["response_format"] = read_response_format(wanted)
        return cls(**chosen)

    @property
    def stop_texts(self) -> list[str]:
        """The stop texts in `stop` as a list, even if `stop` is a single string."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())

    def over(self, defaults: Options) -> Options:
        """Returns a copy in which each option that is None has the value from `defaults`. The two `extra_body` dicts
        are merged field by field.
        """
        if defaults is NO_OPTIONS:
            return self
        if self == NO_OPTIONS:
            return defaults
        each = zip(_VALUES(self), _VALUES(defaults), strict=True)
        chosen = Options(*(default if own is None else own for own, default in each))
        return replace(chosen, extra_body={**defaults.extra_body, **self.extra_body})


NO_OPTIONS = Options()
"""Options that are all unset."""
_VALUES = attrgetter(*(each.name for each in fields(Options)))


def _hint(name: str, known: list[str]) -> str:
    if name in OPTION_SYNONYMS:
        return f"pass {OPTION_SYNONYMS[name]}="
    if hint := next((hint for names, hint in _ELSEWHERE.items() if name in names.split()), None):
        return hint
    if name in _EXTRA_BODY:
        return f"pass extra_body={{{name!r}: ...}}"
    others = [*known, *(key for key in ChatOptions.__annotations__ if key not in known)]
    close = did_you_mean(name, others).strip(" ()")
    return close or f"allowed: {', '.join(others)}. Anything else goes into extra_body={{{name!r}: ...}}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_stop(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value))


def check_stream(stream: object) -> None:
    if not isinstance(stream, bool):
        raise ConfigError(f"stream must be True or False, not {stream!r:.80}")


OPTION_SYNONYMS = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_new_tokens", "num_predict"), "max_output_tokens"),
    **dict.fromkeys(("stop_sequences", "stop_sequence", "stop_words"), "stop"),
    **dict.fromkeys(("timeout", "request_timeout", "read_timeout"), "timeouts"),
    **dict.fromkeys(("headers", "default_headers"), "extra_headers"),
    **dict.fromkeys(("thinking", "reasoning", "effort", "thinking_budget", "budget_tokens"), "reasoning_effort"),
    **dict.fromkeys(("response_model", "response_schema", "output_schema", "output_format"), "response_format"),
    **dict.fromkeys(("text_format", "json_schema", "json_mode", "format"), "response_format"),
    "random_seed": "seed",
    **dict.fromkeys(("previous_response_id", "previous_interaction_id", "conversation_id"), "conversation"),
    "model_name": "model",
    "drop_params": "unsupported_options",
}
"""Maps the names that other libraries use for an option to the name here."""
# Hints for names, here and in other libraries, that aren't options of a request.
_ELSEWHERE = {
    "stream": "only chat() accepts it, because it returns the whole answer",
    "functions": "pass tools=",
    "function_call": "pass tool_choice=",
    "system system_prompt system_message instructions": "put system(...) at the start of the messages",
    "prompt input contents": "pass messages=",
    "max_steps max_iterations max_tool_rounds max_rounds recursion_limit": "run_tools() has max_turns=",
    "max_turns external on_tool_error approve journal owner": "only run_tools() accepts it",
    "output_type result_type": "run_tools() has output_type=; elsewhere pass response_format=, or call extract()",
    "max_concurrency max_workers parallelism": "batch() has concurrency=",
    "concurrency tries max_cost check ledger": "only batch() accepts it",
    "attempts": "only extract() accepts it",
    "api_base api_url endpoint azure_endpoint": "Provider.from_config() has base_url=",
    "num_retries retries max_attempts": "Provider.from_config() has max_retries=",
    "callbacks": "Provider.from_config() has hooks=",
    "api_key base_url adapter dialect max_retries http_client hooks fallback prices rpm tpm turn_cache": (
        "Provider.from_config() accepts it"
    ),
}
# Parameters of providers that look like options, but belong into `extra_body`.
_EXTRA_BODY = {
    "top_k", "min_p", "top_a", "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs",
    "top_logprobs", "user", "metadata", "service_tier", "store", "safety_identifier",
}  # fmt: skip
_TAKES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (_is_number, "a number"),
    "top_p": (_is_number, "a number"),
    "max_output_tokens": (lambda value: _is_integer(value) and value > 0, "a whole number greater than 0"),
    "stop": (_is_stop, "a string or a list of strings"),
    "seed": (_is_integer, "a whole number"),
    "parallel_tool_calls": (lambda value: isinstance(value, bool), "true or false"),
    "reasoning_effort": (
        lambda value: value in get_args(ReasoningEffort),
        f"one of {', '.join(get_args(ReasoningEffort))}",
    ),
    "compact_threshold": (lambda value: _is_integer(value) and value > 0, "a whole number greater than 0"),
    "disable_thinking_for_forced_tools": (lambda value: isinstance(value, bool), "true or false"),
    "unsupported_options": (lambda value: value in ("adapt", "strict"), '"adapt" or "strict"'),
    "extra_body": (lambda value: isinstance(value, Mapping), "a mapping"),
}


# The types of a response format in Chat Completions and the Responses API, which aren't types of JSON Schema.
_FORMS = ("text", "json_object", "json_schema")
_SCHEMA_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The format that the answer's text must have.

    Attributes:
        schema: the JSON schema of the text, or None for any JSON object.
        strict: True if the provider must enforce the schema, or None to leave the decision to the provider.
        model: True if the schema was generated from a pydantic model, False if the caller wrote the schema.
        description: a description of the format, for the model.
    """

    schema: Mapping[str, Any] | None = None
    name: str = "answer"
    strict: bool | None = None
    model: bool = False
    description: str | None = None


def read_response_format(wanted: Any) -> ResponseFormat | None:
    """Parses the option `response_format` in every accepted format.

    Raises:
        ConfigError: the value isn't "json", a JSON schema, a type that pydantic validates, or a response format of Chat
            Completions or of the Responses API.
    """
    if wanted is None or isinstance(wanted, ResponseFormat):
        return wanted
    if wanted == "json":
        return ResponseFormat()
    if isinstance(wanted, Mapping):
        fields = ObjectReader(wanted, "response_format")
        kind = wanted.get("type")
        if isinstance(wanted.get("format"), Mapping):  # the field `text` of the Responses API
            inner = fields.inner("format")
            fields.refuse_rest("pass it in extra_body")
            return read_format(inner)
        if kind in _FORMS:
            return read_format(fields)
        if isinstance(kind, str) and kind not in _SCHEMA_TYPES:
            allowed = ", ".join([*_FORMS, *_SCHEMA_TYPES])
            raise ConfigError(
                f"response_format.type: unknown type {kind!r}{did_you_mean(kind, _FORMS)}. Allowed: {allowed}"
            )
        return ResponseFormat(dict(wanted))
    if isinstance(wanted, str):
        hint = ' (did you mean "json"?)' if "json" in wanted.lower() else ""
        raise ConfigError(f'response_format must be "json", a JSON schema or a type, not {wanted!r}{hint}')
    try:
        output = OutputType.of(wanted)
    except ConfigError as exc:
        raise ConfigError(f'response_format must be "json", a JSON schema or a type: {exc}') from exc
    # OpenAI allows only these characters in the name, and a model may be called `Page[Item]`.
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", output.name).strip("_")[:64]
    return ResponseFormat(output.schema, name or "answer", model=True)


def read_format(fields: ObjectReader) -> ResponseFormat | None:
    """Parses a response format of Chat Completions or of the Responses API. Returns None for the format `text`. In Chat
    Completions, the schema is inside the field `json_schema`. In the Responses API, the schema is next to `type`.
    llama.cpp, Fireworks and Together also accept a schema with the type `json_object`. See
    https://platform.openai.com/docs/guides/structured-outputs and
    https://github.com/ggml-org/llama.cpp/tree/master/tools/server

    Raises:
        ConfigError: the format is invalid. The error message contains the path of the invalid field.
    """
    kind = fields.need("type")
    if kind == "text":
        return None
    if kind not in ("json_object", "json_schema"):
        raise ConfigError(f"{fields.at('type')} must be text, json_object or json_schema, not {kind!r}")
    inner = fields.object("json_schema") or fields
    schema = inner.mapping("schema")
    if schema is None and kind == "json_schema":
        raise ConfigError(f"{inner.at('schema')} is missing: it must be a JSON schema")
    name, strict, description = inner.text("name"), inner.flag("strict"), inner.text("description")
    inner.refuse_rest("a schema has name, description, schema and strict")
    return ResponseFormat(schema, name or "answer", strict, description=description)
