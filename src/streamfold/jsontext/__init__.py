"""Parsers for valid, damaged and incomplete JSON text. This package imports no other part of streamfold."""

from .incremental import BracketTracker, PathValue, PathValues
from .parsing import (
    ERROR_KEYS,
    amount,
    as_count,
    canonical_json,
    clean_json,
    count_or_none,
    count_or_zero,
    dump_compact,
    int_or_none,
    is_done,
    is_truncated_json,
    join_surrogates,
    object_or_none,
    parse_event,
    parse_object,
    parse_or_text,
    partial_event,
    partial_value,
    replace_non_finite,
    str_or_none,
    whole_characters,
    whole_number,
)
from .tool_arguments import ParsedArguments, invalid_arguments, is_empty, is_empty_wrapper, read_arguments
