"""From what was asked to what an endpoint takes: checks, repairs and rewrites, each with its warning."""

from .capabilities import CAPABILITIES, Capabilities, Support
from .content_parsing import read_part
from .endpoint_rules import Rules, apply_rules, drop_force, emulated, schema_passes
from .headers import HEADER_NAME, header_name_problem, header_problem, read_headers
from .history import GO_ON, GO_ON_MESSAGE, HistoryRules, check_history, is_custom, says_nothing
from .hosted_tools import HostedForm, check_hosted, raw_tools, with_raw_tools, written_hosted
from .item_parsing import CALL_EXTRAS, CARRIED_CALL_EXTRAS, ITEM_EXTRAS, read_items
from .learned_restrictions import Lesson, lesson_from, with_lessons
from .message_parsing import read_messages
from .model_facts import EFFORTS, FACTS, NO_FAMILY, Facts, Family, ModelTable, Thinking, bare_name, joined
from .object_reader import Fields, kind_of
from .option_fitting import OptionRules, fit, nearest_effort, refuse_if_strict
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
from .prompt_cache import CachedPrefixes, has_cache_marks
from .reasoning_state import thinks
from .request import Request, at_endpoint
from .required_capabilities import describe_missing, is_forced, missing
from .token_escaping import escape_special_tokens
from .token_estimates import estimated_tokens, text_tokens
