"""What the words of errors mean. The bodies are written by us, in the forms that the servers' documentation shows."""

from __future__ import annotations

import tomllib
from typing import Any

from streamfold import (
    APIError,
    BadRequestError,
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    UnsupportedOptionError,
    UpstreamError,
)
from streamfold.catalogue_path import catalogue_folder
from streamfold.errors import error_info, status_error, upstream_error
from tables import each_row


def openai(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def detail(kind: str, *place: str | int, **context: Any) -> dict[str, Any]:
    entry = {"type": kind, "loc": ["body", *place], "msg": "Extra inputs are not permitted", "ctx": context}
    return {"object": "error", "message": {"detail": [entry]}, "type": "invalid_request_error", "code": None}


# The size of the prompt and of the window, where the server says them.
TOO_LONG: list[tuple[int, Any, int | None, int | None]] = [
    (400, openai("Too long", "context_length_exceeded"), None, None),
    (400, {"error": {"code": 400, "message": "no", "type": "exceed_context_size_error"}}, None, None),
    (400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, None, None),
    (400, openai("This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."),
     9001, 8192),
    (400, openai("This endpoint's maximum context length is 131,072 tokens. However, you requested about 141,607"
     " tokens (10535 of text input, 131072 in the output)."), 141607, 131072),
    (400, {"object": "error", "message": "This model's maximum context length is 8192 tokens and your request has 8100"
     " input tokens", "code": 400}, 8100, 8192),
    (400, openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 477469 tokens."),
     477469, 272000),
    (400, anthropic("prompt is too long: 210000 tokens > 200000 maximum"), 210000, 200000),
    (400, anthropic("input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease"),
     190000, 200000),
    (400, {"code": "x", "error": "This model's maximum prompt length is 131072 but the request contains 200000"
     " tokens."}, 200000, 131072),
    (400, {"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens"
     " allowed (1048576).", "status": "INVALID_ARGUMENT"}}, 1200000, 1048576),
    (400, {"error": {"code": 400, "message": "Unable to submit request because the input token count is 1100000 but the"
     " model only supports up to 1048576."}}, 1100000, 1048576),
    (400, openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
     300000, 262144),
    (400, {"message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context"
     " length", "type": "invalid_request_prompt", "code": "3051"}, 40000, 32768),
    (400, {"message": "Please reduce the length of the messages. Current length is 42328 while limit is 40000"},
     42328, 40000),
    (400, openai("Please reduce the length of the messages or completion."), None, None),
    (400, openai("invalid params, context window exceeds limit (2013)"), None, None),
    (400, {"error": {"message": "request (5000 tokens) exceeds the available context size (4096 tokens)"}}, 5000, 4096),
    (400, {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."}, 5000, 4096),
    (400, {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}, 5000, 4096),
    (400, {"message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"},
     None, 30720),
    (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 512"
     " `max_new_tokens`", "error_type": "validation"}, 5000, 4096),
    (413, {"error": {"code": "tokens_limit_reached", "message": "Request body too large for gpt-4o model. Max size:"
     " 8000 tokens."}}, None, 8000),
    (400, {"message": "length of prompt_tokens (40000) must be less than max_seq_len (32768).", "code": 20015},
     40000, 32768),
    (400, {"message": "Input is too long for requested model."}, None, None),
    (500, {"error": "the input length exceeds the context length"}, None, None),
    (400, {"error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with"
     " context length of only 4096 tokens"}, None, 4096),
    (400, {"error": {"message": "litellm.ContextWindowExceededError: it is too long"}}, None, None),
    (400, openai("Context length exceeded"), None, None),
    (400, openai("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens (1 in the"
     " messages)"), 9001, 8192),
    (400, openai("Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a"
     " total of 9001 tokens: 8001 tokens from the input messages and 1000 tokens for the completion."), 9001, 8192),
    (400, openai("The input token count 1200000 exceeds the maximum number of tokens allowed 1048576."),
     1200000, 1048576),
    (400, openai("Your input exceeds the context window of this model. Please adjust your input and try again."),
     None, None),
    (400, openai("the request exceeds the available context size. try increasing the context size"), None, None),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error": {"message":'
     ' "prompt is too long: 5 tokens > 4 maximum"}}', "provider_name": "Anthropic"}}}, 5, 4),
]  # fmt: skip


def test_prompts_that_are_too_long() -> None:
    """One class, with the numbers that the server gave; never retried, before the stream and inside it."""
    for status, body, tokens, limit in TOO_LONG:
        error = status_error(error_info(body, status), body=body)
        assert isinstance(error, ContextLengthError), body
        assert isinstance(error, BadRequestError)
        assert (error.tokens, error.limit, error.status_code, error.retryable) == (tokens, limit, status, False), body
        inside = upstream_error(error_info(body), body=body)
        assert isinstance(inside, ContextLengthError), body
        assert isinstance(inside, UpstreamError)
        assert (inside.tokens, inside.limit, inside.retryable) == (tokens, limit, False), body


FILTERED: list[tuple[int, Any, tuple[str, ...]]] = [
    (400, {"error": {"message": "filtered", "code": "content_filter", "innererror": {"code":
     "ResponsibleAIPolicyViolation", "content_filter_result": {"violence": {"filtered": True, "severity": "high"},
     "hate": {"filtered": False}, "jailbreak": {"filtered": False, "detected": True}}}}}, ("violence", "jailbreak")),
    (400, {"error": {"code": 400, "message": "The request was rejected", "type": "content_filter"}}, ()),
    (400, openai("no", "content_policy_violation"), ()),
    (400, openai("This request was blocked.", "cyber_policy"), ()),
    (400, openai("your prompt was flagged as potentially violating our usage policy", "invalid_prompt"), ()),
    (400, anthropic("Output blocked by content filtering policy"), ()),
    (400, {"error": {"code": "data_inspection_failed", "message": "Input data may contain something."}}, ()),
    (400, {"error": {"message": "Input data may contain inappropriate content."}}, ()),
    (400, {"error": {"code": "1301", "message": "unsafe or sensitive content"}, "contentFilter": [{"level": 1}]}, ()),
    (400, openai("Content Exists Risk"), ()),
    (400, openai("Your request was rejected as a result of our safety system."), ()),
    (403, {"code": "The caller does not have permission", "error": "Content violates usage guidelines. Team: t, Model:"
     " grok, Failed check: SAFETY_CHECK_TYPE_BIO"}, ("SAFETY_CHECK_TYPE_BIO",)),
    (403, {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["violence", "hate"],
     "flagged_input": "x"}}}, ("violence", "hate")),
    (500, {"base_resp": {"status_code": 1027}, "error": {"code": 1027, "message": "output new_sensitive"}}, ()),
]  # fmt: skip


def test_what_a_filter_stopped() -> None:
    """A filter's 403 is no question of the key, and is still caught as what its status says."""
    for status, body, categories in FILTERED:
        error = status_error(error_info(body, status), body=body)
        assert isinstance(error, ContentFilterError), body
        assert isinstance(error, PermissionDeniedError if status == 403 else BadRequestError), body
        assert (error.categories, error.retryable) == (categories, False), body
        inside = upstream_error(error_info(body), body=body)
        assert isinstance(inside, ContentFilterError), body
        assert inside.categories == categories


# The member, and what else is known of it: another name, bounds, values.
NOT_TAKEN: list[tuple[int, Any, str | None, dict[str, Any]]] = [
    (400, openai("Unsupported parameter: 'stop' is not supported with this model.", "unsupported_parameter", "stop"),
     "stop", {}),
    (400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
     " instead.", "unsupported_parameter", "max_tokens"), "max_tokens", {"instead": "max_completion_tokens"}),
    (400, openai("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is"
     " supported.", "unsupported_value", "temperature"), "temperature", {}),
    (400, openai("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values"
     " are: 'low', 'medium', and 'high'.", "unsupported_value", "reasoning_effort"), "reasoning_effort",
     {"allowed": ("low", "medium", "high")}),
    (400, openai("Unsupported value: 'temperature' is not supported with this model."), "temperature", {}),
    (400, openai("Unknown parameter: 'seed'.", "unknown_parameter", "seed"), "seed", {}),
    (400, openai("Unrecognized request argument supplied: reasoning_effort"), "reasoning_effort", {}),
    (400, openai("Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please"
     " use /v1/responses instead.", None, "reasoning_effort"), "reasoning_effort", {}),
    (400, openai("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 5 instead.",
     "integer_below_min_value", "max_output_tokens"), "max_output_tokens", {"least": 16.0}),
    (400, openai("Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead."),
     "temperature", {"most": 2.0}),
    (400, openai("max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you"
     " provided 100000.", None, "max_tokens"), "max_tokens", {"most": 16384.0}),
    (400, anthropic("`temperature` is deprecated for this model."), "temperature", {}),
    (400, anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
     "top_p", {}),
    (400, anthropic("temperature: range: 0..1"), "temperature", {"least": 0.0, "most": 1.0}),
    (400, anthropic("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for m"),
     "max_tokens", {"most": 64000.0}),
    (400, anthropic("output_config.effort: Input should be 'low', 'medium', 'high' or 'max'"), "output_config.effort",
     {"allowed": ("low", "medium", "high", "max")}),
    (400, anthropic("top_k: Extra inputs are not permitted"), "top_k", {}),
    (400, anthropic('tool_choice: type "tool" and "any" are not supported for this model.'), "tool_choice", {}),
    (400, anthropic("This model does not support the effort parameter."), "effort", {}),
    (400, {"code": "Client specified an invalid argument", "error": "Argument not supported on this model:"
     " presencePenalty"}, "presence_penalty", {}),
    (400, {"code": "invalid-argument", "error": "Model grok does not support parameter reasoningEffort."},
     "reasoning_effort", {}),
    (422, detail("extra_forbidden", "max_completion_tokens"), "max_completion_tokens", {}),
    (422, detail("extra_forbidden", "messages", 1, "assistant", "reasoning_content"),
     "messages.1.assistant.reasoning_content", {}),
    (422, detail("less_than_equal", "temperature", le=1.5), "temperature", {"most": 1.5}),
    (422, detail("enum", "reasoning_effort", expected="'none' or 'high'"), "reasoning_effort",
     {"allowed": ("none", "high")}),
    (400, {"message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]",
     "code": 400}, "seed", {}),
    (400, openai("'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property"
     " 'reasoning_content' is unsupported)]"), "reasoning_content", {}),
    (400, openai("`reasoning_effort` must be one of `low`, `medium`, or `high`"), "reasoning_effort",
     {"allowed": ("low", "medium", "high")}),
    (400, openai("`max_tokens` must be less than or equal to `8192`, the maximum value for this model"), "max_tokens",
     {"most": 8192.0}),
    (400, {"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "seeed": Cannot find field.',
     "status": "INVALID_ARGUMENT"}}, "seeed", {}),
    (400, {"error": {"code": 400, "message": "Unable to submit request because it has a maxOutputTokens value of 100000"
     " but the supported range is from 1 (inclusive) to 65537 (exclusive)."}}, "max_output_tokens",
     {"least": 1.0, "most": 65536.0}),
    (400, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), "max_tokens",
     {"least": 1.0, "most": 8192.0}),
    (400, {"message": "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"},
     "max_tokens", {"least": 1.0, "most": 8192.0}),
    (400, openai("invalid temperature: only 1 is allowed for this model"), "temperature", {}),
    (400, openai("The tool_choice parameter does not support being set to required or object in thinking mode"),
     "tool_choice", {}),
    (400, openai("litellm.UnsupportedParamsError: openai does not support parameters: ['temperature'], for model=o1"),
     "temperature", {}),
    (400, openai("deprecated", "deprecated_parameter", "temperature"), "temperature", {}),
    (400, openai('"m" does not support thinking'), "thinking", {}),
    (400, openai("temperature must be between 0 and 2"), "temperature", {"least": 0.0, "most": 2.0}),
    (400, openai("temperature must be 1 for this model"), "temperature", {}),
    (400, openai("Only the default temperature (1) is supported for this model"), "temperature", {}),
    (400, openai("too many tokens: max_tokens must be less than or equal to 4096 - received 9000."), "max_tokens",
     {"most": 4096.0}),
    (400, openai("max_tokens (9000) exceeds the model's limit of 4096"), "max_tokens", {"most": 4096.0}),
    (400, openai("This model supports at most 4096 completion tokens, whereas you provided 9000."), "max_tokens",
     {"most": 4096.0}),
    (400, {"message": "parallel_tool_calls is not supported", "code": "wrong_api_format"}, "parallel_tool_calls", {}),
    (400, openai("Additional properties are not allowed ('seed' was unexpected)"), "seed", {}),
    (400, openai("Unrecognized key(s) in object: 'seed'"), "seed", {}),
    (400, {"errors": [{"message": "property seed should not exist"}]}, "seed", {}),
    (400, openai("'seed' is not a supported parameter"), "seed", {}),
    (400, {"error": {"message": "Budget 0 is invalid. This model only works in thinking mode.", "status":
     "INVALID_ARGUMENT", "type": "INVALID_ARGUMENT"}}, "thinking_level", {}),
    (400, {"error": {"message": "Unable to submit request because it has a temperature value of 3 but the supported"
     " range is from 0 (inclusive) to 2.0001 (exclusive)."}}, "temperature", {"least": 0.0, "most": 2.0}),
    (400, {"error": {"message": "integer above maximum value, expected a value <= 32768", "param": "max_tokens"}},
     "max_tokens", {"most": 32768.0}),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error": {"message":'
     ' "Unsupported parameter", "code": "unsupported_parameter", "param": "seed"}}'}}}, "seed", {}),
]  # fmt: skip


def test_options_that_are_not_taken() -> None:
    """The member that the server named, and what it says of its name and value."""
    for status, body, param, more in NOT_TAKEN:
        error = status_error(error_info(body, status), body=body)
        assert isinstance(error, UnsupportedOptionError), body
        assert isinstance(error, BadRequestError)
        assert (error.param, error.retryable) == (param, False), body
        meaning = error_info(body, status).meaning(body)
        known = {name: getattr(meaning, name) for name in ("instead", "least", "most", "allowed")}
        assert {name: value for name, value in known.items() if value not in (None, ())} == more, body
        assert isinstance(upstream_error(error_info(body), body=body), UnsupportedOptionError)


def test_a_refused_member_is_named_in_the_message() -> None:
    """A server whose own words don't say which member it refuses is complemented; others are quoted."""
    refusal = {"detail": [{"type": "extra_forbidden", "loc": ["body", "tool_choice"], "msg": "Extra inputs"}]}
    error = status_error(error_info(refusal, 422), body=refusal)
    assert (error.param, str(error)) == ("tool_choice", "tool_choice: Extra inputs (HTTP 422)")  # type: ignore[attr-defined]
    named = openai("Unknown parameter: 'seed'.", "unknown_parameter", "seed")
    assert str(status_error(error_info(named, 400), body=named)) == "Unknown parameter: 'seed'. (HTTP 400)"


NO_MODEL: list[tuple[int, Any]] = [
    (404, openai("The model `gpt-99` does not exist or you do not have access to it.", "model_not_found")),
    (404, anthropic("model: claude-nova", "not_found_error")),
    (404, {"error": {"code": 404, "message": "models/gemini-99 is not found for API version v1beta"}}),
    (400, {"error": {"code": "1211", "message": "Model does not exist, please check the model code"}}),
    (400, openai("Model Not Exist")),
    (404, {"error": {"message": "model 'llama9' not found", "type": "not_found_error"}}),
    (404, {"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404}),
    (404, openai("Not found the model kimi-9 or Permission denied")),
    (400, openai("x/y is not a valid model ID")),
    (404, {"error": {"message": "No endpoints found for x/y.", "code": 404}}),
    (400, {"message": "Invalid model: mistral-99", "type": "invalid_model", "code": "1500"}),
    (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}),
    (404, {"code": "Some requested entity was not found", "error": "The model grok-99 does not exist or your team does"
     " not have access to it."}),
    (400, {"message": "The provided model identifier is invalid."}),
]  # fmt: skip


def test_models_that_do_not_exist() -> None:
    """A name that is wrong, whatever the status; a wrong path is another matter."""
    for status, body in NO_MODEL:
        error = status_error(error_info(body, status), body=body)
        assert isinstance(error, ModelNotFoundError), body
        assert isinstance(error, NotFoundError)
        assert error.status_code == status
    path = status_error(error_info("<html>404 Not Found</html>", 404))
    assert type(path) is NotFoundError


NO_MONEY: list[tuple[int, Any]] = [
    (400, anthropic("Your credit balance is too low to access the Anthropic API.")),
    (400, anthropic("You have reached your specified API usage limits. You will regain access on 2026-12-01.")),
    (402, {"error": {"message": "Insufficient Balance"}}),
    (429, openai("m", "insufficient_quota")),
    (429, openai("m", "credit_balance_exhausted")),
    (429, {"error": {"code": "1113", "message": "Your account is in arrears"}}),
    (429, {"error": {"code": "1310", "message": "Weekly limit"}}),
    (403, {"code": "x", "error": "Your team has either used all available credits or reached its limit."}),
    (403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}),
    (400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."}),
    (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota.",
     "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]}}),
]  # fmt: skip


def test_money_that_has_run_out() -> None:
    """It is never retried, whatever the status is."""
    for status, body in NO_MONEY:
        error = status_error(error_info(body, status), body=body, should_retry=True)
        assert type(error) is QuotaExceededError, body
        assert not error.retryable


OTHERS: list[tuple[int, Any, type[APIError]]] = [
    # Mistral's code for two things.
    (400, {"message": "Reasoning prompt mode is not enabled for this model", "code": "3051"}, BadRequestError),
    (400, openai("Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with"
     " length 80 instead.", "string_above_max_length", "user"), BadRequestError),
    (400, openai("Invalid value for 'messages'.", "invalid_value", "messages"), BadRequestError),
    (400, openai("max_tokens is too large: 5. Allowed is 4."), BadRequestError),
    (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, BadRequestError),
    (422, {"detail": [{"type": "string_type", "loc": ["body", "messages", 0, "content"], "msg": "Input should be a"
     " valid string", "input": "prompt is too long: 5 tokens > 4 maximum"}]}, BadRequestError),
    (403, {"error": {"message": "You have no permission"}}, PermissionDeniedError),
    (404, {"error": {"message": "Container not found", "type": "not_found_error"}}, NotFoundError),
    (404, anthropic("Not found", "not_found_error"), NotFoundError),
    (400, openai("Invalid schema for function 'f': 'type' is not supported"), BadRequestError),
    # Too fast is neither too long nor too poor.
    (429, openai("Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000. Please reduce the"
     " length of the messages.", "rate_limit_exceeded"), RateLimitError),
    (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota, please"
     " check your plan and billing details.", "details": [{"violations": [{"quotaId":
     "GenerateRequestsPerMinutePerProject"}]}]}}, RateLimitError),
    (429, {"error": {"code": "1302", "message": "Rate limit reached for requests"}}, RateLimitError),
    (503, {"error": {"message": "The model m was not found on this replica"}}, ServerError),
]  # fmt: skip


def test_errors_that_are_something_else() -> None:
    """The class by status stays where the words say nothing, or another thing."""
    for status, body, kind in OTHERS:
        assert type(status_error(error_info(body, status), body=body)) is kind, body


def test_each_row_of_the_table_can_be_read() -> None:
    """Rows have the keys that the file's head explains, and say who answers so."""
    rows = tomllib.loads((catalogue_folder() / "facts" / "errors.toml").read_text("utf-8"))["errors"]
    kinds = {"context_length", "content_filter", "unsupported_option", "model_not_found", "quota", "none"}
    keys = {"kind", "words", "says", "has", "member", "param", "seen", "sources"}
    assert {row["kind"] for row in rows} == kinds
    assert [row for row in rows if not row.keys() <= keys or not row.get("seen")] == []
    assert [row for row in rows if not row.keys() & {"words", "says", "has"}] == []


@each_row("text", ["a" * 4000, "model " * 600, "invalid " * 500, "'x', " * 800, "1," * 2000, "_a" * 2000])
def test_no_text_makes_the_table_slow(text: str) -> None:
    """Patterns are bounded: a message of the longest length is read with a few thousand steps each."""
    assert error_info({"error": {"message": text}}, 400).meaning() is None
