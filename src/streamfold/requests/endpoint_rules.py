"""Adapts a request's tool names, schemas and response format to an endpoint, with a warning for each change.

Each adapter passes the `Rules` of its API. `Request.capabilities` contains the model's capabilities.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import ConfigError, join_limited
from ..types import (
    INSTRUCTION_ROLES,
    AllowedTools,
    Message,
    NamedTool,
    ReadToolChoice,
    ReplyWarning,
    TextPart,
    Tool,
    system,
)
from .hosted_tools import HostedForm
from .option_fitting import refuse_if_strict
from .options import ResponseFormat, read_response_format
from .request import Request
from .required_capabilities import is_forced
from .schema import (
    Passed,
    SchemaRules,
    Subset,
    check_shapes,
    count_uses,
    drop_keywords,
    fit_schema,
    inline_refs,
    schema_digest,
    schema_rules,
    without_references,
)

if TYPE_CHECKING:
    from ..types import WarningCode

_Pass: TypeAlias = Callable[..., Passed]  # (schema, *, at=...)

# https://platform.openai.com/docs/api-reference/chat/create: "a-z, A-Z, 0-9, or contain underscores and dashes, with a
# maximum length of 64". Names with dots and slashes come from MCP servers.
_OPENAI_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a request must follow so that an endpoint accepts it.

    Attributes:
        tool_name: the pattern that tool names must match.
        response_format: how a request asks for an answer that follows a schema: as a JSON schema ("json_schema"), in
            JSON mode ("json_object"), or as the arguments of a forced tool call ("tool").
        format_names: True if the API has fields for the name and the description of the answer's schema.
        json_mode: whether the API has a JSON mode. With "says_json", JSON mode requires that a message contains the
            word "json".
        schemas: the subsets of JSON Schema that the endpoint accepts.
        strict_output: True if streamfold requests strict mode for schemas generated from pydantic models.
        passes: functions that streamfold applies to every schema before it removes unsupported keywords.
        hosted: the hosted tools that the API supports, by kind.
        tool_choice_none: True if the API accepts the tool choice "none". With False, streamfold sends such a request
            without tools.
    """

    tool_name: re.Pattern[str] = _OPENAI_NAME
    response_format: Literal["json_schema", "json_object", "tool"] = "json_schema"
    format_names: bool = True
    json_mode: Literal["yes", "says_json", "no"] = "yes"
    schemas: SchemaRules = field(default_factory=SchemaRules)
    strict_output: bool = False
    passes: tuple[_Pass, ...] = ()
    hosted: Mapping[str, HostedForm] = field(default_factory=dict)
    tool_choice_none: bool = True


def schema_passes(*, inline: bool, unsupported: Collection[str]) -> tuple[_Pass, ...]:
    passes: list[_Pass] = [partial(inline_refs, why="the provider doesn't support $ref")] if inline else []
    return (*passes, partial(drop_keywords, keywords=unsupported)) if unsupported else tuple(passes)


def apply_rules(request: Request, rules: Rules) -> tuple[Request, list[ReplyWarning]]:
    """Adapts a request's tools and response format to the endpoint. Returns the adapted request, and a warning for each
    change.

    Raises:
        ConfigError: the endpoint would refuse the request.
    """
    form: _Form = _form(request, rules)
    request, warnings = _rename_tools(request, rules.tool_name)
    tools = _fit_tools(request, rules, warnings)
    wanted = read_response_format(request.options.response_format)
    if wanted is not None and wanted.schema is not None and form == "json_schema":
        with _not_too_deep("response_format"):
            fitted = None if _is_refused(wanted.schema, request) else _format(wanted, rules, warnings)
        wanted = fitted or wanted
        if fitted is None:
            can, schema = request.capabilities, wanted.schema or {}
            is_object = schema.get("type", "object") == "object"
            form = "tool" if is_object and can.tools == can.forced_choice == "yes" else "instruction"
    if tools != request.tools:
        request = replace(request, tools=tools)
    if wanted is not None:
        request = _with_format(request, wanted)
        if wanted.schema is None:
            request = _any_json(request, rules, warnings)
        elif form in ("json_object", "instruction"):
            request = _by_instruction(request, wanted, warnings, json_mode=form == "json_object")
        elif form == "tool":
            request = _by_tool(request, wanted, rules, warnings)
    if request.capabilities.forced_choice == "no":
        request = drop_forced_tool_choice(request, "doesn't support a forced tool choice", warnings)
    if request.tool_choice == "none" and request.tools and not rules.tool_choice_none:
        names = ", ".join(tool.name for tool in request.tools)
        detail = f"tool_choice='none' isn't supported: the tools were not sent ({names})"
        warnings.append(ReplyWarning("tool_choice_changed", detail))
        request = replace(request, tools=())
    return request, warnings


# --- missing capabilities ---------------------------------------------------------------------------------------------


def emulatable_capabilities(request: Request, rules: Rules) -> frozenset[str]:
    """Returns the names of the capabilities that the request may use although the model lacks them. `apply_rules`
    emulates these capabilities, with a warning."""
    form = _form(request, rules)
    by_other_means = form == "json_object" or (form == "tool" and request.capabilities.tools != "no")
    return frozenset(
        {"forced_choice", "parallel_calls", "reasoning", *(["structured_output"] if by_other_means else [])}
    )


def drop_forced_tool_choice(request: Request, why: str, warnings: list[ReplyWarning]) -> Request:
    """Replaces a forced tool choice with "auto". Appends a warning with the reason `why` to `warnings`."""
    if not is_forced(request):
        return request
    choice = request.tool_choice
    free: ReadToolChoice = AllowedTools(choice.names) if isinstance(choice, AllowedTools) else "auto"
    dropped = ReplyWarning("forced_choice_dropped", f"{request.model} {why}: tool_choice='auto' was sent")
    refuse_if_strict(request.options, [dropped])
    warnings.append(dropped)
    return replace(request, tool_choice=free)


_Form: TypeAlias = Literal["json_schema", "json_object", "tool", "instruction"]


def _form(request: Request, rules: Rules) -> Literal["json_schema", "json_object", "tool"]:
    can = request.capabilities
    if rules.response_format == "json_schema" and can.structured_output == "no":
        # The server may refuse JSON mode too, but a forced tool call is known to work.
        return "tool" if can.tools == can.forced_choice == "yes" else "json_schema"
    return rules.response_format


# --- schemas ----------------------------------------------------------------------------------------------------------


def _fit_tools(request: Request, rules: Rules, warnings: list[ReplyWarning]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    loose: list[str] = []
    used: Counter[str] = Counter()
    for at, tool in enumerate(request.tools):
        if tool.kind != "function":
            tools.append(tool)
            continue
        with _not_too_deep(f"the tool {tool.name!r}"):
            refused = _is_refused(tool.parameters, request)
            made, changes = _fit_tool(tool, rules, request)
            strict = rules.schemas.strict
            if refused and tool.strict:
                made = replace(made, strict=None)
                loose.append(f"tools[{at}] (the server refused its schema)")
            elif tool.strict and strict is not None:
                held, why = _fit_strict(made, tool, strict, used, changes)
                if why:
                    loose.append(f"tools[{at}] ({join_limited(why, '; ')})")
                made = held
        _report(warnings, "schema_changed", f"the tool {tool.name}", changes)
        tools.append(made)
    if loose:
        dropped = ReplyWarning("option_dropped", f"strict was not sent for {', '.join(loose[:20])}")
        refuse_if_strict(request.options, [dropped])
        warnings.append(dropped)
    return tuple(tools)


def _is_refused(schema: Mapping[str, Any], request: Request) -> bool:
    return bool(request.refused_schemas) and schema_digest(schema) in request.refused_schemas


def _fit_tool(tool: Tool, rules: Rules, request: Request) -> tuple[Tool, list[str]]:
    schema, changes = _passed(tool.parameters, rules, "parameters")
    subset = rules.schemas.tool
    if _is_refused(tool.parameters, request):
        subset = schema_rules("least", None, "").tool
    elif request.family.tool_references == "no":
        subset = without_references(subset)
    fitted = fit_schema(schema, subset)
    if subset.root_object and fitted.schema.get("type") != "object":
        raise ConfigError(
            f"the provider would refuse the schema of the tool {tool.name!r}: {'; '.join(fitted.problems)}. The"
            " arguments of a tool must be an object"
        )
    if fitted.schema == tool.parameters:
        return tool, changes
    changes += fitted.changes if tool.model else [*fitted.changes, *fitted.routine]
    return replace(tool, parameters=fitted.schema), changes


def _fit_strict(
    made: Tool, tool: Tool, subset: Subset, used: Counter[str], changes: list[str]
) -> tuple[Tool, list[str]]:
    """Returns the tool with a schema for strict mode, and an empty list. If strict mode isn't possible, returns the
    tool without `strict`, and the reasons. `used` counts the request's strict tools and their parts that the endpoint
    limits; a strict tool is added to it.
    """
    fitted = fit_schema(made.parameters, subset)
    needs = count_uses(fitted.schema) + Counter(tools=1)
    limits = {name: getattr(subset, name) for name in ("tools", "optional", "unions")}
    over = [
        f"more than {most} {_LIMITS[name]}" for name, most in limits.items() if most and used[name] + needs[name] > most
    ]
    if over or fitted.problems:
        return replace(made, strict=None), over or fitted.problems
    used.update({name: needs[name] for name in limits})
    changes += fitted.changes if tool.model else [*fitted.changes, *fitted.routine]
    return replace(made, parameters=fitted.schema), []


_LIMITS = {"tools": "strict tools", "optional": "optional parameters", "unions": "parameters with unions"}


def _format(wanted: ResponseFormat, rules: Rules, warnings: list[ReplyWarning]) -> ResponseFormat | None:
    at, schemas = "response_format", rules.schemas
    schema, changes = _passed(wanted.schema or {}, rules, at)
    strict = wanted.strict
    fitted = None
    if schemas.loose is None or strict or (wanted.model and rules.strict_output):
        fitted = fit_schema(schema, schemas.format, at=at)
        if schemas.loose is not None:
            strict = not fitted.problems
        if fitted.problems and schemas.loose is not None:  # most answers match the schema without strict mode
            changes.append(f"{at}: strict mode is not requested ({join_limited(fitted.problems, '; ')})")
            fitted = None
    if fitted is None and schemas.loose is not None:
        fitted = fit_schema(schema, schemas.loose, at=at)
    if fitted is None or fitted.problems:
        return None
    changes += fitted.changes if wanted.model else [*fitted.changes, *fitted.routine]
    _report(warnings, "schema_changed", wanted.name, changes)
    made = fitted.schema
    if not rules.format_names:
        moved = [] if wanted.model or wanted.name == ResponseFormat().name else ["the name is not sent"]
        if wanted.description is not None:
            kept = "description" in made
            moved.append("the description is not sent" if kept else "the description is sent inside the schema")
            made = made if kept else {**made, "description": wanted.description}
        _report(warnings, "response_format_changed", wanted.name, moved)
    return replace(wanted, schema=made, strict=strict)


@contextmanager
def _not_too_deep(what: str) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ConfigError(f"the schema of {what} is nested too deeply") from None


def _passed(schema: Mapping[str, Any], rules: Rules, at: str) -> Passed:
    if rules.passes:
        check_shapes(schema, at)
    made, changes = dict(schema), list[str]()
    for one in rules.passes:
        made, more = one(made, at=at)
        changes += more
    return made, changes


def _report(warnings: list[ReplyWarning], code: WarningCode, what: str, changes: list[str]) -> None:
    if changes:
        warnings.append(ReplyWarning(code, f"{what}: {join_limited(changes, '; ')}"))


# --- the form of the answer -------------------------------------------------------------------------------------------


def _by_instruction(
    request: Request, wanted: ResponseFormat, warnings: list[ReplyWarning], *, json_mode: bool
) -> Request:
    schema = json.dumps(wanted.schema, ensure_ascii=False)
    about = f"{wanted.description}\n\n" if wanted.description else ""
    kind = "JSON object" if json_mode else "JSON value"
    text = f"{about}Answer with one {kind} that fits this JSON schema, and with nothing else:\n{schema}"
    means = "JSON mode and an instruction" if json_mode else "an instruction"
    _report(warnings, "response_format_changed", wanted.name, [f"sent as {means} with the schema"])
    return _with_format(_instructed(request, text), ResponseFormat() if json_mode else None)


def _any_json(request: Request, rules: Rules, warnings: list[ReplyWarning]) -> Request:
    """Adds an instruction to answer with a JSON object, if the API has no JSON mode, or if its JSON mode requires the
    word "json"."""
    says_json = any("json" in str(message.content or "").lower() for message in request.messages)
    if rules.json_mode == "yes" or (rules.json_mode == "says_json" and says_json):
        return request
    means = "JSON mode and an instruction" if rules.json_mode == "says_json" else "an instruction"
    changed = ReplyWarning("response_format_changed", f"response_format='json' was sent as {means}")
    refuse_if_strict(request.options, [changed])
    warnings.append(changed)
    request = _instructed(request, "Answer with one JSON object, and with nothing else.")
    return request if rules.json_mode == "says_json" else _with_format(request, None)


def _with_format(request: Request, wanted: ResponseFormat | None) -> Request:
    return replace(request, options=replace(request.options, response_format=wanted))


def _instructed(request: Request, text: str) -> Request:
    first, *rest = request.messages
    # Some chat templates accept only one system message.
    if first.role in INSTRUCTION_ROLES and isinstance(first.content, str):
        return replace(request, messages=(replace(first, content=f"{first.content}\n\n{text}"), *rest))
    if first.role in INSTRUCTION_ROLES and isinstance(first.content, tuple):
        return replace(request, messages=(replace(first, content=(*first.content, TextPart(text))), *rest))
    positions = (0, *(at for at, _ in request.numbered))
    return replace(request, messages=(system(text), *request.messages), positions=positions)


def _by_tool(request: Request, wanted: ResponseFormat, rules: Rules, warnings: list[ReplyWarning]) -> Request:
    names = {tool.name for tool in request.tools}
    name = next(name for name in (wanted.name, "final_answer", "final_answer_2") if name not in names)
    about = "Gives the final answer, in this form."
    about = f"{about} {wanted.description}" if wanted.description else about
    with _not_too_deep("response_format"):
        answer, changes = _fit_tool(Tool(name, about, wanted.schema or {}), rules, request)
    _report(warnings, "schema_changed", wanted.name, changes)
    tools, choice = (*request.tools, answer), request.tool_choice
    if choice == "none" or not request.tools:
        tools, choice = (answer,), NamedTool(name)
    elif choice in ("auto", "required"):
        choice = "required"
    elif isinstance(choice, AllowedTools):
        choice = AllowedTools((*choice.names, name), "required")
    _report(warnings, "response_format_changed", wanted.name, [f"sent as the tool {name}, which the model must call"])
    options = replace(request.options, response_format=None)
    return replace(request, tools=tools, tool_choice=choice, options=options, answer_tool=name)


# --- names ------------------------------------------------------------------------------------------------------------


def _rename_tools(request: Request, rule: re.Pattern[str]) -> tuple[Request, list[ReplyWarning]]:
    taken = {tool.name for tool in request.tools}
    sent: dict[str, str] = {}
    for tool in request.tools:
        if tool.kind != "function" or tool.name in sent or rule.fullmatch(tool.name):
            continue
        sent[tool.name] = made = _sent_name(tool.name, rule, taken)
        taken.add(made)
    if not sent:
        return request, []
    request = replace(
        request,
        tools=tuple(replace(tool, name=sent.get(tool.name, tool.name)) for tool in request.tools),
        tool_choice=_renamed_choice(request.tool_choice, sent),
        messages=tuple(_renamed_message(message, sent) for message in request.messages),
        names={**request.names, **{made: name for name, made in sent.items()}},
    )
    detail = ", ".join(f"{name!r} as {made!r}" for name, made in sent.items())
    return request, [
        ReplyWarning("tool_renamed", f"tool names were changed to names that the provider accepts: {detail}")
    ]


def _sent_name(name: str, rule: re.Pattern[str], taken: set[str]) -> str:
    made = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    mark = sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    candidates = (made, f"tool_{made}", f"{made[:50]}_{mark}", f"tool_{made[:40]}_{mark}") if name else ()
    for candidate in candidates:
        if rule.fullmatch(candidate) and candidate not in taken:
            return candidate
    raise ConfigError(f"this provider doesn't accept the tool name {name!r}: choose another name")


def _renamed_choice(choice: ReadToolChoice, sent: Mapping[str, str]) -> ReadToolChoice:
    match choice:
        case NamedTool(name):
            return replace(choice, name=sent.get(name, name))
        case AllowedTools(names, mode):
            return AllowedTools(tuple(sent.get(name, name) for name in names), mode)
        case _:
            return choice


def _renamed_message(message: Message, sent: Mapping[str, str]) -> Message:
    if not any(call.name in sent for call in message.tool_calls):
        return message
    return replace(message, tool_calls=tuple(replace(c, name=sent.get(c.name, c.name)) for c in message.tool_calls))
