"""The common part of the writers of answers: deltas in, server-sent events out."""

from .answers import end_deltas, error_delta, items_tell, jsonable, with_kinds
from .emitter import Emitter, comment, error_body, event, json_text
from .order import Order
from .passage import Passage
from .patcher import StreamPatcher
from .writer import ReplyWriter
