"""Text that is JSON, or nearly: parsing, repairs, paths, references, hosts."""

from .arguments import ParsedArguments, is_empty, is_of_empty, read_arguments, unparsed
from .hosts import is_loopback
from .jsontext import (
    canonical_json,
    compact,
    finite,
    join_surrogates,
    parse_event,
    parse_object,
    parse_partial,
    partial_event,
    partial_value,
    whole_characters,
    without_surrogates,
)
from .paths import PathValue, PathValues
from .references import check_references, filled, referenced, shown_url
