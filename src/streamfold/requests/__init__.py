"""Validates requests and adapts them to an endpoint, with a warning for each change.

request                 `Request`, the parsed request, independent of the API
options                 the options of a request, and its headers
option_fitting          adapts options to a model, an endpoint and an API; whether a model thinks about a request
endpoint_rules          adapts tool names, schemas and response formats
schema                  rewrites JSON schemas for providers that support a subset of the standard
hosted_tools            checks which hosted tools an endpoint supports
required_capabilities   the capabilities that a request needs, and the error if the model lacks one
model_facts             the data types for facts about models; `config` finds a model's facts
message_parsing         converts messages in every accepted format to `Message`
object_reader           reads an untrusted JSON object, with the path of the field in errors
history                 adapts a conversation to an endpoint, also one that another provider has compacted
added_tools             handles tools that messages add inside a conversation
signed_reasoning        finds turns with signed reasoning, and removes their reasoning
special_token_escaping  escapes special tokens in messages
stored_conversation     finds the part of a conversation that the provider has stored
message_digests         digests that identify messages when they are sent again
prompt_cache            detects prompt cache misses
token_estimates         estimates tokens
"""

from ..public_names import set_public_module
from .added_tools import added_tool_key, offer_added_tools
from .endpoint_rules import Rules, apply_rules, drop_forced_tool_choice, emulatable_capabilities, schema_passes
from .history import (
    CONTINUE_PROMPT,
    GO_ON_MESSAGE,
    HistoryRules,
    fit_history,
    is_blank_message,
    read_foreign_compactions,
)
from .hosted_tools import HostedEndpoint, HostedForm, check_hosted, raw_tools, with_raw_tools, written_hosted
from .message_digests import call_values, content_values, digest_parts, part_value
from .message_parsing import CALL_EXTRAS, CARRIED_CALL_EXTRAS, ITEM_EXTRAS, read_items, read_messages, read_part
from .model_facts import (
    CAPABILITIES,
    EFFORTS,
    FACTS,
    NO_FAMILY,
    Capabilities,
    Family,
    ModelFacts,
    ModelTable,
    Support,
    Thinking,
    bare_name,
    merge_facts,
    retirement_notice,
)
from .object_reader import ObjectReader, kind_of
from .option_fitting import (
    OptionRules,
    fit_options,
    fit_sampling,
    is_reasoning_enabled,
    nearest_effort,
    refuse_if_strict,
    report_unsent_options,
)
from .options import (
    HEADER_NAME,
    NO_OPTIONS,
    OPTION_SYNONYMS,
    ChatOptions,
    Options,
    ReasoningEffort,
    ResponseFormat,
    TimeoutOptions,
    check_max_continuations,
    check_stream,
    header_name_problem,
    header_problem,
    read_format,
    read_headers,
    read_response_format,
)
from .prompt_cache import PromptCacheMonitor, has_cache_marks
from .request import Request, with_endpoint_defaults
from .required_capabilities import describe_missing, is_forced, missing_capabilities
from .schema import schema_digest, schema_rules
from .signed_reasoning import is_thinking_block, signed_turn, without_signed_reasoning
from .special_token_escaping import escape_special_tokens
from .stored_conversation import StoredConversation, continue_stored, digest_with
from .token_estimates import estimated_tokens, least_text_tokens, text_tokens

set_public_module(
    "streamfold.types", [Capabilities, Options, ReasoningEffort, Request, ResponseFormat, Support, TimeoutOptions]
)
