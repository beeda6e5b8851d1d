"""From what was asked to what an endpoint takes: checks, repairs and rewrites, each with its warning."""

from .caching import CachedPrefixes, has_cache_marks
from .capabilities import CAPABILITIES, Capabilities, Support
from .estimates import estimated_tokens, text_tokens
from .families import EFFORTS, FACTS, NO_FAMILY, Facts, Family, ModelTable, Thinking, bare_name, joined
from .fields import Fields, kind_of
from .fit import OptionRules, fit, nearest_effort, refuse_if_strict
from .headers import HEADER_NAME, header_name_problem, header_problem, read_headers
from .history import GO_ON, GO_ON_MESSAGE, HistoryRules, check_history, is_custom, says_nothing
from .hosted import HostedForm, check_hosted, raw_tools, with_raw_tools, written_hosted
from .items import CALL_EXTRAS, CARRIED_CALL_EXTRAS, ITEM_EXTRAS, read_items
from .lessons import Lesson, lesson_from, with_lessons
from .messages import read_messages
from .options import (
    NO_OPTIONS,
    ChatOptions,
    Options,
    ReasoningEffort,
    ResponseFormat,
    TimeoutOptions,
    check_stream,
    read_format,
    read_response_format,
)
from .parts import read_part
from .request import Request, at_endpoint
from .requirements import describe_missing, is_forced, missing
from .rewrite import Rules, apply_rules, drop_force, emulated, schema_passes
from .thinks import thinks
from .token_escaping import escape_special_tokens
