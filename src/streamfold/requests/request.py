"""One request, as a value, before any adapter has seen it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

from ..values import (
    ConfigError,
    Message,
    MessageLike,
    Messages,
    ReadToolChoice,
    Tool,
    ToolLike,
    as_tools,
    nearest,
    read_tool_choice,
    user,
)
from .capabilities import Capabilities
from .chatdicts import check_message

__all__ = ["Options", "Request", "ResponseFormat", "read_messages", "read_response_format"]

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a request may ask for, in one vocabulary for every wire. None means: not said, the server decides.

    Attributes:
        max_output_tokens: reasoning included, where the provider counts it.
        response_format: "json", a JSON schema, or a pydantic model.
        force_by_disabling_thinking: where a model takes no forced tool choice while it thinks (Kimi), thinking is
            switched off for this request; else the force is dropped, and the reply says so.
        extra_body: members for the JSON body that this vocabulary has no word for; they win over ours.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    response_format: Any = None
    force_by_disabling_thinking: bool = False
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Options:
        """Checks that every option is known. Raises ConfigError that names the one that is not."""
        given = dict(given)
        if given.pop("n", 1) != 1:
            raise ConfigError("n is always 1: one stream carries one answer; send several requests instead")
        known = [option.name for option in fields(cls)]
        for name in given:
            if name not in known:
                hint = _FOREIGN.get(name) or nearest(name, known).strip(" ()")
                hint = hint or f"known are {', '.join(known)}; others go into extra_body"
                raise ConfigError(f"unknown option {name!r}: {hint}")
        said = {name: value for name, value in given.items() if value is not None}
        for name, value in said.items():
            if name in _TAKES and not _TAKES[name][0](value):
                raise ConfigError(
                    f"the option {name} must be {_TAKES[name][1]}, not {value!r:.80}{_effort(name, value)}"
                )
        return cls(**said)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _effort(name: str, value: Any) -> str:
    if name != "reasoning_effort":
        return ""
    return f"{nearest(str(value), get_args(Effort))}; what else a provider knows goes into extra_body"


# What other libraries call things, or do not have.
_FOREIGN = {
    "stream": "every answer is streamed; chat() hands out the whole of it",
    "functions": "pass tools=",
    "function_call": "pass tool_choice=",
    "system": "write a message: system(...)",
    "timeout": "pass timeouts=",
    "headers": "pass extra_headers=",
}
_TAKES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (_is_number, "a number"),
    "top_p": (_is_number, "a number"),
    "max_output_tokens": (lambda value: _is_integer(value) and value > 0, "a whole number greater than 0"),
    "stop": (
        lambda value: (
            isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value))
        ),
        "a string or a list of strings",
    ),
    "seed": (_is_integer, "a whole number"),
    "parallel_tool_calls": (lambda value: isinstance(value, bool), "true or false"),
    "reasoning_effort": (lambda value: value in get_args(Effort), f"one of {', '.join(get_args(Effort))}"),
    "force_by_disabling_thinking": (lambda value: isinstance(value, bool), "true or false"),
    "extra_body": (lambda value: isinstance(value, Mapping), "a mapping"),
}


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The form that the text of the answer is to have.

    Attributes:
        schema: the JSON schema that it is to fit; None: any JSON object.
        strict: whether the provider is to hold the model to the schema; None is not sent.
        model: the schema was made from a pydantic model, and not written by the caller.
        description: what the form is for, told to the model.
    """

    schema: Mapping[str, Any] | None = None
    name: str = "answer"
    strict: bool | None = None
    model: bool = False
    description: str | None = None


def read_response_format(wanted: Any) -> ResponseFormat | None:
    """The option `response_format` in any accepted spelling. Raises ConfigError."""
    if wanted is None or isinstance(wanted, ResponseFormat):
        return wanted
    if wanted == "json":
        return ResponseFormat()
    if hasattr(wanted, "model_json_schema"):
        # OpenAI takes no other characters in this name, and `Page[Item]` is the name of a model.
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", wanted.__name__).strip("_")[:64]
        return ResponseFormat(wanted.model_json_schema(), name or "answer", model=True)
    if isinstance(wanted, Mapping):
        if wanted.get("type") == "json_object":
            raise ConfigError('response_format {"type": "json_object"} is the form of one wire: write "json"')
        if wanted.get("type") == "json_schema":
            raise ConfigError(
                'response_format {"type": "json_schema", ...} is the form of one wire: pass the schema itself'
            )
        return ResponseFormat(dict(wanted))
    hint = nearest(wanted, ["json"]) if isinstance(wanted, str) else ""
    raise ConfigError(f'response_format is "json", a JSON schema or a pydantic model, not {wanted!r}{hint}')


@dataclass(frozen=True, slots=True)
class Request:
    """Model, conversation, tools and options, read and checked.

    Attributes:
        origin: what the messages of the provider that this is for have as their `origin`; None where nobody says.
        names: tools that are called otherwise on the wire: their own names by those. Calls that come are named back.
        answer_tool: the tool that stands for the answer: the arguments of its call are the text of the reply.
        capabilities: what is known of the model at this endpoint.
    """

    model: str
    messages: tuple[MessageLike, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ReadToolChoice = "auto"
    options: Options = field(default_factory=Options)
    origin: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    answer_tool: str | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)

    def came_from_here(self, message: Message) -> bool:
        """Whether the provider that this is for can read what only it can read. Where nobody says, it can."""
        return None in (message.origin, self.origin) or message.origin == self.origin

    @classmethod
    def read(
        cls,
        model: str,
        messages: Messages,
        tools: Iterable[ToolLike] | None,
        tool_choice: Any,
        options: Mapping[str, Any],
    ) -> Request:
        """Reads what a caller wrote. Raises ConfigError where it can't be sent."""
        read_tools = as_tools(tools)
        if not isinstance(model, str):
            raise ConfigError(f"model is the name of a model, not {type(model).__name__}")
        names = [tool.name for tool in read_tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two tools are called {twice[0]!r}: no call of it could be told from one of the other")
        choice, read = read_tool_choice(tool_choice, read_tools), Options.read(options)
        if not read_tools and choice not in ("auto", "none"):
            how = "write it there too" if "tools" in read.extra_body else "pass tools=, or leave it out"
            where = "no tools but those in extra_body" if "tools" in read.extra_body else "no tools"
            raise ConfigError(f"tool_choice is {tool_choice!r}, and there are {where}: {how}")
        return cls(model, read_messages(messages), read_tools, choice, read)


def read_messages(messages: Messages) -> tuple[MessageLike, ...]:
    """A conversation: a bare string is one user message. Raises ConfigError, naming the message that is not one."""
    if isinstance(messages, str) and messages:
        return (user(messages),)
    if isinstance(messages, Message | Mapping):
        raise ConfigError("messages is a list of messages, or a string: this is a single message; put it into a list")
    if not isinstance(messages, Iterable):
        raise ConfigError(f"messages is a list of messages, or a string, not {type(messages).__name__}")
    read: tuple[Any, ...] = tuple(messages)
    if not read:
        raise ConfigError("messages is empty: there is nothing to answer")
    for position, message in enumerate(read):
        # Items of the Responses API that are no messages have a type instead.
        is_dict = isinstance(message, Mapping) and (message.get("role") or message.get("type"))
        if isinstance(message, str):
            raise ConfigError(f"messages[{position}] is a string, and says not whose: write user({message!r:.40})")
        if not isinstance(message, Message) and not is_dict:
            raise ConfigError(f"messages[{position}] is neither a Message nor a dict with a role: {message!r}")
        if isinstance(message, Mapping):
            check_message(message, f"messages[{position}]")
        else:
            _check_members(message, f"messages[{position}]")
    return read


_ONLY = {"tool_calls": "assistant", "reasoning": "assistant", "refusal": "assistant", "partial": "assistant",
         "tool_call_id": "tool", "error": "tool"}  # fmt: skip


def _check_members(message: Message, where: str) -> None:
    """Raises ConfigError for what no message of this role has: it would be left out, or be refused by the provider."""
    for name, role in _ONLY.items():
        if message.role != role and getattr(message, name) not in (None, False, ()):
            whose = "the assistant" if role == "assistant" else "a tool"
            raise ConfigError(
                f"{where}.{name} is for messages of {whose}, and this one is of the role {message.role!r}"
            )
