"""ReplyWarning, and the list of warning codes with what each means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WarningCode = Literal[
    # how the stream ended
    "unknown_finish_reason",  # the finish reason is unknown; the detail has it
    "missing_finish_reason",  # the stream ended in order, but without a finish reason
    "interrupted_after_finish",  # the connection broke after the finish reason; the answer is complete
    "error_after_finish",  # an error was reported after the finish reason; the answer is complete
    "truncated_event",  # the last event was cut in two; it held nothing that was needed
    "late_content",  # text or calls came after a finish reason; they are part of the answer
    "leaked_markup",  # the text contains tool calls as markup; the detail names the dialect that would read them
    "not_continued",  # the answer continues in the response to another request, which was not sent; the detail says why
    "empty_answer",  # the stream ended in order, with neither text nor calls
    # tool calls
    "calls_dropped",  # calls were in the stream and are not delivered; the detail says which and why
    "missing_tool_calls",  # the finish reason is tool_calls, but there are none
    "missing_id",  # a call had no id and was given a new one
    "changed_id",  # a call got a second id later on; the first one is used
    "duplicate_id",  # two calls of one message had the same id; the second one was given a new one
    "guessed_call",  # neither an index nor an id told which call a fragment belongs to; what usually comes next did
    "invalid_arguments",  # the arguments of a call are not a JSON object
    "repaired_arguments",  # the arguments were damaged in a known way and repaired; the detail names the repair
    "arguments_unwrapped",  # an object or a list in the arguments came as JSON text; the detail names it
    "arguments_mismatch",  # the arguments in pieces and their repetition as a whole differ
    "tool_choice_unmet",  # the request required a call, and none came
    "unfinished_markup",  # the answer ended inside a tool call that the model wrote into its text
    "markup_dropped",  # tool calls that the model wrote into its text are not delivered; the detail says why
    # the request
    "forced_choice_dropped",  # the model does not accept a forced choice, or not while it thinks; "auto" was sent
    "tool_choice_changed",  # the choice was sent in another form: tools that may not be chosen were left out
    "option_dropped",  # the option was not sent: the server or the model does not accept a value for it
    "option_changed",  # the server has no such value; the detail says what was sent instead
    "model_retires",  # the model's maker switches it off within 60 days, or did; the detail says when
    "api_changed",  # the model is served by the provider's other API alone, to which the request was sent
    "option_emulated",  # the model does not take the option; what it asks for is done here, as the detail says
    "parallel_calls_unmet",  # several calls came, though the request allows one at a time
    "schema_changed",  # a schema was sent in the form that the provider accepts; the detail says what was changed
    "response_format_changed",  # the form of the answer was requested in another way than by a schema
    "tool_dropped",  # the provider does not run this tool of other servers; it was not offered to the model
    "tool_renamed",  # the provider does not accept the name of a tool; calls have the tool's own name
    "cache_prefix_changed",  # what stands before a cache mark is not what the last request had there: the cache misses
    # the conversation
    # `repair_history=True`: a message was dropped, moved, added or given another id; the detail says which
    "history_repaired",
    "history_mismatch",  # some providers would refuse this conversation, or misread it; this one may not
    "lost_reasoning",  # the provider wants the reasoning of an earlier turn back, but the turn has none
    "reasoning_dropped",  # the reasoning of earlier turns was not sent: the provider does not accept it
    "provider_data_dropped",  # something that only another provider can read was not sent
    "special_tokens_escaped",  # special tokens of the model in the conversation were sent as text
    "turn_restored",  # the turn cache gave back what earlier turns had lost: reasoning, signatures, encrypted items
    "turn_cache_failed",  # what earlier turns have lost could not be looked up, or the answer not be remembered
    "ids_renumbered",  # calls and results were sent with ids in the provider's own style
    "tool_images_moved",  # images of a tool's result were sent in a user's message, the only place that accepts them
    # the API
    "usage_invalid",  # a count or a cost is negative, not finite, too large or not a number; it is not counted
    "usage_estimated",  # the server counted no tokens, so the budget was charged an estimate
    "input_maybe_truncated",  # the provider counted less than half of the tokens that the messages have
    "text_mismatch",  # a text in pieces and its repetition as a whole differ; what was shown stays
    "repeated_event",  # an event came twice, as when a stream is resumed; the second one is ignored
    "missing_event",  # the numbers of the events have a gap
    "extra_choice",  # the server sent more than one choice; only the first one is read
    "malformed_event",  # a line that is not part of an event, or an event after the finish that can't be read; ignored
    "unseparated_events",  # several payloads were in one event, because a blank line between them is missing
    "unrequested_encoding",  # the answer was compressed, which the request did not ask for; it was unpacked
    "invalid_utf8",  # bytes that are not UTF-8, or half a character in the request, were replaced by U+FFFD
    "more_warnings",  # there were more warnings than `Limits.warnings`; the detail says how many
]


@dataclass(frozen=True, slots=True)
class ReplyWarning:
    """A problem of the answer, and how it was handled."""

    code: WarningCode
    detail: str
