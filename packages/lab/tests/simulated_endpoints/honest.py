"""Honest servers of different habits. None of them changes what is sent or said; an accusation of one is a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from simulated_endpoints.model import Answer, Request, Usage
from simulated_endpoints.serving import Endpoint


class StrictReasoning(Endpoint):
    name = "strict_reasoning"
    does = (
        "Thinks, and refuses a tool loop whose assistant message has no reasoning, or an empty one, as Kimi's API does."
    )
    report = "https://github.com/charmbracelet/crush/issues/2696"
    effort = "low"

    def refuse(self, request: Request) -> str | None:
        for at, message in enumerate(request.messages):
            if message.calls and not message.reasoning and request.effort != "none" and request.wire == "chat":
                return (
                    f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
                )
        return super().refuse(request)


class OwnTokenizer(Endpoint):
    name = "own_tokenizer"
    does = "Counts about three characters a token, and twenty tokens more for its chat template, always alike."
    report = "https://github.com/continuedev/continue/issues/878"

    def tokens(self, text: str) -> list[str]:
        return re.findall(r"[A-Za-z]{1,3}|\d|[^A-Za-z\d]", text)

    def count(self, request: Request, seen: Request, answer: Answer) -> Usage:
        usage = super().count(request, seen, answer)
        return replace(usage, input=usage.input + 20)


class NoTools(Endpoint):
    name = "no_tools"
    does = "Serves a model without tools: a request with tools is a 400, as at Ollama."
    report = "https://github.com/ollama/ollama/issues/11131"

    def refuse(self, request: Request) -> str | None:
        return f"{request.model} does not support tools" if request.tools else super().refuse(request)


class InlineReasoning(Endpoint):
    name = "inline_reasoning"
    does = "Thinks inside <think> tags in the text, as engines without a reasoning parser do."
    report = "https://github.com/ggml-org/llama.cpp/issues/25292"

    def limit(self, request: Request, answer: Answer) -> Answer:
        thought = answer.reasoning or "I read the request and answer it."
        return super().limit(
            request, replace(answer, reasoning="", text=f"<think>\n{thought}\n</think>\n\n{answer.text}")
        )


class NoSeed(Endpoint):
    name = "no_seed"
    does = "Refuses `seed` and says so."
    report = "https://github.com/langchain-ai/langchain-azure/issues/82"

    def refuse(self, request: Request) -> str | None:
        settings = request.body.get("generationConfig") or request.body
        return "Argument not supported: seed" if settings.get("seed") is not None else super().refuse(request)


class WholeCalls(Endpoint):
    name = "whole_calls"
    does = "Streams each call with all of its arguments in one chunk."
    report = "https://github.com/vllm-project/vllm/issues/30999"
    whole_calls = True


class Slow(Endpoint):
    name = "slow"
    does = "Waits 5 ms before each event of a stream."
    report = "https://github.com/dstackai/dstack/issues/4269"
    pause = 0.005


class StrictOptions(Endpoint):
    name = "strict_options"
    does = "Refuses each option that it doesn't know, by name."
    report = "https://github.com/voideditor/void/issues/128"
    known = frozenset(
        [
            "model",
            "messages",
            "tools",
            "tool_choice",
            "max_tokens",
            "stop",
            "stream",
            "stream_options",
            "temperature",
            "top_p",
            "response_format",
            "input",
            "instructions",
            "max_output_tokens",
            "text",
            "store",
            "include",
            "previous_response_id",
            "system",
            "stop_sequences",
            "contents",
            "systemInstruction",
            "generationConfig",
            "toolConfig",
        ]
    )

    def refuse(self, request: Request) -> str | None:
        unknown = [name for name in request.body if name not in self.known]
        return f"Extra inputs are not permitted: {', '.join(unknown)}" if unknown else super().refuse(request)


class OtherCasing(Endpoint):
    name = "other_casing"
    does = "Is asked for `sim-1` and names the same model with its owner and capital letters: `sim-labs/Sim-1`."
    report = "https://github.com/diegosouzapw/OmniRoute/pull/5135"

    def knows(self, name: str) -> bool:
        return name.lower().rpartition("/")[2] == "sim-1"

    def served_model(self, request: Request) -> str:
        return "sim-labs/Sim-1"


class DatedSnapshots(Endpoint):
    name = "dated_snapshots"
    does = "Answers for an alias with the dated model that it stands for."
    report = "https://dev.to/multigrid/checking-model-name-strings-before-a-migration-4795"
    models = ("sim-1", "sim-1-2026-08-06")

    def served_model(self, request: Request) -> str:
        return "sim-1-2026-08-06"


HONEST: tuple[type[Endpoint], ...] = (
    StrictReasoning,
    OwnTokenizer,
    NoTools,
    InlineReasoning,
    NoSeed,
    WholeCalls,
    Slow,
    StrictOptions,
    OtherCasing,
    DatedSnapshots,
)


def by_name(kinds: Iterable[type[Endpoint]]) -> dict[str, type[Endpoint]]:
    return {kind.name: kind for kind in kinds}
