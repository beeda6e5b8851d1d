"""The adapter for Google's Interactions API: https://ai.google.dev/api/interactions-api.

`encode.py` encodes the conversation, and `decode.py` decodes responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from ...errors import ConfigError, ErrorInfo
from ...requests import (
    Family,
    HistoryRules,
    ModelFacts,
    OptionRules,
    ReasoningEffort,
    Request,
    Rules,
    read_response_format,
    schema_rules,
    with_raw_tools,
)
from ...types import INSTRUCTION_ROLES, Message, ReplyWarning, continuation_token
from ..base import Adapter
from ..content_blocks import continued_turn
from ..encoding_report import EncodingReport
from ..prepared_request import deep_merged, without_none
from .decode import UNFINISHED, InteractionsEventReader
from .encode import encode_steps, report_unsent, system_texts
from .errors import read_interactions_error
from .tools import FORMS, response_format, tool_choice, tool_entries

_REVISION = "2026-05-20"  # https://ai.google.dev/gemini-api/docs/interactions/breaking-changes-may-2026
_LEVELS: tuple[ReasoningEffort, ...] = ("minimal", "low", "medium", "high", "xhigh")
_NEWEST = ModelFacts(thinking="always", efforts=_LEVELS)
_AGENT = "agents/"
_STORED = ("previous_interaction_id", "background")  # fields that require a stored interaction


class InteractionsAdapter(InteractionsEventReader, Adapter):
    """Encodes requests to `POST /interactions` and decodes its events."""

    name = "interactions"
    path = "/interactions"
    blocks_name = "steps"
    keeps_conversations = True
    conversation_members = ("previous_interaction_id",)
    sends = (
        "temperature", "top_p", "max_output_tokens", "stop", "seed", "reasoning_effort", "response_format", "tools",
        "tool_choice",
    )  # fmt: skip

    def history_rules(self, request: Request) -> HistoryRules:
        return HistoryRules(
            HistoryRules().roles - {"function"},
            system="leading",
            object_arguments=True,
            blanks="refused",
            ends_with_user=continued_turn(request) is None,
            knows_more=bool(request.options.extra_body.get("previous_interaction_id")) or request.follows_stored,
        )

    def rules(self, request: Request) -> Rules:
        return Rules(format_names=False, schemas=schema_rules("gemini", None, ""), hosted=FORMS)

    def option_rules(self, request: Request) -> OptionRules:
        return OptionRules(stops=5, parallel_calls=False)

    def known_family(self, family: Family) -> Family:
        """Returns a copy of the facts about a model. In the Interactions API, every model that thinks has thinking
        levels, and a model with the level "high" also has "xhigh"."""
        efforts = family.efforts or _LEVELS
        if family.thinking == "never":
            return family
        if "high" in efforts and "xhigh" not in efforts:
            efforts = (*efforts, "xhigh")
        return family.over({"budget": None, "efforts": efforts}).filled(_NEWEST)

    def rewrite(self, request: Request) -> tuple[Request, list[ReplyWarning]]:
        if not request.stream and _in_background(request):
            # Without a stream, the response would only say that the interaction has begun.
            request = replace(request, stream=True)
        return super().rewrite(request)

    def headers(self, request: Request) -> Mapping[str, str]:
        return {**super().headers(request), "Api-Revision": _REVISION}

    def resume_path(self, request: Request, answer_id: str, after: int | str) -> str | None:
        """Returns the URL path that resumes the stream of a stored interaction after the event with the id `after`.
        Without this id, the server sends all events again."""
        if not _is_stored(request):
            return None
        query = {"stream": "true", **({"last_event_id": after} if after else {})}
        return f"{self.path}/{quote(answer_id, safe='')}?{urlencode(query)}"

    def answer_path(self, request: Request, answer_id: str) -> str | None:
        return f"{self.path}/{quote(answer_id, safe='')}" if _is_stored(request) else None

    def is_running(self, body: Any) -> bool:
        return isinstance(body, Mapping) and body.get("status") in UNFINISHED

    def cancel_path(self, answer_id: str) -> str | None:
        return f"{self.path}/{quote(answer_id, safe='')}/cancel"

    def runs_on(self, request: Request) -> bool:
        return _in_background(request)

    def read_error(self, body: Any, status: int | None = None) -> ErrorInfo:
        return read_interactions_error(body, status)

    def instruction_count(self, request: Request) -> int:
        """Returns the number of system messages at the beginning. Every request sends these messages, because an
        interaction doesn't inherit the instructions of the interaction that it continues."""
        return next(
            (at for at, each in enumerate(request.messages) if each.role not in INSTRUCTION_ROLES),
            len(request.messages),
        )

    def encode(self, request: Request, report: EncodingReport) -> dict[str, Any]:
        extra, wanted = request.options.extra_body, read_response_format(request.options.response_format)
        agent = request.model.removeprefix(_AGENT) if request.model.startswith(_AGENT) else None
        talk, system, continued = list[tuple[int, Message]](), list[str](), continued_turn(request)
        count = self.instruction_count(request)
        messages = [*request.numbered][:count] + request.unstored(count)
        stored = extra.get("previous_interaction_id")
        last = max((n for n, (_, message) in enumerate(messages) if stored and stored in _ids(message)), default=-1)
        for n, (at, message) in enumerate(messages):
            if message is continued or (n <= last and message.role not in INSTRUCTION_ROLES):
                continue  # the server has stored the message, or the continuation token replaces it
            report_unsent(message, f"messages[{at}]", request, report)
            if message.role in INSTRUCTION_ROLES:
                system += system_texts(message, at)
            else:
                talk.append((at, message))
        body: dict[str, Any] = {"model": request.model} if agent is None else {"agent": agent}
        if request.conversation is not None and (known := request.conversation.id) is not None:
            body["previous_interaction_id"] = known
        body["input"] = encode_steps(talk, request)
        if not body["input"]:
            raise ConfigError("messages: an interaction needs at least one message in addition to the instructions")
        if system:
            body["system_instruction"] = "\n\n".join(system)
        if tools := tool_entries(request):
            body["tools"] = tools
        if agent is None:
            body["generation_config"] = _generation(request)
        else:
            body |= _agent_members(agent, request, report)
        if wanted is not None:
            body["response_format"] = response_format(wanted.schema)
        body |= {"stream": request.stream, "store": _is_stored(request)}
        body = deep_merged(body, with_raw_tools(body, extra))
        if not body["store"] and (needing := [name for name in _STORED if body.get(name)]):
            raise ConfigError(f"{' and '.join(needing)}: available only for stored interactions: remove store=False")
        if continued is not None:
            body["continuation_token"] = continuation_token(continued.extras)
            if body["store"]:  # the token continues this interaction, which includes the input
                body["previous_interaction_id"] = _ids(continued)[-1]
                del body["input"]
        return body


def _in_background(request: Request) -> bool:
    return bool(request.options.extra_body.get("background", request.model.startswith(_AGENT)))


def _is_stored(request: Request) -> bool:
    extra = request.options.extra_body
    needed = request.model.startswith(_AGENT) or any(extra.get(name) for name in _STORED)
    needed = needed or request.conversation is not None
    return bool(extra.get("store", needed))


def _ids(message: Message) -> list[Any]:
    found = message.extras.get("interaction_id")
    return found if isinstance(found, list) else [found]


def _generation(request: Request) -> dict[str, Any]:
    options = request.options
    return without_none(
        temperature=options.temperature,
        top_p=options.top_p,
        seed=options.seed,
        stop_sequences=options.stop_texts or None,
        max_output_tokens=options.max_output_tokens,
        thinking_level=options.reasoning_effort,
        thinking_summaries="auto",  # otherwise, the API sends no thought summaries
        tool_choice=tool_choice(request),
    )


def _agent_members(agent: str, request: Request, report: EncodingReport) -> dict[str, Any]:
    """Returns the fields that only a request to an agent has. An agent runs in the background, and doesn't accept the
    field `generation_config`."""
    given = {name: value for name, value in _generation(request).items() if name != "thinking_summaries"}
    if meant := [name for name in ("max_output_tokens", "stop_sequences", "tool_choice") if name in given]:
        raise ConfigError(f"{', '.join(meant)}: the agent {agent!r} doesn't accept this option")
    if given:
        report.warn("option_dropped", f"{', '.join(given)}: the agent {agent!r} doesn't accept this option")
    members: dict[str, Any] = {"background": True}
    if agent.startswith("deep-research"):
        members["agent_config"] = {"type": "deep-research", "thinking_summaries": "auto"}
    return members
