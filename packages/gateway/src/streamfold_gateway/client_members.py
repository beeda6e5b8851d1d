"""Filters the fields of a client's request. The gateway sends documented fields to the provider, but not fields that
choose a model, an address or an API key.

The gateway's operator chooses the model, the address and the API key. Many model servers have request fields, mostly
undocumented, that override these choices: `models` and `route` (OpenRouter), `fallbacks`, `api_base` and `user_config`
(LiteLLM), `providerOptions.gateway.models` (Vercel), `lora_path` and `bootstrap_host` (SGLang),
`kv_transfer_params.remote_host` (vLLM), `generationConfig.routingConfig` (Vertex AI). The filter recognizes such fields
by words in their names, so it also works for unknown servers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from streamfold.serving import camel_name

Known: TypeAlias = Mapping[str, "Known | None"]
"""The documented members of an object; None for a value that is the caller's data and isn't filtered."""


def _names(text: str) -> dict[str, Known | None]:
    return dict.fromkeys(text.split())


# https://docs.vllm.ai/en/latest/serving/openai_compatible_server/#chat-api_1,
# https://docs.sglang.ai/basic_usage/sampling_params.html,
# https://github.com/ggml-org/llama.cpp/tree/master/tools/server
# Missing on purpose: other names for the length or the number of answers (`n_predict`, `n_cmpl`, `best_of`), which the
# reservation of a budget would miss, and code that the server would run (`custom_logit_processor`).
_SERVERS = _names(
    """
    add_generation_prompt add_special_tokens allowed_token_ids bad_words cache_prompt cache_salt chat_template
    chat_template_kwargs continue_final_message custom_params documents dry_allowed_length dry_base dry_multiplier
    dry_penalty_last_n dry_sequence_breakers dynatemp_exponent dynatemp_range ebnf echo extra_key frequency_penalty
    grammar grammar_lazy grammar_triggers guided_choice guided_decoding_backend guided_grammar guided_json guided_regex
    guided_whitespace_pattern id_slot ignore_eos include_reasoning include_stop_str_in_output json_schema length_penalty
    logit_bias max_dynamic_patch media_io_kwargs min_dynamic_patch min_keep min_p min_tokens mirostat mirostat_eta
    mirostat_tau mm_processor_kwargs n_discard n_indent n_keep n_probs no_stop_trim parse_tool_calls
    post_sampling_probs presence_penalty preserved_tokens priority prompt_logprobs reasoning_format regex repeat_last_n
    repeat_penalty repetition_penalty request_id response_fields return_hidden_states return_progress return_token_ids
    return_tokens return_tokens_as_token_ids rid samplers seed separate_reasoning session_params skip_special_tokens
    spaces_between_special_tokens stop stop_regex stop_token_ids stream_reasoning structural_tag structured_outputs
    t_max_predict_ms thinking_forced_open thinking_token_budget timings_per_token top_k top_n_sigma top_p
    truncate_prompt_tokens typical_p use_audio_in_video vllm_xargs xtc_probability xtc_threshold
    """
)
_REASONING: Known = _names("effort enabled exclude generate_summary max_tokens summary")
_THINKING: Known = _names("budget_tokens clear_thinking display keep type")

# `service_tier`, `speed` and `inference_geo` are missing on purpose: they change what a token costs.
# https://platform.openai.com/docs/api-reference/chat/create, and the switches for thinking that our adapters write.
CHAT_MEMBERS: Known = {
    **_SERVERS,
    **_names(
        """
        audio cache_control enable_thinking function_call functions logprobs max_completion_tokens max_tokens messages
        metadata modalities model n parallel_tool_calls prediction preserve_thinking prompt_cache_key prompt_mode
        prompt_cache_retention random_seed reasoning_effort reasoning_split response_format safe_prompt
        safety_identifier store stream stream_options temperature think thinking_budget tool_choice tool_stream tools
        top_logprobs transforms user user_id verbosity web_search_options
        """
    ),
    "reasoning": _REASONING,
    "thinking": _THINKING,
}
# https://platform.openai.com/docs/api-reference/responses/create
RESPONSES_MEMBERS: Known = {
    **_SERVERS,
    **_names(
        """
        access_programs background client_metadata context_management conversation include input instructions
        max_output_tokens max_tool_calls metadata model n parallel_tool_calls previous_response_id prompt
        prompt_cache_key prompt_cache_retention safety_identifier store stream stream_options temperature tool_choice
        tools top_logprobs truncation user
        """
    ),
    "reasoning": _REASONING,
    "text": _names("format verbosity"),
}
# https://docs.anthropic.com/en/api/messages
MESSAGES_MEMBERS: Known = {
    **_names(
        """
        betas cache_control compaction container context_management max_tokens mcp_servers messages metadata model
        output_format
        stop_sequences stream system temperature tool_choice tools top_k top_p
        """
    ),
    "output_config": _names("effort format task_budget"),
    "thinking": _THINKING,
}
# https://ai.google.dev/api/generate-content, in camel case; Google reads snake case too.
_GEMINI: dict[str, Known | None] = {
    **_names("cachedContent contents labels model safetySettings store systemInstruction tools"),
    "toolConfig": _names("functionCallingConfig includeServerSideToolInvocations retrievalConfig"),
    "generationConfig": {
        **_names(
            """
            _responseJsonSchema audioTimestamp candidateCount enableAffectiveDialog enableEnhancedCivicAnswers
            frequencyPenalty imageConfig logprobs maxOutputTokens mediaResolution presencePenalty responseFormat
            responseJsonSchema responseLogprobs responseMimeType responseModalities responseSchema seed speechConfig
            stopSequences temperature topK topP
            """
        ),
        "thinkingConfig": _names("includeThoughts thinkingBudget thinkingLevel"),
    },
}
GEMINI_MEMBERS: Known = {**_GEMINI, "generateContentRequest": _GEMINI}  # the fields of countTokens
# https://ai.google.dev/api/interactions-api
INTERACTIONS_MEMBERS: Known = {
    **_names(
        """
        agent background input labels model previous_interaction_id response_format safety_settings store stream
        system_instruction tools
        """
    ),
    "generation_config": _names(
        """
        image_config max_output_tokens seed speech_config stop_sequences temperature thinking_level thinking_summaries
        tool_choice top_p transcription_config video_config
        """
    ),
}

_MODEL_WORDS = frozenset({
    "deployment", "deployments", "fallback", "fallbacks", "lora", "loras", "model", "models", "preset", "presets",
    "route", "router", "routers", "routes", "routing", "targets",
})  # fmt: skip
_PLACE_WORDS = frozenset({
    "apibase", "apikey", "apikeys", "auth", "authentication", "authorization", "baseurl", "bearer", "byok",
    "credential", "credentials", "endpoint", "endpoints", "headers", "host", "hostname", "hosts", "litellm",
    "organization", "password", "proxy", "secret", "secrets", "tenant", "tensorzero", "upstream", "upstreams", "uri",
    "url", "urls",
})  # fmt: skip
_PLACE_PAIRS = frozenset({
    ("access", "key"), ("access", "token"), ("ad", "token"), ("api", "base"), ("api", "key"), ("api", "keys"),
    ("api", "token"), ("api", "type"), ("api", "version"), ("auth", "token"), ("base", "url"), ("hf", "token"),
    ("kv", "transfer"), ("llm", "provider"), ("private", "key"), ("provider", "key"), ("region", "name"),
    ("session", "token"), ("user", "config"), ("virtual", "key"),
})  # fmt: skip
_VENDORS = ("aws", "azure", "bedrock", "bootstrap", "gcp", "remote", "sagemaker", "vertex", "watsonx")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LETTERS = re.compile(r"[a-z]+")
_CONVERSATIONS = ("contents", "input", "messages")
_OF_MESSAGES = frozenset({"content", "id", "model", "name", "parts", "role", "status", "tool_calls", "type"})
# Fields of tools that contain the client's own data: schemas, grammars, headers for an MCP server.
_OF_TOOLS = frozenset({"custom", "format", "function", "functionDeclarations", "headers", "input_schema"})
_FUNCTIONS = (None, "builtin_function", "custom", "function")  # types of tools that the client runs


def chooses_model(name: str) -> bool:
    """Returns whether a request field chooses a model, judging by the words in its name.

    >>> [chooses_model(name) for name in ("models", "fallbackModels", "model_list", "lora_path", "modalities")]
    [True, True, True, True, False]
    """
    return any(not _MODEL_WORDS.isdisjoint(words) for words in _readings(name))


def chooses_destination(name: str) -> bool:
    """Returns whether a request field chooses a model, an address or an API key, judging by the words in its name.

    >>> [chooses_destination(name) for name in ("apiBase", "aws_region_name", "user_config", "provider", "top_k")]
    [True, True, True, False, False]
    """
    for words in _readings(name):
        if not (_MODEL_WORDS.isdisjoint(words) and _PLACE_WORDS.isdisjoint(words)):
            return True
        if len(words) > 1 and words[0] in _VENDORS:
            return True
        if not _PLACE_PAIRS.isdisjoint(pairwise(words)):
            return True
    return False


def _readings(name: str) -> tuple[list[str], list[str]]:
    """Splits a field name into words in two ways: at capital letters (camel case), and only at characters that aren't
    letters. The second way is needed because Go servers ignore the case of field names.
    """
    return [word.lower() for word in _WORD.findall(name)], _LETTERS.findall(name.lower())


@dataclass(slots=True)
class MemberFilter:
    """Removes from a client's request the fields that must not reach a provider.

    Args:
        known: the documented fields of the client's API.
        only_known: also remove undocumented fields.
        passthrough: the paths of undocumented fields that `only_known` doesn't remove, such as `plugins`.
        any_model: true if a request may choose the model that a hosted tool uses.

    Attributes:
        destinations: the paths of removed fields that choose a model, an address or an API key.
        unknown: the paths of other removed fields, which are undocumented.
    """

    known: Known
    only_known: bool = False
    passthrough: Collection[str] = ()
    any_model: bool = True
    destinations: list[str] = field(default_factory=list, init=False)
    unknown: list[str] = field(default_factory=list, init=False)

    def filter(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a copy of the request body without the fields that the filter removes."""
        kept = self._object(body, self.known, "")
        for name, value in kept.items():
            if not isinstance(value, list):
                continue
            if name == "tools":
                kept[name] = self._tools(value, name)
            elif name in _CONVERSATIONS:
                kept[name] = [self._message(entry, f"{name}[{at}]") for at, entry in enumerate(value)]
        return kept

    def _object(self, value: Mapping[str, Any], known: Known, prefix: str) -> dict[str, Any]:
        kept = {}
        for name, inner in value.items():
            documented = name if name in known else camel_name(name)
            where = prefix + name
            if documented in known:
                members = known[documented]
                is_object = members is not None and isinstance(inner, Mapping)
                kept[name] = self._object(inner, members or {}, f"{where}.") if is_object else inner
            elif not isinstance(inner, bool) and chooses_destination(name):  # `allow_fallbacks: false` chooses nothing
                self._remove(self.destinations, where, inner)
            elif self.only_known and where not in self.passthrough:
                self._remove(self.unknown, where, inner)
            else:
                kept[name] = self._without_destinations(inner, where)
        return kept

    def _without_destinations(self, value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [self._without_destinations(entry, f"{where}[{at}]") for at, entry in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        kept = {}
        for name, inner in value.items():
            if not isinstance(inner, bool) and chooses_destination(name):
                self._remove(self.destinations, f"{where}.{name}", inner)
            else:
                kept[name] = self._without_destinations(inner, f"{where}.{name}")
        return kept

    def _message(self, message: Any, where: str) -> Any:
        """Filters the fields of a message, except its content and its tool calls."""
        if not isinstance(message, Mapping) or message.keys() <= _OF_MESSAGES:
            return message
        kept = dict(message)
        for name in message.keys() - _OF_MESSAGES:
            if chooses_destination(name):
                self._remove(self.destinations, f"{where}.{name}", kept.pop(name))
        return kept

    def _tools(self, tools: list[Any], where: str) -> list[Any]:
        return [self._tool(tool, f"{where}[{at}]", top=True) for at, tool in enumerate(tools)]

    def _tool(self, value: Any, where: str, *, top: bool = False) -> Any:
        """Filters the fields of a tool definition. Some hosted tools, such as image generation, have a field for a
        model.
        """
        if isinstance(value, list):
            return [self._tool(entry, f"{where}[{at}]") for at, entry in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        of_caller = top and value.get("type") in _FUNCTIONS
        kept = {}
        for name, inner in value.items():
            if name == "tools" and isinstance(inner, list):
                kept[name] = self._tools(inner, f"{where}.tools")
            elif camel_name(name) in _OF_TOOLS or name in _OF_TOOLS or (of_caller and name == "parameters"):
                kept[name] = inner
            elif not isinstance(inner, bool) and chooses_model(name) and not (name == "model" and self.any_model):
                self._remove(self.destinations, f"{where}.{name}", inner)
            else:
                kept[name] = self._tool(inner, f"{where}.{name}")
        return kept

    @staticmethod
    def _remove(removed: list[str], where: str, value: Any) -> None:
        if value not in (None, [], {}, ""):  # these values have no effect
            removed.append(where)
