"""Text that is JSON, or nearly: parsing, repairs, paths, references, hosts."""

from .arguments import ParsedArguments, invalid_arguments, is_empty, is_empty_wrapper, read_arguments
from .hosts import is_loopback
from .jsontext import (
    canonical_json,
    dump_compact,
    is_truncated_json,
    join_surrogates,
    parse_event,
    parse_object,
    partial_event,
    partial_value,
    replace_non_finite,
    whole_characters,
    without_surrogates,
)
from .paths import PathValue, PathValues
from .references import check_references, expand_variables, shown_url, variable_names
