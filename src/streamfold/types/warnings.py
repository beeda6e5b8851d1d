"""`ReplyWarning`, and a table with the meaning of each warning code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WarningCode = Literal[
    # how the stream ended
    "unknown_finish_reason",  # the server sent an unknown finish reason; the detail names it
    "missing_finish_reason",  # the stream ended normally, but without a finish reason
    "interrupted_after_finish",  # the connection broke after the finish reason; the answer is complete
    "error_after_finish",  # the server reported an error after the finish reason; the answer is complete
    "truncated_event",  # the last SSE event was cut off; no part of the answer is missing
    "late_content",  # text or tool calls came after the finish reason; the answer includes them
    "leaked_markup",  # the text contains tool calls as markup; the detail names the dialect that can parse them
    "not_continued",  # the provider paused the answer, and streamfold did not continue it; the detail says why
    "empty_answer",  # the stream ended normally, but with neither text nor tool calls
    # tool calls
    "calls_dropped",  # tool calls arrived, but are not delivered; the detail says which and why
    "missing_tool_calls",  # the finish reason is tool_calls, but there are no tool calls
    "missing_id",  # a tool call had no id and got a new one
    "changed_id",  # a tool call got a second id later; the first id is used
    "duplicate_id",  # two tool calls of one message had the same id; the second tool call got a new id
    "guessed_call",  # a fragment of a tool call had neither index nor id; the order decided where it belongs
    "invalid_arguments",  # the arguments of a tool call are not a JSON object
    "repaired_arguments",  # the arguments of a tool call had a known defect and were repaired; the detail says how
    "arguments_unwrapped",  # an object or a list in the arguments was sent as a JSON string; the detail names it
    "arguments_mismatch",  # the server sent the arguments in pieces and again as a whole, and the two differ
    "tool_choice_unmet",  # the request required a tool call, but the model made none
    "unfinished_markup",  # the answer ended inside a tool call that the model wrote as text
    "markup_dropped",  # tool calls that the model wrote as text are not delivered; the detail says why
    # the request
    "forced_choice_dropped",  # the model does not accept a forced tool choice, at least while it thinks; "auto" is sent
    "tool_choice_changed",  # the API does not support the tool choice; the tools that the choice excludes were left out
    "option_dropped",  # an option was not sent, because the server or the model does not accept it
    "option_changed",  # an option was sent with another value; the detail explains the change
    "model_retires",  # the model is retired, or will be within 60 days; the detail has the date
    "api_changed",  # the request was sent to the provider's other API, because only that API serves the model
    "option_emulated",  # the model does not support an option; streamfold emulates it, as the detail says
    "parallel_calls_unmet",  # the model made several tool calls, although the request allows only one at a time
    "schema_changed",  # a JSON schema was changed, because the provider refuses it; the detail lists the changes
    "response_format_changed",  # the response format was requested in another way, such as by a tool call
    "tool_dropped",  # the provider does not support this hosted tool; the model was not offered it
    "tool_renamed",  # the provider does not accept the name of a tool; your program still sees the original name
    "cache_prefix_changed",  # the text before a cache mark has changed since the last request; the cache ends there
    # the conversation
    # `repair_history` dropped, moved or added a message, or changed an id; the detail says which
    "history_repaired",
    "history_mismatch",  # some providers would refuse or misread this conversation
    "lost_reasoning",  # the provider requires the reasoning of an earlier turn, but the history lacks it
    "reasoning_dropped",  # the reasoning of earlier turns was not sent, because the provider does not accept it
    "provider_data_dropped",  # data that only another provider can read was not sent
    "special_tokens_escaped",  # special tokens of the model in the conversation were sent as plain text
    "turn_restored",  # the turn cache restored reasoning, signatures or encrypted items that the history lacked
    "turn_cache_failed",  # the turn cache could not be read or written
    "ids_renumbered",  # ids of tool calls and results were replaced by ids in the provider's format
    "tool_images_moved",  # images of a tool result were sent in a user message, as the provider requires
    "conversation_restarted",  # the provider no longer has the stored conversation, so all messages were sent
    # the API
    "usage_invalid",  # a token count or a cost is negative, not finite, too large or not a number; it is not counted
    "usage_estimated",  # the server reported no tokens, so the budget was charged an estimate
    "input_maybe_truncated",  # the provider counted less than half of the expected input tokens
    "text_mismatch",  # the server sent a text in pieces and as a whole, and the two differ; `reply.text` has the pieces
    "repeated_event",  # an SSE event came twice, as when a stream is resumed; the second one is ignored
    "missing_event",  # the sequence numbers of the SSE events have a gap
    "extra_choice",  # the server sent more than one choice; only the first one is read
    "malformed_event",  # a line or an SSE event could not be parsed and was ignored; the answer is usable without it
    "unseparated_events",  # several payloads were in one SSE event, because the blank line between them is missing
    "unrequested_encoding",  # the response was compressed although the request did not allow that; it was decompressed
    "invalid_utf8",  # bytes that are not UTF-8, or half a surrogate pair in the request, were replaced by U+FFFD
    "more_warnings",  # there were more warnings than `Limits.warnings`; the detail has the number
]


@dataclass(frozen=True, slots=True)
class ReplyWarning:
    """A problem with the answer or the request. `detail` describes the problem and how streamfold handled it."""

    code: WarningCode
    detail: str
