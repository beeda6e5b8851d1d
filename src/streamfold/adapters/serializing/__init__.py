"""The common part of the writers of answers: deltas in, server-sent events out."""

from .delta_order import Order
from .passthrough import Passage
from .reply_deltas import end_deltas, error_delta, items_tell, jsonable, with_kinds
from .reply_writer import ReplyWriter
from .stream_patcher import StreamPatcher
from .stream_serializer import Emitter, comment, error_body, event, json_text
