"""Honest servers of different habits. None of them changes what is sent or said; an accusation of one is a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from simulated_endpoints import model
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
            if message.calls and not message.reasoning and request.effort != "none" and request.api == "chat":
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


class OneSystemMessage(Endpoint):
    name = "one_system_message"
    does = "Refuses a system message that isn't the first message, as Qwen's chat template does."
    report = "https://github.com/falabellamichael/SignalR.E.A.C.H/pull/78"

    def refuse(self, request: Request) -> str | None:
        later = any(one.role == "system" for one in request.messages[1:])
        return "System message must be at the beginning." if later else super().refuse(request)


class NoDeveloperRole(Endpoint):
    name = "no_developer_role"
    does = "Refuses the developer role."
    report = "https://github.com/peonist-ai/halogen-flash-server/issues/32"

    def refuse(self, request: Request) -> str | None:
        if any(one.role == "developer" for one in request.messages):
            return "chat template rejected the request: Unexpected message role."
        return super().refuse(request)


class WindowSaid(Endpoint):
    name = "window_said"
    does = "Has a window of 4,096 tokens, and refuses what doesn't fit with both numbers."
    report = "https://github.com/ollama/ollama/issues/17889"

    def refuse(self, request: Request) -> str | None:
        count = model.input_tokens(request, self.tokens)
        said = f"This model's maximum context length is 4096 tokens. However, your messages resulted in {count} tokens."
        return said if count > 4096 else super().refuse(request)


class PrefixCache(Endpoint):
    name = "prefix_cache"
    does = "Caches prefixes of at least 64 tokens, and counts them as cached when they come again, inside the input."
    report = "https://github.com/kekzl/imp/pull/1984"

    def __init__(self) -> None:
        super().__init__()
        self._prefixes: set[str] = set()

    def count(self, request: Request, seen: Request, answer: Answer) -> Usage:
        usage = super().count(request, seen, answer)
        whole = self.tokens("\n".join(f"{one.role}: {one.text}" for one in seen.messages))
        prefixes = ["".join(whole[:at]) for at in range(64, len(whole) + 1, 64)]
        known = [at for at, prefix in enumerate(prefixes, 1) if prefix in self._prefixes]
        self._prefixes.update(prefixes)
        return replace(usage, cached=64 * known[-1] if known else 0)


class HiddenReasoning(Endpoint):
    name = "hidden_reasoning"
    does = "Thinks and counts it, and shows nothing of it in Chat Completions, as OpenAI does."
    report = "https://github.com/experientiallabs/experiential/pull/954"
    effort = "low"

    def alter(self, request: Request, answer: Answer) -> Answer:
        return replace(answer, reasoning="") if request.api == "chat" else answer


class SampledWording(Endpoint):
    name = "sampled_wording"
    does = "Words its own prose and greetings differently each time, as a sampling model does, with a seed as well."
    report = "https://github.com/googleapis/js-genai/issues/310"

    def decide(self, request: Request) -> Answer:
        answer = super().decide(request)
        number = int(self.new_id(""), 16)
        prompt, _ = model.last_prompt(request.messages)
        words = len(answer.text.split())
        if words > 20 and answer.text == model.prose(words, prompt):
            return replace(answer, text=model.prose(words, f"{prompt}{number}"))
        if answer.text.startswith("Hello!"):
            greetings = ("Hello! How can I help you today?", "Hello! What can I do for you?", "Hello there! Ask away.")
            return replace(answer, text=greetings[number % 3])
        return answer


class SpeaksBeforeCalls(Endpoint):
    name = "speaks_before_calls"
    does = "Says a sentence before it calls a tool, and never the same one twice in succession."
    report = "https://github.com/vllm-project/vllm/issues/56263"

    def decide(self, request: Request) -> Answer:
        answer = super().decide(request)
        said = ("I'll look that up.", "Let me use the tool for that.", "One moment, please.")
        return replace(answer, text=said[int(self.new_id(""), 16) % 3]) if answer.calls else answer


class NoStructuredOutput(Endpoint):
    name = "no_structured_output"
    does = "Refuses a response format."
    report = "https://github.com/justrach/codegraff/issues/543"

    def refuse(self, request: Request) -> str | None:
        return "This response_format type is unavailable now" if request.schema is not None else super().refuse(request)


class LeastOutput(Endpoint):
    name = "least_output"
    does = "Refuses limits below 16 output tokens."
    report = "https://github.com/vectorize-io/hindsight/issues/58"

    def refuse(self, request: Request) -> str | None:
        small = request.max_tokens is not None and request.max_tokens < 16
        return (
            "Invalid 'max_output_tokens': integer below minimum value. Expected >= 16."
            if small
            else super().refuse(request)
        )


class OneCallATurn(Endpoint):
    name = "one_call_a_turn"
    does = "Has a model that makes one call a turn, whatever is allowed."
    report = "https://github.com/vllm-project/vllm/issues/11592"

    def see(self, request: Request) -> Request:
        return replace(request, parallel=False)


class ForgetsEarlierThoughts(Endpoint):
    name = "forgets_earlier_thoughts"
    does = "Reads reasoning within a turn, and leaves out that of earlier turns, as its chat template is meant to."
    report = "https://github.com/tinfoilsh/tinfoil-webapp/issues/564"
    effort = "low"

    def see(self, request: Request) -> Request:
        _, begin = model.last_prompt(request.messages)
        kept = [one if at >= begin else replace(one, reasoning=None) for at, one in enumerate(request.messages)]
        return replace(request, messages=tuple(kept))


MORE_HONEST: tuple[type[Endpoint], ...] = (
    OneSystemMessage,
    NoDeveloperRole,
    WindowSaid,
    PrefixCache,
    HiddenReasoning,
    SampledWording,
    SpeaksBeforeCalls,
    NoStructuredOutput,
    LeastOutput,
    OneCallATurn,
    ForgetsEarlierThoughts,
)
"""Found in a second reading of the reports."""


def by_name(kinds: Iterable[type[Endpoint]]) -> dict[str, type[Endpoint]]:
    return {kind.name: kind for kind in kinds}
