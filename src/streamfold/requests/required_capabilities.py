"""The capabilities that a request requires, and the error message if the model lacks one. streamfold checks them before
it sends the request. Adapters emulate some missing capabilities. For example, they replace a response format with an
instruction. For other missing capabilities, streamfold raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from ..types import AllowedTools, AudioPart, FilePart, ImagePart, NamedTool
from .model_facts import CAPABILITIES, Capabilities
from .options import ResponseFormat
from .request import Request


@dataclass(frozen=True, slots=True)
class Requirement:
    capability: str
    place: str


# The parts of both OpenAI APIs, and additional parts of Kimi and vLLM.
_PART_TYPES = {
    "image_url": "images",
    "input_image": "images",
    "file": "files",
    "input_file": "files",
    "input_audio": "audio",
    "audio_url": "audio",
}
_PARTS: dict[type, str] = {ImagePart: "images", FilePart: "files", AudioPart: "audio"}

# For each capability: what the model can't do, and a solution.
_WORDS = {
    "tools": ("call tools", "leave the tools out"),
    "forced_choice": ("be forced to call a tool", 'pass tool_choice="auto"'),
    "images": ("see images", "leave it out"),
    "structured_output": (
        "enforce a schema on its answer",
        'set the quirk response_format to "json_object" (JSON mode and an instruction) or "tool"',
    ),
    "reasoning": ("reason", "leave reasoning_effort out"),
    "parallel_calls": ("make several calls in a turn", "leave parallel_tool_calls out"),
    "files": ("read files", "leave it out"),
    "audio": ("hear audio", "leave it out"),
}
_SAID = attrgetter(*CAPABILITIES)
_MOST_PLACES = 3
_MOST_MODELS = 4


def missing_capabilities(capabilities: Capabilities, request: Request) -> tuple[Requirement, ...]:
    if "no" not in _SAID(capabilities):
        return ()
    return tuple(need for need in requirements_of(request) if getattr(capabilities, need.capability) == "no")


def is_forced(request: Request) -> bool:
    choice = request.tool_choice
    if isinstance(choice, AllowedTools):
        return choice.mode == "required"
    return choice == "required" or isinstance(choice, NamedTool)


def describe_missing(needs: Sequence[Requirement], model: str, others: Mapping[str, Iterable[str]]) -> str:
    """Returns an error message that names the missing capability, the field of the request that requires it, and a
    solution.

    Args:
        others: maps a capability to some models of the same provider that have it.
    """
    places: dict[str, list[str]] = {}
    for need in needs:
        # An option is shown as an argument, such as `tools=`.
        places.setdefault(need.capability, []).append(need.place if "[" in need.place else f"{need.place}=")
    described = []
    for name, listed in places.items():
        cannot, remedy = _WORDS[name]
        more = [f"{len(listed) - _MOST_PLACES} more"] if len(listed) > _MOST_PLACES else []
        *first, last = listed[:_MOST_PLACES] + more
        where = f"{', '.join(first)} and {last}" if first else last
        able = ", ".join(list(others.get(name, ()))[:_MOST_MODELS])
        solution = f"{remedy}, or use a model that can" + (f" ({able})" if able else "")
        described.append(f"{model} can't {cannot}, which {where} need{'s' * (not first)}: {solution}")
    after_all = ", ".join(f'{name} = "yes"' for name in places)
    return f"{'; '.join(described)}. If this is wrong, set capabilities = {{ {after_all} }} for this provider"


def requirements_of(request: Request) -> Iterator[Requirement]:
    """Yields the capabilities that a request requires. Each capability comes with the path of the request field that
    requires it, such as `tools` or `messages[2].content[1]`."""
    options = request.options
    for at, message in enumerate(request.messages):
        for number, part in enumerate(() if isinstance(message.content, str | None) else message.content):
            kind = _PART_TYPES.get(str(part.get("type"))) if isinstance(part, Mapping) else _PARTS.get(type(part))
            if kind:
                yield Requirement(kind, f"messages[{at}].content[{number}]")
    if any(tool.hosted is None for tool in request.tools):
        yield Requirement("tools", "tools")
        if is_forced(request):
            yield Requirement("forced_choice", "tool_choice")
    wanted = options.response_format
    is_any_json = wanted.schema is None if isinstance(wanted, ResponseFormat) else isinstance(wanted, str)
    if wanted is not None and not is_any_json:  # models without support for schemas may have JSON mode
        yield Requirement("structured_output", "response_format")
    if options.reasoning_effort not in (None, "none"):
        yield Requirement("reasoning", "reasoning_effort")
    if options.parallel_tool_calls:
        yield Requirement("parallel_calls", "parallel_tool_calls")
