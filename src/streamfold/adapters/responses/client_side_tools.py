"""Tools of this API that its client runs and that are not functions, and the functions that stand for them.

Only providers that speak this API know such tools. All others are offered functions: `tools_as_functions.py` writes
them, and
`call_items.py` gives a client its calls back in the form that it declared. The shapes are those of
https://platform.openai.com/docs/api-reference/responses/create and of Codex 0.169, which declares most of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ...jsontext import parse_object


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool as its client declared it.

    Attributes:
        kind: "function", "custom", or a key of `BUILT_IN`.
    """

    name: str
    kind: str = "function"
    namespace: str | None = None


# By the names of the functions that stand for them. A plain function stands for itself, and is not listed.
ClientTools: TypeAlias = Mapping[str, ClientTool]


class BuiltIn(NamedTuple):
    """A tool that the API defines and the client runs. The item of its call has an object instead of arguments.

    Attributes:
        call: the type of the item.
        result: the type of the result's item.
        id_prefix: how the ids of such items begin.
        member: the object of the item that the arguments become.
        empty: the object of a call that has just begun; its members are defaults of the arguments.
        more: further members of the item.
        description, parameters: of the function; a declared tool may bring its own.
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
        """Returns the object of a call's item; None if the arguments are not a JSON object."""
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
            diff={**_TEXT, "description": "What changes, in the V4A diff format. Not for delete_file."},
        ),
    ),
    "tool_search": BuiltIn(
        "tool_search_call", "tool_search_output", "tsc", "arguments", {}, {"execution": "client"},
        "Searches for further tools, which can be called afterwards.",
        _schema(["query"], query=_TEXT),
    ),
}  # fmt: skip

CUSTOM_PARAMETERS = _schema(["input"], input={**_TEXT, "description": "The whole input of the tool, as plain text."})


def in_container(tool: Mapping[str, Any]) -> bool:
    """Returns whether a tool, or a call of it, has an environment on the provider's servers."""
    environment = tool.get("environment")
    return isinstance(environment, Mapping) and environment.get("type") != "local"


def flat_name(name: str, namespace: str | None) -> str:
    """Returns the name of the function that stands for a tool in a namespace."""
    # "functions" is where OpenAI's models have the tools without a namespace; Codex declares it by name.
    if namespace in (None, "", "functions"):
        return name
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"


def custom_input(arguments: str) -> str:
    """Returns the input of a custom tool from the arguments of the function that stands for it.

    A model that was told of plain text may write plain text, or one JSON string: then that is the input.

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
