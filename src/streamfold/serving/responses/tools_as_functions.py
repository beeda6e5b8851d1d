"""Converts custom, shell, patch and search tools to function tools, for providers that support only function tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ...errors import ConfigError
from ...jsontext import parse_object
from ...requests import ObjectReader
from ...types import ReplyWarning, Tool
from ..request_parsing import read_function

# `CallItem` in `items.py` does the opposite: it converts the model's calls of these functions to calls of the client's
# tools. The formats are those of https://platform.openai.com/docs/api-reference/responses/create and of Codex 0.169,
# which declares most of these tools.


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that a client has declared.

    Attributes:
        kind: "function", "custom", or a key of `BUILT_IN`.
    """

    name: str
    kind: str = "function"
    namespace: str | None = None


# By the names of the functions that replace the tools. Functions that need no replacement aren't in the mapping.
ClientTools: TypeAlias = Mapping[str, ClientTool]


class BuiltIn(NamedTuple):
    """A tool that the Responses API defines and that the client runs, such as the shell tool. The arguments of its
    calls are an object instead of JSON text.

    Attributes:
        call: the type of the items that call the tool.
        result: the type of the items that contain the tool's results.
        id_prefix: the prefix of the ids of such items.
        member: the name of the item's field that contains the arguments object.
        empty: the default values of the arguments.
        more: additional fields of an item that calls the tool.
        description, parameters: the description and the JSON Schema of the function that replaces the tool. The
            client's declaration of the tool may override them.
    """

    call: str
    result: str
    id_prefix: str
    member: str
    empty: Mapping[str, Any]
    more: Mapping[str, Any]
    description: str
    parameters: Mapping[str, Any]

    def called_with(self, arguments: str) -> dict[str, Any] | None:
        """Returns the arguments object for a call of the tool, or None if the arguments aren't a JSON object."""
        try:
            said = parse_object(arguments)
        except ValueError:
            return None
        return {**self.empty, **said} if isinstance(said, dict) else None


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_TEXT, _TEXTS, _NUMBER = {"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "integer"}

BUILT_IN: dict[str, BuiltIn] = {
    "local_shell": BuiltIn(
        "local_shell_call", "local_shell_call_output", "lsh", "action", {"type": "exec", "command": [], "env": {}}, {},
        "Runs a command on the user's computer and returns its output.",
        _schema(
            ["command"],
            command={**_TEXTS, "description": "The program and its arguments."},
            working_directory=_TEXT,
            timeout_ms=_NUMBER,
            env={"type": "object", "additionalProperties": _TEXT},
        ),
    ),
    "shell": BuiltIn(
        "shell_call", "shell_call_output", "sh", "action",
        {"commands": [], "timeout_ms": None, "max_output_length": None}, {},
        "Runs shell commands on the user's computer and returns their output.",
        _schema(
            ["commands"],
            commands={**_TEXTS, "description": "Commands of the shell. They may run at the same time."},
            timeout_ms=_NUMBER,
            max_output_length=_NUMBER,
        ),
    ),
    "apply_patch": BuiltIn(
        "apply_patch_call", "apply_patch_call_output", "apc", "operation", {}, {},
        "Creates, changes or deletes one file.",
        _schema(
            ["type", "path"],
            type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            path={**_TEXT, "description": "The path of the file, below the root of the workspace."},
            diff={**_TEXT, "description": "The changes, in the V4A diff format. Not for delete_file."},
        ),
    ),
    "tool_search": BuiltIn(
        "tool_search_call", "tool_search_output", "tsc", "arguments", {}, {"execution": "client"},
        "Searches for further tools, which can be called afterwards.",
        _schema(["query"], query=_TEXT),
    ),
}  # fmt: skip

CUSTOM_PARAMETERS = _schema(["input"], input={**_TEXT, "description": "The whole input of the tool, as plain text."})


def flat_name(name: str, namespace: str | None) -> str:
    # For OpenAI's models, "functions" is the namespace of tools without one. Codex declares it by name.
    if namespace in (None, "", "functions"):
        return name
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"


def custom_input(arguments: str) -> str:
    """Returns the plain text input for a custom tool, from the arguments of a call of the function that replaces the
    tool.

    If the model wrote plain text or a JSON string instead of a JSON object, this text is the input.

    >>> custom_input('{"input": "*** Begin Patch"}'), custom_input("*** Begin Patch")
    ('*** Begin Patch', '*** Begin Patch')
    """
    try:
        said = parse_object(arguments)
    except ValueError:
        return arguments
    if isinstance(said, dict):
        said = said.get("input", None if said else "")
    return said if isinstance(said, str) else arguments


# Tools that OpenAI runs are dropped with a warning, because clients such as Codex declare them in every request, but
# rarely need them.

_ITEMS = {kind.call: kind for kind in BUILT_IN.values()}
_RESULTS = frozenset(kind.result for kind in BUILT_IN.values())
# Items of tools that a provider ran. The conversation is complete without them, because it has the answers.
_HOSTED_ITEMS = (
    "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",
    "mcp_list_tools",
)  # fmt: skip
OTHER_ITEMS = frozenset(
    ["custom_tool_call", "custom_tool_call_output", "additional_tools", *_ITEMS, *_RESULTS, *_HOSTED_ITEMS]
)
_DEFERRING = ("defer_loading", "allowed_callers", "output_schema")  # not needed by a model that gets all tools
_SAID_BY_THE_CALL = ("name", "namespace", "caller")  # fields of results


class _Entry(NamedTuple):
    where: str
    namespace: str | None
    about: str  # the namespace's description, for the first of its tools
    tool: Mapping[str, Any]


def has_only_function_tools(body: Mapping[str, Any]) -> bool:
    """Returns True if a request has only function tools without a namespace, and only calls and results of such tools.
    Such a request needs no conversion."""
    tools, items = body.get("tools"), body.get("input")
    if isinstance(tools, list) and any(isinstance(tool, Mapping) and tool.get("type") != "function" for tool in tools):
        return False
    items = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    return not any(str(item.get("type")) in OTHER_ITEMS or item.get("namespace") for item in items)


class ToolsAsFunctions:
    """Converts the tools, the input items and the tool choice of a request to functions and calls of functions.

    Args:
        tools: the tools of the request.
        items: the input of the request, as pairs of path and item. Items can declare more tools.

    Attributes:
        tools: the function tools for the provider.
        declared: the client's tools, by the names of the functions that replace them.
        warnings: one for each part of the request that was dropped.

    Raises:
        ConfigError: a tool is invalid. The error message begins with the tool's path.
    """

    def __init__(self, tools: list[Any] | None, items: Iterable[tuple[str, Any]]) -> None:
        entries = list(_entries(tools or [], "tools"))
        for where, item in items:
            if isinstance(item, Mapping) and item.get("type") in ("additional_tools", "tool_search_output"):
                entries += _entries(ObjectReader(item, where).items("tools") or [], f"{where}.tools")
        self.tools: list[Tool] = []
        self.warnings: list[ReplyWarning] = []
        self._hosted: dict[str, None] = {}  # an ordered set
        self._names: dict[ClientTool, str] = {}
        plain = [entry for entry in entries if entry.namespace is None and entry.tool.get("type") == "function"]
        self._taken = {str(entry.tool.get("name")) for entry in plain}
        for entry in entries:
            self._read(entry)
        if self._hosted:
            detail = f"{', '.join(self._hosted)}: this provider does not run such tools; they were not offered"
            self.warnings.append(ReplyWarning("tool_dropped", detail))

    @property
    def declared(self) -> ClientTools:
        return {name: tool for tool, name in self._names.items() if tool != ClientTool(name)}

    def _read(self, entry: _Entry) -> None:
        fields = ObjectReader(entry.tool, entry.where)
        kind = fields.any("type")
        extra: Mapping[str, Any] = {}
        if kind == "function":
            for name in _DEFERRING:
                fields.any(name)
            tool = read_function(fields)
            extra = tool.extra
            own = ClientTool(tool.name, "function", entry.namespace)
            about, parameters, strict = tool.description, tool.parameters, tool.strict
        elif kind == "custom":
            own = ClientTool(fields.need("name"), kind, entry.namespace)
            about, parameters, strict = _custom_description(fields), CUSTOM_PARAMETERS, None
        elif isinstance(kind, str) and (built_in := _run_by_client(kind, entry.tool)):
            own = ClientTool(kind, kind, entry.namespace)
            about = fields.text("description") or built_in.description
            parameters, strict = fields.mapping("parameters") or built_in.parameters, None
        elif isinstance(kind, str) and kind:
            self._hosted[kind] = None
            return
        else:
            raise ConfigError(f"{entry.where}.type is missing: it must be a string")
        if own in self._names:  # a tool search may return a declared tool
            return
        name = self._names[own] = self._free_name(own)
        about = "\n\n".join(filter(None, (entry.about, about)))
        self.tools.append(Tool(name, about, parameters, strict, extra=extra))

    def _free_name(self, own: ClientTool) -> str:
        name = wanted = flat_name(own.name, own.namespace)
        if own != ClientTool(name):
            number = 2
            while name in self._taken:
                name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def _name_of(self, own: ClientTool) -> str:
        """Returns the name of the function that replaces a tool. The tool may be missing in the request's list of
        tools.
        """
        return self._names.get(own) or flat_name(own.name, own.namespace)

    # --- the conversation and the choice ------------------------------------------------------------------------------

    def items(self, items: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Yields the items of a conversation. Calls and results of tools that aren't functions are converted to calls
        and results of functions."""
        dropped: dict[str, None] = {}
        for where, item in items:
            if not isinstance(item, Mapping):
                yield where, item
            elif (kind := item.get("type")) in _HOSTED_ITEMS or _is_hosted_search(item):
                dropped[str(kind)] = None
            elif kind != "additional_tools":
                yield where, self._item(item, ObjectReader(item, where))
        if dropped:
            detail = f"items of tools that the provider can't read were not sent: {', '.join(dropped)}"
            self.warnings.append(ReplyWarning("provider_data_dropped", detail))

    def _item(self, item: Mapping[str, Any], fields: ObjectReader) -> Mapping[str, Any]:
        kind = str(item.get("type"))
        if kind == "function_call" and item.get("namespace"):
            name = self._name_of(ClientTool(fields.need("name"), "function", fields.text("namespace")))
            return {**_without(item, "caller", "namespace"), "name": name}
        if kind == "custom_tool_call":
            name = self._name_of(ClientTool(fields.need("name"), "custom", fields.text("namespace")))
            return _call(item, name, {"input": fields.text("input") or ""})
        if (built_in := _ITEMS.get(kind)) is not None:
            said = fields.mapping(built_in.member) or {}
            own = next(name for name, other in BUILT_IN.items() if other is built_in)
            chosen = {name: value for name, value in said.items() if built_in.empty.get(name, ...) != value}
            return _call(item, self._name_of(ClientTool(own, own)), chosen)
        if kind in ("function_call_output", "custom_tool_call_output"):
            return {**_without(item, *_SAID_BY_THE_CALL), "type": "function_call_output"}
        if kind in _RESULTS:
            call_id = item.get("call_id") or item.get("id")
            return {"type": "function_call_output", "call_id": call_id, "output": self._output(item)}
        return item

    def _output(self, item: Mapping[str, Any]) -> Any:
        if item.get("type") == "tool_search_output":
            found = (entry.tool for entry in _entries(ObjectReader(item).items("tools") or [], ""))
            return json.dumps({"found": [str(tool.get("name")) for tool in found]}, ensure_ascii=False)
        output, status = item.get("output"), item.get("status")
        if output is None:
            return str(status or "completed")
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        return f"Error: {text}" if status == "failed" else text

    def choice(self, choice: Any) -> Any:
        """Returns the tool choice with the names of functions in place of the tools that they replace.

        Raises:
            ConfigError: the tool choice requires a hosted tool, which the provider doesn't support.
        """
        if not isinstance(choice, Mapping):
            return choice
        if choice.get("type") == "allowed_tools" and isinstance(tools := choice.get("tools"), list):
            read = [self._chosen(tool) for tool in tools]
            return {**choice, "tools": [{"type": "function", "name": name} for name in read if name is not None]}
        if (name := self._chosen(choice)) is None:
            raise ConfigError(
                f"tool_choice requires {choice.get('type')!r}, a hosted tool that this provider doesn't have"
            )
        return {"type": "function", "name": name}

    def _chosen(self, choice: Any) -> str | None:
        """Returns the name of the function that replaces the chosen tool, or None for a hosted tool."""
        fields = ObjectReader(choice, "tool_choice")
        kind = fields.need("type")
        if kind in ("function", "custom"):
            return self._name_of(ClientTool(fields.need("name"), kind, fields.text("namespace")))
        return self._names.get(ClientTool(kind, kind))


def _entries(tools: Iterable[Any], where: str) -> Iterator[_Entry]:
    for at, tool in enumerate(tools):
        place = f"{where}[{at}]"
        fields = ObjectReader(tool, place)
        if fields.any("type") != "namespace":
            yield _Entry(place, None, "", tool)
            continue
        name, about = fields.need("name"), fields.text("description") or ""
        for number, inner in enumerate(fields.items("tools") or ()):
            inside = f"{place}.tools[{number}]"
            ObjectReader(inner, inside)
            yield _Entry(inside, name, "" if number else about, inner)


def _run_by_client(kind: str, tool: Mapping[str, Any]) -> BuiltIn | None:
    environment = tool.get("environment")
    is_hosted = isinstance(environment, Mapping) and environment.get("type") != "local"
    if is_hosted or (kind == "tool_search" and tool.get("execution") != "client"):
        return None
    return BUILT_IN.get(kind)


def _is_hosted_search(item: Mapping[str, Any]) -> bool:
    return item.get("type") in ("tool_search_call", "tool_search_output") and item.get("execution") == "server"


def _custom_description(fields: ObjectReader) -> str:
    """Returns the description of a custom tool, followed by the format of the tool's input. A function tool can't
    enforce the format, so the model must know it."""
    about = fields.text("description") or ""
    format_ = fields.object("format")
    parts = [about, "The input is plain text, given as the string `input`."]
    if format_ and (definition := format_.text("definition")):
        parts.append(f"It must match this {format_.text('syntax') or 'grammar'} grammar:\n{definition}")
    return "\n\n".join(filter(None, parts))


def _call(item: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(arguments, ensure_ascii=False)
    kept = {key: item[key] for key in ("id", "call_id", "status") if key in item}
    return {"type": "function_call", **kept, "name": name, "arguments": text}


def _without(item: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}
