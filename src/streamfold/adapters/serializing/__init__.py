"""The common part of the writers of answers: deltas in, server-sent events out."""

from .delta_order import DeltaOrder
from .passthrough import Passthrough
from .reply_deltas import end_deltas, error_delta, has_items, keep_call_kinds, without_non_finite
from .reply_writer import ReplyWriter
from .stream_patcher import StreamPatcher
from .stream_serializer import SerializerArguments, StreamSerializer, comment, event, json_text, openai_error_body
