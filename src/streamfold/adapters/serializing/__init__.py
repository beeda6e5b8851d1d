"""The common part of the writers of answers: deltas in, server-sent events out."""

from .call_state import SerializedCall, is_complete_object
from .delta_order import DeltaOrder
from .reply_deltas import end_deltas, error_delta, has_items, keep_call_kinds, reply_deltas, without_non_finite
from .reply_writer import ReplyWriter
from .stream_serializer import (
    AnswerWriter,
    SerializerArguments,
    StreamSerializer,
    comment,
    event,
    json_text,
    openai_error_body,
)
